/**
 * The one way from a call to a backend: check, promote, plan, allocate, run.
 *
 * Works on operands (storage, layout, flags); knows nothing of the class Tensor, which registers
 * itself as what results are wrapped in. Elementwise ops, copies and folds run here; files of other
 * ops take from here how operands are checked and results delivered.
 *
 * @module
 */
import { backendFor, deviceName, memoryOf } from "./backend.ts";
import {
  checkDType,
  describe,
  DTYPE,
  type DType,
  type DTypeInfo,
  type Kind,
  promoteScalar,
  promoteTypes,
  type Scalar,
  scalarDType,
} from "../base/dtype.ts";
import { writeElement } from "../memory/element.ts";
import { AxisError, DeviceError, DTypeError, ReadOnlyError, ShapeError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import {
  type ArgReduceRow,
  called,
  computeOf,
  MAP,
  type MapRow,
  type ReduceRow,
  resultOf,
  type Row,
  type ScanRow,
  takes,
} from "../ops/table.ts";
import { ATTRIBUTES, type Plan, planDense, planMap, planReduce } from "./plan.ts";
import {
  broadcastShapes,
  formatShape,
  normalizeAxes,
  normalizeAxis,
  sameShape,
} from "../base/shape.ts";
import {
  allocateIn,
  checkAlive,
  copyElements,
  type DeviceMemory,
  recycle,
  Storage,
} from "../memory/storage.ts";

/** Set on a handle that may not be written through. */
export const READ_ONLY = 1;
/** Set on a handle that looks at a storage that another one made. */
export const VIEW = 2;

/** What an op works on. Tensors are operands. */
export interface Operand {
  /** The memory. */
  readonly storage: Storage;
  /** How elements lie in it. */
  readonly layout: Layout;
  /** {@link READ_ONLY} and {@link VIEW}. */
  readonly flags: number;
}

/** What every op takes besides its operands. */
export interface OpOptions {
  /** Write the result here instead of allocating; its shape must be the result's. */
  readonly out?: Operand;
  /** With `false`, operands of different shapes are refused. */
  readonly broadcast?: boolean;
}

/** What reductions take besides their operand. */
export interface ReduceOptions {
  /** Write the result here instead of allocating. */
  readonly out?: Operand;
  /** Keep reduced axes as axes of size 1. */
  readonly keepDims?: boolean;
  /** Cast the input first; the sum of int32 values as float64, for instance. */
  readonly dtype?: DType;
}

/** Wraps a result. */
export let result: (storage: Storage, layout: Layout) => Operand;

/**
 * Runs `body` and disposes of every handle made in it but what it gives, alone or in an array: for
 * ops that are made of others, so that their memory is used again, or a device has it back.
 */
export let tidily: <R>(body: () => R) => R;

/** Says what results are wrapped in, and what {@link tidily} is. Called once, by tensor.ts. */
export function wrapResultsIn(make: typeof result, tidy: typeof tidily): void {
  result = make;
  tidily = tidy;
}

/** `x` seen through another layout, for use inside an op: no handle of its own. */
export function lens(x: Operand, layout: Layout): Operand {
  return { storage: x.storage, layout, flags: x.flags };
}

/** True for a tensor. */
export function isOperand(value: unknown): value is Operand {
  return typeof value === "object" && value !== null && (value as Operand).layout instanceof Layout;
}

/** Throws unless `value` is a tensor that is still there. */
export function checkOperand(value: unknown, op: string): asserts value is Operand {
  if (!isOperand(value)) {
    throw new DTypeError(`Cannot ${op}: expected a tensor, got ${describeArgument(value)}`);
  }
  checkAlive(value.storage, op);
}

function describeArgument(value: unknown): string {
  return Array.isArray(value) ? "an array: tensor(...) makes a tensor of it" : describe(value);
}

// ---- dtypes ------------------------------------------------------------------------------------

/** What a row does with a dtype. */
interface Rule {
  readonly compute: DType;
  readonly result: DType;
  readonly resultInfo: DTypeInfo;
}

const rules: (Rule | undefined)[] = [];

/** The dtypes that `row` computes in and gives for input of `info`. */
function ruleFor(row: Row, info: DTypeInfo): Rule {
  return rules[row.id * 16 + info.id] ??= makeRule(row, info, row.op);
}

/**
 * The dtype that `row` gives for `dtype`. Throws a DTypeError that names `op` for one that it does
 * not take.
 */
export function resultDType(row: Row, dtype: DType, op: string): DType {
  return makeRule(row, DTYPE[dtype], op).result;
}

const KINDS: Record<Kind, string> = { b: "bool", i: "signed", u: "unsigned", f: "float" };

function makeRule(row: Row, info: DTypeInfo, op: string): Rule {
  const { name, kind } = info;
  if (!takes(row, name)) {
    const kinds = [...row.takes].map((k) => KINDS[k as Kind]).join(", ");
    const advice = kind === "b" ? "; cast with astype()" : "";
    throw new DTypeError(`Cannot ${op} ${name}: it takes ${kinds} dtypes${advice}`);
  }
  const result = resultOf(row, name);
  return { compute: computeOf(row, name), result, resultInfo: DTYPE[result] };
}

/** Throws unless results of `from` may be written to a tensor of `to`. */
export function checkStore(from: DType, to: DType, op: string): void {
  if (from === to) return;
  const rank = (dtype: DType): number => "buif".indexOf(DTYPE[dtype].kind);
  if (rank(from) > rank(to)) {
    throw new DTypeError(`Cannot ${op} into ${to}: the result is ${from}; cast with astype()`);
  }
}

// ---- scalars -----------------------------------------------------------------------------------

const SCALAR_LAYOUT = Layout.contiguous([]);
const scalars: (Storage | undefined)[] = [];

/** A storage that holds `value` until the same slot is used again. */
function scalarStorage(value: Scalar, dtype: DType, slot: number): Storage {
  const { id } = DTYPE[dtype];
  const storage = scalars[slot * 16 + id] ??= new Storage(
    new DTYPE[dtype].array(1),
    DTYPE[dtype],
    true,
    false,
  );
  writeElement(storage, 0, value);
  return storage;
}

/** True for a number, a bigint or a boolean. */
export function isScalar(value: unknown): value is Scalar {
  return typeof value === "number" || typeof value === "bigint" || typeof value === "boolean";
}

/**
 * What comparisons of integers with a scalar above all of them, below all of them, and between two of
 * them come to: the same for each element, or a comparison with the integer below the scalar.
 */
const COMPARISONS = new Map<
  number,
  readonly [above: boolean, below: boolean, between: MapRow | boolean]
>([
  [MAP.equal.id, [false, false, false]],
  [MAP.notEqual.id, [true, true, true]],
  [MAP.less.id, [true, false, MAP.lessEqual]],
  [MAP.lessEqual.id, [true, false, MAP.lessEqual]],
  [MAP.greater.id, [false, true, MAP.greater]],
  [MAP.greaterEqual.id, [false, true, MAP.greater]],
]);

/**
 * For a comparison of integers, or bools, with a scalar that is none of them: the comparison with one
 * of them that comes to the same. Undefined for other ops, and where there is nothing to replace.
 */
function comparisonWithin(
  row: MapRow,
  { kind, min, max }: DTypeInfo,
  value: number | bigint,
): [row: MapRow, value: Scalar] | undefined {
  const cases = COMPARISONS.get(row.id);
  if (cases === undefined || kind === "f") return undefined;
  const [above, below, between] = cases;
  let always: MapRow | boolean;
  if (value > max) always = above;
  else if (value < min) always = below;
  else if (typeof value === "bigint" || Number.isInteger(value)) return undefined;
  else always = Number.isNaN(value) ? row.id === MAP.notEqual.id : between;
  if (typeof always !== "boolean") return [called(always, row.op), Math.floor(Number(value))];
  return [called(always ? MAP.greaterEqual : MAP.less, row.op), min];
}

/** Checks one argument of an elementwise op. */
function checkArgument(value: unknown, op: string): asserts value is Operand | Scalar {
  if (isScalar(value)) return;
  if (!isOperand(value)) {
    throw new DTypeError(
      `Cannot ${op}: expected a tensor or a scalar, got ${describeArgument(value)}`,
    );
  }
  checkAlive(value.storage, op);
}

// ---- writing -----------------------------------------------------------------------------------

/**
 * Makes `target` ready to be written, or throws: it is alive, writable, has no two indexes for one
 * element, and nobody who asked for a copy on write still looks at its bytes.
 */
export function prepareWrite(target: Operand, op: string): void {
  checkAlive(target.storage, op);
  if (target.flags & READ_ONLY) {
    throw new ReadOnlyError(`Cannot ${op}: the tensor is read-only`);
  }
  if (target.layout.overlapsItself) {
    throw new ReadOnlyError(
      `Cannot ${op}: the target of shape ${formatShape(target.layout.shape)} with strides ${
        formatShape(target.layout.strides)
      } has several indexes for one element, as broadcast tensors have`,
    );
  }
  const { storage } = target;
  if (storage.cows === null) return;
  if (storage.memory?.recording) {
    // The copy would be recorded, and hold nothing until then.
    throw new DeviceError(
      `Cannot ${op} while a graph is captured: the tensor shares its memory with copies on write`,
    );
  }
  storage.settle();
}

/** True when `target` and `source` may have bytes in common. */
export function overlaps(target: Operand, source: Operand): boolean {
  if (target.storage !== source.storage) {
    // Only memory that came from outside can be in two storages. Each message to a worker makes
    // another object of a shared buffer: those of one length may be one.
    const [t, s] = [target.storage, source.storage];
    if (!t.escaped || !s.escaped) return false;
    const [to, from] = [t.array.buffer, s.array.buffer];
    if (to !== from && !(t.shared && s.shared && to.byteLength === from.byteLength)) return false;
  }
  const [tLow, tHigh] = byteExtent(target);
  const [sLow, sHigh] = byteExtent(source);
  return tLow < sHigh && sLow < tHigh;
}

function byteExtent({ layout, storage }: Operand): [low: number, high: number] {
  const [low, high] = layout.extent();
  const byteOffset = storage.memory === null ? storage.array.byteOffset : storage.address;
  return [byteOffset + low * storage.info.bytes, byteOffset + (high + 1) * storage.info.bytes];
}

/**
 * `source`, or a copy of it when writing `target` element by element would disturb it: no handle,
 * and given back by {@link recycleCopy}.
 */
export function undisturbed(source: Operand, target: Operand): Operand {
  if (source === target || !overlaps(target, source)) return source;
  const [t, s] = [target.layout, source.layout];
  // Each element is read before its place is written.
  const same = target.storage.info.bytes === source.storage.info.bytes &&
    byteExtent(target)[0] === byteExtent(source)[0] &&
    sameShape(t.shape, s.shape) && sameShape(t.strides, s.strides);
  return same ? source : packed(source, source.storage.info);
}

/** Gives back the memory of `copy`, unless that is `of` itself. */
export function recycleCopy(copy: Operand, of: Operand): void {
  if (copy !== of) recycle(copy.storage);
}

/** Throws unless both are on one device. */
export function checkDevice(a: Storage, b: Storage, op: string): void {
  if (a.device !== b.device) {
    throw new DeviceError(
      `Cannot ${op} tensors on ${a.device} and ${b.device}: move one with to()`,
    );
  }
}

/** Checks a given output and makes it ready. */
export function prepareOut(
  out: Operand,
  shape: readonly number[],
  dtype: DType,
  like: Storage,
  op: string,
): void {
  checkOperand(out, op);
  checkDevice(out.storage, like, op);
  if (!sameShape(out.layout.shape, shape)) {
    throw new ShapeError(
      `Cannot ${op} into shape ${formatShape(out.layout.shape)}: the result has shape ${
        formatShape(shape)
      }`,
    );
  }
  checkStore(dtype, out.storage.info.name, op);
  prepareWrite(out, op);
}

// ---- elementwise -------------------------------------------------------------------------------

/**
 * Runs an elementwise row. Tensors promote together, scalars are weak; shapes broadcast unless
 * `options.broadcast` is false. Attributes are the row's extra numbers, in its order.
 */
export function apply(
  row: MapRow,
  a: Operand | Scalar,
  b?: Operand | Scalar,
  c?: Operand | Scalar,
  options?: OpOptions,
  attributes?: readonly number[],
): Operand {
  if (options === undefined) return applyInto(row, a, b, c, undefined, attributes);
  checkOptions(row.op, options, row.arity === 2 ? PAIR_OPTIONS : MAP_OPTIONS);
  return applyInto(row, a, b, c, options.out, attributes, options.broadcast);
}

/** {@link apply}, with the options one by one. */
function applyInto(
  row: MapRow,
  a: Operand | Scalar,
  b: Operand | Scalar | undefined,
  c: Operand | Scalar | undefined,
  out: Operand | undefined,
  attributes?: readonly number[],
  broadcast?: boolean,
): Operand {
  if ((typeof b === "number" || typeof b === "bigint") && row.result === "bool" && isOperand(a)) {
    const within = comparisonWithin(row, a.storage.info, b);
    if (within !== undefined) [row, b] = within;
  }
  // With operands of one dtype on one device there is little to settle.
  if (isOperand(a) && row.arity < 3 && broadcast !== false) {
    const { storage, layout } = a;
    const { info } = storage;
    checkAlive(storage, row.op);
    if (row.arity === 1) {
      return run(row, layout.shape, out, attributes, a, null, null, null);
    }
    if (isOperand(b)) {
      if (b.storage.info === info && b.storage.device === storage.device) {
        checkAlive(b.storage, row.op);
        if (out === undefined && layout.contiguous && b.layout.contiguous) {
          if (sameShape(layout.shape, b.layout.shape)) return runDense(row, a, b, attributes);
        }
        const shape = broadcastShapes(row.op, layout.shape, b.layout.shape);
        return run(row, shape, out, attributes, a, b, b.storage, b.layout);
      }
    } else if (isScalar(b) && promoteWeak(row, info.name, b) === info.name) {
      const one = scalarStorage(b, info.name, 1);
      return run(row, layout.shape, out, attributes, a, null, one, SCALAR_LAYOUT);
    }
  }
  return applyGeneral(row, a, b, c, out, broadcast, attributes);
}

/** Plans and runs a map of one or two operands of one dtype; `other` is the second as a tensor. */
function run(
  row: MapRow,
  shape: readonly number[],
  out: Operand | undefined,
  attributes: readonly number[] | undefined,
  a: Operand,
  other: Operand | null,
  b: Storage | null,
  layoutB: Layout | null,
): Operand {
  const rule = ruleFor(row, a.storage.info);
  let x = a;
  let y = other;
  let target: Layout;
  let storage: Storage;
  if (out === undefined) {
    const { layout } = a;
    const reusable = layout.contiguous && layout.offset === 0 && layout.shape === shape;
    target = reusable ? layout : Layout.contiguous(shape);
    storage = allocateIn(a.storage.memory, rule.resultInfo, target.size, false);
  } else {
    prepareOut(out, shape, rule.result, a.storage, row.op);
    x = undisturbed(a, out);
    if (other !== null) {
      y = undisturbed(other, out);
      b = y.storage;
      layoutB = y.layout;
    }
    target = out.layout;
    storage = out.storage;
    storage.version++;
  }
  const plan = planMap(target, x.layout, layoutB, null);
  if (attributes !== undefined) setAttributes(plan, attributes);
  backendFor(storage).map(row, rule.compute, plan, storage, x.storage, b, null);
  if (out === undefined) return result(storage, target);
  recycleCopy(x, a);
  if (other !== null) recycleCopy(y!, other);
  return out;
}

/** {@link run} for two dense tensors of one shape, which most calls are. */
function runDense(
  row: MapRow,
  a: Operand,
  b: Operand,
  attributes: readonly number[] | undefined,
): Operand {
  const { storage, layout } = a;
  const rule = ruleFor(row, storage.info);
  const target = layout.offset === 0 ? layout : Layout.contiguous(layout.shape);
  const out = allocateIn(storage.memory, rule.resultInfo, target.size, false);
  const plan = planDense(target, layout, b.layout);
  if (attributes !== undefined) setAttributes(plan, attributes);
  backendFor(storage).map(row, rule.compute, plan, out, storage, b.storage, null);
  return result(out, target);
}

const MAP_OPTIONS = ["out"];
const PAIR_OPTIONS = ["out", "broadcast"];
const REDUCE_OPTIONS = ["keepDims", "dtype", "out"];
const SCAN_OPTIONS = ["dtype", "includeInitial", "out"];

/** Throws a TypeError for an option that the op does not have. */
export function checkOptions(op: string, options: object, known: readonly string[]): void {
  if (
    typeof options !== "object" || options === null || isOperand(options) || Array.isArray(options)
  ) {
    throw new TypeError(`Cannot ${op}: options come last, in an object of ${known.join(", ")}`);
  }
  for (const name in options) {
    if (!known.includes(name)) {
      throw new TypeError(`Cannot ${op} with option "${name}": it takes ${known.join(", ")}`);
    }
  }
}

function applyGeneral(
  row: MapRow,
  a: Operand | Scalar,
  b: Operand | Scalar | undefined,
  c: Operand | Scalar | undefined,
  out: Operand | undefined,
  broadcast: boolean | undefined,
  attributes: readonly number[] | undefined,
): Operand {
  const { op, arity } = row;
  checkArgument(a, op);
  if (arity > 1) checkArgument(b, op);
  if (arity > 2) checkArgument(c, op);
  const args = arity === 1 ? [a] : arity === 2 ? [a, b!] : [a, b!, c!];

  // dtype: tensors first, then scalars against what the tensors make.
  const first = row.condition ? 1 : 0;
  let dtype: DType | undefined;
  let like: Storage | undefined;
  for (let k = 0; k < arity; k++) {
    const arg = args[k]!;
    if (isScalar(arg)) continue;
    if (like === undefined) like = arg.storage;
    else checkDevice(like, arg.storage, op);
    if (k < first) continue;
    dtype = dtype === undefined
      ? arg.storage.info.name
      : promoteTypes(dtype, arg.storage.info.name, op);
  }
  if (dtype === undefined) dtype = scalarsDType(args.slice(first) as Scalar[], op);
  else {
    for (let k = first; k < arity; k++) {
      const arg = args[k]!;
      if (isScalar(arg)) dtype = promoteWeak(row, dtype, arg);
    }
  }
  const rule = ruleFor(row, DTYPE[dtype]);
  const condition = row.condition ? args[0]! : undefined;
  if (condition !== undefined && !isScalar(condition) && condition.storage.info.name !== "bool") {
    throw new DTypeError(
      `Cannot ${op} by a condition of ${condition.storage.info.name}: it must be bool`,
    );
  }

  // shape
  let shape: readonly number[] | undefined;
  for (let k = 0; k < arity; k++) {
    const arg = args[k]!;
    if (isScalar(arg)) continue;
    if (shape === undefined) shape = arg.layout.shape;
    else if (!sameShape(shape, arg.layout.shape)) {
      if (broadcast === false) {
        throw new ShapeError(
          `Cannot ${op} shapes ${formatShape(shape)} and ${formatShape(arg.layout.shape)}: ` +
            "broadcasting is off",
        );
      }
      shape = broadcastShapes(op, shape, arg.layout.shape);
    }
  }
  shape ??= [];

  if (out !== undefined) prepareOut(out, shape, rule.result, like ?? out.storage, op);
  const storages: (Storage | null)[] = [null, null, null];
  const layouts: (Layout | null)[] = [null, null, null];
  for (let k = 0; k < arity; k++) {
    const arg = args[k]!;
    if (isScalar(arg)) {
      storages[k] = scalarStorage(arg, k < first ? "bool" : rule.compute, k);
      layouts[k] = SCALAR_LAYOUT;
    } else {
      const safe = out === undefined ? arg : undisturbed(arg, out);
      storages[k] = safe.storage;
      layouts[k] = safe.layout;
    }
  }
  const target = out === undefined ? Layout.contiguous(shape) : out.layout;
  const storage = out === undefined
    ? allocateIn(like?.memory ?? null, rule.resultInfo, target.size, false)
    : out.storage;
  const plan = planMap(target, layouts[0]!, layouts[1]!, layouts[2]!);
  if (attributes !== undefined) setAttributes(plan, attributes);
  backendFor(like ?? storage)
    .map(row, rule.compute, plan, storage, storages[0]!, storages[1]!, storages[2]!);
  if (out === undefined) return result(storage, target);
  for (let k = 0; k < arity; k++) {
    const arg = args[k]!;
    if (!isScalar(arg) && storages[k] !== arg.storage) recycle(storages[k]!);
  }
  storage.version++;
  return out;
}

/** The dtype of an op on a tensor of `dtype` and a scalar; comparisons and powers name the op. */
function promoteWeak(row: MapRow, dtype: DType, value: Scalar): DType {
  // An integer op that gives floats takes fractions: int32 div 1.5 is computed in float32.
  if (row.result === "float" && DTYPE[dtype].kind !== "f") return "float32";
  return promoteScalar(dtype, value, row.op);
}

function scalarsDType(values: readonly Scalar[], op: string): DType {
  let dtype = scalarDType(values[0]!);
  for (const value of values) dtype = promoteTypes(dtype, scalarDType(value), op);
  return dtype;
}

function setAttributes(plan: Plan, attributes: readonly number[]): void {
  for (let i = 0; i < attributes.length; i++) plan.data[ATTRIBUTES + i] = attributes[i]!;
}

/** The rows of ops in place. */
const inPlaceRows: MapRow[] = [];

/** Runs a row with `target` as first operand and output; the result's shape must be the target's. */
export function applyInPlace(
  row: MapRow,
  target: Operand,
  other?: Operand | Scalar,
  third?: Operand | Scalar,
): Operand {
  return applyTo(inPlaceRows[row.id] ??= called(row, `${row.op}_`), target, other, third);
}

/** {@link applyInPlace}, for a row that is called what its method is. */
export function applyTo(
  row: MapRow,
  target: Operand,
  other?: Operand | Scalar,
  third?: Operand | Scalar,
): Operand {
  const { op } = row;
  if (isOperand(other)) checkFits(target, other, op);
  if (isOperand(third)) checkFits(target, third, op);
  return applyInto(row, target, other, third, target);
}

/** Throws unless `one` broadcasts to the shape of `target`. */
function checkFits(target: Operand, one: Operand, op: string): void {
  checkOperand(one, op);
  checkAlive(target.storage, op);
  const { shape: mine } = target.layout;
  const { shape: theirs } = one.layout;
  if (sameShape(mine, theirs)) return;
  const shape = broadcastShapes(op, mine, theirs);
  if (!sameShape(shape, mine)) {
    throw new ShapeError(
      `Cannot ${op} shapes ${formatShape(mine)} and ${formatShape(theirs)}: the result ${
        formatShape(shape)
      } does not fit the target`,
    );
  }
}

// ---- copies ------------------------------------------------------------------------------------

/** A dense row-major copy, in `dtype`. */
export function contiguousCopy(
  source: Operand,
  dtype: DType = source.storage.info.name,
  op: string = "copy",
): Operand {
  checkAlive(source.storage, op);
  const { storage, layout } = packed(source, DTYPE[dtype]);
  return result(storage, layout);
}

/** The same, no handle: on a storage that nobody else sees. */
export function packed(source: Operand, info: DTypeInfo): Operand {
  const layout = Layout.contiguous(source.layout.shape);
  const storage = allocateIn(source.storage.memory, info, layout.size, false);
  fill(storage, layout, source);
  return { storage, layout, flags: 0 };
}

/** `source` itself when it is of `dtype`, else a dense copy in it. */
export function cast(source: Operand, dtype: DType): Operand {
  return source.storage.info.name === dtype ? source : contiguousCopy(source, dtype);
}

/**
 * The elements of `source`, dense, in `memory`, or on the CPU for null: on the storage of `source`
 * when they are that already, else on one that nobody else sees, nor will.
 */
export function denseIn(memory: DeviceMemory | null, source: Operand): Operand {
  const { storage } = source;
  const { contiguous: dense, shape, size } = source.layout;
  if (dense && storage.memory === memory) return source;
  const whole = dense ? source : packed(source, storage.info);
  if (storage.memory === memory) return whole;
  const made = allocateIn(memory, storage.info, size, false);
  copyElements(made, 0, whole.storage, whole.layout.offset, size);
  recycleCopy(whole, source);
  return { storage: made, layout: Layout.contiguous(shape), flags: 0 };
}

/** What `f` gives for `x` where the CPU has its elements, else for a dense copy there. */
export function onCpu<T>(x: Operand, f: (here: Operand) => T): T {
  return x.storage.memory === null ? f(x) : lending(denseIn(null, x), x, f);
}

/** What `f` gives for `x` as a dense operand of its device, which is not to be used afterwards. */
export function withDense<T>(x: Operand, f: (dense: Operand) => T): T {
  return x.layout.contiguous ? f(x) : lending(packed(x, x.storage.info), x, f);
}

/** What `f` gives for `copy`, which is given back unless it is `x` itself. */
function lending<T>(copy: Operand, x: Operand, f: (copy: Operand) => T): T {
  try {
    return f(copy);
  } finally {
    recycleCopy(copy, x);
  }
}

/** A dense copy on another device. Throws a DeviceError when there is none of that name. */
export function moved(x: Operand, device: string): Operand {
  const { storage, layout } = denseIn(memoryOf(device, "move a tensor to"), x);
  return result(storage, layout);
}

/** Whether `storage` is on `device`, however that is written. */
export function isOn(storage: Storage, device: string): boolean {
  return storage.device === device || storage.device === deviceName(device);
}

/** Casts `source` element by element into a storage that nobody else sees yet. */
export function fill(storage: Storage, layout: Layout, source: Operand): void {
  backendFor(source.storage).map(
    MAP.copy,
    source.storage.info.name,
    planMap(layout, source.layout, null, null),
    storage,
    source.storage,
    null,
    null,
  );
}

// ---- reductions --------------------------------------------------------------------------------

/** Which axes are reduced, and the shapes that come of it. */
interface Reduction {
  readonly reduced: boolean[];
  readonly kept: Layout;
  readonly shape: number[];
  /** How many elements are folded into one. */
  readonly count: number;
}

/** Works out a reduction of `layout` over `axes`. */
export function reduction(
  op: string,
  layout: Layout,
  axes: number | readonly number[] | null | undefined,
  keepDims: boolean,
): Reduction {
  const rank = layout.shape.length;
  const all = axes === undefined || axes === null;
  const reduced: boolean[] = new Array(rank);
  for (let axis = 0; axis < rank; axis++) reduced[axis] = all;
  if (!all) { for (const axis of normalizeAxes(op, axes, rank)) reduced[axis] = true; }
  const kept: number[] = new Array(rank);
  const shape: number[] = [];
  let count = 1;
  for (let axis = 0; axis < rank; axis++) {
    const n = layout.shape[axis]!;
    kept[axis] = reduced[axis] ? 1 : n;
    if (reduced[axis]) count *= n;
    if (!reduced[axis]) shape.push(n);
    else if (keepDims) shape.push(1);
  }
  return { reduced, kept: Layout.contiguous(kept), shape, count };
}

/** Throws when `row` would have to make a value of nothing. */
function checkNotEmpty(op: string, layout: Layout, { kept, count }: Reduction): void {
  if (count === 0 && kept.size > 0) {
    const axis = layout.shape.indexOf(0);
    throw new ShapeError(
      `Cannot ${op} shape ${formatShape(layout.shape)}: axis ${axis} is empty, and there is no ` +
        `${op} of nothing`,
    );
  }
}

/** Runs a reduction row over `axes` (all when undefined or null). `second` broadcasts to `a`. */
export function applyReduce(
  row: ReduceRow,
  a: Operand,
  axes: number | readonly number[] | null | undefined,
  options?: ReduceOptions,
  attributes?: (count: number) => readonly number[],
  second?: Operand,
): Operand {
  const { op } = row;
  checkOperand(a, op);
  if (options !== undefined) checkOptions(op, options, REDUCE_OPTIONS);
  const dtype = options?.dtype;
  const out = options?.out;
  if (dtype !== undefined) {
    if (row.result === "float") checkFloat(dtype, op);
    else checkDType(dtype, op);
    if (dtype !== a.storage.info.name) {
      return tidily(() =>
        applyReduce(row, contiguousCopy(a, dtype), axes, options, attributes, second)
      );
    }
  }
  const rule = ruleFor(row, a.storage.info);
  const to = dtype !== undefined && row.result === "sum" ? dtype : rule.result;
  if (to === "bool" && row.result === "sum") throw noBoolSum(op);
  const what = reduction(op, a.layout, axes, options?.keepDims ?? false);
  if (row.nonEmpty) checkNotEmpty(op, a.layout, what);
  if (row.result === "int32") checkCount(op, a.layout, what.count);
  if (out !== undefined) prepareOut(out, what.shape, to, a.storage, op);
  const storage = allocateIn(a.storage.memory, DTYPE[to], what.kept.size, false);
  const plan = planReduce(what.kept, a.layout, second?.layout ?? null, what.reduced, false);
  if (attributes !== undefined) setAttributes(plan, attributes(what.count));
  backendFor(a.storage).fold(row, plan, storage, a.storage, second?.storage ?? null);
  return delivered(storage, what.shape, out);
}

/** Throws unless `dtype`, which is asked of an op that gives floats, is a float. */
export function checkFloat(dtype: DType, op: string): void {
  checkDType(dtype, op);
  if (DTYPE[dtype].kind !== "f") {
    throw new DTypeError(`Cannot ${op} to ${dtype}: it takes a float dtype`);
  }
}

function noBoolSum(op: string): DTypeError {
  return new DTypeError(`Cannot ${op} to bool: it takes a number dtype; use any() or all()`);
}

/** Indexes and counts are int32. */
function checkCount(op: string, layout: Layout, count: number): void {
  if (count > 2147483647) {
    throw new ShapeError(
      `Cannot ${op} shape ${formatShape(layout.shape)}: int32 does not count ${count} elements`,
    );
  }
}

/** Wraps a finished result, or moves it to the given output, which is ready. */
export function delivered(
  storage: Storage,
  shape: readonly number[],
  out: Operand | undefined,
): Operand {
  const layout = Layout.contiguous(shape);
  if (out === undefined) return result(storage, layout);
  fill(out.storage, out.layout, { storage, layout, flags: 0 });
  recycle(storage);
  out.storage.version++;
  return out;
}

/** Runs argmax or argmin along `axis`, or over all elements in row-major order. */
export function applyArgReduce(
  row: ArgReduceRow,
  a: Operand,
  axis: number | null | undefined,
  options: { keepDims?: boolean; out?: Operand } = {},
): Operand {
  const { op } = row;
  checkOperand(a, op);
  if (axis !== undefined && axis !== null && typeof axis !== "number") {
    throw new AxisError(`Cannot ${op} along ${describe(axis)}: it takes one axis or none`);
  }
  checkOptions(op, options, ["keepDims", "out"]);
  const rule = ruleFor(row, a.storage.info);
  const what = reduction(op, a.layout, axis, options.keepDims ?? false);
  checkNotEmpty(op, a.layout, what);
  checkCount(op, a.layout, what.count);
  if (options.out !== undefined) prepareOut(options.out, what.shape, rule.result, a.storage, op);
  const storage = allocateIn(a.storage.memory, rule.resultInfo, what.kept.size, false);
  const plan = planReduce(what.kept, a.layout, null, what.reduced, true);
  backendFor(a.storage).fold(row, plan, storage, a.storage, null);
  return delivered(storage, what.shape, options.out);
}

/** Runs a scan row along `axis`; with `includeInitial` the result begins with the start value. */
export function applyScan(
  row: ScanRow,
  a: Operand,
  axis: number | undefined,
  options: { dtype?: DType; includeInitial?: boolean; out?: Operand } = {},
): Operand {
  const { op } = row;
  checkOperand(a, op);
  checkOptions(op, options, SCAN_OPTIONS);
  const { dtype, includeInitial = false, out } = options;
  const rank = a.layout.shape.length;
  if (axis === null || (axis === undefined && rank !== 1)) {
    throw new AxisError(
      `Cannot ${op} shape ${formatShape(a.layout.shape)}: name an axis when the rank is not 1`,
    );
  }
  const along = normalizeAxis(op, axis ?? 0, rank);
  if (dtype !== undefined) {
    checkDType(dtype, op);
    if (dtype !== a.storage.info.name) {
      return tidily(() => applyScan(row, contiguousCopy(a, dtype), axis, options));
    }
  }
  const to = dtype ?? ruleFor(row, a.storage.info).result;
  if (to === "bool") throw noBoolSum(op);
  const shape = a.layout.shape.slice();
  if (includeInitial) shape[along]!++;
  if (out !== undefined) prepareOut(out, shape, to, a.storage, op);
  const layout = Layout.contiguous(shape);
  const storage = allocateIn(a.storage.memory, DTYPE[to], layout.size, false);
  let target = layout;
  if (includeInitial) {
    fillScalar(storage, layout.sliceAxis(along, 0, 1, 1), row.identity);
    target = layout.sliceAxis(along, 1, a.layout.shape[along]!, 1);
  }
  const reduced = shape.map((_, i) => i === along);
  const plan = planReduce(target, a.layout, null, reduced, true);
  backendFor(a.storage).fold(row, plan, storage, a.storage, null);
  return delivered(storage, shape, out);
}

/** Writes `value` to every element that `layout` reaches. */
export function fillScalar(storage: Storage, layout: Layout, value: Scalar): void {
  const { name } = storage.info;
  const one = scalarStorage(value, name, 0);
  const plan = planMap(layout, SCALAR_LAYOUT, null, null);
  backendFor(storage).map(MAP.copy, name, plan, storage, one, null, null);
}
