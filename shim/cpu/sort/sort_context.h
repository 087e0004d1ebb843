/*
 * What the files of sorting share: the limits of the algorithms and the context of a call.
 */
#ifndef ROWMAJOR_SORT_CONTEXT_H
#define ROWMAJOR_SORT_CONTEXT_H

#include "internal.h"

/* Runs up to this length are sorted by ranks; with 64-bit keys only shorter ones. The limits depend
 * on the width of vectors. */
#if defined(__AVX512F__)
enum { RANK_MAX = 256 };
#elif defined(__AVX2__)
enum { RANK_MAX = 200 };
#else
enum { RANK_MAX = 112 };
#endif
enum { RANK_MAX_64 = RANK_MAX * 5 / 8 };

/* This many runs are sorted side by side, with up to COLUMN_MAX 32-bit elements, or half as many
 * 16-bit elements, which radix sort sorts faster. Runs of 64-bit keys take twice the vectors, so
 * their limit is lower where vectors have 128 bits. */
enum { COLUMN_RUNS = 16, COLUMN_MAX = 1024 };
#if defined(__AVX2__)
enum { COLUMN_MAX_64 = 1024 };
#else
enum { COLUMN_MAX_64 = 128 };
#endif

/* Digits have 11 bits in long runs, so that 32 bits take three passes, and 8 bits in shorter ones,
 * where clearing and adding 2048 counts would take longer than a pass. */
enum { DIGIT_BITS = 11, BUCKETS = 1 << DIGIT_BITS, SHORT_DIGIT_BITS = 8, LONG_RUN = 4096 };

/* The minimum elements per part of one run, and the maximum number of parts. Each digit wakes
 * threads twice, which costs more than a second thread gains in shorter runs; quicksort wakes them less
 * often. */
enum { PART_ELEMENTS = 128 * 1024, MAX_PARTS = 16, QUICKSORT_PART = 32 * 1024 };

/* Elements per task that sorts several runs. */
enum { TASK_ELEMENTS = 8 * 1024 };

/* The estimated time per element of a short run. */
static const double NANOSECONDS = 4;

typedef struct {
  ptrdiff_t bytes, runs, size, runs_per_task;
  char *values;
  int32_t *indices;
  /* A key is bits ^ flip, and ^ magnitude_mask if the sign is set: see NAME(load). */
  uint64_t flip, magnitude_mask, negative_zero, infinity;
  /* What all keys are ^ with: the highest bit of a key makes them signed. */
  uint64_t bias;
  bool is_float;
  /* Whether runs may be sorted in columns. */
  bool by_columns;
  _Atomic(bool) failed;
} sort_context;

/* Sets what the keys of a dtype are made by, in ascending order. */
static inline void set_key_order(sort_context *ctx, int dtype) {
  ctx->bytes = rm_itemsize(dtype);
  ctx->is_float = rm_is_float(dtype);
  const uint64_t sign = (uint64_t)1 << (8 * ctx->bytes - 1);
  if (ctx->is_float || (dtype >= RM_INT8 && dtype <= RM_INT64)) ctx->flip = sign;
  if (!ctx->is_float) return;
  static const uint64_t infinities[] = {0x7c00, 0x7f80, 0x7f800000, 0x7ff0000000000000};
  ctx->magnitude_mask = sign - 1;
  ctx->negative_zero = sign;
  ctx->infinity = infinities[dtype - RM_FLOAT16];
}

/* Makes keys signed, as quicksort wants them. */
static inline void set_signed_keys(sort_context *ctx) {
  ctx->bias = ctx->bytes == 8 ? (uint64_t)1 << 63 : (uint64_t)1 << 31;
}

/* Makes the keys of n elements, of 64 bits for elements of 8 bytes, else of 32 (sort.c). */
#define load_keys RM_FOR_ISA(load_keys)
void load_keys(const sort_context *ctx, const void *values, ptrdiff_t n, void *keys);

/* Turns n keys of elements without NaN into elements; -0 has become 0. */
#define store_keys RM_FOR_ISA(store_keys)
void store_keys(const sort_context *ctx, const void *keys, ptrdiff_t n, void *values);

#endif
