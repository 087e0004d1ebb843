/**
 * Reductions and scans of the table as CUDA C: the structs that reduce.h and scan.h need.
 *
 * Knows nothing of plans or launches.
 *
 * @module
 */
import { DTYPE, type DType, NO_DTYPE } from "../../../base/dtype.ts";
import { parseExpr, someExpr } from "../../../table/expr.ts";
import type { ArgReduceOp, ReduceOp, ScanOp, TableOp } from "../../../table/op.ts";
import { exprFor, REDUCE } from "../../../table/table.ts";
import { attributesOf, printC, type Source, sourceOf, suffixOf, valueType } from "./text.ts";

/** A reduction, or the initial step of a scan, for certain dtypes, as C. */
export interface ReduceSource extends Source<FoldKernel> {
  /** Elements that a lane takes at once. */
  readonly pack: number;
  /** Packs that a lane takes at once. */
  readonly packs: number;
  /** Neighboring outputs that a lane of the packed kernel takes. */
  readonly columns: number;
  /** Bytes of an element. */
  readonly bytes: number;
  /** Bytes of an accumulator. */
  readonly accumulator: number;
}

/** Kernels of shim/cuda/kernels/reduce.h, and the macros that define them. */
export const FOLD_KERNELS = {
  along: "RM_REDUCE_ALONG",
  across: "RM_REDUCE_ACROSS",
  across_packed: "RM_REDUCE_ACROSS_PACKED",
  parts: "RM_REDUCE_PARTS",
  along_generic: "RM_REDUCE_ALONG_GENERIC",
  across_generic: "RM_REDUCE_ACROSS_GENERIC",
  parts_generic: "RM_REDUCE_PARTS_GENERIC",
} as const;

/** The purposes of the kernels of a reduction. */
export type FoldKernel = keyof typeof FOLD_KERNELS;

/** The parts of a fold. */
interface FoldParts {
  readonly name: string;
  readonly from: DType;
  readonly second: DType;
  /** The dtype of the results of `finish`. */
  readonly result: DType;
  readonly to: DType;
  /** The C types of elements before they are folded and of the accumulator. */
  readonly work: string;
  readonly acc: string;
  readonly accumulator: number;
  readonly start: string;
  /** The map, as statements, and the fold, as an expression, which index reductions lack. */
  readonly map: string;
  readonly fold?: string;
  readonly join: string;
  readonly finish: string;
  readonly more?: string;
  /** True if an element takes so long that packs do not pay. */
  readonly heavy?: boolean;
}

function reduceSourceOf(parts: FoldParts): ReduceSource {
  const { name, from, second, result, to, work, acc, heavy, accumulator } = parts;
  const pack = heavy ? 1 : Math.min(16 / DTYPE[from].bytes, 8);
  const packs = heavy ? 1 : 4;
  const { bytes } = DTYPE[from];
  const columns = heavy || bytes > 2 ? 1 : 4 / bytes;
  const dtypes = [from, second, result, to].map((dtype) => `rm_${suffixOf(dtype)}`).join(", ");
  const x = acc.startsWith("rm_") ? work : acc;
  const value = valueType(result);
  const text = `struct ${name} : rm_reduce_op<${dtypes}, ${pack}, ${packs}, ${columns}> {\n` +
    `  typedef ${work} work;\n  typedef ${acc} acc;\n${parts.more ?? ""}` +
    `  static inline acc identity() { return ${parts.start}; }\n` +
    `  static inline auto map(work x, work y, const double *at) {\n${parts.map}  }\n` +
    (parts.fold === undefined
      ? ""
      : `  static inline acc accumulate(acc a, ${x} x) { return ${parts.fold}; }\n`) +
    `  static inline acc combine(acc a, acc x) { return ${parts.join}; }\n` +
    `  static inline ${value} finish(acc a, const double *at) {\n${parts.finish}  }\n};\n`;
  const source = sourceOf(name, "reduce.h", FOLD_KERNELS, text);
  return { ...source, pack, packs, columns, bytes, accumulator };
}

