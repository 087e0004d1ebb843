/**
 * Functions of several tensors.
 *
 * @module
 */
import { describe } from "../../base/text.ts";
import { ShapeError } from "../../base/errors.ts";
import { typeError } from "../../base/stack.ts";
import { broadcastAll, formatShape, listIn, type Shape } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { dispatchAll } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, makeOp, type Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import type * as t from "../../types/mod.ts";
import * as joins from "../../ops/join/op.ts";
import { quantizeInt8 } from "../../ops/linear/int8.ts";
import {
  type AnyPackedWeight,
  type PackedWeight,
  packWeight,
} from "../../ops/linear/packed_weight.ts";
import * as quantized from "../../ops/quantized/op.ts";
import type {
  AnyTensor,
  OfShape,
  Tensor,
  TensorOrScalar,
  UnaryOptions,
} from "../../tensor/tensor.ts";

/** The axis of each vector in a grid, and the grid's shape. */
function gridOf({ inputs, attributes }: Call): { axisOf: (k: number) => number; shape: number[] } {
  const vectors = inputs as Operand[];
  const swaps = attributes.indexing === "xy" && vectors.length > 1;
  const axisOf = (k: number): number => swaps && k < 2 ? 1 - k : k;
  return { axisOf, shape: vectors.map((_, k) => vectors[axisOf(k)]!.layout.size) };
}

const MESHGRID: Op = makeOp({
  kind: "kernel",
  name: "meshgrid",
  aliases: "each",
  infer(call: Call) {
    for (const x of call.inputs) {
      checkOperand(x, call.name);
      if (x.layout.shape.length !== 1) {
        throw new ShapeError(
          `Cannot ${call.name} shape ${formatShape(x.layout.shape)}: it takes vectors`,
        );
      }
    }
    const { shape } = gridOf(call);
    return (call.inputs as Operand[]).map((x) => ({ shape, dtype: x.storage.info }));
  },
  decompose(call: Call) {
    const { axisOf, shape } = gridOf(call);
    return (call.inputs as Operand[]).map((x, k) => {
      const line = shape.map((n, axis) => axis === axisOf(k) ? n : 1);
      return applyView(
        VIEWS.broadcastTo,
        applyView(VIEWS.reshape, x, "reshape", line),
        "broadcastTo",
        shape,
      );
    });
  },
});

const BROADCAST_TENSORS: Op = makeOp({
  kind: "kernel",
  name: "broadcastTensors",
  aliases: "each",
  infer(call: Call) {
    for (const x of call.inputs) checkOperand(x, call.name);
    const tensors = call.inputs as Operand[];
    const shape = broadcastAll(call.name, tensors.map((x) => x.layout.shape));
    return tensors.map((x) => ({ shape, dtype: x.storage.info }));
  },
  decompose(call: Call) {
    const tensors = call.inputs as Operand[];
    const shape = broadcastAll(call.name, tensors.map((x) => x.layout.shape));
    return tensors.map((x) => applyView(VIEWS.broadcastTo, x, "broadcastTo", shape));
  },
});

/**
 * Coordinate grids of vectors, as views: one tensor for each. `"xy"` swaps the first two axes.
 *
 * @throws {ShapeError} For a tensor that is not a vector.
 */
export function meshgrid<const Ts extends readonly AnyTensor[], I extends "xy" | "ij" = "xy">(
  tensors: Ts,
  options?: { readonly indexing?: I },
): OfShape<Ts, t.Ok<t.Grid<t.ShapesOf<Ts>, I>>>;
export function meshgrid(
  tensors: readonly AnyTensor[],
  options: { readonly indexing?: "xy" | "ij" } = {},
): Operand[] {
  checkOptions("meshgrid", options, ["indexing"]);
  const { indexing = "xy" }: { indexing?: "xy" | "ij" } = options;
  if (indexing !== "xy" && indexing !== "ij") {
    throw typeError(`Cannot meshgrid with indexing ${describe(indexing)}: it is "xy" or "ij"`);
  }
  const vectors = listIn(tensors, (x) => ownOperand(x as Operand, "meshgrid"));
  if (vectors === undefined) {
    throw new ShapeError(`Cannot meshgrid ${describe(tensors)}: it takes an array of vectors`);
  }
  return dispatchAll(MESHGRID, vectors, { indexing });
}

