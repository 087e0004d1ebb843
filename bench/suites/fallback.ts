/**
 * What runs where the native library cannot be opened: the WebAssembly module on one thread, beside
 * the library, the JavaScript loops and numpy-ts, in Deno, Bun and Node, all from the npm package.
 *
 * @module
 */
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { builtLibraries, HOST, stageNpm } from "../../scripts/release/package.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { environment } from "../harness/line_process.ts";
import { WholeSide } from "../harness/served.ts";
import type { RunOptions, Side, Suite } from "../harness/suite.ts";
import { PEERS_FOLDER, versionOf } from "./node_peers.ts";

const ROWS = {
  elementwise: [
    ...["add float32 1e6", "add float64 1e6", "add float64 1e4", "add float64 100"],
    ...["exp float32 1e6", "exp float64 1e6", "transposed copy float64 1000 × 1000"],
  ],
  sums: ["sum float64 1e6", "sum of axis 0 float64 1000 × 1000"],
  products: [
    ...["matmul float32 256", "matmul float32 1024", "matmul float64 256", "matmul float64 1024"],
  ],
  sorts: ["sort float64 1e5", "argsort float64 1e5"],
  numerics: [
    ...["rfft float64 65536", "solve float64 100", "svd float64 100", "inv float64 100"],
  ],
  nn: ["softmax float32 1000 × 1000", "conv2d float32 32 channels 56 × 56"],
} as const;

const TITLES = {
  elementwise: "add, exp, a transposed copy",
  sums: "sums of all, and of columns",
  products: "matrix products",
  sorts: "sort and argsort of 1e5",
  numerics: "a transform, and linear algebra of 100 × 100",
  nn: "softmax and convolution",
} as const;

/** Node, if it is installed. */
function hasNode(): boolean {
  try {
    execFileSync("node", ["--version"]);
    return true;
  } catch {
    return false;
  }
}

async function sides(options: RunOptions): Promise<Side[]> {
  const { runtimes, level, without } = options;
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-fallback-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  await stageNpm(join(folder, "node_modules", "@rowmajor", "tensor"), builtLibraries(HOST));
  const script = join(root, "bench", "suites", "fallback_program.mjs");
  const program = join(folder, "program.mjs");
  // Its imports are those of a program in that folder.
  cpSync(script, program);
  const numpyTs = versionOf(options, "numpy-ts", "numpy-ts", true);
  const peer = join(PEERS_FOLDER, "node_modules", "numpy-ts", "dist", "esm", "index.js");
  const env = environment(1, level);
  const commands: Record<string, readonly string[]> = {};
  for (const runtime of runtimes) {
    commands[runtime] = runtime === "Deno" ? [findTool("deno"), "run", "-A"] : [findTool("bun")];
  }
  if (hasNode()) commands.Node = ["node"];
  else without("Node", "it is not installed");
  return Object.entries(commands).flatMap(([name, command]) =>
    ["wasm", "native", "js", ...numpyTs === undefined ? [] : ["numpy-ts"]].flatMap((side) => {
      // Node before 26.1 opens no library.
      if (name === "Node" && side === "native") return [];
      const runtime = name as "Deno" | "Bun" | "Node";
      const args = { name: `${name} ${side}`, peer: side !== "wasm", runtime };
      return new WholeSide(args, (group) => ({
        command: [...command, program, group, side, "@rowmajor/tensor", pathToFileURL(peer).href],
        ...{ cwd: folder, env },
      }));
    })
  );
}

/** The suite. */
export const suite: Suite = {
  title: "Without the native library",
  groups: TITLES,
  rows: Object.entries(ROWS).flatMap(([group, names]) => names.map((name) => ({ group, name }))),
  whole: true,
  ...{ rounds: 5, ms: 0, threads: [1] },
  beside: "each",
  lines: "row",
  sides,
};
