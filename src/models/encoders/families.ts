/**
 * The families of encoders, by what files call them.
 *
 * @module
 */
import type { Reader } from "../../llm/config/reader.ts";
import { bert, bertOfGguf, distilbert, mpnet, roberta } from "./bert.ts";
import { gemmaEmbedding, gemmaEmbeddingOfGguf } from "./gemma_embedding.ts";
import { modernBert, modernBertOfGguf } from "./modern_bert.ts";
import { nomicBert, nomicBertOfGguf } from "./nomic_bert.ts";
import type { AnyWeights, Encoder, LayerOptions } from "./parts.ts";

/** Asks for the layers of a model, whose sizes the fields have. */
export type Family = (weights: AnyWeights, reader: Reader, options: LayerOptions) => Encoder;

/** A row of the table of models that run. */
export interface EncoderFamily {
  readonly name: string;
  /** The `model_type` of config.json, and the function of such models. */
  readonly json: readonly string[];
  readonly make: Family;
  /** The `general.architecture` of GGUF files, and the function of such models. */
  readonly gguf?: string | undefined;
  readonly makeOfGguf?: Family | undefined;
  /** A model of the hub. */
  readonly example: string;
}

/** The families. */
export const ENCODERS: readonly EncoderFamily[] = [
  {
    name: "BERT",
    json: ["bert"],
    make: bert,
    gguf: "bert",
    makeOfGguf: bertOfGguf,
    example: "sentence-transformers/all-MiniLM-L6-v2",
  },
  {
    name: "RoBERTa, XLM-R",
    json: ["roberta", "xlm-roberta", "camembert"],
    make: roberta,
    example: "intfloat/multilingual-e5-base",
  },
  {
    name: "DistilBERT",
    json: ["distilbert"],
    make: distilbert,
    example: "distilbert/distilbert-base-uncased-finetuned-sst-2-english",
  },
  {
    name: "MPNet",
    json: ["mpnet"],
    make: mpnet,
    example: "sentence-transformers/all-mpnet-base-v2",
  },
  {
    name: "NomicBERT",
    json: ["nomic_bert"],
    make: nomicBert,
    gguf: "nomic-bert",
    makeOfGguf: nomicBertOfGguf,
    example: "nomic-ai/nomic-embed-text-v1.5",
  },
  {
    name: "ModernBERT",
    json: ["modernbert"],
    make: modernBert,
    gguf: "modern-bert",
    makeOfGguf: modernBertOfGguf,
    example: "nomic-ai/modernbert-embed-base",
  },
  {
    name: "EmbeddingGemma",
    json: ["gemma3_text"],
    make: gemmaEmbedding,
    gguf: "gemma-embedding",
    makeOfGguf: gemmaEmbeddingOfGguf,
    example: "google/embeddinggemma-300m",
  },
];
