/**
 * Compiled functions on a CUDA device: random programs, and those of devices, give what they give
 * alone, by dispatch and as recorded graphs. The device is the emulator's, or a real one. `npm test`
 * takes half of the programs of devices, `npm run test:all` all.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { DisposedError, emptyCache, memory, random, scope } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { checkRandom } from "../compile/random_programs.ts";
import { checkCompiled, COMPILED } from "../device/compiled.ts";
import { type Any, loose } from "../support.ts";
import { isSampled } from "../support/amount.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const reason = whyNoCuda();

/** The elements, dtype and shape of a tensor, with floats in few digits. */
function told(x: Any): unknown {
  const values = x.flatten().toArray({ bigint: x.dtype.includes("int") }) as unknown[];
  const digits = x.dtype.includes("float")
    ? (one: unknown) => Number.isFinite(one) ? Number(one).toPrecision(2) : String(one)
    : (one: unknown) => one;
  return [x.dtype, x.shape, x.device, values.map(digits)];
}

if (reason !== undefined) test(`compiled on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  test("random programs on CUDA", async () => {
    for (let seed = 0; seed < 8; seed++) {
      await checkRandom(seed, 2 + seed, { told, device: "cuda" });
    }
  });

  for (const [name, program] of COMPILED) {
    // Many kernels to compile for each kind of function; other tests have them.
    if (/: (functions|norms|where|triangles|positions)$/.test(name)) continue;
    if (!isSampled(`${name}: cuda`, 2)) continue;
    test(`compiled on CUDA, ${name}`, () => checkCompiled(program, "cuda"));
  }

  test("a program without numbers is recorded once, and reads its arguments in each run", () => {
    const w = random.normal(random.key(1), [3, 3]).to(loose("cuda"));
    const f = (x: Any) => [x.matmul(w).relu(), x.add_(1), x.sum()];
    const compiled = compile(f);
    for (let round = 0; round < 5; round++) {
      const make = (): Any => random.normal(random.key(round), [3, 3]).add(round).to(loose("cuda"));
      const [alone, own] = [make(), make()];
      assertEquals(compiled(own).map(told), f(alone).map(told));
      assertEquals(told(own), told(alone));
      // The first call dispatches the ops, the second records them.
      const executors = compiled.explain().map(({ data }) => data.executor);
      assertEquals(executors, [round === 0 ? "replay" : "graph"]);
      if (round === 3) w.mul_(2);
    }
    compiled.dispose();
  });

  test("recorded programs share constants, and end with the weight that they read", () => {
    emptyCache("cuda");
    const inUse = (): number => memory("cuda").bytes - memory("cuda").pooledBytes;
    const call = (f: Any, n: number): void => {
      scope(() => void f(random.normal(random.key(n), [n, 64]).to(loose("cuda"))));
    };
    const start = inUse();
    const w = random.normal(random.key(1), [64, 64]).to(loose("cuda")) as Any;
    const f = compile((x: Any) => x.matmul(w.mul(2)).relu().add(1)) as Any;
    for (let round = 0; round < 3; round++) call(f, 1);
    const one = inUse();
    for (let n = 2; n < 12; n++) call(f, n);
    // Two runs make the graph, which has its arguments and results.
    assertEquals(inUse(), one);
    for (let round = 0; round < 2; round++) for (let n = 2; n < 12; n++) call(f, n);
    assertEquals(f.explain().map(({ data }: Any) => data.executor), Array(11).fill("graph"));
    const constants = 4 * 64 * 64;
    assertEquals(f.explain().map(({ data }: Any) => data.bytes.shared), Array(11).fill(constants));
    w.dispose();
    assertEquals(inUse(), start);
    assertThrows(() => call(f, 1), DisposedError, "a tensor that its function uses was disposed");
    f.dispose();
    assertEquals(inUse(), start);
  });
}
