/**
 * What the tests of CUDA kernels catch: with one fault planted in a header of the kernels, they fail on
 * the emulator with the expected message. Each fault is planted in a process of its own, which runs
 * part of the unchanged tests. `npm test` plants a sample of the faults.
 *
 * Skipped without the emulator or the native library.
 *
 * @module
 */
import { assert, assertMatch } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { root } from "../../../scripts/tools.ts";
import { openShim } from "../../../src/backend/ffi/load.ts";
import { emulatorFolder, whyNoEmulator } from "../../emulator/build.ts";
import { inDeno } from "../../native/support.ts";
import { isSampled } from "../../support/amount.ts";

const work = mkdtempSync(join(tmpdir(), "rowmajor-planted-"));
after(() => rmSync(work, { recursive: true }));

function whyNot(): string | undefined {
  const shim = openShim();
  return "reason" in shim ? shim.reason : whyNoEmulator();
}

const reason = whyNot();
if (reason !== undefined) console.log(`The CUDA tests are not tested: ${reason}`);
const check = reason === undefined ? test : test.skip;

/** A part of the tests: a file, and the prefix of the names of its tests. */
interface Part {
  readonly file:
    | "table"
    | "kernels/kernels"
    | "kernels/long"
    | "kernels/attention"
    | "kernels/quantized";
  readonly tests: string;
}

interface Outcome {
  readonly passed: boolean;
  /** The output of the runtime, without colors. */
  readonly output: string;
  /** The emulator's messages about kernels. */
  readonly log: string;
}

/** Runs a part of the tests with a fault planted in `header`, or none. */
function run(
  { file, tests }: Part,
  header: string,
  text: string,
  env: Record<string, string> = {},
): Outcome {
  const [plant, log] = [join(work, "plant"), join(work, "log")];
  writeFileSync(plant, `${header}\x01${text}\0`);
  rmSync(log, { force: true });
  const path = join("tests", "cuda", `${file}_test.ts`);
  const args = inDeno
    ? ["test", "-A", "--no-check", "--fail-fast", `--filter=/^(${tests})/`, path]
    : ["test", "--timeout=120000", "--bail=1", `--test-name-pattern=^(${tests})`, path];
  const all = {
    ...process.env,
    NO_COLOR: "1",
    ROWMAJOR_EMULATOR_PLANT: plant,
    ROWMAJOR_EMULATOR_LOG: log,
    // The tests that are to fail are not left out.
    ROWMAJOR_TEST_ALL: "1",
    ...env,
  };
  const result = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8", env: all });
  const output = result.stdout + result.stderr;
  assert(/\b[1-9]\d* (?:passed|pass|failed)\b|^\(fail\)/m.test(output), `no test ran:\n${output}`);
  return {
    passed: result.status === 0,
    output,
    log: existsSync(log) ? readFileSync(log, "utf8") : "",
  };
}

interface Fault {
  readonly what: string;
  /** The header of shim/cuda/kernels. */
  readonly header: string;
  /** The text to replace, after the text `after` if given, and its replacement. */
  readonly change: readonly [from: string, to: string, after?: string];
  readonly part: Part;
  /** The expected message of the tests or of the emulator. */
  readonly says?: RegExp;
  readonly log?: RegExp;
  readonly env?: Record<string, string>;
}

/** Results that differ from those of the reference. */
const WRONG = /differs|, expected|, not -?\d|outside the view|Values are not equal/;
const STUCK = /a barrier is not reached by all|meet at different barriers|meet in different lines/;
/** What leaves memory reads what lies behind, or ends the kernel. */
const OUTSIDE = /differs|, expected|, not -?\d|outside the view|Values are not equal|\(700\)/;
const LEFT = /^$|illegal address|bytes behind an allocation/;

