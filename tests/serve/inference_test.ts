/**
 * The Open Inference Protocol: metadata, datatypes in JSON and in binary, batches, limits, and what
 * hostile requests do.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { test } from "node:test";
import * as prom from "prom-client";
import {
  type AnyTensor,
  ArgumentError,
  IndexError,
  memory,
  OutOfMemoryError,
  type Tensor,
  tensor,
} from "../../mod.ts";
import { open, Strings, type Value } from "../../src/onnx/mod.ts";
import type { Service } from "../../src/serve/http/service.ts";
import { inference, type InferenceModels } from "../../src/serve/inference.ts";
import type { InferenceModel } from "../../src/serve/inference/model.ts";
import { floats, makeModel } from "../onnx/make.ts";

type Json = Record<string, unknown>;

const ALL = [
  ..."BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 BF16 FP32 FP64 BYTES".split(" "),
];
const DTYPES: Record<string, string> = {
  ...{ BOOL: "bool", FP16: "float16", BF16: "bfloat16", FP32: "float32", FP64: "float64" },
  BYTES: "string",
};
const dtypeOf = (datatype: string) => DTYPES[datatype] ?? datatype.toLowerCase();

/** A model for each datatype that returns its input. */
const SAME: InferenceModels = Object.fromEntries(ALL.map((datatype) => {
  const spec = { dtype: dtypeOf(datatype), shape: undefined };
  const run = ({ x }: Record<string, Value>) => ({ y: x });
  return [datatype, {
    inputs: [{ name: "x", ...spec }],
    outputs: [{ name: "y", ...spec }],
    run,
  }];
}));

/** y = 2 x, for x of any rows of 2, and what it got. */
function doubling(run?: (x: Tensor) => AnyTensor | Promise<AnyTensor>) {
  const shapes: number[][] = [];
  const model: InferenceModel = {
    inputs: [{ name: "x", dtype: "float32", shape: ["rows", 2] }],
    outputs: [{ name: "y", dtype: "float32", shape: ["rows", 2] }],
    run: async ({ x }: { x: Tensor }) => {
      shapes.push([...x.shape]);
      return { y: await (run?.(x) ?? x.mul(2)) };
    },
  };
  return { model, shapes };
}

function post(
  service: Service,
  model: string,
  body: unknown,
  headers: Record<string, string> = { "content-type": "application/json" },
): Promise<Response> {
  const isRaw = typeof body === "string" || body instanceof Uint8Array;
  return service.fetch(
    new Request(`http://localhost/v2/models/${model}/infer`, {
      method: "POST",
      headers,
      body: isRaw ? body as string : JSON.stringify(body),
    }),
  );
}

async function get(service: Service, path: string): Promise<[number, Json]> {
  const response = await service.fetch(new Request(`http://localhost${path}`));
  return [response.status, await response.json()];
}

/** The rows of x as a request. */
const rows = (...data: number[][]) => ({
  inputs: [{ name: "x", datatype: "FP32", shape: [data.length, 2], data }],
});

/** The data of the only output of an answer with status 200. */
async function dataOf(response: Response | Promise<Response>): Promise<unknown> {
  const answer = await response;
  const text = await answer.text();
  assertEquals(answer.status, 200, text);
  const { outputs } = JSON.parse(text);
  assertEquals(outputs.length, 1);
  return outputs[0].data;
}

