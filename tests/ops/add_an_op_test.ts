/**
 * docs/add-an-op.md, carried out in a copy of the repository: inserts the blocks of each way, runs
 * its commands, and runs the tests that see the result, on the backends that are installed.
 *
 * The library of the copy is that of this checkout, built before: new ops run in JavaScript. If zig
 * is installed, their C is compiled: the kernel alone, and the expressions of float64 in a program
 * that runs. The golden scripts run if ROWMAJOR_PYTHON, or .venv, is a Python with their packages.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import process from "node:process";
import { after, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { findTool, readText, root, runZig, testFiles } from "../../scripts/tools.ts";
import { compileBlock } from "../docs/blocks.ts";
import { RUNS_ALL } from "../support/amount.ts";

const inDeno = "Deno" in globalThis;
const page = readText("docs/add-an-op.md");

// ---- the page ------------------------------------------------------------------------------------

/** A block, with the paragraph before it on one line. */
interface Step {
  readonly paragraph: string;
  readonly language: string;
  readonly text: string;
  readonly line: number;
}

/** The steps below a heading of the page, up to the next one of its level or above. */
function stepsOf(heading: string): Step[] {
  const level = /^#+/.exec(heading)![0].length;
  const begin = page.indexOf(`\n${heading}\n`);
  assert(begin >= 0, `the page has no "${heading}"`);
  const rest = page.slice(begin + 1);
  const end = rest.slice(level).search(new RegExp(`^#{1,${level}} `, "m"));
  const section = end < 0 ? rest : rest.slice(0, end + level);
  const first = page.slice(0, begin + 1).split("\n").length;
  return [...section.matchAll(/([^\n]+(?:\n[^\n]+)*)\n\n```(\w+)\n([\s\S]*?)^```$/gm)].map((
    found,
  ) => ({
    paragraph: found[1]!.replace(/\s+/g, " "),
    language: found[2]!,
    text: found[3]!,
    line: first + section.slice(0, found.index + found[0].indexOf("```")).split("\n").length - 1,
  }));
}

/** The ways, with their headings in the page; the table at its begin has them in this order. */
const WAYS = [
  ["softplus", "## An elementwise op"],
  ["log2p1", "## A new primitive"],
  ["minMax", "## A kernel op"],
  ["minMax in C", "### A kernel in C"],
  ["softcap", "## An nn function"],
  ["flo", "## A file format"],
] as const;

/** Steps of a way without those of the ways inside it. */
function ownSteps(heading: string): Step[] {
  const inner = WAYS.filter(([, other]) => other !== heading && other.startsWith("###"))
    .flatMap(([, other]) => stepsOf(other).map(({ text }) => text));
  return stepsOf(heading).filter(({ text }) => heading.startsWith("###") || !inner.includes(text));
}

// ---- the copy ------------------------------------------------------------------------------------

const folder = mkdtempSync(join(tmpdir(), "rowmajor-op-"));
after(() => rmSync(folder, { recursive: true }));
for (
  const path of ["mod.ts", "deno.json", "package.json", "build.zig", "tsconfig.json", "bunfig.toml"]
    .concat("src", "scripts", "shim", "tests", "bench", "examples", "docs")
) {
  cpSync(join(root, path), join(folder, path), { recursive: true });
}
for (const path of ["node_modules", "zig-out"]) {
  if (existsSync(join(root, path))) symlinkSync(join(root, path), join(folder, path), "junction");
}

const read = (path: string): string =>
  readFileSync(join(folder, path), "utf8").replaceAll("\r\n", "\n");
const write = (path: string, text: string): void => writeFileSync(join(folder, path), text);

