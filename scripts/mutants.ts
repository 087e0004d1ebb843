/**
 * The mutants of mutate.ts: small faults in src, each of which some test must notice.
 *
 * Those of the op table are made from the table, so that a new row has its own at once; the others
 * are lists of `name: [text, replacement]` for one file. The text has to occur in it exactly once.
 *
 * Left out are changes that no value and no plan can show: the shortcut `across < 2` of
 * `chooseTiles`, `stepSize === 1` of `resolveStepped` and the lone index of `sliceBasic` save time
 * and give what the general path gives; the stride of a new axis is never followed; and the length
 * that `sliceBasic` gives new arrays is only a hint.
 *
 * @module
 */
import type { Row } from "../src/ops.ts";

/** The kinds of mutants. */
export const GROUPS = [
  "op row",
  "plan step",
  "slice rule",
  "layout",
  "dispatch",
  "indexing",
  "storage",
  "backend",
  "io",
  "type",
] as const;

/** What a mutant belongs to. */
export type Group = typeof GROUPS[number];

/** One fault. */
export interface Mutant {
  readonly name: string;
  readonly group: Group;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** Test files, without `_test.ts`, likeliest to notice it first; `file:/pattern/` for some tests. */
  readonly tests: readonly string[];
}

type Edits = Readonly<Record<string, readonly [find: string, replace: string]>>;

function edits(group: Group, file: string, tests: readonly string[], list: Edits): Mutant[] {
  return Object.entries(list).map(([name, [find, replace]]) => ({
    name,
    group,
    file,
    find,
    replace,
    tests,
  }));
}

// ---- the op table ------------------------------------------------------------------------------

/** An expression that gives something else; a whole row without its op where that is a change. */
function wrong(expr: string, row: Row): string {
  if (/^[01]$/.test(expr)) return expr === "0" ? "1" : "0";
  if (row.skeleton !== "map") return row.skeleton === "argReduce" ? `!(${expr})` : "x";
  if (row.result === "bool") return `!(${expr})`;
  if (expr !== "x") return row.arity === 3 ? "y" : "x";
  return "x + 1";
}

/** Every field of a row that has a meaning of its own, with a wrong value. */
function wrongFields(row: Row): [field: string, value: unknown][] {
  const fields: [string, unknown][] = [["expr", wrong(row.expr, row)]];
  if (row.int !== undefined) fields.push(["int", wrong(row.int, row)]);
  if (row.bool !== undefined) fields.push(["bool", row.bool === "x" ? "!(x == 0)" : "x"]);
  if (row.takes.length > 1) fields.push(["takes", row.takes.slice(1)]);
  const other = [..."biuf"].find((kind) => !row.takes.includes(kind));
  if (other !== undefined) fields.push(["takes", row.takes + other]);
  if (row.result === "float" || row.result === "sum") fields.push(["result", "same"]);
  if (row.skeleton === "map" && row.condition) fields.push(["condition", false]);
  if (row.skeleton === "reduce" || row.skeleton === "scan") {
    const { identity } = row;
    // The largest magnitude of nothing is 0, and no magnitude is below it.
    if (row.name !== "normMax") {
      fields.push(["identity", typeof identity === "number" ? 1 - identity : 0]);
    }
  }
  if (row.skeleton === "reduce") {
    if (row.map !== undefined) fields.push(["map", "x"]);
    if (row.finish !== undefined) fields.push(["finish", "a"]);
    if (row.nonEmpty) fields.push(["nonEmpty", false]);
    if (row.compensated) fields.push(["compensated", false]);
  }
  return fields;
}

/** The mutants of the rows, from the table and the text that it stands in. */
export function rowMutants(rows: readonly Row[], source: string): Mutant[] {
  return rows.flatMap((row) => {
    const texts = source.matchAll(
      new RegExp(`^  ${row.name}: (\\w+\\([\\s\\S]*?),\\n(?=  \\w+: \\w+\\(|\\} as const)`, "gm"),
    );
    const [text, ...more] = [...texts].map(([, call]) => call!);
    if (text === undefined || more.length > 0) throw new Error(`No single row of ${row.name}`);
    return wrongFields(row).map(([field, value]): Mutant => ({
      name: `${row.name}: ${field} ${JSON.stringify(value)}`,
      group: "op row",
      file: "src/ops.ts",
      find: `  ${row.name}: ${text},\n`,
      replace: `  ${row.name}: { ...${text}, ${field}: ${JSON.stringify(value)} } as never,\n`,
      tests: [`table:/^${row.name}: /`, "mutation_gaps", "feature_reductions", "feature_dtypes"],
    }));
  });
}

// ---- plans -------------------------------------------------------------------------------------

