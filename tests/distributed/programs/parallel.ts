/**
 * What ranks of parallel_test.ts run: gradients, products and files that ranks share. Each check
 * compares with what one process computes; rank 0 prints the names of those that passed.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import {
  arange,
  complex,
  DerivativeError,
  io,
  memory,
  range,
  type Tensor,
  tensor,
  zeros,
} from "../../../mod.ts";
import { compile } from "../../../src/compile/mod.ts";
import { grad, valueAndGrad } from "../../../src/grad/mod.ts";
import {
  averageGradients,
  averageGradientsSync,
  columnParallel,
  columnParallelSync,
  DistributedError,
  init,
  loadShards,
  rowParallel,
  rowParallelSync,
  saveShards,
  type World,
} from "../../../src/distributed/mod.ts";

type Check = (world: World) => unknown;

/** A tensor of small integers, which sum without rounding: `n` of them, from `from` on. */
const integers = (shape: number[], from = 0): Tensor => {
  const n = shape.reduce((a, b) => a * b, 1);
  return arange(n).add(from).remainder(17).sub(8).reshape(shape) as Tensor;
};

/**
 * Gradients of a rank: of several dtypes, with a view, an empty one, and one twice. Odd ranks have
 * them in another order.
 */
function gradientsOf(rank: number) {
  const view = integers([6, 4], rank).T as Tensor;
  const twice = integers([5], 3 * rank);
  const made = {
    layers: [
      { weight: integers([40, 30], rank), bias: integers([40], 2 * rank), none: undefined },
      { weight: view, bias: zeros([0]) },
    ],
    wide: integers([7], rank).astype("float64"),
    half: integers([9], rank).astype("float16"),
    brain: integers([9], rank).astype("bfloat16"),
    scalar: tensor(rank),
    twice,
    again: [twice],
  };
  if (rank % 2 === 0) return made;
  return Object.fromEntries(Object.entries(made).reverse()) as typeof made;
}

/** The values of gradients, and those of their means. */
const values = (
  { layers: [a, b], wide, half, brain, scalar, twice }: ReturnType<typeof gradientsOf>,
) =>
  [a!.weight, a!.bias, b!.weight, wide, half, brain, scalar, twice]
    .map((x) => Array.from((x as Tensor).astype("float64").reshape([-1]).toTypedArray(), Number));

function expectedMeans(size: number): number[][] {
  const all = Array.from({ length: size }, (_, rank) => values(gradientsOf(rank)));
  return all[0]!.map((list, k) =>
    list.map((_, i) => all.reduce((sum, one) => sum + one[k]![i]!, 0) / size)
  );
}

const folder = process.argv[2]!;

/** Tensors of a model, the axes along which they are cut, and those that only the last rank has. */
const model = {
  "up.weight": integers([7, 6]),
  "down.weight": integers([6, 5], 2).astype("float16"),
  "few": integers([3], 4).astype("bfloat16"),
  "mask": integers([6, 2]).greater(0),
  "waves": complex(integers([2, 8]), integers([2, 8], 3)),
  "bias": integers([5]),
  "steps": tensor(12, { dtype: "int32" }),
  "last": integers([2, 2]),
};
const plan = { "up.weight": 0, "down.weight": 1, few: 0, mask: -2, waves: -1 };

/** Throws unless two tensors are equal, by dtype, shape and elements. */
function assertSame(name: string, x: { equals(y: never): boolean } | undefined, y: unknown): void {
  assert(x?.equals(y as never), `${name}: ${x} is not ${y}`);
}

