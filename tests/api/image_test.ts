/**
 * Tensors as images: decodes the PNG files, chunk by chunk.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { test } from "node:test";
import { crc32, inflateSync } from "node:zlib";
import { decode } from "fast-png";
import { type AnyTensor, arange, image, type ImageOptions, tensor, zeros } from "../../mod.ts";
import { ArgumentError, DTypeError, ShapeError } from "../../src/base/errors.ts";
import { MIRROR } from "../device/mirror.ts";
import { assertRefused, iota, loose } from "../support.ts";

interface Decoded {
  width: number;
  height: number;
  channels: number;
  pixels: number[];
}

/** Reads a PNG file of 8 bits per channel, and checks it against the format. */
function decodePng(file: Uint8Array): Decoded {
  assertEquals([...file.subarray(0, 8)], [137, 80, 78, 71, 13, 10, 26, 10]);
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const chunks: [type: string, at: number, length: number][] = [];
  for (let at = 8; at < file.length;) {
    const length = view.getUint32(at);
    const type = String.fromCharCode(...file.subarray(at + 4, at + 8));
    assertEquals(view.getUint32(at + 8 + length), crc32(file.subarray(at + 4, at + 8 + length)));
    chunks.push([type, at + 8, length]);
    at += 12 + length;
  }
  assertEquals(chunks.map(([type]) => type), ["IHDR", "IDAT", "IEND"]);
  const [[, header, headerLength], [, data, dataLength], [, , endLength]] = chunks;
  assertEquals([headerLength, endLength], [13, 0]);
  const [width, height] = [view.getUint32(header), view.getUint32(header + 4)];
  const [bits, colour, ...rest] = file.subarray(header + 8, header + 13);
  assertEquals([bits, ...rest], [8, 0, 0, 0]);
  const channels = { 0: 1, 2: 3, 6: 4 }[colour!]!;
  const rows = inflateSync(file.subarray(data, data + dataLength));
  assertEquals(rows.length, height * (1 + width * channels));
  const pixels = [...decode(file).data];
  return { width, height, channels, pixels };
}

function pixelsOf(x: AnyTensor, options?: ImageOptions): number[] {
  const shown = image(x, options);
  const { pixels, ...size } = decodePng(shown.png);
  assertEquals({ ...size }, {
    width: shown.width,
    height: shown.height,
    channels: shown.channels,
  });
  return pixels;
}

test("grey, RGB and RGBA images hold the elements in order", () => {
  for (const shape of [[2, 3], [2, 3, 1], [2, 3, 3], [2, 3, 4], [1, 1], [7, 1, 4]]) {
    const x = iota(shape, "uint8");
    assertEquals(pixelsOf(x), [...Array(x.size).keys()]);
    const shown = image(x);
    assertEquals([shown.height, shown.width, shown.channels], [shape[0], shape[1], shape[2] ?? 1]);
  }
});

test("an image beyond what one block of deflate holds comes back whole", () => {
  const x = loose(iota([300, 400], "int32")).remainder(251).astype("uint8");
  assertEquals(pixelsOf(x), Array.from({ length: 120000 }, (_, i) => i % 251));
});

test("any layout of a tensor shows what it holds, as it is at the time", () => {
  const x = iota([3, 4], "uint8");
  assertEquals(pixelsOf(loose(x).T.slice("::-1, 1:")), [7, 11, 6, 10, 5, 9, 4, 8]);
  const shown = image(x);
  loose(x).fill_(9);
  assertEquals(decodePng(shown.png).pixels[11], 11);
});

test("floats and bool go from 0 to 1, and what is beyond is cut off", () => {
  const values = [-1, 0, 0.25, 0.5, 1, 2, NaN, Infinity, -Infinity];
  for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
    assertEquals(
      pixelsOf(tensor([values], { dtype })),
      [0, 0, 64, 128, 255, 255, 0, 255, 0],
      dtype,
    );
  }
  assertEquals(pixelsOf(tensor([[true, false]])), [255, 0]);
  // Bytes survive the conversion to floats and back.
  const bytes = arange(256).reshape([16, 16]);
  assertEquals(pixelsOf(bytes.div(255)), [...Array(256).keys()]);
});

