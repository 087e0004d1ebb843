/**
 * Elementwise ops on dense complex numbers of the CPU, in few steps: most calls of small tensors.
 *
 * @module
 */
import type { DTypeInfo } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { planMap } from "../../base/plan.ts";
import { sameShape } from "../../base/shape.ts";
import type { Operand } from "../../memory/operand.ts";
import { allocateFor } from "../../memory/pool.ts";
import { checkAlive, Storage } from "../../memory/storage.ts";
import { COMPLEX_MAP, COMPLEX_RESULT, type ComplexName } from "./op.ts";
import { ruleFor } from "../../table/infer.ts";
import { Call, type MapOp } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { giveCall, takeCall } from "../../core/calls.ts";
import { execute, runPlanned } from "../../core/dispatch.ts";
import { wrap } from "../../core/handles.ts";

/** An operand that shows the lanes of the current call's storages. */
interface Slot {
  storage: Storage;
  layout: Layout;
  flags: number;
}

const NOTHING = new Float32Array(0);
const NO_LAYOUT = Layout.contiguous([0]);

/** The slots of output and operands, for each float dtype. */
const slots = new Map<DTypeInfo, readonly Slot[]>();

function slotsOf(lane: DTypeInfo): readonly Slot[] {
  let made = slots.get(lane);
  if (made === undefined) {
    made = [0, 1, 2].map(() => ({
      storage: new Storage(NOTHING, lane, true, false),
      layout: NO_LAYOUT,
      flags: 0,
    }));
    slots.set(lane, made);
  }
  return made;
}

/** The layout of the last call's lanes: of all of them, or of the first of each pair. */
let lanes = NO_LAYOUT, pairs = new Layout([0], [2], 0, 0, false);

function lanesLayout(size: number): Layout {
  return lanes.size === size ? lanes : lanes = Layout.contiguous([size]);
}

function pairsLayout(size: number): Layout {
  return pairs.size === size ? pairs : pairs = new Layout([size], [2], 0, size, false);
}

/** Calls of `complexMap` by their number of inputs. */
const calls: (Call | null)[] = [null, null, null, null];

/** The attributes of calls, by the ids of ops; null for ops without a kernel that gives pairs. */
const attributes: ({ readonly op: string } | null | undefined)[] = [];

function attributesOf(op: MapOp): { readonly op: string } | null {
  return attributes[op.id] ??= COMPLEX_RESULT[op.name as ComplexName] === "c"
    ? { op: op.name }
    : null;
}

function isDense({ storage, layout }: Operand): boolean {
  return layout.contiguous && layout.offset === 0 && storage.memory === null;
}

/**
 * The result of `op` for `a` and `b`, null for ops of one operand; null where that takes more steps:
 * for views, broadcast operands, other devices and other dtypes.
 */
export function applyDense(op: MapOp, name: string, a: Operand, b: Operand | null): Operand | null {
  const { info } = a.storage;
  if (op.arity !== (b === null ? 1 : 2) || !isDense(a) || a.layout.size === 0) return null;
  if (b !== null) {
    if (b.storage.info !== info || !isDense(b)) return null;
    if (!sameShape(a.layout.shape, b.layout.shape)) return null;
  }
  const byLanes = op === MAP.add || op === MAP.sub;
  const kernel = byLanes ? null : attributesOf(op);
  if (!byLanes && kernel === null) return null;
  checkAlive(a.storage, name);
  if (b !== null) checkAlive(b.storage, name);
  ruleFor(op, info, name);
  const [to, x, y] = slotsOf(info.lane!) as [Slot, Slot, Slot];
  const made = allocateFor(info, a.layout.size, false);
  to.storage.array = made.array;
  x.storage.array = a.storage.array;
  if (b !== null) y.storage.array = b.storage.array;
  if (byLanes) {
    const layout = lanesLayout(2 * a.layout.size);
    const call = takeCall(op, name, 2, undefined);
    to.layout = x.layout = y.layout = layout;
    call.inputs[0] = x;
    call.inputs[1] = y;
    call.outputs[0] = to;
    call.compute = info.lane!;
    call.plan = planMap(layout, layout, layout, null);
    execute(call, to.storage);
    giveCall(call);
  } else {
    to.layout = x.layout = y.layout = pairsLayout(a.layout.size);
    const inputs = b === null ? 2 : 3;
    const call = calls[inputs] ??= new Call(COMPLEX_MAP, name, [to, x, y].slice(0, inputs));
    call.inputs[0] = to;
    call.inputs[1] = x;
    if (b !== null) call.inputs[2] = y;
    call.attributes = kernel;
    runPlanned(call, to.storage);
  }
  // The arrays may be disposed of.
  to.storage.array = x.storage.array = y.storage.array = NOTHING;
  return wrap(made, a.layout);
}
