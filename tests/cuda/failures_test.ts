/**
 * Failures of CUDA as programs see them, and long runs, on the emulator. The functions of
 * cuda/support/failures.ts run in processes of their own. `npm test` takes away a file of each
 * library, `npm run test:all` a function too, which cuda/shim_test.ts does for two of them.
 *
 * Skipped without the emulator or the native library.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type * as failures from "./support/failures.ts";
import { emulatorCopy, emulatorFolder, whyNoEmulator } from "../emulator/build.ts";
import { alone, withoutDevices } from "../native/cuda_apart.ts";
import { moduleAt, runApart, when } from "../native/support.ts";
import { amount } from "../support/amount.ts";

type Failures = typeof failures;

const reason = whyNoEmulator();
if (reason !== undefined) console.log(`Failures of CUDA are not tested: ${reason}`);

/**
 * The result of a function of cuda/support/failures.ts, in a process with the variables of `env`.
 */
function apart<N extends keyof Failures>(
  name: N,
  env: Record<string, string>,
  ...args: Parameters<Failures[N]>
): Awaited<ReturnType<Failures[N]>> {
  const list = args.map((arg) => JSON.stringify(arg)).join(", ");
  const program = `import { ${name} } from ${moduleAt("tests/cuda/support/failures.ts")};
    console.log(JSON.stringify(await ${name}(${list}) ?? null));`;
  const permissions = ["--allow-ffi", "--allow-env", "--allow-read", "--v8-flags=--expose-gc"];
  return JSON.parse(runApart(program, { ROWMAJOR_CACHE: "/dev/null", ...env }, permissions));
}

/** The same on the emulator. */
function onEmulator<N extends keyof Failures>(
  name: N,
  env: Record<string, string> = {},
  ...args: Parameters<Failures[N]>
): Awaited<ReturnType<Failures[N]>> {
  return apart(name, { ROWMAJOR_CUDA_LIB_DIR: emulatorFolder(), ...env }, ...args);
}

/** A test with a folder for its duration, or a skipped one. */
function emulated(
  name: string,
  body: (folder: string) => void,
  conditions: Readonly<Record<string, boolean>> = {},
): void {
  test(...when({ "the emulator": reason === undefined, ...conditions }, name, body));
}

// ---- missing parts
// -------------------------------------------------------------------------------

emulated("without a driver the first tensor says so at once, and the CPU serves", (folder) => {
  const env = alone(folder, { ROWMAJOR_CUDA_LIB_DIR: join(folder, "none") });
  const part = emulatorCopy(mkdtempSync(join(folder, "part-")), { files: ["libcuda.so.1"] });
  for (const where of [env, { ...env, ROWMAJOR_CUDA_LIB_DIR: part }]) {
    const [message, ms, again] = apart("noDevice", where);
    console.log(`the answer that there is no driver: ${ms.toFixed(1)} ms`);
    // It waits for nothing; only the machine may be busy.
    assert(ms < 2000, `${ms} ms`);
    assertMatch(message, /^Cannot .* cuda: .*driver/);
    assertMatch(again, /^Cannot .* cuda: .*driver/);
  }
}, withoutDevices);

emulated("without a device, or with a runtime that lacks a function, it is one error", (folder) => {
  const [none] = onEmulator("noDevice", { ROWMAJOR_EMULATOR_DEVICES: "0" });
  assertMatch(none, /^Cannot .* cuda: .*no .*CUDA.* device/i);
  for (const symbol of ["cudaMemcpyAsync", "cuLaunchKernel"]) {
    const part = emulatorCopy(mkdtempSync(join(folder, "part-")), { symbols: [symbol] });
    const [message] = apart("noDevice", alone(folder, { ROWMAJOR_CUDA_LIB_DIR: part }));
    assertStringIncludes(message, `it has no ${symbol}`);
  }
});

/** What copies of the emulator lack: the files of a library, or one of its functions. */
function lacking(files: string[], symbol: string): { files?: string[]; symbols?: string[] }[] {
  return [{ files }, { symbols: [symbol] }].slice(0, amount(1, 2));
}

emulated("without cuBLAS the library's own kernels make products", (folder) => {
  const files = ["libcublas.so.13", "libcublasLt.so.13"];
  for (const [i, without] of lacking(files, "cublasGemmEx").entries()) {
    const part = emulatorCopy(mkdtempSync(join(folder, `part-${i}-`)), without);
    apart("withoutBlas", alone(folder, { ROWMAJOR_CUDA_LIB_DIR: part }));
  }
});

emulated("without cuFFT the CPU makes Fourier transforms", (folder) => {
  const files = ["libcufft.so.12"];
  for (const [i, without] of lacking(files, "cufftXtExec").entries()) {
    const part = emulatorCopy(mkdtempSync(join(folder, `part-${i}-`)), without);
    apart("withoutFft", alone(folder, { ROWMAJOR_CUDA_LIB_DIR: part }));
  }
});

