/*
 * Gather, scatter, scatter-add, index ravelling and nonzero, as in shim/cpu/index.
 *
 * Positions are int32, or int64 in huge storages. An index that is out of range moves nothing. It
 * is recorded in the faults of the device, which are read together with any result.
 */
#ifndef ROWMAJOR_CUDA_GATHER_SCATTER_H
#define ROWMAJOR_CUDA_GATHER_SCATTER_H

#include "block.h"

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_NONZERO_TILE) || !defined(RM_ADD_CHUNK) || !defined(RM_INDEX_SIGNED) || \
    !defined(RM_FAULT_WORDS)
#error "gather_scatter.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

/* An axis of a block: its size, and the strides of both operands. */
struct rm_block_axis {
  long long size, to, from;
};

/* At most R axes, outermost first. */
template <int R>
struct rm_block {
  long long rank;
  rm_block_axis at[R];
};

/* Computes the offsets of element i of `count` in both operands, and returns its index along one
 * axis. Most counts fit 32 bits, where division takes a third of the time. */
template <int R>
static inline long long rm_locate(const rm_block<R> &axes, long long i, long long count, int axis,
                                  long long *to, long long *from) {
  long long position = 0;
  if (count >> 32 == 0) {
    unsigned rest = (unsigned)i;
#pragma unroll(R <= 8 ? R : 1)
    for (int j = R - 1; j > 0; j--) {
      if (j >= axes.rank) continue;
      const unsigned size = (unsigned)axes.at[j].size, next = rest / size;
      const long long along = rest - next * size;
      rest = next;
      *to += along * axes.at[j].to;
      *from += along * axes.at[j].from;
      if (j == axis) position = along;
    }
    i = rest;
  } else {
#pragma unroll(R <= 8 ? R : 1)
    for (int j = R - 1; j > 0; j--) {
      if (j >= axes.rank) continue;
      const long long size = axes.at[j].size, next = i / size, along = i - next * size;
      i = next;
      *to += along * axes.at[j].to;
      *from += along * axes.at[j].from;
      if (j == axis) position = along;
    }
  }
  *to += i * axes.at[0].to;
  *from += i * axes.at[0].from;
  return axis == 0 ? i : position;
}

/* ---- indices --------------------------------------------------------------------------------- */

/* A sentinel for positions that are skipped. No axis has such an index. */
static inline bool rm_is_skipped(int position) { return position == -2147483647 - 1; }
static inline bool rm_is_skipped(long long position) {
  return position == -0x7fffffffffffffffll - 1;
}
static inline void rm_skip(int *position) { *position = -2147483647 - 1; }
static inline void rm_skip(long long *position) { *position = -0x7fffffffffffffffll - 1; }

/* Values of uint64 that int64 cannot hold become negative indices that are out of range for every
 * size. */
static inline long long rm_read_index(const void *x, int bytes, bool is_signed, long long i) {
  switch (bytes) {
    case 1: return is_signed ? ((const int8_t *)x)[i] : ((const uint8_t *)x)[i];
    case 2: return is_signed ? ((const int16_t *)x)[i] : ((const uint16_t *)x)[i];
    case 4: return is_signed ? (long long)((const int32_t *)x)[i] : ((const uint32_t *)x)[i];
    default: {
      const long long index = ((const long long *)x)[i];
      return is_signed || index >= 0 ? index : -0x7fffffffffffffffll - 1;
    }
  }
}

/* The first fault: the number of the call, or 0; the first position of a bad index, above the lower
 * half of that index; the same above its upper half; and the size of the axis. Positions from 2^32
 * on are all recorded as one. */
struct rm_faults {
  unsigned long long call, low, high;
  long long size;
};
static_assert(sizeof(rm_faults) == 8 * RM_FAULT_WORDS, "the size of the faults");

static inline void rm_record_fault(rm_faults *faults, unsigned long long call, long long position,
                                   long long index, long long size) {
  const unsigned long long before = atomicCAS(&faults->call, 0ull, call);
  if (before != 0 && before != call) return;
  const unsigned long long max = 0xffffffffull;
  const unsigned long long key = ((unsigned long long)position < max ? position : max) << 32;
  const unsigned long long bits = (unsigned long long)index;
  atomicMin(&faults->low, key | (bits & max));
  atomicMin(&faults->high, key | bits >> 32);
  faults->size = size;
}

