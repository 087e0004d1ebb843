/**
 * The JavaScript backend: always there, and the definition of every op.
 *
 * Finds or makes the loop for each call and hands it the arrays. Knows nothing of tensors.
 *
 * @module
 */
import type { Along, Backend, Distribution, Picks, Product } from "../../core/backend.ts";
import { DTYPE, type DType, type TypedArray } from "../../base/dtype.ts";
import type { FoldRow, MapRow } from "../../ops/table.ts";
import type { Plan } from "../../core/plan.ts";
import type { Storage } from "../../memory/storage.ts";
import type { Loop } from "./environment.ts";
import { addPositions, findNonzero, moveBlocks, takeEach } from "./gather.ts";
import { interpretFold, interpretMap } from "./interpret.ts";
import { foldLoop, mapLoop, runsAcross } from "./loops.ts";
import { multiply } from "./matmul.ts";
import { fillRandom } from "./random.ts";
import { sortRuns } from "./sort.ts";

/** One more than the largest dtype id, as a power of two; 15 stands for no operand. */
const IDS = 16;
const NONE = 15;

/** True when this program may make functions from text. */
function mayGenerate(): boolean {
  try {
    return new Function("return 1")() === 1;
  } catch {
    return false;
  }
}

/** The array that loops see: words for the 64-bit integers. */
function arrayOf(storage: Storage): TypedArray {
  return storage.info.wide ? storage.words : storage.array;
}

/** Runs every op in JavaScript, by generated loops or, where those are refused, by interpretation. */
export class JsBackend implements Backend {
  readonly name = "js";
  /** Loops of maps whose operands are all of one dtype: by row and dtype, then by variant. */
  readonly #uniform: (Loop | undefined)[][] = [];
  /** All other loops, by dtypes and variant. */
  readonly #others = new Map<number, Map<number, Loop>>();
  readonly #generate: boolean;

  /** With `generate` false, no function is made from text. */
  constructor(generate: boolean = mayGenerate()) {
    this.#generate = generate;
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
    if (!this.#generate) return interpretMap(row, compute, plan, out, a, b, c);
    const info = a.info;
    const shape = (plan.rank * 2 + (plan.tiled ? 1 : 0)) * 2 + (plan.huge ? 1 : 0);
    const variant = shape * 81 + plan.pattern;
    let loop: Loop | undefined;
    if (
      info === out.info && (b === null || b.info === info) && (c === null || c.info === info) &&
      info.name === compute
    ) {
      const loops = this.#uniform[row.id * IDS + info.id] ??= [];
      loop = loops[variant] ??= this.#mapLoop(row, compute, plan, out, a, b, c);
    } else {
      const dtypes = (DTYPE[compute].id * IDS + out.info.id) * IDS + info.id;
      const loops = this.#loops((dtypes * IDS + idOf(b)) * IDS + idOf(c), row.id);
      loop = loops.get(variant);
      if (loop === undefined) {
        loops.set(variant, loop = this.#mapLoop(row, compute, plan, out, a, b, c));
      }
    }
    loop(
      plan.data,
      arrayOf(out),
      arrayOf(a),
      b === null ? null : arrayOf(b),
      c === null ? null : arrayOf(c),
    );
  }

  #mapLoop(
    row: MapRow,
    compute: DType,
    plan: Plan,
    out: Storage,
    a: Storage,
    b: Storage | null,
    c: Storage | null,
  ): Loop {
    const inputs = [a, b, c].filter((s) => s !== null).map((s) => s.info.name);
    return mapLoop(row, compute, inputs, out.info.name, plan);
  }

  #loops(dtypes: number, row: number): Map<number, Loop> {
    const key = dtypes * 1024 + row;
    let loops = this.#others.get(key);
    if (loops === undefined) this.#others.set(key, loops = new Map());
    return loops;
  }

  fold(row: FoldRow, plan: Plan, out: Storage, a: Storage, b: Storage | null): void {
    if (!this.#generate) return interpretFold(row, plan, out, a, b);
    const loops = this.#loops((out.info.id * IDS + a.info.id) * IDS + idOf(b), row.id);
    const flags = (runsAcross(plan) ? 2 : 0) + (plan.huge ? 1 : 0);
    const shape = (plan.rank * 256 + plan.kept) * 4 + flags;
    const variant = shape * 81 + plan.pattern;
    let loop = loops.get(variant);
    if (loop === undefined) {
      const second = b === null ? null : b.info.name;
      loops.set(variant, loop = foldLoop(row, a.info.name, second, out.info.name, plan));
    }
    loop(plan.data, arrayOf(out), arrayOf(a), b === null ? null : arrayOf(b), null);
  }

  matmul(product: Product): void {
    multiply(product);
  }

  sort(
    values: Storage,
    offset: number,
    runs: number,
    size: number,
    descending: boolean,
    indices: Storage | null,
  ): void {
    sortRuns(values, offset, runs, size, descending, indices);
  }

  gather(plan: Plan, out: Storage, source: Storage, picks: Picks, step: number): number {
    return moveBlocks(plan, out, source, picks, step, "gather", this.#generate);
  }

  scatter(
    plan: Plan,
    target: Storage,
    values: Storage,
    picks: Picks,
    step: number,
    add: boolean,
  ): number {
    return moveBlocks(plan, target, values, picks, step, add ? "add" : "scatter", this.#generate);
  }

  position(plan: Plan, positions: Storage, index: Storage, size: number, stride: number): number {
    return addPositions(plan, positions, index, size, stride);
  }

  takeAlong(plan: Plan, out: Storage, source: Storage, along: Along): number {
    return takeEach(plan, out, source, along);
  }

  nonzero(out: Storage, input: Storage, offset: number, length: number): void {
    findNonzero(out.array as Int32Array, input, offset, length);
  }

  random(
    out: Storage,
    kind: Distribution,
    key0: number,
    key1: number,
    low: bigint,
    high: bigint,
  ): void {
    fillRandom(out, kind, key0, key1, low, high);
  }
}

function idOf(storage: Storage | null): number {
  return storage === null ? NONE : storage.info.id;
}
