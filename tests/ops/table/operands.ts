/**
 * Operands in every layout, their elements as lists, and values to fill them with.
 *
 * Reads and writes storages element by element, without any op. Knows nothing of ops.
 *
 * @module
 */
import { DTYPE, type DType, type Scalar, type TypedArray } from "../../../src/base/dtype.ts";
import { memoryOf } from "../../../src/core/dispatch.ts";
import type { Operand } from "../../../src/memory/operand.ts";
import { readElement, writeElement } from "../../../src/memory/element.ts";
import { Layout } from "../../../src/base/layout.ts";
import { download, sendTo } from "../../../src/memory/device.ts";
import { allocate, wrapExternal } from "../../../src/memory/pool.ts";
import type { Storage } from "../../../src/memory/storage.ts";
import type { Device } from "../../../src/types/mod.ts";

/** An element as {@link readElement} returns it. */
export type Num = number | bigint;

/** The arrangement of an operand in its buffer; the default is dense and row-major. */
export interface View {
  /** The axes from the outermost in memory to the innermost. */
  readonly order?: readonly number[];
  /** The step along each axis, in elements of the parent; may be negative. */
  readonly step?: readonly number[];
  /** The axes along which the stride is 0. */
  readonly stretch?: readonly number[];
}

/** The device of operands of {@link place}. */
export const site: { device: Device } = { device: "cpu" };

/** `storage`, filled on the CPU, moved to the device of operands. */
export function sent(storage: Storage): Storage {
  return sendTo(memoryOf(site.device, "put an operand on"), storage);
}

/** A copy of `storage` on the CPU; `storage` itself if it is there. */
export function fetched(storage: Storage): Storage {
  const { info, length, memory } = storage;
  return memory === null ? storage : wrapExternal(info.name, download(storage, 0, length));
}

/** An operand on `storage`, as ops take it. */
export function operand(storage: Storage, layout: Layout): Operand {
  return { storage, layout, flags: 0 };
}

/** All elements of the storage of `x`. */
export function wholeOf({ storage }: Operand): Operand {
  return operand(storage, Layout.contiguous([storage.length]));
}

/** The number of elements of `shape`. */
export function sizeOf(shape: readonly number[]): number {
  return shape.reduce((n, size) => n * size, 1);
}

/** The layout of `shape` that `view` describes, and the length of the buffer it needs. */
export function arrange(shape: readonly number[], view: View): [layout: Layout, length: number] {
  const order = view.order ?? shape.map((_, axis) => axis);
  const strides: number[] = new Array(shape.length).fill(0);
  let stride = 1;
  let offset = view.step === undefined ? 0 : 3;
  for (const axis of order.toReversed()) {
    if (view.stretch?.includes(axis)) continue;
    const step = view.step?.[axis] ?? 1;
    strides[axis] = stride * step;
    if (step < 0) offset += (shape[axis]! - 1) * stride * -step;
    stride *= Math.max(1, shape[axis]! * Math.abs(step) + (step === 1 ? 0 : 1));
  }
  return [new Layout(shape, strides, sizeOf(shape) === 0 ? 0 : offset), stride + offset + 2];
}

/**
 * Stores `values`, in row-major order, in memory as `view` describes, among other values of theirs.
 */
export function place(
  dtype: DType,
  shape: readonly number[],
  values: readonly Scalar[],
  view: View = {},
): Operand {
  const [layout, length] = arrange(shape, view);
  const storage = allocate(dtype, layout.contiguous ? layout.offset + layout.size : length, false);
  let own = filled.get(values);
  if (own === undefined && repeated.has(values)) filled.set(values, own = new Map());
  const key = own && `${dtype} ${layout.shape} ${layout.strides} ${layout.offset}`;
  const array = own?.get(key!);
  if (array !== undefined) storage.array.set(array as never);
  else {
    if (!layout.contiguous) {
      for (let i = 0; i < length; i++) {
        writeElement(storage, i, values[(i * 7 + 3) % values.length] ?? 1);
      }
    }
    positions(layout).forEach((at, i) => writeElement(storage, at, values[i]!));
    own?.set(key!, storage.array.slice());
  }
  return operand(sent(storage), layout);
}

const repeated = new WeakSet<readonly Scalar[]>();
/** The buffers of {@link place} of the lists that many cases place. */
const filled = new Map<readonly Scalar[], Map<string, TypedArray>>();

/** `values`, which never change and which many cases place: their buffers are kept. */
export function often<T extends readonly Scalar[]>(values: T): T {
  repeated.add(values);
  return values;
}

/** Drops samples and buffers: other ops have others, and the collector would visit all of them. */
export function forget(): void {
  filled.clear();
  samples.clear();
}

