/**
 * Programs: a function traced for arguments of one kind, and how it runs.
 *
 * @module
 */
import { checkScalar } from "../base/dtype.ts";
import { attempt, DisposedError, TraceError } from "../base/errors.ts";
import { Placeholder } from "../base/placeholder.ts";
import { dispose, tidy, wrap } from "../core/handles.ts";
import { copyOf, cpuBackendName } from "../core/dispatch.ts";
import { uninterpreted } from "../core/interpreter.ts";
import { overlaps } from "../core/write.ts";
import { elementsOf, type Operand } from "../memory/operand.ts";
import { letGo, recycle } from "../memory/pool.ts";
import { checkAlive, DISPOSED, type Storage } from "../memory/storage.ts";
import { PlaceholderKey, type Words } from "../api/random/placeholder_key.ts";
import { type ConstantUser, expireConstants, type Use, useConstant } from "./constants.ts";
import { type Graph, isTotal, type TracedStorage, type Value } from "./graph.ts";
import type { Holder } from "./hold.ts";
import type { Joined } from "./joins.ts";
import { joinPieces, optimize, type Passes } from "./optimize.ts";
import { isWhole } from "./passes.ts";
import type { JobQueue } from "../backend/native/queue.ts";
import { laterOnThread } from "./later.ts";
import { type Executor, Replay, writtenStorages } from "./replay.ts";
import {
  type Bound,
  layoutOf,
  type Matcher,
  type Numeric,
  type Pattern,
  Reader,
} from "./signature.ts";
import {
  type Copy,
  copyAll,
  fill,
  prepareTarget,
  type Target,
  targetsOf,
  type Template,
  templateOf,
} from "./template.ts";
import { graphOf, Tracer } from "./trace.ts";

/** A number of each run of a program. */
export class ProgramNumber extends Placeholder<Numeric> {
  readonly name: string;
  readonly path: string;
  value: Numeric;

  constructor(path: string, value: Numeric) {
    super();
    this.path = path;
    this.name = `the number at argument ${path} (counted from 0)`;
    this.value = value;
  }

  current(): Numeric {
    return this.value;
  }
}

/** The arguments of a traced call, with stand-ins for tensors, numbers and keys. */
interface StandIns {
  readonly args: unknown[];
  readonly handles: Operand[];
}

/** What a trace found, besides the ops. */
interface Traced {
  readonly template: Template;
  /** The places of the argument tensors that the function disposes of. */
  readonly disposed: readonly number[];
  readonly results: readonly Value[];
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
  /** How many runs of the compiled function are on the stack. */
  readonly stack: { depth: number };
}

/** A graph that is ready to run. */
class Prepared implements ConstantUser {
  readonly improved: Graph;
  /** What runs: the improved graph, whose nodes write parts of joins. */
  readonly joined: Joined;
  readonly executor: Executor;
  /** The versions of the tensors outside of which constants were computed. */
  readonly versions: ReadonlyMap<Storage, number>;
  readonly #uses: Use[] = [];
  /** The runs that have not ended; its own preparation is the first. */
  runs = 1;
  /** Whether it is freed after them. */
  retired = false;

  /** Improves `graph`. */
  constructor(graph: Graph, { passes, executor }: ProgramOptions) {
    try {
      const improved = optimize(graph, passes, (computation) => {
        const use = useConstant(computation, this);
        this.#uses.push(use);
        return use.storages;
      });
      this.improved = improved.graph;
      this.versions = improved.versions;
      this.joined = joinPieces(improved.graph, passes);
      this.executor = executor(this.joined.graph, passes);
      this.runs = 0;
    } catch (error) {
      this.#endUses();
      throw error;
    }
  }

