/**
 * Where a function spends its time: op by op, as rows, a table of text, and a trace.
 *
 * @module
 */
import { ArgumentError } from "../base/errors.ts";
import { typeError } from "../base/stack.ts";
import { describe, shorten } from "../base/text.ts";
import { findNative } from "../backend/cpu.ts";
import { cpuBackendName } from "../core/dispatch.ts";
import { interpret } from "../core/interpreter.ts";
import { setProfiler } from "../core/profiler.ts";
import { checkOptions } from "../table/infer.ts";
import { type ProfiledCall, type ProfiledRead, Recorder } from "./recorder.ts";
import "../tensor/tensor.ts";

export type { ProfiledCall, ProfiledTensor } from "./recorder.ts";
export type { ProfileReport };

/** Options of {@link profile}. */
export interface ProfileOptions {
  /** The number of measured runs, at least 1; the rows have their means. 1 by default. */
  readonly repeat?: number;
  /** The number of runs before them, which are not measured. 0 by default. */
  readonly warmup?: number;
}

function checkCount(name: string, value: number, least: number): void {
  if (!Number.isInteger(value) || value < least) {
    throw new ArgumentError(
      `profile() needs an integer ${name} of at least ${least}, got ${describe(value)}`,
    );
  }
}

/**
 * Runs `f` and measures the time, bytes, operations, backend and threads of each op. The report
 * prints as a table, and contains a trace for `chrome://tracing` and Perfetto.
 *
 * The first calls of a process also open the native library and compile loops; `{ warmup: 1 }`
 * excludes them. On devices other than the CPU, the profile waits for each op before the next one,
 * so the total time is longer than without a profile. Results of all runs except the last are
 * garbage-collected.
 *
 * @param f A synchronous function.
 * @param options The number of measured runs, and of runs before them.
 * @returns The report, with the result of the last run.
 * @throws {TypeError} If `f` is async: ops after its first `await` would run outside the profile.
 *
 * @example
 * ```ts
 * const [x, w] = [ones([32, 64]), ones([16, 64])];
 * const report = profile(() => x.linear(w).relu().sum(), { warmup: 1, repeat: 10 });
 * report.result.item(); // => 32768
 * const [linear] = report.rows.filter(({ op }) => op === "linear");
 * linear?.shapes; // => float32 [32, 64] [16, 64] → [32, 16]
 * linear?.flops; // => 65536
 * report.rows.filter(({ part }) => !part).map(({ op }) => op).sort(); // => ["linear", "relu", "sum"]
 * ```
 */
export function profile<R>(f: () => R, options: ProfileOptions = {}): ProfileReport<R> {
  if (typeof f !== "function") {
    throw typeError(`Cannot profile ${describe(f)}: expected a function`);
  }
  checkOptions("profile", options, ["repeat", "warmup"]);
  const { repeat = 1, warmup = 0 } = options;
  checkCount("repeat", repeat, 1);
  checkCount("warmup", warmup, 0);
  const recorder = new Recorder();
  const run = (): R => interpret(recorder, () => recorder.time(f), "profile");
  // What has run before does not count.
  const native = cpuBackendName() === "native" ? findNative() : "unused";
  if (typeof native !== "string") native.usedThreads();
  const before = setProfiler(recorder);
  try {
    for (let i = 0; i < warmup; i++) run();
    recorder.restart();
    let result = run();
    for (let i = 1; i < repeat; i++) result = run();
    return new ProfileReport(result, recorder);
  } finally {
    setProfiler(before);
  }
}

// ---- the report --------------------------------------------------------------------------------

/** Calls of one op with inputs of the same shapes and dtypes. Numbers are means of the runs. */
export interface ProfileRow {
  /** The name of the method or function, such as `add_`; of a part, the name of its op. */
  readonly op: string;
  /** True for parts of other calls: their time is in the `total` of those too. */
  readonly part: boolean;
  /** The number of calls in one run. */
  readonly calls: number;
  /** The milliseconds of all these calls, parts included. */
  readonly total: number;
  /** The milliseconds of all these calls without their parts. */
  readonly self: number;
  /** `self` relative to the time of the whole run, from 0 to 1. */
  readonly share: number;
  /** The bytes of the inputs read and of the outputs written; undefined if unknown. */
  readonly bytes: number | undefined;
  /** `bytes` per second of `total`, in units of 1e9. */
  readonly gbPerSecond: number | undefined;
  /** The number of operations on numbers; undefined if unknown. */
  readonly flops: number | undefined;
  /** `flops` per second of `total`, in units of 1e9. */
  readonly gflopPerSecond: number | undefined;
  /** `"js"`, `"native"`, `"wasm"` or `"cuda"`, several joined by `+`, or `"view"` if nothing was computed. */
  readonly backend: string;
  /** The most threads that took part in a call; undefined on devices. */
  readonly threads: number | undefined;
  /** Inputs and outputs: `"float32 [2, 3] [3] → [2, 3]"`. */
  readonly shapes: string;
}

