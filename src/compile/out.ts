/**
 * Writes the results of a call to tensors that exist: the option `out`.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { sameShape } from "../base/shape.ts";
import { apply } from "../core/apply.ts";
import { copyInto, copyOf } from "../core/dispatch.ts";
import { overlaps, prepareOut } from "../core/write.ts";
import { isOperandArgument, type Operand } from "../memory/operand.ts";
import { recycle } from "../memory/pool.ts";
import type { Storage } from "../memory/storage.ts";
import { MAP } from "../ops/table.ts";
import { isRecord } from "./signature.ts";
import { type Template, templateOf } from "./template.ts";

/** A tensor that gets a part of a result. */
export interface Target {
  readonly to: Operand;
  /** Where it is in `out`, for errors. */
  readonly path: string;
  readonly from:
    /** The result at a place, or the argument tensor. */
    | { readonly kind: "result" | "argument"; readonly place: number }
    /** A tensor that is the same in each call. */
    | { readonly kind: "constant"; readonly value: Operand };
}

/** What errors call the operation. */
const NAME = "call a program";

/**
 * The tensors of `out`, which has the structure of the result, each with its part of the result.
 *
 * Throws a TypeError if the structures differ, and an ArgumentError if two parts are to be written to
 * the same elements.
 */
export function targetsOf(template: Template, out: unknown): Target[] {
  const targets: Target[] = [];
  collect(template, out, "out", targets);
  targets.forEach(({ to, path }, i) => {
    const other = targets.find(({ to: { storage, layout } }, j) =>
      j < i && storage === to.storage && layout.size > 0 && layout.offset === to.layout.offset &&
      sameShape(layout.shape, to.layout.shape) && sameShape(layout.strides, to.layout.strides)
    );
    if (other === undefined) return;
    throw new ArgumentError(`Cannot ${NAME} with ${path}: it has the elements of ${other.path}`);
  });
  return targets;
}

function collect(template: Template, out: unknown, path: string, targets: Target[]): void {
  switch (template.kind) {
    case "constant": {
      const { value } = template;
      if (isOperandArgument(value)) add({ kind: "constant", value }, out, path, targets);
      return;
    }
    case "result":
    case "argument":
      return add(template, out, path, targets);
    case "list": {
      const { length } = template.members;
      if (!Array.isArray(out) || out.length !== length) {
        throw new TypeError(
          `Cannot ${NAME} with ${path}: the result is an array of ${length} there`,
        );
      }
      template.members.forEach((one, i) => collect(one, out[i], `${path}[${i}]`, targets));
      return;
    }
    case "record":
      template.keys.forEach((key, i) => {
        const own = isRecord(out) ? out[key] : undefined;
        collect(template.members[i]!, own, `${path}.${key}`, targets);
      });
  }
}

function add(from: Target["from"], out: unknown, path: string, targets: Target[]): void {
  if (!isOperandArgument(out)) {
    throw new TypeError(`Cannot ${NAME} with ${path}: the result has a tensor there`);
  }
  targets.push({ to: out, path, from });
}

/** Checks that `to` can have the elements of `from`, and prepares it for the write. */
export function prepareTarget(to: Operand, { layout: { shape }, storage }: Operand): void {
  prepareOut(to, { shape, dtype: storage.info }, storage, NAME);
}

/** A tensor to write, and where its elements are. */
export interface Copy {
  readonly to: Operand;
  readonly from: Operand;
}

/** Those of `copies` whose source another one would change first, with a copy of the source. */
function separated(copies: readonly Copy[]): { copies: Copy[]; made: Storage[] } {
  const made: Storage[] = [];
  const own = copies.map(({ to, from }, i) => {
    if (!copies.some((other, j) => j < i && overlaps(other.to, from))) return { to, from };
    const copy = copyOf(from);
    made.push(copy.storage);
    return { to, from: copy };
  });
  return { copies: own, made };
}

/** Writes each source to its tensor; all are read before any of them is written. */
export function copyAll(copies: readonly Copy[]): void {
  if (copies.length === 1) {
    const { to, from } = copies[0]!;
    if (to !== from) copyInto(to, from);
    return;
  }
  const { copies: own, made } = separated(copies);
  for (const { to, from } of own) if (to !== from) copyInto(to, from);
  for (const storage of made) recycle(storage);
}

/** Writes the tensors of `made`, the result of a function, to those of `out`, by ops. */
export function writeByOps(made: unknown, out: unknown): void {
  const known = { argument: () => undefined, value: () => undefined };
  const copies = targetsOf(templateOf(made, known, []), out).map(({ to, from }) => {
    const source = (from as { readonly value: Operand }).value;
    prepareTarget(to, source);
    return { to, from: source };
  });
  // Copies are ops too, as an interpreter may run them.
  const sources = copies.map(({ to, from }, i) =>
    copies.some((other, j) => j < i && to !== from && overlaps(other.to, from))
      ? apply(MAP.copy, from)
      : from
  );
  copies.forEach(({ to, from }, i) => {
    if (to !== from) apply(MAP.copy, sources[i]!, undefined, undefined, { out: to });
  });
}
