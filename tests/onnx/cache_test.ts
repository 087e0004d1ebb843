/**
 * Caches of ONNX models: files with the improved graph and the packed weights.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { arange, ArgumentError, FormatError } from "../../mod.ts";
import { cpuBackendName } from "../../src/core/dispatch.ts";
import { root } from "../../scripts/tools.ts";
import {
  open,
  type OpenOptions,
  readSequence,
  readTensor,
  Strings,
  type Value,
} from "../../src/onnx/mod.ts";
import { InferenceSession, Tensor } from "../../src/onnx/session.ts";
import { type Any, loose } from "../support.ts";
import { floats, int64s, makeModel, type TensorParts } from "./make.ts";

const folder = mkdtempSync(join(tmpdir(), "rowmajor-cache-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let count = 0;
/** A path in a folder of its own. */
function ownPath(name: string): string {
  const own = join(folder, String(count++));
  mkdirSync(own);
  return join(own, name);
}

const PREFIX = 96;
/** The file's number, which changes when another file replaces it. */
const numberOf = (path: string): number => statSync(path).ino;

/** What a file has before its data. */
// deno-lint-ignore no-explicit-any -- a value of JSON that tests change at will
function headOf(path: string): any {
  const bytes = readFileSync(path);
  const length = Number(bytes.subarray(16, 32).toString());
  return JSON.parse(bytes.subarray(PREFIX, PREFIX + length).toString());
}

/** Changes the head of a file, whose checksum is right after it. */
function changeHead(path: string, change: (head: Any) => void): void {
  const bytes = readFileSync(path);
  const length = Number(bytes.subarray(16, 32).toString());
  const start = Math.ceil((PREFIX + length) / 4096) * 4096;
  const head = headOf(path);
  change(head);
  const text = new TextEncoder().encode(JSON.stringify(head));
  const own = Math.ceil((PREFIX + text.length) / 4096) * 4096;
  const made = new Uint8Array(own + bytes.length - start);
  made.set(bytes.subarray(0, 16));
  const digest = createHash("sha256").update(text).digest("hex");
  made.set(new TextEncoder().encode(String(text.length).padStart(16, "0") + digest), 16);
  made.set(text, PREFIX);
  made.set(bytes.subarray(start), own);
  writeFileSync(path, made);
}

/** A value that can be compared. */
function plainOf(value: Value): unknown {
  if (value instanceof Strings) return [value.shape, value.data];
  if (Array.isArray(value)) return value.map(plainOf);
  if (value === null || value === undefined) return value;
  const { dtype, shape } = value as Any;
  return [dtype, [...shape], [...(value as Any).toTypedArray()].map(String)];
}

/** Opens a model, runs it, and gives its results. */
async function use(
  from: string | URL | Uint8Array,
  feeds: Record<string, Value>,
  options: OpenOptions = {},
): Promise<unknown> {
  using model = await open(from, options);
  const results = model.run(feeds);
  return Object.entries(results).map(([name, value]) => [name, plainOf(value)]);
}

/** Numbers of a weight. */
const numbers = (length: number, seed = 1): number[] =>
  Array.from({ length }, (_, k) => Math.fround(Math.sin(k * 0.37 + seed) / 8));

/**
 * Rows of a table are chosen, multiplied by two weights and by one of 8 bits, and pass a convolution that
 * Winograd's algorithm computes. The weights are unaligned, as the texts before them are of odd lengths.
 */
