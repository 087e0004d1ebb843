/*
 * Convolutions of bytes, whose int32 sums are exact.
 *
 * x is staged first: words of four bytes that meet a word of the weight, in planes whose rows have their
 * padding, which is the zero point. Words are of four channels, or of four taps along the last axis of
 * one channel where that takes fewer words. A plane has the words of one phase of each stride. So the
 * words of adjacent pixels lie side by side, and those of another tap are a constant distance away: a
 * vector has a word of LANES pixels, and no matrix of windows is made. Where words of adjacent pixels are of
 * adjacent bytes, some rows with their padding are copied first, so that their words are made in one loop.
 * A convolution of each channel with a weight without zero points takes its words from such rows, as each
 * meets few rows of the weight: there, taps that there are not meet what lies behind, and the weight's are 0.
 *
 * A tile is some rows of the weight (byte_groups.h) and some vectors of pixels. Pixels are numbered by
 * their place in a plane, so that tiles run over the ends of rows; what lies between the rows is computed
 * and left out. Sums are exact, so that they do not depend on tiles and tasks. They become bytes in the
 * tile, where those are asked for.
 */
#include <string.h>
#include "byte_groups.h"
#include "byte_output.h"

/* The vectors of pixels and the rows of the weight of a tile. */
#if defined(__AVX512F__)
enum { TILE_VECTORS = 3, VNNI_ROWS = 8, PAIR_ROWS = 4 };
#elif defined(__aarch64__)
enum { TILE_VECTORS = 2, VNNI_ROWS = 8, PAIR_ROWS = 8 };
#else
enum { TILE_VECTORS = 2, VNNI_ROWS = 4, PAIR_ROWS = 4 };
#endif

/* For code that runs once in a call, or for few words of it. */
#define SMALL __attribute__((minsize, noinline))

enum {
  AXES = 3,
  DEPTH_AXIS = 0,
  HEIGHT,
  WIDTH,
  MOST_ROWS = VNNI_ROWS,
  TILE_PIXELS = TILE_VECTORS * LANES,
  /* The vectors and the pixels of a tile of which words are taken from rows. */
  LINE_VECTORS = 4,
  LINE_PIXELS = LINE_VECTORS * LANES,
  TASKS_PER_THREAD = 4,
  /* The most bytes of staged words of several images. */
  MOST_STAGED = 16 << 20,
  /* The bytes of a lane that are copied at once, and those of words of taps after them. */
  LINE_BYTES = 1024,
  LINE_SLACK = 64 + 16,
  MOST_TAPS = 16
};

static const double PRODUCTS_PER_NS = 60, STAGED_PER_NS = 4;

/* The numbers of a call. */
enum {
  IMAGES,
  GROUPS,
  CHANNELS,
  ROWS,
  /* Whether words are of four taps. */
  OF_TAPS,
  OFFSETS,
  SPACE = OFFSETS + 4,
  PER_AXIS = 6,
  OUTPUT = SPACE + AXES * PER_AXIS
};

typedef struct {
  ptrdiff_t in, kernel, out, stride, padding, dilation;
  /* The words of taps, the phases of the stride that taps have, and the size of a plane of a phase. */
  ptrdiff_t taps, phases, size;
} byte_axis;

/* A run of pixels of a tile that are results. */
typedef struct {
  ptrdiff_t from, to, count;
} pixel_run;

typedef struct {
  ptrdiff_t images, groups, channels, rows;
  bool of_taps, has_zeros, has_lines, takes_lines;
  int how;
  byte_axis axes[AXES];
  /* The channels of words of a group; the words of a plane, of a channel's phases, and of a group of an image. */
  ptrdiff_t words, plane, channel_words, group_words;
  /* The words of a sum, the results of a channel, the pixels from the first to the last, the bytes of a
   * group and of a word. */
  ptrdiff_t steps, places, pixels, group_bytes, word_bytes;
  ptrdiff_t tile_pixels, first_image, tiles, tiles_per_task, pixel_tasks, rows_per_task, row_tasks;
  /* The groups that a task stages and multiplies one by one, 0 for none, and the bytes for that. */
  ptrdiff_t groups_per_task, task_bytes;
  uint32_t flips;
  int32_t shift;
  uint8_t padding;
  int32_t zero;
  const uint8_t *x, *groups_of_weight, *weight;
  uint8_t *out;
  byte_output output;
  uint8_t *wide, *staged;
  /* The bytes of each word of a sum, from its first pixel's. */
  ptrdiff_t *at;
  /* The runs of pixels of each tile that are results, and the places of the first of each tile. */
  pixel_run *runs;
  ptrdiff_t *first_run;
  /* A row of zero points, for channels and taps that there are not. */
  uint8_t *blank;
  /* What the sums of each channel begin with: the bias, less what zero points of x add. */
  int32_t *starts;
  /* The factors of all channels, and of those that the last group lacks. */
  float *factors;
} conv_bytes_context;

/* ---- staging --------------------------------------------------------------------------------- */

/* The bytes of a place of words along a row: from[i * stride] from the word `low` to `high`. */
typedef struct {
  const uint8_t *from;
  ptrdiff_t low, high;
} byte_lane;

/* The lane of elements first, first + stride, ... of a row of `in`. */
static byte_lane lane_of(const uint8_t *row, ptrdiff_t first, ptrdiff_t stride, ptrdiff_t in,
                         ptrdiff_t count) {
  const ptrdiff_t low = first < 0 ? rm_ceil_div(-first, stride) : 0;
  const ptrdiff_t high = in > first ? rm_min(count, rm_ceil_div(in - first, stride)) : 0;
  return (byte_lane){row + first, rm_min(low, count), high < low ? rm_min(low, count) : high};
}

static RM_ALWAYS_INLINE void write_inner(const byte_lane *lanes, const ptrdiff_t stride,
                                         ptrdiff_t low, ptrdiff_t high, uint32_t flips,
                                         uint32_t *to) {
  const uint8_t *a = lanes[0].from, *b = lanes[1].from, *c = lanes[2].from, *d = lanes[3].from;
  RM_ANY_ORDER for (ptrdiff_t i = low; i < high; i++) {
    to[i] = (a[i * stride] | (uint32_t)b[i * stride] << 8 | (uint32_t)c[i * stride] << 16 |
             (uint32_t)d[i * stride] << 24) ^ flips;
  }
}

/* Words of which some bytes are padding, or far from each other. */
SMALL static void write_edge(const conv_bytes_context *ctx, const byte_lane *lanes, ptrdiff_t stride,
                             ptrdiff_t low, ptrdiff_t high, uint8_t *to) {
  RM_SCALAR for (ptrdiff_t i = 4 * low; i < 4 * high; i++) {
    const byte_lane own = lanes[i % 4];
    const bool inside = i / 4 >= own.low && i / 4 < own.high;
    to[i] = inside ? own.from[i / 4 * stride] ^ (uint8_t)ctx->flips : ctx->padding;
  }
}

