/**
 * Hostile input to the readers: for any bytes, the result is a valid value or a FormatError.
 *
 * @module
 */
import { describe, it } from "node:test";
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { DTYPE, DTYPES } from "../../src/base/dtype.ts";
import { FormatError } from "../../src/base/errors.ts";
import type { RawTensor } from "../../src/io/bytes.ts";
import { decodeNpy, encodeNpy } from "../../src/io/npy.ts";
import { decodeNpz, encodeNpz } from "../../src/io/npz.ts";
import {
  encodeSafetensors,
  headerLength,
  parseHeader,
  rawTensor,
} from "../../src/io/safetensors.ts";
import { amountIn } from "../support/engine.ts";
import { decodeWhole, golden, latin1 } from "./golden.ts";

type Decode = (bytes: Uint8Array) => Map<string, RawTensor>;

/** Every such place of a file is tried; odd, so that it comes to each of a byte's bits. */
const STEP = amountIn(5, 29, 1);

const READERS: [extension: string, decode: Decode][] = [
  [".npy", (bytes) => new Map([["", decodeNpy(bytes, { bfloat16: true })]])],
  [".npz", (bytes) => decodeWhole(bytes, { bfloat16: true, maxBytes: 2 ** 20 })],
  [".safetensors", decodeSafetensors],
];

function decodeSafetensors(bytes: Uint8Array): Map<string, RawTensor> {
  const header = parseHeader(
    bytes.subarray(8, 8 + headerLength(bytes, bytes.length)),
    bytes.length,
  );
  return new Map(
    Array.from(header.tensors, ([name, info]) => [
      name,
      rawTensor(info, name, bytes.subarray(info.begin, info.end)),
    ]),
  );
}

/**
 * Decodes; any error except a FormatError inside the file, and any invalid tensor, fails the test.
 */
function outcome(decode: Decode, bytes: Uint8Array): "value" | "error" {
  let tensors: Map<string, RawTensor>;
  try {
    tensors = decode(bytes);
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    assert(Number.isInteger(error.offset) && error.offset >= 0, error.message);
    assert(error.message.length < 500, error.message);
    return "error";
  }
  for (const { dtype, shape, data } of tensors.values()) {
    assertEquals(data.length, shape.reduce((product, size) => product * size, DTYPE[dtype].bytes));
    if (dtype === "bool") assert(data.every((byte) => byte <= 1));
  }
  return "value";
}

/** Where the end record of a zip archive ends. */
function endOf(bytes: Uint8Array): number {
  return latin1Text(bytes).indexOf("PK\x05\x06") + 22;
}

function latin1Text(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
}

const rawTensors: fc.Arbitrary<RawTensor> = fc
  .tuple(fc.constantFrom(...DTYPES), fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 4 }))
  .chain(([dtype, shape]) => {
    const length = shape.reduce((product, size) => product * size, DTYPE[dtype].bytes);
    const max = dtype === "bool" ? 1 : 255;
    return fc.uint8Array({ minLength: length, maxLength: length, max })
      .map((data) => ({ dtype, shape, data }));
  });
const records = fc.uniqueArray(fc.tuple(fc.string({ unit: "grapheme" }), rawTensors), {
  selector: ([name]) => name,
  maxLength: 5,
});

describe("fuzz: golden files", () => {
  for (const [extension, decode] of READERS) {
    const files = golden(extension);

    it(`${extension} cut at every byte is a FormatError`, () => {
      for (const { name, bytes } of files) {
        for (let length = 0; length < bytes.length; length += STEP) {
          // NumPy reads an archive that lacks some of its comment.
          const isWhole = extension === ".npz" && length >= endOf(bytes);
          const expected = isWhole ? outcome(decode, bytes) : "error";
          assertEquals(
            outcome(decode, bytes.subarray(0, length)),
            expected,
            `${name} to ${length}`,
          );
        }
      }
    });

    it(`${extension} with bytes after it is a FormatError, except for archives`, () => {
      for (const { bytes } of files) {
        const expected = extension === ".npz" ? outcome(decode, bytes) : "error";
        assertEquals(outcome(decode, new Uint8Array([...bytes, 0])), expected);
      }
    });

    it(`${extension} with every single bit flipped is a sound value or a FormatError`, () => {
      const outcomes = { value: 0, error: 0 };
      for (const { bytes } of files) {
        const copy = bytes.slice();
        for (let bit = 0; bit < bytes.length * 8; bit += STEP) {
          copy[bit >> 3] ^= 1 << (bit & 7);
          outcomes[outcome(decode, copy)]++;
          copy[bit >> 3] = bytes[bit >> 3];
        }
      }
      assert(outcomes.value > 0 && outcomes.error > 0, JSON.stringify(outcomes));
    });

    it(`${extension} with random bytes replaced, removed and inserted`, () => {
      const edits = fc.array(
        fc.tuple(fc.nat(), fc.integer({ min: 0, max: 4 }), fc.uint8Array({ maxLength: 6 })),
        { minLength: 1, maxLength: 5 },
      );
      fc.assert(
        fc.property(fc.constantFrom(...files), edits, ({ bytes }, list) => {
          const edited = [...bytes];
          for (const [at, removed, inserted] of list) {
            edited.splice(at % (edited.length + 1), removed, ...inserted);
          }
          outcome(decode, new Uint8Array(edited));
        }),
        { seed: 1, numRuns: amountIn(1500, 300, 3000) },
      );
    });

    it(`${extension} reads random bytes`, () => {
      fc.assert(
        fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
          outcome(decode, bytes);
        }),
        { seed: 2, numRuns: amountIn(500, 100, 1000) },
      );
    });
  }
});

