/*
 * x times a quantized weight, plus bias, through an activation, plus a residual: for few rows of x.
 *
 * Rows of x are rounded to 8 bits, in parts of 32 elements with a scale each, so that products of
 * parts are sums of integers. An element of a part of the weight is factor * q + shift: the sum of a
 * part is factor * (sum of q * x) + shift * (sum of x). A row has the same result among any number of
 * rows.
 */
#include <math.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif
#include "gemm_context.h"
#include "map_context.h"
#include "row_product.h"
#include "quant_formats.h"

enum {
  /* The rows of x that meet a part of the weight while it is in registers. */
  ROW_BLOCK = 4,
  /* The columns of the product that a task computes at once. */
  COLUMN_BLOCK = 16,
  /* Sums of x are those of halves of parts, as those of Q6_K have scales of their own. */
  HALF = PART / 2
};

/* The minimum work of a task, and the bytes of the weight that a core reads per nanosecond. */
static const double TASK_NS = 8000, BYTES_PER_NS = 8;

/* The numbers of a call, after those of products of rows. */
enum { FORMAT = ROW_NUMBERS, WEIGHT_OFFSET };

typedef struct quantized_context quantized_context;
/* The sums of ROW_BLOCK rows of x, or one, from `row` on, and a row of the weight. */
typedef void dot_function(const quantized_context *ctx, ptrdiff_t row, const uint8_t *weight,
                          float *sums);

struct quantized_context {
  ptrdiff_t rows, columns, depth, parts, row_bytes;
  const uint8_t *weight;
  const float *x, *bias, *add;
  float *out;
  ptrdiff_t x_stride, out_stride, add_stride, columns_per_task;
  /* The rounded rows, the scales of their parts, and the sums of their halves. */
  int8_t *rounded;
  float *scales, *sums;
  const map_op *activation;
  dot_function *dot[2];
};

/* ---- x --------------------------------------------------------------------------------------- */

static void round_row(const quantized_context *ctx, ptrdiff_t row) {
  const float *from = ctx->x + row * ctx->x_stride;
  int8_t *to = ctx->rounded + row * ctx->depth;
  float *scale = ctx->scales + row * ctx->parts, *sum = ctx->sums + row * ctx->parts * 2;
  for (ptrdiff_t p = 0; p < ctx->parts; p++, from += PART, to += PART, sum += 2) {
    float most = 0;
    for (int i = 0; i < PART; i++) {
      const float size = fabsf(from[i]);
      if (size > most || size != size) most = size;
    }
    const float d = most / 127, inverse = d == 0 ? 0 : 1 / d;
    scale[p] = d;
    for (int half = 0; half < 2; half++) {
      int all = 0;
      for (int i = half * HALF; i < (half + 1) * HALF; i++) {
        /* Not a number only if d is not finite, which the sums then are not either. */
        const float q = from[i] * inverse;
        const int rounded = q >= -127.5f && q <= 127.5f ? (int)rintf(q) : 0;
        to[i] = (int8_t)rounded;
        all += rounded;
      }
      sum[half] = d * (float)all;
    }
  }
}

static void round_task(void *context, ptrdiff_t index) { round_row(context, index); }

/* ---- a part of the weight -------------------------------------------------------------------- */

/* How elements of the halves of a part are made of its numbers. */
typedef struct {
  float factor[2], shift[2];
} part_scales;

#if defined(__AVX2__)
typedef __m256i part_quants;

static RM_ALWAYS_INLINE __m256i nibbles(const uint8_t *from) {
  const __m128i both = _mm_loadu_si128((const __m128i *)from);
  const __m256i all = _mm256_set_m128i(_mm_srli_epi16(both, 4), both);
  return _mm256_and_si256(all, _mm256_set1_epi8(15));
}

/* 16 in each byte whose bit is set among 32. */
static RM_ALWAYS_INLINE __m256i fifth_bits(const uint8_t *from) {
  uint32_t bits;
  memcpy(&bits, from, sizeof bits);
  const __m256i order = _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202,
                                          0x0101010101010101, 0x0000000000000000);
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), order);
  const __m256i one = _mm256_set1_epi64x((long long)0x8040201008040201u);
  const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, one), one);
  return _mm256_and_si256(set, _mm256_set1_epi8(16));
}

