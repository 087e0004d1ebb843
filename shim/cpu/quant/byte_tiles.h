/*
 * Tiles of bytes in the registers of AMX: products of 16 rows of x, of 64 unsigned bytes, and 16 columns
 * of a weight, of signed bytes.
 *
 * Tile 2 t + g has the sums of the t-th tile of rows and the g-th group; tiles 4 and 5 are of x, 6 and 7
 * of the weight. Files of an ISA are compiled without AMX; rm_has_byte_tiles tells whether the processor
 * and the system have it.
 */
#ifndef ROWMAJOR_BYTE_TILES_H
#define ROWMAJOR_BYTE_TILES_H

/* The rows of a tile and their bytes. */
enum { TILE_SIDE = 16, TILE_ROW_BYTES = 64, TILE_BYTES = TILE_SIDE * TILE_ROW_BYTES };

#if defined(__linux__) && defined(__AVX512BW__)
#define RM_BYTE_TILES
#include <stdint.h>
#include "isa.h"

/* Gives this thread eight tiles of the largest size. */
static inline void rm_begin_tiles(void) {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    shape.row_bytes[i] = TILE_ROW_BYTES;
    shape.rows[i] = TILE_SIDE;
  }
  __asm__ volatile("ldtilecfg %0" : : "m"(shape));
}

/* The tiles are lost, and the system saves them no more. */
static inline void rm_end_tiles(void) { __asm__ volatile("tilerelease"); }

#define CLEAR_TILE(tile) __asm__ volatile("tilezero %%tmm" #tile : :)
#define LOAD_TILE(tile, from) \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile \
                   : : "r"(from), "r"((ptrdiff_t)TILE_ROW_BYTES) : "memory")
#define MULTIPLY_TILE(sums, x, weight) \
  __asm__ volatile("tdpbusd %%tmm" #weight ", %%tmm" #x ", %%tmm" #sums : :)
#define STORE_TILE_AT(tile, to) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" \
                   : : "r"(to), "r"((ptrdiff_t)TILE_ROW_BYTES) : "memory")

/* Sets the sums of one or two tiles of rows and groups to zero. */
static RM_ALWAYS_INLINE void clear_tiles(const int tiles, const int groups) {
  CLEAR_TILE(0);
  if (groups > 1) CLEAR_TILE(1);
  if (tiles > 1) CLEAR_TILE(2);
  if (tiles > 1 && groups > 1) CLEAR_TILE(3);
}

/* Adds the products of 64 elements of the depth: the second tile of rows is x_bytes after the first
 * one, the second group weight_bytes. */
static RM_ALWAYS_INLINE void add_tiles(const int tiles, const int groups, const uint8_t *x,
                                       ptrdiff_t x_bytes, const uint8_t *weight,
                                       ptrdiff_t weight_bytes) {
  LOAD_TILE(6, weight);
  LOAD_TILE(4, x);
  MULTIPLY_TILE(0, 4, 6);
  if (groups > 1) {
    LOAD_TILE(7, weight + weight_bytes);
    MULTIPLY_TILE(1, 4, 7);
  }
  if (tiles > 1) {
    LOAD_TILE(5, x + x_bytes);
    MULTIPLY_TILE(2, 5, 6);
    if (groups > 1) MULTIPLY_TILE(3, 5, 7);
  }
}

/* Writes the sums of a tile. */
static RM_ALWAYS_INLINE void store_tile(const int tile, int32_t *to) {
  if (tile == 0) STORE_TILE_AT(0, to);
  else if (tile == 1) STORE_TILE_AT(1, to);
  else if (tile == 2) STORE_TILE_AT(2, to);
  else STORE_TILE_AT(3, to);
}
#endif

#endif
