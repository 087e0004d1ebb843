/**
 * The numbers of the shim's kernel for attention, and the calls that it supports.
 *
 * @module
 */
import { attentionOf, type AttentionSizes } from "../../core/attention.ts";
import { writeOffsets } from "../../core/gemm.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Call } from "../../ops/op.ts";
import { checkLayout } from "../ffi/checks.ts";

/** The indices of the strides and of the offsets. */
const [STRIDES, OFFSETS] = [8, 23];

/** True for floats of 16 and 32 bits. */
function isNarrow({ storage: { info } }: Operand): boolean {
  return info.kind === "f" && info.bytes <= 4;
}

/** True if the kernel can run the call: nothing to cast, and nothing empty. */
export function isPlainAttention(call: Call): boolean {
  const { shape, dtype } = call.specs[0]!;
  const mask = call.inputs[3] as Operand | undefined;
  for (let k = 0; k < 3; k++) if (call.operand(k).storage.info !== dtype) return false;
  const { n, d } = call.memo as AttentionSizes;
  return isNarrow(call.operand(0)) && n > 0 && d > 0 && !shape.includes(0) &&
    (mask === undefined || mask.storage.info.kind === "b" || isNarrow(mask));
}

/** The length of the numbers of a call. */
export function attentionLength(numbers: ArrayLike<number>): number {
  return OFFSETS + 5 * numbers[0]!;
}

/** Writes the numbers of a call to `numbers`, or to a longer array if that is too short. */
export function planAttention(
  call: Call,
  numbers: Float64Array<ArrayBuffer>,
): Float64Array<ArrayBuffer> {
  const { batch, groupSize, m, n, d, dv, scale, causal, out, q, k, v, mask } = attentionOf(call);
  const needed = attentionLength([batch]);
  if (numbers.length < needed) numbers = new Float64Array(2 * needed);
  numbers.set([batch, groupSize, m, n, d, dv, scale, Number(causal)]);
  [out, q, k, v, mask].forEach((heads, i) => {
    if (heads === null) return;
    checkLayout("attention", i, heads.whole, heads.matrices.storage);
    const { matrices, groupStride } = heads;
    const at = STRIDES + 3 * i;
    numbers[at] = groupStride;
    numbers[at + 1] = matrices.rowStride;
    numbers[at + 2] = matrices.columnStride;
    writeOffsets(matrices, numbers, OFFSETS + i * batch);
  });
  return numbers;
}
