/**
 * Faults of types: entries 4, 8 and 20 to 24. The programs in tests/faults/types compile, with an error
 * where they say so; the compiler runs once for all of them.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { findTool, root } from "../../../scripts/tools.ts";
import { fault } from "../support.ts";

const folder = join(root, "tests", "faults", "types");

/** The output of the compiler for some programs. */
function check(files: readonly string[]): string {
  const args = ["check", "--quiet", "--config", join(root, "deno.json"), ...files];
  const { stderr, error } = spawnSync(findTool("deno"), args, {
    env: { ...process.env, NO_COLOR: "1" },
    encoding: "utf8",
  });
  if (error) throw error;
  return stderr;
}

let all: string | undefined;

/** The output for all programs in tests/faults/types. */
function checkAll(): string {
  const names = readdirSync(folder).filter((name) => name.endsWith("_types.ts"));
  return all ??= check(names.map((name) => join(folder, name)));
}

/** The compiler's complaints about a program. */
function complaints(output: string, program: string): string[] {
  const parts = output.split(/^(?=TS\d+ \[ERROR\])/m).filter((part) => part.includes("[ERROR]"));
  assert(parts.every((part) => part.includes("_types.ts")), output);
  return parts.filter((part) => part.includes(program));
}

fault({
  entry: 8,
  kind: "methods repeat the dtype rules of the op table, and casts hide what differs",
  others: ["in-place ops", "reductions", "comparisons", "the generated table of types"],
}, () => {
  const text = readFileSync(join(root, "src", "tensor", "tensor.ts"), "utf8");
  const casts = text.match(/\bas (never|any)\b/g) ?? [];
  assert(casts.length <= 10, `${casts.length} casts to never`);
});

fault({
  entry: 20,
  kind: "results whose number is known are lists",
  others: ["nonzero", "split", "meshgrid", "broadcastTensors"],
}, () => assertEquals(complaints(checkAll(), "counts_types.ts"), []));

fault({
  entry: 21,
  kind: "a conditional type that waits for a type parameter accepts no argument",
  others: ["comparisons", "ops in place", "int32 beside float32", "sizes that are parameters"],
}, () => assertEquals(complaints(checkAll(), "scalars_types.ts"), []));

fault({
  entry: 22,
  kind: "texts with values in them lose the rank",
  others: ["sliceAxis", "an index in a text", "one text for several axes"],
}, () => assertEquals(complaints(checkAll(), "patterns_types.ts"), []));

fault({
  entry: 23,
  kind: "a parameter that is only read refuses writable tensors",
  others: ["in-place ops on tensors that may be read-only", "an assignable layout"],
}, () => assertEquals(complaints(checkAll(), "access_types.ts"), []));

fault({
  entry: 24,
  kind: "the compiler says readonly of an unknown shape where a shape is fixed",
  others: ["differing dtypes", "differing access"],
}, () => {
  // Without its mark, the mistake shows its message.
  const temporary = mkdtempSync(join(tmpdir(), "rowmajor-faults-"));
  const program = join(temporary, "unmarked_types.ts");
  const text = readFileSync(join(folder, "unknown_types.ts"), "utf8");
  const [, expected] = /@ts-expect-error: (.*)/.exec(text)!;
  writeFileSync(
    program,
    text.replace("@ts-expect-error", "").replace("../../..", pathToFileURL(root).href),
  );
  let message: string | undefined;
  try {
    [message] = complaints(check([program]), "unmarked_types.ts");
  } finally {
    rmSync(temporary, { recursive: true });
  }
  assertStringIncludes(message!, expected!);
  assert(!message!.includes("cannot be assigned to the mutable type"), message);
  assertStringIncludes(readFileSync(join(root, "docs", "shapes-in-types.md"), "utf8"), "asShape");
});

fault({
  entry: 4,
  kind: "types collapse where the library of the compiler lacks one of theirs",
  others: ["globalThis.Float16Array in the sources, in TypeScript 5.7"],
}, () => {
  // tests/package/typescript_test.ts compiles programs with five compilers.
  for (const version of ["typescript-5.4", "typescript-7.0"]) {
    const tsc = join(root, "node_modules", version, "bin", "tsc");
    const options = "--noEmit --strict --skipLibCheck --target es2022 --module preserve " +
      "--moduleResolution bundler --allowImportingTsExtensions --pretty false";
    const { stdout } = spawnSync(
      findTool("bun"),
      [tsc, ...options.split(" "), "--typeRoots", folder, join(folder, "es2022.ts")],
      { cwd: tmpdir(), encoding: "utf8" },
    );
    // The sources need the types of a runtime too, which the declarations of packages do not.
    assertEquals(stdout.split("\n").filter((line) => !line.includes("src/base/stack.ts")), [""]);
  }
});
