/*
 * The passes of radix sort over one or several parts of a run. Part of sort.c.
 */
#ifndef ROWMAJOR_SORT_PASSES_H
#define ROWMAJOR_SORT_PASSES_H

#include "sort_context.h"

/* A pass by the digit of (key - min_key) that starts at bit `shift`. */
typedef struct {
  const void *from;
  void *to;
  uint64_t min_key;
  ptrdiff_t n, part;
  int shift, bits;
  /* The bits that an index takes below the upper digit of its key. */
  int index_bits;
  uint32_t (*counts)[BUCKETS];
} digit_pass;

static int bit_length(uint64_t x) { return x == 0 ? 0 : 64 - __builtin_clzll(x); }

/* Turns counts into the start positions of each part and bucket. Returns false if all elements are
 * in one bucket, because they would keep their positions. */
static bool prefix_sum_buckets(const digit_pass *p, ptrdiff_t parts) {
  uint32_t start = 0;
  for (ptrdiff_t bucket = 0; bucket < (ptrdiff_t)1 << p->bits; bucket++) {
    const uint32_t first = start;
    for (ptrdiff_t i = 0; i < parts; i++) {
      const uint32_t count = p->counts[i][bucket];
      p->counts[i][bucket] = start;
      start += count;
    }
    if (start - first == (uint32_t)p->n) return false;
  }
  return true;
}

/* A run that is sorted within a task has one part. */
static void run_parts(ptrdiff_t parts, void (*task)(void *, ptrdiff_t), void *context) {
  if (parts == 1) task(context, 0);
  else rm_parallel(parts, (double)(parts * PART_ELEMENTS), task, context);
}

#endif
