/**
 * What consoles show: stacks of errors, and tensors as numbers.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { attempt, concat, DTypeError, random, type Tensor, tensor, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { root } from "../../scripts/tools.ts";
import { amount } from "../support/amount.ts";

const inBun = "Bun" in globalThis;

/** Runs a program of a user, and returns its output and its messages. */
function run(program: string): { status: number | null; stdout: string; stderr: string } {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-console-"));
  try {
    const path = join(folder, "program.ts");
    const mod = JSON.stringify(pathToFileURL(join(root, "mod.ts")).href);
    writeFileSync(path, `import * as rm from ${mod};\n${program}`);
    const args = inBun ? [path] : ["run", "-A", "--no-check", path];
    const env = { ...process.env, NO_COLOR: "1" };
    return spawnSync(process.execPath, args, { env, encoding: "utf8" });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const x = zeros([2, 3]) as unknown as Tensor<"float32", [2, 3]>;

/** Wrong calls of methods and functions, shallow and deep. */
const CALLS: readonly (() => unknown)[] = [
  () => x.add(zeros([4]) as never),
  () => x.sum(7 as never),
  () => x.reshape([5] as never),
  () => x.matmul(x as never),
  () => x.layerNorm(-1, { weight: zeros([7]) }),
  () => concat([x, zeros([3, 4])] as never),
  () => x.item(),
  () => x.slice(5 as never),
  () => random.uniform(3 as never, [2]),
  () => x.add_("a" as never),
  () => zeros([-1] as never),
  () => x.sum(0, { dim: 0 } as never),
  () => x.transpose().copy().slice([true] as never),
  () => tensor([[1], [1, 2]] as never),
  () => compile((y: Tensor) => y.add(zeros([4]) as never))(x),
];

test("stacks of errors have the program's frame, and at most two of the library", () => {
  const { stackTraceLimit } = Error;
  for (const call of CALLS) {
    const user = () => {
      const result = call();
      return [result];
    };
    const { error } = attempt(user);
    const lines = error!.stack!.split("\n");
    assertEquals(lines[0], `${error!.name}: ${error!.message}`);
    assert(lines.some((line) => line.includes("console_test.ts")), error!.stack);
    Error.stackTraceLimit = 60;
    assert(attempt(user).error!.stack!.split("\n").length > lines.length, "the whole stack");
    Error.stackTraceLimit = stackTraceLimit;
    // Bun prints the source of the first frame.
    if (inBun) assertMatch(lines[1]!, /console_test\.ts/, error!.stack);
    const isOwn = (line = ""): boolean => line.includes(join(root, "src"));
    lines.forEach((line, i) => assert(!isOwn(line) || !isOwn(lines[i + 1]), error!.stack));
    // `attempt` is a function of the library as well, and `compile` calls one of the program.
    const most = 2 + Number(String(call).includes("compile"));
    assert(lines.filter(isOwn).length <= most, error!.stack);
  }
  assertEquals(Error.stackTraceLimit, stackTraceLimit);
});

const CANNOT_ADD = "ShapeError: Cannot add shapes";

/** Lines of a program that throw, and their messages; `npm test` takes the first three. */
const LINES: readonly (readonly [line: string, message: string])[] = [
  ["x.add(y);", CANNOT_ADD],
  ["await null; x.add(y);", CANNOT_ADD],
  ["x.sum(0, { dim: 0 });", "TypeError: Cannot sum with"],
  ["function mine() { const z = x.add(y); return [z]; } mine();", CANNOT_ADD],
  ["class A { static z = x.add(y); }", CANNOT_ADD],
  ["`${x.add(y)}`;", CANNOT_ADD],
  ["await (async () => { await null; x.add(y); return 1; })();", CANNOT_ADD],
  ["rm.concat([x, y]);", "ShapeError: Cannot concat"],
];

test("an uncaught error shows the line of the program, and no source of the library", () => {
  for (const [line, message] of LINES.slice(0, amount(3, LINES.length))) {
    const { status, stderr } = run(
      `const x = rm.zeros([2, 3]) as never as any, y = rm.zeros([4]) as any;\n${line}\n`,
    );
    assertEquals(status, 1);
    assertStringIncludes(stderr, message);
    const frames = stderr.split("\n").filter((frame) => /^ +at /.test(frame));
    assertMatch(frames.at(inBun ? 0 : 1)!, /program\.ts:3:\d+\)?$/, stderr);
    if (inBun) assertStringIncludes(stderr, `3 | ${line}`);
    else assertMatch(frames[0]!, /\/src\/(api|tensor)\/[\w/]+\.ts:\d+/, stderr);
    assert(!stderr.includes("src/base"), stderr);
  }
});

/** Lines that throw what the system and the library report of files. */
const AWAITED: readonly (readonly [line: string, message: string])[] = [
  ['await io.readNpy("/absent/x.npy");', "ENOENT: no such file or directory"],
  ['await io.writeNpy("/absent/x.npy", rm.zeros([2]));', "open '/absent/x.npy'"],
  ["await io.readNpy(new URL(import.meta.url));", "not an npy file"],
];

test("errors of awaited calls show the frame of the program, and one of the library", () => {
  const io = JSON.stringify(pathToFileURL(join(root, "src", "io", "mod.ts")).href);
  for (const [i, [line, message]] of AWAITED.entries()) {
    const setup = `const io = await import(${io});`;
    const check = (stderr: string, frames: number): void => {
      assertStringIncludes(stderr, message);
      const own = stderr.split("\n").filter((frame) => /^ +at .*(?:\/src\/|rowmajor:)/.test(frame));
      assertEquals(own.length, frames, stderr);
      assert(!/^ *\d+ \|.*(?:throw|handle|stat)/m.test(stderr), stderr);
    };
    const inside = run(`${setup} async function mine() {\n${line}\n}\nawait mine();`).stderr;
    assertMatch(inside, /at (?:async )?mine \(.*program\.ts:3:\d+\)/);
    check(inside, inBun ? 0 : 1);
    if (i >= amount(1, AWAITED.length)) continue;
    const outside = run(`${setup}\n${line}`).stderr;
    // Bun has no frame for a module that awaits a call.
    if (!inBun) assertMatch(outside, /program\.ts:3:\d+/);
    check(outside, 1);
  }
});

// Those that are made elsewhere would keep all frames of the library.
test("typeError() makes all TypeErrors of the library", () => {
  const src = join(root, "src");
  const found = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".ts") && path !== join("base", "stack.ts") &&
    readFileSync(join(src, path), "utf8").includes("new TypeError(")
  );
  assertEquals(found, []);
});

test("a tensor as %d, %i or %f prints as NaN, and operators refuse it", () => {
  const { status, stdout, stderr } = run(`import { format } from "node:util";
  const x = rm.zeros([2]), one = rm.tensor(1);
  console.log("a %d", x);
  console.info("b %i %f|", x, one);
  console.debug("c %d", x);
  console.group("d %d", x);
  console.groupEnd();
  console.log(format("e %d", x));
  console.warn("f %d", x);
  console.error("g %d", x);`);
  assertEquals([status, stdout], [0, "a NaN\nb NaN NaN|\nc NaN\nd NaN\ne NaN\n"], stderr);
  assertEquals(stderr, "f NaN\ng NaN\n");
  // Operators and functions of numbers still refuse tensors.
  const three = tensor(3) as unknown as number;
  for (
    const operator of [
      () => three * 2,
      () => -three,
      () => three < 4,
      () => three + 1,
      () => Number(three),
      () => Math.max(three, 1),
      () => Math.sqrt(three),
    ]
  ) assertThrows(operator, DTypeError, "Cannot use operators on a tensor");
});