const CHECKS: Record<string, Check> = {
  async "gradients: means in place, in buckets of any size"(world) {
    const expected = expectedMeans(world.size);
    for (const bucketBytes of [undefined, 1, 100, 1000, 1e9]) {
      const options = bucketBytes === undefined ? {} : { bucketBytes };
      const one = gradientsOf(world.rank);
      await averageGradients(world, one, options);
      assertEquals(values(one), expected);
      const two = gradientsOf(world.rank);
      averageGradientsSync(world, two, options);
      assertEquals(values(two), expected);
    }
  },
  async "gradients: of tensors that are disposed of, or copied on write, meanwhile"(world) {
    const [x, y, z] = [0, 1, 2].map((k) => integers([50], world.rank + k));
    const copy = x!.intoCow();
    const before = copy.toArray();
    const end = averageGradients(world, [x, y, z], { bucketBytes: 300 });
    y!.dispose();
    await end;
    assertEquals(copy.toArray(), before);
    const mean = Array.from(
      { length: world.size },
      (_, rank) => integers([50], rank).toArray() as unknown as number[],
    );
    assertEquals(
      x!.toArray() as unknown as number[],
      mean[0]!.map((_, i) => mean.reduce((sum, one) => sum + one[i]!, 0) / world.size),
    );
  },
  "gradients: in a compiled function"(world) {
    const step = compile((x: Tensor, rate: number) => {
      const gradients = { a: x.mul(2), b: [x.sum(0)] };
      averageGradientsSync(world, gradients);
      return [gradients.a.mul(rate), gradients.b[0]!] as const;
    });
    for (let round = 0; round < 2; round++) {
      const [a, b] = step(integers([8, 3], world.rank), 2);
      const all = Array.from({ length: world.size }, (_, rank) => integers([8, 3], rank));
      const sum = all.reduce((sum, x) => sum.add(x) as Tensor);
      assertEquals(a.toArray(), sum.mul(4 / world.size).toArray());
      assertEquals(b.toArray(), sum.sum(0).div(world.size).toArray() as never);
    }
  },
  async "gradients: steps of training by grad, as one process takes them"(world) {
    const x = integers([8, 3]).div(8) as Tensor, y = integers([8], 5).div(8) as Tensor;
    const [myX, myY] = [world.shard(x, 0), world.shard(y, 0)] as [Tensor, Tensor];
    const make = () => ({ w: integers([3], 2).div(8) as Tensor, deep: [{ b: zeros([]) }] });
    type Params = ReturnType<typeof make>;
    const both = valueAndGrad((p: Params, x: Tensor, y: Tensor) =>
      x.matmul(p.w).add(p.deep[0]!.b).tanh().sub(y).square().mean()
    );
    const update = (p: Params, g: Params): void => {
      p.w.sub_(g.w.mul(0.5));
      p.deep[0]!.b.sub_(g.deep[0]!.b.mul(0.5));
    };
    // The derivatives as they are named: those of a tree are a tree.
    const step = (p: Params, x: Tensor, y: Tensor): Tensor => {
      const [value, gradients] = both(p, x, y);
      averageGradientsSync(world, { value, gradients });
      update(p, gradients as Params);
      return value;
    };
    using program = compile(step);
    const kinds: Record<string, (p: Params) => Tensor | Promise<Tensor>> = {
      "sync": (p) => step(p, myX, myY),
      "in a program": (p) => program(p, myX, myY),
      "off the event loop": (p) => program.async(p, myX, myY),
      async "async"(p) {
        const [value, gradients] = both(p, myX, myY);
        await averageGradients(world, { value, gradients });
        update(p, gradients as Params);
        return value;
      },
    };
    const whole = make();
    const losses = [0, 1, 2].map(() => {
      const [value, gradients] = both(whole, x, y);
      update(whole, gradients as Params);
      return value.item();
    });
    assert(losses[2]! < losses[0]!);
    for (const [name, run] of Object.entries(kinds)) {
      const own = make();
      for (const loss of losses) {
        const made = (await run(own)).item();
        assert(Math.abs(made - loss) < 1e-6, `${name}: ${made}, not ${loss}`);
      }
      assert(own.w.allclose(whole.w, { atol: 1e-6 }), name);
      // All ranks have the same bits.
      const most = world.allMaxSync(own.w), least = world.allMinSync(own.w);
      assertEquals(most.toArray(), least.toArray(), name);
    }
    // The tape of a rank does not reach the others.
    assertThrows(
      () => grad((x: Tensor) => world.allSumSync(x).sum())(x),
      DerivativeError,
      "Cannot differentiate allSum",
    );
  },
  async "gradients: errors come before any write"(world) {
    const x = integers([4], world.rank);
    const before = x.toArray();
    const ints = tensor([1, 2], { dtype: "int32" });
    await assertRejects(
      () => averageGradients(world, [x, ints]),
      TypeError,
      "Cannot averageGradients int32",
    );
    await assertRejects(
      () => averageGradients(world, [x, 5]),
      TypeError,
      "Cannot averageGradients 5",
    );
    await assertRejects(
      () => averageGradients(world, [x, x.readonly()]),
      TypeError,
      "Cannot averageGradients: the tensor is read-only",
    );
    await assertRejects(
      () => averageGradients(world, [x], { bucketBytes: 0 }),
      RangeError,
      "bucketBytes 0",
    );
    assertThrows(() => averageGradientsSync({} as never, [x]), RangeError, "over group");
    assertEquals(x.toArray(), before);
  },
  async "products: by columns and by rows, as one process computes them"(world) {
    const x = integers([3, 8]);
    const [weight, bias] = [integers([12, 8], 5), integers([12])];
    const whole = x.linear(weight, bias).toArray();
    const shard = world.shard(weight, 0);
    const part = world.shard(bias, 0);
    const options = { group: world, bias: part } as const;
    for (
      const product of [
        await columnParallel(x, shard, { ...options, gather: true }),
        columnParallelSync(x, shard, { ...options, gather: true }),
      ]
    ) assertEquals(product.toArray(), whole as never);
    for (
      const product of [
        await columnParallel(x, shard, options),
        columnParallelSync(x, shard, options),
      ]
    ) {
      const mine = world.shard(x.linear(weight, bias), 1);
      assertEquals(product.toArray(), mine.toArray() as never);
    }
    const [ours, theirs] = [world.shard(x, 1), world.shard(weight, 1)];
    for (
      const product of [
        await rowParallel(ours, theirs, { group: world, bias }),
        rowParallelSync(ours, theirs, { group: world, bias }),
      ]
    ) assertEquals(product.toArray(), whole as never);
  },
  "products: in a compiled function"(world) {
    const [w1, b1, w2, b2] = [
      integers([8, 6]),
      integers([8], 3),
      integers([5, 8], 1),
      integers([5], 2),
    ];
    const [s1, c1, s2] = [world.shard(w1, 0), world.shard(b1, 0), world.shard(w2, 1)];
    const forward = compile((x: Tensor) => {
      const hidden = columnParallelSync(x, s1, { group: world, bias: c1 }).relu();
      const y = rowParallelSync(hidden, s2, { group: world, bias: b2 });
      return [y, columnParallelSync(x, s1, { group: world, gather: true })] as const;
    });
    for (const rows of [2, 2, 3]) {
      const x = integers([rows, 6], rows);
      const [y, z] = forward(x);
      assertEquals(y.toArray(), x.linear(w1, b1).relu().linear(w2, b2).toArray() as never);
      assertEquals(z.toArray(), x.linear(w1).toArray() as never);
    }
  },
  async "memory is freed"(world) {
    const [x, weight] = [integers([64, 512]), integers([512, 512])];
    const [first, second] = [world.shard(weight, 0), world.shard(weight, 1)];
    const [grow, group] = [{ a: integers([9000]), b: [integers([40, 100]), weight.T] }, world];
    const path = join(folder, "memory");
    const round = async (i: number) => {
      const gone = zeros([200, 200]);
      const end = world.allSum(gone, { out: gone });
      gone.dispose();
      await end;
      await averageGradients(world, grow);
      averageGradientsSync(world, grow, { bucketBytes: 1 });
      using hidden = await columnParallel(x, first, { group });
      using other = columnParallelSync(x, first, { group, gather: true });
      using bias = other.slice(0);
      using last = await rowParallel(hidden, second, { group, bias });
      rowParallelSync(hidden, second, { group }).dispose();
      assertEquals(last.shape, other.shape);
      if (i % 4 > 0) return;
      await saveShards(world, path, { first, x }, { plan: { first: 0 } });
      for (const one of Object.values(await loadShards(world, path, { first: 0 }))) one.dispose();
    };
    for (let i = 0; i < 4; i++) await round(i);
    const before = memory().bytes;
    for (let i = 0; i < 8; i++) await round(i);
    // What earlier checks have left may be collected meanwhile.
    const grown = memory().bytes - before;
    assert(grown < 100_000, `${grown} bytes`);
    await world.barrier();
    if (world.rank === 0) rmSync(path, { recursive: true });
    await world.barrier();
  },
  async "products: errors come before any message"(world) {
    const [x, w] = [integers([2, 8]), integers([4, 8])];
    await assertRejects(
      () => rowParallel(x, w, { group: world, bias: zeros([3]) as never }),
      RangeError,
      "bias",
    );
    await assertRejects(() => rowParallel(x, w, {} as never), RangeError, "group undefined");
    assertThrows(
      () => columnParallelSync(x, w, { group: world, gather: 1 as never }),
      RangeError,
      "gather 1",
    );
    assertThrows(
      () => columnParallelSync(x, integers([4, 7]) as never, { group: world }),
      RangeError,
      "Cannot linear",
    );
    const traced = compile((x: Tensor) => {
      void columnParallel(x, w, { group: world }).catch(() => {});
      return x;
    });
    assert(traced(x).shape.length === 2);
  },
  async "files: ranks write one each, and read their parts"(world) {
    const axes: Record<string, number> = plan;
    const mine = Object.entries(model).filter(([name]) =>
      name !== "last" || world.rank === world.size - 1
    ).map(([name, x]) => [name, name in axes ? world.shard(x as Tensor, axes[name]) : x]);
    await saveShards(world, folder, Object.fromEntries(mine), { plan });
    const whole = await loadShards(world, folder);
    assertEquals(Object.keys(whole).sort(), Object.keys(model).sort());
    for (const [name, x] of Object.entries(model)) assertSame(name, whole[name], x);
    for (const how of [plan, (name: string) => axes[name]]) {
      const parts = await loadShards(world, join(folder, "model.safetensors.index.json"), how);
      for (const [name, x] of Object.entries(model)) {
        const part = name in axes ? world.shard(x as Tensor, axes[name]) : x;
        assertSame(name, parts[name], part);
        // They are this program's own.
        if (parts[name]!.dtype === "float32") parts[name]!.fill_(1);
      }
    }
    assertSame("bias", (await loadShards(world, folder)).bias, model.bias);
  },
  async "files: as other programs lay them out"(world) {
    const n = String(world.size).padStart(5, "0");
    const files = Array.from(
      { length: world.size },
      (_, k) => `model-0000${k + 1}-of-${n}.safetensors`,
    );
    assertEquals(readdirSync(folder).sort(), [...files, "model.safetensors.index.json"].sort());
    const index = JSON.parse(readFileSync(join(folder, "model.safetensors.index.json"), "utf8"));
    assertEquals(
      index.metadata.total_size,
      7 * 6 * 4 + 6 * 5 * 2 + 3 * 2 + 12 + 16 * 8 + 20 + 4 + 16,
    );
    const sizes: number[] = [];
    for (const file of files) {
      await using opened = await io.openSafetensors(join(folder, file));
      assertEquals({ ...opened.metadata }, { format: "pt" });
      for (const name of opened.names) {
        assertEquals(index.weight_map[name], file);
        assertSame(name, await opened.get(name), model[name as "bias"]);
      }
      const bytes = opened.names.map((name) => opened.info(name)).map(({ begin, end }) =>
        end - begin
      );
      sizes.push(bytes.reduce((a, b) => a + b, 0));
    }
    // The largest tensor has 168 bytes.
    assert(Math.max(...sizes) <= Math.max(168, 414 / world.size + 60), String(sizes));
    await world.barrier();
  },
  async "files: one file that all ranks read"(world) {
    const one = join(folder, "one.safetensors");
    if (world.rank === 0) await io.writeSafetensors(one, { x: integers([9, 4]), y: integers([3]) });
    await world.barrier();
    const { x, y } = await loadShards(world, one, { x: 0 });
    const start = Math.ceil(9 / world.size);
    if (world.rank === 0) assertSame("x", x, integers([9, 4]).slice(range(0, start)));
    assertSame("y", y, integers([3]));
    await assertRejects(() => loadShards(world, one, { z: 0 }), Error, 'no tensor is named "z"');
    await assertRejects(
      () => loadShards(world, one, { x: 2 }),
      RangeError,
      'Cannot loadShards "x" along axis 2',
    );
    await assertRejects(() => loadShards(world, one, [0] as never), RangeError, "with plan");
  },
  async "files: all ranks learn of an error of one"(world) {
    const last = world.size - 1;
    const save = (tensors: object, plan: Record<string, number> = {}) =>
      saveShards(world, join(folder, "none"), tensors as never, { plan });
    const mine = await assertRejects(
      () => save({ x: world.rank === last ? 5 : integers([2]) }),
      Error,
    );
    if (world.rank === last) assert(mine instanceof TypeError, String(mine));
    else {
      assert(mine instanceof DistributedError);
      assertEquals(mine.peer, last);
    }
    if (last === 0) return;
    const size = 2 + Number(world.rank === last);
    await assertRejects(
      () => save({ x: integers([size]) }),
      RangeError,
      "its axis is missing in the plan",
    );
    await assertRejects(() => save({ x: integers([2, size]) }, { x: 0 }), RangeError, "do not fit");
    await assertRejects(
      () => save({ x: integers([2]).astype(world.rank === 0 ? "float16" : "float32") }),
      TypeError,
      "ranks have it as float16 and as float32",
    );
    await assertRejects(
      () => save(world.rank === last ? {} : { x: integers([2]) }, { x: 0 }),
      RangeError,
      `rank ${last} has no part of it along axis 0`,
    );
    assertEquals(readdirSync(folder).includes("none"), false);
    await world.barrier();
    // A file in the place of the folder.
    const failed = await assertRejects(() =>
      saveShards(world, join(folder, "one.safetensors"), { x: zeros([2]) })
    );
    assert(failed instanceof Error);
  },
};

await using world = await init({ timeout: 30_000 });
for (const [name, check] of Object.entries(CHECKS)) {
  await check(world);
  if (world.rank === 0) console.log(`ok ${name}`);
}
