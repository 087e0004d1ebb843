/**
 * Measures what each heuristic of the buffers that garbage collectors give back gains.
 *
 *     deno run -A bench/memory/ablate.ts [--rounds=N]
 *
 * Builds a copy of the library and of the source without one heuristic each, and runs the times of
 * dropped.ts on the copy in both runtimes, in turns with the whole. Prints medians of the rounds
 * relative to the whole: 1.10 means that the heuristic gains 10%.
 *
 * @module
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { ensureInstalled, findTool, root, start } from "../../scripts/tools.ts";
import { median } from "../harness/suite.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "3" } } });

const BUFFERS = "shim/core/buffers.c";

/** A heuristic, and the text of the source to replace so that it does nothing. */
interface Heuristic {
  readonly name: string;
  readonly file: string;
  readonly from: string;
  readonly to: string;
  /** The runtimes that it concerns. */
  readonly runtimes: readonly ("deno" | "bun")[];
}

const HEURISTICS: readonly Heuristic[] = [
  {
    name: "V8's check of young arrays",
    file: BUFFERS,
    from: "  if (data == NULL) data = allocate_collected(",
    to: "  if (false) data = allocate_collected(",
    runtimes: ["deno"],
  },
  {
    name: "the wait for V8's other thread",
    file: BUFFERS,
    from: "if (data != NULL || end - begin < COLLECTION_NS) return data;",
    to: "(void)begin; return data;",
    runtimes: ["deno"],
  },
  {
    name: "the help for V8's marking",
    file: BUFFERS,
    from: "    help_marking(env, owner, (size_t)bytes);",
    to: "    if (false) help_marking(env, owner, (size_t)bytes);",
    runtimes: ["deno"],
  },
  {
    name: "collections in Bun",
    file: "src/backend/ffi/bun.ts",
    from: "  const collections = collector &&",
    to: "  const collections = null && collector &&",
    runtimes: ["bun"],
  },
  {
    name: "huge pages",
    file: BUFFERS,
    from: "MADV_HUGEPAGE);",
    to: "MADV_NOHUGEPAGE);",
    runtimes: ["deno", "bun"],
  },
];

/** Median and mean times of a run, in the order that dropped.ts prints them. */
async function times(runtime: "deno" | "bun", copy: string): Promise<number[]> {
  const script = [
    join(root, "bench", "memory", "dropped.ts"),
    "--loop=times",
    `--mod=${join(copy, "mod.ts")}`,
  ];
  const lines: string[] = [];
  const args = runtime === "deno" ? ["run", "-A", "--no-check", ...script] : script;
  const code = await start(findTool(runtime), args, { onLine: (line) => lines.push(line) });
  if (code !== 0) throw new Error(lines.join("\n"));
  return [...lines.at(-1)!.matchAll(/: ([\d.]+) \(mean ([\d.]+)\)|resident (\d+)/g)]
    .flatMap(([, middle, mean, resident]) =>
      resident === undefined ? [Number(middle), Number(mean)] : [Number(resident)]
    );
}

/** Copies the tree into `folder`, which has a build of its own. */
function copyTree(folder: string): void {
  for (const name of ["src", "shim", "mod.ts", "build.zig", "deno.json", "package.json"]) {
    cpSync(join(root, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
}

async function build(folder: string): Promise<void> {
  const lines: string[] = [];
  const code = await start(findTool("zig"), ["build"], {
    cwd: folder,
    onLine: (l) => lines.push(l),
  });
  if (code !== 0) throw new Error(lines.join("\n"));
}

await ensureInstalled();
const [whole, part] = [1, 2].map(() => mkdtempSync(join(tmpdir(), "rowmajor-ablate-")));
process.on("exit", () => [whole!, part!].forEach((folder) => rmSync(folder, { recursive: true })));
copyTree(part!);
await build(part!);
cpSync(part!, whole!, { recursive: true });
const names = ["1e5", "1e6", "1e7"].flatMap((n) => [`${n} median`, `${n} mean`]);
console.log(`relative times without: ${[...names, "resident"].join(", ")}`);
for (const { name, file, from, to, runtimes } of HEURISTICS) {
  const path = join(part!, file);
  const text = readFileSync(path, "utf8");
  if (!text.includes(from)) throw new Error(`${file} has no ${from}`);
  writeFileSync(path, text.replace(from, () => to));
  await build(part!);
  for (const runtime of runtimes) {
    const ratios: number[][] = [];
    for (let round = 0; round < Number(values.rounds); round++) {
      const [all, without] = [await times(runtime, whole!), await times(runtime, part!)];
      ratios.push(without.map((time, i) => time / all[i]!));
    }
    const medians = ratios[0]!.map((_, i) => median(ratios.map((one) => one[i]!)).toFixed(2));
    console.log(`${runtime}, ${name}: ${medians.join("  ")}`);
  }
  writeFileSync(path, text);
}
