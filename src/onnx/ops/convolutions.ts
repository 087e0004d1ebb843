/**
 * Ops on windows: convolutions, pools, and norms of channels.
 *
 * @module
 */
import { formatShape, sizeOf } from "../../base/shape.ts";
import { interpreting } from "../../core/interpreter.ts";
import * as nn from "../../nn/mod.ts";
import { maxPoolIndices } from "../../ops/conv/pool.ts";
import { full } from "../../tensor/create.ts";
import { type Call, type Implementation, LEAST_RANK } from "../graph/call.ts";
import { isKnownTensor, type T, type Value } from "../graph/values.ts";
import { activate, isFloat } from "./elementwise.ts";

/** The windows of a node, by its attributes. */
interface Windows {
  readonly kernel: readonly number[];
  readonly stride: readonly number[];
  readonly dilation: readonly number[];
  readonly padding: readonly [before: number, after: number][];
}

/** The windows of a call on the axes of space of `shape`. */
export function windowsOf(
  call: Call,
  shape: readonly number[],
  kernel: readonly number[],
): Windows {
  const { node } = call;
  const rank = kernel.length, ones = Array<number>(rank).fill(1);
  const stride = node.ints("strides") ?? ones;
  const dilation = node.ints("dilations") ?? ones;
  const pads = node.ints("pads") ?? Array<number>(2 * rank).fill(0);
  const auto = node.string("auto_pad", "NOTSET");
  if (stride.length !== rank || dilation.length !== rank || pads.length !== 2 * rank) {
    call.fail(
      `kernel ${formatShape(kernel)}, strides ${formatShape(stride)}, dilations ` +
        `${formatShape(dilation)} and pads ${formatShape(pads)} do not fit`,
    );
  }
  const space = shape.slice(-rank);
  const padding = kernel.map((size, k): [number, number] => {
    if (auto === "NOTSET") return [pads[k]!, pads[k + rank]!];
    if (auto === "VALID") return [0, 0];
    const out = Math.ceil(space[k]! / stride[k]!);
    const span = (size - 1) * dilation[k]! + 1;
    const total = Math.max((out - 1) * stride[k]! + span - space[k]!, 0);
    const less = Math.floor(total / 2);
    return auto === "SAME_UPPER" ? [less, total - less] : [total - less, less];
  });
  return { kernel, stride, dilation, padding };
}

/** The function for `rank` axes of space. */
function byRank<F>(call: Call, functions: readonly F[], rank: number): F {
  return functions[rank - 1] ??
    call.failShape(`${rank} axes of space, expected 1 to ${functions.length}`);
}

const CONV = [nn.conv1d, nn.conv2d, nn.conv3d] as const;
const CONV_TRANSPOSE = [nn.convTranspose1d, nn.convTranspose2d, nn.convTranspose3d] as const;
const MAX_POOL = [nn.maxPool1d, nn.maxPool2d, nn.maxPool3d] as const;
const AVG_POOL = [nn.avgPool1d, nn.avgPool2d, nn.avgPool3d] as const;

/** The attribute of convolutions that Winograd's algorithm does not compute. */
export const PLAIN = "rowmajor.plain";

/** The least side of planes, and the fewest channels, where Winograd's algorithm is faster. */
const [LEAST_SIDE, LEAST_CHANNELS] = [14, 16];

/** Whether a convolution is one of 3 x 3 that Winograd's algorithm computes faster. */
function isForWinograd(
  x: T,
  weight: T,
  { stride, dilation, groups }: Moves,
): boolean {
  const [outputs, inputs, ...kernel] = weight.shape;
  // A program transforms the weight once.
  return interpreting() && x.dtype === "float32" && isKnownTensor(weight) && groups === 1 &&
    kernel.every((n) => n === 3) && [...stride, ...dilation].every((n) => n === 1) &&
    Math.min(x.shape[2]!, x.shape[3]!) >= LEAST_SIDE &&
    Math.min(outputs!, inputs!) >= LEAST_CHANNELS;
}

/** The most places of windows in an image where one product for all images is faster. */
const MOST_PLACES = 8;

