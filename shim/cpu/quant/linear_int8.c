/*
 * x times a weight of signed bytes, plus bias, through an activation, plus a residual; the quantization
 * of such weights; and the int32 products of int8 matrices.
 *
 * The depth is cut into blocks. The elements w of a block of a row of the weight are multiples p of a
 * scale s, from -127 to 127. Those of a block of a row of x are a + d q with q from 0 to 255, where a is
 * the least of them. So the sum of products is s d sum(p q), of integers, plus a s sum(p).
 *
 * A block of a row of the weight is s and s sum(p), float32, then its bytes, with zeros up to a word of
 * four. 16 rows are interleaved in pieces of four bytes, as those of a quantized weight
 * (quant_formats.h); rows that the last group lacks are zeros.
 *
 * Words of x are four bytes where the processor has VNNI, else those of quant_vectors.h. Where it has
 * AMX, the words of a group are the rows of its tiles as they are.
 */
#include <math.h>
#include "byte_groups.h"
#include "byte_output.h"
#include "byte_tiles.h"
#include "group_output.h"

enum {
  /* The words of a strip of the depth, whose sums fit 32 bits, and with rows of x the L1 cache. */
  STRIP_WORDS = 256,
  /* The words of a block, as INT8_BLOCK of panels.ts. */
  BLOCK_WORDS = 32,
  /* The rows of x that a group meets at once, and those of a product of bytes. */
  STRIP_ROWS = 64,
  BYTES_ROWS = 96,
  /* The words of a strip of two groups. */
  PAIR_WORDS = 128,
  /* The scales and the sums before the words of a block. */
  HEAD_BYTES = 8 * GROUP_ROWS,
  BLOCK_BYTES = HEAD_BYTES + BLOCK_WORDS * WORD_BYTES,
  GROUP_VECTORS = WORD_BYTES / VECTOR_BYTES,
  AHEAD_BYTES = 4096,
  /* The fewest rows of x for which tiles, of 16 rows, are faster. */
  LEAST_TILED_ROWS = 6
};

static const double TASK_NS = 8000, BYTES_PER_NS = 12, ROUNDED_PER_NS = 2, PRODUCTS_PER_NS = 60, TILED_PER_NS = 600;

/* Of a block of a row of x: the number of q = 0, less WORD_SHIFT, and the distance of two numbers. */
typedef struct {
  float first, step;
} rounding;

typedef struct {
  ptrdiff_t rows, depth, words, blocks, groups, group_bytes;
  const uint8_t *weight;
  const float *x;
  ptrdiff_t x_stride, row_blocks, groups_per_task;
  /* The words of the rounded rows, tile after tile, and how the blocks of each row are rounded. */
  uint8_t *rounded;
  rounding *roundings;
  bool has_vnni, has_tiles;
  group_output output;
} int8_context;

static RM_ALWAYS_INLINE ptrdiff_t word_bytes(int how) {
  return how == WIDE_WORDS ? SIGNED_WORD_BYTES : 4;
}

static ptrdiff_t blocks_of(ptrdiff_t words) { return rm_ceil_div(words, BLOCK_WORDS); }

static ptrdiff_t group_bytes_of(ptrdiff_t words) {
  return blocks_of(words) * HEAD_BYTES + words * WORD_BYTES;
}

/* ---- rounding -------------------------------------------------------------------------------- */

/* The scale of numbers: their largest size, or NaN if there is one, over 127. */
static float scale_of(const float *from, ptrdiff_t n) {
  /* Sizes are ordered as the integers of their bits. */
  int32_t most = 0;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    const int32_t size = ((const int32_t *)(const void *)from)[i] & 0x7fffffff;
    most = size > most ? size : most;
  }
  float size;
  memcpy(&size, &most, sizeof size);
  return size / 127;
}

/* Rounds up to four numbers to multiples of a scale, 1 / inverse; 0 if it is not finite. */
static RM_ALWAYS_INLINE void round_word(const float *from, ptrdiff_t n, float inverse, int8_t *to) {
  for (int i = 0; i < 4; i++) {
    float q = i < n ? from[i] * inverse : 0;
    q = q >= -127.5f && q <= 127.5f ? q : 0;
    to[i] = (int8_t)(int)rintf(q);
  }
}

static float inverse_of(float scale) { return scale == 0 ? 0 : 1 / scale; }

static float float_of(int32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* How numbers from `low` to `high` are rounded to 0 .. 255; NaN if one is not finite. */
static rounding rounding_between(float low, float high) {
  /* Halves, as the difference may overflow. */
  const float step = (high * 0.5f - low * 0.5f) / 127.5f;
  return step >= 0 && step <= 3e38f ? (rounding){low, step} : (rounding){(float)NAN, (float)NAN};
}

/* How numbers are rounded to 0 .. 255; NaN if one is not finite. */
static rounding rounding_of(const float *from, ptrdiff_t n) {
  /* Numbers are ordered as these integers, which are their own inverse. */
  int32_t least = 0x7fffffff, most = -0x7fffffff - 1;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    const int32_t bits = ((const int32_t *)(const void *)from)[i];
    const int32_t key = bits ^ (int32_t)((uint32_t)(bits >> 31) >> 1);
    least = key < least ? key : least;
    most = key > most ? key : most;
  }
  const float low = float_of(least ^ (int32_t)((uint32_t)(least >> 31) >> 1));
  const float high = float_of(most ^ (int32_t)((uint32_t)(most >> 31) >> 1));
  return rounding_between(low, high);
}

/* A number as one from 0 to 255. */
static RM_ALWAYS_INLINE int rounded_unsigned(float x, float low, float inverse) {
  float q = (x - low) * inverse;
  q = q >= 0 ? q : 0;
  q = q <= 255 ? q : 255;
  return (int)rintf(q);
}

/* Rounds up to four numbers to 0 .. 255; those that lack are 0. */
static RM_ALWAYS_INLINE void round_unsigned(const float *from, ptrdiff_t n, float low,
                                            float inverse, int16_t *to) {
  for (int i = 0; i < 4; i++) {
    to[i] = (int16_t)(i < n ? rounded_unsigned(from[i], low, inverse) : 0);
  }
}

static RM_ALWAYS_INLINE void round_rows(const bool has_vnni, const int8_context *ctx,
                                        ptrdiff_t first, ptrdiff_t last) {
  const ptrdiff_t bytes = word_bytes(has_vnni);
  while (first < last) {
    const int rows = rm_tile_rows(ctx->rows - first);
    uint8_t *tile = ctx->rounded + first * ctx->words * bytes;
    for (int r = 0; r < rows; r++) {
      const float *from = ctx->x + (first + r) * ctx->x_stride;
      for (ptrdiff_t block = 0; block < ctx->blocks; block++) {
        const ptrdiff_t begin = block * BLOCK_WORDS;
        const ptrdiff_t end = rm_min(ctx->words, begin + BLOCK_WORDS);
        const ptrdiff_t count = rm_min(4 * BLOCK_WORDS, ctx->depth - 4 * begin);
        const rounding own = rounding_of(from + 4 * begin, count);
        const float inverse = inverse_of(own.step);
        ctx->roundings[(first + r) * ctx->blocks + block] =
            (rounding){own.first + (has_vnni ? 0 : WORD_SHIFT) * own.step, own.step};
        ROLLED for (ptrdiff_t t = begin; t < end; t++) {
          int16_t word[4];
          const ptrdiff_t left = ctx->depth - 4 * t;
          if (left >= 4) round_unsigned(from + 4 * t, 4, own.first, inverse, word);
          else round_unsigned(from + 4 * t, left, own.first, inverse, word);
          uint8_t *to = tile + (t * rows + r) * bytes;
          if (!has_vnni) store_unsigned_word(to, word);
          else for (int i = 0; i < 4; i++) to[i] = (uint8_t)word[i];
        }
      }
    }
    first += rows;
  }
}

