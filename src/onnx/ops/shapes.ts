/**
 * Ops that move elements: shapes, axes, parts, indexes.
 *
 * @module
 */
import { scatterReduce } from "../../api/sets/scatter_reduce.ts";
import { concat, where } from "../../api/functions/tensors.ts";
import type { DType } from "../../base/dtype.ts";
import { formatShape, type Shape, sizeOf } from "../../base/shape.ts";
import { Slice } from "../../base/slice.ts";
import { arange, eye, fromBuffer, full, zeros } from "../../tensor/create.ts";
import { Tensor } from "../../tensor/tensor.ts";
import type { Call, Implementation } from "../graph/call.ts";
import { dtypeOf } from "../graph/initializers.ts";
import { int64, Strings, type T, type Value } from "../graph/values.ts";

/** A tensor that ops in place can write. */
type Writable = Tensor<DType, Shape>;

/** The shape of an input: a tensor or texts. */
function shapeOf(call: Call, k: number): readonly number[] {
  return call.strings(k)?.shape ?? call.tensor(k).shape;
}

/** Moves the elements of texts as those of a tensor: by the places of a tensor of their numbers. */
function moved(call: Call, move: (x: T) => T): Value {
  const texts = call.strings(0);
  if (texts === undefined) return move(call.tensor(0));
  const places: T = arange(texts.data.length, { dtype: "int32" }).reshape(texts.shape);
  const chosen = move(places);
  const at = Array.from(chosen.toTypedArray(), Number);
  return new Strings(at.map((place) => texts.data[place]!), chosen.shape);
}

function reshape(call: Call): readonly Value[] {
  const shape = shapeOf(call, 0);
  const wanted = call.ints("shape", 1) ?? call.fail("shape is missing");
  const copies = !call.node.flag("allowzero");
  const sizes = wanted.map((n, k) => {
    if (n !== 0 || !copies) return n;
    return shape[k] ?? call.failShape(`size 0 of axis ${k} has no axis of ${formatShape(shape)}`);
  });
  const at = sizes.indexOf(-1);
  if (at >= 0) {
    const others = sizeOf(sizes.with(at, 1));
    const size = others === 0 ? 0 : sizeOf(shape) / others;
    if (!Number.isInteger(size)) {
      call.failShape(`shape ${formatShape(shape)} does not become ${formatShape(wanted)}`);
    }
    sizes[at] = size;
  }
  return [moved(call, (x) => x.reshape(sizes))];
}

function transpose(call: Call): readonly Value[] {
  const perm = call.node.ints("perm");
  return [moved(call, (x) => perm === undefined ? x.transpose() : x.permute(...perm))];
}

function flatten(call: Call): readonly Value[] {
  const shape = shapeOf(call, 0);
  const given = call.node.int("axis", 1);
  const axis = call.axis(given, shape.length + (given < 0 ? 0 : 1));
  const rows = sizeOf(shape.slice(0, axis));
  return [moved(call, (x) => x.reshape([rows, sizeOf(shape.slice(axis))]))];
}

function squeeze(call: Call): readonly Value[] {
  const axes = call.ints("axes", 1);
  const shape = shapeOf(call, 0);
  const gone = axes?.map((axis) => call.axis(axis, shape.length));
  if (gone?.some((axis) => shape[axis] !== 1)) {
    call.failShape(`axes ${formatShape(axes!)} of shape ${formatShape(shape)} are not 1`);
  }
  const kept = shape.filter((n, k) => gone === undefined ? n !== 1 : !gone.includes(k));
  return [moved(call, (x) => x.reshape(kept))];
}

function unsqueeze(call: Call): readonly Value[] {
  const axes = call.ints("axes", 1) ?? call.fail("axes are missing");
  const shape = shapeOf(call, 0);
  const rank = shape.length + axes.length;
  const added = new Set(axes.map((axis) => call.axis(axis, rank)));
  if (added.size !== axes.length) call.fail(`axes ${formatShape(axes)} repeat`);
  let from = 0;
  const sizes = Array.from({ length: rank }, (_, k) => added.has(k) ? 1 : shape[from++]!);
  return [moved(call, (x) => x.reshape(sizes))];
}

