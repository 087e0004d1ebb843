/**
 * Ops on quantized numbers. Products of integers are exact.
 *
 * @module
 */
import { concat, stack, where } from "../../api/functions/tensors.ts";
import { DTYPE, type DType } from "../../base/dtype.ts";
import { formatShape, sizeOf } from "../../base/shape.ts";
import { Slice } from "../../base/slice.ts";
import { leakyRelu } from "../../nn/mod.ts";
import { convInteger, packConv } from "../../ops/conv/bytes.ts";
import {
  type ByteOutput,
  matmulInteger,
  packBytes,
  type Requantization,
} from "../../ops/linear/bytes.ts";
import { quantizeDynamic } from "../../ops/reduce/quantize_dynamic.ts";
import { linearNibbles, packNibbles } from "../../ops/linear/nibbles.ts";
import { full, tensor } from "../../tensor/create.ts";
import type { Call, Implementation } from "../graph/call.ts";
import { typeName } from "../graph/initializers.ts";
import { elementsOf, isKnownTensor, type T, type Value } from "../graph/values.ts";
import { attendFused, embedNorm } from "./attention.ts";
import { averagePool, maxPool, windowsOf } from "./convolutions.ts";

/** x as floats of a dtype, without a step where it has it. */
const floatsOf = (x: T, dtype: DType = "float32"): T =>
  x.dtype === dtype ? x : x.astype(dtype) as T;

/** A scale or zero point of a whole tensor: a number where it is known now. */
function alone(x: T): T | number {
  const own = x.dtype === "float16" || x.dtype === "bfloat16" ? floatsOf(x) : x;
  return isKnownTensor(own) ? Number(elementsOf(own)[0]) : own.reshape([]);
}

const isBytes = ({ dtype }: T): boolean => dtype === "int8" || dtype === "uint8";

/** A scale or zero point for each element of `x`: one, one along `axis`, or one for each block. */
function spread(call: Call, parameter: T, x: T, axis: number, block: number): T {
  if (parameter.size === 1) return parameter.reshape([]);
  if (parameter.rank === 1 && x.rank !== 1) {
    return parameter.reshape([parameter.size, ...Array<number>(x.rank - axis - 1).fill(1)]);
  }
  const n = x.shape[axis]!;
  if (parameter.shape[axis] === n) return parameter;
  const size = block > 0 ? block : Math.ceil(n / parameter.shape[axis]!);
  const all = parameter.repeat(size, axis) as T;
  if (all.shape[axis]! < n) call.failShape(`scales of shape ${formatShape(parameter.shape)}`);
  return all.shape[axis] === n ? all : all.sliceAxis(axis, new Slice(0, n));
}

const axisOf = (call: Call, x: T): number =>
  x.rank === 0 ? 0 : call.axis(call.node.int("axis", 1), Math.max(x.rank, 2)) % x.rank;

/** (x - zero) · scale of bytes, float32. */
function dequantized(x: T, scale: T, zero: T | undefined): T {
  const numbers: T = x.astype("float32");
  const by = zero === undefined ? 0 : alone(zero);
  const moved: T = by === 0
    ? numbers
    : numbers.sub(typeof by === "number" ? by : by.astype("float32"));
  const made: T = moved.mul(alone(scale));
  return made.dtype === "float32" ? made : made.astype("float32");
}

function dequantizeLinear(call: Call): readonly Value[] {
  const { node } = call;
  const x = call.tensor(0), scale = call.tensor(1), zero = call.optional(2);
  const axis = axisOf(call, x), block = node.int("block_size", 0);
  const type = node.int("output_dtype", 0);
  const dtype = type === 0 ? scale.dtype : typeName(type) as DType;
  if (scale.size === 1 && isBytes(x)) return [floatsOf(dequantized(x, scale, zero), dtype)];
  const own = (one: T): T => spread(call, one, x, axis, block);
  // Differences of integers are exact in int32, and in float32 up to 24 bits.
  const numbers: T = zero === undefined
    ? x.astype("float32")
    : x.astype("int32").sub(own(zero.astype("int32"))).astype("float32");
  return [numbers.mul(own(scale.astype("float32"))).astype(dtype)];
}

