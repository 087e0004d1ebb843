/**
 * Makes random tensors of keys.
 *
 * @module
 */
import { checkDType, DTYPE, type DType } from "../../base/dtype.ts";
import { currentOf } from "../../base/placeholder.ts";
import { describe } from "../../base/text.ts";
import { apply, applyCreate } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { memoryOf, run } from "../../core/dispatch.ts";
import { tidy, wrap } from "../../core/handles.ts";
import { ArgumentError, DTypeError } from "../../base/errors.ts";
import { readElement } from "../../memory/element.ts";
import { Layout } from "../../base/layout.ts";
import { sort } from "../../ops/sort/op.ts";
import { type Distribution, RANDOM, type RandomAttributes } from "../../ops/random/op.ts";
import { Call, type CreateOp, makeOp, type MapOp } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { checkShape } from "../../base/shape.ts";
import type { Operand } from "../../memory/operand.ts";
import { allocateIn } from "../../memory/device.ts";
import { full } from "../../tensor/create.ts";
import type * as t from "../../types/mod.ts";
import { PlaceholderKey, type Words } from "./placeholder_key.ts";

/** A stream of random numbers; immutable. Make one with {@link key}. */
export interface Key {
  /** The first 32 bits. */
  readonly word0: number;
  /** The last 32 bits. */
  readonly word1: number;
}

/** Options of functions that make random tensors. */
export interface RandomOptions<E extends DType, V extends t.Device = "cpu"> {
  /** The dtype of the result. */
  readonly dtype?: E;
  /** The device of the result; the numbers are the same everywhere. */
  readonly device?: V;
}

/** {@link RandomOptions} of functions with a fixed dtype. */
export interface PlaceOptions<V extends t.Device = "cpu"> {
  /** The device of the result; the numbers are the same everywhere. */
  readonly device?: V;
}

function isWord(value: unknown): boolean {
  return typeof value === "number" && value >>> 0 === value;
}

/** The words of a key. Throws an ArgumentError, which names `op`, for another value. */
export function words(of: Key, op: string): Words | PlaceholderKey {
  if (of instanceof PlaceholderKey) return of;
  const [word0, word1] = [of?.word0, of?.word1];
  if (!isWord(word0) || !isWord(word1)) {
    throw new ArgumentError(
      `${op}() needs a key made by random.key(seed) as its first argument, got ${describe(of)}`,
    );
  }
  return [word0, word1];
}

/** Attributes of a random tensor. */
interface CreateAttributes {
  /** Checked, and owned by the call. */
  readonly shape: readonly number[];
  readonly dtype: DType;
  readonly device: t.Device | undefined;
  readonly distribution: Distribution | "permutation" | "exponential" | "laplace" | "gumbel";
  readonly key: Words | PlaceholderKey;
  /** The bounds of integers, and of uniform floats. */
  readonly low?: number | bigint;
  readonly high?: number | bigint;
  /** The mean and the standard deviation of normal numbers; the location and the scale of others. */
  readonly mean?: number;
  readonly std?: number;
}

/** A tensor of random numbers. */
const RANDOM_TENSOR: CreateOp = makeOp({
  kind: "create",
  name: "randomTensor",
  infer(call: Call) {
    const { shape, dtype } = call.attributes as CreateAttributes;
    return [{ shape, dtype: DTYPE[dtype] }];
  },
  create: (attributes: unknown, name: string) =>
    tidy(() => makeRandom(attributes as CreateAttributes, name)),
});

function makeRandom(attributes: CreateAttributes, name: string): Operand {
  const { distribution, dtype } = attributes;
  switch (distribution) {
    case "permutation":
      // Two words each make ties, which keep their order, negligible.
      return sort("argsort", filled(name, { ...attributes, dtype: "float64" }, "uniform"), 0);
    case "uniform": {
      const [low, high] = [attributes.low as number, attributes.high as number];
      const x = filled(name, attributes, distribution);
      if (low === 0 && high === 1) return x;
      spread(x, low, high - low);
      // Rounding must not reach the excluded bound.
      const [end, start] = [full([], high, { dtype }), full([], low, { dtype })];
      const { storage, layout } = low < high ? apply(MAP.nextafter, end, start) : start;
      const last = Number(readElement(storage, layout.offset));
      return apply(MAP.minimum, x, last, undefined, { out: x });
    }
    case "exponential":
    case "laplace":
    case "gumbel":
      return ofUniform(name, attributes, distribution);
    case "normal":
      return spread(filled(name, attributes, distribution), attributes.mean!, attributes.std!);
    default:
      return filled(name, attributes, distribution);
  }
}

