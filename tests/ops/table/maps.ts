/**
 * The cases of an elementwise op: golden values, layouts, mixed dtypes, scalars, outputs, overlap.
 *
 * @module
 */
import { assertThrows } from "@std/assert";
import { DTYPE, type DType, DTYPES, promoteTypes, type Scalar } from "../../../src/base/dtype.ts";
import { contiguousCopy } from "../../../src/core/copy.ts";
import { apply, type OpOptions } from "../../../src/core/apply.ts";
import type { Operand } from "../../../src/memory/operand.ts";
import { attempt, DTypeError } from "../../../src/base/errors.ts";
import { Layout } from "../../../src/base/layout.ts";
import { takes } from "../../../src/table/infer.ts";
import type { MapOp } from "../../../src/table/op.ts";
import { beginCases, referenceOf, runsLayout, type Target, using } from "./backends.ts";
import { storable } from "./casts.ts";
import { type Args, CompiledCases } from "./compiled.ts";
import {
  assertDType,
  assertSame,
  assertShape,
  EXACT,
  mapUlp,
  show,
  spacing,
  type Tolerance,
} from "./compare.ts";
import { attributesOf, decode, golden, goldenEntry } from "./golden.ts";
import { guard, type Num, operand, place, read, sample, sizeOf, type View } from "./operands.ts";

/** Operand k has shape and view number k, modulo their number. */
interface MapLayout {
  readonly name: string;
  readonly shapes: readonly (readonly number[])[];
  readonly views: readonly View[];
}

const TRANSPOSED: View = { order: [1, 0] };

/** Every layout that elementwise loops handle separately. */
export const MAP_LAYOUTS: readonly MapLayout[] = [
  { name: "contiguous", shapes: [[3, 5]], views: [{}] },
  { name: "long, odd size", shapes: [[259]], views: [{}] },
  { name: "transposed", shapes: [[5, 3]], views: [TRANSPOSED] },
  { name: "contiguous and transposed", shapes: [[5, 4]], views: [{}, TRANSPOSED] },
  { name: "sliced", shapes: [[4, 6]], views: [{ step: [1, 2] }] },
  { name: "sliced and contiguous", shapes: [[4, 6]], views: [{ step: [2, 1] }, {}] },
  { name: "negative step", shapes: [[4, 5]], views: [{ step: [-1, -1] }] },
  { name: "one negative step", shapes: [[4, 5]], views: [{ step: [1, -2] }, {}] },
  { name: "opposite steps", shapes: [[7]], views: [{ step: [-1] }, { step: [1] }] },
  { name: "stride 0", shapes: [[4, 5]], views: [{ stretch: [0] }, { stretch: [1] }] },
  { name: "stride 0 everywhere", shapes: [[3, 4]], views: [{ stretch: [0, 1] }] },
  { name: "broadcast rows", shapes: [[4, 7], [7]], views: [{}] },
  { name: "broadcast columns", shapes: [[4, 1], [1, 7]], views: [{ step: [2, 1] }, {}] },
  { name: "broadcast over more axes", shapes: [[5], [3, 2, 1]], views: [{ step: [-1] }, {}] },
  { name: "0-d and 1-d", shapes: [[], [6]], views: [{}] },
  { name: "0-d", shapes: [[]], views: [{}] },
  { name: "empty", shapes: [[2, 0, 3], [1, 3]], views: [{}] },
  { name: "empty, transposed", shapes: [[0, 3]], views: [TRANSPOSED] },
  { name: "column-major", shapes: [[3, 4, 5]], views: [{ order: [2, 1, 0] }] },
  { name: "column-major and row-major", shapes: [[3, 2, 5]], views: [{ order: [2, 1, 0] }, {}] },
  { name: "permuted", shapes: [[3, 2, 5]], views: [{ order: [1, 2, 0] }, { order: [2, 0, 1] }] },
  { name: "size-1 axes", shapes: [[1, 4, 1, 3]], views: [{ order: [3, 0, 2, 1] }, {}] },
  {
    name: "rank 5",
    shapes: [[2, 3, 1, 2, 3]],
    views: [{ order: [4, 0, 3, 1, 2] }, { step: [1, -1, 1, 2, 1] }],
  },
  { name: "tiles", shapes: [[33, 18]], views: [{}, TRANSPOSED] },
  { name: "tiles, first operand", shapes: [[17, 37]], views: [TRANSPOSED, {}] },
  { name: "tiles, rank 3", shapes: [[2, 17, 19]], views: [{ order: [2, 0, 1] }, {}] },
  { name: "column", shapes: [[9]], views: [{ step: [4] }] },
  { name: "short inner axis", shapes: [[41, 3]], views: [{}, { step: [2, 1] }] },
];

