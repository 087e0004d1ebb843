/**
 * Runs a lowered graph: its kernels in one foreign call, with all intermediate results in one arena.
 *
 * @module
 */
import type { TypedArray } from "../base/dtype.ts";
import { NativeError } from "../base/errors.ts";
import { ATTRIBUTES } from "../base/plan.ts";
import { type Shim, STATUS } from "../backend/ffi/abi.ts";
import {
  type Frame,
  NativeProgram,
  type ProgramBuffer,
  type ProgramCall,
} from "../backend/native/program.ts";
import { Layout } from "../base/layout.ts";
import { nowOf } from "../base/late.ts";
import { copyInto, copyOf, performCall } from "../core/dispatch.ts";
import { tidy } from "../core/handles.ts";
import type { LateKey } from "../random/late_key.ts";
import { writeElement } from "../memory/element.ts";
import { allocateFor, recycle } from "../memory/pool.ts";
import { Storage } from "../memory/storage.ts";
import { Call, type Input } from "../ops/op.ts";
import { planArena } from "./arena.ts";
import { type Graph, isValue, type TracedStorage } from "./graph.ts";
import { type Buffer, type EagerStep, lower, type Lowered, type NativeStep } from "./lower.ts";
import { type Executor, Replay, writtenStorages } from "./replay.ts";

/**
 * Buffers up to this size are copied into the arena, and out: engines may keep the elements of such
 * arrays in objects that move.
 */
const COPIED_BYTES = 64;

/** A buffer of each run, and its real storage in it. */
interface Bound {
  readonly buffer: Buffer;
  readonly place: number;
  /** Whether its elements are copied instead of bound; null if there are none. */
  readonly copied: boolean | null;
  /** Its place among the results that are made; -1 if it is none. */
  readonly result: number;
}

/** Runs of kernels, and ops by dispatch between them. */
type Segment =
  | { readonly from: number; readonly to: number }
  | { readonly eager: EagerStep };

/** Runs a graph by native kernels. */
export class Native implements Executor {
  readonly name = "native";
  readonly #graph: Graph;
  readonly #shim: Shim;
  /** How often each node turned out to have no kernel. */
  readonly #eager = new Map<number, number>();
  /** Runs it where kernels cannot: if memory overlaps, and to find what an index out of range is. */
  readonly #replay: Replay;
  readonly #written: ReadonlySet<Storage>;
  #plan: Plan;
  #tried: boolean;
  /** The storages of the current run, by the places of their buffers. */
  #real: (Storage | undefined)[] = [];
  #out: readonly (Storage | undefined)[] | undefined;
  #replayed = false;

  constructor(graph: Graph, shim: Shim) {
    this.#graph = graph;
    this.#shim = shim;
    this.#replay = new Replay(graph);
    const written = [...writtenStorages(graph)] as TracedStorage[];
    this.#written = new Set(written);
    const outside = written.filter(({ origin: { kind } }) =>
      kind === "argument" || kind === "captured"
    );
    this.#tried = outside.length === 0;
    let lowered = lower(graph, shim, this.#eager);
    if (!this.#tried) {
      // The error of an index that is out of range needs the operands at that point.
      for (const step of lowered.steps) {
        if (step.kind === "native" && step.checksIndex) this.#eager.set(step.node, 2);
      }
      if (this.#eager.size > 0) lowered = lower(graph, shim, this.#eager);
    }
    this.#plan = new Plan(lowered, shim, this.#written);
  }

  /** The parts, for reports. */
  get plan(): Plan {
    return this.#plan;
  }

  run(args: readonly Storage[], out?: readonly (Storage | undefined)[]): readonly Storage[] {
    this.#replayed = this.#plan.outside.length > 1 && this.#overlaps(args);
    if (this.#replayed) return this.#replay.run(args);
    if (!this.#tried) {
      this.#tried = true;
      this.#try(args);
    }
    this.#out = out;
    for (;;) {
      try {
        return this.#run(args);
      } catch (error) {
        this.#drop();
        const at = unsupportedCall(error);
        if (at === undefined) throw error;
        this.#relower(at);
      }
    }
  }

  /** Finds calls without a kernel before any memory outside is written. */
  #try(args: readonly Storage[]): void {
    const copies = new Map<Storage, Storage>();
    const copy = (storage: Storage): Storage => {
      const layout = Layout.contiguous([storage.length]);
      const made = copyOf({ storage, layout, flags: 0 }).storage;
      copies.set(storage, made);
      return made;
    };
    for (let tries = 0; tries <= 2 * this.#graph.nodes.length; tries++) {
      let at: number | undefined;
      try {
        const results = this.#run(args, (storage) => copies.get(storage) ?? copy(storage));
        for (const storage of results) {
          if (storage.handles === 0 && ![...copies.values()].includes(storage)) recycle(storage);
        }
      } catch (error) {
        at = unsupportedCall(error);
        if (at === undefined) break;
      } finally {
        this.#drop();
      }
      if (at === undefined) break;
      this.#relower(at);
    }
    for (const made of copies.values()) recycle(made);
  }

  #relower(call: number): void {
    const node = this.#plan.nodeOf(call);
    this.#eager.set(node, (this.#eager.get(node) ?? 0) + 1);
    this.#plan.free();
    this.#plan = new Plan(lower(this.#graph, this.#shim, this.#eager), this.#shim, this.#written);
  }

  /** Whether bytes that the program writes may be those of another of its tensors. */
  #overlaps(args: readonly Storage[]): boolean {
    const { outside, writes } = this.#plan;
    const exposed: [Storage, boolean][] = [];
    for (const { buffer } of outside) {
      const { source } = buffer;
      const storage = source.kind === "argument"
        ? args[source.group]!
        : (source as { storage: Storage }).storage;
      if (storage.exposed) exposed.push([storage, writes.has(buffer)]);
    }
    return exposed.some(([a, written], i) =>
      written &&
      exposed.some(([b], j) =>
        i !== j && (a.array.buffer === b.array.buffer || (a.shared && b.shared))
      )
    );
  }

