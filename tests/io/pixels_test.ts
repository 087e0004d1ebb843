/**
 * Pictures that other libraries have decoded, as tensors.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { decode as decodePng, encode as encodePng } from "fast-png";
import { decode as decodeJpeg, encode as encodeJpeg } from "jpeg-js";
import { ArgumentError, io } from "../../mod.ts";
import { loose } from "../support.ts";

const RED = [255, 0, 0], BLUE = [0, 0, 255];
const DATA = new Uint8Array([...RED, 255, ...BLUE, 255]);

test("a PNG by fast-png", () => {
  const bytes = encodePng({ width: 2, height: 1, data: DATA, channels: 4 });
  const x = io.fromPixels(decodePng(bytes) as never, { channels: 3 });
  assertEquals([x.shape, x.dtype], [[1, 2, 3], "uint8"]);
  assertEquals(x.toArray(), [[RED, BLUE]] as never);
  const grey = new Uint16Array([0, 1000, 65535, 7]);
  const deep = encodePng({ width: 2, height: 2, data: grey, channels: 1, depth: 16 });
  const y = io.fromPixels(decodePng(deep) as never);
  assertEquals([y.shape, y.dtype], [[2, 2, 1], "uint16"]);
  assertEquals(y.flatten().toArray(), [...grey]);
});

test("a JPEG by jpeg-js", () => {
  const data = new Uint8Array(16 * 16 * 4).fill(200);
  const { data: bytes } = encodeJpeg({ width: 16, height: 16, data }, 95);
  const picture = decodeJpeg(Buffer.from(bytes), { useTArray: true });
  const x = loose(io.fromPixels(picture, { channels: 3 }));
  assertEquals(x.shape, [16, 16, 3]);
  assertEquals(x.astype("float32").sub(200).abs().max().item() <= 2, true);
});

test("pictures of a wrong size are refused", () => {
  const data = new Uint8Array(5);
  const cases = [
    { width: 2, height: 1, data },
    { width: 0, height: 1, data },
    { width: 1.5, height: 2, data },
    { width: -5, height: -1, data },
    { width: 1e200, height: 1e200, data },
    { width: 5, height: 1, data: [1, 2, 3, 4, 5] as never },
  ];
  for (const picture of cases) assertThrows(() => io.fromPixels(picture), ArgumentError);
  const picture = { width: 1, height: 1, data: new Uint8Array(3) };
  assertThrows(() => io.fromPixels(picture, { channels: 4 }), ArgumentError, "from 1 to 3");
});
