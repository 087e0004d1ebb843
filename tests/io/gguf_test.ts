/**
 * GGUF against the Python package of ggml (tests/golden/quantized.json): the numbers of every block
 * format, a file with metadata of every type; and damaged files.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { FormatError } from "../../mod.ts";
import { type GgufHeader, parseGguf } from "../../src/io/gguf.ts";
import type { MetadataValue } from "../../src/io/metadata.ts";
import { QUANT, type QuantName } from "../../src/ops/quantized/formats.ts";

interface Golden {
  readonly formats: Readonly<Record<QuantName, Readonly<Record<string, string>>>>;
  readonly file: string;
}

const golden: Golden = JSON.parse(
  readFileSync(new URL("../golden/quantized.json", import.meta.url), "utf8"),
);
const bytesOf = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const floatsOf = (text: string): Float32Array => new Float32Array(bytesOf(text).buffer);
const FILE = bytesOf(golden.file);

test("the numbers of all block formats are those of ggml, to the bit", () => {
  assertEquals(Object.keys(golden.formats).sort(), Object.keys(QUANT).sort());
  for (const [name, { blocks, numbers }] of Object.entries(golden.formats)) {
    const { size, bytes, decode } = QUANT[name as QuantName];
    const [given, expected] = [bytesOf(blocks!), floatsOf(numbers!)];
    assertEquals(expected.length, given.length / bytes * size, name);
    const made = new Float32Array(expected.length);
    for (let i = 0; i * bytes < given.length; i++) decode(given, i * bytes, made, i * size);
    assertEquals(made, expected, name);
  }
});

function valuesOf({ metadata }: GgufHeader): Record<string, MetadataValue | undefined> {
  return Object.fromEntries(metadata.keys().map((key) => [key, metadata.get(key)]));
}

test("metadata of every type and tensors of every format are read", () => {
  const header = parseGguf(FILE)!;
  assertEquals(valuesOf(header), {
    "general.architecture": "test",
    "a.uint8": 255,
    "a.int8": -128,
    "a.uint16": 65535,
    "a.int16": -32768,
    "a.uint32": 2 ** 32 - 1,
    "a.int32": -(2 ** 31),
    "a.uint64": 2n ** 64n - 1n,
    "a.int64": -5,
    "a.float32": 0.5,
    "a.float64": 0.1,
    "a.bool": true,
    "a.string": "grün 🐈",
    "a.strings": ["", "a", "βγ"],
    "a.numbers": [1, -2, 3],
    "a.floats": [0.5, 1.5],
  });
  assertEquals(header.metadata.get("b"), undefined);
  assertEquals([header.metadata.has("a.bool"), header.metadata.has("b")], [true, false]);
  const { tensors } = header;
  const plain = tensors.get("plain")!;
  assertEquals([plain.dtype, plain.type, plain.shape], ["float32", "F32", [2, 3]]);
  assertEquals(
    new Float32Array(FILE.slice(plain.begin, plain.end).buffer),
    Float32Array.of(0, 1, 2, 3, 4, 5),
  );
  for (const [name, { blocks }] of Object.entries(golden.formats)) {
    const { dtype, shape, begin, end, type } = tensors.get(name)!;
    assertEquals([dtype, type], [name, name.toUpperCase()]);
    assertEquals(shape, [2, 2 * QUANT[name as QuantName].size]);
    assertEquals(FILE.slice(begin, end), bytesOf(blocks!));
  }
});

test("a header is complete or undefined for each prefix of a file", () => {
  const end = Math.min(...[...parseGguf(FILE)!.tensors.values()].map(({ begin }) => begin));
  let least = FILE.length;
  for (let length = 0; length < end; length++) {
    const header = parseGguf(FILE.subarray(0, length), FILE.length);
    if (header === undefined) assert(length <= least);
    else {
      least = Math.min(least, length);
      assertEquals(header.tensors.size, 3 + Object.keys(QUANT).length);
    }
  }
  assert(least > end - 64 && least <= end);
  // Of a file that ends there, it is an error.
  for (let length = 0; length < end; length += 7) {
    assertThrows(() => parseGguf(FILE.subarray(0, length)), FormatError);
  }
});

/** A file with an entry of bytes: a key, a type and a value. */
function fileWith(
  entry: readonly number[],
  tensors: readonly number[] = [],
  count = 0,
): Uint8Array {
  const header = [0x47, 0x47, 0x55, 0x46, 3, 0, 0, 0, count, ...[0, 0, 0, 0, 0, 0, 0]];
  return Uint8Array.from([
    ...header,
    ...[entry.length > 0 ? 1 : 0, 0, 0, 0, 0, 0, 0, 0],
    ...entry,
    ...tensors,
    ...new Array(64).fill(0),
  ]);
}