  #run(args: readonly Storage[], replace?: (storage: Storage) => Storage): readonly Storage[] {
    const plan = this.#plan;
    const real = this.#real;
    const { perRun, captured, arrays, lates, keys, segments, readBack, results } = plan;
    const frame = plan.program.acquire(1)!;
    try {
      plan.prepare(frame);
      let count = 0;
      for (let i = 0; i < perRun.length; i++) {
        const { buffer, place, copied, result } = perRun[i]!;
        const { source } = buffer;
        let storage: Storage;
        if (source.kind === "argument") {
          storage = args[source.group]!;
          if (replace !== undefined && plan.writes.has(buffer)) storage = replace(storage);
        } else {
          storage = (result >= 0 ? this.#out?.[result] : undefined) ??
            allocateFor(buffer.info, buffer.length, false);
        }
        real[place] = storage;
        if (copied === false) arrays[count++] = storage.array;
        else if (copied && source.kind === "argument") frame.write(place, storage.array);
      }
      if (count > 0) frame.bindAll(0, arrays);
      for (let i = 0; i < captured.length; i++) {
        const { buffer, place, copied } = captured[i]!;
        let { storage } = buffer.source as { storage: Storage };
        if (replace !== undefined && plan.writes.has(buffer)) storage = replace(storage);
        real[place] = storage;
        if (copied) frame.write(place, storage.array);
        else if (copied === false) frame.bind(place, storage.array);
      }
      for (let i = 0; i < lates.length; i++) {
        const { storage, value, place } = lates[i]!;
        writeElement(storage, 0, value.now());
        frame.write(place, storage.array);
      }
      for (let i = 0; i < keys.length; i++) {
        const { call, key } = keys[i]!;
        const [word0, word1] = key.now();
        frame.setNumber(call, ATTRIBUTES + 1, word0 >>> 0);
        frame.setNumber(call, ATTRIBUTES + 2, word1 >>> 0);
      }
      for (let i = 0; i < segments.length; i++) {
        const segment = segments[i]!;
        if ("eager" in segment) this.#runEager(segment.eager, frame);
        else if (frame.run(segment.from, segment.to) !== null) return this.#fault(args);
      }
      for (let i = 0; i < readBack.length; i++) {
        const { buffer, place, copied } = readBack[i]!;
        const storage = real[place]!;
        if (copied) frame.read(place, storage.array);
        if (plan.writes.has(buffer)) storage.version++;
      }
      const made: Storage[] = [];
      for (let i = 0; i < results.length; i++) made.push(real[results[i]!]!);
      return made;
    } finally {
      arrays.length = 0;
      frame.release();
    }
  }

