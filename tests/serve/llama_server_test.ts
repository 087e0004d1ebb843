/**
 * llama-server's tests on this server, from the table of llama_server.ts.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { after, test } from "node:test";
import * as prom from "prom-client";
import { Chat, Classifier, Embedder } from "../../src/models/mod.ts";
import { openai, type Service } from "../../src/serve/mod.ts";
import { writeModels } from "./clients_models.ts";
import {
  type Answer,
  type Ask,
  type Case,
  CASES,
  fits,
  type Json,
  KEY,
  type ServerName,
  TESTS,
  type Tools,
} from "./llama_server.ts";

const paths = writeModels();
const chat = await Chat.open(paths.chat);
const embedder = await Embedder.open(paths.embeddings);
const classifier = await Classifier.open(paths.rerank);
const models = {
  chat: { chat },
  embeddings: { embeddings: embedder },
  rerank: { rerank: classifier },
};
const engine = { slots: 2, context: 512 };
const servers: Readonly<Record<ServerName, Service>> = {
  open: openai(models, { engine, metrics: prom }),
  closed: openai(models, { engine, keys: [KEY] }),
  bare: openai(models, { engine }),
};
after(() => {
  for (const one of [...Object.values(servers), chat, embedder, classifier]) one.dispose();
});
const { tokenizer } = chat;

/** The values of a stream, which ends as OpenAI's do. */
function eventsOf(text: string): Json[] {
  // Lines that begin with a colon are comments.
  const events = text.split("\n\n").filter((event) => event !== "" && !event.startsWith(":"));
  const lines = events.map((event) => /^data: (.+)$/.exec(event)?.[1]);
  assert(lines.every((line) => line !== undefined), text);
  assertEquals(lines.at(-1), "[DONE]");
  return lines.slice(0, -1).map((line) => JSON.parse(line!));
}

async function ask({ method, path, body, headers, server = "open", signal }: Ask): Promise<Answer> {
  const request = new Request(`http://localhost${path}`, {
    ...{ method, headers: { "content-type": "application/json", ...headers } },
    ...body !== undefined && { body: JSON.stringify(body) },
    ...signal !== undefined && { signal },
  });
  const answer = await servers[server].fetch(request);
  const text = await answer.text();
  const type = answer.headers.get("content-type") ?? "";
  return {
    ...{ status: answer.status, headers: answer.headers },
    body: type.startsWith("application/json") ? JSON.parse(text) : text,
    events: type.startsWith("text/event-stream") ? eventsOf(text) : [],
  };
}

const tools: Tools = {
  ask,
  tokens: (text) => tokenizer.encode(text),
  tokenText: (id) => tokenizer.tokenText(id),
  engine: () => (servers.open.stats.models as Json).chat,
};

async function check(one: Case): Promise<void> {
  if ("run" in one) return await one.run(tools);
  if (!("ask" in one)) return;
  const answer = await ask(one.ask);
  const said = JSON.stringify(answer.body);
  assertEquals(answer.status, one.status, said);
  if (one.form !== undefined) assert(fits(answer.body, one.form), said);
  one.check?.(answer, tools);
}

/** The number of cases that a case stands for. */
const countOf = (one: Case): number => "leftOut" in one ? one.leftOut : 1;

for (const [file, tests] of Object.entries(TESTS)) {
  for (const [name, cases] of Object.entries(tests)) {
    const ported = cases.filter((one) => "run" in one || "ask" in one);
    if (ported.length === 0) continue;
    test(`llama-server, test_${file}.py: ${name}`, async () => {
      for (const [i, one] of ported.entries()) {
        try {
          await check(one);
        } catch (error) {
          throw new Error(`case ${i + 1} of ${ported.length}`, { cause: error });
        }
      }
    });
  }
}

test("llama-server: each case is ported, or there is a reason", (t) => {
  const counts = Object.fromEntries(
    Object.entries(TESTS).map(([file, tests]) => [
      file,
      Object.values(tests).flat().reduce((sum, one) => sum + countOf(one), 0),
    ]),
  );
  assertEquals(counts, CASES);
  const all = Object.values(TESTS).flatMap((tests) => Object.values(tests).flat());
  const leftOut = all.filter((one) => "leftOut" in one);
  const sum = leftOut.reduce((sum, one) => sum + countOf(one), 0);
  const whole = Object.values(CASES).reduce((a, b) => a + b);
  const here = all.filter((one) => "ask" in one || "run" in one);
  const differ = here.filter((one) => "differs" in one);
  const elsewhere = all.filter((one) => "elsewhere" in one);
  t.diagnostic(
    `of ${whole} cases of llama-server, ${here.length} are here, of which ${differ.length} differ; ` +
      `${elsewhere.length} are in other tests; ${sum} are left out`,
  );
  assert(here.length > 100 && leftOut.every(({ reason }) => reason.length > 5));
});
