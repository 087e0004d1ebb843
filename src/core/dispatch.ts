/**
 * The single entry point: every op of the library is a {@link Call} that passes through here, and
 * no other file calls backends.
 *
 * A call goes to the current interpreter, or runs at once: dispatch infers it (checks, promotes,
 * broadcasts), allocates its outputs, plans it, and passes it to the backend with a kernel for it;
 * else it decomposes the call into other ops, or runs the definition in JavaScript.
 *
 * @module
 */
import {
  type Complex,
  DTYPE,
  type DType,
  type DTypeInfo,
  isComplexScalar,
  type Scalar,
} from "../base/dtype.ts";
import { describe } from "../base/text.ts";
import { DeviceError } from "../base/errors.ts";
import { Layout } from "../base/layout.ts";
import { planMap, planReduce } from "../base/plan.ts";
import { isOperand, type Operand, VIEW } from "../memory/operand.ts";
import { allocateIn, copyElements } from "../memory/device.ts";
import { recycle } from "../memory/pool.ts";
import { checkAlive, type DeviceMemory, isHost, type Storage } from "../memory/storage.ts";
import { type ReduceAttributes, type Reduction, scanAxis, scanStart } from "../table/infer.ts";
import {
  type ArgReduceOp,
  Call,
  type CreateOp,
  type Inferred,
  type Input,
  type MapOp,
  type Op,
  type OutputSpec,
  type Prepared,
  type ReduceOp,
  type ScanOp,
} from "../table/op.ts";
import { MAP } from "../table/table.ts";
import { viewLayout } from "../table/views.ts";
import type { Backend, Recording } from "./backend.ts";
import {
  composed,
  giveCall,
  SCALAR_LAYOUT,
  scalarOperand,
  setParameters,
  takeCall,
} from "./calls.ts";
import { compareWithin } from "./compare.ts";
import { adopt } from "./foreign.ts";
import { dispose, tidy, wrap } from "./handles.ts";
import {
  frame,
  interpret,
  interpretCall,
  type Interpreter,
  partsFrame,
  withParts,
} from "./interpreter.ts";
import { profiler } from "./profiler.ts";
import { backendFor, cpuBackend, definitionBackend, deviceOf } from "./registry.ts";
import {
  canWriteDirectly,
  checkResults,
  type Copied,
  disturbs,
  kernelOutput,
  newOutput,
  prepareGiven,
  prepareOut,
  recycleCopies,
} from "./write.ts";

// ---- elements of lanes -------------------------------------------------------------------------

/**
 * Interprets calls on elements that consist of lanes, complex numbers and blocks, as calls on their
 * lanes: ops/complex/wrapper.ts.
 */
export interface LaneCalls {
  /** Runs an inferred call of an op of the table. */
  runTableOp(call: Call): void;
  /** Runs an inferred call of another op; false if its kernels take such elements themselves. */
  runOp(call: Call, specs: Inferred): boolean;
  /** {@link copyInto} for a target of lanes. */
  copy(target: Operand, source: Operand): void;
  /** {@link copyOf} from or to elements of lanes. */
  copyOf(source: Operand, info: DTypeInfo): Operand;
  /** {@link fillWith} for a target of lanes. */
  fill(target: Operand, value: Scalar | Complex): void;
  /** Runs an op on dense complex operands in few steps; null if they are not. */
  applyDense(op: MapOp, name: string, a: Operand, b: Operand | null): Operand | null;
}

export let laneCalls: LaneCalls;

/** Registers the interpretation of elements of lanes. */
export function registerLaneCalls(calls: LaneCalls): void {
  laneCalls = calls;
}

// ---- calls -------------------------------------------------------------------------------------