#if defined(RM_BYTE_TILES)
/* Rounds `count` numbers of a row, a multiple of TILE_ROW_BYTES, to rows of tiles; how it does. Numbers
 * are 0 or more before they become integers, and those above 255 become 255. */
static RM_ALWAYS_INLINE rounding round_block(const float *from, const int count, uint8_t *tiles) {
  __m512 x[4 * BLOCK_WORDS / LANES];
  __m512 least = _mm512_set1_ps(INFINITY), most = _mm512_set1_ps(-INFINITY);
  __mmask16 has_nan = 0;
  UNROLL for (int i = 0; i < count / LANES; i++) {
    x[i] = _mm512_loadu_ps(from + i * LANES);
    least = _mm512_min_ps(least, x[i]);
    most = _mm512_max_ps(most, x[i]);
    has_nan |= _mm512_cmp_ps_mask(x[i], x[i], _CMP_UNORD_Q);
  }
  const rounding own = rounding_between(_mm512_reduce_min_ps(least), _mm512_reduce_max_ps(most));
  const __m512 low = _mm512_set1_ps(own.first), inverse = _mm512_set1_ps(inverse_of(own.step));
  UNROLL for (int i = 0; i < count / LANES; i++) {
    const __m512i q = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_sub_ps(x[i], low), inverse));
    const int at = i * LANES;
    uint8_t *to = tiles + at / TILE_ROW_BYTES * TILE_BYTES + at % TILE_ROW_BYTES;
    _mm_storeu_si128((__m128i *)(void *)to, _mm512_cvtusepi32_epi8(q));
  }
  return has_nan ? (rounding){(float)NAN, (float)NAN} : own;
}

/* Rounds rows to tiles: those of 16 rows follow each other along the depth. Rows that the last ones
 * lack are zeros. */
static void round_tiles(const int8_context *ctx, ptrdiff_t first, ptrdiff_t last) {
  enum { BLOCK = 4 * BLOCK_WORDS };
  for (ptrdiff_t row = first; row < last; row++) {
    const float *from = ctx->x + row * ctx->x_stride;
    uint8_t *tiles = ctx->rounded + row / TILE_SIDE * TILE_SIDE * ctx->depth +
                     row % TILE_SIDE * TILE_ROW_BYTES;
    rounding *own = ctx->roundings + row * ctx->blocks;
    ptrdiff_t left = ctx->depth;
    for (; left >= BLOCK; left -= BLOCK, from += BLOCK, tiles += BLOCK * TILE_SIDE) {
      *own++ = round_block(from, BLOCK, tiles);
    }
    if (left > 0) *own = round_block(from, TILE_ROW_BYTES, tiles);
  }
  for (ptrdiff_t row = last; row % TILE_SIDE != 0; row++) {
    uint8_t *tiles = ctx->rounded + row / TILE_SIDE * TILE_SIDE * ctx->depth;
    for (ptrdiff_t at = 0; at < ctx->depth; at += TILE_ROW_BYTES) {
      memset(tiles + at * TILE_SIDE + row % TILE_SIDE * TILE_ROW_BYTES, 0, TILE_ROW_BYTES);
    }
  }
}
#endif

static void round_task(void *context, ptrdiff_t index) {
  const int8_context *ctx = context;
  const ptrdiff_t first = index * STRIP_ROWS, last = rm_min(ctx->rows, first + STRIP_ROWS);
#if defined(RM_BYTE_TILES)
  if (ctx->has_tiles) {
    round_tiles(ctx, first, last);
    return;
  }
#endif
  if (ctx->has_vnni) round_rows(true, ctx, first, last);
  else round_rows(false, ctx, first, last);
}

/* ---- products -------------------------------------------------------------------------------- */

/* What integer sums of a block are multiplied by: the head of the weight's block, and the roundings of
 * the rows of x, `blocks` apart. */
typedef struct {
  const uint8_t *head;
  const rounding *rows;
  ptrdiff_t blocks;
} factors;

/* Integer sums of a row and LANES columns as float32, plus what is there. */
static RM_ALWAYS_INLINE v_f32 scaled_sums(v_s32 sums, v_f32 scale, v_f32 weights, rounding own,
                                          v_f32 there) {
  return FMA(v_f32, floats_of(sums), scale * own.step, FMA(v_f32, weights, (v_f32)own.first, there));
}

/* The scale, and the scaled sum of the weights, of columns from v * LANES on of a block. */
static RM_ALWAYS_INLINE v_f32 scales_at(const uint8_t *head, int v) {
  return *(const v_f32 *)(head + v * VECTOR_BYTES);
}
static RM_ALWAYS_INLINE v_f32 weights_at(const uint8_t *head, int v) {
  return *(const v_f32 *)(head + 4 * GROUP_ROWS + v * VECTOR_BYTES);
}

#if defined(MULTIPLY_BYTES)
/* Integer sums of a row of x and a group, in several chains, as each instruction waits for the one before
 * it in its chain. */
static RM_ALWAYS_INLINE void multiply_chains(ptrdiff_t words, const uint8_t *x,
                                             const uint8_t *weight, v_s32 *sums) {
  enum { CHAINS = 4 };
  v_s32 all[CHAINS][GROUP_VECTORS];
  UNROLL for (int c = 0; c < CHAINS; c++) {
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) all[c][v] = (v_s32)0;
  }
  ptrdiff_t t = 0;
  ROLLED for (; t + CHAINS <= words; t += CHAINS, x += 4 * CHAINS, weight += CHAINS * WORD_BYTES) {
    UNROLL for (int c = 0; c < CHAINS; c++) {
      const uint8_t *from = weight + c * WORD_BYTES;
      __builtin_prefetch(from + AHEAD_BYTES);
      const v_u8 word = repeat_word(x + 4 * c);
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
        MULTIPLY_BYTES(all[c][v], word, load_bytes(from + v * VECTOR_BYTES));
      }
    }
  }
  ROLLED for (; t < words; t++, x += 4, weight += WORD_BYTES) {
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
      MULTIPLY_BYTES(all[0][v], repeat_word(x), load_bytes(weight + v * VECTOR_BYTES));
    }
  }
  UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
    sums[v] = (all[0][v] + all[1][v]) + (all[2][v] + all[3][v]);
  }
}
#endif

/* Sums of rows of x and a group: [rows, GROUP_ROWS], as integers without factors, or as float32. `add`
 * says to add to those that are there. */
static RM_ALWAYS_INLINE void multiply(const factors *by, const int how, const int rows,
                                      ptrdiff_t words, const uint8_t *x, const uint8_t *weight,
                                      void *sums, bool add) {
  (void)how;
  v_s32 all[TILE_ROWS][GROUP_VECTORS];
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) all[r][v] = (v_s32)0;
  }
#if defined(MULTIPLY_BYTES)
  if (how == VNNI_WORDS && rows == 1) {
    multiply_chains(words, x, weight, all[0]);
    words = 0;
  }
#endif
  ROLLED for (ptrdiff_t t = 0; t < words; t++) {
    __builtin_prefetch(weight + AHEAD_BYTES);
#if defined(MULTIPLY_BYTES)
    if (how == VNNI_WORDS) {
      v_u8 w[GROUP_VECTORS];
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) w[v] = load_bytes(weight + v * VECTOR_BYTES);
      UNROLL for (int r = 0; r < rows; r++) {
        const v_u8 word = repeat_word(x + 4 * r);
        UNROLL for (int v = 0; v < GROUP_VECTORS; v++) MULTIPLY_BYTES(all[r][v], word, w[v]);
      }
      x += rows * 4;
      weight += WORD_BYTES;
      continue;
    }
