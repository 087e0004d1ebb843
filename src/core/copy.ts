/**
 * Copies: contiguous ones, casts, and copies between devices.
 *
 * @module
 */
import type { Complex, DType, DTypeInfo, Scalar, TypedArray } from "../base/dtype.ts";
import { Layout } from "../base/layout.ts";
import type { Operand } from "../memory/operand.ts";
import { allocateIn, copyElements, download } from "../memory/device.ts";
import { recycle } from "../memory/pool.ts";
import { type DeviceMemory, Storage } from "../memory/storage.ts";
import { checkOperand } from "../table/infer.ts";
import { Call, makeOp, type Op, type OutputSpec } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import { applyInto, applyView } from "./apply.ts";
import {
  copyInto,
  copyOf,
  deviceName,
  dispatch,
  fillWith,
  memoryOf,
  performCall,
  writeCopy,
} from "./dispatch.ts";
import { wrap } from "./handles.ts";
import { frame } from "./interpreter.ts";

export { writeCopy };

/** A contiguous copy in row-major order, in `dtype`. */
export function contiguousCopy(x: Operand, dtype?: DType, name: string = "copy"): Operand {
  checkOperand(x, name);
  const attributes = dtype === undefined ? undefined : { dtype };
  return applyInto(MAP.copy, name, x, undefined, undefined, undefined, attributes);
}

/** `x` itself when it is of `dtype`, else a contiguous copy in it. */
export function cast(x: Operand, dtype: DType): Operand {
  return x.storage.info.name === dtype ? x : contiguousCopy(x, dtype, "astype");
}

/**
 * A contiguous copy of `x` in the dtype `info`, in a new storage: not a handle. A call for
 * interpreters.
 */
export function looseCopy(x: Operand, info: DTypeInfo = x.storage.info): Operand {
  if (frame === null) return copyOf(x, info);
  const layout = Layout.contiguous(x.layout.shape);
  const target = {
    storage: allocateIn(x.storage.memory, info, layout.size, false),
    layout,
    flags: 0,
  };
  writeCopy(target, x);
  return target;
}

/** Writes `value` to every element of `target`, which is ready: a call for interpreters. */
export function writeValue(target: Operand, value: Scalar | Complex): void {
  if (frame === null) return fillWith(target, value);
  const attributes = { dtype: target.storage.info.name };
  performCall(new Call(MAP.copy, "copy", [value], attributes, [target]));
}

/**
 * The elements of `x`, contiguous, in `memory`, or on the CPU for null: `x` itself if it already
 * matches, else a copy in a new storage.
 */
function contiguousIn(memory: DeviceMemory | null, x: Operand): Operand {
  const { storage, layout: { contiguous, shape, size } } = x;
  if (contiguous && storage.memory === memory) return x;
  const whole = contiguous ? x : copyOf(x);
  if (storage.memory === memory) return whole;
  const made = allocateIn(memory, storage.info, size, false);
  copyElements(made, 0, whole.storage, whole.layout.offset, size);
  recycleCopy(whole, x);
  return { storage: made, layout: Layout.contiguous(shape), flags: 0 };
}

/** Frees the memory of `copy`, unless that is `x` itself. */
function recycleCopy(copy: Operand, x: Operand): void {
  if (copy !== x) recycle(copy.storage);
}

function lend<T>(copy: Operand, x: Operand, f: (copy: Operand) => T): T {
  try {
    return f(copy);
  } finally {
    recycleCopy(copy, x);
  }
}

/** The result of `f` for `x` if its elements are on the CPU, else for a copy there. */
export function onCpu<T>(x: Operand, f: (here: Operand) => T): T {
  const { memory, info: { block } } = x.storage;
  if (memory === null) return f(x);
  return lend(block === 1 ? contiguousIn(null, x) : wholeBlocks(x), x, f);
}

/** A copy on the CPU of the blocks with elements of `x`, and `x` in it. */
function wholeBlocks({ storage, layout }: Operand): Operand {
  const { info } = storage;
  const { shape, strides, offset, size } = layout;
  const [low, high] = layout.extent();
  const from = low - low % info.block;
  const length = size === 0 ? 0 : Math.ceil((high + 1 - from) / info.block) * info.block;
  const made = allocateIn(null, info, length, false);
  copyElements(made, 0, storage, from, length);
  return { storage: made, layout: new Layout(shape, strides, offset - from), flags: 0 };
}

/** The result of `f` for `x` as a contiguous operand on its device, which lives for this call. */
export function withContiguous<T>(x: Operand, f: (contiguous: Operand) => T): T {
  return x.layout.contiguous ? f(x) : lend(copyOf(x), x, f);
}

/** The elements of `x`, contiguous, on the CPU: `x` itself, or a copy. */
export function contiguousOnCpu(x: Operand): Operand {
  return contiguousIn(null, x);
}

/** A new typed array of the elements of `x` in row-major order, in the format of storages. */
export function toArrayCopy(x: Operand): TypedArray {
  const { storage: { info, memory }, layout: { shape, size } } = x;
  if (memory !== null) {
    return withContiguous(x, ({ storage, layout }) => download(storage, layout.offset, size));
  }
  const own = new Storage(new info.array(size * info.entries), info, true, false);
  copyInto({ storage: own, layout: Layout.contiguous(shape), flags: 0 }, x);
  return own.array;
}

/** Whether `storage` is on `device`, in any spelling of its name. */
export function isOn(storage: Storage, device: string): boolean {
  return storage.device === device || storage.device === deviceName(device);
}

/** A tensor on a device: a view if it is there already, else a contiguous copy. */
const TO: Op = makeOp({
  kind: "kernel",
  name: "to",
  infer(call: Call): readonly OutputSpec[] {
    const [x] = call.inputs;
    checkOperand(x, call.name);
    return [{ shape: x.layout.shape, dtype: x.storage.info }];
  },
  run(call: Call): Operand {
    const x = call.operand(0);
    const { device } = call.attributes as { device: string };
    if (isOn(x.storage, device)) return applyView(VIEWS.view, x, call.name);
    const { storage, layout } = contiguousIn(memoryOf(device, "move a tensor to"), x);
    return wrap(storage, layout);
  },
});

/** `x` on `device`. Throws a DeviceError if there is no device of that name. */
export function toDevice(x: Operand, device: string, name: string = "to"): Operand {
  return dispatch(TO, [x], { device }, undefined, name);
}
