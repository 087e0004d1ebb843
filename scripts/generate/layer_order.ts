/**
 * The layers of src: the order in which its folders may import each other, and their purposes.
 *
 * tests/project/layers_test.ts checks the sources against it, layers.ts draws it; this file
 * contains only data.
 *
 * @module
 */

/** Folders on one level. */
export interface Layer {
  /** Folders of src, without subfolders that have a layer of their own. */
  readonly folders: readonly string[];
  /** Their purpose. */
  readonly what: string;
}

/** Adjacent layers, by subject. */
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
      { folders: ["command"], what: "the command: serves models, chats, embeds, tells of models" },
      { folders: ["serve/page"], what: "the page at / of a server" },
      { folders: ["serve"], what: "services with models, for the program's own server" },
      {
        folders: ["serve/inference", "serve/openai"],
        what: "the Open Inference Protocol; OpenAI's API: chats, embeddings, ranks",
      },
      {
        folders: ["serve/http"],
        what: "services: keys, limits, deadlines, logs, metrics, sockets",
      },
      { folders: ["models"], what: "embeddings, classification and chats of texts" },
      { folders: ["models/encoders"], what: "families of encoders, and which files they take" },
      {
        folders: ["constraints", "hub", "images", "distributed"],
        what: "grammars of texts; downloads models; PNG and JPEG files; several processes",
      },
      { folders: ["onnx"], what: "models in ONNX files, as programs" },
      { folders: ["onnx/ops"], what: "the ops of ONNX" },
      { folders: ["onnx/graph"], what: "graphs of ONNX files, and their values" },
      { folders: ["train"], what: "batches of data, and checkpoints of training" },
      { folders: ["optim"], what: "optimizers of parameters by their derivatives" },
      { folders: ["grad"], what: "derivatives of functions of trees of tensors" },
      { folders: ["grad/rules"], what: "derivatives of ops" },
      { folders: ["grad/tape"], what: "notes the calls of a function, and goes back through them" },
      { folders: ["llm"], what: "text generation: models, sessions, sampling" },
      {
        folders: ["llm/batch"],
        what: "runs the texts of a model together, on pages of one memory",
      },
      { folders: ["llm/families"], what: "families of language models, and which files they take" },
      {
        folders: ["llm/blocks"],
        what: "parts of language models: attention, experts, convolutions",
      },
      { folders: ["llm/config"], what: "sizes and switches of language models" },
      { folders: ["llm/sampling"], what: "chooses tokens by logits: options, texts, batches" },
      { folders: ["tokenizers"], what: "texts to tokens and back, and templates of chats" },
      { folders: ["tokenizers/jinja"], what: "chat templates with the meaning of Python's Jinja" },
      { folders: ["compile"], what: "traces functions, and runs them as programs" },
      { folders: ["nn"], what: "neural networks: functions on tensors, and layers of a file" },
      { folders: ["nn/decoder"], what: "rotary positions, and attention to a cache" },
      { folders: ["nn/weights"], what: "which tensors of a file were asked for, and are loaded" },
      { folders: ["compile/report"], what: "reports on programs: text and diagrams" },
      { folders: ["io", "profile", "lint"], what: "files; profiles; a lint plugin" },
      {
        folders: ["api", "device"],
        what: "transforms; linear algebra; random numbers; special functions; devices",
      },
      { folders: ["api/signal"], what: "convolutions and polynomials" },
      {
        folders: ["api/functions", "api/linalg", "api/random"],
        what: "functions of tensors; parts of linear algebra and of random numbers",
      },
      { folders: ["api/sets"], what: "sets, searching, histograms" },
      { folders: ["tensor"], what: "class Tensor, creation, formats, ops of programs" },
    ],
  },
  {
    title: "Backends",
    layers: [
      { folders: ["backend"], what: "registers the backends of the CPU and of CUDA devices" },
      { folders: ["backend/wasm"], what: "the C kernels as a WebAssembly module" },
      { folders: ["backend/js", "backend/native", "backend/cuda"], what: "loops; C; GPU kernels" },
      { folders: ["backend/js/linalg"], what: "linear algebra in JavaScript" },
      {
        folders: ["backend/js/special", "backend/cuda/source"],
        what: "special functions of a number; the ops of the table as CUDA C",
      },
      { folders: ["backend/ffi"], what: "the C library's symbols, and how it is opened" },
    ],
  },
  {
    title: "Ops by family",
    layers: [
      {
        folders: ["ops/conv", "ops/image", "ops/recurrent"],
        what: "convolutions and pooling; samples of images; recurrent layers",
      },
      {
        folders: ["ops/attention", "ops/manipulate", "ops/sort"],
        what: "attention; repeats, rolls, pads; orders and quantiles",
      },
      {
        folders: ["ops/index", "ops/collective", "ops/softmax_norm"],
        what: "elements at indices; collectives; softmax and norms",
      },
      {
        folders: ["ops/fft", "ops/linalg", "ops/reduce"],
        what: "transforms; factors of matrices; results along axes",
      },
      {
        folders: ["ops/einsum", "ops/linear"],
        what: "sums over labels; linear layers and packed weights",
      },
      {
        folders: ["ops/chain", "ops/complex", "ops/matmul", "ops/quantized"],
        what: "fused ops; complex numbers; products; blocks of weights",
      },
      {
        folders: ["ops/create", "ops/join", "ops/random", "ops/sets"],
        what: "new tensors; joins; random numbers; sets",
      },
    ],
  },
  {
    title: "Calls and ops",
    layers: [
      { folders: ["core"], what: "checks, promotes, plans, allocates, calls a backend" },
      { folders: ["table"], what: "op types, the op table, expressions, result rules" },
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

/** Files that only one other file of src may import: only dispatch calls backends. */
export const ONLY_FROM: Readonly<Record<string, string>> = {
  "core/registry.ts": "core/dispatch.ts",
};

/** The folders by layer, lowest first. */
export const LAYERS: readonly (readonly string[])[] = LAYER_GROUPS
  .flatMap(({ layers }) => layers.map(({ folders }) => folders))
  .reverse();
