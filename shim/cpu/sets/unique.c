/*
 * The different elements of a sorted run, or of integers of a small range.
 */
#include <stdlib.h>
#include <string.h>
#include "sets.h"

#define T uint8_t
#define NAME(function) b8_##function
#include "unique_type.h"
#define T uint16_t
#define NAME(function) b16_##function
#include "unique_type.h"
#define T uint32_t
#define NAME(function) b32_##function
#include "unique_type.h"
#define T uint64_t
#define NAME(function) b64_##function
#include "unique_type.h"

static uint64_t infinity_of(int dtype) {
  switch (dtype) {
    case RM_FLOAT16: return 0x7c00;
    case RM_BFLOAT16: return 0x7f80;
    case RM_FLOAT32: return 0x7f800000;
    case RM_FLOAT64: return UINT64_C(0x7ff0000000000000);
    default: return UINT64_MAX;
  }
}

int32_t rm_unique_runs(const rm_call *call) {
  const int dtype = call->dtypes[1];
  const double *attributes = rm_attributes(call);
  const ptrdiff_t n = (ptrdiff_t)attributes[1];
  const bool joins_nan = attributes[2] != 0, is_float = rm_is_float(dtype);
  int32_t *starts = attributes[3] != 0 ? call->buffers[2] : NULL;
  int32_t *found = call->buffers[3];
  if (dtype >= RM_DTYPE_COUNT || dtype != call->dtypes[0] || call->dtypes[3] != RM_INT32 ||
      found == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "uniqueRuns: dtypes %d and %d", dtype, call->dtypes[0]);
  }
  void *out = call->buffers[0];
  const char *x = rm_element(call, 1, attributes[0]);
  const uint64_t infinity = infinity_of(dtype);
  ptrdiff_t count;
  switch (rm_itemsize(dtype)) {
    case 1: count = b8_runs(x, n, is_float, (uint8_t)infinity, joins_nan, out, starts); break;
    case 2: count = b16_runs(x, n, is_float, (uint16_t)infinity, joins_nan, out, starts); break;
    case 4: count = b32_runs(x, n, is_float, (uint32_t)infinity, joins_nan, out, starts); break;
    default: count = b64_runs(x, n, is_float, infinity, joins_nan, out, starts);
  }
  *found = (int32_t)count;
  return RM_OK;
}

int32_t rm_run_indices(const rm_call *call) {
  const double *attributes = rm_attributes(call);
  const ptrdiff_t n = (ptrdiff_t)attributes[1], count = (ptrdiff_t)attributes[3];
  for (int k = 0; k < 3; k++) {
    if (call->dtypes[k] != RM_INT32) {
      return rm_fail(RM_BAD_ARGUMENT, "runIndices: dtype %d", call->dtypes[k]);
    }
  }
  int32_t *out = call->buffers[0];
  const int32_t *order = (const int32_t *)rm_element(call, 1, attributes[0]);
  const int32_t *starts = (const int32_t *)rm_element(call, 2, attributes[2]);
  RM_SCALAR for (ptrdiff_t run = 0; run < count; run++) {
    const ptrdiff_t begin = starts[run], end = run + 1 < count ? starts[run + 1] : n;
    for (ptrdiff_t i = begin < 0 ? 0 : begin; i < end && i < n; i++) {
      const int32_t at = order[i];
      if (at >= 0 && at < n) out[at] = (int32_t)run;
    }
  }
  return RM_OK;
}

/* Writes the integer low + at to element i of the values. */
static void write_value(int dtype, void *values, ptrdiff_t i, int64_t value) {
  switch (rm_itemsize(dtype)) {
    case 1: ((uint8_t *)values)[i] = (uint8_t)value; break;
    case 2: ((uint16_t *)values)[i] = (uint16_t)value; break;
    case 4: ((uint32_t *)values)[i] = (uint32_t)value; break;
    default: ((uint64_t *)values)[i] = (uint64_t)value;
  }
}

int32_t rm_unique_table(const rm_call *call) {
  const int dtype = call->dtypes[1];
  const double *attributes = rm_attributes(call);
  const ptrdiff_t n = (ptrdiff_t)attributes[1], size = (ptrdiff_t)attributes[3];
  const int64_t low = (int64_t)attributes[2];
  const bool full = attributes[4] != 0;
  if (dtype >= RM_FLOAT16 || dtype != call->dtypes[0] || call->operands < 6) {
    return rm_fail(RM_BAD_ARGUMENT, "uniqueTable: dtypes %d and %d", dtype, call->dtypes[0]);
  }
  int32_t *counts = call->buffers[2], *first = call->buffers[3], *inverse = call->buffers[4];
  int32_t *found = call->buffers[5];
  const char *x = rm_element(call, 1, attributes[0]);
  const ptrdiff_t width = rm_itemsize(dtype);
  int64_t at[SET_BLOCK];
  ptrdiff_t made = 0;
  if (!full) {
    uint8_t *seen = calloc((size_t)size, 1);
    if (seen == NULL) return rm_fail(RM_OUT_OF_MEMORY, "uniqueTable: no memory");
    for (ptrdiff_t i = 0; i < n; i += SET_BLOCK) {
      const ptrdiff_t count = rm_min(SET_BLOCK, n - i);
      rm_load_integers(dtype, x + i * width, count, at);
      RM_SCALAR for (ptrdiff_t k = 0; k < count; k++) {
        const uint64_t place = (uint64_t)(at[k] - low);
        if (place < (uint64_t)size) seen[place] = 1;
      }
    }
    RM_SCALAR for (ptrdiff_t v = 0; v < size; v++) {
      if (seen[v]) write_value(dtype, call->buffers[0], made++, low + v);
    }
    free(seen);
    *found = (int32_t)made;
    return RM_OK;
  }
  int32_t *table = calloc(2 * (size_t)size, sizeof *table);
  if (table == NULL) return rm_fail(RM_OUT_OF_MEMORY, "uniqueTable: no memory");
  int32_t *earliest = table + size;
  for (ptrdiff_t end = n; end > 0;) {
    /* From the last to the first, so that the first one remains. */
    const ptrdiff_t count = end % SET_BLOCK == 0 ? SET_BLOCK : end % SET_BLOCK;
    end -= count;
    rm_load_integers(dtype, x + end * width, count, at);
    RM_SCALAR for (ptrdiff_t k = count - 1; k >= 0; k--) {
      const uint64_t place = (uint64_t)(at[k] - low);
      if (place >= (uint64_t)size) continue;
      table[place]++;
      earliest[place] = (int32_t)(end + k);
    }
  }
  RM_SCALAR for (ptrdiff_t v = 0; v < size; v++) {
    if (table[v] == 0) continue;
    write_value(dtype, call->buffers[0], made, low + v);
    counts[made] = table[v];
    first[made] = earliest[v];
    table[v] = (int32_t)made++;
  }
  for (ptrdiff_t i = 0; i < n; i += SET_BLOCK) {
    const ptrdiff_t count = rm_min(SET_BLOCK, n - i);
    rm_load_integers(dtype, x + i * width, count, at);
    RM_SCALAR for (ptrdiff_t k = 0; k < count; k++) {
      const uint64_t place = (uint64_t)(at[k] - low);
      inverse[i + k] = place < (uint64_t)size ? table[place] : 0;
    }
  }
  free(table);
  *found = (int32_t)made;
  return RM_OK;
}
