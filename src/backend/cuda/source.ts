/**
 * The ops of the table as CUDA C: the definitions that the headers in shim/cuda/kernels need of
 * each.
 *
 * Knows nothing of plans or launches.
 *
 * @module
 */
import { DTYPE, type DType, DTYPES, NO_DTYPE } from "../../base/dtype.ts";
import { parseExpr, printExpr, someExpr } from "../../ops/expr.ts";
import { resultOf, takes } from "../../ops/infer.ts";
import type { ArgReduceOp, MapOp, ReduceOp, ScanOp, TableOp } from "../../ops/op.ts";
import { exprFor, MAP, REDUCE } from "../../ops/table.ts";
import { ignoresSign, isComputeBound, needsDouble } from "../../ops/c_rules.ts";
import { CONSTANTS, constantsOf, type Header } from "./constants.ts";
import type { Family } from "./device.ts";

/** The suffix of a dtype in the names of primitives and headers, by its id. */
const SUFFIXES = "b8 i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64".split(" ");

/** {@link SUFFIXES} by name. */
export function suffixOf(dtype: DType): string {
  return SUFFIXES[DTYPE[dtype].id]!;
}

/** The C type that the elements of a dtype are computed in. */
export function valueType(dtype: DType): string {
  const { kind, bytes } = DTYPE[dtype];
  if (kind === "f") return bytes === 8 ? "double" : "float";
  return `${kind === "i" ? "int" : "uint"}${8 * bytes}_t`;
}

/** The C type that the elements of a dtype are stored as. */
export function storedType(dtype: DType): string {
  const { kind, bytes } = DTYPE[dtype];
  return kind === "f" && bytes === 2 ? "uint16_t" : valueType(dtype);
}

/** The prefix of primitives that compute in C's type `value`. */
const PRIMITIVES: Readonly<Record<string, string>> = { float: "f32", double: "f64" };

/** Functions whose primitives cover most operands only: map.h has versions for all operands. */
const PARTIAL = new Set(["sin", "cos", "tan"]);

/** Functions that narrow_math.h has for 16-bit floats. */
const NARROW = new Set(
  "exp exp2 expm1 log log1p log2 log10 tanh sigmoid silu erf gelu".split(" "),
);

/** The functions of device.h for operators that overflow. */
const WRAPPING: Readonly<Record<string, string>> = { "+": "add", "-": "subtract", "*": "multiply" };

/** `text` in C, in the arithmetic of `dtype` done in the type `work`. */
export function printC(text: string, dtype: DType, work: string): string {
  const own = suffixOf(dtype);
  const suffix = PRIMITIVES[work] ?? own;
  const isNarrow = work === "float" && DTYPE[dtype].bytes === 2;
  // NVRTC assumes that signed integers do not overflow, and has no option to forbid that.
  const wraps = work.startsWith("int") || work === "uint16_t";
  return printExpr(parseExpr(text), {
    unary: (op, arg) => wraps && op === "-" ? `rm_negate<${work}>(${arg})` : undefined,
    binary: (op, left, right) =>
      wraps && op in WRAPPING ? `rm_${WRAPPING[op]}<${work}>(${left}, ${right})` : undefined,
    num: (digits) => /^\d+$/.test(digits) ? digits : `((${work})${digits})`,
    call: (name, args) =>
      `rm_${PARTIAL.has(name) ? "full_" : ""}${name}_` +
      `${isNarrow && NARROW.has(name) ? own : suffix}(${args.join(", ")})`,
  });
}

/** Declares the numbers that the expressions of `row` use besides their operands. */
export function attributesOf(row: { readonly parameters: readonly string[] }): string {
  return row.parameters
    .map((name, i) => `    const double ${name} = at[${i}];\n`).join("");
}

