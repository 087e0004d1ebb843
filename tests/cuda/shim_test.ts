/**
 * The CUDA part of the shim on the emulator: memory, copies, kernels and their cache, graphs, time,
 * products, errors. The functions of native/cuda.ts contain the tests.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { spawn } from "node:child_process";
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { STATUS } from "../../src/backend/ffi/abi.ts";
import { emulatorCopy, emulatorFolder, whyNoEmulator } from "../emulator/build.ts";
import type * as cuda from "../native/cuda.ts";
import { alone, programOf, runOf } from "../native/cuda_apart.ts";
import { inDeno, library, when } from "../native/support.ts";

const reason = whyNoEmulator();
if (reason !== undefined) console.log(`The CUDA part of the shim is not tested: ${reason}`);

/** A test with a folder for its duration, or a skipped one. */
function onEmulator(name: string, body: (folder: string) => void | Promise<void>): void {
  test(...when({ "the emulator": reason === undefined }, name, body));
}

/** Runs a function of native/cuda.ts on the emulator, with `folder` as the cache of kernels. */
function apart<N extends keyof typeof cuda>(
  name: N,
  folder: string,
  env: Record<string, string> = {},
  ...args: Parameters<(typeof cuda)[N]>
): ReturnType<(typeof cuda)[N]> {
  const own = {
    ROWMAJOR_CUDA_LIB_DIR: emulatorFolder(),
    ROWMAJOR_CACHE: join(folder, "kept"),
  };
  return runOf(name, { ...own, ...env }, ...args);
}

const PLAIN = {
  blocksNeverOverlap: "blocks of memory never overlap, and end as one",
  neighboursJoin: "free neighbours join",
  copiesArrive: "copies of every length arrive, within and between devices",
  ticketsAreAnswered: "reads that do not wait end in any order",
  pinnedMemoryGoes: "pinned memory of a long read is given back",
  kernelsRun: "kernels run, and what is wrong with one is said",
  filesAreIncluded: "kernels include the files of the library",
  faultsStay: "a fault in a kernel is told, and stays",
  graphsRunAgain: "graphs run again, with memory of their own",
  eventsTellTime: "events tell the time",
  thingsAreTold: "devices and libraries are described",
  productsAreRight: "products of every dtype and layout are right",
  epiloguesAreRight: "products with bias, relu and gelu are right",
  productsAreCaptured: "products are part of graphs",
  linksOfOneRank: "a link of one rank, and what is refused",
} as const;

for (const [name, title] of Object.entries(PLAIN) as [keyof typeof PLAIN, string][]) {
  onEmulator(title, (folder) => void apart(name, folder));
}

onEmulator("what is kept is given back before memory runs out, which has sizes", (folder) => {
  apart("memoryRunsOut", folder, { ROWMAJOR_EMULATOR_MEMORY: String(64 * 2 ** 20) });
});

onEmulator("an allocation that fails once is not noticed", (folder) => {
  for (const n of ["1", "2", "3", "4", "5", "6"]) {
    apart("oneFailureIsNotNoticed", folder, { ROWMAJOR_EMULATOR_FAILMALLOC: n });
  }
});

onEmulator("a driver that once has no memory is asked again", (folder) => {
  // Two kernels are looked up and launched, graphs made.
  for (const n of ["1", "2", "3", "4"]) {
    apart("kernelsRun", folder, { ROWMAJOR_EMULATOR_FAILDRIVER: n });
    apart("graphsRunAgain", folder, { ROWMAJOR_EMULATOR_FAILDRIVER: n });
  }
});

onEmulator("what fails while cuBLAS is prepared fails once", (folder) => {
  // The handle of cublasLt; that of cuBLAS, requested twice; its settings.
  const failed = [STATUS.deviceError, STATUS.ok, ...Array(3).fill(STATUS.deviceError), STATUS.ok];
  failed.forEach((status, i) => {
    const env = { ROWMAJOR_EMULATOR_FAILBLAS: String(i + 1) };
    assertEquals(apart("nextProductIsRight", folder, env), status, String(i));
  });
});

onEmulator("memory of the host is not touched while no copy is under way", (folder) => {
  apart("copiesArrive", folder, { ROWMAJOR_EMULATOR_STRICT: "1" }, 2 ** 20);
});

// ---- kernels on disk -----------------------------------------------------------------------------

/** The compiler fails from its first call on: kernels that still run come from the cache. */
const WITHOUT_COMPILER = { ROWMAJOR_EMULATOR_FAILCOMPILE: "1" };

function assertKept(folder: string): void {
  const [message] = apart("kernelsAreKept", folder, WITHOUT_COMPILER);
  assertMatch(message!, /^NVRTC cannot compile a kernel/);
}

/** The only file in the cache. */
function keptFile(folder: string): string {
  const names = readdirSync(join(folder, "kept"));
  assertEquals(names.length, 1, names.join());
  return join(folder, "kept", names[0]!);
}

onEmulator("kernels are kept on disk, for this user alone", (folder) => {
  assertEquals(apart("kernelsAreKept", folder), []);
  const names = readdirSync(join(folder, "kept"));
  assertEquals(names.length, 2);
  assertEquals(statSync(join(folder, "kept")).mode & 0o777, 0o700);
  for (const name of names) assertEquals(statSync(join(folder, "kept", name)).mode & 0o777, 0o600);
  assertEquals(apart("kernelsAreKept", folder, { ROWMAJOR_EMULATOR_FAILCOMPILE: "1" }), []);
});

