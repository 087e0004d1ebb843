/**
 * Random broadcast pairs and reductions against loops that index element by element.
 *
 * The models use no arithmetic of src/: a tensor is its shape and a function from index to value.
 *
 * @module
 */
import { assertAlmostEquals, assertEquals } from "@std/assert";
import fc from "fast-check";
import { describe, it } from "node:test";
import { type AnyTensor, concat, type DType, tensor, where } from "../../mod.ts";
import { loose } from "../support.ts";

const RUNS = { numRuns: 200 };

/** Every index of a shape, in row-major order. */
function indexes(shape: readonly number[]): number[][] {
  return shape.reduce<number[][]>(
    (found, n) => found.flatMap((index) => Array.from({ length: n }, (_, i) => [...index, i])),
    [[]],
  );
}

/** A tensor of small integers of `shape`, behind a random layout. */
function tensors(shape: readonly number[], dtype: DType): fc.Arbitrary<AnyTensor> {
  const size = shape.reduce((a, b) => a * b, 1);
  return fc.record({
    values: fc.array(fc.integer({ min: 0, max: 9 }), { minLength: size, maxLength: size }),
    layout: fc.array(fc.constantFrom("dense", "reversed", "stepped", "padded"), {
      minLength: shape.length,
      maxLength: shape.length,
    }),
    transposed: fc.boolean(),
  }).map(({ values, layout, transposed }) => {
    const dense = tensor(values, { shape: shape as number[], dtype });
    // The buffer is larger and in another order; the view of it has the shape and the values.
    const sizes = shape.map((n, axis) =>
      layout[axis] === "stepped" ? 2 * n : layout[axis] === "padded" ? n + 2 : n
    );
    const order = transposed ? [...sizes].reverse() : sizes;
    const count = order.reduce((a, b) => a * b, 1);
    const buffer = loose(tensor(new Array(count).fill(3), { shape: order, dtype }));
    const whole = transposed ? buffer.transpose() : buffer;
    if (shape.length === 0) return dense;
    const view = whole.slice(
      ...shape.map((n, axis) =>
        ({ dense: ":", reversed: "::-1", stepped: "::2", padded: `1:${n + 1}` })[layout[axis]!]
      ),
    );
    view.set(["..."], dense);
    return view;
  });
}

const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 4 });

/** A shape that broadcasts to `shape`: some axes 1, some leading ones left out. */
function narrowed(shape: readonly number[]): fc.Arbitrary<number[]> {
  return fc.record({
    ones: fc.array(fc.boolean(), { minLength: shape.length, maxLength: shape.length }),
    drop: fc.integer({ min: 0, max: shape.length }),
    keep: fc.boolean(),
  }).map(({ ones, drop, keep }) => {
    const sizes = shape.map((n, axis) => ones[axis] ? 1 : n);
    return keep ? sizes : sizes.slice(drop);
  });
}

/** The value at `index` of `x` after broadcasting. */
function at(x: AnyTensor, index: readonly number[]): number {
  return Number(x.get(...x.shape.map((n, axis) => n === 1 ? 0 : index.at(axis - x.rank)!)));
}

/** The broadcast shape of two operands, axis by axis from the right. */
function together(a: readonly number[], b: readonly number[]): number[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, axis) => {
    const [m, n] = [a.at(axis - rank) ?? 1, b.at(axis - rank) ?? 1];
    return axis < rank - a.length ? n : axis < rank - b.length ? m : m === 1 ? n : m;
  });
}

function check(
  made: AnyTensor,
  shape: readonly number[],
  value: (index: number[]) => number,
): void {
  assertEquals([...made.shape], [...shape]);
  assertEquals([...made.toTypedArray() as Float64Array].map(Number), indexes(shape).map(value));
}

/** Two operands that broadcast, neither of which need have the result's shape. */
const pairs = fc.tuple(shapes, fc.constantFrom<DType>("float32", "int32", "int64", "float16"))
  .chain(([shape, dtype]) =>
    fc.tuple(narrowed(shape), narrowed(shape)).chain(([p, q]) =>
      fc.tuple(tensors(p, dtype), tensors(q, dtype))
    )
  );

