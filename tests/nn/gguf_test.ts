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
import { FormatError, io, ones, random, tensor } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, loose } from "../support.ts";

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
