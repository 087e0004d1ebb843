/**
 * A worker that runs jobs, for queue_test.ts: posts "begun" once one runs, then how many elements of
 * the results of its other jobs are wrong.
 *
 * @module
 */
import { openShim } from "../../src/backend/ffi/load.ts";
import { JobQueue } from "../../src/backend/native/queue.ts";
import { makeAdds, makeProducts } from "../native/programs.ts";

/** The part of a worker's scope that this file uses. */
const scope = globalThis as unknown as {
  onmessage: (event: { data: { case: string; library: string } }) => void;
  postMessage(message: unknown): void;
  close(): void;
};

async function countErrors(library: string): Promise<number> {
  const shim = openShim(library);
  if ("reason" in shim) throw new Error(shim.reason);
  const [queue, program] = [new JobQueue(shim), makeAdds(shim, 1000, 20)];
  const frame = program.acquire()!;
  const out = new Float32Array(1000);
  let wrong = 0;
  for (let i = 1; i <= 100; i++) {
    frame.write(0, new Float32Array(1000));
    frame.bind(1, new Float32Array(new ArrayBuffer(4000)).fill(i));
    await queue.submit(frame);
    frame.read(0, out);
    for (const x of out) wrong += x === 20 * i ? 0 : 1;
  }
  frame.release();
  program.free();
  return wrong;
}

/** Multiplies for seconds in memory that this worker's end frees. */
function multiply(library: string, ends: boolean): void {
  const shim = openShim(library);
  if ("reason" in shim) throw new Error(shim.reason);
  shim.rm_blas_open();
  const queue = new JobQueue(shim);
  const n = 512;
  for (let i = 0; i < 3; i++) {
    const frame = makeProducts(shim, n, 500).acquire()!;
    const [a, b, c] = [1, 2, 3].map((x) => new Float32Array(n * n).fill(x));
    frame.bind(0, a!, b!, c!);
    queue.submit(frame);
  }
  scope.postMessage("begun");
  if (!ends) return;
  setTimeout(() => "Deno" in globalThis ? scope.close() : globalThis.process.exit(0), 30);
}

scope.onmessage = ({ data }) => {
  if (data.case === "adds") countErrors(data.library).then((n) => scope.postMessage(n));
  else multiply(data.library, data.case === "close");
};
