/**
 * How many elements there are in each bin.
 *
 * @module
 */
import { DTYPE, type DType, type DTypeInfo } from "../../base/dtype.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../base/errors.ts";
import { formatShape, lengthOf, listIn, sameShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast, contiguousCopy } from "../../core/copy.ts";
import { dispatch, dispatchAll } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import { readElement } from "../../memory/element.ts";
import { isOperandArgument, type Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, type Input, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { fromData } from "../../ops/create/from_data.ts";
import { iota } from "../../ops/index/selection.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";
import { countDType, MOST_BINS, ownWeights, withWeights } from "./bincount.ts";
import { flat, onHost, only, runKernel, widened } from "../../ops/sets/op.ts";

// ---- bins --------------------------------------------------------------------------------------

/** How many bins, or their edges, which rise. */
export type Bins = number | readonly number[] | AnyTensor;

/** Options of {@link histogramBinEdges}. */
export interface BinOptions {
  /** The first and the last edge of bins that are a number; the smallest and largest element if missing. */
  readonly range?: readonly [low: number, high: number];
}

/** Options of {@link histogram}. */
export interface HistogramOptions<W = AnyTensor | undefined, P extends boolean = boolean>
  extends BinOptions {
  /** Whether to divide by the number of elements and by the width of bins, so that the area is 1. */
  readonly density?: P;
  /** A weight for each element: sums of weights instead of counts. */
  readonly weights?: W;
}

/** Bins as attributes and inputs of calls. */
interface BinSpec {
  /** How many; undefined if there is an input of edges. */
  readonly bins: number | undefined;
  readonly range: readonly [number, number] | undefined;
}

/** The dtype of the edges of bins of elements. */
function edgeDType({ storage: { info } }: Operand): DType {
  return info.kind === "f" ? info.name : "float64";
}

function checkBins(name: string, bins: unknown): void {
  if (Number.isInteger(bins) && (bins as number) >= 1 && (bins as number) <= MOST_BINS) return;
  throw new ArgumentError(
    `${name}() needs an integer of at least 1, or edges, as bins, got ${describe(bins)}`,
  );
}

function checkedEdge(name: string, edge: unknown): number | bigint {
  if (typeof edge === "number" || typeof edge === "bigint") return edge;
  throw new DTypeError(`Cannot ${name} with the edge ${describe(edge)}: edges are numbers`);
}

function ownRange(name: string, range: unknown): readonly [number, number] | undefined {
  if (range === undefined) return undefined;
  const ends = lengthOf(range) === 2 ? listIn(range, (end) => end, 2) : undefined;
  const [low, high] = ends ?? [];
  if (
    typeof low !== "number" || typeof high !== "number" || !(low <= high) ||
    !Number.isFinite(high - low)
  ) {
    throw new ArgumentError(
      `${name}() needs two finite numbers, the smaller first, as range, got ${
        ends !== undefined ? `[${describe(low)}, ${describe(high)}]` : describe(range)
      }`,
    );
  }
  return [low, high];
}

/** The arguments for bins: an input of edges, or attributes. */
function binsOf(name: string, x: Operand, bins: Bins, range: unknown): [BinSpec, Operand[]] {
  const own = ownRange(name, range);
  const list = listIn(bins, (edge) => checkedEdge(name, edge));
  if (list === undefined && !isOperandArgument(bins)) {
    checkBins(name, bins);
    return [{ bins: bins as number, range: own }, []];
  }
  const edges = list === undefined
    ? ownOperand(bins, name)
    : fromData(list, { dtype: edgeDType(x), device: x.storage.device as t.Device });
  return [{ bins: undefined, range: own }, [edges]];
}

/** The number of bins of a call, whose input `k` may be edges. */
function countOf(name: string, spec: BinSpec, x: Operand, edges: Input): number {
  if (spec.bins !== undefined) return spec.bins;
  checkOperand(edges, name);
  checkDevice(x.storage, edges.storage, name);
  checkKind(edges.storage.info, "iuf", name);
  const { shape } = edges.layout;
  if (shape.length !== 1 || shape[0]! < 2) {
    throw new ShapeError(
      `Cannot ${name} by edges of shape ${formatShape(shape)}: they are a vector of at least 2`,
    );
  }
  return shape[0]! - 1;
}

/** Edges, as float64 and as results have them. */
interface Edges {
  readonly wide: Operand;
  readonly edges: Operand;
  readonly uniform: boolean;
}

/** The ends of `bins` equal intervals from `low` to `high`. */
function pointsOf(low: number, high: number, bins: number): Float64Array {
  const step = (high - low) / bins;
  return Float64Array.from({ length: bins + 1 }, (_, i) => i === bins ? high : i * step + low);
}

/** {@link pointsOf} for ends that are tensors of one element, moved apart by `widening` each. */
function pointsBetween(least: Operand, most: Operand, widening: number, bins: number): Operand {
  const low = apply(MAP.sub, least, widening), high = apply(MAP.add, most, widening);
  const step = apply(MAP.div, apply(MAP.sub, high, low), bins);
  const places = cast(iota(low.storage, bins + 1), "float64");
  const points = apply(MAP.add, apply(MAP.mul, places, step), low);
  return apply(MAP.where, apply(MAP.equal, places, bins), high, points);
}

/** The edges of bins of the elements of `x`, which is on the CPU. */
function edgesOf(name: string, x: Operand, spec: BinSpec, given: Operand | undefined): Edges {
  if (given !== undefined) {
    const wide = flat(cast(given, "float64"));
    const n = wide.layout.size;
    for (let i = 1, { storage, layout: { offset } } = wide; i < n; i++) {
      const [a, b] = [readElement(storage, offset + i - 1), readElement(storage, offset + i)];
      if (!(a <= b)) {
        throw new ArgumentError(`Cannot ${name} by edges that do not rise: ${b} follows ${a}`);
      }
    }
    return { wide, edges: contiguousCopy(given), uniform: false };
  }
  const bins = spec.bins!;
  const ends = spec.range === undefined && x.layout.size > 0
    ? [REDUCE.min, REDUCE.max].map((op) => cast(dispatch(op, [x], { axis: undefined }), "float64"))
    : undefined;
  let [low, high] = (ends?.map((end) => Number(only(end))) ?? spec.range ?? [0, 1]) as [
    number,
    number,
  ];
  if (!Number.isFinite(low) || !Number.isFinite(high)) {
    throw new ArgumentError(
      `Cannot ${name} elements from ${low} to ${high}: bins end at finite numbers; pass a range`,
    );
  }
  const widening = low === high ? 0.5 : 0;
  [low, high] = [low - widening, high + widening];
  const edges = cast(
    ends === undefined
      ? fromData(pointsOf(low, high, bins), { dtype: "float64" })
      : pointsBetween(ends[0]!, ends[1]!, widening, bins),
    edgeDType(x),
  );
  const wide = cast(edges, "float64");
  const rounded = wide.storage.array as Float64Array;
  for (let i = 1, { offset } = wide.layout; i <= bins; i++) {
    const [a, b] = [rounded[offset + i - 1]!, rounded[offset + i]!];
    if (a < b) continue;
    throw new ArgumentError(
      `Cannot ${name} elements from ${low} to ${high} in ${bins} bins: the ${edgeDType(x)} edge ` +
        `${a} is followed by ${b}`,
    );
  }
  return { wide, edges, uniform: true };
}

/** Counts over the sum of all and the width of their bins, in the dtype of edges. */
function density(counts: Operand, { wide }: Edges, dtype: DType): Operand {
  const n = wide.layout.size - 1;
  const part = (from: number): Operand => applyView(VIEWS.narrow, wide, "narrow", 0, from, n);
  const widths = apply(MAP.sub, part(1), part(0));
  const own = cast(counts, "float64");
  const sum = dispatch(REDUCE.sum, [own], { axis: undefined });
  return cast(apply(MAP.div, apply(MAP.div, own, widths), sum), dtype);
}

/** The dtype of a histogram. */
function resultDType(name: string, x: Operand, weights: Input, isDensity: boolean): DTypeInfo {
  const dtype = countDType(name, x, weights);
  return isDensity ? DTYPE[edgeDType(x)] : dtype;
}

// ---- histogram ---------------------------------------------------------------------------------

interface HistogramAttributes extends BinSpec {
  readonly density: boolean;
  /** Whether there is an input of weights, the last one. */
  readonly weighted: boolean;
}

/** The inputs of edges and weights after the elements. */
function partsOf(call: Call): { edges: Input; weights: Input } {
  const { bins, weighted } = call.attributes as HistogramAttributes;
  return {
    edges: bins === undefined ? call.inputs[1] : undefined,
    weights: weighted ? call.inputs.at(-1) : undefined,
  };
}

const HISTOGRAM: Op = makeOp({
  kind: "kernel",
  name: "histogram",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x], name } = call;
    const attributes = call.attributes as HistogramAttributes;
    checkOperand(x, name);
    checkKind(x.storage.info, "biuf", name);
    const { edges, weights } = partsOf(call);
    const bins = countOf(name, attributes, x, edges);
    const dtype = edges === undefined ? DTYPE[edgeDType(x)] : (edges as Operand).storage.info;
    return [
      { shape: [bins], dtype: resultDType(name, x, weights, attributes.density) },
      { shape: [bins + 1], dtype },
    ];
  },
  decompose(call: Call) {
    const { name } = call;
    const attributes = call.attributes as HistogramAttributes;
    const { weights, edges: given } = partsOf(call);
    const dtype = resultDType(name, call.operand(0), weights, attributes.density);
    return onHost(call, (inputs) => {
      const line = flat(widened(inputs[0]!));
      const own = given === undefined ? undefined : inputs[1];
      const all = edgesOf(name, inputs[0]!, attributes, own);
      const bins = all.wide.layout.size - 1;
      const weight = ownWeights(weights === undefined ? undefined : inputs.at(-1));
      const counts = runKernel(
        "histogramCounts",
        weight === undefined ? [line, all.wide] : [line, all.wide, weight],
        { bins, uniform: all.uniform },
      );
      return [
        attributes.density ? density(counts, all, dtype.name) : cast(counts, dtype.name),
        all.edges,
      ];
    });
  },
});