test("inference: the service and its models tell what they are", async () => {
  const { model } = doubling();
  const service = inference({ models: { double: { model, version: "7" }, ...SAME } });
  const [status, server] = await get(service, "/v2");
  assertEquals([status, server.name], [200, "rowmajor"]);
  assertEquals(server.extensions, ["binary_tensor_data"]);
  assertEquals(await get(service, "/v2/health/live"), [200, { live: true }]);
  assertEquals(await get(service, "/v2/health/ready"), [200, { ready: true }]);
  const metadata = {
    name: "double",
    versions: ["7"],
    platform: "rowmajor_program",
    inputs: [{ name: "x", datatype: "FP32", shape: [-1, 2] }],
    outputs: [{ name: "y", datatype: "FP32", shape: [-1, 2] }],
  };
  assertEquals(await get(service, "/v2/models/double"), [200, metadata]);
  assertEquals(await get(service, "/v2/models/double/versions/7"), [200, metadata]);
  const ready = [200, { name: "double", ready: true }];
  assertEquals(await get(service, "/v2/models/double/ready"), ready as [number, Json]);
  assertEquals(await get(service, "/v2/models/double/versions/7/ready"), ready as [number, Json]);
  for (const path of ["/v2/models/none", "/v2/models/double/versions/1", "/v2/models/none/ready"]) {
    const [status, { error }] = await get(service, path);
    assertEquals(status, 404, path);
    assert(typeof error === "string", path);
  }
  assertEquals((await get(service, "/v2/nothing"))[1], { error: "there is nothing at this path" });
  const other = await post(service, "double/versions/1", rows([1, 2]));
  assertEquals([other.status, await other.json()], [
    404,
    { error: 'model "double" has no version "1"' },
  ]);
  const answer = await post(service, "double/versions/7", {
    ...rows([1, 2], [3, 4]),
    id: "a",
    parameters: { tag: 5 },
  });
  assertEquals(await answer.json(), {
    model_name: "double",
    model_version: "7",
    id: "a",
    parameters: { tag: 5 },
    outputs: [{ name: "y", datatype: "FP32", shape: [2, 2], data: [2, 4, 6, 8] }],
  });
});

test("inference: each datatype goes through JSON exactly, flat and nested", async () => {
  const service = inference({ models: SAME });
  // Each as the text of four elements.
  const table: [datatype: string, elements: string[], given?: string[]][] = [
    ["BOOL", ["true", "false", "false", "true"]],
    ["UINT8", ["0", "255", "1", "7"]],
    ["UINT16", ["0", "65535", "1", "7"]],
    ["UINT32", ["0", "4294967295", "1", "7"]],
    ["UINT64", ["0", "18446744073709551615", "9007199254740993", "7"]],
    ["INT8", ["-128", "127", "0", "-1"]],
    ["INT16", ["-32768", "32767", "0", "-1"]],
    ["INT32", ["-2147483648", "2147483647", "0", "-1"]],
    ["INT64", ["-9223372036854775808", "9223372036854775807", "-9007199254740993", "5"]],
    ["INT64", ["9007199254740993", "5", "-7", "100"], ['"9007199254740993"', "5", '"-7"', "1e2"]],
    ["FP16", ["0.5", "65504", "-1.5", '"NaN"']],
    ["BF16", ["0.5", "256", "-1.5", '"Infinity"']],
    ["FP32", ["0.5", "16777216", '"-Infinity"', '"NaN"']],
    ["FP32", ["3.4028234663852886e+38", "1", "2", "3"], ["3.4028235e38", "1", "2", "3"]],
    ["FP64", ["0.1", "12345678901234568", '"NaN"', '"-Infinity"']],
    ["BYTES", ['""', '"a\\"b"', '"1234567890123456789"', '"h\u00e9 \\n {[,"']],
  ];
  for (const [datatype, elements, given = elements] of table) {
    const [a, b, c, d] = given;
    for (const data of [`[${given}]`, `[[${a},${b}],[${c},${d}]]`]) {
      const head = `{"name":"x","datatype":"${datatype}","shape":[2,2],"data":`;
      const response = await post(service, datatype, `{"inputs":[${head}${data}}]}`);
      const text = await response.text();
      assertEquals(response.status, 200, text);
      assertStringIncludes(text, `"shape":[2,2],"data":[${elements}]}]}`);
    }
  }
  // A tensor of rank 0, and one without elements.
  const one = { inputs: [{ name: "x", datatype: "INT64", shape: [], data: [5] }] };
  assertEquals(await dataOf(post(service, "INT64", one)), [5]);
  for (const data of [[], [[], []]]) {
    const none = { inputs: [{ name: "x", datatype: "FP32", shape: [2, 0], data }] };
    assertEquals(await dataOf(post(service, "FP32", none)), []);
  }
});

