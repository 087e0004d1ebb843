/**
 * Steps of a decoder with a cache that grows: the position is a number argument, so that all steps
 * share a program.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { arange, random, type Tensor, where, zeros } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";
import { amount } from "../support/amount.ts";
import type { Any } from "../support.ts";
import { testOnBackends } from "./support.ts";

const [WIDTH, HEADS, LENGTH] = [16, 2, 256];

/** The weights of one layer. */
function weights(): Record<string, Any> {
  const keys = random.split(random.key(5), 6);
  const make = (i: number, shape: number[]): Any => random.normal(keys[i]!, shape).mul(0.2);
  return {
    query: make(0, [WIDTH, WIDTH]),
    key: make(1, [WIDTH, WIDTH]),
    value: make(2, [WIDTH, WIDTH]),
    output: make(3, [WIDTH, WIDTH]),
    up: make(4, [4 * WIDTH, WIDTH]),
    down: make(5, [WIDTH, 4 * WIDTH]),
  };
}

interface Cache {
  readonly keys: Any;
  readonly values: Any;
}

function newCache(): Cache {
  return { keys: zeros([LENGTH, WIDTH]), values: zeros([LENGTH, WIDTH]) };
}

/** [n, WIDTH] as [HEADS, n, WIDTH / HEADS]. */
function heads(x: Any): Any {
  return x.reshape([-1, HEADS, WIDTH / HEADS]).permute(1, 0, 2);
}

/** One token of a transformer layer; adds it to the cache. */
function layer(w: Record<string, Any>, write: "where" | "put") {
  return (x: Any, cache: Cache, position: number): Any => {
    const places = arange(LENGTH);
    const normed = x.layerNorm();
    const rows = [[cache.keys, w.key], [cache.values, w.value]] as const;
    for (const [all, weight] of rows) {
      const row = normed.linear(weight);
      if (write === "where") {
        all.set(["..."], where(places.equal(position).expandDims(1), row, all));
      } else {
        const index = zeros([1, WIDTH], { dtype: "int32" }).add(position) as Any;
        all.putAlongAxis_(index, row, 0);
      }
    }
    const query = heads(normed.linear(w.query));
    const scores = query.matmul(heads(cache.keys).permute(0, 2, 1))
      .mul(1 / Math.sqrt(WIDTH / HEADS));
    const masked = where(places.lessEqual(position), scores, -Infinity) as Any;
    const mixed = masked.softmax(-1).matmul(heads(cache.values)).permute(1, 0, 2)
      .reshape([1, WIDTH]);
    const y = x.add(mixed.linear(w.output));
    return y.add(y.layerNorm().linear(w.up).gelu().linear(w.down));
  };
}

for (const write of ["where", "put"] as const) {
  testOnBackends(`1,000 decode steps need at most 2 programs, by ${write}`, (backend) => {
    const steps = backend === "native" ? 1000 : amount(300, 1000);
    const f = layer(weights(), write);
    const step = compile(f);
    const [own, cache] = [newCache(), newCache()];
    let [x, expected]: [Any, Any] = [random.normal(random.key(1), [1, WIDTH]), null];
    for (let i = 0; i < steps; i++) {
      const position = i % LENGTH;
      const checked = i < 20 || i % 97 === 0 || i > steps - 10;
      if (checked) {
        for (const name of ["keys", "values"] as const) own[name].set(["..."], cache[name]);
        expected = f(x, own, position);
      }
      const made = step(x, cache, position) as Any;
      if (checked) {
        const near = { rtol: 1e-4, atol: 1e-5 };
        assert(made.allclose(expected, near), `step ${i}`);
        for (const name of ["keys", "values"] as const) {
          assert(own[name].allclose(cache[name], near), `step ${i}`);
        }
      }
      x = made.div(made.abs().max()) as Tensor;
    }
    assert(step.programs <= 2, `${step.programs} programs`);
    const rows = (cache.keys as Any).abs().sum(1).greater(0).astype("int32").sum().item();
    assertEquals(rows, Math.min(steps, LENGTH));
  });
}
