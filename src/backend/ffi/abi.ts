/**
 * The interface of TypeScript and the shim: symbols, status codes, the numbers of the ops.
 *
 * The loaders of both runtimes use one table of symbols, each with its line of
 * shim/include/rowmajor.h; a hash shows whether a library was built from the same table. Kernels
 * are found by the names of their ops and a hash of the ops' meaning, so a library may lack some.
 * scripts/generate/ops_def.ts writes the constants from here into a C header for the shim. Knows
 * nothing of how libraries are opened or why functions are called.
 *
 * @module
 */
import type { DeviateDistribution, Distribution } from "../../ops/random/op.ts";
import type { Bend } from "../../ops/conv/problem.ts";
import type { Activation } from "../../ops/linear/panels.ts";
import { DTYPES, type TypedArray } from "../../base/dtype.ts";
import { MAX_CHAIN_OPERANDS, MAX_CHAIN_OUTPUTS, MAX_CHAIN_STEPS } from "../../ops/chain/steps.ts";
import type { TableOp } from "../../table/op.ts";
import { TABLE } from "../../table/table.ts";

/** A foreign type: a number, or memory, which is always passed as a typed array. */
export type ForeignType = "i32" | "f64" | "buffer";

/** A symbol of the shim. */
export interface ForeignSymbol {
  /** Its declaration in shim/include/rowmajor.h. */
  readonly c: string;
  /** Its parameters; every one returns an `i32`. */
  readonly parameters: readonly ForeignType[];
}

/** Every symbol of the shim. */
export const SYMBOLS = {
  rm_version: { c: "int32_t rm_version(void)", parameters: [] },
  rm_abi_hash: { c: "int32_t rm_abi_hash(void)", parameters: [] },
  rm_table_hash: { c: "int32_t rm_table_hash(void)", parameters: [] },
  rm_last_error: {
    c: "int32_t rm_last_error(void *buffer, int32_t length)",
    parameters: ["buffer", "i32"],
  },
  rm_address_of: {
    c: "int32_t rm_address_of(const void *memory, void *address)",
    parameters: ["buffer", "buffer"],
  },
  rm_configure: {
    c: "int32_t rm_configure(int32_t what, int32_t value)",
    parameters: ["i32", "i32"],
  },
  rm_find_kernel: {
    c: "int32_t rm_find_kernel(const void *name, int32_t hash)",
    parameters: ["buffer", "i32"],
  },
  rm_run: {
    c: "int32_t rm_run(int32_t kernel, int32_t dtypes, int32_t compute, double *numbers, " +
      "void *out, void *a, void *b, void *c)",
    parameters: ["i32", "i32", "i32", "buffer", "buffer", "buffer", "buffer", "buffer"],
  },
  rm_run_many: {
    c: "int32_t rm_run_many(int32_t kernel, int32_t dtypes, int32_t more_dtypes, " +
      "int32_t last_dtype, int32_t compute, double *numbers, void *out, void *a, void *b, void *c, " +
      "void *d, void *e, void *f, void *g, void *h)",
    parameters: [
      ...["i32", "i32", "i32", "i32", "i32", "buffer"] as const,
      ...["buffer", "buffer", "buffer", "buffer"] as const,
      ...["buffer", "buffer", "buffer", "buffer", "buffer"] as const,
    ],
  },
  rm_program: {
    c: "int32_t rm_program(int32_t what, double *numbers)",
    parameters: ["i32", "buffer"],
  },
  rm_program_bind: {
    c: "int32_t rm_program_bind(double frame, int32_t place, void *a, void *b, void *c, void *d)",
    parameters: ["f64", "i32", "buffer", "buffer", "buffer", "buffer"],
  },
  rm_program_copy: {
    c: "int32_t rm_program_copy(double frame, int32_t what, int32_t place, void *array)",
    parameters: ["f64", "i32", "i32", "buffer"],
  },
  rm_program_set: {
    c: "int32_t rm_program_set(double frame, int32_t call, int32_t index, double value)",
    parameters: ["f64", "i32", "i32", "f64"],
  },
  rm_program_run: {
    c: "int32_t rm_program_run(double frame, int32_t from, int32_t to)",
    parameters: ["f64", "i32", "i32"],
  },
  rm_program_fault: {
    c: "int32_t rm_program_fault(double frame, double *numbers, void *text, int32_t length)",
    parameters: ["f64", "buffer", "buffer", "i32"],
  },
  rm_blas_open: { c: "int32_t rm_blas_open(void)", parameters: [] },
  rm_blas_info: {
    c: "int32_t rm_blas_info(void *buffer, int32_t length)",
    parameters: ["buffer", "i32"],
  },
  rm_buffers: {
    c: "int32_t rm_buffers(int32_t what, double *numbers)",
    parameters: ["i32", "buffer"],
  },
  rm_files: {
    c: "int32_t rm_files(int32_t what, const void *path, double *numbers)",
    parameters: ["i32", "buffer", "buffer"],
  },
  rm_expect_module: {
    c: "int32_t rm_expect_module(int32_t what)",
    parameters: ["i32"],
  },
  rm_distributed: {
    c: "int32_t rm_distributed(int32_t what, double *numbers, void *out, const void *in)",
    parameters: ["i32", "buffer", "buffer", "buffer"],
  },
  rm_distributed_info: {
    c: "int32_t rm_distributed_info(void *buffer, int32_t length)",
    parameters: ["buffer", "i32"],
  },
  rm_cuda_open: {
    c: "int32_t rm_cuda_open(const void *folder, double *numbers)",
    parameters: ["buffer", "buffer"],
  },
  rm_cuda_info: {
    c: "int32_t rm_cuda_info(int32_t device, void *buffer, int32_t length)",
    parameters: ["i32", "buffer", "i32"],
  },
  rm_cuda_memory: {
    c: "int32_t rm_cuda_memory(int32_t what, int32_t device, double *numbers, void *host)",
    parameters: ["i32", "i32", "buffer", "buffer"],
  },
  rm_cuda_compile: {
    c: "int32_t rm_cuda_compile(int32_t device, const void *source, const void *names, " +
      "double *handles)",
    parameters: ["i32", "buffer", "buffer", "buffer"],
  },
  rm_cuda_launch: {
    c: "int32_t rm_cuda_launch(int32_t device, const double *call, const void *arguments)",
    parameters: ["i32", "buffer", "buffer"],
  },
  rm_cuda_matmul: {
    c: "int32_t rm_cuda_matmul(int32_t device, int32_t dtype, const double *plan)",
    parameters: ["i32", "i32", "buffer"],
  },
  rm_cuda_fft: {
    c: "int32_t rm_cuda_fft(int32_t device, const double *call)",
    parameters: ["i32", "buffer"],
  },
  rm_cuda_linalg: {
    c: "int32_t rm_cuda_linalg(int32_t device, double *call)",
    parameters: ["i32", "buffer"],
  },
  rm_cuda_nccl: {
    c: "int32_t rm_cuda_nccl(int32_t what, int32_t device, double *numbers, void *bytes)",
    parameters: ["i32", "i32", "buffer", "buffer"],
  },
  rm_cuda_control: {
    c: "int32_t rm_cuda_control(int32_t what, int32_t device, double *numbers)",
    parameters: ["i32", "i32", "buffer"],
  },
} as const satisfies Record<string, ForeignSymbol>;