/* Bits of 32 bytes: (byte >> shift) & mask. */
static RM_ALWAYS_INLINE __m256i bits_of(const uint8_t *from, int shift, int mask) {
  const __m256i bytes = _mm256_loadu_si256((const __m256i *)from);
  return _mm256_and_si256(_mm256_srl_epi16(bytes, _mm_cvtsi32_si128(shift)),
                          _mm256_set1_epi8((char)mask));
}

static RM_ALWAYS_INLINE __m256i shifted_left_4(__m256i x) { return _mm256_slli_epi16(x, 4); }
static RM_ALWAYS_INLINE __m256i either(__m256i x, __m256i y) { return _mm256_or_si256(x, y); }
static RM_ALWAYS_INLINE __m256i signed_bytes(const uint8_t *from) {
  return _mm256_loadu_si256((const __m256i *)from);
}
static RM_ALWAYS_INLINE __m256i looked_up(__m256i index, const int8_t *values) {
  const __m128i table = _mm_loadu_si128((const __m128i *)values);
  return _mm256_shuffle_epi8(_mm256_set_m128i(table, table), index);
}
#else
typedef struct {
  int8_t at[PART];
} part_quants;

static RM_ALWAYS_INLINE part_quants nibbles(const uint8_t *from) {
  part_quants made;
  for (int i = 0; i < HALF; i++) {
    made.at[i] = from[i] & 15;
    made.at[i + HALF] = (int8_t)(from[i] >> 4);
  }
  return made;
}

static RM_ALWAYS_INLINE part_quants fifth_bits(const uint8_t *from) {
  part_quants made;
  for (int i = 0; i < PART; i++) made.at[i] = (int8_t)((from[i / 8] >> i % 8 & 1) << 4);
  return made;
}

static RM_ALWAYS_INLINE part_quants bits_of(const uint8_t *from, int shift, int mask) {
  part_quants made;
  for (int i = 0; i < PART; i++) made.at[i] = (int8_t)(from[i] >> shift & mask);
  return made;
}

static RM_ALWAYS_INLINE part_quants shifted_left_4(part_quants x) {
  for (int i = 0; i < PART; i++) x.at[i] = (int8_t)(x.at[i] << 4);
  return x;
}

static RM_ALWAYS_INLINE part_quants either(part_quants x, part_quants y) {
  for (int i = 0; i < PART; i++) x.at[i] |= y.at[i];
  return x;
}

static RM_ALWAYS_INLINE part_quants signed_bytes(const uint8_t *from) {
  part_quants made;
  memcpy(made.at, from, sizeof made.at);
  return made;
}

static RM_ALWAYS_INLINE part_quants looked_up(part_quants index, const int8_t *values) {
  for (int i = 0; i < PART; i++) index.at[i] = values[index.at[i]];
  return index;
}
#endif

static RM_ALWAYS_INLINE part_scales same_scales(float factor, float shift) {
  return (part_scales){{factor, factor}, {shift, shift}};
}