function concatenate(call: Call): readonly Value[] {
  const rank = shapeOf(call, 0).length;
  const axis = call.axis(call.node.int("axis", 1), rank);
  if (call.strings(0) === undefined) {
    const all = call.tensors;
    return [all.length === 1 ? all[0]! : concat(all, axis) as T];
  }
  const texts = call.inputs.map((_, k) => call.strings(k) ?? call.fail(`input ${k} has no texts`));
  let start = 0;
  const places = texts.map(({ data, shape }) => {
    const part: T = arange(start, start + data.length, 1, { dtype: "int64" }).reshape(shape);
    start += data.length;
    return part;
  });
  const joined = concat(places, axis) as T;
  const data = texts.flatMap(({ data }) => data);
  return [
    new Strings(
      Array.from(joined.toTypedArray() as ArrayLike<bigint>, (k) => data[Number(k)]!),
      joined.shape,
    ),
  ];
}

function split(call: Call): readonly Value[] {
  const shape = shapeOf(call, 0);
  const axis = call.axis(call.node.int("axis", 0), shape.length);
  const size = shape[axis]!;
  let sizes = call.ints("split", 1);
  if (sizes === undefined) {
    const count = call.node.int("num_outputs", call.outputs);
    if (count !== call.outputs) call.fail(`num_outputs is ${count}, of ${call.outputs} outputs`);
    const each = Math.ceil(size / count);
    sizes = Array.from({ length: count }, (_, k) => Math.max(Math.min(each, size - k * each), 0));
  }
  if (sizes.reduce((sum, n) => sum + n, 0) !== size || sizes.some((n) => n < 0)) {
    call.failShape(`parts ${formatShape(sizes)} are not an axis of ${size}`);
  }
  let start = 0;
  return sizes.map((n) => {
    const [from, to] = [start, start += n];
    return moved(call, (x) => x.sliceAxis(axis, new Slice(from, to)));
  });
}

function slice(call: Call): readonly Value[] {
  const shape = shapeOf(call, 0);
  const starts = call.ints("starts", 1) ?? call.fail("starts are missing");
  const ends = call.ints("ends", 2) ?? call.fail("ends are missing");
  const axes = call.ints("axes", 3) ?? starts.map((_, k) => k);
  const steps = call.optionalNumbers(4) ?? starts.map(() => 1);
  if (ends.length !== starts.length || axes.length !== starts.length) {
    call.fail(`${starts.length} starts, ${ends.length} ends and ${axes.length} axes`);
  }
  return [moved(call, (x) => {
    let part = x;
    axes.forEach((given, k) => {
      const axis = call.axis(given, shape.length);
      const n = shape[axis]!, step = steps[k]!;
      const clamp = (value: number, low: number, high: number): number =>
        Math.min(Math.max(value < 0 ? value + n : value, low), high);
      const [from, to] = step < 0
        ? [clamp(starts[k]!, 0, n - 1), clamp(ends[k]!, -1, n - 1)]
        : [clamp(starts[k]!, 0, n), clamp(ends[k]!, 0, n)];
      if (step === 0) call.fail("a step is 0");
      if (from === 0 && to === n && step === 1) return;
      const isEmpty = step < 0 ? from <= to : from >= to;
      part = isEmpty ? part.sliceAxis(axis, new Slice(0, 0)) : part.sliceAxis(
        axis,
        new Slice(from, to < 0 ? null : to, Math.max(-n, Math.min(step, n))),
      );
    });
    return part;
  })];
}

function gather(call: Call): readonly Value[] {
  const rank = shapeOf(call, 0).length;
  const axis = call.axis(call.node.int("axis", 0), rank);
  // One known index is a view.
  const indices = call.tensor(1);
  if (indices.rank === 0 && call.knows(1)) {
    return [moved(call, (x) => x.sliceAxis(axis, call.number(1)))];
  }
  return [moved(call, (x) => x.take(indices, axis))];
}

/** Indexes from the front. */
function positive(indices: T, size: number): T {
  return where(indices.less(0), indices.add(size), indices) as T;
}

/** `x` cut to the sizes of `shape` on all axes except one. */
function cutTo(x: T, shape: readonly number[], axis: number): T {
  let part = x;
  shape.forEach((n, k) => {
    if (k !== axis && n !== x.shape[k]) part = part.sliceAxis(k, new Slice(0, n));
  });
  return part;
}

function gatherElements(call: Call): readonly Value[] {
  const indices = call.tensor(1);
  return [moved(call, (x) => {
    const axis = call.axis(call.node.int("axis", 0), x.rank);
    return cutTo(x, indices.shape, axis).takeAlongAxis(positive(indices, x.shape[axis]!), axis);
  })];
}

