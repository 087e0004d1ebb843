/**
 * Opens the shim as a module of Node-API, for functions that FFI cannot provide.
 *
 * The caller has checked that this program may open the file, as runtimes would prompt.
 *
 * @module
 */
import { MODULE, type Shim, STATUS } from "./abi.ts";

/**
 * The exports of the shim, opened from `path`, as a module for that purpose; empty if the file is
 * another one by now, or if the process has no Node-API. May throw the errors of the runtime.
 */
export function openModule(
  shim: Shim,
  path: string,
  what: keyof typeof MODULE,
): Readonly<Record<string, unknown>> {
  const module: { exports: Record<string, unknown> } = { exports: {} };
  if (shim.rm_expect_module(MODULE[what]) !== STATUS.ok) return module.exports;
  globalThis.process.dlopen(module, path);
  return module.exports;
}
