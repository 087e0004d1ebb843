/**
 * Which calls run in JavaScript, since they are too small for a call of the module.
 *
 * Ops whose results depend on the order of the elements do so only where both take them in the same
 * order: a result must not depend on the size of other rows. Knows nothing of the module's memory.
 *
 * @module
 */
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import { OFFSETS, type Plan } from "../../base/plan.ts";
import type { Call, ElementOp, Op } from "../../table/op.ts";
import { REDUCE } from "../../table/table.ts";

/** With fewer elements, JavaScript computes elementwise ops of numbers faster. */
const MAPPED = 512;
/** The same if not all elements are adjacent. */
const MAPPED_STRIDED = 4096;
/** The same for sorts. */
const SORTED = 200;
/** The same for positions of the largest or smallest elements. */
const SEARCHED = 256;
/** The same for cumulative ops, and for those of 64-bit integers. */
const SCANNED = 640;
const SCANNED_WIDE = 256;
/** The same for reductions, and for those of elements that are not adjacent. */
const REDUCED = 512;
const REDUCED_STRIDED = 1280;
/** The same for products of integers. */
const MULTIPLIED = 192;
/** What each result of a reduction takes in the module, in elements; for sums of runs, 1. */
const PER_RESULT = 6;
/** No reduction of so many elements is small. */
const MOST_REDUCED = 2048;

/** From this length on, float32 are added in groups of four. */
const ADDED_BY_FOUR = 512;
/** Runs up to this length are added one element after another. */
const FEW_SUMMED = 8;
/** So many columns or more, of elements that are adjacent across, are reduced side by side. */
const COLUMNS = 16;
/** Other short runs that are reduced so if there are as many. */
const FEW = 16;
/** Fewer columns are reduced together from so many rows on. */
const NARROW_ROWS = 160;

/** The sums and products whose orders are the same. */
const ORDERED: ReadonlySet<unknown> = new Set([
  ...[REDUCE.sum, REDUCE.prod, REDUCE.mean, REDUCE.var, REDUCE.std],
  ...[REDUCE.norm1, REDUCE.norm2, REDUCE.nansum, REDUCE.nanprod],
]);
/** Those of which even many short runs are reduced one by one. */
const RUN_BY_RUN: ReadonlySet<unknown> = new Set([REDUCE.sum, REDUCE.mean, REDUCE.norm2]);
/** The reductions whose results do not depend on an order. */
const UNORDERED: ReadonlySet<unknown> = new Set([
  ...[REDUCE.max, REDUCE.min, REDUCE.any, REDUCE.all, REDUCE.countNonzero],
  ...[REDUCE.normMax, REDUCE.normMin, REDUCE.nanmax, REDUCE.nanmin, REDUCE.countNumbers],
]);

/** Whether JavaScript computes with elements directly, by the ids of dtypes. */
const NUMBERS = new Uint8Array(256);
for (const { id, kind, bytes } of Object.values<DTypeInfo>(DTYPE)) {
  // 16-bit floats are read slowly, and 64-bit integers are pairs of words.
  NUMBERS[id] = kind !== "c" && (kind === "f" ? bytes !== 2 : bytes <= 4) ? 1 : 0;
}

/** What decides about the calls of an op. */
const RULE = {
  none: 1,
  map: 2,
  runs: 3,
  ordered: 4,
  unordered: 5,
  search: 6,
  scan: 7,
  sort: 8,
} as const;

/** The rules of ops by their ids: engines read properties of many ops slowly. */
const rules: (number | undefined)[] = [];

function ruleOf(op: Op): number {
  switch (op.kind) {
    case "map":
      return (op as ElementOp).ulp === 0 ? RULE.map : RULE.none;
    case "reduce":
      if (UNORDERED.has(op)) return RULE.unordered;
      return RUN_BY_RUN.has(op) ? RULE.runs : ORDERED.has(op) ? RULE.ordered : RULE.none;
    case "argReduce":
      return RULE.search;
    case "scan":
      return RULE.scan;
    default:
      return op.name === "sort" ? RULE.sort : RULE.none;
  }
}

/** Whether the JavaScript loop of a call gives the same result, and is faster than the kernel. */
export function isSmall(call: Call): boolean {
  const { op, plan } = call;
  const rule = rules[op.id] ??= ruleOf(op);
  if (rule === RULE.none) return false;
  if (rule === RULE.sort) return call.operand(0).layout.size < SORTED && readsNumbers(call);
  if (plan === null) return false;
  const { size } = plan;
  switch (rule) {
    case RULE.map:
      if (size >= (plan.rank === 1 ? MAPPED : MAPPED_STRIDED)) return false;
      return readsNumbers(call) && writesNumbers(call);
    case RULE.runs:
    case RULE.ordered:
    case RULE.unordered:
      return size < MOST_REDUCED && readsNumbers(call) && isSmallReduction(call, plan, rule);
    case RULE.search:
      return size < SEARCHED && readsNumbers(call);
    default:
      return size < (isWide(call) ? SCANNED_WIDE : SCANNED) && readsNumbers(call);
  }
}

/** Whether all inputs, which are operands, are numbers. */
function readsNumbers(call: Call): boolean {
  const { length } = call.inputs;
  for (let k = 0; k < length; k++) {
    if (NUMBERS[call.operand(k).storage.info.id] === 0) return false;
  }
  return true;
}

/** Whether results are 64-bit integers, which JavaScript computes with as pairs of words. */
function isWide({ outputs }: Call): boolean {
  return outputs[0]!.storage.info.wide;
}

function writesNumbers({ outputs }: Call): boolean {
  return NUMBERS[outputs[0]!.storage.info.id] === 1;
}

function isSmallReduction(call: Call, plan: Plan, rule: number): boolean {
  const { data, rank, kept, operands, size } = plan;
  const isFloat = call.outputs[0]!.storage.info.kind === "f";
  // One short run, without a look at the others.
  if (rank === 1 && kept === 0 && size < REDUCED) {
    return isFloat || size < MULTIPLIED || call.op !== REDUCE.prod;
  }
  const shape = OFFSETS + operands, strides = shape + 2 * rank;
  const length = rank > kept ? data[shape + rank - 1]! : 1;
  const isAdjacent = rank === kept || data[strides + rank - 1] === 1;
  const perResult = isAdjacent && rule === RULE.runs ? 1 : PER_RESULT;
  const least = isAdjacent ? REDUCED : REDUCED_STRIDED;
  if (size >= least && size >= least + perResult * (size / length)) return false;
  if (rule === RULE.unordered) return true;
  if (isFloat) return isSameOrder(plan, rule);
  return size < MULTIPLIED || call.op !== REDUCE.prod;
}

/** Whether the kernel reduces each run in the order of JavaScript's loop. */
function isSameOrder({ data, rank, kept, operands }: Plan, rule: number): boolean {
  if (rank !== kept + 1) return rank === kept;
  const shape = OFFSETS + operands, strides = shape + 2 * rank;
  const length = data[shape + kept]!;
  if (kept === 0 || length >= ADDED_BY_FOUR) return length < ADDED_BY_FOUR;
  const columns = data[shape + kept - 1]!;
  const along = Math.abs(data[strides + kept]!), across = Math.abs(data[strides + kept - 1]!);
  if (across < along) return columns < COLUMNS && length < NARROW_ROWS;
  return length <= FEW_SUMMED || columns < COLUMNS || length > FEW || rule === RULE.runs;
}
