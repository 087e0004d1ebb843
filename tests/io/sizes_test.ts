/**
 * Files that say sizes which they do not have: every numeric field of every format becomes 1e9, 2^31,
 * 2^53, −1 and NaN. What opens them asks for at most 10 times the file and 64 MB, in a number of steps
 * that grows with the file alone, and throws typed errors.
 *
 * Fields are found, not listed: those that readers read of a good file by DataViews, the numbers in
 * texts, and every place of the segments of JPEG files. A run tries a part of the files, all of them
 * with `ROWMAJOR_TEST_ALL=1`.
 *
 * @module
 */
import { takeBytes, takeSteps } from "../support/effort.ts";
import { assert, assertEquals } from "@std/assert";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { arange, io, zeros } from "../../mod.ts";
import { decodeImage } from "../../src/images/mod.ts";
import * as llm from "../../src/llm/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { modelFolder, temporary } from "../llm/models.ts";
import { randomLlama } from "../support/llama.ts";
import { RUNS_ALL } from "../support/amount.ts";
import { amountIn } from "../support/engine.ts";
import type { Any } from "../support.ts";
import { latin1 } from "./golden.ts";

/** The most steps for a file, of which a decoder has some thousand for the smallest picture. */
const STEPS = (size: number): number => 300_000 + 500 * size;
const BYTES = (size: number): number => 64e6 + 10 * size;

/** A good file, what opens it, and all ways to put sizes into it. */
interface Subject {
  readonly name: string;
  readonly size: number;
  /** The damaged files: what each says, and what opens it. */
  readonly damaged: readonly (readonly [what: string, open: () => unknown])[];
}

/** A number in bytes: where, in how many of them, in which order. */
interface Field {
  readonly at: number;
  readonly width: number;
  readonly little: boolean;
}

/** The numbers that `open` reads of `bytes` by DataViews. */
async function fieldsOf(bytes: Uint8Array, open: (b: Uint8Array) => unknown): Promise<Field[]> {
  const found = new Map<string, Field>();
  const methods = ["Uint16", "Uint32", "Int32", "BigUint64", "BigInt64", "Float32", "Float64"];
  const own = methods.map((name) => (DataView.prototype as Any)[`get${name}`]);
  methods.forEach((name, i) => {
    const width = Number(/\d+/.exec(name)![0]) / 8;
    (DataView.prototype as Any)[`get${name}`] = function (this: DataView, at: number, le = false) {
      const place = this.byteOffset - bytes.byteOffset + at;
      if (this.buffer === bytes.buffer && place >= 0 && place + width <= bytes.length) {
        found.set(`${place} ${width}`, { at: place, width, little: le });
      }
      return own[i].call(this, at, le);
    };
  });
  try {
    await open(bytes);
  } finally {
    methods.forEach((name, i) => (DataView.prototype as Any)[`get${name}`] = own[i]);
  }
  return [...found.values()];
}

const SIZES: readonly (readonly [string, bigint])[] = [
  ["1e9", 1_000_000_000n],
  ["2^31", 2n ** 31n],
  ["2^53", 2n ** 53n],
  ["-1", -1n],
];

/** The bytes with one number in a field. */
function withNumber(bytes: Uint8Array, field: Field, value: bigint): Uint8Array {
  const made = bytes.slice();
  for (let i = 0; i < field.width; i++) {
    const shift = 8n * BigInt(field.little ? i : field.width - 1 - i);
    made[field.at + i] = Number(value >> shift & 255n);
  }
  return made;
}

/** The bits of NaN in so many bytes. */
const NANS: Readonly<Record<number, bigint>> = {
  ...{ 1: 0xffn, 2: 0x7e00n, 4: 0x7fc00000n, 8: 0x7ff8000000000000n },
};

/** The share of the damaged files that a run tries. */
const SHARE = amountIn(0.025, 0.02, 1);

/** The most fields of a file that are tried: vocabularies have hundreds that are alike. */
const MOST_FIELDS = 250;

function damagedFields(
  bytes: Uint8Array,
  fields: readonly Field[],
  open: (bytes: Uint8Array) => unknown,
): [string, () => unknown][] {
  const step = Math.max(1, fields.length / MOST_FIELDS);
  return fields.filter((_, i) => i % step < 1).flatMap((field) =>
    [...SIZES, ["NaN", NANS[field.width]!] as const].map(
      ([text, value]): [string, () => unknown] => [
        `${text} in ${field.width} bytes at ${field.at}`,
        () => open(withNumber(bytes, field, value)),
      ],
    )
  );
}

/** A file of which every field that its reader reads is damaged. */
async function binary(
  name: string,
  bytes: Uint8Array,
  open: (bytes: Uint8Array) => unknown,
): Promise<Subject> {
  const fields = await fieldsOf(bytes, open);
  assert(fields.length > 0, name);
  return { name, size: bytes.length, damaged: damagedFields(bytes, fields, open) };
}

