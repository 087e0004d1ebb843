/**
 * The start of a program: the import of rowmajor, and then the first matrix product, which opens the
 * native library; from a checkout and from packages whose library is in the cache already. Each start
 * is a process of its own.
 *
 * @module
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { builtLibraries, HOST, stageJsr, stageNpm } from "../../scripts/release/package.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { environment } from "../harness/line_process.ts";
import { WholeSide } from "../harness/served.ts";
import type { RunOptions, Side, Suite } from "../harness/suite.ts";

/** The program of a start, with nothing but what a program has. */
const program = (specifier: string, version: string) =>
  `import process from "node:process";
const cpu = () => { const { user, system } = process.cpuUsage(); return (user + system) * 1e3; };
const begin = performance.now(), before = cpu();
const { ones } = await import(${JSON.stringify(specifier)});
const imported = performance.now(), middle = cpu();
const x = ones([64, 64]);
x.matmul(x).get(0, 0);
const end = performance.now(), after = cpu();
console.log(JSON.stringify({ version: ${JSON.stringify(version)} + process.versions[${
    JSON.stringify(version.trim().toLowerCase())
  }], figures: {
  "import": { wall: (imported - begin) * 1e6, cpu: middle - before },
  "first product": { wall: (end - imported) * 1e6, cpu: after - middle },
} }));
`;

const groups = { checkout: "checkout", jsr: "JSR package", npm: "npm package" } as const;

async function sides({ runtimes, threads, level }: RunOptions): Promise<Side[]> {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-start-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  // Deno resolves the "imports" of a package only if it is in the node_modules of a project.
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const [jsr, npm] = [join(folder, "jsr"), join(folder, "node_modules", "@rowmajor", "tensor")];
  await stageJsr(jsr, builtLibraries(HOST));
  await stageNpm(npm, builtLibraries(HOST));
  const specifiers: Readonly<Record<string, string>> = {
    checkout: pathToFileURL(join(root, "mod.ts")).href,
    jsr: pathToFileURL(join(jsr, "mod.js")).href,
    npm: "@rowmajor/tensor",
  };
  const env = { ...environment(threads, level), ROWMAJOR_CACHE: join(folder, "cache") };
  return runtimes.map((runtime) => {
    const tool = runtime === "Deno" ? "deno" : "bun";
    for (const [group, specifier] of Object.entries(specifiers)) {
      writeFileSync(join(folder, `${tool}_${group}.ts`), program(specifier, `${runtime} `));
    }
    const flags = runtime === "Deno" ? ["run", "-A", "--no-check"] : [];
    return new WholeSide({ name: runtime, peer: false, runtime, warms: true }, (group) => ({
      command: [findTool(tool), ...flags, join(folder, `${tool}_${group}.ts`)],
      ...{ cwd: folder, env },
    }));
  });
}

/** The suite. */
export const suite: Suite = {
  title: "Starts",
  groups,
  rows: Object.keys(groups).flatMap((group) =>
    ["import", "first product"].map((name) => ({ group, name }))
  ),
  whole: true,
  ...{ rounds: 20, ms: 0, threads: [1] },
  beside: "fastest",
  lines: "row",
  sides,
};
