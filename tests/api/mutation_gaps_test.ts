/**
 * Rules that only mutation testing covers: no other test fails without them.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertNotStrictEquals,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import { describe, it } from "node:test";
import { finfo, fromBuffer, full, scalar, sharesBuffer, tensor, zeros } from "../../mod.ts";
import { apply, applyInPlace } from "../../src/core/apply.ts";
import { dispatch } from "../../src/core/dispatch.ts";
import { disturbs, overlaps } from "../../src/core/write.ts";
import { JsBackend } from "../../src/backend/js/backend.ts";
import { DTYPE, DTYPES } from "../../src/base/dtype.ts";
import { roundHalf } from "../../src/base/half.ts";
import { DeviceError, FormatError, IndexError, ShapeError } from "../../src/base/errors.ts";
import { decodeNpy } from "../../src/io/npy.ts";
import { Layout } from "../../src/base/layout.ts";
import type { ReduceOp } from "../../src/table/op.ts";
import { MAP, REDUCE, TABLE } from "../../src/table/table.ts";
import { parseIndexString, range, resolveSlice, sliceBasic } from "../../src/base/slice.ts";
import { planMap } from "../../src/base/plan.ts";
import { allocate, wrapExternal } from "../../src/memory/pool.ts";
import { Storage } from "../../src/memory/storage.ts";
import { matmul } from "../../src/ops/matmul/op.ts";
import "../../src/tensor/tensor.ts";
import { BackendCalls } from "../calls.ts";
import { assertRefused, iota, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";
import { golden } from "../ops/table/golden.ts";
import { operand, read, site } from "../ops/table/operands.ts";

describe("op rows", () => {
  it("each takes the dtypes that there is golden data for, and no others", () => {
    for (const dtype of DTYPES) {
      const kind = DTYPE[dtype].kind;
      const taken = TABLE.filter((row) => row.dtypes.includes(kind)).map(({ name }) => name);
      assertEquals(taken.sort(), Object.keys(golden(dtype).rows).sort(), dtype);
    }
  });

  // One large term, and many that are too small to change it one by one.
  const ones = 4000;
  const large = 1e16;
  /** The input whose mapped value is `large`, if it differs from the value itself. */
  const inputs: Record<string, [x: number, y: number, result: (sum: number) => number]> = {
    var: [1e8, 0, (sum) => sum / (ones + 1)],
    std: [1e8, 0, (sum) => Math.sqrt(sum / (ones + 1))],
    norm2: [1e8, 0, Math.sqrt],
    normP: [large ** (1 / 3), 0, Math.cbrt],
    nanSquares: [1e8, 0, (sum) => sum],
    mean: [large, 0, (sum) => sum / (ones + 1)],
  };

  for (const row of Object.values(REDUCE) as ReduceOp[]) {
    // Every sum, whatever the op claims.
    if (row.expr !== "a + x" || row.result === "int32") continue;
    it(`${row.name} of float64 keeps what is small beside the largest term`, () => {
      const exponential = row.name.toLowerCase().endsWith("sumexp");
      const [x, y, result] = exponential
        ? [Math.log(large), 0, row.name === "sumExp" ? (s: number) => s : Math.log]
        : inputs[row.name] ?? [large, 0, (s: number) => s];
      const storage = allocate("float64", ones + 1, false);
      storage.array.fill((exponential ? 0 : 1) as never);
      storage.array[0] = x;
      const second = allocate("float64", 1, false);
      second.array[0] = y;
      const given = row.name === "normP" ? { [row.parameters[0]!]: 3 } : {};
      const operands = [
        operand(storage, Layout.contiguous([ones + 1])),
        operand(second, Layout.contiguous([1])),
      ];
      const made = dispatch(row, operands.slice(0, row.arity), { axis: 0, ...given });
      const [found] = read(made) as [number];
      const first = exponential ? Math.exp(x) : row.name === "normP" ? x ** 3 : large;
      // Within a block terms are added plainly; without blocks, a whole lane of them is lost.
      const expected = result(first + ones);
      const allowed = Math.abs(expected - result(first + ones - 500));
      assert(Math.abs(found - expected) < allowed, `${found}, not ${expected}`);
    });
  }
});

