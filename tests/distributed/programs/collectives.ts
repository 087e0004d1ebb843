/**
 * Every collective on every dtype and layout, compared with what one process computes of the data of
 * all ranks. In npm test, one dtype of each size has layouts that are not dense. Prints the number of
 * checks of each rank.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  type AnyTensor,
  arange,
  ArgumentError,
  AxisError,
  concat,
  DisposedError,
  type DType,
  DTypeError,
  full,
  info,
  quantize,
  setBackend,
  ShapeError,
  stack,
  tensor,
  TraceError,
  zeros,
} from "../../../mod.ts";
import { compile } from "../../../src/compile/mod.ts";
import { setCountLimit } from "../../../src/distributed/engine.ts";
import { type Group, init } from "../../../src/distributed/mod.ts";
import { RUNS_ALL } from "../../support/amount.ts";

const DTYPES: readonly DType[] = [
  ...["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"] as const,
  ...["float16", "bfloat16", "float32", "float64", "complex64", "complex128"] as const,
];

// deno-lint-ignore no-explicit-any
type Any = any;
let checks = 0;

/** The tensor of a rank: small integers, so that sums are exact in every dtype. */
function dataOf(rank: number, shape: readonly number[], dtype: DType): Any {
  const size = shape.reduce((a, b) => a * b, 1);
  const x = arange(size, { dtype: "int32" }).mul(rank + 3).add(rank).remainder(7) as Any;
  return (dtype === "bool" ? x.greater(3) : x.astype(dtype)).reshape(shape);
}

function same(got: AnyTensor, expected: AnyTensor, what: string): void {
  checks++;
  assertEquals([got.dtype, ...got.shape], [expected.dtype, ...expected.shape], what);
  assertEquals(
    JSON.stringify(got.toArray(), text),
    JSON.stringify(expected.toArray(), text),
    what,
  );
}

const text = (_: string, value: unknown) => typeof value === "bigint" ? String(value) : value;

/** The same elements with other strides. */
const LAYOUTS: Readonly<Record<string, (x: Any) => Any>> = {
  dense: (x) => x,
  transposed: (x) => x.T.copy().T,
  reversed: (x) => x.flip().copy().flip(),
  sliced: (x) => concat([zeros([1, x.shape[1]], { dtype: x.dtype }), x] as Any).slice("1:"),
};
/** Dtypes of npm test's layouts: copies of elements depend on their sizes alone. */
const LAID_OUT: ReadonlySet<DType> = new Set(["uint8", "float16", "float32", "complex128"]);

const world = await init({ timeout: 20_000 });

async function checkGroup(group: Group, members: readonly number[], dtype: DType): Promise<void> {
  const { rank, size } = group;
  const shape = [2 * size, 3];
  const all = members.map((member) => dataOf(member, shape, dtype));
  const joined = stack(all as Any) as Any;
  for (const [layout, view] of Object.entries(LAYOUTS)) {
    if (layout !== "dense" && !RUNS_ALL && !LAID_OUT.has(dtype)) continue;
    const x = view(all[rank]);
    const what = `${dtype} ${layout} on ${rank} of ${size}`;
    const both = async (
      name: string,
      expected: Any,
      ...args: readonly unknown[]
    ): Promise<void> => {
      same((group as Any)[`${name}Sync`](x, ...args), expected, `${name}Sync ${what}`);
      same(await (group as Any)[name](x, ...args), expected, `${name} ${what}`);
    };
    const isComplex = dtype.startsWith("complex");
    if (dtype === "bool") {
      await both("allMax", joined.any(0));
      await both("allMin", joined.all(0));
      assertThrows(() => group.allSumSync(x), DTypeError, "Cannot allSum bool");
      await assertRejects(() => group.allSum(x), DTypeError, "Cannot allSum bool");
    } else {
      const sum = joined.sum(0).astype(dtype);
      await both("allSum", sum);
      const part = sum.slice(`${2 * rank}:${2 * rank + 2}`);
      await both("sumScatter", part);
      if (isComplex) assertThrows(() => group.allMaxSync(x), DTypeError, "have no order");
      else {
        await both("allMax", joined.max(0));
        await both("allMin", joined.min(0));
      }
      if (/float|complex/.test(dtype)) await both("allMean", sum.div(size));
      else assertThrows(() => group.allMeanSync(x), DTypeError, "Cannot allMean");
    }
    await both("allGather", concat(all as Any));
    await both("allGather", concat(all as Any, 1), { axis: -1 });
    await both("broadcast", all[size - 1], size - 1);
    const parts = all.map((one: Any) => one.slice(`${2 * rank}:${2 * rank + 2}`));
    await both("allToAll", concat(parts as Any));
  }
}

