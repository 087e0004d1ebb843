/**
 * Infers the results of elementwise ops, reductions and scans: dtypes by the ops' rules, shapes by
 * broadcasting and by axes. Every check happens here, before any allocation or write.
 *
 * Knows nothing of backends, plans or memory.
 *
 * @module
 */
import {
  checkDType,
  type Complex,
  COMPLEX_ADVICE,
  complexOf,
  DEQUANTIZE_ADVICE,
  DTYPE,
  type DType,
  type DTypeInfo,
  isComplexScalar,
  type Kind,
  promoteScalar,
  promoteTypes,
  realOf,
  type Scalar,
  scalarDType,
} from "../base/dtype.ts";
import { describe } from "../base/text.ts";
import { AxisError, DeviceError, DTypeError, ShapeError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { brandOf } from "../base/version.ts";
import { Layout } from "../base/layout.ts";
import {
  broadcastShapes,
  formatShape,
  noAxis,
  normalizeAxes,
  normalizeAxis,
  sameShape,
} from "../base/shape.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import { checkAlive, type Storage } from "../memory/storage.ts";
import type {
  ArgReduceOp,
  Call,
  DTypeRule,
  ElementOp,
  Input,
  MapOp,
  Op,
  OutputSpec,
  ReduceOp,
  ScanOp,
  TableOp,
} from "./op.ts";

// ---- arguments ---------------------------------------------------------------------------------

/** True for a number, a bigint, a boolean, or a complex number as an object. */
export function isScalar(value: unknown): value is Scalar | Complex {
  return typeof value === "number" || typeof value === "bigint" || typeof value === "boolean" ||
    isComplexScalar(value);
}

/** Throws unless `value` is a tensor with live memory. */
export function checkOperand(value: unknown, name: string): asserts value is Operand {
  // Inlined, as each op comes by here.
  if (!((value as Partial<Operand> | null | undefined)?.layout instanceof Layout)) {
    if (brandOf(value, "tensor") === undefined) {
      throw new DTypeError(`Cannot ${name}: expected a tensor, got ${describeArgument(value)}`);
    }
    throw new DeviceError(
      `Cannot ${name} with a tensor of another copy of rowmajor here: only operands may be such; ` +
        "tensor() copies it",
    );
  }
  const { storage } = value as Operand;
  if (storage.exposed) checkAlive(storage, name);
}

/** Throws unless `value` is a tensor with live memory, or a scalar. */
function checkInput(value: unknown, name: string): asserts value is Operand | Scalar | Complex {
  if (isScalar(value)) return;
  if (!isOperand(value)) {
    throw new DTypeError(
      `Cannot ${name}: expected a tensor or a scalar, got ${describeArgument(value)}`,
    );
  }
  checkAlive(value.storage, name);
}

function describeArgument(value: unknown): string {
  if (Array.isArray(value)) return "an array: tensor(...) makes a tensor of it";
  const isObject = typeof value === "object" && value !== null && !ArrayBuffer.isView(value);
  return describe(value) + (isObject ? ": options come last, after all tensors" : "");
}

/** Throws unless both are on one device. */
export function checkDevice(a: Storage, b: Storage, name: string): void {
  if (a.device !== b.device) {
    throw new DeviceError(
      `Cannot ${name} tensors on ${a.device} and ${b.device}: move one with to()`,
    );
  }
}

/** Throws a TypeError for an option that the op does not have. */
export function checkOptions(name: string, options: object, known: readonly string[]): void {
  if (
    typeof options !== "object" || options === null || Array.isArray(options) ||
    brandOf(options, "tensor") !== undefined
  ) {
    const makes = known.includes("out") || known.includes("device");
    const sizes = typeof options === "number" && makes
      ? `, not ${options}; several sizes or axes are one array`
      : "";
    throw typeError(
      `Cannot ${name}: options come last, in an object of ${known.join(", ")}${sizes}`,
    );
  }
  for (const key in options) {
    if (!known.includes(key)) {
      throw typeError(
        `Cannot ${name} with option ${describe(key)}: it takes ${known.join(", ")}` +
          (key === "axis"
            ? `; the axis comes before the options: ${name}(..., axis, options)`
            : ""),
      );
    }
  }
}

// ---- dtypes ------------------------------------------------------------------------------------

/** True if `op` supports elements of `dtype`. */
export function takes(op: TableOp, dtype: DType): boolean {
  return op.dtypes.includes(DTYPE[dtype].kind);
}

/** The dtype that `op` computes in for elements of `dtype`. */
export function computeOf(op: ElementOp, dtype: DType): DType {
  const { kind } = DTYPE[dtype];
  return op.result === "float" && kind !== "f" && kind !== "c" ? "float32" : dtype;
}

/** The dtype of the result of `op` for elements of `dtype`. */
export function resultOf(op: ElementOp, dtype: DType): DType {
  if (op.result === "bool" || op.result === "int32") return op.result;
  const { kind } = DTYPE[dtype];
  if (kind === "c") return op.realResult ? realOf(DTYPE[dtype]).name : dtype;
  if (!accumulates(op) || kind === "f") return computeOf(op, dtype);
  // Sums of short unsigned integers fit int64; their products may need all bits.
  return dtype === "uint64" || (op.result === "prod" && kind === "u") ? "uint64" : "int64";
}

/** True for sums and products, whose integer results have 64 bits and whose dtype may be chosen. */
export function accumulates(op: ElementOp): boolean {
  return op.result === "sum" || op.result === "prod";
}

const KINDS: Record<Kind, string> = {
  b: "bool",
  i: "signed",
  u: "unsigned",
  f: "float",
  c: "complex",
};

/** The rules for complex dtypes, by ids of ops and dtypes: not where the shortest path looks. */
const COMPLEX_RULES: (DTypeRule | undefined)[][] = [];

/** The rule of `op` for elements of `info`. Throws a DTypeError if it does not support them. */
export function ruleFor(op: ElementOp, info: DTypeInfo, name: string): DTypeRule {
  if (info.kind === "c") return (COMPLEX_RULES[op.id] ??= [])[info.id] ??= makeRule(op, info, name);
  return op.rules[info.id] ??= makeRule(op, info, name);
}

function makeRule(op: ElementOp, info: DTypeInfo, name: string): DTypeRule {
  checkKind(info, op.dtypes, name);
  return { compute: DTYPE[computeOf(op, info.name)], result: DTYPE[resultOf(op, info.name)] };
}

/** What to do with operands of a kind. */
const ADVICE: Readonly<Record<string, string>> = {
  b: "; cast with astype()",
  c: `; ${COMPLEX_ADVICE}`,
  q: `; ${DEQUANTIZE_ADVICE}`,
};

/** Throws a DTypeError unless the kind of `info` is among `kinds`. */
export function checkKind({ name: dtype, kind }: DTypeInfo, kinds: string, name: string): void {
  if (kinds.includes(kind)) return;
  const taken = [...kinds].map((k) => KINDS[k as Kind]).join(", ");
  const advice = ADVICE[kind] ?? "";
  throw new DTypeError(`Cannot ${name} ${dtype}: it takes ${taken} dtypes${advice}`);
}

/** The dtype of an op on a tensor of `dtype` and a scalar. */
function promoteWeak(
  op: MapOp,
  dtype: DType,
  value: Scalar | Complex,
  place: number,
  name: string,
): DType {
  const { kind, lane } = DTYPE[dtype];
  if (typeof value === "object") {
    // Quantized dtypes promote with nothing.
    if (lane !== null && kind !== "c") return promoteTypes(dtype, "complex64", name);
    return complexOf(DTYPE[dtype]).name;
  }
  // An integer op with a float result accepts fractions: int32 div 1.5 is computed in float32.
  if (op.result === "float" && kind !== "f" && lane === null) return "float32";
  // Integers compare with every number: dispatch substitutes one that is in range.
  const compares = op.compares && place === 1;
  if (compares && kind !== "f" && typeof value !== "boolean") return dtype;
  return promoteScalar(dtype, value, name);
}

function scalarsDType(values: readonly (Scalar | Complex)[], name: string): DType {
  let dtype = scalarDType(values[0]!);
  for (const value of values) dtype = promoteTypes(dtype, scalarDType(value), name);
  return dtype;
}

// ---- elementwise -------------------------------------------------------------------------------

/** {@link Op.infer} of elementwise ops. */
export function inferMap(call: Call): readonly OutputSpec[] {
  const op = call.op as MapOp;
  const { inputs, name } = call;
  const a = inputs[0];
  // Operands of one dtype on one device need few checks.
  if (op.arity < 3 && isOperand(a) && call.attributes?.broadcast !== false) {
    const { storage, layout } = a;
    checkAlive(storage, name);
    const { info } = storage;
    if (op.arity === 1) return settle(call, op, info, layout.shape);
    const b = inputs[1];
    if (isOperand(b)) {
      if (b.storage.device === storage.device) {
        checkAlive(b.storage, name);
        const { info: other } = b.storage;
        const common = other === info ? info : DTYPE[promoteTypes(info.name, other.name, name)];
        const shape = broadcastShapes(name, layout.shape, b.layout.shape);
        return settle(call, op, common, shape);
      }
    } else if (isScalar(b) && promoteWeak(op, info.name, b, 1, name) === info.name) {
      return settle(call, op, info, layout.shape);
    }
  }
  return inferAnyMap(call, op);
}

function settle(
  call: Call,
  op: MapOp,
  info: DTypeInfo,
  shape: readonly number[],
): readonly OutputSpec[] {
  const rule = op.rules[info.id] ?? ruleFor(op, info, call.name);
  if (call.compute !== rule.compute) call.compute = rule.compute;
  return call.result(shape, rule.result);
}

/** {@link Op.infer} of the copy, which may cast to the attribute `dtype`. */
export function inferCopy(call: Call): readonly OutputSpec[] {
  const { inputs: [x], name, attributes } = call;
  checkInput(x, name);
  const asked = attributes === undefined ? undefined : DTYPE[attributes.dtype as DType];
  if (isOperand(x)) {
    const { info } = x.storage;
    call.compute = info;
    if (asked !== undefined && asked !== info && (asked.lane ?? info.lane) !== null) {
      const complex = asked.kind === "c" && (info.lane === null || info.kind === "c");
      if (!complex) {
        throw new DTypeError(
          `Cannot ${name} ${info.name} to ${asked.name}: there is no cast${
            ADVICE[info.kind] ?? ""
          }`,
        );
      }
      call.compute = asked;
    }
    return call.result(x.layout.shape, asked ?? info);
  }
  // A scalar is copied to every element of the output.
  call.compute = asked ?? DTYPE[scalarDType(x)];
  return call.result(call.outputs[0]?.layout.shape ?? [], call.compute);
}

function inferAnyMap(call: Call, op: MapOp): readonly OutputSpec[] {
  const { inputs, name } = call;
  const { arity } = op;
  for (let k = 0; k < arity; k++) checkInput(inputs[k], name);

  // Tensors promote first, then scalars promote with the result.
  const first = op.condition ? 1 : 0;
  let dtype: DType | undefined;
  let like: Storage | undefined;
  for (let k = 0; k < arity; k++) {
    const input = inputs[k]!;
    if (isScalar(input)) continue;
    if (like === undefined) like = input.storage;
    else checkDevice(like, input.storage, name);
    if (k < first) continue;
    const own = input.storage.info.name;
    dtype = dtype === undefined ? own : promoteTypes(dtype, own, name);
  }
  if (dtype === undefined) {
    dtype = scalarsDType(inputs.slice(first, arity) as (Scalar | Complex)[], name);
  } else {
    for (let k = first; k < arity; k++) {
      const input = inputs[k]!;
      if (isScalar(input)) dtype = promoteWeak(op, dtype, input, k, name);
    }
  }
  const info = DTYPE[dtype];
  ruleFor(op, info, name);
  const condition: Input = op.condition ? inputs[0] : undefined;
  if (isOperand(condition) && condition.storage.info.name !== "bool") {
    throw new DTypeError(
      `Cannot ${name} by a condition of ${condition.storage.info.name}: it must be bool`,
    );
  }
  return settle(call, op, info, broadcastInputs(call, arity));
}

/** The shape that all tensors among the inputs broadcast to. */
function broadcastInputs({ inputs, name, attributes }: Call, arity: number): readonly number[] {
  let shape: readonly number[] | undefined;
  for (let k = 0; k < arity; k++) {
    const input = inputs[k]!;
    if (!isOperand(input)) continue;
    const other = input.layout.shape;
    if (shape === undefined) shape = other;
    else if (!sameShape(shape, other)) {
      if (attributes?.broadcast === false) {
        throw new ShapeError(
          `Cannot ${name} shapes ${formatShape(shape)} and ${formatShape(other)}: ` +
            "broadcasting is off",
        );
      }
      shape = broadcastShapes(name, shape, other);
    }
  }
  return shape ?? [];
}

/** The specs of `call` as a call of `op`. */
export function inferAs(op: Op, call: Call, infer: (call: Call) => unknown): OutputSpec[] {
  const own = call.op;
  call.op = op;
  try {
    return infer(call) as OutputSpec[];
  } finally {
    call.op = own;
  }
}

// ---- along axes --------------------------------------------------------------------------------

/** Attributes of reductions. */
export interface ReduceAttributes {
  /** The axes; all of them for undefined or null. */
  readonly axis?: number | readonly number[] | null | undefined;
  /** Whether reduced axes remain, with size 1. */
  readonly keepDims?: boolean | undefined;
  /** The dtype that the input is cast to first. */
  readonly dtype?: DType | undefined;
}

/** The reduced axes, and the resulting shapes. */
export interface Reduction {
  readonly reduced: readonly boolean[];
  /** The input's shape, with size 1 along the reduced axes. */
  readonly outer: readonly number[];
  /** The shape of the result. */
  readonly shape: readonly number[];
  /** The number of elements reduced to one. */
  readonly count: number;
}

const NO_AXES: readonly number[] = [];
const RANKS = Array.from({ length: 9 }, (_, rank) => rank);
const ONES: readonly (readonly number[])[] = RANKS.map((rank) => new Array(rank).fill(1));
const ALL: readonly (readonly boolean[])[] = RANKS.map((rank) => new Array(rank).fill(true));

/** Computes a reduction of `layout` over `axis`. */
export function reductionOf(
  name: string,
  layout: Layout,
  axis: ReduceAttributes["axis"],
  keepDims: boolean,
): Reduction {
  const rank = layout.shape.length;
  if (axis === undefined || axis === null) {
    const outer = rank < ONES.length ? ONES[rank]! : new Array<number>(rank).fill(1);
    const reduced = rank < ALL.length ? ALL[rank]! : new Array<boolean>(rank).fill(true);
    return { reduced, outer, shape: keepDims ? outer : NO_AXES, count: layout.size };
  }
  const reduced: boolean[] = new Array(rank);
  for (let i = 0; i < rank; i++) reduced[i] = false;
  if (typeof axis === "number") reduced[normalizeAxis(name, axis, rank)] = true;
  else for (const i of normalizeAxes(name, axis, rank)) reduced[i] = true;
  const outer: number[] = new Array(rank);
  const shape: number[] = [];
  let count = 1;
  for (let i = 0; i < rank; i++) {
    const n = layout.shape[i]!;
    outer[i] = reduced[i] ? 1 : n;
    if (reduced[i]) count *= n;
    if (!reduced[i]) shape.push(n);
    else if (keepDims) shape.push(1);
  }
  return { reduced, outer, shape, count };
}

/** Throws if an op without identity would reduce no elements. */
function checkNotEmpty(name: string, layout: Layout, { outer, count }: Reduction): void {
  if (count === 0 && outer.every((n) => n > 0)) {
    const axis = layout.shape.indexOf(0);
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(layout.shape)}: axis ${axis} is empty, and there is no ` +
        `${name} of nothing`,
    );
  }
}

/** Throws unless int32 can represent an index among, or a count of, the elements. */
export function checkCount(name: string, layout: Layout, count: number): void {
  if (count > 2147483647) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(layout.shape)}: int32 does not count ${count} elements`,
    );
  }
}

