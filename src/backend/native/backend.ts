/**
 * The native CPU backend: checks that a plan stays inside its storages, then calls the shim.
 *
 * What the shim lacks goes to the backend that this one was built on. Knows nothing of tensors, nor
 * of how the shim was opened.
 *
 * @module
 */
import type {
  Affine,
  Along,
  Backend,
  Distribution,
  Picks,
  Product,
  RowKernel,
} from "../../core/backend.ts";
import { DTYPE, type DType } from "../../base/dtype.ts";
import { NativeError } from "../../base/errors.ts";
import type { FoldRow, MapRow } from "../../ops/table.ts";
import type { Plan } from "../../core/plan.ts";
import type { Storage } from "../../memory/storage.ts";
import {
  ALONG_ROWS,
  CONFIGURE,
  MOVE,
  NO_DTYPE,
  RANDOM,
  type Shim,
  STATUS,
  type Unavailable,
} from "../ffi/abi.ts";
import { checkBlocks, checkOperand, checkRun, picksNothing, sizeOf } from "../ffi/checks.ts";
import { planProduct } from "../ffi/matrices.ts";
import { lastError, readText } from "../ffi/text.ts";

/**
 * Below this many elements the loop of the fallback measures faster than crossing over. Only rows
 * that have one right answer use it: no other value may depend on how many elements there are.
 */
const CROSSOVER = "Deno" in globalThis ? 64 : 48;

/** How a {@link NativeBackend} may be made to differ, for tests. */
export interface NativeOptions {
  /** Fewest elements of an op with one right answer that go to the shim. */
  readonly crossover?: number;
}

/** The BLAS that the shim uses. */
export interface BlasInfo {
  /** Its version and how it was built. */
  readonly config: string;
  /** Its file. */
  readonly path: string;
}

/** The names of the instruction sets, by their numbers in the shim. */
const LEVELS = ["", "base", "x86-64-v2", "x86-64-v3", "x86-64-v4"] as const;

/** Runs on the CPU through the shim. */
export class NativeBackend implements Backend {
  readonly name = "native";
  readonly #shim: Shim;
  // One field per hot symbol: the runtimes call fast only what they see as always the same.
  readonly #map: Shim["rm_map"];
  readonly #fold: Shim["rm_fold"];
  readonly #rows: Shim["rm_rows"];
  readonly #matmul: Shim["rm_matmul"];
  readonly #move: Shim["rm_move"];
  readonly #fallback: Backend;
  readonly #crossover: number;
  #blas: BlasInfo | Unavailable | undefined;
  /** The plan of the matrix product under way. */
  #matrices = new Float64Array(64);
  /** The numbers of other calls. */
  readonly #numbers = new Float64Array(5);

  /** Serves by `shim` and, where that lacks something, by `fallback`. */
  constructor(shim: Shim, fallback: Backend, options: NativeOptions = {}) {
    this.#shim = shim;
    this.#map = shim.rm_map;
    this.#fold = shim.rm_fold;
    this.#rows = shim.rm_rows;
    this.#matmul = shim.rm_matmul;
    this.#move = shim.rm_move;
    this.#fallback = fallback;
    this.#crossover = options.crossover ?? CROSSOVER;
  }

  /** Sets how many threads work, 0 for as many as the machine has; gives how many there are now. */
  setThreads(count: number): number {
    return this.#shim.rm_configure(CONFIGURE.threads, count);
  }

  /** How many threads work. */
  get threads(): number {
    return this.#shim.rm_configure(CONFIGURE.threads, -1);
  }

  /** Whether threads share what is not worth it too, as tests want it. */
  setShareAll(on: boolean): void {
    this.#shim.rm_configure(CONFIGURE.shareAll, on ? 1 : 0);
  }

  /**
   * Chooses an instruction set by its number, 0 for the best; one that the machine lacks changes
   * nothing. Gives the number of the one in use.
   */
  setLevel(level: number): number {
    return this.#shim.rm_configure(CONFIGURE.level, level);
  }