test("inference: long integers are exact beside texts with quotes and digits", async () => {
  const service = inference({ models: SAME });
  const wide = "9007199254740993";
  const texts = ["", wide, `"${wide}`, `\\`, `\\" ${wide}`, `\\\\"${wide}`, `"`, `\n${wide}\\`];
  const inputs = `[{"name":"x","datatype":"INT64","shape":[2],"data":[${wide},-${wide}]}]`;
  const parameters = Object.fromEntries(texts.map((text, i) => [`${i}`, text]));
  const body = `{"inputs":${inputs},"parameters":${JSON.stringify(parameters)}}`;
  const answer = await (await post(service, "INT64", body)).text();
  assertStringIncludes(answer, `"data":[${wide},-${wide}]`);
  assertEquals(JSON.parse(answer).parameters, parameters);
  // A text of escapes takes no longer than others.
  const long = async (text: string): Promise<number> => {
    const begin = performance.now();
    const body = `{"inputs":${inputs},"parameters":{"a":"${text}"}}`;
    assertEquals((await post(service, "INT64", body)).status, 200);
    return performance.now() - begin;
  };
  const least = async (text: string) => Math.min(await long(text), await long(text));
  const plain = await least("ab".repeat(1_900_000));
  const escaped = await least("\\n".repeat(1_900_000));
  assert(escaped < 20 * plain + 200, `${escaped} ms, ${plain} ms for plain text`);
});

/** A request with binary data behind its JSON. */
function binary(json: Json, ...data: Uint8Array[]): [Uint8Array, Record<string, string>] {
  const head = new TextEncoder().encode(JSON.stringify(json));
  const body = new Uint8Array([...head, ...data.flatMap((part) => [...part])]);
  return [body, { "inference-header-content-length": `${head.length}` }];
}

/** The JSON of an answer, and the binary data behind it. */
async function parts(response: Response): Promise<[Json, Uint8Array]> {
  const bytes = new Uint8Array(await response.arrayBuffer());
  assertEquals(response.status, 200, new TextDecoder().decode(bytes));
  const length = Number(response.headers.get("inference-header-content-length") ?? bytes.length);
  return [
    JSON.parse(new TextDecoder().decode(bytes.subarray(0, length))),
    bytes.subarray(length),
  ];
}

test("inference: each datatype goes through the binary extension, bit by bit", async () => {
  const service = inference({ models: SAME });
  for (const datatype of ALL) {
    const size = { BOOL: 1, BYTES: 0, BF16: 2 }[datatype] ?? Number(/\d+/.exec(datatype)![0]) / 8;
    const bytes = datatype === "BYTES"
      ? Uint8Array.of(0, 0, 0, 0, 3, 0, 0, 0, 0xc3, 0xa9, 65, 1, 0, 0, 0, 66)
      : Uint8Array.from({ length: 3 * size }, (_, i) => datatype === "BOOL" ? i & 1 : 37 * i + 1);
    const input = {
      name: "x",
      datatype,
      shape: [3],
      parameters: { binary_data_size: bytes.length },
    };
    const response = await post(
      service,
      datatype,
      ...binary({ inputs: [input], parameters: { binary_data_output: true } }, bytes),
    );
    assertEquals(response.headers.get("content-type"), "application/octet-stream");
    const [json, data] = await parts(response);
    assertEquals(json.outputs, [{ ...input, name: "y" }]);
    assertEquals(data, bytes, datatype);
    assert(!("parameters" in json));
  }
  // Binary in, JSON out; other bytes of a bool are true; and the reverse.
  const input = { name: "x", datatype: "BOOL", shape: [3], parameters: { binary_data_size: 3 } };
  const [json] = await parts(
    await post(service, "BOOL", ...binary({ inputs: [input] }, Uint8Array.of(0, 2, 1))),
  );
  assertEquals((json.outputs as Json[])[0]!.data, [false, true, true]);
  const [, data] = await parts(
    await post(service, "INT16", {
      inputs: [{ name: "x", datatype: "INT16", shape: [2], data: [-1, 258] }],
      outputs: [{ name: "y", parameters: { binary_data: true } }],
    }),
  );
  assertEquals([...data], [255, 255, 2, 1]);
});

