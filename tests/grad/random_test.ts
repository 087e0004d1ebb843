/**
 * Random functions: their derivatives are those of differences, programs compute the same as single ops, and
 * all backends the same as JavaScript.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { compile } from "../../src/compile/mod.ts";
import { grad as gradOf } from "../../src/grad/mod.ts";
import { ALL_BACKENDS, BACKENDS, using } from "../ops/table/backends.ts";
import { amount, RUNS_ALL } from "../support/amount.ts";
import { loose } from "../support.ts";
import type { T } from "./differences.ts";
import { differenceOf, elementsIn, mapped, paramsOf, programOf } from "./random_programs.ts";

const grad = loose(gradOf);
/** Functions of each of the two kinds. */
const COUNT = amount(10, 200);

/** The difference of a derivative from that of differences, along a direction. */
function slopeError(
  f: (params: T) => T,
  params: T,
  gradients: readonly number[],
  seed: number,
): number {
  const direction = paramsOf(seed + 5000);
  const [a, b, c] = [direction.a, direction.b, direction.c[0]];
  const value = (step: number): number =>
    f({
      a: params.a.add(a.mul(step)),
      b: params.b.add(b.mul(step)),
      c: [params.c[0].add(c.mul(step))],
    }).item();
  const slope = (value(1e-6) - value(-1e-6)) / 2e-6;
  const own = elementsIn(direction).reduce((sum, one, i) => sum + one * gradients[i]!, 0);
  return Math.abs(slope - own) / (1 + Math.abs(slope));
}

for (const isPlain of [true, false]) {
  const kind = isPlain ? "without sums" : "of all ops";
  const functions = Array.from({ length: COUNT }, (_, k) => ({
    name: `function ${k + 1} ${kind}`,
    f: programOf(k + 1, isPlain),
    params: () => paramsOf(k + 1),
    seed: k + 1,
  }));
  const expected = functions.map(({ f, params }) =>
    using(ALL_BACKENDS[0]!.on, () => elementsIn(grad(f)(params())))
  );

  test(`derivatives of random functions ${kind} are those of differences`, () => {
    functions.forEach(({ name, f, params, seed }, k) => {
      const error = slopeError(f, params(), expected[k]!, seed);
      assert(error < 1e-6, `${name}: ${error}`);
    });
  });

  for (const { name: target, on } of RUNS_ALL ? ALL_BACKENDS : BACKENDS) {
    test(`derivatives of random functions ${kind}, compiled and not, ${target}`, () => {
      using(on, () => {
        const device = typeof on === "string" ? on : "cpu";
        functions.forEach(({ name, f, params }, k) => {
          const own = mapped(params(), (x) => x.to(device));
          const single = elementsIn(grad(f)(own));
          assert(differenceOf(single, expected[k]!) < 1e-9, `${name} beside JavaScript`);
          using program: T = loose(compile)((given: T) => grad(f)(given));
          const compiled = elementsIn(program(own));
          if (isPlain) assertEquals(compiled, single, name);
          else assert(differenceOf(compiled, single) < 1e-9, name);
          // Once more, with other values.
          const others = mapped(own, (x) => x.mul(0.9));
          const again = elementsIn(program(others));
          assert(differenceOf(again, elementsIn(grad(f)(others))) < 1e-9, `${name} of others`);
          assertEquals(program.programs, 1, name);
        });
      });
    });
  }
}