/** The width of the table, and the number of its rows. */
const WIDTH = 100;
const SHOWN = 40;

const COLUMNS = ["op", "calls", "self ms", "total ms", "share", "GB/s", "GFLOP/s", "backend"];
/** The widths of the columns; negative ones are padded at the end. */
const WIDTHS = [-14, 5, 8, 8, 5, 5, 7, -9];

const INSPECT = Symbol.for("nodejs.util.inspect.custom");
const JUPYTER = Symbol.for("Jupyter.display");

/** The result of `profile`: which ops ran, how long, and by what. */
class ProfileReport<R = unknown> {
  /** The class name, as a bundler may shorten the class's own. @ignore */
  static get name(): string {
    return "ProfileReport";
  }

  /** The result of the function; of the last run, if there were several. */
  readonly result: R;
  /** All calls in the order of their beginnings. */
  readonly calls: readonly ProfiledCall[];
  /** The number of runs. */
  readonly repeat: number;
  /** The milliseconds of one run, without those of the profile itself. */
  readonly time: number;
  /**
   * The milliseconds of one run outside calls: JavaScript of the function, reads of values, and
   * dispatch from a method to its op.
   */
  readonly dispatchTime: number;
  /** The calls by op, shapes, dtypes and backend; most `self` first. */
  readonly rows: readonly ProfileRow[];
  readonly #reads: readonly ProfiledRead[];
  readonly #runs: readonly (readonly [start: number, end: number])[];

  /** Sums up what a recorder has. @internal */
  constructor(result: R, { calls, reads, runs }: Pick<Recorder, "calls" | "reads" | "runs">) {
    this.result = result;
    this.calls = [...calls].sort((a, b) => a.start - b.start || a.depth - b.depth);
    this.repeat = runs.length;
    this.time = runs.reduce((sum, [start, end]) => sum + end - start, 0) / runs.length;
    const called = calls.reduce((sum, call) => call.depth === 0 ? sum + call.duration : sum, 0);
    this.dispatchTime = Math.max(0, this.time - called / runs.length);
    this.rows = rowsOf(calls, runs.length, this.time);
    this.#reads = reads;
    this.#runs = runs;
  }

  /** The rows as a table of text, which fits 100 columns. */
  toString(): string {
    const { rows, time, dispatchTime, repeat } = this;
    const count = rows.reduce((sum, row) => row.part ? sum : sum + row.calls, 0);
    const head = `${milliseconds(time)} ms${repeat > 1 ? `, the mean of ${repeat} runs` : ""}: ` +
      `${milliseconds(time - dispatchTime)} ms in ${number(count)} calls of ops, ` +
      `${milliseconds(dispatchTime)} ms outside`;
    const lines = rows.slice(0, SHOWN).map((row) =>
      line([
        row.part ? `· ${row.op}` : row.op,
        number(row.calls),
        milliseconds(row.self),
        milliseconds(row.total),
        percent(row.share),
        rate(row.gbPerSecond),
        rate(row.gflopPerSecond),
        row.threads === undefined || row.threads === 1
          ? row.backend
          : `${row.backend}×${row.threads}`,
      ], compact(row.shapes))
    );
    const rest = rows.slice(SHOWN);
    if (rest.length > 0) {
      const self = rest.reduce((sum, row) => sum + row.self, 0);
      lines.push(`… ${rest.length} more rows: ${milliseconds(self)} ms`);
    }
    if (rows.some(({ part }) => part)) lines.push("· a part of another call");
    return [head, "", line(COLUMNS, "shapes"), ...lines].join("\n");
  }

