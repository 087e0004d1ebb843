/**
 * What a benchmark consists of: suites of rows, and sides (rowmajor in a runtime, or a peer) that
 * measure them.
 *
 * Knows nothing of processes, clocks or tables.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import process from "node:process";
import type { DType, Tensor } from "../../mod.ts";

/** A tensor of a row. */
export type AnyTensor = Tensor<DType>;

/** The tensors of a row, by the names of its inputs. */
export type Tensors = Readonly<Record<string, AnyTensor>>;

/** An array that a row reads. */
export interface Input {
  readonly dtype: string;
  readonly shape: readonly number[];
  /**
   * `normal`: standard normal, the default of floats; `positive`: their absolute values; `scaled`:
   * 10000 times as large, clipped to int16; `sorted`; `definite`: a positive definite matrix;
   * `integers` from `low` to below `high`, by default 1 to 101, for bool 0 to 2; `uniform` from
   * `low` to `high`: float32 that are equal in all languages; `ones`.
   */
  readonly kind?:
    | ("normal" | "positive" | "scaled" | "sorted" | "definite")
    | ("integers" | "uniform" | "ones");
  readonly low?: number;
  readonly high?: number;
}

/** The processes in Python that run statements. */
export const PYTHON_PEERS = ["NumPy", "PyTorch", "torch.compile", "ONNX Runtime"] as const;

/** See {@link PYTHON_PEERS}. */
export type PythonPeer = typeof PYTHON_PEERS[number];

/** One thing to measure. */
export interface Row {
  readonly group: string;
  /** Unique in the group. */
  readonly name: string;
  /** What a figure is of; a call otherwise. */
  readonly per?: { readonly unit: string; readonly count: number };
  /** Nanoseconds otherwise. */
  readonly unit?: "bytes";
  /** Left out of quick runs. */
  readonly long?: boolean;
  /** Left out of runs of the JavaScript backend, where a call takes seconds. */
  readonly heavy?: boolean;
}

/** A call to time, which frees what it returns. */
export interface Call {
  readonly run: () => unknown;
  /** The result of a call, which the results of other sides must equal. */
  readonly result?: () => AnyTensor;
}

/** A row that long-lived processes time, each in its turn. */
export interface ServedRow extends Row {
  /** By name. Sides share the specification; the n-th `uniform` input has the same numbers. */
  readonly inputs: Readonly<Record<string, Input>>;
  /** Makes the call of rowmajor, in one of the ways of the suite. */
  readonly call: (x: Tensors, way: string) => Call | Promise<Call>;
  /** The statement of each library, on the same names; absent if it has no such call. */
  readonly statements: Readonly<Partial<Record<PythonPeer, string>>>;
  /** If given, statements write to such an array, `o`. */
  readonly out?: { readonly dtype: "float32" | "uint8"; readonly shape: readonly number[] };
  /** The ways of the suite that the row has; all if absent. */
  readonly ways?: readonly string[];
  /** Whether the results of all sides must agree. */
  readonly compares?: boolean;
  /** Measures something else than the time of calls. */
  readonly measure?: (threads: number) => Promise<Figure>;
}

/** What one measurement gives: nanoseconds, or bytes. */
export interface Figure {
  /** Wall time of a call: the mean of a timing. */
  readonly wall: number;
  /** Processor time of a call, of all threads of the process. */
  readonly cpu?: number;
  /** Wall time of the fastest batch of calls. */
  readonly least?: number;
}

/** The figures of rows, by their names. */
export type Figures = Readonly<Record<string, Figure>>;

/** What a process gives for the rows of a group. */
export interface Outcome {
  readonly figures: Figures;
  /** Numbers that all sides must have. */
  readonly result?: readonly number[];
}

/** A goal of a row: the largest time beside a peer, or alone. */
export interface Goal {
  /** Our time divided by that of `beside`, or of the fastest peer. */
  readonly ratio?: number;
  readonly beside?: string;
  /** Nanoseconds. */
  readonly ns?: number;
}

/** What a run is given. */
export interface RunOptions {
  readonly suite: string;
  readonly threads: number;
  /** Milliseconds of a timing. */
  readonly ms: number;
  readonly runtimes: readonly Runtime[];
  readonly backend?: "js" | "native" | "wasm";
  /** Held to this instruction set: rowmajor, and peers by switches of their own. */
  readonly level?: "v3";
  /** Names of the peers that are wanted; all if absent. */
  readonly peers?: readonly string[];
  /** Another checkout, which is a peer then. */
  readonly before?: string;
  /** Says why a peer is missing. */
  readonly without: (peer: string, reason: string) => void;
}

/** The runtimes of rowmajor. */
export const RUNTIMES = ["Deno", "Bun"] as const;

/** See {@link RUNTIMES}. */
export type Runtime = typeof RUNTIMES[number];

