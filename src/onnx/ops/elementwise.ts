/**
 * Ops on elements: arithmetic, comparisons, logic, activations and casts.
 *
 * @module
 */
import { DTYPE, type DType } from "../../base/dtype.ts";
import { broadcastShapes, sizeOf } from "../../base/shape.ts";
import { applyInto } from "../../core/apply.ts";
import { interpreting } from "../../core/interpreter.ts";
import * as nn from "../../nn/mod.ts";
import { BENDS } from "../../ops/conv/op.ts";
import { fromBuffer, tensor } from "../../tensor/create.ts";
import { where } from "../../api/functions/tensors.ts";
import type { Call, Implementation } from "../graph/call.ts";
import { dtypeOf, typeName, typeOf } from "../graph/initializers.ts";
import { NeedsHost } from "../graph/needs.ts";
import { elementsOf, isKnownTensor, Strings, type T, type Value } from "../graph/values.ts";
import { broadcastPlace, castStrings, stringsEqual } from "./texts.ts";

type Binary = (x: T, y: T | number) => T;

export const isFloat = (dtype: DType): boolean => DTYPE[dtype].kind === "f";
export const isInteger = (dtype: DType): boolean => /[iu]/.test(DTYPE[dtype].kind);

/**
 * The operand of an op beside `other`: a known element as a number, which is part of the code of a
 * program.
 */
export function operand(x: T, other: T): T | number {
  if (x.size !== 1 || x.rank > other.rank || x.dtype !== other.dtype) return x;
  if (!isKnownTensor(x) || isKnownTensor(other)) return x;
  const value = elementsOf(x)[0]!;
  if (typeof value === "boolean") return x;
  return typeof value === "number" || Number.isSafeInteger(Number(value)) ? Number(value) : x;
}

/** The shape of the results of opsets below 7, where `axis` says which axes the second one has. */
function aligned(call: Call, x: T, y: T): T {
  if (call.opset >= 7 || call.node.domain !== "") return y;
  if (!call.node.flag("broadcast") || y.rank === 0) return y;
  const axis = call.axis(call.node.int("axis", x.rank - y.rank), x.rank + 1);
  return y.reshape([...y.shape, ...Array<number>(Math.max(x.rank - axis - y.rank, 0)).fill(1)]);
}

function binary(compute: Binary, swapped?: Binary): Implementation {
  return (call) => {
    const x = call.tensor(0), y = aligned(call, x, call.tensor(1));
    if (x.dtype !== y.dtype) call.failDType(`inputs of ${x.dtype} and ${y.dtype} differ`);
    if (swapped !== undefined) {
      const first = operand(x, y);
      if (typeof first === "number") return [swapped(y, first)];
    }
    return [compute(x, operand(y, x))];
  };
}

function unary(compute: (x: T, call: Call) => T): Implementation {
  return (call) => [compute(call.ranked(0), call)];
}

const divide: Binary = (x, y) => isInteger(x.dtype) ? x.truncDivide(y) : x.div(y);

function remainder(call: Call): readonly Value[] {
  const x = call.tensor(0), y = call.tensor(1);
  if (!call.node.flag("fmod")) return [x.remainder(operand(y, x))];
  return [x.fmod(operand(y, x))];
}

function power(call: Call): readonly Value[] {
  const x = call.tensor(0), y = call.tensor(1);
  const one = operand(y.dtype === x.dtype || !isFloat(x.dtype) ? y : y.astype(x.dtype), x);
  if (one === 2) return [x.mul(x)];
  if (one === 0.5 && isFloat(x.dtype)) return [x.sqrt()];
  if (typeof one === "number") return [x.pow(one)];
  if (isFloat(x.dtype)) return [x.pow(y.astype(x.dtype))];
  if (isInteger(y.dtype)) return [x.pow(y.astype(x.dtype))];
  return [x.astype("float64").pow(y.astype("float64")).astype(x.dtype)];
}

/** Adds, or takes the largest of, any number of tensors. */
function variadic(compute: (x: T, y: T) => T): Implementation {
  return (call) => {
    const [first, ...others] = call.tensors;
    if (first === undefined) return call.fail("it has no input");
    return [others.length === 0 ? first : others.reduce(compute, first)];
  };
}

function mean(call: Call): readonly Value[] {
  const all = call.tensors;
  const sum = all.reduce((x, y) => x.add(y));
  return [sum.div(all.length)];
}