/** The positions of the elements of `layout`, in row-major order; broadcast to `shape`. */
export function positions(layout: Layout, shape: readonly number[] = layout.shape): number[] {
  const missing = shape.length - layout.shape.length;
  const strides = shape.map((size, axis) => {
    const own = axis - missing;
    return own < 0 || (layout.shape[own] === 1 && size !== 1) ? 0 : layout.strides[own]!;
  });
  return spread(shape, strides, layout.offset);
}

/** The positions that `strides` give to the elements of `shape`, in row-major order. */
export function spread(
  shape: readonly number[],
  strides: readonly number[],
  offset: number,
): number[] {
  const at: number[] = new Array(sizeOf(shape)).fill(offset);
  if (at.length === 0) return at;
  let count = 1;
  for (const [axis, size] of shape.entries()) {
    // From the last one, so that none is overwritten before it is spread.
    for (let k = count - 1; k >= 0; k--) {
      const from = at[k]!;
      for (let i = size - 1; i >= 0; i--) at[k * size + i] = from + i * strides[axis]!;
    }
    count *= size;
  }
  return at;
}

/** The elements of `x` in row-major order, broadcast to `shape`. */
export function read(x: Operand, shape: readonly number[] = x.layout.shape): Num[] {
  const storage = fetched(x.storage);
  return positions(x.layout, shape).map((at) => readElement(storage, at));
}

/** Notes the bytes of `x`'s buffer; the result throws if any changed outside `x`. */
export function guard(x: Operand): () => void {
  const bytes = (): Uint8Array => {
    const { buffer, byteOffset, byteLength } = fetched(x.storage).array as Uint8Array;
    return new Uint8Array(buffer, byteOffset, byteLength).slice();
  };
  const before = bytes();
  const size = x.storage.info.bytes;
  const own = new Set(positions(x.layout));
  return () => {
    const after = bytes();
    for (let i = 0; i < after.length; i++) {
      if (after[i] !== before[i] && !own.has(Math.floor(i / size))) {
        throw new Error(`element ${Math.floor(i / size)}, which is outside the view, was written`);
      }
    }
  };
}

/** Numbers in [0, 1) that depend on `seed` alone. */
export function generator(seed: number): () => number {
  let state = seed * 2654435761 >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const SMALLEST: { readonly [D in DType]?: number } = {
  float16: 2 ** -24,
  bfloat16: 2 ** -133,
  float32: 2 ** -149,
  float64: 2 ** -1074,
};

/** The values of a dtype at which ops go wrong. */
export function specials(dtype: DType): Num[] {
  const { kind, wide, bytes, min, max } = DTYPE[dtype];
  if (kind === "b") return [0, 1];
  if (kind === "f") {
    const tiny = SMALLEST[dtype]!;
    return [NaN, Infinity, -Infinity, 0, -0, tiny, -tiny, 3 * tiny, max, min, 1, -1, 0.5, 2.5];
  }
  const values = [0, 1, 2, 3, 7, bytes * 8 - 1, bytes * 8, ...(kind === "i" ? [-1, -2] : [])];
  if (!wide) return [...values, min, max, Number(max) - 1];
  const beyond = 2n ** 53n + 1n;
  return [
    ...values.map(BigInt),
    min,
    max,
    BigInt(max) - 1n,
    beyond,
    2n ** 32n + 5n,
    kind === "i" ? -beyond : beyond,
  ];
}

const samples = new Map<string, readonly Num[]>();
/** The longest samples to keep. */
const MOST_KEPT = 4096;

/** `n` values of `dtype`: from `domain`, and with `special` every third a special one. */
export function sample(
  dtype: DType,
  domain: readonly [number, number],
  n: number,
  seed: number,
  special = true,
): readonly Num[] {
  if (n > MOST_KEPT) return draw(dtype, domain, n, seed, special);
  const key = `${dtype} ${domain} ${n} ${seed} ${special}`;
  let values = samples.get(key);
  if (values === undefined) samples.set(key, values = often(draw(dtype, domain, n, seed, special)));
  return values;
}

function draw(
  dtype: DType,
  domain: readonly [number, number],
  n: number,
  seed: number,
  special: boolean,
): Num[] {
  const { kind, wide, min, max } = DTYPE[dtype];
  const random = generator(seed + DTYPE[dtype].id * 101 + 1);
  const odd = specials(dtype);
  return Array.from({ length: n }, (_, i) => {
    if (special && i % 3 === 1) return odd[Math.floor(random() * odd.length)]!;
    if (kind === "b") return random() < 0.5 ? 0 : 1;
    if (kind === "f") return domain[0] + random() * (domain[1] - domain[0]);
    const low = Math.max(Math.ceil(domain[0]), Number(min));
    const high = Math.min(domain[1], Number(max));
    const value = low + Math.floor(random() * (high - low + 1));
    return wide ? BigInt(value) : value;
  });
}
