/*
 * The exported functions, except those of BLAS, buffers and CUDA. They call the kernels of the
 * active instruction set.
 */
#include <string.h>
#include "index.h"
#include "internal.h"
#include "ops.def"

int32_t rm_version(void) { return RM_VERSION; }

int32_t rm_table_hash(void) { return (int32_t)RM_TABLE_HASH; }

int32_t rm_address_of(const void *memory, void *address) {
  const uint64_t number = (uintptr_t)memory;
  memcpy(address, &number, sizeof number);
  return RM_OK;
}

int32_t rm_configure(int32_t what, int32_t value) {
  switch (what) {
    case RM_CONFIGURE_THREADS:
      if (value >= 0) {
        rm_set_threads(value);
        rm_blas_threads(rm_threads());
      }
      return rm_threads();
    case RM_CONFIGURE_LEVEL: return rm_set_isa(value);
    case RM_CONFIGURE_SHARE_ALL: return rm_always_parallel(value);
    default: return -1;
  }
}

int32_t rm_map(int32_t opcode, int32_t dtypes, const double *plan, void *out, const void *a,
               const void *b, const void *c) {
  return rm_isa_kernels()->map(opcode, dtypes, plan, out, a, b, c);
}

int32_t rm_fold(int32_t opcode, int32_t dtypes, int32_t kept, const double *plan, void *out,
                const void *a, const void *b) {
  return rm_isa_kernels()->reduce(opcode, dtypes, kept, plan, out, a, b);
}

int32_t rm_rows(int32_t kind, int32_t dtype, const double *plan, void *out, const void *a,
                const void *weight, const void *bias) {
  return rm_isa_kernels()->softmax_norm(kind, dtype, plan, out, a, weight, bias);
}

int32_t rm_sort(int32_t dtype, int32_t flags, const double *plan, void *values, void *indices) {
  return rm_isa_kernels()->sort(dtype, flags, plan, values, indices);
}

int32_t rm_random(int32_t dtype, int32_t kind, const int32_t *words, double length, void *out) {
  return rm_isa_kernels()->random(dtype, kind, words, length, out);
}

int32_t rm_move(int32_t what, int32_t dtypes, const double *plan, double *numbers, void *target,
                const void *source, const void *indexes) {
  const int dtype = rm_dtype_at(dtypes, 0), by = rm_dtype_at(dtypes, 1);
  const bool moves = dtype < RM_DTYPE_COUNT && by < RM_FLOAT16;
  switch (what) {
    case RM_MOVE_GATHER:
    case RM_MOVE_SCATTER:
    case RM_MOVE_ADD_AT:
      if (!moves || (what == RM_MOVE_ADD_AT && dtype == RM_BOOL)) break;
      return rm_gather_scatter(what, dtype, by, plan, numbers, target, source, indexes);
    case RM_MOVE_POSITION:
      if (!moves || (dtype != RM_INT32 && dtype != RM_INT64)) break;
      return rm_ravel_index(dtype, by, plan, numbers, target, indexes);
    case RM_MOVE_TAKE_ALONG:
      if (!moves) break;
      return rm_take_along_axis(dtype, by, plan, numbers, target, source, indexes);
    case RM_MOVE_NONZERO:
      if (dtype >= RM_DTYPE_COUNT) break;
      return rm_nonzero(dtype, numbers, target, source);
  }
  return rm_fail(RM_BAD_ARGUMENT, "move: no kind %d of dtype %d by %d", (int)what, dtype, by);
}
