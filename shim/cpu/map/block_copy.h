/*
 * Copies of two-dimensional blocks of elements; see block_copy.c.
 */
#ifndef ROWMAJOR_BLOCK_COPY_H
#define ROWMAJOR_BLOCK_COPY_H

#include <string.h>
#include "internal.h"

/* Bytes of a line of the caches. */
enum { LINE = 64 };

/* A two-dimensional piece of memory; steps in bytes. */
typedef struct {
  char *at;
  ptrdiff_t down;
  ptrdiff_t right;
} piece;

/* Vectors of the widest stores, aligned. */
typedef uint64_t line __attribute__((vector_size(LINE)));

/* Eight bytes of an element, repeated. */
static inline uint64_t repeated(const char *element, ptrdiff_t bytes) {
  uint64_t word = 0;
  memcpy(&word, element, (size_t)bytes);
  for (ptrdiff_t width = 8 * bytes; width < 64; width *= 2) word |= word << width;
  return word;
}

/* Copies rows by columns elements of so many bytes. */
void RM_AT(move_block)(piece to, piece from, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t bytes);

/* Copies by stores that do not read the lines that they write, nor leave them in the caches. */
void RM_AT(stream)(char *to, const char *from, ptrdiff_t bytes);

/* Such stores are seen by other threads only after this. */
static inline void end_stream(void) {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#endif
