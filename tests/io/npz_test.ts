/**
 * The .npz reader and writer against NumPy's and zipfile's archives, and against damaged ones.
 *
 * @module
 */
import { describe, it } from "node:test";
import { crc32, deflateRawSync, inflateRawSync } from "node:zlib";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { arange, io } from "../../mod.ts";
import { DTypeError, FormatError } from "../../src/base/errors.ts";
import type { RawTensor } from "../../src/io/bytes.ts";
import { encodeNpy } from "../../src/io/npy.ts";
import { decodeNpz, encodeNpz } from "../../src/io/npz.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { zip } from "./archive.ts";
import { assertFormatError, decodeWhole, golden, goldenFile, latin1 } from "./golden.ts";

const TWO: [string, RawTensor][] = [
  ["first", { dtype: "uint8", shape: [2], data: new Uint8Array([1, 2]) }],
  ["second", { dtype: "float32", shape: [], data: new Uint8Array(4) }],
];

/** The index of the `n`th record that begins with those two bytes after "PK". */
function find(bytes: Uint8Array, kind: string, n = 0): number {
  const text = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  let at = -1;
  for (let i = 0; i <= n; i++) at = text.indexOf(`PK${kind}`, at + 1);
  assert(at >= 0);
  return at;
}
const LOCAL = "\x03\x04";
const ENTRY = "\x01\x02";
const END = "\x05\x06";

/** A copy of an archive with `values` written at a record's field. */
function patched(
  source: Uint8Array,
  [kind, n, field]: readonly [string, number, number],
  ...values: number[]
): Uint8Array {
  const bytes = source.slice();
  bytes.set(values, find(bytes, kind, n) + field);
  return bytes;
}

describe("npz: NumPy's archives", () => {
  for (const file of golden(".npz")) {
    it(`${file.name} reads as NumPy reads it, in its order`, () => {
      const arrays = decodeNpz(file.bytes);
      assertEquals(arrays, file.arrays);
      assertEquals([...arrays.keys()].sort(), [...file.arrays.keys()].sort());
    });
    if (!file.same) continue;
    it(`${file.name} is written with NumPy's bytes`, () => {
      // Through the reader, since the index's JSON object loses the order of names like "2".
      assertEquals(encodeNpz(decodeWhole(file.bytes)), file.bytes);
    });
  }

  it("compressed archives read back, and are smaller", () => {
    const zeros: RawTensor = { dtype: "float64", shape: [100, 100], data: new Uint8Array(80000) };
    const bytes = encodeNpz([["zeros", zeros], ...TWO], { compress: true });
    assert(bytes.length < 2000);
    assertEquals(decodeNpz(bytes), new Map([["zeros", zeros], ...TWO]));
  });

  it("names picks arrays, and the others are not looked at", () => {
    const bytes = patched(encodeNpz(TWO), [LOCAL, 0, 0], 0);
    assertEquals(decodeNpz(bytes, { names: ["second"] }), new Map([TWO[1]]));
    assertFormatError(() => decodeNpz(bytes), "expected a member", 0);
    assertFormatError(() => decodeNpz(bytes, { names: ["third"] }), 'no array is named "third"');
  });

  it("members that are no .npy files are left out, whatever they hold", () => {
    const name = [...latin1("readme.md")];
    assertEquals(name.length, "first.npy".length);
    const renamed = patched(encodeNpz(TWO), [LOCAL, 0, 30], ...name);
    const bytes = patched(patched(renamed, [ENTRY, 0, 46], ...name), [LOCAL, 0, 59], 0);
    assertEquals(decodeNpz(bytes), new Map([TWO[1]]));
    assertFormatError(() => decodeNpz(bytes, { names: ["readme.md"] }), "no array is named");
  });

  it("a comment may look like an end record", () => {
    const plain = encodeNpz(TWO);
    for (const text of ["\0\0\0\0", "PK\0\0", "\0\0\x05\x06", "PK\x05\x06\0\0"]) {
      // The false record begins 22 bytes before the end; except for its signature it is valid.
      const comment = latin1(`comment ${text.padEnd(text.length > 4 ? 30 : 22, "\0")}`);
      const bytes = new Uint8Array([...plain, ...comment]);
      bytes[plain.length - 2] = comment.length;
      assertEquals(decodeNpz(bytes), new Map(TWO));
    }
  });

  it("options reach the arrays, and errors name archive and member", () => {
    const npy = goldenFile("bfloat16.npy");
    const bytes = encodeNpz([["b", { dtype: "uint16", shape: [3], data: new Uint8Array(6) }]]);
    const at = find(bytes, LOCAL) + 30 + "b.npy".length + 20;
    assertFormatError(() => {
      const damaged = bytes.slice();
      damaged.set(npy.bytes, at);
      decodeNpz(damaged, { file: "x.npz" });
    }, 'x.npz at byte 55: member "b.npy" is damaged');
    const text = encodeNpz([["__proto__", TWO[0][1]]]);
    assertEquals([...decodeNpz(text).keys()], ["__proto__"]);
  });
});

