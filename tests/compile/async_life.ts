/**
 * A program that ends, or ends a worker, while programs run, for async_test.ts: async_life.ts CASE.
 *
 * @module
 */
import process from "node:process";
import { ones, type Tensor } from "../../mod.ts";
import { compile } from "../../src/compile/mod.ts";

interface Thread {
  onmessage: (event: { data: unknown }) => void;
  postMessage(message: unknown): void;
  terminate(): void;
}

const f = compile((x: Tensor) => {
  for (let i = 0; i < 40; i++) x = x.matmul(x).mul(0) as Tensor;
  return x.add(5);
});

/** Runs for seconds. */
function start(): void {
  f.async(ones([900, 900]) as Tensor).then(() => console.log("the program has ended"));
}

async function short(): Promise<void> {
  const made = await f.async(ones([40, 40]) as Tensor);
  const [low, high] = [made.min().item(), made.max().item()];
  console.log(low === high ? `all ${low}` : `${low} to ${high}`);
}

function startWorker(name: string): Thread {
  const { Worker } = globalThis as unknown as { Worker: new (url: URL, options: object) => Thread };
  const worker = new Worker(new URL("async_worker.ts", import.meta.url), { type: "module" });
  worker.postMessage(name);
  return worker;
}

function answer(worker: Thread): Promise<unknown> {
  return new Promise((resolve) => worker.onmessage = ({ data }) => resolve(data));
}

switch (process.argv[2]) {
  case "pending":
    // Nothing but the run keeps the process alive.
    short();
    break;
  case "exit":
    start();
    setTimeout(() => process.exit(3), 50);
    break;
  case "throw":
    start();
    setTimeout(() => {
      throw new Error("on purpose");
    }, 50);
    break;
  case "worker": {
    const worker = startWorker("long");
    await answer(worker);
    await new Promise((resolve) => setTimeout(resolve, 50));
    worker.terminate();
    await new Promise((resolve) => setTimeout(resolve, 300));
    console.log("ended");
    await short();
    break;
  }
  case "workers": {
    const workers = [startWorker("right"), startWorker("right")];
    for (const found of await Promise.all(workers.map(answer))) console.log(`right ${found}`);
    for (const worker of workers) worker.terminate();
    await short();
    break;
  }
}
