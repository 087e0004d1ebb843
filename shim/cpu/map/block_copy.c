/*
 * Moves blocks of elements as they are: between any strides, transposing in registers, and past the
 * caches. Knows nothing of ops and plans.
 */
#include <string.h>
#include "block_copy.h"

/* Vectors of 8 elements that may lie anywhere. */
typedef uint8_t eight8 __attribute__((vector_size(8), aligned(1)));
typedef uint16_t eight16 __attribute__((vector_size(16), aligned(2)));
typedef uint32_t eight32 __attribute__((vector_size(32), aligned(4)));

#define PAIR(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)

/* The registers of a transpose have names only where its loops are unrolled. */
#define UNROLL _Pragma("clang loop unroll(full)")

/* The same, of 4 bytes, whose rows are longer than what shuffles cross cheaply. */
static inline void transpose_eight32(char *to, ptrdiff_t to_step, const char *from, ptrdiff_t from_step) {
  eight32 r[8], s[8];
  UNROLL for (int i = 0; i < 8; i++) memcpy(&r[i], from + i * from_step, 32);
  UNROLL for (int i = 0; i < 8; i += 2) {
    s[i] = PAIR(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    s[i + 1] = PAIR(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  UNROLL for (int i = 0; i < 8; i += 4) {
    UNROLL for (int j = 0; j < 2; j++) {
      r[i + j] = PAIR(s[i + j], s[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      r[i + j + 2] = PAIR(s[i + j], s[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  UNROLL for (int j = 0; j < 4; j++) {
    s[j] = PAIR(r[j], r[j + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    s[j + 4] = PAIR(r[j], r[j + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  UNROLL for (int i = 0; i < 8; i++) memcpy(to + i * to_step, &s[i], 32);
}

typedef uint64_t four64 __attribute__((vector_size(32), aligned(8)));

/* The same for 4 by 4 elements of 8 bytes. */
static inline void transpose_four64(char *to, ptrdiff_t to_step, const char *from, ptrdiff_t from_step) {
  four64 r[4], s[4];
  UNROLL for (int i = 0; i < 4; i++) memcpy(&r[i], from + i * from_step, 32);
  UNROLL for (int i = 0; i < 4; i += 2) {
    s[i] = PAIR(r[i], r[i + 1], 0, 4, 2, 6);
    s[i + 1] = PAIR(r[i], r[i + 1], 1, 5, 3, 7);
  }
  UNROLL for (int j = 0; j < 2; j++) {
    r[j] = PAIR(s[j], s[j + 2], 0, 1, 4, 5);
    r[j + 2] = PAIR(s[j], s[j + 2], 2, 3, 6, 7);
  }
  UNROLL for (int i = 0; i < 4; i++) memcpy(to + i * to_step, &r[i], 32);
}

#define TYPE uint8_t
#define EIGHT eight8
#include "block_copy_type.h"
#define TYPE uint16_t
#define EIGHT eight16
#include "block_copy_type.h"
#define TYPE uint32_t
#include "block_copy_type.h"
#define TYPE uint64_t
#include "block_copy_type.h"

/* Writes an element so often. What is the same byte throughout, as zeros are, the C library writes
 * without reading the lines before. */
static void fill_row(char *to, const char *element, ptrdiff_t times, ptrdiff_t bytes) {
  const uint64_t word = repeated(element, bytes);
  const line all = word - (line){0};
  const ptrdiff_t length = times * bytes;
  if (word == (word & 0xff) * 0x0101010101010101u) {
    memset(to, element[0], (size_t)length);
    return;
  }
  ptrdiff_t i = 0;
  for (; i + LINE <= length; i += LINE) memcpy(to + i, &all, LINE);
  memcpy(to + i, &all, (size_t)(length - i));
}

typedef uint8_t sixteen8 __attribute__((vector_size(16), aligned(1)));

/* Groups of 3 bytes in reverse order, as in the mirror image of a picture: five of them are 15 bytes, and
 * the one that is written besides is written over. */
static void mirror(char *to, const char *from, ptrdiff_t groups) {
  for (; groups > 5; groups -= 5, to += 15, from -= 15) {
    sixteen8 v;
    memcpy(&v, from - 13, sizeof v);
    v = PAIR(v, v, 13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 0);
    memcpy(to, &v, sizeof v);
  }
  for (; groups > 0; groups--, to += 3, from -= 3) memcpy(to, from, 3);
}

void RM_AT(move_block)(piece to, piece from, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t bytes) {
  if (columns >= 2 && columns <= 4 && to.right == bytes && to.down == columns * bytes &&
      from.down == bytes) {
    switch (bytes) {
      case 1: merge_uint8_t(to, from, rows, columns); break;
      case 2: merge_uint16_t(to, from, rows, columns); break;
      case 4: merge_uint32_t(to, from, rows, columns); break;
      default: merge_uint64_t(to, from, rows, columns); break;
    }
    return;
  }
  if (to.right == bytes && from.right == 0 && columns * bytes >= LINE) {
    for (ptrdiff_t i = 0; i < rows; i++) {
      fill_row(to.at + i * to.down, from.at + i * from.down, columns, bytes);
    }
    return;
  }
  if (to.right == bytes && from.right == bytes) {
    for (ptrdiff_t i = 0; i < rows; i++) {
      rm_copy(to.at + i * to.down, from.at + i * from.down, columns * bytes);
    }
    return;
  }
  /* Transposes, seen so that they are written along their rows: whole squares by registers, and what
   * is left over one by one. */
  if (rows > 1 && to.down == bytes && from.right == bytes) {
    RM_AT(move_block)((piece){to.at, to.right, bytes}, (piece){from.at, bytes, from.down}, columns, rows,
               bytes);
    return;
  }
  if (rows == 3 && bytes == 1 && to.down == 1 && from.down == 1 && to.right == 3 &&
      from.right == -3) {
    mirror(to.at, from.at, columns);
    return;
  }
  const ptrdiff_t side = bytes == 8 ? 4 : 8;
  if (to.right == bytes && from.down == bytes && rows >= side && columns >= side) {
    const ptrdiff_t across = columns / side * side;
    if (across < columns) {
      RM_AT(move_block)((piece){to.at + across * bytes, to.down, bytes},
                 (piece){from.at + across * from.right, bytes, from.right}, rows, columns - across,
                 bytes);
      columns = across;
    }
    for (; rows >= side; rows -= side) {
      for (ptrdiff_t j = 0; j < columns; j += side) {
        char *o = to.at + j * bytes;
        const char *p = from.at + j * from.right;
        switch (bytes) {
          case 1: transpose_uint8_t(o, to.down, p, from.right); break;
          case 2: transpose_uint16_t(o, to.down, p, from.right); break;
          case 4: transpose_eight32(o, to.down, p, from.right); break;
          default: transpose_four64(o, to.down, p, from.right); break;
        }
      }
      to.at += side * to.down;
      from.at += side * bytes;
    }
    if (rows == 0) return;
  }
  /* Many rows that are denser down than along are moved column by column. */
  if (rows > columns && (rm_magnitude(from.down) < rm_magnitude(from.right) ||
                         rm_magnitude(to.down) < rm_magnitude(to.right))) {
    const ptrdiff_t least = columns;
    to = (piece){to.at, to.right, to.down};
    from = (piece){from.at, from.right, from.down};
    columns = rows;
    rows = least;
  }
  switch (bytes) {
    case 1: move_uint8_t(to, from, rows, columns); break;
    case 2: move_uint16_t(to, from, rows, columns); break;
    case 4: move_uint32_t(to, from, rows, columns); break;
    default: move_uint64_t(to, from, rows, columns); break;
  }
}

void RM_AT(stream)(char *to, const char *from, ptrdiff_t bytes) {
  ptrdiff_t head = -(intptr_t)to & 63;
  if (head > bytes) head = bytes;
  memcpy(to, from, (size_t)head);
  ptrdiff_t i = head;
  for (; i + 64 <= bytes; i += 64) {
    line part;
    memcpy(&part, from + i, 64);
    __builtin_nontemporal_store(part, (line *)(to + i));
  }
  memcpy(to + i, from + i, (size_t)(bytes - i));
}
