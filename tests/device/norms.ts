/**
 * Checks of layer norm and RMS norm through the public API, against the formulas in doubles with
 * compensated sums; for every backend and device.
 *
 * A result may be off by four units of its dtype (one in 16 bits, which are rounded once) at the
 * scale of its terms: the normalized element and 1, times the weight, and the bias.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import {
  type AnyTensor,
  ArgumentError,
  AxisError,
  DisposedError,
  type DType,
  DTypeError,
  finfo,
  ones,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import { assertRefused, asView, iota, loose } from "../support.ts";
import { generator, site } from "../ops/table/operands.ts";

const FLOATS = ["float16", "bfloat16", "float32", "float64"] as const;
type Op = "layerNorm" | "rmsNorm";
const OPS: readonly Op[] = ["layerNorm", "rmsNorm"];

/** The sum, with the rounding error of each addition. */
function sumOf(values: readonly number[]): number {
  let [sum, lost] = [0, 0];
  for (const x of values) {
    const next = sum + x;
    lost += Math.abs(sum) >= Math.abs(x) ? sum - next + x : x - next + sum;
    sum = next;
  }
  return sum + lost;
}

/** One row, normalized. */
function normalised(op: Op, row: readonly number[], epsilon: number): number[] {
  const n = row.length;
  let z = row;
  // The second pass corrects the rounding error of the first mean.
  for (let pass = 0; pass < 2 && op === "layerNorm"; pass++) {
    const mean = sumOf(z) / n;
    z = z.map((x) => x - mean);
  }
  const scale = 1 / Math.sqrt(sumOf(z.map((x) => x * x)) / n + epsilon);
  return z.map((x) => x * scale);
}

/** All elements as numbers, in row-major order. */
function numbers(x: AnyTensor): number[] {
  return Array.from(loose(x).astype("float64").toTypedArray() as Float64Array);
}

interface Case {
  readonly axis?: number | readonly number[];
  readonly weight?: AnyTensor;
  readonly bias?: AnyTensor;
  readonly epsilon?: number;
}

/** Throws unless `actual` is `op` of `x`, within the tolerance. */
function assertNorm(what: string, op: Op, x: AnyTensor, actual: AnyTensor, given: Case): void {
  const { shape } = x;
  const rank = shape.length;
  const axes = [given.axis ?? -1].flat().map((axis) => axis < 0 ? axis + rank : axis).sort();
  const rest = shape.map((_, axis) => axis).filter((axis) => !axes.includes(axis));
  // The normalized axes come last, so that each row is contiguous.
  const order = [...rest, ...axes];
  const [from, to] = [x, actual].map((one) => numbers(loose(one).permute(...order)));
  const sizes = axes.map((axis) => shape[axis]!);
  const columns = sizes.reduce((p, q) => p * q, 1);
  const spread = (one: AnyTensor | undefined, otherwise: number): number[] =>
    one === undefined ? new Array(columns).fill(otherwise) : numbers(loose(one).broadcastTo(sizes));
  const [weight, bias] = [spread(given.weight, 1), spread(given.bias, 0)];
  const { dtype } = actual;
  const units = dtype === "float32" || dtype === "float64" ? 4 : 1;
  const { eps, smallestNormal } = finfo(dtype);
  const wide = finfo(dtype === "float64" ? dtype : "float32").eps;
  const epsilon = given.epsilon ?? (op === "layerNorm" ? 1e-5 : wide);
  for (let start = 0; start < from!.length; start += columns) {
    normalised(op, from!.slice(start, start + columns), epsilon).forEach((z, i) => {
      const [w, b] = [weight[i]!, bias[i]!];
      const expected = z * w + b;
      const got = to![start + i]!;
      const scale = (Math.abs(z) + 1) * Math.abs(w) + Math.abs(b);
      const near = Math.abs(got - expected) <= units * eps * (scale + smallestNormal);
      const same = Number.isNaN(expected) && Number.isNaN(got);
      if (!near && !same) throw new Error(`${what}: element ${start + i}: ${got}, not ${expected}`);
    });
  }
}

/** The largest magnitude of the inputs of softmax. */
const SPREAD = 9;

