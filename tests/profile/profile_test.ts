/**
 * `profile`: which calls it sees, what it knows of each, and what it sums up.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { once } from "node:events";
import { describe, it, test } from "node:test";
import { inspect } from "node:util";
import { Worker } from "node:worker_threads";
import {
  arange,
  ArgumentError,
  concat,
  defineOp,
  full,
  IndexError,
  io,
  ones,
  random,
  ShapeError,
  type Tensor,
  tensor,
  zeros,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { profile, type ProfileReport } from "../../src/profile/mod.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { NativeBackend } from "../../src/backend/native/backend.ts";
import { performCall } from "../../src/core/dispatch.ts";
import { interpret } from "../../src/core/interpreter.ts";
import { profileEvent } from "../../src/core/profiler.ts";
import type { Call } from "../../src/table/op.ts";
import { memories, MIRROR } from "../device/mirror.ts";
import { shim, when } from "../native/support.ts";
import { using } from "../ops/table/backends.ts";
import { loose } from "../support.ts";

const js = new JsBackend();

/** The calls of the program itself, as `op shapes`. */
const asked = ({ calls }: ProfileReport): string[] =>
  calls.filter(({ depth }) => depth === 0).map(({ op, shapes }) => `${op} ${shapes}`);

/** The only call of the program itself. */
function only(f: () => unknown) {
  const calls = profile(f).calls.filter(({ depth }) => depth === 0);
  assertEquals(calls.length, 1);
  return calls[0]!;
}

/** Bytes and operations of one call. */
const costs = (f: () => unknown): unknown[] => {
  const { bytes, flops } = only(f);
  return [bytes, flops];
};

const near = (a: number, b: number): void => assert(Math.abs(a - b) < 1e-6, `${a}, not ${b}`);

