/**
 * Float32 products of square matrices beside a C program that calls the same OpenBLAS: rowmajor with
 * its defaults, and with its own kernels only. Needs OpenBLAS and Linux or macOS.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { full } from "../../mod.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { findNative } from "../../src/backend/cpu.ts";
import { environment } from "../harness/line_process.ts";
import { mayHold, ownSides, WholeSide } from "../harness/served.ts";
import {
  type Figure,
  middle,
  type Outcome,
  type RunOptions,
  type Side,
  Stopwatch,
  type Suite,
} from "../harness/suite.ts";

const SIZES = [256, 512, 1024, 2048];
const CALLS = 20;

/** The goals: 90% of the C program's speed, and 60% without OpenBLAS. */
const GOALS: Readonly<Record<string, number>> = { OpenBLAS: 1 / 0.9, "own kernels": 1 / 0.6 };

/** The path of an OpenBLAS, or why there is none. */
function openBlas(): { readonly path: string } | { readonly reason: string } {
  const native = findNative();
  return typeof native === "string" ? { reason: native } : native.blas();
}

function sides(options: RunOptions): Side[] {
  const { threads, level } = options;
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-gemm-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  const blas = openBlas();
  const [source, program] = [join(root, "bench", "suites", "gemm.c"), join(folder, "gemm")];
  const all: Side[] = [];
  if ("path" in blas && mayHold(options, "C with OpenBLAS")) {
    const args = ["cc", "-O2", source, "-ldl", "-o", program];
    const { status, stderr } = spawnSync(findTool("zig"), args, { encoding: "utf8" });
    if (status !== 0) throw new Error(stderr);
    const command = [program, blas.path, ...[threads, CALLS, ...SIZES].map(String)];
    all.push(
      new WholeSide({ name: "C with OpenBLAS", peer: true }, () => ({
        command,
        env: environment(threads, level),
      })),
    );
  } else if ("reason" in blas) options.without("C with OpenBLAS", blas.reason);
  const none = join(folder, "none");
  return [
    ...all,
    ...ownSides(
      options,
      (group): Record<string, string> => group === "own kernels" ? { ROWMAJOR_OPENBLAS: none } : {},
    ),
  ];
}

/** The median calls of each size. */
function run(): Promise<Outcome> {
  const figures: Record<string, Figure> = {};
  for (const size of SIZES) {
    // deno-lint-ignore no-explicit-any
    const [a, b, out] = [2, 3, 0].map((value) => full([size, size], value)) as any;
    for (let i = 0; i < 3; i++) a.matmul(b, { out });
    const calls = Array.from({ length: CALLS }, () => {
      const watch = new Stopwatch();
      a.matmul(b, { out });
      return watch.read();
    });
    figures[`${size}`] = middle(calls);
  }
  return Promise.resolve({ figures });
}

/** The suite. */
export const suite: Suite = {
  title: "Matrix products beside a C program that calls OpenBLAS",
  groups: { OpenBLAS: "with OpenBLAS", "own kernels": "own kernels" },
  rows: Object.keys(GOALS).flatMap((group) =>
    SIZES.map((n) => ({
      ...{ group, name: `${n}`, per: { unit: "multiply-add", count: n ** 3 } },
    }))
  ),
  whole: true,
  ...{ rounds: 7, ms: 0 },
  beside: "each",
  lines: "row",
  goal: (row) =>
    row.endsWith("/1024") ? { ratio: Number(GOALS[row.split("/")[0]!]!.toFixed(2)) } : undefined,
  sides,
  run,
};
