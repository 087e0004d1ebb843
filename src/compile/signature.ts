/**
 * The kind of arguments that a program was made for: which calls can use it, and where their tensors
 * and numbers are.
 *
 * @module
 */
import type { DTypeInfo } from "../base/dtype.ts";
import { Layout } from "../base/layout.ts";
import { ArgumentError, TraceError } from "../base/errors.ts";
import { formatShape, listIn, sameShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { adopt } from "../core/foreign.ts";
import { isOperandArgument, type Operand, READ_ONLY } from "../memory/operand.ts";
import { checkAlive, DISPOSED, type Storage } from "../memory/storage.ts";
import type { Words } from "../api/random/placeholder_key.ts";

/** A number of a call, as ops take it. */
export type Numeric = number | bigint;

/** The tensors, numbers and random keys of one call, in the order of the arguments. */
export interface Bound {
  readonly tensors: Operand[];
  readonly numbers: Numeric[];
  readonly keys: Words[];
}

interface TensorPattern {
  readonly kind: "tensor";
  readonly info: DTypeInfo;
  readonly device: string;
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly offset: number;
  readonly readOnly: boolean;
  /** The number of the storage among those of all arguments. */
  readonly group: number;
}

interface NumberPattern {
  readonly kind: "number";
  readonly type: "number" | "bigint";
}

interface KeyPattern {
  readonly kind: "key";
}

interface ConstantPattern {
  readonly kind: "constant";
  readonly value: unknown;
}

interface ListPattern {
  readonly kind: "list";
  readonly members: readonly Pattern[];
}

interface RecordPattern {
  readonly kind: "record";
  readonly keys: readonly string[];
  readonly members: readonly Pattern[];
}

/** The kind of one argument. */
export type Pattern =
  | TensorPattern
  | NumberPattern
  | KeyPattern
  | ConstantPattern
  | ListPattern
  | RecordPattern;

/** Whether `value` is an object of named values and no instance of a class. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/**
 * `value`, with operands instead of tensors of other copies of the library, which a program would
 * keep as constants.
 */
export function ownArguments<T>(value: T, depth = 0): T {
  // The reader refuses what is nested deeper.
  if (depth > MAX_NESTING) return value;
  if (Array.isArray(value)) {
    const own = value.map((one) => ownArguments(one, depth + 1));
    return own.some((one, i) => one !== value[i]) ? own as T : value;
  }
  if (!isRecord(value)) return adopt(value, "call a compiled function with");
  const entries = Object.entries(value);
  const own = entries.map(([key, one]) => [key, ownArguments(one, depth + 1)] as const);
  return own.some(([, one], i) => one !== entries[i]![1]) ? Object.fromEntries(own) as T : value;
}

function isKey(value: Record<string, unknown>, names: readonly string[]): boolean {
  return names.length === 2 && Number.isInteger(value["word0"]) &&
    Number.isInteger(value["word1"]);
}

/** Arguments that are nested deeper are an error; they may contain themselves. */
export const MAX_NESTING = 64;

/** Makes the patterns of the arguments of a call, and binds them. */
export class Reader {
  readonly bound: Bound = { tensors: [], numbers: [], keys: [] };
  /** The path of each number, such as `2.scale`. */
  readonly numberNames: string[] = [];
  readonly keyNames: string[] = [];
  readonly storages: Storage[] = [];

  /** `isStatic` tells by its path whether a number is part of the key. */
  constructor(readonly isStatic: (path: string) => boolean) {}

  /** The pattern of `value`, the argument at `path`. */
  read(value: unknown, path: string, depth = 0): Pattern {
    if (depth > MAX_NESTING) {
      throw new ArgumentError(
        `Cannot call a compiled function with arguments that are nested more than ${MAX_NESTING} deep`,
      );
    }
    if (typeof value === "number" || typeof value === "bigint") {
      this.bound.numbers.push(value);
      this.numberNames.push(path);
      if (this.isStatic(path)) return { kind: "constant", value };
      return { kind: "number", type: typeof value as "number" | "bigint" };
    }
    if (isOperandArgument(value)) return this.#tensor(value);
    const list = listIn(value, (one, i) => this.read(one, `${path}[${i}]`, depth + 1));
    if (list !== undefined) return { kind: "list", members: list };
    if (ArrayBuffer.isView(value) || value instanceof Map || value instanceof Set) {
      throw new TraceError(
        `Cannot call a compiled function with ${describe(value)} at argument ${path} (counted ` +
          "from 0): a program would keep what it contains now; pass tensors, in arrays or objects",
      );
    }
    if (!isRecord(value)) return { kind: "constant", value };
    const keys = Object.keys(value);
    if (isKey(value, keys)) {
      this.bound.keys.push([value["word0"] as number, value["word1"] as number]);
      this.keyNames.push(path);
      return { kind: "key" };
    }
    const members = keys.map((key) => this.read(value[key], `${path}.${key}`, depth + 1));
    return { kind: "record", keys, members };
  }

  #tensor(x: Operand): Pattern {
    const { storage, layout: { shape, strides, offset }, flags } = x;
    if (storage.isTraced) {
      throw new TraceError(
        "Cannot call a compiled function with a tensor of a trace that has ended: it has no " +
          "elements; return it from the traced function",
      );
    }
    checkAlive(storage, "call a program");
    this.bound.tensors.push(x);
    let group = this.storages.indexOf(storage);
    if (group < 0) group = this.storages.push(storage) - 1;
    return {
      kind: "tensor",
      info: storage.info,
      device: storage.device,
      shape,
      strides,
      offset,
      readOnly: (flags & READ_ONLY) !== 0,
      group,
    };
  }
}

