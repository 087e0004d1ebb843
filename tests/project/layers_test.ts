/**
 * Imports in src go down only: scripts/generate/layer_order.ts defines the order, every folder has
 * a place in it, and there are no import cycles, types included.
 *
 * It reads the sources as text, so that it runs the same in both runtimes.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { LAYERS, ONLY_FROM } from "../../scripts/generate/layer_order.ts";
import { inDeno, runApart } from "../native/support.ts";
import { globalsRead } from "../package/support.ts";

/** Allowed imports from outside src, and the folders that may use them. */
const OUTSIDE: [folder: string, specifier: RegExp][] = [
  ["io/", /^node:/],
  ["command/", /^(node:|prom-client$)/],
  ["constraints/", /^@mlc-ai\/web-xgrammar$/],
  ["hub/", /^(node:|@huggingface\/hub$)/],
  ["images/", /^(fast-png|jpeg-js)$/],
  ["models/", /^node:/],
  ["serve/", /^node:/],
  ["onnx/", /^(node:|@bufbuild\/protobuf\/wire$)/],
  ["tokenizers/", /^(node:|@huggingface\/(jinja|tokenizers)$)/],
  ["backend/ffi/", /^(node:|bun:ffi$)/],
];

const STATIC = /^[ \t]*(?:import|export)\s+(?:[^;"'`]*?\sfrom\s+)?["']([^"'\n]+)["']/gm;
const DYNAMIC = /\bimport\(\s*["'`]([^"'`]+)["'`]/g;

/** Imports of files that are no modules. */
const TEXTS = /^import \w+ from "\.\/[\w.]+" with \{ type: "text" \};$/gm;

/** The imports of a source, types included. */
function readImports(source: string): string[] {
  const code = source.replace(/\/\*[\s\S]*?\*\//g, "").replace(TEXTS, "");
  return [STATIC, DYNAMIC].flatMap((form) => [...code.matchAll(form)].map((match) => match[1]!));
}

function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

/** The layer of a folder of src; -1 if the table does not contain it. */
function layerOf(folder: string): number {
  return LAYERS.findIndex((folders) => folders.includes(folder));
}

/** All faults of a set of files of src, given as path → source text. */
function findFaults(files: Map<string, string>): string[] {
  const faults: string[] = [];
  const imports = new Map<string, string[]>();
  for (const [path, source] of files) {
    const folder = folderOf(path);
    const layer = layerOf(folder);
    if (layer < 0) {
      faults.push(`src/${folder} has no layer: add it to scripts/generate/layer_order.ts`);
      continue;
    }
    const targets: string[] = [];
    for (const specifier of readImports(source)) {
      if (!specifier.startsWith(".")) {
        const allowed = OUTSIDE.some(([where, of]) => path.startsWith(where) && of.test(specifier));
        if (!allowed) faults.push(`src/${path} imports ${specifier} from outside src`);
        continue;
      }
      const url = new URL(specifier, `file:///src/${path}`).pathname;
      const target = url.slice("/src/".length);
      if (!url.startsWith("/src/") || !files.has(target)) {
        faults.push(`src/${path} imports ${specifier}, which is no file of src`);
        continue;
      }
      const from = folderOf(target);
      if (from !== folder && layerOf(from) >= layer) {
        faults.push(`src/${path} imports src/${target}, which is not in a layer below`);
      }
      const only = ONLY_FROM[target];
      if (only !== undefined && path !== only) {
        faults.push(`src/${path} imports src/${target}, which only src/${only} may import`);
      }
      targets.push(target);
    }
    imports.set(path, targets);
  }
  return [...faults, ...findCycles(imports)];
}

function findCycles(graph: Map<string, string[]>): string[] {
  const faults: string[] = [];
  const done = new Set<string>();
  const visit = (path: string, trail: string[]): void => {
    const at = trail.indexOf(path);
    if (at >= 0) faults.push(`circle: ${[...trail.slice(at), path].join(" → ")}`);
    if (at >= 0 || done.has(path)) return;
    for (const target of graph.get(path) ?? []) visit(target, [...trail, path]);
    done.add(path);
  };
  for (const path of graph.keys()) visit(path, []);
  return faults;
}

const root = new URL("../../", import.meta.url);

function readSources(): Map<string, string> {
  const src = new URL("src/", root);
  const paths = readdirSync(src, { recursive: true, encoding: "utf8" })
    .map((path) => path.replaceAll("\\", "/"))
    .filter((path) => path.endsWith(".ts"))
    .sort();
  return new Map(paths.map((path) => [path, readFileSync(new URL(path, src), "utf8")]));
}

test("imports in src go down only, and never in a circle", () => {
  assertEquals(findFaults(readSources()), []);
});

/** Files of ops that run below dispatch, make tensors of no others, or write no result. */
const BELOW = [
  "ops/complex/run.ts",
  "ops/complex/wrapper.ts",
  "ops/matmul/complex.ts",
  "ops/create/from_data.ts",
  "ops/create/full.ts",
  "nn/decoder/kv_cache.ts",
  "llm/batch/pages.ts",
];