describe("what it sees", () => {
  it("the calls of the function, by the names that it calls them, and no other", () => {
    const x = ones([2, 3]);
    x.neg();
    const report = profile(() => {
      x.add_(1);
      return x.T.matmul(x).softmax();
    });
    x.exp();
    assertEquals(report.result.shape, [3, 3]);
    assertEquals(asked(report), [
      "add_ float32 [2, 3] → [2, 3]",
      "T float32 [2, 3] → [3, 2]",
      "matmul float32 [3, 2] [2, 3] → [3, 3]",
      "softmax float32 [3, 3] → [3, 3]",
    ]);
    const [add] = report.calls;
    assertEquals([add!.inputs, add!.outputs], [
      [{ shape: [2, 3], dtype: "float32" }],
      [{ shape: [2, 3], dtype: "float32" }],
    ]);
  });

  it("the calls that a call is made of, one level below it", () => {
    const x = ones([4, 8]);
    const { calls } = using(js, () => profile(() => x.linear(ones([2, 8]), ones([2]))));
    const [linear] = calls.filter(({ depth, op }) => depth === 0 && op === "linear");
    const levels = calls.slice(calls.indexOf(linear!)).map(({ op, depth }) => `${depth} ${op}`);
    assertEquals(levels.slice(0, 3), ["0 linear", "1 transpose", "1 matmul"]);
    assert(levels.length > 3, levels.join());
    for (const [i, call] of calls.entries()) {
      const parts: typeof calls[number][] = [];
      for (const part of calls.slice(i + 1)) {
        if (part.depth <= call.depth) break;
        assert(part.start >= call.start);
        assert(part.start + part.duration <= call.start + call.duration + 1e-9);
        if (part.depth === call.depth + 1) parts.push(part);
      }
      near(call.self, call.duration - parts.reduce((sum, { duration }) => sum + duration, 0));
    }
  });

  it("creation, random numbers, files and ops of defineOp", () => {
    const file = io.encodeNpy(ones([3]));
    const square = defineOp({ name: "profiledSquare", expr: "x * x" });
    const first = defineOp({
      name: "profiledFirst",
      infer: ([x]) => ({ shape: [], dtype: x!.dtype }),
      run: ([x], [y]) => void (y!.data[0] = x!.data[0]!),
    });
    const report = profile(() => {
      const x = full([3], 2);
      random.uniform(random.key(1), [3]);
      io.decodeNpy(file);
      square(x);
      return loose(first(x)).item();
    });
    assertEquals(report.result, 2);
    assertEquals(report.calls.filter(({ depth }) => depth === 0).map(({ op }) => op), [
      "full",
      "uniform",
      "fromFile",
      "profiledSquare",
      "profiledFirst",
    ]);
    assertEquals(report.calls.at(-1)!.backend, "js");
  });

  it("calls before an error, which is thrown; one that the function catches", () => {
    const x = ones([2]);
    assertThrows(() => profile(() => x.add(loose(ones([3])))), ShapeError, "Cannot add");
    const report = profile(() => {
      assertThrows(() => x.add(loose(ones([3]))), ShapeError);
      return x.neg();
    });
    assertEquals(report.calls.map(({ op }) => op), ["ones", "neg"]);
    assertEquals(report.calls.at(-1)!.depth, 0);
  });

  it("the calls of a profile in it, and those of interpreters around and in it", () => {
    const x = ones([4, 8]);
    const program = () => x.linear(ones([2, 8]));
    const alone = profile(program).calls.map(({ op, depth }) => `${depth} ${op}`);
    let inner: ProfileReport | undefined;
    const outer = profile(() => {
      inner = profile(program);
      x.neg();
    });
    assertEquals(inner!.calls.map(({ op, depth }) => `${depth} ${op}`), alone);
    assertEquals(outer.calls.map(({ op, depth }) => `${depth} ${op}`), [...alone, "0 neg"]);
    for (const { calls } of [inner!, outer]) {
      assert(calls.every(({ backend }) => /^(js|native|view)$/.test(backend)));
    }
    const seen: string[] = [];
    const log = {
      run(call: Call): void {
        seen.push(call.op.name);
        performCall(call);
      },
      read() {},
    };
    interpret(log, () => {
      // The interpreter around it sees no parts, so that this profile has none either.
      const { calls } = profile(program);
      assertEquals(calls.map(({ op, depth }) => `${depth} ${op}`), ["0 ones", "0 linear"]);
    });
    assertEquals(seen, ["full", "linear"]);
    seen.length = 0;
    const report = profile(() => interpret(log, program));
    assertEquals(report.calls.map(({ op, depth }) => `${depth} ${op}`), alone);
    assertEquals(seen, ["full", "linear"]);
  });

  it("work that is no call, only while it runs", () => {
    profileEvent("before", performance.now(), 1);
    const { calls, rows, time } = profile(() => {
      const start = performance.now();
      while (performance.now() < start + 2);
      profileEvent("program", start, 2, { backend: "native", threads: 2, bytes: 8e6, flops: 4e6 });
    });
    assertEquals(calls.map(({ op, depth }) => [op, depth]), [["program", 0]]);
    const [row] = rows;
    assertEquals([row!.backend, row!.threads, row!.calls, row!.total], ["native", 2, 1, 2]);
    near(row!.gbPerSecond!, 4);
    near(row!.gflopPerSecond!, 2);
    assert(time >= 2);
    const start = calls[0]!.start;
    assert(start >= 0 && start < time - 1.9, `${start} of ${time}`);
  });

  const step = compile(function step(x: Tensor) {
    return x.exp().add(1).sum();
  });

  it("a compiled function as one call, with parts where its ops are replayed", () => {
    const x = ones([100]);
    using(js, () => {
      step(x);
      const { calls, result } = profile(() => step(x));
      assertEquals(calls[0]!.op, "compiled step");
      assertEquals([calls[0]!.depth, calls[0]!.backend], [0, "js"]);
      assert(calls.length > 1 && calls.slice(1).every(({ depth }) => depth > 0));
      near(loose(result).item() / (100 * (Math.E + 1)), 1);
      // Traces see the ops of the function, in a profile too.
      const seen: string[] = [];
      const log = { run: (call: Call) => (seen.push(call.op.name), performCall(call)), read() {} };
      profile(() => interpret(log, () => step(x)));
      assertEquals(seen, ["exp", "add", "sum"]);
    });
  });

  it(...when({}, "a compiled function in native code as one call, with its costs", () => {
    const x = ones([100]);
    step(x);
    let inner: ProfileReport | undefined;
    const outer = profile(() => {
      inner = profile(() => step(x));
      step(x);
    });
    const ops = (report: ProfileReport) => asked(report).map((text) => text.trim());
    assertEquals([ops(inner!), ops(outer)], [["compiled step"], Array(2).fill("compiled step")]);
    assertEquals(outer.rows.map(({ backend, threads }) => `${backend} ${threads}`), ["native 1"]);
    // A chain of two ops that reads and writes 400 bytes, and a sum.
    assertEquals(costs(() => step(x)), [400 + 400 + 400 + 4, 2 * 100 + 100]);
    const [weight, bias] = [ones([32, 8]), ones([32])];
    const layer = compile((x: Tensor) => x.linear(weight, bias).relu().softmax());
    layer(ones([4, 8]));
    // The product with a packed weight; the arithmetic of softmax has no formula.
    const bytes = 4 * (4 * 8 + 32 * 8 + 32 + 4 * 32) + 2 * 4 * (4 * 32);
    const rows = ones([4, 8]);
    assertEquals(costs(() => layer(rows)), [bytes, 2 * 4 * 8 * 32]);
    // How many elements an index writes is unknown.
    const put = compile((x: Tensor, at: Tensor<"int32">) => x.set([at], 1));
    const at = tensor([1], { dtype: "int32" });
    const target = ones([4]);
    put(target, at);
    assertEquals(costs(() => put(target, at))[0], undefined);
  }));

  it("a worker has profiles of its own", async () => {
    const worker = new Worker(new URL("../workers/profile.ts", import.meta.url));
    const [answer] = await once(worker, "message");
    await worker.terminate();
    assertEquals(answer, { ops: ["ones", "sum"], result: 6 });
  });
});