/** How windows move. */
interface Moves {
  readonly stride: readonly number[];
  readonly dilation: readonly number[];
  readonly padding: readonly [before: number, after: number][];
  readonly groups: number;
}

/** Whether a convolution has so few places that a product of all windows is faster. */
function isForProduct(
  x: T,
  weight: T,
  { stride, dilation, padding, groups }: Moves,
): boolean {
  const places = padding.map(([before, after], k) =>
    Math.floor((x.shape[k + 2]! + before + after - weight.shape[k + 2]!) / stride[k]!) + 1
  );
  return groups === 1 && isFloat(x.dtype) && dilation.every((n) => n === 1) &&
    places.every((n) => n >= 1) && sizeOf(places) <= MOST_PLACES;
}

/** A convolution as a product of the windows of all images and the weight. */
function asProduct(x: T, weight: T, bias: T | undefined, { stride, padding }: Moves): T {
  const isPadded = padding.some(([before, after]) => before + after > 0);
  let windows: T = isPadded ? x.pad([[0, 0], [0, 0], ...padding], { value: 0 }) : x;
  const kernel = weight.shape.slice(2), rank = kernel.length;
  kernel.forEach((size, k) => windows = nn.unfold(windows, k + 2, size, stride[k]!) as T);
  const places = windows.shape.slice(2, 2 + rank);
  const axes = windows.shape.map((_, k) => k);
  const order = [0, ...axes.slice(2, 2 + rank), 1, ...axes.slice(2 + rank)];
  const [outputs, depth] = [weight.shape[0]!, sizeOf(weight.shape.slice(1))];
  const rows: T = windows.permute(...order).reshape([x.shape[0]! * sizeOf(places), depth]);
  const made: T = rows.linear(weight.reshape([outputs, depth]), bias) as T;
  return made.reshape([x.shape[0]!, ...places, outputs]).moveAxis(-1, 1);
}

/** The convolution of a call, of `x` and `weight`. */
function convolve(call: Call, x: T, weight: T, bias: T | undefined): T {
  const rank = x.rank - 2;
  const { stride, dilation, padding } = windowsOf(call, x.shape, weight.shape.slice(2));
  const groups = call.node.int("group", 1);
  const conv = byRank(call, CONV, rank);
  const options = { stride, dilation, padding, groups };
  const last = rank + 1;
  // Windows along other axes only: a convolution of fewer axes is faster.
  if (
    rank > 1 && x.shape[last] === 1 && weight.shape[last] === 1 &&
    padding.at(-1)!.every((n) => n === 0)
  ) {
    const fewer = byRank(call, CONV, rank - 1);
    const made = fewer(x.squeeze(last), weight.squeeze(last), bias, {
      ...{ groups, stride: stride.slice(0, -1), dilation: dilation.slice(0, -1) },
      padding: padding.slice(0, -1),
    }) as T;
    return made.unsqueeze(last);
  }
  if (isForProduct(x, weight, options)) return asProduct(x, weight, bias, options);
  if (rank === 2 && !call.node.has(PLAIN) && isForWinograd(x, weight, options)) {
    return nn.conv2d(x, weight, bias, { ...options, winograd: true }) as T;
  }
  return conv(x, weight, bias, options) as T;
}

/** A convolution, plus a tensor, through an activation. */
function fusedConv(call: Call): readonly Value[] {
  const made = convolve(call, call.tensor(0), call.tensor(1), call.optional(2));
  const sum: T = call.has(3) ? made.add(call.tensor(3)) : made;
  return [activate(call, sum, call.node.floats("activation_params") ?? [])];
}

