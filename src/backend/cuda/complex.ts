/**
 * Elementwise ops on complex numbers on a CUDA device, by the kernels of
 * shim/cuda/kernels/complex.h.
 *
 * @module
 */
import { DTYPE, type DTypeInfo } from "../../base/dtype.ts";
import { OFFSETS, type Plan, strideOf } from "../../base/plan.ts";
import { planComplex } from "../../core/lanes.ts";
import type { Operand } from "../../memory/operand.ts";
import {
  COMPLEX_NUMBER,
  COMPLEX_RESULT,
  type ComplexAttributes,
  type ComplexName,
} from "../../ops/complex/op.ts";
import type { Call } from "../../table/op.ts";
import { checkOperand } from "../ffi/checks.ts";
import { CONSTANTS } from "./source/constants.ts";
import { Arguments, type CudaDevice, familyOf, kernelOf, type KernelVariant } from "./device.ts";
import type { Family } from "./source/mod.ts";

const { THREADS, FEW_AXES, MAX_AXES } = CONSTANTS["device.h"];
/** The most blocks; each of them loops over the rest. */
const MOST_BLOCKS = 2 ** 20;

const TYPES: Readonly<Record<string, string>> = { float32: "float", float64: "double" };

function kernelFor(op: ComplexName, lane: DTypeInfo, room: number): KernelVariant {
  const type = TYPES[lane.name]!;
  const out = COMPLEX_RESULT[op] === "b" ? "uint8_t" : type;
  const name = `complex_${op}_${lane.name}_${room}`;
  const number = COMPLEX_NUMBER.get(op)!;
  return {
    name,
    header: "complex.h",
    line: `RM_COMPLEX_KERNEL(${name}, ${number}, ${room}, ${type}, ${out})`,
  };
}

/** The kernels of an op with a kernel on complex numbers. */
export function complexFamily(op: ComplexName): Family {
  const lanes = [DTYPE.float32, DTYPE.float64];
  return familyOf(
    lanes.flatMap((lane) => [FEW_AXES, MAX_AXES].map((room) => kernelFor(op, lane, room))),
  );
}

const args = new Arguments();

function addAxes(plan: Plan, room: number): void {
  const { data, rank, operands } = plan;
  args.integer(rank);
  for (let axis = 0; axis < room; axis++) {
    if (axis >= rank) {
      args.integer(1).integer(0).integer(0).integer(0);
      continue;
    }
    args.integer(data[OFFSETS + operands + axis]!);
    for (let k = 0; k < 3; k++) args.integer(k < operands ? strideOf(plan, k, axis) : 0);
  }
}

/** Queues an op on complex numbers. */
export function complexMap(device: CudaDevice, call: Call): void {
  const plan = planComplex(call);
  if (plan.size === 0) return;
  const { op } = call.attributes as ComplexAttributes;
  const operands = call.inputs as Operand[];
  operands.forEach(({ storage }, k) => checkOperand("rm_cuda_launch", plan, k, storage));
  const [out, x, y] = operands;
  const room = plan.rank > FEW_AXES ? MAX_AXES : FEW_AXES;
  const kernel = kernelOf(device, kernelFor(op, x!.storage.info, room));
  const at = (k: number): number => plan.data[OFFSETS + k]!;
  args.clear().address(out!.storage, at(0)).address(x!.storage, at(1));
  if (y === undefined) args.integer(0);
  else args.address(y.storage, at(2));
  args.integer(plan.size);
  addAxes(plan, room);
  device.launch(kernel, [Math.min(MOST_BLOCKS, Math.ceil(plan.size / THREADS))], [THREADS], args);
}
