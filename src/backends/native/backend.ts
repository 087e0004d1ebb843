/**
 * The native CPU backend: checks that a plan stays inside its storages, then calls the shim.
 *
 * What the shim lacks goes to the backend that this one was built on. Knows nothing of tensors, nor
 * of how the shim was opened.
 *
 * @module
 */
import type { Backend, Distribution, MatrixRef } from "../../backend.ts";
import { DTYPE, type DType } from "../../dtype.ts";
import { NativeError } from "../../errors.ts";
import type { ArgReduceRow, MapRow, ReduceRow, ScanRow } from "../../ops.ts";
import { OFFSETS, type Plan } from "../../plan.ts";
import type { Storage } from "../../storage.ts";
import { NO_DTYPE, type Shim, STATUS, type Unavailable } from "./abi.ts";

/**
 * Below this many elements the loop of the fallback measures faster than crossing over. Only exactly
 * rounded rows use it: no other value may depend on how many elements there are.
 */
const CROSSOVER = "Deno" in globalThis ? 64 : 48;

/** How a {@link NativeBackend} may be made to differ, for tests. */
export interface NativeOptions {
  /** Fewest elements of an exactly rounded elementwise op that go to the shim. */
  readonly crossover?: number;
}

/** The BLAS that the shim uses. */
export interface BlasInfo {
  /** Its version and how it was built. */
  readonly config: string;
  /** Its file. */
  readonly path: string;
}

/** Runs on the CPU through the shim. */
export class NativeBackend implements Backend {
  readonly name = "native";
  readonly #shim: Shim;
  // One field per hot symbol: the runtimes call fast only what they see as always the same.
  readonly #map: Shim["rm_map"];
  readonly #reduce: Shim["rm_fold"];
  readonly #matmul: Shim["rm_matmul"];
  readonly #fallback: Backend;
  readonly #crossover: number;
  /** The calls that the shim has said it lacks, by op and dtypes. */
  readonly #lacking = new Set<number>();
  #blas: BlasInfo | Unavailable | undefined;
  /** The plan of the matrix product under way. */
  #matrices = new Float64Array(64);

  /** Serves by `shim` and, where that lacks something, by `fallback`. */
  constructor(shim: Shim, fallback: Backend, options: NativeOptions = {}) {
    this.#shim = shim;
    this.#map = shim.rm_map;
    this.#reduce = shim.rm_fold;
    this.#matmul = shim.rm_matmul;
    this.#fallback = fallback;
    this.#crossover = options.crossover ?? CROSSOVER;
  }

  map(
    row: MapRow,
    compute: DType,
    plan: Plan,
    out: Storage,
    a: Storage,
    b: Storage | null,
    c: Storage | null,
  ): void {
    const size = sizeOf(plan);
    const dtypes = DTYPE[compute].id | out.info.id << 4 | a.info.id << 8 | idOf(b) << 12 |
      idOf(c) << 16;
    const key = row.id << 20 | dtypes;
    if (size === 0 || (size < this.#crossover && row.ulp === 0) || this.#lacking.has(key)) {
      return this.#fallback.map(row, compute, plan, out, a, b, c);
    }
    checkOperand("rm_map", plan, 0, out);
    checkOperand("rm_map", plan, 1, a);
    if (b !== null) checkOperand("rm_map", plan, 2, b);
    if (c !== null) checkOperand("rm_map", plan, 3, c);
    const status = this.#map(
      row.id,
      dtypes,
      plan.data,
      out.array,
      a.array,
      b === null ? null : b.array,
      c === null ? null : c.array,
    );
    if (status === STATUS.ok) return;
    if (status !== STATUS.unsupported) throw this.#error("rm_map", status);
    this.#lacking.add(key);
    this.#fallback.map(row, compute, plan, out, a, b, c);
  }

