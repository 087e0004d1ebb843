/**
 * The C code is C for Windows too: names that its headers define, functions that it lacks, warnings.
 *
 * Only the compiler's first stage runs, on any machine with zig, for one instruction set: a whole
 * build takes minutes. `zig build all` makes the library, and staging checks its size.
 *
 * @module
 */
import { assert, assertStringIncludes, assertThrows } from "@std/assert";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { after, test } from "node:test";
import { root, runZig } from "../../scripts/tools.ts";
import { findZig, shimFolders, shimSources } from "../native/support.ts";
import { isSampled } from "../support/amount.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-windows-"));
after(() => rmSync(folder, { recursive: true }));

/** Runs the compiler's first stage for Windows; an Error contains its messages. */
function compile(files: readonly string[]): void {
  const [, lib] = /lib_dir"?\s*[=:]\s*"([^"]+)"/.exec(runZig(["env"]))!;
  const headers = resolve(root, lib!);
  runZig([
    "clang",
    "-fsyntax-only",
    "--target=x86_64-windows-gnu",
    "-march=x86-64-v2",
    "-DRM_ISA=v2",
    "-D_UCRT",
    "-D_WIN32_WINNT=0x0a00",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-nostdinc",
    ...["include", "libc/include/any-windows-any"].flatMap((part) => [
      "-isystem",
      join(headers, part),
    ]),
    ...[...shimFolders(), folder].flatMap((part) => ["-I", part]),
    ...files,
  ]);
}

const check = findZig() === undefined ? test.skip : test;

check("the C code compiles for Windows", () => {
  const all = shimSources().filter((path) =>
    // Not what only WebAssembly has.
    path.endsWith(".c") && !/[\\/](kernels|shim[\\/]wasm)[\\/]/.test(path)
  );
  assert(all.length > 50);
  // Those that do something else on Windows, and a sample.
  const files = all.filter((path) =>
    isSampled(basename(path), 40) || readFileSync(path, "utf8").includes("_WIN32")
  );
  assert(files.length > 15, `${files.length} files`);
  // The build makes it of the headers for CUDA.
  const made = "enum { COUNT = 1, LENGTH = 1 };\nstatic const unsigned char compressed[] = {0};\n";
  writeFileSync(join(folder, "embedded_headers.inc"), made);
  compile(files);
});

check("a name that a header of Windows defines is found", () => {
  const path = join(folder, "far.c");
  writeFileSync(path, '#include "cuda_internal.h"\nint f(int x) { int far = x; return far; }\n');
  const error = assertThrows(() => compile([path]), Error);
  assertStringIncludes(error.message, "far.c:2");
});
