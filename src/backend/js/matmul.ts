/**
 * Matrix multiplication in JavaScript, for every dtype.
 *
 * Converts operands once to dense float64 (or int32) panels, so that one 4×4 kernel serves all
 * strides; float sums are doubles. 64-bit integers multiply word by word. Knows nothing of tensors,
 * or of batches beyond a list of offsets.
 *
 * @module
 */
import { gemmOf, type GemmProblem, type MatrixBatch, offsetsOf } from "../../ops/matmul/problem.ts";
import { bf16Table, f16Table, toBf16, toF16 } from "../../base/half.ts";
import { fillWith } from "../../core/dispatch.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import { mulHigh } from "./environment.ts";
import type { Call } from "../../table/op.ts";

type Panels = Float64Array | Int32Array;

// Working memory, kept between calls: allocating typed arrays would dominate small products.
const LEFT = 0, RIGHT = 1, RESULT = 2, SPAN = 3;
const floats: Float64Array[] = [LEFT, RIGHT, RESULT, SPAN].map(() => new Float64Array(0));
const ints: Int32Array[] = [LEFT, RIGHT, RESULT, SPAN].map(() => new Int32Array(0));
/** Larger working memory is freed after the call. */
const KEPT_ELEMENTS = 1 << 20;

function working(float: boolean, slot: number, length: number): Panels {
  const kept: Panels[] = float ? floats : ints;
  const array = kept[slot]!;
  if (array.length >= length) return array;
  const made = float ? new Float64Array(length) : new Int32Array(length);
  if (length <= KEPT_ELEMENTS) kept[slot] = made;
  return made;
}

/** The matrix product. */
export function matmul(call: Call): void {
  const empty = call.inputs.some((x) => (x as Operand).layout.size === 0);
  if (empty) fillWith(call.outputs[0]!, 0);
  else multiply(gemmOf(call));
}

function multiply(product: GemmProblem): void {
  const { m, n, k, c, a, b } = product;
  const { info } = c.storage;
  const float = info.kind === "f";
  const [rows, columns] = [padded(m), padded(n)];
  let left: Panels | undefined;
  let right: Panels | undefined;
  const starts = [offsetsOf(c), offsetsOf(a), offsetsOf(b)] as const;
  for (let i = 0; i < c.batch; i++) {
    const [ca, aa, ba] = [starts[0][i]!, starts[1][i]!, starts[2][i]!];
    if (info.wide) {
      multiplyWide(product, ca, aa, ba);
      continue;
    }
    // A matrix that broadcasts over the batch is packed once.
    if (left === undefined || aa !== starts[1][i - 1]) {
      left = panels(LEFT, float, a.storage, aa, a.rowStride, a.columnStride, m, k);
    }
    if (right === undefined || ba !== starts[2][i - 1]) {
      right = panels(RIGHT, float, b.storage, ba, b.columnStride, b.rowStride, n, k);
    }
    const result = working(float, RESULT, rows * columns);
    if (float) {
      multiplyFloat(
        rows,
        columns,
        k,
        result as Float64Array,
        left as Float64Array,
        right as Float64Array,
      );
    } else {
      multiplyInt(
        rows,
        columns,
        k,
        result as Int32Array,
        left as Int32Array,
        right as Int32Array,
      );
    }
    writeBack(result, c, ca, m, n);
  }
}

/** Lines come in groups of four; missing lines are 0, and their results are not stored. */
function padded(lines: number): number {
  return (lines + 3) & ~3;
}

/** The span of a matrix as dense numbers, converted by the runtime's own copy if possible. */
function dense(storage: Storage, from: number, to: number, float: boolean): Panels {
  const { name } = storage.info;
  const source = storage.array as Float64Array;
  if (name === "float64") return source.subarray(from, to);
  const size = to - from;
  const result = working(float, SPAN, size);
  if (name === "float16" || name === "bfloat16") {
    const table = name === "float16" ? f16Table() : bf16Table();
    for (let i = 0; i < size; i++) result[i] = table[source[from + i]!]!;
  } else if (size < 64) {
    for (let i = 0; i < size; i++) result[i] = source[from + i]!;
  } else result.set(source.subarray(from, to));
  return result;
}

/**
 * Repacks `lines` lines of `k` elements into groups of four lines, the four elements of one k next
 * to each other; missing lines are 0.
 */
function panels(
  slot: number,
  float: boolean,
  storage: Storage,
  offset: number,
  lineStride: number,
  stride: number,
  lines: number,
  k: number,
): Panels {
  const [acrossLines, along] = [(lines - 1) * lineStride, (k - 1) * stride];
  const low = offset + Math.min(0, acrossLines) + Math.min(0, along);
  const high = offset + Math.max(0, acrossLines) + Math.max(0, along);
  const source = dense(storage, low, high + 1, float);
  const packed = working(float, slot, padded(lines) * k);
  if (lines % 4 !== 0) packed.fill(0, (lines & ~3) * k, padded(lines) * k);
  if (float) {
    const [to, from] = [packed as Float64Array, source as Float64Array];
    packFloat(to, from, offset - low, lineStride, stride, lines, k);
  } else {
    const [to, from] = [packed as Int32Array, source as Int32Array];
    packInt(to, from, offset - low, lineStride, stride, lines, k);
  }
  return packed;
}

