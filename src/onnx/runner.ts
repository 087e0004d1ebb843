/**
 * Runs graphs: as programs of `compile` where that is possible, node by node where it is not.
 *
 * A graph starts as one program. While it is recorded, nodes compute known values at once. Where a node
 * needs elements that are not known, a small input of which they are computed becomes part of the kind of
 * the program, or the graph is cut before the node. Where the shape of a result depends on elements, the
 * node runs by itself, between the programs before and after it.
 *
 * Inputs of a new kind, such as a cache that has grown, run node by node the first time. They become a
 * program when they come again, or where there are many kinds, when they come often: making a program
 * takes longer than a run, and memory.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import { ArgumentError, ShapeError, TraceError } from "../base/errors.ts";
import { formatShape, sameShape, type Shape } from "../base/shape.ts";
import { turn } from "../base/turn.ts";
import { compile, type Compiled, type CompileOptions, type ProgramReport } from "../compile/mod.ts";
import { tidy } from "../core/handles.ts";
import { interpret, type Interpreter, interpreting, uninterpreted } from "../core/interpreter.ts";
import { overlaps } from "../core/write.ts";
import { withoutCopies } from "../memory/lazy.ts";
import type { Storage } from "../memory/storage.ts";
import { keep, scope, Tensor } from "../tensor/tensor.ts";
import {
  Call,
  describeValue,
  type GraphRun,
  type Implementation,
  type Prepare,
  type Prepared,
  type Rounds,
} from "./graph/call.ts";
import { type Graph, type Node, readsOf } from "./graph/graph.ts";
import { describeNarrowed, type Halves, narrowed, type Widening } from "./halves.ts";
import { NeedsHost } from "./graph/needs.ts";
import {
  elementsOf,
  isKnown,
  isKnownTensor,
  isList,
  NeedsValue,
  Strings,
  type T,
  tensorsIn,
  type Value,
} from "./graph/values.ts";

/** The values of a graph by name, and those of the graphs around it. */
export class Environment {
  readonly #values = new Map<string, Value>();
  readonly #constants: ReadonlyMap<string, Value>;
  readonly #outer: Environment | undefined;
  /** Whether nodes run one by one, also those of graphs inside. */
  readonly oneByOne: boolean;

  constructor(constants: ReadonlyMap<string, Value>, outer?: Environment, oneByOne = false) {
    this.#constants = constants;
    this.#outer = outer;
    this.oneByOne = oneByOne || (outer?.oneByOne ?? false);
  }