#endif
#if defined(MULTIPLY_SMALL)
    if (how == SMALL_WORDS) {
      v_u8 w[GROUP_VECTORS];
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) w[v] = load_bytes(weight + v * VECTOR_BYTES);
      UNROLL for (int r = 0; r < rows; r++) {
        const v_u8 word = repeat_word(x + 4 * r);
        UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
          MULTIPLY_SMALL(all[r][v], word, w[v]);
          IN_ORDER(all[r][v]);
        }
      }
      x += rows * 4;
      weight += WORD_BYTES;
      continue;
    }
#endif
    signed_word w[GROUP_VECTORS];
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
      w[v] = signed_word_of(load_bytes(weight + v * VECTOR_BYTES));
    }
    UNROLL for (int r = 0; r < rows; r++) {
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
        all[r][v] = add_signed(all[r][v], w[v], x + r * SIGNED_WORD_BYTES);
        IN_ORDER(all[r][v]);
      }
    }
    x += rows * SIGNED_WORD_BYTES;
    weight += WORD_BYTES;
  }
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
      char *to = (char *)sums + (r * GROUP_ROWS + v * LANES) * 4;
      if (by == NULL) {
        *(v_s32 *)to = add ? *(v_s32 *)to + all[r][v] : all[r][v];
        continue;
      }
      *(v_f32 *)to = scaled_sums(all[r][v], scales_at(by->head, v), weights_at(by->head, v),
                                 by->rows[r * by->blocks], add ? *(v_f32 *)to : (v_f32)0);
    }
  }
}

static RM_ALWAYS_INLINE void multiply_tile(const factors *by, const int how, int rows,
                                           ptrdiff_t words, const uint8_t *x,
                                           const uint8_t *weight, void *sums, bool add) {
  if (rows == 1) multiply(by, how, 1, words, x, weight, sums, add);
  else if (rows == 2) multiply(by, how, 2, words, x, weight, sums, add);
#if defined(__AVX2__) || defined(__aarch64__)
  else if (rows == 4) multiply(by, how, 4, words, x, weight, sums, add);
#endif
#if defined(__AVX512F__)
  else multiply(by, how, 8, words, x, weight, sums, add);
#endif
}

/* Rows [first, last), at most STRIP_ROWS, times a group. */
static RM_ALWAYS_INLINE void multiply_group(const bool has_vnni, const int8_context *ctx,
                                            ptrdiff_t first, ptrdiff_t last, ptrdiff_t group) {
  const ptrdiff_t bytes = word_bytes(has_vnni);
  float sums[STRIP_ROWS * GROUP_ROWS] __attribute__((aligned(64)));
  const uint8_t *weight = ctx->weight + group * ctx->group_bytes;
  for (ptrdiff_t block = 0; block < ctx->blocks; block++, weight += BLOCK_BYTES) {
    const ptrdiff_t t = block * BLOCK_WORDS, words = rm_min(BLOCK_WORDS, ctx->words - t);
    for (ptrdiff_t row = first; row < last;) {
      const int rows = rm_tile_rows(ctx->rows - row);
      const uint8_t *x = ctx->rounded + (row * ctx->words + t * rows) * bytes;
      const factors by = {weight, ctx->roundings + row * ctx->blocks + block, ctx->blocks};
      multiply_tile(&by, has_vnni, rows, words, x, weight + HEAD_BYTES,
                    sums + (row - first) * GROUP_ROWS, block > 0);
      row += rows;
    }
  }
  finish_group(&ctx->output, first, last - first, group, sums);
}

#if defined(RM_BYTE_TILES)
/* Two tiles of rows, or one, by one or two groups, for a block: the products of the tiles' registers. */
static RM_ALWAYS_INLINE void multiply_tiles(const int8_context *ctx, const int tiles,
                                            const int groups, ptrdiff_t row, ptrdiff_t block,
                                            const uint8_t *weight) {
  const ptrdiff_t begin = block * BLOCK_WORDS * 4;
  const uint8_t *x = ctx->rounded + row * ctx->depth + begin * TILE_SIDE;
  weight += HEAD_BYTES;
  clear_tiles(tiles, groups);
  for (ptrdiff_t left = rm_min(4 * BLOCK_WORDS, ctx->depth - begin); left > 0;
       left -= TILE_ROW_BYTES, x += TILE_BYTES, weight += TILE_BYTES) {
    add_tiles(tiles, groups, x, TILE_SIDE * ctx->depth, weight, ctx->group_bytes);
  }
}

/* Adds stored tiles, as {@link multiply_tiles} makes them, to sums: [groups, STRIP_ROWS, GROUP_ROWS]. */
static RM_ALWAYS_INLINE void add_stored(const int8_context *ctx, const int groups, ptrdiff_t row,
                                        ptrdiff_t rows, ptrdiff_t block, const uint8_t *weight,
                                        const int32_t *made, float *sums) {
  const ptrdiff_t blocks = ctx->blocks;
  const rounding *own = ctx->roundings + row * blocks + block;
  UNROLL for (int g = 0; g < groups; g++) {
    const v_f32 scale = scales_at(weight + g * ctx->group_bytes, 0);
    const v_f32 sum = weights_at(weight + g * ctx->group_bytes, 0);
    const v_s32 *from = (const v_s32 *)(made + g * 2 * TILE_SIDE * GROUP_ROWS);
    v_f32 *to = (v_f32 *)(sums + g * STRIP_ROWS * GROUP_ROWS);
    if (block == 0) {
      for (ptrdiff_t r = 0; r < rows; r++) {
        to[r] = scaled_sums(from[r], scale, sum, own[r * blocks], (v_f32)0);
      }
    } else {
      for (ptrdiff_t r = 0; r < rows; r++) {
        to[r] = scaled_sums(from[r], scale, sum, own[r * blocks], to[r]);
      }
    }
  }
}

/* Rows [first, last), at most STRIP_ROWS, times one or two groups. */
static RM_ALWAYS_INLINE void multiply_tiled(const int8_context *ctx, const int groups,
                                            ptrdiff_t first, ptrdiff_t last, ptrdiff_t group) {
  enum { BOTH_TILES = 2 * TILE_SIDE, NONE = -1 };
  float sums[2 * STRIP_ROWS * GROUP_ROWS] __attribute__((aligned(64)));
  int32_t made[2 * BOTH_TILES * GROUP_ROWS] __attribute__((aligned(64)));
  const uint8_t *weights = ctx->weight + group * ctx->group_bytes;
  /* Stored tiles are added while the next ones are multiplied. */
  ptrdiff_t stored_row = NONE, stored_block = 0;
  for (ptrdiff_t block = 0; block < ctx->blocks; block++) {
    const uint8_t *weight = weights + block * BLOCK_BYTES;
    for (ptrdiff_t row = first; row < last; row += BOTH_TILES) {
      const bool has_both = last - row > TILE_SIDE;
      if (has_both) multiply_tiles(ctx, 2, groups, row, block, weight);
      else multiply_tiles(ctx, 1, groups, row, block, weight);
      if (stored_row != NONE) {
        add_stored(ctx, groups, stored_row, rm_min(BOTH_TILES, last - stored_row), stored_block,
                   weights + stored_block * BLOCK_BYTES, made,
                   sums + (stored_row - first) * GROUP_ROWS);
      }
      UNROLL for (int g = 0; g < groups; g++) {
        store_tile(g, made + g * BOTH_TILES * GROUP_ROWS);
        if (has_both) store_tile(2 + g, made + (g * BOTH_TILES + TILE_SIDE) * GROUP_ROWS);
      }
      stored_row = row;
      stored_block = block;
    }
  }
  add_stored(ctx, groups, stored_row, rm_min(BOTH_TILES, last - stored_row), stored_block,
             weights + stored_block * BLOCK_BYTES, made, sums + (stored_row - first) * GROUP_ROWS);
  for (int g = 0; g < groups; g++) {
    finish_group(&ctx->output, first, last - first, group + g, sums + g * STRIP_ROWS * GROUP_ROWS);
  }
}

