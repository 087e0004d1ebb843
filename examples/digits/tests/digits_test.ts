/**
 * The digits example: its data and split, its model against plain loops, its training, its output.
 *
 * @module
 */
import { assert, assertAlmostEquals, assertEquals, assertNotEquals } from "@std/assert";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import split from "../data/split.json" with { type: "json" };
import { type Digits, loadDigits, pick } from "../digits.ts";
import { bytesOf } from "../embedded.ts";
import { LARGE_FILE } from "../large.ts";
import { demo } from "../main.ts";
import { classify, loadModel, type Model, MODEL_FILE } from "../model.ts";
import { EPOCHS, initialModel, lossAndGradients, SEED, train, withShifts } from "../train.ts";
import { arange, info, io, random, setBackend, type Tensor } from "../../../mod.ts";
import { findTool, root } from "../../../scripts/tools.ts";
import { RUNS_ALL } from "../../../tests/support/amount.ts";

/** For tests that train or start programs: seconds, and more on a busy machine. */
const SLOW = { timeout: 120_000 };
const DATA = new URL("../data/digits.npz", import.meta.url);
const { train: digits, heldOut } = await loadDigits();
const model = await loadModel();

/** The model's prediction, in double precision and without the library. */
function predictPlainly(images: number[][]): number[] {
  const [weight1, bias1] = [model.weight1.toArray(), model.bias1.toArray()];
  const [weight2, bias2] = [model.weight2.toArray(), model.bias2.toArray()];
  const layer = (x: number[], weight: number[][], bias: number[]): number[] =>
    weight.map((row, i) => row.reduce((sum, w, j) => sum + w * x[j]!, bias[i]!));
  return images.map((image) => {
    const features = layer(image, weight1, bias1).map((x) => Math.max(x, 0));
    const scores = layer(features, weight2, bias2);
    return scores.indexOf(Math.max(...scores));
  });
}

/** Some of the training digits. */
function batch(size: number): Digits {
  return pick(digits, arange(size, { dtype: "int32" }));
}

test("digits: the split is disjoint and complete, and has no image on both sides", async () => {
  const { images, labels } = await io.readNpz(DATA);
  assertEquals([images.dtype, images.shape], ["uint8", [1797, 8, 8]]);
  assertEquals([labels.dtype, labels.shape], ["uint8", [1797]]);
  assertEquals([images.min().item(), images.max().item()], [0, 16]);

  const seen = new Set(split.train);
  assertEquals(split.heldOut.filter((index) => seen.has(index)), []);
  const all = [...split.train, ...split.heldOut].sort((a, b) => a - b);
  assertEquals(all, Array.from({ length: 1797 }, (_, i) => i));
  assertEquals([split.train.length, split.heldOut.length], [1347, 450]);

  const text = (index: number): string => images.slice(index).toTypedArray().join();
  const pictures = new Set(split.train.map(text));
  assertEquals(split.heldOut.filter((index) => pictures.has(text(index))), []);
});

test("digits: images are rows from 0 to 1, and each class is in both parts", () => {
  assertEquals([digits.images.shape, digits.labels.shape], [[1347, 64], [1347]]);
  assertEquals([heldOut.images.shape, heldOut.labels.shape], [[450, 64], [450]]);
  for (const { images, labels } of [digits, heldOut]) {
    assertEquals([images.min().item(), images.max().item()], [0, 1]);
    const shares = labels.oneHot(10).mean(0).toArray();
    assert(shares.every((share) => share > 0.09 && share < 0.11), `${shares}`);
  }
});

test("digits: the model file has the model's parameters and nothing else", async () => {
  await using file = await io.openSafetensors(MODEL_FILE);
  assertEquals([...file.names].sort(), Object.keys(model).sort());
  for (const name of file.names) assertEquals(file.info(name).dtype, "float32");
});

test("digits: the text modules hold the bytes of the files", () => {
  for (const file of [DATA, MODEL_FILE, LARGE_FILE]) {
    const text = readFileSync(new URL(`${file}.base64`), "utf8");
    assert(readFileSync(file).equals(bytesOf(text)), file.pathname);
  }
});

test("digits: predictions are those of plain loops in double precision", () => {
  const predictions = classify(model, heldOut.images).toArray();
  assertEquals(predictions, predictPlainly(heldOut.images.toArray()));
});

test("digits: the demo prints pictures, mistakes, the confusion matrix and the accuracy", async () => {
  const text = await demo();
  const labels = heldOut.labels.toArray();
  const predictions = predictPlainly(heldOut.images.toArray());
  const right = labels.filter((label, i) => label === predictions[i]).length;
  const accuracy = /\naccuracy: (\d+\.\d)%$/.exec(text)?.[1];
  assertEquals(accuracy, (right / 4.5).toFixed(1));
  assert(Number(accuracy) >= 97, `${accuracy}%`);
  assert(text.includes(`It is wrong about ${450 - right},`));

  const [pictures] = text.split("It is wrong about");
  assertEquals(
    pictures!.match(/^\d.*$/gm)!.slice(1).map((line) => line.match(/\d(?=:|\s|$)/g)![0]),
    [
      String(predictions[0]),
      String(predictions[4]),
    ],
  );
  const matrix = [...text.matchAll(/^ {3}(\d)((?: +[\d·]+){10})$/gm)].map(([, , cells]) =>
    cells!.trim().split(/ +/).map((cell) => cell === "·" ? 0 : Number(cell))
  );
  const expected = Array.from({ length: 10 }, () => Array(10).fill(0));
  labels.forEach((label, i) => expected[label]![predictions[i]!]++);
  assertEquals(matrix, expected);
});

test("digits: pictures show each pixel as two characters, the darker the more ink", async () => {
  const lines = (await demo()).split("\n");
  const start = lines.findIndex((line) => /^\d/.test(line) && !line.includes("digits")) + 1;
  const first = heldOut.images.slice(0).reshape([8, 8]).toArray();
  for (const [y, row] of first.entries()) {
    const drawn = [...lines[start + y]!.padEnd(16)].slice(0, 16);
    // A shade stands for a quarter of the ink, so the nearest one is off by an eighth at most.
    row.forEach((ink, x) => {
      const shade = " ░▒▓█".indexOf(drawn[2 * x]!);
      assertEquals(drawn[2 * x], drawn[2 * x + 1]);
      assert(Math.abs(shade / 4 - ink) <= 1 / 8, `pixel ${y}, ${x}: ${ink} drawn as ${shade}`);
    });
  }
});

test("digits: moved copies are the same pictures one pixel further", () => {
  const original = batch(1).images.reshape([8, 8]);
  const { images, labels } = withShifts(batch(3));
  assertEquals([images.shape, labels.shape], [[15, 64], [15]]);
  assertEquals(labels.toArray(), Array(5).fill(batch(3).labels.toArray()).flat());
  const copies = images.reshape([5, 3, 8, 8]).slice(":", 0);
  const blank = Array(8).fill(0);
  const rows = original.toArray();
  const columns = original.T.toArray();
  assertEquals(copies.slice(0).toArray(), rows);
  assertEquals(copies.slice(1).toArray(), [...rows.slice(1), blank]);
  assertEquals(copies.slice(2).toArray(), [blank, ...rows.slice(0, 7)]);
  assertEquals(copies.slice(3).T.toArray(), [...columns.slice(1), blank]);
  assertEquals(copies.slice(4).T.toArray(), [blank, ...columns.slice(0, 7)]);
});

test("digits: gradients are the slopes of the loss", () => {
  const start = initialModel(random.key(1));
  const data = batch(32);
  const { gradients } = lossAndGradients(start, data);
  for (const name of Object.keys(start) as (keyof Model)[]) {
    const gradient: Tensor = gradients[name];
    assertEquals(gradient.shape, start[name].shape);
    // Along the gradient itself the loss rises by the gradient's norm.
    const norm = gradient.norm().item();
    const lossAt = (step: number): number => {
      const moved = start[name].add(gradient.mul(step / norm));
      return lossAndGradients({ ...start, [name]: moved }, data).loss;
    };
    const slope = (lossAt(0.005) - lossAt(-0.005)) / 0.01;
    assertAlmostEquals(slope / norm, 1, 0.01, name);
  }
});

test("digits: a short training lowers the loss, and the key decides its result", SLOW, () => {
  const run = (seed: number): { losses: number[]; bytes: Uint8Array } => {
    const losses: number[] = [];
    const trained = train(batch(200), random.key(seed), 4, (_, loss) => losses.push(loss));
    return { losses, bytes: io.encodeSafetensors(trained) };
  };
  const [once, again, other] = [run(5), run(5), run(6)];
  const { losses } = once;
  assert(losses.every((loss, i) => i === 0 || loss < losses[i - 1]!), `${losses}`);
  assert(losses[3]! < losses[0]! / 2, `${losses}`);
  assertEquals(once.bytes, again.bytes);
  assertNotEquals(once.bytes, other.bytes);
});

(RUNS_ALL ? test : () => {})("digits: training makes the committed model, to the bit", SLOW, () => {
  const served = info().devices.cpu as "js" | "native";
  try {
    setBackend("js");
    const bytes = io.encodeSafetensors(train(digits, random.key(SEED), EPOCHS));
    assert(readFileSync(MODEL_FILE).equals(bytes));
  } finally {
    setBackend(served);
  }
});

test(
  "digits: both commands print the same, from any folder, without permissions",
  SLOW,
  async () => {
    const run = (tool: "deno" | "bun", args: string[], cwd: string): string => {
      const { status, stdout, stderr } = spawnSync(findTool(tool), args, { cwd, encoding: "utf8" });
      assertEquals(status, 0, stderr);
      return stdout.replaceAll("\r\n", "\n");
    };
    const expected = `${await demo()}\n`;
    const script = join(root, "examples", "digits", "main.ts");
    assertEquals(run("deno", ["task", "demo"], root), expected);
    assertEquals(run("bun", ["examples/digits/main.ts"], root), expected);
    assertEquals(run("deno", ["run", "--no-prompt", script], tmpdir()), expected);
    assertEquals(run("bun", [script], tmpdir()), expected);
  },
);
