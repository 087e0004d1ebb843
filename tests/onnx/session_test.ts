/**
 * `@rowmajor/tensor/onnx/session`, the interface of ONNX Runtime: its types beside those of
 * onnxruntime-common, tensors, sessions, errors. And `@rowmajor/tensor/onnx/register`, which puts it in the
 * place of onnxruntime-node.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";
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
    ["float16", [1]],
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
  // Elements on the CPU stay.
  assert(await x.getData(true) === data);
  assertEquals(x.location, "cpu");
  x.dispose();
  x.dispose();
  assertEquals(x.location, "none");
  assertThrows(() => x.data, DisposedError);
  await assertRejects(() => x.getData(), DisposedError);
  assertThrows(() => x.reshape([6]), DisposedError);
  assertThrows(() => flat.reshape([4]), ShapeError, "6 elements");
  assertThrows(() => flat.gpuBuffer, DeviceError, "on the CPU");
  assertThrows(() => flat.toDataURL(), DeviceError);
});

test("tensors of wrong types, data and sizes are errors", () => {
  assertThrows(() => new Tensor("float32", Float32Array.of(1, 2), [3]), ShapeError, "2 elements");
  assertThrows(() => new Tensor("float32", Float32Array.of(1, 2), [-2]), ShapeError);
  assertThrows(() => new Tensor(new DataView(new ArrayBuffer(4)) as never), DTypeError);
  assertThrows(() => new Tensor("string", [1] as never), DTypeError, "texts");
  assertThrows(
    () => new Tensor("float32", Float64Array.of(1) as never),
    DTypeError,
    "of a Float64Array: it takes Float32Array",
  );
  for (const data of [[], [1, 2], undefined, null, 5]) {
    assertThrows(() => new Tensor(data as never), DTypeError, "without a type");
  }
  assertThrows(() => new Tensor("Float32" as never, [1]), DTypeError, "types are string, float32");
});

test("16-bit floats are what onnxruntime-common makes of them in this runtime", () => {
  const bits = Uint16Array.of(0x3c00, 0xc000);
  const [own, theirs] = [Tensor, common.Tensor].map((Made) => [
    new Made("float16", bits, [2]).data,
    new Made("float16", [1, -2], [2]).data,
    Reflect.construct(Made, [new Float16Array([1, -2])]).data,
  ]);
  assertEquals(own, theirs);
  assertEquals(own!.map((data) => Array.from(data as Uint16Array)), Array(3).fill([1, -2]));
});

test("texts are the list of the program", () => {
  const texts = ["a", "b"];
  const x = new Tensor("string", texts);
  assert(x.data === texts);
});

test("a tensor has its elements in JSON and on the console", () => {
  const x = X();
  const theirs = new common.Tensor("float32", Float32Array.of(1, 1, 2, -1), [2, 2]);
  assertEquals(JSON.stringify(x), JSON.stringify(theirs));
  const text = inspect(x, { breakLength: Infinity });
  assertMatch(
    text,
    /^Tensor \{ type: ['"]float32['"], dims: \[ 2, 2 \], data: Float32Array\(4\) \[/,
  );
  x.dispose();
  assertMatch(inspect(x), /location: ['"]none['"]/);
});

test("elements of devices and pictures are errors, those of a pinned buffer are not", async () => {
  assertThrows(() => Tensor.fromTexture({}), DeviceError, "a texture");
  assertThrows(() => Tensor.fromGpuBuffer({}), DeviceError, "WebGPU");
  assertThrows(() => Tensor.fromMLTensor({}), DeviceError, "WebNN");
  await assertRejects(() => Tensor.fromImage({}), DeviceError, "a picture");
  const data = Float32Array.of(1, 2);
  const x = Tensor.fromPinnedBuffer("float32", data);
  assertEquals([x.dims, x.data === data], [[2], true]);
});

test("levels of logs are those of onnxruntime-common", () => {
  const { env } = session;
  env.logLevel = "error";
  env.logLevel = undefined as never;
  assertEquals(env.logLevel, "error");
  assertThrows(() => env.logLevel = "silly" as never, ArgumentError, "verbose, info");
  env.logLevel = "warning";
  env.wasm["numThreads"] = 2;
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
    for (const fetches of [[], null, "sum", 5, X(), { y: 5 }, [1]]) {
      await assertRejects(() => made.run({ x: X() }, fetches as never), ArgumentError);
    }
    for (const options of [null, 5, "tag"]) {
      await assertRejects(() => made.run({ x: X() }, ["y"], options as never), ArgumentError);
    }
  });
});

test("results that do not fit their tensors are errors, and write to none of them", async () => {
  await using(LAYER, async (made) => {
    const { bytes } = memory();
    const y = new Tensor("float32", new Float32Array(6), [2, 3]);
    const sums = [
      new Tensor("float32", new Float32Array(5)),
      new Tensor("float32", new Float32Array(1)),
    ];
    for (const sum of sums) {
      await assertRejects(
        () => made.run({ x: X() }, { y, sum }),
        ShapeError,
        'output "sum" of shape [1, 1]',
      );
    }
    const sum = new Tensor("int32", new Int32Array(1), [1, 1]);
    await assertRejects(() => made.run({ x: X() }, { y, sum }), DTypeError, "of float32 to a");
    assertEquals([...y.data, ...sum.data], Array(7).fill(0));
    assertEquals(memory().bytes, bytes);
    const disposed = new Tensor("float32", new Float32Array(6), [2, 3]);
    disposed.dispose();
    await assertRejects(() => made.run({ x: X() }, { y: disposed }), DisposedError);
  });
});

test("an output may have the name of an option of runs", async () => {
  const graph: GraphParts = {
    inputs: [["x", "float32", [1]]],
    outputs: [["tag", "float32", [1]], ["y", "float32", [1]]],
    nodes: [["Neg", ["x"], ["tag"]], ["Relu", ["x"], ["y"]]],
  };
  await using(graph, async (made) => {
    const x = new Tensor("float32", [1]);
    assertEquals(Object.keys(await made.run({ x }, { tag: "a run" })), ["tag", "y"]);
    assertEquals(Object.keys(await made.run({ x }, { tag: null })), ["tag"]);
  });
});

test("texts are written to the list that is given", async () => {
  const graph: GraphParts = {
    inputs: [["x", "string", ["n"]]],
    outputs: [["y", "string", ["n"]]],
    nodes: [["Identity", ["x"], ["y"]]],
  };
  await using(graph, async (made) => {
    const texts = ["", ""];
    const y = new Tensor("string", texts);
    const given = ["a", "b"];
    const running = made.run({ x: new Tensor("string", given) }, { y });
    given[0] = "c";
    assertEquals((await running)["y"]!.data, ["a", "b"]);
    assertEquals(texts, ["a", "b"]);
  });
});

test("a run has the elements of the time of its call, wherever it runs", async () => {
  const square: GraphParts = {
    inputs: [["x", "float32", ["n", "n"]]],
    outputs: [["y", "float32", ["n", "n"]]],
    nodes: [["MatMul", ["x", "x"], ["y"]]],
  };
  await using(square, async (made) => {
    const n = 256;
    // The first run compiles, the later ones are on another thread.
    for (let k = 0; k < 3; k++) {
      const x = new Tensor("float32", new Float32Array(n * n).fill(1), [n, n]);
      const running = made.run({ x });
      await Promise.resolve();
      x.data.fill(0);
      x.dispose();
      const { y } = await running;
      assert((y!.data as Float32Array).every((sum) => sum === n));
    }
  });
});

test("results that are inputs of a run may be disposed of and written meanwhile", async () => {
  // The second part runs after NonZero, which runs by itself.
  const graph: GraphParts = {
    inputs: [["x", "float32", ["n"]]],
    outputs: [["places", "int64"], ["y", "float32"]],
    nodes: [["Add", ["x", "x"], ["h"]], ["NonZero", ["h"], ["places"]], ["Add", ["h", "x"], ["y"]]],
  };
  await using(graph, async (made) => {
    await using(graph, async (other) => {
      const { bytes } = memory();
      for (const meanwhile of ["dispose", "read", "write"] as const) {
        for (let k = 0; k < 3; k++) {
          const { y: x } = await other.run({ x: new Tensor("float32", [1, 0, 2]) });
          const running = [made.run({ x: x! }), made.run({ x: x! })];
          if (meanwhile === "dispose") x!.dispose();
          else if (meanwhile === "read") (x!.data as Float32Array).fill(9);
          else (x as session.Tensor & { cpuData: unknown }).cpuData = Float32Array.of(7, 7, 7);
          for (const { y, places } of await Promise.all(running)) {
            assertEquals([...y!.data as Float32Array], [9, 0, 18]);
            assertEquals([...places!.data as BigInt64Array], [0n, 2n]);
          }
        }
      }
      // All results were read, or disposed of.
      assert(memory().bytes - bytes <= 1000, `${memory().bytes - bytes} bytes`);
    });
  });
});

test("bytes of other values than 0 and 1 are true", async () => {
  const graph: GraphParts = {
    inputs: [["x", "bool", ["n"]]],
    outputs: [["y", "bool", ["n"]]],
    nodes: [["Not", ["x"], ["y"]]],
  };
  await using(graph, async (made) => {
    const data = Uint8Array.of(0, 255, 2);
    const { y } = await made.run({ x: new Tensor("bool", data) });
    assertEquals([...y!.data as Uint8Array, ...data], [1, 0, 0, 0, 255, 2]);
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
    for (const x of [null, 5, [1, 2], Float32Array.of(1, 2), { type: "float32" }]) {
      await assertRejects(() => made.run({ x } as never), ArgumentError, 'input "x"');
    }
    for (const feeds of [undefined, null, 5, [X()], X(), new Map([["x", X()]])]) {
      await assertRejects(() => made.run(feeds as never), ArgumentError, "Cannot run a model with");
    }
    const short = { type: "float32", dims: [2, 2], data: new Float32Array(2) };
    await assertRejects(() => made.run({ x: short }), ShapeError, 'input "x" of shape [2, 2]');
    const x = X();
    x.dispose();
    await assertRejects(() => made.run({ x }), DisposedError);
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

test("a result is not copied when transformers.js asks for the class of its elements", async () => {
  await using(LAYER, async (made) => {
    const { y } = await made.run({ x: X() });
    const asked = y as session.Tensor & { cpuData: unknown };
    assertEquals(asked.cpuData, undefined);
    assertEquals([...y!.data as Float32Array], [3, 2, 1, 0, 0, 0]);
    assert(asked.cpuData === y!.data);
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
    writeFileSync(join(folder, "a näme #1.onnx"), bytes);
    const shared = new SharedArrayBuffer(bytes.length);
    new Uint8Array(shared).set(bytes);
    const path = "w.bin";
    for (
      const made of [
        await InferenceSession.create(join(folder, "layer.onnx")),
        await InferenceSession.create(padded.buffer, 4, bytes.length),
        await InferenceSession.create(padded.subarray(4, -5)),
        await InferenceSession.create(bytes.slice().buffer),
        await InferenceSession.create(shared),
        await InferenceSession.create(padded.slice(0, -5).buffer, 4),
        await InferenceSession.create(padded.slice(0, -5).buffer, 4, { logId: "x" } as never),
        await InferenceSession.create(pathToFileURL(join(folder, "a näme #1.onnx"))),
        await InferenceSession.create(join(folder, "a näme #1.onnx")),
        await InferenceSession.create(join(folder, "outside.onnx"), { externalData: [path] }),
        await InferenceSession.create(external, { externalData: [{ path, data: weights }] }),
        await InferenceSession.create(external, { externalData: [{ path, data: weights.buffer }] }),
        await InferenceSession.create(external, {
          externalData: [{ path, data: new Blob([weights]) }],
        }),
        await InferenceSession.create(external, {
          externalData: [{ path: "./w.bin", data: weights }],
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
    for (const from of [5, null, undefined, new DataView(bytes.buffer), new Float32Array(4)]) {
      await assertRejects(
        () => InferenceSession.create(from as never),
        ArgumentError,
        "a path or bytes",
      );
    }
    for (const externalData of [5, { path, data: weights }, [5], [null], [{ data: weights }]]) {
      await assertRejects(
        () => InferenceSession.create(external, { externalData } as never),
        ArgumentError,
        "externalData",
      );
    }
    await assertRejects(() => InferenceSession.create(bytes.subarray(0, 40)), FormatError);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("parts of buffers that are not there, and options that are none, are errors", async () => {
  const bytes = makeModel(LAYER).slice();
  const { buffer } = bytes;
  const { byteLength } = buffer;
  const parts = [[-4], [0.5], [byteLength + 1], [4, byteLength], [0, -1], [0, "7"], [0, 1, 5]];
  for (const part of parts) {
    const made = InferenceSession.create(buffer, ...part as [number]);
    await assertRejects(() => made, ArgumentError);
  }
  for (const options of [null, 5, "cpu", []]) {
    const made = InferenceSession.create(bytes, options as never);
    await assertRejects(() => made, ArgumentError, "with options");
  }
  for (
    const options of [
      { executionProviders: "cpu" },
      { executionProviders: [5] },
      { freeDimensionOverrides: 5 },
      { freeDimensionOverrides: { rows: "4" } },
      { freeDimensionOverrides: { rows: -4 } },
    ]
  ) {
    const [name] = Object.keys(options);
    const made = InferenceSession.create(bytes, options as never);
    await assertRejects(() => made, ArgumentError, name!);
  }
  const Made = InferenceSession as unknown as new () => unknown;
  assertThrows(() => new Made(), ArgumentError, "InferenceSession.create");
});

test("changes of options after the call have no effect", async () => {
  const freeDimensionOverrides = { rows: 4 };
  const options: session.SessionOptions = { freeDimensionOverrides };
  const made = InferenceSession.create(makeModel(LAYER), options);
  freeDimensionOverrides.rows = 5;
  Object.assign(options, { freeDimensionOverrides: { rows: 6 } });
  const [info] = (await made).inputMetadata;
  assertEquals(info?.isTensor === true ? info.shape : undefined, [4, 2]);
  await (await made).release();
});

test("a session that was released runs no more, and ends the runs before", async () => {
  const made = await InferenceSession.create(makeModel(LAYER));
  const { y } = await made.run({ x: X() });
  // The second run of a kind is on another thread.
  const running = [made.run({ x: X() }), made.run({ x: X() })];
  const released = made.release();
  await assertRejects(() => made.run({ x: X() }), DisposedError, "released");
  await released;
  await made.release();
  for (const run of running) {
    assertEquals([...(await run)["y"]!.data as Float32Array], [3, 2, 1, 0, 0, 0]);
  }
  assertEquals([...y!.data as Float32Array], [3, 2, 1, 0, 0, 0]);
  assertEquals(made.inputNames, ["x"]);
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
function runProgram(
  program: string,
  modules: Readonly<Record<string, string>> = {},
  isPreloaded = false,
): { readonly status: number | null; readonly output: string } {
  const folder = mkdtempSync(join(tmpdir(), "rowmajor-register-"));
  try {
    const own = join(folder, "node_modules", "onnxruntime-node");
    mkdirSync(own, { recursive: true });
    writeFileSync(join(own, "package.json"), `{"name":"onnxruntime-node","main":"index.js"}`);
    // Deno finds the names of a module's exports in its text.
    const names = ["isOther", "InferenceSession", "Tensor", "listSupportedBackends", "env"];
    writeFileSync(
      join(own, "index.js"),
      names.map((name) => `exports.${name} = () => [{ name: "other" }];`).join("\n"),
    );
    for (const [name, text] of Object.entries(modules)) {
      writeFileSync(join(folder, `${name}.ts`), text);
    }
    writeFileSync(join(folder, "package.json"), `{"type":"module"}`);
    const register = pathToFileURL(join(root, "src", "onnx", "register.ts")).href;
    writeFileSync(join(folder, "main.ts"), program.replaceAll("REGISTER", register));
    const args = "Deno" in globalThis
      ? ["run", "-A", "--no-check", "--node-modules-dir=manual"]
      : [];
    if (isPreloaded) args.push("--preload", register);
    args.push("main.ts");
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

test("register puts the session in the place of onnxruntime-node where modules import it", () => {
  const imported = `import * as ort from "onnxruntime-node"; import own from "onnxruntime-node";
    console.log(ort.isOther, ort.listSupportedBackends()[0].name, own.Tensor === ort.Tensor);`;
  const found = [
    runProgram(`import "REGISTER"; await import("./imported.ts");`, { imported }),
    runProgram(imported, {}, true),
    // Deno runs the modules in their order, Bun loads this one first, and says so.
    runProgram(`import "REGISTER"; ${imported}`),
  ].map(({ status, output }) => [status, output.trim()]);
  const good = [0, "undefined cpu true"];
  assertEquals(found.slice(0, 2), [good, good]);
  if ("Deno" in globalThis) assertEquals(found[2], good);
  else {
    assertEquals(found[2]![0], 1);
    assertMatch(String(found[2]![1]), /Cannot replace onnxruntime-node: .*"bun --preload"/);
  }
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