/** Compares the arguments of a call with patterns. */
export class Matcher {
  readonly bound: Bound = { tensors: [], numbers: [], keys: [] };
  readonly storages: Storage[] = [];

  /** Whether the arguments are of these kinds; then they are in {@link bound}. */
  match(patterns: readonly Pattern[], args: readonly unknown[]): boolean {
    const { tensors, numbers, keys } = this.bound;
    tensors.length =
      numbers.length =
      keys.length =
      this.storages.length =
        0;
    if (patterns.length !== args.length) return false;
    for (let i = 0; i < patterns.length; i++) {
      if (!this.#one(patterns[i]!, args[i])) return false;
    }
    return true;
  }

  #one(pattern: Pattern, value: unknown): boolean {
    switch (pattern.kind) {
      case "tensor":
        return isOperandArgument(value) && this.#tensor(pattern, value);
      case "number":
        if (pattern.type === "number" ? typeof value !== "number" : typeof value !== "bigint") {
          return false;
        }
        this.bound.numbers.push(value as Numeric);
        return true;
      case "constant":
        if (!Object.is(value, pattern.value)) return false;
        if (typeof value === "number" || typeof value === "bigint") this.bound.numbers.push(value);
        return true;
      case "list":
        return Array.isArray(value) && this.#members(pattern, value);
      case "key": {
        if (!isRecord(value) || !isKey(value, Object.keys(value))) return false;
        this.bound.keys.push([value["word0"] as number, value["word1"] as number]);
        return true;
      }
      case "record": {
        if (!isRecord(value)) return false;
        const { keys, members } = pattern;
        const own = Object.keys(value);
        if (own.length !== keys.length) return false;
        for (let i = 0; i < keys.length; i++) {
          if (own[i] !== keys[i] || !this.#one(members[i]!, value[keys[i]!])) return false;
        }
        return true;
      }
    }
  }

  #members({ members }: ListPattern, values: readonly unknown[]): boolean {
    if (values.length !== members.length) return false;
    for (let i = 0; i < members.length; i++) if (!this.#one(members[i]!, values[i])) return false;
    return true;
  }

  #tensor(pattern: TensorPattern, x: Operand): boolean {
    const { storage, layout, flags } = x;
    if (
      storage === DISPOSED || storage.info !== pattern.info || layout.offset !== pattern.offset ||
      ((flags & READ_ONLY) !== 0) !== pattern.readOnly || storage.isTraced ||
      !sameShape(layout.shape, pattern.shape) || !sameShape(layout.strides, pattern.strides) ||
      storage.device !== pattern.device
    ) return false;
    const { storages } = this;
    const { group } = pattern;
    if (group < storages.length) {
      if (storages[group] !== storage) return false;
    } else {
      for (let i = 0; i < group; i++) if (storages[i] === storage) return false;
      storages.push(storage);
    }
    this.bound.tensors.push(x);
    return true;
  }
}

/** The layout of a tensor's pattern. */
export function layoutOf({ shape, strides, offset }: TensorPattern): Layout {
  return new Layout(shape, strides, offset);
}

/** The first difference between two kinds of arguments, in words; undefined if there is none. */
export function difference(
  a: readonly Pattern[],
  b: readonly Pattern[],
  path: (i: number) => string = (i) => `${i}`,
): string | undefined {
  if (a.length !== b.length) return `${a.length} and ${b.length} arguments`;
  for (let i = 0; i < a.length; i++) {
    const found = differenceOf(a[i]!, b[i]!, path(i));
    if (found !== undefined) return found;
  }
  return undefined;
}

function differenceOf(a: Pattern, b: Pattern, path: string): string | undefined {
  const name = `argument ${path} (counted from 0)`;
  if (a.kind === "tensor" && b.kind === "tensor") return tensorDifference(a, b, name);
  if (a.kind === "constant" && b.kind === "constant") {
    if (Object.is(a.value, b.value)) return undefined;
    return `${name}: ${describe(a.value)} and ${describe(b.value)}`;
  }
  if (a.kind === "number" && b.kind === "number" && a.type === b.type) return undefined;
  if (a.kind === "key" && b.kind === "key") return undefined;
  if (a.kind === "list" && b.kind === "list") {
    const [own, other] = [a.members.length, b.members.length];
    if (own !== other) return `${name}: arrays of ${own} and ${other}`;
    return difference(a.members, b.members, (i) => `${path}[${i}]`);
  }
  if (a.kind === "record" && b.kind === "record") {
    const [own, other] = [a.keys.join(", "), b.keys.join(", ")];
    if (own !== other) return `${name}: objects of ${own} and ${other}`;
    return difference(a.members, b.members, (i) => `${path}.${a.keys[i]}`);
  }
  return `${name}: values of two kinds`;
}

function tensorDifference(a: TensorPattern, b: TensorPattern, name: string): string | undefined {
  if (a.info !== b.info) return `${name}: ${a.info.name} and ${b.info.name}`;
  if (!sameShape(a.shape, b.shape)) {
    return `${name}: shapes ${formatShape(a.shape)} and ${formatShape(b.shape)}`;
  }
  if (!sameShape(a.strides, b.strides)) {
    return `${name}: strides ${formatShape(a.strides)} and ${formatShape(b.strides)}`;
  }
  if (a.offset !== b.offset) return `${name}: offsets ${a.offset} and ${b.offset}`;
  if (a.device !== b.device) return `${name}: tensors on ${a.device} and ${b.device}`;
  if (a.readOnly !== b.readOnly) return `${name}: a read-only and a writable tensor`;
  if (a.group !== b.group) return `${name}: another argument shares its memory, or does not`;
  return undefined;
}