function largeModel(seed = 1, external?: string): Uint8Array {
  const [wide, deep] = [300, 320];
  const bytes = Int8Array.from(numbers(deep * 64, 3), (x) => x * 800);
  const product: TensorParts = external === undefined
    ? floats("w", [wide, deep], numbers(wide * deep, seed))
    : { name: "w", type: "float32", dims: [wide, deep], external: { location: external } };
  return makeModel({
    nodes: [
      ["Gather", ["table", "at"], ["x"]],
      ["MatMul", ["x", "w"], ["y"]],
      ["Identity", ["v"], ["same"]],
      ["Transpose", ["same"], ["turned"], { perm: [1, 0] }],
      ["MatMul", ["y", "turned"], ["z"]],
      ["DynamicQuantizeLinear", ["y"], ["q", "scale", "zero"]],
      ["MatMulInteger", ["q", "b", "zero"], ["sums"]],
      ["Cast", ["sums"], ["sums_float"], { to: { int: 1 } }],
      ["Mul", ["sums_float", "scale"], ["bytes"]],
      ["Conv", ["image", "k"], ["convolved"], { pads: [1, 1, 1, 1] }],
      ["Add", ["convolved", "bias"], ["pixels"]],
      ["If", ["is_on"], ["chosen"], {
        then_branch: {
          graph: {
            nodes: [["MatMul", ["y", "turned"], ["then_out"]]],
            outputs: [["then_out", "float32"]],
          },
        },
        else_branch: {
          graph: { nodes: [["Neg", ["z"], ["else_out"]]], outputs: [["else_out", "float32"]] },
        },
      }],
    ],
    inputs: [["at", "int64", ["rows"]], ["image", "float32", [1, 16, 20, "width"]], [
      "is_on",
      "bool",
    ]],
    outputs: [["z", "float32"], ["bytes", "float32"], ["pixels", "float32"], ["chosen", "float32"]],
    tensors: [
      floats("table", [700, wide], numbers(700 * wide)),
      product,
      floats("v", [wide, deep], numbers(wide * deep, 2)),
      { name: "b", type: "int8", dims: [deep, 64], raw: new Uint8Array(bytes.buffer) },
      floats("k", [16, 16, 3, 3], numbers(16 * 16 * 9)),
      floats("bias", [1, 16, 1, 1], numbers(16)),
      int64s("unused", [1, 2, 3]),
    ],
  });
}

const FEEDS: Record<string, Value> = {
  at: loose(arange(5, { dtype: "int64" })),
  image: loose(arange(16 * 20 * 18).reshape([1, 16, 20, 18]).mul(0.01)),
  is_on: loose(arange(1).reshape([]).equal(0)),
};

/** Rows of a table by a weight. */
const SMALL_MODEL = makeModel({
  nodes: [["Gather", ["table", "at"], ["x"]], ["MatMul", ["x", "w"], ["y"]]],
  inputs: [["at", "int64", ["rows"]]],
  outputs: [["y", "float32"]],
  tensors: [
    floats("table", [30, 40], numbers(30 * 40)),
    floats("w", [40, 50], numbers(40 * 50)),
  ],
});
const AT = { at: FEEDS.at! };

test("models of all kinds of nodes give the same with a cache", async () => {
  const cases: readonly Any[] = JSON.parse(
    readFileSync(new URL("../golden/onnx/cases.json", import.meta.url), "utf8"),
  );
  for (const { name, model, inputs } of cases) {
    const feeds: Record<string, Value> = {};
    for (const { name, kind, data } of inputs) {
      const read = kind === "tensor" ? readTensor : readSequence;
      feeds[name] = await read(Uint8Array.fromBase64(data));
    }
    const bytes = Uint8Array.fromBase64(model);
    const cache = ownPath("cache");
    const expected = await use(bytes, feeds);
    assertEquals(await use(bytes, feeds, { cache }), expected, name);
    const before = numberOf(cache);
    assertEquals(await use(bytes, feeds, { cache }), expected, `${name} with its cache`);
    assertEquals(numberOf(cache), before, `${name} has a cache that counts`);
  }
});

