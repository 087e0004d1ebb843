/**
 * Weights of files by names: layers against the ops that they are made of, on every backend, in
 * programs and under interpreters; what is missing, left over or misshapen; memory.
 *
 * @module
 */
import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { describe, it } from "node:test";
import {
  type AnyTensor,
  arange,
  ArgumentError,
  DeviceError,
  DisposedError,
  type DType,
  DTypeError,
  FormatError,
  IndexError,
  io,
  memory,
  ones,
  PackedWeight,
  random,
  scope,
  ShapeError,
  tensor,
} from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { profile } from "../../src/profile/mod.ts";
import { MIRROR } from "../device/mirror.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { BACKENDS, using as on } from "../ops/table/backends.ts";

const FLOATS = ["float16", "bfloat16", "float32", "float64"] as const;
const EMPTY = io.encodeSafetensors({});

function normal(seed: number, shape: readonly number[], dtype: DType = "float32"): Any {
  return loose(random.normal(random.key(seed), shape as number[])).astype(dtype);
}

/** Elements as numbers. */
function numbers(x: Any): number[] {
  return [...x.to("cpu").astype("float64").toTypedArray()];
}

/** Compares elements with a tolerance for sums of another order, by the dtype of the result. */
function assertNear(made: Any, expected: Any, about = ""): void {
  assertEquals([...made.shape], [...expected.shape], about);
  const [a, b] = [numbers(made), numbers(expected)];
  const scale = Math.max(1, ...b.map(Math.abs));
  const epsilon = { float16: 2e-3, bfloat16: 2e-2, float32: 3e-6, float64: 1e-14 }[
    made.dtype as "float32"
  ];
  for (const [i, x] of b.entries()) {
    assert(Math.abs(a[i]! - x) <= scale * epsilon, `${about}: element ${i} is ${a[i]}, not ${x}`);
  }
}

/** Runs `body` on each backend, with a function that moves a tensor there. */
function everywhere(body: (at: (x: Any) => Any, device: "cpu", name: string) => void): void {
  for (const { name, on: target } of BACKENDS) {
    on(target, () => {
      const device = (typeof target === "string" ? target : "cpu") as "cpu";
      body((x) => x.to(device), device, name);
    });
  }
}

/** The error of `done`, in lines. */
function report(w: nn.Weights, options?: nn.DoneOptions): string[] {
  const error = assertThrows(() => w.done(options), FormatError) as FormatError;
  assertEquals(error.code, "RM_FORMAT");
  return error.message.split("\n");
}

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

  it("options of a file cast floats, and only these", () => {
    const bytes = io.encodeSafetensors({
      "a.weight": normal(1, [2, 3], "float16"),
      ids: arange(3, { dtype: "int64" }),
      wide: tensor([0.1], { dtype: "float64" }),
    });
    everywhere((at, device) => {
      void nn.open(bytes, { device }).then((w) => w.dispose());
      const w = nn.weights({ h: normal(1, [2, 3], "float16"), ids: arange(3, { dtype: "int8" }) }, {
        dtype: "float32",
        device,
      });
      assertEquals([w.tensor("h").dtype, w.tensor("ids").dtype], ["float32", "int8"]);
      assertEquals(w.tensor("ids", [3], { dtype: "int32" }).dtype, "int32");
      assertEquals(w.tensor("h").device, device);
      assertEquals(numbers(w.tensor("h")), numbers(normal(1, [2, 3], "float16")));
      assertEquals(numbers(at(w.tensor("ids"))), [0, 1, 2]);
      w.done();
      w.dispose();
    });
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
    assertEquals(v.done === undefined, false);
  });
});

