/*
 * Sums and prefix sums over the threads of a warp or block. Results do not depend on the order in
 * which threads run. This file does not know ops.
 */
#ifndef ROWMAJOR_CUDA_BLOCK_H
#define ROWMAJOR_CUDA_BLOCK_H

#include "device.h"

enum { RM_WARP = 32, RM_MAX_WARPS = 32 };
#define RM_ALL_LANES 0xffffffffu

static inline int rm_lane(void) { return (int)(threadIdx.x & 31); }
static inline int rm_warp(void) { return (int)(threadIdx.x >> 5); }
static inline int rm_warps(void) { return (int)((blockDim.x + 31) >> 5); }

/* A mask of the lanes before this one. */
static inline unsigned rm_lanes_before(void) { return (1u << rm_lane()) - 1; }

/* Over groups of LANES lanes, a power of two. */
template <int LANES, class T>
static inline T rm_lanes_sum(T x) {
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(RM_ALL_LANES, x, step);
  return x;
}

/* The larger one. NaN in b is ignored. */
static inline float rm_larger(float a, float b) { return __builtin_fmaxf(a, b); }
static inline double rm_larger(double a, double b) { return b > a ? b : a; }

/* Over groups of LANES lanes. */
template <int LANES, class T>
static inline T rm_lanes_max(T x) {
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2) {
    x = rm_larger(x, __shfl_xor_sync(RM_ALL_LANES, x, step));
  }
  return x;
}

/* The x of the lane whose number differs in the bit `by`, of a type of any size. */
template <typename T>
static inline T rm_exchange(T x, int by) {
  int words[(sizeof(T) + 3) / 4] = {};
  memcpy(words, &x, sizeof x);
  for (int &word : words) word = __shfl_xor_sync(RM_ALL_LANES, word, by);
  memcpy(&x, words, sizeof x);
  return x;
}

/* The sum of x over the threads before this one, and in *total over the whole block. `shared` has
 * one element per warp. */
template <class T>
static inline T rm_block_prefix_sum(T x, T *shared, T *total) {
  T sum = x;
#pragma unroll
  for (int step = 1; step < RM_WARP; step *= 2) {
    const T other = __shfl_up_sync(RM_ALL_LANES, sum, step);
    if (rm_lane() >= step) sum += other;
  }
  if (rm_lane() == RM_WARP - 1) shared[rm_warp()] = sum;
  __syncthreads();
  T before = 0, all = 0;
  for (int w = 0; w < rm_warps(); w++) {
    if (w == rm_warp()) before = all;
    all += shared[w];
  }
  __syncthreads();
  *total = all;
  return before + sum - x;
}

#endif
