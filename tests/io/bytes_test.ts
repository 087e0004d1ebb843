/**
 * Shared code of the file readers: the cursor at the ends of its bytes, texts in errors, and byte
 * counts of shapes.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { FormatError, OutOfMemoryError, ShapeError } from "../../src/base/errors.ts";
import {
  allocate,
  ANY_16,
  ANY_32,
  checkBools,
  checkedBytes,
  checkRaw,
  Cursor,
  decodeUtf8,
  joined,
  quote,
} from "../../src/io/bytes.ts";
import { assertFormatError, latin1 } from "./golden.ts";

const MOST = Number.MAX_SAFE_INTEGER;
const cursor = (text: string, at = 0, base = 0) => new Cursor(latin1(text), "a.bin", at, base);

test("bytes: quoted texts have at most 60 characters", () => {
  assertEquals(quote("a\n"), '"a\\n"');
  assertEquals(quote("x".repeat(60)), `"${"x".repeat(60)}"`);
  assertEquals(quote("x".repeat(61)), `"${"x".repeat(60)}…"`);
});

test("bytes: UTF-8 is strict, and keeps its byte order mark", () => {
  assertEquals(decodeUtf8(latin1("\xef\xbb\xbfA")), "\ufeffA");
  assertEquals(decodeUtf8(latin1("\xc3")), undefined);
});

test("bytes: numbers are little-endian, and end where the bytes do", () => {
  const at = cursor("\x01\x02\x03\x04\x05\x06\x07\x08\x09");
  assertEquals([at.left, at.u16("a", ANY_16), at.u32("b", ANY_32), at.left], [
    9,
    0x0201,
    0x06050403,
    3,
  ]);
  assertFormatError(() => at.u32("c", ANY_32), "truncated: c needs 4 bytes, but 3 are left", 6);
  assertEquals(at.take(3, "d"), latin1("\x07\x08\x09"));
  assertFormatError(() => at.take(1, "e"), "but 0 are left", 9);
});

test("bytes: numbers are at most what the reader allows", () => {
  const text = "\x01\x02\x03\x04\x05\x06\0\0\0\0\x01\0\0\0";
  const at = cursor(text);
  assertEquals(
    [at.u16("a", 0x201), at.u32("b", 0x06050403), at.u64("c", 2 ** 32)],
    [0x201, 0x06050403, 2 ** 32],
  );
  assertFormatError(() => cursor(text).u16("a", 0x200), "a is 513, above 512", 0);
  assertFormatError(() => cursor(text, 2).u32("b", 7), "b is 100992003, above 7", 2);
  assertFormatError(() => cursor(text, 6).u64("c", 2 ** 32 - 1), "c is 4294967296, above", 6);
  const huge = cursor("\x01\0\0\0\0\0\0\x80");
  assertFormatError(() => huge.u64("f", MOST), "f is 9223372036854775809, above", 0);
});

test("bytes: errors count from the begin of the file", () => {
  const error = assertThrows(() => cursor("abc", 1, 100).fail("no"), FormatError);
  assertEquals([error.message, error.file, error.offset], ["a.bin at byte 101: no", "a.bin", 101]);
});

test("bytes: an excerpt ends at 60 bytes, at the end, or before a byte", () => {
  assertEquals(cursor("x".repeat(100), 20).excerpt(), "x".repeat(60));
  assertEquals(cursor("abc", 1).excerpt(), "bc");
  assertEquals(cursor("abc'd").excerpt("'".charCodeAt(0)), "abc");
});

test("bytes: tokens and integers are taken after blanks", () => {
  const at = cursor(" \t\r\n, 12 3");
  assertEquals([at.accept(";"), at.accept(","), at.integer("n", 12), at.integer("m", 3)], [
    false,
    true,
    12,
    3,
  ]);
  at.expectEnd();
  assertEquals([cursor("0").integer("n", 0), cursor("9007199254740991").integer("n", MOST)], [
    0,
    Number.MAX_SAFE_INTEGER,
  ]);
  assertFormatError(() => cursor("9007199254740992").integer("n", MOST), "n is above 2^53 - 1", 0);
  assertFormatError(() => cursor(" 13").integer("n", 12), "n is above 12", 1);
  for (const text of ["", "/", ":", "a"]) {
    assertFormatError(() => cursor(text).integer("n", MOST), "expected n (an integer");
  }
  assertFormatError(() => cursor(" 00").integer("n", MOST), "n has leading zeros", 1);
  assertFormatError(() => cursor("a").expect("b"), 'expected "b", found "a"');
  assertFormatError(() => cursor("x".repeat(20)).expectEnd(), `found "${"x".repeat(12)}"`);
  assertFormatError(() => cursor("").expect("b"), 'expected "b", found the end');
});

test("bytes: strings of JSON end at a quote that is not escaped", () => {
  assertEquals(cursor('"a\\"b\\u0041" "c"').jsonString(), 'a"bA');
  assertEquals(cursor('""').jsonString(), "");
  const bad: [text: string, message: string, offset: number][] = [
    ['  "a', "the string does not end", 2],
    ['"a\\"', "the string does not end", 0],
    ['"a\\', "the string does not end", 0],
    ['"\xff"', "the string is not UTF-8", 0],
    ['"\\x"', "is not valid JSON", 0],
    ['"\\ud800"', "is not valid JSON", 0],
    ["a", 'expected "\\""', 0],
  ];
  for (const [text, message, offset] of bad) {
    assertFormatError(() => cursor(text).jsonString(), message, offset);
  }
});

test("bytes: how many a shape takes, exactly up to 2^53 - 1", () => {
  assertEquals(checkedBytes([], 8), 8);
  assertEquals(checkedBytes([3, 4], 2), 24);
  assertEquals(checkedBytes([0, 5], 2), 0);
  assertEquals(checkedBytes([Number.MAX_SAFE_INTEGER], 1), Number.MAX_SAFE_INTEGER);
  assertEquals(checkedBytes([2 ** 53], 1), undefined);
  // Sizes next to a 0 count, as strides are products of them.
  assertEquals(checkedBytes([0, 2 ** 53], 1), undefined);
});

test("bytes: bools are 0 and 1, and other bytes are told by their place", () => {
  checkBools(new Uint8Array([0, 1]), "a.bin", 5);
  assertFormatError(() => checkBools(new Uint8Array([0, 1, 2]), "a.bin", 5), "bool byte is 2", 7);
});

test("bytes: what is to be written fits its shape, of up to 64 axes", () => {
  const raw = (rank: number, bytes: number) => ({
    dtype: "int16" as const,
    shape: new Array<number>(rank).fill(1),
    data: new Uint8Array(bytes),
  });
  checkRaw(raw(64, 2), "write");
  assertThrows(() => checkRaw(raw(65, 2), "write"), ShapeError, "65 axes, at most 64");
  assertThrows(() => checkRaw(raw(1, 3), "write"), ShapeError, "it does not take 3 bytes");
});

test("bytes: there is room for zeros, or an OutOfMemoryError", () => {
  assertEquals(allocate(3), new Uint8Array(3));
  const error = assertThrows(() => allocate(2 ** 53 - 1), OutOfMemoryError);
  assertEquals([error.bytes, error.device], [2 ** 53 - 1, "cpu"]);
  assertEquals(joined([latin1("ab"), latin1(""), latin1("c")]), latin1("abc"));
});
