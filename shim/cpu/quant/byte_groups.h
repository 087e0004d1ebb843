/*
 * Matrices of bytes [K, N], packed for products whose sums are exact integers.
 *
 * A group of 16 columns is the int32 sum of each, its zero point, then words of four rows. Unsigned bytes
 * become signed ones, less 128. The bytes x that meet them are unsigned where the processor multiplies
 * unsigned by signed bytes, else signed. So the sum of (x - p) (w - q) is that of x w, less q times the
 * sum of x, less p times that of w - q.
 */
#ifndef ROWMAJOR_BYTE_GROUPS_H
#define ROWMAJOR_BYTE_GROUPS_H

#include "quant_formats.h"

enum {
  WORD_BYTES = 4 * GROUP_ROWS,
  BYTES_HEAD = 8 * GROUP_ROWS
};

/* The bytes that multiply_byte_rows needs. */
ptrdiff_t RM_FOR_ISA(byte_rows_room)(ptrdiff_t rows, ptrdiff_t depth);

/* The int32 products [rows, columns] of at most 64 rows of unsigned bytes [rows, depth], each less its zero
 * point, and groups. */
void RM_FOR_ISA(multiply_byte_rows)(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth,
                                    const uint8_t *x, const int32_t *zeros, const uint8_t *groups,
                                    char *room, int32_t *out);

#endif
