/**
 * What a family of models is: the files that it takes, and the layers that it makes of them.
 *
 * @module
 */
import { GGUF_NAMES, TRANSFORMERS_NAMES } from "../blocks/names.ts";
import type { Format, MakeBlock } from "../blocks/step.ts";
import type { ModelConfig } from "../config/config.ts";
import type { Reader } from "../config/reader.ts";

/**
 * The parts of a config that a family has beside `config`, or in place of them, of the fields of a
 * file: those of config.json, or the metadata of GGUF below the name of the architecture.
 */
export type ReadConfig = (fields: Reader, config: ModelConfig) => Partial<ModelConfig>;

/** A format of files. */
export interface FileFormat extends Format {
  /** What the family reads of the file's fields itself. */
  readonly read?: ReadConfig;
}

/** GGUF files. */
export interface GgufFormat extends FileFormat {
  /** The values of `general.architecture`. */
  readonly architectures: readonly string[];
  /** Whether neighboring columns make a pair of positions. */
  readonly interleaved?: boolean;
  /** The size of windows, if a file lacks it; 0, for none, by default. */
  readonly window?: number;
}

/** Folders with config.json and safetensors. */
export interface TransformersFormat extends FileFormat {
  /** The values of `model_type`. */
  readonly types: readonly string[];
}

/** A family of models, whose layers one function makes. */
export interface Family {
  /** Its name. */
  readonly name: string;
  /** What its layers have, for the documentation. */
  readonly features: string;
  /** The GGUF files that it takes. */
  readonly gguf: GgufFormat;
  /** The config.json and safetensors that it takes. */
  readonly transformers: TransformersFormat;
  /** The activations of gates that a config.json may name; the first is the default. */
  readonly activations: readonly string[];
  /** Every how many layers one sees all tokens, and the others a window, if a file lacks that. */
  readonly windowPeriod?: number;
  /** Whether layers may be short convolutions. */
  readonly hasConvolutions?: boolean;
  /** Makes a layer. */
  readonly block: MakeBlock;
}

/** The activations of most families. */
export const SILU = ["silu", "swish"] as const;

/** Those of Gemma. */
export const GELU_TANH = ["gelu_pytorch_tanh"] as const;

/** The usual names in GGUF files. */
export const GGUF = { names: GGUF_NAMES } as const;

/** The usual names in safetensors. */
export const TRANSFORMERS = { names: TRANSFORMERS_NAMES } as const;
