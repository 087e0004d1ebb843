/**
 * Requests and answers of the Open Inference Protocol, in JSON and with its binary extension.
 *
 * @module
 */
import { describe } from "../../base/text.ts";
import type { Value } from "../../onnx/graph/values.ts";
import { scope } from "../../tensor/tensor.ts";
import { badRequest, HttpError } from "../http/http_error.ts";
import { SAFE_HEADERS } from "../http/service.ts";
import { readBinary, readJson, readResult } from "./datatypes.ts";
import { checkInput, type TensorSpec } from "./model.ts";

/** The header with the number of bytes of JSON before binary data. */
export const LENGTH_HEADER = "inference-header-content-length";

const MAX_ID = 256;

type Fields = Readonly<Record<string, unknown>>;

/** An output that a request asks for. */
interface Asked {
  readonly name: string;
  readonly isBinary: boolean;
}

/** A request, checked. */
export interface InferenceRequest {
  readonly id: string | undefined;
  readonly parameters: Fields | undefined;
  /** The inputs by name: tensors of their own. */
  readonly feeds: Readonly<Record<string, Value>>;
  readonly outputs: readonly Asked[];
}

/** What a request is checked against. */
export interface RequestModel {
  readonly inputs: readonly TensorSpec[];
  readonly outputs: readonly TensorSpec[];
  /** The most of sizes by their names. */
  readonly most: Readonly<Record<string, number>>;
}

function fieldsOf(value: unknown, what: string): Fields {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Fields;
  throw badRequest(`${what} is ${describe(value)}: an object is expected`);
}

function parametersOf(value: unknown, what: string): Fields {
  return value === undefined ? {} : fieldsOf(value, `the parameters of ${what}`);
}

function flagOf(value: unknown, what: string): boolean | undefined {
  if (value === undefined || typeof value === "boolean") return value;
  throw badRequest(`${what} is ${describe(value)}: true or false is expected`);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Also for arrays nested too deeply to parse.
    throw badRequest("the body is not JSON");
  }
}

/**
 * JSON whose long integers are texts: numbers of JavaScript would round them. The text is JSON, so
 * that each string in it ends.
 */
function quoteLong(json: string): string {
  const number = /-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
  const outside = (begin: number, end?: number): string =>
    json.slice(begin, end)
      .replace(number, (one) => /^-?\d{16,}$/.test(one) ? `"${one}"` : one);
  let quoted = "", at = 0;
  // Not one expression for strings too: on those with many escapes it takes seconds in Bun.
  for (let begin = json.indexOf('"'); begin >= 0; begin = json.indexOf('"', at)) {
    let end = json.indexOf('"', begin + 1);
    while (isEscaped(json, end)) end = json.indexOf('"', end + 1);
    quoted += outside(at, begin) + json.slice(begin, end + 1);
    at = end + 1;
  }
  return quoted + outside(at);
}

/** Whether a quote of a string of JSON does not end it. */
function isEscaped(json: string, at: number): boolean {
  let before = at;
  while (json[before - 1] === "\\") before--;
  return (at - before) % 2 === 1;
}

/** The parts of a body: its JSON, and the binary data behind it. */
function splitBody(bytes: Uint8Array, header: string | null): { json: string; rest: Uint8Array } {
  const length = header === null ? bytes.length : Number(/^\d{1,15}$/.test(header) ? header : NaN);
  if (!(length <= bytes.length)) {
    throw badRequest(`${LENGTH_HEADER} is ${describe(header)}, the body has ${bytes.length} bytes`);
  }
  try {
    const json = new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, length));
    return { json, rest: bytes.subarray(length) };
  } catch {
    throw badRequest("the body is not UTF-8");
  }
}

/** Reads the outputs that a request asks for; by default all. */
function outputsOf(given: unknown, specs: readonly TensorSpec[], isBinary: boolean): Asked[] {
  if (given === undefined) return specs.map(({ name }) => ({ name, isBinary }));
  if (!Array.isArray(given)) throw badRequest(`outputs is ${describe(given)}: a list is expected`);
  const asked = new Map<string, Asked>();
  for (const one of given) {
    const { name, parameters } = fieldsOf(one, "an output");
    if (typeof name !== "string" || !specs.some((spec) => spec.name === name)) {
      throw badRequest(`the model has no output ${describe(name)}`);
    }
    if (asked.has(name)) throw badRequest(`output ${describe(name)} is named twice`);
    const what = `output ${describe(name)}`;
    const { binary_data, ...others } = parametersOf(parameters, what);
    const [unknown] = Object.keys(others);
    if (unknown !== undefined) {
      throw badRequest(`${what} has the parameter ${describe(unknown)}, which is not supported`);
    }
    asked.set(name, { name, isBinary: flagOf(binary_data, `binary_data of ${what}`) ?? isBinary });
  }
  return [...asked.values()];
}

