/**
 * Values of float16 are float32 between the nodes of a program: which nodes keep them, which get what the
 * file says, and what casts are left.
 *
 * A convolution gives 1 + 2^-12, which is 1 in float16: a node that subtracts 1 shows what it got.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { DTypeError, emptyCache, full, memory, type Tensor, tensor } from "../../mod.ts";
import { cpuBackendName } from "../../src/core/dispatch.ts";
import { hasCopy, isFixed } from "../../src/memory/lazy.ts";
import { partsOf } from "../../src/onnx/model.ts";
import { type Model, open, type Value } from "../../src/onnx/mod.ts";
import type { AnyTensor } from "../../src/tensor/tensor.ts";
import { usingAsync } from "../ops/table/backends.ts";
import { floats, type GraphParts, halves, int64s, makeModel, type NodeParts } from "./make.ts";
import { TARGETS } from "./nodes.ts";

const MORE = 2 ** -12;
const [FLOAT, HALF] = [{ to: { int: 1 } }, { to: { int: 10 } }];
const TENSORS = [
  halves("w", [1, 1, 1, 1], [1]),
  halves("more", [1], [MORE]),
  halves("one", [], [1]),
  floats("one32", [], [1]),
  halves("large", [1, 1, 1, 1], [70_000 / 2]),
];
/** The convolution that gives 1 + 2^-12 for 1. */
const CONV: NodeParts = ["Conv", ["x", "w", "more"], ["c"]];
const X = [1, 1, 2, 2];
const ones = full(X, 1, { dtype: "float16" }) as AnyTensor;

function openGraph(
  nodes: readonly NodeParts[],
  outputs: GraphParts["outputs"],
  more: Partial<GraphParts> = {},
): Promise<Model> {
  const tensors = [...TENSORS, ...more.tensors ?? []];
  const inputs = [["x", "float16", X] as const, ...more.inputs ?? []];
  return open(makeModel({ nodes, outputs, inputs, tensors }));
}

/** The first element of each result, with its dtype. */
function firsts(results: Record<string, Value>): Record<string, [string, number | boolean]> {
  return Object.fromEntries(
    Object.entries(results).map(([name, value]) => {
      const { dtype } = value as AnyTensor;
      return [name, [dtype, (value as Tensor).flatten().toArray()[0] as number]];
    }),
  );
}

/** The casts between float16 and float32 in the programs of a model: `"arg 0.x → float32"`. */
function casts(model: Model): string[] {
  const found: string[] = [];
  for (const { data } of model.explain().parts.flatMap(({ programs }) => programs)) {
    for (const { op, name, inputs, outputs, steps } of data.ops) {
      const isCast = op === "copy" && inputs[0]!.dtype !== outputs[0]!.dtype;
      if (isCast) found.push(`${inputs[0]!.name} → ${outputs[0]!.dtype}`);
      for (const step of steps ?? []) {
        if (step.op === "copy") found.push(`${step.inputs[0]} → ${step.dtype}`);
      }
      // A node of float16 casts inside of its kernel.
      const isMixed = [...inputs, ...outputs].some(({ dtype }) => dtype === "float16");
      if (isMixed && /^(?:conv|matmul|linear|softmax|maxPool|chain)$/.test(op)) {
        found.push(`${name} of float16`);
      }
    }
  }
  return found;
}

