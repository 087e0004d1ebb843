/**
 * Memory for arrays that the runtime refuses.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import process from "node:process";
import { test } from "node:test";
import { BUFFERS } from "../../src/backend/ffi/abi.ts";
import { nodeHost } from "../../src/backend/ffi/bun.ts";
import { findShim } from "../../src/backend/ffi/load.ts";
import { check } from "./support.ts";

if (!("Bun" in globalThis)) {
  test("buffers of Bun (the test under Bun tests them)", { skip: true }, () => {});
} else {
  check("memory of an array that Bun refuses is given back", () => {
    const BYTES = 3 << 20;
    const shim = findShim();
    if ("reason" in shim) throw new Error(shim.reason);
    const used = (): number => {
      const numbers = new Float64Array(3);
      shim.rm_buffers(BUFFERS.kept, numbers);
      return numbers[1]!;
    };
    const real = process.getBuiltinModule;
    const ffi = real("bun:ffi" as "fs") as unknown as {
      toArrayBuffer: (...of: number[]) => ArrayBuffer;
    };
    const toArrayBuffer = (...of: number[]): ArrayBuffer => {
      if (of[2] === BYTES) throw new RangeError("refused");
      return ffi.toArrayBuffer(...of);
    };
    const stubbed = (name: string): unknown =>
      name === "bun:ffi" ? { ...ffi, toArrayBuffer } : real(name as "fs");
    process.getBuiltinModule = stubbed as typeof real;
    try {
      const buffers = nodeHost.buffers(shim, "")!;
      const before = used();
      assertEquals(buffers.take(BYTES, 0), undefined);
      assertEquals(used(), before);
    } finally {
      process.getBuiltinModule = real;
    }
  });
}
