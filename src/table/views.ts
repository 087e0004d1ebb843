/**
 * The ops whose result is a view: another layout of the same storage.
 *
 * @module
 */
import { describe } from "../base/text.ts";
import { ArgumentError, AxisError, ShapeError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import {
  checkRank,
  checkShape,
  formatShape,
  normalizeAxes,
  normalizeAxis,
  sameShape,
} from "../base/shape.ts";
import { type BasicIndex, sliceAxisBy, sliceBasic } from "../base/slice.ts";
import { checkOperand } from "./infer.ts";
import { type Call, makeOp, type OutputSpec, type ViewOp } from "./op.ts";

const FIRST_OF_FIRST = [[0, 0]] as const;

function infer(call: Call): readonly OutputSpec[] {
  const [x] = call.inputs;
  checkOperand(x, call.name);
  // If strides do not allow the view, the result is a copy of the same shape.
  const { shape } = viewLayout(call, x.layout) ??
    viewLayout(call, Layout.contiguous(x.layout.shape))!;
  return [{ shape, dtype: x.storage.info }];
}

/** The layout that the op of `call` makes of `layout`. */
export function viewLayout({ op, name, attributes }: Call, layout: Layout): Layout | null {
  const { parameters } = op as ViewOp;
  const [a, b, c] = parameters.map((parameter) => attributes?.[parameter]);
  return (op as ViewOp).layout(layout, name, a, b, c);
}

/** The attributes of a call of `op` from the values of its parameters. */
export function viewAttributes(op: ViewOp, values: readonly unknown[]): Record<string, unknown> {
  return Object.fromEntries(op.parameters.map((parameter, i) => [parameter, values[i]]));
}

function view<A extends readonly unknown[]>(
  name: string,
  parameters: readonly string[] & { readonly length: A["length"] },
  layout: (x: Layout, name: string, ...parameters: A) => Layout | null,
): ViewOp;
function view(name: string, parameters: readonly string[], layout: ViewOp["layout"]): ViewOp {
  return makeOp({
    kind: "view",
    name,
    infer,
    aliases: FIRST_OF_FIRST,
    parameters,
    layout,
  });
}

function lastAxesSwapped(x: Layout, name: string): Layout {
  if (x.shape.length < 2) {
    throw new AxisError(`Cannot ${name} shape ${formatShape(x.shape)}: it takes at least 2 axes`);
  }
  return x.swapAxes(-2, -1);
}

function checkShapeIs(x: Layout, name: string, shape: readonly number[]): Layout {
  if (!Array.isArray(shape) || !sameShape(x.shape, shape)) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(shape)}: the tensor has shape ${formatShape(x.shape)}`,
    );
  }
  return x;
}

function checkRankIs(x: Layout, _: string, rank: number): Layout {
  if (x.shape.length !== rank) {
    throw new ShapeError(
      `Cannot take shape ${formatShape(x.shape)} as rank ${
        describe(rank)
      }: its rank is ${x.shape.length}`,
    );
  }
  return x;
}

function checkWindow(
  { shape }: Layout,
  name: string,
  axis: number,
  size: number,
  step: number,
): number {
  const along = normalizeAxis(name, axis, shape.length);
  const n = shape[along]!;
  if (!Number.isSafeInteger(size) || size < 0 || size > n) {
    throw new ShapeError(
      `Cannot ${name} axis ${along} of shape ${formatShape(shape)} in windows of ` +
        `${describe(size)}: it has size ${n}`,
    );
  }
  if (!Number.isSafeInteger(step) || step < 1) {
    throw new ArgumentError(
      `Cannot ${name} with step ${describe(step)}: it is an integer of at least 1`,
    );
  }
  return along;
}

/** Windows of `size` elements along `axis`, each `step` after the last, as a new last axis. */
function windows(x: Layout, name: string, axis: number, size: number, step: number): Layout {
  const along = checkWindow(x, name, axis, size, step);
  checkRank(x.shape.length + 1, name);
  const stride = x.strides[along]!;
  const count = Math.floor((x.shape[along]! - size) / step) + 1;
  return new Layout(
    [...x.shape.with(along, count), size],
    [...x.strides.with(along, stride * step), stride],
    x.offset,
  );
}

/** One axis moved, or several, in the order of their destinations. */
function moveAxes(
  x: Layout,
  name: string,
  source: number | readonly number[],
  destination: number | readonly number[],
): Layout {
  if (typeof source === "number" && typeof destination === "number") {
    return x.moveAxis(source, destination);
  }
  const rank = x.shape.length;
  const [from, to] = [source, destination].map((axes) => normalizeAxes(name, axes, rank));
  if (from!.length !== to!.length) {
    throw new AxisError(
      `Cannot ${name} ${from!.length} axes to ${to!.length} places: they must be as many`,
    );
  }
  const order: number[] = [];
  for (let axis = 0; axis < rank; axis++) if (!from!.includes(axis)) order.push(axis);
  const places = to!.map((place, k) => [place, from![k]!] as const).sort(([a], [b]) => a - b);
  for (const [place, axis] of places) order.splice(place, 0, axis);
  return x.permute(order, name);
}

/** New axes of size 1, before the given ones of the result. */
function insertAxes(
  x: Layout,
  name: string,
  axes: number | readonly number[] | undefined,
): Layout {
  if (!Array.isArray(axes)) return x.expandDims(axes as number | undefined, name);
  checkRank(x.shape.length + axes.length, name);
  const all = normalizeAxes(name, axes, x.shape.length + axes.length).sort((a, b) => a - b);
  let made = x;
  for (const axis of all) made = made.expandDims(axis, name);
  return made;
}

/** `shape` and `strides` from the element `offset` on, within the elements of `x`. */
function strided(
  x: Layout,
  name: string,
  shape: readonly number[],
  strides: readonly number[],
  offset: number,
): Layout {
  const sizes = checkShape(shape, name);
  if (!Array.isArray(strides) || strides.length !== sizes.length) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(sizes)}: strides ${
        formatShape(strides)
      } are not one for ` +
        "each axis",
    );
  }
  for (const number of [...strides, offset]) {
    if (!Number.isSafeInteger(number)) {
      throw new ArgumentError(
        `Cannot ${name} with strides ${formatShape(strides)} and offset ${
          describe(offset)
        }: they ` +
          "are integers",
      );
    }
  }
  const made = new Layout(sizes, strides.slice(), x.offset + offset);
  if (made.size === 0) return made;
  const [low, high] = made.extent();
  const [least, most] = x.size === 0 ? [0, -1] : x.extent();
  if (low < least || high > most) {
    throw new ShapeError(
      `Cannot ${name} shape ${formatShape(x.shape)} as shape ${formatShape(sizes)} with strides ${
        formatShape(strides)
      } and offset ${offset}: it reaches elements ${low - x.offset} to ${high - x.offset}, of ${
        least - x.offset
      } to ${most - x.offset}`,
    );
  }
  return made;
}

