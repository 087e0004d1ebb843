/**
 * Mutants of indexing by masks and integer tensors.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const INDEXING = edits(
  "indexing",
  "src/tensor/indexing.ts",
  ["indexing_golden", "feature_indexing", "feature_errors", "mutation_gaps"],
  {
    "indexes: fractions": ["if (!Number.isInteger(value)) {", "if (false) {"],
    "indexes: float tensors": ['} else if (kind === "f") {', "} else if (false) {"],
    "several indexes: out of range": [
      "if (bad >= 0) {\n      const { storage }",
      "if (false) {\n      const { storage }",
    ],
    "several indexes: size": ["  let size = 1;\n", "  let size = 0;\n"],
    "several indexes: backwards": ["if (reach < 0) before -= reach;", ""],
    "one index: out of range": ["if (bad >= 0) throw outOfRange(", "if (false) throw outOfRange("],
    "indexes: too many": ["if (used > rank || ellipses > 1) throw", "if (ellipses > 1) throw"],
    "ellipsis: twice": ["if (used > rank || ellipses > 1) throw", "if (used > rank) throw"],
    "ellipsis: no axes": ["else if (full.length > 0) args.splice(dots, 1, ...full);", ""],
    "rest: not filled": ["if (dots === -1) args.push(...full);\n  else if", "if"],
    "newaxis: dropped": [
      "      blockShape.push(1);\n      blockStrides.push(0);\n      return;",
      "      return;",
    ],
    "slices: offset": ["      offset += part.offset;\n", ""],
    "place: always first": [
      "if (place === -1) place = blockShape.length;",
      "if (place === -1) place = 0;",
    ],
    "place: apart": ["  if (apart) place = 0;\n", ""],
    "place: apart not seen": ["else if (last !== i - 1) apart = true;", ""],
    "place: dots part": [
      '    if (argument === "...") return;\n',
      '    if (argument === "...") {\n      if (last === i - 1) last = i;\n      return;\n    }\n',
    ],
    "mask: shape": ["if (!sameShape(shape, covered)) {", "if (false) {"],
    "mask: axes": ["      ? argument.layout.shape.length\n      : 1;", "      ? 1\n      : 1;"],
    "mask: arrays of booleans": [
      'if (values.length > 0 && values.every((value) => typeof value === "boolean")) {',
      "if (false) {",
    ],
    "mask: empty array": ["values.length > 0 && values.every", "values.every"],
    "tensors: broadcast": [
      "const index = tensor.layout.broadcastTo(picked);",
      "const index = tensor.layout;",
    ],
    "step: from pick to pick": [
      "if (layout.shape[i] !== 1) step = layout.strides[i]!;",
      "step = 1;",
    ],
    "sums: bool": ["  if (accumulate) resultDType(", "  if (false) resultDType("],
    "sums: by slices": ["if (accumulate) addTo(", "if (false) addTo("],
    "sums: by tensors": ["from.step, accumulate);", "from.step, false);"],
    "sums: in another dtype": [
      "value.storage.info === info ? value : packed(value, info)",
      "value",
    ],
    "sums: options": ["if (options !== undefined) checkOptions(", "if (false) checkOptions("],
    "nonzero: rank 0": ["if (shape.length === 0) {", "if (false) {"],
    "nonzero: axes": [
      "axes.unshift(apply(MAP.remainder, rest, n));",
      "axes.push(apply(MAP.remainder, rest, n));",
    ],
    "set: read-only": ["  prepareWrite(x, op);\n", ""],
    "set: dtype": ["    checkStore(value.storage.info.name, dtype, op);\n", ""],
    "set: range of scalars": ["    checkScalar(dtype, value, op);\n", ""],
    "set: overlap of slices": [
      "undisturbed(source, lens(x, layout))",
      "source",
    ],
    "set: overlap of picks": [" && !overlaps(x, given)\n", "\n"],
    "set: cast of picks": ["given.storage.info.name === dtype && ", ""],
    "set: strided values": ["given.layout.contiguous && ", ""],
    "set: version of slices": ["    x.storage.version++;\n    return;", "    return;"],
    "set: version of picks": ["  x.storage.version++;\n}", "}"],
    "set: values that do not fit": [
      "if (!sameShape(broadcastShapes(op, shape, layout.shape), shape)) {",
      "if (false) {",
    ],
    "set: leading axes of size 1": [
      "while (layout.shape.length > shape.length && layout.shape[0] === 1)",
      "while (false)",
    ],
    "take: axis": [
      'const along = normalizeAxis("take", axis, x.layout.shape.length);',
      "const along = 0;",
    ],
    "take: float indexes": ['if (kind !== "i" && kind !== "u") {', "if (false) {"],
    "takeAlongAxis: rank": ["if (tensor.layout.shape.length !== rank) {", "if (false) {"],
    "takeAlongAxis: axis": ["if (i === along) return tensor;", "if (i === 0) return tensor;"],
    "oneHot: classes": ["if (low < 0 || high >= classes) {", "if (false) {"],
  },
);

/** Faults of indexing. */
export const INDEXINGS: readonly Mutant[] = [...INDEXING];