/** Calls any op; returns its first output, or undefined if there is none. */
export function dispatch(
  op: Op,
  inputs: Input[],
  attributes?: unknown,
  out?: Operand,
  name: string = op.name,
): Operand {
  const count = inputs.length;
  if (frame !== null || count === 0 || count > 3) {
    const call = new Call(op, name, inputs, attributes);
    if (out !== undefined) call.outputs[0] = out;
    performCall(call);
    return call.outputs[0]!;
  }
  const call = takeCall(op, name, count, attributes);
  for (let k = 0; k < count; k++) call.inputs[k] = inputs[k];
  if (out !== undefined) call.outputs[0] = out;
  run(call);
  return giveCall(call);
}

/** {@link dispatch} of an op with several outputs. */
export function dispatchAll(
  op: Op,
  inputs: Input[],
  attributes?: unknown,
  name: string = op.name,
): Operand[] {
  const call = new Call(op, name, inputs, attributes);
  performCall(call);
  return call.outputs;
}

/**
 * Performs a call that the caller has made and reads afterwards. Its inputs stay as they are: while
 * it runs, it has a list of its own for the scalars, casts and copies that kernels get.
 */
export function performCall(call: Call): void {
  if (frame !== null) {
    adoptInputs(call);
    return interpretCall(call);
  }
  const { op, inputs } = call;
  call.inputs = inputs.slice();
  try {
    run(call);
  } finally {
    // A comparison with a number may have become another one.
    call.op = op;
    call.inputs = inputs;
  }
}

/** Makes operands of tensors of other copies of the library. */
function adoptInputs({ inputs, name }: Call): void {
  for (let k = 0; k < inputs.length; k++) {
    const input = inputs[k];
    if (typeof input === "object" && !isOperand(input) && !isComplexScalar(input)) {
      inputs[k] = adopt(input, name);
    }
  }
}

/** Runs a call of a view. */
function runView(call: Call): void {
  const x = call.operand(0);
  checkAlive(x.storage, call.name);
  const layout = viewLayout(call, x.layout);
  if (layout !== null) call.outputs[0] = wrap(x.storage, layout, x.flags | VIEW);
  else {
    const copy = copyOf(x);
    call.outputs[0] = wrap(copy.storage, viewLayout(call, copy.layout)!);
  }
}

// ---- running -----------------------------------------------------------------------------------

/**
 * Runs a call that only the caller sees: by the current interpreter, if any, else at once. Kernels
 * may get scalars and copies in the place of its inputs; see {@link performCall}.
 */
export function run(call: Call): void {
  if (frame !== null) return interpretCall(call);
  switch (call.op.kind) {
    case "map":
      return runMap(call);
    case "reduce":
    case "argReduce":
      return runReduce(call);
    case "scan":
      return runScan(call);
    case "create":
      call.outputs[0] = (call.op as CreateOp).create(call.attributes, call.name);
      return;
    case "view":
      return runView(call);
    default:
      return runOp(call);
  }
}

/** The op's inferred outputs, also stored in the call. */
export function infer(call: Call): Inferred {
  const { inputs } = call;
  for (let k = 0; k < inputs.length; k++) {
    const input = inputs[k];
    if (typeof input === "object" && !((input as Operand | null)?.layout instanceof Layout)) {
      adoptInputs(call);
      break;
    }
  }
  const specs = call.op.infer(call);
  if (specs !== "data-dependent" && specs !== call.specs) call.specs = specs;
  return specs;
}

/** Passes a planned call to the backend of `like`, or to the definition. */
export function execute(call: Call, like: Storage): void {
  let backend = backendFor(like);
  if (!backend.run(call)) {
    backend = definitionBackend();
    backend.run(call);
  }
  if (profiler !== null) profiler.ran(backend, call);
}

/** Runs a call with outputs and a plan, if the op has one, for operands on the device of `like`. */
export function runPlanned(call: Call, like: Storage): void {
  const backend = backendFor(like);
  if (backend.supports(call)) execute(call, like);
  else definitionBackend().run(call);
}

