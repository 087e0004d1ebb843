/**
 * Layers of weights against the ops that they are made of, on every backend and in programs; inputs
 * and options that do not fit.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import {
  arange,
  ArgumentError,
  DeviceError,
  DTypeError,
  IndexError,
  io,
  ones,
  PackedWeight,
  scope,
  ShapeError,
  tensor,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { profile } from "../../src/profile/mod.ts";
import { BACKENDS, using as on } from "../ops/table/backends.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { assertNear, everywhere, normal, numbers } from "./weights.ts";

const FLOATS = ["float16", "bfloat16", "float32", "float64"] as const;

describe("layers", () => {
  it("linear layers are products, with every option", () => {
    everywhere((at, device, name) => {
      for (const dtype of FLOATS) {
        const [weight, bias] = [normal(1, [5, 3], dtype), normal(2, [5], dtype)];
        const x = at(normal(3, [2, 4, 3], dtype === "float64" ? dtype : "float32"));
        const add = at(normal(4, [2, 4, 5]));
        const file = { "a.weight": weight, "a.bias": bias, "t.weight": weight.T.copy() };
        const w = nn.weights(file, { device, dtype });
        const whole = w.linear("a", 5, 3, { activation: "gelu" });
        const bare = w.linear("a", 5, 3, { bias: false });
        const turned = w.linear("t", 5, 3, { transposed: true, bias: "optional" });
        w.done();
        const [there, shift] = [at(weight), at(bias)];
        const about = `${name}, ${dtype}`;
        assertNear(whole(x), x.linear(there, shift, { activation: "gelu" }), about);
        assertNear(bare(x, { add }), x.linear(there).add(add), about);
        assertNear(turned(x), x.linear(there), about);
        assertEquals([bare.bias, turned.bias], [undefined, undefined]);
        assertEquals(whole.weight instanceof PackedWeight, dtype !== "float64");
        assertEquals([...whole.weight.shape], [5, 3]);
        assertEquals(numbers(whole.bias), numbers(bias));
        assertEquals([whole.outFeatures, whole.inFeatures, whole.path, loose(whole).name], [
          ...[5, 3, "a", "a"],
        ]);
        w.dispose();
      }
    });
  });

  it("options of a file cast floats, and only these", async () => {
    const file = {
      h: normal(1, [2, 3], "float16"),
      ids: arange(3, { dtype: "int64" }),
      wide: tensor([0.1], { dtype: "float64" }),
    };
    for (const { name, on: target } of BACKENDS) {
      const device = (typeof target === "string" ? target : "cpu") as "cpu";
      const options = { dtype: "float32", device } as const;
      const opened = await nn.open(io.encodeSafetensors(file), options);
      for (const w of [nn.weights(file, options), opened]) {
        on(target, () => {
          const [h, ids, wide] = [w.tensor("h"), w.tensor("ids"), w.tensor("wide")];
          assertEquals([h.dtype, ids.dtype, wide.dtype], ["float32", "int64", "float32"], name);
          assertEquals([h.device, ids.device, wide.device], [device, device, device]);
          assertEquals(w.tensor("ids", [3], { dtype: "int32" }).dtype, "int32");
          assertEquals(numbers(h), numbers(file.h));
          assertEquals(numbers(ids), [0, 1, 2]);
          assertEquals(numbers(wide), [Math.fround(0.1)]);
          w.done();
          w.dispose();
        });
      }
    }
  });

  it("embeddings, also with 16 bits under float32", () => {
    everywhere((at, device, name) => {
      const table = normal(1, [6, 4], "bfloat16");
      using w = nn.weights({ "e.weight": table }, { device });
      const [narrow, wide] = [w.embedding("e", 6, 4), w.embedding("e", 6, 4, { dtype: "float32" })];
      w.done();
      const ids = at(tensor([[5, 0, 1], [2, 2, 5]], { dtype: "int32" }));
      assertEquals([narrow(ids).dtype, wide(ids).dtype], ["bfloat16", "float32"], name);
      assertEquals(numbers(wide(ids)), numbers(table.take(ids.to("cpu"))));
      assertEquals([...wide(ids).shape], [2, 3, 4]);
      assertEquals([...narrow.weight.shape], [6, 4]);
    });
  });

  it("norms along the last axis, with a residual", () => {
    everywhere((at, device, name) => {
      for (const dtype of FLOATS) {
        const [weight, bias] = [normal(1, [8], dtype), normal(2, [8], dtype)];
        const file = { "n.weight": weight, "n.bias": bias, "r.weight": weight };
        using w = nn.weights(file, { device, dtype });
        const layer = w.layerNorm("n", 8, { epsilon: 1e-3 });
        const unshifted = w.layerNorm("r", 8, { bias: "optional" });
        const rms = w.rmsNorm("r", 8, { epsilon: 1e-6 });
        w.done();
        const [x, add] = [at(normal(3, [2, 3, 8], dtype)), at(normal(4, [2, 3, 8], dtype))];
        const how = { weight: at(weight), bias: at(bias), epsilon: 1e-3 };
        const about = `${name}, ${dtype}`;
        assertNear(layer(x), x.layerNorm(-1, how), about);
        assertNear(layer(x, { add }), x.add(add).layerNorm(-1, how), about);
        assertNear(unshifted(x), x.layerNorm(-1, { weight: at(weight) }), about);
        assertNear(rms(x, { add }), x.add(add).rmsNorm(-1, { weight: at(weight), epsilon: 1e-6 }));
        assertEquals(layer(x).dtype, dtype);
        assertEquals(rms.bias, undefined);
      }
    });
  });

  it("batch norms fold their statistics, and group norms", () => {
    everywhere((at, device, name) => {
      const part = (seed: number): Any => normal(seed, [6]);
      const file = {
        "b.weight": part(1),
        "b.bias": part(2),
        "b.running_mean": part(3),
        "b.running_var": part(4).square(),
        "b.num_batches_tracked": tensor(7, { dtype: "int64" }),
        "plain.running_mean": part(3),
        "plain.running_var": part(4).square(),
      };
      using w = nn.weights(file, { device });
      const whole = w.batchNorm("b", 6, { epsilon: 1e-3 });
      const plain = w.batchNorm("plain", 6);
      const group = w.groupNorm("b", 3, 6);
      w.done();
      for (const shape of [[2, 6], [2, 6, 4], [2, 6, 3, 5]]) {
        const x = at(normal(5, shape));
        const each = (one: Any): Any => at(one).reshape([6, ...shape.slice(2).map(() => 1)]);
        const centered = x.sub(each(part(3)));
        const normed = centered.div(each(part(4).square().add(1e-3).sqrt()));
        const expected = normed.mul(each(part(1))).add(each(part(2)));
        assertNear(whole(x), expected, `${name}, batch norm of ${shape}`);
        assertNear(plain(x), centered.div(each(part(4).square().add(1e-5).sqrt())));
        const rows = x.reshape([2, 3, -1]);
        const mean = rows.mean(2, { keepDims: true });
        const variance = rows.sub(mean).square().mean(2, { keepDims: true });
        const grouped = rows.sub(mean).div(variance.add(1e-5).sqrt()).reshape(shape);
        assertNear(group(x), grouped.mul(each(part(1))).add(each(part(2))), `${name}, group norm`);
      }
      const half = at(normal(5, [2, 6], "float16"));
      assertEquals([whole(half).dtype, group(half).dtype], ["float16", "float16"]);
      assertEquals([...whole.scale.shape, ...whole.shift.shape], [6, 6]);
    });
  });

  it("a fused layer gives the results of its parts", () => {
    everywhere((at, device, name) => {
      for (const dtype of FLOATS) {
        const file = {
          "q.weight": normal(1, [8, 6], dtype),
          "q.bias": normal(2, [8], dtype),
          "k.weight": normal(3, [6, 4], dtype),
          "v.weight": normal(4, [4, 6], dtype),
        };
        using w = nn.weights(file, { device, dtype });
        const [q, k, v] = [
          w.linear("q", 8, 6),
          w.linear("k", 4, 6, { transposed: true, bias: "optional" }),
          w.linear("v", 4, 6, { bias: false }),
        ];
        const qkv = nn.fuse(q, k, v);
        w.done();
        const x = at(normal(5, [2, 3, 6], dtype));
        const expected = [
          x.linear(at(file["q.weight"]), at(file["q.bias"])),
          x.linear(at(file["k.weight"]).T),
          x.linear(at(file["v.weight"])),
        ];
        const parts: Any[] = qkv(x);
        parts.forEach((part, i) => assertNear(part, expected[i], `${name}, ${dtype}, part ${i}`));
        const heads: Any[] = qkv(x, { heads: 4 });
        assertEquals(heads.map((one) => [...one.shape]), [[2, 4, 3, 2], [2, 2, 3, 2], [
          2,
          2,
          3,
          2,
        ]]);
        heads.forEach((part, i) => assertNear(nn.mergeHeads(part), expected[i]));
        assertThrows(() => q(x), ArgumentError, "part of a fuse");
        assertThrows(() => q.weight, ArgumentError, "part of a fuse");
        assertEquals(qkv.path, "q + k + v");
      }
    });
  });

  it("fuse refuses what is no one product", () => {
    const file = { "a.weight": ones([4, 3]), "b.weight": ones([4, 2]), "c.weight": ones([4, 3]) };
    const [w, other] = [nn.weights(file), nn.weights(file)];
    const plain = { bias: false };
    const [a, b, c] = [
      w.linear("a", 4, 3, plain),
      w.linear("b", 4, 2, plain),
      w.linear("c", 4, 3, {
        ...plain,
        activation: "relu",
      }),
    ];
    assertRefused(() => nn.fuse(a, b), ShapeError, ["fuse", "[4, 3]", "[4, 2]"]);
    assertRefused(() => nn.fuse(a, c), ArgumentError, ["activations", "relu"]);
    assertRefused(() => nn.fuse(a, a), ArgumentError, ["fuse", "twice"]);
    assertRefused(() => nn.fuse(), ArgumentError, ["fuse"]);
    assertRefused(() => nn.fuse(loose(w.rmsNorm("a", 3))), ArgumentError, ["linear layers"]);
    assertRefused(() => nn.fuse(a, other.linear("a", 4, 3, plain)), ArgumentError, ["files"]);
    a(ones([1, 3]));
    assertRefused(() => nn.fuse(a, w.linear("a", 4, 3, plain)), ArgumentError, ["loaded already"]);
    const parts = nn.fuse(w.linear("a", 4, 3, plain), w.linear("a", 4, 3, plain));
    assertRefused(() => parts(ones([1, 1, 3]), { heads: 3 }), ShapeError, ["heads 3", "4 columns"]);
    w.dispose();
    other.dispose();
  });

  it("heads are split and merged", () => {
    everywhere((at) => {
      const x = at(normal(1, [2, 5, 12]));
      const heads: Any = nn.splitHeads(x, 3);
      assertEquals(numbers(heads), numbers(x.reshape([2, 5, 3, 4]).permute(0, 2, 1, 3)));
      assertEquals(numbers(nn.mergeHeads(heads)), numbers(x));
    });
    assertRefused(() => nn.splitHeads(ones([2, 5]), 2), ShapeError, ["[2, 5]", "2"]);
    assertRefused(() => nn.splitHeads(ones([4]), 2), ShapeError, ["[4]"]);
    assertRefused(() => nn.splitHeads(ones([2, 4]), 0), ShapeError, ["0"]);
    assertRefused(() => nn.mergeHeads(ones([4, 3])), ShapeError, ["[4, 3]"]);
  });

  it("inputs that do not fit are refused", () => {
    const file = {
      "a.weight": ones([4, 3]),
      "n.weight": ones([3]),
      "n.bias": ones([3]),
      "n.running_mean": ones([3]),
      "n.running_var": ones([3]),
    };
    using w = nn.weights(file);
    const [a, n] = [w.linear("a", 4, 3, { bias: false }), w.layerNorm("n", 3)];
    const [b, g] = [w.batchNorm("n", 3), w.groupNorm("n", 1, 3)];
    const e = w.embedding("a", 4, 3);
    w.done();
    const bad: Any = ones([2, 5]);
    assertRefused(() => a(bad), ShapeError, ["linear", "[2, 5]", "[4, 3]"], bad);
    assertRefused(() => a(loose(1)), DTypeError, ["linear"]);
    assertRefused(() => n(bad), ShapeError, ["layerNorm", "[2, 5]", "3"], bad);
    assertRefused(() => n(loose(ones([]))), ShapeError, ["layerNorm", "[]"]);
    assertRefused(() => n(ones([2, 3]), { add: ones([3]) }), ShapeError, ["layerNorm", "[3]"]);
    assertRefused(() => b(bad), ShapeError, ["batchNorm", "[2, 5]", "[B, 3"], bad);
    assertRefused(() => g(ones([3])), ShapeError, ["groupNorm", "[3]"]);
    for (const id of [4, -1]) {
      assertRefused(() => e(tensor([id], { dtype: "int32" })), IndexError, [
        "embedding",
        String(id),
      ]);
    }
    assertThrows(() => a(ones([1, 3]), loose({ out: 1 })), TypeError, "out");
    assertThrows(() => n(ones([1, 3]), loose({ residual: 1 })), TypeError, "residual");
  });

  it("options that do not fit are refused", () => {
    const w: Any = nn.weights({ "a.weight": ones([4, 3]) });
    assertThrows(() => w.linear("a", 4, 3, { bais: true }), TypeError, "bais");
    assertRefused(() => w.linear("a", 4, 3, { bias: "maybe" }), ArgumentError, ["bias", "maybe"]);
    assertRefused(() => w.linear("a", 4, 3, { activation: "x" }), ArgumentError, ["relu", '"x"']);
    assertRefused(() => w.linear("a", 4, -3), ShapeError, ["a.weight", "-3"]);
    assertRefused(() => w.layerNorm("a", 3, { bias: 1 }), ArgumentError, ["layerNorm", "bias"]);
    assertThrows(() => w.rmsNorm("a", 3, { bias: true }), TypeError, "bias");
    assertRefused(() => w.groupNorm("a", 2, 3), ArgumentError, ["3 channels", "2 groups"]);
    assertRefused(() => w.batchNorm("a", 3, { epsilon: -1 }), ArgumentError, ["epsilon", "-1"]);
    assertRefused(() => w.embedding("a", 4, 3, { dtype: "f32" }), DTypeError, ["f32"]);
    assertThrows(() => w.at(1), TypeError, "name");
    assertThrows(() => w.list("a", 2), TypeError, "function");
    assertRefused(() => w.list("a", -1, () => 0), ArgumentError, ["-1"]);
    assertThrows(() => w.done({ ignore: "a" }), TypeError, "ignore");
    assertThrows(() => nn.weights(loose([ones([1])])), DTypeError, "by name");
    assertThrows(() => nn.weights(loose(ones([1]))), DTypeError, "a tensor");
    assertThrows(() => nn.weights({}, { dtype: "int8" }), DTypeError, "float");
    assertThrows(() => nn.weights({}, loose({ type: "int8" })), TypeError, "type");
    assertThrows(() => nn.weights({}, { device: loose("tpu") }), DeviceError, "tpu");
  });
});

describe("programs", () => {
  const file = {
    "up.weight": normal(1, [16, 8]),
    "up.bias": normal(2, [16]),
    "n.weight": normal(3, [16]),
    "n.bias": normal(4, [16]),
    "e.weight": normal(5, [9, 8]),
  };
  const build = (w: nn.Weights): (ids: Any) => Any => {
    const [e, up, n] = [
      w.embedding("e", 9, 8),
      w.linear("up", 16, 8, { activation: "silu" }),
      w.layerNorm("n", 16),
    ];
    return (ids) => n(up(e(ids)), { add: up(e(ids)) });
  };
  const ids: Any = tensor([[1, 0, 8]], { dtype: "int32" });

  it("layers are one program, loaded before or while it is recorded", () => {
    for (const { name, on: target } of BACKENDS) {
      on(target, () => {
        const device = (typeof target === "string" ? target : "cpu") as "cpu";
        for (const early of [true, false]) {
          using w = nn.weights(file, { device });
          const net = build(w);
          if (early) w.done();
          const there = ids.to(device);
          using fast = compile(net);
          const made = fast(there);
          assertNear(made, net(there), name);
          assertNear(fast(there), made, name);
          assertEquals(fast.programs, 1);
          if (!early) w.done();
        }
      });
    }
  });

  it("loading is no part of a profile, a scope or a program", () => {
    using w = nn.weights(file);
    const net = build(w);
    const { calls } = profile(() => net(ids));
    assertEquals(calls.filter(({ op }) => op === "pack").length, 0);
    using v = nn.weights(file);
    const inner = scope(() => {
      const net = build(v);
      v.tensor("up.bias");
      v.done();
      return net;
    });
    assertNear(scope(() => inner(ids)), net(ids));
  });
});