static void multiply_tiled_groups(const int8_context *ctx, ptrdiff_t first, ptrdiff_t last,
                                  ptrdiff_t group, ptrdiff_t end) {
  rm_begin_tiles();
  for (; group + 1 < end; group += 2) multiply_tiled(ctx, 2, first, last, group);
  if (group < end) multiply_tiled(ctx, 1, first, last, group);
  rm_end_tiles();
}
#endif

static void multiply_task(void *context, ptrdiff_t index) {
  const int8_context *ctx = context;
  const ptrdiff_t first = index % ctx->row_blocks * STRIP_ROWS;
  const ptrdiff_t last = rm_min(ctx->rows, first + STRIP_ROWS);
  const ptrdiff_t group = index / ctx->row_blocks * ctx->groups_per_task;
  const ptrdiff_t end = rm_min(ctx->groups, group + ctx->groups_per_task);
#if defined(RM_BYTE_TILES)
  if (ctx->has_tiles) {
    multiply_tiled_groups(ctx, first, last, group, end);
    return;
  }
#endif
  for (ptrdiff_t g = group; g < end; g++) {
    if (ctx->has_vnni) multiply_group(true, ctx, first, last, g);
    else multiply_group(false, ctx, first, last, g);
  }
}

int32_t RM_FOR_ISA(linear_int8)(const rm_call *call) {
  const double *numbers = call->numbers;
  if (call->dtypes[0] != RM_FLOAT32 || call->dtypes[1] != RM_FLOAT32 ||
      call->dtypes[2] != RM_INT8) {
    return RM_UNSUPPORTED;
  }
  int8_context ctx = {.rows = (ptrdiff_t)numbers[ROWS],
                      .depth = (ptrdiff_t)numbers[DEPTH],
                      .x_stride = (ptrdiff_t)numbers[X_STRIDE]};
  if (ctx.rows < 1 || numbers[COLUMNS] < 1) return RM_OK;
  if (ctx.depth < 1) return RM_UNSUPPORTED;
  const int32_t status = read_output(call, &ctx.output);
  if (status != RM_OK) return status;
  ctx.words = rm_ceil_div(ctx.depth, 4);
  ctx.groups = rm_ceil_div(ctx.output.columns, GROUP_ROWS);
  ctx.blocks = blocks_of(ctx.words);
  ctx.group_bytes = group_bytes_of(ctx.words);
  ctx.weight = call->buffers[2];
  ctx.x = (const float *)call->buffers[1] + (ptrdiff_t)numbers[X_OFFSET];
#if defined(MULTIPLY_BYTES)
  ctx.has_vnni = rm_has_byte_products();
#endif
#if defined(RM_BYTE_TILES)
  ctx.has_tiles = ctx.rows >= LEAST_TILED_ROWS && ctx.depth % TILE_ROW_BYTES == 0 &&
                  rm_has_byte_tiles();
#endif
  const size_t words = ctx.has_tiles
                           ? (size_t)(rm_round_up(ctx.rows, TILE_SIDE) * ctx.depth)
                           : (size_t)(ctx.rows * ctx.words * word_bytes(ctx.has_vnni));
  gemm_workspace *workspace =
      RM_FOR_ISA(workspace_alloc)(words + (size_t)(ctx.rows * ctx.blocks) * sizeof(rounding), 0);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a matrix product");
  ctx.rounded = (uint8_t *)workspace->data;
  ctx.roundings = (rounding *)(workspace->data + words);
  ctx.row_blocks = rm_ceil_div(ctx.rows, STRIP_ROWS);
  rm_parallel(ctx.row_blocks, (double)ctx.rows * (double)ctx.depth, round_task, &ctx);
  const double bytes_ns = (double)ctx.group_bytes / BYTES_PER_NS;
  double group_ns = (double)ctx.rows * (double)ctx.depth * GROUP_ROWS /
                    (ctx.has_tiles ? TILED_PER_NS : PRODUCTS_PER_NS);
  if (group_ns < bytes_ns) group_ns = bytes_ns;
  const double per_task = 1 + TASK_NS * (double)ctx.row_blocks / (group_ns + 1);
  ctx.groups_per_task = rm_min(ctx.groups, (ptrdiff_t)per_task);
  if (ctx.has_tiles) ctx.groups_per_task = rm_round_up(ctx.groups_per_task, 2);
  rm_parallel(ctx.row_blocks * rm_ceil_div(ctx.groups, ctx.groups_per_task),
              group_ns * (double)ctx.groups, multiply_task, &ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}

/* ---- weights --------------------------------------------------------------------------------- */

/* The numbers of a call that quantizes. */
enum { QUANTIZED_ROWS, QUANTIZED_DEPTH, TO_OFFSET, FROM_OFFSET };

typedef struct {
  ptrdiff_t rows, depth, words;
  const float *from;
  uint8_t *to;
} quantize_context;

static void quantize_task(void *context, ptrdiff_t index) {
  const quantize_context *ctx = context;
  const ptrdiff_t bytes = group_bytes_of(ctx->words);
  uint8_t *block = ctx->to + index * bytes;
  const ptrdiff_t rows = rm_min(GROUP_ROWS, ctx->rows - index * GROUP_ROWS);
  if (rows < GROUP_ROWS) memset(block, 0, (size_t)bytes);
  for (ptrdiff_t begin = 0; begin < ctx->words; begin += BLOCK_WORDS, block += BLOCK_BYTES) {
    const ptrdiff_t words = rm_min(BLOCK_WORDS, ctx->words - begin);
    const ptrdiff_t count = rm_min(4 * words, ctx->depth - 4 * begin);
    for (ptrdiff_t r = 0; r < rows; r++) {
      const float *from = ctx->from + (index * GROUP_ROWS + r) * ctx->depth + 4 * begin;
      const float scale = scale_of(from, count), inverse = inverse_of(scale);
      int sum = 0;
      for (ptrdiff_t t = 0; t < words; t++) {
        int8_t *to = (int8_t *)block + HEAD_BYTES + t * WORD_BYTES + 4 * r;
        round_word(from + 4 * t, count - 4 * t, inverse, to);
        for (int i = 0; i < 4; i++) sum += to[i];
      }
      const float head[] = {scale, scale * (float)sum};
      memcpy(block + 4 * r, &head[0], sizeof head[0]);
      memcpy(block + 4 * (GROUP_ROWS + r), &head[1], sizeof head[1]);
    }
  }
}

int32_t RM_FOR_ISA(quantize_int8)(const rm_call *call) {
  const double *numbers = call->numbers;
  if (call->dtypes[0] != RM_INT8 || call->dtypes[1] != RM_FLOAT32) return RM_UNSUPPORTED;
  quantize_context ctx = {.rows = (ptrdiff_t)numbers[QUANTIZED_ROWS],
                          .depth = (ptrdiff_t)numbers[QUANTIZED_DEPTH]};
  if (ctx.rows < 1) return RM_OK;
  if (call->buffers[0] == NULL || (ctx.depth > 0 && call->buffers[1] == NULL)) {
    return rm_fail(RM_BAD_ARGUMENT, "quantizeInt8 without an operand");
  }
  ctx.words = rm_ceil_div(ctx.depth, 4);
  ctx.to = (uint8_t *)call->buffers[0] + (ptrdiff_t)numbers[TO_OFFSET];
  ctx.from = (const float *)call->buffers[1] + (ptrdiff_t)numbers[FROM_OFFSET];
  rm_parallel(rm_ceil_div(ctx.rows, GROUP_ROWS), (double)ctx.rows * (double)ctx.depth * 2,
              quantize_task, &ctx);
  return RM_OK;
}

/* ---- int32 products of int8 matrices --------------------------------------------------------- */

/* The numbers of a call: the sizes of [M, K] times [K, N], and the offsets. */
enum { PRODUCT_M, PRODUCT_N, PRODUCT_K, OUT_AT, A_AT, B_AT };

typedef struct {
  ptrdiff_t m, n, k, words, row_blocks, groups_per_task;
  const int8_t *a, *b;
  int32_t *out;
  /* The words of the rows of a, tile after tile. */
  uint8_t *rows;
} product_context;

static void copy_rows_task(void *context, ptrdiff_t index) {
  const product_context *ctx = context;
  const ptrdiff_t last = rm_min(ctx->m, (index + 1) * STRIP_ROWS);
  for (ptrdiff_t first = index * STRIP_ROWS; first < last;) {
    const int rows = rm_tile_rows(ctx->m - first);
    uint8_t *tile = ctx->rows + first * ctx->words * SIGNED_WORD_BYTES;
    for (int r = 0; r < rows; r++) {
      const int8_t *from = ctx->a + (first + r) * ctx->k;
      ROLLED for (ptrdiff_t t = 0; t < ctx->words; t++) {
        int8_t word[4] = {0, 0, 0, 0};
        if (4 * t + 4 <= ctx->k) memcpy(word, from + 4 * t, 4);
        else memcpy(word, from + 4 * t, (size_t)(ctx->k - 4 * t));
        store_signed_word(tile + (t * rows + r) * SIGNED_WORD_BYTES, word);
      }
    }
    first += rows;
  }
}

/* Words of b of rows [4 t, 4 (t + words)) and columns from `column` on, as a group. */
static void copy_columns(const product_context *ctx, ptrdiff_t t, ptrdiff_t words,
                         ptrdiff_t column, ptrdiff_t columns, uint8_t *to) {
  for (ptrdiff_t i = 0; i < words; i++, to += WORD_BYTES) {
    const ptrdiff_t row = 4 * (t + i);
    const int8_t *from = ctx->b + row * ctx->n + column;
    if (columns == GROUP_ROWS && row + 4 <= ctx->k) {
      RM_ANY_ORDER for (int j = 0; j < GROUP_ROWS; j++) {
        for (int e = 0; e < 4; e++) to[4 * j + e] = (uint8_t)from[e * ctx->n + j];
      }
      continue;
    }
    memset(to, 0, WORD_BYTES);
    for (ptrdiff_t e = 0; e < rm_min(4, ctx->k - row); e++) {
      for (ptrdiff_t j = 0; j < columns; j++) to[4 * j + e] = (uint8_t)from[e * ctx->n + j];
    }
  }
}

static void product_task(void *context, ptrdiff_t index) {
  const product_context *ctx = context;
  int32_t sums[STRIP_ROWS * GROUP_ROWS] __attribute__((aligned(64)));
  uint8_t group[STRIP_WORDS * WORD_BYTES] __attribute__((aligned(64)));
  const ptrdiff_t first = index % ctx->row_blocks * STRIP_ROWS;
  const ptrdiff_t last = rm_min(ctx->m, first + STRIP_ROWS);
  const ptrdiff_t begin = index / ctx->row_blocks * ctx->groups_per_task * GROUP_ROWS;
  const ptrdiff_t end = rm_min(ctx->n, begin + ctx->groups_per_task * GROUP_ROWS);
  for (ptrdiff_t column = begin; column < end; column += GROUP_ROWS) {
    const ptrdiff_t columns = rm_min(GROUP_ROWS, end - column);
    for (ptrdiff_t t = 0; t < ctx->words; t += STRIP_WORDS) {
      const ptrdiff_t words = rm_min(STRIP_WORDS, ctx->words - t);
      copy_columns(ctx, t, words, column, columns, group);
      for (ptrdiff_t row = first; row < last;) {
        const int rows = rm_tile_rows(ctx->m - row);
        const uint8_t *x = ctx->rows + (row * ctx->words + t * rows) * SIGNED_WORD_BYTES;
        multiply_tile(NULL, false, rows, words, x, group, sums + (row - first) * GROUP_ROWS, t > 0);
        row += rows;
      }
    }
    for (ptrdiff_t row = first; row < last; row++) {
      memcpy(ctx->out + row * ctx->n + column, sums + (row - first) * GROUP_ROWS,
             (size_t)columns * sizeof *sums);
    }
  }
}

int32_t RM_FOR_ISA(matmul_int8)(const rm_call *call) {
  const double *numbers = call->numbers;
  if (call->dtypes[0] != RM_INT32 || call->dtypes[1] != RM_INT8 || call->dtypes[2] != RM_INT8) {
    return RM_UNSUPPORTED;
  }
  product_context ctx = {.m = (ptrdiff_t)numbers[PRODUCT_M],
                         .n = (ptrdiff_t)numbers[PRODUCT_N],
                         .k = (ptrdiff_t)numbers[PRODUCT_K]};
  if (ctx.m < 1 || ctx.n < 1) return RM_OK;
  if (ctx.k < 1) return RM_UNSUPPORTED;
  for (int i = 0; i < 3; i++) {
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "a product without operand %d", i);
  }
  ctx.out = (int32_t *)call->buffers[0] + (ptrdiff_t)numbers[OUT_AT];
  ctx.a = (const int8_t *)call->buffers[1] + (ptrdiff_t)numbers[A_AT];
  ctx.b = (const int8_t *)call->buffers[2] + (ptrdiff_t)numbers[B_AT];
  ctx.words = rm_ceil_div(ctx.k, 4);
  gemm_workspace *workspace =
      RM_FOR_ISA(workspace_alloc)((size_t)(ctx.m * ctx.words) * SIGNED_WORD_BYTES, 0);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a matrix product");
  ctx.rows = (uint8_t *)workspace->data;
  ctx.row_blocks = rm_ceil_div(ctx.m, STRIP_ROWS);
  rm_parallel(ctx.row_blocks, (double)ctx.m * (double)ctx.k, copy_rows_task, &ctx);
  const ptrdiff_t groups = rm_ceil_div(ctx.n, GROUP_ROWS);
  /* Columns are copied in the time of some rows. */
  const double rows = (double)ctx.m + 16 * (double)ctx.row_blocks;
  const double group_ns = rows * (double)ctx.k * GROUP_ROWS / PRODUCTS_PER_NS;
  const double per_task = 1 + TASK_NS * (double)ctx.row_blocks / (group_ns + 1);
  ctx.groups_per_task = rm_min(groups, (ptrdiff_t)per_task);
  rm_parallel(ctx.row_blocks * rm_ceil_div(groups, ctx.groups_per_task),
              group_ns * (double)groups, product_task, &ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}

/* ---- products of packed bytes with zero points ----------------------------------------------- */

/* The groups are those of byte_groups.h. Rows of x become unsigned where the processor has VNNI, else
 * signed. */

/* The numbers of packBytes, and of matmulBytes. */
enum { PACKED_K, PACKED_N, PACKED_TO, PACKED_FROM, PACKED_ZEROS };
enum { BYTES_M, BYTES_N, BYTES_K, BYTES_OUT, BYTES_X, BYTES_GROUPS, BYTES_ZEROS_AT, BYTES_OUTPUT };

typedef struct {
  ptrdiff_t n, k, words;
  bool is_signed;
  const uint8_t *from;
  const int32_t *zeros;
  uint8_t *to;
} pack_bytes_context;

/* A byte, and its distance from another number. */
static RM_ALWAYS_INLINE int32_t value_of(uint8_t byte, bool is_signed) {
  return is_signed ? (int8_t)byte : byte;
}
static RM_ALWAYS_INLINE int32_t size_of(int32_t x) { return x < 0 ? -x : x; }

/* Of columns less `shifts`: the largest sum of the sizes of two bytes, the least and the largest. */
typedef struct {
  int32_t pairs[GROUP_ROWS], low[GROUP_ROWS], high[GROUP_ROWS];
} column_sizes;

static RM_ALWAYS_INLINE void measure_columns(const pack_bytes_context *ctx, const uint8_t *from,
                                             const ptrdiff_t columns, const int32_t *shifts,
                                             column_sizes *found) {
  for (ptrdiff_t j = 0; j < columns; j++) {
    found->pairs[j] = 0;
    found->low[j] = 255;
    found->high[j] = -255;
  }
  for (ptrdiff_t row = 0; row < ctx->k; row += 2, from += 2 * ctx->n) {
    /* The last row may be alone. */
    const uint8_t *second = row + 1 < ctx->k ? from + ctx->n : from;
    const int32_t counts = row + 1 < ctx->k ? -1 : 0;
    RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) {
      const int32_t a = value_of(from[j], ctx->is_signed) - shifts[j];
      const int32_t b = value_of(second[j], ctx->is_signed) - shifts[j];
      const int32_t pair = size_of(a) + (size_of(b) & counts);
      const int32_t low = a < b ? a : b, high = a > b ? a : b;
      found->pairs[j] = pair > found->pairs[j] ? pair : found->pairs[j];
      found->low[j] = low < found->low[j] ? low : found->low[j];
      found->high[j] = high > found->high[j] ? high : found->high[j];
    }
  }
}