const REDUCTIONS: Readonly<Record<string, "none" | "sum" | "prod" | "max" | "min">> = {
  none: "none",
  add: "sum",
  mul: "prod",
  max: "max",
  min: "min",
};

/** Writes, or combines, values at indexes along an axis of a copy of `x`. */
function scatterAlong(call: Call, x: T, indices: T, values: T, axis: number): T {
  const how = call.choice("reduction", "none", REDUCTIONS);
  const whole = indices.shape.every((n, k) => k === axis || n === x.shape[k]);
  if (how !== "none" && whole) return scatterReduce(x, indices, values, how, { axis });
  const copy = x.copy();
  const part = cutTo(copy, indices.shape, axis) as Writable;
  if (how === "none") part.putAlongAxis_(indices, values, axis);
  else part.set([], scatterReduce(part, indices, values, how, { axis }));
  return copy;
}

function scatterElements(call: Call): readonly Value[] {
  const x = call.tensor(0), indices = call.tensor(1);
  const axis = call.axis(call.node.int("axis", 0), x.rank);
  return [scatterAlong(call, x, positive(indices, x.shape[axis]!), call.tensor(2), axis)];
}

/** The places in the first `depth` axes of `shape` that the last axis of `indices` names. */
function flatPlaces(indices: T, shape: readonly number[], depth: number): T {
  let flat: T | undefined;
  for (let k = 0; k < depth; k++) {
    const one = positive(indices.sliceAxis(-1, k), shape[k]!);
    flat = flat === undefined ? one : flat.mul(shape[k]!).add(one);
  }
  return flat ?? zeros(indices.shape.slice(0, -1), { dtype: indices.dtype }) as T;
}

function gatherND(call: Call): readonly Value[] {
  const given = call.tensor(1);
  const batches = call.node.int("batch_dims", 0);
  return [moved(call, (x) => {
    const depth = given.shape.at(-1)!;
    const batch = x.shape.slice(0, batches), inner = x.shape.slice(batches);
    const [count, places] = [sizeOf(batch), sizeOf(inner.slice(0, depth))];
    const rest = inner.slice(depth);
    let flat = flatPlaces(given, inner, depth);
    const shape = flat.shape;
    flat = flat.reshape([count, sizeOf(shape.slice(batches))]);
    if (count > 1) {
      flat = flat.add(arange(count, { dtype: given.dtype }).mul(places).reshape([count, 1]));
    }
    return x.reshape([count * places, ...rest]).take(flat.flatten(), 0).reshape([
      ...shape,
      ...rest,
    ]);
  })];
}

function scatterND(call: Call): readonly Value[] {
  const x = call.tensor(0), indices = call.tensor(1), updates = call.tensor(2);
  const depth = indices.shape.at(-1)!;
  const places = sizeOf(x.shape.slice(0, depth)), rest = sizeOf(x.shape.slice(depth));
  const flat = flatPlaces(indices, x.shape, depth);
  const rows: T = x.reshape([places, rest]);
  const at: T = flat.reshape([flat.size, 1]).broadcastTo([flat.size, rest]);
  const values: T = updates.reshape([flat.size, rest]);
  return [scatterAlong(call, rows, at, values, 0).reshape(x.shape)];
}

function expand(call: Call): readonly Value[] {
  const wanted = call.numbers(1), shape = shapeOf(call, 0);
  const rank = Math.max(wanted.length, shape.length);
  const sizes = Array.from({ length: rank }, (_, k) => {
    const own = shape[k - rank + shape.length] ?? 1, other = wanted[k - rank + wanted.length] ?? 1;
    return other === 1 ? own : own === 1 ? other : own;
  });
  return [moved(call, (x) => x.broadcastTo(sizes))];
}

function tile(call: Call): readonly Value[] {
  const repeats = call.numbers(1);
  return [moved(call, (x) => x.tile(repeats))];
}

const PAD_MODES: Readonly<Record<string, "constant" | "reflect" | "edge" | "wrap">> = {
  constant: "constant",
  reflect: "reflect",
  edge: "edge",
  wrap: "wrap",
};

