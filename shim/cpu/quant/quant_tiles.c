/*
 * Products of a few rows of x, rounded to 8 bits, and a group of rows of a quantized weight, whose
 * pieces of four elements are interleaved: a vector has the same depth of several rows, and no sums of
 * lanes are needed.
 *
 * An element of a part of the weight is factor * q + shift: the sum of a part is
 * factor * (sum of q * x) + shift * (sum of x), for the numbers q and x of 8 bits.
 */
#include "quant_tiles.h"

enum {
  GROUP_VECTORS = GROUP_ROWS * 4 / VECTOR_BYTES,
  /* How far ahead of its loads a kernel asks for lines of the weight. */
  AHEAD_BYTES = 4096,
  LINE_BYTES = 64
};

/* ---- a part of the weight -------------------------------------------------------------------- */

/* The vectors of a word of all rows, which begin `at` bytes into each row's block. */
static RM_ALWAYS_INLINE v_u8 load_word(const uint8_t *block, ptrdiff_t at, int v) {
  return load_bytes(block + at * GROUP_ROWS + v * VECTOR_BYTES);
}

/* 16 in bytes whose bits are set: bit 4 word + k of 32 for byte k. */
static RM_ALWAYS_INLINE v_u8 fifth_bits(v_u8 bits, int word) {
  const v_i32 four = (v_i32)bits >> (uint32_t)(4 * word) & 15;
  const v_i32 spread = (four | four << 7 | four << 14 | four << 21) & 0x01010101;
  return (v_u8)(spread << 4);
}

/* Word `word` of part `part` of a block, of 4 columns of 4 bits each per byte. */
static RM_ALWAYS_INLINE v_u8 nibbles(const uint8_t *block, ptrdiff_t at, int word, int v) {
  const v_u8 both = load_word(block, at + word % 4 * 4, v);
  return bits_of(both, word < 4 ? 0 : 4, 15);
}

/* The numbers q of word `word` of a part. */
static RM_ALWAYS_INLINE v_u8 read_word(const int format, const uint8_t *block, int part,
                                       const int word, int v) {
  switch (format) {
    case Q4_0: return nibbles(block, 2, word, v);
    case Q4_1: return nibbles(block, 4, word, v);
    case IQ4_NL: return LOOK_UP(rm_iq4_values, nibbles(block, 2, word, v));
    case Q5_0: return nibbles(block, 6, word, v) | fifth_bits(load_word(block, 2, v), word);
    case Q5_1: return nibbles(block, 8, word, v) | fifth_bits(load_word(block, 4, v), word);
    case Q8_0: return load_word(block, 2 + 4 * word, v);
    case Q4_K: return bits_of(load_word(block, 16 + part / 2 * PART + 4 * word, v), part % 2 * 4, 15);
    case Q5_K: {
      const v_u8 high = bits_of(load_word(block, 16 + 4 * word, v), part, 1);
      const v_u8 both = load_word(block, 48 + part / 2 * PART + 4 * word, v);
      return bits_of(both, part % 2 * 4, 15) | (v_u8)((v_i32)high << 4);
    }
    default: {
      const int half = part / 4, run = part % 4;
      const v_u8 both = load_word(block, half * 64 + run % 2 * PART + 4 * word, v);
      const v_u8 high = bits_of(load_word(block, 128 + half * PART + 4 * word, v), run * 2, 3);
      return bits_of(both, run / 2 * 4, 15) | (v_u8)((v_i32)high << 4);
    }
  }
}

/* The float16 of LANES columns that begin `at` bytes into each row's block. */
static RM_ALWAYS_INLINE v_f32 read_halves(const uint8_t *block, ptrdiff_t at, int v) {
  return load_halves(block + at * GROUP_ROWS + v * LANES * 2);
}

static RM_ALWAYS_INLINE v_f32 unsigned_floats(lane_u8 x) {
  return __builtin_convertvector(__builtin_convertvector(x, v_s32), v_f32);
}