/** The headers of the primitives that `texts` call, in the arithmetic of floats or not. */
export function includesFor(texts: readonly string[]): string {
  const code = texts.join("\n");
  const has = (name: RegExp): boolean => name.test(code);
  return '#include "device.h"\n' +
    (has(/\brm_\w+_b?f(16|32|64)\(/) ? '#include "vecmath.h"\n' : "") +
    (has(/\brm_[a-z0-9]+_b?f16\(/) ? '#include "narrow_math.h"\n' : "") +
    (has(/\brm_\w+_[iu](8|16|32|64)\(/) ? '#include "intmath.h"\n' : "");
}

/** A struct, and the kernels that macros of a header in shim/cuda/kernels make of it. */
export interface Source<Kernel extends string> {
  /** The name of the struct. */
  readonly name: string;
  /** The header, and its macro for each kernel. */
  readonly header: Header;
  readonly macros: Readonly<Record<Kernel, string>>;
  /** The names of its kernels, made once, since every call looks one up. */
  readonly kernels: Readonly<Record<Kernel, string>>;
  /** The struct. */
  readonly text: string;
  /** Another struct that it needs. */
  readonly base?: string;
}

/** Names the kernels of a struct. */
export function sourceOf<Kernel extends string>(
  name: string,
  header: Header,
  macros: Readonly<Record<Kernel, string>>,
  text: string,
): Source<Kernel> {
  const names = Object.keys(macros).map((kernel) => [kernel, `${name}_${kernel}`]);
  return { name, header, macros, kernels: Object.fromEntries(names), text };
}

/** CUDA C of some kernels of sources that have one header. */
export function define<Kernel extends string>(
  sources: readonly (readonly [Source<Kernel>, readonly NoInfer<Kernel>[]])[],
): Family {
  const texts = [...new Set(sources.flatMap(([{ base = "", text }]) => [base, text]))];
  const headers = [...new Set(sources.map(([{ header }]) => header))];
  const lines = sources.flatMap(([{ name, macros }, kernels]) =>
    kernels.map((kernel) => `${macros[kernel]}(${name})\n`)
  );
  return {
    source: [
      ...headers.map(constantsOf),
      includesFor(texts),
      ...headers.map((header) => `#include "${header}"\n`),
      ...texts,
      ...lines,
    ].join(""),
    names: sources.flatMap(([source, kernels]) => kernels.map((kernel) => source.kernels[kernel])),
  };
}

/** CUDA C of one kernel. */
export function kernelText<Kernel extends string>(
  source: Source<Kernel>,
  kernel: NoInfer<Kernel>,
): string {
  return define([[source, [kernel]]]).source;
}

/** An elementwise op for certain dtypes, as C. */
export interface MapSource extends Source<MapKernel> {
  /** Elements that one access moves. */
  readonly pack: number;
  /** Packs that a thread of the dense kernel takes. */
  readonly packs: number;
  /** Rows and columns of a tile. */
  readonly tile: number;
}

/** The kernels of an elementwise op, and the macros of map.h that define them. */
const MAP_KERNELS = {
  contiguous: "RM_MAP_CONTIGUOUS",
  vectorized: "RM_MAP_VECTORIZED",
  strided: "RM_MAP_STRIDED",
  tiled: "RM_MAP_TILED",
  casting: "RM_MAP_CASTING",
  generic: "RM_MAP_GENERIC",
} as const;

/** The purposes of the kernels of an elementwise op; see shim/cuda/kernels/map.h. */
export type MapKernel = keyof typeof MAP_KERNELS;

const mapSources = new Map<number, MapSource>();

/**
 * `row` in the arithmetic of `compute`, into elements of `out`, which differs from the op's result
 * for copies only; `general` for kernels that look up dtypes at run time.
 */
export function mapSource(row: MapOp, compute: DType, out: DType, general: boolean): MapSource {
  const copies = row.id === MAP.copy.id;
  let from = compute;
  let to = !copies ? resultOf(row, compute) : general ? compute : out;
  // Copies without a cast move bytes.
  if (copies && from === to && !general) from = to = unsignedOf(DTYPE[from].bytes);
  const key = (row.id * 256 + DTYPE[from].id) * 256 + DTYPE[to].id;
  let source = mapSources.get(key);
  if (source === undefined) mapSources.set(key, source = makeMap(row, from, to));
  return source;
}

/** Dtypes next to float32 for which arithmetic has kernels that cast as they load. */
const MIXED: readonly DType[] = ["bool", "uint8", "int32", "float16", "bfloat16"];

/** The kernels of {@link mixedSource}. */
export const MIXED_KERNELS = ["contiguous", "vectorized", "strided"] as const;

/** The dtypes of the operands of `row` for which there is a {@link mixedSource}. */
function mixesOf(row: MapOp): (readonly [DType, DType])[] {
  const { arity, dtypes, result } = row;
  const isArithmetic = arity === 2 && dtypes === "iuf" && result !== "bool" && !isComputeBound(row);
  if (!isArithmetic) return [];
  const own = result === "float" ? MIXED.filter((dtype) => DTYPE[dtype].kind !== "f") : [];
  return [
    ...MIXED.flatMap((other) => [["float32", other], [other, "float32"]] as const),
    ...own.filter((dtype) => takes(row, dtype)).map((dtype) => [dtype, dtype] as const),
  ];
}

const mixedSources = new Map<number, MapSource | undefined>();

/**
 * `row` in the arithmetic of float32 over two operands of other dtypes, which it casts as it loads
 * them; undefined if the generic kernel has to look them up.
 */
export function mixedSource(row: MapOp, x: DType, y: DType): MapSource | undefined {
  const key = (row.id * 256 + DTYPE[x].id) * 256 + DTYPE[y].id;
  if (!mixedSources.has(key)) {
    const known = mixesOf(row).some(([a, b]) => a === x && b === y);
    mixedSources.set(key, known ? makeMixed(row, x, y) : undefined);
  }
  return mixedSources.get(key);
}

function makeMixed(row: MapOp, x: DType, y: DType): MapSource {
  const single = mapSource(row, "float32", "float32", false);
  const [a, b] = [suffixOf(x), suffixOf(y)];
  const name = `${single.name}_of_${a}_${b}`;
  const text =
    `struct ${name} : rm_map_op<rm_${b}, rm_${a}, rm_f32, rm_storage_only, 2, ${single.pack}, ` +
    `${single.packs}> {\n` +
    `  static inline float apply(rm_${a}::stored x, rm_${b}::stored y, rm_${b}::stored, ` +
    `const double *at) {\n` +
    `    return rm_apply<${single.name}>(rm_cast<rm_f32, rm_${a}>(x), rm_cast<rm_f32, rm_${b}>(y), ` +
    `0, at);\n  }\n};\n`;
  const { pack, packs, tile } = single;
  return {
    ...sourceOf(name, "map.h", MAP_KERNELS, text),
    base: single.text,
    pack,
    packs,
    tile,
  };
}

/** Every {@link mixedSource} of `row`. */
export function allMixed(row: MapOp): MapSource[] {
  return mixesOf(row).map(([x, y]) => mixedSource(row, x, y)!);
}

function unsignedOf(bytes: number): DType {
  return `uint${8 * bytes}` as DType;
}

function makeMap(row: MapOp, compute: DType, out: DType): MapSource {
  const { kind, bytes } = DTYPE[compute];
  const copies = row.id === MAP.copy.id;
  const name = copies && out !== compute
    ? `cast_${suffixOf(compute)}_${suffixOf(out)}`
    : `${row.name}_${suffixOf(compute)}`;
  const heavy = isComputeBound(row);
  const pack = Math.min(16 / Math.max(bytes, DTYPE[out].bytes), heavy ? 8 : 16);
  const packs = heavy || row.arity === 3 ? 1 : 2;
  const small = packs > 1 && Math.max(bytes, DTYPE[out].bytes) <= 2;
  const tile = CONSTANTS["map.h"][small ? "MAP_LARGE_TILE" : "MAP_TILE"];
  const expr = exprFor(row, kind);
  let [work, takes, result] = [valueType(compute), valueType(compute), "auto"];
  let body: string;
  // Finding the neighbors of 16-bit floats takes operations on bits.
  const neighbours = kind === "f" && bytes === 2 &&
    someExpr(parseExpr(expr), (part) => part.kind === "call" && part.name === "nextafter");
  if (copies || neighbours) {
    [work, takes, result] = ["rm_storage_only", storedType(compute), storedType(out)];
    const cast = out === compute ? "x" : `rm_cast<rm_${suffixOf(out)}, rm_${suffixOf(compute)}>(x)`;
    body = copies ? cast : `rm_nextafter_${suffixOf(compute)}(x, y)`;
  } else {
    if (kind === "f" && needsDouble(row)) work = "double";
    // Signed integers would overflow.
    else if (kind !== "f" && kind !== "b" && ignoresSign(parseExpr(expr))) {
      work = bytes === 8 ? "uint64_t" : "uint32_t";
    }
    takes = work;
    body = printC(expr, compute, work).replace(/\bbits\b/g, String(8 * bytes));
  }
  const first = row.condition ? "rm_b8" : `rm_${suffixOf(compute)}`;
  const text =
    `struct ${name} : rm_map_op<rm_${suffixOf(compute)}, ${first}, rm_${suffixOf(out)}, ${work}, ` +
    `${row.arity}, ${pack}, ${packs}> {\n` +
    `  static inline ${result} apply(${takes} x, ${takes} y, ${takes} z, const double *at) {\n` +
    attributesOf(row) +
    `    return ${body};\n  }\n};\n`;
  return { ...sourceOf(name, "map.h", MAP_KERNELS, text), pack, packs, tile };
}

/** The kernels of most calls. */
const USUAL_MAPS: readonly MapKernel[] = [
  "contiguous",
  "vectorized",
  "strided",
  "tiled",
  "casting",
];

/** Kernels of maps for `dtypes`: the compute dtypes or, for copies, the copied dtypes. */
function mapFamily(row: MapOp, dtypes: readonly DType[]): Family {
  if (row.id !== MAP.copy.id) {
    return define(dtypes.map((dtype) => [mapSource(row, dtype, dtype, false), USUAL_MAPS]));
  }
  const same = new Set(dtypes.map((dtype) => mapSource(row, dtype, dtype, false)));
  const casts = dtypes.flatMap((dtype) =>
    DTYPES.filter((out) => out !== dtype).map((out) => mapSource(row, dtype, out, false))
  );
  return define([
    ...[...same].map((source) =>
      [source, ["contiguous", "vectorized", "strided", "tiled"]] as const
    ),
    ...casts.map((source) => [source, ["contiguous", "strided"]] as const),
  ]);
}

/** The dtypes in which `row` computes. */
export function computesOf(row: MapOp): DType[] {
  return DTYPES.filter((dtype) => {
    const { kind } = DTYPE[dtype];
    return row.dtypes.includes(kind) && (row.result !== "float" || kind === "f");
  });
}

// ---- folds -------------------------------------------------------------------------------------

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
  if (typeof identity === "number") return String(identity);
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
  const attributes = attributesOf(row);
  const exact = toFloat && row.compensated === true && DTYPE[from].bytes === 8;
  const expr = printC(exprFor(row, DTYPE[to].kind), sum, acc);
  const map = row.map === undefined
    ? to === "bool" ? "x != 0" : "x"
    : printC(row.map, element, work);
  const finish = row.finish === undefined ? "a" : printC(row.finish, sum, acc);
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

const USUAL_FOLDS: readonly FoldKernel[] = ["along", "across", "across_packed", "parts"];
const ANY_FOLDS: readonly FoldKernel[] = ["along_generic", "parts_generic"];

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
  const sum: DType = DTYPE[to].kind === "f" ? "float64" : "uint64";
  const acc = valueType(sum);
  const expr = printC(row.expr, sum, acc);
  const pack = Math.min(16 / DTYPE[from].bytes, 8);
  const dtypes = [from, to, sum].map((dtype) => `rm_${suffixOf(dtype)}`).join(", ");
  const text = `struct ${name} : rm_scan_op<${dtypes}, ${pack}> {\n` +
    `  static inline acc identity() { return ${row.identity}; }\n` +
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
      start: String(row.identity),
      map: "    return x;\n",
      fold: expr,
      join: expr,
      finish: "    return a;\n",
    }),
  };
}

