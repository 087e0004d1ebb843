/**
 * Elements in scratch memory, and the plans of copies to and from it: what serves plans for which
 * there is no kernel.
 *
 * Knows nothing of ops.
 *
 * @module
 */
import { DTYPE, type DType, type DTypeInfo } from "../../dtype.ts";
import { ATTRIBUTES, OFFSETS, Plan } from "../../plan.ts";
import { Storage } from "../../storage.ts";
import type { CudaDevice } from "./device.ts";
import { stride } from "./walks.ts";

/** Elements of scratch memory. */
class Scratch extends Storage {
  readonly #device: string;
  readonly #address: number;
  readonly #length: number;

  constructor(device: string, info: DTypeInfo, address: number, length: number) {
    super(new info.array(0), info, false, false);
    this.#device = device;
    this.#address = address;
    this.#length = length;
  }

  override get device(): string {
    return this.#device;
  }

  override get address(): number {
    return this.#address;
  }

  override get length(): number {
    return this.#length;
  }
}

/** Calls `use` with storages of so many elements of these dtypes, which last as long as the call. */
export function withScratch(
  device: CudaDevice,
  wanted: readonly (readonly [dtype: DType, length: number])[],
  use: (made: readonly Storage[]) => void,
): void {
  if (wanted.length === 0) return use([]);
  const places: number[] = [];
  let bytes = 0;
  for (const [dtype, length] of wanted) {
    places.push(bytes);
    bytes += Math.ceil(length * DTYPE[dtype].bytes / 512) * 512;
  }
  device.scratch(bytes, (address) => {
    use(
      wanted.map(([dtype, length], i) =>
        new Scratch(device.name, DTYPE[dtype], address + places[i]!, length)
      ),
    );
  });
}

/** True when the elements of operand `k` lie one after the other, as `plan` walks them. */
export function isRun(plan: Plan, k: number): boolean {
  const shape = OFFSETS + plan.operands;
  let step = 1;
  for (let axis = plan.rank - 1; axis >= 0; axis--) {
    if (stride(plan, k, axis) !== step) return false;
    step *= plan.data[shape + axis]!;
  }
  return true;
}

/** True when operand `k` has one element for all of `plan`. */
export function isSingle(plan: Plan, k: number): boolean {
  for (let axis = 0; axis < plan.rank; axis++) if (stride(plan, k, axis) !== 0) return false;
  return true;
}

/** A plan of one axis, with the attributes of `plan`. */
export function densePlan(
  plan: Plan,
  count: number,
  offsets: readonly number[],
  steps: readonly number[],
): Plan {
  const made = new Plan();
  made.rank = 1;
  made.operands = offsets.length;
  made.data.set(plan.data.subarray(0, OFFSETS));
  made.data[0] = 1;
  made.data[1] = offsets.length;
  made.data.set([...offsets, count, ...steps], OFFSETS);
  return made;
}

/** The plan that copies operand `k` of `plan` into a run, as `plan` walks it. */
export function copyOf(plan: Plan, k: number): Plan {
  return copyOperand(plan, k, false);
}

/** The same or, with `back`, from such a run to where operand `k` is. */
export function copyOperand(plan: Plan, k: number, back: boolean): Plan {
  const { data, rank, operands } = plan;
  const shape = data.subarray(OFFSETS + operands, OFFSETS + operands + rank);
  const there = Array.from(shape, (_, axis) => stride(plan, k, axis));
  const run: number[] = [];
  let step = 1;
  for (let axis = rank - 1; axis >= 0; axis--) {
    run[axis] = step;
    step *= shape[axis]!;
  }
  return twoOperands(shape, [0, data[OFFSETS + k]!], [run, there], plan.huge, back);
}

/** The plan that copies to operand 0 of `plan` from elements that lie in the same way. */
export function copyAlike(plan: Plan, axes: number): Plan {
  const { data, operands } = plan;
  const shape = data.subarray(OFFSETS + operands, OFFSETS + operands + axes);
  const steps = Array.from(shape, (_, axis) => stride(plan, 0, axis));
  const from = data[OFFSETS]!;
  return twoOperands(shape, [from, from], [steps, steps], plan.huge, false);
}

function twoOperands(
  shape: ArrayLike<number>,
  offsets: readonly [number, number],
  strides: readonly [readonly number[], readonly number[]],
  huge: boolean,
  back: boolean,
): Plan {
  const made = new Plan();
  // Maps have an axis.
  made.rank = Math.max(1, shape.length);
  made.operands = 2;
  made.huge = huge;
  const axes = shape.length === 0 ? [1] : Array.from(shape);
  const [first, second] = strides.map((list) => list.length === 0 ? [1] : list);
  const order = back ? [1, 0] as const : [0, 1] as const;
  const numbers = [
    ...order.map((k) => offsets[k]),
    ...axes,
    ...order.flatMap((k) => (k === 0 ? first : second)!),
  ];
  if (made.data.length < OFFSETS + numbers.length) {
    made.data = new Float64Array(OFFSETS + numbers.length);
  }
  made.data[0] = made.rank;
  made.data[1] = 2;
  made.data.fill(0, ATTRIBUTES, OFFSETS);
  made.data.set(numbers, OFFSETS);
  return made;
}
