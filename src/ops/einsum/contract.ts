/**
 * Sums of products over named axes: the core of `einsum`, `tensordot` and their like.
 *
 * Two operands at a time become one batched matrix product of views, or an elementwise product if
 * nothing is summed. Knows nothing of the class Tensor.
 *
 * @module
 */
import type { DTypeInfo } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { sizeOf } from "../../base/shape.ts";
import { apply, applyView } from "../../core/apply.ts";
import { cast } from "../../core/copy.ts";
import { dispatch } from "../../core/dispatch.ts";
import { empty, tracedOf } from "../../core/composite.ts";
import type { Operand } from "../../memory/operand.ts";
import { MAP, REDUCE } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import type { Label } from "./equation.ts";
import { MATMUL } from "../matmul/op.ts";
import { contractionOrder } from "./path.ts";

/** A tensor, and the index of each of its axes. */
export interface Term {
  readonly x: Operand;
  readonly labels: readonly Label[];
}

/** The sizes and the dtype of a contraction, and its name in errors. */
interface Contraction {
  readonly sizes: ReadonlyMap<Label, number>;
  readonly info: DTypeInfo;
  readonly name: string;
}

// ---- one term ----------------------------------------------------------------------------------

/** Axes with one index become their diagonal, and axes of size 1 that broadcast disappear. */
function simplify({ x, labels }: Term, sizes: ReadonlyMap<Label, number>): Term {
  let own = labels;
  let view = x;
  for (;;) {
    const current = own;
    const second = current.findIndex((label, axis) => current.indexOf(label) < axis);
    if (second === -1) break;
    const label = current[second]!;
    const first = current.indexOf(label);
    view = applyView(VIEWS.diagonal, view, "diagonal", 0, first, second);
    own = [...current.filter((_, axis) => axis !== first && axis !== second), label];
  }
  const { shape } = view.layout;
  const stretched = own.map((label, axis) => shape[axis] !== sizes.get(label)!);
  if (stretched.includes(true)) {
    const axes = stretched.flatMap((is, axis) => is ? [axis] : []);
    view = applyView(VIEWS.squeeze, view, "squeeze", axes);
    own = own.filter((_, axis) => !stretched[axis]);
  }
  return { x: view, labels: own };
}

/** The sum over the axes whose index is not in `keep`, in the dtype of the contraction. */
function sumOthers(term: Term, keep: readonly Label[], about: Contraction): Term {
  const { x, labels } = term;
  const axis = labels.flatMap((label, i) => keep.includes(label) ? [] : [i]);
  if (axis.length === 0) return term;
  const dtype = about.info.name;
  const sum = dispatch(REDUCE.sum, [x], { axis, dtype }, undefined, about.name);
  return { x: sum, labels: labels.filter((label) => keep.includes(label)) };
}

/** The view whose axes have `order`, with axes of size 1 for an index that the term does not have. */
function aligned({ x, labels }: Term, order: readonly Label[]): Operand {
  const own = order.filter((label) => labels.includes(label));
  const turned = permuted(x, labels, own);
  if (own.length === order.length) return turned;
  let axis = 0;
  const shape = order.map((label) => labels.includes(label) ? turned.layout.shape[axis++]! : 1);
  return applyView(VIEWS.reshape, turned, "reshape", shape);
}

function permuted(x: Operand, labels: readonly Label[], order: readonly Label[]): Operand {
  if (order.every((label, i) => labels[i] === label)) return x;
  return applyView(VIEWS.permute, x, "permute", order.map((label) => labels.indexOf(label)));
}

// ---- two terms ---------------------------------------------------------------------------------

/** Whether the axes of `group`, in this order, are one axis of the term without a copy. */
function isOneAxis({ x: { layout } }: Term, labels: readonly Label[], group: readonly Label[]) {
  let next = -1;
  let stride = 0;
  for (let i = group.length - 1; i >= 0; i--) {
    const axis = labels.indexOf(group[i]!);
    const n = layout.shape[axis]!;
    if (n === 1) continue;
    if (next !== -1 && layout.strides[axis] !== stride * next) return false;
    next = n;
    stride = layout.strides[axis]!;
  }
  return true;
}

/** The first order of `orders` that is one axis of all `terms`, or else of most. */
function bestOrder(orders: readonly (readonly Label[])[], terms: readonly Term[]) {
  let best = orders[0]!;
  let most = -1;
  for (const order of orders) {
    const count = terms.filter((term) => isOneAxis(term, term.labels, order)).length;
    if (count > most) [best, most] = [order, count];
  }
  return best;
}

/** The axes of `group` in the order of their strides. */
function byStride({ x: { layout }, labels }: Term, group: readonly Label[]): Label[] {
  const stride = (label: Label): number => Math.abs(layout.strides[labels.indexOf(label)]!);
  return [...group].sort((a, b) => stride(b) - stride(a));
}

/** The matrices of a term: its axes of `batch`, then those of `rows` and of `columns` as one each. */
function asMatrices(
  term: Term,
  batch: readonly Label[],
  rows: readonly Label[],
  columns: readonly Label[],
  sizes: ReadonlyMap<Label, number>,
): Operand {
  const turned = permuted(term.x, term.labels, [...batch, ...rows, ...columns]);
  if (rows.length === 1 && columns.length === 1) return turned;
  const size = (group: readonly Label[]): number => sizeOf(group.map((l) => sizes.get(l)!));
  const shape = [...batch.map((l) => sizes.get(l)!), size(rows), size(columns)];
  return applyView(VIEWS.reshape, turned, "reshape", shape);
}

