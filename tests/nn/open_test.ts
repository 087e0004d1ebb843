/**
 * Files and folders with weights: every format, shards, what a folder has instead, files that change;
 * and where models are found.
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
import {
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import {
  arange,
  ArgumentError,
  DeviceError,
  DTypeError,
  FormatError,
  io,
  ones,
  tensor,
} from "../../mod.ts";
import { cacheFolder } from "../../src/io/find_model.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, loose } from "../support.ts";
import { inDeno, moduleAt, runApart } from "../native/support.ts";

const TENSORS = {
  "a.weight": tensor([[1, 2, 3], [4, 5, 6]]),
  "a.bias": tensor([1, -1]),
  half: arange(5, { dtype: "float16" }),
  mask: tensor([true, false]),
  wide: tensor([2n ** 60n]),
  none: ones([0, 3]),
};

/** Runs `body` with a new folder. */
async function inFolder(body: (folder: string) => Promise<void>): Promise<void> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "rowmajor-open-")));
  try {
    await body(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** All tensors of a source, as text. */
async function contents(source: Any): Promise<Record<string, string>> {
  using w = await nn.open(source);
  const made = w.names().map((name) => [name, String(w.tensor(name))]);
  w.done();
  return Object.fromEntries(made);
}

const EXPECTED = Object.fromEntries(
  Object.entries(TENSORS).map(([name, x]) => [name, String(x)]),
);

function sorted(record: Record<string, string>): [string, string][] {
  return Object.entries(record).sort(([a], [b]) => a < b ? -1 : 1);
}

async function assertSame(source: Any): Promise<void> {
  assertEquals(sorted(await contents(source)), sorted(EXPECTED));
}

test("files, URLs and bytes of safetensors and npz", () =>
  inFolder(async (folder) => {
    const file = join(folder, "w.safetensors"), npz = join(folder, "w.NPZ");
    await io.writeSafetensors(file, TENSORS);
    await io.writeNpz(npz, TENSORS);
    for (const path of [file, npz]) {
      await assertSame(path);
      await assertSame(pathToFileURL(path));
      await assertSame(pathToFileURL(path).href);
    }
    await assertSame(io.encodeSafetensors(TENSORS));
    await assertSame(io.encodeNpz(TENSORS, { compress: true }));
    const zeros = { x: ones([4000]) };
    const small = io.encodeNpz(zeros, { compress: true });
    await assertRejects(() => nn.open(small, { maxBytes: 100 }), FormatError, "maxBytes");
  }));

const INDEX = "model.safetensors.index.json";

async function writeShards(folder: string, index?: unknown): Promise<void> {
  const { half, mask, ...rest } = TENSORS;
  await io.writeSafetensors(join(folder, "m-1.safetensors"), rest);
  await io.writeSafetensors(join(folder, "m-2.safetensors"), { half, mask });
  const names = Object.keys(TENSORS).map((name) => [
    name,
    name === "half" || name === "mask" ? "m-2.safetensors" : "m-1.safetensors",
  ]);
  const map = { metadata: { total_size: 1 }, weight_map: Object.fromEntries(names) };
  writeFileSync(join(folder, INDEX), JSON.stringify(index ?? map));
}

test("folders with one file, or with several and an index", () =>
  inFolder(async (folder) => {
    const places: [string, (path: string) => Promise<void>][] = [
      ["usual", (path) => io.writeSafetensors(join(path, "model.safetensors"), TENSORS)],
      ["one", (path) => io.writeSafetensors(join(path, "weights-3.safetensors"), TENSORS)],
      ["npz", (path) => io.writeNpz(join(path, "weights.npz"), TENSORS)],
      ["shards", writeShards],
    ];
    for (const [name, write] of places) {
      const path = join(folder, name);
      mkdirSync(path);
      await write(path);
      writeFileSync(join(path, "config.json"), "{}");
      await assertSame(path);
      await assertSame(pathToFileURL(path));
    }
    await assertSame(join(folder, "shards", INDEX));
    // The usual name is preferred.
    await io.writeSafetensors(join(folder, "usual", "other.safetensors"), {});
    await assertSame(join(folder, "usual"));
  }));

test("folders without weights say what they have", () =>
  inFolder(async (folder) => {
    const says = async (...parts: string[]): Promise<void> => {
      const error = await assertRejects(() => nn.open(folder), FormatError) as FormatError;
      assertEquals(error.file, folder);
      for (const part of parts) assertStringIncludes(error.message, part);
    };
    await says("none of model.safetensors", "it is empty");
    writeFileSync(join(folder, "pytorch_model.bin"), "");
    writeFileSync(join(folder, "net.onnx"), "");
    await says('it has "net.onnx", "pytorch_model.bin"', "PyTorch checkpoint: in Python", "ONNX");
    await io.writeSafetensors(join(folder, "a.safetensors"), {});
    await io.writeSafetensors(join(folder, "b.safetensors"), {});
    await says('several files have weights, open one: "a.safetensors", "b.safetensors"');
    await assertRejects(() => nn.open(join(folder, "none")), Error, "ENOENT");
  }));

test("damaged files and indexes are refused", () =>
  inFolder(async (folder) => {
    const refused = async (index: unknown, ...parts: string[]): Promise<void> => {
      await writeShards(folder, index);
      const error = await assertRejects(() => nn.open(folder), FormatError);
      assertStringIncludes(error.message, INDEX);
      for (const part of parts) assertStringIncludes(error.message, part);
    };
    await refused({}, "weight_map");
    await refused([], "weight_map");
    await refused({ weight_map: ["a"] }, "weight_map");
    await refused({ weight_map: { x: 1 } }, '"x"', "not the name of a file");
    for (const path of ["../m-1.safetensors", "a/b", "a\\b", "..", "", "m\0"]) {
      await refused({ weight_map: { x: path } }, '"x"', "not the name of a file");
    }
    await refused({ weight_map: { x: "m-1.safetensors" } }, 'tensor "x" is not in "m-1');
    writeFileSync(join(folder, INDEX), "{");
    await assertRejects(() => nn.open(folder), FormatError, "not JSON");
    writeFileSync(join(folder, INDEX), JSON.stringify({ weight_map: { x: "m-3.safetensors" } }));
    await assertRejects(() => nn.open(folder), Error, "ENOENT");
    await assertRejects(() => nn.open(new Uint8Array(3)), FormatError, "truncated");
    await assertRejects(() => nn.open(io.encodeNpz({})), FormatError, "npz archive without arrays");
    await assertRejects(() => nn.open(loose(new Float32Array(3))), TypeError, "Uint8Array");
    const wrong = join(folder, "x.safetensors");
    writeFileSync(wrong, "<html>" + " ".repeat(100));
    await assertRejects(() => nn.open(wrong), FormatError, "an HTML page");
  }));

test("tensors that are not read are faults only of those who ask for them", async () => {
  const bytes = io.encodeSafetensors({ x: ones([2], { dtype: "int8" }), y: ones([2]) });
  const text = new TextDecoder().decode(bytes).replace('"I8"', '"F8_E4M3"');
  // The header becomes longer by 5 bytes, of which it pads with up to 8.
  const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
  const header = text.slice(8, text.indexOf("]}}") + 3).padEnd(length + 8);
  const longer = new Uint8Array(8 + header.length + bytes.length - 8 - length);
  new DataView(longer.buffer).setBigUint64(0, BigInt(header.length), true);
  longer.set(new TextEncoder().encode(header), 8);
  longer.set(bytes.subarray(8 + length), 8 + header.length);
  using w = await nn.open(longer);
  assertEquals(w.info("x")!.dtype, undefined);
  w.tensor("y");
  w.done({ ignore: ["x"] });
  const v = await nn.open(longer);
  const x: Any = v.tensor("x");
  assertThrows(() => x.neg(), FormatError, "x is not read: F8_E4M3");
  assertThrows(() => v.done({ ignore: ["y"] }), FormatError, "other dtype  x is not read: F8_E4M3");
  // A member of an archive that is no array of numbers.
  const archive = io.encodeNpz({ s: ones([2], { dtype: "int8" }), y: ones([2]) });
  const at = new TextDecoder("latin1").decode(archive).indexOf("|i1");
  archive.set(new TextEncoder().encode("|O8"), at);
  await assertRejects(() => nn.open(archive), FormatError, "checksum");
});

test("a bool that is no bool is refused when it is read", async () => {
  const bytes = io.encodeSafetensors({ mask: tensor([true, false]) });
  bytes[bytes.length - 1] = 2;
  using w = await nn.open(bytes);
  assertThrows(() => w.tensor("mask"), FormatError, "bool byte is 2");
});

test("a file that changes is a FormatError, and no file stays open", () =>
  inFolder(async (folder) => {
    const file = join(folder, "w.safetensors");
    await io.writeSafetensors(file, TENSORS);
    using w = await nn.open(file);
    const a = w.linear("a", 2, 3);
    assertEquals(String(a.bias), String(TENSORS["a.bias"]));
    const late = w.embedding("a", 2, 3);
    utimesSync(file, new Date(1), new Date(1));
    assertThrows(() => w.tensor("half"), FormatError, "the file has changed");
    assertThrows(() => w.done({ ignore: ["*"] }), FormatError, "the file has changed");
    assertThrows(() => late(tensor([0], { dtype: "int32" })), Error, "disposed");
  }));

test("options are checked before a file is read", async () => {
  await assertRejects(() => nn.open("none", loose({ typ: 1 })), TypeError, "typ");
  await assertRejects(() => nn.open("none", { dtype: "int8" }), DTypeError, "float");
  await assertRejects(() => nn.open("none", { device: loose("tpu") }), DeviceError, "tpu");
  await assertRejects(() => nn.open("none", { prefix: loose(1) }), TypeError, "name");
});

// ---- models -------------------------------------------------------------------------------------

const VARIABLES = [
  "HF_HUB_CACHE",
  "HUGGINGFACE_HUB_CACHE",
  "HF_HOME",
  "XDG_CACHE_HOME",
  "HOME",
  "USERPROFILE",
];

/** Runs `body` with these variables and no other that tells where the cache is. */
async function withVariables(
  set: Readonly<Record<string, string>>,
  body: () => Promise<void>,
): Promise<void> {
  const before = VARIABLES.map((name) => [name, process.env[name]] as const);
  for (const name of VARIABLES) delete process.env[name];
  Object.assign(process.env, set);
  try {
    await body();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

/** A cache with the model org/m in two revisions. */
async function writeCache(cache: string): Promise<string[]> {
  const model = join(cache, "models--org--m");
  const commits = ["a".repeat(40), "b".repeat(40)];
  mkdirSync(join(model, "blobs"), { recursive: true });
  await io.writeSafetensors(join(model, "blobs", "x"), TENSORS);
  for (const commit of commits) {
    mkdirSync(join(model, "snapshots", commit), { recursive: true });
    const link = join(model, "snapshots", commit, "model.safetensors");
    symlinkSync(join("..", "..", "blobs", "x"), link);
  }
  mkdirSync(join(model, "refs", "pr"), { recursive: true });
  writeFileSync(join(model, "refs", "main"), commits[0]! + "\n");
  writeFileSync(join(model, "refs", "pr", "1"), commits[1]!);
  return commits.map((commit) => join(model, "snapshots", commit));
}

test("models are found in the cache that variables name, and opened", () =>
  inFolder(async (folder) => {
    const home = process.platform === "win32" ? "USERPROFILE" : "HOME";
    const places: [Record<string, string>, string[]][] = [
      [{ HF_HUB_CACHE: join(folder, "1"), HF_HOME: join(folder, "no") }, ["1"]],
      [{ HF_HOME: join(folder, "2"), XDG_CACHE_HOME: join(folder, "no") }, ["2", "hub"]],
      [{ XDG_CACHE_HOME: join(folder, "3"), [home]: folder }, ["3", "huggingface", "hub"]],
      [{ [home]: join(folder, "4") }, ["4", ".cache", "huggingface", "hub"]],
      [{ HF_HUB_CACHE: "~/h", [home]: join(folder, "5") }, ["5", "h"]],
    ];
    for (const [variables, place] of places) {
      const [main, other] = await writeCache(join(folder, ...place));
      await withVariables(variables, async () => {
        assertEquals(await nn.findModel("org/m"), main);
        assertEquals(await nn.findModel("org/m", { revision: "pr/1" }), other);
        assertEquals(await nn.findModel("org/m", { revision: "b".repeat(40) }), other);
        await assertSame(await nn.findModel("org/m"));
      });
    }
    const cache = join(folder, "1");
    await withVariables({}, async () => {
      assertEquals((await nn.findModel("org/m", { cache })).startsWith(cache), true);
      const model = join(cache, "models--org--one", "snapshots", "c".repeat(40));
      mkdirSync(model, { recursive: true });
      assertEquals(await nn.findModel("org/one", { cache }), model);
      assertEquals(await nn.findModel(model), model);
    });
  }));

test("what is not found says where it was looked for", () =>
  inFolder(async (folder) => {
    await writeCache(folder);
    const says = async (id: string, options: Any, ...parts: string[]): Promise<void> => {
      const find = (): Promise<string> => nn.findModel(id, { cache: folder, ...options });
      const error = await assertRejects(find, ArgumentError);
      for (const part of parts) assertStringIncludes(error.message, part);
    };
    const get = ["hf download org/none", "@rowmajor/tensor/hub"];
    await says(
      "org/none",
      {},
      join(folder, "models--org--none"),
      "org/none in the working",
      ...get,
    );
    await says("org/m", { revision: "dev" }, 'not "dev"', "main", "a".repeat(40), "--revision dev");
    await says("org/one", { revision: "main" }, "--revision main");
    for (const id of ["", "a/b/", "-x/y", "a b", "a//b"]) await says(id, {}, JSON.stringify(id));
    for (const id of ["./none", "a/../../b", join(folder, "none")]) {
      await says(id, {}, "no such folder");
    }
    for (const revision of ["..", "../x", "a/../b", "/x", "", "a\\b"]) {
      await says("org/m", { revision }, "revision", JSON.stringify(revision));
    }
    await assertRejects(
      () => nn.findModel("org/m", loose({ folder })),
      TypeError,
      "folder",
    );
    await withVariables({}, async () => {
      const error = await assertRejects(() => nn.findModel("org/m"), ArgumentError);
      assertStringIncludes(error.message, "looked at org/m in the working directory");
    });
  }));

test("the cache on Windows, and without permission", () => {
  const host = (platform: string, set: Record<string, string>, hidden: string[] = []) =>
    cacheFolder({
      platform,
      variable: (name) => hidden.includes(name) ? undefined : set[name],
      may: (_, name) => !hidden.includes(name),
    });
  assertEquals(host("win32", { USERPROFILE: "C:\\Users\\me" }), {
    folder: "C:\\Users\\me\\.cache\\huggingface\\hub",
    hidden: [],
  });
  assertEquals(host("win32", { HF_HOME: "D:\\hf\\", USERPROFILE: "C:\\" }).folder, "D:\\hf\\hub");
  assertEquals(host("win32", { HOME: "/home/me" }).folder, undefined);
  assertEquals(host("linux", { HOME: "/" }).folder, "/.cache/huggingface/hub");
  assertEquals(host("linux", { HF_HUB_CACHE: "", HOME: "/h" }).folder, "/h/.cache/huggingface/hub");
  assertEquals(host("linux", { HF_HOME: "~nobody", HOME: "/h" }).folder, "~nobody/hub");
  assertEquals(host("darwin", { HF_HOME: "/x", HOME: "/h" }, ["HF_HOME"]), {
    folder: "/h/.cache/huggingface/hub",
    hidden: ["HF_HOME"],
  });
});

test(
  "Deno's permissions are named",
  { skip: !inDeno && "permissions are Deno's" },
  () =>
    inFolder(async (folder) => {
      const [main] = await writeCache(folder);
      const program = (body: string): string =>
        `import * as nn from ${moduleAt("src/nn/mod.ts")};\n` +
        `const cache = ${JSON.stringify(folder)};\n` +
        `const fails = (options) => nn.findModel("org/none", options).catch((e) => e.message);\n` +
        `console.log(JSON.stringify(await (async () => [${body}])()));\n`;
      const opens =
        `await nn.findModel("org/m", { cache }), await fails({ cache }), await fails({}),
      (await nn.open(await nn.findModel("org/m", { cache }))).names().length`;
      const allowed = runApart(program(opens), {}, [`--allow-read=${folder}`]);
      const [found, missing, hidden, count] = JSON.parse(allowed);
      assertEquals([found, count], [main, Object.keys(TENSORS).length]);
      assert(!missing.includes("--allow-env"));
      assertStringIncludes(hidden, `--allow-env=${VARIABLES.slice(0, 5)}`);
      const [refused] = JSON.parse(
        runApart(program("await fails({ cache })"), {}, ["--allow-env"]),
      );
      assertStringIncludes(refused, "--allow-read");
      assertStringIncludes(refused, folder);
    }),
);
