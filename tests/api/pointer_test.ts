/**
 * Addresses of tensors, passed to native code: here to the functions of the runtimes that access
 * memory.
 *
 * @module
 */
import { assert, assertEquals, assertFalse, assertThrows } from "@std/assert";
import { test } from "node:test";
import {
  arange,
  DeviceError,
  DisposedError,
  type DType,
  full,
  ones,
  tensor,
  zeros,
} from "../../mod.ts";
import { findShim } from "../../src/backend/ffi/load.ts";
import { memories, MIRROR } from "../device/mirror.ts";

const shim = findShim();
const skip = "reason" in shim && shim.reason;

/** The memory at `address`, read by the runtime. */
function memoryAt(address: bigint, bytes: number): ArrayBuffer {
  const { Deno } = globalThis as unknown as {
    Deno?: {
      UnsafePointer: { create(address: bigint): object };
      UnsafePointerView: { getArrayBuffer(pointer: object, bytes: number): ArrayBuffer };
    };
  };
  if (Deno !== undefined) {
    return Deno.UnsafePointerView.getArrayBuffer(Deno.UnsafePointer.create(address), bytes);
  }
  const { toArrayBuffer } = process.getBuiltinModule("bun:ffi" as "fs") as unknown as {
    toArrayBuffer(address: number, from: number, bytes: number): ArrayBuffer;
  };
  return toArrayBuffer(Number(address), 0, bytes);
}

function float32At(address: bigint): number {
  return new Float32Array(memoryAt(address, 4))[0]!;
}

if (skip) {
  test("without the native library there are no addresses, which the error says", () => {
    assertThrows(() => ones([2]).withPointer(() => 1), DeviceError, "Cannot withPointer: ");
  });
}

test("Pointer to the first element: native code reads and writes there", { skip }, () => {
  const x = arange(12).reshape([3, 4]);
  const part = x.slice("1:, ::-2");
  assertEquals(part.withPointer((at) => float32At(at)), 7);
  assertEquals(part.withPointer((at) => float32At(at + BigInt(part.byteStrides[1]!))), 5);
  assertEquals(x.withPointer((at) => at + 28n), part.withPointer((at) => at));
  part.slice(0).withPointer((at) => new Float32Array(memoryAt(at, 4)).fill(70));
  assertEquals([part.get(0, 0), x.get(1, 3)], [70, 70]);
  // For every dtype, aligned, for every length.
  for (const dtype of ["bool", "int8", "float16", "float32", "int64", "float64"] as DType[]) {
    const one = ones([3], { dtype });
    one.withPointer((at) => assertEquals(Number(at % BigInt(one.nbytes / 3)), 0));
  }
  const small = tensor([1.5, 2.5]);
  const address = small.withPointer((at) => at);
  for (let i = 0; i < 1000; i++) ones([2]).add(i);
  assertEquals(small.withPointer((at) => [at === address, float32At(at)]), [true, 1.5]);
});

test("Pointer to the first element: copies on write come first", { skip }, () => {
  const x = tensor([1, 2, 3]);
  const cow = x.intoCow();
  assertFalse(cow.withPointer((one) => x.withPointer((other) => one === other)));
  // A tensor that is only read is not copied.
  const wide = x.broadcastTo([2, 3]);
  assert(wide.withPointer((one) => x.withPointer((other) => one === other)));
  assert(x.readonly().withPointer((one) => x.withPointer((other) => one === other)));
});

test("Pointer to the first element: the memory stays until the callback ends", { skip }, () => {
  const x = full([1000], 5);
  const seen = x.withPointer((at) => {
    x.dispose();
    full([1000], 6);
    return float32At(at);
  });
  assertEquals(seen, 5);
  assertThrows(() => x.withPointer(() => 1), DisposedError, "withPointer");
  const y = ones([2]);
  assertThrows(() =>
    y.withPointer(() => {
      throw new RangeError("mine");
    }), RangeError);
  assertEquals(y.sum().item(), 2);
});

test("Pointer to the first element: on a device it is the device's", () => {
  const x = zeros([4, 3], { dtype: "int32", device: MIRROR });
  const { waits } = memories[0]!;
  const [first, later] = [x, x.slice("2:, 1")].map((one) => one.withPointer((at) => at));
  assertEquals(memories[0]!.waits, waits + 2);
  assertEquals([first, later! - first!], [BigInt(x.storage.address), 28n]);
});
