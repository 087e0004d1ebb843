/**
 * Runs a collective: at once, through dispatch, or while the program goes on.
 *
 * @module
 */
import { DTYPE } from "../base/dtype.ts";
import { TraceError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { setCollective } from "../backend/native/collective.ts";
import { COLLECTIVE_AT } from "../backend/ffi/abi.ts";
import type { Requests } from "../backend/ffi/requests.ts";
import { applyInPlace, applyView } from "../core/apply.ts";
import { contiguousCopy, contiguousOnCpu, toDevice } from "../core/copy.ts";
import { copyInto, dispatch, infer } from "../core/dispatch.ts";
import { dispose, tidy, wrap } from "../core/handles.ts";
import { interpreting } from "../core/interpreter.ts";
import { type CollectiveAttributes, deviceEngine } from "../ops/collective/problem.ts";
import { partsOf } from "../ops/fft/problem.ts";
import { prepareGiven, prepareOut } from "../core/write.ts";
import { allocateIn } from "../memory/device.ts";
import { leaseOf } from "../memory/lease.ts";
import type { Operand } from "../memory/operand.ts";
import { letGo, recycle } from "../memory/pool.ts";
import { Call, type Op, type OutputSpec } from "../table/op.ts";
import { MAP } from "../table/table.ts";
import { VIEWS } from "../table/views.ts";
import { type AnyTensor, keep } from "../tensor/tensor.ts";
import { ended } from "./engine.ts";

/** A collective of one tensor. */
export interface Collective {
  readonly op: Op;
  /** The method that was called. */
  readonly name: string;
  readonly x: Operand;
  readonly attributes: CollectiveAttributes;
  readonly out: Operand | undefined;
}

/** Runs it while this thread waits. */
export function runSync({ op, name, x, attributes, out }: Collective): Operand {
  return dispatch(op, [x], attributes, out, name);
}

/** Throws where calls are recorded: a promise has no place in a program. */
export function checkEager(name: string): void {
  if (!interpreting()) return;
  throw new TraceError(`Cannot ${name} in a function that is traced: it has ${name}Sync()`);
}

/** Begins it; the program may go on. The elements of `x` are those of the moment of the call. */
export async function run(one: Collective, requests: Requests | undefined): Promise<Operand> {
  const { op, name, x, attributes, out } = one;
  checkEager(name);
  const call = new Call(op, name, [x], attributes);
  const specs = infer(call) as readonly OutputSpec[];
  if (requests === undefined || attributes.size === 1) return runSync(one);
  if (deviceEngine?.takes(call)) {
    // Scopes that end before the call has ended keep its result.
    return await deviceEngine.later(() => keep(runSync(one) as AnyTensor), out);
  }
  if (out !== undefined) call.outputs[0] = out;
  prepareGiven(call, specs, call.like);
  const { shape, dtype } = specs[0]!;
  const { device } = x.storage;
  const isInPlace = isDirect(out, x, dtype.name);
  const here = contiguousOnCpu(x);
  // A write of x goes elsewhere until the call ends.
  const lease = here === x && !isInPlace ? leaseOf(x.storage) : undefined;
  const source = lease === undefined ? here : { ...here, storage: lease.storage };
  const layout = Layout.contiguous(shape);
  // The handle may be disposed of before the call ends.
  const into = out && { storage: out.storage, layout: out.layout, flags: out.flags };
  if (into !== undefined) into.storage.handles++;
  const target = isInPlace
    ? into!
    : { storage: allocateIn(null, dtype, layout.size, false), layout, flags: 0 };
  const numbers = new Float64Array(COLLECTIVE_AT.numbers);
  setCollective(numbers, new Call(op, name, [source], attributes, [target]));
  const [to, from] = [partsOf(target.storage).array, partsOf(source.storage).array];
  await ended(name, requests.start(numbers, to, from), {
    operands: [source, target],
    release(failed) {
      lease?.end();
      if (here !== x) recycle(here.storage);
      if (!failed) return;
      if (target !== into) recycle(target.storage);
      if (into !== undefined) letGo(into.storage);
    },
  });
  if (into === undefined) {
    const made = wrap(target.storage, layout);
    if (device === "cpu") return made;
    const moved = toDevice(made, device);
    dispose(made);
    return moved;
  }
  if (isInPlace) into.storage.version++;
  else {
    giveTo(into, target);
    recycle(target.storage);
  }
  letGo(into.storage);
  return out!;
}

/** Copies a result on the CPU to a tensor on its device. */
function giveTo(out: Operand, made: Operand): void {
  if (out.storage.memory === null) return copyInto(out, made);
  const handle = wrap(made.storage, made.layout);
  const moved = toDevice(handle, out.storage.device);
  copyInto(out, moved);
  dispose(moved);
}

/** Whether a result may be written over the elements of `x`, which is also the output. */
function isDirect(out: Operand | undefined, x: Operand, dtype: string): boolean {
  return out === x && x.layout.contiguous && x.storage.memory === null &&
    !x.storage.onSlab && x.storage.info === DTYPE[dtype as "float32"];
}

/** `one` with another axis in the place of the first: what to run, and what to do with its result. */
export function alongAxis(
  one: Collective,
  axis: number,
): { moved: Collective; finish: (made: Operand) => Operand; release: () => void } {
  const { x, name, out } = one;
  if (axis === 0) return { moved: one, finish: (made) => made, release: () => {} };
  const turned = applyView(VIEWS.moveAxis, x, name, [axis], [0]);
  const moved = { ...one, x: turned, out: undefined };
  if (out !== undefined) {
    const [{ shape, dtype }] = infer(
      new Call(one.op, name, [turned], one.attributes),
    ) as readonly [OutputSpec];
    const [first, ...rest] = shape;
    prepareOut(out, { shape: rest.toSpliced(axis, 0, first!), dtype }, x.storage, name);
  }
  return {
    moved,
    finish(made) {
      return tidy(() => {
        const back = applyView(VIEWS.moveAxis, made, name, [0], [axis]);
        if (out === undefined) return contiguousCopy(back);
        copyInto(out, back);
        return out;
      });
    },
    release: () => dispose(turned),
  };
}

/** Divides a sum by the number of ranks, in place. */
export function divideBy(size: number, sum: Operand): Operand {
  return size === 1 ? sum : applyInPlace(MAP.div, "allMean", sum, size);
}
