/*
 * Sorts contiguous runs, or computes their argsort: stable, with NaN last and -0 equal to 0, as in
 * shim/cpu/sort.
 *
 * Elements are moved unchanged. They are converted to unsigned keys of the same order whenever a
 * digit is needed. Short runs are sorted by ranks in shared memory. Longer ones are sorted by radix
 * sort with 8-bit digits, the lowest first, within a block. The longest are sorted by radix sort
 * over the whole device: digits of each tile are counted, a prefix sum gives their positions, and
 * the elements of each tile are scattered to them.
 */
#ifndef ROWMAJOR_CUDA_SORT_H
#define ROWMAJOR_CUDA_SORT_H

#include "block.h"

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_SORT_RANK_MAX) || !defined(RM_SORT_DIGITS) || !defined(RM_SORT_ITEMS) || \
    !defined(RM_SORT_WIDE_ITEMS) || !defined(RM_SORT_SIGNED) || !defined(RM_SORT_DESCENDING) || \
    !defined(RM_FEW_COUNTS) || !defined(RM_COUNTS_THREADS)
#error "sort.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

/* One thread per value of a digit. */
static_assert(RM_THREADS == RM_SORT_DIGITS, "threads of a block that sorts");
enum { RM_SORT_WARPS = RM_THREADS / 32 };

/* The elements per thread. */
template <class T>
struct rm_sort_items {
  enum { COUNT = sizeof(T) == 8 ? RM_SORT_WIDE_ITEMS : RM_SORT_ITEMS, TILE = COUNT * RM_THREADS };
};

/* `order` contains the number of mantissa bits of floats, or 0, plus RM_SORT_SIGNED for signed
 * integers and RM_SORT_DESCENDING. */
template <class T>
struct rm_sort_keys {
  T flip, magnitude_mask, zero, infinity;

  inline explicit rm_sort_keys(long long order) {
    const int mantissa = (int)(order & (RM_SORT_SIGNED - 1));
    const T sign = (T)((T)1 << (8 * sizeof(T) - 1));
    const bool is_float = mantissa > 0;
    flip = is_float || (order & RM_SORT_SIGNED) != 0 ? sign : 0;
    if ((order & RM_SORT_DESCENDING) != 0) flip = (T)~flip;
    magnitude_mask = is_float ? (T)(sign - 1) : 0;
    zero = is_float ? sign : 0;
    infinity = is_float ? (T)((T)(sign - 1) >> mantissa << mantissa) : 0;
  }

  inline T of(T x) const {
    const T bits = x == zero ? 0 : x;
    const T sign = (T)(0 - (T)(bits >> (8 * sizeof(T) - 1)));
    const T key = (T)(bits ^ flip ^ (T)(sign & magnitude_mask));
    return (T)(bits & magnitude_mask) > infinity ? (T)-1 : key;
  }

  inline unsigned digit(T x, int shift) const {
    return (unsigned)(of(x) >> shift) & (RM_SORT_DIGITS - 1);
  }
};

/* ---- short runs ------------------------------------------------------------------------------ */

/* Several runs per block, one element per thread. */
template <class T>
static inline void rm_sort_by_ranks(T *values, int *indices, long long runs, long long size,
                                    long long order) {
  __shared__ T keys[RM_SORT_RANK_MAX];
  const rm_sort_keys<T> key(order);
  const int n = (int)size, block_runs = RM_SORT_RANK_MAX / n;
  const int r = (int)threadIdx.x / n, i = (int)threadIdx.x % n;
  const long long run = (long long)blockIdx.x * block_runs + r;
  const bool is_active = r < block_runs && run < runs;
  T x = 0;
  if (is_active) {
    x = values[run * n + i];
    keys[threadIdx.x] = key.of(x);
  }
  __syncthreads();
  if (is_active) {
    const T own = keys[threadIdx.x];
    const T *all = keys + r * n;
    int rank = 0;
    for (int j = 0; j < n; j++) {
      const T other = all[j];
      rank += (other < own) | ((other == own) & (j < i));
    }
    if (indices != nullptr) indices[run * n + rank] = i;
    else values[run * n + rank] = x;
  }
}

/* ---- radix sort within a block --------------------------------------------------------------- */

template <class T>
struct rm_sort_shared {
  unsigned counts[RM_SORT_WARPS][RM_SORT_DIGITS];
  unsigned starts[RM_SORT_DIGITS];
  unsigned warps[RM_SORT_WARPS];
  T values[rm_sort_items<T>::TILE];
  int indices[rm_sort_items<T>::TILE];
};

/* A tile of n elements. Step s of warp w is the 32 elements from (w * steps + s) * 32 on. */
template <class T>
struct rm_sort_tile {
  enum { COUNT = rm_sort_items<T>::COUNT };
  T x[COUNT];
  int index[COUNT];
  unsigned position[COUNT];
  int n, steps;

