/**
 * `compile`: traces a function once for each kind of arguments, and runs the improved program on
 * later calls.
 *
 * @module
 */
import { ArgumentError, DisposedError, OutOfMemoryError, TraceError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { listIn } from "../base/shape.ts";
import { describe } from "../base/text.ts";
import { CONFIGURE } from "../backend/ffi/abi.ts";
import { jobQueue, kernelSource } from "../backend/cpu.ts";
import { tidy } from "../core/handles.ts";
import { interpreting } from "../core/interpreter.ts";
import { profiler, profileSpan, type WorkInfo } from "../core/profiler.ts";
import { checkOptions } from "../table/infer.ts";
import { costOf } from "../profile/costs.ts";
import "../tensor/tensor.ts";
import type { AnyTensor, Tensor } from "../tensor/tensor.ts";
import type * as t from "../types/mod.ts";
import { collect } from "./explain.ts";
import { ProgramReport } from "./report/report.ts";
import { type AnyFunction, Program, type ProgramOptions } from "./program.ts";
import { type Graph, readsOf } from "./graph.ts";
import { Native } from "./native.ts";
import { ALL_PASSES, type Passes } from "./optimize.ts";
import { writeByOps } from "./template.ts";
import { canRecord, Recorded } from "./recorded.ts";
import { type Executor, Replay } from "./replay.ts";
import { difference, isRecord, Matcher, ownArguments } from "./signature.ts";

export type { Passes };
export type {
  ProgramData,
  ReportedImprovements,
  ReportedOp,
  ReportedStep,
  ReportedTiles,
  ReportedValue,
  ReportedWeight,
} from "./report/data.ts";
export { ProgramReport };

/** Options of {@link compile}. */
export interface CompileOptions {
  /**
   * The numbers that are constants of a program: each value compiles another program. An index of an
   * argument, counted from 0, selects all numbers in it, a path such as `"1.scale"` or `"0[2]"` one
   * number, `true` all numbers. Other numbers can have any value in each call.
   */
  readonly static?: true | readonly (number | string)[];
  /** The maximum number of programs (32 by default); the least recently used ones are freed. */
  readonly maxPrograms?: number;
  /** The optimizations of programs; all by default. `false` disables all of them. */
  readonly optimize?: boolean | Partial<Passes>;
}

/** The tensors to write the results `R` of a program to. */
export type OutOf<R> = R extends AnyTensor ? AnyTensor
  : R extends readonly unknown[] ? { readonly [K in keyof R]: OutOf<R[K]> }
  : R extends object ? { readonly [K in keyof R]: OutOf<R[K]> }
  : unknown;

/** The arguments `A` of a compiled function, which can be read-only if it does not write to them. */
export type Readable<A> = A extends Tensor<infer D, infer S, infer V, t.Access>
  ? Tensor<D, S, V, t.Access>
  : A extends readonly unknown[] ? { readonly [K in keyof A]: Readable<A[K]> }
  : A extends (...args: never[]) => unknown ? A
  : A extends object ? { readonly [K in keyof A]: Readable<A[K]> }
  : A;

/** The arguments of a compiled function, which can be read-only tensors. */
export type ReadableArguments<A extends readonly unknown[]> = { [K in keyof A]: Readable<A[K]> };

/** Options of asynchronous calls. */
export interface AsyncOptions<R = unknown> {
  /** The tensors to write the results to, in the structure of the result. */
  readonly out?: OutOf<R>;
  /** Cancels the call if it has not started. */
  readonly signal?: AbortSignal;
}

/** A compiled function: see {@link compile}. */
export type Compiled<F extends (...args: never[]) => unknown> =
  & F
  & {
    /**
     * Writes the results to `out`: tensors in the structure of the result. Arguments can be read-only
     * tensors.
     *
     * @throws {ReadOnlyError} If the function writes to a read-only tensor.
     */
    (
      ...args: [
        ...ReadableArguments<Parameters<F>>,
        options?: { readonly out?: OutOf<ReturnType<F>> },
      ]
    ): ReturnType<F>;
    /**
     * Calls the function off the event loop: a native program runs on another thread if
     * `info().async` reports it, any other program in a later task of this thread. The call reads its
     * tensors as they are at the call, and writes to tensors when it ends. Asynchronous calls of all
     * programs begin in the order of the calls.
     *
     * @throws {QueueFullError} If 1024 calls of all programs wait. The promise rejects.
     * @throws The reason of `signal`, if it aborts before the call starts.
     */
    async(
      ...args: [...ReadableArguments<Parameters<F>>, options?: AsyncOptions<ReturnType<F>>]
    ): Promise<ReturnType<F>>;
    /** The number of programs kept. */
    readonly programs: number;
    /**
     * Returns a report on each program, the most recently used one first: the optimized ops, the
     * effect of each optimization, and the memory. A report prints as text; `svg()` draws the program.
     */
    explain(): ProgramReport[];
    /** Frees all programs; later calls throw a DisposedError. */
    dispose(): void;
    /** {@link dispose}, for `using`. */
    [Symbol.dispose](): void;
  };

const OPTIONS = ["static", "maxPrograms", "optimize"];

/** New programs in a row after which a warning says what differs; `maxPrograms`, if that is more. */
const WARN_AFTER = 16;

/** The most compiled functions that call one another: far below what any stack has place for. */
const MOST_NESTED = 256;

/** The compiled functions that call one another now, without programs of their own. */
let nested = 0;

/** A compiled function, behind the function that programs call. */
class Compilation {
  readonly #f: AnyFunction;
  readonly #arity: number;
  readonly #limit: number;
  readonly #options: ProgramOptions;
  /** The programs, the last one used first. */
  #programs: Program[] = [];
  readonly #matcher = new Matcher();
  /** Runs by the function itself, if one of its ops calls it. */
  readonly #stack = { depth: 0 };
  readonly #warnAfter: number;
  #newInRow = 0;
  #warned = false;
  #disposed = false;

  constructor(f: AnyFunction, options: CompileOptions) {
    this.#f = f;
    this.#arity = f.length;
    const { static: given = [], maxPrograms = 32, optimize = true } = options;
    // A caller who sets the number expects so many.
    this.#warnAfter = Math.max(WARN_AFTER, options.maxPrograms ?? 0);
    if (!Number.isInteger(maxPrograms) || maxPrograms < 1) {
      throw new ArgumentError(
        `Cannot compile with maxPrograms ${describe(maxPrograms)}: it is an integer of at least 1`,
      );
    }
    this.#limit = maxPrograms;
    this.#options = {
      isStatic: staticTest(given),
      passes: passesOf(optimize),
      executor: executorOf,
      stack: this.#stack,
    };
  }

  get programs(): number {
    return this.#programs.length;
  }

  /** The arguments of a call, and its options, which come last. */
  #split(given: readonly unknown[], keys: readonly string[]): [readonly unknown[], AsyncOptions] {
    if (given.length <= this.#arity) return [given, NO_OPTIONS];
    const last = given.at(-1);
    return isOptions(last, keys) ? [given.slice(0, -1), last] : [given, NO_OPTIONS];
  }

  #checkAlive(): void {
    if (this.#disposed) throw new DisposedError("Cannot call: the compiled function was disposed");
  }

  explain(): ProgramReport[] {
    return this.#programs.map((program) => new ProgramReport(collect(program, this.#f.name)));
  }

  call(given: readonly unknown[]): unknown {
    this.#checkAlive();
    const [args, { out }] = this.#split(given, OUT);
    // Interpreters see the ops of the function. Ops of a run may call it too.
    if (interpreting() || this.#stack.depth > 0) return this.#callPlain(args, out);
    const program = this.#programFor(args);
    const matcher = this.#matcher;
    if (profiler === null) return program.run(matcher, out);
    const name = `compiled ${this.#f.name}`.trim();
    return profileSpan(name, () => program.run(matcher, out), () => workOf(program));
  }

  #callPlain(args: readonly unknown[], out: unknown): unknown {
    if (nested === MOST_NESTED) {
      const name = this.#f.name === "" ? "" : ` ${this.#f.name}`;
      throw new TraceError(
        `Cannot call the compiled function${name}: it and others call themselves or one another more ` +
          `than ${MOST_NESTED} deep; a recursion needs an end that depends on no values of tensors`,
      );
    }
    nested++;
    // Without this block, JavaScriptCore would make a loop of a recursion.
    try {
      if (out === undefined) return this.#f(...args);
      tidy(() => {
        writeByOps(this.#f(...args), out);
      });
      return out;
    } finally {
      nested--;
    }
  }

  async later(given: readonly unknown[]): Promise<unknown> {
    this.#checkAlive();
    const [args, { out, signal }] = this.#split(given, OUT_SIGNAL);
    signal?.throwIfAborted();
    if (interpreting()) {
      throw new TraceError("Cannot trace a call of async(): its result is not known yet");
    }
    if (this.#stack.depth > 0) {
      throw new TraceError("Cannot call async() of a compiled function in one of its own ops");
    }
    const program = this.#programFor(args);
    return await program.runLater(this.#matcher, out, jobQueue(), signal);
  }

  /** The program for a call, whose arguments the matcher then holds. */
  #programFor(args: readonly unknown[]): Program {
    const found = this.#find(args);
    if (found !== undefined) return found;
    const own = ownArguments(args);
    return own !== args && this.#find(own) || this.#make(own);
  }

  #find(args: readonly unknown[]): Program | undefined {
    const programs = this.#programs;
    for (let i = 0; i < programs.length; i++) {
      const program = programs[i]!;
      if (!this.#matcher.match(program.patterns, args)) continue;
      if (!program.accepts(this.#matcher)) continue;
      if (i > 0) {
        programs.splice(i, 1);
        programs.unshift(program);
      }
      this.#newInRow = 0;
      return program;
    }
    return undefined;
  }

  #make(args: readonly unknown[]): Program {
    // A number that integers of a program of the same kinds cannot represent is a key.
    const keys = new Set<string>();
    const addUnfit = (program: Program): void => {
      if (!this.#matcher.match(program.patterns, args)) return;
      for (const path of program.unfit(this.#matcher.bound)) keys.add(path);
    };
    this.#programs.forEach(addUnfit);
    let program = new Program(this.#f, args, this.#options, keys);
    const { size } = keys;
    addUnfit(program);
    if (keys.size > size) {
      const before = program;
      program = new Program(this.#f, args, this.#options, keys);
      // After the next one has found its constants.
      before.dispose();
    }
    this.#programs.unshift(program);
    this.#noteNew();
    // The new one runs at least once.
    for (const one of this.#programs) if (one !== program && one.isStale) one.dispose();
    this.#programs = this.#programs.filter(({ isDisposed }) => !isDisposed);
    while (this.#programs.length > this.#limit) this.#programs.pop()!.dispose();
    if (!this.#matcher.match(program.patterns, args)) {
      throw typeError(
        "Cannot call a compiled function whose arguments change while it is traced",
      );
    }
    return program;
  }

  #noteNew(): void {
    if (++this.#newInRow < this.#warnAfter || this.#warned) return;
    this.#warned = true;
    const [latest, before] = this.#programs;
    const what = before === undefined ? undefined : difference(before.patterns, latest!.patterns) ??
      "tensors that the function reads the values of, or shares with its arguments";
    console.warn(
      `rowmajor: ${this.#warnAfter} calls in a row of a compiled function` +
        `${this.#f.name === "" ? "" : ` (${this.#f.name})`} made new programs` +
        (what === undefined ? "" : `; the last two differ in ${what}`),
    );
  }

  dispose(): void {
    this.#disposed = true;
    for (const program of this.#programs) program.dispose();
    this.#programs = [];
  }
}

/** The fastest way to run a graph on its devices. */
function executorOf(graph: Graph, passes: Passes): Executor {
  const onCpu = graph.storages.every(({ memory }) => memory === null);
  if (canRecord(graph)) return new Recorded(graph);
  const source = onCpu ? kernelSource() : null;
  if (source === null) return new Replay(graph);
  try {
    return new Native(graph, source, passes);
  } catch (error) {
    // Without room for the program in a memory of kernels, ops find room, or run elsewhere.
    if (source.memory !== null && error instanceof OutOfMemoryError) return new Replay(graph);
    throw error;
  }
}

/** The memory traffic and the arithmetic of graphs that were profiled. */
const costs = new WeakMap<Graph, Pick<WorkInfo, "bytes" | "flops">>();

/**
 * The sums over the ops of a graph. Ops whose arithmetic has no formula, such as softmax, do not
 * count in `flops`; `bytes` is unknown if one op's traffic is.
 */
function costOfGraph(graph: Graph): Pick<WorkInfo, "bytes" | "flops"> {
  let known = costs.get(graph);
  if (known === undefined) {
    const all = graph.nodes.map((node) => costOf(node, readsOf(node), []));
    const flops = all.reduce((sum, cost) => sum + (cost.flops ?? 0), 0);
    const bytes = all.reduce((sum, cost) => sum + (cost.bytes ?? NaN), 0);
    known = Number.isNaN(bytes) ? { flops } : { bytes, flops };
    costs.set(graph, known);
  }
  return known;
}

/** What a profile is told of a run of `program`; of a replay, the ops tell it. */
function workOf({ executor, joined: { graph } }: Program): WorkInfo {
  const source = kernelSource();
  if (source === null || executor.name !== source.name) return {};
  return {
    backend: executor.name,
    threads: source.shim.rm_configure(CONFIGURE.usedThreads, -1),
    ...costOfGraph(graph),
  };
}

const NO_OPTIONS: AsyncOptions = {};
const OUT = ["out"];
const OUT_SIGNAL = ["out", "signal"];

/** Whether the last argument of a call is an object of options only. */
function isOptions(value: unknown, keys: readonly string[]): value is AsyncOptions {
  if (!isRecord(value)) return false;
  const own = Object.keys(value);
  return own.length > 0 && own.every((key) => keys.includes(key));
}

function passesOf(given: CompileOptions["optimize"]): Passes {
  if (typeof given === "boolean") {
    const entries = Object.keys(ALL_PASSES).map((name) => [name, given]);
    return Object.fromEntries(entries) as Passes;
  }
  checkOptions("compile with optimize", given!, Object.keys(ALL_PASSES));
  for (const [name, value] of Object.entries(given!)) {
    if (typeof value !== "boolean") {
      throw typeError(`Cannot compile with ${name} ${describe(value)}: it is true or false`);
    }
  }
  return { ...ALL_PASSES, ...given };
}

function staticTest(given: CompileOptions["static"]): (path: string) => boolean {
  if (given === true) return () => true;
  const paths = listIn(given, (one) => {
    if ((Number.isInteger(one) && one as number >= 0) || typeof one === "string") {
      return String(one);
    }
    throw new ArgumentError(
      `Cannot compile with static ${describe(one)}: it is an index of an argument, or a path`,
    );
  });
  if (paths === undefined) {
    throw typeError(`Cannot compile with static ${describe(given)}: it is an array, or true`);
  }
  return (path) =>
    paths.some((one) => path === one || path.startsWith(`${one}.`) || path.startsWith(`${one}[`));
}

/**
 * Compiles a function: the first call with a new kind of arguments runs `f` once to record its ops,
 * without computing them, and makes a program of them. Later calls with arguments of this kind run
 * the program in one native call.
 *
 * The kind of the arguments consists of the shapes, dtypes, strides, offsets and devices of
 * tensors, whether they are read-only, which of them share memory, and all values other than
 * tensors and numbers: text and booleans by value, other objects by identity. `f` reads an object
 * only while it is recorded. Arguments and results can contain tensors and numbers in arrays and
 * plain objects. Numbers and random keys can have any value in each call, unless `static` names the
 * number. Each call reads, and writes, the captured tensors: those that `f` uses and did not
 * create. A program does not notice a new value of a captured variable. Other effects of `f`, such
 * as printing, happen only during recording.
 *
 * During recording, a number that `static` does not name is an object. Some uses of it do not
 * throw, and have the same result in every call: its truthiness (`if (n)`, `!n`, `n && a`, `n ||
 * 1`) is true; `===`, `!==`, `Object.is`, `switch`, `includes`, `indexOf`, and keys of a Map or a
 * Set find it different from all numbers; `typeof`; `Number.isInteger`, `Number.isFinite`,
 * `Number.isNaN` and the like return false; `toString()`; and `new Array(n)`. Name such numbers in
 * `static`.
 *
 * @param f A synchronous function of tensors and other values.
 * @param options The constant numbers, the number of programs and the optimizations.
 * @returns A function with the type of `f`, and with `async`, `explain` and `dispose`.
 * @throws {TraceError} In a call: if `f` needs values of its tensors (`item()`, `toArray()`, a mask
 *   as an index), if it computes with such a number or makes a shape of it, if an argument is or
 *   contains a typed array, a Map or a Set, if the result has tensors in an instance of a class, if
 *   `f` is async, and if compiled functions call themselves or one another more than 256 deep.
 *
 * @example
 * ```ts
 * const step = compile((x: Tensor, scale: number) => x.mul(scale).add(1).relu());
 * step(tensor([1, -2]), 2).toArray(); // => [3, 0]
 * step(tensor([5, -2]), 3).toArray(); // => [16, 0]
 * ```
 */
export function compile<F extends (...args: never[]) => unknown>(
  f: F,
  options?: CompileOptions,
): Compiled<F>;
export function compile(f: AnyFunction, options: CompileOptions = {}): Compiled<AnyFunction> {
  if (typeof f !== "function") {
    throw typeError(`Cannot compile ${describe(f)}: expected a function`);
  }
  checkOptions("compile", options, OPTIONS);
  const compilation = new Compilation(f, options);
  const compiled = (...args: unknown[]): unknown => compilation.call(args);
  const later = (...args: unknown[]): Promise<unknown> => compilation.later(args);
  Object.defineProperties(compiled, {
    name: { value: f.name, configurable: true },
    length: { value: f.length, configurable: true },
    async: { value: later },
    programs: { get: () => compilation.programs },
    explain: { value: () => compilation.explain() },
    dispose: { value: () => compilation.dispose() },
    [Symbol.dispose]: { value: () => compilation.dispose() },
  });
  return compiled as Compiled<AnyFunction>;
}

/**
 * Compiles `f`, runs it once off the event loop, and returns its result.
 *
 * @param f A synchronous function.
 * @param options `signal` cancels the call before it starts.
 * @throws As {@link compile} and the method `async` of its result. The promise rejects.
 *
 * @example
 * ```ts
 * const a = ones([64, 64]);
 * const sum = await offload(() => a.matmul(a).sum());
 * sum.item(); // => 262144
 * ```
 */
export async function offload<R>(
  f: () => R,
  options: { readonly signal?: AbortSignal } = {},
): Promise<R> {
  if (typeof f !== "function") {
    throw typeError(`Cannot offload ${describe(f)}: expected a function`);
  }
  checkOptions("offload", options, ["signal"]);
  // Constants would be computed here, before the run.
  const optimize = { constants: false };
  const compilation = new Compilation(f as AnyFunction, { maxPrograms: 1, optimize });
  try {
    return await compilation.later([options]) as R;
  } finally {
    compilation.dispose();
  }
}
