/*
 * Sorts dense runs, or finds the order that would: stable, with NaN last and -0 equal to 0; what
 * shim/sort.c does.
 *
 * Elements are moved as they are, and become unsigned keys that sort as they do whenever a digit is
 * asked for. Short runs are sorted by ranks in shared memory, longer ones by digits of 8 bits, the
 * lowest first, within a block; still longer ones by digits over the whole device: tiles of a run
 * are counted, the counts added up, and the elements of each tile sent to where they belong.
 */
#ifndef ROWMAJOR_CUDA_SORT_H
#define ROWMAJOR_CUDA_SORT_H

#include "block.h"

/* Defined by the source that includes this: see src/backend/cuda/constants.ts. */
#if !defined(RM_SORT_SHORT) || !defined(RM_SORT_DIGITS) || !defined(RM_SORT_ITEMS) || \
    !defined(RM_SORT_WIDE_ITEMS) || !defined(RM_SORT_SIGNED) || !defined(RM_SORT_DESCENDING) || \
    !defined(RM_FEW_COUNTS) || !defined(RM_COUNTS_THREADS)
#error "sort.h needs the constants of src/backend/cuda/constants.ts"
#endif

/* There is a thread for each value of a digit. */
static_assert(RM_THREADS == RM_SORT_DIGITS, "threads of a block that sorts");
enum { RM_SORT_WARPS = RM_THREADS / 32 };

/* How many elements a thread of those has. */
template <class T>
struct rm_sort_items {
  enum { COUNT = sizeof(T) == 8 ? RM_SORT_WIDE_ITEMS : RM_SORT_ITEMS, TILE = COUNT * RM_THREADS };
};

/*
 * order holds the bits of the mantissa of floats, or 0; 256 for signed integers; 512 for descending
 * order.
 */
template <class T>
struct rm_sort_keys {
  T flip, keep_sign, zero, infinity;

  inline explicit rm_sort_keys(long long order) {
    const int mantissa = (int)(order & (RM_SORT_SIGNED - 1));
    const T sign = (T)((T)1 << (8 * sizeof(T) - 1));
    const bool floating = mantissa > 0;
    flip = floating || (order & RM_SORT_SIGNED) != 0 ? sign : 0;
    if ((order & RM_SORT_DESCENDING) != 0) flip = (T)~flip;
    keep_sign = floating ? (T)(sign - 1) : 0;
    zero = floating ? sign : 0;
    infinity = floating ? (T)((T)(sign - 1) >> mantissa << mantissa) : 0;
  }

  inline T of(T x) const {
    const T bits = x == zero ? 0 : x;
    const T sign = (T)(0 - (T)(bits >> (8 * sizeof(T) - 1)));
    const T key = (T)(bits ^ flip ^ (T)(sign & keep_sign));
    return (T)(bits & keep_sign) > infinity ? (T)-1 : key;
  }

  inline unsigned digit(T x, int shift) const {
    return (unsigned)(of(x) >> shift) & (RM_SORT_DIGITS - 1);
  }
};

/* ---- short runs -------------------------------------------------------------------------------- */