/* Words of adjacent bytes of each lane. */
static __attribute__((noinline)) void write_dense(const byte_lane *lanes, ptrdiff_t low, ptrdiff_t high,
                                                  uint32_t flips, uint32_t *to) {
  write_inner(lanes, 1, low, high, flips, to);
}

static void write_words(const conv_bytes_context *ctx, const byte_lane *lanes, ptrdiff_t stride,
                        ptrdiff_t count, uint8_t *to) {
  ptrdiff_t low = 0, high = count;
  for (int e = 0; e < 4; e++) {
    if (lanes[e].low > low) low = lanes[e].low;
    high = rm_min(high, lanes[e].high);
  }
  if (high < low) high = low;
  uint32_t *words = (uint32_t *)(void *)to;
  write_edge(ctx, lanes, stride, 0, low, to);
  if (stride == 1) write_dense(lanes, low, high, ctx->flips, words);
  else if (stride == 2) write_inner(lanes, 2, low, high, ctx->flips, words);
  else write_edge(ctx, lanes, stride, low, high, to);
  write_edge(ctx, lanes, stride, high, count, to);
}

/* The first element of a phase along an axis, without the padding. */
static ptrdiff_t phase_start(const byte_axis *axis, ptrdiff_t phase) {
  return phase * axis->dilation % axis->stride - axis->padding;
}

/* What a task stages: a channel of words of a group of an image, of lanes from `tap` on. */
typedef struct {
  const uint8_t *from;
  ptrdiff_t channel, tap;
} staged_part;

/* A row of a plane of a phase, and the row of x that it is of. */
typedef struct {
  ptrdiff_t depth, row, left;
} plane_row;

static plane_row first_row(const conv_bytes_context *ctx, ptrdiff_t pz, ptrdiff_t py) {
  return (plane_row){phase_start(&ctx->axes[DEPTH_AXIS], pz), phase_start(&ctx->axes[HEIGHT], py),
                     ctx->axes[HEIGHT].size};
}

/* The number of the row of x, -1 for padding; goes to the next row. */
static RM_ALWAYS_INLINE ptrdiff_t next_row(const conv_bytes_context *ctx, plane_row *at) {
  const byte_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT];
  const bool inside = at->depth >= 0 && at->depth < z->in && at->row >= 0 && at->row < y->in;
  const ptrdiff_t found = inside ? at->depth * y->in + at->row : -1;
  at->row += y->stride;
  if (--at->left == 0) {
    at->row -= y->size * y->stride;
    at->depth += z->stride;
    at->left = y->size;
  }
  return found;
}

/* Words of which byte e is from[stride * i + e], with `mask`, and flipped by `flips`. */
static RM_ALWAYS_INLINE void write_taps(const uint8_t *from, const int stride, ptrdiff_t count,
                                        uint32_t mask, uint32_t flips, uint32_t *to) {
  ptrdiff_t i = 0;
#if defined(__AVX2__)
  /* A lane of 16 bytes has four words, of bytes that begin at its number times `stride` words. */
  int32_t places[LANES];
  uint8_t bytes[VECTOR_BYTES];
  for (int k = 0; k < LANES; k++) places[k] = k / 4 * stride + k % 4;
  for (int k = 0; k < VECTOR_BYTES; k++) bytes[k] = (uint8_t)(k % 16 / 4 * stride + k % 4);
  for (; i + LANES <= count; i += LANES) {
    v_u8 x;
    memcpy(&x, from + i * stride, sizeof x);
#if defined(__AVX512BW__)
    const __m512i found = _mm512_permutexvar_epi32(_mm512_loadu_si512(places), (__m512i)x);
    v_s32 words = (v_s32)_mm512_shuffle_epi8(found, _mm512_loadu_si512(bytes));
#else
    const __m256i found =
        _mm256_permutevar8x32_epi32((__m256i)x, _mm256_loadu_si256((const __m256i *)(void *)places));
    v_s32 words =
        (v_s32)_mm256_shuffle_epi8(found, _mm256_loadu_si256((const __m256i *)(void *)bytes));
#endif
    words = (words & (int32_t)mask) ^ (int32_t)flips;
    memcpy(to + i, &words, sizeof words);
  }
#endif
  for (; i < count; i++) {
    uint32_t word;
    memcpy(&word, from + i * stride, sizeof word);
    to[i] = (word & mask) ^ flips;
  }
}

/* Stages a plane of a phase of depth and height: rows of each lane are copied with their padding first. */
static void stage_lines(const conv_bytes_context *ctx, const staged_part *part, ptrdiff_t pz,
                        ptrdiff_t py, uint8_t *to) {
  const byte_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  uint8_t lines[4][LINE_BYTES + LINE_SLACK];
  const uint8_t zero = *ctx->blank;
  const ptrdiff_t lanes = ctx->of_taps ? 1 : rm_min(4, ctx->channels - part->channel);
  const ptrdiff_t rows = z->size * y->size, width = x->size * x->stride;
  const ptrdiff_t together = LINE_BYTES / width;
  const ptrdiff_t count = rm_min(x->in, width - x->padding);
  const ptrdiff_t channel_bytes = z->in * y->in * x->in;
  plane_row place = first_row(ctx, pz, py);
  for (ptrdiff_t first = 0; first < rows; first += together) {
    const ptrdiff_t last = rm_min(rows, first + together), words = (last - first) * x->size;
    for (int e = 0; e < (ctx->of_taps ? 1 : 4); e++) {
      memset(lines[e], zero, (size_t)(words * x->stride) + LINE_SLACK);
    }
    for (ptrdiff_t i = first; i < last; i++) {
      const ptrdiff_t row = next_row(ctx, &place);
      if (row < 0) continue;
      const ptrdiff_t at = (i - first) * width + x->padding;
      for (ptrdiff_t e = 0; e < lanes; e++) {
        memcpy(lines[e] + at, part->from + e * channel_bytes + row * x->in, (size_t)count);
      }
    }
    uint32_t *words_to = (uint32_t *)(void *)(to + 4 * first * x->size);
    if (ctx->of_taps) {
      /* Taps that there are not are zero points. */
      const ptrdiff_t taps = rm_min(4, x->kernel - part->tap);
      const uint32_t mask = 0xffffffffu >> 8 * (4 - taps);
      const uint32_t flips = (0x01010101u * zero & ~mask) ^ ctx->flips;
      if (x->stride == 1) write_taps(lines[0] + part->tap, 1, words, mask, flips, words_to);
      else write_taps(lines[0] + part->tap, 2, words, mask, flips, words_to);
    } else {
      const byte_lane own[4] = {{lines[0], 0, 0}, {lines[1], 0, 0}, {lines[2], 0, 0}, {lines[3], 0, 0}};
      write_dense(own, 0, words, ctx->flips, words_to);
    }
  }
}

