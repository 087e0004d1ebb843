/**
 * Faults of executables and bundles: what is missing, or has another name, once a program is one.
 *
 * @module
 */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { run, temporary } from "../../package/support.ts";
import { fault } from "../support.ts";
import { builtLibraries, HOST, stageNpm, TARGETS } from "../../../scripts/release/package.ts";
import { findTool, root } from "../../../scripts/tools.ts";

const inDeno = "Deno" in globalThis;
const exe = process.platform === "win32" ? ".exe" : "";

/** Runs a program to its end, and returns its output; throws unless it exits with 0. */
function output(path: string, args: readonly string[], cwd: string, input = ""): string {
  const env = { ...process.env, NO_COLOR: "1", ROWMAJOR_CACHE: join(cwd, "cache") };
  const { status, stdout, stderr } = spawnSync(path, args, { cwd, env, input, encoding: "utf8" });
  assertEquals(status, 0, stdout + stderr);
  return stdout;
}

const DIGIT = Array.from({ length: 64 }, (_, i) => i % 17).join() + "\n";

/** The programs of the examples that read files of their own, and what shows that they did. */
const PROGRAMS: readonly [main: string, args: readonly string[], expected: string][] = [
  ["examples/digits/main.ts", [], "accuracy: 97.8%"],
  ["examples/digits/classify.ts", ["--json"], '{"results":[{"file":"-","digit":'],
  ["examples/server/main.ts", ["--help"], "usage: main.ts"],
];

/** Compiles a program by the plain command, and runs it in an empty folder that is read-only. */
function compileAndRun([main, args, expected]: (typeof PROGRAMS)[number]): void {
  using folder = temporary();
  const out = join(folder.path, `program${exe}`);
  const command = inDeno ? ["compile", "-A", "--no-check"] : ["build", "--compile"];
  const to = inDeno ? `--output=${out}` : `--outfile=${out}`;
  output(process.execPath, [...command, to, main], root);
  const empty = join(folder.path, "empty");
  mkdirSync(empty);
  chmodSync(empty, 0o555);
  assertStringIncludes(output(out, args, empty, DIGIT), expected);
}

fault({
  entry: 15,
  kind: "an example compiled by the plain command died on a missing file",
  others: ["the data set", "the larger model", "the server"],
  skip: inDeno && process.env.DENORT_BIN === undefined &&
    "deno compile downloads a runtime unless DENORT_BIN names one",
}, () => {
  for (const program of PROGRAMS) compileAndRun(program);
});

fault({
  entry: 15,
  kind: "an example read files that are no modules, which deno compile leaves out",
  others: ["the data set", "the larger model"],
  skip: !inDeno && "permissions are Deno's",
}, async () => {
  using folder = temporary();
  const large = join(folder.path, "large.ts");
  const module = JSON.stringify(pathToFileURL(join(root, "examples/digits/large.ts")).href);
  writeFileSync(
    large,
    `import { loadLargeModel } from ${module};
    console.log((await loadLargeModel()).bias3.shape.join());`,
  );
  for (
    const [main, expected] of [
      [join(root, "examples/digits/main.ts"), "accuracy: 97.8%"],
      [large, "10"],
    ] as const
  ) {
    // Without permissions a program reads its modules only.
    const args = ["run", "--no-prompt", "--no-check", main];
    const { code, stdout, stderr } = await run(process.execPath, args, { cwd: folder.path });
    assertEquals(code, 0, stderr);
    assertStringIncludes(stdout, expected);
  }
});

// Packing takes seconds, and the bundler is Bun's.
const notHere = inDeno ? "the bundler is Bun's" : !(HOST in TARGETS) && "no library is built";

/** A project with the package for npm in it. */
async function makeProject(folder: string): Promise<string> {
  const project = join(folder, "project");
  mkdirSync(join(project, "node_modules", "@rowmajor"), { recursive: true });
  writeFileSync(join(project, "package.json"), '{ "type": "module" }');
  const npm = join(folder, "npm");
  await stageNpm(npm, { [HOST]: [builtLibraries(HOST)[HOST]![0]!] });
  symlinkSync(npm, join(project, "node_modules", "@rowmajor", "tensor"), "junction");
  return project;
}

