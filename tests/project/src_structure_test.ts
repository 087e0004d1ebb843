/**
 * The limits of the TypeScript in src/, and of all folders: lengths of files and functions, files
 * per folder. tests/project/layers_test.ts finds import cycles, and shim_structure_test.ts checks
 * the limits of shim/.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import ts from "typescript";
import { readText, root } from "../../scripts/tools.ts";

const MAX_FILE_LINES = 600;
const MAX_FUNCTION_LINES = 120;
const MAX_FILES_IN_FOLDER = 20;

/** The class Tensor, all of whose methods are in one place. */
const LONG_FILES = ["src/tensor/tensor.ts"];

/** Golden data has a file for each case. */
const DATA = /^tests\/golden\//;

/** The functions of a file that are too long. */
function findLongFunctions(path: string, text: string): string[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.ESNext, true);
  const lineAt = (place: number): number => source.getLineAndCharacterOfPosition(place).line + 1;
  const faults: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionLike(node) && "body" in node && node.body !== undefined) {
      const [first, last] = [lineAt(node.getStart()), lineAt(node.getEnd())];
      const lines = last - first + 1;
      if (lines > MAX_FUNCTION_LINES) {
        const name = node.name?.getText() ?? "a function without a name";
        faults.push(`${path}:${first}: ${name} has ${lines} lines`);
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return faults;
}

/** All faults of a set of files of src, given as path → text. */
function findFaults(files: ReadonlyMap<string, string>): string[] {
  return [...files].flatMap(([path, text]) => {
    const lines = text.split("\n").length - 1;
    const long = lines > MAX_FILE_LINES && !LONG_FILES.includes(path);
    return [
      ...(long ? [`${path} has ${lines} lines`] : []),
      ...findLongFunctions(path, text),
    ];
  });
}

/** The folders with too many files directly in them. */
function findFullFolders(paths: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const path of paths) {
    const folder = path.slice(0, path.lastIndexOf("/"));
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts].filter(([folder, count]) =>
    count > MAX_FILES_IN_FOLDER && !DATA.test(`${folder}/`)
  ).map(([folder, count]) => `${folder} has ${count} files`);
}

function filesOf(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length).replaceAll("\\", "/"))
    .sort();
}

test("files and functions of src/ keep their limits", () => {
  const files = new Map(filesOf("src").map((path) => [path, readText(path)]));
  assert(files.has("src/core/dispatch.ts"), "src/ is not found");
  assertEquals(findFaults(files), []);
});

test("no folder of src/, shim/, tests/ and scripts/ has many files directly in it", () => {
  assertEquals(findFullFolders(["src", "shim", "tests", "scripts"].flatMap(filesOf)), []);
});

test("what is too long, and a folder of too many files, are found", () => {
  const body = (lines: number): string => "  x++;\n".repeat(lines - 2);
  const faultsOf = (text: string): string[] => findFaults(new Map([["src/a.ts", text]]));
  assertEquals(faultsOf("\n".repeat(600)), []);
  assertEquals(faultsOf("\n".repeat(601)), ["src/a.ts has 601 lines"]);
  assertEquals(findFaults(new Map([[LONG_FILES[0]!, "\n".repeat(2000)]])), []);
  assertEquals(faultsOf(`let x = 0;\nfunction f() {\n${body(120)}}\n`), []);
  assertEquals(faultsOf(`let x = 0;\nfunction f() {\n${body(121)}}\n`), [
    "src/a.ts:2: f has 121 lines",
  ]);
  assertEquals(faultsOf(`let x = 0;\nclass A {\nm() {\n${body(121)}}\n}\n`), [
    "src/a.ts:3: m has 121 lines",
  ]);
  assertEquals(faultsOf(`let x = 0;\nconst g = () => {\n${body(121)}};\n`), [
    "src/a.ts:2: a function without a name has 121 lines",
  ]);
  const paths = (n: number, folder: string): string[] =>
    Array.from({ length: n }, (_, i) => `${folder}/${i}`);
  assertEquals(findFullFolders([...paths(20, "a/b"), ...paths(3, "a")]), []);
  assertEquals(findFullFolders(paths(21, "a/b")), ["a/b has 21 files"]);
  assertEquals(findFullFolders(paths(21, "tests/golden/io")), []);
});
