/*
 * Random numbers by Philox4x32-10: words, and what each distribution makes of them.
 *
 * Word w of a key is lane w % 4 of the block whose counter is w / 4, so that any part can be made
 * anywhere. Knows nothing of seeds, of keys made from keys, or of tensors.
 */
#include <string.h>
#include "internal.h"
#include "half.h"

/* One counter to a lane. */
enum { LANES = 8, GROUP = 4 * LANES };
typedef uint64_t wide __attribute__((vector_size(8 * LANES)));
typedef wide rm_philox_word, rm_philox_wide;
#include "philox.h"

/* The words of that many elements stay in the first-level cache. */
enum { CHUNK = 1024 };

/* Elements to a task. Making them takes from 10 to 100 microseconds, several times a wake-up. */
enum { TASK = 32 * CHUNK };

typedef struct {
  uint32_t key0, key1;
  uint64_t low, range;
  int dtype, kind;
  ptrdiff_t length;
  char *out;
} job;

/* Writes groups of words, from those of the given block on. */
static void make_words(const job *j, uint64_t block, ptrdiff_t groups, uint32_t *out) {
  const wide low_half = (wide){} + 0xffffffff;
  wide counter = (wide){0, 1, 2, 3, 4, 5, 6, 7} + block;
  for (ptrdiff_t g = 0; g < groups; g++, counter += LANES) {
    wide c[4] = {counter, counter >> 32};
    rm_philox(c, j->key0, j->key1);
    const wide a = (c[0] & low_half) | c[1] << 32, b = (c[2] & low_half) | c[3] << 32;
    const wide first = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    const wide second = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    memcpy(out + g * GROUP, &first, sizeof first);
    memcpy(out + g * GROUP + GROUP / 2, &second, sizeof second);
  }
}

static inline uint64_t pair_of(const uint32_t *words, ptrdiff_t i) {
  return words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
}

/* n is even: the last number of an odd count is made with its neighbour. */
static void normals32(const uint32_t *words, ptrdiff_t n, float *out) {
  RM_ANY_ORDER
  for (ptrdiff_t i = 0; i < n / 2; i++) {
    double x, y;
    const double u = (int32_t)((words[2 * i] >> 8) + 1), v = (int32_t)(words[2 * i + 1] >> 8);
    rm_normal_pair_f64(u * 0x1p-24, v * 0x1p-24, &x, &y);
    out[2 * i] = (float)x;
    out[2 * i + 1] = (float)y;
  }
}

static void normals64(const uint32_t *words, ptrdiff_t n, double *out) {
  RM_ANY_ORDER
  for (ptrdiff_t i = 0; i < n / 2; i++) {
    double x, y;
    const double u = (double)(int64_t)((pair_of(words, 2 * i) >> 11) + 1);
    const double v = (double)(int64_t)(pair_of(words, 2 * i + 1) >> 11);
    rm_normal_pair_f64(u * 0x1p-53, v * 0x1p-53, &x, &y);
    out[2 * i] = x;
    out[2 * i + 1] = y;
  }
}

/* The upper bits that a uniform number of the dtype has, so that none rounds up to 1. */
static void uniforms(int dtype, const uint32_t *words, ptrdiff_t n, char *out) {
  switch (dtype) {
    case RM_FLOAT16:
      RM_ANY_ORDER
      for (ptrdiff_t i = 0; i < n; i++) {
        ((uint16_t *)out)[i] = rm_to_half((float)(int32_t)(words[i] >> 21) * 0x1p-11f);
      }
      break;
    case RM_BFLOAT16:
      RM_ANY_ORDER
      for (ptrdiff_t i = 0; i < n; i++) {
        ((uint16_t *)out)[i] = rm_to_brain((float)(int32_t)(words[i] >> 24) * 0x1p-8f);
      }
      break;
    case RM_FLOAT32:
      RM_ANY_ORDER
      for (ptrdiff_t i = 0; i < n; i++) {
        ((float *)out)[i] = (float)(int32_t)(words[i] >> 8) * 0x1p-24f;
      }
      break;
    default:
      RM_ANY_ORDER
      for (ptrdiff_t i = 0; i < n; i++) {
        ((double *)out)[i] = (double)(int64_t)(pair_of(words, i) >> 11) * 0x1p-53;
      }
  }
}

