/**
 * Mutants of the plan: broadcasting, dropping, flipping, sorting, merging, tiling, reducing.
 *
 * Left out is the shortcut `across < 2` of `chooseTiles`, which saves time and changes nothing.
 *
 * @module
 */
import { edits, type Mutant } from "./core.ts";

const PLAN = edits("plan step", "src/core/plan.ts", ["plan", "property", "feature_views"], {
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

/** Faults of plans. */
export const PLANS: readonly Mutant[] = [...PLAN];