describe("bytes and operations", () => {
  const [x, y] = [ones([4, 8]), ones([4, 8])];
  const [w, b] = [ones([2, 8]), ones([2])];

  it("products: two operations for each pair of numbers", () => {
    assertEquals(profile(() => x.matmul(loose(w).T)).calls.at(-1)!.flops, 2 * 4 * 2 * 8);
    assertEquals(costs(() => x.linear(w, b)), [4 * (32 + 16 + 2 + 8), 2 * 4 * 2 * 8]);
    const [batch, square] = [ones([3, 4, 5]), ones([5, 6])];
    assertEquals(costs(() => batch.matmul(square)), [4 * (60 + 30 + 72), 3 * 2 * 4 * 5 * 6]);
    assertEquals(costs(() => b.dot(b)), [4 * (2 + 1), 2 * 2]);
    assertEquals(costs(() => b.outer(b)), [4 * (2 + 4), 4]);
  });

  it("elementwise ops: one for each element of the result", () => {
    assertEquals(costs(() => x.add(y)), [4 * 96, 32]);
    assertEquals(costs(() => x.mul(x)), [4 * 64, 32]);
    const row = ones([8]);
    assertEquals(costs(() => x.add(row)), [4 * (32 + 8 + 32), 32]);
    const wide = row.broadcastTo([4, 8]);
    assertEquals(costs(() => x.add(wide)), [4 * (32 + 8 + 32), 32]);
    assertEquals(costs(() => x.less(0)), [4 * 32 + 32, 32]);
    assertEquals(costs(() => x.add_(y)), [4 * 96, 32]);
    assertEquals(costs(() => x.astype("float64")), [4 * 32 + 8 * 32, 0]);
  });

  it("reductions and scans: one for each element of the input", () => {
    assertEquals(costs(() => x.sum(1)), [4 * (32 + 4), 32]);
    assertEquals(costs(() => x.argmax(0)), [4 * (32 + 8), 32]);
    assertEquals(costs(() => x.cumulativeSum(1)), [4 * 64, 32]);
  });

  it("views: none; copies of views: their elements", () => {
    for (const view of [() => x.T, () => x.slice("1"), () => x.reshape([32])]) {
      const call = only(view);
      assertEquals([call.bytes, call.flops, call.backend], [0, 0, "view"]);
    }
    const turned = x.T;
    const call = only(() => turned.reshape([32]));
    assertEquals([call.bytes, call.flops], [4 * 64, 0]);
    assert(call.backend !== "view");
    assertEquals(costs(() => x.split(2)), [0, undefined]);
  });

  it("picks and writes: what is picked and written", () => {
    const i = tensor([1, 0, 1], { dtype: "int32" });
    assertEquals(costs(() => x.take(i)), [4 * (24 + 24) + 12, undefined]);
    const gather = profile(() => x.take(i)).calls.find(({ op }) => op === "gather");
    assertEquals([gather!.bytes, gather!.flops], [4 * (24 + 24) + 12, 0]);
    const target = zeros([4, 8]);
    const put = profile(() => target.set([i], 1)).calls;
    assertEquals([put[0]!.op, put[0]!.bytes], ["set", undefined]);
    assertEquals(costs(() => zeros([4, 8])), [4 * 32, undefined]);
    assertEquals(costs(() => concat([x, y])), [4 * 128, undefined]);
  });
});

