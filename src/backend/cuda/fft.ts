/**
 * Fourier transforms on a CUDA device by cuFFT, which transforms rows of adjacent numbers.
 *
 * cuFFT applies no factor, and has one sign of exponents for transforms of and to real numbers: the
 * rest is done by kernels of the op table, and by copies where numbers are not adjacent, or missing.
 *
 * @module
 */
import { Layout } from "../../base/layout.ts";
import { planMap } from "../../base/plan.ts";
import {
  type FftAttributes,
  type FftKind,
  fftOf,
  type FftSizes,
  partsOf,
} from "../../ops/fft/problem.ts";
import type { Call } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { STATUS } from "../ffi/abi.ts";
import { checkRun } from "../ffi/checks.ts";
import type { CudaDevice } from "./device.ts";
import { alike, copyNumbers, map, type Numbers, scalarOf } from "./maps.ts";
import { withWorkspace } from "../../memory/workspace.ts";

/** The numbers of the kinds in C. */
const KINDS: Readonly<Record<FftKind, number>> = { complex: 0, fromReal: 1, toReal: 2 };

/** Whether cuFFT transforms the input of a call as it is. */
export function isDeviceFft(call: Call): boolean {
  const { storage: { info }, layout: { size } } = call.operand(0);
  const { kind } = call.attributes as FftAttributes;
  if (size === 0 || call.specs[0]!.shape.includes(0)) return false;
  return kind === "fromReal" ? info.kind === "f" && info.bytes >= 4 : info.kind === "c";
}

/** Queues a transform; false if cuFFT is not there, or has no plan of its length. */
export function fft(device: CudaDevice, call: Call): boolean {
  const sizes = fftOf(call);
  const { outer, inner, outLength } = sizes;
  if (!isFound(transformRows(device, sizes, 0, 0, 0, 0, 0, false))) return false;
  const x = call.operand(0), out = call.outputs[0]!;
  checkRun("rm_cuda_fft", 0, out.layout.offset, outer * outLength * inner, out.storage);
  checkRun("rm_cuda_fft", 1, x.layout.offset, x.layout.size, x.storage);
  const from: Numbers = { storage: x.storage, layout: linesOf(sizes, sizes.inLength, x.layout) };
  const to: Numbers = { storage: out.storage, layout: linesOf(sizes, outLength, out.layout) };
  let done = false;
  withInput(device, sizes, from, (rows) => {
    if (inner === 1) done = transform(device, sizes, rows, to);
    else {
      const { info } = to.storage;
      withWorkspace(to.storage, [[info.name, outer * inner * outLength]], ([made]) => {
        const turned = { storage: made!, layout: Layout.contiguous([outer, inner, outLength]) };
        done = transform(device, sizes, rows, turned);
        if (done) copyNumbers(device, to, turned);
      });
    }
  });
  return done;
}

/** The lines of a contiguous operand, as [outer, inner, length]. */
function linesOf({ outer, inner }: FftSizes, length: number, { offset }: Layout): Layout {
  return new Layout([outer, inner, length], [length * inner, 1, inner], offset);
}

/** `layout` with `length` of the numbers of each line, from `start` on. */
function partOfLines({ shape, strides, offset }: Layout, start: number, length: number): Layout {
  return new Layout(
    [shape[0]!, shape[1]!, length],
    strides,
    offset + start * strides[2]!,
  );
}

/**
 * Calls `use` with rows of adjacent numbers, as many as the transform takes at least: those of the
 * input, or copies, which end in zeros. Transforms to real numbers write to their input.
 */