  /** The instruction set in use. */
  get level(): string {
    return LEVELS[this.#shim.rm_configure(CONFIGURE.level, -1)] ?? "unknown";
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
    // First of all, so that small ops look nothing up that they do not need.
    const size = sizeOf(plan);
    if (size === 0 || (size < this.#crossover && row.ulp === 0)) {
      return this.#fallback.map(row, compute, plan, out, a, b, c);
    }
    const dtypes = DTYPE[compute].id | out.info.id << 4 | a.info.id << 8 | idOf(b) << 12 |
      idOf(c) << 16;
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
    this.#refuse("rm_map", status);
    this.#fallback.map(row, compute, plan, out, a, b, c);
  }

  fold(row: FoldRow, plan: Plan, out: Storage, a: Storage, b: Storage | null): void {
    if (sizeOf(plan) === 0) return this.#fallback.fold(row, plan, out, a, b);
    const dtypes = out.info.id | out.info.id << 4 | a.info.id << 8 | idOf(b) << 12 |
      NO_DTYPE << 16;
    checkOperand("rm_fold", plan, 0, out);
    checkOperand("rm_fold", plan, 1, a);
    if (b !== null) checkOperand("rm_fold", plan, 2, b);
    const status = this.#fold(
      row.id,
      dtypes,
      plan.kept,
      plan.data,
      out.array,
      a.array,
      b === null ? null : b.array,
    );
    if (status === STATUS.ok) return;
    this.#refuse("rm_fold", status);
    this.#fallback.fold(row, plan, out, a, b);
  }

  alongRows(
    kernel: RowKernel,
    rows: number,
    columns: number,
    out: Storage,
    a: Storage,
    offset: number,
    { weight, bias, epsilon }: Affine,
  ): boolean {
    if (out.info !== a.info || out.info.kind !== "f" || rows === 0 || columns === 0) return false;
    checkRun("rm_rows", 0, 0, rows * columns, out);
    checkRun("rm_rows", 1, offset, rows * columns, a);
    if (weight !== null) checkRun("rm_rows", 2, 0, columns, weight);
    if (bias !== null) checkRun("rm_rows", 3, 0, columns, bias);
    const numbers = this.#numbers;
    numbers[0] = rows;
    numbers[1] = columns;
    numbers[2] = offset;
    numbers[3] = epsilon;
    const status = this.#rows(
      ALONG_ROWS[kernel],
      out.info.id,
      numbers,
      out.array,
      a.array,
      weight === null ? null : weight.array,
      bias === null ? null : bias.array,
    );
    if (status === STATUS.ok) return true;
    this.#refuse("rm_rows", status);
    return false;
  }

