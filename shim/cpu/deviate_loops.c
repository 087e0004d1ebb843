/*
 * Random words, normal numbers and exponentials for deviates.c.
 */
#include "deviate_loops.h"
#include "internal.h"

/* One counter per lane of a vector. */
enum { LANES = 8 };
typedef uint64_t u64x8 __attribute__((vector_size(8 * LANES)));
typedef u64x8 rm_philox_word, rm_philox_wide;
#include "philox.h"

static void words(const uint32_t key[2], const uint32_t upper[2], uint64_t start,
                  const int32_t *pending, ptrdiff_t n, uint32_t *out) {
  const u64x8 zero = {};
  for (ptrdiff_t at = 0; at < n; at += LANES) {
    u64x8 counter;
    for (int k = 0; k < LANES; k++) counter[k] = start + (uint64_t)pending[rm_min(at + k, n - 1)];
    u64x8 block[4] = {counter, counter >> 32, zero + upper[0], zero + upper[1]};
    rm_philox(block, key[0], key[1]);
    const int count = (int)rm_min(LANES, n - at);
    for (int k = 0; k < count; k++) {
      for (int w = 0; w < 4; w++) out[4 * (at + k) + w] = (uint32_t)block[w][k];
    }
  }
}

static void normals(ptrdiff_t n, const uint32_t *words, double *out) {
  RM_ANY_ORDER for (ptrdiff_t j = 0; j < n; j++) {
    double second;
    const double u = (double)words[4 * j] + 1, v = (double)words[4 * j + 1];
    rm_normal_pair_f64(u * 0x1p-32, v * 0x1p-32, &out[j], &second);
  }
}

static void exps(ptrdiff_t n, const double *x, double max, double *out) {
  RM_ANY_ORDER for (ptrdiff_t k = 0; k < n; k++) out[k] = rm_exp_f64(x[k] - max);
}

const rm_deviate_loops RM_FOR_ISA(deviate_loops) = {words, normals, exps};
