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
 * script, with the line of the source, for paths. Leaves out their text, and what only tells apart
 * places of one line.
 */
function trimMap(path: string): void {
  const { sourcesContent: _, debugId: __, ...map } = JSON.parse(readFileSync(path, "utf8"));
  const sources = map.sources.map((source: string) => source.replace(/^.*-sources\//, SOURCES));
  writeFileSync(
    path,
    JSON.stringify({ ...map, sources, names: [], mappings: linesOf(map.mappings) }),
  );
}

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** The numbers of a segment of a source map. */
function numbersOf(segment: string): number[] {
  const numbers: number[] = [];
  let value = 0, shift = 0;
  for (const digit of segment) {
    const bits = DIGITS.indexOf(digit);
    value |= (bits & 31) << shift;
    shift += 5;
    if ((bits & 32) !== 0) continue;
    numbers.push((value & 1) !== 0 ? -(value >> 1) : value >> 1);
    value = shift = 0;
  }
  return numbers;
}

/** A number as digits of a source map. */
function digitsOf(number: number): string {
  let text = "";
  for (let rest = number < 0 ? (-number << 1) | 1 : number << 1;;) {
    const bits = rest & 31;
    rest >>= 5;
    text += DIGITS[rest === 0 ? bits : bits | 32];
    if (rest === 0) return text;
  }
}

/**
 * The mappings of a source map without the segments that lead to the same line of the same source as
 * the one before: four fifths of them. Each place leads to the line as before, and to the column where
 * that line begins in the script.
 */
export function linesOf(mappings: string): string {
  // Columns of the script count from the segment before in its line; the rest from the one before.
  let source = 0, line = 0, column = 0;
  let kept = { source: 0, line: 0, column: 0 };
  const short = (text: string): string => {
    let at = 0, keptAt = 0, last = "";
    const segments: string[] = [];
    for (const segment of text.split(",")) {
      const [step = 0, ...place] = numbersOf(segment);
      at += step;
      source += place[0] ?? 0;
      line += place[1] ?? 0;
      column += place[2] ?? 0;
      const here = place.length === 0 ? "none" : `${source}:${line}`;
      if (here === last) continue;
      last = here;
      const steps = [source - kept.source, line - kept.line, column - kept.column];
      segments.push([at - keptAt, ...place.length === 0 ? [] : steps].map(digitsOf).join(""));
      keptAt = at;
      if (place.length > 0) kept = { source, line, column };
    }
    return segments.join(",");
  };
  return mappings.split(";").map((text) => text === "" ? "" : short(text)).join(";");
}