  matmul(product: Product): void {
    const { c, a, b } = product;
    const { name, id } = c.storage.info;
    // Looked for once, by the first product that could use it.
    if (this.#blas === undefined && (name === "float32" || name === "float64")) this.blas();
    const plan = this.#matrices = planProduct("rm_matmul", this.#matrices, product, 10);
    const status = this.#matmul(id, plan, c.storage.array, a.storage.array, b.storage.array);
    if (status === STATUS.ok) return;
    this.#refuse("rm_matmul", status);
    this.#fallback.matmul(product);
  }

  /** The BLAS behind {@link NativeBackend.matmul}, opened by the first call; or why there is none. */
  blas(): BlasInfo | Unavailable {
    return this.#blas ??= this.#openBlas();
  }

  #openBlas(): BlasInfo | Unavailable {
    if (this.#shim.rm_blas_open() !== STATUS.ok) return { reason: lastError(this.#shim) };
    const [config, path] = readText((bytes, length) => this.#shim.rm_blas_info(bytes, length))
      .split("\n");
    return { config: config!.trim(), path: path! };
  }

  /** Throws for any status but "unsupported". */
  #refuse(symbol: string, status: number): void {
    if (status !== STATUS.unsupported) throw new NativeError(symbol, status, lastError(this.#shim));
  }

  sort(
    values: Storage,
    offset: number,
    runs: number,
    size: number,
    descending: boolean,
    indices: Storage | null,
  ): void {
    const numbers = this.#numbers;
    numbers[0] = offset;
    numbers[1] = runs;
    numbers[2] = size;
    let status: number = STATUS.unsupported;
    if (runs * size > 0) {
      checkRun("rm_sort", 0, offset, runs * size, values);
      if (indices !== null) checkRun("rm_sort", 1, 0, runs * size, indices);
      const flags = descending ? 1 : 0;
      const order = indices === null ? null : indices.array;
      status = this.#shim.rm_sort(values.info.id, flags, numbers, values.array, order);
    }
    if (status === STATUS.ok) return;
    this.#refuse("rm_sort", status);
    this.#fallback.sort(values, offset, runs, size, descending, indices);
  }

  gather(plan: Plan, out: Storage, source: Storage, picks: Picks, step: number): number {
    if (picksNothing(plan, picks)) return this.#fallback.gather(plan, out, source, picks, step);
    checkBlocks("rm_move", plan, 0, out, (picks.count - 1) * step);
    checkBlocks("rm_move", plan, 1, source, (picks.size - 1) * picks.stride);
    return this.#moveBlocks(MOVE.gather, plan, out, source, picks, step) ??
      this.#fallback.gather(plan, out, source, picks, step);
  }

  scatter(
    plan: Plan,
    target: Storage,
    values: Storage,
    picks: Picks,
    step: number,
    add: boolean,
  ): number {
    const otherwise = (): number => this.#fallback.scatter(plan, target, values, picks, step, add);
    if (picksNothing(plan, picks)) return otherwise();
    checkBlocks("rm_move", plan, 0, target, (picks.size - 1) * picks.stride);
    checkBlocks("rm_move", plan, 1, values, (picks.count - 1) * step);
    const what = add ? MOVE.addAt : MOVE.scatter;
    return this.#moveBlocks(what, plan, target, values, picks, step) ?? otherwise();
  }

  /** Undefined when it is for the fallback to do. */
  #moveBlocks(
    what: number,
    plan: Plan,
    target: Storage,
    source: Storage,
    { indexes, offset, count, size, stride }: Picks,
    step: number,
  ): number | undefined {
    checkRun("rm_move", 2, offset, count, indexes);
    const numbers = this.#numbers;
    numbers[0] = offset;
    numbers[1] = count;
    numbers[2] = size;
    numbers[3] = stride;
    numbers[4] = step;
    const status = this.#move(
      what,
      target.info.id | indexes.info.id << 4,
      plan.data,
      numbers,
      target.array,
      source.array,
      indexes.array,
    );
    if (status === STATUS.ok) return numbers[0]!;
    this.#refuse("rm_move", status);
    return undefined;
  }

  position(plan: Plan, positions: Storage, index: Storage, size: number, stride: number): number {
    let status: number = STATUS.unsupported;
    const numbers = this.#numbers;
    numbers[0] = size;
    numbers[1] = stride;
    if (sizeOf(plan) > 0) {
      checkOperand("rm_move", plan, 0, positions);
      checkOperand("rm_move", plan, 1, index);
      const dtypes = positions.info.id | index.info.id << 4;
      const { array } = positions;
      status = this.#move(MOVE.position, dtypes, plan.data, numbers, array, null, index.array);
    }
    if (status === STATUS.ok) return numbers[0]!;
    this.#refuse("rm_move", status);
    return this.#fallback.position(plan, positions, index, size, stride);
  }

  takeAlong(plan: Plan, out: Storage, source: Storage, along: Along): number {
    const { indexes, size, stride } = along;
    let status: number = STATUS.unsupported;
    const numbers = this.#numbers;
    numbers[0] = size;
    numbers[1] = stride;
    if (sizeOf(plan) > 0 && size > 0) {
      checkOperand("rm_move", plan, 0, out);
      checkBlocks("rm_move", plan, 1, source, (size - 1) * stride);
      checkOperand("rm_move", plan, 2, indexes);
      const dtypes = out.info.id | indexes.info.id << 4;
      const { array } = indexes;
      const { data } = plan;
      status = this.#move(MOVE.takeAlong, dtypes, data, numbers, out.array, source.array, array);
    }
    if (status === STATUS.ok) return numbers[0]!;
    this.#refuse("rm_move", status);
    return this.#fallback.takeAlong!(plan, out, source, along);
  }

  nonzero(out: Storage, input: Storage, offset: number, length: number): void {
    let status: number = STATUS.unsupported;
    if (length > 0) {
      checkRun("rm_move", 1, offset, length, input);
      const numbers = this.#numbers;
      numbers[0] = offset;
      numbers[1] = length;
      numbers[2] = out.array.length;
      const dtypes = input.info.id | NO_DTYPE << 4;
      status = this.#move(MOVE.nonzero, dtypes, null, numbers, out.array, input.array, null);
    }
    if (status === STATUS.ok) return;
    this.#refuse("rm_move", status);
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
    const length = out.array.length;
    let status: number = STATUS.unsupported;
    if (length > 0) {
      const words = new BigInt64Array([0n, low, high - low]);
      const halves = new Int32Array(words.buffer);
      halves[0] = key0;
      halves[1] = key1;
      status = this.#shim.rm_random(out.info.id, RANDOM[kind], halves, length, out.array);
    }
    if (status === STATUS.ok) return;
    this.#refuse("rm_random", status);
    this.#fallback.random(out, kind, key0, key1, low, high);
  }
}

function idOf(storage: Storage | null): number {
  return storage === null ? NO_DTYPE : storage.info.id;
}
