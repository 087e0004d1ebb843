/**
 * Programs run lists of kernel calls in one foreign call: the results are those of the same calls
 * one by one, faults name the call, and frames do not share what a run changes.
 *
 * @module
 */
import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { emptyCache, memory } from "../../src/memory/pool.ts";
import { CONFIGURE, opHash, PROGRAM, STATUS } from "../../src/backend/ffi/abi.ts";
import {
  type Frame,
  NativeProgram,
  type ProgramBuffer,
  type ProgramCall,
  type ProgramSpec,
} from "../../src/backend/native/program.ts";
import { DisposedError, NativeError, OutOfMemoryError } from "../../src/base/errors.ts";
import { ATTRIBUTES, OFFSETS } from "../../src/base/plan.ts";
import type { MapOp } from "../../src/table/op.ts";
import { MAP } from "../../src/table/table.ts";
import { dense, F32, gatherCall, kernelOf, mapCall } from "../native/programs.ts";
import { check, shim } from "../native/support.ts";

const N = 16;
const BYTES = 4 * N;

function map(op: MapOp, buffers: number[], numbers = dense(op.arity, N)): ProgramCall {
  return mapCall(shim, op, buffers, numbers);
}

function arrayOf(...values: number[]): Float32Array {
  return Float32Array.from({ length: N }, (_, i) => values[i % values.length]!);
}

/** Runs `body` in a new program, which is freed. */
function within(spec: ProgramSpec, body: (frame: Frame, program: NativeProgram) => void): void {
  const program = new NativeProgram(shim, spec);
  const frame = program.acquire()!;
  try {
    body(frame, program);
  } finally {
    frame.release();
    program.free();
  }
}

const bound: ProgramBuffer = { kind: "bound", bytes: BYTES };
const arena = (offset: number): ProgramBuffer => ({ kind: "arena", bytes: BYTES, offset });
const copied: ProgramBuffer = { kind: "copied", bytes: BYTES };

/** out = (a + b) · b, with a and b bound, the sum in the arena, and out copied. */
const PRODUCT: ProgramSpec | undefined = shim && {
  buffers: [bound, bound, arena(64), copied],
  calls: [map(MAP.add, [2, 0, 1]), map(MAP.mul, [3, 2, 1])],
  arenaBytes: 192,
};

check("a program runs its calls in order, with other arrays each time", () => {
  within(PRODUCT!, (frame) => {
    const out = new Float32Array(N);
    for (const [x, y] of [[1, 2], [3, -4], [0.5, 8]] as const) {
      frame.bind(0, arrayOf(x, x + 1), arrayOf(y));
      assertEquals(frame.run(), null);
      frame.read(3, out);
      assertEquals(out, arrayOf((x + y) * y, (x + 1 + y) * y));
    }
  });
});

check("a run can take some of the calls", () => {
  within(PRODUCT!, (frame) => {
    const [out, one] = [new Float32Array(N), arrayOf(1)];
    frame.bind(0, one, arrayOf(2));
    frame.run(0, 1);
    frame.read(3, out);
    assertEquals(out, new Float32Array(N));
    // The sum is in the arena by now.
    one.fill(7);
    frame.run(1);
    frame.read(3, out);
    assertEquals(out, arrayOf(6));
    for (const [from, to] of [[-1, 1], [0, 3], [2, 1], [NaN, 1], [0, NaN]] as const) {
      assertThrows(() => frame.run(from, to), NativeError, "there are no calls");
    }
  });
});

check("bound arrays of any number are set in groups, and views by their own addresses", () => {
  const count = 11;
  const buffers = [...Array.from({ length: count }, () => bound), copied];
  const calls = Array.from({ length: count }, (_, i) => map(MAP.add, [count, count, i]));
  within({ buffers, calls, arenaBytes: BYTES }, (frame) => {
    const all = new Float32Array(new ArrayBuffer(count * BYTES));
    all.forEach((_, i) => all[i] = Math.floor(i / N) + 1);
    frame.bindAll(0, Array.from({ length: count }, (_, i) => all.subarray(i * N, (i + 1) * N)));
    frame.run();
    const out = new Float32Array(N);
    frame.read(count, out);
    assertEquals(out, arrayOf(66));
  });
});