const PLAN = edits("plan step", "src/plan.ts", ["plan", "property", "feature_views"], {
  "dense path: offset of the output": [
    "data[OFFSETS] = out.offset;\n    data[OFFSETS + 1] = a.offset;\n    let at",
    "data[OFFSETS] = 0;\n    data[OFFSETS + 1] = a.offset;\n    let at",
  ],
  "dense path: offset of the first input": [
    "data[OFFSETS + 1] = a.offset;\n    let at",
    "data[OFFSETS + 1] = 0;\n    let at",
  ],
  "dense path: offset of the second input": [
    "if (b !== null) data[at++] = b.offset;",
    "if (b !== null) data[at++] = 0;",
  ],
  "dense path: offset of the third input": [
    "if (c !== null) data[at++] = c.offset;",
    "if (c !== null) data[at++] = 0;",
  ],
  "dense path: never taken": ["out.contiguous && dense(a, out)", "false && dense(a, out)"],
  "dense path: any output": ["out.contiguous && dense(a, out)", "dense(a, out)"],
  "dense path: third input not asked": ["(c === null || dense(c, out))", "true"],
  "dense path: single elements step": ["(data[at++] = a.size === 1 ? 0 : 1)", "(data[at++] = 1)"],
  "dense path: third single element steps": [
    "(data[at++] = c.size === 1 ? 0 : 1)",
    "(data[at++] = 1)",
  ],
  "dense path: any shape": ["(layout.contiguous && layout.size === out.size)", "layout.contiguous"],
  "dense path: any strides": [
    "(layout.contiguous && layout.size === out.size)",
    "layout.size === out.size",
  ],
  "dense path: no single elements": ["return layout.size === 1 || (", "return ("],
  "dense path: tiled left as it was": [
    "    plan.tiled = false;\n    data[0] = 1;",
    "    data[0] = 1;",
  ],
  "broadcast: stride 1 where repeated": [
    "? 0\n      : layout.strides",
    "? 1\n      : layout.strides",
  ],
  "broadcast: axes of size 1 keep their stride": [
    "(layout.shape[i - missing] === 1 && shape[i] !== 1)",
    "false",
  ],
  "broadcast: new axes not told": ["i < missing || (layout", "(layout"],
  "broadcast: aligned at the left": [
    "const missing = shape.length - layout.shape.length;",
    "const missing = 0;",
  ],
  "empty: walked like others": ["if (shape[i] === 0) {", "if (false) {"],
  "empty: one element": ["sizes[0] = 0;", "sizes[0] = 1;"],
  "unit axes: kept": ["  rank = dropUnits(0, rank);\n", ""],
  "unit axes: none left": ["if (rank === 0) {", "if (false) {"],
  "unit axes: the last one dropped anyway": [
    "if (sizes[i] !== 1) moveAxis(i, end++);",
    "if (sizes[i] !== 1 && i < to - 1) moveAxis(i, end++);",
  ],
  "move: sizes only": [
    "for (let k = 0; k < count; k++) steps[k]![to] = steps[k]![from]!;",
    "",
  ],
  "flip: not done": ["  flipNegative(0, rank);\n", ""],
  "flip: start one too far": [
    "+= (sizes[i]! - 1) * steps[k]![i]!;",
    "+= sizes[i]! * steps[k]![i]!;",
  ],
  "flip: stride stays": ["      steps[k]![i] = 0 - steps[k]![i]!;\n", ""],
  "flip: against a forward operand": ["|| positive || sizes[i] === 0", "|| sizes[i] === 0"],
  "flip: empty axes too": ["|| positive || sizes[i] === 0", "|| positive"],
  "sort: not done": ["  sortAxes(0, rank);\n", ""],
  "sort: innermost first": ["return si > sj;", "return si < sj;"],
  "sort: by signed strides": [
    "Math.abs(step[i]!);\n    const sj = Math.abs(step[j]!);",
    "step[i]!;\n    const sj = step[j]!;",
  ],
  "sort: sizes stay": ["  sizes[i] = sizes[j]!;\n  sizes[j] = size;\n", ""],
  "sort: one pass": ["for (let j = i; j > from && isOuter", "for (let j = i; j === i && isOuter"],
  "merge: not done": ["  rank = mergeAxes(0, rank);\n", ""],
  "merge: across gaps": ["fits = steps[k]![end] === steps[k]![i]! * sizes[i]!;", "fits = true;"],
  "merge: only the output asked": ["k < count && fits; k++", "k < 1 && fits; k++"],
  "merge: size of the outer axis only": ["sizes[end] = sizes[i]! * n;", "sizes[end] = n;"],
  "lengthen: not done": ["  lengthenInnermost();\n", ""],
  "lengthen: long ones too": ["sizes[inner]! < 8 && ", ""],
  "lengthen: for any neighbour": [" && sizes[inner - 1]! > 4 * sizes[inner]!", ""],
  "tiles: never": ["return finish(plan, 0, chooseTiles());", "return finish(plan, 0, false);"],
  "tiles: of short rows": ["  if (sizes[inner]! < TILE_LEAST) return false;\n", ""],
  "tiles: of short columns": [" || sizes[i]! < TILE_LEAST) continue;", ") continue;"],
  "tiles: along longer strides": ["along === 0 || along >= across ||", "along === 0 ||"],
  "tiles: along broadcast axes": ["along === 0 || along >= across ||", "along >= across ||"],
  "tiles: axis left where it is": [
    "for (let j = i; j < inner - 1; j++) swapAxes(j, j + 1);",
    "",
  ],
  "reduce: size 1 of the output followed": [
    "layout.shape[axis] === sizes[i] ? layout.strides[axis]! : 0",
    "layout.strides[axis]!",
  ],
  "reduce: kept and reduced exchanged": ["if (!reduced[axis]) order", "if (reduced[axis]) order"],
  "reduce: unit axes not closed up": ["const removed = keptAxes - kept;", "const removed = 0;"],
  "reduce: reduced unit axes kept": ["  rank = dropUnits(kept, rank);\n", ""],
  "reduce: kept axes not flipped": ["  flipNegative(0, kept);\n", ""],
  "reduce: kept axes not sorted": ["  sortAxes(0, kept);\n", ""],
  "reduce: order ignored": ["if (!ordered) {", "if (true) {"],
  "reduce: always ordered": ["if (!ordered) {", "if (false) {"],
  "reduce: reduced axes not flipped": ["    flipNegative(kept, rank);\n", ""],
  "reduce: reduced axes not sorted": ["    sortAxes(kept, rank);\n", ""],
  "reduce: reduced axes not merged": ["const end = mergeAxes(kept, rank);", "const end = rank;"],
  "reduce: kept axes not merged": [
    "const keptMerged = mergeAxes(0, kept);",
    "const keptMerged = kept;",
  ],
  "reduce: merged axes not closed up": [
    "  for (let i = kept; i < rank; i++) moveAxis(i, i - (kept - keptMerged));\n",
    "",
  ],
  "reduce: second operand left out": ["  if (b !== null) add(b, 2);\n", ""],
  "whole: kept axes": ["    plan.kept = 0;\n", ""],
  "whole: offset": [
    "data[OFFSETS + 1] = a.offset;\n    data[OFFSETS + 2]",
    "data[OFFSETS + 1] = 0;\n    data[OFFSETS + 2]",
  ],
  "whole: strided inputs": [
    "if (b === null && a.contiguous && out.size === 1) {",
    "if (b === null && out.size === 1) {",
  ],
  "whole: second operand ignored": [
    "if (b === null && a.contiguous && out.size === 1) {",
    "if (a.contiguous && out.size === 1) {",
  ],
  "whole: never a single run": [
    "if (b === null && a.contiguous && out.size === 1) {",
    "if (false) {",
  ],
  "plan: kept not told": ["  plan.kept = kept;\n", ""],
  "plan: data not grown": ["if (plan.data.length < needed)", "if (false)"],
  "plan: stride 0 in the pattern": [
    "(last === 0 ? 0 : last === 1 ? 1 : 2)",
    "(last === 1 ? 1 : 2)",
  ],
  "plan: any stride is 1": ["(last === 0 ? 0 : last === 1 ? 1 : 2)", "(last === 0 ? 0 : 1)"],
});

