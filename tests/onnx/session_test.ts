/**
 * `@rowmajor/tensor/onnx/session`, the interface of ONNX Runtime: its types beside those of
 * onnxruntime-common, tensors, sessions, errors. And `@rowmajor/tensor/onnx/register`, which puts it in the
 * place of onnxruntime-node.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import * as common from "onnxruntime-common";
import {
  ArgumentError,
  DeviceError,
  DisposedError,
  DTypeError,
  FormatError,
  memory,
  ShapeError,
} from "../../mod.ts";
import { root } from "../../scripts/tools.ts";
import * as session from "../../src/onnx/session.ts";
import { floats, type GraphParts, makeModel } from "./make.ts";

const { InferenceSession, Tensor } = session;

/** y = relu(x · w + b), and the sum of x. */
const LAYER: GraphParts = {
  inputs: [["x", "float32", ["rows", 2]]],
  outputs: [["y", "float32", ["rows", 3]], ["sum", "float32", [1, 1]]],
  nodes: [
    ["Gemm", ["x", "w", "b"], ["h"]],
    ["Relu", ["h"], ["y"]],
    ["ReduceSum", ["x"], ["sum"]],
  ],
  tensors: [floats("w", [2, 3], [1, 0, -1, 2, 1, 0]), floats("b", [3], [0, 1, 2])],
};
/** y = x · 2, for x of any shape and with a cache that grows: all = past and x. */
const CACHE: GraphParts = {
  inputs: [["past", "float32", ["before", 2]], ["x", "float32", ["rows", 2]]],
  outputs: [["all", "float32", ["after", 2]]],
  nodes: [["Concat", ["past", "x"], ["all"], { axis: { int: 0 } }]],
};
const X = () => new Tensor("float32", Float32Array.of(1, 1, 2, -1), [2, 2]);

async function using<R>(
  graph: GraphParts,
  use: (session: session.InferenceSession) => Promise<R>,
): Promise<R> {
  const made = await InferenceSession.create(makeModel(graph));
  try {
    return await use(made);
  } finally {
    await made.release();
  }
}

// ---- types --------------------------------------------------------------------------------------

test("sessions and tensors are those of the types of onnxruntime-common", async () => {
  await using(LAYER, async (made) => {
    // Each assignment is a test of the type checker.
    const theirs: common.InferenceSession = made;
    const typed: common.TypedTensor<"float32"> = X();
    const any: common.Tensor = new Tensor("int64", [1n, 2n]);
    const create: (path: string) => Promise<common.InferenceSession> = InferenceSession.create;
    const metadata: readonly common.InferenceSession.ValueMetadata[] = made.inputMetadata;
    const environment: Omit<common.Env, "webgl" | "webgpu"> = session.env;
    assertEquals([typeof create, metadata.length, environment.logLevel], [
      "function",
      1,
      "warning",
    ]);
    assertEquals([any.type, any.size], ["int64", 2]);
    const { y, sum } = await theirs.run({ x: typed });
    assertEquals([...y!.data as Float32Array], [3, 2, 1, 0, 0, 0]);
    assertEquals([...sum!.data as Float32Array], [3]);
    // Inputs may be of that package too.
    const x = new common.Tensor("float32", [1, 1, 2, -1], [2, 2]);
    assertEquals([...(await made.run({ x }))["y"]!.data as Float32Array], [3, 2, 1, 0, 0, 0]);
    const options: common.InferenceSession.SessionOptions = { executionProviders: ["cpu"] };
    await (await InferenceSession.create(makeModel(LAYER), options)).release();
  });
});