function pad(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const widths = call.ints("pads", 1) ?? call.fail("pads are missing");
  const mode = call.choice("mode", "constant", PAD_MODES);
  const axes = call.optionalNumbers(3)?.map((axis) => call.axis(axis, x.rank)) ??
    x.shape.map((_, k) => k);
  if (widths.length !== 2 * axes.length) {
    call.fail(`${widths.length} pads for ${axes.length} axes`);
  }
  const value = call.has(2)
    ? call.tensor(2)
    : call.node.has("value")
    ? call.node.float("value")
    : undefined;
  const around = x.shape.map((): [number, number] => [0, 0]);
  let part = x;
  axes.forEach((axis, k) => {
    const [before, after] = [widths[k]!, widths[k + axes.length]!];
    around[axis] = [Math.max(before, 0), Math.max(after, 0)];
    if (before < 0 || after < 0) {
      const n = x.shape[axis]!;
      part = part.sliceAxis(axis, new Slice(Math.max(-before, 0), n + Math.min(after, 0)));
    }
  });
  if (mode !== "constant") return [part.pad(around, { mode })];
  if (value === undefined || typeof value === "number") {
    return [part.pad(around, { value: x.dtype === "bool" ? Boolean(value ?? 0) : value ?? 0 })];
  }
  if (call.knows(2)) return [part.pad(around, { value: call.elements(2)[0]! })];
  const shape = part.shape.map((n, k) => n + around[k]![0] + around[k]![1]);
  const out: Writable = value.reshape([]).broadcastTo(shape).copy();
  let inner = out;
  around.forEach(([before], k) => {
    inner = inner.sliceAxis(k, new Slice(before, before + part.shape[k]!));
  });
  inner.set([], part);
  return [out];
}

function shape(call: Call): readonly Value[] {
  const all = shapeOf(call, 0);
  const start = call.node.has("start") ? call.node.int("start") : 0;
  const end = call.node.has("end") ? call.node.int("end") : all.length;
  return [int64(all.slice(start, end))];
}

function constantOfShape(call: Call): readonly Value[] {
  const sizes = call.numbers(0);
  const given = call.node.value("value");
  if (!(given instanceof Tensor)) return [zeros(sizes) as T];
  return [given.reshape([]).broadcastTo(sizes).copy()];
}

function constant(call: Call): readonly Value[] {
  const { node } = call;
  if (node.has("value")) return [node.value("value")];
  if (node.has("sparse_value")) return [node.value("sparse_value")];
  if (node.has("value_float")) return [full([], node.float("value_float")) as T];
  if (node.has("value_floats")) return [float32(node.floats("value_floats")!)];
  if (node.has("value_int")) return [int64([node.int("value_int")], [])];
  if (node.has("value_ints")) return [int64(node.ints("value_ints")!)];
  if (node.has("value_string")) return [new Strings([node.string("value_string")], [])];
  return [new Strings(node.strings("value_strings") ?? call.fail("it has no value"))];
}

function float32(list: readonly number[]): T {
  return fromBuffer(Float32Array.from(list)).copy() as T;
}

function rangeOf(call: Call): readonly Value[] {
  const { dtype } = call.tensor(0);
  const [start, limit, delta] = [call.number(0), call.number(1), call.number(2)];
  const count = Math.max(Math.ceil((limit - start) / delta), 0);
  if (!Number.isFinite(count)) {
    call.fail(`a range from ${start} to ${limit} by ${delta} has no end`);
  }
  const steps: T = arange(count, { dtype: /int/.test(dtype) ? "int64" : "float64" });
  return [steps.mul(delta).add(start).astype(dtype)];
}

/** Blocks of channels become planes: modes DCR and CRD. */
function depthToSpace(call: Call): readonly Value[] {
  const x = call.tensor(0), size = call.node.int("blocksize");
  if (x.rank !== 4) call.failShape(`input 0 has shape ${formatShape(x.shape)}, expected 4 axes`);
  const [n, c, h, w] = [x.shape[0]!, x.shape[1]!, x.shape[2]!, x.shape[3]!];
  const channels = c / size ** 2;
  const isDcr = call.node.string("mode", "DCR") === "DCR";
  const cut: T = isDcr
    ? x.reshape([n, size, size, channels, h, w]).permute(0, 3, 4, 1, 5, 2)
    : x.reshape([n, channels, size, size, h, w]).permute(0, 1, 4, 2, 5, 3);
  return [cut.reshape([n, channels, h * size, w * size])];
}

