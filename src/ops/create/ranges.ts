/**
 * Evenly spaced numbers: the ops of arange and linspace.
 *
 * @module
 */
import {
  checkScalar,
  DTYPE,
  type DType,
  type DTypeInfo,
  isInt,
  type TypedArray,
} from "../../base/dtype.ts";
import { describe } from "../../base/text.ts";
import { IndexError, ShapeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { checkShape } from "../../base/shape.ts";
import { apply, applyCreate } from "../../core/apply.ts";
import { memoryOf } from "../../core/dispatch.ts";
import { tidy, wrap } from "../../core/handles.ts";
import { writeElement } from "../../memory/element.ts";
import type { Operand } from "../../memory/operand.ts";
import { sendTo } from "../../memory/device.ts";
import { allocate } from "../../memory/pool.ts";
import type { DeviceMemory, Storage } from "../../memory/storage.ts";
import { type Call, type CreateOp, makeOp, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";

/** Attributes of arange. */
interface RangeAttributes {
  readonly start: unknown;
  readonly stop: unknown;
  readonly step: unknown;
  readonly dtype: DType;
  readonly device?: string | undefined;
}

/** The number of values from `start` to `stop`. */
function rangeLength({ start, stop, step }: RangeAttributes, name: string): number {
  checkFinite(name, start);
  checkFinite(name, stop);
  checkFinite(name, step);
  if (step === 0) throw new IndexError(`Cannot ${name} by step 0`);
  const length = Math.max(0, Math.ceil((stop - start) / step));
  checkShape([length], name);
  return length;
}

/** The same for bigints. */
function bigRangeLength({ start, stop, step }: RangeAttributes): number {
  for (const value of [start, stop, step]) {
    if (typeof value !== "bigint") {
      throw new ShapeError(
        `Cannot arange with ${describe(value)} beside a bigint: expected bigints only`,
      );
    }
  }
  const [from, to, by] = [start, stop, step] as [bigint, bigint, bigint];
  if (by === 0n) throw new IndexError("Cannot arange by step 0n");
  const gap = to - from;
  // Division of bigints truncates; a partial last step counts as one.
  const steps = gap / by + (gap % by === 0n ? 0n : 1n);
  const length = (gap < 0n) === (by < 0n) ? Number(steps) : 0;
  checkShape([length], "arange");
  return length;
}

/** Numbers or bigints from `start` up to but not including `stop`, `step` apart. */
const ARANGE: CreateOp = makeOp({
  kind: "create",
  name: "arange",
  infer({ attributes, name }: Call): readonly OutputSpec[] {
    const range = attributes as RangeAttributes;
    const length = typeof range.start === "bigint"
      ? bigRangeLength(range)
      : rangeLength(range, name);
    return [{ shape: [length], dtype: DTYPE[range.dtype] }];
  },
  create(attributes: unknown, name: string): Operand {
    const range = attributes as RangeAttributes;
    const { start, step, dtype } = range;
    const memory = memoryOf(range.device, `${name} on`);
    if (typeof start === "bigint") {
      const length = bigRangeLength(range);
      return bigRange(length, start, step as bigint, dtype, memory);
    }
    const length = rangeLength(range, name);
    const [from, by] = [start as number, step as number];
    return ramp(length, (i) => from + i * by, by, dtype, memory, name);
  },
});

/** Evenly spaced numbers, `step` apart. */
export function rangeOf(attributes: RangeAttributes): Operand {
  return applyCreate(ARANGE, attributes);
}

/** Attributes of linspace. */
interface LinspaceAttributes {
  readonly start: number;
  readonly stop: number;
  readonly count: number;
  readonly endpoint: boolean;
  readonly dtype: DType;
  readonly device?: string | undefined;
}

/** `count` numbers from `start` to `stop`. */
const LINSPACE: CreateOp = makeOp({
  kind: "create",
  name: "linspace",
  infer({ attributes, name }: Call): readonly OutputSpec[] {
    const { count, dtype } = attributes as LinspaceAttributes;
    return [{ shape: checkShape([count], name), dtype: DTYPE[dtype] }];
  },
  create(attributes: unknown, name: string): Operand {
    const { start, stop, count, endpoint, dtype, device } = attributes as LinspaceAttributes;
    const memory = memoryOf(device, `${name} on`);
    checkShape([count], name);
    checkFinite(name, start);
    checkFinite(name, stop);
    const gaps = Math.max(1, endpoint ? count - 1 : count);
    const step = (stop - start) / gaps;
    const finite = Number.isFinite(step), integers = isInt(dtype);
    const at = (i: number): number => {
      const number = endpoint && i === count - 1 && i > 0
        ? stop
        : finite
        ? start + i * step
        : start * (1 - i / gaps) + stop * (i / gaps);
      return integers ? Math.floor(number) : number;
    };
    return ramp(count, at, finite && !integers ? step : undefined, dtype, memory, name);
  },
});

/** `count` evenly spaced numbers. */
export function spaced(attributes: LinspaceAttributes): Operand {
  return applyCreate(LINSPACE, attributes);
}

function bigRange(
  length: number,
  start: bigint,
  step: bigint,
  dtype: DType,
  memory: DeviceMemory | null,
): Operand {
  const last = start + BigInt(Math.max(0, length - 1)) * step;
  if (length > 0) { for (const end of [start, last]) checkScalar(dtype, end, "arange"); }
  const storage = allocate(dtype, length, false);
  for (let i = 0, value = start; i < length; i++, value += step) writeElement(storage, i, value);
  return wrap(sendTo(memory, storage), Layout.contiguous([length]));
}

function checkFinite(op: string, value: unknown): asserts value is number {
  if (typeof value !== "number" || !Number.isFinite(value)) {
    throw new ShapeError(`Cannot ${op} with ${describe(value)}: expected a finite number`);
  }
}

/**
 * `start + i * step` for each i. Engines generate fast code for loops that see one kind of array.
 */
function line(array: TypedArray, length: number, start: number, step: number): void {
  if (array instanceof Float32Array) {
    for (let i = 0; i < length; i++) array[i] = start + i * step;
  } else if (array instanceof Float64Array) {
    for (let i = 0; i < length; i++) array[i] = start + i * step;
  } else if (array instanceof Int32Array) {
    for (let i = 0; i < length; i++) array[i] = start + i * step;
  } else for (let i = 0; i < length; i++) (array as Int16Array)[i] = start + i * step;
}

/** True if an element of the storage's array can represent each of these numbers exactly. */
function holdsLine({ kind, bytes, min, max }: DTypeInfo, ends: number[], step: number): boolean {
  if (kind === "f") return bytes > 2;
  return (kind === "i" || kind === "u") && bytes <= 4 && Number.isSafeInteger(step) &&
    ends.every((end) => Number.isSafeInteger(end) && end >= min && end <= max);
}

/**
 * Lines from this length on are made of rows of this many elements, each the first row plus a
 * number.
 */
const LONG_LINE = 1 << 13;
const LINE_ROW = 1 << 10;

/**
 * {@link line} by a backend, if sums of whole numbers are exact; returns the number of elements
 * made.
 */
function longLine(storage: Storage, length: number, start: number, step: number): number {
  const { name, kind } = storage.info;
  const most = Math.abs(start) + Math.abs(step) * length;
  const whole = Number.isInteger(start) && Number.isInteger(step);
  const exact = kind !== "f" || most <= (name === "float32" ? 2 ** 24 : 2 ** 53);
  if (length < LONG_LINE || !whole || !exact) return 0;
  const rows = Math.floor(length / LINE_ROW);
  const make = (count: number, from: number, by: number, shape: number[]): Operand => {
    const part = allocate(name, count, false);
    line(part.array, count, from, by);
    return wrap(part, Layout.contiguous(shape));
  };
  const out = { storage, layout: Layout.contiguous([rows, LINE_ROW]), flags: 0 };
  tidy(() => {
    const row = make(LINE_ROW, start, step, [LINE_ROW]);
    const column = make(rows, 0, LINE_ROW * step, [rows, 1]);
    apply(MAP.add, column, row, undefined, { out });
  });
  return rows * LINE_ROW;
}

/** `at` of each i; with a `step` it is `start + i * step`, except for the last one. */
function ramp(
  length: number,
  at: (i: number) => number,
  step: number | undefined,
  dtype: DType,
  memory: DeviceMemory | null,
  op: string,
): Operand {
  const storage = allocate(dtype, length, false);
  const { info } = storage;
  if (step !== undefined && length > 0 && holdsLine(info, [at(0), at(length - 1)], step)) {
    const made = longLine(storage, length, at(0), step);
    line(storage.array.subarray(made), length - made, at(made), step);
    writeElement(storage, length - 1, at(length - 1));
  } else {
    for (let i = 0; i < length; i++) {
      const value = at(i);
      checkScalar(dtype, value, op);
      writeElement(storage, i, value);
    }
  }
  return wrap(sendTo(memory, storage), Layout.contiguous([length]));
}
