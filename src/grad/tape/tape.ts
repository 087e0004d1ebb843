/**
 * A tape: an interpreter that notes the calls of a function, and how derivatives go back through each.
 *
 * A variable is a value of the function at one time: the result of a call, or the elements of a storage
 * after a write. A tensor is a variable by its handle, or a part of the variable that its storage holds,
 * however that part was made: ops that are composed of copies between parts of memory need no rule.
 *
 * @module
 */
import { DerivativeError } from "../../base/errors.ts";
import type { DTypeInfo } from "../../base/dtype.ts";
import { Layout } from "../../base/layout.ts";
import { formatShape } from "../../base/shape.ts";
import { applyView } from "../../core/apply.ts";
import { contiguousCopy, writeCopy } from "../../core/copy.ts";
import { decomposeBy, dispatch, infer, performCall, runPartsHere } from "../../core/dispatch.ts";
import { dispose, tidy, wrap } from "../../core/handles.ts";
import { frame, interpret, type Interpreter } from "../../core/interpreter.ts";
import { isOperand, type Operand } from "../../memory/operand.ts";
import { recycle } from "../../memory/pool.ts";
import type { Storage } from "../../memory/storage.ts";
import { type Call, type Input, makeOp, type Op } from "../../table/op.ts";
import { MAP } from "../../table/table.ts";
import { VIEWS } from "../../table/views.ts";
import { add, fit } from "./arithmetic.ts";
import {
  type Backward,
  type Gradient,
  type Kept,
  Part,
  type Rule,
  ruleOf,
  RULES,
  WITHOUT,
} from "./rule.ts";
import {
  isSameLayout,
  isWhole,
  joinedParts,
  readBackward,
  viewBackward,
  writeBackward,
} from "./memory.ts";

/** A variable. */
interface Variable {
  readonly shape: readonly number[];
  readonly info: DTypeInfo;
  readonly like: Storage;
}

/** What a storage holds. */
interface Content {
  /** The variable, whose elements are at `layout`. */
  readonly id: number;
  readonly layout: Layout;
  /** The same elements as a vector of the storage's length, once it was asked for. */
  flat: number | undefined;
  /** The count of writes for which it holds. */
  readonly stamp: number;
  /** For an argument: the flag of handles that belong to it. */
  readonly flag: number;
}

/** A handle that is a variable. */
interface Named {
  readonly id: number;
  readonly stamp: number;
}

/** A step of the way back. */
interface Step {
  readonly name: string;
  readonly inputs: readonly number[];
  readonly outputs: readonly number[];
  readonly backward: Backward;
  readonly kept: readonly KeptValue[];
}

/** A value that is kept, with the number of writes of its storage. */
interface KeptValue {
  of: Operand;
  storage: Storage;
  layout: Layout;
  readonly flags: number;
  stamp: number;
}

function withoutRule({ name, op }: Call): DerivativeError {
  const which = name === op.name ? name : `${name} (${op.name})`;
  // The library's own functions have rules.
  const define = op.run === undefined ? "" : "pass backward() to defineOp(), or ";
  return new DerivativeError(
    `Cannot differentiate ${which}: no derivative is known; ${define}use stopGradient() for its ` +
      "inputs if none is needed",
  );
}

/** The bit of handles that are constants for all tapes; views of them have it too. */
export const CONSTANT = 1 << 3;
/** The bit of handles that are arguments of a function of {@link CHECKPOINT}. */
const ARGUMENT = 1 << 2;

/** Attributes of {@link CHECKPOINT}. */
export interface CheckpointAttributes {
  /** The function, of the inputs. */
  readonly f: (inputs: readonly Operand[]) => readonly Operand[];
}

/**
 * A function of its inputs whose way back computes it again. Only tapes get calls of it: elsewhere the
 * function is called.
 */
