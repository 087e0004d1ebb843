/*
 * Copies blocks of elements: between any strides, transposing in registers, and with non-temporal
 * stores. This file does not know ops or plans.
 */
#include <string.h>
#include "block_copy.h"

/* Vectors of 8 elements without alignment. */
typedef uint8_t u8x8 __attribute__((vector_size(8), aligned(1)));
typedef uint16_t u16x8 __attribute__((vector_size(16), aligned(2)));
typedef uint32_t u32x8 __attribute__((vector_size(32), aligned(4)));

#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* A transpose is kept in registers only if its loops are unrolled. */
#define UNROLL _Pragma("clang loop unroll(full)")

/* Transposes 8 x 8 elements of 4 bytes, whose rows are longer than the lanes that shuffles cross
 * cheaply. */
static inline void transpose_u32x8(char *to, ptrdiff_t to_step, const char *from,
                                   ptrdiff_t from_step) {
  u32x8 r[8], s[8];
  UNROLL for (int i = 0; i < 8; i++) memcpy(&r[i], from + i * from_step, 32);
  UNROLL for (int i = 0; i < 8; i += 2) {
    s[i] = SHUFFLE(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    s[i + 1] = SHUFFLE(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  UNROLL for (int i = 0; i < 8; i += 4) {
    UNROLL for (int j = 0; j < 2; j++) {
      r[i + j] = SHUFFLE(s[i + j], s[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + j + 2] = SHUFFLE(s[i + j], s[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  UNROLL for (int j = 0; j < 4; j++) {
    s[j] = SHUFFLE(r[j], r[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    s[j + 4] = SHUFFLE(r[j], r[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  UNROLL for (int i = 0; i < 8; i++) memcpy(to + i * to_step, &s[i], 32);
}

typedef uint64_t u64x4 __attribute__((vector_size(32), aligned(8)));

/* Transposes 4 x 4 elements of 8 bytes. */
static inline void transpose_u64x4(char *to, ptrdiff_t to_step, const char *from,
                                   ptrdiff_t from_step) {
  u64x4 r[4], s[4];
  UNROLL for (int i = 0; i < 4; i++) memcpy(&r[i], from + i * from_step, 32);
  UNROLL for (int i = 0; i < 4; i += 2) {
    s[i] = SHUFFLE(r[i], r[i + 1], 0, 4, 2, 6);
    s[i + 1] = SHUFFLE(r[i], r[i + 1], 1, 5, 3, 7);
  }
  UNROLL for (int j = 0; j < 2; j++) {
    r[j] = SHUFFLE(s[j], s[j + 2], 0, 1, 4, 5);
    r[j + 2] = SHUFFLE(s[j], s[j + 2], 2, 3, 6, 7);
  }
  UNROLL for (int i = 0; i < 4; i++) memcpy(to + i * to_step, &r[i], 32);
}

#define TYPE uint8_t
#define VECTOR_OF_8 u8x8
#include "block_copy_type.h"
#define TYPE uint16_t
#define VECTOR_OF_8 u16x8
#include "block_copy_type.h"
#define TYPE uint32_t
#include "block_copy_type.h"
#define TYPE uint64_t
#include "block_copy_type.h"

/* Writes an element repeatedly. If all its bytes are equal, as in zeros, it uses memset, which does
 * not read the lines that it overwrites. */
static void fill_row(char *to, const char *element, ptrdiff_t times, ptrdiff_t bytes) {
  const uint64_t word = repeat_bytes(element, bytes);
  const cache_line all = word - (cache_line){0};
  const ptrdiff_t length = times * bytes;
  if (word == (word & 0xff) * 0x0101010101010101u) {
    memset(to, element[0], (size_t)length);
    return;
  }
  ptrdiff_t i = 0;
  for (; i + CACHE_LINE <= length; i += CACHE_LINE) memcpy(to + i, &all, CACHE_LINE);
  memcpy(to + i, &all, (size_t)(length - i));
}

typedef uint8_t u8x16 __attribute__((vector_size(16), aligned(1)));

/* Groups of 3 bytes in reverse order, as in a mirrored image. Each store writes five groups and one
 * excess byte, which the next store overwrites. */
static void reverse_triples(char *to, const char *from, ptrdiff_t groups) {
  for (; groups > 5; groups -= 5, to += 15, from -= 15) {
    u8x16 v;
    memcpy(&v, from - 13, sizeof v);
    v = SHUFFLE(v, v, 13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    memcpy(to, &v, sizeof v);
  }
  for (; groups > 0; groups--, to += 3, from -= 3) memcpy(to, from, 3);
}

void RM_FOR_ISA(copy_block)(block to, block from, ptrdiff_t rows, ptrdiff_t columns,
                            ptrdiff_t bytes) {
  if (columns >= 2 && columns <= 4 && to.column_stride == bytes &&
      to.row_stride == columns * bytes && from.row_stride == bytes) {
    switch (bytes) {
      case 1: interleave_uint8_t(to, from, rows, columns); break;
      case 2: interleave_uint16_t(to, from, rows, columns); break;
      case 4: interleave_uint32_t(to, from, rows, columns); break;
      default: interleave_uint64_t(to, from, rows, columns); break;
    }
    return;
  }
  if (to.column_stride == bytes && from.column_stride == 0 && columns * bytes >= CACHE_LINE) {
    for (ptrdiff_t i = 0; i < rows; i++) {
      fill_row(to.data + i * to.row_stride, from.data + i * from.row_stride, columns, bytes);
    }
    return;
  }
  if (to.column_stride == bytes && from.column_stride == bytes) {
    for (ptrdiff_t i = 0; i < rows; i++) {
      rm_copy(to.data + i * to.row_stride, from.data + i * from.row_stride, columns * bytes);
    }
    return;
  }
  /* Transposes, oriented so that stores follow rows: whole squares in registers, the rest element
   * by element. */
  if (rows > 1 && to.row_stride == bytes && from.column_stride == bytes) {
    RM_FOR_ISA(copy_block)((block){to.data, to.column_stride, bytes},
                           (block){from.data, bytes, from.row_stride}, columns, rows, bytes);
    return;
  }
  if (rows == 3 && bytes == 1 && to.row_stride == 1 && from.row_stride == 1 &&
      to.column_stride == 3 && from.column_stride == -3) {
    reverse_triples(to.data, from.data, columns);
    return;
  }
  const ptrdiff_t side = bytes == 8 ? 4 : 8;
  if (to.column_stride == bytes && from.row_stride == bytes && rows >= side && columns >= side) {
    const ptrdiff_t across = columns / side * side;
    if (across < columns) {
      RM_FOR_ISA(copy_block)(
          (block){to.data + across * bytes, to.row_stride, bytes},
          (block){from.data + across * from.column_stride, bytes, from.column_stride}, rows,
          columns - across, bytes);
      columns = across;
    }
    for (; rows >= side; rows -= side) {
      for (ptrdiff_t j = 0; j < columns; j += side) {
        char *o = to.data + j * bytes;
        const char *p = from.data + j * from.column_stride;
        switch (bytes) {
          case 1: transpose_uint8_t(o, to.row_stride, p, from.column_stride); break;
          case 2: transpose_uint16_t(o, to.row_stride, p, from.column_stride); break;
          case 4: transpose_u32x8(o, to.row_stride, p, from.column_stride); break;
          default: transpose_u64x4(o, to.row_stride, p, from.column_stride); break;
        }
      }
      to.data += side * to.row_stride;
      from.data += side * bytes;
    }
    if (rows == 0) return;
  }
  /* Many rows whose row stride is smaller than their column stride are copied column by column. */
  if (rows > columns && (rm_abs(from.row_stride) < rm_abs(from.column_stride) ||
                         rm_abs(to.row_stride) < rm_abs(to.column_stride))) {
    const ptrdiff_t swapped = columns;
    to = (block){to.data, to.column_stride, to.row_stride};
    from = (block){from.data, from.column_stride, from.row_stride};
    columns = rows;
    rows = swapped;
  }
  switch (bytes) {
    case 1: copy_rows_uint8_t(to, from, rows, columns); break;
    case 2: copy_rows_uint16_t(to, from, rows, columns); break;
    case 4: copy_rows_uint32_t(to, from, rows, columns); break;
    default: copy_rows_uint64_t(to, from, rows, columns); break;
  }
}

void RM_FOR_ISA(store_non_temporal)(char *to, const char *from, ptrdiff_t bytes) {
  ptrdiff_t head = -(intptr_t)to & 63;
  if (head > bytes) head = bytes;
  memcpy(to, from, (size_t)head);
  ptrdiff_t i = head;
  for (; i + 64 <= bytes; i += 64) {
    cache_line part;
    memcpy(&part, from + i, 64);
    __builtin_nontemporal_store(part, (cache_line *)(to + i));
  }
  memcpy(to + i, from + i, (size_t)(bytes - i));
}
