/**
 * Random programs of images and rows give compiled what they give alone: with the library and without,
 * with one pass less than all of them, in tiles of a few rows, and their derivatives.
 *
 * @module
 */
import { assert } from "@std/assert";
import { test } from "node:test";
import { amountIn } from "../support/engine.ts";
import { checkImageDerivatives, checkImages } from "./random_images.ts";
import { testOnBackends, withTiles } from "./support.ts";

const [FROM, SEEDS] = [50, amountIn(20, 4, 300)];
const lengthOf = (seed: number): number => 2 + seed % 30;

testOnBackends("random programs of images", async () => {
  for (let seed = FROM; seed < FROM + SEEDS; seed++) await checkImages(seed, lengthOf(seed));
});

test("random programs of images in tiles of a few rows", async () => {
  using _ = withTiles({ tile: 300, least: 0 });
  for (let seed = 5000; seed < 5000 + SEEDS; seed++) await checkImages(seed, lengthOf(seed));
});

testOnBackends("derivatives of random programs of images", () => {
  let count = 0;
  for (let seed = FROM; seed < FROM + SEEDS; seed++) {
    if (checkImageDerivatives(seed, 2 + seed % 14)) count++;
  }
  assert(count > SEEDS / 2);
});
