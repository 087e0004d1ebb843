/**
 * The unmodified package `ai` of Vercel with `@ai-sdk/openai-compatible` against a server: texts,
 * streams with usage, functions, objects of a schema, embeddings, ends that the client makes, and errors.
 *
 * @module
 */
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  APICallError,
  embed,
  embedMany,
  generateObject,
  generateText,
  jsonSchema,
  Output,
  stepCountIs,
  streamText,
  tool,
} from "ai";
import { after, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { startServer } from "./clients_child.ts";
import { writeModels } from "./clients_models.ts";

const paths = writeModels();
const server = await startServer({ ...paths, context: 4200, slots: 4 });
after(() => server.end());
const provider = createOpenAICompatible({
  ...{ name: "rowmajor", baseURL: `${server.url}/v1`, includeUsage: true },
  supportsStructuredOutputs: true,
});
const model = provider.chatModel("chat");
const CALL = { model, maxOutputTokens: 12, seed: 1, maxRetries: 0 };

test("ai: a text, and the same streamed with its usage", async () => {
  const whole = await generateText({ ...CALL, prompt: "Who is it?" });
  assert(["length", "stop"].includes(whole.finishReason));
  assert(whole.usage.inputTokens! > 5 && whole.usage.outputTokens! <= 12);
  const stream = streamText({ ...CALL, prompt: "Who is it?" });
  let text = "";
  for await (const part of stream.textStream) text += part;
  assertEquals(text, whole.text);
  const usage = await stream.usage;
  assertEquals(
    [usage.inputTokens, usage.outputTokens],
    [whole.usage.inputTokens, whole.usage.outputTokens],
  );
  assertEquals(await stream.finishReason, whole.finishReason);
});

const schema = jsonSchema<{ city: string; days: number }>({
  type: "object",
  properties: { city: { type: "string", maxLength: 6 }, days: { type: "integer" } },
  required: ["city", "days"],
  additionalProperties: false,
});

test("ai: a function is called, in one piece and streamed", async () => {
  const calls: unknown[] = [];
  const weather = tool({
    description: "The weather of a city",
    inputSchema: schema,
    execute(input) {
      calls.push(input);
      return Promise.resolve({ degrees: 20 });
    },
  });
  const body = {
    ...{ ...CALL, maxOutputTokens: 120, prompt: "Rain?", tools: { weather } },
    toolChoice: "required" as const,
    stopWhen: stepCountIs(1),
  };
  const { toolCalls, toolResults, finishReason } = await generateText(body);
  assertEquals(finishReason, "tool-calls");
  assertEquals(toolCalls.map(({ toolName }) => toolName), ["weather"]);
  assertEquals(toolResults.map(({ output }) => output), [{ degrees: 20 }]);
  const stream = streamText(body);
  await stream.consumeStream();
  assertEquals((await stream.toolCalls).map(({ toolName }) => toolName), ["weather"]);
  assertEquals(calls.length, 2);
  assertEquals(calls[0], calls[1]);

  // The result goes back to the model, which answers without another call.
  const two = await generateText({
    ...body,
    stopWhen: stepCountIs(2),
    prepareStep: ({ stepNumber }) => ({ toolChoice: stepNumber === 0 ? "required" : "none" }),
  });
  assertEquals(two.steps.length, 2);
  assertEquals(two.steps[1]!.toolCalls, []);
});

test("ai: an object of a schema", async () => {
  const { object, finishReason } = await generateObject({
    ...{ ...CALL, maxOutputTokens: 120, schema, prompt: "Where?" },
  });
  assertEquals(finishReason, "stop");
  assert(typeof object.city === "string" && Number.isInteger(object.days));
  const { output } = await generateText({
    ...{ ...CALL, maxOutputTokens: 120, prompt: "Where?", output: Output.object({ schema }) },
  });
  assertEquals(output, object);
});

test("ai: embeddings", async () => {
  const embeddings = provider.embeddingModel("embeddings");
  const one = await embed({ model: embeddings, value: "w1 w2" });
  assert(Math.abs(Math.hypot(...one.embedding) - 1) < 1e-4);
  const many = await embedMany({ model: embeddings, values: ["w1 w2", "w3"] });
  assertEquals(many.embeddings.length, 2);
  assert(many.usage.tokens > 2);
});

test("ai: an abort frees the slot", async () => {
  const controller = new AbortController();
  const before = (await server.stats()).cancelled;
  const stream = streamText({
    ...{ ...CALL, maxOutputTokens: 4000, prompt: "Long", abortSignal: controller.signal },
    onError() {},
  });
  for await (const _ of stream.textStream) {
    controller.abort();
    break;
  }
  let stats = await server.stats();
  for (let i = 0; i < 200 && (stats.active > 0 || stats.cancelled === before); i++) {
    await delay(5);
    stats = await server.stats();
  }
  assertEquals([stats.active, stats.inFlight], [0, 0]);
});

test("ai: an error has the status and the message of the server", async () => {
  const error = await assertRejects(
    () => generateText({ ...CALL, model: provider.chatModel("none"), prompt: "a" }),
    APICallError,
  );
  assertEquals([error.statusCode, error.isRetryable], [404, false]);
  assert(error.message.includes("none") || error.message.includes("model"), error.message);
});
