/**
 * `rowmajor serve` as a process.
 *
 * @module
 */
import { assert } from "@std/assert";
import { spawn } from "node:child_process";
import process from "node:process";

/** A server that runs. */
export interface ServeProcess extends AsyncDisposable {
  readonly url: string;
  /** What it printed so far. */
  readonly said: { stdout: string; stderr: string };
  kill(signal: "SIGTERM" | "SIGINT"): void;
  /** Its exit code. */
  readonly ended: Promise<number | null>;
}

/** Starts a program that is `rowmajor serve`, and waits until it listens. */
export function startServe(
  path: string,
  args: readonly string[],
  options: {
    readonly cwd?: string;
    readonly env?: Readonly<Record<string, string | undefined>>;
  } = {},
): Promise<ServeProcess> {
  const child = spawn(path, args, {
    ...options.cwd !== undefined && { cwd: options.cwd },
    env: { ...process.env, NO_COLOR: "1", ...options.env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said = { stdout: "", stderr: "" };
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  return new Promise((resolve, reject) => {
    child.stdout.setEncoding("utf8").on("data", (part: string) => said.stdout += part);
    child.stderr.setEncoding("utf8").on("data", (part: string) => {
      said.stderr += part;
      const url = /^listening on (http:\S+)\/$/m.exec(said.stderr)?.[1];
      if (url === undefined) return;
      resolve({
        ...{ url, said, ended },
        // Deno tells of a child that was sent a signal by child.kill that it died of it.
        kill: (signal) => void process.kill(child.pid!, signal),
        async [Symbol.asyncDispose]() {
          child.kill("SIGKILL");
          await ended;
        },
      });
    });
    ended.then((code) => reject(new Error(`exited with ${code}: ${said.stderr}`)), reject);
  });
}

/** Asks for a streamed answer of 40 tokens, and sends TERM meanwhile; returns the exit code. */
export async function endAnswering(server: ServeProcess): Promise<number | null> {
  const response = await fetch(`${server.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      ...{ messages: [{ role: "user", content: "Hi" }], stream: true },
      ...{ max_tokens: 40, ignore_eos: true },
    }),
  });
  let text = "";
  const decoder = new TextDecoder();
  for await (const part of response.body!) {
    if (text === "") server.kill("SIGTERM");
    text += decoder.decode(part, { stream: true });
  }
  assert(text.endsWith("data: [DONE]\n\n"), text);
  return await server.ended;
}
