/**
 * Compares two results within an op's tolerance.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { DTYPE, type DType, finfo } from "../../../src/base/dtype.ts";
import { sameShape, type Shape } from "../../../src/base/shape.ts";
import type { Operand } from "../../../src/memory/operand.ts";
import { needsDouble } from "../../../src/table/c_rules.ts";
import type { TableOp } from "../../../src/table/op.ts";
import type { Num } from "./operands.ts";

/** The largest difference between results. */
export interface Tolerance {
  /** In units in the last place of the expected value. */
  readonly ulp: number;
  /** An additional absolute tolerance. */
  readonly slack?: number;
  /** True if zeros may differ in sign. */
  readonly eitherZero?: boolean;
}

/** Requires the same bits; all NaN are equal. */
export const EXACT: Tolerance = { ulp: 0 };

/** The distance between neighbors of `dtype` near `value`. */
export function spacing(value: number, dtype: DType): number {
  const { eps, smallestNormal } = finfo(dtype);
  // Exponents are added: 2 ** 1024, as the log of the largest float64 rounds, is infinite.
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(value))), Math.log2(smallestNormal));
  return 2 ** (exponent + Math.log2(eps));
}

/**
 * The error of an elementwise op in `dtype`; for float64 see primitives.ts. Kernels in C compute
 * float32 in float32, where JavaScript uses doubles: they may be off by one unit more.
 */
export function mapUlp(row: TableOp, dtype: DType, inC: boolean): number {
  const { kind, bytes } = DTYPE[dtype];
  if (kind !== "f") return 0;
  // The double of several operations is rounded to float32 before it is rounded to 16 bits.
  if (row.ulp === 0) return bytes === 2 && row.kind === "map" && needsDouble(row) ? 1 : 0;
  if (dtype === "float64") return 4;
  return dtype === "float32" ? row.ulp + (inC ? 1 : 0) : 1;
}

/** The size from which kernels in C may add float32 by fours, in float32. */
export const MANY = 64;

/**
 * The tolerance of a fold of `values` with results in `dtype`: its own, and the errors of the
 * float64 accumulator, which the sum of the magnitudes bounds. In C, where `from` is their dtype,
 * also those of two additions in float32, or of differences and exponentials in float32, whose
 * relative error is the log's.
 */
export function foldTolerance(
  row: TableOp,
  dtype: DType,
  values: readonly Num[],
  from?: DType,
): Tolerance {
  if (DTYPE[dtype].kind !== "f" || row.result === "same") return { ulp: 0, eitherZero: true };
  const magnitude = magnitudeOf(values);
  const count = values.length + 4;
  // Running sums begin with +0, where NumPy's begin with the first element.
  const eitherZero = row.kind === "scan";
  // Products and powers have relative errors of their own, one for each element.
  const ulp = dtype === "float64" ? row.ulp + count : dtype === "float32" ? row.ulp : 1;
  const fours = from === "float32" && values.length >= MANY &&
    ["sum", "nansum", "mean", "norm1", "norm2"].includes(row.name);
  const rounded = fours ? 2 ** -23 : 0;
  const log = from === "float32" && row.name === "logSumExp"
    ? 2 ** -22 + 2 ** -25 * Math.log(values.length)
    : 0;
  return { ulp, slack: magnitude * (count * 2 ** -53 + rounded) + log, eitherZero };
}

const magnitudes = new WeakMap<readonly Num[], number>();

/** The sum of the finite magnitudes; a list of values never changes. */
function magnitudeOf(values: readonly Num[]): number {
  let sum = magnitudes.get(values);
  if (sum === undefined) {
    sum = 0;
    for (const x of values) {
      const size = Math.abs(Number(x));
      if (Number.isFinite(size)) sum += size;
    }
    magnitudes.set(values, sum);
  }
  return sum;
}

/** Throws unless the result of a case has a shape. */
export function assertShape(what: () => string, { layout }: Operand, shape: Shape): void {
  if (!sameShape(layout.shape, shape)) assertEquals(layout.shape, shape, `${what()}: shape`);
}

/** Throws unless the result of a case has a dtype. */
export function assertDType(what: () => string, { storage }: Operand, dtype: DType): void {
  const { name } = storage.info;
  if (name !== dtype) assertEquals(name, dtype, `${what()}: dtype`);
}

/** Throws, naming the case and the element, unless `actual` is `expected`. */
export function assertSame(
  what: (i: number) => string,
  actual: readonly Num[],
  expected: readonly Num[],
  dtype: DType,
  tolerance: Tolerance = EXACT,
): void {
  if (actual.length !== expected.length) {
    throw new Error(`${what(-1)}: ${actual.length} elements, expected ${expected.length}`);
  }
  for (let i = 0; i < actual.length; i++) {
    const [a, e] = [actual[i]!, expected[i]!];
    if (Object.is(a, e) || near(a, e, dtype, tolerance)) continue;
    throw new Error(`${what(i)}: element ${i} is ${show(a)}, expected ${show(e)}`);
  }
}

function near(a: Num, e: Num, dtype: DType, { ulp, slack = 0, eitherZero }: Tolerance): boolean {
  if (typeof a === "bigint" || typeof e === "bigint") return a === e;
  if (a === e) return eitherZero === true;
  if (ulp === 0 || !Number.isFinite(a) || !Number.isFinite(e)) return false;
  return Math.abs(a - e) <= ulp * spacing(e, dtype) + slack;
}

/** A value as it would be written, with the sign of zero. */
export function show(value: Num): string {
  return typeof value === "bigint" ? `${value}n` : Object.is(value, -0) ? "-0" : String(value);
}
