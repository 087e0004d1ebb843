/**
 * Mutants of basic indexing: slices, ranges, index strings and the layouts that they give.
 *
 * Left out are shortcuts (`step === 1`, leading indexes), the stride of a new axis, which nobody follows,
 * and the length that new arrays are made with.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const SLICE = edits(
  "slice rule",
  "src/base/slice.ts",
  ["slice", "feature_slices", "mutation_gaps"],
  {
    "step 0 passes": ["if (step === 0) throw", "if (false) throw"],
    "fractions pass": ["if (!Number.isInteger(value)) {", "if (false) {"],
    "builder: full keeps the start": [
      "return new Slice(null, null, this.stepSize);",
      "return new Slice(this.start, null, this.stepSize);",
    ],
    "builder: full drops the step": [
      "return new Slice(null, null, this.stepSize);",
      "return new Slice();",
    ],
    "builder: from drops the rest": [
      "return new Slice(start, this.stop, this.stepSize);",
      "return new Slice(start);",
    ],
    "builder: to drops the rest": [
      "return new Slice(this.start, stop, this.stepSize);",
      "return new Slice(null, stop);",
    ],
    "builder: step drops the bounds": [
      "return new Slice(this.start, this.stop, step);",
      "return new Slice(null, null, step);",
    ],
    "static from: taken as stop": ["return new Slice(start);", "return new Slice(null, start);"],
    "static to: taken as start": ["return new Slice(null, stop);", "return new Slice(stop);"],
    "static step: ignored": ["return new Slice(null, null, step);", "return new Slice();"],
    "backwards: low end": ["const low = step > 0 ? 0 : -1;", "const low = 0;"],
    "backwards: high end": ["const high = step > 0 ? size : size - 1;", "const high = size;"],
    "open start: from the front": ["(step > 0 ? low : high) : clip(a", "low : clip(a"],
    "open stop: at the back": ["(step > 0 ? high : low) : clip(b", "high : clip(b"],
    "direction: length forwards": ["step > 0 ? end - first : first - end", "end - first"],
    "empty: length below 0": ["length <= 0 ? 0 : step === 1", "step === 1"],
    "step: length rounded down": ["Math.ceil(length / Math", "Math.floor(length / Math"],
    "step: length not divided": ["Math.ceil(length / Math.abs(step))", "length"],
    "step: sign lost": ["spanStep = step;", "spanStep = Math.abs(step);"],
    "clip: negative bounds": ["bound < 0 ? bound + size : bound;", "bound;"],
    "clip: below": ["index < low ? low : index > high", "index > high"],
    "clip: above": ["index > high ? high : index;", "index;"],
    "range: negative start": [
      "const first = start < 0 ? start + size : start;",
      "const first = start;",
    ],
    "range: negative stop": ["const last = stop < 0 ? stop + size : stop;", "const last = stop;"],
    "range: inclusive": ["const extra = inclusive ? 1 : 0;", "const extra = 0;"],
    "range: always inclusive": ["const extra = inclusive ? 1 : 0;", "const extra = 1;"],
    "range: no auto-reverse": ["if (first > last) {", "if (false) {"],
    "range: reverse step": ["spanStep = -1;", "spanStep = 1;"],
    "range: reverse start clipped": ["Math.min(first, size - 1)", "first"],
    "range: reverse stop clipped": ["Math.max(last - extra, -1)", "last - extra"],
    "range: reverse never below 0": [
      "Math.max(0, spanStart - Math.max(last - extra, -1))",
      "spanStart - Math.max(last - extra, -1)",
    ],
    "range: start clipped": ["spanStart = Math.max(first, 0);", "spanStart = first;"],
    "range: stop clipped": ["Math.min(last + extra, size)", "last + extra"],
    "range: never below 0": [
      "Math.max(0, Math.min(last + extra, size) - spanStart)",
      "Math.min(last + extra, size) - spanStart",
    ],
    "text: not cached": ["    PARSED.set(text, parts);\n", ""],
    "text: cache without end": ["if (PARSED.size >= PARSED_LIMIT) PARSED.clear();", ""],
    "text: spaces around parts": ["parsePart(part.trim(), text, op)", "parsePart(part, text, op)"],
    "text: spaces around bounds": [".map((field) => field.trim())", ""],
    "text: None": ['part === "None" || ', ""],
    "text: newaxis": [' || part === "newaxis"', ""],
    "text: no ellipsis": ['  if (part === "...") return part;\n', ""],
    "text: indexes": ["if (INTEGER.test(part)) return", "if (false) return"],
    "text: a fourth bound": ["fields.length > 3", "fields.length > 4"],
    "text: bounds that are no integers": ['field !== "" && !INTEGER.test(field)', "false"],
    "text: open bounds": ['field === "" ? null : Number(field)', "Number(field)"],
    "text: step ignored": ["new Slice(start, stop, step ?? 1)", "new Slice(start, stop, 1)"],
    "text: many parts beside others": [
      "    throw new IndexError(\n      `Cannot ${op} by ${describe(text)} beside",
      "    if (false) throw new IndexError(\n      `Cannot ${op} by ${describe(text)} beside",
    ],
    "ellipsis: more than one": ["if (ellipses > 1 || rest < 0) {", "if (rest < 0) {"],
    "ellipsis: an axis short": ["for (; rest > 0; rest--) {", "for (; rest > 1; rest--) {"],
    "ellipsis: only at the end": [
      '    } else if (typeof arg === "string") {\n      for',
      "    } else if (i === count) {\n      for",
    ],
    "too many indexes": ["if (ellipses > 1 || rest < 0) {", "if (ellipses > 1) {"],
    "index: not checked": [
      "layout.checkIndex(op, axis, arg) * layout.strides[axis]",
      "arg * layout.strides[axis]",
    ],
    "index: not in the offset": [
      "offset += layout.checkIndex(op, axis, arg) * layout.strides[axis];",
      "layout.checkIndex(op, axis, arg);",
    ],
    "newaxis: size 2": ["shape[out] = 1;", "shape[out] = 2;"],
    "newaxis: refused": ["else if (arg === null) rank++;", ""],
    "size: axes of the ellipsis": ["        size *= shape[out];\n", ""],
    "size: axes that are sliced": ["      size *= spanLength;\n", ""],
    "stride: step ignored": ["stride * spanStep + 0;", "stride;"],
    "stride: -0": ["stride * spanStep + 0;", "stride * spanStep;"],
    "offset: start ignored": ["      offset += spanStart * stride;\n", ""],
    "offset: of an empty view": [
      "strides, size === 0 ? layout.offset : offset, size",
      "strides, offset, size",
    ],
    "numbers: offset": ["layout.checkIndex(op, axis, index[axis]) * layout.strides[axis]", "0"],
    "numbers: size": ["    size /= layout.shape[axis];\n", ""],
    "numbers: strides of the first axes": [
      "strides[i] = layout.strides[count + i];",
      "strides[i] = layout.strides[i];",
    ],
    "numbers: offset of an empty view": [
      "const start = size === 0 ? layout.offset : offset;",
      "const start = offset;",
    ],
    "numbers: rows of a strided tensor are dense": [
      "if (layout.contiguous) return new",
      "if (true) return new",
    ],
    "numbers: too many": [" && count <= layout.shape.length) {", ") {"],
    "one axis: no strings": ["if (parts.length === 1) one = parts[0];", ""],
    "one axis: index not checked": ["layout.checkIndex(op, at, one)", "one"],
    "one axis: negative axis": [
      "const at = normalizeAxis(op, axis, layout.shape.length);",
      "const at = axis;",
    ],
  },
);

/** Faults of slices. */
export const SLICES: readonly Mutant[] = [...SLICE];
