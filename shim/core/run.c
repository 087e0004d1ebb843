/*
 * The table of kernels, and the one entry to all of them.
 */
#include <string.h>
#include "index.h"
#include "internal.h"

/* Kernels of the active instruction set. */
static int32_t run_map(const rm_call *call) { return rm_isa_kernels()->map(call); }
static int32_t run_reduce(const rm_call *call) { return rm_isa_kernels()->reduce(call); }
static int32_t run_rows(const rm_call *call) { return rm_isa_kernels()->softmax_norm(call); }
static int32_t run_sort(const rm_call *call) { return rm_isa_kernels()->sort(call); }
static int32_t run_random(const rm_call *call) { return rm_isa_kernels()->random(call); }

typedef struct {
  const char *name;
  /* Of the definition in the op table; 0 for kernels that no table defines. */
  uint32_t hash;
  rm_cpu_kernel *run;
  int op;
} kernel_entry;

/* Where kernels register: a line for each. */
static const kernel_entry kernels[] = {
#define RM_OP(name, hash, kind) {#name, hash, run_##kind, RM_OP_##name},
#include "ops.def"
#undef RM_OP
    {"gather", 0, rm_gather, RM_GATHER},
    {"scatter", 0, rm_gather, RM_SCATTER},
    {"scatterAdd", 0, rm_gather, RM_SCATTER_ADD},
    {"ravelIndex", 0, rm_ravel_index, 0},
    {"takeAlongAxis", 0, rm_take_along_axis, 0},
    {"nonzeroIndices", 0, rm_nonzero, 0},
    {"sort", 0, run_sort, RM_SORT},
    {"argsort", 0, run_sort, RM_ARGSORT},
    {"random", 0, run_random, 0},
    {"matmul", 0, rm_matmul, 0},
    {"softmax", 0, run_rows, RM_SOFTMAX},
    {"logSoftmax", 0, run_rows, RM_LOG_SOFTMAX},
    {"layerNorm", 0, run_rows, RM_LAYER_NORM},
    {"rmsNorm", 0, run_rows, RM_RMS_NORM},
};

enum { KERNELS = sizeof kernels / sizeof kernels[0] };

int32_t rm_table_hash(void) {
  uint32_t hash = 0;
  for (int i = 0; i < KERNELS; i++) hash ^= kernels[i].hash;
  return (int32_t)hash;
}

int32_t rm_find_kernel(const void *name, int32_t hash) {
  for (int i = 0; i < KERNELS; i++) {
    if (strcmp(kernels[i].name, name) == 0 && kernels[i].hash == (uint32_t)hash) return i;
  }
  return -1;
}

int32_t rm_run(int32_t kernel, int32_t dtypes, int32_t compute, double *numbers, void *out, void *a,
               void *b, void *c) {
  if (kernel < 0 || kernel >= KERNELS) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no kernel %d", (int)kernel);
  }
  const uint32_t packed = (uint32_t)dtypes;
  const rm_call call = {
      .op = kernels[kernel].op,
      .compute = compute,
      .dtypes = {packed & 255, packed >> 8 & 255, packed >> 16 & 255, packed >> 24},
      .numbers = numbers,
      .buffers = {out, a, b, c},
  };
  return kernels[kernel].run(&call);
}