test("a cache keeps what programs pack, for the model and for other shapes", async () => {
  const path = ownPath("model.onnx");
  const cache = `${path}.rowmajor`;
  writeFileSync(path, largeModel());
  const expected = await use(path, FEEDS);
  assert(!existsSync(cache), "no cache without the option");
  assertEquals(await use(path, FEEDS, { cache: true }), expected);
  const first = headOf(cache);
  const ops = (head: Any): string[] => head.made.map(([key]: [string]) => key.split("(")[0]);
  if (cpuBackendName() !== "js") {
    for (const op of ["pack", "packBytes", "winogradWeight"]) assert(ops(first).includes(op), op);
  }
  const before = numberOf(cache);
  for (const from of [path, pathToFileURL(path)]) {
    assertEquals(await use(from, FEEDS, { cache: true }), expected);
  }
  assertEquals(numberOf(cache), before);
  // The model itself is not read again but for tensors that are aligned there.
  using model = await open(path, { cache: true });
  assertEquals([...model.metadata], [["author", "a test"]]);
  assertEquals(model.ops.get("Identity"), 1);
  assertEquals(model.inputs[1]!.shape, [1, 16, 20, "width"]);
  const small = { ...FEEDS, image: loose(arange(16 * 20 * 9).reshape([1, 16, 20, 9])) };
  const other = await use(path, small);
  const results = Object.entries(model.run(small)).map(([name, value]) => [name, plainOf(value)]);
  assertEquals(results, other);
  assertEquals(await use(path, small, { cache: true }), other);
  assertEquals(await use(path, FEEDS, { cache: true }), expected);
});

test("several models of one file may be open while one writes its cache", async () => {
  const path = ownPath("model.onnx");
  writeFileSync(path, largeModel());
  const expected = await use(path, FEEDS);
  using one = await open(path, { cache: true });
  using other = await open(path, { cache: true });
  for (const model of [one, other, one]) {
    const results = await model.async(FEEDS);
    assertEquals(Object.entries(results).map(([name, x]) => [name, plainOf(x)]), expected);
  }
  assertEquals(await use(path, FEEDS, { cache: true }), expected);
});

test("a cache of another model does not count", async () => {
  const path = ownPath("model.onnx");
  const cache = `${path}.rowmajor`;
  writeFileSync(path, largeModel());
  const times = new Date("2020-01-01");
  utimesSync(path, times, times);
  const expected = await use(path, FEEDS, { cache: true });
  const before = numberOf(cache);
  // Other times alone do not matter.
  utimesSync(path, new Date(), new Date());
  assertEquals(await use(path, FEEDS, { cache: true }), expected);
  assertEquals(numberOf(cache), before);
  // Other bytes do, where size and times are the same.
  writeFileSync(path, largeModel(9));
  utimesSync(path, times, times);
  const other = await use(path, FEEDS);
  assert(JSON.stringify(other) !== JSON.stringify(expected));
  assertEquals(await use(path, FEEDS, { cache: true }), other);
  assert(numberOf(cache) !== before);
  assertEquals(await use(path, FEEDS, { cache: true }), other);
  // A shorter model.
  writeFileSync(
    path,
    makeModel({
      nodes: [["Neg", ["x"], ["y"]]],
      inputs: [["x", "float32"]],
      outputs: [["y", "float32"]],
    }),
  );
  const x = { x: loose(arange(3)) };
  assertEquals(await use(path, x, { cache: true }), await use(path, x));
});

test("external data are part of the model", async () => {
  const path = ownPath("model.onnx");
  const data = join(path, "..", "weights");
  const write = (seed: number): void =>
    writeFileSync(data, Float32Array.from(numbers(300 * 320, seed)));
  writeFileSync(path, largeModel(1, "weights"));
  write(1);
  const expected = await use(path, FEEDS, { cache: true });
  assertEquals(headOf(`${path}.rowmajor`).files.map(({ name }: Any) => name), ["", "weights"]);
  const before = numberOf(`${path}.rowmajor`);
  assertEquals(await use(path, FEEDS, { cache: true }), expected);
  assertEquals(numberOf(`${path}.rowmajor`), before);
  write(5);
  const other = await use(path, FEEDS);
  assertEquals(await use(path, FEEDS, { cache: true }), other);
  assertEquals(await use(path, FEEDS, { cache: true }), other);
  // Bytes of the caller come before the file.
  const external = { weights: new Uint8Array(Float32Array.from(numbers(300 * 320)).buffer) };
  assertEquals(await use(path, FEEDS, { cache: true, external }), expected);
  rmSync(data);
  await assertRejects(() => open(path, { cache: true }), FormatError, "not beside it");
});