describe("requests", () => {
  it("names, places and lists", () => {
    using w = nn.weights({
      "a.x": ones([1]),
      "a.b.0.x": ones([2]),
      "a.b.1.x": ones([3]),
      "a.b.3.x": ones([4]),
      "a.bb": ones([5], { dtype: "int8" }),
    });
    assertEquals(w.names(), ["a.x", "a.b.0.x", "a.b.1.x", "a.b.3.x", "a.bb"]);
    const a = w.at("a");
    assertEquals(a.at("b").names(), ["0.x", "1.x", "3.x"]);
    assertEquals([a.path, a.at("b.0").path, a.at("").path], ["a", "a.b.0", "a"]);
    assertEquals([w.has("a"), w.has("a.b"), w.has("a.b.0.x"), w.has("a.b.2"), w.has("x")], [
      ...[true, true, true, false, false],
    ]);
    assertEquals(a.info("bb"), { dtype: "int8", shape: [5] });
    assertEquals(a.info("b"), undefined);
    const sizes = a.list("b", (w, i) => [i, w.path, w.tensor("x").shape[0]!]);
    assertEquals(sizes, [[0, "a.b.0", 2], [1, "a.b.1", 3]]);
    assertEquals(a.list("b", 1, (w) => w.path), ["a.b.0"]);
    assertEquals(a.list("b", undefined, (w) => w.path).length, 2);
    assertEquals(a.list("none", () => 1), []);
    const again: Any = w.tensor("a.x", [1]);
    assert(again === w.tensor("a.x"));
    again.dispose();
    assert(!w.tensor("a.x").isDisposed);
  });

  it("a prefix and new names", () => {
    const file = { "bert.n.gamma": ones([2]), "bert.n.beta": ones([2]), "head.x": ones([3]) };
    const rename = (name: string): string =>
      name.replace(/gamma$/, "weight").replace(/beta$/, "bias");
    using w = nn.weights(file, { prefix: "bert", rename });
    assertEquals(w.names(), ["n.weight", "n.bias"]);
    const norm = w.layerNorm("n", 2);
    w.done();
    assertNear(norm(tensor([1, 3])), tensor([0, 2]).add(tensor([1e-5, -1e-5]) as Any));
    assertThrows(() => nn.weights(file, { rename: () => "x" }), FormatError, "two tensors");
    assertThrows(() => nn.weights(file, { rename: loose(() => 1) }), TypeError, "name");
  });

  it("layers of one's own", () => {
    const file = { "g.scale": tensor([1, 2]), "g.shift": tensor([1, 1]) };
    let made = 0;
    using w = nn.weights(file);
    const parts = { scale: [2], shift: [2], other: { shape: [2], optional: true } } as const;
    const gate = w.layer("g", parts, ({ scale, shift, other }, own) => {
      made++;
      assertEquals(other, undefined);
      const both = own(scale.add(shift));
      return (x: AnyTensor) => [loose(x).mul(both), scale.isDisposed];
    });
    assertEquals(made, 0);
    w.done();
    w.at("g").dispose();
    assertThrows(() => gate(ones([2])), DisposedError, "layer g");
    using v = nn.weights(file);
    const other = v.layer("g", { scale: [2] }, ({ scale }, own) => {
      own(scale);
      return () => scale;
    });
    assertEquals(numbers(other()), [1, 2]);
    const bad = v.layer("g", { shift: [2] }, (): () => void => {
      throw new RangeError("no");
    });
    assertThrows(() => bad(), RangeError, "no");
    assertThrows(() => v.done({ ignore: ["g.*"] }), RangeError, "no");
  });
});

