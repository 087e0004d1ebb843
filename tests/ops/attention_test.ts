/**
 * Attention against sums in double precision: every backend and instruction set, dtypes, layouts,
 * masks, causal limits and grouped heads; rows that see no key; errors.
 *
 * A result may differ by 2e-6 of the largest expected element, and 16-bit floats by half a unit in
 * the last place of that element in addition.
 *
 * @module
 */
import { assert, assertEquals, fail } from "@std/assert";
import { describe, it } from "node:test";
import {
  type AnyTensor,
  arange,
  ArgumentError,
  DTypeError,
  empty,
  finfo,
  full,
  ones,
  ShapeError,
  tensor,
  where,
  zeros,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { NativeBackend } from "../../src/backend/native/backend.ts";
import { attention, type AttentionOptions } from "../../src/ops/attention/op.ts";
import { native, shim, when } from "../native/support.ts";
import { type Any, assertRefused, asView, loose } from "../support.ts";
import { isSampled } from "../support/amount.ts";
import { IN_BUN } from "../support/engine.ts";
import { expectedOf, normal, numbersOf, operands } from "./attention_reference.ts";
import { BACKENDS, using } from "./table/backends.ts";

const FLOATS = ["float16", "bfloat16", "float32", "float64"] as const;

function assertClose(actual: Any, expected: Float64Array, about: string): void {
  const made = numbersOf(actual);
  assertEquals(made.length, expected.length, about);
  const finite = expected.filter(Number.isFinite);
  const scale = finite.reduce((most, x) => Math.abs(x) > most ? Math.abs(x) : most, 0);
  const { eps } = finfo(actual.dtype);
  const bound = scale * (2e-6 + (eps > 1e-6 ? eps / 2 : 0));
  for (let i = 0; i < expected.length; i++) {
    const [x, y] = [expected[i]!, made[i]!];
    if (Object.is(x, y) || Math.abs(y - x) <= bound) continue;
    fail(`${about}: element ${i} is ${y}, not ${x}`);
  }
}

/** Compares all backends on the CPU with the definition. */
function check(about: string, q: Any, k: Any, v: Any, options: AttentionOptions = {}): void {
  const expected = expectedOf(q, k, v, options);
  for (const { name, on } of BACKENDS) {
    if (typeof on === "string") continue;
    using(on, () => {
      const made: Any = attention(q, k, v, options);
      assertEquals([...made.shape], [...q.shape.slice(0, -1), v.shape.at(-1)]);
      assertClose(made, expected, `${name}, ${about}`);
      made.dispose();
    });
  }
}

/** [B, H, M, D] in the memory of [B, M, H, D]. */
function fromRows(x: Any): Any {
  return x.permute(0, 2, 1, 3).copy().permute(0, 2, 1, 3);
}

const SIZES = [
  [1, 1, 1, 1],
  [1, 7, 4, 3],
  [2, 5, 8, 16],
  [3, 65, 33, 17],
  [4, 64, 64, 64],
  [5, 3, 8, 8],
  [9, 1, 5, 2],
  [16, 16, 16, 16],
  [17, 40, 20, 48],
  [33, 31, 7, 40],
  [129, 129, 16, 8],
] as const;

describe("attention", () => {
  for (const dtype of FLOATS) {
    it(`${dtype}: sizes around those of blocks, with and without a causal limit`, () => {
      for (const sizes of SIZES) {
        for (const causal of [false, true]) {
          check(`${sizes}, causal ${causal}`, ...operands([2], [2, 2], sizes, dtype), { causal });
        }
      }
    });

    it(`${dtype}: a limit of scores, before masks and hidden keys`, () => {
      for (const sizes of SIZES.slice(1, 8)) {
        const [m, n] = sizes;
        const [q, k, v] = operands([2], [4, 2], sizes, dtype);
        const mask = normal(5, [m, n]);
        for (const softCap of [0.7, 30]) {
          check(`${sizes}, cap ${softCap}`, q, k, v, { softCap });
          check(`${sizes}, cap ${softCap}, mask`, q, k, v, { softCap, mask, causal: true });
        }
      }
      // A row is computed again if hidden keys are not finite.
      const [q, k, v] = operands([1], [2, 2], [3, 5, 4, 4], dtype);
      for (const x of [k, v]) x.set(["...", "4:", ":"], NaN);
      check("cap, hidden NaN", q, k, v, { softCap: 2, mask: arange(5).less(4).expandDims(0) });
    });

    it(`${dtype}: masks of every kind, broadcast along each axis`, () => {
      const [b, h, m, n] = [2, 4, 6, 21];
      const [q, k, v] = operands([b], [h, h], [m, n, 8, 8], dtype);
      const few = q.slice(":", ":", "2:3");
      const shapes = [[n], [m, 1], [m, n], [1, 1, n], [h, 1, 1], [b, 1, 1, n], [b, h, m, n], []];
      for (const kind of ["bool", "float16", "bfloat16", "float32", "float64"] as const) {
        for (const shape of shapes) {
          const some: Any = normal(4, shape);
          // The first key is visible, so that no row is empty.
          const mask = kind === "bool" ? some.greater(-0.5) : some.astype(kind);
          if (kind === "bool" && shape.at(-1) === n) mask.set(["...", 0], true);
          const causal = shape.length === 2;
          check(`mask ${kind} ${shape}`, q, k, v, { mask, causal });
          if (shape.at(-2) !== m) check(`mask ${kind} ${shape}, 1 query`, few, k, v, { mask });
        }
      }
    });
  }

  it("-Infinity in masks hides keys, and large numbers do no harm", () => {
    const [q, k, v] = operands([2], [3, 3], [5, 40, 8, 8]);
    const hidden = tensor([0, 0, -Infinity, -1e30, 3e38]).tile([8]);
    check("-Infinity", q, k, v, { mask: hidden });
    check("far scores", q.mul(100), k.mul(100), v);
    const all = full([5, 1], -Infinity), none = full([40], false);
    for (const mask of [all, none, zeros([5, 1]).greater(0), none.broadcastTo([2, 3, 5, 40])]) {
      check("nothing is visible", q, k, v, { mask });
    }
    check("nothing is visible to 1 query", q.slice(":", ":", ":1"), k, v, { mask: none });
    check("nothing of 600 keys", ...operands([], [1, 1], [2, 600, 4, 4]), {
      mask: full([600], -Infinity),
    });
    const one = ones([40]).greater(0);
    loose(one).set(["1:"], false);
    check("one key is visible", q, k, v, { mask: one });
  });

  it("NaN and infinite scores make their row NaN, and no other one", () => {
    for (const m of [2, 20]) {
      const [q, k, v] = operands([], [2, 2], [m, 30, 8, 8]);
      for (const bad of [NaN, Infinity]) {
        q.set([1, 1, 3], bad);
        check(`${bad} among ${m} queries`, q, k, v);
        check(`${bad} among ${m} queries, causal`, q, k, v, { causal: true });
      }
    }
  });

  it("hidden keys and values do not matter, whatever they are", () => {
    for (
      const [m, n, d, dv] of [[1, 5, 4, 4], [2, 600, 8, 20], [5, 300, 16, 16], [40, 70, 8, 24]]
    ) {
      for (const dtype of FLOATS) {
        const [q, k, v] = operands([2], [4, 2], [m!, n!, d!, dv!], dtype);
        const hidden = loose(normal(8, [2, 1, m!, n!])).less(-0.3);
        // Some keys that all queries see, some that none does.
        hidden.set(["...", 0], false);
        hidden.set(["...", n! - 2], true);
        const masks = [
          hidden.logicalNot(),
          where(hidden, -Infinity, normal(9, [2, 1, m!, n!])).astype(dtype),
          hidden.slice(":1", ":", ":1").logicalNot(),
        ];
        for (const bad of [NaN, Infinity]) {
          const [keys, values] = [k.copy(), v.copy()];
          values.set(["...", n! - 2, ":"], bad);
          values.set(["...", 2, 1], bad);
          keys.set(["...", n! - 2, 0], bad);
          for (const [i, mask] of masks.entries()) {
            const about = `${bad} among ${dtype} ${[m, n, d, dv]}, mask ${i}`;
            if (!isSampled(about, IN_BUN ? 12 : 3)) continue;
            check(about, q, keys, values, { mask: loose(mask), causal: bad === Infinity });
          }
          check(`${bad} beyond the causal limit`, q, keys, values, { causal: true });
        }
      }
    }
  });

  it("more queries than keys: the first causal ones see none", () => {
    for (const [m, n] of [[5, 2], [40, 7], [150, 20], [3, 1]] as const) {
      for (const dtype of FLOATS) {
        const all = operands([1], [2, 1], [m, n, 8, 8], dtype);
        check(`${m} queries of ${n} keys`, ...all, { causal: true });
      }
    }
  });

  it("grouped heads", () => {
    for (const [h, hk] of [[9, 3], [4, 1], [8, 4], [2, 2]] as const) {
      for (const [m, n] of [[1, 70], [1, 5], [3, 9], [6, 20], [20, 33]] as const) {
        const [q, k, v] = operands([2], [h, hk], [m, n, 16, 24]);
        const about = `${h} heads over ${hk}, ${m} queries of ${n} keys`;
        check(about, q, k, v);
        check(`${about}, causal`, q, k, v, { causal: true });
        const perHead = normal(5, [h, 1, n]), perRow = normal(6, [2, 1, m, n]).less(0.9);
        perRow.set(["...", 0], true);
        check(`${about}, a mask per head`, q, k, v, { mask: perHead });
        check(`${about}, a mask per query`, q, k, v, { mask: perRow, causal: true });
        check(`${about}, all masks`, q, k, v, { mask: normal(7, [2, h, m, n]) });
      }
    }
  });

  it("many keys, in blocks and parts", () => {
    for (const m of [1, 2, 3, 4, 5]) {
      for (const n of [257, 513, 2048]) {
        const [q, k, v] = operands([], [1, 1], [m, n, 16, 16]);
        check(`${m} queries of ${n} keys`, q, k, v, { causal: m > 2 });
        // The maximum grows from block to block.
        const rising = loose(ones([n])).cumulativeSum().mul(0.05);
        check(`${m} queries of ${n} rising keys`, q, k, v, { mask: rising });
        check(`${m} queries of ${n} falling keys`, q, k, v, { mask: rising.neg() });
        const late = rising.greater(0.05 * (n - 20.5));
        check(`${m} queries of the last of ${n} keys`, q, k, v, { mask: late });
      }
    }
    check("one query of 2048 keys", ...operands([], [6, 2], [1, 2048, 64, 64]));
    check("3 queries of 2048 keys", ...operands([], [2, 2], [3, 2048, 64, 64]), { causal: true });
    // Each problem has only one part.
    check("40 heads", ...operands([], [40, 40], [1, 600, 8, 8]), { causal: true });
  });

  it("every layout of the operands and of the result", () => {
    for (const m of [1, 3, 20]) {
      for (const dtype of ["float32", "float16"] as const) {
        const [q, k, v] = operands([2], [3, 3], [m, 21, 16, 32], dtype);
        const mask = normal(4, [1, 3, m, 21]);
        const layouts: Record<string, (x: Any) => Any> = {
          "rows of heads": fromRows,
          "every second element, reversed": asView,
          "columns as rows": (x) => x.mT.copy().mT,
          "odd offsets": (x) => {
            const wide: Any = zeros(x.shape.map((s: number) => s + 3), { dtype: x.dtype });
            const part = wide.slice(...x.shape.map((s: number) => `1:${s + 1}`));
            part.set(["..."], x);
            return part;
          },
        };
        const expected = expectedOf(q, k, v, { mask });
        for (const [about, layout] of Object.entries(layouts)) {
          check(`${about}, ${m} queries`, layout(q), layout(k), layout(v), { mask: layout(mask) });
          for (const { name, on } of BACKENDS) {
            if (typeof on === "string") continue;
            using(on, () => {
              const out = layout(full([2, 3, m, 32], 7, { dtype }));
              const made: Any = attention(q, k, v, { mask, out });
              assert(made === out);
              assertClose(out, expected, `${name}, into ${about}`);
            });
          }
        }
      }
    }
    // Rows 4096 bytes apart, and one key for all.
    const far = operands([1], [16, 16], [20, 33, 64, 64]).map(fromRows) as [Any, Any, Any];
    check("rows 4096 bytes apart", ...far);
    check("few rows 4096 bytes apart", far[0].slice(":", ":", ":3"), far[1], far[2]);
    const long = operands([1], [2, 2], [18, 5, 1024, 1024]);
    check("1024 columns", ...long);
    const [q, k, v] = operands([2], [3, 3], [6, 9, 4, 4]);
    const one = (x: Any): Any => x.slice(":", ":", ":1").broadcastTo(x.shape);
    check("equal keys", q, one(k), v);
    check("equal values", q, k, one(v));
  });

  it("axes before the heads broadcast, also of rank 3 and 5", () => {
    const [q, k, v] = operands([2, 3], [4, 2], [5, 6, 8, 8]);
    const [oneK, oneV] = [k.slice("1:"), v.slice(0, "1:2")];
    const expected = expectedOf(q, oneK.broadcastTo(k.shape), oneV.broadcastTo(v.shape));
    for (const { name, on } of BACKENDS) {
      if (typeof on === "string") continue;
      using(on, () => assertClose(attention(q, oneK, oneV), expected, name));
    }
    check("rank 3", ...operands([], [4, 2], [5, 6, 8, 8]), { mask: normal(4, [4, 5, 6]) });
  });

  it("empty axes: sums of nothing are 0", () => {
    const shapes: [number[], [number, number], [number, number, number, number]][] = [
      [[0], [2, 2], [3, 4, 5, 6]],
      [[2], [0, 0], [3, 4, 5, 6]],
      [[2], [2, 1], [0, 4, 5, 6]],
      [[2], [2, 1], [3, 0, 5, 6]],
      [[2], [2, 1], [3, 4, 0, 6]],
      [[2], [2, 1], [3, 4, 5, 0]],
    ];
    for (const [batch, heads, sizes] of shapes) {
      for (const causal of [false, true]) {
        const all = operands(batch, heads, sizes);
        check(`${sizes}`, ...all, { causal, scale: 0.5 });
        const mask = ones([sizes[0], sizes[1]]).greater(0);
        check(`${sizes} with a mask`, ...all, { causal, scale: 0.5, mask });
      }
    }
  });

  it("dtypes promote, and a result is cast to its output", () => {
    const [q, k, v] = operands([1], [2, 2], [3, 5, 8, 8]);
    const expected = expectedOf(q.astype("float16"), k, v);
    const made: Any = attention(q.astype("float16"), k, v);
    assertEquals(made.dtype, "float32");
    assertClose(made, expected, "float16 and float32");
    assertEquals(loose(attention(q.astype("float16"), k.astype("bfloat16"), v)).dtype, "float32");
    assertEquals(loose(attention(q, k, v.astype("float64"))).dtype, "float64");
    const out: Any = empty([1, 2, 3, 8], { dtype: "float64" });
    attention(q.astype("float16"), k, v, { out });
    assertClose(out, expected, "into float64");
    // An output that is also an input.
    const [x, wanted] = [q.copy(), expectedOf(q, q, q)];
    attention(x, x, x, { out: x });
    assertClose(x, wanted, "in place");
  });

  it(...when({}, "is one call of the shim for every dtype but float64", () => {
    const number = shim.rm_find_kernel(new TextEncoder().encode("attention\0"), 0);
    const kernels: number[] = [];
    const seen = { ...shim };
    for (const name of ["rm_run", "rm_run_many"] as const) {
      loose(seen)[name] = (kernel: number, ...rest: unknown[]): number => {
        kernels.push(kernel);
        return loose(shim)[name](kernel, ...rest);
      };
    }
    using(new NativeBackend(seen), () => {
      for (const dtype of ["float16", "bfloat16", "float32"] as const) {
        const [q, k, v] = operands([2], [4, 2], [6, 9, 8, 8], dtype).map(fromRows);
        const masks = [undefined, normal(4, [9], dtype), normal(4, [2, 1, 6, 9]).greater(0)];
        const columns = k.mT.copy().mT;
        for (const mask of masks) {
          kernels.length = 0;
          attention(q, columns, v, { ...mask && { mask }, causal: true });
          assertEquals(kernels, [number]);
        }
      }
    });
  }));

  it("runs in compiled programs, also with a mask and into another layout", () => {
    const [q, k, v] = operands([2], [4, 2], [6, 9, 8, 12]).map(fromRows);
    const mask = normal(4, [2, 1, 6, 9]).greater(-1);
    const f = compile((a: Any, b: Any, c: Any, m: Any): Any => {
      const out = loose(empty([2, 6, 4, 12]));
      attention(a.mul(2), b, c, { mask: m, out: out.permute(0, 2, 1, 3), causal: true });
      return out.reshape([2, 6, 48]);
    });
    const options = { mask, causal: true };
    const expected = expectedOf(q.mul(2), k, v, options);
    for (let run = 0; run < 3; run++) {
      const made = f(q, k, v, mask);
      assertClose(made.reshape([2, 6, 4, 12]).permute(0, 2, 1, 3), expected, `run ${run}`);
    }
    f.dispose();
  });

  it(...when({}, "equal bits with one and two threads", () => {
    const before = native.threads;
    using(native, () => {
      try {
        native.setShareAll(true);
        for (
          const [heads, sizes] of [
            [[6, 2], [1, 2048, 32, 32]],
            [[12, 12], [128, 128, 32, 32]],
            [[1, 1], [300, 600, 16, 16]],
            [[8, 2], [7, 65, 64, 40]],
          ] as const
        ) {
          const all = operands([1], heads, sizes);
          const [one, two] = [1, 2].map((threads) => {
            native.setThreads(threads);
            return loose(attention(...all, { causal: true })).toTypedArray();
          });
          assertEquals(one, two);
        }
      } finally {
        native.setShareAll(false);
        native.setThreads(before);
      }
    });
  }));

  it("what it does not take is refused, and nothing is written", () => {
    const [q, k, v] = operands([2], [4, 2], [3, 5, 8, 8]);
    const refused = (
      error: typeof ShapeError | typeof DTypeError | typeof ArgumentError,
      text: string,
      [a, b, c]: readonly Any[],
      options: Any = {},
    ): void => {
      const given = [a, b, c, options.mask, options.out].filter((x): x is AnyTensor => x?.dtype);
      assertRefused(() => attention(a, b, c, options), error, text, ...given);
    };
    refused(ShapeError, "each has at least 3 axes: heads, rows and columns", [q.slice(0, 0), k, v]);
    refused(
      ShapeError,
      "Cannot attention queries [2, 4, 3, 7] with keys [2, 2, 5, 8] and values [2, 2, 5, 8]: " +
        "queries have 7 columns and keys 8",
      [q.slice("...", ":7"), k, v],
    );
    refused(ShapeError, "there are 5 keys and 4 values", [q, k, v.slice(":", ":", ":4")]);
    refused(ShapeError, "keys have 2 heads and values 1", [q, k, v.slice(":", ":1")]);
    refused(ShapeError, "3 heads of queries are no multiple of 2 heads of keys", [
      q.slice(":", ":3"),
      k,
      v,
    ]);
    refused(ShapeError, "4 heads of queries are no multiple of 0 heads of keys", [
      q,
      k.slice(":", ":0"),
      v.slice(":", ":0"),
    ]);
    const three = k.slice(":1").broadcastTo([3, 2, 5, 8]);
    refused(ShapeError, "the axes before the heads do not broadcast", [q, three, three]);
    refused(DTypeError, "Cannot attention int32: it takes float dtypes", [q.astype("int32"), k, v]);
    refused(DTypeError, "Cannot attention bool", [q, k, v.greater(0)]);
    refused(DTypeError, "expected a tensor", [q, k, 1]);
    for (const shape of [[2, 4, 3, 6], [3, 3, 5], [2, 1, 1, 4, 3, 5], [2]]) {
      refused(
        ShapeError,
        `with a mask of shape [${shape.join(", ")}]: it must broadcast to [2, 4, 3, 5], the shape`,
        [q, k, v],
        { mask: zeros(shape) },
      );
    }
    refused(DTypeError, "a mask of int32: it must be bool or a float", [q, k, v], {
      mask: zeros([5], { dtype: "int32" }),
    });
    refused(ArgumentError, 'attention() needs a number as scale, got "1"', [q, k, v], {
      scale: "1",
    });
    for (const softCap of [0, -1, NaN, 1e300, "2"]) {
      refused(ArgumentError, "Cannot attention with softCap", [q, k, v], { softCap });
    }
    refused(ArgumentError, "needs true or false as causal, got 1", [q, k, v], { causal: 1 });
    refused(ShapeError, "the result has shape [2, 4, 3, 8]", [q, k, v], {
      out: zeros([2, 4, 3, 7]),
    });
    refused(DTypeError, "the result is float32", [q, k, v], {
      out: zeros([2, 4, 3, 8], { dtype: "int32" }),
    });
  });
});
