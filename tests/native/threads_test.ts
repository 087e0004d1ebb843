/**
 * Results of the native backend do not depend on the number of threads: 2, 3 and 7 threads (in
 * `npm test` 3) give the same bits as 1.
 *
 * OpenBLAS does not guarantee this and is excluded: products are tested without it.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { setThreads } from "../../mod.ts";
import { matrixBatch } from "../../src/ops/matmul/problem.ts";
import { ROW_KERNELS } from "../../src/ops/softmax_norm/problem.ts";
import { DTYPE, type DType } from "../../src/base/dtype.ts";
import { Layout } from "../../src/base/layout.ts";
import { computeOf, resultOf } from "../../src/table/infer.ts";
import type { MapOp, ReduceOp } from "../../src/table/op.ts";
import { ARG_REDUCE, MAP, REDUCE, SCAN } from "../../src/table/table.ts";
import { ATTRIBUTES, planMap, planReduce } from "../../src/base/plan.ts";
import { wrapExternal } from "../../src/memory/pool.ts";
import type { Storage } from "../../src/memory/storage.ts";
import { parametersOf } from "../ops/table/golden.ts";
import { isSampled, RUNS_ALL } from "../support/amount.ts";
import {
  assertSameBytes,
  calls,
  check,
  copyOf,
  denseStorage,
  fill,
  handedOn,
  LEVELS,
  moduleAt,
  native,
  runApart,
} from "./support.ts";

const COUNTS = RUNS_ALL ? [2, 3, 7] : [3];

/** Runs `call`, which writes all of `out`, with every number of threads and in every level. */
function sameBits(what: string, out: Storage, call: () => void): void {
  native.setShareAll(true);
  for (const level of LEVELS) {
    native.setLevel(level);
    assertEquals(native.setThreads(1), 1);
    assertEquals(handedOn(call), 0, what);
    const expected = copyOf(out);
    for (const threads of COUNTS) {
      assertEquals(native.setThreads(threads), threads);
      out.array.fill((out.info.wide ? 1n : 1) as never);
      call();
      assertSameBytes(out, expected, `${what} with ${threads} threads, level ${level}`);
    }
  }
}

check("the number of threads does not show in maps", () => {
  const rows: MapOp[] = [MAP.add, MAP.exp, MAP.gelu, MAP.where, MAP.floorDivide, MAP.copy];
  const n = 300_011;
  for (const row of rows) {
    for (const dtype of ["float32", "float64", "float16", "int32"] as const) {
      const compute = computeOf(row, dtype);
      const flat = Layout.contiguous([n]);
      const square = Layout.contiguous([550, 560]);
      for (const [to, from] of [[flat, flat], [square, square.transpose().flip([0])]] as const) {
        if (to.shape.length === 2 && row.arity === 1) continue;
        if (!isSampled(`${row.name} of ${dtype} [${to.shape}]`, 2)) continue;
        const inputs = Array.from({ length: 3 }, (_, k) =>
          denseStorage(
            row.condition && k === 0 ? "bool" : dtype,
            from.size,
            true,
          ));
        const out = denseStorage(resultOf(row, dtype), to.size);
        const last = to === from ? from : Layout.contiguous([560, 550]).transpose();
        const plan = planMap(to, last, row.arity > 1 ? to : null, row.arity > 2 ? to : null);
        sameBits(`${row.name} of ${dtype} [${to.shape}]`, out, () => {
          const [a, b, c] = inputs;
          calls.map(
            row,
            compute,
            plan,
            out,
            a!,
            row.arity > 1 ? b! : null,
            row.arity > 2 ? c! : null,
          );
        });
      }
    }
  }
});

check("the number of threads does not show in reductions, places and scans", () => {
  const shape = [577, 601];
  const layout = Layout.contiguous(shape);
  const rows = [REDUCE.sum, REDUCE.mean, REDUCE.prod, REDUCE.max, REDUCE.norm2, REDUCE.any];
  for (const dtype of ["float32", "float64", "int16", "bfloat16"] as const) {
    const a = fill(dtype, layout.size, false, [0.5, 1.5]);
    for (const reduced of [[true, true], [true, false], [false, true]]) {
      const kept = Layout.contiguous(shape.map((n, axis) => reduced[axis] ? 1 : n));
      const what = `of ${dtype} over [${reduced}]`;
      for (const row of rows as ReduceOp[]) {
        const out = denseStorage(resultOf(row, dtype), kept.size);
        const plan = planReduce(kept, layout, null, reduced, false);
        parametersOf(row, dtype, layout.size / kept.size)
          .forEach((value, i) => plan.data[ATTRIBUTES + i] = value);
        sameBits(`${row.name} ${what}`, out, () => calls.fold(row, plan, out, a, null));
      }
      const place = denseStorage("int32", kept.size);
      const order = planReduce(kept, layout, null, reduced, true);
      sameBits(
        `argmax ${what}`,
        place,
        () => calls.fold(ARG_REDUCE.argmax, order, place, a, null),
      );
      if (reduced[0] && reduced[1]) continue;
      const scanned = denseStorage(resultOf(SCAN.cumulativeSum, dtype), layout.size);
      const along = planReduce(layout, layout, null, reduced, true);
      sameBits(
        `cumulativeSum ${what}`,
        scanned,
        () => calls.fold(SCAN.cumulativeSum, along, scanned, a, null),
      );
    }
  }
  const long = fill("float32", 1_000_003, false);
  const flat = Layout.contiguous([1_000_003]);
  const scanned = denseStorage("float32", 1_000_003);
  const plan = planReduce(flat, flat, null, [true], true);
  sameBits("a long cumulativeSum", scanned, () => {
    calls.fold(SCAN.cumulativeSum, plan, scanned, long, null);
  });
});

