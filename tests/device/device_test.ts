/**
 * Tensors on another device than the CPU: the same results as on the CPU, without mistaking its
 * elements for the CPU's; moves, reads, ownership, and errors.
 *
 * The device is the mirror of device/mirror.ts, whose memory only its backend can access. The op
 * table runs on it as well: table_test.ts.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import {
  type AnyTensor,
  attempt,
  concat,
  DeviceError,
  DisposedError,
  DTypeError,
  emptyCache,
  fromBuffer,
  IndexError,
  info,
  io,
  memory,
  ones,
  OutOfMemoryError,
  random,
  ReadOnlyError,
  scope,
  type Shape,
  ShapeError,
  sharesBuffer,
  special,
  stack,
  synchronize,
  tensor,
  warmUp,
  where,
  zeros,
} from "../../mod.ts";
import { demo } from "../../examples/digits/main.ts";
import { deviceOf } from "../../src/core/registry.ts";
import { ROW_KERNELS } from "../../src/ops/softmax_norm/problem.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { readElement, writeElement } from "../../src/memory/element.ts";
import { formatTensor } from "../../src/tensor/format.ts";
import type { Call } from "../../src/table/op.ts";
import { TABLE } from "../../src/table/table.ts";
import { memories, MIRROR, MIRROR1 } from "./mirror.ts";
import { type Program, PROGRAMS, siteOn, told, WAITING } from "./programs.ts";
import { assertRefused, iota, loose } from "../support.ts";
import { using } from "../ops/table/backends.ts";

deviceOf(MIRROR, "open");
deviceOf(MIRROR1, "open");
const mirror = memories[0]!;

const js = new JsBackend();

/** The result of `program` on the CPU, by the backend that the mirror uses too. */
function onCpu(program: Program): unknown {
  return using(js, () => told(program(siteOn("cpu")), "cpu"));
}

for (const [about, programs] of Object.entries(PROGRAMS)) {
  describe(`on a device: ${about}`, () => {
    for (const [name, program] of Object.entries(programs)) {
      it(name, () => {
        const expected = onCpu(program);
        const { reads, waits } = mirror;
        const made = program(siteOn(MIRROR));
        assertEquals([mirror.reads, mirror.waits], [reads, waits], "it waited for the device");
        assertEquals(told(made, MIRROR), expected);
        // Results alone would not reveal a program that makes nothing there.
        assert(mirror.blocks > 0);
      });
    }
  });
}

describe("on a device, where values decide what happens", () => {
  for (const [name, program] of Object.entries(WAITING)) {
    it(name, () => assertEquals(told(program(siteOn(MIRROR)), MIRROR), onCpu(program)));
  }
});