static void normals(int dtype, const uint32_t *words, ptrdiff_t n, char *out) {
  const ptrdiff_t even = n + (n & 1);
  if (dtype == RM_FLOAT64) {
    double doubles[CHUNK];
    normals64(words, even, doubles);
    memcpy(out, doubles, (size_t)n * 8);
    return;
  }
  float floats[CHUNK];
  normals32(words, even, floats);
  if (dtype == RM_FLOAT32) {
    memcpy(out, floats, (size_t)n * 4);
  } else if (dtype == RM_FLOAT16) {
    for (ptrdiff_t i = 0; i < n; i++) ((uint16_t *)out)[i] = rm_to_half(floats[i]);
  } else {
    for (ptrdiff_t i = 0; i < n; i++) ((uint16_t *)out)[i] = rm_to_brain(floats[i]);
  }
}

/* low + the upper half of bits * range, where bits are one word for ranges up to 2^16, else two; a
 * range of 0 stands for 2^64. */
static void integers(const job *j, const uint32_t *words, ptrdiff_t n, char *out) {
  uint64_t values[CHUNK];
  const uint64_t low = j->low, range = j->range;
  if (range == 0) {
    for (ptrdiff_t i = 0; i < n; i++) values[i] = low + pair_of(words, i);
  } else if (range <= 0x10000) {
    for (ptrdiff_t i = 0; i < n; i++) values[i] = low + (words[i] * range >> 32);
  } else if (range <= UINT32_MAX) {
    for (ptrdiff_t i = 0; i < n; i++) {
      /* The lower product's upper half cannot carry the sum past 64 bits. */
      values[i] = low + ((words[2 * i + 1] * range + (words[2 * i] * range >> 32)) >> 32);
    }
  } else {
    for (ptrdiff_t i = 0; i < n; i++) {
      values[i] = low + (uint64_t)((unsigned __int128)pair_of(words, i) * range >> 64);
    }
  }
  switch (rm_bytes(j->dtype)) {
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

static void fill_part(void *context, ptrdiff_t index) {
  const job *j = context;
  /* Elements of 64 bits, and integers of large ranges, take two words each. */
  const bool two = j->kind == RM_RANDOM_INTEGERS ? j->range == 0 || j->range > 0x10000
                                       : j->dtype == RM_FLOAT64;
  uint32_t words[2 * CHUNK];
  const ptrdiff_t end = rm_least((index + 1) * TASK, j->length);
  for (ptrdiff_t at = index * TASK; at < end; at += CHUNK) {
    const ptrdiff_t n = rm_least(end - at, CHUNK);
    /* Whole groups: an odd count of normals has its last pair. */
    make_words(j, (uint64_t)at / (two ? 2 : 4), rm_parts(n << two, GROUP), words);
    char *out = j->out + at * rm_bytes(j->dtype);
    switch (j->kind) {
      case RM_RANDOM_BITS: memcpy(out, words, (size_t)n * 4); break;
      case RM_RANDOM_UNIFORM: uniforms(j->dtype, words, n, out); break;
      case RM_RANDOM_NORMAL: normals(j->dtype, words, n, out); break;
      default: integers(j, words, n, out);
    }
  }
}

static uint64_t word_pair(const int32_t *words) {
  return (uint32_t)words[0] | (uint64_t)(uint32_t)words[1] << 32;
}

int32_t RM_AT(random)(int32_t dtype, int32_t kind, const int32_t *words, double length,
                      void *out) {
  const bool integer = dtype >= RM_BOOL && dtype <= RM_UINT64;
  const bool known = kind == RM_RANDOM_BITS       ? dtype == RM_UINT32
                     : kind == RM_RANDOM_INTEGERS ? integer
                                        : rm_is_float(dtype) && (kind == RM_RANDOM_UNIFORM || kind == RM_RANDOM_NORMAL);
  if (!known) {
    return rm_fail(RM_BAD_ARGUMENT, "random: no kind %d of dtype %d", (int)kind, (int)dtype);
  }
  job j = {(uint32_t)words[0], (uint32_t)words[1], word_pair(words + 2), word_pair(words + 4),
           dtype, kind, (ptrdiff_t)length, out};
  if (out == NULL) return RM_OK;
  rm_parallel(rm_parts(j.length, TASK), (double)j.length, fill_part, &j);
  return RM_OK;
}
