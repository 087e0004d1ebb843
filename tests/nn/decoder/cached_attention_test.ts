/**
 * Attention to a cache of keys and values, against the definition in double precision: attention to
 * the keys of the cache that count, followed by the new ones.
 *
 * @module
 */
import { assertEquals, assertThrows, fail } from "@std/assert";
import { test } from "node:test";
import {
  ArgumentError,
  concat,
  type DType,
  DTypeError,
  ones,
  quantize,
  ShapeError,
  tensor,
  zeros,
} from "../../../mod.ts";
import { compile } from "../../../src/compile/mod.ts";
import * as nn from "../../../src/nn/mod.ts";
import { testOnBackends } from "../../compile/support.ts";
import { check, native } from "../../native/support.ts";
import { type CachedOptions, expectedOf, normal } from "../../ops/attention_reference.ts";
import { BACKENDS, using } from "../../ops/table/backends.ts";
import { type Any, assertRefused, asView, loose } from "../../support.ts";
import { once } from "../../support/once.ts";
import { numbers } from "../weights.ts";

/** Rows of a cache in its dtype; `x` is float32. */
function stored(x: Any, dtype: string): Any {
  return dtype === "q8_0" ? quantize(x, dtype) : x.astype(dtype);
}

/** The numbers of rows of a cache. */
function plain(x: Any): Any {
  return (x.dtype === "q8_0" ? x.to("cpu").dequantize() : x.to("cpu")).astype("float64");
}

/** The result for one sequence, [H, M, Dv], of operands on the CPU. */
function expectedOfOne(
  q: Any,
  k: Any,
  v: Any,
  keys: Any,
  values: Any,
  length: number,
  scale?: Any,
  options: CachedOptions = {},
) {
  const part = `:${Math.min(Math.max(0, length), keys.shape.at(-2))}`;
  const all = [keys, values].map((x, i) =>
    concat([plain(x).slice(":", part), plain(i === 0 ? k : v)], 1)
  ) as [Any, Any];
  return expectedOf(q, ...all, {
    ...{ causal: true, ...scale !== undefined && { scale } },
    ...options,
  });
}

/** Asserts that a result is as near to `expected` as its dtype and float32 allow. */
function assertNear(made: Any, expected: ArrayLike<number>, about: string): void {
  const error = { float16: 1e-3, bfloat16: 1.2e-2, float64: 1e-12 }[made.dtype as "float64"] ??
    1e-5;
  numbers(made).forEach((x, i) => {
    const off = Math.abs(x - expected[i]!);
    if (off <= error * Math.max(1, Math.abs(expected[i]!))) return;
    fail(`${about}: ${i} is ${off} off`);
  });
}

interface Sizes {
  readonly h: number;
  readonly hk: number;
  readonly m: number;
  readonly capacity: number;
  readonly d: number;
  readonly dv: number;
}

const ONE: Sizes = { h: 4, hk: 2, m: 3, capacity: 40, d: 32, dv: 64 };
const CASES: Sizes[] = [
  ...[1, 3, 17, 130].map((m) => ({ ...ONE, m, capacity: m > 100 ? 300 : 40 })),
  { ...ONE, h: 2, m: 1 },
  { ...ONE, h: 6, hk: 1, m: 2 },
  // Several blocks of keys.
  { ...ONE, hk: 1, m: 1, capacity: 1300 },
  { ...ONE, h: 2, hk: 1, m: 20, capacity: 600 },
];

/** Queries, keys and values of new tokens, and of the cache in float32. */
function operandsOf({ h, hk, m, capacity, d, dv }: Sizes, batch: number[] = []): Any[] {
  const tails = [[h, m, d], [hk, m, d], [hk, m, dv], [hk, capacity, d], [hk, capacity, dv]];
  return tails.map((tail, i) => normal(i + 1, [...batch, ...tail]));
}

const known = once<Float64Array>();

const count = (length: number | Any, device = "cpu"): Any =>
  tensor(length, { dtype: "int32", device: loose(device) });

