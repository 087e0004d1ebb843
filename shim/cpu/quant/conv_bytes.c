/*
 * Convolutions of bytes, whose int32 sums are exact.
 *
 * x is staged first: words of four bytes that meet a word of the weight, in planes whose rows have their
 * padding, which is the zero point. Words are of four channels, or of four taps along the last axis of
 * one channel where that takes fewer words. A plane has the words of one phase of each stride. So the
 * words of adjacent pixels lie side by side, and those of another tap are a constant distance away: a
 * vector has a word of LANES pixels, and no matrix of windows is made.
 *
 * A tile is some rows of the weight (byte_groups.h) and some vectors of pixels. Pixels are numbered by
 * their place in a plane, so that tiles run over the ends of rows; what lies between the rows is computed
 * and left out. Sums are exact, so that they do not depend on tiles and tasks.
 */
#include <string.h>
#include "byte_groups.h"
#include "quant_vectors.h"

/* The vectors of pixels and the rows of the weight of a tile. */
#if defined(__AVX512F__)
enum { TILE_VECTORS = 3, VNNI_ROWS = 8, PAIR_ROWS = 4 };
#elif defined(__aarch64__)
enum { TILE_VECTORS = 2, VNNI_ROWS = 8, PAIR_ROWS = 8 };
#else
enum { TILE_VECTORS = 2, VNNI_ROWS = 4, PAIR_ROWS = 4 };
#endif

enum {
  AXES = 3,
  DEPTH_AXIS = 0,
  HEIGHT,
  WIDTH,
  MOST_ROWS = VNNI_ROWS,
  TILE_PIXELS = TILE_VECTORS * LANES,
  TASKS_PER_THREAD = 4,
  /* The most bytes of staged words of several images. */
  MOST_STAGED = 16 << 20
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
  PER_AXIS = 6
};

typedef struct {
  ptrdiff_t in, kernel, out, stride, padding, dilation;
  /* The words of taps, the phases of the stride that taps have, and the size of a plane of a phase. */
  ptrdiff_t taps, phases, size;
} byte_axis;

