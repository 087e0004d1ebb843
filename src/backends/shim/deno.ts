/**
 * Opens the shim in Deno, and asks Deno what this program may do; it never prompts.
 *
 * Knows nothing of where libraries lie or of what the functions do. Names Deno through an interface
 * of its own, so that it type-checks where there is no Deno.
 *
 * @module
 */
import { type ForeignSymbol, type Shim, SYMBOLS } from "./abi.ts";

interface DenoNamespace {
  dlopen(
    path: string,
    symbols: Record<string, { parameters: readonly string[]; result: "i32" }>,
  ): { symbols: unknown };
  permissions: { querySync(descriptor: Record<string, string>): { state: string } };
  env: { get(name: string): string | undefined };
}

/** Deno, where it runs. */
export const deno: DenoNamespace | undefined =
  (globalThis as unknown as { Deno?: DenoNamespace }).Deno;

/** Opens the library at `path`. Throws what Deno throws. */
export function openInDeno(path: string): Shim {
  const symbols: Record<string, { parameters: readonly string[]; result: "i32" }> = {};
  for (const [name, { parameters }] of Object.entries<ForeignSymbol>(SYMBOLS)) {
    symbols[name] = { parameters, result: "i32" };
  }
  return deno!.dlopen(path, symbols).symbols as Shim;
}

/** True when this program may open the library at `path` without anyone being asked. */
export function mayOpen(path: string): boolean {
  return deno!.permissions.querySync({ name: "ffi", path }).state === "granted";
}

/** The environment variable `name`, where this program may read it without anyone being asked. */
export function denoVariable(name: string): string | undefined {
  const { state } = deno!.permissions.querySync({ name: "env", variable: name });
  return state === "granted" ? deno!.env.get(name) : undefined;
}