describe("npz: archives of other programs", () => {
  /** An npy file. */
  function npy(descr: string, shape: string, data: Uint8Array): Uint8Array {
    const header = `{'descr': ${descr}, 'fortran_order': False, 'shape': ${shape}, }\n`;
    const start = latin1(`\x93NUMPY\x01\0${String.fromCharCode(header.length)}\0${header}`);
    return new Uint8Array([...start, ...data]);
  }

  it("an array that is not read hides no other, nor does what macOS adds", () => {
    const members = {
      "format.npy": npy("'|S3'", "()", latin1("csc")),
      "o.npy": npy("'|O'", "(1,)", new Uint8Array(40)),
      "time.npy": npy("'<M8[ns]'", "(1,)", new Uint8Array(8)),
      "__MACOSX/._data.npy": latin1("\0\x05\x16\x07"),
      "data.npy": io.encodeNpy(arange(3)),
    };
    for (const packed of [false, true]) {
      const arrays = io.decodeNpz(zip(members, { packed }));
      assertEquals(Object.keys(arrays), ["data"]);
      assertEquals(arrays.data!.toArray(), [0, 1, 2]);
      assertThrows(() => arrays.format, FormatError, "format.npy at byte");
      assert("time" in arrays);
      const chosen = (): unknown => io.decodeNpz(zip(members), { names: ["o", "data"] });
      assertThrows(chosen, FormatError, '"|O" is not a dtype that is read');
    }
  });

  it("records of zip64 are read whatever the size, and refused where they end early", () => {
    for (const packed of [false, true]) {
      const bytes = zip({ "a.npy": io.encodeNpy(arange(3)), "b.npy": io.encodeNpy(arange(2)) }, {
        zip64: true,
        packed,
      });
      const arrays = io.decodeNpz(bytes);
      assertEquals(Object.values(arrays).map((x) => x.toArray()), [[0, 1, 2], [0, 1]]);
      for (let end = 0; end < bytes.length; end += 7) {
        assertThrows(() => io.decodeNpz(bytes.subarray(0, end)), FormatError);
      }
    }
  });
});

describe("npz: bytes after the archive, as NumPy reads them", () => {
  it("newlines, zeros, other text, and a comment that is cut", () => {
    const bytes = encodeNpz(TWO);
    for (const after of ["\n", "\0".repeat(1000), "PK\x05", "x".repeat(60_000)]) {
      const longer = new Uint8Array([...bytes, ...latin1(after)]);
      assertEquals([...decodeNpz(longer)], TWO);
    }
    const commented = new Uint8Array([...bytes, ...latin1("comm")]);
    commented[bytes.length - 2] = 7;
    assertEquals([...decodeNpz(commented)], TWO);
    // NumPy looks for the end in the last 65,557 bytes, too.
    const far = new Uint8Array([...bytes, ...new Uint8Array(70_000)]);
    assertFormatError(() => decodeNpz(far), "it has no end record");
  });
});

describe("npz: arrays that inflate to far more than they say", () => {
  it("are refused before they are inflated", () => {
    const shape = [2 ** 23];
    const large: RawTensor = { dtype: "uint8", shape, data: new Uint8Array(shape[0]!) };
    const bytes = encodeNpz([["a", large], TWO[0]!], { compress: true });
    const start = find(bytes, LOCAL) + 30 + "a.npy".length + 20;
    const end = find(bytes, LOCAL, 1);
    // The header of the array says another size; the checksum is not that of the member any more.
    const npy = new Uint8Array(inflateRawSync(bytes.subarray(start, end)));
    npy[npy.indexOf("8".charCodeAt(0), 60)] = "3".charCodeAt(0);
    const packed = deflateRawSync(npy);
    assert(packed.length <= end - start);
    bytes.fill(0, start, end).set(packed, start);
    const read = decodeNpz(bytes);
    // A member that was inflated has an error of its checksum, which is one of the whole archive.
    const error = read.get("a");
    assert(error instanceof FormatError, `${error}`);
    assertEquals(error.message.includes("bytes follow the array"), true, error.message);
    assertFormatError(() => decodeNpz(bytes, { names: ["a"] }), "bytes follow the array");
    assertEquals(read.get("first"), TWO[0]![1]);
  });
});

