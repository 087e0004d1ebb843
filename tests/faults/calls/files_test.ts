/**
 * Faults of readers and writers of files: entries 3, 9, 11, 26 and 31.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after } from "node:test";
import { pathToFileURL } from "node:url";
import vm from "node:vm";
import { crc32, deflateRawSync } from "node:zlib";
import { arange, DTypeError, FormatError, io } from "../../../mod.ts";
import { loose } from "../../support.ts";
import { amount } from "../../support/amount.ts";
import { fault } from "../support.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-faults-"));
after(() => rmSync(folder, { recursive: true }));
const unix = process.platform !== "win32";
const inDeno = "Deno" in globalThis;

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);

function joined(...parts: Uint8Array[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts));
}

/** A number in `width` bytes, little-endian. */
function le(value: number, width: number): Uint8Array {
  return Uint8Array.from({ length: width }, (_, i) => Math.floor(value / 256 ** i) & 255);
}

function npy(header: string, data: Uint8Array): Uint8Array {
  const text = utf8(`${header}\n`);
  return joined(utf8("\x93NUMPY\x01\0").slice(1), le(text.length, 2), text, data);
}

/** The same with `descr` and a shape; the magic byte is no character of UTF-8. */
function array(descr: string, shape: string, data: Uint8Array): Uint8Array {
  const made = npy(`{'descr': ${descr}, 'fortran_order': False, 'shape': ${shape}, }`, data);
  made[0] = 0x93;
  return made;
}

/** A zip archive; with `zip64`, sizes and offsets are in the fields of 64 bits. */
function zip(members: Record<string, Uint8Array>, { zip64 = false, packed = false } = {}) {
  const parts: Uint8Array[] = [];
  const entries: Uint8Array[] = [];
  let at = 0;
  for (const [key, data] of Object.entries(members)) {
    const name = utf8(key);
    const body = packed ? new Uint8Array(deflateRawSync(data)) : data;
    const method = packed ? 8 : 0;
    const none = 0xffffffff;
    const size = (n: number): Uint8Array => le(zip64 ? none : n, 4);
    const head = joined(
      ...[0, method, 0, 33].map((n) => le(n, 2)),
      le(crc32(data), 4),
      size(body.length),
      size(data.length),
      le(name.length, 2),
    );
    const sizes = joined(le(data.length, 8), le(body.length, 8));
    const local = zip64 ? joined(le(1, 2), le(16, 2), sizes) : new Uint8Array();
    const own = zip64 ? joined(le(1, 2), le(24, 2), sizes, le(at, 8)) : new Uint8Array();
    const written = joined(
      le(0x04034b50, 4),
      le(45, 2),
      head,
      le(local.length, 2),
      name,
      local,
      body,
    );
    entries.push(
      joined(
        le(0x02014b50, 4),
        le(45, 2),
        le(45, 2),
        head,
        le(own.length, 2),
        new Uint8Array(10),
        size(at),
        name,
        own,
      ),
    );
    parts.push(written);
    at += written.length;
  }
  const directory = joined(...entries);
  const count = entries.length;
  if (!zip64) {
    const end = [le(0x06054b50, 4), le(0, 4), le(count, 2), le(count, 2), le(directory.length, 4)];
    return joined(...parts, directory, ...end, le(at, 4), le(0, 2));
  }
  const record = at + directory.length;
  return joined(
    ...parts,
    directory,
    ...[le(0x06064b50, 4), le(44, 8), le(45, 2), le(45, 2), le(0, 4), le(0, 4)],
    ...[le(count, 8), le(count, 8), le(directory.length, 8), le(at, 8)],
    ...[le(0x07064b50, 4), le(0, 4), le(record, 8), le(1, 4)],
    ...[le(0x06054b50, 4), le(0, 4), le(0xffff, 2), le(0xffff, 2)],
    ...[le(0xffffffff, 4), le(0xffffffff, 4), le(0, 2)],
  );
}

const member = io.encodeNpy(arange(3));
const doubles = (...values: number[]): Uint8Array =>
  new Uint8Array(new Float64Array(values).buffer);

