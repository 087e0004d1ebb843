/**
 * Finding the CUDA libraries: without a driver, with files that are not libraries, with stub
 * libraries of several versions, and NVRTC alone if it is installed.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { root, runZig } from "../../scripts/tools.ts";
import { STATUS } from "../../src/backend/ffi/abi.ts";
import { alone, runOf, withoutDevices } from "../native/cuda_apart.ts";
import { findZig, found, when } from "../native/support.ts";

const onLinux = { "Linux": process.platform === "linux" };

test(...when(withoutDevices, "without a driver the reason comes at once, and again", (folder) => {
  const named = join(folder, "named");
  mkdirSync(named);
  const answers = runOf("whatOpeningAnswers", alone(folder), [null, null, named, named, null]);
  for (const [status, message, milliseconds] of answers) {
    assertEquals(status, STATUS.notFound);
    assertMatch(message, /driver|does not exist on macOS/);
    // It waits for nothing; only the machine may be busy.
    assert(milliseconds < 2000, `${milliseconds} ms`);
  }
  if (process.platform === "darwin") return;
  assertStringIncludes(answers[0]![1], "install the driver");
  // A folder that is named later is searched too, and is part of the message from then on.
  assert(!answers[1]![1].includes(named));
  for (const i of [2, 3, 4]) assertStringIncludes(answers[i]![1], named);
}));

const bareLinux = { ...onLinux, ...withoutDevices };

test(...when(bareLinux, "files that are no libraries are named with what is wrong", (folder) => {
  const parts = ["first", "second"].map((name) => join(folder, name));
  for (const part of parts) {
    mkdirSync(part);
    writeFileSync(join(part, "libcuda.so.1"), part.endsWith("first") ? "" : "no library");
  }
  const env = alone(folder, { ROWMAJOR_CUDA_LIB_DIR: `${parts[0]}:/nonexistent:` });
  const [, message] = runOf("whatOpeningAnswers", env, [parts[1]!])[0]!;
  for (const part of parts) assertStringIncludes(message, join(part, "libcuda.so.1:"));
  assert(!message.includes("/nonexistent"));
  assert(message.indexOf(parts[0]!) < message.indexOf(parts[1]!));
}));

// ---- made-up libraries ---------------------------------------------------------------------------

/** The functions of a library, as shim/cuda/cuda_functions.def lists them. */
function functionsOf(list: string): string[] {
  const text = readFileSync(join(root, "shim", "cuda", "cuda_functions.def"), "utf8");
  const lines = text.matchAll(new RegExp(`^RM_${list}_FUNCTION\\((\\w+),`, "gm"));
  // Functions with a name for each of four dtypes.
  const four = text.matchAll(new RegExp(`^RM_${list}_FUNCTIONS\\(\\w+,([^(]*),\\s*\\(`, "gm"));
  const named = [...four].flatMap(([, names]) => names!.split(",").map((name) => name.trim()));
  return [...[...lines].map(([, name]) => name!), ...named];
}

const REST: Record<string, string> = {
  DRIVER: "",
  RUNTIME: `const char *cudaGetErrorName(int code) { return "name"; }
    const char *cudaGetErrorString(int code) { return "words"; }`,
  NVRTC: 'const char *nvrtcGetErrorString(int code) { return "words"; }',
  CUBLAS: "",
  CUBLASLT: "",
  CUSOLVER: "",
  NCCL: 'const char *ncclGetErrorString(int code) { return "words"; }',
};

/** Writes a library whose functions do nothing, except those that `own` defines. */
function make(path: string, list: string, own: string, ...more: string[]): void {
  mkdirSync(join(path, ".."), { recursive: true });
  const functions = functionsOf(list)
    .filter((name) => !new RegExp(`int ${name}\\(`).test(own))
    .map((name) => `int ${name}(void) { return 0; }`);
  assert(functions.length > 5, list);
  const source = [...functions, REST[list]!, own, ""].join("\n");
  const rest = more.length > 0 ? ["-x", "none", ...more] : [];
  const args = ["cc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", path, ...rest];
  runZig(args, source);
}

const driver = (version: number): string =>
  `int cuDriverGetVersion(int *to) { *to = ${version}; return 0; }`;
const runtime = (version: number): string =>
  `int cudaRuntimeGetVersion(int *to) { *to = ${version}; return 0; }
  int cudaGetDeviceCount(int *to) { *to = 1; return 0; }`;
const blas = (part: string, patch: number): string =>
  `int cublas${part}GetProperty(int which, int *to) {
    *to = which == 0 ? 12 : which == 1 ? 4 : ${patch};
    return 0;
  }`;
/** A process that loads this library exits. */
const FORBIDDEN = `#include <unistd.h>
  __attribute__((constructor)) static void loaded(void) { _exit(9); }`;

const made = { ...onLinux, "zig": findZig() !== undefined };

function lineOf(info: string, key: string): string {
  return info.split("\n").find((line) => line.startsWith(`${key}\t`))!.slice(key.length + 1);
}

