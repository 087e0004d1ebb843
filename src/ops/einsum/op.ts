/**
 * Products over axes by name or by number: `einsum`, `tensordot`, `vecdot`, `inner`, `kron`, `trace`
 * and `cross`.
 *
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import { checkDType, DTYPE, type DType, type DTypeInfo, promoteTypes } from "../../base/dtype.ts";
import { ArgumentError, AxisError, ShapeError } from "../../base/errors.ts";
import type { Layout } from "../../base/layout.ts";
import {
  broadcastShapes,
  checkRank,
  formatShape,
  lengthOf,
  listIn,
  normalizeAxes,
  normalizeAxis,
  ownAxes,
} from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { brandOf } from "../../base/version.ts";
import { apply, applyInto, applyView, type OpOptions } from "../../core/apply.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { empty, tracedOf } from "../../core/composite.ts";
import { tidy } from "../../core/handles.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkDevice, checkOperand, checkOptions, ruleFor } from "../../table/infer.ts";
import { type Call, makeOp, type MapOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { contract, rearranged } from "./contract.ts";
import { runAgain, runDirect } from "./direct.ts";
import { type Equation, type Label, lastOf, parseEquation } from "./equation.ts";
import { doNotFit, productDType } from "../matmul/op.ts";

const OUT_ONLY = ["out"];
const NO_OPTIONS: OpOptions = {};

/** `made` as a new contiguous tensor: a copy if it is a view. */
function asResult(made: Operand, inputs: readonly unknown[]): Operand {
  const isInput = inputs.some((x) => (x as Operand).storage === made.storage);
  return isInput || !made.layout.contiguous ? contiguousCopy(made) : made;
}

// ---- einsum ------------------------------------------------------------------------------------

function equationOf({ inputs, attributes }: Call): Equation {
  const shapes = (inputs as Operand[]).map((x) => x.layout.shape);
  return parseEquation((attributes as { readonly equation: string }).equation, shapes);
}

/** The dtype that all inputs of a product promote to. */
function commonDType({ inputs, name }: Call): DTypeInfo {
  const [first] = inputs;
  checkOperand(first, name);
  let dtype: DType = first.storage.info.name;
  for (let k = 1; k < inputs.length; k++) {
    const { storage } = inputs[k] as Operand;
    checkDevice(first.storage, storage, name);
    dtype = promoteTypes(dtype, storage.info.name, name);
  }
  return productDType(name, first, first, dtype);
}

const EINSUM: Op = makeOp({
  kind: "kernel",
  name: "einsum",
  infer(call: Call): readonly OutputSpec[] {
    for (const x of call.inputs) checkOperand(x, call.name);
    const equation = equationOf(call);
    call.memo = equation;
    const { output, sizes } = equation;
    const dtype = commonDType(call);
    return call.result(output.map((label) => sizes.get(label)!), dtype);
  },
  decompose(call: Call): Operand {
    const { terms, output, sizes } = call.memo as Equation;
    const all = terms.map((labels, k) => ({ x: call.operand(k), labels }));
    const made = contract(all, output, sizes, call.specs[0]!.dtype, call.name);
    return asResult(made, call.inputs);
  },
});

/** Whether the result of an equation for one operand is a view of it. */
function isView({ terms, output }: Equation): boolean {
  const [labels] = terms;
  for (const label of labels!) if (!output.includes(label)) return false;
  return true;
}

function isOptions(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) &&
    brandOf(value, "tensor") === undefined;
}

/** The sum of products that `equation` names; the last of `xs` may be options. */
export function einsum(equation: string, xs: readonly unknown[]): Operand {
  const again = runAgain(lastOf(equation), xs);
  if (again !== undefined) return again;
  if (xs.length === 0) throw new ArgumentError("Cannot einsum without tensors");
  const last = xs[xs.length - 1];
  const hasOptions = !isOperand(last) && isOptions(last);
  const options = hasOptions ? last as OpOptions : NO_OPTIONS;
  if (hasOptions) checkOptions("einsum", options, OUT_ONLY);
  const count = hasOptions ? xs.length - 1 : xs.length;
  if (count === 0) throw new ArgumentError("Cannot einsum without tensors");
  const own: Operand[] = [];
  const shapes: (readonly number[])[] = [];
  for (let k = 0; k < count; k++) {
    const x = ownOperand(xs[k], "einsum");
    own.push(x);
    shapes.push(x.layout.shape);
  }
  const { out } = options;
  if (count <= 2 && out === undefined) {
    const x = own[0]!;
    const info = productDType("einsum", x, count === 1 ? x : own[1]!);
    const found = parseEquation(equation, shapes);
    if (count === 1 && isView(found)) {
      return tidy(() => rearranged({ x, labels: found.terms[0]! }, found.output, found.sizes));
    }
    const made = runDirect(found, own, info);
    if (made !== undefined) return made;
  }
  return dispatch(EINSUM, own, { equation }, out);
}

