/**
 * A plugin of Bun's bundler, for executables of programs that use transformers.js.
 *
 * transformers.js imports the package `sharp`, whose native part no executable has inside. The plugin
 * puts a module in its place, so that texts and sound work. A picture that transformers.js decodes or
 * resizes is an error that says so: pass a `RawImage` of the size that the model takes.
 *
 * ```js
 * import { plugin } from "@rowmajor/tensor/onnx/bun";
 *
 * await Bun.build({
 *   entrypoints: ["main.ts"],
 *   compile: { outfile: "main" },
 *   plugins: [plugin],
 * });
 * ```
 *
 * @module
 */

/** The part of Bun's bundler in use. */
export interface BundlerBuild {
  /** Has `resolve` find modules whose names match. */
  onResolve(
    options: { readonly filter: RegExp },
    resolve: () => { readonly path: string; readonly namespace: string },
  ): unknown;
  /** Has `load` make modules of a namespace. */
  onLoad(
    options: { readonly filter: RegExp; readonly namespace: string },
    load: () => { readonly contents: string; readonly loader: "js" },
  ): unknown;
}

/** A plugin of Bun's bundler. */
export interface BundlerPlugin {
  /** Its name. */
  readonly name: string;
  /** Called by the bundler. */
  setup(build: BundlerBuild): void;
}

const NAMESPACE = "rowmajor-sharp";

/** What stands for sharp: a function that throws. */
const CONTENTS = `export default function sharp() {
  throw new Error(
    "Cannot decode or resize a picture in this executable: it has no sharp; pass a RawImage of the size " +
      "that the model takes",
  );
}
`;

/** The plugin: a module for `sharp` that throws when it is used. */
export const plugin: BundlerPlugin = {
  name: "rowmajor",
  setup(build) {
    build.onResolve({ filter: /^sharp$/ }, () => ({ path: "sharp", namespace: NAMESPACE }));
    build.onLoad(
      { filter: /^/, namespace: NAMESPACE },
      () => ({ contents: CONTENTS, loader: "js" }),
    );
  },
};
