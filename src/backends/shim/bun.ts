/**
 * Opens the shim in Bun.
 *
 * Knows nothing of where libraries lie or of what the functions do. Asks for `bun:ffi` by name when
 * it is called, so that other runtimes never see it.
 *
 * @module
 */
import process from "node:process";
import { type ForeignSymbol, type Shim, SYMBOLS } from "./abi.ts";

interface BunFfi {
  dlopen(
    path: string,
    symbols: Record<string, { args: string[]; returns: "i32" }>,
  ): { symbols: unknown };
}

/** True where Bun runs. */
export const isBun: boolean = "Bun" in globalThis;

/** Opens the library at `path`. Throws what Bun throws. */
export function openInBun(path: string): Shim {
  const ffi = process.getBuiltinModule("bun:ffi") as unknown as BunFfi;
  const symbols: Record<string, { args: string[]; returns: "i32" }> = {};
  for (const [name, { parameters }] of Object.entries<ForeignSymbol>(SYMBOLS)) {
    const args = parameters.map((type) => type === "buffer" ? "ptr" : type);
    symbols[name] = { args, returns: "i32" };
  }
  return ffi.dlopen(path, symbols).symbols as Shim;
}

/** The environment variable `name`. */
export function bunVariable(name: string): string | undefined {
  return process.env[name];
}
