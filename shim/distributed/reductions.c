/*
 * Operations that MPI lacks, or has with other results: sums of 16-bit floats, which it does not
 * know, and maxima and minima of floats, which have to pass on NaN and not depend on the order of
 * ranks.
 */
#if !defined(_WIN32)
#include <math.h>
#include "internal.h"
#include "float16.h"
#include "mpi.h"

/* A sum rounds once for each pair of ranks, as additions of two tensors do. */
#define SUM_HALF(name, load, store)                                                       \
  static void sum_##name(const void *in, void *inout, const int *count, const void *type) { \
    (void)type;                                                                           \
    const uint16_t *a = in;                                                               \
    uint16_t *b = inout;                                                                  \
    for (int i = 0; i < *count; i++) b[i] = store(load(a[i]) + load(b[i]));               \
  }
SUM_HALF(f16, rm_f16_to_f32, rm_f32_to_f16)
SUM_HALF(bf16, rm_bf16_to_f32, rm_f32_to_bf16)

/* NaN wins; of equal zeros, max takes +0 and min takes -0. */
#define GREATER(a, b) ((a) > (b) || (a) != (a) || ((a) == (b) && signbit(b)))
#define LESS(a, b) ((a) < (b) || (a) != (a) || ((a) == (b) && signbit(a)))
#define SELECT(name, T, COMPARES, load)                                               \
  static void name(const void *in, void *inout, const int *count, const void *type) { \
    (void)type;                                                                       \
    const T *a = in;                                                                  \
    T *b = inout;                                                                     \
    for (int i = 0; i < *count; i++) b[i] = COMPARES(load(a[i]), load(b[i])) ? a[i] : b[i]; \
  }
#define SAME(x) (x)
SELECT(max_f16, uint16_t, GREATER, rm_f16_to_f32)
SELECT(max_bf16, uint16_t, GREATER, rm_bf16_to_f32)
SELECT(max_f32, float, GREATER, SAME)
SELECT(max_f64, double, GREATER, SAME)
SELECT(min_f16, uint16_t, LESS, rm_f16_to_f32)
SELECT(min_bf16, uint16_t, LESS, rm_bf16_to_f32)
SELECT(min_f32, float, LESS, SAME)
SELECT(min_f64, double, LESS, SAME)

enum { FIRST_FLOAT = RM_FLOAT16, FLOATS = RM_FLOAT64 - RM_FLOAT16 + 1, REDUCTIONS = 3 };

/* By the numbers of RM_REDUCTION and the dtype; null where MPI's own is used. */
static rm_mpi_combine *const functions[REDUCTIONS][FLOATS] = {
    [RM_REDUCTION_SUM] = {sum_f16, sum_bf16, NULL, NULL},
    [RM_REDUCTION_MAX] = {max_f16, max_bf16, max_f32, max_f64},
    [RM_REDUCTION_MIN] = {min_f16, min_bf16, min_f32, min_f64},
};

static rm_mpi_handle operations[REDUCTIONS][FLOATS];

int32_t rm_mpi_make_operations(const rm_mpi *mpi) {
  for (int reduction = 0; reduction < REDUCTIONS; reduction++) {
    for (int i = 0; i < FLOATS; i++) {
      rm_mpi_handle *to = &operations[reduction][i];
      if (functions[reduction][i] == NULL) continue;
      *to = 0;
      if (mpi->Op_create(functions[reduction][i], 1, to) != 0) {
        return rm_fail(RM_UNSUPPORTED, "MPI makes no more operations");
      }
    }
  }
  return RM_OK;
}

int32_t rm_mpi_find_reduction(const rm_mpi *mpi, int reduction, int dtype, rm_mpi_reduction *to) {
  if (reduction < 0 || reduction >= REDUCTIONS || dtype < 0 || dtype >= RM_DTYPE_COUNT ||
      (dtype == RM_BOOL && reduction == RM_REDUCTION_SUM)) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no reduction %d of dtype %d", reduction, dtype);
  }
  const rm_mpi_handle known[REDUCTIONS] = {
      [RM_REDUCTION_SUM] = mpi->sum, [RM_REDUCTION_MAX] = mpi->max, [RM_REDUCTION_MIN] = mpi->min};
  to->type = mpi->types[dtype];
  to->op = known[reduction];
  if (dtype < FIRST_FLOAT || functions[reduction][dtype - FIRST_FLOAT] == NULL) return RM_OK;
  to->op = operations[reduction][dtype - FIRST_FLOAT];
  if (to->type == 0) to->type = mpi->blocks[1];
  return RM_OK;
}
#endif
