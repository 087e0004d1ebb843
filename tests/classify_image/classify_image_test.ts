/**
 * The example `classify-image`: PyTorch's preparation of pictures and its logits of ResNets with
 * random weights, on every backend; labels, the command, and an executable.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { FormatError, info, io, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { type ImageTensor, writeImage } from "../../src/images/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { Classifier } from "../../examples/classify-image/classifier.ts";
import { readLabels } from "../../examples/classify-image/labels.ts";
import { preprocess } from "../../examples/classify-image/preprocess.ts";
import { resnet } from "../../examples/classify-image/resnet.ts";
import { runExample, runExecutable, whyNoExecutable, withoutDenort } from "../example_program.ts";
import { BACKENDS, using as on } from "../ops/table/backends.ts";
import { amount, RUNS_ALL } from "../support/amount.ts";
import { type Any, loose } from "../support.ts";
import { MODELS, PICTURES, randomWeights } from "./random_model.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-classify-"));
after(() => rmSync(folder, { recursive: true }));
const [SMALL, WHOLE] = MODELS;
const { width, classes } = SMALL!;
const bytes = io.encodeSafetensors(randomWeights(width, classes));
const weights = join(folder, "model.safetensors");
writeFileSync(weights, bytes);

/** The largest difference of the numbers. */
function difference(made: ArrayLike<number>, expected: ArrayLike<number>): number {
  assertEquals(made.length, expected.length);
  let most = 0;
  for (let i = 0; i < made.length; i++) most = Math.max(most, Math.abs(expected[i]! - made[i]!));
  return most;
}

// The interpreter, which gives the bits of generated loops, takes long.
const TARGETS = BACKENDS.filter(({ name }) => RUNS_ALL || name !== "interpreter");
for (const { name, on: target } of TARGETS) {
  const device = (typeof target === "string" ? target : "cpu") as "cpu";

  test(`pictures are prepared as by PyTorch, ${name}`, () =>
    on(target, () => {
      for (const { picture, expected } of PICTURES) {
        const made: Any = preprocess(picture);
        assertEquals([made.shape, made.dtype], [[1, 3, 224, 224], "float32"]);
        const some = made.slice("0", ":", "::11", "::11").toTypedArray();
        assert(difference(some, expected) < 1e-5, `${picture.shape}`);
      }
    }));

  test(`logits are PyTorch's, ${name}`, async () => {
    using w = await nn.open(bytes, { device });
    on(target, () => {
      const run = resnet(loose(w));
      w.done();
      using fast = compile(run);
      for (const [i, expected] of SMALL!.logits.slice(0, amount(1, 2)).entries()) {
        const images: Any = preprocess(PICTURES[i]!.picture).to(device);
        for (const one of [run, fast]) {
          const made = loose(one(images)).to("cpu");
          assertEquals(made.shape, [1, classes]);
          assert(difference(made.toTypedArray(), expected) < 1e-5, `${i}`);
        }
      }
    });
  });
}

const { cpu } = info().devices;
const slow = cpu === "native" ? "" : " (skipped: takes long without the native library)";

test(`logits of a whole ResNet-18 are PyTorch's${slow}`, { skip: slow !== "" }, async () => {
  const { width, classes, logits } = WHOLE!;
  const path = join(folder, "whole");
  mkdirSync(path);
  await io.writeSafetensors(join(path, "model.safetensors"), randomWeights(width, classes));
  const parts: number[] = [];
  using classifier = await Classifier.open(path, ({ loaded, total }) => parts.push(loaded / total));
  assertEquals([classifier.classes, parts.at(-1)], [1000, 1]);
  for (const [i, expected] of logits.entries()) {
    const { picture } = PICTURES[i]!;
    const made = await classifier.logits(picture);
    assert(difference(made.toTypedArray() as Float32Array, expected) < 1e-5);
    const sum = expected.reduce((sum, x) => sum + Math.exp(x), 0);
    const order = [...expected.keys()].sort((a, b) => expected[b]! - expected[a]!);
    const found = await classifier.classify(picture, 5);
    assertEquals(found.map(({ index }) => index), order.slice(0, 5));
    for (const { index, probability } of found) {
      assert(Math.abs(probability - Math.exp(expected[index]!) / sum) < 1e-6);
    }
  }
});

test("weights that are no ResNet are told", async () => {
  const { "layer2.1.bn1.weight": _, ...rest } = randomWeights(width, classes);
  const wrong = io.encodeSafetensors({ ...rest, "layer1.0.conv3.weight": rest["conv1.weight"]! });
  const error = await assertRejects(() => Classifier.open(wrong), FormatError) as FormatError;
  assertStringIncludes(error.message, "left over    layer1.0.conv3.weight");
  const half = Object.entries(rest).filter(([name]) => !name.startsWith("layer4.1"));
  const short = io.encodeSafetensors(Object.fromEntries(half));
  await assertRejects(() => Classifier.open(short), FormatError, "layer4.1.conv1.weight");
});

test("pictures may have 16 bits, and may not be narrow", () => {
  const [small, narrow] = [PICTURES[0]!.picture, zeros([5, 100_000, 3], { dtype: "uint8" })];
  const wide = small.astype("uint16").mul(257) as unknown as ImageTensor<3>;
  const [expected, made] = [small, wide].map((x) => preprocess(x).toTypedArray());
  assert(difference(made!, expected!) < 1e-5);
  assertThrows(() => preprocess(narrow), Error, "100000 x 5 pixels is too narrow");
});

test("labels are read from lines and from JSON", () => {
  for (
    const text of [
      "tench\n goldfish \n",
      "tench\r\ngoldfish",
      '["tench", "goldfish"]',
      ' {"0": "tench", "1": "goldfish"}',
      '{"id2label": {"0": "tench", "1": "goldfish"}}',
      '{"0": ["n01440764", "tench"], "1": ["n01443537", "goldfish"]}',
    ]
  ) {
    const label = readLabels(text);
    assertEquals([label(0), label(1), label(2)], ["tench", "goldfish", undefined], text);
  }
  assertThrows(() => readLabels("[1"), SyntaxError);
});

const command = (...args: string[]) => runExample("classify-image/main.ts", ...args);

/** Writes a picture as PNG and as JPEG. */
async function writePictures(): Promise<[png: string, jpeg: string]> {
  const [png, jpeg] = [join(folder, "a.png"), join(folder, "b.jpg")];
  for (const path of [png, jpeg]) await writeImage(path, PICTURES[0]!.picture);
  return [png, jpeg];
}

test("the command prints classes, and says what is wrong with a file", async () => {
  const [png, jpeg] = await writePictures();
  const labels = join(folder, "labels.txt");
  writeFileSync(labels, Array.from({ length: classes - 1 }, (_, i) => `thing ${i}`).join("\n"));
  using classifier = await Classifier.open(bytes);
  const expected = await classifier.classify(PICTURES[0]!.picture, 3);
  const json = command(weights, "--json", "--top", "3", "--labels", labels, png, jpeg);
  assertEquals([json.status, json.stderr], [0, ""]);
  const told: Any[] = JSON.parse(json.stdout);
  assertEquals(told.map(({ file }) => file), [png, jpeg]);
  for (const [i, { index, label, probability }] of told[0].classes.entries()) {
    assertEquals(index, expected[i]!.index);
    assertEquals(label, index === classes - 1 ? undefined : `thing ${index}`);
    assert(Math.abs(probability - expected[i]!.probability) < 1e-6);
  }
  assertEquals(told[1].classes.length, 3);

  const text = command(folder, png);
  assertEquals([text.status, text.stderr], [0, ""]);
  const lines = text.stdout.trimEnd().split("\n");
  const [first] = expected;
  const best = `  ${first!.probability.toFixed(3)}  class ${first!.index}`;
  assertEquals([lines.length, lines[0], lines[1]], [6, png, best]);

  const mixed = command(weights, labels, png, "--json");
  assertEquals([mixed.status, JSON.parse(mixed.stdout).length], [1, 1]);
  assertStringIncludes(mixed.stderr, `${labels}: <bytes> at byte 0: neither a PNG nor a JPEG file`);
  const none = command(join(folder, "none"), png);
  assertEquals(none.status, 1);
  assertStringIncludes(none.stderr, "ENOENT");
  assertStringIncludes(command("--help").stdout, "usage");
  for (const args of [[weights, png, "--top", "0"], [weights], []].slice(0, amount(1, 3))) {
    assertEquals(command(...args).status, 2);
  }
});

test(`an executable, with and without the model inside${whyNoExecutable}`, {
  skip: withoutDenort,
}, async () => {
  const [png] = await writePictures();
  const labels = join(folder, "own.txt");
  writeFileSync(labels, Array.from({ length: classes }, (_, i) => `thing ${i}`).join("\n"));
  const plain = command(weights, png).stdout;
  assertEquals(runExecutable("classify-image/main.ts", [], weights, png), plain);
  const inside = [`${weights}=model/model.safetensors`, `${labels}=model/labels.txt.data`];
  const named = runExecutable("classify-image/main.ts", inside, png);
  assertEquals(named, plain.replaceAll("class ", "thing "));
});
