/*
 * Random numbers by Philox4x32-10: random words, and the distributions that are computed from them.
 *
 * Word w of a key is lane w % 4 of the block with counter w / 4, so that any part can be generated
 * anywhere. This file does not know seeds, derived keys or tensors.
 */
#include <string.h>
#include "internal.h"
#include "float16.h"

/* One counter per lane. */
enum { LANES = 8, GROUP_WORDS = 4 * LANES };
typedef uint64_t u64x8 __attribute__((vector_size(8 * LANES)));
typedef u64x8 rm_philox_word, rm_philox_wide;
#include "philox.h"

/* The words of this many elements stay in the L1 cache. */
enum { BLOCK = 1024 };

/* Elements per task. They take 10 to 100 microseconds, several times a wake-up. */
enum { TASK_ELEMENTS = 32 * BLOCK };

typedef struct {
  uint32_t key0, key1;
  uint64_t low, range;
  int dtype, kind;
  ptrdiff_t length;
  char *out;
} random_context;

/* Generates groups of words, starting with those of `block`. */
static void generate_words(const random_context *ctx, uint64_t block, ptrdiff_t groups,
                           uint32_t *out) {
  const u64x8 low_half = (u64x8){} + 0xffffffff;
  u64x8 counter = (u64x8){0, 1, 2, 3, 4, 5, 6, 7} + block;
  for (ptrdiff_t g = 0; g < groups; g++, counter += LANES) {
    u64x8 c[4] = {counter, counter >> 32};
    rm_philox(c, ctx->key0, ctx->key1);
    const u64x8 a = (c[0] & low_half) | c[1] << 32, b = (c[2] & low_half) | c[3] << 32;
    const u64x8 first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    const u64x8 second = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    memcpy(out + g * GROUP_WORDS, &first, sizeof first);
    memcpy(out + g * GROUP_WORDS + GROUP_WORDS / 2, &second, sizeof second);
  }
}

static inline uint64_t word64(const uint32_t *words, ptrdiff_t i) {
  return words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
}

/* n is even: the last number of an odd count is generated as part of a pair. */
static void normals_f32(const uint32_t *words, ptrdiff_t n, float *out) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n / 2; i++) {
    double x, y;
    const double u = (int32_t)((words[2 * i] >> 8) + 1), v = (int32_t)(words[2 * i + 1] >> 8);
    rm_normal_pair_f64(u * 0x1p-24, v * 0x1p-24, &x, &y);
    out[2 * i] = (float)x;
    out[2 * i + 1] = (float)y;
  }
}

static void normals_f64(const uint32_t *words, ptrdiff_t n, double *out) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n / 2; i++) {
    double x, y;
    const double u = (double)(int64_t)((word64(words, 2 * i) >> 11) + 1);
    const double v = (double)(int64_t)(word64(words, 2 * i + 1) >> 11);
    rm_normal_pair_f64(u * 0x1p-53, v * 0x1p-53, &x, &y);
    out[2 * i] = x;
    out[2 * i + 1] = y;
  }
}

/* Uses only as many upper bits as a uniform number of the dtype has, so that none rounds up to
 * 1. */
static void uniforms(int dtype, const uint32_t *words, ptrdiff_t n, char *out) {
  switch (dtype) {
    case RM_FLOAT16:
      RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
        ((uint16_t *)out)[i] = rm_f32_to_f16((float)(int32_t)(words[i] >> 21) * 0x1p-11f);
      }
      break;
    case RM_BFLOAT16:
      RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
        ((uint16_t *)out)[i] = rm_f32_to_bf16((float)(int32_t)(words[i] >> 24) * 0x1p-8f);
      }
      break;
    case RM_FLOAT32:
      RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
        ((float *)out)[i] = (float)(int32_t)(words[i] >> 8) * 0x1p-24f;
      }
      break;
    default:
      RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
        ((double *)out)[i] = (double)(int64_t)(word64(words, i) >> 11) * 0x1p-53;
      }
  }
}

static void normals(int dtype, const uint32_t *words, ptrdiff_t n, char *out) {
  const ptrdiff_t even = n + (n & 1);
  if (dtype == RM_FLOAT64) {
    double doubles[BLOCK];
    normals_f64(words, even, doubles);
    memcpy(out, doubles, (size_t)n * 8);
    return;
  }
  float floats[BLOCK];
  normals_f32(words, even, floats);
  if (dtype == RM_FLOAT32) {
    memcpy(out, floats, (size_t)n * 4);
  } else if (dtype == RM_FLOAT16) {
    for (ptrdiff_t i = 0; i < n; i++) ((uint16_t *)out)[i] = rm_f32_to_f16(floats[i]);
  } else {
    for (ptrdiff_t i = 0; i < n; i++) ((uint16_t *)out)[i] = rm_f32_to_bf16(floats[i]);
  }
}

