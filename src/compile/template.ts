/**
 * The results of a function: where the tensors, numbers and other values of its result come from,
 * and how they get into tensors that exist, the option `out`.
 *
 * @module
 */
import { ArgumentError, TraceError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { Placeholder } from "../base/placeholder.ts";
import { lengthOf, listIn, sameShape } from "../base/shape.ts";
import { apply } from "../core/apply.ts";
import { copyInto, copyOf } from "../core/dispatch.ts";
import { disturbs, overlaps, prepareOut } from "../core/write.ts";
import { isOperandArgument, type Operand } from "../memory/operand.ts";
import { recycle } from "../memory/pool.ts";
import { MAP } from "../table/table.ts";
import { PlaceholderKey } from "../api/random/placeholder_key.ts";
import type { Value } from "./graph.ts";
import { isRecord, MAX_NESTING } from "./signature.ts";

/** A part of a result. */
export type Template =
  /** A tensor that the program makes: its place among the results of the graph. */
  | { readonly kind: "result"; readonly place: number }
  /** The tensor of an argument itself. */
  | { readonly kind: "argument"; readonly place: number }
  | { readonly kind: "placeholder"; readonly value: Placeholder<unknown> }
  | { readonly kind: "constant"; readonly value: unknown }
  | { readonly kind: "list"; readonly members: readonly Template[] }
  | {
    readonly kind: "record";
    readonly keys: readonly string[];
    readonly members: readonly Template[];
  };

/** What {@link templateOf} knows of handles. */
export interface Handles {
  /** The place of the argument that the function got as this handle. */
  argument(handle: Operand): number | undefined;
  /** The handle as an operand of the graph, if the function made it. */
  value(handle: Operand): Value | undefined;
}

/** Throws a TraceError for an object of a class with tensors or numbers of the program inside. */
function checkConstant(value: unknown, handles: Handles): void {
  const seen = new Set<unknown>();
  const isOfRun = (one: unknown): boolean => {
    if (typeof one !== "object" || one === null || ArrayBuffer.isView(one)) return false;
    if (one instanceof Placeholder) return true;
    if (isOperandArgument(one)) {
      return handles.argument(one) !== undefined || handles.value(one) !== undefined;
    }
    if (seen.has(one)) return false;
    seen.add(one);
    const inside: unknown[] = Object.values(one);
    if (one instanceof Map || one instanceof Set) inside.push(...one.keys(), ...one.values());
    return inside.some(isOfRun);
  };
  if (!isOfRun(value)) return;
  const { name } = (value as object).constructor;
  throw new TraceError(
    `Cannot trace: the result has tensors in an object of the class ${name}; ` +
      "return them in arrays and plain objects",
  );
}

/** The template of `made`, the result of a traced function; adds its tensors to `results`. */
export function templateOf(made: unknown, handles: Handles, results: Value[]): Template {
  const places = new Map<Operand, Template>();
  const visit = (value: unknown, depth: number): Template => {
    if (depth > MAX_NESTING) throw new TraceError("Cannot trace: the result is nested too deeply");
    if (value instanceof Placeholder) return { kind: "placeholder", value };
    if (isOperandArgument(value)) {
      const known = places.get(value);
      if (known !== undefined) return known;
      const template = tensorTemplate(value);
      places.set(value, template);
      return template;
    }
    const list = listIn(value, (one) => visit(one, depth + 1));
    if (list !== undefined) return { kind: "list", members: list };
    if (!isRecord(value)) {
      checkConstant(value, handles);
      return { kind: "constant", value };
    }
    const keys = Object.keys(value);
    return { kind: "record", keys, members: keys.map((key) => visit(value[key], depth + 1)) };
  };
  const tensorTemplate = (handle: Operand): Template => {
    const argument = handles.argument(handle);
    if (argument !== undefined) return { kind: "argument", place: argument };
    const value = handles.value(handle);
    if (value === undefined) return { kind: "constant", value: handle };
    return { kind: "result", place: results.push(value) - 1 };
  };
  return visit(made, 0);
}

function valueOf(placeholder: Placeholder<unknown>): unknown {
  if (!(placeholder instanceof PlaceholderKey)) return placeholder.current();
  const [word0, word1] = placeholder.current();
  return { word0, word1 };
}

/** The result of a run: `results` are its new tensors, `args` those of the call. */
export function fill(
  template: Template,
  results: readonly unknown[],
  args: readonly unknown[],
): unknown {
  switch (template.kind) {
    case "result":
      return results[template.place];
    case "argument":
      return args[template.place];
    case "placeholder":
      return valueOf(template.value);
    case "constant":
      return template.value;
    case "list":
      return template.members.map((member) => fill(member, results, args));
    case "record": {
      const made: Record<string, unknown> = {};
      template.keys.forEach((key, i) => made[key] = fill(template.members[i]!, results, args));
      return made;
    }
  }
}

// ---- out -----------------------------------------------------------------------------------------

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
      if (lengthOf(out) !== length) {
        throw typeError(
          `Cannot ${NAME} with ${path}: the result is an array of ${length} there`,
        );
      }
      listIn(out, (one, i) => collect(template.members[i]!, one, `${path}[${i}]`, targets), length);
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
    throw typeError(`Cannot ${NAME} with ${path}: the result has a tensor there`);
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

/** Whether copy `i`, or one before it, writes elements of its source before it reads them. */
function needsCopy(copies: readonly Copy[], i: number): boolean {
  const { to, from } = copies[i]!;
  return disturbs(to, from) || copies.some((other, j) => j < i && overlaps(other.to, from));
}

/** Writes each source to its tensor; all are read before any of them is written. */
export function copyAll(copies: readonly Copy[]): void {
  const sources = copies.map(({ from }, i) => needsCopy(copies, i) ? copyOf(from) : from);
  copies.forEach(({ to, from }, i) => {
    const source = sources[i]!;
    if (to !== source) copyInto(to, source);
    if (source !== from) recycle(source.storage);
  });
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
  const sources = copies.map(({ from }, i) => needsCopy(copies, i) ? apply(MAP.copy, from) : from);
  copies.forEach(({ to }, i) => {
    const source = sources[i]!;
    if (to !== source) apply(MAP.copy, source, undefined, undefined, { out: to });
  });
}