/**
 * How many elements are in each of several bins (10), and the edges of the bins. A bin includes its left
 * edge and not its right one, except for the last bin, which includes both. Elements outside, and NaN,
 * do not count.
 *
 * Counts are int32; with `weights` they are sums in the dtype of a sum, with `density` floats of the dtype
 * of edges, which is that of the elements for floats, and float64 for integers.
 *
 * @throws {ArgumentError} For bins that are no number and no rising edges, for bins that are
 *   narrower than the dtype of their edges resolves, and for elements that are not finite if there
 *   is no `range`.
 *
 * @example
 * ```ts
 * const { counts, edges } = histogram(tensor([1, 2, 2, 4]), 3);
 * counts.toArray(); // => [1, 2, 1]
 * edges.toArray(); // => [1, 2, 3, 4]
 * ```
 */
export function histogram<
  X extends AnyTensor,
  W extends AnyTensor | undefined = undefined,
  const B extends Bins = 10,
  P extends boolean = false,
>(
  x: X,
  bins?: B,
  options?: HistogramOptions<W, P>,
): {
  readonly counts: Tensor<
    P extends true ? t.EdgeDType<X["dtype"]> : t.CountDType<W>,
    [t.BinCount<B>],
    X["device"]
  >;
  readonly edges: Tensor<t.EdgesDType<X["dtype"], B>, [t.EdgeCount<B>], X["device"]>;
};
export function histogram(
  x: AnyTensor,
  bins: Bins = 10,
  options: HistogramOptions<AnyTensor | undefined, boolean> = {},
): Readonly<Record<"counts" | "edges", Operand>> {
  const name = "histogram";
  checkOptions(name, options, ["range", "density", "weights"]);
  const { range, density = false, weights } = options;
  const own = ownOperand(x, name);
  const [counts, all] = tidy(() => {
    const [spec, edges] = binsOf(name, own, bins, range);
    const inputs = withWeights(name, [own, ...edges], weights);
    return dispatchAll(HISTOGRAM, inputs, { ...spec, density, weighted: weights !== undefined });
  });
  return { counts: counts!, edges: all! };
}

