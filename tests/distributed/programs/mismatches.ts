/**
 * Ranks that call different things. Each rank gets the error that it should, its tensors stay as they
 * were, and all ranks agree again right after. Rank 0 prints the names of the cases.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";
import { rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { type AnyTensor, DistributedError, full, memory, ones, zeros } from "../../../mod.ts";
import { compile } from "../../../src/compile/mod.ts";
import { setCountLimit } from "../../../src/distributed/engine.ts";
import {
  averageGradients,
  averageGradientsSync,
  columnParallel,
  columnParallelSync,
  init,
  rowParallel,
  rowParallelSync,
  saveShards,
} from "../../../src/distributed/mod.ts";

// deno-lint-ignore no-explicit-any
type Any = any;

const world = await init({ timeout: 30_000 }) as Any;
const { rank } = world as { rank: number };
const pair = await world.split(rank < 2 ? 0 : 1) as Any;
const folder = join(tmpdir(), `rowmajor-mismatches-${process.pid}`);

/** A tensor that no call may change. */
const x = (size: number | number[], dtype = "float32"): Any =>
  full([size].flat(), 1, { dtype: dtype as "float32" });

/** What ranks do, and what their errors say: the same on all of them, or nothing where it is null. */
interface Case {
  readonly ranks: readonly (() => unknown)[];
  readonly text: string | readonly (string | null)[];
}

/** Ranks 0 and 2 call the one, and rank 1 the other, as promises and as calls that wait. */
function differ(
  [name, ...args]: readonly [string, ...unknown[]],
  [other, ...others]: readonly [string, ...unknown[]],
  text: string,
): Case[] {
  const call = (name: string, args: readonly unknown[], suffix: string) => () =>
    (world[`${name}${suffix}`] ?? world[name]).apply(world, args);
  return ["", "Sync"].map((suffix) => {
    const [most, one] = [call(name, args, suffix), call(other, others, suffix)];
    return { ranks: [most, one, most], text };
  });
}

/** Rank 0 sends, and rank 1 receives; with `alone` the message is small, and its sender has gone on. */
function message(
  sent: [size: number, dtype: string],
  wanted: [size: number, dtype: string],
  alone = false,
  group: Any = world,
): Case[] {
  const text = `rank 0 sends ${sent.join(" ")}, but rank 1 receives ${wanted.join(" ")}`;
  return ["", "Sync"].map((suffix) => ({
    ranks: [
      () => group[`send${suffix}`](x(...sent), 1, { tag: 5 }),
      () => group[`recv${suffix}`]([wanted[0]], wanted[1], 0, { tag: 5 }),
      () => {},
    ],
    text: [alone ? null : text, text, null],
  }));
}

const MANY = 1_000_000;
const call = "ranks 0 and 2 call";
const run = compile((y: Any) => world.allSumSync(y.mul(2)).add(1)) as Any;
const gradients = (sizes: number[]) => sizes.map((size) => x(size));