const TEXTS = ["1000000000", "2147483648", "9007199254740992", "-1", "NaN", "1e9", "1e999"];

/** A text of which every number is damaged; `open` gets the text. */
function textual(
  name: string,
  text: string,
  size: number,
  open: (text: string) => unknown,
): Subject {
  const numbers = [...text.matchAll(/(?<![\w."])-?\d+(\.\d+)?(e[+-]?\d+)?(?![\w"])/g)];
  assert(numbers.length > 0, name);
  const damaged = numbers.flatMap(({ 0: number, index }) =>
    TEXTS.map((value): [string, () => unknown] => [
      `${value} for ${number} at ${index}`,
      () => open(text.slice(0, index) + value + text.slice(index + number.length)),
    ])
  );
  return { name, size, damaged };
}

const u64 = (n: number): Uint8Array => new Uint8Array(BigUint64Array.of(BigInt(n)).buffer);
const text = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");

/** A JPEG, of which two bytes and one byte at every place before the data are damaged. */
function jpeg(name: string, bytes: Uint8Array): Subject {
  const end = text(bytes).lastIndexOf("\xff\xda") + 14;
  const fields: Field[] = [];
  for (let at = 2; at < end; at++) {
    // Tables of codes have many places that are much the same.
    const marker = text(bytes.subarray(0, at)).lastIndexOf("\xff\xc4");
    if (marker >= 0 && at - marker > 24 && at < end - 14) continue;
    for (const width of [1, 2]) fields.push({ at, width, little: false });
  }
  return { name, size: bytes.length, damaged: damagedFields(bytes, fields, decodeImage) };
}

/** A PNG with right checksums, whatever its chunks have. */
function resealed(bytes: Uint8Array): Uint8Array {
  const { crc32 } = process.getBuiltinModule("node:zlib");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 8; at + 12 <= bytes.length;) {
    const end = at + 8 + view.getUint32(at);
    if (end + 4 > bytes.length) break;
    view.setUint32(end, crc32(bytes.subarray(at + 4, end)));
    at = end + 4;
  }
  return bytes;
}

/** A PNG, of which the lengths of chunks and every place of its header are damaged. */
async function png(name: string, bytes: Uint8Array): Promise<Subject> {
  const open = (b: Uint8Array): unknown => decodeImage(resealed(b));
  const header = [4, 8].flatMap((width) =>
    Array.from({ length: 20 }, (_, i) => ({ at: 8 + i, width, little: false }))
  );
  const fields = [...await fieldsOf(bytes, decodeImage), ...header];
  return { name, size: bytes.length, damaged: damagedFields(bytes, fields, open) };
}

/** Columns of Arrow, of which every number is damaged. */
function arrow(): Subject {
  const bit = { ...{ offset: 0, nullCount: 0, children: [] }, values: new Uint8Array(1) };
  const bool = { ...bit, type: { typeId: 6 }, length: 8 };
  const int = { ...bit, type: { typeId: 2 }, length: 1 };
  const nulls = { ...int, nullCount: 1, nullBitmap: new Uint8Array(1) };
  const list = { ...bit, type: { typeId: 16, listSize: 1 }, length: 1, children: [int] };
  const damaged: [string, () => unknown][] = [];
  for (const [kind, column] of Object.entries({ bool, int, nulls, list })) {
    for (const key of ["length", "offset", "nullCount", "listSize", "typeId"]) {
      for (const value of [1e9, 2 ** 28, 2 ** 31, 2 ** 53, -1, NaN]) {
        const type = { ...column.type, [key]: value };
        const made = key in column ? { ...column, [key]: value } : { ...column, type };
        damaged.push([
          `${kind} with ${key} ${value}`,
          () => io.fromArrow(made as Any, { fill: 0 }),
        ]);
      }
    }
  }
  return { name: "Arrow", size: 1, damaged };
}

async function opened(source: string | Uint8Array): Promise<void> {
  using w = await nn.open(source);
  for (const name of w.names()) w.info(name);
  for (const key of w.metadata.keys()) w.metadata.get(key);
}

async function openedModel(source: string | Uint8Array): Promise<void> {
  using model = await llm.open(source);
  assert(model.config.layers > 0);
}

function written(path: string, content: string): string {
  writeFileSync(path, content);
  return path;
}