function convTranspose(call: Call): readonly Value[] {
  const { node } = call;
  const x = call.tensor(0), weight = call.tensor(1);
  const rank = x.rank - 2, kernel = weight.shape.slice(2);
  const ones = Array<number>(rank).fill(1);
  const stride = node.ints("strides") ?? ones, dilation = node.ints("dilations") ?? ones;
  const more = node.ints("output_padding") ?? Array<number>(rank).fill(0);
  const pads = node.ints("pads") ?? Array<number>(2 * rank).fill(0);
  const auto = node.string("auto_pad", "NOTSET");
  const sizes = node.ints("output_shape");
  const padding = kernel.map((size, k): [number, number] => {
    if (auto === "VALID") return [0, 0];
    if (sizes === undefined && auto === "NOTSET") return [pads[k]!, pads[k + rank]!];
    const wanted = sizes === undefined
      ? x.shape[k + 2]! * stride[k]!
      : sizes[sizes.length - rank + k]!;
    const whole = (x.shape[k + 2]! - 1) * stride[k]! + more[k]! + (size - 1) * dilation[k]! + 1;
    const total = whole - wanted, less = Math.floor(total / 2);
    return auto === "SAME_UPPER" ? [less, total - less] : [total - less, less];
  });
  const options = { stride, dilation, groups: node.int("group", 1), outputPadding: more };
  const conv = byRank(call, CONV_TRANSPOSE, rank);
  // Negative padding makes the result larger.
  const grown = padding.map(([before, after]): [number, number] => [
    Math.max(-before, 0),
    Math.max(-after, 0),
  ]);
  const cut = padding.map(([before, after]): [number, number] => [
    Math.max(before, 0),
    Math.max(after, 0),
  ]);
  const made = conv(x, weight, undefined, { ...options, padding: cut }) as T;
  const isGrown = grown.some(([before, after]) => before + after > 0);
  const whole: T = isGrown ? made.pad([[0, 0], [0, 0], ...grown]) : made;
  const bias = call.optional(2);
  return [bias === undefined ? whole : whole.add(bias.reshape([bias.size, ...ones]))];
}

export function maxPool(call: Call): readonly T[] {
  const x = call.tensor(0);
  const kernel = call.node.ints("kernel_shape") ?? call.fail("kernel_shape is missing");
  const { stride, dilation, padding } = windowsOf(call, x.shape, kernel);
  const ceilMode = call.node.flag("ceil_mode");
  if (call.wants(1)) {
    const windows = kernel.map((size, k) => ({
      ...{ size, stride: stride[k]!, dilation: dilation[k]!, ceil: ceilMode, padded: false },
      ...{ before: padding[k]![0], after: padding[k]![1] },
    }));
    const columnMajor = call.node.int("storage_order", 0) === 1;
    const [values, places] = maxPoolIndices(call.node.op, x, windows, { columnMajor, whole: true });
    return [values as T, places as T];
  }
  const pool = byRank(call, MAX_POOL, kernel.length);
  return [pool(x, kernel, { stride, dilation, padding, ceilMode }) as T];
}

/** The padding of windows, with the elements beyond it of which the last window has a part. */
function withOverhang(
  x: T,
  { kernel, stride, dilation, padding }: Windows,
): [before: number, after: number][] {
  return padding.map(([before, after], k) => {
    const size = x.shape[k + 2]! + before + after;
    const span = (kernel[k]! - 1) * dilation[k]! + 1;
    let last = Math.ceil((size - span) / stride[k]!) * stride[k]!;
    // A window begins before the padding at the end.
    if (last >= x.shape[k + 2]! + before) last -= stride[k]!;
    return [before, after + Math.max(last + span - size, 0)];
  });
}

/**
 * The means of windows of `x`, by the attributes of a call. With `countOverhang`, what is beyond the
 * padding counts, where the padding does.
 */
export function averagePool(call: Call, x: T, { countOverhang = false } = {}): T {
  const kernel = call.node.ints("kernel_shape") ?? call.fail("kernel_shape is missing");
  const windows = windowsOf(call, x.shape, kernel);
  const { stride, dilation, padding } = windows;
  const countIncludePad = call.node.flag("count_include_pad");
  const ceilMode = call.node.flag("ceil_mode");
  if (countOverhang && countIncludePad && ceilMode) {
    const padded = withOverhang(x, windows);
    return windowSums(call, x, { ...windows, padding: padded }).div(sizeOf(kernel));
  }
  if (dilation.every((n) => n === 1)) {
    const pool = byRank(call, AVG_POOL, kernel.length);
    return pool(x, kernel, { stride, padding, countIncludePad, ceilMode }) as T;
  }
  const beyond = ceilMode ? withOverhang(x, windows) : padding;
  const sums = windowSums(call, x, { ...windows, padding: beyond });
  // What is beyond the padding counts in no window.
  const counted = countIncludePad ? padding : padding.map((): [number, number] => [0, 0]);
  const ones = full(
    x.shape.map((n, k) => k < 2 ? n : n + counted[k - 2]![0] + counted[k - 2]![1]),
    1,
    { dtype: x.dtype },
  ) as T;
  const rest = beyond.map(([before, after], k): [number, number] => [
    before - counted[k]![0],
    after - counted[k]![1],
  ]);
  return sums.div(windowSums(call, ones, { ...windows, padding: rest }));
}