  /** Runs the graph by dispatch, which throws the error of the index that is out of range. */
  #fault(args: readonly Storage[]): readonly Storage[] {
    this.#drop();
    this.#replayed = true;
    return this.#replay.run(args);
  }

  #runEager({ call: node, buffers }: EagerStep, frame: Frame): void {
    const places = this.#plan.places;
    const realOf = (buffer: Buffer): Storage => this.#real[places.get(buffer)!]!;
    const copied = [...buffers.values()].filter((buffer) => this.#plan.copied.has(buffer));
    for (const buffer of copied) frame.read(places.get(buffer)!, realOf(buffer).array);
    tidy(() => {
      const operand = (value: unknown): Input => {
        if (!isValue(value as never)) return nowOf(value) as Input;
        const { storage, layout, flags } = value as never as { storage: TracedStorage } & Input & {
          layout: Layout;
          flags: number;
        };
        return { storage: realOf(buffers.get(storage)!), layout, flags };
      };
      const { op, name, inputs, outputs, given, attributes } = node;
      const own = attributes === undefined ? undefined : { ...attributes };
      const call = new Call(op, name, inputs.map(operand), own);
      if (given) call.outputs[0] = operand(outputs[0]) as never;
      performCall(call);
      outputs.forEach(({ storage, layout }, k) => {
        if (given && k === 0) return;
        const target = realOf(buffers.get(storage)!);
        copyInto({ storage: target, layout, flags: 0 }, call.outputs[k]!);
      });
    });
    for (const buffer of copied) frame.write(places.get(buffer)!, realOf(buffer).array);
  }

  /** Frees the storages that the run made and that have no handle. */
  #drop(): void {
    const real = this.#real;
    for (const { place, buffer: { source } } of this.#plan.perRun) {
      const storage = real[place];
      if (storage === undefined || source.kind !== "temporary" || storage.handles > 0) continue;
      recycle(storage);
    }
    real.length = 0;
    this.#out = undefined;
  }

  release(): void {
    if (this.#replayed) this.#replay.release();
    else this.#drop();
    this.#replayed = false;
  }

  dispose(): void {
    this.#plan.free();
  }
}

/** The number of the call for which the shim has no kernel, if that is the error. */
function unsupportedCall(error: unknown): number | undefined {
  if (!(error instanceof NativeError) || error.status !== STATUS.unsupported) return undefined;
  return Number(/call (\d+)/.exec(error.message)![1]);
}

/** The memory and the segments of a program. */
export class Plan {
  readonly lowered: Lowered;
  readonly program: NativeProgram;
  readonly perRun: Bound[] = [];
  readonly captured: Bound[] = [];
  /** Buffers whose elements programs outside see after a run. */
  readonly readBack: Bound[] = [];
  /** The buffers of arguments and captured tensors, if the program writes any of them. */
  readonly outside: readonly Bound[];
  readonly writes: ReadonlySet<Buffer>;
  /** The places of all buffers. */
  readonly places: ReadonlyMap<Buffer, number>;
  readonly copied: Set<Buffer> = new Set();
  /** The places of the results. */
  readonly results: readonly number[];
  readonly lates: { place: number; storage: Storage; value: { now(): number | bigint } }[] = [];
  readonly keys: { call: number; key: LateKey }[] = [];
  readonly segments: Segment[] = [];
  readonly arenaBytes: number;
  /** The arrays of one run, filled and emptied by it. */
  readonly arrays: TypedArray[] = [];
  readonly #calls: NativeStep[] = [];
  readonly #constants: { place: number; copied: boolean; array: TypedArray }[] = [];
  readonly #prepared = new WeakSet<Frame>();