/* Stages a channel of words of a group of images, of which each has `groups`. */
static void stage_word(const conv_bytes_context *ctx, ptrdiff_t group, ptrdiff_t word, uint8_t *to) {
  const byte_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  const ptrdiff_t channel = ctx->of_taps ? word / x->taps : 4 * word;
  const ptrdiff_t tap = ctx->of_taps ? word % x->taps * 4 : 0;
  const ptrdiff_t channel_bytes = z->in * y->in * x->in;
  const uint8_t *from = ctx->x + (group * ctx->channels + channel) * channel_bytes;
  if (ctx->has_lines) {
    const staged_part part = {from, channel, tap};
    for (ptrdiff_t phase = 0; phase < z->phases * y->phases; phase++, to += 4 * ctx->plane) {
      stage_lines(ctx, &part, phase / y->phases, phase % y->phases, to);
    }
    return;
  }
  for (ptrdiff_t phase = 0; phase < z->phases * y->phases * x->phases; phase++) {
    const ptrdiff_t px = phase % x->phases, py = phase / x->phases % y->phases;
    byte_lane lanes[4];
    for (ptrdiff_t e = 0; e < 4; e++) {
      if (ctx->of_taps && tap + e < x->kernel) {
        lanes[e] = lane_of(from, (tap + e) * x->dilation - x->padding, x->stride, x->in, x->size);
      } else if (!ctx->of_taps && channel + e < ctx->channels) {
        const uint8_t *own = from + e * channel_bytes;
        lanes[e] = lane_of(own, phase_start(x, px), x->stride, x->in, x->size);
      } else {
        lanes[e] = (byte_lane){NULL, 0, x->size};
      }
    }
    plane_row place = first_row(ctx, phase / x->phases / y->phases, py);
    for (ptrdiff_t i = 0; i < z->size * y->size; i++, to += 4 * x->size) {
      const ptrdiff_t row = next_row(ctx, &place);
      if (row < 0) {
        memset(to, ctx->padding, (size_t)(4 * x->size));
        continue;
      }
      byte_lane own[4];
      for (int e = 0; e < 4; e++) {
        own[e] = lanes[e];
        if (own[e].from == NULL) own[e].from = ctx->blank;
        else own[e].from += row * x->in;
      }
      write_words(ctx, own, x->stride, x->size, to);
    }
  }
}

static void stage_task(void *context, ptrdiff_t index) {
  const conv_bytes_context *ctx = context;
  stage_word(ctx, ctx->first_image * ctx->groups + index / ctx->words, index % ctx->words,
             ctx->staged + 4 * index * ctx->channel_words);
}

/* ---- products -------------------------------------------------------------------------------- */

/* The words of a group of the weight, as pairs of 16 bits. */
static void widen_task(void *context, ptrdiff_t index) {
  const conv_bytes_context *ctx = context;
  const uint8_t *from = ctx->groups_of_weight + index * ctx->group_bytes + BYTES_HEAD;
  uint8_t *to = ctx->wide + index * ctx->steps * GROUP_ROWS * SIGNED_WORD_BYTES;
  for (ptrdiff_t i = 0; i < ctx->steps * GROUP_ROWS; i++) {
    int8_t word[4];
    memcpy(word, from + 4 * i, 4);
    store_signed_word(to + i * SIGNED_WORD_BYTES, word);
  }
}

/* A word of x of each pixel: unsigned bytes but on ARM. */
static RM_ALWAYS_INLINE signed_word data_word_of(v_u8 x) {
#if defined(MULTIPLY_PAIRS)
  VECTOR(v_s16, uint16_t, VECTOR_BYTES / 2);
  return (signed_word){(v_u8)((v_s16)x & (v_s16)(uint16_t)0xff), (v_u8)((v_s16)x >> 8)};
#else
  return (signed_word){x};
#endif
}

/* Where the vectors of a tile of staged words begin. */
static const ptrdiff_t in_order[LINE_VECTORS] = {0, VECTOR_BYTES, 2 * VECTOR_BYTES, 3 * VECTOR_BYTES};

/* Sums of some rows of the weight, from `weight` on, and of vectors of pixels, `places` after `data`, that
 * begin with `starts`. */
static RM_ALWAYS_INLINE void multiply(const int rows, const int vectors, const int how,
                                      const conv_bytes_context *ctx, const uint8_t *data,
                                      const ptrdiff_t *places, const uint8_t *weight,
                                      ptrdiff_t weight_step, const int32_t *starts,
                                      v_s32 all[][LINE_VECTORS]) {
  (void)how;
  v_s32 sums[MOST_ROWS][LINE_VECTORS];
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = (v_s32)0 + starts[r];
  }
  const ptrdiff_t *at = ctx->at, *end = at + ctx->steps;
  ROLLED for (; at < end; at++, weight += weight_step) {
    const uint8_t *from = data + *at;
#if defined(MULTIPLY_BYTES)
    if (how == VNNI_WORDS) {
      v_u8 x[LINE_VECTORS];
      UNROLL for (int v = 0; v < vectors; v++) memcpy(&x[v], from + places[v], VECTOR_BYTES);
      UNROLL for (int r = 0; r < rows; r++) {
        const v_u8 w = repeat_word(weight + 4 * r);
        UNROLL for (int v = 0; v < vectors; v++) MULTIPLY_BYTES(sums[r][v], x[v], w);
      }
      continue;
    }
#endif
#if defined(MULTIPLY_SMALL)
    if (how == SMALL_WORDS) {
      v_u8 x[LINE_VECTORS];
      UNROLL for (int v = 0; v < vectors; v++) memcpy(&x[v], from + places[v], VECTOR_BYTES);
      UNROLL for (int r = 0; r < rows; r++) {
        const v_u8 w = repeat_word(weight + 4 * r);
        UNROLL for (int v = 0; v < vectors; v++) {
          MULTIPLY_SMALL(sums[r][v], x[v], w);
          IN_ORDER(sums[r][v]);
        }
      }
      continue;
    }
#endif
    signed_word x[LINE_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) {
      v_u8 bytes;
      memcpy(&bytes, from + places[v], VECTOR_BYTES);
      x[v] = data_word_of(bytes);
    }
    UNROLL for (int r = 0; r < rows; r++) {
      UNROLL for (int v = 0; v < vectors; v++) {
        sums[r][v] = add_signed(sums[r][v], x[v], weight + r * SIGNED_WORD_BYTES);
        IN_ORDER(sums[r][v]);
      }
    }
  }
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < vectors; v++) all[r][v] = sums[r][v];
  }
}

/* The results among pixels [first, first + count) of a plane; returns the number of runs. */
SMALL static int find_runs(const conv_bytes_context *ctx, ptrdiff_t first, ptrdiff_t count,
                           pixel_run *runs) {
  const byte_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  int found = 0;
  for (ptrdiff_t at = first; at < first + count;) {
    const ptrdiff_t row = at / x->size, column = at % x->size;
    const ptrdiff_t left = rm_min(first + count - at, x->size - column);
    if (column < x->out && row % y->size < y->out && row / y->size < z->out) {
      const ptrdiff_t to = (row / y->size * y->out + row % y->size) * x->out + column;
      runs[found++] = (pixel_run){at - first, to, rm_min(left, x->out - column)};
    }
    at += left;
  }
  return found;
}