export function runMap(call: Call): void {
  const op = call.op as MapOp;
  infer(call);
  if (call.compute.lane !== null) return laneCalls.runTableOp(call);
  const { inputs, like } = call;
  const { shape, dtype } = call.specs[0]!;
  const { arity } = op;
  let a = inputs[0]!;
  if (typeof a !== "object") a = scalarOperand(a, op.condition ? DTYPE.bool : call.compute, 0);
  let b: Input = undefined;
  if (arity > 1) {
    b = inputs[1]!;
    if (typeof b !== "object") {
      if (op.compares && call.compute.kind !== "f") b = compareWithin(call, b);
      b = scalarOperand(b, call.compute, 1);
    }
  }
  let c: Input = undefined;
  if (arity > 2) {
    c = inputs[2]!;
    if (typeof c !== "object") c = scalarOperand(c, call.compute, 2);
  }
  const [x, y, z] = [a, b, c] as [Operand, Operand?, Operand?];
  finishMap(call, call.compute, dtype, shape, like, x, y ?? null, z ?? null, call.outputs[0]);
}

/** Runs a map whose dtypes and shapes are settled. */
export function finishMap(
  call: Call,
  compute: DTypeInfo,
  dtype: DTypeInfo,
  shape: readonly number[],
  like: Storage | undefined,
  a: Operand,
  b: Operand | null,
  c: Operand | null,
  out: Operand | undefined,
): void {
  if (call.compute !== compute) call.compute = compute;
  if (out !== undefined) {
    const isPlain = (out?.storage?.info.lane ?? null) === null;
    if (isPlain) return writeMap(call, dtype, shape, like, a, b, c, out);
    prepareOut(out, { shape, dtype }, like, call.name);
    finishMap(call, compute, dtype, shape, like, a, b, c, undefined);
    copyInto(out, call.outputs[0]!);
    dispose(call.outputs[0]!);
    call.outputs[0] = out;
    return;
  }
  const { inputs } = call;
  const op = call.op as MapOp;
  const { layout } = a;
  const reusable = layout.shape === shape && layout.contiguous && layout.offset === 0;
  const target = reusable ? layout : Layout.contiguous(shape);
  const storage = allocateIn(like === undefined ? null : like.memory, dtype, target.size, false);
  call.outputs[0] = wrap(storage, target);
  inputs[0] = a;
  if (b !== null) inputs[1] = b;
  if (c !== null) inputs[2] = c;
  const plan = planMap(target, layout, b && b.layout, c && c.layout);
  if (call.plan !== plan) call.plan = plan;
  if (op.parameters.length > 0) setParameters(plan, op, call.attributes, 0);
  execute(call, like ?? storage);
}

/** Runs a map into a given output; first copies inputs that the write would change. */
function writeMap(
  call: Call,
  dtype: DTypeInfo,
  shape: readonly number[],
  like: Storage | undefined,
  a: Operand,
  b: Operand | null,
  c: Operand | null,
  out: Operand,
): void {
  prepareOut(out, { shape, dtype }, like, call.name);
  const { inputs } = call;
  const op = call.op as MapOp;
  const x = inputs[0] = a === out ? a : copyIfDisturbed(a, out);
  const y = b === null ? null : inputs[1] = copyIfDisturbed(b, out);
  const z = c === null ? null : inputs[2] = copyIfDisturbed(c, out);
  call.outputs[0] = out;
  call.plan = planMap(out.layout, x.layout, y && y.layout, z && z.layout);
  if (op.parameters.length > 0) setParameters(call.plan, op, call.attributes, 0);
  execute(call, out.storage);
  out.storage.version++;
  if (x !== a) recycle(x.storage);
  if (y !== b) recycle(y!.storage);
  if (z !== c) recycle(z!.storage);
}

function copyIfDisturbed(source: Operand, target: Operand): Operand {
  return disturbs(target, source) ? copyOf(source) : source;
}

// ---- along axes --------------------------------------------------------------------------------

