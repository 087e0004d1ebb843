/**
 * Faults of what consoles show: stacks of errors, and tensors as numbers.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { attempt, concat, DTypeError, random, type Tensor, tensor, zeros } from "../../../mod.ts";
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
    // Bun prints the source of the first frame.
    if (inBun) assertMatch(lines[1]!, /traces_test\.ts/, error!.stack);
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
