/**
 * Graphs as values of JSON, and back. Tensors are written by their places, which the caller knows.
 *
 * @module
 */
import { FormatError } from "../../base/errors.ts";
import { decodeUtf8 } from "../../io/bytes.ts";
import { Tensor } from "../../tensor/tensor.ts";
import { type Attribute, type Graph, Node, type ValueInfo } from "./graph.ts";
import { isList, Strings, type T, type Value } from "./values.ts";

/** A value of JSON. */
export type Json = null | boolean | number | string | readonly Json[] | {
  readonly [name: string]: Json;
};

/** A number; JSON has neither -0, nor those that are not finite. */
function codedNumber(x: number): Json {
  return Number.isFinite(x) && !Object.is(x, -0) ? x : Object.is(x, -0) ? "-0" : String(x);
}

/** Bytes: a text where they are one. */
function codedBytes(bytes: Uint8Array): Json {
  return decodeUtf8(bytes) ?? Array.from(bytes);
}

/** Writes graphs; `place` tells where a tensor is. */
export class Encoder {
  readonly #place: (x: T) => Json;

  constructor(place: (x: T) => Json) {
    this.#place = place;
  }

  #value(value: Value): Json {
    if (value === undefined || value === null) return value === null ? 0 : null;
    if (value instanceof Tensor) return { tensor: this.#place(value) };
    if (value instanceof Strings) return { texts: value.data, shape: value.shape };
    return isList(value) ? value.map((one) => this.#value(one)) : null;
  }

  #attribute({ kind, value }: Attribute): Json {
    switch (kind) {
      case "float":
      case "int":
        return [kind, codedNumber(value)];
      case "string":
        return [kind, codedBytes(value)];
      case "tensor":
        return [kind, this.#value(value)];
      case "graph":
        return [kind, this.graph(value)];
      case "floats":
      case "ints":
        return [kind, value.map(codedNumber)];
      case "strings":
        return [kind, value.map(codedBytes)];
      case "other":
        return [kind, null];
    }
  }

  #node(node: Node): Json {
    const { op, domain, name, inputs, outputs, opset, likeType = null } = node;
    const attributes = [...node.attributes].map(([name, one]) => [name, this.#attribute(one)]);
    return [op, domain, name, inputs, outputs, opset, likeType, attributes];
  }

  /** A graph. */
  graph({ name, nodes, constants, inputs, outputs }: Graph): Json {
    const infos = (list: readonly ValueInfo[]): Json =>
      list.map(({ name, kind, dtype, shape = null }) => [name, kind, dtype, shape]);
    return {
      name,
      nodes: nodes.map((node) => this.#node(node)),
      constants: [...constants].map(([name, value]) => [name, this.#value(value)]),
      inputs: infos(inputs),
      outputs: infos(outputs),
    };
  }
}

const KINDS: readonly string[] = ["tensor", "sequence", "optional", "other"];

/** Reads what {@link Encoder} writes. All methods throw a FormatError for anything else. */
export class Decoder {
  readonly #file: string;
  /** The model, for errors of its nodes. */
  readonly #model: string;
  readonly #tensor: (place: unknown) => T;

  constructor(file: string, model: string, tensor: (place: unknown) => T) {
    this.#file = file;
    this.#model = model;
    this.#tensor = tensor;
  }

  #fail(what: string): never {
    throw new FormatError(`expected ${what}`, this.#file, 0);
  }

  /** A list. */
  list(x: unknown): readonly unknown[] {
    return Array.isArray(x) ? x : this.#fail("a list");
  }

  /** A text. */
  text(x: unknown): string {
    return typeof x === "string" ? x : this.#fail("a text");
  }

  /** An integer of at least 0. */
  count(x: unknown): number {
    return Number.isSafeInteger(x) && x as number >= 0 ? x as number : this.#fail("a count");
  }

  /** An object. */
  object(x: unknown): Readonly<Record<string, unknown>> {
    const isObject = typeof x === "object" && x !== null && !Array.isArray(x);
    return isObject ? x as Readonly<Record<string, unknown>> : this.#fail("an object");
  }

  /** Pairs of a name and something. */
  entries<V>(x: unknown, read: (value: unknown) => V): Map<string, V> {
    return new Map(
      this.list(x).map((one) => {
        const [name, value] = this.list(one);
        return [this.text(name), read(value)];
      }),
    );
  }

  #number(x: unknown): number {
    return typeof x === "number" ? x : Number(this.text(x));
  }

  #bytes(x: unknown): Uint8Array {
    if (typeof x === "string") return new TextEncoder().encode(x);
    return Uint8Array.from(this.list(x), (one) => this.count(one));
  }

  #value(x: unknown): Value {
    if (x === null || x === 0) return x === 0 ? null : undefined;
    if (Array.isArray(x)) return x.map((one) => this.#value(one));
    const { tensor, texts, shape } = this.object(x);
    if (tensor !== undefined) return this.#tensor(tensor);
    return new Strings(
      this.list(texts).map((one) => this.text(one)),
      this.list(shape).map((one) => this.count(one)),
    );
  }

  #attribute(x: unknown): Attribute {
    const [kind, value] = this.list(x);
    switch (kind) {
      case "float":
      case "int":
        return { kind, value: this.#number(value) };
      case "string":
        return { kind, value: this.#bytes(value) };
      case "tensor":
        return { kind, value: this.#value(value) };
      case "graph":
        return { kind, value: this.graph(value) };
      case "floats":
      case "ints":
        return { kind, value: this.list(value).map((one) => this.#number(one)) };
      case "strings":
        return { kind, value: this.list(value).map((one) => this.#bytes(one)) };
      case "other":
        return { kind, value: undefined };
      default:
        return this.#fail("an attribute");
    }
  }

  #texts(x: unknown): string[] {
    return this.list(x).map((one) => this.text(one));
  }

  #node(x: unknown): Node {
    const [op, domain, name, inputs, outputs, opset, likeType, attributes] = this.list(x);
    return new Node(
      {
        ...{ op: this.text(op), domain: this.text(domain), name: this.text(name) },
        ...{ inputs: this.#texts(inputs), outputs: this.#texts(outputs) },
        opset: this.count(opset),
        likeType: likeType === null ? undefined : this.text(likeType),
      },
      this.entries(attributes, (one) => this.#attribute(one)),
      this.#model,
    );
  }

  #info(x: unknown): ValueInfo {
    const [name, kind, dtype, shape] = this.list(x);
    if (!KINDS.includes(kind as string)) this.#fail("a kind");
    return {
      ...{ name: this.text(name), kind: kind as ValueInfo["kind"], dtype: this.text(dtype) },
      shape: shape === null ? undefined : this.list(shape).map((size) => {
        if (size === null || typeof size === "string") return size;
        return typeof size === "number" ? size : this.#fail("a size");
      }),
    };
  }

  /** A graph. */
  graph(x: unknown): Graph {
    const { name, nodes, constants, inputs, outputs } = this.object(x);
    return {
      name: this.text(name),
      constants: this.entries(constants, (one) => this.#value(one)),
      nodes: this.list(nodes).map((one) => this.#node(one)),
      inputs: this.list(inputs).map((one) => this.#info(one)),
      outputs: this.list(outputs).map((one) => this.#info(one)),
    };
  }
}
