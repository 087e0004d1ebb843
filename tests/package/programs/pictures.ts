/**
 * A program that writes and reads pictures by optional packages, for executables.
 *
 * @module
 */
import { arange } from "../../../mod.ts";
import { decodeImage, encodeJpeg, encodePng } from "../../../src/images/mod.ts";

const x = arange(64, { dtype: "uint8" }).reshape([8, 8]);
const png = await decodeImage(encodePng(x));
const jpeg = await decodeImage(await encodeJpeg(x));
console.log(`[${png.shape}] ${png.sum().item()} [${jpeg.shape}]`);
