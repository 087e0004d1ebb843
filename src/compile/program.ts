/**
 * Programs: a function traced for arguments of one kind, and how it runs.
 *
 * @module
 */
import { checkScalar } from "../base/dtype.ts";
import { attempt, TraceError } from "../base/errors.ts";
import { Late } from "../base/late.ts";
import { dispose, tidy, wrap } from "../core/handles.ts";
import { copyInto, cpuBackendName } from "../core/dispatch.ts";
import { uninterpreted } from "../core/interpreter.ts";
import { prepareOut } from "../core/write.ts";
import { isOperandArgument, type Operand } from "../memory/operand.ts";
import { recycle } from "../memory/pool.ts";
import { checkAlive, DISPOSED, type Storage } from "../memory/storage.ts";
import { LateKey } from "../random/late_key.ts";
import type { Graph, TracedStorage, Value } from "./graph.ts";
import { optimize, type Passes } from "./optimize.ts";
import { isWhole } from "./passes.ts";
import type { JobQueue } from "../backend/native/queue.ts";
import { type Executor, laterOnThread, writtenStorages } from "./replay.ts";
import {
  type Bound,
  isRecord,
  layoutOf,
  type Matcher,
  type Numeric,
  type Pattern,
  Reader,
  type Words,
} from "./signature.ts";
import { fill, type Template, templateOf } from "./template.ts";
import { graphOf, Tracer } from "./trace.ts";

/** A number of each run of a program. */
class ProgramNumber extends Late<Numeric> {
  readonly name: string;
  value: Numeric;

  constructor(path: string, value: Numeric) {
    super();
    this.name = `the number at argument ${path} (counted from 0)`;
    this.value = value;
  }

  now(): Numeric {
    return this.value;
  }
}

/** The arguments of a traced call, with stand-ins for tensors, numbers and keys. */
interface StandIns {
  readonly args: unknown[];
  readonly handles: Operand[];
}

/** The function of a program, of unknown type. */
export type AnyFunction = (...args: unknown[]) => unknown;

/** How a program is made. */
export interface ProgramOptions {
  /** Whether the number at this path is part of the key. */
  isStatic(path: string): boolean;
  /** The improvements. */
  readonly passes: Passes;
  /** Makes what runs the graph. */
  executor(graph: Graph, passes: Passes): Executor;
}

/** A graph that is ready to run. */
interface Prepared {
  readonly graph: Graph;
  readonly executor: Executor;
  /** The versions of the tensors outside of which constants were computed. */
  readonly versions: ReadonlyMap<Storage, number>;
}

/** A traced function for arguments of one kind. */
export class Program {
  readonly patterns: readonly Pattern[];
  readonly graph: Graph;
  readonly #options: ProgramOptions;
  #prepared: Prepared;
  readonly #template: Template;
  readonly #numbers: readonly ProgramNumber[];
  readonly #words: { value: Words }[];
  readonly #tracer: Tracer;
  /** The places of the argument tensors that the function disposes of. */
  readonly #disposed: readonly number[];
  readonly #captured: ReadonlySet<Storage>;
  readonly #outside: readonly Storage[];
  /** The groups of arguments that the program writes. */
  readonly #written: readonly number[];
  readonly #writtenCaptured: readonly Storage[];
  /** The numbers that are part of the key although no option says so. */
  readonly extraStatic: ReadonlySet<string>;
  isDisposed = false;
  /** The backend of the CPU that the program was made for. */
  readonly #backend: string = cpuBackendName();

