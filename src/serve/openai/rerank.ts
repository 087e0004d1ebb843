/**
 * Texts by how well they answer a query: `/v1/rerank`, as Jina, Cohere and llama-server have it.
 *
 * @module
 */
import { sigmoid } from "../../models/classifier.ts";
import { type Incoming, json } from "../http/service.ts";
import type { EncoderModel, Input } from "./encoder_model.ts";
import type { Field, Fields } from "./fields.ts";
import type { OpenAILimits } from "./limits.ts";

/** A document: a text, or an object with one. */
function documentOf(field: Field): string {
  return typeof field.value === "string"
    ? field.value
    : (field.fields() ?? field.fail("a text")).need("text").text()!;
}

/** Answers `/v1/rerank`. */
export async function rerank(
  body: Fields,
  model: EncoderModel,
  { inputs, queue }: OpenAILimits,
  incoming: Incoming,
): Promise<Response> {
  incoming.note({ model: model.name });
  const query = body.need("query").text()!;
  const fields = body.need("documents").list(Math.min(inputs, queue), 1)!;
  const documents = fields.map(documentOf);
  const top = body.get("top_n").integer(1) ?? documents.length;
  const withDocuments = body.get("return_documents").flag() ?? false;
  const isCut = body.get("truncate").flag() ?? true;
  const pairs = documents.map((text, i): Input => ({
    input: [query, text],
    place: fields[i]!.place,
  }));
  const { rows, tokens } = await model.rows(pairs, isCut, incoming);
  const results = rows.map(([logit], index) => ({
    ...{ index, relevance_score: sigmoid(logit!) },
    ...withDocuments && { document: { text: documents[index] } },
  })).sort((a, b) => b.relevance_score - a.relevance_score).slice(0, top);
  return json({
    model: model.name,
    object: "list",
    usage: { prompt_tokens: tokens, total_tokens: tokens },
    results,
  });
}
