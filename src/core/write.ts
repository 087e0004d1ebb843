/**
 * Checks before a write of an operand: it is alive, writable and separate from the inputs; and new
 * outputs.
 *
 * @module
 */
import { COMPLEX_ADVICE, type DTypeInfo } from "../base/dtype.ts";
import { DeviceError, DTypeError, ReadOnlyError, ShapeError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { broadcastShapes, formatShape, sameShape } from "../base/shape.ts";
import { isOperand, type Operand, READ_ONLY } from "../memory/operand.ts";
import { allocateIn } from "../memory/device.ts";
import { recycle } from "../memory/pool.ts";
import { checkAlive, type Storage } from "../memory/storage.ts";
import { checkDevice, checkOperand } from "../table/infer.ts";
import type { Call, Input, OutputSpec } from "../table/op.ts";
import { SCALAR_LAYOUT } from "./calls.ts";
import { dispose, wrap } from "./handles.ts";

/** Throws unless results of `from` may be written to a tensor of `to`. */
export function checkStore(from: DTypeInfo, to: DTypeInfo, name: string): void {
  if (from === to) return;
  const rank = ({ kind }: DTypeInfo): number => "buifc".indexOf(kind);
  const lanes = (from.lane !== null && from.kind !== "c") || (to.lane !== null && to.kind !== "c");
  if (lanes || rank(from) > rank(to)) {
    const advice = from.kind === "c" ? COMPLEX_ADVICE : "cast with astype()";
    throw new DTypeError(
      `Cannot ${name} into ${to.name}: the result is ${from.name}; ${advice}`,
    );
  }
}

/**
 * Prepares `target` for a write, or throws: checks that it is alive, writable and has no two
 * indices for one element, and gives copies on write that still show its elements copies of their
 * own.
 */
export function prepareWrite(target: Operand, name: string): void {
  checkAlive(target.storage, name);
  prepareAlive(target, name);
}

/** Throws for a tensor that is read-only, or that has two indices for one element. */
export function checkWritable(target: Operand, name: string): void {
  if (target.layout.overlapsItself) {
    throw new ReadOnlyError(
      `Cannot ${name}: the target of shape ${formatShape(target.layout.shape)} with strides ${
        formatShape(target.layout.strides)
      } has several indexes for one element, as broadcast tensors have`,
    );
  }
  if (target.flags & READ_ONLY) {
    throw new ReadOnlyError(`Cannot ${name}: the tensor is read-only`);
  }
}

function prepareAlive(target: Operand, name: string): void {
  checkWritable(target, name);
  const { storage } = target;
  if (storage.cows === null) return;
  if (storage.memory?.recording) {
    // The copy would be recorded, and contain no data until the recording runs.
    throw new DeviceError(
      `Cannot ${name} while a graph is captured: the tensor shares its memory with copies on write`,
    );
  }
  storage.settle();
}

/** Checks a given output against `spec`, and prepares it for a write. */
export function prepareOut(
  out: Operand,
  { shape, dtype }: OutputSpec,
  like: Storage | undefined,
  name: string,
): void {
  checkOperand(out, name);
  if (like !== undefined && like !== out.storage) checkDevice(out.storage, like, name);
  if (!sameShape(out.layout.shape, shape)) {
    throw new ShapeError(
      `Cannot ${name} into shape ${formatShape(out.layout.shape)}: the result has shape ${
        formatShape(shape)
      }`,
    );
  }
  if (dtype !== out.storage.info) checkStore(dtype, out.storage.info, name);
  prepareAlive(out, name);
}

/** True if `target` and `source` may share bytes. */
export function overlaps(target: Operand, source: Operand): boolean {
  if (target.storage !== source.storage) {
    // Two storages share memory only if it came from outside or is seen as lanes. Each message to a
    // worker makes another object for a shared buffer: two objects of one length may be one buffer.
    const [t, s] = [target.storage, source.storage];
    if (!t.exposed || !s.exposed || t.memory !== s.memory) return false;
    if (t.memory === null) {
      const [to, from] = [t.array.buffer, s.array.buffer];
      const one = to === from || (t.shared && s.shared && to.byteLength === from.byteLength);
      if (!one) return false;
    }
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
 * True if an elementwise write of `target` would change elements of `source` before they are read.
 * It would not if each element is read right before its own place is written.
 */
export function disturbs(target: Operand, source: Operand): boolean {
  if (source === target || !overlaps(target, source)) return false;
  const [t, s] = [target.layout, source.layout];
  const same = target.storage.info.bytes === source.storage.info.bytes &&
    byteExtent(target)[0] === byteExtent(source)[0] &&
    sameShape(t.shape, s.shape) && sameShape(t.strides, s.strides);
  return !same;
}

/** Throws unless `one` broadcasts to the shape of `target`. */
export function checkFits(target: Operand, one: Operand, name: string): void {
  checkOperand(one, name);
  checkAlive(target.storage, name);
  const [mine, theirs] = [target.layout.shape, one.layout.shape];
  if (sameShape(mine, theirs)) return;
  const shape = broadcastShapes(name, mine, theirs);
  if (!sameShape(shape, mine)) {
    throw new ShapeError(
      `Cannot ${name} shapes ${formatShape(mine)} and ${formatShape(theirs)}: the result ${
        formatShape(shape)
      } does not fit the target`,
    );
  }
}

/** True if a kernel may write results of `spec` to `out` while it reads the inputs. */
export function canWriteDirectly(call: Call, out: Operand, spec: OutputSpec): boolean {
  if (out.storage.info !== spec.dtype) return false;
  const interferes = call.op.inPlace ? disturbs : overlaps;
  return call.inputs.every((input) => !isOperand(input) || !interferes(out, input));
}

/** New memory for a result: a handle, unless the result will be copied into `given`. */
export function newOutput({ shape, dtype }: OutputSpec, like: Storage, given?: Operand): Operand {
  const layout = shape.length === 0 ? SCALAR_LAYOUT : Layout.contiguous(shape);
  const storage = allocateIn(like.memory, dtype, layout.size, false);
  return given === undefined ? wrap(storage, layout) : { storage, layout, flags: 0 };
}

/** Prepares the given outputs of a call, or throws before any of them is written. */
export function prepareGiven(
  { name, outputs }: Call,
  specs: readonly OutputSpec[],
  like: Storage | undefined,
): void {
  for (let k = 0; k < outputs.length; k++) {
    const out = outputs[k];
    if (out !== undefined) prepareOut(out, specs[k]!, like, name);
  }
}

/**
 * Output `k` of a kernel: the given one if the kernel can write it, else new memory. Kernels write from
 * the beginning of a storage on, unless their op says more.
 */
export function kernelOutput(call: Call, k: number, spec: OutputSpec, like: Storage): Operand {
  const given: Operand | undefined = call.outputs[k];
  const fits = given !== undefined &&
    (call.op.strided ||
      (given.layout.contiguous && (call.op.outOffset || given.layout.offset === 0))) &&
    canWriteDirectly(call, given, spec) &&
    call.outputs.every((other, i) => i >= k || !overlaps(given, other));
  return fits ? given : newOutput(spec, like, given);
}

/** Runs the check of an op; disposes of results that it refuses. */
export function checkResults(call: Call, given: readonly (Operand | undefined)[]): void {
  try {
    call.op.check!(call);
  } catch (error) {
    call.outputs.forEach((made, k) => given[k] === undefined && dispose(made));
    throw error;
  }
}

/** An input, and its contiguous copy for a kernel. */
export interface Copied {
  readonly place: number;
  readonly original: Operand;
}

/** Frees the copies, and puts the originals back. */
export function recycleCopies(inputs: Input[], copied: readonly Copied[]): void {
  for (const { place, original } of copied) {
    recycle((inputs[place] as Operand).storage);
    inputs[place] = original;
  }
}
