/**
 * Batches of a data set that is in memory.
 *
 * @module
 */
import { foldIn, type Key, permutation } from "../api/random.ts";
import { words } from "../api/random/create.ts";
import { ArgumentError, DeviceError, ShapeError } from "../base/errors.ts";
import { formatShape } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { applyView } from "../core/apply.ts";
import { dispose } from "../core/handles.ts";
import type { Operand } from "../memory/operand.ts";
import { checkAlive } from "../memory/storage.ts";
import { take } from "../ops/index/op.ts";
import { checkOptions } from "../table/infer.ts";
import { VIEWS } from "../table/views.ts";
import type { Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { mapTree } from "./trees.ts";

/** Options of {@link batches}. */
export interface BatchesOptions {
  /** The number of rows of a batch. */
  readonly size: number;
  /** The key of the order of rows, which is another one in each epoch. */
  readonly key?: Key | undefined;
  /** Whether the rows are in random order; true by default if there is a key. */
  readonly shuffle?: boolean | undefined;
  /** How often all rows are there; 1 by default. May be Infinity. */
  readonly epochs?: number | undefined;
  /** Whether an epoch ends before a batch of fewer rows; false by default. */
  readonly dropLast?: boolean | undefined;
  /** The number of batches that are left out, such as those before a checkpoint; 0 by default. */
  readonly start?: number | undefined;
}

/** A batch of data: its structure, and tensors with another number of rows. */
export type Batch<P> = P extends Tensor<infer D, infer S, infer V, t.Access>
  ? Tensor<D, S extends readonly [number, ...infer R extends number[]] ? [number, ...R] : S, V>
  : P extends readonly unknown[] ? { [K in keyof P]: Batch<P[K]> }
  : { [K in keyof P]: Batch<P[K]> };

const NAME = "make batches";

function checkCount(what: string, value: unknown, least: number, isEndless = false): number {
  const isCount = Number.isSafeInteger(value) || (isEndless && value === Infinity);
  if (isCount && value as number >= least) return value as number;
  throw new ArgumentError(
    `Cannot ${NAME} with ${what} ${describe(value)}: it is an integer of at least ${least}`,
  );
}

function checkFlag(what: string, value: unknown): boolean {
  if (typeof value === "boolean") return value;
  throw new ArgumentError(
    `Cannot ${NAME} with ${what} ${describe(value)}: it is true or false`,
  );
}

/** The tensors of a tree, all of as many rows. */
function rowsOf(data: unknown): readonly [leaves: readonly Operand[], rows: number] {
  const leaves: Operand[] = [];
  let first = "";
  mapTree(NAME, data, {
    tensor(x, path) {
      const { layout: { shape }, storage: { device } } = x;
      const at = path === "" ? "the data" : path;
      checkAlive(x.storage, `${NAME} of ${at}`);
      if (shape.length === 0) {
        throw new ShapeError(`Cannot ${NAME}: ${at} has shape [], and no rows`);
      }
      if (leaves.length === 0) first = at;
      const { layout, storage } = leaves[0] ?? x;
      if (layout.shape[0] !== shape[0]) {
        throw new ShapeError(
          `Cannot ${NAME}: ${first} of shape ${formatShape(layout.shape)} has ${
            layout.shape[0]
          } rows, and ${at} of shape ${formatShape(shape)} has ${shape[0]}`,
        );
      }
      if (storage.device !== device) {
        throw new DeviceError(
          `Cannot ${NAME}: ${first} is on ${storage.device}, and ${at} on ${device}`,
        );
      }
      leaves.push(x);
    },
    other(value, path) {
      throw new ArgumentError(
        `Cannot ${NAME} of ${describe(value)}${path === "" ? "" : ` at ${path}`}: data are ` +
          "tensors, in arrays and plain objects",
      );
    },
  });
  const [x] = leaves;
  if (x === undefined) throw new ArgumentError(`Cannot ${NAME}: the data have no tensors`);
  return [leaves, x.layout.shape[0]!];
}

/**
 * Batches of the rows of tensors, which are alone or in arrays and plain objects: axis 0 of all has
 * the same size. The result can be iterated several times, with the same batches.
 *
 * The same key gives the same order. Batches in random order are copies; others are views of the
 * data. Tensors of batches are freed by `dispose`, or by the garbage collector.
 *
 * @throws {ShapeError} For tensors with other numbers of rows, or without axes.
 * @throws {ArgumentError} For data without tensors, and for options out of range.
 *
 * @example
 * ```ts
 * const data = { x: arange(10).reshape([5, 2]), y: arange(5) };
 * [...batches(data, { size: 2 })].map(({ y }) => y.toArray()); // => [[0, 1], [2, 3], [4]]
 * for (const { x, y } of batches(data, { size: 2, key: random.key(1), epochs: 3 })) {
 *   x.shape[0] === y.shape[0]; // => true
 * }
 * ```
 */
export function batches<P>(data: P, options: BatchesOptions): Iterable<Batch<P>> {
  checkOptions(NAME, options, ["size", "key", "shuffle", "epochs", "dropLast", "start"]);
  const { key } = options;
  const size = checkCount("size", options.size, 1);
  const epochs = checkCount("epochs", options.epochs ?? 1, 0, true);
  const start = checkCount("start", options.start ?? 0, 0);
  const isLastDropped = checkFlag("dropLast", options.dropLast ?? false);
  const isShuffled = checkFlag("shuffle", options.shuffle ?? key !== undefined);
  if (key !== undefined) words(key, "batches");
  else if (isShuffled) {
    throw new ArgumentError(`Cannot ${NAME} in random order without a key: pass random.key(seed)`);
  }
  const [leaves, rows] = rowsOf(data);
  const count = isLastDropped ? Math.floor(rows / size) : Math.ceil(rows / size);
  const { device } = leaves[0]!.storage;
  function* made(): Generator<Batch<P>> {
    if (count === 0) return;
    for (let epoch = Math.floor(start / count); epoch < epochs; epoch++) {
      const order: Operand | undefined = isShuffled
        ? permutation(foldIn(key!, epoch), rows, { device: device as t.Device }) as Operand
        : undefined;
      try {
        const first = epoch === Math.floor(start / count) ? start % count : 0;
        for (let k = first; k < count; k++) {
          const [from, length] = [k * size, Math.min(size, rows - k * size)];
          const part = (x: Operand): Operand =>
            applyView(VIEWS.narrow, x, "narrow", 0, from, length);
          const own = order && part(order);
          const batch = mapTree(NAME, data, {
            tensor: (x) => own === undefined ? part(x) : take(x, own as Tensor),
            other: (value) => value,
          });
          if (own !== undefined) dispose(own);
          yield batch as Batch<P>;
        }
      } finally {
        if (order !== undefined) dispose(order);
      }
    }
  }
  return { [Symbol.iterator]: made };
}
