/*
 * The table of kernels, and the one entry to all of them.
 */
#include <string.h>
#include "internal.h"

/* Calls the kernel of the active instruction set. */
#define RM_RUN_FOR_ISA(field) \
  static int32_t run_##field(const rm_call *call) { return rm_isa_kernels()->field(call); }

RM_RUN_FOR_ISA(map)
RM_RUN_FOR_ISA(reduce)
#define RM_CPU_KERNEL(op, function)
#define RM_ISA_KERNEL(op, function) RM_RUN_FOR_ISA(op)
#include "kernels.def"
#undef RM_CPU_KERNEL
#undef RM_ISA_KERNEL

typedef struct {
  const char *name;
  /* Of the definition in the op table; 0 for kernels that it does not define. */
  uint32_t hash;
  rm_cpu_kernel *run;
} kernel_entry;

/* By RM_OP_.... */
static const kernel_entry kernels[RM_KERNEL_COUNT] = {
#define RM_OP(name, hash, kind) {#name, hash, run_##kind},
#include "ops.def"
#undef RM_OP
#define RM_CPU_KERNEL(op, function) {#op, 0, rm_##function},
#define RM_ISA_KERNEL(op, function) {#op, 0, run_##op},
#include "kernels.def"
#undef RM_CPU_KERNEL
#undef RM_ISA_KERNEL
};

int32_t rm_table_hash(void) {
  uint32_t hash = 0;
  for (int i = 0; i < RM_KERNEL_COUNT; i++) hash ^= kernels[i].hash;
  return (int32_t)hash;
}

int32_t rm_find_kernel(const void *name, int32_t hash) {
  for (int i = 0; i < RM_KERNEL_COUNT; i++) {
    if (strcmp(kernels[i].name, name) == 0 && kernels[i].hash == (uint32_t)hash) return i;
  }
  return -1;
}

const char *rm_kernel_name(int kernel) { return kernels[kernel].name; }

int32_t rm_run_call(const rm_call *call) {
  if (call->op < 0 || call->op >= RM_KERNEL_COUNT) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no kernel %d", call->op);
  }
  return kernels[call->op].run(call);
}

/* Unpacks four dtypes. */
static inline void unpack_dtypes(int32_t dtypes, int *to) {
  for (int i = 0; i < 4; i++) to[i] = (int)((uint32_t)dtypes >> 8 * i & 255);
}

int32_t rm_run_many(int32_t kernel, int32_t dtypes, int32_t more_dtypes, int32_t last_dtype,
                    int32_t compute, double *numbers, void *out, void *a, void *b, void *c, void *d,
                    void *e, void *f, void *g, void *h) {
  int each[RM_MAX_BUFFERS];
  unpack_dtypes(dtypes, each);
  unpack_dtypes(more_dtypes, each + 4);
  each[RM_MAX_BUFFERS - 1] = (int)((uint32_t)last_dtype & 255);
  void *const buffers[RM_MAX_BUFFERS] = {out, a, b, c, d, e, f, g, h};
  const rm_call call = {
      .op = kernel,
      .compute = compute,
      .operands = RM_MAX_BUFFERS,
      .dtypes = each,
      .numbers = numbers,
      .buffers = buffers,
  };
  return rm_run_call(&call);
}

int32_t rm_run(int32_t kernel, int32_t dtypes, int32_t compute, double *numbers, void *out, void *a,
               void *b, void *c) {
  int each[RM_MAX_OPERANDS];
  unpack_dtypes(dtypes, each);
  void *const buffers[RM_MAX_OPERANDS] = {out, a, b, c};
  const rm_call call = {
      .op = kernel,
      .compute = compute,
      .operands = RM_MAX_OPERANDS,
      .dtypes = each,
      .numbers = numbers,
      .buffers = buffers,
  };
  return rm_run_call(&call);
}