/* The numbers that columns are moved by, and their pairs then. */
static void choose_shifts(const pack_bytes_context *ctx, const uint8_t *from, ptrdiff_t columns,
                          int32_t *shifts, column_sizes *found) {
  const int32_t usual = ctx->is_signed ? 0 : 128;
  for (int j = 0; j < GROUP_ROWS; j++) shifts[j] = usual;
  if (columns == GROUP_ROWS) measure_columns(ctx, from, GROUP_ROWS, shifts, found);
  else measure_columns(ctx, from, columns, shifts, found);
#if defined(MULTIPLY_SMALL)
  if (rm_has_byte_products()) return;
  bool is_moved = false;
  for (ptrdiff_t j = 0; j < columns; j++) {
    if (found->pairs[j] <= MOST_PAIR || found->high[j] - found->low[j] > MOST_PAIR) continue;
    shifts[j] += found->low[j] + MOST_PAIR / 2;
    is_moved = true;
  }
  if (is_moved) measure_columns(ctx, from, columns, shifts, found);
#endif
}

static void pack_bytes_task(void *context, ptrdiff_t index) {
  const pack_bytes_context *ctx = context;
  const ptrdiff_t column = index * GROUP_ROWS, columns = rm_min(GROUP_ROWS, ctx->n - column);
  uint8_t *group = ctx->to + index * (BYTES_HEAD + ctx->words * WORD_BYTES);
  int32_t sums[GROUP_ROWS] = {0}, zeros[GROUP_ROWS] = {0};
  int32_t shifts[GROUP_ROWS];
  column_sizes found = {0};
  choose_shifts(ctx, ctx->from + column, columns, shifts, &found);
  uint8_t *to = group + BYTES_HEAD;
  memset(to, 0, (size_t)(ctx->words * WORD_BYTES));
  for (ptrdiff_t row = 0; row < ctx->k; row++) {
    const uint8_t *from = ctx->from + row * ctx->n + column;
    uint8_t *word = to + row / 4 * WORD_BYTES + row % 4;
    RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) {
      const int32_t value = value_of(from[j], ctx->is_signed) - shifts[j];
      word[4 * j] = (uint8_t)value;
      sums[j] += value;
    }
  }
  for (ptrdiff_t j = 0; j < columns; j++) {
    zeros[j] = (ctx->zeros == NULL ? 0 : ctx->zeros[column + j]) - shifts[j];
  }
  memcpy(group, sums, sizeof sums);
  memcpy(group + BYTES_ZEROS, zeros, sizeof zeros);
  memcpy(group + BYTES_PAIRS, found.pairs, sizeof found.pairs);
}

