/**
 * The kinds of files, by their first bytes: what a file is that a reader cannot read, and what reads
 * it.
 *
 * Every reader asks {@link checkKind} before it calls a file damaged. Knows no format further than
 * its begin.
 *
 * @module
 */
import { FormatError } from "../base/errors.ts";

/** A kind of file. */
interface Kind {
  /** With an article: "a GGUF file". */
  readonly name: string;
  /** What reads it, or what to do. */
  readonly hint: string;
}

const TO_SAFETENSORS = "in Python, torch.load reads it and safetensors.torch.save_file writes " +
  "its weights for nn.open()";

/** The kinds, by the names that the readers use. */
const KINDS = {
  safetensors: {
    name: "a safetensors file",
    hint: "nn.open() and io.openSafetensors() read it",
  },
  gguf: { name: "a GGUF file", hint: "nn.open() and llm.open() read it" },
  npy: { name: "an npy file", hint: "io.readNpy() reads it" },
  npz: { name: "an npz archive", hint: "nn.open() and io.readNpz() read it" },
  png: { name: "a PNG file", hint: "readImage() of @rowmajor/tensor/images reads it" },
  jpeg: { name: "a JPEG file", hint: "readImage() of @rowmajor/tensor/images reads it" },
  json: { name: "a JSON file", hint: "JSON.parse() reads it" },
  torch: { name: "a PyTorch checkpoint", hint: TO_SAFETENSORS },
  pickle: { name: "a Python pickle", hint: TO_SAFETENSORS },
  onnx: {
    name: "an ONNX model",
    hint: "the packages onnxruntime-node and onnxruntime-web read it",
  },
  keras: { name: "a Keras model", hint: "keras.models.load_model reads it in Python" },
  hdf5: { name: "an HDF5 file", hint: "h5py reads it in Python" },
  tflite: { name: "a TensorFlow Lite model", hint: "LiteRT reads it" },
  ggml: { name: "a GGML file, older than GGUF", hint: "early versions of llama.cpp read it" },
  arrow: { name: "an Arrow file", hint: "the package apache-arrow reads it" },
  parquet: { name: "a Parquet file", hint: "the package parquet-wasm reads it" },
  matlab: { name: "a MATLAB file", hint: "scipy.io.loadmat reads it in Python" },
  zip: { name: "a zip archive", hint: "unzip extracts its files" },
  tar: { name: "a tar archive", hint: "tar extracts its files" },
  gzip: { name: "a gzip file", hint: "gunzip decompresses it" },
  zstd: { name: "a Zstandard file", hint: "zstd -d decompresses it" },
  xz: { name: "an xz file", hint: "xz -d decompresses it" },
  bzip2: { name: "a bzip2 file", hint: "bunzip2 decompresses it" },
  sevenZip: { name: "a 7z archive", hint: "7z extracts its files" },
  gif: { name: "a GIF picture", hint: "the package sharp reads it, and writes PNG files" },
  webp: { name: "a WebP picture", hint: "the package sharp reads it, and writes PNG files" },
  tiff: { name: "a TIFF picture", hint: "the package sharp reads it, and writes PNG files" },
  heif: {
    name: "a HEIF or AVIF picture",
    hint: "the package sharp reads it, and writes PNG files",
  },
  bmp: { name: "a BMP picture", hint: "Pillow reads it in Python, and writes PNG files" },
  pdf: { name: "a PDF document", hint: "a PDF viewer shows it" },
  html: {
    name: "an HTML page",
    hint: "a browser shows it; perhaps it is the error of a failed download",
  },
  xml: {
    name: "an XML document",
    hint: "a browser shows it; perhaps it is the error of a failed download",
  },
  lfs: { name: "a git-lfs pointer", hint: "git lfs pull fetches the file that it stands for" },
  zeros: {
    name: "a file that begins with zeros only",
    hint: "perhaps its download did not end; fetch it again",
  },
  empty: { name: "an empty file", hint: "perhaps its download failed; fetch it again" },
} satisfies Readonly<Record<string, Kind>>;

/** The name of a kind. */
export type KindName = keyof typeof KINDS;

/** The first bytes of a file that are enough to know its kind. */
export const KIND_BYTES = 4096;

/** How kinds begin; a dot stands for any byte. */
const MAGIC: readonly (readonly [string, KindName])[] = [
  ["\x89PNG\r\n\x1a\n", "png"],
  ["\xff\xd8", "jpeg"],
  ["\x93NUMPY", "npy"],
  ["GGUF", "gguf"],
  ["lmgg", "ggml"],
  ["fmgg", "ggml"],
  ["tjgg", "ggml"],
  ["\x89HDF\r\n\x1a\n", "hdf5"],
  ["....TFL3", "tflite"],
  ["ARROW1", "arrow"],
  ["PAR1", "parquet"],
  ["MATLAB 5.0", "matlab"],
  ["\x1f\x8b", "gzip"],
  ["\x28\xb5\x2f\xfd", "zstd"],
  ["\xfd7zXZ\0", "xz"],
  ["BZh", "bzip2"],
  ["7z\xbc\xaf\x27\x1c", "sevenZip"],
  ["GIF8", "gif"],
  ["RIFF....WEBP", "webp"],
  ["II*\0", "tiff"],
  ["MM\0*", "tiff"],
  ["....ftyp", "heif"],
  ["%PDF", "pdf"],
  ["version https://git-lfs", "lfs"],
  [`${".".repeat(257)}ustar`, "tar"],
  // The magic number that PyTorch pickled before 1.6.
  ["\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", "torch"],
];

