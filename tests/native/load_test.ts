/**
 * The native backend: finding, opening and choosing it, and running without it. Covers settings,
 * permissions, missing and foreign libraries, and the exports of the libraries of all platforms.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { arange, DeviceError, info, setBackend } from "../../mod.ts";
import { checkLibrarySize, MOST_LIBRARY_BYTES, TARGETS } from "../../scripts/release/package.ts";
import { root, runZig } from "../../scripts/tools.ts";
import { SYMBOLS, VERSION } from "../../src/backend/ffi/abi.ts";
import { openShim } from "../../src/backend/ffi/load.ts";
import { exportsOf } from "./exports.ts";
import {
  check,
  findZig,
  inDeno,
  isFresh,
  LEVELS,
  library,
  moduleAt,
  native,
  runApart,
  when,
} from "./support.ts";

const MISSING = join(root, "missing", "librowmajor.so");

/** A few public ops, and the backend that runs them, printed as JSON. */
const PROGRAM = `
import * as rm from ${moduleAt("mod.ts")};
const x = rm.arange(600).reshape([20, 30]);
const n = rm.arange(0, 600, 1, { dtype: "int32" }).reshape([20, 30]);
const results = [
  x.T.add(1).sum(0).toArray(),
  n.matmul(n.T).slice(3).toArray(),
  x.remainder(7).matmul(x.T.remainder(5)).slice(0).toArray(),
  x.exp().isinf().any().item(),
  n.remainder(17).sort(1).slice(4).toArray(),
  x.max(1).toArray(),
  x.mul(-1).argmin(0).toArray(),
  rm.random.integers(rm.random.key(7), [20], 0, 99).toArray(),
  n.cumulativeSum(1).slice(5).toArray(),
];
const { devices, backends, threads, level } = rm.info();
console.log(JSON.stringify({ results, devices, backends, threads, level }, (_, value) =>
  typeof value === "bigint" ? String(value) : value));
`;

interface Told {
  results: unknown[];
  devices: { cpu: string };
  backends: Record<"js" | "native" | "wasm" | "openblas", string>;
  threads: number;
  level: string | null;
}

function tell(env: Record<string, string>, permissions?: readonly string[]): Told {
  return JSON.parse(runApart(PROGRAM, env, permissions)) as Told;
}

check("the same answers come without OpenBLAS, and without the library", () => {
  const full = tell({ ROWMAJOR_THREADS: "3" });
  assertEquals(full.devices.cpu, "native");
  assertEquals([full.backends.native, full.backends.js], ["in use", "available"]);
  assertEquals(full.threads, 3);
  assert(/^(base|x86-64-v[234])$/.test(full.level!), String(full.level));

  const without = tell({ ROWMAJOR_OPENBLAS: "/nonexistent/libopenblas.so" });
  assertEquals(without.devices.cpu, "native");
  assertStringIncludes(without.backends.openblas, "/nonexistent/libopenblas.so");
  assertEquals(without.results, full.results);

  // Only a checkout's module is a file.
  const reads = `--allow-read=${join(root, "zig-out", "wasm")}`;
  const alone = tell({ ROWMAJOR_LIB: MISSING }, ["--allow-ffi", "--allow-env", reads]);
  assertEquals(alone.devices.cpu, "wasm");
  assertEquals([alone.backends.wasm, alone.backends.js], ["in use", "available"]);
  assertStringIncludes(alone.backends.native, MISSING);
  assertEquals(alone.backends.openblas, "needs the native backend");
  assertEquals([alone.threads, alone.level], [1, null]);
  assertEquals(alone.results, full.results);
});

check("ROWMAJOR_LEVEL and ROWMAJOR_THREADS say where the library begins", () => {
  for (const level of LEVELS) {
    if (level === 1) continue;
    const told = tell({ ROWMAJOR_LEVEL: `v${level}`, ROWMAJOR_THREADS: "1" });
    assertEquals([told.level, told.threads], [`x86-64-v${level}`, 1]);
  }
});

check("an instruction set that the machine lacks changes nothing", () => {
  const best = LEVELS.at(-1)!;
  assertEquals(native.setLevel(best), best);
  for (const wrong of [5, 99]) assertEquals(native.setLevel(wrong), best);
  assert(["base", "x86-64-v2", "x86-64-v3", "x86-64-v4"].includes(native.level));
});

