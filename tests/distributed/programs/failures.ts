/**
 * Ranks of which one does something else. Each rank that gets an error prints it.
 *
 * @module
 */
import process from "node:process";
import { DistributedError, full, info, zeros } from "../../../mod.ts";
import { compile } from "../../../src/compile/mod.ts";
import { type Group, init, type World } from "../../../src/distributed/mod.ts";

const [what] = process.argv.slice(2);
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
// deno-lint-ignore no-explicit-any
type Any = any;

/** Prints an error of a rank, and how long after the beginning of its call it came. */
async function report(world: Group, call: () => unknown): Promise<void> {
  const begin = performance.now();
  try {
    await call();
    console.log(`rank ${world.rank}: no error`);
  } catch (error) {
    if (!(error instanceof DistributedError)) throw error;
    const { op, rank, peer, message } = error;
    const seconds = (performance.now() - begin) / 1e3;
    console.log(JSON.stringify({ op, rank, peer, message, seconds }));
  }
}

const forever = () => new Promise(() => setInterval(() => {}, 1000));
const x = () => full([1000], 1, { dtype: "float32" }) as Any;

/** What rank 1 does, and what the others do. */
const CASES: Record<string, (world: Group) => unknown> = {
  async throws(world) {
    if (world.rank === 1) throw new Error("rank 1 has thrown");
    await report(world, () => world.rank === 0 ? world.allSum(x()) : world.allSumSync(x()));
  },
  async leaves(world) {
    // What it has sent, and what it has called, still counts.
    if (world.rank === 1) {
      await world.send(x(), 0);
      return;
    }
    await sleep(300);
    if (world.rank !== 0) return;
    const got = await world.recv([1000], "float32", 1);
    if (got.get(999) !== 1) throw new Error("not received");
    await report(world, () => world.recv([1], "float32", 1));
  },
  async exit1(world) {
    if (world.rank === 1) process.exit(1);
    await world.allSum(x());
  },
  async exit0(world) {
    if (world.rank === 1) process.exit(0);
    await world.allSum(x());
  },
  async kill(world) {
    if (world.rank === 1) process.kill(process.pid, "SIGKILL");
    await world.allSum(x());
  },
  async late(world) {
    if (world.rank === 1) {
      await sleep(2000);
      return;
    }
    const y = x();
    await report(world, () => Promise.all([world.allSum(y), world.allMax(y, { out: y })]));
    await report(world, () => world.barrierSync());
    // MPI still has the old memory; none of it is in use again.
    for (let i = 0; i < 1000; i++) full([1000], i, { dtype: "float32" }).dispose();
  },
  async lateSync(world) {
    if (world.rank === 1) return await sleep(2000);
    await report(world, () => world.allSumSync(x()));
  },
  async lateProgram(world) {
    const f = compile((y: Any) => world.allSumSync(y.mul(2)).add(1));
    f(x());
    if (world.rank === 1) return await sleep(2000);
    await report(world, () => f(x()));
    await report(world, () => f.async(x()));
  },
  async stops(world) {
    await world.barrier();
    if (world.rank === 1) process.kill(process.pid, "SIGSTOP");
    await report(world, () => world.allSum(x()));
    // Its launcher ends the one that has stopped.
    process.exit(1);
  },
  async interrupted(world) {
    await world.barrier();
    console.log("ready");
    if (world.rank === 1) await forever();
    world.allSumSync(x());
  },
  async abort(world) {
    if (world.rank === 1) {
      // As much as a pipe holds.
      console.log("last words ".repeat(5900));
      (world as World).abort(3);
    }
    await forever();
  },
  // Uncaught, on all ranks.
  async differs(world) {
    await world.allSum(zeros([world.rank === 1 ? 1_000_000 : 10]) as Any);
  },
  size(world) {
    console.log(`${world.backend}: ${world.size}`);
    console.log(info().backends.mpi);
  },
};

const [body, timeout, backend = "any"] = what!.split(",") as [string, string | undefined, "any"];
const ownRank = process.env.PMI_RANK ?? process.env.OMPI_COMM_WORLD_RANK;
try {
  const check = body !== "checks" || ownRank !== "1";
  await using world = await init({ backend, timeout: 30_000, check });
  await CASES[body!]!(timeout === undefined ? world : world.withTimeout(Number(timeout)));
} catch (error) {
  if (!(error instanceof DistributedError) || error.op !== "init") throw error;
  console.log(JSON.stringify({ op: "init", message: error.message }));
  console.log(info().backends.mpi);
}
