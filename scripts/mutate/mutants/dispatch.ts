/**
 * Mutants of dispatch and promotion: outputs, overlap, copy on write, scalars, options.
 *
 * Left out are a condition that takes part in promotion, as bool gives way to every dtype, and a scan in
 * any order, as it walks a single axis, along which its dense output only runs forwards.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const DISPATCH = edits(
  "dispatch",
  "src/core/dispatch.ts",
  [
    "feature_errors",
    "feature_elementwise",
    "feature_dtypes",
    "feature_ownership",
    "mutation_gaps",
    "table:/^(add|where|sum|cumulativeSum): /",
  ],
  {
    "operands: anything": [
      "  if (!isOperand(value)) {\n    throw new DTypeError(`Cannot ${op}: expected a tensor, got",
      "  if (false) {\n    throw new DTypeError(`Cannot ${op}: expected a tensor, got",
    ],
    "operands: disposed ones": [
      "  checkAlive(value.storage, op);\n}\n\nfunction describe",
      "}\n\nfunction describe",
    ],
    "comparisons: above": ["if (value > max) always = above;", "if (value > max) always = below;"],
    "comparisons: NaN": ["Number.isNaN(value) ? row.id === MAP.notEqual.id : between", "between"],
    "comparisons: of floats": ['|| kind === "f") return undefined;', ") return undefined;"],
    "dtypes: all taken": ["if (!takes(row, name)) {", "if (false) {"],
    "store: any dtype": ["if (rank(from) > rank(to)) {", "if (false) {"],
    "scalars: slots shared": ["scalars[slot * 16 + id]", "scalars[id]"],
    "scalars: of another dtype": ["&& promoteWeak(row, info.name, b) === info.name", ""],
    "scalars: fractions in float ops": [
      'if (row.result === "float" && DTYPE[dtype].kind !== "f") return "float32";',
      "",
    ],
    "scalars: not weak": ["if (isScalar(arg)) dtype = promoteWeak(row, dtype, arg);", ""],
    "write: read-only tensors": ["if (target.flags & READ_ONLY) {", "if (false) {"],
    "write: broadcast tensors": ["if (target.layout.overlapsItself) {", "if (false) {"],
    "write: those who wait for a copy": ["  storage.settle();\n", ""],
    "overlap: never": [
      "if (to !== from && !(t.shared && s.shared && to.byteLength === from.byteLength)) return false;",
      "return false;",
    ],
    "overlap: shared memory by its objects": [
      "if (to !== from && !(t.shared && s.shared && to.byteLength === from.byteLength)) return false;",
      "if (to !== from) return false;",
    ],
    "overlap: one buffer is enough": ["return tLow < sHigh && sLow < tHigh;", "return true;"],
    "overlap: last element": ["(high + 1) * storage.info.bytes", "high * storage.info.bytes"],
    "overlap: begin of the array": ["byteOffset + low * storage", "low * storage"],
    "overlap: same storage, other strides": [" && sameShape(t.strides, s.strides)", ""],
    "overlap: same storage, other offset": [
      "    byteExtent(target)[0] === byteExtent(source)[0] &&\n",
      "",
    ],
    "overlap: always copied": [
      "return same ? source : packed(source, source.storage.info);",
      "return packed(source, source.storage.info);",
    ],
    "devices: mixed": ["if (a.device !== b.device) {", "if (false) {"],
    "devices: mixed maps": ["&& b.storage.device === storage.device", ""],
    "out: shape": ["if (!sameShape(out.layout.shape, shape)) {", "if (false) {"],
    "out: dtype": [
      "  checkStore(dtype, out.storage.info.name, op);\n  prepareWrite",
      "  prepareWrite",
    ],
    "out: writable": ["  prepareWrite(out, op);\n}", "}"],
    "out: version of maps": ["    storage.version++;\n  }\n  const plan", "  }\n  const plan"],
    "out: first operand disturbed": ["x = undisturbed(a, out);", "x = a;"],
    "out: second operand disturbed": ["y = undisturbed(other, out);", "y = other;"],
    "out: general operands disturbed": ["out === undefined ? arg : undisturbed(arg, out)", "arg"],
    "out: of reductions": ["  fill(out.storage, out.layout, { storage, layout, flags: 0 });\n", ""],
    "out: version of reductions": [
      "  out.storage.version++;\n  return out;\n}\n\n/** Runs argmax",
      "  return out;\n}\n\n/** Runs argmax",
    ],
    "result: layout of the input": [
      "layout.contiguous && layout.offset === 0 && layout.shape === shape",
      "layout.shape === shape",
    ],
    "result: offset of the input": [
      "layout.contiguous && layout.offset === 0 &&",
      "layout.contiguous &&",
    ],
    "broadcast false: two operands": [
      "row.arity < 3 && broadcast !== false",
      "row.arity < 3",
    ],
    "broadcast false: ignored": ["if (broadcast === false) {", "if (false) {"],
    "options: unknown names": ["if (!known.includes(name)) {", "if (false) {"],
    "options: a tensor": [" || isOperand(options)", ""],
    "promotion: first operand wins": [
      ": promoteTypes(dtype, arg.storage.info.name, op);",
      ": dtype;",
    ],
    "condition: any dtype": [
      '!isScalar(condition) && condition.storage.info.name !== "bool"',
      "false",
    ],
    "in place: shapes that grow": ["  if (!sameShape(shape, mine)) {\n", "  if (false) {\n"],
    "in place: not in place": [
      "return applyInto(row, target, other, third, target);",
      "return applyInto(row, target, other, third, undefined);",
    ],
    "attributes: not passed": [
      "plan.data[ATTRIBUTES + i] = attributes[i]!;",
      "void attributes[i];",
    ],
    "reduce: keepDims": ["else if (keepDims) shape.push(1);", ""],
    "reduce: count": ["if (reduced[axis]) count *= n;", "if (!reduced[axis]) count *= n;"],
    "reduce: of nothing": ["if (count === 0 && kept.size > 0) {", "if (false) {"],
    "reduce: of nothing for nothing": ["if (count === 0 && kept.size > 0) {", "if (count === 0) {"],
    "reduce: dtype option": [
      '  const to = dtype !== undefined && row.result === "sum" ? dtype : rule.result;',
      "  const to = rule.result;",
    ],
    "reduce: dtype option not cast": [
      "applyReduce(row, contiguousCopy(a, dtype), axes, options, attributes, second)",
      "applyReduce(row, a, axes, { ...options, dtype: undefined }, attributes, second)",
    ],
    "argmax: visited in any order": [
      "const plan = planReduce(what.kept, a.layout, null, what.reduced, true);",
      "const plan = planReduce(what.kept, a.layout, null, what.reduced, false);",
    ],
    "argmax: of nothing": ["  checkNotEmpty(op, a.layout, what);\n  checkCount", "  checkCount"],
    "argmax: more than an int32 counts": [
      "  checkNotEmpty(op, a.layout, what);\n  checkCount(op, a.layout, what.count);\n",
      "  checkNotEmpty(op, a.layout, what);\n",
    ],
    "reduce: floats of a dtype that is none": [
      'if (row.result === "float") checkFloat(dtype, op);\n    else checkDType',
      "checkDType",
    ],
    "scan: any rank without an axis": [
      "if (axis === null || (axis === undefined && rank !== 1)) {",
      "if (axis === null) {",
    ],
    "scan: initial value": ["if (includeInitial) shape[along]!++;", ""],
    "scan: initial value not written": [
      "    fillScalar(storage, layout.sliceAxis(along, 0, 1, 1), row.identity);\n",
      "",
    ],
  },
);

const DTYPES = edits("dispatch", "src/base/dtype.ts", [
  "feature_dtypes",
  "feature_elementwise",
  "mutation_gaps",
], {
  "promotion: float16 with bfloat16": ['a.bytes === b.bytes ? "float32" : ', ""],
  "promotion: integers with floats": [
    'if (a.kind === "f") return a.name;',
    'if (a.kind === "f") return "float64";',
  ],
  "promotion: bool": ['if (a.kind === "b") return b.name;', 'if (a.kind === "b") return a.name;'],
  "promotion: signed holds unsigned": [
    "if (signed.bytes > unsigned.bytes) return signed.name;",
    "",
  ],
  "promotion: uint32 with int32": ['4: "int64" }', "}"],
  "scalars: float32": [
    'typeof value === "number" ? "float32"',
    'typeof value === "number" ? "float64"',
  ],
  "scalars: numbers with bool tensors": [
    "const made = scalarDType(value);",
    "const made = dtype;",
  ],
  "scalars: range": ["if (value < min || value > max) {", "if (false) {"],
  "scalars: fractions": [
    'if (typeof value === "number" && !Number.isInteger(value)) {',
    "if (false) {",
  ],
  "limits: float32": [
    "const F32_MAX = 3.4028234663852886e38;",
    "const F32_MAX = Number.MAX_VALUE;",
  ],
  "limits: smallest float16": ["float16: [2 ** -10, 2 ** -14]", "float16: [2 ** -10, 2 ** -24]"],
  "names: any": [
    'if (typeof dtype !== "string" || !Object.hasOwn(DTYPE, dtype)) {',
    "if (false) {",
  ],
});

const NORMS = edits("dispatch", "src/tensor/composites.ts", ["norm"], {
  "norms: axes in their order": [".sort((p, q) => p - q)", ""],
  "norms: no axes": ["(Array.isArray(axes) && axes.length === 0)", "false"],
  "norms: what the mean lost": [
    "const rest = mean(shifted, along, keep);",
    "const rest = apply(MAP.sub, shifted, shifted);",
  ],
  "norms: population variance": ["(count) => [count], rest);", "(count) => [count - 1], rest);"],
  "norms: sums of squares": [
    "const count = (n: number): readonly number[] => [n];",
    "const count = (): readonly number[] => [1];",
  ],
  "norms: epsilon": ["apply(MAP.add, square, epsilon)", "apply(MAP.add, square, 0)"],
  "norms: epsilon of RMS norm": ["finfo(dtype).eps;", "1e-5;"],
  "norms: epsilon of layer norm": ["() => 1e-5,", "() => 1e-6,"],
  "norms: epsilon that is no number": [
    'if (typeof epsilon !== "number" || Number.isNaN(epsilon)) {',
    "if (false) {",
  ],
  "norms: 16-bit floats in 32 bits": [
    'return DTYPE[dtype].bytes === 2 ? "float32" : dtype;',
    "return dtype;",
  ],
  "norms: weights of any shape": ["  if (!fits) {", "  if (false) {"],
  "norms: weights of bool": ["  resultDType(MAP.exp, given.storage.info.name, op);\n", ""],
  "norms: weights along their axes": ["along.includes(axis) ? n : 1", "n"],
  "norms: bias": [
    "if (bias !== undefined) apply(MAP.add,",
    "if (bias !== undefined) apply(MAP.sub,",
  ],
});

const RULES = edits("dispatch", "src/ops/table.ts", ["feature_dtypes", "table:/^(add|sum|eq): /"], {
  "dtypes: integers in float ops": ['? "float32" : dtype;', "? dtype : dtype;"],
  "dtypes: comparisons give their input": ['row.result === "bool" || row.result', "row.result"],
  "dtypes: sums stay narrow": ['isShort ? "int64" : ', ""],
  "dtypes: sums of uint64": [' && dtype !== "uint64"', ""],
});

/** Faults of dispatch, the dtypes of rows, norms of rows and dtypes. */
export const DISPATCHES: readonly Mutant[] = [...DISPATCH, ...RULES, ...NORMS, ...DTYPES];
