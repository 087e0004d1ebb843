/**
 * The program of every method and function, compiled: the same results and the same changes of its
 * operands as without, or a TraceError for those that need values.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { attempt, Tensor, TraceError } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { type Operands, operands, plain, PROGRAMS } from "../ops/programs.ts";
import { loose } from "../support.ts";
import { runsHere } from "../support/engine.ts";
import { testOnBackends } from "./support.ts";

/** Programs that need the values of tensors: a TraceError, from the call or from a promise. */
const READS = new Set([
  // Those that an interpreter sees reading.
  ...PROGRAMS.filter(([, , ...record]) => record.some((text) => / reads /.test(text)))
    .map(([name]) => name),
  // Their ops have shapes that depend on values.
  ...["nonzero", "uniqueValues", "uniqueCounts", "uniqueInverse", "uniqueAll", "bincount"],
  ...["union", "intersect", "setdiff", "setxor"],
  // These pack or copy weights.
  ...["nn.weights", "nn.fuse", "nn.fold", "nn.KVCache"],
]);

/** Programs that tell about the handle that they get, or about the process. */
const ABOUT = new Set([
  ...["ownership", "sharesBuffer", "keep", "capture", "setBackend", "setThreads", "cuda", "warmUp"],
  ...["toString", "Symbol(nodejs.util.inspect.custom)", "Symbol(Jupyter.display)", "allowTF32"],
  ...["io.decodeNpz", "offload", "constructor"],
  ...["io.mapNpy", "nn.open", "nn.findModel"],
  // Promises of what is in a file.
  ...PROGRAMS.map(([name]) => name).filter((name) => /^io\.(read|open)/.test(name)),
]);

/** Programs without a result that change none of their operands. */
const NOTHING = new Set(["Symbol(Symbol.toPrimitive)", "emptyCache", "synchronize"]);

function textOf(given: Operands): string {
  return JSON.stringify(Object.values(given).map(plain));
}

/** Floats of a value, as results of an op that programs fuse with those before and after it. */
function scaled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(scaled);
  const isFloat = value instanceof Tensor && !value.isDisposed && value.dtype.startsWith("float");
  return isFloat ? value.mul(1) : value;
}

testOnBackends("every program between ops that are fused with its own", () => {
  for (const [name, program] of PROGRAMS) {
    if (ABOUT.has(name) || READS.has(name)) continue;
    const between = (given: object): unknown => {
      const scaledAll = Object.entries(given).map(([key, x]) => [key, scaled(x)]);
      const later = (promise: Promise<unknown>): unknown => promise.catch(() => {});
      const made = program({ ...Object.fromEntries(scaledAll), later });
      return made instanceof Promise ? undefined : scaled(made);
    };
    const { value, error } = attempt(() => plain(between(operands())));
    if (error !== undefined) continue;
    using compiled = compile(between);
    assertEquals(plain(compiled(operands())), value, name);
  }
});

const folder = mkdtempSync(join(tmpdir(), "rowmajor-compile-"));
after(() => rmSync(folder, { recursive: true }));

for (const [name, program] of PROGRAMS) {
  if (ABOUT.has(name) || !runsHere(name, 4)) continue;
  test(`${name} compiled does what it does alone`, async () => {
    const path = (file: string): string => join(folder, file);
    const waiting: Promise<unknown>[] = [];
    const later = (promise: Promise<unknown>): Promise<unknown> => {
      waiting.push(promise);
      return promise;
    };
    const compiled = compile((given: object) => {
      const { value, error } = attempt(() => program({ ...given, path, later }));
      if (error !== undefined) throw error;
      return value instanceof Promise ? undefined : value;
    });
    if (READS.has(name)) {
      if (/^(read$|io.write)/.test(name)) {
        compiled(operands());
        const settled = await Promise.allSettled(waiting);
        assert(settled.length > 0, name);
        assert(settled.every((one) => loose(one).reason instanceof TraceError), name);
        return;
      }
      assertThrows(() => compiled(operands()), TraceError);
      return;
    }
    for (let round = 0; round < 3; round++) {
      const [alone, own] = [operands(), operands()];
      const before = textOf(alone);
      const expected = plain(program({ ...alone, path, later }));
      assertEquals(plain(compiled(own)), expected, name);
      for (const key of Object.keys(alone)) {
        assertEquals(plain(own[key]), plain(alone[key]), `${name} changes ${key}`);
      }
      const compared = expected !== undefined || textOf(alone) !== before;
      assertEquals(compared, !NOTHING.has(name), `${name}: a result or a change is compared`);
    }
    assertEquals(compiled.programs, 1);
    compiled.dispose();
  });
}