const SUMS: Part = { file: "table", tests: "sum: cuda" };
const SCANS: Part = { file: "kernels/long", tests: "along long axes on CUDA: cumulativeSum" };
const COUNTS: Part = { file: "kernels/kernels", tests: "Counts" };
const MAPS: Part = { file: "table", tests: "(neg|add): cuda" };
const SORTS: Part = { file: "kernels/kernels", tests: "Sorting" };
const NONZERO: Part = { file: "kernels/kernels", tests: "Nonzero" };
const NORMS: Part = { file: "kernels/kernels", tests: "Softmax" };
const MATMUL: Part = { file: "kernels/kernels", tests: "Products" };
const QUANTIZED: Part = { file: "kernels/quantized", tests: "quantized q5_0: products of few" };
const ATTENTION: Part = { file: "kernels/attention", tests: "attention: hidden keys" };

const BARRIER = "__syncthreads();";

const FAULTS: readonly Fault[] = [
  {
    what: "no barrier before a block's sums are put together",
    header: "block.h",
    change: [BARRIER, "", "rm_block_prefix_sum"],
    part: NONZERO,
    says: WRONG,
  },
  {
    what: "no barrier before the room of a block's sums is used again",
    header: "block.h",
    change: [BARRIER, "", "all += shared[w]"],
    part: COUNTS,
    says: WRONG,
  },
  {
    what: "no barrier before lanes are joined",
    header: "reduce.h",
    change: [BARRIER, "", "all[i][thread] = a[i];"],
    part: SUMS,
    says: WRONG,
  },
  {
    what: "no barrier between the steps in which lanes are joined",
    header: "reduce.h",
    change: [BARRIER, "", "if (lane < half)"],
    part: SUMS,
    says: WRONG,
  },
  {
    what: "no barrier before the warps of a scan are put together",
    header: "scan.h",
    change: [BARRIER, "", "warps[warp] = sum"],
    part: SCANS,
    says: WRONG,
  },
  {
    what: "no barrier before the room of a scan is used again",
    header: "scan.h",
    change: [BARRIER, "", "total = Op::combine"],
    part: SCANS,
    says: WRONG,
  },
  {
    what: "no barrier before a tile is turned",
    header: "map.h",
    change: [BARRIER, "", "- tiled"],
    part: MAPS,
    says: WRONG,
  },
  {
    what: "no barrier before a tile of a product is read",
    header: "matmul.h",
    change: [BARRIER, "", "void rm_multiply("],
    part: MATMUL,
    says: WRONG,
  },
  {
    what: "no barrier before the next tile of a product is written",
    header: "matmul.h",
    change: [BARRIER, "", "rm_multiply_add(l[i]"],
    part: MATMUL,
    says: WRONG,
  },
  {
    what: "no barrier before the sums of warps are added",
    header: "quantized.h",
    change: [BARRIER, "", "rm_sum_each<SUMS>(acc)"],
    part: QUANTIZED,
    says: WRONG,
  },
  {
    what: "no barrier before keys and values are read",
    header: "attention.h",
    change: [BARRIER, "", "rm_wait_copies();"],
    part: ATTENTION,
    says: WRONG,
  },
  {
    what: "keys and values that nothing waits for",
    header: "attention.h",
    change: ["rm_wait_copies();", ""],
    part: ATTENTION,
    // Rows of what was there before are NaN, and computed again where keys are hidden; the copies
    // arrive after their block has ended.
    says: /cudaErrorIllegalAddress|Values are not equal|, not -?\d/,
    log: /^$|illegal address/,
  },
  {
    what: "no barrier before the largest of a row is taken",
    header: "softmax_norm.h",
    change: [BARRIER, "", "struct rm_lane_group<0>"],
    part: NORMS,
    says: WRONG,
  },
  {
    what: "no barrier between the reads of a row's sums and the next ones",
    header: "softmax_norm.h",
    change: [BARRIER, "", "all += shared[w]"],
    part: NORMS,
    says: WRONG,
  },
  {
    what: "lanes of a warp count digits without waiting for those that read",
    header: "sort.h",
    change: ["__syncwarp();", "", "void rank("],
    part: SORTS,
    // Elements may even be written outside all memory.
    says: /differs|\(700\)/,
    log: /^$|illegal address|index beyond an array/,
  },
  {
    what: "a barrier that only some threads reach",
    header: "reduce.h",
    change: [BARRIER, `if (lane < half) ${BARRIER}`, "if (lane < half)"],
    part: SUMS,
    says: /cudaErrorLaunchFailure \(719\)|CUDA_ERROR_LAUNCH_FAILED \(719\)/,
    log: STUCK,
  },
  {
    what: "a shuffle that some lanes leave out",
    header: "scan.h",
    change: ["for (int distance = 1;", "if (lane != 3) for (int distance = 1;"],
    part: SCANS,
    says: /\(719\)/,
    log: STUCK,
  },
  {
    what: "a read of one element too many",
    header: "reduce.h",
    change: [
      "rm_min(from + params.length, params.count)",
      "rm_min(from + params.length, params.count) + 1",
    ],
    part: SUMS,
    says: OUTSIDE,
    log: LEFT,
  },
  {
    what: "a read of one element too many, where memory ends",
    header: "reduce.h",
    change: [
      "rm_min(from + params.length, params.count)",
      "rm_min(from + params.length, params.count) + 1",
    ],
    // One more element does not change whether any is true, until memory ends.
    part: { file: "kernels/long", tests: "along long axes on CUDA: any" },
    says: /\(700\)/,
    log: /illegal address .* byte (\d+) of an allocation of \1$/m,
  },
  {
    what: "a write of one element too many",
    header: "map.h",
    change: [
      "rm_min(from + TILE, params.length)",
      "(from + TILE < params.length ? from + TILE : params.length + 1)",
    ],
    part: MAPS,
    says: OUTSIDE,
    log: LEFT,
  },
  {
    what: "a write of one element too many, where memory ends",
    header: "random.h",
    change: ["if (i * COUNT + e < length)", "if (i * COUNT + e <= length)"],
    part: { file: "kernels/kernels", tests: "Random" },
    says: /\(700\)/,
    log: /bytes behind an allocation of \d+ were written to|byte (\d+) of an allocation of \1$/m,
  },
  {
    what: "a pack that begins where none may",
    header: "map.h",
    change: [
      "if (contiguous) return rm_load<N>((const T *)in.at + at);",
      "if (contiguous) return rm_load<N>((const T *)in.at + at + 1);",
    ],
    part: MAPS,
    says: /\(716\)|\(700\)/,
    log: /misaligned address|illegal address/,
  },
  {
    what: "memory that runs out",
    header: "",
    change: ["", ""],
    part: SORTS,
    env: { ROWMAJOR_EMULATOR_MEMORY: "20000" },
    says: /OutOfMemoryError|Cannot allocate \d+ bytes on cuda/,
  },
];

/** The header with the change. */
function planted({ header, change: [from, to, later] }: Fault): string {
  if (header === "") return "";
  const text = readFileSync(join(root, "shim", "cuda", "kernels", header), "utf8");
  const begin = later === undefined ? 0 : text.indexOf(later);
  const at = begin < 0 ? -1 : text.indexOf(from, begin);
  assert(at >= 0, `${header} has no ${from} after ${later}: the fault has to be planted elsewhere`);
  return text.slice(0, at) + to + text.slice(at + from.length);
}

for (const fault of FAULTS) {
  if (!isSampled(fault.what, 6)) continue;
  check(`planted: ${fault.what}`, () => {
    emulatorFolder();
    const { passed, output, log } = run(fault.part, fault.header, planted(fault), fault.env);
    assert(!passed, `the tests passed:\n${output}`);
    if (fault.says !== undefined) assertMatch(output, fault.says);
    assertMatch(log, fault.log ?? /^$/);
  });
}
