/* Versions, messages and the reading of plans. Knows nothing of ops. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "internal.h"
#include "ops.def"

static _Thread_local char last_error[512];

int32_t rm_version(void) { return RM_VERSION; }

int32_t rm_table_hash(void) { return (int32_t)RM_TABLE_HASH; }

int32_t rm_fail(int32_t status, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_error, sizeof last_error, format, values);
  va_end(values);
  return status;
}

int32_t rm_copy_text(const char *text, void *buffer, int32_t length) {
  size_t full = strlen(text);
  if (buffer != NULL && length > 0) {
    size_t part = full < (size_t)length ? full : (size_t)length - 1;
    memcpy(buffer, text, part);
    ((char *)buffer)[part] = 0;
  }
  return (int32_t)full;
}

int32_t rm_last_error(void *buffer, int32_t length) {
  return rm_copy_text(last_error, buffer, length);
}

static ptrdiff_t bytes_of(int32_t dtype) {
  switch (dtype) {
    case RM_BOOL: return 1;
    case RM_FLOAT64: return 8;
    default: return 4;
  }
}

int32_t rm_read_plan(rm_walk *walk, const double *plan, int operands, int32_t dtypes,
                     void *const *buffers) {
  int rank = (int)plan[0];
  if ((int)plan[1] != operands) {
    return rm_fail(RM_BAD_ARGUMENT, "the plan has %d operands, the op %d", (int)plan[1], operands);
  }
  if (rank < 0 || rank > RM_MAX_RANK) {
    return rm_fail(RM_UNSUPPORTED, "the plan has %d axes, more than %d", rank, RM_MAX_RANK);
  }
  walk->rank = rank;
  walk->operands = operands;
  walk->empty = false;
  const double *sizes = plan + RM_OFFSETS + operands;
  for (int j = 0; j < rank; j++) {
    walk->size[j] = (ptrdiff_t)sizes[j];
    if (walk->size[j] <= 0) walk->empty = true;
  }
  for (int k = 0; k < operands; k++) {
    if (buffers[k] == NULL) return rm_fail(RM_BAD_ARGUMENT, "operand %d has no memory", k);
    const double *strides = sizes + rank + (ptrdiff_t)k * rank;
    ptrdiff_t bytes = bytes_of(dtypes >> (4 * (k + 1)) & 15);
    walk->start[k] = (char *)buffers[k] + (ptrdiff_t)plan[RM_OFFSETS + k] * bytes;
    walk->inner[k] = rank == 0 ? 0 : (ptrdiff_t)strides[rank - 1];
    for (int j = 0; j < rank; j++) walk->step[j][k] = (ptrdiff_t)strides[j] * bytes;
  }
  return RM_OK;
}