/* Indices along one axis. `faults` may be null if bad indices have been recorded before. */
struct rm_indices {
  const void *at;
  /* The size of an index in bytes, plus RM_INDEX_SIGNED for signed dtypes. */
  long long type, size, stride;
  rm_faults *faults;
  unsigned long long call;

  /* Normalizes index i, which is element `from`, to [0, size). Returns false and records a fault if
   * it is out of range. */
  inline bool normalize(long long from, long long i, long long *found) const {
    const long long index = rm_read_index(at, (int)(type & (RM_INDEX_SIGNED - 1)),
                                          (type & RM_INDEX_SIGNED) != 0, from);
    *found = index + (index < 0 ? size : 0);
    if (index >= -size && index < size) return true;
    if (faults != nullptr) rm_record_fault(faults, call, i, index, size);
    return false;
  }

  /* Reads index i as an offset along the axis. */
  inline bool read(long long i, long long *position) const {
    if (!normalize(i, i, position)) return false;
    *position *= stride;
    return true;
  }
};

/* The first axis of `axes` belongs to the positions, the others to the indices. */
template <class P, int R>
static inline void rm_add_positions(P *positions, rm_indices indices, long long count,
                                    const rm_block<R> &axes) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  long long to = 0, from = 0, index;
  rm_locate(axes, i, count, 0, &to, &from);
  P *position = positions + to;
  if (rm_is_skipped(*position)) return;
  if (indices.normalize(from, i, &index)) *position += (P)(index * indices.stride);
  else rm_skip(position);
}

/* ---- gather and scatter ---------------------------------------------------------------------- */

/* One element per thread. The axis with number `axis` is indexed: in the source or, for a scatter,
 * in the target. */
template <class T, int R>
static inline void rm_move_elements(T *target, const T *source, rm_indices indices, long long count,
                                    long long axis, long long scatter, const rm_block<R> &axes) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    long long to = 0, from = 0, position;
    const long long index = rm_locate(axes, i, count, (int)axis, &to, &from);
    if (!indices.read(index, &position)) continue;
    if (scatter != 0) to += position;
    else from += position;
    target[to] = source[from];
  }
}

template <class U>
static inline void rm_copy_run(char *to, const char *from, long long bytes, int lane, int lanes) {
  const long long n = bytes / (long long)sizeof(U);
  U *const out = (U *)__builtin_assume_aligned(to, sizeof(U));
  const U *const in = (const U *)__builtin_assume_aligned(from, sizeof(U));
  /* Compilers must assume that a store changes what is loaded after it. */
  constexpr int LOADS = sizeof(U) == 16 ? 4 : 2;
  for (long long i = lane; i < n; i += LOADS * lanes) {
    U x[LOADS];
    RM_UNROLL for (int k = 0; k < LOADS; k++) {
      if (i + k * lanes < n) x[k] = in[i + k * lanes];
    }
    RM_UNROLL for (int k = 0; k < LOADS; k++) {
      if (i + k * lanes < n) out[i + k * lanes] = x[k];
    }
  }
}

/*
 * Blocks that are contiguous runs of `bytes`, each split into `parts` of `part_bytes`; `count` is
 * the number of all parts. Groups of `lanes` threads, a power of two, copy as many bytes at a time
 * as the alignment of both ends allows. `step`, from run to run, and `position_stride` are in
 * bytes.
 */
