/**
 * Faults of what consoles show: stacks of errors, and tensors as numbers.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { attempt, concat, DTypeError, random, type Tensor, tensor, zeros } from "../../../mod.ts";
import { compile } from "../../../src/compile/mod.ts";
import { root } from "../../../scripts/tools.ts";
import { fault } from "../support.ts";

const inBun = "Bun" in globalThis;

/** Runs a program of a user, and returns its output and its messages. */
function run(program: string): { status: number | null; stdout: string; stderr: string } {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-faults-"));
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

fault({
  entry: 18,
  kind: "stacks lost the frame of the program",
  others: ["deep ops in Deno", "every error class of the library"],
}, () => {
  const { stackTraceLimit } = Error;
  for (const call of CALLS) {
    const user = () => {
      const result = call();
      return [result];
    };
    const { error } = attempt(user);
    const lines = error!.stack!.split("\n");
    assertEquals(lines[0], `${error!.name}: ${error!.message}`);
    assert(lines.some((line) => line.includes("traces_test.ts")), error!.stack);
    Error.stackTraceLimit = 60;
    assert(attempt(user).error!.stack!.split("\n").length > lines.length, "the whole stack");
    Error.stackTraceLimit = stackTraceLimit;
    // Bun prints the source of the first frame.
    if (inBun) assertMatch(lines[1]!, /traces_test\.ts/, error!.stack);
    const isOwn = (line = ""): boolean => line.includes(join(root, "src"));
    lines.forEach((line, i) => assert(!isOwn(line) || !isOwn(lines[i + 1]), error!.stack));
    // `attempt` is a function of the library as well, and `compile` calls one of the program.
    const most = 2 + Number(String(call).includes("compile"));
    assert(lines.filter(isOwn).length <= most, error!.stack);
  }
  assertEquals(Error.stackTraceLimit, stackTraceLimit);
});

fault({
  entry: 18,
  kind: "an uncaught error showed the library's source in Bun",
  others: [],
  skip: !inBun && "Deno shows where the error was made, and the frames of the program",
}, () => {
  const { status, stderr } = run(`function mine() {
    const y = rm.zeros([2, 3]).add(rm.zeros([4]) as never);
    return [y];
  }
  mine();`);
  assertEquals(status, 1);
  assertMatch(stderr, /\| +const y = rm\.zeros[^]*ShapeError: Cannot add shapes[^]*at mine \(/);
  assert(!stderr.includes("src/base"), stderr);
});

fault({
  entry: 21,
  kind: "an uncaught error at the top level showed no line of the program in Bun",
  others: ["TypeErrors", "after await", "frames of the library in Deno"],
}, () => {
  const add = "ShapeError: Cannot add shapes";
  for (
    const [line, message] of [
      ["x.add(y);", add],
      ["await null; x.add(y);", add],
      ["class A { static z = x.add(y); }", add],
      ["`${x.add(y)}`;", add],
      ["await (async () => { await null; x.add(y); return 1; })();", add],
      ["rm.concat([x, y]);", "ShapeError: Cannot concat"],
      ["x.sum(0, { dim: 0 });", "TypeError: Cannot sum with"],
    ] as const
  ) {
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

fault({
  entry: 21,
  kind: "errors of awaited calls showed the library's source in Bun",
  others: ["errors of the system, which had no frame of the program", "at the top level"],
}, () => {
  const io = JSON.stringify(pathToFileURL(join(root, "src", "io", "mod.ts")).href);
  for (
    const [line, message] of [
      ['await io.readNpy("/absent/x.npy");', "ENOENT: no such file or directory"],
      ['await io.writeNpy("/absent/x.npy", rm.zeros([2]));', "open '/absent/x.npy'"],
      ["await io.readNpy(new URL(import.meta.url));", "not an npy file"],
    ] as const
  ) {
    const setup = `const io = await import(${io});`;
    const inside = run(`${setup} async function mine() {\n${line}\n}\nawait mine();`).stderr;
    assertStringIncludes(inside, message);
    assertMatch(inside, /at (?:async )?mine \(.*program\.ts:3:\d+\)/);
    const outside = run(`${setup}\n${line}`).stderr;
    assertStringIncludes(outside, message);
    // Bun has no frame for a module that awaits a call.
    if (!inBun) assertMatch(outside, /program\.ts:3:\d+/);
    for (const stderr of [inside, outside]) {
      const own = stderr.split("\n").filter((frame) => /^ +at .*(?:\/src\/|rowmajor:)/.test(frame));
      assertEquals(own.length, inBun && stderr === inside ? 0 : 1, stderr);
      assert(!/^ *\d+ \|.*(?:throw|handle|stat)/m.test(stderr), stderr);
    }
  }
});

fault({
  entry: 21,
  kind: "errors of the library that are made elsewhere keep all its frames",
  others: [],
}, () => {
  const src = join(root, "src");
  const found = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".ts") && path !== join("base", "stack.ts") &&
    readFileSync(join(src, path), "utf8").includes("new TypeError(")
  );
  assertEquals(found, [], "typeError() of base/stack.ts makes them");
});

fault({
  entry: 18,
  kind: "console.log of a tensor as %d ended the program in Bun",
  others: [
    "%i and %f",
    "warn, error, debug, info and group",
    "format of node:util, also in Deno and Node",
  ],
}, () => {
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