describe("faults", () => {
  it("done tells all that is missing, misshapen or left over", () => {
    const file = {
      "encoder.attention.self.query.weight": ones([4, 3]),
      "encoder.attention.self.query.bias": ones([4]),
      "up.weight": ones([3, 4]),
      "up.bias": ones([5]),
      "pooler.weight": ones([2]),
      "pooler.bias": ones([2]),
      "ids.weight": ones([2, 2], { dtype: "int64" }),
      "wide.weight": ones([2], { dtype: "float64" }),
    };
    const w = nn.weights(file);
    const query = w.at("encoder").linear("attention.query", 4, 3);
    const up = w.linear("up", 4, 3);
    w.embedding("ids", 2, 2);
    w.rmsNorm("wide", 2);
    const scale: Any = w.tensor("scale", [2]);
    const message = assertThrows(() => query(ones([1, 3])), FormatError).message;
    assertStringIncludes(message, "<tensors> at byte 0: Cannot use layer encoder.attention.query");
    assertStringIncludes(message, "encoder.attention.query.weight is missing");
    assertThrows(() => up.weight, FormatError, "up.weight has shape [3, 4], not [4, 3]");
    assertEquals([...scale.shape], [2]);
    for (const use of [() => scale.add(1), () => scale.toArray(), () => ones([2]).mul(scale)]) {
      assertThrows(use, FormatError, "Cannot use tensor scale: scale is missing");
    }
    assertEquals(report(w, { ignore: ["pooler.b*"] }), [
      "<tensors> at byte 0: 3 tensors are missing, 2 have another shape, 2 have a dtype that does " +
      "not fit, 3 are left over",
      "  missing      encoder.attention.query.weight [4, 3]; meant " +
      "encoder.attention.self.query.weight [4, 3]?",
      "  missing      encoder.attention.query.bias [4]; meant " +
      "encoder.attention.self.query.bias [4]?",
      "  missing      scale [2]",
      "  other shape  up.weight has shape [3, 4], not [4, 3] (linear has the option transposed)",
      "  other shape  up.bias has shape [5], not [4]",
      '  other dtype  ids.weight has dtype int64: open the weights with { dtype: "float32" }, for ' +
      "example",
      '  other dtype  wide.weight has dtype float64: open the weights with { dtype: "float32" }, ' +
      "for example",
      "  left over    encoder.attention.self.query.weight [4, 3]",
      "  left over    encoder.attention.self.query.bias [4]",
      "  left over    pooler.weight [2]",
    ]);
    assert(scale.isDisposed);
    assertThrows(() => query(ones([1, 3])), DisposedError, "disposed");
    assertThrows(() => w.done(), DisposedError, "closed");
    assertThrows(() => w.linear("a", 1, 1), DisposedError, "closed");
  });

  it("long lists are cut, and one fault of a name is told once", () => {
    const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`x${i}`, ones([1])]));
    const w = nn.weights(many);
    w.list("layers", 20, (w) => w.linear("a", 1, 1, { bias: false }));
    w.list("layers", 20, (w) => w.linear("a", 1, 1, { bias: false }));
    const lines = report(w);
    assertEquals(lines.length, 1 + 9 + 9);
    assertStringIncludes(lines[0]!, "20 tensors are missing, 30 are left over");
    assertEquals([lines[9], lines[18]], ["  missing      … 12 more", "  left over    … 22 more"]);
  });

  it("an optional tensor may be absent, not of another shape", () => {
    const w = nn.weights({ "a.weight": ones([2, 2]), "a.bias": ones([3]) });
    const a = w.linear("a", 2, 2, { bias: "optional" });
    assertThrows(() => a(ones([1, 2])), FormatError, "a.bias has shape [3], not [2]");
    assertStringIncludes(report(w)[0]!, "1 has another shape");
  });

  it("places are done one by one", () => {
    using w = nn.weights({ "a.weight": ones([2, 2]), "b.weight": ones([2, 2]), "b.x": ones([1]) });
    const [a, b] = [
      w.linear("a", 2, 2, { bias: false }),
      w.linear("b", 2, 2, { bias: false }),
    ];
    w.at("a").done();
    assertEquals(report(w.at("b")), [
      "<tensors> at byte 0: 1 is left over",
      "  left over    b.x [1]",
    ]);
    assertEquals(numbers(a(ones([1, 2]))), [2, 2]);
    assertThrows(() => b(ones([1, 2])), DisposedError, "layer b");
    w.done({ ignore: ["b.x"] });
  });

  it("a fault of many names takes no long time", () => {
    const names = (start: string): string[] =>
      Array.from({ length: 4000 }, (_, i) => `${start}.encoder.layer.${i}.attention.self.query`);
    const w = nn.weights(Object.fromEntries(names("a").map((name) => [name, ones([])])));
    for (const name of names("bert.b")) w.tensor(name);
    const start = performance.now();
    assertStringIncludes(report(w)[0]!, "4000 tensors are missing, 4000 are left over");
    assert(performance.now() - start < 20_000);
  });
});