/** The attributes of an op along axes, with the dtype that its input is cast to first. */
function castFirst(call: Call): Operand | undefined {
  const { dtype } = call.attributes as ReduceAttributes;
  const x = call.operand(0);
  if (dtype === undefined || dtype === x.storage.info.name) return undefined;
  return call.inputs[0] = copyOf(x, DTYPE[dtype]);
}

/** The output of a call along axes: the given one if kernels can write it directly. */
function outputFor(call: Call, spec: OutputSpec, like: Storage): Operand {
  const out = call.outputs[0];
  if (out !== undefined) {
    prepareOut(out, spec, like, call.name);
    if (canWriteDirectly(call, out, spec)) return out;
  }
  return call.outputs[0] = newOutput(spec, like, out);
}

/** Copies `made` into the given output, if it is a different one. */
function finalizeOutput(call: Call, given: Operand | undefined, made: Operand): void {
  if (given !== undefined) call.outputs[0] = handOver(made, given);
}

function runReduce(call: Call): void {
  const op = call.op as ReduceOp | ArgReduceOp;
  const [spec] = infer(call) as readonly OutputSpec[];
  const given = call.outputs[0];
  if (spec!.dtype.lane !== null || call.operand(0).storage.info.lane !== null) {
    return laneCalls.runTableOp(call);
  }
  const reduction = call.memo as Reduction;
  const cast = castFirst(call);
  const x = call.operand(0);
  const second = call.inputs[1] as Operand | undefined;
  const made = outputFor(call, spec!, x.storage);
  const { reduced } = reduction;
  const ordered = op.kind === "argReduce";
  const along = second === undefined ? null : second.layout;
  const plan = planReduce(made.layout, x.layout, along, reduced, ordered);
  if (op.parameters.length > 0) setParameters(plan, op, call.attributes, reduction.count);
  if (call.plan !== plan) call.plan = plan;
  execute(call, x.storage);
  if (cast !== undefined) recycle(cast.storage);
  finalizeOutput(call, given, made);
}

function runScan(call: Call): void {
  const op = call.op as ScanOp;
  const [spec] = infer(call) as readonly OutputSpec[];
  const given = call.outputs[0];
  if (spec!.dtype.lane !== null) return laneCalls.runTableOp(call);
  const axis = scanAxis(call);
  const cast = castFirst(call);
  const x = call.operand(0);
  const made = outputFor(call, spec!, x.storage);
  let target = made.layout;
  if (call.attributes.includeInitial) {
    const first = target.sliceAxis(axis, 0, 1, 1);
    fillWith({ storage: made.storage, layout: first, flags: 0 }, scanStart(op, made.storage.info));
    target = target.sliceAxis(axis, 1, x.layout.shape[axis]!, 1);
  }
  call.plan = planReduce(target, x.layout, null, spec!.shape.map((_, i) => i === axis), true);
  execute(call, x.storage);
  if (cast !== undefined) recycle(cast.storage);
  finalizeOutput(call, given, made);
}

// ---- kernels and other ops ---------------------------------------------------------------------

/** Runs an op that has a kernel of its own, or is composed of others. */
function runOp(call: Call): void {
  const specs = infer(call);
  const { op, like } = call;
  if (op.run !== undefined) return runParts(call, op.run, null);
  const hasLanes = like !== undefined && like.info.lane !== null ||
    op.complexParts !== undefined && (specs as readonly OutputSpec[])[0]!.dtype.kind === "c";
  if (hasLanes && laneCalls.runOp(call, specs)) return;
  if (specs !== "data-dependent") {
    const backend = like === undefined ? cpuBackend() : backendFor(like);
    const hasForm = op.prepare !== undefined &&
      (op.decompose === undefined || backend.hasKernel?.(op) !== false);
    const prepared = hasForm ? op.prepare!(call) : null;
    if (prepared !== null) {
      if (runPrepared(call, specs, like, backend, prepared)) return;
    } else if (backend.supports(call) && runKernel(call, specs, like!, backend, undefined)) return;
    else if (op.decompose === undefined) {
      runKernel(call, specs, like!, definitionFor(like), undefined);
      return;
    }
  }
  runPartsHere(call, op.decompose!);
}