export const CHECKPOINT: Op = makeOp<Op>({
  kind: "kernel",
  name: "checkpoint",
  infer: () => "data-dependent",
  run: (call) => (call.attributes as CheckpointAttributes).f(call.inputs as Operand[]),
});

/** Whether the calls of the program go to a tape first. */
export function isTaped(): boolean {
  return frame?.by instanceof Tape;
}

/** Whether a tape gets the calls of the program later, if not first. */
function isTapedAround(): boolean {
  for (let own = frame; own !== null; own = own.outer) if (own.by instanceof Tape) return true;
  return false;
}

/** An input, in memory of its own if it is in a storage that is about to be written. */
function besides(x: Input, storage: Storage): Input {
  return isOperand(x) && x.storage === storage ? contiguousCopy(x) : x;
}

/** Lets a function use its arguments and constants only, and notes those from outside. */
class Guard implements Interpreter {
  readonly #tape: Tape;
  readonly #made = new WeakSet<Storage>();
  /** The constants from outside. */
  readonly captured: Set<Operand> = new Set();

  constructor(tape: Tape) {
    this.#tape = tape;
  }

  read(): void {}

  run(call: Call): void {
    for (const x of call.inputs) {
      if (!isOperand(x) || (x.flags & ARGUMENT) !== 0) continue;
      if (this.#tape.idOf(x) >= 0) {
        throw new DerivativeError(
          `Cannot ${call.name} in a function of checkpoint() with a tensor of shape ${
            formatShape(x.layout.shape)
          } from outside, which has a derivative: pass it as an argument`,
        );
      }
      if (!this.#made.has(x.storage)) this.captured.add(x);
    }
    performCall(call);
    for (const storage of this.#tape.forget(call, call.inputs)) this.#made.add(storage);
  }
}

/** A handle and the elements that it had. */
type Captured = readonly [handle: Operand, elements: Kept<Operand>];

/** Runs `body` while those of `captured` that were disposed of have their elements again. */
function withCaptured<R>(captured: readonly Captured[], body: () => R): R {
  const revived: Operand[] = [];
  try {
    for (const [handle, elements] of captured) {
      const { storage } = elements();
      if (handle.storage === storage) continue;
      storage.handles++;
      (handle as { storage: Storage }).storage = storage;
      revived.push(handle);
    }
    return body();
  } finally {
    revived.forEach(dispose);
  }
}

/**
 * The derivatives of a function by those of its inputs that are wanted, given those by its results: runs
 * the function.
 */
export function pullBack(
  f: (inputs: readonly Operand[]) => readonly Operand[],
  inputs: readonly Operand[],
  gradients: readonly Gradient[],
  wants: (k: number) => boolean,
): readonly Gradient[] {
  const tape = new Tape();
  try {
    const given = inputs.map((x) =>
      isDifferentiable(x.storage.info) ? tape.argument(x) : { handle: x, id: -1 }
    );
    const results = tape.record(() => f(given.map(({ handle }) => handle)));
    const from = results.flatMap((result, k) => {
      const gradient = gradients[k], id = tape.idOf(result);
      if (gradient === undefined || id < 0) return [];
      return [[id, applyView(VIEWS.view, gradient, "view")] as const];
    });
    const wanted = given.flatMap(({ id }, k) => wants(k) ? [id] : []);
    const made = tape.backward(from, wanted, true);
    return given.map(({ id }) => made[wanted.indexOf(id)]);
  } finally {
    tape.dispose();
  }
}

/** The rule of an op by a composition of others, of its inputs, which the way back runs. */
export const byComposition =
  (compose: (inputs: readonly Operand[], call: Call) => Operand | readonly Operand[]): Rule =>
  ({ call, inputs, keep, wants }) => {
    const kept = (inputs as readonly Operand[]).map((x) => keep(x));
    return (gradients) =>
      pullBack((own) => [compose(own, call)].flat(), kept.map((x) => x()), gradients, wants);
  };

let barriers = 0;

/**
 * A value that a trace computes once more: what is made of it is not the same as what was made of `x`
 * before.
 */
function again(x: Operand): Operand {
  if (frame === null) return x;
  const attributes = { dtype: x.storage.info.name, again: ++barriers };
  return dispatch(MAP.copy, [x], attributes);
}

/** Bits of handles for arguments, one for each tape around another. */
const FIRST_FLAG = 1 << 4;
const MOST_NESTED = 24;

/** The tapes whose functions run now. */
let nested = 0;

/** Handles that functions have returned, by the flags of their tapes. */
const released = new WeakMap<Operand, number>();

const isDifferentiable = ({ kind }: DTypeInfo): boolean => kind === "f" || kind === "c";

/** Reads that show a tensor without using its elements. */
const SHOWS = new Set(["toString"]);

/** Records the calls of one function. */
export class Tape implements Interpreter {
  readonly #variables: Variable[] = [];
  readonly #handles = new WeakMap<Operand, Named>();
  readonly #contents = new WeakMap<Storage, Content>();
  /** The writes of storages that this tape has seen, as those of a trace have no count. */
  readonly #writes = new WeakMap<Storage, number>();
  readonly #steps: Step[] = [];
  readonly #flag: number;

  constructor() {
    if (nested >= MOST_NESTED) {
      throw new DerivativeError(
        `Cannot differentiate more than ${MOST_NESTED} functions in another`,
      );
    }
    this.#flag = FIRST_FLAG << nested;
  }

  /** Runs `body`, whose calls are noted. */
  record<R>(body: () => R): R {
    nested++;
    try {
      return interpret(this, body, "differentiate");
    } finally {
      nested--;
    }
  }

  // ---- variables -------------------------------------------------------------------------------

  /** A handle for an argument of the function: a variable. */
  argument(x: Operand): { readonly handle: Operand; readonly id: number } {
    const handle = wrap(x.storage, x.layout, x.flags | this.#flag);
    const id = this.#variable(handle);
    this.#handles.set(handle, { id, stamp: this.#stampOf(x.storage) });
    // Of arguments that share a storage, only handles are known.
    const isShared = this.#contents.has(x.storage);
    this.#contents.set(x.storage, {
      id: isShared ? -1 : id,
      layout: x.layout,
      flat: undefined,
      stamp: this.#stampOf(x.storage),
      flag: this.#flag,
    });
    return { handle, id };
  }

  /** Makes handles that the function returned those of tensors from outside, for other tapes. */
  release(handles: Iterable<unknown>): void {
    for (const x of handles) {
      if (isOperand(x)) released.set(x, (released.get(x) ?? 0) | this.#flag);
    }
  }

  #variable({ layout: { shape }, storage }: Operand): number {
    return this.#variables.push({ shape, info: storage.info, like: storage }) - 1;
  }

  #stampOf(storage: Storage): number {
    return storage.version + (this.#writes.get(storage) ?? 0);
  }

  #noteWrite(storage: Storage): void {
    this.#writes.set(storage, (this.#writes.get(storage) ?? 0) + 1);
  }

