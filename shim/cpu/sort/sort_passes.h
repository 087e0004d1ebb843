/*
 * The passes of a sort by digits, over one part of a run or several. Part of sort.c.
 */
#ifndef ROWMAJOR_SORT_PASSES_H
#define ROWMAJOR_SORT_PASSES_H

#include "sort_context.h"

/* The digit of (key - least) from bit `shift` on. */
typedef struct {
  const void *from;
  void *to;
  uint64_t least;
  ptrdiff_t n, part;
  int shift, bits;
  uint32_t (*counts)[BUCKETS];
} digit_pass;

static int bit_length(uint64_t x) { return x == 0 ? 0 : 64 - __builtin_clzll(x); }

/* Makes counts, part by part, places where the elements of each part go. False where all elements
 * are in one bucket, and would stay where they are. */
static bool place_buckets(const digit_pass *p, ptrdiff_t parts) {
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
static void each_part(ptrdiff_t parts, void (*task)(void *, ptrdiff_t), void *context) {
  if (parts == 1) task(context, 0);
  else rm_parallel(parts, (double)(parts * PART), task, context);
}

#endif