/** Runs a call in the form that kernels take; false if none is available. */
function runPrepared(
  call: Call,
  specs: readonly OutputSpec[],
  like: Storage | undefined,
  backend: Backend,
  prepared: Prepared,
): boolean {
  const { inputs, attributes } = call;
  call.inputs = prepared.inputs;
  if (prepared.attributes !== undefined) call.attributes = prepared.attributes;
  if (prepared.specs !== undefined) call.specs = prepared.specs;
  try {
    const { layoutOf } = prepared;
    if (backend.supports(call) && runKernel(call, specs, like!, backend, layoutOf)) return true;
    if (call.op.decompose !== undefined) return false;
    return runKernel(call, specs, like!, definitionFor(like), layoutOf);
  } finally {
    for (let k = 0; k < inputs.length; k++) {
      const x = prepared.inputs[k];
      if (x === inputs[k] || !isOperand(x)) continue;
      if (x.storage !== (inputs[k] as Operand).storage) recycle(x.storage);
    }
    call.inputs = inputs;
    call.attributes = attributes;
    call.specs = specs;
  }
}

/** What runs ops without a kernel that are not composed of others. */
function definitionFor(like: Storage | undefined): Backend {
  return like === undefined || isHost(like.memory) ? definitionBackend() : THROUGH_CPU;
}

/** Runs ops without a kernel on their device on copies in the memory of the CPU. */
const THROUGH_CPU: Backend = {
  get name() {
    return cpuBackend().name;
  },
  supports: () => true,
  run(call) {
    const here = call.inputs.map((x) => isOperand(x) ? copyTo(null, x) : x);
    try {
      const near = new Call(call.op, call.name, here.slice(), call.attributes);
      runOp(near);
      for (const k of call.op.writes ?? []) copyBack(call.operand(k), here[k] as Operand);
      near.outputs.forEach((made, k) => {
        copyBack(call.outputs[k]!, made);
        dispose(made);
      });
    } finally {
      for (const x of here) if (isOperand(x)) recycle(x.storage);
    }
    return true;
  },
};

/** A contiguous copy of `x` in another memory, null for that of the CPU: not a handle. */
function copyTo(memory: DeviceMemory | null, x: Operand): Operand {
  const { info } = x.storage, { contiguous, shape, size } = x.layout;
  const whole = contiguous ? x : copyOf(x);
  const storage = allocateIn(memory, info, size, false);
  copyElements(storage, 0, whole.storage, whole.layout.offset, size);
  if (whole !== x) recycle(whole.storage);
  return { storage, layout: Layout.contiguous(shape), flags: 0 };
}

/** Copies the elements of `made`, which are in the memory of the CPU, into `target` on a device. */
function copyBack(target: Operand, made: Operand): void {
  const copy = copyTo(target.storage.memory, made);
  copyInto(target, copy);
  recycle(copy.storage);
}

/** Performs the ops that the composite of a call consists of, or those of `compose`, by `interpreter`. */
export function decomposeBy(
  interpreter: Interpreter,
  call: Call,
  compose: NonNullable<Op["decompose"]> = call.op.decompose!,
): void {
  infer(call);
  runParts(call, compose, (body) => interpret(interpreter, body));
}

/** Runs the ops that `compose` calls; an observer receives them. */
export function runPartsHere(call: Call, compose: NonNullable<Op["decompose"]>): void {
  runParts(call, compose, partsFrame === null ? null : withParts);
}

/** The given outputs, with copies of `made`; and what else was made. */
function handOut(
  made: Operand | readonly Operand[],
  given: readonly (Operand | undefined)[],
): Operand | readonly Operand[] {
  let results = made;
  for (let k = 0; k < given.length; k++) {
    const out = given[k], own = Array.isArray(made) ? made[k] : made;
    if (out === undefined || own === out) continue;
    writeCopy(out, own);
    if (Array.isArray(results)) results = results.with(k, out);
    else results = out;
  }
  return results;
}

