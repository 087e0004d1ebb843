/**
 * Products on a CUDA device, each test in a process of its own, as in cuda.ts, which exports them.
 *
 * @module
 */
import { deepStrictEqual as assertEquals, ok as assert } from "node:assert";
import { STATUS } from "../../src/backend/ffi/abi.ts";
import { DTYPE, type DType } from "../../src/base/dtype.ts";
import { readElement, writeElement } from "../../src/memory/element.ts";
import { allocate } from "../../src/memory/pool.ts";
import type { Storage } from "../../src/memory/storage.ts";
import { addressed, type Gpu, numbers, opened } from "./gpu.ts";

/** The strides of a matrix, and the number of elements per matrix of a batch. */
type Layout = (rows: number, columns: number) => [row: number, column: number, step: number];
const LAYOUTS: Record<string, Layout> = {
  rows: (m, n) => [n, 1, m * n],
  columns: (m, n) => [1, m, m * n],
  padded: (m, n) => [n + 3, 1, m * (n + 3) + 5],
};

interface Product {
  sizes: [m: number, n: number, k: number];
  layouts: [c: string, a: string, b: string];
  offsets: [c: number[], a: number[], b: number[]];
  flags?: number;
  tolerance?: number;
}

function fill(storage: Storage, random: (below: number) => number): void {
  for (let i = 0; i < storage.length; i++) writeElement(storage, i, (random(17) - 8) / 4);
}

/** The status of a product, which is compared with sums in double precision. */
function multiply(gpu: Gpu, dtype: DType, product: Product): number {
  const { sizes: [m, n, k], layouts, offsets, flags = 0, tolerance = 0 } = product;
  const random = numbers(m * 100 + n * 10 + k);
  const shapes = [[m, n], [m, k], [k, n]] as const;
  const strides = layouts.map((name, i) => LAYOUTS[name]!(...shapes[i]!));
  const storages = strides.map(([, , step], i) =>
    allocate(dtype, Math.max(...offsets[i]!) + step, false)
  );
  storages.forEach((storage) => fill(storage, random));
  const bias = allocate(dtype, n, false);
  fill(bias, random);
  const operands = [...storages, bias];
  const addresses = operands.map(({ array }) => gpu.allocate(array.byteLength));
  operands.forEach(({ array }, i) => gpu.upload(addresses[i]!, array));
  const plan = Float64Array.of(
    m,
    n,
    k,
    offsets[0].length,
    ...strides.flatMap(([row, column]) => [row, column]),
    ...addresses.slice(0, 3),
    flags,
    addresses[3]!,
    ...offsets.flat(),
  );
  const status = gpu.shim.rm_cuda_matmul(0, DTYPE[dtype].id, plan);
  const before = storages[0]!.array.slice();
  const [c, a, b] = storages as [Storage, Storage, Storage];
  gpu.download(addresses[0]!, c.array);
  addresses.forEach(gpu.free);
  if (status !== STATUS.ok) {
    assertEquals(c.array, before as typeof c.array, "what is refused writes nothing");
    return status;
  }
  const [cr, cc, ar, ac, br, bc] = strides.flatMap(([row, column]) => [row, column]);
  for (let i = 0; i < offsets[0].length; i++) {
    for (let row = 0; row < m; row++) {
      for (let column = 0; column < n; column++) {
        let sum = flags & 2 ? Number(readElement(bias, column)) : 0;
        for (let j = 0; j < k; j++) {
          sum += Number(readElement(a, offsets[1][i]! + row * ar! + j * ac!)) *
            Number(readElement(b, offsets[2][i]! + j * br! + column * bc!));
        }
        if (flags & 4) sum = Math.max(sum, 0);
        if (flags & 8) {
          sum *= 0.5 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (sum + 0.044715 * sum ** 3)));
        }
        const got = Number(readElement(c, offsets[0][i]! + row * cr! + column * cc!));
        const slack = (tolerance + 1e-12) * Math.max(1, Math.abs(sum));
        if (!(Math.abs(got - sum) <= slack)) {
          throw new Error(
            `${dtype} ${JSON.stringify(product)}: ${got} at ${row}, ${column}: ${sum}`,
          );
        }
      }
    }
  }
  return status;
}

