/**
 * Compiled functions on a CUDA device: random programs, and those of devices, give what they give alone, by dispatch and as
 * recorded graphs. The device is the emulator's, or a real one.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { attempt, compile, random } from "../../mod.ts";
import { generator, randomProgram } from "../compile/random_programs.ts";
import { checkCompiled, COMPILED } from "../device/compiled.ts";
import { loose } from "../support.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const reason = whyNoCuda();

/** The elements, dtype and shape of a tensor, with floats in few digits. */
function told(x: ReturnType<typeof loose>): unknown {
  const values = x.flatten().toArray({ bigint: x.dtype.includes("int") }) as unknown[];
  const digits = x.dtype.includes("float")
    ? (one: unknown) => Number.isFinite(one) ? Number(one).toPrecision(2) : String(one)
    : (one: unknown) => one;
  return [x.dtype, x.shape, x.device, values.map(digits)];
}

function outcome(
  f: (args: unknown[], numbers: unknown[]) => ReturnType<typeof loose>,
  args: unknown[],
  numbers: unknown[],
  outside: unknown[],
): unknown {
  // Indices are checked when a result is read.
  const { value, error } = attempt(() => {
    const { last, list } = f(args, numbers);
    return { last: told(last), list: list.map(told) };
  });
  const after = [...args, ...outside].map(told);
  return error === undefined ? { value, after } : { error: error.message, after };
}

if (reason !== undefined) test(`compiled on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  test("random programs on CUDA", () => {
    for (let seed = 0; seed < 8; seed++) {
      const { f, args, numbers, outside, text } = randomProgram(seed, 2 + seed, "cuda");
      const saved = outside.map((x) => x.copy());
      const reset = (): void => outside.forEach((x, i) => x.set(["..."], saved[i]));
      const compiled = compile(f);
      for (let round = 0; round < 4; round++) {
        reset();
        const expected = outcome(f, args(), numbers, outside);
        reset();
        const found = outcome(compiled, args(), numbers, outside);
        assertEquals(found, expected, `seed ${seed}, round ${round}:\n${text.join("\n")}`);
      }
      compiled.dispose();
    }
  });

  for (const [name, program] of COMPILED) {
    // Many kernels to compile for each kind of function; other tests have them.
    if (/: (functions|norms|where|triangles|positions)$/.test(name)) continue;
    test(`compiled on CUDA, ${name}`, () => checkCompiled(program, "cuda"));
  }

  test("a program without numbers is recorded once, and reads its arguments in each run", () => {
    const w = random.normal(random.key(1), [3, 3]).to(loose("cuda"));
    const f = (x: ReturnType<typeof loose>) => [x.matmul(w).relu(), x.add_(1), x.sum()];
    const compiled = compile(f);
    const next = generator(7);
    for (let round = 0; round < 5; round++) {
      const make = (): ReturnType<typeof loose> =>
        random.normal(random.key(round), [3, 3]).add(next() * 0 + round).to(loose("cuda"));
      const [alone, own] = [make(), make()];
      assertEquals(compiled(own).map(told), f(alone).map(told));
      assertEquals(told(own), told(alone));
      if (round === 3) w.mul_(2);
    }
    assert(compiled.programs === 1);
    compiled.dispose();
  });
}