test("the types of tensors follow from types and data", () => {
  const values: [
    session.Tensor<"float32">,
    session.Tensor<"int32">,
    session.Tensor<"bool">,
    session.Tensor<"string">,
    session.Tensor<"uint8">,
    session.Tensor<"int64">,
    session.Tensor<"float16">,
  ] = [
    new Tensor("float32", [1.5]),
    new Tensor(Int32Array.of(1)),
    new Tensor([true, false]),
    new Tensor(["a"]),
    new Tensor(Uint8ClampedArray.of(255)),
    new Tensor("int64", [1, 2n]),
    new Tensor("float16", Uint16Array.of(0x3c00)),
  ];
  assertEquals(values.map(({ type, data }) => [type, Array.from<unknown>(data)]), [
    ["float32", [1.5]],
    ["int32", [1]],
    ["bool", [1, 0]],
    ["string", ["a"]],
    ["uint8", [255]],
    ["int64", [1n, 2n]],
    ["float16", [0x3c00]],
  ]);
  const text: string = values[3].data[0]!;
  assertEquals(text, "a");
});

// ---- tensors ------------------------------------------------------------------------------------

test("a tensor has a type, sizes and data, and gives its data away", async () => {
  const data = Float32Array.of(1, 2, 3, 4, 5, 6);
  const x = new Tensor("float32", data, [2, 3]);
  assertEquals([x.type, x.dims, x.size, x.location], ["float32", [2, 3], 6, "cpu"]);
  assert(x.data === data);
  const flat = x.reshape([6]);
  assertEquals([flat.dims, flat.data === data], [[6], true]);
  assert(await x.getData() === data);
  assert(await x.getData(true) === data);
  assertEquals(x.location, "none");
  assertThrows(() => x.data, DisposedError);
  x.dispose();
  assertThrows(() => flat.reshape([4]), ShapeError, "6 elements");
  assertThrows(() => flat.gpuBuffer, DeviceError, "on the CPU");
  assertThrows(() => flat.toDataURL(), DeviceError);
});

test("tensors of wrong types, data and sizes are errors", () => {
  assertThrows(() => new Tensor("float32", Float32Array.of(1, 2), [3]), ShapeError, "2 elements");
  assertThrows(() => new Tensor("float32", Float32Array.of(1, 2), [-2]), ShapeError);
  assertThrows(() => new Tensor(new DataView(new ArrayBuffer(4)) as never), DTypeError);
  assertThrows(() => new Tensor("float16", [1]), DTypeError, "float16");
  assertThrows(() => new Tensor("string", [1] as never), DTypeError, "texts");
});

test("transformers.js replaces data, and writes sizes", () => {
  const x = X() as session.Tensor & { cpuData: Float32Array; dims: readonly number[] };
  x.cpuData = Float32Array.of(4, 3, 2, 1);
  x.dims = [4];
  assertEquals([x.dims, [...x.data as Float32Array], x.cpuData === x.data], [
    [4],
    [4, 3, 2, 1],
    true,
  ]);
});

// ---- sessions -----------------------------------------------------------------------------------

test("a session describes its inputs and outputs", async () => {
  await using(LAYER, (made) => {
    assertEquals([made.inputNames, made.outputNames], [["x"], ["y", "sum"]]);
    assertEquals(made.inputMetadata, [
      { name: "x", isTensor: true, type: "float32", shape: ["rows", 2] },
    ]);
    assertEquals(made.outputMetadata[1], {
      name: "sum",
      isTensor: true,
      type: "float32",
      shape: [1, 1],
    });
    return Promise.resolve();
  });
  const freeDimensionOverrides = { rows: 7 };
  const made = await InferenceSession.create(makeModel(LAYER), { freeDimensionOverrides });
  const [info] = made.inputMetadata;
  assertEquals(info?.isTensor === true ? info.shape : undefined, [7, 2]);
  await made.release();
});

test("fetches choose results, and give tensors that they are written to", async () => {
  await using(LAYER, async (made) => {
    assertEquals(Object.keys(await made.run({ x: X() }, ["sum"])), ["sum"]);
    assertEquals(Object.keys(await made.run({ x: X() }, { sum: null })), ["sum"]);
    assertEquals(Object.keys(await made.run({ x: X() }, { tag: "a run" })), ["y", "sum"]);
    assertEquals(Object.keys(await made.run({ x: X() }, ["y"], { tag: "a run" })), ["y"]);
    const y = new Tensor("float32", new Float32Array(6), [2, 3]);
    const found = await made.run({ x: X() }, { y });
    assertEquals([...y.data], [3, 2, 1, 0, 0, 0]);
    assertEquals([Object.keys(found), found["y"]!.data === y.data], [["y"], true]);
    await assertRejects(() => made.run({ x: X() }, ["z"]), ArgumentError, "y, sum");
    const small = new Tensor("float32", new Float32Array(5));
    await assertRejects(() => made.run({ x: X() }, { y: small }), ShapeError, "[2, 3]");
  });
});