/** Products of every dtype, in every layout, alone and in batches. */
export function productsAreRight(): void {
  const gpu = opened();
  // Sums of few small multiples of a sixteenth are exact before the rounding to 16 bits.
  const dtypes = { float64: 0, float32: 0, float16: 2 ** -11, bfloat16: 2 ** -8 } as const;
  const one: Product["offsets"] = [[0], [0], [0]];
  let served = 0;
  for (const [dtype, tolerance] of Object.entries(dtypes) as [DType, number][]) {
    const run = (product: Product): void => {
      assertEquals(multiply(gpu, dtype, { tolerance, ...product }), STATUS.ok);
      served++;
    };
    for (const c of Object.keys(LAYOUTS)) {
      for (const a of Object.keys(LAYOUTS)) {
        for (const b of Object.keys(LAYOUTS)) {
          run({ sizes: [5, 7, 3], layouts: [c, a, b], offsets: one });
        }
      }
    }
    const rows: Product["layouts"] = ["rows", "rows", "rows"];
    const mixed: Product["layouts"] = ["rows", "padded", "columns"];
    for (const sizes of [[1, 1, 1], [1, 9, 4], [9, 1, 4], [4, 4, 1]] as Product["sizes"][]) {
      run({ sizes, layouts: rows, offsets: one });
      run({ sizes, layouts: mixed, offsets: [[8], [16], [24]] });
    }
    const step = (by: number, from = 0): number[] => [0, 1, 2, 3].map((i) => from + i * by);
    // Even steps; one b for all; one a for all; uneven; backwards.
    run({ sizes: [4, 6, 5], layouts: rows, offsets: [step(24), step(20, 7), step(30)] });
    run({ sizes: [4, 6, 5], layouts: mixed, offsets: [step(40), step(40), step(30)] });
    run({ sizes: [4, 6, 5], layouts: rows, offsets: [step(24), step(20), [3, 3, 3, 3]] });
    run({ sizes: [4, 6, 5], layouts: rows, offsets: [step(24), [0, 0, 0, 0], step(30)] });
    run({ sizes: [4, 6, 5], layouts: rows, offsets: [step(24), [20, 0, 60, 20], [0, 30, 30, 0]] });
    run({ sizes: [4, 6, 5], layouts: rows, offsets: [step(24).reverse(), step(20), step(30)] });
  }
  assertEquals(served, 4 * (27 + 8 + 6));
  // TF32 has 10 bits, which these operands fit.
  assertEquals(
    multiply(gpu, "float32", {
      sizes: [8, 8, 8],
      layouts: ["rows", "rows", "rows"],
      offsets: one,
      flags: 1,
    }),
    STATUS.ok,
  );
}

/** Epilogues of products, and invalid calls, which write nothing. */
export function epiloguesAreRight(onHardware = false): void {
  const gpu = opened();
  const one: Product["offsets"] = [[0], [0], [0]];
  const rows: Product["layouts"] = ["rows", "rows", "columns"];
  for (
    const [dtype, tolerance] of [["float32", 2e-6], ["float16", 2e-3], ["bfloat16", 8e-3]] as const
  ) {
    for (const flags of [2, 4, 6, 8, 10]) {
      // The accuracy of a device's tanh is not documented.
      const near = onHardware && flags >= 8 ? Math.max(tolerance, 1e-3) : tolerance;
      const sizes: Product["sizes"] = [16, 8, 24];
      const run = (offsets: Product["offsets"]): void => {
        const status = multiply(gpu, dtype, {
          sizes,
          layouts: rows,
          flags,
          tolerance: near,
          offsets,
        });
        // Nor are the batches for which a library has kernels.
        if (!onHardware || offsets === one) assertEquals(status, STATUS.ok);
        else assert([STATUS.ok, STATUS.unsupported].includes(status as 0), `status ${status}`);
      };
      run(one);
      run(one);
      run([[0, 128], [0, 384], [0, 192]]);
      run([[0, 128], [0, 0], [0, 192]]);
    }
  }
  const refused = (dtype: DType, product: Partial<Product>): void => {
    const whole = { sizes: [4, 4, 4], layouts: rows, offsets: one, ...product } as Product;
    assertEquals(multiply(gpu, dtype, whole), STATUS.unsupported, JSON.stringify(whole));
  };
  refused("float32", { flags: 12 });
  refused("float32", { flags: 2, layouts: ["columns", "rows", "rows"] });
  refused("float32", { flags: 4, offsets: [[0, 16, 64], [0, 16, 32], [0, 16, 32]] });
  refused("int32", {});
  refused("bool", {});
}

/** The status of a first product with one failing call; the next product is correct. */
export function nextProductIsRight(): number {
  const gpu = opened();
  const rows: Product["layouts"] = ["rows", "rows", "rows"];
  const product: Product = { sizes: [3, 4, 5], layouts: rows, offsets: [[0], [0], [0]] };
  const status = multiply(gpu, "float32", product);
  assertEquals(multiply(gpu, "float32", product), STATUS.ok);
  return status;
}

/** Graphs may contain products, even of matrices at arbitrary addresses. */
export function productsAreCaptured(): void {
  const gpu = opened();
  const [a, b, c] = [
    addressed(gpu, Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8)),
    addressed(gpu, Float32Array.of(1, 0, 0, 1, 0, 1, 1, 0)),
    gpu.allocate(64),
  ];
  const plan = Float64Array.of(
    2,
    2,
    2,
    3,
    2,
    1,
    2,
    1,
    2,
    1,
    c,
    a,
    b,
    0,
    0,
    0,
    4,
    8,
    0,
    4,
    0,
    0,
    4,
    0,
  );
  gpu.control("captureBegin");
  gpu.check(gpu.shim.rm_cuda_matmul(0, DTYPE.float32.id, plan));
  const graph = gpu.control("captureEnd");
  gpu.control("graphLaunch", graph);
  const expected = [1, 2, 3, 4, 6, 5, 8, 7, 1, 2, 3, 4];
  assertEquals([...gpu.download(c, new Float32Array(12))], expected);
  gpu.upload(a, Float32Array.of(2, 4, 6, 8, 10, 12, 14, 16));
  gpu.control("graphLaunch", graph);
  assertEquals([...gpu.download(c, new Float32Array(12))], expected.map((value) => 2 * value));
}