/**
 * Tensors joined along an existing axis (0); null joins all elements in a row. Dtypes promote.
 *
 * @throws {ShapeError} If the shapes differ in another axis; the message names both shapes and the
 *   axis.
 *
 * @example
 * ```ts
 * concat([zeros([1, 2]), ones([2, 2])]).shape; // => [3, 2]
 * ```
 */
export function concat<const Ts extends readonly AnyTensor[], const B extends number | null = 0>(
  tensors: t.Guard<
    t.ListOf<"concat", Ts, B extends number ? t.Concat<Ts, B> : [number]>,
    Ts
  >,
  axis?: B,
  options?: { readonly out?: AnyTensor },
): Tensor<
  t.OkDType<t.PromoteAll<Ts>>,
  t.Ok<B extends number ? t.Concat<Ts, B> : [number]>,
  Ts[number]["device"]
>;
export function concat(
  tensors: readonly AnyTensor[],
  axis?: number | null,
  options?: { readonly out?: AnyTensor },
): Operand {
  return joins.concat(tensors, axis, options);
}

/** Tensors of one shape joined along a new axis (0). Dtypes promote. */
export function stack<const Ts extends readonly AnyTensor[], const B extends number = 0>(
  tensors: t.Guard<t.ListOf<"stack", Ts, t.Stack<Ts, B>>, Ts>,
  axis?: B,
  options?: { readonly out?: AnyTensor },
): Tensor<t.OkDType<t.PromoteAll<Ts>>, t.Ok<t.Stack<Ts, B>>, Ts[number]["device"]>;
export function stack(
  tensors: readonly AnyTensor[],
  axis?: number,
  options?: { readonly out?: AnyTensor },
): Operand {
  return joins.stack(tensors, axis, options);
}

/**
 * Elements of `a` where `condition` (bool) is true, of `b` elsewhere; all three broadcast.
 *
 * @example
 * ```ts
 * const x = tensor([-1, 2]);
 * where(x.greater(0), x, 0).toArray(); // => [0, 2]
 * ```
 */
export function where<
  C extends Tensor<"bool", Shape, t.Device, t.Access>,
  const P extends TensorOrScalar,
  const Q extends TensorOrScalar,
>(
  condition: C,
  a: P,
  b: t.Guard<t.Where<C, P, Q>, Q>,
  options?: { readonly out?: AnyTensor },
): Tensor<t.OperandDType<"where", P, Q>, t.Ok<t.Where<C, P, Q>>, C["device"]>;
export function where(
  condition: Tensor<"bool", Shape, t.Device, t.Access>,
  a: TensorOrScalar,
  b: TensorOrScalar,
  options?: { readonly out?: AnyTensor },
): Operand {
  return apply(MAP.where, condition, a as Operand, b as Operand, options);
}

/** Tensors broadcast to their common shape, as views. */
export function broadcastTensors<const Ts extends readonly AnyTensor[]>(
  ...tensors: t.GuardRest<t.BroadcastAll<t.ShapesOf<Ts>, "broadcastTensors">, Ts>
): OfShape<Ts, t.Ok<t.BroadcastAll<t.ShapesOf<Ts>, "broadcastTensors">>>;
export function broadcastTensors(...tensors: readonly AnyTensor[]): Operand[] {
  return dispatchAll(BROADCAST_TENSORS, tensors.slice());
}

/**
 * True if both tensors use the same memory: one is a view of the other, or both use one buffer that
 * was passed in or out. Each message to a worker makes another object for a SharedArrayBuffer; the
 * function does not detect that tensors on two such objects share memory.
 */
