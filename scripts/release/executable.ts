/**
 * Makes a single-file executable of a program of this repository, with the native library and files
 * inside: `executable.ts MAIN [--include=FILE[=NAME] ...] [--out=FILE] [--runtime=bun|deno]
 * [--minify]`.
 *
 * Stages the sources with the library of this machine, and the program's folder next to them, so
 * that its `../../mod.ts` is the staged one. The program finds an included file at
 * `new URL(NAME, import.meta.url)`; NAME is relative to the main module's folder, and defaults to
 * the file's path from there. A folder is included with all of its files. For Deno, `--allow` options
 * given here set the permissions at run time; without any, all are granted. Bun's bundler gets the
 * plugin of `src/onnx/bun.ts`, and finds packages in `NODE_PATH` too.
 *
 * @module
 */

import { cpSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, extname, isAbsolute, join, relative, resolve, sep } from "node:path";
import process from "node:process";
import { builtLibraries, HOST, type Libraries, stageForExecutable } from "./package.ts";
import { ensureInstalled, findTool, root, start } from "../tools.ts";

/** The module that Bun runs: its command has no plugins. */
const BUILD = "build.mjs";

function buildModule(settings: object): string {
  return `import { plugin } from "./src/onnx/bun.ts";
try {
  await Bun.build({ ...${JSON.stringify(settings)}, plugins: [plugin] });
} catch (error) {
  for (const one of error.errors ?? [error]) console.error(String(one.message ?? one));
  process.exit(1);
}
`;
}

/** Flags of Bun's command as options of its function: `--minify`, `--format=esm`. */
function optionsOf(flags: readonly string[]): Record<string, string | boolean> {
  return Object.fromEntries(flags.map((flag) => {
    const [name, value] = flag.replace(/^--?/, "").split("=") as [string, string?];
    return [name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase()), value ?? true];
  }));
}

/** A file by its name, or all files of a folder. */
function included(name: string, path: string): [name: string, path: string][] {
  if (!statSync(path).isDirectory()) return [[name, path]];
  return readdirSync(path, { recursive: true, encoding: "utf8" }).sort().flatMap((inside) => {
    const file = join(path, inside);
    return statSync(file).isFile() ? [[join(name, inside), file]] : [];
  });
}

/** The program to build. */
export interface Program {
  /** The main module. */
  readonly main: string;
  readonly out: string;
  readonly runtime: "bun" | "deno";
  /** Files by the names that the program uses for them. */
  readonly include: Readonly<Record<string, string>>;
  /** Additional flags of the runtime's compiler. */
  readonly flags: readonly string[];
}

/** Stages and compiles `program` in `folder`; returns the output if that fails. */
export async function makeExecutable(
  { main, out, runtime, include, flags }: Program,
  folder: string,
  libraries: Libraries,
): Promise<string | undefined> {
  stageForExecutable(folder, HOST, libraries);
  // Bun resolves paths from the main module's folder, for included files too.
  const home = join(folder, relative(root, dirname(main)));
  // The sources of the library are staged already, with other modules in their place.
  const isOwn = main.startsWith(join(root, "src") + sep);
  if (!isOwn) cpSync(dirname(dirname(main)), dirname(home), { recursive: true });
  const names = Object.entries(include).map(([name, file]) => {
    mkdirSync(dirname(join(home, name)), { recursive: true });
    cpSync(file, join(home, name));
    return name;
  });
  const program = join(home, basename(main));
  if (runtime === "bun") {
    const files = names.map((name) => join(home, name));
    const settings = {
      ...optionsOf(flags),
      entrypoints: [program, ...files],
      root: home,
      naming: { asset: "[dir]/[name].[ext]" },
      compile: { outfile: out },
      // A file of JSON would be a module.
      loader: Object.fromEntries(files.map((file) => [extname(file) || ".data", "file"])),
    };
    writeFileSync(join(folder, BUILD), buildModule(settings));
  }
  const args = runtime === "bun" ? [join(folder, BUILD)] : [
    ...[
      "compile",
      "--no-check",
      `--output=${out}`,
      ...names.map((name) => `--include=${join(home, name)}`),
    ],
    ...(flags.some((flag) => /^(-A|--allow-)/.test(flag)) ? flags : ["-A", ...flags]),
    program,
  ];
  const lines: string[] = [];
  mkdirSync(dirname(out), { recursive: true });
  const code = await start(findTool(runtime), args, { onLine: (line) => lines.push(line) });
  rmSync(folder, { recursive: true });
  return code === 0 ? undefined : `${runtime} exited with ${code}:\n${lines.join("\n")}`;
}

function usage(): never {
  console.error(
    "usage: executable.ts MAIN [--include=FILE[=NAME] ...] [--out=FILE] [--runtime=bun|deno] [...]",
  );
  process.exit(2);
}

async function main(): Promise<number> {
  const include: Record<string, string> = {};
  const flags: string[] = [];
  const mains: string[] = [];
  let runtime: string = "bun";
  let out: string | undefined;
  for (const arg of process.argv.slice(2)) {
    const [, option, value] = /^--(\w+)=(.*)$/.exec(arg) ?? [];
    if (option === "runtime") runtime = value!;
    else if (option === "out") out = resolve(value!);
    else if (option === "include") {
      const [file = "", name] = value!.split("=");
      include[name ?? file] = resolve(file);
    } else if (arg.startsWith("-")) flags.push(arg);
    else mains.push(resolve(arg));
  }
  const [path] = mains;
  if (path === undefined || mains.length > 1 || !/^(bun|deno)$/.test(runtime)) usage();
  // Files next to the program's folder are staged too.
  const inside = relative(root, path), place = inside.split(sep);
  if (place[0] === ".." || isAbsolute(inside) || place.length < 3) {
    console.error(
      `${path} is no program of this repository, such as examples/digits/main.ts: ` +
        "docs/install.md says how others become executables",
    );
    return 2;
  }
  await ensureInstalled();
  const built = await start(findTool("zig"), ["build"]);
  if (built !== 0) return built;
  const folder = join(root, "zig-out", "package");
  const named = Object.entries(include).flatMap(([name, file]) =>
    included(name === file || resolve(name) === file ? relative(dirname(path), file) : name, file)
  );
  const program: Program = {
    main: path,
    out: out ??
      join(folder, basename(dirname(path)) + (process.platform === "win32" ? ".exe" : "")),
    runtime: runtime as "bun" | "deno",
    include: Object.fromEntries(named),
    flags,
  };
  const fault = await makeExecutable(
    program,
    join(folder, `staged-${process.pid}`),
    builtLibraries(HOST),
  );
  console.log(fault ?? program.out);
  return fault === undefined ? 0 : 1;
}

if (import.meta.main) process.exit(await main());
