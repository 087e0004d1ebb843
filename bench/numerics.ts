/**
 * Times numerics on Deno and Bun beside NumPy and PyTorch, in turns: transforms, linear algebra,
 * sorts, sets, einsum and complex numbers.
 *
 *     deno task bench:numerics [--rows=TEXT,...] [--rounds=3] [--threads=1,2] [--ms=40]
 *                              [--runtime=deno,bun] [--all] [--save]
 *
 * `--rows` names groups or parts of names. Each number is the fastest of all rounds; a column of
 * the table is our time as a part of NumPy's, the geometric mean and the largest of a group. Below
 * it are the rows that miss their group's goal, or with `--all` all rows. `ROWMAJOR_LEVEL` lowers
 * the instruction set. `ROWMAJOR_OPENBLAS` names an OpenBLAS whose LAPACK linear algebra uses, such
 * as that of NumPy's package (in `numpy.libs`), and adds rows of complex matrices. `--save` writes
 * the table to docs/benchmarks.md.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { parseArgs } from "node:util";
import { ensureInstalled, findTool, root, writeTable } from "../scripts/tools.ts";
import { environment, LineProcess } from "./line_process.ts";
import { GROUPS, type Row, ROWS } from "./numerics/rows.ts";
import { findPython } from "./python_env.ts";

const { values: options } = parseArgs({
  options: {
    rows: { type: "string", default: "" },
    rounds: { type: "string", default: "3" },
    threads: { type: "string", default: "1,2" },
    ms: { type: "string", default: "40" },
    runtime: { type: "string", default: "deno,bun" },
    all: { type: "boolean", default: false },
    save: { type: "boolean", default: false },
  },
});
const ms = Number(options.ms);
const counts = options.threads.split(",").map(Number);
const runtimes = options.runtime.split(",") as ("deno" | "bun")[];
const NAMES = { deno: "Deno", bun: "Bun", numpy: "NumPy", torch: "PyTorch" } as const;
type Name = keyof typeof NAMES;

/** A library in a process, with a number of threads. */
class Contestant extends LineProcess<Name, unknown, unknown> {
  readonly threads: number;
  version = "";

  constructor(name: Name, command: readonly string[], threads: number) {
    super(name, command, { cwd: root, env: environment(threads) });
    this.threads = threads;
  }

  async ready(): Promise<void> {
    this.version = String(await this.next());
  }

  /** The fastest time of a row in microseconds; undefined if the library has no such call. */
  async time(index: number, row: Row): Promise<number | undefined> {
    const { name } = this;
    if (name === "deno" || name === "bun") return await this.ask({ row: index, ms }) as number;
    const code = row[name];
    if (code === undefined) return undefined;
    return await this.ask({ data: row.data, code, ms }) as number;
  }
}

await ensureInstalled();
const python = findPython(["numpy", "torch"], ["numpy"]);
const script = (name: string): string => join(root, "bench", "numerics", name);
const contestants = counts.flatMap((threads) => {
  const peers = (["numpy", "torch"] as const).filter((name) => !python.missing.has(name));
  return [
    ...runtimes.map((name) => {
      const args = name === "deno" ? ["run", "-A", "--no-check"] : [];
      const command = [findTool(name), ...args, script("worker.ts"), String(threads)];
      return new Contestant(name, command, threads);
    }),
    ...peers.map((name) =>
      new Contestant(name, [python.path!, script("peer.py"), name, String(threads)], threads)
    ),
  ];
});
for (const one of contestants) await one.ready();

/** The times of a row by contestant. */
type Times = Map<Contestant, number>;
const wanted = options.rows.split(",");
const results: { readonly row: Row; readonly times: Times }[] = [];
for (const [index, row] of ROWS.entries()) {
  if (!wanted.some((text) => text === row.group || row.name.includes(text))) continue;
  const times: Times = new Map();
  for (let round = 0; round < Number(options.rounds); round++) {
    for (const one of contestants) {
      const time = await one.time(index, row);
      if (time !== undefined) times.set(one, Math.min(times.get(one) ?? Infinity, time));
    }
  }
  results.push({ row, times });
}
for (const one of contestants) await one.close();

/** The contestant that ours is compared with. */
function beside(ours: Contestant, name: Name): Contestant | undefined {
  return contestants.find((one) => one.name === name && one.threads === ours.threads);
}

/** Our time as a part of a peer's. */
function ratioOf(times: Times, ours: Contestant, name: Name): number | undefined {
  const peer = beside(ours, name);
  const time = peer && times.get(peer);
  return time === undefined ? undefined : times.get(ours)! / time;
}

function geometricMean(ratios: readonly number[]): number {
  return Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length);
}

const own = contestants.filter(({ name }) => name === "deno" || name === "bun");
const headings = own.map(({ name, threads }) => `${NAMES[name]}, ${threads}`);
const lines: string[] = [];
const line = (cells: readonly string[]): unknown => lines.push(`| ${cells.join(" | ")} |`);
line(["Calls", ...headings, "/ PyTorch", "goal"]);
line(["-", ...headings.map(() => "-:"), "-:", "-"]);
for (const [name, { title, goal }] of Object.entries(GROUPS)) {
  const rows = results.filter(({ row }) => row.group === name);
  if (rows.length === 0) continue;
  const ratios = (ours: Contestant, peer: Name): number[] =>
    rows.flatMap(({ times }) => ratioOf(times, ours, peer) ?? []);
  const cells = own.map((ours) => {
    const all = ratios(ours, "numpy");
    return `${geometricMean(all).toFixed(2)}, ${Math.max(...all).toFixed(2)}`;
  });
  const torch = own.length > 0 ? ratios(own[0]!, "torch") : [];
  const mean = torch.length > 0 ? geometricMean(torch).toFixed(2) : "";
  line([title, ...cells, mean, goal === undefined ? "" : `≤ ${goal}`]);
}
const versions = contestants.filter(({ name, threads }) =>
  threads === counts[0] && (name === "numpy" || name === "torch")
).map(({ name, version }) => `${NAMES[name]} ${version}`);
const [load] = loadavg();
const about = `${cpus()[0]!.model}, ${cpus().length} cores, ${own[0]?.version}; ` +
  `${versions.join(", ")}; ${new Date().toISOString().slice(0, 10)}, load ${load!.toFixed(1)}`;

console.log(`${about}\n\n${lines.join("\n")}\n`);
for (const { row, times } of results) {
  const goal = GROUPS[row.group]!.goal ?? Infinity;
  const all = own.map((ours) => ratioOf(times, ours, "numpy")!);
  if (!options.all && all.every((ratio) => ratio <= goal)) continue;
  const cells = own.map((ours, i) => {
    const torch = ratioOf(times, ours, "torch");
    return `${headings[i]}: ${times.get(ours)!.toFixed(1)} µs, ${all[i]!.toFixed(2)}` +
      (torch === undefined ? "" : ` (${torch.toFixed(2)})`);
  });
  console.log(`${row.name}: ${cells.join("; ")}`);
}
if (options.save) {
  writeTable("docs/benchmarks.md", `- ${about}\n\n${lines.join("\n")}`, "numerics");
  spawnSync(findTool("deno"), ["fmt", "--quiet", join(root, "docs", "benchmarks.md")]);
}
process.exit(0);
