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

/* Orders indices by the upper digits that go with them. */
static void scatter_upper_digit(void *context, ptrdiff_t index) {
  const digit_pass *p = context;
  const ptrdiff_t first = index * p->part;
  const ptrdiff_t end = rm_min(first + p->part, p->n);
  const int shift = p->index_bits;
  const uint32_t *from = p->from, mask = ((uint32_t)1 << shift) - 1;
  uint32_t *to = p->to, *positions = p->counts[index];
  UNROLL_4 for (ptrdiff_t i = first; i < end; i++) {
    to[positions[from[i] >> shift]++] = from[i] & mask;
  }
}

/* The argsort of n keys, of 64 bits if `wide`, whose (key - min_key) has so few bits that its upper
 * half and an index fit into 32 bits; false if it has more. `other` has room for n indices. */
static bool argsort_two_digits(const void *keys, bool wide, ptrdiff_t n, uint64_t min_key, int bits,
                               uint32_t *other, uint32_t *indices, ptrdiff_t parts,
                               uint32_t (*counts)[BUCKETS]) {
  const int digit_bits = n < LONG_RUN ? SHORT_DIGIT_BITS : DIGIT_BITS;
  const int lower = bits <= digit_bits ? bits : (bits + 1) / 2, upper = bits - lower;
  if (lower > digit_bits || upper + bit_length((uint64_t)n - 1) > 32) return false;
  digit_pass p = {.from = keys, .to = upper == 0 ? indices : other, .min_key = min_key, .n = n};
  p.part = rm_ceil_div(n, parts);
  p.bits = lower;
  p.index_bits = rm_min(32 - upper, 31);
  p.counts = counts;
  run_parts(parts, wide ? count_digit_uint64_t : count_digit_uint32_t, &p);
  prefix_sum_buckets(&p, parts);
  run_parts(parts, wide ? scatter_index_uint64_t : scatter_index_uint32_t, &p);
  if (upper == 0) return true;
  p.from = other;
  p.to = indices;
  p.min_key = 0;
  p.shift = p.index_bits;
  p.bits = upper;
  run_parts(parts, count_digit_uint32_t, &p);
  prefix_sum_buckets(&p, parts);
  run_parts(parts, scatter_upper_digit, &p);
  return true;
}

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
