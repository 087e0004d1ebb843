/**
 * Imports in src go down only: scripts/layers.ts is the order, and every file has a place in it.
 *
 * It reads the sources as text, so that it runs the same in both runtimes.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { LAYERS } from "../scripts/layers.ts";

/** What may come from outside src, and which files may ask for it. */
const OUTSIDE: [folder: string, specifier: RegExp][] = [
  ["io/", /^node:/],
  ["backends/shim/", /^(node:|bun:ffi$)/],
];

interface Import {
  specifier: string;
  typeOnly: boolean;
}

const STATIC = /^[ \t]*(?:import|export)\s+(?:(type\s)?([^;"'`]*?)\sfrom\s+)?["']([^"'\n]+)["']/gm;
const DYNAMIC = /\bimport\(\s*["'`]([^"'`]+)["'`]/g;

function readImports(source: string): Import[] {
  const code = source.replace(/\/\*[\s\S]*?\*\//g, "");
  const imports: Import[] = [];
  for (const [, type, names = "", specifier] of code.matchAll(STATIC)) {
    const inner = /^\{([\s\S]*)\}$/.exec(names.trim())?.[1];
    const bindings = inner?.split(",").map((name) => name.trim()).filter((name) => name !== "");
    const typeOnly = type !== undefined ||
      (bindings !== undefined && bindings.length > 0 &&
        bindings.every((name) => name.startsWith("type ")));
    imports.push({ specifier, typeOnly });
  }
  for (const [, specifier] of code.matchAll(DYNAMIC)) {
    imports.push({ specifier, typeOnly: false });
  }
  return imports;
}

/** The layer of a file of src; -1 for one that the table does not name. */
function layerOf(path: string): number {
  const named = LAYERS.findIndex((names) => names.includes(path));
  if (named >= 0) return named;
  return LAYERS.findIndex((names) =>
    names.some((name) => name.endsWith("/") && path.startsWith(name))
  );
}

/** The folder below backends/ that a path lies in: backends know nothing of each other. */
function backendOf(path: string): string | undefined {
  return /^backends\/([^/]+)\//.exec(path)?.[1];
}

/** Everything that is wrong with a set of files of src, given as path → source text. */
function findFaults(files: Map<string, string>): string[] {
  const faults: string[] = [];
  const runtimeImports = new Map<string, string[]>();
  for (const [path, source] of files) {
    const layer = layerOf(path);
    if (layer < 0) {
      faults.push(`src/${path} has no layer: add it to scripts/layers.ts`);
      continue;
    }
    const targets: string[] = [];
    for (const { specifier, typeOnly } of readImports(source)) {
      if (!specifier.startsWith(".")) {
        const allowed = OUTSIDE.some(([folder, of]) =>
          path.startsWith(folder) && of.test(specifier)
        );
        if (!allowed) faults.push(`src/${path} imports ${specifier} from outside src`);
        continue;
      }
      const url = new URL(specifier, `file:///src/${path}`).pathname;
      const target = url.slice("/src/".length);
      if (!url.startsWith("/src/") || !files.has(target)) {
        faults.push(`src/${path} imports ${specifier}, which is no file of src`);
        continue;
      }
      if (layerOf(target) > layer) faults.push(`src/${path} imports src/${target}, a layer above`);
      const other = backendOf(target);
      if (other !== undefined && other !== "shim" && other !== (backendOf(path) ?? other)) {
        faults.push(`src/${path} imports src/${target}, another backend`);
      }
      if (!typeOnly) targets.push(target);
    }
    runtimeImports.set(path, targets);
  }
  return [...faults, ...findCycles(runtimeImports)];
}

function findCycles(graph: Map<string, string[]>): string[] {
  const faults: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: string[]): void => {
    const at = trail.indexOf(path);
    if (at >= 0) faults.push(`cycle: ${[...trail.slice(at), path].join(" → ")}`);
    if (at >= 0 || done.has(path)) return;
    for (const target of graph.get(path) ?? []) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
  return faults;
}

const root = new URL("../", import.meta.url);

function readSources(): Map<string, string> {
  const src = new URL("src/", root);
  const paths = readdirSync(src, { recursive: true, encoding: "utf8" })
    .map((path) => path.replaceAll("\\", "/"))
    .filter((path) => path.endsWith(".ts"))
    .sort();
  return new Map(paths.map((path) => [path, readFileSync(new URL(path, src), "utf8")]));
}

test("imports in src go down only", () => {
  assertEquals(findFaults(readSources()), []);
});

test("mod.ts exports from src, nothing else", () => {
  const source = readFileSync(new URL("mod.ts", root), "utf8");
  const code = source.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "").trim();
  const statements = code.split(";").map((text) => text.trim()).filter((text) => text !== "");
  const others = statements.filter((text) =>
    !/^(export|import)\s[^=(]*from\s+"\.\/src\//.test(text)
  );
  assertEquals(others, []);
});

/** Faults of one file with the given text beside empty ones that it may import. */
function faultsOf(path: string, source: string): string[] {
  const others = ["errors.ts", "shape.ts", "tensor.ts", "backends/js/a.ts", "backends/native/a.ts"];
  const files = new Map(others.map((name) => [name, ""]));
  return findFaults(files.set(path, source));
}

test("an import of a lower layer is no fault", () => {
  assertEquals(faultsOf("plan.ts", 'import { ShapeError } from "./errors.ts";'), []);
  assertEquals(faultsOf("plan.ts", '/** import "./tensor.ts" */\n// import "./tensor.ts"'), []);
});

test("an import of a layer above is found in every form", () => {
  const fault = ["src/plan.ts imports src/tensor.ts, a layer above"];
  assertEquals(faultsOf("plan.ts", 'import { Tensor } from "./tensor.ts";'), fault);
  assertEquals(faultsOf("plan.ts", 'import type { Tensor } from "./tensor.ts";'), fault);
  assertEquals(faultsOf("plan.ts", 'import {\n  type A,\n  B,\n} from "./tensor.ts";'), fault);
  assertEquals(faultsOf("plan.ts", 'export * from "./tensor.ts";'), fault);
  assertEquals(faultsOf("plan.ts", 'import "./tensor.ts";'), fault);
  assertEquals(faultsOf("plan.ts", 'const x = await import("./tensor.ts");'), fault);
});

test("files without a layer and imports from outside are found", () => {
  assertEquals(faultsOf("new.ts", ""), [
    "src/new.ts has no layer: add it to scripts/layers.ts",
  ]);
  assertEquals(faultsOf("plan.ts", 'import fs from "node:fs";'), [
    "src/plan.ts imports node:fs from outside src",
  ]);
  assertEquals(faultsOf("plan.ts", 'import "../tests/std_assert.ts";'), [
    "src/plan.ts imports ../tests/std_assert.ts, which is no file of src",
  ]);
  assertEquals(faultsOf("backends/js/b.ts", 'import "../native/a.ts";'), [
    "src/backends/js/b.ts imports src/backends/native/a.ts, another backend",
  ]);
});

test("a cycle at run time is found, one of types is not", () => {
  const cycle = (kind: string) =>
    findFaults(
      new Map([
        ["slice.ts", 'import { a } from "./storage.ts";'],
        ["storage.ts", `import ${kind}{ b } from "./slice.ts";`],
      ]),
    );
  assertEquals(cycle(""), ["cycle: slice.ts → storage.ts → slice.ts"]);
  assertEquals(cycle("type "), []);
});
