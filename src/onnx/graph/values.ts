/**
 * Values of ONNX graphs: tensors, texts, lists and absent values.
 *
 * A tensor whose elements exist while a program is recorded is *known*: an initializer, a shape, and
 * what nodes compute from these. Nodes read known tensors, and compute from them at once, so that
 * shapes and axes are numbers in the program.
 *
 * @module
 */
import type { Scalar } from "../../base/dtype.ts";
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { checkShape, formatShape, listIn, type Shape, sizeOf } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { wrap } from "../../core/handles.ts";
import { uninterpreted } from "../../core/interpreter.ts";
import { allocate } from "../../memory/pool.ts";
import { type AnyTensor, scope, Tensor } from "../../tensor/tensor.ts";

/** A tensor of any dtype and shape. */
export type T = AnyTensor;

/** A tensor of texts. It has no dtype of the core: programs do not take texts. */
export class Strings {
  /** The sizes, outermost axis first. */
  readonly shape: readonly number[];
  /** The texts in row-major order. */
  readonly data: readonly string[];

  /**
   * Makes a tensor of texts.
   *
   * @throws {ShapeError} Unless `shape` has as many elements as `data`; by default it is a vector.
   */
  constructor(data: readonly string[], shape?: readonly number[]) {
    const texts = listIn(data, (text) => {
      if (typeof text === "string") return text;
      throw new ArgumentError(`Cannot make texts of ${describe(text)}`);
    });
    if (texts === undefined) throw new ArgumentError(`Cannot make texts of ${describe(data)}`);
    const sizes = shape === undefined ? [texts.length] : checkShape(shape, "make texts of");
    if (sizeOf(sizes) !== texts.length) {
      throw new ShapeError(
        `Cannot make texts of shape ${formatShape(sizes)} of ${texts.length} texts`,
      );
    }
    this.data = texts;
    this.shape = sizes;
  }
}

/**
 * A value of a graph: a tensor, texts, a list of values (ONNX's sequence), or null for an optional value
 * that is absent. Undefined stands for an input or output that a node does not have.
 */
export type Value = AnyTensor | Strings | readonly Value[] | null | undefined;

/** Whether the elements of `x` exist now. */
export function isKnownTensor(x: T): boolean {
  return !x.storage.isTraced;
}

/** Whether no element of a value has to wait for the run of a program. */
export function isKnown(value: Value): boolean {
  if (value instanceof Tensor) return isKnownTensor(value);
  return isList(value) ? value.every(isKnown) : true;
}

/** Whether a value is a list. */
export function isList(value: Value): value is readonly Value[] {
  return Array.isArray(value);
}

/** All tensors in values. */
export function* tensorsIn(values: Iterable<Value>): Generator<T> {
  for (const value of values) {
    if (value instanceof Tensor) yield value;
    else if (isList(value)) yield* tensorsIn(value);
  }
}

/** Thrown where a node needs elements that exist only while the program runs. */
export class NeedsValue extends Error {
  /** The place of the input. */
  readonly input: number;
  /** The name of the value, once the node is known. */
  value: string | undefined;

  constructor(input: number) {
    super(`input ${input} is not known while the program is recorded`);
    this.input = input;
  }
}

/** The elements of known tensors, which do not change during a run. */
const elements = new WeakMap<object, readonly Scalar[]>();
/** Elements of larger tensors are not kept. */
const MOST_KEPT = 4096;

/** The elements of a known tensor in row-major order: bigints for integers of 64 bits. */
export function elementsOf(x: T): readonly Scalar[] {
  const before = elements.get(x);
  if (before !== undefined) return before;
  const list = uninterpreted(() => {
    if (x.dtype === "float16" || x.dtype === "bfloat16") {
      return scope(() => Array.from<number>(x.astype("float32").toTypedArray()));
    }
    const { storage, layout: { contiguous, offset, size } } = x;
    const isPlain = contiguous && /^(?:u?int|float(?:32|64)$)/.test(x.dtype);
    // Without a copy, whose loop would be made first.
    const array = isPlain ? storage.array.subarray(offset, offset + size) : x.toTypedArray();
    const all: (number | bigint)[] = Array.from<number | bigint>(array);
    return x.dtype === "bool" ? all.map(Boolean) : all;
  });
  if (list.length <= MOST_KEPT) elements.set(x, list);
  return list;
}

/** Reads the elements of these tensors anew: their owner may have written to them since the last run. */
export function forgetElements(values: Iterable<Value>): void {
  for (const x of tensorsIn(values)) elements.delete(x);
}

/** A vector of int64, known. */
export function int64(data: readonly (number | bigint)[], shape: Shape = [data.length]): T {
  const storage = allocate("int64", data.length, false);
  const { array } = storage;
  for (let k = 0; k < data.length; k++) array[k] = BigInt(data[k]!);
  return wrap(storage, Layout.contiguous(shape)) as T;
}
