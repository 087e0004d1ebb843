/**
 * The example `detect`: a model of the form of YOLOv8, which scripts/golden/onnx_cases.py makes; boxes in
 * pixels of the picture, those that overlap, frames, the command, an executable; and a real YOLOv8,
 * where `deno task models` has fetched it.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { zeros } from "../../mod.ts";
import { Detector, drawn, namesOf } from "../../examples/detect/detector.ts";
import { modelFolder } from "../../scripts/models.ts";
import { decodeImage, type ImageTensor, readImage, writeImage } from "../../src/images/mod.ts";
import { runExample, runExecutable, whyNoExecutable, withoutDenort } from "../example_program.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-detect-"));
after(() => rmSync(folder, { recursive: true }));
const read = (name: string): string =>
  JSON.parse(readFileSync(new URL(`../golden/onnx/${name}.json`, import.meta.url), "utf8"));
const bytes = Uint8Array.fromBase64(read("detector"));
const path = join(folder, "detector.onnx");
writeFileSync(path, bytes);

/** A picture of 128 x 64 pixels, red on its left side and blue on its right side. */
const picture = zeros([64, 128, 3], { dtype: "uint8" }) as ImageTensor<3>;
picture.slice(":", ":64", 0).fill_(255);
picture.slice(":", "64:", 2).fill_(204);
const png = join(folder, "picture.png");
await writeImage(png, picture);

test("boxes are those of the picture, and one for each thing", async () => {
  using detector = await Detector.open(bytes);
  const found = await detector.detect(picture, { threshold: 0.5 });
  // The square has 8 gray rows above the picture and below it, and 4 pixels are one.
  assertEquals(found.map(({ label, index, box }) => ({ label, index, box })), [
    { label: "red", index: 0, box: [0, 0, 64, 64] },
    { label: "blue", index: 1, box: [64, 0, 128, 64] },
  ]);
  assert(Math.abs(found[0]!.score - 1) < 1e-5 && Math.abs(found[1]!.score - 0.8) < 1e-5);
});

test("limits decide what is a thing", async () => {
  using detector = await Detector.open(bytes);
  const count = async (threshold: number, overlap: number): Promise<number> =>
    (await detector.detect(picture, { threshold, overlap })).length;
  assertEquals(await count(0.9, 0.45), 1);
  // Two boxes share 15 of 17 columns.
  assertEquals(await count(0.9, 0.95), 2);
  // The rows above the picture are gray.
  assertEquals(await count(0.4, 0.45), 3);
  assertEquals(await count(1.5, 0.45), 0);
});

test("pictures of 16 bits have the same things", async () => {
  using detector = await Detector.open(bytes);
  const wide = picture.astype("uint16").mul(257) as unknown as ImageTensor<3>;
  const [a, b] = [await detector.detect(picture), await detector.detect(wide)];
  assertEquals(a.map(({ box }) => box), b.map(({ box }) => box));
});

test("frames are drawn into a copy", () => {
  const things = [{ box: [10, 20, 50, 60] as const, label: "red", index: 0, score: 1 }];
  const made = drawn(picture, things);
  const color = (y: number, x: number): number[] => [...made.slice(y, x).toTypedArray()];
  assertEquals([color(20, 10), color(59, 49), color(40, 10)], Array(3).fill([255, 56, 56]));
  assertEquals([color(40, 30), color(19, 10)], Array(2).fill([255, 0, 0]));
  assertEquals([...picture.slice(20, 10).toTypedArray()], [255, 0, 0]);
});

test("names of classes are read from the metadata", () => {
  const names = namesOf(`{0: 'a b', 1: "it's", 12: ''}`);
  assertEquals([...names], [[0, "a b"], [1, "it's"], [12, ""]]);
  assertEquals(namesOf(undefined).size, 0);
});

test("a model that is no detector is refused", async () => {
  const { model } = (JSON.parse(readFileSync(
    new URL("../golden/onnx/cases.json", import.meta.url),
    "utf8",
  )) as { name: string; model: string }[]).find(({ name }) => name === "if_in_loop")!;
  await assertRejects(() => Detector.open(Uint8Array.fromBase64(model)), Error, "no YOLOv8");
});

const command = (...args: string[]) => runExample("detect/main.ts", ...args);
const EXPECTED = "1.000  red  0 0 64 64\n0.800  blue  64 0 128 64\n";

test("the command prints things, and writes the picture with frames", async () => {
  const out = join(folder, "out.png");
  const { status, stdout, stderr } = command(path, png, "--threshold=0.5", `--out=${out}`);
  assertEquals([status, stderr, stdout], [0, "", EXPECTED]);
  const marked = await readImage(out, { channels: 3 });
  assertEquals([...marked.slice(0, 20).toTypedArray()], [255, 56, 56]);
  const json = command(path, png, "--threshold=0.9", "--json");
  assertEquals(JSON.parse(json.stdout)[0].box, [0, 0, 64, 64]);
});

test("the command tells what is wrong", () => {
  const none = command(path);
  assertEquals(none.status, 2);
  assertStringIncludes(none.stderr, "usage:");
  const bad = command(png, png);
  assertEquals(bad.status, 1);
  assertStringIncludes(bad.stderr, "picture.png: ");
});

test(`an executable has the model inside${whyNoExecutable}`, { skip: withoutDenort }, () => {
  const inside = `${path}=model/detector.onnx.data`;
  assertEquals(runExecutable("detect/main.ts", [inside], png, "--threshold=0.5"), EXPECTED);
});

const [nudenet, pictures] = [modelFolder("nudenet"), modelFolder("pictures")];
const skip = nudenet === undefined || pictures === undefined;
const why = skip ? " (skipped: models/nudenet or models/pictures is not there)" : "";

test(`a real YOLOv8 finds a face${why}`, { skip }, async () => {
  using detector = await Detector.open(join(nudenet!, "320n.onnx"));
  const astronaut = await decodeImage(readFileSync(join(pictures!, "astronaut.png")), {
    channels: 3,
  });
  const [face, ...others] = await detector.detect(astronaut);
  assertEquals([face!.label, others.length], ["FACE_FEMALE", 0]);
  const wanted = [173, 83, 274, 180];
  face!.box.forEach((value, k) => assert(Math.abs(value - wanted[k]!) < 3, `${face!.box}`));
});