const everyone = Array.from({ length: world.size }, (_, i) => i);
const mine = everyone.filter((member) => member % 2 === world.rank % 2);
const half = (await world.split(world.rank % 2))!;
assertEquals([half.rank, half.size], [mine.indexOf(world.rank), mine.length]);
for (const dtype of DTYPES) {
  await checkGroup(world, everyone, dtype);
  await checkGroup(half, mine, dtype);
}

// Parts of a large count.
setCountLimit(5);
const limited = (await world.split(0))!;
for (const dtype of ["int8", "float32", "complex128"] as const) {
  await checkGroup(limited, everyone, dtype);
}
setCountLimit(0);

// The order of a split is that of its keys.
const turned = (await world.split(0, -world.rank))!;
assertEquals(turned.rank, world.size - 1 - world.rank);
assertEquals(await world.split(world.rank === 0 ? null : 1) === null, world.rank === 0);

// NaN, signed zeros and infinities.
for (const dtype of ["float16", "bfloat16", "float32", "float64"] as const) {
  const values = [[NaN, 1, -0, -Infinity, 0], [1, NaN, 0, 5, -0]];
  const x = tensor(values[world.rank % 2]!, { dtype });
  const [max, min] = [world.allMaxSync(x), await world.allMin(x)];
  const expected = world.size === 1 ? [values[0], values[0]] : [
    [NaN, NaN, 0, 5, 0],
    [NaN, NaN, -0, -Infinity, -0],
  ];
  assertEquals([max.toArray(), min.toArray()] as unknown, expected, dtype);
  for (const i of [2, 4]) {
    const of = (y: AnyTensor) => Object.is((y.toArray() as number[])[i], -0);
    if (world.size > 1) assertEquals([of(max), of(min)], [false, true]);
  }
}

// Outputs: other tensors, the input, views, wider dtypes.
{
  const sum = world.size * (world.size + 1) / 2;
  const x = () => full([4], world.rank + 1, { dtype: "float32" }) as Any;
  for (const run of ["allSum", "allSumSync"] as const) {
    const own = x();
    assert(await world[run](own, { out: own }) === own);
    assertEquals(own.toArray(), [sum, sum, sum, sum]);
    const wide = zeros([4], { dtype: "float64" });
    await world[run](x(), { out: wide });
    assertEquals(wide.toArray(), [sum, sum, sum, sum]);
    const table = zeros([4, 2], { dtype: "float32" }) as Any;
    await world[run](x(), { out: table.slice(":", 1) });
    assertEquals(table.toArray(), [[0, sum], [0, sum], [0, sum], [0, sum]]);
    const six = full([6], world.rank + 1, { dtype: "float32" }) as Any;
    await world[run](six.slice("0:4"), { out: six.slice("2:6") });
    const one = world.rank + 1;
    assertEquals(six.toArray(), [one, one, sum, sum, sum, sum]);
    const big = full([100_000], world.rank + 1, { dtype: "float32" }) as Any;
    await world[run](big, { out: big });
    assertEquals([big.get(0), big.get(99_999)], [sum, sum]);
    const gathered = zeros([2, 2 * world.size], { dtype: "float32" });
    const gather = run === "allSum" ? "allGather" : "allGatherSync";
    await world[gather](full([2, 2], world.rank, { dtype: "float32" }), { axis: 1, out: gathered });
    assertEquals(gathered.slice(0).toArray(), everyone.flatMap((i) => [i, i]));
  }
  assertThrows(() => world.allSumSync(x(), { out: zeros([3]) as Any }), ShapeError, "[3]");
  await assertRejects(() => world.allSum(x(), { out: zeros([3]) as Any }), ShapeError, "[3]");
  const integers = zeros([4], { dtype: "int32" }) as Any;
  assertThrows(() => world.allSumSync(x(), { out: integers }), DTypeError, "int32");
}

// What a promise reads is what there was at the call; its tensors may be disposed of.
{
  const x = full([1000], world.rank, { dtype: "float64" }) as Any;
  const pending = [world.allSum(x), world.allGather(x), world.broadcast(x, 0)] as const;
  x.fill_(-1);
  x.dispose();
  const sum = world.size * (world.size - 1) / 2;
  const [summed, gathered, sent] = await Promise.all(pending) as Any[];
  assertEquals([summed.get(999), gathered.get(0), sent.get(5)], [sum, 0, 0]);
  const many = Array.from(
    { length: 50 },
    (_, i) => world.allSum(full([i + 1], world.rank + i, { dtype: "int32" })),
  );
  for (const [i, one] of (await Promise.all(many)).entries()) {
    assertEquals((one as Any).get(i), sum + i * world.size);
  }
  assertThrows(() => world.allSumSync(x), DisposedError);
}

