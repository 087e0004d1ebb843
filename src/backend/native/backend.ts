/**
 * The native CPU backend: checks that a call stays inside its storages, then calls the shim.
 *
 * Knows nothing of tensors, or of how the shim was opened.
 *
 * @module
 */
import type { Backend } from "../../core/backend.ts";
import { CHAIN } from "../../ops/chain/op.ts";
import type { Operand } from "../../memory/operand.ts";
import { NO_DTYPE, type TypedArray } from "../../base/dtype.ts";
import { NativeError } from "../../base/errors.ts";
import type { Storage } from "../../memory/storage.ts";
import {
  type AxisOp,
  type Call,
  type ElementOp,
  isTableOp,
  type MapOp,
  type Op,
} from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { CONFIGURE, opHash, type Shim, STATUS, type Unavailable } from "../ffi/abi.ts";
import { checkOperand } from "../ffi/checks.ts";
import { lastError, readText } from "../ffi/text.ts";
import { exprNumbers } from "./chain.ts";
import { collectiveFailure } from "./collective.ts";
import type { Kernel } from "./kernel.ts";
import { KERNELS } from "./kernels.ts";

/**
 * With fewer elements, the JavaScript loop is faster than a native call. Only ops with one correct
 * result use it: other results must not depend on the number of elements.
 */
const CROSSOVER = "Deno" in globalThis ? 64 : 48;

/** Settings of a {@link NativeBackend} for tests. */
export interface NativeOptions {
  /** Fewest elements of an op with one correct result that run in the shim. */
  readonly crossover?: number;
}

/** The BLAS that the shim uses. */
export interface BlasInfo {
  /** The version and the build of the library. */
  readonly config: string;
  /** The path of the library. */
  readonly path: string;
  /** Whether it has LAPACK. */
  readonly hasLapack: boolean;
}

/** The names of the instruction sets, by their numbers in the shim. */
const LEVELS = ["", "base", "x86-64-v2", "x86-64-v3", "x86-64-v4"] as const;

/** Runs on the CPU through the shim. */
export class NativeBackend implements Backend {
  readonly name = "native";
  readonly #shim: Shim;
  // A field: the runtimes call fast only functions that they see as constant.
  readonly #run: Shim["rm_run"];
  readonly #runMany: Shim["rm_run_many"];
  readonly #crossover: number;
  /** The shim's kernel numbers by the ids of their ops; -1 if there is none. */
  readonly #numbers: number[] = [];
  /** The entries of {@link KERNELS} by the ids of ops, which are found faster than names. */
  readonly #kernels: (Kernel | null)[] = [];
  readonly #own = (op: Op): number => this.#numberOf(op);
  #blas: BlasInfo | Unavailable | undefined;

  /** Runs calls through `shim`. */
  constructor(shim: Shim, options: NativeOptions = {}) {
    this.#shim = shim;
    this.#run = shim.rm_run;
    this.#runMany = shim.rm_run_many;
    this.#crossover = options.crossover ?? CROSSOVER;
  }

  /** Sets the number of threads, 0 for all cores of the machine; returns the resulting number. */
  setThreads(count: number): number {
    return this.#shim.rm_configure(CONFIGURE.threads, count);
  }

  /** The number of threads. */
  get threads(): number {
    return this.#shim.rm_configure(CONFIGURE.threads, -1);
  }

  usedThreads(): number {
    return this.#shim.rm_configure(CONFIGURE.usedThreads, -1);
  }

  /** Whether threads share even small work, as tests require. */
  setShareAll(on: boolean): void {
    this.#shim.rm_configure(CONFIGURE.shareAll, on ? 1 : 0);
  }

  /**
   * Chooses an instruction set by its number, 0 for the best; one that the machine lacks changes
   * nothing. Returns the number of the one in use.
   */
  setLevel(level: number): number {
    return this.#shim.rm_configure(CONFIGURE.level, level);
  }

