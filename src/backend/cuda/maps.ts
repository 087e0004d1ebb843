/**
 * Elementwise ops: chooses the kernel of shim/cuda/kernels/map.h for a plan, and its arguments.
 *
 * Knows nothing of the meaning of ops.
 *
 * @module
 */
import { DTYPE, type DType, type DTypeInfo } from "../../base/dtype.ts";
import { DeviceStorage } from "../../memory/device.ts";
import { castScalar, readElement, writeElement } from "../../memory/element.ts";
import { Layout } from "../../base/layout.ts";
import { resultOf } from "../../table/infer.ts";
import type { MapOp } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { ATTRIBUTES, layoutOf, OFFSETS, type Plan, planMap, strideOf } from "../../base/plan.ts";
import { Storage } from "../../memory/storage.ts";
import { checkOperand } from "../ffi/checks.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice } from "./device.ts";
import {
  kernelText,
  type MapKernel,
  type MapSource,
  mapSource,
  mixedSource,
} from "./source/mod.ts";
import { withWorkspace } from "../../memory/workspace.ts";
import { addAttributes, addAxes, addDivisor, isPacked, start } from "./walks.ts";

const { THREADS, FEW_AXES, MAX_AXES } = CONSTANTS["device.h"];
const { MAP_ELEMENTS, MAP_ALIGNED } = CONSTANTS["map.h"];

const args = new Arguments();

/** Queues an elementwise op. */
export function map(
  device: CudaDevice,
  row: MapOp,
  compute: DType,
  plan: Plan,
  out: Storage,
  a: Storage,
  b: Storage | null,
  c: Storage | null,
): void {
  const size = plan.size;
  if (size === 0) return;
  checkOperand("rm_cuda_launch", plan, 0, out);
  if (a.device !== "cpu") checkOperand("rm_cuda_launch", plan, 1, a);
  if (b !== null && b.device !== "cpu") checkOperand("rm_cuda_launch", plan, 2, b);
  if (c !== null && c.device !== "cpu") checkOperand("rm_cuda_launch", plan, 3, c);
  const inputs = [a, b, c].slice(0, row.arity) as Storage[];
  inputs.forEach((input, k) =>
    inputs[k] = scalarIn(input, row.condition && k === 0 ? "bool" : compute)
  );
  const general = plan.needsInt64Index || plan.rank > FEW_AXES;
  const casts = isMixed(row, compute, out, inputs);
  const typed = casts && !general ? typedMix(row, compute, out, inputs) : undefined;
  const mixed = casts && typed === undefined;
  const dense = !mixed && isDense(plan);
  const source = typed ?? mapSource(row, compute, out.info.name, mixed || (general && !dense));
  let kernel: MapKernel = dense
    ? "contiguous"
    : general
    ? "generic"
    : mixed
    ? "casting"
    : plan.tiled && typed === undefined
    ? "tiled"
    : takesRows(plan, source, out)
    ? "vectorized"
    : "strided";
  const find = (kernel: MapKernel): number =>
    device.find(source.kernels[kernel], () => kernelText(source, kernel));
  let handle = find(kernel);
  if (handle === 0 && !mixed && !general) handle = find(kernel = "strided");
  if (handle === 0) return mapOtherwise(device, row, compute, plan, out, inputs);
  launch(device, handle, kernel, source, plan, size, out, inputs);
}

function launch(
  device: CudaDevice,
  handle: number,
  kernel: MapKernel,
  source: MapSource,
  plan: Plan,
  size: number,
  out: Storage,
  inputs: readonly Storage[],
): void {
  args.clear();
  let blocks: number;
  if (kernel === "contiguous") blocks = fillDense(plan, size, source, out, inputs);
  else if (kernel === "tiled") blocks = fillTiles(plan, source, out, inputs);
  else blocks = fillStrided(plan, size, source, kernel, out, inputs);
  device.launch(handle, [blocks], [THREADS], args);
}

/** Positions that fit 32 bits. */
const MOST_AT_ONCE = 2 ** 28;

/**
 * Runs a map without a kernel for its plan. A generic kernel does copies; all other maps run dense,
 * in one dtype, on copies where needed.
 */
