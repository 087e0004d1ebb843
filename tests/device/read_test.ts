/**
 * Reads of tensors on a device without blocking, and the order of devices in errors.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { concat, defineOp, DeviceError, fromBuffer, stack } from "../../mod.ts";
import { addDType } from "../../src/base/dtype.ts";
import { deviceOf } from "../../src/core/registry.ts";
import { assertRefused, iota, loose } from "../support.ts";
import { memories, MIRROR } from "./mirror.ts";

deviceOf(MIRROR, "open");
const mirror = memories[0]!;

test("read() asks the device for its elements without blocking", async () => {
  const y = iota([3]).to(MIRROR);
  const { read } = mirror;
  mirror.read = () => assert(false, "a read that blocks");
  try {
    assertEquals([...await y.read()], [0, 1, 2]);
  } finally {
    mirror.read = read;
  }
});

test("read() gives all lanes of elements that have several", async () => {
  addDType({
    name: "two lanes",
    kind: "c",
    lane: "float64",
    lanes: 2,
    read: (array, at) => array[2 * at],
  });
  const lanes = Float64Array.of(1, 2, 3, 4, 5, 6);
  const y = loose(fromBuffer)(lanes, { dtype: "two lanes", shape: [3] }).to(MIRROR);
  assertEquals([...await y.read()], [...lanes]);
  assertEquals([...await y.slice("1:").read()], [3, 4, 5, 6]);
});

test("elements on a device are not the CPU's, and the error says how to have them", () => {
  const there = loose(iota([2])).to(MIRROR);
  const message = "Cannot data a tensor on mirror: toTypedArray() and read() copy its elements";
  assertRefused(() => there.data, DeviceError, message, there);
});

test("errors about two devices name that of the first operand first", () => {
  const [here, there] = [loose(iota([2, 2])), loose(iota([2, 2])).to(MIRROR)];
  const own = loose(defineOp({ name: "firstOfTwo", infer: ([a]) => a!, run() {} }));
  const calls: ((a: typeof here, b: typeof here) => unknown)[] = [
    (a, b) => a.add(b),
    (a, b) => a.matmul(b),
    (a, b) => a.isclose(b),
    (a, b) => concat([a, b]),
    (a, b) => stack([a, b]),
    (a, b) => own(a, b),
  ];
  for (const call of calls) {
    assertRefused(() => call(here, there), DeviceError, "on cpu and mirror:", here, there);
    assertRefused(() => call(there, here), DeviceError, "on mirror and cpu:", here, there);
  }
});
