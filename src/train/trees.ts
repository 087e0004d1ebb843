/**
 * Trees of tensors of any dtype and of other values: arrays and plain objects, at any depth.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { listIn } from "../base/shape.ts";
import { isRecord, MAX_NESTING } from "../compile/signature.ts";
import { adopt } from "../core/foreign.ts";
import { isOperandArgument, type Operand } from "../memory/operand.ts";

/** What becomes of the parts of a tree. */
export interface Uses {
  tensor(x: Operand, path: string): unknown;
  /** Of a value that is no tensor, array or plain object. */
  other(value: unknown, path: string): unknown;
}

/** A tree of what becomes of the parts of `value`; paths are such as `layers.0.w`. */
export function mapTree(name: string, value: unknown, uses: Uses): unknown {
  const visit = (given: unknown, path: string, depth: number): unknown => {
    if (depth > MAX_NESTING) {
      throw new ArgumentError(`Cannot ${name}: ${path} is nested more than ${MAX_NESTING} deep`);
    }
    const one = adopt(given, name);
    if (isOperandArgument(one)) return uses.tensor(one, path);
    const at = (key: string | number): string => path === "" ? `${key}` : `${path}.${key}`;
    const list = listIn(one, (part, i) => visit(part, at(i), depth + 1));
    if (list !== undefined) return list;
    if (!isRecord(one)) return uses.other(one, path);
    return Object.fromEntries(
      Object.entries(one).map(([key, part]) => [key, visit(part, at(key), depth + 1)]),
    );
  };
  return visit(value, "", 0);
}