  constructor(lowered: Lowered, shim: Shim, written: ReadonlySet<Storage>) {
    this.lowered = lowered;
    void written;
    const { steps, buffers, results } = lowered;
    const visible = new Set<Buffer>(results);
    for (const step of steps) {
      if (step.kind === "eager") { for (const one of step.buffers.values()) visible.add(one); }
    }
    this.writes = writesOf(lowered);
    const temporaries = buffers.filter((one) =>
      one.bytes === 0 || (one.source.kind === "temporary" && !visible.has(one))
    );
    const lifetimes = temporaries.map((one) => {
      const uses = steps.flatMap((step, i) =>
        step.kind === "native" && step.buffers.includes(one) ? [i] : []
      );
      return { bytes: one.bytes, first: uses[0] ?? 0, last: uses.at(-1) ?? 0 };
    });
    const { offsets, bytes } = planArena(lifetimes);
    const places = new Map<Buffer, ProgramBuffer>();
    temporaries.forEach((one, i) => {
      places.set(one, { kind: "arena", bytes: one.bytes, offset: offsets[i]! });
    });
    let end = bytes;
    for (const one of buffers) {
      if (places.has(one)) continue;
      if (one.bytes <= COPIED_BYTES) {
        places.set(one, { kind: "copied", bytes: one.bytes, offset: end });
        end += COPIED_BYTES;
      } else {
        const kept = one.source.kind === "captured" || one.source.kind === "constant";
        places.set(one, { kind: "bound", bytes: one.bytes, kept });
      }
    }
    this.arenaBytes = end;
    // Those of each run come first, so that few calls bind them.
    const order = [...places.keys()].sort((a, b) => rank(a, places) - rank(b, places));
    const placeOf = this.places = new Map(order.map((one, place) => [one, place]));
    this.results = results.map((one) => placeOf.get(one)!);
    const calls: ProgramCall[] = [];
    for (const step of steps) {
      if (step.kind === "eager") {
        this.segments.push({ eager: step });
        continue;
      }
      if (step.key !== null) this.keys.push({ call: calls.length, key: step.key });
      const last = this.segments.at(-1);
      if (last !== undefined && "to" in last) {
        this.segments[this.segments.length - 1] = { from: last.from, to: last.to + 1 };
      } else this.segments.push({ from: calls.length, to: calls.length + 1 });
      this.#calls.push(step);
      calls.push({
        kernel: step.kernel,
        compute: step.compute,
        dtypes: step.dtypes,
        buffers: step.buffers.map((one) => one === null ? -1 : placeOf.get(one)!),
        numbers: step.numbers,
        checksIndex: step.checksIndex,
      });
    }
    this.program = new NativeProgram(shim, {
      buffers: order.map((one) => places.get(one)!),
      calls,
      arenaBytes: end,
    });
    order.forEach((buffer, place) => this.#file(buffer, place, places.get(buffer)!));
    const isOutside = ({ buffer: { source: { kind } } }: Bound): boolean =>
      kind === "argument" || kind === "captured";
    const all = [...this.perRun, ...this.captured];
    const writesOutside = all.some((one) => isOutside(one) && this.writes.has(one.buffer));
    this.outside = writesOutside ? all.filter(isOutside) : [];
    for (const bound of all) {
      const isResult = results.includes(bound.buffer) && bound.copied === true;
      if (isOutside(bound) ? this.writes.has(bound.buffer) : isResult) this.readBack.push(bound);
    }
  }

  #file(buffer: Buffer, place: number, { kind }: ProgramBuffer): void {
    const { source, info } = buffer;
    const copied = buffer.bytes === 0 ? null : kind === "copied";
    if (kind === "copied") this.copied.add(buffer);
    const result = this.lowered.results.indexOf(buffer);
    switch (source.kind) {
      case "constant":
        if (copied !== null) this.#constants.push({ place, copied, array: source.array });
        break;
      case "late": {
        const storage = new Storage(new info.array(info.entries), info, true, false);
        this.lates.push({ place, storage, value: source.value });
        break;
      }
      case "captured":
        this.captured.push({ buffer, place, copied, result });
        break;
      case "argument":
        this.perRun.push({ buffer, place, copied, result });
        break;
      default:
        if (kind !== "arena" || buffer.bytes === 0) {
          this.perRun.push({ buffer, place, copied, result });
        }
    }
  }

  /** Puts the constants into a new frame. */
  prepare(frame: Frame): void {
    if (this.#prepared.has(frame)) return;
    this.#prepared.add(frame);
    for (const { place, copied, array } of this.#constants) {
      if (copied) frame.write(place, array);
      else frame.bind(place, array);
    }
  }

  /** The node of the graph that asked for a call. */
  nodeOf(call: number): number {
    return this.#calls[call]!.node;
  }

  free(): void {
    this.program.free();
  }
}

/** The buffers that steps write. */
function writesOf({ steps }: Lowered): Set<Buffer> {
  const written = new Set<Buffer>();
  for (const step of steps) {
    if (step.kind === "native") {
      for (let k = 0; k < step.outputs; k++) written.add(step.buffers[k]!);
      // Some kernels have two outputs.
      if (step.op === "topk" && step.buffers[2] !== null) written.add(step.buffers[2]!);
      continue;
    }
    const { op, inputs, outputs } = step.call;
    for (const k of op.writes ?? []) {
      const input = inputs[k]!;
      if (isValue(input)) written.add(step.buffers.get(input.storage)!);
    }
    for (const { storage } of outputs) written.add(step.buffers.get(storage)!);
  }
  return written;
}

/** Bound buffers of each run first, then all others. */
function rank(buffer: Buffer, places: ReadonlyMap<Buffer, ProgramBuffer>): number {
  const { kind } = places.get(buffer)!;
  if (kind !== "bound") return 2;
  return buffer.source.kind === "captured" || buffer.source.kind === "constant" ? 1 : 0;
}
