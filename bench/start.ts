/**
 * Times the start of a program: the import of rowmajor, and then the first matrix product, which
 * opens the native library; in Deno and Bun, from a checkout and from packages whose library is in
 * the cache already.
 *
 *     deno task bench:start [--rounds=20]
 *
 * Each start is a process of its own, and takes turns with the others.
 *
 * @module
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { builtLibraries, HOST, stageJsr, stageNpm } from "../scripts/release/package.ts";
import { ensureInstalled, findTool, root, type Tool } from "../scripts/tools.ts";
import { median } from "./report.ts";

/** The program of a start: prints the two times in milliseconds. */
const program = (specifier: string) =>
  `const begin = performance.now();
const { ones } = await import(${JSON.stringify(specifier)});
const imported = performance.now();
const x = ones([64, 64]);
x.matmul(x).get(0, 0);
console.log(imported - begin, performance.now() - imported);
`;

interface Start {
  readonly name: string;
  readonly tool: Tool;
  readonly specifier: string;
}

const { values } = parseArgs({ options: { rounds: { type: "string", default: "20" } } });
const rounds = Number(values.rounds);
await ensureInstalled();
const folder = mkdtempSync(join(tmpdir(), "rowmajor-start-"));
try {
  // Deno resolves the "imports" of a package only if it is in the node_modules of a project.
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  const [jsr, npm] = [join(folder, "jsr"), join(folder, "node_modules", "@rowmajor", "tensor")];
  await stageJsr(jsr, builtLibraries(HOST));
  await stageNpm(npm, builtLibraries(HOST));
  const [checkout, jsrModule] = [join(root, "mod.ts"), join(jsr, "mod.js")]
    .map((path) => pathToFileURL(path).href) as [string, string];
  const starts: Start[] = [
    { name: "Deno, checkout", tool: "deno", specifier: checkout },
    { name: "Deno, JSR package", tool: "deno", specifier: jsrModule },
    { name: "Deno, npm package", tool: "deno", specifier: "@rowmajor/tensor" },
    { name: "Bun, checkout", tool: "bun", specifier: checkout },
    { name: "Bun, JSR package", tool: "bun", specifier: jsrModule },
    { name: "Bun, npm package", tool: "bun", specifier: "@rowmajor/tensor" },
  ];
  const env = { ...process.env, ROWMAJOR_CACHE: join(folder, "cache") };
  const times = starts.map(() => [[], []] as [number[], number[]]);
  for (let round = -1; round < rounds; round++) {
    for (const [i, { tool, specifier }] of starts.entries()) {
      const path = join(folder, `start${i}.ts`);
      writeFileSync(path, program(specifier));
      const args = tool === "deno" ? ["run", "-A", "--no-check", path] : [path];
      const { stdout, stderr, status } = spawnSync(findTool(tool), args, { env, encoding: "utf8" });
      if (status !== 0) throw new Error(stderr);
      // The first round fills caches.
      if (round < 0) continue;
      stdout.split(" ").forEach((time, k) => times[i]![k]!.push(Number(time)));
    }
  }
  console.log(`${rounds} starts, milliseconds: minimum, median`);
  console.log(`${"".padEnd(24)}${"import".padStart(14)}${"first product".padStart(18)}`);
  for (const [i, { name }] of starts.entries()) {
    const cells = times[i]!.map((all) =>
      `${Math.min(...all).toFixed(1)}, ${median(all).toFixed(1)}`
    );
    console.log(`${name.padEnd(24)}${cells[0]!.padStart(14)}${cells[1]!.padStart(18)}`);
  }
} finally {
  rmSync(folder, { recursive: true });
}
