/**
 * Numbers spaced evenly, also on a logarithmic scale.
 *
 * @module
 */
import { checkDType, DTYPE, type DType, isInt } from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { ArgumentError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { checkShape } from "../../base/shape.ts";
import { applyCreate } from "../../core/apply.ts";
import { memoryOf } from "../../core/dispatch.ts";
import { wrap } from "../../core/handles.ts";
import { sendTo } from "../../memory/device.ts";
import { writeElement } from "../../memory/element.ts";
import type { Operand } from "../../memory/operand.ts";
import { allocate } from "../../memory/pool.ts";
import { checkOptions } from "../../table/infer.ts";
import { type Call, type CreateOp, makeOp, type OutputSpec } from "../../table/op.ts";
import type { CreateOptions } from "../../tensor/create.ts";
import { spaced } from "../../ops/create/ranges.ts";
import type { Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";

interface Attributes {
  /** Exponents of the base. */
  readonly start: number;
  readonly stop: number;
  readonly count: number;
  readonly endpoint: boolean;
  readonly base: number;
  /** The exact ends of a geometric space, and the sign of all. */
  readonly first?: number | undefined;
  readonly last?: number | undefined;
  readonly sign?: number | undefined;
  readonly dtype: DType;
  readonly device?: string | undefined;
}

const LOGSPACE: CreateOp = makeOp({
  kind: "create",
  name: "logspace",
  infer({ attributes, name }: Call): readonly OutputSpec[] {
    const { count, dtype } = attributes as Attributes;
    return [{ shape: checkShape([count], name), dtype: DTYPE[dtype] }];
  },
  create(attributes: unknown, name: string): Operand {
    const { start, stop, count, endpoint, base, first, last, sign = 1, dtype, device } =
      attributes as Attributes;
    const memory = memoryOf(device, `${name} on`);
    checkShape([count], name);
    const gaps = Math.max(1, endpoint ? count - 1 : count);
    const integers = isInt(dtype);
    const storage = allocate(dtype, count, false);
    for (let i = 0; i < count; i++) {
      const isLast = endpoint && i === count - 1 && i > 0;
      const exponent = isLast ? stop : start + i * ((stop - start) / gaps);
      const value = i === 0 && first !== undefined
        ? first
        : isLast && last !== undefined
        ? last
        : sign * base ** exponent;
      writeElement(storage, i, integers ? Math.trunc(value) : value);
    }
    return wrap(sendTo(memory, storage), Layout.contiguous([count]));
  },
});

/** Options of `logspace` and `geomspace`. */
export interface SpaceOptions<E extends DType, V extends t.Device> extends CreateOptions<E, V> {
  /** Whether the last number is `stop`; true. */
  readonly endpoint?: boolean;
}

const SPACE_OPTIONS = ["endpoint", "dtype", "device"];

function checkFinite(name: string, ...values: unknown[]): void {
  for (const value of values) {
    if (typeof value !== "number" || !Number.isFinite(value)) {
      throw new ArgumentError(`${name}() needs finite numbers, got ${describe(value)}`);
    }
  }
}

/**
 * `count` numbers from `start` to `stop`, evenly spaced; float32 by default. With `endpoint` false,
 * `stop` itself is excluded. Integer dtypes round down, as in NumPy.
 *
 * @throws {DTypeError} For a number that the dtype does not hold.
 *
 * @example
 * ```ts
 * linspace(0, 1, 5).toArray(); // => [0, 0.25, 0.5, 0.75, 1]
 * linspace(-1, 1, 4, { dtype: "int32" }).toArray(); // => [-1, -1, 0, 1]
 * ```
 */
export function linspace<
  const N extends number,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  start: number,
  stop: number,
  count: N,
  options?: CreateOptions<E, V> & { readonly endpoint?: boolean },
): Tensor<NoInfer<E>, [N], t.OnDevice<NoInfer<V>>>;
export function linspace(
  start: number,
  stop: number,
  count: number,
  options: CreateOptions<DType, t.Device> & { readonly endpoint?: boolean } = {},
): Operand {
  checkOptions("linspace", options, SPACE_OPTIONS);
  const { endpoint = true, dtype = "float32", device } = options;
  checkDType(dtype, "linspace");
  return spaced({ start, stop, count, endpoint, dtype, device });
}

/**
 * `count` numbers from base ** start to base ** stop, whose logarithms are evenly spaced; float32 by
 * default. Integer dtypes truncate, as in NumPy.
 *
 * @example
 * ```ts
 * logspace(0, 3, 4).toArray(); // => [1, 10, 100, 1000]
 * logspace(0, 3, 4, { base: 2 }).toArray(); // => [1, 2, 4, 8]
 * ```
 */
export function logspace<
  const N extends number,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  start: number,
  stop: number,
  count: N,
  options?: SpaceOptions<E, V> & { readonly base?: number },
): Tensor<NoInfer<E>, [N], t.OnDevice<NoInfer<V>>>;
export function logspace(
  start: number,
  stop: number,
  count: number,
  options: SpaceOptions<DType, t.Device> & { readonly base?: number } = {},
): Operand {
  const name = "logspace";
  checkOptions(name, options, ["base", ...SPACE_OPTIONS]);
  const { base = 10, endpoint = true, dtype = "float32", device } = options;
  checkFinite(name, start, stop, base);
  checkDType(dtype, name);
  return applyCreate(LOGSPACE, { start, stop, count, endpoint, base, dtype, device });
}

/**
 * `count` numbers from `start` to `stop`, each the same multiple of the one before; float32 by default.
 * Integer dtypes truncate, as in NumPy.
 *
 * @throws {ArgumentError} For 0, and numbers of different signs.
 *
 * @example
 * ```ts
 * geomspace(1, 8, 4).toArray(); // => [1, 2, 4, 8]
 * ```
 */
export function geomspace<
  const N extends number,
  E extends DType = "float32",
  V extends t.Device = "cpu",
>(
  start: number,
  stop: number,
  count: N,
  options?: SpaceOptions<E, V>,
): Tensor<NoInfer<E>, [N], t.OnDevice<NoInfer<V>>>;
export function geomspace(
  start: number,
  stop: number,
  count: number,
  options: SpaceOptions<DType, t.Device> = {},
): Operand {
  const name = "geomspace";
  checkOptions(name, options, SPACE_OPTIONS);
  const { endpoint = true, dtype = "float32", device } = options;
  checkFinite(name, start, stop);
  checkDType(dtype, name);
  if (start === 0 || stop === 0 || (start < 0) !== (stop < 0)) {
    throw new ArgumentError(
      `${name}() needs two numbers of one sign, and not 0, got ${start} and ${stop}`,
    );
  }
  const attributes: Attributes = {
    start: Math.log10(Math.abs(start)),
    stop: Math.log10(Math.abs(stop)),
    count,
    endpoint,
    base: 10,
    first: start,
    last: stop,
    sign: Math.sign(start),
    dtype,
    device,
  };
  return applyCreate(LOGSPACE, attributes, name);
}
