/**
 * Mutants of layouts and shapes: strides, offsets, checks, broadcasting, reshaping.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const LAYOUT = edits(
  "layout",
  "src/base/layout.ts",
  ["layout", "layout_property", "mutation_gaps"],
  {
    "contiguous: axes of size 1 count": [
      "const n = shape[i];\n    if (n === 1) continue;\n    if (strides[i] !== expected)",
      "const n = shape[i];\n    if (strides[i] !== expected)",
    ],
    "contiguous: empties are not": [
      "if (size === 0) return true;",
      "if (size === 0) return false;",
    ],
    "contiguous: gaps": ["if (strides[i] !== expected) return false;", ""],
    "row-major: zeros multiply": ["if (shape[i] > 1) stride *= shape[i];", "stride *= shape[i];"],
    "row-major: all 1": ["if (shape[i] > 1) stride *= shape[i];", ""],
    "column-major: gaps": ["if (this.strides[i] !== expected) return false;", ""],
    "overlap with itself: never": ["if (stride === 0 || stride === next) return true;", ""],
    "overlap with itself: axes of size 1": [
      "if (shape[i] === 1) continue;\n        const stride",
      "const stride",
    ],
    "overlap with itself: reach": ["reach += (length - 1) * next;", "reach += length * next;"],
    "overlap with itself: windows": ["if (next <= reach) return true;", ""],
    "extent: negative strides": ["if (reach < 0) min += reach;\n      else max", "max"],
    "flat index: offset": ["let position = this.offset;", "let position = 0;"],
    "flat index: number of indexes": ["if (index.length !== rank) {", "if (false) {"],
    "index: above": ["index < -n || index >= n", "index < -n"],
    "index: below": ["index < -n || index >= n", "index >= n"],
    "index: fractions": ["!Number.isInteger(index) || index < -n", "index < -n"],
    "index: negative": ["return index < 0 ? index + n : index + 0;", "return index + 0;"],
    "permute: too few axes": ["if (axes.length !== rank) {", "if (false) {"],
    "permute: strides": [
      "const axis = order[i];\n    shape[i] = layout.shape[axis];\n    strides[i] = layout.strides[axis];",
      "const axis = order[i];\n    shape[i] = layout.shape[axis];\n    strides[i] = layout.strides[i];",
    ],
    "transpose: strides": ["strides[i] = this.strides[j];", "strides[i] = this.strides[i];"],
    "swapAxes: strides": ["    strides[a] = this.strides[b];\n", ""],
    "moveAxis: destination": ["order.splice(to, 0, from);", "order.splice(from, 0, from);"],
    "expandDims: at the end": [
      "normalizeAxis(op, axis, rank + 1)",
      "normalizeAxis(op, axis, rank)",
    ],
    "squeeze: longer axes": [
      "        throw new ShapeError(\n          `Cannot squeeze",
      "        continue;\n        throw new ShapeError(\n          `Cannot squeeze",
    ],
    "broadcast: stride 0": [
      "else if (n === 1) strides[i] = 0;",
      "else if (n === 1) strides[i] = 1;",
    ],
    "broadcast: new axes": [
      "strides[i] = i < added ? 0 : this",
      "strides[i] = i < added ? 1 : this",
    ],
    "broadcast: to a lower rank": ["if (added < 0) throw", "if (false) throw"],
    "broadcast: any size": [
      "else {\n        throw badBroadcast",
      "else {\n        strides[i] = 0;\n        continue;\n        throw badBroadcast",
    ],
    "reshape: offset of a dense one": [
      "return new Layout(target, rowMajorStrides(target), this.offset, this.size, true);",
      "return new Layout(target, rowMajorStrides(target), 0, this.size, true);",
    ],
    "reshape: a view across gaps": ["if (strides[axis] !== expected) return null;", ""],
    "reshape: axes of size 1 in the way": [
      "if (n !== 1) {\n        if (strides",
      "if (true) {\n        if (strides",
    ],
    "flip: offset": ["      offset += (n - 1) * strides[axis];\n", ""],
    "flip: stride": ["      strides[axis] = 0 - strides[axis];", "     "],
    "flip: offset of an empty view": ["    if (this.size === 0) offset = this.offset;\n", ""],
    "diagonal: below": ["(offset < 0 ? offset : 0)", "0"],
    "diagonal: above": ["(offset > 0 ? offset : 0)", "0"],
    "diagonal: where it begins": ["Math.abs(offset) * this.strides[offset < 0 ? a : b]", "0"],
    "diagonal: one stride only": ["this.strides[a] + this.strides[b]", "this.strides[a]"],
    "slice: start": ["? 0 : start * stride;", "? 0 : 0;"],
    "slice: step": ["strides[axis] = stride * step + 0;", "strides[axis] = stride;"],
    "slice: offset of an empty view": [
      "this.size === 0 || length === 0 ? 0 : start",
      "false ? 0 : start",
    ],
    "select: index": ["index * this.strides[axis];\n    const offset", "0;\n    const offset"],
    "select: inner axes of a dense one are dense": [
      "if (axis === 0 && this.contiguous)",
      "if (this.contiguous)",
    ],
    "select: rows of a strided tensor are dense": [
      "if (axis === 0 && this.contiguous)",
      "if (axis === 0)",
    ],
    "select: offset of an empty view": [
      "size === 0 ? 0 : index * this",
      "false ? 0 : index * this",
    ],
    "select: which axis goes": ["const from = i < axis ? i : i + 1;", "const from = i;"],
  },
);

const SHAPE = edits("layout", "src/base/shape.ts", [
  "layout",
  "slice",
  "feature_errors",
  "mutation_gaps",
], {
  "shape: negative sizes": [
    "if (!Number.isInteger(n) || n < 0) {\n      throw new",
    "if (!Number.isInteger(n)) {\n      throw new",
  ],
  "shape: fractions": [
    "if (!Number.isInteger(n) || n < 0) {\n      throw new",
    "if (n < 0) {\n      throw new",
  ],
  "shape: too large": ["if (size > Number.MAX_SAFE_INTEGER) throw tooLarge(op, shape);", ""],
  "same shape: ranks": ["if (rank !== b.length) return false;", ""],
  "same shape: sizes": ["if (a[i] !== b[i]) return false;", ";"],
  "broadcast: different sizes": [
    "if (m !== n && m !== 1 && n !== 1) throw mismatch(op, [a, b]",
    "if (false) throw mismatch(op, [a, b]",
  ],
  "broadcast: 0 with 1": ["const length = m === 1 ? n : m;", "const length = m > n ? m : n;"],
  "broadcast: result too large": ["throw tooLarge(op, result);", ";"],
  "broadcast all: message": [
    "if (m !== n && m !== 1 && n !== 1) throw mismatch(op, shapes",
    "if (false) throw mismatch(op, shapes",
  ],
  "axis: above": ["axis < -rank || axis >= rank", "axis < -rank"],
  "axis: below": ["axis < -rank || axis >= rank", "axis >= rank"],
  "axis: negative": ["return axis < 0 ? axis + rank : axis + 0;", "return axis;"],
  "axes: named twice": ["if (result[j] === axis) {", "if (false) {"],
  "reshape: -1 twice": ["if (inferred >= 0) throw", "if (false) throw"],
  "reshape: other counts": ["if (known !== size) {", "if (false) {"],
  "reshape: -1 beside 0": ["if (known === 0) throw", "if (false) throw"],
  "reshape: -1 with a rest": ["|| size % known !== 0", ""],
  "reshape: overflow": ["known > Number.MAX_SAFE_INTEGER || size", "size"],
});

/** Faults of layouts and shapes. */
export const LAYOUTS: readonly Mutant[] = [...LAYOUT, ...SHAPE];