describe("property tests of ops", () => {
  it("property: add, less and where of random broadcast pairs are what loops give", () => {
    fc.assert(
      fc.property(pairs, ([a, b]) => {
        const shape = together(a.shape, b.shape);
        check(a.add(b), shape, (index) => at(a, index) + at(b, index));
        const mask = a.less(b);
        check(mask, shape, (index) => at(a, index) < at(b, index) ? 1 : 0);
        check(where(mask, a, b), shape, (index) => Math.min(at(a, index), at(b, index)));
        check(where(mask, b, 7), shape, (index) => at(mask, index) ? at(b, index) : 7);
      }),
      RUNS,
    );
  });

  it("property: an op in place, or into an output, is the op followed by a copy", () => {
    fc.assert(
      fc.property(pairs, ([a, b]) => {
        const shape = together(a.shape, b.shape);
        const expected = a.mul(b);
        const out = loose(a.add(b)).flip().toOwned().flip();
        a.mul(b, { out });
        assertEquals(out.toArray(), loose(expected).toArray());
        if (String(shape) !== String(a.shape)) return;
        loose(a).mul_(b);
        assertEquals(loose(a).toArray(), loose(expected).toArray());
      }),
      RUNS,
    );
  });

  it("property: reductions over random axes are what loops give", () => {
    const cases = shapes.chain((shape) =>
      fc.record({
        x: tensors(shape, "float64"),
        axes: fc.subarray(shape.map((_, axis) => axis)),
        negative: fc.boolean(),
        keepDims: fc.boolean(),
      })
    );
    fc.assert(
      fc.property(cases, ({ x, axes, negative, keepDims }) => {
        const { shape } = x;
        const kept = shape.map((n, axis) => axes.includes(axis) ? 1 : n);
        const result = keepDims ? kept : shape.filter((_, axis) => !axes.includes(axis));
        const groups = new Map(indexes(kept).map((index) => [String(index), [] as number[]]));
        for (const index of indexes(shape)) {
          const key = index.map((i, axis) => axes.includes(axis) ? 0 : i);
          groups.get(String(key))!.push(Number(x.get(...index)));
        }
        const given = negative ? axes.map((axis) => axis - shape.length) : axes;
        const models: Record<string, (values: number[]) => number> = {
          sum: (values) => values.reduce((a, b) => a + b, 0),
          prod: (values) => values.reduce((a, b) => a * b, 1),
          max: (values) => Math.max(...values),
          min: (values) => Math.min(...values),
          any: (values) => values.some((value) => value !== 0) ? 1 : 0,
          all: (values) => values.every((value) => value !== 0) ? 1 : 0,
          countNonzero: (values) => values.filter((value) => value !== 0).length,
          mean: (values) => values.reduce((a, b) => a + b, 0) / values.length,
          var: (values) => {
            const mean = values.reduce((a, b) => a + b, 0) / values.length;
            return values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length;
          },
        };
        for (const [name, model] of Object.entries(models)) {
          const empty = [...groups.values()].some((values) => values.length === 0);
          if (empty && (name === "max" || name === "min")) continue;
          const made = loose(x)[name](given, { keepDims });
          assertEquals([...made.shape], result, name);
          const values = [...made.toTypedArray()].map(Number);
          assertEquals(values.length, groups.size);
          [...groups.values()].forEach((group, i) => {
            const expected = model(group);
            if (Number.isNaN(expected)) assertEquals(values[i], expected, name);
            else assertAlmostEquals(values[i]!, expected, 1e-9 * (1 + Math.abs(expected)), name);
          });
        }
      }),
      RUNS,
    );
  });

  it("property: argmax, argmin, running sums and sorting along an axis are what loops give", () => {
    const cases = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 })
      .chain((shape) =>
        fc.tuple(tensors(shape, "int32"), fc.integer({ min: 0, max: shape.length - 1 }))
      );
    fc.assert(
      fc.property(cases, ([x, axis]) => {
        const { shape } = x;
        const line = (index: number[]): number[] =>
          Array.from({ length: shape[axis]! }, (_, i) => Number(x.get(...index.with(axis, i))));
        const dropped = shape.map((n, i) => i === axis ? 1 : n);
        const first = (index: number[], best: (...values: number[]) => number) =>
          line(index).indexOf(best(...line(index)));
        const keep = { keepDims: true };
        const y = loose(x);
        check(y.argmax(axis, keep), dropped, (index) => first(index, Math.max));
        check(y.argmin(axis, keep), dropped, (index) => first(index, Math.min));
        check(
          y.cumulativeSum(axis),
          shape,
          (index) => line(index).slice(0, index[axis]! + 1).reduce((a, b) => a + b, 0),
        );
        const sorted = (index: number[]) => line(index).sort((a, b) => a - b);
        check(y.sort(axis), shape, (index) => sorted(index)[index[axis]!]!);
        check(
          y.takeAlongAxis(y.argsort(axis), axis),
          shape,
          (index) => sorted(index)[index[axis]!]!,
        );
        check(
          concat([y, y], axis),
          shape.with(axis, 2 * shape[axis]!),
          (index) => at(x, index.with(axis, index[axis]! % shape[axis]!)),
        );
      }),
      RUNS,
    );
  });

  it("property: matmul of random batches is what three loops give", () => {
    const cases = fc.record({
      m: fc.integer({ min: 1, max: 5 }),
      k: fc.integer({ min: 0, max: 5 }),
      n: fc.integer({ min: 1, max: 5 }),
      batch: fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 2 }),
      dtype: fc.constantFrom<DType>("float32", "int32", "float64"),
    }).chain(({ m, k, n, batch, dtype }) =>
      fc.tuple(narrowed(batch), narrowed(batch)).chain(([p, q]) =>
        fc.tuple(tensors([...p, m, k], dtype), tensors([...q, k, n], dtype))
      )
    );
    fc.assert(
      fc.property(cases, ([a, b]) => {
        const [m, k, n] = [a.shape.at(-2)!, a.shape.at(-1)!, b.shape.at(-1)!];
        const batch = together(a.shape.slice(0, -2), b.shape.slice(0, -2));
        const element = (x: AnyTensor, index: number[], i: number, j: number): number => {
          const outer = x.shape.slice(0, -2);
          const place = outer.map((size, axis) =>
            size === 1 ? 0 : index[index.length - outer.length + axis]!
          );
          return Number(x.get(...place, i, j));
        };
        check(loose(a).matmul(b), [...batch, m, n], (index) => {
          let sum = 0;
          const [i, j] = [index.at(-2)!, index.at(-1)!];
          const outer = index.slice(0, -2);
          for (let l = 0; l < k; l++) sum += element(a, outer, i, l) * element(b, outer, l, j);
          return sum;
        });
      }),
      RUNS,
    );
  });
});

