/**
 * Collectives of tensors on CUDA devices, on the emulator: each rank has a device. Prints the number
 * of checks of each rank, or the error that it gets.
 *
 * @module
 */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import process from "node:process";
import {
  type AnyTensor,
  arange,
  capture,
  concat,
  DeviceError,
  DistributedError,
  type DType,
  full,
  info,
  stack,
  tensor,
  zeros,
} from "../../../mod.ts";
import { findShim } from "../../../src/backend/ffi/load.ts";
import { compile } from "../../../src/compile/mod.ts";
import { type Group, init, type World } from "../../../src/distributed/mod.ts";
import { controlEmulator } from "../../emulator/control.ts";

const [what, folder, other] = process.argv.slice(2) as [string, string, string];
const [body, timeout = "20000", backend = "any"] = what.split(",") as [string, string, "any"];
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
// deno-lint-ignore no-explicit-any
type Any = any;
let checks = 0;

const world = await init({ backend, timeout: 20_000 });
const { rank, size } = world;
const device = body === "shared" || rank === 0 ? "cuda" : `cuda:${rank}`;
const libraries = body === "missing" && rank === size - 1 ? other : folder;
const shim = findShim();
if ("reason" in shim) throw new Error(shim.reason);
shim.rm_cuda_open(new TextEncoder().encode(`${libraries}\0`), new Float64Array(3));
const emulator = controlEmulator(libraries);

/** The tensor of a rank: small integers, so that sums are exact in every dtype. */
function dataOf(member: number, shape: readonly number[], dtype: DType): Any {
  const length = shape.reduce((a, b) => a * b, 1);
  const x = arange(length, { dtype: "int32" }).mul(member + 3).add(member).remainder(7) as Any;
  return (dtype === "bool" ? x.greater(3) : x.astype(dtype)).reshape(shape);
}

const text = (_: string, value: unknown) => typeof value === "bigint" ? String(value) : value;

function same(got: Any, expected: AnyTensor, what: string): void {
  checks++;
  assertEquals([got.device, got.dtype, ...got.shape], [device, expected.dtype, ...expected.shape]);
  assertEquals(
    JSON.stringify(got.cpu().toArray(), text),
    JSON.stringify(expected.toArray(), text),
    what,
  );
}

/** Runs `f`, in which `calls` collectives run by NCCL. */
async function counted(calls: number, what: string, f: () => unknown): Promise<void> {
  const before = emulator.get("collectives");
  await f();
  assertEquals(emulator.get("collectives") - before, calls, what);
}

const DTYPES: readonly DType[] = [
  ...["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"] as const,
  ...["float16", "bfloat16", "float32", "float64", "complex64", "complex128"] as const,
];

async function checkGroup(group: Group, members: readonly number[], dtype: DType): Promise<void> {
  const { rank, size } = group;
  const shape = [2 * size, 3];
  const all = members.map((member) => dataOf(member, shape, dtype));
  const joined = stack(all as Any) as Any;
  const x = all[rank].to(device);
  const short = dtype === "int16" || dtype === "uint16";
  const isFloat = dtype.includes("float");
  const both = async (
    byNccl: boolean,
    name: string,
    expected: Any,
    ...args: readonly unknown[]
  ): Promise<void> => {
    const told = `${name} of ${dtype} on ${rank} of ${size}`;
    await counted(byNccl && size > 1 ? 2 : 0, told, async () => {
      same((group as Any)[`${name}Sync`](x, ...args), expected, `${told}, Sync`);
      same(await (group as Any)[name](x, ...args), expected, told);
    });
  };
  if (dtype === "bool") {
    await both(true, "allMax", joined.any(0));
    await both(true, "allMin", joined.all(0));
  } else {
    const sum = joined.sum(0).astype(dtype);
    await both(!short, "allSum", sum);
    await both(!short, "sumScatter", sum.slice(`${2 * rank}:${2 * rank + 2}`));
    if (!dtype.startsWith("complex")) {
      // Maxima and minima of NCCL drop NaN.
      await both(!short && !isFloat, "allMax", joined.max(0));
      await both(!short && !isFloat, "allMin", joined.min(0));
    }
    if (dtype === "float32") await both(true, "allMean", sum.div(size));
  }
  await both(true, "allGather", concat(all as Any));
  if (dtype === "float32") await both(true, "allGather", concat(all as Any, 1), { axis: -1 });
  await both(true, "broadcast", all[size - 1], size - 1);
  const parts = all.map((one: Any) => one.slice(`${2 * rank}:${2 * rank + 2}`));
  await both(true, "allToAll", concat(parts as Any));
}

