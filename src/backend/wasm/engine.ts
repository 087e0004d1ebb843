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

/** An instance of a module. */
export interface WasmInstance {
  readonly exports: Readonly<Record<string, unknown>>;
}

/** What this library uses of `WebAssembly`. */
export interface Engine {
  readonly Module: new (bytes: Uint8Array) => WasmModule;
  readonly Instance: new (module: WasmModule, imports: object) => WasmInstance;
  readonly Global: new (type: { value: string }, value: number) => WasmGlobal;
  readonly Memory: new (pages: { initial: number; maximum: number }) => {
    readonly buffer: ArrayBuffer;
  };
  instantiate(module: unknown, imports?: object): Promise<{ readonly instance: WasmInstance }>;
}

/** Undefined in a runtime without WebAssembly. */
export const engine: Engine | undefined =
  (globalThis as { readonly WebAssembly?: Engine }).WebAssembly;

/** Whether a value is a module that this runtime has compiled. */
export function isModule(value: unknown): value is WasmModule {
  return engine !== undefined && value instanceof engine.Module;
}
