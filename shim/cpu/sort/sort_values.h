/*
 * Sorts the values of a run where vectors are wide: by quicksort, or by counts if they are short.
 * Part of sort.c.
 */
#ifndef ROWMAJOR_SORT_VALUES_H
#define ROWMAJOR_SORT_VALUES_H

#include <stdlib.h>
#include <string.h>
#include "quicksort.h"
#include "sort_keys.h"

/* Without AVX2, radix sort is faster. */
#if defined(__AVX2__)
enum { QUICKSORTS = 1 };
#else
enum { QUICKSORTS = 0 };
#endif

/* The lengths from which the keys of elements of 8 and 16 bits are counted. */
enum { COUNTED_MIN_8 = 64, COUNTED_MIN_16 = 24 * 1024 };

/* A workspace that grows on demand. Growing discards its contents. */
typedef struct {
  void *memory;
  size_t size;
  ptrdiff_t parts;
} sort_workspace;

static void *workspace_reserve(sort_workspace *workspace, size_t size) {
  if (size > workspace->size) {
    free(workspace->memory);
    workspace->memory = malloc(size);
    workspace->size = workspace->memory == NULL ? 0 : size;
  }
  return workspace->memory;
}

/* Sorts n elements of 8 or 16 bits by how often each key occurs. */
static bool sort_by_counts(const sort_context *ctx, void *values, ptrdiff_t n,
                           sort_workspace *workspace) {
  const int keys = 1 << 8 * ctx->bytes;
  uint32_t *counts = workspace_reserve(workspace, (size_t)keys * sizeof *counts);
  if (counts == NULL) return false;
  memset(counts, 0, (size_t)keys * sizeof *counts);
  uint8_t *bytes = values;
  uint16_t *words = values;
  if (ctx->bytes == 1) RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) counts[bytes[i]]++;
  else RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) counts[words[i]]++;
  enum { BLOCK = 256 };
  for (int first = 0; first < keys; first += BLOCK) {
    uint32_t block[BLOCK];
    uint16_t elements[BLOCK];
    for (int i = 0; i < BLOCK; i++) block[i] = (uint32_t)(first + i) ^ (uint32_t)ctx->bias;
    store_keys(ctx, block, BLOCK, elements);
    RM_SCALAR for (int i = 0; i < BLOCK; i++) {
      if (ctx->bytes == 1) {
        const uint8_t element = ((const uint8_t *)elements)[i];
        memset(bytes, element, counts[element]);
        bytes += counts[element];
      } else {
        const uint16_t element = elements[i];
        for (uint32_t k = 0; k < counts[element]; k++) words[k] = element;
        words += counts[element];
      }
    }
  }
  return true;
}

/* Sorts n elements without NaN, or their keys; -0 becomes 0. */
static bool sort_plain(const sort_context *ctx, void *values, ptrdiff_t n, bool is_loaded,
                       sort_workspace *workspace) {
  const bool shared = workspace->parts > 1;
  if (ctx->bytes < 4) {
    if (n >= (ctx->bytes == 1 ? COUNTED_MIN_8 : COUNTED_MIN_16)) {
      return sort_by_counts(ctx, values, n, workspace);
    }
    int32_t *keys = workspace_reserve(workspace, (size_t)n * sizeof *keys);
    if (keys == NULL) return false;
    load_keys(ctx, values, n, keys);
    quicksort_32(keys, n);
    store_keys(ctx, keys, n, values);
    return true;
  }
  /* Signed integers are their own keys. */
  const bool converts = ctx->is_float || ctx->flip != ctx->bias;
  if (converts && !is_loaded) load_keys(ctx, values, n, values);
  if (ctx->bytes == 8) (shared ? quicksort_parallel_64 : quicksort_64)(values, n);
  else (shared ? quicksort_parallel_32 : quicksort_32)(values, n);
  if (converts) store_keys(ctx, values, n, values);
  return true;
}

/* Turns floats of 32 or 64 bits into keys in place, block by block, so that each is read from memory
 * once. False if some are ambiguous: then all are as before. */
static bool load_unambiguous(const sort_context *ctx, char *values, ptrdiff_t n) {
  enum { BLOCK = 2048 };
  for (ptrdiff_t first = 0; first < n; first += BLOCK) {
    char *block = values + first * ctx->bytes;
    const ptrdiff_t length = rm_min(BLOCK, n - first);
    if (has_ambiguous_keys(ctx, block, length)) {
      store_keys(ctx, values, first, values);
      return false;
    }
    load_keys(ctx, block, length, block);
  }
  return true;
}

#define TAKE_AMBIGUOUS(type) \
  take_ambiguous_##type(ctx, (void *)values, n, nans, signs, &zeros, &before_zeros)
#define PUT_AMBIGUOUS(type) \
  put_ambiguous_##type(ctx, (void *)values, n, left, nans, signs, zeros, before_zeros)

/* Sorts a run. NaN goes last, and zeros keep the order of their signs. */
static bool sort_values(const sort_context *ctx, char *values, sort_workspace *workspace) {
  const ptrdiff_t n = ctx->size, bytes = ctx->bytes;
  const bool loads = ctx->is_float && bytes >= 4;
  if (loads ? load_unambiguous(ctx, values, n) : !has_ambiguous_keys(ctx, values, n)) {
    return sort_plain(ctx, values, n, loads, workspace);
  }
  void *nans = malloc((size_t)((n + 1) * (bytes + 1)));
  if (nans == NULL) return false;
  uint8_t *signs = (uint8_t *)nans + (n + 1) * bytes;
  ptrdiff_t zeros, before_zeros;
  const ptrdiff_t left = bytes == 8   ? TAKE_AMBIGUOUS(uint64_t)
                         : bytes == 4 ? TAKE_AMBIGUOUS(uint32_t)
                                      : TAKE_AMBIGUOUS(uint16_t);
  const bool done = left == 0 || sort_plain(ctx, values, left, false, workspace);
  if (bytes == 8) PUT_AMBIGUOUS(uint64_t);
  else if (bytes == 4) PUT_AMBIGUOUS(uint32_t);
  else PUT_AMBIGUOUS(uint16_t);
  free(nans);
  return done;
}

#endif