/* The 6 bits of the scale or the minimum (`at` is 0 or 4) of a part, in 12 bytes of scales. */
static RM_ALWAYS_INLINE lane_u8 six_bits(const uint8_t *scales, int part, int at, int v) {
  const uint8_t *own = scales + v * LANES;
  if (part < 4) return load_lanes(own + (part + at) * GROUP_ROWS) & (lane_u8)(uint8_t)63;
  const lane_u8 low = load_lanes(own + (part + 4) * GROUP_ROWS);
  const lane_u8 high = load_lanes(own + (part - 4 + at) * GROUP_ROWS);
  return (at == 0 ? low & (lane_u8)(uint8_t)15 : low >> 4) | high >> 6 << 4;
}

/* How the elements of the halves of a part are made of its numbers. */
typedef struct {
  v_f32 factor[2], shift[2];
} part_scales;

static RM_ALWAYS_INLINE part_scales read_scales(const int format, const uint8_t *block, int part,
                                                int v) {
  part_scales made;
  if (format == Q6_K) {
    const v_f32 d = read_halves(block, 208, v);
    UNROLL for (int half = 0; half < 2; half++) {
      const lane_u8 scale =
          load_lanes(block + (192 + part * 2 + half) * GROUP_ROWS + v * LANES);
      made.factor[half] =
          d * __builtin_convertvector(__builtin_convertvector((lane_s8)scale, v_s32), v_f32);
      made.shift[half] = -32 * made.factor[half];
    }
    return made;
  }
  const v_f32 d = read_halves(block, 0, v);
  made.factor[0] = d;
  if (format == Q4_1 || format == Q5_1) made.shift[0] = read_halves(block, 2, v);
  else if (format == Q4_K || format == Q5_K) {
    const uint8_t *scales = block + 4 * GROUP_ROWS;
    made.factor[0] = d * unsigned_floats(six_bits(scales, part, 0, v));
    made.shift[0] = -read_halves(block, 2, v) * unsigned_floats(six_bits(scales, part, 4, v));
  } else made.shift[0] = (format == Q4_0 ? -8 : -16) * d;
  made.factor[1] = made.factor[0];
  made.shift[1] = made.shift[0];
  return made;
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The words whose products fit 16 bits together. */
static RM_ALWAYS_INLINE int words_at_once(const int format) {
  switch (format) {
    case Q4_0:
    case Q4_1:
    case Q4_K: return 8;
    case Q5_0:
    case Q5_1:
    case Q5_K: return 4;
    case Q6_K: return 2;
    default: return 1;
  }
}

/* The sums of products of the words [word, end) of a part, for each row. */
static RM_ALWAYS_INLINE void add_words(const int format, const int rows, const uint8_t *block,
                                       int part, const int word, const int end, const uint8_t *x,
                                       v_s32 (*to)[GROUP_VECTORS]) {
  const int step = words_at_once(format);
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) to[r][v] = (v_s32)0;
  }
  UNROLL for (int first = word; first < end; first += step) {
    byte_sums sums[TILE_ROWS][GROUP_VECTORS];
    UNROLL for (int r = 0; r < rows; r++) {
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) sums[r][v] = NO_SUMS;
    }
    UNROLL for (int t = first; t < first + step; t++) {
      v_u8 w[GROUP_VECTORS];
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) w[v] = read_word(format, block, part, t, v);
      UNROLL for (int r = 0; r < rows; r++) {
        const v_u8 word_of_x = repeat_word(x + (t * rows + r) * 4);
        UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
          sums[r][v] = ADD_PAIRS(sums[r][v], w[v], word_of_x);
          IN_ORDER(sums[r][v]);
        }
      }
    }
    UNROLL for (int r = 0; r < rows; r++) {
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) to[r][v] += WIDEN(sums[r][v]);
    }
  }
}

/* The same for signed bytes, and all words. */
static RM_ALWAYS_INLINE void add_signed_words(const int format, const int rows,
                                              const uint8_t *block, const uint8_t *x,
                                              v_s32 (*to)[GROUP_VECTORS]) {
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) to[r][v] = (v_s32)0;
  }
  UNROLL for (int t = 0; t < WORDS; t++) {
    signed_word w[GROUP_VECTORS];
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
      w[v] = signed_word_of(read_word(format, block, 0, t, v));
    }
    UNROLL for (int r = 0; r < rows; r++) {
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
        to[r][v] = add_signed(to[r][v], w[v], x + (t * rows + r) * SIGNED_WORD_BYTES);
        IN_ORDER(to[r][v]);
      }
    }
  }
}

