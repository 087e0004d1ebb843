/*
 * Sorts keys by digits and by ranks. Part of sort.c.
 */
#ifndef ROWMAJOR_SORT_DIGITS_H
#define ROWMAJOR_SORT_DIGITS_H

#include <string.h>
#include "sort_passes.h"

/* For the loops that take most of the time. */
#define UNROLL_4 _Pragma("clang loop unroll_count(4)")

#define KEY uint32_t
#include "sort_key_type.h"
#define KEY uint64_t
#include "sort_key_type.h"

/* Three digits distinguish most keys of a run. If keys have more than four digits, insertion sort
 * finishes groups of up to this many keys. */
enum { INSERTION_MAX = 24 };

/* Sorts like radix_sort_uint64_t by all bits: first by the upper ones, then each group of equal
 * upper bits in the same way, or by insertion sort if it is short. Every recursion has fewer bits
 * left. */
static uint64_t *sort_keys_64(uint64_t *a, uint64_t *b, ptrdiff_t n, ptrdiff_t parts,
                              uint32_t (*counts)[BUCKETS]) {
  uint64_t min_key, max_key;
  bounds_uint64_t(a, n, &min_key, &max_key);
  const int digit = n < LONG_RUN ? SHORT_DIGIT_BITS : DIGIT_BITS,
            bits = bit_length(max_key - min_key);
  const int low = bits > 4 * digit ? bits - 3 * digit : 0;
  uint64_t *sorted = radix_sort_uint64_t(a, b, n, min_key, low, bits, parts, counts);
  if (low == 0) return sorted;
  uint64_t *other = sorted == a ? b : a;
  for (ptrdiff_t first = 0, end; first < n; first = end) {
    const uint64_t upper = (sorted[first] - min_key) >> low;
    for (end = first + 1; end < n && (sorted[end] - min_key) >> low == upper;) end++;
    const ptrdiff_t length = end - first;
    if (length > INSERTION_MAX) {
      const uint64_t *part = sort_keys_64(sorted + first, other + first, length, 1, counts);
      if (part != sorted + first) memcpy(sorted + first, part, (size_t)length * sizeof *part);
      continue;
    }
    for (ptrdiff_t i = first + 1; i < end; i++) {
      const uint64_t key = sorted[i];
      ptrdiff_t at = i;
      for (; at > first && sorted[at - 1] > key; at--) sorted[at] = sorted[at - 1];
      sorted[at] = key;
    }
  }
  return sorted;
}

#endif