type Axes = number | readonly number[] | null | undefined;

/** The views. */
export const VIEWS = {
  /** The same layout: another handle, a type, or read-only access. */
  view: view<[]>("view", [], (x) => x),
  asRank: view<[number]>("asRank", ["rank"], checkRankIs),
  asShape: view<[readonly number[]]>("asShape", ["shape"], checkShapeIs),
  transpose: view<[]>("transpose", [], (x) => x.transpose()),
  mT: view<[]>("mT", [], lastAxesSwapped),
  permute: view<[readonly number[]]>("permute", ["axes"], (x, name, axes) => x.permute(axes, name)),
  swapAxes: view<[number, number]>(
    "swapAxes",
    ["axis1", "axis2"],
    (x, _, axis1, axis2) => x.swapAxes(axis1, axis2),
  ),
  moveAxis: view<[number | readonly number[], number | readonly number[]]>(
    "moveAxis",
    ["source", "destination"],
    (x, name, source, destination) => moveAxes(x, name, source, destination),
  ),
  reshape: view<[readonly number[]]>("reshape", ["shape"], (x, _, shape) => x.reshape(shape)),
  flatten: view<[]>("flatten", [], (x) => x.reshape([x.size])),
  expandDims: view<[number | readonly number[] | undefined]>(
    "expandDims",
    ["axis"],
    (x, name, axis) => insertAxes(x, name, axis),
  ),
  squeeze: view<[Axes]>("squeeze", ["axis"], (x, _, axis) => x.squeeze(axis)),
  flip: view<[Axes]>("flip", ["axis"], (x, _, axis) => x.flip(axis)),
  broadcastTo: view<[readonly number[]]>(
    "broadcastTo",
    ["shape"],
    (x, _, shape) => x.broadcastTo(shape),
  ),
  diagonal: view<[number | undefined, number | undefined, number | undefined]>(
    "diagonal",
    ["offset", "axis1", "axis2"],
    (x, _, offset, axis1, axis2) => x.diagonal(offset, axis1, axis2),
  ),
  slice: view<[readonly BasicIndex[]]>(
    "slice",
    ["index"],
    (x, name, index) => sliceBasic(x, index, name),
  ),
  sliceAxis: view<[number, BasicIndex]>(
    "sliceAxis",
    ["axis", "index"],
    (x, name, axis, index) => sliceAxisBy(x, axis, index, name),
  ),
  /** The elements at one index of an axis. */
  selectAxis: view<[number, number]>(
    "selectAxis",
    ["axis", "index"],
    (x, _, axis, index) => x.selectAxis(axis, index),
  ),
  /** Given strides, which count elements from the first one. */
  asStrided: view<[readonly number[], readonly number[], number]>(
    "asStrided",
    ["shape", "strides", "offset"],
    strided,
  ),
  unfold: view<[number, number, number]>("unfold", ["axis", "size", "step"], windows),
  /** `length` elements along an axis, from `start` on. */
  narrow: view<[number, number, number]>(
    "narrow",
    ["axis", "start", "length"],
    (x, _, axis, start, length) => x.sliceAxis(axis, start, length, 1),
  ),
} as const satisfies Record<string, ViewOp>;