/** Runs the ops that `compose` calls, by `perform`. */
export function runParts(
  call: Call,
  compose: NonNullable<Op["decompose"]>,
  perform: (<R>(body: () => R) => R) | null,
): void {
  const given = call.outputs;
  prepareGiven(call, call.specs, call.like);
  const isGiven = given.length > 1 || given[0] !== undefined;
  const body = isGiven ? () => handOut(compose(call), given) : () => compose(call);
  const made = composed(call, () => tidy(perform === null ? body : () => perform(body)));
  call.outputs = Array.isArray(made) ? made : [made as Operand];
}

const NONE_GIVEN: readonly (Operand | undefined)[] = [];
/** Stands for a given output: the results of a kernel are converted into another one. */
const NOT_A_HANDLE: Operand = scalarOperand(0, DTYPE.bool, 0);

/** Runs a kernel of `backend`; false if none is available after all. */
function runKernel(
  call: Call,
  specs: readonly OutputSpec[],
  like: Storage,
  backend: Backend,
  layoutOf: Prepared["layoutOf"],
): boolean {
  const { op, inputs, outputs } = call;
  call.badIndex = -1;
  prepareGiven(call, specs, like);
  const given = outputs.length === 0 ? NONE_GIVEN : outputs.slice();
  const copied = op.contiguous === undefined ? null : copyStrided(inputs, op.contiguous);
  const kernelSpecs = call.specs;
  for (let k = 0; k < specs.length; k++) {
    if (kernelSpecs !== specs) outputs[k] = newOutput(kernelSpecs[k]!, like, NOT_A_HANDLE);
    else if (given[k] === undefined) outputs[k] = newOutput(specs[k]!, like);
    else outputs[k] = kernelOutput(call, k, specs[k]!, like);
  }
  let done = false;
  try {
    done = backend.run(call);
    if (profiler !== null && done) profiler.ran(backend, call);
  } finally {
    if (copied !== null) recycleCopies(inputs, copied);
    if (!done) freeOutputs(call, specs, given);
  }
  if (!done) return false;
  if (kernelSpecs !== specs) convertResults(call, specs, given, layoutOf);
  for (let k = 0; k < given.length; k++) {
    if (given[k] !== undefined) outputs[k] = handOver(outputs[k]!, given[k]!);
  }
  if (op.check !== undefined) checkResults(call, given);
  if (op.writes !== undefined) {
    for (const k of op.writes) call.operand(k).storage.version++;
  }
  return true;
}

/** Frees the outputs of a kernel that has not run, except for given ones. */
function freeOutputs(
  { outputs, specs: kernelSpecs }: Call,
  specs: readonly OutputSpec[],
  given: readonly (Operand | undefined)[],
): void {
  for (let k = 0; k < specs.length; k++) {
    const made = outputs[k]!;
    if (given[k] === undefined && kernelSpecs === specs) dispose(made);
    else if (made !== given[k]) recycle(made.storage);
    // Without a given output its place is empty, as before the call.
    outputs[k] = given[k] as never;
  }
}

/** Casts what a kernel has written to the results of a call, or puts their axes in order. */
function convertResults(
  call: Call,
  specs: readonly OutputSpec[],
  given: readonly (Operand | undefined)[],
  layoutOf: Prepared["layoutOf"],
): void {
  const { outputs } = call;
  for (let k = 0; k < specs.length; k++) {
    const made = outputs[k]!;
    const { storage, layout } = made;
    outputs[k] = given[k] ?? newOutput(specs[k]!, storage);
    copyInto(
      outputs[k]!,
      layoutOf === undefined ? made : { storage, layout: layoutOf(layout), flags: 0 },
    );
    recycle(storage);
  }
}

