/*
 * Adds the indices of one axis to flat indices.
 */
#include "index.h"

#define ADD_INDICES(T) \
  if (is_constant) { \
    T *o = (T *)to; \
    const T by = (T)indices[0] * (T)stride; \
    for (ptrdiff_t i = 0; i < good; i++) o[i] += by; \
  } else if (to_step == sizeof(T)) { \
    T *o = (T *)to; \
    for (ptrdiff_t i = 0; i < good; i++) o[i] += (T)indices[i] * (T)stride; \
  } else { \
    for (ptrdiff_t i = 0; i < good; i++) *(T *)(to + i * to_step) += (T)indices[i] * (T)stride; \
  }

int32_t rm_ravel_index(const rm_call *call) {
  const int dtype = call->dtypes[0], index_dtype = call->dtypes[1];
  double *numbers = rm_attributes(call);
  const int64_t size = (int64_t)numbers[0], stride = (int64_t)numbers[1];
  int32_t status = rm_check_moved(dtype, index_dtype);
  if (status != RM_OK) return status;
  if (dtype != RM_INT32 && dtype != RM_INT64) {
    return rm_fail(RM_BAD_ARGUMENT, "flat indices of dtype %d", dtype);
  }
  numbers[0] = -1;
  rm_iterator iterator;
  status = rm_read_call(&iterator, call, 2);
  if (status != RM_OK || iterator.empty) return status;
  const int inner = iterator.rank - 1;
  const ptrdiff_t n = iterator.rank == 0 ? 1 : iterator.shape[inner];
  const ptrdiff_t to_step = iterator.rank == 0 ? 0 : iterator.strides[inner][0];
  const ptrdiff_t from_step = iterator.rank == 0 ? 0 : iterator.strides[inner][1];
  char *at[RM_MAX_OPERANDS] = {iterator.data[0], iterator.data[1]};
  ptrdiff_t count[RM_MAX_RANK] = {0}, position = 0;
  do {
    for (ptrdiff_t first = 0; first < n; first += BLOCK) {
      const ptrdiff_t length = rm_min(BLOCK, n - first);
      int64_t indices[BLOCK];
      const char *from = at[1] + first * from_step;
      const bool is_constant = from_step == 0 && to_step == rm_itemsize(dtype);
      ptrdiff_t good = rm_isa_kernels()->normalize_indices(index_dtype, from, from_step,
                                                           is_constant ? 1 : length, size, indices);
      if (is_constant && good == 1) good = length;
      char *to = at[0] + first * to_step;
      if (dtype == RM_INT64) ADD_INDICES(int64_t)
      else ADD_INDICES(int32_t)
      if (good < length) {
        numbers[0] = (double)(position + first + good);
        return RM_OK;
      }
    }
    position += n;
  } while (rm_iterator_next(&iterator, 0, inner, count, at));
  return RM_OK;
}
