/**
 * A worker that profiles an op.
 *
 * @module
 */
import { parentPort } from "node:worker_threads";
import { ones } from "../../mod.ts";
import { profile } from "../../src/profile/mod.ts";

const { calls, result } = profile(() => ones([2, 3]).sum());
parentPort!.postMessage({ ops: calls.map(({ op }) => op), result: result.item() });