// ---- products along numbered axes --------------------------------------------------------------

/** A product of two tensors as a contraction. */
interface Plan {
  readonly terms: readonly [readonly Label[], readonly Label[]];
  readonly output: readonly Label[];
}

/** The size of each index of a plan whose shapes fit. */
function sizesOf({ terms }: Plan, shapes: readonly (readonly number[])[]): Map<Label, number> {
  const sizes = new Map<Label, number>();
  terms.forEach((labels, k) =>
    labels.forEach((label, axis) => {
      const n = shapes[k]![axis]!;
      if ((sizes.get(label) ?? 1) === 1) sizes.set(label, n);
    })
  );
  return sizes;
}

/** An op of two tensors that is a contraction; `plan` also checks the shapes. */
function pairOp(name: string, plan: (call: Call, a: Layout, b: Layout) => Plan): Op {
  const planOf = (call: Call): [Plan, Map<Label, number>] => {
    const [a, b] = [call.operand(0).layout, call.operand(1).layout];
    const made = plan(call, a, b);
    return [made, sizesOf(made, [a.shape, b.shape])];
  };
  return makeOp({
    kind: "kernel",
    name,
    infer(call: Call): readonly OutputSpec[] {
      const dtype = productDType(call.name, call.inputs[0], call.inputs[1]);
      const [{ output }, sizes] = planOf(call);
      checkRank(output.length, call.name);
      return call.result(output.map((label) => sizes.get(label)!), dtype);
    },
    decompose(call: Call): Operand {
      const [{ terms, output }, sizes] = planOf(call);
      const conjugates = (call.attributes as { readonly conjugates?: boolean }).conjugates === true;
      const [a, b] = [call.operand(0), call.operand(1)];
      const pair = [
        { x: conjugates ? conjugated(a) : a, labels: terms[0] },
        { x: b, labels: terms[1] },
      ];
      const made = contract(pair, output, sizes, call.specs[0]!.dtype, call.name);
      return asResult(made, call.inputs);
    },
  });
}

/** The conjugate of complex elements. */
function conjugated(x: Operand): Operand {
  const conj = (MAP as Readonly<Record<string, MapOp>>)["conj"];
  return (x.storage.info.kind as string) === "c" && conj !== undefined ? apply(conj, x) : x;
}

const labels = (prefix: string, count: number): Label[] =>
  Array.from({ length: count }, (_, i) => `${prefix}${i}`);

/** The axes of `tensordot`: how many, or those of each tensor. */
export type ContractedAxes =
  | number
  | readonly [number | readonly number[], number | readonly number[]];

/** The checked axes of both tensors. */
function contractedAxes(name: string, a: Layout, b: Layout, axes: unknown): [number[], number[]] {
  const [ra, rb] = [a.shape.length, b.shape.length];
  if (typeof axes === "number") {
    if (!Number.isInteger(axes) || axes < 0 || axes > Math.min(ra, rb)) {
      throw new AxisError(
        `Cannot ${name} shapes ${formatShape(a.shape)} and ${formatShape(b.shape)} over ` +
          `${describe(axes)} axes: it is from 0 to ${Math.min(ra, rb)}`,
      );
    }
    return [
      Array.from({ length: axes }, (_, i) => ra - axes + i),
      Array.from({ length: axes }, (_, i) => i),
    ];
  }
  if (!Array.isArray(axes)) {
    throw new AxisError(
      `Cannot ${name}: axes are a number of axes, or two arrays, those of each tensor`,
    );
  }
  const [p, q] = [normalizeAxes(name, axes[0], ra), normalizeAxes(name, axes[1], rb)];
  if (p.length !== q.length) {
    throw new AxisError(`Cannot ${name} over ${p.length} axes and ${q.length} axes`);
  }
  return [p, q];
}

const TENSORDOT: Op = pairOp("tensordot", ({ name, attributes }, a, b) => {
  const [p, q] = contractedAxes(name, a, b, attributes.axes);
  p.forEach((axis, i) => {
    const [m, n] = [a.shape[axis]!, b.shape[q[i]!]!];
    if (m !== n) {
      throw doNotFit(name, a, b, `axes ${axis} and ${q[i]} have sizes ${m} and ${n}`);
    }
  });
  const [left, right] = [labels("a", a.shape.length), labels("b", b.shape.length)];
  p.forEach((axis, i) => left[axis] = right[q[i]!] = `s${i}`);
  const output = [...left, ...right].filter((label) => !(label as string).startsWith("s"));
  return { terms: [left, right], output };
});

