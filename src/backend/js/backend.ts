/**
 * The JavaScript backend: always available, and the definition of every op.
 *
 * Finds or generates the loop of each call and passes it the arrays. Knows nothing of tensors.
 *
 * @module
 */
import type { TypedArray } from "../../base/dtype.ts";
import type { Backend } from "../../core/backend.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import { type AxisOp, type Call, isTableOp, type MapOp, type Op } from "../../table/op.ts";
import type { Loop } from "./environment.ts";
import { interpretAxes, interpretMap } from "./interpret.ts";
import { KERNELS } from "./kernels.ts";
import { axisLoop, mapLoop, runsAcross } from "./loops.ts";

/** True if this program may generate functions from text. */
function mayGenerate(): boolean {
  try {
    return new Function("return 1")() === 1;
  } catch {
    return false;
  }
}

/** The array that loops use: 32-bit words for the 64-bit integers. */
function arrayOf(storage: Storage): TypedArray {
  return storage.info.wide ? storage.words : storage.array;
}

/** The loops of one op and set of dtypes, by variant: rank, strides and the like. */
type Loops = (Loop | undefined)[];

/**
 * Runs every op in JavaScript: by generated loops or, if code generation is forbidden, by
 * interpretation.
 */
export class JsBackend implements Backend {
  readonly name = "js";
  /** Loops of elementwise ops with operands of one dtype, by op and dtype. */
  readonly #uniform: Loops[][] = [];
  /**
   * All other loops, by op and by the dtypes of {@link Call} in order: compute dtype, output,
   * inputs.
   */
  readonly #others: Map<number, Map<number, Loop>>[] = [];
  readonly #generate: boolean;

  /** With `generate` false, makes no function from text. */
  constructor(generate: boolean = mayGenerate()) {
    this.#generate = generate;
  }

  hasKernel(op: Op): boolean {
    return isTableOp(op) || KERNELS.has(op.name);
  }

  supports(call: Call): boolean {
    return isTableOp(call.op) ||
      (KERNELS.get(call.op.name)?.supports(call, this.#generate) ?? false);
  }

  run(call: Call): true {
    switch (call.op.kind) {
      case "map":
        this.#map(call);
        break;
      case "reduce":
      case "argReduce":
      case "scan":
        this.#alongAxes(call);
        break;
      default:
        KERNELS.get(call.op.name)!.run(call, this.#generate);
    }
    return true;
  }

  #map(call: Call): void {
    if (!this.#generate) return interpretMap(call);
    const op = call.op as MapOp;
    const { inputs, plan } = call;
    const { data, variant } = plan!;
    const out = call.outputs[0]!.storage;
    const a = (inputs[0] as Operand).storage;
    const b = op.arity > 1 ? (inputs[1] as Operand).storage : null;
    const c = op.arity > 2 ? (inputs[2] as Operand).storage : null;
    const { info } = a;
    if (
      info === out.info && (b === null || b.info === info) && (c === null || c.info === info) &&
      info === call.compute
    ) {
      const loops = (this.#uniform[op.id] ??= [])[info.id] ??= [];
      const loop = loops[variant] ??= mapLoop(call);
      if (!info.wide) {
        return loop(data, out.array, a.array, b && b.array, c && c.array);
      }
      return loop(data, out.words, a.words, b && b.words, c && c.words);
    }
    const first = (call.compute.id * 256 + out.info.id) * 256 + info.id;
    const rest = (b === null ? 0 : b.info.id) * 256 + (c === null ? 0 : c.info.id);
    const loops = this.#loops(op.id, first);
    const key = variant * 65536 + rest;
    let loop = loops.get(key);
    if (loop === undefined) loops.set(key, loop = mapLoop(call));
    loop(
      data,
      arrayOf(out),
      arrayOf(a),
      b === null ? null : arrayOf(b),
      c === null ? null : arrayOf(c),
    );
  }

  #loops(op: number, dtypes: number): Map<number, Loop> {
    const byDTypes = this.#others[op] ??= new Map();
    let loops = byDTypes.get(dtypes);
    if (loops === undefined) byDTypes.set(dtypes, loops = new Map());
    return loops;
  }

  #alongAxes(call: Call): void {
    if (!this.#generate) return interpretAxes(call);
    const op = call.op as AxisOp;
    const plan = call.plan!;
    const out = call.outputs[0]!.storage;
    const a = call.operand(0).storage;
    const b = op.arity === 2 ? call.operand(1).storage : null;
    const loops = this.#loops(op.id, (out.info.id * 256 + a.info.id) * 256 + (b?.info.id ?? 0));
    const flags = (runsAcross(plan) ? 2 : 0) + (plan.needsInt64Index ? 1 : 0);
    const variant = ((plan.rank * 256 + plan.kept) * 4 + flags) * 81 + plan.innerStrideKey;
    let loop = loops.get(variant);
    if (loop === undefined) loops.set(variant, loop = axisLoop(call));
    loop(plan.data, arrayOf(out), arrayOf(a), b === null ? null : arrayOf(b), null);
  }
}
