/**
 * Attention to caches of many sequences: pages of one pool, and results that depend to the last bit on
 * nothing but the sequence: neither on its pages, nor on other sequences, nor on threads.
 *
 * @module
 */
import { assertEquals, fail } from "@std/assert";
import { test } from "node:test";
import { concat, quantize, tensor } from "../../../mod.ts";
import { compile } from "../../../src/compile/mod.ts";
import * as nn from "../../../src/nn/mod.ts";
import { check, native } from "../../native/support.ts";
import { normal } from "../../ops/attention_reference.ts";
import { BACKENDS, type Target, using } from "../../ops/table/backends.ts";
import type { Any } from "../../support.ts";
import { isSampled } from "../../support/amount.ts";
import { numbers } from "../weights.ts";

const DTYPES = ["float32", "float16", "bfloat16", "q8_0"];

const int32 = (values: number | readonly number[] | readonly number[][]): Any =>
  tensor(values as number[], { dtype: "int32" });

/** Rows of a cache in its dtype; `x` is float32. */
function stored(x: Any, dtype: string): Any {
  return dtype === "q8_0" ? quantize(x, dtype) : x.astype(dtype);
}

/** New keys or values with numbers of the cache's dtype. */
function rounded(x: Any, dtype: string): Any {
  return dtype === "q8_0" ? stored(x, dtype).dequantize() : x.astype(dtype);
}

interface Sizes {
  readonly batch: number;
  readonly h: number;
  readonly hk: number;
  readonly m: number;
  readonly d: number;
  readonly dv: number;
}

/** Queries, keys and values of new tokens. */
function tokensOf({ batch, h, hk, m, d, dv }: Sizes, dtype = "float32"): [Any, Any, Any] {
  const [q, k, v] = [[h, m, d], [hk, m, d], [hk, m, dv]].map((shape, i) =>
    normal(i + 1, [batch, ...shape])
  ) as [Any, Any, Any];
  return dtype === "float32" ? [q, k, v] : [q, rounded(k, dtype), rounded(v, dtype)];
}

interface Pool {
  readonly keys: Any;
  readonly values: Any;
}

/** Pages of keys and values: views of one tensor, if both have as many columns. */
function poolOf(count: number, rows: number, { hk, d, dv }: Sizes, dtype: string): Pool {
  if (d === dv) {
    const data = stored(normal(9, [2, count, hk, rows, d]), dtype);
    return { keys: data.slice(0), values: data.slice(1) };
  }
  const [keys, values] = [d, dv].map((columns, i) =>
    stored(normal(9 + i, [count, hk, rows, columns]), dtype)
  ) as [Any, Any];
  return { keys, values };
}

/** The rows of the pages of each sequence: [batch, Hk, P · R, columns]. */
function gathered({ keys, values }: Pool, table: readonly (readonly number[])[]): Pool {
  const [a, b] = [keys, values].map((x) => {
    const [, hk, rows, columns] = x.shape;
    const taken = x.take(int32(table as number[][]), 0).swapAxes(1, 2);
    return taken.reshape([table.length, hk, table[0]!.length * rows, columns]);
  }) as [Any, Any];
  return { keys: a, values: b };
}

/** Asserts that two results have the same bits. A difference of long arrays would take minutes to print. */
function assertBits(made: Any, expected: Any, about = ""): void {
  assertEquals(made.shape, expected.shape, about);
  const [a, b] = [numbers(made), numbers(expected)];
  const at = a.findIndex((x, i) => !Object.is(x, b[i]));
  if (at >= 0) fail(`${about}: ${at} is ${a[at]}, not ${b[at]}`);
}

/** The rows of some sequence of a batch. */
const some = (xs: readonly Any[], from: number, to = from + 1): [Any, Any, Any] =>
  xs.map((x) => x.slice(`${from}:${to}`)) as [Any, Any, Any];

/** A table of pages that are in no order, and of which sequences share some. */
function tableOf(batch: number, pages: number, count: number): number[][] {
  return Array.from(
    { length: batch },
    (_, i) => Array.from({ length: pages }, (_, j) => (j === 0 ? 7 : 5 * i + 11 * j + 3) % count),
  );
}

/** Targets in the memory of the CPU, without the interpreter, which runs the ops of the loops slowly. */
const onCpu = ({ name, on }: Target): boolean => typeof on !== "string" && name !== "interpreter";

