/**
 * Elementwise ops on complex numbers in JavaScript.
 *
 * @module
 */
import { OFFSETS, type Plan } from "../../base/plan.ts";
import { planComplex } from "../../core/lanes.ts";
import { COMPLEX_RESULT, type ComplexAttributes, type ComplexName } from "../../ops/complex/op.ts";
import type { Call } from "../../table/op.ts";
import {
  cacos,
  cacosh,
  casin,
  casinh,
  catan,
  catanh,
  ccos,
  ccosh,
  cexp,
  cexp2,
  cexpm1,
  clog,
  clog1p,
  type ComplexFunction,
  cpow,
  csign,
  csin,
  csinh,
  csqrt,
  ctan,
  ctanh,
  div,
  modulus,
  mul,
  Z,
} from "../../ops/complex/math.ts";

function set(re: number, im: number): void {
  Z[0] = re;
  Z[1] = im;
}

/** `f`, and its result times a number. */
function scaled(f: ComplexFunction, scale: number): ComplexFunction {
  return (xr, xi) => {
    f(xr, xi, 0, 0);
    set(Z[0]! * scale, Z[1]! * scale);
  };
}

const flag = (is: boolean): void => set(Number(is), 0);

const FUNCTIONS: { readonly [N in ComplexName]: ComplexFunction } = {
  mul,
  div,
  conj: (xr, xi) => set(xr, -xi),
  square: (xr, xi) => mul(xr, xi, xr, xi),
  reciprocal: (xr, xi) => div(1, 0, xr, xi),
  sign: csign,
  sqrt: csqrt,
  rsqrt: (xr, xi) => {
    csqrt(xr, xi);
    div(1, 0, Z[0]!, Z[1]!);
  },
  exp: cexp,
  expm1: cexpm1,
  exp2: (xr, xi) => cexp2(xr, xi, true),
  log: clog,
  log1p: clog1p,
  log2: scaled(clog, Math.LOG2E),
  log10: scaled(clog, Math.LOG10E),
  sin: csin,
  cos: ccos,
  tan: ctan,
  asin: casin,
  acos: cacos,
  atan: catan,
  sinh: csinh,
  cosh: ccosh,
  tanh: ctanh,
  asinh: casinh,
  acosh: cacosh,
  atanh: catanh,
  pow: (xr, xi, yr, yi) => cpow(xr, xi, yr, yi, true),
  abs: (xr, xi) => set(modulus(xr, xi), 0),
  angle: (xr, xi) => set(Math.atan2(xi, xr), 0),
  equal: (xr, xi, yr, yi) => flag(xr === yr && xi === yi),
  notEqual: (xr, xi, yr, yi) => flag(xr !== yr || xi !== yi),
  isnan: (xr, xi) => flag(xr !== xr || xi !== xi),
  isinf: (xr, xi) => flag(Math.abs(xr) === Infinity || Math.abs(xi) === Infinity),
  isfinite: (xr, xi) => flag(xr - xr === 0 && xi - xi === 0),
};

/** Functions whose results are rounded to floats, and need no more digits. */
const NARROW: { readonly [N in ComplexName]?: ComplexFunction } = {
  exp2: (xr, xi) => cexp2(xr, xi, false),
  pow: (xr, xi, yr, yi) => cpow(xr, xi, yr, yi, false),
};

/** Calls `each` with the positions of all elements: those of the output and the inputs. */
function visit(plan: Plan, each: (out: number, x: number, y: number) => void): void {
  const { data, rank, operands } = plan;
  const sizes = OFFSETS + operands;
  const strideOf = (k: number, axis: number): number => data[sizes + rank + k * rank + axis]!;
  const second = Math.min(2, operands - 1);
  const go = (axis: number, out: number, x: number, y: number): void => {
    if (axis === rank) return each(out, x, y);
    const n = data[sizes + axis]!;
    const [so, sx, sy] = [strideOf(0, axis), strideOf(1, axis), strideOf(second, axis)];
    if (axis === rank - 1) {
      for (let i = 0; i < n; i++) each(out + i * so, x + i * sx, y + i * sy);
    } else for (let i = 0; i < n; i++) go(axis + 1, out + i * so, x + i * sx, y + i * sy);
  };
  go(0, data[OFFSETS]!, data[OFFSETS + 1]!, data[OFFSETS + second]!);
}

/** Runs an op on complex numbers. */
export function complexMap(call: Call): void {
  const { op } = call.attributes as ComplexAttributes;
  const plan = planComplex(call);
  if (plan.size === 0) return;
  const out = call.operand(0).storage.array as Float64Array;
  const a = call.operand(1).storage.array as Float64Array;
  const b = call.operand(call.inputs.length - 1).storage.array as Float64Array;
  const f = (a.BYTES_PER_ELEMENT === 4 ? NARROW[op] : undefined) ?? FUNCTIONS[op];
  const pairs = COMPLEX_RESULT[op] === "c";
  visit(plan, (at, x, y) => {
    f(a[x]!, a[x + 1]!, b[y]!, b[y + 1]!);
    out[at] = Z[0]!;
    if (pairs) out[at + 1] = Z[1]!;
  });
}