/** The limits of a type of integers. */
function limitsOf(type: string): readonly [low: number, high: number] {
  const match = /^(u?)int(\d+)$/.exec(type);
  const bits = Number(match?.[2] ?? 8);
  return match?.[1] === "u" ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1];
}

/** The dtype of tensors of a type of integers. */
const storedAs = (type: string): DType =>
  (/[24]$/.test(type) && !/\d\d$/.test(type) ? type.replace(/\d$/, "8") : type) as DType;

/** round(x / scale) + zero, within the limits of the type. */
function quantized(
  x: T,
  scale: T | number,
  zero: T | number | undefined,
  type: string,
  [low, high] = limitsOf(type),
): T {
  const floats = floatsOf(x);
  const rounded: T = (scale === 1 ? floats : floats.div(scale)).round();
  const by = typeof zero === "object" ? zero.astype("float32") : zero ?? 0;
  const moved: T = by === 0 ? rounded : rounded.add(by);
  return moved.clip(low, high).astype(storedAs(type)) as T;
}

function quantizeLinear(call: Call): readonly Value[] {
  const { node } = call;
  const x = call.tensor(0), scale = call.tensor(1), zero = call.optional(2);
  const axis = axisOf(call, x), block = node.int("block_size", 0);
  const type = node.int("output_dtype", 0);
  const name = type !== 0 ? typeName(type) : node.likeType ?? zero?.dtype ?? "uint8";
  if (!/int/.test(name)) call.failDType(`it quantizes to ${name}, expected integers`);
  const own = (one: T): T | number =>
    one.size === 1 ? alone(one) : spread(call, one, x, axis, block);
  return [quantized(x, own(floatsOf(scale)), zero && own(zero), name)];
}

/** x as uint8, with a scale and a zero point for all of it. */
function dynamically(call: Call): readonly [y: T, scale: T, zero: T] {
  const { bytes, scale, zero } = quantizeDynamic(call.node.op, call.tensor(0));
  return [bytes as T, scale as T, zero as T];
}

/** The numbers of `x` less its zero point: int32. */
function centered(x: T, zero: T | undefined): T {
  const wide: T = x.astype("int32");
  return zero === undefined ? wide : wide.sub(zero.astype("int32"));
}

/** A zero point for each row of the first operand of a product. */
const ofRows = (zero: T | undefined): T | undefined =>
  zero === undefined || zero.rank !== 1 || zero.size === 1
    ? zero?.size === 1 ? zero.reshape([]) : zero
    : zero.reshape([zero.size, 1]);

/** A zero point for each column of the second one. */
const ofColumns = (zero: T | undefined): T | undefined =>
  zero?.size === 1 ? zero.reshape([]) : zero;

/** The exact product of integers, as int32 or bytes, of inputs at these places. */
function integerProduct(
  call: Call,
  a: T,
  bAt: number,
  aZero: T | undefined,
  bZeroAt: number,
  { output, isTurned = false }: { output?: Requantization | undefined; isTurned?: boolean } = {},
): T {
  const given = call.tensor(bAt), bZero = call.optional(bZeroAt);
  const b = isTurned ? given.T as T : given;
  // Each matrix of a stack may have zero points of its own.
  const isStacked = bZero !== undefined && ![1, b.shape.at(-1)!].includes(bZero.size);
  if (b.rank === 1 || isStacked || ![a, b].every(isBytes)) {
    return centered(a, ofRows(aZero)).matmul(centered(b, ofColumns(bZero)));
  }
  if (a.rank === 1) {
    const row = a.reshape([1, a.size]) as T;
    return integerProduct(call, row, bAt, aZero, bZeroAt, { output, isTurned }).squeeze(-2) as T;
  }
  const name = "matmulInteger";
  // A turned weight is another one than the same without that: the places differ.
  const places = isTurned ? [bZeroAt, bAt] : [bAt, bZeroAt];
  const packed = b.rank === 2 ? call.prepare(places, () => packBytes(name, b, bZero)) : undefined;
  if (packed !== undefined) return matmulInteger(name, a, packed, aZero, undefined, output) as T;
  return matmulInteger(name, a, b, aZero, bZero, output) as T;
}

