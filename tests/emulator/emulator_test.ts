/**
 * The emulator of the CUDA libraries itself: correct kernels pass, and planted faults are found.
 *
 * emulator/driver.c does the work, through the libraries' own names. This file calls it in the
 * process, where each runtime has fault handlers, and as a program for scenarios that end a
 * process. Skipped without the emulator.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { runZig } from "../../scripts/tools.ts";
import { emulatorCopy, emulatorFolder, whyNoEmulator } from "./build.ts";
import { openLibrary } from "../native/ffi.ts";

const here = dirname(fileURLToPath(import.meta.url));
const reason = whyNoEmulator();
if (reason !== undefined) console.log(`The emulator is not tested: ${reason}`);
const check = reason === undefined ? test : test.skip;

const work = mkdtempSync(join(tmpdir(), "rowmajor-emulator-"));
after(() => rmSync(work, { recursive: true }));

function bytes(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`${text}\0`) as Uint8Array<ArrayBuffer>;
}

/** Builds the driver under a name, once. */
function build(name: string, ...flags: string[]): string {
  const path = join(work, name);
  if (existsSync(path)) return path;
  const args = ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-sanitize=all"];
  const rest = [...flags, join(here, "driver.c"), "-o", path, "-ldl", "-lm"];
  runZig([...args, ...rest]);
  return path;
}

type Scenario = (
  folder: Uint8Array<ArrayBuffer>,
  source: Uint8Array<ArrayBuffer>,
  name: Uint8Array<ArrayBuffer>,
  text: Uint8Array<ArrayBuffer>,
  length: number,
) => number;

/** run_scenario() of the driver, in this process. */
function openDriver(path: string): Scenario {
  return openLibrary<{ run_scenario: Scenario }>(path, {
    run_scenario: ["i32", "buffer", "buffer", "buffer", "buffer", "i32"],
  }).run_scenario;
}

let opened: { folder: string; run: Scenario } | undefined;

/** The driver in this process, with its own copy of the emulator. */
function driver(): { folder: string; run: Scenario } {
  return opened ??= {
    folder: emulatorCopy(mkdtempSync(join(work, "copy-"))),
    run: openDriver(build("driver.so", "-shared", "-fPIC")),
  };
}

/** The scenarios of the driver, except those that end the process. */
const SCENARIOS = [
  "sound_kernels",
  "lanes_of_warps",
  "many_modules",
  "missing_barrier",
  "divergent_barriers",
  "illegal_addresses",
  "injected_failures",
  "lazy_queues",
  "graphs",
  "two_devices",
  "products",
  "one_rank",
];

for (const name of SCENARIOS) {
  check(`the emulator: ${name.replaceAll("_", " ")}`, () => {
    const { folder, run } = driver();
    const text = new Uint8Array(8192);
    const source = bytes(readFileSync(join(here, "kernels.cu"), "utf8"));
    const status = run(bytes(folder), source, bytes(name), text, text.length);
    assertEquals(status, 0, new TextDecoder().decode(text.subarray(0, text.indexOf(0))));
  });
}

/** Runs a scenario in a process of its own. */
function spawn(folder: string, name: string, env: Record<string, string>) {
  const program = build("driver", "-DDRIVER_MAIN");
  const args = [folder, join(here, "kernels.cu"), name];
  return spawnSync(program, args, { encoding: "utf8", env: { ...process.env, ...env } });
}

check("the emulator: the host may touch device memory, except in strict mode", () => {
  const lenient = spawn(emulatorFolder(), "touch_from_host", {});
  assertStringIncludes(lenient.stdout, "the host read");
  const strict = { ROWMAJOR_EMULATOR_STRICT: "1" };
  const { signal, stderr } = spawn(emulatorFolder(), "touch_from_host", strict);
  assertEquals(signal, "SIGSEGV");
  assertStringIncludes(stderr, "the host touches device memory");
  for (const name of ["sound_kernels", "lazy_queues", "two_devices", "products"]) {
    const { stdout, status } = spawn(emulatorFolder(), name, strict);
    assertEquals(status, 0, stdout);
  }
});

check("the emulator: libraries may lack files and symbols, and devices", () => {
  const folder = mkdtempSync(join(work, "lacking-"));
  emulatorCopy(folder, { files: ["libcublas.so.13"], symbols: ["cudaGraphLaunch"] });
  assertStringIncludes(spawn(folder, "sound_kernels", {}).stdout, "libcublas.so.13");
  const other = mkdtempSync(join(work, "lacking-"));
  emulatorCopy(other, { symbols: ["cudaGraphLaunch"] });
  assertStringIncludes(spawn(other, "sound_kernels", {}).stdout, "no symbol cudaGraphLaunch");
  const none = spawn(emulatorFolder(), "sound_kernels", { ROWMAJOR_EMULATOR_DEVICES: "0" });
  assertStringIncludes(none.stdout, "cudaSetDevice(0) is 101");
});

check("the emulator: a source is compiled once, for all processes", () => {
  const cache = mkdtempSync(join(work, "kernels-"));
  const env = { ROWMAJOR_EMULATOR_CACHE: cache };
  assertEquals(spawn(emulatorFolder(), "sound_kernels", env).status, 0);
  const broken = { ...env, ROWMAJOR_EMULATOR_ZIG: join(work, "none") };
  assertEquals(spawn(emulatorFolder(), "sound_kernels", broken).status, 0);
  const { stdout } = spawn(emulatorFolder(), "sound_kernels", {
    ...broken,
    ROWMAJOR_EMULATOR_CACHE: mkdtempSync(join(work, "kernels-")),
  });
  assertStringIncludes(stdout, "No such file");
});
