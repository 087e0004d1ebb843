/**
 * `rowmajor serve` as a process: what it prints, its APIs and page, keys, and its end.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mkdirSync, writeFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { info } from "../../mod.ts";
import { findTool, root } from "../../scripts/tools.ts";
import { startServe } from "./child.ts";
import { run, writeModels } from "./models.ts";

const runtime = "Deno" in globalThis ? "deno" : "bun";
const paths = await writeModels();
/** Windows ends a process where others send it a signal. */
const UNIX = { timeout: 120_000, skip: process.platform === "win32" && "needs Unix" };

/** Starts `rowmajor serve` in this runtime. */
function start(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const main = join(root, "src", "command", "main.ts");
  const flags = runtime === "deno" ? ["run", "-A", "--no-check", main] : [main];
  return startServe(findTool(runtime), [...flags, "serve", "--port=0", ...args], { env });
}

test("serve: APIs, keys, a page, logs and metrics, and an end", UNIX, async () => {
  const keys = join(paths.folder, "keys");
  writeFileSync(keys, "first\nsecond\n");
  const { folder } = paths;
  const config = join(folder, "serve.json");
  writeFileSync(config, JSON.stringify({ models: ["talk.gguf"], keyFile: "keys", log: "json" }));
  await using server = await start(
    [`--config=${config}`, paths.embed, paths.rerank, `double=${paths.onnx}`, "--slots=2"],
    { ROWMAJOR_KEYS: "third" },
  );
  const { url, said } = server;
  const ask = async (path: string, body?: unknown, key = "second") => {
    const response = await fetch(url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      ...body !== undefined && { body: JSON.stringify(body) },
    });
    const text = await response.text();
    return { status: response.status, text, json: () => JSON.parse(text) };
  };

  const { devices: { cpu } } = info();
  const lines = said.stderr.trim().split("\n");
  assertMatch(lines[0]!, new RegExp(`^${runtime}, backend ${cpu}\\b`));
  assertMatch(
    said.stderr,
    /^talk: chat, [\d.]+ \w+ resident, context of 2048, [\d.]+ tokens\/s$/m,
  );
  assertMatch(said.stderr, /^texts: embeddings, .* resident, 24 dimensions, [\d.]+ texts\/s$/m);
  assertMatch(said.stderr, /^ranks: rerank, .* resident, [\d.]+ texts\/s$/m);
  assertMatch(said.stderr, /^double: inference, .* resident, 2 nodes, inputs x$/m);
  assertStringIncludes(said.stderr, "with 3 keys, metrics at /metrics");

  assertEquals((await ask("/v1/models", undefined, "fourth")).status, 401);
  assertEquals(
    (await ask("/v1/models")).json().data.map(({ id }: { id: string }) => id),
    ["talk", "texts", "ranks"],
  );
  const chat = { model: "talk", messages: [{ role: "user", content: "Hi" }], max_tokens: 4 };
  const answer = (await ask("/v1/chat/completions", { ...chat, ignore_eos: true })).json();
  assertEquals(answer.choices[0].message.role, "assistant");
  const stream = await ask("/v1/chat/completions", { ...chat, stream: true }, "third");
  assert(stream.text.trimEnd().endsWith("data: [DONE]"), stream.text);
  const { data } = (await ask("/v1/embeddings", { model: "texts", input: "the cat" })).json();
  assertEquals(data[0].embedding.length, 24);
  const ranks = { model: "ranks", query: "w1", documents: ["w2", "w3"] };
  assertEquals((await ask("/v1/rerank", ranks)).json().results.length, 2);
  const x = { name: "x", datatype: "FP32", shape: [1, 64], data: Array(64).fill(1.5) };
  const { outputs } = (await ask("/v2/models/double/infer", { inputs: [x] })).json();
  assertEquals(outputs[0].data, Array(10).fill(3));
  const page = await fetch(url);
  assertEquals(page.headers.get("content-type"), "text/html; charset=utf-8");
  assertStringIncludes(await page.text(), "<!doctype html>");
  assertEquals((await ask("/page.json")).json(), {
    ...{ chat: ["talk"], embeddings: ["texts"], digits: "double" },
  });
  assertStringIncludes((await ask("/metrics")).text, "rowmajor_requests_total");

  // Each line of the standard output is an entry of the log, without texts of clients.
  const entries = said.stdout.trim().split("\n").map((line) => JSON.parse(line));
  const one = entries.find(({ path }) => path === "/v1/chat/completions");
  assertEquals([one.status, one.model, one.key], [200, "talk", 1]);
  assert(!said.stdout.includes("Hi"));

  // A long answer is still sent after TERM.
  const long = ask("/v1/chat/completions", { ...chat, max_tokens: 400, ignore_eos: true });
  while (!/rowmajor_in_flight_requests 1/.test((await ask("/metrics")).text));
  server.kill("SIGTERM");
  assertEquals((await long).status, 200);
  assertEquals(await server.ended, 0);
  assertMatch(said.stderr, /^SIGTERM: no new work, [01] requests to answer$/m);
});

test("serve: what cannot be is said in one line", UNIX, async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const { port } = other.address() as AddressInfo;
  const unknown = join(paths.folder, "speech");
  mkdirSync(unknown);
  writeFileSync(join(unknown, "config.json"), '{ "model_type": "whisper" }');
  for (
    const [args, code, message] of [
      [
        ["--port=0", unknown],
        1,
        "model speech: the files do not say what it is for: config.json has ",
      ],
      [[], 2, "there is no MODEL; see rowmajor serve --help"],
      [["a", "--host=0.0.0.0"], 2, "--host 0.0.0.0: other machines reach this address"],
      [["a.gguf", `--port=${port}`], 1, `Cannot listen on 127.0.0.1, port ${port}: another `],
      [["--port=0", "a.gguf"], 1, 'model a: Cannot find model "a.gguf": there is no such file'],
      [["--port=0", `chat:${paths.embed}`], 1, "model texts: "],
      [["--port=0", "none/of-these"], 1, "model none/of-these: Cannot find model none/of-these"],
    ] as const
  ) {
    const ran = await run("serve", ...args);
    const lines = ran.stderr.trimEnd().split("\n").filter((line) => !/, backend /.test(line));
    assertEquals([ran.code, ran.stdout, lines.length], [code, "", 1], ran.stderr);
    assertEquals(
      lines[0]!.slice(0, `rowmajor serve: ${message}`.length),
      `rowmajor serve: ${message}`,
    );
  }
  other.close();
});

test("serve: a second signal ends it at once", UNIX, async () => {
  await using server = await start([paths.embed, "--log=off", "--drain-ms=60000"]);
  assertStringIncludes(server.said.stderr, "without keys");
  server.kill("SIGINT");
  while (!server.said.stderr.includes("SIGINT: no new work")) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const health = await fetch(`${server.url}/readyz`);
  assertEquals(health.status, 503);
  await health.body?.cancel();
  server.kill("SIGTERM");
  assertEquals(await server.ended, 1);
  assertEquals(server.said.stdout, "");
});