export function sharesBuffer(a: AnyTensor, b: AnyTensor): boolean {
  checkOperand(a, "sharesBuffer");
  checkOperand(b, "sharesBuffer");
  const [p, q] = [a.storage.base, b.storage.base];
  if (p === q) return true;
  // Other storages may share a slab.
  return p.exposed && q.exposed && p.array.buffer === q.array.buffer;
}

/**
 * Packs a weight of shape [O, I] for products with few rows: `x.linear(pack(w))` is
 * `x.linear(w)`, with float32 sums. The weight is copied, so `w` may change or be disposed of.
 *
 * It has a dtype of float32, float16 or bfloat16, or a quantized one, which keeps its size and gives
 * the results of `x.linear(w)` to the bit. Weights of 16 bits are widened within the product: x of
 * float32 keeps its precision and gives float32. On a device other than the CPU the weight is a copy
 * of `w`.
 *
 * A packed weight holds memory as a tensor does: `dispose()` frees it, and a `scope` that does not
 * return it disposes of it.
 *
 * @throws {DTypeError} For other dtypes.
 * @throws {ShapeError} For other ranks.
 *
 * @example
 * ```ts
 * const w = pack(tensor([[1, 2], [3, 4], [5, 6]]));
 * tensor([[1, 1]]).linear(w).toArray(); // => [[3, 7, 11]]
 * w.shape; // => [3, 2]
 * ```
 */
export function pack<W extends AnyTensor>(
  w: t.Guard<t.Packable<W["dtype"], t.ShapeOf<W>>, W>,
): PackedWeight<W["dtype"], t.ShapeOf<W>, W["device"]>;
export function pack(w: AnyTensor): AnyPackedWeight {
  return packWeight(w);
}

/** What {@link quantize} gives: a packed weight [O, I] for int8, else a tensor. */
export type Quantized<F, S extends Shape, V extends t.Device> = F extends "int8"
  ? PackedWeight<"int8", S, V>
  : F extends "q8_0" | "q4_0" ? Tensor<F, S, V>
  : never;

/**
 * A float tensor in blocks of 32 elements along the last axis, as ggml quantizes it: `"q8_0"` keeps 8
 * bits of each element, `"q4_0"` 4 bits, and a block a scale of float16. It is a tensor of that dtype,
 * which `linear`, `embedding` and `dequantize` take.
 *
 * `"int8"` makes a {@link PackedWeight} of a weight [O, I] for products with many rows. Each 128
 * elements of a row have a scale. `x.linear` also rounds each 128 elements of a row of x, to 256 steps
 * from the smallest to the largest of them, and adds integers.
 *
 * A block with NaN or an infinity is NaN as a whole. Numbers are rounded to float32 first, and
 * overflow beyond 8 million (q8_0) or half a million (q4_0).
 *
 * @throws {DTypeError} For other dtypes than floats.
 * @throws {ShapeError} If the last axis is no multiple of 32.
 *
 * @example
 * ```ts
 * const w = quantize(eye(32), "q8_0");
 * w.dtype; // => q8_0
 * w.nbytes; // => 1088
 * w.dequantize().allclose(eye(32), { atol: 1e-3 }); // => true
 * ones([1, 2]).linear(quantize(tensor([[127, 64]]), "int8")).toArray(); // => [[191]]
 * ```
 */
export function quantize<W extends AnyTensor, F extends "q8_0" | "q4_0" | "int8">(
  w: t.Guard<t.Quantizable<W["dtype"], F, t.ShapeOf<W>>, W>,
  format: F,
  options?: UnaryOptions,
): Quantized<F, t.ShapeOf<W>, W["device"]>;
export function quantize(
  w: AnyTensor,
  format: "q8_0" | "q4_0" | "int8",
  options?: UnaryOptions,
): Operand | AnyPackedWeight {
  const own = ownOperand(w, "quantize");
  if (format !== "int8") return quantized.quantize(own, format, options);
  checkOptions("quantize to int8", options ?? {}, []);
  return quantizeInt8(own);
}
