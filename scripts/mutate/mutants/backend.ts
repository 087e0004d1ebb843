/**
 * Mutants of the JavaScript backend: loops, 64-bit arithmetic, casts, products, sorting.
 *
 * Left out is what only costs time: a loop with the wrong tiles or direction, a condition that is cast
 * though it is compared with 0 anyway, columns beyond the last (later rows write over them), the lines
 * of a panel that no result has, and the strides of a product, which is always made dense.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const TABLE = [
  "property",
  "feature_creation",
  "mutation_gaps",
  "table:/^(add|sub|mul|neg|abs|equal|less|isclose|clip|pow|floorDivide|bitwiseLeftShift): /",
  "table:/^(sum|max|min|var|any|argmax|cumulativeSum|cumulativeProd): /",
];

const LOOPS = edits("backend", "src/backend/js/loops.ts", TABLE, {
  "fill: one too few": ["${to}, ${to} + ${n}); else`", "${to}, ${to} + ${n} - 1); else`"],
  "fill: 64-bit elements by words": [
    "const same = inputs[0] === out && !DTYPE[out].wide;",
    "const same = inputs[0] === out;",
  ],
  "attributes: next to each other": ["p[${ATTRIBUTES + i}];`", "p[${ATTRIBUTES}];`"],
  "offsets: all of the output": ["p[${OFFSETS + k}]${int};`", "p[${OFFSETS}]${int};`"],
  "strides: all of the output": [
    "p[${at + rank + k * rank + j}]${int}`",
    "p[${at + rank + j}]${int}`",
  ],
  "odometer: index not advanced": ["steps.push(`i${k}_${j + 1} += s${k}_${j}`);", ""],
  "odometer: index begins at the first": [
    "inits.push(`i${k}_${j + 1} = i${k}_${j}`);",
    "inits.push(`i${k}_${j + 1} = i${k}_0`);",
  ],
  "map: everything hoisted": [
    "if (strides[k + 1] === 0) read(k);",
    "if (strides[k + 1] !== 2) read(k);",
  ],
  "map: nothing settled before a cast": [
    'row.name === "copy" ? value : emit.settle(value, from)',
    "value",
  ],
  "map: integers of 64 bits by numbers only": [
    "const slow = wide && hasCall(expr) ?",
    "const slow = false ?",
  ],
  "map: strided taken for dense": [
    "const flat = strides.every((s) => s !== 2);",
    "const flat = true;",
  ],
  "tiles: columns past the end": [
    "const ve = min(v + ${TILE}, n${v});`",
    "const ve = v + ${TILE};`",
  ],
  "tiles: one tile of rows": ["u += ${TILE}) {", "u += n${u}) {"],
  "tiles: begin of a row": [" + v * s${k}_${v}`)", "`)"],
  "accumulator: high word": [
    "emit.add(`a${suffix} = ${value.low}; h${suffix} = ${value.high};`);",
    "emit.add(`a${suffix} = ${value.low};`);",
  ],
  "reduce: floats added in the dtype": [
    'this.compute = this.floats ? "float64" : input;',
    "this.compute = input;",
  ],
  "reduce: finish": ["if (row.finish !== undefined) {", "if (false) {"],
  "reduce: compensation": ["return this.row.compensated === true &&", "return false &&"],
  "reduce: error of a sum": ["(${a} - (s - w)) + (t - w)", "0"],
  "reduce: columns of one block": ["+ (q + d) * s0_${column}`", "+ d * s0_${column}`"],
  "reduce: columns keep old sums": [
    '"low.fill(a); high.fill(h);" : "sums.fill(a); errors.fill(0);"',
    '"" : ""',
  ],
  "reduce: lanes not combined": ["lanes === 4 ? [[0, 1], [2, 3], [0, 2]] : []", "[]"],
  "reduce: the fourth lane lost": ["[[0, 1], [2, 3], [0, 2]]", "[[0, 1], [0, 2]]"],
  "reduce: rest of the lanes": [
    "`for (; c < ${end}; c++, ${advance(1)}) ${step(0, (k) => `j${k}`)}`",
    "``",
  ],
  "reduce: blocks added plainly": [
    'parts.push(twoSum("sum", "error", "a"), "a = 0;',
    'parts.push("sum += a;", "a = 0;',
  ],
  "argmax: first element not taken": [
    'acc.assign(emit, "", emit.load(input, "A", `i1_${kept}`));',
    "",
  ],
  "argmax: position stays": ['emit.add("} position++;");', 'emit.add("}");'],
  "scan: what came before": [
    'emit.compute(row.expr, { a: acc.value(""), x }, acc.dtype);\n  acc.assign(emit, "", acc.wraps',
    'x;\n  acc.assign(emit, "", acc.wraps',
  ],
  "huge: positions cut to 32 bits": ['const int = huge ? "" : " | 0";', 'const int = " | 0";'],
  "scan: small integers do not wrap": [
    "acc.wraps ? emit.settle(folded, acc.dtype) : folded);\n  emit.store",
    "folded);\n  emit.store",
  ],
});

const STARTS = edits("backend", "src/backend/js/interpret.ts", TABLE, {
  "identity: of floats": [
    'identity === "lowest" ? -Infinity : Infinity',
    'identity === "lowest" ? 0 : Infinity',
  ],
  "identity: of integers": [
    'identity === "lowest" ? min : max',
    'identity === "lowest" ? max : min',
  ],
});

const EMIT = edits("backend", "src/backend/js/emit.ts", [...TABLE, "table:/^casts/"], {
  "load: float16 as bits": [
    'if (dtype === "float16") return number(this.hold(`half',
    "if (false) return number(this.hold(`half",
  ],
  "store: bfloat16 as a number": [
    '} else if (dtype === "bfloat16") {\n      this.add(`${array}[${index}] = ${result',
    "} else if (false) {\n      this.add(`${array}[${index}] = ${result",
  ],
  "cast: to bool": ["number(`(${text} != 0 ? 1 : 0)`)", "number(text)"],
  "cast: wide to bool by the low word": ["`(${value.low} | ${value.high})`", "`${value.low}`"],
  "cast: floats saturate above": [
    "${x} < ${target.max} ? trunc(${x}) : ${target.max}",
    "trunc(${x})",
  ],
  "cast: NaN to integers": ["`${x} <= ${target.min} ? ${target.min} : 0`", "`${target.min}`"],
  "cast: 64-bit integers to float32": [
    '${value.signed ? "i" : "u"}64ToF32(${value.low}, ${value.high})',
    "${this.#toNumber(value)}",
  ],
  "cast: sign of small integers": [
    "high: this.hold(`${x} < 0 ? -1 : 0`),\n      signed,",
    "high: this.hold(`0`),\n      signed,",
  ],
  "wrap: small integers": [
    "${32 - 8 * bytes} >> ${32 - 8 * bytes})`",
    "${32 - 8 * bytes} >>> ${32 - 8 * bytes})`",
  ],
  "int32: products by doubles": [
    'op === "*" && kind !== "f" ? `imul(${l}, ${r})` : undefined',
    "undefined",
  ],
  "shift: bits of the dtype": ["String(bytes * 8) : arg", '"32" : arg'],
  "64 bits: numbers beyond 2^53": [
    "safe.push(`${name}w >= -${MAX_SAFE} && ${name}w <= ${MAX_SAFE}`);",
    "safe.push(`true`);",
  ],
  "64 bits: operands in order": [
    'for (const name of ["x", "y", "z"]) {',
    'for (const name of ["z", "y", "x"]) {',
  ],
  "64 bits: short unsigned operands": ["`${value.high} === 0`", "`true`"],
  "64 bits: short operands": ["`${value.high} === ${value.low} >> 31`", "`true`"],
  "64 bits: carry": ["${l.high} + ${r.high} + ${carry} | 0", "${l.high} + ${r.high} | 0"],
  "64 bits: borrow": ["- ${borrow} | 0`", "| 0`"],
  "64 bits: high product": ["mulHigh(${l.low}, ${r.low}) + ", ""],
  "64 bits: unsigned comparison": [
    'const sign = this.#signed ? "" : " >>> 0";',
    'const sign = "";',
  ],
  "64 bits: equal by the low word": [
    "(${l.low} === ${r.low} && ${l.high} === ${r.high})",
    "(${l.low} === ${r.low})",
  ],
  "64 bits: negation": ["`${low} === 0 ? -${x.high} | 0 : ~${x.high}`", "`~${x.high}`"],
});

const BACKEND = edits("backend", "src/backend/js/backend.ts", [...TABLE, "mutation_gaps"], {
  "loops: kept without the strides": [
    "const shape = (plan.rank * 2 + (plan.tiled ? 1 : 0)) * 2 + (plan.huge ? 1 : 0);\n    const variant = shape * 81 + plan.pattern;",
    "const shape = (plan.rank * 2 + (plan.tiled ? 1 : 0)) * 2 + (plan.huge ? 1 : 0);\n    const variant = shape * 81;",
  ],
  "loops: kept without the rank": ["(plan.rank * 2 + (plan.tiled", "(2 + (plan.tiled"],
  "loops: kept without the row": ["const key = dtypes * 1024 + row;", "const key = dtypes * 1024;"],
  "loops: kept without the dtype": [
    "this.#uniform[row.id * IDS + info.id]",
    "this.#uniform[row.id * IDS]",
  ],
  "loops: folds without the kept axes": [
    "(plan.rank * 256 + plan.kept) * 4",
    "(plan.rank * 256) * 4",
  ],
  "loops: folds without the strides": [
    "(plan.rank * 256 + plan.kept) * 4 + flags;\n    const variant = shape * 81 + plan.pattern;",
    "(plan.rank * 256 + plan.kept) * 4 + flags;\n    const variant = shape * 81;",
  ],
  "loops: kept without the size": ["* 2 + (plan.huge ? 1 : 0);", "* 2;"],
  "words: of 64-bit integers": [
    "return storage.info.wide ? storage.words : storage.array;",
    "return storage.array;",
  ],
});

const MATMUL = edits("backend", "src/backend/js/matmul.ts", [
  "feature_matmul",
  "property",
  "mutation_gaps",
], {
  "lines beyond a group of four": [
    "let to = (line >> 2) * 4 * k + (line & 3);\n    let from = offset + line * lineStride;\n    for (let p = 0; p < k; p++, to += 4, from += stride) packed[to] = source[from]!;\n  }\n}\n\nfunction packInt",
    "let to = (line & 3);\n    let from = offset + line * lineStride;\n    for (let p = 0; p < k; p++, to += 4, from += stride) packed[to] = source[from]!;\n  }\n}\n\nfunction packInt",
  ],
  "negative strides": [
    "const low = offset + Math.min(0, acrossLines) + Math.min(0, along);",
    "const low = offset;",
  ],
  "edge of a tile": [" && width === n && m * n >= 64) {", " && m * n >= 64) {"],
  "one product of a tile": ["c30 += a3 * b0, c31 += a3 * b1", "c30 += a3 * b0, c31 += a3 * b0"],
  "int32 overflow": ["c3 = (c3 + imul(a, right[r + 3]!)) | 0;", "c3 = c3 + a * right[r + 3]!;"],
  "float16 as bits": [
    'if (name === "float16" || name === "bfloat16") {\n    const table = name === "float16"',
    'if (name === "bfloat16") {\n    const table = name === "float16"',
  ],
  "bfloat16 written as a number": [": toBrain(value);", ": value;"],
  "64 bits: high words": ["imul(A[x + 1]!, bl) + ", ""],
  "64 bits: carry": [
    "        high = (high + mulHigh(al, bl) + imul(A[x + 1]!, bl) + imul(al, B[y + 1]!) +\n          (sum > 4294967295 ? 1 : 0)) | 0;",
    "        high = (high + mulHigh(al, bl) + imul(A[x + 1]!, bl) + imul(al, B[y + 1]!)) | 0;",
  ],
});

const GATHER = edits("backend", "src/backend/js/gather.ts", [
  "indexing_golden",
  "feature_indexing",
  "mutation_gaps",
], {
  "negative indexes": ["return at < 0 ? at + size : at;", "return at;"],
  "picks above": ["if (at < 0 || at >= places) return i;", "if (at < 0) return i;"],
  "picks below": ["if (at < 0 || at >= places) return i;", "if (at >= places) return i;"],
  "picks: stride": ["positions[i] = at * stride;", "positions[i] = at;"],
  "picks: offset": ["indexes.array[offset + i]!", "indexes.array[i]!"],
  "indexes above": [
    "if (at < 0 || at >= size) return i;\n    const sum",
    "if (at < 0) return i;\n    const sum",
  ],
  "indexes below": [
    "if (at < 0 || at >= size) return i;\n    const sum",
    "if (at >= size) return i;\n    const sum",
  ],
  "several indexes add up": ["Number(result[places[i]!]) + at * stride", "at * stride"],
  "blocks: dense when they are not": ["data[strides] === 1 && data[strides + 1] === 1", "true"],
  "blocks: source of a run": ["const f = from + (motion", "const f = (motion"],
  "blocks: target of a run": ["const t = to + (motion", "const t = (motion"],
  "blocks: the interpreter's order": [
    'motion === "gather" ? [i * step, positions[i]!] : [positions[i]!, i * step]',
    "[i * step, positions[i]!]",
  ],
  "blocks: gather and scatter exchanged": [
    'motion === "gather" ? ["i * step", "positions[i]"] : ["positions[i]", "i * step"]',
    '["i * step", "positions[i]"]',
  ],
  "sums: of long runs": ['size >= LONG_RUN && motion !== "add"', "size >= LONG_RUN"],
  "sums: written over": [
    '"out[t + to[e]] += source[f + from[e]];"',
    '"out[t + to[e]] = source[f + from[e]];"',
  ],
  "sums: of words": ['generate && info.wide && motion !== "add"', "generate && info.wide"],
  "sums: 16-bit floats as bits": [
    'motion === "add" && info.kind === "f" && info.bytes === 2',
    "false",
  ],
  "sums: bfloat16 as float16": ['dtype.name === "float16"', 'dtype.name !== ""'],
  "sums: interpreted": ['if (motion === "add") (out as', "if (false) (out as"],
  "blocks: high words": ["out[p] = source[q]; out[p + 1] = source[q + 1];", "out[p] = source[q];"],
  "blocks: outer axes": [
    "for (let j = rank - 1; j >= 0; j--) {",
    "for (let j = rank - 1; j > 0; j--) {",
  ],
  "nonzero: -0": [
    "if (readElement(input, offset + i) !== 0) out[found++] = i;",
    "if (input.array[offset + i] !== 0) out[found++] = i;",
  ],
  "nonzero: offset": [
    "if (array[offset + i] !== zero) out[found++] = i;",
    "if (array[i] !== zero) out[found++] = i;",
  ],
});

const SORT = edits("backend", "src/backend/js/sort.ts", [
  "sort",
  "feature_indexing",
  "feature_elementwise",
  "mutation_gaps",
], {
  "values: descending": ["  if (descending) {\n    let end", "  if (false) {\n    let end"],
  "values: zeros in order": ["part.set(zeros, part.indexOf(0));", "zeros.length;"],
  "values: NaN last": ["while (end > 0 && part[end - 1] !== part[end - 1]) end--;", ""],
  "values: float16 by its bits": [
    "if (size >= RADIX_LEAST || bits) {",
    "if (size >= RADIX_LEAST) {",
  ],
  "order: negative integers": ['const sign = kind === "i" ? -2147483648 : 0;', "const sign = 0;"],
  "order: negative floats": [
    "bits ^ (bits >> 31 | -2147483648) ^ flip",
    "bits ^ -2147483648 ^ flip",
  ],
  "order: NaN last": ["value !== value ? NAN_KEY : bits", "bits"],
  "order: -0 before 0": ["float[0] = value + 0;", "float[0] = value;"],
  "order: descending": ["const flip = descending ? -1 : 0;", "const flip = 0;"],
  "order: high words of 64 bits": [
    "writeKeys(storage, from, size, descending, true, keysB);",
    "writeKeys(storage, from, size, descending, false, keysB);",
  ],
  "order: low words of 64 bits": ["(upper ? high : low) ^ flip", "high ^ flip"],
  "radix: order left behind": ["      orderB[to] = orderA[i]!;\n", ""],
  "radix: the upper bits": [
    "for (let shift = 0; shift < 32; shift += BITS) {",
    "for (let shift = 0; shift < 22; shift += BITS) {",
  ],
  "order: not stable": ["keysA[at - 1]! > key", "keysA[at - 1]! >= key"],
  "order: -0 of float64": ["if (low === 0 && magnitude === 0) high = 0;", ""],
  "order: NaN of float64": ["          keys[i] = NAN_KEY;\n", "          keys[i] = 0;\n"],
  "runs: only the first": ["const from = offset + run * size;", "const from = offset;"],
});

const ELEMENTS = edits("backend", "src/memory/element.ts", [
  "table:/^casts/",
  "feature_dtypes",
  "mutation_gaps",
], {
  "read: bfloat16 as bits": [
    'if (storage.info.name === "bfloat16") return fromBrain(raw as number);',
    "",
  ],
  "write: float16 as a number": ['name === "float16"\n    ? toHalf(cast as number)\n    :', ""],
  "cast: NaN to bool": ["value ? 1 : value !== value ? 1 : 0", "value ? 1 : 0"],
  "cast: NaN to integers": [
    "if (value !== value) return wide ? 0n : 0;",
    "if (value !== value) return min;",
  ],
  "cast: below the smallest": ["if (value <= min) return min;", ""],
  "cast: above the largest": ["if (value >= max) return max;", ""],
  "cast: unsigned wraps": ['const wrapped = kind === "i"', "const wrapped = true"],
});

const HALVES = edits(
  "backend",
  "src/base/half.ts",
  ["mutation_gaps", "table:/patterns/", "table:/^casts/", "primitives"],
  {
    "float16: subnormals": ["? mantissa * 2 ** -24", "? 0"],
    "float16: infinity": ["mantissa === 0 ? Infinity : NaN", "NaN"],
    "float16: sign": ["bits >= 32768 ? -magnitude : magnitude", "magnitude"],
    "float16: half to even": [
      "(mantissa + (1 << (shift - 1)) - 1 + odd)",
      "(mantissa + (1 << (shift - 1)))",
    ],
    "float16: NaN": ["return step >>> 8 | 0x200;", "return step >>> 8;"],
    "halves: rounded twice": ["  return I32[0]! | 1;", "  return I32[0]!;"],
    "bfloat16: half to even": ["(bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16", "bits >>> 16"],
    "bfloat16: NaN": ["if ((bits & 0x7fffffff) > 0x7f800000) return (bits >>> 16) | 0x40;", ""],
  },
);

/** Faults of the JavaScript backend. */
export const BACKENDS: readonly Mutant[] = [
  ...LOOPS,
  ...STARTS,
  ...EMIT,
  ...BACKEND,
  ...MATMUL,
  ...GATHER,
  ...SORT,
  ...ELEMENTS,
  ...HALVES,
];
