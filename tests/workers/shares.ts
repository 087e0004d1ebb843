/**
 * A worker that works on shared memory: multiplies rows of a tensor in place, and adds them up.
 *
 * @module
 */
import { parentPort, workerData } from "node:worker_threads";
import { type DType, fromBuffer } from "../../mod.ts";

const { buffer, shape, dtype, from, to } = workerData as {
  buffer: SharedArrayBuffer;
  shape: [number, number];
  dtype: DType;
  from: number;
  to: number;
};
const x = fromBuffer(buffer, { shape, dtype });
const rows = x.asDType("float32").sliceAxis(0, `${from}:${to}`);
rows.mul_(2).add_(1);
parentPort!.postMessage({ sum: rows.sum().item(), ownership: x.ownership });
