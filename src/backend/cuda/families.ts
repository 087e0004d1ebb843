/**
 * The list of all kernels that calls can launch, in families: one source each.
 *
 * Tests compile the list for every architecture and compare launches with it; releases compile it
 * ahead. Nothing at run time needs it.
 *
 * @module
 */
import { ROW_KERNELS } from "../../ops/softmax_norm/problem.ts";
import { DTYPE, type DType, DTYPES } from "../../base/dtype.ts";
import { accumulates, resultOf, takes } from "../../table/infer.ts";
import type { MapOp, ReduceOp, ScanOp, TableOp } from "../../table/op.ts";
import { COMPLEX_NUMBER, type ComplexName } from "../../ops/complex/op.ts";
import { MAP, TABLE } from "../../table/table.ts";
import { QUANT } from "../../ops/quantized/formats.ts";
import { attentionFamily, attentionSeenFamily } from "./attention.ts";
import { complexFamily } from "./complex.ts";
import { matmulFamily } from "./matmul.ts";
import { moveFamily, nonzeroFamily, scatterAddFamily } from "./move.ts";
import { dequantizeFamily, quantizedFamily } from "./quantized.ts";
import { randomFamily } from "./random.ts";
import { rowsFamily } from "./softmax_norm.ts";
import { countsFamily, sortFamily } from "./sort.ts";
import {
  allMixed,
  argReduceSource,
  computesOf,
  define,
  type Family,
  FOLD_KERNELS,
  type FoldKernel,
  foldKernelsOf,
  type MapKernel,
  type MapSource,
  mapSource,
  MIXED_KERNELS,
  prebuiltOf,
  type ReduceSource,
  reduceSource,
  SCAN_KERNELS,
  type ScanKernel,
  type ScanSource,
  scanSource,
  secondsOf,
  usualOf,
} from "./source/mod.ts";

/** A family and its name. */
export interface NamedFamily extends Family {
  readonly name: string;
}

const STRIDED: readonly MapKernel[] = ["contiguous", "vectorized", "strided", "tiled"];
const FOLDS = Object.keys(FOLD_KERNELS) as FoldKernel[];
const SCANS = Object.keys(SCAN_KERNELS) as ScanKernel[];
/** The kernels that fold the parts of a scan. */
const SCAN_FOLDS: readonly FoldKernel[] = ["along", "across", "along_generic", "across_generic"];

function mapFamilies(row: MapOp): NamedFamily[] {
  if (row.id === MAP.copy.id) return [sameFamily(row), ...DTYPES.map((from) => casts(row, from))];
  const kernels = [...STRIDED, "casting", "generic"] as const;
  const sources = computesOf(row).map((dtype) => mapSource(row, dtype, dtype, false));
  const families = [{ name: row.name, ...define(sources.map((source) => [source, kernels])) }];
  const mixed = allMixed(row);
  if (mixed.length > 0) {
    families.push({
      name: `${row.name} mixed`,
      ...define(mixed.map((source) => [source, MIXED_KERNELS])),
    });
  }
  return families;
}

/** Copies without casts, and copies that look up dtypes at run time. */
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

/** The dtypes of reductions of `from`: the default, and those chosen with `dtype`. */
function sumsOf(row: ReduceOp | ScanOp, from: DType): DType[] {
  const usual = resultOf(row, from);
  const own = accumulates(row) && from !== "bool" ? [from] : [];
  return [...new Set([usual, ...own])];
}

function reduceFamily(row: Exclude<TableOp, MapOp | ScanOp>): NamedFamily {
  const taken = DTYPES.filter((dtype) => takes(row, dtype));
  const sources: ReduceSource[] = row.kind === "argReduce"
    ? taken.map((from) => argReduceSource(row, from, "int32"))
    : taken.flatMap((from) =>
      sumsOf(row, from).flatMap((to) =>
        secondsOf(row, from).map((second) => reduceSource(row, from, to, second))
      )
    );
  const kernels = sources.map((source) => [source, foldKernelsOf(source, FOLDS)] as const);
  return { name: row.name, ...define(kernels) };
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

/** Every family of kernels. */
export function allFamilies(): NamedFamily[] {
  const families: NamedFamily[] = [];
  for (const row of TABLE) {
    if (row.kind === "map") families.push(...mapFamilies(row));
    else if (row.kind === "scan") families.push(...scanFamilies(row));
    else families.push(reduceFamily(row));
  }
  return [
    ...families,
    ...rowsFamilies(),
    ...attentionFamilies(),
    ...quantizedFamilies(),
    ...ownFamilies(),
  ];
}

function rowsFamilies(): NamedFamily[] {
  const floats = DTYPES.filter((dtype) => DTYPE[dtype].kind === "f");
  return ROW_KERNELS.flatMap((kernel) =>
    floats.map((dtype) => ({ name: `${kernel} ${dtype}`, ...rowsFamily(kernel, dtype) }))
  );
}

function attentionFamilies(): NamedFamily[] {
  return [
    ...(["bfloat16", "float16"] as const).map((dtype) => (
      { name: `attention ${dtype}`, ...attentionFamily(dtype, false) }
    )),
    { name: "attention rows", ...attentionSeenFamily() },
  ];
}

function quantizedFamilies(): NamedFamily[] {
  return Object.values(QUANT).map(({ name }) => (
    { name: `quantized ${name}`, ...quantizedFamily(name) }
  ));
}

/** Families outside the op table, the same with and without NVRTC. */
function ownFamilies(): NamedFamily[] {
  return [
    ...[1, 2, 4, 8].map((bytes) => ({ name: `sort ${bytes}`, ...sortFamily(bytes) })),
    { name: "counts", ...countsFamily() },
    { name: "move", ...moveFamily() },
    { name: "scatter-add", ...scatterAddFamily() },
    { name: "nonzero", ...nonzeroFamily() },
    { name: "dequantize", ...dequantizeFamily() },
    { name: "random", ...randomFamily() },
    { name: "matmul", ...matmulFamily() },
    ...[...COMPLEX_NUMBER.keys()].map((op) => (
      { name: `complex ${op}`, ...complexFamily(op as ComplexName) }
    )),
  ];
}

/**
 * The precompiled families, for devices with a driver but without NVRTC, one module each. Each op
 * has a few kernels; copies to and from workspace memory cover all other cases.
 */
export function prebuiltFamilies(): Family[] {
  return [...TABLE.map(prebuiltOf), ...ownFamilies()];
}

/** The kernels of most calls, in families that tests compile at once: for copies, one per dtype. */
export function usualFamilies(): Family[] {
  const rows = TABLE.flatMap((row) =>
    row === MAP.copy ? DTYPES.map((dtype) => usualOf(row, [dtype])) : [usualOf(row)]
  );
  return [
    ...rows,
    ...rowsFamilies(),
    ...attentionFamilies(),
    ...quantizedFamilies(),
    ...ownFamilies(),
  ];
}