check("small arrays keep their addresses while they are bound", () => {
  within(PRODUCT!, (frame) => {
    // V8 moves typed arrays of up to 64 bytes, JavaScriptCore those of up to 1000 elements.
    const [a, b] = [new Float32Array(N).fill(2), new Float32Array(N).fill(3)];
    frame.bind(0, a, b);
    const others: Float32Array[] = [];
    for (let i = 0; i < 200_000; i++) others[i % 64] = new Float32Array(N).fill(i);
    assertEquals([a.buffer.byteLength, b.subarray(1).length], [BYTES, N - 1]);
    frame.run();
    const out = new Float32Array(N);
    frame.read(3, out);
    assertEquals(out, arrayOf(15));
    assertEquals(others.length, 64);
  });
});

check("frames do not share numbers, addresses or arenas", () => {
  const numbers = dense(1, N);
  const call = map(MAP.neg, [1, 0], numbers);
  const program = new NativeProgram(shim, {
    buffers: [copied, copied],
    calls: [call],
    arenaBytes: 128,
  });
  const [first, second] = [program.acquire(2)!, program.acquire(2)!];
  assertEquals([program.acquire(2), program.frames], [null, 2]);
  first.write(0, arrayOf(1));
  second.write(0, arrayOf(2));
  // The input begins an element later, and there is one less.
  second.setNumber(0, OFFSETS + 1, 1);
  second.setNumber(0, OFFSETS + 2, N - 1);
  numbers.fill(NaN);
  for (const frame of [first, second]) assertEquals(frame.run(), null);
  const out = new Float32Array(N);
  first.read(1, out);
  assertEquals(out, arrayOf(-1));
  second.read(1, out);
  assertEquals(out, Float32Array.from({ length: N }, (_, i) => i < N - 1 ? -2 : 0));
  for (const [at, index] of [[1, 0], [0, numbers.length], [0, -1], [-1, 0]] as const) {
    assertThrows(() => first.setNumber(at, index, 0), NativeError, "has no number");
  }
  first.release();
  assertThrows(() => first.run(), NativeError, "the frame was released");
  assertEquals(program.acquire(2), first);
  first.release();
  second.release();
  program.free();
});

check("what a kernel has kept of a call does not outlive its numbers and settings", () => {
  const call = map(MAP.neg, [1, 0]);
  within({ buffers: [bound, bound], calls: [call], arenaBytes: 0 }, (frame) => {
    const [first, out] = [arrayOf(1, 2), new Float32Array(N)];
    frame.bind(0, first, out);
    for (let i = 0; i < 2; i++) frame.run();
    const [second, other] = [arrayOf(3), new Float32Array(N)];
    frame.bind(0, second, other);
    const levels = [2, 3, 4, 0];
    for (const level of levels) {
      other.fill(0);
      shim!.rm_configure(CONFIGURE.level, level);
      frame.run();
      assertEquals(other, arrayOf(-3), `level ${level}`);
    }
    assertEquals(out, arrayOf(-1, -2));
    other.fill(0);
    frame.setNumber(0, OFFSETS + 2, N - 1);
    for (let i = 0; i < 2; i++) frame.run();
    assertEquals(other, Float32Array.from({ length: N }, (_, i) => i < N - 1 ? -3 : 0));
  });
});