  /** The instruction set in use. */
  get level(): string {
    return LEVELS[this.#shim.rm_configure(CONFIGURE.level, -1)] ?? "unknown";
  }

  hasKernel(op: Op): boolean {
    return this.#numberOf(op) >= 0;
  }

  supports(call: Call): boolean {
    const { op } = call;
    if (this.#numberOf(op) < 0) return false;
    switch (op.kind) {
      case "map": {
        const { size } = call.plan!;
        return size >= this.#crossover || (size > 0 && (op as ElementOp).ulp !== 0);
      }
      case "reduce":
      case "argReduce":
      case "scan":
        return call.plan!.size > 0;
      default:
        return this.#kernelOf(op)?.supports(call, this.#own) ?? false;
    }
  }

  run(call: Call): boolean {
    const { op } = call;
    let status: number;
    switch (op.kind) {
      case "map": {
        // First of all, so that small ops skip lookups that they do not need.
        const { size } = call.plan!;
        if (size === 0 || (size < this.#crossover && (op as MapOp).ulp === 0)) return false;
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
        const kernel = this.#kernelOf(op)!;
        if (kernel.usesBlas || op.name === "matmul") this.blas();
        status = this.#runKernel(call, kernel);
      }
    }
    if (status === STATUS.ok) return true;
    if (status === STATUS.unsupported) return false;
    if (status === STATUS.distributed) {
      throw collectiveFailure(call, lastError(this.#shim));
    }
    throw new NativeError(op.name, status, lastError(this.#shim));
  }

  /** The number of the op's kernel in the shim; -1 if it has none. */
  numberOf(op: Op): number {
    return this.#numberOf(op);
  }

  /** The number of the op's kernel in the shim; -1 if it has none, or one with another meaning. */
  #numberOf(op: Op): number {
    return this.#numbers[op.id] ??= this.#find(op);
  }

  #kernelOf(op: Op): Kernel | null {
    return this.#kernels[op.id] ??= KERNELS.get(op.name) ?? null;
  }

  #find(op: Op): number {
    const hash = isTableOp(op) ? opHash(op) : 0;
    return this.#shim.rm_find_kernel(new TextEncoder().encode(`${op.name}\0`), hash);
  }

  #runMap(call: Call): number {
    const op = call.op as MapOp;
    const number = this.#numberOf(op);
    if (number < 0) return this.#runExpr(call);
    const { inputs } = call;
    const plan = call.plan!;
    const out = call.outputs[0]!.storage;
    const a = (inputs[0] as Operand).storage;
    const b = op.arity > 1 ? (inputs[1] as Operand).storage : null;
    const c = op.arity > 2 ? (inputs[2] as Operand).storage : null;
    checkOperand(op.name, plan, 0, out);
    checkOperand(op.name, plan, 1, a);
    if (b !== null) checkOperand(op.name, plan, 2, b);
    if (c !== null) checkOperand(op.name, plan, 3, c);
    return this.#run(
      number,
      packDTypes(out, a, b, c),
      call.compute.id,
      plan.data,
      out.array,
      a.array,
      b === null ? null : b.array,
      c === null ? null : c.array,
    );
  }

  /** Runs an expression of a program as a chain of ops of the table. */
  #runExpr(call: Call): number {
    const kernel = this.#numberOf(CHAIN);
    // An op of the table without a kernel has another definition in the library.
    if (kernel < 0 || call.op.name in MAP) return STATUS.unsupported;
    const ready = exprNumbers(call, this.#own);
    if (ready === null) return STATUS.unsupported;
    const [out, a = null, b = null, c = null] = ready.operands.map(({ storage }) => storage);
    return this.#runBuffers(kernel, ready.numbers, out!, a, b, c);
  }

  #runAxes(call: Call): number {
    const op = call.op as AxisOp;
    const number = this.#numberOf(op);
    if (number < 0) return STATUS.unsupported;
    const plan = call.plan!;
    const out = call.outputs[0]!.storage;
    const a = call.operand(0).storage;
    const b = op.arity === 2 ? call.operand(1).storage : null;
    checkOperand(op.name, plan, 0, out);
    checkOperand(op.name, plan, 1, a);
    if (b !== null) checkOperand(op.name, plan, 2, b);
    const dtypes = packDTypes(out, a, b, null);
    const second = b === null ? null : b.array;
    return this.#run(number, dtypes, out.info.id, plan.data, out.array, a.array, second, null);
  }

  #runKernel(call: Call, kernel: Kernel): number {
    const ready = kernel.prepare(call, this.#own);
    if (ready === null) return STATUS.unsupported;
    const { numbers, out, a = null, b = null, c = null, more } = ready;
    const number = this.#numberOf(call.op);
    let status: number;
    if (more === undefined) status = this.#runBuffers(number, numbers, out, a, b, c);
    else {
      const [d = null, e = null, f = null, g = null, h = null] = more;
      status = this.#runMany(
        number,
        packDTypes(out, a, b, c),
        packDTypes(d, e, f, g),
        h === null ? NO_DTYPE : h.info.id,
        out.info.id,
        numbers,
        out.array,
        arrayOf(a),
        arrayOf(b),
        arrayOf(c),
        arrayOf(d),
        arrayOf(e),
        arrayOf(f),
        arrayOf(g),
        arrayOf(h),
      );
    }
    kernel.finish?.(call, numbers);
    return status;
  }

  #runBuffers(
    kernel: number,
    numbers: Float64Array,
    out: Storage,
    a: Storage | null,
    b: Storage | null,
    c: Storage | null,
  ): number {
    return this.#run(
      kernel,
      packDTypes(out, a, b, c),
      out.info.id,
      numbers,
      out.array,
      arrayOf(a),
      arrayOf(b),
      arrayOf(c),
    );
  }

  /** The BLAS library of matrix products, opened by the first call, or why there is none. */
  blas(): BlasInfo | Unavailable {
    return this.#blas ??= this.#openBlas();
  }

  #openBlas(): BlasInfo | Unavailable {
    if (this.#shim.rm_blas_open() !== STATUS.ok) return { reason: lastError(this.#shim) };
    const [config, path, lapack] = readText((bytes, length) =>
      this.#shim.rm_blas_info(bytes, length)
    )
      .split("\n");
    return { config: config!.trim(), path: path!, hasLapack: lapack !== "" };
  }
}

/** The ids of the dtypes, as `rm_run` takes them. */
function packDTypes(
  out: Storage | null,
  a: Storage | null,
  b: Storage | null,
  c: Storage | null,
): number {
  return (out === null ? NO_DTYPE : out.info.id) |
    (a === null ? NO_DTYPE : a.info.id) << 8 |
    (b === null ? NO_DTYPE : b.info.id) << 16 |
    (c === null ? NO_DTYPE : c.info.id) << 24;
}

function arrayOf(storage: Storage | null): TypedArray | null {
  return storage === null ? null : storage.array;
}