/** Names of its own that are those of the package, which a bundler then numbers. */
const PROGRAM = `import * as rm from "@rowmajor/tensor";
class ShapeError {} class Tensor {} class Slice {} class Layout {}
globalThis.kept = [ShapeError, Tensor, Slice, Layout];
const wrong = Object.entries(rm).filter(([name, value]) =>
  typeof value === "function" && /^class\\b/.test(String(value)) && value.name !== name);
const { error } = rm.attempt(() => rm.zeros([2, 3]).add(rm.zeros([4])));
const { devices, backends } = rm.info();
console.log(JSON.stringify({
  wrong: wrong.map(([name]) => name),
  name: error.name,
  head: error.stack.split("\\n")[0],
  sum: rm.arange(4).sum().item(),
  known: devices.cpu === "native" || typeof backends.native === "string",
  constructors: [rm.zeros([1]), rm.range(0, 1), rm.zeros([1]).storage].map((x) => x.constructor.name),
}));
`;

fault({
  entry: 15,
  kind: "a bundle without import.meta died at import, and classes had other names in bundles",
  others: ["every exported class", "storages", "the package for npm itself, which is a bundle"],
  skip: notHere,
}, async () => {
  using folder = temporary();
  const project = await makeProject(folder.path);
  writeFileSync(join(project, "main.js"), PROGRAM);
  const expected = {
    wrong: [],
    name: "ShapeError",
    head: "ShapeError: Cannot add shapes [2, 3] and [4]: axis -1 has sizes 3 and 4",
    sum: 6,
    known: true,
    constructors: ["Tensor", "Range", "Storage"],
  };
  assertEquals(JSON.parse(output(process.execPath, ["main.js"], project)), expected);
  for (const format of ["esm", "cjs", "iife"]) {
    for (const flags of [[], ["--minify"]]) {
      const out = join(folder.path, `bundle.${format === "esm" ? "mjs" : "cjs"}`);
      const build = ["build", `--format=${format}`, "--target=node", ...flags, `--outfile=${out}`];
      output(process.execPath, [...build, "main.js"], project);
      // As other bundlers write import.meta where a format has none.
      const text = readFileSync(out, "utf8");
      if (format !== "esm") writeFileSync(out, text.replaceAll("import.meta", "({})"));
      assertEquals(JSON.parse(output(process.execPath, [out], project)), expected, format);
      const deno = ["run", "-A", "--no-check", out];
      assertEquals(JSON.parse(output(findTool("deno"), deno, project)), expected, format);
    }
  }
});

fault({
  entry: 15,
  kind: "a file imported with type file had no type",
  others: ["npy, npz and gguf", "a program that imports another entry point"],
  skip: notHere,
}, async () => {
  using folder = temporary();
  const project = await makeProject(folder.path);
  copyFileSync(
    join(root, "examples/digits/model.safetensors"),
    join(project, "model.safetensors"),
  );
  writeFileSync(
    join(project, "main.ts"),
    `import { io } from "@rowmajor/tensor";
    import path from "./model.safetensors" with { type: "file" };
    const typed: string = path;
    await using file = await io.openSafetensors(typed);
    console.log((await file.get("bias1")).shape.join());
    export {};`,
  );
  // Apart from the main entry point.
  const names = ["safetensors", "gguf", "npy", "npz"];
  writeFileSync(
    join(project, "types.ts"),
    `import "@rowmajor/tensor/llm";\n` +
      names.map((name) =>
        `import ${name} from "./file.${name}" with { type: "file" };\n` +
        `${name} satisfies string;\n// @ts-expect-error: it is a string\n${name} satisfies number;\n`
      ).join(""),
  );
  const compilerOptions = {
    ...{ target: "esnext", module: "preserve", types: [], skipLibCheck: true, noEmit: true },
    strict: true,
  };
  const tsc = join(root, "node_modules", "typescript", "lib", "tsc.js");
  for (const file of ["main.ts", "types.ts"]) {
    const config = JSON.stringify({ compilerOptions, files: [file] });
    writeFileSync(join(project, "tsconfig.json"), config);
    assertEquals(output(process.execPath, [tsc, "-p", "."], project), "");
  }
  const out = join(folder.path, `program${exe}`);
  output(process.execPath, ["build", "--compile", `--outfile=${out}`, "main.ts"], project);
  const empty = join(folder.path, "empty");
  mkdirSync(empty);
  assertEquals(output(out, [], empty), "128\n");
});