const CASES: Record<string, Case[]> = {
  "lengths": differ(
    ["allSum", x(4)],
    ["allSum", x(5)],
    `${call} allSum of 4 float32, but rank 1 calls allSum of 5 float32`,
  ),
  "lengths of large tensors": differ(
    ["allSum", x(MANY)],
    ["allSum", x(10)],
    `${call} allSum of 1000000 float32, but rank 1 calls allSum of 10 float32`,
  ),
  "an empty tensor": differ(
    ["allSum", x(0)],
    ["allSum", x(5)],
    `${call} allSum of 0 float32, but rank 1 calls allSum of 5 float32`,
  ),
  "an empty part": differ(
    ["allGather", x([2, 3])],
    ["allGather", x([0, 3])],
    `${call} allGather of 6 float32, but rank 1 calls allGather of 0 float32`,
  ),
  "dtypes": differ(
    ["allSum", x(2)],
    ["allSum", x(2, "float64")],
    `${call} allSum of 2 float32, but rank 1 calls allSum of 2 float64`,
  ),
  "dtypes of one size": differ(
    ["allGather", x(3)],
    ["allGather", x(3, "int32")],
    `${call} allGather of 3 float32, but rank 1 calls allGather of 3 int32`,
  ),
  "dtypes of one byte": differ(
    ["allMax", x(3, "bool")],
    ["allMax", x(3, "uint8")],
    `${call} allMax of 3 bool, but rank 1 calls allMax of 3 uint8`,
  ),
  "dtypes without order": differ(
    ["allSum", x(8)],
    ["allSum", x(4, "complex64")],
    `${call} allSum of 8 float32, but rank 1 calls allSum of 4 complex64`,
  ),
  "reductions": differ(
    ["allMax", x(4)],
    ["allMin", x(4)],
    `${call} allMax of 4 float32, but rank 1 calls allMin of 4 float32`,
  ),
  "a sum and a mean": differ(
    ["allSum", x(4)],
    ["allMean", x(4)],
    `${call} allSum of 4 float32, but rank 1 calls allMean of 4 float32`,
  ),
  "a sum and its part": differ(
    ["sumScatter", x(3)],
    ["allSum", x(1)],
    `${call} sumScatter of 1 float32, but rank 1 calls allSum of 1 float32`,
  ),
  "parts of a sum": differ(
    ["sumScatter", x(3 * MANY / 10)],
    ["sumScatter", x(3)],
    `${call} sumScatter of 100000 float32, but rank 1 calls sumScatter of 1 float32`,
  ),
  "roots": differ(
    ["broadcast", x(1000), 0],
    ["broadcast", x(1000), 1],
    `${call} broadcast of 1000 float32 from rank 0, but rank 1 calls broadcast of 1000 float32 ` +
      "from rank 1",
  ),
  "lengths of a broadcast": differ(
    ["broadcast", x(MANY), 0],
    ["broadcast", x(10), 0],
    `${call} broadcast of 1000000 float32 from rank 0, but rank 1 calls broadcast of 10 float32 ` +
      "from rank 0",
  ),
  "dtypes of a broadcast": differ(
    ["broadcast", x(10), 1],
    ["broadcast", x(10, "int64"), 1],
    `${call} broadcast of 10 float32 from rank 1, but rank 1 calls broadcast of 10 int64 from rank 1`,
  ),
  "lengths of a gather": differ(
    ["allGather", x(10)],
    ["allGather", x(MANY)],
    `${call} allGather of 10 float32, but rank 1 calls allGather of 1000000 float32`,
  ),
  "lengths of an exchange": differ(
    ["allToAll", x(6)],
    ["allToAll", x(30_000)],
    `${call} allToAll of 2 float32, but rank 1 calls allToAll of 10000 float32`,
  ),
  "an exchange and a gather": differ(
    ["allToAll", x(6)],
    ["allGather", x(2)],
    `${call} allToAll of 2 float32, but rank 1 calls allGather of 2 float32`,
  ),
  "a sum and a gather": differ(
    ["allSum", x(6)],
    ["allGather", x(6)],
    `${call} allSum of 6 float32, but rank 1 calls allGather of 6 float32`,
  ),
  "a barrier": differ(
    ["allMax", x(1000)],
    ["barrier"],
    `${call} allMax of 1000 float32, but rank 1 calls barrier`,
  ),
  "a split": differ(
    ["barrier"],
    ["split", 0],
    `${call} barrier, but rank 1 calls split`,
  ),
  "three calls": [{
    ranks: [
      () => world.allSum(x(4)),
      () => world.barrier(),
      () => world.broadcastSync(x(4, "int8"), 2),
    ],
    text:
      "rank 0 calls allSum of 4 float32, but rank 1 calls barrier, and rank 2 calls broadcast of " +
      "4 int8 from rank 2",
  }],
  "a promise and a call that waits": [{
    ranks: [() => world.allSum(x(4)), () => world.allSumSync(x(5)), () => world.allSum(x(4))],
    text: `${call} allSum of 4 float32, but rank 1 calls allSum of 5 float32`,
  }],
  "rank 0 alone": [{
    ranks: [() => world.allSum(x(5)), () => world.allSum(x(4)), () => world.allSum(x(4))],
    text: "rank 0 calls allSum of 5 float32, but ranks 1, 2 call allSum of 4 float32",
  }],
  "a group": [{
    ranks: [() => pair.allSum(x(4)), () => pair.allMax(x(4)), () => {}],
    text: [0, 1, 2].map((i) =>
      i === 2 ? null : "rank 0 calls allSum of 4 float32, but rank 1 calls allMax of 4 float32"
    ),
  }],
  "gradients and a sum": [averageGradients, averageGradientsSync].map((average) => ({
    ranks: [
      () => average(world, gradients([2, 3])),
      () => world.allSum(x(5)),
      () => average(world, gradients([2, 3])),
    ],
    text: `${call} averageGradients of 5 float32, but rank 1 calls allSum of 5 float32`,
  })),
  "other gradients": [averageGradients, averageGradientsSync].map((average) => {
    const of = (...sizes: number[]) => () => average(world, gradients(sizes));
    return {
      ranks: [of(2, 3), of(2, 4), of(2, 3)],
      text: `${call} averageGradients of 5 float32, but rank 1 calls averageGradients of 6 float32`,
    };
  }),
  "products": [[columnParallel, rowParallel], [columnParallelSync, rowParallelSync]].map((
    [columns, rows],
  ) => {
    const [column, row] = [
      () => (columns as Any)(ones([1, 4]), ones([2, 4]), { group: world, gather: true }),
      () => (rows as Any)(ones([1, 4]), ones([2, 4]), { group: world }),
    ];
    return {
      ranks: [column, row, column],
      text: `${call} columnParallel of 2 float32, but rank 1 calls rowParallel of 2 float32`,
    };
  }),
  "files": [{
    ranks: [0, 1, 2].map((i) => () =>
      i === 1 ? world.barrier() : saveShards(world, folder, { x: x(4) })
    ),
    text: `${call} saveShards of 1 int32, but rank 1 calls barrier`,
  }],
  "programs": ["", "async"].map((how) => {
    const of = (size: number) => () => how === "" ? run(x(size)) : run.async(x(size));
    return {
      ranks: [of(4), of(6), of(4)],
      text: `${call} allSum of 4 float32, but rank 1 calls allSum of 6 float32`,
    };
  }),
  "an empty tensor in a program": [{
    ranks: [() => run(x(4)), () => run(x(0)), () => run(x(4))],
    text: `${call} allSum of 4 float32, but rank 1 calls allSum of 0 float32`,
  }],
  "a long message": message([MANY, "float32"], [10, "float32"]),
  "a long tensor": message([10, "float32"], [MANY, "float32"], true),
  "large ones": message([MANY, "float32"], [MANY + 1, "float32"]),
  "small ones, too long": message([1000, "float32"], [10, "float32"], true),
  "small ones, too short": message([10, "float32"], [1000, "float32"], true),
  "a small message of another dtype": message([10, "float32"], [10, "int32"], true),
  "a large message of another dtype": message([MANY, "float32"], [MANY, "int32"]),
  "a message of another dtype and number": message([4, "complex64"], [8, "float32"], true),
  "an empty message": message([0, "float32"], [4, "float32"], true),
  "a message to an empty tensor": message([MANY, "float32"], [0, "float32"]),
  "a message in a group": message([MANY, "float32"], [10, "float64"], false, pair),
};