test("a cache of another library or instruction set does not count", async () => {
  const path = ownPath("model.onnx");
  const cache = `${path}.rowmajor`;
  writeFileSync(path, largeModel());
  const expected = await use(path, FEEDS, { cache: true });
  for (const name of ["library", "kernels"]) {
    changeHead(cache, (head) => head[name] += "1");
    const before = numberOf(cache);
    assertEquals(await use(path, FEEDS, { cache: true }), expected);
    assert(numberOf(cache) !== before, name);
  }
});

test("a cache of the other setting of winograd does not count", async () => {
  const path = ownPath("model.onnx");
  writeFileSync(path, largeModel());
  for (const winograd of [true, false, true]) {
    const expected = await use(path, FEEDS, { winograd });
    const before = winograd ? undefined : numberOf(`${path}.rowmajor`);
    for (let i = 0; i < 2; i++) {
      assertEquals(await use(path, FEEDS, { winograd, cache: true }), expected);
    }
    if (before !== undefined) assert(numberOf(`${path}.rowmajor`) !== before);
  }
});

test("a file that was cut or changed is made anew", async () => {
  const path = ownPath("model.onnx");
  const cache = `${path}.rowmajor`;
  writeFileSync(path, SMALL_MODEL);
  const expected = await use(path, AT, { cache: true });
  const whole = readFileSync(cache);
  const length = Number(whole.subarray(16, 32).toString());
  const start = Math.ceil((PREFIX + length) / 4096) * 4096;
  const sections: number[] = headOf(cache).storages.filter(([, file]: Any) => file === -1)
    .map(([, , begin]: Any) => start + begin);
  const cuts = [0, 8, 16, 31, PREFIX - 1, PREFIX, PREFIX + 100, PREFIX + length, start];
  for (const cut of [...cuts, ...sections, whole.length - 1]) {
    writeFileSync(cache, whole);
    truncateSync(cache, cut);
    assertEquals(await use(path, AT, { cache: true }), expected, `cut at ${cut}`);
    assertEquals(headOf(cache).bytes + start, statSync(cache).size, `cut at ${cut}`);
  }
  for (let k = 0; k < 60; k++) {
    const changed = whole.slice();
    const at = k < 20 ? 16 + 4 * k : PREFIX + Math.floor(k * length / 60);
    changed[at]! ^= 1 << k % 8;
    writeFileSync(cache, changed);
    assertEquals(await use(path, AT, { cache: true }), expected, `changed at ${at}`);
  }
});

test("sizes and places of a file are checked though its checksum is right", async () => {
  const path = ownPath("model.onnx");
  const cache = `${path}.rowmajor`;
  writeFileSync(path, SMALL_MODEL);
  const expected = await use(path, AT, { cache: true });
  const whole = readFileSync(cache);
  const { storages, made, model } = headOf(cache);
  const largest = storages.findIndex(([, , , length]: Any) => length > 1000);
  const bad = [2 ** 40, -1, 0.5, null, "1"];
  const changes: ((head: Any) => void)[] = [
    ...bad.map((x) => (head: Any) => head.storages[largest][1] = x),
    ...bad.map((x) => (head: Any) => head.storages[largest][2] = x),
    ...bad.map((x) => (head: Any) => head.storages[largest][3] = x),
    ...["float99", "constructor", 3, null].map((x) => (head: Any) => head.storages[largest][0] = x),
    ...bad.map((x) => (head: Any) => head.bytes = x),
    ...bad.map((x) => (head: Any) => head.files[0].size = x),
    (head) => head.files = [],
    (head) => head.files[0].name = "../other",
    ...bad.map((x) => (head: Any) => head.model.graph.constants[0][1].tensor[0] = x),
    ...[[2 ** 31, 2 ** 31], [2 ** 30], [-1, 5], "x", [0.5]].map((x) => (head: Any) =>
      head.model.graph.constants[0][1].tensor[1] = x
    ),
    ...[[2 ** 31, 1], [-300, 1], [1], "x"].map((x) => (head: Any) =>
      head.model.graph.constants[0][1].tensor[2] = x
    ),
    ...[-1, 2 ** 40, null].map((x) => (head: Any) =>
      head.model.graph.constants[0][1].tensor[3] = x
    ),
    ...["nodes", "constants", "inputs", "outputs", "name"].map((name) => (head: Any) =>
      head.model.graph[name] = 3
    ),
    ...["graph", "opsets", "ops", "metadata"].map((name) => (head: Any) => delete head.model[name]),
    (head) => head.model = null,
    (head) => head.storages = null,
    ...(made.length === 0 ? [] : [
      ...bad.map((x) => (head: Any) => head.made[0][1] = [x]),
      (head: Any) => head.made[0][1] = [],
      // Another storage, of other sizes.
      (head: Any) => head.made[0][1] = [largest],
    ]),
  ];
  assertEquals(model.graph.constants[0][0], "table");
  for (const [k, change] of changes.entries()) {
    writeFileSync(cache, whole);
    changeHead(cache, change);
    assertEquals(await use(path, AT, { cache: true }), expected, `change ${k}`);
  }
});

