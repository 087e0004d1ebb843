/*
 * Products of a few rows of x, rounded to 8 bits, and a group of rows of a quantized weight.
 */
#ifndef ROWMAJOR_QUANT_TILES_H
#define ROWMAJOR_QUANT_TILES_H

#include "quant_formats.h"
#include "quant_vectors.h"

/* The most rows of x of a tile; the numbers of rows are powers of two. Two rows on machines without
 * AVX would be a sixtieth of the library. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 8 };
#elif defined(__AVX2__) || defined(__aarch64__)
enum { TILE_ROWS = 4 };
#else
enum { TILE_ROWS = 1 };
#endif

/* The rows of the next tile, if that many are left: a power of two. */
static inline int rm_tile_rows(ptrdiff_t left) {
  int rows = TILE_ROWS;
  while (rows > left) rows /= 2;
  return rows;
}

/*
 * The rows of x of a tile are interleaved, in parts of PART elements: words of four elements of each
 * row, then the scale of each row, then its sum of the first and of the second half of the part, times
 * the scale.
 */
enum { WORDS = PART / 4 };

/* Whether the bytes of a format are signed. All others are at most 127. */
static inline bool rm_is_signed(int format) { return format == Q8_0 || format == IQ4_NL; }

/* The bytes of the words of a part of a row, and all bytes. */
static inline ptrdiff_t rm_words_bytes(bool is_signed) {
  return is_signed ? WORDS * SIGNED_WORD_BYTES : PART;
}
static inline ptrdiff_t rm_part_bytes(bool is_signed) {
  return rm_words_bytes(is_signed) + 3 * (ptrdiff_t)sizeof(float);
}

/* Sums of rows of x and the rows of a group, of `parts` parts from a whole block on: [rows,
 * GROUP_ROWS]. `add` says to add to those that are there. */
typedef void RM_KERNEL quant_tile_function(ptrdiff_t parts, const uint8_t *x, const uint8_t *weight,
                                 float *sums, bool add);

/* The kernel for that many rows; null for a format that there is not. */
quant_tile_function *RM_FOR_ISA(quant_tile)(int format, int rows);

/* Writes `blocks` blocks of up to GROUP_ROWS rows, row_bytes apart, as a group; those of lacking rows
 * are 0. */
void RM_FOR_ISA(interleave_blocks)(const quant_format *format, ptrdiff_t rows, ptrdiff_t row_bytes,
                                   ptrdiff_t blocks, const uint8_t *from, uint8_t *to);

/* Writes the rows of a group. */
void RM_FOR_ISA(separate_blocks)(const quant_format *format, ptrdiff_t rows, ptrdiff_t row_bytes,
                                 ptrdiff_t blocks, const uint8_t *from, uint8_t *to);

#endif
