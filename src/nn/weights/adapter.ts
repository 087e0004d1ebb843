/**
 * LoRA adapters of PEFT, merged with the weights of a file when they are read.
 *
 * @module
 */
import { DTYPE } from "../../base/dtype.ts";
import { FormatError } from "../../base/errors.ts";
import { formatShape, sizeOf } from "../../base/shape.ts";
import { describe, describeAll } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast, contiguousOnCpu } from "../../core/copy.ts";
import type { Path } from "../../io/file.ts";
import { Fields } from "../../io/metadata.ts";
import { openSource, pathIn, readJson } from "../../io/model_folder.ts";
import type { Factors, FilledEntry, TensorEntry, TensorSource } from "../../io/source.ts";
import type { Operand } from "../../memory/operand.ts";
import { matmul } from "../../ops/matmul/op.ts";
import { isQuantized } from "../../ops/quantized/dtypes.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { apart } from "./ledger.ts";
import { load, loadFactors } from "./load.ts";

const CONFIG = "adapter_config.json", WEIGHTS = "adapter_model.safetensors";
/** What PEFT puts before the names of a model. */
const PREFIX = "base_model.model.";
/** The most of ranks, alphas and patterns. */
const MOST = 2 ** 20;

/** Keys of other methods than a sum of products, and values that are off. */
const UNSUPPORTED: Readonly<Record<string, readonly unknown[]>> = {
  use_dora: [false],
  use_qalora: [false],
  use_bdlora: [false],
  lora_bias: [false],
  bias: ["none"],
  layer_replication: [],
  alora_invocation_tokens: [],
  trainable_token_indices: [],
  arrow_config: [],
};
/** Initializations that change the weights of the model, which the adapter does not have. */
const CHANGES_MODEL = /^(pissa|olora|corda|loftq|lora_ga)/i;

/** The factors of the products. */
interface Scales {
  /** The factor of a module with products of that rank. */
  of(module: string, rank: number): number;
  /** Whether weights are [inputs, outputs], as in GPT-2. */
  readonly isTransposed: boolean;
}

/** Values of a number by the ends of names of modules. */
function patternsOf(fields: Fields, json: unknown, key: string): ReadonlyMap<string, number> {
  const given = (json as Record<string, unknown> | null)?.[key] ?? {};
  const inner = fields.within(key);
  const names = Object.keys(given);
  if (names.length > MOST) fields.fail(`${key} has ${names.length} patterns`);
  return new Map(names.map((name) => {
    // PEFT takes them for regular expressions.
    const plain = name.replace(/^\^/, "").replace(/\$$/, "").replaceAll("\\.", ".");
    if (!/^[\w.-]+$/.test(plain)) {
      fields.fail(`${key} has the pattern ${describe(name)}: only names are supported`);
    }
    return [plain, inner.number(name, { least: -MOST, most: MOST })];
  }));
}

/** The value of the first pattern with which the name of a module ends. */
function valueOf(patterns: ReadonlyMap<string, number>, module: string): number | undefined {
  for (const [name, value] of patterns) {
    if (module === name || module.endsWith(`.${name}`)) return value;
  }
  return undefined;
}

/** What a config says; throws for what is not a sum of products. */
function scalesOf(json: unknown, file: string): Scales {
  const fields = Fields.ofJson(json, file);
  const type = fields.text("peft_type");
  if (type !== "LORA") fields.reject("peft_type", '"LORA"');
  const given = json as Record<string, unknown>;
  for (const [key, off] of Object.entries(UNSUPPORTED)) {
    const value = given[key] ?? undefined;
    if (value !== undefined && !off.includes(value)) {
      fields.fail(`${key} is ${describe(value)}, which is not supported`);
    }
  }
  const modules = fields.has("modules_to_save") ? fields.texts("modules_to_save")! : [];
  if (modules.length > 0) {
    fields.fail(
      `modules_to_save has ${
        describeAll(modules, describe).join(", ")
      }: only products are supported`,
    );
  }
  const initialized = given["init_lora_weights"];
  if (typeof initialized === "string" && CHANGES_MODEL.test(initialized)) {
    fields.fail(
      `init_lora_weights is ${
        describe(initialized)
      }, which changes the model: convert the adapter ` +
        "to plain LoRA with PEFT",
    );
  }
  fields.integer("r", { least: 1, most: MOST });
  const alpha = fields.number("lora_alpha", { least: -MOST, most: MOST, otherwise: 8 });
  const alphas = patternsOf(fields, json, "alpha_pattern");
  // The ranks are those of the tensors.
  patternsOf(fields, json, "rank_pattern");
  const isStable = fields.flag("use_rslora") ?? false;
  return {
    of: (module, rank) => (valueOf(alphas, module) ?? alpha) / (isStable ? Math.sqrt(rank) : rank),
    isTransposed: fields.flag("fan_in_fan_out") ?? false,
  };
}

/** The two factors of a product. */
interface Pair {
  a?: TensorEntry;
  b?: TensorEntry;
  /** The weight in the place of the model's, as PEFT saves embeddings. */
  base?: TensorEntry;
  /** Whether it is for an embedding, whose rows are columns of the product. */
  isEmbedding: boolean;
}