/** Numbers that are functions of uniform ones. Those of 16 bits are made in float32. */
function ofUniform(
  name: string,
  attributes: CreateAttributes,
  distribution: "exponential" | "laplace" | "gumbel",
): Operand {
  const dtype = attributes.dtype === "float64" ? "float64" : "float32";
  const x = filled(name, { ...attributes, dtype }, "uniform");
  const into = { out: x };
  const by = (op: MapOp, y?: number | Operand): unknown => apply(op, x, y, undefined, into);
  if (distribution !== "exponential") {
    // No uniform number is 0 or 1, so that all logarithms are finite.
    by(MAP.maximum, dtype === "float64" ? 2 ** -54 : 2 ** -25);
  }
  if (distribution === "laplace") {
    // u - 1/2 has the sign and half of 1 - the probability of a larger number.
    by(MAP.sub, 0.5);
    const sign = apply(MAP.sign, x);
    by(MAP.abs);
    by(MAP.mul, -2);
    by(MAP.log1p);
    by(MAP.mul, sign);
    by(MAP.neg);
  } else {
    by(MAP.neg);
    by(MAP.log1p);
    by(MAP.neg);
    if (distribution === "gumbel") {
      by(MAP.log);
      by(MAP.neg);
    }
  }
  return cast(spread(x, attributes.mean!, attributes.std!), attributes.dtype);
}

/** Random numbers as kernels make them: from 0 to 1, of mean 0 and deviation 1, or integers. */
function filled(name: string, attributes: CreateAttributes, distribution: Distribution): Operand {
  const { shape, dtype, device, key, low, high } = attributes;
  const layout = Layout.contiguous(shape);
  const memory = memoryOf(device, `${name} on`);
  const made = wrap(allocateIn(memory, DTYPE[dtype], layout.size, false), layout);
  const integers = distribution === "integers";
  const bounds = integers ? { low, high } : { low: 0n, high: 0n };
  const kernel = { distribution, key: currentOf<Words>(key), ...bounds } as RandomAttributes;
  run(new Call(RANDOM, name, [made], kernel));
  return made;
}

/** `x * scale + shift`, in place. */
export function spread(x: Operand, shift: number, scale: number): Operand {
  if (scale !== 1) apply(MAP.mul, x, scale, undefined, { out: x });
  if (shift !== 0) apply(MAP.add, x, shift, undefined, { out: x });
  return x;
}

type Generated = Omit<CreateAttributes, "key" | "shape"> & { readonly shape: unknown };

/** A random tensor; throws the errors of the function `name`. */
export function generate(name: string, of: Key, kinds: string, attributes: Generated): Operand {
  const key = words(of, name);
  const { dtype } = attributes;
  checkDType(dtype, name);
  if (!kinds.includes(DTYPE[dtype].kind)) {
    throw new DTypeError(`Cannot make random ${name} of ${dtype}`);
  }
  const shape = checkShape(attributes.shape, name);
  return applyCreate(RANDOM_TENSOR, { ...attributes, shape, key }, name);
}

/** Throws unless all `values` are finite in a float `dtype`. */
export function checkFinite(op: string, dtype: DType, ...values: number[]): void {
  checkDType(dtype, op);
  const { kind, max } = DTYPE[dtype];
  if (kind === "f" && values.some((value) => Math.abs(value) > (max as number))) {
    throw new DTypeError(
      `Cannot make ${op} numbers of ${dtype}: ${values.join(", ")} are not all finite in it`,
    );
  }
}
