/**
 * The layers of src: the order in which its folders may import each other, and what each is for.
 *
 * tests/project/layers_test.ts holds the sources to it, layers.ts draws it; this file only holds
 * data.
 *
 * @module
 */

/** Folders that stand on one level. */
export interface Layer {
  /** Folders of src, without those inside them that have a place of their own. */
  readonly folders: readonly string[];
  /** What they are for. */
  readonly what: string;
}

/** Neighbouring layers, by what they are about. */
export interface LayerGroup {
  readonly title: string;
  readonly layers: readonly Layer[];
}

/**
 * The layers, highest first. A file imports from its own folder and from folders of the layers below,
 * types included.
 */
export const LAYER_GROUPS: readonly LayerGroup[] = [
  {
    title: "What programs call",
    layers: [
      {
        folders: ["io", "random", "device"],
        what: "files; random numbers; devices and what serves",
      },
      { folders: ["tensor"], what: "class Tensor, creation, and the ops on operands" },
    ],
  },
  {
    title: "Backends",
    layers: [
      { folders: ["backend"], what: "registers what serves the CPU, and CUDA devices" },
      { folders: ["backend/js", "backend/native", "backend/cuda"], what: "loops; C; GPU kernels" },
      { folders: ["backend/ffi"], what: "the C library's symbols, and how it is opened" },
    ],
  },
  {
    title: "Calls and ops",
    layers: [
      { folders: ["core"], what: "check, promote, plan, allocate, one backend call" },
      { folders: ["ops"], what: "THE op table and its expressions" },
    ],
  },
  {
    title: "Descriptions and memory",
    layers: [
      { folders: ["memory"], what: "storages, the pool, devices' memory, copies on write" },
      { folders: ["types"], what: "shapes and dtypes at compile time" },
      { folders: ["base"], what: "errors, dtypes, shapes, layouts, slices" },
    ],
  },
];

/** Files that only one other file of src may import: a backend is entered from dispatch alone. */
export const ONLY_FROM: Readonly<Record<string, string>> = {
  "core/registry.ts": "core/dispatch.ts",
};

/** The folders by layer, lowest first. */
export const LAYERS: readonly (readonly string[])[] = LAYER_GROUPS
  .flatMap(({ layers }) => layers.map(({ folders }) => folders))
  .reverse();