test("min and max say what is black and white, for any dtype", () => {
  const range = { min: -2, max: 2 };
  for (const dtype of ["int8", "int64", "float16", "float64"] as const) {
    const x = tensor([[-3, -2, 0, 2, 3]], { dtype });
    assertEquals(pixelsOf(x, range), [0, 0, 128, 255, 255], dtype);
  }
  assertEquals(pixelsOf(tensor([[0, 8, 16]]), { max: 16 }), [0, 128, 255]);
  assertEquals(pixelsOf(iota([1, 3], "uint8"), { max: 2 }), [0, 128, 255]);
});

test("scale makes a square of every pixel", () => {
  assertEquals(pixelsOf(iota([2, 2], "uint8"), { scale: 2 }), [
    ...[0, 0, 1, 1],
    ...[0, 0, 1, 1],
    ...[2, 2, 3, 3],
    ...[2, 2, 3, 3],
  ]);
  const rgb = pixelsOf(iota([1, 2, 3], "uint8"), { scale: 3 });
  const row = [0, 1, 2, 0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5];
  assertEquals(rgb, [...row, ...row, ...row]);
});

test("a tensor on a device is copied to the CPU", () => {
  const there = loose(iota([2, 3], "uint8")).to(MIRROR);
  assertEquals(pixelsOf(there), [0, 1, 2, 3, 4, 5]);
  assertEquals(pixelsOf(loose(tensor([[0, 1]])).to(MIRROR)), [0, 255]);
});

test("what is no image is refused, with what would be one", () => {
  for (const shape of [[], [4], [2, 2, 2], [2, 2, 5], [1, 2, 2, 3], [0, 3], [3, 0], [2, 0, 3]]) {
    const x = zeros(shape as number[]);
    assertRefused(() => image(x), ShapeError, ["image() needs", "[height, width]"], x);
  }
  const x = tensor([[1, 2]], { dtype: "int32" });
  assertRefused(() => image(x), DTypeError, "image() needs max for int32", x);
  for (const options of [{ max: 0 }, { min: NaN }, { max: Infinity }, { min: 3, max: 2 }]) {
    assertRefused(
      () => image(zeros([2, 2]), options),
      ArgumentError,
      "image() needs finite numbers, min below max",
    );
  }
  for (const scale of [0, -1, 1.5, NaN]) {
    assertRefused(() => image(zeros([2, 2]), { scale }), ArgumentError, `as scale, got ${scale}`);
  }
  const refused = (f: () => unknown) => {
    try {
      f();
    } catch (error) {
      return String(error);
    }
    return "nothing";
  };
  assertMatch(
    refused(() => image(zeros([2, 2]), loose({ size: 2 }))),
    /"size": it takes min, max, sc/,
  );
  assertMatch(refused(() => image(loose([[1]]))), /TypeError: Cannot image/);
  const gone = zeros([2, 2]);
  gone.dispose();
  assertMatch(refused(() => image(gone)), /DisposedError/);
});

test("notebooks show the picture, consoles its size", () => {
  const shown = image(zeros([2, 3, 3]));
  const bundle = loose(shown)[Symbol.for("Jupyter.display")]();
  assertEquals(Object.keys(bundle), ["image/png", "text/plain"]);
  assertEquals([...Buffer.from(bundle["image/png"], "base64")], [...shown.png]);
  assertEquals(bundle["text/plain"], "image(3 × 2, RGB)");
  const { Deno, Bun } = loose(globalThis);
  assertStringIncludes((Deno?.inspect ?? Bun?.inspect)(shown), "image(3 × 2, RGB)");
  assertEquals(String(image(zeros([1, 1]))), "image(1 × 1, grey)");
  assert(String(image(zeros([1, 1, 4]))).includes("RGBA"));
});