// ---- families ----------------------------------------------------------------------------------

/**
 * The kernels of most calls of `row`, for the supported ones of `dtypes`: for copies the copied
 * dtypes, for other maps the compute dtypes, else the dtypes of the elements.
 */
export function usualOf(row: TableOp, dtypes: readonly DType[] = DTYPES): Family {
  if (row.kind === "map") {
    const computes = computesOf(row);
    return mapFamily(row, dtypes.filter((dtype) => computes.includes(dtype)));
  }
  const taken = dtypes.filter((dtype) => takes(row, dtype));
  if (row.kind === "scan") {
    return define<ScanKernel>(scansOf(row, taken).map((source) => [source, ["along", "across"]]));
  }
  return define(
    foldsOf(row, taken).map((source) => [source, kernelsOf(source, USUAL_FOLDS)]),
  );
}

/** Those of `kernels` that `source` has. */
export function kernelsOf(
  { columns }: ReduceSource,
  kernels: readonly FoldKernel[],
): FoldKernel[] {
  return kernels.filter((kernel) => kernel !== "across_packed" || columns > 1);
}

function scansOf(row: ScanOp, dtypes: readonly DType[]): ScanSource[] {
  return dtypes.map((from) => scanSource(row, from, resultOf(row, from)));
}

function foldsOf(row: ReduceOp | ArgReduceOp, dtypes: readonly DType[]): ReduceSource[] {
  return dtypes.flatMap((from) =>
    row.kind === "argReduce"
      ? [argReduceSource(row, from, "int32")]
      : secondsOf(row, from).map((second) => reduceSource(row, from, resultOf(row, from), second))
  );
}