/** Names of members of zip archives, and what the archive is. */
const MEMBERS: readonly (readonly [RegExp, KindName])[] = [
  [/\.npy$/, "npz"],
  [/(^|\/)(data\.pkl|constants\.pkl|byteorder|data\/\d+)$/, "torch"],
  [/(^|\/)model\.weights\.h5$/, "keras"],
];

/** Kinds by the ends of files' names. */
const NAMES: readonly (readonly [RegExp, KindName])[] = [
  [/\.(bin|pt|pth|ckpt)$/i, "torch"],
  [/\.onnx$/i, "onnx"],
  [/\.h5$/i, "hdf5"],
  [/\.keras$/i, "keras"],
  [/\.tflite$/i, "tflite"],
  [/\.(pkl|pickle)$/i, "pickle"],
];

/** The names of the members of a zip archive whose headers are in its first bytes. */
function memberNames(text: string): string[] {
  const names: string[] = [];
  for (let at = text.indexOf("PK\x03\x04"); at >= 0; at = text.indexOf("PK\x03\x04", at + 4)) {
    const length = text.charCodeAt(at + 26) + 256 * text.charCodeAt(at + 27);
    if (length > 0) names.push(text.slice(at + 30, at + 30 + length));
  }
  return names;
}

/** Whether bytes are those of a protocol buffer whose fields are the first ones of an ONNX model. */
function isOnnx(start: Uint8Array): boolean {
  const [field, version, next, length] = start;
  if (field !== 0x08 || version! < 1 || version! > 32) return false;
  // After the version: the producer's name, its version, the domain, a text, the graph, op sets.
  if (next === 0x12 || next === 0x1a || next === 0x22) {
    const name = start.subarray(4, 4 + length!);
    return length! < 128 && name.every((byte) => byte >= 0x20 && byte < 0x7f);
  }
  return version! > 2 && (next === 0x32 || next === 0x3a || next === 0x42);
}

/** The kind of a file, by its first {@link KIND_BYTES} bytes; undefined if it is not known. */
export function kindOf(start: Uint8Array): KindName | undefined {
  if (start.length === 0) return "empty";
  const first = start.subarray(0, KIND_BYTES);
  // The length of a header below 4 GiB, and the begin of its JSON: no magic number is so.
  if (first[8] === 0x7b && first.subarray(4, 8).every((byte) => byte === 0)) return "safetensors";
  // `apply` takes bytes as it takes an array.
  const text = String.fromCharCode.apply(null, first as unknown as number[]);
  const found = MAGIC.find(([magic]) =>
    text.length >= magic.length && [...magic].every((one, i) => one === "." || one === text[i])
  );
  if (found !== undefined) return found[1];
  if (text.startsWith("PK\x03\x04") || text.startsWith("PK\x05\x06")) {
    const names = memberNames(text);
    const kind = MEMBERS.find(([member]) => names.some((name) => member.test(name)))?.[1];
    return kind ?? (names.length === 0 ? "npz" : "zip");
  }
  if (first[0] === 0x80 && first[1]! >= 2 && first[1]! <= 5) return "pickle";
  if (first.length >= 16 && first.every((byte) => byte === 0)) return "zeros";
  if (isOnnx(first)) return "onnx";
  if (/^(\xef\xbb\xbf)?\s*<(!doctype html|html|head|body)/i.test(text)) return "html";
  if (/^(\xef\xbb\xbf)?\s*<\?xml/i.test(text)) return "xml";
  if (/^(\xef\xbb\xbf)?\s*(\{\s*["}]|\[\s*["{\d\]])/.test(text)) return "json";
  if (/^BM.{4}\0{4}/s.test(text)) return "bmp";
  return undefined;
}

/** What a file of another kind is and what reads it, by its name; undefined if that is not known. */
export function hintOfName(name: string): string | undefined {
  const kind = NAMES.find(([pattern]) => pattern.test(name))?.[1];
  return kind === undefined ? undefined : `is ${KINDS[kind].name}: ${KINDS[kind].hint}`;
}

/**
 * Throws a FormatError that names the kind of a file, and what reads it, if its first bytes are those
 * of a known kind which is none of `wanted`.
 */
export function checkKind(wanted: readonly KindName[], start: Uint8Array, file: string): void {
  let kind = kindOf(start);
  // Models may begin with any of their fields.
  if (kind === undefined && /\.onnx$/i.test(file)) kind = "onnx";
  if (kind === undefined || wanted.includes(kind)) return;
  const names = wanted.map((one) => KINDS[one].name).join(" or ");
  const { name, hint } = KINDS[kind];
  throw new FormatError(`not ${names}, but ${name}: ${hint}`, file, 0);
}
