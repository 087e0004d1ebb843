/**
 * The transformer learns a short text by heart.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { test } from "node:test";
import { random } from "../../../mod.ts";
import { learn, write } from "../model.ts";

const TEXT = "the quick brown fox jumps over the lazy dog. ".repeat(12);
const SIZES = { context: 24, width: 32, heads: 2, layers: 1 };

test("a transformer learns a text, and writes it", async () => {
  const losses: number[] = [];
  const writer = await learn(TEXT, SIZES, { steps: 160, size: 8, rate: 0.01 }, (_, loss) => {
    losses.push(loss);
  });
  assert(losses[0]! > 1 && losses.at(-1)! < 0.3, `${losses}`);
  const written = write(writer, "the quick ", 15, random.key(1), 0.1);
  assertEquals(written, TEXT.slice(0, 25));
});

test("a text that is too short is an error", async () => {
  await assertRejects(() => learn("abc".repeat(9), SIZES, { steps: 1 }), Error, "too few");
});