describe("moving between devices", () => {
  it("there and back, for every dtype and any layout", () => {
    for (
      const dtype of ["int8", "int64", "uint16", "float16", "bfloat16", "float64"] as const
    ) {
      const x = loose(iota([3, 4], dtype));
      for (
        const view of [x, x.T, x.slice("1:"), x.slice("::-1, ::2"), x.slice(0).broadcastTo([2, 4])]
      ) {
        const there = view.to(MIRROR);
        assertEquals([there.device, there.dtype, there.shape], ["mirror", dtype, view.shape]);
        assert(there.isContiguous);
        assertEquals(there.toArray({ bigint: false }), view.toArray());
        assertEquals(there.T.cpu().toArray(), view.T.toArray());
        assertEquals(there.to(MIRROR1).to(MIRROR).cpu().toArray(), view.toArray());
      }
    }
  });

  it("where it is already, it is a view", () => {
    const x = ones([2], { device: MIRROR });
    const same = x.to(MIRROR);
    assert(sharesBuffer(x, same));
    assertEquals(same.ownership, "view");
    assert(sharesBuffer(x, x.to("mirror:0" as "cuda")));
    assertEquals(x.readonly().to("mirror:0" as "cuda").access, "read");
    const y = zeros([2]);
    assert(sharesBuffer(y, y.cpu()));
    // A copy of its own elsewhere.
    same.to(MIRROR1).fill_(3);
    assertEquals(x.toArray(), [1, 1]);
  });

  it("the first device of a kind has no number", () => {
    assertEquals(zeros([1], { device: "mirror:0" as "cuda" }).device, "mirror");
    assertEquals(zeros([1]).to("mirror:1" as "cuda").device, "mirror:1");
    assert(deviceOf("mirror:0", "open") === deviceOf("mirror", "open"));
  });

  it("from one device to another without the CPU", () => {
    const x = iota([2, 3]).to(MIRROR);
    const { reads } = mirror;
    const y = x.T.to(MIRROR1);
    assertEquals(mirror.reads, reads);
    assertEquals(y.toArray(), [[0, 3], [1, 4], [2, 5]]);
    assertEquals(loose(tensor)(x, { device: MIRROR1, dtype: "int8" }).device, "mirror:1");
    assertEquals(loose(tensor)(x, { device: "cpu", shape: [3, 2] }).toArray(), [[0, 1], [2, 3], [
      4,
      5,
    ]]);
  });

  it("what is not there is a DeviceError that says why", () => {
    const x = ones([2]);
    for (const device of ["quantum", "mirror:x", "mirror:-1", "mirror:01", "cpu:1", "", 3, null]) {
      assertRefused(() => x.to(loose(device)), DeviceError, "Cannot move a tensor to", x);
    }
    assertRefused(
      () => x.to("mirror:7" as "cuda"),
      DeviceError,
      "mirror:7: there are 3 mirrors",
      x,
    );
    assertRefused(
      () => zeros([1], { device: "mirror:7" as "cuda" }),
      DeviceError,
      "zeros on mirror:7",
    );
    assertRefused(
      () => random.bits(random.key(1), [1], { device: loose("quantum") }),
      DeviceError,
      [
        'bits on "quantum"',
      ],
    );
    assertRefused(() => synchronize(loose("quantum")), DeviceError, 'synchronize "quantum"');
  });

  it("CUDA, where it cannot be had, is a DeviceError with the reason that info() gives", () => {
    const { backends, devices } = info();
    const { error } = attempt(() => ones([2]).cuda());
    if (devices.cuda !== undefined) return assertEquals(error, undefined);
    assert(error instanceof DeviceError, String(error));
    assertEquals(error.message, `Cannot move a tensor to cuda: ${backends.cuda}`);
    assertRefused(
      () => ones([2], { device: "cuda:0" }),
      DeviceError,
      `ones on cuda: ${backends.cuda}`,
    );
  });
});