check("the number of threads does not show in softmax and norms of rows", () => {
  for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
    for (const [rows, columns] of [[500, 700], [40_000, 9], [3, 120_000]] as const) {
      if (DTYPE[dtype].bytes === 2 && columns > 8192) continue;
      const a = denseStorage(dtype, rows * columns);
      const out = denseStorage(dtype, rows * columns);
      const weight = denseStorage(dtype === "float64" ? dtype : "float32", columns);
      const affine = { weight, bias: weight, epsilon: 1e-5 };
      for (const kernel of ROW_KERNELS) {
        sameBits(`${kernel} of ${dtype} [${rows}, ${columns}]`, out, () => {
          assertEquals(calls.alongRows(kernel, rows, columns, out, a, 0, affine), true);
        });
      }
    }
  }
});

check("the number of threads does not show in sorts", () => {
  let turn = 0;
  for (const dtype of ["float32", "int64", "uint8", "float16"] as const) {
    for (const [runs, size] of [[1, 400_000], [3, 150_000], [5000, 70]] as const) {
      const values = denseStorage(dtype, runs * size, true);
      const sorted = copyOf(values);
      const order = denseStorage("int32", runs * size);
      for (const descending of RUNS_ALL ? [false, true] : [turn++ % 2 === 1]) {
        const what = `of ${dtype}, ${runs} runs of ${size}`;
        sameBits(`the order ${what}`, order, () => {
          calls.sort(values, 0, runs, size, descending, order);
        });
        sameBits(`a sort ${what}`, sorted, () => {
          (sorted.array as Float64Array).set(values.array as Float64Array);
          calls.sort(sorted, 0, runs, size, descending, null);
        });
      }
    }
  }
});

check("the number of threads does not show in random numbers", () => {
  const draws = [
    ["uniform", "float32"],
    ["normal", "float32"],
    ["normal", "float64"],
    [
      "uniform",
      "bfloat16",
    ],
    ["integers", "int16"],
    ["bits", "uint32"],
  ] as const;
  for (const [kind, dtype] of draws) {
    const out = denseStorage(dtype, 300_001);
    sameBits(`${kind} ${dtype}`, out, () => calls.random(out, kind, 5, 6, 0n, 1000n));
  }
});

check("the number of threads does not show in gathers and scatters", () => {
  const [rows, columns, count] = [2000, 160, 2400];
  const row = Layout.contiguous([columns]);
  const indexes = wrapExternal(
    "int32",
    Int32Array.from({ length: count }, (_, i) => i * 7919 % rows),
  );
  const picks = { indices: indexes, offset: 0, count, size: rows, stride: columns };
  for (const dtype of ["float32", "int8", "float64"] as const) {
    const source = denseStorage(dtype, rows * columns);
    const out = denseStorage(dtype, count * columns);
    const plan = planMap(row, row, null, null);
    sameBits(
      `gather of ${dtype}`,
      out,
      () => calls.gather(plan, out, source, picks, columns),
    );
    for (const add of [false, true]) {
      const target = denseStorage(dtype, rows * columns);
      const before = target.array.slice() as Float64Array;
      sameBits(add ? `sums at places of ${dtype}` : `scatter of ${dtype}`, target, () => {
        (target.array as Float64Array).set(before);
        calls.scatter(plan, target, out, picks, columns, add);
      });
    }
  }
});

check("the number of threads does not show in sums of many at few places", () => {
  const count = 100_000, places = 7;
  for (const dtype of ["float32", "float64", "float16"] as const) {
    for (const columns of [1, 3]) {
      const block = Layout.contiguous([columns]);
      const indexes = wrapExternal(
        "int32",
        Int32Array.from({ length: count }, (_, i) => i * i % places),
      );
      const picks = { indices: indexes, offset: 0, count, size: places, stride: columns };
      const values = denseStorage(dtype, count * columns);
      const target = denseStorage(dtype, places * columns);
      const before = target.array.slice() as Float64Array;
      sameBits(`sums of ${count} times ${columns} ${dtype}`, target, () => {
        (target.array as Float64Array).set(before);
        calls.scatter(planMap(block, block, null, null), target, values, picks, columns, true);
      });
    }
  }
});