function mapOtherwise(
  device: CudaDevice,
  row: MapOp,
  compute: DType,
  plan: Plan,
  out: Storage,
  inputs: readonly Storage[],
): void {
  const size = plan.size;
  if (row.id === MAP.copy.id) {
    const source = mapSource(row, compute, out.info.name, true);
    const handle = device.kernel(source.kernels.generic, () => kernelText(source, "generic"));
    return launch(device, handle, "generic", source, plan, size, out, inputs);
  }
  // The fallback of every map without a faster kernel.
  const single = mapSource(row, compute, compute, false);
  device.kernel(single.kernels.strided, () => kernelText(single, "strided"));
  const dtypes = inputs.map((_, k) => row.condition && k === 0 ? "bool" : compute);
  const result = resultOf(row, compute);
  const attributes = plan.data.slice(ATTRIBUTES, OFFSETS);
  const layouts = [out, ...inputs].map((storage, k) =>
    storage.device === "cpu" ? Layout.contiguous([1]) : layoutOf(plan, k)
  );
  const run = Layout.contiguous(layouts[0]!.shape);
  const isSingle = ({ strides }: Layout): boolean => strides.every((stride) => stride === 0);
  const isFine = ({ device, info }: Storage, k: number, dtype: DType): boolean =>
    device === "cpu" || (info.name === dtype &&
      (layouts[k]!.contiguous || (k > 0 && isSingle(layouts[k]!))));
  const keeps = isFine(out, 0, result);
  const copied = dtypes.filter((dtype, k) => !isFine(inputs[k]!, k + 1, dtype));
  withWorkspace(
    out,
    [...copied, ...keeps ? [] : [result]].map((dtype) => [dtype, size]),
    (made) => {
      let next = 0;
      /** The position of each operand's elements: a run, or a single element. */
      const starts = [keeps ? layouts[0]!.offset : 0], singles = [false];
      const sources = inputs.map((input, k) => {
        const layout = layouts[k + 1]!;
        const stays = isFine(input, k + 1, dtypes[k]!);
        starts.push(stays ? layout.offset : 0);
        singles.push(stays && (input.device === "cpu" || isSingle(layout)));
        if (stays) return input;
        const copy = made[next++]!;
        const all = planMap(run, layout, null, null);
        map(device, MAP.copy, input.info.name, all, copy, input, null, null);
        return copy;
      });
      const target = keeps ? out : made[next]!;
      for (let at = 0; at < size; at += MOST_AT_ONCE) {
        const count = Math.min(MOST_AT_ONCE, size - at);
        const [to, x, y = null, z = null] = starts.map((start, k) =>
          singles[k] ? Layout.contiguous([1], start) : Layout.contiguous([count], start + at)
        ) as [Layout, Layout, Layout?, Layout?];
        const part = planMap(to, x, y, z);
        part.data.set(attributes, ATTRIBUTES);
        const [a, b, c] = sources as [Storage, Storage?, Storage?];
        map(device, row, compute, part, target, a, b ?? null, c ?? null);
      }
      if (!keeps) {
        const back = planMap(layouts[0]!, run, null, null);
        map(device, MAP.copy, result, back, out, target, null, null);
      }
    },
  );
}

/** `scalar`, if it is a scalar, as an element of `dtype`, which kernels expect. */
function scalarIn(scalar: Storage, dtype: DType): Storage {
  if (scalar.device !== "cpu" || scalar.info.name === dtype) return scalar;
  const info = DTYPE[dtype];
  const cast = new Storage(new info.array(1), info, true, false);
  writeElement(cast, 0, castScalar(readElement(scalar, 0), dtype));
  return cast;
}

/** True if some operand needs a cast: only copies have kernels for that. */
function isMixed(
  row: MapOp,
  compute: DType,
  out: Storage,
  inputs: readonly Storage[],
): boolean {
  const result = resultOf(row, compute);
  if (row.id !== MAP.copy.id && out.info.name !== result) return true;
  return inputs.some(({ info }, k) => info.name !== (row.condition && k === 0 ? "bool" : compute));
}

/** Kernels for the dtypes of all operands, if there are any. */
function typedMix(
  row: MapOp,
  compute: DType,
  out: Storage,
  [x, y]: readonly Storage[],
): MapSource | undefined {
  if (row.arity !== 2 || compute !== "float32" || out.info.name !== "float32") return undefined;
  return mixedSource(row, x!.info.name, y!.info.name);
}

/** True if the output is one run and each input is one run or one element. */
function isDense(plan: Plan): boolean {
  if (plan.rank !== 1) return false;
  if (strideOf(plan, 0, 0) !== 1) return plan.data[OFFSETS + plan.operands] === 1;
  for (let k = 1; k < plan.operands; k++) {
    const step = strideOf(plan, k, 0);
    if (step !== 0 && step !== 1) return false;
  }
  return true;
}

/** True if rows of the output are whole packs. */
function takesRows(plan: Plan, { pack }: MapSource, out: Storage): boolean {
  const columns = plan.data[OFFSETS + plan.operands + plan.rank - 1]!;
  return columns % pack === 0 && isPacked(plan, 0, out, pack);
}

/** Adds the positions of the output and the inputs, or the single elements. */
function addOperands(plan: Plan, out: Storage, inputs: readonly Storage[]): void {
  args.address(out, plan.data[OFFSETS]!);
  for (let k = 0; k < 3; k++) {
    const input = inputs[k];
    if (input === undefined) args.skip(2);
    else if (input.device === "cpu") args.integer(0).element(input);
    else args.address(input, plan.data[OFFSETS + k + 1]!).skip(1);
  }
}

