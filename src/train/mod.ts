/**
 * The loop of training: batches of data, and checkpoints of its state.
 *
 * @example
 * ```ts
 * import { arange, random } from "@rowmajor/tensor";
 * import { batches } from "@rowmajor/tensor/train";
 *
 * const data = { x: arange(20).reshape([10, 2]), y: arange(10) };
 * const sizes = [];
 * for (const { x } of batches(data, { size: 4, key: random.key(1) })) sizes.push(x.shape[0]);
 * sizes; // => [4, 4, 2]
 * ```
 *
 * @module
 */
import "../tensor/tensor.ts";
export { type Batch, batches, type BatchesOptions } from "./batches.ts";
export { type CheckpointValue, loadCheckpoint, saveCheckpoint } from "./checkpoint.ts";
