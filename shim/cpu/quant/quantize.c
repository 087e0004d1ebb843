/*
 * Quantized blocks of float32, in the arithmetic of src/ops/quantized/encode.ts, so that results are the same
 * to the bit.
 */
#include <math.h>
#include "quant_formats.h"

enum {
  /* The elements that a task encodes. */
  TASK_ELEMENTS = 1 << 14
};

/* The estimated nanoseconds per element. */
static const double ELEMENT_NS = 0.5;

/* The numbers of a call. */
enum { FORMAT, BLOCKS, BYTE_OFFSET, FROM_OFFSET };

/* Encodes a block. */
typedef void encode_function(const float *from, uint8_t *to);

static void put_half(float value, uint8_t *to) {
  const uint16_t bits = rm_f32_to_f16(value);
  to[0] = (uint8_t)bits;
  to[1] = (uint8_t)(bits >> 8);
}

/* The largest magnitude of a block; NaN for numbers that are not finite. */
static float magnitude(const float *from) {
  /* Bits of numbers without a sign have the order of the numbers, and NaN after infinity. */
  uint32_t most = 0;
  for (int i = 0; i < PART; i++) {
    const uint32_t bits = rm_bits_f32(from[i]) & 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  return rm_from_bits_f32(most >= 0x7f800000u ? 0x7fc00000u : most);
}

/* 1 / d; 0 where that has no finite value, of a block whose numbers are all but 0. */
static float inverse(float d) {
  const float made = 1 / d;
  return fabsf(made) < INFINITY ? made : 0;
}

static void encode_q8_0(const float *from, uint8_t *to) {
  const float d = magnitude(from) / 127, id = inverse(d);
  put_half(d, to);
  if (id == 0) {
    memset(to + 2, 0, PART);
    return;
  }
  for (int i = 0; i < PART; i++) {
    /* Halves are rounded away from zero. */
    const float q = from[i] * id, a = fabsf(q);
    const int32_t whole = (int32_t)a, n = whole + (a - (float)whole >= 0.5f);
    to[2 + i] = (uint8_t)(q < 0 ? -n : n);
  }
}

static void encode_q4_0(const float *from, uint8_t *to) {
  float most = magnitude(from);
  for (int i = 0; i < PART; i++) {
    if (fabsf(from[i]) != most) continue;
    most = from[i];
    break;
  }
  const float d = most / -8, id = inverse(d);
  put_half(d, to);
  if (id == 0) {
    memset(to + 2, 0x88, PART / 2);
    return;
  }
  int32_t q[PART];
  for (int i = 0; i < PART; i++) {
    const int32_t n = (int32_t)(from[i] * id + 8.5f);
    q[i] = n < 15 ? n : 15;
  }
  for (int i = 0; i < PART / 2; i++) to[2 + i] = (uint8_t)(q[i] | q[i + PART / 2] << 4);
}

static encode_function *find_encode(int format) {
  switch (format) {
    case Q4_0: return encode_q4_0;
    case Q8_0: return encode_q8_0;
    default: return NULL;
  }
}

typedef struct {
  const quant_format *format;
  encode_function *encode;
  const float *from;
  uint8_t *to;
  ptrdiff_t blocks, blocks_per_task;
} quantize_context;

static void quantize_task(void *context, ptrdiff_t index) {
  const quantize_context *ctx = context;
  const quant_format *format = ctx->format;
  const ptrdiff_t begin = index * ctx->blocks_per_task;
  const ptrdiff_t end = rm_min(ctx->blocks, begin + ctx->blocks_per_task);
  for (ptrdiff_t i = begin; i < end; i++) {
    ctx->encode(ctx->from + i * format->size, ctx->to + i * format->bytes);
  }
}

int32_t RM_FOR_ISA(quantize)(const rm_call *call) {
  const double *numbers = call->numbers;
  if (call->dtypes[0] != RM_UINT8 || call->dtypes[1] != RM_FLOAT32) return RM_UNSUPPORTED;
  quantize_context ctx = {.blocks = (ptrdiff_t)numbers[BLOCKS]};
  ctx.format = rm_quant_format((int)numbers[FORMAT]);
  ctx.encode = find_encode((int)numbers[FORMAT]);
  if (ctx.format == NULL || ctx.encode == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "no numbers are quantized to block format %d",
                   (int)numbers[FORMAT]);
  }
  if (ctx.blocks < 1) return RM_OK;
  if (call->buffers[0] == NULL || call->buffers[1] == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "quantize without an operand");
  }
  ctx.to = (uint8_t *)call->buffers[0] + (ptrdiff_t)numbers[BYTE_OFFSET];
  ctx.from = (const float *)call->buffers[1] + (ptrdiff_t)numbers[FROM_OFFSET];
  ctx.blocks_per_task = TASK_ELEMENTS / ctx.format->size;
  rm_parallel(rm_ceil_div(ctx.blocks, ctx.blocks_per_task),
              (double)ctx.blocks * ctx.format->size * ELEMENT_NS, quantize_task, &ctx);
  return RM_OK;
}
