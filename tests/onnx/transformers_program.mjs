/**
 * A program of a user of transformers.js: what it does with the models of
 * scripts/golden/onnx_transformers.py. Nothing in it knows which library runs them.
 *
 *     program.mjs FOLDER RESULTS [PATTERN]
 *
 * FOLDER has the models, RESULTS is a file that it writes, PATTERN matches names and dtypes.
 *
 * @module
 */
import {
  AutoModelForSeq2SeqLM,
  AutoProcessor,
  AutoTokenizer,
  env,
  pipeline,
  RawImage,
  SamModel,
  Tensor,
  WhisperForConditionalGeneration,
} from "@huggingface/transformers";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";

const [folder, file, pattern = ""] = process.argv.slice(2);
env.localModelPath = folder;
env.allowRemoteModels = false;
env.useFSCache = false;

/** Numbers of a fixed sequence, from -scale to scale. */
function numbers(length, scale = 1) {
  let seed = 12345;
  return Float32Array.from({ length }, () => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return scale * (seed / 1073741824 - 1);
  });
}

const TEXTS = ["the cat sat on the mat", "i love this film, it is very good and great!"];
const PICTURE = new RawImage(
  Uint8ClampedArray.from(numbers(48 * 40 * 3), (x) => 127.5 * (x + 1)),
  48,
  40,
  3,
);
const SOUND = numbers(16000, 0.1);
const LENGTH = { max_new_tokens: 24, min_new_tokens: 24, do_sample: false };

/** The number of the bits of a 16-bit float. */
function half(bits) {
  const [exponent, fraction] = [bits >> 10 & 31, bits & 1023];
  const size = exponent === 0
    ? fraction * 2 ** -24
    : exponent === 31
    ? (fraction === 0 ? Infinity : NaN)
    : (1024 + fraction) * 2 ** (exponent - 25);
  return bits & 0x8000 ? -size : size;
}

/** Tensors as what JSON keeps. */
function plain(value) {
  if (value instanceof Tensor) {
    const { dims, data } = value;
    if (data instanceof Uint16Array) return { dims, numbers: Array.from(data, half) };
    const isWhole = data instanceof BigInt64Array;
    return { dims, [isWhole ? "ids" : "numbers"]: Array.from(data, Number) };
  }
  if (value instanceof RawImage) {
    return { dims: [value.height, value.width], pixels: Array.from(value.data) };
  }
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]));
}

async function withPipeline(task, name, dtype, options, use) {
  const made = await pipeline(task, name, { dtype, ...options });
  try {
    return plain(await use(made));
  } finally {
    await made.dispose();
  }
}

async function withModel(Model, name, dtype, use) {
  const model = await Model.from_pretrained(name, { dtype });
  try {
    return plain(await use(model));
  } finally {
    await model.dispose();
  }
}

const TASKS = {
  "feature-extraction": (p) => p(TEXTS, { pooling: "mean", normalize: true }),
  "fill-mask": (p) => p(`the cat sat on the ${p.tokenizer.mask_token}`),
  "text-classification": (p) => p(TEXTS, { top_k: 3 }),
  "zero-shot-classification": (p) => p(TEXTS[1], ["film", "dog", "house"]),
  "question-answering": (p) => p("where is the cat", "the cat is on the mat", { top_k: 3 }),
  "token-classification": (p) => p(TEXTS[0]),
  "text-generation": async (p) => {
    const ids = await p.model.generate({ ...p.tokenizer("hello, the cat"), ...LENGTH });
    // Of dtypes that round, other tokens may be chosen where two are near: these are compared.
    const { logits } = await p.model(p.tokenizer("the movie was great and the dog sat on it"));
    const several = p.tokenizer(["hello, the cat", "a dog"], { padding: true });
    const batch = await p.model.generate({ ...several, ...LENGTH, max_new_tokens: 8 });
    return {
      logits,
      ids,
      batch,
      text: await p("the dog", { max_new_tokens: 8, do_sample: false }),
    };
  },
  "audio-classification": (p) => p(SOUND, { top_k: 3 }),
  "automatic-speech-recognition": (p) => p(SOUND),
  "image-classification": (p) => p(PICTURE, { top_k: 3 }),
  "image-feature-extraction": (p) => p(PICTURE),
  "zero-shot-image-classification": (p) => p(PICTURE, ["a cat", "a dog"]),
  "zero-shot-object-detection": (p) => p(PICTURE, ["a cat", "a dog"], { threshold: 0 }),
  "object-detection": (p) => p(PICTURE, { threshold: 0 }),
  "image-segmentation": (p) => p(PICTURE),
  "depth-estimation": (p) => p(PICTURE),
  "image-to-text": (p) => p(PICTURE, LENGTH),
};

const MODELS = {
  "text2text-generation": (name, dtype) =>
    withModel(AutoModelForSeq2SeqLM, name, dtype, async (model) => {
      const tokenizer = await AutoTokenizer.from_pretrained(name);
      const inputs = tokenizer("hello, the cat sat");
      const { logits } = await model({
        ...inputs,
        decoder_input_ids: new Tensor("int64", [0n, 5n, 70n, 12n], [1, 4]),
      });
      return { logits, ids: await model.generate({ ...inputs, ...LENGTH }) };
    }),
  "whisper": (name, dtype) =>
    withModel(WhisperForConditionalGeneration, name, dtype, async (model) => {
      const processor = await AutoProcessor.from_pretrained(name);
      return model.generate({ ...await processor(SOUND), ...LENGTH, is_multilingual: false });
    }),
  "sam": (name, dtype) =>
    withModel(SamModel, name, dtype, async (model) => {
      const { pred_masks, iou_scores } = await model({
        pixel_values: new Tensor("float32", numbers(3 * 64 * 64), [1, 3, 64, 64]),
        input_points: new Tensor("float32", [20, 30], [1, 1, 1, 2]),
        input_labels: new Tensor("int64", [1n], [1, 1, 1]),
      });
      return { pred_masks, iou_scores };
    }),
};

const families = JSON.parse(readFileSync(`${folder}/families.json`, "utf8"));
const results = {};
for (const [name, { task, dtypes, external }] of Object.entries(families)) {
  for (const dtype of dtypes) {
    const key = `${name} ${dtype}`;
    if (!new RegExp(pattern).test(key)) continue;
    const start = performance.now();
    try {
      const options = external ? { use_external_data_format: true } : {};
      results[key] = task in MODELS
        ? await MODELS[task](name, dtype)
        : await withPipeline(task, name, dtype, options, TASKS[task]);
      console.log(key, `${(performance.now() - start).toFixed(0)} ms`);
    } catch (error) {
      results[key] = { error: String(error?.message ?? error).slice(0, 600) };
      console.log(key, "failed:", results[key].error);
    }
    writeFileSync(file, JSON.stringify(results));
  }
}
process.exit(0);