static RM_ALWAYS_INLINE int parts_of(const int format) {
  return format == Q4_K || format == Q5_K || format == Q6_K ? PARTS : 1;
}

static RM_ALWAYS_INLINE int bytes_of(const int format) {
  switch (format) {
    case Q4_0:
    case IQ4_NL: return Q4_0_BYTES;
    case Q4_1: return Q4_1_BYTES;
    case Q5_0: return Q5_0_BYTES;
    case Q5_1: return Q5_1_BYTES;
    case Q8_0: return Q8_0_BYTES;
    case Q4_K: return Q4_K_BYTES;
    case Q5_K: return Q5_K_BYTES;
    default: return Q6_K_BYTES;
  }
}

static RM_ALWAYS_INLINE void multiply(const int format, const int rows, ptrdiff_t parts,
                                      const uint8_t *x, const uint8_t *weight, float *sums,
                                      bool add) {
  const bool has_halves = format == Q6_K, is_signed = rm_is_signed(format);
  const int block_parts = parts_of(format), block_bytes = bytes_of(format) * GROUP_ROWS;
  v_f32 all[TILE_ROWS][GROUP_VECTORS];
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
      all[r][v] = add ? *(const v_f32 *)(sums + r * GROUP_ROWS + v * LANES) : (v_f32)0.0f;
    }
  }
  ROLLED for (ptrdiff_t p = 0; p < parts; p++) {
    const int part = (int)p % block_parts;
    const float *scales = (const float *)(x + rows * rm_words_bytes(is_signed));
    const float *low = scales + rows, *high = low + rows;
    part_scales scale[GROUP_VECTORS];
    v_s32 made[TILE_ROWS][GROUP_VECTORS];
    UNROLL for (int at = 0; at < block_bytes / block_parts; at += LINE_BYTES) {
      __builtin_prefetch(weight + AHEAD_BYTES + part * (block_bytes / block_parts) + at);
    }
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) scale[v] = read_scales(format, weight, part, v);
    UNROLL for (int half = 0; half < (has_halves ? 2 : 1); half++) {
      const int words = has_halves ? WORDS / 2 : WORDS;
      if (is_signed) add_signed_words(format, rows, weight, x, made);
      else add_words(format, rows, weight, part, half * words, (half + 1) * words, x, made);
      UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
          const v_f32 factor = scale[v].factor[half] * scales[r];
          all[r][v] = FMA(v_f32, floats_of(made[r][v]), factor, all[r][v]);
        }
      }
    }
    UNROLL for (int r = 0; r < rows; r++) {
      const v_f32 sum = (v_f32)(low[r] + high[r]);
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
        if (has_halves) {
          all[r][v] = FMA(v_f32, scale[v].shift[0], (v_f32)low[r], all[r][v]);
          all[r][v] = FMA(v_f32, scale[v].shift[1], (v_f32)high[r], all[r][v]);
        } else if (!is_signed) all[r][v] = FMA(v_f32, scale[v].shift[0], sum, all[r][v]);
      }
    }
    x += rows * rm_part_bytes(is_signed);
    if (part == block_parts - 1) weight += block_bytes;
  }
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
      *(v_f32 *)(sums + r * GROUP_ROWS + v * LANES) = all[r][v];
    }
  }
}

#define TILE(rows, format) \
  static RM_KERNEL void tile_##rows##_##format(ptrdiff_t parts, const uint8_t *x, \
                                               const uint8_t *weight, float *sums, bool add) { \
    multiply(format, rows, parts, x, weight, sums, add); \
  }
