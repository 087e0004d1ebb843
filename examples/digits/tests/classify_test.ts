/**
 * The larger digits model, the pictures and files that it accepts, and the command line.
 *
 * @module
 */
import { assert, assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { encode } from "fast-png";
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { makeClassifier } from "../classifier.ts";
import { loadDigits, pick } from "../digits.ts";
import { imagesOfBytes } from "../inputs.ts";
import { LARGE_FILE, loadLargeModel } from "../large.ts";
import { loadModel } from "../model.ts";
import { ImageError, toPixels } from "../pictures.ts";
import { decodePng, pixelsOfPng } from "../png.ts";
import { accuracy } from "../train.ts";
import { LARGE, largeAccuracy } from "../train_large.ts";
import { arange, io, memory, random, type Tensor } from "../../../mod.ts";
import { findTool, root } from "../../../scripts/tools.ts";
import { damagedPngs, makePng } from "./png.ts";

const { train: digits, heldOut } = await loadDigits();
const model = await loadLargeModel();
const classify = makeClassifier(model);
const images = heldOut.images.mul(16).toArray().map((row) => Float32Array.from(row));

test("classify: the larger model is at least as good as the small one", async () => {
  const large = largeAccuracy(model, heldOut);
  assert(large >= accuracy(await loadModel(), heldOut), `${large}`);
  await using file = await io.openSafetensors(LARGE_FILE);
  assertEquals([...file.names].sort(), Object.keys(model).sort());
  for (const name of file.names) assertEquals(file.info(name).dtype, "float16");
});

test("classify: gradients of the larger model are the slopes of its loss", () => {
  const start = LARGE.initialModel(random.key(2));
  const data = pick(digits, arange(32, { dtype: "int32" }));
  const { gradients } = LARGE.lossAndGradients(start, data);
  for (const name of Object.keys(start) as (keyof typeof start)[]) {
    const gradient: Tensor = gradients[name];
    const norm = gradient.norm().item();
    const lossAt = (step: number): number => {
      const moved = start[name].add(gradient.mul(step / norm));
      return LARGE.lossAndGradients({ ...start, [name]: moved }, data).loss;
    };
    const slope = (lossAt(0.003) - lossAt(-0.003)) / 0.006;
    assertAlmostEquals(slope / norm, 1, 0.02, name);
  }
});

test("classify: answers are those of plain loops in double precision, in batches of any size", () => {
  const weights = [model.weight1, model.weight2, model.weight3].map((w) => w.toArray());
  const biases = [model.bias1, model.bias2, model.bias3].map((b) => b.toArray());
  const plainly = (image: Float32Array): number[] => {
    let x = [...image].map((pixel) => pixel / 16);
    weights.forEach((weight, layer) => {
      x = weight.map((row, i) => row.reduce((sum, w, j) => sum + w * x[j]!, biases[layer]![i]!));
      if (layer < 2) x = x.map((value) => Math.max(value, 0));
    });
    const most = Math.max(...x);
    const shares = x.map((score) => Math.exp(score - most));
    const sum = shares.reduce((a, b) => a + b);
    return shares.map((share) => share / sum);
  };
  const some = images.slice(0, 10);
  const expected = some.map(plainly);
  for (const size of [1, 7, 10]) {
    const answers = [];
    for (let i = 0; i < 10; i += size) answers.push(...classify(some.slice(i, i + size)));
    answers.forEach(({ digit, probabilities }, i) => {
      assertEquals(digit, expected[i]!.indexOf(Math.max(...expected[i]!)));
      probabilities.forEach((share, j) => assertAlmostEquals(share, expected[i]![j]!, 1e-4));
    });
  }
});

test("classify: memory is flat over many calls of all sizes", () => {
  const run = (times: number) => {
    for (let i = 0; i < times; i++) classify(images.slice(i % 300, i % 300 + 1 + i % 64));
    return memory().bytes;
  };
  const before = run(64);
  assertEquals(run(64), before);
});

test("classify: a picture's cells are counted as the data set counts them", () => {
  // A bitmap of 32 x 32 that touches all four edges.
  const bits = Array.from({ length: 32 }, (_, y) =>
    Array.from({ length: 32 }, (_, x) => {
      const edge = y === 5 && x === 0 || y === 9 && x === 31 || x === 7 && (y === 0 || y === 31);
      return edge || (y * 7919 + x * 104729) % 11 < 4 ? 1 : 0;
    }));
  const counts = Array.from({ length: 64 }, (_, cell) => {
    let count = 0;
    for (let i = 0; i < 16; i++) {
      count += bits[4 * (cell >> 3) + (i >> 2)]![4 * (cell & 7) + (i & 3)]!;
    }
    return count;
  });
  for (const scale of [1, 2, 5]) {
    for (const margin of [0, 13]) {
      const side = 32 * scale + 2 * margin;
      const ink = Float32Array.from({ length: side * (side + 9) }, (_, i) => {
        const [y, x] = [Math.floor(i / side) - margin, i % side - margin];
        return bits[Math.floor(y / scale)]?.[Math.floor(x / scale)] ?? 0;
      });
      assertEquals([...toPixels({ width: side, height: side + 9, ink })], counts);
    }
  }
  // A tall digit keeps its proportions, in the middle.
  const bar = new Float32Array(40 * 20).map((_, i) => (i % 20 === 3 || i % 20 === 4) ? 1 : 0);
  const row = [...toPixels({ width: 20, height: 40, ink: bar })].slice(0, 8);
  assertEquals(row, [0, 0, 0, 3, 3, 0, 0, 0]);
  assertThrows(() => toPixels({ width: 2, height: 1, ink: new Float32Array(2) }), ImageError);
});

test("classify: PNG files of every kind say the same", async () => {
  const shown = images[3]!;
  const at = (x: number, y: number) => shown[y * 8 + x]! / 16;
  const rows = (channels: (share: number) => number[]) =>
    Uint8Array.from({ length: 8 }, (_, y) => y).reduce(
      (all, y) => [...all, ...Array.from({ length: 8 }, (_, x) => channels(at(x, y))).flat()],
      [] as number[],
    );
  const light = (share: number) => Math.round(share * 255);
  const png = (channels: number, data: number[], depth: 8 | 16 = 8) =>
    encode({
      width: 8,
      height: 8,
      channels,
      depth,
      data: depth === 16 ? Uint16Array.from(data) : Uint8Array.from(data),
    });
  const files = {
    grey: png(1, rows((s) => [light(s)])),
    paper: png(1, rows((s) => [255 - light(s)])),
    grey16: png(1, rows((s) => [Math.round(s * 65535)]), 16),
    rgb: png(3, rows((s) => [light(s), light(s), light(s)])),
    rgba: png(4, rows((s) => [255 - light(s), 255 - light(s), 255 - light(s), 255])),
    transparent: png(4, rows((s) => [0, 0, 0, light(s)])),
    greyAlpha: png(2, rows((s) => [0, light(s)])),
    palette: makePng({
      depth: 8,
      color: 3,
      palette: Array.from({ length: 17 }, (_, i) => Array(3).fill(light(i / 16))).flat(),
      rows: Array.from({ length: 8 }, (_, y) => Array.from({ length: 8 }, (_, x) => 16 * at(x, y))),
    }),
    "rgb, and a palette to choose from": makePng({
      color: 2,
      palette: [1, 2, 3],
      rows: Array.from(
        { length: 8 },
        (_, y) => Array.from({ length: 24 }, (_, i) => light(at(Math.floor(i / 3), y))),
      ),
    }),
    interlaced: makePng({
      interlace: 1,
      // The seven passes of Adam7 over 8 x 8 pixels: first place and step, down and across.
      rows: [
        [0, 8, 0, 8],
        [0, 8, 4, 8],
        [4, 8, 0, 4],
        [0, 4, 2, 4],
        [2, 4, 0, 2],
        [0, 2, 1, 2],
        [1, 2, 0, 1],
      ].flatMap(([top, down, left, across]) => {
        const lines: number[][] = [];
        for (let y = top!; y < 8; y += down!) {
          lines.push([]);
          for (let x = left!; x < 8; x += across!) lines.at(-1)!.push(light(at(x, y)));
        }
        return lines;
      }),
    }),
  };
  for (const [name, bytes] of Object.entries(files)) {
    assertEquals([...await pixelsOfPng(bytes)], [...shown], name);
  }
  // Two grey levels, eight pixels in a byte.
  const bits = makePng({ depth: 1, rows: Array.from({ length: 8 }, (_, y) => [1 << y]) });
  assertEquals(
    [...await pixelsOfPng(bits)],
    Array.from({ length: 64 }, (_, i) => i % 8 === 7 - (i >> 3) ? 16 : 0),
  );
});

test("classify: damaged, huge and hostile PNG files are an ImageError, fast", async () => {
  for (const [name, bytes] of Object.entries(damagedPngs())) {
    await assertRejects(() => decodePng(bytes), ImageError, undefined, name);
  }
});

test("classify: files of every format, and what is wrong with others", async () => {
  const two = images.slice(0, 2);
  const lists = two.map((image) => [...image]);
  const square = (list: number[]) =>
    Array.from({ length: 8 }, (_, i) => list.slice(8 * i, 8 * i + 8));
  const text = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
  const csv = new TextEncoder().encode(lists.map((list) => list.join()).join("\r\n") + "\n");
  const array = heldOut.images.slice(":2").mul(16);
  const goods: [string, Uint8Array, number][] = [
    ["object", text({ images: lists }), 2],
    ["list", text(lists), 2],
    ["squares", text(lists.map(square)), 2],
    ["one", text(lists[0]), 1],
    ["one square", text(square(lists[0]!)), 1],
    ["csv", csv, 2],
    ["npy", io.encodeNpy(array.asDynamic()), 2],
    ["npy of bytes", io.encodeNpy(array.astype("uint8").reshape([2, 8, 8]).asDynamic()), 2],
    ["npy of one", io.encodeNpy(array.slice(0).reshape([8, 8]).asDynamic()), 1],
  ];
  for (const [name, bytes, count] of goods) {
    const read = await imagesOfBytes(bytes);
    assertEquals(read.map((image) => [...image]), lists.slice(0, count), name);
  }
  const bads: Record<string, [Uint8Array, string]> = {
    empty: [new Uint8Array(), "there is no image"],
    "short line": [new TextEncoder().encode("1,2"), "line 1 has 2 numbers"],
    words: [new TextEncoder().encode(Array(64).fill("x").join()), "line 1, pixel 0: NaN"],
    binary: [Uint8Array.of(0xff, 0xfe), "neither PNG"],
    "half a JSON": [new TextEncoder().encode("[1,"), "not JSON"],
    range: [text([...Array(63).fill(0), 17]), "image 0, pixel 63: 17"],
    shape: [io.encodeNpy(arange(60).asDynamic()), "the array's shape is [60]"],
  };
  for (const [name, [bytes, message]] of Object.entries(bads)) {
    await assertRejects(() => imagesOfBytes(bytes), ImageError, message, name);
  }
});

test("classify: the command line reads files and standard input, and exits with 0, 1 or 2", () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-classify-"));
  try {
    const [csv, png] = [join(folder, "digits.csv"), join(folder, "digit.png")];
    const two = images.slice(0, 2);
    writeFileSync(csv, two.map((image) => image.join()).join("\n"));
    const data = Uint8Array.from(two[0]!, (ink) => ink * 255 / 16);
    writeFileSync(png, encode({ width: 8, height: 8, channels: 1, depth: 8, data }));
    const [first, second] = classify(two);
    const isDeno = "Deno" in globalThis;
    const script = join(root, "examples", "digits", "classify.ts");
    const run = (args: string[], input?: string) => {
      const permissions = ["run", "--no-prompt", "--allow-read", "--allow-ffi", "--allow-env"];
      const options = { cwd: folder, input: input ?? "", env: { ...process.env, NO_COLOR: "1" } };
      const { status, stdout, stderr } = spawnSync(
        findTool(isDeno ? "deno" : "bun"),
        [...isDeno ? [...permissions, "--no-check"] : [], script, ...args],
        { ...options, encoding: "utf8" },
      );
      return { status, stdout: stdout.replaceAll("\r\n", "\n"), stderr };
    };
    const line = (answer: typeof first, file: string) =>
      `${answer!.digit}  ${(answer!.probabilities[answer!.digit]! * 100).toFixed(1)}%  ${file}\n`;

    const files = run([csv, png]);
    assertEquals([files.status, files.stderr], [0, ""]);
    assertEquals(files.stdout, line(first, csv) + line(second, csv) + line(first, png));

    const json = run(["--json"], JSON.stringify({ images: [[...two[1]!]] }));
    assertEquals(json.status, 0);
    const { results } = JSON.parse(json.stdout);
    assertEquals(results.length, 1);
    assertEquals([results[0].file, results[0].digit], ["-", second!.digit]);

    const wrong = run(["--jsn", csv]);
    assertEquals([wrong.status, wrong.stdout], [2, ""]);
    assert(wrong.stderr.includes("--jsn") && wrong.stderr.includes("usage: classify.ts"));
    const missing = run(["missing.png"]);
    assertEquals([missing.status, missing.stdout], [1, ""]);
    assert(missing.stderr.startsWith("missing.png: "), missing.stderr);
    const bad = run([], "1,2,3");
    assertEquals(bad.status, 1);
    assertEquals(bad.stderr.trim(), "standard input: line 1 has 3 numbers: an image has 64");
  } finally {
    rmSync(folder, { recursive: true });
  }
});
