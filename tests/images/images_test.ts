/**
 * PNG and JPEG files as tensors: pixels against Pillow, options, errors, damaged files.
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
import { Buffer } from "node:buffer";
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import {
  type AnyTensor,
  arange,
  ArgumentError,
  DTypeError,
  FormatError,
  ShapeError,
  tensor,
  zeros,
} from "../../mod.ts";
import * as images from "../../src/images/mod.ts";
import { root } from "../../scripts/tools.ts";
import { type Any, loose } from "../support.ts";

interface Case {
  readonly name: string;
  readonly file: string;
  readonly dtype: "uint8" | "uint16";
  readonly shape: readonly number[];
  readonly pixels: string;
  readonly error: number;
}

const GOLDEN = join(root, "tests", "golden", "images", "images.json");
const { cases, luma }: {
  cases: readonly Case[];
  luma: { colors: number[][][]; grey: number[][] };
} = JSON.parse(readFileSync(GOLDEN, "utf8"));

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(text, "base64"));
}

/** The file of the case of that name. */
function fileOf(name: string): Uint8Array<ArrayBuffer> {
  return bytesOf(cases.find((one) => one.name === name)!.file);
}

test("every color type, depth and order of PNG, and JPEG files, as Pillow reads them", async () => {
  assert(cases.length > 80);
  for (const { name, file, dtype, shape, pixels, error } of cases) {
    const x = await images.decodeImage(bytesOf(file));
    assertEquals([x.shape, x.dtype], [shape, dtype] as Any, name);
    const bytes = bytesOf(pixels);
    const expected = dtype === "uint8" ? bytes : new Uint16Array(bytes.buffer);
    if (error === 0) assertEquals(loose(x).toTypedArray(), expected, name);
    else {
      const found: ArrayLike<number> = loose(x).toTypedArray();
      const worst = Math.max(...Array.from(expected, (value, i) => Math.abs(value - found[i]!)));
      assert(worst <= error, `${name}: off by ${worst}`);
    }
  }
});

test("channels: grey by luma as in Pillow, colors of grey, alpha added and dropped", async () => {
  const colors = tensor(luma.colors, { dtype: "uint8" });
  const file = images.encodePng(colors);
  const grey = await images.decodeImage(file, { channels: 1 });
  const shape: readonly [number, number, 1] = grey.shape;
  assertEquals(shape, [5, 6, 1]);
  assertEquals(loose(grey).squeeze(2).toArray(), luma.grey);
  const four = loose(await images.decodeImage(file, { channels: 4 }));
  assertEquals(four.slice("...", ":3").toArray(), luma.colors);
  assertEquals(four.slice("...", 3).min().item(), 255);
  const back = await images.decodeImage(images.encodePng(four), { channels: 3 });
  assertEquals(loose(back).toArray(), luma.colors);
  const pair = tensor([[[7, 100], [9, 0]]], { dtype: "uint16" });
  const deep = images.encodePng(pair as AnyTensor);
  const read = async (options: images.DecodeOptions) =>
    loose(await images.decodeImage(deep, options)).toArray();
  assertEquals(await read({}), [[[7, 100], [9, 0]]]);
  assertEquals(await read({ channels: 1 }), [[[7], [9]]]);
  assertEquals(await read({ channels: 3 }), [[[7, 7, 7], [9, 9, 9]]]);
  assertEquals(await read({ channels: 4 }), [[[7, 7, 7, 100], [9, 9, 9, 0]]]);
  const opaque = images.encodePng(tensor([[300]], { dtype: "uint16" }) as AnyTensor);
  assertEquals(loose(await images.decodeImage(opaque, { channels: 4 })).toArray(), [[[
    300,
    300,
    300,
    65535,
  ]]]);
});

test("what was written is read again: views, 1 to 4 channels, 8 and 16 bits", async () => {
  for (const dtype of ["uint8", "uint16"] as const) {
    for (const channels of [1, 2, 3, 4]) {
      const x = arange(5 * 6 * channels).mul(dtype === "uint8" ? 2 : 500).astype(dtype)
        .reshape([5, 6, channels]) as Any;
      for (const one of [x, x.permute(1, 0, 2), x.slice("::-1", "::2")]) {
        const back = loose(await images.decodeImage(images.encodePng(one)));
        assertEquals([back.dtype, back.toArray()], [dtype, one.toArray()]);
      }
    }
  }
  const flat = arange(64, { dtype: "uint8" }).reshape([8, 8]);
  for (const x of [flat, flat.expandDims(2).broadcastTo([8, 8, 3])] as AnyTensor[]) {
    const back = loose(await images.decodeImage(await images.encodeJpeg(x, { quality: 100 })));
    assertEquals(back.shape, [8, 8, 3]);
    const error = back.astype("float32").sub(flat.expandDims(2).astype("float32")).abs().max();
    assert(error.item() <= 3);
  }
});