check("setBackend chooses the backend of the cpu, and tensors work on both", () => {
  const compute = (): unknown => {
    const x = arange(600).reshape([20, 30]);
    return [
      x.T.add(1).sum(0).toArray(),
      x.matmul(x.T).slice(0, 0).item(),
      x.exp().isinf().any().item(),
    ];
  };
  const before = info().devices.cpu;
  try {
    setBackend("js");
    assertEquals([info().devices.cpu, info().backends.js], ["js", "in use"]);
    const expected = compute();
    setBackend("native");
    assertEquals([info().devices.cpu, info().backends.native], ["native", "in use"]);
    assertEquals(compute(), expected);
  } finally {
    setBackend(before as "js");
  }
  assertThrows(() => setBackend("abacus" as "js"), DeviceError, "abacus");
});

check("what is no library gives a reason", () => {
  for (const path of [MISSING, join(root, "package.json"), ""]) {
    const result = openShim(path);
    assert("reason" in result && result.reason.length > 0, path);
    assertStringIncludes(result.reason, path);
  }
});

// Building such libraries takes zig.
test(...when(
  { zig: findZig() !== undefined },
  "a library of another version, or with other declarations, gives a reason",
  (folder) => {
    for (
      const [version, reason] of [[VERSION + 1, "has version"], [VERSION, "other declarations"]]
    ) {
      const source = join(folder, `other${version}.c`);
      const functions = Object.keys(SYMBOLS).map((name) =>
        `API int ${name}(void) { return ${name === "rm_version" ? version : 0}; }`
      );
      const api = process.platform === "win32" ? "__declspec(dllexport)" : "";
      writeFileSync(source, [`#define API ${api}`, ...functions, ""].join("\n"));
      const path = join(folder, `other${version}.so`);
      const args = ["cc", "-shared", "-fPIC", "-o", path, source];
      runZig(args);
      const result = openShim(path);
      assert("reason" in result, path);
      for (const part of [path, String(reason), "build it again"]) {
        assertStringIncludes(result.reason, part);
      }
    }
  },
));

check("ROWMAJOR_LIB names the library, and setBackend says what is wrong with it", () => {
  const output = runApart(
    `import { setBackend } from ${moduleAt("mod.ts")};
    try { setBackend("native"); } catch (error) { console.log(error.name, error.message); }`,
    { ROWMAJOR_LIB: MISSING },
  );
  assertStringIncludes(output, "DeviceError Cannot use backend native: ");
  assertStringIncludes(output, MISSING);
});

if (inDeno) {
  check("without a permission there is a reason and no question, and ops work", () => {
    // The library that is found without a variable is the one in zig-out.
    for (const permissions of [[], ["--deny-ffi"], ["--allow-env", "--deny-ffi"]]) {
      const told = tell({}, permissions);
      assertEquals(told.devices.cpu, "js");
      assertStringIncludes(told.backends.native, "use --allow-ffi");
      assertEquals(told.results.length, 9);
    }
    const scoped = tell({}, [`--allow-ffi=${library}`, "--allow-env=ROWMAJOR_LIB"]);
    assertEquals(scoped.devices.cpu, "native");
  });
}

// ---- the libraries -----------------------------------------------------------------------------

function checkLibrary(path: string): void {
  checkLibrarySize(path, statSync(path).size);
  // And the symbols that Node-API needs.
  const symbols = [...Object.keys(SYMBOLS), "napi_register_module_v1"];
  assertEquals(exportsOf(path).sort(), symbols.sort(), path);
}

test("no library is larger than a package has room for", () => {
  assert(MOST_LIBRARY_BYTES < 3e6);
  checkLibrarySize("linux-x64", MOST_LIBRARY_BYTES);
  assertThrows(
    () => checkLibrarySize("win32-x64", MOST_LIBRARY_BYTES + 1),
    Error,
    `win32-x64 has ${MOST_LIBRARY_BYTES + 1} bytes`,
  );
});

check("the library of this machine exports the symbols of the table, and is small", () => {
  checkLibrary(library);
});

/** Building them takes minutes, so this runs only on request. */
const wanted = process.env.ROWMAJOR_BUILD_ALL === "1" && findZig() !== undefined;
const paths = Object.entries(TARGETS).map(([folder, name]) =>
  join(root, "zig-out", "lib", folder, name)
);

(wanted || paths.every(isFresh) ? test : test.skip)(
  "the libraries of all platforms do (needs ROWMAJOR_BUILD_ALL=1, or a fresh `zig build all`)",
  () => {
    if (wanted) runZig(["build", "all"]);
    for (const path of paths) {
      assert(existsSync(path), path);
      checkLibrary(path);
    }
  },
);