static inline void rm_move_blocks(char *target, const char *source, rm_indices indices,
                                  long long count, long long parts, long long part_bytes,
                                  long long step, long long bytes, long long position_stride,
                                  long long lanes, long long scatter) {
  const int lane = (int)threadIdx.x & (int)(lanes - 1);
  const int groups = (int)blockDim.x / (int)lanes, group = (int)threadIdx.x / (int)lanes;
  const long long each = (long long)gridDim.x * groups;
  for (long long i = (long long)blockIdx.x * groups + group; i < count; i += each) {
    const long long run = parts == 1 ? i : i / parts, begin = (i - run * parts) * part_bytes;
    const long long n = rm_min(bytes - begin, part_bytes);
    long long position;
    if (!indices.read(run, &position)) continue;
    position *= position_stride;
    char *to = target + (scatter != 0 ? position : run * step) + begin;
    const char *from = source + (scatter != 0 ? run * step : position) + begin;
    const unsigned alignment = (unsigned)(size_t)to | (unsigned)(size_t)from | (unsigned)n;
    if ((alignment & 15) == 0) rm_copy_run<rm_pack<uint32_t, 4>>(to, from, n, lane, (int)lanes);
    else if ((alignment & 7) == 0) rm_copy_run<uint64_t>(to, from, n, lane, (int)lanes);
    else if ((alignment & 3) == 0) rm_copy_run<uint32_t>(to, from, n, lane, (int)lanes);
    else if ((alignment & 1) == 0) rm_copy_run<uint16_t>(to, from, n, lane, (int)lanes);
    else rm_copy_run<uint8_t>(to, from, n, lane, (int)lanes);
  }
}

/* ---- the last of equal indices --------------------------------------------------------------- */

/*
 * The last of equal indices wins, whatever the order in which threads run. Every index marks its
 * position with its number, if that is the largest. Indices that do not find their own number
 * afterwards are skipped. Marks are an array over the axis or, if that would be much longer than
 * the number of indices, a hash table with `slots` entries, a power of two. Its keys are the
 * position plus one, or 0 if free.
 */
static inline long long rm_slot(unsigned long long *keys, long long slots, long long position) {
  if (keys == nullptr) return position;
  const unsigned long long key = (unsigned long long)position + 1;
  unsigned long long slot = key * 0x9e3779b97f4a7c15ull >> 20;
  for (;; slot++) {
    slot &= (unsigned long long)slots - 1;
    const unsigned long long found = atomicCAS(&keys[slot], 0ull, key);
    if (found == 0 || found == key) return (long long)slot;
  }
}

static inline void rm_mark_indices(unsigned *marks, unsigned long long *keys, long long slots,
                                   rm_indices indices, long long count) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  long long position;
  if (i >= count || !indices.normalize(i, i, &position)) return;
  atomicMax(&marks[rm_slot(keys, slots, position)], (unsigned)i + 1);
}

/* Copies the position of each index, or the sentinel if a later index equals it. */
static inline void rm_select_last(long long *selected, unsigned *marks, unsigned long long *keys,
                                  long long slots, rm_indices indices, long long count) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  long long position;
  const bool last = indices.normalize(i, i, &position) &&
                    marks[rm_slot(keys, slots, position)] == (unsigned)i + 1;
  if (last) selected[i] = position;
  else rm_skip(selected + i);
}

/* ---- scatter-add ----------------------------------------------------------------------------- */

/* How many sorted indices of a chunk are read at once. */
enum { RM_ADD_STEPS = RM_SMALL ? 2 : 8 };

/* Indices sorted by their positions, which are int32 or int64 and negative if skipped. Without
 * `order` they are the partial sums of a previous pass, whose values are contiguous and in the
 * compute dtype. */
struct rm_sorted_indices {
  const void *positions;
  const int *order;
  long long is_int64, count, step;

  inline int index(long long i) const { return order == nullptr ? (int)i : order[i]; }
  inline long long position(int index) const {
    return is_int64 != 0 ? ((const long long *)positions)[index] : ((const int *)positions)[index];
  }
};

/*
 * Adds the values of equal positions. Each thread processes one element of all blocks of a chunk.
 * Only one thread adds to an element of the target, so the order of threads does not matter. Sums
 * of positions that continue in other chunks go to `sums`, two per chunk: one for the first and one
 * for the last position of the chunk. They are the indices of the next launch, until there is only
 * one chunk. So at most RM_ADD_CHUNK additions are sequential.
 */
