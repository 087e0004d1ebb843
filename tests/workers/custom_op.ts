/**
 * A worker that requests an op which only the main thread has defined, then defines it.
 *
 * @module
 */
import { parentPort } from "node:worker_threads";
import { attempt, defineOp, getOp, tensor } from "../../mod.ts";

const { error } = attempt(() => getOp("scaledSquare"));
defineOp({ name: "scaledSquare", expr: "scale * x * x", parameters: ["scale"] });
const made = getOp("scaledSquare")(tensor([3]), { scale: 2 });
parentPort!.postMessage({
  name: error?.name,
  message: error?.message,
  result: Array.isArray(made) ? made : made.toArray(),
});
