/*
 * The numbers of quantized blocks as float32, in the arithmetic and the order of
 * src/ops/quantized/formats.ts, so that results are the same to the bit.
 */
#include "quant_formats.h"

enum {
  /* The elements that a task decodes. */
  TASK_ELEMENTS = 1 << 16
};

/* The estimated nanoseconds per element. */
static const double ELEMENT_NS = 0.5;

/* The numbers of a call. */
enum { FORMAT, BLOCKS, OUT_OFFSET, BYTE_OFFSET };

/* Decodes a block. */
typedef void decode_function(const uint8_t *from, float *to);

static void decode_q4_0(const uint8_t *from, float *to) {
  const float d = rm_half_at(from);
  for (int i = 0; i < PART / 2; i++) {
    to[i] = d * (float)((from[2 + i] & 15) - 8);
    to[i + PART / 2] = d * (float)((from[2 + i] >> 4) - 8);
  }
}

static void decode_q4_1(const uint8_t *from, float *to) {
  const float d = rm_half_at(from), m = rm_half_at(from + 2);
  for (int i = 0; i < PART / 2; i++) {
    to[i] = d * (float)(from[4 + i] & 15) + m;
    to[i + PART / 2] = d * (float)(from[4 + i] >> 4) + m;
  }
}

/* The fifth bit of element i, as 16. */
static int fifth(const uint8_t *bits, int i) { return (bits[i / 8] >> i % 8 & 1) << 4; }

static void decode_q5_0(const uint8_t *from, float *to) {
  const float d = rm_half_at(from);
  for (int i = 0; i < PART / 2; i++) {
    const int low = (from[6 + i] & 15) | fifth(from + 2, i);
    const int high = from[6 + i] >> 4 | fifth(from + 2, i + PART / 2);
    to[i] = d * (float)(low - 16);
    to[i + PART / 2] = d * (float)(high - 16);
  }
}

static void decode_q5_1(const uint8_t *from, float *to) {
  const float d = rm_half_at(from), m = rm_half_at(from + 2);
  for (int i = 0; i < PART / 2; i++) {
    to[i] = d * (float)((from[8 + i] & 15) | fifth(from + 4, i)) + m;
    to[i + PART / 2] = d * (float)(from[8 + i] >> 4 | fifth(from + 4, i + PART / 2)) + m;
  }
}

static void decode_q8_0(const uint8_t *from, float *to) {
  const float d = rm_half_at(from);
  for (int i = 0; i < PART; i++) to[i] = d * (float)(int8_t)from[2 + i];
}

static void decode_iq4_nl(const uint8_t *from, float *to) {
  const float d = rm_half_at(from);
  for (int i = 0; i < PART / 2; i++) {
    to[i] = d * (float)rm_iq4_values[from[2 + i] & 15];
    to[i + PART / 2] = d * (float)rm_iq4_values[from[2 + i] >> 4];
  }
}

/* `high` has the fifth bits, or is null. */
static void decode_parts(const uint8_t *from, const uint8_t *high, const uint8_t *quants, float *to) {
  const float d = rm_half_at(from), d_min = rm_half_at(from + 2);
  for (int part = 0; part < PARTS; part++, to += PART) {
    int scale, min;
    rm_scale_and_min(from + 4, part, &scale, &min);
    const float factor = d * (float)scale, shift = d_min * (float)min;
    const uint8_t *both = quants + part / 2 * PART;
    for (int i = 0; i < PART; i++) {
      int q = both[i] >> part % 2 * 4 & 15;
      if (high != NULL) q |= (high[i] >> part & 1) << 4;
      to[i] = factor * (float)q - shift;
    }
  }
}

static void decode_q4_k(const uint8_t *from, float *to) { decode_parts(from, NULL, from + 16, to); }

static void decode_q5_k(const uint8_t *from, float *to) {
  decode_parts(from, from + 16, from + 48, to);
}

static void decode_q6_k(const uint8_t *from, float *to) {
  const uint8_t *low = from, *high = from + 128;
  const int8_t *scales = (const int8_t *)(from + 192);
  const float d = rm_half_at(from + 208);
  for (int half = 0; half < 2; half++, low += 64, high += 32) {
    for (int run = 0; run < 4; run++, to += PART) {
      for (int i = 0; i < PART; i++) {
        const int four = low[run % 2 * PART + i] >> run / 2 * 4 & 15;
        const int two = high[i] >> run * 2 & 3;
        const float factor = d * (float)scales[half * 8 + run * 2 + i / 16];
        to[i] = factor * (float)((four | two << 4) - 32);
      }
    }
  }
}

static decode_function *find_decode(int format) {
  switch (format) {
    case Q4_0: return decode_q4_0;
    case Q4_1: return decode_q4_1;
    case Q5_0: return decode_q5_0;
    case Q5_1: return decode_q5_1;
    case Q8_0: return decode_q8_0;
    case Q4_K: return decode_q4_k;
    case Q5_K: return decode_q5_k;
    case Q6_K: return decode_q6_k;
    case IQ4_NL: return decode_iq4_nl;
    default: return NULL;
  }
}

typedef struct {
  const quant_format *format;
  decode_function *decode;
  const uint8_t *from;
  float *to;
  ptrdiff_t blocks, blocks_per_task;
} dequantize_context;

static void dequantize_task(void *context, ptrdiff_t index) {
  const dequantize_context *ctx = context;
  const quant_format *format = ctx->format;
  const ptrdiff_t begin = index * ctx->blocks_per_task;
  const ptrdiff_t end = rm_min(ctx->blocks, begin + ctx->blocks_per_task);
  for (ptrdiff_t i = begin; i < end; i++) {
    ctx->decode(ctx->from + i * format->bytes, ctx->to + i * format->size);
  }
}

int32_t RM_FOR_ISA(dequantize)(const rm_call *call) {
  const double *numbers = call->numbers;
  if (call->dtypes[0] != RM_FLOAT32 || call->dtypes[1] != RM_UINT8) return RM_UNSUPPORTED;
  dequantize_context ctx = {.blocks = (ptrdiff_t)numbers[BLOCKS]};
  ctx.format = rm_quant_format((int)numbers[FORMAT]);
  ctx.decode = find_decode((int)numbers[FORMAT]);
  if (ctx.format == NULL || ctx.decode == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no block format %d", (int)numbers[FORMAT]);
  }
  if (ctx.blocks < 1) return RM_OK;
  if (call->buffers[0] == NULL || call->buffers[1] == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "dequantize without an operand");
  }
  ctx.to = (float *)call->buffers[0] + (ptrdiff_t)numbers[OUT_OFFSET];
  ctx.from = (const uint8_t *)call->buffers[1] + (ptrdiff_t)numbers[BYTE_OFFSET];
  ctx.blocks_per_task = TASK_ELEMENTS / ctx.format->size;
  rm_parallel(rm_ceil_div(ctx.blocks, ctx.blocks_per_task),
              (double)ctx.blocks * ctx.format->size * ELEMENT_NS, dequantize_task, &ctx);
  return RM_OK;
}
