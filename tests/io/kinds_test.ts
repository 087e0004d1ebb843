/**
 * Files of another kind, given to every opener: one sentence that names the kind and what reads it.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { arange, FormatError, io, zeros } from "../../mod.ts";
import { decodeImage, encodePng, readImage } from "../../src/images/mod.ts";
import { kindOf } from "../../src/io/kinds.ts";
import * as llm from "../../src/llm/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { randomLlama } from "../support/llama.ts";
import { zip } from "./archive.ts";
import { latin1 } from "./golden.ts";

/** A zip archive of empty members. */
function zipOf(...names: string[]): Uint8Array {
  return zip(Object.fromEntries(names.map((name) => [name, new Uint8Array()])));
}

const pad = (text: string): Uint8Array => latin1(text.padEnd(600, "\x01"));
const tar = `${"model.onnx".padEnd(257, "\0")}ustar\x0000`;
const onnx = "\x08\x07\x12\x07pytorch\x1a\x052.1.0:\x85\x01\n";
/** Files that no opener reads, and words of the sentence about them. */
const OTHERS: readonly (readonly [Uint8Array, kind: string, reads: string])[] = [
  [pad(onnx), "an ONNX model", "onnxruntime-node"],
  [pad("\x08\x08:\xf1\x04"), "an ONNX model", "onnxruntime-web"],
  [zipOf("model/data.pkl", "model/data/0"), "a PyTorch checkpoint", "torch.load"],
  [pad("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."), "a PyTorch checkpoint", "torch.load"],
  [pad("\x80\x04\x95\x10"), "a Python pickle", "safetensors.torch.save_file"],
  [zipOf("metadata.json", "config.json", "model.weights.h5"), "a Keras model", "keras.models"],
  [zipOf("word/document.xml"), "a zip archive", "unzip"],
  [pad("\x89HDF\r\n\x1a\n"), "an HDF5 file", "h5py"],
  [pad("\x1c\0\0\0TFL3"), "a TensorFlow Lite model", "LiteRT"],
  [pad("tjgg\x03\0\0\0"), "a GGML file", "llama.cpp"],
  [pad("ARROW1\0\0"), "an Arrow file", "apache-arrow"],
  [pad("PAR1\x15"), "a Parquet file", "parquet-wasm"],
  [pad("MATLAB 5.0 MAT-file"), "a MATLAB file", "scipy.io.loadmat"],
  [latin1(tar), "a tar archive", "tar extracts"],
  [pad("\x1f\x8b\x08\0"), "a gzip file", "gunzip"],
  [pad("(\xb5/\xfd"), "a Zstandard file", "zstd -d"],
  [pad("\xfd7zXZ\0"), "an xz file", "xz -d"],
  [pad("BZh91AY"), "a bzip2 file", "bunzip2"],
  [pad("7z\xbc\xaf'\x1c"), "a 7z archive", "7z"],
  [pad("GIF89a"), "a GIF picture", "sharp"],
  [pad("RIFF\x10\0\0\0WEBPVP8 "), "a WebP picture", "sharp"],
  [pad("II*\0\x08\0\0\0"), "a TIFF picture", "sharp"],
  [pad("\0\0\0\x1cftypavif"), "a HEIF or AVIF picture", "sharp"],
  [pad("BM\x36\0\x03\0\0\0\0\0\x36"), "a BMP picture", "Pillow"],
  [pad("%PDF-1.7"), "a PDF document", "PDF viewer"],
  [latin1("<!DOCTYPE html><html>404"), "an HTML page", "failed download"],
  [latin1("\n <HTML lang=en>"), "an HTML page", "failed download"],
  [latin1("\xef\xbb\xbf<?xml version='1.0'?><Error>"), "an XML document", "failed download"],
  [latin1("version https://git-lfs.github.com/spec/v1\noid sha256:ab\n"), "a git-lfs", "lfs pull"],
  [latin1('{"error": "Repository not found"}'), "a JSON file", "JSON.parse"],
  [new Uint8Array(4096), "a file that begins with zeros only", "did not end"],
  [new Uint8Array(0), "an empty file", "fetch it again"],
];

const x = arange(6, { dtype: "uint8" }).reshape([2, 3]);
const llama = randomLlama("q4_0", {
  ...{ layers: 1, width: 64, heads: 4, groups: 2, hidden: 32, vocabulary: 300 },
});
/** Files that some openers read, by the name of their kind. */
const OWN: Readonly<Record<string, readonly [Uint8Array, kind: string, reads: string]>> = {
  npy: [io.encodeNpy(x), "an npy file", "io.readNpy()"],
  npz: [io.encodeNpz({ x }), "an npz archive", "io.readNpz()"],
  safetensors: [io.encodeSafetensors({ x }), "a safetensors file", "nn.open()"],
  gguf: [llama, "a GGUF file", "llm.open()"],
  png: [encodePng(x), "a PNG file", "readImage()"],
  jpeg: [pad("\xff\xd8\xff\xe0\0\x10JFIF\0"), "a JPEG file", "readImage()"],
};