check("a run stops at an index out of range, and the next run is right", () => {
  const buffers: ProgramBuffer[] = [
    bound,
    { kind: "copied", bytes: 12 },
    copied,
    copied,
  ];
  const calls = [
    map(MAP.neg, [3, 0]),
    gatherCall(shim, [2, 3, 1], 3, N),
    map(MAP.neg, [3, 2], dense(1, 3)),
  ];
  within({ buffers, calls, arenaBytes: 192 }, (frame) => {
    const x = Float32Array.from({ length: N }, (_, i) => i);
    const out = new Float32Array(N);
    frame.bind(0, x);
    frame.write(1, Int32Array.of(1, N - 1, -2));
    assertEquals(frame.run(), null);
    frame.read(3, out);
    assertEquals(Array.from(out.subarray(0, 3)), [1, N - 1, N - 2]);
    for (const indices of [[0, N, 0], [1, 2, -N - 1]]) {
      frame.write(1, Int32Array.from(indices));
      const badIndex = indices.findIndex((i) => i >= N || i < -N);
      assertEquals(frame.run(), { call: 1, badIndex });
      frame.read(3, out);
      assertEquals(out, x.map((value) => 0 - value), "calls after the fault have not run");
    }
    frame.write(1, Int32Array.of(5, 6, 7));
    assertEquals(frame.run(), null);
    frame.read(3, out);
    assertEquals(Array.from(out.subarray(0, 3)), [5, 6, 7]);
    // The first attribute is where the indices begin; it survives the finding of the kernel.
    frame.setNumber(1, ATTRIBUTES, 1);
    frame.setNumber(1, ATTRIBUTES + 1, 2);
    for (let i = 0; i < 2; i++) assertEquals(frame.run(), null);
    frame.read(2, out);
    assertEquals(Array.from(out.subarray(0, 3)), [-6, -7, -7]);
  });
});

check("an error of a call names its number and kernel", () => {
  const broken = dense(2, N);
  broken[1] = 2;
  const calls = [map(MAP.add, [2, 0, 1]), map(MAP.sub, [2, 0, 1], broken)];
  within({ ...PRODUCT!, calls }, (frame) => {
    frame.bind(0, arrayOf(1), arrayOf(2));
    const error = assertThrows(() => frame.run(), NativeError);
    assertEquals(error.status, STATUS.badArgument);
    assertMatch(error.message, /call 1, sub: the plan has 2 operands, the op 3$/);
    assertEquals(frame.run(0, 1), null);
  });
  const none = { ...map(MAP.add, [2, 0, 1]), dtypes: [F32, F32, 200] };
  within({ ...PRODUCT!, calls: [none] }, (frame) => {
    frame.bind(0, arrayOf(1), arrayOf(2));
    const error = assertThrows(() => frame.run(), NativeError, "call 0, add: no kernel");
    assertEquals(error.status, STATUS.unsupported);
  });
});

check("arrays that do not fit a buffer are errors and change nothing", () => {
  within(PRODUCT!, (frame) => {
    const [a, out] = [arrayOf(1), new Float32Array(N)];
    const b = new Float32Array(new ArrayBuffer(BYTES)).fill(2);
    assertThrows(() => frame.run(), NativeError, "buffer 0 has no array");
    frame.bind(0, a);
    assertThrows(() => frame.run(), NativeError, "buffer 1 has no array");
    frame.bind(0, a, b);
    const short = new Float32Array(N - 1);
    assertThrows(() => frame.bind(0, short), NativeError, "buffer 0 has 64 bytes, its array 60");
    assertThrows(() => frame.bind(0, arrayOf(5), short), NativeError, "buffer 1 has 64 bytes");
    assertThrows(() => frame.bind(1, a, b), NativeError, "buffer 2 is not bound");
    assertThrows(() => frame.bind(9, a), NativeError, "buffer 9 is not bound");
    assertThrows(() => frame.bind(-1, a), NativeError, "buffer -1 is not bound");
    assertThrows(() => frame.write(0, a), NativeError, "buffer 0 is not copied");
    assertThrows(() => frame.read(2, out), NativeError, "buffer 2 is not copied");
    assertThrows(() => frame.read(3, short), NativeError, "buffer 3 has 64 bytes, its array 60");
    const resizable = new Float32Array(new ArrayBuffer(BYTES, { maxByteLength: 2 * BYTES }));
    assertThrows(() => frame.bind(0, resizable), NativeError, "resizable");
    const gone = new Float32Array(new ArrayBuffer(BYTES));
    structuredClone(gone.buffer, { transfer: [gone.buffer] });
    assertThrows(() => frame.bind(0, gone), DisposedError, "buffer 0 was transferred");
    assertThrows(() => frame.write(3, gone), DisposedError, "buffer 3 was transferred");
    frame.run();
    frame.read(3, out);
    assertEquals(out, arrayOf(6));
    structuredClone(b.buffer, { transfer: [b.buffer] });
    assertThrows(() => frame.bind(0, a, b), DisposedError, "buffer 1 was transferred");
  });
});

