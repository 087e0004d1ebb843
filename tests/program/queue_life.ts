/**
 * A program that ends, or ends workers, while jobs run, for queue_test.ts: queue_life.ts CASE LIBRARY.
 *
 * @module
 */
import process from "node:process";
import { openShim } from "../../src/backend/ffi/load.ts";
import { JobQueue } from "../../src/backend/native/queue.ts";
import { makeAdds, makeProducts } from "../native/programs.ts";

const [name, library] = process.argv.slice(2) as [string, string];
const shim = openShim(library);
if ("reason" in shim) throw new Error(shim.reason);
const queue = new JobQueue(shim);
if (queue.unavailable !== null) throw new Error(queue.unavailable.reason);

/** Multiplies for some seconds. */
function multiply(): void {
  if (shim === undefined || "reason" in shim) return;
  shim.rm_blas_open();
  const n = 1024;
  const frame = makeProducts(shim, n, 200).acquire()!;
  const [a, b, c] = [1, 2, 3].map((x) => new Float32Array(n * n).fill(x));
  frame.bind(0, a!, b!, c!);
  queue.submit(frame).then(() => console.log("the product has ended"));
}

/** A job of about 100 ms. */
async function add(): Promise<number> {
  if (shim === undefined || "reason" in shim) return NaN;
  const n = 1 << 20;
  const frame = makeAdds(shim, n, 200).acquire()!;
  const out = new Float32Array(n);
  frame.bind(1, new Float32Array(n).fill(1));
  await queue.submit(frame);
  frame.read(0, out);
  return out[n - 1]!;
}

interface Child {
  onmessage: (event: { data: unknown }) => void;
  postMessage(message: unknown): void;
  terminate(): void;
}

function startWorker(what: string): { worker: Child; answer: Promise<unknown> } {
  const { Worker } = globalThis as unknown as {
    Worker: new (url: string, options: object) => Child;
  };
  const worker = new Worker(new URL("./queue_worker.ts", import.meta.url).href, { type: "module" });
  const answer = new Promise<unknown>((resolve) => worker.onmessage = ({ data }) => resolve(data));
  worker.postMessage({ case: what, library });
  return { worker, answer };
}

/** Allocates and collects, so that memory of an ended worker is reused. */
async function churn(): Promise<void> {
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    for (let j = 0; j < 20_000; j++) new Float64Array(new ArrayBuffer(512)).fill(1);
    (globalThis as unknown as { Bun?: { gc(force: boolean): void } }).Bun?.gc(true);
  }
}

switch (name) {
  case "pending":
    // Nothing but the job keeps the process alive.
    add().then((sum) => console.log(`sum ${sum}`));
    break;
  case "exit":
    multiply();
    setTimeout(() => process.exit(3), 50);
    break;
  case "Deno.exit":
    multiply();
    setTimeout(() => (globalThis as unknown as { Deno: typeof process }).Deno.exit(3), 50);
    break;
  case "throw":
    multiply();
    setTimeout(() => {
      throw new Error("thrown on purpose");
    }, 50);
    break;
  case "terminate":
  case "close": {
    for (let i = 0; i < 3; i++) {
      const { worker, answer } = startWorker(name);
      console.log(await answer);
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (name === "terminate") worker.terminate();
      await churn();
      console.log(`sum ${await add()}`);
    }
    break;
  }
  case "workers": {
    const both = [startWorker("adds"), startWorker("adds")];
    console.log(`sum ${await add()}`);
    for (const { worker, answer } of both) {
      console.log(`wrong ${await answer}`);
      worker.terminate();
    }
    break;
  }
  default:
    throw new Error(`there is no case ${name}`);
}
