/*
 * Copies of two-dimensional blocks of elements.
 */
#ifndef ROWMAJOR_BLOCK_COPY_H
#define ROWMAJOR_BLOCK_COPY_H

#include <string.h>
#include "internal.h"

/* The size of a cache line in bytes. */
enum { CACHE_LINE = 64 };

/* A two-dimensional block of memory. Strides are in bytes. */
typedef struct {
  char *data;
  ptrdiff_t row_stride;
  ptrdiff_t column_stride;
} block;

/* An aligned vector of the widest store. */
typedef uint64_t cache_line __attribute__((vector_size(CACHE_LINE)));

/* Repeats an element to fill eight bytes. */
static inline uint64_t repeat_bytes(const char *element, ptrdiff_t bytes) {
  uint64_t word = 0;
  memcpy(&word, element, (size_t)bytes);
  for (ptrdiff_t width = 8 * bytes; width < 64; width *= 2) word |= word << width;
  return word;
}

/* Copies rows x columns elements of the given size. */
void RM_FOR_ISA(copy_block)(block to, block from, ptrdiff_t rows, ptrdiff_t columns,
                            ptrdiff_t bytes);

/* Copies with non-temporal stores, which neither read the lines that they write nor keep them in
 * the caches. */
void RM_FOR_ISA(store_non_temporal)(char *to, const char *from, ptrdiff_t bytes);

/* Makes non-temporal stores visible to other threads. */
static inline void fence_non_temporal(void) {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif
