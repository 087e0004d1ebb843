/**
 * The example `classify-image`: PyTorch's preparation of pictures and its logits of ResNets with
 * random weights, on every backend; PNG and JPEG files, labels, the command, and an executable.
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
import { encode as encodePng } from "fast-png";
import { encode as encodeJpeg } from "jpeg-js";
import { Buffer } from "node:buffer";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { FormatError, info, io } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { ImageError, isPng } from "../../examples/shared/png.ts";
import { Classifier } from "../../examples/classify-image/classifier.ts";
import { decodeImage, type Picture } from "../../examples/classify-image/image.ts";
import { readLabels } from "../../examples/classify-image/labels.ts";
import { preprocess } from "../../examples/classify-image/preprocess.ts";
import { resnet } from "../../examples/classify-image/resnet.ts";
import { runExample, runExecutable, whyNoExecutable, withoutDenort } from "../example_program.ts";
import { BACKENDS, using as on } from "../ops/table/backends.ts";
import { chunk, damagedPngs, makePng, SIGNATURE } from "../server/png.ts";
import { type Any, loose } from "../support.ts";
import { MODELS, PICTURES, randomWeights } from "./random_model.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-classify-"));
after(() => rmSync(folder, { recursive: true }));
const [SMALL, WHOLE] = MODELS;
const { width, classes } = SMALL!;
const bytes = io.encodeSafetensors(randomWeights(width, classes));
const weights = join(folder, "model.safetensors");
writeFileSync(weights, bytes);

/** The passes of an interlaced picture: the first pixel, and the steps to the right and down. */
const PASSES = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

/** The largest difference of the numbers. */
function difference(made: ArrayLike<number>, expected: ArrayLike<number>): number {
  assertEquals(made.length, expected.length);
  return Math.max(...Array.from(expected, (x, i) => Math.abs(x - made[i]!)));
}

for (const { name, on: target } of BACKENDS) {
  const device = (typeof target === "string" ? target : "cpu") as "cpu";

  test(`pictures are prepared as by PyTorch, ${name}`, () =>
    on(target, () => {
      for (const { picture, expected } of PICTURES) {
        const made: Any = preprocess(picture);
        assertEquals([made.shape, made.dtype], [[1, 3, 224, 224], "float32"]);
        const some = made.slice("0", ":", "::11", "::11").toTypedArray();
        const about = `${picture.width} x ${picture.height}`;
        assert(difference(some, expected) < 1e-5, about);
      }
    }));

  test(`logits are PyTorch's, ${name}`, async () => {
    using w = await nn.open(bytes, { device });
    on(target, () => {
      const run = resnet(loose(w));
      w.done();
      using fast = compile(run);
      for (const [i, expected] of SMALL!.logits.entries()) {
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
  using classifier = await Classifier.open(path, (part) => parts.push(part));
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

/** The colors of all pixels. */
function colors({ channels, data, width, height }: Picture): number[] {
  return Array.from({ length: 3 * width * height }, (_, i) => {
    const first = Math.floor(i / 3) * channels;
    return data[channels < 3 ? first : first + i % 3]!;
  });
}

test("PNG files of every kind are decoded", async () => {
  const [width, height] = [5, 3];
  const values = Uint8Array.from({ length: 60 }, (_, i) => i * 4 + 1);
  for (const channels of [1, 2, 3, 4]) {
    const data = values.subarray(0, width * height * channels);
    const made = await decodeImage(encodePng({ width, height, channels, data }));
    assertEquals([made.width, made.height, made.channels], [width, height, channels]);
    assertEquals([...made.data], [...data]);
    const deep = Uint16Array.from(data, (x) => x * 256 + 77);
    const wide = await decodeImage(encodePng({ width, height, channels, depth: 16, data: deep }));
    assertEquals(colors(wide), colors(made));
  }
  for (const depth of [1, 2, 4] as const) {
    const row = Math.ceil(width * depth / 8);
    const data = Uint8Array.from({ length: row * height }, (_, i) => 0x1b * (i + 1));
    const grey = { width, height, channels: 1, depth, data };
    const index = (i: number): number => {
      const x = i % width * depth;
      return data[Math.floor(i / width) * row + (x >> 3)]! >> 8 - depth - x % 8 & 2 ** depth - 1;
    };
    const indexes = Array.from({ length: width * height }, (_, i) => index(i));
    const { channels, data: made } = await decodeImage(encodePng(grey));
    assertEquals([channels, [...made]], [1, indexes.map((i) => i * 255 / (2 ** depth - 1))]);
    const palette = Array.from({ length: 2 ** depth }, (_, i) => [i, 2 * i, 255 - i]);
    const named = await decodeImage(encodePng({ ...grey, palette }));
    assertEquals(colors(named), indexes.flatMap((i) => palette[i]!));
  }
});

test("interlaced PNG files are decoded from 8 bits on", async () => {
  const [width, height] = [11, 5];
  for (const [color, channels] of [[0, 1], [2, 3], [4, 2], [6, 4]] as const) {
    const data = Uint8Array.from({ length: width * height * channels }, (_, i) => i * 5 + 1);
    for (const bytes of [1, 2]) {
      const raw: number[] = [];
      for (const [x, y, right, down] of PASSES) {
        for (let row = y; row < height; row += down) {
          if (x < width) raw.push(0);
          for (let i = x; i < width; i += right) {
            const pixel = (row * width + i) * channels;
            for (const value of data.subarray(pixel, pixel + channels)) {
              raw.push(value, ...bytes === 1 ? [] : [77]);
            }
          }
        }
      }
      const options = { width, height, color, depth: 8 * bytes, interlace: 1 };
      const made = await decodeImage(makePng({ ...options, raw: Uint8Array.from(raw) }));
      assertEquals([made.width, made.height, made.channels], [width, height, channels]);
      assertEquals([...made.data], [...data]);
    }
  }
  const narrow = makePng({ interlace: 1, depth: 4, raw: new Uint8Array(50) });
  await assertRejects(() => decodeImage(narrow), Error, "interlaced PNG of less than 8 bits");
});

test("damaged, huge and hostile PNG files are an ImageError, and so are narrow pictures", async () => {
  for (const [name, bytes] of Object.entries(damagedPngs())) {
    if (name === "257 pixels wide" || !isPng(bytes)) continue;
    await assertRejects(() => decodeImage(bytes), ImageError, undefined, name);
  }
  const late = Buffer.concat([
    SIGNATURE,
    chunk("tEXt", Buffer.from("\0\0\0\x01\0\0\0\x01", "latin1")),
    makePng({ width: 2e5, height: 2e5 }).subarray(8),
  ]);
  await assertRejects(() => decodeImage(late), Error, "does not begin with its one header");
  const bomb = makePng({ width: 20, height: 20, raw: Buffer.alloc(64e6) });
  await assertRejects(() => decodeImage(bomb), Error, "more than its pixels");
  const [width, height] = [5, 100_000];
  const narrow = { width, height, channels: 1, data: new Uint8Array(width * height) };
  assertThrows(() => preprocess(narrow), Error, "5 x 100000 pixels is too narrow");
});

/** A picture without edges, which JPEG keeps. */
function smooth(width: number, height: number): Picture {
  const data = new Uint8Array(width * height * 4);
  for (let i = 0; i < width * height; i++) {
    const [x, y] = [i % width, Math.floor(i / width)];
    data.set([2 * x, 255 - 3 * y, 90 + x - y, 255], 4 * i);
  }
  return { width, height, channels: 4, data };
}

test("JPEG files are decoded, and other files are refused with a reason", async () => {
  const picture = smooth(70, 50);
  const { data } = encodeJpeg({ ...picture, data: Buffer.from(picture.data) }, 95);
  const made = await decodeImage(new Uint8Array(data));
  assertEquals([made.width, made.height, made.channels], [70, 50, 3]);
  assert(difference(colors(made), colors(picture)) < 12);
  const cases: [Uint8Array, string][] = [
    [new Uint8Array(100), "it is no PNG and no JPEG"],
    [new Uint8Array(data).subarray(0, 30), ""],
    [encodePng({ ...picture, channels: 4 }).subarray(0, 20), "the PNG is truncated"],
  ];
  for (const [bytes, why] of cases) await assertRejects(() => decodeImage(bytes), Error, why);
  const huge = encodePng({ ...picture, channels: 4 });
  new DataView(huge.buffer, huge.byteOffset).setUint32(16, 2e9);
  await assertRejects(() => decodeImage(huge), Error, "100 million pixels");
  const wide = new Uint8Array(data);
  const frame = wide.findIndex((byte, i) => byte === 0xff && wide[i + 1] === 0xc0);
  wide.set([0xff, 0xff, 0xff, 0xff], frame + 5);
  await assertRejects(() => decodeImage(wide), Error, "maxResolutionInMP");
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
function writePictures(): [png: string, jpeg: string] {
  const [png, jpeg] = [join(folder, "a.png"), join(folder, "b.jpg")];
  const { picture } = PICTURES[0]!;
  writeFileSync(png, encodePng({ ...picture, channels: 3 }));
  const flat = smooth(120, 80);
  writeFileSync(jpeg, encodeJpeg({ ...flat, data: Buffer.from(flat.data) }, 90).data);
  return [png, jpeg];
}

test("the command prints classes, and says what is wrong with a file", async () => {
  const [png, jpeg] = writePictures();
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
  assertStringIncludes(mixed.stderr, `${labels}: it is no PNG and no JPEG`);
  const none = command(join(folder, "none"), png);
  assertEquals(none.status, 1);
  assertStringIncludes(none.stderr, "ENOENT");
  assertStringIncludes(command("--help").stdout, "usage");
  for (const args of [[], [weights], [weights, png, "--top", "0"]]) {
    assertEquals(command(...args).status, 2);
  }
});

test(`an executable, with and without the model inside${whyNoExecutable}`, {
  skip: withoutDenort,
}, () => {
  const [png] = writePictures();
  const labels = join(folder, "own.txt");
  writeFileSync(labels, Array.from({ length: classes }, (_, i) => `thing ${i}`).join("\n"));
  const plain = command(weights, png).stdout;
  assertEquals(runExecutable("classify-image/main.ts", [], weights, png), plain);
  const inside = [`${weights}=model/model.safetensors`, `${labels}=model/labels.txt.data`];
  const named = runExecutable("classify-image/main.ts", inside, png);
  assertEquals(named, plain.replaceAll("class ", "thing "));
});
