/**
 * The messages of ONNX files, read by the wire reader of `@bufbuild/protobuf`, which a program installs
 * itself.
 *
 * Only the fields that are used are read; others are skipped, as protobuf asks. Bytes of tensors stay
 * views of the input. Format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
 *
 * @module
 */
import { FormatError, PackageError } from "../../base/errors.ts";

/** A tensor in a file. */
export interface TensorMessage {
  name: string;
  dims: number[];
  /** Its element type: a number of the enum `DataType`. */
  type: number;
  /** The little-endian elements, if they are in one piece. */
  raw: Uint8Array | undefined;
  floats: number[] | Float32Array;
  doubles: number[];
  /** Elements of up to 32 bits, and the bits of float16 and bfloat16. */
  ints: number[];
  longs: bigint[];
  unsignedLongs: bigint[];
  strings: Uint8Array[];
  /** Where the elements are in another file. */
  external: Map<string, string>;
  isExternal: boolean;
}

/** A tensor of which the file lists the elements that are not 0. */
export interface SparseMessage {
  values: TensorMessage | undefined;
  indices: TensorMessage | undefined;
  dims: number[];
}

/** An attribute of a node. */
export interface AttributeMessage {
  name: string;
  /** A number of the enum `AttributeType`; 0 if the file does not have it. */
  type: number;
  float: number;
  int: number;
  string: Uint8Array;
  tensor: TensorMessage | undefined;
  sparse: SparseMessage | undefined;
  graph: GraphMessage | undefined;
  floats: number[] | Float32Array;
  ints: number[];
  strings: Uint8Array[];
  tensors: TensorMessage[];
  graphs: GraphMessage[];
  /** The attribute of the function around it that has the value. */
  reference: string;
}

/** A node. */
export interface NodeMessage {
  inputs: string[];
  outputs: string[];
  name: string;
  op: string;
  domain: string;
  attributes: AttributeMessage[];
}

/** What a value is. */
export interface TypeMessage {
  kind: "tensor" | "sequence" | "optional" | "other";
  /** The element type of a tensor. */
  type: number;
  /** The sizes of a tensor: numbers, names, or null; undefined if the file does not have them. */
  shape: (number | string | null)[] | undefined;
  /** What a sequence or an optional value has. */
  element: TypeMessage | undefined;
}

/** An input or an output. */
export interface ValueInfoMessage {
  name: string;
  type: TypeMessage | undefined;
}

/** A graph. */
export interface GraphMessage {
  nodes: NodeMessage[];
  name: string;
  initializers: TensorMessage[];
  sparse: SparseMessage[];
  inputs: ValueInfoMessage[];
  outputs: ValueInfoMessage[];
}

/** A function of the file: an op made of others. */
export interface FunctionMessage {
  name: string;
  domain: string;
  overload: string;
  inputs: string[];
  outputs: string[];
  /** The names of attributes that a call must give. */
  attributes: string[];
  /** The attributes that a call may give, with their values otherwise. */
  defaults: AttributeMessage[];
  nodes: NodeMessage[];
  opsets: Map<string, number>;
}

/** A file. */
export interface ModelMessage {
  irVersion: number;
  producer: string;
  producerVersion: string;
  graph: GraphMessage | undefined;
  opsets: Map<string, number>;
  metadata: Map<string, string>;
  functions: FunctionMessage[];
}

/** A sequence in a file of test data. */
export interface SequenceMessage {
  tensors: TensorMessage[];
  sequences: SequenceMessage[];
}

/** An optional value in a file of test data. */
export interface OptionalMessage {
  type: number;
  tensor: TensorMessage | undefined;
  sequence: SequenceMessage | undefined;
}

/** The part of the package's reader in use. */
interface WireReader {
  pos: number;
  readonly len: number;
  tag(): [field: number, wire: number];
  skip(wire: number, field: number): Uint8Array;
  int64(): bigint | string;
  uint64(): bigint | string;
  uint32(): number;
  float(): number;
  double(): number;
  bytes(): Uint8Array;
  string(): string;
}

/** The package. */
export interface Wire {
  readonly BinaryReader: new (bytes: Uint8Array) => WireReader;
}

const PACKAGE = "@bufbuild/protobuf";

/**
 * Imports the package.
 *
 * @throws {PackageError} If it is not installed.
 */
export async function importWire(): Promise<Wire> {
  try {
    return await import("@bufbuild/protobuf/wire");
  } catch (cause) {
    throw new PackageError("open an ONNX file", PACKAGE, { cause });
  }
}

/** Messages inside each other: graphs of `If` and `Loop`, types of sequences. */
const MOST_NESTED = 100;
/** The wire type of a length and that many bytes. */
const LENGTH_DELIMITED = 2;