describe("fuzz: headers made of plausible pieces", () => {
  const numbers = ["0", "1", "2", "-1", "1e3", "1.5", "NaN", "Infinity", "9007199254740993"];
  const pieces = [
    ..."{}[](),:'\" \\\0",
    ...numbers,
    "\xff",
    "true",
    "None",
    "99999999999999999999",
  ];

  it("npy", () => {
    const words = ["'descr': ", "'shape': ", "'fortran_order': ", "True", "'<f4'", "(1,)", "'|b1'"];
    const texts = fc.array(fc.constantFrom(...pieces, ...words), { maxLength: 25 });
    const versions = fc.constantFrom(1, 2, 3);
    fc.assert(
      fc.property(texts, versions, fc.nat({ max: 20 }), (text, version, count) => {
        const header = `{${text.join("")}`;
        const length = String.fromCharCode(header.length, ...(version === 1 ? [0] : [0, 0, 0]));
        const version2 = String.fromCharCode(version, 0);
        const file = `\x93NUMPY${version2}${length}${header}${"\x01".repeat(count)}`;
        outcome(READERS[0][1], latin1(file));
      }),
      { seed: 3, numRuns: amountIn(1500, 300, 3000) },
    );
  });

  it("npy: sizes of any magnitude", () => {
    const sizes = fc.array(fc.bigInt({ min: -2n, max: 2n ** 70n }), { maxLength: 5 });
    fc.assert(
      fc.property(sizes, fc.constantFrom("|u1", ">f8"), fc.boolean(), (shape, descr, fortran) => {
        const order = fortran ? "True" : "False";
        const header = `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': (${
          shape.map((size) => `${size},`).join("")
        })}`;
        const length = String.fromCharCode(header.length & 255, header.length >> 8);
        outcome(READERS[0][1], latin1(`\x93NUMPY\x01\0${length}${header}`));
      }),
      { seed: 4, numRuns: amountIn(500, 100, 1000) },
    );
  });

  it("safetensors", () => {
    const words = [
      '"dtype":"U8"',
      '"shape":[',
      '"data_offsets":[0,1]',
      '"__metadata__":{',
      '"a":{',
    ];
    const texts = fc.array(fc.constantFrom(...pieces, ...words), { maxLength: 25 });
    fc.assert(
      fc.property(texts, fc.nat({ max: 20 }), (text, count) => {
        const header = `{${text.join("")}`;
        const length = String.fromCharCode(header.length & 255, header.length >> 8);
        outcome(
          decodeSafetensors,
          latin1(`${length}${"\0".repeat(6)}${header}${"x".repeat(count)}`),
        );
      }),
      { seed: 5, numRuns: amountIn(1500, 300, 3000) },
    );
  });

  it("safetensors: any JSON", () => {
    fc.assert(
      fc.property(fc.json(), (json) => {
        outcome(decodeSafetensors, withHeader(new TextEncoder().encode(json)));
      }),
      { seed: 6, numRuns: amountIn(500, 100, 1000) },
    );
  });

  // A parser that takes the square of the length would take hours.
  it("safetensors: a million brackets, names and backslashes end", () => {
    for (const unit of ["[", '{"a":', '"', "\\", " ", '{"a":{"shape":[', "0"]) {
      const text = `{"a":${unit.repeat(amountIn(1e6, 1e6, 4e6) / unit.length)}`;
      outcome(decodeSafetensors, withHeader(latin1(text)));
    }
    const empty = `{"dtype":"U8","shape":[0],"data_offsets":[0,0]}`;
    const many = Array.from(
      { length: amountIn(10_000, 10_000, 50_000) },
      (_, i) => `"${i}":${empty}`,
    ).join(",");
    assertEquals(outcome(decodeSafetensors, withHeader(latin1(`{${many}}`))), "value");
  });

  function withHeader(header: Uint8Array): Uint8Array {
    const bytes = new Uint8Array(8 + header.length);
    new DataView(bytes.buffer).setUint32(0, header.length, true);
    bytes.set(header, 8);
    return bytes;
  }
});

describe("fuzz: what is written is read back", () => {
  it("npy", () => {
    fc.assert(
      fc.property(rawTensors.filter(({ dtype }) => dtype !== "bfloat16"), (raw) => {
        assertEquals(decodeNpy(encodeNpy(raw)), raw);
      }),
      { seed: 7, numRuns: amountIn(500, 100, 500) },
    );
  });

  it("npz, stored and compressed", () => {
    const numeric = records.map((list) => list.filter(([, { dtype }]) => dtype !== "bfloat16"));
    fc.assert(
      fc.property(numeric, fc.boolean(), (list, compress) => {
        fc.pre(list.every(([name]) => !name.includes("\0")));
        assertEquals([...decodeNpz(encodeNpz(list, { compress }))], list);
      }),
      { seed: 8, numRuns: amountIn(300, 60, 300) },
    );
  });

  it("safetensors", () => {
    fc.assert(
      fc.property(records, (list) => {
        const read = decodeSafetensors(encodeSafetensors(list));
        assertEquals(read, new Map(list));
      }),
      { seed: 9, numRuns: amountIn(300, 60, 300) },
    );
  });
});