async function checkAll(): Promise<void> {
  const everyone = Array.from({ length: size }, (_, i) => i);
  for (const dtype of DTYPES) await checkGroup(world, everyone, dtype);
  const members = everyone.filter((member) => member % 2 === rank % 2);
  const half = (await world.split(rank % 2))!;
  for (const dtype of ["float32", "uint8"] as const) await checkGroup(half, members, dtype);
  const status = info().backends.nccl;
  assert(status.startsWith("in use: 2.27, "), status);

  // NaN passes on.
  const nan = tensor(rank === 0 ? [NaN, 1] : [2, 3], { dtype: "float32" }).to(device as Any) as Any;
  assertEquals((world.allMaxSync(nan) as Any).cpu().toArray(), [NaN, 3]);

  // Outputs: the input, views, wider dtypes, another axis.
  const sum = size * (size + 1) / 2;
  const x = () => full([4], rank + 1, { dtype: "float32", device: device as "cuda" }) as Any;
  for (const run of ["allSum", "allSumSync"] as const) {
    const own = x();
    assert(await world[run](own, { out: own }) === own);
    assertEquals(own.cpu().toArray(), [sum, sum, sum, sum]);
    const wide = zeros([4], { dtype: "float64", device: device as "cuda" }) as Any;
    await world[run](x(), { out: wide });
    assertEquals(wide.cpu().toArray(), [sum, sum, sum, sum]);
    const table = zeros([4, 2], { dtype: "float32", device: device as "cuda" }) as Any;
    await world[run](x(), { out: table.slice(":", 1) });
    assertEquals(table.cpu().toArray(), [[0, sum], [0, sum], [0, sum], [0, sum]]);
    assertEquals(((await world[run](table.T)) as Any).shape, [2, 4]);
  }

  // What a promise reads is what there was at the call; its tensors may be disposed of.
  const y = full([1000], rank, { dtype: "float32", device: device as "cuda" }) as Any;
  const pending = [world.allSum(y), world.allGather(y), world.broadcast(y, 0)] as const;
  y.fill_(-1);
  y.dispose();
  const [summed, gathered, sent] = await Promise.all(pending) as Any[];
  assertEquals(
    [summed.cpu().get(999), gathered.cpu().get(0), sent.cpu().get(5)],
    [size * (size - 1) / 2, 0, 0],
  );
  const many = Array.from({ length: 30 }, (_, i) => {
    const own = full([i + 1], rank + i, { dtype: "int32" }).to(device as Any) as Any;
    return world.allSum(own, i % 2 === 0 ? {} : { out: own });
  });
  for (const [i, one] of (await Promise.all(many)).entries()) {
    assertEquals((one as Any).cpu().get(i), size * (size - 1) / 2 + i * size);
  }

  // In compiled functions; not while a graph is captured.
  const f = compile((z: Any) => world.allSumSync(z.mul(2)).add(1));
  for (let i = 0; i < 2; i++) {
    await counted(1, "compiled", () => assertEquals((f(x()) as Any).cpu().get(3), 2 * sum + 1));
  }
  const z = x();
  assertThrows(
    () => capture(device as "cuda", () => world.allSumSync(z)),
    DeviceError,
    "cannot call other ranks while a graph is being captured",
  );
  // Empty tensors, and tensors on the CPU, need no device.
  await counted(0, "empty", () => world.allSumSync(zeros([0, 3], { device: device as "cuda" })));
  await counted(0, "cpu", async () => assertEquals((await world.allSum(arange(2))).get(1), size));
  // Other memory of this process.
  const elsewhere = full([4], 1, { device: `cuda:${(rank + 1) % size}` as Any });
  assertThrows(
    () => world.allSumSync(elsewhere as Any),
    DeviceError,
    "that of its first collective",
  );
  await assertRejects(() => world.allSum(elsewhere as Any), DeviceError, "first collective");
  if (rank === 0) await world.send(x(), 1);
  if (rank === 1) assertEquals((await world.recv([4], "float32", 0)).get(0), 1);
}