describe("slices", () => {
  it("a range that begins behind the end is empty", () => {
    for (const [start, stop] of [[12, 15], [12, 12], [10, 12]]) {
      assertEquals(resolveSlice(range(start!, stop!), 10).length, 0);
    }
    assertEquals(iota([10]).sliceAxis(0, range(12, 15)).shape, [0]);
  });

  it("bounds in texts are decimal integers, whatever else Number() takes", () => {
    const x = iota([10]);
    for (const text of ["1e0:", ":0x4", "1.0:", "::1e0", ":Infinity", "+1:"]) {
      assertRefused(() => x.slice(text as ":"), IndexError, ["slice", text], x);
    }
  });

  it("texts are parsed once, and not all are kept for good", () => {
    const parts = parseIndexString("1:, ::-1, 0");
    assertStrictEquals(parseIndexString("1:, ::-1, 0"), parts);
    for (let i = 0; i < 5000; i++) parseIndexString(`${i}`);
    const again = parseIndexString("1:, ::-1, 0");
    assertNotStrictEquals(again, parts);
    assertEquals(again, parts);
  });
});

describe("layouts", () => {
  it("windows that slide by less than their length overlap", () => {
    const windows = (step: number): boolean => new Layout([3, 4], [step, 1], 0).overlapsItself;
    assertEquals([1, 2, 3, 4, 5].map(windows), [true, true, true, false, false]);
  });

  it("an empty row begins where its tensor does, and a row of a transposed one is not dense", () => {
    const empty = sliceBasic(Layout.contiguous([2, 0, 3], 4), [1]);
    assertEquals([empty.offset, empty.size], [4, 0]);
    const columns = Layout.contiguous([3, 4]).transpose();
    assert(!columns.selectAxis(0, 1).contiguous);
    assert(!sliceBasic(columns, [1]).contiguous);
  });

  it("a new axis has stride 0, of size 1 too", () => {
    assertEquals(Layout.contiguous([3]).broadcastTo([1, 3]).strides, [0, 1]);
  });

  it("sizes beyond 2^53 do not pass because a tensor is empty", () => {
    const x = zeros([0]);
    assertRefused(() => x.reshape([2 ** 30, 2 ** 30, -1] as number[]), ShapeError, "reshape", x);
  });
});

describe("writing", () => {
  it("operands overlap when their bytes do, not when they only share a buffer", () => {
    const part = (from: number, n: number) => operand(storage, new Layout([n], [1], from));
    const storage = wrapExternal("float32", new Float32Array(10));
    assert(!overlaps(part(0, 5), part(5, 5)));
    assert(overlaps(part(0, 6), part(5, 5)), "one element in common");
    assert(overlaps(part(5, 5), part(0, 6)), "one element in common");
    // Two arrays on one buffer: their offsets count.
    const { buffer } = storage.array;
    const later = operand(
      wrapExternal("float32", new Float32Array(buffer, 20, 5)),
      new Layout([5], [1], 0),
    );
    assert(!overlaps(part(0, 5), later));
    assert(overlaps(part(0, 6), later));
    const bytes = operand(
      wrapExternal("int8", new Int8Array(buffer, 0, 40)),
      new Layout([4], [1], 20),
    );
    assert(overlaps(bytes, later));
    assert(!overlaps(bytes, part(0, 5)));
    const first = operand(
      wrapExternal("uint8", new Uint8Array(buffer, 0, 8)),
      Layout.contiguous([8]),
    );
    const last = operand(
      wrapExternal("uint8", new Uint8Array(buffer, 7, 8)),
      Layout.contiguous([8]),
    );
    const after = operand(
      wrapExternal("uint8", new Uint8Array(buffer, 8, 8)),
      Layout.contiguous([8]),
    );
    assertEquals(
      [overlaps(first, last), overlaps(last, first)],
      [true, true],
      "one byte in common",
    );
    assertEquals([overlaps(first, after), overlaps(after, first)], [false, false]);
    // The same shape, strides and offset, but other widths.
    const wide = operand(
      wrapExternal("float64", new Float64Array(buffer, 0, 4)),
      Layout.contiguous([4]),
    );
    assert(disturbs(wide, part(0, 4)));
  });

  it("an operand that is the target itself is not copied", () => {
    const x = operand(allocate("float32", 4, true), Layout.contiguous([2, 2]));
    assert(!disturbs(x, x));
    assert(!disturbs(x, operand(x.storage, x.layout)));
    assert(disturbs(x, operand(x.storage, x.layout.transpose())));
  });

  it("a write to one copy-on-write tensor leaves the others where they are", () => {
    const x = iota([4]);
    const [a, b] = [x.intoCow(), x.intoCow()];
    a.set([0], 9);
    assert(!sharesBuffer(a, x));
    assert(sharesBuffer(b, x));
    assertEquals([...x.toTypedArray() as Float32Array], [0, 1, 2, 3]);
  });
});