  /** Traces `f` with `args`. */
  constructor(
    f: AnyFunction,
    args: readonly unknown[],
    options: ProgramOptions,
    extraStatic: ReadonlySet<string> = new Set(),
  ) {
    this.extraStatic = extraStatic;
    this.#options = options;
    const reader = new Reader((path) => extraStatic.has(path) || options.isStatic(path));
    this.patterns = args.map((arg, i) => reader.read(arg, String(i), i));
    const { bound, numberNames, keyNames, storages } = reader;
    for (const { storage } of bound.tensors) checkAlive(storage, "call a program");
    this.#numbers = numberNames.map((path, i) => new ProgramNumber(path, bound.numbers[i]!));
    this.#words = bound.keys.map((value) => ({ value }));
    const tracer = this.#tracer = new Tracer();
    const traced = storages.map((storage, group) => {
      const ends = bound.tensors.map((x) => x.storage === storage ? x.layout.extent()[1] + 1 : 0);
      return tracer.argument(storage, Math.max(...ends), group);
    });
    const results: Value[] = [];
    const disposed: number[] = [];
    let template: Template | undefined;
    tidy(() => {
      const standIns = this.#standIns(args, bound, traced, keyNames);
      const made = tracer.trace(() => {
        const made = f(...standIns.args);
        if (typeof (made as PromiseLike<unknown> | null | undefined)?.then === "function") {
          Promise.resolve(made).catch(() => {});
          throw new TraceError(
            "Cannot trace an async function: what it awaits would run outside of the program; " +
              "await before or after the call",
          );
        }
        return made;
      });
      template = templateOf(made, {
        argument: (handle) => {
          const place = standIns.handles.indexOf(handle);
          return place < 0 ? undefined : place;
        },
        value: (handle) =>
          handle.storage.isTraced || tracer.made.has(handle) ? tracer.value(handle) : undefined,
      }, results);
      standIns.handles.forEach(({ storage }, place) => {
        if (storage === DISPOSED) disposed.push(place);
      });
    });
    this.#template = template!;
    this.#disposed = disposed;
    this.graph = graphOf(tracer, results);
    const captured = new Set<Storage>();
    for (const { origin } of this.graph.storages) {
      if (origin.kind === "captured") captured.add(origin.storage);
    }
    this.#captured = captured;
    this.#outside = [...captured];
    for (const storage of captured) storage.handles++;
    const written = [...writtenStorages(this.graph)] as TracedStorage[];
    this.#written = written.flatMap(({ origin }) =>
      origin.kind === "argument" ? [origin.group] : []
    );
    this.#writtenCaptured = written.flatMap(({ origin }) =>
      origin.kind === "captured" ? [origin.storage] : []
    );
    this.#prepared = this.#prepare();
  }

  /** The improved graph. */
  get improved(): Graph {
    return this.#prepared.graph;
  }

  get executor(): Executor {
    return this.#prepared.executor;
  }

  /** The improvements that are turned on. */
  get passes(): Passes {
    return this.#options.passes;
  }

  #prepare(): Prepared {
    return uninterpreted(() => {
      const { graph, versions } = optimize(this.graph, this.#options.passes);
      return { graph, versions, executor: this.#options.executor(graph, this.#options.passes) };
    });
  }

  /** Prepares the program anew if a tensor outside, of which constants were computed, has changed. */
  #refresh(): void {
    for (const [storage, version] of this.#prepared.versions) {
      if (storage.version === version && !storage.exposed) continue;
      this.#unprepare();
      this.#prepared = this.#prepare();
      return;
    }
  }

  #unprepare(): void {
    const { graph, executor } = this.#prepared;
    executor.dispose();
    graph.storages.forEach((storage, id) => {
      const { origin } = storage;
      if (storage === this.graph.storages[id] || origin.kind !== "created") return;
      if (origin.constant !== null && --origin.constant.handles === 0) recycle(origin.constant);
    });
  }

  #standIns(
    args: readonly unknown[],
    bound: Bound,
    storages: readonly TracedStorage[],
    keyNames: readonly string[],
  ): StandIns {
    const handles: Operand[] = [];
    let numbers = 0;
    let keys = 0;
    const visit = (pattern: Pattern, value: unknown): unknown => {
      switch (pattern.kind) {
        case "tensor": {
          const { flags } = bound.tensors[handles.length]!;
          const handle = wrap(storages[pattern.group]!, layoutOf(pattern), flags);
          handles.push(handle);
          return handle;
        }
        case "number":
          return this.#numbers[numbers++]!;
        case "constant":
          if (typeof value === "number" || typeof value === "bigint") numbers++;
          return value;
        case "key": {
          const words = this.#words[keys]!;
          return new LateKey(`the key at argument ${keyNames[keys++]}`, () => words.value);
        }
        case "list":
          return pattern.members.map((member, i) => visit(member, (value as unknown[])[i]));
        case "record": {
          const made: Record<string, unknown> = {};
          pattern.keys.forEach((key, i) => {
            made[key] = visit(pattern.members[i]!, (value as Record<string, unknown>)[key]);
          });
          return made;
        }
      }
    };
    return { args: this.patterns.map((pattern, i) => visit(pattern, args[i])), handles };
  }

  /**
   * Whether the program computes what the function would for the arguments that `matcher` holds, as
   * far as that depends on more than their kinds.
   */
  accepts({ storages, bound }: Matcher): boolean {
    if (this.#backend !== cpuBackendName()) return false;
    const { fixed, reads, guards } = this.#tracer;
    for (let i = 0; i < storages.length; i++) {
      const own = fixed.size > 0 ? fixed.get(i) : undefined;
      if (own !== undefined ? own !== storages[i] : this.#captured.has(storages[i]!)) return false;
    }
    if (reads.size > 0) {
      for (const [storage, version] of reads) if (storage.version !== version) return false;
    }
    return guards.length === 0 || this.unfit(bound).length === 0;
  }

  /** The paths of the numbers that integers of the program cannot represent. */
  unfit({ numbers }: Bound): string[] {
    const { guards } = this.#tracer;
    if (guards.length === 0) return [];
    this.#setNumbers(numbers);
    const paths = new Set<string>();
    for (const { value, info } of guards) {
      const { error } = attempt(() => checkScalar(info.name, value.now(), "call a program"));
      if (error !== undefined) paths.add((value as ProgramNumber).name);
    }
    return [...paths].map((name) => /argument (\S+)/.exec(name)![1]!);
  }

  #setNumbers(numbers: readonly Numeric[]): void {
    for (let i = 0; i < numbers.length; i++) this.#numbers[i]!.value = numbers[i]!;
  }

  /** Checks the arguments of a call, and sets the numbers and keys of the program. */
  #begin({ bound, storages }: Matcher): void {
    const { tensors, numbers, keys } = bound;
    for (let i = 0; i < tensors.length; i++) checkAlive(tensors[i]!.storage, "call a program");
    for (let i = 0; i < this.#outside.length; i++) checkAlive(this.#outside[i]!, "call a program");
    this.#setNumbers(numbers);
    for (let i = 0; i < keys.length; i++) this.#words[i]!.value = keys[i]!;
    for (const group of this.#written) storages[group]!.settle();
    for (const storage of this.#writtenCaptured) storage.settle();
    if (this.#prepared.versions.size > 0) this.#refresh();
  }

  /** Runs the program on the arguments that `matcher` holds; writes results to `out`, if given. */
  run(matcher: Matcher, out?: unknown): unknown {
    this.#begin(matcher);
    const { bound, storages } = matcher;
    // Ops of the run may call programs that use the matcher.
    const args = bound.tensors.slice();
    const { graph, executor } = this.#prepared;
    const targets = out === undefined ? undefined : this.#targets(out, args);
    const direct = targets === undefined ? undefined : this.#direct(targets, storages, graph);
    const made = executor.run(storages, direct);
    const handles = handlesOf(made, this.graph);
    executor.release();
    return this.#end(handles, args, targets, out, direct);
  }

  /** {@link run} off the event loop, on the elements that the tensors have now. */
  async runLater(
    matcher: Matcher,
    out: unknown,
    queue: JobQueue,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    this.#begin(matcher);
    const { bound } = matcher;
    const [args, numbers, keys] = [
      bound.tensors.slice(),
      bound.numbers.slice(),
      bound.keys.slice(),
    ];
    const storages = matcher.storages.slice();
    const restore = (): void => {
      this.#setNumbers(numbers);
      keys.forEach((words, i) => this.#words[i]!.value = words);
    };
    const targets = out === undefined ? undefined : this.#targets(out, args);
    const { executor } = this.#prepared;
    // Until the end the memory of the arguments stays, whatever happens to their handles.
    for (const storage of storages) storage.handles++;
    let handles: Operand[];
    try {
      const made = await (executor.runLater ?? laterOnThread(executor, this.graph))
        .call(executor, storages, { queue, signal, restore });
      handles = handlesOf(made, this.graph);
    } finally {
      for (const storage of storages) if (--storage.handles === 0) recycle(storage);
    }
    restore();
    if (targets !== undefined) this.#targets(out, args);
    return this.#end(handles, args, targets, out, undefined);
  }

  /** The result of a call from the handles of what it made. */
  #end(
    handles: readonly Operand[],
    args: readonly Operand[],
    targets: readonly Target[] | undefined,
    out: unknown,
    direct: readonly (Storage | undefined)[] | undefined,
  ): unknown {
    for (const place of this.#disposed) dispose(args[place]!);
    if (targets === undefined) return fill(this.#template, handles, args);
    for (const { to, place, argument } of targets) {
      const from = argument ? args[place]! : handles[place]!;
      if (to.storage === from.storage && direct?.[place] === to.storage) to.storage.version++;
      else if (to !== from) copyInto(to, from);
    }
    for (const handle of handles) dispose(handle);
    return out;
  }

  /** The tensors to write to, checked: each with the result, or the argument, that it gets. */
  #targets(out: unknown, args: readonly Operand[]): readonly Target[] {
    const targets: Target[] = [];
    collect(this.#template, out, "out", targets);
    const { results } = this.graph;
    for (const { to, place, argument } of targets) {
      const { layout: { shape }, storage } = argument ? args[place]! : results[place]!;
      prepareOut(to, { shape, dtype: storage.info }, storage, "call a program");
    }
    // Arguments are read before a result replaces one.
    return targets.sort((a, b) => Number(b.argument) - Number(a.argument));
  }

  /** The storages that the program can write its results to without a copy, by their places. */
  #direct(
    targets: readonly Target[],
    args: readonly Storage[],
    { results }: Graph,
  ): (Storage | undefined)[] {
    const found: (Storage | undefined)[] = new Array(results.length).fill(undefined);
    const counts = new Map<Storage, number>();
    for (const { storage } of results) counts.set(storage, (counts.get(storage) ?? 0) + 1);
    for (const { to, place, argument } of targets) {
      if (argument) continue;
      const { storage, layout } = results[place]!;
      const whole = isWhole(results[place]!) && counts.get(storage) === 1 &&
        storage.origin.kind === "made";
      const fits = to.layout.contiguous && to.layout.offset === 0 &&
        to.storage.length === layout.size && to.storage.info === storage.info;
      const own = !to.storage.exposed && !args.includes(to.storage) &&
        !this.#captured.has(to.storage) && !found.includes(to.storage);
      if (whole && fits && own && to.storage.memory === null) found[place] = to.storage;
    }
    return found;
  }

  /** Frees the program. */
  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    this.#unprepare();
    const constants = this.graph.storages.flatMap(({ origin }) =>
      origin.kind === "created" && origin.constant !== null ? [origin.constant] : []
    );
    for (const storage of [...this.#captured, ...constants]) {
      if (--storage.handles === 0) recycle(storage);
    }
  }
}

/** Handles of the results of a graph, whose storages are `made`. */
function handlesOf(made: readonly Storage[], { results }: Graph): Operand[] {
  const handles: Operand[] = [];
  for (let i = 0; i < results.length; i++) {
    const { layout, flags } = results[i]!;
    handles.push(wrap(made[i]!, layout, flags));
  }
  return handles;
}

/** A tensor that gets a result, or an argument that the function returns. */
interface Target {
  readonly to: Operand;
  /** The place of the result among results, or of the argument among tensors. */
  readonly place: number;
  readonly argument: boolean;
}

/** Finds the tensors of `out`, which has the structure of the result. */
function collect(template: Template, out: unknown, path: string, targets: Target[]): void {
  switch (template.kind) {
    case "result":
    case "argument":
      if (!isOperandArgument(out)) {
        throw new TypeError(`Cannot call a program with ${path}: the result has a tensor there`);
      }
      targets.push({ to: out, place: template.place, argument: template.kind === "argument" });
      return;
    case "list": {
      const { length } = template.members;
      if (!Array.isArray(out) || out.length !== length) {
        throw new TypeError(
          `Cannot call a program with ${path}: the result is an array of ${length} there`,
        );
      }
      template.members.forEach((one, i) => collect(one, out[i], `${path}[${i}]`, targets));
      return;
    }
    case "record":
      template.keys.forEach((key, i) => {
        const own = isRecord(out) ? out[key] : undefined;
        collect(template.members[i]!, own, `${path}.${key}`, targets);
      });
  }
}
