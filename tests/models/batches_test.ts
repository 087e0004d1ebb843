/**
 * Batches of texts: sizes, padding, and the number of programs.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { batchesOf } from "../../src/models/batches.ts";

const rows = (lengths: readonly number[]) =>
  lengths.map((length, place) => ({ place, ids: { length } }));

test("batches have powers of two of texts, and little padding", () => {
  const lengths = [90, 8, 33, 12, 300, 20, 64, 47, 128, 17, 290, ...Array(43).fill(5), 2, 1];
  const batches = batchesOf(rows(lengths), 290);
  const places = batches.flatMap(({ texts }) => texts.map(({ place }) => place));
  assertEquals(places.sort((a, b) => a - b), [...lengths.keys()]);
  for (const { width, texts } of batches) {
    assert([1, 2, 4, 8, 16, 32].includes(texts.length) && width <= 290, `${width}`);
    assert(texts.length === 1 || texts.length * width <= 512, `${texts.length} of ${width}`);
    for (const { ids } of texts) {
      const padding = width - Math.min(ids.length, 290);
      assert(padding <= Math.max(2, width / 4), `${ids.length} in ${width}`);
    }
  }
  assertEquals(batches.map(({ texts }) => texts.length).filter((n) => n > 4), [32, 8]);
  const widths = new Set(
    Array.from({ length: 512 }, (_, n) => batchesOf(rows([n + 1]), 512)[0]!.width),
  );
  assert(widths.size <= 28, `${widths.size} lengths`);
  assertEquals(batchesOf([], 20), []);
});

test("many texts need few programs, and a tenth of padding", () => {
  // As many lengths from 4 to 8 as from 8 to 16 and so on, up to 256.
  const lengths = Array.from({ length: 1000 }, (_, i) => Math.round(4 * 64 ** (i / 1000)));
  const batches = batchesOf(rows(lengths), 512);
  const shapes = new Set(batches.map(({ width, texts }) => `${texts.length} × ${width}`));
  assert(shapes.size <= 30, `${shapes.size} programs`);
  const padded = batches.reduce((sum, { width, texts }) => sum + width * texts.length, 0);
  const part = padded / lengths.reduce((a, b) => a + b) - 1;
  assert(part < 0.1, `${part} of padding`);
});