/** The error of a call, without its first words; null for none. */
async function textOf(call: () => unknown): Promise<string | null> {
  try {
    await call();
    return null;
  } catch (error) {
    if (!(error instanceof DistributedError)) throw error;
    const begin = /^Cannot (.*) on rank (\d): /.exec(error.message);
    assert(begin !== null && begin[1] === error.op && Number(begin[2]) === rank, error.message);
    return error.message.slice(begin[0].length);
  }
}

let checked = 0;

/** What follows an error works, and takes all elements. */
async function checkAgreement(): Promise<void> {
  const sum = await world.allSum(full([3], rank, { dtype: "float64" })) as AnyTensor;
  assertEquals(sum.toArray(), [3, 3, 3]);
  if (rank === 0) await world.send(full([MANY / 10], 7), 1, { tag: 5 });
  if (rank !== 1) return;
  const got = await world.recv([MANY / 10], "float32", 0, { tag: 5 }) as Any;
  assertEquals([got.get(0), got.get(MANY / 10 - 1)], [7, 7]);
}

// Messages are compared in any case.
const onlyMessages = process.argv[2] === "messages";
for (const [name, cases] of Object.entries(CASES)) {
  if (onlyMessages && !JSON.stringify(cases[0]!.text).includes("sends")) continue;
  for (const { ranks, text } of cases) {
    const expected = typeof text === "string" ? text : text[rank]!;
    assertEquals(await textOf(ranks[rank]!), expected, name);
    await checkAgreement();
    checked++;
  }
  if (rank === 0) console.log(name);
}