  get(name: string): Value {
    if (this.#values.has(name)) return this.#values.get(name);
    if (this.#constants.has(name)) return this.#constants.get(name);
    return this.#outer?.get(name);
  }

  set(name: string, value: Value): void {
    this.#values.set(name, value);
  }

  /** Whether a value is of the file. */
  isConstant(name: string): boolean {
    if (this.#values.has(name)) return false;
    return this.#constants.has(name) || (this.#outer?.isConstant(name) ?? false);
  }
}

/** Finds what computes a node. */
export type Resolve = (node: Node) => Implementation;

/** Ops whose results differ in each run. */
const RANDOM = new Set([
  "RandomNormal",
  "RandomNormalLike",
  "RandomUniform",
  "RandomUniformLike",
  "Bernoulli",
  "Multinomial",
  "Dropout",
]);

/** Whether the results of a node differ in each run. */
export function isRandom({ op }: Node): boolean {
  return RANDOM.has(op);
}

/** Known results with more elements are computed by the program instead: they would take its memory. */
const MOST_KNOWN = 65_536;
/** A program takes as long to make as about this many runs of nodes one by one. */
const MANY_RUNS = 16;
/**
 * As long as a part has few kinds of inputs, one that comes again becomes a program. A decoder has a kind
 * for each length of its cache: more than are kept, so each must come often.
 */
const FEW_KINDS = 8;
/** The most kinds of inputs that a part knows. */
const MOST_KINDS = 256;
/** Programs that took no more milliseconds off the event loop may run on it. */
const BRIEF_MS = 0.5;
/** Inputs with more elements do not become part of the kind of a program. */
const MOST_STATIC = 16;
/** Thrown where a program cannot be recorded. */
class Cut extends Error {
  /** The place of the node among those of the graph. */
  readonly at: number;

  constructor(at: number, override readonly cause: unknown) {
    super("cut");
    this.at = at;
  }
}

/** Whether an error is of a node whose results depend on elements. */
function dependsOnElements(error: unknown): boolean {
  return error instanceof NeedsValue || error instanceof NeedsHost || error instanceof TraceError;
}

/** The storages that have the elements of values. */
function basesOf(values: Iterable<Value>): Storage[] {
  return Array.from(tensorsIn(values), ({ storage }) => storage.base);
}

/** What the constants of a model were made into: see {@link Prepare}. */
export class Constants {
  /** By their first constant. */
  readonly #made = new Map<Value, { readonly of: readonly Value[]; readonly made: Prepared }[]>();
  /** Sees the ops that make them. */
  readonly #by: Interpreter | undefined;

  constructor(by?: Interpreter) {
    this.#by = by;
  }

  /** What constants were made into: the same ones are made into the same. */
  of<R extends Prepared>(constants: readonly Value[], make: () => R): R {
    const first = constants[0];
    const all = this.#made.get(first) ?? [];
    const before = all.find((one) => one.of.every((value, k) => value === constants[k]));
    if (before !== undefined) return before.made as R;
    const by = this.#by;
    const body = by === undefined ? make : () => interpret(by, make);
    const made = uninterpreted(() => withoutCopies(basesOf(constants), () => scope(body)));
    keep(made.groups as T);
    all.push({ of: constants, made });
    this.#made.set(first, all);
    return made;
  }

  /** Frees them. */
  dispose(): void {
    for (const { made } of [...this.#made.values()].flat()) (made.groups as T).dispose();
    this.#made.clear();
  }
}

/** What a model shares between its graphs. */
export interface Shared {
  readonly resolve: Resolve;
  readonly options: CompileOptions;
  /** What constants were made into. */
  readonly prepared: Constants;
  /** The values of float16. */
  readonly halves: Halves;
  /** The names of inputs of the model that are part of the kind of a program. */
  readonly static: ReadonlySet<string>;
  /** The runner of a graph. */
  runner(graph: Graph): Runner;
  /**
   * Runs a graph with its programs off the event loop, except brief ones.
   *
   * @throws {DisposedError} If the model was disposed of meanwhile.
   */
  later(graph: Graph, inputs: readonly Value[]): Promise<Value[]>;
  /** Frees the runner of a graph. */
  forget(graph: Graph): void;
}

/** The values that `compute` makes; disposes of all other tensors that it makes. */
function kept(compute: () => readonly Value[]): readonly Value[] {
  let made: readonly Value[] = [];
  tidy(() => {
    made = compute();
    // Most nodes have one result, which needs no set of those that are kept.
    if (made.length === 1 && made[0] instanceof Tensor) return made[0];
    return made.some(isList) ? [...tensorsIn(made)] : made;
  });
  return made;
}

/** Calls what computes a node. */
function start(
  node: Node,
  inputs: readonly Value[],
  environment: Environment,
  shared: Shared,
): readonly Value[] | Rounds {
  // Other values may change, and a model would keep what each of them was made into.
  const prepare: Prepare = (places, make) => {
    const names = places.map((k) => node.inputs[k] ?? "");
    if (names.some((name) => name !== "" && !environment.isConstant(name))) return undefined;
    return shared.prepared.of(places.map((k) => inputs[k]), make);
  };
  return shared.resolve(node)(new Call(node, inputs, prepare));
}

function inputsOf(node: Node, environment: Environment): Value[] {
  return node.inputs.map((name) => name === "" ? undefined : environment.get(name));
}

/**
 * Computes the outputs of a node; known inputs give known outputs. `call` calls the op with the inputs, or
 * with what it makes of them.
 */
export function evaluate(
  node: Node,
  environment: Environment,
  shared: Shared,
  inputs: readonly Value[] = inputsOf(node, environment),
  call: Widening["call"] = (run) => run(inputs),
): readonly Value[] {
  const recording = interpreting();
  const compute = (): readonly Value[] => {
    const made = call((own) => start(node, own, environment, shared));
    if (isList(made as Value)) return made as readonly Value[];
    const rounds = made as Rounds;
    for (let results: Value[] = [];;) {
      const { done, value } = rounds.next(results);
      if (done === true) return value;
      results = interpreting()
        ? runInline(value.graph, value.inputs, environment, shared)
        : shared.runner(value.graph).run(value.inputs, environment);
    }
  };
  // Programs read few of the constants themselves, but what was made of them.
  if (!recording) return withoutCopies(basesOf(inputs), () => kept(compute));
  const isFixed = !isRandom(node) && inputs.every(isKnown) &&
    node.graphs.length === 0;
  if (!isFixed) return compute();
  const known = uninterpreted(() => {
    const made = kept(compute);
    let size = 0;
    for (const x of tensorsIn(made)) if (!inputs.includes(x)) size += x.size;
    if (size <= MOST_KNOWN) return made;
    for (const x of tensorsIn(made)) if (!inputs.includes(x)) x.dispose();
    return undefined;
  });
  return known ?? compute();
}

/** Rounds values of names that are kept as float32, and returns what it makes. */
function narrow(environment: Environment, names: Iterable<string>): T[] {
  const made: T[] = [];
  for (const name of names) {
    const value = environment.get(name), own = narrowed(value);
    if (own === value) continue;
    environment.set(name, own);
    made.push(own as T);
  }
  return made;
}

/**
 * {@link evaluate}, which stores the outputs, and names the node in errors. Outputs of float16 may be kept as
 * float32.
 */
export function step(
  node: Node,
  environment: Environment,
  shared: Shared,
): readonly Value[] {
  try {
    if (node.graphs.length > 0 && interpreting()) narrow(environment, readsOf(node));
    const inputs = inputsOf(node, environment);
    const wide = shared.halves.of(
      node,
      shared.resolve(node),
      inputs,
      (name) => environment.isConstant(name),
    );
    const made = wide === undefined
      ? evaluate(node, environment, shared, inputs)
      : evaluate(node, environment, shared, wide.inputs, wide.call);
    return store(node, environment, made);
  } catch (error) {
    if (error instanceof NeedsValue) error.value ??= node.inputs[error.input];
    if (!(error instanceof Error) || dependsOnElements(error) || error instanceof Cut) throw error;
    throw named(error, node, environment);
  }
}

function store(node: Node, environment: Environment, made: readonly Value[]): readonly Value[] {
  node.outputs.forEach((name, k) => {
    if (name !== "") environment.set(name, made[k]);
  });
  return made;
}

/** Rounds take the event loop for so many milliseconds at most. */
const LONGEST_TURN = 5;
/** After a round that took fewer milliseconds, the next one runs on the event loop: that is faster. */
const SHORT_ROUND = 1;

/**
 * {@link step} of a node that runs graphs: the event loop runs between rounds. Programs of rounds that
 * are not short run off it.
 */
async function stepLater(
  node: Node,
  environment: Environment,
  shared: Shared,
  signal: AbortSignal | undefined,
): Promise<readonly Value[]> {
  const inputs = inputsOf(node, environment);
  const given = new Set(tensorsIn(inputs));
  /** What rounds have made. */
  const own = new Set<T>();
  let rounds: Rounds | undefined;
  /** The next graph, or the outputs. All else that is made before it is disposed of. */
  const next = (results: Value[]): IteratorResult<GraphRun, readonly Value[]> => {
    let made: IteratorResult<GraphRun, readonly Value[]>;
    kept(() => {
      const begun = rounds ?? start(node, inputs, environment, shared);
      if (isList(begun as Value)) made = { done: true, value: begun as readonly Value[] };
      else made = (rounds = begun as Rounds).next(results);
      return made.done === true ? made.value : made.value.inputs;
    });
    for (const x of tensorsIn(results)) if (x.isDisposed) own.delete(x);
    return made!;
  };
  let turned = performance.now(), isShort = false;
  try {
    let results: Value[] = [];
    for (;;) {
      const { done, value } = next(results);
      if (done === true) {
        const outputs = new Set(tensorsIn(value));
        for (const x of own) if (!outputs.has(x)) x.dispose();
        own.clear();
        return store(node, environment, value);
      }
      const runner = shared.runner(value.graph);
      const begun = performance.now();
      try {
        results = isShort
          ? runner.run(value.inputs, environment)
          : await runner.runLater(value.inputs, { signal, outer: environment });
      } finally {
        for (const x of tensorsIn(value.inputs)) if (!given.has(x) && !own.has(x)) x.dispose();
      }
      for (const x of tensorsIn(results)) own.add(x);
      const ended = performance.now();
      isShort = ended - begun < SHORT_ROUND;
      if (ended - turned > LONGEST_TURN) {
        await turn();
        turned = performance.now();
      }
      signal?.throwIfAborted();
    }
  } catch (error) {
    for (const x of own) x.dispose();
    if (!(error instanceof Error) || error === signal?.reason) throw error;
    throw named(error, node, environment);
  }
}

/** Errors whose message names their node. */
const namedErrors = new WeakSet<Error>();

/** An error of an op of the core, with the node and its inputs. */
function named(error: Error, node: Node, environment: Environment): Error {
  if (namedErrors.has(error)) return error;
  namedErrors.add(error);
  const inputs = node.inputs.filter((name) => name !== "").map((name) =>
    describeNarrowed(environment.get(name))
  );
  error.message += ` (node ${node.label}, of ${inputs.join(", ") || "no inputs"})`;
  return error;
}

/** Runs the nodes of a graph as part of the program that is recorded. */
function runInline(
  graph: Graph,
  inputs: readonly Value[],
  outer: Environment,
  shared: Shared,
): Value[] {
  const environment = new Environment(graph.constants, outer);
  graph.inputs.forEach(({ name }, k) => environment.set(name, inputs[k]));
  for (const node of graph.nodes) step(node, environment, shared);
  return graph.outputs.map(({ name }) => narrowed(environment.get(name)));
}

/** What a program takes: tensors, and lists of these. */
type Arguments = Record<string, unknown>;
type ProgramFunction = (inputs: Arguments, key: string) => T[][];

/** Consecutive nodes of a graph. */
interface Part {
  readonly first: number;
  readonly last: number;
  /** Why they run by themselves; undefined for a program. */
  readonly why: string | undefined;
  /** The names of values that they take from before them, and that are not constants. */
  readonly inputs: readonly string[];
  /** The names of values that the parts after them take. */
  readonly outputs: readonly string[];
  readonly program: ProgramPart | undefined;
  /** For each node, the values that no node after it reads; undefined until they are needed. */
  lastReads?: readonly (readonly string[])[];
}

/** For each node, the values made by these nodes that no later one reads, and that are no outputs. */
function lastReadsOf(nodes: readonly Node[], outputs: readonly string[]): string[][] {
  const own = new Set(nodes.flatMap((node) => node.outputs));
  const seen = new Set(outputs);
  return nodes.toReversed().map((node) => {
    const last = [...readsOf(node), ...node.outputs].filter((name) =>
      name !== "" && own.has(name) && !seen.has(name)
    );
    last.forEach((name) => seen.add(name));
    return [...new Set(last)];
  }).reverse();
}

/** Dtypes and shapes of inputs, with the elements of some. */
interface Kind {
  /** The runs so far without a program. */
  runs: number;
  hasProgram: boolean;
  /** The least milliseconds that a run of the program took off the event loop. */
  least: number;
}

/** The program of a part. */
interface ProgramPart {
  readonly compiled: Compiled<ProgramFunction>;
  /** The inputs that are part of the kind of the program. */
  readonly static: Set<string>;
  /** The kinds of inputs so far, the last one used last. */
  readonly kinds: Map<string, Kind>;
  /** Values for the call that records. */
  current: { readonly values: ReadonlyMap<string, Value>; readonly outer: Environment | undefined };
  /** The outputs that are tensors, or lists of these, in the result. */
  shapes: readonly ("tensor" | "list")[];
}

/** A part that a report describes. */
export interface PartReport {
  /** The first and last node. */
  readonly nodes: readonly [first: string, last: string];
  /** The number of nodes. */
  readonly count: number;
  /** Why the nodes run by themselves; undefined for a program. */
  readonly why: string | undefined;
  /** The reports of its programs. */
  readonly programs: readonly ProgramReport[];
  /** The inputs whose elements are part of the kind of the program. */
  readonly static: readonly string[];
}

/** Options of a run. */
export interface RunOptions {
  /** The tensors to write results to, by name. */
  readonly out?: ReadonlyMap<string, Writable> | undefined;
  /** Runs nodes one by one, and makes no programs. */
  readonly oneByOne?: boolean;
}

/** Options of an asynchronous run. */
export interface AsyncRunOptions extends RunOptions {
  readonly signal?: AbortSignal | undefined;
  /** The values of the graph around this one. */
  readonly outer?: Environment;
  /** Runs programs on this thread that take less time than another thread would need to begin. */
  readonly brief?: boolean;
}

/** A tensor that can be written. */
export type Writable = Tensor<DType, Shape>;

/** The texts that identify elements that are part of the kind of a program. */
function keyOf(names: Iterable<string>, values: ReadonlyMap<string, Value>): string {
  const key: unknown[] = [];
  for (const name of names) {
    const value = values.get(name);
    if (value instanceof Strings) key.push([name, "string", value.shape, value.data]);
    else if (value instanceof Tensor) {
      key.push([name, value.dtype, value.shape, elementsOf(value).map(String)]);
    } else key.push([name, value === undefined ? "undefined" : "null"]);
  }
  return key.length === 0 ? "" : JSON.stringify(key);
}

/** Whether a value can be part of the kind of a program. */
function isSmall(value: Value): boolean {
  if (value instanceof Tensor) {
    return value.size === 1 || value.size <= MOST_STATIC && !/float|complex/.test(value.dtype);
  }
  return value instanceof Strings ? value.data.length <= MOST_STATIC : !isList(value);
}

/** Runs a program off the event loop, or on it where that took no longer than a thread needs to begin. */
async function runBriefly(
  { compiled }: ProgramPart,
  args: Arguments,
  key: string,
  kind: Kind,
): Promise<T[][]> {
  const start = performance.now();
  const isBrief = kind.least <= BRIEF_MS;
  const results = isBrief ? compiled(args, key) : await compiled.async(args, key);
  const time = performance.now() - start;
  // It is measured anew if it has become slower, as on a busy machine.
  kind.least = isBrief && time > 4 * BRIEF_MS ? Infinity : Math.min(kind.least, time);
  return results;
}

/** Runs a graph. */
export class Runner {
  readonly graph: Graph;
  readonly #shared: Shared;
  #parts: Part[];

  constructor(graph: Graph, shared: Shared) {
    this.graph = graph;
    this.#shared = shared;
    this.#parts = [];
    this.#parts = this.#split([[0, graph.nodes.length, undefined]]);
  }

  /** Parts for ranges of nodes. */
  #split(
    ranges: readonly (readonly [first: number, last: number, why: string | undefined])[],
    statics: ReadonlySet<string> = this.#shared.static,
  ): Part[] {
    const { nodes, constants, outputs } = this.graph;
    const needed = new Set(outputs.map(({ name }) => name));
    const parts: Part[] = [];
    for (const [first, last, why] of [...ranges].reverse()) {
      if (first === last) continue;
      const before = this.#parts.find((part) =>
        part.first === first && part.last === last && part.why === why
      );
      const made = new Set<string>();
      const inputs = new Set<string>();
      for (const node of nodes.slice(first, last)) {
        for (const name of readsOf(node)) {
          if (!made.has(name) && !constants.has(name)) inputs.add(name);
        }
        node.outputs.forEach((name) => made.add(name));
      }
      const kept = [...made].filter((name) => needed.has(name));
      kept.forEach((name) => needed.delete(name));
      inputs.forEach((name) => needed.add(name));
      if (before !== undefined) {
        parts.push(before);
        continue;
      }
      const part = { first, last, why, inputs: [...inputs], outputs: kept, program: undefined };
      const own = new Set([...inputs].filter((name) => statics.has(name)));
      const program = why === undefined ? this.#program(part, own) : undefined;
      parts.push({ ...part, program });
    }
    return parts.reverse();
  }

  #program({ first, last, outputs }: Omit<Part, "program">, statics: Set<string>): ProgramPart {
    const record: ProgramFunction = (inputs) => {
      const { values, outer } = part.current;
      const environment = new Environment(this.graph.constants, outer);
      for (const [name, value] of values) {
        const traced = inputs[name];
        if (traced !== undefined) environment.set(name, traced as Value);
        else if (value instanceof Tensor) {
          environment.set(name, uninterpreted(() => value.copy()));
        } else environment.set(name, value);
      }
      this.#record(first, last, environment);
      const shapes: ("tensor" | "list")[] = [];
      const results = outputs.map((name) => {
        const value = narrowed(environment.get(name));
        if (value instanceof Tensor) {
          shapes.push("tensor");
          return [isKnownTensor(value) ? value.copy() : value];
        }
        if (isList(value) && value.every((one) => one instanceof Tensor)) {
          shapes.push("list");
          return value.map((one) => isKnownTensor(one as T) ? (one as T).copy() : one as T);
        }
        const at = this.graph.nodes.findIndex((node) => node.outputs.includes(name));
        throw new Cut(at, new NeedsHost(`${describeValue(value)} is no result of a program`));
      });
      part.shapes = shapes;
      return results;
    };
    const part: ProgramPart = {
      compiled: compile(record, this.#shared.options),
      static: statics,
      kinds: new Map(),
      current: { values: new Map(), outer: undefined },
      shapes: [],
    };
    return part;
  }

  #record(first: number, last: number, environment: Environment): void {
    for (let at = first; at < last; at++) {
      try {
        step(this.graph.nodes[at]!, environment, this.#shared);
      } catch (error) {
        if (dependsOnElements(error)) throw new Cut(at, error);
        throw error;
      }
    }
  }

  /** Runs the graph. The results are the caller's own. */
  run(inputs: readonly Value[], outer?: Environment, options: RunOptions = {}): Value[] {
    const run = new Run(this.graph, inputs, outer, options);
    try {
      for (let part = this.#partAt(0); part !== undefined;) {
        if (part.program === undefined) this.#alone(part, run);
        else {
          const own = run.outOf(part);
          const results = this.#attempt(
            part,
            run,
            (program, args, key) =>
              own === undefined
                ? program.compiled(args, key)
                : program.compiled(args, key, { out: own }),
          );
          if (results === undefined) {
            part = this.#partAt(part.first);
            continue;
          }
          if (results !== null) run.store(part, results, part.program.shapes);
        }
        part = this.#partAt(part.last);
      }
      return run.end();
    } catch (error) {
      run.abandon();
      throw error;
    }
  }

  /** {@link run}, with programs off the event loop. */
  async runLater(inputs: readonly Value[], given: AsyncRunOptions): Promise<Value[]> {
    const { signal, outer, brief = false } = given;
    const run = new Run(this.graph, inputs, outer, given);
    try {
      for (let part = this.#partAt(0); part !== undefined;) {
        signal?.throwIfAborted();
        if (part.program === undefined) await this.#aloneLater(part, run, signal);
        else {
          const own = run.outOf(part);
          const options = {
            ...signal !== undefined && { signal },
            ...own !== undefined && { out: own },
          };
          const isPlain = Object.keys(options).length === 0;
          const pending = this.#attempt(
            part,
            run,
            (program, args, key, kind) =>
              isPlain && brief
                ? runBriefly(program, args, key, kind)
                : isPlain
                ? program.compiled.async(args, key)
                : program.compiled.async(args, key, options),
          );
          try {
            const results = await pending;
            if (results) run.store(part, results, part.program.shapes);
          } catch (error) {
            if (!this.#recover(part, run, error)) throw error;
            part = this.#partAt(part.first);
            continue;
          }
        }
        part = this.#partAt(part.last);
      }
      return run.end();
    } catch (error) {
      run.abandon();
      throw error;
    }
  }

  /**
   * The part that begins with a node. Calls that run meanwhile may cut parts, but never join them.
   */
  #partAt(first: number): Part | undefined {
    return this.#parts.find((part) => part.first === first);
  }

  #alone({ first }: Part, run: Run): void {
    const node = this.graph.nodes[first]!;
    const inputs = node.inputs.map((name) => run.environment.get(name));
    run.add(step(node, run.environment, this.#shared), inputs);
    run.add(narrow(run.environment, node.outputs), []);
  }

  async #aloneLater(part: Part, run: Run, signal: AbortSignal | undefined): Promise<void> {
    const node = this.graph.nodes[part.first]!;
    if (node.graphs.length === 0) return this.#alone(part, run);
    const inputs = node.inputs.map((name) => run.environment.get(name));
    run.add(await stepLater(node, run.environment, this.#shared, signal), inputs);
  }

  /**
   * Calls a program. Returns undefined if the parts have changed because it cannot be recorded, and null
   * if its nodes have run one by one.
   */
  #attempt<R>(
    part: Part,
    run: Run,
    call: (program: ProgramPart, args: Arguments, key: string, kind: Kind) => R,
  ): R | null | undefined {
    if (run.environment.oneByOne) {
      this.#runNodes(part, run);
      return null;
    }
    const program = part.program!;
    const values = new Map(part.inputs.map((name) => [name, run.environment.get(name)]));
    const fixed: string[] = [];
    const args: Arguments = {};
    for (const [name, value] of values) {
      // Programs hold what is of the file.
      if (run.environment.isConstant(name)) values.delete(name);
      else if (value instanceof Tensor || isList(value)) {
        if (program.static.has(name) && isSmall(value)) fixed.push(name);
        else args[name] = value;
      } else fixed.push(name);
    }
    const key = keyOf(fixed, values);
    const kind = this.#kindWithProgram(program, args, key);
    if (kind === undefined) {
      this.#runNodes(part, run);
      return null;
    }
    program.current = { values, outer: run.outer };
    try {
      return call(program, args, key, kind);
    } catch (error) {
      if (!this.#recover(part, run, error)) throw error;
      return undefined;
    }
  }

  /** The kind of inputs that run as a program: the first one, and those that came often enough. */
  #kindWithProgram({ kinds }: ProgramPart, args: Arguments, key: string): Kind | undefined {
    const shapes = Object.values(args).map((value) =>
      Array.from(tensorsIn([value as Value]), ({ dtype, shape }) => `${dtype}[${shape}]`).join()
    );
    const name = `${shapes.join("|")} ${key}`;
    const kind = kinds.get(name) ?? { runs: 0, hasProgram: false, least: Infinity };
    const enough = kinds.size === 0 ? 0 : kinds.size <= FEW_KINDS ? 1 : MANY_RUNS;
    kinds.delete(name);
    if (!kind.hasProgram && kind.runs < enough) {
      kind.runs++;
      kinds.set(name, kind);
      if (kinds.size > MOST_KINDS) kinds.delete(kinds.keys().next().value!);
      return undefined;
    }
    if (!kind.hasProgram) this.#makeRoom(kinds);
    kind.runs = 0;
    kind.hasProgram = true;
    kinds.set(name, kind);
    return kind;
  }

  /** A program more takes the place of the one used longest ago: that kind must come often again. */
  #makeRoom(kinds: Map<string, Kind>): void {
    const kept = [...kinds].filter(([, { hasProgram }]) => hasProgram);
    if (kept.length < (this.#shared.options.maxPrograms ?? Infinity)) return;
    kept[0]![1].hasProgram = false;
  }

  /** Runs the nodes of a part one by one; frees each tensor after the last node that reads it. */
  #runNodes(part: Part, run: Run): void {
    const { environment } = run;
    part.lastReads ??= lastReadsOf(this.graph.nodes.slice(part.first, part.last), part.outputs);
    part.lastReads.forEach((names, k) => {
      const node = this.graph.nodes[part.first + k]!;
      if (node.graphs.length > 0) run.add(narrow(environment, readsOf(node)), []);
      const inputs = node.inputs.map((name) => environment.get(name));
      run.add(step(node, environment, this.#shared), inputs);
      run.release(names);
    });
    run.add(narrow(environment, part.outputs), []);
  }

  /** Changes the parts after an error of recording; false for another error. */
  #recover(part: Part, run: Run, error: unknown): boolean {
    let cut: unknown = error;
    while (cut instanceof Error && !(cut instanceof Cut)) cut = cut.cause;
    if (!(cut instanceof Cut)) return false;
    const { at, cause } = cut;
    // A call that ran meanwhile has cut it.
    if (!this.#parts.includes(part)) return true;
    const { first, last } = part;
    const ranges = this.#parts.flatMap((one): [number, number, string | undefined][] =>
      one === part ? [] : [[one.first, one.last, one.why]]
    );
    const place = this.#parts.indexOf(part);
    if (cause instanceof NeedsValue) {
      const sources = cause.value === undefined ? undefined : this.#sources(part, cause.value);
      const isFit = sources !== undefined && sources.size > 0 &&
        [...sources].every((one) => isSmall(run.environment.get(one)));
      if (isFit && [...sources].some((one) => !part.program!.static.has(one))) {
        for (const one of sources) part.program!.static.add(one);
        // Kinds have other names now: the next one is the first.
        part.program!.kinds.clear();
        return true;
      }
      if (at > first) {
        ranges.splice(place, 0, [first, at, undefined], [at, last, undefined]);
        this.#replace(ranges);
        return true;
      }
    }
    const why = (cause as Error).message;
    const around: [number, number, string | undefined][] = [[at, at + 1, why]];
    if (at > first) around.unshift([first, at, undefined]);
    if (at + 1 < last) around.push([at + 1, last, undefined]);
    ranges.splice(place, 0, ...around);
    this.#replace(ranges);
    return true;
  }

  #replace(ranges: readonly (readonly [number, number, string | undefined])[]): void {
    const before = this.#parts;
    const statics = new Set(this.#shared.static);
    for (const { program } of before) for (const name of program?.static ?? []) statics.add(name);
    this.#parts = this.#split(ranges, statics);
    for (const { program } of before) {
      if (!this.#parts.some((part) => part.program === program)) program?.compiled.dispose();
    }
  }

  /** The inputs of a part from which a value is computed. */
  #sources({ first, last, inputs }: Part, name: string): Set<string> {
    const makers = new Map<string, Node>();
    for (const node of this.graph.nodes.slice(first, last)) {
      for (const output of node.outputs) makers.set(output, node);
    }
    const found = new Set<string>();
    const seen = new Set<string>();
    const todo = [name];
    for (let one = todo.pop(); one !== undefined; one = todo.pop()) {
      if (seen.has(one)) continue;
      seen.add(one);
      const node = makers.get(one);
      if (node === undefined) {
        if (inputs.includes(one)) found.add(one);
      } // The elements of an input do not matter to its shape.
      else if (node.op !== "Shape" && node.op !== "Size") todo.push(...readsOf(node));
    }
    return found;
  }

  /** Describes the parts. */
  report(): PartReport[] {
    const { nodes } = this.graph;
    return this.#parts.filter(({ first, last }) => last > first).map((part) => ({
      nodes: [nodes[part.first]!.label, nodes[part.last - 1]!.label],
      count: part.last - part.first,
      why: part.why,
      programs: part.program?.compiled.explain() ?? [],
      static: [...part.program?.static ?? []],
    }));
  }

