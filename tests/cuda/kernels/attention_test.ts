/**
 * Attention of 16-bit floats by tensor cores, on the emulator or a real device, against sums in
 * double precision: sizes around those of tiles, causal limits, masks, grouped heads, layouts, and
 * numbers that are not finite. `npm test` takes half of the sizes, and of the masks that hide keys.
 *
 * An element may differ by the rounding of the result and of the weights to 16 bits, each by half
 * of finfo().eps, and by the rounding of scores to 32 bits.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { type DType, finfo, full, ones, where, zeros } from "../../../mod.ts";
import { setBusyBlocks } from "../../../src/backend/cuda/attention.ts";
import { CudaDevice } from "../../../src/backend/cuda/device.ts";
import { compile } from "../../../src/compile/mod.ts";
import { attention, type AttentionOptions } from "../../../src/ops/attention/op.ts";
import { type Any, asView, loose } from "../../support.ts";
import { expectedOf, normal, numbersOf, operands } from "../../ops/attention_reference.ts";
import { isSampled, RUNS_ALL } from "../../support/amount.ts";
import { openCudaForTests, whyNoCuda } from "../support/device.ts";
import { assertListed, recordKernels } from "../support/kernels.ts";

const reason = whyNoCuda();
const launched = recordKernels();
const DTYPES = ["bfloat16", "float16"] as const;

const there = (x: Any): Any => x.to("cuda");
const same = (x: Any): Any => x;

/** The names of kernels that `run` asks for. */
function kernelsOf(run: () => void): string[] {
  const names: string[] = [];
  const { find } = CudaDevice.prototype;
  CudaDevice.prototype.find = function (name, ...rest) {
    names.push(name);
    return find.call(this, name, ...rest);
  };
  try {
    run();
  } finally {
    CudaDevice.prototype.find = find;
  }
  return names;
}

/**
 * Compares the kernel for `columns` columns with the definition. `layout` changes the layout of
 * operands on the device; with `many`, also the kernel with more queries in each block.
 */
function check(
  about: string,
  [q, k, v]: readonly [Any, Any, Any],
  columns: number,
  options: AttentionOptions = {},
  layout: (x: Any) => Any = same,
  scores?: number,
  many = false,
): void {
  const mask: Any = options.mask;
  const expected = expectedOf(q, k, v, options), sizes = expectedOf(q, k, v.abs(), options);
  const given = mask === undefined ? options : { ...options, mask: layout(there(mask)) };
  let made: Any;
  const [x, y, z] = [q, k, v].map((one) => layout(there(one)));
  const names = kernelsOf(() => made = attention(x, y, z, given));
  const kernel = `attention_${v.dtype}_${columns}`;
  const name = `${kernel}_${mask === undefined ? "few" : "mask"}`;
  assert(names.includes(name), `${about}: ${names} instead of ${name}`);
  assertEquals([...made.shape], [...q.shape.slice(0, -1), v.shape.at(-1)]);
  if (many) {
    const before = setBusyBlocks(0);
    let other: Any;
    assertEquals(kernelsOf(() => other = attention(x, y, z, given))[0], kernel);
    setBusyBlocks(before);
    const [one, two] = [made, other].map((result) => result.to("cpu").toTypedArray());
    assertEquals(one, two, `${about}: other blocks give other bits`);
  }
  compare(about, made, expected, sizes, scores);
  for (const one of [x, y, z, made]) one.dispose();
}

/** `sizes` are the sums of sizes of terms, `scores` the error of scores. */
function compare(
  about: string,
  made: Any,
  expected: Float64Array,
  sizes: Float64Array,
  scores = 3e-5,
): void {
  const { eps } = finfo(made.dtype);
  const actual = numbersOf(made.to("cpu"));
  for (const [i, want] of expected.entries()) {
    const is = actual[i]!;
    if (Object.is(want, is)) continue;
    const bound = eps / 2 * Math.abs(want) + (eps / 2 + scores) * sizes[i]! + 1e-7;
    assert(Math.abs(is - want) <= bound, `${about}: element ${i} is ${is}, not ${want}`);
  }
}