/** Ops that accept any number next to integers, on the right. */
const COMPARISONS: ReadonlySet<string> = new Set([
  "equal",
  "notEqual",
  "less",
  "lessEqual",
  "greater",
  "greaterEqual",
]);

/** Called for every case that ran. */
export type Count = (dtype: DType, layout: string) => void;

class MapCases {
  readonly compiled: CompiledCases;

  constructor(readonly row: MapOp, readonly target: Target, readonly count: Count) {
    this.compiled = new CompiledCases(row.name, target);
  }

  /** Whether operand `k` is the condition of `where`. */
  condition(k: number): boolean {
    return this.row.condition === true && k === 0;
  }

  takes(dtype: DType): boolean {
    return takes(this.row, dtype);
  }

  result(dtype: DType): DType {
    return this.takes(dtype) ? goldenEntry(this.row, dtype).result : dtype;
  }

  what(dtype: DType, ...parts: string[]): () => string {
    return () => `${this.row.name} ${dtype}, ${parts.join(", ")} (${this.target.name})`;
  }

  compute(dtype: DType, args: Args, options?: OpOptions): Operand {
    const attributes = attributesOf(this.row, this.takes(dtype) ? dtype : "float32");
    return apply(this.row, args[0]!, args[1], args[2], options, undefined, attributes);
  }

  /** {@link compute}, which becomes a part of a compiled function too. */
  run(dtype: DType, args: Args, options?: OpOptions): Operand {
    const call = (args: Args, out?: Operand): Operand => this.compute(dtype, args, out && { out });
    return this.compiled.run(call, args, options?.out as Operand | undefined);
  }

  /** Between two casts, so that programs fuse the op: a result and its operand are not in memory. */
  fused(dtype: DType, [x, ...others]: readonly Operand[]): void {
    if (this.target.compiled?.fused !== true || !this.compiled.keeps) return;
    const call = ([x, ...others]: Args): Operand => {
      const operands = [contiguousCopy(x as Operand), ...others];
      return contiguousCopy(this.compute(dtype, operands), "float64");
    };
    this.compiled.run(call, [x!, ...others]);
  }

  /** The result of the reference for `args`, all of `dtype` and expanded to `shape`. */
  expected(dtype: DType, args: readonly Operand[], shape: readonly number[]): Result {
    const n = sizeOf(shape);
    return referenceOf(() => {
      const plain = args.map((x, k) => {
        const list = place(x.storage.info.name, [n], read(x, shape));
        return this.condition(k) ? list : cast(list, dtype);
      });
      return resultOf(this.compute(dtype, plain));
    });
  }

  /** Against the exact result; with `more`, against one that is itself off by `more` units. */
  tolerance(dtype: DType, more = 0): Tolerance {
    const { result, cancels, eitherZero } = goldenEntry(this.row, dtype);
    const ulp = mapUlp(this.row, result, !this.target.exact);
    if (ulp === 0) return { ulp, eitherZero };
    const slack = cancels ? (ulp + more) * spacing(this.row.domain[1], result) : 0;
    return { ulp: ulp + more, slack, eitherZero };
  }

  nearReference(dtype: DType): Tolerance {
    return this.target.exact ? EXACT : this.tolerance(dtype, 1);
  }

  /**
   * The dtype whose units measure errors of results in `to`: the compute dtype, if that is
   * narrower.
   */
  unit(dtype: DType, to: DType): DType {
    const computed = this.result(dtype);
    const wider = DTYPE[computed].kind === "f" && DTYPE[computed].bytes < DTYPE[to].bytes;
    return wider && DTYPE[to].kind === "f" ? computed : to;
  }

  same(what: () => string, actual: Operand, expected: Result, dtype: DType): void {
    const to = expected.dtype;
    assertDType(what, actual, to);
    assertSame(
      what,
      read(actual),
      expected.values,
      this.unit(dtype, to),
      this.nearReference(dtype),
    );
  }

  operands(
    dtype: DType,
    shapes: MapLayout["shapes"],
    views: readonly View[],
    dtypes: readonly DType[] = [dtype],
  ): Operand[] {
    return Array.from({ length: this.row.arity }, (_, k) => {
      const shape = shapes[k % shapes.length]!;
      const own = this.condition(k) ? "bool" : dtypes[k % dtypes.length]!;
      const values = sample(own, this.row.domain, sizeOf(shape), k * 31 + 7);
      return place(own, shape, values, views[k % views.length]);
    });
  }

  golden(dtype: DType): void {
    const { row } = this;
    const entry = goldenEntry(row, dtype);
    const columns = golden(dtype).inputs[entry.inputs]!.map((text, k) => {
      const own = this.condition(k) ? "bool" : dtype;
      const values = decode(own, text);
      return place(own, [values.length], values);
    });
    const made = this.run(dtype, columns);
    const what = this.what(dtype, "golden");
    assertDType(what, made, entry.result);
    const of = (i: number): string =>
      `${what()} of ${columns.map((x) => show(read(x)[i] ?? NaN)).join(", ")}`;
    const expected = decode(entry.result, entry.expected);
    assertSame(of, read(made), expected, entry.result, this.tolerance(dtype));
    this.count(dtype, "golden");
  }

