/**
 * Columns of apache-arrow as tensors and back: which share memory, and what is refused.
 *
 * @module
 */
import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import * as arrow from "apache-arrow";
import { describe, it } from "node:test";
import {
  arange,
  ArgumentError,
  DTypeError,
  io,
  scalar,
  ShapeError,
  type Tensor,
  tensor,
  zeros,
} from "../../mod.ts";
import { loose } from "../support.ts";

const any = loose(io);

/** A column that went through bytes, as one of a file does. */
function sent(column: arrow.Vector): arrow.Vector {
  const table = new arrow.Table({ x: column });
  return arrow.tableFromIPC(arrow.tableToIPC(table)).getChild("x")!;
}

const TYPED = {
  int8: new Int8Array([-1, 2, 3]),
  int16: new Int16Array([-1, 2, 3]),
  int32: new Int32Array([-1, 2, 3]),
  int64: new BigInt64Array([-1n, 2n, 2n ** 60n]),
  uint8: new Uint8Array([1, 2, 3]),
  uint16: new Uint16Array([1, 2, 3]),
  uint32: new Uint32Array([1, 2, 4e9]),
  uint64: new BigUint64Array([1n, 2n, 2n ** 63n]),
  float32: new Float32Array([1.5, -2, NaN]),
  float64: new Float64Array([1.5, -2, Infinity]),
};

describe("fromArrow", () => {
  for (const [dtype, values] of Object.entries(TYPED)) {
    it(`shares a column of ${dtype}`, () => {
      const column = arrow.makeVector(values as never) as arrow.Vector;
      const x = io.fromArrow(column);
      assertEquals([x.dtype, x.shape], [dtype, [3]]);
      assertEquals(x.toTypedArray() as unknown, values);
      loose(x).set([0], loose(x).get(1));
      assertEquals(column.get(0), column.get(1));
    });
    it(`reads a column of ${dtype} from bytes, and a part of it`, () => {
      const given = values as Int8Array;
      const column = sent(arrow.makeVector(given.slice() as never) as arrow.Vector);
      assertStrictEquals(
        (io.fromArrow(column).data as Int8Array).buffer,
        column.data[0]!.values.buffer,
      );
      const part = io.fromArrow(column.slice(1, 3));
      assertEquals(part.toTypedArray() as unknown, column.slice(1, 3).toArray());
    });
  }
  it("has the values of dates, times, timestamps and durations", () => {
    const when = new Date(Date.UTC(2020, 1, 3));
    const days = arrow.vectorFromArray([when], new arrow.DateDay());
    const stamps = arrow.vectorFromArray([5], new arrow.TimestampMillisecond());
    assertEquals(io.fromArrow(days).toArray(), [18295]);
    assertEquals([io.fromArrow(stamps).dtype, Number(io.fromArrow(stamps).get(0))], ["int64", 5]);
  });
  it("has the bits of float16", () => {
    const column = arrow.vectorFromArray([1.5, -2], new arrow.Float16());
    assertEquals(io.fromArrow(column).dtype, "float16");
    assertEquals(io.fromArrow(column).toArray(), [1.5, -2]);
  });
  it("copies the bits of bools, of slices too", () => {
    const values = Array.from({ length: 21 }, (_, i) => i % 3 === 0);
    const column = sent(arrow.vectorFromArray(values, new arrow.Bool()));
    assertEquals(io.fromArrow(column).toArray(), values);
    assertEquals(io.fromArrow(column.slice(5, 18)).toArray(), values.slice(5, 18));
  });
  it("joins chunks", () => {
    const chunks = [[1, 2], [3], [4, 5, 6]].map((x) => arrow.makeVector(new Float32Array(x)));
    const column = chunks[0]!.concat(chunks[1]!, chunks[2]!);
    assertEquals(column.data.length, 3);
    assertEquals(io.fromArrow(column).toArray(), [1, 2, 3, 4, 5, 6]);
    assertEquals(io.fromArrow(column.slice(1, 4)).toArray(), [2, 3, 4]);
  });
  it("refuses nulls, or fills them", () => {
    const values = [1, null, 3, 4, null, 6, 7, 8, null, 10];
    const column = sent(arrow.vectorFromArray(values, new arrow.Float32()));
    assertThrows(() => io.fromArrow(column), ArgumentError, "with 3 nulls");
    assertEquals(
      io.fromArrow(column, { fill: -1 }).toArray(),
      values.map((x) => x ?? -1),
    );
    assertEquals(io.fromArrow(column.slice(4, 6), { fill: NaN }).toArray(), [NaN, 6]);
    assertEquals(io.fromArrow(column.slice(5, 8)).toArray(), [6, 7, 8]);
    const bools = arrow.vectorFromArray([true, null], new arrow.Bool());
    assertEquals(io.fromArrow(bools, { fill: false }).toArray(), [true, false]);
    // The column is unchanged.
    assertEquals(column.toJSON(), values);
    assertThrows(() => any.fromArrow(column, { fill: "x" }));
  });
  it("makes axes of lists of a fixed size", () => {
    const item = new arrow.Field("item", new arrow.Float32());
    const rows = [[1, 2, 3], [4, 5, 6]];
    const column = sent(arrow.vectorFromArray(rows, new arrow.FixedSizeList(3, item)));
    const x = io.fromArrow(column);
    assertEquals([x.shape, x.toArray() as unknown], [[2, 3], rows]);
    assertEquals(io.fromArrow(column.slice(1, 2)).toArray() as unknown, [[4, 5, 6]]);
    const missing = arrow.vectorFromArray([[1, 2, 3], null], new arrow.FixedSizeList(3, item));
    assertThrows(() => io.fromArrow(missing, { fill: 0 }), ArgumentError, "1 lists that are null");
  });
  it("refuses sizes that the buffers do not have, before it allocates or loops", () => {
    const bit = { ...{ offset: 0, nullCount: 0, children: [] }, values: new Uint8Array(1) };
    const bool = { ...bit, type: { typeId: 6 }, length: 8 };
    const int = { ...bit, type: { typeId: 2 }, length: 1 };
    const list = { ...bit, type: { typeId: 16, listSize: 1 }, length: 1, children: [int] };
    const nested: Record<string, unknown> = { ...list };
    nested.children = [nested];
    assertEquals(any.fromArrow(bool).shape, [8]);
    assertEquals(any.fromArrow(list).shape, [1, 1]);
    const cases: [unknown, string][] = [
      [{ ...bool, length: 2 ** 28 }, "268435456 elements: its values have 1 bytes"],
      [{ ...bool, offset: 1 }, "8 elements: its values have 1 bytes"],
      [{ ...bool, values: undefined }, "its values have 0 bytes"],
      [{ ...int, length: 2 }, "2 elements: its values have 1 elements"],
      [{ ...int, length: 2 ** 53 }, "length 9007199254740992"],
      [{ ...int, length: -1 }, "length -1: it is an integer of at least 0"],
      [{ ...bool, length: NaN }, "length NaN"],
      [{ ...bool, length: 1e9, offset: -1e9 }, "offset -1000000000"],
      [{ ...int, nullCount: -1 }, "nullCount -1"],
      [{ ...int, nullCount: 1 }, "its null bits have 0 bytes"],
      [{ ...bool, length: 2, nullCount: 1, offset: 7 }, "its null bits have 0 bytes"],
      [{ ...list, length: 2 ** 28 }, "268435456 lists of 1: they have 1 elements"],
      [{ ...list, type: { typeId: 16, listSize: 1e9 } }, "1 lists of 1000000000: they have 1"],
      [{ ...list, type: { typeId: 16, listSize: NaN } }, "listSize NaN"],
      [{ ...list, type: { typeId: 16 } }, "listSize undefined"],
    ];
    for (const [column, text] of cases) {
      assertThrows(() => any.fromArrow(column, { fill: 0 }), ArgumentError, text);
    }
    assertThrows(() => any.fromArrow(nested), ShapeError, "at most 64");
  });
  it("refuses what is no column of numbers", () => {
    assertThrows(() => io.fromArrow(arrow.vectorFromArray(["a", "b"])), DTypeError);
    const text = arrow.vectorFromArray(["a"], new arrow.Utf8());
    assertThrows(() => io.fromArrow(text), DTypeError, "Utf8");
    for (const wrong of [null, 5, {}, { data: [] }, { data: [{}] }, [1, 2]]) {
      assertThrows(() => any.fromArrow(wrong), TypeError, "expected a Vector");
    }
    assertThrows(() => any.fromArrow(text, { typo: 1 }), TypeError, "typo");
  });
});

