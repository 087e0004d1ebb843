/**
 * The memory and the calls of a lowered graph: which buffers are bound, copied or in the arena, and
 * what runs natively in one go.
 *
 * @module
 */
import type { DTypeInfo, TypedArray } from "../base/dtype.ts";
import { OutOfMemoryError } from "../base/errors.ts";
import { CONFIGURE, PROGRAM_LIMITS, type Shim } from "../backend/ffi/abi.ts";
import {
  type Frame,
  NativeProgram,
  type ProgramBuffer,
  type ProgramCall,
} from "../backend/native/program.ts";
import { writeElement } from "../memory/element.ts";
import { allocateIn, type LinearMemory } from "../memory/pool.ts";
import { Storage } from "../memory/storage.ts";
import type { PlaceholderKey } from "../api/random/placeholder_key.ts";
import { isOutside, isValue } from "./graph.ts";
import type { Loop, Lowered } from "./lower.ts";
import type { Buffer, EagerStep, NativeStep, Step } from "./recorder.ts";

/**
 * Buffers up to this size are copied into the frame, and out: engines may keep the elements of such
 * arrays in objects that move.
 */
const COPIED_BYTES = 64;

/** The most bytes of a buffer in a linear memory: kernels count elements in 31 bits there. */
const MOST_LINEAR = 2 ** 31 - 1;

/** A buffer of each run, and its real storage in it. */
export interface Bound {
  readonly buffer: Buffer;
  readonly place: number;
  /** Whether its elements are copied instead of bound; null if there are none. */
  readonly copied: boolean | null;
  /** Its place among the results that are made; -1 if it is none. */
  readonly result: number;
}

/** Runs of kernels, and ops by dispatch between them. */
export type Segment =
  | { readonly from: number; readonly to: number }
  | { readonly eager: EagerStep };

/** The numbers and random keys of one run. */
export interface PlaceholderValues {
  readonly plan: Plan;
  readonly numbers: readonly TypedArray[];
  readonly keys: readonly (readonly [number, number])[];
}