// In compiled functions, at once and off the event loop; in JavaScript.
{
  const f = compile((x: Any) => world.allSumSync(x.mul(2)).add(1));
  const x = full([300], world.rank, { dtype: "float32" }) as Any;
  const expected = world.size * (world.size - 1) + 1;
  for (let i = 0; i < 3; i++) {
    assertEquals((f(x) as Any).get(299), expected);
    assertEquals(((await f.async(x)) as Any).get(0), expected);
  }
  // Not from rank 0, and more than once.
  const last = world.size - 1;
  const g = compile((y: Any) => world.broadcastSync(y.add(1), last)) as Any;
  for (let i = 0; i < 3; i++) assertEquals(g(x).get(7), last + 1);
  const empty = compile((y: Any) => world.allSumSync(y.mul(2))) as Any;
  for (let i = 0; i < 2; i++) same(empty(zeros([0, 3])), zeros([0, 3]), "empty, in a program");
  assertThrows(() => compile((y: Any) => world.allSum(y) as Any)(x), TraceError);
  const was = info().devices.cpu;
  setBackend("js");
  same(world.allSumSync(x), full([300], (expected - 1) / 2, { dtype: "float32" }), "js");
  same(await world.allSum(x), full([300], (expected - 1) / 2, { dtype: "float32" }), "js");
  if (was === "native") setBackend("native");
}

// Messages: both ways at once, by tags, of views.
if (world.size > 1) {
  const { rank, size } = world;
  const [next, before] = [(rank + 1) % size, (rank + size - 1) % size];
  for (const dtype of DTYPES) {
    const x = dataOf(rank, [3, 4], dtype).T;
    const [got] = await Promise.all([
      world.recv([4, 3], dtype, before, { tag: 7 }),
      world.send(x, next, { tag: 7 }),
    ]);
    same(got, dataOf(before, [3, 4], dtype).T, `message of ${dtype}`);
  }
  // Received in another order than sent.
  const sent = [1, 2].map((tag) => world.send(full([2], tag), next, { tag }));
  const second = await world.recv([2], "float32", before, { tag: 2 });
  const first = await world.recv([2], "float32", before, { tag: 1 });
  await Promise.all(sent);
  assertEquals([first.get(0), second.get(0)], [1, 2]);
  if (rank === 0) world.sendSync(arange(3), 1);
  if (rank === 1) assertEquals(world.recvSync([3], "float32", 0).toArray(), [0, 1, 2]);
  setCountLimit(0);
}

// Parts of a tensor.
{
  const x = arange(7, { dtype: "int32" }) as Any;
  const gathered = everyone.map((rank) => {
    const start = everyone.slice(0, rank).reduce((at, i) => at + lengthOf(i), 0);
    return [start, lengthOf(rank)];
  });
  const [start, length] = gathered[world.rank]! as [number, number];
  assertEquals(world.shard(x).toArray(), Array.from({ length }, (_, i) => start + i));
  assertEquals(world.shard(zeros([2, 7]) as Any, 1).shape, [2, length]);
  assertThrows(() => world.shard(x, 1), AxisError, "Cannot shard along axis 1");
}

function lengthOf(rank: number): number {
  return Math.floor(7 / world.size) + (rank < 7 % world.size ? 1 : 0);
}

// Wrong arguments change nothing, and reach no other rank.
{
  const x = zeros([2 * world.size + 1]) as Any;
  assertThrows(() => world.broadcastSync(x, world.size), ArgumentError, "ranks 0 to");
  assertThrows(() => world.sendSync(x, world.rank), ArgumentError, "it is this one");
  assertThrows(() => world.recvSync([2], "float32", -1), ArgumentError, "rank -1");
  assertThrows(() => world.allSumSync(x, { axis: 0 } as Any), TypeError, "axis");
  assertThrows(() => world.allGatherSync(full([], 1) as Any), ShapeError, "without axes");
  await assertRejects(() => world.split(-1), ArgumentError, "Cannot split by color -1");
  if (world.size > 1) {
    assertThrows(() => world.sumScatterSync(x), ShapeError, `over ${world.size} ranks`);
    await assertRejects(() => world.allToAll(x), ShapeError, "axis 0 has");
    const other = (world.rank + 1) % world.size;
    assertThrows(() => world.sendSync(x, other, { tag: 1e9 }), ArgumentError, "tag");
  }
  const packed = quantize(zeros([1, 32]) as Any, "q8_0");
  assertThrows(() => world.allSumSync(packed as Any), DTypeError, "blocks");
  await assertRejects(() => init() as Any, Error, "open already");
  same(world.allSumSync(zeros([0, 3])), zeros([0, 3]), "empty");
  same(await world.allGather(zeros([0, 3])), zeros([0, 3]), "empty");
}

await world.barrier();
world.barrierSync();
await world.close();
if (world.backend === "mpi") await assertRejects(() => init(), Error, "it can be once");
console.log(`rank ${world.rank} of ${world.size} by ${world.backend}: ${checks} checks`);
