/**
 * Runs the ops of the table on complex numbers: as ops on their real and imaginary parts where that
 * is the same, else by the kernels of `complexMap`.
 *
 * @module
 */
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import { DTypeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { normalizeAxes } from "../../base/shape.ts";
import { allocateIn } from "../../memory/device.ts";
import { writeElement } from "../../memory/element.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { recycle } from "../../memory/pool.ts";
import type { Storage } from "../../memory/storage.ts";
import { COMPLEX_MAP, type ComplexAttributes, type ComplexName } from "./op.ts";
import { type ReduceAttributes, type ScanAttributes, scanAxis } from "../../table/infer.ts";
import { Call, type Input, type MapOp, type ReduceOp } from "../../table/op.ts";
import { MAP, REDUCE, SCAN } from "../../table/table.ts";
import { SCALAR_LAYOUT, scalarOperand } from "../../core/calls.ts";
import { copyInto, copyOf, dispatch, fillWith, run } from "../../core/dispatch.ts";
import { dispose, tidy } from "../../core/handles.ts";
import { lanesOf, partOf } from "../../core/lanes.ts";
import { disturbs, newOutput, prepareOut } from "../../core/write.ts";

/** An operand: not a handle. */
function operand(storage: Storage, layout: Layout): Operand {
  return { storage, layout, flags: 0 };
}

// ---- elementwise -------------------------------------------------------------------------------

/** Ops that are the same op on both parts. */
const BY_LANES: ReadonlySet<string> = new Set(["add", "sub", "neg", "positive", "copy"]);

/** The comparisons of complex numbers with 0 that logical ops consist of. */
const LOGICAL: ReadonlySet<string> = new Set(["logicalAnd", "logicalOr", "logicalXor"]);

/** The inputs of a call in its compute dtype, and the copies among them. */
interface Prepared {
  readonly inputs: Operand[];
  readonly copies: Storage[];
}

/** A scalar as an operand on the device of `like`. */
function scalarOn(
  like: Storage,
  value: Exclude<Input, Operand | undefined>,
  info: DTypeInfo,
  k: number,
  copies: Storage[],
): Operand {
  if (like.memory === null) return scalarOperand(value, info, k);
  const storage = allocateIn(like.memory, info, 1, false);
  writeElement(storage, 0, value);
  copies.push(storage);
  return operand(storage, SCALAR_LAYOUT);
}

function prepare(call: Call, op: MapOp, like: Storage, out: Operand): Prepared {
  const copies: Storage[] = [];
  const inputs = call.inputs.slice(0, op.arity).map((x, k) => {
    const info = op.condition && k === 0 ? DTYPE.bool : call.compute;
    if (!isOperand(x)) return scalarOn(like, x!, info, k, copies);
    if (x.storage.info === info && !disturbs(out, x)) return x;
    const copy = copyOf(x, info);
    copies.push(copy.storage);
    return copy;
  });
  return { inputs, copies };
}

/** The elements of dense operands of one shape as a vector of floats; null for other operands. */
function flat(operands: readonly Operand[]): Operand[] | null {
  const { shape } = operands[0]!.layout;
  for (const { layout } of operands) {
    if (!layout.contiguous || layout.shape.length !== shape.length) return null;
    for (let i = 0; i < shape.length; i++) if (layout.shape[i] !== shape[i]) return null;
  }
  return operands.map(({ storage, layout }) =>
    operand(storage.lanes, Layout.contiguous([2 * layout.size], 2 * layout.offset))
  );
}

/** A condition beside lanes: its elements, with an axis of size 1. */
function besideLanes({ storage, layout }: Operand): Operand {
  const { shape, strides, offset } = layout;
  return operand(storage, new Layout([...shape, 1], [...strides, 0], offset));
}

/** Runs `op` from `inputs`, of the compute dtype, into `out`, which none of them disturbs. */
function runInto(call: Call, op: MapOp, inputs: Operand[], out: Operand): void {
  const { name } = op;
  if (BY_LANES.has(name)) {
    const all = [out, ...inputs];
    const [target, ...lanes] = flat(all) ?? all.map((x) => lanesOf(x, call.name));
    dispatch(op, lanes, undefined, target, call.name);
  } else if (name === "where") {
    const [condition, ...values] = inputs;
    const lanes = values.map((x) => lanesOf(x, call.name));
    dispatch(
      op,
      [besideLanes(condition!), ...lanes],
      undefined,
      lanesOf(out, call.name),
      call.name,
    );
  } else if (name === "real") copyInto(out, partOf(inputs[0]!, 0));
  else if (name === "imag") copyInto(out, partOf(inputs[0]!, 1));
  else if (LOGICAL.has(name) || name === "logicalNot") {
    tidy(() => {
      const nonzero = inputs.map((x) =>
        dispatch(MAP.notEqual, [x, 0], undefined, undefined, call.name)
      );
      dispatch(op, nonzero, undefined, out, call.name);
    });
  } else complexMap(name as ComplexName, inputs, out);
}

/** Runs a kernel on complex numbers. */
function complexMap(name: ComplexName, inputs: readonly Operand[], out: Operand): void {
  const parts: Operand[] = [out.storage.info.kind === "c" ? partOf(out, 0) : out];
  for (let k = 0; k < inputs.length; k++) parts.push(partOf(inputs[k]!, 0));
  const attributes: ComplexAttributes = { op: name };
  run(new Call(COMPLEX_MAP, COMPLEX_MAP.name, parts, attributes));
}

function runMap(call: Call): void {
  const op = call.op as MapOp;
  const [spec] = call.specs;
  const { like, name } = call;
  const given: Operand | undefined = call.outputs[0];
  if (given !== undefined) prepareOut(given, spec!, like, name);
  const near = like ?? operandOf(call).storage;
  const direct = given !== undefined && given.storage.info === spec!.dtype;
  const out = direct ? given : newOutput(spec!, near, given);
  const { inputs, copies } = prepare(call, op, near, out);
  try {
    if (out.layout.size > 0) runInto(call, op, inputs, out);
  } finally {
    for (const copy of copies) recycle(copy);
  }
  finish(call, given, out);
}

/** An operand of the compute dtype on the CPU, for calls of scalars only. */
function operandOf(call: Call): Operand {
  return scalarOperand(0, call.compute, 2);
}

/** Leaves `out` as the call's result, or copies it into the given output. */
function finish(call: Call, given: Operand | undefined, out: Operand): void {
  if (given === undefined) call.outputs[0] = out;
  else {
    if (given !== out) {
      copyInto(given, out);
      recycle(out.storage);
    }
    given.storage.version++;
    call.outputs[0] = given;
  }
}

// ---- along axes --------------------------------------------------------------------------------

/** `x` in the dtype that the call casts to first. */
function castFirst(call: Call): Operand {
  const x = call.operand(0);
  const { dtype } = call.attributes as ReduceAttributes;
  if (dtype === undefined || dtype === x.storage.info.name) return x;
  return dispatch(MAP.copy, [x], { dtype }, undefined, "astype");
}

/** Multiplies the elements along `axis` in pairs: a tree, whose rounding errors grow least. */
function product(x: Operand, axis: number, name: string): Operand {
  let made = x;
  for (let n = x.layout.shape[axis]!; n > 1;) {
    const half = Math.floor(n / 2);
    const part = (start: number, size: number): Operand =>
      operand(made.storage, made.layout.sliceAxis(axis, start, size, 1));
    const next = dispatch(MAP.mul, [part(0, half), part(half, half)], undefined, undefined, name);
    if (n % 2 === 1) {
      const first = operand(next.storage, next.layout.sliceAxis(axis, 0, 1, 1));
      dispatch(MAP.mul, [first, part(n - 1, 1)], undefined, first, name);
    }
    made = next;
    n = half;
  }
  return made;
}

/** A reduction of complex numbers over axes, which stay with size 1. */
function reduced(call: Call, op: ReduceOp, x: Operand, axes: readonly number[]): Operand {
  const { name, attributes } = call;
  const all = (of: ReduceOp, y: Operand, more: object = {}): Operand =>
    dispatch(
      of,
      [y],
      { ...attributes, dtype: undefined, axis: axes, keepDims: true, ...more },
      undefined,
      name,
    );
  switch (op.name) {
    case "sum":
    case "mean": {
      const lanes = all(op, lanesOf(x, name));
      return inPairs(lanes, x.storage.info, axes, x.layout.shape);
    }
    case "prod": {
      let made = x;
      for (const axis of axes) {
        made = made.layout.shape[axis] === 0
          ? filled(made, made.layout.shape.map((n, k) => k === axis ? 1 : n))
          : product(made, axis, name);
      }
      return made === x ? dispatch(MAP.copy, [x], undefined, undefined, name) : made;
    }
    case "var":
    case "std": {
      const squares = tidy(() => {
        const away = dispatch(MAP.sub, [x, call.inputs[1]], undefined, undefined, name);
        const [re, im] = [partOf(away, 0), partOf(away, 1)];
        const sum = dispatch(MAP.mul, [re, re], undefined, undefined, name);
        return dispatch(
          MAP.add,
          [sum, dispatch(MAP.mul, [im, im], undefined, undefined, name)],
          undefined,
          undefined,
          name,
        );
      });
      const total = all(REDUCE.sum, squares);
      const count = axes.reduce((n, axis) => n * x.layout.shape[axis]!, 1);
      const divisor = Math.max(0, count - Number(attributes.correction ?? 0));
      const made = dispatch(MAP.div, [total, divisor], undefined, undefined, name);
      return op.name === "var" ? made : dispatch(MAP.sqrt, [made], undefined, undefined, name);
    }
    case "any":
    case "all":
    case "countNonzero":
      return all(op, dispatch(MAP.notEqual, [x, 0], undefined, undefined, name));
    default:
      if (!op.realResult) break;
      return all(op, dispatch(MAP.abs, [x], undefined, undefined, name));
  }
  throw new DTypeError(`Cannot ${name} ${x.storage.info.name}: complex numbers have no order`);
}

/** A tensor of ones in `shape`, like `x`. */
function filled(x: Operand, shape: readonly number[]): Operand {
  const made = newOutput({ shape, dtype: x.storage.info }, x.storage);
  fillWith(made, 1);
  return made;
}

/** Pairs of floats, reduced over axes that stay with size 1, as complex numbers. */
function inPairs(
  lanes: Operand,
  info: DTypeInfo,
  axes: readonly number[],
  shape: readonly number[],
): Operand {
  const outer = shape.map((n, k) => axes.includes(k) ? 1 : n);
  const made = newOutput({ shape: outer, dtype: info }, lanes.storage);
  copyInto(lanesOf(made, "copy"), lanes);
  return made;
}

function runReduce(call: Call): void {
  const op = call.op as ReduceOp;
  const [spec] = call.specs;
  const { like, name } = call;
  const given: Operand | undefined = call.outputs[0];
  if (given !== undefined) prepareOut(given, spec!, like, name);
  const { axis } = call.attributes as ReduceAttributes;
  const rank = call.operand(0).layout.shape.length;
  const axes = normalizeAxes(name, axis, rank);
  const out = given ?? newOutput(spec!, like!);
  try {
    tidy(() => {
      const made = reduced(call, op, castFirst(call), axes);
      const { storage } = made;
      copyInto(out, operand(storage, Layout.contiguous(out.layout.shape, made.layout.offset)));
    });
  } catch (error) {
    if (given === undefined) dispose(out);
    throw error;
  }
  finish(call, given, out);
}

function runScan(call: Call): void {
  const { op, name, like } = call;
  const [spec] = call.specs;
  const given: Operand | undefined = call.outputs[0];
  if (given !== undefined) prepareOut(given, spec!, like, name);
  const axis = scanAxis(call);
  const { includeInitial } = call.attributes as ScanAttributes;
  const out = given ?? newOutput(spec!, like!);
  tidy(() => {
    const x = castFirst(call);
    if (op === SCAN.cumulativeSum) {
      const sums = dispatch(op, [lanesOf(x, name)], { axis, includeInitial }, undefined, name);
      copyInto(lanesOf(out, name), sums);
    } else copyInto(out, products(x, axis, includeInitial === true, name));
  });
  finish(call, given, out);
}

/** Running products: each round multiplies by those that end twice as far before. */
function products(x: Operand, axis: number, initial: boolean, name: string): Operand {
  const n = x.layout.shape[axis]!;
  const size = initial ? n + 1 : n;
  const made = filled(x, x.layout.shape.map((m, k) => k === axis ? size : m));
  const part = (of: Operand, start: number, count: number): Operand =>
    operand(of.storage, of.layout.sliceAxis(axis, start, count, 1));
  copyInto(part(made, size - n, n), x);
  for (let step = 1; step < size; step *= 2) {
    const [later, earlier] = [part(made, step, size - step), part(made, 0, size - step)];
    dispatch(MAP.mul, [later, earlier], undefined, later, name);
  }
  return made;
}

/** Runs an inferred call of an op of the table on complex numbers. */
export function runComplex(call: Call): void {
  switch (call.op.kind) {
    case "map":
      return runMap(call);
    case "reduce":
      return runReduce(call);
    default:
      return runScan(call);
  }
}