template <class D, int R>
static inline void rm_add_sorted(typename D::stored *target, const void *values,
                                 rm_sorted_indices indices, long long stride,
                                 typename D::value *sums, long long *positions, long long elements,
                                 const rm_block<R> &axes) {
  typedef typename D::stored Stored;
  typedef typename D::value Sum;
  const long long i = rm_global_index();
  const long long count = (indices.count + RM_ADD_CHUNK - 1) / RM_ADD_CHUNK * elements;
  if (i >= count) return;
  /* The neutral element, even for -0. */
  const Sum zero = (Sum)-0.0;
  long long to = 0, from = 0;
  /* Chunks are the first axis. */
  const long long chunk = rm_locate(axes, i, count, 0, &to, &from), element = i - chunk * elements;
  const long long begin = chunk * RM_ADD_CHUNK, end = rm_min(begin + RM_ADD_CHUNK, indices.count);
  target += to;
  sums += 2 * chunk * elements + element;
  const long long first = indices.position(indices.index(begin));
  const bool continues_previous = begin > 0 && indices.position(indices.index(begin - 1)) == first;
  /* The current position, and whether this chunk has all its values so far. */
  long long last = first;
  bool is_complete = !continues_previous;
  Sum sum = zero;
#pragma unroll 1
  for (long long j = begin; j < end; j += RM_ADD_STEPS) {
    int index[RM_ADD_STEPS];
    /* The positions of these indices, preceded by the previous one. */
    long long position[RM_ADD_STEPS + 1];
    Sum x[RM_ADD_STEPS];
    Stored old[RM_ADD_STEPS];
    position[0] = last;
    RM_UNROLL for (int k = 0; k < RM_ADD_STEPS; k++) {
      index[k] = j + k < end ? indices.index(j + k) : -1;
    }
    RM_UNROLL for (int k = 0; k < RM_ADD_STEPS; k++) {
      position[k + 1] = index[k] < 0 ? position[k] : indices.position(index[k]);
    }
    RM_UNROLL for (int k = 0; k < RM_ADD_STEPS; k++) {
      x[k] = zero;
      old[k] = 0;
      if (index[k] >= 0 && position[k + 1] >= 0) {
        if (indices.order == nullptr) x[k] = ((const Sum *)values)[index[k] * elements + element];
        else x[k] = D::get(((const Stored *)values)[index[k] * indices.step + from]);
      }
      if (position[k] != position[k + 1] && position[k] >= 0) old[k] = target[position[k] * stride];
    }
    RM_UNROLL for (int k = 0; k < RM_ADD_STEPS; k++) {
      if (position[k] != position[k + 1]) {
        if (!is_complete) sums[0] = sum;
        else if (position[k] >= 0) {
          target[position[k] * stride] = D::put((Sum)(D::get(old[k]) + sum));
        }
        sum = zero;
        is_complete = true;
      }
      sum = (Sum)(sum + x[k]);
    }
    last = position[RM_ADD_STEPS];
  }
  const bool continues_next = end < indices.count && indices.position(indices.index(end)) == last;
  if (!is_complete) {
    sums[0] = sum;
    if (continues_next) sums[elements] = zero;
  } else if (continues_next) {
    sums[elements] = sum;
  } else if (last >= 0) {
    target[last * stride] = D::put((Sum)(D::get(target[last * stride]) + sum));
  }
  if (positions == nullptr || element > 0) return;
  positions[2 * chunk] = continues_previous ? first : -1;
  positions[2 * chunk + 1] = continues_next ? last : -1;
}

/* ---- nonzero --------------------------------------------------------------------------------- */

/* Each block processes one tile. Warp w starts at w * 32 * STEPS. */
enum { RM_NONZERO_STEPS = RM_NONZERO_TILE / RM_THREADS };

/* For floats all bits but the sign count: -0 is zero, NaN is not. */
template <class T>
static inline unsigned rm_nonzero_lanes(const T *x, long long i, long long length, bool is_float) {
  const T mask = is_float ? (T)((T)-1 >> 1) : (T)-1;
  return __ballot_sync(RM_ALL_LANES, i < length && (T)(x[i] & mask) != 0);
}