test("another kind of file at the path is an error, and stays", async () => {
  const path = ownPath("model.onnx"), cache = join(path, "..", "notes.txt");
  writeFileSync(path, largeModel());
  writeFileSync(cache, "not a cache");
  await assertRejects(() => open(path, { cache }), FormatError, "no cache of a model");
  await assertRejects(() => open(path, { cache: path }), FormatError, "no cache of a model");
  assertEquals(readFileSync(cache, "utf8"), "not a cache");
  const other = join(path, "..", "folder");
  mkdirSync(other);
  await assertRejects(() => open(path, { cache: other }), FormatError, "no regular file");
});

test("a link at the path stays, and leads to the cache", {
  skip: process.platform === "win32" && "links need a privilege on Windows",
}, async () => {
  const path = ownPath("model.onnx");
  writeFileSync(path, SMALL_MODEL);
  const expected = await use(path, AT);
  const [cache, link, device, gone] = ["cache", "link", "device", "gone"].map((name) =>
    join(path, "..", name)
  ) as [string, string, string, string];
  writeFileSync(cache, "");
  symlinkSync(cache, link);
  for (let i = 0; i < 2; i++) assertEquals(await use(path, AT, { cache: link }), expected);
  assert(lstatSync(link).isSymbolicLink());
  assertEquals(headOf(cache).files[0].size, SMALL_MODEL.length);
  // Links to what is no file stay, too.
  symlinkSync("/dev/null", device);
  symlinkSync(join(path, "..", "missing"), gone);
  for (const one of [device, gone]) {
    await assertRejects(() => open(path, { cache: one }), FormatError, "no regular file");
    assert(lstatSync(one).isSymbolicLink());
  }
});

test("a cache that cannot be written warns once, and the model runs", async () => {
  const path = ownPath("model.onnx");
  writeFileSync(path, largeModel());
  const expected = await use(path, FEEDS);
  const warnings: string[] = [];
  const { warn } = console;
  console.warn = (text: string) => void warnings.push(text);
  try {
    using model = await open(path, { cache: join(folder, "missing", "cache") });
    for (const rows of [5, 5, 7]) {
      const at = loose(arange(rows, { dtype: "int64" }));
      const results = model.run({ ...FEEDS, at });
      if (rows === 7) continue;
      assertEquals(Object.entries(results).map(([name, x]) => [name, plainOf(x)]), expected);
    }
  } finally {
    console.warn = warn;
  }
  assertEquals(warnings.length, 1);
  assertStringIncludes(warnings[0]!, "cannot write the cache");
});