test("inference: an ONNX model answers as it does when it is called, in batches too", async () => {
  using model = await open(makeModel({
    inputs: [["x", "float32", ["rows", 2]]],
    outputs: [["y", "float32", ["rows", 3]], ["z", "float32", ["rows", 3]]],
    nodes: [["Gemm", ["x", "w", "b"], ["z"]], ["Relu", ["z"], ["y"]]],
    tensors: [floats("w", [2, 3], [1, 0, -1, 2, 1, 0]), floats("b", [3], [0, 1, 2])],
  }));
  const service = inference(
    { models: { plain: model, batched: { model, batch: { most: 16 } } } },
    { metrics: prom },
  );
  const [, metadata] = await get(service, "/v2/models/plain");
  assertEquals(metadata.platform, "rowmajor_onnx");
  const expected = (x: number[][]) =>
    x.flatMap(([a, b]) => [a! + 2 * b!, b! + 1, 2 - a!].map((one) => Math.max(one, 0)));
  const outputs = [{ name: "y" }];
  await Promise.all(
    ["plain", "batched"].flatMap((name) =>
      Array.from({ length: 20 }, async (_, i) => {
        const x = Array.from({ length: 1 + i % 3 }, (_, k) => [i, k - i]);
        const response = post(service, name, { ...rows(...x), outputs });
        assertEquals(await dataOf(response), expected(x));
      })
    ),
  );
  const both = await (await post(service, "batched", rows([5, 1], [0, 0], [1, 1]))).json();
  assertEquals(both.outputs, [
    { name: "y", datatype: "FP32", shape: [3, 3], data: [7, 2, 0, 0, 1, 2, 3, 2, 1] },
    { name: "z", datatype: "FP32", shape: [3, 3], data: [7, 2, -3, 0, 1, 2, 3, 2, 1] },
  ]);
  const { body } = await service.fetch(new Request("http://localhost/metrics"));
  const text = await new Response(body).text();
  assertMatch(text, /rowmajor_inference_batch_size_count\{model="plain"\} 20\n/);
  assertMatch(text, /rowmajor_inference_batch_size_sum\{model="batched"\} 42\n/);
  assertMatch(text, /rowmajor_inference_seconds_count\{model="batched"\} [34]\n/);
  assertMatch(text, /rowmajor_inference_waiting\{model="batched"\} 0\n/);
});

test("inference: requests of one shape are one run, padded to a power of two", async () => {
  const { model, shapes } = doubling();
  const batch = { most: 8, waitMs: 20 };
  const service = inference({ models: { double: { model, batch } } });
  const asked = [[1, 2], [3, 4], [5, 6]].map((row) => dataOf(post(service, "double", rows(row))));
  assertEquals(await Promise.all(asked), [[2, 4], [6, 8], [10, 12]]);
  assertEquals(shapes, [[4, 2]]);
  const stats = { waiting: 0, running: 0, batches: 1, items: 3 };
  assertEquals(service.stats["models"], { double: stats });
  // A request with more rows than a batch runs alone.
  const large = Array.from({ length: 11 }, (_, i) => [i, i]);
  const [, many] = await Promise.all([
    dataOf(post(service, "double", rows([1, 1]))),
    dataOf(post(service, "double", rows(...large))),
  ]);
  assertEquals(many, large.flat().map((one) => 2 * one));
  assertEquals(shapes.slice(1), [[1, 2], [11, 2]]);

  // Along another axis, with other sizes that vary.
  const seen: number[][] = [];
  const sums: InferenceModel = {
    inputs: [{ name: "x", dtype: "int32", shape: [2, "columns", "batch"] }],
    outputs: [{ name: "y", dtype: "int64", shape: ["columns", "batch"] }],
    run: ({ x }: { x: Tensor<"int32"> }) => {
      seen.push([...x.shape]);
      return { y: x.sum(0) };
    },
  };
  assertThrows(
    () => inference({ models: { sums: { model: sums, batch: { axis: 2 } } } }),
    ArgumentError,
    '"y" has no axis 2',
  );
  const along: InferenceModel = {
    ...sums,
    outputs: [{ name: "y", dtype: "int32", shape: [2, "columns", "batch"] }],
    run: ({ x }: { x: Tensor<"int32"> }) => {
      seen.push([...x.shape]);
      return { y: x.add(1) };
    },
  };
  const other = inference({ models: { m: { model: along, batch: { axis: 2, waitMs: 20 } } } });
  const ask = (columns: number, batch: number) => {
    const data = Array.from({ length: 2 * columns * batch }, (_, i) => i);
    const shape = [2, columns, batch];
    return dataOf(post(other, "m", { inputs: [{ name: "x", datatype: "INT32", shape, data }] }));
  };
  assertEquals(await Promise.all([ask(1, 1), ask(2, 2), ask(1, 2)]), [
    [1, 2],
    [1, 2, 3, 4, 5, 6, 7, 8],
    [1, 2, 3, 4],
  ]);
  assertEquals(seen, [[2, 1, 4], [2, 2, 2]]);
});