/** The identity of a reduction of `dtype`, in C. */
function identityOf(identity: ReduceOp["identity"], dtype: DType): string {
  if (typeof identity === "number") return Number.isNaN(identity) ? "NAN" : String(identity);
  const { kind, bytes } = DTYPE[dtype];
  const lowest = identity === "lowest";
  if (kind === "f") return lowest ? "-INFINITY" : "INFINITY";
  if (kind === "b") return lowest ? "0" : "1";
  if (kind === "u") return lowest ? "0" : `UINT${8 * bytes}_MAX`;
  return `INT${8 * bytes}_${lowest ? "MIN" : "MAX"}`;
}

const foldSources = new Map<number, ReduceSource>();

function keyOf(row: TableOp, from: DType, to: DType, second: DType | null): number {
  const other = second === null ? NO_DTYPE : DTYPE[second].id;
  return ((row.id * 256 + DTYPE[from].id) * 256 + DTYPE[to].id) * 256 + other;
}

/** `row` over elements of `from` into those of `to`; `second` is the other operand's dtype. */
export function reduceSource(
  row: ReduceOp,
  from: DType,
  to: DType,
  second: DType | null,
): ReduceSource {
  const key = keyOf(row, from, to, second);
  let source = foldSources.get(key);
  if (source === undefined) foldSources.set(key, source = makeReduce(row, from, to, second));
  return source;
}

function makeReduce(
  row: ReduceOp,
  from: DType,
  to: DType,
  second: DType | null,
): ReduceSource {
  const dtypes = [from, to, ...(second === null ? [] : [second])].map(suffixOf);
  const toFloat = DTYPE[to].kind === "f";
  // Results that are elements need no wider accumulator.
  const picks = row.result === "same";
  // The dtypes of elements before the fold, and of the accumulator.
  const element = toFloat && !picks ? "float64" : from;
  const sum: DType = picks ? from : toFloat ? "float64" : to === "bool" ? "bool" : "uint64";
  const [work, acc] = [valueType(element), valueType(sum)];
  const { parameters } = row;
  const attributes = attributesOf(row);
  const exact = toFloat && row.compensated === true && DTYPE[from].bytes === 8;
  const expr = printC(exprFor(row, DTYPE[to].kind), sum, acc, parameters);
  const map = row.map === undefined
    ? to === "bool" ? "x != 0" : "x"
    : printC(row.map, element, work, parameters);
  const finish = row.finish === undefined ? "a" : printC(row.finish, sum, acc, parameters);
  const heavy = someExpr(
    parseExpr(row.map ?? "x"),
    (part) => part.kind === "call" && part.name !== "fabs",
  );
  return reduceSourceOf({
    name: `${row.name}_${dtypes.join("_")}`,
    from,
    second: second ?? from,
    result: sum,
    to,
    work,
    acc: exact ? "rm_compensated" : acc,
    accumulator: exact
      ? 16
      : DTYPE[sum].kind === "f" && DTYPE[sum].bytes === 2
      ? 4
      : DTYPE[sum].bytes,
    start: exact ? "{0, 0}" : identityOf(row.identity, sum),
    map: `${attributes}    return ${map};\n`,
    fold: exact ? "rm_two_sum(a, x)" : expr,
    join: exact ? "rm_combine_compensated(a, x)" : expr,
    finish: exact
      ? `${attributes}    const double sum = rm_compensated_sum(a);\n` +
        `    return ${finish.replace(/\ba\b/g, "sum")};\n`
      : `${attributes}    return ${finish};\n`,
    heavy,
  });
}

/** `row` over elements of `from` into those of `to`. */
export function argReduceSource(row: ArgReduceOp, from: DType, to: DType): ReduceSource {
  const key = keyOf(row, from, to, null);
  let source = foldSources.get(key);
  if (source === undefined) foldSources.set(key, source = makeArgReduce(row, from, to));
  return source;
}

