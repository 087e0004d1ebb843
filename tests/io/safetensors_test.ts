/**
 * The safetensors reader and writer against the reference implementation's files, and against
 * files that break its rules one at a time.
 *
 * @module
 */
import { describe, it } from "node:test";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { ShapeError } from "../../src/base/errors.ts";
import type { RawTensor } from "../../src/io/bytes.ts";
import {
  encodeSafetensors,
  findInfo,
  headerLength,
  parseHeader,
  rawTensor,
  type SafetensorsHeader,
} from "../../src/io/safetensors.ts";
import { assertFormatError, golden, goldenFile, latin1 } from "./golden.ts";

function header(bytes: Uint8Array): SafetensorsHeader {
  const length = headerLength(bytes, bytes.length);
  return parseHeader(bytes.subarray(8, 8 + length), bytes.length);
}

function get(bytes: Uint8Array, name: string): RawTensor {
  const info = findInfo(header(bytes), name);
  return rawTensor(info, name, bytes.subarray(info.begin, info.end));
}

/** A file with that header and `count` bytes of data. */
function file(text: string, count: number): Uint8Array {
  const length = String.fromCharCode(text.length & 255, text.length >> 8);
  return latin1(`${length}${"\0".repeat(6)}${text}${"\x01".repeat(count)}`);
}

function tensor(dtype: string, shape: string, offsets: string): string {
  return `{"dtype":"${dtype}","shape":${shape},"data_offsets":${offsets}}`;
}

describe("safetensors: the reference implementation's files", () => {
  for (const { name, bytes, arrays, metadata, same } of golden(".safetensors")) {
    it(`${name} reads as written`, () => {
      const parsed = header(bytes);
      assertEquals({ ...parsed.metadata }, metadata);
      for (const [key, raw] of arrays) assertEquals(get(bytes, key), raw);
      if (same) assertEquals([...parsed.tensors.keys()].sort(), [...arrays.keys()].sort());
    });
    if (!same) continue;
    it(`${name} is written with the same bytes, whatever the order`, () => {
      assertEquals(encodeSafetensors(arrays, metadata), bytes);
      assertEquals(encodeSafetensors([...arrays].reverse(), metadata), bytes);
    });
  }

  it("an unread dtype fails when its tensor is asked for, and is described until then", () => {
    const { bytes } = goldenFile("float8.safetensors");
    const info = findInfo(header(bytes), "scale");
    assertEquals([info.dtype, info.type, info.shape], [undefined, "F8_E4M3", [2]]);
    assertFormatError(() => get(bytes, "scale"), '"scale" has dtype "F8_E4M3"', info.begin);
    assertEquals(get(bytes, "weight").dtype, "float32");
  });

  it("names that objects treat specially are plain names", () => {
    const { bytes } = goldenFile("all.safetensors");
    assertEquals(get(bytes, "__proto__").dtype, "int16");
    assertFormatError(() => get(bytes, "constructor"), 'no tensor is named "constructor"');
    const none = file(`{"__metadata__":null}`, 0);
    assertEquals(Object.keys(header(none).metadata), []);
    const twice = file(`{"__metadata__":null,"__metadata__":{}}`, 0);
    assertFormatError(() => header(twice), "__metadata__ is there twice");
    const polluted = file(`{"__metadata__":{"__proto__":"x","constructor":"y"}}`, 0);
    const { metadata } = header(polluted);
    assertEquals(Object.getPrototypeOf(metadata), null);
    assertEquals(Object.entries(metadata), [["__proto__", "x"], ["constructor", "y"]]);
    assertEquals(({} as Record<string, unknown>).x, undefined);
  });

  it("the header may be unpadded, spaced, escaped, and in any order of keys and tensors", () => {
    const bytes = file(
      `{ "b" : {"data_offsets":[ 1 , 2 ], "shape":[1], "dtype":"U8"}, \n "\\u0061": ` +
        `${tensor("BOOL", "[]", "[0,1]")} }`,
      2,
    );
    assertEquals([...header(bytes).tensors.keys()], ["b", "a"]);
    assertEquals(get(bytes, "a"), { dtype: "bool", shape: [], data: new Uint8Array([1]) });
  });
});

describe("safetensors: headers of other programs", () => {
  it("a tensor may have keys that the format does not know, of any value", () => {
    for (const value of ['"x"', "1", "-0.5e3", "null", "[1, {}]", '{"b": [true, {"c": "}"}]}']) {
      const bytes = file(
        `{"a":{"dtype":"U8","note": ${value},"shape":[1],"data_offsets":[0,1]}}`,
        1,
      );
      assertEquals(get(bytes, "a").data, Uint8Array.of(1), value);
    }
  });
});