const HISTOGRAM_BIN_EDGES: Op = makeOp({
  kind: "kernel",
  name: "histogramBinEdges",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, edges], name } = call;
    checkOperand(x, name);
    checkKind(x.storage.info, "biuf", name);
    const bins = countOf(name, call.attributes as BinSpec, x, edges);
    const dtype = edges === undefined ? DTYPE[edgeDType(x)] : (edges as Operand).storage.info;
    return call.result([bins + 1], dtype);
  },
  decompose: (call: Call) =>
    onHost(call, ([x, given]) => [edgesOf(call.name, x!, call.attributes as BinSpec, given).edges]),
});

/**
 * The edges of the bins that {@link histogram} uses.
 *
 * @example
 * ```ts
 * histogramBinEdges(tensor([1, 2, 2, 4]), 3).toArray(); // => [1, 2, 3, 4]
 * ```
 */
export function histogramBinEdges<X extends AnyTensor, const B extends Bins = 10>(
  x: X,
  bins?: B,
  options?: BinOptions,
): Tensor<t.EdgesDType<X["dtype"], B>, [t.EdgeCount<B>], X["device"]>;
export function histogramBinEdges(
  x: AnyTensor,
  bins: Bins = 10,
  options: BinOptions = {},
): Operand {
  const name = "histogramBinEdges";
  checkOptions(name, options, ["range"]);
  const own = ownOperand(x, name);
  return tidy(() => {
    const [spec, edges] = binsOf(name, own, bins, options.range);
    return dispatch(HISTOGRAM_BIN_EDGES, [own, ...edges], spec);
  });
}

