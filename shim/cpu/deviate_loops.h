/*
 * The loops of deviates.c that are compiled for each ISA.
 */
#ifndef ROWMAJOR_DEVIATE_LOOPS_H
#define ROWMAJOR_DEVIATE_LOOPS_H

#include <stddef.h>
#include <stdint.h>

struct rm_deviate_loops {
  /* Four words each of the elements start + pending[0..n]: the blocks with those counters, and the
   * attempt and the lane as upper words. */
  void (*words)(const uint32_t key[2], const uint32_t upper[2], uint64_t start,
                const int32_t *pending, ptrdiff_t n, uint32_t *out);
  /* A normal number of the first two of each four words. */
  void (*normals)(ptrdiff_t n, const uint32_t *words, double *out);
  /* exp(x - max) */
  void (*exps)(ptrdiff_t n, const double *x, double max, double *out);
};

#endif