/** Shifts by a negative count, or by all bits or more, leave what the sign fills. */
function shift(call: Call): readonly Value[] {
  const x = call.tensor(0), y = call.tensor(1);
  const direction = call.node.string("direction");
  const bits = 8 * DTYPE[x.dtype].bytes;
  const isBeyond = DTYPE[y.dtype].kind === "u"
    ? y.greaterEqual(bits)
    : y.less(0).logicalOr(y.greaterEqual(bits));
  const choice = isBeyond.asDType("bool");
  if (direction === "RIGHT" && DTYPE[x.dtype].kind === "i") {
    return [x.bitwiseRightShift(where(choice, bits - 1, y) as T)];
  }
  const count = where(choice, 0, y) as T;
  if (direction === "LEFT") return [where(choice, 0, x.bitwiseLeftShift(count)) as T];
  if (direction === "RIGHT") return [where(choice, 0, x.bitwiseRightShift(count)) as T];
  return call.fail(`direction ${direction} is neither LEFT nor RIGHT`);
}

/** The same bits as another dtype. */
function bitCast(call: Call): readonly Value[] {
  const x = call.tensor(0), type = call.node.int("to");
  const dtype = dtypeOf(type) ?? call.failDType(`no tensor is of ${typeName(type)}`);
  if (DTYPE[dtype].bytes !== DTYPE[x.dtype].bytes) {
    call.failDType(`${x.dtype} and ${dtype} have elements of different sizes`);
  }
  if (interpreting()) throw new NeedsHost("a program does not read bits as another dtype");
  return [fromBuffer(x.copy().intoRaw().buffer, { dtype, shape: x.shape }).copy() as T];
}

/** Comparisons of booleans are those of 0 and 1. */
function compare(compute: Binary, swapped: Binary): Implementation {
  const plain = binary(compute, swapped);
  return (call) => {
    const [a, b] = [call.strings(0), call.strings(1)];
    if (a !== undefined && b !== undefined) return [stringsEqual(a, b)];
    return plain(call);
  };
}

/** The floats that `x` takes part in, at least as wide as float32. */
function inFloat32(x: T, compute: (x: T) => T): T {
  if (x.dtype !== "float16" && x.dtype !== "bfloat16") return compute(x);
  return compute(x.astype("float32")).astype(x.dtype);
}

function clip(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const bound = (name: string, k: number): T | number | undefined => {
    if (call.opset < 11 && call.node.domain === "") {
      return call.node.has(name) ? call.node.float(name) : undefined;
    }
    const given = call.optional(k);
    // A bound is one number, of no axes in all valid files.
    return given === undefined
      ? undefined
      : operand(given.size === 1 ? given.reshape([]) : given, x);
  };
  const low = bound("min", 1), high = bound("max", 2);
  // If the bounds cross, the upper one counts.
  const above: T = low === undefined ? x : x.maximum(low);
  return [high === undefined ? above : above.minimum(high)];
}

function prelu(call: Call): readonly Value[] {
  const x = call.tensor(0);
  let slope = call.tensor(1);
  if (call.opset < 7 && slope.rank === 1 && x.rank > 2 && slope.size > 1) {
    slope = slope.reshape([slope.size, ...Array<number>(x.rank - 2).fill(1)]);
  }
  return [where(x.less(0), x.mul(slope), x)];
}

/** The type that the attribute `to` asks for. */
function cast(call: Call): readonly Value[] {
  return [castTo(call, call.inputs[0], call.node.int("to"))];
}

function castLike(call: Call): readonly Value[] {
  const like = call.inputs[1];
  if (like instanceof Strings) return [castTo(call, call.inputs[0], 8)];
  const { likeType } = call.node;
  if (likeType !== undefined) return [castTo(call, call.inputs[0], typeOf(likeType))];
  return [castValue(call, call.inputs[0], call.dtype(1))];
}

function castTo(call: Call, value: Value, type: number): Value {
  const name = typeName(type);
  if (name === "string") {
    return value instanceof Strings ? value : castStrings(call, 0);
  }
  const dtype = dtypeOf(type);
  if (dtype === undefined) return call.failDType(`no tensor is of ${name}`);
  const small = /^(u?)int([24])$/.exec(name);
  if (small === null) return castValue(call, value, dtype);
  // The lowest bits, as C casts.
  const bits = Number(small[2]), wide = castValue(call, value, "int32");
  const low: T = wide.bitwiseAnd(2 ** bits - 1);
  if (small[1] === "u") return low.astype(dtype);
  return where(low.less(2 ** (bits - 1)), low, low.sub(2 ** bits)).astype(dtype) as T;
}

function castValue(call: Call, value: Value, dtype: DType): T {
  if (value instanceof Strings) return numbersOf(call, value, dtype);
  const x = call.tensor(0);
  if (x.dtype === dtype) return x;
  return x.astype(dtype);
}