describe("devices", () => {
  class Elsewhere extends Storage {
    override get device(): string {
      return "elsewhere:0";
    }
  }

  it("an op on two devices is refused, whatever the dtypes", () => {
    const layout = Layout.contiguous([2]);
    const here = operand(allocate("float32", 2, true), layout);
    for (const dtype of ["float32", "float64"] as const) {
      const { array, info } = allocate(dtype, 2, true);
      const there = operand(new Elsewhere(array, info, true, false), layout);
      const parts = ["on cpu and elsewhere:0", "on elsewhere:0 and cpu"];
      assertThrows(() => apply(MAP.add, here, there), DeviceError, parts[0]);
      assertThrows(() => apply(MAP.add, there, here), DeviceError, parts[1]);
      assertThrows(() => apply(MAP.where, true, here, there), DeviceError, parts[0]);
      assertThrows(() => applyInPlace(MAP.add, "add_", there, here), DeviceError, parts[1]);
      assertThrows(() => apply(MAP.neg, here, undefined, undefined, { out: there }), DeviceError);
      assertThrows(() => dispatch(REDUCE.sum, [here], { axis: 0 }, there), DeviceError);
      assertThrows(() => matmul(here, there), DeviceError, parts[0]);
      assertThrows(() => matmul(there, here), DeviceError, parts[1]);
    }
  });
});

describe("checks", () => {
  it("a tensor in the place of options is named as such", () => {
    const x = iota([2]);
    const error = assertThrows(() => loose(x).add(1, x), TypeError) as Error;
    assert(error.message.includes("options come last"), error.message);
  });

  it("a count of more elements than int32 counts is refused", () => {
    const x = zeros([1]).broadcastTo([2 ** 31]);
    assertThrows(() => x.countNonzero(), ShapeError, "int32");
  });

  it("limits of float16", () => assertEquals(finfo("float16").smallestNormal, 2 ** -14));

  it("every write counts as a version of the memory", () => {
    const x = zeros([3]);
    const version = (write: () => unknown): number => {
      const before = x.storage.version;
      write();
      return x.storage.version - before;
    };
    assertEquals(version(() => x.add_(1)), 1);
    assertEquals(version(() => iota([3]).exp({ out: x })), 1);
    assertEquals(version(() => loose(iota([2, 3])).sum(0, { out: x })), 1);
    assertEquals(version(() => x.set([0], 1)), 1);
    assertEquals(version(() => x.set([tensor([0, 1], { dtype: "int32" })], 1)), 1);
    assertEquals(version(() => x.add(1)), 0);
  });
});