/** The sums of windows of each channel: a convolution by ones. */
function windowSums(
  call: Call,
  x: T,
  { kernel, stride, dilation, padding }: Windows,
): T {
  const channels = x.shape[1]!;
  const ones = full([channels, 1, ...kernel], 1, { dtype: x.dtype });
  const conv = byRank(call, CONV, kernel.length);
  return conv(x, ones, undefined, { stride, dilation, padding, groups: channels }) as T;
}

function lpPool(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const kernel = call.node.ints("kernel_shape") ?? call.fail("kernel_shape is missing");
  const windows = windowsOf(call, x.shape, kernel);
  const p = call.node.int("p", 2);
  const padding = call.node.flag("ceil_mode") ? withOverhang(x, windows) : windows.padding;
  const powers: T = p === 1 ? x.abs() : p === 2 ? x.mul(x) : x.abs().pow(p);
  const sums = windowSums(call, powers, { ...windows, padding });
  return [p === 1 ? sums : p === 2 ? sums.sqrt() : sums.pow(1 / p)];
}

const spaceOf = (x: T): number[] => x.shape.map((_, k) => k).slice(2);

function globalLpPool(call: Call): readonly Value[] {
  const x = call.tensor(0), p = call.node.int("p", 2);
  const powers: T = p === 1 ? x.abs() : p === 2 ? x.mul(x) : x.abs().pow(p);
  const sums = powers.sum(spaceOf(x), { keepDims: true }) as T;
  return [p === 1 ? sums : p === 2 ? sums.sqrt() : sums.pow(1 / p)];
}

/** Puts the largest elements of windows back, by their indices. */
function maxUnpool(call: Call): readonly Value[] {
  const x = call.tensor(0), indices = call.tensor(1);
  const kernel = call.node.ints("kernel_shape") ?? call.fail("kernel_shape is missing");
  const rank = kernel.length, ones = Array<number>(rank).fill(1);
  const stride = call.node.ints("strides") ?? ones;
  const pads = call.node.ints("pads") ?? Array<number>(2 * rank).fill(0);
  const natural = [
    ...x.shape.slice(0, 2),
    ...kernel.map((size, k) =>
      (x.shape[k + 2]! - 1) * stride[k]! + size - pads[k]! - pads[k + rank]!
    ),
  ];
  const shape = call.optionalNumbers(2) ?? natural;
  // Indices count in the natural size.
  const flat = full([sizeOf(natural)], 0, { dtype: x.dtype });
  flat.putAlongAxis_(indices.flatten(), x.flatten(), 0);
  let made: T = flat.reshape(natural);
  if (shape.some((n, k) => n !== natural[k])) {
    made = made.pad(shape.map((n, k): [number, number] => [0, n - natural[k]!]), { value: 0 });
  }
  return [made];
}

function batchNorm(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const epsilon = call.node.float("epsilon", 1e-5);
  const [weight, bias] = [call.tensor(1), call.tensor(2)];
  let [mean, variance] = [call.tensor(3), call.tensor(4)];
  if (!call.node.flag("training_mode")) {
    return [nn.batchNorm(x, mean, variance, { weight, bias, epsilon }) as T];
  }
  const axes = x.shape.map((_, k) => k).filter((k) => k !== 1);
  const momentum = call.node.float("momentum", 0.9);
  const [own, square] = [x.mean(axes) as T, x.var(axes) as T];
  const mixed = (old: T, now: T): T => old.mul(momentum).add(now.mul(1 - momentum));
  [mean, variance] = [mixed(mean, own), mixed(variance, square)];
  return [nn.batchNorm(x, own, square, { weight, bias, epsilon }) as T, mean, variance];
}

