/**
 * Random programs give the same values compiled as without, and change the same tensors: with the
 * library and without, all improvements and none.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { test } from "node:test";
import { attempt, compile, setBackend } from "../../mod.ts";
import { TILE_LIMITS } from "../../src/compile/tiles.ts";
import { amount } from "../faults/support.ts";
import { randomProgram } from "./random_programs.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

/** The elements, dtype and shape of a tensor. NaNs are equal: their bits are not specified. */
function state(x: Any): unknown {
  const values: unknown[] = x.flatten().toArray({ bigint: x.dtype.includes("int") });
  return [x.dtype, x.shape, x.access, values.map((one) => Object.is(one, -0) ? "-0" : one)];
}

/** The results, arguments and captured tensors after a run, or its error. */
function outcome(f: Any, args: Any[], numbers: Any[], outside: Any[]): unknown {
  const { value, error } = attempt<Any>(() => f(args, numbers));
  const after = [...args, ...outside].map(state);
  if (error !== undefined) return { error: error.message, after };
  return { last: state(value.last), list: value.list.map(state), after };
}

function check(seed: number, optimize: boolean): void {
  const program = randomProgram(seed, 2 + seed % 39);
  const { f, args, numbers, outside, text } = program;
  const saved = outside.map((x) => x.copy());
  const reset = (): void => outside.forEach((x, i) => x.set(["..."], saved[i]));
  const compiled = compile(f, { optimize });
  for (let round = 0; round < 3; round++) {
    const own = round === 2 ? [numbers[0] + 1, numbers[1]] : numbers;
    reset();
    const expected = outcome(f, args(), own, outside);
    reset();
    const found = outcome(compiled, args(), own, outside);
    assertEquals(found, expected, `seed ${seed}, round ${round}:\n${text.join("\n")}`);
  }
  compiled.dispose();
}

test("random programs in tiles of a few rows", () => {
  const { tile, least } = TILE_LIMITS;
  Object.assign(TILE_LIMITS, { tile: 300, least: 0 });
  try {
    for (let seed = 5000; seed < 5000 + amount(100, 3000); seed++) check(seed, true);
  } finally {
    Object.assign(TILE_LIMITS, { tile, least });
  }
});

for (const backend of ["native", "js"] as const) {
  for (const optimize of [true, false]) {
    test(`random programs on ${backend}, ${optimize ? "improved" : "as they are"}`, () => {
      setBackend(backend);
      try {
        for (let seed = 0; seed < amount(100, 3000); seed++) check(seed, optimize);
      } finally {
        setBackend("native");
      }
    });
  }
}
