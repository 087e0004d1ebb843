/**
 * Checks that a call stays inside its storages: the shim and its kernels do not check.
 *
 * Knows nothing of ops.
 *
 * @module
 */
import type { Layout } from "../../base/layout.ts";
import type { Blocks } from "../../ops/index/kernels.ts";
import { NativeError } from "../../base/errors.ts";
import { OFFSETS, type Plan } from "../../base/plan.ts";
import type { Storage } from "../../memory/storage.ts";
import { STATUS } from "./abi.ts";

/** The first element, as found by the last {@link reach}. */
export let low = 0;
/** The last element. */
export let high = 0;

/** Finds the first and last element of operand `k` of a nonempty plan. */
export function reach(plan: Plan, k: number): void {
  const { data, rank, operands } = plan;
  const shape = OFFSETS + operands;
  const strides = shape + rank + k * rank;
  low = high = data[OFFSETS + k]!;
  for (let j = 0; j < rank; j++) {
    const along = (data[shape + j]! - 1) * data[strides + j]!;
    if (along < 0) low += along;
    else high += along;
  }
}

/**
 * Throws a {@link NativeError} unless operand `k` of a nonempty plan stays inside `storage`, which
 * may be detached.
 */
export function checkOperand(symbol: string, plan: Plan, k: number, storage: Storage): void {
  reach(plan, k);
  // Written so that NaN fails too.
  if (k < plan.operands && low >= 0 && high < storage.length) return;
  throw outside(symbol, k, low, high, storage);
}

/** {@link checkOperand} for blocks that begin up to `along` elements later, or earlier. */
export function checkBlocks(
  symbol: string,
  plan: Plan,
  k: number,
  storage: Storage,
  along: number,
): void {
  reach(plan, k);
  if (along < 0) low += along;
  else high += along;
  if (k < plan.operands && low >= 0 && high < storage.length) return;
  throw outside(symbol, k, low, high, storage);
}

/** True if there is no block, no element in a block, or no index that can be in range. */
export function movesNothing({ plan, index: { count, size } }: Blocks): boolean {
  return count === 0 || size === 0 || plan.size === 0;
}

/** {@link checkOperand} for `length` dense elements from `offset` on. */
export function checkRun(
  symbol: string,
  k: number,
  offset: number,
  length: number,
  storage: Storage,
): void {
  if (offset >= 0 && offset + length <= storage.length) return;
  throw outside(symbol, k, offset, offset + length - 1, storage);
}

/** {@link checkOperand} for the elements of `layout`, which has some. */
export function checkLayout(symbol: string, k: number, layout: Layout, storage: Storage): void {
  const [low, high] = layout.extent();
  if (low >= 0 && high < storage.length) return;
  throw outside(symbol, k, low, high, storage);
}

/** The error of an operand that leaves its storage. */
function outside(
  symbol: string,
  operand: number,
  low: number,
  high: number,
  storage: Storage,
): NativeError {
  return new NativeError(
    symbol,
    STATUS.bounds,
    `operand ${operand} reaches elements ${low} to ${high} of ${storage.length}`,
  );
}
