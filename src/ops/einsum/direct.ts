/**
 * Short ways of `einsum`: an equation of one tensor is one sum over a view, one of two tensors without
 * a sum is one product of views. What they do depends on the shapes only, and is kept with the equation.
 *
 * Knows nothing of the class Tensor.
 *
 * @module
 */
import type { DTypeInfo } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { apply } from "../../core/apply.ts";
import { dispatch } from "../../core/dispatch.ts";
import { frame, partsFrame } from "../../core/interpreter.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { checkAlive } from "../../memory/storage.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import type { Direct, DirectView as View, Equation, Label } from "./equation.ts";
import { MATMUL } from "../matmul/op.ts";

function viewOf(labels: readonly Label[], order: readonly Label[], sizes: Equation["sizes"]): View {
  const axes = order.map((wanted) =>
    labels.flatMap((label, axis) => label === wanted ? [axis] : [])
  );
  const shape = order.map((label, i) => axes[i]!.length === 0 ? 1 : sizes.get(label)!);
  return { shape, axes, last: undefined };
}

/** Stands for no short way. */
const NONE: Direct = {
  ...{ kind: "none", views: [], summed: undefined, isSwapped: false },
  ...{ info: undefined, attributes: undefined },
};

/** The short way of an equation for operands of `shapes`. */
function findDirect(
  { terms, output, sizes }: Equation,
  shapes: readonly (readonly number[])[],
): Direct {
  const fits = terms.every((labels, k) =>
    labels.every((label, axis) => shapes[k]![axis] === sizes.get(label))
  );
  if (!fits) return NONE;
  const rest = [...new Set(terms.flat())].filter((label) => !output.includes(label));
  if (terms.length === 2) {
    if (rest.length > 0) return findMatmul([terms[0]!, terms[1]!], output, rest, sizes);
    const views = terms.map((labels) => viewOf(labels, output, sizes));
    return { ...NONE, kind: "mul", views };
  }
  const summed = output.length === 0 ? undefined : rest.map((_, i) => output.length + i);
  return { ...NONE, kind: "sum", views: [viewOf(terms[0]!, [...output, ...rest], sizes)], summed };
}

/** The product of matrices, or of a matrix and a vector, that sums over the one index of `rest`. */
function findMatmul(
  [a, b]: readonly [readonly Label[], readonly Label[]],
  output: readonly Label[],
  rest: readonly Label[],
  sizes: Equation["sizes"],
): Direct {
  const batch = output.filter((label) => a.includes(label) && b.includes(label));
  const [inner] = rest;
  const isPlain = batch.every((label, i) => output[i] === label) && rest.length === 1 &&
    a.includes(inner!) && b.includes(inner!);
  const own = output.slice(batch.length);
  if (!isPlain || own.length > 2 || batch.length > 0 && own.length < 2) return NONE;
  const isSwapped = own.length > 0 && b.includes(own[0]!);
  const [left, right] = isSwapped ? [b, a] : [a, b];
  const of = (labels: readonly Label[]): Label[] => own.filter((label) => labels.includes(label));
  const [rows, columns] = [of(left), of(right)];
  if (rows.length > 1 || columns.length > 1) return NONE;
  return {
    ...{ ...NONE, kind: "matmul", isSwapped },
    views: [
      viewOf(left, [...batch, ...rows, inner!], sizes),
      viewOf(right, [...batch, inner!, ...columns], sizes),
    ],
  };
}

/** The view of an operand. A layout that was there before has the same one again, and its plans. */
function viewed({ storage, layout, flags }: Operand, view: View): Operand {
  const { last, shape, axes } = view;
  if (last?.from === layout) return { storage, layout: last.to, flags };
  const { strides } = layout;
  const own = axes.map((along) => along.reduce((sum, axis) => sum + strides[axis]!, 0));
  const to = new Layout(shape, own, layout.offset);
  view.last = { from: layout, to };
  return { storage, layout: to, flags };
}

/** The result of an equation by its short way; undefined if there is none, or calls are observed. */
export function runDirect(
  equation: Equation,
  xs: readonly Operand[],
  info: DTypeInfo,
): Operand | undefined {
  if (frame !== null || partsFrame !== null) return undefined;
  const direct = equation.direct ??= findDirect(equation, xs.map(({ layout }) => layout.shape));
  if (direct.kind === "none") return undefined;
  if (direct.info !== info) {
    direct.info = info;
    direct.attributes = { axis: direct.summed, dtype: info.name };
  }
  return perform(direct, xs[0]!, xs[1]);
}

/**
 * The same for arguments like those of before: operands of the same layouts and dtype, which fit the
 * equation. Undefined for others.
 */
export function runAgain(
  equation: Equation | undefined,
  xs: readonly unknown[],
): Operand | undefined {
  const direct = equation?.direct;
  if (direct === undefined || frame !== null || partsFrame !== null) return undefined;
  const { views, info, isSwapped } = direct;
  const count = xs.length;
  if (count !== views.length) return undefined;
  for (let k = 0; k < count; k++) {
    const x = xs[isSwapped ? 1 - k : k];
    if (!isOperand(x)) return undefined;
    checkAlive(x.storage, "einsum");
    if (x.storage.info !== info || views[k]!.last?.from !== x.layout) return undefined;
  }
  return perform(direct, xs[0] as Operand, xs[1] as Operand | undefined);
}

function perform(direct: Direct, x: Operand, y: Operand | undefined): Operand | undefined {
  const { views, kind, isSwapped } = direct;
  const first = views[0]!, second = views[1]!;
  switch (kind) {
    case "none":
      return undefined;
    case "sum":
      return dispatch(REDUCE.sum, [viewed(x, first)], direct.attributes, undefined, "einsum");
    case "mul":
      if (x.storage.info !== y!.storage.info) return undefined;
      return apply(MAP.mul, viewed(x, first), viewed(y!, second), undefined, undefined, "einsum");
    case "matmul": {
      const [a, b] = isSwapped ? [y!, x] : [x, y!];
      return dispatch(
        MATMUL,
        [viewed(a, first), viewed(b, second)],
        undefined,
        undefined,
        "einsum",
      );
    }
  }
}
