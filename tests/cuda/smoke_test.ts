/**
 * A bit of everything on a CUDA device, the emulator's or a real one: what could differ between the
 * foreign functions of the runtimes. The other files test each part, usually in one runtime only.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  capture,
  DeviceError,
  emptyCache,
  IndexError,
  info,
  memory,
  ones,
  scope,
  synchronize,
  tensor,
  zeros,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { type Any, iota, loose } from "../support.ts";
import { onHardware, openCudaForTests, whyNoCuda } from "./support/device.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`a bit of everything on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();

  test("the device opens, and describes itself", () => {
    assertEquals(info().backends.cuda, "available");
    assertEquals(zeros([2], { device: "cuda" }).toArray(), [0, 0]);
    assertEquals(info().backends.cuda, "in use");
    const { totalBytes, freeBytes } = memory("cuda");
    assert(totalBytes >= freeBytes && freeBytes > 0, `${freeBytes} of ${totalBytes} bytes`);
    const about = info().devices.cuda!;
    assert(about.includes(onHardware ? "compute capability" : "Emulator"), about);
  });

  test("numbers of every size arrive on the device and come back", async () => {
    for (const dtype of ["bool", "int8", "uint16", "float16", "float32", "float64"] as const) {
      const x = loose(iota([3, 5])).remainder(2).astype(dtype);
      const there = x.T.to("cuda");
      assertEquals([there.device, there.dtype, there.shape], ["cuda", dtype, [5, 3]]);
      assertEquals(there.toArray(), x.T.toArray());
      assertEquals([...await there.read()], [...x.T.copy().toTypedArray()]);
    }
    const wide = loose(tensor([2n ** 62n + 1n, -(2n ** 63n)], { dtype: "int64" }));
    assertEquals(wide.to("cuda").toArray({ bigint: true }), wide.toArray({ bigint: true }));
    // More than a pinned buffer has room for, while other work goes on.
    const n = 5_000_000, long = loose(iota([n], "float32")).to("cuda");
    const reading = long.read();
    long.fill_(0);
    const got = await reading as Float32Array;
    assertEquals([got.length, got[1], got[n - 1]], [n, 1, n - 1]);
  });

  test("elementwise ops, products and reductions give what the CPU gives", () => {
    const x = loose(iota([4, 6], "float32")), w = loose(iota([6, 3], "float32"));
    const [y, v] = [x.to("cuda"), w.to("cuda")];
    assertEquals(y.add(y.flip(0)).mul(0.5).toArray(), x.add(x.flip(0)).mul(0.5).toArray());
    assertEquals(y.matmul(v).toArray(), x.matmul(w).toArray());
    assertEquals(
      y.linear(v.T, ones([3], { device: "cuda" })).toArray(),
      x.matmul(w).add(1).toArray(),
    );
    assertEquals(y.sum(0).toArray(), x.sum(0).toArray());
    assertEquals(y.argmax(1).toArray(), x.argmax(1).toArray());
    assertEquals(y.cumulativeSum(1).toArray(), x.cumulativeSum(1).toArray());
    const order = (one: Any): unknown => one.sort(1, { descending: true }).toArray();
    assertEquals(order(y), order(x));
    assertEquals(y.take([2, 0], 1).toArray(), x.take([2, 0], 1).toArray());
  });

  test("a compiled program runs by dispatch, then as a graph, on the values of each call", () => {
    const w = loose(iota([6, 3], "float32")).to("cuda");
    using f = compile((x: Any) => x.matmul(w).sub(40).relu().sum(0)) as Any;
    for (let round = 0; round < 4; round++) {
      const x = loose(iota([4, 6], "float32")).add(round);
      const expected = x.matmul(w.cpu()).sub(40).relu().sum(0).toArray();
      assertEquals(f(x.to("cuda")).toArray(), expected);
      const executors = f.explain().map(({ data }: Any) => data.executor);
      assertEquals(executors, [round === 0 ? "replay" : "graph"]);
    }
  });

  test("a captured graph runs on what its tensors hold", () => {
    const x = ones([3], { device: "cuda" }), out = zeros([3], { device: "cuda" });
    using step = capture("cuda", () => void x.add(1, { out }));
    assertEquals(out.toArray(), [0, 0, 0]);
    for (const value of [1, 5]) {
      x.fill_(value);
      step.run();
      assertEquals(out.toArray(), [value + 1, value + 1, value + 1]);
    }
    assertThrows(() => capture("cuda", () => x.toArray()), DeviceError, "is being captured");
  });

  test("errors of kernels, of devices and of memory come with their messages", async () => {
    const x = loose(iota([2, 3])).to("cuda");
    const picked = x.slice([0, 2]);
    assertThrows(() => picked.toArray(), IndexError, "size 2");
    await assertRejects(() => x.take([-4], 1).read(), IndexError, "size 3");
    synchronize("cuda");
    assertThrows(() => x.to(loose("cuda:99")), DeviceError, "CUDA devices");
    assertThrows(() => zeros([2 ** 20, 2 ** 20, 2 ** 8], { device: "cuda" }), Error, "cuda");
    assertEquals(x.toArray(), [[0, 1, 2], [3, 4, 5]]);
  });

  test("memory is given back and reused", () => {
    emptyCache("cuda");
    const inUse = (): number => memory("cuda").bytes - memory("cuda").pooledBytes;
    const before = inUse();
    const total = scope(() => ones([100, 100], { device: "cuda" }).mul(2).sum());
    assertEquals(total.item(), 20000);
    total.dispose();
    assertEquals(inUse(), before);
  });
}