int32_t RM_FOR_ISA(pack_bytes)(const rm_call *call) {
  const double *numbers = call->numbers;
  const int dtype = call->dtypes[1];
  if (call->dtypes[0] != RM_INT8 || (dtype != RM_INT8 && dtype != RM_UINT8)) return RM_UNSUPPORTED;
  if (call->dtypes[2] != RM_NONE && call->dtypes[2] != RM_INT32) return RM_UNSUPPORTED;
  if (call->buffers[0] == NULL || call->buffers[1] == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "packBytes without an operand");
  }
  pack_bytes_context ctx = {
      .k = (ptrdiff_t)numbers[PACKED_K],
      .n = (ptrdiff_t)numbers[PACKED_N],
      .is_signed = dtype == RM_INT8,
      .to = (uint8_t *)call->buffers[0] + (ptrdiff_t)numbers[PACKED_TO],
      .from = (const uint8_t *)call->buffers[1] + (ptrdiff_t)numbers[PACKED_FROM],
  };
  ctx.zeros = call->buffers[2] == NULL
                  ? NULL
                  : (const int32_t *)call->buffers[2] + (ptrdiff_t)numbers[PACKED_ZEROS];
  if (ctx.k < 1 || ctx.n < 1) return RM_OK;
  ctx.words = rm_ceil_div(ctx.k, 4);
  rm_parallel(rm_ceil_div(ctx.n, GROUP_ROWS), (double)ctx.k * (double)ctx.n, pack_bytes_task, &ctx);
  return RM_OK;
}

typedef struct {
  ptrdiff_t m, n, k, words, block_rows, row_blocks, groups_per_task;
  uint8_t flip;
  int32_t shift;
  int how;
  const uint8_t *x, *groups;
  const int32_t *zeros;
  uint8_t *out;
  byte_output output;
  int32_t *sums;
  uint8_t *rows;
} bytes_context;

static const uint8_t *bytes_group(const bytes_context *ctx, ptrdiff_t g) {
  return ctx->groups + g * (BYTES_HEAD + ctx->words * WORD_BYTES);
}

