/**
 * Partitions, medians, quantiles, percentiles and modes against NumPy and SciPy: every dtype, method
 * and layout, on every backend. All results are exact.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { tensor } from "../../mod.ts";
import { DTYPE, type DType } from "../../src/base/dtype.ts";
import { loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";

type Numbers = (number | null)[];

interface Quantiles {
  readonly dtype: DType;
  readonly x: Numbers;
  readonly q: number[];
  readonly methods: Record<string, Numbers>;
  readonly nan?: Record<string, Numbers>;
  readonly median: Numbers;
  readonly nanmedian?: Numbers;
  readonly percentile: Numbers;
}

interface Layouts {
  readonly dtype: DType;
  readonly layout: string;
  readonly base: Numbers;
  readonly quantiles: [Numbers, Numbers][];
  readonly partitions: [Numbers, Numbers][];
  readonly modes: [Numbers, Numbers][];
}

interface Partition {
  readonly dtype: DType;
  readonly x: Numbers;
  readonly kth: number[];
  readonly order: number[];
}

function read<T>(name: string): T[] {
  const url = new URL(`../golden/sort/${name}.json`, import.meta.url);
  return JSON.parse(readFileSync(url, "utf8"));
}

// deno-lint-ignore no-explicit-any
type Any = any;

/** A tensor of numbers, NaN for null. */
function made(numbers: Numbers, dtype: DType, shape: number[]): Any {
  const { wide } = DTYPE[dtype];
  const values = numbers.map((v) =>
    v === null ? NaN : wide ? BigInt(v) : dtype === "bool" ? v === 1 : v
  );
  return loose(tensor(values as never, { dtype })).reshape(shape);
}

/** The elements as in the golden data; -0 is 0. */
function flat(x: Any): Numbers {
  const list = x.flatten().toArray() as (number | boolean | bigint)[];
  return list.map((v) => Number.isNaN(v) ? null : Number(v) + 0);
}

const VIEWS: Record<string, (x: Any) => Any> = {
  dense: (x) => x,
  transposed: (x) => x.permute(2, 0, 1),
  sliced: (x) => x.slice(":, ::2, 1:"),
  reversed: (x) => x.flip([0, 2]),
  broadcast: (x) => x.slice(":, :1").broadcastTo([...x.shape]),
};

function onEach(body: (about: string) => void): void {
  for (const { name, on } of BACKENDS) if (typeof on !== "string") using(on, () => body(name));
}

const floats = (dtype: DType): DType => DTYPE[dtype].kind === "f" ? dtype : "float32";

describe("partitions, quantiles and modes as in NumPy", () => {
  it("every method, dtype and backend; NaN propagates or is ignored", () => {
    for (const c of read<Quantiles>("quantiles")) {
      onEach((name) => {
        const x = made(c.x, c.dtype, [2, 9]);
        for (const [method, expected] of Object.entries(c.methods)) {
          const y = x.quantile(c.q, 1, { method });
          assertEquals([...y.shape], [c.q.length, 2]);
          assertEquals(y.dtype, floats(c.dtype));
          assertEquals(flat(y), expected, `${c.dtype} ${method} ${name}`);
        }
        for (const [method, expected] of Object.entries(c.nan ?? {})) {
          assertEquals(
            flat(x.nanquantile(c.q, 1, { method })),
            expected,
            `${c.dtype} nan ${method} ${name}`,
          );
        }
        assertEquals(flat(x.median(1)), c.median);
        assertEquals(flat(x.percentile([12.5, 50, 99], -1)), c.percentile);
        if (c.nanmedian) assertEquals(flat(x.nanmedian(1)), c.nanmedian);
        else assertEquals(flat(x.nanpercentile([12.5, 50, 99], 1)), c.percentile);
      });
    }
  });

  it("every layout and axis", () => {
    for (const c of read<Layouts>("layouts")) {
      onEach((name) => {
        const x = VIEWS[c.layout]!(made(c.base, c.dtype, [2, 3, 4]));
        const about = `${c.dtype} ${c.layout} ${name}`;
        [null, 0, 1, -1, [0, 2]].forEach((axis, k) => {
          const [quantile, median] = c.quantiles[k]!;
          assertEquals(flat(x.quantile(0.3, axis)), quantile, about);
          assertEquals(flat(x.median(axis, { keepDims: true })), median, about);
        });
        [0, 1, 2].forEach((axis) => {
          const [values, order] = c.partitions[axis]!;
          const kth = x.shape[axis] > 1 ? 1 : 0;
          assertEquals(flat(x.partition(kth, axis)), values, about);
          assertEquals(flat(x.argpartition(kth, axis)), order, about);
        });
        [null, 0, 1, 2].forEach((axis, k) => {
          const { values, counts } = x.mode(axis);
          assertEquals([flat(values), flat(counts)], c.modes[k], about);
        });
      });
    }
  });

  it("several ranks, in longer runs", () => {
    for (const c of read<Partition>("partitions")) {
      onEach((name) => {
        const x = made(c.x, c.dtype, [c.x.length]);
        const about = `${c.dtype} ${c.kth} ${name}`;
        assertEquals(flat(x.argpartition(c.kth)), c.order, about);
        assertEquals(flat(x.partition(c.kth)), c.order.map((i) => c.x[i]!), about);
      });
    }
  });
});
