/**
 * The interpreter of a profile: runs calls between two readings of the clock, and knows the memory
 * traffic and the arithmetic of each from the shapes of its operands.
 *
 * @module
 */
import type { DType } from "../base/dtype.ts";
import type { Shape } from "../base/shape.ts";
import type { Backend } from "../core/backend.ts";
import { performCall } from "../core/dispatch.ts";
import type { Interpreter } from "../core/interpreter.ts";
import { type Profiler, profiler, type WorkInfo } from "../core/profiler.ts";
import { isOperand, type Operand } from "../memory/operand.ts";
import type { Call } from "../table/op.ts";
import { costOf } from "./costs.ts";

/** The shape and the dtype of an input or output of a {@link ProfiledCall}. */
export interface ProfiledTensor {
  /** Its shape. */
  readonly shape: Shape;
  /** Its dtype. */
  readonly dtype: DType;
}

/** One call of an op in a profile. */
export interface ProfiledCall {
  /** The name of the method or function, such as `add_`; of a part, the name of its op. */
  readonly op: string;
  /** The number of calls that it is a part of: 0 for one that the program made. */
  readonly depth: number;
  /** The run of the function, from 0. */
  readonly run: number;
  /** When it began, in milliseconds after the first run began. */
  readonly start: number;
  /** How long it took, in milliseconds, parts included. */
  readonly duration: number;
  /** How long it took without its parts. */
  readonly self: number;
  /** The tensors that it read. Empty for work that is no call of an op. */
  readonly inputs: readonly ProfiledTensor[];
  /** Its results. */
  readonly outputs: readonly ProfiledTensor[];
  /** Inputs and outputs as text: `"float32 [2, 3] [3] → [2, 3]"`. */
  readonly shapes: string;
  /** The bytes of the inputs read and of the outputs written; undefined if unknown. */
  readonly bytes: number | undefined;
  /** The number of operations on numbers; undefined if unknown. */
  readonly flops: number | undefined;
  /** `"js"`, `"native"`, `"wasm"` or `"cuda"`, several joined by `+`, or `"view"` if nothing was computed. */
  readonly backend: string;
  /** The most threads that took part; undefined on devices. */
  readonly threads: number | undefined;
}

/** A read of values in a profiled function. */
export interface ProfiledRead {
  /** The method that read them, such as `toArray`. */
  readonly how: string;
  /** When, in milliseconds after the first run began. */
  readonly start: number;
}

/** A call that runs, or other work. */
interface Open {
  /** Null for work that is no call. */
  readonly call: Call | null;
  /** The backend that ran the call itself. */
  own: string | undefined;
  /** The backends that ran its parts. */
  readonly others: Set<string>;
  threads: number;
  /** The time of its parts. */
  nested: number;
}

/** What the clock does not tell of a call. */
type Description = Omit<ProfiledCall, "depth" | "run" | "start" | "duration" | "self">;

const DEVICE_NUMBER = /:\d+$/;

function tensorOf({ layout, storage: { info } }: Operand): ProfiledTensor {
  return { shape: layout.frozenShape as Shape, dtype: info.name };
}

/** `"float32 [2, 3] [3] → [2, 3]"`; a dtype is left out if it is that of the tensor before. */
function shapesOf(inputs: readonly ProfiledTensor[], outputs: readonly ProfiledTensor[]): string {
  let before: string | undefined;
  const show = ({ shape, dtype }: ProfiledTensor): string => {
    const text = `[${shape.join(", ")}]`;
    if (dtype === before) return text;
    before = dtype;
    return `${dtype} ${text}`;
  };
  const [from, to] = [inputs.map(show), outputs.map(show)];
  return [...from, ...to.length === 0 ? [] : ["→", ...to]].join(" ");
}

/** Waits for the devices of these operands, so that their work is part of the time. */
function wait(operands: readonly Operand[]): void {
  let before: unknown = null;
  for (const { storage: { memory } } of operands) {
    if (memory === null || memory === before || memory.recording) continue;
    memory.synchronize();
    before = memory;
  }
}

/** Runs and times calls. */
export class Recorder implements Interpreter, Profiler {
  readonly observes = true;
  /** The calls that have ended, parts first. */
  calls: ProfiledCall[] = [];
  /** The reads of values. */
  reads: ProfiledRead[] = [];
  /** When each run began and ended. */
  runs: (readonly [start: number, end: number])[] = [];
  /** The time that the clock leaves out: before the start, and that of the recorder itself. */
  #paused = performance.now();
  /** The calls that run, outermost first. */
  readonly #open: Open[] = [];
  /** The profile around this one. */
  readonly #outer = profiler as Recorder | null;

