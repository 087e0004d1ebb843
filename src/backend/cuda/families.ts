/**
 * The list of all kernels: what any call can launch, in families, each of which is one source.
 *
 * It is what tests compile for every architecture, what they compare launches with, and what is
 * compiled ahead. Nothing that runs needs it.
 *
 * @module
 */
import { ROW_KERNELS } from "../../core/row_kernels.ts";
import { DTYPE, type DType, DTYPES } from "../../base/dtype.ts";
import { resultOf, takes } from "../../ops/infer.ts";
import type { MapOp, ReduceOp, ScanOp, TableOp } from "../../ops/op.ts";
import { MAP, TABLE } from "../../ops/table.ts";
import type { Family } from "./device.ts";
import { matmulFamily } from "./matmul.ts";
import { moveFamily, nonzeroFamily, scatterAddFamily } from "./move.ts";
import { randomFamily } from "./random.ts";
import { rowsFamily } from "./rows.ts";
import { countsFamily, sortFamily } from "./sort.ts";
import {
  argReduceSource,
  computesOf,
  define,
  FOLD_KERNELS,
  type FoldKernel,
  type FoldSource,
  type MapKernel,
  type MapSource,
  mapSource,
  prebuiltOf,
  reduceSource,
  SCAN_KERNELS,
  type ScanKernel,
  type ScanSource,
  scanSource,
  secondOf,
  usualOf,
} from "./source.ts";

/** A family, and what it is called. */
export interface NamedFamily extends Family {
  readonly name: string;
}

const STRIDED: readonly MapKernel[] = ["contiguous", "vectorized", "strided", "tiled"];
const FOLDS = Object.keys(FOLD_KERNELS) as FoldKernel[];
const SCANS = Object.keys(SCAN_KERNELS) as ScanKernel[];
/** What folds the parts of a scan. */
const SCAN_FOLDS: readonly FoldKernel[] = ["along", "across", "along_generic", "across_generic"];

function mapFamilies(row: MapOp): NamedFamily[] {
  if (row.id === MAP.copy.id) return [sameFamily(row), ...DTYPES.map((from) => casts(row, from))];
  const kernels = [...STRIDED, "casting", "generic"] as const;
  const sources = computesOf(row).map((dtype) => mapSource(row, dtype, dtype, false));
  return [{ name: row.name, ...define(sources.map((source) => [source, kernels])) }];
}

/** Copies that cast nothing, and those that look dtypes up as they run. */
function sameFamily(row: MapOp): NamedFamily {
  const bytes = new Set(DTYPES.map((dtype) => mapSource(row, dtype, dtype, false)));
  const general = DTYPES.map((dtype) => mapSource(row, dtype, dtype, true));
  const kernels = new Map<MapSource, MapKernel[]>();
  for (const source of bytes) kernels.set(source, [...STRIDED]);
  for (const source of general) kernels.set(source, [...kernels.get(source) ?? [], "generic"]);
  return { name: row.name, ...define([...kernels]) };
}

function casts(row: MapOp, from: DType): NamedFamily {
  const outs = DTYPES.filter((out) => out !== from);
  return {
    name: `cast ${from}`,
    ...define(outs.map((out) => [mapSource(row, from, out, false), STRIDED])),
  };
}

/** The dtypes that sums of `from` may have: their usual one, and with `dtype` their own. */
function sumsOf(row: ReduceOp | ScanOp, from: DType): DType[] {
  const usual = resultOf(row, from);
  const own = row.result === "sum" && from !== "bool" ? [from] : [];
  return [...new Set([usual, ...own])];
}

function foldFamily(row: Exclude<TableOp, MapOp | ScanOp>): NamedFamily {
  const taken = DTYPES.filter((dtype) => takes(row, dtype));
  const sources: FoldSource[] = row.kind === "argReduce"
    ? taken.map((from) => argReduceSource(row, from, "int32"))
    : taken.flatMap((from) =>
      sumsOf(row, from).map((to) => reduceSource(row, from, to, secondOf(row, from)))
    );
  return { name: row.name, ...define(sources.map((source) => [source, FOLDS])) };
}

function scanFamilies(row: ScanOp): NamedFamily[] {
  const taken = DTYPES.filter((dtype) => takes(row, dtype));
  const sources: ScanSource[] = taken.flatMap((from) =>
    sumsOf(row, from).map((to) => scanSource(row, from, to))
  );
  return [
    { name: row.name, ...define(sources.map((source) => [source, SCANS])) },
    {
      name: `${row.name} parts`,
      ...define(sources.map(({ fold }) => [fold, SCAN_FOLDS])),
    },
  ];
}

/** Every family of kernels that there is. */
export function allFamilies(): NamedFamily[] {
  const families: NamedFamily[] = [];
  for (const row of TABLE) {
    if (row.kind === "map") families.push(...mapFamilies(row));
    else if (row.kind === "scan") families.push(...scanFamilies(row));
    else families.push(foldFamily(row));
  }
  return [...families, ...rowsFamilies(), ...ownFamilies()];
}

function rowsFamilies(): NamedFamily[] {
  const floats = DTYPES.filter((dtype) => DTYPE[dtype].kind === "f");
  return ROW_KERNELS.flatMap((kernel) =>
    floats.map((dtype) => ({ name: `${kernel} ${dtype}`, ...rowsFamily(kernel, dtype) }))
  );
}

/** Those that are for no row of the op table, and the same for devices with NVRTC and without. */
function ownFamilies(): NamedFamily[] {
  return [
    ...[1, 2, 4, 8].map((bytes) => ({ name: `sort ${bytes}`, ...sortFamily(bytes) })),
    { name: "counts", ...countsFamily() },
    { name: "move", ...moveFamily() },
    { name: "scatter-add", ...scatterAddFamily() },
    { name: "nonzero", ...nonzeroFamily() },
    { name: "random", ...randomFamily() },
    { name: "matmul", ...matmulFamily() },
  ];
}

/**
 * The families that come compiled, for devices that have a driver but no NVRTC, each a module of its
 * own: a few kernels for each row, that copies to and from scratch memory make enough for everything.
 */
export function prebuiltFamilies(): Family[] {
  return [...TABLE.map(prebuiltOf), ...ownFamilies()];
}

/** What most calls take, in families that tests compile at once: of copies, those of a dtype. */
export function usualFamilies(): Family[] {
  const rows = TABLE.flatMap((row) =>
    row === MAP.copy ? DTYPES.map((dtype) => usualOf(row, [dtype])) : [usualOf(row)]
  );
  return [...rows, ...rowsFamilies(), ...ownFamilies()];
}