/** From this length of sums on, matrix products of one row and one column are fast. */
const LONG_SUM = 64;

/** The elementwise product, whose axes have `order`. */
function productOf(a: Term, b: Term, order: readonly Label[], about: Contraction): Operand {
  return apply(MAP.mul, aligned(a, order), aligned(b, order), undefined, undefined, about.name);
}

/**
 * Writes the product of matrices to a result whose axes have the order `wanted`; undefined if its
 * rows and columns are no axes of it.
 */
function productInto(
  p: Operand,
  q: Operand,
  groups: readonly [batch: readonly Label[], rows: readonly Label[], columns: readonly Label[]],
  wanted: readonly Label[],
  { sizes, info, name }: Contraction,
): Operand | undefined {
  const layout = Layout.contiguous(wanted.map((label) => sizes.get(label)!));
  const [batch, rows, columns] = groups;
  const { storage } = p;
  const term = { x: { storage, layout, flags: 0 }, labels: wanted };
  if (!isOneAxis(term, wanted, rows) || !isOneAxis(term, wanted, columns)) return undefined;
  const out = empty(layout.shape, tracedOf(p, q), info);
  const target = asMatrices({ x: out, labels: wanted }, batch, rows, columns, sizes);
  dispatch(MATMUL, [p, q], undefined, target, name);
  return out;
}

/** The product of two terms, summed over indices that are not in `wanted`, which is its order. */
function multiply(a: Term, b: Term, wanted: readonly Label[], about: Contraction): Term {
  const { sizes, name } = about;
  const shared = a.labels.filter((label) => b.labels.includes(label));
  const summed = shared.filter((label) => !wanted.includes(label));
  if (summed.length === 0) return { x: productOf(a, b, wanted, about), labels: wanted };
  const batch = wanted.filter((label) => shared.includes(label));
  const left = wanted.filter((label) => !b.labels.includes(label));
  const right = wanted.filter((label) => !a.labels.includes(label));
  const length = sizeOf(summed.map((label) => sizes.get(label)!));
  const isNarrow = about.info.kind === "f" && about.info.bytes === 2;
  if (left.length + right.length === 0 && batch.length > 0 && length < LONG_SUM && !isNarrow) {
    const order = [...batch, ...summed];
    const x = productOf(a, b, order, about);
    return sumOthers({ x, labels: order }, batch, about);
  }
  const rows = bestOrder([left, byStride(a, left)], [a]);
  const columns = bestOrder([right, byStride(b, right)], [b]);
  const inner = bestOrder([byStride(a, summed), byStride(b, summed)], [a, b]);
  const [p, q] = [a, b].map((term, k) =>
    asMatrices(term, batch, k === 0 ? rows : inner, k === 0 ? inner : columns, sizes)
  ) as [Operand, Operand];
  const made = [...batch, ...rows, ...columns];
  const isInOrder = made.every((label, i) => label === wanted[i]);
  if (!isInOrder) {
    const x = productInto(p, q, [batch, rows, columns], wanted, about);
    if (x !== undefined) return { x, labels: wanted };
  }
  const product = dispatch(MATMUL, [p, q], undefined, undefined, name);
  const shape = made.map((label) => sizes.get(label)!);
  return { x: applyView(VIEWS.reshape, product, "reshape", shape), labels: made };
}

// ---- all terms ---------------------------------------------------------------------------------

/** The indices that `output` or one of `terms` has. */
function kept(output: readonly Label[], terms: readonly Term[]): Label[] {
  return [...output, ...terms.flatMap(({ labels }) => labels)];
}

/**
 * The sum of the products of `terms`, over all indices that are not in `output`, in dtype `info`. It
 * may be a view of an operand.
 */
export function contract(
  terms: readonly Term[],
  output: readonly Label[],
  sizes: ReadonlyMap<Label, number>,
  info: DTypeInfo,
  name: string,
): Operand {
  const about = { sizes, info, name };
  if (terms.length === 1) {
    const { x, labels } = sumOthers(simplify(terms[0]!, sizes), output, about);
    return permuted(cast(x, info.name), labels, output);
  }
  const simple = terms.map((term) => simplify(term, sizes));
  let rest = simple.map((term, k) =>
    sumOthers(term, kept(output, simple.filter((_, i) => i !== k)), about)
  );
  const order = contractionOrder(rest.map(({ labels }) => labels), output, sizes);
  for (const [i, j] of order) {
    const pair = [rest[i]!, rest[j]!].map(({ x, labels }) => ({ x: cast(x, info.name), labels }));
    rest = rest.filter((_, k) => k !== i && k !== j);
    const keep = kept(output, rest);
    const [a, b] = pair as [Term, Term];
    const all = [...a.labels, ...b.labels.filter((label) => !a.labels.includes(label))];
    const wanted = rest.length === 0 ? output : all.filter((label) => keep.includes(label));
    rest.push(multiply(a, b, wanted, about));
  }
  const [last] = rest as [Term];
  return permuted(cast(last.x, info.name), last.labels, output);
}

/** A view of `x` whose axes have the order `output`: of diagonals, without a sum. */
export function rearranged(
  { x, labels }: Term,
  output: readonly Label[],
  sizes: ReadonlyMap<Label, number>,
): Operand {
  const term = simplify({ x, labels }, sizes);
  const turned = permuted(term.x, term.labels, output);
  return turned === x ? applyView(VIEWS.view, x, "view") : turned;
}