describe("backends and threads", () => {
  const x = ones([1000, 1000]);

  it("JavaScript", () => {
    const call = using(js, () => only(() => x.exp()));
    assertEquals([call.backend, call.threads], ["js", 1]);
  });

  it(...when({}, "native, with the threads that took part; small ops in JavaScript", () => {
    const native = new NativeBackend(shim);
    const before = native.threads;
    try {
      using(native, () => {
        native.setThreads(1);
        assertEquals(only(() => x.exp()).threads, 1);
        native.setThreads(3);
        native.setShareAll(true);
        // Work outside does not count.
        x.exp();
        const small = ones([4]);
        const { calls, rows } = profile(() => [small.neg(), x.exp(), x.T.contiguous(), x.std(1)]);
        const ran = calls.map(({ op, backend, threads }) => `${op} ${backend} ${threads}`);
        assertEquals(ran.slice(0, 4), [
          "neg js 1",
          "exp native 3",
          "T view 1",
          "contiguous native 3",
        ]);
        assertEquals([ran[4], ran.length > 5], ["std native 3", true]);
        assertEquals(rows.find(({ op }) => op === "exp")!.threads, 3);
      });
    } finally {
      native.setShareAll(false);
      native.setThreads(before);
    }
  }));

  it("a device, which is waited for after each op", () => {
    const far = loose(x).to(MIRROR);
    const memory = memories[0]!;
    const before = memory.waits;
    const { calls, rows } = profile(() => [far.exp(), far.T, far.cpu(), loose(x).to(MIRROR)]);
    assert(memory.waits >= before + 4);
    assertEquals(calls.map(({ op, backend, threads }) => [op, backend, threads]), [
      ["exp", "mirror", undefined],
      ["T", "view", undefined],
      ["cpu", "mirror", undefined],
      ["to", "mirror", undefined],
    ]);
    assertEquals(rows[0]!.threads, undefined);
    // As the next read would.
    const wrong = loose(tensor([5000], { dtype: "int32" })).to(MIRROR);
    assertThrows(() => profile(() => far.take(wrong)), IndexError, "axis of size 1000");
    assertEquals(profile(() => far.neg()).calls.length, 1);
  });
});

describe("sums", () => {
  it("rows are means of the runs, one for each op, shape, dtype and backend", () => {
    const [x, y] = [ones([64, 64]), ones([8])];
    let runs = 0;
    const report = profile(() => {
      for (let i = 0; i < 3; i++) x.exp();
      y.exp();
      y.astype("float64").exp();
      return ++runs;
    }, { warmup: 2, repeat: 4 });
    assertEquals([runs, report.result, report.repeat], [6, 6, 4]);
    assertEquals(report.calls.length, 4 * 6);
    assertEquals(new Set(report.calls.map(({ run }) => run)), new Set([0, 1, 2, 3]));
    const exps = report.rows.filter(({ op }) => op === "exp");
    assertEquals(exps.map(({ shapes, calls }) => `${shapes}: ${calls}`).sort(), [
      "float32 [64, 64] → [64, 64]: 3",
      "float32 [8] → [8]: 1",
      "float64 [8] → [8]: 1",
    ]);
    const row = exps.find(({ calls }) => calls === 3)!;
    assertEquals([row.bytes, row.flops], [3 * 4 * 2 * 4096, 3 * 4096]);
    near(row.gbPerSecond!, row.bytes! / (row.total / 1e3) / 1e9);
    near(row.gflopPerSecond!, row.flops! / (row.total / 1e3) / 1e9);
    const own = report.calls.filter(({ op, inputs }) =>
      op === "exp" && inputs[0]!.shape.length === 2
    );
    near(row.total, own.reduce((sum, { duration }) => sum + duration, 0) / 4);
  });

  it("the time is that of the rows and that outside of calls", () => {
    const x = ones([16, 16]);
    const { rows, time, dispatchTime, calls } = profile(() => {
      const until = performance.now() + 5;
      while (performance.now() < until);
      return x.linear(x).softmax().std(1);
    }, { repeat: 3 });
    assert(dispatchTime >= 4.9, `${dispatchTime}`);
    near(rows.reduce((sum, { self }) => sum + self, 0) + dispatchTime, time);
    near(rows.reduce((sum, { share }) => sum + share, 0) + dispatchTime / time, 1);
    assertEquals(rows, rows.toSorted((a, b) => b.self - a.self));
    assertEquals(calls, calls.toSorted((a, b) => a.start - b.start));
  });

  it("a function without calls", () => {
    const report = profile(() => 7);
    assertEquals([report.result, report.calls, report.rows], [7, [], []]);
    assertEquals(report.dispatchTime, report.time);
    assertStringIncludes(String(report), "0 calls of ops");
  });
});

