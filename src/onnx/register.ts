/**
 * Puts this library in the place of `onnxruntime-node` for modules that require or import it later, such
 * as transformers.js: import it before them.
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

/** The part of Bun's runtime in use. */
interface Bun {
  plugin?(plugin: {
    readonly name: string;
    setup(build: {
      module(name: string, load: () => { exports: object; loader: "object" }): unknown;
    }): void;
  }): unknown;
}

const REQUEST = "onnxruntime-node";
const NAME = "rowmajor:onnxruntime-node";
/** The main module of the package, in node_modules and in the cache of Deno. Deno requires it by its path. */
const MAIN =
  /[\\/](?:node_modules|npm[\\/][^\\/]+)[\\/]onnxruntime-node[\\/](?:\d[^\\/]*[\\/])?(?:dist[\\/])?index\.js$/;

function register(): void {
  const { process } = globalThis;
  const found: unknown = process?.getBuiltinModule?.("node:module");
  const loader = (found as { Module?: Loader } | undefined)?.Module ?? found as Loader | undefined;
  if (typeof loader?._resolveFilename !== "function") {
    throw new DeviceError("Cannot replace onnxruntime-node: this runtime has no node:module");
  }
  if (loader._cache[NAME] !== undefined) return;
  const { Bun } = globalThis as { Bun?: Bun };
  const before = Object.keys(loader._cache).find((path) => MAIN.test(path));
  if (before !== undefined) {
    // Bun loads all that a program imports statically before the first module runs.
    const how = Bun === undefined ? "" : '; "bun --preload" does so where a program imports it';
    throw new DeviceError(
      `Cannot replace onnxruntime-node: ${before} is loaded already; import ` +
        `@rowmajor/tensor/onnx/register before the modules that use it${how}`,
    );
  }
  const exports = { ...session, default: session };
  const own = new loader(NAME);
  own.exports = exports;
  own.filename = NAME;
  own.loaded = true;
  loader._cache[NAME] = own;
  const resolve = loader._resolveFilename;
  loader._resolveFilename = function (request: string, ...rest: unknown[]): string {
    if (request === REQUEST) return NAME;
    const path = resolve.call(this, request, ...rest);
    return MAIN.test(path) ? NAME : path;
  };
  // Modules that import it do not ask the loader of CommonJS there.
  Bun?.plugin?.({
    name: "rowmajor",
    setup: (build) => build.module(REQUEST, () => ({ exports, loader: "object" })),
  });
}

register();