/** The numbers that texts write. */
function numbersOf(call: Call, { data, shape }: Strings, dtype: DType): T {
  const list = data.map((text) => {
    const plain = text.trim().toLowerCase();
    const infinite = /^([+-]?)inf(inity)?$/.exec(plain);
    if (infinite !== null) return infinite[1] === "-" ? -Infinity : Infinity;
    const value = plain === "nan" ? NaN : Number(plain);
    if (plain === "" || Number.isNaN(value) && plain !== "nan") {
      call.fail(`${JSON.stringify(text)} is no number`);
    }
    return value;
  });
  const wide: T = tensor(list, { dtype: "float64" });
  return wide.reshape(shape).astype(dtype);
}

function gelu(call: Call): readonly Value[] {
  const x = call.ranked(0);
  return [call.node.string("approximate", "none") === "tanh" ? tanhGelu(x) : x.gelu()];
}

const swish = (x: T, alpha: number): T => alpha === 1 ? x.silu() : x.mul(x.mul(alpha).sigmoid());

const tanhGelu = (x: T): T => nn.gelu(x, { approximate: "tanh" }) as T;

/** `x` plus a bias along its last axis, if the call has one. */
const biased = (call: Call): T => {
  const bias = call.optional(1);
  return bias === undefined ? call.tensor(0) : call.tensor(0).add(bias);
};

/** The op of convolutions, whose numbers are the slope and the value at 0. */
function hardSigmoid(x: T, low: number, high: number): T {
  const numbers = { low, high };
  return applyInto(
    BENDS.hardSigmoid,
    "hardSigmoid",
    x,
    undefined,
    undefined,
    undefined,
    numbers,
  ) as T;
}

function isinf(x: T, call: Call): T {
  const up = call.node.flag("detect_positive", true);
  const down = call.node.flag("detect_negative", true);
  if (up && down) return x.isinf();
  if (!up && !down) return x.isinf().logicalAnd(false);
  return x.equal(up ? Infinity : -Infinity);
}

function whereOf(call: Call): readonly Value[] {
  const [a, b] = [call.strings(1), call.strings(2)];
  if (a !== undefined && b !== undefined) {
    const choice = call.tensor(0);
    const shape = broadcastShapes(
      "where",
      choice.shape,
      broadcastShapes("where", a.shape, b.shape),
    );
    const chosen = call.elements(0);
    const size = sizeOf(shape);
    const data = Array.from(
      { length: size },
      (_, i) => {
        const from = chosen[broadcastPlace(choice.shape, shape, i)] === true ? a : b;
        return from.data[broadcastPlace(from.shape, shape, i)]!;
      },
    );
    return [new Strings(data, shape)];
  }
  return [where(call.tensor(0).asDType("bool"), call.tensor(1), call.tensor(2)) as T];
}

/** Activations of fused ops, by their names, with their numbers. */
const ACTIVATIONS: Readonly<Record<string, (x: T, a: number, b: number) => T>> = {
  Relu: (x) => x.relu(),
  Sigmoid: (x) => x.sigmoid(),
  Tanh: (x) => x.tanh(),
  LeakyRelu: (x, a) => nn.leakyRelu(x, { negativeSlope: a }) as T,
  Clip: (x, a, b) => x.clip(a, b),
  HardSigmoid: hardSigmoid,
};

/** x through the activation of a call, with the numbers that it has. */
export function activate(call: Call, x: T, [a = 0, b = 0]: readonly number[]): T {
  if (call.node.string("activation", "") === "") return x;
  return call.choice("activation", "", ACTIVATIONS)(x, a, b);
}

const float = (call: Call, name: string, otherwise: number): number =>
  call.node.float(name, otherwise);

