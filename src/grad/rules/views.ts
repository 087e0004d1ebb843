/**
 * Derivatives of views: the same view the other way round.
 *
 * @module
 */
import { Layout } from "../../base/layout.ts";
import { normalizeAxis } from "../../base/shape.ts";
import { applyView } from "../../core/apply.ts";
import type { Operand } from "../../memory/operand.ts";
import { viewLayout, VIEWS } from "../../table/views.ts";
import { Call, type ViewOp } from "../../table/op.ts";
import { flip, moveAxis, permute, reshape, swapAxes } from "../tape/arithmetic.ts";
import { readBackward } from "../tape/memory.ts";
import { addRules, type Performed, type Rule } from "../tape/rule.ts";

const shapeOf = ({ inputs }: Performed): readonly number[] => (inputs[0] as Operand).layout.shape;

/** The elements of the input in another shape: the derivative in the input's. */
const reshaped: Rule = (performed) => {
  const shape = shapeOf(performed);
  return ([g]) => [reshape(g!, shape)];
};

/** Any other view: the derivative at the elements that it has, and 0 elsewhere. */
const viewed: Rule = (performed) => {
  const { call: { op, name, attributes } } = performed;
  const shape = shapeOf(performed);
  const layout = viewLayout(new Call(op, name, [], attributes), Layout.contiguous(shape))!;
  return readBackward(shape, layout);
};

/** Views whose inverse is known. */
const INVERSES: Partial<Record<keyof typeof VIEWS, Rule>> = {
  view: reshaped,
  asRank: reshaped,
  asShape: reshaped,
  reshape: reshaped,
  flatten: reshaped,
  expandDims: reshaped,
  squeeze: reshaped,
  // `fit` sums over the axes.
  broadcastTo: () => ([g]) => [g],
  transpose: () => ([g]) => [applyView(VIEWS.transpose, g!, "transpose")],
  mT: () => ([g]) => [applyView(VIEWS.mT, g!, "mT")],
  swapAxes: ({ call: { attributes } }) => ([g]) => [
    swapAxes(g!, attributes.axis1, attributes.axis2),
  ],
  moveAxis: ({ call: { attributes } }) => ([g]) => [
    moveAxis(g!, attributes.destination, attributes.source),
  ],
  flip: ({ call: { attributes } }) => ([g]) => [flip(g!, attributes.axis)],
  permute: (performed) => {
    const { call } = performed;
    const rank = shapeOf(performed).length;
    const inverse: number[] = [];
    (call.attributes.axes as readonly number[]).forEach((axis, i) => {
      inverse[normalizeAxis(call.name, axis, rank)] = i;
    });
    return ([g]) => [permute(g!, inverse)];
  },
};

addRules(
  Object.fromEntries(
    Object.entries<ViewOp>(VIEWS).map(([key, op]) => [
      op.name,
      INVERSES[key as keyof typeof VIEWS] ?? viewed,
    ]),
  ),
);