/* What a tile has: its first row of the weight and of the results, and the runs of its pixels. */
typedef struct {
  const uint8_t *data;
  ptrdiff_t image, channel;
  const pixel_run *runs;
  int count;
  ptrdiff_t pixels;
  /* The sums of x of each pixel, where the weight has zero points. */
  const v_s32 *sums;
} pixel_tile;

/* Stores bytes of a run. Those after its end, up to `room` from its begin on, are written next. */
static RM_ALWAYS_INLINE void store_bytes(const uint8_t *from, ptrdiff_t count, ptrdiff_t room,
                                         uint8_t *out) {
  enum { PIECE = 16 };
  ptrdiff_t at = 0;
  for (; at < count && at + PIECE <= room; at += PIECE) memcpy(out + at, from + at, PIECE);
  if (at >= count) return;
  if (count >= PIECE) memcpy(out + count - PIECE, from + count - PIECE, PIECE);
  else memcpy(out + at, from + at, (size_t)(count - at));
}

/* Stores the results of a row of a tile. */
static __attribute__((noinline)) void store_runs(const pixel_tile *tile, ptrdiff_t size,
                                                 const uint8_t *from, uint8_t *out) {
  const pixel_run last = tile->runs[tile->count - 1];
  for (int i = 0; i < tile->count; i++) {
    const pixel_run run = tile->runs[i];
    const ptrdiff_t room = rm_min(last.to + last.count - run.to, tile->pixels - run.from);
    if (size == 1) store_bytes(from + run.from, run.count, room, out + run.to);
    else memcpy(out + run.to * size, from + run.from * size, (size_t)(run.count * size));
  }
}

/* Stores sums of `kept` rows of a tile, less what zero points of the weight add. */
static RM_ALWAYS_INLINE void finish_vectors(const conv_bytes_context *ctx, const pixel_tile *tile,
                                            ptrdiff_t kept, const int vectors,
                                            v_s32 (*made)[LINE_VECTORS]) {
  const ptrdiff_t size = ctx->output.size, plane = ctx->places * size;
  uint8_t *out = ctx->out + (tile->image * ctx->groups * ctx->rows + tile->channel) * plane;
  const bool is_whole = tile->runs[0].count == vectors * LANES;
  for (ptrdiff_t r = 0; r < kept; r++, out += plane) {
    const ptrdiff_t channel = tile->channel + r;
    if (ctx->has_zeros) {
      const uint8_t *group = ctx->groups_of_weight + channel / GROUP_ROWS * ctx->group_bytes;
      int32_t zero;
      memcpy(&zero, group + BYTES_ZEROS + channel % GROUP_ROWS * 4, sizeof zero);
      UNROLL for (int v = 0; v < vectors; v++) made[r][v] -= tile->sums[v] * zero;
    }
    if (size != 1) {
      store_runs(tile, size, (const uint8_t *)made[r], out);
      continue;
    }
    uint8_t pixels[TILE_PIXELS];
    uint8_t *to = is_whole ? out + tile->runs[0].to : pixels;
    const v_f32 factors = (v_f32){0} + ctx->output.factors[channel];
    UNROLL for (int v = 0; v < vectors; v++) {
      *(lane_u8 *)(to + v * LANES) = bytes_of_sums(made[r][v], factors, &ctx->output);
    }
    if (!is_whole) store_runs(tile, 1, pixels, out);
  }
}

/* The same out of line, which takes less memory. */
static __attribute__((noinline)) void finish_rows(const conv_bytes_context *ctx,
                                                  const pixel_tile *tile, ptrdiff_t kept,
                                                  int vectors, v_s32 (*made)[LINE_VECTORS]) {
  if (vectors == TILE_VECTORS) finish_vectors(ctx, tile, kept, TILE_VECTORS, made);
  else finish_vectors(ctx, tile, kept, 1, made);
}

#if defined(__AVX512BW__)
/* Stores the bytes of a row of a tile, of which some are results. */
static RM_ALWAYS_INLINE void store_lanes(const pixel_tile *tile, __m512i bytes, uint8_t *out) {
  ROLLED for (int i = 0; i < tile->count; i++) {
    const pixel_run run = tile->runs[i];
    const __mmask64 own = ~(__mmask64)0 >> (64 - run.count) << run.from;
    _mm512_mask_storeu_epi8(out + run.to - run.from, own, bytes);
  }
}

/* Stores sums of `kept` of VNNI_ROWS rows of a tile as bytes. */
static RM_ALWAYS_INLINE void pack_rows(const conv_bytes_context *ctx, const pixel_tile *tile,
                                       ptrdiff_t kept, v_s32 (*made)[LINE_VECTORS]) {
  const byte_output output = ctx->output;
  const float *factors = ctx->factors + tile->channel;
  __m512i packed[VNNI_ROWS];
  UNROLL for (int r = 0; r < VNNI_ROWS; r++) {
    const v_s32 four[] = {made[r][0], made[r][1], made[r][2], made[r][2]};
    packed[r] = packed_bytes_of_sums(four, factors[r], &output);
  }
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  uint8_t *out = ctx->out + (tile->image * ctx->groups * ctx->rows + tile->channel) * ctx->places;
  for (ptrdiff_t r = 0; r < kept; r++, out += ctx->places) {
    store_lanes(tile, limited_bytes(_mm512_permutexvar_epi32(order, packed[r]), &output), out);
  }
}
#endif

/* `rows` rows of a tile, of which `kept` are stored. */
static RM_ALWAYS_INLINE void multiply_rows(const int rows, const int vectors, const int how,
                                           const conv_bytes_context *ctx, const pixel_tile *tile,
                                           ptrdiff_t kept) {
  v_s32 made[MOST_ROWS][LINE_VECTORS];
  const ptrdiff_t lane = tile->channel % GROUP_ROWS, group = tile->channel / GROUP_ROWS;
  const ptrdiff_t word = how == WIDE_WORDS ? SIGNED_WORD_BYTES : 4;
  const ptrdiff_t stride = ctx->wide == NULL ? ctx->group_bytes : ctx->steps * GROUP_ROWS * word;
  multiply(rows, vectors, how, ctx, tile->data, in_order, ctx->weight + group * stride + lane * word,
           GROUP_ROWS * word, ctx->starts + tile->channel, made);
#if defined(__AVX512BW__)
  if (rows == VNNI_ROWS && vectors == TILE_VECTORS && ctx->output.size == 1 && !ctx->has_zeros) {
    pack_rows(ctx, tile, kept, made);
    return;
  }
#endif
  /* A copy, so that the sums above stay in registers. */
  v_s32 copy[MOST_ROWS][LINE_VECTORS];
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < vectors; v++) copy[r][v] = made[r][v];
  }
  finish_rows(ctx, tile, kept, vectors, copy);
}