/* low + the upper half of bits * range. bits are one word for ranges up to 2^16, else two. A range
 * of 0 stands for 2^64. */
static void integers(const random_context *ctx, const uint32_t *words, ptrdiff_t n, char *out) {
  uint64_t values[BLOCK];
  const uint64_t low = ctx->low, range = ctx->range;
  if (range == 0) {
    for (ptrdiff_t i = 0; i < n; i++) values[i] = low + word64(words, i);
  } else if (range <= 0x10000) {
    for (ptrdiff_t i = 0; i < n; i++) values[i] = low + (words[i] * range >> 32);
  } else if (range <= UINT32_MAX) {
    for (ptrdiff_t i = 0; i < n; i++) {
      /* The upper half of the lower product cannot carry the sum past 64 bits. */
      values[i] = low + ((words[2 * i + 1] * range + (words[2 * i] * range >> 32)) >> 32);
    }
  } else {
    for (ptrdiff_t i = 0; i < n; i++) {
      values[i] = low + (uint64_t)((unsigned __int128)word64(words, i) * range >> 64);
    }
  }
  switch (rm_itemsize(ctx->dtype)) {
    case 1:
      for (ptrdiff_t i = 0; i < n; i++) ((uint8_t *)out)[i] = (uint8_t)values[i];
      break;
    case 2:
      for (ptrdiff_t i = 0; i < n; i++) ((uint16_t *)out)[i] = (uint16_t)values[i];
      break;
    case 4:
      for (ptrdiff_t i = 0; i < n; i++) ((uint32_t *)out)[i] = (uint32_t)values[i];
      break;
    default: memcpy(out, values, (size_t)n * 8);
  }
}

static void fill_task(void *context, ptrdiff_t index) {
  const random_context *ctx = context;
  /* 64-bit elements and integers of large ranges take two words each. */
  const bool is_two_words = ctx->kind == RM_RANDOM_INTEGERS
                                ? ctx->range == 0 || ctx->range > 0x10000
                                : ctx->dtype == RM_FLOAT64;
  uint32_t words[2 * BLOCK];
  const ptrdiff_t end = rm_min((index + 1) * TASK_ELEMENTS, ctx->length);
  for (ptrdiff_t at = index * TASK_ELEMENTS; at < end; at += BLOCK) {
    const ptrdiff_t n = rm_min(end - at, BLOCK);
    /* Whole groups: an odd count of normals has its last pair. */
    generate_words(ctx, (uint64_t)at / (is_two_words ? 2 : 4),
                   rm_ceil_div(n << is_two_words, GROUP_WORDS), words);
    char *out = ctx->out + at * rm_itemsize(ctx->dtype);
    switch (ctx->kind) {
      case RM_RANDOM_BITS: memcpy(out, words, (size_t)n * 4); break;
      case RM_RANDOM_UNIFORM: uniforms(ctx->dtype, words, n, out); break;
      case RM_RANDOM_NORMAL: normals(ctx->dtype, words, n, out); break;
      default: integers(ctx, words, n, out);
    }
  }
}

static uint64_t word_pair(const double *words) {
  return (uint32_t)words[0] | (uint64_t)(uint32_t)words[1] << 32;
}

int32_t RM_FOR_ISA(random)(const rm_call *call) {
  const double *attributes = rm_attributes(call);
  const int kind = (int)attributes[0], dtype = call->dtypes[0];
  bool known;
  switch (kind) {
    case RM_RANDOM_BITS: known = dtype == RM_UINT32; break;
    case RM_RANDOM_INTEGERS: known = dtype >= RM_BOOL && dtype <= RM_UINT64; break;
    case RM_RANDOM_UNIFORM:
    case RM_RANDOM_NORMAL: known = rm_is_float(dtype); break;
    default: known = false;
  }
  if (!known) return rm_fail(RM_BAD_ARGUMENT, "random: no kind %d of dtype %d", kind, dtype);
  random_context ctx = {
      .key0 = (uint32_t)attributes[1],
      .key1 = (uint32_t)attributes[2],
      .low = word_pair(attributes + 3),
      .range = word_pair(attributes + 5),
      .dtype = dtype,
      .kind = kind,
      .length = (ptrdiff_t)attributes[7],
      .out = call->buffers[0],
  };
  if (ctx.out == NULL) return RM_OK;
  rm_parallel(rm_ceil_div(ctx.length, TASK_ELEMENTS), (double)ctx.length, fill_task, &ctx);
  return RM_OK;
}