/** The exact convolution of integers of 8 bits, as int32 or bytes, of x and the weight at a place. */
function integerConv(
  call: Call,
  x: T,
  xZero: T | undefined,
  weightAt: number,
  zeroAt: number,
  output?: Requantization,
): T {
  const { node } = call;
  const name = node.op;
  const weight = call.tensor(weightAt), zero = call.optional(zeroAt);
  const { kernel: _, ...windows } = windowsOf(call, x.shape, weight.shape.slice(2));
  const packed = call.prepare([weightAt, zeroAt], () => packConv(name, weight, zero)) ??
    packConv(name, weight, zero);
  const attributes = { ...windows, groups: node.int("group", 1) };
  return convInteger(name, x, packed, xZero, attributes, output) as T;
}

/** What sums of products are multiplied by. */
interface Factors {
  readonly groups: T;
  readonly areFinite: boolean;
}

/** Where a call has scales and the zero point of its output, and how many channels there are. */
interface OutputPlaces {
  readonly scales: readonly [a: number, b: number, y: number];
  readonly zero: number;
  readonly channels: number;
}

/** The limits of a call's output: those of its type, or less where the node has an activation. */
function outputLimits({ node }: Call, type: string): readonly [low: number, high: number] {
  const [low, high] = limitsOf(type);
  return [node.float("lowest", low), node.float("highest", high)];
}

/** How the sums of a call become bytes in its kernel; undefined where scales are no constants. */
function requantization(
  call: Call,
  { scales, zero, channels }: OutputPlaces,
  bias: T | undefined,
): Requantization | undefined {
  const [a, b, y] = scales.map((k) => call.tensor(k)) as [T, T, T];
  const yZero = call.tensor(zero);
  const fits = a.size === 1 && y.size === 1 && yZero.size === 1 && call.knows(zero) &&
    isBytes(yZero) && call.node.likeType === undefined && [1, channels].includes(b.size) &&
    (bias === undefined ||
      bias.dtype === "int32" && bias.size === channels && bias.shape.at(-1) === channels);
  if (!fits) return undefined;
  const made = call.prepare(scales, (): Factors => {
    const [first, second, last] = [a, b, y].map((x) => x.astype("float32").flatten() as T);
    const groups = first!.mul(second!).div(last!).broadcastTo([channels]).copy() as T;
    return { groups, areFinite: groups.isfinite().all().item() as boolean };
  });
  if (made?.areFinite !== true || made.groups.size !== channels) return undefined;
  const dtype = yZero.dtype as ByteOutput["dtype"];
  const [low, high] = outputLimits(call, dtype);
  const to = { dtype, zero: Number(elementsOf(yZero)[0]), low, high };
  return { to, factors: made.groups, bias };
}

/** The product of quantized matrices with a bias, quantized where the call has a scale for that. */
function quantizedProduct(call: Call, biasAt: number, yAt: number): readonly Value[] {
  const { node } = call;
  const given = call.tensor(0), aScale = call.tensor(1), aZero = call.optional(2);
  const b = call.tensor(3), bScale = call.tensor(4);
  if (given.rank === 1) {
    const [rows] = quantizedProduct(call.with(0, given.reshape([1, given.size])), biasAt, yAt);
    return [(rows as T).flatten()];
  }
  const a: T = node.has("transA") && node.flag("transA") ? given.T as T : given;
  const isTurned = node.has("transB") && node.flag("transB");
  const alpha = node.has("alpha") ? node.float("alpha") : 1;
  const bias = call.optional(biasAt);
  const product = (output?: Requantization): T =>
    integerProduct(call, a, 3, aZero, 5, { output, isTurned });
  const hasScale = call.has(yAt);
  if (hasScale && call.has(yAt + 1) && alpha === 1 && b.rank === 2 && [a, b].every(isBytes)) {
    const channels = b.shape[isTurned ? 0 : 1]!;
    const places: OutputPlaces = { scales: [1, 4, yAt], zero: yAt + 1, channels };
    const output = requantization(call, places, bias);
    if (output !== undefined) return [product(output)];
  }
  let sums = product();
  const isFloat = !hasScale && bias?.dtype === "float32";
  if (bias !== undefined && !isFloat) sums = sums.add(bias) as T;
  const rows = ofRows(aScale.astype("float32"))!, columns = ofColumns(bScale.astype("float32"))!;
  const factor: T = alpha === 1 ? rows.mul(columns) : rows.mul(alpha).mul(columns);
  if (!hasScale) {
    const y: T = sums.astype("float32").mul(factor);
    return [isFloat ? y.add(bias) : y];
  }
  const yScale = call.tensor(yAt).astype("float32"), yZero = call.optional(yAt + 1);
  const y: T = sums.astype("float32").mul(factor.div(yScale));
  const type = node.likeType ?? yZero?.dtype ?? "uint8";
  return [quantized(y, 1, yZero, type, outputLimits(call, type))];
}