  /** Its constants that other programs use too. */
  get shared(): Set<Storage> {
    return new Set(this.#uses.flatMap((use) => use.isShared ? use.storages : []));
  }

  /** Frees it as soon as no run uses it. */
  expire(): void {
    if (this.retired) return;
    this.retired = true;
    if (this.runs === 0) this.free();
  }

  /** Frees it, after the last run. */
  free(): void {
    this.executor.dispose();
    this.#endUses();
  }

  #endUses(): void {
    for (const use of this.#uses) use.end();
  }
}

/** A traced function for arguments of one kind. */
export class Program implements Holder {
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
  /** The captured tensors themselves. */
  readonly #outside: readonly Operand[];
  /** Whether the function disposes of a captured tensor: then it can run once. */
  readonly #once: boolean;
  #begun = false;
  /** Runs the function's own ops in their order. */
  #plain: Replay | undefined;
  /** The runs that have not ended. */
  #runs = 0;
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
    this.patterns = args.map((arg, i) => reader.read(arg, String(i)));
    const { bound, numberNames } = reader;
    for (const { storage } of bound.tensors) checkAlive(storage, "call a program");
    this.#numbers = numberNames.map((path, i) => new ProgramNumber(path, bound.numbers[i]!));
    this.#words = bound.keys.map((value) => ({ value }));
    const tracer = this.#tracer = new Tracer();
    try {
      const { template, disposed, results } = this.#trace(f, args, reader);
      this.#template = template;
      this.#disposed = disposed;
      this.graph = graphOf(tracer, results);
      this.#captured = new Set(
        this.graph.storages.flatMap(({ origin }) =>
          origin.kind === "captured" ? [origin.storage] : []
        ),
      );
      const outside = [...tracer.outside];
      this.#outside = outside.filter(({ storage }) => storage !== DISPOSED);
      // A handle on a captured tensor that the function itself made may be gone.
      this.#once = outside.some((x) => x.storage === DISPOSED && !tracer.born.has(x));
      const written = [...writtenStorages(this.graph)];
      this.#written = written.flatMap(({ origin }) =>
        origin.kind === "argument" ? [origin.group] : []
      );
      this.#writtenCaptured = written.flatMap(({ origin }) =>
        origin.kind === "captured" ? [origin.storage] : []
      );
      this.#prepared = this.#prepare();
    } catch (error) {
      tracer.hold.release();
      throw error;
    }
    // One that disposes of a captured tensor has its memory for one run.
    tracer.hold.follow(this.#once ? [] : this.#outside.map(({ storage }) => storage), this);
  }

  /** Runs `f` on stand-ins of `args`, and keeps its ops in the tracer. */
  #trace(f: AnyFunction, args: readonly unknown[], { bound, keyNames, storages }: Reader): Traced {
    const tracer = this.#tracer;
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
            "Cannot trace an async function: code after its first await would run outside of the program; " +
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
    return { template: template!, disposed, results };
  }

  /** The improved graph. */
  get improved(): Graph {
    return this.#prepared.improved;
  }

  /** The graph that runs. */
  get joined(): Joined {
    return this.#prepared.joined;
  }

  get executor(): Executor {
    return this.#prepared.executor;
  }

  /** The constants that other programs use too. */
  get shared(): ReadonlySet<Storage> {
    return this.#prepared.shared;
  }

  /** The improvements that are turned on. */
  get passes(): Passes {
    return this.#options.passes;
  }

  /** The handles of captured tensors that the recorded work of a device has. */
  get handles(): ReadonlyMap<Storage, number> {
    return this.#prepared.executor.handles ?? NO_HANDLES;
  }

  #prepare(): Prepared {
    return uninterpreted(() => new Prepared(this.graph, this.#options));
  }

  /** Prepares the program anew if a tensor outside, of which constants were computed, has changed. */
  #refresh(): void {
    const prepared = this.#prepared;
    for (const [storage, version] of prepared.versions) {
      if (storage.version === version && !storage.exposed) continue;
      // The constants of other programs too, which are prepared anew when they run.
      expireConstants(storage);
      prepared.expire();
    }
    if (prepared.retired) this.#prepared = this.#prepare();
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
          return new PlaceholderKey(`the key at argument ${keyNames[keys++]}`, () => words.value);
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
    if (reads.size > 0 && this.isStale) return false;
    return guards.length === 0 || this.unfit(bound).length === 0;
  }

  /** Whether no later call can use it: it depends on values that have changed, or may have. */
  get isStale(): boolean {
    for (const [storage, version] of this.#tracer.reads) {
      // Memory that code outside can reach changes without a new version.
      if (storage.version !== version || storage.exposed) return true;
    }
    return false;
  }

  /** The paths of the numbers that integers of the program cannot represent. */
  unfit({ numbers }: Bound): string[] {
    const { guards } = this.#tracer;
    if (guards.length === 0) return [];
    this.#setNumbers(numbers);
    const paths = new Set<string>();
    for (const { value, info } of guards) {
      const { error } = attempt(() => checkScalar(info.name, value.current(), "call a program"));
      if (error !== undefined) paths.add((value as ProgramNumber).path);
    }
    return [...paths];
  }

  #setNumbers(numbers: readonly Numeric[]): void {
    for (let i = 0; i < numbers.length; i++) this.#numbers[i]!.value = numbers[i]!;
  }

  /** Checks the arguments of a call, and sets the numbers and keys of the program. */
  #begin({ bound, storages }: Matcher): void {
    const { tensors, numbers, keys } = bound;
    for (let i = 0; i < tensors.length; i++) checkAlive(tensors[i]!.storage, "call a program");
    for (let i = 0; i < this.#outside.length; i++) checkCaptured(this.#outside[i]!);
    if (this.isDisposed || this.#once && this.#begun) throw captureDisposed();
    this.#begun = true;
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
    const args = bound.tensors;
    const targets = out === undefined ? undefined : this.#targets(out, args);
    const prepared = this.#prepared;
    const overlapping = this.#overlaps(storages);
    const direct = targets === undefined || overlapping
      ? undefined
      : this.#direct(targets, storages, prepared.joined.graph);
    prepared.runs++;
    this.#runs++;
    const { stack } = this.#options;
    stack.depth++;
    let handles: Operand[];
    // Improvements move reads past writes of other memory.
    const executor = overlapping ? this.#plain ??= new Replay(this.graph) : prepared.executor;
    try {
      handles = handlesOf(executor.run(storages, direct), this.graph);
    } finally {
      executor.release();
      stack.depth--;
      this.#leave(prepared);
    }
    return this.#end(handles, args, targets, out, direct);
  }

  /** {@link run} off the event loop, on the elements that the tensors have now. */
  async runLater(
    matcher: Matcher,
    out: unknown,
    queue: JobQueue,
    signal: AbortSignal | undefined,
  ): Promise<unknown> {
    // Its copies would not overlap: such a run does not leave the thread.
    if (this.#overlaps(matcher.storages)) return this.run(matcher, out);
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
    // Parts of the result that no op computes, as they are now.
    const now = targets?.map((target) => this.#copyNow(target, args, storages));
    const prepared = this.#prepared;
    prepared.runs++;
    this.#runs++;
    // Until the end the memory of the arguments stays, whatever happens to their handles.
    for (const storage of storages) storage.handles++;
    try {
      const { executor } = prepared;
      const { stack } = this.#options;
      const run = executor.runLater ?? laterOnThread(executor, prepared.joined.graph, stack);
      const made = await run.call(executor, storages, { queue, signal, restore });
      const handles = handlesOf(made, this.graph);
      restore();
      if (out !== undefined) this.#targets(out, args, now);
      return this.#end(handles, args, targets, out, undefined, now);
    } finally {
      for (const copy of now ?? []) if (copy !== undefined) recycle(copy.storage);
      for (const storage of storages) letGo(storage);
      this.#leave(prepared);
    }
  }

  /** Whether bytes that the program writes may be those of another of its tensors. */
  #overlaps(args: readonly Storage[]): boolean {
    if (this.#written.length === 0 && this.#writtenCaptured.length === 0) return false;
    const exposed = [...args, ...this.#captured].filter((storage) => storage.exposed);
    if (exposed.length < 2) return false;
    const written = new Set([
      ...this.#written.map((group) => args[group]!),
      ...this.#writtenCaptured,
    ]);
    return exposed.some((a) => written.has(a) && exposed.some((b) => shareBytes(a, b)));
  }

  #leave(prepared: Prepared): void {
    if (--prepared.runs === 0 && prepared.retired) prepared.free();
    if (--this.#runs === 0 && this.isDisposed) this.#tracer.hold.release();
  }

  /** The result of a call from the handles of what it made. */
  #end(
    handles: readonly Operand[],
    args: readonly Operand[],
    targets: readonly Target[] | undefined,
    out: unknown,
    direct: readonly (Storage | undefined)[] | undefined,
    now?: readonly (Operand | undefined)[],
  ): unknown {
    if (targets !== undefined) {
      const copies: Copy[] = [];
      targets.forEach(({ to, from }, i) => {
        const source = now?.[i] ?? sourceOf(from, handles, args);
        // One of them, if a result is in several places; the others are copies.
        const isDirect = from.kind === "result" && direct?.[from.place] === to.storage &&
          source.storage === to.storage;
        if (isDirect) to.storage.version++;
        else copies.push({ to, from: source });
      });
      copyAll(copies);
      for (const handle of handles) dispose(handle);
    }
    for (const place of this.#disposed) dispose(args[place]!);
    return targets === undefined ? fill(this.#template, handles, args) : out;
  }

  /** The tensors to write to, checked: each with the result, or the argument, that it gets. */
  #targets(
    out: unknown,
    args: readonly Operand[],
    now?: readonly (Operand | undefined)[],
  ): readonly Target[] {
    const targets = targetsOf(this.#template, out);
    targets.forEach(({ to, from }, i) => {
      prepareTarget(to, now?.[i] ?? sourceOf(from, this.graph.results, args));
    });
    return targets;
  }

  /** A copy of a part of the result that is not the work of the program; undefined for others. */
  #copyNow(
    { from }: Target,
    args: readonly Operand[],
    storages: readonly Storage[],
  ): Operand | undefined {
    if (from.kind === "constant") return copyOf(from.value);
    const { storage, layout } = from.kind === "argument"
      ? this.#argumentValue(args[from.place]!, storages)
      : this.graph.results[from.place]!;
    const { origin } = storage;
    if (origin.kind === "captured") {
      if (this.#writtenCaptured.includes(origin.storage)) return undefined;
      return copyOf({ storage: origin.storage, layout, flags: 0 });
    }
    if (origin.kind !== "argument" || this.#written.includes(origin.group)) return undefined;
    return copyOf({ storage: storages[origin.group]!, layout, flags: 0 });
  }

  /** An argument as an operand of the graph. */
  #argumentValue({ storage, layout, flags }: Operand, storages: readonly Storage[]): Value {
    const group = storages.indexOf(storage);
    const own = this.graph.storages.find(({ origin }) =>
      origin.kind === "argument" && origin.group === group
    )!;
    return { storage: own, layout, flags };
  }

  /** The storages that the program can write its results to without a copy, by their places. */
  #direct(
    targets: readonly Target[],
    args: readonly Storage[],
    { results, nodes }: Graph,
  ): (Storage | undefined)[] {
    const found: (Storage | undefined)[] = new Array(results.length).fill(undefined);
    // A run that fails must not have written a part of them.
    if (!nodes.every(isTotal)) return found;
    const counts = new Map<Storage, number>();
    for (const { storage } of results) counts.set(storage, (counts.get(storage) ?? 0) + 1);
    const others = [...args, ...this.#captured];
    for (const { from } of targets) if (from.kind === "constant") others.push(from.value.storage);
    for (const { to, from } of targets) {
      if (from.kind !== "result") continue;
      const { storage, layout } = results[from.place]!;
      const whole = isWhole(results[from.place]!) && counts.get(storage) === 1 &&
        (storage.origin.kind === "made" || storage.origin.kind === "joined");
      const fits = to.layout.contiguous && to.layout.offset === 0 &&
        to.storage.length === layout.size && to.storage.info === storage.info;
      const meets = (other: Storage): boolean =>
        other === to.storage || shareBytes(other, to.storage);
      const own = !others.some(meets) &&
        !targets.some((other) => other.to !== to && meets(other.to.storage));
      if (whole && fits && own && to.storage.memory === null) found[from.place] = to.storage;
    }
    return found;
  }

  /** Frees the program, after all runs that have begun. */
  dispose(): void {
    if (this.isDisposed) return;
    this.isDisposed = true;
    this.#prepared.expire();
    if (this.#runs === 0) this.#tracer.hold.release();
  }
}

const NO_HANDLES: ReadonlyMap<Storage, number> = new Map();

/** Whether two storages may share bytes, through an array that the user holds. */
function shareBytes(a: Storage, b: Storage): boolean {
  return a !== b && overlaps(elementsOf(a), elementsOf(b));
}

function captureDisposed(): DisposedError {
  return new DisposedError(
    "Cannot call a program: a tensor that its function uses was disposed or moved",
  );
}

function checkCaptured({ storage }: Operand): void {
  if (storage === DISPOSED) throw captureDisposed();
  checkAlive(storage, "call a program");
}

/** The elements of a part of a result. */
function sourceOf(
  from: Target["from"],
  results: readonly Operand[],
  args: readonly Operand[],
): Operand {
  if (from.kind === "constant") return from.value;
  return from.kind === "result" ? results[from.place]! : args[from.place]!;
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