test(...when(made, "a library of a newer CUDA than the driver's is not loaded", (folder) => {
  const [named, home] = [join(folder, "named"), join(folder, "home")];
  make(join(named, "libcuda.so.1"), "DRIVER", driver(12040));
  make(join(named, "libcudart.so.13"), "RUNTIME", `${runtime(13000)}\n${FORBIDDEN}`);
  make(join(named, "libcudart.so"), "RUNTIME", runtime(13000));
  const env = alone(folder, { ROWMAJOR_CUDA_LIB_DIR: named, CUDA_HOME: home });
  const [status, message] = runOf("whatOpeningAnswers", env, [null])[0]!;
  assertEquals(status, STATUS.notFound);
  assertStringIncludes(message, "libcudart.so: it is of CUDA 13, the driver of CUDA 12");
  // A suitable one comes later.
  make(join(home, "lib64", "libcudart.so.12"), "RUNTIME", runtime(12010));
  assertEquals(runOf("whatOpeningAnswers", env, [null])[0]![0], STATUS.ok);
  const info = runOf("whatIsOpen", env);
  assertEquals(lineOf(info, "driver"), `12.4, ${join(named, "libcuda.so.1")}`);
  assertEquals(lineOf(info, "cudart"), `12.1, ${join(home, "lib64", "libcudart.so.12")}`);
}));

test(
  ...when(
    { ...made, ...withoutDevices },
    "a driver that does not work is named with what it says",
    (folder) => {
      make(
        join(folder, "libcuda.so.1"),
        "DRIVER",
        `${driver(13000)}
    int cuInit(unsigned flags) { return 100; }
    int cuGetErrorName(int code, const char **to) { *to = "CUDA_ERROR_NO_DEVICE"; return 0; }
    int cuGetErrorString(int code, const char **to) { *to = "no device"; return 0; }`,
      );
      const env = alone(folder, { ROWMAJOR_CUDA_LIB_DIR: folder });
      const [, message] = runOf("whatOpeningAnswers", env, [null])[0]!;
      assertStringIncludes(message, "libcuda.so.1: cuInit: CUDA_ERROR_NO_DEVICE (100): no device");
    },
  ),
);

test(...when(made, "the parts of cuBLAS come from one folder, and are of one version", (folder) => {
  const named = join(folder, "named");
  make(join(named, "libcuda.so.1"), "DRIVER", driver(12040));
  make(join(named, "libcudart.so.12"), "RUNTIME", runtime(12040));
  const site = (name: string): string =>
    join(folder, name, "lib", "python3.11", "site-packages", "nvidia");
  // One part alone; two that differ; two that fit.
  make(
    join(site("venv"), "cublas", "lib", "libcublas.so.12"),
    "CUBLAS",
    `${blas("", 5)}\n${FORBIDDEN}`,
  );
  const mixed = join(folder, "home", "lib64");
  make(join(mixed, "libcublas.so.12"), "CUBLAS", blas("", 5));
  make(join(mixed, "libcublasLt.so.12"), "CUBLASLT", blas("Lt", 4));
  const env = alone(folder, {
    ROWMAJOR_CUDA_LIB_DIR: named,
    VIRTUAL_ENV: join(folder, "venv"),
    CUDA_HOME: join(folder, "home"),
    CUDA_PATH: join(folder, "path"),
  });
  const missing = lineOf(runOf("whatIsOpen", env), "cublas");
  assertStringIncludes(missing, "libcublas.so.12: it is version 12.4.5, but cublasLt is 12.4.4");
  const fitting = join(folder, "path", "targets", "any", "lib");
  make(join(fitting, "libcublas.so.12"), "CUBLAS", blas("", 5));
  make(join(fitting, "libcublasLt.so.12"), "CUBLASLT", blas("Lt", 5));
  assertEquals(
    lineOf(runOf("whatIsOpen", env), "cublas"),
    `12.4, ${join(fitting, "libcublas.so.12")}`,
  );
}));

test(
  ...when(made, "cuSOLVER finds what it needs beside it, and is of the driver's CUDA", (folder) => {
    make(join(folder, "libcuda.so.1"), "DRIVER", driver(12040));
    make(join(folder, "libcudart.so.12"), "RUNTIME", runtime(12040));
    make(join(folder, "libcublas.so.12"), "CUBLAS", blas("", 5));
    make(join(folder, "libcublasLt.so.12"), "CUBLASLT", blas("Lt", 5));
    // No folder of the system or of the library itself leads to it.
    const sparse = join(folder, "libcusparse.so.12");
    runZig(
      ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", sparse, "-Wl,-soname,libcusparse.so.12"],
      "int cusparse_number(void) { return 11; }\n",
    );
    const version = (major: string): string =>
      `int cusparse_number(void);
    int cusolverGetProperty(int which, int *to) { *to = which == 0 ? ${major} : 6; return 0; }`;
    make(join(folder, "libcusolver.so"), "CUSOLVER", version("12"));
    const env = alone(folder, { ROWMAJOR_CUDA_LIB_DIR: folder });
    const refused = lineOf(runOf("whatIsOpen", env), "cusolver");
    assertStringIncludes(refused, "libcusolver.so: it is of CUDA 13, the driver of CUDA 12");
    const path = join(folder, "libcusolver.so.11");
    make(path, "CUSOLVER", version("cusparse_number()"), sparse);
    assertEquals(lineOf(runOf("whatIsOpen", env), "cusolver"), `11.6, ${path}`);
  }),
);