/* Makes the words of rows of x, tile after tile, and the sum of each row. */
static void bytes_rows_task(void *context, ptrdiff_t index) {
  const bytes_context *ctx = context;
  const ptrdiff_t bytes = word_bytes(ctx->how);
  const ptrdiff_t last = rm_min(ctx->m, (index + 1) * STRIP_ROWS);
  for (ptrdiff_t first = index * STRIP_ROWS; first < last;) {
    const int rows = rm_tile_rows(ctx->m - first);
    uint8_t *tile = ctx->rows + first * ctx->words * bytes;
    for (int r = 0; r < rows; r++) {
      const uint8_t *from = ctx->x + (first + r) * ctx->k;
      int32_t sum = 0;
      if (ctx->how != WIDE_WORDS) {
        RM_ANY_ORDER for (ptrdiff_t i = 0; i < ctx->k; i++) sum += from[i] ^ ctx->flip;
      } else {
        RM_ANY_ORDER for (ptrdiff_t i = 0; i < ctx->k; i++) sum += (int8_t)(from[i] ^ ctx->flip);
      }
      ctx->sums[first + r] = sum;
      const uint32_t flips = 0x01010101u * ctx->flip;
      const ptrdiff_t whole = ctx->k / 4;
      uint8_t *to = tile + r * bytes;
      if (ctx->how != WIDE_WORDS) {
        ROLLED for (ptrdiff_t t = 0; t < whole; t++) {
          uint32_t word;
          memcpy(&word, from + 4 * t, 4);
          word ^= flips;
          memcpy(to + t * rows * 4, &word, 4);
        }
      } else {
        store_signed_words(to, rows * bytes, from, whole, ctx->flip);
      }
      if (whole < ctx->words) {
        uint32_t word = 0;
        memcpy(&word, from + 4 * whole, (size_t)(ctx->k - 4 * whole));
        word ^= flips;
        int8_t each[4];
        memcpy(each, &word, 4);
        if (ctx->how != WIDE_WORDS) memcpy(to + whole * rows * bytes, each, 4);
        else store_signed_word(to + whole * rows * bytes, each);
      }
    }
    first += rows;
  }
}

static RM_ALWAYS_INLINE void multiply_bytes(const int how, const bytes_context *ctx,
                                            ptrdiff_t first, ptrdiff_t last, const uint8_t *weight,
                                            int32_t *sums) {
  const ptrdiff_t bytes = word_bytes(how);
  for (ptrdiff_t t = 0; t < ctx->words; t += STRIP_WORDS) {
    const ptrdiff_t words = rm_min(STRIP_WORDS, ctx->words - t);
    for (ptrdiff_t row = first; row < last;) {
      const int rows = rm_tile_rows(ctx->m - row);
      const uint8_t *x = ctx->rows + (row * ctx->words + t * rows) * bytes;
      multiply_tile(NULL, how, rows, words, x, weight + t * WORD_BYTES,
                    sums + (row - first) * GROUP_ROWS, t > 0);
      row += rows;
    }
  }
}

/* Writes sums of rows [first, last) and a group, less what the zero points add. */
static void finish_bytes(const bytes_context *ctx, ptrdiff_t first, ptrdiff_t last, ptrdiff_t g,
                         int32_t *sums) {
  const uint8_t *group = bytes_group(ctx, g);
  uint32_t rest[GROUP_ROWS], zeros[GROUP_ROWS], moved[GROUP_ROWS] = {0}, any = 0, moved_by = 0;
  memcpy(rest, group, sizeof rest);
  memcpy(zeros, group + BYTES_ZEROS, sizeof zeros);
  for (int j = 0; j < GROUP_ROWS; j++) {
    rest[j] -= (uint32_t)ctx->k * zeros[j];
    any |= zeros[j];
  }
  const ptrdiff_t columns = rm_min(GROUP_ROWS, ctx->n - g * GROUP_ROWS);
  int32_t bias[GROUP_ROWS] __attribute__((aligned(64))) = {0};
  float factors[GROUP_ROWS] __attribute__((aligned(64))) = {0};
  for (ptrdiff_t j = 0; j < columns && ctx->output.size == 1; j++) {
    factors[j] = ctx->output.factors[g * GROUP_ROWS + j];
    if (ctx->output.bias != NULL) bias[j] = ctx->output.bias[g * GROUP_ROWS + j];
  }
  for (ptrdiff_t row = first; row < last; row++) {
    const uint32_t zero = (uint32_t)((ctx->zeros == NULL ? 0 : ctx->zeros[row]) + ctx->shift);
    uint32_t *from = (uint32_t *)(void *)(sums + (row - first) * GROUP_ROWS);
    /* The rows of most matrices have one zero point. */
    if (zero != moved_by) {
      moved_by = zero;
      RM_ANY_ORDER for (int j = 0; j < GROUP_ROWS; j++) moved[j] = zero * rest[j];
    }
    if (any == 0) {
      RM_ANY_ORDER for (int j = 0; j < GROUP_ROWS; j++) from[j] -= moved[j];
    } else {
      const uint32_t sum = (uint32_t)ctx->sums[row];
      RM_ANY_ORDER for (int j = 0; j < GROUP_ROWS; j++) from[j] -= zeros[j] * sum + moved[j];
    }
    uint8_t *to = ctx->out + (row * ctx->n + g * GROUP_ROWS) * ctx->output.size;
    uint8_t bytes[GROUP_ROWS];
    if (ctx->output.size == 1) {
      UNROLL for (int v = 0; v < GROUP_VECTORS; v++) {
        const v_s32 own = *(const v_s32 *)(from + v * LANES) + *(const v_s32 *)(bias + v * LANES);
        *(lane_u8 *)(bytes + v * LANES) =
            bytes_of_sums(own, *(const v_f32 *)(factors + v * LANES), &ctx->output);
      }
      memcpy(to, bytes, (size_t)columns);
    } else if (columns == GROUP_ROWS) {
      memcpy(to, from, GROUP_ROWS * sizeof *from);
    } else {
      memcpy(to, from, (size_t)columns * sizeof *from);
    }
  }
}

#if defined(MULTIPLY_BYTES) && defined(__AVX512F__)
#define RM_GROUP_PAIRS
/* Adds the products of TILE_ROWS rows of x and two groups to sums: [2, BYTES_ROWS, GROUP_ROWS]. */
static RM_ALWAYS_INLINE void multiply_pair(ptrdiff_t words, const uint8_t *x, const uint8_t *weight,
                                           ptrdiff_t group_bytes, int32_t *sums, bool add) {
  v_s32 all[TILE_ROWS][2];
  UNROLL for (int r = 0; r < TILE_ROWS; r++) {
    UNROLL for (int g = 0; g < 2; g++) {
      all[r][g] = add ? *(v_s32 *)(sums + (g * BYTES_ROWS + r) * GROUP_ROWS) : (v_s32)0;
    }
  }
  ROLLED for (ptrdiff_t t = 0; t < words; t++, x += 4 * TILE_ROWS, weight += WORD_BYTES) {
    const v_u8 w[] = {load_bytes(weight), load_bytes(weight + group_bytes)};
    UNROLL for (int r = 0; r < TILE_ROWS; r++) {
      const v_u8 word = repeat_word(x + 4 * r);
      UNROLL for (int g = 0; g < 2; g++) MULTIPLY_BYTES(all[r][g], word, w[g]);
    }
  }
  UNROLL for (int r = 0; r < TILE_ROWS; r++) {
    UNROLL for (int g = 0; g < 2; g++) {
      *(v_s32 *)(sums + (g * BYTES_ROWS + r) * GROUP_ROWS) = all[r][g];
    }
  }
}

/* Rows [first, last), at most BYTES_ROWS, times two groups. */
static void multiply_pairs(const bytes_context *ctx, ptrdiff_t first, ptrdiff_t last,
                           const uint8_t *group, int32_t *sums) {
  const ptrdiff_t group_bytes = BYTES_HEAD + ctx->words * WORD_BYTES;
  for (ptrdiff_t t = 0; t < ctx->words; t += PAIR_WORDS) {
    const ptrdiff_t words = rm_min(PAIR_WORDS, ctx->words - t);
    const uint8_t *weight = group + BYTES_HEAD + t * WORD_BYTES;
    for (ptrdiff_t row = first; row < last;) {
      const int rows = rm_tile_rows(ctx->m - row);
      const uint8_t *x = ctx->rows + (row * ctx->words + t * rows) * 4;
      int32_t *to = sums + (row - first) * GROUP_ROWS;
      if (rows == TILE_ROWS) {
        multiply_pair(words, x, weight, group_bytes, to, t > 0);
      } else {
        for (int g = 0; g < 2; g++) {
          multiply_tile(NULL, true, rows, words, x, weight + g * group_bytes,
                        to + g * BYTES_ROWS * GROUP_ROWS, t > 0);
        }
      }
      row += rows;
    }
  }
}
#endif