/** The sum of products over several axes of both tensors. */
export function tensordot(a: Operand, b: unknown, axes: unknown = 2, options: OpOptions = {}) {
  checkOptions("tensordot", options, OUT_ONLY);
  const own = lengthOf(axes) === 2
    ? listIn(axes, (one) => ownAxes(one, "tensordot"), 2)
    : typeof axes === "number"
    ? axes
    : undefined;
  const inputs = [ownOperand(a, "tensordot"), ownOperand(b, "tensordot")];
  return dispatch(TENSORDOT, inputs, { axes: own }, options.out);
}

const VECDOT: Op = pairOp("vecdot", ({ name, attributes: { axis } }, a, b) => {
  const [ra, rb] = [a.shape.length, b.shape.length];
  if (ra === 0 || rb === 0) throw doNotFit(name, a, b, "both need at least 1 axis");
  // A negative axis counts from the end of each, others from the start of both.
  if (!Number.isInteger(axis) || (axis >= 0 && ra !== rb)) {
    throw new AxisError(
      `Cannot ${name} shapes ${formatShape(a.shape)} and ${formatShape(b.shape)} along axis ${
        describe(axis)
      }: for tensors of different ranks it is negative`,
    );
  }
  const [p, q] = [normalizeAxis(name, axis, ra), normalizeAxis(name, axis, rb)];
  const [m, n] = [a.shape[p]!, b.shape[q]!];
  if (m !== n) throw doNotFit(name, a, b, `axis ${axis} has sizes ${m} and ${n}`);
  const rest = (shape: readonly number[], i: number): number[] => shape.toSpliced(i, 1);
  const { length } = broadcastShapes(name, rest(a.shape, p), rest(b.shape, q));
  const output = labels("a", length);
  const own = (rank: number, at: number): Label[] =>
    output.slice(length - rank + 1).toSpliced(at, 0, "s");
  return { terms: [own(ra, p), own(rb, q)], output };
});

/** The sum of products along one axis; the others broadcast. */
export function vecdot(a: Operand, b: unknown, axis = -1, options: OpOptions = {}): Operand {
  checkOptions("vecdot", options, OUT_ONLY);
  const inputs = [ownOperand(a, "vecdot"), ownOperand(b, "vecdot")];
  return dispatch(VECDOT, inputs, { axis, conjugates: true }, options.out);
}

const INNER: Op = pairOp("inner", ({ name }, a, b) => {
  const [ra, rb] = [a.shape.length, b.shape.length];
  const [left, right] = [labels("a", ra), labels("b", rb)];
  if (ra > 0 && rb > 0) {
    const [m, n] = [a.shape[ra - 1]!, b.shape[rb - 1]!];
    if (m !== n) throw doNotFit(name, a, b, `inner sizes ${m} and ${n} differ`);
    left[ra - 1] = right[rb - 1] = "s";
  }
  return { terms: [left, right], output: [...left, ...right].filter((label) => label !== "s") };
});

/** The sums of products along the last axes. */
export function inner(a: Operand, b: unknown, options: OpOptions = {}): Operand {
  checkOptions("inner", options, OUT_ONLY);
  return dispatch(INNER, [ownOperand(a, "inner"), ownOperand(b, "inner")], {}, options.out);
}

// ---- kron --------------------------------------------------------------------------------------

/** Shapes of one rank: with axes of size 1 in front. */
function sameRank(a: readonly number[], b: readonly number[]): [number[], number[]] {
  const rank = Math.max(a.length, b.length);
  const pad = (shape: readonly number[]): number[] => [
    ...new Array<number>(rank - shape.length).fill(1),
    ...shape,
  ];
  return [pad(a), pad(b)];
}

const KRON: Op = makeOp({
  kind: "kernel",
  name: "kron",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [a, b], name } = call;
    const dtype = productDType(name, a, b);
    const [p, q] = sameRank((a as Operand).layout.shape, (b as Operand).layout.shape);
    checkRank(2 * p.length, name);
    return call.result(p.map((n, i) => n * q[i]!), dtype);
  },
  decompose(call: Call): Operand {
    const [a, b] = [call.operand(0), call.operand(1)];
    const [p, q] = sameRank(a.layout.shape, b.layout.shape);
    const x = applyView(VIEWS.reshape, a, "reshape", p.flatMap((n) => [n, 1]));
    const y = applyView(VIEWS.reshape, b, "reshape", q.flatMap((n) => [1, n]));
    const product = apply(MAP.mul, x, y, undefined, undefined, call.name);
    return applyView(VIEWS.reshape, product, "reshape", p.map((n, i) => n * q[i]!));
  },
});

