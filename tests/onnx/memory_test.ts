/**
 * Memory of ONNX models: opened and released again and again, and run with many shapes.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { type AnyTensor, emptyCache, memory } from "../../mod.ts";
import { DTYPE } from "../../src/base/dtype.ts";
import { copiedStorage, hasCopy, withoutCopies } from "../../src/memory/lazy.ts";
import { tensorsIn } from "../../src/onnx/graph/values.ts";
import { partsOf } from "../../src/onnx/model.ts";
import { full } from "../../src/tensor/create.ts";
import { open, readSequence, readTensor, type Value } from "../../src/onnx/mod.ts";
import { amount } from "../support/amount.ts";
import { floats, makeModel } from "./make.ts";

interface Golden {
  readonly name: string;
  readonly model: string;
  readonly inputs: readonly {
    readonly name: string;
    readonly kind: string;
    readonly data: string;
  }[];
  readonly outputs: readonly { readonly name: string }[];
}

const CASES: readonly Golden[] = JSON.parse(
  readFileSync(new URL("../golden/onnx/cases.json", import.meta.url), "utf8"),
);
const bytesOf = (name: string): Uint8Array =>
  Uint8Array.fromBase64(CASES.find((one) => one.name === name)!.model);

/** The bytes of a piece of memory that small tensors share. */
const PIECE = 2 ** 16;

/** The bytes of tensors and programs, once those that are kept for reuse are freed. */
function held(): number {
  emptyCache();
  return memory().bytes;
}

/** Frees values. */
function drop(values: Record<string, Value>): void {
  for (const value of Object.values(values)) {
    for (const one of [value].flat()) {
      if (one !== null && one !== undefined && "dispose" in one) one.dispose();
    }
  }
}

/** Opens a model, runs it and releases all of it. */
async function use({ model, inputs }: Golden): Promise<void> {
  const feeds: Record<string, Value> = {};
  for (const { name, kind, data } of inputs) {
    const read = kind === "tensor" ? readTensor : readSequence;
    feeds[name] = await read(Uint8Array.fromBase64(data));
  }
  using opened = await open(Uint8Array.fromBase64(model));
  drop(opened.run(feeds));
  drop(feeds);
}

for (const one of CASES) {
  test(`${one.name} leaves no memory when it is released`, async () => {
    await use(one);
    const before = held();
    for (let k = 0; k < amount(2, 50); k++) await use(one);
    // Small tensors share pieces of memory, of which an earlier test may have filled one.
    assert(held() - before <= PIECE, `it has grown by ${held() - before} bytes`);
  });
}

test("100 opens and releases do not grow the process", async () => {
  const bytes = bytesOf("matmul_nbits");
  const x = full([3, 32], 1);
  const round = async (): Promise<void> => {
    using model = await open(bytes);
    drop(model.run({ x }));
  };
  for (let k = 0; k < 100; k++) await round();
  const before = process.memoryUsage().rss;
  for (let k = 0; k < 100; k++) await round();
  const grown = process.memoryUsage().rss - before;
  assert(grown < 32 * 2 ** 20, `it has grown by ${grown} bytes`);
});

test("500 lengths of an input keep a bounded number of programs", async () => {
  using model = await open(bytesOf("reshape_by_shape"), { maxPrograms: 8 });
  const run = (length: number): void => {
    using x = full([2, 3 * length], 1);
    drop(model.run({ x }));
  };
  for (let length = 1; length <= 16; length++) run(length);
  const before = held();
  for (let length = 17; length <= amount(100, 500); length++) run(length);
  const grown = held() - before;
  assert(grown <= 8 * 2 ** 16, `they take ${grown} bytes`);
});

/** Why the pages of files in this process are not counted; undefined where they are. */
const noPages = process.platform === "linux" ? undefined : "only Linux tells them";
const note = noPages === undefined ? "" : ` (skipped: ${noPages})`;

test(
  `pages of weights that are copied do not stay${note}`,
  { skip: noPages !== undefined },
  async () => {
    const pages = (): number =>
      1024 * Number(/^RssFile:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))![1]);
    const folder = mkdtempSync(join(tmpdir(), "rowmajor-onnx-"));
    try {
      const count = 2 ** 22, bytes = 4 * count;
      // One of four names has the weights at a multiple of 4 bytes.
      for (const name of ["w", "w2", "w23", "w234"]) {
        const weights = floats(name, [count], new Array<number>(count).fill(1));
        const path = join(folder, `${name}.onnx`);
        const graph = {
          inputs: [["x", "float32", [1]]],
          outputs: [["y", "float32"]],
          nodes: [["Add", ["x", name], ["y"]]],
          tensors: [weights],
        } as const;
        writeFileSync(path, makeModel(graph));
        const before = pages(), own = memory().bytes;
        using model = await open(path);
        assert(model.inputs.length === 1);
        const isCopied = memory().bytes - own >= bytes;
        const grown = pages() - before;
        assert(!isCopied || grown < bytes / 2, `pages of ${grown} bytes have come`);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
);

/** A product with a weight of 1 MB that the file does not align, after as many letters. */
function unaligned(letters: number, value: number): Uint8Array {
  return makeModel({
    nodes: [["MatMul", ["x", "w".repeat(letters)], ["y"]]],
    inputs: [["x", "float32", ["n", 512]]],
    outputs: [["y", "float32"]],
    tensors: [floats("w".repeat(letters), [512, 512], Array(512 * 512).fill(value))],
  });
}

test("a weight has no copy beside the packed one, and is that of the opened file", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-onnx-"));
  const path = join(folder, "model.onnx");
  try {
    for (let letters = 1; letters <= 4; letters++) {
      writeFileSync(path, unaligned(letters, 1));
      using model = await open(path);
      const copies = (): boolean =>
        [...tensorsIn(partsOf(model).graph.constants.values())].some(({ storage }) =>
          hasCopy(storage.base)
        );
      // Another file takes its place: the model keeps the one that it has opened.
      writeFileSync(`${path}.new`, unaligned(letters, 2));
      renameSync(`${path}.new`, path);
      for (const rows of [1, 1, 2, 3]) {
        for (
          const run of [
            model.run({ x: full([rows, 512], 1) }),
            await model.async({ x: full([rows, 512], 1) }),
          ]
        ) {
          assertEquals((run.y as AnyTensor).toTypedArray()[0], 512);
          assert(!copies(), `${rows} rows`);
          drop(run);
        }
      }
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a copy that was freed is made again, with its words", () => {
  const length = 50_000, info = DTYPE.int64;
  let fills = 0;
  const storage = copiedStorage(info, length, (into) => {
    fills++;
    new BigInt64Array(into.buffer, into.byteOffset, length).fill(5n);
  });
  assertEquals([storage.length, fills], [length, 0]);
  const first = (): number => withoutCopies([storage, storage], () => storage.words[0]!);
  for (let k = 1; k <= 3; k++) {
    assertEquals([first(), fills, hasCopy(storage)], [5, k, false]);
    // What uses the memory then.
    using other = full([length], 9, { dtype: "int64" });
    assertEquals(other.shape, [length]);
    assertEquals(first(), 5);
    fills--;
  }
  assertEquals([storage.words[0], storage.array[length - 1]], [5, 5n]);
  assert(hasCopy(storage));
  // A copy that was there before stays.
  assertEquals([first(), hasCopy(storage), fills], [5, true, 4]);
  const shown = copiedStorage(info, length, () => {});
  const kept = withoutCopies([shown], () => (shown.expose(), shown.array));
  assert(shown.array === kept, "code outside has it");
});
