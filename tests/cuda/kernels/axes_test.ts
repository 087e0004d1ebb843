/**
 * Plans of more axes than most CUDA kernels have room for, which use kernels of their own with
 * 64-bit strides: maps, casts, reductions, index reductions and scans, compared with the CPU.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { type DType, tensor, where, zerosLike } from "../../../mod.ts";
import { usualFamilies } from "../../../src/backend/cuda/families.ts";
import {
  argReduceSource,
  define,
  type Family,
  mapSource,
  reduceSource,
  scanSource,
} from "../../../src/backend/cuda/source/mod.ts";
import { resultOf } from "../../../src/table/infer.ts";
import { ARG_REDUCE, MAP, REDUCE, SCAN } from "../../../src/table/table.ts";
import { openCudaForTests, whyNoCuda } from "../support/device.ts";
import { assertListed, recordKernels } from "../support/kernels.ts";

/** Ten axes of 2, none of which can be merged with its neighbors after each pair is swapped. */
const SHAPE: number[] = Array.from({ length: 10 }, () => 2);
const MOVED = [1, 0, 3, 2, 5, 4, 7, 6, 9, 8];
/** Every other axis. */
const ODD = [1, 3, 5, 7, 9];

// Shapes of ten axes are more than types are asked to follow.
// deno-lint-ignore no-explicit-any
type Any = any;

/** Programs on x, of ten axes, and on the same tensor with its axes moved. */
const PROGRAMS: Record<string, (x: Any, moved: Any) => Any> = {
  add: (x, moved) => x.add(moved),
  less: (x, moved) => x.less(moved),
  where: (x, moved) => where(x.less(moved), x, moved),
  "add into an output": (x, moved) => {
    const out = zerosLike(x).permute(...MOVED);
    x.add(moved, { out });
    return out;
  },
  "add into an output of another dtype": (x, moved) =>
    x.add(moved, { out: zerosLike(x, { dtype: "float64" }) }),
  copy: (_, moved) => moved.copy(),
  "a cast": (_, moved) => moved.astype("float64"),
  "mixed dtypes": (x, moved) => moved.mul(x.astype("int16")),
  "sum of runs": (x) => x.sum(ODD),
  "sum of rows": (x) => x.sum([0, 2, 4, 6, 8]),
  max: (_, moved) => moved.max(ODD),
  argmax: (_, moved) => moved.argmax(3),
  "cumulativeSum of runs": (_, moved) => moved.cumulativeSum(8),
  "cumulativeSum of rows": (_, moved) => moved.cumulativeSum(4),
};

/** Small integers, so that no sum is rounded, in an order without repetition. */
function operand(dtype: DType, device: string): Any {
  const values = Array.from(
    { length: 1024 },
    (_, i) => (i * 389) % 61 - (dtype[0] === "u" ? 0 : 30),
  );
  const x: Any = tensor(values, { dtype }).reshape(SHAPE);
  return device === "cpu" ? x : x.to(device);
}

const TESTED = ["float32", "float16", "int64", "uint8"] as const;

/** The kernels for many axes, to be compiled together. */
function genericFamilies(): Family[] {
  const { add, less, where: choose, mul } = MAP;
  const maps = [add, less, choose, mul].flatMap((row) =>
    [...TESTED, "int16" as const].map((dtype) => mapSource(row, dtype, dtype, false))
  );
  const copies = TESTED.map((dtype) => mapSource(MAP.copy, dtype, dtype, true));
  const folds = TESTED.flatMap((from) => [
    reduceSource(REDUCE.sum, from, resultOf(REDUCE.sum, from), null),
    reduceSource(REDUCE.max, from, from, null),
    argReduceSource(ARG_REDUCE.argmax, from, "int32"),
  ]);
  const scans = TESTED.map((from) =>
    scanSource(SCAN.cumulativeSum, from, resultOf(SCAN.cumulativeSum, from))
  );
  const generic = ["along_generic", "across_generic"] as const;
  return [
    define([...maps, ...copies].map((source) => [source, ["generic"]] as const)),
    define(folds.map((source) => [source, generic] as const)),
    define(scans.map((source) => [source, generic] as const)),
  ];
}

const reason = whyNoCuda();
if (reason !== undefined) test(`many axes on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests({ families: [...usualFamilies(), ...genericFamilies()] });
  const launched = recordKernels();
  const run = (dtype: DType, device: string): Map<string, unknown> => {
    const x = operand(dtype, device);
    const moved = x.permute(...MOVED);
    return new Map(
      Object.entries(PROGRAMS).map(([name, program]) => [name, program(x, moved).toArray()]),
    );
  };
  for (const dtype of TESTED) {
    test(`ten axes of ${dtype}: what CUDA and the CPU give is the same`, () => {
      const there = run(dtype, "cuda");
      for (const [name, value] of run(dtype, "cpu")) assertEquals(there.get(name), value, name);
    });
  }
  test("every kind of kernel for many axes was launched, and is in the list", () => {
    const kinds = new Set(
      [...launched].map((name) => name.replace(/^.*?_(?=[a-z]+_generic$|generic$)/, "")),
    );
    for (const kind of ["generic", "along_generic", "across_generic"]) {
      assert(kinds.has(kind), `${kind} is not among ${[...launched].join(", ")}`);
    }
    assertListed(launched, 40);
  });
}