/** The imports of copies that no interpreter sees, in files that decompose ops. */
function hiddenCopies(files: Map<string, string>): string[] {
  return [...files].flatMap(([path, source]) => {
    if (!/^(ops|api|nn|llm)\//.test(path) || BELOW.includes(path)) return [];
    const imports = /import \{([^}]*)\} from "(?:\.\.\/)+core\/dispatch\.ts"/.exec(source)?.[1] ??
      "";
    return imports.split(",").map((name) => name.trim())
      .filter((name) => ["copyInto", "copyOf", "fillWith"].includes(name))
      .map((name) => `src/${path} copies by ${name}, which no interpreter sees; see core/copy.ts`);
  });
}

test("copies within decompositions are calls, which interpreters see", () => {
  assertEquals(hiddenCopies(readSources()), []);
  const source = 'import { copyOf, dispatch } from "../../core/dispatch.ts";';
  assertEquals(hiddenCopies(new Map([["ops/new/op.ts", source]])).length, 1);
  assertEquals(hiddenCopies(new Map([["compile/new.ts", source]])), []);
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

test("the import of mod.ts loads no module of another entry point", () => {
  const files = readSources();
  const seen = new Set<string>();
  const visit = (path: string, text: string): void => {
    // Imports of types are none at run time.
    for (const specifier of readImports(text.replace(/^(import|export) type\s[^;]*;/gm, ""))) {
      const target = new URL(specifier, `file:///src/${path}`).pathname.slice("/src/".length);
      if (!specifier.startsWith(".") || seen.has(target)) continue;
      seen.add(target);
      visit(target, files.get(target) ?? "");
    }
  };
  visit("mod.ts", readFileSync(new URL("mod.ts", root), "utf8").replaceAll("./src/", "./"));
  assert(seen.has("tensor/tensor.ts") && seen.has("backend/native/chain.ts"));
  const others = [...seen].filter((path) => /^(compile|nn|profile|lint|types)\//.test(path));
  assertEquals(others, []);
});

test("the import of mod.ts reads no global that Deno loads with modules of Node", () => {
  const [read, after] = JSON.parse(runApart(globalsRead(new URL("mod.ts", root).href)));
  // Bun itself reads some while it imports.
  if (inDeno) assertEquals(read, "");
  assert(after.endsWith("setImmediate"));
});

/** Faults of one file with the given text next to empty ones that it may import. */
function faultsOf(path: string, source: string): string[] {
  const others = ["base/errors.ts", "tensor/tensor.ts", "backend/js/a.ts", "backend/native/a.ts"];
  const files = new Map(others.map((name) => [name, ""]));
  return findFaults(files.set(path, source));
}

test("an import of a lower layer is no fault", () => {
  assertEquals(faultsOf("base/plan.ts", 'import { ShapeError } from "../base/errors.ts";'), []);
  assertEquals(
    faultsOf(
      "base/plan.ts",
      '/** import "../tensor/tensor.ts" */\n// import "../tensor/tensor.ts"',
    ),
    [],
  );
});

test("an import of a layer above is found in every form", () => {
  const fault = ["src/base/plan.ts imports src/tensor/tensor.ts, which is not in a layer below"];
  const from = '"../tensor/tensor.ts"';
  assertEquals(faultsOf("base/plan.ts", `import { Tensor } from ${from};`), fault);
  assertEquals(faultsOf("base/plan.ts", `import type { Tensor } from ${from};`), fault);
  assertEquals(faultsOf("base/plan.ts", `import {\n  type A,\n  B,\n} from ${from};`), fault);
  assertEquals(faultsOf("base/plan.ts", `export * from ${from};`), fault);
  assertEquals(faultsOf("base/plan.ts", `import ${from};`), fault);
  assertEquals(faultsOf("base/plan.ts", `const x = await import(${from});`), fault);
});

test("an import of the backends' registry is found, but that of dispatch", () => {
  const from = (path: string): string[] =>
    findFaults(
      new Map([[path, 'import { cpu } from "./registry.ts";'], ["core/registry.ts", ""]]),
    );
  assertEquals(from("core/dispatch.ts"), []);
  assertEquals(from("core/copy.ts"), [
    "src/core/copy.ts imports src/core/registry.ts, which only src/core/dispatch.ts may import",
  ]);
});

test("folders without a layer and imports from outside are found", () => {
  assertEquals(faultsOf("new/a.ts", ""), [
    "src/new has no layer: add it to scripts/generate/layer_order.ts",
  ]);
  assertEquals(faultsOf("base/plan.ts", 'import fs from "node:fs";'), [
    "src/base/plan.ts imports node:fs from outside src",
  ]);
  assertEquals(faultsOf("base/plan.ts", 'import "../../tests/a.ts";'), [
    "src/base/plan.ts imports ../../tests/a.ts, which is no file of src",
  ]);
  assertEquals(faultsOf("backend/js/b.ts", 'import "../native/a.ts";'), [
    "src/backend/js/b.ts imports src/backend/native/a.ts, which is not in a layer below",
  ]);
});

test("a circle is found, one of types too", () => {
  for (const kind of ["", "type "]) {
    const files = new Map([
      ["base/slice.ts", 'import { a } from "./layout.ts";'],
      ["base/layout.ts", `import ${kind}{ b } from "./slice.ts";`],
    ]);
    assertEquals(findFaults(files), ["circle: base/slice.ts → base/layout.ts → base/slice.ts"]);
  }
});
