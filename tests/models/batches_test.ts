/**
 * Batches of texts: sizes, padding, and the number of programs.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { batchesOf } from "../../src/models/batches.ts";

test("batches have 1, 2, 4 or 8 texts, and little padding", () => {
  const lengths = [90, 8, 33, 12, 300, 20, 64, 47, 128, 17, 290, ...Array(11).fill(5), 2, 1];
  const texts = lengths.map((length, place) => ({ place, ids: { length } }));
  const batches = batchesOf(texts, 290);
  const places = batches.flatMap(({ texts }) => texts.map(({ place }) => place));
  assertEquals(places.sort((a, b) => a - b), [...lengths.keys()]);
  for (const { width, texts } of batches) {
    assert([1, 2, 4, 8].includes(texts.length) && width <= 290, `${width}`);
    for (const { ids } of texts) {
      const padding = width - Math.min(ids.length, 290);
      assert(padding <= Math.max(4, ids.length / 4), `${ids.length} in ${width}`);
    }
  }
  const widths = new Set(
    Array.from({ length: 512 }, (_, n) => batchesOf([{ ids: { length: n + 1 } }], 512)[0]!.width),
  );
  assert(widths.size * 4 <= 128, `${widths.size} lengths`);
  assertEquals(batchesOf([], 20), []);
});
