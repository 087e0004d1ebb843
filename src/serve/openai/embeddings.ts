/**
 * Vectors of texts: `/v1/embeddings`.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { vectorOf } from "../../models/embedder.ts";
import { type Incoming, json } from "../http/service.ts";
import type { EncoderModel, Input } from "./encoder_model.ts";
import type { Fields } from "./fields.ts";
import { textsOf } from "./inputs.ts";
import type { OpenAILimits } from "./limits.ts";

/** The bytes of a vector, as clients decode them. */
function base64Of({ buffer, byteOffset, byteLength }: Float32Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString("base64");
}

/** Answers `/v1/embeddings`. */
export async function embeddings(
  body: Fields,
  model: EncoderModel,
  { inputs, queue }: OpenAILimits,
  incoming: Incoming,
): Promise<Response> {
  incoming.note({ model: model.name });
  const given = body.need("input");
  const most = Math.min(inputs, queue);
  const texts = textsOf(given, most, model.encoder.vocabulary).map((one): Input => {
    const { place } = one;
    if (!("text" in one)) return { input: { ids: one.ids }, place };
    return one.text === ""
      ? given.fail("one or more texts that are not empty")
      : { input: one.text, place };
  });
  const isBase64 = body.get("encoding_format").oneOf(["float", "base64"]) === "base64";
  const dimensions = body.get("dimensions").integer(1, model.size);
  const isCut = body.get("truncate").flag() ?? false;
  const { rows, tokens } = await model.rows(texts, isCut, incoming);
  return json({
    object: "list",
    data: rows.map((row, index) => {
      const vector = vectorOf(row, dimensions ?? row.length, true);
      return { object: "embedding", index, embedding: isBase64 ? base64Of(vector) : [...vector] };
    }),
    model: model.name,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  });
}