/* All rows [row, end) of a group of the convolution and a tile of pixels from `data` on. */
static RM_ALWAYS_INLINE void multiply_tile(const int vectors, const int how,
                                           const conv_bytes_context *ctx, pixel_tile tile,
                                           ptrdiff_t rows) {
  enum { ONES_BYTES = 2 * 4 };
  const int most = how == WIDE_WORDS ? PAIR_ROWS : VNNI_ROWS;
  v_s32 sums[1][LINE_VECTORS];
  if (ctx->has_zeros) {
    uint8_t ones[ONES_BYTES];
    const int8_t word[4] = {1, 1, 1, 1};
    if (how != WIDE_WORDS) memcpy(ones, word, sizeof word);
    else store_signed_word(ones, word);
    const int32_t start = 0;
    multiply(1, vectors, how, ctx, tile.data, in_order, ones, 0, &start, sums);
    tile.sums = sums[0];
  }
  while (rows > 0) {
    const ptrdiff_t left = GROUP_ROWS - tile.channel % GROUP_ROWS;
    /* Half of the rows of a tile may be of channels that are not asked for. */
    ptrdiff_t kept = 1;
    if (left >= most && 2 * rows > most) {
      kept = rm_min(rows, most);
      if (how != WIDE_WORDS) multiply_rows(VNNI_ROWS, vectors, how, ctx, &tile, kept);
      else multiply_rows(PAIR_ROWS, vectors, how, ctx, &tile, kept);
    } else {
      multiply_rows(1, vectors, how, ctx, &tile, 1);
    }
    tile.channel += kept;
    rows -= kept;
  }
}

static RM_ALWAYS_INLINE void multiply_any(const int how, const conv_bytes_context *ctx,
                                          pixel_tile tile, ptrdiff_t rows, ptrdiff_t pixels) {
  if (pixels > LANES) multiply_tile(TILE_VECTORS, how, ctx, tile, rows);
  else multiply_tile(1, how, ctx, tile, rows);
}

/* Tiles [first, last) of pixels and some rows of the weight of a group of an image. */
typedef struct {
  ptrdiff_t image, group, first, last, row, rows;
  const uint8_t *staged;
} conv_part;

static void multiply_part(const conv_bytes_context *ctx, const conv_part *part) {
  for (ptrdiff_t at = part->first; at < part->last; at++) {
    const ptrdiff_t pixel = at * TILE_PIXELS, count = rm_min(TILE_PIXELS, ctx->pixels - pixel);
    const pixel_tile tile = {
        .data = part->staged + 4 * pixel,
        .image = part->image,
        .channel = part->group * ctx->rows + part->row,
        .runs = ctx->runs + ctx->first_run[at],
        .count = (int)(ctx->first_run[at + 1] - ctx->first_run[at]),
        .pixels = TILE_PIXELS,
    };
    if (tile.count == 0) continue;
    if (ctx->how == VNNI_WORDS) multiply_any(VNNI_WORDS, ctx, tile, part->rows, count);
#if defined(MULTIPLY_SMALL)
    else if (ctx->how == SMALL_WORDS) multiply_any(SMALL_WORDS, ctx, tile, part->rows, count);
#endif
    else multiply_any(WIDE_WORDS, ctx, tile, part->rows, count);
  }
}

static void conv_task(void *context, ptrdiff_t index) {
  const conv_bytes_context *ctx = context;
  const ptrdiff_t row = index % ctx->row_tasks * ctx->rows_per_task;
  index /= ctx->row_tasks;
  const ptrdiff_t first = index % ctx->pixel_tasks * ctx->tiles_per_task;
  index /= ctx->pixel_tasks;
  const conv_part part = {
      .image = ctx->first_image + index / ctx->groups,
      .group = index % ctx->groups,
      .first = first,
      .last = rm_min(ctx->tiles, first + ctx->tiles_per_task),
      .row = row,
      .rows = rm_min(ctx->rows_per_task, ctx->rows - row),
      .staged = ctx->staged + 4 * index * ctx->group_words,
  };
  multiply_part(ctx, &part);
}

/* ---- rows of bytes --------------------------------------------------------------------------- */

/*
 * The byte that begins the word of the k-th pixel of a row is its stride times k after the first one's. So
 * the bytes from there on are words of each fourth pixel, or with a stride of 2 of each second one, and
 * LINE_VECTORS such vectors are the words of LINE_PIXELS pixels.
 */

/* Fills bytes, and some after them. */
static RM_ALWAYS_INLINE void fill_line(uint8_t *to, ptrdiff_t count, uint8_t byte) {
  const v_u8 piece = (v_u8){0} + byte;
  ROLLED for (ptrdiff_t i = 0; i < count; i += VECTOR_BYTES) memcpy(to + i, &piece, sizeof piece);
}

/* Copies a row of x to where its padding was filled. From its first byte on, x has `left` ones. */
static RM_ALWAYS_INLINE void copy_line(const conv_bytes_context *ctx, const uint8_t *from, ptrdiff_t left,
                                       ptrdiff_t count, uint8_t *to) {
#if defined(__AVX512BW__)
  (void)left;
  const __m512i flips = _mm512_set1_epi32((int32_t)ctx->flips);
  ROLLED for (ptrdiff_t i = 0; i < count; i += VECTOR_BYTES) {
    const __mmask64 own = _bzhi_u64(~(uint64_t)0, (uint32_t)rm_min(VECTOR_BYTES, count - i));
    _mm512_mask_storeu_epi8(to + i, own, _mm512_xor_si512(_mm512_maskz_loadu_epi8(own, from + i), flips));
  }
#else
  const byte_axis *x = &ctx->axes[WIDTH];
  const v_u8 flips = (v_u8){0} + (uint8_t)ctx->flips;
  ROLLED for (ptrdiff_t i = 0; i < count; i += VECTOR_BYTES) {
    v_u8 piece = flips;
    if (i + VECTOR_BYTES <= left) memcpy(&piece, from + i, VECTOR_BYTES);
    else memcpy(&piece, from + i, (size_t)(left - i));
    piece ^= flips;
    memcpy(to + i, &piece, VECTOR_BYTES);
  }
  /* That went over padding and rows after it. Rows of x are copied later. */
  fill_line(to + count, x->size * x->stride - count + 1, ctx->padding);
#endif
}

