/**
 * The queue thread of the shim, which runs programs while JavaScript goes on.
 *
 * Knows nothing of programs.
 *
 * @module
 */
import type { Shim, Unavailable } from "./abi.ts";
import { inWords } from "./cache.ts";
import { shimPath } from "./load.ts";
import { openModule } from "./node_api.ts";
import { host } from "./runtime.ts";

/**
 * Queues a run of the calls [`from`, `to`) of the frame at an address. Returns a status other than
 * `ok` if it has not.
 */
export type Submit = (frame: number, from: number, to: number) => number;

/** The file to open for the queue thread, or why it cannot be opened. Opens nothing. */
export function findQueue(shim: Shim): string | Unavailable {
  const path = shimPath(shim);
  if (path === undefined) return { reason: "the library was not opened from a file" };
  if (host.may("ffi", path)) return path;
  return { reason: `not allowed to open ${path} any more: use --allow-ffi=${path}` };
}

/**
 * Starts to use the queue thread, which runs one job of the result at a time and calls `ended` with
 * the status of each; or tells why it cannot. Never throws and never prompts.
 */
export function openQueue(shim: Shim, ended: (status: number) => void): Submit | Unavailable {
  const path = findQueue(shim);
  if (typeof path !== "string") return path;
  try {
    const { listen } = openModule(shim, path, "queue");
    const submit = (listen as ((ended: (status: number) => void) => Submit) | undefined)?.(ended);
    if (submit !== undefined) return submit;
    return { reason: `${path} has changed since it was opened, or the process has no Node-API` };
  } catch (error) {
    return { reason: inWords(error) };
  }
}
