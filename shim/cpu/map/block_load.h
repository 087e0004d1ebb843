/*
 * How blocks of operands are loaded: in place, or packed and cast into the first-level cache.
 */
#ifndef ROWMAJOR_BLOCK_LOAD_H
#define ROWMAJOR_BLOCK_LOAD_H

#include "block_copy.h"
#include "cast_kernels.h"

/* Casts n contiguous elements, by way of a 16-bit dtype if there is one. */
static inline void cast_via(ptrdiff_t n, void *out, int to, int rounding_dtype, int from, const void *in,
                     void *between) {
  if (rounding_dtype == RM_NONE || rounding_dtype == from || rounding_dtype == to) {
    RM_FOR_ISA(casts)[from][to](n, out, in);
    return;
  }
  RM_FOR_ISA(casts)[from][rounding_dtype](n, between, in);
  RM_FOR_ISA(casts)[rounding_dtype][to](n, out, between);
}

/* Whether elements need no cast, and values no rounding. */
static inline bool is_native_dtype(int storage_dtype, int compute_dtype, int rounding_dtype) {
  return storage_dtype == compute_dtype && (rounding_dtype == RM_NONE || compute_dtype == RM_BOOL ||
                                            compute_dtype == rounding_dtype);
}

/* An operand of which blocks are loaded. */
typedef struct {
  int storage_dtype, compute_dtype, rounding_dtype;
  /* In elements. */
  ptrdiff_t column_stride;
  /* In bytes. */
  ptrdiff_t row_stride;
} block_operand;

/* What the loaded block was made from, if the next block may need the same. */
typedef struct {
  const char *source;
  ptrdiff_t count, columns;
} block_cache;

/* Returns a block of an operand as kernels read it: in place, or in `computed`. `packed` and
 * `between` are for intermediate results. */
static inline const char *load_block(const block_operand *operand, block_cache *cache,
                                     char *computed, char *packed, char *between, const char *at,
                                     ptrdiff_t rows, ptrdiff_t columns) {
  const int storage_dtype = operand->storage_dtype, compute_dtype = operand->compute_dtype;
  const ptrdiff_t bytes = rm_itemsize(storage_dtype), total = rows * columns;
  const ptrdiff_t column_stride = operand->column_stride * bytes;
  const ptrdiff_t row_stride = rows == 1 ? 0 : operand->row_stride;
  const bool contiguous = column_stride == bytes && (rows == 1 || row_stride == columns * bytes);
  const bool native = is_native_dtype(storage_dtype, compute_dtype, operand->rounding_dtype);
  if (contiguous && native) return at;
  /* Equal rows, or a single element, may still be there from the previous block. */
  const bool is_scalar = column_stride == 0 && row_stride == 0,
             is_broadcast = operand->row_stride == 0;
  if (is_broadcast && cache->source == at && cache->count >= total &&
      (is_scalar || cache->columns == columns)) {
    return computed;
  }
  cache->source = is_broadcast ? at : NULL;
  cache->count = total;
  cache->columns = columns;
  const int rounding_dtype = operand->rounding_dtype;
  if (native) packed = computed;
  if (is_scalar) {
    char cast_value[8];
    const char *value = at;
    if (!native) {
      cast_via(1, cast_value, compute_dtype, rounding_dtype, storage_dtype, at, between);
      value = cast_value;
    }
    const ptrdiff_t size = rm_itemsize(compute_dtype);
    RM_FOR_ISA(copy_block)((block){computed, 0, size}, (block){(char *)value, 0, 0},
                           1, total, size);
    return computed;
  }
  if (!contiguous) {
    RM_FOR_ISA(copy_block)((block){packed, columns * bytes, bytes},
                           (block){(char *)at, row_stride, column_stride}, rows, columns, bytes);
    if (native) return packed;
  }
  cast_via(total, computed, compute_dtype, rounding_dtype, storage_dtype,
           contiguous ? at : packed, between);
  return computed;
}

#endif
