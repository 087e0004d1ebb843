/**
 * Long runs, hostile patterns, threads, and what partitions, quantiles and modes refuse.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import {
  ArgumentError,
  AxisError,
  DTypeError,
  empty,
  ones,
  random,
  scalar,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int16: Int16Array,
  uint8: Uint8Array,
} as const;

/** Patterns that make quicksort slow: sorted, reversed, organ pipe, few values, median killer. */
const PATTERNS: Record<string, (i: number, n: number) => number> = {
  sorted: (i) => i,
  reversed: (i, n) => n - i,
  "organ pipe": (i, n) => i < n / 2 ? i : n - i,
  equal: () => 5,
  "two values": (i) => i & 1,
  "few values": (i) => (i * 7919) % 13,
  sawtooth: (i) => i % 100,
  "median killer": (i, n) => i % 2 === 0 ? i / 2 + 1 : (n / 2 + i) % n,
  "most equal": (i) => i % 17 === 0 ? i : 3,
  random: (i) => (i * 2654435761 >>> 5) % 60000,
};

describe("long runs", () => {
  for (const [dtype, array] of Object.entries(ARRAYS)) {
    it(`${dtype}: every pattern, up and down`, () => {
      for (const n of [257, 3000, 70000]) {
        for (const [name, of] of Object.entries(PATTERNS)) {
          const values = array.from(Array.from({ length: n }, (_, i) => of(i, n)));
          const up = values.slice().sort();
          const x = loose(tensor(values));
          assertEquals(x.sort().data, up, `${name} ${n}`);
          assertEquals(x.sort(0, { descending: true }).data, up.slice().reverse(), `${name} ${n}`);
          const rank = n * 5 >> 3;
          const parted = x.partition(rank).data as Float32Array;
          assertEquals(parted[rank], up[rank], `${name} ${n}`);
          assertEquals(parted.slice().sort() as unknown, up, `${name} ${n}`);
          assertEquals(parted.slice(0, rank).sort() as unknown, up.slice(0, rank));
          assertEquals(x.quantile(rank / (n - 1), 0, { method: "nearest" }).item(), up[rank]);
        }
      }
    });
  }

  it("signs of zeros and NaN keep their order, on every instruction set", () => {
    const n = 5000;
    const of = (i: number): number => {
      const kind = (i * 2654435761 >>> 9) % 10;
      return kind === 0 ? NaN : kind < 3 ? -0 : kind < 5 ? 0 : kind === 5 ? Infinity : i % 97 - 48;
    };
    const values = Array.from({ length: n }, (_, i) => of(i));
    for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
      for (const descending of [false, true]) {
        const order = values.map((_, i) => i).sort((i, j) => {
          const [a, b] = [values[i]!, values[j]!];
          if (a !== a || b !== b) return Number(a !== a) - Number(b !== b) || i - j;
          return (a < b ? -1 : a > b ? 1 : 0) * (descending ? -1 : 1) || i - j;
        });
        for (const { name, on } of BACKENDS) {
          if (typeof on === "string") continue;
          using(on, () => {
            const x = loose(tensor(values, { dtype }));
            const sorted = x.sort(0, { descending }).astype("float64").data as Float64Array;
            const right = order.every((at, i) => Object.is(sorted[i], values[at]));
            assert(right, `${dtype} ${descending} ${name}`);
          });
        }
      }
    }
  });

  it("the same values whatever splits the work", () => {
    for (const rows of [1, 2, 7]) {
      const x = loose(random.normal(random.key(3), [rows, 40000]));
      const [sorted, order] = [x.sort(), x.argsort()];
      assertEquals(sorted.toArray(), x.takeAlongAxis(order, 1).toArray());
      const flat = x.flatten().sort().data as Float32Array;
      assert(flat.every((v, i) => i === 0 || flat[i - 1]! <= v));
    }
  });

  it("modes of long runs, with ties, zeros and NaN", () => {
    for (const { on } of BACKENDS) {
      if (typeof on === "string") continue;
      using(on, () => {
        const { values, counts } = loose(tensor([[-0, 0, 1, 2], [NaN, 1, NaN, 1], [3, 2, 2, 3]]))
          .mode(1);
        assertEquals(values.toArray().map((v: unknown) => Object.is(v, -0) ? "-0" : v), [
          "-0",
          1,
          2,
        ]);
        assertEquals(counts.toArray(), [2, 2, 2]);
        assert(Number.isNaN(loose(tensor([NaN, 1, NaN])).mode().values.item()));
      });
    }
  });
});

