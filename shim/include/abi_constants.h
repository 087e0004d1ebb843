/*
 * Made by scripts/generate/ops_def.ts from src/backend/ffi/abi.ts: edit that, then run the script.
 */
#ifndef ROWMAJOR_ABI_CONSTANTS_H
#define ROWMAJOR_ABI_CONSTANTS_H

/* Changes with the meaning of any function. */
#define RM_VERSION 9

/* What the functions return. */
enum {
  RM_OK = 0,
  RM_UNSUPPORTED = 1,
  RM_BAD_ARGUMENT = 2,
  RM_NOT_FOUND = 3,
  RM_OUT_OF_MEMORY = 5,
  RM_DEVICE_ERROR = 6,
  RM_BAD_INDEX = 7,
  RM_CANCELLED = 8,
  RM_DISTRIBUTED = 9
};

/* The dtypes, and what stands for none. */
enum {
  RM_BOOL = 0,
  RM_INT8 = 1,
  RM_INT16 = 2,
  RM_INT32 = 3,
  RM_INT64 = 4,
  RM_UINT8 = 5,
  RM_UINT16 = 6,
  RM_UINT32 = 7,
  RM_UINT64 = 8,
  RM_FLOAT16 = 9,
  RM_BFLOAT16 = 10,
  RM_FLOAT32 = 11,
  RM_FLOAT64 = 12,
  RM_DTYPE_COUNT = 13,
  RM_NONE = 255
};

/* Of the dtypes and the declarations of rowmajor.h. */
#define RM_ABI_HASH 0x40444548u

/* Where the parts of a plan begin. */
enum {
  RM_PLAN_RANK = 0,
  RM_PLAN_OPERANDS = 1,
  RM_PLAN_KEPT = 2,
  RM_ATTRIBUTES = 3,
  RM_OFFSETS = 11
};

/* What rm_configure sets. */
enum {
  RM_CONFIGURE_THREADS = 0,
  RM_CONFIGURE_LEVEL = 1,
  RM_CONFIGURE_SHARE_ALL = 2,
  RM_CONFIGURE_ENVIRONMENT = 3,
  RM_CONFIGURE_USED_THREADS = 4
};

/* What rm_program and rm_program_copy do, and the kinds of buffers. */
enum {
  RM_PROGRAM_MAKE = 0,
  RM_PROGRAM_FREE = 1,
  RM_PROGRAM_MAKE_FRAME = 2,
  RM_PROGRAM_FREE_FRAME = 3,
  RM_PROGRAM_WRITE = 0,
  RM_PROGRAM_READ = 1,
  RM_PROGRAM_ARENA = 0,
  RM_PROGRAM_BOUND = 1,
  RM_PROGRAM_COPIED = 2
};

/* The limits of programs. */
enum {
  RM_PROGRAM_SLOTS = 32
};

/* The place of an arena, and the bytes that it has more than its program says. */
enum {
  RM_PROGRAM_ARENA_PLACE = -1,
  RM_PROGRAM_ARENA_LINE = 64
};

/* The kinds of random numbers. */
enum {
  RM_RANDOM_BITS = 0,
  RM_RANDOM_UNIFORM = 1,
  RM_RANDOM_NORMAL = 2,
  RM_RANDOM_INTEGERS = 3
};

/* The kinds of deviates. */
enum {
  RM_DEVIATE_GAMMA = 0,
  RM_DEVIATE_BETA = 1,
  RM_DEVIATE_POISSON = 2,
  RM_DEVIATE_BINOMIAL = 3,
  RM_DEVIATE_TRUNCATED_NORMAL = 4
};

/* The limits of chains. */
enum {
  RM_CHAIN_STEPS = 32,
  RM_CHAIN_OPERANDS = 24
};

/* The attributes of chains. */
enum {
  RM_CHAIN_AT_OUTPUTS = 0,
  RM_CHAIN_AT_STEPS = 1,
  RM_CHAIN_AT_CONSTANTS = 2
};

/* The numbers of a constant of a chain. */
enum {
  RM_CHAIN_CONSTANT_DTYPE = 0,
  RM_CHAIN_CONSTANT_LOW = 1,
  RM_CHAIN_CONSTANT_HIGH = 2,
  RM_CHAIN_CONSTANT_NUMBERS = 3
};

/* The numbers of a step of a chain. */
enum {
  RM_CHAIN_STEP_OP = 0,
  RM_CHAIN_STEP_COMPUTE = 1,
  RM_CHAIN_STEP_RESULT = 2,
  RM_CHAIN_STEP_OUTPUT = 3,
  RM_CHAIN_STEP_SINGLE = 4,
  RM_CHAIN_STEP_INPUTS = 5,
  RM_CHAIN_STEP_PARAMETERS = 8,
  RM_CHAIN_STEP_NUMBERS = 11
};

