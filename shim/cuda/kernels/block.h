/*
 * Sums and scans over the threads of a warp or a block, which give the same whatever the order that
 * threads run in.
 *
 * Knows nothing of ops.
 */
#ifndef ROWMAJOR_CUDA_BLOCK_H
#define ROWMAJOR_CUDA_BLOCK_H

#include "device.h"

enum { RM_WARP = 32, RM_MOST_WARPS = 32 };
#define RM_ALL_LANES 0xffffffffu

static inline int rm_lane(void) { return (int)(threadIdx.x & 31); }
static inline int rm_warp(void) { return (int)(threadIdx.x >> 5); }
static inline int rm_warps(void) { return (int)((blockDim.x + 31) >> 5); }

/* The lanes before this one. */
static inline unsigned rm_lanes_before(void) { return (1u << rm_lane()) - 1; }

/* Over groups of so many lanes, a power of two. */
template <int LANES, class T>
static inline T rm_lanes_sum(T x) {
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(RM_ALL_LANES, x, step);
  return x;
}

/* NaN is ignored where x has none to begin with. */
template <int LANES, class T>
static inline T rm_lanes_largest(T x) {
#pragma unroll
  for (int step = LANES / 2; step > 0; step /= 2) {
    const T other = __shfl_xor_sync(RM_ALL_LANES, x, step);
    x = other > x ? other : x;
  }
  return x;
}

/* The sum of x over the threads before this one, and, in *total, over all of the block. room has
 * one element for each warp. */
template <class T>
static inline T rm_block_before(T x, T *room, T *total) {
  T sum = x;
#pragma unroll
  for (int step = 1; step < RM_WARP; step *= 2) {
    const T other = __shfl_up_sync(RM_ALL_LANES, sum, step);
    if (rm_lane() >= step) sum += other;
  }
  if (rm_lane() == RM_WARP - 1) room[rm_warp()] = sum;
  __syncthreads();
  T before = 0, all = 0;
  for (int w = 0; w < rm_warps(); w++) {
    if (w == rm_warp()) before = all;
    all += room[w];
  }
  __syncthreads();
  *total = all;
  return before + sum - x;
}

#endif