const DAMAGE: Record<string, (path: string, other: string) => void> = {
  "cut short": (path) => truncateSync(path, statSync(path).size - 1),
  "cut to its head": (path) => truncateSync(path, 20),
  "empty": (path) => truncateSync(path, 0),
  "longer": (path) => writeFileSync(path, "x", { flag: "a" }),
  "of other bytes": (path) => {
    const bytes = readFileSync(path);
    bytes[bytes.length - 9]! ^= 1;
    writeFileSync(path, bytes);
  },
  "of another source": (path, other) => writeFileSync(path, readFileSync(other)),
  "writable for others": (path) => chmodSync(path, 0o666),
  "a link": (path, other) => {
    renameSync(path, other);
    symlinkSync(other, path);
  },
};

onEmulator(
  "kept kernels that are damaged or may belong to another user are made anew",
  (folder) => {
    const env = { ROWMAJOR_EMULATOR_FAILCOMPILE: "2" };
    // Only the first of two sources is compiled.
    apart("kernelsAreKept", folder, env);
    const path = keptFile(folder);
    const sound = readFileSync(path);
    apart("kernelsAreKept", folder);
    const names = readdirSync(join(folder, "kept")).map((name) => join(folder, "kept", name));
    const other = names.find((name) => name !== path)!;
    const otherBytes = readFileSync(other);
    rmSync(other);
    for (const [what, damage] of Object.entries(DAMAGE)) {
      const spare = join(folder, "spare");
      writeFileSync(spare, otherBytes);
      damage(path, spare);
      const [message] = apart("kernelsAreKept", folder, env);
      assertMatch(message!, /^NVRTC cannot compile/, what);
      assertEquals(keptFile(folder), path, what);
      assert(statSync(path).isFile() && (statSync(path).mode & 0o777) === 0o600, what);
      assertEquals(readFileSync(path).length, sound.length, what);
      assertKept(folder);
      rmSync(spare, { force: true });
    }
  },
);

onEmulator("a folder that cannot be written to is no error", (folder) => {
  writeFileSync(join(folder, "file"), "");
  for (const place of ["file/kept", "file", `${"long/".repeat(300)}kept`]) {
    const env = { ROWMAJOR_CACHE: join(folder, place) };
    assertEquals(apart("kernelsAreKept", folder, env), []);
  }
  assertEquals(readdirSync(folder), ["file"]);
});

onEmulator(
  "processes that keep kernels at the same time do not disturb each other",
  async (folder) => {
    emulatorFolder();
    const path = join(folder, "program.ts");
    writeFileSync(path, programOf("manyKernelsAreKept"));
    const env = {
      ...process.env,
      ROWMAJOR_LIB: library,
      ROWMAJOR_CUDA_LIB_DIR: emulatorFolder(),
      ROWMAJOR_CACHE: join(folder, "deep", "kept"),
    };
    const args = inDeno ? ["run", "-A", "--quiet", "--no-check", path] : [path];
    const cwd = join(library, "..");
    const ends = Array.from({ length: 4 }, () =>
      new Promise<string>((resolve) => {
        const child = spawn(process.execPath, args, { env, cwd: inDeno ? undefined : cwd });
        let said = "";
        child.stderr!.on("data", (data) => said += data);
        child.on("close", (status) => resolve(`${status} ${said}`));
      }));
    for (const end of await Promise.all(ends)) assertMatch(end, /^0 /);
    const names = readdirSync(join(folder, "deep", "kept"));
    assertEquals(names.length, 12);
    for (const name of names) assertMatch(name, /^[0-9a-f]{32}\.bin$/);
    apart("manyKernelsAreKept", folder, {
      ROWMAJOR_CACHE: join(folder, "deep", "kept"),
      ROWMAJOR_EMULATOR_FAILCOMPILE: "1",
    });
  },
);

// ---- libraries that are missing ------------------------------------------------------------------

onEmulator("without NVRTC and cuBLAS memory works, and the rest says what to install", (folder) => {
  const part = emulatorCopy(mkdtempSync(join(folder, "part-")), {
    files: ["libnvrtc.so.13", "libcublasLt.so.13"],
  });
  const env = alone(folder, { ROWMAJOR_CUDA_LIB_DIR: part });
  const [product, kernel] = apart("whatIsMissing", folder, env);
  for (const text of [part, "libcublas.so.13", "install", "ROWMAJOR_CUDA_LIB_DIR"]) {
    assertStringIncludes(product, text);
  }
  for (const text of [part, "libnvrtc.so.13", "compiles kernels", "nvidia-cuda-nvrtc"]) {
    assertStringIncludes(kernel, text);
  }
});

onEmulator("a library that lacks a function is named with it", (folder) => {
  for (const [symbol, which] of [["cublasGemmEx", 0], ["nvrtcGetCUBIN", 1]] as const) {
    const part = emulatorCopy(mkdtempSync(join(folder, "part-")), { symbols: [symbol] });
    const env = alone(folder, { ROWMAJOR_CUDA_LIB_DIR: part });
    const messages = apart("whatIsMissing", folder, env);
    assertStringIncludes(messages[which]!, `it has no ${symbol}`);
  }
});