typedef struct {
  ptrdiff_t images, groups, channels, rows;
  bool of_taps, has_zeros;
  int how;
  byte_axis axes[AXES];
  /* The channels of words of a group; the words of a plane, of a channel's phases, and of a group of an image. */
  ptrdiff_t words, plane, channel_words, group_words;
  /* The words of a sum, the pixels from the first to the last, the bytes of a group and of a word. */
  ptrdiff_t steps, pixels, group_bytes, word_bytes;
  ptrdiff_t first_image, tiles, tiles_per_task, pixel_tasks, rows_per_task, row_tasks;
  uint32_t flips;
  int32_t shift;
  uint8_t padding;
  int32_t zero;
  const uint8_t *x, *groups_of_weight, *weight;
  int32_t *out;
  uint8_t *wide, *staged;
  /* The bytes of each word of a sum, from its first pixel's. */
  ptrdiff_t *at;
  /* A row of zero points, for channels and taps that there are not. */
  uint8_t *blank;
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

/* Words of which some bytes are padding. */
static void write_edge(const conv_bytes_context *ctx, const byte_lane *lanes, ptrdiff_t stride,
                       ptrdiff_t low, ptrdiff_t high, uint8_t *to) {
  RM_SCALAR for (ptrdiff_t i = 4 * low; i < 4 * high; i++) {
    const byte_lane own = lanes[i % 4];
    const bool inside = i / 4 >= own.low && i / 4 < own.high;
    to[i] = inside ? own.from[i / 4 * stride] ^ (uint8_t)ctx->flips : ctx->padding;
  }
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
  if (stride == 1) write_inner(lanes, 1, low, high, ctx->flips, words);
  else write_inner(lanes, stride, low, high, ctx->flips, words);
  write_edge(ctx, lanes, stride, high, count, to);
}

/* The first element of a phase along an axis, without the padding. */
static ptrdiff_t phase_start(const byte_axis *axis, ptrdiff_t phase) {
  return phase * axis->dilation % axis->stride - axis->padding;
}

/* Stages one channel of words of a group of an image. */
static void stage_task(void *context, ptrdiff_t index) {
  const conv_bytes_context *ctx = context;
  const byte_axis *z = &ctx->axes[DEPTH_AXIS], *y = &ctx->axes[HEIGHT], *x = &ctx->axes[WIDTH];
  const ptrdiff_t word = index % ctx->words, group = index / ctx->words % ctx->groups;
  const ptrdiff_t image = index / ctx->words / ctx->groups;
  const ptrdiff_t channel = ctx->of_taps ? word / x->taps : 4 * word;
  const ptrdiff_t tap = ctx->of_taps ? word % x->taps * 4 : 0;
  const ptrdiff_t depth_bytes = y->in * x->in, channel_bytes = z->in * depth_bytes;
  const ptrdiff_t first_channel = ((ctx->first_image + image) * ctx->groups + group) * ctx->channels;
  const uint8_t *from = ctx->x + (first_channel + channel) * channel_bytes;
  uint8_t *to = ctx->staged + 4 * index * ctx->channel_words;
  for (ptrdiff_t pz = 0; pz < z->phases; pz++) {
    for (ptrdiff_t py = 0; py < y->phases; py++) {
      for (ptrdiff_t px = 0; px < x->phases; px++) {
        for (ptrdiff_t i = 0; i < z->size * y->size; i++, to += 4 * x->size) {
          const ptrdiff_t depth = phase_start(z, pz) + i / y->size * z->stride;
          const ptrdiff_t row = phase_start(y, py) + i % y->size * y->stride;
          const bool inside = depth >= 0 && depth < z->in && row >= 0 && row < y->in;
          if (!inside) {
            memset(to, ctx->padding, (size_t)(4 * x->size));
            continue;
          }
          const uint8_t *at = from + depth * depth_bytes + row * x->in;
          byte_lane lanes[4];
          for (ptrdiff_t e = 0; e < 4; e++) {
            lanes[e] = (byte_lane){ctx->blank, 0, x->size};
            if (ctx->of_taps && tap + e < x->kernel) {
              lanes[e] = lane_of(at, (tap + e) * x->dilation - x->padding, x->stride, x->in, x->size);
            } else if (!ctx->of_taps && channel + e < ctx->channels) {
              lanes[e] = lane_of(at + e * channel_bytes, phase_start(x, px), x->stride, x->in, x->size);
            }
          }
          write_words(ctx, lanes, x->stride, x->size, to);
        }
      }
    }
  }
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

/* Sums of some rows of the weight, from `weight` on, and of vectors of pixels, from `data` on. */
static RM_ALWAYS_INLINE void multiply(const int rows, const int vectors, const int how,
                                      const conv_bytes_context *ctx, const uint8_t *data,
                                      const uint8_t *weight, ptrdiff_t weight_step,
                                      v_s32 all[][TILE_VECTORS]) {
  (void)how;
  v_s32 sums[MOST_ROWS][TILE_VECTORS];
  UNROLL for (int r = 0; r < rows; r++) {
    UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = (v_s32)0;
  }
  const ptrdiff_t *at = ctx->at, *end = at + ctx->steps;
  ROLLED for (; at < end; at++, weight += weight_step) {
    const uint8_t *from = data + *at;
#if defined(MULTIPLY_BYTES)
    if (how == VNNI_WORDS) {
      v_u8 x[TILE_VECTORS];
      UNROLL for (int v = 0; v < vectors; v++) memcpy(&x[v], from + v * VECTOR_BYTES, VECTOR_BYTES);
      UNROLL for (int r = 0; r < rows; r++) {
        const v_u8 w = repeat_word(weight + 4 * r);
        UNROLL for (int v = 0; v < vectors; v++) MULTIPLY_BYTES(sums[r][v], x[v], w);
      }
      continue;
    }
#endif
#if defined(MULTIPLY_SMALL)
    if (how == SMALL_WORDS) {
      v_u8 x[TILE_VECTORS];
      UNROLL for (int v = 0; v < vectors; v++) memcpy(&x[v], from + v * VECTOR_BYTES, VECTOR_BYTES);
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
    signed_word x[TILE_VECTORS];
    UNROLL for (int v = 0; v < vectors; v++) {
      v_u8 bytes;
      memcpy(&bytes, from + v * VECTOR_BYTES, VECTOR_BYTES);
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

/* A run of pixels of a tile that are results. */
typedef struct {
  ptrdiff_t from, to, count;
} pixel_run;

/* The results among pixels [first, first + count) of a plane; returns the number of runs. */
static int find_runs(const conv_bytes_context *ctx, ptrdiff_t first, ptrdiff_t count,
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
  /* The sums of x of each pixel, where the weight has zero points. */
  const v_s32 *sums;
} pixel_tile;

/* `rows` rows of a tile, of which `kept` are stored. */
static RM_ALWAYS_INLINE void multiply_rows(const int rows, const int vectors, const int how,
                                           const conv_bytes_context *ctx, const pixel_tile *tile,
                                           ptrdiff_t kept) {
  v_s32 made[MOST_ROWS][TILE_VECTORS];
  const ptrdiff_t lane = tile->channel % GROUP_ROWS, group = tile->channel / GROUP_ROWS;
  const ptrdiff_t word = how == WIDE_WORDS ? SIGNED_WORD_BYTES : 4;
  const ptrdiff_t stride = ctx->wide == NULL ? ctx->group_bytes : ctx->steps * GROUP_ROWS * word;
  multiply(rows, vectors, how, ctx, tile->data, ctx->weight + group * stride + lane * word,
           GROUP_ROWS * word, made);
  const uint8_t *head = ctx->groups_of_weight + group * ctx->group_bytes + 4 * lane;
  ptrdiff_t plane = 1;
  for (int i = 0; i < AXES; i++) plane *= ctx->axes[i].out;
  int32_t *out = ctx->out + (tile->image * ctx->groups * ctx->rows + tile->channel) * plane;
  for (ptrdiff_t r = 0; r < kept; r++, out += plane) {
    uint32_t sum, zero;
    memcpy(&sum, head + 4 * r, sizeof sum);
    memcpy(&zero, head + BYTES_ZEROS + 4 * r, sizeof zero);
    const uint32_t rest = (uint32_t)ctx->zero * (sum - 4 * (uint32_t)ctx->steps * zero);
    UNROLL for (int v = 0; v < vectors; v++) {
      if (zero != 0) made[r][v] -= tile->sums[v] * (int32_t)zero;
      made[r][v] -= (int32_t)rest;
    }
    const int32_t *from = (const int32_t *)made[r];
    for (int i = 0; i < tile->count; i++) {
      const pixel_run run = tile->runs[i];
      memcpy(out + run.to, from + run.from, (size_t)run.count * sizeof *out);
    }
  }
}

/* All rows [row, end) of a group of the convolution and a tile of pixels from `data` on. */
static RM_ALWAYS_INLINE void multiply_tile(const int vectors, const int how,
                                           const conv_bytes_context *ctx, pixel_tile tile,
                                           ptrdiff_t rows) {
  enum { ONES_BYTES = 2 * 4 };
  const int most = how == WIDE_WORDS ? PAIR_ROWS : VNNI_ROWS;
  v_s32 sums[1][TILE_VECTORS];
  if (ctx->has_zeros) {
    uint8_t ones[ONES_BYTES];
    const int8_t word[4] = {1, 1, 1, 1};
    if (how != WIDE_WORDS) memcpy(ones, word, sizeof word);
    else store_signed_word(ones, word);
    multiply(1, vectors, how, ctx, tile.data, ones, 0, sums);
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

static void conv_task(void *context, ptrdiff_t index) {
  const conv_bytes_context *ctx = context;
  const ptrdiff_t row = index % ctx->row_tasks * ctx->rows_per_task;
  const ptrdiff_t rows = rm_min(ctx->rows_per_task, ctx->rows - row);
  index /= ctx->row_tasks;
  const ptrdiff_t first = index % ctx->pixel_tasks * ctx->tiles_per_task;
  const ptrdiff_t last = rm_min(ctx->tiles, first + ctx->tiles_per_task);
  index /= ctx->pixel_tasks;
  const ptrdiff_t group = index % ctx->groups, image = index / ctx->groups;
  const uint8_t *staged = ctx->staged + 4 * (image * ctx->groups + group) * ctx->group_words;
  for (ptrdiff_t at = first; at < last; at++) {
    const ptrdiff_t pixel = at * TILE_PIXELS, count = rm_min(TILE_PIXELS, ctx->pixels - pixel);
    pixel_run runs[TILE_PIXELS];
    const pixel_tile tile = {
        .data = staged + 4 * pixel,
        .image = ctx->first_image + image,
        .channel = group * ctx->rows + row,
        .runs = runs,
        .count = find_runs(ctx, pixel, count, runs),
    };
    if (tile.count == 0) continue;
    if (ctx->how == VNNI_WORDS) multiply_any(VNNI_WORDS, ctx, tile, rows, count);
#if defined(MULTIPLY_SMALL)
    else if (ctx->how == SMALL_WORDS) multiply_any(SMALL_WORDS, ctx, tile, rows, count);
#endif
    else multiply_any(WIDE_WORDS, ctx, tile, rows, count);
  }
}

/* ---- the call -------------------------------------------------------------------------------- */

static ptrdiff_t common_divisor(ptrdiff_t a, ptrdiff_t b) {
  while (b != 0) {
    const ptrdiff_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

/* Reads the axes, and how x is staged. */
static void read_axes(conv_bytes_context *ctx, const double *numbers) {
  ctx->plane = ctx->channel_words = ctx->steps = 1;
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
    if (!of_taps) axis->size += (axis->kernel - 1) * axis->dilation / axis->stride;
    ctx->plane *= axis->size;
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

/* Where the words of a sum lie: for each channel, the taps; for each tap, its words. */
static void find_words(conv_bytes_context *ctx) {
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
        *at++ = 4 * (word * ctx->channel_words + phase * ctx->plane + (dz * y->size + dy) * x->size + dx);
      }
    }
  }
}

/* Divides the tiles of pixels and the rows of the weight of `images` images into tasks; their number. */
static ptrdiff_t split(conv_bytes_context *ctx, ptrdiff_t images) {
  const ptrdiff_t target = TASKS_PER_THREAD * rm_threads(), planes = images * ctx->groups;
  ctx->tiles = rm_ceil_div(ctx->pixels, TILE_PIXELS);
  ctx->tiles_per_task = rm_ceil_div(ctx->tiles, rm_min(ctx->tiles, rm_ceil_div(target, planes)));
  ctx->pixel_tasks = rm_ceil_div(ctx->tiles, ctx->tiles_per_task);
  const ptrdiff_t parts = rm_ceil_div(target, planes * ctx->pixel_tasks);
  ctx->rows_per_task = rm_round_up(rm_ceil_div(ctx->rows, parts), GROUP_ROWS);
  ctx->row_tasks = rm_ceil_div(ctx->rows, ctx->rows_per_task);
  return planes * ctx->pixel_tasks * ctx->row_tasks;
}

int32_t RM_FOR_ISA(conv_bytes)(const rm_call *call) {
  const double *numbers = call->numbers;
  const int dtype = call->dtypes[1];
  if (call->dtypes[0] != RM_INT32 || call->dtypes[2] != RM_INT8) return RM_UNSUPPORTED;
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
      .out = (int32_t *)call->buffers[0] + (ptrdiff_t)numbers[OFFSETS],
      .x = (const uint8_t *)call->buffers[1] + (ptrdiff_t)numbers[OFFSETS + 1],
      .groups_of_weight = (const uint8_t *)call->buffers[2] + (ptrdiff_t)numbers[OFFSETS + 2],
  };
  read_axes(&ctx, numbers + SPACE);
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
  for (ptrdiff_t i = 0; i < weight_groups && !ctx.has_zeros; i++) {
    const uint8_t *zeros = ctx.groups_of_weight + i * ctx.group_bytes + BYTES_ZEROS;
    for (int j = 0; j < BYTES_PAIRS - BYTES_ZEROS; j++) ctx.has_zeros = ctx.has_zeros || zeros[j] != 0;
  }
  const ptrdiff_t image_bytes = 4 * ctx.groups * ctx.group_words;
  const ptrdiff_t images = rm_min(ctx.images, 1 + MOST_STAGED / image_bytes);
  /* Vectors may begin at the last pixel. */
  const ptrdiff_t staged_bytes =
      rm_round_up(images * image_bytes + TILE_PIXELS * 4, VECTOR_BYTES);
  const ptrdiff_t wide_bytes =
      is_widened ? weight_groups * ctx.steps * GROUP_ROWS * SIGNED_WORD_BYTES : 0;
  const ptrdiff_t at_bytes = ctx.steps * (ptrdiff_t)sizeof *ctx.at;
  const ptrdiff_t blank_bytes = (ctx.axes[WIDTH].size - 1) * ctx.axes[WIDTH].stride + 1;
  gemm_workspace *workspace = RM_FOR_ISA(workspace_alloc)(
      (size_t)(staged_bytes + wide_bytes + at_bytes + blank_bytes), 0);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a convolution");
  ctx.staged = (uint8_t *)workspace->data;
  ctx.at = (ptrdiff_t *)(void *)(ctx.staged + staged_bytes + wide_bytes);
  ctx.blank = (uint8_t *)ctx.at + at_bytes;
  memset(ctx.blank, blank, (size_t)blank_bytes);
  find_words(&ctx);
  ctx.weight = ctx.groups_of_weight + BYTES_HEAD;
  if (is_widened) {
    ctx.weight = ctx.wide = ctx.staged + staged_bytes;
    rm_parallel(weight_groups, (double)wide_bytes / STAGED_PER_NS, widen_task, &ctx);
  }
  for (; ctx.first_image < ctx.images; ctx.first_image += images) {
    const ptrdiff_t count = rm_min(images, ctx.images - ctx.first_image);
    rm_parallel(count * ctx.groups * ctx.words, (double)(count * image_bytes) / STAGED_PER_NS,
                stage_task, &ctx);
    const ptrdiff_t tasks = split(&ctx, count);
    const double products = (double)(count * ctx.groups * ctx.rows) * (double)ctx.pixels *
                            (double)(4 * ctx.steps);
    rm_parallel(tasks, products / PRODUCTS_PER_NS, conv_task, &ctx);
  }
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