for (const { name, on, exact, compiled } of BACKENDS) {
  test(`attends to as many keys as count, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const sizes of CASES) {
        const { m, capacity } = sizes;
        const [q, k, v, keys, values] = operandsOf(sizes);
        const large = m > 17 || capacity > 40;
        // Loops take long, above all interpreted ones.
        if (exact && (m === 130 || m > 3 && compiled === undefined)) continue;
        const dtypes = large ? ["float32", "q8_0"] : ["float32", "float16", "bfloat16", "q8_0"];
        for (const dtype of dtypes) {
          const cache = [keys, values].map((x) => stored(x, dtype));
          const there = cache.map((x) => x.to(device)) as [Any, Any];
          const own = [q, k, v].map((x) => x.to(device));
          const f = (q: Any, k: Any, v: Any, keys: Any, values: Any, length: Any): Any =>
            nn.cachedAttention(q, k, v, { keys, values, length });
          using program = compile(f);
          const half = capacity >> 1;
          for (const length of large ? [half + 1, capacity] : [0, 1, half, capacity, 999, -3]) {
            const about = `${dtype}, ${JSON.stringify(sizes)}, ${length}`;
            const made = f(own[0], own[1], own[2], ...there, count(length, device));
            assertEquals([made.shape, made.dtype], [[sizes.h, m, sizes.dv], "float32"], about);
            assertEquals(made.device, own[0].device);
            const expected = known(about, () => expectedOfOne(q, k, v, cache[0], cache[1], length));
            assertNear(made, expected, about);
            if (compiled === undefined) continue;
            const again = program(own[0], own[1], own[2], ...there, count(length, device));
            assertEquals(numbers(again), numbers(made), `${about}, compiled`);
          }
          if (compiled !== undefined) assertEquals(program.programs, 1);
        }
      }
    }));

  test(`16-bit and wide floats, views, a scale, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const [q, k, v, keys, values] = operandsOf(ONE);
      for (const dtype of ["float16", "bfloat16", "float32", "float64"] as DType[]) {
        const own = [q, k, v].map((x) => x.astype(dtype).to(device));
        const cache = [keys, values].map((x) => x.astype("float16").to(device));
        const views = (all: Any[]): Any[] => all.map((x) => asView(x));
        for (const [a, b] of [[own, cache], [views(own), cache], [own, views(cache)]] as Any[][]) {
          for (const scale of [undefined, 0.5]) {
            const made = nn.cachedAttention(
              ...[a[0], a[1], a[2]] as [Any, Any, Any],
              { keys: b[0], values: b[1], length: count(9, device) },
              { ...scale !== undefined && { scale } },
            );
            assertEquals(made.dtype, dtype);
            const [x, y, z] = own.map((one) => one.to("cpu")) as [Any, Any, Any];
            const expected = expectedOfOne(x, y, z, cache[0], cache[1], 9, scale);
            assertNear(made, expected, `${dtype}, ${scale}`);
          }
        }
      }
    }));

  test(`windows, limits of scores and sinks, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const sizes of [ONE, ...CASES]) {
        const { h, m, capacity } = sizes;
        if (exact && (m > 17 || m > 3 && compiled === undefined)) continue;
        const [q, k, v, keys, values] = operandsOf(sizes);
        const cache = [keys, values].map((x) => stored(x, "float16"));
        const own = [q, k, v, ...cache].map((x) => x.to(device)) as [Any, Any, Any, Any, Any];
        const sinks = normal(7, [h]).mul(4).add(2);
        const kinds: CachedOptions[] = [
          ...[{ window: 1 }, { window: 7 }, { window: 300 }, { window: 2 ** 40 }, { softCap: 0.5 }],
          ...[{ sinks }, { sinks: sinks.sub(9) }, { window: 5, softCap: 2, sinks }],
        ];
        for (const length of [0, capacity - 3, capacity + 2, -1]) {
          for (const one of capacity > 300 ? kinds.slice(1, 3).concat(kinds.slice(-1)) : kinds) {
            const about = `${JSON.stringify(sizes)}, ${length}, ${Object.keys(one)} ${one.window}`;
            const given = { ...one, ...one.sinks && { sinks: one.sinks.to(device) } };
            const f = (q: Any, k: Any, v: Any, keys: Any, values: Any, length: Any): Any =>
              nn.cachedAttention(q, k, v, { keys, values, length }, given);
            const made = f(...own, count(length, device));
            const expected = known(`${about} ${one.sinks?.slice(0).item()}`, () =>
              expectedOfOne(q, k, v, cache[0], cache[1], length, undefined, one));
            assertNear(made, expected, about);
            if (compiled === undefined) {
              continue;
            }
            using program = compile(f);
            const again = program(...own, count(length, device));
            assertNear(again, expected, `${about}, compiled`);
          }
        }
      }
    }));

  test(`16-bit and wide floats with windows, limits and sinks, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const [q, k, v, keys, values] = operandsOf(ONE, [2]);
      const options = { window: 6, softCap: 3, sinks: normal(8, [ONE.h]) };
      for (const dtype of ["float16", "bfloat16", "float32", "float64"] as DType[]) {
        const own = [q, k, v].map((x) => x.astype(dtype));
        const cache = [keys, values].map((x) => stored(x, "q8_0"));
        const lengths = tensor([4, 11], { dtype: "int32" });
        const made = loose(nn.cachedAttention(
          ...own.map((x) => x.to(device)) as [Any, Any, Any],
          {
            ...{ keys: cache[0]!.to(device), values: cache[1]!.to(device) },
            length: lengths.to(device as "cpu"),
          },
          { ...options, sinks: options.sinks.to(device) },
        )).to("cpu");
        assertEquals(made.dtype, dtype);
        for (const i of [0, 1]) {
          const at = [...own, ...cache].map((x) => x.slice(i)) as [Any, Any, Any, Any, Any];
          const expected = expectedOfOne(...at, lengths.toArray()[i]!, undefined, options);
          assertNear(made.slice(i), expected, dtype);
        }
      }
    }));

  test(`layers of a cache are views, with heads and rows after them, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const { h, hk, m, d } = ONE;
      for (const dtype of ["float32", "bfloat16", "q8_0"]) {
        const data = stored(normal(9, [3, 2, hk, 16, d]), dtype).to(device);
        const [q, k, v] = [[h, m, d], [hk, m, d], [hk, m, d]].map((shape, i) => normal(i, shape));
        const [keys, values] = [data.slice(1, 0), data.slice(1, 1)];
        const made = nn.cachedAttention(
          ...[q, k, v].map((x) => x.to(device)) as [Any, Any, Any],
          { keys, values, length: count(7, device) },
        );
        assertNear(made, expectedOfOne(q, k, v, keys, values, 7), dtype);
        // Rows of a cache may be a part of longer ones.
        const [some, same] = [keys, values].map((x) => x.slice(":", "2:11")) as [Any, Any];
        const part = nn.cachedAttention(
          ...[q, k, v].map((x) => x.to(device)) as [Any, Any, Any],
          { keys: some, values: same, length: count(6, device) },
        );
        assertNear(part, expectedOfOne(q, k, v, some, same, 6), `${dtype}, part`);
      }
    }));

  test(`sequences of a batch have lengths of their own, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const m of [1, 2, 9]) {
        const [q, k, v, keys, values] = operandsOf({ ...ONE, m, capacity: 12 }, [2, 2]);
        const lengths = [[0, 5], [12, 40]];
        for (const dtype of ["float32", "float16", "q8_0"]) {
          const cache = [keys, values].map((x) => stored(x, dtype));
          const kinds = m === 1 && dtype === "float32" ? ["int64", "uint8", "int32"] : ["int32"];
          for (const kind of kinds as DType[]) {
            for (const shared of [false, true]) {
              const given: Any = shared
                ? tensor(7, { dtype: kind })
                : tensor(lengths, { dtype: kind });
              const length = shared ? given : given.T.copy().T;
              const made = loose(nn.cachedAttention(
                ...[q, k, v].map((x) => x.to(device)) as [Any, Any, Any],
                {
                  ...{ keys: cache[0].to(device), values: cache[1].to(device) },
                  length: length.to(device),
                },
              )).to("cpu");
              for (const [a, b] of [[0, 0], [0, 1], [1, 0], [1, 1]] as const) {
                const at = [q, k, v, ...cache].map((x) => x.slice(a, b));
                const own = shared ? 7 : lengths[a]![b]!;
                const expected = known(`${dtype}, ${m}, ${a}, ${b}, ${own}`, () =>
                  expectedOfOne(
                    ...at as [Any, Any, Any, Any, Any],
                    own,
                  ));
                assertNear(made.slice(a, b), expected, `${dtype}, ${kind}, ${m}, ${a}, ${b}`);
              }
            }
          }
        }
      }
    }));

  test(`sequences have pages of one pool, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const { h, hk, d } = ONE, rows = 4;
      const lengths = [0, 5, 12], table = [[9, -1, 3], [4, 0, 6], [6, 2, 4]];
      for (const dtype of ["float32", "float16", "q8_0"]) {
        const pool = stored(normal(3, [2, 7, hk, rows, d]), dtype);
        for (const m of [1, 3]) {
          const own = [[3, h, m, d], [3, hk, m, d], [3, hk, m, d]].map((s, i) => normal(i, s));
          for (const options of [{}, { window: 6, softCap: 2, sinks: normal(8, [h]) }]) {
            const given = { ...options, ...options.sinks && { sinks: options.sinks.to(device) } };
            const made = loose(nn.cachedAttention(
              ...own.map((x) => x.to(device)) as [Any, Any, Any],
              {
                keys: pool.slice(0).to(device),
                values: pool.slice(1).to(device),
                length: count(lengths, device),
                pages: count(table, device),
              },
              given,
            )).to("cpu");
            lengths.forEach((length, i) => {
              const [keys, values] = [0, 1].map((k) =>
                concat(
                  table[i]!.map((page) => plain(pool.slice(k, Math.max(0, Math.min(6, page))))) as [
                    Any,
                  ],
                  1,
                )
              ) as [Any, Any];
              const [q, k, v] = own.map((x) => x.slice(i)) as [Any, Any, Any];
              const expected = expectedOfOne(q, k, v, keys, values, length, undefined, options);
              assertNear(made.slice(i), expected, `${dtype}, ${m}, ${i}`);
            });
          }
        }
      }
    }));

  test(`rows beyond the length have no influence, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (
        const [dtype, garbage] of [
          ...[["float32", 3e38], ["float32", NaN], ["float16", 65504], ["float16", -Infinity]],
          ...[["q8_0", 1e6], ["q8_0", NaN]],
        ] as const
      ) {
        for (const m of [1, 17]) {
          const [q, k, v, keys, values] = operandsOf({ ...ONE, m });
          const both = [keys, values].map((x) => {
            const worse = x.copy();
            worse.set([":", "11:"], garbage);
            return [stored(x, dtype), stored(worse, dtype)].map((one) => one.to(device));
          });
          const [clean, dirty] = [0, 1].map((i) =>
            numbers(nn.cachedAttention(
              ...[q, k, v].map((x) => x.to(device)) as [Any, Any, Any],
              { keys: both[0]![i], values: both[1]![i], length: count(11, device) },
            ))
          );
          assertEquals(dirty, clean, `${dtype}, ${m}`);
        }
      }
    }));
}

