/**
 * The numbers of the shim's kernel for attention, and the calls that it supports.
 *
 * @module
 */
import {
  type AttentionAttributes,
  attentionBackwardOf,
  attentionOf,
  type AttentionProblem,
  type AttentionSizes,
  CACHED_INPUTS,
  cachedAttentionOf,
  type CachedAttributes,
} from "../../ops/attention/problem.ts";
import { writeOffsets } from "../../ops/matmul/problem.ts";
import { type Rows, rowsOf } from "../../ops/linear/panels.ts";
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Call } from "../../table/op.ts";
import { quantFormatOf } from "../../ops/quantized/dtypes.ts";
import { QUANT } from "../../ops/quantized/formats.ts";
import { checkLayout, checkRun } from "../ffi/checks.ts";
import { ATTENTION_AT, ATTENTION_BACKWARD_AT, CACHED_ATTENTION_AT } from "../ffi/abi.ts";
import type { Kernel } from "./kernel.ts";

/** True for floats of 16 and 32 bits. */
function isNarrow({ storage: { info } }: Operand): boolean {
  return info.kind === "f" && info.bytes <= 4;
}

/** True if the kernel can run the call: nothing to cast, and nothing empty. */
function isPlainAttention(call: Call): boolean {
  const { shape, dtype } = call.specs[0]!;
  const mask = call.inputs[3] as Operand | undefined;
  for (let k = 0; k < 3; k++) if (call.operand(k).storage.info !== dtype) return false;
  const { n, d } = call.memo as AttentionSizes;
  return isNarrow(call.operand(0)) && n > 0 && d > 0 && !shape.includes(0) &&
    (mask === undefined || mask.storage.info.kind === "b" || isNarrow(mask));
}

/** The length of the numbers of a call. */
export function attentionLength(numbers: ArrayLike<number>): number {
  return ATTENTION_AT.numbers + 5 * numbers[ATTENTION_AT.batch]!;
}

/** Writes the numbers of a call to `numbers`, or to a longer array if that is too short. */
function planAttention(
  call: Call,
  numbers: Float64Array<ArrayBuffer>,
): Float64Array<ArrayBuffer> {
  const problem = attentionOf(call);
  const needed = attentionLength([problem.batch]);
  if (numbers.length < needed) numbers = new Float64Array(2 * needed);
  writeProblem(problem, numbers);
  return numbers;
}

function writeProblem(problem: AttentionProblem, numbers: Float64Array<ArrayBuffer>): void {
  const { batch, groupSize, m, n, d, dv, scale, causal, plain, out, q, k, v, mask } = problem;
  const { softCap = Infinity } = problem;
  const flags = Number(causal) + 2 * Number(!plain);
  const cap = softCap === Infinity ? 0 : softCap;
  numbers.set([batch, groupSize, m, n, d, dv, scale, flags, cap]);
  [out, q, k, v, mask].forEach((heads, i) => {
    if (heads === null) return;
    checkLayout("attention", i, heads.whole, heads.matrices.storage);
    const { matrices, groupStride } = heads;
    const at = ATTENTION_AT.strides + 3 * i;
    numbers[at] = groupStride;
    numbers[at + 1] = matrices.rowStride;
    numbers[at + 2] = matrices.columnStride;
    writeOffsets(matrices, numbers, ATTENTION_AT.numbers + i * batch);
  });
}

/** True if the kernel of `cachedAttention` can run the call. */
function isPlainCachedAttention(call: Call): boolean {
  const { shape, dtype } = call.specs[0]!;
  const { keys, values, length, sinks, pages } = CACHED_INPUTS;
  const has = (i: number, info: DTypeInfo): boolean => {
    const x = call.inputs[i] as Operand | undefined;
    return x === undefined || x.storage.info === info;
  };
  const fits = has(0, dtype) && has(length, DTYPE.int32) && has(sinks, DTYPE.float32) &&
    has(pages, DTYPE.int32) && !shape.includes(0) && (call.memo as AttentionSizes).d > 0;
  return fits && [0, 1, 2].every((i) => isNarrow(call.operand(i))) &&
    [keys, values].map((i) => call.operand(i)).every((x) =>
      (isNarrow(x) || quantFormatOf(x.storage.info) === QUANT.q8_0) && x.layout.strides.at(-1) === 1
    );
}

