/**
 * A server as a process, for tests with clients and loads.
 *
 * @module
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import process from "node:process";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { findTool, root } from "../../scripts/tools.ts";
import type { Setup, Stats } from "./clients_server.ts";

/** A server that runs. */
export interface Child {
  readonly port: number;
  readonly pid: number;
  readonly url: string;
  /** What it wrote so far. */
  output(): string;
  /** What it does and has done. */
  stats(): Promise<Stats>;
  /** Begins to watch how late a timer is. */
  watchTimer(): void;
  /** Sends SIGTERM, and waits until it says that it ends. */
  terminate(): Promise<void>;
  /** Its exit code, after it has ended; null after a signal. */
  readonly ended: Promise<number | null>;
  /** Ends it at once, and waits for that. */
  end(): Promise<void>;
}

/** The runtime of this process. */
export const OWN_RUNTIME: "deno" | "bun" = "Deno" in globalThis ? "deno" : "bun";

/** Starts a server, and waits until it listens. */
export function startServer(
  setup: Setup,
  { runtime = OWN_RUNTIME, env = process.env }: {
    readonly runtime?: "deno" | "bun";
    readonly env?: NodeJS.ProcessEnv;
  } = {},
): Promise<Child> {
  const flags = runtime === "deno" ? ["run", "-A", "--no-check"] : [];
  return startProgram([
    findTool(runtime),
    ...flags,
    "tests/serve/clients_server.ts",
    JSON.stringify(setup),
  ], { env });
}

/** Starts a program that writes `listening on PORT`, and then a line for each one it reads. */
export function startProgram(
  [command, ...args]: readonly string[],
  { cwd = root, env = process.env }: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } =
    {},
): Promise<Child> {
  const child = spawn(command!, args, {
    ...{ cwd, stdio: ["pipe", "pipe", "pipe"], env: { ...env, NO_COLOR: "1" } },
  });
  let text = "";
  const answers: ((line: string) => void)[] = [];
  const { promise: ended, resolve: end } = Promise.withResolvers<number | null>();
  child.on("close", (code) => end(code));
  child.stderr.setEncoding("utf8").on("data", (part: string) => text += part);
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      text += `${line}\n`;
      if (line.startsWith("{")) answers.shift()?.(line);
      const port = Number(/^listening on (\d+)$/.exec(line)?.[1]);
      if (Number.isNaN(port)) return;
      resolve({
        ...{ port, pid: child.pid!, url: `http://127.0.0.1:${port}`, ended },
        output: () => text,
        stats: () =>
          new Promise((resolve) => {
            answers.push((line) => resolve(JSON.parse(line)));
            child.stdin.write("stats\n");
          }),
        watchTimer: () => void child.stdin.write("timer\n"),
        async terminate() {
          // Deno tells of a child that was sent a signal by child.kill that it died of it.
          process.kill(child.pid!, "SIGTERM");
          while (!text.includes("ending\n")) await delay(5);
        },
        async end() {
          child.kill("SIGKILL");
          await ended;
        },
      });
    });
    child.on("error", reject);
    ended.then((code) => reject(new Error(`the server exited with ${code}:\n${text}`)));
  });
}

/** Seconds of the processor that a process has used, of all its threads. */
export function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)!.split(" ");
  // Ticks of 10 ms.
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** A field of a file of a process under /proc, in bytes. */
export function memoryOf(pid: number, field: "Pss" | "Rss"): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return Number(new RegExp(`^${field}: +(\\d+) kB$`, "m").exec(text)![1]) * 1024;
}