check("released frames keep the arrays that are kept, and no others", () => {
  const buffers: ProgramBuffer[] = [
    { ...bound, kept: true } as ProgramBuffer,
    bound,
    arena(0),
    copied,
  ];
  within({ ...PRODUCT!, buffers }, (frame, program) => {
    frame.bind(0, arrayOf(1), arrayOf(2));
    assertEquals(frame.run(), null);
    frame.release();
    // Twice is no error.
    frame.release();
    assertEquals([program.acquire(), program.acquire()], [frame, null]);
    assertThrows(() => frame.run(), NativeError, "buffer 1 has no array");
    frame.bind(1, arrayOf(3));
    assertEquals(frame.run(), null);
    const out = new Float32Array(N);
    frame.read(3, out);
    assertEquals(out, arrayOf(12));
  });
});

check("a freed program frees its frames once they are released", () => {
  const program = new NativeProgram(shim, PRODUCT!);
  const before = program.bytes;
  const [used, idle] = [program.acquire(2)!, program.acquire(2)!];
  assertEquals(program.bytes - before >= 2 * BYTES, true);
  idle.release();
  program.free();
  used.bind(0, arrayOf(1), arrayOf(2));
  assertEquals(used.run(), null);
  const out = new Float32Array(N);
  used.read(3, out);
  assertEquals([out, program.frames], [arrayOf(6), 1]);
  used.release();
  assertEquals(program.frames, 0);
  used.release();
  program.free();
  for (
    const f of [
      () => program.acquire(),
      () => idle.read(3, out),
      () => used.bind(0, arrayOf(1), arrayOf(2)),
      () => used.setNumber(0, 0, 1),
    ]
  ) assertThrows(f, DisposedError, "was disposed of");
});

check("malformed programs are refused", () => {
  const [good] = PRODUCT!.calls as [ProgramCall];
  const calls = (change: Partial<ProgramCall>): ProgramSpec => ({
    ...PRODUCT!,
    calls: [{ ...good, ...change }],
  });
  const buffer = (change: object): ProgramSpec => ({
    ...PRODUCT!,
    buffers: [bound, bound, { ...arena(64), ...change } as ProgramBuffer, copied],
  });
  const specs: [ProgramSpec, string][] = [
    [calls({ buffers: [4, 0, 1] }), "call 0 uses buffer 4 of 4"],
    [calls({ buffers: [-2, 0, 1] }), "uses buffer -2"],
    [calls({ buffers: [0.5, 0, 1] }), "uses buffer 0.5"],
    [calls({ dtypes: [F32] }), "1 dtypes and 3 buffers"],
    [calls({ checksIndex: true, numbers: new Float64Array(ATTRIBUTES) }), "no attributes"],
    [calls({ kernel: -1 }), "malformed"],
    [calls({ kernel: 1e6 }), "malformed"],
    [calls({ kernel: NaN }), "malformed"],
    [calls({ compute: 256 }), "malformed"],
    [calls({ dtypes: [F32, F32, -1] }), "malformed"],
    [buffer({ offset: 136 }), "bytes 136 to 200 of 192"],
    [buffer({ offset: 4 }), "bytes 4 to 68"],
    [buffer({ offset: -8 }), "bytes -8 to 56"],
    [buffer({ bytes: -1 }), "has -1 bytes"],
    [buffer({ bytes: 2 ** 60 }), `has ${2 ** 60} bytes`],
    [buffer({ kind: "bound", bytes: 0 }), "has no bytes"],
    [{ ...PRODUCT!, arenaBytes: 127 }, "of 127"],
    [{ ...PRODUCT!, arenaBytes: NaN }, "the arena has NaN bytes"],
  ];
  for (const [spec, message] of specs) {
    assertThrows(() => new NativeProgram(shim, spec), NativeError, message);
  }
});