function fillDense(
  plan: Plan,
  size: number,
  { pack, packs }: MapSource,
  out: Storage,
  inputs: readonly Storage[],
): number {
  let flags = 0;
  let packed = start(plan, 0, out) % (pack * out.info.bytes) === 0;
  inputs.forEach((input, k) => {
    if (input.device === "cpu" || (strideOf(plan, k + 1, 0) === 0 && size > 1)) return;
    flags |= 1 << k;
    packed &&= start(plan, k + 1, input) % (pack * input.info.bytes) === 0;
  });
  args.integer(size).integer(flags | (packed ? MAP_ALIGNED : 0));
  addAttributes(args, plan);
  addOperands(plan, out, inputs);
  return Math.ceil(size / (THREADS * pack * packs));
}

function fillStrided(
  plan: Plan,
  size: number,
  { pack }: MapSource,
  kernel: MapKernel,
  out: Storage,
  inputs: readonly Storage[],
): number {
  const { data, rank, operands } = plan;
  const general = kernel === "casting" || kernel === "generic";
  const positions = kernel === "vectorized" ? size / pack : size;
  let flags = general ? out.info.id : 0;
  inputs.forEach((input, k) => {
    if (general) flags += input.info.id * 256 ** (k + 1);
    else if (input.device !== "cpu" && isPacked(plan, k + 1, input, pack)) flags |= 1 << k;
  });
  args.integer(positions).integer(flags);
  addAttributes(args, plan);
  addOperands(plan, out, inputs);
  for (let k = 1; k <= 3; k++) args.integer(k < operands ? strideOf(plan, k, rank - 1) : 0);
  args.integer(rank);
  const room = kernel === "generic" ? MAX_AXES : FEW_AXES;
  if (kernel === "vectorized") {
    // The last axis steps from pack to pack.
    addAxes(args, plan, 0, rank - 1, rank - 1, false);
    addDivisor(args, data[OFFSETS + operands + rank - 1]! / pack, false);
    for (let k = 0; k < operands; k++) args.integer(strideOf(plan, k, rank - 1) * pack);
    args.skip((room - rank) * (3 + operands));
    return Math.ceil(positions / THREADS);
  }
  addAxes(args, plan, 0, rank, room, kernel === "generic");
  return Math.ceil(positions / (THREADS * MAP_ELEMENTS));
}

function fillTiles(
  plan: Plan,
  { tile }: MapSource,
  out: Storage,
  inputs: readonly Storage[],
): number {
  const { data, rank, operands } = plan;
  const shape = OFFSETS + operands;
  const [rows, columns] = [data[shape + rank - 2]!, data[shape + rank - 1]!];
  let flags = 0;
  inputs.forEach((input, k) => {
    if (input.device === "cpu") return;
    const down = Math.abs(strideOf(plan, k + 1, rank - 2));
    if (down !== 0 && down < Math.abs(strideOf(plan, k + 1, rank - 1))) flags |= 1 << k;
  });
  args.integer(flags);
  addAttributes(args, plan);
  addOperands(plan, out, inputs);
  const across = Math.ceil(columns / tile);
  const along = Math.ceil(rows / tile);
  args.integer(rows).integer(columns);
  addDivisor(args, across, false);
  addDivisor(args, along, false);
  for (let k = 0; k < operands; k++) args.integer(strideOf(plan, k, rank - 1));
  for (let k = 0; k < operands; k++) args.integer(strideOf(plan, k, rank - 2));
  args.integer(rank - 2);
  addAxes(args, plan, 0, rank - 2, FEW_AXES, false);
  let blocks = across * along;
  for (let axis = 0; axis < rank - 2; axis++) blocks *= data[shape + axis]!;
  return blocks;
}

// ---- numbers that may be pairs -----------------------------------------------------------------

/** Numbers of a storage: an element is real, or a pair. */
export interface Numbers {
  readonly storage: Storage;
  readonly layout: Layout;
}

/** The layout of a single element as all elements of `layout`. */
export function alike({ shape }: Layout): Layout {
  return new Layout(shape, shape.map(() => 0), 0);
}

/** A number as a storage of the CPU. */
export function scalarOf(value: number, info: DTypeInfo): Storage {
  const scalar = new Storage(new info.array(1), info, true, false);
  writeElement(scalar, 0, value);
  return scalar;
}

/** A storage of elements of 8 bytes, for one of as long elements: kernels copy those. */
function wordsOf(storage: Storage): Storage {
  const { info, memory, base, length } = storage;
  return info.name === "complex64"
    ? new DeviceStorage(memory!, DTYPE.int64, length, false, base as DeviceStorage)
    : storage;
}

/** Queues a copy of numbers of the same dtype. */
export function copyNumbers(device: CudaDevice, to: Numbers, from: Numbers): void {
  let [target, source, layout, read] = [to.storage, from.storage, to.layout, from.layout];
  if (target.info.bytes > 8) {
    const inLanes = ({ shape, strides, offset }: Layout): Layout =>
      new Layout([...shape, 2], [...strides.map((stride) => 2 * stride), 1], 2 * offset);
    [target, source, layout, read] = [target.lanes, source.lanes, inLanes(layout), inLanes(read)];
  } else [target, source] = [wordsOf(target), wordsOf(source)];
  const plan = planMap(layout, read, null, null);
  map(device, MAP.copy, target.info.name, plan, target, source, null, null);
}
