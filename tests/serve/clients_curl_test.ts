/**
 * `curl` against a server, as in docs/serving.md: a chat, a stream, embeddings, a key, and an end before
 * the answer.
 *
 * @module
 */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { spawn, spawnSync } from "node:child_process";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { startServer } from "./clients_child.ts";
import { writeModels } from "./clients_models.ts";

const hasCurl = spawnSync("curl", ["--version"]).status === 0;
const WITH_CURL = { skip: !hasCurl && "there is no curl" };
const KEY = "sk-curl";
const { chat, embeddings } = writeModels();
const server = await startServer({ chat, embeddings, context: 4200, slots: 2, keys: [KEY] });
after(() => server.end());

/** The arguments of a request. */
function argumentsOf(path: string, body?: object, key = KEY): string[] {
  return [
    ...["--silent", "--show-error", "--max-time", "20", "-H", `authorization: Bearer ${key}`],
    ...body === undefined
      ? []
      : ["-H", "content-type: application/json", "--data", JSON.stringify(body)],
    `${server.url}${path}`,
  ];
}

/** Runs curl off the event loop; its output. */
async function curl(...args: string[]): Promise<string> {
  const child = spawn("curl", args, { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => text += part);
  const code = await new Promise((resolve) => child.on("close", resolve));
  assertEquals(code, 0);
  return text;
}

const body = { model: "chat", messages: [{ role: "user", content: "Hi" }], max_tokens: 8 };

test("curl: a chat, a stream and embeddings", WITH_CURL, async () => {
  const answer = JSON.parse(await curl(...argumentsOf("/v1/chat/completions", body)));
  assertEquals(answer.choices[0].message.role, "assistant");
  const stream = await curl(
    "-N",
    ...argumentsOf("/v1/chat/completions", { ...body, stream: true }),
  );
  assertMatch(stream, /^data: \{[^]*\n\ndata: \[DONE\]\n\n$/);
  const vectors = JSON.parse(
    await curl(...argumentsOf("/v1/embeddings", { model: "embeddings", input: ["w1", "w2"] })),
  );
  assertEquals(vectors.data.length, 2);
  const models = JSON.parse(await curl(...argumentsOf("/v1/models")));
  assertEquals(models.data.length, 2);
});

test("curl: a wrong key is a 401, which says how to send one", WITH_CURL, async () => {
  const answer = await curl("-i", ...argumentsOf("/v1/models", undefined, "other"));
  assertMatch(answer, /^HTTP\/1\.1 401 [^]*www-authenticate: Bearer[^]*invalid_api_key/i);
});

test("curl: one that is killed frees its slot", WITH_CURL, async () => {
  const long = { ...body, max_tokens: 4000, stream: true, logit_bias: { 1: -100 } };
  const child = spawn("curl", ["-N", ...argumentsOf("/v1/chat/completions", long)], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  await new Promise((resolve) => child.stdout.once("data", resolve));
  child.kill("SIGKILL");
  let stats = await server.stats();
  for (let i = 0; i < 400 && stats.cancelled === 0; i++) {
    await delay(5);
    stats = await server.stats();
  }
  assertEquals([stats.active, stats.cancelled, stats.inFlight], [0, 1, 0]);
  assert(stats.steps < 3000, `${stats.steps} steps`);
});
