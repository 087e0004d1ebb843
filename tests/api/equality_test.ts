/**
 * Equality: tensors in deep comparisons of Node.js and Bun, and `equals`.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { deepStrictEqual, notDeepStrictEqual } from "node:assert";
import { test } from "node:test";
import { type AnyTensor, DeviceError, DTypeError, ones, tensor, zeros } from "../../mod.ts";
import { using } from "../ops/table/backends.ts";
import { MIRROR } from "../device/mirror.ts";
import { loose } from "../support.ts";

interface Expect {
  toEqual(other: unknown): void;
  toStrictEqual(other: unknown): void;
  readonly not: Expect;
}

/** Bun's `expect`, where there is one. */
const expect: ((value: unknown) => Expect) | undefined = "Bun" in globalThis
  ? (await import("bun:test" as string)).expect
  : undefined;

// The `assertEquals` of the standard library compares what getters give too, so that it compares
// `x.T`, and `x.T.T`, and so on: it takes no equal tensors, which `x.equals(y)` does.
function assertSame(a: unknown, b: unknown): void {
  deepStrictEqual(a, b);
  expect?.(a).toEqual(b);
  expect?.(a).toStrictEqual(b);
}

function assertOther(a: unknown, b: unknown): void {
  notDeepStrictEqual(a, b);
  assertThrows(() => assertEquals(a, b));
  expect?.(a).not.toEqual(b);
  expect?.(a).not.toStrictEqual(b);
}

test("equal tensors compare equal, also after uses that change no value", () => {
  const uses: Record<string, (x: AnyTensor) => unknown> = {
    nothing: () => {},
    "add_": (x) => loose(x).add_(1).sub_(1),
    set: (x) => loose(x).set([0], 1),
    view: (x) => x.view(),
    "a view of a part": (x) => x.slice(0),
    "a view that is dropped": (x) => x.T.dispose(),
    data: (x) => loose(x).data,
    toArray: (x) => x.toArray(),
    "a copy on write": (x) => x.intoCow(),
    "a copy on write that is written": (x) => loose(x.intoCow()).add_(1),
    sum: (x) => x.sum(),
    print: (x) => String(x),
  };
  for (const [what, use] of Object.entries(uses)) {
    for (const shape of [[2, 2], [40, 40]]) {
      const [x, y] = [loose(ones(shape)), loose(ones(shape))];
      const held = use(x);
      try {
        assertSame(x, y);
        assertSame({ x: [x] }, { x: [y] });
      } catch (error) {
        throw new Error(`after ${what}`, { cause: error });
      }
      assert(held !== null);
    }
  }
});

test("tensors of other values, shapes or dtypes compare unequal", () => {
  assertOther(tensor([1]), tensor([2]));
  assertOther(tensor([1, 2]), tensor([[1, 2]]));
  assertOther(tensor([1]), tensor([1], { dtype: "int32" }));
  assertOther(loose(tensor([0, 1])).add_(1), tensor([1, 3]));
  assertOther(ones([40, 40]), zeros([40, 40]));
  notDeepStrictEqual(tensor([0]), tensor([-0]));
  const [x, y] = [tensor([1, 2]), tensor([1, 3])];
  assertOther(x.intoCow(), y.intoCow());
  assertSame(x.intoCow(), tensor([1, 2]).intoCow());
  assertOther(x.slice(0), x.slice(1));
  x.dispose();
  assertOther(x, y);
  using(MIRROR, () => {
    const [a, b] = [tensor([1]).to(MIRROR), tensor([2]).to(MIRROR)];
    assertOther(a, b);
    assertSame(a, a.view().view());
  });
  assertSame(tensor([1, 2, 3, 4]).reshape([2, 2]), tensor([[1, 2], [3, 4]]));
  assertSame(tensor([1, 2]).readonly(), tensor([1, 2]));
});

test("equals compares shapes, dtypes and elements, whatever the layouts", () => {
  const x = tensor([[1, 2], [3, 4]]);
  assert(x.T.equals(tensor([[1, 3], [2, 4]])));
  assert(!x.equals(x.T));
  assert(!x.equals(x.astype("int32")));
  assert(!x.equals(tensor([1, 2, 3, 4])));
  assert(!x.equals(tensor([[1, 2]])));
  assert(zeros([0, 2]).equals(zeros([0, 2])));
  assert(tensor([0]).equals(tensor([-0])));
  for (const dtype of ["float16", "float32", "float64"] as const) {
    const nan = tensor([1, NaN], { dtype });
    assert(!nan.equals(nan));
    assert(nan.equals(nan.copy(), { equalNan: true }));
    assert(!nan.equals(tensor([NaN, 1], { dtype }), { equalNan: true }));
  }
  assertThrows(() => x.equals(loose([[1, 2], [3, 4]])), DTypeError, "Cannot equals");
  assertThrows(() => x.equals(x, loose({ equalNaN: true })), Error, "equalNaN");
  using(MIRROR, () => {
    assert(x.to(MIRROR).equals(x.T.to(MIRROR).T));
    assertThrows(() => x.equals(x.to(MIRROR)), DeviceError, "equals");
  });
});