type Arguments<P extends readonly ForeignType[]> = {
  [I in keyof P]: P[I] extends "buffer" ? TypedArray | null : number;
};

/** The functions of an open shim. */
export type Shim = {
  readonly [N in keyof typeof SYMBOLS]: (
    ...args: Arguments<(typeof SYMBOLS)[N]["parameters"]>
  ) => number;
};

/** Why a native component is unavailable. */
export interface Unavailable {
  /** The reason as text, for `info()`. */
  readonly reason: string;
}

/** Changes with the meaning of any symbol. */
export const VERSION = 11;

/** Status codes; the `bounds` check runs before a call, so the shim never returns it. */
export const STATUS = {
  ok: 0,
  unsupported: 1,
  badArgument: 2,
  notFound: 3,
  bounds: 4,
  outOfMemory: 5,
  deviceError: 6,
  badIndex: 7,
  cancelled: 8,
  distributed: 9,
} as const;

/** The settings of `rm_configure`. */
export const CONFIGURE = {
  threads: 0,
  level: 1,
  shareAll: 2,
  environment: 3,
  usedThreads: 4,
} as const;

/** The operations of `rm_buffers`. */
export const BUFFERS = {
  open: 0,
  take: 1,
  kept: 2,
  release: 3,
  give: 4,
  takeKept: 5,
} as const;

/** The operations of `rm_files`. */
export const FILES = { map: 0, hold: 1, release: 2, size: 3 } as const;

/** The purposes of this library as a module of Node-API. */
export const MODULE = { buffers: 0, queue: 1, files: 2, requests: 3 } as const;

/** The operations of `rm_distributed`. */
export const REQUEST = { start: 0, take: 1, wait: 2, abort: 3, launcher: 4, fail: 5 } as const;