describe("toArrow", () => {
  it("shares a contiguous tensor, and fromArrow gives it back", () => {
    for (const [dtype, values] of Object.entries(TYPED)) {
      const x = tensor(values as Float32Array);
      const column = io.toArrow(arrow, x) as arrow.Vector;
      assertEquals(sent(column).toArray(), column.toArray());
      assertEquals(column.toArray() as unknown, values as unknown);
      assertStrictEquals(column.data[0]!.values.buffer, (x.data as Float32Array).buffer);
      const back = io.fromArrow(column);
      assertEquals([back.dtype, back.toTypedArray()], [dtype, x.toTypedArray()] as never);
    }
  });
  it("makes lists of further axes, and copies views", () => {
    const x = arange(24).reshape([2, 3, 4]);
    for (const one of [x, x.permute(2, 0, 1), x.flip(0)] as Tensor[]) {
      const back = io.fromArrow(sent(io.toArrow(arrow, one) as arrow.Vector));
      assertEquals([back.shape, back.toArray()], [one.shape, one.toArray()] as never);
    }
    const half = tensor([[1, 2.5], [3, 4]], { dtype: "float16" });
    assert(loose(io.fromArrow(io.toArrow(arrow, half) as arrow.Vector)).equals(half));
    const mask = tensor([true, false, true]);
    assertEquals(io.fromArrow(io.toArrow(arrow, mask) as arrow.Vector).toArray(), mask.toArray());
    assertEquals(io.fromArrow(io.toArrow(arrow, zeros([0, 3])) as arrow.Vector).shape, [0, 3]);
  });
  it("refuses what Arrow does not have", () => {
    assertThrows(() => io.toArrow(arrow, scalar(1)), ShapeError, "shape []");
    const brain = zeros([2], { dtype: "bfloat16" });
    assertThrows(() => io.toArrow(arrow, brain), DTypeError, "bfloat16");
    assertThrows(() => any.toArrow(arrow, [1, 2]), DTypeError);
  });
});
