/**
 * The example's server under load, in Deno and in Bun, with batching and one image at a time.
 *
 * The load comes from a process of its own on this machine (server_load.ts). Fails if an answer is
 * wrong or missing.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { findTool, root } from "../../scripts/tools.ts";
import { startServer } from "../../tests/serve/child.ts";
import type { Outcome, RunOptions, Runtime, Side, Suite } from "../harness/suite.ts";
import type { Load } from "./server_load.ts";

const CONNECTIONS = 64;
const SECONDS = 20;
/** The most images of a batch. */
const BATCH = 64;
/** How late a timer in the server may be, in milliseconds. */
const LATE_MS = 20;

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

class ServerSide implements Side {
  readonly name: string;
  /** Batches are compared with one image at a time. */
  readonly peer: boolean;
  readonly runtime: Runtime;
  readonly version = "";
  readonly #batch: number;

  constructor(runtime: Runtime, batch: number) {
    this.name = batch === 1 ? `${runtime}, one by one` : runtime;
    [this.runtime, this.peer, this.#batch] = [runtime, batch === 1, batch];
  }

  has(): boolean {
    return true;
  }

  prepare(): Promise<undefined> {
    return Promise.resolve(undefined);
  }

  async measure(): Promise<Outcome> {
    const runtime = this.runtime === "Deno" ? "deno" : "bun";
    const server = await startServer(runtime, ["--batch", `${this.#batch}`]);
    try {
      const load = async (seconds: number) => {
        const args = ["bench/suites/server_load.ts", server.port, CONNECTIONS, seconds].map(String);
        return JSON.parse(await output(findTool("bun"), args)) as Load;
      };
      // The first seconds compile.
      await load(2);
      const before = await server.metrics();
      const { requests, errors, perSecond, p50, p99 } = await load(SECONDS);
      if (errors > 0) throw new Error(`${errors} answers were wrong or missing`);
      const after = await server.metrics();
      const cpu = after.process_cpu_seconds_total! - before.process_cpu_seconds_total!;
      return {
        figures: {
          "request": { wall: 1e9 / perSecond, cpu: cpu * 1e9 / requests },
          "latency, median": { wall: p50 * 1e6 },
          "latency, p99": { wall: p99 * 1e6 },
          "largest delay of a timer": { wall: after.rowmajor_event_loop_late_seconds! * 1e9 },
          "resident memory": { wall: after.rowmajor_resident_bytes! },
        },
      };
    } finally {
      await server.end();
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

const names = ["request", "latency, median", "latency, p99", "largest delay of a timer"];

/** The suite. */
export const suite: Suite = {
  title: `The example's server under a load of ${CONNECTIONS} connections`,
  groups: { digits: `batches of up to ${BATCH} beside one image at a time` },
  rows: [
    ...names.map((name) => ({ group: "digits", name })),
    { group: "digits", name: "resident memory", unit: "bytes" },
  ],
  whole: true,
  ...{ rounds: 3, ms: 0, threads: [1] },
  beside: "fastest",
  lines: "row",
  goal: (row) => row.endsWith("delay of a timer") ? { ns: LATE_MS * 1e6 } : undefined,
  sides: ({ runtimes }: RunOptions) =>
    runtimes.flatMap((runtime) => [1, BATCH].map((batch) => new ServerSide(runtime, batch))),
};
