/**
 * NVIDIA's own compiler accepts every kernel: compiles kernels that have changed since their last
 * check, as many as possible in half a minute; `deno task nvrtc` compiles them all, and saves the
 * results.
 *
 * Changes are not tested if that compiler is not installed, which the test reports.
 *
 * @module
 */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import {
  ARCHITECTURES,
  hashOf,
  optionsText,
  readReport,
  readStore,
  wholeText,
  worse,
} from "../../scripts/gpu/nvrtc_figures.ts";
import { allFamilies } from "../../src/backend/cuda/families.ts";

const families = allFamilies();
const options = optionsText();
const store = readStore();

/** Runs the script; returns its exit code, its output, and the numbers of its last line. */
function check(
  ...args: string[]
): { status: number | null; output: string; compiled: number; failures: number } {
  const path = fileURLToPath(new URL("../../scripts/gpu/nvrtc_check.ts", import.meta.url));
  const run = "Deno" in globalThis ? ["run", "-A", "--no-check"] : [];
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [...run, path, "--check", "--no-install", ...args],
    { encoding: "utf8", env: { ...process.env, NO_COLOR: "1" } },
  );
  const [, compiled, failures] =
    /: (\d+) compiled, .*?(\d+) failures$/.exec(stdout.trimEnd().split("\n").at(-1)!) ?? [];
  assert(failures !== undefined, `the script says ${stdout}\n${stderr}`);
  return { status, output: stdout, compiled: Number(compiled), failures: Number(failures) };
}

const changed = families.filter((family) => {
  const known = store.families.get(family.name);
  return known?.hash !== hashOf(family, options) ||
    ARCHITECTURES.some((architecture) => !known.done.has(architecture));
});

const sample = check("--all", "counts");
if (sample.output.includes("NVRTC, the compiler of CUDA, is not here")) {
  const what = `${changed.length} families of kernels have changed since they were compiled`;
  test(`NVRTC compiles kernels (it is not here; ${what})`, { skip: true }, () => {});
} else {
  test("NVRTC makes of a family what it made of it before, and says nothing", () => {
    const { status, failures, compiled, output } = sample;
    assertEquals([status, failures, compiled], [0, 0, ARCHITECTURES.length], output);
  });

  const none = changed.length === 0;
  const name = "NVRTC compiles the kernels that have changed, and says nothing";
  test(`${name}${none ? " (none has)" : ""}`, { skip: none }, () => {
    const { status, output, compiled } = check("--seconds=30");
    assertEquals(status, 0, output);
    assert(compiled > 0, output);
    console.log(`${output.trimEnd().split("\n").at(-1)}: deno task nvrtc compiles and keeps them`);
  });
}

test("figures are kept of every kernel that is done", () => {
  let kernels = 0;
  for (const family of families) {
    const { name, names } = family;
    const known = store.families.get(name);
    // Figures of an older source may lack kernels; the next compilation compares with them.
    const isOld = known?.hash !== hashOf(family, options);
    for (const architecture of known?.done ?? []) {
      for (const kernel of names) {
        const [registers] = store.kernels.get(kernel)?.get(architecture) ?? [];
        if (isOld && registers === undefined) continue;
        assert(registers! > 0 && registers! <= 255, `${kernel}: ${registers} registers`);
        kernels++;
      }
    }
  }
  assert(kernels > 0, "nothing was kept");
});

test("what changes a kernel changes the hash of its family, and nothing else does", () => {
  const family = families.find(({ name }) => name === "add")!;
  const hash = hashOf(family, options);
  assertEquals(hash, hashOf({ ...family }, options));
  assertNotEquals(hash, hashOf(family, options.replace("-fmad=false", "-fmad=true")));
  assertNotEquals(hash, hashOf({ ...family, source: `${family.source}\n#define X` }, options));
  const text = wholeText(family.source);
  assert(!text.includes('#include "') && !text.includes("/*"), "headers are in place, and bare");
  assert(text.includes("rm_map_contiguous") && text.includes("rm_cast"), "both kinds of headers");
});

test("a report is figures, and what the compiler said besides", () => {
  const { figures, said } = readReport(
    "a_contiguous\t40\t8\t16\t32\t2048\nkernel.cu(3): warning #1\n",
  );
  assertEquals(figures, new Map([["a_contiguous", [40, 8, 16, 32, 2048]]]));
  assertEquals(said, "kernel.cu(3): warning #1");
});

test("more spills and many more registers are worse", () => {
  assertEquals(worse([40], undefined), undefined);
  assertEquals(worse([48], [40, 0, 0, 0, 64]), undefined);
  assertEquals(worse([20], [40, 8, 8, 8]), undefined);
  assertEquals(worse([49], [40]), "40 to 49 registers");
  assertEquals(worse([40, 8, 4, 0], [40]), "0 to 4 bytes of spill stores");
  assertEquals(worse([40, 8, 4, 12], [40, 8, 4, 8]), "8 to 12 bytes of spill loads");
});