describe("npz: writing what the format cannot hold", () => {
  it("bfloat16, and names that zip cannot hold", () => {
    const raw: RawTensor = { dtype: "bfloat16", shape: [1], data: new Uint8Array(2) };
    assertThrows(() => encodeNpz([["a", raw]]), DTypeError, "bfloat16");
    for (const name of ["a\0b", "\ud800", "x".repeat(65536)]) {
      assertFormatError(() => encodeNpz([[name, TWO[0][1]]]), "cannot hold the name");
    }
  });

  it("a name of 65535 bytes is kept, and one beyond ASCII is marked as UTF-8", () => {
    const name = "x".repeat(65535 - ".npy".length);
    assertEquals([...decodeNpz(encodeNpz([[name, TWO[0][1]]])).keys()], [name]);
    const bytes = encodeNpz([["ü", TWO[0][1]], TWO[1]]);
    assertEquals([...decodeNpz(bytes).keys()], ["ü", "second"]);
    const flags = (kind: string, field: number): number[] =>
      [0, 1].flatMap((n) => [...bytes.subarray(find(bytes, kind, n) + field).subarray(0, 2)]);
    assertEquals([flags(LOCAL, 6), flags(ENTRY, 8)], [[0, 8, 0, 0], [0, 8, 0, 0]]);
  });

  it("more arrays than zip can count", () => {
    const many = (count: number): [string, RawTensor][] =>
      Array.from({ length: count }, (_, i) => [String(i), TWO[0][1]]);
    if (RUNS_ALL) {
      assertEquals(decodeNpz(encodeNpz(many(65534)), { names: ["65533"] }).size, 1);
    }
    assertFormatError(() => encodeNpz(many(65535)), "65534 arrays");
  });
});

