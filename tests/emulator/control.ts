/**
 * The emulator's own functions: settings, counters, what went wrong.
 *
 * @module
 */
import { createRequire } from "node:module";
import { join } from "node:path";

/** What tests ask of an emulator. */
export interface Emulator {
  /** Changes a setting; README.md lists them. */
  set(name: string, value: number): void;
  /** A setting or a counter. */
  get(name: string): number;
  /** Changes a variable as C sees it: `process.env` of Bun does not. */
  setVariable(name: string, value: string): void;
  /** Forgets what went wrong. */
  reset(): void;
}

interface Symbols {
  emu_set(name: Uint8Array, value: number): number;
  emu_get(name: Uint8Array): number;
  emu_setenv(name: Uint8Array, value: Uint8Array): number;
  emu_reset(): void;
}

function open(path: string): Symbols {
  // deno-lint-ignore no-explicit-any
  const { Deno } = globalThis as any;
  if (Deno !== undefined) {
    return Deno.dlopen(path, {
      emu_set: { parameters: ["buffer", "f64"], result: "i32" },
      emu_get: { parameters: ["buffer"], result: "f64" },
      emu_setenv: { parameters: ["buffer", "buffer"], result: "i32" },
      emu_reset: { parameters: [], result: "void" },
    }).symbols;
  }
  return createRequire(import.meta.url)("bun:ffi").dlopen(path, {
    emu_set: { args: ["ptr", "f64"], returns: "i32" },
    emu_get: { args: ["ptr"], returns: "f64" },
    emu_setenv: { args: ["ptr", "ptr"], returns: "i32" },
    emu_reset: { args: [], returns: "void" },
  }).symbols;
}

/** The emulator of which `folder` holds the libraries. */
export function controlEmulator(folder: string): Emulator {
  const symbols = open(join(folder, "libcuda.so.1"));
  const text = (value: string): Uint8Array => new TextEncoder().encode(`${value}\0`);
  return {
    set(name: string, value: number): void {
      if (symbols.emu_set(text(name), value) !== 0) throw new Error(`no setting ${name}`);
    },
    get: (name: string): number => symbols.emu_get(text(name)),
    setVariable: (name: string, value: string): void =>
      void symbols.emu_setenv(text(name), text(value)),
    reset: (): void => symbols.emu_reset(),
  };
}