/** Reads the fields of one message. */
class Fields {
  readonly #wire: Wire;
  readonly #reader: WireReader;
  readonly #file: string;
  readonly #base: number;
  readonly #depth: number;
  #kind = 0;

  constructor(wire: Wire, bytes: Uint8Array, file: string, base: number, depth: number) {
    this.#wire = wire;
    this.#reader = new wire.BinaryReader(bytes);
    this.#file = file;
    this.#base = base;
    this.#depth = depth;
    if (depth > MOST_NESTED) this.fail(`messages are nested more than ${MOST_NESTED} deep`);
  }

  fail(message: string, cause?: unknown): never {
    throw new FormatError(message, this.#file, this.#base + this.#reader.pos, { cause });
  }

  /** Calls `read` with the number of each field; it returns false for fields that it skips. */
  each(read: (field: number) => unknown): void {
    const reader = this.#reader;
    while (reader.pos < reader.len) {
      try {
        const [field, wire] = reader.tag();
        this.#kind = wire;
        if (read(field) === false) reader.skip(wire, field);
      } catch (error) {
        if (error instanceof FormatError) throw error;
        this.fail(`not a message of protobuf: ${(error as Error).message}`, error);
      }
    }
  }

  #expect(kind: number): void {
    if (this.#kind !== kind) this.fail(`a field has wire type ${this.#kind}, expected ${kind}`);
  }

  int(): number {
    this.#expect(0);
    return Number(this.#reader.int64());
  }

  float(): number {
    this.#expect(5);
    return this.#reader.float();
  }

  bytes(): Uint8Array {
    this.#expect(LENGTH_DELIMITED);
    return this.#reader.bytes();
  }

  string(): string {
    this.#expect(LENGTH_DELIMITED);
    return this.#reader.string();
  }

  message<M>(read: (fields: Fields) => M): M {
    const bytes = this.bytes();
    const base = this.#base + this.#reader.pos - bytes.length;
    return read(new Fields(this.#wire, bytes, this.#file, base, this.#depth + 1));
  }

  /** Appends the numbers of a field that may be packed. */
  #list<T>(into: T[], kind: number, read: (reader: WireReader) => T): void {
    const reader = this.#reader;
    if (this.#kind !== LENGTH_DELIMITED) {
      this.#expect(kind);
      into.push(read(reader));
      return;
    }
    const end = reader.uint32() + reader.pos;
    if (end > reader.len) this.fail("a list of numbers goes beyond its message");
    while (reader.pos < end) into.push(read(reader));
    if (reader.pos !== end) this.fail("a number goes beyond its list");
  }

  ints(into: number[]): void {
    this.#list(into, 0, (reader) => Number(reader.int64()));
  }

  longs(into: bigint[]): void {
    this.#list(into, 0, (reader) => BigInt(reader.int64()));
  }

  unsignedLongs(into: bigint[]): void {
    this.#list(into, 0, (reader) => BigInt(reader.uint64()));
  }

  doubles(into: number[]): void {
    this.#list(into, 1, (reader) => reader.double());
  }

  floats(before: number[] | Float32Array): number[] | Float32Array {
    if (before.length === 0 && this.#kind === LENGTH_DELIMITED) {
      const bytes = this.bytes();
      if (bytes.length % 4 !== 0) this.fail(`${bytes.length} bytes are no list of float32`);
      return new Float32Array(new Uint8Array(bytes).buffer);
    }
    const list = Array.from(before);
    this.#list(list, 5, (reader) => reader.float());
    return list;
  }
}

function entryOf(fields: Fields): [key: string, value: string] {
  let key = "", value = "";
  fields.each((field) => {
    if (field === 1) key = fields.string();
    else if (field === 2) value = fields.string();
    else return false;
    return true;
  });
  return [key, value];
}

/** The domain of ONNX's own ops has two names. */
export function domainOf(name: string): string {
  return name === "ai.onnx" ? "" : name;
}

function opsetOf(fields: Fields): [domain: string, version: number] {
  let domain = "", version = 0;
  fields.each((field) => {
    if (field === 1) domain = domainOf(fields.string());
    else if (field === 2) version = fields.int();
    else return false;
    return true;
  });
  return [domain, version];
}

function tensorOf(fields: Fields): TensorMessage {
  const tensor: TensorMessage = {
    name: "",
    dims: [],
    type: 0,
    raw: undefined,
    floats: [],
    doubles: [],
    ints: [],
    longs: [],
    unsignedLongs: [],
    strings: [],
    external: new Map(),
    isExternal: false,
  };
  fields.each((field) => {
    switch (field) {
      case 1:
        return fields.ints(tensor.dims);
      case 2:
        tensor.type = fields.int();
        return true;
      case 4:
        tensor.floats = fields.floats(tensor.floats);
        return true;
      case 5:
        return fields.ints(tensor.ints);
      case 6:
        return tensor.strings.push(fields.bytes());
      case 7:
        return fields.longs(tensor.longs);
      case 8:
        tensor.name = fields.string();
        return true;
      case 9:
        tensor.raw = fields.bytes();
        return true;
      case 10:
        return fields.doubles(tensor.doubles);
      case 11:
        return fields.unsignedLongs(tensor.unsignedLongs);
      case 13: {
        const [key, value] = fields.message(entryOf);
        return tensor.external.set(key, value);
      }
      case 14:
        tensor.isExternal = fields.int() === 1;
        return true;
      default:
        return false;
    }
  });
  return tensor;
}

function sparseOf(fields: Fields): SparseMessage {
  const sparse: SparseMessage = { values: undefined, indices: undefined, dims: [] };
  fields.each((field) => {
    if (field === 1) sparse.values = fields.message(tensorOf);
    else if (field === 2) sparse.indices = fields.message(tensorOf);
    else if (field === 3) fields.ints(sparse.dims);
    else return false;
    return true;
  });
  return sparse;
}

function attributeOf(fields: Fields): AttributeMessage {
  const attribute: AttributeMessage = {
    name: "",
    type: 0,
    float: 0,
    int: 0,
    string: new Uint8Array(0),
    tensor: undefined,
    sparse: undefined,
    graph: undefined,
    floats: [],
    ints: [],
    strings: [],
    tensors: [],
    graphs: [],
    reference: "",
  };
  fields.each((field) => {
    switch (field) {
      case 1:
        attribute.name = fields.string();
        return true;
      case 2:
        attribute.float = fields.float();
        return true;
      case 3:
        attribute.int = fields.int();
        return true;
      case 4:
        attribute.string = fields.bytes();
        return true;
      case 5:
        attribute.tensor = fields.message(tensorOf);
        return true;
      case 6:
        attribute.graph = fields.message(graphOf);
        return true;
      case 7:
        attribute.floats = fields.floats(attribute.floats);
        return true;
      case 8:
        return fields.ints(attribute.ints);
      case 9:
        return attribute.strings.push(fields.bytes());
      case 10:
        return attribute.tensors.push(fields.message(tensorOf));
      case 11:
        return attribute.graphs.push(fields.message(graphOf));
      case 20:
        attribute.type = fields.int();
        return true;
      case 21:
        attribute.reference = fields.string();
        return true;
      case 22:
        attribute.sparse = fields.message(sparseOf);
        return true;
      default:
        return false;
    }
  });
  return attribute;
}

function nodeOf(fields: Fields): NodeMessage {
  const node: NodeMessage = {
    inputs: [],
    outputs: [],
    name: "",
    op: "",
    domain: "",
    attributes: [],
  };
  fields.each((field) => {
    switch (field) {
      case 1:
        return node.inputs.push(fields.string());
      case 2:
        return node.outputs.push(fields.string());
      case 3:
        node.name = fields.string();
        return true;
      case 4:
        node.op = fields.string();
        return true;
      case 5:
        return node.attributes.push(fields.message(attributeOf));
      case 7:
        node.domain = domainOf(fields.string());
        return true;
      default:
        return false;
    }
  });
  return node;
}

function dimensionOf(fields: Fields): number | string | null {
  let size: number | string | null = null;
  fields.each((field) => {
    if (field === 1) size = fields.int();
    else if (field === 2) size = fields.string();
    else return false;
    return true;
  });
  // Exporters write these for sizes that they do not know.
  return size === "" || typeof size === "number" && size < 0 ? null : size;
}

function tensorTypeOf(fields: Fields): TypeMessage {
  const type: TypeMessage = { kind: "tensor", type: 0, shape: undefined, element: undefined };
  fields.each((field) => {
    if (field === 1) type.type = fields.int();
    else if (field === 2) {
      type.shape = fields.message((shape) => {
        const sizes: (number | string | null)[] = [];
        shape.each((field) => field === 1 ? sizes.push(shape.message(dimensionOf)) : false);
        return sizes;
      });
    } else return false;
    return true;
  });
  return type;
}

function typeOf(fields: Fields): TypeMessage {
  let type: TypeMessage = { kind: "other", type: 0, shape: undefined, element: undefined };
  const holder = (kind: "sequence" | "optional"): TypeMessage =>
    fields.message((holder) => {
      let element: TypeMessage | undefined;
      holder.each((field) => {
        if (field !== 1) return false;
        element = holder.message(typeOf);
        return true;
      });
      return { kind, type: element?.type ?? 0, shape: element?.shape, element };
    });
  fields.each((field) => {
    if (field === 1) type = fields.message(tensorTypeOf);
    else if (field === 4) type = holder("sequence");
    else if (field === 9) type = holder("optional");
    else return false;
    return true;
  });
  return type;
}

function valueInfoOf(fields: Fields): ValueInfoMessage {
  const info: ValueInfoMessage = { name: "", type: undefined };
  fields.each((field) => {
    if (field === 1) info.name = fields.string();
    else if (field === 2) info.type = fields.message(typeOf);
    else return false;
    return true;
  });
  return info;
}

function graphOf(fields: Fields): GraphMessage {
  const graph: GraphMessage = {
    nodes: [],
    name: "",
    initializers: [],
    sparse: [],
    inputs: [],
    outputs: [],
  };
  fields.each((field) => {
    switch (field) {
      case 1:
        return graph.nodes.push(fields.message(nodeOf));
      case 2:
        graph.name = fields.string();
        return true;
      case 5:
        return graph.initializers.push(fields.message(tensorOf));
      case 11:
        return graph.inputs.push(fields.message(valueInfoOf));
      case 12:
        return graph.outputs.push(fields.message(valueInfoOf));
      case 15:
        return graph.sparse.push(fields.message(sparseOf));
      default:
        return false;
    }
  });
  return graph;
}

function functionOf(fields: Fields): FunctionMessage {
  const made: FunctionMessage = {
    name: "",
    domain: "",
    overload: "",
    inputs: [],
    outputs: [],
    attributes: [],
    defaults: [],
    nodes: [],
    opsets: new Map(),
  };
  fields.each((field) => {
    switch (field) {
      case 1:
        made.name = fields.string();
        return true;
      case 4:
        return made.inputs.push(fields.string());
      case 5:
        return made.outputs.push(fields.string());
      case 6:
        return made.attributes.push(fields.string());
      case 7:
        return made.nodes.push(fields.message(nodeOf));
      case 9: {
        const [domain, version] = fields.message(opsetOf);
        return made.opsets.set(domain, version);
      }
      case 10:
        made.domain = domainOf(fields.string());
        return true;
      case 11:
        return made.defaults.push(fields.message(attributeOf));
      case 13:
        made.overload = fields.string();
        return true;
      default:
        return false;
    }
  });
  return made;
}

/** The message of a file. */
export function readModel(wire: Wire, bytes: Uint8Array, file: string): ModelMessage {
  const fields = new Fields(wire, bytes, file, 0, 0);
  const model: ModelMessage = {
    irVersion: 0,
    producer: "",
    producerVersion: "",
    graph: undefined,
    opsets: new Map(),
    metadata: new Map(),
    functions: [],
  };
  fields.each((field) => {
    switch (field) {
      case 1:
        model.irVersion = fields.int();
        return true;
      case 2:
        model.producer = fields.string();
        return true;
      case 3:
        model.producerVersion = fields.string();
        return true;
      case 7:
        model.graph = fields.message(graphOf);
        return true;
      case 8: {
        const [domain, version] = fields.message(opsetOf);
        return model.opsets.set(domain, version);
      }
      case 14: {
        const [key, value] = fields.message(entryOf);
        return model.metadata.set(key, value);
      }
      case 25:
        return model.functions.push(fields.message(functionOf));
      default:
        return false;
    }
  });
  return model;
}

/** The message of a tensor in a file of its own. */
export function readTensorMessage(wire: Wire, bytes: Uint8Array, file: string): TensorMessage {
  return tensorOf(new Fields(wire, bytes, file, 0, 0));
}

function sequenceOf(fields: Fields): SequenceMessage {
  const sequence: SequenceMessage = { tensors: [], sequences: [] };
  fields.each((field) => {
    if (field === 3) return sequence.tensors.push(fields.message(tensorOf));
    if (field === 5) return sequence.sequences.push(fields.message(sequenceOf));
    return false;
  });
  return sequence;
}

/** The message of a sequence in a file of its own. */
export function readSequenceMessage(wire: Wire, bytes: Uint8Array, file: string): SequenceMessage {
  return sequenceOf(new Fields(wire, bytes, file, 0, 0));
}

/** The message of an optional value in a file of its own. */
export function readOptionalMessage(wire: Wire, bytes: Uint8Array, file: string): OptionalMessage {
  const fields = new Fields(wire, bytes, file, 0, 0);
  const optional: OptionalMessage = { type: 0, tensor: undefined, sequence: undefined };
  fields.each((field) => {
    if (field === 2) optional.type = fields.int();
    else if (field === 3) optional.tensor = fields.message(tensorOf);
    else if (field === 5) optional.sequence = fields.message(sequenceOf);
    else return false;
    return true;
  });
  return optional;
}