check("a loop runs its calls for each tile, each slot in memory of its own", () => {
  // b = a + a in tiles of 2 of 5 elements, then c = b + b; b lives in slots.
  const call = (n: number, to: number, from: number): ProgramCall =>
    mapCall(shim, MAP.add, [to, from, from], dense(2, n));
  const [tiles, slots] = [2, 3];
  const spec = (loop: object): ProgramSpec => ({
    buffers: [
      { kind: "bound", bytes: 20 },
      { kind: "bound", bytes: 20 },
      { kind: "arena", bytes: 64 * slots, offset: 0 },
    ],
    calls: [call(2, 2, 0), call(2, 1, 2), call(1, 2, 0), call(1, 1, 2)],
    arenaBytes: 64 * slots,
    loops: [{
      ...{ first: 0, body: 2, rest: 2, tiles, slots, work: 1e9 },
      steps: [0, 1].flatMap(() => [
        [{ tile: 0, slot: 64 }, { tile: 8, slot: 0 }, { tile: 8, slot: 0 }],
        [{ tile: 8, slot: 0 }, { tile: 0, slot: 64 }, { tile: 0, slot: 64 }],
      ]),
      ...loop,
    }],
  });
  const program = new NativeProgram(shim, spec({}));
  const frame = program.acquire()!;
  const c = new Float32Array(5);
  frame.bind(0, Float32Array.of(1, 2, 3, 4, 5), c);
  frame.run();
  assertEquals([...c], [4, 8, 12, 16, 20]);
  program.free();
  for (const bad of [{ first: 4 }, { body: 5 }, { rest: 3 }, { slots: 33 }, { tiles: 0 }]) {
    assertThrows(() => new NativeProgram(shim, spec(bad)), NativeError, "malformed");
  }
});

check("the shim reads no further than a program's end", () => {
  // The same as PRODUCT's first call, truncated everywhere.
  const whole = [0, 3, 1, 64, 64, 1, 0, 64, 0, 0, 64, 2, 0, 64];
  whole.push(
    kernelOf(shim, "add", opHash(MAP.add)),
    F32,
    0,
    4,
    2,
    F32,
    F32,
    F32,
    255,
    1,
    0,
    0,
    -1,
    1,
    2,
    // No loops.
    0,
  );
  const make = (length: number): number => {
    const numbers = Float64Array.from(whole);
    numbers[0] = length;
    const status = shim.rm_program(0, numbers);
    if (status === STATUS.ok) shim.rm_program(1, numbers);
    return status;
  };
  assertEquals(make(whole.length), STATUS.ok);
  for (const length of [...whole.keys(), -1, NaN]) {
    assertEquals(make(length), STATUS.badArgument, `${length}`);
  }
});