for (const target of BACKENDS.filter(onCpu)) {
  const { name, on, exact } = target;

  test(`pages have the bits of the same rows without pages, ${name}`, () =>
    using(on, () => {
      const options = [
        ...[{}, { window: 20 }, { softCap: 2 }, { window: 7, softCap: 3 }],
      ];
      for (const dtype of DTYPES) {
        for (const m of [1, 3, 16, 32]) {
          for (const d of [64, 80, 128]) {
            for (const group of [1, 2, 3, 4, 5, 8]) {
              if (dtype === "q8_0" && d === 80) continue;
              const about = `${dtype}, ${m}, ${d}, ${group}`;
              if (!isSampled(`${name}, ${about}`, exact ? 40 : 8)) continue;
              const sizes = { batch: 3, h: 2 * group, hk: 2, m, d, dv: d === 128 ? 64 : d };
              const pool = poolOf(9, 16, sizes, dtype);
              const table = tableOf(3, 4, 9), length = int32([0, 37, 64]);
              const [q, k, v] = tokensOf(sizes);
              const given: Any = { ...options[(m + group) % options.length] };
              if (group > 2) given.sinks = normal(8, [2 * group]);
              const paged = { ...pool, length, pages: int32(table) };
              const made = nn.cachedAttention(q, k, v, paged, given);
              const plain = { ...gathered(pool, table), length };
              assertBits(made, nn.cachedAttention(q, k, v, plain, given), about);
            }
          }
        }
      }
    }));

  test(`sequences may have the same pages and length, ${name}`, () =>
    using(on, () => {
      const sizes = { batch: 2, h: 4, hk: 2, m: 2, d: 32, dv: 32 };
      const pool = poolOf(5, 4, sizes, "float16"), [q, k, v] = tokensOf(sizes);
      const made = nn.cachedAttention(q, k, v, {
        ...{ ...pool, length: tensor(6, { dtype: "int64" }) },
        pages: tensor([4, 1], { dtype: "uint8" }),
      });
      const each = { ...pool, length: int32([6, 6]), pages: int32([[4, 1], [4, 1]]) };
      assertBits(made, nn.cachedAttention(q, k, v, each));
      // Without axes before the heads.
      const one = nn.cachedAttention(q.slice(1), k.slice(1), v.slice(1), {
        ...{ ...pool, length: int32(6), pages: int32([4, 1]) },
      });
      assertBits(one, made.slice(1));
    }));

  test(`a sequence has the same bits alone and among others, ${name}`, () =>
    using(on, () => {
      const lengths = exact ? [1, 20, 0, 70] : [
        ...[1, 20, 300, 513, 1500, 1024, 511, 3, 64, 257, 0, 700, 1025, 100, 255, 16],
      ];
      const rows = 64, pages = Math.ceil(Math.max(...lengths) / rows), batch = lengths.length;
      for (const [h, hk] of [[3, 3], [6, 2], [8, 2], [16, 2]] as const) {
        for (const m of [1, 4, 20]) {
          const about = `${h}, ${hk}, ${m}`;
          if (!isSampled(`${name}, ${about}`, exact ? 4 : 2)) continue;
          const sizes = { batch, h, hk, m, d: 32, dv: 32 };
          const pool = poolOf(2 * batch, rows, sizes, "float16");
          const table = tableOf(batch, pages, 2 * batch), tokens = tokensOf(sizes, "float16");
          for (const given of [{}, { window: 200 }, { stepwise: true }]) {
            const run = (from: number, to: number): Any =>
              nn.cachedAttention(...some(tokens, from, to), {
                ...{ ...pool, length: int32(lengths.slice(from, to)) },
                pages: int32(table.slice(from, to)),
              }, given);
            const all = run(0, batch);
            lengths.forEach((length, i) => {
              const own = all.slice(`${i}:${i + 1}`);
              assertBits(run(i, i + 1), own, `${about}, ${length}, alone`);
              // Room for no more than the sequence has.
              const few = Math.max(1, Math.ceil(length / rows));
              const short = nn.cachedAttention(...some(tokens, i), {
                ...{ ...pool, length: int32([length]), pages: int32([table[i]!.slice(0, few)]) },
              }, given);
              assertBits(short, own, `${about}, ${length}, short`);
            });
            for (let i = 0; i + 2 <= batch; i += 3) {
              assertBits(run(i, i + 2), all.slice(`${i}:${i + 2}`), `${about}, ${i}, two`);
            }
          }
        }
      }
    }));

  test(`panels of a prompt have the same bits however it is cut, ${name}`, () =>
    using(on, () => {
      // The kernels of whole tiles and of four rows add products in the same order.
      const total = exact ? 24 : 90;
      for (const before of exact ? [0, 9] : [0, 9, 201, 500]) {
        for (const given of [{}, { window: 30 }, { softCap: 2 }]) {
          const sizes = { batch: 1, h: 10, hk: 2, m: total, d: 32, dv: 48 };
          const tokens = tokensOf(sizes, "float16");
          const all = [normal(7, [1, 2, before, 32]), normal(8, [1, 2, before, 48])]
            .map((x, i) => concat([x.astype("float16"), tokens[i + 1]!], 2)) as [Any, Any];
          const run = (from: number, to: number): Any =>
            nn.cachedAttention(
              ...tokens.map((x) => x.slice(":", ":", `${from}:${to}`)) as [Any, Any, Any],
              { keys: all[0], values: all[1], length: int32([before + from]) },
              given,
            );
          const whole = run(0, total);
          for (const step of [1, 7, 16, 50]) {
            const parts: Any[] = [];
            for (let at = 0; at < total; at += step) {
              parts.push(run(at, Math.min(total, at + step)));
            }
            const made = concat(parts as [Any], 2);
            assertBits(made, whole, `${before}, ${step}, ${Object.keys(given)}`);
          }
        }
      }
    }));

  test(`stepwise queries have the bits of calls of one query, ${name}`, () =>
    using(on, () => {
      const kinds: Any[] = [{}, { window: 9 }, { softCap: 2, window: 40 }, {}];
      for (const dtype of DTYPES) {
        for (const group of [1, 2, 3, 4, 7, 8]) {
          for (const m of [2, 5, 16]) {
            const about = `${dtype}, ${group}, ${m}`;
            if (!isSampled(`${name}, ${about}`, exact ? 20 : 6)) continue;
            const given = { ...kinds[(m + group) % kinds.length] };
            if (group % 3 === 0) given.sinks = normal(8, [2 * group]);
            const lengths = exact ? [0, 13, 20] : [0, 505, 40];
            const sizes = { batch: 3, h: 2 * group, hk: 2, m, d: 64, dv: 64 };
            const pages = Math.ceil((Math.max(...lengths) + m) / 16);
            const pool = poolOf(40, 16, sizes, dtype), table = tableOf(3, pages, 40);
            const tokens = tokensOf(sizes, dtype);
            const made = nn.cachedAttention(
              ...tokens,
              { ...pool, length: int32(lengths), pages: int32(table) },
              { ...given, stepwise: true },
            );
            lengths.forEach((length, s) => {
              const [q, k, v] = some(tokens, s);
              const rows = gathered(pool, [table[s]!]);
              const [keys, values] = [rows.keys, rows.values].map((x, i) =>
                concat([x.slice(":", ":", `:${length}`), stored([k, v][i], dtype)] as [Any, Any], 2)
              );
              for (let i = 0; i < m; i++) {
                const one = nn.cachedAttention(
                  ...[q, k, v].map((x) => x.slice(":", ":", `${i}:${i + 1}`)) as [Any, Any, Any],
                  { keys: keys!, values: values!, length: int32([length + i]) },
                  given,
                );
                const own = made.slice(`${s}:${s + 1}`, ":", `${i}:${i + 1}`);
                assertBits(one, own, `${about}, ${length}, ${i}`);
              }
            });
          }
        }
      }
    }));

  test(`pages that no query sees have no influence, ${name}`, () =>
    using(on, () => {
      const rows = 4, count = 12;
      for (const dtype of ["float32", "float16", "q8_0"]) {
        for (const [group, m] of [[1, 1], [2, 2], [8, 1], [2, 9]] as const) {
          for (const given of [{}, { window: 6 }, { window: 6, softCap: 2 }, { stepwise: true }]) {
            const sizes = { batch: 3, h: 2 * group, hk: 2, m, d: 32, dv: 32 };
            const clean = normal(9, [2, count, 2, rows, 32]);
            const dirty = clean.copy();
            // Pages 0 and 11 are those of numbers out of range.
            for (const page of [0, 11]) dirty.set([":", page], page === 0 ? NaN : Infinity);
            // The first rows of the window of the second sequence are in its fourth page.
            const isLimited = "window" in given;
            const tables = [[[3, 1, 2, 4, 5, 6], [1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 1, 1]], [
              [3, -5, 2 ** 31 - 1, 0, 11, -(2 ** 31)],
              isLimited ? [0, 11, -7, 4, 5, 99] : [1, 2, 3, 4, 5, 99],
              [99, 0, -1, 11, 0, 0],
            ]];
            const [expected, made] = [clean, dirty].map((data, i) => {
              const pool = stored(data, dtype);
              return nn.cachedAttention(...tokensOf(sizes), {
                ...{ keys: pool.slice(0), values: pool.slice(1), length: int32([3, 18, 0]) },
                pages: int32(tables[i]!),
              }, given);
            });
            assertBits(made, expected, `${dtype}, ${group}, ${m}, ${Object.keys(given)}`);
          }
        }
      }
    }));

  test(`numbers of pages out of range stand for the first and the last page, ${name}`, () =>
    using(on, () => {
      const sizes = { batch: 1, h: 2, hk: 2, m: 1, d: 32, dv: 32 };
      const pool = poolOf(5, 4, sizes, "float32"), tokens = tokensOf(sizes);
      const run = (pages: Any): Any =>
        nn.cachedAttention(...tokens, { ...pool, length: int32([12]), pages });
      const expected = run(int32([[0, 4, 2]]));
      assertBits(run(int32([[-5, 2 ** 31 - 1, 2]])), expected);
      assertBits(run(tensor([[-1n, 2n ** 40n, 2n]], { dtype: "int64" })), expected);
      assertBits(run(tensor([[0, 2 ** 32 - 1, 2]], { dtype: "uint32" })), expected);
    }));

  test(`new keys and values may be 16-bit floats beside queries of float32, ${name}`, () =>
    using(on, () => {
      for (const dtype of ["float16", "bfloat16"]) {
        for (const m of [1, 9]) {
          const sizes = { batch: 2, h: 4, hk: 2, m, d: 32, dv: 32 };
          const [q, k, v] = tokensOf(sizes, dtype);
          const cached = { ...poolOf(9, 4, sizes, dtype), length: int32([5, 11]) };
          const pages = int32(tableOf(2, 3, 9));
          const made = nn.cachedAttention(q, k, v, { ...cached, pages });
          assertEquals(made.dtype, "float32");
          const wide = [k, v].map((x) => x.astype("float32")) as [Any, Any];
          const expected = nn.cachedAttention(q, ...wide, { ...cached, pages });
          assertBits(made, expected, `${dtype}, ${m}`);
        }
      }
    }));
}

