/**
 * The kernels of the shim for ops without an expression in the table: the calls that each supports,
 * and its arguments. Every operand is checked against its storage first, as C does not check.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { ATTRIBUTES, type Plan, planMap } from "../../base/plan.ts";
import { alongAxis, gatherBlocks, hasIndexTensor, scatterBlocks } from "../../ops/index/kernels.ts";
import { copyInto } from "../../core/dispatch.ts";
import { runsConvolve } from "../../ops/fft/convolve.ts";
import { runsFft } from "../../ops/fft/problem.ts";
import { gemmOf, isPlainGemm } from "../../ops/matmul/problem.ts";
import {
  type Activation,
  hasFloatRows,
  isPackedCall,
  type PackBlocksAttributes,
  type PackedAttributes,
  type QuantizedAttributes,
  rowsOf,
} from "../../ops/linear/panels.ts";
import { isRowCall, rowsOf as rowsOfCall } from "../../ops/softmax_norm/problem.ts";
import { planComplex } from "../../core/lanes.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import { COMPLEX_NUMBER, type ComplexAttributes } from "../../ops/complex/op.ts";
import type {
  CategoricalAttributes,
  DeviateAttributes,
  RandomAttributes,
} from "../../ops/random/op.ts";
import { type SortAttributes, sortsLastAxis } from "../../ops/sort/op.ts";
import type { ChainAttributes } from "../../ops/chain/steps.ts";
import type { Call } from "../../table/op.ts";
import { quantFormatOf } from "../../ops/quantized/dtypes.ts";
import { QUANT, type QuantName } from "../../ops/quantized/formats.ts";
import { ACTIVATION, DEVIATE, RANDOM } from "../ffi/abi.ts";
import { checkBlocks, checkLayout, checkOperand, checkRun, movesNothing } from "../ffi/checks.ts";
import { planProduct } from "../ffi/matrices.ts";
import { chainNumbers, hasChainKernels } from "./chain.ts";
import { type ConvPlan, planConv, planWinograd, runsConv } from "./conv.ts";
import { SELECTION } from "./selection.ts";
import { planCollective, runsCollective } from "./collective.ts";
import { NATIVE_LINALG, prepareLinalg, runsLinalg } from "./linalg.ts";
import { planConvolve, planFft } from "./fft.ts";
import {
  isPlainAttention,
  isPlainCachedAttention,
  isPlainRope,
  planAttention,
  planCachedAttention,
  planRope,
} from "./attention.ts";
import type { Handed, Kernel } from "./kernel.ts";
import { SET_KERNELS } from "./sets.ts";

/** The numbers of calls without a plan. */
const own = new Float64Array(ATTRIBUTES + 8);
let matrices = new Float64Array(64);
let heads = new Float64Array(64);

const always = (): boolean => true;

const COLLECTIVE_KERNEL: Kernel = { supports: runsCollective, prepare: planCollective };

/** Writes attributes of a kernel. */
function setAttributes(numbers: Float64Array, ...attributes: readonly number[]): void {
  for (let i = 0; i < attributes.length; i++) numbers[ATTRIBUTES + i] = attributes[i]!;
}

/** Reads the place of the first index out of range. */
function takeBadIndex(call: Call, numbers: Float64Array): void {
  call.badIndex = numbers[ATTRIBUTES]!;
}

/** A kernel that moves blocks of elements by a vector of indices. */
function mover(gathers: boolean): Kernel {
  return {
    supports: always,
    prepare(call) {
      const blocks = gathers ? gatherBlocks(call) : scatterBlocks(call);
      const { plan, out, source, step } = blocks;
      const { indices, offset, count, size, stride } = blocks.index;
      if (movesNothing(blocks)) return null;
      const [stepped, indexed] = [(count - 1) * step, (size - 1) * stride];
      checkBlocks(call.op.name, plan, 0, out, gathers ? stepped : indexed);
      checkBlocks(call.op.name, plan, 1, source, gathers ? indexed : stepped);
      checkRun(call.op.name, 2, offset, count, indices);
      setAttributes(plan.data, offset, count, size, stride, step);
      return { numbers: plan.data, out, a: source, b: indices };
    },
    finish: takeBadIndex,
  };
}

const ravelIndex: Kernel = {
  supports: always,
  prepare(call) {
    const [positions, index] = [call.operand(0), call.operand(1)];
    const plan: Plan = planMap(positions.layout, index.layout, null, null);
    if (plan.size === 0) return null;
    checkOperand("ravelIndex", plan, 0, positions.storage);
    checkOperand("ravelIndex", plan, 1, index.storage);
    setAttributes(plan.data, call.attributes.size, call.attributes.stride);
    return { numbers: plan.data, out: positions.storage, a: index.storage };
  },
  finish: takeBadIndex,
};

