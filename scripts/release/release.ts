/**
 * Makes a release: `release.ts 0.2.0` raises the version everywhere, closes the changelog's
 * section, and does all that `release.ts --check` does. That one changes no committed file: it
 * builds the libraries of all targets twice, which have to be equal byte for byte, runs every check,
 * stages the packages, and writes checksums and an SBOM next to them, below zig-out/package.
 *
 *   --tag=v0.2.0    fails unless that is the version's tag
 *   --no-checks     leaves out `deno task ok`, which has run already
 *
 * Publishing is left to .github/workflows/release.yml, which runs this for each tag.
 *
 * @module
 */

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { builtLibraries, type Libraries, stageJsr, stageNpm, TARGETS } from "./package.ts";
import { ensureInstalled, findTool, root, start } from "../tools.ts";

// ---- versions ----------------------------------------------------------------------------------

/** The places of the version: the file, and the text around it. */
const PLACES: readonly (readonly [path: string, before: string, after: string])[] = [
  ["deno.json", '"version": "', '",\n  "license"'],
  ["package.json", '"version": "', '",\n  "description"'],
  ["package-lock.json", '"name": "@rowmajor/tensor",\n  "version": "', '",\n  "lockfileVersion"'],
  ["package-lock.json", '"name": "@rowmajor/tensor",\n      "version": "', '",\n      "has'],
  ["src/base/version.ts", 'export const VERSION = "', '";'],
  ["examples/deploy/package.json", '"@rowmajor/tensor": "', '",'],
];

const VERSION = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$/;

/** Replaces the version in `text` between `before` and `after`; null only reads it. */
function swapVersion(
  [path, before, after]: (typeof PLACES)[number],
  text: string,
  version: string | null,
): [text: string, found: string] {
  const from = text.indexOf(before) + before.length;
  const to = text.indexOf(after, from);
  const found = text.slice(from, to);
  if (from < before.length || to < 0 || !VERSION.test(found)) {
    throw new Error(`Cannot find the version in ${path}`);
  }
  return [text.slice(0, from) + (version ?? found) + text.slice(to), found];
}

/** The version of the files below `folder`. Throws an Error if they disagree. */
export function versionOf(folder: string): string {
  const found = PLACES.map((place) =>
    swapVersion(place, readFileSync(join(folder, place[0]), "utf8"), null)[1]
  );
  const [version] = found;
  found.forEach((other, i) => {
    if (other !== version) {
      throw new Error(`${PLACES[i]![0]} has version ${other}, ${PLACES[0]![0]} has ${version}`);
    }
  });
  return version!;
}

/** True if version `a` is later than `b`. */
export function isLater(a: string, b: string): boolean {
  const [x, y] = [a, b].map((version) => version.split(".").map(Number)) as [number[], number[]];
  const place = x.findIndex((number, i) => number !== y[i]);
  return place >= 0 && x[place]! > y[place]!;
}

