/*
 * Sorting keys by digits, and by ranks. Part of sort.c.
 */
#ifndef ROWMAJOR_SORT_DIGITS_H
#define ROWMAJOR_SORT_DIGITS_H

#include <string.h>
#include "sort_passes.h"

/* The loops that take most of the time. */
#define BY_FOURS _Pragma("clang loop unroll_count(4)")

#define KEY uint32_t
#include "sort_key_type.h"
#define KEY uint64_t
#include "sort_key_type.h"

/* Three digits tell most keys of a run apart. Where more than four would be needed, the others are
 * left to comparisons, of up to so many keys. */
enum { FEW = 24 };

/*
 * Sorts a like radix_uint64_t does by all bits: by the upper ones, and then what they leave equal,
 * in the same way unless it is short. Each time fewer bits are left, so that it ends.
 */
static uint64_t *sort_wide(uint64_t *a, uint64_t *b, ptrdiff_t n, ptrdiff_t parts,
                           uint32_t (*counts)[BUCKETS]) {
  uint64_t least, most;
  bounds_uint64_t(a, n, &least, &most);
  const int digit = n < LONG ? SHORT_DIGIT : DIGIT, bits = bit_length(most - least);
  const int low = bits > 4 * digit ? bits - 3 * digit : 0;
  uint64_t *sorted = radix_uint64_t(a, b, n, least, low, bits, parts, counts);
  if (low == 0) return sorted;
  uint64_t *other = sorted == a ? b : a;
  for (ptrdiff_t first = 0, end; first < n; first = end) {
    const uint64_t upper = (sorted[first] - least) >> low;
    for (end = first + 1; end < n && (sorted[end] - least) >> low == upper;) end++;
    const ptrdiff_t length = end - first;
    if (length > FEW) {
      const uint64_t *part = sort_wide(sorted + first, other + first, length, 1, counts);
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