function instanceNorm(call: Call): readonly Value[] {
  const options = {
    weight: call.tensor(1),
    bias: call.tensor(2),
    epsilon: call.node.float("epsilon", 1e-5),
  };
  return [nn.instanceNorm(call.tensor(0), options) as T];
}

function groupNorm(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const groups = call.node.int("num_groups"), epsilon = call.node.float("epsilon", 1e-5);
  const channels = x.shape[1]!;
  // In opset 18 weights are of groups.
  const own = (w: T): T => w.size === channels ? w : w.repeat(channels / groups, 0) as T;
  const [weight, bias] = [own(call.tensor(1)), own(call.tensor(2))];
  return [nn.groupNorm(x, groups, { weight, bias, epsilon }) as T];
}

function layerNorm(call: Call): readonly Value[] {
  const x = call.ranked(0);
  const axis = call.axis(call.node.int("axis", -1), x.rank);
  const axes = x.shape.map((_, k) => k).slice(axis);
  const epsilon = call.node.float("epsilon", 1e-5);
  const weight = call.tensor(1), bias = call.optional(2);
  const sizes = [weight.size, bias?.size ?? 0];
  // A norm of several ops has weights and biases that x broadcasts to.
  if (call.node.has(LEAST_RANK) && sizes.some((size) => size > x.shape.at(-1)!)) {
    const scaled = x.layerNorm(axes, { epsilon }).mul(weight);
    return [bias === undefined ? scaled : scaled.add(bias)];
  }
  const y = x.layerNorm(axes, bias === undefined ? { weight, epsilon } : { weight, bias, epsilon });
  if (!call.wants(1) && !call.wants(2)) return [y];
  const keep = { keepDims: true };
  const wide: T = x.astype(x.dtype === "float64" ? "float64" : "float32");
  const [mean, variance] = [wide.mean(axes, keep) as T, wide.var(axes, keep) as T];
  return [y, mean, variance.add(epsilon).rsqrt()];
}

function rmsNorm(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const axis = call.axis(call.node.int("axis", -1), x.rank);
  const axes = x.shape.map((_, k) => k).slice(axis);
  const epsilon = call.node.float("epsilon", 1e-5);
  return [x.rmsNorm(axes, { weight: call.tensor(1), epsilon })];
}

function lrn(call: Call): readonly Value[] {
  const { node } = call;
  const size = node.int("size");
  const options = {
    alpha: node.float("alpha", 1e-4),
    beta: node.float("beta", 0.75),
    k: node.float("bias", 1),
  };
  const x = call.tensor(0);
  if (size % 2 === 1) return [nn.localResponseNorm(x, size, options) as T];
  return call.fail(`size ${size} is even`);
}

/** The ops. */
export const CONVOLUTIONS: Readonly<Record<string, Implementation>> = {
  Conv: (call) => [convolve(call, call.tensor(0), call.tensor(1), call.optional(2))],
  ConvTranspose: convTranspose,
  "com.microsoft.FusedConv": fusedConv,
  MaxPool: maxPool,
  AveragePool: (call) => [averagePool(call, call.tensor(0))],
  LpPool: lpPool,
  GlobalAveragePool: (
    call,
  ) => [call.tensor(0).mean(spaceOf(call.tensor(0)), { keepDims: true }) as T],
  GlobalMaxPool: (call) => [call.tensor(0).max(spaceOf(call.tensor(0)), { keepDims: true }) as T],
  GlobalLpPool: globalLpPool,
  MaxUnpool: maxUnpool,
  BatchNormalization: batchNorm,
  InstanceNormalization: instanceNorm,
  GroupNormalization: groupNorm,
  LayerNormalization: layerNorm,
  RMSNormalization: rmsNorm,
  SimplifiedLayerNormalization: rmsNorm,
  LRN: lrn,
};
