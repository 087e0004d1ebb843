/**
 * Exact int32 products of bytes, signed or not, with zero points: of rows of the left matrix, and of
 * columns of the right one, which is packed once.
 *
 * @module
 */
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import { DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape, sizeOf } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkOperand } from "../../table/infer.ts";
import { type Call, type Input, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { doNotFit, matmul } from "../matmul/op.ts";
import { GROUP_ROWS } from "../quantized/groups.ts";

/** The bytes of an int32 of each column of a group. */
export const BYTES_PART = 4 * GROUP_ROWS;

/**
 * The bytes before the words of a group. Parts are the sums of the columns, their zero points, and the
 * largest sums of the sizes of bytes 2 i and 2 i + 1.
 */
export const BYTES_HEAD = 3 * BYTES_PART;

/** The most that such a sum may be, so that 255 times it fits 16 bits. */
export const MOST_PAIR = 128;

/** The bytes of a group of columns of `depth` rows: the head, then words of four rows. */
export function bytesGroup(depth: number): number {
  return BYTES_HEAD + 4 * GROUP_ROWS * Math.ceil(depth / 4);
}

/** How sums become bytes: round(sum · factor) + zero, from low to high. */
export interface ByteOutput {
  readonly dtype: "int8" | "uint8";
  readonly zero: number;
  readonly low: number;
  readonly high: number;
}

/** {@link ByteOutput} with the factors of N channels, float32 and finite, and perhaps their bias, int32. */
export interface Requantization {
  readonly to: ByteOutput;
  readonly factors: Operand;
  readonly bias?: Operand | undefined;
}

/** Attributes of ops whose sums may become bytes. */
export interface ByteOutputAttributes {
  readonly to?: ByteOutput | undefined;
}

/** The dtype of sums that may become bytes; throws unless there is one factor of each channel. */
export function sumsDType(call: Call, channels: number): DTypeInfo {
  const { inputs: [, , , bias, factors], name } = call;
  const { to } = call.attributes as ByteOutputAttributes;
  if (to === undefined) return DTYPE.int32;
  const fits = (x: Input, dtype: DTypeInfo): boolean => {
    checkOperand(x, name);
    checkDevice(call.operand(0).storage, x.storage, name);
    return x.storage.info === dtype && x.layout.size === channels;
  };
  if (fits(factors, DTYPE.float32) && (bias === undefined || fits(bias, DTYPE.int32))) {
    return DTYPE[to.dtype];
  }
  throw new ShapeError(
    `Cannot ${name} to ${to.dtype}: it takes ${channels} factors of float32, and as many int32 as bias`,
  );
}

/** Sums as the result of a call; factors and bias have the shape `channels`. */
export function finishSums(call: Call, sums: Operand, channels: readonly number[]): Operand {
  const { to } = call.attributes as ByteOutputAttributes;
  if (to === undefined) return sums;
  const { inputs: [, , , bias, factors] } = call;
  const own = (x: Input): Operand =>
    applyView(VIEWS.reshape, x as Operand, "reshape", [...channels]);
  const moved = bias === undefined ? sums : apply(MAP.add, sums, own(bias));
  const scaled = apply(MAP.round, apply(MAP.mul, cast(moved, "float32"), own(factors)));
  return cast(apply(MAP.clip, apply(MAP.add, scaled, to.zero), to.low, to.high), to.dtype);
}

/** The inputs of a call whose sums may become bytes. */
export function withOutput(inputs: Input[], output: Requantization | undefined): Input[] {
  if (output === undefined) return inputs.at(-1) === undefined ? inputs.slice(0, -1) : inputs;
  return [...inputs, output.bias, output.factors];
}

/** Throws a DTypeError for elements that are not bytes. */
export function checkBytes(x: Input, name: string): asserts x is Operand {
  checkOperand(x, name);
  const { info } = x.storage;
  if (info === DTYPE.int8 || info === DTYPE.uint8) return;
  throw new DTypeError(`Cannot ${name} ${info.name}: it takes int8 and uint8`);
}

function checkZeros(x: Operand, zeros: Input, count: number, name: string): void {
  if (zeros === undefined) return;
  checkOperand(zeros, name);
  checkDevice(x.storage, zeros.storage, name);
  if (zeros.storage.info === DTYPE.int32 && zeros.layout.size === count) return;
  throw new ShapeError(
    `Cannot ${name} with zero points of ${zeros.storage.info.name} and shape ${
      formatShape(zeros.layout.shape)
    }: they are ${count} of int32`,
  );
}

/** Inputs: bytes [K, N], and perhaps their zero points, int32 [N]. Gives groups of columns, int8. */
const PACK_BYTES: Op = makeOp({
  kind: "kernel",
  name: "packBytes",
  contiguous: [0, 1],
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [b, zeros], name } = call;
    checkBytes(b, name);
    const { shape } = b.layout;
    if (shape.length !== 2) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(shape)}: it takes a matrix of shape [K, N]`,
      );
    }
    const [depth, columns] = shape as [number, number];
    checkZeros(b, zeros, columns, name);
    return call.result([Math.ceil(columns / GROUP_ROWS), bytesGroup(depth)], DTYPE.int8);
  },
});

/** The sizes of a packed matrix: K and N. */
export interface BytesSizes {
  readonly depth: number;
  readonly columns: number;
}

/** See {@link unpackBytes}. */
const UNPACK_BYTES: Op = makeOp({
  kind: "kernel",
  name: "unpackBytes",
  contiguous: [0],
  infer(call: Call): readonly OutputSpec[] {
    const { depth, columns } = call.attributes as BytesSizes;
    return call.result([depth, columns], DTYPE.int32);
  },
});

/** The numbers of a packed matrix less their zero points, int32 [K, N]. */
export function unpackBytes(name: string, groups: Operand, sizes: BytesSizes): Operand {
  return dispatch(UNPACK_BYTES, [groups], sizes, undefined, name);
}

/**
 * Inputs: bytes [..., K], groups of packBytes, and perhaps zero points of rows, int32 [...], and for bytes as
 * results a bias and factors.
 */
const MATMUL_BYTES: Op = makeOp({
  kind: "kernel",
  name: "matmulBytes",
  outOffset: true,
  contiguous: [0, 1, 2, 3, 4],
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [a, groups, zeros], name } = call;
    checkBytes(a, name);
    checkOperand(groups, name);
    checkDevice(a.storage, groups.storage, name);
    const { depth, columns } = call.attributes as BytesSizes;
    const { shape } = a.layout;
    if (shape.at(-1) !== depth) {
      throw new ShapeError(
        `Cannot ${name} shape ${formatShape(shape)} by a packed matrix of shape ${
          formatShape([depth, columns])
        }`,
      );
    }
    checkZeros(a, zeros, sizeOf(shape.slice(0, -1)), name);
    return call.result([...shape.slice(0, -1), columns], sumsDType(call, columns));
  },
  decompose(call: Call): Operand {
    const { inputs: [, groups, zeros], attributes, name } = call;
    const a = call.operand(0);
    let rows = cast(a, "int32");
    if (zeros !== undefined) {
      const column = [...a.layout.shape.slice(0, -1), 1];
      rows = apply(
        MAP.sub,
        rows,
        applyView(VIEWS.reshape, zeros as Operand, "reshape", column),
      );
    }
    const sizes = attributes as BytesSizes;
    const matrix = unpackBytes(name, groups as Operand, sizes);
    return finishSums(call, matmul(rows, matrix, { dtype: "int32" }), [sizes.columns]);
  },
});

/** A matrix of bytes [K, N] with its zero points, packed for {@link matmulInteger}. */
export interface PackedBytes extends BytesSizes {
  readonly groups: Operand;
}

/** Zero points as int32 of `shape`; of one number, or of that shape with further axes of 1. */
function zerosFor(zeros: Operand | undefined, shape: readonly number[]): Operand | undefined {
  if (zeros === undefined) return undefined;
  const wide = cast(zeros, "int32");
  const { size } = wide.layout;
  const flat = applyView(VIEWS.reshape, wide, "reshape", [size]);
  const [rows] = shape.slice(-1);
  const whole = size === sizeOf(shape) && size !== rows
    ? applyView(VIEWS.reshape, flat, "reshape", [...shape])
    : flat;
  return contiguousCopy(applyView(VIEWS.broadcastTo, whole, "broadcastTo", [...shape]));
}

/** Packs a matrix of bytes [K, N] with zero points: one, or [N]. */
export function packBytes(name: string, b: Operand, zeros?: Operand): PackedBytes {
  return tidy(() => {
    checkBytes(b, name);
    const [depth = 0, columns = 0] = b.layout.shape;
    const own = zerosFor(zeros, [columns]);
    const inputs: Input[] = own === undefined ? [b] : [b, own];
    return { groups: dispatch(PACK_BYTES, inputs, undefined, undefined, name), depth, columns };
  });
}

/**
 * The exact int32 product of bytes a [..., M, K] and b [K, N], packed or not, or [..., K, N], each less its
 * zero points: one or [M] of a, one or [N] of b.
 */
export function matmulInteger(
  name: string,
  a: Operand,
  b: Operand | PackedBytes,
  zerosOfA?: Operand,
  zerosOfB?: Operand,
  output?: Requantization,
): Operand {
  return tidy(() => {
    checkBytes(a, name);
    const isPacked = "groups" in b;
    if (!isPacked) checkBytes(b, name);
    const rows = a.layout.shape.slice(0, -1);
    if (rows.length === 0) {
      const layout = isPacked ? b.groups.layout : b.layout;
      throw doNotFit(name, a.layout, layout, "it takes a: [..., M, K] and b: [..., K, N]");
    }
    const zeros = zerosFor(zerosOfA, rows);
    if (isPacked || b.layout.shape.length === 2) {
      const { groups, depth, columns } = isPacked ? b : packBytes(name, b, zerosOfB);
      const sizes: BytesSizes & ByteOutputAttributes = { depth, columns, to: output?.to };
      const inputs = withOutput([a, groups, zeros], output);
      return dispatch(MATMUL_BYTES, inputs, sizes, undefined, name);
    }
    const less = (x: Operand, by: Operand | undefined, shape: readonly number[]): Operand => {
      const wide = cast(x, "int32");
      if (by === undefined) return wide;
      return apply(MAP.sub, wide, applyView(VIEWS.reshape, by, "reshape", [...shape]));
    };
    const columns = b.layout.shape.at(-1)!;
    return matmul(
      less(a, zeros, [...rows, 1]),
      less(b, zerosFor(zerosOfB, [columns]), [1, columns]),
      { dtype: "int32" },
    );
  });
}
