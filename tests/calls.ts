/**
 * Calls of a backend made by hand, below dispatch: also from plans and storages that dispatch never
 * makes.
 *
 * @module
 */
import { DTYPE, type DType } from "../src/base/dtype.ts";
import { Layout } from "../src/base/layout.ts";
import { layoutOf, type Plan } from "../src/base/plan.ts";
import type { Backend } from "../src/core/backend.ts";
import type { IndexVector } from "../src/ops/index/kernels.ts";
import type { MatrixBatch } from "../src/ops/matmul/problem.ts";
import type { RowKernel } from "../src/ops/softmax_norm/problem.ts";
import type { Operand } from "../src/memory/operand.ts";
import type { Storage } from "../src/memory/storage.ts";
import type { Distribution } from "../src/ops/random/op.ts";
import { type AxisOp, Call, type Input, type MapOp, OPS } from "../src/table/op.ts";
import "../mod.ts";

/** The scale and shift of each row in norms. */
export interface Affine {
  readonly weight: Storage | null;
  readonly bias: Storage | null;
  readonly epsilon: number;
}

function operand(storage: Storage, layout: Layout): Operand {
  return { storage, layout, flags: 0 };
}

/** `size` blocks along a new first axis, `stride` apart, each as operand `k` of `plan`. */
function blocks(plan: Plan, k: number, storage: Storage, size: number, stride: number): Operand {
  const { shape, strides, offset } = layoutOf(plan, k);
  return operand(storage, new Layout([size, ...shape], [stride, ...strides], offset));
}

function indexOperand({ indices, offset, count }: IndexVector): Operand {
  return operand(indices, new Layout([count], [1], offset));
}

/** Makes calls of one backend; `fallback` runs those that the backend has no kernel for. */
export class BackendCalls {
  /** The number of calls that the fallback has run. */
  handedOn = 0;

  constructor(readonly backend: Backend, readonly fallback: Backend) {}

  /** Runs a call. */
  run(call: Call): void {
    if (this.backend.supports(call) && this.backend.run(call)) return;
    this.handedOn++;
    if (!this.fallback.run(call)) throw new Error(`${call.op.name} is run by no backend`);
  }

