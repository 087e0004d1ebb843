/**
 * The cases of reductions, index reductions and scans: golden values, layouts and subsets of axes,
 * outputs, empty axes.
 *
 * @module
 */
import { assert, assertThrows } from "@std/assert";
import { DTYPE, type DType, DTYPES } from "../../../src/base/dtype.ts";
import { contiguousCopy } from "../../../src/core/copy.ts";
import { dispatch } from "../../../src/core/dispatch.ts";
import type { Operand } from "../../../src/memory/operand.ts";
import { DTypeError, ShapeError } from "../../../src/base/errors.ts";
import { startOf } from "../../../src/backend/js/interpret.ts";
import { accumulates, takes } from "../../../src/table/infer.ts";
import type { ArgReduceOp, ReduceOp, ScanOp } from "../../../src/table/op.ts";
import { beginCases, referenceOf, runsLayout, type Target, using } from "./backends.ts";
import { storable } from "./casts.ts";
import { CompiledCases } from "./compiled.ts";
import { assertDType, assertSame, assertShape, foldTolerance } from "./compare.ts";
import { attributesOf, decode, golden, goldenEntry } from "./golden.ts";
import {
  guard,
  type Num,
  often,
  place,
  read,
  sample,
  sizeOf,
  spread,
  type View,
} from "./operands.ts";
import type { Count } from "./maps.ts";

/** An op that folds elements. */
export type AxisOp = ReduceOp | ArgReduceOp | ScanOp;

interface FoldLayout {
  readonly name: string;
  readonly shape: readonly number[];
  readonly view: View;
}

/** Every layout that folding loops handle separately; each is folded over all sets of axes. */
export const FOLD_LAYOUTS: readonly FoldLayout[] = [
  { name: "contiguous", shape: [3, 4, 5], view: {} },
  { name: "permuted", shape: [3, 4, 5], view: { order: [2, 0, 1] } },
  { name: "column-major", shape: [4, 3], view: { order: [1, 0] } },
  { name: "sliced, negative step", shape: [3, 2, 5], view: { step: [-2, 1, 3] } },
  { name: "reversed", shape: [4, 5], view: { step: [-1, -1] } },
  { name: "stride 0", shape: [3, 4, 2], view: { stretch: [1] } },
  { name: "rank 5, size-1 axes", shape: [2, 1, 3, 1, 2], view: { order: [4, 1, 0, 3, 2] } },
  { name: "more columns than one block", shape: [3, 300], view: {} },
  { name: "columns of a transposed array", shape: [18, 7], view: { order: [1, 0] } },
  { name: "long, odd size", shape: [1031], view: {} },
  { name: "long, strided", shape: [2, 517], view: { step: [1, -2] } },
  { name: "0-d", shape: [], view: {} },
];

/** Every set of axes, the empty one too. */
function subsets(rank: number): number[][] {
  return Array.from(
    { length: 2 ** rank },
    (_, set) => Array.from({ length: rank }, (_, axis) => axis).filter((axis) => set >> axis & 1),
  );
}

/**
 * The order of elements: the kept axes as rows, the folded ones as columns, both in row-major
 * order.
 */
function fold(shape: readonly number[], axes: readonly number[]): number[][] {
  const strides = shape.map((_, axis) => sizeOf(shape.slice(axis + 1)));
  const all = shape.map((_, axis) => axis);
  const along = (axes: number[], offset: number): number[] =>
    spread(axes.map((axis) => shape[axis]!), axes.map((axis) => strides[axis]!), offset);
  const folded = all.filter((axis) => axes.includes(axis));
  return along(all.filter((axis) => !axes.includes(axis)), 0).map((row) => along(folded, row));
}

/**
 * NaN, infinities and zeros: for each of seven pairs, two rows of 7 and two of 40 elements with the
 * pair among small integers.
 */
const SPECIAL: readonly (readonly Num[])[][] = [
  [NaN, 1],
  [Infinity, NaN],
  [Infinity, 2],
  [-Infinity, 2],
  [Infinity, -Infinity],
  [-0, -0],
  [0, -0],
].map(([a, b]) =>
  [7, 40].map((length) => {
    const line = Array.from({ length }, (_, k) => k === 3 ? a! : k === 5 ? b! : k % 3 - 1);
    return often([...line, ...line.toReversed()]);
  })
);

/** Values of floats to multiply, and to fold otherwise, by the sample that they come from. */
const factors = new WeakMap<readonly Num[], readonly Num[]>();
const addends = new WeakMap<readonly Num[], readonly Num[]>();

/** A result of the reference, and the elements of its input. */
interface Result {
  readonly values: readonly Num[];
  readonly inputs: readonly Num[];
}

interface FoldOptions {
  readonly keepDims?: boolean;
  readonly dtype?: DType;
  readonly includeInitial?: boolean;
}

