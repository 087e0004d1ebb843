/**
 * Makes ONNX files in memory, by the writer of `@bufbuild/protobuf`.
 *
 * @module
 */
import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { toF16 } from "../../src/base/half.ts";

/** ONNX's numbers of element types. */
export const TYPES = {
  float32: 1,
  uint8: 2,
  int8: 3,
  int32: 6,
  int64: 7,
  string: 8,
  bool: 9,
  float16: 10,
} as const;

/** An input or output: its name, type and sizes. */
export type Info = readonly [
  name: string,
  type: keyof typeof TYPES,
  shape?: readonly (number | string)[],
];

/** An attribute: integers, a float, a text, a graph or a tensor. */
export type AttributeValue =
  | readonly number[]
  | { readonly int: number }
  | { readonly float: number }
  | { readonly text: string }
  | { readonly graph: GraphParts }
  | { readonly tensor: TensorParts };

/** A tensor in a file. */
export interface TensorParts {
  readonly name?: string;
  readonly type: keyof typeof TYPES;
  readonly dims: readonly number[];
  readonly raw?: Uint8Array;
  readonly external?: Readonly<Record<string, string>>;
}

/** A node: `[op, inputs, outputs, attributes, domain]`. */
export type NodeParts = readonly [
  op: string,
  inputs: readonly string[],
  outputs: readonly string[],
  attributes?: Readonly<Record<string, AttributeValue>>,
  domain?: string,
];

/** A graph. */
export interface GraphParts {
  readonly nodes: readonly NodeParts[];
  readonly inputs?: readonly Info[];
  readonly outputs: readonly Info[];
  readonly tensors?: readonly TensorParts[];
}

type Write = (writer: BinaryWriter) => void;

const field = (writer: BinaryWriter, number: number, write: Write): void => {
  writer.tag(number, 2).fork();
  write(writer);
  writer.join();
};

/** float32 elements as a tensor. */
export function floats(
  name: string,
  dims: readonly number[],
  data: readonly number[],
): TensorParts {
  return { name, type: "float32", dims, raw: new Uint8Array(Float32Array.from(data).buffer) };
}

/** float16 elements as a tensor. */
export function halves(
  name: string,
  dims: readonly number[],
  data: readonly number[],
): TensorParts {
  return { name, type: "float16", dims, raw: new Uint8Array(Uint16Array.from(data, toF16).buffer) };
}

/** int64 elements as a tensor. */
export function int64s(name: string, data: readonly number[], dims = [data.length]): TensorParts {
  const raw = new Uint8Array(BigInt64Array.from(data, BigInt).buffer);
  return { name, type: "int64", dims, raw };
}

function writeTensor(writer: BinaryWriter, parts: TensorParts): void {
  const { name = "", type, dims, raw, external } = parts;
  for (const n of dims) writer.tag(1, 0).int64(BigInt(n));
  writer.tag(2, 0).int32(TYPES[type]);
  writer.tag(8, 2).string(name);
  if (raw !== undefined) writer.tag(9, 2).bytes(raw);
  for (const [key, value] of Object.entries(external ?? {})) {
    field(writer, 13, (entry) => entry.tag(1, 2).string(key).tag(2, 2).string(value));
  }
  if (external !== undefined) writer.tag(14, 0).int32(1);
}

function writeInfo(writer: BinaryWriter, [name, type, shape]: Info): void {
  writer.tag(1, 2).string(name);
  field(writer, 2, (value) =>
    field(value, 1, (tensor) => {
      tensor.tag(1, 0).int32(TYPES[type]);
      if (shape === undefined) return;
      field(tensor, 2, (sizes) => {
        for (const size of shape) {
          field(sizes, 1, (dimension) => {
            if (typeof size === "number") dimension.tag(1, 0).int64(BigInt(size));
            else dimension.tag(2, 2).string(size);
          });
        }
      });
    }));
}

function writeAttribute(writer: BinaryWriter, name: string, value: AttributeValue): void {
  writer.tag(1, 2).string(name);
  const type = (kind: number): BinaryWriter => writer.tag(20, 0).int32(kind);
  if ("int" in value) {
    type(2).tag(3, 0).int64(BigInt(value.int));
  } else if ("float" in value) type(1).tag(2, 5).float(value.float);
  else if ("text" in value) type(3).tag(4, 2).bytes(new TextEncoder().encode(value.text));
  else if ("graph" in value) field(type(5), 6, (graph) => writeGraph(graph, value.graph));
  else if ("tensor" in value) field(type(4), 5, (tensor) => writeTensor(tensor, value.tensor));
  else {
    type(7);
    for (const n of value) writer.tag(8, 0).int64(BigInt(n));
  }
}

function writeNode(
  writer: BinaryWriter,
  [op, inputs, outputs, attributes = {}, domain]: NodeParts,
): void {
  for (const name of inputs) writer.tag(1, 2).string(name);
  for (const name of outputs) writer.tag(2, 2).string(name);
  writer.tag(4, 2).string(op);
  for (const [name, value] of Object.entries(attributes)) {
    field(writer, 5, (attribute) => writeAttribute(attribute, name, value));
  }
  if (domain !== undefined) writer.tag(7, 2).string(domain);
}

function writeGraph(writer: BinaryWriter, parts: GraphParts): void {
  const { nodes, inputs = [], outputs, tensors = [] } = parts;
  for (const node of nodes) field(writer, 1, (one) => writeNode(one, node));
  writer.tag(2, 2).string("graph");
  for (const tensor of tensors) field(writer, 5, (one) => writeTensor(one, tensor));
  for (const info of inputs) field(writer, 11, (one) => writeInfo(one, info));
  for (const info of outputs) field(writer, 12, (one) => writeInfo(one, info));
}

/** The bytes of a model with a graph. */
export function makeModel(graph: GraphParts, opset = 21): Uint8Array {
  const writer = new BinaryWriter();
  writer.tag(1, 0).int64(10n);
  field(writer, 7, (one) => writeGraph(one, graph));
  field(writer, 8, (one) => one.tag(1, 2).string("").tag(2, 0).int64(BigInt(opset)));
  field(writer, 14, (one) => one.tag(1, 2).string("author").tag(2, 2).string("a test"));
  return writer.finish();
}