test("a file that another process replaces or removes right after it was written is not read", async () => {
  const fs = process.getBuiltinModule("node:fs");
  const { renameSync } = fs, { warn } = console;
  const [path, otherPath] = [ownPath("model.onnx"), ownPath("other.onnx")];
  writeFileSync(path, largeModel());
  writeFileSync(otherPath, largeModel(9));
  const cache = `${path}.rowmajor`, other = `${otherPath}.rowmajor`;
  await use(otherPath, FEEDS, { cache: true });
  const small = { ...FEEDS, image: loose(arange(16 * 20 * 9).reshape([1, 16, 20, 9])) };
  const expected = await use(path, FEEDS), expectedSmall = await use(path, small);
  const plain = (results: Record<string, Value>): unknown =>
    Object.entries(results).map(([name, value]) => [name, plainOf(value)]);
  const warnings: string[] = [];
  for (const isRemoved of [false, true]) {
    let count = 0;
    console.warn = (text: string) => void warnings.push(text);
    fs.renameSync = (from, to) => {
      renameSync(from, to);
      if (String(to) !== cache || count++ > 0) return;
      rmSync(cache);
      if (!isRemoved) writeFileSync(cache, readFileSync(other));
    };
    try {
      using model = await open(path, { cache: true });
      assertEquals(plain(model.run(FEEDS)), expected);
      assertEquals(plain(model.run(small)), expectedSmall);
      assertEquals(count, 1);
    } finally {
      fs.renameSync = renameSync;
      console.warn = warn;
    }
    for (let i = 0; i < 2; i++) {
      assertEquals(await use(path, small, { cache: true }), expectedSmall);
      assertEquals(await use(path, FEEDS, { cache: true }), expected);
    }
    rmSync(cache);
  }
  assertEquals(warnings, []);
});

test("options that are none are errors", async () => {
  const path = ownPath("model.onnx");
  writeFileSync(path, largeModel());
  for (
    const [cache, why] of [[3, "true, false or a path"], ["", "empty"], [null, "a path"]] as const
  ) {
    await assertRejects(() => open(path, { cache: loose(cache) }), ArgumentError, why);
  }
  await assertRejects(() => open(largeModel(), { cache: true }), ArgumentError, "in memory");
  const ops = { "my.domain.Op": () => [] };
  await assertRejects(() => open(path, { cache: true, ops }), ArgumentError, "may change");
  const other = { cache: true, static: ["nothing"] };
  await assertRejects(() => open(path, other), ArgumentError, "the model has the inputs");
  await use(path, FEEDS, { cache: true });
  await assertRejects(() => open(path, other), ArgumentError, "the model has the inputs");
  const extra = loose({ rowmajor: 3 });
  await assertRejects(() => InferenceSession.create(path, { extra }), ArgumentError, "rowmajor");
});

test("sessions have caches", async () => {
  const path = ownPath("model.onnx");
  const bytes = makeModel({
    nodes: [["MatMul", ["x", "w"], ["y"]]],
    inputs: [["x", "float32", ["n", 2]]],
    outputs: [["y", "float32"]],
    tensors: [floats("w", [2, 2], [1, 2, 3, 4])],
  });
  writeFileSync(path, bytes);
  for (let k = 0; k < 2; k++) {
    const session = await InferenceSession.create(path, { extra: { rowmajor: { cache: true } } });
    const { y } = await session.run({ x: new Tensor("float32", [1, 1], [1, 2]) });
    assertEquals([...y!.data as Float32Array], [4, 6]);
    await session.release();
    assert(existsSync(`${path}.rowmajor`));
  }
});

// ---- processes ----------------------------------------------------------------------------------

const inDeno = "Deno" in globalThis;
const PROGRAM = `
import { open } from ${JSON.stringify(pathToFileURL(join(root, "src/onnx/mod.ts")).href)};
import { ones } from ${JSON.stringify(pathToFileURL(join(root, "mod.ts")).href)};
const [path, rows] = process.argv.slice(2);
try {
  const model = await open(path, { cache: true });
  const { y } = model.run({ x: ones([Number(rows), 1024]) });
  console.log(y.sum().item().toFixed(3));
} catch (error) {
  console.log(error.name + ": " + error.message);
}
process.stdin.once("data", () => process.exit());
`;