/** Inserts a block where its paragraph puts it; returns the file, undefined for an example. */
function insert({ paragraph, text, line }: Step): string | undefined {
  const [, made] = /^`([^`]+)` is new[.:]/.exec(paragraph) ?? [];
  if (made !== undefined) {
    assert(!existsSync(join(folder, made)), `line ${line}: ${made} exists`);
    write(made, text);
    return made;
  }
  const [, whole] = /at the end of `([^`]+)`:$/i.exec(paragraph) ?? [];
  if (whole !== undefined) {
    appendFileSync(join(folder, whole), `\n${text}`);
    return whole;
  }
  const [, file, where, anchor] = /in `([^`]+)`, (below|above) `([^`]+)`/i.exec(paragraph) ?? [];
  if (file === undefined) return undefined;
  const lines = read(file).split("\n");
  const places = lines.flatMap((one, n) => one.includes(anchor!) ? [n] : []);
  assertEquals(places.length, 1, `line ${line}: ${places.length} lines of ${file} have ${anchor}`);
  const indent = /^ */.exec(lines[places[0]!]!)![0];
  const own = text.replace(/\n$/, "").split("\n").map((one) => one === "" ? one : indent + one);
  lines.splice(places[0]! + (where === "below" ? 1 : 0), 0, ...own);
  write(file, lines.join("\n"));
  return file;
}

/** Runs a program in the copy; fails unless it exits with 0. */
function run(path: string, args: readonly string[], input = ""): string {
  const { status, stdout, stderr } = spawnSync(path, args, {
    cwd: folder,
    input,
    encoding: "utf8",
    maxBuffer: 2 ** 28,
    env: { ...process.env, NO_COLOR: "1" },
  });
  assertEquals(status, 0, `${path} ${args.join(" ")}\n${stdout}\n${stderr}`);
  return stdout;
}

/** Runs test files of the copy in this runtime, without a new check of types. */
function runTests(...files: string[]): void {
  if (inDeno) run(findTool("deno"), ["test", "-A", "--no-check", "--quiet", ...files]);
  else run(findTool("bun"), ["test", "--timeout=120000", ...files.map((file) => `./${file}`)]);
}

/** Writes the examples of a way, blocks that import the package; returns their files. */
function writeExamples(steps: readonly Step[]): string[] {
  const examples = steps.filter(({ text }) => text.includes('from "@rowmajor/tensor'));
  assert(examples.length > 0);
  return examples.map(({ text, line }) => {
    const file = `example_${line}.ts`;
    const own = text.replaceAll("@rowmajor/tensor/nn", "./src/nn/mod.ts");
    write(file, own.replaceAll("@rowmajor/tensor", "./mod.ts"));
    const block = { file: "docs/add-an-op.md", line, language: "ts", reason: "" };
    const compiled = compileBlock({ ...block, mode: "run", lines: text.split("\n") });
    const here = compiled.replaceAll(pathToFileURL(root).href, `${pathToFileURL(folder).href}/`);
    assert(here !== compiled && !here.includes("@rowmajor"), here);
    write(`run_${file}`, here);
    return file;
  });
}

// ---- the golden scripts --------------------------------------------------------------------------

/** Names of Python packages that differ from those of their modules. */
const PACKAGES: Readonly<Record<string, string>> = { PIL: "pillow" };
/** The modules of Python's own library that the scripts import. */
const OF_PYTHON = new Set(
  ("argparse base64 collections ctypes datetime fractions functools hashlib io itertools json math os pathlib random re " +
    "shutil struct subprocess sys tempfile time types warnings zipfile zlib").split(" "),
);

/** The packages that the scripts of a folder import at their top. */
function packagesOf(script: string): string[] {
  const code = readText(script).replace(/^"""[\s\S]*?"""/, "");
  const imports = [...code.matchAll(/^(?:import ([\w., ]+)|from (\w+)[\w.]* import)/gm)]
    .flatMap(([, many, one]) =>
      one ?? many!.split(",").map((name) => name.trim().split(/[ .]/)[0]!)
    );
  const isOwn = (name: string): boolean => existsSync(join(root, dirname(script), `${name}.py`));
  return [...new Set(imports)].filter((name) => !OF_PYTHON.has(name) && !isOwn(name))
    .map((name) => PACKAGES[name] ?? name);
}

/** The packages that a text installs. */
function installed(text: string): string[] {
  return [...text.matchAll(/pip install ((?:[\w-]+(?:==[\d.]*\d)?[ \\]*)+)/g)].flatMap((
    [, names],
  ) => names!.trim().split(/[ \\]+/).map((name) => name.replace(/==.*/, "")));
}

/** A Python with the packages of the page, or why there is none: as for the benchmarks. */
function findPython(): { python: string } | { skip: string } {
  const own = process.platform === "win32" ? "Scripts\\python.exe" : "bin/python";
  const python = process.env.ROWMAJOR_PYTHON || join(root, ".venv", own);
  if (!process.env.ROWMAJOR_PYTHON && !existsSync(python)) {
    return { skip: "ROWMAJOR_PYTHON names no Python, and there is no .venv" };
  }
  const code = `import ${installed(page).join(", ")}; assert numpy.__version__ >= "2"`;
  const { status } = spawnSync(python, ["-c", code]);
  return status === 0
    ? { python }
    : { skip: `${python} lacks one of ${installed(page).join(", ")}` };
}

/** The lines of `after` that `before` has not; fails if others are missing or in another order. */
function addedLines(path: string): number {
  const [old, now] = [readText(path).split("\n"), read(path).split("\n")];
  let kept = 0;
  for (const line of now) if (line.replace(/,$/, "") === old[kept]?.replace(/,$/, "")) kept++;
  assertEquals(kept, old.length, `${path}: a line is another one now`);
  return now.length - old.length;
}

describe("docs/add-an-op.md", () => {
  const touched = new Map<string, Set<string>>();
  const steps = new Map<string, readonly Step[]>();

  it("names a file and a line for each block, and counts the files of each way", () => {
    const counts = [...page.slice(0, page.indexOf("\n## ")).matchAll(/\| (\d) files/g)]
      .map(([, count]) => Number(count));
    for (const [way, heading] of WAYS) {
      const own = ownSteps(heading);
      const files = new Set<string>();
      for (const step of own) {
        const file = step.language === "sh" ? undefined : insert(step);
        if (file !== undefined) files.add(file);
        else if (step.language !== "sh") {
          assert(
            step.text.includes('from "@rowmajor/'),
            `line ${step.line}: no place for the block`,
          );
        }
      }
      steps.set(way, own);
      touched.set(way, files);
      console.log(`${way}: ${files.size} files: ${[...files].join(", ")}`);
    }
    assertEquals(WAYS.map(([way]) => touched.get(way)!.size), counts);
  });

  it("names tests that exist", () => {
    const files = testFiles();
    const names = [...page.matchAll(/^deno task test ([\w\/ ]+?)(?: +#.*)?$/gm)]
      .flatMap(([, all]) => all!.trim().split(" "));
    assert(names.length > 3);
    for (const name of names) {
      const found = files.filter((file) => file.includes(name));
      assert(
        found.length > 0 && found.length < 3,
        `deno task test ${name} runs ${found.join(", ")}`,
      );
    }
  });

  it("has a generator that adds an entry to each table", () => {
    const [commands] = steps.get("softplus")!.filter(({ language }) => language === "sh");
    const [command] = /^deno run -A scripts\/generate\/ops_def\.ts/m.exec(commands!.text) ?? [];
    run(findTool("deno"), command!.split(" ").slice(1));
    assertEquals(addedLines("shim/core/ops.def"), 2);
    assertEquals(addedLines("src/types/table_ops.ts"), 4);
  });

  const typed = RUNS_ALL ? ", and whose types are right" : "";
  it(`makes code that is formatted${typed}`, {
    skip: !inDeno && "the compiler gives the same in both runtimes",
  }, () => {
    const files = [...new Set([...touched.values()].flatMap((some) => [...some]))]
      .filter((path) => /\.(ts|md)$/.test(path));
    run(findTool("deno"), ["fmt", "--check", ...files]);
    run(findTool("deno"), ["lint", "--quiet", ...files.filter((path) => path.endsWith(".ts"))]);
    // The copy is another program to the compiler, which checks all of it.
    if (!RUNS_ALL) return;
    const examples = ["softplus", "softcap"].flatMap((way) => writeExamples(steps.get(way)!));
    // The compiler takes a third longer for tests.
    const code = files.filter((path) => path.endsWith(".ts") && !path.startsWith("tests/"));
    run(findTool("deno"), ["check", "--quiet", ...examples, ...code]);
  });

  it("makes ops that run in JavaScript, in all tests of public names", async () => {
    for (const file of ["softplus", "softcap"].flatMap((way) => writeExamples(steps.get(way)!))) {
      await import(pathToFileURL(join(folder, `run_${file}`)).href);
    }
    const copy = await import(pathToFileURL(join(folder, "mod.ts")).href);
    const x = copy.linspace(-0.75, 8, 36, { dtype: "float64" });
    assert(x.softplus().allclose(x.exp().log1p(), { rtol: 1e-14 }));
    assert(x.log2p1().allclose(x.add(1).log2(), { rtol: 1e-12 }));
    runTests(
      ...["tests/ops/recording_test.ts", "tests/sort/min_max_test.ts", "tests/io/flo_test.ts"],
      ...["tests/io/kinds_test.ts", "tests/ops/unique_ops_test.ts"],
    );
  });

  const found = findPython();
  it(
    "has golden scripts that add to the test data",
    { skip: "skip" in found && found.skip },
    () => {
      const { python } = found as { python: string };
      const commands = [...steps.get("softplus")!, ...steps.get("log2p1")!]
        .filter(({ language }) => language === "sh").flatMap(({ text }) => text.split("\n"))
        .map((line) => line.replace(/#.*/, "").trim()).filter((line) =>
          line.includes("scripts/golden")
        );
      assertEquals(commands.length, 2);
      for (const command of commands) {
        let output = "";
        for (const part of command.split("|")) {
          const [program, ...args] = part.trim().split(/\s+/);
          output = run(program === "deno" ? findTool("deno") : python, args, output);
        }
      }
      for (const name of readdirSync(join(folder, "tests/golden/ops"))) {
        const path = `tests/golden/ops/${name}`;
        const added = addedLines(path);
        assert(added > 0 || /"(bool|differences)/.test(`"${name}`), `${path}: ${added} lines more`);
      }
      assertEquals(addedLines("tests/golden/primitives.json"), 1);
      runTests("tests/unit/primitives_test.ts");
    },
  );

  it("installs the packages that the golden scripts import, as each script does", () => {
    for (const script of ["scripts/golden/ops.py", "scripts/golden/primitives.py"]) {
      assertEquals(
        packagesOf(script).filter((name) => !installed(page).includes(name)),
        [],
        script,
      );
    }
    const scripts = readdirSync(join(root, "scripts"), { recursive: true, encoding: "utf8" })
      .filter((path) => path.endsWith(".py")).map((path) =>
        `scripts/${path.replaceAll("\\", "/")}`
      );
    assert(scripts.length > 20);
    for (const script of scripts) {
      const names = installed(/^"""[\s\S]*?"""/.exec(readText(script))![0].replace(/\s+/g, " "));
      const missing = packagesOf(script).filter((name) => !names.includes(name));
      assertEquals(missing, [], `${script} does not say: pip install ${missing.join(" ")}`);
    }
  });

  let zig: string | undefined;
  try {
    zig = findTool("zig");
  } catch {
    // Then C is not compiled.
  }
  it("has C that compiles and computes", {
    skip: zig === undefined ? "zig is not installed" : !inDeno && "C is the same in both runtimes",
  }, () => {
    const [, list] = /const include_folders = [^{]*\{([^}]*)\}/.exec(read("build.zig"))!;
    const includes = [...list!.matchAll(/"([^"]+)"/g)].map(([, path]) =>
      `-I${join(folder, path!)}`
    );
    const common = [
      "-std=gnu11",
      "-Wall",
      "-Wno-unused-command-line-argument",
      "-ffp-contract=off",
      "-DRM_ISA=base",
    ];
    const kernel = join(folder, "shim", "cpu", "reduce", "min_max.c");
    assert(read("build.zig").includes('"cpu/reduce/min_max.c"'));
    runZig(["cc", "-O0", "-c", ...common, ...includes, kernel, "-o", `${kernel}.o`]);
    // The expressions as the generator writes them, on the primitives of float64.
    const program = join(folder, "expressions.c");
    writeFileSync(
      program,
      `#include <math.h>
#include <stdio.h>
#include "vecmath.h"
#define RM_CALL(f) rm_##f##_f64
#define RM_NUM(n) (n)
#define RM_COMPUTE_BOUND_MAP(name, arity, result, expr, ...) \\
  __attribute__((unused)) static double op_##name(double x, double y, double z, \\
                                                  const double *attributes) { \\
    (void)y, (void)z, (void)attributes; \\
    __VA_ARGS__ \\
    return expr; \\
  }
#include "ops.def"
int main(void) {
  const float small = rm_log2p1_f32(1e-7f);
  printf("%.4f %.4f %.4e %.4e\\n", op_softplus(0, 0, 0, 0), op_log2p1(3, 0, 0, 0),
         op_log2p1(1e-9, 0, 0, 0), small);
  return 0;
}
`,
    );
    const made = join(folder, process.platform === "win32" ? "expressions.exe" : "expressions");
    runZig(["cc", "-O0", ...common, ...includes, program, "-o", made, "-lm"]);
    assertEquals(run(made, []).trim(), "0.6931 2.0000 1.4427e-09 1.4427e-07");
  });
});