/** Throws unless the requested `dtype` of a float op is a float. */
export function checkFloat(dtype: DType, name: string): void {
  checkDType(dtype, name);
  if (DTYPE[dtype].kind !== "f") {
    throw new DTypeError(`Cannot ${name} to ${dtype}: it takes a float dtype`);
  }
}

/** The dtype of a reduction or scan of elements of `info`, with the requested dtype. */
function summedDType(
  op: ReduceOp | ScanOp,
  info: DTypeInfo,
  asked: DType | undefined,
  name: string,
) {
  if (asked !== undefined) {
    checkDType(asked, name);
    const complex = DTYPE[asked].kind === "c" && op.dtypes.includes("c");
    if (op.result === "float" && !complex) checkFloat(asked, name);
  }
  const { result } = ruleFor(op, asked === undefined ? info : DTYPE[asked], name);
  const to = asked !== undefined && accumulates(op) ? DTYPE[asked] : result;
  if (to.kind === "b" && accumulates(op)) {
    throw new DTypeError(`Cannot ${name} to bool: it takes a number dtype; use any() or all()`);
  }
  return to;
}

/** The reduction of a call, kept for running it. */
function reductionOfCall(call: Call, x: Operand): Reduction {
  const { axis, keepDims = false } = call.attributes as ReduceAttributes;
  const reduction = reductionOf(call.name, x.layout, axis, keepDims);
  call.memo = reduction;
  return reduction;
}