/** What ranks do together, and the messages between two of them. */
export const COLLECTIVE = {
  allReduce: 0,
  allGather: 1,
  reduceScatter: 2,
  broadcast: 3,
  allToAll: 4,
  barrier: 5,
  send: 6,
  receive: 7,
  split: 8,
  open: 9,
  close: 10,
} as const;

/** The reductions of collectives. */
export const REDUCTION = { sum: 0, max: 1, min: 2 } as const;

/** The functions that call collectives, which ranks compare. */
export const METHOD = {
  allSum: 0,
  allMax: 1,
  allMin: 2,
  allMean: 3,
  allGather: 4,
  sumScatter: 5,
  broadcast: 6,
  allToAll: 7,
  barrier: 8,
  split: 9,
  averageGradients: 10,
  columnParallel: 11,
  rowParallel: 12,
  saveShards: 13,
} as const;

/**
 * The numbers of a collective: what it is, the group, the reduction, the elements (of the whole, or
 * of one rank where ranks have blocks), the offsets of the input and of the result, the root or the
 * other rank (the color of a split), the tag (the key of a split; whether ranks compare their calls,
 * for `open`), milliseconds until it fails, the most elements of one call of MPI (0 for the usual
 * number; −1 if ranks only compare what they call), the dtype where it is not in the call, how many
 * of these elements are one of the tensor (2 for complex numbers), and the function that was called.
 *
 * After a failure, `count` is the number of requests of MPI that still use the memory of the call.
 */
export const COLLECTIVE_AT = {
  kind: 0,
  group: 1,
  reduction: 2,
  count: 3,
  in: 4,
  out: 5,
  peer: 6,
  tag: 7,
  timeout: 8,
  limit: 9,
  dtype: 10,
  lanes: 11,
  method: 12,
  numbers: 13,
} as const;

/** The operations of `rm_program` and of `rm_program_copy`, and the kinds of buffers. */
export const PROGRAM = {
  make: 0,
  free: 1,
  makeFrame: 2,
  freeFrame: 3,
  write: 0,
  read: 1,
  arena: 0,
  bound: 1,
  copied: 2,
} as const;

/** The kinds of random numbers. */
export const RANDOM: Readonly<Record<Distribution, number>> = {
  bits: 0,
  uniform: 1,
  normal: 2,
  integers: 3,
};

/** The kinds of deviates. */
export const DEVIATE: Readonly<Record<DeviateDistribution, number>> = {
  gamma: 0,
  beta: 1,
  poisson: 2,
  binomial: 3,
  truncatedNormal: 4,
};

/** The limits of programs: the most tiles of a loop that run at once. */
export const PROGRAM_LIMITS = { slots: 32 } as const;

/**
 * The place of the arena in `rm_program_bind`, and how many bytes more it has than the program says, as
 * its buffers begin at a multiple of these.
 */
export const PROGRAM_ARENA = { place: -1, line: 64 } as const;

/** The limits of chains: the most steps, and the most operands, the outputs included. */
export const CHAIN_LIMITS = {
  steps: MAX_CHAIN_STEPS,
  operands: MAX_CHAIN_OUTPUTS + MAX_CHAIN_OPERANDS,
} as const;

/** The attributes of a chain: the numbers of its outputs, steps and constants. */
export const CHAIN_AT = { outputs: 0, steps: 1, constants: 2 } as const;

/** The numbers of a constant of a chain: its dtype, and its bits in two words. */
export const CHAIN_CONSTANT = { dtype: 0, low: 1, high: 2, numbers: 3 } as const;

/**
 * The numbers of a step of a chain: the number of the op, its compute dtype, the dtype of the
 * result, the output that it is or -1, whether it has one element only, three operands and three
 * parameters.
 */
export const CHAIN_STEP = {
  op: 0,
  compute: 1,
  result: 2,
  output: 3,
  single: 4,
  inputs: 5,
  parameters: 8,
  numbers: 11,
} as const;
/**
 * The numbers of `attention`, which the offsets of the problems of each operand follow. 0 for no limit of
 * scores.
 */
export const ATTENTION_AT = {
  batch: 0,
  groupSize: 1,
  queries: 2,
  keys: 3,
  depth: 4,
  valueDepth: 5,
  scale: 6,
  flags: 7,
  softCap: 8,
  strides: 9,
  numbers: 24,
} as const;

/** The numbers of `attentionBackward`, which the offsets of the problems of each operand follow. */
export const ATTENTION_BACKWARD_AT = {
  batch: 0,
  groupSize: 1,
  queries: 2,
  keys: 3,
  depth: 4,
  valueDepth: 5,
  scale: 6,
  causal: 7,
  strides: 8,
  numbers: 29,
} as const;

