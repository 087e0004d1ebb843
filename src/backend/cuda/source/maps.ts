/**
 * Elementwise ops of the table as CUDA C: the structs that map.h needs.
 *
 * Knows nothing of plans or launches.
 *
 * @module
 */
import { DTYPE, type DType, DTYPES } from "../../../base/dtype.ts";
import { ignoresSign, isComputeBound, needsDouble } from "../../../table/c_rules.ts";
import { parseExpr, someExpr } from "../../../table/expr.ts";
import { resultOf, takes } from "../../../table/infer.ts";
import type { MapOp } from "../../../table/op.ts";
import { exprFor, MAP } from "../../../table/table.ts";
import { CONSTANTS } from "./constants.ts";
import {
  attributesOf,
  define,
  type Family,
  printC,
  type Source,
  sourceOf,
  storedType,
  suffixOf,
  valueType,
} from "./text.ts";

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
  const isArithmetic = arity === 2 && dtypes.startsWith("iuf") && result !== "bool" &&
    !isComputeBound(row);
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
    body = printC(expr, compute, work, row.parameters).replace(/\bbits\b/g, String(8 * bytes));
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
export function mapFamily(row: MapOp, dtypes: readonly DType[]): Family {
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
