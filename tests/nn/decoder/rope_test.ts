/**
 * Rotary positions: angles as transformers computes them (tests/golden/llm.json), and how they turn
 * columns, against the definition in double precision.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { ArgumentError, type DType, DTypeError, ones, ShapeError, zeros } from "../../../mod.ts";
import { compile } from "../../../src/compile/mod.ts";
import * as nn from "../../../src/nn/mod.ts";
import { BACKENDS, using } from "../../ops/table/backends.ts";
import { floatsOf, golden } from "../../llm/models.ts";
import { type Any, assertRefused, asView, loose } from "../../support.ts";
import { assertNear, normal, numbers } from "../weights.ts";

const POSITIONS = [0, 1, 2, 63, 64, 200];

/** The scaling of `rope_parameters`, as options of ropeAngles. */
function scalingOf(given: Readonly<Record<string, Any>>, context: number): Any {
  const { rope_type: type, original_max_position_embeddings: originalLength = context } = given;
  if (type === "default") return undefined;
  if (type === "linear") return { type, factor: given.factor };
  return {
    ...{ type, originalLength, factor: given.factor, attentionFactor: given.attention_factor },
    ...type === "dynamic" && { attentionFactor: undefined },
    ...type === "llama3" && {
      lowFrequencyFactor: given.low_freq_factor,
      highFrequencyFactor: given.high_freq_factor,
    },
    ...type === "yarn" && { betaFast: given.beta_fast, betaSlow: given.beta_slow },
    ...type === "longrope" && {
      shortFactors: given.short_factor,
      longFactors: given.long_factor,
      factor: given.factor ?? context / originalLength,
    },
  };
}

for (const one of golden.ropes) {
  test(`angles as transformers: ${one.name}`, () => {
    const { dimensions, base, parameters, context, factor, length } = one;
    const frequencies = floatsOf(one.frequencies);
    // The last position makes the sequence as long as that of the golden data.
    const positions = length === null
      ? POSITIONS
      : [...POSITIONS.filter((at) => at < length), length - 1];
    const { cos, sin } = nn.ropeAngles(positions, {
      ...{ dimensions, base, scaling: scalingOf(parameters, context) },
    }) as Any;
    assertEquals([cos.shape, cos.dtype], [[positions.length, dimensions / 2], "float32"]);
    const [x, y] = [numbers(cos), numbers(sin)];
    positions.forEach((position, row) => {
      frequencies.forEach((frequency, i) => {
        const angle = position * frequency, at = row * frequencies.length + i;
        // transformers rounds frequencies to float32, and the powers of bases before them.
        const bound = factor * (2e-7 + 1e-6 * angle);
        const about = `${i} at ${position}`;
        assert(Math.abs(x[at]! - factor * Math.cos(angle)) <= bound, `cos ${about}: ${x[at]}`);
        assert(Math.abs(y[at]! - factor * Math.sin(angle)) <= bound, `sin ${about}: ${y[at]}`);
      });
    });
  });
}

test("far positions are as exact as near ones", () => {
  const { cos, sin } = nn.ropeAngles([2 ** 30 + 1], { dimensions: 2 }) as Any;
  assertEquals(numbers(cos), [Math.fround(Math.cos(2 ** 30 + 1))]);
  assertEquals(numbers(sin), [Math.fround(Math.sin(2 ** 30 + 1))]);
});

test("factors divide frequencies, beside a scaling too", () => {
  const factors = [1, 2, 4, 8], options = { dimensions: 8, base: 100 };
  const scaling = { type: "linear", factor: 3 } as const;
  const made: Any = nn.ropeAngles([6], { ...options, scaling, factors }).sin;
  const expected = factors.map((by, i) => Math.fround(Math.sin(6 / 3 / by / 100 ** (i / 4))));
  numbers(made).forEach((x, i) => assert(Math.abs(x - expected[i]!) < 1e-7));
  const floats = Float32Array.from(factors);
  const again: Any = nn.ropeAngles([6], { ...options, scaling, factors: floats }).sin;
  assertEquals(numbers(again), numbers(made));
});

test("the length of a sequence may be more than its last position", () => {
  const scaling = { type: "dynamic", factor: 2, originalLength: 8 } as const;
  const all = (positions: number[], length?: number): number[] =>
    numbers(nn.ropeAngles(positions, { dimensions: 8, scaling, length }).cos);
  assertEquals(all([1, 2], 30), all([1, 2, 29]).slice(0, 8));
  assertEquals(all([1, 2], 8), all([1, 2]));
  assert(String(all([1, 2], 9)) !== String(all([1, 2])));
});

