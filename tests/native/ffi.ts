/**
 * Opens C libraries that tests build, in either runtime. src/backend/ffi/load.ts opens the shim
 * instead.
 *
 * @module
 */
import process from "node:process";

/** A type of a function's result or parameter; a `buffer` is a typed array. */
export type CType = "void" | "i32" | "f64" | "buffer";
/** A function's result, then its parameters. */
export type Signature = readonly [result: CType, ...parameters: CType[]];

interface Ffi {
  dlopen(path: string, symbols: unknown): { symbols: unknown };
}

/** The functions of the library at `path` that `signatures` names; `S` is their type. */
export function openLibrary<S>(path: string, signatures: Record<keyof S & string, Signature>): S {
  const { Deno } = globalThis as unknown as { Deno?: Ffi };
  const ffi = Deno ?? process.getBuiltinModule("bun:ffi") as unknown as Ffi;
  const inBun = (type: CType): string => type === "buffer" ? "ptr" : type;
  const symbols = Object.entries<Signature>(signatures).map(([name, [result, ...parameters]]) => [
    name,
    Deno !== undefined
      ? { parameters, result }
      : { args: parameters.map(inBun), returns: inBun(result) },
  ]);
  return ffi.dlopen(path, Object.fromEntries(symbols)).symbols as S;
}