test(...when(made, "NCCL has versions of its own", (folder) => {
  make(join(folder, "libcuda.so.1"), "DRIVER", driver(12040));
  make(join(folder, "libcudart.so.12"), "RUNTIME", runtime(12040));
  const env = alone(folder, { ROWMAJOR_CUDA_LIB_DIR: folder });
  const path = join(folder, "libnccl.so.2");
  for (const [number, version] of [[2804, "2.8"], [21005, "2.10"], [23007, "2.30"]] as const) {
    make(path, "NCCL", `int ncclGetVersion(int *to) { *to = ${number}; return 0; }`);
    assertEquals(lineOf(runOf("whatIsOpen", env), "nccl"), `${version}, ${path}`);
  }
}));

test(...when(made, "folders are searched in their order, newer Pythons first", (folder) => {
  make(join(folder, "named", "libcuda.so.1"), "DRIVER", driver(13000));
  const python = (prefix: string, version: string): string =>
    join(folder, prefix, "lib", `python${version}`, "site-packages", "nvidia", "cu13", "lib");
  // The last one first: each time, one more is found before all others.
  const places = [
    join(folder, "home", "lib64"),
    python("base", "3.12"),
    python("middle", "3.12"),
    python("bin-of-python", "3.9"),
    python("bin-of-python", "3.11"),
    join(folder, "conda", "lib"),
    python("venv", "3.12"),
    join(folder, "given"),
    join(folder, "named"),
  ];
  const bin = join(folder, "bin-of-python", "bin");
  mkdirSync(bin, { recursive: true });
  mkdirSync(join(folder, "given"));
  // A link into an environment, whose own program links to the original one.
  for (const prefix of ["middle", "base"]) {
    mkdirSync(join(folder, prefix, "bin"), { recursive: true });
  }
  symlinkSync("../../middle/bin/python3", join(bin, "python3"));
  symlinkSync(join(folder, "base", "bin", "python3.12"), join(folder, "middle", "bin", "python3"));
  writeFileSync(join(folder, "base", "bin", "python3.12"), "");
  const env = alone(folder, {
    ROWMAJOR_CUDA_LIB_DIR: join(folder, "named"),
    VIRTUAL_ENV: join(folder, "venv"),
    CONDA_PREFIX: join(folder, "conda"),
    CUDA_HOME: join(folder, "home"),
    PATH: `/nonexistent:${bin}`,
  });
  for (const place of places) {
    make(join(place, "libcudart.so.13"), "RUNTIME", runtime(13000));
    const info = runOf("whereItOpens", env, join(folder, "given"));
    assertEquals(lineOf(info, "cudart"), `13.0, ${join(place, "libcudart.so.13")}`);
  }
}));

// ---- NVRTC alone -----------------------------------------------------------------------------------

const SOURCE = `
extern "C" __global__ void scale(long long n, float *x, double by) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) x[i] *= (float)by;
}
extern "C" __global__ void turned(float *x) {
  __shared__ float own[64];
  own[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = own[63 - threadIdx.x];
}`;

function compile(source: string, targets: number[]): string[] {
  const environment = join(root, ".venv");
  const env: Record<string, string> = existsSync(environment) ? { VIRTUAL_ENV: environment } : {};
  return runOf("whatCompilingAnswers", env, source, "scale", targets);
}

/** Whether NVRTC is installed; throws if the answer does not say that it is missing. */
function hasNvrtc(): boolean {
  if (!found) return false;
  const [answer] = compile(SOURCE, [90]);
  if (!answer!.startsWith(`${STATUS.notFound} `)) return true;
  assertMatch(answer!, /no usable NVRTC|macOS/);
  return false;
}

test(
  ...when({ NVRTC: hasNvrtc() }, "NVRTC compiles for every architecture without a driver", () => {
    for (const report of compile(SOURCE, [75, 80, 86, 89, 90, 120])) {
      assertMatch(report, /^0 /);
      const lines = report.slice(2).trim().split("\n").sort();
      assertMatch(lines[0]!, /^scale\t\d+\t0\t0\t0\t0$/);
      assertMatch(lines[1]!, /^turned\t\d+\t0\t0\t0\t256$/);
      assertEquals(lines.length, 2);
    }
    const [wrong] = compile('extern "C" __global__ void scale() { unknown(); }', [90]);
    assertMatch(
      wrong!,
      new RegExp(`^${STATUS.deviceError} NVRTC cannot compile[^]*"unknown" is undefined`),
    );
    const [strange] = compile(SOURCE, [7]);
    assertMatch(
      strange!,
      new RegExp(`^${STATUS.deviceError} NVRTC cannot compile[^]*architecture`),
    );
  }),
);