/* The tiles of a format, and the one of some rows. */
#if defined(__AVX512F__)
#define TILES(format) TILE(1, format) TILE(2, format) TILE(4, format) TILE(8, format)
#define TILE_OF(format, rows) \
  (rows == 1 ? tile_1_##format : rows == 2 ? tile_2_##format : rows == 4 ? tile_4_##format : tile_8_##format)
#elif defined(__AVX2__) || defined(__aarch64__)
#define TILES(format) TILE(1, format) TILE(2, format) TILE(4, format)
#define TILE_OF(format, rows) \
  (rows == 1 ? tile_1_##format : rows == 2 ? tile_2_##format : tile_4_##format)
#else
#define TILES(format) TILE(1, format)
#define TILE_OF(format, rows) (rows == 1 ? tile_1_##format : NULL)
#endif
TILES(Q4_0)
TILES(Q4_1)
TILES(Q5_0)
TILES(Q5_1)
TILES(Q8_0)
TILES(Q4_K)
TILES(Q5_K)
TILES(Q6_K)
TILES(IQ4_NL)

quant_tile_function *RM_FOR_ISA(quant_tile)(int format, int rows) {
#define CASE(format) \
  case format: \
    return TILE_OF(format, rows);
  switch (format) {
    CASE(Q4_0)
    CASE(Q4_1)
    CASE(Q5_0)
    CASE(Q5_1)
    CASE(Q8_0)
    CASE(Q4_K)
    CASE(Q5_K)
    CASE(Q6_K)
    CASE(IQ4_NL)
    default: return NULL;
  }
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Four words at any address. */
typedef uint32_t word4 __attribute__((ext_vector_type(4), aligned(1), may_alias));

/* Four words of each of four rows: the rows of each word. */
static RM_ALWAYS_INLINE void transpose_words(const uint8_t *from, ptrdiff_t row_bytes, uint8_t *to) {
  const word4 a = *(const word4 *)from, b = *(const word4 *)(from + row_bytes);
  const word4 c = *(const word4 *)(from + 2 * row_bytes), d = *(const word4 *)(from + 3 * row_bytes);
  const word4 ab = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const word4 cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const word4 ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const word4 cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  enum { STEP = 4 * GROUP_ROWS };
  *(word4 *)to = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
  *(word4 *)(to + STEP) = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
  *(word4 *)(to + 2 * STEP) = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
  *(word4 *)(to + 3 * STEP) = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
}

/* Pieces of `bytes` bytes, one by one. */
static RM_ALWAYS_INLINE void copy_pieces(const int bytes, ptrdiff_t rows, ptrdiff_t row_bytes,
                                         int count, const uint8_t *from, uint8_t *to) {
  for (int i = 0; i < count; i++) {
    for (ptrdiff_t r = 0; r < rows; r++) {
      memcpy(to + (i * GROUP_ROWS + r) * bytes, from + r * row_bytes + i * bytes, (size_t)bytes);
    }
  }
}

void RM_FOR_ISA(interleave_blocks)(const quant_format *format, ptrdiff_t rows, ptrdiff_t row_bytes,
                                   ptrdiff_t blocks, const uint8_t *from, uint8_t *to) {
  if (rows < GROUP_ROWS) memset(to, 0, (size_t)(blocks * format->bytes * GROUP_ROWS));
  for (ptrdiff_t block = 0; block < blocks; block++) {
    for (int run = 0; run < MOST_RUNS; run++) {
      const int bytes = format->runs[run].bytes, count = format->runs[run].count;
      int done = 0;
      if (bytes == 4 && rows == GROUP_ROWS) {
        for (; done + 4 <= count; done += 4) {
          for (int r = 0; r < GROUP_ROWS; r += 4) {
            transpose_words(from + r * row_bytes + done * 4, row_bytes,
                            to + (done * GROUP_ROWS + r) * 4);
          }
        }
      }
      const uint8_t *rest = from + done * bytes;
      uint8_t *at = to + done * bytes * GROUP_ROWS;
      if (bytes == 4) copy_pieces(4, rows, row_bytes, count - done, rest, at);
      else if (bytes == 2) copy_pieces(2, rows, row_bytes, count, rest, at);
      else copy_pieces(1, rows, row_bytes, count, rest, at);
      from += count * bytes;
      to += count * bytes * GROUP_ROWS;
    }
  }
}

void RM_FOR_ISA(separate_blocks)(const quant_format *format, ptrdiff_t rows, ptrdiff_t row_bytes,
                                 ptrdiff_t blocks, const uint8_t *from, uint8_t *to) {
  for (ptrdiff_t block = 0; block < blocks; block++) {
    for (int run = 0; run < MOST_RUNS; run++) {
      const int bytes = format->runs[run].bytes;
      for (int i = 0; i < format->runs[run].count; i++) {
        RM_ROLLED for (ptrdiff_t r = 0; r < rows; r++) {
          memcpy(to + r * row_bytes, from + r * bytes, (size_t)bytes);
        }
        from += bytes * GROUP_ROWS;
        to += bytes;
      }
    }
  }
}
