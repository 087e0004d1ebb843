/**
 * The pages of the API reference, by task.
 *
 * A member of Tensor is on the page of its section in tensor.ts unless `names` of a page lists it,
 * any other export on the page of its file.
 *
 * @module
 */

/** A page. */
export interface ApiPage {
  /** The name of its file. */
  readonly id: string;
  /** Its heading. */
  readonly title: string;
  /** What its functions do. */
  readonly about: string;
  /** Pages of docs/ to read first: a title, and a file with an anchor. */
  readonly guides: Readonly<Record<string, string>>;
  /** Members of Tensor, whatever their section. */
  readonly names?: readonly string[];
  /** Sections of the class Tensor, as the comments in tensor.ts call them. */
  readonly sections?: readonly string[];
  /** Source files below src/, or folders. */
  readonly files?: readonly string[];
}

/** The pages in the order of the sidebar. */
export const API_PAGES: readonly ApiPage[] = [
  {
    id: "creation",
    title: "Creating tensors",
    about: "Functions that make tensors from values, shapes and buffers.",
    guides: { "Tour": "tour.md", "Dtypes": "dtypes.md" },
    files: ["tensor/create.ts", "tensor/complex.ts"],
  },
  {
    id: "properties",
    title: "Properties and values",
    about:
      "Shape, dtype and layout of a tensor, and its elements as JavaScript values, typed arrays and text.",
    guides: { "Tour": "tour.md", "Memory": "memory.md" },
    names: ["Tensor"],
    sections: ["what it is", "values"],
  },
  {
    id: "views",
    title: "Shapes, slices and views",
    about: "Other shapes and parts of a tensor, which share its memory.",
    guides: { "Indexing": "indexing.md", "Shapes in types": "shapes-in-types.md" },
    sections: ["views"],
  },
  {
    id: "indexing",
    title: "Selecting and writing elements",
    about: "Elements by index, and writing to them.",
    guides: { "Indexing": "indexing.md" },
    names: ["take", "takeAlongAxis", "putAlongAxis_", "nonzero", "oneHot"],
    sections: ["writing"],
  },
  {
    id: "elementwise",
    title: "Elementwise math",
    about: "Arithmetic, functions and activations, for each element. Shapes broadcast.",
    guides: { "Tour": "tour.md", "Dtypes": "dtypes.md", "Complex numbers": "complex.md" },
    sections: ["elementwise"],
  },
  {
    id: "comparison",
    title: "Comparison, logic and bits",
    about: "Tests of elements, of whole tensors, and operations on bits.",
    guides: { "Tour": "tour.md" },
    names: [
      "isclose",
      "equals",
      "allclose",
      "isnan",
      "isinf",
      "isfinite",
      "signbit",
      "equal",
      "notEqual",
      "less",
      "lessEqual",
      "greater",
      "greaterEqual",
      "logicalNot",
      "logicalAnd",
      "logicalOr",
      "logicalXor",
      "bitwiseInvert",
      "bitwiseAnd",
      "bitwiseOr",
      "bitwiseXor",
      "bitwiseLeftShift",
      "bitwiseRightShift",
    ],
  },
  {
    id: "in-place",
    title: "In place",
    about: "Methods that end in `_` write their result into the tensor, and return it.",
    guides: { "Memory": "memory.md" },
    sections: ["in place"],
  },
  {
    id: "reductions",
    title: "Reductions and norms",
    about: "Sums, extremes, statistics, running sums, softmax and norms along axes.",
    guides: { "Tour": "tour.md" },
    sections: ["reductions"],
  },
  {
    id: "products",
    title: "Products",
    about: "Matrix products, dot products, einsum and linear layers.",
    guides: { "Tour": "tour.md", "Einsum": "einsum.md" },
    names: ["pack", "PackedWeight", "AnyPackedWeight", "Activation"],
    sections: ["products"],
    files: ["api/sets/contractions.ts"],
  },
  {
    id: "rearranging",
    title: "Joining, sorting and rearranging",
    about: "New tensors of the same elements in another order, number or dtype.",
    guides: { "Tour": "tour.md", "Indexing": "indexing.md" },
    sections: ["copies"],
    files: ["api/functions/tensors.ts"],
  },
  {
    id: "sets",
    title: "Sets, searching and histograms",
    about: "Unique elements, searches, counts, and reductions at indices.",
    guides: { "Sets": "sets.md" },
    files: [
      "api/sets/unique.ts",
      "api/sets/search.ts",
      "api/sets/bincount.ts",
      "api/sets/histogram.ts",
      "api/sets/scatter_reduce.ts",
    ],
  },
  {
    id: "memory",
    title: "Memory and ownership",
    about: "Disposing of tensors, copies, and memory that tensors share.",
    guides: { "Memory": "memory.md" },
    names: ["scope", "keep", "attempt", "sharesBuffer"],
    sections: ["ownership"],
    files: ["memory"],
  },
  {
    id: "devices",
    title: "Devices, backends and threads",
    about: "Devices, backends and threads of ops.",
    guides: { "Devices": "devices.md", "Installation": "install.md" },
    files: ["device"],
  },
  {
    id: "programs",
    title: "Compiled programs",
    about: "Compiled functions, which run in one native call, also off the event loop.",
    guides: { "Make it fast": "fast.md", "Programs": "programs.md" },
    files: ["compile"],
  },
  {
    id: "models",
    title: "Ready models",
    about: "Embeddings, classification and chats, from the files of a model.",
    guides: { "Embeddings": "embeddings.md", "Chat": "chat.md" },
    files: ["models"],
  },
  {
    id: "serve",
    title: "Services",
    about: "Services with models: OpenAI's API, the Open Inference Protocol, and batches.",
    guides: { "Serving": "serving.md" },
    files: ["serve"],
  },
  {
    id: "nn",
    title: "Neural networks",
    about: "Layers, attention, caches and the weights of model files.",
    guides: { "Load your own model": "models.md", "Coming from PyTorch": "from-pytorch.md" },
    files: ["nn", "io/find_model.ts", "hub"],
  },
  {
    id: "training",
    title: "Derivatives and training",
    about: "Derivatives of functions, optimizers, batches and checkpoints.",
    guides: { "Train a model": "train.md", "Derivatives": "derivatives.md" },
    files: ["grad", "optim", "train"],
  },
  {
    id: "llm",
    title: "Text generation",
    about: "Language models, sessions and sampling.",
    guides: {
      "Generate text": "generate.md",
      "Generate many texts": "engine.md",
      "Quantize weights": "quantize.md",
    },
    files: ["llm"],
  },
  {
    id: "constraints",
    title: "Constraints of text",
    about: "Choices, JSON of schemas and grammars, which generated text follows.",
    guides: { "Constrain text": "constraints.md", "Generate text": "generate.md" },
    files: ["constraints"],
  },
  {
    id: "onnx",
    title: "ONNX files",
    about: "Models in ONNX files, and the interface of ONNX Runtime.",
    guides: { "ONNX files": "onnx.md" },
    files: ["onnx"],
  },
  {
    id: "tokenizers",
    title: "Tokenizers",
    about: "Tokenizers of tokenizer.json and of GGUF files, and chat templates.",
    guides: { "Tokenizers": "tokenizers.md", "Generate text": "generate.md" },
    files: ["tokenizers"],
  },
  {
    id: "profiling",
    title: "Profiling",
    about: "The time, bandwidth and arithmetic rate of each op of a function.",
    guides: { "Profiling": "profiling.md" },
    files: ["profile"],
  },
  {
    id: "fft",
    title: "Fourier transforms",
    about: "Discrete Fourier transforms of any length; convolutions and polynomials.",
    guides: { "Fourier transforms": "fft.md" },
    files: ["api/fft.ts", "api/signal"],
  },
  {
    id: "linalg",
    title: "Linear algebra",
    about: "Factors, systems of equations, eigenvalues, singular values and norms.",
    guides: { "Linear algebra": "linalg.md" },
    files: ["api/linalg.ts", "api/linalg"],
  },
  {
    id: "statistics",
    title: "Statistics and functions",
    about: "Means with weights, covariances, gradients, interpolation, indices, dtypes.",
    guides: { "Statistics": "statistics.md" },
    sections: ["reductions without NaN"],
    files: ["api/functions"],
  },
  {
    id: "special",
    title: "Special functions",
    about: "The gamma family, error functions and their inverses, Bessel functions, entropies.",
    guides: { "Special functions": "special.md" },
    files: ["api/special.ts"],
  },
  {
    id: "random",
    title: "Random numbers",
    about: "Random tensors with explicit keys: the same key gives the same numbers.",
    guides: { "Random numbers": "random.md" },
    files: ["api/random.ts", "api/random"],
  },
  {
    id: "io",
    title: "Files",
    about: "npy, npz and safetensors, as files and as bytes.",
    guides: { "Files": "files.md" },
    files: ["io"],
  },
  {
    id: "images",
    title: "PNG and JPEG files",
    about: "PNG and JPEG files as tensors, by packages that a program installs.",
    guides: { "Pictures": "files.md#pictures" },
    files: ["images"],
  },
  {
    id: "distributed",
    title: "Several processes",
    about: "Collectives and messages of tensors, by MPI.",
    guides: { "Several processes": "distributed.md" },
    files: ["distributed"],
  },
  {
    id: "image",
    title: "Images in notebooks",
    about: "Tensors as pictures.",
    guides: { "Notebooks": "jupyter.md" },
    files: ["io/image.ts"],
  },
  {
    id: "custom-ops",
    title: "Custom ops",
    about: "Ops from expressions and functions, on all backends.",
    guides: { "Adding an op": "add-an-op.md" },
    files: ["tensor/define_op.ts"],
  },
  {
    id: "dtypes",
    title: "Dtypes, layouts and slices",
    about: "The descriptions of tensors: dtypes, layouts, slices and ranges.",
    guides: { "Dtypes": "dtypes.md", "Indexing": "indexing.md" },
    files: ["base"],
  },
  {
    id: "errors",
    title: "Errors",
    about: "The classes of errors. Messages name the op, the argument and the shapes.",
    guides: { "Tour": "tour.md" },
    files: ["base/errors.ts"],
  },
  {
    id: "types",
    title: "Options and types",
    about:
      "Types of parameters and results. Those that only the compiler uses, to work out the types of results, are left out.",
    guides: { "Shapes in types": "shapes-in-types.md" },
    files: ["tensor", "types", "ops", "api"],
  },
];
