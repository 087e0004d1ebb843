/**
 * The script that checks the CUDA backend on a GPU machine, run on the emulator: every stage ends,
 * prints the expected output, and fails without a device.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { root } from "../../scripts/tools.ts";
import { whyNoCuda } from "../cuda/support/device.ts";
import { emulatorFolder } from "../emulator/build.ts";
import { check, library } from "../native/support.ts";

const runtime = "Bun" in globalThis ? "bun" : "deno";
const reason = process.arch === "x64" ? whyNoCuda() : "its runtimes are those of x64";

interface Outcome {
  readonly status: number | null;
  readonly output: string;
  /** The lines of a file of results, parsed. */
  lines(file: string): Record<string, unknown>[];
}

/** Calls `use` with the result of a stage. */
function verify(stage: string, env: Record<string, string>, use: (outcome: Outcome) => void): void {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-gpu-"));
  try {
    const { status, stdout, stderr } = spawnSync(
      "sh",
      ["scripts/gpu/verify.sh", stage, runtime],
      {
        cwd: root,
        encoding: "utf8",
        env: {
          ...process.env,
          OUT: folder,
          // Ignores a pack that an older tree has left in .gpu, or in the shared folder.
          ROWMAJOR_LIB: library,
          TMPDIR: folder,
          ROWMAJOR_CUDA_LIB_DIR: emulatorFolder(),
          ROWMAJOR_CACHE: join(folder, "kernels"),
          ROWMAJOR_GPU_SCALE: "4096",
          ROWMAJOR_GPU_FILTER: "sum",
          ROWMAJOR_GPU_PARTS: "2",
          // PyTorch has no emulator.
          ROWMAJOR_PYTHON: join(folder, "no-python"),
          ...env,
        },
      },
    );
    const lines = (file: string): Record<string, unknown>[] =>
      readFileSync(join(folder, file), "utf8").trim().split("\n").map((line) => JSON.parse(line));
    use({ status, output: stdout + stderr, lines });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (reason !== undefined) test(`GPU verification (${reason})`, { skip: true }, () => {});
else {
  // One runtime takes all stages; the other shows that it is started in the same way.
  const inBun = { skip: runtime !== "bun" && "Deno takes all stages", timeout: 240_000 };
  check("a stage of the GPU verification passes in Bun", inBun, () => {
    verify("probe", {}, ({ status, output, lines }) => {
      assertEquals(status, 0, output);
      assertEquals(lines("stages.jsonl").map(({ stage, status }) => [stage, status]), [[
        "probe",
        0,
      ]]);
    });
  });

  const inDeno = { skip: runtime !== "deno" && "Bun takes one stage", timeout: 240_000 };
  check("all stages of the GPU verification pass on the emulator", inDeno, () => {
    verify("all", {}, ({ status, output, lines }) => {
      assertEquals(status, 0, output);
      assertMatch(output, /all stages passed\n$/);
      const stages = lines("stages.jsonl");
      assertEquals(stages.map(({ stage }) => stage), ["probe", "test", "bench", "sanitize"]);
      assert(stages.every(({ status }) => status === 0));
      const [about, ...rows] = lines("bench.jsonl").filter(({ begin }) => begin === undefined);
      assertMatch(String(about!.device), /^Emulator/);
      assert(rows.length > 30);
      for (const { name, us, error } of rows) {
        assertEquals(error, undefined, String(name));
        assert(typeof us === "number" && us > 0, String(name));
      }
      // The kernels and both parts of the table had tests, and passed.
      assertMatch(output, /-- prebuilt-1:[^]*-- table-0:[^]*-- table-1:/);
      assert([...output.matchAll(/-- .*\b[1-9]\d* pass/g)].length >= 3, output);
    });
  });

  check("the GPU verification fails without a device", () => {
    verify("probe", { ROWMAJOR_LIB: "/nowhere/librowmajor.so" }, ({ status, output, lines }) => {
      assertEquals(status, 1, output);
      assertMatch(output, /DeviceError: Cannot/);
      assertEquals(lines("stages.jsonl").map(({ status }) => status !== 0), [true]);
    });
  });
}
