/**
 * Programs run off the event loop: in order, one at a time, beside other work; processes and workers
 * end while jobs run.
 *
 * The ends run in processes of their own, several times each.
 *
 * @module
 */
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { STATUS } from "../../src/backend/ffi/abi.ts";
import { type Frame, NativeProgram } from "../../src/backend/native/program.ts";
import { JobQueue } from "../../src/backend/native/queue.ts";
import {
  ArgumentError,
  DisposedError,
  NativeError,
  type QueueFullError,
} from "../../src/base/errors.ts";
import { MAP } from "../../src/table/table.ts";
import { dense, gatherCall, makeAdds, makeProducts, mapCall } from "../native/programs.ts";
import { check, inDeno, library, moduleAt, runApart, shim } from "../native/support.ts";

const N = 1 << 16;
const out = new Float32Array(N);

/** A frame of a program that adds `value` so many times. */
function adds(times: number, value = 1): Frame {
  const frame = makeAdds(shim, N, times).acquire()!;
  frame.bind(1, new Float32Array(N).fill(value));
  return frame;
}

function sumOf(frame: Frame): number {
  frame.read(0, out);
  assertEquals(out.every((x) => x === out[0]), true);
  return out[0]!;
}

/** Resolves to the error that a promise rejects with. */
async function errorOf(promise: Promise<unknown>): Promise<unknown> {
  let error: unknown;
  await promise.catch((reason) => error = reason);
  return error;
}

check("jobs run on the queue thread, while timers go on", async () => {
  const queue = new JobQueue(shim);
  assertEquals(queue.unavailable, null);
  const frame = adds(20_000);
  let [ticks, ended] = [0, false];
  const job = queue.submit(frame).then(() => ended = true);
  assertEquals([queue.pending, ended], [1, false]);
  while (!ended) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    ticks++;
  }
  await job;
  assert(ticks > 5, `${ticks} ticks`);
  assertEquals([queue.pending, sumOf(frame)], [0, 20_000]);
});

check("jobs of a queue run in order, and a part of the calls if asked", async () => {
  const queue = new JobQueue(shim);
  const frames = [300, 200, 100, 1].map((times) => adds(times));
  const ends: number[] = [];
  await Promise.all(frames.map(async (frame, i) => {
    assertEquals(await queue.submit(frame, i === 2 ? { from: 10, to: 60 } : {}), null);
    ends.push(i);
  }));
  assertEquals(ends, [0, 1, 2, 3]);
  assertEquals(frames.map(sumOf), [300, 200, 50, 1]);
  await assertRejects(() => queue.submit(frames[3]!, { to: 2 }), NativeError, "no calls 0 to 2");
});

check("eager calls are right while a job runs", async () => {
  const queue = new JobQueue(shim);
  const n = 640;
  const [job, eager] = [makeProducts(shim, n, 10), makeProducts(shim, n, 1)];
  const [running, own] = [job.acquire()!, eager.acquire()!];
  const matrix = (x: number): Float32Array => new Float32Array(n * n).fill(x);
  const [c, d] = [matrix(0), matrix(0)];
  running.bind(0, c, matrix(1), matrix(2));
  own.bind(0, d, matrix(3), matrix(4));
  const ended = queue.submit(running);
  let runs = 0;
  do {
    d.fill(0);
    own.run();
    assertEquals(d.every((x) => x === 12 * n), true);
    const sum = adds(3);
    sum.run();
    assertEquals(sumOf(sum), 3);
    await new Promise((resolve) => setTimeout(resolve, 0));
  } while (queue.pending > 0 && ++runs < 1000);
  await ended;
  assertEquals(c.every((x) => x === 2 * n), true);
});