test("inference: inputs that fail fail alone, though they came with others", async (t) => {
  const logged = t.mock.method(console, "error", () => {});
  const { model, shapes } = doubling((x) => {
    const values = x.toTypedArray();
    if (values.includes(-1)) throw new IndexError("Cannot take -1: there is no such row");
    if (values.includes(-2)) throw new Error("secret of /home/model.ts");
    if (values.includes(-3)) throw new OutOfMemoryError(1e12, "cpu");
    return x.mul(2);
  });
  const service = inference({ models: { double: { model, batch: { waitMs: 20 } } } });
  const answers = await Promise.all(
    [1, -1, 2, -2, 3, -3].map((one) => post(service, "double", rows([one, one]))),
  );
  const bodies = await Promise.all(answers.map((answer) => answer.json()));
  assertEquals(answers.map(({ status }) => status), [200, 400, 200, 500, 200, 503]);
  assertEquals(bodies[2].outputs[0].data, [4, 4]);
  assertEquals(bodies[1], { error: "Cannot take -1: there is no such row" });
  assertEquals(bodies[3], { error: "the server failed" });
  assertEquals([shapes.length, logged.mock.callCount()], [7, 1]);
  // A model without an output is the server's fault.
  const none = inference({ models: { none: { ...model, run: () => ({}) } } });
  assertEquals((await post(none, "none", rows([1, 2]))).status, 500);
});