class FoldCases {
  readonly compiled: CompiledCases;

  constructor(readonly row: AxisOp, readonly target: Target, readonly count: Count) {
    this.compiled = new CompiledCases(row.name, target);
  }

  takes(dtype: DType): boolean {
    return takes(this.row, dtype);
  }

  what(dtype: DType, ...parts: string[]): () => string {
    return () => `${this.row.name} ${dtype}, ${parts.join(", ")} (${this.target.name})`;
  }

  /** The sets of axes over which the op can fold an array of `rank`. */
  axes(rank: number): (number[] | null)[] {
    const single = Array.from({ length: rank }, (_, axis) => [axis]);
    if (this.row.kind === "scan") return single;
    return this.row.kind === "reduce" ? [null, ...subsets(rank)] : [null, ...single];
  }

  compute(
    inputs: readonly Operand[],
    axes: readonly number[] | null,
    options: FoldOptions = {},
    out?: Operand,
  ): Operand {
    const { row } = this;
    if (row.kind !== "reduce") {
      return dispatch(row, inputs.slice(), { axis: axes && axes[0]!, ...options }, out);
    }
    const { name } = inputs[0]!.storage.info;
    const attributes = attributesOf(row, this.takes(name) ? name : "float32");
    return dispatch(row, inputs.slice(), { axis: axes, ...options, ...attributes }, out);
  }

  /** {@link compute}, which becomes a part of a compiled function too. */
  run(
    x: Operand,
    axes: readonly number[] | null,
    second?: Operand,
    { out, ...options }: FoldOptions & { out?: Operand } = {},
  ): Operand {
    const inputs = second === undefined ? [x] : [x, second];
    return this.compiled.run(
      (inputs, out) => this.compute(inputs as Operand[], axes, options, out),
      inputs,
      out,
    );
  }

  /** The result of the reference, from a plain array with the folded elements in its rows. */
  expected(x: Operand, axes: readonly number[] | null, second?: Operand): Result {
    return referenceOf(() => {
      const inputs = read(x);
      return { values: this.reference(x, inputs, axes, second), inputs };
    });
  }

  reference(
    x: Operand,
    values: readonly Num[],
    axes: readonly number[] | null,
    second?: Operand,
  ): Num[] {
    const { shape } = x.layout;
    const lines = fold(shape, axes ?? shape.map((_, axis) => axis));
    const { name } = x.storage.info;
    const width = lines[0]?.length ?? 0;
    const plain = place(
      name,
      [lines.length, width],
      lines.flatMap((at) => at.map((i) => values[i]!)),
    );
    const line = second && place(second.storage.info.name, [lines.length, 1], read(second));
    const inputs = line === undefined ? [plain] : [plain, line];
    const made = read(this.compute(inputs, [1]));
    if (this.row.kind !== "scan") return made;
    const scanned: Num[] = new Array(values.length);
    lines.flat().forEach((to, i) => scanned[to] = made[i]!);
    return scanned;
  }

  shape(x: Operand, axes: readonly number[] | null, keepDims: boolean): number[] {
    const { shape } = x.layout;
    if (this.row.kind === "scan") return [...shape];
    const folded = axes ?? shape.map((_, axis) => axis);
    return shape.flatMap((n, axis) => folded.includes(axis) ? keepDims ? [1] : [] : [n]);
  }

  /** The second operand of ops with two: as wide as composites make it. */
  second(x: Operand, axes: readonly number[] | null, view: View): Operand | undefined {
    if (!("arity" in this.row) || this.row.arity !== 2) return undefined;
    const { name, kind, bytes } = x.storage.info;
    const dtype = kind !== "f" ? "float64" : bytes === 2 ? "float32" : name;
    const shape = this.shape(x, axes, true);
    return place(dtype, shape, sample(dtype, [-2, 2], sizeOf(shape), 5, false), view);
  }

  /** `dtype`, that of the elements, if C folds them. */
  inC(dtype: DType): DType | undefined {
    return this.target.exact ? undefined : dtype;
  }

  same(
    what: () => string,
    made: Operand,
    { values, inputs }: Result,
    from: DType,
    dtype: DType = made.storage.info.name,
  ): void {
    const to = made.storage.info.name;
    const tolerance = foldTolerance(this.row, dtype, inputs, this.inC(from));
    assertSame(what, read(made), values, to, {
      ...tolerance,
      ulp: tolerance.ulp && tolerance.ulp + 1,
    });
  }