  layouts(dtype: DType): void {
    for (const { name, shapes, views } of MAP_LAYOUTS) {
      if (!runsLayout(this.row.name, dtype, name, this.target)) continue;
      const args = this.operands(dtype, shapes, views);
      const made = this.run(dtype, args);
      const shape = broadcast(args.map((x) => x.layout.shape));
      assertShape(this.what(dtype, name), made, shape);
      this.same(this.what(dtype, name), made, this.expected(dtype, args, shape), dtype);
      this.fused(dtype, args);
      this.count(dtype, name);
    }
  }

  /** Operands that are two views of the same elements. */
  views(dtype: DType): void {
    const at = this.row.condition ? 1 : 0;
    if (this.row.arity - at < 2) return;
    const args = this.operands(dtype, [[5, 5]], [{}]);
    const { storage, layout } = args[at]!;
    args[at + 1] = operand(storage, layout.transpose());
    const made = this.run(dtype, args);
    this.same(this.what(dtype, "views"), made, this.expected(dtype, args, [5, 5]), dtype);
    this.count(dtype, "views");
    if (this.target.compiled?.fused !== true || !this.compiled.keeps) return;
    // Both are inputs of one chain.
    this.compiled.run((args) => contiguousCopy(this.compute(dtype, args), "float64"), args);
  }

  /** Every other dtype next to this one: promoted, or an error. */
  mixed(dtype: DType): void {
    const first = this.row.condition ? 1 : 0;
    if (this.row.arity - first < 2) return;
    for (const other of DTYPES) {
      if (!runsLayout(this.row.name, dtype, `with ${other}`, this.target)) continue;
      const what = this.what(dtype, `with ${other}`);
      const dtypes = this.row.condition ? ["bool", dtype, other] : [dtype, other];
      const args = this.operands(dtype, [[2, 3]], [{}, TRANSPOSED], dtypes as DType[]);
      const to = attempt(() => promoteTypes(dtype, other)).value;
      if (to === undefined || !this.takes(to)) {
        assertThrows(() => this.run(dtype, args), DTypeError, undefined, what());
      } else {
        this.same(what, this.run(to, args), this.expected(to, args, [2, 3]), to);
      }
    }
    this.count(dtype, "mixed dtypes");
  }

  /** JavaScript numbers, bigints and booleans next to a tensor, on either side. */
  scalars(dtype: DType): void {
    if (this.row.arity !== 2) return;
    for (const scalar of [2, 3n, true, 1.5, -1]) {
      const to = this.weak(dtype, scalar);
      for (const side of [0, 1]) {
        const what = this.what(dtype, `scalar ${String(scalar)} as operand ${side}`);
        const [x] = this.operands(dtype, [[5]], [{ step: [2] }]) as [Operand];
        const args = side === 0 ? [scalar, x] : [x, scalar];
        if (to === undefined && side === 1 && COMPARISONS.has(this.row.name)) {
          // Integers are compared with every number.
          const exact = this.expected("float64", [x, place("float64", [1], [scalar])], [5]);
          this.same(what, this.run(dtype, args), exact, dtype);
          continue;
        }
        if (to === undefined || !this.takes(to)) {
          assertThrows(() => this.run(dtype, args), DTypeError, undefined, what());
          continue;
        }
        const full = place(to, [1], [scalar]);
        const spelled = side === 0 ? [full, x] : [x, full];
        this.same(what, this.run(to, args), this.expected(to, spelled, [5]), to);
      }
    }
    this.count(dtype, "scalars");
  }

  /** The dtype of a tensor of `dtype` with a scalar; undefined if they do not promote. */
  weak(dtype: DType, scalar: Scalar): DType | undefined {
    const { kind } = DTYPE[dtype];
    if (kind === "f") return dtype;
    if (this.row.result === "float") return "float32";
    if (typeof scalar === "boolean") return dtype;
    if (kind === "b") return typeof scalar === "bigint" ? "int64" : "float32";
    return scalar === 1.5 || (scalar === -1 && kind === "u") ? undefined : dtype;
  }