test("inference: what is no request is refused before memory is taken", async () => {
  const { model, shapes } = doubling();
  const named: InferenceModel = {
    ...model,
    inputs: [{ name: "x", dtype: "int64", shape: ["batch", "length"] }],
  };
  const service = inference({
    models: { ...SAME, double: model, named: { model: named, sizes: { length: 8 } } },
  }, { limits: { bodyBytes: 20_000 } });
  const input = (fields: Json) => ({
    inputs: [{ name: "x", datatype: "FP32", shape: [1, 2], data: [1, 2], ...fields }],
  });
  const wide = (name: string, data: string) =>
    `{"inputs":[{"name":"x","datatype":"${name}","shape":[1],"data":${data}}]}`;
  const escapes = `{"inputs":"${'\\"'.repeat(9000)}`;
  const table: [body: unknown, status: number, said: string, model?: string][] = [
    ["", 400, "not JSON"],
    ["[".repeat(19_000), 400, "not JSON"],
    [escapes, 400, "not JSON"],
    [`${escapes}1234567890123456`, 400, "not JSON"],
    [Uint8Array.of(0x7b, 0xff, 0x7d), 400, "not UTF-8"],
    ["[]", 400, "the body is an array"],
    ["null", 400, "the body is null"],
    [{}, 400, "inputs is undefined"],
    [{ inputs: {} }, 400, "inputs is an object"],
    [{ inputs: [] }, 400, 'input "x" is missing'],
    [{ inputs: [5] }, 400, "an input is 5"],
    [{ inputs: [...rows([1, 2]).inputs, ...rows([1, 2]).inputs] }, 400, "given twice"],
    [input({ name: "q" }), 400, 'no input "q"'],
    [input({ name: "__proto__" }), 400, 'no input "__proto__"'],
    [input({ datatype: "INT64" }), 400, 'input "x" is FP32, not "INT64"'],
    [input({ datatype: undefined }), 400, "not undefined"],
    [input({ shape: undefined }), 400, "shape undefined"],
    [input({ shape: "1,2" }), 400, 'shape "1,2"'],
    [input({ shape: [2] }), 400, "[2]: it is [rows, 2]"],
    [input({ shape: [1, 3] }), 400, "[1, 3]: it is [rows, 2]"],
    [input({ shape: [-1, 2] }), 400, "a size of -1"],
    [input({ shape: [1.5, 2] }), 400, "a size of 1.5"],
    [input({ shape: [1e15, 2] }), 400, "fewer elements in the body"],
    [input({ shape: [2 ** 53 - 1, 2] }), 400, "too large"],
    [input({ shape: [1e6, 2] }), 400, "fewer elements in the body"],
    [input({ shape: [2, 2] }), 400, "1 along axis 1, where data have 2"],
    [input({ shape: Array(65).fill(1) }), 400, "shape an array"],
    [input({ data: undefined }), 400, "data undefined"],
    [input({ data: [1] }), 400, "flat data have 2 elements"],
    [input({ data: [[1, 2], [3, 4]] }), 400, "an array of 2 along axis 0"],
    [input({ data: [[1, [2]]] }), 400, "element 1"],
    [input({ data: [[[1], 2]] }), 400, "element 0"],
    [input({ data: [[[1, 2], 3, 4]] }), 400, "an array of 3 along axis 1"],
    [input({ data: [1, "2"] }), 400, 'element 1 of input "x" is "2"'],
    [input({ data: [1, null] }), 400, "is null"],
    [input({ data: [1, true] }), 400, "is true"],
    [wide("FP32", "[1e999]"), 400, "no FP32", "FP32"],
    [wide("FP32", "[1e39]"), 400, "no FP32", "FP32"],
    [wide("FP16", "[65520]"), 400, "no FP16", "FP16"],
    [wide("UINT8", "[256]"), 400, "is 256, which is no UINT8", "UINT8"],
    [wide("INT8", "[1.5]"), 400, "no INT8", "INT8"],
    [wide("INT64", "[9223372036854775808]"), 400, "no INT64", "INT64"],
    [wide("INT64", "[9007199254740993.0]"), 400, "no INT64", "INT64"],
    [wide("INT64", `[${"9".repeat(5000)}]`), 400, "no INT64", "INT64"],
    [wide("UINT64", "[-1]"), 400, "no UINT64", "UINT64"],
    [wide("BOOL", "[1]"), 400, "no BOOL", "BOOL"],
    [wide("BYTES", "[1]"), 400, "no BYTES", "BYTES"],
    [{ ...rows([1, 2]), id: 5 }, 400, "id is 5"],
    [{ ...rows([1, 2]), id: "a".repeat(257) }, 400, "id is"],
    [{ ...rows([1, 2]), parameters: [] }, 400, "parameters of the request"],
    [{ ...rows([1, 2]), parameters: { a: [1] } }, 400, 'parameter "a" is an array'],
    [`{"parameters":{"a":${"[".repeat(9000)}${"]".repeat(9000)}}}`, 400, "is an array"],
    [{ ...rows([1, 2]), parameters: { binary_data_output: 1 } }, 400, "binary_data_output is 1"],
    [{ ...rows([1, 2]), outputs: 5 }, 400, "outputs is 5"],
    [{ ...rows([1, 2]), outputs: [{ name: "x" }] }, 400, 'no output "x"'],
    [{ ...rows([1, 2]), outputs: [{ name: "y" }, { name: "y" }] }, 400, "named twice"],
    [
      { ...rows([1, 2]), outputs: [{ name: "y", parameters: { classification: 3 } }] },
      400,
      '"classification", which is not supported',
    ],
    [
      { inputs: [{ name: "x", datatype: "INT64", shape: [1, 9], data: Array(9).fill(0) }] },
      400,
      'length of input "x" is 9: at most 8 is taken',
      "named",
    ],
    [
      { inputs: [{ name: "x", datatype: "FP32", shape: [1e9, 0], data: [] }] },
      400,
      "too large",
      "FP32",
    ],
    [rows(...Array(9000).fill([0, 0])), 413, "too large"],
    [rows([1, 2]), 404, 'no model "other"', "other"],
    [rows([1, 2]), 404, "no model", "..%2f..%2fetc"],
  ];
  const before = memory().bytes;
  for (const [body, status, said, model = "double"] of table) {
    const response = await post(service, model, body);
    const { error } = await response.json();
    assertStringIncludes(error, said);
    assertEquals(response.status, status, error);
    assert(error.length < 300 && !/\.ts\b/.test(error), error);
  }
  const size = (length: number, more: Json = {}) => ({
    inputs: [{
      ...{ name: "x", datatype: "FP32", shape: [1, 2], parameters: { binary_data_size: length } },
      ...more,
    }],
  });
  const eight = new Uint8Array(8);
  const [whole] = binary(size(8), eight);
  const binaries: [body: Uint8Array, header: string | undefined, said: string, model?: string][] = [
    [binary(size(7), eight.subarray(1))[0], undefined, "has 7 bytes, where FP32 has 8"],
    [binary(size(9), eight)[0], undefined, "where 8 bytes are left"],
    [binary(size(-1), eight)[0], undefined, "is -1"],
    [binary(size(8), new Uint8Array(9))[0], undefined, "1 bytes of the body belong to no input"],
    [binary(size(8, { data: [1, 2] }), eight)[0], undefined, "data and binary_data_size"],
    [whole, `${whole.length + 1}`, "the body has"],
    [whole, "-1", 'is "-1"'],
    [whole, "1e1", 'is "1e1"'],
    [whole, "3", "not JSON"],
  ];
  const head = { name: "x", datatype: "BYTES", shape: [1] };
  const text = (...bytes: number[]) =>
    binary(
      { inputs: [{ ...head, parameters: { binary_data_size: bytes.length } }] },
      Uint8Array.from(bytes),
    )[0];
  binaries.push(
    [text(1, 0, 0), undefined, "end within a text", "BYTES"],
    [text(255, 255, 255, 255, 65), undefined, "end within a text", "BYTES"],
    [text(1, 0, 0, 0, 255), undefined, "not UTF-8", "BYTES"],
    [text(), undefined, "another number of texts", "BYTES"],
    [text(0, 0, 0, 0, 0, 0, 0, 0), undefined, "another number of texts", "BYTES"],
  );
  for (const [body, header, said, model = "double"] of binaries) {
    const own = `${new TextDecoder("latin1").decode(body).lastIndexOf("}") + 1}`;
    const headers = { "inference-header-content-length": header ?? own };
    const response = await post(service, model, body, headers);
    const { error } = await response.json();
    assertStringIncludes(error, said);
    assertEquals(response.status, 400, error);
  }
  for (
    const headers of [
      { "content-type": "text/plain" },
      { "content-type": "application/octet-stream" },
      { "content-type": "application/json", "content-encoding": "gzip" },
    ] as Record<string, string>[]
  ) {
    const response = await post(service, "double", JSON.stringify(rows([1, 2])), headers);
    assertEquals([response.status, typeof (await response.json()).error], [415, "string"]);
  }
  assertEquals(shapes, [], "nothing of it reached a model");
  assert(memory().bytes - before < 1e5, "tensors of refused requests were not freed");
});