const u64 = (n: bigint): number[] => [...new Uint8Array(BigUint64Array.of(n).buffer)];
const u32 = (n: number): number[] => [...new Uint8Array(Uint32Array.of(n).buffer)];
const text = (s: string): number[] => {
  const bytes = new TextEncoder().encode(s);
  return [...u64(BigInt(bytes.length)), ...bytes];
};
/** The entry of a tensor. */
const tensorOf = (name: string, sizes: bigint[], type: number, offset = 0n): number[] => [
  ...text(name),
  ...u32(sizes.length),
  ...sizes.flatMap(u64),
  ...u32(type),
  ...u64(offset),
];

test("what is not as the format says is a FormatError that tells it", () => {
  const STRING = 8, ARRAY = 9, BOOL = 7, UINT32 = 4;
  const nested = Array.from({ length: 20 }, () => [...u32(ARRAY), ...u64(1n)]).flat();
  const twice = [...tensorOf("a", [2n], 0), ...tensorOf("a", [2n], 0, 32n)];
  const over = [...tensorOf("a", [10n], 0), ...tensorOf("b", [2n], 0, 32n)];
  const cases: Record<string, [bytes: Uint8Array, message: string]> = {
    "another format": [Uint8Array.from(text("model")), "not a GGUF file"],
    "version 1": [Uint8Array.from([...FILE.slice(0, 4), 1, 0, 0, 0]), "version 1 is not read"],
    "big-endian": [Uint8Array.from([...FILE.slice(0, 4), 0, 0, 0, 3]), "big-endian"],
    "many entries": [Uint8Array.from([...FILE.slice(0, 16), ...u64(2n ** 40n)]), "need more than"],
    "entries beyond 2^53": [
      Uint8Array.from([...FILE.slice(0, 16), ...u64(2n ** 60n)]),
      "the number of entries is 1152921504606846976",
    ],
    "a long text": [fileWith([...text("a"), ...u32(STRING), ...u64(2n ** 31n)]), "truncated"],
    "a long array": [
      fileWith([...text("a"), ...u32(ARRAY), ...u32(UINT32), ...u64(2n ** 50n)]),
      "truncated",
    ],
    "arrays in arrays": [
      fileWith([...text("a"), ...u32(ARRAY), ...nested]),
      "arrays in each other",
    ],
    "an unknown type": [fileWith([...text("a"), ...u32(77)]), "unknown type 77"],
    "no bool": [fileWith([...text("a"), ...u32(BOOL), 2]), "is not a bool"],
    "a key that is no UTF-8": [fileWith([...u64(1n), 0xff, ...u32(BOOL), 1]), "not UTF-8"],
    "an alignment of 3": [
      fileWith([...text("general.alignment"), ...u32(UINT32), ...u32(3)]),
      "not a power of 2",
    ],
    "a name twice": [fileWith([], twice, 2), 'tensor "a" is there twice'],
    "an overlap": [fileWith([], over, 2), 'tensors "a" and "b" overlap'],
    "no alignment": [fileWith([], tensorOf("a", [2n], 0, 8n), 1), "no multiple of 32"],
    "a tensor beyond the end": [fileWith([], tensorOf("a", [2n ** 40n], 0), 1), "ends at"],
    "a size beyond 2^53": [fileWith([], tensorOf("a", [2n ** 60n], 0), 1), "a size of"],
    "more elements than 2^53": [
      fileWith([], tensorOf("a", [2n ** 40n, 2n ** 40n], 0), 1),
      "is too large",
    ],
    "five axes": [
      fileWith([], tensorOf("a", [1n, 1n, 1n, 1n, 1n], 0), 1),
      'axes of tensor "a" is 5, above 4',
    ],
    "rows that end in a block": [fileWith([], tensorOf("a", [31n], 2), 1), "no whole rows of Q4_0"],
  };
  for (const [what, [bytes, message]] of Object.entries(cases)) {
    const error = assertThrows(
      () => parseGguf(bytes, bytes.length, "x.gguf"),
      FormatError,
      message,
    );
    assertEquals(error.file, "x.gguf", what);
  }
});