/* The ops of complexMap. */
enum {
  RM_COMPLEX_MUL = 0,
  RM_COMPLEX_DIV = 1,
  RM_COMPLEX_CONJ = 2,
  RM_COMPLEX_SQUARE = 3,
  RM_COMPLEX_RECIPROCAL = 4,
  RM_COMPLEX_SIGN = 5,
  RM_COMPLEX_SQRT = 6,
  RM_COMPLEX_RSQRT = 7,
  RM_COMPLEX_EXP = 8,
  RM_COMPLEX_EXPM1 = 9,
  RM_COMPLEX_EXP2 = 10,
  RM_COMPLEX_LOG = 11,
  RM_COMPLEX_LOG1P = 12,
  RM_COMPLEX_LOG2 = 13,
  RM_COMPLEX_LOG10 = 14,
  RM_COMPLEX_SIN = 15,
  RM_COMPLEX_COS = 16,
  RM_COMPLEX_TAN = 17,
  RM_COMPLEX_ASIN = 18,
  RM_COMPLEX_ACOS = 19,
  RM_COMPLEX_ATAN = 20,
  RM_COMPLEX_SINH = 21,
  RM_COMPLEX_COSH = 22,
  RM_COMPLEX_TANH = 23,
  RM_COMPLEX_ASINH = 24,
  RM_COMPLEX_ACOSH = 25,
  RM_COMPLEX_ATANH = 26,
  RM_COMPLEX_POW = 27,
  RM_COMPLEX_ABS = 28,
  RM_COMPLEX_ANGLE = 29,
  RM_COMPLEX_EQUAL = 30,
  RM_COMPLEX_NOT_EQUAL = 31,
  RM_COMPLEX_ISNAN = 32,
  RM_COMPLEX_ISINF = 33,
  RM_COMPLEX_ISFINITE = 34
};

/* The activations of linearPacked. */
enum {
  RM_ACTIVATION_NONE = 0,
  RM_ACTIVATION_RELU = 1,
  RM_ACTIVATION_GELU = 2,
  RM_ACTIVATION_SILU = 3,
  RM_ACTIVATION_TANH = 4,
  RM_ACTIVATION_SIGMOID = 5
};

/* What rm_buffers does. */
enum {
  RM_BUFFERS_OPEN = 0,
  RM_BUFFERS_TAKE = 1,
  RM_BUFFERS_KEPT = 2,
  RM_BUFFERS_RELEASE = 3,
  RM_BUFFERS_GIVE = 4,
  RM_BUFFERS_TAKE_KEPT = 5
};

/* What rm_files does. */
enum {
  RM_FILES_MAP = 0,
  RM_FILES_HOLD = 1,
  RM_FILES_RELEASE = 2,
  RM_FILES_SIZE = 3
};

/* What this library is as a module of Node-API. */
enum {
  RM_MODULE_BUFFERS = 0,
  RM_MODULE_QUEUE = 1,
  RM_MODULE_FILES = 2,
  RM_MODULE_REQUESTS = 3
};

/* What rm_distributed does. */
enum {
  RM_REQUEST_START = 0,
  RM_REQUEST_TAKE = 1,
  RM_REQUEST_WAIT = 2,
  RM_REQUEST_ABORT = 3,
  RM_REQUEST_LAUNCHER = 4,
  RM_REQUEST_FAIL = 5
};

/* What ranks do. */
enum {
  RM_COLLECTIVE_ALL_REDUCE = 0,
  RM_COLLECTIVE_ALL_GATHER = 1,
  RM_COLLECTIVE_REDUCE_SCATTER = 2,
  RM_COLLECTIVE_BROADCAST = 3,
  RM_COLLECTIVE_ALL_TO_ALL = 4,
  RM_COLLECTIVE_BARRIER = 5,
  RM_COLLECTIVE_SEND = 6,
  RM_COLLECTIVE_RECEIVE = 7,
  RM_COLLECTIVE_SPLIT = 8,
  RM_COLLECTIVE_OPEN = 9,
  RM_COLLECTIVE_CLOSE = 10
};

/* The reductions of collectives. */
enum {
  RM_REDUCTION_SUM = 0,
  RM_REDUCTION_MAX = 1,
  RM_REDUCTION_MIN = 2
};