function qLinearConv(call: Call): readonly Value[] {
  const [x, xScale, wScale] = [call.tensor(0), call.tensor(1), call.tensor(4)];
  const xZero = call.optional(2), given = call.optional(8);
  const channels = call.tensor(3).shape[0]!;
  const isQuantized = call.has(6);
  const output = isQuantized
    ? requantization(call, { scales: [1, 4, 6], zero: 7, channels }, given)
    : undefined;
  if (output !== undefined) return [integerConv(call, x, xZero, 3, 5, output)];
  const ones = Array<number>(x.rank - 2).fill(1);
  let sums = integerConv(call, x, xZero, 3, 5);
  const bias = given?.reshape([given.size, ...ones]) as T | undefined;
  const isFloat = !isQuantized && bias?.dtype === "float32";
  if (bias !== undefined && !isFloat) sums = sums.add(bias) as T;
  const scale: T = wScale.size === 1 ? wScale.reshape([]) : wScale.reshape([wScale.size, ...ones]);
  const factor: T = xScale.reshape([]).mul(scale);
  if (!isQuantized) {
    const y: T = sums.astype("float32").mul(factor);
    return [isFloat ? y.add(bias) : y];
  }
  const yZero = call.tensor(7);
  const y: T = sums.astype("float32").mul(factor.div(call.tensor(6).reshape([])));
  return [quantized(y, 1, yZero.reshape([]), yZero.dtype, outputLimits(call, yZero.dtype))];
}

// ---- com.microsoft -----------------------------------------------------------------------------

/** A product of floats that are quantized first, by quantized weights. */
function dynamicMatMul(call: Call): readonly Value[] {
  const bScale = call.tensor(2);
  const [q, scale, zero] = dynamically(call);
  const sums = integerProduct(call, q, 1, zero, 3);
  const y: T = sums.astype("float32").mul(scale.mul(bScale));
  const bias = call.optional(4);
  return [bias === undefined ? y : y.add(bias)];
}

function matMulToFloat(call: Call): readonly Value[] {
  const [a, aScale, bScale] = [call.tensor(0), call.tensor(2), call.tensor(3)];
  const sums = integerProduct(call, a, 1, call.optional(4), 5);
  const y: T = sums.astype("float32").mul(ofRows(aScale)!.mul(bScale));
  const bias = call.optional(6);
  return [bias === undefined ? y : y.add(bias)];
}

/** The bytes of inputs k, k + 1 and k + 2 as floats. */
const floatsAt = (call: Call, k: number): T =>
  dequantized(call.tensor(k), call.tensor(k + 1), call.optional(k + 2));

/** Floats as bytes, by the scale k of the call and the zero point after it. */
function bytesBy(call: Call, y: T, k: number): readonly Value[] {
  const zero = call.optional(k + 1);
  return [quantized(y, alone(call.tensor(k)), zero && alone(zero), zero?.dtype ?? "uint8")];
}

/** An op of floats on `count` inputs of bytes, each with a scale and a zero point. */
const onBytes =
  (count: number, compute: (call: Call, ...x: T[]) => T): Implementation => (call) => {
    const inputs = Array.from({ length: count }, (_, k) => floatsAt(call, 3 * k));
    return bytesBy(call, compute(call, ...inputs), 3 * count);
  };