function spaceToDepth(call: Call): readonly Value[] {
  const x = call.tensor(0), size = call.node.int("blocksize");
  if (x.rank !== 4) call.failShape(`input 0 has shape ${formatShape(x.shape)}, expected 4 axes`);
  const [n, c, h, w] = [x.shape[0]!, x.shape[1]!, x.shape[2]! / size, x.shape[3]! / size];
  const isDcr = call.node.string("mode", "DCR") === "DCR";
  const blocks: T = x.reshape([n, c, h, size, w, size]);
  const cut = isDcr ? blocks.permute(0, 3, 5, 1, 2, 4) : blocks.permute(0, 1, 3, 5, 2, 4);
  return [cut.reshape([n, c * size * size, h, w])];
}

function oneHot(call: Call): readonly Value[] {
  const indices = call.tensor(0), depth = call.number(1), values = call.tensor(2);
  const axis = call.axis(call.node.int("axis", -1), indices.rank + 1);
  const whole: T = /float/.test(indices.dtype) ? indices.astype("int64") : indices;
  const classes: T = arange(depth, { dtype: whole.dtype }).reshape([
    depth,
    ...Array<number>(indices.rank - axis).fill(1),
  ]);
  const hit = positive(whole, depth).unsqueeze(axis).equal(classes);
  return [where(hit, values.sliceAxis(0, 1), values.sliceAxis(0, 0)) as T];
}

function trilu(call: Call): readonly Value[] {
  const x = call.tensor(0), k = call.numberOr(1, 0);
  return [call.node.flag("upper", true) ? x.triu(k) : x.tril(k)];
}

function eyeLike(call: Call): readonly Value[] {
  const x = call.tensor(0);
  if (x.rank !== 2) call.failShape(`input 0 has shape ${formatShape(x.shape)}, expected 2 axes`);
  const dtype = call.node.has("dtype") ? dtypeOf(call.node.int("dtype")) : x.dtype;
  if (dtype === undefined) return call.failDType("no tensor has that dtype");
  const [rows, columns] = [x.shape[0]!, x.shape[1]!];
  return [eye(rows, columns, { k: call.node.int("k", 0), dtype }) as T];
}

/** Whose shapes depend on elements. */
function nonZero(call: Call): readonly Value[] {
  const x = call.tensor(0);
  call.elements(0);
  const lists = (x.rank === 0 ? x.reshape([1]) : x).nonzero();
  return [
    lists.length === 0
      ? int64([], [0, 0])
      : concat(lists.map((one) => one.astype("int64").unsqueeze(0)), 0) as T,
  ];
}

function compress(call: Call): readonly Value[] {
  const chosen = call.elements(1).flatMap((one, k) => one === true ? [k] : []);
  const hasAxis = call.node.has("axis");
  const indices = int64(chosen);
  return [moved(call, (x) => {
    const from = hasAxis ? x : x.flatten();
    const axis = hasAxis ? call.axis(call.node.int("axis"), x.rank) : 0;
    return from.take(indices, axis);
  })];
}

/** The different elements, or parts along an axis. */
function unique(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const hasAxis = call.node.has("axis"), sorted = call.node.flag("sorted", true);
  const axis = hasAxis ? call.axis(call.node.int("axis"), x.rank) : 0;
  call.elements(0);
  const rows: T = hasAxis ? x.moveAxis(axis, 0) : x.flatten();
  const count = rows.shape[0]!, width = count === 0 ? 0 : rows.size / count;
  const all = Array.from(rows.contiguous().toTypedArray() as ArrayLike<number | bigint>);
  const partAt = (k: number): (number | bigint)[] => all.slice(k * width, (k + 1) * width);
  const places = new Map<string, number>();
  const first: number[] = [], inverse: number[] = [], counts: number[] = [];
  for (let k = 0; k < count; k++) {
    const key = partAt(k).map(String).join();
    let at = places.get(key);
    if (at === undefined) {
      places.set(key, at = first.length);
      first.push(k);
      counts.push(0);
    }
    inverse.push(at);
    counts[at]!++;
  }
  const order = first.map((_, k) => k);
  if (sorted) {
    order.sort((a, b) => {
      const [x, y] = [partAt(first[a]!), partAt(first[b]!)];
      const at = x.findIndex((value, k) => value !== y[k]);
      return at < 0 ? 0 : x[at]! < y[at]! ? -1 : 1;
    });
  }
  const rank = new Map(order.map((from, to) => [from, to]));
  const chosen: T = rows.take(int64(order.map((k) => first[k]!)), 0);
  return [
    hasAxis ? chosen.moveAxis(0, axis) : chosen,
    int64(order.map((k) => first[k]!)),
    int64(inverse.map((k) => rank.get(k)!)),
    int64(order.map((k) => counts[k]!)),
  ];
}