/* The functions that call collectives. */
enum {
  RM_METHOD_ALL_SUM = 0,
  RM_METHOD_ALL_MAX = 1,
  RM_METHOD_ALL_MIN = 2,
  RM_METHOD_ALL_MEAN = 3,
  RM_METHOD_ALL_GATHER = 4,
  RM_METHOD_SUM_SCATTER = 5,
  RM_METHOD_BROADCAST = 6,
  RM_METHOD_ALL_TO_ALL = 7,
  RM_METHOD_BARRIER = 8,
  RM_METHOD_SPLIT = 9,
  RM_METHOD_AVERAGE_GRADIENTS = 10,
  RM_METHOD_COLUMN_PARALLEL = 11,
  RM_METHOD_ROW_PARALLEL = 12,
  RM_METHOD_SAVE_SHARDS = 13
};

/* The numbers of collectives. */
enum {
  RM_COLLECTIVE_AT_KIND = 0,
  RM_COLLECTIVE_AT_GROUP = 1,
  RM_COLLECTIVE_AT_REDUCTION = 2,
  RM_COLLECTIVE_AT_COUNT = 3,
  RM_COLLECTIVE_AT_IN = 4,
  RM_COLLECTIVE_AT_OUT = 5,
  RM_COLLECTIVE_AT_PEER = 6,
  RM_COLLECTIVE_AT_TAG = 7,
  RM_COLLECTIVE_AT_TIMEOUT = 8,
  RM_COLLECTIVE_AT_LIMIT = 9,
  RM_COLLECTIVE_AT_DTYPE = 10,
  RM_COLLECTIVE_AT_LANES = 11,
  RM_COLLECTIVE_AT_METHOD = 12,
  RM_COLLECTIVE_AT_NUMBERS = 13
};

/* What rm_cuda_memory does. */
enum {
  RM_CUDA_ALLOCATE = 0,
  RM_CUDA_FREE = 1,
  RM_CUDA_UPLOAD = 2,
  RM_CUDA_DOWNLOAD = 3,
  RM_CUDA_COPY = 4,
  RM_CUDA_ZERO = 5,
  RM_CUDA_USAGE = 6,
  RM_CUDA_RELEASE = 7,
  RM_CUDA_BEGIN_READ = 8,
  RM_CUDA_END_READ = 9
};

/* What comes of RM_CUDA_END_READ. */
enum {
  RM_CUDA_READ_WAITS = 0,
  RM_CUDA_READ_ENDED = 1,
  RM_CUDA_READ_MOVES = 2
};

/* The flags of rm_cuda_matmul. */
enum {
  RM_CUDA_MATMUL_TF32 = 1,
  RM_CUDA_MATMUL_ADD_BIAS = 2,
  RM_CUDA_MATMUL_RELU = 4,
  RM_CUDA_MATMUL_GELU = 8
};

/* The steps of rm_cuda_linalg. */
enum {
  RM_CUDA_LINALG_OPEN = 0,
  RM_CUDA_LINALG_LU = 1,
  RM_CUDA_LINALG_SOLVE = 2,
  RM_CUDA_LINALG_CHOLESKY = 3,
  RM_CUDA_LINALG_QR = 4,
  RM_CUDA_LINALG_MAKE_Q = 5,
  RM_CUDA_LINALG_EIGH = 6,
  RM_CUDA_LINALG_SVD = 7,
  RM_CUDA_LINALG_TRIANGULAR = 8
};

/* The flags of rm_cuda_linalg. */
enum {
  RM_CUDA_LINALG_UPPER = 1,
  RM_CUDA_LINALG_VECTORS = 2,
  RM_CUDA_LINALG_FULL = 4,
  RM_CUDA_LINALG_UNIT = 8,
  RM_CUDA_LINALG_TRANSPOSED = 16,
  RM_CUDA_LINALG_BATCHED = 32
};

/* What rm_cuda_nccl does. */
enum {
  RM_CUDA_NCCL_LOAD = 0,
  RM_CUDA_NCCL_ID = 1,
  RM_CUDA_NCCL_OPEN = 2,
  RM_CUDA_NCCL_CALL = 3,
  RM_CUDA_NCCL_TAKE = 4,
  RM_CUDA_NCCL_WAIT = 5,
  RM_CUDA_NCCL_CLOSE = 6
};

/* What rm_cuda_control does. */
enum {
  RM_CUDA_SYNCHRONIZE = 0,
  RM_CUDA_CAPTURE_BEGIN = 1,
  RM_CUDA_CAPTURE_END = 2,
  RM_CUDA_GRAPH_LAUNCH = 3,
  RM_CUDA_GRAPH_FREE = 4,
  RM_CUDA_EVENT_RECORD = 5,
  RM_CUDA_EVENT_ELAPSED = 6
};

#endif
