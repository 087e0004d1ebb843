/**
 * Ops without the native library: a warning, once in a process, for what takes several times longer.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { root } from "../../scripts/tools.ts";
import { inDeno, library, moduleAt, runApart } from "./support.ts";

const wasmFolder = join(root, "zig-out", "wasm");
const folder = mkdtempSync(join(tmpdir(), "rowmajor-fallback-"));
after(() => rmSync(folder, { recursive: true }));

interface DenoCommand {
  Command: new (path: string, options: object) => {
    outputSync(): { code: number; stdout: Uint8Array; stderr: Uint8Array };
  };
}

/** Runs a program without the native library: without a permission in Deno, without a file in Bun. */
function run(body: string, permissions: string[] = []): { stdout: string; stderr: string } {
  const path = join(folder, "program.ts");
  writeFileSync(
    path,
    `import { info, ones, setBackend, zeros } from ${moduleAt("mod.ts")};\n${body}`,
  );
  if (!inDeno) {
    const env = { ...process.env, ROWMAJOR_LIB: join(folder, "missing.so") };
    const outcome = spawnSync(process.execPath, [path], { encoding: "utf8", env });
    assertEquals(outcome.status, 0, outcome.stderr);
    return outcome;
  }
  // Deno's node:child_process would add all permissions. Without --no-prompt, Deno would ask.
  const { Command } = (globalThis as unknown as { Deno: DenoCommand }).Deno;
  const args = ["run", "--quiet", "--no-check", ...permissions, path];
  const outcome = new Command(process.execPath, { args, stdin: "null" }).outputSync();
  const [stdout, stderr] = [outcome.stdout, outcome.stderr].map((b) => new TextDecoder().decode(b));
  assertEquals(outcome.code, 0, stderr);
  return { stdout: stdout!, stderr: stderr! };
}

/** An op that takes longer than 75 ms on any backend but the native one. */
const SLOW = "ones([1500, 1500]).matmul(ones([1500, 1500]));\n";
/** What runs ops then: in Deno the module of a checkout needs a permission. */
const fallback = inDeno ? "js" : "wasm";
const words = { js: "rowmajor: ops run in JavaScript", wasm: "rowmajor: ops run in WebAssembly" };

test("without the library a slow op warns once, and fast ones do not", () => {
  // No warning at import, for small ops, for fast ones, and for info().
  const fast = run(`for (let i = 0; i < 99; i++) ones([100]).add(1).sum();
    ones([300, 300]).add(1).sum();
    console.log(info().devices.cpu);`);
  assertEquals([fast.stdout, fast.stderr], [`${fallback}\n`, ""]);

  const { stdout, stderr } = run(
    `console.log("begins");\n${SLOW.repeat(2)}console.log(info().devices.cpu);`,
  );
  assertEquals(stdout, `begins\n${fallback}\n`);
  assertEquals(stderr.trim().split("\n").length, 1, stderr);
  assertStringIncludes(stderr, words[fallback]);
  assertStringIncludes(stderr, `setBackend("${fallback}") turns this warning off`);
  if (inDeno) {
    // The flags are exact: with them the library opens.
    const [flag] = /--allow-ffi=\S+?(?=[.;]? )/.exec(stderr)!;
    const allowed = run(`${SLOW}console.log(info().devices.cpu);`, [flag]);
    assertEquals([allowed.stdout, allowed.stderr], ["native\n", ""]);
  } else assertStringIncludes(stderr, "missing.so");

  for (const backend of ["js", "wasm"]) {
    const permissions = inDeno && backend === "wasm" ? [`--allow-read=${wasmFolder}`] : [];
    const silenced = run(
      `setBackend("${backend}");\n${SLOW}console.log(info().devices.cpu);`,
      permissions,
    );
    assertEquals([silenced.stdout, silenced.stderr], [`${backend}\n`, ""]);
  }
});

test("a program in Deno that may read the module uses it", { skip: !inDeno }, () => {
  const { stdout, stderr } = run(
    `${SLOW}console.log(info().devices.cpu, info().backends.wasm);`,
    [`--allow-read=${wasmFolder}`],
  );
  assertEquals(stdout, "wasm in use\n");
  assertStringIncludes(stderr, words.wasm);
});

test("ROWMAJOR_WASM_MEMORY is checked", () => {
  const env = { ROWMAJOR_WASM_MEMORY: "8", ROWMAJOR_LIB: join(folder, "missing.so") };
  const program = `import { ones } from ${moduleAt("mod.ts")};
    try { ones([500, 500]).matmul(ones([500, 500])); } catch (error) { console.log(error.name, error.message); }`;
  assertStringIncludes(runApart(program, env), "ArgumentError Cannot use ROWMAJOR_WASM_MEMORY=8");
});

const ofZigOut = {
  skip: inDeno && library !== new URL("../../zig-out/lib/librowmajor.so", import.meta.url).pathname
    ? "needs the library of zig-out"
    : false,
};

test("workers do not repeat the warning of the process", ofZigOut, () => {
  const { stdout, stderr } = run(
    `import { Worker, workerData } from "node:worker_threads";
    ${SLOW}
    console.log("large");
    if (workerData === null) {
      for (let i = 0; i < 2; i++) new Worker(new URL(import.meta.url), { workerData: i });
    }`,
    ["--allow-read"],
  );
  assertEquals(stdout, "large\n".repeat(3));
  assertEquals(stderr.split("rowmajor: ops run in").length, 2, stderr);
  assert(stderr.startsWith("rowmajor"));
});