/* Reads part `p` of a row of the weight: its numbers and its scales. */
static RM_ALWAYS_INLINE part_quants read_part(const int format, const uint8_t *row, ptrdiff_t p,
                                          part_scales *scales) {
  if (format == Q4_0 || format == IQ4_NL) {
    const uint8_t *block = row + p * Q4_0_BYTES;
    const float d = rm_half_at(block);
    *scales = same_scales(d, format == Q4_0 ? -8 * d : 0);
    const part_quants q = nibbles(block + 2);
    return format == Q4_0 ? q : looked_up(q, rm_iq4_values);
  }
  if (format == Q4_1) {
    const uint8_t *block = row + p * Q4_1_BYTES;
    *scales = same_scales(rm_half_at(block), rm_half_at(block + 2));
    return nibbles(block + 4);
  }
  if (format == Q5_0) {
    const uint8_t *block = row + p * Q5_0_BYTES;
    const float d = rm_half_at(block);
    *scales = same_scales(d, -16 * d);
    return either(nibbles(block + 6), fifth_bits(block + 2));
  }
  if (format == Q5_1) {
    const uint8_t *block = row + p * Q5_1_BYTES;
    *scales = same_scales(rm_half_at(block), rm_half_at(block + 2));
    return either(nibbles(block + 8), fifth_bits(block + 4));
  }
  if (format == Q8_0) {
    const uint8_t *block = row + p * Q8_0_BYTES;
    *scales = same_scales(rm_half_at(block), 0);
    return signed_bytes(block + 2);
  }
  const int part = (int)(p % PARTS);
  if (format == Q4_K || format == Q5_K) {
    const uint8_t *block = row + p / PARTS * (format == Q4_K ? Q4_K_BYTES : Q5_K_BYTES);
    int scale, min;
    rm_scale_and_min(block + 4, part, &scale, &min);
    *scales = same_scales(rm_half_at(block) * (float)scale, -rm_half_at(block + 2) * (float)min);
    const uint8_t *quants = block + (format == Q4_K ? 16 : 48) + part / 2 * PART;
    const part_quants q = bits_of(quants, part % 2 * 4, 15);
    return format == Q4_K ? q : either(q, shifted_left_4(bits_of(block + 16, part, 1)));
  }
  const uint8_t *block = row + p / PARTS * Q6_K_BYTES;
  const int half = part / 4, run = part % 4;
  const float d = rm_half_at(block + 208);
  for (int i = 0; i < 2; i++) {
    scales->factor[i] = d * (float)(int8_t)block[192 + part * 2 + i];
    scales->shift[i] = -32 * scales->factor[i];
  }
  const part_quants low = bits_of(block + half * 64 + run % 2 * PART, run / 2 * 4, 15);
  return either(low, shifted_left_4(bits_of(block + 128 + half * PART, run * 2, 3)));
}

/* ---- sums ------------------------------------------------------------------------------------ */

#if defined(__AVX2__)
/* Sums of four adjacent products each; numbers are from 0 to 127 unless `is_signed`. */
static RM_ALWAYS_INLINE __m256 products(__m256i w, const int8_t *x, const bool is_signed) {
  __m256i y = _mm256_loadu_si256((const __m256i *)x);
  if (is_signed) {
    y = _mm256_sign_epi8(y, w);
    w = _mm256_abs_epi8(w);
  }
  const __m256i pairs = _mm256_maddubs_epi16(w, y);
  return _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#else
static RM_ALWAYS_INLINE void half_products(const part_quants *w, const int8_t *x, int32_t *to) {
  for (int half = 0; half < 2; half++) {
    int32_t sum = 0;
    for (int i = half * HALF; i < (half + 1) * HALF; i++) sum += w->at[i] * x[i];
    to[half] = sum;
  }
}
#endif

static RM_ALWAYS_INLINE void dot_rows(const int format, const int rows, const quantized_context *ctx,
                                      ptrdiff_t row, const uint8_t *weight, float *sums) {
  const bool has_halves = format == Q6_K;
  const bool has_shift = format != Q8_0 && format != IQ4_NL;
  const ptrdiff_t depth = ctx->depth, parts = ctx->parts;
  const int8_t *x = ctx->rounded + row * depth;
  const float *scale = ctx->scales + row * parts, *x_sums = ctx->sums + row * parts * 2;
  float shifted[ROW_BLOCK] = {0};
#if defined(__AVX2__)
  __m256 all[ROW_BLOCK];
  for (int r = 0; r < rows; r++) all[r] = _mm256_setzero_ps();
#else
  float all[ROW_BLOCK] = {0};
#endif
  for (ptrdiff_t p = 0; p < parts; p++) {
    part_scales own;
    const part_quants w = read_part(format, weight, p, &own);
    for (int r = 0; r < rows; r++) {
      const float d = scale[r * parts + p], *s = x_sums + (r * parts + p) * 2;
#if defined(__AVX2__)
      const __m256 made = products(w, x + r * depth + p * PART, !has_shift);
      __m256 by = _mm256_set1_ps(own.factor[0] * d);
      if (has_halves) by = _mm256_insertf128_ps(by, _mm_set1_ps(own.factor[1] * d), 1);
      all[r] = _mm256_fmadd_ps(made, by, all[r]);
#else
      int32_t made[2];
      half_products(&w, x + r * depth + p * PART, made);
      all[r] += has_halves ? own.factor[0] * d * (float)made[0] + own.factor[1] * d * (float)made[1]
                           : own.factor[0] * d * (float)(made[0] + made[1]);
#endif
      if (has_halves) shifted[r] += own.shift[0] * s[0] + own.shift[1] * s[1];
      else if (has_shift) shifted[r] += own.shift[0] * (s[0] + s[1]);
    }
  }
  for (int r = 0; r < rows; r++) {
#if defined(__AVX2__)
    float lanes[8];
    _mm256_storeu_ps(lanes, all[r]);
    float sum = 0;
    for (int i = 0; i < 8; i++) sum += lanes[i];
    sums[r] = sum + shifted[r];
#else
    sums[r] = all[r] + shifted[r];
#endif
  }
}

#define DOT(format) \
  static void dot_1_##format(const quantized_context *ctx, ptrdiff_t row, const uint8_t *weight, \
                             float *sums) { \
    dot_rows(format, 1, ctx, row, weight, sums); \
  } \
  static void dot_4_##format(const quantized_context *ctx, ptrdiff_t row, const uint8_t *weight, \
                             float *sums) { \
    dot_rows(format, ROW_BLOCK, ctx, row, weight, sums); \
  }