for (const { name: backend, on } of TARGETS) {
  const onBackend = (what: string, body: () => Promise<void>): void =>
    void test(`${what} (${backend})`, () => usingAsync(on, body));

  onBackend("a network of float16 casts what it takes and gives alone", async () => {
    const nodes: NodeParts[] = [
      ["Conv", ["image", "k", "shift"], ["a"], { pads: [1, 1, 1, 1] }],
      ["Relu", ["a"], ["b"]],
      ["Conv", ["b", "k2"], ["d"], { pads: [1, 1, 1, 1] }],
      ["Sigmoid", ["d"], ["e"]],
      ["Mul", ["d", "e"], ["f"]],
      ["Concat", ["f", "b", "constant"], ["g"], { axis: { int: 1 } }],
      ["MaxPool", ["g"], ["h"], { kernel_shape: [2, 2], strides: [2, 2] }],
      ["Resize", ["h", "", "scales"], ["i"], { mode: { text: "nearest" } }],
      ["Split", ["i"], ["left", "right"], { axis: { int: 3 }, num_outputs: { int: 2 } }],
      ["Add", ["left", "right"], ["j"]],
      ["GlobalAveragePool", ["j"], ["l"]],
      ["Flatten", ["l"], ["m"]],
      ["Gemm", ["m", "v", "shift3"], ["n"], { transB: { int: 1 } }],
      ["LayerNormalization", ["n", "shift3", "shift3"], ["o"]],
      ["Softmax", ["o"], ["y"]],
    ];
    const wave = (length: number, seed: number): number[] =>
      Array.from({ length }, (_, k) => Math.sin(k + seed) / 4);
    const parts = (type: "float16" | "float32"): GraphParts => {
      const make = type === "float16" ? halves : floats;
      const rounded = (name: string, dims: number[], seed: number) => {
        const length = dims.reduce((a, b) => a * b);
        const data: number[] = tensor(wave(length, seed), { dtype: "float16" }).toArray();
        return make(name, dims, data);
      };
      return {
        nodes,
        inputs: [["image", type, [1, 3, 16, 16]]],
        outputs: [["y", type]],
        tensors: [
          rounded("k", [16, 3, 3, 3], 1),
          rounded("shift", [16], 2),
          rounded("k2", [16, 16, 3, 3], 3),
          rounded("constant", [1, 1, 16, 16], 4),
          rounded("v", [5, 33], 5),
          rounded("shift3", [5], 6),
          floats("scales", [4], [1, 1, 2, 2]),
        ],
      };
    };
    using model = await open(makeModel(parts("float16")));
    using wide = await open(makeModel(parts("float32")));
    const image = tensor(wave(768, 9), { dtype: "float16" }).reshape([1, 3, 16, 16]) as AnyTensor;
    const { y } = model.run({ image });
    const { y: wanted } = wide.run({ image: image.astype("float32") });
    const rounded = (wanted as AnyTensor).astype("float16");
    // Sums of a product differ in their last bits with weights that are packed as float16.
    const error = (y as AnyTensor).astype("float32").sub(rounded.astype("float32")).abs().max();
    assert(error.item() as number <= 2 ** -12, String(error));
    const found = casts(model);
    assertEquals(found.slice(0, -1), ["arg 0.image → float32"]);
    assert(/→ float16$/.test(found.at(-1)!), found.join());
  });

  onBackend("values in the middle that are also results are rounded there alone", async () => {
    using model = await openGraph(
      [CONV, ["Sub", ["c", "one"], ["y"]], ["Reshape", ["c", "flat"], ["z"]]],
      [["y", "float16"], ["c", "float16"], ["z", "float16"]],
      { tensors: [int64s("flat", [4])] },
    );
    const wanted = { y: ["float16", MORE], c: ["float16", 1], z: ["float16", 1] } as const;
    assertEquals(firsts(model.run({ x: ones })), { ...wanted } as never);
    const out = full(X, 7, { dtype: "float16" });
    model.run({ x: ones }, { out: { c: out as AnyTensor } });
    assertEquals(out.flatten().toArray(), [1, 1, 1, 1]);
  });

  onBackend("nodes that are not continuous get float16", async () => {
    using model = await openGraph([
      CONV,
      ["Greater", ["c", "one"], ["greater"]],
      ["Equal", ["c", "one"], ["equal"]],
      ["Ceil", ["c"], ["ceil"]],
      ["Cast", ["c"], ["int"], { to: { int: 6 } }],
      ["Sub", ["c", "one"], ["rest"]],
      ["IsInf", ["huge"], ["infinite"]],
      ["Conv", ["x", "large"], ["big"]],
      ["Add", ["big", "big"], ["huge"]],
      ["Div", ["huge", "two"], ["y"]],
    ], [
      ...["greater", "equal", "infinite"].map((name) => [name, "bool"] as const),
      ...["ceil", "rest", "huge", "y"].map((name) => [name, "float16"] as const),
      ["int", "int32"],
    ], { tensors: [halves("two", [], [2])] });
    assertEquals(firsts(model.run({ x: ones })), {
      greater: ["bool", false],
      equal: ["bool", true],
      // Beyond 65504.
      infinite: ["bool", true],
      ceil: ["float16", 1],
      rest: ["float16", MORE],
      huge: ["float16", Infinity],
      y: ["float16", 35_008],
      int: ["int32", 1],
    });
  });

  onBackend("casts of the file to float16 round float32, and nothing else", async () => {
    using model = await openGraph([
      CONV,
      ["Cast", ["c"], ["same"], HALF],
      ["Sub", ["same", "one"], ["kept"]],
      ["Cast", ["c"], ["wide"], FLOAT],
      ["Sub", ["wide", "one32"], ["y"]],
      ["Cast", ["wide"], ["narrow"], HALF],
      ["Sub", ["narrow", "one"], ["z"]],
      ["CastLike", ["c", "one32"], ["like"]],
      ["Conv", ["narrow", "w"], ["d"]],
      ["Sub", ["d", "one"], ["again"]],
    ], [["y", "float32"], ["z", "float16"], ["like", "float32"], ["again", "float16"], [
      "kept",
      "float16",
    ]]);
    assertEquals(firsts(model.run({ x: ones })), {
      kept: ["float16", MORE],
      y: ["float32", MORE],
      z: ["float16", 0],
      like: ["float32", 1],
      again: ["float16", 0],
    });
  });

  onBackend("graphs inside of nodes take and give float16", async () => {
    const branch = (nodes: readonly NodeParts[], output: string) => ({
      graph: { nodes, outputs: [[output, "float16"]] as const },
    });
    const body: GraphParts = {
      nodes: [
        ["Conv", ["state", "w", "more"], ["made"]],
        ["Sub", ["made", "one"], ["part"]],
        ["Sub", ["c", "one"], ["outer"]],
        ["Identity", ["go"], ["next"]],
      ],
      inputs: [["round", "int64", []], ["go", "bool", []], ["state", "float16", X]],
      outputs: [["next", "bool"], ["made", "float16"], ["part", "float16"], ["outer", "float16"]],
    };
    for (const rounds of ["rounds", "given"]) {
      using model = await openGraph([
        CONV,
        ["If", ["on"], ["chosen"], {
          then_branch: branch([["Sub", ["c", "one"], ["t"]]], "t"),
          else_branch: branch([["Conv", ["c", "w", "more"], ["e"]]], "e"),
        }],
        ["Loop", [rounds, "", "c"], ["last", "parts", "outers"], { body: { graph: body } }],
        ["Sub", ["last", "one"], ["y"]],
      ], [
        ...["chosen", "last", "parts", "outers", "y"].map((name) => [name, "float16"] as const),
      ], {
        inputs: [["on", "bool", []], ["given", "int64", []]],
        tensors: [int64s("rounds", [2], [])],
      });
      for (const [on, wanted] of [[true, 0], [false, 1]] as const) {
        const found = model.run({
          x: ones,
          on: tensor(on) as AnyTensor,
          given: tensor(2n, { dtype: "int64" }) as AnyTensor,
        });
        assertEquals(firsts(found), {
          chosen: ["float16", wanted],
          last: ["float16", 1],
          parts: ["float16", MORE],
          outers: ["float16", 0],
          y: ["float16", 0],
        }, `${rounds} ${on}`);
      }
    }
  });

  onBackend(
    "types that a file mixes are errors still, and casts between them are not",
    async () => {
      using mixed = await openGraph([CONV, ["Add", ["c", "one32"], ["y"]]], [["y", "float32"]]);
      assertThrows(() => mixed.run({ x: ones }), DTypeError, "of float16 and float32 differ");
      using model = await openGraph(
        [
          CONV,
          ["Cast", ["c"], ["wide"], FLOAT],
          ["Add", ["wide", "one32"], ["sum"]],
          ["Cast", ["sum"], ["narrow"], HALF],
          ["Add", ["narrow", "c"], ["y"]],
          ["Pow", ["c", "two32"], ["square"]],
          ["Sub", ["square", "one"], ["z"]],
        ],
        [["y", "float16"], ["z", "float16"]],
        { tensors: [floats("two32", [], [2])] },
      );
      assertEquals(firsts(model.run({ x: ones })), {
        y: ["float16", 3],
        z: ["float16", 2 * MORE],
      });
    },
  );

  onBackend("bytes are made of what the file says", async () => {
    // The scale shows the difference between 1 and 1 + 2^-12: a half is rounded to even.
    const tensors = [
      halves("scale", [], [2]),
      { name: "zero", type: "uint8", dims: [], raw: Uint8Array.of(0) } as const,
    ];
    using model = await openGraph(
      [
        CONV,
        ["QuantizeLinear", ["c", "scale", "zero"], ["q"]],
        ["DequantizeLinear", ["q", "scale", "zero"], ["back"]],
        ["Conv", ["back", "w", "more"], ["d"]],
        ["Sub", ["d", "more"], ["y"]],
      ],
      [["q", "uint8"], ["y", "float16"]],
      { tensors },
    );
    assertEquals(firsts(model.run({ x: ones })), { q: ["uint8", 0], y: ["float16", 0] });
  });

  onBackend("a cache of float16 is not cast to join a row", async () => {
    using model = await openGraph(
      [
        ["MatMul", ["x", "v"], ["row"]],
        ["Concat", ["past", "row"], ["present"], { axis: { int: 2 } }],
        ["Transpose", ["present"], ["keys"], { perm: [0, 1, 3, 2] }],
        ["MatMul", ["row", "keys"], ["scores"]],
        ["Softmax", ["scores"], ["weights"]],
        ["MatMul", ["weights", "present"], ["mixed"]],
        ["MatMul", ["mixed", "v"], ["y"]],
      ],
      [["present", "float16"], ["y", "float16"]],
      {
        inputs: [["past", "float16", [1, 1, 30, 2]]],
        tensors: [halves("v", [2, 2], [1, 0, 0, 1])],
      },
    );
    const past = full([1, 1, 30, 2], 1, { dtype: "float16" }) as AnyTensor;
    assertEquals(firsts(model.run({ x: ones, past })), {
      present: ["float16", 1],
      y: ["float16", 1],
    });
    const sizes = model.explain().parts.flatMap(({ programs }) => programs).flatMap(({ data }) =>
      data.ops.filter(({ op, inputs, outputs }) =>
        op === "copy" && inputs[0]!.dtype !== outputs[0]!.dtype
      )
    ).map(({ inputs }) => inputs[0]!.shape!.reduce((a, b) => a * b));
    assert(sizes.length > 0 && sizes.every((size) => size <= 4), sizes.join());
  });

  onBackend("nodes one by one compute what a program computes", async () => {
    using model = await open(makeModel({
      nodes: [CONV, ["Sub", ["c", "one"], ["y"]], ["Greater", ["c", "one"], ["z"]]],
      inputs: [["x", "float16", [1, 1, 2, "n"]]],
      outputs: [["y", "float16"], ["c", "float16"], ["z", "bool"]],
      tensors: TENSORS,
    }));
    for (const n of [2, 3, 3, 3]) {
      const x = full([1, 1, 2, n], 1, { dtype: "float16" }) as AnyTensor;
      assertEquals(firsts(model.run({ x })), {
        y: ["float16", MORE],
        c: ["float16", 1],
        z: ["bool", false],
      });
    }
    const later = await model.async({
      x: full([1, 1, 2, 4], 1, { dtype: "float16" }) as AnyTensor,
    });
    assertEquals(firsts(later)["y"], ["float16", MORE]);
  });

  onBackend(
    "weights of convolutions are float32, those of products float16, each once",
    async () => {
      const folder = mkdtempSync(join(tmpdir(), "halves-"));
      try {
        const path = join(folder, "model.onnx");
        const wave = (length: number): number[] =>
          Array.from({ length }, (_, k) => Math.sin(k) / 8);
        const graph: GraphParts = {
          nodes: [
            ["Conv", ["image", "k"], ["a"], { pads: [1, 1, 1, 1] }],
            ["Conv", ["a", "p"], ["b"]],
            ["GlobalAveragePool", ["b"], ["d"]],
            ["Flatten", ["d"], ["e"]],
            ["MatMul", ["e", "v"], ["y"]],
          ],
          inputs: [["image", "float16", [1, 64, 16, 16]]],
          outputs: [["y", "float16"]],
          tensors: [
            halves("k", [64, 64, 3, 3], wave(64 * 64 * 9)),
            halves("p", [64, 64, 1, 1], wave(64 * 64)),
            halves("v", [64, 64], wave(64 * 64)),
          ],
        };
        writeFileSync(path, makeModel(graph));
        const image = full([1, 64, 16, 16], 0.5, { dtype: "float16" }) as AnyTensor;
        const run = async (): Promise<unknown> => {
          using model = await open(path, { cache: true });
          const { y } = model.run({ image });
          const { packed } = model.explain().parts[0]!.programs[0]!.data.bytes;
          // With kernels, the convolution of one element is a product with channels last, of float32.
          const last = cpuBackendName() === "js" ? 0 : 4 * 64 * 64;
          if (packed > 0) assertEquals(packed, 2 * 64 * 64 + last);
          for (const [name, value] of partsOf(model).graph.constants) {
            const { base } = (value as AnyTensor).storage;
            if (name !== "v" && isFixed(base)) assert(!hasCopy(base), name);
          }
          return (y as Tensor).toArray();
        };
        const first = await run(), cache = `${path}.rowmajor`;
        const { ino } = statSync(cache);
        if (cpuBackendName() !== "js") {
          const text = readFileSync(cache, "latin1");
          for (const op of ["pack", "winogradWeight"]) assert(text.includes(`"${op}(`), op);
        }
        assertEquals(await run(), first);
        assertEquals(statSync(cache).ino, ino, "it is not written again");
      } finally {
        rmSync(folder, { recursive: true });
      }
    },
  );

  onBackend("models of float16 leave no memory, node by node neither", async () => {
    const bytes = makeModel({
      nodes: [
        CONV,
        ["NonZero", ["c"], ["places"]],
        ["Conv", ["c", "w"], ["d"]],
        ["Cast", ["d"], ["wide"], FLOAT],
        ["If", ["on"], ["y"], {
          then_branch: {
            graph: { nodes: [["Identity", ["d"], ["t"]]], outputs: [["t", "float16"]] },
          },
          else_branch: {
            graph: { nodes: [["Conv", ["d", "w"], ["e"]]], outputs: [["e", "float16"]] },
          },
        }],
      ],
      inputs: [["x", "float16", [1, 1, 64, "n"]], ["on", "bool", []]],
      outputs: [["y", "float16"], ["c", "float16"], ["wide", "float32"], ["places", "int64"]],
      tensors: TENSORS,
    });
    const use = async (): Promise<void> => {
      using model = await open(bytes);
      // The second shape runs node by node first.
      for (const n of [32, 64, 65, 64, 64]) {
        using x = full([1, 1, 64, n], 1, { dtype: "float16" }) as AnyTensor;
        using on = tensor(n % 2 === 0) as AnyTensor;
        for (const made of Object.values(model.run({ x, on }))) (made as Tensor).dispose();
      }
    };
    await use();
    emptyCache();
    const before = memory().bytes;
    for (let k = 0; k < 5; k++) await use();
    emptyCache();
    // Small tensors share pieces of memory.
    assert(memory().bytes - before <= 2 ** 16, `it has grown by ${memory().bytes - before} bytes`);
  });
}