test("feeds that are no inputs are left out; others are checked", async () => {
  await using(LAYER, async (made) => {
    const { y } = await made.run({ x: X(), other: new Tensor("int64", [1n]) });
    assertEquals(y!.size, 6);
    await assertRejects(() => made.run({}), ArgumentError, "missing");
    const ids = new Tensor("int64", [1n, 2n], [1, 2]);
    await assertRejects(() => made.run({ x: ids }), DTypeError, "int64");
    const wide = new Tensor("float32", new Float32Array(3), [1, 3]);
    await assertRejects(() => made.run({ x: wide }), ShapeError, "[rows, 2]");
    const odd = { type: "complex64", dims: [1], data: new Float32Array(2) };
    await assertRejects(() => made.run({ x: odd }), DTypeError, "complex64");
  });
});

test("results that go into the next run are not copied, and runs leave no memory", async () => {
  await using(CACHE, async (made) => {
    let past: session.Tensor = new Tensor("float32", [], [0, 2]);
    const row = new Tensor("float32", Float32Array.of(1, 2), [1, 2]);
    const run = async (): Promise<void> => {
      const { all } = await made.run({ past, x: row });
      past.dispose();
      past = all!;
    };
    for (let i = 0; i < 3; i++) await run();
    const { bytes } = memory();
    for (let i = 0; i < 4; i++) await run();
    // 4 rows more of 2 elements of 4 bytes; pools round sizes up.
    assert(memory().bytes - bytes <= 4 * 2 * 4 + 256, `${memory().bytes - bytes} bytes`);
    assertEquals(past.dims, [7, 2]);
    assertEquals([...past.data as Float32Array], Array(7).fill([1, 2]).flat());
    past.dispose();
  });
});

test("a result keeps its data when it was read, and as an input of other sizes", async () => {
  await using(LAYER, async (made) => {
    const { y } = await made.run({ x: X() });
    const other = y!.reshape([3, 2]);
    assertEquals((await made.run({ x: other }))["y"]!.dims, [3, 3]);
    const { y: unread } = await made.run({ x: X() });
    (unread as { dims: readonly number[] }).dims = [3, 2];
    assertEquals((await made.run({ x: unread! }))["y"]!.dims, [3, 3]);
    assertEquals([...unread!.data as Float32Array], [...y!.data as Float32Array]);
  });
});

