/**
 * The operand of an op: a storage, a layout and flags. Tensors are operands.
 *
 * Knows nothing of ops, or of the class Tensor.
 *
 * @module
 */
import { Layout } from "../base/layout.ts";
import type { Storage } from "./storage.ts";

/** Flag of a handle that does not permit writes. */
export const READ_ONLY = 1;
/** Flag of a handle to a storage that another handle made. */
export const VIEW = 2;

/** The operand of an op. */
export interface Operand {
  /** The memory. */
  readonly storage: Storage;
  /** The elements in that memory: shape, strides, offset. */
  readonly layout: Layout;
  /** {@link READ_ONLY} and {@link VIEW}. */
  readonly flags: number;
}

/** The first elements of a storage, all by default, as a vector. */
export function elementsOf(storage: Storage, length: number = storage.length): Operand {
  return { storage, layout: Layout.contiguous([length]), flags: 0 };
}

/** True for a tensor. */
export function isOperand(value: unknown): value is Operand {
  return typeof value === "object" && value !== null && (value as Operand).layout instanceof Layout;
}

/**
 * {@link isOperand} of a value that may be an object of any kind: an array, options. Engines
 * optimize the other function as long as it sees only the few kinds of operands.
 */
export function isOperandArgument(value: unknown): value is Operand {
  return typeof value === "object" && value !== null && (value as Operand).layout instanceof Layout;
}
