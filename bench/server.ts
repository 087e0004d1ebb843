/**
 * Puts the example's server under load, in Deno and in Bun, with and without batching.
 *
 *     deno task bench:server [--seconds=20] [--connections=64] [--rounds=1] [--save]
 *
 * The load comes from a process of its own on this machine (server_load.ts). `--save` writes the
 * table of docs/serving.md. Exits with 1 if an answer was wrong or missing.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { availableParallelism, cpus, totalmem } from "node:os";
import process from "node:process";
import { parseArgs } from "node:util";
import { ensureInstalled, findTool, root, writeTable } from "../scripts/tools.ts";
import { startServer } from "../tests/server/child.ts";
import type { Load } from "./server_load.ts";

/** The runs: a runtime, and the most images of a batch. */
const RUNS = [
  { runtime: "deno", batch: 1 },
  { runtime: "deno", batch: 64 },
  { runtime: "bun", batch: 1 },
  { runtime: "bun", batch: 64 },
] as const;

/** How late a timer in the server may be, in milliseconds. */
const LATE_MS = 20;

interface Row extends Load {
  readonly runtime: "deno" | "bun";
  readonly batch: number;
  readonly meanBatch: number;
  /** Time of the processor per request, in microseconds. */
  readonly cpu: number;
  readonly lateMs: number;
  /** The number of timers, and of those late by more than {@link LATE_MS}. */
  readonly ticks: number;
  readonly lateTicks: number;
  readonly megabytes: number;
}

/** The output of a program. */
function output(path: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(path, args, { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
    let text = "";
    child.stdout.setEncoding("utf8").on("data", (part: string) => text += part);
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(text);
      else reject(new Error(`${path} ${args.join(" ")} exited with ${code}`));
    });
  });
}

async function measure(
  { runtime, batch }: (typeof RUNS)[number],
  connections: number,
  seconds: number,
): Promise<Row> {
  const server = await startServer(runtime, ["--batch", `${batch}`]);
  try {
    const load = async (seconds: number) => {
      const args = ["bench/server_load.ts", `${server.port}`, `${connections}`, `${seconds}`];
      return JSON.parse(await output(findTool("bun"), args)) as Load;
    };
    // The first seconds compile.
    await load(2);
    const before = await server.metrics();
    const result = await load(seconds);
    const after = await server.metrics();
    const gain = (name: string) => after[name]! - before[name]!;
    const lateness = "digits_event_loop_lateness_seconds";
    const ticks = gain(`${lateness}_count`);
    return {
      runtime,
      batch,
      ...result,
      meanBatch: gain("digits_batch_size_sum") / gain("digits_batch_size_count"),
      cpu: gain("process_cpu_seconds_total") / result.requests * 1e6,
      lateMs: after.digits_event_loop_lateness_max_seconds! * 1000,
      ticks,
      lateTicks: ticks - gain(`${lateness}_bucket{le="${LATE_MS / 1000}"}`),
      megabytes: after.digits_resident_bytes! / 1e6,
    };
  } finally {
    await server.end();
  }
}

/** The run of median speed among the runs of one kind. */
function middle(rows: Row[]): Row {
  return rows.toSorted((a, b) => a.perSecond - b.perSecond)[rows.length >> 1]!;
}

function toMarkdown(rows: readonly Row[]): string {
  const ms = (value: number) => `${value.toFixed(1)} ms`;
  const cells = rows.map((row) => {
    const plain = rows.find(({ runtime, batch }) => runtime === row.runtime && batch === 1)!;
    return [
      row.runtime === "deno" ? "Deno" : "Bun",
      row.batch === 1 ? "off" : `up to ${row.batch}`,
      Math.round(row.perSecond).toLocaleString("en"),
      row === plain ? "1" : (row.perSecond / plain.perSecond).toFixed(2),
      ms(row.p50),
      ms(row.p99),
      row.meanBatch.toFixed(1),
      `${Math.round(row.cpu)} µs`,
      ms(row.lateMs),
      `${row.lateTicks} of ${row.ticks.toLocaleString("en")}`,
      `${Math.round(row.megabytes)} MB`,
      `${row.errors}`,
    ];
  });
  const head = [
    ["Runtime", "Batching", "Requests/s", "Gain", "p50", "p99", "Mean batch"],
    ["CPU per request", "Max timer delay", "Delays > 20 ms", "Memory", "Errors"],
  ].flat();
  const width = head.map((name, i) => Math.max(name.length, ...cells.map((row) => row[i]!.length)));
  const line = (row: string[]) => `| ${row.map((cell, i) => cell.padEnd(width[i]!)).join(" | ")} |`;
  const rule = `| ${width.map((n) => "-".repeat(n)).join(" | ")} |`;
  return [line(head), rule, ...cells.map(line)].join("\n");
}

async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      seconds: { type: "string", default: "20" },
      connections: { type: "string", default: "64" },
      rounds: { type: "string", default: "1" },
      save: { type: "boolean", default: false },
    },
  });
  const [seconds, connections] = [Number(values.seconds), Number(values.connections)];
  await ensureInstalled();
  const all: Row[] = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const run of RUNS) {
      all.push(await measure(run, connections, seconds));
      console.log(JSON.stringify(all.at(-1)));
    }
  }
  const rows = RUNS.map(({ runtime, batch }) =>
    middle(all.filter((row) => row.runtime === runtime && row.batch === batch))
  );
  const table = toMarkdown(rows);
  console.log(table);
  if (values.save) {
    const machine = `${cpus()[0]!.model}, ${availableParallelism()} cores, ` +
      `${Math.round(totalmem() / 2 ** 30)} GiB`;
    const command = ["deno task bench:server", ...args.filter((arg) => arg !== "--save")].join(" ");
    writeTable(
      "docs/serving.md",
      `- \`${command}\`, ${new Date().toISOString().slice(0, 10)}\n` +
        `- ${machine}; ${connections} connections, ${seconds} s each, one image per request\n\n` +
        table,
    );
  }
  const wrong = all.reduce((sum, { errors }) => sum + errors, 0);
  const late = Math.max(...all.map(({ lateMs }) => lateMs));
  if (wrong > 0) console.error(`${wrong} answers were wrong or missing`);
  if (late > LATE_MS) console.error(`a timer in the server was ${late.toFixed(1)} ms late`);
  return wrong > 0 ? 1 : 0;
}

if (import.meta.main) process.exit(await main(process.argv.slice(2)));
