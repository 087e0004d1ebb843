/**
 * What an op works on: a storage, a layout and flags. Tensors are operands.
 *
 * Knows nothing of ops, nor of the class Tensor.
 *
 * @module
 */
import { Layout } from "../base/layout.ts";
import type { Storage } from "./storage.ts";

/** Set on a handle that may not be written through. */
export const READ_ONLY = 1;
/** Set on a handle to a storage that another handle made. */
export const VIEW = 2;

/** What an op works on. */
export interface Operand {
  /** The memory. */
  readonly storage: Storage;
  /** The elements in that memory: shape, strides, offset. */
  readonly layout: Layout;
  /** {@link READ_ONLY} and {@link VIEW}. */
  readonly flags: number;
}

/** True for a tensor. */
export function isOperand(value: unknown): value is Operand {
  return typeof value === "object" && value !== null && (value as Operand).layout instanceof Layout;
}

/**
 * {@link isOperand} of what may be an object of any kind: an array, options. Engines optimize the line
 * of the other function for the few kinds that operands are of, as long as it sees no more.
 */
export function isOperandArgument(value: unknown): value is Operand {
  return typeof value === "object" && value !== null && (value as Operand).layout instanceof Layout;
}