describe("text", () => {
  const x = ones([128, 64]);
  const report = profile(() => {
    x.linear(ones([1024, 64]), ones([1024])).gelu_().sum().item();
    for (let i = 1; i < 50; i++) ones([i]);
    arange(3).reshape([1, 1, 1, 1, 1, 1, 1, 1, 3]).add(1);
    return x.less(0);
  });

  it("a table of 100 columns, the longest first", () => {
    const lines = String(report).split("\n");
    assert(lines.every(({ length }) => length <= 100), String(report));
    assert(/^\d+\.\d{3} ms: \d+\.\d{3} ms in \d+ calls of ops, .* ms outside$/.test(lines[0]!));
    const header = "op             calls  self ms total ms share  GB/s GFLOP/s backend   shapes";
    assertEquals(lines[2], header);
    assertEquals(lines.at(-1), "· a part of another call");
    assert(/^… \d+ more rows: /.test(lines.at(-2)!), lines.at(-2));
    const [first] = report.rows;
    assert(lines[3]!.startsWith(first!.part ? `· ${first!.op}` : first!.op), lines[3]);
    assert(lines.some((line) => line.includes("f32 [128,64] → bool [128,64]")), String(report));
    const many = profile(() => x.neg(), { repeat: 2 });
    assertStringIncludes(String(many), "ms, the mean of 2 runs:");
  });

  it("consoles and notebooks show the table", () => {
    assertEquals(inspect(report), String(report));
    const globals = globalThis as { Deno?: { inspect(value: unknown): string } };
    assertEquals(globals.Deno?.inspect(report) ?? String(report), String(report));
    const display = loose(report)[Symbol.for("Jupyter.display")]();
    assertEquals(display, { "text/plain": String(report) });
  });

  it("a trace: the runs, the calls in them, and reads", () => {
    const two = profile(() => x.std(1).toArray(), { repeat: 2 });
    const { traceEvents, displayTimeUnit } = JSON.parse(two.chromeTrace());
    assertEquals(displayTimeUnit, "ms");
    const named = (ph: string) => traceEvents.filter((event: { ph: string }) => event.ph === ph);
    assertEquals(named("M")[0].args, { name: "rowmajor" });
    assertEquals(named("i").map(({ name }: { name: string }) => name), ["toArray", "toArray"]);
    const spans = named("X");
    const [run, next] = spans;
    assertEquals([run.name, next.name, spans.length], ["run 0", "run 1", 2 + two.calls.length]);
    assert(next.ts >= run.ts + run.dur);
    const std = spans[2];
    assertEquals([std.name, std.cat, std.pid, std.tid], ["std", two.calls[0]!.backend, 1, 1]);
    near(std.dur, 1e3 * two.calls[0]!.duration);
    assertEquals(std.args.shapes, "float32 [128, 64] → [128]");
    assertEquals(std.args.bytes, 4 * (128 * 64 + 128));
    for (const { ts, dur } of spans.slice(2)) {
      const inside = [run, next].some((one) => one.ts <= ts && ts + dur <= one.ts + one.dur + 1e-6);
      assert(inside, `${ts} + ${dur}`);
    }
  });
});

test("bad arguments are refused, and nothing runs", () => {
  let runs = 0;
  const f = () => ++runs;
  const bad = loose(profile);
  assertThrows(() => bad(), TypeError, "Cannot profile undefined: expected a function");
  assertThrows(() => bad(7), TypeError, "Cannot profile 7: expected a function");
  assertThrows(() => bad(f, 7), TypeError, "Cannot profile: options come last");
  assertThrows(() => bad(f, { times: 1 }), TypeError, 'Cannot profile with option "times"');
  for (const repeat of [0, -1, 1.5, NaN, "2", null]) {
    assertThrows(() => bad(f, { repeat }), ArgumentError, "integer repeat of at least 1");
  }
  for (const warmup of [-1, 0.5, Infinity]) {
    assertThrows(() => bad(f, { warmup }), ArgumentError, "integer warmup of at least 0");
  }
  assertEquals(runs, 0);
});

test("an async function is refused", () => {
  const message = "Cannot profile an async function: code after its first await would run outside";
  assertThrows(() => profile(async () => await ones([2])), TypeError, message);
  const rejects = () => Promise.reject(new Error("no code awaits this"));
  assertThrows(() => profile(rejects, { warmup: 1 }), TypeError, message);
  assertEquals(profile(() => ones([2]).neg()).calls.length, 2);
});
