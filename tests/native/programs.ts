/**
 * Programs for tests: calls of real kernels, made by hand.
 *
 * Opens nothing, so that programs in processes of their own can use it too.
 *
 * @module
 */
import { opHash, type Shim } from "../../src/backend/ffi/abi.ts";
import {
  NativeProgram,
  type ProgramBuffer,
  type ProgramCall,
} from "../../src/backend/native/program.ts";
import { DTYPE } from "../../src/base/dtype.ts";
import { Layout } from "../../src/base/layout.ts";
import { ATTRIBUTES, type Plan, planBlocks, planMap } from "../../src/base/plan.ts";
import type { MapOp } from "../../src/table/op.ts";
import { MAP } from "../../src/table/table.ts";

/** The id of float32. */
export const F32: number = DTYPE.float32.id;

/** The number of a kernel; throws if there is none. */
export function kernelOf(shim: Shim, name: string, hash = 0): number {
  const number = shim.rm_find_kernel(new TextEncoder().encode(`${name}\0`), hash);
  if (number < 0) throw new Error(`there is no kernel ${name}`);
  return number;
}

function numbersOf({ data, length }: Plan): Float64Array {
  return data.slice(0, length);
}

/** The numbers of an elementwise op over `n` dense elements. */
export function dense(arity: number, n: number): Float64Array {
  const layout = Layout.contiguous([n]);
  return numbersOf(planMap(layout, layout, arity > 1 ? layout : null, null));
}

/** A call of a float32 op; `buffers` has the output first. */
export function mapCall(
  shim: Shim,
  op: MapOp,
  buffers: readonly number[],
  numbers: Float64Array,
): ProgramCall {
  const dtypes = buffers.map(() => F32);
  return { kernel: kernelOf(shim, op.name, opHash(op)), compute: F32, dtypes, buffers, numbers };
}

/** A call that copies `count` elements of `size` by int32 indices. */
export function gatherCall(
  shim: Shim,
  buffers: readonly number[],
  count: number,
  size: number,
): ProgramCall {
  const [out, source] = [Layout.contiguous([count]), Layout.contiguous([size])];
  const numbers = numbersOf(planBlocks(out, 1, source, 1, 0));
  numbers.set([0, count, size, 1, 1], ATTRIBUTES);
  return {
    kernel: kernelOf(shim, "gather"),
    compute: F32,
    dtypes: [F32, F32, DTYPE.int32.id],
    buffers,
    numbers,
    checksIndex: true,
  };
}

/** A call that multiplies dense matrices of n rows and columns. */
export function matmulCall(shim: Shim, buffers: readonly number[], n: number): ProgramCall {
  const numbers = Float64Array.of(n, n, n, 1, n, 1, n, 1, n, 1, 0, 0, 0);
  const dtypes = [F32, F32, F32];
  return { kernel: kernelOf(shim, "matmul"), compute: F32, dtypes, buffers, numbers };
}

/** A program that adds bound buffer 1, of `n` elements, to copied buffer 0 so many times. */
export function makeAdds(shim: Shim, n: number, times: number): NativeProgram {
  const buffers: ProgramBuffer[] = [
    { kind: "copied", bytes: 4 * n },
    { kind: "bound", bytes: 4 * n },
  ];
  const call = mapCall(shim, MAP.add, [0, 0, 1], dense(2, n));
  return new NativeProgram(shim, { buffers, calls: Array(times).fill(call), arenaBytes: 4 * n });
}

/** A program that multiplies bound buffers 1 and 2 into bound buffer 0 so many times. */
export function makeProducts(shim: Shim, n: number, times: number): NativeProgram {
  const buffer: ProgramBuffer = { kind: "bound", bytes: 4 * n * n };
  const call = matmulCall(shim, [0, 1, 2], n);
  const calls = Array<ProgramCall>(times).fill(call);
  return new NativeProgram(shim, { buffers: [buffer, buffer, buffer], calls, arenaBytes: 0 });
}