describe("reading from a device", () => {
  const x = loose(iota([3, 4])).to(MIRROR);

  it("values, arrays, typed arrays and rows", async () => {
    assertEquals(x.slice(1, 2).item(), 6);
    assertEquals(x.get(-1, 0), 8);
    assertEquals(x.slice("1:, ::3").toArray(), [[4, 7], [8, 11]]);
    assertEquals([...x.T.toTypedArray()], [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]);
    assertEquals([...await x.slice("2").read()], [8, 9, 10, 11]);
    assertEquals([...await x.slice(":, 1").read()], [1, 5, 9]);
    assertEquals([...x].map((row) => row.sum().item()), [6, 22, 38]);
    assertEquals(zeros([0, 2], { device: MIRROR }).toArray(), []);
    assertEquals((await zeros([0], { device: MIRROR }).read()).length, 0);
    const wide = loose(tensor([2n ** 60n], { device: MIRROR }));
    assertEquals(wide.item({ bigint: true }), 2n ** 60n);
    assertThrows(() => wide.item(), RangeError, "2^53");
    assertEquals(
      (await loose(ones([2], { dtype: "float16", device: MIRROR })).read()).constructor.name,
      (
        await loose(ones([2], { dtype: "float16" })).read()
      ).constructor.name,
    );
  });

  it("a read gives what was there when it began, and holds no memory of its own afterwards", async () => {
    const y = loose(ones([2, 2], { device: MIRROR }));
    const { blocks } = mirror;
    const reading = y.T.read();
    y.fill_(2);
    assertEquals(mirror.blocks, blocks);
    assertEquals([...await reading], [1, 1, 1, 1]);
    const last = y.read();
    y.dispose();
    assertEquals([...await last], [2, 2, 2, 2]);
    await assertRejects(() => y.read(), DisposedError);
  });

  it("one copy reads all, and one element reads no more than that", () => {
    const before = mirror.reads;
    x.T.toArray();
    assertEquals(mirror.reads, before + 1);
    x.get(1, 1);
    assertEquals(mirror.reads, before + 2);
  });

  it("elements one by one, as what lies below tensors does", () => {
    const { storage } = loose(zeros([3], { dtype: "float16", device: MIRROR }));
    writeElement(storage, 1, 0.5);
    assertEquals([0, 1, 2].map((at) => readElement(storage, at)), [0, 0.5, 0]);
  });

  it("text is that of the tensor on the CPU, from as much as is shown", () => {
    const shapes: Shape[] = [[], [3], [2, 0], [2, 3, 4], [1200], [40, 50], [2, 3, 1001], [
      300,
      2,
      7,
    ]];
    for (const shape of shapes) {
      for (const here of [iota(shape), iota(shape, "int64"), loose(iota(shape)).T]) {
        const there = here.to(MIRROR);
        assertEquals(there.toString(), here.toString());
        const html = (y: AnyTensor) => loose(y)[Symbol.for("Jupyter.display")]()["text/html"];
        assertEquals(html(there), html(here).replace(/, cpu(?=<)/, `, ${MIRROR}`));
        for (const edgeItems of [0, 1, 4]) {
          const options = { edgeItems, threshold: 3 };
          assertEquals(formatTensor(there, options), formatTensor(here, options));
        }
      }
    }
    const { reads } = mirror;
    String(iota([100, 100]).to(MIRROR));
    assertEquals(mirror.reads, reads + 1);
    assertEquals(
      String(loose(iota([2])).to(MIRROR).intoOwned()),
      "tensor([0, 1], shape [2], float32)",
    );
  });

  it("files are written from there, and read to the CPU", () => {
    const bytes = io.encodeNpy(x.T);
    assertEquals([...bytes], [...io.encodeNpy(x.T.cpu())]);
    assertEquals(io.decodeNpy(bytes).device, "cpu" as string);
    assertEquals([...io.encodeSafetensors({ x })], [...io.encodeSafetensors({ x: x.cpu() })]);
  });

  it("the elements themselves cannot be handed out", () => {
    for (const take of ["data", "intoShared", "intoSharedKeepLayout"]) {
      const y = loose(ones([2], { device: MIRROR }));
      assertRefused(() => take === "data" ? y.data : y[take](), DeviceError, [take, "mirror"], y);
    }
    assertThrows(() => x.storage.array, DeviceError, "Cannot reach elements on mirror");
    assertThrows(() => x.storage.words, DeviceError, "mirror");
    assertEquals(x.storage.shared, false);
  });

  it("into… methods give copies, and free the memory", () => {
    const { blocks } = mirror;
    const y = loose(iota([2, 2])).to(MIRROR);
    assertEquals([...y.T.intoTypedArray()], [0, 2, 1, 3]);
    assertEquals(mirror.blocks, blocks + 1);
    assertEquals([...y.intoTypedArray()], [0, 1, 2, 3]);
    assertEquals([mirror.blocks, y.isDisposed], [blocks, true]);
    const z = loose(iota([2, 2])).to(MIRROR);
    assertEquals([...z.slice(1).intoRaw()], [0, 1, 2, 3]);
    assertEquals([...z.intoRaw()], [0, 1, 2, 3]);
    assertEquals(mirror.blocks, blocks);
  });
});

it("the digits demo runs on a device as on the CPU", async () => {
  assertEquals(await demo(MIRROR), await demo());
});

