/**
 * When two ops compute the same: of equal operands, with equal attributes.
 *
 * @module
 */
import type { Layout } from "../base/layout.ts";
import { sameShape } from "../base/shape.ts";
import { isOperandArgument } from "../memory/operand.ts";

/** Whether two attributes are equal, as far as that is certain. */
export function sameValue(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (!Array.isArray(a) && Object.getPrototypeOf(a) !== Object.prototype) return false;
  const [own, other] = [Object.keys(a), Object.keys(b)];
  return own.length === other.length && own.every((key, i) =>
    other[i] === key &&
    sameValue((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key])
  );
}

function sameLayout(a: Layout, b: Layout): boolean {
  return a.offset === b.offset && sameShape(a.shape, b.shape) && sameShape(a.strides, b.strides);
}

/** Whether two inputs are the same elements of one storage, or the same scalar. */
export function sameInput(a: unknown, b: unknown): boolean {
  if (isOperandArgument(a) && isOperandArgument(b)) {
    return a.storage === b.storage && sameLayout(a.layout, b.layout);
  }
  return Object.is(a, b);
}
