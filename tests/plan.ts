/**
 * What runs when: the runtimes of each test file in `npm test` and in `npm run test:all`, and the
 * processor time that `npm test` may take.
 *
 * A file that no rule names runs in both runtimes in both.
 *
 * @module
 */

export type Runtime = "deno" | "bun";

/** `test` is what a change must pass, in ten minutes; `all` is everything. */
export type Suite = "test" | "all";

/** Files that do not run everywhere, and why. */
export interface Rule {
  readonly files: RegExp;
  readonly test: readonly Runtime[];
  readonly all: readonly Runtime[];
  readonly reason: string;
}

const BOTH: readonly Runtime[] = ["deno", "bun"];

/** The first rule that matches a file counts. */
export const RULES: readonly Rule[] = [
  {
    files: /^tests\/distributed\/(?!(collectives|ends|mismatches|nccl)_test)/,
    test: ["deno"],
    all: BOTH,
    reason: "the runtimes differ in how they call MPI and NCCL; those four files test that in both",
  },
  {
    files:
      /^examples\/|^tests\/(embed|classify_image|vad|detect|ocr|pipelines)\/|^tests\/command\/(chat|embed|info|settings)_|^tests\/serve\/(batches|deploy|docs|triton)_/,
    test: ["deno"],
    all: BOTH,
    reason:
      "examples are programs on the API, which other tests run in both; the runtimes differ in " +
      "sockets, signals and files, which the other tests of services and those of the hub cover",
  },
  {
    files: /^tests\/serve\/page_test/,
    test: ["deno"],
    all: BOTH,
    reason: "a browser runs the page; other tests of services run in both",
  },
  {
    files: /^tests\/serve\/clients_(ai|langchain|python)_test/,
    test: [],
    all: BOTH,
    reason: "two of them install packages; clients_openai_test.ts sends such requests",
  },
  {
    files: /^tests\/serve\/(clients_openai|load)_test/,
    test: ["bun"],
    all: BOTH,
    reason: "servers and clients that are processes; the tests of services are in both",
  },
  {
    files: /^tests\/serve\/(clients_curl|hostile|llama_server)_test/,
    test: ["deno"],
    all: BOTH,
    reason: "requests and answers, which do not depend on the runtime",
  },
  {
    files: /^tests\/tokenizers\/vocabularies_test/,
    test: [],
    all: BOTH,
    reason: "real vocabularies, which are fetched; tokenizer_test.ts has small ones of each kind",
  },
  {
    files: /^tests\/onnx\/(models|transformers)_test/,
    test: [],
    all: BOTH,
    reason:
      "models that are fetched or made; cases_test.ts and nodes_test.ts have their ops, and " +
      "session_test.ts has the interface that transformers.js uses",
  },
  {
    files: /^tests\/llm\/engine_fuzz_test/,
    test: [],
    all: BOTH,
    reason: "random mixes of texts; engine_test.ts and engine_callers_test.ts have chosen ones",
  },
  {
    files: /^tests\/tokenizers\/hostile_test/,
    test: ["deno"],
    all: BOTH,
    reason: "checks of values and sizes, which do not depend on the runtime",
  },
  {
    files: /^tests\/api\/leaks_test/,
    test: ["deno"],
    all: BOTH,
    reason: "what an op keeps does not depend on the runtime",
  },
  {
    files:
      /^tests\/(linalg\/(extremes|precision|sizes)|llm\/(adapter|families|need|quantized)|io\/sizes|compile\/unused)_test/,
    test: ["deno"],
    all: BOTH,
    reason: "values and errors of TypeScript and C, whose common cases factors_test.ts, " +
      "models_test.ts, fuzz_test.ts and every_op_test.ts test in both",
  },
  {
    files:
      /^tests\/(nn\/(activation|conv|interpolate|loss|norm|pool|rnn|winograd)|ops\/(int8|norm|quantized))_test/,
    test: ["deno"],
    all: BOTH,
    reason:
      "values of ops, of which table_test.ts, every_op_test.ts and recording_test.ts test a " +
      "sample in Bun; the C is the same",
  },
  {
    files:
      /^tests\/(fft\/(fft|out_views|signal)|sets\/(golden|sets)|sort\/(golden|selection|topk)|statistics\/(functions|integers|masks))_test/,
    test: ["deno"],
    all: BOTH,
    reason: "the same, of functions of several ops",
  },
  {
    files: /^tests\/lists\/parameters_test/,
    test: ["deno"],
    all: ["deno"],
    reason: "the type checker and the text of src are the same in both runtimes",
  },
  {
    files: /^tests\/gpu\/verify_test\.ts$/,
    test: [],
    all: BOTH,
    reason: "a script for machines with a GPU, which runs the other CUDA tests again",
  },
  {
    files: /^tests\/cuda\/prebuilt_test\.ts$/,
    test: [],
    all: BOTH,
    reason:
      "it compiles every kernel of releases; cuda/ptx_test.ts runs some of them from their file, " +
      "and cuda/table_test.ts the same sources",
  },
  {
    files: /^tests\/(cuda\/(?!smoke_test)|gpu\/)/,
    test: ["deno"],
    all: BOTH,
    reason: "what differs between foreign functions of the runtimes is in cuda/smoke_test.ts",
  },
  {
    files: /^tests\/((types|lint|project|site)\/(?!build_test)|llm\/types_test)/,
    test: ["deno"],
    all: ["deno"],
    reason: "compilers, sources and pages do not depend on the runtime",
  },
  {
    files: /^tests\/docs\/(?!docs_test)/,
    test: ["deno"],
    all: BOTH,
    reason: "docs_test.ts runs a sample of the examples in Bun too",
  },
  {
    files: /^tests\/site\/build_test/,
    test: [],
    all: ["deno"],
    reason: "it installs VitePress; api_test.ts and pages_test.ts check the pages and their links",
  },
  {
    files: /^tests\/browser\//,
    test: [],
    all: ["deno"],
    reason: "it installs a browser; tests/wasm tests the module in both runtimes",
  },
  {
    files: /^tests\/package\/start_test/,
    test: [],
    all: ["deno"],
    reason: "a benchmark; npm_test.ts and jsr_test.ts start programs from the packages",
  },
  {
    files: /^tests\/package\/(npm|typescript)_test/,
    test: ["bun"],
    all: ["bun"],
    reason: "they start both runtimes, Node and the compilers; Bun installs and bundles packages",
  },
  {
    files: /^tests\/package\/executable_test/,
    test: ["bun"],
    all: BOTH,
    reason: "executables of Deno need a runtime of their own",
  },
  {
    files: /^tests\/package\/(bundle|documents|kept)_test/,
    test: ["deno"],
    all: ["deno"],
    reason: "texts that scripts write do not depend on the runtime",
  },
  {
    files: /^tests\/native\/(breakpoint|sanitized|arm64)_test\.ts$/,
    test: [],
    all: ["deno"],
    reason: "they build the C code anew, for a debugger, with sanitizers or for arm64",
  },
  {
    files: /^tests\/native\/driver_test\.ts$/,
    test: ["deno"],
    all: ["deno"],
    reason: "C alone: the runtime only starts it",
  },
  {
    files: /^tests\/native\/(native|matmul|threads|lapack)_test\.ts$/,
    test: ["deno"],
    all: BOTH,
    reason: "results of the same C code; the ops and fuzz tests call it from both runtimes",
  },
];

