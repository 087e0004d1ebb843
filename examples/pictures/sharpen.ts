/**
 * Sharpens a picture: reads PNG or JPEG, subtracts a blurred copy, and writes either.
 *
 *     deno run -A examples/pictures/sharpen.ts IN.jpg OUT.png
 *
 * Needs fast-png for PNG and jpeg-js for JPEG: `npm install fast-png jpeg-js`.
 *
 * @module
 */
import process from "node:process";
import { type AnyTensor, scope } from "../../mod.ts";
import { type ImageTensor, readImage, writeImage } from "../../src/images/mod.ts";

/** The picture with its details doubled: x + (x − the mean of 3 × 3 pixels), within 0 and 255. */
export function sharpen(picture: ImageTensor): AnyTensor {
  return scope(() => {
    const x = picture.astype("float32");
    const [height, width] = picture.shape;
    const padded = x.pad([[1, 1], [1, 1], [0, 0]], { mode: "edge" });
    let sum: AnyTensor = x.mul(0);
    for (let i = 0; i < 3; i++) {
      for (let j = 0; j < 3; j++) {
        sum = sum.add(padded.slice(`${i}:${i + height}`, `${j}:${j + width}`));
      }
    }
    return x.mul(2).sub(sum.div(9)).round().clip(0, 255).astype("uint8");
  });
}

if (import.meta.main) {
  const [from, to] = process.argv.slice(2);
  if (from === undefined || to === undefined) {
    console.error("usage: sharpen.ts IN OUT, of .png, .jpg or .jpeg");
    process.exit(2);
  }
  await writeImage(to, sharpen(await readImage(from, { channels: 3 })));
}