/**
 * The precompiled kernels of `row`, for devices without NVRTC: together with copies between dtypes
 * and layouts, they cover every call.
 */
export function prebuiltOf(row: TableOp): Family {
  const taken = DTYPES.filter((dtype) => takes(row, dtype));
  if (row.kind === "scan") {
    const sources = scansOf(row, taken);
    const scans = define<ScanKernel>(sources.map((source) => [source, ["along_generic"]]));
    const folds = define<FoldKernel>(sources.map(({ fold }) => [fold, ["along_generic"]]));
    return { source: scans.source + folds.source, names: [...scans.names, ...folds.names] };
  }
  if (row.kind !== "map") {
    return define(taken.flatMap((from) =>
      foldsOf(row, [from]).map((source) =>
        [
          source,
          from === "float32" ? kernelsOf(source, [...USUAL_FOLDS, ...ANY_FOLDS]) : ANY_FOLDS,
        ] as const
      )
    ));
  }
  if (row.id !== MAP.copy.id) {
    return define<MapKernel>(
      computesOf(row).map((dtype) => [
        mapSource(row, dtype, dtype, false),
        dtype === "float32" ? ["strided", "contiguous"] : ["strided"],
      ]),
    );
  }
  // Kernels that move bytes, and kernels that cast.
  return define<MapKernel>(DTYPES.map((dtype) => [
    mapSource(row, dtype, dtype, true),
    DTYPE[dtype].kind === "u"
      ? ["contiguous", "vectorized", "strided", "tiled", "generic"]
      : ["generic"],
  ]));
}