describe("indexing by tensors", () => {
  it("two ellipses, an array of nothing, and a scalar's nonzero", () => {
    const x = iota([2, 3]);
    assertRefused(() => loose(x).slice("...", [0], "..."), IndexError, "more than one", x);
    assertEquals(loose(x).slice([]).shape, [0, 3]);
    assertRefused(() => loose(scalar(1)).nonzero(), ShapeError, "nonzero");
  });

  it("nonzero looks at strided tensors in row-major order", () => {
    const x = loose(tensor([[1, 0, 2], [0, 3, 0]]));
    for (const { on } of BACKENDS) {
      if (typeof on === "string") continue;
      using(on, () => {
        const places = (y: typeof x): unknown =>
          y.nonzero().map((axis: typeof x) => axis.toArray());
        assertEquals(places(x.T), [[0, 1, 2], [0, 1, 0]]);
        assertEquals(places(x.slice(":, ::-1")), [[0, 0, 1], [0, 2, 1]]);
        assertEquals(x.T.slice(x.T.greater(0)).toArray(), [1, 3, 2]);
      });
    }
  });

  it("nonzero gives the axes of rank 3 in order", () => {
    const x = zeros([2, 3, 4]);
    x.set([1, 2, 0], 1);
    x.set([0, 1, 3], 1);
    assertEquals(x.nonzero().map((axis) => axis.toArray()), [[0, 1], [1, 2], [3, 0]]);
  });

  it("an index out of range is named as it was given, though it was broadcast", () => {
    const rows = tensor([[0], [7]], { dtype: "int32" });
    const columns = tensor([0, 1], { dtype: "int32" });
    const x = iota([2, 3]);
    assertRefused(() => loose(x).slice(rows, columns), IndexError, "at 7", x);
  });

  it("values are cast, strided or of more axes than the places they go to", () => {
    const places = [[0, 2]] as never;
    const x = zeros([3, 2]);
    x.set(places, loose(tensor([[1, 2], [3, 4]], { dtype: "float16" })));
    assertEquals(x.toArray(), [[1, 2], [0, 0], [3, 4]]);
    x.set(places, loose(tensor([[1, 2], [3, 4]]).transpose()));
    assertEquals(x.toArray(), [[1, 3], [0, 0], [2, 4]]);
    x.set(places, loose(tensor([[[5, 6], [7, 8]]])));
    assertEquals(x.toArray(), [[5, 6], [0, 0], [7, 8]]);
    const y = zeros([4]);
    y.set([tensor([[0, 1], [2, 3]], { dtype: "int32" })], tensor([[1, 2], [3, 4]]).transpose());
    assertEquals(y.toArray(), [1, 3, 2, 4]);
  });

  it("int64 beyond 2^53 is rounded once on the way to float32", () => {
    const beyond = 2n ** 53n + 2n ** 29n + 1n;
    for (const { on } of BACKENDS) {
      if (typeof on === "string") continue;
      using(on, () => {
        const x = loose(tensor([beyond, -beyond, 2n ** 53n + 2n ** 29n, -(2n ** 53n)]));
        const up = 2 ** 53 + 2 ** 30;
        assertEquals(x.astype("float32").toArray(), [up, -up, 2 ** 53, -(2 ** 53)]);
      });
    }
  });

  it("int64 is shifted by 63, 64 and 65 bits", () => {
    for (const { on } of BACKENDS) {
      if (typeof on === "string") continue;
      using(on, () => {
        const x = loose(tensor([-8n, -8n, -8n])), n = tensor([63n, 64n, 65n]);
        assertEquals(x.bitwiseRightShift(n).toArray(), [-1, 0, 0]);
        assertEquals(x.bitwiseLeftShift(n).toArray(), [0, 0, 0]);
        assertEquals(
          Object.is(loose(tensor([-5e-324], { dtype: "float64" })).atan2(1e300).item(), -0),
          true,
        );
      });
    }
  });

  it("takeAlongAxis finds an index out of range, at the first place too", () => {
    const x = loose(iota([2, 3]));
    for (const { on } of BACKENDS) {
      if (typeof on === "string") continue;
      using(on, () => {
        assertEquals(loose(tensor([5, 6, 7])).takeAlongAxis([2, -3], 0).toArray(), [7, 5]);
        for (const indexes of [[[3, 0], [0, 0]], [[0, 0], [0, -4]]]) {
          const bad = tensor(indexes, { dtype: "int32" });
          assertRefused(() => x.takeAlongAxis(bad, 1), IndexError, ["takeAlongAxis", "axis 1"], x);
        }
      });
    }
  });

  it("takeAlongAxis wants indexes of the same rank", () => {
    const x = iota([2, 3]);
    const indexes = tensor([0, 1, 0], { dtype: "int32" });
    assertRefused(() => loose(x).takeAlongAxis(indexes, 0), ShapeError, "ranks differ", x);
  });
});