/** {@link Op.infer} of reductions. */
export function inferReduce(call: Call): readonly OutputSpec[] {
  const op = call.op as ReduceOp;
  const { name, inputs } = call;
  const [x] = inputs;
  checkOperand(x, name);
  const { dtype: asked } = call.attributes as ReduceAttributes;
  checkNumbers(x, op, name);
  const dtype = summedDType(op, x.storage.info, asked, name);
  const reduction = reductionOfCall(call, x);
  if (op.nonEmpty) checkNotEmpty(name, x.layout, reduction);
  if (op.result === "int32") checkCount(name, x.layout, reduction.count);
  return call.result(reduction.shape, dtype);
}

/** Throws a DTypeError for elements that no cast makes numbers of. */
function checkNumbers({ storage: { info } }: Operand, { dtypes }: ElementOp, name: string): void {
  if (info.lane !== null) checkKind(info, dtypes, name);
}

/** {@link Op.infer} of argmax and argmin. */
export function inferArgReduce(call: Call): readonly OutputSpec[] {
  const op = call.op as ArgReduceOp;
  const { name, inputs, attributes: { axis } } = call;
  const [x] = inputs;
  checkOperand(x, name);
  if (axis !== undefined && axis !== null && typeof axis !== "number") {
    throw noAxis(name, axis, ", or null for all elements");
  }
  const { result } = ruleFor(op, x.storage.info, name);
  const reduction = reductionOfCall(call, x);
  checkNotEmpty(name, x.layout, reduction);
  checkCount(name, x.layout, reduction.count);
  return call.result(reduction.shape, result);
}

