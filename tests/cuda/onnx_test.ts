/**
 * ONNX files beside a CUDA device, the emulator's or a real one: they run on the CPU, and an input on the
 * device is an error that names it. Ops of quantized files are those of tensors on devices, too.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { DeviceError, random, type Tensor, tensor } from "../../mod.ts";
import { open } from "../../src/onnx/mod.ts";
import { lstmOfBytes, packLstm } from "../../src/ops/recurrent/op.ts";
import { makeModel } from "../onnx/make.ts";
import { type Any, loose } from "../support.ts";
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

  test("the op of an LSTM with weights of bytes gives the results of the CPU on a device", () => {
    const normal = (seed: number, shape: number[]): Any =>
      loose(random.normal(random.key(seed), shape));
    const bytes = (seed: number, shape: number[]): Any =>
      normal(seed, shape).mul(30).round().astype("int8");
    const run = (device: string): Any => {
      const at = (x: Any): Any => x.to(device);
      const [w, r] = [at(bytes(1, [1, 6, 36])), at(bytes(2, [1, 9, 36]))];
      const scale = at(loose(tensor([0.01]))),
        packed = packLstm("lstm", { weight: w }, { weight: r });
      const x = at(normal(3, [3, 2, 6])), scales = { w: scale, r: scale };
      const { output } = lstmOfBytes("lstm", x, packed, scales, {}, { cell: "lstm" });
      return loose(output).to("cpu");
    };
    // A device's own exp and tanh can move an element of a state by a step of its bytes.
    const far = run("cuda").sub(run("cpu")).abs().max().item();
    assert(far < 5e-3, `${far}`);
  });
}