type Opener = (bytes: Uint8Array) => unknown;
/** The openers of bytes, and the kinds that they read. */
const OF_BYTES: Readonly<Record<string, readonly [Opener, ...string[]]>> = {
  "io.decodeNpy": [(bytes) => io.decodeNpy(bytes), "npy"],
  "io.decodeNpz": [(bytes) => io.decodeNpz(bytes), "npz"],
  "io.decodeSafetensors": [(bytes) => io.decodeSafetensors(bytes), "safetensors"],
  "nn.open": [(bytes) => nn.open(bytes), "safetensors", "gguf", "npz"],
  "llm.open": [(bytes) => llm.open(bytes), "safetensors", "gguf", "npz"],
  decodeImage: [(bytes) => decodeImage(bytes), "png", "jpeg"],
};
type FileOpener = (path: string) => unknown;
/** The openers of files, the ends of the names that they take, and the kinds that they read. */
const OF_FILES: Readonly<Record<string, readonly [FileOpener, string, ...string[]]>> = {
  "io.readNpy": [(path) => io.readNpy(path), ".npy", "npy"],
  "io.mapNpy": [(path) => io.mapNpy(path), ".npy", "npy"],
  "io.readNpz": [(path) => io.readNpz(path), ".npz", "npz"],
  "io.openSafetensors": [(path) => io.openSafetensors(path), ".safetensors", "safetensors"],
  "io.mapSafetensors": [(path) => io.mapSafetensors(path), ".safetensors", "safetensors"],
  "io.mapSafetensors, read": [
    (path) => io.mapSafetensors(path, { mmap: false }),
    ...[".safetensors", "safetensors"] as const,
  ],
  "nn.open of safetensors": [(path) => nn.open(path), ".safetensors", "safetensors"],
  "nn.open of safetensors, read": [
    (path) => nn.open(path, { mmap: false }),
    ...[".safetensors", "safetensors"] as const,
  ],
  "nn.open of gguf": [(path) => nn.open(path), ".gguf", "gguf"],
  "nn.open of npz": [(path) => nn.open(path), ".npz", "npz"],
  "nn.open of any": [(path) => nn.open(path), ".bin", "safetensors", "gguf", "npz"],
  "llm.open": [(path) => llm.open(path), ".gguf", "gguf"],
  readImage: [(path) => readImage(path), ".png", "png", "jpeg"],
};

async function refuse(
  name: string,
  open: () => unknown,
  kind: string,
  reads: string,
): Promise<void> {
  const error = await assertRejects(async () => await open(), FormatError) as FormatError;
  assertStringIncludes(error.message, `, but ${kind}`, name);
  assertStringIncludes(error.message, reads, name);
  assert(!error.message.includes("\n"), name);
  assertEquals(error.offset, 0, name);
}

test("kinds: every reader of io is among the openers", () => {
  const openers = [...Object.keys(OF_BYTES), ...Object.keys(OF_FILES)];
  const readers = Object.keys(io).filter((name) => /^(decode|read|open|map)[A-Z]/.test(name));
  assertEquals(readers.filter((name) => !openers.includes(`io.${name}`)), []);
});

test("kinds: each opener of bytes names what it was given", async () => {
  for (const [name, [open, ...own]] of Object.entries(OF_BYTES)) {
    for (const [bytes, kind, reads] of OTHERS) await refuse(name, () => open(bytes), kind, reads);
    for (const [known, [bytes, kind, reads]] of Object.entries(OWN)) {
      if (!own.includes(known)) await refuse(name, () => open(bytes), kind, reads);
    }
  }
});

test("kinds: each opener of files names what it was given", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-kinds-"));
  try {
    for (const [name, [open, extension, ...own]] of Object.entries(OF_FILES)) {
      const path = join(folder, `a${extension}`);
      for (const [bytes, kind, reads] of OTHERS) {
        writeFileSync(path, bytes);
        await refuse(name, () => open(path), kind, reads);
      }
      for (const [known, [bytes, kind, reads]] of Object.entries(OWN)) {
        if (own.includes(known)) continue;
        writeFileSync(path, bytes);
        await refuse(name, () => open(path), kind, reads);
      }
    }
    // A model without a magic number is known by its name.
    const path = join(folder, "model.onnx");
    writeFileSync(path, latin1("\x3a\x85\x01\n\x20".padEnd(300, "x")));
    await refuse("name", () => nn.open(path), "an ONNX model", "onnxruntime");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("kinds: names that do not say the kind are opened by content", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-kinds-"));
  try {
    for (const known of ["npz", "safetensors", "gguf"]) {
      // Files in the cache of the hub have names of hexadecimal digits.
      const path = join(folder, `${known}0123abcd`);
      writeFileSync(path, OWN[known]![0]);
      using w = await nn.open(path);
      assert(w.names().length > 0, known);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("kinds: no safetensors header is taken for another file", () => {
  // Lengths whose bytes are those of a pickle, of gzip, of a zip archive and of BMP.
  for (const length of [0x0280, 0x8b1f, 0x04034b50, 0x4d42]) {
    const bytes = new Uint8Array(20);
    new DataView(bytes.buffer).setUint32(0, length, true);
    bytes[8] = 0x7b;
    assertEquals(kindOf(bytes), "safetensors");
  }
  const large = io.encodeSafetensors({ ["n".repeat(0x0280 - 80)]: zeros([2]) });
  assertEquals(kindOf(large), "safetensors");
  assertEquals(kindOf(latin1("some text")), undefined);
  assertThrows(() => io.decodeNpy(latin1("some text")), FormatError, "not an npy file");
});