testOnBackends("programs off the event loop give the same bits", async () => {
  using f = compile((q: Any, k: Any, v: Any, keys: Any, values: Any, length: Any) =>
    nn.cachedAttention(q, k, v, { keys, values, length })
  );
  for (const m of [1, 17]) {
    const [q, k, v, keys, values] = operandsOf({ ...ONE, m });
    for (const dtype of ["float32", "float16", "q8_0"]) {
      const cache = [stored(keys, dtype), stored(values, dtype)] as const;
      for (const length of [0, 13]) {
        const made = await f.async(q, k, v, ...cache, count(length));
        const expected = nn.cachedAttention(q, k, v, {
          ...{ keys: cache[0], values: cache[1], length: count(length) },
        });
        assertEquals(numbers(made), numbers(expected), `${m}, ${dtype}, ${length}`);
      }
    }
  }
});

check("the number of threads does not show", () => {
  using(native, () => {
    native.setShareAll(true);
    for (
      const [m, capacity, dtype] of [[1, 1300, "q8_0"], [1, 600, "float32"], [
        130,
        300,
        "float16",
      ]] as const
    ) {
      const [q, k, v, keys, values] = operandsOf({ ...ONE, m, capacity });
      const cache = { keys: stored(keys, dtype), values: stored(values, dtype) };
      const [one, ...others] = [1, 2, 3].map((threads) => {
        native.setThreads(threads);
        return numbers(nn.cachedAttention(q, k, v, { ...cache, length: count(capacity - 7) }));
      });
      others.forEach((other) => assertEquals(other, one, `${m}, ${dtype}`));
    }
  });
});

