/**
 * transformers.js, unmodified, gives the results of onnxruntime-node: models of many families in several
 * dtypes, in a program that has one import more.
 *
 * models/transformers has the models of scripts/golden/onnx_transformers.py, and node_modules with
 * transformers.js 4.3.2:
 *
 *     python scripts/golden/onnx_transformers.py models/transformers
 *     cd models/transformers && npm install --ignore-scripts @huggingface/transformers@4.3.2
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { root } from "../../scripts/tools.ts";

const models = join(root, "models", "transformers");
const list = join(models, "families.json");
const packages = join(models, "node_modules");

/** Why nothing runs here; undefined if it does. */
function missing(): string | undefined {
  if (!existsSync(list)) return "models/transformers is not there";
  if (!existsSync(join(packages, "onnxruntime-node", "bin"))) {
    return "models/transformers/node_modules has no onnxruntime-node";
  }
  return spawnSync("node", ["--version"]).status === 0 ? undefined : "Node is not installed";
}

const why = missing();
const skip = why !== undefined;
const note = skip ? ` (skipped: ${why}, see this file)` : "";

/** The largest error of results, as a part of the largest element, by the dtype. */
const TOLERANCE: Readonly<Record<string, number>> = {
  fp32: 1e-4,
  q4: 1e-4,
  // One step of rounding to 8 bits in a layer changes the layers after it.
  q8: 5e-2,
  fp16: 2e-2,
  q4f16: 2e-2,
};
/** Dtypes whose tokens are the same; of others rounding may choose another one of two that are near. */
const EXACT = new Set(["fp32", "q4"]);

type Results = Readonly<Record<string, unknown>>;

let folder: string | undefined;

/** The results of the program in a runtime. */
async function run(command: string, args: readonly string[], before = ""): Promise<Results> {
  folder ??= mkdtempSync(join(tmpdir(), "rowmajor-transformers-"));
  if (!existsSync(join(folder, "node_modules"))) {
    symlinkSync(packages, join(folder, "node_modules"));
    writeFileSync(join(folder, "package.json"), `{"type":"module"}`);
  }
  const program = readFileSync(join(root, "tests", "onnx", "transformers_program.mjs"), "utf8");
  const [main, results] = [`main${args.length}.mjs`, join(folder, `${args.length}.json`)];
  writeFileSync(join(folder, main), before + program);
  const child = spawn(command, [...args, main, models, results], {
    cwd: folder,
    stdio: ["ignore", "ignore", "ignore"],
  });
  const code = await new Promise((resolve) => child.on("close", resolve));
  assertEquals(code, 0, `${command} failed`);
  return JSON.parse(readFileSync(results, "utf8"));
}

/** The results of onnxruntime-node in Node, and of this library in this runtime. */
let both: Promise<readonly [Results, Results]> | undefined;

async function runBoth(): Promise<readonly [Results, Results]> {
  const register = pathToFileURL(join(root, "src", "onnx", "register.ts")).href;
  const isDeno = "Deno" in globalThis;
  const args = isDeno ? ["run", "-A", "--no-check", "--node-modules-dir=manual"] : ["run"];
  const wanted = await run("node", []);
  return [wanted, await run(process.execPath, args, `import "${register}";\n`)];
}

after(() => {
  if (folder !== undefined) rmSync(folder, { recursive: true });
});

/** Checks results. `name` is that of the property. */
function check(found: unknown, wanted: unknown, dtype: string, name: string): void {
  const tolerance = TOLERANCE[dtype]!;
  if (name === "numbers" || name === "pixels" || name === "scores") {
    const [x, y] = [found as number[], wanted as number[]];
    assertEquals(x.length, y.length, name);
    const largest = y.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
    assert(Number.isFinite(largest), name);
    const error = y.reduce((most, one, i) => Math.max(most, Math.abs(one - x[i]!)), 0);
    // A picture has whole numbers.
    const allowed = name === "pixels" ? 1 : tolerance * largest;
    assert(error <= allowed, `${name} differ by ${error}, the largest is ${largest}`);
  } else if (name === "score") {
    assert(Math.abs(Number(found) - Number(wanted)) <= tolerance, `scores ${found} and ${wanted}`);
  } else if (typeof wanted === "object" && wanted !== null) {
    assertEquals(Object.keys(found as object), Object.keys(wanted), name);
    for (const [key, value] of Object.entries(wanted)) {
      const isTokens = key === "ids" || key === "generated_text";
      if (isTokens && !EXACT.has(dtype)) continue;
      const own = (found as Record<string, unknown>)[key];
      check(own, value, dtype, Array.isArray(wanted) ? name : key);
    }
  } else assertEquals(found, wanted, name);
}

type Families = Record<string, { readonly dtypes: readonly string[] }>;
const families: Families = skip ? {} : JSON.parse(readFileSync(list, "utf8"));

test(`at least 20 families are tried${note}`, { skip }, () => {
  assert(Object.keys(families).length >= 20);
});

for (const [family, { dtypes }] of Object.entries(families)) {
  for (const dtype of dtypes) {
    test(`${family} ${dtype} gives the results of onnxruntime-node`, async () => {
      const [wanted, found] = await (both ??= runBoth());
      const name = `${family} ${dtype}`;
      assert(name in wanted && !JSON.stringify(wanted[name]).startsWith(`{"error"`), name);
      check(found[name], wanted[name], dtype, name);
    });
  }
}
