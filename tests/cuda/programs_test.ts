/**
 * Programs of users on a CUDA device: programs for every kind of function, compared with the CPU,
 * norms, moves, reads, errors. The device is the emulator's, or a real one.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { describe, it, test } from "node:test";
import {
  allowTF32,
  capture,
  concat,
  DeviceError,
  DisposedError,
  type DType,
  DTypeError,
  emptyCache,
  finfo,
  full,
  IndexError,
  info,
  memory,
  ones,
  random,
  scope,
  type Shape,
  synchronize,
  tensor,
  warmUp,
  zeros,
} from "../../mod.ts";
import { profile } from "../../src/profile/mod.ts";
import { demo } from "../../examples/digits/main.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { onHardware, openCudaForTests, whyNoCuda } from "./support/device.ts";
import { NORM_TESTS } from "../device/norms.ts";
import { type Program, PROGRAMS, siteOn, told, WAITING } from "../device/programs.ts";
import { asView, iota, loose } from "../support.ts";
import { using } from "../ops/table/backends.ts";

const CUDA = "cuda";
const js = new JsBackend();

/** Throws unless `actual` is `expected`, floats of `dtype` within a few units in the last place. */
function assertNear(actual: unknown, expected: unknown, dtype: DType | undefined): void {
  if (Array.isArray(expected)) {
    assert(Array.isArray(actual));
    assertEquals(actual.length, expected.length);
    expected.forEach((one, i) => assertNear(actual[i], one, dtype));
  } else if (typeof expected === "object" && expected !== null && "dtype" in expected) {
    const [made, wanted] = [loose(actual), loose(expected)];
    assertEquals({ ...made, elements: 0 }, { ...wanted, elements: 0 });
    assertNear(made.elements, wanted.elements, wanted.dtype);
  } else if (typeof expected === "number" && dtype !== undefined && /float/.test(dtype)) {
    const units = 6 * finfo(dtype as "float32").eps;
    if (Object.is(actual, expected)) return;
    const off = Math.abs(Number(actual) - expected);
    assert(off <= units * Math.max(1e-3, Math.abs(expected)), `${actual}, not ${expected}`);
  } else assertEquals(actual, expected);
}

/** Throws unless `program` gives the same on the device and on the CPU. */
function compare(program: Program): void {
  const expected = using(js, () => told(program(siteOn("cpu")), "cpu"));
  assertNear(told(program(siteOn(CUDA)), CUDA), expected, undefined);
}

