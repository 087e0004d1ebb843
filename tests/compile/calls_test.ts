/**
 * Calls of compiled functions: which program runs, on which values, and what it writes when. Each
 * test runs with each backend of the CPU.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DisposedError, ones, tensor, TraceError } from "../../mod.ts";
import { compile, type Compiled, offload } from "../../src/compile/mod.ts";
import { type Any, loose } from "../support.ts";
import { testOnBackends as test } from "./support.ts";

const any = (f: (...args: Any[]) => unknown, options = {}) => compile(f, options) as Compiled<Any>;

test("Compile: numbers are inputs, unless they are static", () => {
  let traces = 0;
  const scale = (x: Any, by: number) => (traces++, x.mul(by));
  using each = any(scale);
  for (const by of [2, 3, 0.5]) assertEquals(each(ones([2]), by).toArray(), [by, by]);
  assertEquals([traces, each.programs], [1, 1]);
  using fixed = any((x: Any, by: number) => by > 2 ? x.neg() : x.mul(by), { static: [1] });
  assertEquals([2, 3, 2].map((by) => fixed(ones([1]), by).item()), [2, -1, 2]);
  assertEquals(fixed.programs, 2);
  using branch = any((x: Any, by: number) => by > 2 ? x.neg() : x);
  assertThrows(() => branch(ones([1]), 1), TraceError, "argument 1");
});

test(
  "Compile: a shape, a layout or a shared memory of its own is a program of its own",
  () => {
    using add = any((x: Any, y: Any) => x.add_(y));
    const x = ones([2, 2]);
    add(x, ones([2, 2]));
    add(x.T, ones([2, 2]));
    add(x, x);
    add(ones([3]), ones([3]));
    assertEquals([x.toArray(), add.programs], [[[6, 6], [6, 6]], 4]);
    add(ones([3]), ones([3]));
    assertEquals(add.programs, 4);
    add.dispose();
    assertThrows(() => add(x, x), DisposedError);
  },
);

test("Compile: a captured tensor that is written between calls is read anew", () => {
  const weight = ones([4, 4]);
  using predict = any((x: Any) => x.matmul(weight).add(1));
  assertEquals(predict(ones([1, 4])).toArray(), [[5, 5, 5, 5]]);
  weight.mul_(2);
  assertEquals(predict(ones([1, 4])).toArray(), [[9, 9, 9, 9]]);
  weight.data[0] = 10;
  assertEquals(predict(ones([1, 4])).toArray(), [[17, 9, 9, 9]]);
  weight.data[0] = 20;
  assertEquals(predict(ones([1, 4])).toArray(), [[27, 9, 9, 9]]);
});

test("Compile: results go to `out`, in the structure of the result", () => {
  using both = any((x: Any) => ({ sum: x.sum(), list: [x.mul(2), x] }));
  const out = { sum: ones([]), list: [ones([2]), ones([2])] };
  assert(both(tensor([1, 2]), { out }) === out);
  assertEquals([out.sum.item(), out.list.map((one) => one.toArray())], [3, [[2, 4], [1, 2]]]);
  assertThrows(() => both(tensor([1, 2]), { out: { sum: ones([]) } }), TypeError, "out.list");
});

test(
  "Off the event loop: inputs are those at the call, and writes happen at the end",
  async () => {
    const total = ones([2]);
    using count = any((x: Any, by: number) => {
      total.add_(x);
      return x.mul(by);
    });
    const x = ones([2]);
    const promise = count.async(x, 3);
    x.fill_(100);
    assertEquals(total.toArray(), [1, 1]);
    x.dispose();
    assertEquals((await promise).toArray(), [3, 3]);
    assertEquals(total.toArray(), [2, 2]);
  },
);

test(
  "Off the event loop: calls end in order, and one that waits can be dropped",
  async () => {
    using double = any((x: Any) => x.mul(2));
    const order: number[] = [];
    const abort = new AbortController();
    const calls = [1, 2, 3].map((n) => double.async(tensor([n])).then(() => order.push(n)));
    const dropped = double.async(ones([1]), { signal: abort.signal });
    abort.abort(new Error("enough"));
    await assertRejects(() => dropped, Error, "enough");
    await Promise.all(calls);
    assertEquals(order, [1, 2, 3]);
    const sum = await offload(() => ones([10]).add(1).sum());
    assertEquals(loose(sum).item(), 20);
    await assertRejects(() => offload(() => ones([2]).sum().item()), TraceError);
  },
);

test("Compile: functions that call themselves or one another without end are errors", async () => {
  const x = ones([2]);
  const text = "more than 256 deep";
  const direct: Any = compile((x: Any) => direct(x));
  const first: Any = compile((x: Any) => second(x.add(1)));
  const second: Any = compile((x: Any) => first(x));
  const anew: Any = (x: Any) => loose(compile(anew))(x);
  const writing: Any = compile((x: Any) => writing(x, { out: ones([2]) }));
  const later: Any = compile((x: Any) => later.async(x));
  const asynchronous: Any = compile(async (x: Any) => await asynchronous(x));
  for (const f of [direct, first, second, anew, writing]) {
    for (let round = 0; round < 2; round++) assertThrows(() => f(x), TraceError, text);
  }
  for (const f of [direct, first, writing]) {
    await assertRejects(() => f.async(x), TraceError, text);
  }
  for (const f of [later, asynchronous]) {
    assertThrows(() => f(x), TraceError, "async function");
    await assertRejects(() => f.async(x), TraceError, "async function");
  }
  // One that ends by a static number is none.
  const power: Any = compile((x: Any, n: number) => n === 0 ? x : power(x.mul(2), n - 1), {
    static: [1],
  });
  assertEquals(power(x, 100).get(0), 2 ** 100);
});