/* Copies the rows of all phases of a channel, flipped, with their padding. */
static void copy_lines(const conv_bytes_context *ctx, ptrdiff_t channel, uint8_t *to) {
  const byte_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  const ptrdiff_t width = x->size * x->stride, count = rm_min(x->in, width - x->padding);
  const ptrdiff_t plane = z->in * y->in * x->in, rows = z->size * y->size;
  const uint8_t *from = ctx->x + channel * plane;
  const ptrdiff_t left = (ctx->images * ctx->groups - channel) * plane;
  fill_line(to, z->phases * y->phases * rows * width, ctx->padding);
  for (ptrdiff_t phase = 0; phase < z->phases * y->phases; phase++) {
    ptrdiff_t depth = phase_start(z, phase / y->phases);
    for (ptrdiff_t i = 0; i < z->size; i++, depth += z->stride) {
      ptrdiff_t row = phase_start(y, phase % y->phases);
      for (ptrdiff_t j = 0; j < y->size; j++, row += y->stride, to += width) {
        if (depth < 0 || depth >= z->in || row < 0 || row >= y->in) continue;
        const ptrdiff_t at = (depth * y->in + row) * x->in;
        copy_line(ctx, from + at, left - at, count, to + x->padding);
      }
    }
  }
}

/* The bytes of the sums of a tile, in the order of pixels. */
static RM_ALWAYS_INLINE void store_line(const conv_bytes_context *ctx, const pixel_tile *tile,
                                        const v_s32 *sums, uint8_t *out) {
  const bool is_dense = ctx->axes[WIDTH].stride == 1;
  const float factor = ctx->output.factors[tile->channel];
#if defined(__AVX512BW__)
  /* A lane has four bytes of each vector. */
  const __m128i places = is_dense
                             ? _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
                             : _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
  __m512i bytes = limited_bytes(packed_bytes_of_sums(sums, factor, &ctx->output), &ctx->output);
  bytes = _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(places));
  if (!is_dense) {
    bytes = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), bytes);
  }
  store_lanes(tile, bytes, out);
#else
  VECTOR(v_pairs, uint16_t, LANES);
  uint8_t pixels[LINE_PIXELS];
  const v_f32 factors = (v_f32){0} + factor;
  v_s32 bytes[LINE_VECTORS];
  UNROLL for (int v = 0; v < LINE_VECTORS; v++) {
    bytes[v] = rounded_sums(sums[v], factors, &ctx->output) & 0xff;
  }
  const v_s32 low = bytes[0] | bytes[1] << 8, high = bytes[2] | bytes[3] << 8;
  if (is_dense) {
    *(v_s32 *)pixels = low | high << 16;
  } else {
    *(v_pairs *)pixels = __builtin_convertvector(low, v_pairs);
    *(v_pairs *)(pixels + VECTOR_BYTES / 2) = __builtin_convertvector(high, v_pairs);
  }
  store_runs(tile, 1, pixels, out);
#endif
}

/* The results of a row of the weight and of the plane whose lines are `data`. */
static RM_ALWAYS_INLINE void multiply_lines(const int how, const conv_bytes_context *ctx,
                                            const uint8_t *data, ptrdiff_t image, ptrdiff_t channel) {
  const ptrdiff_t word = how == WIDE_WORDS ? SIGNED_WORD_BYTES : 4;
  const ptrdiff_t bytes = ctx->wide == NULL ? ctx->group_bytes : ctx->steps * GROUP_ROWS * word;
  const uint8_t *weight = ctx->weight + channel / GROUP_ROWS * bytes + channel % GROUP_ROWS * word;
  const ptrdiff_t stride = ctx->axes[WIDTH].stride;
  const ptrdiff_t half = stride == 1 ? 2 : VECTOR_BYTES, places[] = {0, stride, half, half + stride};
  uint8_t *out = ctx->out + (image * ctx->groups * ctx->rows + channel) * ctx->places;
  for (ptrdiff_t at = 0; at < ctx->tiles; at++, data += LINE_PIXELS * stride) {
    const pixel_tile tile = {
        .channel = channel,
        .runs = ctx->runs + ctx->first_run[at],
        .count = (int)(ctx->first_run[at + 1] - ctx->first_run[at]),
        .pixels = LINE_PIXELS,
    };
    if (tile.count == 0) continue;
    v_s32 sums[1][LINE_VECTORS];
    multiply(1, LINE_VECTORS, how, ctx, data, places, weight, GROUP_ROWS * word, ctx->starts + channel,
             sums);
    store_line(ctx, &tile, sums[0], out);
  }
}

/* The results of the rows of the weight that a channel of an image meets. */
static void multiply_channel(const conv_bytes_context *ctx, ptrdiff_t group, uint8_t *lines) {
  copy_lines(ctx, group, lines);
  const ptrdiff_t image = group / ctx->groups, first = group % ctx->groups * ctx->rows;
  for (ptrdiff_t channel = first; channel < first + ctx->rows; channel++) {
    if (ctx->how == VNNI_WORDS) multiply_lines(VNNI_WORDS, ctx, lines, image, channel);
#if defined(MULTIPLY_SMALL)
    else if (ctx->how == SMALL_WORDS) multiply_lines(SMALL_WORDS, ctx, lines, image, channel);
#endif
    else multiply_lines(WIDE_WORDS, ctx, lines, image, channel);
  }
}

/* Stages groups one by one, and multiplies each while its words are in a cache. */
static void group_task(void *context, ptrdiff_t index) {
  const conv_bytes_context *ctx = context;
  uint8_t *staged = ctx->staged + index * ctx->task_bytes;
  const ptrdiff_t first = index * ctx->groups_per_task;
  const ptrdiff_t last = rm_min(ctx->images * ctx->groups, first + ctx->groups_per_task);
  for (ptrdiff_t group = first; group < last; group++) {
    if (ctx->takes_lines) {
      multiply_channel(ctx, group, staged);
      continue;
    }
    for (ptrdiff_t word = 0; word < ctx->words; word++) {
      stage_word(ctx, group, word, staged + 4 * word * ctx->channel_words);
    }
    const conv_part part = {
        .image = group / ctx->groups,
        .group = group % ctx->groups,
        .last = ctx->tiles,
        .rows = ctx->rows,
        .staged = staged,
    };
    multiply_part(ctx, &part);
  }
}

/* ---- the call -------------------------------------------------------------------------------- */