const reason = whyNoCuda();
if (reason !== undefined) test(`programs on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  // Before other tests leave garbage, as these tests count.
  describe("on CUDA: memory", memories);
  describe("on CUDA: graphs", graphs);
  for (const [about, programs] of Object.entries(PROGRAMS)) {
    describe(`on CUDA: ${about}`, () => {
      for (const [name, program] of Object.entries(programs)) it(name, () => compare(program));
    });
  }
  describe("on CUDA: norms", () => {
    for (const [name, run] of Object.entries(NORM_TESTS)) {
      it(name, () => run((check) => using(CUDA, () => check(CUDA))));
    }
  });
  describe("on CUDA: where values decide", () => {
    for (const [name, program] of Object.entries(WAITING)) it(name, () => compare(program));
  });
  describe("on CUDA: moving and reading", moving);
  describe("on CUDA: linear", linear);
}

function moving(): void {
  it("CUDA round trip: there and back, for every dtype and any layout", () => {
    for (const dtype of ["bool", "int8", "int64", "uint16", "float16", "float64"] as const) {
      const x = loose(iota([3, 4]).remainder(2).astype(dtype));
      for (const view of [x, x.T, x.slice("1:"), x.slice("::-1, ::2"), zeros([0, 2], { dtype })]) {
        const there = loose(view).to(CUDA);
        assertEquals([there.device, there.dtype, there.shape], [CUDA, dtype, view.shape]);
        assertEquals(there.cpu().toArray(), view.toArray());
      }
    }
  });

  it("CUDA round trip: reads do not block, and give what was there when they began", async () => {
    const x = loose(iota([3, 4])).to(CUDA);
    const reading = x.T.read();
    x.fill_(2);
    assertEquals([...await reading], [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
    assertEquals([...await x.read()], new Array(12).fill(2));
    assertEquals(String(x.slice(0)), String(loose(tensor([2, 2, 2, 2]))));
  });

  const ifSeveral = { skip: info().devices["cuda:1"] === undefined && "needs two devices" };
  it(
    "Several GPUs: tensors go from one to the other, and ops of both give what they should",
    ifSeveral,
    () => {
      const x = loose(iota([3, 4])).to(CUDA);
      const y = x.T.to("cuda:1");
      assertEquals(y.device, "cuda:1");
      assertEquals(y.matmul(x.to("cuda:1")).toArray(), x.T.matmul(x).toArray());
      assertEquals(y.exp().sum(0).argmax().to(CUDA).item(), 2);
      assertEquals(
        random.bits(random.key(1), [9], { device: "cuda:1" }).toArray(),
        random.bits(random.key(1), [9]).toArray(),
      );
      assertThrows(() => y.add(x), DeviceError, "cuda:1 and cuda");
      assertThrows(() => x.to("cuda:99"), DeviceError, "CUDA devices");
    },
  );

  it("CUDA kernels without caps: any rank, and axes of any size", () => {
    const shape = new Array(18).fill(2);
    const there = loose(iota(shape)).to(CUDA);
    const flipped = there.flip([0, 3, 17]).transpose().add(there);
    const here = loose(iota(shape));
    assertEquals(
      flipped.toTypedArray(),
      here.flip([0, 3, 17]).transpose().add(here).toTypedArray(),
    );
    assertEquals(there.sum([1, 4, 9]).T.toTypedArray(), here.sum([1, 4, 9]).T.toTypedArray());
    assertEquals(there.T.cumulativeSum(2).toTypedArray(), here.T.cumulativeSum(2).toTypedArray());
    // More rows, columns and matrices than a grid has blocks along y and z.
    for (const sizes of [[70_001, 1, 3], [1, 70_001, 2], [2, 3, 70_001]]) {
      const [x, y] = ["cpu", CUDA].map((on) => loose(iota(sizes)).remainder(7).to(on));
      for (const axis of [0, 1, 2, null]) {
        assertEquals(y.sum(axis).toArray(), x.sum(axis).toArray());
        assertEquals(y.argmax(axis ?? undefined).toArray(), x.argmax(axis ?? undefined).toArray());
      }
      assertEquals(
        y.permute(2, 0, 1).add(1).toTypedArray(),
        x.permute(2, 0, 1).add(1).toTypedArray(),
      );
      assertEquals(y.sort().toTypedArray(), x.sort().toTypedArray());
      assertEquals(
        y.matmul(y.mT.slice(":, :, :2")).toTypedArray(),
        x.matmul(x.mT.slice(":, :, :2")).toTypedArray(),
      );
    }
  });

  it("the digits demo gives what it gives on the CPU", async () => {
    assertEquals(await demo(CUDA), await demo());
  });

  it("an index out of range is found by the next read", async () => {
    const x = loose(iota([2, 3])).to(CUDA);
    const picked = x.slice([0, 2]);
    assertThrows(() => picked.toArray(), IndexError, "size 2");
    assertEquals(x.toArray(), [[0, 1, 2], [3, 4, 5]]);
    await assertRejects(() => x.take([-4], 1).read(), IndexError, "size 3");
    x.set([[7]], 1);
    assertThrows(() => synchronize(CUDA), IndexError, "size 2");
    synchronize(CUDA);
  });

  it("info tells of it", () => {
    const { backends, devices } = info();
    assertEquals(backends.cuda, "in use");
    const about = devices.cuda!;
    assert(about.includes("compute capability"), about);
    assert(about.includes(`, ${(memory(CUDA).totalBytes / 2 ** 30).toFixed(1)} GiB, `), about);
  });

  it("kernels can be made ahead", () => {
    warmUp(CUDA, ["add", "astype", "sum", "argmax", "cumulativeSum", "softmax", "sort"], [
      "float32",
      "int32",
    ]);
    warmUp(CUDA, ["matmul", "index", "random"]);
    for (const on of [CUDA, "cpu"] as const) {
      assertThrows(() => warmUp(on, ["ad"]), RangeError, 'warm up "ad"');
      assertThrows(() => warmUp(on, ["add"], [loose("f32")]), DTypeError, "f32");
    }
    warmUp("cpu", ["add"]);
  });
}

function memories(): void {
  it("memory is given back and reused", () => {
    emptyCache(CUDA);
    const before = memory(CUDA);
    const x = zeros([1000], { device: CUDA });
    const used = memory(CUDA);
    assert(used.bytes - used.pooledBytes >= before.bytes - before.pooledBytes + 4000);
    assert(used.totalBytes >= used.freeBytes && used.peakBytes >= 4000);
    x.dispose();
    const after = memory(CUDA);
    assertEquals(after.bytes - after.pooledBytes, before.bytes - before.pooledBytes);
    const total = scope(() => ones([100, 100], { device: CUDA }).mul(2).sum());
    assertEquals(total.item(), 20000);
    total.dispose();
    scope(() => void ones([5000], { device: CUDA }).sort());
    const end = memory(CUDA);
    assertEquals(end.bytes - end.pooledBytes, before.bytes - before.pooledBytes);
  });
}

function linear(): void {
  const eighths = (shape: Shape, dtype: DType) =>
    loose(iota(shape, "float32")).remainder(11).sub(5).div(8).astype(dtype);

  it("Matmul on CUDA: the bias is added where the product is made, in every layout", () => {
    for (const dtype of ["float16", "bfloat16", "float32", "float64", "int32"] as const) {
      for (const shape of [[5], [3, 5], [2, 3, 5], [2, 0, 5], [1, 1, 5], [3, 0]]) {
        const [x, w] = [eighths(shape, dtype), eighths([4, shape.at(-1)!], dtype)];
        const b = eighths([4], dtype);
        const whole = x.linear(w, b).toArray();
        const [y, v, c] = [x, w, b].map((one) => one.to(CUDA));
        const long = loose(zeros([9], { dtype, device: CUDA }));
        long.slice("1::2").set(["..."], c);
        // Dense, with gaps, and dense but not aligned to 16 bytes.
        const apart = loose(concat([c.slice(":1"), c])).slice("1:");
        for (const bias of [c, long.slice("1::2"), apart]) {
          assertNear(y.linear(v, bias).toArray(), whole, dtype);
          assertNear(asView(y).linear(v.T.copy().T, bias).toArray(), whole, dtype);
          assertNear(asView(y).linear(asView(v), bias).toArray(), whole, dtype);
        }
        const before = memory(CUDA);
        y.linear(v, apart).dispose();
        const after = memory(CUDA);
        assertEquals(after.bytes - after.pooledBytes, before.bytes - before.pooledBytes);
        const out = loose(zeros([...shape.slice(0, -1), 4], { dtype, device: CUDA }));
        assertEquals(y.linear(v, c, { out }), out);
        assertNear(out.toArray(), whole, dtype);
        const wide = asView(out.astype("float64"));
        if (dtype !== "int32") assertNear(y.linear(v, c, { out: wide }).toArray(), whole, dtype);
      }
    }
  });

  it("a bias of another dtype promotes, one that overlaps the output is read before", () => {
    for (const device of [CUDA, "cpu"] as const) {
      const [x, w] = [eighths([4, 4], "float16"), eighths([4, 4], "float16")].map((one) =>
        one.to(device)
      );
      const b = eighths([4], "float32").to(device);
      const wide = x.astype("float32").linear(w.astype("float32"), b);
      assertEquals(x.linear(w, b).dtype, "float32");
      assertEquals(x.linear(w, b).toArray(), wide.toArray());
      const out = loose(zeros([4, 4], { device }));
      out.slice(1).set(["..."], b);
      x.astype("float32").linear(w.astype("float32"), out.slice(1), { out });
      assertEquals(out.toArray(), wide.toArray());
    }
  });

  it("Matmul on CUDA: TF32 is used when it is allowed, and for float32 alone", () => {
    const fine = 1 + 2 ** -12;
    const product = (dtype: DType) =>
      loose(tensor([[fine]], { device: CUDA, dtype: loose(dtype) }))
        .matmul(tensor([[1]], { device: CUDA, dtype: loose(dtype) })).item();
    assertEquals(product("float32"), fine);
    assertEquals(allowTF32(true), false);
    try {
      // A device may not use TF32 for such a small matrix.
      assert([1, fine].includes(product("float32")));
      if (!onHardware) assertEquals(product("float32"), 1);
      assertEquals(product("float64"), fine);
      assertEquals(
        ones([2, 2], { device: CUDA }).matmul(ones([2, 2], { device: CUDA })).dtype,
        "float32",
      );
    } finally {
      assertEquals(allowTF32(false), true);
    }
    assertEquals(product("float32"), fine);
  });
}

function graphs(): void {
  it("Graphs of CUDA work: work is done when it is run, on the tensors as they are then", () => {
    const x = loose(iota([4, 3])).to(CUDA);
    const [w, b] = [iota([2, 3]).to(CUDA), ones([2]).to(CUDA)];
    const out = loose(zeros([4, 2], { device: CUDA }));
    const work = () => loose(x).linear(w, b).relu().softmax(-1);
    const expected = work().toArray();
    using step = capture(CUDA, () => {
      const made = scope(work);
      out.set(["..."], made);
      made.dispose();
    });
    assertEquals([step.device, out.toArray()], [CUDA, [[0, 0], [0, 0], [0, 0], [0, 0]]]);
    step.run();
    assertEquals(out.toArray(), expected);
    x.mul_(-0.125);
    const other = work().toArray();
    step.run();
    assertEquals(out.toArray(), other);
  });

  it("Graphs of CUDA work: every kind of op can be recorded", () => {
    const x = loose(iota([4, 6])).to(CUDA);
    const picks = tensor([1, 0, 3], { device: CUDA, dtype: "int32" });
    const key = random.key(3);
    const work = () => [
      x.add(1).sum(0),
      x.T.cumulativeSum(1),
      x.sort(1, { descending: true }),
      x.argsort(0),
      x.argmax(1),
      x.slice(picks),
      x.take(picks, 1),
      x.layerNorm(),
      x.T.softmax(0),
      x.astype("float16").matmul(x.T.astype("float16")),
      x.astype("int32").matmul(x.T.astype("int32")),
      x.astype("int8").matmul(x.T.astype("int8"), { dtype: "int32" }),
      concat([x, x.flip(0)]),
      random.uniform(key, [5], { device: CUDA }),
    ];
    work();
    let made: ReturnType<typeof loose>[] = [];
    const step = capture(CUDA, () => {
      made = work();
    });
    x.add_(2);
    step.run();
    step.run();
    assertEquals(made.map((one) => one.toArray()), work().map((one) => one.toArray()));
    step.dispose();
    step.dispose();
    assertThrows(() => step.run(), DisposedError, "disposed");
    // Existing results stay.
    assertEquals(made.map((one) => one.toArray()), work().map((one) => one.toArray()));
  });

  it("the memory that it uses stays its own, and is given back with it", () => {
    const inUse = (): number => {
      const { bytes, pooledBytes } = memory(CUDA);
      return bytes - pooledBytes;
    };
    const before = inUse();
    const x = ones([1000], { device: CUDA });
    const out = zeros([1000], { device: CUDA });
    const step = capture(CUDA, () => {
      scope(() => {
        x.add(1).mul(2, { out });
      });
    });
    // No other tensor gets memory that the graph uses.
    x.dispose();
    const y = full([1000], 3, { device: CUDA });
    let whole = loose(y);
    using copying = capture(CUDA, () => {
      whole = loose(y.view().intoOwnedKeepLayout());
    });
    y.dispose();
    const others = Array.from({ length: 20 }, () => full([1000], 7, { device: CUDA }));
    step.run();
    assertEquals(out.toTypedArray(), new Float32Array(1000).fill(4));
    for (const other of others) {
      assertEquals(other.toTypedArray(), new Float32Array(1000).fill(7));
    }
    copying.run();
    assertEquals(whole.toTypedArray(), new Float32Array(1000).fill(3));
    step.dispose();
    copying.dispose();
    for (const one of [out, whole, ...others]) one.dispose();
    assertEquals(inUse(), before);
  });

  it("what is made and given back while it is recorded serves again", () => {
    const x = ones([100_000], { device: CUDA });
    const inUse = (): number => memory(CUDA).bytes - memory(CUDA).pooledBytes;
    const before = inUse();
    using _step = capture(CUDA, () => {
      for (let i = 0; i < 50; i++) x.add(i).dispose();
    });
    assert(inUse() - before < 5 * 400_000, `${inUse() - before} bytes`);
    x.dispose();
  });

  it("what is on its way to a copy on write is copied before a run", () => {
    const out = loose(zeros([3], { device: CUDA }));
    const x = loose(ones([3], { device: CUDA }));
    let inner = x;
    using step = capture(CUDA, () => {
      x.add(1, { out });
      inner = x.mul(3);
    });
    step.run();
    const snapshots = [out.intoCow(), inner.intoCow()];
    inner.dispose();
    x.add_(5);
    step.run();
    assertEquals(snapshots.map((one) => one.toArray()), [[2, 2, 2], [3, 3, 3]]);
    assertEquals(out.toArray(), [7, 7, 7]);
    const cow = x.intoCow();
    assertThrows(() => capture(CUDA, () => x.add_(1)), DeviceError, "copies on write");
    assertThrows(() => capture(CUDA, () => cow.add_(1)), DeviceError, "copies on write");
    assertEquals([x.toArray(), cow.toArray()], [[6, 6, 6], [6, 6, 6]]);
  });

  it("a copy on write that it reads or writes is held where it was", () => {
    const x = loose(ones([3], { device: CUDA }));
    const [read, written] = [x.intoCow(), x.intoCow()];
    written.fill_(0);
    using step = capture(CUDA, () => void read.add(1, { out: written }));
    read.fill_(7);
    const snapshot = written.intoCow();
    read.dispose();
    x.dispose();
    const others = [1, 2, 3].map(() => zeros([3], { device: CUDA }));
    step.run();
    assertEquals([snapshot.toArray(), written.toArray()], [[0, 0, 0], [2, 2, 2]]);
    assertEquals(others.map((one) => one.sum().item()), [0, 0, 0]);
  });

  it("a profile waits for each op, and has one row for each run of a graph", () => {
    const x = loose(iota([4, 3])).to(CUDA);
    const out = loose(zeros([4], { device: CUDA }));
    const work = () => void x.softmax().sum(1, { out });
    work();
    const expected = out.toArray();
    out.fill_(0);
    const recorded = profile(() => capture(CUDA, work));
    using step = recorded.result;
    assertEquals(recorded.calls.map(({ op }) => op).slice(0, 2), ["softmax", "sum"]);
    const { calls, rows } = profile(() => {
      step.run();
      step.run();
      x.exp();
    });
    const seen = calls.map(({ op, backend, threads }) => [op, backend, threads]);
    const graph = ["graph", "cuda", undefined];
    assertEquals(seen, [graph, graph, ["exp", "cuda", undefined]]);
    assertEquals(rows.find(({ op }) => op === "graph")!.calls, 2);
    assertEquals(out.toArray(), expected);
  });

  it("an index out of range is found by the read after a run", () => {
    const x = loose(iota([3])).to(CUDA);
    const picks = loose(tensor([0, 1], { device: CUDA, dtype: "int32" }));
    using step = capture(CUDA, () => void x.take(picks, 0));
    step.run();
    synchronize(CUDA);
    picks.add_(2);
    step.run();
    assertThrows(() => synchronize(CUDA), IndexError, "size 3");
    picks.fill_(2);
    step.run();
    synchronize(CUDA);
  });

  it("Graphs of CUDA work: what needs values, or another memory, is refused, and nothing is left behind", () => {
    const x = loose(iota([2, 3])).to(CUDA);
    const refused: (() => unknown)[] = [
      () => x.sum().item(),
      () => x.toArray(),
      () => String(x.mul(2)),
      () => x.slice(x.greater(1)),
      () => x.nonzero(),
      () => x.cpu(),
      ...info().devices["cuda:1"] === undefined ? [] : [
        () => x.to("cuda:1"),
        () => ones([2], { device: "cuda:1" }).to(CUDA),
      ],
      () => tensor([1, 2], { device: CUDA }),
      () => x.add(loose(iota([3])).to(CUDA)),
      () => synchronize(CUDA),
      () => capture(CUDA, () => {}),
    ];
    for (const run of refused) {
      assertThrows(
        () => capture(CUDA, run),
        DeviceError,
        "a graph is being captured",
        String(run),
      );
    }
    assertThrows(() => capture(CUDA, () => x.add(ones([3]))), DeviceError, "move one");
    const failing = (): never => Promise.reject(new Error("nothing waits for this")) as never;
    assertThrows(() => capture(CUDA, failing), DeviceError, "async");
    const graphAfterUsing = () => {
      using graph = capture(CUDA, () => void zeros([2], { device: CUDA }));
      return graph;
    };
    assertThrows(() => graphAfterUsing().run(), DisposedError, "the graph was disposed");
    assertThrows(() => capture("cpu", () => {}), DeviceError, '"cpu": it has no graphs');
    const error = assertThrows(() =>
      capture(CUDA, () => {
        x.add(1);
        throw new TypeError("mine");
      }), TypeError);
    assertEquals(error.message, "mine");
    // Later allocations work.
    using step = capture(CUDA, () => x.add_(1));
    step.run();
    assertEquals(x.toArray(), [[1, 2, 3], [4, 5, 6]]);
  });

  it("a graph of nothing is one", () => {
    using step = capture(CUDA, () => {});
    step.run();
    synchronize(CUDA);
  });
}
