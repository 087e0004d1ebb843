/**
 * Ops on texts, which run on the host.
 *
 * @module
 */
import { broadcastShapes, sizeOf } from "../../base/shape.ts";
import { tensor } from "../../tensor/create.ts";
import { isExponential } from "../../tokenizers/ambiguity.ts";
import type { Call, Implementation } from "../graph/call.ts";
import { int64, Strings, type T, type Value } from "../graph/values.ts";

/** Input `k`, texts. */
function stringsOf(call: Call, k: number): Strings {
  return call.strings(k) ?? call.fail(`input ${k} is no tensor of texts`);
}

/** The place of the element of `from` at a place in `shape`, to which it is broadcast. */
export function broadcastPlace(
  from: readonly number[],
  shape: readonly number[],
  index: number,
): number {
  let [place, stride, rest] = [0, 1, index];
  for (let k = shape.length - 1, j = from.length - 1; j >= 0; k--, j--) {
    place += from[j] === 1 ? 0 : rest % shape[k]! * stride;
    stride *= from[j]!;
    rest = Math.floor(rest / shape[k]!);
  }
  return place;
}

function zip<R>(a: Strings, b: Strings, join: (x: string, y: string) => R): [R[], number[]] {
  const shape = broadcastShapes("join texts", a.shape, b.shape);
  const data = Array.from(
    { length: sizeOf(shape) },
    (_, i) =>
      join(
        a.data[broadcastPlace(a.shape, shape, i)]!,
        b.data[broadcastPlace(b.shape, shape, i)]!,
      ),
  );
  return [data, [...shape]];
}

/** Which texts are equal. */
export function stringsEqual(a: Strings, b: Strings): T {
  const [data, shape] = zip(a, b, (x, y) => x === y);
  return tensor(data, { dtype: "bool" }).reshape(shape) as T;
}

/** The elements of input `k` as texts. */
export function castStrings(call: Call, k: number): Strings {
  const x = call.tensor(k);
  const isFloat = /float/.test(x.dtype);
  const texts = call.elements(k).map((value) => {
    if (typeof value === "boolean") return value ? "1" : "0";
    if (typeof value === "bigint") return String(value);
    if (Number.isNaN(value)) return "NaN";
    if (!Number.isFinite(value)) return value > 0 ? "INF" : "-INF";
    return isFloat ? shortest(value, x.dtype) : String(value);
  });
  return new Strings(texts, x.shape);
}

/** The shortest text that reads as the same float, as NumPy writes it. */
function shortest(value: number, dtype: string): string {
  if (dtype === "float64") return String(value);
  const round = dtype === "float32" ? Math.fround : (x: number): number => x;
  for (let digits = 1; digits < 17; digits++) {
    const text = value.toPrecision(digits);
    if (round(Number(text)) === value) return String(Number(text));
  }
  return String(value);
}

function concatTexts(call: Call): readonly Value[] {
  const [data, shape] = zip(stringsOf(call, 0), stringsOf(call, 1), (x, y) => x + y);
  return [new Strings(data, shape)];
}

function normalize(call: Call): readonly Value[] {
  const { data, shape } = stringsOf(call, 0);
  const action = call.node.string("case_change_action", "NONE");
  const exact = call.node.flag("is_case_sensitive");
  const stopwords = call.node.strings("stopwords") ?? [];
  const change = (text: string): string =>
    action === "LOWER" ? text.toLowerCase() : action === "UPPER" ? text.toUpperCase() : text;
  const fold = (text: string): string => exact ? text : text.toLowerCase();
  const stops = new Set(stopwords.map(fold));
  if (shape.length > 2 || shape.length === 2 && shape[0] !== 1) {
    call.failShape(`input 0 has shape [${shape}], expected [n] or [1, n]`);
  }
  const kept = data.filter((text) => !stops.has(fold(text))).map(change);
  const texts = kept.length === 0 ? [""] : kept;
  return [new Strings(texts, shape.length === 2 ? [1, texts.length] : [texts.length])];
}

function split(call: Call): readonly Value[] {
  const { data, shape } = stringsOf(call, 0);
  const delimiter = call.node.string("delimiter", "");
  const most = call.node.has("maxsplit") ? call.node.int("maxsplit") : -1;
  const all = data.map((text) => splitText(text, delimiter, most < 0 ? Infinity : most));
  const width = all.reduce((n, parts) => Math.max(n, parts.length), 0);
  const padded = all.flatMap((
    parts,
  ) => [...parts, ...Array<string>(width - parts.length).fill("")]);
  return [new Strings(padded, [...shape, width]), int64(all.map(({ length }) => length), shape)];
}

/** Splits as Python's str.split does. */
function splitText(text: string, delimiter: string, most: number): string[] {
  const parts: string[] = [];
  if (delimiter !== "") {
    if (text === "") return [];
    let rest = text;
    while (parts.length < most) {
      const at = rest.indexOf(delimiter);
      if (at < 0) break;
      parts.push(rest.slice(0, at));
      rest = rest.slice(at + delimiter.length);
    }
    return [...parts, rest];
  }
  let rest = text.trimStart();
  while (rest !== "" && parts.length < most) {
    const at = rest.search(/\s/);
    if (at < 0) break;
    parts.push(rest.slice(0, at));
    rest = rest.slice(at).trimStart();
  }
  const last = rest.trimEnd();
  return last === "" ? parts : [...parts, parts.length < most ? last : rest];
}