/** The Kronecker product: every element of `a` times all of `b`. */
export function kron(a: Operand, b: unknown, options: OpOptions = {}): Operand {
  checkOptions("kron", options, OUT_ONLY);
  return dispatch(KRON, [ownOperand(a, "kron"), ownOperand(b, "kron")], undefined, options.out);
}

// ---- trace -------------------------------------------------------------------------------------

/** Options of {@link trace}. */
export interface TraceOptions {
  /** Which diagonal: positive ones are above the main diagonal, negative ones below. */
  readonly offset?: number;
  /** The axes of the planes, 0 and 1 by default. */
  readonly axis1?: number;
  readonly axis2?: number;
  /** The dtype that the elements are cast to first, and of the result. */
  readonly dtype?: DType | undefined;
  readonly out?: Operand | undefined;
}

const TRACE: Op = makeOp({
  kind: "kernel",
  name: "trace",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x], name, attributes: { offset, axis1, axis2, dtype } } = call;
    checkOperand(x, name);
    const { shape } = x.layout;
    if (shape.length < 2) {
      throw new ShapeError(`Cannot ${name} shape ${formatShape(shape)}: it takes at least 2 axes`);
    }
    normalizeAxes(name, [axis1, axis2], shape.length);
    const diagonal = x.layout.diagonal(offset, axis1, axis2);
    const { result } = ruleFor(
      REDUCE.sum,
      dtype === undefined ? x.storage.info : DTYPE[dtype as DType],
      name,
    );
    return call.result(
      diagonal.shape.slice(0, -1),
      dtype === undefined ? result : DTYPE[dtype as DType],
    );
  },
  decompose(call: Call): Operand {
    const { name, attributes: { offset, axis1, axis2, dtype } } = call;
    const x = call.operand(0);
    const diagonal = applyView(VIEWS.diagonal, x, "diagonal", offset, axis1, axis2);
    return dispatch(REDUCE.sum, [diagonal], { axis: -1, dtype }, undefined, name);
  },
});

/** The sum of a diagonal of two axes. */
export function trace(x: Operand, options: TraceOptions = {}): Operand {
  checkOptions("trace", options, ["offset", "axis1", "axis2", "dtype", "out"]);
  const { offset = 0, axis1 = 0, axis2 = 1, dtype, out } = options;
  if (dtype !== undefined) checkDType(dtype, "trace");
  return dispatch(TRACE, [ownOperand(x, "trace")], { offset, axis1, axis2, dtype }, out);
}

// ---- cross -------------------------------------------------------------------------------------

const CROSS: Op = makeOp({
  kind: "kernel",
  name: "cross",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [a, b], name, attributes: { axis } } = call;
    const dtype = productDType(name, a, b);
    const [p, q] = [(a as Operand).layout, (b as Operand).layout];
    const [i, j] = [
      normalizeAxis(name, axis, p.shape.length),
      normalizeAxis(name, axis, q.shape.length),
    ];
    if (p.shape[i] !== 3 || q.shape[j] !== 3) {
      throw doNotFit(name, p, q, `axis ${axis} must have size 3`);
    }
    return call.result(broadcastShapes(name, p.shape, q.shape), dtype);
  },
  decompose(call: Call): Operand {
    const { name, attributes: { axis }, specs: [spec] } = call;
    const { shape, dtype } = spec!;
    const [a, b] = [call.operand(0), call.operand(1)].map((x) => cast(x, dtype.name)) as [
      Operand,
      Operand,
    ];
    const out = empty(shape, tracedOf(a, b), dtype);
    const at = ({ storage, layout, flags }: Operand, i: number): Operand => {
      const along = normalizeAxis(name, axis, layout.shape.length);
      return { storage, layout: layout.sliceAxis(along, i, 1, 1), flags };
    };
    for (let i = 0; i < 3; i++) {
      const [j, k] = [(i + 1) % 3, (i + 2) % 3];
      const part = at(out, i);
      applyInto(MAP.mul, name, at(a, j), at(b, k), undefined, part);
      const other = apply(MAP.mul, at(a, k), at(b, j), undefined, undefined, name);
      applyInto(MAP.sub, name, part, other, undefined, part);
    }
    return out;
  },
});

/** The vector products of vectors of size 3 along `axis`. */
export function cross(a: Operand, b: unknown, axis = -1, options: OpOptions = {}): Operand {
  checkOptions("cross", options, OUT_ONLY);
  return dispatch(CROSS, [ownOperand(a, "cross"), ownOperand(b, "cross")], { axis }, options.out);
}