test("rows are written by the filter whose differences are smallest", async () => {
  const [y, x] = [arange(64).expandDims(1), arange(80)] as Any[];
  const ramps = [x.add(y.mul(0)), y.add(x.mul(0)), x.add(y)];
  for (const ramp of ramps) {
    const picture = ramp.astype("uint8").expandDims(2).broadcastTo([64, 80, 3]);
    const bytes = images.encodePng(picture);
    assert(bytes.length < 64 * 80 / 4, `${bytes.length}`);
    assertEquals(loose(await images.decodeImage(bytes)).toArray(), picture.toArray());
  }
});

test("images alone are enough to make and compute with tensors", () => {
  const path = join(root, "tests", "package", "programs", "pictures_alone.ts");
  const args = "Deno" in globalThis
    ? ["run", "-A", "--quiet", "--no-check", path, GOLDEN]
    : [path, GOLDEN];
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
  assertEquals(stdout.trim(), "[11,7,3] uint8", stderr);
});

test("files", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "rowmajor-images-")));
  try {
    const x = arange(12, { dtype: "uint8" }).reshape([2, 2, 3]);
    const png = join(folder, "a.png"), jpeg = join(folder, "b.JPG");
    await images.writeImage(png, x);
    await images.writeImage(jpeg, x, { quality: 100 });
    assertEquals(loose(await images.readImage(png)).toArray(), x.toArray() as Any);
    const grey = await images.readImage(new URL(`file://${jpeg}`), { channels: 1 });
    assertEquals(grey.shape, [2, 2, 1]);
    await assertRejects(() => images.writeImage(join(folder, "c.gif"), x), ArgumentError, ".png");
    writeFileSync(png, readFileSync(png).subarray(0, 50));
    const error = await assertRejects(() => images.readImage(png), FormatError) as FormatError;
    assertEquals(error.file, png);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("wrong tensors and options", async () => {
  const { encodePng, encodeJpeg, decodeImage } = images;
  const byte = zeros([2, 2, 3], { dtype: "uint8" });
  const shapes = [
    zeros([3]),
    zeros([2, 2, 5]),
    zeros([0, 2]),
    zeros([1, 2, 2, 3]),
    zeros([2, 2, 0]),
  ];
  for (const x of shapes) assertThrows(() => encodePng(x.astype("uint8")), ShapeError);
  assertThrows(() => encodePng(zeros([2, 2])), DTypeError, "Cannot encodePng float32");
  await assertRejects(() => encodeJpeg(zeros([2, 2], { dtype: "uint16" })), DTypeError);
  await assertRejects(() => encodeJpeg(zeros([2, 2, 4], { dtype: "uint8" })), ShapeError);
  await assertRejects(() => encodeJpeg(zeros([1, 65536], { dtype: "uint8" })), ShapeError, "65535");
  await assertRejects(() => encodeJpeg(byte, { quality: 0 }), ArgumentError);
  await assertRejects(() => encodeJpeg(byte, { color: 1 } as Any));
  const png = encodePng(byte);
  await assertRejects(() => decodeImage(png, { channels: 2 as Any }), ArgumentError, "1, 3 or 4");
  await assertRejects(() => decodeImage(png, { maxPixels: 0 }), ArgumentError);
  await assertRejects(() => decodeImage(png, { maxPixels: 3 }), FormatError, "2 × 2 pixels");
  await assertRejects(() => decodeImage([1, 2] as Any), TypeError);
});

/** A PNG of a size in the header, with other data. */
function bomb(width: number, height: number, data: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(fileOf("rgb8 1x1"));
  const view = new DataView(bytes.buffer);
  view.setUint32(16, width);
  view.setUint32(20, height);
  return rebuilt(bytes, data);
}

/** The PNG with right checksums; `data` is in the place of its own. */
function rebuilt(bytes: Uint8Array<ArrayBuffer>, data?: Uint8Array): Uint8Array {
  const { crc32 } = process.getBuiltinModule("node:zlib");
  const parts: Uint8Array[] = [bytes.subarray(0, 8)];
  let isDone = false;
  for (let at = 8; at < bytes.length;) {
    const length = new DataView(bytes.buffer).getUint32(at);
    const type = Buffer.from(bytes.subarray(at + 4, at + 8)).toString();
    let content: Uint8Array = bytes.subarray(at + 8, at + 8 + length);
    if (type === "IDAT" && data !== undefined) content = isDone ? new Uint8Array() : data;
    isDone ||= type === "IDAT";
    const head = Buffer.alloc(4), sum = Buffer.alloc(4);
    head.writeUInt32BE(content.length);
    sum.writeUInt32BE(crc32(Buffer.concat([Buffer.from(type), content])));
    parts.push(head, Buffer.from(type), content, sum);
    at += 12 + length;
  }
  return new Uint8Array(Buffer.concat(parts));
}

test("bombs and damaged files are FormatErrors", async () => {
  const refuse = async (bytes: Uint8Array, text = "") => {
    const error = await assertRejects(() => images.decodeImage(bytes, { file: "x" }), FormatError);
    assertStringIncludes((error as Error).message, text);
  };
  await refuse(new Uint8Array(0), "but an empty file");
  await refuse(new Uint8Array([1, 2, 3]), "neither a PNG nor a JPEG");
  await refuse(new TextEncoder().encode("GIF89a and more"), "but a GIF picture");
  const zipped = new Uint8Array(deflateSync(new Uint8Array(2 ** 24)));
  await refuse(bomb(2 ** 31 - 1, 2 ** 31 - 1, zipped), "more than maxPixels");
  await refuse(bomb(9999, 9999, zipped), "less than its pixels");
  await refuse(bomb(0, 4, zipped), "header");
  await refuse(bomb(1, 1, new Uint8Array(deflateSync(new Uint8Array([9, 0, 0, 0])))), "damaged");
  const big = new Uint8Array(fileOf("jpeg baseline"));
  const at = big.findIndex((byte, i) => byte === 0xff && big[i + 1] === 0xc0);
  big.fill(255, at + 5, at + 9);
  await refuse(big, "65535 × 65535 pixels");
  const dimensionless = new Uint8Array(fileOf("jpeg baseline"));
  dimensionless[at + 11] = 0;
  await refuse(dimensionless, "header");
});

test("truncated at every byte: an error, or all pixels where only the end of a PNG lacks", async () => {
  for (const name of ["rgba16i 7x11", "palette2t 7x11", "jpeg progressive", "jpeg grey"]) {
    const bytes = fileOf(name);
    const whole = loose(await images.decodeImage(bytes)).toArray();
    // IEND has 12 bytes, and IDAT before it two checksums: of its chunk, and behind the data.
    const enough = name.startsWith("jpeg") ? bytes.length : bytes.length - 12 - 8;
    for (let end = 0; end < bytes.length; end++) {
      const read = () => images.decodeImage(bytes.subarray(0, end));
      if (end < enough - 1) await assertRejects(read, FormatError);
      else if (end >= enough) assertEquals(loose(await read()).toArray(), whole, `${name} ${end}`);
    }
    if (!name.startsWith("jpeg")) continue;
    const longer = new Uint8Array([...bytes, 0xff, 0xd8, 0xff, 1, 2, 3]);
    assertEquals(loose(await images.decodeImage(longer)).toArray(), whole);
  }
});

/** The PNG with a chunk before its data, or behind them. */
function withChunk(bytes: Uint8Array, type: string, content: Uint8Array, isBehind = false) {
  const at = Buffer.from(bytes).indexOf(isBehind ? "IEND" : "IDAT") - 4;
  const head = Buffer.alloc(4);
  head.writeUInt32BE(content.length);
  const chunk = [head, Buffer.from(type), content, new Uint8Array(4)];
  const all = [bytes.subarray(0, at), ...chunk, bytes.subarray(at)];
  return rebuilt(new Uint8Array(Buffer.concat(all)));
}

test("colors of a PNG that do not fit are those of libpng", async () => {
  const read = async (bytes: Uint8Array): Promise<[readonly number[], unknown]> => {
    const x = loose(await images.decodeImage(bytes));
    return [x.shape, x.toArray()];
  };
  const same = async (name: string, type: string, sizes: number[], isBehind = false) => {
    const whole = await read(fileOf(name));
    for (const size of sizes) {
      const bytes = withChunk(fileOf(name), type, new Uint8Array(size), isBehind);
      assertEquals(await read(bytes), whole, `${name} with ${size} bytes of ${type}`);
    }
  };
  // Transparent colors of another size, beside alpha, and behind the data.
  await same("grey8 7x11", "tRNS", [0, 1, 3, 6]);
  await same("rgb8 7x11", "tRNS", [0, 2, 5, 256]);
  await same("palette8 7x11", "tRNS", [0, 257]);
  await same("rgba16 7x11", "tRNS", [0, 2, 6, 8]);
  for (const name of ["grey8 7x11", "palette8 7x11"]) await same(name, "tRNS", [2], true);
  await same("palette8 7x11", "PLTE", [3], true);
  // Bits above those of a sample.
  const grey = new Uint8Array(bomb(1, 1, new Uint8Array(deflateSync(new Uint8Array([0, 5])))));
  grey[25] = 0;
  const high = withChunk(grey, "tRNS", Uint8Array.of(1, 5));
  assertEquals(await read(high), [[1, 1, 2], [[[5, 0]]]]);

  // Colors that the palette lacks are black.
  const bytes = fileOf("palette8 7x11");
  const start = Buffer.from(bytes).indexOf("PLTE") - 4;
  assertEquals(new DataView(bytes.buffer, bytes.byteOffset).getUint32(start), 768);
  const short = Buffer.concat([
    bytes.subarray(0, start),
    new Uint8Array([0, 0, 0, 3]),
    bytes.subarray(start + 4, start + 11),
    new Uint8Array(4),
    bytes.subarray(start + 12 + 768),
  ]);
  const one = [...bytes.subarray(start + 8, start + 11)];
  const pixels = (await images.decodeImage(rebuilt(new Uint8Array(short)))).toArray();
  const seen = new Set((pixels as number[][][]).flat().map(String));
  assertEquals([...seen].every((color) => color === "0,0,0" || color === String(one)), true);
  assertEquals(seen.has("0,0,0"), true);
});

test("PNG data beyond the rows are skipped, and never inflated", async () => {
  const zipped = new Uint8Array(deflateSync(new Uint8Array(2 ** 24)));
  const zeros = loose(await images.decodeImage(bomb(4, 4, zipped)));
  assertEquals([zeros.shape, zeros.max().item()], [[4, 4, 3], 0]);
  for (const name of ["grey4i 7x11", "palette8 7x11", "rgba16 7x11"]) {
    const bytes = fileOf(name);
    const whole = loose(await images.decodeImage(bytes)).toArray();
    const { inflateSync } = process.getBuiltinModule("node:zlib");
    const rows = inflateSync(dataOf(bytes));
    for (const extra of [1, 100, 100_000]) {
      const more = deflateSync(Buffer.concat([rows, new Uint8Array(extra).fill(7)]));
      const read = loose(await images.decodeImage(rebuilt(bytes, new Uint8Array(more))));
      assertEquals(read.toArray(), whole, `${name} ${extra}`);
    }
    // Bytes behind the stream, and a wrong checksum of it.
    const stream = deflateSync(rows);
    const after = new Uint8Array([...stream, 1, 2, 3]);
    assertEquals(loose(await images.decodeImage(rebuilt(bytes, after))).toArray(), whole);
    after[stream.length - 1]! ^= 1;
    assertEquals(loose(await images.decodeImage(rebuilt(bytes, after))).toArray(), whole);
  }
});

/** The compressed data of a PNG. */
function dataOf(bytes: Uint8Array<ArrayBuffer>): Uint8Array {
  const parts: Uint8Array[] = [];
  for (let at = 8; at < bytes.length;) {
    const length = new DataView(bytes.buffer).getUint32(at);
    const type = Buffer.from(bytes.subarray(at + 4, at + 8)).toString();
    if (type === "IDAT") parts.push(bytes.subarray(at + 8, at + 8 + length));
    at += 12 + length;
  }
  return Buffer.concat(parts);
}

test("a JPEG has the data that its size needs", async () => {
  const refuse = (bytes: Uint8Array, text: string) =>
    assertRejects(() => images.decodeImage(bytes), FormatError, text);
  // 37 bytes: a header of 9999 × 9999 pixels, a scan without data.
  const tiny = [
    ...[0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0x27, 0x0f, 0x27, 0x0f, 1, 1, 0x11, 0],
    ...[0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 1, 2, 3, 0xff, 0xd9],
  ];
  await refuse(Uint8Array.from(tiny), "9999 × 9999 pixels, but 3 bytes of data");
  tiny[3] = 0xc2;
  tiny[23] = 0;
  await refuse(Uint8Array.from(tiny), "9999 × 9999 pixels, but 3 bytes of data");
  for (const name of ["baseline", "progressive", "grey", "grey progressive", "cmyk"]) {
    const bytes = fileOf(`jpeg ${name}`);
    const at = bytes.findIndex((one, i) => one === 0xff && (bytes[i + 1]! & 0xfd) === 0xc0);
    const sized = (height: number, width: number): Uint8Array => {
      const copy = bytes.slice();
      new DataView(copy.buffer).setUint16(at + 5, height);
      new DataView(copy.buffer).setUint16(at + 7, width);
      return copy;
    };
    await refuse(sized(9999, 9999), "fewer than they need");
    await refuse(sized(65535, 1500), "fewer than they need");
    // A second header would count after the first one is checked.
    const twice = [...bytes.subarray(0, 2), ...bytes.subarray(at, at + 4 + bytes[at + 3]! - 2)];
    await refuse(Uint8Array.from([...twice, ...bytes.subarray(2)]), "two headers");
    // Data in segments are no pixels.
    const filled = Array.from(
      { length: 8 },
      () => [0xff, 0xfe, 0xff, 0xff, ...new Uint8Array(65533)],
    );
    await refuse(
      Uint8Array.from([
        ...bytes.subarray(0, 2),
        ...filled.flat(),
        ...sized(9999, 9999).subarray(2),
      ]),
      "fewer than they need",
    );
  }
  const progressive = fileOf("jpeg grey progressive");
  const scan = progressive.findIndex((one, i) => one === 0xff && progressive[i + 1] === 0xda);
  const scans = [...progressive.subarray(scan, -2)];
  const many = Array.from({ length: 60 }, () => scans).flat();
  const start = progressive.subarray(0, scan);
  await refuse(Uint8Array.from([...start, ...many, 0xff, 0xd9]), "more than 100 scans");
});

test("a JPEG without its end, or whose end is that of a thumbnail, is truncated", async () => {
  const bytes = fileOf("jpeg a thumbnail");
  await assertRejects(() => images.decodeImage(bytes.subarray(0, -2)), FormatError, "truncated");
  const third = Math.floor(bytes.length * 2 / 3);
  await assertRejects(() => images.decodeImage(bytes.subarray(0, third)), FormatError, "truncated");
});

test("randomly changed files are read, or are FormatErrors", async () => {
  let state = 1;
  const random = (n: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor(state / 2 ** 32 * n);
  };
  const names = [
    "grey4i 7x11",
    "palette4t 7x11",
    "rgba8i 7x11",
    "jpeg restarts",
    "jpeg progressive",
  ];
  let failed = 0;
  for (let round = 0; round < 400; round++) {
    const name = names[round % names.length]!;
    let bytes = fileOf(name);
    for (let k = random(4); k >= 0; k--) bytes[random(bytes.length)] = random(256);
    // Right checksums let changes reach what comes after them.
    try {
      if (!name.startsWith("jpeg")) bytes = new Uint8Array(rebuilt(bytes));
    } catch {
      // A chunk of another length.
    }
    try {
      await images.decodeImage(bytes, { maxPixels: 1e5 });
    } catch (error) {
      assert(error instanceof FormatError, `${name}: ${error}`);
      failed++;
    }
  }
  assert(failed > 100 && failed < 400, `${failed}`);
});

test("without the packages, errors tell how to install them", () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "rowmajor-images-")));
  try {
    cpSync(join(root, "src"), join(folder, "src"), { recursive: true });
    cpSync(join(root, "mod.ts"), join(folder, "mod.ts"));
    const path = join(folder, "main.ts");
    writeFileSync(
      path,
      'import { PackageError, zeros } from "./mod.ts";\n' +
        'import { decodeImage, encodeJpeg, encodePng } from "./src/images/mod.ts";\n' +
        'const x = zeros([2, 2], { dtype: "uint8" });\n' +
        "for (const made of [decodeImage(encodePng(x)), encodeJpeg(x)]) {\n" +
        "  await made.catch((error) =>\n" +
        "    console.log(error instanceof PackageError, error.package, error.message)\n" +
        "  );\n}\n",
    );
    const args = "Deno" in globalThis
      ? ["run", "-A", "--quiet", "--no-check", "--no-config", "--cached-only", path]
      : ["--no-install", path];
    const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: folder, encoding: "utf8" });
    for (const name of ["fast-png", "jpeg-js"]) {
      assertStringIncludes(stdout, `true ${name} Cannot `, stderr);
      assertStringIncludes(stdout, `npm install ${name}`, stderr);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
