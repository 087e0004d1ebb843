/**
 * Products of few rows with a weight of [1536, 384]: packed, and as it is.
 *
 *     deno run -A bench/packed.ts [rows...]
 *     bun bench/packed.ts [rows...]
 *
 * Prints a line of JSON for each: its name, the rows, the threads, the median in microseconds, and
 * the fastest of twenty, which says more on a busy machine; then, to standard error, the ratio of
 * the plain product to each by the latter, and its speed. The kinds take turns.
 *
 * @module
 */

import { pack, random, setThreads, type Tensor, zeros } from "../mod.ts";

const [DEPTH, COLUMNS] = [384, 1536];
/** The measured time for each number of rows, in milliseconds. */
const BUDGET_MS = 600;

const asked = (globalThis.process?.argv ?? []).slice(2).map(Number).filter((n) => n > 0);
const ROWS = asked.length > 0 ? asked : [1, 2, 4, 8, 16, 64, 128];

const [first, second] = random.split(random.key(0));
const weight = random.normal(first, [COLUMNS, DEPTH]);
const packed = pack(weight);
const packed16 = pack(weight.astype("bfloat16"));
const bias = zeros([COLUMNS]);

/** The time that a share of all times is shorter than. */
function quantile(times: readonly number[], share: number): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length * share)]!;
}

for (const threads of [1, 2]) {
  setThreads(threads);
  for (const n of ROWS) {
    const x = random.normal(second, [n, DEPTH]);
    const out = zeros([n, COLUMNS]);
    const kinds: Record<string, () => Tensor> = {
      packed: () => x.linear(packed, undefined, { out }),
      "packed bfloat16": () => x.linear(packed16, undefined, { out }),
      "packed + bias + gelu": () => x.linear(packed, bias, { activation: "gelu", out }),
      plain: () => x.linear(weight, undefined, { out }),
    };
    const times = new Map(Object.keys(kinds).map((name) => [name, [] as number[]]));
    for (const run of Object.values(kinds)) run();
    const end = performance.now() + BUDGET_MS;
    while (performance.now() < end) {
      for (const [name, run] of Object.entries(kinds)) {
        // A first call brings the operands into the cache.
        run();
        const calls = Math.ceil(8 / n);
        const start = performance.now();
        for (let i = 0; i < calls; i++) run();
        times.get(name)!.push((performance.now() - start) * 1000 / calls);
      }
    }
    const plain = quantile(times.get("plain")!, 0.05);
    for (const [name, all] of times) {
      const [us, best] = [quantile(all, 0.5), quantile(all, 0.05)];
      const rounded = (x: number): number => Number(x.toFixed(1));
      console.log(JSON.stringify({ name, n, threads, us: rounded(us), best: rounded(best) }));
      const flops = (2 * n * DEPTH * COLUMNS / best / 1000).toFixed(0);
      console.error(`  ${(plain / best).toFixed(2)} times as fast as plain, ${flops} GFLOP/s`);
    }
  }
}