check("errors and indices out of range are those of a run on the loop", async () => {
  const queue = new JobQueue(shim);
  const broken = dense(2, N);
  broken[1] = 4;
  const { buffers } = adds(1).program.spec;
  const calls = [
    mapCall(shim, MAP.add, [0, 0, 1], dense(2, N)),
    mapCall(shim, MAP.sub, [0, 0, 1], broken),
  ];
  const failing = new NativeProgram(shim, { buffers, calls, arenaBytes: 4 * N }).acquire()!;
  failing.bind(1, out);
  const error = await errorOf(queue.submit(failing)) as NativeError;
  assertEquals([error.name, error.status], ["NativeError", STATUS.badArgument]);
  assertEquals(error.message, (assertThrows(() => failing.run()) as Error).message);
  const indexed = new NativeProgram(shim, {
    buffers: [
      { kind: "copied", bytes: 64 },
      { kind: "copied", bytes: 64 },
      { kind: "copied", bytes: 16 },
    ],
    calls: [gatherCall(shim, [0, 1, 2], 4, 16)],
    arenaBytes: 192,
  }).acquire()!;
  indexed.write(2, Int32Array.of(0, 1, 16, 2));
  assertEquals(await queue.submit(indexed), { call: 0, badIndex: 2 });
  indexed.write(2, Int32Array.of(0, 1, 15, 2));
  assertEquals(await queue.submit(indexed), null);
  await assertRejects(() => queue.submit(makeAdds(shim, 4, 1).acquire()!), NativeError, "no array");
});

check("a frame is unusable during its job, and its program may be freed", async () => {
  const queue = new JobQueue(shim);
  const frame = adds(2000);
  const job = queue.submit(frame);
  for (
    const use of [
      () => frame.run(),
      () => frame.read(0, out),
      () => frame.write(0, out),
      () => frame.bind(1, new Float32Array(N)),
      () => frame.setNumber(0, 0, 1),
      () => frame.release(),
    ]
  ) assertThrows(use, NativeError, "the frame is in use by a job");
  await assertRejects(() => queue.submit(frame), NativeError, "in use");
  frame.program.free();
  await job;
  assertEquals(sumOf(frame), 2000);
  frame.release();
  assertEquals(frame.program.frames, 0);
  await assertRejects(() => queue.submit(frame), NativeError, "no array");
  assertThrows(() => frame.read(0, out), DisposedError);
});

check("an aborted job is dropped before it starts, not after", async () => {
  const queue = new JobQueue(shim);
  const [first, second, third] = [adds(500), adds(500), adds(500)];
  const [running, waiting] = [new AbortController(), new AbortController()];
  const one = queue.submit(first, { signal: running.signal });
  const two = queue.submit(second, { signal: waiting.signal });
  const three = queue.submit(third, { signal: new AbortController().signal });
  running.abort();
  waiting.abort(new TypeError("no longer needed"));
  assertEquals(queue.pending, 2);
  await assertRejects(() => two, TypeError, "no longer needed");
  assertEquals([await one, await three], [null, null]);
  assertEquals([first, second, third].map(sumOf), [500, 0, 500]);
  // The dropped frame is usable again.
  assertEquals(await queue.submit(second), null);
  const error = await errorOf(queue.submit(second, { signal: AbortSignal.abort() }));
  assertEquals((error as Error).name, "AbortError");
  assertEquals([sumOf(second), queue.pending], [500, 0]);
});

check("a full queue refuses jobs until one has ended", async () => {
  const queue = new JobQueue(shim, 2);
  const frames = [adds(200), adds(200), adds(200)] as const;
  const jobs = [queue.submit(frames[0]), queue.submit(frames[1])];
  const error = await errorOf(queue.submit(frames[2])) as QueueFullError;
  assertEquals([error.name, error.code, error.limit], ["QueueFullError", "RM_QUEUE_FULL", 2]);
  await jobs[0];
  await Promise.all([...jobs, queue.submit(frames[2])]);
  assertEquals(frames.map(sumOf), [200, 200, 200]);
  for (const limit of [0, -1, 1.5, NaN]) {
    assertThrows(() => new JobQueue(shim, limit), ArgumentError);
  }
});

check("several queues of a thread take turns", async () => {
  const queues = [new JobQueue(shim), new JobQueue(shim), new JobQueue(shim)];
  const frames = queues.map(() => [adds(50), adds(70)] as const);
  await Promise.all(queues.flatMap((queue, i) => frames[i]!.map((frame) => queue.submit(frame))));
  assertEquals(frames.flat().map(sumOf), [50, 70, 50, 70, 50, 70]);
});

