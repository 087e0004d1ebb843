/**
 * Puts this library in the place of `onnxruntime-node` for modules that are loaded later, such as
 * transformers.js: import it before them.
 *
 * ```js
 * import "@rowmajor/tensor/onnx/register";
 * import { pipeline } from "@huggingface/transformers";
 * ```
 *
 * @module
 */
import { DeviceError } from "../base/errors.ts";
import * as session from "./session.ts";

/** The part of `node:module` in use. */
interface Loader {
  new (name: string): Loaded;
  _cache: Record<string, Loaded>;
  _resolveFilename(request: string, ...rest: unknown[]): string;
}

/** A module of CommonJS. */
interface Loaded {
  exports: unknown;
  filename: string | null;
  loaded: boolean;
}

const REQUEST = "onnxruntime-node";
const NAME = "rowmajor:onnxruntime-node";

/** Whether one of the modules that this replaces was loaded before. */
function loadedBefore(loader: Loader): string | undefined {
  return Object.keys(loader._cache).find((path) => /[\\/]onnxruntime-node[\\/]/.test(path));
}

function register(): void {
  const { process } = globalThis;
  const found: unknown = process?.getBuiltinModule?.("node:module");
  const loader = (found as { Module?: Loader } | undefined)?.Module ?? found as Loader | undefined;
  if (typeof loader?._resolveFilename !== "function") {
    throw new DeviceError("Cannot replace onnxruntime-node: this runtime has no node:module");
  }
  if (loader._cache[NAME] !== undefined) return;
  const before = loadedBefore(loader);
  if (before !== undefined) {
    throw new DeviceError(
      `Cannot replace onnxruntime-node: ${before} is loaded already; import ` +
        "@rowmajor/tensor/onnx/register before the modules that use it",
    );
  }
  const own = new loader(NAME);
  own.exports = { ...session, default: session };
  own.filename = NAME;
  own.loaded = true;
  loader._cache[NAME] = own;
  const resolve = loader._resolveFilename;
  loader._resolveFilename = function (request: string, ...rest: unknown[]): string {
    return request === REQUEST ? NAME : resolve.call(this, request, ...rest);
  };
}

register();
