/**
 * NVIDIA's client of the Open Inference Protocol, unmodified, on a socket.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { root } from "../../scripts/tools.ts";
import { open, type Value } from "../../src/onnx/mod.ts";
import { listen } from "../../src/serve/http/listen.ts";
import { inference, type InferenceModels } from "../../src/serve/inference.ts";
import { floats, makeModel } from "../onnx/make.ts";

const python = process.env.ROWMAJOR_PYTHON || "python3";
const { status } = spawnSync(python, ["-c", "import tritonclient.http"]);
const WITH_CLIENT = {
  skip: status !== 0 && "needs Python with tritonclient[http]; ROWMAJOR_PYTHON names one",
};

const DTYPES: Record<string, string> = {
  ...{ BOOL: "bool", FP16: "float16", FP32: "float32", FP64: "float64", BYTES: "string" },
};
const DATATYPES = "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 BYTES"
  .split(" ");

test("inference: tritonclient gets its answers, in JSON and in binary", WITH_CLIENT, async () => {
  using onnx = await open(makeModel({
    inputs: [["x", "float32", ["rows", 2]]],
    outputs: [["y", "float32", ["rows", 2]]],
    nodes: [["Mul", ["x", "two"], ["h"]], ["Add", ["h", "one"], ["z"]], ["Relu", ["z"], ["y"]]],
    tensors: [floats("two", [1], [2]), floats("one", [1], [1])],
  }));
  const same = DATATYPES.map((datatype): [string, InferenceModels[string]] => {
    const dtype = DTYPES[datatype] ?? datatype.toLowerCase();
    const inputs = [{ name: "x", dtype }], outputs = [{ name: "y", dtype }];
    return [datatype, { inputs, outputs, run: ({ x }: { x: Value }) => ({ y: x }) }];
  });
  const models = { ...Object.fromEntries(same), onnx: { model: onnx, batch: { most: 16 } } };
  const listener = listen(inference({ models }).fetch, {
    ...{ hostname: "127.0.0.1", port: 0, maxBodyBytes: 1e6, idleSeconds: 30 },
  });
  try {
    const child = spawn(python, [join(root, "tests", "serve", "triton.py"), `${listener.port}`]);
    let text = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (part: string) => text += part);
    }
    const code = await new Promise((resolve) => child.on("close", resolve));
    assertEquals([code, text.trim()], [0, "113"], text);
  } finally {
    await listener.stop();
  }
});