check("the number of threads does not show in own products of matrices", () => {
  const cases: [DType, number, number, number, number][] = [
    ["int32", 200, 190, 210, 1],
    ["int8", 130, 140, 150, 2],
    ["uint64", 100, 110, 120, 1],
    ["float16", 200, 210, 190, 1],
    ["float32", 400, 390, 410, 1],
    ["float32", 60, 50, 70, 30],
    ["float64", 300, 310, 320, 1],
    ["float32", 1, 900, 1000, 1],
    ["float64", 900, 1, 1000, 1],
    ["float32", 1, 1, 500_000, 1],
  ];
  for (const [dtype, m, n, k, batch] of cases) {
    const matrix = (rows: number, columns: number) =>
      matrixBatch(
        denseStorage(dtype, rows * columns * batch),
        Layout.contiguous([batch, rows, columns]),
      );
    const [a, b, c] = [matrix(m, k), matrix(k, n), matrix(m, n)];
    if (DTYPE[dtype].kind !== "f") {
      sameBits(`${dtype} [${m}, ${k}] @ [${k}, ${n}]`, c.storage, () => {
        calls.matmul(c, a, b);
      });
    }
  }
  // Floats in a process that has no BLAS.
  const floats = cases.filter(([dtype]) => DTYPE[dtype].kind === "f");
  const output = runApart(
    `import { BackendCalls } from ${moduleAt("tests/calls.ts")};
    import { matrixBatch } from ${moduleAt("src/ops/matmul/problem.ts")};
    import { findNative } from ${moduleAt("src/backend/cpu.ts")};
    import { DTYPE } from ${moduleAt("src/base/dtype.ts")};
    import { Layout } from ${moduleAt("src/base/layout.ts")};
    import { toF16 } from ${moduleAt("src/base/half.ts")};
    import { allocate } from ${moduleAt("src/memory/pool.ts")};
    const native: any = findNative();
    if (!("reason" in native.blas())) throw new Error("there is a BLAS");
    const calls = new BackendCalls(native, native);
    let compared = 0;
    for (const [dtype, m, n, k, batch] of ${JSON.stringify(floats)} as any) {
      const matrix = (rows: number, columns: number): any => {
        const storage = allocate(dtype, rows * columns * batch, true);
        for (let i = 0; i < storage.array.length; i++) {
          const x = Math.sin(i * i);
          storage.array[i] = dtype === "float16" ? toF16(x) : x;
        }
        return matrixBatch(storage, Layout.contiguous([batch, rows, columns]));
      };
      const [a, b, c] = [matrix(m, k), matrix(k, n), matrix(m, n)];
      native.setShareAll(true);
      for (const level of ${JSON.stringify(LEVELS)}) {
        native.setLevel(level);
        let expected: any;
        for (const threads of [1, ${COUNTS}]) {
          if (native.setThreads(threads) !== threads) throw new Error("threads");
          c.storage.array.fill(1);
          calls.matmul(c, a, b);
          expected ??= c.storage.array.slice();
          for (let i = 0; i < expected.length; i++) {
            if (!Object.is(c.storage.array[i], expected[i])) {
              throw new Error(dtype + " [" + [m, n, k] + "] " + threads + " threads, element " + i);
            }
          }
          compared++;
        }
      }
    }
    console.log(compared);`,
    { ROWMAJOR_OPENBLAS: "/nowhere/libopenblas.so" },
  );
  assertEquals(Number(output), floats.length * LEVELS.length * (COUNTS.length + 1));
});

check("threads without work use no time of the processor", () => {
  const output = runApart(
    `import { ones, setThreads } from ${moduleAt("mod.ts")};
    import process from "node:process";
    setThreads(4);
    for (let i = 0; i < 20; i++) ones([300_000]).add(1);
    // What the runtime itself has to do after that is less than one thread that spins.
    await new Promise((done) => setTimeout(done, 300));
    const before = process.cpuUsage();
    await new Promise((done) => setTimeout(done, 1000));
    const { user, system } = process.cpuUsage(before);
    console.log((user + system) / 1000);`,
    {},
  );
  assertEquals(Number(output) < 500, true, `${output} ms of 1000`);
});

check("setThreads takes integers from 0 to 256, and says how many there are", () => {
  for (const bad of [-1, 1.5, NaN, 257, Infinity, "2" as unknown as number]) {
    assertThrows(() => setThreads(bad), RangeError, "setThreads() needs");
  }
  assertEquals(native.setThreads(5), 5);
  assertEquals(native.threads, 5);
  const all = native.setThreads(0);
  assertEquals(native.threads, all);
  assertEquals(all >= 1, true);
});