/** The pairs of an adapter by modules of the model. */
function pairsOf(source: TensorSource): Map<string, Pair> {
  const pairs = new Map<string, Pair>();
  for (const [name, entry] of source.entries) {
    const found = /^(.+)\.(?:lora_(embedding_)?([AB])(?:\.weight)?|base_layer\.weight)$/.exec(name);
    if (!name.startsWith(PREFIX) || found === null) {
      throw new FormatError(
        `tensor ${name} is no factor of a product: those are ${PREFIX}….lora_A.weight and lora_B`,
        source.file,
        0,
      );
    }
    const [, path = "", embedding, factor] = found;
    const module = path.slice(PREFIX.length);
    const pair = pairs.get(module) ?? { isEmbedding: false };
    const place = factor === undefined ? "base" : factor === "A" ? "a" : "b";
    if (pair[place] !== undefined) {
      throw new FormatError(
        `tensor ${name} is the second of its kind for ${module}`,
        source.file,
        0,
      );
    }
    pair[place] = entry;
    pair.isEmbedding ||= embedding !== undefined;
    pairs.set(module, pair);
  }
  return pairs;
}

/** The elements of an operand on the CPU, in `into`. */
function writeTo(into: Uint8Array, x: Operand): void {
  const { storage, layout } = contiguousOnCpu(x);
  const begin = storage.array.byteOffset + layout.offset * storage.info.bytes;
  into.set(new Uint8Array(storage.array.buffer, begin, into.length));
}

/** The sum of a weight and the product of an adapter, in the weight's dtype. */
function mergedEntry(base: TensorEntry, factors: Factors, isTransposed: boolean): FilledEntry {
  const { dtype, type, shape } = base;
  const fill = (into: Uint8Array): void =>
    apart(() => {
      const { a, b } = loadFactors(factors, undefined);
      const product = matmul(b, a);
      const added = isTransposed ? applyView(VIEWS.transpose, product, "transpose") : product;
      writeTo(into, cast(apply(MAP.add, load(base, undefined, "float32"), added), dtype!));
    });
  return { dtype, type, shape, fill };
}

/** A factor whose rows have another order. */
function orderedEntry(base: TensorEntry, order: (b: Operand) => Operand): FilledEntry {
  const { dtype, type, shape } = base;
  const fill = (into: Uint8Array): void => apart(() => writeTo(into, order(load(base, undefined))));
  return { dtype, type, shape, fill };
}

/** Where the weight of a module is in a file. */
export interface Place {
  /** The name of the tensor. */
  readonly name: string;
  /** B with its rows in the order that the tensor has, if it is another one than that of PEFT. */
  readonly order?: ((b: Operand) => Operand) | undefined;
}

/** Where the weights of modules are; undefined for modules that a file does not have. */
export type PlaceOf = (module: string) => Place | undefined;

const isFloat = ({ dtype }: TensorEntry): boolean =>
  dtype !== undefined && DTYPE[dtype].kind === "f";

/**
 * `source` with the adapter in `folder` added to its weights, when they are read. Quantized weights
 * stay as they are: they get the factors of the product.
 *
 * @throws {FormatError} For adapters that are not LoRA, and for those that do not fit the weights.
 */
export async function withAdapter(
  source: TensorSource,
  folder: Path,
  placeOf: PlaceOf = (module) => ({ name: `${module}.weight` }),
): Promise<TensorSource> {
  const json = await readJson(folder, CONFIG);
  if (json === undefined) {
    throw new FormatError(`the adapter has no ${CONFIG}`, String(folder), 0);
  }
  const scales = scalesOf(json, `${CONFIG} of ${folder}`);
  const adapter = await openSource(await pathIn(folder, WEIGHTS));
  const fail = (message: string): never => {
    throw new FormatError(message, adapter.file, 0);
  };
  const entries = new Map(source.entries);
  for (const [module, { a, b, base: own, isEmbedding }] of pairsOf(adapter)) {
    const { name, order } = placeOf(module) ?? { name: `${module}.weight` };
    const found = entries.get(name);
    const base = found && (own ?? found);
    if (base === undefined) {
      return fail(`the adapter changes ${name}, and ${source.file} has no tensor of that name`);
    }
    if (a === undefined || b === undefined) {
      return fail(`${module} has only one of lora_A and lora_B`);
    }
    const isTransposed = isEmbedding || scales.isTransposed;
    const staysQuantized = base.dtype !== undefined && isQuantized(DTYPE[base.dtype]);
    const fitsBase = isFloat(base) || staysQuantized && !isTransposed;
    if (!fitsBase || !isFloat(a) || !isFloat(b)) {
      const types = [base, a, b].map(({ type }) => type).join(", ");
      return fail(
        `${name} and its adapter are ${types}: an adapter needs floats, or a quantized weight of a ` +
          "linear layer",
      );
    }
    const rows = isTransposed ? base.shape.toReversed() : base.shape;
    const [rank = 0] = a.shape;
    const fits = base.shape.length === 2 && rank > 0 && sizeOf(a.shape) === rank * rows[1]! &&
      sizeOf(b.shape) === rank * rows[0]! && a.shape[1] === rows[1] && b.shape[1] === rank;
    if (!fits) {
      return fail(
        `${name} has shape ${formatShape(base.shape)}, and its adapter ${
          formatShape(a.shape)
        } and ${formatShape(b.shape)}`,
      );
    }
    const turned = order === undefined ? b : orderedEntry(b, order);
    const factors: Factors = { a, b: turned, scale: scales.of(module, rank) };
    entries.set(
      name,
      staysQuantized ? { ...base, factors } : mergedEntry(base, factors, isTransposed),
    );
  }
  return { ...source, entries };
}