/** Prints an error of a rank, and how long after the beginning of its call it came. */
async function report(call: () => unknown): Promise<void> {
  const begin = performance.now();
  try {
    await call();
    console.log(`rank ${rank}: no error`);
  } catch (error) {
    if (!(error instanceof DistributedError)) throw error;
    const { op, rank, peer, message } = error;
    const seconds = (performance.now() - begin) / 1e3;
    console.log(JSON.stringify({ op, rank, peer, message, seconds }));
  }
}

const x = () => full([1000], 1, { dtype: "float32", device: device as "cuda" }) as Any;
const impatient: Group = (world as Any).withTimeout(Number(timeout));

const CASES: Record<string, () => unknown> = {
  all: checkAll,
  async late() {
    await world.allSum(x());
    if (rank === 1) return await sleep(1500);
    await report(() => impatient.allSum(x()));
    await report(() => impatient.allSumSync(x()));
    await report(() => world.barrierSync());
    // The device works.
    assertEquals(x().add(1).cpu().get(0), 2);
  },
  async lateSync() {
    world.allSumSync(x());
    if (rank === 1) return await sleep(1500);
    await report(() => impatient.allSumSync(x()));
  },
  // A rank that throws closes its world.
  async leaves() {
    await world.allSum(x());
    if (rank === 1) return;
    await report(() => rank === 0 ? world.allSum(x()) : world.allSumSync(x()));
  },
  // A read waits for what is queued before it: the deadline ends that, too.
  async lateRead() {
    world.allSumSync(x());
    if (rank === 1) return await sleep(1500);
    const pending = impatient.allSum(x());
    pending.catch(() => {});
    x().cpu();
    await report(() => pending);
  },
  // The first collective opens NCCL: the other rank never comes.
  async lateOpen() {
    if (rank === 1) return await sleep(1500);
    await report(() => impatient.allSum(x()));
  },
  async stops() {
    await world.allSum(x());
    if (rank === 1) process.kill(process.pid, "SIGSTOP");
    await report(() => impatient.allSum(x()));
    // Its launcher ends the one that has stopped; and passes on first what this one has printed.
    await sleep(200);
    process.exit(1);
  },
  // A rank that gives up takes the others along before their deadline.
  async remote() {
    await world.allSum(x());
    if (rank === 1) {
      await report(() => impatient.allGather(x()));
      await sleep(500);
      return;
    }
    if (rank === 2) return await sleep(1500);
    await report(() => world.allGather(x()));
  },
  async lengths() {
    await world.allSum(x());
    await report(() => world.allSum(full([4 + rank], 1, { device: device as "cuda" }) as Any));
  },
  async compared() {
    const where = (i: number) => ({ device: rank === i ? "cpu" as "cuda" : device as "cuda" });
    await report(() => world.allSum(full([4 + rank], 1, { device: device as "cuda" }) as Any));
    await report(() => world.allSumSync(full([4], 1, where(1)) as Any));
    await report(() => world.broadcastSync(x(), rank));
    const four = () => full([4], 1, { device: device as "cuda" }) as Any;
    await report(() => rank === 0 ? world.allSum(four()) : world.barrier());
    await report(() => rank === 0 ? world.allMean(four()) : world.allSum(four()));
    await report(() => world.allMax(full([4], 1, { dtype: "int32", ...where(2) }) as Any));
  },
  async fails() {
    await world.allSum(x());
    if (rank === 0) emulator.set("failNccl", 1);
    await report(() => (rank === 0 ? world : impatient).allToAll(full([4], 1).to(device as Any)));
  },
  async memory() {
    await world.allSum(x());
    if (rank === 0) emulator.set("failNccl", 2);
    const part = full([2 * size], 1).to(device as Any) as Any;
    await report(() => (rank === 0 ? world : impatient).allToAllSync(part));
  },
  // Ranks without NCCL, or with one device: the memory of the CPU serves.
  async missing() {
    await counted(0, "missing", async () => {
      await report(async () => assertEquals((await world.allSum(x()) as Any).cpu().get(0), size));
      await report(() => assertEquals((world.allSumSync(x()) as Any).cpu().get(0), size));
    });
    console.log(info().backends.nccl);
  },
  shared: () => CASES.missing!(),
};

try {
  await CASES[body]!();
  if (body === "all") console.log(`rank ${rank} of ${size}: ${checks} checks`);
  await (world as World).close();
} catch (error) {
  console.error(error);
  world.abort(1);
}