SMALL static ptrdiff_t common_divisor(ptrdiff_t a, ptrdiff_t b) {
  while (b != 0) {
    const ptrdiff_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Whether words of adjacent pixels are of adjacent bytes, in several rows that fit lines. */
SMALL static bool has_lines(const conv_bytes_context *ctx, const double *numbers) {
  enum { KERNEL = 1, OUT, STRIDE, DILATION = 5 };
  const double *last = numbers + WIDTH * PER_AXIS;
  const double width = last[OUT] * last[STRIDE] + (last[KERNEL] - 1) * last[DILATION];
  if (numbers[OUT] * numbers[PER_AXIS + OUT] < 2 || width > LINE_BYTES) return false;
  if (!ctx->of_taps) return last[STRIDE] == 1;
  return last[DILATION] == 1 && last[STRIDE] <= 2 && last[KERNEL] <= MOST_TAPS;
}

/* Reads the axes, and how x is staged. */
SMALL static void read_axes(conv_bytes_context *ctx, const double *numbers) {
  ctx->plane = ctx->channel_words = ctx->steps = ctx->places = 1;
  ctx->has_lines = has_lines(ctx, numbers);
  for (int i = 0; i < AXES; i++) {
    const double *from = numbers + i * PER_AXIS;
    byte_axis *axis = &ctx->axes[i];
    *axis = (byte_axis){(ptrdiff_t)from[0], (ptrdiff_t)from[1], (ptrdiff_t)from[2],
                        (ptrdiff_t)from[3], (ptrdiff_t)from[4], (ptrdiff_t)from[5], 0, 0, 0};
    const bool of_taps = ctx->of_taps && i == WIDTH;
    axis->taps = of_taps ? rm_ceil_div(axis->kernel, 4) : axis->kernel;
    axis->phases =
        of_taps ? 1
                : rm_min(axis->kernel,
                         axis->stride / common_divisor(axis->stride, axis->dilation));
    axis->size = axis->out;
    if (!of_taps || ctx->has_lines) axis->size += (axis->kernel - 1) * axis->dilation / axis->stride;
    ctx->plane *= axis->size;
    ctx->places *= axis->out;
    ctx->channel_words *= axis->phases;
    if (!of_taps) ctx->steps *= axis->taps;
  }
  const byte_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  ctx->words = ctx->of_taps ? ctx->channels * x->taps : rm_ceil_div(ctx->channels, 4);
  ctx->channel_words *= ctx->plane;
  ctx->group_words = ctx->words * ctx->channel_words;
  ctx->steps *= ctx->words;
  ctx->pixels = ((z->out - 1) * y->size + y->out - 1) * x->size + x->out;
}

/* Finds the runs of all tiles. */
SMALL static void find_all_runs(conv_bytes_context *ctx) {
  ptrdiff_t found = 0;
  for (ptrdiff_t at = 0; at < ctx->tiles; at++) {
    const ptrdiff_t pixel = at * ctx->tile_pixels;
    ctx->first_run[at] = found;
    found += find_runs(ctx, pixel, rm_min(ctx->tile_pixels, ctx->pixels - pixel), ctx->runs + found);
  }
  ctx->first_run[ctx->tiles] = found;
}

/* Where the words of a sum lie: for each channel, the taps; for each tap, its words. */
SMALL static void find_words(conv_bytes_context *ctx) {
  const byte_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  const ptrdiff_t channels = ctx->of_taps ? ctx->channels : ctx->words;
  ptrdiff_t *at = ctx->at;
  for (ptrdiff_t c = 0; c < channels; c++) {
    for (ptrdiff_t i = 0; i < z->kernel * y->kernel; i++) {
      const ptrdiff_t kz = i / y->kernel, ky = i % y->kernel;
      for (ptrdiff_t kx = 0; kx < x->taps; kx++) {
        const ptrdiff_t word = ctx->of_taps ? c * x->taps + kx : c;
        const ptrdiff_t px = ctx->of_taps ? 0 : kx % x->phases;
        const ptrdiff_t dx = ctx->of_taps ? 0 : kx * x->dilation / x->stride;
        const ptrdiff_t phase = (kz % z->phases * y->phases + ky % y->phases) * x->phases + px;
        const ptrdiff_t dz = kz * z->dilation / z->stride, dy = ky * y->dilation / y->stride;
        const ptrdiff_t row = phase * ctx->plane + (dz * y->size + dy) * x->size;
        if (ctx->takes_lines) *at++ = row * x->stride + 4 * kx;
        else *at++ = 4 * (word * ctx->channel_words + row + dx);
      }
    }
  }
}

static __attribute__((noinline)) bool has_zero_points(const conv_bytes_context *ctx,
                                                      ptrdiff_t weight_groups) {
  v_s32 any = {0};
  for (ptrdiff_t i = 0; i < weight_groups; i++) {
    const uint8_t *zeros = ctx->groups_of_weight + i * ctx->group_bytes + BYTES_ZEROS;
    UNROLL for (int at = 0; at < 4 * GROUP_ROWS; at += VECTOR_BYTES) any |= (v_s32)load_bytes(zeros + at);
  }
  int32_t found = 0;
  for (int i = 0; i < LANES; i++) found |= any[i];
  return found != 0;
}

/* Finds what the sums of all channels begin with. */
static void find_starts(conv_bytes_context *ctx, ptrdiff_t weight_groups) {
  const uint32_t zero = (uint32_t)ctx->zero, steps = (uint32_t)ctx->steps;
  for (ptrdiff_t i = 0; i < weight_groups; i++) {
    const uint8_t *group = ctx->groups_of_weight + i * ctx->group_bytes;
    const uint32_t *sums = (const uint32_t *)(const void *)group, *zeros = sums + BYTES_ZEROS / 4;
    uint32_t *to = (uint32_t *)ctx->starts + i * GROUP_ROWS;
    const ptrdiff_t kept = rm_min(GROUP_ROWS, ctx->groups * ctx->rows - i * GROUP_ROWS);
    for (int j = 0; j < GROUP_ROWS; j++) to[j] = (4 * steps * zeros[j] - sums[j]) * zero;
    for (ptrdiff_t j = 0; j < kept && ctx->output.bias != NULL; j++) {
      to[j] += (uint32_t)ctx->output.bias[i * GROUP_ROWS + j];
    }
    for (ptrdiff_t j = 0; j < kept && ctx->output.size == 1; j++) {
      ctx->factors[i * GROUP_ROWS + j] = ctx->output.factors[i * GROUP_ROWS + j];
    }
  }
}

/* Divides the tiles of pixels and the rows of the weight of `images` images into tasks; their number. */
SMALL static ptrdiff_t split(conv_bytes_context *ctx, ptrdiff_t images) {
  const ptrdiff_t target = TASKS_PER_THREAD * rm_threads(), planes = images * ctx->groups;
  ctx->tiles_per_task = rm_ceil_div(ctx->tiles, rm_min(ctx->tiles, rm_ceil_div(target, planes)));
  ctx->pixel_tasks = rm_ceil_div(ctx->tiles, ctx->tiles_per_task);
  const ptrdiff_t parts = rm_ceil_div(target, planes * ctx->pixel_tasks);
  ctx->rows_per_task = rm_round_up(rm_ceil_div(ctx->rows, parts), GROUP_ROWS);
  ctx->row_tasks = rm_ceil_div(ctx->rows, ctx->rows_per_task);
  return planes * ctx->pixel_tasks * ctx->row_tasks;
}

SMALL int32_t RM_FOR_ISA(conv_bytes)(const rm_call *call) {
  const double *numbers = call->numbers;
  const int dtype = call->dtypes[1];
  if (call->dtypes[2] != RM_INT8) return RM_UNSUPPORTED;
  if (dtype != RM_INT8 && dtype != RM_UINT8) return RM_UNSUPPORTED;
  if (call->dtypes[3] != RM_NONE && call->dtypes[3] != dtype) return RM_UNSUPPORTED;
  for (int i = 0; i < 3; i++) {
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "convBytes without operand %d", i);
  }
  conv_bytes_context ctx = {
      .images = (ptrdiff_t)numbers[IMAGES],
      .groups = (ptrdiff_t)numbers[GROUPS],
      .channels = (ptrdiff_t)numbers[CHANNELS],
      .rows = (ptrdiff_t)numbers[ROWS],
      .of_taps = numbers[OF_TAPS] != 0,
      .x = (const uint8_t *)call->buffers[1] + (ptrdiff_t)numbers[OFFSETS + 1],
      .groups_of_weight = (const uint8_t *)call->buffers[2] + (ptrdiff_t)numbers[OFFSETS + 2],
  };
  read_axes(&ctx, numbers + SPACE);
  const int32_t status = read_byte_output(call, numbers + OUTPUT, &ctx.output);
  if (status != RM_OK) return status;
  ctx.out = (uint8_t *)call->buffers[0] + (ptrdiff_t)numbers[OFFSETS] * ctx.output.size;
  if (ctx.images < 1 || ctx.groups < 1 || ctx.rows < 1 || ctx.steps < 1) return RM_OK;
  ctx.group_bytes = BYTES_HEAD + ctx.steps * WORD_BYTES;
  const ptrdiff_t weight_groups = rm_ceil_div(ctx.groups * ctx.rows, GROUP_ROWS);
  ctx.how = words_for_groups(ctx.groups_of_weight, weight_groups, ctx.group_bytes);
#if defined(MULTIPLY_PAIRS)
  const bool is_flipped = dtype == RM_INT8, is_widened = ctx.how == WIDE_WORDS;
#else
  const bool is_flipped = dtype == RM_UINT8, is_widened = false;
#endif
  const uint8_t flip = is_flipped ? 0x80 : 0;
  ctx.flips = 0x01010101u * flip;
  const uint8_t *zero = call->buffers[3] == NULL
                            ? NULL
                            : (const uint8_t *)call->buffers[3] + (ptrdiff_t)numbers[OFFSETS + 3];
  const uint8_t blank = zero == NULL ? 0 : *zero;
  ctx.padding = blank ^ flip;
#if defined(MULTIPLY_PAIRS)
  ctx.zero = ctx.padding;
#else
  ctx.zero = (int8_t)ctx.padding;
#endif
  ctx.has_zeros = has_zero_points(&ctx, weight_groups);
  const ptrdiff_t image_bytes = 4 * ctx.groups * ctx.group_words;
  const ptrdiff_t images = rm_min(ctx.images, 1 + MOST_STAGED / image_bytes);
  const ptrdiff_t group_tasks = TASKS_PER_THREAD * rm_threads(), planes = ctx.images * ctx.groups;
  if (ctx.groups > 1 && planes >= group_tasks) {
    ctx.groups_per_task = rm_ceil_div(planes, group_tasks);
    ctx.task_bytes = rm_round_up(4 * (ctx.group_words + TILE_PIXELS), VECTOR_BYTES);
    ctx.takes_lines = ctx.of_taps && ctx.has_lines && ctx.channels == 1 && ctx.output.size == 1 &&
                      !ctx.has_zeros;
    /* A tile may begin at the last pixel, and what fills a line ends with a vector. */
    if (ctx.takes_lines) ctx.task_bytes += 2 * LINE_PIXELS + VECTOR_BYTES;
  }
  ctx.tile_pixels = ctx.takes_lines ? LINE_PIXELS : TILE_PIXELS;
  ctx.tiles = rm_ceil_div(ctx.pixels, ctx.tile_pixels);
  /* Vectors may begin at the last pixel. */
  const ptrdiff_t staged_bytes =
      ctx.groups_per_task > 0 ? group_tasks * ctx.task_bytes
                              : rm_round_up(images * image_bytes + TILE_PIXELS * 4, VECTOR_BYTES);
  const ptrdiff_t wide_bytes =
      is_widened ? weight_groups * ctx.steps * GROUP_ROWS * SIGNED_WORD_BYTES : 0;
  const ptrdiff_t at_bytes = (ctx.steps + ctx.tiles + 1) * (ptrdiff_t)sizeof *ctx.at;
  /* A run ends with a row or with a tile. */
  const ptrdiff_t rows = ctx.axes[DEPTH_AXIS].size * ctx.axes[HEIGHT].size;
  const ptrdiff_t run_bytes = (rows + ctx.tiles) * (ptrdiff_t)sizeof *ctx.runs;
  const ptrdiff_t start_bytes = 2 * weight_groups * GROUP_ROWS * (ptrdiff_t)sizeof *ctx.starts;
  const ptrdiff_t blank_bytes = (ctx.axes[WIDTH].size - 1) * ctx.axes[WIDTH].stride + 1;
  gemm_workspace *workspace = RM_FOR_ISA(workspace_alloc)(
      (size_t)(staged_bytes + wide_bytes + at_bytes + run_bytes + start_bytes + blank_bytes), 0);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a convolution");
  ctx.staged = (uint8_t *)workspace->data;
  ctx.at = (ptrdiff_t *)(void *)(ctx.staged + staged_bytes + wide_bytes);
  ctx.first_run = ctx.at + ctx.steps;
  ctx.runs = (pixel_run *)(void *)(ctx.first_run + ctx.tiles + 1);
  ctx.starts = (int32_t *)(void *)((uint8_t *)ctx.runs + run_bytes);
  ctx.factors = (float *)(void *)(ctx.starts + weight_groups * GROUP_ROWS);
  ctx.blank = (uint8_t *)ctx.starts + start_bytes;
  memset(ctx.blank, blank, (size_t)blank_bytes);
  find_words(&ctx);
  find_all_runs(&ctx);
  find_starts(&ctx, weight_groups);
  ctx.weight = ctx.groups_of_weight + BYTES_HEAD;
  if (is_widened) {
    ctx.weight = ctx.wide = ctx.staged + staged_bytes;
    rm_parallel(weight_groups, (double)wide_bytes / STAGED_PER_NS, widen_task, &ctx);
  }
  const double products = (double)(ctx.groups * ctx.rows) * (double)ctx.pixels * (double)(4 * ctx.steps);
  if (ctx.groups_per_task > 0) {
    const double ns = products / PRODUCTS_PER_NS + (double)image_bytes / STAGED_PER_NS;
    rm_parallel(rm_ceil_div(planes, ctx.groups_per_task), (double)ctx.images * ns, group_task, &ctx);
    ctx.first_image = ctx.images;
  }
  for (; ctx.first_image < ctx.images; ctx.first_image += images) {
    const ptrdiff_t count = rm_min(images, ctx.images - ctx.first_image);
    rm_parallel(count * ctx.groups * ctx.words, (double)(count * image_bytes) / STAGED_PER_NS,
                stage_task, &ctx);
    const ptrdiff_t tasks = split(&ctx, count);
    rm_parallel(tasks, (double)count * products / PRODUCTS_PER_NS, conv_task, &ctx);
  }
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
