/**
 * The results of a function: where the tensors, numbers and other values of its result come from.
 *
 * @module
 */
import { TraceError } from "../base/errors.ts";
import { Late } from "../base/late.ts";
import { isOperandArgument, type Operand } from "../memory/operand.ts";
import { LateKey } from "../random/late_key.ts";
import type { Value } from "./graph.ts";
import { isRecord } from "./signature.ts";

/** A part of a result. */
export type Template =
  /** A tensor that the program makes: its place among the results of the graph. */
  | { readonly kind: "result"; readonly place: number }
  /** The tensor of an argument itself. */
  | { readonly kind: "argument"; readonly place: number }
  | { readonly kind: "late"; readonly value: Late<unknown> }
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

/** Throws a TraceError for an object of a class with tensors or numbers of the program. */
function checkConstant(value: unknown, handles: Handles): void {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return;
  const isCollection = value instanceof Map || value instanceof Set;
  const inside = isCollection ? [...value.values()] : Object.values(value);
  const late = inside.some((one) =>
    one instanceof Late ||
    (isOperandArgument(one) &&
      (handles.argument(one) !== undefined || handles.value(one) !== undefined))
  );
  if (!late) return;
  const { name } = value.constructor;
  throw new TraceError(
    `Cannot trace: the result has tensors in an object of the class ${name}; ` +
      "return them in arrays and plain objects",
  );
}

/** The template of `made`, the result of a traced function; adds its tensors to `results`. */
export function templateOf(made: unknown, handles: Handles, results: Value[]): Template {
  const places = new Map<Operand, Template>();
  const visit = (value: unknown, depth: number): Template => {
    if (depth > 64) throw new TraceError("Cannot trace: the result is nested too deeply");
    if (value instanceof Late) return { kind: "late", value };
    if (isOperandArgument(value)) {
      const known = places.get(value);
      if (known !== undefined) return known;
      const template = tensorTemplate(value);
      places.set(value, template);
      return template;
    }
    if (Array.isArray(value)) {
      return { kind: "list", members: value.map((one) => visit(one, depth + 1)) };
    }
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

function valueOf(late: Late<unknown>): unknown {
  if (!(late instanceof LateKey)) return late.now();
  const [word0, word1] = late.now();
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
    case "late":
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