test("sessions open paths, parts of buffers, and external data", async () => {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-session-"));
  try {
    const bytes = makeModel(LAYER);
    writeFileSync(join(folder, "layer.onnx"), bytes);
    const padded = new Uint8Array(bytes.length + 9);
    padded.set(bytes, 4);
    const weights = new Uint8Array(Float32Array.of(1, 0, -1, 2, 1, 0).buffer);
    const w = {
      name: "w",
      type: "float32",
      dims: [2, 3],
      external: { location: "w.bin" },
    } as const;
    const external = makeModel({ ...LAYER, tensors: [w, LAYER.tensors![1]!] });
    writeFileSync(join(folder, "outside.onnx"), external);
    writeFileSync(join(folder, "w.bin"), weights);
    const path = "w.bin";
    for (
      const made of [
        await InferenceSession.create(join(folder, "layer.onnx")),
        await InferenceSession.create(padded.buffer, 4, bytes.length),
        await InferenceSession.create(padded.subarray(4, -5)),
        await InferenceSession.create(bytes.slice().buffer),
        await InferenceSession.create(join(folder, "outside.onnx"), { externalData: [path] }),
        await InferenceSession.create(external, { externalData: [{ path, data: weights }] }),
        await InferenceSession.create(external, { externalData: [{ path, data: weights.buffer }] }),
        await InferenceSession.create(external, {
          externalData: [{ path, data: new Blob([weights]) }],
        }),
        await InferenceSession.create(external, {
          externalData: [{ path, data: join(folder, "w.bin") }],
        }),
      ]
    ) {
      assertEquals([...(await made.run({ x: X() }))["y"]!.data as Float32Array], [
        3,
        2,
        1,
        0,
        0,
        0,
      ]);
      await made.release();
    }
    await assertRejects(
      () => InferenceSession.create(external, { externalData: [{ path, data: 3 }] }),
      ArgumentError,
      "w.bin",
    );
    await assertRejects(() => InferenceSession.create(external), FormatError, "w.bin");
    await assertRejects(
      () => InferenceSession.create(5 as never),
      ArgumentError,
      "a path or bytes",
    );
    await assertRejects(() => InferenceSession.create(bytes.subarray(0, 40)), FormatError);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a session that was released runs no more", async () => {
  const made = await InferenceSession.create(makeModel(LAYER));
  const { y } = await made.run({ x: X() });
  await made.release();
  assertEquals([...y!.data as Float32Array], [3, 2, 1, 0, 0, 0]);
  await assertRejects(() => made.run({ x: X() }), DisposedError);
});

test("options without an effect warn once", async () => {
  const lines: string[] = [];
  const { warn } = console;
  console.warn = (line: string) => lines.push(line);
  try {
    for (let i = 0; i < 2; i++) {
      const options = { executionProviders: ["cuda"], enableProfiling: true, logId: "x" };
      await (await InferenceSession.create(makeModel(LAYER), options)).release();
    }
  } finally {
    console.warn = warn;
  }
  assertEquals(lines, [
    "rowmajor: InferenceSession.create has no use for the option enableProfiling",
    'rowmajor: InferenceSession runs on the CPU, not on "cuda"',
  ]);
});

// ---- register -----------------------------------------------------------------------------------

/** Runs a program beside a package onnxruntime-node that says what it is. */
function runProgram(program: string): { readonly status: number | null; readonly output: string } {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-register-"));
  try {
    const own = join(folder, "node_modules", "onnxruntime-node");
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, "package.json"), `{"name":"onnxruntime-node","main":"index.js"}`);
    writeFileSync(join(own, "index.js"), `exports.isOther = true;`);
    writeFileSync(join(folder, "package.json"), `{"type":"module"}`);
    const register = pathToFileURL(join(root, "src", "onnx", "register.ts")).href;
    writeFileSync(join(folder, "main.ts"), program.replaceAll("REGISTER", register));
    const args = "Deno" in globalThis
      ? ["run", "-A", "--no-check", "--node-modules-dir=manual", "main.ts"]
      : ["main.ts"];
    const { status, stdout, stderr } = spawnSync(process.execPath, args, {
      cwd: folder,
      encoding: "utf8",
    });
    return { status, output: `${stdout}${stderr}` };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("register puts the session in the place of onnxruntime-node, for all that load it later", () => {
  const { status, output } = runProgram(`
    import "REGISTER";
    import "REGISTER";
    import { createRequire } from "node:module";
    const ort = createRequire(import.meta.url)("onnxruntime-node");
    console.log(ort.isOther, typeof ort.InferenceSession.create, ort.default.Tensor === ort.Tensor,
      ort.listSupportedBackends()[0].name);
  `);
  assertEquals([status, output.trim()], [0, "undefined function true cpu"]);
});

test("register tells that onnxruntime-node was loaded before", () => {
  const { status, output } = runProgram(`
    import { createRequire } from "node:module";
    createRequire(import.meta.url)("onnxruntime-node");
    try {
      await import("REGISTER");
    } catch (error) {
      console.log(error.name, error.message);
    }
  `);
  assertEquals(status, 0);
  // Deno makes another error of it.
  assert(/Cannot replace onnxruntime-node: .*index\.js is loaded/m.test(output), output);
});