// ---- two dimensions ----------------------------------------------------------------------------

/** Options of {@link histogram2d}. */
export interface Histogram2dOptions<W = AnyTensor | undefined, P extends boolean = boolean> {
  /** The first and last edge of the bins of x, and of those of y. */
  readonly range?: readonly [
    x: readonly [low: number, high: number],
    y: readonly [low: number, high: number],
  ];
  /** Whether to divide by the number of elements and by the area of bins. */
  readonly density?: P;
  /** A weight for each pair of elements: sums of weights instead of counts. */
  readonly weights?: W;
}

interface PairAttributes {
  readonly x: BinSpec;
  readonly y: BinSpec;
  readonly density: boolean;
  readonly weighted: boolean;
}

/** The inputs of edges and weights of a histogram of pairs. */
function pairParts(call: Call): { edges: [Input, Input]; weights: Input } {
  const { x, y, weighted } = call.attributes as PairAttributes;
  const first = x.bins === undefined ? call.inputs[2] : undefined;
  const second = y.bins === undefined ? call.inputs[first === undefined ? 2 : 3] : undefined;
  return { edges: [first, second], weights: weighted ? call.inputs.at(-1) : undefined };
}

const HISTOGRAM2D: Op = makeOp({
  kind: "kernel",
  name: "histogram2d",
  infer(call: Call): readonly OutputSpec[] {
    const { inputs: [x, y], name } = call;
    const attributes = call.attributes as PairAttributes;
    checkOperand(x, name);
    checkOperand(y, name);
    checkDevice(x.storage, y.storage, name);
    for (const one of [x, y]) checkKind(one.storage.info, "biuf", name);
    if (x.layout.shape.length !== 1 || !sameShape(x.layout.shape, y.layout.shape)) {
      throw new ShapeError(
        `Cannot ${name} shapes ${formatShape(x.layout.shape)} and ${
          formatShape(y.layout.shape)
        }: it takes two vectors of one size`,
      );
    }
    const { edges: [first, second], weights } = pairParts(call);
    const counts = [
      countOf(name, attributes.x, x, first),
      countOf(name, attributes.y, y, second),
    ] as const;
    if ((counts[0] + 1) * (counts[1] + 1) > MOST_BINS) {
      throw new ArgumentError(`Cannot ${name} in ${counts[0]} times ${counts[1]} bins`);
    }
    const dtypeOf = (one: Operand, edges: Input): DTypeInfo =>
      edges === undefined ? DTYPE[edgeDType(one)] : (edges as Operand).storage.info;
    const dtype = countDType(name, x, weights);
    return [
      { shape: [...counts], dtype: attributes.density ? DTYPE.float64 : dtype },
      { shape: [counts[0] + 1], dtype: dtypeOf(x, first) },
      { shape: [counts[1] + 1], dtype: dtypeOf(y, second) },
    ];
  },
  decompose(call: Call) {
    const { name } = call;
    const attributes = call.attributes as PairAttributes;
    const { edges: given, weights } = pairParts(call);
    const dtype = countDType(name, call.operand(0), weights);
    return onHost(call, (inputs) => {
      let next = 2;
      const axes = [0, 1].map((k) => {
        const own = given[k] === undefined ? undefined : inputs[next++];
        const spec = k === 0 ? attributes.x : attributes.y;
        const all = edgesOf(name, inputs[k]!, spec, own);
        const bins = all.wide.layout.size - 1;
        const line = flat(widened(inputs[k]!));
        const at = runKernel("binIndices", [line, all.wide], { bins, uniform: all.uniform });
        return { all, bins, at };
      });
      const [x, y] = axes as [typeof axes[0], typeof axes[0]];
      const row = y.bins + 1;
      const place = apply(MAP.add, apply(MAP.mul, x.at, row), y.at);
      const weight = ownWeights(weights === undefined ? undefined : inputs.at(-1));
      const sums = runKernel("binCounts", weight === undefined ? [place] : [place, weight], {
        bins: (x.bins + 1) * row,
      });
      const grid = applyView(VIEWS.reshape, sums, "reshape", [x.bins + 1, row]);
      const inside = applyView(
        VIEWS.narrow,
        applyView(VIEWS.narrow, grid, "narrow", 0, 0, x.bins),
        "narrow",
        1,
        0,
        y.bins,
      );
      const counts = attributes.density
        ? planeDensity(inside, x.all, y.all)
        : contiguousCopy(inside, dtype.name);
      return [counts, x.all.edges, y.all.edges];
    });
  },
});