  /** The number of programs. */
  get programs(): number {
    return this.#parts.reduce((sum, { program }) => sum + (program?.compiled.programs ?? 0), 0);
  }

  /** Frees the programs. */
  dispose(): void {
    for (const { program } of this.#parts) program?.compiled.dispose();
  }
}

/** Throws unless a result fits the tensor that it is written to. */
function checkOut(name: string, target: T, value: Value): void {
  if (!(value instanceof Tensor)) {
    throw new ArgumentError(`Cannot write output ${name} to a tensor: it is no tensor`);
  }
  if (target.dtype === value.dtype && sameShape(target.shape, value.shape)) return;
  throw new ShapeError(
    `Cannot write output ${name} of ${value.dtype} and shape ${
      formatShape(value.shape)
    } to a tensor of ` +
      `${target.dtype} and shape ${formatShape(target.shape)}`,
  );
}

/** The values of one run. */
class Run {
  readonly environment: Environment;
  readonly outer: Environment | undefined;
  readonly #graph: Graph;
  readonly #out: ReadonlyMap<string, Writable> | undefined;
  /** The tensors that parts have made. */
  readonly #made = new Set<T>();
  /** Those that several values have. */
  readonly #shared = new Set<T>();
  /** The storages of inputs and constants of which the tensors that parts have made are views. */
  readonly #borrowed = new Set<T["storage"]>();
  /** Whether the memory for a result is also that of an input, which parts still read. */
  readonly #overwrites: boolean;

