/**
 * Finds things in PNG and JPEG pictures by a YOLOv8 of an ONNX file, and draws frames around them.
 *
 *     deno task models nudenet
 *     bun examples/detect/main.ts models/nudenet/320n.onnx photo.jpg --out=found.png
 *
 * @module
 */
import { existsSync, readFileSync } from "node:fs";
import process from "node:process";
import { parseArgs } from "node:util";
import { decodeImage, writeImage } from "../../src/images/mod.ts";
import { Detector, drawn } from "./detector.ts";

const USAGE = `usage: main.ts MODEL.onnx IMAGE [--out FILE] [--threshold P] [--overlap P] [--json]

MODEL.onnx is a YOLOv8 as Ultralytics exports it; IMAGE is a PNG or a JPEG.

  --out FILE     writes the picture with frames around the things, as .png or .jpg
  --threshold P  the least score; 0.25 by default
  --overlap P    the part of their union that boxes of one class may share; 0.45 by default
  --json         prints [{"label", "index", "score", "box": [left, top, right, bottom]}, ...]
  -h, --help     prints this

An executable that has model/detector.onnx.data inside takes no MODEL.onnx.`;

/** The model inside an executable, or next to this module. */
const own = new URL("model/detector.onnx.data", import.meta.url);

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: "string" },
    threshold: { type: "string", default: "0.25" },
    overlap: { type: "string", default: "0.45" },
    json: { type: "boolean", default: false },
    help: { type: "boolean", short: "h", default: false },
  },
});
const isInside = existsSync(own);
const [model, file] = isInside ? [readFileSync(own), positionals[0]] : positionals;
const [threshold, overlap] = [Number(values.threshold), Number(values.overlap)];

if (values.help) console.log(USAGE);
else if (model === undefined || file === undefined || !(threshold >= 0) || !(overlap >= 0)) {
  console.error(USAGE);
  process.exitCode = 2;
} else {
  let reading: string | undefined = isInside ? "model" : String(model);
  try {
    using detector = await Detector.open(model);
    reading = file;
    using picture = await decodeImage(readFileSync(file), { channels: 3 });
    const things = await detector.detect(picture, { threshold, overlap });
    if (values.json) console.log(JSON.stringify(things));
    else {
      for (const { label, score, box } of things) {
        console.log(`${score.toFixed(3)}  ${label}  ${box.map(Math.round).join(" ")}`);
      }
      if (things.length === 0) console.log("nothing");
    }
    if (values.out !== undefined) {
      reading = values.out;
      using marked = drawn(picture, things);
      await writeImage(values.out, marked);
    }
  } catch (error) {
    console.error(`${reading}: ${(error as Error).message}`);
    process.exitCode = 1;
  }
}
