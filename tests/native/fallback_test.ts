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
import { inDeno, library, moduleAt } from "./support.ts";

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

const LARGE = "ones([300, 300]).add(1);\n";

test("without the native library large ops warn once, and small ops do not", () => {
  // No warning at import, for small ops, and for info().
  const small = run(`for (let i = 0; i < 99; i++) ones([100]).add(1).sum();
    zeros([90000]).slice([1, 2]).add(1);
    console.log(info().devices.cpu);`);
  assertEquals([small.stdout, small.stderr], ["js\n", ""]);

  const { stdout, stderr } = run(`console.log("begins");\n${LARGE.repeat(3)}
    ones([300, 300]).sum(); ones([300, 300]).matmul(ones([300, 300]));
    console.log(info().devices.cpu);`);
  assertEquals(stdout, "begins\njs\n");
  assertEquals(stderr.trim().split("\n").length, 1, stderr);
  assertStringIncludes(stderr, "rowmajor: ops run in JavaScript");
  assertStringIncludes(stderr, 'setBackend("js") turns this warning off');
  if (inDeno) {
    // The flags are exact: with them the library opens.
    const [flag] = /--allow-ffi=\S+?(?=[.;]? )/.exec(stderr)!;
    const allowed = run(`${LARGE}console.log(info().devices.cpu);`, [flag]);
    assertEquals([allowed.stdout, allowed.stderr], ["native\n", ""]);
  } else assertStringIncludes(stderr, "missing.so");

  for (const op of ["sum()", "exp()", "sort(0)", "matmul(x)"]) {
    const { stderr } = run(`const x = ones([300, 300]); x.${op};`);
    assertStringIncludes(stderr, "rowmajor: ops run in JavaScript", op);
  }
  const silenced = run(`setBackend("js");\n${LARGE}console.log(info().devices.cpu);`);
  assertEquals([silenced.stdout, silenced.stderr], ["js\n", ""]);
});

const ofZigOut = {
  skip: inDeno && library !== new URL("../../zig-out/lib/librowmajor.so", import.meta.url).pathname
    ? "needs the library of zig-out"
    : false,
};

test("workers do not repeat the warning of the process", ofZigOut, () => {
  const { stdout, stderr } = run(
    `import { Worker, workerData } from "node:worker_threads";
    ${LARGE}
    console.log("large");
    if (workerData === null) {
      for (let i = 0; i < 2; i++) new Worker(new URL(import.meta.url), { workerData: i });
    }`,
    ["--allow-read"],
  );
  assertEquals(stdout, "large\n".repeat(3));
  assertEquals(stderr.split("rowmajor: ops run in JavaScript").length, 2, stderr);
  assert(stderr.startsWith("rowmajor"));
});