describe("safetensors: writing what the format cannot hold", () => {
  const raw: RawTensor = { dtype: "uint8", shape: [2], data: new Uint8Array(2) };

  it("a reserved or ill-formed name, and metadata that is no string", () => {
    assertFormatError(() => encodeSafetensors([["__metadata__", raw]]), "__metadata__");
    assertFormatError(() => encodeSafetensors([["\ud800", raw]]), "well-formed");
    // @ts-expect-error: the wrong type is the point
    assertFormatError(() => encodeSafetensors([], { epoch: 3 }), '"3" is not a well-formed string');
  });

  it("a header above the limit of 100 MB", () => {
    const metadata = { text: "x".repeat(1e8) };
    assertFormatError(() => encodeSafetensors([], metadata), "is above 100000000");
  });

  it("bytes that do not fit the shape are a ShapeError", () => {
    const wrong = { ...raw, shape: [3] };
    assertThrows(() => encodeSafetensors([["a", wrong]]), ShapeError, "[3] of uint8");
  });

  it("tensors begin at multiples of their element's size", () => {
    const sizes = { uint64: 8, float32: 4, float16: 2, uint8: 1 } as const;
    const tensors = Object.entries(sizes).map(([dtype, size]): [string, RawTensor] => [
      `${size}${"x".repeat(size)}`,
      { dtype: dtype as RawTensor["dtype"], shape: [3], data: new Uint8Array(3 * size) },
    ]);
    for (const [name, { begin }] of header(encodeSafetensors(tensors)).tensors) {
      assertEquals(begin % Number(name[0]), 0, name);
    }
  });
});

