/**
 * Loops over tiles give the bits that the ops give alone, whatever the rows of a tile and the number
 * of threads.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { random, setThreads } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { Native } from "../../src/compile/native.ts";
import { TILE_LIMITS } from "../../src/compile/tiles.ts";
import { amount } from "../support/amount.ts";
import { generator } from "../ops/table/operands.ts";
import { found } from "../native/support.ts";
import type { Any } from "../support.ts";
import { withTiles } from "./support.ts";

const ROWWISE: ((x: Any, other: Any, row: Any, column: Any) => Any)[] = [
  (x, other) => x.add(other),
  (x, _, row) => x.mul(row),
  (x, _, _row, column) => x.sub(column),
  (x) => x.exp(),
  (x) => x.gelu(),
  (x) => x.clip(-2, 2),
  (x, other) => x.maximum(other).sub(x.minimum(other)),
  (x) => x.sub(x.max(1, { keepDims: true })),
  (x) => x.div(x.sum(1, { keepDims: true }).add(10)),
  (x) => x.sub(x.mean(1, { keepDims: true })).div(x.std(1, { keepDims: true }).add(1)),
  (x) => x.softmax(-1),
  (x) => x.logSoftmax(1),
  (x, _, row) => x.layerNorm(-1, { weight: row }),
  (x) => x.rmsNorm(),
  (x) => x.cumulativeSum(1),
  (x) => x.sum(1).expandDims(1).mul(0.5).add(x),
  (x) => x.astype("float64").mul(0.5).astype("float32"),
  (x) => x.add(x.argmax(1, { keepDims: true })),
  (x, other) => x.mul(x.greater(other).astype("float32")),
  (x) => x.logsumexp(1, { keepDims: true }).add(x),
];

/** A random program of ops along rows, with results of several kinds. */
function program(seed: number): (x: Any, other: Any, row: Any, column: Any) => Any[] {
  const next = generator(seed);
  const picks = Array.from(
    { length: 2 + Math.floor(next() * 7) },
    () => ROWWISE[Math.floor(next() * ROWWISE.length)]!,
  );
  const keeps = picks.map(() => next() < 0.2);
  return (x, other, row, column) => {
    const kept: Any[] = [];
    let y = x;
    picks.forEach((op, i) => {
      y = op(y, other, row, column);
      if (keeps[i]) kept.push(y);
    });
    return [...kept, y, y.sum(1)];
  };
}

/** The loops of the programs that ran during `body`. */
function loopsDuring(body: () => void): number {
  const { run } = Native.prototype;
  let loops = 0;
  Native.prototype.run = function (...args) {
    loops += this.plan.lowered.loops.length;
    return run.apply(this, args);
  };
  try {
    body();
  } finally {
    Native.prototype.run = run;
  }
  return loops;
}

test("programs along rows", () => {
  using _ = withTiles({ least: 0 });
  const loops = loopsDuring(() => {
    for (let seed = 0; seed < amount(60, 1500); seed++) {
      const next = generator(seed + 99);
      const [rows, columns] = [2 + Math.floor(next() * 90), 1 + Math.floor(next() * 70)];
      Object.assign(TILE_LIMITS, { tile: 40 + Math.floor(next() * 4000) });
      setThreads(1 + seed % 3);
      const make = (shape: number[], salt: number): Any =>
        random.normal(random.key(seed * 10 + salt), shape);
      const x = seed % 4 === 0 ? make([columns, rows], 0).T : make([rows, columns], 0);
      const inputs = [x, make([rows, columns], 1), make([columns], 2), make([rows, 1], 3)] as const;
      const f = program(seed);
      const compiled = compile(f);
      const expected = f(...inputs);
      for (let round = 0; round < 2; round++) {
        compiled(...inputs).forEach((y: Any, i: number) => {
          assert(y.equals(expected[i], { equalNan: true }), `seed ${seed}, result ${i}`);
        });
      }
      compiled.dispose();
    }
  });
  setThreads(0);
  if (found) assert(loops > 60, `${loops} loops`);
  else assertEquals(loops, 0);
});