/** Two products with 8 MB of weights. */
const TWO_PRODUCTS = (): Uint8Array => {
  const raw = new Uint8Array(Float32Array.from(numbers(1024 * 1024)).buffer);
  return makeModel({
    nodes: [["MatMul", ["x", "w"], ["z"]], ["MatMul", ["z", "v"], ["y"]]],
    inputs: [["x", "float32", ["n", 1024]]],
    outputs: [["y", "float32"]],
    tensors: [
      { name: "w", type: "float32", dims: [1024, 1024], raw },
      { name: "v", type: "float32", dims: [1024, 1024], raw },
    ],
  });
};

/** Starts the program; its first line. */
async function start(
  path: string,
  flags: readonly string[] = ["-A"],
): Promise<{ child: ChildProcess; line: string }> {
  const program = join(folder, "program.mjs");
  writeFileSync(program, `import process from "node:process";\n${PROGRAM}`);
  const config = join(root, "deno.json");
  const args = inDeno ? ["run", `--config=${config}`, "--no-prompt", ...flags] : [];
  const child = spawn(process.execPath, [...args, program, path, "4"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const line = await new Promise<string>((resolve) => {
    child.stdout!.once("data", (data) => resolve(String(data).trim()));
    child.once("exit", () => resolve("no line"));
  });
  return { child, line };
}

async function stop({ child }: { child: ChildProcess }): Promise<void> {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.stdin!.write("stop\n");
  await ended;
}

/** The kilobytes of the mappings of a file, by kind. */
function sharesOf(pid: number, file: string): Record<string, number> {
  const sums: Record<string, number> = {};
  let isOwn = false;
  for (const line of readFileSync(`/proc/${pid}/smaps`, "utf8").split("\n")) {
    const field = /^(\w+): +(\d+) kB$/.exec(line);
    if (field === null) isOwn = line.endsWith(file);
    else if (isOwn) sums[field[1]!] = (sums[field[1]!] ?? 0) + Number(field[2]);
  }
  return sums;
}

test("processes share the packed weights of a model", {
  skip: process.platform !== "linux" && "only Linux tells of shared memory",
}, async () => {
  const path = ownPath("model.onnx");
  writeFileSync(path, TWO_PRODUCTS());
  const writer = await start(path);
  await stop(writer);
  const both = [await start(path), await start(path)];
  try {
    assertEquals(both.map(({ line }) => line), [writer.line, writer.line]);
    for (const { child } of both) {
      const own = sharesOf(child.pid!, `${path}.rowmajor`);
      assert(own.Rss! >= 7 * 1024, `${own.Rss} kB of the cache`);
      // Both processes count half of what they share.
      assert(own.Pss! <= 0.6 * own.Rss!, `${own.Pss} kB of ${own.Rss} kB`);
      assertEquals(own.Private_Dirty, 0);
      const rollup = readFileSync(`/proc/${child.pid}/smaps_rollup`, "utf8");
      const [rss, pss] = ["Rss", "Pss"].map((name) =>
        Number(new RegExp(`^${name}: +(\\d+)`, "m").exec(rollup)![1])
      );
      console.log(
        `process: ${rss! >> 10} MB resident, ${pss! >> 10} MB in proportion; cache: ` +
          `${own.Rss! >> 10} MB resident, ${own.Pss! >> 10} MB in proportion`,
      );
    }
  } finally {
    await Promise.all(both.map(stop));
  }
});

test("a cache needs permission where it is made, and none to write where it is", {
  skip: !inDeno && "only Deno has permissions",
}, async () => {
  const path = ownPath("model.onnx");
  writeFileSync(path, TWO_PRODUCTS());
  const flags = ["--allow-read", "--allow-ffi", "--allow-env", "--allow-sys"];
  const refused = await start(path, flags);
  await stop(refused);
  assertStringIncludes(refused.line, "ArgumentError: Cannot open");
  assertStringIncludes(refused.line, `--allow-write=${join(path, "..")}`);
  const allowed = await start(path, [...flags, `--allow-write=${join(path, "..")}`]);
  await stop(allowed);
  assert(existsSync(`${path}.rowmajor`));
  const reader = await start(path, flags);
  await stop(reader);
  assertEquals(reader.line, allowed.line);
});