  golden(dtype: DType): void {
    const entry = goldenEntry(this.row, dtype);
    for (const { x: name, shape, axis, y, expected, refused } of entry.cases) {
      const axes = typeof axis === "number" ? [axis] : axis;
      const values = decode(dtype, golden(dtype).inputs[name]![0]!);
      const x = place(dtype, shape, values);
      const second = y && place(y.dtype, y.shape, decode(y.dtype, y.data));
      const what = this.what(dtype, "golden", name, `axis ${JSON.stringify(axis)}`);
      if (refused) {
        assertThrows(() => this.run(x, axes, second), ShapeError, undefined, what());
        continue;
      }
      const made = this.run(x, axes, second);
      assertDType(what, made, entry.result);
      const tolerance = foldTolerance(this.row, entry.result, values, this.inC(dtype));
      assertSame(what, read(made), decode(entry.result, expected!), entry.result, tolerance);
    }
    this.count(dtype, "golden");
  }

  layouts(dtype: DType): void {
    for (const { name, shape, view } of FOLD_LAYOUTS) {
      if (!runsLayout(this.row.name, dtype, name, this.target)) continue;
      const x = place(dtype, shape, this.values(dtype, sizeOf(shape)), view);
      this.axes(shape.length).forEach((axes, i) => {
        const keepDims = i % 2 === 1 && this.row.kind !== "scan";
        const what = this.what(dtype, name, `axes ${JSON.stringify(axes)}`);
        // Now dense, now with a stride.
        const second = this.second(x, axes, i % 3 === 0 ? {} : { step: shape.map(() => 2) });
        const made = this.run(x, axes, second, keepDims ? { keepDims } : {});
        assertShape(what, made, this.shape(x, axes, keepDims));
        assertDType(what, made, goldenEntry(this.row, dtype).result);
        this.same(what, made, this.expected(x, axes, second), dtype);
      });
      this.count(dtype, name);
    }
  }

  /** Values without infinities, so that the order of a sum matters little; extremes for integers. */
  values(dtype: DType, n: number): readonly Num[] {
    const { row } = this;
    const integers = DTYPE[dtype].kind !== "f";
    const values = sample(dtype, row.domain, n, 11, integers && row.result !== "float");
    // Products neither vanish nor overflow, and ties and zeros are there for the others.
    if (integers) return values;
    const isProduct = row.expr === "a * x";
    const known = isProduct ? factors : addends;
    let own = known.get(values);
    if (own === undefined) {
      own = values.map((value, i) =>
        isProduct ? i % 2 ? 0.5 + i % 5 / 8 : -1.5 : i % 4 ? value : i % 3 - 1
      );
      known.set(values, often(own));
    }
    return own;
  }

  /** NaN and infinities, alone in their rows. */
  specials(dtype: DType): void {
    if (DTYPE[dtype].kind !== "f") return;
    for (const [i, pair] of SPECIAL.entries()) {
      for (const flat of pair) {
        const width = flat.length / 2;
        for (const view of [{}, { order: [1, 0] }]) {
          const x = place(dtype, [2, width], flat, view);
          for (const axes of this.axes(2)) {
            const second = this.second(x, axes, {});
            const what = this.what(dtype, `special values ${i}`, `axes ${JSON.stringify(axes)}`);
            this.same(what, this.run(x, axes, second), this.expected(x, axes, second), dtype);
          }
        }
      }
    }
    this.count(dtype, "special values");
  }

  empty(dtype: DType): void {
    const { row } = this;
    for (const shape of [[0, 3], [3, 0], [2, 0, 0], [0]]) {
      const x = place(dtype, shape, [], shape.length === 2 ? { order: [1, 0] } : {});
      for (const axes of this.axes(shape.length)) {
        const what = this.what(
          dtype,
          `empty ${JSON.stringify(shape)}`,
          `axes ${JSON.stringify(axes)}`,
        );
        const to = this.shape(x, axes, false);
        const folded = axes ?? shape.map((_, axis) => axis);
        const nothing = folded.some((axis) => shape[axis] === 0) && sizeOf(to) > 0;
        const second = this.second(x, axes, {});
        const refuses = row.kind === "argReduce" ||
          ("nonEmpty" in row && row.nonEmpty === true);
        if (nothing && refuses) {
          assertThrows(() => this.run(x, axes, second), ShapeError, undefined, what());
          continue;
        }
        const made = this.run(x, axes, second);
        assertShape(what, made, to);
        const expected = sizeOf(to) === 0
          ? { values: [], inputs: [] }
          : this.expected(x, axes, second);
        this.same(what, made, expected, dtype);
      }
    }
    this.count(dtype, "empty");
  }

