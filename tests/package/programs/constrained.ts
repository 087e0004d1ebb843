/**
 * A program that writes a text of a schema, for executables and permissions. The model is the file that
 * the first argument names, else `model.gguf` next to the program.
 *
 * @module
 */
import process from "node:process";
import { info } from "../../../mod.ts";
import * as constraints from "../../../src/constraints/mod.ts";
import * as llm from "../../../src/llm/mod.ts";
import { open as openTokenizer } from "../../../src/tokenizers/mod.ts";

const file = process.argv[2] ?? new URL("model.gguf", import.meta.url);
const tokenizer = await openTokenizer(file);
using engine = await llm.engine(file, { slots: 2 });
using constraint = await constraints.jsonSchema({
  type: "object",
  properties: { ok: { const: true }, level: { enum: [3] } },
  required: ["ok", "level"],
}, tokenizer);
let text = "";
for await (const token of engine.generate("a text", { constraint })) text += token.text;
console.log(info().devices.cpu, text);