template <class T>
static inline void rm_count_nonzero(unsigned long long *counts, const T *x, long long length,
                                    long long is_float) {
  __shared__ unsigned warps[RM_MAX_WARPS];
  const long long first = (long long)blockIdx.x * RM_NONZERO_TILE +
                          rm_warp() * RM_WARP * RM_NONZERO_STEPS;
  unsigned count = 0;
#pragma unroll
  for (int s = 0; s < RM_NONZERO_STEPS; s++) {
    const long long i = first + s * RM_WARP + rm_lane();
    count += (unsigned)__popc(rm_nonzero_lanes(x, i, length, is_float != 0));
  }
  unsigned total;
  rm_block_prefix_sum(rm_lane() == 0 ? count : 0, warps, &total);
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

/* Writes only as many positions as fit. */
template <class T>
static inline void rm_write_nonzero(int *out, const unsigned long long *counts, const T *x,
                                    long long length, long long is_float, long long capacity) {
  __shared__ unsigned warps[RM_MAX_WARPS];
  const long long first = (long long)blockIdx.x * RM_NONZERO_TILE +
                          rm_warp() * RM_WARP * RM_NONZERO_STEPS;
  unsigned lanes[RM_NONZERO_STEPS], count = 0;
#pragma unroll
  for (int s = 0; s < RM_NONZERO_STEPS; s++) {
    lanes[s] = rm_nonzero_lanes(x, first + s * RM_WARP + rm_lane(), length, is_float != 0);
    count += (unsigned)__popc(lanes[s]);
  }
  unsigned total;
  unsigned before = rm_block_prefix_sum(rm_lane() == 0 ? count : 0, warps, &total);
  before = __shfl_sync(RM_ALL_LANES, before, 0);
  long long to = (long long)counts[blockIdx.x] + before;
#pragma unroll
  for (int s = 0; s < RM_NONZERO_STEPS; s++) {
    const long long at = to + __popc(lanes[s] & rm_lanes_before());
    if ((lanes[s] >> rm_lane() & 1) != 0 && at < capacity) {
      out[at] = (int)(first + s * RM_WARP + rm_lane());
    }
    to += __popc(lanes[s]);
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

#define RM_ADD_POSITIONS(name, P, R) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(P *positions, rm_indices indices, long long count, rm_block<R> axes) { \
    rm_add_positions(positions, indices, count, axes); \
  }

#define RM_MOVE_ELEMENTS(name, T, R) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(T *target, const T *source, rm_indices indices, long long count, long long axis, \
           long long scatter, rm_block<R> axes) { \
    rm_move_elements(target, source, indices, count, axis, scatter, axes); \
  }

#define RM_MOVE_BLOCKS(name) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(char *target, const char *source, rm_indices indices, long long count, long long parts, \
           long long part_bytes, long long step, long long bytes, long long position_stride, \
           long long lanes, long long scatter) { \
    rm_move_blocks(target, source, indices, count, parts, part_bytes, step, bytes, \
                   position_stride, lanes, scatter); \
  }

#define RM_ADD_SORTED(name, D, R) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(D::stored *target, const void *values, rm_sorted_indices indices, long long stride, \
           D::value *sums, long long *positions, long long elements, rm_block<R> axes) { \
    rm_add_sorted<D>(target, values, indices, stride, sums, positions, elements, axes); \
  }

#define RM_MARK_INDICES(name) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(unsigned *marks, unsigned long long *keys, long long slots, rm_indices indices, \
           long long count) { \
    rm_mark_indices(marks, keys, slots, indices, count); \
  }

#define RM_SELECT_LAST(name) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(long long *selected, unsigned *marks, unsigned long long *keys, long long slots, \
           rm_indices indices, long long count) { \
    rm_select_last(selected, marks, keys, slots, indices, count); \
  }

#define RM_COUNT_NONZERO(name, T) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(unsigned long long *counts, const T *x, long long length, long long is_float) { \
    rm_count_nonzero(counts, x, length, is_float); \
  }

#define RM_WRITE_NONZERO(name, T) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(int *out, const unsigned long long *counts, const T *x, long long length, \
           long long is_float, long long capacity) { \
    rm_write_nonzero(out, counts, x, length, is_float, capacity); \
  }

#endif
