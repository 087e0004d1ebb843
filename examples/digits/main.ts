/**
 * The demo: classifies the held-out digits and prints the accuracy.
 *
 *     deno task demo
 *     bun examples/digits/main.ts
 *
 * `--device cuda` does it on a graphics card: bun examples/digits/main.ts --device cuda, or
 * deno run -A examples/digits/main.ts --device cuda. `--train` trains a convolutional network first, and
 * prints its accuracy: deno run -A examples/digits/main.ts --train.
 *
 * @module
 */
import process from "node:process";
import { arange, DeviceError, type Tensor, type types } from "../../mod.ts";
import { deviceIn } from "./device.ts";
import { loadDigits, pick } from "./digits.ts";
import { classify, type Images, loadModel } from "./model.ts";

const PER_ROW = 4;

/** Draws images next to each other, each below its caption: 8 lines of 16 characters. */
function draw(images: Images, captions: readonly string[]): string {
  // From a stack of images to a wide one, an empty column after each: [N, 64] to [8, N * 9].
  const wide = images.reshape([-1, 8, 8]).pad([[0, 0], [0, 0], [0, 1]]).permute(1, 0, 2);
  const shades = wide.reshape([8, -1]).mul(4).round().toArray();
  const lines = shades.map((line) => line.map((shade) => " ░▒▓█"[shade]!.repeat(2)).join(""));
  const header = captions.map((caption) => caption.padEnd(18)).join("");
  return [header, ...lines].map((line) => line.trimEnd()).join("\n");
}

/** A table of how often each digit (its row) was classified as each digit (its column). */
function confusion(
  labels: Tensor<"int32", [number]>,
  predictions: Tensor<"int32", [number]>,
): string {
  const counts = labels.oneHot(10).T.matmul(predictions.oneHot(10)).toArray();
  const row = (head: string, cells: readonly (string | number)[]) =>
    head + cells.map((cell) => String(cell || "·").padStart(4)).join("");
  return [
    row("    ", [...counts.keys()].map(String)),
    ...counts.map((cells, digit) => row(`   ${digit}`, cells)),
  ].join("\n");
}

/** The output of the demo; all computations run on `device`. */
export async function demo(device: types.Device = "cpu"): Promise<string> {
  const { heldOut } = await loadDigits(device);
  const model = await loadModel(device);
  const predictions = classify(model, heldOut.images);
  const right = predictions.equal(heldOut.labels);
  const [wrong] = right.logicalNot().nonzero();

  /** Pictures of some of the digits, with their predicted classes. */
  const show = (indexes: Tensor<"int32", [number]>): string => {
    const { images, labels } = pick(heldOut, indexes);
    const captions = predictions.take(indexes).toArray().map((prediction, i) => {
      const label = labels.get(i);
      return prediction === label ? `${prediction}` : `${prediction}: wrong, a ${label}`;
    });
    return draw(images, captions);
  };

  const first = arange(2 * PER_ROW, { dtype: "int32", device });
  return [
    `${right.size} handwritten digits that the model has never seen. The first, as it reads them:`,
    show(first.slice(`:${PER_ROW}`)),
    show(first.slice(`${PER_ROW}:`)),
    `It is wrong about ${wrong.size}, such as these:`,
    show(wrong.slice(`:${PER_ROW}`)),
    "What each digit (row) was read as (column):",
    confusion(heldOut.labels, predictions),
    `accuracy: ${(right.mean().item() * 100).toFixed(1)}%`,
  ].join("\n\n");
}

if (import.meta.main) {
  try {
    const args = process.argv.slice(2);
    if (args.includes("--train")) await (await import("./train_cnn.ts")).trainAndReport();
    else console.log(await demo(deviceIn(args)));
  } catch (error) {
    if (!(error instanceof DeviceError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}