describe("arguments of partitions, quantiles and modes", () => {
  const x = loose(ones([2, 3]));

  it("shapes, dtypes and options", () => {
    assertEquals([...x.quantile([0.5, 0.1], 0, { keepDims: true }).shape], [2, 1, 3]);
    assertEquals([...x.quantile([], 0).shape], [0, 3]);
    assertEquals([...x.median([0, 1]).shape], []);
    assertEquals([...x.mode(1, { keepDims: true }).counts.shape], [2, 1]);
    const out = zeros([3]);
    assertEquals(x.median(0, { out }), out);
    assertEquals(out.toArray(), [1, 1, 1]);
    assertEquals(loose(scalar(7)).median().item(), 7);
    assertEquals(loose(scalar(7)).mode().counts.item(), 1);
    assertEquals(x.astype("int8").median().dtype, "float32");
    const q = [0.5];
    const y = x.quantile(q);
    q[0] = 9;
    assertEquals(y.toArray(), [1]);
  });

  it("no elements", () => {
    const none = loose(empty([0, 3]));
    assertEquals(none.median(0).toArray(), [NaN, NaN, NaN]);
    assertEquals([...none.median(1).shape], [0]);
    assertEquals(none.median().item(), NaN);
    assertEquals([...none.mode(1).values.shape], [0]);
    assertEquals([...none.partition(1).shape], [0, 3]);
    assertThrows(() => none.mode(0), ShapeError, "Cannot mode shape [0, 3]");
    assertThrows(() => none.partition(0, 0), ArgumentError, "partition() needs");
    assertEquals(loose(tensor([NaN, NaN])).nanmedian().item(), NaN);
  });

  it("what they do not take is refused, by name", () => {
    for (const q of [-0.1, 1.1, NaN, "1", null, [0.5, 2]]) {
      assertThrows(() => x.quantile(q), ArgumentError, "quantile() needs numbers from 0 to 1");
    }
    assertThrows(() => x.percentile(101), ArgumentError, "numbers from 0 to 100");
    assertThrows(() => x.quantile(0.5, 0, { method: "median" }), ArgumentError, "method");
    assertThrows(() => x.quantile(0.5, 2), AxisError, "Cannot quantile along axis 2");
    assertThrows(() => x.median(0, { method: "lower" }), TypeError, "method");
    assertThrows(() => x.mode([0, 0]), AxisError, "twice");
    for (const kth of [3, -4, 1.5, "1", null, undefined, [0, 3]]) {
      assertThrows(
        () => x.partition(kth),
        ArgumentError,
        "partition() needs integers from -3 to 2",
      );
    }
    assertThrows(() => x.argpartition(0, 2), AxisError, "Cannot argpartition");
    for (const name of ["partition", "argpartition", "topk"]) {
      assertThrows(
        () => x[name](1, { axis: 1 }),
        AxisError,
        `an axis is an integer, and comes before the options: ${name}(..., axis, options)`,
      );
    }
    assertThrows(() => x.topk(1, -1, { axis: 1 }), TypeError, "topk(..., axis, options)");
    const z = loose(tensor([1, 2], { dtype: "complex64" }));
    assertThrows(() => z.median(), DTypeError, "Cannot median complex64");
    assertThrows(() => z.partition(0), DTypeError, "Cannot partition complex64");
  });
});
