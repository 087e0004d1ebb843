/**
 * The types of the packages under several versions of TypeScript and several sets of options:
 * README's first example and a program of 300 lines compile, and twelve mistakes do not.
 *
 * `npm test` takes the oldest compiler with its library and the newest with the strictest options,
 * `npm run test:all` all of them. Prints a table: the seconds of each run, or what was wrong.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { stageDeno, stageJsr, stageNpm } from "../../scripts/release/package.ts";
import { findTool, readText, root } from "../../scripts/tools.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { check, inDeno, librariesIn, run, temporary } from "./support.ts";

const bun = findTool("bun");
const stage = temporary();
after(() => stage[Symbol.dispose]());

/** The compilers, by the names under which package.json has them. */
const COMPILERS = [
  "typescript-5.4",
  "typescript-5.7",
  "typescript-5.9",
  "typescript",
  "typescript-7.0",
];

/** Options of a user's project. */
interface Config {
  readonly extends?: string;
  readonly compilerOptions: object;
  /** The first version of TypeScript that knows the options. */
  readonly since?: string;
}

/** With the types of Node. */
const NODE = { types: ["node"], noEmit: true };
/** With what the language has, and a browser. */
const BARE = {
  ...{ types: [], noEmit: true, module: "nodenext", strict: true, skipLibCheck: true },
};
const BUN = { extends: "@tsconfig/bun/tsconfig.json", compilerOptions: NODE };

const CONFIGS: Readonly<Record<string, Config>> = {
  es2022: { compilerOptions: { ...BARE, target: "es2022" } },
  es2024: { compilerOptions: { ...BARE, target: "es2024" }, since: "5.7" },
  node20: { extends: "@tsconfig/node20/tsconfig.json", compilerOptions: NODE },
  node22: { extends: "@tsconfig/node22/tsconfig.json", compilerOptions: NODE, since: "5.7" },
  // Its own types are Bun's, which no package here contains.
  bun: BUN,
  strictest: {
    extends: "@tsconfig/strictest/tsconfig.json",
    compilerOptions: { ...NODE, target: "es2022", module: "nodenext" },
  },
};

/** The options of the strictest package that concern sources. */
const STRICT = {
  ...{ strict: true, noUncheckedIndexedAccess: true, exactOptionalPropertyTypes: true },
  ...{ noPropertyAccessFromIndexSignature: true, noImplicitOverride: true },
  ...{ noImplicitReturns: true, noFallthroughCasesInSwitch: true },
  ...{ noUnusedLocals: true, noUnusedParameters: true },
};

/** No package contains sources, so that newer compilers suffice: each takes half a minute. */
const SOURCE_CONFIGS: Readonly<Record<string, Config>> = {
  bun: { ...BUN, since: "6.0" },
  "bun, strictest": {
    extends: "@tsconfig/strictest/tsconfig.json",
    compilerOptions: {
      ...{ ...NODE, target: "esnext", module: "preserve", moduleResolution: "bundler" },
      ...{ allowImportingTsExtensions: true, lib: ["esnext"] },
    },
    since: "6.0",
  },
};

const FILES = ["readme.ts", "transformer.ts", "floats.ts", "mistakes.ts"];
const MARK = "// @ts-expect-error: ";
const programs = join(root, "tests", "package", "programs");
const mistakes = readText("tests/package/programs/mistakes.ts");

/** README's first example without the line that must not compile. */
function firstExample(): string {
  const [, text] = /^```ts\n([^]*?)^```$/m.exec(readText("README.md"))!;
  const lines = text!.split("\n");
  const wrong = lines.findIndex((line) => line.includes("@ts-expect-error"));
  if (wrong >= 0) lines.splice(wrong, 2);
  return lines.join("\n");
}

/** The programs of a project, in which `specifier` names the package. */
function writePrograms(folder: string, specifier: string): void {
  const named = (text: string): string => text.replaceAll('"@rowmajor/tensor"', `"${specifier}"`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "readme.ts"), named(firstExample()));
  for (const name of ["transformer.ts", "floats.ts"]) {
    writeFileSync(join(folder, name), named(readFileSync(join(programs, name), "utf8")));
  }
  writeFileSync(join(folder, "mistakes.ts"), named(mistakes.replaceAll(MARK, "// ")));
}

/** The errors by `file:line`, of which no error has one of its own, in the output of a compiler. */
function errorsIn(output: string): Map<string, string> {
  const found = new Map<string, string>();
  let at = "elsewhere";
  for (const line of output.split("\n")) {
    const [, path, row] = /^(\S.*?)\((\d+),\d+\): error /.exec(line) ?? [];
    if (path !== undefined) at = `${path.replaceAll("\\", "/")}:${row}`;
    else if (/^error /.test(line)) at = "elsewhere";
    if (line !== "") found.set(at, `${found.get(at) ?? ""}${line}\n`);
  }
  return found;
}

let npm: Promise<string> | undefined;
/** Stages the package for npm, once, and returns the path of its tarball. */
function stagedNpm(): Promise<string> {
  return npm ??= stageNpm(join(stage.path, "npm"), librariesIn(stage.path));
}

/** What is wrong with the output of a compiler; empty if it is as it must be. */
function faultsOf(output: string): string[] {
  const found = errorsIn(output);
  const faults: string[] = [];
  mistakes.split("\n").forEach((line, i) => {
    if (!line.includes(MARK)) return;
    const at = `mistakes.ts:${i + 2}`;
    const message = line.split(MARK)[1]!;
    const said = found.get(at);
    found.delete(at);
    if (said === undefined) faults.push(`${at} compiles, without "${message}"`);
    else if (!said.replaceAll('\\"', '"').includes(message)) {
      faults.push(`${at} without "${message}":\n${said}`);
    }
  });
  return [...faults, ...found.values()];
}

