/**
 * The native CPU backend: checks that a call stays inside its storages, then calls the shim.
 *
 * Knows nothing of tensors, nor of how the shim was opened.
 *
 * @module
 */
import type { Backend } from "../../core/backend.ts";
import type { Operand } from "../../memory/operand.ts";
import type { ElementOp } from "../../ops/op.ts";
import { NativeError } from "../../base/errors.ts";
import type { Storage } from "../../memory/storage.ts";
import type { AxisOp, Call, MapOp } from "../../ops/op.ts";
import { TABLE } from "../../ops/table.ts";
import { CONFIGURE, NO_DTYPE, type Shim, STATUS, type Unavailable } from "../ffi/abi.ts";
import { checkOperand } from "../ffi/checks.ts";
import { lastError, readText } from "../ffi/text.ts";
import { type Kernel, KERNELS } from "./kernels.ts";

/**
 * Below this many elements the JavaScript loop measures faster than crossing over. Only ops that have
 * one right answer use it: no other value may depend on how many elements there are.
 */
const CROSSOVER = "Deno" in globalThis ? 64 : 48;

/** The numbers of ops in the shim, by their ids. */
const OPCODES: number[] = [];
TABLE.forEach(({ id }, place) => OPCODES[id] = place);

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
  readonly #crossover: number;
  /** Kernels by the ids of their ops; null where there is none. */
  readonly #kernels: (Kernel | null)[] = [];
  #blas: BlasInfo | Unavailable | undefined;

  /** Serves by `shim`. */
  constructor(shim: Shim, options: NativeOptions = {}) {
    this.#shim = shim;
    this.#map = shim.rm_map;
    this.#fold = shim.rm_fold;
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

  supports(call: Call): boolean {
    switch (call.op.kind) {
      case "map": {
        const { size } = call.plan!;
        return size >= this.#crossover || (size > 0 && (call.op as ElementOp).ulp !== 0);
      }
      case "reduce":
      case "argReduce":
      case "scan":
        return call.plan!.size > 0;
      default:
        return this.#kernelOf(call)?.supports(call) ?? false;
    }
  }

  run(call: Call): boolean {
    let status: number;
    switch (call.op.kind) {
      case "map": {
        // First of all, so that small ops look nothing up that they do not need.
        const { size } = call.plan!;
        if (size === 0 || (size < this.#crossover && (call.op as MapOp).ulp === 0)) return false;
        // An op that a program has defined.
        if (OPCODES[call.op.id] === undefined) return false;
        status = this.#runMap(call);
        break;
      }
      case "reduce":
      case "argReduce":
      case "scan":
        if (call.plan!.size === 0) return false;
        status = this.#runAxes(call);
        break;
      default: {
        if (call.op.name === "matmul") this.blas();
        status = this.#kernelOf(call)!.run(this.#shim, call);
      }
    }
    if (status === STATUS.ok) return true;
    if (status === STATUS.unsupported) return false;
    throw new NativeError(call.op.name, status, lastError(this.#shim));
  }

  #kernelOf({ op }: Call): Kernel | null {
    const known = this.#kernels[op.id];
    return known !== undefined ? known : this.#kernels[op.id] = KERNELS.get(op.name) ?? null;
  }

  #runMap(call: Call): number {
    const op = call.op as MapOp;
    const { inputs } = call;
    const plan = call.plan!;
    const out = call.outputs[0]!.storage;
    const a = (inputs[0] as Operand).storage;
    const b = op.arity > 1 ? (inputs[1] as Operand).storage : null;
    const c = op.arity > 2 ? (inputs[2] as Operand).storage : null;
    checkOperand("rm_map", plan, 0, out);
    checkOperand("rm_map", plan, 1, a);
    if (b !== null) checkOperand("rm_map", plan, 2, b);
    if (c !== null) checkOperand("rm_map", plan, 3, c);
    const dtypes = call.compute.id | out.info.id << 4 | a.info.id << 8 | idOf(b) << 12 |
      idOf(c) << 16;
    return this.#map(
      OPCODES[op.id]!,
      dtypes,
      plan.data,
      out.array,
      a.array,
      b === null ? null : b.array,
      c === null ? null : c.array,
    );
  }

  #runAxes(call: Call): number {
    const op = call.op as AxisOp;
    const plan = call.plan!;
    const out = call.outputs[0]!.storage;
    const a = call.operand(0).storage;
    const b = op.arity === 2 ? call.operand(1).storage : null;
    checkOperand("rm_fold", plan, 0, out);
    checkOperand("rm_fold", plan, 1, a);
    if (b !== null) checkOperand("rm_fold", plan, 2, b);
    const dtypes = out.info.id | out.info.id << 4 | a.info.id << 8 | idOf(b) << 12 |
      NO_DTYPE << 16;
    return this.#fold(
      OPCODES[op.id]!,
      dtypes,
      plan.kept,
      plan.data,
      out.array,
      a.array,
      b === null ? null : b.array,
    );
  }

  /** The BLAS behind products, opened by the first call; or why there is none. */
  blas(): BlasInfo | Unavailable {
    return this.#blas ??= this.#openBlas();
  }

  #openBlas(): BlasInfo | Unavailable {
    if (this.#shim.rm_blas_open() !== STATUS.ok) return { reason: lastError(this.#shim) };
    const [config, path] = readText((bytes, length) => this.#shim.rm_blas_info(bytes, length))
      .split("\n");
    return { config: config!.trim(), path: path! };
  }
}

function idOf(storage: Storage | null): number {
  return storage === null ? NO_DTYPE : storage.info.id;
}
