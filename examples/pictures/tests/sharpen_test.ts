/**
 * The example that sharpens pictures.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { tensor } from "../../../mod.ts";
import { sharpen } from "../sharpen.ts";

test("flat pictures stay as they are, a step becomes steeper", () => {
  const row = [100, 100, 100, 190, 190, 190];
  const x = tensor([row, row, row], { dtype: "uint8" }).expandDims(2);
  const sharp = [100, 100, 70, 220, 190, 190];
  assertEquals(sharpen(x).squeeze(2).toArray() as unknown, [sharp, sharp, sharp]);
});
