/*
 * What the files of sorting share: how runs are sorted by their length, and the context of a call.
 */
#ifndef ROWMAJOR_SORT_CONTEXT_H
#define ROWMAJOR_SORT_CONTEXT_H

#include "internal.h"

/* Runs up to this length are sorted by ranks, of 64-bit keys the shorter ones. The longest that are
 * faster so depend on the width of vectors. */
#if defined(__AVX512F__)
enum { SHORT = 256 };
#elif defined(__AVX2__)
enum { SHORT = 200 };
#else
enum { SHORT = 112 };
#endif
enum { SHORT_WIDE = SHORT * 5 / 8 };

/* So many runs are sorted side by side, of up to so many elements of 32 bits, or half as many of 16,
 * as digits sort those faster; and of up to so many of 64 bits, which take twice the vectors: fewer
 * where vectors have 128 bits. */
enum { BESIDE = 16, BESIDE_LONGEST = 1024 };
#if defined(__AVX2__)
enum { BESIDE_WIDE = 1024 };
#else
enum { BESIDE_WIDE = 128 };
#endif

/* Digits have up to 11 bits in a long run, so that 32 bits take three passes, and 8 where clearing
 * and adding up that many counts would take longer than a pass. */
enum { DIGIT = 11, BUCKETS = 1 << DIGIT, SHORT_DIGIT = 8, LONG = 4096 };

/* Elements of one run that are worth a part of their own, and the largest number of parts. Each
 * digit takes two wake-ups, which cost more than a second thread gains in shorter runs. */
enum { PART = 128 * 1024, MAX_PARTS = 16 };

/* Elements to a task that sorts several runs. */
enum { TASK = 8 * 1024 };

/* What an element takes about, in a short run. */
static const double NANOSECONDS = 4;

typedef struct {
  ptrdiff_t bytes, runs, size, runs_per_task;
  char *values;
  int32_t *indices;
  /* A key is bits ^ flip ^ (keep_sign, where the sign is set): see load_. */
  uint64_t flip, keep_sign, negative_zero, infinity;
  bool floating;
  /* Whether runs may be sorted side by side. */
  bool beside;
  _Atomic(bool) failed;
} job;

#endif