  constructor(
    graph: Graph,
    inputs: readonly Value[],
    outer: Environment | undefined,
    { out, oneByOne }: RunOptions,
  ) {
    this.#graph = graph;
    this.#out = out;
    this.outer = outer;
    this.environment = new Environment(graph.constants, outer, oneByOne);
    graph.inputs.forEach(({ name }, k) => this.environment.set(name, inputs[k]));
    const given = out === undefined ? [] : [...tensorsIn(inputs)];
    this.#overwrites = given.some((x) => out?.values().some((target) => overlaps(target, x)));
  }

  /** Notes what a node has made of its inputs. */
  add(values: readonly Value[], inputs: readonly Value[]): void {
    if (values.some(isList) || inputs.some(isList)) return this.#addLists(values, inputs);
    for (const x of values) {
      if (!(x instanceof Tensor)) continue;
      for (const one of inputs) {
        const isView = one instanceof Tensor && one.storage === x.storage && !this.#made.has(one);
        if (isView) this.#borrowed.add(x.storage);
      }
      // A tensor under two names lives to the end.
      if (inputs.includes(x) || this.#made.has(x)) this.#shared.add(x);
      else this.#made.add(x);
    }
  }

  /** {@link add}, where there are lists, which may be long. */
  #addLists(values: readonly Value[], inputs: readonly Value[]): void {
    const given = new Set(tensorsIn(inputs));
    const others = new Set<T["storage"]>();
    for (const x of given) if (!this.#made.has(x)) others.add(x.storage);
    for (const value of values) {
      for (const x of tensorsIn([value])) {
        if (others.has(x.storage)) this.#borrowed.add(x.storage);
        const isShared = given.has(x) || this.#made.has(x);
        if (isShared || isList(value)) this.#shared.add(x);
        if (!isShared) this.#made.add(x);
      }
    }
  }

  /** Disposes of the tensors of names that nothing reads any more. */
  release(names: readonly string[]): void {
    for (const name of names) {
      const value = this.environment.get(name);
      if (!(value instanceof Tensor) || this.#shared.has(value)) continue;
      if (this.#made.delete(value)) value.dispose();
    }
  }

  /** Stores the results of a program, which may be its arguments. */
  store(
    { inputs, outputs }: Pick<Part, "inputs" | "outputs">,
    results: readonly T[][],
    shapes: readonly ("tensor" | "list")[],
  ): void {
    const given = inputs.map((name) => this.environment.get(name));
    this.add(results.flat(), given);
    outputs.forEach((name, k) => {
      const values = results[k]!;
      this.environment.set(name, shapes[k] === "list" ? values : values[0]);
    });
  }

  /** The tensors for the results of a part, if all of them are results of the run. */
  outOf({ outputs }: Pick<Part, "outputs">): T[][] | undefined {
    if (this.#overwrites) return undefined;
    const found = outputs.map((name) => this.#out?.get(name));
    if (found.length === 0 || !found.every((x) => x !== undefined)) return undefined;
    return found.map((x) => [x]);
  }

  /** The results; disposes of all other tensors. */
  end(): Value[] {
    const values = this.#graph.outputs.map(({ name }) => {
      const value = this.environment.get(name), target = this.#out?.get(name);
      if (target !== undefined) checkOut(name, target, value);
      return { value, target };
    });
    const kept = new Set<T>();
    const storages = new Set<T["storage"]>();
    // A result that has the memory of an input, of a constant or of another result becomes a tensor of
    // its own: its owner may write to it.
    const own = (value: Value): Value => {
      if (isList(value)) return value.map(own);
      if (!(value instanceof Tensor)) return value;
      const isOwn = this.#made.has(value) && !this.#borrowed.has(value.storage) &&
        !storages.has(value.storage);
      const result = isOwn ? value : value.copy();
      kept.add(result);
      storages.add(result.storage);
      return result;
    };
    const results = values.map(({ value, target }) => target ?? own(value));
    const written = values.flatMap(({ value, target }) =>
      target === undefined || target === value ? [] : [{ value: value as T, target }]
    );
    const sources = written.map(({ value }) => this.#overwrites ? value.copy() : value);
    written.forEach(({ target }, k) => target.set([], sources[k]!));
    if (this.#overwrites) { for (const x of sources) x.dispose(); }
    this.#dispose(kept);
    return results;
  }

  /** Disposes of all tensors. */
  abandon(): void {
    this.#dispose(new Set());
  }

  /** Disposes of the tensors that parts have made, except results, and those of the caller. */
  #dispose(kept: ReadonlySet<T>): void {
    const given = new Set<T>(this.#out?.values());
    for (const x of this.#made) if (!kept.has(x) && !given.has(x)) x.dispose();
  }
}