  /** The milliseconds since the start, without the recorder's own. */
  #clock(now: number): number {
    return now - this.#paused;
  }

  /** Forgets all runs, and starts the clock. */
  restart(): void {
    this.calls = [];
    this.reads = [];
    this.runs = [];
    this.#paused = performance.now();
  }

  /** Calls `f` as the next run. */
  time<R>(f: () => R): R {
    const start = this.#clock(performance.now());
    const result = f();
    this.runs.push([start, this.#clock(performance.now())]);
    return result;
  }

  run(call: Call): void {
    const inputs = call.inputs.filter(isOperand);
    wait(inputs);
    const given = call.outputs[0];
    const nested = this.#open.length > 0;
    this.#measure(call, () => {
      performCall(call);
      wait(call.outputs);
    }, (open) => {
      const { name, op, outputs } = call;
      const views = outputs.filter((out) =>
        out !== given && inputs.some(({ storage }) => storage === out.storage)
      );
      const specs = [inputs.map(tensorOf), outputs.map(tensorOf)] as const;
      const onDevice = [...inputs, ...outputs].some(({ storage }) => storage.memory);
      return {
        // Some names are phrases, for error messages.
        op: nested || name.includes(" ") ? op.name : name,
        inputs: specs[0],
        outputs: specs[1],
        shapes: shapesOf(...specs),
        ...costOf(call, inputs, views),
        backend: backendOf(open) ?? defaultBackend(inputs, outputs, views),
        threads: onDevice ? undefined : open.threads,
      };
    });
  }

  span<R>(name: string, body: () => R, about: () => WorkInfo): R {
    let told: WorkInfo | undefined;
    const tell = (): WorkInfo => told ??= about();
    const outer = this.#outer;
    return this.#measure(
      null,
      outer === null ? body : () => outer.span(name, body, tell),
      (open) => {
        const info = tell();
        const threads = Math.max(open.threads, info.threads ?? 1);
        return describeWork(name, { ...info, backend: info.backend ?? backendOf(open), threads });
      },
    );
  }

  /** Runs `body` between two readings of the clock; `describe` is called unless it throws. */
  #measure<R>(call: Call | null, body: () => R, describe: (open: Open) => Description): R {
    const entered = performance.now();
    const depth = this.#open.length;
    const open: Open = { call, own: undefined, others: new Set(), threads: 1, nested: 0 };
    this.#open.push(open);
    const begun = performance.now();
    this.#paused += begun - entered;
    const start = this.#clock(begun);
    let done = false;
    try {
      const made = body();
      done = true;
      return made;
    } finally {
      const ended = performance.now();
      const duration = this.#clock(ended) - start;
      this.#open.pop();
      this.#add(done ? describe(open) : undefined, depth, start, duration, open.nested);
      this.#paused += performance.now() - ended;
    }
  }

  /** Adds a call that has ended, and its time to the call that it is a part of. */
  #add(
    about: Description | undefined,
    depth: number,
    start: number,
    duration: number,
    nested: number,
  ): void {
    const outer = this.#open.at(-1);
    if (outer !== undefined) {
      outer.nested += duration;
      if (about !== undefined) {
        if (about.backend !== "view") outer.others.add(about.backend);
        outer.threads = Math.max(outer.threads, about.threads ?? 1);
      }
    }
    if (about === undefined) return;
    const self = Math.max(0, duration - nested);
    this.calls.push({ ...about, depth, run: this.runs.length, start, duration, self });
  }

  read(_: Operand, how: string): void {
    this.reads.push({ how, start: this.#clock(performance.now()) });
  }

  ran(backend: Backend, call: Call): void {
    this.#executed(backend.name, backend.usedThreads?.() ?? 1, call);
  }

  #executed(backend: string, threads: number, call: Call): void {
    if (this.#outer !== null) this.#outer.#executed(backend, threads, call);
    const open = this.#open.at(-1);
    if (open === undefined) return;
    if (open.call === call) open.own = backend;
    else open.others.add(backend);
    open.threads = Math.max(open.threads, threads);
  }

  note(name: string, start: number, duration: number, info: WorkInfo): void {
    this.#outer?.note(name, start, duration, info);
    const entered = performance.now();
    const about = describeWork(name, info);
    this.#add(about, this.#open.length, this.#clock(start), duration, 0);
    this.#paused += performance.now() - entered;
  }
}

function describeWork(
  name: string,
  { backend = "js", threads, bytes, flops, shapes = "" }: WorkInfo,
): Description {
  return { op: name, inputs: [], outputs: [], shapes, bytes, flops, backend, threads };
}

/** The backend that ran a call, or the backends of its parts. */
function backendOf({ own, others }: Open): string | undefined {
  if (own !== undefined || others.size === 0) return own;
  return [...new Set([...others].flatMap((one) => one.split("+")))].join("+");
}

/** What ran a call that no backend ran. */
function defaultBackend(
  inputs: readonly Operand[],
  outputs: readonly Operand[],
  views: readonly Operand[],
): string {
  if (outputs.length > 0 && views.length === outputs.length) return "view";
  // A move between devices, new memory, or a function of defineOp.
  const far = [...outputs, ...inputs].find((x) => isOperand(x) && x.storage.memory !== null);
  return far === undefined ? "js" : far.storage.device.replace(DEVICE_NUMBER, "");
}