  inline explicit rm_sort_tile(int size) {
    n = size;
    steps = (size + RM_THREADS - 1) / RM_THREADS;
  }
  inline int at(int s) const { return (rm_warp() * steps + s) * 32 + rm_lane(); }

  /* Computes the position of each element when sorted by the digit. shared->starts holds the first
   * position of each digit. */
  inline void rank(rm_sort_shared<T> *shared, const rm_sort_keys<T> &key, int shift) {
    for (int i = (int)threadIdx.x; i < RM_SORT_WARPS * RM_SORT_DIGITS; i += RM_THREADS) {
      (&shared->counts[0][0])[i] = 0;
    }
    __syncthreads();
    unsigned *counts = shared->counts[rm_warp()];
#pragma unroll
    for (int s = 0; s < COUNT; s++) {
      if (s >= steps) continue;
      const bool valid = at(s) < n;
      const unsigned digit = valid ? key.digit(x[s], shift) : 0;
      /* The lanes with the same digit. */
      unsigned peers = __ballot_sync(RM_ALL_LANES, valid);
#pragma unroll
      for (int bit = 0; bit < 8; bit++) {
        const bool set = (digit >> bit & 1) != 0;
        const unsigned with = __ballot_sync(RM_ALL_LANES, set);
        peers &= set ? with : ~with;
      }
      const unsigned before = (unsigned)__popc(peers & rm_lanes_before());
      const unsigned base = valid ? counts[digit] : 0;
      __syncwarp();
      if (valid && before == 0) counts[digit] = base + (unsigned)__popc(peers);
      __syncwarp();
      position[s] = base + before;
    }
    __syncthreads();
    /* One thread per digit. */
    unsigned sum = 0;
    for (int w = 0; w < RM_SORT_WARPS; w++) {
      const unsigned count = shared->counts[w][threadIdx.x];
      shared->counts[w][threadIdx.x] = sum;
      sum += count;
    }
    unsigned total;
    shared->starts[threadIdx.x] = rm_block_prefix_sum(sum, shared->warps, &total);
    __syncthreads();
#pragma unroll
    for (int s = 0; s < COUNT; s++) {
      if (s >= steps || at(s) >= n) continue;
      const unsigned digit = key.digit(x[s], shift);
      position[s] += shared->starts[digit] + counts[digit];
    }
  }

  /* Writes the elements, and their indices if has_indices, to shared memory in sorted order. */
  inline void scatter(rm_sort_shared<T> *shared, bool has_indices) const {
#pragma unroll
    for (int s = 0; s < COUNT; s++) {
      if (s >= steps || at(s) >= n) continue;
      shared->values[position[s]] = x[s];
      if (has_indices) shared->indices[position[s]] = index[s];
    }
    __syncthreads();
  }

  inline void load(const T *values, const int *indices, int first) {
#pragma unroll
    for (int s = 0; s < COUNT; s++) {
      if (s >= steps || at(s) >= n) continue;
      x[s] = values[at(s)];
      index[s] = indices == nullptr ? first + at(s) : indices[at(s)];
    }
  }
};

/* One run per block. */
template <class T>
static inline void rm_sort_in_block(T *values, int *indices, long long size, long long order) {
  __shared__ rm_sort_shared<T> shared;
  const rm_sort_keys<T> key(order);
  const bool has_indices = indices != nullptr;
  T *run = values + (long long)blockIdx.x * size;
  rm_sort_tile<T> tile((int)size);
  tile.load(run, nullptr, 0);
  for (int shift = 0; shift < 8 * (int)sizeof(T); shift += 8) {
    if (shift > 0) tile.load(shared.values, has_indices ? shared.indices : nullptr, 0);
    tile.rank(&shared, key, shift);
    tile.scatter(&shared, has_indices);
  }
  int *order_of_run = has_indices ? indices + (long long)blockIdx.x * size : nullptr;
  for (int i = (int)threadIdx.x; i < (int)size; i += RM_THREADS) {
    if (has_indices) order_of_run[i] = shared.indices[i];
    else run[i] = shared.values[i];
  }
}

/* ---- radix sort over the device -------------------------------------------------------------- */

/* counts[run][digit][tile]: the number of elements of a tile with a digit. */
template <class T>
static inline void rm_sort_count(unsigned long long *counts, const T *values, long long size,
                                 long long tiles, long long order, long long shift) {
  enum { TILE = rm_sort_items<T>::TILE };
  __shared__ unsigned found[RM_SORT_DIGITS];
  const rm_sort_keys<T> key(order);
  const long long run = (long long)blockIdx.x / tiles, tile = (long long)blockIdx.x % tiles;
  const long long first = tile * TILE;
  const int n = (int)(size - first < TILE ? size - first : TILE);
  const T *x = values + run * size + first;
  found[threadIdx.x] = 0;
  __syncthreads();
  for (int i = (int)threadIdx.x; i < n; i += RM_THREADS) {
    atomicAdd(&found[key.digit(x[i], (int)shift)], 1u);
  }
  __syncthreads();
  counts[(run * RM_SORT_DIGITS + threadIdx.x) * tiles + tile] = found[threadIdx.x];
}