/** A cache line, so that no two threads write one. */
const ALIGNMENT = 64;

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
  readonly placeholders: {
    place: number;
    storage: Storage;
    value: { current(): number | bigint };
  }[] = [];
  readonly keys: { call: number; key: PlaceholderKey }[] = [];
  readonly segments: Segment[] = [];
  readonly arenaBytes: number;
  /** The arrays of one run, filled and emptied by it. */
  readonly arrays: TypedArray[] = [];
  readonly #calls: NativeStep[] = [];
  readonly #constants: {
    readonly place: number;
    readonly copied: boolean;
    readonly array: TypedArray;
    readonly info: DTypeInfo;
  }[] = [];
  readonly #prepared = new WeakSet<Frame>();
  /** The only memory that the kernels address; null if they address all. */
  readonly #memory: LinearMemory | null;
  /** The copies of constants in it. */
  readonly #moved = new Map<TypedArray, Storage>();

  constructor(lowered: Lowered, shim: Shim, memory: LinearMemory | null) {
    this.lowered = lowered;
    this.#memory = memory;
    const { steps, loops, buffers, results } = lowered;
    const visible = new Set<Buffer>(results);
    for (const step of steps) {
      if (step.kind === "eager") { for (const one of step.buffers.values()) visible.add(one); }
    }
    this.writes = writesOf(lowered);
    const temporaries = buffers.filter((one) =>
      one.bytes === 0 || (one.source.kind === "temporary" && !visible.has(one))
    );
    const slots = Math.min(shim.rm_configure(CONFIGURE.threads, -1), PROGRAM_LIMITS.slots);
    const slotBytes = new Map<Buffer, number>();
    for (const { inner } of loops) {
      for (const one of inner) slotBytes.set(one, up(one.bytes));
    }
    const uses = usesOf(steps, loops);
    const isTemporary = new Set(temporaries);
    const sharing = sharedMemory(steps, uses, (one) => isTemporary.has(one) && !slotBytes.has(one));
    const owners = temporaries.filter((one) => !sharing.has(one));
    const lifetimes = owners.map((one) => {
      const bytes = slotBytes.has(one) ? slotBytes.get(one)! * slots : one.bytes;
      return { bytes, ...uses.get(one) ?? { first: steps.length, last: 0 } };
    });
    const { offsets, bytes } = planArena(lifetimes);
    const places = new Map<Buffer, ProgramBuffer>();
    owners.forEach((one, i) => {
      places.set(one, { kind: "arena", bytes: lifetimes[i]!.bytes, offset: offsets[i]! });
    });
    for (const [one, owner] of sharing) places.set(one, places.get(owner)!);
    for (const one of buffers) {
      if (places.has(one)) continue;
      if (one.bytes <= COPIED_BYTES) places.set(one, { kind: "copied", bytes: one.bytes });
      else {
        const kept = one.source.kind === "captured" || one.source.kind === "constant";
        places.set(one, { kind: "bound", bytes: one.bytes, kept });
      }
    }
    this.arenaBytes = bytes;
    const largest = Math.max(bytes, ...buffers.map((one) => one.bytes));
    if (memory !== null && largest > MOST_LINEAR) throw new OutOfMemoryError(largest, "cpu");
    // Those of each run come first, so that few calls bind them.
    const order = [...places.keys()].sort((a, b) => rank(a, places) - rank(b, places));
    const placeOf = this.places = new Map(order.map((one, place) => [one, place]));
    this.results = results.map((one) => placeOf.get(one)!);
    const calls: ProgramCall[] = [];
    const callOf: number[] = [];
    for (const step of steps) {
      callOf.push(calls.length);
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
      arenaBytes: bytes,
      loops: loops.map(({ first, body, rest, tiles, work, tileBytes }) => ({
        ...{ first: callOf[first]!, body, rest, tiles, slots, work },
        steps: steps.slice(first, first + body + rest).map((step) =>
          (step as NativeStep).buffers.map((one) => ({
            tile: one === null ? 0 : tileBytes.get(one) ?? 0,
            slot: one === null ? 0 : slotBytes.get(one) ?? 0,
          }))
        ),
      })),
    });
    order.forEach((buffer, place) => this.#file(buffer, place, places.get(buffer)!));
    const all = [...this.perRun, ...this.captured];
    const outside = all.filter(({ buffer }) => isOutside(buffer.source));
    this.outside = outside.some(({ buffer }) => this.writes.has(buffer)) ? outside : [];
    for (const bound of all) {
      const isResult = results.includes(bound.buffer) && bound.copied === true;
      if (outside.includes(bound) ? this.writes.has(bound.buffer) : isResult) {
        this.readBack.push(bound);
      }
    }
  }

  #file(buffer: Buffer, place: number, { kind }: ProgramBuffer): void {
    const { source, info } = buffer;
    const copied = buffer.bytes === 0 ? null : kind === "copied";
    if (kind === "copied") this.copied.add(buffer);
    const result = this.lowered.results.indexOf(buffer);
    switch (source.kind) {
      case "constant":
        if (copied !== null) this.#constants.push({ place, copied, array: source.array, info });
        break;
      case "placeholder": {
        const storage = new Storage(new info.array(info.entries), info, true, false);
        this.placeholders.push({ place, storage, value: source.value });
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

  /** The numbers and keys of the current call, for a run that begins later. */
  placeholderValues(): PlaceholderValues {
    return {
      plan: this,
      numbers: this.placeholders.map(({ storage, value }) => {
        writeElement(storage, 0, value.current());
        return storage.array.slice() as TypedArray;
      }),
      keys: this.keys.map(({ key }) => key.current()),
    };
  }

  /** Puts the constants into a new frame. Throws an OutOfMemoryError. */
  prepare(frame: Frame): void {
    if (this.#prepared.has(frame)) return;
    for (const { place, copied, array, info } of this.#constants) {
      if (copied) frame.write(place, array);
      else frame.bind(place, this.#addressable(array, info));
    }
    this.#prepared.add(frame);
  }

  /** The elements of a constant where kernels can address them. */
  #addressable(array: TypedArray, info: DTypeInfo): TypedArray {
    const memory = this.#memory;
    if (memory === null || array.buffer === memory.buffer) return array;
    let moved = this.#moved.get(array);
    if (moved === undefined) {
      moved = allocateIn(memory, info, array.length / info.entries);
      if (moved === undefined) throw new OutOfMemoryError(array.byteLength, "cpu");
      (moved.array as Float64Array).set(array as Float64Array);
      this.#moved.set(array, moved);
    }
    return moved.array;
  }

  /** Whether a call runs once for each tile. */
  isInLoop(call: number): boolean {
    const { loops = [] } = this.program.spec;
    return loops.some(({ first, steps }) => call >= first && call < first + steps.length);
  }

  /** The error of a call that has no room: as much as its largest buffer would be needed. */
  outOfMemory(call: number): OutOfMemoryError {
    const { calls, buffers } = this.program.spec;
    const { buffers: used } = calls[call]!;
    const bytes = Math.max(...used.map((place) => place < 0 ? 0 : buffers[place]!.bytes));
    return new OutOfMemoryError(bytes, "cpu", "the memory of the kernels is full");
  }

  /** The node of the graph that asked for a call. */
  nodeOf(call: number): number {
    return this.#calls[call]!.node;
  }

  free(): void {
    // Frames in use may still read the copies of constants: they end with this object.
    this.program.free();
  }
}

/** The buffers that steps write; of second outputs, which are always new, not all. */
function writesOf({ steps }: Lowered): Set<Buffer> {
  return new Set(steps.flatMap(writtenBy));
}

function writtenBy(step: Step): readonly Buffer[] {
  if (step.kind === "native") return step.buffers.slice(0, step.outputs) as Buffer[];
  const { op, inputs, outputs } = step.call;
  const given = (op.writes ?? []).map((k) => inputs[k]!).filter(isValue);
  return [...given, ...outputs].map(({ storage }) => step.buffers.get(storage)!);
}

/** The first step, or that of its loop, which writes memory outside of the program. */
export function firstWrite({ steps, loops }: Lowered): number {
  const at = steps.findIndex((step) => writtenBy(step).some((buffer) => isOutside(buffer.source)));
  const own = loops.find(({ first, body, rest }) => at >= first && at < first + body + rest);
  return at < 0 ? steps.length : own?.first ?? at;
}

/** Bound buffers of each run first, then all others. */
function rank(buffer: Buffer, places: ReadonlyMap<Buffer, ProgramBuffer>): number {
  const { kind } = places.get(buffer)!;
  if (kind !== "bound") return 2;
  return buffer.source.kind === "captured" || buffer.source.kind === "constant" ? 1 : 0;
}

// ---- the arena -----------------------------------------------------------------------------------

/** A buffer of the arena, needed from one step to another, both included. */
interface Lifetime {
  readonly bytes: number;
  readonly first: number;
  readonly last: number;
}

/** A place in the arena. */
interface Arena {
  /** The first byte of each buffer. */
  readonly offsets: readonly number[];
  readonly bytes: number;
}

/** The first and the last step that uses each buffer. All tiles of a loop may run at the same time. */
function usesOf(
  steps: Lowered["steps"],
  loops: readonly Loop[],
): Map<Buffer, { first: number; last: number }> {
  const uses = new Map<Buffer, { first: number; last: number }>();
  steps.forEach((step, i) => {
    if (step.kind !== "native") return;
    const loop = loops.find(({ first, body, rest }) => i >= first && i < first + body + rest);
    const [from, to] = loop === undefined
      ? [i, i]
      : [loop.first, loop.first + loop.body + loop.rest - 1];
    for (const buffer of step.buffers) {
      if (buffer === null) continue;
      const known = uses.get(buffer);
      if (known === undefined) uses.set(buffer, { first: from, last: to });
      else {
        known.first = Math.min(known.first, from);
        known.last = Math.max(known.last, to);
      }
    }
  });
  return uses;
}

/**
 * The buffers that take the memory of another, which the step that makes them is the last to read: that
 * of the first of them, whose use is extended. `isFree` tells of the buffers whose memory may be shared.
 */
function sharedMemory(
  steps: Lowered["steps"],
  uses: ReadonlyMap<Buffer, { first: number; last: number }>,
  isFree: (buffer: Buffer) => boolean,
): Map<Buffer, Buffer> {
  const owners = new Map<Buffer, Buffer>();
  steps.forEach((step, i) => {
    const taken = new Set<Buffer>();
    for (const [written, read] of step.kind === "native" ? step.inPlace : []) {
      const owner = owners.get(read) ?? read;
      const [from, to] = [uses.get(owner)!, uses.get(written)!];
      const ends = from.last === i && from.first < i && to.first === i;
      if (!ends || owners.has(written) || !isFree(written) || !isFree(owner)) continue;
      if (taken.has(owner)) continue;
      taken.add(owner);
      owners.set(written, owner);
      from.last = to.last;
    }
  });
  return owners;
}

/**
 * Rows that are a multiple of 4 KiB apart share few cache sets: buffers of this size and more begin
 * at different lines of a page.
 */
const STAGGER_FROM = 4096;

/** The orders in which buffers get their places: the largest first, or those in use for a long time. */
const ORDERS: readonly ((a: Lifetime, b: Lifetime) => number)[] = [
  (a, b) => b.bytes - a.bytes || a.first - b.first,
  (a, b) => b.bytes * (b.last - b.first + 1) - a.bytes * (a.last - a.first + 1),
  (a, b) => b.last - b.first - a.last + a.first || b.bytes - a.bytes,
];

/** The most bytes of buffers that are in use at once. */
function mostInUse(lifetimes: readonly Lifetime[]): number {
  const changes = new Map<number, number>();
  for (const { bytes, first, last } of lifetimes) {
    if (last < first) continue;
    changes.set(first, (changes.get(first) ?? 0) + up(bytes));
    changes.set(last + 1, (changes.get(last + 1) ?? 0) - up(bytes));
  }
  let most = 0, now = 0;
  for (const [, change] of [...changes].sort(([a], [b]) => a - b)) {
    most = Math.max(most, now += change);
  }
  return most;
}

/** The places of buffers, by the first order that loses little, or else the one that loses least. */
function planArena(lifetimes: readonly Lifetime[]): Arena {
  const enough = mostInUse(lifetimes) * 1.05;
  let best: Arena | undefined;
  for (const order of ORDERS) {
    const made = placeBuffers(lifetimes, order);
    if (best === undefined || made.bytes < best.bytes) best = made;
    if (best.bytes <= enough) break;
  }
  return best!;
}

/** The places of buffers in an order, each in the smallest gap that is large enough. */
function placeBuffers(
  lifetimes: readonly Lifetime[],
  compare: (a: Lifetime, b: Lifetime) => number,
): Arena {
  const offsets: number[] = new Array(lifetimes.length).fill(0);
  const order = lifetimes.map((_, i) => i)
    .sort((i, j) => compare(lifetimes[i]!, lifetimes[j]!) || i - j);
  const placed: number[] = [];
  const sizes = lifetimes.map(({ bytes }, i) =>
    up(bytes) + (bytes >= STAGGER_FROM ? i % 8 * ALIGNMENT : 0)
  );
  let total = 0;
  for (const i of order) {
    const { first, last } = lifetimes[i]!;
    const others = placed
      .filter((j) => lifetimes[j]!.first <= last && lifetimes[j]!.last >= first)
      .sort((j, k) => offsets[j]! - offsets[k]!);
    let best = -1;
    let bestGap = Infinity;
    let end = 0;
    for (const j of others) {
      const gap = offsets[j]! - end;
      if (gap >= sizes[i]! && gap < bestGap) [best, bestGap] = [end, gap];
      end = Math.max(end, offsets[j]! + sizes[j]!);
    }
    offsets[i] = best >= 0 ? best : end;
    total = Math.max(total, offsets[i]! + sizes[i]!);
    placed.push(i);
  }
  return { offsets, bytes: total };
}

function up(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}
