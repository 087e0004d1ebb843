/**
 * The example's server as a child process, on a port of its own.
 *
 * @module
 */
import { spawn } from "node:child_process";
import process from "node:process";
import { findTool, root } from "../../scripts/tools.ts";

/** A server that runs. */
export interface ServerProcess {
  readonly port: number;
  readonly url: string;
  /** Its output so far. */
  output(): string;
  /** The samples of /metrics without labels, or all by their names with labels. */
  metrics(): Promise<Record<string, number>>;
  /** Sends a signal. */
  kill(signal: "SIGTERM" | "SIGINT" | "SIGKILL"): void;
  /** Its exit code, after it has ended; null after a signal. */
  readonly ended: Promise<number | null>;
  /** Ends it and waits for that. */
  end(): Promise<void>;
}

/** The samples of a text for Prometheus, by name and labels. */
export function parseMetrics(text: string): Record<string, number> {
  const samples: Record<string, number> = {};
  for (const line of text.split("\n")) {
    if (line === "" || /^# (HELP|TYPE) \w+ ./.test(line)) continue;
    const [, name, value] = /^(\w+(?:\{(?:\w+="[^"\\]*",?)*\})?) (\S+)$/.exec(line) ?? [];
    const number = value === "+Inf" ? Infinity : Number(value);
    if (name === undefined || Number.isNaN(number)) throw new Error(`not a sample: ${line}`);
    samples[name] = number;
  }
  return samples;
}

/** The permissions of the server in Deno. */
export const PERMISSIONS = ["--allow-net", "--allow-read", "--allow-env", "--allow-ffi"];

/** Starts the server, under a runtime or as a standalone program, and waits until it listens. */
export function startServer(
  runtime: string,
  args: readonly string[] = [],
  permissions: readonly string[] = PERMISSIONS,
): Promise<ServerProcess> {
  const script = "examples/server/main.ts";
  const isTool = runtime === "deno" || runtime === "bun";
  const run = {
    deno: ["run", "--no-prompt", "--no-check", ...permissions, script],
    bun: [script],
  }[runtime] ?? [];
  const child = spawn(
    isTool ? findTool(runtime) : runtime,
    [...run, "--port", "0", ...args],
    { cwd: root, stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, NO_COLOR: "1" } },
  );
  let text = "";
  const ended = new Promise<number | null>((resolve) => child.on("close", (code) => resolve(code)));
  return new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (part: string) => {
        text += part;
        const port = Number(/listening on http:\/\/[^:]+:(\d+)\//.exec(text)?.[1]);
        if (Number.isNaN(port)) return;
        const url = `http://127.0.0.1:${port}`;
        resolve({
          port,
          url,
          output: () => text,
          metrics: async () => parseMetrics(await (await fetch(`${url}/metrics`)).text()),
          // Deno tells of a child that was sent a signal by child.kill that it died of it.
          kill: (signal) => void process.kill(child.pid!, signal),
          ended,
          async end() {
            child.kill("SIGKILL");
            await ended;
          },
        });
      });
    }
    child.on("error", reject);
    ended.then((code) => reject(new Error(`the server exited with ${code}:\n${text}`)));
  });
}