/** Softmax of `x` along `axis`, or its logarithm, in row-major order. */
function softmaxOf(op: "softmax" | "logSoftmax", x: AnyTensor, axis: number): number[] {
  const rows = loose(x).moveAxis(axis, -1);
  const [values, n] = [numbers(rows), x.shape[axis]!];
  const made = new Float64Array(values.length);
  for (let start = 0; start < values.length; start += n) {
    const row = values.slice(start, start + n);
    const most = Math.max(...row);
    const total = sumOf(row.map((v) => Math.exp(v - most)));
    row.forEach((v, i) => {
      made[start + i] = op === "softmax" ? Math.exp(v - most) / total : v - most - Math.log(total);
    });
  }
  return numbers(loose(tensor(made)).reshape(rows.shape).moveAxis(-1, axis));
}

/**
 * Throws unless all elements are as expected, within a number of units of the dtype at their scale,
 * or at `floor`: a logarithm is off by units of 1, a power by the error of its exponent.
 */
function assertNear(
  what: string,
  actual: AnyTensor,
  expected: readonly number[],
  units: number,
  floor: number,
): void {
  const { eps, smallestNormal } = finfo(actual.dtype as "float32");
  const got = numbers(actual);
  assertEquals(got.length, expected.length, what);
  got.forEach((value, i) => {
    const near = Math.abs(value - expected[i]!) <=
      units * eps * (Math.abs(expected[i]!) + floor + smallestNormal);
    assert(near, `${what}: element ${i}: ${value}, not ${expected[i]}`);
  });
}

/** `x` on the device of the backend that is tested. */
// deno-lint-ignore no-explicit-any
function put(x: AnyTensor): any {
  return x.to(site.device);
}

/** Elements of `shape` around a mean, with a given spread, from a seed. */
function around(
  shape: readonly number[],
  dtype: DType,
  mean: number,
  spread: number,
  seed = 1,
): AnyTensor {
  const draw = generator(seed);
  const size = shape.reduce((p, q) => p * q, 1);
  const values = Float64Array.from({ length: size }, () => mean + (draw() + draw() - 1) * spread);
  return put(tensor(values)).reshape(shape).astype(dtype);
}

/** Runs a check on each of several backends, with the backend as its argument. */
export type Everywhere = (check: (name: string) => void) => void;

