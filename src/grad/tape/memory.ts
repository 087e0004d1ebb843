/**
 * Derivatives of parts of memory: reads and writes of a storage at a layout.
 *
 * @module
 */
import type { Layout } from "../../base/layout.ts";
import { sameShape, sizeOf } from "../../base/shape.ts";
import { apply } from "../../core/apply.ts";
import { contiguousCopy, writeCopy, writeValue } from "../../core/copy.ts";
import { part } from "../../core/composite.ts";
import type { Operand } from "../../memory/operand.ts";
import type { Storage } from "../../memory/storage.ts";
import { run } from "../../core/dispatch.ts";
import { INDEX } from "../../ops/index/kernels.ts";
import { iota } from "../../ops/index/selection.ts";
import { concat } from "../../ops/join/op.ts";
import { Call } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { reshape, sum, zeros } from "./arithmetic.ts";
import { type Backward, Part } from "./rule.ts";

/** Whether two layouts have the same elements in the same order and shape. */
export function isSameLayout(a: Layout, b: Layout): boolean {
  if (a === b) return true;
  if (!sameShape(a.shape, b.shape)) return false;
  if (a.contiguous && b.contiguous) return a.offset === b.offset;
  return a.offset === b.offset && sameShape(a.strides, b.strides);
}

/** Whether a layout has all elements of a storage in order. */
export function isWhole(layout: Layout, storage: Storage): boolean {
  return layout.contiguous && layout.offset === 0 && layout.size === storage.length;
}

/** Whether no two indices of a layout, without axes of stride 0, are the same element. */
function isInjective({ shape, strides }: Layout): boolean {
  const axes = shape.map((n, k) => ({ n, stride: Math.abs(strides[k]!) }))
    .filter(({ n }) => n > 1)
    .sort((a, b) => a.stride - b.stride);
  let reach = 0;
  for (const { n, stride } of axes) {
    if (stride <= reach) return false;
    reach += (n - 1) * stride;
  }
  return true;
}

/** The derivative by a value of `shape`, of which a part was read at `layout`. */
export function readBackward(shape: readonly number[], layout: Layout): Backward {
  return ([given]) => {
    const g = given!;
    // Repeated elements: their derivatives are summed.
    const repeated = layout.shape.flatMap((n, k) => n > 1 && layout.strides[k] === 0 ? [k] : []);
    const single = repeated.length === 0 ? layout : repeated.reduce(
      (inner, axis) => inner.sliceAxis(axis, 0, 1, 1),
      layout,
    );
    const summed = reshape(sum(g, repeated, true), single.shape);
    if (isInjective(single)) return [new Part(summed, single, shape)];
    // Windows that overlap: each element by its place.
    const length = sizeOf(shape);
    const whole = zeros([length], g);
    const places = iota(g.storage, length);
    const at = contiguousCopy(part(places, single));
    const call = new Call(INDEX.scatterAdd, "add", [
      whole,
      reshape(contiguousCopy(summed), [single.size]),
      reshape(at, [single.size]),
    ], { axis: 0 });
    run(call);
    return [reshape(whole, shape)];
  };
}

/** The sum of parts of one derivative. */
export function joinedParts(parts: readonly Part[]): Operand {
  const { shape, of } = parts[0]!;
  const sorted = parts.toSorted((a, b) => a.layout.offset - b.layout.offset);
  let end = 0;
  for (const { layout } of sorted) {
    end = layout.contiguous && layout.offset === end ? end + layout.size : NaN;
  }
  const length = sizeOf(shape);
  if (end === length) {
    const flat = sorted.map((one) => reshape(one.of, [one.layout.size]));
    return reshape(flat.length === 1 ? flat[0]! : concat(flat, 0), shape);
  }
  const whole = zeros([length], of);
  let written = -1;
  for (const { layout, of } of sorted) {
    if (layout.size === 0) continue;
    const target = part(whole, layout), [first, last] = layout.extent();
    if (first > written) writeCopy(target, of);
    else apply(MAP.add, target, of, undefined, { out: target });
    written = Math.max(written, last);
  }
  return reshape(whole, shape);
}

/** `x` in memory of its own, from its first element on. */
const inOwnMemory = (x: Operand): Operand => isWhole(x.layout, x.storage) ? x : contiguousCopy(x);

/** The derivative by a value whose elements are at `layout` of a vector, given that by the vector. */
export function viewBackward(layout: Layout): Backward {
  return ([given]) => [
    layout.contiguous && layout.offset === 0 && layout.size === given!.layout.size
      ? reshape(given!, layout.shape)
      : contiguousCopy(part(inOwnMemory(given!), layout)),
  ];
}

/** The derivatives by what was written at `layout` of a vector, and by the vector before. */
export function writeBackward(layout: Layout, value: boolean, before: boolean): Backward {
  return ([given]) => {
    const g = contiguousCopy(given!);
    const written = value ? contiguousCopy(part(g, layout)) : undefined;
    if (before) writeValue(part(g, layout), 0);
    return [written, before ? g : undefined];
  };
}