/** Counts over their sum and the area of bins. */
function planeDensity(counts: Operand, x: Edges, y: Edges): Operand {
  const own = cast(counts, "float64");
  const sum = dispatch(REDUCE.sum, [own], { axis: undefined });
  const widths = [x, y].map(({ wide }, k) => {
    const n = wide.layout.size - 1;
    const part = (from: number): Operand => applyView(VIEWS.narrow, wide, "narrow", 0, from, n);
    return applyView(
      VIEWS.reshape,
      apply(MAP.sub, part(1), part(0)),
      "reshape",
      k === 0 ? [n, 1] : [1, n],
    );
  });
  return apply(MAP.div, apply(MAP.div, apply(MAP.div, own, widths[0]!), widths[1]!), sum);
}

/** One of a pair of arguments, one for x and one for y; or the same for both. */
function pairOf(name: string, bins: unknown): [Bins, Bins] {
  const length = lengthOf(bins);
  const list = length === 2
    ? listIn(bins, (one) => one, 2)
    : listIn(bins, (edge) => checkedEdge(name, edge));
  if (list?.length === 2) {
    if (list.some((one) => typeof one !== "number" || Number.isInteger(one))) {
      return [list[0] as Bins, list[1] as Bins];
    }
  }
  if (typeof bins === "number" || isOperandArgument(bins) || list !== undefined) {
    const both = (list ?? bins) as Bins;
    return [both, both];
  }
  throw new DTypeError(`Cannot ${name} in bins of ${describe(bins)}: they are a number or edges`);
}

/**
 * How many pairs of elements are in each bin of a grid (10 by 10), and the edges of the bins; see
 * {@link histogram}. `bins` are a number, edges, or an array of two, for x and for y.
 *
 * @example
 * ```ts
 * const x = tensor([0, 1, 1]);
 * histogram2d(x, tensor([0, 0, 2]), 2).counts.toArray(); // => [[1, 0], [1, 1]]
 * ```
 */
export function histogram2d<
  X extends AnyTensor,
  W extends AnyTensor | undefined = undefined,
  const B extends Bins | readonly [x: Bins, y: Bins] = 10,
  P extends boolean = false,
>(
  x: X,
  y: AnyTensor,
  bins?: B,
  options?: Histogram2dOptions<W, P>,
): {
  readonly counts: Tensor<
    P extends true ? "float64" : t.CountDType<W>,
    B extends number ? [B, B] : [number, number],
    X["device"]
  >;
  readonly xEdges: Tensor<DType, [number], X["device"]>;
  readonly yEdges: Tensor<DType, [number], X["device"]>;
};
export function histogram2d(
  x: AnyTensor,
  y: AnyTensor,
  bins: Bins | readonly [x: Bins, y: Bins] = 10,
  options: Histogram2dOptions<AnyTensor | undefined, boolean> = {},
): Readonly<Record<"counts" | "xEdges" | "yEdges", Operand>> {
  const name = "histogram2d";
  checkOptions(name, options, ["range", "density", "weights"]);
  const { range, density = false, weights } = options;
  const own = [ownOperand(x, name), ownOperand(y, name)] as const;
  const ranges = lengthOf(range) === 2 ? listIn(range, (one) => one, 2) : undefined;
  if (range !== undefined && ranges === undefined) {
    throw new ArgumentError(`${name}() needs two ranges as range, got ${describe(range)}`);
  }
  const each = pairOf(name, bins);
  const [counts, xEdges, yEdges] = tidy(() => {
    const [x, edgesX] = binsOf(name, own[0], each[0], ranges?.[0]);
    const [y, edgesY] = binsOf(name, own[1], each[1], ranges?.[1]);
    const inputs = withWeights(name, [...own, ...edgesX, ...edgesY], weights);
    return dispatchAll(HISTOGRAM2D, inputs, { x, y, density, weighted: weights !== undefined });
  });
  return { counts: counts!, xEdges: xEdges!, yEdges: yEdges! };
}