test("each text of an array is UTF-8 of its own", () => {
  const [ARRAY, STRING] = [9, 8];
  const fileOf = (texts: readonly (readonly number[])[]) =>
    fileWith([
      ...text("a"),
      ...u32(ARRAY),
      ...u32(STRING),
      ...u64(BigInt(texts.length)),
      ...texts.flatMap((bytes) => [...u64(BigInt(bytes.length)), ...bytes]),
    ]);
  // The reader separates texts by U+10FFFF U+10FFFE.
  const texts = [
    "",
    "\u{10fffe}a\u{10ffff}",
    "\u{10fffe}",
    "\ufeffa",
    "a\0b",
    "é",
    "",
    "語€",
    "🐈🐈",
    "\u{10ffff}",
    "x".repeat(300),
    "",
  ];
  const separators = ["\u{10ffff}\u{10fffe}", "a\u{10ffff}\u{10fffe}b", ""];
  for (const list of [[], separators, texts]) {
    const header = parseGguf(fileOf(list.map((one) => [...new TextEncoder().encode(one)])))!;
    assertEquals(header.metadata.get("a"), list);
  }
  // The bytes of "a", a text of two bytes of "€", and its third.
  for (const parts of [[[0x61], [0xe2, 0x82], [0xac]], [[0x61], [0xe2, 0x82]], [[0xac]]]) {
    const header = parseGguf(fileOf(parts), undefined, "x.gguf")!;
    const error = assertThrows(() => header.metadata.get("a"), FormatError, "is not UTF-8");
    // Behind 24 bytes of the start, 9 of the key, 16 of the types and the length.
    assertEquals([error.file, error.offset], ["x.gguf", parts.length > 1 ? 49 + 9 : 49]);
  }
});

test("types that are not read have a name, and no elements", () => {
  const header = parseGguf(fileWith([], tensorOf("a", [256n], 10), 1))!;
  const { type, dtype, shape } = header.tensors.get("a")!;
  assertEquals([type, dtype, shape], ["Q2_K", undefined, [256]]);
  assertEquals(
    parseGguf(fileWith([], tensorOf("a", [1n], 99), 1))!.tensors.get("a")!.type,
    "type 99",
  );
});

test("500 damaged files are read or refused", () => {
  let seed = 1;
  const random = (n: number): number => {
    seed = Math.imul(seed, 1103515245) + 12345 | 0;
    return (seed >>> 8) % n;
  };
  const end = Math.min(...[...parseGguf(FILE)!.tensors.values()].map(({ begin }) => begin));
  let refused = 0;
  for (let i = 0; i < 500; i++) {
    const bytes = FILE.slice(0, random(4) === 0 ? random(FILE.length) : FILE.length);
    for (let n = random(8); n >= 0; n--) {
      const at = random(Math.min(end, bytes.length) || 1);
      bytes[at] = [0, 255, 128, random(256), bytes[at]! ^ 1 << random(8)][random(5)]!;
    }
    try {
      const header = parseGguf(bytes)!;
      valuesOf(header);
      for (const { begin, end } of header.tensors.values()) {
        assert(begin <= end && end <= bytes.length);
      }
    } catch (error) {
      assert(error instanceof FormatError, `${error}`);
      refused++;
    }
  }
  assert(refused > 200, `${refused}`);
});
