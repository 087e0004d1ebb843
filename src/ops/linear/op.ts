/**
 * Linear layers: a product with a weight, plus bias, through an activation, plus a residual.
 *
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import { DTYPE, type DTypeInfo, promoteTypes } from "../../base/dtype.ts";
import { ArgumentError, DisposedError, DTypeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { formatShape, sameShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyInto, applyView, type OpOptions } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { tidy } from "../../core/handles.ts";
import { lanesOf } from "../../core/lanes.ts";
import { kernelCopy, resultIn } from "../../core/prepare.ts";
import {
  type Activation,
  ACTIVATIONS,
  INT8_BLOCK,
  type PackedAttributes,
  PANEL_COLUMNS,
  type QuantizedAttributes,
  rowsOf,
} from "./panels.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkAlive, DISPOSED, isHost } from "../../memory/storage.ts";
import { checkDevice, checkOperand, checkOptions, ruleFor } from "../../table/infer.ts";
import {
  type Call,
  type Input,
  makeOp,
  type Op,
  type OutputSpec,
  type Prepared,
} from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { isQuantized } from "../quantized/dtypes.ts";
import { concat } from "../join/op.ts";
import { dequantizeInt8 } from "./int8.ts";
import { doNotFit, MATMUL, productDType } from "../matmul/op.ts";
import { type AnyPackedWeight, PackedWeight, unpack, unpackRows } from "./packed_weight.ts";
import { DEQUANTIZE } from "../quantized/op.ts";

export type { Activation };

/** Options of {@link linear}. */
export interface LinearOptions extends OpOptions {
  /** Applied to the product with its bias. */
  readonly activation?: Activation | undefined;
  /** Added last; of the shape of the result. */
  readonly add?: Operand | undefined;
}

/** The attributes of {@link LINEAR}. */
interface LinearAttributes {
  readonly activation?: Activation | undefined;
}

const LINEAR_OPTIONS = ["out", "activation", "add"];

// ---- checks ------------------------------------------------------------------------------------

/** The dtype of `dtype` plus `input`, if there is one. */
function promoteWith(name: string, dtype: DTypeInfo, input: Input): DTypeInfo {
  if (!isOperand(input) || input.storage.info === dtype) return dtype;
  return DTYPE[promoteTypes(dtype.name, input.storage.info.name, name)];
}

/** Checks everything but dtypes; the shape of the result. */
function linearShape(call: Call, p: Layout, q: Layout): number[] {
  const { inputs: [x, , bias, add], name } = call;
  if (q.shape.length !== 2 || p.shape.length === 0) {
    throw doNotFit(name, p, q, "it takes x: [..., I] and weight: [O, I]");
  }
  const [n, kw] = q.shape as [number, number];
  const k = p.shape.at(-1)!;
  if (k !== kw) throw doNotFit(name, p, q, `inner sizes ${k} and ${kw} differ`);
  const { storage } = x as Operand;
  if (bias !== undefined) {
    checkOperand(bias, name);
    checkDevice(storage, bias.storage, name);
    if (bias.layout.shape.length !== 1 || bias.layout.shape[0] !== n) {
      throw doNotFit(name, bias.layout, q, `the bias must have shape [${n}]`);
    }
  }
  const shape = [...p.shape.slice(0, -1), n];
  if (add !== undefined) {
    checkOperand(add, name);
    checkDevice(storage, add.storage, name);
    if (!sameShape(add.layout.shape, shape)) {
      throw doNotFit(name, add.layout, q, `the residual must have shape ${formatShape(shape)}`);
    }
  }
  return shape;
}

/** Throws an ArgumentError for what is no activation. */
export function checkActivation(activation: unknown, name: string): void {
  if (activation === undefined || ACTIVATIONS.includes(activation as Activation)) return;
  throw new ArgumentError(
    `Cannot ${name} with activation ${describe(activation)}: it is one of ${
      ACTIVATIONS.join(", ")
    }`,
  );
}

// ---- plain weights -----------------------------------------------------------------------------

