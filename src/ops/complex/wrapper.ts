/**
 * Elements that consist of lanes, complex numbers and blocks, which backends do not know: calls on
 * them become calls on their lanes, before dispatch passes any call to a backend.
 *
 * @module
 */
import type { Complex, DTypeInfo, Scalar } from "../../base/dtype.ts";
import { DTypeError } from "../../base/errors.ts";
import { Layout } from "../../base/layout.ts";
import { SCALAR_LAYOUT } from "../../core/calls.ts";
import {
  copyInto,
  copyOf,
  fillWith,
  registerLaneCalls,
  run,
  runParts,
  runPartsHere,
} from "../../core/dispatch.ts";
import { dispose } from "../../core/handles.ts";
import { checkMoves, checkWholeBlocks, lanesOf, partOf } from "../../core/lanes.ts";
import { disturbs, newOutput, prepareOut } from "../../core/write.ts";
import { allocateIn } from "../../memory/device.ts";
import { writeElement } from "../../memory/element.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { recycle } from "../../memory/pool.ts";
import { Call, type Inferred, type Input, type OutputSpec } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { applyDense } from "./dense.ts";
import { runComplex } from "./run.ts";

// ---- calls -------------------------------------------------------------------------------------

function runTableOp(call: Call): void {
  if (call.op === MAP.copy) runCopy(call);
  else runComplex(call);
}

/** Copies elements that consist of lanes. */
function runCopy(call: Call): void {
  const { inputs: [x], outputs, name } = call;
  const [spec] = call.specs;
  const like = call.like;
  const given = outputs[0];
  if (given !== undefined) prepareOut(given, spec!, like, name);
  const out = outputs[0] = given ?? newOutput(spec!, like!);
  if (!isOperand(x)) return fillWith(out, x as Scalar | Complex);
  const source = disturbs(out, x) ? copyOf(x) : x;
  copyInto(out, source);
  if (source !== x) recycle(source.storage);
}

function runOp(call: Call, specs: Inferred): boolean {
  const { op, name, like } = call;
  if (op.complexParts !== undefined && (specs as readonly OutputSpec[])[0]!.dtype.kind === "c") {
    runParts(call, op.complexParts, null);
    return true;
  }
  const { info } = like!;
  if (op.complex === true && info.kind === "c") return false;
  if (op.moves || (op.adds && info.kind === "c")) moveLanes(call, specs as readonly OutputSpec[]);
  else if (op.decompose !== undefined) runPartsHere(call, op.decompose);
  else throw new DTypeError(`Cannot ${name} ${info.name}: it takes numbers`);
  return true;
}

/** Runs a kernel that moves elements, on the lanes of their dtype. */
function moveLanes(call: Call, specs: readonly OutputSpec[]): void {
  const { op, name, inputs, outputs: [given], attributes } = call;
  const like = call.like!;
  const { info } = like;
  const inLanes = (x: Input): Input =>
    isOperand(x) && x.storage.info === info ? lanesOf(x, name) : x;
  if (given !== undefined) prepareOut(given, specs[0]!, like, name);
  checkMoves(call, info);
  if (specs.length > 0) checkWholeBlocks(specs[0]!.dtype, specs[0]!.shape, name);
  const parts = inputs.map(inLanes);
  const out = specs.length === 0 ? undefined : given ?? newOutput(specs[0]!, like);
  const moved = new Call(op, name, parts, attributes);
  try {
    if (out !== undefined) moved.outputs[0] = lanesOf(out, name);
    run(moved);
  } catch (error) {
    if (out !== undefined && out !== given) dispose(out);
    throw error;
  }
  call.badIndex = moved.badIndex;
  if (out !== undefined) call.outputs[0] = out;
  if (given !== undefined) given.storage.version++;
  for (const k of op.writes ?? []) call.operand(k).storage.version++;
}

// ---- copies ------------------------------------------------------------------------------------

/** Copies elements into those of lanes: of the same kind, or floats as real parts. */
function copy(target: Operand, source: Operand): void {
  if (source.storage.info.lane !== null) {
    copyInto(lanesOf(target, "copy"), lanesOf(source, "copy"));
  } else {
    copyInto(partOf(target, 0), source);
    fillWith(partOf(target, 1), 0);
  }
}

/** A contiguous copy in the dtype `info`, in a new storage: not a handle. */
function copyOfLanes(source: Operand, info: DTypeInfo): Operand {
  const { info: from, memory } = source.storage;
  // Throws before anything is allocated.
  if (from.lane !== null) lanesOf(source, "copy");
  const { contiguous, offset, shape } = source.layout;
  const layout = contiguous && offset === 0 ? source.layout : Layout.contiguous(shape);
  // New memory of zeros has the imaginary parts already.
  const isReal = info.kind === "c" && from.lane === null;
  const target = { storage: allocateIn(memory, info, layout.size, isReal), layout, flags: 0 };
  copyInto(isReal ? partOf(target, 0) : target, source);
  return target;
}

function fill(target: Operand, value: Scalar | Complex): void {
  const { info, memory } = target.storage;
  const lanes = lanesOf(target, "copy");
  if (value === 0 || value === false) return fillWith(lanes, 0);
  const one = { storage: allocateIn(memory, info, 1, false), layout: SCALAR_LAYOUT, flags: 0 };
  writeElement(one.storage, 0, value);
  copyInto(lanes, lanesOf(one, "copy"));
  recycle(one.storage);
}

registerLaneCalls({ runTableOp, runOp, copy, copyOf: copyOfLanes, fill, applyDense });