test("no positions have no angles", () => {
  assertEquals(nn.ropeAngles([], { dimensions: 4 }).cos.shape, [0, 2]);
});

test("linear scaling may have longer vectors", () => {
  const options = { dimensions: 4, scaling: { type: "linear", factor: 2 } } as const;
  const plain = nn.ropeAngles([3], options);
  const grown = nn.ropeAngles([3], {
    dimensions: 4,
    scaling: { ...options.scaling, attentionFactor: 1.5 },
  });
  assertNear(grown.cos, plain.cos.mul(1.5));
  assertNear(grown.sin, plain.sin.mul(1.5));
});

test("angles without sense are refused", () => {
  const given = (positions: Any, options: Any) => () => nn.ropeAngles(positions, options);
  const dimensions = 8,
    longrope = {
      ...{ type: "longrope", originalLength: 4, shortFactors: [1], longFactors: [1, 1, 1, 1] },
    };
  const refused: [Any, Any, string[]][] = [
    [[0], { dimensions: 3 }, ["3", "even"]],
    [[], { dimensions: 2 ** 17 }, ["131072", "65536"]],
    [[], { dimensions: 2 ** 53 }, ["9007199254740992", "65536"]],
    [[0], { dimensions: 4, factors: [1, 0] }, ["frequency Infinity", "pair 1"]],
    [[0], { dimensions: 0 }, ["0", "even"]],
    [[0], { dimensions: "8" }, ['"8"', "even"]],
    [[0], {}, ["undefined", "even"]],
    [[0, -1], { dimensions }, ["position -1"]],
    [[0.5], { dimensions }, ["position 0.5"]],
    [[NaN], { dimensions }, ["position NaN"]],
    [["1"], { dimensions }, ['position "1"']],
    [[0], { dimensions, base: 0 }, ["base 0"]],
    [[0], { dimensions, base: NaN }, ["base NaN"]],
    [[0], { dimensions, base: Infinity }, ["base Infinity"]],
    [[0], { dimensions, base: "10" }, ['base "10"']],
    [[0], { dimensions, length: -1 }, ["length -1"]],
    [[0], { dimensions, length: 1.5 }, ["length 1.5"]],
    [[0], { dimensions, factors: [1, 2] }, ["2 factors", "4 frequencies"]],
    [[0], { dimensions, scaling: { type: "other" } }, ['"other"', "llama3"]],
    [[0], { dimensions, scaling: { type: "linear", factor: 0 } }, ["factor 0"]],
    [[0], { dimensions: 1e9 }, ["1000000000 dimensions", "from 2 to 65536"]],
    [[0], { dimensions: 2 ** 53 }, ["from 2 to 65536"]],
    [[0], { dimensions, scaling: { type: "linear", factor: NaN } }, ["factor NaN"]],
    [[0], { dimensions, scaling: { type: "linear" } }, ["factor undefined"]],
    [[0], { dimensions, scaling: { type: "dynamic", factor: 2 } }, ["originalLength undefined"]],
    [[0], { dimensions, scaling: longrope }, ["1 factors", "4 frequencies"]],
    [[0], { dimensions: 2, scaling: { type: "dynamic", factor: 2, originalLength: 1 } }, ["2"]],
  ];
  for (const [positions, options, parts] of refused.slice(0, -1)) {
    assertRefused(given(positions, options), ArgumentError, ["ropeAngles", ...parts]);
  }
  const [positions, options] = refused.at(-1)!;
  // One frequency does not depend on the base.
  assertEquals(nn.ropeAngles([...positions, 5], options).cos.shape, [2, 1]);
  assertEquals(
    numbers(nn.ropeAngles([5], options).cos),
    numbers(nn.ropeAngles([5], { dimensions: 2 }).cos),
  );
});

/** The definition, in double precision. */
function expectedOf(x: Any, cos: Any, sin: Any, interleaved: boolean): number[] {
  const made = numbers(x), columns = x.shape.at(-1), rows = x.shape.at(-2);
  const [c, s] = [numbers(cos), numbers(sin)], half = cos.shape.at(-1);
  for (let at = 0; at < made.length; at += columns) {
    const row = at / columns % rows;
    for (let i = 0; i < half; i++) {
      const [first, second] = interleaved ? [2 * i, 2 * i + 1] : [i, i + half];
      const [a, b] = [made[at + first]!, made[at + second]!];
      const angle = row * half + i;
      made[at + first] = a * c[angle]! - b * s[angle]!;
      made[at + second] = a * s[angle]! + b * c[angle]!;
    }
  }
  return made;
}