/* Rows [first, last), at most BYTES_ROWS, times the groups [begin, end). */
static void bytes_groups(const bytes_context *ctx, ptrdiff_t first, ptrdiff_t last, ptrdiff_t begin,
                         ptrdiff_t end) {
  int32_t sums[2 * BYTES_ROWS * GROUP_ROWS] __attribute__((aligned(64)));
  ptrdiff_t g = begin;
#if defined(RM_GROUP_PAIRS)
  for (; ctx->how == VNNI_WORDS && last - first >= TILE_ROWS && g + 1 < end; g += 2) {
    multiply_pairs(ctx, first, last, bytes_group(ctx, g), sums);
    finish_bytes(ctx, first, last, g, sums);
    finish_bytes(ctx, first, last, g + 1, sums + BYTES_ROWS * GROUP_ROWS);
  }
#endif
  for (; g < end; g++) {
    const uint8_t *group = bytes_group(ctx, g);
    if (ctx->how == VNNI_WORDS) {
      multiply_bytes(VNNI_WORDS, ctx, first, last, group + BYTES_HEAD, sums);
#if defined(MULTIPLY_SMALL)
    } else if (ctx->how == SMALL_WORDS) {
      multiply_bytes(SMALL_WORDS, ctx, first, last, group + BYTES_HEAD, sums);
#endif
    } else {
      multiply_bytes(WIDE_WORDS, ctx, first, last, group + BYTES_HEAD, sums);
    }
    finish_bytes(ctx, first, last, g, sums);
  }
}

static void bytes_task(void *context, ptrdiff_t index) {
  const bytes_context *ctx = context;
  const ptrdiff_t first = index % ctx->row_blocks * ctx->block_rows;
  const ptrdiff_t last = rm_min(ctx->m, first + ctx->block_rows);
  const ptrdiff_t begin = index / ctx->row_blocks * ctx->groups_per_task;
  const ptrdiff_t end = rm_min(rm_ceil_div(ctx->n, GROUP_ROWS), begin + ctx->groups_per_task);
  bytes_groups(ctx, first, last, begin, end);
}

static void choose_words(bytes_context *ctx) {
  ctx->how = words_for_groups(ctx->groups, rm_ceil_div(ctx->n, GROUP_ROWS),
                              BYTES_HEAD + ctx->words * WORD_BYTES);
}

/* The bytes of the words of rows of x, after which their sums are. */
static ptrdiff_t bytes_of_rows(const bytes_context *ctx) {
  return rm_round_up(ctx->m * ctx->words * word_bytes(ctx->how), 64);
}

/* Says how x is multiplied, and where its words and sums are. */
static void place_bytes(bytes_context *ctx, bool is_signed, char *room) {
  ctx->flip = is_signed == (ctx->how != WIDE_WORDS) ? 0x80 : 0;
  ctx->shift = ctx->flip == 0 ? 0 : is_signed ? 128 : -128;
  ctx->rows = (uint8_t *)room;
  ctx->sums = (int32_t *)(void *)(room + bytes_of_rows(ctx));
}

ptrdiff_t RM_FOR_ISA(byte_rows_room)(ptrdiff_t rows, ptrdiff_t depth) {
  return rm_round_up(rows * rm_ceil_div(depth, 4) * 8, 64) + rm_round_up(4 * rows, 64);
}

void RM_FOR_ISA(multiply_byte_rows)(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth,
                                    const uint8_t *x, const int32_t *zeros, const uint8_t *groups,
                                    char *room, int32_t *out) {
  bytes_context ctx = {
      .m = rows, .n = columns, .k = depth, .words = rm_ceil_div(depth, 4),
      .x = x, .groups = groups, .zeros = zeros, .out = (uint8_t *)out, .output = {.size = 4},
  };
  choose_words(&ctx);
  place_bytes(&ctx, false, room);
  bytes_rows_task(&ctx, 0);
  bytes_groups(&ctx, 0, rows, 0, rm_ceil_div(columns, GROUP_ROWS));
}

int32_t RM_FOR_ISA(matmul_bytes)(const rm_call *call) {
  const double *numbers = call->numbers;
  const int dtype = call->dtypes[1];
  if (call->dtypes[2] != RM_INT8) return RM_UNSUPPORTED;
  if (dtype != RM_INT8 && dtype != RM_UINT8) return RM_UNSUPPORTED;
  if (call->dtypes[3] != RM_NONE && call->dtypes[3] != RM_INT32) return RM_UNSUPPORTED;
  for (int i = 0; i < 3; i++) {
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "a product without operand %d", i);
  }
  bytes_context ctx = {
      .m = (ptrdiff_t)numbers[BYTES_M],
      .n = (ptrdiff_t)numbers[BYTES_N],
      .k = (ptrdiff_t)numbers[BYTES_K],
      .x = (const uint8_t *)call->buffers[1] + (ptrdiff_t)numbers[BYTES_X],
      .groups = (const uint8_t *)call->buffers[2] + (ptrdiff_t)numbers[BYTES_GROUPS],
  };
  const int32_t status = read_byte_output(call, numbers + BYTES_OUTPUT, &ctx.output);
  if (status != RM_OK) return status;
  ctx.out = (uint8_t *)call->buffers[0] + (ptrdiff_t)numbers[BYTES_OUT] * ctx.output.size;
  if (ctx.m < 1 || ctx.n < 1 || ctx.k < 1) return RM_OK;
  ctx.zeros = call->buffers[3] == NULL
                  ? NULL
                  : (const int32_t *)call->buffers[3] + (ptrdiff_t)numbers[BYTES_ZEROS_AT];
  ctx.words = rm_ceil_div(ctx.k, 4);
  choose_words(&ctx);
  gemm_workspace *workspace =
      RM_FOR_ISA(workspace_alloc)((size_t)(bytes_of_rows(&ctx) + 4 * ctx.m), 0);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a matrix product");
  place_bytes(&ctx, dtype == RM_INT8, workspace->data);
  rm_parallel(rm_ceil_div(ctx.m, STRIP_ROWS), (double)ctx.m * (double)ctx.k / ROUNDED_PER_NS,
              bytes_rows_task, &ctx);
  /* A few rows more than a strip are no strip of their own, which would read the weight again. */
  ctx.row_blocks = rm_ceil_div(ctx.m, BYTES_ROWS);
  ctx.block_rows = rm_round_up(rm_ceil_div(ctx.m, ctx.row_blocks), TILE_ROWS);
  ctx.row_blocks = rm_ceil_div(ctx.m, ctx.block_rows);
  const ptrdiff_t groups = rm_ceil_div(ctx.n, GROUP_ROWS);
  const double group_ns = ((double)ctx.m / PRODUCTS_PER_NS + 4 / BYTES_PER_NS) * (double)ctx.k *
                          GROUP_ROWS / 4;
  const double per_task = 1 + TASK_NS * (double)ctx.row_blocks / (group_ns + 1);
  ctx.groups_per_task = rm_min(groups, rm_round_up((ptrdiff_t)per_task, 2));
  rm_parallel(ctx.row_blocks * rm_ceil_div(groups, ctx.groups_per_task),
              group_ns * (double)groups, bytes_task, &ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