async function subjects(): Promise<Subject[]> {
  const x = arange(12, { dtype: "float32" }).reshape([3, 4]);
  const tensors = { x, "b.c": zeros([2], { dtype: "bool" }), d: zeros([0, 7]), e: zeros([]) };
  const npy = io.encodeNpy(x), npz = io.encodeNpz(tensors);
  const zipped = io.encodeNpz(tensors, { compress: true });
  const safetensors = io.encodeSafetensors(tensors, { metadata: { a: "b" } });
  const header = text(
    safetensors.subarray(8, 8 + new DataView(safetensors.buffer).getUint32(0, true)),
  );
  const data = safetensors.subarray(8 + header.length);
  const llama = randomLlama("q4_0", {
    ...{ layers: 1, width: 64, heads: 4, groups: 2, hidden: 32, vocabulary: 300 },
  });
  const { cases }: { cases: { name: string; file: string }[] } = JSON.parse(
    readFileSync(new URL("../golden/images/images.json", import.meta.url), "utf8"),
  );
  const picture = (name: string): Uint8Array =>
    Uint8Array.from(atob(cases.find((one) => one.name === name)!.file), (c) => c.charCodeAt(0));
  const folder = modelFolder("llama");
  const config = readFileSync(join(folder, "config.json"), "utf8");
  const index = { metadata: { total_size: 48 }, weight_map: { x: "a.safetensors" }, n: [1, 2] };
  const indexed = temporary("index.safetensors.index.json");
  writeFileSync(temporary("a.safetensors"), io.encodeSafetensors({ x }));
  const joined = (...parts: Uint8Array[]): Uint8Array =>
    Uint8Array.from(parts.flatMap((part) => [...part]));
  return [
    await binary("npy", npy, io.decodeNpy),
    textual("npy header", text(npy.subarray(10, 128)), npy.length, (one) => {
      const size = Uint8Array.of(one.length & 255, one.length >> 8);
      return io.decodeNpy(joined(npy.subarray(0, 8), size, latin1(one), npy.subarray(128)));
    }),
    await binary("npz", npz, io.decodeNpz),
    await binary("npz, compressed", zipped, io.decodeNpz),
    await binary("safetensors", safetensors, (bytes) => io.decodeSafetensors(bytes).names),
    textual("safetensors header", header, safetensors.length, (one) => {
      const bytes = joined(u64(one.length), latin1(one), data);
      const file = io.decodeSafetensors(bytes);
      for (const name of file.names) file.get(name);
    }),
    await binary("GGUF", llama, opened),
    await binary("GGUF of a model", llama, openedModel),
    textual("config.json", config, config.length, (one) => {
      written(join(folder, "config.json"), one);
      return openedModel(folder);
    }),
    textual("index.json", JSON.stringify(index), 300, (one) => opened(written(indexed, one))),
    ...[
      "jpeg baseline",
      "jpeg 420 progressive",
      "jpeg grey, restarts",
      "jpeg cmyk",
    ].map((name) => jpeg(name, picture(name))),
    ...await Promise.all(
      ["rgb8 7x11", "palette4t 7x11", "grey16i 7x11", "rgba8i 7x11"].map((name) =>
        png(name, picture(name))
      ),
    ),
    arrow(),
  ];
}

/** Opens a file; a typed error, or no error. */
async function outcome(what: string, open: () => unknown): Promise<"read" | "refused"> {
  try {
    await open();
    return "read";
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    const isSystems = /^(ENOENT|EISDIR)$/.test(code ?? "");
    assert(code?.startsWith("RM_") || isSystems, `${what}: ${(error as Error).stack}`);
    assert(message.length < 1000, `${what}: ${message}`);
    return "refused";
  }
}

/** A number from 0 to 1 of a text, for a choice that stays. */
function drawOf(name: string): number {
  let hash = 0x811c9dc5;
  for (const letter of name) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x01000193);
  return ((hash ^ hash >>> 15) >>> 0) / 2 ** 32;
}

test("files with sizes that they do not have: few bytes, few steps, typed errors", async () => {
  const all = await subjects();
  const count = all.reduce((sum, { damaged }) => sum + damaged.length, 0);
  assert(count >= 7000, `${count} files`);
  let tried = 0, refused = 0;
  const most = { bytes: 0, steps: 0 };
  for (const { name, size, damaged } of all) {
    const chosen = damaged.filter(([what]) => drawOf(name + what) < SHARE);
    for (const [what, open] of chosen) {
      await takeSteps();
      takeBytes();
      if (await outcome(`${name}: ${what}`, open) === "refused") refused++;
      const bytes = takeBytes(), steps = await takeSteps();
      assert(bytes <= BYTES(size), `${name}: ${what}: ${bytes} bytes were asked for`);
      assert(steps <= STEPS(size), `${name}: ${what}: ${steps} steps`);
      most.bytes = Math.max(most.bytes, bytes / BYTES(size));
      most.steps = Math.max(most.steps, steps / STEPS(size));
      tried++;
    }
  }
  console.log(
    `${tried} of ${count} files, ${refused} refused; at most ${most.bytes.toFixed(3)} of the ` +
      `bytes and ${most.steps.toFixed(3)} of the steps that they may take`,
  );
  assert(refused > tried / 2 && refused < tried);
  assertEquals(tried === count, RUNS_ALL);
});