DOT(Q4_0)
DOT(Q4_1)
DOT(Q5_0)
DOT(Q5_1)
DOT(Q8_0)
DOT(Q4_K)
DOT(Q5_K)
DOT(Q6_K)
DOT(IQ4_NL)

/* The functions of a format; false if there is none. */
static bool find_dots(int format, dot_function **to) {
#define CASE(format) \
  case format: \
    to[0] = dot_1_##format, to[1] = dot_4_##format; \
    return true;
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
    default: return false;
  }
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Completes sums of a row, from `column` on, and writes them to out. */
static void finish(const quantized_context *ctx, ptrdiff_t row, ptrdiff_t column, ptrdiff_t count,
                   float *sums) {
  if (ctx->bias != NULL) {
    for (ptrdiff_t j = 0; j < count; j++) sums[j] += ctx->bias[column + j];
  }
  if (ctx->activation != NULL) {
    run_function(ctx->activation, COLUMN_BLOCK, (char *)sums, (const char *)sums, NULL, NULL);
  }
  if (ctx->add != NULL) {
    const float *add = ctx->add + row * ctx->add_stride + column;
    for (ptrdiff_t j = 0; j < count; j++) sums[j] += add[j];
  }
  memcpy(ctx->out + row * ctx->out_stride + column, sums, (size_t)count * sizeof *sums);
}

static void multiply_task(void *context, ptrdiff_t index) {
  const quantized_context *ctx = context;
  const ptrdiff_t begin = index * ctx->columns_per_task;
  const ptrdiff_t end = rm_min(ctx->columns, begin + ctx->columns_per_task);
  for (ptrdiff_t column = begin; column < end; column += COLUMN_BLOCK) {
    const ptrdiff_t count = rm_min(COLUMN_BLOCK, end - column);
    const uint8_t *weight = ctx->weight + column * ctx->row_bytes;
    for (ptrdiff_t row = 0; row < ctx->rows;) {
      const int block = ctx->rows - row >= ROW_BLOCK ? ROW_BLOCK : 1;
      float sums[ROW_BLOCK][COLUMN_BLOCK] = {{0}};
      for (ptrdiff_t j = 0; j < count; j++) {
        float made[ROW_BLOCK];
        ctx->dot[block > 1](ctx, row, weight + j * ctx->row_bytes, made);
        for (int r = 0; r < block; r++) sums[r][j] = made[r];
      }
      for (int r = 0; r < block; r++) finish(ctx, row + r, column, count, sums[r]);
      row += block;
    }
  }
}