function matchWhole(call: Call): readonly Value[] {
  const { data, shape } = stringsOf(call, 0);
  const pattern = call.node.string("pattern");
  let regex: RegExp;
  try {
    regex = new RegExp(`^(?:${pattern})$`, "su");
  } catch {
    return call.fail(`pattern ${JSON.stringify(pattern)} is no regular expression`);
  }
  // ONNX's engine takes linear time; JavaScript's tries all ways to match.
  if (isExponential(pattern)) {
    return call.fail(`pattern ${JSON.stringify(pattern)} may take exponential time`);
  }
  const found = data.map((text) => regex.test(text));
  return [tensor(found, { dtype: "bool" }).reshape(shape) as T];
}

/** The most terms that a vector of a document has. */
const MOST_TERMS = 2 ** 28;

/** Terms of documents: counts of n-grams, or their weights. */
function tfIdf(call: Call): readonly Value[] {
  const { node } = call;
  const mode = node.string("mode"), most = node.int("max_skip_count");
  const [least, largest] = [node.int("min_gram_length"), node.int("max_gram_length")];
  const counts = node.ints("ngram_counts") ?? call.fail("ngram_counts are missing");
  const indexes = node.ints("ngram_indexes") ?? call.fail("ngram_indexes are missing");
  const weights = node.floats("weights");
  const texts = call.strings(0);
  const pool: readonly (string | number)[] =
    (texts === undefined ? node.ints("pool_int64s") : node.strings("pool_strings")) ?? [];
  const input = texts === undefined ? call.numbers(0) : texts.data;
  const shape = texts === undefined ? call.tensor(0).shape : texts.shape;
  const size = indexes.reduce((n, k) => Math.max(n, k + 1), 0);
  if (indexes.some((k) => k < 0) || size > MOST_TERMS) {
    call.fail(`ngram_indexes are not from 0 to ${MOST_TERMS - 1}`);
  }
  const places = new Map<string, number>();
  let id = 0;
  counts.forEach((start, n) => {
    const length = n + 1, end = counts[n + 1] ?? pool.length;
    for (let at = start; at + length <= end; at += length) {
      places.set(JSON.stringify(pool.slice(at, at + length)), id++);
    }
  });
  const [rows, columns] = shape.length === 2 ? [shape[0]!, shape[1]!] : [1, shape[0] ?? 1];
  const out = new Float32Array(rows * size);
  for (let row = 0; row < rows; row++) {
    const line = input.slice(row * columns, (row + 1) * columns);
    for (let length = Math.max(least, 1); length <= Math.min(largest, columns); length++) {
      // Skips do not change single terms, and terms of more skips do not fit.
      const skips = length === 1 ? 0 : Math.min(most, Math.floor((columns - 1) / (length - 1)) - 1);
      for (let skip = 0; skip <= skips; skip++) {
        const step = skip + 1;
        for (let start = 0; start + (length - 1) * step < columns; start++) {
          const gram = Array.from({ length }, (_, k) => line[start + k * step]!);
          const found = places.get(JSON.stringify(gram));
          if (found !== undefined) out[row * size + indexes[found]!]! += 1;
        }
      }
    }
  }
  const weightOf = (k: number): number => weights?.[indexes.indexOf(k)] ?? 1;
  const result = out.map((count, at) => {
    const k = at % size;
    if (mode === "TF") return count;
    return count === 0 ? 0 : mode === "IDF" ? weightOf(k) : count * weightOf(k);
  });
  return [tensor(Array.from(result)).reshape(shape.length === 2 ? [rows, size] : [size]) as T];
}

/** Maps keys to values, by the lists of the attributes. */
function labelEncoder(call: Call): readonly Value[] {
  const { node } = call;
  type Key = string | number;
  const read = (name: string): readonly Key[] | undefined =>
    node.strings(`${name}_strings`) ?? node.ints(`${name}_int64s`) ?? node.floats(`${name}_floats`);
  const list = (name: string): readonly Key[] => {
    const value = node.value(`${name}_tensor`);
    if (value instanceof Strings) return value.data;
    if (value !== undefined && value !== null && "dtype" in value) {
      return Array.from(
        (value as T).flatten().toTypedArray() as ArrayLike<number | bigint>,
        Number,
      );
    }
    return read(name) ?? call.fail(`${name} are missing`);
  };
  const keys = list("keys"), values = list("values");
  const map = new Map(keys.map((key, i) => [String(key), values[i]!]));
  const texts = call.strings(0);
  const input: readonly Key[] = texts === undefined ? call.numbers(0) : texts.data;
  const shape = texts === undefined ? call.tensor(0).shape : texts.shape;
  const given = node.value("default_tensor");
  const ofTensor = given instanceof Strings ? given.data[0] : given instanceof Object &&
      "dtype" in given
    ? Number((given as T).item())
    : undefined;
  if (typeof values[0] === "string") {
    const otherwise = ofTensor ?? node.string("default_string", "_Unused");
    return [new Strings(input.map((key) => String(map.get(String(key)) ?? otherwise)), shape)];
  }
  const isInt = node.has("values_int64s");
  const like = node.value("values_tensor");
  const otherwise = ofTensor ??
    (isInt ? node.int("default_int64", -1) : node.float("default_float", -0));
  const numbers = input.map((key) => Number(map.get(String(key)) ?? otherwise));
  const dtype = like !== undefined && like !== null && "dtype" in like
    ? (like as T).dtype
    : isInt
    ? "int64"
    : "float32";
  const wide: T = tensor(numbers, { dtype: "float64" });
  return [wide.reshape(shape).astype(dtype)];
}

/** The ops. */
export const TEXTS: Readonly<Record<string, Implementation>> = {
  StringConcat: concatTexts,
  StringNormalizer: normalize,
  StringSplit: split,
  RegexFullMatch: matchWhole,
  TfIdfVectorizer: tfIdf,
  "ai.onnx.ml.LabelEncoder": labelEncoder,
};