check("without Node-API jobs run on the event loop, with a reason", async () => {
  const queue = new JobQueue({ ...shim });
  assertMatch(queue.unavailable!.reason, /was not opened from a file/);
  const frames = [adds(3), adds(4)] as const;
  const ends: number[] = [];
  const jobs = frames.map((frame, i) => queue.submit(frame).then(() => ends.push(i)));
  assertEquals([ends.length, queue.pending], [0, 2]);
  await Promise.all(jobs);
  assertEquals([ends, frames.map(sumOf)], [[0, 1], [3, 4]]);
});

check("10,000 jobs leave no memory behind", async () => {
  const queue = new JobQueue(shim);
  const program = makeAdds(shim, 10_000, 1);
  let before = 0;
  for (let i = 0; i < 12_000; i++) {
    const frame = program.acquire()!;
    frame.bind(1, new Float32Array(10_000));
    await queue.submit(frame);
    frame.release();
    if (i === 2000) before = process.memoryUsage().rss;
  }
  const grown = (process.memoryUsage().rss - before) / 2 ** 20;
  // The arrays alone have 400 MB.
  assert(grown < 100, `${grown} MiB`);
  assertEquals(program.frames, 1);
  program.free();
});

check("permission for the library's file is enough", () => {
  const program = `
    import { openShim } from ${moduleAt("src/backend/ffi/load.ts")};
    import { JobQueue } from ${moduleAt("src/backend/native/queue.ts")};
    import { makeAdds } from ${moduleAt("tests/native/programs.ts")};
    const shim = openShim(${JSON.stringify(library)});
    const queue = new JobQueue(shim);
    const frame = makeAdds(shim, 16, 5).acquire();
    frame.bind(1, new Float32Array(16).fill(2));
    await queue.submit(frame);
    const out = new Float32Array(16);
    frame.read(0, out);
    console.log(queue.unavailable, out[15]);
    if ("Deno" in globalThis) {
      Deno.permissions.revokeSync({ name: "ffi", path: ${JSON.stringify(library)} });
      console.log(new JobQueue(shim).unavailable.reason);
    }`;
  const output = runApart(program, {}, [`--allow-ffi=${library}`, "--allow-env"]);
  const revoked = inDeno
    ? `not allowed to open ${library} any more: use --allow-ffi=${library}\n`
    : "";
  assertEquals(output, `null 10\n${revoked}`);
});

/** Runs a case of queue_life.ts; fails if it does not end by itself. */
function live(name: string): { status: number | null; stdout: string; stderr: string } {
  const file = fileURLToPath(new URL("queue_life.ts", import.meta.url));
  const options = ["run", "--quiet", "--no-check", "--allow-ffi", "--allow-env", "--allow-read"];
  const args = [...(inDeno ? options : []), file, name, library];
  const ended = spawnSync(process.execPath, args, { encoding: "utf8", timeout: 60_000 });
  assertEquals(ended.signal, null, `${name}: ${ended.stdout}${ended.stderr}`);
  return ended;
}

const TIMES = 3;

check("a job keeps the process alive, and an idle queue does not", () => {
  const { status, stdout, stderr } = live("pending");
  assertEquals([status, stdout, stderr], [0, "sum 200\n", ""]);
});

for (const name of inDeno ? ["exit", "Deno.exit"] : ["exit"]) {
  check(`${name} ends the process during a product`, () => {
    for (let i = 0; i < TIMES; i++) {
      const { status, stdout, stderr } = live(name);
      assertEquals([status, stdout, stderr], [3, "", ""]);
    }
  });
}

check("an uncaught error ends the process during a product", () => {
  for (let i = 0; i < TIMES; i++) {
    const { status, stdout, stderr } = live("throw");
    assertEquals([status, stdout], [1, ""], stderr);
    assertMatch(stderr, /thrown on purpose/);
  }
});

check("workers end during jobs, and others go on", () => {
  for (const name of ["terminate", "close"]) {
    const { status, stdout, stderr } = live(name);
    assertEquals([status, stdout, stderr], [0, "begun\nsum 200\n".repeat(3), ""], name);
  }
});

check("the jobs of several workers take turns", () => {
  const { status, stdout, stderr } = live("workers");
  assertEquals([status, stdout, stderr], [0, "sum 200\nwrong 0\nwrong 0\n", ""]);
});
