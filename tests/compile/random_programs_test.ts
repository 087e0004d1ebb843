/**
 * Random programs give the same values compiled as without, and change the same tensors: with the
 * library and without, all improvements and none.
 *
 * @module
 */
import { test } from "node:test";
import { amountIn } from "../support/engine.ts";
import type { Any } from "../support.ts";
import { checkRandom } from "./random_programs.ts";
import { plain, testOnBackends, withTiles } from "./support.ts";

const SEEDS = amountIn(20, 8, 600);

function check(seed: number, optimize: boolean): Promise<void> {
  // NaNs are equal: their bits are not specified.
  const told = (x: Any): unknown => [x.access, plain(x)];
  return checkRandom(seed, 2 + seed % 39, { told, optimize });
}

test("random programs in tiles of a few rows", async () => {
  using _ = withTiles({ tile: 300, least: 0 });
  for (let seed = 5000; seed < 5000 + SEEDS; seed++) await check(seed, true);
});

for (const optimize of [true, false]) {
  testOnBackends(`random programs ${optimize ? "improved" : "as they are"}`, async () => {
    for (let seed = 0; seed < SEEDS; seed++) await check(seed, optimize);
  });
}
