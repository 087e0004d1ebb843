/**
 * Bundles the JavaScript of the packages.
 *
 * A runtime opens, and compiles, each module by itself: two hundred files take four times as long
 * to import as one. So all modules that `mod.ts` loads are one file, `core.js`. The other entry
 * points take them from there, and share further code in files of their own.
 *
 * @module
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { pathToFileURL } from "node:url";
import { SOURCES } from "../../src/base/stack.ts";
import { root } from "../tools.ts";

/**
 * What modules import in place of the core, until their paths are known. It has the length of the
 * path from each place, so that source maps need no change.
 */
const CORE = "#core-modules";

/** The modules that `path` loads, with itself; paths are relative to `sources`. */
function reached(sources: string, path: string, into: Set<string> = new Set()): Set<string> {
  if (into.has(path)) return into;
  into.add(path);
  for (const to of imported(sources, path)) reached(sources, to, into);
  return into;
}

/** The modules that the statements of a module import, except for types. */
function imported(sources: string, path: string): string[] {
  const text = readFileSync(join(sources, path), "utf8");
  const statements = /^(?:import|export)\s(?!type\s)(?:[^"';]*\sfrom\s)?"(\.[^"]+)";/gm;
  return Array.from(text.matchAll(statements), ([, to]) => posix.join(dirname(path), to!));
}

/** The names of what a module exports at run time. */
async function exportsOf(path: string): Promise<string[]> {
  return Object.keys(await import(pathToFileURL(join(root, path)).href));
}

/**
 * Bundles `entries`, of which the first is `mod.ts`, from the folder `sources`, whose modules this
 * changes, into `folder`. `build` runs Bun's bundler there.
 */
export async function bundle(
  sources: string,
  folder: string,
  entries: readonly string[],
  build: (...args: string[]) => Promise<void>,
): Promise<void> {
  const core = reached(sources, entries[0]!);
  const others = new Set(entries.flatMap((entry) => [...reached(sources, entry)]));
  const used = new Set(entries.filter((entry) => core.has(entry)));
  for (const path of others) {
    if (core.has(path)) continue;
    for (const to of imported(sources, path)) if (core.has(to)) used.add(to);
  }
  const lines: string[] = [];
  const stubs = new Map<string, string>();
  for (const [i, path] of [...used].entries()) {
    const names = await exportsOf(path);
    if (names.length === 0) continue;
    // The same name may mean different things in two modules.
    lines.push(`export { ${names.map((name) => `${name} as ${name}$${i}`)} } from "./${path}";\n`);
    stubs.set(
      path,
      `export { ${names.map((name) => `${name}$${i} as ${name}`)} } from "${CORE}";\n`,
    );
  }
  writeFileSync(join(sources, "core.ts"), lines.join(""));
  await build("./core.ts");
  for (const [path, stub] of stubs) writeFileSync(join(sources, path), stub);
  const chunks = ["--splitting", "--chunk-naming=shared-[hash].[ext]"];
  await build(...entries.map((path) => `./${path}`), ...chunks, `--external=${CORE}`);
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (!name.endsWith(".js")) continue;
    const path = join(folder, name);
    const up = "../".repeat(name.split(/[/\\]/).length - 1) || "./";
    const core = `${up}core.js`.padStart(CORE.length, "./");
    const text = readFileSync(path, "utf8");
    if (text.includes(CORE) && core.length !== CORE.length) {
      throw new Error(`${name} cannot import ${core}: source maps need a path as long as ${CORE}`);
    }
    writeFileSync(path, text.replaceAll(`"${CORE}"`, `"${core}"`));
  }
  for (const name of readdirSync(folder, { recursive: true, encoding: "utf8" })) {
    if (name.endsWith(".map")) trimMap(join(folder, name));
  }
}

/**
 * Names the sources in a map as they are in the repository, as URLs: Deno keeps the name of the
 * script, with the line of the source, for paths. Leaves their text out.
 */
function trimMap(path: string): void {
  const { sourcesContent: _, debugId: __, ...map } = JSON.parse(readFileSync(path, "utf8"));
  const sources = map.sources.map((source: string) => source.replace(/^.*-sources\//, SOURCES));
  writeFileSync(path, JSON.stringify({ ...map, sources }));
}