  /** Outputs that are views, and outputs of every dtype. */
  outputs(dtype: DType): void {
    const shape = [4, 3];
    const args = this.operands(dtype, [shape], [{}, TRANSPOSED]);
    const expected = this.expected(dtype, args, shape);
    const result = this.result(dtype);
    const views: Record<string, View> = {
      sliced: { step: [2, 3] },
      transposed: TRANSPOSED,
      reversed: { step: [-1, -2] },
    };
    const blank = sample("uint8", [0, 1], 12, 3, false);
    for (const [name, view] of Object.entries(views)) {
      const out = place(result, shape, blank, view);
      const what = this.what(dtype, `out ${name}`);
      this.into(what, dtype, args, out, expected);
      this.count(dtype, "out as a view");
    }
    for (const to of DTYPES) {
      if (!runsLayout(this.row.name, dtype, `out of ${to}`, this.target)) continue;
      const out = place(to, shape, blank, to === "int8" ? { step: [1, 2] } : {});
      const what = this.what(dtype, `out of ${to}`);
      if (!storable(result, to)) {
        assertThrows(() => this.run(dtype, args, { out }), DTypeError, undefined, what());
        assertSame(what, read(out), read(place(to, shape, blank)), to);
      } else {this.into(
          what,
          dtype,
          args,
          out,
          referenceOf(() => resultOf(cast(expected.operand, to))),
        );}
    }
    this.count(dtype, "out of another dtype");
  }

  /** Outputs that share their memory with an operand. */
  overlapping(dtype: DType): void {
    const result = this.result(dtype);
    if (result !== dtype) return;
    const n = 5;
    const at = this.row.condition ? 1 : 0;
    const values = sample(dtype, this.row.domain, n * n + n, 77);
    const view = (strides: number[], shape: number[], offset = 0): Layout =>
      new Layout(shape, strides, offset);
    const square = view([n, 1], [n, n]);
    const pairs: Record<string, [out: Layout, x: Layout]> = {
      "in place": [square, square],
      "in place, reversed": [view([-1], [12], 11), view([-1], [12], 11)],
      "its own transpose": [square, view([1, n], [n, n])],
      "shifted down": [view([1], [12], 1), view([1], [12])],
      "shifted up": [view([1], [12]), view([1], [12], 1)],
      "its own reverse": [view([1], [12]), view([-1], [12], 11)],
      "its first row": [square, view([0, 1], [n, n])],
    };
    for (const [name, [target, source]] of Object.entries(pairs)) {
      const out = operand(place(dtype, [n * n + n], values).storage, target);
      // The output is also the last operand, where there are several.
      const args = this.operands(dtype, [target.shape], [{}]);
      args[args.length - 1] = operand(out.storage, target);
      args[at] = operand(out.storage, source);
      const what = this.what(dtype, `overlap: ${name}`);
      this.into(what, dtype, args, out, this.expected(dtype, args, target.shape));
      this.count(dtype, "overlapping");
    }
  }

  /** Runs into `out`, and checks its contents and its surroundings. */
  into(
    what: () => string,
    dtype: DType,
    args: readonly Operand[],
    out: Operand,
    expected: Result,
  ): void {
    const check = guard(out);
    const made = this.run(dtype, args, { out });
    if (made !== out) throw new Error(`${what()}: does not give the output`);
    const unit = this.unit(dtype, out.storage.info.name);
    assertSame(what, read(out), expected.values, unit, this.nearReference(dtype));
    try {
      check();
    } catch (error) {
      throw new Error(`${what()}: ${(error as Error).message}`);
    }
  }
}

/** Runs every case of `row` for `dtypes` on `target`. */
export function checkMap(
  row: MapOp,
  target: Target,
  dtypes: readonly DType[],
  count: Count,
): void {
  const cases = new MapCases(row, target, count);
  using(target.on, () => {
    for (const dtype of dtypes) {
      beginCases(row.name, dtype);
      cases.compiled.begin(dtype);
      cases.mixed(dtype);
      cases.scalars(dtype);
      if (!cases.takes(dtype)) {
        const args = cases.operands(dtype, [[2]], [{}]);
        const what = cases.what(dtype, "is not taken");
        assertThrows(() => cases.run(dtype, args), DTypeError, undefined, what());
      } else {
        cases.golden(dtype);
        cases.layouts(dtype);
        cases.views(dtype);
        cases.outputs(dtype);
        cases.overlapping(dtype);
      }
      cases.compiled.check(dtype);
    }
  });
}

/** A result of the reference, and what later targets compare after its disposal. */
interface Result {
  readonly operand: Operand;
  readonly dtype: DType;
  readonly values: readonly Num[];
}

function resultOf(operand: Operand): Result {
  return { operand, dtype: operand.storage.info.name, values: read(operand) };
}

function cast(x: Operand, dtype: DType): Operand {
  return x.storage.info.name === dtype ? x : contiguousCopy(x, dtype);
}

/** The broadcast shape of `shapes`, which fit. */
function broadcast(shapes: readonly (readonly number[])[]): number[] {
  const rank = Math.max(...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    const sizes = shapes.map((shape) => shape[axis - rank + shape.length] ?? 1);
    return sizes.find((size) => size !== 1) ?? 1;
  });
}
