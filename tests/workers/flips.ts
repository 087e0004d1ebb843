/**
 * A worker that changes elements of shared memory over and over until the last one is set: each of
 * them between two values.
 *
 * @module
 */
import { parentPort, workerData } from "node:worker_threads";

const { buffer, places, values } = workerData as {
  buffer: SharedArrayBuffer;
  places: readonly number[];
  values: readonly [number, number];
};
const array = new Int32Array(buffer);
const stop = array.length - 1;
parentPort!.postMessage("begins");
for (let turn = 0; Atomics.load(array, stop) === 0; turn++) {
  for (const place of places) Atomics.store(array, place, values[turn & 1]!);
}