describe("npz: faults are FormatErrors with the offset", () => {
  const plain = encodeNpz(TWO);
  const packed = encodeNpz(TWO, { compress: true });
  const entry = find(plain, ENTRY);
  const second = find(plain, ENTRY, 1);
  const end = find(plain, END);
  const max = [255, 255, 255, 255];
  const cases: [what: string, bytes: Uint8Array, message: string, offset?: number][] = [
    ["no bytes", new Uint8Array(), "not an npz archive, but an empty file", 0],
    ["another format", latin1("\x93NUMPY".padEnd(200)), "but an npy file: io.readNpy", 0],
    ["text", latin1("text".padEnd(200)), "no end record", 0],
    ["two disks", patched(plain, [END, 0, 4], 1), "several disks", end],
    ["counts that differ", patched(plain, [END, 0, 8], 1), "several disks", end],
    ["zip64 in the end record", patched(plain, [END, 0, 16], ...max), "zip64", end],
    ["a directory elsewhere", patched(plain, [END, 0, 16], 0), "does not end at", end],
    ["fewer members than entries", patched(plain, [END, 0, 8], 1, 0, 1, 0), "longer", second],
    [
      "more members than entries",
      patched(plain, [END, 0, 8], 3, 0, 3, 0),
      "3 members need more than",
    ],
    ["65534 members", patched(plain, [END, 0, 8], 254, 255, 254, 255), "65534 members need", end],
    ["a damaged entry", patched(plain, [ENTRY, 1, 0], 0), "expected a directory entry", second],
    ["encryption", patched(plain, [ENTRY, 0, 8], 1), '"first.npy" is encrypted or', entry],
    ["another method", patched(plain, [ENTRY, 0, 10], 14), "has method 14", entry],
    ["zip64 in an entry", patched(plain, [ENTRY, 0, 20], ...max, ...max), "zip64", entry + 55],
    ["stored sizes that differ", patched(plain, [ENTRY, 0, 24], 1), "and 1 differ", entry],
    ["an impossible ratio", patched(packed, [ENTRY, 0, 24], 0, 0, 0, 127), "cannot inflate"],
    ["a name that is not UTF-8", patched(plain, [ENTRY, 0, 46], 255), "not UTF-8", entry],
    [
      "a name beyond the file",
      patched(plain, [ENTRY, 0, 28], 255, 255),
      "the name needs",
      entry + 46,
    ],
    ["an offset beyond the file", patched(plain, [ENTRY, 0, 42], 0, 0, 0, 1), "truncated", 2 ** 24],
    ["an offset to no member", patched(plain, [ENTRY, 0, 42], 1), "expected a member", 1],
    ["another member's offset", patched(plain, [ENTRY, 1, 42], 0, 0), "differ in name", 0],
    ["another name inside", patched(plain, [LOCAL, 0, 30], 65), "differ in name", 0],
    ["another method inside", patched(plain, [LOCAL, 0, 8], 8), "differ in method", 0],
    ["an extra field too long", patched(plain, [LOCAL, 1, 28], 255, 255), "truncated"],
    ["another checksum", patched(plain, [ENTRY, 0, 16], 0, 0), '"first.npy" is damaged', 59],
    ["damaged data", patched(plain, [LOCAL, 0, 30 + 9 + 20 + 129], 7), "is damaged", 59],
    ["a broken stream", patched(packed, [LOCAL, 0, 30 + 9 + 20], ...max), "cannot inflate:", 59],
    ["a stream longer than declared", patched(packed, [ENTRY, 0, 24], 9, 0), "cannot inflate:", 59],
    ["a stream shorter than declared", patched(packed, [ENTRY, 0, 24], 255), "declares 255", 59],
    ["a repeated name", encodeNpz([TWO[0], TWO[0]]), 'two members are named "first"'],
  ];
  for (const [what, bytes, message, offset] of cases) {
    it(what, () => assertFormatError(() => decodeNpz(bytes), message, offset));
  }

  it("a member that is no array is named, with the offset in it", () => {
    const bytes = patched(plain, [LOCAL, 0, 59], 0);
    const crc = crc32(bytes.subarray(59, 59 + 130));
    const repaired = patched(bytes, [ENTRY, 0, 16], crc & 255, crc >> 8, crc >> 16, crc >> 24);
    const decode = (): unknown => decodeNpz(repaired, { file: "x.npz", names: ["first"] });
    assertFormatError(decode, "x.npz/first.npy at byte 0: not an npy file", 0);
  });

  it("members that overlap cannot multiply the work", () => {
    // Both entries claim the whole archive's bytes.
    const size = entry - 59;
    const claim = [size & 255, size >> 8, 0, 0];
    const first = patched(plain, [ENTRY, 0, 20], ...claim, ...claim);
    const bytes = patched(first, [ENTRY, 1, 20], ...claim, ...claim);
    assertFormatError(() => decodeNpz(bytes), "overlap", second);
  });

  it("maxBytes bounds what members inflate to, together, and stored ones not at all", () => {
    const bomb: RawTensor = { dtype: "uint8", shape: [1e6], data: new Uint8Array(1e6) };
    const bytes = encodeNpz([["a", bomb], ["b", bomb]], { compress: true });
    assertFormatError(() => decodeNpz(bytes, { maxBytes: 2e6 }), "over 2000000 bytes (maxBytes)");
    assertFormatError(() => decodeNpz(bytes, { maxBytes: NaN }), "maxBytes");
    assertFormatError(() => decodeNpz(bytes, { maxBytes: 2e6 + 255 }), "maxBytes");
    assertEquals(decodeNpz(bytes, { maxBytes: 2e6 + 256 }).size, 2);
    assertEquals(decodeNpz(bytes, { maxBytes: 1.5e6, names: ["b"] }).size, 1);
    assertEquals(decodeNpz(encodeNpz([["a", bomb]]), { maxBytes: 10 }).size, 1);
  });

  it("a member may declare 1032 times its bytes, and not one more", () => {
    const size = new DataView(packed.buffer).getUint32(find(packed, ENTRY) + 20, true) * 1032;
    const declaring = (n: number): Uint8Array =>
      patched(packed, [ENTRY, 0, 24], n & 255, n >> 8 & 255, n >> 16 & 255, n >> 24);
    assertFormatError(() => decodeNpz(declaring(size)), `but declares ${size}`);
    assertFormatError(() => decodeNpz(declaring(size + 1)), "cannot inflate from");
  });

  it("an archive that declares over 1 GiB is refused before anything is inflated", () => {
    const big: RawTensor = { dtype: "uint8", shape: [2e6], data: new Uint8Array(2e6) };
    const data = encodeNpy(big);
    const names = Array.from({ length: 600 }, (_, i) => `a${i}`);
    const bytes = zip(Object.fromEntries(names.map((name) => [`${name}.npy`, data])), {
      packed: true,
    });
    // The first member cannot be inflated, which nothing finds out.
    bytes.fill(0xff, 60, 160);
    assertFormatError(() => decodeNpz(bytes, { names: ["a0"] }), "cannot inflate");
    assertFormatError(
      () => decodeNpz(bytes, { names }),
      "1073741824",
    );
  });
});
