/**
 * Batches, and checkpoints from which training goes on to the same bits.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import * as rm from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { valueAndGrad } from "../../src/grad/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import * as optim from "../../src/optim/mod.ts";
import { batches, loadCheckpoint, saveCheckpoint } from "../../src/train/mod.ts";
import { loose } from "../support.ts";

// Tests pass options and tensors that types would refuse.
// deno-lint-ignore no-explicit-any
type T = any;

const key = rm.random.key(3);

async function inFolder(body: (at: (name: string) => string, folder: string) => Promise<void>) {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-train-"));
  try {
    await body((name) => join(folder, name), folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("Batches: all rows once in each epoch, in an order of the key", () => {
  const data = {
    x: rm.arange(14).reshape([7, 2]),
    more: [{ y: rm.arange(7, { dtype: "int32" }) }],
  };
  const rows = (options: object): number[][] =>
    [...batches(data, { size: 3, ...options })].map(({ x, more: [own] }: T) => {
      assertEquals(x.slice(":, 0").toArray(), own.y.mul(2).toArray());
      return own.y.toArray();
    });
  assertEquals(rows({}), [[0, 1, 2], [3, 4, 5], [6]]);
  assertEquals(rows({ dropLast: true, epochs: 2 }), [
    ...[[0, 1, 2], [3, 4, 5]],
    ...[[0, 1, 2], [3, 4, 5]],
  ]);
  assertEquals(rows({ key, shuffle: false }), rows({}));
  const shuffled = rows({ key, epochs: 3 });
  assertEquals(shuffled.map((batch) => batch.length), [3, 3, 1, 3, 3, 1, 3, 3, 1]);
  const epochs = [0, 3, 6].map((at) => shuffled.slice(at, at + 3).flat());
  for (const epoch of epochs) assertEquals([...epoch].sort(), [0, 1, 2, 3, 4, 5, 6]);
  assertEquals(new Set(epochs.map(String)).size, 3);
  assertEquals(rows({ key, epochs: 3 }), shuffled);
  for (const start of [1, 3, 5, 9, 20]) {
    assertEquals(rows({ key, epochs: 3, start }), shuffled.slice(start));
  }
  assertEquals(rows({ size: 100 }), [[0, 1, 2, 3, 4, 5, 6]]);
  assertEquals(rows({ size: 100, dropLast: true, epochs: Infinity }), []);
  assertEquals(rows({ epochs: 0 }), []);
  const [first] = batches(data.x, { size: 2 });
  first!.mul_(10);
  assertEquals(data.x.slice(":2").toArray(), [[0, 10], [20, 30]]);
  let count = 0;
  for (const _ of batches(data, { size: 3, key, epochs: Infinity })) if (++count === 50) break;
  assertEquals(count, 50);
});

test("batches free what they do not return", () => {
  const data = rm.arange(100_000);
  const run = (): void => {
    for (const batch of batches(data, { size: 10_000, key, epochs: 2 })) batch.dispose();
    for (const batch of batches(data, { size: 10_000, key })) {
      batch.dispose();
      break;
    }
  };
  run();
  const before = rm.memory().bytes;
  for (let k = 0; k < 5; k++) run();
  assertEquals(rm.memory().bytes, before);
});

test("batches refuse data and options that do not fit", () => {
  const x = rm.ones([4, 2]);
  const gone = rm.ones([4]);
  gone.dispose();
  const make = (data: T, options: T) => () => batches(data, options);
  const { ArgumentError, ShapeError } = rm;
  const cases: [() => unknown, T, string][] = [
    [make({ x, y: rm.ones([3]) }, { size: 2 }), ShapeError, "x of shape [4, 2] has 4 rows, and y"],
    [make({ x: rm.ones([]) }, { size: 2 }), ShapeError, "x has shape []"],
    [make({ x, n: 3 }, { size: 2 }), ArgumentError, "3 at n"],
    [make([], { size: 2 }), ArgumentError, "no tensors"],
    [make({ x, gone }, { size: 2 }), rm.DisposedError, "Cannot make batches of gone"],
    [make(x, { size: 0 }), ArgumentError, "size 0"],
    [make(x, {}), ArgumentError, "size undefined"],
    [make(x, { size: 2, epochs: -1 }), ArgumentError, "epochs -1"],
    [make(x, { size: 2, start: 0.5 }), ArgumentError, "start 0.5"],
    [make(x, { size: 2, start: Infinity }), ArgumentError, "start Infinity"],
    [make(x, { size: 2, dropLast: 1 }), ArgumentError, "dropLast 1"],
    [make(x, { size: 2, shuffle: true }), ArgumentError, "without a key"],
    [make(x, { size: 2, key: 3 }), ArgumentError, "random.key"],
    [make(x, { size: 2, drop: true }), TypeError, "drop"],
  ];
  for (const [f, error, text] of cases) assertThrows(f, error, text);
});

// ---- checkpoints -------------------------------------------------------------------------------

const data = {
  x: rm.random.normal(rm.random.key(1), [64, 8]),
  y: rm.random.integers(rm.random.key(2), [64], 0, 3),
};

/** A start of training. */
function start() {
  const params = {
    layers: [nn.kaimingUniform(key, [16, 8]), nn.kaimingUniform(key, [3, 16])],
    half: rm.ones([3], { dtype: "bfloat16" }),
  };
  return { params, state: optimizer.init(params), step: 0, key };
}

const optimizer = optim.adamw({ learningRate: 0.01 });
const loss = ({ layers: [a, b], half }: T, { x, y }: T, key: rm.random.Key): T =>
  nn.crossEntropy(
    nn.dropout(x.linear(a).relu(), { p: 0.2, key }).linear(b, half.astype("float32")),
    y,
  );

/** Trains from a checkpoint's values up to a step. */
function train(from: ReturnType<typeof start>, last: number) {
  const { params, state, key } = from;
  let { step } = from;
  using run: T = compile(loose((p: T, s: T, batch: T, own: rm.random.Key) => {
    const [value, gradients] = loose(valueAndGrad)(loss)(p, batch, own);
    optimizer.update(p, gradients, s);
    return value;
  }));
  for (const batch of batches(data, { size: 16, key, epochs: Infinity, start: step })) {
    if (step === last) break;
    run(params, state, batch, rm.random.foldIn(key, step++));
  }
  return { params, state, step, key };
}

test("Checkpoints: training that goes on has the bits of one that did not stop", async () => {
  await inFolder(async (at, folder) => {
    const whole = train(start(), 13);
    const first = train(start(), 6);
    const saved = saveCheckpoint(at("a"), first);
    // The program may go on at once.
    train(first, 8);
    await saved;
    assertEquals(readdirSync(folder), ["a"]);
    const resumed = train(await loadCheckpoint(at("a"), start()), 13);
    await saveCheckpoint(at("whole"), whole);
    await saveCheckpoint(at("resumed"), resumed);
    assert(readFileSync(at("whole")).equals(readFileSync(at("resumed"))));
    assert(!readFileSync(at("whole")).equals(readFileSync(at("a"))));
  });
});

test("Checkpoints: tensors by their paths, and values", async () => {
  await inFolder(async (at) => {
    const values = {
      params: { layers: [{ w: rm.arange(6).reshape([2, 3]).T }] },
      ids: rm.tensor([1, 2], { dtype: "int64" }),
      name: "café",
      settings: { rates: [0.1, null, true], empty: {}, none: [] },
    };
    await saveCheckpoint(at("c"), values);
    const read: T = await loadCheckpoint(at("c"));
    assertEquals(read.params.layers[0].w.toArray(), [[0, 3], [1, 4], [2, 5]]);
    assertEquals(read.ids.toArray(), [1, 2]);
    assertEquals([read.name, read.settings], [values.name, values.settings]);
    await using file = await rm.io.openSafetensors(at("c"));
    assertEquals(file.names, ["ids", "params.layers.0.w"]);
    await saveCheckpoint(at("c"), rm.ones([2]));
    assertEquals(loose(await loadCheckpoint(at("c"), rm.zeros([2]))).toArray(), [1, 1]);
  });
});

test("faults of checkpoints are errors, and leave the file", async () => {
  await inFolder(async (at, folder) => {
    const { ArgumentError, DTypeError, FormatError, ShapeError } = rm;
    const good = { w: rm.ones([2]), step: 1, list: [1, 2] };
    await saveCheckpoint(at("c"), good);
    const bytes = readFileSync(at("c"));
    const refused: [object, T, string][] = [
      [{ x: NaN }, ArgumentError, "NaN"],
      [{ x: [undefined] }, ArgumentError, '"x.0"'],
      [{ x: 1n }, ArgumentError, "1n"],
      [{ layout: 1, $tensor: "w" }, ArgumentError, "$tensor"],
      [{ f: () => 1 }, ArgumentError, "function"],
      [{ x: new Map() }, ArgumentError, '"x"'],
      [{ "a.b": rm.ones([1]), a: { b: rm.ones([1]) } }, ArgumentError, '"a.b"'],
      [{ x: { $tensor: "w" } }, ArgumentError, "$tensor"],
      [{ x: rm.ones([1], { dtype: "complex128" }) }, DTypeError, "complex128"],
    ];
    for (const [values, error, text] of refused) {
      await assertRejects(() => saveCheckpoint(at("c"), values), error, text);
    }
    for (const values of [3, "w", true, null, undefined, 1n, () => good]) {
      await assertRejects(
        () => loose(saveCheckpoint)(at("c"), values),
        ArgumentError,
        "Cannot save",
      );
    }
    assert(readFileSync(at("c")).equals(bytes));
    assertEquals(readdirSync(folder), ["c"]);
    // Names of the parts of tensors are names like others.
    const named = { layout: "dense", storage: [1], w: rm.ones([1]) };
    await saveCheckpoint(at("named"), named);
    assertEquals((await loadCheckpoint(at("named"), named)).layout, "dense");
    const unlike: [object, T, string][] = [
      [{ ...good, w: rm.ones([3]) }, ShapeError, "w has shape [2], and not [3]"],
      [{ ...good, w: rm.ones([2], { dtype: "float64" }) }, DTypeError, "float64"],
      [{ ...good, w: 1 }, FormatError, "w is of kind tensor"],
      [{ ...good, step: "1" }, FormatError, "step is of kind number"],
      [{ ...good, more: 1 }, FormatError, '"more" is missing'],
      [{ w: good.w, step: 1 }, FormatError, '"list" is too many'],
      [{ ...good, list: [1] }, FormatError, "list has 2 values and not 1"],
    ];
    for (const [like, error, text] of unlike) {
      await assertRejects(() => loadCheckpoint(at("c"), like), error, text);
    }
    await rm.io.writeSafetensors(at("plain"), { w: good.w });
    await assertRejects(() => loadCheckpoint(at("plain")), FormatError, "no checkpoint");
    const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
    const twice = '[{"$tensor":"w"},{"$tensor":"w"}]';
    for (
      const text of ["{", "3", "null", deep, twice, '{"w":{"$tensor":"v"}}', '{"w":{"$tensor":3}}']
    ) {
      const metadata = { "rowmajor.checkpoint": text };
      await rm.io.writeSafetensors(at("bad"), { w: good.w }, { metadata });
      await assertRejects(() => loadCheckpoint(at("bad")), FormatError);
    }
    writeFileSync(at("cut"), bytes.subarray(0, bytes.length - 1));
    await assertRejects(() => loadCheckpoint(at("cut")), FormatError);
    await assertRejects(() => loadCheckpoint(at("none")), Error, "ENOENT");
  });
});
