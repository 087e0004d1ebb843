/*
 * The block formats of quantized weights; src/ops/quantized/formats.ts has the same.
 */
#ifndef ROWMAJOR_QUANT_FORMATS_H
#define ROWMAJOR_QUANT_FORMATS_H

#include "internal.h"
#include "float16.h"

/* The formats by their numbers in GGUF files. */
enum {
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  IQ4_NL = 20
};

/* Blocks are parts of 32 elements: one, or PARTS, which have scales each. */
enum { PART = 32, PARTS = 8 };

/* The bytes of blocks. */
enum {
  Q4_0_BYTES = 18,
  Q4_1_BYTES = 20,
  Q5_0_BYTES = 22,
  Q5_1_BYTES = 24,
  Q8_0_BYTES = 34,
  Q4_K_BYTES = 144,
  Q5_K_BYTES = 176,
  Q6_K_BYTES = 210,
  IQ4_NL_BYTES = 18
};

/* The rows of a weight whose blocks a packed weight interleaves. */
enum { GROUP_ROWS = 16, MOST_RUNS = 3 };

/* `count` pieces of a block, of `bytes` bytes each. */
typedef struct {
  int bytes, count;
} piece_run;

/*
 * The elements and the bytes of a block, and its pieces. A packed weight has the blocks of GROUP_ROWS
 * rows in the place of theirs, piece by piece: the first pieces of all rows, then the second ones.
 */
typedef struct {
  int number, size, bytes;
  piece_run runs[MOST_RUNS];
} quant_format;

/* Null if there is none of that number. */
static inline const quant_format *rm_quant_format(int number) {
  static const quant_format formats[] = {
      {Q4_0, PART, Q4_0_BYTES, {{2, 1}, {4, 4}}},
      {Q4_1, PART, Q4_1_BYTES, {{2, 2}, {4, 4}}},
      {Q5_0, PART, Q5_0_BYTES, {{2, 1}, {4, 5}}},
      {Q5_1, PART, Q5_1_BYTES, {{2, 2}, {4, 5}}},
      {Q8_0, PART, Q8_0_BYTES, {{2, 1}, {4, 8}}},
      {Q4_K, PARTS * PART, Q4_K_BYTES, {{2, 2}, {1, 12}, {4, 32}}},
      {Q5_K, PARTS * PART, Q5_K_BYTES, {{2, 2}, {1, 12}, {4, 40}}},
      {Q6_K, PARTS * PART, Q6_K_BYTES, {{4, 48}, {1, 16}, {2, 1}}},
      {IQ4_NL, PART, IQ4_NL_BYTES, {{2, 1}, {4, 4}}}};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    if (formats[i].number == number) return &formats[i];
  }
  return NULL;
}

/* The values of 4 bits of IQ4_NL. */
static const int8_t rm_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                         1,    13,   25,  38,  53,  69,  89,  113};

static inline float rm_half_at(const uint8_t *at) {
  return rm_f16_to_f32((uint16_t)(at[0] | at[1] << 8));
}

/* The scale and the minimum of a part, of 6 bits each. */
static inline void rm_scale_and_min(const uint8_t *at, int part, int *scale, int *min) {
  if (part < 4) {
    *scale = at[part] & 63;
    *min = at[part + 4] & 63;
  } else {
    *scale = (at[part + 4] & 15) | at[part - 4] >> 6 << 4;
    *min = at[part + 4] >> 4 | at[part] >> 6 << 4;
  }
}

#endif