/** The inputs of a request, each a tensor of its own. */
function feedsOf(
  json: string,
  given: unknown,
  rest: Uint8Array,
  { inputs, most }: RequestModel,
): Record<string, Value> {
  if (!Array.isArray(given)) throw badRequest(`inputs is ${describe(given)}: a list is expected`);
  let exact: readonly Fields[] | undefined;
  /** Data of integers of 64 bits with all of their digits. */
  const exactData = (i: number): unknown => {
    if (!/\d{16}/.test(json)) return given[i].data;
    exact ??= fieldsOf(parseJson(quoteLong(json)), "the body")["inputs"] as readonly Fields[];
    return exact[i]?.["data"];
  };
  const feeds = new Map<string, Value>();
  let at = 0;
  given.forEach((one, i) => {
    const { name, datatype, shape, data, parameters } = fieldsOf(one, "an input");
    const spec = inputs.find((input) => input.name === name);
    if (spec === undefined) throw badRequest(`the model has no input ${describe(name)}`);
    if (feeds.has(spec.name)) throw badRequest(`input ${describe(name)} is given twice`);
    const input = checkInput(spec, datatype, shape, most);
    const { binary_data_size: length } = parametersOf(parameters, input.what);
    if (length === undefined) {
      const isWide = spec.dtype === "int64" || spec.dtype === "uint64";
      feeds.set(spec.name, readJson(isWide ? exactData(i) : data, input, json.length));
      return;
    }
    if (data !== undefined) throw badRequest(`${input.what} has data and binary_data_size`);
    const isLength = typeof length === "number" && Number.isSafeInteger(length) && length >= 0;
    if (!isLength || length > rest.length - at) {
      throw badRequest(
        `binary_data_size of ${input.what} is ${describe(length)}, ` +
          `where ${rest.length - at} bytes are left`,
      );
    }
    feeds.set(spec.name, readBinary(rest.subarray(at, at += length), input));
  });
  if (at < rest.length) {
    throw badRequest(`${rest.length - at} bytes of the body belong to no input`);
  }
  for (const { name, isOptional } of inputs) {
    if (!isOptional && !feeds.has(name)) throw badRequest(`input ${describe(name)} is missing`);
  }
  return Object.fromEntries(feeds);
}

/** Reads a request; its inputs are tensors that the caller disposes of. */
export function readRequest(
  bytes: Uint8Array,
  header: string | null,
  model: RequestModel,
): InferenceRequest {
  const { json, rest } = splitBody(bytes, header);
  const { id, parameters, inputs, outputs } = fieldsOf(parseJson(json), "the body");
  if (id !== undefined && !(typeof id === "string" && id.length <= MAX_ID)) {
    throw badRequest(`id is ${describe(id)}: a text of at most ${MAX_ID} characters is expected`);
  }
  const { binary_data_output, ...others } = parametersOf(parameters, "the request");
  const isBinary = flagOf(binary_data_output, "binary_data_output") ?? false;
  for (const [name, value] of Object.entries(others)) {
    if (["string", "number", "boolean"].includes(typeof value)) continue;
    throw badRequest(
      `parameter ${describe(name)} is ${describe(value)}: a text, a number or a flag is expected`,
    );
  }
  return {
    id,
    parameters: Object.keys(others).length > 0 ? others : undefined,
    outputs: outputsOf(outputs, model.outputs, isBinary),
    feeds: scope(() => feedsOf(json, inputs, rest, model)),
  };
}

/** The answer with the values of outputs. */
export async function writeResponse(
  head: Readonly<Record<string, unknown>>,
  asked: readonly Asked[],
  values: Readonly<Record<string, unknown>>,
): Promise<Response> {
  const outputs: string[] = [];
  const binary: Uint8Array<ArrayBufferLike>[] = [];
  for (const { name, isBinary } of asked) {
    const result = await readResult(Object.hasOwn(values, name) ? values[name] : undefined);
    if (result === undefined) throw new Error(`the model returned no tensor ${describe(name)}`);
    const { datatype, shape } = result;
    if (isBinary) {
      const bytes = result.bytes();
      binary.push(bytes);
      const parameters = { binary_data_size: bytes.length };
      outputs.push(JSON.stringify({ name, datatype, shape, parameters }));
    } else {
      const text = JSON.stringify({ name, datatype, shape });
      outputs.push(`${text.slice(0, -1)},"data":${result.json()}}`);
    }
  }
  const json = `${JSON.stringify(head).slice(0, -1)},"outputs":[${outputs.join()}]}`;
  if (binary.length === 0) {
    return new Response(json, {
      headers: { ...SAFE_HEADERS, "content-type": "application/json" },
    });
  }
  const text = new TextEncoder().encode(json);
  const body = new Uint8Array(binary.reduce((sum, { length }) => sum + length, text.length));
  body.set(text);
  let at = text.length;
  for (const part of binary) {
    body.set(part, at);
    at += part.length;
  }
  return new Response(body, {
    headers: {
      ...SAFE_HEADERS,
      "content-type": "application/octet-stream",
      [LENGTH_HEADER]: `${text.length}`,
    },
  });
}

/** Refuses bodies of other kinds. */
export function checkContent(headers: Headers): void {
  const type = headers.get("content-type")?.replace(/;[^]*/, "").trim().toLowerCase();
  const isBinary = headers.has(LENGTH_HEADER);
  if (type === undefined || type === "application/json") return;
  if (isBinary && type === "application/octet-stream") return;
  throw new HttpError(415, "the body has to be application/json", {
    headers: { accept: "application/json, application/octet-stream" },
  });
}
