/**
 * Finds the WebAssembly module on request, and compiles it, or reports why it cannot.
 *
 * Importing this module compiles nothing. A package contains the module; a checkout reads the output
 * of zig, which needs the permission to read it. Nothing here prompts.
 *
 * @module
 */
import { ArgumentError } from "../../base/errors.ts";
import { abiHash, type Unavailable, VERSION } from "../ffi/abi.ts";
import { inWords, pathOf } from "../ffi/cache.ts";
import { embedded } from "../ffi/embedded.ts";
import { host } from "../ffi/runtime.ts";
import { engine, type WasmModule } from "./engine.ts";
import { WasmShim } from "./shim.ts";

/** The variable of the environment with the size of the memory. */
const VARIABLE = "ROWMAJOR_WASM_MEMORY";

/** The file name of the module. */
export const WASM_FILE = "rowmajor.wasm";

const MEBIBYTE = 2 ** 20;
/** The bytes of the memory, of which the system backs those that are used. */
const MEMORY_BYTES = 1024 * MEBIBYTE;
/** The module's own data, and room for some storages. */
export const LEAST_MEMORY: number = 16 * MEBIBYTE;
/** Addresses have 32 bits, and the last page has none. */
export const MOST_MEMORY: number = 4095 * MEBIBYTE;

let memoryBytes: number | undefined;
let given: WasmModule | undefined;
let found: WasmShim | Unavailable | undefined;

/** Where the module comes from, and its memory. */
export interface WasmOptions {
  /** The bytes of the memory. */
  readonly memory?: number | undefined;
  /** The module, for a program that finds it elsewhere than this package would. */
  readonly module?: WasmModule | undefined;
}

/** Sets options of the module before it is opened; false if it is already. */
export function configureWasm({ memory, module }: WasmOptions): boolean {
  if (found !== undefined && !("reason" in found)) return false;
  found = undefined;
  memoryBytes = memory ?? memoryBytes;
  given = module ?? given;
  return true;
}

/**
 * The module, opened once for this thread, or why there is none.
 *
 * Throws an ArgumentError if `ROWMAJOR_WASM_MEMORY` has a value that it does not take.
 */
export function findWasm(): WasmShim | Unavailable {
  return found ??= openWasm(memoryBytes ?? memoryOfEnvironment());
}

/** The bytes that `ROWMAJOR_WASM_MEMORY` gives in mebibytes, or those without it. */
function memoryOfEnvironment(): number {
  const text = host.variable(VARIABLE) || "";
  if (text === "") return MEMORY_BYTES;
  const bytes = Number(text) * MEBIBYTE;
  if (isMemorySize(bytes)) return bytes;
  throw new ArgumentError(
    `Cannot use ${VARIABLE}=${text}: it is a number of MiB from ${LEAST_MEMORY / MEBIBYTE} to ${
      MOST_MEMORY / MEBIBYTE
    }`,
  );
}

/** Whether a module can have a memory of so many bytes. */
export function isMemorySize(bytes: number): boolean {
  return Number.isSafeInteger(bytes) && bytes >= LEAST_MEMORY && bytes <= MOST_MEMORY;
}

/** Why there is no module; null if there seems to be one. Compiles nothing. */
export function whyNoWasm(): string | null {
  if (engine === undefined) return "this runtime has no WebAssembly";
  if (found !== undefined) return "reason" in found ? found.reason : null;
  if (given !== undefined || embedded?.wasm !== undefined) return null;
  const path = builtModule();
  return typeof path === "string" ? null : path.reason;
}

let compiled: WasmModule | undefined;

/** An instance of its own, with a memory of so many bytes, or why there is none. Never throws. */
export function openWasm(memoryBytes: number): WasmShim | Unavailable {
  const reason = whyNoWasm();
  if (reason !== null) return { reason };
  try {
    const module = given ?? (compiled ??= new engine!.Module(readModule()));
    const shim = new WasmShim(module, memoryBytes);
    const { functions } = shim;
    if (functions.rm_version() !== VERSION || functions.rm_abi_hash() !== abiHash()) {
      return { reason: `${WASM_FILE} was built from other declarations: build it again` };
    }
    return shim;
  } catch (error) {
    return { reason: inWords(error) };
  }
}

/** The path of the module in a checkout, or why there is none that this program may read. */
function builtModule(): string | Unavailable {
  const url = new URL(`../../../zig-out/wasm/${WASM_FILE}`, import.meta.url);
  if (url.protocol !== "file:") return { reason: "a remote module has no WebAssembly module" };
  const path = pathOf(url);
  if (!host.may("read", path)) {
    return { reason: `not allowed to read ${path}: use --allow-read=${path}` };
  }
  if (host.look(path) === undefined) return { reason: `there is no ${path}: zig build wasm` };
  return path;
}

/** The bytes of the module. Throws an error that names why there are none. */
function readModule(): Uint8Array<ArrayBuffer> {
  const { wasm } = embedded ?? {};
  if (wasm === undefined) return host.read(builtModule() as string);
  const content = wasm();
  if (content === undefined) throw new Error("this bundle does not contain the WebAssembly module");
  const { Buffer } = globalThis.process.getBuiltinModule("node:buffer");
  const { brotliDecompressSync } = globalThis.process.getBuiltinModule("node:zlib");
  return brotliDecompressSync(Buffer.from(content, "base64"));
}
