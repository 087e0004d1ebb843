/**
 * Scopes: what they dispose of, what they keep, and what they refuse.
 *
 * @module
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { test } from "node:test";
import { type AnyTensor, DTypeError, keep, scope, tensor } from "../../mod.ts";
import { loose } from "../support.ts";

const one = (): AnyTensor => tensor([1]);
const alive = (x: unknown): boolean => !(x as AnyTensor).isDisposed;

test("a scope keeps all tensors that its result reaches", () => {
  class Box {
    inner: unknown;
    constructor(inner: unknown) {
      this.inner = inner;
    }
  }
  const symbol = Symbol("hidden");
  const made = scope(() => {
    const dropped = one();
    const cycle: { self?: unknown; x: AnyTensor } = { x: one() };
    cycle.self = cycle;
    return {
      dropped: () => dropped,
      loss: tensor(1),
      grads: { w: one(), deep: [[[one()]]] },
      map: new Map<unknown, unknown>([["a", one()], [one(), [one()]]]),
      set: new Set([one(), { x: one() }]),
      box: new Box(new Box(one())),
      [symbol]: one(),
      hidden: Object.defineProperty({}, "x", { value: one(), enumerable: false }),
      cycle,
      // What may have very many members is not searched.
      numbers: new Float32Array(1e6),
      none: null,
    };
  });
  const found: unknown[] = [made.loss, made.grads.w, made.grads.deep[0]![0]![0], made[symbol]];
  for (const [key, value] of made.map) found.push(key === "a" ? value : key, [value].flat()[0]);
  const [first, second] = made.set as Set<unknown>;
  found.push(first, (second as { x: unknown }).x, loose(made.box).inner.inner);
  found.push(loose(made.hidden).x, made.cycle.x);
  assert(found.length >= 11 && found.every(alive));
  assert(!alive(made.dropped()));
});

test("a scope that ends hands over to the one around it", () => {
  let late = one();
  scope(() => {
    scope(() => undefined);
    late = one();
  });
  assert(!alive(late));
});

test("a scope calls no getter of its result", () => {
  const seen: AnyTensor[] = [];
  let calls = 0;
  const made = scope(() => {
    const x = one();
    seen.push(x);
    return {
      get x(): AnyTensor {
        calls++;
        throw new Error("not now");
      },
      y: one(),
    };
  });
  assertEquals([calls, alive(made.y), alive(seen[0])], [0, true, false]);
});

test("a scope refuses a result of more than 100,000 objects, and disposes of nothing", () => {
  const seen: AnyTensor[] = [];
  const run = (): unknown =>
    scope(() => {
      seen.push(one());
      return Array.from({ length: 100_001 }, () => ({}));
    });
  assertThrows(run, RangeError, "more than 100000 objects");
  assert(seen.every(alive), "nothing is disposed of");
  scope(() => void assertThrows(run, RangeError));
  assertEquals(seen.map(alive), [true, false], "the scope around it has them");
  assertEquals(scope(() => Array.from({ length: 90_000 }, () => ({}))).length, 90_000);
});

test("keep keeps a tensor that no scope returns", () => {
  class Layer {
    readonly #weight: AnyTensor = keep(one());
    get weight(): AnyTensor {
      return this.#weight;
    }
  }
  let dropped: AnyTensor | undefined;
  const layer = scope(() => {
    const made = scope(() => new Layer());
    dropped = one();
    return made;
  });
  assertEquals([alive(layer.weight), alive(dropped)], [true, false]);
  const x = keep(one());
  scope(() => void x.add(1));
  assert(alive(x));
  assertThrows(() => keep(loose([1])), DTypeError, "Cannot keep");
});

// The promise that is refused may reject later, which must not end the process.
test("a scope refuses async functions, and other results with a then method", () => {
  const script = `import { scope, tensor } from ${
    JSON.stringify(new URL("../../mod.ts", import.meta.url).href)
  };
    try { scope(async () => { throw new Error("later"); }); } catch (error) { console.log(error.message); }
    try { scope(() => ({ then(done) { done(1); } })); } catch (error) { console.log(error.message); }
    await new Promise((resolve) => setTimeout(resolve, 20));
    console.log("lives");`;
  const args = "Deno" in globalThis ? ["eval", script] : ["-e", script];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8" });
  const refused = "Cannot scope an async function: code after its first await would run outside";
  assertEquals([status, stdout.trim().split("\n")], [0, [refused, refused, "lives"]]);
});