/** A part of the tests. The first one that matches a file has it. */
export interface Subject {
  readonly name: string;
  readonly files: RegExp;
  /** Seconds of one core, in both runtimes together, of `npm test`. */
  readonly budget: number;
}

export const SUBJECTS: readonly Subject[] = [
  { name: "CUDA emulator", files: /^tests\/(cuda|emulator|gpu)\//, budget: 190 },
  { name: "distributed", files: /^tests\/distributed\//, budget: 80 },
  {
    name: "types and compilers",
    files: /^tests\/(types|package\/typescript)/,
    budget: 50,
  },
  { name: "packages and site", files: /^tests\/(package|site)\//, budget: 80 },
  { name: "docs", files: /^tests\/docs\//, budget: 60 },
  { name: "all else", files: /^/, budget: 680 },
];

/** Seconds of one core that a file may take in one runtime, in `npm test`. */
const FILE_BUDGET = 15;

/** Files that may take more. */
const LARGER: Readonly<Record<string, number>> = {
  "tests/docs/docs_test.ts": 60,
  "tests/package/npm_test.ts": 35,
  "tests/types/types_test.ts": 35,
  // Every op and dtype, of which each makes loops of its own.
  "tests/ops/table_test.ts": 50,
  // Each compiles many kernels for the emulator, and runs them.
  "tests/cuda/table_test.ts": 50,
  "tests/cuda/kernels/rounds_test.ts": 25,
  "tests/cuda/failures_test.ts": 25,
  "tests/cuda/shim_test.ts": 30,
  "tests/cuda/compile_test.ts": 25,
  "tests/cuda/programs_test.ts": 25,
  "tests/cuda/custom_ops_test.ts": 25,
  "tests/cuda/load_test.ts": 25,
  // Every op of the C code.
  "tests/native/native_test.ts": 25,
  "tests/native/driver_test.ts": 25,
};

/** The runtimes that run a file in a suite. */
export function runtimesOf(file: string, suite: Suite): readonly Runtime[] {
  return RULES.find(({ files }) => files.test(file))?.[suite] ?? BOTH;
}

/** The subject of a file. */
export function subjectOf(file: string): Subject {
  return SUBJECTS.find(({ files }) => files.test(file))!;
}

/** Seconds of one core that a file may take in one runtime, in `npm test`. */
export function budgetOf(file: string): number {
  return LARGER[file] ?? FILE_BUDGET;
}
