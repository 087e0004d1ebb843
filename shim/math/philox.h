/*
 * The basis of random numbers on the CPU (random.c) and on devices (cuda/kernels/random.h): the
 * rounds of Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011),
 * and pairs of normal numbers.
 *
 * The file that includes this one defines rm_philox_word and rm_philox_wide, the type of the
 * product of two words: 32 and 64 bits, which a device multiplies at once, or vectors of 64 bits.
 */
#ifndef ROWMAJOR_PHILOX_H
#define ROWMAJOR_PHILOX_H

#include "vecmath.h"

/* Counters are vectors on the CPU, so unrolled rounds would be a lot of code. */
#if !defined(RM_DEVICE)
#define RM_UNROLL
#endif

/* Replaces a counter, whose first words are c[0] and c[1], by the words of its block. In 64-bit
 * words the upper halves are undefined before and after. */
static inline void rm_philox(rm_philox_word *c, uint32_t k0, uint32_t k1) {
  rm_philox_word c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
  RM_UNROLL for (int round = 0; round < 10; round++) {
    const rm_philox_wide p0 = (rm_philox_wide)(c0 & 0xffffffffu) * 0xd2511f53u;
    const rm_philox_wide p1 = (rm_philox_wide)(c2 & 0xffffffffu) * 0xcd9e8d57u;
    c0 = (rm_philox_word)(p1 >> 32) ^ c1 ^ k0;
    c2 = (rm_philox_word)(p0 >> 32) ^ c3 ^ k1;
    c1 = (rm_philox_word)p1;
    c3 = (rm_philox_word)p0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  c[0] = c0;
  c[1] = c1;
  c[2] = c2;
  c[3] = c3;
}

/* Box-Muller for u in (0, 1] and v in [0, 1): sqrt(-2 ln u) * (cos 2 pi v, sin 2 pi v), in the same
 * steps as the js backend. Exact reduction by quarter turns leaves at most an eighth turn, for
 * which short polynomials suffice. */
static inline void rm_normal_pair_f64(double u, double v, double *x, double *y) {
  const double radius = __builtin_sqrt(-2 * rm_log_f64(u));
  const double quarter = __builtin_floor(4 * v + 0.5);
  const double g = v - quarter * 0.25, t = g * g;
  double s = 3.7808689593022957;
  s = s * t - 15.093804209987114;
  s = s * t + 42.058685020160894;
  s = s * t - 76.70585970427454;
  s = s * t + 81.60524927594804;
  s = s * t - 41.341702240399634;
  s = s * t + 6.283185307179586;
  double c = 7.810290968144191;
  c = c * t - 26.42425703488269;
  c = c * t + 60.24462008593029;
  c = c * t - 85.45681709034115;
  c = c * t + 64.93939402236538;
  c = c * t - 19.73920880217842;
  c = c * t + 1.0;
  s *= radius * g;
  c *= radius;
  /* Quadrants 1 and 3 swap the two. Quadrants 1 and 2 negate the first, 2 and 3 the second. */
  const bool swap = (quarter == 1) | (quarter == 3);
  const double first = swap ? s : c, second = swap ? c : s;
  *x = ((quarter == 1) | (quarter == 2)) ? -first : first;
  *y = ((quarter == 2) | (quarter == 3)) ? -second : second;
}

#endif