/* Several runs to a block, an element to a thread. */
template <class T>
static inline void rm_sort_by_ranks(T *values, int *indices, long long runs, long long size,
                                    long long order) {
  __shared__ T keys[RM_SORT_SHORT];
  const rm_sort_keys<T> key(order);
  const int n = (int)size, most = RM_SORT_SHORT / n;
  const int r = (int)threadIdx.x / n, i = (int)threadIdx.x % n;
  const long long run = (long long)blockIdx.x * most + r;
  const bool mine = r < most && run < runs;
  T x = 0;
  if (mine) {
    x = values[run * n + i];
    keys[threadIdx.x] = key.of(x);
  }
  __syncthreads();
  if (mine) {
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

/* ---- digits within a block --------------------------------------------------------------------- */

template <class T>
struct rm_sort_room {
  unsigned counts[RM_SORT_WARPS][RM_SORT_DIGITS];
  unsigned starts[RM_SORT_DIGITS];
  unsigned warps[RM_SORT_WARPS];
  T values[rm_sort_items<T>::TILE];
  int indices[rm_sort_items<T>::TILE];
};

/* A tile of n elements: step s of warp w is 32 neighbours from (w * steps + s) * 32 on. */
template <class T>
struct rm_sort_tile {
  enum { COUNT = rm_sort_items<T>::COUNT };
  T x[COUNT];
  int index[COUNT];
  unsigned place[COUNT];
  int n, steps;

  inline explicit rm_sort_tile(int size) {
    n = size;
    steps = (size + RM_THREADS - 1) / RM_THREADS;
  }
  inline int at(int s) const { return (rm_warp() * steps + s) * 32 + rm_lane(); }

  /* Finds the place of each element in the order of the digit; room->starts is where the elements
   * of each digit begin. */
  inline void rank(rm_sort_room<T> *room, const rm_sort_keys<T> &key, int shift) {
    for (int i = (int)threadIdx.x; i < RM_SORT_WARPS * RM_SORT_DIGITS; i += RM_THREADS) {
      (&room->counts[0][0])[i] = 0;
    }
    __syncthreads();
    unsigned *counts = room->counts[rm_warp()];
#pragma unroll
    for (int s = 0; s < COUNT; s++) {
      if (s >= steps) continue;
      const bool valid = at(s) < n;
      const unsigned digit = valid ? key.digit(x[s], shift) : 0;
      /* The lanes that have the same digit. */
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
      place[s] = base + before;
    }
    __syncthreads();
    /* One thread for each digit. */
    unsigned sum = 0;
    for (int w = 0; w < RM_SORT_WARPS; w++) {
      const unsigned count = room->counts[w][threadIdx.x];
      room->counts[w][threadIdx.x] = sum;
      sum += count;
    }
    unsigned total;
    room->starts[threadIdx.x] = rm_block_before(sum, room->warps, &total);
    __syncthreads();
#pragma unroll
    for (int s = 0; s < COUNT; s++) {
      if (s >= steps || at(s) >= n) continue;
      const unsigned digit = key.digit(x[s], shift);
      place[s] += room->starts[digit] + counts[digit];
    }
  }

  /* Puts the elements, and with `indexed` their indexes, in order into the room. */
  inline void spread(rm_sort_room<T> *room, bool indexed) const {
#pragma unroll
    for (int s = 0; s < COUNT; s++) {
      if (s >= steps || at(s) >= n) continue;
      room->values[place[s]] = x[s];
      if (indexed) room->indices[place[s]] = index[s];
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

/* A run to a block. */
template <class T>
static inline void rm_sort_in_block(T *values, int *indices, long long size, long long order) {
  __shared__ rm_sort_room<T> room;
  const rm_sort_keys<T> key(order);
  const bool indexed = indices != nullptr;
  T *run = values + (long long)blockIdx.x * size;
  rm_sort_tile<T> tile((int)size);
  tile.load(run, nullptr, 0);
  for (int shift = 0; shift < 8 * (int)sizeof(T); shift += 8) {
    if (shift > 0) tile.load(room.values, indexed ? room.indices : nullptr, 0);
    tile.rank(&room, key, shift);
    tile.spread(&room, indexed);
  }
  int *order_of_run = indexed ? indices + (long long)blockIdx.x * size : nullptr;
  for (int i = (int)threadIdx.x; i < (int)size; i += RM_THREADS) {
    if (indexed) order_of_run[i] = room.indices[i];
    else run[i] = room.values[i];
  }
}

/* ---- digits over the device -------------------------------------------------------------------- */

/* counts[run][digit][tile]: how many elements of a tile have a digit. */
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

/* Makes each of `length` counts in `rows` rows the sum of those before it in its row, whose sum goes
 * to totals. A row to a block; one of few counts to a thread. */
static inline void rm_add_counts_up(unsigned long long *counts, unsigned long long *totals,
                                    long long rows, long long length) {
  __shared__ unsigned long long room[RM_MOST_WARPS];
  if (length <= RM_FEW_COUNTS) {
    const long long place = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (place >= rows) return;
    unsigned long long sum = 0;
    for (long long i = 0; i < length; i++) {
      const unsigned long long count = counts[place * length + i];
      counts[place * length + i] = sum;
      sum += count;
    }
    totals[place] = sum;
    return;
  }
  unsigned long long *row = counts + (long long)blockIdx.x * length;
  unsigned long long before = 0;
  for (long long first = 0; first < length; first += blockDim.x) {
    const long long i = first + threadIdx.x;
    const unsigned long long count = i < length ? row[i] : 0;
    unsigned long long sum;
    const unsigned long long place = rm_block_before(count, room, &sum);
    if (i < length) row[i] = before + place;
    before += sum;
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = before;
}

/*
 * Sends the elements of each tile to where they belong. Without from_indices they are those of the
 * first pass, 0, 1, ...; without to_indices there are none, and without to_values those are not
 * written, as after the last pass of an order.
 */
template <class T>
static inline void rm_sort_spread(T *to_values, int *to_indices, const T *values,
                                  const int *from_indices, const unsigned long long *counts,
                                  const unsigned long long *totals, long long size,
                                  long long tiles, long long order, long long shift) {
  enum { TILE = rm_sort_items<T>::TILE };
  __shared__ rm_sort_room<T> room;
  __shared__ unsigned long long bases[RM_SORT_DIGITS], warps[RM_SORT_WARPS];
  const rm_sort_keys<T> key(order);
  const long long run = (long long)blockIdx.x / tiles, number = (long long)blockIdx.x % tiles;
  const long long start = run * size, first = number * TILE;
  const bool indexed = to_indices != nullptr;
  rm_sort_tile<T> tile((int)(size - first < TILE ? size - first : TILE));
  tile.load(values + start + first,
            from_indices == nullptr ? nullptr : from_indices + start + first, (int)first);
  tile.rank(&room, key, (int)shift);
  tile.spread(&room, indexed);
  const long long digit = run * RM_SORT_DIGITS + threadIdx.x;
  unsigned long long all;
  const unsigned long long base = rm_block_before(totals[digit], warps, &all);
  bases[threadIdx.x] = base + counts[digit * tiles + number] - room.starts[threadIdx.x];
  __syncthreads();
  for (int i = (int)threadIdx.x; i < tile.n; i += RM_THREADS) {
    const T x = room.values[i];
    const long long to = start + (long long)(bases[key.digit(x, (int)shift)] + (unsigned)i);
    if (to_values != nullptr) to_values[to] = x;
    if (indexed) to_indices[to] = room.indices[i];
  }
}

/* ---- kernels ----------------------------------------------------------------------------------- */

#define RM_SORT_BY_RANKS(name, T)                                                                  \
  extern "C" __global__ void __launch_bounds__(RM_SORT_SHORT)                                      \
      name(T *values, int *indices, long long runs, long long size, long long order) {             \
    rm_sort_by_ranks(values, indices, runs, size, order);                                          \
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

#define RM_ADD_COUNTS_UP(name)                                                                     \
  extern "C" __global__ void __launch_bounds__(RM_COUNTS_THREADS)                                               \
      name(unsigned long long *counts, unsigned long long *totals, long long rows,                 \
           long long length) {                                                                     \
    rm_add_counts_up(counts, totals, rows, length);                                                \
  }

#define RM_SORT_SPREAD(name, T)                                                                    \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                    \
      name(T *to_values, int *to_indices, const T *values, const int *from_indices,                \
           const unsigned long long *counts, const unsigned long long *totals, long long size,     \
           long long tiles, long long order, long long shift) {                                    \
    rm_sort_spread(to_values, to_indices, values, from_indices, counts, totals, size, tiles,       \
                   order, shift);                                                                  \
  }

#endif