fault({
  entry: 3,
  kind: "files that nothing closes cost descriptors, and end Bun when they are collected",
  others: ["readers of whole files close in any case"],
}, async () => {
  const path = join(folder, "open.safetensors");
  await io.writeSafetensors(path, { a: arange(2) });
  const errors: unknown[] = [];
  const note = (error: unknown): void => void errors.push(error);
  process.on("uncaughtException", note);
  try {
    const count = amount(2000, 10_000);
    for (let i = 0; i < count; i++) {
      const file = await io.openSafetensors(path);
      if (i % 100 === 0) assertEquals(loose(await file.get("a")).toArray(), [0, 1]);
    }
    const { Bun } = globalThis as { Bun?: { gc(now: boolean): void } };
    for (let i = 0; i < 4; i++) {
      Bun?.gc(true);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  } finally {
    process.off("uncaughtException", note);
  }
  assertEquals(errors, []);
});

fault({
  entry: 3,
  kind: "a file that is replaced between two reads gives bytes of both",
  others: [],
}, async () => {
  const path = join(folder, "replaced.safetensors");
  await io.writeSafetensors(path, { a: arange(2), b: arange(3) });
  const file = await io.openSafetensors(path);
  assertEquals(loose(await file.get("a")).toArray(), [0, 1]);
  await io.writeSafetensors(path, { a: arange(3), b: arange(2) });
  await assertRejects(() => file.get("b"), FormatError, "has changed since it was opened");

  const longer = await io.openSafetensors(path);
  appendFileSync(path, "x");
  await assertRejects(() => longer.get("b"), FormatError, "has changed since it was opened");
});

fault({
  entry: 9,
  kind: "one array that is not read hides the others of an archive",
  others: ["members that the Finder of macOS adds"],
}, () => {
  const members = {
    "format.npy": array("'|S3'", "()", utf8("csc")),
    "o.npy": array("'|O'", "(1,)", new Uint8Array(40)),
    "time.npy": array("'<M8[ns]'", "(1,)", new Uint8Array(8)),
    "__MACOSX/._data.npy": utf8("\0\x05\x16\x07"),
    "data.npy": member,
  };
  for (const packed of [false, true]) {
    const arrays = io.decodeNpz(zip(members, { packed }));
    assertEquals(Object.keys(arrays), ["data"]);
    assertEquals(arrays.data!.toArray(), [0, 1, 2]);
    assertThrows(() => arrays.format, FormatError, "format.npy at byte");
    assert("time" in arrays);
    const chosen = (): unknown => io.decodeNpz(zip(members), { names: ["o", "data"] });
    assertThrows(chosen, FormatError, '"|O" is not a dtype that is read');
  }
});

fault({
  entry: 9,
  kind: "forms of dtypes that NumPy reads are refused",
  others: ["strings with the prefix u of Python 2"],
}, () => {
  const one = (width: number): Uint8Array => le(7, width);
  const cases: [string, Uint8Array, unknown, string][] = [
    ["'<d'", doubles(2.5), 2.5, "float64"],
    ["'d'", doubles(2.5), 2.5, "float64"],
    ["'|f8'", doubles(2.5), 2.5, "float64"],
    ["'=f8'", doubles(2.5), 2.5, "float64"],
    ["'float64'", doubles(2.5), 2.5, "float64"],
    ["u'<f8'", doubles(2.5), 2.5, "float64"],
    ["'>d'", doubles(2.5).toReversed(), 2.5, "float64"],
    ["'<f'", new Uint8Array(new Float32Array([2.5]).buffer), 2.5, "float32"],
    ["'e'", Uint8Array.of(0, 0x41), 2.5, "float16"],
    ["'<q'", one(8), 7, "int64"],
    ["'<Q'", one(8), 7, "uint64"],
    ["'l'", one(8), 7, "int64"],
    ["'i'", one(4), 7, "int32"],
    ["'I'", one(4), 7, "uint32"],
    ["'<h'", one(2), 7, "int16"],
    ["'H'", one(2), 7, "uint16"],
    ["'b'", one(1), 7, "int8"],
    ["'B'", one(1), 7, "uint8"],
    ["'uint8'", one(1), 7, "uint8"],
    ["'?'", le(1, 1), true, "bool"],
    ["'bool'", le(1, 1), true, "bool"],
  ];
  for (const [descr, data, value, dtype] of cases) {
    const x = loose(io.decodeNpy(array(descr, "(1,)", data)));
    assertEquals([x.dtype, Number(x.item())], [dtype, Number(value)], descr);
  }
  const python2 = npy(
    "{u'descr': u'<f8', u'fortran_order': False, u'shape': (1, 2L), }",
    doubles(1, 2),
  );
  python2[0] = 0x93;
  assertEquals(io.decodeNpy(python2).toArray(), [[1, 2]]);
});

fault({
  entry: 9,
  kind: "archives with records of zip64 are refused whatever their size",
  others: ["sizes of members", "their places"],
}, () => {
  for (const packed of [false, true]) {
    const bytes = zip({ "a.npy": member, "b.npy": io.encodeNpy(arange(2)) }, {
      zip64: true,
      packed,
    });
    const arrays = io.decodeNpz(bytes);
    assertEquals(Object.values(arrays).map((x) => x.toArray()), [[0, 1, 2], [0, 1]]);
    for (let end = 0; end < bytes.length; end += 7) {
      assertThrows(() => io.decodeNpz(bytes.subarray(0, end)), FormatError);
    }
  }
});

fault({
  entry: 11,
  kind: "a write that fails leaves half a file in the place of a good one",
  others: ["writeNpy", "writeNpz", "writeSafetensors"],
}, async () => {
  const path = join(folder, "written.npy");
  const url = pathToFileURL(path);
  await io.writeNpy(path, arange(3));
  if (unix) chmodSync(path, 0o666);
  const before = statSync(path);
  await io.writeNpy(url, arange(4));
  assertEquals(loose(await io.readNpy(url)).toArray(), [0, 1, 2, 3]);
  if (unix) {
    assertEquals(statSync(path).mode & 0o777, 0o666);
    assert(statSync(path).ino !== before.ino, "the new file takes the place of the old one");
    const link = join(folder, "link.npy");
    symlinkSync(path, link);
    await io.writeNpy(link, arange(2));
    assert(lstatSync(link).isSymbolicLink());
    assertEquals(loose(await io.readNpy(path)).toArray(), [0, 1]);
  }
  const all = Array.from({ length: 8 }, (_, i) => io.writeNpy(path, arange(1000 * (i + 1))));
  await Promise.all(all);
  assertEquals((await io.readNpy(path)).shape[0]! % 1000, 0);
  await assertRejects(() => io.writeNpy(join(folder, "none", "x.npy"), arange(2)));
  assertEquals(readdirSync(folder).filter((name) => name.endsWith(".new")), []);
});

fault({
  entry: 11,
  kind: "a program that ends while it writes leaves half a file",
  others: [],
  skip: !unix && "needs Unix",
}, async () => {
  const path = join(folder, "killed.npy");
  await io.writeNpy(path, arange(1000));
  const script = join(folder, "writes.ts");
  writeFileSync(
    script,
    `import { full, io } from ${JSON.stringify(new URL("../../../mod.ts", import.meta.url).href)};
    for (let i = 0;; i++) {
      await io.writeNpy(${JSON.stringify(path)}, full([200_000], i));
      if (i === 0) console.log("begins");
    }`,
  );
  const args = inDeno ? ["run", "-A", "--no-check", script] : [script];
  const points = amount(4, 50);
  for (let i = 0; i < points; i++) {
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    await new Promise((resolve) => child.stdout.once("data", resolve));
    await new Promise((resolve) => setTimeout(resolve, 3 + 28 * i / points));
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
    const x = await io.readNpy(path);
    assertEquals(x.shape, [200_000]);
    assert(loose(x).equal(x.slice(0)).all().item());
  }
});

/** A program that runs in a namespace of its own after `mount`, where "$0" is `at`. */
function withMount(mount: string, at: string, command: string, args: readonly string[]) {
  return spawnSync("unshare", ["-rm", "sh", "-c", `${mount} && exec "$@"`, at, command, ...args], {
    encoding: "utf8",
  });
}

/** A program that runs on a file system of 1 MB, mounted at `at`. */
function onSmallDisk(at: string, command: string, args: readonly string[]) {
  return withMount('mount -t tmpfs -o size=1m tmpfs "$0"', at, command, args);
}

const disk = join(folder, "disk");
mkdirSync(disk);
const mounted = onSmallDisk(disk, "true", []);
const noDisk = mounted.status !== 0 &&
  `no small file system can be mounted: ${mounted.error?.message ?? mounted.stderr.trim()}`;

fault({
  entry: 11,
  kind: "a full disk turns a good file into one that is not read",
  others: ["writeNpy", "writeNpz", "writeSafetensors", "a first file", "what is written beside"],
  skip: noDisk,
}, () => {
  const script = join(folder, "fills.ts");
  writeFileSync(
    script,
    `import { readdirSync, writeFileSync } from "node:fs";
    import { full, io } from ${JSON.stringify(new URL("../../../mod.ts", import.meta.url).href)};
    const disk = ${JSON.stringify(disk)};
    const x = full([10_000], 1), large = full([300_000], 2);
    const formats = {
      npy: [io.writeNpy, (x) => x, io.readNpy],
      npz: [io.writeNpz, (x) => ({ x }), async (path) => (await io.readNpz(path)).x],
      safetensors: [io.writeSafetensors, (x) => ({ x }),
        async (path) => (await io.openSafetensors(path)).get("x")],
    };
    const said = {};
    for (const [name, [write, of, read]] of Object.entries(formats)) {
      const path = disk + "/x." + name;
      await write(path, of(x));
      const errors = [];
      for (const to of [path, disk + "/new." + name]) {
        await write(to, of(large)).catch((error) => errors.push(error.code));
      }
      said[name] = [errors, (await read(path)).equals(x)];
    }
    console.log(JSON.stringify([said, readdirSync(disk).sort()]));`,
  );
  const args = inDeno ? ["run", "-A", "--no-check", script] : [script];
  const { status, stdout, stderr } = onSmallDisk(disk, process.execPath, args);
  assertEquals([status, stderr], [0, ""]);
  const each = [["ENOSPC", "ENOSPC"], true];
  assertEquals(JSON.parse(stdout), [
    { npy: each, npz: each, safetensors: each },
    ["x.npy", "x.npz", "x.safetensors"],
  ]);
});

fault({
  entry: 11,
  kind: "a file that no other can replace is not written",
  others: ["a mounted file", "a file in a folder that is mounted read-only"],
  skip: noDisk,
}, async () => {
  const shared = join(folder, "shared");
  mkdirSync(shared);
  const path = join(shared, "x.npy");
  await io.writeNpy(path, arange(3));
  const script = join(folder, "writes-mounted.ts");
  writeFileSync(
    script,
    `import { arange, io } from ${JSON.stringify(new URL("../../../mod.ts", import.meta.url).href)};
    await io.writeNpy(${JSON.stringify(path)}, arange(Number(process.argv[2])));`,
  );
  const args = inDeno ? ["run", "-A", "--no-check", script] : [script];
  const file = 'mount --bind "$0"/x.npy "$0"/x.npy';
  const readOnly = `mount --bind "$0" "$0" && ${file} && mount -o remount,ro,bind "$0"`;
  for (const [mount, size] of [[file, 4], [readOnly, 5]] as const) {
    const outcome = withMount(mount, shared, process.execPath, [...args, String(size)]);
    assertEquals([outcome.status, outcome.stderr], [0, ""]);
    assertEquals(loose(await io.readNpy(path)).toArray(), Array.from(Array(size).keys()));
  }
  assertEquals(readdirSync(shared), ["x.npy"]);
});

fault({
  entry: 11,
  kind: "a file with a long name is not written, since the one beside it has a longer name",
  others: [],
}, async () => {
  const path = join(folder, "x".repeat(251) + ".npy");
  await io.writeNpy(path, arange(2));
  assertEquals(loose(await io.readNpy(path)).toArray(), [0, 1]);
});

fault({
  entry: 26,
  kind: "other files that are taken for safetensors give an error about a long header",
  others: ["git-lfs pointers", "zip archives", "npy files", "GGUF files", "pages of HTML"],
}, () => {
  const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 90868376\n";
  const cases: [Uint8Array, string][] = [
    [utf8(pointer), "git-lfs pointer"],
    [io.encodeNpz({ a: arange(2) }), "an npz archive"],
    [io.encodeNpy(arange(2)), "an npy file"],
    [utf8("GGUF\x03\0\0\0\x01\0\0\0"), "a GGUF file"],
    [utf8("<!DOCTYPE html>"), "an HTML page"],
  ];
  for (const [bytes, what] of cases) {
    const decode = (): unknown => io.decodeSafetensors(bytes);
    assertThrows(decode, FormatError, "not a safetensors file, but");
    assertThrows(decode, FormatError, what);
  }
});

fault({
  entry: 26,
  kind: "a tensor with a key that others added is refused",
  others: [],
}, () => {
  const file = (extra: string): Uint8Array => {
    const header = utf8(`{"a":{"dtype":"F64",${extra},"shape":[1],"data_offsets":[0,8]}}`);
    return joined(le(header.length, 8), header, doubles(1.5));
  };
  for (const value of ['"x"', "1", "-0.5e3", "null", "[1, {}]", '{"b": [true, {"c": "}"}]}']) {
    const read = io.decodeSafetensors(file(`"note": ${value}`)).get("a");
    assertEquals(read.toArray(), [1.5], value);
  }
});

fault({
  entry: 13,
  kind: "bytes of another realm are refused",
  others: ["readers of npy, npz and safetensors"],
}, () => {
  const realm = vm.createContext({});
  const inRealm = (bytes: Uint8Array): Uint8Array => {
    const made = vm.runInContext(`new Uint8Array(${bytes.length})`, realm) as Uint8Array;
    made.set(bytes);
    return made;
  };
  assertEquals(io.decodeNpy(inRealm(member)).toArray(), [0, 1, 2]);
  assertEquals(io.decodeNpz(inRealm(zip({ "a.npy": member }))).a!.toArray(), [0, 1, 2]);
  const tensors = inRealm(io.encodeSafetensors({ a: arange(2) }));
  assertEquals(io.decodeSafetensors(tensors).get("a").toArray(), [0, 1]);
  for (const wrong of [new Float32Array(9), "bytes", [1, 2], null]) {
    assertThrows(() => io.decodeNpy(loose(wrong)), TypeError, "expected a Uint8Array");
    assertThrows(() => io.decodeSafetensors(loose(wrong)), TypeError, "expected a Uint8Array");
  }
});

fault({
  entry: 26,
  kind: "a Map of tensors is written as an empty file",
  others: ["encodeNpz", "writeNpz", "encodeSafetensors", "writeSafetensors"],
}, async () => {
  const map = loose(new Map([["a", arange(2)]]));
  const path = join(folder, "map.npz");
  for (const write of [io.encodeNpz, io.encodeSafetensors]) {
    assertThrows(() => write(map), DTypeError, "tensors by name");
    assertThrows(() => write(loose([arange(2)])), DTypeError, "tensors by name");
  }
  await assertRejects(() => io.writeNpz(path, map), DTypeError, "tensors by name");
  await assertRejects(() => io.writeSafetensors(path, map), DTypeError, "tensors by name");
});

fault({
  entry: 11,
  kind: "a pipe or a device that is written is replaced by a file",
  others: [],
  skip: !unix && "needs Unix",
}, async () => {
  const pipe = join(folder, "written");
  execFileSync("mkfifo", [pipe]);
  const reader = spawn("cat", [pipe], { stdio: ["ignore", "pipe", "inherit"] });
  const chunks: Uint8Array[] = [];
  reader.stdout.on("data", (chunk) => chunks.push(chunk));
  const ended = new Promise((resolve) => reader.once("close", resolve));
  await io.writeNpy(pipe, arange(3));
  await ended;
  assert(statSync(pipe).isFIFO());
  assertEquals(loose(io.decodeNpy(Buffer.concat(chunks))).toArray(), [0, 1, 2]);
});

fault({
  entry: 31,
  kind: "a pipe in the place of a file hangs the reader",
  others: ["folders", "readNpy", "readNpz", "openSafetensors"],
  skip: !unix && "needs Unix",
}, async () => {
  const pipe = join(folder, "pipe");
  execFileSync("mkfifo", [pipe]);
  for (const path of [pipe, folder, "/dev/null"]) {
    for (const read of [io.readNpy, io.readNpz, io.openSafetensors]) {
      await assertRejects(() => read(path) as Promise<unknown>, FormatError, "not a file");
    }
  }
  const path = join(folder, "moved.npy");
  await io.writeNpy(path, arange(2));
  renameSync(path, `${path}.away`);
  assertEquals(readFileSync(`${path}.away`).length > 0, true);
  await assertRejects(() => io.readNpy(path), Error, "no such file");
});

fault({
  entry: 31,
  kind: "a header of many tensors keeps everything else waiting while it is parsed",
  others: ["tensors that are not in the order of their data"],
}, async () => {
  const count = 100_000;
  for (const reversed of [false, true]) {
    const parts = Array.from({ length: count }, (_, k) => {
      const i = reversed ? count - 1 - k : k;
      return `"layer.${i}":{"dtype":"U8","shape":[1],"data_offsets":[${i},${i + 1}]}`;
    });
    const header = utf8(`{${parts.join(",")}}`);
    const path = join(folder, "many.safetensors");
    writeFileSync(path, joined(le(header.length, 8), header, new Uint8Array(count).fill(7)));
    let turns = 0;
    const timer = setInterval(() => turns++, 0);
    const file = await io.openSafetensors(path);
    clearInterval(timer);
    assert(turns >= 10, `${turns} turns while the file was opened`);
    assertEquals(file.names.length, count);
    assertEquals(file.info("layer.99999").shape, [1]);
    assertEquals((await file.get("layer.31")).toArray(), [7]);
    await file[Symbol.asyncDispose]();
  }
});