const takeAlongAxis: Kernel = {
  supports: hasIndexTensor,
  prepare(call) {
    const { plan, size, stride } = alongAxis(call);
    const [out, source] = [call.outputs[0]!.storage, call.operand(0).storage];
    const indices = call.operand(1).storage;
    if (plan.size === 0 || size === 0) return null;
    checkOperand("takeAlongAxis", plan, 0, out);
    checkBlocks("takeAlongAxis", plan, 1, source, (size - 1) * stride);
    checkOperand("takeAlongAxis", plan, 2, indices);
    setAttributes(plan.data, size, stride);
    return { numbers: plan.data, out, a: source, b: indices };
  },
  finish: takeBadIndex,
};

const nonzeroIndices: Kernel = {
  supports: always,
  prepare(call) {
    const { storage, layout: { offset, size } } = call.operand(0);
    const out = call.outputs[0]!.storage;
    if (size === 0) return null;
    checkRun("nonzeroIndices", 1, offset, size, storage);
    setAttributes(own, offset, size, out.length);
    return { numbers: own, out, a: storage };
  },
};

/** Writes the attributes of a sort of the runs of `values`, along the last axis. */
function setRuns(call: Call, { storage, layout: { offset, shape, size } }: Operand): void {
  const length = shape.at(-1)!;
  checkRun(call.op.name, 0, offset, size, storage);
  const { descending } = call.attributes as SortAttributes;
  setAttributes(own, offset, size / length, length, descending ? 1 : 0);
}

const sort: Kernel = {
  supports: sortsLastAxis,
  prepare(call) {
    const [out] = call.outputs;
    copyInto(out!, call.operand(0));
    setRuns(call, out!);
    return { numbers: own, out: out!.storage };
  },
};

const argsort: Kernel = {
  supports: sortsLastAxis,
  prepare(call) {
    const [x, out] = [call.operand(0), call.outputs[0]!.storage];
    setRuns(call, x);
    checkRun("argsort", 1, 0, x.layout.size, out);
    return { numbers: own, out, a: x.storage };
  },
};

/** The longest rows of results kept in heaps; sorting is faster for most longer ones. */
const SMALL_K = 64;

const topk: Kernel = {
  supports(call) {
    const { k } = call.attributes;
    return sortsLastAxis(call) && k > 0 &&
      (k <= SMALL_K || 16 * k <= call.operand(0).layout.shape.at(-1)!);
  },
  prepare(call) {
    const { storage, layout: { offset, size, shape } } = call.operand(0);
    const [values, indices] = call.outputs as [Operand, Operand];
    const { k, largest, sorted } = call.attributes;
    const n = shape.at(-1)!;
    checkRun("topk", 0, 0, values.layout.size, values.storage);
    checkRun("topk", 1, offset, size, storage);
    checkRun("topk", 2, 0, indices.layout.size, indices.storage);
    setAttributes(own, offset, size / n, n, k, Number(largest), Number(sorted));
    return { numbers: own, out: values.storage, a: storage, b: indices.storage };
  },
};

const complexMap: Kernel = {
  supports: always,
  prepare(call) {
    const plan = planComplex(call);
    if (plan.size === 0) return null;
    const { op } = call.attributes as ComplexAttributes;
    const out = call.operand(0).storage, a = call.operand(1).storage;
    const b = call.inputs.length > 2 ? call.operand(2).storage : null;
    checkOperand("complexMap", plan, 0, out);
    checkOperand("complexMap", plan, 1, a);
    if (b !== null) checkOperand("complexMap", plan, 2, b);
    plan.data[ATTRIBUTES] = COMPLEX_NUMBER.get(op)!;
    return { numbers: plan.data, out, a, b };
  },
};

const random: Kernel = {
  supports: always,
  prepare(call) {
    const { distribution, key: [key0, key1], low, high } = call.attributes as RandomAttributes;
    const { storage } = call.operand(0);
    if (storage.length === 0) return null;
    const words = new Uint32Array(new BigInt64Array([low, high - low]).buffer);
    const keys = [key0 >>> 0, key1 >>> 0];
    setAttributes(own, RANDOM[distribution], ...keys, ...words, storage.length);
    return { numbers: own, out: storage };
  },
};

/** Checks a contiguous operand, and returns its offset. */
function offsetOf(call: Call, k: number): number {
  const { storage, layout: { offset, size } } = call.operand(k);
  checkRun(call.op.name, k + 1, offset, size, storage);
  return offset;
}