/** The source index of element `i` of an axis of `n` elements after `pad`. */
function paddedFrom(i: number, n: number, mode: string): number {
  if (mode === "edge" || n === 1) return Math.min(n - 1, Math.max(0, i));
  if (mode === "wrap") return ((i % n) + n) % n;
  let at = i;
  while (at < 0 || at >= n) at = at < 0 ? -at : 2 * (n - 1) - at;
  return at;
}

describe("pad", () => {
  it("puts edges, mirror images and copies of any width around any axis", () => {
    const width = fc.integer({ min: 0, max: 13 });
    const axes = fc.array(fc.tuple(fc.integer({ min: 1, max: 5 }), width, width), {
      minLength: 1,
      maxLength: 3,
    });
    const cases = axes.chain((sizes) =>
      fc.record({
        x: tensors(sizes.map(([n]) => n), "int32"),
        widths: fc.constant(sizes.map(([, before, after]) => [before, after] as const)),
        mode: fc.constantFrom("edge" as const, "reflect" as const, "wrap" as const),
      })
    );
    fc.assert(
      fc.property(cases, ({ x, widths, mode }) => {
        const padded = loose(x).pad(widths, { mode });
        const shape = x.shape.map((n, axis) => widths[axis]![0] + n + widths[axis]![1]);
        assertEquals([...padded.shape], shape);
        for (const index of indexes(shape)) {
          const from = index.map((i, axis) =>
            paddedFrom(i - widths[axis]![0], x.shape[axis]!, mode)
          );
          assertEquals(padded.get(...index), loose(x).get(...from));
        }
      }),
      { numRuns: 100 },
    );
  });
});