describe("memory", () => {
  const device = loose(MIRROR);
  const file = { "a.weight": normal(1, [8, 4]), "a.bias": ones([8]), b: ones([4]) };
  const inUse = (): number => memory(device).bytes;

  it("nothing stays allocated after a fault, nor after dispose", () => {
    const before = inUse();
    const failed: Any = nn.weights(file, { device });
    failed.tensor("b");
    scope(() => void failed.linear("a", 8, 4)(ones([1, 4]).to(device)));
    assert(inUse() > before);
    failed.linear("c", 8, 4);
    report(failed);
    assertEquals(inUse(), before);

    const w: Any = nn.weights(file, { device, dtype: "float16" });
    const [a, n] = [w.linear("a", 8, 4), w.rmsNorm("a.bias", 8)];
    w.tensor("b", [4]);
    assertThrows(() => n(ones([1, 8])), FormatError);
    w.at("a.bias").dispose();
    assertThrows(() => w.done(), FormatError);
    assertEquals(inUse(), before);
    assertThrows(() => a(ones([1, 4])), DisposedError);
  });

  it("a layer holds what it needs, and frees it", () => {
    const before = inUse();
    const w: Any = nn.weights(file, { device });
    const [a, b] = [w.linear("a", 8, 4), w.tensor("b")];
    w.done();
    const bytes = 4 * (8 * 4 + 8 + 4);
    assertEquals(inUse() - before, bytes);
    a.dispose();
    assertEquals(inUse() - before, 16);
    assertThrows(() => a(ones([1, 4])), DisposedError, "layer a: it was disposed");
    b.dispose();
    w.dispose();
    w.dispose();
    assertEquals(inUse(), before);
    {
      using v: Any = nn.weights(file, { device });
      const fused = nn.fuse(v.linear("a", 8, 4), v.linear("a", 8, 4));
      v.done({ ignore: ["b"] });
      assertEquals(inUse() - before, 2 * 4 * (8 * 4 + 8));
      fused.dispose();
      assertEquals(inUse(), before);
    }
    using v: Any = nn.weights(file, { device });
    v.linear("a", 8, 4);
    v.done({ ignore: ["b"] });
    v.dispose();
    assertEquals(inUse(), before);
  });

  it("load runs in steps, and stops at a signal", async () => {
    const open = (): Any => {
      const w: Any = nn.weights(file, { device });
      return [w, w.linear("a", 8, 4), w.rmsNorm("late", 4)];
    };
    const whole: Any = nn.weights(file, { device });
    const [a, c] = [whole.linear("a", 8, 4), whole.linear("a", 8, 4, { bias: false })];
    const seen: nn.LoadProgress[] = [];
    let turns = 0;
    const timer = setInterval(() => turns++, 0);
    await whole.load({ ignore: ["b"], onProgress: (progress: Any) => seen.push(progress) });
    clearInterval(timer);
    assertEquals(seen, [{ loaded: 160, total: 288 }, { loaded: 288, total: 288 }]);
    assert(turns > 0);
    scope(() => assertNear(a(ones([1, 4]).to(device)), c(ones([1, 4]).to(device)).add(1)));
    whole.dispose();
    const [faulty] = open();
    await assertRejects(() => faulty.load(), FormatError, "late.weight");
    const stopped: Any = nn.weights(file, { device });
    const layer = stopped.linear("a", 8, 4);
    const b = stopped.tensor("b");
    const controller = new AbortController();
    const promise = stopped.load({
      signal: controller.signal,
      onProgress: () => controller.abort(new RangeError("enough")),
    });
    await assertRejects(() => promise, RangeError, "enough");
    await assertRejects(() => stopped.load({ signal: controller.signal }), DisposedError);
    await assertRejects(() => whole.load(loose({ abort: 1 })), TypeError, "abort");
    assert(b.isDisposed);
    assertThrows(() => layer(ones([1, 4])), DisposedError, "layer a");
  });

  it("tensors that weights() was given may change until they are loaded, and not be disposed", () => {
    const x: Any = ones([2, 2]);
    using w = nn.weights({ "a.weight": x });
    const a = w.linear("a", 2, 2, { bias: false });
    x.mul_(2);
    w.done();
    x.fill_(0);
    assertEquals(numbers(a(ones([1, 2]))), [4, 4]);
    const v = nn.weights({ "a.weight": x });
    v.linear("a", 2, 2, { bias: false });
    x.dispose();
    assertThrows(() => v.done(), DisposedError, "a.weight");
  });

  it("bytes of no tensors", async () => {
    using w = await nn.open(EMPTY);
    assertEquals(w.names(), []);
    w.done();
  });
});