const deviates: Kernel = {
  supports: always,
  prepare(call) {
    const { distribution } = call.attributes as DeviateAttributes;
    const [key, a, b] = [call.operand(0), call.operand(1), call.operand(2)];
    const { storage, layout: { size } } = call.outputs[0]!;
    if (size === 0) return null;
    checkRun("deviates", 0, 0, size, storage);
    const [many, pairs] = [Number(a.layout.size > 1), Number(b.layout.size > 1)];
    const offsets = [offsetOf(call, 0), offsetOf(call, 1), offsetOf(call, 2)];
    setAttributes(own, DEVIATE[distribution], size, many, pairs, ...offsets);
    return { numbers: own, out: storage, a: key.storage, b: a.storage, c: b.storage };
  },
  finish: takeBadIndex,
};

const categorical: Kernel = {
  supports: always,
  prepare(call) {
    const { logits, draws } = call.attributes as CategoricalAttributes;
    const [key, weights] = [call.operand(0), call.operand(1)];
    const { storage, layout: { size } } = call.outputs[0]!;
    if (size === 0) return null;
    const length = weights.layout.shape.at(-1)!;
    checkRun("categorical", 0, 0, size, storage);
    const offsets = [offsetOf(call, 0), offsetOf(call, 1)];
    setAttributes(own, draws, size / draws, length, Number(logits), ...offsets);
    return { numbers: own, out: storage, a: key.storage, b: weights.storage };
  },
  finish: takeBadIndex,
};

const matmul: Kernel = {
  supports: isPlainGemm,
  prepare(call) {
    const problem = gemmOf(call);
    matrices = planProduct("matmul", matrices, problem, 10);
    const { c, a, b } = problem;
    return { numbers: matrices, out: c.storage, a: a.storage, b: b.storage };
  },
};

/** Softmax and norms along contiguous rows of floats. */
const rows: Kernel = {
  supports: isRowCall,
  prepare(call) {
    const [out, x] = [call.outputs[0]!.storage, call.operand(0)];
    const { rows, columns, weight, bias, epsilon } = rowsOfCall(call);
    const { offset } = x.layout;
    const { name } = call.op;
    checkRun(name, 0, 0, rows * columns, out);
    checkRun(name, 1, offset, rows * columns, x.storage);
    if (weight !== null) checkRun(name, 2, 0, columns, weight);
    if (bias !== null) checkRun(name, 3, 0, columns, bias);
    setAttributes(own, rows, columns, offset, epsilon);
    return { numbers: own, out, a: x.storage, b: weight, c: bias };
  },
};

/** The buffers that `rm_run_many` takes. */
const BUFFERS = 8;

const chain: Kernel = {
  supports({ inputs, attributes }, numberOf) {
    const { steps, outputs } = attributes as ChainAttributes;
    return inputs.filter(isOperand).length + outputs.length <= BUFFERS &&
      hasChainKernels(steps, numberOf);
  },
  prepare(call, numberOf) {
    const ready = chainNumbers(call, numberOf);
    if (ready === null) return null;
    const [out, a = null, b = null, c = null, ...rest] = ready.operands
      .map(({ storage }) => storage);
    const more = rest.length === 0 ? {} : { more: rest };
    return { numbers: ready.numbers, out: out!, a, b, c, ...more };
  },
};

const attention: Kernel = {
  supports: isPlainAttention,
  prepare(call) {
    heads = planAttention(call, heads);
    const [out] = call.outputs as [Operand];
    const [q, k, v, mask] = call.inputs as [Operand, Operand, Operand, Operand?];
    const [a, b, c] = [q.storage, k.storage, v.storage];
    const more = mask === undefined ? {} : { more: [mask.storage] };
    return { numbers: heads, out: out.storage, a, b, c, ...more };
  },
};

const cachedAttention: Kernel = {
  supports: isPlainCachedAttention,
  prepare(call) {
    const { numbers, cached } = planCachedAttention(call);
    const [q, k, v, , , lengths] = call.inputs as Operand[];
    return {
      numbers,
      out: call.outputs[0]!.storage,
      a: q!.storage,
      b: k!.storage,
      c: v!.storage,
      more: [...cached, lengths!.storage],
    };
  },
};

const rope: Kernel = {
  supports: (call) => isPlainRope(call),
  prepare(call) {
    const [a, b, c] = call.inputs as Operand[];
    return {
      numbers: planRope(call),
      out: call.outputs[0]!.storage,
      a: a!.storage,
      b: b!.storage,
      c: c!.storage,
    };
  },
};