/** Replaces noncontiguous inputs at `places` by contiguous copies. */
function copyStrided(inputs: Input[], places: readonly number[]): Copied[] | null {
  let copied: Copied[] | null = null;
  for (const place of places) {
    const original = inputs[place];
    if (!isOperand(original) || original.layout.contiguous) continue;
    inputs[place] = copyOf(original);
    (copied ??= []).push({ place, original });
  }
  return copied;
}

/** `given`: written by a kernel, or filled with a copy of `made`. */
function handOver(made: Operand, given: Operand): Operand {
  if (made === given) given.storage.version++;
  else {
    copyInto(given, made);
    recycle(made.storage);
  }
  return given;
}

// ---- copies within calls -----------------------------------------------------------------------

/** Casts `source` element by element into `target`, which is ready and overlaps no input. */
export function copyInto(target: Operand, source: Operand): void {
  if (target.storage.info.lane !== null) {
    laneCalls.copy(target, source);
    target.storage.version++;
    return;
  }
  const call = takeCall(MAP.copy, "copy", 1, undefined);
  call.inputs[0] = source;
  call.outputs[0] = target;
  call.compute = source.storage.info;
  call.plan = planMap(target.layout, source.layout, null, null);
  execute(call, source.storage);
  target.storage.version++;
  giveCall(call);
}

/**
 * Casts `source`, of the shape of `target`, element by element into `target`, which is ready and
 * overlaps no input: a call for interpreters.
 */
export function writeCopy(target: Operand, source: Operand): void {
  if (frame === null) return copyInto(target, source);
  const [to, from] = [target.storage.info, source.storage.info];
  const attributes = to === from ? undefined : { dtype: to.name };
  performCall(new Call(MAP.copy, "copy", [source], attributes, [target]));
}

/** A contiguous copy in the dtype `info`, in a new storage: not a handle. */
export function copyOf(source: Operand, info: DTypeInfo = source.storage.info): Operand {
  if (source.storage.info.lane !== null || info.lane !== null) {
    return laneCalls.copyOf(source, info);
  }
  const { contiguous, offset, shape } = source.layout;
  const layout = contiguous && offset === 0 ? source.layout : Layout.contiguous(shape);
  const storage = allocateIn(source.storage.memory, info, layout.size, false);
  const target = { storage, layout, flags: 0 };
  copyInto(target, source);
  return target;
}

/** Writes `value` to every element of `target`, which is ready. */
export function fillWith(target: Operand, value: Scalar | Complex): void {
  const { info } = target.storage;
  if (info.lane !== null) {
    laneCalls.fill(target, value);
    target.storage.version++;
    return;
  }
  const call = takeCall(MAP.copy, "copy", 1, undefined);
  call.inputs[0] = scalarOperand(value as Scalar, info, 0);
  call.outputs[0] = target;
  call.compute = info;
  call.plan = planMap(target.layout, SCALAR_LAYOUT, null, null);
  execute(call, target.storage);
  target.storage.version++;
  giveCall(call);
}

// ---- backends ----------------------------------------------------------------------------------

export {
  deviceName,
  memoryOf,
  openDevices,
  registerCpu,
  registerDefinition,
  registerDevices,
  withDevice,
} from "./registry.ts";

/** The name of the backend of the CPU. */
export function cpuBackendName(): string {
  return cpuBackend().name;
}

/** Prepares the kernels of most calls of these ops on these dtypes in the backend of `device`. */
export function warmUpDevice(
  device: string,
  ops: readonly string[],
  dtypes: readonly DType[],
): void {
  deviceOf(device, "warm up")?.backend.warmUp?.(ops, dtypes);
}

/** Records the work of `body` on `device`. Throws a DeviceError if the device cannot record. */
export function recordOn(device: string, body: () => void): Recording {
  const found = deviceOf(device, "capture on");
  if (found?.backend.record === undefined) {
    throw new DeviceError(`Cannot capture on ${describe(device)}: it has no graphs`);
  }
  return found.backend.record(body);
}
