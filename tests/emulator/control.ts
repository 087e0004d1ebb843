/**
 * The emulator's own functions: settings, counters, reported errors.
 *
 * @module
 */
import { join } from "node:path";
import { openLibrary } from "../native/ffi.ts";

/** The interface of an emulator for tests. */
export interface Emulator {
  /** Changes a setting; README.md lists them. */
  set(name: string, value: number): void;
  /** A setting or a counter. */
  get(name: string): number;
  /** Changes a variable for C code: `process.env` of Bun does not. */
  setVariable(name: string, value: string): void;
  /** Clears reported errors. */
  reset(): void;
}

interface Symbols {
  emu_set(name: Uint8Array, value: number): number;
  emu_get(name: Uint8Array): number;
  emu_setenv(name: Uint8Array, value: Uint8Array): number;
  emu_reset(): void;
}

/** The emulator whose libraries are in `folder`. */
export function controlEmulator(folder: string): Emulator {
  const symbols = openLibrary<Symbols>(join(folder, "libcuda.so.1"), {
    emu_set: ["i32", "buffer", "f64"],
    emu_get: ["f64", "buffer"],
    emu_setenv: ["i32", "buffer", "buffer"],
    emu_reset: ["void"],
  });
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