/* Replaces the `length` counts of each row by their exclusive prefix sum, and stores the sum in
 * totals. One row per block, or per thread if it has few counts. */
static inline void rm_prefix_sum_counts(unsigned long long *counts, unsigned long long *totals,
                                        long long rows, long long length) {
  __shared__ unsigned long long shared[RM_MAX_WARPS];
  if (length <= RM_FEW_COUNTS) {
    const long long position = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (position >= rows) return;
    unsigned long long sum = 0;
    for (long long i = 0; i < length; i++) {
      const unsigned long long count = counts[position * length + i];
      counts[position * length + i] = sum;
      sum += count;
    }
    totals[position] = sum;
    return;
  }
  unsigned long long *row = counts + (long long)blockIdx.x * length;
  unsigned long long before = 0;
  for (long long first = 0; first < length; first += blockDim.x) {
    const long long i = first + threadIdx.x;
    const unsigned long long count = i < length ? row[i] : 0;
    unsigned long long sum;
    const unsigned long long position = rm_block_prefix_sum(count, shared, &sum);
    if (i < length) row[i] = before + position;
    before += sum;
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

/* Scatters the elements of each tile to their positions. Without from_indices they are 0, 1, ...:
 * the first pass. Without to_indices only values are written. Without to_values only indices are
 * written: the last pass of an argsort. */
template <class T>
static inline void rm_sort_scatter(T *to_values, int *to_indices, const T *values,
                                   const int *from_indices, const unsigned long long *counts,
                                   const unsigned long long *totals, long long size,
                                   long long tiles, long long order, long long shift) {
  enum { TILE = rm_sort_items<T>::TILE };
  __shared__ rm_sort_shared<T> shared;
  __shared__ unsigned long long bases[RM_SORT_DIGITS], warps[RM_SORT_WARPS];
  const rm_sort_keys<T> key(order);
  const long long run = (long long)blockIdx.x / tiles, number = (long long)blockIdx.x % tiles;
  const long long start = run * size, first = number * TILE;
  const bool has_indices = to_indices != nullptr;
  rm_sort_tile<T> tile((int)(size - first < TILE ? size - first : TILE));
  tile.load(values + start + first,
            from_indices == nullptr ? nullptr : from_indices + start + first, (int)first);
  tile.rank(&shared, key, (int)shift);
  tile.scatter(&shared, has_indices);
  const long long digit = run * RM_SORT_DIGITS + threadIdx.x;
  unsigned long long all;
  const unsigned long long base = rm_block_prefix_sum(totals[digit], warps, &all);
  bases[threadIdx.x] = base + counts[digit * tiles + number] - shared.starts[threadIdx.x];
  __syncthreads();
  for (int i = (int)threadIdx.x; i < tile.n; i += RM_THREADS) {
    const T x = shared.values[i];
    const long long to = start + (long long)(bases[key.digit(x, (int)shift)] + (unsigned)i);
    if (to_values != nullptr) to_values[to] = x;
    if (has_indices) to_indices[to] = shared.indices[i];
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

#define RM_SORT_BY_RANKS(name, T) \
  extern "C" __global__ void __launch_bounds__(RM_SORT_RANK_MAX) \
      name(T *values, int *indices, long long runs, long long size, long long order) { \
    rm_sort_by_ranks(values, indices, runs, size, order); \
  }

#define RM_SORT_IN_BLOCK(name, T)                                                                  \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                    \
      name(T *values, int *indices, long long size, long long order) {                             \
    rm_sort_in_block(values, indices, size, order);                                                \
  }

#define RM_SORT_COUNT(name, T)                                                                     \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                    \
      name(unsigned long long *counts, const T *values, long long size, long long tiles,           \
           long long order, long long shift) {                                                     \
    rm_sort_count(counts, values, size, tiles, order, shift);                                      \
  }

#define RM_PREFIX_SUM_COUNTS(name) \
  extern "C" __global__ void __launch_bounds__(RM_COUNTS_THREADS) name( \
      unsigned long long *counts, unsigned long long *totals, long long rows, long long length) { \
    rm_prefix_sum_counts(counts, totals, rows, length); \
  }

#define RM_SORT_SCATTER(name, T) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(T *to_values, int *to_indices, const T *values, const int *from_indices, \
           const unsigned long long *counts, const unsigned long long *totals, long long size, \
           long long tiles, long long order, long long shift) { \
    rm_sort_scatter(to_values, to_indices, values, from_indices, counts, totals, size, tiles, \
                    order, shift); \
  }

#endif
