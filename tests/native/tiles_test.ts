/**
 * Large products by BLAS are cut into tiles, so that other threads multiply in between. A tile is
 * the same product as one of its own, and the cut depends on the shape alone.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { JobQueue } from "../../src/backend/native/queue.ts";
import { DTYPE } from "../../src/base/dtype.ts";
import { kernelOf, makeProducts } from "./programs.ts";
import { found, native, shim } from "./support.ts";

/** Whether products reach a BLAS. */
const hasBlas = found && !("reason" in native.blas());
if (found && !hasBlas) console.log("Tiles are not tested: there is no OpenBLAS");
const checkTiles = hasBlas ? test : test.skip;

type Floats = Float32Array | Float64Array;

interface Matrix {
  array: Floats;
  offset: number;
  row: number;
  column: number;
}

/** A matrix of `rows` and `columns`, by rows or by columns, whose elements `at` gives. */
function matrix(
  make: (length: number) => Floats,
  rows: number,
  columns: number,
  byColumns: boolean,
  at: (i: number, j: number) => number,
): Matrix {
  const gap = 3;
  const [row, column] = byColumns ? [1, rows + gap] : [columns + gap, 1];
  const array = make((byColumns ? columns : rows) * (row * column));
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) array[i * row + j * column] = at(i, j);
  }
  return { array, offset: 0, row, column };
}

function multiply(c: Matrix, a: Matrix, b: Matrix, m: number, n: number, k: number): void {
  const strides = [c, a, b].flatMap(({ row, column }) => [row, column]);
  const numbers = Float64Array.of(m, n, k, 1, ...strides, c.offset, a.offset, b.offset);
  const { id } = DTYPE[c.array instanceof Float32Array ? "float32" : "float64"];
  const dtypes = id | id << 8 | id << 16 | 255 << 24;
  const kernel = kernelOf(shim, "matmul");
  assertEquals(shim.rm_run(kernel, dtypes, id, numbers, c.array, a.array, b.array, null), 0);
}

const EDGE = 512;

/** The size of the tiles of a product in the order of memory of its result. */
function tileOf(rows: number, columns: number, k: number): [number, number] {
  const most = 2 ** (native.level === "x86-64-v4" ? 33 : 32);
  let [height, width] = [rows, columns];
  const halve = (n: number): number => Math.ceil(Math.ceil(n / 2) / EDGE) * EDGE;
  while (height * width * k > most && Math.max(height, width) > EDGE) {
    if (height >= width) height = halve(height);
    else width = halve(width);
  }
  return [height, width];
}

/** The beginnings of tiles along an edge, and its end. */
function cut(length: number, tile: number): number[] {
  const edges = [0];
  while (length - edges.at(-1)! >= tile + EDGE) edges.push(edges.at(-1)! + tile);
  return [...edges, length];
}

/** Small integers, so that every order of adding gives the same sum. */
const sign = (p: number): number => (p * 2654435761 >>> 7) % 2 === 0 ? 1 : -1;

checkTiles("the tiles of a product have the bits of products of their own", () => {
  const single = (length: number): Floats => new Float32Array(length);
  const double = (length: number): Floats => new Float64Array(length);
  const cases = [
    { m: 1100, n: 1600, k: 2500, c: false, a: false, b: false, make: single },
    { m: 1600, n: 1111, k: 2500, c: false, a: true, b: true, make: single },
    { m: 1030, n: 2000, k: 2200, c: true, a: false, b: true, make: single },
    { m: 513, n: 3100, k: 2800, c: true, a: true, b: false, make: double },
  ];
  for (const { m, n, k, c, a, b, make } of cases) {
    let random = 1;
    const next = (): number => (random = Math.imul(random, 48271) >>> 0) / 2 ** 32 - 0.5;
    const x = matrix(make, m, k, a, next);
    const y = matrix(make, k, n, b, next);
    const whole = matrix(make, m, n, c, () => NaN);
    // The gaps between rows too.
    whole.array.fill(NaN);
    multiply(whole, x, y, m, n, k);
    const tiled = { ...whole, array: whole.array.slice().fill(NaN) };
    // BLAS computes the transpose of a result by columns.
    const [height, width] = c ? tileOf(n, m, k).reverse() : tileOf(m, n, k);
    const [rows, columns] = [cut(m, height!), cut(n, width!)];
    assert(rows.length + columns.length > 4, `${m} × ${n} is not cut`);
    for (let i = 0; i + 1 < rows.length; i++) {
      for (let j = 0; j + 1 < columns.length; j++) {
        const [top, left] = [rows[i]!, columns[j]!];
        multiply(
          { ...tiled, offset: top * tiled.row + left * tiled.column },
          { ...x, offset: top * x.row },
          { ...y, offset: left * y.column },
          rows[i + 1]! - top,
          columns[j + 1]! - left,
          k,
        );
      }
    }
    assert(whole.array.every((z, i) => Object.is(z, tiled.array[i])), `${m} × ${n} × ${k}`);
  }
});

checkTiles("the elements of a product in tiles are right", () => {
  const [m, n, k] = [1500, 1700, 2000];
  for (const [c, a, b] of [[false, false, true], [true, true, false]] as const) {
    const single = (length: number): Floats => new Float32Array(length);
    const x = matrix(single, m, k, a, (i, p) => (i % 7 - 3) * sign(p));
    const y = matrix(single, k, n, b, (p, j) => (j % 5 - 2) * sign(p));
    const z = matrix(single, m, n, c, () => NaN);
    multiply(z, x, y, m, n, k);
    let wrong = 0;
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        wrong += z.array[i * z.row + j * z.column] === k * (i % 7 - 3) * (j % 5 - 2) ? 0 : 1;
      }
    }
    assertEquals(wrong, 0);
  }
});

checkTiles("an eager product comes between two tiles of a job", async () => {
  const queue = new JobQueue(shim);
  const [n, small] = [3072, 700];
  const [large, eager] = [makeProducts(shim, n, 1), makeProducts(shim, small, 1)];
  const [job, own] = [large.acquire()!, eager.acquire()!];
  const c = new Float32Array(n * n).fill(-1);
  job.bind(0, c, new Float32Array(n * n).fill(1), new Float32Array(n * n).fill(1));
  own.bindAll(0, [0, 1, 1].map((x) => new Float32Array(small * small).fill(x)));
  const ended = queue.submit(job);
  while (c[0] === -1) await new Promise((resolve) => setTimeout(resolve, 1));
  own.run();
  // The first tile has begun; the last one has not.
  assertEquals(c[c.length - 1], -1);
  await ended;
  assertEquals(c.every((x) => x === n), true);
});