describe("memory of a device", () => {
  it("dispose, using and scope give it back", () => {
    const { blocks } = mirror;
    {
      using x = ones([2, 3], { device: MIRROR });
      const view = x.T;
      view.dispose();
      assertEquals(mirror.blocks, blocks + 1);
    }
    assertEquals(mirror.blocks, blocks);
    const kept = scope(() => {
      const x = loose(iota([4, 5])).to(MIRROR);
      x.var(0);
      x.slice([1, 2]).set([x.slice("1:3").greater(3)], 0);
      x.set([[0], 1], 5);
      x.layerNorm(0, { weight: ones([4], { device: MIRROR }) });
      return x.T.softmax(0).add(1);
    });
    assertEquals(mirror.blocks, blocks + 1);
    kept.dispose();
    kept.dispose();
    assertEquals(mirror.blocks, blocks);
  });

  it("what moves or reads leaves nothing behind", () => {
    const x = loose(iota([4, 5])).to(MIRROR);
    const { blocks } = mirror;
    for (const read of ["toArray", "toTypedArray", "toString", "cpu"]) x.T[read]();
    x.T.to(MIRROR1);
    loose(iota([4, 5])).T.to(MIRROR).dispose();
    assertEquals(mirror.blocks, blocks);
  });

  it("a kernel that cannot be had leaves nothing behind, and operands as they were", () => {
    const x = loose(iota([3, 4]));
    const there = x.to(MIRROR);
    for (const name of ["softmax", "logSoftmax", "layerNorm", "rmsNorm"]) {
      for (const [here, elsewhere] of [[x, there], [x.T, there.T]]) {
        const expected = using(js, () => here[name](-1).toArray());
        const { blocks } = mirror;
        const made = elsewhere[name](-1);
        assertEquals(made.toArray(), expected, `${name} of [${here.shape}]`);
        elsewhere[name](-1, { out: made });
        assertEquals(made.toArray(), expected, `${name} of [${here.shape}], out`);
        assertEquals(mirror.blocks, blocks + 1, `${name} of [${here.shape}]`);
        made.dispose();
      }
    }
  });

  it("memory() tells of it, and emptyCache() reaches it", () => {
    const before = memory(MIRROR);
    const x = zeros([1000], { device: MIRROR });
    const { bytes, peakBytes, totalBytes, freeBytes } = loose(memory(MIRROR));
    assertEquals(bytes, before.bytes + 4000);
    assertEquals(freeBytes + bytes, totalBytes);
    assert(peakBytes >= bytes);
    x.dispose();
    emptyCache(MIRROR);
    assertEquals(memory(MIRROR).peakBytes, before.bytes);
    assertEquals(memory("cpu").bytes, memory().bytes);
  });

  it("when there is none left, an error says how much was asked for", () => {
    mirror.limit = 100;
    try {
      const x = ones([20], { device: MIRROR });
      assertRefused(
        () => x.outer(x),
        OutOfMemoryError,
        ["1600 bytes on mirror", "100 are free"],
        x,
      );
      assertRefused(() => zeros([30], { device: MIRROR }), OutOfMemoryError, "120 bytes", x);
      assertRefused(() => ones([30]).to(MIRROR), OutOfMemoryError, "120 bytes", x);
    } finally {
      mirror.limit = Infinity;
    }
  });

  it("a copy to a device that fails leaves nothing behind", () => {
    emptyCache();
    const [{ blocks }, before] = [mirror, memory().pooledBytes];
    mirror.write = () => {
      throw new DeviceError("the device has failed");
    };
    try {
      assertThrows(() => tensor(new Float32Array(5000), { device: MIRROR }), DeviceError, "failed");
    } finally {
      delete (mirror as Partial<typeof mirror>).write;
    }
    // The copy on the CPU is there for others.
    assertEquals([mirror.blocks, memory().pooledBytes - before], [blocks, 20_000]);
  });

  it("memory without references is freed in time, and nothing twice", async () => {
    const { blocks } = mirror;
    const lose = (): void => {
      for (let i = 0; i < 50; i++) {
        loose(ones([10], { device: MIRROR })).T.add(1);
        ones([10], { device: MIRROR }).dispose();
      }
    };
    lose();
    assertEquals(mirror.blocks, blocks + 100);
    const { Bun } = globalThis as { Bun?: { gc(force: boolean): void } };
    const end = Date.now() + 60_000;
    // Of both kinds of memory, so that all generations of the collector are filled.
    let litter: unknown[] = [];
    while (mirror.blocks > blocks + 50 && Date.now() < end) {
      if (Bun !== undefined) Bun.gc(true);
      else {
        new Uint8Array(2 ** 26).fill(1);
        litter = litter.length > 1e6 ? [] : [...litter, ...Array.from({ length: 1e5 }, () => ({}))];
      }
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    assert(mirror.blocks <= blocks + 50, `${mirror.blocks - blocks} blocks are left of 100`);
    assertEquals(mirror.strays, 0);
  });

  it("snapshots are not of the original's memory once either is written", () => {
    const x = loose(iota([2, 3])).to(MIRROR);
    const cow = x.intoCow();
    const view = cow.T;
    assert(sharesBuffer(x, cow));
    view.slice(0).fill_(7);
    assert(!sharesBuffer(x, cow) && sharesBuffer(cow, view));
    assertEquals(cow.device, "mirror");
    assertEquals(x.toArray(), [[0, 1, 2], [3, 4, 5]]);
    assertEquals(cow.toArray(), [[7, 1, 2], [7, 4, 5]]);
  });
});

describe("errors on a device", () => {
  it("tensors of two devices do not meet", () => {
    const [x, there] = [loose(iota([2, 2])), loose(iota([2, 2])).to(MIRROR)];
    const second = there.to(MIRROR1);
    const mask = loose(ones([2, 2], { dtype: "bool" }));
    const calls: ((a: typeof x, b: typeof x) => unknown)[] = [
      (a, b) => a.add(b),
      (a, b) => a.add(b.astype("float64")),
      (a, b) => a.add_(b),
      (a, b) => a.neg({ out: b }),
      (a, b) => a.sum(0, { out: b.slice(0) }),
      (a, b) => a.cumulativeSum(0, { out: b }),
      (a, b) => a.softmax(1, { out: b }),
      (a, b) => a.layerNorm(1, { weight: b.slice(0) }),
      (a, b) => a.rmsNorm(1, { weight: b.slice(0) }),
      (a, b) => a.matmul(b),
      (a, b) => a.matmul(a, { out: b }),
      (a, b) => a.linear(b),
      (a, b) => a.linear(a, b.slice(0)),
      (a, b) => a.slice(0).dot(b.slice(0)),
      (a, b) => a.outer(b),
      (a, b) => a.isclose(b),
      (a, b) => a.clip(b, 1),
      (a, b) => concat([a, b]),
      (a, b) => stack([a, b]),
      (a, b) => concat([a, a], 0, { out: b.tile([2, 1]) }),
      (a, b) => where(a.greater(1), a, b),
      (a, b) => a.slice(b.astype("int32")),
      (a, b) => a.slice(b.greater(1)),
      (a, b) => a.set([0], b.slice(0)),
      (a, b) => a.set([[0, 1]], b),
      (a, b) => a.set([b.greater(1)], 0),
      (a, b) => a.take(b.astype("int32"), 0),
      (a, b) => a.takeAlongAxis(b.astype("int32"), 0),
      (a, b) => a.putAlongAxis_(b.astype("int32"), 0, 0),
    ];
    for (const call of calls) {
      for (const [a, b] of [[x, there], [there, x], [there, second]]) {
        assertRefused(() => call(a, b), DeviceError, [a.device, b.device], a, b);
      }
    }
    assertRefused(() => where(mask, there, there), DeviceError, ["where", "cpu and mirror"], there);
  });

  it("what is refused on the CPU is refused there, and nothing changes", () => {
    const x = loose(iota([2, 3])).to(MIRROR);
    assertRefused(() => x.add(zeros([4], { device: MIRROR })), ShapeError, "[2, 3] and [4]", x);
    assertRefused(() => x.slice(5), IndexError, "size 2", x);
    assertRefused(() => x.bitwiseAnd(1), DTypeError, "bitwiseAnd", x);
    assertRefused(() => x.readonly().add_(1), ReadOnlyError, "read-only", x);
    assertRefused(() => x.slice(0).broadcastTo([2, 3]).fill_(1), ReadOnlyError, "several", x);
    assertRefused(() => x.take([0.5]), IndexError, "integer", x);
    assertRefused(() => x.oneHot(2), DTypeError, "float32", x);
    assertRefused(() => x.astype("int8").oneHot(2), IndexError, "oneHot 5 to 2", x);
    assertRefused(() => x.set([[0], [1]], "a"), DTypeError, "expected", x);
    x.dispose();
    assertRefused(() => x.add(1), DisposedError, "disposed", x);
    assertRefused(() => x.to(MIRROR1), DisposedError, "disposed", x);
  });

  it("an index out of range is found by the next read", async () => {
    const x = loose(iota([2, 3])).to(MIRROR);
    const picked = x.slice([0, 2]);
    assertEquals(picked.shape, [2, 3]);
    assertThrows(() => picked.toArray(), IndexError, "size 2");
    assertEquals(x.toArray(), [[0, 1, 2], [3, 4, 5]]);
    const reading = x.take([-4], 1).read();
    await assertRejects(() => reading, IndexError, "size 3");
    x.set([[7]], 1);
    assertThrows(() => synchronize(MIRROR), IndexError, "size 2");
    synchronize(MIRROR);
    synchronize("cpu");
  });

  it("fromBuffer makes tensors on the CPU alone", () => {
    const options = loose({ device: MIRROR });
    assertThrows(() => fromBuffer(new Float32Array(2), options), TypeError, "device");
  });
});

/** Calls of ops, by the names that `warmUp` accepts. */
const WARMED: Record<string, (x: ReturnType<typeof loose>) => unknown> = {
  allclose: (x) => x.allclose(x),
  argmax: (x) => x.argmax(),
  argsort: (x) => x.argsort(),
  clip: (x) => x.clip(x, x),
  concat: (x) => concat([x, x]),
  contiguous: (x) => x.T.contiguous(),
  copy: (x) => x.copy(),
  cumulativeSum: (x) => x.cumulativeSum(0),
  diff: (x) => x.diff(),
  dot: (x) => x.slice(0).dot(x.slice(0)),
  linear: (x) => x.linear(x, x.slice(0)),
  logsumexp: (x) => x.logsumexp(),
  matmul: (x) => x.matmul(x),
  nanmean: (x) => x.nanmean(),
  nanstd: (x) => x.nanstd(),
  nanvar: (x) => x.nanvar(),
  nonzero: (x) => x.slice(0).nonzero(),
  outer: (x) => x.slice(0).outer(x.slice(0)),
  pad: (x) => x.pad(1),
  repeat: (x) => [x.repeat(2), x.repeat([1, 2], 0)],
  roll: (x) => x.roll(1),
  sort: (x) => x.sort(),
  stack: (x) => stack([x, x]),
  std: (x) => x.std(),
  take: (x) => x.take([0, 1], 0),
  takeAlongAxis: (x) => x.takeAlongAxis(x.astype("int32")),
  tile: (x) => x.tile([2, 2]),
  topk: (x) => [x.topk(1), x.topk(1, -1, { largest: false, sorted: false })],
  var: (x) => x.var(),
  where: (x) => where(x.astype("bool"), x, x),
  norm: (x) => [1, 2, 3, Infinity, -Infinity].map((ord) => x.norm(null, { ord })),
};

/** Entries of the op table without a method of their own, and the method that uses them. */
const PARTS: Readonly<Record<string, string>> = {
  norm1: "norm",
  norm2: "norm",
  normP: "norm",
  normMax: "norm",
  normMin: "norm",
  logSumExp: "logsumexp",
  countNumbers: "nanmean",
  nanSquares: "nanvar",
};

describe("kernels can be made ahead", () => {
  const { backend } = deviceOf(MIRROR, "open")!;
  const asked: string[] = [];
  const own: Record<string, unknown> = { warmUp: (names: string[]) => asked.push(...names) };
  const launched: string[] = [];
  /** Names in `warmUp` for kernels that are not in the op table. */
  const kinds: Readonly<Record<string, string>> = {
    argsort: "sort",
    nonzeroIndices: "index",
    ravelIndex: "index",
    gather: "index",
    scatter: "index",
    scatterAdd: "index",
  };
  const spied = loose(backend);
  const run = backend.run.bind(backend);
  own.run = (call: Call): boolean => {
    const done = run(call);
    if (done) launched.push(kinds[call.op.name] ?? call.op.name);
    return done;
  };
  /** The launches of `body`, and the kernels that it prepares. */
  const watch = (body: () => void): [launched: string[], asked: string[]] => {
    asked.length = launched.length = 0;
    Object.assign(spied, own);
    try {
      body();
    } finally {
      for (const name of Object.keys(own)) delete spied[name];
    }
    return [[...new Set(launched)].sort(), [...new Set(asked)].sort()];
  };

  for (const [name, run] of Object.entries(WARMED)) {
    it(`all that ${name} launches`, () => {
      const x = ones([2, 2], { device: MIRROR });
      const [launched, made] = watch(() => {
        warmUp(MIRROR, [name]);
        run(loose(x));
      });
      // Any op may copy a tensor that is not dense, or has another dtype.
      const others = launched.filter((one) => one !== "copy" && !made.includes(one));
      assertEquals(others, []);
      assertEquals(made.filter((one) => !launched.includes(one)), [], "for nothing");
    });
  }

  it("by the names of methods and functions", () => {
    const methods = loose(ones([2]));
    const functions: Record<string, unknown> = { ...special, where };
    for (const { name } of TABLE) {
      const op = PARTS[name] ?? name;
      warmUp("cpu", [op]);
      assertThrows(() => warmUp("cpu", [op], [loose("float")]), DTypeError, "Cannot warm up");
      assert(typeof (methods[op] ?? functions[op]) === "function", op);
    }
    for (
      const name of [...ROW_KERNELS, "attention", "astype", "matmul", "sort", "index", "random"]
    ) {
      warmUp("cpu", [name]);
    }
    for (const name of ["norm2", "logSumExp", "nanSquares", "ad", "constructor"]) {
      assertThrows(
        () => warmUp("cpu", [name]),
        RangeError,
        `Cannot warm up "${name}": there is no`,
      );
    }
  });
});