test("no queries and no columns of values have no result", () => {
  const [keys, values] = [ones([2, 4, 8]), ones([2, 4, 6])];
  const cached = { keys, values, length: count(3) };
  const none = nn.cachedAttention(ones([4, 0, 8]), ones([2, 0, 8]), ones([2, 0, 6]), cached);
  assertEquals(none.shape, [4, 0, 6]);
  const empty = { ...cached, values: ones([2, 4, 0]) };
  const narrow = nn.cachedAttention(ones([4, 1, 8]), ones([2, 1, 8]), ones([2, 1, 0]), empty);
  assertEquals(narrow.shape, [4, 1, 0]);
});

test("operands that do not fit are refused", () => {
  const fits = { q: ones([4, 3, 8]), k: ones([2, 3, 8]), v: ones([2, 3, 6]) };
  const cached = { keys: ones([2, 5, 8]), values: ones([2, 5, 6]), length: count(2) };
  const given = (changes: Any, options?: Any) => () => {
    const { q, k, v, ...rest } = { ...fits, ...cached, ...changes };
    return nn.cachedAttention(q, k, v, rest, options);
  };
  given({})();
  const shapes: [Any, string[]][] = [
    [{ q: ones([3, 8]) }, ["[3, 8]", "at least 3 axes"]],
    [{ q: ones([3, 3, 8]) }, ["3 heads", "2 heads"]],
    [{ q: ones([4, 2, 8]) }, ["2 queries", "3 keys"]],
    [{ q: ones([4, 3, 7]) }, ["[2, 3, 8]", "[2, 3, 7]"]],
    [{ q: ones([1, 4, 3, 8]) }, ["axes before the heads"]],
    [{ v: ones([2, 2, 6]) }, ["[2, 2, 6]", "[2, 3, 6]"]],
    [{ v: ones([1, 3, 6]) }, ["[1, 3, 6]"]],
    [{ keys: ones([2, 5, 7]) }, ["[2, 5, 7]", "[2, 5, 8]"]],
    [{ keys: ones([1, 5, 8]) }, ["[1, 5, 8]"]],
    [{ values: ones([2, 4, 6]) }, ["[2, 4, 6]", "[2, 5, 6]"]],
    [{ values: ones([2, 5, 8]) }, ["[2, 5, 8]", "[2, 5, 6]"]],
    [{ k: ones([0, 3, 8]) }, ["0 heads"]],
    [{ keys: ones([2, 0, 8]), values: ones([2, 0, 6]) }, ["no room"]],
    [{ length: count(1).reshape([1]) }, ["[1]", "[]"]],
  ];
  for (const [changes, parts] of shapes) {
    assertRefused(given(changes), ShapeError, ["cachedAttention", ...parts]);
  }
  const paged = { keys: ones([7, 2, 5, 8]), values: ones([7, 2, 5, 6]), pages: count([1, 2]) };
  given(paged)();
  const pages: [Any, string[]][] = [
    [{ keys: ones([2, 5, 8]) }, ["[2, 5, 8]", "4 axes of pages"]],
    [{ values: ones([1, 7, 2, 5, 6]) }, ["[1, 7, 2, 5, 6]", "4 axes of pages"]],
    [{ values: ones([6, 2, 5, 6]) }, ["7 pages of keys and 6 of values"]],
    [{ keys: ones([7, 1, 5, 8]) }, ["[7, 1, 5, 8]", "[2, 5, 8]"]],
    [{ values: ones([7, 2, 4, 6]) }, ["[7, 2, 4, 6]", "[2, 5, 6]"]],
    [{ pages: count(1) }, ["[P], got []"]],
    [{ pages: count([[1, 2]]) }, ["[P], got [1, 2]"]],
    [{ pages: count([]) }, ["no room"]],
    [{ keys: ones([0, 2, 5, 8]), values: ones([0, 2, 5, 6]) }, ["no pages"]],
  ];
  for (const [changes, parts] of pages) {
    assertRefused(given({ ...paged, ...changes }), ShapeError, ["cachedAttention", ...parts]);
  }
  for (const pages of [ones([2]), tensor([true, false])]) {
    const refused = given({ ...paged, pages });
    assertRefused(refused, DTypeError, ["cachedAttention", "pages", pages.dtype, "integers"]);
  }
  assertThrows(given({ ...paged, pages: [1, 2] }), TypeError, "cachedAttention");
  assertRefused(given({}, { stepwise: 1 }), ArgumentError, ["cachedAttention", "stepwise"]);
  for (const window of [0, -1, 1.5, NaN, "3"]) {
    assertRefused(given({}, { window }), ArgumentError, ["cachedAttention", "window"]);
  }
  for (const softCap of [0, -1, NaN, "3", 1e-60, 1e60]) {
    assertRefused(given({}, { softCap }), ArgumentError, ["cachedAttention", "softCap"]);
  }
  const sinks = { sinks: ones([2]) };
  assertRefused(given({}, sinks), ShapeError, ["cachedAttention", "[4]", "[2]"]);
  const whole = { sinks: ones([4], { dtype: "int32" }) };
  assertRefused(given({}, whole), DTypeError, ["cachedAttention", "int32"]);
  const blocks = quantize(ones([2, 5, 32]), "q4_0");
  const dtypes: [Any, string[]][] = [
    [{ length: ones([]) }, ["float32", "integers"]],
    [{ length: tensor(true) }, ["bool", "integers"]],
    [{ q: ones([4, 3, 8], { dtype: "int32" }) }, ["int32"]],
    [{ keys: ones([2, 5, 8], { dtype: "int8" }) }, ["int8"]],
    [{ q: blocks }, ["q4_0"]],
  ];
  for (const [changes, parts] of dtypes) {
    assertRefused(given(changes), DTypeError, ["cachedAttention", ...parts]);
  }
  assertRefused(given({}, { scale: "1" }), ArgumentError, ["cachedAttention", '"1"']);
  assertThrows(given({}, { causal: true }), TypeError, "causal");
  assertThrows(given({ length: 2 }), TypeError, "cachedAttention");
  assertThrows(given({ length: undefined }), TypeError, "cachedAttention");
  for (const key of ["q", "keys", "length", "pages"]) {
    const elsewhere = zeros([], { device: "mirror" as never });
    assertThrows(given({ [key]: elsewhere }), Error, "mirror");
  }
  assertThrows(
    () => nn.cachedAttention(fits.q, fits.k, fits.v, loose({ ...cached, mask: 1 })),
    TypeError,
    "mask",
  );
});

test("other quantized dtypes attend like their numbers", () => {
  const { q, k, v } = {
    q: normal(1, [2, 3, 32]),
    k: normal(2, [1, 3, 32]),
    v: normal(3, [1, 3, 32]),
  };
  const [keys, values] = [normal(4, [1, 9, 32]), normal(5, [1, 9, 32])]
    .map((x) => quantize(x, "q4_0")) as [Any, Any];
  const made = nn.cachedAttention(q, k, v, { keys, values, length: count(5) });
  const cached = { keys: keys.dequantize(), values: values.dequantize(), length: count(5) };
  assertNear(made, numbers(nn.cachedAttention(q, k, v, cached)), "q4_0");
});