  #call(name: string, inputs: Input[], outputs: Operand[], attributes?: object): Call {
    return new Call(OPS.get(name)!, name, inputs, attributes, outputs);
  }

  #loop(op: MapOp | AxisOp, plan: Plan, compute: DType, storages: (Storage | null)[]): void {
    const [out, ...inputs] = storages.map((storage, k) =>
      storage === null ? undefined : operand(storage, layoutOf(plan, k))
    );
    const call = new Call(op, op.name, inputs.slice(0, op.arity), undefined, [out!]);
    call.compute = DTYPE[compute];
    call.plan = plan;
    this.run(call);
  }

  /** An elementwise op. */
  map(
    op: MapOp,
    compute: DType,
    plan: Plan,
    out: Storage,
    a: Storage,
    b: Storage | null,
    c: Storage | null,
  ): void {
    this.#loop(op, plan, compute, [out, a, b, c].slice(0, op.arity + 1));
  }

  /** A reduction or a scan. */
  fold(op: AxisOp, plan: Plan, out: Storage, a: Storage, b: Storage | null): void {
    this.#loop(op, plan, out.info.name, [out, a, b].slice(0, op.arity + 1));
  }

  /**
   * Copies blocks from the places of the indices. Returns the place of the first bad index, or -1.
   */
  gather(plan: Plan, out: Storage, source: Storage, index: IndexVector, step: number): number {
    const call = this.#call(
      "gather",
      [
        blocks(plan, 1, source, index.size, index.stride),
        indexOperand(index),
      ],
      [blocks(plan, 0, out, index.count, step)],
      { axis: 0 },
    );
    this.run(call);
    return call.badIndex;
  }

  /** Copies blocks to the places of the indices, or adds them there. */
  scatter(
    plan: Plan,
    target: Storage,
    values: Storage,
    index: IndexVector,
    step: number,
    add: boolean,
  ): number {
    const call = this.#call(
      add ? "scatterAdd" : "scatter",
      [
        blocks(plan, 0, target, index.size, index.stride),
        blocks(plan, 1, values, index.count, step),
        indexOperand(index),
      ],
      [],
      { axis: 0 },
    );
    this.run(call);
    return call.badIndex;
  }

  /** Adds indices times a stride to positions. */
  ravelIndex(plan: Plan, positions: Storage, index: Storage, size: number, stride: number): number {
    const inputs = [operand(positions, layoutOf(plan, 0)), operand(index, layoutOf(plan, 1))];
    const call = this.#call("ravelIndex", inputs, [], { size, stride });
    this.run(call);
    return call.badIndex;
  }

  /** Takes elements along an axis that the plan leaves out. */
  takeAlongAxis(
    plan: Plan,
    out: Storage,
    source: Storage,
    indices: Storage,
    size: number,
    stride: number,
  ): number {
    const call = this.#call(
      "takeAlongAxis",
      [blocks(plan, 1, source, size, stride), blocks(plan, 2, indices, 1, 0)],
      [blocks(plan, 0, out, 1, 0)],
      { axis: 0 },
    );
    this.run(call);
    return call.badIndex;
  }

  /** Writes as many flat indices of nonzero elements as `out` has room for. */
  nonzero(out: Storage, input: Storage, offset: number, length: number): void {
    const to = operand(out, Layout.contiguous([out.length]));
    this.run(this.#call("nonzeroIndices", [operand(input, Layout.contiguous([length], offset))], [
      to,
    ], { count: out.length }));
  }

  /** Sorts runs in place or, with `order`, writes the sorting order. */
  sort(
    values: Storage,
    offset: number,
    runs: number,
    size: number,
    descending: boolean,
    order: Storage | null,
  ): void {
    const x = operand(values, Layout.contiguous([runs, size], offset));
    const out = order === null ? x : operand(order, Layout.contiguous([runs, size]));
    const attributes = { axis: -1, descending };
    this.run(this.#call(order === null ? "sort" : "argsort", [x], [out], attributes));
  }

  /** Fills `out` with random numbers. */
  random(
    out: Storage,
    distribution: Distribution,
    key0: number,
    key1: number,
    low: bigint,
    high: bigint,
  ): void {
    const attributes = { distribution, key: [key0, key1], low, high };
    const x = operand(out, Layout.contiguous([out.length]));
    this.run(this.#call("random", [x], [], attributes));
  }

  /** Multiplies batches of matrices. */
  matmul(c: MatrixBatch, a: MatrixBatch, b: MatrixBatch): void {
    const [x, y, out] = [a, b, c].map(({ storage, layout }) => operand(storage, layout));
    const call = this.#call("matmul", [x, y], [out!]);
    call.result(c.layout.shape, c.storage.info);
    this.run(call);
  }

  /** Softmax or a norm of contiguous rows; false if the backend has no kernel for them. */
  alongRows(
    kernel: RowKernel,
    rows: number,
    columns: number,
    out: Storage,
    a: Storage,
    offset: number,
    { weight, bias, epsilon }: Affine,
  ): boolean {
    const [line, block] = [Layout.contiguous([columns]), Layout.contiguous([rows, columns])];
    const x = operand(a, Layout.contiguous([rows, columns], offset));
    const affine = kernel.endsWith("Norm")
      ? [weight, bias].map((one) => one === null ? undefined : operand(one, line))
      : [];
    const axis = kernel.endsWith("Norm") ? [1] : 1;
    const call = this.#call(kernel, [x, ...affine], [operand(out, block)], { axis, epsilon });
    call.result([rows, columns], out.info);
    return this.backend.supports(call) && this.backend.run(call);
  }
}
