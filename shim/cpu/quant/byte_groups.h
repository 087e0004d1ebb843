/*
 * Matrices of bytes [K, N], packed for products whose sums are exact integers.
 *
 * A group of 16 columns is, for each, the int32 sum, the zero point, and the largest sum of the sizes of
 * bytes 2 i and 2 i + 1; then words of four rows. Unsigned bytes become signed ones, less 128; for AVX2
 * without VNNI, those of a column whose range is 7 bits are moved to its middle. The bytes x that meet
 * them are unsigned where the processor multiplies unsigned by signed bytes, else signed. So the sum of
 * (x - p) (w - q) is that of x w, less q times the sum of x, less p times that of w - q.
 *
 * AVX2 adds two products of unsigned and signed bytes in 16 bits, which is exact where those sizes are
 * small; other bytes are widened first.
 */
#ifndef ROWMAJOR_BYTE_GROUPS_H
#define ROWMAJOR_BYTE_GROUPS_H

#include "quant_formats.h"

enum {
  WORD_BYTES = 4 * GROUP_ROWS,
  /* Where the zero points and the sizes of pairs are, and the words. */
  BYTES_ZEROS = 4 * GROUP_ROWS,
  BYTES_PAIRS = 8 * GROUP_ROWS,
  BYTES_HEAD = 12 * GROUP_ROWS,
  /* The most that such a sum may be: 255 times it is less than 2^15. */
  MOST_PAIR = 128
};

/* How words of x are stored and multiplied: as 16 bits for each element, or as bytes with VNNI, or with
 * sums of 16 bits. */
enum { WIDE_WORDS, VNNI_WORDS, SMALL_WORDS };

/* How x meets `count` groups. */
static inline int words_for_groups(const uint8_t *groups, ptrdiff_t count, ptrdiff_t group_bytes) {
  if (rm_has_byte_products()) return VNNI_WORDS;
#if defined(RM_ISA) && defined(__AVX2__) && !defined(__AVX512F__)
  int32_t most = 0;
  for (ptrdiff_t i = 0; i < count; i++) {
    const int32_t *own = (const int32_t *)(const void *)(groups + i * group_bytes + BYTES_PAIRS);
    for (int j = 0; j < GROUP_ROWS; j++) most = own[j] > most ? own[j] : most;
  }
  return most <= MOST_PAIR ? SMALL_WORDS : WIDE_WORDS;
#else
  (void)groups, (void)count, (void)group_bytes;
  return WIDE_WORDS;
#endif
}

/* The bytes that multiply_byte_rows needs. */
ptrdiff_t RM_FOR_ISA(byte_rows_room)(ptrdiff_t rows, ptrdiff_t depth);

/* The int32 products [rows, columns] of at most 64 rows of unsigned bytes [rows, depth], each less its zero
 * point, and groups. */
void RM_FOR_ISA(multiply_byte_rows)(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth,
                                    const uint8_t *x, const int32_t *zeros, const uint8_t *groups,
                                    char *room, int32_t *out);

#endif
