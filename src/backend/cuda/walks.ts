/**
 * Plans as arguments of the kernels in shim/cuda/kernels: addresses, strides, and divisors for
 * axes.
 *
 * Knows nothing of ops.
 *
 * @module
 */
import { ATTRIBUTES, OFFSETS, type Plan, strideOf } from "../../base/plan.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Arguments } from "./device.ts";

/** The address of operand `k`'s first element. */
export function start(plan: Plan, k: number, storage: Storage): number {
  return storage.address + plan.data[OFFSETS + k]! * storage.info.bytes;
}

/** True if all rows of operand `k` are dense and aligned for packs. */
export function isPacked(plan: Plan, k: number, storage: Storage, pack: number): boolean {
  const last = plan.rank - 1;
  if (strideOf(plan, k, last) !== 1) return false;
  if (start(plan, k, storage) % (pack * storage.info.bytes) !== 0) return false;
  for (let axis = 0; axis < last; axis++) if (strideOf(plan, k, axis) % pack !== 0) return false;
  return true;
}

/** Adds the numbers that divide by `size`; see `rm_divisor` in shim/cuda/kernels/device.h. */
export function addDivisor(args: Arguments, size: number, wide: boolean): void {
  // No kernel iterates over an empty axis.
  size ||= 1;
  // The least power of two that is at least the size.
  let shift = size <= 1 ? 0 : 32 - Math.clz32(size - 1);
  if (wide) { while (2 ** shift < size) shift++; }
  args.integer(size);
  if (wide) {
    const by = BigInt(size);
    args.long(((1n << BigInt(shift)) - by << 64n) / by + 1n);
  } else {
    // 2^32 (2^shift - size) / size, in two steps of 16 bits, so that no number is beyond 2^53.
    const upper = (2 ** shift - size) * 65536;
    const high = Math.floor(upper / size);
    const low = Math.floor((upper - high * size) * 65536 / size);
    args.integer(high * 65536 + low + 1);
  }
  args.integer(shift);
}

/** Adds the axes [from, to) of `plan`, then padding up to `room` axes. */
export function addAxes(
  args: Arguments,
  plan: Plan,
  from: number,
  to: number,
  room: number,
  wide: boolean,
  operands: number = plan.operands,
): void {
  const { data } = plan;
  for (let axis = from; axis < to; axis++) {
    addDivisor(args, data[OFFSETS + plan.operands + axis]!, wide);
    for (let k = 0; k < operands; k++) {
      args.integer(k < plan.operands ? strideOf(plan, k, axis) : 0);
    }
  }
  args.skip((room - (to - from)) * (3 + operands));
}

/** Adds the numbers that an op uses in addition to its operands. */
export function addAttributes(args: Arguments, { data }: Plan): void {
  for (let i = 0; i < 4; i++) args.real(data[ATTRIBUTES + i]!);
}