/** Turns the first elements of each row around. */
function reverseSequence(call: Call): readonly Value[] {
  const x = call.tensor(0), lengths = call.tensor(1);
  const time = call.node.int("time_axis", 0), batch = call.node.int("batch_axis", 1);
  const steps = x.shape[time]!;
  const rows: T = x.moveAxis([batch, time], [0, 1]);
  const at: T = arange(steps, { dtype: "int64" }).reshape([1, steps]);
  const ends: T = lengths.astype("int64").reshape([lengths.size, 1]);
  const places: T = where(at.less(ends), ends.sub(at).sub(1), at) as T;
  const shape = [x.shape[batch]!, steps, ...Array<number>(x.rank - 2).fill(1)];
  const turned: T = rows.takeAlongAxis(places.reshape(shape).broadcastTo(rows.shape), 1);
  return [turned.moveAxis([0, 1], [batch, time])];
}

/** Elements along the last axis, of ai.onnx.ml: one row at least. */
function arrayFeatures(call: Call): readonly Value[] {
  const x = call.tensor(0);
  const rows = x.rank === 1 ? x.unsqueeze(0) : x;
  return [rows.take(call.tensor(1).flatten(), -1)];
}

function centerCropPad(call: Call): readonly Value[] {
  let x = call.tensor(0);
  const sizes = call.numbers(1);
  const axes = call.node.ints("axes")?.map((axis) => call.axis(axis, x.rank)) ??
    x.shape.map((_, k) => k);
  axes.forEach((axis, k) => {
    const [n, wanted] = [x.shape[axis]!, sizes[k]!];
    if (wanted < n) {
      const from = Math.floor((n - wanted) / 2);
      x = x.sliceAxis(axis, new Slice(from, from + wanted));
    } else if (wanted > n) {
      const before = Math.floor((wanted - n) / 2);
      const around = x.shape.map((_, j): [number, number] =>
        j === axis ? [before, wanted - n - before] : [0, 0]
      );
      x = x.pad(around, { value: 0 });
    }
  });
  return [x];
}

/** Writes new keys or values into a cache, at the place of each batch. */
function tensorScatter(call: Call): readonly Value[] {
  const cache = call.tensor(0), update = call.tensor(1);
  const axis = call.axis(call.node.int("axis", -2), cache.rank);
  const isCircular = call.node.string("mode", "linear") === "circular";
  const size = cache.shape[axis]!, count = update.shape[axis]!, batches = cache.shape[0]!;
  const starts: T = call.has(2)
    ? call.tensor(2).reshape([batches, 1])
    : zeros([batches, 1], { dtype: "int64" });
  let places: T = starts.add(arange(count, { dtype: "int64" }).reshape([1, count]));
  if (isCircular) places = places.remainder(size);
  const shape = update.shape.map((n, k) => k === 0 ? batches : k === axis ? n : 1);
  const at: T = places.reshape(shape).broadcastTo(update.shape);
  const copy = cache.copy();
  copy.putAlongAxis_(at, update, axis);
  return [copy];
}

const identity: Implementation = (call) => [call.inputs[0]];

/** The ops. */
export const SHAPES: Readonly<Record<string, Implementation>> = {
  Reshape: reshape,
  Transpose: transpose,
  Flatten: flatten,
  Squeeze: squeeze,
  Unsqueeze: unsqueeze,
  Concat: concatenate,
  Split: split,
  Slice: slice,
  Gather: gather,
  GatherElements: gatherElements,
  GatherND: gatherND,
  // The name in opsets below 11.
  Scatter: scatterElements,
  ScatterElements: scatterElements,
  ScatterND: scatterND,
  Expand: expand,
  Tile: tile,
  Pad: pad,
  Shape: shape,
  Size: (call) => [int64([sizeOf(shapeOf(call, 0))], [])],
  ConstantOfShape: constantOfShape,
  Constant: constant,
  Range: rangeOf,
  DepthToSpace: depthToSpace,
  SpaceToDepth: spaceToDepth,
  OneHot: oneHot,
  Trilu: trilu,
  EyeLike: eyeLike,
  NonZero: nonZero,
  Compress: compress,
  Unique: unique,
  ReverseSequence: reverseSequence,
  CenterCropPad: centerCropPad,
  TensorScatter: tensorScatter,
  Identity: identity,
  "ai.onnx.ml.ArrayFeatureExtractor": arrayFeatures,
};