function qLinearConcat(call: Call): readonly Value[] {
  const count = Math.floor((call.inputs.length - 2) / 3);
  if (count < 1) call.fail(`it has ${call.inputs.length} inputs, expected 5 or more`);
  const parts = Array.from(
    { length: count },
    (_, k) => bytesBy(call, floatsAt(call, 2 + 3 * k), 0)[0] as T,
  );
  return [concat(parts, call.axis(call.node.int("axis", 0), parts[0]!.rank)) as T];
}

function qLinearWhere(call: Call): readonly Value[] {
  const parts = [1, 4].map((k) => bytesBy(call, floatsAt(call, k), 7)[0] as T) as [T, T];
  return [where(call.tensor(0).asDType("bool"), ...parts) as T];
}

/** The axes of images that means are of. */
const spaceOf = (call: Call, { rank }: T): number[] => {
  const first = call.node.int("channels_last", 0) === 1 ? 1 : 2;
  return Array.from({ length: rank - 2 }, (_, k) => first + k);
};

/** A function of images, for a call whose images may have their channels as the last axis. */
function onChannels(call: Call, x: T, compute: (x: T) => T): T {
  if (call.node.int("channels_last", 0) === 0) return compute(x);
  return compute(x.moveAxis(-1, 1) as T).moveAxis(1, -1) as T;
}

/** In opsets before 13, as the node says, softmax is of all axes from one on. */
function softmaxOf(call: Call, x: T | undefined): T {
  const axis = call.axis(call.node.int("axis", -1), x!.rank);
  if (call.node.int("opset", 13) >= 13) return x!.softmax(axis) as T;
  const rows = sizeOf(x!.shape.slice(0, axis));
  return x!.reshape([rows, x!.size / Math.max(rows, 1)]).softmax(-1).reshape([...x!.shape]) as T;
}

/** Attention whose projection is a product of integers. */
function qAttention(call: Call): readonly Value[] {
  const [x, bias, xScale, wScale] = [0, 2, 3, 4].map((k) => call.tensor(k)) as [T, T, T, T];
  const mask = call.optional(5);
  const sums = integerProduct(call, x, 1, call.optional(6), 7);
  const all: T = sums.astype("float32").mul(xScale.mul(wScale)).add(bias);
  return attendFused(call, all, mask, call.optional(8), undefined, call.node.int("num_heads"));
}

/** Rows of a table of bytes, whose scale and zero point are inputs of the call behind those of tables. */
const byteRows = (call: Call, k: number, ids?: T): T => {
  const table = call.tensor(k);
  const rows = ids === undefined ? table : table.take(ids, 0) as T;
  return dequantized(rows, call.tensor(k + 6), call.optional(k + 11));
};

/** The integers of `bits` bits in bytes, along the last axis, the first in the lowest bits. */
function unpacked(bytes: T, bits: number): T {
  if (bits === 8) return bytes;
  const parts = Array.from(
    { length: 8 / bits },
    (_, k) => (k === 0 ? bytes : bytes.bitwiseRightShift(k * bits)).bitwiseAnd(2 ** bits - 1) as T,
  );
  const { shape } = bytes;
  return (stack(parts, -1) as T).reshape([...shape.slice(0, -1), shape.at(-1)! * parts.length]);
}

/** The weight [N, K] of MatMulNBits: blocks of each row with a scale and a zero point. */
export function blockWeight(call: Call): T {
  const { node } = call;
  const [columns, depth] = [node.int("N"), node.int("K")];
  const bits = node.int("bits", 4), block = node.int("block_size");
  const blocks = Math.ceil(depth / block);
  const scales: T = call.tensor(2).astype("float32").reshape([columns, blocks, 1]);
  const numbers: T = unpacked(call.tensor(1).reshape([columns, blocks, block * bits / 8]), bits)
    .astype("float32");
  const given = call.optional(3);
  let zero: T;
  if (given === undefined) zero = full([], 2 ** (bits - 1));
  else if (given.dtype === "uint8") {
    // Rows of zero points end at a whole byte.
    const row = Math.ceil(blocks * bits / 8);
    zero = unpacked(given.reshape([columns, row]), bits).sliceAxis(1, new Slice(0, blocks))
      .astype("float32").reshape([columns, blocks, 1]);
  } else zero = given.astype("float32").reshape([columns, blocks, 1]);
  const order = call.optional(4);
  const all: T = numbers.sub(zero).mul(scales).reshape([columns, blocks * block]);
  const whole = blocks * block === depth ? all : all.sliceAxis(1, new Slice(0, depth));
  if (order === undefined) return whole;
  // Columns of K are of the groups that the file lists.
  const groups = order.sliceAxis(0, new Slice(0, depth));
  const own = (x: T): T => x.rank === 0 ? x : x.reshape([columns, blocks]).take(groups, 1) as T;
  const flat: T = numbers.reshape([columns, blocks * block]).sliceAxis(1, new Slice(0, depth));
  return flat.sub(own(zero)).mul(own(scales));
}