  reduce(row: ReduceRow, plan: Plan, out: Storage, a: Storage, b: Storage | null): void {
    const dtypes = out.info.id | out.info.id << 4 | a.info.id << 8 | idOf(b) << 12 |
      NO_DTYPE << 16;
    const key = row.id << 20 | dtypes;
    if (sizeOf(plan) === 0 || this.#lacking.has(key)) {
      return this.#fallback.reduce(row, plan, out, a, b);
    }
    checkOperand("rm_fold", plan, 0, out);
    checkOperand("rm_fold", plan, 1, a);
    if (b !== null) checkOperand("rm_fold", plan, 2, b);
    const status = this.#reduce(
      row.id,
      dtypes,
      plan.kept,
      plan.data,
      out.array,
      a.array,
      b === null ? null : b.array,
    );
    if (status === STATUS.ok) return;
    if (status !== STATUS.unsupported) throw this.#error("rm_fold", status);
    this.#lacking.add(key);
    this.#fallback.reduce(row, plan, out, a, b);
  }

  matmul(m: number, n: number, k: number, c: MatrixRef, a: MatrixRef, b: MatrixRef): void {
    const { info } = c.storage;
    const served = (info.name === "float32" || info.name === "float64") &&
      m > 0 && n > 0 && k > 0 && !("reason" in this.blas());
    if (!served) return this.#fallback.matmul(m, n, k, c, a, b);
    const batch = c.offsets.length;
    const needed = 10 + 3 * batch;
    if (this.#matrices.length < needed) this.#matrices = new Float64Array(2 * needed);
    const plan = this.#matrices;
    plan[0] = m;
    plan[1] = n;
    plan[2] = k;
    plan[3] = batch;
    fillMatrix(plan, 4, 10, batch, c, m, n);
    fillMatrix(plan, 6, 10 + batch, batch, a, m, k);
    fillMatrix(plan, 8, 10 + 2 * batch, batch, b, k, n);
    const status = this.#matmul(
      info.id,
      plan,
      c.storage.array,
      a.storage.array,
      b.storage.array,
    );
    if (status === STATUS.ok) return;
    if (status !== STATUS.unsupported) throw this.#error("rm_matmul", status);
    this.#fallback.matmul(m, n, k, c, a, b);
  }

  /** The BLAS behind {@link NativeBackend.matmul}, opened by the first call; or why there is none. */
  blas(): BlasInfo | Unavailable {
    return this.#blas ??= this.#openBlas();
  }

  #openBlas(): BlasInfo | Unavailable {
    if (this.#shim.rm_blas_open(null) !== STATUS.ok) return { reason: this.#lastError() };
    const [config, path] = readText((bytes) => this.#shim.rm_blas_info(bytes, bytes.length))
      .split("\n");
    return { config: config!.trim(), path: path! };
  }

  #lastError(): string {
    return readText((bytes) => this.#shim.rm_last_error(bytes, bytes.length));
  }

  #error(symbol: string, status: number): NativeError {
    return new NativeError(symbol, status, this.#lastError());
  }

  argReduce(row: ArgReduceRow, plan: Plan, out: Storage, a: Storage): void {
    this.#fallback.argReduce(row, plan, out, a);
  }

  scan(row: ScanRow, plan: Plan, out: Storage, a: Storage): void {
    this.#fallback.scan(row, plan, out, a);
  }

  sort(
    values: Storage,
    offset: number,
    runs: number,
    size: number,
    descending: boolean,
    indices: Storage | null,
  ): void {
    this.#fallback.sort(values, offset, runs, size, descending, indices);
  }

  position(plan: Plan, positions: Storage, index: Storage, size: number, stride: number): number {
    return this.#fallback.position(plan, positions, index, size, stride);
  }

  gather(
    plan: Plan,
    out: Storage,
    source: Storage,
    positions: Storage,
    count: number,
    step: number,
  ): void {
    this.#fallback.gather(plan, out, source, positions, count, step);
  }

  scatter(
    plan: Plan,
    target: Storage,
    values: Storage,
    positions: Storage,
    count: number,
    step: number,
  ): void {
    this.#fallback.scatter(plan, target, values, positions, count, step);
  }

  nonzero(out: Storage, input: Storage, offset: number, length: number): void {
    this.#fallback.nonzero(out, input, offset, length);
  }

  random(
    out: Storage,
    kind: Distribution,
    key0: number,
    key1: number,
    low: bigint,
    high: bigint,
  ): void {
    this.#fallback.random(out, kind, key0, key1, low, high);
  }
}

function idOf(storage: Storage | null): number {
  return storage === null ? NO_DTYPE : storage.info.id;
}

/** How many positions the axes of `plan` have. */
function sizeOf(plan: Plan): number {
  const { data, rank } = plan;
  const shape = OFFSETS + plan.operands;
  let size = 1;
  for (let j = 0; j < rank; j++) size *= data[shape + j]!;
  return size;
}

/**
 * Throws a {@link NativeError} unless operand `k` of a plan with elements stays inside `storage`.
 * C checks nothing of the kind, and a storage may have been detached.
 */
function checkOperand(symbol: string, plan: Plan, k: number, storage: Storage): void {
  const { data, rank, operands } = plan;
  const shape = OFFSETS + operands;
  const strides = shape + rank + k * rank;
  let low = data[OFFSETS + k]!;
  let high = low;
  for (let j = 0; j < rank; j++) {
    const reach = (data[shape + j]! - 1) * data[strides + j]!;
    if (reach < 0) low += reach;
    else high += reach;
  }
  // Written so that NaN fails too.
  if (k < operands && low >= 0 && high < storage.array.length) return;
  throw outside(symbol, k, low, high, storage);
}

function outside(
  symbol: string,
  operand: number,
  low: number,
  high: number,
  storage: Storage,
): NativeError {
  return new NativeError(
    symbol,
    STATUS.bounds,
    `operand ${operand} reaches elements ${low} to ${high} of ${storage.array.length}`,
  );
}

/** Writes the strides and offsets of `matrix`, [rows, columns], and checks that they stay inside. */
function fillMatrix(
  plan: Float64Array,
  strides: number,
  offsets: number,
  batch: number,
  matrix: MatrixRef,
  rows: number,
  columns: number,
): void {
  const { rowStride, columnStride, storage } = matrix;
  plan[strides] = rowStride;
  plan[strides + 1] = columnStride;
  const down = (rows - 1) * rowStride;
  const right = (columns - 1) * columnStride;
  const low = Math.min(0, down) + Math.min(0, right);
  const high = Math.max(0, down) + Math.max(0, right);
  for (let i = 0; i < batch; i++) {
    const offset = plan[offsets + i] = matrix.offsets[i]!;
    if (offset + low >= 0 && offset + high < storage.array.length) continue;
    throw outside("rm_matmul", (strides - 4) / 2, offset + low, offset + high, storage);
  }
}

/** Reads a text that `copy` writes into a buffer, cut to it, and gives the full length of. */
function readText(copy: (bytes: Uint8Array) => number): string {
  const bytes = new Uint8Array(1024);
  const length = Math.min(copy(bytes), bytes.length - 1);
  return new TextDecoder().decode(bytes.subarray(0, length));
}
