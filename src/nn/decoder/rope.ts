/**
 * Rotary position embeddings.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { ownOperand } from "../../core/foreign.ts";
import { rowDType } from "../../ops/softmax_norm/problem.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkDevice, checkKind, checkOperand, checkOptions } from "../../table/infer.ts";
import { type Call, makeOp, type Op, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { concat, stack } from "../../ops/join/op.ts";
import type { AnyTensor, Tensor } from "../../tensor/tensor.ts";
import type * as t from "../../types/mod.ts";

/** Options of {@link rope}. */
export interface RopeOptions {
  /** The cosines of the angles, which broadcast to [..., M, R / 2]. */
  readonly cos: AnyTensor;
  /** Their sines. */
  readonly sin: AnyTensor;
  /**
   * Which columns make a pair: neighbors, 2i and 2i + 1, if true, as in the original paper and GGUF
   * files of Llama; else i and i + R / 2, as in transformers.
   */
  readonly interleaved?: boolean;
}

interface RopeAttributes {
  readonly interleaved: boolean;
}

/** Columns from `from` on, as a view. */
function columns(x: Operand, from: number, count: number): Operand {
  return applyView(VIEWS.narrow, x, "narrow", x.layout.shape.length - 1, from, count);
}

/** a · b + sign · c · d. */
function sumOf(a: Operand, b: Operand, sign: 1 | -1, c: Operand, d: Operand): Operand {
  return apply(sign > 0 ? MAP.add : MAP.sub, apply(MAP.mul, a, b), apply(MAP.mul, c, d));
}

function infer(call: Call): readonly OutputSpec[] {
  const { inputs, name } = call;
  for (const input of inputs) {
    checkOperand(input, name);
    checkDevice((inputs[0] as Operand).storage, input.storage, name);
    checkKind(input.storage.info, "f", name);
  }
  const [shape, cos, sin] = [0, 1, 2].map((k) => call.operand(k).layout.shape) as [
    ...[number[], number[], number[]],
  ];
  const half = cos.at(-1) ?? 0;
  const angles = [...shape.slice(0, -1), half];
  const broadcasts = (other: readonly number[]): boolean =>
    other.length <= angles.length && other.at(-1) === half &&
    other.every((n, i) => n === 1 || n === angles[angles.length - other.length + i]);
  if (shape.length < 2 || half < 1 || 2 * half > shape.at(-1)! || ![cos, sin].every(broadcasts)) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(shape)} with angles ${formatShape(cos)} and ${
        formatShape(sin)
      }: it takes [..., M, D] and [..., M, R / 2] with R up to D`,
    );
  }
  return call.result(shape, call.operand(0).storage.info);
}

/** The definition; 16-bit floats are computed in float32. */
function decompose(call: Call): Operand {
  const { interleaved } = call.attributes as RopeAttributes;
  const { dtype } = call.specs[0]!;
  const wide = rowDType(dtype);
  const [x, cos, sin] = [0, 1, 2].map((k) => cast(call.operand(k), wide.name)) as [
    ...[Operand, Operand, Operand],
  ];
  const { shape } = x.layout;
  const half = cos.layout.shape.at(-1)!, size = shape.at(-1)!;
  const turned = 2 * half === size ? x : columns(x, 0, 2 * half);
  let made: Operand;
  if (interleaved) {
    const pairs = applyView(VIEWS.reshape, turned, "reshape", [...shape.slice(0, -1), half, 2]);
    const [a, b] = [0, 1].map((i) =>
      applyView(VIEWS.selectAxis, pairs, "selectAxis", shape.length, i)
    ) as [Operand, Operand];
    const both = stack([sumOf(a, cos, -1, b, sin), sumOf(a, sin, 1, b, cos)], -1);
    made = applyView(VIEWS.reshape, both, "reshape", [...shape.slice(0, -1), 2 * half]);
  } else {
    const [a, b] = [columns(turned, 0, half), columns(turned, half, half)];
    made = concat([sumOf(a, cos, -1, b, sin), sumOf(a, sin, 1, b, cos)], -1);
  }
  if (2 * half < size) made = concat([made, columns(x, 2 * half, size - 2 * half)], -1);
  return cast(made, dtype.name);
}

const ROPE: Op = makeOp({ kind: "kernel", name: "rope", strided: true, infer, decompose });

/**
 * Rotary position embedding: turns each pair of the first R columns of x [..., M, D] by an angle that
 * depends on the row's position; `cos` and `sin` are of {@link ropeAngles}. The other columns stay.
 *
 * @throws {ShapeError} For more angles than pairs.
 *
 * @example
 * ```ts
 * const angles = nn.ropeAngles([0, 1, 2], { dimensions: 4 });
 * const x = ones([8, 3, 4]); // [heads, rows, columns]
 * nn.rope(x, angles).shape; // => [8, 3, 4]
 * ```
 */
export function rope<X extends AnyTensor>(
  x: X,
  options: RopeOptions,
): Tensor<X["dtype"], t.ShapeOf<X>, X["device"]>;
export function rope(x: AnyTensor, options: RopeOptions): Operand {
  checkOptions("rope", options, ["cos", "sin", "interleaved"]);
  const { interleaved = false } = options;
  if (typeof interleaved !== "boolean") {
    throw new ArgumentError(
      `Cannot rope with interleaved ${describe(interleaved)}: it is a boolean`,
    );
  }
  const inputs = [x, options.cos, options.sin].map((one) => ownOperand(one, "rope"));
  return dispatch(ROPE, inputs, { interleaved } satisfies RopeAttributes);
}
