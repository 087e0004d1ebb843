/**
 * The effect of a release on files: versions, the changelog, checksums, the SBOM.
 *
 * Other tests cover building, checking and staging. Runs in Deno, like the script.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { packed } from "../../scripts/release/package.ts";
import {
  checksums,
  closeSection,
  isLater,
  npmSbom,
  raiseVersion,
  sbomOf,
  versionOf,
} from "../../scripts/release/release.ts";
import { root } from "../../scripts/tools.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-release-"));
after(() => rmSync(folder, { recursive: true }));

const FILES = [
  "deno.json",
  "package.json",
  "package-lock.json",
  "src/base/version.ts",
  "CHANGELOG.md",
  "examples/deploy/package.json",
];

function copyFiles(): void {
  for (const name of FILES) cpSync(join(root, name), join(folder, name));
}

const read = (name: string): string => readFileSync(join(folder, name), "utf8");

test("every file has the same version", () => {
  const version = versionOf(root);
  assertEquals(JSON.parse(readFileSync(join(root, "deno.json"), "utf8")).version, version);
  copyFiles();
  writeFileSync(join(folder, "src/base/version.ts"), `export const VERSION = "9.9.9";\n`);
  assertThrows(
    () => versionOf(folder),
    Error,
    "src/base/version.ts has version 9.9.9, deno.json has",
  );
});

test("no other page says which version it is", () => {
  for (const name of ["README.md", "CONTRIBUTING.md", "docs/install.md"]) {
    const text = readFileSync(join(root, name), "utf8");
    assertEquals(text.match(/rowmajor-tensor-\d.*|\bversion \d.*/gi), null, name);
  }
});

test("a release raises it everywhere, and closes the changelog's section", () => {
  copyFiles();
  const before = FILES.map(read);
  const next = `${Number(versionOf(folder).split(".")[0]) + 1}.0.0`;
  raiseVersion(folder, next, "2026-01-02");
  assertEquals(versionOf(folder), next);
  const lock = JSON.parse(read("package-lock.json"));
  assertEquals([lock.version, lock.packages[""].version], [next, next]);
  // Nothing else has changed.
  for (const [i, name] of FILES.slice(0, 4).entries()) {
    const [old, now] = [before[i]!, read(name)].map((text) => text.split("\n"));
    assertEquals(old!.length, now!.length);
    const changed = now!.filter((line, j) => line !== old![j]);
    assertEquals(changed.length, name === "package-lock.json" ? 2 : 1);
    for (const line of changed) assert(line.includes(next), line);
  }
  assert(read("CHANGELOG.md").includes(`## Unreleased\n\n## ${next} (2026-01-02)\n\n### `));
});

test("what is no later version is refused, and nothing changes", () => {
  copyFiles();
  // Once, the version that the files have is the one to release.
  const version = versionOf(folder);
  if (!read("CHANGELOG.md").includes(`\n## ${version} (`)) {
    raiseVersion(folder, version, "2026-01-02");
    assert(read("CHANGELOG.md").includes(`\n## ${version} (2026-01-02)\n`));
    assertEquals(versionOf(folder), version);
  }
  const before = FILES.map(read);
  for (const wrong of ["0.0.1", version, "1.2", "1.2.3-rc.1", "v9.0.0", "01.2.3", ""]) {
    assertThrows(() => raiseVersion(folder, wrong, "2026-01-02"), Error, "Cannot release");
  }
  writeFileSync(
    join(folder, "CHANGELOG.md"),
    "# Changelog\n\n## Unreleased\n\n## 0.1.0 (x)\n\n- a\n",
  );
  assertThrows(() => raiseVersion(folder, "99.0.0", "2026-01-02"), Error, "of nothing");
  writeFileSync(join(folder, "CHANGELOG.md"), before[4]!);
  assertEquals(FILES.map(read), before);
  assert(isLater("0.10.0", "0.9.9") && isLater("1.0.0", "0.9.9") && isLater("0.1.1", "0.1.0"));
  assert(!isLater("0.1.0", "0.1.0") && !isLater("0.9.9", "0.10.0") && !isLater("1.0.9", "1.1.0"));
  assertEquals(
    closeSection("a\n## Unreleased\n\n- b\n\n## 0.1.0 (x)\n", "0.2.0", "y"),
    "a\n## Unreleased\n\n## 0.2.0 (y)\n\n- b\n\n## 0.1.0 (x)\n",
  );
});

test("checksums are those that sha256sum checks", () => {
  copyFiles();
  const text = checksums([["deno.json", join(folder, "deno.json")]]);
  assert(/^[0-9a-f]{64} {2}deno\.json\n$/.test(text), text);
  writeFileSync(join(folder, "SHA256SUMS"), text);
  const { status, error } = spawnSync("sha256sum", ["--check", "SHA256SUMS"], { cwd: folder });
  // Systems without that program have the first half.
  assert(status === 0 || error !== undefined, String(status));
});

// A shell starts with or without npm.
const npm = spawnSync("npm", ["--version"], { shell: process.platform === "win32" });
const missing = npm.status === 0 ? false : "needs npm";

test("the SBOM names every pinned package and every library", { skip: missing }, () => {
  copyFiles();
  const file = packed(join(folder, "deno.json"), "librowmajor.so");
  const time = new Date(Date.UTC(2026, 0, 2));
  const make = (): string => sbomOf(npmSbom(), { "linux-x64": [file] }, "1.2.3", time);
  const text = make();
  assertEquals(text, make(), "the same each time");
  const { bomFormat, serialNumber, metadata, components } = JSON.parse(text);
  assertEquals([bomFormat, metadata.component.name], ["CycloneDX", "@rowmajor/tensor"]);
  assert(
    /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/.test(serialNumber),
  );
  const [library] = components;
  assertEquals([library.name, library.hashes[0].content], [
    "linux-x64/librowmajor.so",
    file.sha256,
  ]);
  const names = new Set(components.map(({ name }: { name: string }) => name));
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const name of Object.keys(devDependencies)) assert(names.has(name), name);
});