function matMulNBits(call: Call): readonly Value[] {
  const x = call.tensor(0), bias = call.optional(5);
  const bits = call.node.int("bits", 4), block = call.node.int("block_size");
  const isPacked = bits === 4 && [16, 32, 64, 128, 256].includes(block) && !call.has(4) &&
    x.dtype === "float32";
  if (isPacked) {
    const [b, scales, zeros] = [call.tensor(1), call.tensor(2), call.optional(3)];
    const sizes = { columns: call.node.int("N"), depth: call.node.int("K"), block };
    const name = "matmulNBits";
    const packed = call.prepare([1, 2, 3], () => packNibbles(name, b, scales, zeros, sizes));
    if (packed !== undefined) return [linearNibbles(name, x, packed, bias) as T];
  }
  const weight = blockWeight(call).astype(x.dtype) as T;
  return [bias === undefined ? x.linear(weight) as T : x.linear(weight, bias) as T];
}

/** The numbers of NF4 and FP4. */
const BNB: Readonly<Record<number, readonly number[]>> = {
  0: [
    ...[0, 5.208333333e-3, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25],
    ...[-0, -5.208333333e-3, -0.66666667, -1, -0.33333333, -0.5, -0.16666667, -0.25],
  ],
  1: [
    ...[-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453],
    ...[-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0],
    ...[0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224],
    ...[0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1],
  ],
};

/** A product by a weight [N, K] of 4-bit numbers of a table, the first in the upper bits. */
function matMulBnb4(call: Call): readonly Value[] {
  const { node } = call;
  const [columns, depth] = [node.int("N"), node.int("K")];
  const block = node.int("block_size"), kind = node.int("quant_type");
  const numbers = BNB[kind] ?? call.fail(`quant_type ${kind} is neither 0 nor 1`);
  const bytes = call.tensor(1).flatten();
  const pairs: T = (stack([bytes.bitwiseRightShift(4), bytes.bitwiseAnd(15)], -1) as T).flatten();
  const count = columns * depth;
  const blocks = Math.ceil(count / block);
  const values: T = (tensor(numbers) as T).take(pairs.astype("int32"), 0);
  const scales: T = call.tensor(2).astype("float32").reshape([blocks, 1]).broadcastTo([
    blocks,
    block,
  ])
    .reshape([blocks * block]).sliceAxis(0, new Slice(0, count));
  const x = call.tensor(0);
  const weight: T = values.sliceAxis(0, new Slice(0, count)).mul(scales).reshape([columns, depth]);
  return [x.linear(weight.astype(x.dtype) as T) as T];
}