function makeArgReduce(row: ArgReduceOp, from: DType, to: DType): ReduceSource {
  const name = `${row.name}_${suffixOf(from)}_${suffixOf(to)}`;
  const work = valueType(from);
  return reduceSourceOf({
    name,
    from,
    second: from,
    result: "int64",
    to,
    work,
    acc: `rm_arg_value<${work}>`,
    accumulator: 16,
    start: "{0, -1}",
    map: "    return x;\n",
    more:
      `  static constexpr bool is_index = true;\n  static inline bool better(work x, work a) { return ${
        printC(row.expr, from, work)
      }; }\n`,
    join: `rm_better_arg<${name}>(a, x)`,
    finish: "    return a.index;\n",
  });
}

export const USUAL_FOLDS: readonly FoldKernel[] = ["along", "across", "across_packed", "parts"];
export const ANY_FOLDS: readonly FoldKernel[] = ["along_generic", "parts_generic"];

/** The dtypes of the second operand for elements of `from`. */
export function secondsOf(row: ReduceOp, from: DType): readonly (DType | null)[] {
  if (row.arity !== 2) return [null];
  const { kind, bytes } = DTYPE[from];
  if (kind !== "f") return ["float64"];
  // A maximum has the dtype of the elements.
  if (bytes === 2) return row.id === REDUCE.logSumExp.id ? ["float32", from] : ["float32"];
  return [from];
}

// ---- scans -------------------------------------------------------------------------------------

/** A scan for certain dtypes, as C. */
export interface ScanSource extends Source<ScanKernel> {
  /** Elements that a lane takes at once. */
  readonly pack: number;
  /** The reduction that folds the parts of a run. */
  readonly fold: ReduceSource;
}

/** Kernels of shim/cuda/kernels/scan.h, and the macros that define them. */
export const SCAN_KERNELS = {
  along: "RM_SCAN_ALONG",
  across: "RM_SCAN_ACROSS",
  along_generic: "RM_SCAN_ALONG_GENERIC",
  across_generic: "RM_SCAN_ACROSS_GENERIC",
} as const;

/** The purposes of the kernels of a scan. */
export type ScanKernel = keyof typeof SCAN_KERNELS;

const scanSources = new Map<number, ScanSource>();

/** `row` over elements of `from` into those of `to`. */
export function scanSource(row: ScanOp, from: DType, to: DType): ScanSource {
  const key = keyOf(row, from, to, null);
  let source = scanSources.get(key);
  if (source === undefined) scanSources.set(key, source = makeScan(row, from, to));
  return source;
}

function makeScan(row: ScanOp, from: DType, to: DType): ScanSource {
  const name = `${row.name}_${suffixOf(from)}_${suffixOf(to)}`;
  // Integers of any sign add and multiply alike, but do not compare alike.
  const signed = row.result === "same" && DTYPE[to].kind === "i";
  const sum: DType = DTYPE[to].kind === "f" ? "float64" : signed ? "int64" : "uint64";
  const acc = valueType(sum);
  const expr = printC(row.expr, sum, acc);
  const start = identityOf(row.identity, sum);
  const pack = Math.min(16 / DTYPE[from].bytes, 8);
  const dtypes = [from, to, sum].map((dtype) => `rm_${suffixOf(dtype)}`).join(", ");
  const text = `struct ${name} : rm_scan_op<${dtypes}, ${pack}> {\n` +
    `  static inline acc identity() { return ${start}; }\n` +
    `  static inline acc combine(acc a, acc x) { return ${expr}; }\n};\n`;
  return {
    ...sourceOf(name, "scan.h", SCAN_KERNELS, text),
    pack,
    fold: reduceSourceOf({
      name: `${name}_reduce`,
      from,
      second: from,
      result: sum,
      to,
      work: acc,
      acc,
      accumulator: 8,
      start,
      map: "    return x;\n",
      fold: expr,
      join: expr,
      finish: "    return a;\n",
    }),
  };
}
