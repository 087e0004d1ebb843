/**
 * Weights by names: places, lists, prefixes, layers of one's own; what is missing, left over or
 * misshapen.
 *
 * @module
 */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { describe, it } from "node:test";
import { type AnyTensor, DisposedError, FormatError, ones, tensor } from "../../mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, loose } from "../support.ts";
import { assertNear, numbers, report } from "./weights.ts";

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