// ---- slices ------------------------------------------------------------------------------------

const SLICE = edits("slice rule", "src/slice.ts", ["slice", "feature_slices", "mutation_gaps"], {
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
  "text: spaces around parts": ["parsePart(part.trim(), text)", "parsePart(part, text)"],
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
    '      throw new IndexError(\n        `Cannot slice by "${arg}" beside',
    '      if (false) throw new IndexError(\n        `Cannot slice by "${arg}" beside',
  ],
  "ellipsis: more than one": ["if (ellipses > 1) throw", "if (false) throw"],
  "ellipsis: an axis short": ["for (; rest > 0; rest--) {", "for (; rest > 1; rest--) {"],
  "ellipsis: only at the end": [
    '    } else if (typeof arg === "string") {\n      for',
    "    } else if (i === count) {\n      for",
  ],
  "too many indexes": ["if (rest < 0) {", "if (false) {"],
  "index: not checked": [
    'layout.checkIndex("slice", axis, arg) * layout.strides[axis]',
    "arg * layout.strides[axis]",
  ],
  "index: not in the offset": [
    'offset += layout.checkIndex("slice", axis, arg) * layout.strides[axis];',
    'layout.checkIndex("slice", axis, arg);',
  ],
  "newaxis: size 2": ["shape[out] = 1;", "shape[out] = 2;"],
  "newaxis: refused": ["else if (arg === null) rank++;", ""],
  "size: axes of the ellipsis": ["        size *= shape[out];\n", ""],
  "size: axes that are sliced": ["      size *= spanLength;\n", ""],
  "stride: step ignored": ["stride * spanStep + 0;", "stride;"],
  "stride: -0": ["stride * spanStep + 0;", "stride * spanStep;"],
  "offset: start ignored": ["      offset += spanStart * stride;\n", ""],
  "offset: of an empty view": ["size === 0 ? layout.offset : offset", "offset"],
  "one axis: no strings": ["if (parts.length === 1) one = parts[0];", ""],
  "one axis: index not checked": ['layout.checkIndex("slice", at, one)', "one"],
  "one axis: negative axis": [
    'const at = normalizeAxis("slice", axis, layout.shape.length);',
    "const at = axis;",
  ],
});

// ---- layouts and shapes ------------------------------------------------------------------------

const LAYOUT = edits("layout", "src/layout.ts", ["layout", "layout_property", "mutation_gaps"], {
  "contiguous: axes of size 1 count": [
    "const n = shape[i];\n    if (n === 1) continue;\n    if (strides[i] !== expected)",
    "const n = shape[i];\n    if (strides[i] !== expected)",
  ],
  "contiguous: empties are not": ["if (size === 0) return true;", "if (size === 0) return false;"],
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
  "permute: too few axes": ["if (order.length !== rank) {", "if (false) {"],
  "permute: strides": [
    "const axis = order[i];\n    shape[i] = layout.shape[axis];\n    strides[i] = layout.strides[axis];",
    "const axis = order[i];\n    shape[i] = layout.shape[axis];\n    strides[i] = layout.strides[i];",
  ],
  "transpose: strides": ["strides[i] = this.strides[j];", "strides[i] = this.strides[i];"],
  "swapAxes: strides": ["    strides[a] = this.strides[b];\n", ""],
  "moveAxis: destination": ["order.splice(to, 0, from);", "order.splice(from, 0, from);"],
  "expandDims: at the end": [
    'normalizeAxis("expandDims", axis, rank + 1)',
    'normalizeAxis("expandDims", axis, rank)',
  ],
  "squeeze: longer axes": [
    "        throw new ShapeError(\n          `Cannot squeeze",
    "        continue;\n        throw new ShapeError(\n          `Cannot squeeze",
  ],
  "broadcast: stride 0": ["else if (n === 1) strides[i] = 0;", "else if (n === 1) strides[i] = 1;"],
  "broadcast: new axes": ["strides[i] = i < added ? 0 : this", "strides[i] = i < added ? 1 : this"],
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
  "select: offset of an empty view": ["size === 0 ? 0 : index * this", "false ? 0 : index * this"],
  "select: which axis goes": ["const from = i < axis ? i : i + 1;", "const from = i;"],
});

