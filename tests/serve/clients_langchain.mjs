/**
 * A program of `@langchain/openai`, which clients_langchain_test.ts runs in a folder that has the package.
 * Its arguments are the name of the package, as it is no dependency of the tests, and the address of a
 * server; it prints what it has seen as JSON.
 *
 * @module
 */
import process from "node:process";

const [name, baseURL] = process.argv.slice(-2);
const { ChatOpenAI, OpenAIEmbeddings } = await import(name);
const configuration = { baseURL };
const common = { apiKey: "sk-any", configuration, maxRetries: 0 };
const model = new ChatOpenAI({
  ...{ ...common, model: "chat", maxTokens: 12, modelKwargs: { seed: 1 }, streamUsage: true },
});

const whole = await model.invoke("Who is it?");
let text = "", usage;
for await (const part of await model.stream("Who is it?")) {
  text += part.content;
  usage = part.usage_metadata ?? usage;
}

const schema = {
  title: "place",
  type: "object",
  properties: { city: { type: "string", maxLength: 6 } },
  required: ["city"],
  additionalProperties: false,
};
const wide = new ChatOpenAI({ ...common, model: "chat", maxTokens: 120 });
const object = await wide.withStructuredOutput(schema, { method: "jsonSchema" }).invoke("Where?");
const weather = { type: "function", function: { name: "weather", parameters: schema } };
const called = await wide.bindTools([weather], { tool_choice: "required" }).invoke("Rain?");

const embeddings = new OpenAIEmbeddings({ ...common, model: "embeddings" });
const vectors = await embeddings.embedDocuments(["w1 w2", "w3"]);
const query = await embeddings.embedQuery("w1 w2");

const wrong = new ChatOpenAI({ ...common, model: "none" });
const status = await wrong.invoke("a").then(() => 200, (error) => error.status);

console.log(JSON.stringify({
  ...{ whole: whole.content, wholeUsage: whole.usage_metadata, text, usage, object, status },
  ...{ calls: called.tool_calls, vectors, query },
}));