const LAYOUTS: Record<string, (x: Any) => Any> = {
  plain: (x) => x,
  strided: (x) => asView(x),
  "with heads after rows": (x) => x.permute(1, 0, 2).copy().permute(1, 0, 2),
};

for (const { name, on, compiled } of BACKENDS) {
  test(`columns turn in pairs, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      for (const dtype of ["float32", "float64", "float16", "bfloat16"] as DType[]) {
        for (const [layout, arrange] of Object.entries(LAYOUTS)) {
          for (const interleaved of [false, true]) {
            for (const dimensions of [2, 6, 8]) {
              const about = `${dtype}, ${layout}, ${dimensions}, ${interleaved}`;
              const angles: Any = nn.ropeAngles([0, 3, 40], { dimensions, device: loose(device) });
              const x = arrange(normal(1, [2, 3, 8], dtype).to(device));
              const turn = (x: Any, cos: Any, sin: Any): Any =>
                nn.rope(x, { cos, sin, ...(interleaved || layout === "plain") && { interleaved } });
              const made = turn(x, angles.cos, angles.sin);
              assertEquals([made.shape, made.device], [[2, 3, 8], x.device], about);
              const expected = expectedOf(x, angles.cos, angles.sin, interleaved);
              const error = { float16: 2e-3, bfloat16: 2e-2 }[dtype as "float16"] ?? 1e-6;
              numbers(made).forEach((one, i) => {
                const off = Math.abs(one - expected[i]!);
                assert(off <= error * Math.max(1, Math.abs(expected[i]!)), `${about}: ${i}`);
              });
              if (compiled === undefined || layout !== "plain") continue;
              using program = compile(turn);
              assertEquals(String(program(x, angles.cos, angles.sin)), String(made), about);
            }
          }
        }
      }
    }));
}

test("16-bit floats stay of their dtype", () => {
  const angles = nn.ropeAngles([1, 2], { dimensions: 4 });
  for (const dtype of ["float16", "bfloat16", "float64"] as const) {
    assertEquals(nn.rope(normal(1, [1, 2, 4], dtype), angles).dtype, dtype);
  }
});

test("angles broadcast to batches, and turn the same angle back", () => {
  const { cos, sin }: Any = nn.ropeAngles([4, 5, 6], { dimensions: 8 });
  const x = normal(1, [2, 2, 3, 8]);
  const turned = nn.rope(x, { cos, sin });
  assertNear(nn.rope(turned, { cos, sin: sin.neg() }), x);
  // Each sequence of a batch at positions of its own.
  const other: Any = nn.ropeAngles([0, 9, 1], { dimensions: 8 });
  const both = (a: Any, b: Any): Any =>
    a.reshape([1, 1, 3, 4]).broadcastTo([2, 1, 3, 4]).copy()
      .set([1], b.reshape([1, 3, 4]));
  const own = nn.rope(x, { cos: both(cos, other.cos), sin: both(sin, other.sin) }) as Any;
  assertEquals(numbers(own.slice(0)), numbers(turned.slice(0)));
  assertEquals(numbers(own.slice(1)), numbers(nn.rope(x.slice(1), other)));
});

test("what cannot be turned is refused", () => {
  const { cos, sin }: Any = nn.ropeAngles([0, 1], { dimensions: 4 });
  const x = ones([2, 4]);
  const given = (x: Any, options: Any) => () => nn.rope(x, options);
  assertRefused(given(ones([2, 3]), { cos, sin }), ShapeError, ["rope", "[2, 3]", "[2, 2]"]);
  assertRefused(given(ones([4]), { cos, sin }), ShapeError, ["rope", "[4]"]);
  assertRefused(given(ones([]), { cos, sin }), ShapeError, ["rope", "[]"]);
  assertRefused(given(x, { cos, sin: ones([2, 1]) }), ShapeError, ["rope", "[2, 1]"]);
  assertRefused(given(x, { cos: ones([2, 0]), sin: ones([2, 0]) }), ShapeError, ["[2, 0]"]);
  assertRefused(given(ones([3, 4]), { cos, sin }), ShapeError, ["[3, 4]", "[2, 2]"]);
  assertRefused(given(ones([1, 4]), { cos, sin }), ShapeError, ["rope", "[1, 4]", "[2, 2]"]);
  assertRefused(given(x, { cos, sin, interleaved: 1 }), ArgumentError, ["interleaved 1"]);
  assertThrows(given(x, { cos, sin, pairs: 1 }), TypeError, "pairs");
  assertThrows(given(x, { cos }), TypeError, "rope");
  assertRefused(given(zeros([2, 4], { dtype: "int32" }), { cos, sin }), DTypeError, ["int32"]);
});
