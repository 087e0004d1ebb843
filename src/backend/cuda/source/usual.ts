/**
 * Which kernels of an op are compiled together: the usual ones, and the precompiled ones.
 *
 * Knows nothing of plans or launches.
 *
 * @module
 */
import { DTYPE, type DType, DTYPES } from "../../../base/dtype.ts";
import { resultOf, takes } from "../../../table/infer.ts";
import type { ArgReduceOp, ReduceOp, ScanOp, TableOp } from "../../../table/op.ts";
import { MAP } from "../../../table/table.ts";
import {
  ANY_FOLDS,
  argReduceSource,
  type FoldKernel,
  type ReduceSource,
  reduceSource,
  type ScanKernel,
  type ScanSource,
  scanSource,
  secondsOf,
  USUAL_FOLDS,
} from "./folds.ts";
import { computesOf, mapFamily, type MapKernel, mapSource } from "./maps.ts";
import { define, type Family } from "./text.ts";

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
    foldsOf(row, taken).map((source) => [source, foldKernelsOf(source, USUAL_FOLDS)]),
  );
}

/** Those of `kernels` that `source` has. */
export function foldKernelsOf(
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
          from === "float32" ? foldKernelsOf(source, [...USUAL_FOLDS, ...ANY_FOLDS]) : ANY_FOLDS,
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