/** The numbers of {@link linearPacked}. */
const product = new Float64Array(16);
/** The index of the format, after which come the offset of the weight and whether it is packed. */
const FORMAT = 13;

/** Checks rows of an operand, and gives its offset and the distance between its rows. */
function rowsAt(place: number, { storage, layout }: Operand): [offset: number, stride: number] {
  const { stride } = rowsOf(layout)!;
  checkLayout("linearPacked", place, layout, storage);
  return [layout.offset, stride];
}

/** Stands for the buffer of an operand that is not given. */
const NO_BUFFER = -1;
/** The buffer of the first of the optional operands. */
const FIRST_OPTIONAL = 3;

/** Writes the numbers of a product of rows with a weight; returns the storages of options. */
function planRows(call: Call, columns: number, depth: number): readonly Storage[] {
  const { activation = "none" } = call.attributes as { readonly activation?: Activation };
  const { inputs: [, , bias, add] } = call;
  const [x, out] = [call.operand(0), call.outputs[0]!];
  product.fill(0);
  product.set([rowsOf(x.layout)!.rows, columns, depth, ACTIVATION[activation]]);
  product.set([...rowsAt(0, out), ...rowsAt(1, x)], 4);
  product[8] = product[10] = NO_BUFFER;
  const optional: Storage[] = [];
  if (isOperand(bias)) {
    product.set([FIRST_OPTIONAL, rowsAt(FIRST_OPTIONAL, bias)[0]], 8);
    optional.push(bias.storage);
  }
  if (isOperand(add)) {
    const place = FIRST_OPTIONAL + optional.length;
    product.set([place, ...rowsAt(place, add)], 10);
    optional.push(add.storage);
  }
  return optional;
}

/** A call with the numbers of {@link planRows} and the weight `b`. */
function handedRows(call: Call, b: Storage, optional: readonly Storage[]): Handed {
  const [c = null, ...more] = optional;
  const handed = {
    numbers: product,
    out: call.outputs[0]!.storage,
    a: call.operand(0).storage,
    b,
    c,
  };
  return more.length > 0 ? { ...handed, more } : handed;
}

const linearPacked: Kernel = {
  supports: (call) => isPackedCall(call) && call.specs[0]!.shape.every((n) => n > 0),
  prepare(call) {
    const { columns, depth } = call.attributes as PackedAttributes;
    const panels = call.operand(1);
    checkRun("linearPacked", 2, 0, panels.layout.size, panels.storage);
    return handedRows(call, panels.storage, planRows(call, columns, depth));
  },
};

const linearQuantized: Kernel = {
  supports(call) {
    const { shape } = call.specs[0]!;
    return hasFloatRows(call) && !shape.includes(0) && call.operand(1).layout.size > 0;
  },
  prepare(call) {
    const { storage, layout } = call.operand(1);
    const { type, size, bytes } = quantFormatOf(storage.info)!;
    const { columns } = call.attributes as QuantizedAttributes;
    const { shape } = layout;
    checkRun("linearQuantized", 2, layout.offset, layout.size, storage);
    const optional = planRows(call, columns ?? shape[0]!, shape.at(-1)!);
    const isPacked = columns === undefined ? 0 : 1;
    product.set([type, layout.offset / size * bytes, isPacked], FORMAT);
    return handedRows(call, storage.lanes, optional);
  },
};

const linearInt8: Kernel = {
  supports: (call) =>
    hasFloatRows(call) && !call.specs[0]!.shape.includes(0) &&
    (call.attributes as PackedAttributes).depth > 0,
  prepare(call) {
    const { columns, depth } = call.attributes as PackedAttributes;
    const { storage, layout: { size } } = call.operand(1);
    checkRun("linearInt8", 2, 0, size, storage);
    return handedRows(call, storage, planRows(call, columns, depth));
  },
};

const matmulInt8: Kernel = {
  supports: (call) => call.operand(0).layout.size > 0 && call.operand(1).layout.size > 0,
  prepare(call) {
    const [a, b, out] = [call.operand(0), call.operand(1), call.outputs[0]!];
    for (const [i, { storage, layout: { offset, size } }] of [out, a, b].entries()) {
      checkRun("matmulInt8", i, offset, size, storage);
    }
    const [m, k] = a.layout.shape as [number, number];
    const offsets = [out, a, b].map(({ layout: { offset } }) => offset);
    const numbers = Float64Array.of(m, b.layout.shape[1]!, k, ...offsets);
    return { numbers, out: out.storage, a: a.storage, b: b.storage };
  },
};