  /**
   * The calls in the Trace Event Format, as JSON: write it to a file, and open that in
   * `chrome://tracing` or in Perfetto.
   */
  chromeTrace(): string {
    const common = { pid: 1, tid: 1 };
    const span = (name: string, cat: string, start: number, duration: number, args: object) => ({
      ...{ name, cat, ph: "X", ts: 1e3 * start, dur: 1e3 * duration },
      ...common,
      args,
    });
    const events = [
      { name: "process_name", ph: "M", ...common, args: { name: "rowmajor" } },
      ...this.#runs.map(([start, end], i) => span(`run ${i}`, "run", start, end - start, {})),
      ...this.calls.map(({ op, start, duration, self, shapes, bytes, flops, backend, threads }) =>
        span(op, backend, start, duration, { shapes, bytes, flops, backend, threads, self })
      ),
      ...this.#reads.map(({ how, start }) => ({
        ...{ name: how, cat: "read", ph: "i", s: "t", ts: 1e3 * start },
        ...common,
      })),
    ];
    return JSON.stringify({ traceEvents: events, displayTimeUnit: "ms" });
  }

  /** The output of `console.log` in Deno, Bun and Node. */
  [INSPECT](): string {
    return this.toString();
  }

  /** The output in Jupyter. */
  [JUPYTER](): { "text/plain": string } {
    return { "text/plain": this.toString() };
  }
}

function rowsOf(calls: readonly ProfiledCall[], repeat: number, time: number): ProfileRow[] {
  // Node 20 has no Map.groupBy().
  const groups = new Map<string, ProfiledCall[]>();
  for (const call of calls) {
    const key = JSON.stringify([call.op, call.depth > 0, call.shapes, call.backend]);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [call]);
    else group.push(call);
  }
  return [...groups.values()].map((all): ProfileRow => {
    const mean = (of: (call: ProfiledCall) => number): number =>
      all.reduce((sum, call) => sum + of(call), 0) / repeat;
    const known = (of: (call: ProfiledCall) => number | undefined): number | undefined =>
      all.every((call) => of(call) !== undefined) ? mean((call) => of(call)!) : undefined;
    const { op, depth, backend, shapes } = all[0]!;
    const total = mean(({ duration }) => duration);
    const self = mean((call) => call.self);
    const [bytes, flops] = [known((call) => call.bytes), known((call) => call.flops)];
    // Of milliseconds: 1e6 per millisecond are 1e9 per second.
    const perSecond = (count: number | undefined): number | undefined =>
      count === undefined || total === 0 ? undefined : count / total / 1e6;
    return {
      op,
      part: depth > 0,
      calls: all.length / repeat,
      total,
      self,
      share: time === 0 ? 0 : self / time,
      bytes,
      gbPerSecond: perSecond(bytes),
      flops,
      gflopPerSecond: perSecond(flops),
      backend,
      threads: all.reduce<number | undefined>(
        (most, { threads }) => threads === undefined ? most : Math.max(most ?? 1, threads),
        undefined,
      ),
      shapes,
    };
  }).sort((a, b) => b.self - a.self);
}

// ---- text --------------------------------------------------------------------------------------

/** A number in few characters: 3 decimals if it is small. */
function milliseconds(value: number): string {
  return value.toFixed(value < 1000 ? 3 : value < 10_000 ? 1 : 0);
}

function percent(share: number): string {
  return `${(100 * share).toFixed(share < 0.9995 ? 1 : 0)}%`;
}

/** Shapes in fewer characters: `f32 [2,3] [3] → [2,3]`. */
function compact(shapes: string): string {
  return shapes.replaceAll(", ", ",")
    .replace(
      /\b(bfloat|float|uint|int)(?=\d)/g,
      (name) => ({ bfloat: "bf", uint: "u" })[name] ?? name[0]!,
    );
}

function number(value: number): string {
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

/** A rate; nothing for one that is unknown or 0. */
function rate(value: number | undefined): string {
  return value === undefined || value === 0 ? "" : value.toFixed(value < 100 ? 1 : 0);
}

function line(cells: readonly string[], shapes: string): string {
  const text = cells.map((cell, i) => {
    const width = WIDTHS[i]!;
    return width < 0
      ? shorten(cell, -width - 1).padEnd(-width)
      : shorten(cell, width).padStart(width);
  }).join(" ");
  return shorten(`${text} ${shapes}`, WIDTH - 1).trimEnd();
}
