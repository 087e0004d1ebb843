/**
 * The shapes of `einsum`, for equations that are literals.
 *
 * @module
 */
import type { Shape } from "../base/shape.ts";
import type { ShapeOf, Typed } from "./core.ts";
import type { PromoteAll, Taken } from "./dtype.ts";
import type { EinsumShape } from "./equation.ts";

/** The shapes of the tensors of a list. */
export type ShapesOf<Ts extends readonly Typed[]> = { [K in keyof Ts]: ShapeOf<Ts[K]> };

/**
 * The shape of `einsum` of tensors of shapes `Ts`, or the error. Only the run time knows those of
 * equations that are no literals, or that have an ellipsis.
 */
export type EinsumOf<E extends string, Ts extends readonly Typed[]> = [
  Taken<"einsum", PromoteAll<Ts, "einsum">>,
] extends [infer R extends `Cannot ${string}`] ? R : Einsum<E, ShapesOf<Ts>>;

/** {@link EinsumOf} of shapes, without dtypes. */
export type Einsum<E extends string, Ts extends readonly Shape[]> = string extends E ? Shape
  : number extends Ts["length"] ? Shape
  : E extends `${string}...${string}` ? Shape
  : EinsumShape<E, Ts>;