/** The requirements of layer norm and RMS norm. */
export const NORM_TESTS = {
  rows: (everywhere) => {
    const shapes = [[1, 1], [3, 1], [2, 7], [5, 17], [2, 64], [3, 1000], [2, 1025], [1, 9001]];
    everywhere((name) => {
      for (const dtype of FLOATS) {
        for (const shape of shapes) {
          const x = around(shape, dtype, 0.5, 3, shape[1]);
          // Dense from an offset on, and without any stride of a dense tensor.
          const below = put(zeros([shape[0]! + 1, shape[1]!], { dtype }));
          const later = below.slice("1:");
          later.set(["..."], x);
          for (const op of OPS) {
            for (const input of [x, later, asView(x)] as AnyTensor[]) {
              assertNorm(`${op} of ${dtype} [${shape}], ${name}`, op, x, loose(input)[op](), {});
            }
          }
        }
      }
    });
  },

  axes: (everywhere) => {
    const axes = [0, 1, 2, -1, [1, 2], [2, 1], [-1], [0, 2], [0, 1, 2]];
    everywhere((name) => {
      for (const dtype of FLOATS) {
        const x = around([4, 3, 10], dtype, 1, 2);
        axes.forEach((axis, k) => {
          const sizes = [axis].flat().map((one) => one < 0 ? one + 3 : one).sort().map((one) =>
            x.shape[one]!
          );
          const full = around(sizes, dtype, 1, 1, 7);
          const one = loose(around([1], "float32", 2, 1, 8));
          const kinds: readonly Case[] = [
            {},
            { weight: full },
            { weight: asView(full), bias: around(sizes, "float64", 0, 1, 9), epsilon: 0.25 },
            { weight: one, bias: one.reshape([]) },
            { bias: put(ones([2, ...sizes], { dtype: "int16" })).slice(1) },
            { weight: around([sizes.at(-1)!], "float32", 1, 1, 6), epsilon: 0 },
          ];
          kinds.forEach((given, kind) => {
            for (const op of OPS) {
              if (op === "rmsNorm" && given.bias !== undefined) continue;
              const what = `${op} of ${dtype}, axes ${k}, kind ${kind}, ${name}`;
              for (const input of [x, asView(x)]) {
                const made = loose(input)[op](axis, given);
                assertEquals(made.dtype, dtype, what);
                assertNorm(what, op, x, made, { ...given, axis });
              }
            }
          });
        });
      }
    });
  },

  largeMean: (everywhere) => {
    everywhere((name) => {
      for (const dtype of ["float32", "float64"] as const) {
        for (const columns of [5, 1000, 3000]) {
          for (const mean of [1e4, -1e6, 3e7]) {
            const what = `${dtype} [2, ${columns}] around ${mean}, ${name}`;
            const x = around([2, columns], dtype, mean, mean * 2 ** -18, columns);
            assertNorm(what, "layerNorm", x, loose(x).layerNorm(), {});
            assertNorm(what, "layerNorm", x, loose(x.T).layerNorm(0).T, {});
            // One distant element, first and last.
            for (const at of [0, columns - 1]) {
              const far = loose(x.toOwned());
              far.set(["...", at], 0);
              assertNorm(`${what}, one off`, "layerNorm", far, far.layerNorm(), {});
            }
          }
        }
      }
    });
  },

  oneValue: (everywhere) => {
    everywhere((name) => {
      for (const dtype of FLOATS) {
        for (const value of [0, 0.1, -3, 1e4, finfo(dtype).max]) {
          for (const columns of [1, 7, 100, 1000]) {
            const x = put(zeros([2, columns], { dtype })).add(value);
            const bias = put(tensor([0.5])).broadcastTo([columns]);
            const what = `${value} as ${dtype}, ${columns} times, ${name}`;
            if (dtype === "float64" && Math.abs(value) > 1e300) continue;
            assertEquals(new Set(numbers(x.layerNorm())), new Set([0]), what);
            assertEquals(new Set(numbers(x.layerNorm(-1, { bias }))), new Set([0.5]), what);
            const unit = Math.abs(value) > 1e15 ? 0 : Math.sign(value);
            const rms = numbers(x.rmsNorm(-1, { epsilon: 0 }));
            if (value !== 0) {
              rms.forEach((z) => assert(Math.abs(z - unit) <= 2e-3, `${what}: ${z}`));
            }
          }
        }
      }
    });
  },

  softmax: (everywhere) => {
    const cases = [
      ...[[2, 3], [4, 300], [3, 2, 5], [1, 1], [2, 0], [0, 3], [0]].flatMap((shape) =>
        shape.map((_, axis) => [shape, axis] as const)
      ),
    ];
    everywhere((name) => {
      for (const dtype of [...FLOATS, "int32"] as const) {
        for (const [shape, axis] of cases) {
          const dense = around(shape, dtype, 0, SPREAD);
          for (const x of [dense, asView(dense)]) {
            for (const op of ["softmax", "logSoftmax"] as const) {
              const what = `${op} of ${dtype} ${JSON.stringify(shape)} along ${axis}, ${name}`;
              const made = loose(x)[op](axis);
              assertEquals([...made.shape], shape, what);
              assertEquals(made.dtype, dtype === "int32" ? "float32" : dtype, what);
              const expected = softmaxOf(op, x, axis);
              const [units, floor] = op === "softmax" ? [4 + 2 * SPREAD, 0] : [4, 1];
              assertNear(what, made, expected, units, floor);
              if (dtype === "int32") continue;
              const out = put(zeros(shape, { dtype: "float64" }));
              assertNear(what, loose(x)[op](axis, { out }).astype(dtype), expected, units, floor);
              const own = loose(x).toOwned();
              assertNear(`${what} in place`, own[op](axis, { out: own }), expected, units, floor);
            }
          }
        }
      }
    });
  },

  specials: (everywhere) => {
    const text = (x: AnyTensor): string => JSON.stringify(numbers(x).map((z) => String(z)));
    everywhere((name) => {
      for (const dtype of FLOATS) {
        for (const columns of [3, 40]) {
          for (const at of [0, 1, columns - 1]) {
            for (const special of [NaN, Infinity, -Infinity]) {
              const x = loose(around([3, columns], dtype, 0, 1));
              const clean = { layerNorm: x.layerNorm(), rmsNorm: x.rmsNorm() };
              const what = `${special} at ${at} of ${columns}, ${dtype}, ${name}`;
              x.set([1, at], special);
              for (const op of OPS) {
                const made = loose(x)[op]();
                for (const row of [0, 2]) {
                  assertEquals(text(made.slice(row)), text(loose(clean[op]).slice(row)), what);
                }
                numbers(made.slice(1)).forEach((z, i) => {
                  // Over an infinite root, finite elements are 0.
                  const isZero = op === "rmsNorm" && i !== at && !Number.isNaN(special);
                  assert(isZero ? z === 0 : Number.isNaN(z), `${op}: ${what}: ${z} at ${i}`);
                });
              }
            }
          }
        }
      }
    });
  },

  outputs: (everywhere) => {
    everywhere((name) => {
      for (const dtype of ["float16", "float32", "float64"] as const) {
        for (const op of OPS) {
          const what = `${op} of ${dtype}, ${name}`;
          const source = around([4, 6], dtype, 1, 2);
          const weight = around([6], dtype, 1, 1, 3);
          const expected = numbers(loose(source)[op](1, { weight }));

          const same = loose(source.toOwned());
          assertEquals(same[op](1, { weight, out: same }), same);
          assertEquals(numbers(same), expected, `${what}, in place`);

          const buffer = put(zeros([5, 6], { dtype }));
          buffer.slice("1:").set(["..."], source);
          buffer.slice("1:")[op](1, { weight, out: buffer.slice(":4") });
          assertEquals(numbers(buffer.slice(":4")), expected, `${what}, a row back`);

          const rows = loose(source.toOwned());
          rows.slice(3).set(["..."], weight);
          const first = numbers(rows.slice(":3")[op](1, { weight }));
          const all = numbers(rows[op](1, { weight: rows.slice(3), out: rows }));
          assertEquals(all.slice(0, 18), first, `${what}, over its weight`);

          const view = asView(put(zeros([4, 6], { dtype: "float64" })));
          loose(source)[op](1, { weight, out: view });
          assertEquals(numbers(view), expected, `${what}, into a view`);
        }
      }
    });
  },

  dtypes: (everywhere) => {
    everywhere((name) => {
      const x = put(iota([2, 3], "int32"));
      for (const op of OPS) {
        const made = loose(x)[op]();
        assertEquals(made.dtype, "float32");
        assertNorm(`${op} of int32, ${name}`, op, x, made, {});
        for (const shape of [[3, 0], [0, 3], [2, 0, 3]]) {
          for (const dtype of ["float16", "float64", "int8"] as const) {
            const none = put(zeros(shape, { dtype }))[op](-1);
            assertEquals([...none.shape], shape, name);
            assertEquals(none.dtype, dtype === "int8" ? "float32" : dtype);
          }
        }
      }
    });
    for (const op of OPS) {
      const y = iota([2, 3]);
      for (const shape of [[2], [3, 1], [2, 3], [1, 3], [0]]) {
        const weight = zeros(shape);
        const parts = [op, "[2, 3]", "axes [1]", "weight", `[${shape.join(", ")}]`, "to [3]"];
        assertRefused(() => loose(y)[op](-1, { weight }), ShapeError, parts, y, weight);
      }
      assertRefused(() => loose(zeros([]))[op](), AxisError, [op, "rank 0"]);
      for (const axis of [2, -3, 0.5, [0, 0], [], ["1"]]) {
        assertRefused(() => loose(y)[op](axis), AxisError, op, y);
      }
      const flags = tensor([true, false, true]);
      assertRefused(() => loose(flags)[op](), DTypeError, [op, "bool"], flags);
      assertRefused(() => loose(y)[op](1, { weight: flags }), DTypeError, [op, "bool"], y);
      assertRefused(() => loose(y)[op](1, { weight: [1, 2, 3] }), DTypeError, [op, "tensor"], y);
      for (const epsilon of [NaN, "1", null]) {
        assertRefused(() => loose(y)[op](1, { epsilon }), ArgumentError, [op, "epsilon"], y);
      }
      const gone = ones([3]);
      gone.dispose();
      assertRefused(() => loose(y)[op](1, { weight: gone }), DisposedError, op, y);
      const out = zeros([3, 2]);
      assertRefused(() => loose(y)[op](1, { out }), ShapeError, [op, "[3, 2]"], y, out);
      const whole = zeros([2, 3], { dtype: "int32" });
      assertRefused(() => loose(y)[op](1, { out: whole }), DTypeError, [op, "int32"], y, whole);
    }
    const y = iota([2, 3]);
    assertRefused(
      () => loose(y).layerNorm(1, { bias: zeros([2]) }),
      ShapeError,
      "bias of shape [2]",
    );
  },
} satisfies Record<string, (everywhere: Everywhere) => void>;