  /** Outputs: views, every dtype, and one that overlaps the input. */
  outputs(dtype: DType): void {
    const shape = [4, 6];
    const x = place(dtype, shape, this.values(dtype, 24), { order: [1, 0] });
    const axes = [1];
    const second = this.second(x, axes, {});
    const to = this.shape(x, axes, false);
    const expected = this.expected(x, axes, second);
    const { result } = goldenEntry(this.row, dtype);
    const plain = place(result, to, expected.values);
    for (const name of DTYPES) {
      if (!runsLayout(this.row.name, dtype, `out of ${name}`, this.target)) continue;
      const what = this.what(dtype, `out of ${name}`);
      const out = place(name, to, sample(name, [0, 2], sizeOf(to), 1), { step: to.map(() => -2) });
      const check = guard(out);
      if (!storable(result, name)) {
        const before = read(out);
        assertThrows(() => this.run(x, axes, second, { out }), DTypeError, undefined, what());
        assertSame(what, read(out), before, name);
      } else {
        assert(this.run(x, axes, second, { out }) === out, what());
        const cast = {
          values: referenceOf(() => read(contiguousCopy(plain, name))),
          inputs: expected.inputs,
        };
        // Another rounding in addition to the op's own.
        const exact = DTYPE[name].kind !== "f" || DTYPE[result].kind !== "f";
        if (exact) assertSame(what, read(out), cast.values, name);
        else {this.same(
            what,
            out,
            cast,
            dtype,
            DTYPE[name].bytes < DTYPE[result].bytes ? name : result,
          );}
      }
      check();
    }
    this.count(dtype, "out of another dtype, strided");
    if (result !== dtype) return;
    const whole = place(dtype, shape, this.values(dtype, 24));
    const scan = this.row.kind === "scan";
    const out = {
      ...whole,
      layout: scan ? whole.layout.flip() : whole.layout.selectAxis(1, 2),
    };
    const other = this.second(whole, axes, {});
    const wanted = this.expected(whole, axes, other);
    this.run(whole, axes, other, { out });
    this.same(this.what(dtype, "overlapping output"), out, wanted, dtype);
    this.count(dtype, "overlapping output");
  }

  /** The option `dtype`, which casts first; ops with float results accept floats. */
  casting(dtype: DType): void {
    if (this.row.kind === "argReduce") return;
    const x = place(dtype, [3, 5], this.values(dtype, 15), { step: [1, 2] });
    for (const to of ["int8", "uint64", "float16", "float64"] as const) {
      const what = this.what(dtype, `dtype ${to}`);
      const second = this.second(place(to, [3, 5], sample(to, [0, 1], 15, 1)), [1], {});
      const given = this.row.result !== "float" || DTYPE[to].kind === "f";
      if (!this.takes(to) || !given) {
        assertThrows(() => this.run(x, [1], second, { dtype: to }), DTypeError, undefined, what());
        continue;
      }
      const made = this.run(x, [1], second, { dtype: to });
      const expected = referenceOf(() => {
        const cast = contiguousCopy(place(dtype, [3, 5], read(x)), to);
        const inputs = second === undefined ? [cast] : [cast, second];
        const plain = this.compute(inputs, [1], { dtype: to });
        return { values: read(plain), inputs: read(cast), dtype: plain.storage.info.name };
      });
      assertDType(what, made, expected.dtype);
      const sums = accumulates(this.row) ? to : goldenEntry(this.row, to).result;
      assertDType(what, made, sums);
      this.same(what, made, expected, to);
    }
    this.count(dtype, "dtype option");
  }

  /** A scan that begins with the start value. */
  initial(dtype: DType): void {
    const { row } = this;
    if (row.kind !== "scan") return;
    const x = place(dtype, [3, 4], this.values(dtype, 12), { order: [1, 0] });
    const made = this.run(x, [1], undefined, { includeInitial: true });
    const { values: without, inputs } = this.expected(x, [1]);
    const start = startOf(row, made.storage.info.name);
    const one = row.result === "same" || typeof start === "bigint" ? start : Number(start);
    const expected = [0, 1, 2].flatMap((i) => [one, ...without.slice(i * 4, i * 4 + 4)]);
    const what = this.what(dtype, "includeInitial");
    assertShape(what, made, [3, 5]);
    this.same(what, made, { values: expected, inputs }, dtype);
    this.count(dtype, "includeInitial");
  }
}

/** Runs every case of `row` for `dtypes` on `target`. */
export function checkFold(
  row: AxisOp,
  target: Target,
  dtypes: readonly DType[],
  count: Count,
): void {
  const cases = new FoldCases(row, target, count);
  using(target.on, () => {
    for (const dtype of dtypes) {
      beginCases(row.name, dtype);
      cases.compiled.begin(dtype);
      if (!cases.takes(dtype)) {
        const x = place(dtype, [2], [1, 0]);
        const what = cases.what(dtype, "is not taken");
        const second = cases.second(x, [0], {});
        assertThrows(() => cases.run(x, [0], second), DTypeError, undefined, what());
      } else {
        cases.golden(dtype);
        cases.layouts(dtype);
        cases.specials(dtype);
        cases.empty(dtype);
        cases.outputs(dtype);
        cases.casting(dtype);
        cases.initial(dtype);
      }
      cases.compiled.check(dtype);
    }
  });
}