/** Runs a compiler in a project with some options, and returns the cell of the table. */
function compile(compiler: string, folder: string, config: Config): { cell: string; all: string } {
  const path = join(folder, "tsconfig.json");
  const { since: _, ...options } = config;
  writeFileSync(path, JSON.stringify({ ...options, files: FILES }));
  const tsc = join(root, "node_modules", compiler, "bin", "tsc");
  const begin = performance.now();
  const { stdout, stderr, error, signal } = spawnSync(
    bun,
    [tsc, "--pretty", "false", "-p", path],
    { cwd: folder, encoding: "utf8", env: { ...process.env, NO_COLOR: "1" } },
  );
  if (error) throw error;
  if (signal !== null) throw new Error(`${compiler} was ended by ${signal}`);
  const seconds = (performance.now() - begin) / 1000;
  const faults = faultsOf(stdout + stderr);
  const cell = faults.length === 0 ? `${seconds.toFixed(1)} s` : `${faults.length} faults`;
  return { cell, all: faults.join("\n") };
}

/** True if a run compiles with this compiler and these options. */
function isChosen(compiler: string, config: string): boolean {
  return RUNS_ALL || (compiler === COMPILERS[0] && config === "es2022") ||
    (compiler === COMPILERS.at(-1) && config === "strictest");
}

/** Compiles the programs with compilers and options, prints a table, and throws for faults. */
function compileAll(
  name: string,
  folder: string,
  configs: Readonly<Record<string, Config>>,
): void {
  const names = Object.keys(configs);
  const width = Math.max(...names.map((name) => name.length), 10);
  const row = (cells: readonly string[]): string => cells.map((c) => c.padEnd(width)).join("  ");
  const faults: string[] = [];
  console.log(row([name, ...names]));
  for (const compiler of COMPILERS) {
    const manifest = join(root, "node_modules", compiler, "package.json");
    const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
    const cells = names.map((config) => {
      if (Number.parseFloat(version) < Number.parseFloat(configs[config]!.since ?? "0")) return "-";
      if (!isChosen(compiler, config)) return "";
      const { cell, all } = compile(compiler, folder, configs[config]!);
      if (all !== "") faults.push(`TypeScript ${version}, ${config}:\n${all}`);
      return cell;
    });
    console.log(row([version, ...cells]));
  }
  assertEquals(faults.join("\n"), "");
}

/** Makes a project of a folder, with the types and options of packages of this repository. */
function makeProject(folder: string): void {
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  for (const name of ["@types/node", "undici-types", "@tsconfig"]) {
    const to = join(folder, "node_modules", name);
    mkdirSync(join(to, ".."), { recursive: true });
    symlinkSync(join(root, "node_modules", name), to, "junction");
  }
}

const LONG = { timeout: 900_000 };

check("types of the package on npm, by compilers and options", LONG, async () => {
  const project = join(stage.path, "project");
  const tarball = await stagedNpm();
  writePrograms(project, "@rowmajor/tensor");
  makeProject(project);
  const env = { HOME: stage.path, TMPDIR: stage.path, TEMP: stage.path };
  const added = await run(bun, ["add", tarball], { cwd: project, env });
  assertEquals(added.code, 0, added.stderr);
  compileAll("npm", project, CONFIGS);
});

// tests/types/strict_test.ts compiles the sources, npm_test.ts the types by path in Deno, in npm test.
const everything = RUNS_ALL ? check : () => {};

everything("types of the sources: two compilers, also strictest", LONG, () => {
  const project = join(stage.path, "sources");
  for (const name of ["mod.ts", "src"]) {
    cpSync(join(root, name), join(project, "rowmajor", name), { recursive: true });
  }
  writePrograms(project, "./rowmajor/mod.ts");
  makeProject(project);
  compileAll("sources", project, SOURCE_CONFIGS);
});

everything("types of both packages by path in Deno, also strictest", LONG, async () => {
  await stagedNpm();
  stageDeno(join(stage.path, "deno"), join(stage.path, "npm"));
  await stageJsr(join(stage.path, "jsr"), librariesIn(stage.path));
  for (const name of ["jsr", "deno"]) {
    const project = join(stage.path, `imports-${name}`);
    writePrograms(project, `../${name}/mod.js`);
    for (const compilerOptions of [{}, STRICT]) {
      writeFileSync(join(project, "deno.json"), JSON.stringify({ compilerOptions }));
      const { status, stderr } = spawnSync(findTool("deno"), ["check", ...FILES], {
        ...{ cwd: project, encoding: "utf8", env: { ...process.env, NO_COLOR: "1" } },
      });
      // Only the mistakes are errors.
      const places = [...stderr.matchAll(/^ +at file:.*\/(.*?):\d+:\d+$/gm)].map(([, at]) => at);
      assertEquals([status, places.filter((at) => at !== "mistakes.ts")], [1, []], stderr);
      assert(places.length >= mistakes.split(MARK).length - 1, stderr);
    }
  }
});

test("the program of 300 lines runs", async () => {
  const args = [...inDeno ? ["run", "-A", "--no-check"] : [], join(programs, "transformer.ts")];
  const { code, stdout, stderr } = await run(process.execPath, args, { cwd: root });
  assertEquals(code, 0, stderr);
  const [, accuracy] = /accuracy (0\.\d+)/.exec(stdout)!;
  assert(Number(accuracy) > 0.6, stdout);
});
