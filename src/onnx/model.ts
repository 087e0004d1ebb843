/**
 * Models in ONNX files.
 *
 * @module
 */
import {
  ArgumentError,
  DeviceError,
  DisposedError,
  DTypeError,
  FormatError,
  ReadOnlyError,
  ShapeError,
} from "../base/errors.ts";
import { formatShape, listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { asBytes, NO_FILE } from "../io/bytes.ts";
import { type Path, readFile } from "../io/file.ts";
import { bytesIn } from "../io/mapped.ts";
import { openBytes, readerOf } from "../io/source.ts";
import { overlaps } from "../core/write.ts";
import { checkOptions } from "../table/infer.ts";
import { type AnyTensor, Tensor } from "../tensor/tensor.ts";
import { describeValue, type Implementation } from "./graph/call.ts";
import type { MappedFile } from "../backend/ffi/files.ts";
import type { Storage } from "../memory/storage.ts";
import { type CachedModel, ModelCache, type ModelFile } from "./cache.ts";
import { type Graph, GraphReader, type Node, type ValueInfo } from "./graph/graph.ts";
import {
  externalBytes,
  type ExternalFile,
  externalNames,
  Initializers,
  openExternal,
  type Origin,
  type Place,
} from "./graph/initializers.ts";
import {
  type GraphMessage,
  importWire,
  type ModelMessage,
  readModel,
  readOptionalMessage,
  readSequenceMessage,
  readTensorMessage,
  type SequenceMessage,
  type TensorMessage,
  type Wire,
} from "./graph/messages.ts";
import { Halves } from "./halves.ts";
import { optimize } from "./optimize.ts";
import { PLAIN } from "./ops/convolutions.ts";
import { OPS } from "./ops/mod.ts";
import { ModelReport } from "./report.ts";
import { type AsyncRunOptions, Constants, Runner, type Shared, type Writable } from "./runner.ts";
import { forgetElements, isList, Strings, tensorsIn, type Value } from "./graph/values.ts";

/** The call of an op of a program. */
export interface OpCall {
  /** The name of the op, with its domain. */
  readonly type: string;
  /** The inputs; undefined for those that the node does not have. */
  readonly inputs: readonly Value[];
  /** The number of outputs. */
  readonly outputs: number;
  /** An attribute; undefined if the node does not have it. */
  attribute(name: string): number | string | readonly number[] | readonly string[] | Value;
}

/**
 * Computes an op: returns the outputs in their order. It is recorded as part of a program, as a
 * function that `compile` takes.
 */
export type OpFunction = (call: OpCall) => readonly Value[];

/** Options of {@link open}. */
export interface OpenOptions {
  /**
   * The names of inputs whose elements are part of the kind of a program: each value compiles another
   * program. By default these are small inputs on which a shape depends.
   */
  readonly static?: readonly string[];
  /** The most programs that each part of the model keeps (32): one for each kind of inputs. */
  readonly maxPrograms?: number;
  /**
   * Ops of the program, by their names with their domains (`"my.domain.Op"`; ONNX's own have none): they
   * come before those of the library.
   */
  readonly ops?: Readonly<Record<string, OpFunction>>;
  /** The contents of the files with external data, by the names in the model. */
  readonly external?: Readonly<Record<string, Uint8Array>>;
  /**
   * A file that keeps the improved graph and the packed weights, so that the next open is faster: its path,
   * or true for that of the model with `.rowmajor` at its end. The first run writes it where it is not
   * there, or is of another model, another version of the library, or another instruction set. Processes
   * that open the same file share its memory.
   */
  readonly cache?: boolean | Path;
  /**
   * Whether convolutions of 3 × 3 may be computed by Winograd's algorithm, which is faster and has rounding
   * errors several times as large; true by default.
   */
  readonly winograd?: boolean;
}

/** Options of {@link Model.run}. */
export interface RunOptions {
  /** Tensors to write outputs to, by their names: the results of the run are these. */
  readonly out?: Readonly<Record<string, AnyTensor>>;
}

/** Options of {@link Model.async}. */
export interface AsyncOptions extends RunOptions {
  /** Stops the run between programs, and rounds of loops: the promise rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

const OPEN = ["static", "maxPrograms", "external", "ops", "cache", "winograd"];

/** Throws unless an option is an object, whose keys are names. */
function checkNames(what: string, option: string, value: unknown): void {
  const isNames = typeof value === "object" && value !== null &&
    !(Symbol.iterator in value);
  if (isNames) return;
  throw new ArgumentError(
    `Cannot ${what} with ${option} ${describe(value)}: it is an object with names as its keys`,
  );
}

/** Node types that no function computes, with their number in the file. */
function unsupported(
  graph: Graph,
  ops: Ops,
  into = new Map<string, number>(),
): Map<string, number> {
  for (const node of graph.nodes) {
    if (find(node, ops) === undefined) into.set(node.type, (into.get(node.type) ?? 0) + 1);
    for (const inner of node.graphs) unsupported(inner, ops, into);
  }
  return into;
}

/** The ops of a program, by their names. */
type Ops = ReadonlyMap<string, Implementation>;

/** The ops that a program gives. */
function opsOf(given: Readonly<Record<string, OpFunction>>): Ops {
  const ops = new Map<string, Implementation>();
  for (const [name, compute] of Object.entries(given)) {
    if (typeof compute !== "function") {
      throw new ArgumentError(
        `Cannot open an ONNX file with op ${describe(name)}: it is ${
          describe(compute)
        }, expected a function`,
      );
    }
    ops.set(name, (call) => {
      const { node, inputs, outputs } = call;
      const made: unknown = compute({
        type: node.type,
        inputs,
        outputs,
        attribute: (name) => node.attribute(name),
      });
      if (!isList(made as Value)) return call.fail("the op returned no list of outputs");
      const values = made as Value[];
      node.outputs.forEach((output, k) => {
        if (output !== "" && !isValue(values[k])) {
          call.fail(`the op returned ${describe(values[k])} for output ${k}, expected a tensor`);
        }
      });
      return values;
    });
  }
  return ops;
}

/** Whether something is a value that an op may return. */
function isValue(value: unknown): value is Value {
  if (value === null || value instanceof Tensor || value instanceof Strings) return true;
  return listIn(value, isValue)?.every((one) => one) ?? false;
}

/** Domains whose ops are here. */
const DOMAINS = new Set(["", "com.microsoft"]);

function find(node: Node, ops: Ops): Implementation | undefined {
  return ops.get(node.type) ?? OPS.get(node.type) ??
    (DOMAINS.has(node.domain) ? OPS.get(node.op) : undefined);
}

/** All tensors of a graph, with those of the graphs inside. */
function* tensorsOf(graph: GraphMessage, nodes = graph.nodes): Generator<TensorMessage> {
  yield* graph.initializers;
  for (const { attributes } of nodes) {
    for (const { tensor, graph } of attributes) {
      if (tensor !== undefined) yield tensor;
      if (graph !== undefined) yield* tensorsOf(graph);
    }
  }
}

/** The names of external files in a model. */
function externalFiles({ graph, functions }: ModelMessage): Set<string> {
  const names = graph === undefined ? new Set<string>() : externalNames(tensorsOf(graph));
  for (const { nodes } of functions) {
    const all = { nodes, name: "", initializers: [], sparse: [], inputs: [], outputs: [] };
    for (const name of externalNames(tensorsOf(all))) names.add(name);
  }
  return names;
}

/** Opens the files with external data, which must be in the folder of the model. */
async function openExternals(
  names: ReadonlySet<string>,
  path: Path | undefined,
  given: Readonly<Record<string, Uint8Array>>,
  file: string,
): Promise<Map<string, ExternalFile>> {
  const files = new Map<string, ExternalFile>();
  for (const name of names) {
    const bytes = Object.hasOwn(given, name) ? given[name] : undefined;
    if (bytes !== undefined) {
      files.set(name, externalBytes(name, asBytes(bytes, name)));
      continue;
    }
    if (path === undefined) {
      throw new FormatError(
        `the elements of tensors are in the file ${describe(name)}; ` +
          "pass its bytes by the option external",
        file,
        0,
      );
    }
    const [{ dirname, resolve, sep }, { fileURLToPath }] = await Promise.all([
      import("node:path"),
      import("node:url"),
    ]);
    const folder = dirname(resolve(typeof path === "string" ? path : fileURLToPath(path)));
    const found = resolve(folder, name);
    const isWithin = found.startsWith(folder.endsWith(sep) ? folder : folder + sep);
    if (!isWithin || name.includes("\0")) {
      throw new FormatError(`external data ${describe(name)} leave the folder`, file, 0);
    }
    try {
      files.set(name, await openExternal(found));
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ENOENT") throw error;
      throw new FormatError(
        `the elements of tensors are in the file ${describe(name)}, which is not beside it`,
        file,
        0,
        { cause: error },
      );
    }
  }
  return files;
}

/**
 * Opens an ONNX file: a path, a URL, or its bytes. Its weights are those of the mapped file where they can
 * be.
 *
 * The package `@bufbuild/protobuf` reads the file; a program installs it itself.
 *
 * @throws {FormatError} If the file is damaged, or another kind of file is at the path of the cache.
 * @throws {ArgumentError} If nodes are not supported: the error names all of them. If the file of the cache
 * is to be made, and this program may not write it.
 * @throws {PackageError} If the package is not installed.
 */
export async function open(from: Path | Uint8Array, options: OpenOptions = {}): Promise<Model> {
  checkOptions("open an ONNX file", options, OPEN);
  const { maxPrograms = 32, external = {}, ops = {}, winograd = true } = options;
  const names = options.static === undefined ? [] : listIn(options.static, (name) => {
    if (typeof name === "string") return name;
    throw new ArgumentError(
      `Cannot open an ONNX file with static ${describe(name)}: they are names`,
    );
  });
  if (names === undefined) {
    throw new ArgumentError(
      `Cannot open an ONNX file with static ${describe(options.static)}: it is a list of names`,
    );
  }
  if (!Number.isInteger(maxPrograms) || maxPrograms < 1) {
    throw new ArgumentError(
      `Cannot open an ONNX file with maxPrograms ${
        describe(maxPrograms)
      }: it is an integer of at least 1`,
    );
  }
  if (typeof winograd !== "boolean") {
    throw new ArgumentError(
      `Cannot open an ONNX file with winograd ${describe(winograd)}: it is a boolean`,
    );
  }
  checkNames("open an ONNX file", "external", external);
  checkNames("open an ONNX file", "ops", ops);
  const contents = { ...external };
  const own = opsOf(ops);
  const isPath = typeof from === "string" || from instanceof URL;
  const file = isPath ? String(from) : NO_FILE;
  const at = await cachePath(options.cache, isPath ? from : undefined, own);
  const source = isPath ? await openBytes(from, {}) : undefined;
  // All bytes of a file that is not mapped are here: one inside an executable cannot be read again.
  const mapped = source === undefined || "reason" in source.mapped ? undefined : source;
  const bytes = !isPath
    ? asBytes(from, NO_FILE)
    : mapped === undefined
    ? await readFile(from)
    : bytesIn(mapped.mapped as MappedFile, 0, mapped.identity.size, file);
  const itself: ExternalFile = mapped === undefined
    ? externalBytes(file, bytes)
    : { file, size: bytes.length, read: readerOf(mapped, true), source: mapped };
  const filesOf = async (names: Iterable<string>): Promise<Map<string, ModelFile>> => {
    const base = isPath ? from : undefined;
    const externals = await openExternals(new Set(names), base, contents, file);
    const files = new Map<string, ModelFile>();
    files.set("", { name: "", contents: itself, identity: source?.identity });
    for (const [name, one] of externals) {
      files.set(name, { name, contents: one, identity: one.source?.identity });
    }
    return files;
  };
  const settings = { names: new Set(names), maxPrograms, ops: own, winograd };
  if (at !== undefined) {
    const found = await ModelCache.open(at, file, filesOf, winograd);
    if (found !== undefined) return makeModel(file, found.model, settings, found.cache);
    ModelCache.checkWritable(at, file);
  }
  const wire = await importWire();
  const message = readModel(wire, bytes, file);
  const files = await filesOf(externalFiles(message));
  const origins = new WeakMap<Storage, Origin>();
  const place: Place = {
    ...{ file, bytes, source: mapped, external: (name) => files.get(name)!.contents },
    note: (storage, origin) => origins.set(storage, origin),
  };
  if (message.graph === undefined) throw new FormatError("the file has no graph", file, 0);
  const graph = new GraphReader(message, new Initializers(place), file).read(message.graph);
  const missing = unsupported(graph, own);
  if (missing.size > 0) {
    const list = [...missing].map(([type, count]) => count === 1 ? type : `${type} (${count})`);
    throw new ArgumentError(
      `Cannot open ${file}: no function computes the ops ${list.sort().join(", ")}`,
    );
  }
  const { opsets, metadata } = message;
  const read = { opsets, metadata, ops: countOps(graph), graph };
  const cache = at === undefined ? undefined : new ModelCache(at, [...files.values()], winograd);
  return makeModel(file, read, settings, cache, (storage) => origins.get(storage));
}

/** The path of the cache of a model; undefined for none. */
async function cachePath(
  cache: unknown,
  model: Path | undefined,
  ops: Ops,
): Promise<string | undefined> {
  if (cache === undefined || cache === false) return undefined;
  const fail = (why: string): never => {
    throw new ArgumentError(`Cannot open an ONNX file with cache ${describe(cache)}: ${why}`);
  };
  const isGiven = typeof cache === "string" || cache instanceof URL;
  if (!isGiven && cache !== true) fail("it is true, false or a path");
  if (ops.size > 0) fail("what the functions of the option ops compute may change");
  const path = isGiven ? cache : model ?? fail("the model is in memory: give a path");
  const text = typeof path === "string" ? path : (await import("node:url")).fileURLToPath(path);
  if (text === "") fail("the path is empty");
  return isGiven ? text : `${text}.rowmajor`;
}

/** The options of {@link open}, checked. */
interface ModelOptions {
  readonly names: ReadonlySet<string>;
  readonly maxPrograms: number;
  readonly ops: Ops;
  readonly winograd: boolean;
}

/** Marks the convolutions of a graph: they are not computed by Winograd's algorithm. */
function computePlainly(graph: Graph): void {
  graph.nodes = graph.nodes.map((node) => {
    node.graphs.forEach(computePlainly);
    return node.type === "Conv" ? node.with({}, { [PLAIN]: 1 }) : node;
  });
}

/** Makes a model of its graph; `originOf` tells where its tensors are, unless the cache has the graph. */
function makeModel(
  file: string,
  read: CachedModel,
  options: ModelOptions,
  cache: ModelCache | undefined,
  originOf?: (storage: Storage) => Origin | undefined,
): Model {
  const { inputs } = read.graph;
  for (const name of options.names) {
    if (!inputs.some((one) => one.name === name)) {
      throw new ArgumentError(
        `Cannot open ${file} with static ${describe(name)}: the model has the inputs ` +
          inputs.map((one) => one.name).join(", "),
      );
    }
  }
  if (!options.winograd) computePlainly(read.graph);
  return new Model(read, options, cache, originOf);
}

/** What a model is made of. */
interface Parts {
  readonly graph: Graph;
  readonly shared: Shared;
  /** {@link Model.async} with options of the runner. */
  run(
    feeds: Readonly<Record<string, Value>>,
    options: AsyncRunOptions,
  ): Promise<Record<string, Value>>;
}

const parts = new WeakMap<Model, Parts>();

/** What a model is made of. */
export function partsOf(model: Model): Parts {
  return parts.get(model)!;
}

/** A model of an ONNX file: see {@link open}. */
export class Model {
  /** The inputs that a run takes. */
  readonly inputs: readonly ValueInfo[];
  /** The outputs of a run. */
  readonly outputs: readonly ValueInfo[];
  /** The ops of the file, with the number of nodes of each. */
  readonly ops: ReadonlyMap<string, number>;
  /** The versions of the domains of ops; that of ONNX's own ops is `""`. */
  readonly opsets: ReadonlyMap<string, number>;
  /** What the file says of itself. */
  readonly metadata: ReadonlyMap<string, string>;
  readonly #graph: Graph;
  readonly #prepared: Constants;
  readonly #halves = new Halves();
  readonly #cache: ModelCache | undefined;
  readonly #runners = new Map<Graph, Runner>();
  readonly #runner: Runner;
  #disposed = false;

  /** @ignore */
  constructor(
    read: CachedModel,
    { names, maxPrograms, ops }: ModelOptions,
    cache: ModelCache | undefined,
    originOf: ((storage: Storage) => Origin | undefined) | undefined,
  ) {
    const { graph } = read;
    this.inputs = graph.inputs;
    this.outputs = graph.outputs;
    this.opsets = read.opsets;
    this.metadata = read.metadata;
    this.ops = read.ops;
    this.#cache = cache;
    this.#prepared = new Constants(cache);
    const shared: Shared = {
      prepared: this.#prepared,
      halves: this.#halves,
      resolve: (node) => find(node, ops)!,
      options: { maxPrograms },
      static: names,
      runner: (inner) => {
        let found = this.#runners.get(inner);
        if (found === undefined) this.#runners.set(inner, found = new Runner(inner, shared));
        return found;
      },
      later: (inner, values) => this.#later(shared.runner(inner), values, { brief: true }),
      forget: (inner) => {
        this.#runners.get(inner)?.dispose();
        this.#runners.delete(inner);
      },
    };
    if (originOf !== undefined) {
      optimize(graph, shared);
      cache?.note(read, originOf);
    }
    this.#graph = graph;
    parts.set(this, {
      graph,
      shared,
      run: async (feeds, options) =>
        this.#named(await this.#later(this.#runner, this.#feeds(feeds), options)),
    });
    this.#runner = shared.runner(graph);
  }

  /** The values of the inputs in their order, checked. */
  #feeds(feeds: Readonly<Record<string, Value>>): Value[] {
    if (this.#disposed) throw new DisposedError("Cannot run: the model was disposed of");
    if (typeof feeds !== "object" || feeds === null) {
      throw new ArgumentError(
        `Cannot run a model with ${describe(feeds)}: it takes inputs by name`,
      );
    }
    for (const name of Object.keys(feeds)) {
      if (!this.inputs.some((one) => one.name === name)) {
        throw new ArgumentError(
          `Cannot run a model with input ${describe(name)}: its inputs are ` +
            this.inputs.map((one) => one.name).join(", "),
        );
      }
    }
    const sizes = new Map<string, number>();
    const values = this.inputs.map((info) => {
      const value = Object.hasOwn(feeds, info.name) ? feeds[info.name] : undefined;
      checkFeed(info, value, sizes);
      return isList(value) ? ownList(value) : value;
    });
    forgetElements(values);
    return values;
  }

  #named(values: readonly Value[]): Record<string, Value> {
    return Object.fromEntries(this.outputs.map(({ name }, k) => [name, values[k]]));
  }

  /**
   * Runs the model. The results are tensors of their own.
   *
   * @throws {ArgumentError} If an input is missing, unknown, or of another kind.
   * @throws {DTypeError} If an input has another dtype.
   * @throws {ShapeError} If an input has another shape.
   * @throws {DeviceError} If an input is not on the CPU.
   */
  run(feeds: Readonly<Record<string, Value>>, options: RunOptions = {}): Record<string, Value> {
    checkOptions("run a model", options, ["out"]);
    const out = this.#outputsOf(options);
    const results = this.#named(this.#runner.run(this.#feeds(feeds), undefined, { out }));
    this.#cache?.save();
    return results;
  }

  /** The tensors for outputs by name. */
  #outputsOf({ out }: RunOptions): Map<string, Writable> | undefined {
    if (out === undefined) return undefined;
    checkNames("run a model", "out", out);
    const found = new Map<string, Writable>();
    for (const [name, x] of Object.entries(out)) {
      if (!this.outputs.some((one) => one.name === name)) {
        throw new ArgumentError(
          `Cannot run a model with out ${describe(name)}: its outputs are ` +
            this.outputs.map((one) => one.name).join(", "),
        );
      }
      if (!(x instanceof Tensor)) {
        throw new ArgumentError(`Cannot run a model with out ${describe(name)}: it is no tensor`);
      }
      if (x.access === "read") {
        throw new ReadOnlyError(`Cannot run a model with out ${describe(name)}: it is read-only`);
      }
      for (const [before, y] of found) {
        if (x.storage !== y.storage || !overlaps(x as Writable, y)) continue;
        throw new ArgumentError(
          `Cannot run a model with out ${describe(name)}: it has elements of out ${
            describe(before)
          }`,
        );
      }
      found.set(name, x as Writable);
    }
    return found;
  }

  /** {@link run}, with the model's programs off the event loop. */
  async async(
    feeds: Readonly<Record<string, Value>>,
    options: AsyncOptions = {},
  ): Promise<Record<string, Value>> {
    checkOptions("run a model", options, ["signal", "out"]);
    const { signal } = options;
    if (signal !== undefined && !(signal instanceof AbortSignal)) {
      throw new ArgumentError(
        `Cannot run a model with signal ${describe(signal)}: it is no AbortSignal`,
      );
    }
    const out = this.#outputsOf(options);
    const values = this.#feeds(feeds);
    return this.#named(await this.#later(this.#runner, values, { signal, out }));
  }

  async #later(
    runner: Runner,
    values: readonly Value[],
    options: AsyncRunOptions = {},
  ): Promise<Value[]> {
    try {
      const results = await runner.runLater(values, options);
      if (!this.#disposed) this.#cache?.save();
      return results;
    } catch (error) {
      // Whatever lacks its weights or programs then.
      if (this.#disposed && options.signal?.aborted !== true) {
        throw new DisposedError("Cannot run: the model was disposed of meanwhile");
      }
      throw error;
    }
  }

  /** Describes the programs of the runs so far, and what ran outside of them, with the reasons. */
  explain(): ModelReport {
    return new ModelReport(this, this.#runner.report());
  }

  /** The number of programs. */
  get programs(): number {
    let sum = 0;
    for (const runner of this.#runners.values()) sum += runner.programs;
    return sum;
  }

  /** The inputs and outputs. */
  toString(): string {
    const line = ({ name, kind, dtype, shape }: ValueInfo): string =>
      `  ${name}: ${kind === "tensor" ? "" : `${kind} of `}${dtype}` +
      (shape === undefined ? "" : ` ${formatSizes(shape)}`);
    return ["inputs:", ...this.inputs.map(line), "outputs:", ...this.outputs.map(line)].join("\n");
  }

  /** Frees the weights and the programs. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    for (const runner of this.#runners.values()) runner.dispose();
    this.#prepared.dispose();
    this.#halves.dispose();
    this.#cache?.dispose();
    disposeConstants(this.#graph);
  }

  /** {@link dispose}, for `using`. */
  [Symbol.dispose](): void {
    this.dispose();
  }
}

function disposeConstants(graph: Graph): void {
  for (const x of tensorsIn(graph.constants.values())) x.dispose();
  graph.constants.clear();
  for (const node of graph.nodes) node.graphs.forEach(disposeConstants);
}

function countOps(graph: Graph, into = new Map<string, number>()): Map<string, number> {
  for (const node of graph.nodes) {
    into.set(node.type, (into.get(node.type) ?? 0) + 1);
    for (const inner of node.graphs) countOps(inner, into);
  }
  return into;
}

function formatSizes(shape: readonly (number | string | null)[]): string {
  return `[${shape.map((size) => size ?? "?").join(", ")}]`;
}

/** A copy of a list, which the caller may change while the model runs. */
function ownList(list: readonly Value[]): Value[] {
  return listIn(list, (one) => isList(one as Value) ? ownList(one as Value[]) : one as Value) ?? [];
}

/** Throws unless a value fits an input; `sizes` are those of names so far. */
function checkFeed(
  { name, kind, dtype, shape }: ValueInfo,
  value: Value,
  sizes: Map<string, number>,
): void {
  const fail = (what: string): never => {
    throw new ArgumentError(`Cannot run a model with input ${describe(name)}: ${what}`);
  };
  if (kind === "optional" && (value === undefined || value === null)) return;
  if (value === undefined || value === null) return fail("it is missing");
  if (isList(value)) {
    if (kind === "tensor") fail("it is a list, expected a tensor");
    for (const one of value) {
      checkFeed({ name, kind: "optional", dtype, shape: undefined }, one, sizes);
    }
    return;
  }
  if (kind === "sequence") fail(`it is ${describeValue(value)}, expected a list`);
  const isTexts = value instanceof Strings;
  if (!isTexts && !(value instanceof Tensor)) {
    fail(`it is ${describe(value)}, expected ${dtype === "string" ? "texts" : "a tensor"}`);
  }
  if (!isTexts && value.device !== "cpu") {
    throw new DeviceError(
      `Cannot run a model with input ${
        describe(name)
      } on ${value.device}: ONNX files run on the CPU`,
    );
  }
  const given = isTexts ? "string" : value.dtype;
  // Elements of less than a byte are 8-bit integers here.
  const wanted = /^u?int[24]$/.test(dtype) ? dtype.replace(/[24]$/, "8") : dtype;
  if (given !== wanted && wanted !== "undefined") {
    throw new DTypeError(
      `Cannot run a model with input ${describe(name)} of ${given}: it is ${dtype}`,
    );
  }
  if (shape === undefined) return;
  // Exporters call vectors of one element scalars, and ONNX Runtime takes them.
  if (shape.length === 0 && value.shape.every((n) => n === 1)) return;
  const fits = value.shape.length === shape.length && shape.every((size, k) => {
    const own = value.shape[k]!;
    if (size === null) return true;
    if (typeof size === "number") return own === size;
    const before = sizes.get(size);
    if (before === undefined) sizes.set(size, own);
    // Exporters reuse names for sizes that differ.
    return true;
  });
  if (!fits) {
    throw new ShapeError(
      `Cannot run a model with input ${describe(name)} of shape ${formatShape(value.shape)}: ` +
        `it is ${formatSizes(shape)}`,
    );
  }
}

// ---- values in files of their own ---------------------------------------------------------------

/** A reader of tensors that are all in one file. */
function readerIn(bytes: Uint8Array): Initializers {
  const external = (): never => {
    throw new FormatError("the elements are in another file", NO_FILE, 0);
  };
  return new Initializers({ file: NO_FILE, bytes, source: undefined, external });
}

function sequenceValue({ tensors, sequences }: SequenceMessage, read: Initializers): Value[] {
  return sequences.length > 0
    ? sequences.map((one) => sequenceValue(one, read))
    : tensors.map((one) => read.read(one));
}

/** The reader of the package. */
let wire: Wire | undefined;

/** The value of the bytes of a `TensorProto`, as files of test data have it. */
export async function readTensor(bytes: Uint8Array): Promise<Value> {
  wire ??= await importWire();
  return readerIn(bytes).read(readTensorMessage(wire, bytes, NO_FILE));
}

/** The value of the bytes of a `SequenceProto`. */
export async function readSequence(bytes: Uint8Array): Promise<Value> {
  wire ??= await importWire();
  return sequenceValue(readSequenceMessage(wire, bytes, NO_FILE), readerIn(bytes));
}

/** The value of the bytes of an `OptionalProto`. */
export async function readOptional(bytes: Uint8Array): Promise<Value> {
  wire ??= await importWire();
  const { tensor, sequence } = readOptionalMessage(wire, bytes, NO_FILE);
  if (tensor !== undefined) return readerIn(bytes).read(tensor);
  return sequence === undefined ? null : sequenceValue(sequence, readerIn(bytes));
}