emulated("without cuSOLVER the CPU computes linear algebra", (folder) => {
  const files = ["libcusolver.so.12"];
  for (const [i, without] of lacking(files, "cusolverDnXgesvd").entries()) {
    const part = emulatorCopy(mkdtempSync(join(folder, `part-${i}-`)), without);
    apart("withoutSolver", alone(folder, { ROWMAJOR_CUDA_LIB_DIR: part }));
  }
});

emulated("without NVRTC an op says what to install", (folder) => {
  const part = emulatorCopy(mkdtempSync(join(folder, "part-")), { files: ["libnvrtc.so.13"] });
  const nothing = { ROWMAJOR_CUDA_LIB_DIR: part, ROWMAJOR_PTX: join(folder, "none") };
  for (const message of apart("withoutCompiler", alone(folder, nothing))) {
    assertMatch(message, /^cuda: /);
    assertStringIncludes(message, "libnvrtc.so.13");
    assertStringIncludes(message, "nvidia-cuda-nvrtc");
  }
  const other = emulatorCopy(mkdtempSync(join(folder, "part-")), { symbols: ["nvrtcGetCUBIN"] });
  const lacking = { ...nothing, ROWMAJOR_CUDA_LIB_DIR: other };
  const [message] = apart("withoutCompiler", alone(folder, lacking));
  assertStringIncludes(message, "it has no nvrtcGetCUBIN");
});

// ---- what fails ----------------------------------------------------------------------------------

emulated("where memory runs out nothing is lost, in the middle of composites too", () => {
  const counts = onEmulator("memoryRunsOut", { ROWMAJOR_CUDA_BLOCKS: "1" }, emulatorFolder());
  for (const [name, count] of Object.entries(counts)) assert(count > 0, `${name} never failed`);
});

emulated("a launch that is refused is an error at once, and no more", () => {
  assertMatch(
    onEmulator("launchFails", {}, emulatorFolder()),
    /^cuda: kernel add_f32_contiguous, .*: cuLaunchKernel: \w+ \(\d+\): /,
  );
});

emulated("a fault in a kernel stays until the process ends, which it does cleanly", () => {
  const messages = onEmulator("faultStays", {}, emulatorFolder());
  for (const message of messages) {
    assertMatch(message, /^cuda: .*: \w+LAUNCH_?FAIL\w+ \(719\): /i);
    assertStringIncludes(message, "no device works until this process is started again");
  }
  assertEquals(messages.length, 7);
});

emulated("a kernel that cannot be compiled is an error with the compiler's log", () => {
  const message = onEmulator("compileFails", {}, emulatorFolder());
  assertMatch(message, /^cuda: NVRTC cannot compile a kernel: NVRTC_ERROR_COMPILATION\n/);
  assertStringIncludes(message, "error: failure that a test asked for");
});

emulated("indexes out of range are an error of the next read, once", () => {
  onEmulator("indexesOutOfRange");
});

emulated(
  "kernels that are kept may be damaged, or in a folder that is not writable",
  (folder) => {
    const kept = join(folder, "kept");
    onEmulator("usesKernels", { ROWMAJOR_CACHE: kept });
    const names = readdirSync(kept);
    assert(names.length > 0);
    for (const name of names) writeFileSync(join(kept, name), "not a kernel");
    onEmulator("usesKernels", { ROWMAJOR_CACHE: kept });
    onEmulator("usesKernels", { ROWMAJOR_CACHE: join(kept, names[0]!, "below") });
  },
);

// ---- several devices, threads, long runs -----------------------------------------------------------

emulated("tensors go between devices in order with all that is queued", () => {
  for (const ROWMAJOR_EMULATOR_STRICT of ["0", "1"]) {
    onEmulator("severalDevices", { ROWMAJOR_EMULATOR_STRICT });
  }
});

emulated("uploads come between the kernels that are queued", () => {
  onEmulator("uploadsBetweenKernels");
});

emulated("memory stays flat over thousands of small ops", () => {
  const count = amount(8000, 20_000);
  const [device, resident] = onEmulator("manyOps", {}, count);
  console.log(
    `${count} ops: ${device} bytes more on the device, ${(resident / 2 ** 20).toFixed(1)} MiB`,
  );
  assertEquals(device, 0);
  assert(resident < 48 * 2 ** 20, `${resident} bytes more`);
});

emulated("tensors that are lost give their memory back", () => {
  const [before, lost, after] = onEmulator("lostTensorsAreFreed");
  assert(lost >= before + 100 * 4000, `${lost} of ${before}`);
  assert(after <= before + 8192, `${after} of ${before}, ${lost} in between`);
});

emulated("threads use a device at the same time", () => {
  const total = (seed: number): number => {
    let sum = 0;
    for (let i = 0; i < 150; i++) sum += 1000 * (seed + i) + 499_500;
    return sum;
  };
  assertEquals(onEmulator("severalThreads"), [total(0), total(1), total(2)]);
});

emulated("threads that begin to record at once take turns", () => {
  assertEquals(onEmulator("recordersTakeTurns"), ["recorded", "recorded"]);
});

emulated("a worker that ends while it records blocks no other thread", () => {
  onEmulator("recorderEnds");
});
