/**
 * Rotary position embeddings.
 *
 * @module
 */
import { ArgumentError, ShapeError } from "../../base/errors.ts";
import { formatShape } from "../../base/shape.ts";
import { describe } from "../../base/text.ts";
import { apply, applyView } from "../../core/apply.ts";
import { ownOperand } from "../../core/foreign.ts";
import { tidy } from "../../core/handles.ts";
import type { Operand } from "../../memory/operand.ts";
import { checkOptions } from "../../ops/infer.ts";
import { MAP } from "../../ops/table.ts";
import { VIEWS } from "../../ops/views.ts";
import { concat, stack } from "../../tensor/join.ts";
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

/** Columns from `from` on, as a view. */
function columns(x: Operand, from: number, count: number): Operand {
  return applyView(VIEWS.narrow, x, "narrow", x.layout.shape.length - 1, from, count);
}

/** a · b + sign · c · d. */
function sumOf(a: Operand, b: Operand, sign: 1 | -1, c: Operand, d: Operand): Operand {
  return apply(sign > 0 ? MAP.add : MAP.sub, apply(MAP.mul, a, b), apply(MAP.mul, c, d));
}

/**
 * Rotary position embedding: turns each pair of the first R columns of x [..., M, D] by an angle that
 * depends on the row's position; `cos` and `sin` are of {@link ropeAngles}. The other columns stay.
 *
 * Throws a ShapeError for more angles than pairs.
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
): Tensor<X["dtype"], t.ShapeOf<X>, X["device"]> {
  checkOptions("rope", options, ["cos", "sin", "interleaved"]);
  const { interleaved = false } = options;
  if (typeof interleaved !== "boolean") {
    throw new ArgumentError(
      `Cannot rope with interleaved ${describe(interleaved)}: it is a boolean`,
    );
  }
  const [own, cos, sin] = [x, options.cos, options.sin].map((one) => ownOperand(one, "rope")) as [
    Operand,
    Operand,
    Operand,
  ];
  const { shape } = own.layout;
  const half = cos.layout.shape.at(-1) ?? 0, size = shape.at(-1) ?? 0;
  if (shape.length < 2 || half < 1 || sin.layout.shape.at(-1) !== half || 2 * half > size) {
    throw new ShapeError(
      `Cannot rope shape ${formatShape(shape)} with angles ${formatShape(cos.layout.shape)} and ` +
        `${formatShape(sin.layout.shape)}: it takes [..., M, D] and [..., M, R / 2] with R up to D`,
    );
  }
  return tidy(() => {
    const turned = 2 * half === size ? own : columns(own, 0, 2 * half);
    let made: Operand;
    if (interleaved) {
      const pairs = applyView(VIEWS.reshape, turned, "reshape", [
        ...[...shape.slice(0, -1), half, 2],
      ]);
      const last = shape.length;
      const [a, b] = [0, 1].map((i) =>
        applyView(VIEWS.selectAxis, pairs, "selectAxis", last, i)
      ) as [
        Operand,
        Operand,
      ];
      const both = stack([sumOf(a, cos, -1, b, sin), sumOf(a, sin, 1, b, cos)], -1);
      made = applyView(VIEWS.reshape, both, "reshape", [...shape.slice(0, -1), 2 * half]);
    } else {
      const [a, b] = [columns(turned, 0, half), columns(turned, half, half)];
      made = concat([sumOf(a, cos, -1, b, sin), sumOf(a, sin, 1, b, cos)], -1);
    }
    if (2 * half === size) return made;
    return concat([made, columns(own, 2 * half, size - 2 * half)], -1);
  }) as never;
}
