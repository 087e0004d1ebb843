/**
 * A program that imports the entry point of pictures, and no other.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { readFileSync } from "node:fs";
import process from "node:process";
import { decodeImage, encodePng } from "../../../src/images/mod.ts";

const { cases } = JSON.parse(readFileSync(process.argv[2]!, "utf8"));
const { file } = cases.find(({ name }: { name: string }) => name === "rgb8 7x11");
const x = await decodeImage(new Uint8Array(Buffer.from(file, "base64")));
const { shape, dtype } = await decodeImage(encodePng(x.permute(1, 0, 2)));
console.log(`[${shape}] ${dtype}`);