check("the shim checks where buffers are, and that a frame has its arena", () => {
  const make = (kind: number, offset: number): number => {
    const numbers = Float64Array.of(9, 1, 0, 64, 128, kind, offset, 64, 0);
    const status = shim.rm_program(0, numbers);
    if (status === STATUS.ok) shim.rm_program(1, numbers);
    return status;
  };
  const { arena, copied } = PROGRAM;
  assertEquals([make(arena, 0), make(arena, 8)], [STATUS.ok, STATUS.badArgument]);
  assertEquals([make(copied, 64), make(copied, 72)], [STATUS.ok, STATUS.badArgument]);
  const numbers = Float64Array.of(9, 1, 0, 64, 128, arena, 0, 64, 0);
  assertEquals(shim.rm_program(0, numbers), STATUS.ok);
  const frame = Float64Array.of(numbers[0]!, 0);
  assertEquals(shim.rm_program(2, frame), STATUS.ok);
  assertEquals(shim.rm_program_run(frame[0]!, 0, 0), STATUS.badArgument);
  const memory = new Uint8Array(new ArrayBuffer(128));
  assertEquals(shim.rm_program_bind(frame[0]!, -1, null, null, null, null), STATUS.badArgument);
  assertEquals(shim.rm_program_bind(frame[0]!, -1, memory, null, null, null), STATUS.ok);
  assertEquals(shim.rm_program_run(frame[0]!, 0, 0), STATUS.ok);
  shim.rm_program(3, frame);
  shim.rm_program(1, numbers);
});

check("frames that follow one another have one arena, and released ones none", () => {
  const programs = [0, 1].map(() => new NativeProgram(shim, { ...PRODUCT!, arenaBytes: 1 << 20 }));
  const [first, second] = programs as [NativeProgram, NativeProgram];
  emptyCache();
  const { bytes, pooledBytes } = memory();
  for (const program of [first, second, first]) {
    const frame = program.acquire()!;
    assertEquals([memory().bytes - bytes, memory().pooledBytes], [(1 << 20) + 64, pooledBytes]);
    frame.bind(0, arrayOf(1), arrayOf(2));
    assertEquals(frame.run(), null);
    frame.release();
    assertEquals(memory().pooledBytes - pooledBytes, (1 << 20) + 64);
    assertThrows(() => frame.run(), NativeError, "buffer 0 has no array");
  }
  // At the same time, each has its own.
  const [a, b] = programs.map((program) => program.acquire()!) as [Frame, Frame];
  assertEquals(memory().bytes - bytes, 2 * ((1 << 20) + 64));
  const outs = [a, b].map((frame, i) => {
    frame.bind(0, arrayOf(1), arrayOf(2 + i));
    frame.run(0, 1);
    return new Float32Array(N);
  });
  [a, b].forEach((frame, i) => {
    frame.run(1, 2);
    frame.read(3, outs[i]!);
  });
  assertEquals(outs, [arrayOf(6), arrayOf(12)]);
  emptyCache();
  assertEquals(memory().bytes - bytes, 2 * ((1 << 20) + 64));
  a.release();
  b.release();
  assertEquals(memory().bytes - bytes, (1 << 20) + 64);
  emptyCache();
  assertEquals(memory().bytes, bytes);
  // A frame gets the address of the next arena.
  const again = first.acquire()!;
  again.bind(0, arrayOf(2), arrayOf(2));
  again.run();
  again.read(3, outs[0]!);
  assertEquals(outs[0], arrayOf(8));
  again.release();
  for (const program of programs) program.free();
});

check("an arena without memory is an error", () => {
  const program = new NativeProgram(shim, { ...PRODUCT!, arenaBytes: 2 ** 52 });
  const error = assertThrows(() => program.acquire(), OutOfMemoryError);
  assertEquals([error.bytes, program.frames], [2 ** 52 + 64, 0]);
  program.free();
});

check("a program without calls runs, and calls may have more buffers than a plan", () => {
  within({ buffers: [], calls: [], arenaBytes: 0 }, (frame) => assertEquals(frame.run(), null));
  const call = {
    ...map(MAP.add, [2, 0, 1]),
    dtypes: [F32, F32, F32, 255, F32, F32],
    buffers: [2, 0, 1, -1, 3, 3],
  };
  within({ ...PRODUCT!, calls: [call] }, (frame) => {
    frame.bind(0, arrayOf(1), arrayOf(2));
    assertEquals(frame.run(), null);
  });
});
