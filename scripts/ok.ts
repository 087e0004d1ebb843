/**
 * Everything a change must pass, in one command; `--no-tests` leaves out the last step.
 *
 * Each step is one command line. All of them run; quiet ones show their output only if they fail,
 * and a table follows. Exits with 1 if any step failed.
 *
 * @module
 */

import process from "node:process";
import { ensureInstalled, ENTRIES, findTool, root, start } from "./tools.ts";

interface Step {
  name: string;
  /** Arguments to deno. */
  args: string[];
  /** Shows its own progress. */
  streams?: boolean;
}

const steps: Step[] = [
  { name: "format", args: ["fmt", "--check"] },
  { name: "lint", args: ["lint"] },
  { name: "types", args: ["check", "."] },
  { name: "types without Deno", args: ["run", "-A", "npm:typescript/tsc", "-p", root] },
  { name: "layers", args: ["test", "-A", "--no-check", "tests/project/layers_test.ts"] },
  {
    name: "generated files",
    args: [
      "test",
      "-A",
      "--no-check",
      "tests/project/generated_test.ts",
      "tests/ops/ops_def_test.ts",
    ],
  },
  {
    name: "documentation",
    args: ["doc", "--lint", ...Object.values(ENTRIES)],
  },
  { name: "packages", args: ["run", "-A", "scripts/release/package.ts", "--host", "--check"] },
  { name: "tests", args: ["run", "-A", "scripts/test.ts"], streams: true },
];

/** Lines that do not concern this repository: deno doc does not follow @types/node's references. */
const NOISE = /^Check |^Warning Failed resolving types|\/@types\/node\/index\.d\.ts:/;

async function runStep({ name, args, streams }: Step): Promise<{ row: string; passed: boolean }> {
  const begin = performance.now();
  const lines: string[] = [];
  const code = await start(findTool("deno"), args, {
    env: { ...process.env, NO_COLOR: "1" },
    onLine: streams ? undefined : (line) => NOISE.test(line) || lines.push(line),
  });
  const seconds = ((performance.now() - begin) / 1000).toFixed(1).padStart(6);
  const row = `${name.padEnd(24)} ${code === 0 ? "ok    " : "FAILED"} ${seconds} s`;
  if (!streams && code !== 0) console.log(lines.join("\n"));
  console.log(row);
  return { row, passed: code === 0 };
}

await ensureInstalled();
const results = [];
for (const step of steps) {
  if (step.name === "tests" && process.argv.includes("--no-tests")) continue;
  results.push(await runStep(step));
}
await runStep({ name: "longest", args: ["run", "-A", "scripts/longest.ts"], streams: true });
console.log(["", ...results.map(({ row }) => row)].join("\n"));
process.exitCode = results.every(({ passed }) => passed) ? 0 : 1;