/** Parts of a table along an axis, of numbers in blocks along another axis, which have a scale each. */
function gatherBlocks(call: Call): readonly Value[] {
  const { node } = call;
  const data = call.tensor(0), indices = call.tensor(1), scales = call.tensor(2);
  const zero = call.optional(3);
  const block = node.int("block_size", 128), bits = node.int("bits", 4);
  const axis = call.axis(node.int("gather_axis", 0), data.rank);
  const along = call.axis(node.int("quantize_axis", 1), data.rank);
  // Bytes have several numbers along the last axis, those of a type of less than a byte have one.
  const isPacked = data.dtype === "uint8" && node.likeType === undefined && bits < 8;
  const last = data.rank - 1;
  const wide = (x: T): T => isPacked ? unpacked(x, bits) : x;
  const taken = (x: T): T => x.take(indices, axis) as T;
  // Only the parts that are taken become floats, if each has blocks of its own.
  const isWhole = axis === along || isPacked && axis === last;
  const own = (x: T): T => isWhole ? x : taken(x);
  const numbers: T = wide(own(data)).astype("float32");
  const at = isWhole || along < axis ? along : along + indices.rank - 1;
  const cut = (x: T, k: number, n: number): T =>
    x.shape[k] === n ? x : x.sliceAxis(k, new Slice(0, n));
  const spreadOut = (x: T): T => cut(x.repeat(block, at) as T, at, numbers.shape[at]!);
  const by = own(scales);
  let moved = numbers;
  if (zero !== undefined) {
    const whole = cut(wide(own(zero)), by.rank - 1, by.shape.at(-1)!);
    moved = numbers.sub(spreadOut(whole).astype("float32"));
  } else if (data.dtype === "uint8" && node.likeType === undefined) {
    moved = numbers.sub(2 ** (bits - 1));
  }
  const made: T = moved.mul(spreadOut(by).astype("float32"));
  return [(isWhole ? taken(made) : made).astype(scales.dtype)];
}

/** The place of an input that an op does not have. */
const NONE = -1;

const isInteger = (call: Call): boolean => /[iu]/.test(DTYPE[call.dtype(0)].kind);

function matMulInteger(call: Call): readonly Value[] {
  if (!isInteger(call)) return call.failDType(`input 0 is of ${call.dtype(0)}`);
  return [integerProduct(call, call.tensor(0), 1, call.optional(2), 3)];
}

/** The ops. */
export const QUANTIZATION: Readonly<Record<string, Implementation>> = {
  QuantizeLinear: quantizeLinear,
  DequantizeLinear: dequantizeLinear,
  DynamicQuantizeLinear: dynamically,
  MatMulInteger: matMulInteger,
  ConvInteger: (call) => [
    integerConv(call, call.tensor(0), call.optional(2), 1, 3),
  ],
  QLinearMatMul: (call) => quantizedProduct(call, NONE, 6),
  QLinearConv: qLinearConv,
  "com.microsoft.QLinearConv": (call) => [
    onChannels(call, call.tensor(0), (x) => qLinearConv(call.with(0, x))[0] as T),
  ],
  "com.microsoft.QuantizeLinear": quantizeLinear,
  "com.microsoft.DequantizeLinear": dequantizeLinear,
  "com.microsoft.QGemm": (call) => quantizedProduct(call, 6, 7),
  "com.microsoft.QLinearAdd": onBytes(2, (_, x, y) => x!.add(y!)),
  "com.microsoft.QLinearMul": onBytes(2, (_, x, y) => x!.mul(y!)),
  "com.microsoft.QLinearSigmoid": onBytes(1, (_, x) => x!.sigmoid() as T),
  "com.microsoft.QLinearLeakyRelu": onBytes(
    1,
    ({ node }, x) => leakyRelu(x!, { negativeSlope: node.float("alpha", 0.01) }) as T,
  ),
  "com.microsoft.QLinearSoftmax": onBytes(1, softmaxOf),
  "com.microsoft.QLinearConcat": qLinearConcat,
  "com.microsoft.QLinearWhere": qLinearWhere,
  "com.microsoft.QLinearAveragePool": onBytes(
    1,
    (call, x) => onChannels(call, x!, (own) => averagePool(call, own, { countOverhang: true })),
  ),
  "com.microsoft.NhwcMaxPool": (call) => [
    maxPool(call.with(0, call.tensor(0).moveAxis(-1, 1) as T))[0]!.moveAxis(1, -1) as T,
  ],
  "com.microsoft.QLinearGlobalAveragePool": onBytes(
    1,
    (call, x) => x!.mean(spaceOf(call, x!), { keepDims: true }) as T,
  ),
  "com.microsoft.DynamicQuantizeMatMul": dynamicMatMul,
  "com.microsoft.MatMulIntegerToFloat": matMulToFloat,
  "com.microsoft.QAttention": qAttention,
  "com.microsoft.QEmbedLayerNormalization": embedNorm(byteRows),
  "com.microsoft.MatMulNBits": matMulNBits,
  "com.microsoft.MatMulBnb4": matMulBnb4,
  "com.microsoft.GatherBlockQuantized": gatherBlocks,
};