const SHAPE = edits("layout", "src/shape.ts", [
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

// ---- dispatch ----------------------------------------------------------------------------------

const DISPATCH = edits(
  "dispatch",
  "src/dispatch.ts",
  ["feature_errors", "feature_elementwise", "feature_dtypes", "feature_ownership", "mutation_gaps"],
  {
    "operands: anything": [
      "  if (!isOperand(value)) {\n    throw new DTypeError(`Cannot ${op}: expected a tensor, got",
      "  if (false) {\n    throw new DTypeError(`Cannot ${op}: expected a tensor, got",
    ],
    "operands: disposed ones": [
      "  checkAlive(value.storage, op);\n}\n\nfunction describe",
      "}\n\nfunction describe",
    ],
    "dtypes: all taken": ["if (!row.takes.includes(kind)) {", "if (false) {"],
    "dtypes: integers in float ops": [
      '? "float32" : name;\n  const result',
      "? name : name;\n  const result",
    ],
    "dtypes: comparisons give their input": ['row.result === "bool" || row.result', "row.result"],
    "dtypes: sums stay narrow": ['? "int64"\n    : compute', "? compute\n    : compute"],
    "dtypes: sums of uint64": [' && name !== "uint64"', ""],
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
    "write: copy on write": ["if (target.flags & COW) target.detach();\n  else if", "if"],
    "write: those who wait for a copy": [
      "else if (target.storage.cows !== null) settleCows(target.storage);",
      "",
    ],
    "write: those who wait stay": ["  storage.cows = null;\n", ""],
    "overlap: never": [
      "if (target.storage.array.buffer !== source.storage.array.buffer) return false;",
      "return false;",
    ],
    "overlap: one buffer is enough": ["return tLow < sHigh && sLow < tHigh;", "return true;"],
    "overlap: last element": ["(high + 1) * storage.info.bytes", "high * storage.info.bytes"],
    "overlap: begin of the array": ["byteOffset + low * storage", "low * storage"],
    "overlap: same storage, other strides": [" && sameShape(t.strides, s.strides)", ""],
    "overlap: same storage, other offset": ["t.offset === s.offset &&\n", "\n"],
    "overlap: always copied": [
      "return same ? source : contiguousCopy(source);",
      "return contiguousCopy(source);",
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
    "out: first operand disturbed": ["    a = undisturbed(a, out);\n", ""],
    "out: second operand disturbed": ["      other = undisturbed(other, out);\n", ""],
    "out: general operands disturbed": ["out === undefined ? arg : undisturbed(arg, out)", "arg"],
    "out: of reductions": ["  fill(out.storage, out.layout, made);\n", ""],
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
      "row.arity < 3 && options?.broadcast !== false",
      "row.arity < 3",
    ],
    "broadcast false: ignored": ["if (options?.broadcast === false) {", "if (false) {"],
    "options: unknown names": ["if (!known.includes(name)) {", "if (false) {"],
    "options: a tensor": [" || isOperand(options)", ""],
    "promotion: first operand wins": [
      ": promoteTypes(dtype, arg.storage.info.name, name);",
      ": dtype;",
    ],
    "promotion: condition takes part": ["const first = row.condition ? 1 : 0;", "const first = 0;"],
    "condition: any dtype": [
      '!isScalar(condition) && condition.storage.info.name !== "bool"',
      "false",
    ],
    "in place: shapes that grow": ["    if (!sameShape(shape, mine)) {\n", "    if (false) {\n"],
    "in place: not in place": [
      "return apply(inPlace, target, other, third, { out: target });",
      "return apply(inPlace, target, other, third);",
    ],
    "attributes: not passed": [
      "plan.data[ATTRIBUTES + i] = attributes[i]!;",
      "void attributes[i];",
    ],
    "contiguous: views pass": [
      "return source.layout.contiguous ? source : contiguousCopy(source);",
      "return source;",
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
      "if (dtype !== a.storage.info.name) a = contiguousCopy(a, dtype);\n  }\n  const rule",
      "}\n  const rule",
    ],
    "argmax: visited in any order": [
      "const plan = planReduce(what.kept, a.layout, null, what.reduced, true);",
      "const plan = planReduce(what.kept, a.layout, null, what.reduced, false);",
    ],
    "argmax: of nothing": ["  checkNotEmpty(name, a.layout, what);\n  checkCount", "  checkCount"],
    "argmax: more than an int32 counts": [
      "  checkNotEmpty(name, a.layout, what);\n  checkCount(name, a.layout, what.count);\n",
      "  checkNotEmpty(name, a.layout, what);\n",
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
    "scan: visited in any order": [
      "const plan = planReduce(target, a.layout, null, reduced, true);",
      "const plan = planReduce(target, a.layout, null, reduced, false);",
    ],
  },
);

const DTYPES = edits("dispatch", "src/dtype.ts", [
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
    'if (kind === "b") return scalarDType(value);',
    'if (kind === "b") return dtype;',
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

// ---- indexing ----------------------------------------------------------------------------------

const INDEXING = edits(
  "indexing",
  "src/indexing.ts",
  ["indexing_golden", "feature_indexing", "feature_errors", "mutation_gaps"],
  {
    "indexes: fractions": ["if (!Number.isInteger(value)) {", "if (false) {"],
    "indexes: float tensors": ['} else if (kind === "f") {', "} else if (false) {"],
    "indexes: out of range": ["if (bad >= 0) {", "if (false) {"],
    "indexes: too many": ["if (used > rank) {", "if (false) {"],
    "ellipsis: twice": [
      'if (args.indexOf("...", dots + 1) !== -1 && dots !== -1) {',
      "if (false) {",
    ],
    "ellipsis: no axes": ["else if (full.length > 0) args.splice(dots, 1, ...full);", ""],
    "rest: not filled": ["if (dots === -1) args.push(...full);\n  else if", "if"],
    "newaxis: dropped": [
      "      blockShape.push(1);\n      blockStrides.push(0);\n      return;",
      "      return;",
    ],
    "slices: offset": ["      offset += part.offset;\n", ""],
    "place: always first": ["if (place === -1) place = blockShape.length;", "place = 0;"],
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
    "nonzero: rank 0": ["if (shape.length === 0) {", "if (false) {"],
    "nonzero: axes": [
      "axes.unshift(apply(MAP.remainder, rest, n));",
      "axes.push(apply(MAP.remainder, rest, n));",
    ],
    "set: read-only": ["  prepareWrite(x, op);\n", ""],
    "set: dtype": ["    checkStore(value.storage.info.name, dtype, op);\n", ""],
    "set: range of scalars": ["    checkScalar(dtype, value, op);\n", ""],
    "set: overlap of slices": [
      "undisturbed(broadcastValue(op, value, layout.shape), target)",
      "broadcastValue(op, value, layout.shape)",
    ],
    "set: overlap of picks": [" && !overlaps(x, source) &&", " &&"],
    "set: cast of picks": ["source.storage.info.name === dtype && ", ""],
    "set: strided values": [" &&\n      source.layout.contiguous;", ";"],
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
      'const args: IndexArgument[] = new Array(along).fill(":");',
      "const args: IndexArgument[] = [];",
    ],
    "take: float indexes": ['if (kind !== "i" && kind !== "u") {', "if (false) {"],
    "takeAlongAxis: rank": ["if (tensor.layout.shape.length !== rank) {", "if (false) {"],
    "takeAlongAxis: axis": ["if (i === along) return tensor;", "if (i === 0) return tensor;"],
    "oneHot: classes": ["if (low < 0 || high >= classes) {", "if (false) {"],
  },
);

// ---- storage and ownership ---------------------------------------------------------------------

const STORAGE = edits(
  "storage",
  "src/storage.ts",
  ["feature_ownership", "mutation_gaps", "feature_creation"],
  {
    "escape: stays on the slab": ["    if (this.onSlab) {\n", "    if (false) {\n"],
    "escape: without its values": ["      own.set(this.array as never);\n", ""],
    "escape: not remembered": ["    this.escaped = true;\n  }\n}", "  }\n}"],
    "escape: old words": ["      this.#words = null;\n", ""],
    "words: from the begin of the slab": [
      "      this.array.byteOffset,\n      this.array.byteLength >> 2,",
      "      0,\n      this.array.byteLength >> 2,",
    ],
    "shared: never": ["this.array.buffer instanceof SharedArrayBuffer;", "false;"],
    "disposed: goes on": ["if (storage === GONE) {", "if (false) {"],
    "slab: small arrays too near": ["slabUsed += (bytes + 15) & ~15;", "slabUsed += bytes - 1;"],
    "slab: no steps of 16": ["slabUsed += (bytes + 15) & ~15;", "slabUsed += bytes;"],
    "slab: never a new one": [
      "if (slabUsed + bytes > slab.byteLength) {",
      "if (slab.byteLength === 0) {",
    ],
    "slab: used from the middle": ["    slabUsed = 0;\n", ""],
    "reuse: old values for zeros": [
      "if (zeroed) new Uint8Array(array.buffer, array.byteOffset, bytes).fill(0);",
      "",
    ],
    "reuse: zeros beyond the array": [
      "new Uint8Array(array.buffer, array.byteOffset, bytes).fill(0)",
      "new Uint8Array(array.buffer).fill(0)",
    ],
    "reuse: of another dtype": [
      "pool.get(length * 16 + info.id);\n    if",
      "pool.get(length * 16 + (info.id === 3 ? 12 : info.id));\n    if",
    ],
    "reuse: never": ["  if (list === undefined) pool.set(key, [array]);\n", ""],
    "recycle: bytes that were handed out": ["  if (storage.escaped) return;\n", ""],
    "recycle: twice": [
      "  pooledBytes += bytes;\n  storage.escaped = true;\n",
      "  pooledBytes += bytes;\n",
    ],
    "recycle: without limit": [" || pooledBytes + bytes > POOL_LIMIT_BYTES", ""],
    "memory: not counted": ["  liveBytes += bytes;\n", ""],
    "memory: peak": ["if (liveBytes > peakBytes) peakBytes = liveBytes;", ""],
    "memory: pool emptied in name only": ["  pool.clear();\n", ""],
    "memory: no room": [
      '  } catch {\n    throw new OutOfMemoryError(bytes, "cpu");',
      "  } catch (error) {\n    throw error;",
    ],
    "adopted memory is recycled": [
      "return new Storage(array, DTYPE[dtype], true, false);",
      "return new Storage(array, DTYPE[dtype], false, false);",
    ],
  },
);

const OWNERSHIP = edits("storage", "src/tensor.ts", ["feature_ownership", "mutation_gaps"], {
  "data: of a strided tensor": [
    "    if (!this.layout.contiguous) {\n      throw new ShapeError(\n        `Cannot data",
    "    if (false) {\n      throw new ShapeError(\n        `Cannot data",
  ],
  "data: read-only": ['    prepareWrite(this, "data");\n', ""],
  "data: bytes not marked": [
    "    this.storage.escape();\n    return userArray(this.storage, this.layout",
    "    return userArray(this.storage, this.layout",
  ],
  "data: offset": [
    "return userArray(this.storage, this.layout.offset, this.layout.size)",
    "return userArray(this.storage, 0, this.layout.size)",
  ],
  "intoTypedArray: moved while others look": [
    "const movable = layout.contiguous && storage.handles === 1 &&",
    "const movable = layout.contiguous &&",
  ],
  "intoTypedArray: never moved": [
    "const movable = layout.contiguous && storage.handles === 1 &&",
    "const movable = false &&",
  ],
  "intoTypedArray: read-only moved": [
    "const movable = layout.contiguous && storage.handles === 1 &&\n      !(this.flags & (READ_ONLY | COW)) &&",
    "const movable = layout.contiguous && storage.handles === 1 &&",
  ],
  "intoRaw: moved while others look": ["const alone = storage.handles === 1 &&", "const alone ="],
  "scope: kept results": ["if (!keep.has(one)) one.dispose();", "one.dispose();"],
  "scope: nothing is disposed": ["if (!keep.has(one)) one.dispose();\n      else if", "if"],
  "scope: not closed": ["    scoped = outer;\n", ""],
  "dispose: memory kept": ["    if (storage.handles === 0) recycle(storage);\n", ""],
  "dispose: memory of others recycled": [
    "if (storage.handles === 0) recycle(storage);",
    "recycle(storage);",
  ],
  "item: first of many": ["    if (this.layout.size !== 1) {", "    if (false) {"],
  "item: offset": [
    "return toValue(this, this.layout.offset, options.bigint",
    "return toValue(this, 0, options.bigint",
  ],
});

const HANDLES = edits("storage", "src/tensor.ts", ["feature_ownership", "mutation_gaps"], {
  "view: loses read-only": ["x.flags | VIEW) as AnyTensor;", "VIEW) as AnyTensor;"],
  "view: of copy-on-write not told": ["  if (x.flags & COW) groups.get(x)!.add(view);\n", ""],
  "readonly: writable": ["    view.flags |= READ_ONLY;\n", ""],
  "cow: sees later writes": ["    new Snapshot(this.storage).add(cow as never);\n", ""],
  "cow: writes through": [
    "new Tensor(this.storage, this.layout, COW);",
    "new Tensor(this.storage, this.layout);",
  ],
  "cow: copies twice": ["      x.flags &= ~COW;\n", ""],
  "cow: views of it part": [
    "copy = before.handles === held.length ? before : copyOf(before, held);\n    for (const x of held) {",
    "copy = copyOf(before, held);\n    for (const x of held.slice(0, 1)) {",
  ],
  "cow: still counted after its copy": ["      before.handles--;\n", ""],
  "cow: copy at another place": ["subarray(low, high + 1), low);", "subarray(low, high + 1), 0);"],
  "cow: part of the copy left out": [
    "subarray(low, high + 1), low);",
    "subarray(low, high), low);",
  ],
  "cow: never copied": ["before.handles === held.length ? before : copyOf(before, held)", "before"],
  "cow: copied when nobody else is left": [
    "before.handles === held.length ? before : copyOf(before, held)",
    "copyOf(before, held)",
  ],
  "cow: still watched after its end": ["  if (x.flags & COW) groups.get(x)?.remove(x);\n", ""],
  "cow: forgets the others too": ["if (held === undefined || held === x) this", "this"],
  "cow: left for good": [
    "if (cows?.delete(this) && cows.size === 0) this.#storage.cows = null;",
    "",
  ],
  "cow: copy not counted": ["      copy.handles++;\n", ""],
  "release: still counted": ["  x.storage.handles--;\n", ""],
  "release: still usable": ["  x.storage = GONE;\n", ""],
  "intoOwned: moves views": ["if (flags & (VIEW | COW)) {", "if (flags & COW) {"],
  "intoOwned: moves copy-on-write": ["if (flags & (VIEW | COW)) {", "if (flags & VIEW) {"],
  "intoOwned: shared with others": ["if (storage.shared && storage.handles > 1) {", "if (false) {"],
  "intoOwned: source stays": [
    "    const made = copy();\n    release(x);\n",
    "    const made = copy();\n",
  ],
  "intoOwnedKeepLayout: compact": [
    "() => new Tensor(wholeCopy(this.storage), this.layout),",
    "() => contiguousCopy(this) as never,",
  ],
  "whole copy: the same memory": [
    "new Storage(storage.array.slice() as TypedArray, storage.info",
    "new Storage(storage.array, storage.info",
  ],
  "intoShared: shared again": [
    "storage.shared && !(x.flags & (READ_ONLY | COW)) && sameShape",
    "false && sameShape",
  ],
  "intoShared: read-only moved": [
    "storage.shared && !(x.flags & (READ_ONLY | COW)) && sameShape",
    "storage.shared && sameShape",
  ],
  "intoShared: not filled": ["  } else fill(shared, layout, x);\n", "  }\n"],
});

// ---- the JavaScript backend --------------------------------------------------------------------

const TABLE = [
  "property",
  "table:/^(add|neg|isclose|clip|sum|max|var|argmax|cumulativeSum|floorDivide): /",
];

const LOOPS = edits("backend", "src/backends/js/loops.ts", TABLE, {
  "identity: of floats": [
    'identity === "lowest" ? "-Infinity" : "Infinity"',
    'identity === "lowest" ? "0" : "Infinity"',
  ],
  "identity: of integers": [
    'identity === "lowest" ? min : max',
    'identity === "lowest" ? max : min',
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
  "map: condition cast": ["row.condition && k === 0 ? raw", "false ? raw"],
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
  "reduce: compensation": ["return row.compensated === true &&", "return false &&"],
  "reduce: error of a sum": ["(${a} - (s - w)) + (t - w)", "0"],
  "reduce: columns past the end": [
    "`const w = min(${COLUMNS}, n${column} - q);`",
    "`const w = ${COLUMNS};`",
  ],
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

const EMIT = edits("backend", "src/backends/js/emit.ts", [...TABLE, "table:/^casts/"], {
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

const BACKEND = edits("backend", "src/backends/js/backend.ts", [...TABLE, "mutation_gaps"], {
  "loops: kept without the tiles": [
    "(plan.rank * 2 + (plan.tiled ? 1 : 0)) * 2",
    "(plan.rank * 2) * 2",
  ],
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
  "loops: folds without the direction": ["(runsAcross(plan) ? 2 : 0) + (plan.huge", "(plan.huge"],
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

const MATMUL = edits("backend", "src/backends/js/matmul.ts", [
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
  "missing lines are what was there": [
    "if (lines % 4 !== 0) packed.fill(0, (lines & ~3) * k, padded(lines) * k);",
    "",
  ],
  "bfloat16 written as a number": [": toBrain(value);", ": value;"],
  "strided output": ["&& c.columnStride === 1 && c.rowStride === n", ""],
  "64 bits: high words": ["imul(A[x + 1]!, bl) + ", ""],
  "64 bits: carry": [
    "        high = (high + mulHigh(al, bl) + imul(A[x + 1]!, bl) + imul(al, B[y + 1]!) +\n          (sum > 4294967295 ? 1 : 0)) | 0;",
    "        high = (high + mulHigh(al, bl) + imul(A[x + 1]!, bl) + imul(al, B[y + 1]!)) | 0;",
  ],
});

const GATHER = edits("backend", "src/backends/js/gather.ts", [
  "indexing_golden",
  "feature_indexing",
  "mutation_gaps",
], {
  "negative indexes": ["(at < 0 ? at + size : at) * stride", "at * stride"],
  "indexes above": ["if (at < -size || at >= size) return i;", "if (at < -size) return i;"],
  "indexes below": ["if (at < -size || at >= size) return i;", "if (at >= size) return i;"],
  "several indexes add up": ["result[places[i]!]! += (", "result[places[i]!]! = ("],
  "blocks: dense when they are not": ["data[strides] === 1 && data[strides + 1] === 1", "true"],
  "blocks: source of a run": ["const f = from + (scatter", "const f = (scatter"],
  "blocks: target of a run": ["const t = to + (scatter", "const t = (scatter"],
  "blocks: the interpreter's order": [
    "scatter ? [positions[i]!, i * step] : [i * step, positions[i]!]",
    "[i * step, positions[i]!]",
  ],
  "blocks: gather and scatter exchanged": [
    'scatter ? ["positions[i]", "i * step"] : ["i * step", "positions[i]"]',
    '["i * step", "positions[i]"]',
  ],
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

const SORT = edits("backend", "src/backends/js/sort.ts", [
  "feature_indexing",
  "feature_elementwise",
  "mutation_gaps",
], {
  "values: descending": ["  if (!descending) return;\n", "  return;\n"],
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

const ELEMENTS = edits("backend", "src/element.ts", [
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
  "src/half.ts",
  ["table:/patterns/", "primitives", "mutation_gaps"],
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

// ---- files -------------------------------------------------------------------------------------

const NPY = edits("io", "src/io/npy.ts", ["io_npy", "io", "io_fuzz"], {
  "magic": ["if (byte[1] !== MAGIC.charCodeAt(byte[0]))", "if (false)"],
  "version": ["if (major < 1 || major > 3 || minor !== 0) {", "if (false) {"],
  "length of the header": ["length = major === 1", "length = major !== 9"],
  "largest header": ["if (length > MAX_HEADER)", "if (false)"],
  "rest of the file": [
    "if (cursor.left > 0) cursor.fail(`${cursor.left} bytes follow",
    "if (false) cursor.fail(`${cursor.left} bytes follow",
  ],
  "bools": ['if (dtype === "bool") checkBools(', "if (false) checkBools("],
  "big-endian": ["if (header.bigEndian && width > 1)", "if (false)"],
  "Fortran order": ["if (header.fortran && shape.length > 1)", "if (false)"],
  "keys twice": ['key === "shape" && shape === undefined', 'key === "shape"'],
  "most axes": ["if (shape.length > MAX_RANK)", "if (false)"],
  "shape that is no tuple": ["if (shape.length === 1) cursor.fail(", "if (false) cursor.fail("],
  "padding when written": [
    "(Math.floor((prefix + dict.length + 1) / 64) + 1) * 64",
    "Math.ceil((prefix + dict.length + 1) / 64) * 64",
  ],
});

const NPZ = edits("io", "src/io/npz.ts", ["io_npz", "io", "io_fuzz"], {
  "checksum": ["if (zlib().crc32(data) !== member.crc) {", "if (false) {"],
  "size": ["if (data.length !== size) {", "if (false) {"],
  "names twice": ["if (members.has(name)) cursor.fail(", "if (false) cursor.fail("],
  "most bytes": ["if (!(inflated <= maxBytes)) {", "if (false) {"],
  "ratio": ["if (method === DEFLATED && size > packed * MAX_DEFLATE_RATIO) {", "if (false) {"],
  "overlap": ["if (packed > start) cursor.fail(", "if (false) cursor.fail("],
  "method of the member": [
    'if (cursor.u16("the method") !== member.method) {',
    'cursor.u16("the method");\n  if (false) {',
  ],
  "encrypted": ["if (flags & 0x2061) cursor", "if (false) cursor"],
});

const SAFETENSORS = edits("io", "src/io/safetensors.ts", ["io_safetensors", "io", "io_fuzz"], {
  "length of the header": ["if (LENGTH_BYTES + Number(length) > fileSize) {", "if (false) {"],
  "largest header": ["if (length > MAX_HEADER) {\n    cursor", "if (false) {\n    cursor"],
  "names twice": ["if (tensors.has(name)) cursor.fail(", "if (false) cursor.fail("],
  "begin of the header": ["if (text[0] !== 0x7b) cursor", "if (false) cursor"],
  "offsets in the file": ["if (begin > end || end > fileSize) {", "if (false) {"],
  "bytes of the shape": [
    "if (dtype !== undefined && checkedBytes(shape, DTYPE[dtype].bytes) !== end - begin) {",
    "if (false) {",
  ],
  "gaps and overlaps": ["if (begin !== at) {", "if (false) {"],
  "rest of the file": ["if (at !== fileSize) throw", "if (false) throw"],
  "bools": ['if (dtype === "bool") checkBools(', "if (false) checkBools("],
  "metadata twice": ["if (Object.hasOwn(out, key)) cursor.fail(", "if (false) cursor.fail("],
  "order when written": ["ORDER.indexOf(a.dtype) - ORDER.indexOf(b.dtype) ||", ""],
  "padding when written": ["Math.ceil(header.length / 8) * 8", "header.length"],
});

const BYTES = edits("io", "src/io/bytes.ts", ["io_npy", "io_safetensors", "io_npz", "io_fuzz"], {
  "past the end": ["    if (count > this.left) {\n", "    if (false) {\n"],
  "offsets in errors": ["this.#base + at);", "at);"],
  "numbers above 2^53": [
    "if (value > Number.MAX_SAFE_INTEGER) this.fail(",
    "if (false) this.fail(",
  ],
  "leading zeros": ["if (digits > 1 && this.#bytes[start] === 0x30)", "if (false)"],
  "strings without end": [
    'if (this.left <= 0) this.fail("the string',
    'if (false) this.fail("the string',
  ],
  "lone surrogates": ["if (value.isWellFormed()) return value;", "return value;"],
  "shapes above 2^53": ["if (bound > Number.MAX_SAFE_INTEGER) return undefined;", ""],
  "zeros in large shapes": ["bound *= Math.max(size, 1);", "bound *= size;"],
  "bool bytes": ["if (data[i] > 1) throw", "if (false) throw"],
  "bytes that do not fit the shape": [
    "if (checkedBytes(raw.shape, DTYPE[raw.dtype].bytes) !== raw.data.length) {",
    "if (false) {",
  ],
});

// ---- types -------------------------------------------------------------------------------------

const TYPES = [
  ...edits("type", "src/types/broadcast.ts", ["types"], {
    "broadcast: differing sizes fit": [': "differ";', ": number;"],
    "broadcast: 1 with a size": [
      "  : A extends 1 ? B\n  : B extends 1 ? A\n",
      "  : A extends 1 ? A\n  : B extends 1 ? A\n",
    ],
    "broadcast: unknown sizes": ["? B extends 1 ? number : B", "? B"],
    "in place: results that grow": [
      "    : R extends Shape\n      ?",
      "    : R extends Shape ? R\n    : R extends Shape\n      ?",
    ],
    "write: read-only tensors": ['readonly access: "read" }', 'readonly access: "none" }'],
    "inner sizes": ["= Agree<K, L> extends true ? Yes\n", "= true extends true ? Yes\n"],
    "broadcastTo: sizes": [
      ": Agree<A, B> extends true ? Stretch<SR, TR, [...Seen, 0]>",
      ": true extends true ? Stretch<SR, TR, [...Seen, 0]>",
    ],
  }),
  ...edits("type", "src/types/reshape.ts", ["types"], {
    "reshape: counts": ["Product<L> extends Product<R> ? [...To]", "true extends true ? [...To]"],
    "reshape: -1": ["To[K] extends -1 ? N : To[K]", "To[K]"],
    "reshape: -1 twice": ["-1 extends KnownSizes<Others> ?", "-2 extends KnownSizes<Others> ?"],
  }),
  ...edits("type", "src/types/axes.ts", ["types"], {
    "axes: any": [
      "[AxisIndex<S, A>] extends [never] ? NoAxis<Op, S, A>\n    : Yes;",
      "[AxisIndex<S, A>] extends [1, 2] ? NoAxis<Op, S, A>\n    : Yes;",
    ],
    "axes: negative": [
      '? S extends readonly [...infer H, ...Span<P>] ? H["length"] : never',
      "? never",
    ],
    "reduce: keepDims": ["Keep extends true ? SetAxes<S, number, 1> : []", "[]"],
    "reduce: axes that stay": [
      'Seen["length"] extends I ? Out : [...Out, H]',
      'Seen["length"] extends I ? [...Out, H] : Out',
    ],
    "permute: order": [
      "Is[K] extends keyof S ? S[Is[K]] : number;",
      "K extends keyof S ? S[K] & number : number;",
    ],
    "transpose: order": ["? Transpose<R, [H, ...Out]>", "? Transpose<R, [...Out, H]>"],
    "concat: sum of sizes": ["[...Out, Sum<M, N>]", "[...Out, M]"],
    "concat: other sizes": [": Agree<M, N> extends true ? Join", ": true extends true ? Join"],
    "squeeze: sizes": [
      "? Agree<S[I], 1> extends true ? NotOne<S, R>",
      "? true extends true ? NotOne<S, R>",
    ],
    "rank: another": [': Same<S["length"], N> extends true ? S', ": true extends true ? S"],
  }),
  ...edits("type", "src/types/slice.ts", ["types"], {
    "slice: length rounded down": [
      'ToNumber<Q> : ToNumber<AddDigits<Q, ["1"]>>',
      "ToNumber<Q> : ToNumber<Q>",
    ],
    "slice: negative bounds": [
      ": T extends `-${infer P}` ? OrZero<SubDigits<ToDigits<N>, ToDigits<P>>>",
      ": T extends `-${infer P}` ? ToDigits<P>",
    ],
    "slice: clipped bounds": [
      "  : AtMost<ToDigits<T>, ToDigits<N>> extends true ? ToDigits<T>\n  : ToDigits<N>;",
      "  : ToDigits<T>;",
    ],
    "slice: step 0": ['C extends "0" | "-0" ?', 'C extends "00" ?'],
    "slice: index out of bounds": [
      "H extends number ? InBounds<H, N> extends true ?",
      "H extends number ? true extends true ?",
    ],
    "slice: new axis": [
      "H extends null ? SliceWalk<S, R, All, [...Out, 1]>",
      "H extends null ? SliceWalk<S, R, All, Out>",
    ],
    "slice: ellipsis twice": ['"..." extends R[number] ?', '"...." extends R[number] ?'],
    "slice: texts that are no index": [
      '[A | B | C] extends ["" | `${bigint}`]',
      "[A | B | C] extends [string]",
    ],
  }),
];

/** All mutants but those of the op table. */
export const MUTANTS: readonly Mutant[] = [
  ...PLAN,
  ...SLICE,
  ...LAYOUT,
  ...SHAPE,
  ...DISPATCH,
  ...DTYPES,
  ...INDEXING,
  ...STORAGE,
  ...OWNERSHIP,
  ...HANDLES,
  ...LOOPS,
  ...EMIT,
  ...BACKEND,
  ...MATMUL,
  ...GATHER,
  ...SORT,
  ...ELEMENTS,
  ...HALVES,
  ...NPY,
  ...NPZ,
  ...SAFETENSORS,
  ...BYTES,
  ...TYPES,
];