// Outputs stay as they were, and nothing keeps the tensors of calls that failed.
if (!onlyMessages) {
  const [own, out] = [full([4 + rank], rank, { dtype: "float32" }), zeros([4 + rank])] as Any[];
  for (const how of ["allSum", "allSumSync"]) {
    for (const options of [{ out: own }, { out }]) {
      assert(await textOf(() => world[how](own, options)) !== null);
    }
  }
  assertEquals([own.get(0), out.get(0)], [rank, 0]);
  own.add_(1);
  assertEquals(own.get(3), rank + 1);
  const round = async () => {
    using y = full([100_000 + rank], 1, { dtype: "float32" });
    using grown = y.copy();
    for (const how of ["allSum", "allGather", "broadcast"]) {
      assert(await textOf(() => world[how](y)) !== null);
    }
    assert(await textOf(() => averageGradients(world, [grown])) !== null);
    const [sent, wanted] = [100_000, 100_001];
    using z = full([sent], 1, { dtype: "float32" });
    if (rank === 0) assert(await textOf(() => world.send(z, 1)) !== null);
    if (rank === 1) assert(await textOf(() => world.recv([wanted], "float32", 0)) !== null);
  };
  for (let i = 0; i < 3; i++) await round();
  const before = memory().bytes;
  for (let i = 0; i < 6; i++) await round();
  const more = memory().bytes - before;
  assert(more < 400_000, `${more} bytes`);
}

// Calls at random, many at once, of which some differ: all ranks draw the same ones.
{
  setCountLimit(700);
  const limited = await world.split(0) as Any;
  setCountLimit(0);
  let seed = 1;
  const draw = (n: number) => {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff;
    return (seed >> 8) % n;
  };
  const oneOf = <T>(list: readonly T[]): T => list[draw(list.length)]!;
  const sizes = [0, 1, 7, 1000, 16_384, 16_385, 100_000];
  const dtypes = ["float32", "int32", "float64", "int8"];
  const methods = onlyMessages ? [] : ["allSum", "allGather", "broadcast", "barrier"];
  const expectError = async (call: () => unknown, expected: boolean, what: unknown) =>
    assertEquals(await textOf(call) !== null, expected, String(what));
  for (let round = 0; round < 15; round++) {
    const all: Promise<unknown>[] = [];
    for (let i = 0; i < 12; i++) {
      if (draw(2) === 0 && methods.length > 0) {
        const pick = () => {
          const name = oneOf(methods);
          return name === "barrier" ? [name, 0, ""] : [name, oneOf(sizes), oneOf(dtypes)];
        };
        const [most, other, odd] = [pick(), pick(), draw(6)];
        const [name, size, dtype] = (rank === odd ? other : most) as [string, number, string];
        const differs = odd < 3 && String(most) !== String(other);
        const call = () => limited[name](...name === "barrier" ? [] : [x(size, dtype)]);
        all.push(expectError(call, differs, [most, other, odd]));
      } else {
        const [from, tag, size, dtype] = [draw(3), draw(3), oneOf(sizes), oneOf(dtypes)];
        const [to, wanted] = [(from + 1 + draw(2)) % 3, size + (draw(4) === 0 ? 1 : 0)];
        const value = draw(100);
        const sent = full([size], value, { dtype: dtype as "float32" });
        const differs = size !== wanted;
        const waits = sent.nbytes > 65_536;
        const send = () => limited.send(sent, to, { tag });
        const receive = async () => {
          const y = await limited.recv([wanted], dtype, from, { tag }) as Any;
          if (wanted > 0) assertEquals([y.get(0), y.get(wanted - 1)], [value, value]);
        };
        if (rank === from) all.push(expectError(send, differs && waits, [size, wanted, dtype]));
        if (rank === to) all.push(expectError(receive, differs, [size, wanted, dtype]));
      }
    }
    await Promise.all(all);
  }
}

// Small messages are copied: both ranks send first. One that is never received harms no one.
{
  const y = full([16_000], rank, { dtype: "float32" }) as Any;
  if (rank < 2) {
    for (const send of ["send", "sendSync"]) {
      await world[send](y, 1 - rank);
      y.fill_(9);
      const got = await world.recv([16_000], "float32", 1 - rank);
      assertEquals(got.get(15_999), 1 - rank);
      y.fill_(rank);
    }
    await world.send(y, 1 - rank, { tag: 9 });
  }
}
await world.close();
rmSync(folder, { recursive: true, force: true });
console.log(`rank ${rank}: ${checked} mismatches`);
