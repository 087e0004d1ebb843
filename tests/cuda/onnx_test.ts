/**
 * ONNX files beside a CUDA device, the emulator's or a real one: they run on the CPU, and an input on the
 * device is an error that names it.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { DeviceError, type Tensor, tensor } from "../../mod.ts";
import { open } from "../../src/onnx/mod.ts";
import { makeModel } from "../onnx/make.ts";
import { loose } from "../support.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const reason = whyNoCuda();
if (reason !== undefined) test(`ONNX files beside CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  test("an input of an ONNX file on a device is an error that names it", async () => {
    using model = await open(makeModel({
      inputs: [["x", "float32", ["n"]]],
      outputs: [["y", "float32"]],
      nodes: [["Neg", ["x"], ["y"]]],
    }));
    const x = tensor([1, 2]);
    const there = x.to(loose("cuda")) as Tensor;
    assertThrows(() => model.run({ x: there }), DeviceError, 'input "x" on cuda');
    assertEquals((model.run({ x })["y"] as Tensor).toArray(), [-1, -2]);
  });
}
