/**
 * The .npy reader and writer against files written by NumPy, and against malformed files.
 *
 * @module
 */
import { describe, it } from "node:test";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { DTYPE, type DType } from "../../src/base/dtype.ts";
import { DTypeError, ShapeError } from "../../src/base/errors.ts";
import type { RawTensor } from "../../src/io/bytes.ts";
import { decodeNpy, encodeNpy } from "../../src/io/npy.ts";
import { assertFormatError, golden, goldenFile, latin1 } from "./golden.ts";

/** A version 1.0 file with that header, unpadded, and `count` bytes of data. */
function npy(header: string, count = 0, version = "\x01\x00"): Uint8Array {
  const length = version === "\x01\x00"
    ? String.fromCharCode(header.length & 255, header.length >> 8)
    : String.fromCharCode(header.length & 255, header.length >> 8, 0, 0);
  return latin1(`\x93NUMPY${version}${length}${header}${"\x01".repeat(count)}`);
}

function dict(shape: string, descr = "'<f4'", fortran = "False"): string {
  return `{'descr': ${descr}, 'fortran_order': ${fortran}, 'shape': ${shape}, }`;
}

describe("npy: NumPy's files", () => {
  for (const file of golden(".npy")) {
    if (file.refused !== undefined) {
      it(`${file.name} is refused, and the error names the descr`, () => {
        assertFormatError(() => decodeNpy(file.bytes), file.refused!, 20);
      });
      continue;
    }
    it(`${file.name} reads as NumPy reads it`, () => {
      assertEquals(decodeNpy(file.bytes), file.arrays.get(""));
    });
    if (!file.same) continue;
    it(`${file.name} is written with NumPy's bytes`, () => {
      assertEquals(encodeNpy(file.arrays.get("")!), file.bytes);
    });
  }

  it("reads from bytes at an odd address", () => {
    const { bytes, arrays } = goldenFile("fortran_big.npy");
    const shifted = new Uint8Array(bytes.length + 1);
    shifted.set(bytes, 1);
    assertEquals(decodeNpy(shifted.subarray(1)), arrays.get(""));
  });

  it("does not copy data that is in order already", () => {
    const { bytes } = goldenFile("float32.npy");
    assert(decodeNpy(bytes).data.buffer === bytes.buffer);
  });

  it("reads void data as bfloat16 on request only", () => {
    const { bytes, arrays } = goldenFile("bfloat16.npy");
    assertEquals(decodeNpy(bytes, { bfloat16: true }), arrays.get(""));
    assertEquals(decodeNpy(npy(dict("(1,)", "'|V2'"), 2), { bfloat16: true }).dtype, "bfloat16");
    assertFormatError(() => decodeNpy(npy(dict("(1,)", "'|V2'"), 2)), "bfloat16: true");
    assertFormatError(() => decodeNpy(npy(dict("(1,)", "'|V4'"), 4), { bfloat16: true }), "|V4");
  });

  it("reads what names no order, or the machine's own, as NumPy does", () => {
    for (const descr of ["'=f4'", "'f4'"]) {
      assertEquals(decodeNpy(npy(dict("(1,)", descr), 4)), decodeNpy(npy(dict("(1,)"), 4)), descr);
    }
  });

  it("reads dtypes by letters, by names, and with an order that says nothing", () => {
    const forms: Readonly<Partial<Record<DType, readonly string[]>>> = {
      float64: ["<d", "d", "|f8", "=f8", "float64"],
      float32: ["<f"],
      float16: ["e"],
      int64: ["<q", "l"],
      uint64: ["<Q"],
      int32: ["i"],
      uint32: ["I"],
      int16: ["<h"],
      uint16: ["H"],
      int8: ["b"],
      uint8: ["B", "u1", "uint8"],
      bool: ["?", "bool"],
    };
    for (const [dtype, list] of Object.entries(forms)) {
      const { bytes } = DTYPE[dtype as DType];
      for (const descr of list) {
        assertEquals(decodeNpy(npy(dict("(1,)", `'${descr}'`), bytes)).dtype, dtype, descr);
      }
    }
    // Strings with the prefix of Python 2.
    assertEquals(decodeNpy(npy(dict("(1,)", "u'<f8'"), 8)).dtype, "float64");
    const swapped = npy(dict("(1,)", "'>d'"), 8);
    swapped.set([1, 2, 3, 4, 5, 6, 7, 8], swapped.length - 8);
    assertEquals(decodeNpy(swapped).data, Uint8Array.of(8, 7, 6, 5, 4, 3, 2, 1));
  });

  it("reads headers in other orders, spacings and quotes, and Python 2's long sizes", () => {
    const header = `{"shape":(2L,3L,),\n\t"fortran_order" : False,"descr":"|u1"}`;
    const expected = { dtype: "uint8", shape: [2, 3], data: new Uint8Array(6).fill(1) } as const;
    assertEquals(decodeNpy(npy(header, 6)), expected);
    assertEquals(decodeNpy(npy(header, 6, "\x02\x00")), expected);
    assertEquals(decodeNpy(npy(` ${header}  `, 6, "\x03\x00")), expected);
    const prefixed = "{u'descr': u'|u1', u'fortran_order': False, u'shape': (2, 3L), }";
    assertEquals(decodeNpy(npy(prefixed, 6)), expected);
  });
});

