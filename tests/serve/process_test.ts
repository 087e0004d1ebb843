/**
 * The example's server as a process: its start, and its end under load.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { type AddressInfo, connect, createServer } from "node:net";
import process from "node:process";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { loadDigits } from "../../examples/digits/digits.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { PERMISSIONS, startServer } from "./child.ts";

const runtime = "Deno" in globalThis ? "deno" : "bun";
const SLOW = { timeout: 120_000 };
/** Windows ends a process where others send it a signal. */
const UNIX = { ...SLOW, skip: process.platform === "win32" && "needs Unix" };
const { heldOut } = await loadDigits();
const body = JSON.stringify({
  inputs: [{
    name: "images",
    datatype: "FP32",
    shape: [3, 64],
    data: heldOut.images.slice(":3").toArray(),
  }],
});
const INFER = "/v2/models/digits/infer";
const request = `POST ${INFER} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n` +
  `Content-Length: ${body.length}\r\n\r\n${body}`;
/** The metric with the number of these requests. */
const COUNT = 'rowmajor_request_seconds_count{path="/v2/models/:model/infer"}';

/** The view of a client: answers by status, requests without an answer, and how it ended. */
interface Seen {
  readonly answers: Record<string, number>;
  lost: number;
}

/** Sends requests on one connection until the server closes it. */
function keepAsking(port: number): Promise<Seen> {
  return new Promise((resolve) => {
    const seen: Seen = { answers: {}, lost: 0 };
    let [text, waits] = ["", false];
    const socket = connect(port, "127.0.0.1", () => send());
    const send = () => {
      [text, waits] = ["", true];
      socket.write(request);
    };
    socket.setEncoding("latin1").on("data", (part) => {
      text += part;
      const head = text.indexOf("\r\n\r\n");
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1]);
      if (head < 0 || text.length < head + 4 + length) return;
      waits = false;
      const status = text.split(" ")[1]!;
      seen.answers[status] = (seen.answers[status] ?? 0) + 1;
      if (/\r\nconnection: close/i.test(text.slice(0, head + 2))) socket.end();
      else send();
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      if (waits) seen.lost++;
      resolve(seen);
    });
  });
}

test("server process: TERM under load loses no request, and the exit code is 0", UNIX, async () => {
  const server = await startServer(runtime, ["--drain-ms", "300"]);
  try {
    const clients = Array.from({ length: 32 }, () => keepAsking(server.port));
    // The server waits for a body that is half received at the time of the signal.
    let late = "";
    const slow = connect(server.port, "127.0.0.1", () => slow.write(request.slice(0, -100)));
    slow.setEncoding("latin1").on("data", (part) => late += part);
    const closed = new Promise((resolve) => slow.on("close", resolve));
    while (!((await server.metrics())[COUNT]! >= 200)) await delay(10);
    server.kill("SIGTERM");
    while (!server.output().includes("SIGTERM: no new work")) await delay(5);
    for (const path of ["/readyz", "/v2/health/ready"]) {
      const health = await fetch(`${server.url}${path}`);
      assertEquals([health.status, await health.json()], [503, { error: "the service is ending" }]);
    }
    assertEquals((await (await fetch(`${server.url}/livez`)).json()).status, "ok");
    const refused = await fetch(`${server.url}${INFER}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    assertEquals([refused.status, refused.headers.get("retry-after")], [503, "1"]);
    await refused.body?.cancel();
    // Longer than the server would go on without it.
    await delay(500);
    slow.write(request.slice(-100));

    const seen = await Promise.all(clients);
    assertEquals(seen.reduce((sum, { lost }) => sum + lost, 0), 0);
    for (const { answers } of seen) {
      assertEquals(Object.keys(answers).filter((status) => !/^(200|503)$/.test(status)), []);
      // Each connection gets one late answer, which also says to close.
      assert((answers["503"] ?? 0) <= 1, JSON.stringify(answers));
    }
    assert(seen.reduce((sum, { answers }) => sum + (answers["200"] ?? 0), 0) >= 200);
    await closed;
    assert(late.startsWith("HTTP/1.1 200 "), late);
    assertEquals(await server.ended, 0, server.output());
  } finally {
    await server.end();
  }
});

test("server process: a request that does not end is given up after the grace", UNIX, async () => {
  const server = await startServer(runtime, ["--drain-ms", "0", "--grace-ms", "100"]);
  try {
    const stuck = connect(server.port, "127.0.0.1", () => stuck.write(request.slice(0, -1)));
    stuck.on("error", () => {});
    while ((await server.metrics()).rowmajor_in_flight_requests !== 1) await delay(5);
    server.kill("SIGINT");
    assertEquals(await server.ended, 1);
    assert(server.output().includes("1 requests were not done after 100 ms"), server.output());
    stuck.destroy();
  } finally {
    await server.end();
  }
});

test("server process: what cannot be is said, with exit code 2 or 1", SLOW, async () => {
  const run = (...args: string[]) => {
    const permissions = runtime === "deno"
      ? ["run", "--no-prompt", "--no-check", ...PERMISSIONS]
      : [];
    const { status, stdout, stderr } = spawnSync(
      findTool(runtime),
      [...permissions, "examples/server/main.ts", ...args],
      { cwd: root, encoding: "utf8", timeout: 60_000 },
    );
    return { status, stdout, stderr };
  };
  for (
    const [args, said] of [
      [["--prot", "80"], "--prot"],
      [["--port", "http"], "--port http: an integer from 0 to 65535 goes here"],
      [["--host", "0.0.0.0"], "--host 0.0.0.0: others reach this address; give --key-file"],
    ] as const
  ) {
    const { status, stdout, stderr } = run(...args);
    assertEquals([status, stdout], [2, ""]);
    assert(stderr.includes(said) && stderr.includes("usage: main.ts"), stderr);
  }
  const missing = run("--model", "missing.safetensors");
  assertEquals(missing.status, 1);
  assert(missing.stderr.startsWith("Cannot start: "), missing.stderr);
  const help = run("--help");
  assertEquals([help.status, help.stderr], [0, ""]);

  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const { port } = other.address() as AddressInfo;
  const taken = run("--port", `${port}`);
  other.close();
  assertEquals(taken.status, 1, taken.stdout);
  assert(/^Cannot start: .*(in use|EADDRINUSE)/.test(taken.stderr), taken.stderr);
});