test("inference: beyond its queue a model answers 503, and a client that is gone leaves it", async () => {
  const gates: (() => void)[] = [];
  const { model, shapes } = doubling((x) =>
    new Promise((resolve) => void gates.push(() => resolve(x.mul(2))))
  );
  const service = inference({ models: { double: { model, queue: 2 } } });
  const wait = async (count: number) => {
    while (gates.length < count) await new Promise((resolve) => setTimeout(resolve, 1));
  };
  const first = dataOf(post(service, "double", rows([1, 1])));
  await wait(1);
  const second = dataOf(post(service, "double", rows([2, 2])));
  const gone = new AbortController();
  const third = service.fetch(
    new Request("http://localhost/v2/models/double/infer", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(rows([3, 3])),
      signal: gone.signal,
    }),
  );
  await new Promise((resolve) => setTimeout(resolve, 5));
  const refused = await post(service, "double", rows([4, 4]));
  assertEquals([refused.status, refused.headers.get("retry-after")], [503, "1"]);
  assertEquals(await refused.json(), { error: "the queue is full" });
  gone.abort();
  assertEquals((await third).status, 499);
  const drained = service.drain();
  const [status] = await get(service, "/v2/health/ready");
  const late = await post(service, "double", rows([5, 5]));
  assertEquals([status, late.status, (await get(service, "/v2/models/double/ready"))[0]], [
    503,
    503,
    503,
  ]);
  assertEquals((await get(service, "/v2/health/live"))[0], 200);
  gates[0]!();
  await wait(2);
  gates[1]!();
  assertEquals(await Promise.all([first, second]), [[2, 2], [4, 4]]);
  await drained;
  assertEquals(shapes.length, 2);
});