describe("npy: writing what the format cannot hold", () => {
  it("bfloat16 is a DTypeError that points to safetensors", () => {
    const raw: RawTensor = { dtype: "bfloat16", shape: [1], data: new Uint8Array(2) };
    assertThrows(() => encodeNpy(raw), DTypeError, "encodeSafetensors");
  });

  it("bytes that do not fit the shape, and over 64 axes, are ShapeErrors", () => {
    const data = new Uint8Array(4);
    assertThrows(() => encodeNpy({ dtype: "float32", shape: [2], data }), ShapeError, "[2]");
    const shape = new Array(65).fill(1);
    assertThrows(() => encodeNpy({ dtype: "float32", shape, data }), ShapeError, "65 axes");
  });
});

describe("npy: faults are FormatErrors with the offset", () => {
  const start = 10;
  const cases: [what: string, bytes: Uint8Array, message: string, offset: number][] = [
    ["no bytes", new Uint8Array(), "not an npy file, but an empty file", 0],
    ["a byte", latin1("\x93"), "the magic string needs 6 bytes, but 1 are left", 0],
    ["another format", latin1("PK\x03\x04 and so on"), "not an npy file", 0],
    ["version 4.0", npy(dict("(1,)"), 4, "\x04\x00"), "version 4.0", 6],
    ["version 1.1", npy(dict("(1,)"), 4, "\x01\x01"), "version 1.1", 6],
    ["a header beyond the file", latin1("\x93NUMPY\x01\x00\xff\xff{"), "truncated: the header", 10],
    [
      "a header of 4 GiB",
      latin1("\x93NUMPY\x02\x00\xff\xff\xff\xff{"),
      "length is 4294967295, above 65535",
      8,
    ],
    ["missing data", npy(dict("(2, 3)"), 23), "shape [2, 3] of float32 needs 24 bytes", 69],
    ["data after the array", npy(dict("(2, 3)"), 25), "1 bytes follow the array", 93],
    ["missing bools", npy(dict("(3,)", "'|b1'"), 2), "shape [3] of bool needs 3 bytes, but 2", 67],
    ["a negative size", npy(dict("(-1,)")), "an integer of 0 or more", start + 51],
    ["a fractional size", npy(dict("(1.5,)"), 4), 'expected ")", found ".5,)', start + 52],
    ["a NaN size", npy(dict("(nan,)")), 'found "nan,), }"', start + 51],
    ["a size in quotes", npy(dict("('1',)")), "an integer of 0 or more", start + 51],
    ["a size of 2^60", npy(dict("(1152921504606846976,)")), "above 2^53 - 1", start + 51],
    ["sizes whose product is 2^62", npy(dict("(2147483648, 2147483648)")), "too large", start],
    ["such sizes beside a 0", npy(dict("(0, 2147483648, 2147483648)")), "too large", start],
    ["64 GiB in a short file", npy(dict("(17179869184,)")), "needs 68719476736 bytes", 77],
    ["a leading zero", npy(dict("(01,)"), 4), "leading zeros", start + 51],
    ["a shape that is no tuple", npy(dict("(4)"), 16), "not a tuple", start + 51],
    ["a list as shape", npy(dict("[4]"), 16), 'expected "("', start + 50],
    ["a deep shape", npy(dict("(".repeat(5000))), "an integer of 0 or more", start + 51],
    ["65 axes", npy(dict(`(${"1,".repeat(65)})`), 4), "more than 64 axes", start + 51],
    ["a deep descr", npy(dict("(1,)", "[".repeat(5000)), 4), "structured", start + 10],
    ["a tuple as descr", npy(dict("(1,)", "('<i4', (2,))"), 4), "structured", start + 10],
    ["an escape", npy(dict("(1,)", "'\\x3cf4'"), 4), "escapes", start + 11],
    ["an order that is none", npy(dict("(1,)", "'!f4'"), 4), "!f4", start + 10],
    ["two orders", npy(dict("(1,)", "'<<f4'"), 4), "<<f4", start + 10],
    ["nothing but an order", npy(dict("(1,)", "'='"), 4), "=", start + 10],
    ["a property of objects", npy(dict("(1,)", "'<constructor'"), 4), "constructor", start + 10],
    ["an unfinished string", npy("{'descr': '<f4"), "does not end", start + 14],
    ["fortran_order 1", npy(dict("(1,)", "'<f4'", "1"), 4), 'expected "False"', start + 34],
    ["a repeated key", npy(`{'descr': '<f4', 'descr': '<f4'}`), '"descr" is repeated', start + 17],
    ...["'shape': (1,)", "'fortran_order': False"].map((pair): typeof cases[number] => [
      "repeated " + pair,
      npy(`{${pair}, ${pair}}`),
      "is repeated",
      start + 1 + pair.length + 2,
    ]),
    ["an unknown key", npy(`{'a': 1}`), '"a" is repeated or unknown', start + 1],
    ["a missing key", npy(`{'descr': '<f4', 'shape': (1,)}`, 4), "lacks one of", start],
    ["no dict", npy("4"), 'expected "{", found "4"', start],
    ["an empty header", npy(""), 'expected "{", found the end', start],
    ["an expression", npy(`${dict("(1,)")}; import os`, 4), "the end of the header", start + 57],
  ];
  for (const [what, bytes, message, offset] of cases) {
    it(what, () => assertFormatError(() => decodeNpy(bytes), message, offset));
  }

  it("a header of more than 65535 bytes", () => {
    const padded = (length: number): Uint8Array => npy(dict("(1,)").padEnd(length), 4, "\x02\x00");
    assertEquals(decodeNpy(padded(65535)).shape, [1]);
    const longer = padded(65535);
    longer.set([0, 0, 1, 0], 8);
    assertFormatError(() => decodeNpy(longer), "length is 65536, above 65535", 8);
  });

  it("a bool that is neither 0 nor 1", () => {
    const { bytes } = goldenFile("bool.npy");
    assertFormatError(() => decodeNpy(bytes.with(130, 2)), "bool byte is 2", 130);
  });

  it("the error carries the file's name", () => {
    assertFormatError(() => decodeNpy(latin1("x"), { file: "a/b.npy" }), "a/b.npy at byte 0: ");
    assertFormatError(() => decodeNpy(latin1("x")), "<bytes> at byte 0: ");
  });

  it("something that is not a Uint8Array is a TypeError", () => {
    // @ts-expect-error: the wrong type is the point
    assertThrows(() => decodeNpy(new ArrayBuffer(8)), TypeError, "Uint8Array");
  });
});