describe("loops", () => {
  it("positions beyond 2^31 are not cut, after a small plan of the same form too", () => {
    const backend = new BackendCalls(new JsBackend(true), new JsBackend(true));
    const info = DTYPE.float32;
    // Each element equals its position.
    const echo = new Proxy({}, { get: (_, key) => Number(key) });
    const walk = (offset: number, stride: number): [string, unknown][] => {
      const found: Record<string, unknown> = {};
      const layout = new Layout([2], [stride], offset);
      const plan = planMap(layout, layout, null, null);
      const out = new Storage(found as never, info, true, false);
      backend.map(
        MAP.copy,
        "float32",
        plan,
        out,
        new Storage(echo as never, info, true, false),
        null,
        null,
      );
      return Object.entries(found);
    };
    assertEquals(walk(5, 3), [["5", 5], ["8", 8]]);
    const far = 2 ** 33;
    assertEquals(walk(far, 3), [[`${far}`, far], [`${far + 3}`, far + 3]]);
  });

  it("sums of float64 are compensated, along rows and columns", () => {
    const x = full([30_000, 3], 0.1, { dtype: "float64" });
    const exact = 30_000 * 0.1;
    for (const { on } of BACKENDS) {
      using(on, () => {
        for (const sum of [x.sum(0), x.T.copy().sum(1), x.slice(":, 0").sum()]) {
          for (const value of [sum.toArray()].flat()) {
            assert(Math.abs(value - exact) < 4e-12, `${value}`);
          }
        }
      });
    }
  });

  it("halves are rounded once from doubles next to a tie", () => {
    const tie = 1 + 2 ** -11;
    assertEquals([tie - 2 ** -40, tie, tie + 2 ** -40].map((x) => roundHalf(x)), [
      1,
      1,
      1 + 2 ** -10,
    ]);
    assertEquals(roundHalf(-tie + 2 ** -40), -1);
  });

  it("sums in uint32 wrap at each step, so that they stay exact beyond 2^53", () => {
    const n = 2 ** 21 + 100;
    const x = full([n], 2 ** 32 - 1, { dtype: "uint32" });
    assertEquals(x.sum(null, { dtype: "uint32" }).item(), 2 ** 32 - n);
    const running = loose(x).cumulativeSum(0, { dtype: "uint32" });
    assertEquals(running.get(n - 1), 2 ** 32 - n);
  });

  it("products of integers wrap in every column", () => {
    for (
      const [dtype, value] of [["int32", 123456789n], ["int64", 1234567890123456789n]] as const
    ) {
      const bits = DTYPE[dtype].bytes * 8;
      const a = zeros([3, 2], { dtype }).add(tensor(value, { dtype }));
      const b = tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]], { dtype }).mul(
        tensor(value, { dtype }),
      );
      const wrap = (x: bigint): bigint => BigInt.asIntN(bits, x);
      const row = [1n, 2n, 3n, 4n, 5n].map((i) =>
        wrap(value * wrap(i * value) + value * wrap((i + 5n) * value))
      );
      const product = a.matmul(b as never) as typeof a;
      assertEquals(loose(product).toArray({ bigint: true }), [row, row, row]);
    }
  });

  it("numbers are added at places by the interpreter as by generated loops", () => {
    const block = Layout.contiguous([2]);
    const indexes = wrapExternal("int32", Int32Array.of(1, -1, 1));
    const picks = { indices: indexes, offset: 0, count: 3, size: 3, stride: 2 };
    for (const generate of [true, false]) {
      const target = wrapExternal("float64", Float64Array.of(1, 2, 3, 4, 5, 6));
      const values = wrapExternal("float64", Float64Array.of(10, 20, 30, 40, 50, 60));
      const plan = planMap(block, block, null, null);
      const backend = new BackendCalls(new JsBackend(generate), new JsBackend(generate));
      assertEquals(backend.scatter(plan, target, values, picks, 2, true), -1);
      assertEquals([...target.array], [1, 2, 63, 84, 35, 46], `generate: ${generate}`);
    }
  });

  it("long rows are picked from where they are, dense or not", () => {
    const x = iota([5, 1200]);
    const first = (rows: unknown) => loose(rows).toArray().map((row: number[]) => row.slice(0, 2));
    assertEquals(first(loose(x).slice("1:, 4:").slice([2, 0])), [[3604, 3605], [1204, 1205]]);
    assertEquals(first(loose(x).slice(":, ::2").slice([2, 0])), [[2400, 2402], [0, 2]]);
    const y = zeros([5, 1200]);
    loose(y).slice("1:, 4:").set([[2, 0]], loose(x).slice("1:3, 4:"));
    assertEquals(first(y.slice("1:4, 4:")), [[2404, 2405], [0, 0], [1204, 1205]]);
  });

  for (const { name, on } of BACKENDS) {
    it(`elements of 64 bits are moved whole, there and back: ${name}`, () => {
      using(on, () => {
        const values = [2n ** 40n, -3n, 2n ** 62n, 5n];
        const x = tensor(values, { dtype: "int64", device: site.device });
        const picked = loose(x).slice([2, 0]);
        assertEquals(picked.toArray({ bigint: true }), [values[2], values[0]]);
        x.set([[1, 3]], picked);
        assertEquals(x.toArray({ bigint: true }), [values[0], values[2], values[2], values[0]]);
      });
    });
  }

  it("nonzero takes -0 of every float for 0, and begins at the offset", () => {
    for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
      const [places] = tensor([-0, 0, 1, NaN], { dtype }).nonzero();
      assertEquals(places!.toArray(), [2, 3], dtype);
    }
    const [places] = tensor([1, 0, 2], { dtype: "int32" }).slice("1:").nonzero();
    assertEquals(places!.toArray(), [1]);
  });

  it("floats of 16 bits are rounded once, half to even, and stay NaN", () => {
    assertEquals(roundHalf(1 + 2 ** -11), 1);
    assertEquals(roundHalf(1 + 3 * 2 ** -11), 1 + 2 ** -9);
    // float32 would make a tie of it.
    assertEquals(roundHalf(1 + 2 ** -11 + 2 ** -40), 1 + 2 ** -10);
    const bits = new Uint32Array([0x7fffffff, 0xffffffff, 0x7f800001]);
    const x = fromBuffer(new Float32Array(bits.buffer));
    assertEquals(x.astype("bfloat16").isnan().toArray(), [true, true, true]);
    assertEquals(x.astype("float16").isnan().toArray(), [true, true, true]);
  });
});

describe("files", () => {
  it("an npy header names each key once", () => {
    const npy = (keys: string): Uint8Array => {
      const header = `{'descr': '|u1', 'fortran_order': False, ${keys}}\n`;
      const text = `\x93NUMPY\x01\x00${String.fromCharCode(header.length)}\x00${header}\x05\x06`;
      return Uint8Array.from(text, (c) => c.charCodeAt(0));
    };
    assertEquals([...decodeNpy(npy("'shape': (2,)")).data], [5, 6]);
    for (const again of ["'shape': (2,)", "'descr': '|u1'", "'fortran_order': False"]) {
      assertThrows(() => decodeNpy(npy(`'shape': (2,), ${again}`)), FormatError, "repeated");
    }
  });
});
