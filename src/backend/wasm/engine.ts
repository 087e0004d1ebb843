/**
 * WebAssembly as the runtime has it: programs compile without the types of browsers.
 *
 * @module
 */

/** A compiled module. */
export type WasmModule = object;

/** A variable of a module. */
export interface WasmGlobal {
  value: number;
}

/** The classes of `WebAssembly` that this library uses. */
export interface Engine {
  readonly Module: new (bytes: Uint8Array) => WasmModule;
  readonly Instance: new (module: WasmModule, imports: object) => {
    readonly exports: Readonly<Record<string, unknown>>;
  };
  readonly Memory: new (pages: { initial: number; maximum: number }) => {
    readonly buffer: ArrayBuffer;
  };
}

/** Undefined in a runtime without WebAssembly. */
export const engine: Engine | undefined =
  (globalThis as { readonly WebAssembly?: Engine }).WebAssembly;

/** Whether a value is a module that this runtime has compiled. */
export function isModule(value: unknown): value is WasmModule {
  return engine !== undefined && value instanceof engine.Module;
}