describe("safetensors: faults are FormatErrors with the offset", () => {
  const u8 = (shape: string, offsets: string): string => tensor("U8", shape, offsets);
  const nested = `{"a":${"[".repeat(5000)}`;
  const cases: [what: string, bytes: Uint8Array, message: string, offset: number][] = [
    ["seven bytes", new Uint8Array(7), "header's length needs 8 bytes, but 7 are left", 0],
    [
      "a header of 2^64 - 1 bytes",
      new Uint8Array(8).fill(255),
      "length is 18446744073709551615",
      0,
    ],
    ["a header beyond the file", latin1("\x09\0\0\0\0\0\0\0{}"), "in a file of 10", 0],
    ["a header of no bytes", new Uint8Array(8), "does not begin with {", 8],
    ["a leading space", file(" {}", 0), "does not begin with {", 8],
    ["another JSON value", file("[]", 0), "does not begin with {", 8],
    ["text after the header", file("{}x", 0), "expected the end of the header", 10],
    ["an unfinished header", file('{"a":', 0), 'expected "{", found the end', 13],
    ["an unfinished string", file('{"a', 0), "does not end", 9],
    ["a backslash at the end", file('{"a\\', 0), "does not end", 9],
    ["a bad escape", file('{"\\x":1}', 0), "not valid JSON", 9],
    ["a raw newline in a name", file('{"\n":1}', 0), "not valid JSON", 9],
    ["a lone surrogate", file('{"\\ud800":1}', 0), "not valid JSON", 9],
    ["a name that is not UTF-8", file('{"\xff":1}', 0), "not UTF-8", 9],
    ["a trailing comma", file(`{"a":${u8("[0]", "[0,0]")},}`, 0), 'expected "\\"", found "}"', 61],
    ["a deep header", file(nested, 0), 'expected "{"', 13],
    ["a number for a tensor", file('{"a":NaN}', 0), 'expected "{", found "NaN}"', 13],
    ["a repeated name", twice(u8("[1]", "[0,1]"), "\\u0061"), '"a" is there twice', 61],
    ["a repeated key", file('{"a":{"dtype":"U8","dtype":"U8"}}', 0), '"dtype" is repeated', 27],
    [
      "a repeated key after blanks",
      file(`{"a":{"dtype":"U8", \n"dtype":"U8"}}`, 0),
      "is repeated",
      29,
    ],
    ["an unknown key without a value", file('{"a":{"strides":}}', 0), "expected a JSON value", 24],
    ["an unknown key with a number that is none", file('{"a":{"x":01}}', 0), 'expected "}"', 19],
    [
      "unknown keys inside each other",
      file(`{"a":{"x":${"[".repeat(200)}}}`, 0),
      "more than 100 values",
      119,
    ],
    ["a missing key", file('{"a":{"dtype":"U8","shape":[0]}}', 0), "lacks a dtype", 9],
    ["one offset", file(`{"a":${u8("[0]", "[0]")}}`, 0), "lacks a dtype", 9],
    ["three offsets", file(`{"a":${u8("[0]", "[0,0,0]")}}`, 0), "more than 2 numbers", 60],
    ["a negative size", file(`{"a":${u8("[-1]", "[0,0]")}}`, 0), "an integer of 0 or more", 36],
    ["a fractional size", file(`{"a":${u8("[1.0]", "[0,1]")}}`, 1), 'expected "]"', 37],
    ["an exponent", file(`{"a":${u8("[1e0]", "[0,1]")}}`, 1), 'expected "]"', 37],
    ["a leading zero", file(`{"a":${u8("[01]", "[0,1]")}}`, 1), "leading zeros", 36],
    ["a size of 2^60", file(`{"a":${u8("[1152921504606846976]", "[0,0]")}}`, 0), "2^53", 36],
    ["sizes that overflow", file(`{"a":${u8("[4294967296,4294967296]", "[0,0]")}}`, 0), "take", 9],
    ["the same beside a 0", file(`{"a":${u8("[0,67108864,268435456]", "[0,0]")}}`, 0), "take", 9],
    ["65 axes", file(`{"a":${u8(`[${"1,".repeat(64)}1]`, "[0,1]")}}`, 1), "more than 64", 165],
    ["a negative offset", file(`{"a":${u8("[1]", "[-1,0]")}}`, 1), "an integer of 0", 55],
    ["end before begin", file(`{"a":${u8("[1]", "[1,0]")}}`, 1), "data_offsets [1, 0]", 9],
    ["an end beyond the file", file(`{"a":${u8("[2]", "[0,2]")}}`, 1), "holds 1 bytes", 9],
    ["too few bytes for the shape", file(`{"a":${u8("[2]", "[0,1]")}}`, 1), "does not take 1", 9],
    ["data without a tensor", file("{}", 3), "3 bytes follow the data", 10],
    ["a gap at the start", file(`{"a":${u8("[1]", "[1,2]")}}`, 2), "has a gap", 62],
    ["metadata that is no object", file('{"__metadata__":"x"}', 0), 'expected "{"', 24],
    ["metadata that is no string", file('{"__metadata__":{"a":1}}', 0), 'expected "\\""', 29],
    ["a repeated metadata key", file('{"__metadata__":{"a":"","a":""}}', 0), '"a" is there', 32],
    ["metadata twice", file('{"__metadata__":{},"__metadata__":{}}', 0), "there twice", 27],
  ];

  function twice(info: string, name: string): Uint8Array {
    return file(`{"a":${info},"${name}":${info}}`, 1);
  }

  for (const [what, bytes, message, offset] of cases) {
    it(what, () => assertFormatError(() => header(bytes), message, offset));
  }

  it("a header above the limit of 100 MB, in a file that holds it", () => {
    const start = new Uint8Array(8);
    new DataView(start.buffer).setUint32(0, 1e8, true);
    assertEquals(headerLength(start, 2 ** 30), 1e8);
    new DataView(start.buffer).setUint32(0, 1e8 + 1, true);
    assertFormatError(
      () => headerLength(start, 2 ** 30),
      "length is 100000001, above 100000000",
      0,
    );
  });

  it("overlaps and gaps between tensors", () => {
    const pair = (second: string, count: number): Uint8Array =>
      file(`{"a":${u8("[2]", "[0,2]")},"b":${u8("[2]", second)}}`, count);
    assertFormatError(() => header(pair("[1,3]", 3)), '"b" overlaps');
    assertFormatError(() => header(pair("[0,2]", 2)), '"b" overlaps');
    assertFormatError(() => header(pair("[3,5]", 5)), '"b" has a gap');
    assertEquals(header(pair("[2,4]", 4)).tensors.size, 2);
  });

  it("a bool that is neither 0 nor 1", () => {
    const bytes = file(`{"a":${tensor("BOOL", "[3]", "[0,3]")}}`, 3);
    assertEquals(get(bytes, "a").shape, [3]);
    bytes[bytes.length - 1] = 3;
    assertFormatError(() => get(bytes, "a"), "bool byte is 3", bytes.length - 1);
  });

  it("a long name is cut in the message", () => {
    const bytes = file(`{"${"x".repeat(9000)}":1}`, 0);
    const error = assertThrows(() => header(bytes), Error, 'expected "{"');
    assert(error.message.length < 200);
    assertFormatError(() => get(file("{}", 0), "y".repeat(9000)), `${"y".repeat(60)}…"`);
  });
});