function run(): void {
  openCudaForTests({ apart: true });

  for (const dtype of DTYPES) {
    test(`attention, ${dtype}: sizes around those of tiles, with and without a causal limit`, () => {
      for (
        const [i, [m, n, d, dv, columns]] of ([
          [1, 1, 8, 8, 32],
          [2, 63, 16, 32, 32],
          [15, 64, 32, 24, 32],
          [16, 65, 40, 64, 64],
          [17, 129, 64, 64, 64],
          [129, 127, 64, 56, 64],
          [127, 200, 72, 80, 80],
          [33, 70, 96, 8, 96],
          [65, 130, 88, 96, 96],
          [64, 128, 128, 128, 128],
          [70, 65, 104, 128, 128],
        ] as const).entries()
      ) {
        for (const causal of [false, true]) {
          // Each size once for each dtype.
          if (!RUNS_ALL && causal !== ((i + DTYPES.indexOf(dtype)) % 2 === 0)) continue;
          const all = operands([], [2, 2], [m, n, d, dv], dtype);
          check(
            `${[m, n, d, dv]}, causal ${causal}`,
            all,
            columns,
            { causal },
            same,
            undefined,
            true,
          );
        }
      }
    });

    test(`attention, ${dtype}: masks of every kind, broadcast along each axis`, () => {
      const [b, h, m, n] = [2, 2, 5, 70];
      const all = operands([b], [h, h], [m, n, 8, 8], dtype);
      const shapes = [[n], [m, 1], [m, n], [h, 1, 1], [b, 1, 1, n], [b, h, m, n], []];
      for (const kind of ["bool", dtype, "float32", "float64"] as const) {
        for (const shape of shapes) {
          const some: Any = normal(4, shape);
          const mask = kind === "bool" ? some.greater(-0.5) : some.astype(kind);
          if (kind === "bool" && shape.at(-1) === n) mask.set(["...", 0], true);
          check(`mask ${kind} ${shape}`, all, 32, { mask, causal: shape.length === 2 });
        }
      }
      for (const columns of [64, 80, 96, 128]) {
        const wide = operands([], [1, 1], [40, 90, columns, columns], dtype);
        check(`mask, ${columns} columns`, wide, columns, { mask: normal(4, [40, 90]) });
      }
    });
  }

  test("attention: grouped heads and axes before them", () => {
    for (const [batch, h, hk] of [[[2], 6, 2], [[2, 3], 4, 1], [[3, 1, 2], 4, 2]] as const) {
      const all = operands(batch, [h, hk], [3, 9, 16, 8], "bfloat16");
      check(`${h} heads over ${hk}`, all, 32, { causal: true });
      check(`${h} heads over ${hk}, a mask per head`, all, 32, { mask: normal(5, [h, 1, 9]) });
      const mask = normal(6, [batch.at(-1)!, 1, 3, 9]).less(0.9);
      mask.set(["...", 0], true);
      check(`${h} heads over ${hk}, a mask per query`, all, 32, { mask });
    }
    const [q, k, v] = operands([2, 3], [4, 2], [5, 6, 8, 8], "bfloat16");
    const [oneK, oneV] = [k.slice("1:"), v.slice(0, "1:2")];
    const wide = [oneK.broadcastTo(k.shape), oneV.broadcastTo(v.shape)] as const;
    const made = attention(there(q), there(oneK), there(oneV));
    compare("axes broadcast", made, expectedOf(q, ...wide), expectedOf(q, wide[0], wide[1].abs()));
  });

  test("attention: more axes of the batch than a launch has room for", () => {
    const [q, k, v] = operands([2, 2, 2, 3], [4, 2], [2, 3, 8, 8], "bfloat16");
    const turned = (x: Any): Any => x.permute(3, 2, 1, 0, 4, 5, 6);
    const [x, y, z] = [q, k, v].map(turned);
    check("turned axes", [x, y, z], 32, {}, (one) => turned(turned(one).copy()));
  });

  test("attention: layouts, of which some are copied first", () => {
    const layouts: Record<string, (x: Any) => Any> = {
      "rows of heads": (x) => x.permute(0, 2, 1, 3).copy().permute(0, 2, 1, 3),
      "every second element, reversed": asView,
      "columns as rows": (x) => x.mT.copy().mT,
      "odd offsets": (x) => {
        const wide = loose(
          zeros(x.shape.map((s: number) => s + 3), { dtype: x.dtype, device: x.device }),
        );
        const part = wide.slice(...x.shape.map((s: number) => `1:${s + 1}`));
        part.set(["..."], x);
        return part;
      },
    };
    const mask = normal(4, [1, 2, 20, 70]);
    const all = operands([2], [2, 2], [20, 70, 16, 32], "float16");
    const [expected, sizes] = [all[2], all[2].abs()].map((v) =>
      expectedOf(all[0], all[1], v, { mask })
    ) as [Float64Array, Float64Array];
    const [q, k, v, shown] = [...all, mask].map(there);
    let bits: unknown;
    for (const [about, layout] of Object.entries(layouts)) {
      check(about, all, 32, { mask }, layout);
      const out = layout(there(full([2, 2, 20, 32], 7, { dtype: "float16" })));
      const made: Any = attention(q, k, v, { mask: shown, out });
      assert(made === out);
      compare(`into ${about}`, out, expected, sizes);
      const others = attention(layout(q), layout(k), layout(v), { mask: layout(shown) });
      const elements = loose(others).to("cpu").toTypedArray();
      assertEquals(elements, bits ??= elements, `${about} gives other bits`);
    }
    const [x, wanted] = [q.copy(), expectedOf(all[0], all[0], all[0])];
    attention(x, x, x, { out: x });
    compare("in place", x, wanted, expectedOf(all[0], all[0], all[0].abs()));
  });

  test("attention: hidden keys, far scores, scales of any sign", () => {
    for (const dtype of DTYPES) {
      const [q, k, v] = operands([2], [2, 2], [5, 150, 8, 8], dtype);
      const all = [q, k, v] as const;
      // The maximum grows from tile to tile, or is in one of them.
      const rising = loose(ones([150])).cumulativeSum().mul(0.1);
      check("rising keys", all, 32, { mask: rising });
      check("falling keys", all, 32, { mask: rising.neg() });
      check("the last keys", all, 32, { mask: rising.greater(14.2) });
      check("the first keys", all, 32, { mask: rising.less(0.2) });
      const far: Any = normal(7, [150]);
      far.set([3], -Infinity);
      far.set([4], -1e30);
      check("hidden by -Infinity", all, 32, { mask: far });
      far.set([100], 3e38);
      check("a mask of 3e38", all, 32, { mask: far });
      // Scores up to 2000.
      check("far scores", [q.mul(15), k.mul(15), v], 32, {}, same, 1e-3);
      for (const scale of [-0.5, -3, 1e-30, 2]) check(`scale ${scale}`, all, 32, { scale });
      const none = loose(full([150], false));
      for (const mask of [none, full([5, 1], -Infinity)]) {
        check("nothing is visible", all, 32, { mask });
      }
    }
    for (const [m, n] of [[5, 2], [40, 7], [150, 20], [3, 1], [200, 70]] as const) {
      check(`${m} queries of ${n} keys`, operands([1], [2, 1], [m, n, 8, 8], "bfloat16"), 32, {
        causal: true,
      });
    }
  });

  test("attention: NaN and infinite scores make their row NaN, and no other one", () => {
    for (const dtype of DTYPES) {
      for (const n of [30, 130]) {
        for (const bad of [NaN, Infinity, -Infinity]) {
          const [q, k, v] = operands([], [2, 2], [20, n, 8, 8], dtype);
          q.set([1, 1, 3], bad);
          check(`${bad}`, [q, k, v], 32);
          check(`${bad}, causal`, [q, k, v], 32, { causal: true }, same, undefined, true);
          check(`${bad}, masked`, [q, k, v], 32, { mask: normal(3, [n]) });
        }
        const [q, k, v] = operands([], [2, 2], [20, n, 8, 8], dtype);
        const mask: Any = normal(3, [20, n]);
        mask.set([2, n - 1], Infinity);
        mask.set([3, 0], NaN);
        check("a mask that is not finite", [q, k, v], 32, { mask });
      }
    }
  });

  test("attention: hidden keys and values do not matter, whatever they are", () => {
    const cases = [
      ["bfloat16", 20, 70],
      ["bfloat16", 1, 5],
      ["float16", 20, 70],
      ["float32", 20, 70],
      ["float64", 3, 5],
    ] as const;
    for (const [dtype, m, n] of cases) {
      const [q, k, v] = operands([2], [4, 2], [m, n, 8, 16], dtype);
      const hidden = loose(normal(8, [2, 1, m, n])).less(-0.3);
      hidden.set(["...", 0], false);
      hidden.set(["...", n - 2], true);
      hidden.set([0, 0, 0], true);
      for (const bad of [NaN, Infinity]) {
        for (const one of [k, v]) one.set(["...", n - 2, ":"], bad);
        // Some queries see this one.
        v.set(["...", 2, 1], bad);
        for (const mask of [hidden.logicalNot(), where(hidden, -Infinity, 0).astype(dtype)]) {
          for (const causal of [false, true]) {
            const about = `${bad} among ${dtype}, ${m} of ${n}, ${mask.dtype}, ${causal}`;
            if (!isSampled(about, 2)) continue;
            const options = { mask: loose(mask), causal };
            const expected = expectedOf(q, k, v, options);
            const sizes = expectedOf(q, k, v.abs(), options).map((x) => Number.isFinite(x) ? x : 0);
            const given = { ...options, mask: there(mask) };
            const [x, y, z] = [q, k, v].map(there);
            compare(about, attention(x, y, z, given), expected, sizes);
            // Recorded too.
            if (!causal) continue;
            using f = compile((x: Any, y: Any, z: Any): Any => attention(x.neg(), y, z, given));
            for (let round = 0; round < 2; round++) {
              compare(`${about}, compiled`, f(x.neg(), y, z), expected, sizes);
            }
          }
        }
      }
    }
  });

  test("attention: in programs, which are recorded as graphs", () => {
    const all = operands([2], [4, 2], [6, 9, 8, 16], "bfloat16");
    const mask = normal(4, [2, 1, 6, 9]).greater(-1);
    mask.set(["...", 0], true);
    const f = compile((q: Any, k: Any, v: Any, m: Any): Any =>
      loose(attention(q.neg(), k, v, { mask: m, causal: true })).neg()
    );
    const negated = [all[0].neg(), all[1], all[2].neg()] as const;
    const options = { mask, causal: true };
    const expected = expectedOf(...negated, options);
    const sizes = expectedOf(negated[0], negated[1], negated[2].abs(), options);
    const given = [...all, mask].map(there);
    for (let round = 0; round < 3; round++) {
      compare(`round ${round}`, f(...given as [Any, Any, Any, Any]), expected, sizes);
    }
    assertEquals(f.explain().map(({ data }) => data.executor), ["graph"]);
    f.dispose();
  });

  test("attention: what the kernels do not take is decomposed", () => {
    const decomposed = (about: string, all: readonly [Any, Any, Any], options = {}): void => {
      let made: Any;
      const names = kernelsOf(() =>
        made = attention(...all.map(there) as [Any, Any, Any], options)
      );
      assert(!names.some((name) => name.startsWith("attention")), `${about}: ${names}`);
      compare(
        about,
        made,
        expectedOf(...all, options),
        expectedOf(all[0], all[1], all[2].abs(), options),
      );
    };
    const of = (sizes: [number, number, number, number], dtype: DType = "bfloat16") =>
      operands([], [1, 1], sizes, dtype);
    decomposed("float32", of([3, 4, 8, 8], "float32"));
    decomposed("9 columns", of([3, 4, 9, 8]));
    decomposed("136 columns", of([3, 4, 136, 8]));
    decomposed("a scale of 0", of([3, 4, 8, 8]), { scale: 0 });
    decomposed("few problems with many keys", of([1, 2049, 8, 8]));
    const { get } = Object.getOwnPropertyDescriptor(CudaDevice.prototype, "capability")!;
    Object.defineProperty(CudaDevice.prototype, "capability", {
      get: () => 75,
      configurable: true,
    });
    try {
      decomposed("an old device", of([3, 4, 8, 8]));
    } finally {
      Object.defineProperty(CudaDevice.prototype, "capability", { get, configurable: true });
    }
  });

  test("attention: the kernels are those that are compiled for all architectures", () => {
    assertListed(launched, 30);
  });
}

if (reason === undefined) run();
else test(`attention on CUDA (${reason})`, { skip: true }, () => {});