function withInput(
  device: CudaDevice,
  sizes: FftSizes,
  from: Numbers,
  use: (rows: Numbers) => void,
): void {
  const { kind, n, outer, inner, given, inverse } = sizes;
  const taken = kind === "toReal" ? Math.floor(n / 2) + 1 : n;
  if (kind !== "toReal" && inner === 1 && given === taken) return use(from);
  const { info } = from.storage;
  withWorkspace(from.storage, [[info.name, outer * inner * taken]], ([made]) => {
    const storage = made!;
    if (given < taken) device.zero(storage.address, outer * inner * taken * info.bytes);
    const rows = { storage, layout: Layout.contiguous([outer, inner, taken]) };
    copyNumbers(device, { storage, layout: partOfLines(rows.layout, 0, given) }, {
      storage: from.storage,
      layout: partOfLines(from.layout, 0, given),
    });
    if (kind === "toReal") {
      if (!inverse) negateImaginary(device, rows);
      // These are 0 in the spectrum of real numbers.
      clearImaginary(device, rows, 0);
      if (n % 2 === 0) clearImaginary(device, rows, taken - 1);
    }
    use(rows);
  });
}

/** Transforms rows, and does what cuFFT does not. */
function transform(device: CudaDevice, sizes: FftSizes, from: Numbers, to: Numbers): boolean {
  const { kind, inverse, scale, outer, inner, outLength } = sizes;
  const start = ({ storage, layout }: Numbers): number =>
    storage.address + layout.offset * storage.info.bytes;
  const wide = partsOf(to.storage).info.bytes === 8;
  const status = transformRows(
    device,
    sizes,
    outer * inner,
    // The distance of lines, also where there is one.
    inner === 1 ? from.layout.strides[0]! : from.layout.shape[2]!,
    outLength,
    start(from),
    start(to),
    wide,
  );
  if (status !== STATUS.ok) return false;
  const lanes = partsOf(to.storage), perNumber = to.storage.info.lanes;
  if (scale !== 1) {
    const all = Layout.contiguous(
      [outer * inner * outLength * perNumber],
      to.layout.offset * perNumber,
    );
    const plan = planMap(all, all, alike(all), null);
    const factor = scalarOf(scale, lanes.info);
    map(device, MAP.mul, lanes.info.name, plan, lanes, lanes, factor, null);
  }
  if (kind === "fromReal" && inverse) negateImaginary(device, to);
  return true;
}

const numbers = new Float64Array(9);

/** Calls cuFFT; without rows, says whether it is there. */
function transformRows(
  device: CudaDevice,
  { kind, inverse, n }: FftSizes,
  rows: number,
  stepFrom: number,
  stepTo: number,
  from: number,
  to: number,
  wide: boolean,
): number {
  numbers[0] = KINDS[kind];
  numbers[1] = wide ? 1 : 0;
  numbers[2] = inverse ? 1 : 0;
  numbers[3] = n;
  numbers[4] = rows;
  numbers[5] = stepFrom;
  numbers[6] = stepTo;
  numbers[7] = from;
  numbers[8] = to;
  const status = device.shim.rm_cuda_fft(device.index, numbers);
  if (status !== STATUS.unsupported && status !== STATUS.notFound) {
    device.check("rm_cuda_fft", status);
  }
  return status;
}

const isFound = (status: number): boolean => status === STATUS.ok;

/** The imaginary parts of rows. */
function imaginaryOf({ storage, layout: { shape, strides, offset } }: Numbers): Numbers {
  const layout = new Layout(shape, strides.map((stride) => 2 * stride), 2 * offset + 1);
  return { storage: partsOf(storage), layout };
}

function negateImaginary(device: CudaDevice, rows: Numbers): void {
  const { storage, layout } = imaginaryOf(rows);
  const plan = planMap(layout, layout, null, null);
  map(device, MAP.neg, storage.info.name, plan, storage, storage, null, null);
}

function clearImaginary(device: CudaDevice, rows: Numbers, at: number): void {
  const { storage, layout } = imaginaryOf(rows);
  const column = partOfLines(layout, at, 1);
  const plan = planMap(column, alike(column), null, null);
  const zero = scalarOf(0, storage.info);
  map(device, MAP.copy, storage.info.name, plan, storage, zero, null, null);
}
