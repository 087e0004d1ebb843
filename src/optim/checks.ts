/**
 * Checks of trees of tensors before the first write, so that an error changes none of them.
 *
 * @module
 */
import type { DTypeInfo } from "../base/dtype.ts";
import {
  ArgumentError,
  DeviceError,
  DTypeError,
  ReadOnlyError,
  ShapeError,
} from "../base/errors.ts";
import { Placeholder } from "../base/placeholder.ts";
import { formatShape, sameShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { frame } from "../core/interpreter.ts";
import { checkWritable } from "../core/write.ts";
import { isSameLayout } from "../grad/tape/memory.ts";
import type { PathLeaves } from "../grad/trees.ts";
import { isOperandArgument, type Operand } from "../memory/operand.ts";
import { frozenName } from "../nn/weights/ledger.ts";

/** A tensor with its name in errors, such as "parameter layers[0].w". */
export interface Named {
  readonly what: string;
  readonly x: Operand;
}

/** The tensors of a tree, or others at its paths, with names. */
export function named(kind: string, { paths }: PathLeaves, leaves: readonly Operand[]): Named[] {
  return leaves.map((x, i) => ({ what: paths[i] === "" ? kind : `${kind} ${paths[i]}`, x }));
}

/** Throws for weights of a file, which layers have copies of. */
export function checkTrained(what: string, leaves: readonly Operand[]): void {
  for (const x of leaves) {
    const weight = frozenName(x);
    if (weight === undefined) continue;
    throw new ReadOnlyError(
      `Cannot ${what} weight ${weight}: open its weights with { trainable: true }`,
    );
  }
}

/** Throws unless a number is given: also that of a program, or one in a tensor. */
export function checkNumberInput(name: string, what: string, value: unknown, least: number): void {
  if (value instanceof Placeholder) return;
  const isNumber = isOperandArgument(value)
    ? value.layout.size === 1 && value.storage.info.kind !== "c"
    : typeof value === "number" && value >= least;
  if (isNumber) return;
  const wanted = least === -Infinity ? "it is a number" : `it is a number of at least ${least}`;
  throw new ArgumentError(`Cannot ${name} with ${what} ${describe(value)}: ${wanted}`);
}

/** Throws unless `other` belongs to `one`: of its shape, on its device, and of its kind of numbers. */
export function checkBelongs(name: string, one: Named, other: Named): void {
  const [own, given] = [one.x, other.x];
  if (!sameShape(own.layout.shape, given.layout.shape)) {
    throw new ShapeError(
      `Cannot ${name} ${one.what} of shape ${formatShape(own.layout.shape)} by ${other.what} of ` +
        `shape ${formatShape(given.layout.shape)}`,
    );
  }
  if (given.storage.info.kind === "c" && own.storage.info.kind !== "c") {
    throw new DTypeError(
      `Cannot ${name} ${one.what} of ${own.storage.info.name} by ${other.what} of ` +
        given.storage.info.name,
    );
  }
  if (given.storage.device === own.storage.device) return;
  throw new DeviceError(
    `Cannot ${name} ${one.what} on ${own.storage.device} by ${other.what} on ${given.storage.device}`,
  );
}

/** Throws unless a tensor is of a dtype. */
export function checkDType(name: string, { what, x }: Named, info: DTypeInfo): void {
  if (x.storage.info === info) return;
  throw new DTypeError(`Cannot ${name} ${what} of ${x.storage.info.name}: it is ${info.name}`);
}

/** What may share memory: storages, or buffers that storages show. */
function memoryOf({ storage }: Operand): object {
  const isBuffer = frame === null && storage.exposed && storage.memory === null;
  return isBuffer ? storage.array.buffer : storage;
}

/** Whether two tensors of one memory have an element in common, as far as that is simple to tell. */
function shareElements(a: Operand, b: Operand): boolean {
  if (a.layout.size === 0 || b.layout.size === 0) return false;
  const isOne = a.storage === b.storage;
  if (isOne && isSameLayout(a.layout, b.layout)) return true;
  if (!a.layout.contiguous || !b.layout.contiguous) return false;
  const bytesOf = ({ layout: { offset, size }, storage }: Operand): [from: number, to: number] => {
    const { bytes } = storage.info, start = isOne ? 0 : storage.array.byteOffset;
    return [start + offset * bytes, start + (offset + size) * bytes];
  };
  const [[low, high], [from, to]] = [bytesOf(a), bytesOf(b)];
  return low < to && from < high;
}

/**
 * Throws unless all `targets` can be written, and none of them shares elements with another one or with
 * what is read beside it; `reads[i]` may be target `i` itself.
 */
export function checkTargets(
  name: string,
  targets: readonly Named[],
  reads: readonly Named[] = [],
): void {
  const owners = new Map<object, Named[]>();
  const check = (one: Named, own: Named | undefined): Named[] | undefined => {
    const known = owners.get(memoryOf(one.x));
    for (const other of known ?? []) {
      if (other === own || !shareElements(one.x, other.x)) continue;
      throw new ArgumentError(
        `Cannot ${name}: ${one.what} shares memory with ${other.what}, which is written; pass a ` +
          "tensor once, or a copy",
      );
    }
    return known;
  };
  for (const one of targets) {
    checkWritable(one.x, `${name} ${one.what}`);
    const known = check(one, undefined);
    if (known === undefined) owners.set(memoryOf(one.x), [one]);
    else known.push(one);
  }
  reads.forEach((one, i) => void check(one, targets[i]));
}