/**
 * The numbers of `cachedAttention` after those of `attention`; the offsets of its cache follow. 0 for no
 * window and no pages.
 */
export const CACHED_ATTENTION_AT = {
  keyStride: 0,
  valueStride: 1,
  capacity: 2,
  problemsPerLength: 3,
  lengthOffset: 4,
  window: 5,
  keyHeads: 6,
  sinkOffset: 7,
  stepwise: 8,
  pageRows: 9,
  pageCount: 10,
  keyPageStride: 11,
  valuePageStride: 12,
  problemsPerTable: 13,
  tableOffset: 14,
  numbers: 15,
} as const;

/** The activations of products with a packed weight, and, from `clip` on, of convolutions alone. */
export const ACTIVATION: Readonly<Record<Activation | Bend | "none", number>> = {
  none: 0,
  relu: 1,
  gelu: 2,
  silu: 3,
  tanh: 4,
  sigmoid: 5,
  clip: 6,
  hardSwish: 7,
  leakyRelu: 8,
  hardSigmoid: 9,
  elu: 10,
  mish: 11,
};

/** The results of `endRead` of {@link CUDA_MEMORY}. */
export const CUDA_READ = { waits: 0, ended: 1, moves: 2 } as const;

/** The operations of `rm_cuda_memory`. */
export const CUDA_MEMORY = {
  allocate: 0,
  free: 1,
  upload: 2,
  download: 3,
  copy: 4,
  zero: 5,
  usage: 6,
  release: 7,
  beginRead: 8,
  endRead: 9,
} as const;

/** The operations of `rm_cuda_control`. */
export const CUDA_CONTROL = {
  synchronize: 0,
  captureBegin: 1,
  captureEnd: 2,
  graphLaunch: 3,
  graphFree: 4,
  eventRecord: 5,
  eventElapsed: 6,
} as const;

/** The flags of `rm_cuda_matmul`. */
export const CUDA_MATMUL = { tf32: 1, addBias: 2, relu: 4, gelu: 8 } as const;

/** The steps of `rm_cuda_linalg`. */
export const CUDA_LINALG = {
  open: 0,
  lu: 1,
  solve: 2,
  cholesky: 3,
  qr: 4,
  makeQ: 5,
  eigh: 6,
  svd: 7,
  triangular: 8,
} as const;

/** The flags of `rm_cuda_linalg`. */
export const CUDA_LINALG_FLAGS = {
  upper: 1,
  vectors: 2,
  full: 4,
  unit: 8,
  transposed: 16,
  batched: 32,
} as const;

/** The operations of `rm_cuda_nccl`. */
export const CUDA_NCCL = { load: 0, id: 1, open: 2, call: 3, take: 4, wait: 5, close: 6 } as const;

/** FNV-1a hash of the definitions behind the numbers in calls, as a signed 32-bit integer. */
function hashOf(parts: unknown): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(JSON.stringify(parts))) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return hash | 0;
}

/** The places of numbers in calls: a library with other places would read wrong ones. */
export const PLACES: readonly Readonly<Record<string, number>>[] = [
  ...[COLLECTIVE_AT, PROGRAM_ARENA, CHAIN_AT, CHAIN_CONSTANT, CHAIN_STEP],
  ...[ATTENTION_AT, ATTENTION_BACKWARD_AT, CACHED_ATTENTION_AT],
];

/**
 * A hash of the dtypes, the symbols and the places of numbers in calls, which must be the same in the
 * shim and in this file.
 */
export function abiHash(places: typeof PLACES = PLACES): number {
  if (places === PLACES && ownHash !== undefined) return ownHash;
  const hash = hashOf([DTYPES, Object.values(SYMBOLS).map(({ c }) => c), places]);
  if (places === PLACES) ownHash = hash;
  return hash;
}

let ownHash: number | undefined;

/**
 * A hash of the meaning of an op of the table: the shim's kernel runs only the op with that hash.
 */
export function opHash(op: TableOp): number {
  const { kind, name, arity, dtypes, result, expr, int, bool, parameters } = op;
  const parts: unknown[] = [kind, name, arity, dtypes, result, expr, int, bool, parameters];
  if (op.kind === "reduce") parts.push(op.map, op.finish, op.identity);
  else if (op.kind === "map") parts.push(op.condition);
  return hashOf(parts);
}

/** A hash of all ops of the table: precompiled kernels are valid for these ops only. */
export function tableHash(): number {
  return TABLE.reduce((hash, op) => hash ^ opHash(op), 0);
}
