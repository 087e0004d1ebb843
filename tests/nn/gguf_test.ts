/**
 * Weights of GGUF files (tests/golden/quantized.json): mapped, read and from bytes; metadata; layers
 * with dequantized weights; damaged files.
 *
 * @module
 */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { FormatError, io, ones, random, tensor } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, loose } from "../support.ts";
import { ggufMetadata, type GgufValue, writeGguf } from "../support/gguf.ts";

interface Golden {
  readonly formats: Readonly<Record<string, { readonly numbers: string }>>;
  readonly file: string;
}

const golden: Golden = JSON.parse(
  readFileSync(new URL("../golden/quantized.json", import.meta.url), "utf8"),
);
const bytesOf = (text: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const FILE = bytesOf(golden.file);
const folder = mkdtempSync(join(tmpdir(), "rowmajor-gguf-"));
after(() => rmSync(folder, { recursive: true }));
mkdirSync(join(folder, "model"));
const path = join(folder, "model", "x.Q4_1.gguf");
writeFileSync(path, FILE);
const rename = (name: string): string => `${name}.weight`;

const SOURCES: Record<string, [source: string | Uint8Array, options?: Any]> = {
  "a mapped file": [path],
  "a file that is read": [path, { mmap: false }],
  "a folder": [join(folder, "model")],
  "bytes": [FILE],
};

for (const [what, [source, options]] of Object.entries(SOURCES)) {
  test(`tensors and metadata of ${what}`, async () => {
    using w: Any = await nn.open(source, options);
    assertEquals(w.metadata.get("general.architecture"), "test");
    assertEquals(w.metadata.get("a.strings"), ["", "a", "βγ"]);
    assertEquals([w.metadata.has("a.bool"), w.metadata.get("none")], [true, undefined]);
    assertEquals(w.tensor("plain", [2, 3]).toArray(), [[0, 1, 2], [3, 4, 5]]);
    assertEquals(w.tensor("half").toArray(), [0, 1, 2, 3]);
    assertEquals(w.tensor("whole").dtype, "int32");
    for (const [dtype, { numbers }] of Object.entries(golden.formats)) {
      const plain = new Float32Array(bytesOf(numbers).buffer);
      const shape = [2, plain.length / 2];
      assertEquals(w.info(dtype), { dtype, shape });
      const quantized = w.tensor(dtype, shape);
      assertEquals([quantized.dtype, quantized.shape], [dtype, shape]);
      assertEquals(quantized.dequantize().toTypedArray(), plain);
      const cast = w.tensor(dtype, shape, { dtype: "float32" });
      assertEquals([cast.dtype, cast.toTypedArray()], ["float32", plain]);
    }
    w.dispose();
  });

  test(`layers dequantize weights of ${what}`, async () => {
    using w: Any = await nn.open(source, { ...options, rename, dtype: "float32" });
    const linear = w.linear("q4_1", 2, 64, { bias: false });
    const embedding = w.embedding("q8_0", 2, 64);
    await w.load({ ignore: ["*"] });
    const x = loose(random.normal(random.key(1), [3, 64]));
    const numbers = (name: string): Any =>
      loose(tensor(new Float32Array(bytesOf(golden.formats[name]!.numbers).buffer))).reshape([
        2,
        64,
      ]);
    assert(linear(x).allclose(x.linear(numbers("q4_1")), { rtol: 1e-5, atol: 1e-4 }));
    const rows = embedding(loose(tensor([1, 0], { dtype: "int32" })));
    assertEquals(rows.toArray(), numbers("q8_0").flip(0).toArray());
  });
}

test("linear and embedding layers keep quantized weights, others dequantize them", async () => {
  using w: Any = await nn.open(FILE, { rename });
  const numbers = (name: string): Any =>
    loose(tensor(new Float32Array(bytesOf(golden.formats[name]!.numbers).buffer))).reshape([2, -1]);
  const all = Object.keys(golden.formats).map((name): [string, number, Any] => {
    const columns = numbers(name).shape[1];
    return [name, columns, w.linear(name, 2, columns, { bias: false, activation: "relu" })];
  });
  const part = (name: string): Any => w.linear(name, 2, 64, { bias: false });
  const alike = nn.fuse(part("q4_1"), part("q4_1")) as Any;
  const mixed = nn.fuse(part("q4_1"), part("q8_0"), part("q5_0")) as Any;
  const flipped = w.linear("q4_0", 64, 2, { bias: false, transposed: true });
  const embedding = w.embedding("q8_0", 2, 64),
    norm = w.layer(
      "q5_1",
      { weight: [2, 64] },
      ({ weight: { dtype } }: Any) => () => dtype,
    );
  w.done({ ignore: ["*"] });
  const normal = (key: number, columns: number): Any =>
    loose(random.normal(random.key(key), [3, columns]));
  const close = (y: Any, x: Any, name: string): void => {
    const { shape: [, columns] } = x;
    // Rows of x have 8 bits.
    const error = x.abs().max(1, { keepDims: true }).div(254).matmul(
      numbers(name).abs().sum(1).reshape([1, 2]),
    );
    const off = y.sub(x.linear(numbers(name))).abs();
    assert(off.lessEqual(error.add(1e-3)).all().item(), `${name} of ${columns}`);
  };
  for (const [name, columns, layer] of all) {
    assertEquals([layer.weight.dtype, layer.weight.shape], [name, [2, columns]]);
    const x = normal(1, columns);
    assert(layer(x).equals(x.linear(layer.weight).relu()), name);
    close(x.linear(layer.weight), x, name);
  }
  const x = normal(2, 64);
  for (const y of alike(x)) close(y, x, "q4_1");
  mixed(x).forEach((y: Any, i: number) => close(y, x, ["q4_1", "q8_0", "q5_0"][i]!));
  const two = normal(3, 2);
  assert(flipped(two).allclose(two.matmul(numbers("q4_0")), { rtol: 1e-5, atol: 1e-4 }));
  const ids = loose(tensor([1, 0], { dtype: "int32" }));
  assertEquals(embedding(ids).toArray(), numbers("q8_0").flip(0).toArray());
  assertEquals(norm(), "float32");
});

test("safetensors have their texts as metadata", async () => {
  const bytes = io.encodeSafetensors(
    { x: ones([2]) } as Any,
    { metadata: { format: "pt" } } as Any,
  );
  using texts = await nn.open(bytes);
  assertEquals([texts.metadata.keys(), texts.metadata.get("format")], [["format"], "pt"]);
  using none = nn.weights({ x: ones([2]) });
  assertEquals(none.metadata.keys(), []);
});

test("damaged and shorter files are a FormatError", async () => {
  const short = join(folder, "short.gguf");
  for (const length of [0, 3, 10, 500, 3000]) {
    writeFileSync(short, FILE.subarray(0, length));
    for (const mmap of [true, false]) {
      await assertRejects(() => nn.open(short, { mmap }), FormatError, undefined, `${length}`);
    }
  }
  const two = join(folder, "two");
  mkdirSync(two);
  for (const name of ["a.gguf", "b.gguf"]) writeFileSync(join(two, name), FILE);
  await assertRejects(() => nn.open(two), FormatError, "several files have weights");
});

/** The bytes of a part of a model with a tensor of its own. */
function partBytes(number: number, count: number, more: Readonly<Record<string, GgufValue>> = {}) {
  const values: Record<string, GgufValue> = {
    ...number === 1 && { "general.architecture": ["string", "test"] },
    "split.no": ["uint32", number - 1],
    "split.count": ["uint32", count],
    ...more,
  };
  const bytes = new Uint8Array(Float32Array.of(number, 2).buffer);
  const tensors = [{ name: `t${number}`, type: 0, shape: [2], bytes }];
  return writeGguf(ggufMetadata(values), Object.keys(values).length, tensors);
}

/** A folder with the parts of a model. */
function partsFolder(name: string, parts: Readonly<Record<string, Uint8Array>>): string {
  const made = join(folder, name);
  mkdirSync(made);
  for (const [part, bytes] of Object.entries(parts)) writeFileSync(join(made, part), bytes);
  return made;
}
const nameOf = (number: number, count = 3): string => `m-0000${number}-of-0000${count}.gguf`;
const three = (): Record<string, Uint8Array> =>
  Object.fromEntries([1, 2, 3].map((number) => [nameOf(number), partBytes(number, 3)]));

test("a model in several GGUF files opens by its first one, and by their folder", async () => {
  const made = partsFolder("parts", three());
  const url = pathToFileURL(join(made, nameOf(1)));
  for (const source of [join(made, nameOf(1)), url, made]) {
    for (const mmap of [true, false]) {
      using w = await nn.open(source, { mmap });
      assertEquals(w.names(), ["t1", "t2", "t3"]);
      assertEquals([1, 2, 3].map((n) => w.tensor(`t${n}`).toArray()), [[1, 2], [2, 2], [3, 2]]);
      assertEquals(w.metadata.get("general.architecture"), "test");
    }
  }
  // One part is a whole model, whatever its name.
  const whole = partsFolder("one part", { "x.gguf": partBytes(1, 1) });
  using w = await nn.open(whole);
  assertEquals(w.names(), ["t1"]);
});

test("parts of a GGUF model that are not all there are named", async () => {
  let n = 0;
  const refused = async (
    changes: Readonly<Record<string, Uint8Array | undefined>>,
    open: string,
    ...parts: string[]
  ): Promise<void> => {
    const files = Object.entries({ ...three(), ...changes }).filter(([, bytes]) => bytes);
    const made = partsFolder(`refused ${n++}`, Object.fromEntries(files) as Any);
    const error = await assertRejects(() => nn.open(join(made, open)), FormatError) as Error;
    for (const part of parts) assert(error.message.includes(part), error.message);
  };
  await refused({}, nameOf(2), "part 2 of a model in 3 files", `${nameOf(1)}"`);
  await refused({ [nameOf(1)]: undefined }, nameOf(3), "part 3 of", `${nameOf(1)}", which is not`);
  await refused({ "x.gguf": partBytes(2, 3) }, "x.gguf", "part 2 of", "-00001-of-00003.gguf");
  await refused({ "x.gguf": partBytes(1, 3) }, "x.gguf", "part 1 of", "-00001-of-00003.gguf");
  await refused({ [nameOf(3)]: undefined }, nameOf(1), "part 3 of 3 is not there", nameOf(3));
  await refused(
    { [nameOf(2)]: partBytes(3, 3) },
    nameOf(1),
    "part 3 of 3, and must be part 2 of 3",
  );
  await refused({ [nameOf(2)]: partBytes(2, 4) }, nameOf(1), "part 2 of 4, and must be");
  await refused({ [nameOf(2)]: FILE }, nameOf(1), "part 1 of 1, and must be");
  const twice = (number: number): Uint8Array => {
    const bytes = partBytes(number, 3);
    bytes[new TextDecoder("latin1").decode(bytes).lastIndexOf(`t${number}`) + 1] = 0x31;
    return bytes;
  };
  await refused({ [nameOf(2)]: twice(2) }, nameOf(1), 'tensor "t1" is in another part');
  const count = (total: number): Uint8Array =>
    partBytes(1, 3, { "split.tensors.count": ["int32", total] });
  await refused({ [nameOf(1)]: count(4) }, nameOf(1), "3 tensors, and must have 4");
  const no = (value: number): Uint8Array => partBytes(1, 3, { "split.no": ["uint32", value] });
  for (const value of [3, 1e9, 2 ** 31]) {
    await refused({ [nameOf(1)]: no(value) }, nameOf(1), "split.no", String(value));
  }
  const many = partBytes(1, 3, { "split.count": ["uint32", 1e9] });
  await refused({ [nameOf(1)]: many }, nameOf(1), "split.count", "1000000000");
  await assertRejects(async () => await nn.open(partBytes(2, 3)), FormatError, "part 2 of a model");
  await assertRejects(async () => await nn.open(partBytes(1, 3)), FormatError, "part 1 of a model");
  // A folder with more than the parts of one model is for the caller to choose from.
  const other = partsFolder("other", { ...three(), "m-00001-of-00002.gguf": partBytes(1, 2) });
  await assertRejects(() => nn.open(other), FormatError, "several files have weights");
});