// The two packers have the same text, so that each sees one type of array.
function packFloat(
  packed: Float64Array,
  source: Float64Array,
  offset: number,
  lineStride: number,
  stride: number,
  lines: number,
  k: number,
): void {
  for (let line = 0; line < lines; line++) {
    let to = (line >> 2) * 4 * k + (line & 3);
    let from = offset + line * lineStride;
    for (let p = 0; p < k; p++, to += 4, from += stride) packed[to] = source[from]!;
  }
}

function packInt(
  packed: Int32Array,
  source: Int32Array,
  offset: number,
  lineStride: number,
  stride: number,
  lines: number,
  k: number,
): void {
  for (let line = 0; line < lines; line++) {
    let to = (line >> 2) * 4 * k + (line & 3);
    let from = offset + line * lineStride;
    for (let p = 0; p < k; p++, to += 4, from += stride) packed[to] = source[from]!;
  }
}

function multiplyFloat(
  m: number,
  n: number,
  k: number,
  out: Float64Array,
  left: Float64Array,
  right: Float64Array,
): void {
  for (let j = 0; j < n; j += 4) {
    for (let i = 0; i < m; i += 4) {
      let c00 = 0, c01 = 0, c02 = 0, c03 = 0, c10 = 0, c11 = 0, c12 = 0, c13 = 0;
      let c20 = 0, c21 = 0, c22 = 0, c23 = 0, c30 = 0, c31 = 0, c32 = 0, c33 = 0;
      let l = i * k, r = j * k;
      for (let p = 0; p < k; p++, l += 4, r += 4) {
        const b0 = right[r]!, b1 = right[r + 1]!, b2 = right[r + 2]!, b3 = right[r + 3]!;
        const a0 = left[l]!;
        c00 += a0 * b0, c01 += a0 * b1, c02 += a0 * b2, c03 += a0 * b3;
        const a1 = left[l + 1]!;
        c10 += a1 * b0, c11 += a1 * b1, c12 += a1 * b2, c13 += a1 * b3;
        const a2 = left[l + 2]!;
        c20 += a2 * b0, c21 += a2 * b1, c22 += a2 * b2, c23 += a2 * b3;
        const a3 = left[l + 3]!;
        c30 += a3 * b0, c31 += a3 * b1, c32 += a3 * b2, c33 += a3 * b3;
      }
      let o = i * n + j;
      out[o] = c00, out[o + 1] = c01, out[o + 2] = c02, out[o + 3] = c03;
      o += n;
      out[o] = c10, out[o + 1] = c11, out[o + 2] = c12, out[o + 3] = c13;
      o += n;
      out[o] = c20, out[o + 1] = c21, out[o + 2] = c22, out[o + 3] = c23;
      o += n;
      out[o] = c30, out[o + 1] = c31, out[o + 2] = c32, out[o + 3] = c33;
    }
  }
}

function multiplyInt(
  m: number,
  n: number,
  k: number,
  out: Int32Array,
  left: Int32Array,
  right: Int32Array,
): void {
  const { imul } = Math;
  for (let j = 0; j < n; j += 4) {
    for (let i = 0; i < m; i++) {
      let c0 = 0, c1 = 0, c2 = 0, c3 = 0;
      let l = (i >> 2) * 4 * k + (i & 3), r = j * k;
      for (let p = 0; p < k; p++, l += 4, r += 4) {
        const a = left[l]!;
        c0 = (c0 + imul(a, right[r]!)) | 0;
        c1 = (c1 + imul(a, right[r + 1]!)) | 0;
        c2 = (c2 + imul(a, right[r + 2]!)) | 0;
        c3 = (c3 + imul(a, right[r + 3]!)) | 0;
      }
      const o = i * n + j;
      out[o] = c0, out[o + 1] = c1, out[o + 2] = c2, out[o + 3] = c3;
    }
  }
}

function writeBack(
  result: Float64Array | Int32Array,
  c: MatrixBatch,
  offset: number,
  m: number,
  n: number,
): void {
  const { array, info } = c.storage;
  const out = array as Float64Array;
  const width = padded(n);
  const { name } = info;
  const plain = name !== "float16" && name !== "bfloat16";
  if (plain && c.columnStride === 1 && c.rowStride === n && width === n && m * n >= 64) {
    out.set(result.subarray(0, m * n), offset);
    return;
  }
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      const value = result[i * width + j]!;
      out[offset + i * c.rowStride + j * c.columnStride] = plain
        ? value
        : name === "float16"
        ? toF16(value)
        : toBf16(value);
    }
  }
}

/** Computes one matrix of a product of 64-bit integers. */
function multiplyWide(
  { m, n, k, c, a, b }: GemmProblem,
  offsetC: number,
  offsetA: number,
  offsetB: number,
): void {
  const { imul } = Math;
  const [A, B, C] = [a.storage.words, b.storage.words, c.storage.words];
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      let low = 0;
      let high = 0;
      let x = 2 * (offsetA + i * a.rowStride);
      let y = 2 * (offsetB + j * b.columnStride);
      for (let p = 0; p < k; p++, x += 2 * a.columnStride, y += 2 * b.rowStride) {
        const [al, bl] = [A[x]!, B[y]!];
        const sum = (low >>> 0) + (imul(al, bl) >>> 0);
        low = sum | 0;
        high = (high + mulHigh(al, bl) + imul(A[x + 1]!, bl) + imul(al, B[y + 1]!) +
          (sum > 4294967295 ? 1 : 0)) | 0;
      }
      const at = 2 * (offsetC + i * c.rowStride + j * c.columnStride);
      C[at] = low;
      C[at + 1] = high;
    }
  }
}