const LINEAR: Op = makeOp({
  kind: "kernel",
  name: "linear",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, weight, bias, add], name, attributes } = call;
    let dtype = productDType(name, x, weight);
    const shape = linearShape(call, (x as Operand).layout, (weight as Operand).layout);
    if (bias !== undefined && (bias as Operand).storage.info !== dtype) {
      dtype = promoteWith(name, dtype, bias);
    }
    const activation = (attributes as LinearAttributes | undefined)?.activation;
    if (activation !== undefined) dtype = ruleFor(MAP[activation], dtype, name).result;
    if (add !== undefined) dtype = promoteWith(name, dtype, add);
    return [{ shape, dtype }];
  },
  decompose(call: Call): Operand {
    const { name, inputs: [x, weight, bias, add], outputs: [out], attributes } = call;
    const activation = (attributes as LinearAttributes | undefined)?.activation;
    const columns = applyView(VIEWS.transpose, weight as Operand, "transpose");
    const only = activation === undefined && add === undefined ? out : undefined;
    let y: Operand;
    if (bias === undefined) y = dispatch(MATMUL, [x, columns], undefined, only, name);
    else {
      const { info } = (bias as Operand).storage;
      const plain = (x as Operand).storage.info === info && columns.storage.info === info;
      const dtype = plain ? undefined : {
        dtype: promoteWith(name, productDType(name, x, columns), bias).name,
      };
      const product = dispatch(MATMUL, [x, columns], dtype, undefined, name);
      y = applyInto(MAP.add, name, product, bias, undefined, only ?? product);
    }
    if (activation !== undefined) {
      const { info } = y.storage;
      const keeps = ruleFor(MAP[activation], info, name).result === info;
      const into = add === undefined && out !== undefined ? out : keeps ? y : undefined;
      y = apply(MAP[activation], y, undefined, undefined, { out: into }, name);
    }
    if (add === undefined) return y;
    return apply(MAP.add, y, add, undefined, { out }, name);
  },
});

/**
 * All inputs but the weight as kernels of the CPU take them: of `dtype`, in rows; null if they are so
 * already.
 */
function inRows(call: Call, dtype: DTypeInfo): Prepared | null {
  const { inputs, specs: [spec] } = call;
  let prepared: Input[] | null = null;
  for (let k = 0; k < inputs.length; k++) {
    const x = inputs[k];
    if (k === 1 || !isOperand(x)) continue;
    const { storage: { info }, layout } = x;
    if (info === dtype && (layout.contiguous || rowsOf(layout) !== null)) continue;
    prepared ??= inputs.slice();
    prepared[k] = kernelCopy(x, dtype);
  }
  const specs = resultIn(spec!, dtype);
  if (prepared === null && specs === undefined) return null;
  return { inputs: prepared ?? inputs, specs };
}

// ---- packed weights ----------------------------------------------------------------------------

/** Throws a DisposedError for a packed weight that was disposed. */
function checkPacked({ storage }: Operand, name: string): void {
  if (storage !== DISPOSED) return;
  throw new DisposedError(`Cannot ${name}: the packed weight was disposed`);
}

/** x: [..., I] by the panels of a weight, plus bias: [O] and residual; see {@link PackedAttributes}. */
const LINEAR_PACKED: Op = makeOp({
  kind: "kernel",
  name: "linearPacked",
  outOffset: true,
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, weight, bias, add], name, attributes } = call;
    const { columns, depth } = attributes as PackedAttributes;
    checkOperand(x, name);
    checkPacked(weight as Operand, name);
    const { storage } = weight as Operand;
    let dtype = productDType(name, x, weight);
    const shape = linearShape(call, x.layout, Layout.contiguous([columns, depth]));
    dtype = promoteWith(name, promoteWith(name, dtype, bias), add);
    if (dtype === DTYPE.float64) {
      const given = [x, bias, add].filter(isOperand).map((one) => one.storage.info.name);
      throw new DTypeError(
        `Cannot ${name} ${given.join(", ")} with a packed weight of ${storage.info.name}: the ` +
          "result would be float64; cast to float32 with astype(), or do not pack the weight",
      );
    }
    return [{ shape, dtype }];
  },
  prepare: (call: Call) =>
    isHost(call.operand(0).storage.memory) ? inRows(call, call.specs[0]!.dtype) : null,
  decompose(call: Call): Operand {
    const { name, inputs: [x, , bias, add], outputs: [out] } = call;
    const { columns, depth, activation } = call.attributes as PackedAttributes;
    const weight = call.operand(1);
    // Devices have the plain weight.
    const plain = weight.layout.shape.length === 2 ? weight : unpack(weight, columns, depth);
    return dispatch(LINEAR, [x, plain, bias, add], { activation }, out, name);
  },
});

// ---- quantized weights -------------------------------------------------------------------------

/** The layout of a quantized weight: [O, I]. */
function quantizedLayout(weight: Operand, call: Call): Layout {
  const { layout } = weight;
  const { columns } = call.attributes as QuantizedAttributes;
  if (columns === undefined) return layout;
  checkPacked(weight, call.name);
  return Layout.contiguous([columns, layout.shape.at(-1)!]);
}

/**
 * x: [..., I] by a quantized weight: [O, I], packed or not, plus bias: [O] and residual. The definition
 * multiplies by the numbers of its blocks; kernels may round rows of x to 8 bits.
 */
