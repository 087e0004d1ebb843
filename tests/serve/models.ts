/**
 * Small models for tests of services.
 *
 * @module
 */
import { assert } from "@std/assert";
import { io, tensor } from "../../mod.ts";
import { choices } from "../../src/constraints/mod.ts";
import { Engine } from "../../src/llm/engine.ts";
import { Chat, Classifier, Embedder } from "../../src/models/mod.ts";
import { weight } from "../llm/models.ts";
import { encoders, type GoldenEncoder, safetensorsOf } from "../models/golden.ts";
import { tinyTokenizer } from "../models/tokenizer.ts";
import { loose } from "../support.ts";
import { randomLlama } from "../support/llama.ts";

const MESSAGES = `{%- if tools %}<|begin|>tools
{%- for tool in tools %} {{ tool | tojson }}{% endfor %}<|end|>{% endif -%}
{%- for m in messages -%}
{%- if m.role == 'critic' %}{{ raise_exception('no critics') }}{% endif -%}
<|begin|>{{ m.role }} {{ m.content }}{% if m.tool_calls %}{% for c in m.tool_calls %}CALL<|end|>
{%- endfor %}{% else %}<|end|>{% endif %}
{%- endfor %}{% if add_generation_prompt %}<|begin|>assistant {% endif %}`;

/** Templates of families: their form of a call takes the place of CALL. */
export const TEMPLATES = {
  hermes: MESSAGES.replace("CALL", "<tool_call>{{ c.function | tojson }}</tool_call>"),
  mistral: MESSAGES.replace("CALL", "[TOOL_CALLS][{{ c.function | tojson }}]"),
  llama: MESSAGES.replace("CALL", "<|python_tag|>{{ c.function | tojson }}"),
  none: MESSAGES.replace("{% if tools %}", "{% if false %}"),
};

const SIZES = { layers: 1, width: 64, heads: 4, groups: 2, hidden: 64, vocabulary: 320 };

/** The files of a model by their names. */
type Files = Readonly<Record<string, Uint8Array | string>>;

/** The files of a chat model with random weights; its tokens are bytes and pairs of letters. */
export function chatFiles(template: keyof typeof TEMPLATES = "hermes", context = 2048): Files {
  return {
    "model.gguf": randomLlama("q8_0", { ...SIZES, context, template: TEMPLATES[template] }),
  };
}

/** A chat model with random weights. */
export function openChat(template?: keyof typeof TEMPLATES, context?: number): Promise<Chat> {
  return Chat.open(chatFiles(template, context));
}

function filesOf({ config }: GoldenEncoder, weights: Uint8Array): Files {
  const tiny = tinyTokenizer(config["vocab_size"]);
  return {
    "config.json": JSON.stringify(config),
    "tokenizer.json": JSON.stringify(tiny.tokenizer),
    "tokenizer_config.json": JSON.stringify(tiny.config),
    "model.safetensors": weights,
  };
}

/** The files of an embedding model, of texts such as "w1 w2". */
export function embedderFiles(): Files {
  const golden = encoders["modernbert"]!;
  return filesOf(golden, safetensorsOf(golden));
}

/** An embedding model. */
export function openEmbedder(): Promise<Embedder> {
  return Embedder.open(embedderFiles());
}

/** The files of a model that ranks such texts. */
export function rerankerFiles(): Files {
  const golden = encoders["roberta with a head"]!;
  const weights = Object.entries(golden.tensors).map(([name, shape]) => {
    const own = name.startsWith("classifier.out_proj") ? [1, ...shape.slice(1)] : [...shape];
    return [name, tensor(weight(name, own), { shape: own })];
  });
  return filesOf(golden, io.encodeSafetensors(loose(Object.fromEntries(weights))));
}

/** A model that ranks such texts. */
export function openReranker(): Promise<Classifier> {
  return Classifier.open(rerankerFiles());
}

/** Makes all engines answer with these texts, one after the other, until the end of a test. */
export function saying(chat: Chat, ...answers: readonly string[]): Disposable {
  const { generate } = Engine.prototype;
  let next = 0;
  Engine.prototype.generate = function (prompt, options) {
    const answer = answers[next++];
    assert(answer !== undefined, "the model was asked too often");
    const constraint = {
      start: async (context: Parameters<Awaited<ReturnType<typeof choices>>["start"]>[0]) =>
        await (await choices([answer], chat.tokenizer)).start(context),
    };
    return generate.call(this, prompt, { ...options, constraint });
  };
  return {
    [Symbol.dispose]() {
      Engine.prototype.generate = generate;
    },
  };
}
