/**
 * Mapped files as tensors: what they contain, that nothing writes them, and what becomes of files
 * that change. Every test runs with files that are mapped and with files that are read.
 *
 * @module
 */
import { assert, assertEquals, assertFalse, assertRejects, assertThrows } from "@std/assert";
import {
  closeSync,
  ftruncateSync,
  mkdtempSync,
  openSync,
  readFileSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { deepStrictEqual, notDeepStrictEqual } from "node:assert";
import { after, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import {
  type AnyTensor,
  arange,
  FormatError,
  info,
  io,
  ones,
  ReadOnlyError,
  scope,
  sharesBuffer,
  tensor,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { MIRROR } from "../device/mirror.ts";
import { using } from "../ops/table/backends.ts";
import { loose } from "../support.ts";
import { found, removeFolder } from "../native/support.ts";
import { golden, goldenFile } from "./golden.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-mmap-"));
after(() => removeFolder(folder));

let files = 0;

/** A new file of these bytes. */
function put(bytes: Uint8Array): string {
  const path = join(folder, `file${files++}`);
  writeFileSync(path, bytes);
  return path;
}

const onWindows = process.platform === "win32" && "Windows keeps mapped files from changes";

describe("files can be mapped with the library, and only with it", () => {
  it("as info says", async () => {
    assertEquals(info().files.startsWith("read: "), !found);
    if (found) assertEquals(info().files, "mapped");
    const path = put(io.encodeSafetensors({ x: arange(3) }));
    assertEquals((await io.mapSafetensors(path)).backing, info().files);
    const { backing } = await io.mapSafetensors(path, { mmap: false });
    assertEquals(backing, "read: { mmap: false }");
  });
});

for (const mmap of found ? [true, false] : [false]) {
  const how = mmap ? "mapped" : "read";
  const options = { mmap };

  describe(`files that are ${how}: contents`, () => {
    for (const { name, bytes } of golden(".npy")) {
      it(`${name} is what decodeNpy gives`, async () => {
        const path = put(bytes);
        let expected: AnyTensor;
        try {
          expected = io.decodeNpy(bytes, { file: path });
        } catch (error) {
          const { message, offset } = error as FormatError;
          const own = await assertRejects(() => io.mapNpy(path, options), FormatError);
          assertEquals([own.message, own.offset], [message, offset]);
          return;
        }
        const x = await io.mapNpy(path, options);
        assertEquals([x.dtype, x.shape, x.access], [expected.dtype, expected.shape, "read"]);
        assertEquals(io.encodeNpy(x), io.encodeNpy(expected));
      });
    }

    for (const { name, bytes } of golden(".safetensors")) {
      it(`${name} is what decodeSafetensors gives`, async () => {
        const path = put(bytes);
        const expected = io.decodeSafetensors(bytes, { file: path });
        const file = await io.mapSafetensors(path, options);
        assertEquals([file.names, file.metadata], [expected.names, expected.metadata]);
        for (const key of [...file.names, "none", "constructor"]) {
          let x: AnyTensor;
          try {
            x = expected.get(key);
          } catch (error) {
            assertThrows(() => file.get(key), FormatError, (error as Error).message);
            continue;
          }
          const y = file.get(key);
          assertEquals([y.dtype, y.shape, y.access], [x.dtype, x.shape, "read"]);
          const same = [io.encodeSafetensors({ x }), io.encodeSafetensors({ x: y })];
          assertEquals(same[0], same[1], key);
        }
      });
    }

    it("tensors at any offset, of any dtype", async () => {
      // 26 characters of the header, and as many blanks.
      for (let blanks = 0; blanks < 9; blanks++) {
        const entry = '"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},' +
          '"b":{"dtype":"I16","shape":[3],"data_offsets":[16,22]},' +
          '"c":{"dtype":"BF16","shape":[],"data_offsets":[22,24]}';
        const header = new TextEncoder().encode(`{${entry}${" ".repeat(blanks)}}`);
        const bytes = new Uint8Array(8 + header.length + 24);
        bytes[0] = header.length;
        bytes.set(header, 8);
        const data = new Uint8Array(new Float64Array([1.5, -2]).buffer);
        bytes.set(data, 8 + header.length);
        bytes.set(new Uint8Array(new Int16Array([1, -1, 300]).buffer), 24 + header.length);
        bytes.set([0x80, 0x3f], 30 + header.length);
        const file = await io.mapSafetensors(put(bytes), options);
        assertEquals(file.get("a").toArray(), [1.5, -2]);
        assertEquals(file.get("b").add(1).toArray(), [2, 0, 301]);
        assertEquals(file.get("c").item(), 1);
      }
    });

    it("bfloat16 in npy, and URLs", async () => {
      const { bytes } = goldenFile("bfloat16.npy");
      const url = pathToFileURL(put(bytes));
      const x = await io.mapNpy(url, { ...options, bfloat16: true });
      assert(x.equals(io.decodeNpy(bytes, { bfloat16: true })));
      await assertRejects(
        () => io.mapNpy(url, { ...options, file: "x.npy" }),
        FormatError,
        "x.npy",
      );
    });

    it("damaged and missing files are the errors of other readers", async () => {
      const { bytes } = goldenFile("all.safetensors");
      for (const length of [0, 7, 8, 100, bytes.length - 1]) {
        const path = put(bytes.subarray(0, length));
        const error = await assertRejects(() => io.mapSafetensors(path, options), FormatError);
        const other = await assertRejects(() => io.openSafetensors(path), FormatError);
        assertEquals([error.message, error.file], [other.message, path]);
        await assertRejects(() => io.mapNpy(path, options), FormatError);
      }
      const none = join(folder, "none");
      await assertRejects(() => io.mapSafetensors(none, options), Error, "ENOENT");
      await assertRejects(() => io.mapNpy(none, options), Error, "ENOENT");
      await assertRejects(() => io.mapNpy(folder, options), FormatError, "not a file");
    });

    it("wrong options are refused", async () => {
      const path = put(io.encodeSafetensors({}));
      const wrong = loose({ map: true });
      await assertRejects(() => io.mapSafetensors(path, wrong), TypeError, "Cannot mapSafetensors");
      await assertRejects(() => io.mapNpy(path, loose({ mmap: 1 })), TypeError, "with mmap 1");
    });
  });

  describe(`files that are ${how}: tensors`, () => {
    const path = put(io.encodeSafetensors({ x: arange(12).reshape([3, 4]), b: ones([4]) }));

    it("are read-only, and so are their views", async () => {
      const x = (await io.mapSafetensors(path, options)).get("x").asShape([3, 4]);
      assertEquals([x.access, x.T.access, x.ownership], ["read", "read", "view"]);
      for (const y of [x, x.view(), x.slice(0), x.contiguous(), x.reshape([12]), x.T]) {
        const open = loose(y);
        assertThrows(() => open.add_(1), ReadOnlyError);
        assertThrows(() => open.set([0], 1), ReadOnlyError);
        if (y.isContiguous) assertThrows(() => open.data, ReadOnlyError);
        assertThrows(() => x.add(1, { out: open }), Error);
      }
      assertEquals(x.toArray(), arange(12).reshape([3, 4]).toArray());
    });

    it("of one name share memory, and are equal to others with the same elements only", async () => {
      const file = await io.mapSafetensors(path, options);
      const [x, same, b] = [file.get("x"), file.get("x"), file.get("b")];
      assert(sharesBuffer(x, same));
      assertFalse(sharesBuffer(x, b));
      deepStrictEqual(x, arange(12).reshape([3, 4]));
      notDeepStrictEqual(x, ones([3, 4]));
      notDeepStrictEqual(x.slice(0), b.view());
    });

    it("are copied before anything of them is moved or written", async () => {
      const file = await io.mapSafetensors(path, options);
      const expected = arange(12).reshape([3, 4]);
      const uses: ((x: AnyTensor) => unknown)[] = [
        (x) => x.intoOwned().add_(1),
        (x) => x.intoOwnedKeepLayout().add_(1),
        (x) => x.intoShared().add_(1),
        (x) => x.toOwned().add_(1),
        (x) => x.intoTypedArray().fill(7 as never),
        (x) => x.intoRaw().fill(7 as never),
        (x) => x.toTypedArray().fill(7 as never),
        (x) => x.intoCow().add_(1),
        (x) => {
          // The last handle.
          const copy = x.intoCow();
          x.dispose();
          copy.add_(1);
          assertEquals(copy.toArray(), expected.add(1).toArray());
          copy.dispose();
        },
        (x) => x.dispose(),
      ];
      for (const use of uses) {
        use(file.get("x") as unknown as AnyTensor);
        assert(file.get("x").equals(expected), String(use));
      }
      // Memory that is freed is reused by none of them.
      scope(() => void file.get("x").add(1));
      assert(ones([3, 4]).equals(ones([3, 4])) && file.get("x").equals(expected));
    });

    it("go to devices, through programs, and to asynchronous ones", async () => {
      const file = await io.mapSafetensors(path, options);
      const [x, b] = [file.get("x").asShape([3, 4]), file.get("b").asShape([4])];
      const expected = arange(12).reshape([3, 4]).add(1).toArray();
      using(MIRROR, () => {
        const y = x.to(MIRROR).add(b.to(MIRROR));
        assertEquals([y.device, y.toArray()], [MIRROR, expected]);
      });
      const fixed = await io.mapSafetensors(path, options);
      const f = compile((v: AnyTensor) => v.add(b).mul(fixed.get("b")));
      for (let i = 0; i < 3; i++) assertEquals(f(loose(x)).toArray(), expected);
      assertEquals((await f.async(loose(x))).toArray(), expected);
      const writes = compile(() => loose(fixed.get("b")).add_(1));
      assertThrows(() => writes(), ReadOnlyError);
      assertEquals(fixed.get("b").toArray(), [1, 1, 1, 1]);
    });

    it("cannot be posted, as no tensor can: a worker maps the file itself", async () => {
      const x = (await io.mapSafetensors(path, options)).get("x");
      const error = assertThrows(() => structuredClone(x)) as Error;
      assertEquals(error.name, "DataCloneError");
      assertEquals([...structuredClone(x.toTypedArray()) as Float32Array], [...Array(12).keys()]);
    });
  });

  describe(`files that are ${how}: changes of the file`, () => {
    const make = (k: number): { readonly x: AnyTensor; readonly y: AnyTensor } => ({
      x: arange(50_000).mul(k),
      y: arange(3).mul(k),
    });

    it(
      "a file that takes its place, or is removed, changes nothing",
      { skip: onWindows },
      async () => {
        const path = put(io.encodeSafetensors(make(1)));
        const npy = put(io.encodeNpy(make(1).x));
        const [file, x] = [await io.mapSafetensors(path, options), await io.mapNpy(npy, options)];
        const early = file.get("x");
        await io.writeSafetensors(path, make(2));
        await io.writeNpy(npy, tensor([1]));
        assert(early.equals(make(1).x) && file.get("y").equals(make(1).y) && x.equals(make(1).x));
        const next = await io.mapSafetensors(path, options);
        assert(next.get("x").equals(make(2).x));
        unlinkSync(path);
        unlinkSync(npy);
        assert(next.get("y").equals(make(2).y) && file.get("x").equals(make(1).x));
      },
    );

    it("a file that becomes shorter is a FormatError until the first use", {
      skip: onWindows,
    }, async () => {
      const bytes = io.encodeSafetensors(make(1));
      const path = put(bytes);
      const file = await io.mapSafetensors(path, options);
      const other = await io.mapSafetensors(path, options);
      const [used, unused] = [file.get("x"), other.get("x")];
      assertEquals(used.get(7), 7);
      const npy = put(io.encodeNpy(make(1).x));
      const x = await io.mapNpy(npy, options);
      truncateSync(path, bytes.length - 1);
      truncateSync(npy, 4096);
      const out = ones([50_000]);
      if (!mmap) {
        assert(file.get("y").equals(make(1).y) && x.equals(make(1).x) && unused.equals(make(1).x));
        return;
      }
      for (let i = 0; i < 2; i++) {
        const error = assertThrows(() => file.get("y"), FormatError, "become shorter");
        assertEquals([error.file, error.offset], [path, bytes.length - 1]);
        assertThrows(() => x.add(1, { out }), FormatError, "become shorter");
        assertThrows(() => out.add_(x.asDType("float32")), FormatError, "become shorter");
      }
      assert(out.equals(ones([50_000])));
      // All bytes of this one are there.
      assert(unused.equals(make(1).x));
      truncateSync(path, file.info("x").end - 1);
      assertThrows(() => other.get("x"), FormatError, "become shorter");
    });
  });
}

describe("mapped files", { skip: !found && "needs the native library" }, () => {
  it("larger than the memory of most machines, at offsets that take 64 bits", {
    skip: onWindows,
  }, async () => {
    const length = 2 ** 29;
    const names = Array.from({ length: 10 }, (_, i) => `t${i}`);
    const entries = names.map((name, i) =>
      `"${name}":{"dtype":"F32","shape":[${length}],"data_offsets":[${4 * length * i},${
        4 * length * (i + 1)
      }]}`
    );
    const text = `{${entries.join(",")}}`;
    const header = new TextEncoder().encode(text.padEnd(Math.ceil(text.length / 8) * 8));
    const path = put(new Uint8Array(0));
    const file = openSync(path, "r+");
    const start = new Uint8Array(8);
    new DataView(start.buffer).setUint32(0, header.length, true);
    const begin = 8 + header.length;
    // 20 GiB that take no room on a disk.
    ftruncateSync(file, begin + 40 * length);
    writeSync(file, start, 0, 8, 0);
    writeSync(file, header, 0, header.length, 8);
    names.forEach((_, i) =>
      writeSync(
        file,
        new Uint8Array(Float32Array.of(i).buffer),
        0,
        4,
        begin + 4 * length * (i + 1) - 4,
      )
    );
    closeSync(file);
    const mapped = await io.mapSafetensors(path);
    assertEquals(mapped.backing, "mapped");
    names.forEach((name, i) => {
      const x = mapped.get(name);
      assertEquals([x.get(length - 1), x.get(0), x.slice("-2:").sum().item()], [i, 0, i]);
    });
    unlinkSync(path);
  });

  it("take a write by mistake, which stays in the process", async () => {
    const bytes = io.encodeSafetensors({ x: arange(2000) });
    const path = put(bytes);
    const [one, other] = [await io.mapSafetensors(path), await io.mapSafetensors(path)];
    const leaked = loose(one.get("x")).storage.array as Float32Array;
    leaked.fill(-1, 3);
    assertEquals(one.get("x").slice("2:4").toArray(), [2, -1]);
    assertEquals(new Uint8Array(readFileSync(path)), bytes);
    assert(other.get("x").equals(arange(2000)));
    assert((await io.mapSafetensors(path)).get("x").equals(arange(2000)));
    await io.writeSafetensors(path, { x: one.get("x") });
    assertEquals((await io.mapSafetensors(path)).get("x").get(1999), -1);
  });
});
