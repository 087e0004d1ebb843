/**
 * Matrix multiplication in JavaScript, for every dtype.
 *
 * Operands are converted to dense float64 (or int32) panels once, so that one 4×4 kernel serves all
 * strides; float sums are kept in double. 64-bit integers multiply word by word. Knows nothing of
 * tensors or batches beyond a list of offsets.
 *
 * @module
 */
import type { MatrixRef } from "../../backend.ts";
import { fromBrain, halfTable, toBrain, toHalf } from "../../half.ts";
import type { Storage } from "../../storage.ts";
import { mulHigh } from "./environment.ts";

/** See {@link Backend.matmul}. */
export function multiply(
  m: number,
  n: number,
  k: number,
  c: MatrixRef,
  a: MatrixRef,
  b: MatrixRef,
): void {
  const { info } = c.storage;
  if (m === 0 || n === 0) return;
  for (let i = 0; i < c.offsets.length; i++) {
    const [ca, aa, ba] = [c.offsets[i]!, a.offsets[i]!, b.offsets[i]!];
    if (info.wide) multiplyWide(m, n, k, c, ca, a, aa, b, ba);
    else if (info.kind === "f") {
      const result = new Float64Array(padded(m) * padded(n));
      const left = panels(
        new Float64Array(padded(m) * k),
        a.storage,
        aa,
        a.rowStride,
        a.columnStride,
        m,
        k,
      );
      const right = panels(
        new Float64Array(padded(n) * k),
        b.storage,
        ba,
        b.columnStride,
        b.rowStride,
        n,
        k,
      );
      multiplyFloat(padded(m), padded(n), k, result, left as Float64Array, right as Float64Array);
      writeBack(result, c, ca, m, n);
    } else {
      const result = new Int32Array(padded(m) * padded(n));
      const left = panels(
        new Int32Array(padded(m) * k),
        a.storage,
        aa,
        a.rowStride,
        a.columnStride,
        m,
        k,
      );
      const right = panels(
        new Int32Array(padded(n) * k),
        b.storage,
        ba,
        b.columnStride,
        b.rowStride,
        n,
        k,
      );
      multiplyInt(padded(m), padded(n), k, result, left as Int32Array, right as Int32Array);
      writeBack(result, c, ca, m, n);
    }
  }
}

/** Lines come in groups of four; those that are missing are 0, and their results are left out. */
function padded(lines: number): number {
  return (lines + 3) & ~3;
}

/** The span of a matrix as dense numbers, converted by the runtime's own copy where it can be. */
function dense(
  storage: Storage,
  from: number,
  to: number,
  float: boolean,
): Float64Array | Int32Array {
  const { name } = storage.info;
  const part = (storage.array as Float64Array).subarray(from, to);
  if (name === "float16") {
    const table = halfTable();
    const result = new Float64Array(part.length);
    for (let i = 0; i < result.length; i++) result[i] = table[part[i]!]!;
    return result;
  }
  if (name === "bfloat16") {
    const result = new Float64Array(part.length);
    for (let i = 0; i < result.length; i++) result[i] = fromBrain(part[i]!);
    return result;
  }
  if (name === "float64") return part;
  return float ? new Float64Array(part) : new Int32Array(part);
}

/**
 * Repacks `lines` lines of `k` elements into groups of four lines, the four elements of one k side
 * by side; missing lines are 0.
 */
function panels(
  packed: Float64Array | Int32Array,
  storage: Storage,
  offset: number,
  lineStride: number,
  stride: number,
  lines: number,
  k: number,
): Float64Array | Int32Array {
  const reach = [(lines - 1) * lineStride, (k - 1) * stride];
  const low = offset + Math.min(0, reach[0]!) + Math.min(0, reach[1]!);
  const high = offset + Math.max(0, reach[0]!) + Math.max(0, reach[1]!);
  const source = dense(storage, low, high + 1, packed instanceof Float64Array);
  if (packed instanceof Float64Array) {
    packFloat(packed, source as Float64Array, offset - low, lineStride, stride, lines, k);
  } else packInt(packed, source as Int32Array, offset - low, lineStride, stride, lines, k);
  return packed;
}

// The two packers are one text twice, so that each sees one type of array.
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
  c: MatrixRef,
  offset: number,
  m: number,
  n: number,
): void {
  const { array, info } = c.storage;
  const out = array as Float64Array;
  const width = padded(n);
  const { name } = info;
  const plain = name !== "float16" && name !== "bfloat16";
  if (plain && c.columnStride === 1 && c.rowStride === n && width === n) {
    out.set(m === padded(m) ? result : result.subarray(0, m * n), offset);
    return;
  }
  for (let i = 0; i < m; i++) {
    for (let j = 0; j < n; j++) {
      const value = result[i * width + j]!;
      out[offset + i * c.rowStride + j * c.columnStride] = plain
        ? value
        : name === "float16"
        ? toHalf(value)
        : toBrain(value);
    }
  }
}

function multiplyWide(
  m: number,
  n: number,
  k: number,
  c: MatrixRef,
  offsetC: number,
  a: MatrixRef,
  offsetA: number,
  b: MatrixRef,
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
