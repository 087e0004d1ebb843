/**
 * Text generation on a CUDA device, the emulator's or a real one: the same tokens as on the CPU.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { test } from "node:test";
import { memory, quantize, tensor } from "../../mod.ts";
import * as llm from "../../src/llm/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { collect, distance, floatsOf, golden, modelFolder } from "../llm/models.ts";
import { normal } from "../ops/attention_reference.ts";
import { type Any, loose } from "../support.ts";
import { openCudaForTests, whyNoCuda } from "./support/device.ts";

const CUDA = loose("cuda");

function attends(): void {
  for (const m of [1, 3]) {
    const operands = [[4, m, 32], [2, m, 32], [2, m, 32], [2, 2, 7, 32]].map((shape, i) =>
      normal(i + 1, shape)
    );
    for (const dtype of ["float32", "float16", "q8_0"]) {
      const stored = dtype === "q8_0" ? quantize(operands[3], dtype) : operands[3].astype(dtype);
      const run = (at: (x: Any) => Any, length: number, sinks?: Any): Any => {
        const [q, k, v] = operands.map(at) as [Any, Any, Any];
        const data = at(stored);
        const cached = { keys: data.slice(0), values: data.slice(1) };
        const count = at(tensor(length, { dtype: "int32" }));
        const limits = sinks && { window: 3, softCap: 2, sinks: at(sinks) };
        return nn.cachedAttention(q, k, v, { ...cached, length: count }, limits);
      };
      for (const length of [0, 5, 9]) {
        for (const sinks of [undefined, normal(9, [4])]) {
          const made = run((x) => x.to("cuda"), length, sinks);
          assert(made.device.startsWith("cuda"), made.device);
          const expected = run((x) => x, length, sinks);
          const isNear = made.cpu().allclose(expected, { rtol: 1e-4, atol: 1e-4 });
          assert(isNear, `${dtype}, ${m}, ${length}, ${sinks}`);
        }
      }
    }
  }
}

function attendsToPages(): void {
  for (const dtype of ["float16", "q8_0"]) {
    for (const m of [1, 3]) {
      const operands = [[2, 4, m, 32], [2, 2, m, 32], [2, 2, m, 32]].map((shape, i) =>
        normal(i + 1, shape)
      );
      const rows = normal(4, [2, 6, 2, 4, 32]);
      // NaN in a page that no query sees.
      rows.set([":", 1], NaN);
      const pool = dtype === "q8_0" ? quantize(rows, dtype) : rows.astype(dtype);
      const run = (at: (x: Any) => Any, limits: Any): Any => {
        const [q, k, v] = operands.map(at) as [Any, Any, Any];
        const data = at(pool);
        const cached = {
          ...{ keys: data.slice(0), values: data.slice(1) },
          length: at(tensor([5, 12], { dtype: "int32" })),
          pages: at(tensor([[4, 3, 1], [-1, 5, 99]], { dtype: "int32" })),
        };
        return nn.cachedAttention(q, k, v, cached, limits);
      };
      for (const limits of [{}, { window: 6, softCap: 2 }, { stepwise: true }]) {
        const made = run((x) => x.to("cuda"), limits);
        assert(made.device.startsWith("cuda"), made.device);
        const isNear = made.cpu().allclose(run((x) => x, limits), { rtol: 1e-4, atol: 1e-4 });
        assert(isNear, `${dtype}, ${m}, ${Object.keys(limits)}`);
      }
    }
  }
}

function turns(): void {
  for (const interleaved of [false, true]) {
    for (const dtype of ["float32", "float16"] as const) {
      const x = normal(1, [2, 3, 8], dtype);
      const run = (x: Any, device: Any): Any =>
        nn.rope(x, { ...nn.ropeAngles([0, 1, 50], { dimensions: 6, device }), interleaved });
      const made = run(x.to("cuda"), CUDA);
      assert(made.device.startsWith("cuda"), made.device);
      assert(made.cpu().allclose(run(x, "cpu"), { rtol: 2e-3, atol: 1e-3 }), dtype);
    }
  }
}

async function generates(): Promise<void> {
  const { prompt, tokens, logits } = golden.models.llama!;
  const run = async (): Promise<void> => {
    using model = await llm.open(modelFolder("llama"), { cache: "float32", device: CUDA });
    using session = model.session({ capacity: 16 });
    const made = await session.logits(prompt, { all: true });
    assert(distance(made, floatsOf(logits)) < 1e-3, `${distance(made, floatsOf(logits))}`);
    const { all } = await collect(session.generate(prompt, { maxTokens: 6 }));
    assertEquals(all, tokens.slice(0, 6));
  };
  await run();
  const before = memory(CUDA).bytes;
  await run();
  assertEquals(memory(CUDA).bytes, before);
}

async function generatesTogether(): Promise<void> {
  const { prompt } = golden.models.llama!;
  const requests = [prompt, prompt.slice(0, 5), [...prompt, ...prompt, ...prompt], [7]];
  const run = async (device: Any): Promise<Any[]> => {
    using model = await llm.open(modelFolder("llama"), { cache: "float32", device });
    using engine = await llm.engine(model, { slots: 3, cache: 1024 });
    await engine.warmUp();
    const texts = async (): Promise<Any[]> =>
      await Promise.all(requests.map(async (ids, i) => {
        const options = { maxTokens: 8, stopTokens: [], speculate: true };
        const sampling = i === 1 ? { temperature: 0.7, topK: 5, seed: 3 } : {};
        return (await collect(engine.generate(ids, { ...options, ...sampling }))).all
          .map(({ id }) => id);
      }));
    // The second time with beginnings that are kept.
    return [await texts(), await texts()];
  };
  assertEquals(await run(CUDA), await run("cpu"));
  const before = memory(CUDA).bytes;
  await run(CUDA);
  assertEquals(memory(CUDA).bytes, before);
}

const reason = whyNoCuda();
if (reason !== undefined) test(`generation on CUDA (${reason})`, { skip: true }, () => {});
else {
  openCudaForTests();
  test("cached attention gives the results of the CPU", attends);
  test("attention to pages gives the results of the CPU", attendsToPages);
  test("rotary positions give the results of the CPU", turns);
  test("a model generates the tokens of the CPU, and leaves no memory", generates);
  test("an engine generates the texts of the CPU, and leaves no memory", generatesTogether);
}