/** The ops. */
export const ELEMENTWISE: Readonly<Record<string, Implementation>> = {
  Abs: unary((x) => DTYPE[x.dtype].kind === "u" ? x : x.abs()),
  Neg: unary((x) => x.neg()),
  Sign: unary((x) => x.sign()),
  Reciprocal: unary((x) => x.reciprocal()),
  Sqrt: unary((x) => x.sqrt()),
  Exp: unary((x) => x.exp()),
  Log: unary((x) => x.log()),
  Sin: unary((x) => x.sin()),
  Cos: unary((x) => x.cos()),
  Tan: unary((x) => x.tan()),
  Asin: unary((x) => x.asin()),
  Acos: unary((x) => x.acos()),
  Atan: unary((x) => x.atan()),
  Sinh: unary((x) => x.sinh()),
  Cosh: unary((x) => x.cosh()),
  Tanh: unary((x) => x.tanh()),
  Asinh: unary((x) => x.asinh()),
  Acosh: unary((x) => x.acosh()),
  Atanh: unary((x) => x.atanh()),
  Erf: unary((x) => x.erf()),
  Sigmoid: unary((x) => x.sigmoid()),
  Relu: unary((x) => x.relu()),
  Floor: unary((x) => x.floor()),
  Ceil: unary((x) => x.ceil()),
  Round: unary((x) => x.round()),
  IsNaN: unary((x) => x.isnan()),
  IsInf: unary(isinf),
  Not: unary((x) => x.logicalNot()),
  BitwiseNot: unary((x) => x.bitwiseInvert()),
  Softsign: unary((x) => nn.softsign(x) as T),
  Softplus: unary((x) => inFloat32(x, (wide) => nn.softplus(wide, { threshold: Infinity }) as T)),
  Mish: unary((x) => nn.mish(x) as T),
  Elu: unary((x, call) => nn.elu(x, { alpha: float(call, "alpha", 1) }) as T),
  Celu: unary((x, call) => nn.celu(x, { alpha: float(call, "alpha", 1) }) as T),
  Selu: unary((x, call) => {
    const alpha = float(call, "alpha", 1.6732631921768188);
    const gamma = float(call, "gamma", 1.0507010221481323);
    return where(x.greater(0), x, x.minimum(0).expm1().mul(alpha)).mul(gamma) as T;
  }),
  LeakyRelu: unary((x, call) =>
    nn.leakyRelu(x, { negativeSlope: float(call, "alpha", 0.01) }) as T
  ),
  ThresholdedRelu: unary((x, call) => where(x.greater(float(call, "alpha", 1)), x, 0) as T),
  HardSigmoid: unary((x, call) =>
    hardSigmoid(x, float(call, "alpha", 0.2), float(call, "beta", 0.5))
  ),
  HardSwish: unary((x) => nn.hardSwish(x) as T),
  Shrink: unary((x, call) => {
    const bias = float(call, "bias", 0), lambda = float(call, "lambd", 0.5);
    return where(
      x.less(-lambda),
      x.add(bias),
      where(x.greater(lambda), x.sub(bias), x.mul(0)),
    ) as T;
  }),
  Swish: unary((x, call) => swish(x, float(call, "alpha", 1))),
  SwiGLU: (call) => {
    const [x, y] = [call.tensor(0), call.tensor(1)];
    return [swish(x, float(call, "alpha", 1)).mul(y)];
  },
  "ai.onnx.ml.Binarizer": unary((x, call) =>
    x.greater(float(call, "threshold", 0)).astype(x.dtype)
  ),
  PRelu: prelu,
  Gelu: gelu,
  Clip: clip,
  Add: binary((x, y) => x.add(y), (x, y) => x.add(y)),
  Sub: binary((x, y) => x.sub(y)),
  Mul: binary((x, y) => x.mul(y), (x, y) => x.mul(y)),
  Div: binary(divide),
  Mod: remainder,
  Pow: power,
  Max: variadic((x, y) => x.maximum(y)),
  Min: variadic((x, y) => x.minimum(y)),
  Sum: variadic((x, y) => x.add(y)),
  Mean: mean,
  Equal: compare((x, y) => x.equal(y), (x, y) => x.equal(y)),
  Less: binary((x, y) => x.less(y), (x, y) => x.greater(y)),
  LessOrEqual: binary((x, y) => x.lessEqual(y), (x, y) => x.greaterEqual(y)),
  Greater: binary((x, y) => x.greater(y), (x, y) => x.less(y)),
  GreaterOrEqual: binary((x, y) => x.greaterEqual(y), (x, y) => x.lessEqual(y)),
  And: binary((x, y) => x.logicalAnd(y)),
  Or: binary((x, y) => x.logicalOr(y)),
  Xor: binary((x, y) => x.logicalXor(y)),
  BitwiseAnd: binary((x, y) => x.bitwiseAnd(y)),
  BitwiseOr: binary((x, y) => x.bitwiseOr(y)),
  BitwiseXor: binary((x, y) => x.bitwiseXor(y)),
  BitShift: shift,
  BitCast: bitCast,
  Where: whereOf,
  Cast: cast,
  CastLike: castLike,
  "com.microsoft.Gelu": unary((x) => x.gelu()),
  "com.microsoft.FastGelu": (call) => [tanhGelu(biased(call))],
  "com.microsoft.BiasGelu": (call) => [biased(call).gelu()],
  "com.microsoft.QuickGelu": unary((x, call) => swish(x, float(call, "alpha", 1.702))),
};
