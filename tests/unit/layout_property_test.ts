/**
 * Layouts and slices against slow models that index element by element.
 *
 * The models share no arithmetic with src/: Python's slice iterates over indexes, and a view is a
 * nested table of buffer positions.
 *
 * @module
 */
import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { Layout } from "../../src/base/layout.ts";
import { broadcastShapes, sizeOf } from "../../src/base/shape.ts";
import {
  type BasicIndex,
  range,
  rangeInclusive,
  Slice,
  sliceAxisBy,
  sliceBasic,
} from "../../src/base/slice.ts";

/** The indexes that Python's `range(size)[start:stop:step]` gives, by iteration. */
function pythonSlice(
  size: number,
  start: number | null,
  stop: number | null,
  step: number,
): number[] {
  const resolve = (bound: number): number => bound < 0 ? bound + size : bound;
  const up = step > 0;
  let at = start === null ? (up ? 0 : size - 1) : resolve(start);
  at = up ? Math.max(at, 0) : Math.min(at, size - 1);
  const end = stop === null ? (up ? Infinity : -Infinity) : resolve(stop);
  const taken: number[] = [];
  for (; up ? at < end && at < size : at > end && at >= 0; at += step) taken.push(at);
  return taken;
}

/** The indexes of a range object: resolve, step towards the other bound, keep those in the axis. */
function walkRange(size: number, a: number, b: number, inclusive: boolean): number[] {
  const from = a < 0 ? a + size : a;
  const to = b < 0 ? b + size : b;
  const direction = from > to ? -1 : 1;
  const taken: number[] = [];
  for (let at = from; at !== to; at += direction) taken.push(at);
  if (inclusive) taken.push(to);
  return taken.filter((at) => at >= 0 && at < size);
}

const bound = fc.integer({ min: -14, max: 14 });
const open = fc.option(bound, { freq: 4 });
const step = fc.integer({ min: -5, max: 5 }).filter((k) => k !== 0);
const axisSize = fc.integer({ min: 0, max: 9 });

/** The buffer positions along a rank-1 layout. */
function positions(layout: Layout): number[] {
  return table(layout).values;
}

/** A view as a table: its shape, and its elements in row-major order. */
interface Table {
  shape: number[];
  values: number[];
}

function indexes(shape: readonly number[]): number[][] {
  let all: number[][] = [[]];
  for (const n of shape) {
    all = all.flatMap((index) => Array.from({ length: n }, (_, i) => [...index, i]));
  }
  return all;
}

function table(layout: Layout): Table {
  const shape = [...layout.shape];
  return { shape, values: indexes(shape).map((index) => layout.flatIndex("get", index)) };
}

/** The table of `shape` whose element at an index is that of `source` at `where(index)`. */
function gather(source: Table, shape: number[], where: (index: number[]) => number[]): Table {
  const places = new Map(indexes(source.shape).map((index, i) => [index.join(), source.values[i]]));
  return {
    shape,
    values: indexes(shape).map((index) => {
      const value = places.get(where(index).join());
      assert(value !== undefined, "the model stays inside its source");
      return value;
    }),
  };
}

/** A layout and its model; every step of a chain changes both. */
type State = [layout: Layout, model: Table];

/** Takes numbers from an endless list, each below `limit`. */
class Choices {
  #numbers: number[];
  #next = 0;
  constructor(numbers: number[]) {
    this.#numbers = numbers;
  }
  below(limit: number): number {
    return this.#numbers[this.#next++ % this.#numbers.length] % limit;
  }
}

/** A random factorization of `size`, with occasional factors of 1. */
function factors(size: number, pick: Choices): number[] {
  const shape = size === 0 ? [0] : [];
  let left = size === 0 ? pick.below(4) + 1 : size;
  for (let p = 2; left > 1; p++) {
    for (; left % p === 0; left /= p) {
      if (shape.length > 0 && pick.below(2) === 0) shape[shape.length - 1] *= p;
      else shape.splice(pick.below(shape.length + 1), 0, p);
    }
  }
  if (pick.below(3) === 0) shape.splice(pick.below(shape.length + 1), 0, 1);
  return shape;
}

const VIEWS: Record<string, (state: State, pick: Choices) => State> = {
  permute([layout, model], pick) {
    const axes = model.shape.map((_, i) => i);
    const order = model.shape.map(() => axes.splice(pick.below(axes.length), 1)[0]);
    const shape = order.map((axis) => model.shape[axis]);
    return [
      layout.permute(order),
      gather(model, shape, (index) => model.shape.map((_, axis) => index[order.indexOf(axis)])),
    ];
  },
  transpose([layout, model]) {
    return [
      layout.transpose(),
      gather(model, [...model.shape].reverse(), (index) => [...index].reverse()),
    ];
  },
  swapAxes([layout, model], pick) {
    const rank = model.shape.length;
    if (rank === 0) return [layout, model];
    const [a, b] = [pick.below(rank), pick.below(rank)];
    const swap = (list: number[]): number[] =>
      list.map((v, i) => i === a ? list[b] : i === b ? list[a] : v);
    return [layout.swapAxes(a - rank, b), gather(model, swap(model.shape), swap)];
  },
  moveAxis([layout, model], pick) {
    const rank = model.shape.length;
    if (rank === 0) return [layout, model];
    const [from, to] = [pick.below(rank), pick.below(rank)];
    const move = (list: number[], a: number, b: number): number[] => {
      const rest = list.filter((_, i) => i !== a);
      return [...rest.slice(0, b), list[a], ...rest.slice(b)];
    };
    return [
      layout.moveAxis(from, to - rank),
      gather(model, move(model.shape, from, to), (index) => move(index, to, from)),
    ];
  },
  slice([layout, model], pick) {
    const rank = model.shape.length;
    if (rank === 0) return [layout, model];
    const axis = pick.below(rank);
    const size = model.shape[axis];
    const low = () => pick.below(4) === 0 ? null : pick.below(2 * size + 3) - size - 1;
    const [start, stop, by] = [low(), low(), [1, -1, 2, -2, 3][pick.below(5)]];
    const taken = pythonSlice(size, start, stop, by);
    const whole: BasicIndex[] = model.shape.map(() => Slice.full());
    whole[axis] = new Slice(start, stop, by);
    return [
      sliceBasic(layout, whole.slice(0, axis + 1)),
      gather(model, model.shape.with(axis, taken.length), (i) => i.with(axis, taken[i[axis]])),
    ];
  },
  select([layout, model], pick) {
    const axis = model.shape.findLastIndex((n) => n > 1);
    if (axis < 0 || model.shape.length < 3) return [layout, model];
    const at = pick.below(model.shape[axis]);
    return [
      sliceAxisBy(layout, axis, at - (pick.below(2) === 0 ? model.shape[axis] : 0)),
      gather(model, model.shape.toSpliced(axis, 1), (index) => index.toSpliced(axis, 0, at)),
    ];
  },
  flip([layout, model], pick) {
    const flipped = model.shape.map(() => pick.below(2) === 0);
    const axes = flipped.flatMap((yes, axis) => yes ? [axis] : []);
    return [
      layout.flip(axes),
      gather(
        model,
        model.shape,
        (index) => index.map((v, axis) => flipped[axis] ? model.shape[axis] - 1 - v : v),
      ),
    ];
  },
  expandDims([layout, model], pick) {
    if (model.shape.length > 5) return [layout, model];
    const axis = pick.below(model.shape.length + 1);
    return [
      layout.expandDims(axis),
      gather(model, model.shape.toSpliced(axis, 0, 1), (index) => index.toSpliced(axis, 1)),
    ];
  },
  squeeze([layout, model]) {
    const kept = model.shape.flatMap((n, axis) => n === 1 ? [] : [axis]);
    return [
      layout.squeeze(),
      gather(
        model,
        kept.map((axis) => model.shape[axis]),
        (index) =>
          model.shape.map((_, axis) => kept.includes(axis) ? index[kept.indexOf(axis)] : 0),
      ),
    ];
  },
  broadcast([layout, model], pick) {
    if (model.values.length > 60) return [layout, model];
    const grown = model.shape.map((n) => n === 1 ? pick.below(4) : n);
    const shape = pick.below(2) === 0 ? grown : [pick.below(3) + 1, ...grown];
    const added = shape.length - grown.length;
    return [
      layout.broadcastTo(shape),
      gather(
        model,
        shape,
        (index) => index.slice(added).map((v, axis) => model.shape[axis] === 1 ? 0 : v),
      ),
    ];
  },
  diagonal([layout, model], pick) {
    const rank = model.shape.length;
    if (rank < 3) return [layout, model];
    const a = pick.below(rank);
    const b = (a + 1 + pick.below(rank - 1)) % rank;
    const offset = pick.below(5) - 2;
    const [down, right] = [Math.max(-offset, 0), Math.max(offset, 0)];
    let length = 0;
    while (length + down < model.shape[a] && length + right < model.shape[b]) length++;
    const rest = model.shape.flatMap((_, axis) => axis === a || axis === b ? [] : [axis]);
    return [
      layout.diagonal(offset, a, b),
      gather(
        model,
        [...rest.map((axis) => model.shape[axis]), length],
        (index) =>
          model.shape.map((_, axis) =>
            axis === a
              ? index[rest.length] + down
              : axis === b
              ? index[rest.length] + right
              : index[rest.indexOf(axis)]
          ),
      ),
    ];
  },
  reshape([layout, model], pick) {
    const shape = factors(model.values.length, pick);
    const view = layout.reshape(shape);
    const exists = viewExists(shape, model.values);
    assertEquals(view !== null, exists, `a view of ${layout.shape} as ${shape} exists: ${exists}`);
    return view === null ? [layout, model] : [view, { shape, values: model.values }];
  },
};

/**
 * True if some strides give `values` in `shape`: the first step along each axis determines them.
 */
function viewExists(shape: number[], values: number[]): boolean {
  const all = indexes(shape);
  const strides = shape.map((n, axis) => {
    const next = all.findIndex((index) => index.every((v, i) => v === (i === axis ? 1 : 0)));
    return n > 1 && next >= 0 ? values[next] - values[0] : 0;
  });
  return all.every((index, i) =>
    values[i] === index.reduce((sum, v, axis) => sum + v * strides[axis], values[0])
  );
}

/** Checks all properties of a layout against the positions that it really reaches. */
function checkClaims(layout: Layout): void {
  const { shape, values } = table(layout);
  assertEquals(layout.size, values.length);
  assertEquals(layout.contiguous, values.every((v, i) => v === layout.offset + i), "contiguous");
  const columns = table(layout.transpose()).values;
  assertEquals(layout.isColumnMajor, columns.every((v, i) => v === layout.offset + i), "columns");
  assertEquals(layout.overlapsItself, new Set(values).size < values.length, "overlapsItself");
  assertEquals(
    layout.extent(),
    values.length === 0
      ? [layout.offset, layout.offset - 1]
      : [Math.min(...values), Math.max(...values)],
  );
  assert(!layout.strides.some((s) => Object.is(s, -0)), "no stride is -0");
  assertEquals(shape.length, layout.strides.length);
}

describe("property tests", () => {
  it("property: Slice takes what Python's slice takes", () => {
    fc.assert(
      fc.property(axisSize, open, open, step, (size, start, stop, by) => {
        const layout = Layout.contiguous([size]);
        const expected = pythonSlice(size, start, stop, by);
        assertEquals(positions(sliceBasic(layout, [new Slice(start, stop, by)])), expected);
        const text = `${start ?? ""}:${stop ?? ""}:${by}`;
        assertEquals(positions(sliceBasic(layout, [text])), expected);
        assertEquals(positions(sliceAxisBy(layout, 0, text)), expected);
      }),
      { numRuns: 2000 },
    );
  });

  it("property: range objects resolve negatives, reverse, then clip", () => {
    fc.assert(
      fc.property(axisSize, bound, bound, (size, a, b) => {
        const layout = Layout.contiguous([size]);
        assertEquals(positions(sliceBasic(layout, [range(a, b)])), walkRange(size, a, b, false));
        assertEquals(
          positions(sliceBasic(layout, [rangeInclusive(a, b)])),
          walkRange(size, a, b, true),
        );
      }),
      { numRuns: 2000 },
    );
  });

  it("property: random chains of views give what naive indexing gives", () => {
    const names = Object.keys(VIEWS);
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 4 }),
        fc.array(fc.constantFrom(...names), { minLength: 1, maxLength: 6 }),
        fc.array(fc.nat(1000), { minLength: 8, maxLength: 24 }),
        (shape, chain, numbers) => {
          const pick = new Choices(numbers);
          const start = Layout.contiguous(shape, 3);
          let state: State = [start, table(start)];
          for (const name of chain) {
            const [layout, model] = state = VIEWS[name](state, pick);
            assertEquals(table(layout), model, name);
            checkClaims(layout);
            if (layout.size > 0) {
              const [low, high] = layout.extent();
              assert(low >= 3 && high < 3 + start.size, "a view stays inside its buffer");
            } else assert(layout.offset >= 3 && layout.offset <= 3 + start.size, "offset inside");
          }
        },
      ),
      { numRuns: 1500 },
    );
  });

  it("property: broadcasting two shapes gives the shape that both broadcast to", () => {
    const sizes = fc.array(fc.constantFrom(1, 1, 2, 3, 0), { maxLength: 4 });
    fc.assert(
      fc.property(sizes, sizes, (a, b) => {
        const rank = Math.max(a.length, b.length);
        const padded = [a, b].map((s) => [...new Array(rank - s.length).fill(1), ...s]);
        const fits = padded[0].every((n, i) => n === padded[1][i] || n === 1 || padded[1][i] === 1);
        let result: readonly number[] | null = null;
        try {
          result = broadcastShapes("add", a, b);
        } catch {
          assert(!fits, "refused only where they do not fit");
          return;
        }
        assert(fits, "accepted only where they fit");
        for (const shape of [a, b]) {
          const view = Layout.contiguous(shape).broadcastTo(result);
          assertEquals(view.shape, result);
          assertEquals(new Set(table(view).values).size, sizeOf(result) === 0 ? 0 : sizeOf(shape));
        }
        assertEquals(result, padded[0].map((n, i) => n === 1 ? padded[1][i] : n));
      }),
      { numRuns: 1000 },
    );
  });
});
