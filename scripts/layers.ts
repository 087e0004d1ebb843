/**
 * The layers of src: the order in which its files may import each other, and what each is for.
 *
 * tests/layers_test.ts holds the sources to it, gen_layers.ts draws it; this file only holds data.
 *
 * @module
 */

/** Files that stand on one level. */
export interface Layer {
  /** Names in src; one that ends in "/" stands for the files of a folder without a name of their own. */
  readonly files: readonly string[];
  /** What they are for. */
  readonly what: string;
}

/** Neighbouring layers, by what they are about. */
export interface LayerGroup {
  readonly title: string;
  readonly layers: readonly Layer[];
}

/**
 * The layers, highest first. A file imports from its own layer and from those below it, types
 * included.
 */
export const LAYER_GROUPS: readonly LayerGroup[] = [
  {
    title: "What programs call",
    layers: [
      {
        files: ["create.ts", "random.ts", "io/mod.ts", "image.ts", "info.ts", "devices.ts"],
        what: "make tensors, carry them to files, tell what there is",
      },
      { files: ["tensor.ts"], what: "class Tensor: documented methods" },
    ],
  },
  {
    title: "Ops, on operands",
    layers: [
      {
        files: ["composites.ts", "indexing.ts", "manipulate.ts", "linalg.ts", "format.ts"],
        what: "ops made of others; how tensors are shown",
      },
      { files: ["dispatch.ts"], what: "check, promote, plan, allocate, one backend call" },
    ],
  },
  {
    title: "Backends and formats",
    layers: [
      {
        files: ["backends/cpu.ts", "backends/cuda.ts"],
        what: "what serves the CPU; and CUDA devices",
      },
      {
        files: ["backends/js/", "backends/native/", "backends/cuda/", "io/"],
        what: "loops; C; kernels of a GPU; file formats",
      },
      { files: ["backends/shim/"], what: "the C library's symbols, and how it is opened" },
      { files: ["backend.ts"], what: "what a device has to be able to do" },
    ],
  },
  {
    title: "Descriptions and memory",
    layers: [
      {
        files: ["element.ts", "plan.ts", "rules.ts"],
        what: "one element; layouts to loops; rules for C",
      },
      { files: ["types.ts", "types/"], what: "shapes and dtypes at compile time" },
      {
        files: ["slice.ts", "storage.ts", "cow.ts", "ops.ts"],
        what: "basic indexing; memory; copies on write; THE op table",
      },
      { files: ["layout.ts"], what: "shape, strides, offset: every view" },
      { files: ["half.ts", "expr.ts"], what: "16-bit floats; the expressions of the table" },
      { files: ["shape.ts"], what: "checks, broadcasting, axes" },
      { files: ["dtype.ts"], what: "names, sizes, promotion" },
      { files: ["errors.ts"], what: "every error class; errors as values" },
    ],
  },
];

/** The names of files by layer, lowest first. */
export const LAYERS: readonly (readonly string[])[] = LAYER_GROUPS
  .flatMap(({ layers }) => layers.map(({ files }) => files))
  .reverse();