const LINEAR_QUANTIZED: Op = makeOp({
  kind: "kernel",
  name: "linearQuantized",
  contiguous: [1],
  outOffset: true,
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, weight, bias, add], name } = call;
    checkOperand(x, name);
    const plain = quantizedLayout(weight as Operand, call);
    checkOperand(weight, name);
    checkDevice(x.storage, weight.storage, name);
    // Throws for a view that cuts through blocks.
    if (!weight.layout.contiguous) lanesOf(weight, name);
    const { info } = x.storage;
    if (info.kind !== "f") {
      throw new DTypeError(
        `Cannot ${name} ${info.name} by a weight of ${weight.storage.info.name}: it takes floats`,
      );
    }
    const shape = linearShape(call, x.layout, plain);
    return call.result(shape, promoteWith(name, promoteWith(name, info, bias), add));
  },
  prepare(call: Call) {
    // Kernels of the CPU take rows of float32.
    const isFloat = call.specs[0]!.dtype !== DTYPE.float64 &&
      isHost(call.operand(0).storage.memory);
    return isFloat ? inRows(call, DTYPE.float32) : null;
  },
  decompose(call: Call): Operand {
    const { name, inputs: [x, weight, bias, add], attributes } = call;
    const { activation, columns } = attributes as QuantizedAttributes;
    const { dtype } = call.specs[0]!;
    const rows = columns === undefined || call.operand(1).layout.rank === 2
      ? weight!
      : unpack(call.operand(1), columns, call.operand(1).layout.shape.at(-1)!);
    const numbers = dispatch(DEQUANTIZE, [rows], undefined, undefined, name);
    const plain = cast(numbers, (dtype === DTYPE.float64 ? dtype : DTYPE.float32).name);
    const y = dispatch(LINEAR, [x!, plain, bias, add], { activation }, undefined, name);
    return cast(y, dtype.name);
  },
});

// ---- weights of int8 ---------------------------------------------------------------------------

/** x: [..., I], whose rows are rounded to 8 bits, by a weight of int8, plus bias: [O] and residual. */
const LINEAR_INT8: Op = makeOp({
  kind: "kernel",
  name: "linearInt8",
  outOffset: true,
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, weight, bias, add], name, attributes } = call;
    const { columns, depth } = attributes as PackedAttributes;
    checkOperand(x, name);
    checkPacked(weight as Operand, name);
    const { storage } = weight as Operand;
    checkDevice(x.storage, storage, name);
    const { info } = x.storage;
    if (info.kind !== "f") {
      throw new DTypeError(`Cannot ${name} ${info.name} by a weight of int8: it takes floats`);
    }
    const shape = linearShape(call, x.layout, Layout.contiguous([columns, depth]));
    return call.result(shape, promoteWith(name, promoteWith(name, info, bias), add));
  },
  prepare: (call: Call) => inRows(call, DTYPE.float32),
  decompose(call: Call): Operand {
    const { name, inputs, specs: [spec], attributes } = call;
    const { columns, depth, activation } = attributes as PackedAttributes;
    const { dtype, shape } = spec!;
    const floats = (input: Input): Input => isOperand(input) ? cast(input, "float32") : input;
    const [x, bias, add] = [floats(inputs[0]), floats(inputs[2]), floats(inputs[3])];
    const weight = dequantizeInt8(call.operand(1), columns, depth);
    // Rows without elements have no largest one.
    const rows = depth === 0 || shape.includes(0) ? x : roundRows(x as Operand);
    const y = dispatch(LINEAR, [rows, weight, bias, add], { activation }, undefined, name);
    return cast(y, dtype.name);
  },
});

/** The blocks of rows of x, each as its least number plus a multiple of a 255th of its range. */
function roundRows(x: Operand): Operand {
  const { shape } = x.layout;
  const last = shape.length - 1, depth = shape[last]!;
  const options = { axis: [last], keepDims: true };
  const blocks: Operand[] = [];
  for (let at = 0; at < depth; at += INT8_BLOCK) {
    const size = Math.min(INT8_BLOCK, depth - at);
    const block = applyView(VIEWS.narrow, x, "narrow", last, at, size);
    const least = dispatch(REDUCE.min, [block], options, undefined, "linear");
    const most = dispatch(REDUCE.max, [block], options, undefined, "linear");
    // Halves, as kernels have them: the difference may overflow.
    const range = apply(MAP.sub, apply(MAP.mul, most, 0.5), apply(MAP.mul, least, 0.5));
    const step = apply(MAP.div, range, 127.5);
    // As kernels do, which multiply.
    const inverse = apply(MAP.where, apply(MAP.equal, step, 0), 0, apply(MAP.div, 1, step));
    const count = apply(MAP.round, apply(MAP.mul, apply(MAP.sub, block, least), inverse));
    blocks.push(apply(MAP.add, apply(MAP.mul, count, step), least));
  }
  return blocks.length === 1 ? blocks[0]! : concat(blocks, last);
}