/** `changelog` with the unreleased changes as the section of `version`. */
export function closeSection(changelog: string, version: string, date: string): string {
  const head = "## Unreleased\n";
  const at = changelog.indexOf(head);
  if (at < 0) throw new Error(`Cannot find "${head.trim()}" in CHANGELOG.md`);
  const rest = changelog.slice(at + head.length);
  const next = rest.search(/^## /m);
  if ((next < 0 ? rest : rest.slice(0, next)).trim() === "") {
    throw new Error("Cannot release: CHANGELOG.md says of nothing that it is unreleased");
  }
  return `${changelog.slice(0, at)}${head}\n## ${version} (${date})\n${rest}`;
}

/** Raises the version of the files below `folder`, and closes the changelog's section. */
export function raiseVersion(folder: string, version: string, date: string): void {
  const before = versionOf(folder);
  if (!VERSION.test(version)) throw new Error(`Cannot release ${version}: not like 1.2.3`);
  const changelog = join(folder, "CHANGELOG.md");
  const text = readFileSync(changelog, "utf8");
  // The initial version of the files has not been released.
  const first = version === before && !text.includes(`\n## ${version} (`);
  if (!first && !isLater(version, before)) {
    throw new Error(`Cannot release ${version} after ${before}`);
  }
  const closed = closeSection(text, version, date);
  for (const place of PLACES) {
    const path = join(folder, place[0]);
    writeFileSync(path, swapVersion(place, readFileSync(path, "utf8"), version)[0]);
  }
  writeFileSync(changelog, closed);
}

// ---- what is released --------------------------------------------------------------------------

/** The SHA-256 of a file, in hexadecimal digits. */
function hashOf(path: string): string {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}

/** Lines in the format of `sha256sum --check`, by name. */
export function checksums(paths: readonly (readonly [name: string, path: string])[]): string {
  return paths.map(([name, path]) => `${hashOf(path)}  ${name}\n`).join("");
}

interface Component {
  type: string;
  name: string;
  version?: string;
  hashes?: { alg: string; content: string }[];
  [key: string]: unknown;
}

/**
 * The inputs of the release, in CycloneDX: the pinned tools, as npm lists them, none of which the
 * package depends on, and the libraries. Deterministic for a commit.
 */
export function sbomOf(npm: string, libraries: Libraries, version: string, time: Date): string {
  const bom = JSON.parse(npm) as {
    serialNumber: string;
    metadata: { timestamp: string; component: Component };
    components: Component[];
  };
  const files = Object.entries(libraries).flatMap(([target, list]) =>
    list.map(({ name, sha256 }): Component => ({
      "bom-ref": `${target}/${name}`,
      type: "file",
      name: `${target}/${name}`,
      version,
      hashes: [{ alg: "SHA-256", content: sha256 }],
    }))
  );
  bom.metadata.timestamp = time.toISOString();
  bom.metadata.component.name = "@rowmajor/tensor";
  bom.components = [...files, ...bom.components];
  const hash = createHash("sha256").update(JSON.stringify(bom.components)).digest("hex");
  bom.serialNumber = "urn:uuid:" + [
    hash.slice(0, 8),
    hash.slice(8, 12),
    `8${hash.slice(13, 16)}`,
    `8${hash.slice(17, 20)}`,
    hash.slice(20, 32),
  ].join("-");
  return JSON.stringify(bom, null, 2) + "\n";
}

/** The output of a program. Throws an Error if it fails. */
export function outputOf(program: string, args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    cwd: root,
    encoding: "utf8",
    shell: process.platform === "win32",
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw new Error(`${program} ${args[0]} failed: ${error?.message ?? stderr}`);
  return stdout;
}

/** npm's list of the packages in package-lock.json. */
export function npmSbom(): string {
  return outputOf("npm", ["sbom", "--sbom-format=cyclonedx", "--package-lock-only"]);
}

// ---- steps -------------------------------------------------------------------------------------

async function run(tool: "deno" | "zig", args: string[], cwd: string = root): Promise<void> {
  const code = await start(findTool(tool), args, { cwd });
  if (code !== 0) throw new Error(`${tool} ${args[0]} exited with ${code}`);
}

/** Builds all libraries here, and in a new clone. Throws an Error if they differ. */
async function buildTwice(): Promise<void> {
  await run("zig", ["build", "all"]);
  const clone = mkdtempSync(join(tmpdir(), "rowmajor-release-"));
  try {
    outputOf("git", ["clone", "--quiet", "--depth=1", pathToFileURL(root).href, clone]);
    await run(
      "zig",
      ["build", ...Object.keys(TARGETS), "--global-cache-dir", ".zig-global"],
      clone,
    );
    for (const [target, [library]] of Object.entries(builtLibraries())) {
      const { name, sha256 } = library!;
      if (hashOf(join(clone, "zig-out", "lib", target, name)) !== sha256) {
        throw new Error(`Two builds of ${target}/${name} differ`);
      }
      console.log(`${sha256}  ${target}/${name}, twice`);
    }
  } finally {
    rmSync(clone, { recursive: true, force: true });
  }
}

async function stage(version: string): Promise<void> {
  const libraries = builtLibraries();
  const out = join(root, "zig-out", "package");
  const jsr = join(out, "jsr");
  await stageJsr(jsr, libraries);
  await run("deno", ["publish", "--dry-run", "--allow-dirty"], jsr);
  const tarball = await stageNpm(join(out, "npm"), libraries);
  const time = new Date(outputOf("git", ["log", "-1", "--format=%cI"]).trim());
  const sbom = join(out, `rowmajor-tensor-${version}.cdx.json`);
  writeFileSync(sbom, sbomOf(npmSbom(), libraries, version, time));
  const list: [string, string][] = [tarball, sbom].map((path) => [basename(path), path]);
  for (const [target, files] of Object.entries(libraries)) {
    for (const { name, path } of files) list.push([`${target}/${name}`, path]);
  }
  writeFileSync(join(out, "SHA256SUMS"), checksums(list));
  console.log(`Staged ${version} in ${out}`);
}

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    args: process.argv.slice(2),
    allowPositionals: true,
    options: {
      check: { type: "boolean" },
      tag: { type: "string" },
      "no-checks": { type: "boolean" },
    },
  });
  const [wanted] = positionals;
  if ((wanted === undefined) !== (values.check ?? false) || positionals.length > 1) {
    throw new Error("usage: release.ts VERSION | --check [--tag=vVERSION] [--no-checks]");
  }
  await ensureInstalled();
  if (wanted !== undefined) {
    if (outputOf("git", ["status", "--porcelain"]) !== "") {
      throw new Error("Cannot release: there are changes that are not committed");
    }
    raiseVersion(root, wanted, new Date().toISOString().slice(0, 10));
  }
  const version = versionOf(root);
  if (values.tag !== undefined && values.tag !== `v${version}`) {
    throw new Error(`The tag is ${values.tag}, but the version is ${version}`);
  }
  if (!readFileSync(join(root, "CHANGELOG.md"), "utf8").includes(`\n## ${version} (`)) {
    throw new Error(`CHANGELOG.md has no section for ${version}`);
  }
  await buildTwice();
  if (!values["no-checks"]) await run("deno", ["run", "-A", "scripts/ok.ts"]);
  await stage(version);
  if (wanted !== undefined) {
    console.log(
      `Now: git commit -am "Release ${version}" && git tag v${version} && git push --tags`,
    );
  }
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error((error as Error).message);
    process.exitCode = 1;
  }
}