  /** Whether a call used a variable. */
  isUsed = false;

  /** The variable of an operand; -1 for a constant. */
  idOf(x: Input): number {
    const id = this.#idOf(x);
    if (id >= 0) this.isUsed = true;
    return id;
  }

  #idOf(x: Input): number {
    if (!isOperand(x)) return -1;
    const { storage, layout, flags } = x;
    const content = this.#contents.get(storage);
    if (content === undefined || (flags & CONSTANT) !== 0) return -1;
    const named = this.#handles.get(x);
    if (named !== undefined && named.stamp === this.#stampOf(storage)) return named.id;
    // The same tensor from outside is a constant.
    if (content.flag !== 0 && (flags & content.flag & ~(released.get(x) ?? 0)) === 0) return -1;
    if (content.stamp !== this.#stampOf(storage)) {
      // The memory was reused, or written in a way that no call shows.
      this.#contents.delete(storage);
      return -1;
    }
    if (content.id < 0) {
      throw new DerivativeError(
        `Cannot differentiate a view of shape ${
          formatShape(layout.shape)
        }: several arguments share its memory; copy one of them`,
      );
    }
    if (isSameLayout(layout, content.layout)) return content.id;
    const id = this.#variable(x);
    this.#steps.push({
      name: "view",
      inputs: [this.#flatOf(storage, content)],
      outputs: [id],
      backward: readBackward([storage.length], layout),
      kept: [],
    });
    this.#handles.set(x, { id, stamp: content.stamp });
    return id;
  }

  /** The variable of all elements of a storage, as a vector. */
  #flatOf(storage: Storage, content: Content): number {
    if (content.flat !== undefined) return content.flat;
    const { length, info } = storage;
    const flat = this.#variables.push({ shape: [length], info, like: storage }) - 1;
    const { layout } = content;
    this.#steps.push({
      name: "view",
      inputs: [content.id],
      outputs: [flat],
      // The other way round: the elements of the variable are a view of the vector.
      backward: viewBackward(layout),
      kept: [],
    });
    content.flat = flat;
    return flat;
  }

  /** Notes that a storage holds the variable `id` at the layout of `x`; -1 for a constant. */
  #hold(x: Operand, id: number): void {
    const { storage, layout } = x;
    const stamp = this.#stampOf(storage);
    if (id < 0) this.#contents.delete(storage);
    else {
      const flat = isWhole(layout, storage) && layout.shape.length === 1 ? id : undefined;
      this.#contents.set(storage, { id, layout, flat, stamp, flag: 0 });
      this.#handles.set(x, { id, stamp });
    }
  }

  // ---- calls -----------------------------------------------------------------------------------

  read(x: Operand, how: string): void {
    if (SHOWS.has(how) || !isDifferentiable(x.storage.info) || this.idOf(x) < 0) return;
    throw new DerivativeError(
      `Cannot ${how} a tensor of shape ${
        formatShape(x.layout.shape)
      } in a function that is differentiated: the derivative would not go through the number; ` +
        "use stopGradient() first if it should not",
    );
  }

  run(call: Call): void {
    const { op } = call;
    const inputs = call.inputs.slice();
    const ids = inputs.map((x) => this.idOf(x));
    if (op === CHECKPOINT) return this.#checkpoint(call, inputs as Operand[], ids);
    const given = call.outputs[0];
    const isTracked = ids.some((id) => id >= 0);
    if (op.writes !== undefined) return this.#runWriting(call, inputs, ids);
    if (given !== undefined) return this.#runInto(call, inputs, ids, given);
    if (!isTracked) {
      performCall(call);
      return void this.forget(call, inputs);
    }
    this.#runTracked(call, inputs, ids);
  }

  /** Fresh results that are constants, in memory that may have held a variable; returns their storages. */
  forget(call: Call, inputs: readonly Input[]): readonly Storage[] {
    const fresh = call.outputs.map(({ storage }) => storage)
      .filter((storage) => !inputs.some((x) => isOperand(x) && x.storage === storage));
    for (const storage of fresh) this.#contents.delete(storage);
    return fresh;
  }

  /** A call that allocates its results, of inputs with variables. */
  #runTracked(call: Call, inputs: readonly Input[], ids: readonly number[]): void {
    const { op } = call;
    const rule = ruleOf(call);
    if (rule === undefined && op.name !== "tensorOf" && op.kind !== "argReduce") {
      const specs = infer(call);
      const isFloat = specs === "data-dependent" ||
        specs.some(({ dtype }) => isDifferentiable(dtype));
      if (isFloat && !WITHOUT.has(op.name)) return this.#decompose(call);
    }
    if (op.name === "tensorOf") return this.#decompose(call);
    performCall(call);
    if (rule === undefined || !call.outputs.some((one) => isDifferentiable(one.storage.info))) {
      return void this.forget(call, inputs);
    }
    this.#record(call, rule, inputs, ids, call.outputs);
    for (const [k, output] of call.outputs.entries()) {
      const id = this.#steps.at(-1)!.outputs[k]!;
      const source = inputs.find((x) => isOperand(x) && x.storage === output.storage);
      if (source === undefined) this.#hold(output, id);
      else this.#handles.set(output, { id, stamp: this.#stampOf(output.storage) });
    }
  }

  /** Notes a call that has run: `outputs` become variables. */
  #record(
    call: Call,
    rule: Rule,
    inputs: readonly Input[],
    ids: readonly number[],
    outputs: readonly Operand[],
  ): void {
    const kept: KeptValue[] = [];
    let backward: Backward;
    try {
      backward = rule({
        call,
        inputs,
        outputs,
        wants: (k) => (ids[k] ?? -1) >= 0,
        keep: (x) => this.#keep(call.name, x, kept),
      });
    } catch (error) {
      this.#release(kept);
      throw error;
    }
    const made = outputs.map((one) => this.#variable(one));
    this.#steps.push({ name: call.name, inputs: ids, outputs: made, backward, kept });
  }

  /** Runs a function beside the tape, and notes one step. */
  #checkpoint(call: Call, inputs: readonly Operand[], ids: readonly number[]): void {
    const { f } = call.attributes as CheckpointAttributes;
    const own = inputs.map(({ storage, layout, flags }) => wrap(storage, layout, flags | ARGUMENT));
    const guard = new Guard(this);
    call.outputs = tidy(() => interpret(guard, () => [...f(own)]));
    const rule: Rule = ({ keep, wants }) => {
      const kept = inputs.map((x) => keep(x));
      const captured = [...guard.captured].map((x): Captured => [x, keep(x)]);
      return (gradients) =>
        withCaptured(captured, () => pullBack(f, kept.map((x) => again(x())), gradients, wants));
    };
    this.#record(call, rule, inputs, ids, call.outputs);
    const made = this.#steps.at(-1)!.outputs;
    call.outputs.forEach((output, k) =>
      this.#hold(output, isDifferentiable(output.storage.info) ? made[k]! : -1)
    );
  }

  #decompose(call: Call): void {
    const { op } = call;
    const compose = RULES.get(op.name)?.compose ?? op.decompose;
    if (compose !== undefined) decomposeBy(this, call, compose);
    else if (op.name === "tensorOf") {
      infer(call);
      interpret(this, () => runPartsHere(call, op.run!));
    } else throw withoutRule(call);
    // A result that got its elements beside the calls would have a derivative of 0.
    for (const output of call.outputs) {
      const { layout: { size }, storage: { info } } = output;
      if (isDifferentiable(info) && size > 0 && this.idOf(output) < 0) throw withoutRule(call);
    }
  }

  /** A call that writes its result to a given tensor. */
  #runInto(call: Call, inputs: readonly Input[], ids: readonly number[], given: Operand): void {
    const isTracked = ids.some((id) => id >= 0);
    if (!isTracked && !this.#contents.has(given.storage)) {
      performCall(call);
      return this.#noteWrite(given.storage);
    }
    const { storage } = given;
    this.#checkWrite(call, storage);
    const rule = isTracked ? ruleOf(call) : undefined;
    if (isTracked && rule === undefined && isDifferentiable(storage.info)) {
      return this.#decompose(call);
    }
    const before = this.#before(storage);
    let id = -1;
    if (rule === undefined || !isDifferentiable(storage.info)) performCall(call);
    else {
      // What the way back needs is a result of its own, as this one may be among the inputs, or written
      // again. Copies need nothing.
      const isCopy = call.op === MAP.copy;
      if (!isCopy) {
        call.outputs = [];
        // A tape around this one keeps its inputs by itself.
        if (isTapedAround()) call.inputs = inputs.map((x) => besides(x, storage));
      }
      performCall(call);
      const [made] = call.outputs as [Operand];
      this.#record(call, rule, inputs, ids, [made]);
      id = this.#steps.at(-1)!.outputs[0]!;
      if (!isCopy) {
        this.#separate(this.#steps.at(-1)!.kept, storage);
        writeCopy(given, made);
        call.outputs = [given];
      }
    }
    this.#noteWrite(storage);
    this.#store(given, id, before);
  }

  /** The variable of a storage's elements before a write: -1 for constants. */
  #before(storage: Storage): number {
    const content = this.#contents.get(storage);
    if (content === undefined || content.stamp !== this.#stampOf(storage)) return -1;
    return this.#flatOf(storage, content);
  }

  #checkWrite(call: Call, storage: Storage): void {
    if ((this.#contents.get(storage)?.flag ?? 0) === 0) return;
    throw new DerivativeError(
      `Cannot ${call.name}: it writes an argument of a function that is differentiated; write a copy`,
    );
  }

  /** Notes that the variable `id`, or a constant, was written to `target`. */
  #store(target: Operand, id: number, before: number): void {
    const { storage, layout } = target;
    if (before < 0 && id < 0) return this.#hold(target, -1);
    if (isWhole(layout, storage)) return this.#hold(target, id);
    const { length, info } = storage;
    const flat = this.#variables.push({ shape: [length], info, like: storage }) - 1;
    this.#steps.push({
      name: "write",
      inputs: [id, before],
      outputs: [flat],
      backward: writeBackward(layout, id >= 0, before >= 0),
      kept: [],
    });
    const whole = Layout.contiguous([length]);
    this.#contents.set(storage, {
      id: flat,
      layout: whole,
      flat,
      stamp: this.#stampOf(storage),
      flag: 0,
    });
  }

  /** A call of an op that writes an input. */
  #runWriting(call: Call, inputs: readonly Input[], ids: readonly number[]): void {
    const { op } = call;
    const target = call.operand(op.writes![0]!);
    const { storage } = target;
    const isTracked = ids.some((id) => id >= 0) || this.#contents.has(storage);
    if (!isTracked) {
      performCall(call);
      return this.#noteWrite(storage);
    }
    this.#checkWrite(call, storage);
    const rule = ruleOf(call);
    if (rule === undefined && !WITHOUT.has(op.name) && isDifferentiable(storage.info)) {
      if (op.decompose === undefined) throw withoutRule(call);
      return decomposeBy(this, call);
    }
    const before = this.#before(storage);
    performCall(call);
    this.#noteWrite(storage);
    let id = -1;
    if (rule !== undefined && isDifferentiable(storage.info)) {
      this.#record(call, rule, inputs, ids, [target]);
      id = this.#steps.at(-1)!.outputs[0]!;
    }
    this.#store(target, id, before);
  }

  // ---- kept values -----------------------------------------------------------------------------

  #keep<X extends Input>(name: string, x: X, kept: KeptValue[]): Kept<X> {
    if (!isOperand(x)) return () => x;
    const { storage, layout, flags } = x;
    const own = { of: x, storage, layout, flags, stamp: this.#stampOf(storage) };
    storage.handles++;
    kept.push(own);
    return () => this.#reopened(name, own) as X & Operand;
  }

  /** A kept value as a tensor. */
  #reopened(name: string, { of, storage, layout, flags, stamp }: KeptValue): Operand {
    if (stamp !== this.#stampOf(storage)) {
      throw new DerivativeError(
        `Cannot differentiate ${name}: a tensor of shape ${
          formatShape(layout.shape)
        } that its derivative needs was written since; write a copy`,
      );
    }
    // A trace knows the handles that its program uses: those from outside stay the same.
    return of.storage === storage && of.layout === layout ? of : wrap(storage, layout, flags);
  }

  /** Copies those of kept values that are in a storage which is about to be written. */
  #separate(kept: readonly KeptValue[], storage: Storage): void {
    for (const one of kept) {
      if (one.storage !== storage) continue;
      const copy = contiguousCopy(one.of);
      one.of = copy;
      one.storage = copy.storage;
      one.layout = copy.layout;
      one.stamp = this.#stampOf(copy.storage);
      copy.storage.handles++;
      storage.handles--;
    }
  }

  #release(kept: readonly KeptValue[]): void {
    for (const { storage } of kept) if (--storage.handles === 0) recycle(storage);
  }

  /** Frees what is kept. */
  dispose(): void {
    for (const { kept } of this.#steps.splice(0)) this.#release(kept);
  }

  // ---- the way back ----------------------------------------------------------------------------

  /**
   * The derivatives by the variables `wanted`, given that by the variables `from`: undefined for those
   * that do not matter. `isLast` frees what is kept as it is used.
   */
  backward(
    from: readonly (readonly [id: number, gradient: Operand])[],
    wanted: readonly number[],
    isLast: boolean,
  ): Gradient[] {
    const gradients = new Map<number, Operand>();
    const parts = new Map<number, Part[]>();
    const take = (id: number, gradient: Operand): void => {
      const before = gradients.get(id);
      if (before === undefined) return void gradients.set(id, gradient);
      const sum = add(before, gradient);
      dispose(before);
      dispose(gradient);
      gradients.set(id, sum);
    };
    const gradientOf = (id: number): Gradient => {
      const own = parts.get(id);
      if (own !== undefined) {
        parts.delete(id);
        const sum = tidy(() => joinedParts(own));
        for (const { of } of own) if (of !== sum) dispose(of);
        take(id, sum);
      }
      return gradients.get(id);
    };
    try {
      for (const [id, gradient] of from) take(id, gradient);
      const reached = new Set(wanted);
      const needed = this.#steps.map(({ inputs, outputs }) => {
        const is = inputs.some((id) => reached.has(id));
        if (is) { for (const id of outputs) reached.add(id); }
        return is;
      });
      const stays = new Set(wanted);
      for (let k = this.#steps.length - 1; k >= 0; k--) {
        const { inputs, outputs, backward, kept } = this.#steps[k]!;
        const given = outputs.map(gradientOf);
        if (needed[k] && given.some((one) => one !== undefined)) {
          const places: { readonly id: number; readonly part: Part | undefined }[] = [];
          const made = tidy(() => {
            // Results are tensors of their own: their owner disposes of them.
            const taken = new Set<Operand | undefined>(given);
            for (const { of } of kept) taken.add(of);
            return backward(given).flatMap((one, i) => {
              const id = inputs[i]!;
              if (one === undefined || !reached.has(id)) return [];
              const { shape, info } = this.#variables[id]!;
              const part = one instanceof Part ? one : undefined;
              const fitted = one instanceof Part ? one.of : fit(one, shape, info);
              const own = taken.has(fitted) ? applyView(VIEWS.view, fitted, "view") : fitted;
              taken.add(own);
              places.push({ id, part });
              return [own];
            });
          });
          made.forEach((one, i) => {
            const { id, part } = places[i]!;
            if (part === undefined) return take(id, one);
            const others = parts.get(id) ?? [];
            parts.set(id, [...others, new Part(one, part.layout, part.shape)]);
          });
        }
        for (const id of outputs) {
          const gradient = gradients.get(id);
          if (gradient === undefined || stays.has(id)) continue;
          dispose(gradient);
          gradients.delete(id);
        }
        if (!isLast) continue;
        // An error in a step before leaves those that stay to `dispose`.
        this.#steps.pop();
        this.#release(kept);
      }
      return wanted.map(gradientOf);
    } catch (error) {
      for (const gradient of gradients.values()) dispose(gradient);
      for (const own of parts.values()) own.forEach(({ of }) => dispose(of));
      throw error;
    }
  }
}