// ---- the way back ------------------------------------------------------------------------------

/** Attributes of {@link LINEAR_BACK}: the sizes of the weight. */
interface BackAttributes {
  readonly columns: number;
  readonly depth: number;
}

/** The most elements of a weight that are plain numbers at a time. */
const MOST_PLAIN = 1 << 20;

/** Rows of a packed or quantized weight as numbers of `info`. */
function plainRows(weight: Operand, begin: number, end: number, info: DTypeInfo): Operand {
  const { layout: { rank, shape } } = weight;
  const depth = rank === 3 && !isQuantized(weight.storage.info) ? shape[1]! : shape.at(-1)!;
  const rows = rank === 2
    ? applyView(VIEWS.narrow, weight, "narrow", 0, begin, end - begin)
    : unpackRows(weight, begin, end, depth);
  return cast(isQuantized(rows.storage.info) ? dispatch(DEQUANTIZE, [rows]) : rows, info.name);
}

/**
 * g: [..., O] by a packed or quantized weight: [O, I], gives [..., I]: the derivative of a linear layer
 * by x. A part of the weight at a time is plain numbers, so that programs keep no copy of it.
 */
const LINEAR_BACK: Op = makeOp({
  kind: "kernel",
  name: "linearBack",
  infer(call: Call): readonly OutputSpec[] {
    const { depth } = call.attributes as BackAttributes;
    const { storage: { info }, layout: { shape } } = call.operand(0);
    return call.result([...shape.slice(0, -1), depth], info);
  },
  decompose(call: Call): Operand {
    const { name, attributes } = call;
    const { columns, depth } = attributes as BackAttributes;
    const [g, weight] = [call.operand(0), call.operand(1)];
    const { storage: { info }, layout: { rank } } = g;
    const count = Math.max(1, Math.floor(MOST_PLAIN / depth / PANEL_COLUMNS)) * PANEL_COLUMNS;
    const product = (begin: number): Operand =>
      tidy(() => {
        const end = Math.min(columns, begin + count);
        const part = applyView(VIEWS.narrow, g, "narrow", rank - 1, begin, end - begin);
        return dispatch(
          MATMUL,
          [part, plainRows(weight, begin, end, info)],
          undefined,
          undefined,
          name,
        );
      });
    const sum = product(0);
    for (let begin = count; begin < columns; begin += count) {
      tidy(() => void applyInto(MAP.add, name, sum, product(begin), undefined, sum));
    }
    return sum;
  },
});

/** The product of g: [..., O] and a packed or quantized weight, which is [columns, depth]. */
export function linearBack(g: Operand, weight: Operand, columns: number, depth: number): Operand {
  return dispatch(LINEAR_BACK, [g, weight], { columns, depth } satisfies BackAttributes);
}

/**
 * x: [..., I] by weight: [O, I], plus bias: [O], gives [..., O], then an activation and a residual;
 * all dtypes promote.
 */
export function linear(
  x: Operand,
  weight: Operand | AnyPackedWeight,
  bias: Operand | undefined,
  options: LinearOptions = {},
): Operand {
  checkOptions("linear", options, LINEAR_OPTIONS);
  const { activation, add, out } = options;
  checkActivation(activation, "linear");
  if (isOperand(weight)) {
    const { storage } = weight;
    if (storage.exposed) checkAlive(storage, "linear");
    if (isQuantized(storage.info)) {
      return dispatch(LINEAR_QUANTIZED, [x, weight, bias, add], { activation }, out, "linear");
    }
  }
  if (!(weight instanceof PackedWeight)) {
    const inputs = add === undefined ? [x, weight, bias] : [x, weight, bias, add];
    const attributes = activation === undefined ? undefined : { activation };
    return dispatch(LINEAR, inputs, attributes, out, "linear");
  }
  const [columns, depth] = weight.shape as readonly [number, number];
  if (isQuantized(DTYPE[weight.dtype])) {
    const inputs = [x, weight.panels, bias, add];
    return dispatch(LINEAR_QUANTIZED, inputs, { columns, activation }, out, "linear");
  }
  if (weight.dtype === "int8") {
    const inputs = [x, weight.panels, bias, add];
    return dispatch(LINEAR_INT8, inputs, { columns, depth, activation }, out, "linear");
  }
  const inputs = add === undefined ? [x, weight.panels, bias] : [x, weight.panels, bias, add];
  return dispatch(LINEAR_PACKED, inputs, { columns, depth, activation }, out, "linear");
}