/** Attributes of scans. */
export interface ScanAttributes {
  /** The axis; optional at rank 1. */
  readonly axis?: number | undefined;
  /** The dtype that the input is cast to first. */
  readonly dtype?: DType | undefined;
  /** Whether the result begins with the start value. */
  readonly includeInitial?: boolean | undefined;
}

/** The axis of a scan. */
export function scanAxis({ name, inputs, attributes }: Call): number {
  const { axis } = attributes as ScanAttributes;
  const { shape } = (inputs[0] as Operand).layout;
  if (axis === null || (axis === undefined && shape.length !== 1)) {
    throw new AxisError(
      `Cannot ${name} shape ${formatShape(shape)}: name an axis when the rank is not 1`,
    );
  }
  return normalizeAxis(name, axis ?? 0, shape.length);
}

/** The start value of a scan whose results have the dtype `info`. */
export function scanStart({ identity }: ScanOp, { kind, min, max }: DTypeInfo): Scalar {
  if (typeof identity === "number") return identity;
  const lowest = identity === "lowest";
  if (kind === "f") return lowest ? -Infinity : Infinity;
  return kind === "b" ? !lowest : lowest ? min : max;
}

/** {@link Op.infer} of scans. */
export function inferScan(call: Call): readonly OutputSpec[] {
  const op = call.op as ScanOp;
  const { name, inputs, attributes } = call;
  const [x] = inputs;
  checkOperand(x, name);
  const axis = scanAxis(call);
  checkNumbers(x, op, name);
  const dtype = summedDType(op, x.storage.info, attributes.dtype, name);
  const shape = x.layout.shape.slice();
  if (attributes.includeInitial) shape[axis]!++;
  return call.result(shape, dtype);
}