test("one program serves all lengths and tables", () => {
  const sizes = { batch: 2, h: 4, hk: 2, m: 1, d: 32, dv: 32 };
  const tokens = tokensOf(sizes), pool = poolOf(9, 4, sizes, "float16");
  for (const given of [{}, { sinks: normal(8, [4]), stepwise: true }] as Any[]) {
    const f = (q: Any, k: Any, v: Any, keys: Any, values: Any, length: Any, pages: Any): Any =>
      nn.cachedAttention(q, k, v, { keys, values, length, pages }, given);
    using program = compile(f);
    for (
      const [lengths, table] of [[[1, 9], tableOf(2, 3, 9)], [[0, 12], [[8, 7, 6], [1, 1, 2]]]]
    ) {
      const cached = [pool.keys, pool.values, int32(lengths!), int32(table as number[][])] as const;
      assertBits(program(...tokens, ...cached), f(...tokens, ...cached));
    }
    assertEquals(program.programs, 1);
  }
});

check("the number of threads does not show in sequences of many lengths", () => {
  using(native, () => {
    native.setShareAll(true);
    const lengths = [1, 1500, 20, 600, 0, 513], batch = lengths.length;
    for (const [h, hk] of [[4, 2], [8, 8], [16, 2]] as const) {
      for (const [m, stepwise] of [[1, false], [3, true], [20, false]] as const) {
        const sizes = { batch, h, hk, m, d: 64, dv: 64 };
        const pool = poolOf(30, 64, sizes, "float16"), tokens = tokensOf(sizes);
        const cached = { ...pool, length: int32(lengths), pages: int32(tableOf(batch, 24, 30)) };
        const [one, ...others] = [1, 2, 3].map((threads) => {
          native.setThreads(threads);
          return nn.cachedAttention(...tokens, cached, { stepwise });
        });
        others.forEach((other) => assertBits(other, one, `${h}, ${hk}, ${m}`));
      }
    }
  });
});