/** The numbers of a call of `cachedAttention`, and the bytes or elements of its cache. */
function planCachedAttention(
  call: Call,
): { numbers: Float64Array<ArrayBuffer>; cached: readonly [Storage, Storage] } {
  const problem = cachedAttentionOf(call);
  const { batch, keys, values, capacity, problemsPerLength, pages } = problem;
  const { window, stepwise } = call.attributes as CachedAttributes;
  const [lengths, sinks, table] = [
    ...[CACHED_INPUTS.length, CACHED_INPUTS.sinks, CACHED_INPUTS.pages],
  ].map((i) => call.inputs[i] as Operand | undefined);
  const base = attentionLength([batch]), offsets = base + CACHED_ATTENTION_AT.numbers;
  const numbers = new Float64Array(offsets + 2 * batch);
  writeProblem(problem, numbers);
  const own: Readonly<Record<Exclude<keyof typeof CACHED_ATTENTION_AT, "numbers">, number>> = {
    keyStride: keys.matrices.rowStride,
    valueStride: values.matrices.rowStride,
    capacity,
    problemsPerLength,
    lengthOffset: lengths!.layout.offset,
    window: window === Infinity ? 0 : window,
    keyHeads: call.operand(1).layout.shape.at(-3)!,
    sinkOffset: sinks?.layout.offset ?? 0,
    stepwise: Number(stepwise),
    pageRows: pages?.rows ?? 0,
    pageCount: pages?.count ?? 0,
    keyPageStride: pages?.strides[0] ?? 0,
    valuePageStride: pages?.strides[1] ?? 0,
    problemsPerTable: pages?.problemsPerTable ?? 0,
    tableOffset: table?.layout.offset ?? 0,
  };
  for (const name in own) {
    const key = name as keyof typeof own;
    numbers[base + CACHED_ATTENTION_AT[key]] = own[key];
  }
  [lengths, sinks, table].forEach((x, i) => {
    if (x === undefined) return;
    checkRun("cachedAttention", 6 + i, x.layout.offset, x.layout.size, x.storage);
  });
  [keys, values].forEach(({ whole, matrices }, i) => {
    checkLayout("cachedAttention", 4 + i, whole, matrices.storage);
    writeOffsets(matrices, numbers, offsets + i * batch);
  });
  return { numbers, cached: [keys.matrices.storage, values.matrices.storage] };
}

/** The distance between matrices of the operand of `rope`, and their number; null if it varies. */
function matricesOf({ layout }: Operand): Rows | null {
  return rowsOf(layout.selectAxis(layout.shape.length - 2, 0));
}

/** True if the kernel of `rope` can run the call. */
function isPlainRope(call: Call): boolean {
  const all = [0, 1, 2].map((k) => call.operand(k)) as [Operand, Operand, Operand];
  const [x, ...angles] = all;
  const { shape, strides, size } = x.layout;
  return all.every(({ storage }) => storage.info === DTYPE.float32) && size > 0 &&
    angles.every(({ layout }) =>
      layout.contiguous && layout.rank === 2 && layout.shape[0] === shape.at(-2)
    ) &&
    strides.at(-1) === 1 && matricesOf(x) !== null;
}

/** The numbers of a call of `rope`. */
function planRope(call: Call): Float64Array<ArrayBuffer> {
  const out = call.outputs[0]!;
  const [x, cos, sin] = [0, 1, 2].map((k) => call.operand(k)) as [Operand, Operand, Operand];
  const { interleaved } = call.attributes as { readonly interleaved: boolean };
  const { rows: matrices, stride } = matricesOf(x)!;
  const [rows, columns] = x.layout.shape.slice(-2) as [number, number];
  checkLayout("rope", 1, x.layout, x.storage);
  for (const [i, { layout, storage }] of [[0, out], [2, cos], [3, sin]] as const) {
    checkRun("rope", i, layout.offset, layout.size, storage);
  }
  return Float64Array.of(
    ...[matrices, rows, columns, cos.layout.shape[1]!, Number(interleaved)],
    ...[stride, x.layout.strides.at(-2)!],
    ...[out, x, cos, sin].map(({ layout }) => layout.offset),
  );
}

let heads = new Float64Array(64);

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
    const [q, k, v, , , lengths, sinks, pages] = call.inputs as (Operand | undefined)[];
    const more = [...cached, lengths!.storage, sinks?.storage ?? null, pages?.storage ?? null];
    return {
      numbers,
      out: call.outputs[0]!.storage,
      a: q!.storage,
      b: k!.storage,
      c: v!.storage,
      more,
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

const attentionBackward: Kernel = {
  supports: ({ inputs }) =>
    (inputs as Operand[]).every(({ storage, layout: { size } }) =>
      storage.info === DTYPE.float32 && size > 0
    ),
  prepare(call) {
    const { batch, groupSize, m, n, d, dv, operands } = attentionBackwardOf(call);
    const { scale, causal } = call.attributes as AttentionAttributes;
    const { strides, numbers } = ATTENTION_BACKWARD_AT;
    const made = new Float64Array(numbers + operands.length * batch);
    made.set([batch, groupSize, m, n, d, dv, scale, Number(causal)]);
    operands.forEach(({ whole, matrices, groupStride }, i) => {
      checkLayout("attentionBackward", i, whole, matrices.storage);
      made.set([groupStride, matrices.rowStride, matrices.columnStride], strides + 3 * i);
      writeOffsets(matrices, made, numbers + i * batch);
    });
    const [out, a, b, c, ...more] = operands.map(({ matrices: { storage } }) => storage);
    return { numbers: made, out: out!, a: a!, b: b!, c: c!, more };
  },
};

/** The kernels by the names of their ops. */
export const ATTENTION_KERNELS: Readonly<Record<string, Kernel>> = {
  attention,
  cachedAttention,
  attentionBackward,
  rope,
};
