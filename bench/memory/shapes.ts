/**
 * The memory that a compiled function keeps for each shape of its arguments.
 *
 *     deno run -A bench/memory/shapes.ts
 *     bun bench/memory/shapes.ts
 *
 * `weight`: one weight of 85 MB and 20 input lengths; prints the memory of all programs over that of
 * one. `arena`: 40 calls whose lengths differ and whose intermediate results take up to 230 MB; prints
 * what is kept after them. Each is counted by `memory()`, and beside it the resident set of the process,
 * which grows by what the programs keep themselves: code, plans and graphs. Fails if a length takes more
 * than 2% of the weight, or if more is kept than the largest arena. Knows nothing of time.
 *
 * @module
 */
import process from "node:process";
import { emptyCache, info, memory, random, scope, type Tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";

type Matrix = Tensor<"float32", [number, number]>;

const MB = 1e6;
const LENGTHS = 20;
/** The columns and the depth of the weight. */
const SIZE = 4608;
const CALLS = 40;
/** The most of the weight that a length may take. */
const LIMIT = 0.02;

const mb = (bytes: number): string => `${(bytes / MB).toFixed(2)} MB`;
const used = (): number => memory().bytes - memory().pooledBytes;
const resident = (): number => process.memoryUsage().rss;

const matrix = (rows: number, columns: number): Matrix =>
  random.normal(random.key(rows), [rows, columns]) as Matrix;

function weight(): boolean {
  const w = matrix(SIZE, SIZE);
  const bytes = w.nbytes;
  using f = compile((x: Matrix) => x.linear(w));
  const call = (n: number): void => scope(() => void f(matrix(n, SIZE)));
  const start = used();
  call(1);
  const one = used() - start;
  const before = resident();
  for (let n = 2; n <= LENGTHS; n++) call(n);
  const all = used() - start;
  const each = (all - one) / (LENGTHS - 1);
  const text = [
    `weight ${mb(bytes)}, ${f.programs} programs: one keeps ${mb(one)}, all keep ${mb(all)};`,
    `a length takes ${mb(each)}, ${(100 * each / bytes).toFixed(2)}% of the weight;`,
    `resident ${mb((resident() - before) / (LENGTHS - 1))} a length`,
  ];
  console.log(text.join(" "));
  w.dispose();
  const left = used() - start;
  console.log(`  after the weight was disposed of: ${mb(left)}`);
  return each <= LIMIT * bytes && left <= 0;
}

function arena(): boolean {
  emptyCache();
  const start = memory().bytes;
  using f = compile((x: Matrix) => x.matmul(x.T).sin().matmul(x).sum(), { maxPrograms: CALLS });
  const before = resident();
  for (let i = 0; i < CALLS; i++) {
    const x = matrix(1500 + 100 * (i * 7 % CALLS), 64);
    scope(() => void f(x));
    x.dispose();
  }
  const arenas = f.explain().map(({ data }) => data.bytes.arena);
  const [all, largest] = [arenas.reduce((a, b) => a + b), Math.max(...arenas)];
  const kept = info().programs.arenaBytes;
  const grown = resident() - before;
  emptyCache();
  const left = memory().bytes - start;
  console.log(
    `arenas of ${f.programs} programs ${mb(all)}, the largest ${mb(largest)}: kept ${mb(kept)}, ` +
      `resident ${mb(grown)}; after emptyCache() ${mb(left)}`,
  );
  return kept <= largest + MB && left <= MB;
}

const results = [weight(), arena()];
if (results.includes(false)) process.exitCode = 1;