/** What measures rows: rowmajor in a runtime, or a peer. */
export interface Side {
  /** Unique in a run: the column of tables. */
  readonly name: string;
  /** Ours are compared with peers. */
  readonly peer: boolean;
  /** Absent for other libraries. Sides of one runtime are compared, not those of two. */
  readonly runtime?: Runtime | "Node";
  /** Known once it has started. */
  readonly version: string;
  /** rowmajor's instruction set. */
  readonly level?: string;
  /** Keeps cores busy after a call, so that the next side has to wait. */
  readonly spins?: boolean;
  has(row: Row): boolean;
  /** Warms a row up; returns its result if sides compare theirs. */
  prepare(row: Row): Promise<Float32Array | undefined>;
  /** Measures rows once; more than one if the suite is whole. */
  measure(rows: readonly Row[]): Promise<Outcome>;
  close(): Promise<void>;
}

/** A list of rows, and how they are measured and shown. */
export interface Suite {
  readonly title: string;
  /** By name, in the order of tables: what a group contains. */
  readonly groups: Readonly<Record<string, string>>;
  readonly rows: readonly Row[];
  /** Ways in which rowmajor runs each row; the empty one has no name of its own. */
  readonly ways?: readonly string[];
  /** The way that is the peer of the others. */
  readonly baseline?: string;
  /** The libraries in Python that may have statements. */
  readonly python?: readonly PythonPeer[];
  /** Modules that statements of the suite need beside those of their library. */
  readonly modules?: readonly string[];
  /** Rows in whose calls peers use threads that spin afterwards; all if absent. */
  readonly spins?: RegExp;
  /** Whether one process measures all rows of a group, once a round. */
  readonly whole?: boolean;
  readonly rounds: number;
  /** Milliseconds of a timing. */
  readonly ms: number;
  /** The numbers of threads; by default 1 and all cores. */
  readonly threads?: readonly number[];
  /** Whether tables compare with the fastest peer of each row, or with each. */
  readonly beside: "fastest" | "each";
  /** Whether a line of the short table is a group or a row. */
  readonly lines: "group" | "row";
  /** Those of ours in the short table; all if absent. */
  readonly short?: readonly string[];
  /** The rows of the short table, `group: name`, if its lines are rows; all if absent. */
  readonly shortRows?: RegExp;
  /** The groups of an overall mean. */
  readonly overall?: readonly string[];
  readonly goal?: (
    row: string,
    backend: "js" | "native" | "wasm",
    threads: number,
  ) => Goal | undefined;
  /** The largest mean of a group, or of all ("overall"). */
  readonly meanGoal?: (group: string) => number | undefined;
  /** Why the suite cannot run here. */
  readonly unable?: () => string | undefined;
  /** Other sides than those that serve rows. */
  readonly sides?: (options: RunOptions) => Side[] | Promise<Side[]>;
  /**
   * What a process of rowmajor does for the rows of a group, if the suite is whole; undefined if
   * another process reports the figures.
   */
  readonly run?: (group: string, threads: number) => Promise<Outcome | undefined>;
}

/** Wall and processor time since it was made, in nanoseconds. */
export class Stopwatch {
  readonly #begin = performance.now();
  readonly #before = process.cpuUsage();

  /** The mean of `calls` calls. */
  read(calls = 1): Figure {
    const wall = performance.now() - this.#begin;
    const { user, system } = process.cpuUsage(this.#before);
    return { wall: wall * 1e6 / calls, cpu: (user + system) * 1e3 / calls };
  }
}

/** The largest resident set of this process so far. */
export function peakBytes(): number {
  if (process.platform === "linux") {
    const [, kib] = /^VmHWM:\s*(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"))!;
    return Number(kib) * 1024;
  }
  return process.resourceUsage().maxRSS * 1024;
}

/** The figure of median wall time. */
export function middle(figures: readonly Figure[]): Figure {
  return figures.toSorted((a, b) => a.wall - b.wall)[figures.length >> 1]!;
}

/** The figure with the least wall time. */
export function best(figures: readonly Figure[]): Figure {
  return figures.reduce((a, b) => b.wall < a.wall ? b : a);
}

/** Names a row in requests and results. */
export function keyOf({ group, name }: Row): string {
  return `${group}/${name}`;
}

/**
 * `count` uniform numbers in [low, high), the `stream`-th such sequence: hashes of their indexes.
 * `uniform` of peer.py computes the same bits.
 */
export function uniform(count: number, stream: number, low: number, high: number): Float32Array {
  const numbers = new Float32Array(count);
  for (let i = 0; i < count; i++) {
    let hash = (i + Math.imul(stream + 1, 0x9e3779b9)) | 0;
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
    numbers[i] = low + ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32 * (high - low);
  }
  return numbers;
}

/** The largest of the smallest `part` of `values`. */
export function quantile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)]!;
}

/** The middle value, or the mean of the two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** The geometric mean; NaN for no values. */
export function geometricMean(values: readonly number[]): number {
  return Math.exp(values.reduce((sum, value) => sum + Math.log(value), 0) / values.length);
}