test("inference: memory of tensors stays where it is", async () => {
  const { model } = doubling();
  const service = inference({ models: { double: { model, batch: { most: 8 } } } });
  const round = () =>
    Promise.all(Array.from({ length: 30 }, async (_, i) => {
      await (await post(service, "double", rows([i, i], [1, i]))).text();
    }));
  for (let i = 0; i < 5; i++) await round();
  const live = () => memory().bytes - memory().pooledBytes;
  const [used, { bytes }] = [live(), memory()];
  for (let i = 0; i < 20; i++) await round();
  assert(live() <= used, `${live() - used} bytes of tensors were not freed`);
  assert(memory().bytes - bytes < 1e6, `${memory().bytes - bytes} bytes more`);
});

test("inference: texts, optional inputs and integers of 4 bits", async () => {
  const model: InferenceModel = {
    inputs: [
      { name: "texts", dtype: "string", shape: ["n"] },
      { name: "small", dtype: "int4", shape: ["n"], kind: "optional" },
    ],
    outputs: [{ name: "upper", dtype: "string" }, { name: "sum", dtype: "int8", shape: [] }],
    run: ({ texts, small }: Record<string, Value>) => ({
      upper: new Strings((texts as Strings).data.map((text) => text.toUpperCase())),
      sum: small === undefined ? tensor(-1, { dtype: "int8" }) : (small as Tensor<"int8">).max(),
    }),
  };
  const service = inference({ models: { model } });
  const [, { inputs, outputs }] = await get(service, "/v2/models/model");
  assertEquals((inputs as Json[])[1], { name: "small", datatype: "INT8", shape: [-1] });
  assertEquals((outputs as Json[])[0], { name: "upper", datatype: "BYTES", shape: [-1] });
  const texts = { name: "texts", datatype: "BYTES", shape: [2], data: ["a", "straße"] };
  const alone = await (await post(service, "model", { inputs: [texts] })).json();
  assertEquals(
    alone.outputs?.map(({ data }: Json) => data),
    [["A", "STRASSE"], [-1]],
    JSON.stringify(alone),
  );
  const small = { name: "small", datatype: "INT8", shape: [2], data: [3, 7] };
  const both = await (await post(service, "model", { inputs: [texts, small] })).json();
  assertEquals(both.outputs[1].data, [7]);
});

test("inference: models and options that cannot be are errors", () => {
  const { model } = doubling();
  const table: [models: unknown, said: string][] = [
    [5, "Cannot serve models 5"],
    [[model], "Cannot serve models an array"],
    [{ "a/b": model }, 'model "a/b": its name'],
    [{ a: null }, "it is null"],
    [{ a: {} }, "no model"],
    [{ a: { ...model, run: 5 } }, "no model"],
    [{ a: { model, version: 1 } }, "its version is 1"],
    [{ a: { model, queue: 0 } }, "queue 0"],
    [{ a: { model, sizes: { columns: 5 } } }, "columns"],
    [{ a: { model, sizes: { rows: 0 } } }, "rows is 0"],
    [{ a: { model, batch: { axis: 1 } } }, '"x" has no axis 1'],
    [{ a: { model, batch: { axis: -1 } } }, '"x" has no axis -1'],
    [{ a: { model, batch: { most: 0 } } }, "most 0"],
    [{ a: { model, batch: { size: 3 } } }, "size"],
    [{ a: { model, other: 1 } }, "other"],
    [{ a: { ...model, inputs: 5 } }, "its inputs are 5"],
    [{ a: { ...model, inputs: [5] } }, "name undefined"],
    [{ a: { ...model, inputs: [...model.inputs, ...model.inputs] } }, 'name "x"'],
    [{ a: { ...model, inputs: [{ name: "x", dtype: "complex64" }] } }, '"complex64"'],
    [{ a: { ...model, inputs: [{ name: "x", dtype: "int8", shape: 5 }] } }, "shape 5"],
    [{ a: { ...model, inputs: [{ name: "x", dtype: "int8", shape: [1.5] }] } }, "size 1.5"],
    [{ a: { ...model, outputs: [{ name: "y", dtype: "int8", kind: "sequence" }] } }, "sequence"],
  ];
  for (const [models, said] of table) {
    const error = assertThrows(() => inference({ models: models as InferenceModels }));
    assertStringIncludes((error as Error).message, said);
    assert(/ArgumentError|TypeError/.test((error as Error).name), String(error));
  }
});