const quantizeInt8: Kernel = {
  supports: (call) => call.operand(0).storage.info === DTYPE.float32,
  prepare(call) {
    const [w, out] = [call.operand(0), call.outputs[0]!];
    for (const [i, { storage, layout: { offset, size } }] of [out, w].entries()) {
      checkRun("quantizeInt8", i, offset, size, storage);
    }
    const [rows, depth] = w.layout.shape as [number, number];
    const numbers = Float64Array.of(rows, depth, out.layout.offset, w.layout.offset);
    return { numbers, out: out.storage, a: w.storage };
  },
};

const dequantizeBlocks: Kernel = {
  supports: always,
  prepare(call) {
    const { format } = call.attributes as { readonly format: QuantName };
    const { type, size } = QUANT[format];
    const [blocks, out] = [call.operand(0), call.outputs[0]!];
    for (const [i, { storage, layout: { offset, size } }] of [out, blocks].entries()) {
      checkRun("dequantizeBlocks", i, offset, size, storage);
    }
    const numbers = Float64Array.of(
      type,
      out.layout.size / size,
      out.layout.offset,
      blocks.layout.offset,
    );
    return { numbers, out: out.storage, a: blocks.storage };
  },
};

const quantize: Kernel = {
  supports: (call) => call.operand(0).storage.info === DTYPE.float32,
  prepare(call) {
    const { format } = call.attributes as { readonly format: QuantName };
    const { type, size, bytes } = QUANT[format];
    const [x, out] = [call.operand(0), call.outputs[0]!];
    for (const [i, { storage, layout: { offset, size } }] of [out, x].entries()) {
      checkRun("quantize", i, offset, size, storage);
    }
    const numbers = Float64Array.of(
      type,
      x.layout.size / size,
      out.layout.offset / size * bytes,
      x.layout.offset,
    );
    return { numbers, out: out.storage.lanes, a: x.storage };
  },
};

const packBlocks: Kernel = {
  supports: (call) => call.operand(0).layout.size > 0,
  prepare(call) {
    const { format, rows, unpacks } = call.attributes as PackBlocksAttributes;
    const { type, bytes } = QUANT[format];
    const [from, out] = [call.operand(0), call.outputs[0]!];
    for (const [i, { storage, layout: { offset, size } }] of [out, from].entries()) {
      checkRun("packBlocks", i, offset, size, storage);
    }
    const blocks = (unpacks ? out : from).layout.size / rows / bytes;
    const offsets = [out.layout.offset, from.layout.offset];
    const numbers = Float64Array.of(type, rows, blocks, ...offsets, unpacks ? 1 : 0);
    return { numbers, out: out.storage, a: from.storage };
  },
};

/** The kernel of a convolution. */
const convolution = (plan: (call: Call) => ConvPlan): Kernel => ({
  supports: runsConv,
  prepare(call) {
    const { numbers, optional: [c = null, ...more] } = plan(call);
    const [a, b] = [call.operand(0).storage, call.operand(1).storage];
    const handed = { numbers, out: call.outputs[0]!.storage, a, b, c };
    return more.length > 0 ? { ...handed, more } : handed;
  },
});

const linalg: Kernel = {
  usesBlas: true,
  supports: runsLinalg,
  prepare(call) {
    const { more, ...handed } = prepareLinalg(call);
    return more.length > 0 ? { ...handed, more } : handed;
  },
  finish: takeBadIndex,
};

/** The kernels by the names of their ops. */
export const KERNELS: ReadonlyMap<string, Kernel> = new Map(Object.entries({
  gather: mover(true),
  scatter: mover(false),
  scatterAdd: mover(false),
  ravelIndex,
  takeAlongAxis,
  nonzeroIndices,
  sort,
  argsort,
  topk,
  complexMap,
  ...SELECTION,
  random,
  deviates,
  categorical,
  matmul,
  softmax: rows,
  logSoftmax: rows,
  layerNorm: rows,
  rmsNorm: rows,
  chain,
  attention,
  cachedAttention,
  rope,
  linearPacked,
  conv: convolution(planConv),
  dequantizeBlocks,
  packBlocks,
  linearQuantized,
  linearInt8,
  quantizeInt8,
  matmulInt8,
  quantize,
  winograd: convolution(planWinograd),
  ...Object.fromEntries(NATIVE_LINALG.map((name) => [name, linalg])),
  fft: { supports: runsFft, prepare: planFft },
  allReduce: COLLECTIVE_KERNEL,
  allGather: COLLECTIVE_KERNEL,
  reduceScatter: COLLECTIVE_KERNEL,
  broadcast: COLLECTIVE_KERNEL,
  allToAll: COLLECTIVE_KERNEL,
  ...SET_KERNELS,
  convolve: { supports: runsConvolve, prepare: planConvolve },
}));
