/**
 * The options of nn.attention that are not those of the op: lengths, alone and with a mask; errors.
 * tests/ops/attention_test.ts tests the op.
 *
 * @module
 */
import { assertEquals, assertThrows } from "@std/assert";
import { test } from "node:test";
import { DTypeError, ones, random, ShapeError, tensor, where, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import * as nn from "../../src/nn/mod.ts";
import { type Any, assertRefused, loose } from "../support.ts";
import { BACKENDS, using } from "../ops/table/backends.ts";

const normal = (seed: number, shape: readonly number[]): Any =>
  loose(random.normal(random.key(seed), shape as number[]));
const operands = [normal(1, [2, 4, 3, 8]), normal(2, [2, 2, 5, 8]), normal(3, [2, 2, 5, 6])];
const counts = tensor([2, 5], { dtype: "int32" });
/** True for the keys that count, by another way than the function's. */
const counted = tensor([[1, 1, 0, 0, 0], [1, 1, 1, 1, 1]], { dtype: "bool" });

for (const { name, on } of BACKENDS) {
  test(`lengths hide the keys beyond them, also beside a mask, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const at = (x: Any): Any => x.to(device);
      const [q, k, v] = operands.map(at);
      const [lengths, seen] = [at(counts), at(counted).reshape([2, 1, 1, 5])];
      const text = (x: Any): string => String(x.to("cpu"));
      assertEquals(
        text(nn.attention(q, k, v, { lengths })),
        text(nn.attention(q, k, v, { mask: seen })),
      );
      const added = at(normal(4, [3, 5]));
      assertEquals(
        text(nn.attention(q, k, v, { mask: added, lengths })),
        text(nn.attention(q, k, v, { mask: where(seen, added, -Infinity) })),
      );
      const some = at(normal(5, [2, 1, 3, 5])).greater(-1);
      assertEquals(
        text(nn.attention(q, k, v, { mask: some, lengths, causal: true })),
        text(nn.attention(q, k, v, { mask: some.logicalAnd(seen), causal: true })),
      );
    }));
}

for (const { name, on } of BACKENDS) {
  test(`what is beyond the lengths does not matter, and of no key comes 0, ${name}`, () =>
    using(on, () => {
      const device = typeof on === "string" ? on : "cpu";
      const at = (x: Any): Any => x.to(device);
      const [q, k, v] = operands.map((x) => x.copy());
      const few = tensor([2, 0], { dtype: "int32" });
      const expected = at(nn.attention(at(q), at(k), at(v), { lengths: at(few) }));
      assertEquals(expected.slice(1).abs().max().item(), 0);
      for (const bad of [NaN, Infinity, -Infinity]) {
        for (const x of [k, v]) {
          x.set([0, ":", "2:"], bad);
          x.set([1], bad);
        }
        const given = [q, k, v].map(at) as [Any, Any, Any];
        const attend = (lengths: Any, mask: Any): Any => nn.attention(...given, { lengths, mask });
        for (const mask of [undefined, at(ones([3, 5])).greater(0), at(zeros([5]))]) {
          using f = compile(attend);
          for (const made of [attend(at(few), mask), f(at(few), mask)]) {
            assertEquals(loose(made).allclose(expected), true, `${bad}`);
          }
        }
      }
    }));
}

test("an op by ops in a program is what it is without: NaN where no key is seen", () => {
  const attend = (q: Any, k: Any, v: Any, mask: Any): Any =>
    q.matmul(k.mT).add(mask).softmax(-1).matmul(v);
  const [q, k, v] = [ones([1, 2, 4]), ones([1, 3, 4]), ones([1, 3, 4])] as Any[];
  const mask = tensor([[0, 0, -Infinity], [-Infinity, -Infinity, -Infinity]]);
  using f = compile(attend);
  assertEquals(f(q, k, v, mask).toArray(), attend(q, k, v, mask).toArray());
  assertEquals(f.explain()[0]?.data.improvements.attention !== undefined, true);
});

test("lengths are an argument of programs", () => {
  const [q, k, v] = operands;
  const f = compile((lengths: Any) => nn.attention(q, k, v, { lengths }));
  for (const values of [[2, 5], [1, 3]]) {
    const lengths = tensor(values, { dtype: "int32" });
    assertEquals(String(f(lengths)), String(nn.attention(q, k, v, { lengths })));
  }
  assertEquals(f.programs, 1);
});

test("lengths that do not fit are refused", () => {
  const [q, k, v] = operands;
  const given = (lengths: Any) => () => nn.attention(q, k, v, { lengths });
  assertRefused(given(ones([2])), DTypeError, ["attention", "float32", "integers"]);
  assertRefused(given(ones([3], { dtype: "int32" })), ShapeError, ["attention", "[3]", "[2, 4"]);
  assertRefused(given(ones([], { dtype: "int64" })), ShapeError, ["attention", "[]"]);
  const three = ones([4, 3, 8]);
  assertRefused(
    () => nn.attention(three, three, three, { lengths: counts }),
    ShapeError,
    ["attention", "[4, 3, 8]"],
  );
  assertThrows(() => nn.attention(q, k, v, loose({ length: 1 })), TypeError, "length");
});