int32_t RM_FOR_ISA(linear_quantized)(const rm_call *call) {
  const double *numbers = call->numbers;
  if (call->dtypes[0] != RM_FLOAT32 || call->dtypes[1] != RM_FLOAT32 ||
      call->dtypes[2] != RM_UINT8) {
    return RM_UNSUPPORTED;
  }
  const int activation = (int)numbers[ACTIVATION];
  quantized_context ctx = {.rows = (ptrdiff_t)numbers[ROWS],
                           .columns = (ptrdiff_t)numbers[COLUMNS],
                           .depth = (ptrdiff_t)numbers[DEPTH],
                           .x_stride = (ptrdiff_t)numbers[X_STRIDE],
                           .out_stride = (ptrdiff_t)numbers[OUT_STRIDE],
                           .add_stride = (ptrdiff_t)numbers[ADD_STRIDE]};
  const quant_format *format = rm_quant_format((int)numbers[FORMAT]);
  if (format == NULL || !find_dots(format->number, ctx.dot)) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no block format %d", (int)numbers[FORMAT]);
  }
  if (!has_activation(activation)) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no activation %d", activation);
  }
  if (ctx.rows < 1 || ctx.columns < 1) return RM_OK;
  if (ctx.depth < 1) return RM_UNSUPPORTED;
  for (int i = 0; i < 3; i++) {
    if (call->buffers[i] == NULL) {
      return rm_fail(RM_BAD_ARGUMENT, "a quantized product without operand %d", i);
    }
  }
  if (!rm_optional_f32(call, numbers[BIAS_BUFFER], numbers[BIAS_OFFSET], &ctx.bias) ||
      !rm_optional_f32(call, numbers[ADD_BUFFER], numbers[ADD_OFFSET], &ctx.add)) {
    return rm_fail(RM_BAD_ARGUMENT, "a quantized product without its bias or residual");
  }
  map_op function;
  if (activation != RM_ACTIVATION_NONE) {
    const int opcode = activation_op(activation);
    const int32_t status = RM_FOR_ISA(find_map_op)(&function, opcode, RM_FLOAT32, NULL);
    if (status != RM_OK) return status;
    ctx.activation = &function;
  }
  ctx.parts = ctx.depth / PART;
  ctx.row_bytes = ctx.depth / format->size * format->bytes;
  ctx.weight = (const uint8_t *)call->buffers[2] + (ptrdiff_t)numbers[WEIGHT_OFFSET];
  ctx.x = (const float *)call->buffers[1] + (ptrdiff_t)numbers[X_OFFSET];
  ctx.out = (float *)call->buffers[0] + (ptrdiff_t)numbers[OUT_OFFSET];
  const ptrdiff_t floats = ctx.rows * ctx.parts * 3;
  gemm_workspace *workspace = RM_FOR_ISA(workspace_alloc)(
      (size_t)floats * sizeof(float) + (size_t)(ctx.rows * ctx.depth), 0);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a matrix product");
  ctx.scales = (float *)workspace->data;
  ctx.sums = ctx.scales + ctx.rows * ctx.parts;
  ctx.rounded = (int8_t *)(ctx.scales + floats);
  rm_parallel(ctx.rows, (double)ctx.rows * (double)ctx.depth, round_task, &ctx);
  const double column_ns = (double)ctx.row_bytes / BYTES_PER_NS * (1 + (double)ctx.rows / 2);
  const double per_task = 1 + TASK_NS / (COLUMN_BLOCK * column_ns + 1);
  ctx.columns_per_task = COLUMN_BLOCK * (ptrdiff_t)rm_min((ptrdiff_t)per_task, 1 << 16);
  rm_parallel(rm_ceil_div(ctx.columns, ctx.columns_per_task), column_ns * (double)ctx.columns,
              multiply_task, &ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
