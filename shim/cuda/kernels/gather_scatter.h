/*
 * Moves elements by indexes: blocks to and from where they say, several of them to positions, the
 * places of what is not zero; what shim/move.c does.
 *
 * Positions are int32, or int64 in huge storages. What an index picks that is out of range is skipped,
 * and the index leaves a note in the faults of the device, which are read with any result.
 */
#ifndef ROWMAJOR_CUDA_MOVE_H
#define ROWMAJOR_CUDA_MOVE_H

#include "block.h"

/* Defined by the source that includes this: see src/backend/cuda/constants.ts. */
#if !defined(RM_NONZERO_TILE) || !defined(RM_ADD_CHUNK) || !defined(RM_INDEX_SIGNED) || \
    !defined(RM_FAULT_WORDS)
#error "gather_scatter.h needs the constants of src/backend/cuda/constants.ts"
#endif

/* An axis of a block: its size, and the steps of the two operands along it, the target's first. */
struct rm_block_axis {
  long long size, to, from;
};

/* At most R axes, outermost first. */
template <int R>
struct rm_block {
  long long rank;
  rm_block_axis at[R];
};

/* Where element i of `count` lies in both operands, and its place along one of the axes. Most are few
 * enough for 32 bits, in which division takes a third of the time. */
template <int R>
static inline long long rm_find(const rm_block<R> &axes, long long i, long long count, int axis,
                                long long *to, long long *from) {
  long long place = 0;
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
      if (j == axis) place = along;
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
      if (j == axis) place = along;
    }
  }
  *to += i * axes.at[0].to;
  *from += i * axes.at[0].from;
  return axis == 0 ? i : place;
}

/* ---- indexes ----------------------------------------------------------------------------------- */

/* A position that is skipped: no axis has such an index. */
static inline bool rm_is_skipped(int position) { return position == -2147483647 - 1; }
static inline bool rm_is_skipped(long long position) {
  return position == -0x7fffffffffffffffll - 1;
}
static inline void rm_skip(int *position) { *position = -2147483647 - 1; }
static inline void rm_skip(long long *position) { *position = -0x7fffffffffffffffll - 1; }

/* Those of uint64 that int64 does not hold become negative ones that no size reaches. */
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

/*
 * What went wrong first: the number of the call, or 0; the least place of a bad index in it, above
 * the lower half of that index; the same above the upper half; and the size of the axis. Places from
 * 2^32 on count as one.
 */
struct rm_faults {
  unsigned long long call, low, high;
  long long size;
};
static_assert(sizeof(rm_faults) == 8 * RM_FAULT_WORDS, "the size of the faults");

static inline void rm_note_fault(rm_faults *faults, unsigned long long call, long long place,
                                 long long index, long long size) {
  const unsigned long long before = atomicCAS(&faults->call, 0ull, call);
  if (before != 0 && before != call) return;
  const unsigned long long most = 0xffffffffull;
  const unsigned long long key = ((unsigned long long)place < most ? place : most) << 32;
  const unsigned long long bits = (unsigned long long)index;
  atomicMin(&faults->low, key | (bits & most));
  atomicMin(&faults->high, key | bits >> 32);
  faults->size = size;
}

/* Integers that pick from an axis. Faults may be null, where bad ones have been noted before. */
struct rm_picks {
  const void *at;
  /* Bytes of an index, and 16 where they are signed. */
  long long type, size, stride;
  rm_faults *faults;
  unsigned long long call;

  /* The place, from 0 to size - 1, of index i, which lies at `from`; false, and a note, for one that
   * is out of range. */
  inline bool place(long long from, long long i, long long *found) const {
    const long long index = rm_read_index(at, (int)(type & (RM_INDEX_SIGNED - 1)), (type & RM_INDEX_SIGNED) != 0, from);
    *found = index + (index < 0 ? size : 0);
    if (index >= -size && index < size) return true;
    if (faults != nullptr) rm_note_fault(faults, call, i, index, size);
    return false;
  }

  /* How far pick i lies from the first place of the axis. */
  inline bool read(long long i, long long *position) const {
    const bool is_there = place(i, i, position);
    *position *= stride;
    return is_there;
  }
};

/* The first axis of `axes` belongs to the positions, the other one to the indexes. */
template <class P, int R>
static inline void rm_add_positions(P *positions, rm_picks picks, long long count,
                                    const rm_block<R> &axes) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  long long to = 0, from = 0, place;
  rm_find(axes, i, count, 0, &to, &from);
  P *position = positions + to;
  if (rm_is_skipped(*position)) return;
  if (picks.place(from, i, &place)) *position += (P)(place * picks.stride);
  else rm_skip(position);
}

/* ---- gather and scatter ------------------------------------------------------------------------ */

/*
 * An element to a thread. One axis, of which the source or, for a scatter, the target lies where it
 * is picked, has the number `axis`.
 */
template <class T, int R>
static inline void rm_move_elements(T *target, const T *source, rm_picks picks, long long count,
                                    long long axis, long long scatter, const rm_block<R> &axes) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    long long to = 0, from = 0, position;
    const long long pick = rm_find(axes, i, count, (int)axis, &to, &from);
    if (!picks.read(pick, &position)) continue;
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
#pragma unroll(sizeof(U) == 16 ? 4 : 1)
  for (long long i = lane; i < n; i += lanes) out[i] = in[i];
}

/*
 * Blocks that are dense runs of `bytes` bytes, in so many pieces of `piece` bytes each, of which there
 * are `count` in all. Teams of `lanes` threads, a power of two, copy as many bytes at a time as both
 * ends are aligned to. Steps from run to run are in bytes, and so is `scale`, that of a position.
 */
static inline void rm_move_runs(char *target, const char *source, rm_picks picks,
                                long long count, long long pieces, long long piece,
                                long long step, long long bytes, long long scale,
                                long long lanes, long long scatter) {
  const int lane = (int)threadIdx.x & (int)(lanes - 1);
  const int teams = (int)blockDim.x / (int)lanes, team = (int)threadIdx.x / (int)lanes;
  const long long each = (long long)gridDim.x * teams;
  for (long long i = (long long)blockIdx.x * teams + team; i < count; i += each) {
    const long long run = pieces == 1 ? i : i / pieces, begin = (i - run * pieces) * piece;
    const long long n = rm_min(bytes - begin, piece);
    long long position;
    if (!picks.read(run, &position)) continue;
    position *= scale;
    char *to = target + (scatter != 0 ? position : run * step) + begin;
    const char *from = source + (scatter != 0 ? run * step : position) + begin;
    const unsigned grain = (unsigned)(size_t)to | (unsigned)(size_t)from | (unsigned)n;
    if ((grain & 15) == 0) rm_copy_run<rm_pack<uint32_t, 4>>(to, from, n, lane, (int)lanes);
    else if ((grain & 7) == 0) rm_copy_run<uint64_t>(to, from, n, lane, (int)lanes);
    else if ((grain & 3) == 0) rm_copy_run<uint32_t>(to, from, n, lane, (int)lanes);
    else if ((grain & 1) == 0) rm_copy_run<uint16_t>(to, from, n, lane, (int)lanes);
    else rm_copy_run<uint8_t>(to, from, n, lane, (int)lanes);
  }
}

/* ---- which of equal picks is the last ---------------------------------------------------------- */

/*
 * Of picks that have one place the last is to win, whatever the order in which threads run. Each marks
 * its place by its number, if that is the largest there; those that do not find their own number
 * afterwards are skipped. Marks are in an array over the axis, or, where that would be far longer than
 * the picks are many, in a hash table of `slots`, a power of two: keys, 0 where free, are one more
 * than the place.
 */
static inline long long rm_slot(unsigned long long *keys, long long slots, long long place) {
  if (keys == nullptr) return place;
  const unsigned long long key = (unsigned long long)place + 1;
  unsigned long long slot = key * 0x9e3779b97f4a7c15ull >> 20;
  for (;; slot++) {
    slot &= (unsigned long long)slots - 1;
    const unsigned long long found = atomicCAS(&keys[slot], 0ull, key);
    if (found == 0 || found == key) return (long long)slot;
  }
}

static inline void rm_mark_picks(unsigned *marks, unsigned long long *keys, long long slots,
                                 rm_picks picks, long long count) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  long long place;
  if (i >= count || !picks.place(i, i, &place)) return;
  atomicMax(&marks[rm_slot(keys, slots, place)], (unsigned)i + 1);
}

/* Copies places to kept, those that are not the last of theirs as skipped. */
static inline void rm_keep_last(long long *kept, unsigned *marks, unsigned long long *keys,
                                long long slots, rm_picks picks, long long count) {
  const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  long long place;
  const bool last = picks.place(i, i, &place) &&
                    marks[rm_slot(keys, slots, place)] == (unsigned)i + 1;
  if (last) kept[i] = place;
  else rm_skip(kept + i);
}

/* ---- scatter-add ------------------------------------------------------------------------------- */

/* Sorted picks of a chunk, and those of them that are read at once. */
enum { RM_ADD_STEPS = RM_SMALL ? 2 : 8 };

/*
 * Picks in the order of their places, which are int32 or, if wide, int64, and negative where a pick is
 * skipped. Without an order they lie sorted: sums of parts, whose values are as they are computed in,
 * and dense.
 */
struct rm_sorted {
  const void *places;
  const int *order;
  long long wide, count, step;

  inline int pick(long long i) const { return order == nullptr ? (int)i : order[i]; }
  inline long long place(int pick) const {
    return wide != 0 ? ((const long long *)places)[pick] : ((const int *)places)[pick];
  }
};

/*
 * Adds the values of equal places up, one element of all blocks of a chunk to a thread, and each sum
 * to target, which no other thread does, so that the order of threads shows nowhere. What is of a
 * place that other chunks have too goes to sums: two for each chunk, that of the place which the chunk
 * begins with and that of the one which it ends with. Those, with their places, are the picks of the
 * next launch, and so on until there is one chunk. So nothing is serial but the 32 picks of a chunk.
 */
template <class D, int R>
static inline void rm_add_sorted(typename D::stored *target, const void *values, rm_sorted picks,
                                 long long stride, typename D::value *sums, long long *places,
                                 long long elements, const rm_block<R> &axes) {
  typedef typename D::stored Stored;
  typedef typename D::value Sum;
  const long long i = rm_global_index();
  const long long count = (picks.count + RM_ADD_CHUNK - 1) / RM_ADD_CHUNK * elements;
  if (i >= count) return;
  /* What changes no number, not even -0. */
  const Sum nothing = (Sum)-0.0;
  long long to = 0, from = 0;
  /* Chunks are the first axis. */
  const long long chunk = rm_find(axes, i, count, 0, &to, &from), element = i - chunk * elements;
  const long long begin = chunk * RM_ADD_CHUNK, end = rm_min(begin + RM_ADD_CHUNK, picks.count);
  target += to;
  sums += 2 * chunk * elements + element;
  const long long first = picks.place(picks.pick(begin));
  const bool goes_on = begin > 0 && picks.place(picks.pick(begin - 1)) == first;
  /* The place whose values are under way, and whether this chunk has all of those so far. */
  long long last = first;
  bool whole = !goes_on;
  Sum sum = nothing;
#pragma unroll 1
  for (long long j = begin; j < end; j += RM_ADD_STEPS) {
    int pick[RM_ADD_STEPS];
    /* The places of these picks, after the last one before. */
    long long place[RM_ADD_STEPS + 1];
    Sum x[RM_ADD_STEPS];
    Stored old[RM_ADD_STEPS];
    place[0] = last;
    RM_UNROLL for (int k = 0; k < RM_ADD_STEPS; k++) {
      pick[k] = j + k < end ? picks.pick(j + k) : -1;
    }
    RM_UNROLL for (int k = 0; k < RM_ADD_STEPS; k++) {
      place[k + 1] = pick[k] < 0 ? place[k] : picks.place(pick[k]);
    }
    RM_UNROLL for (int k = 0; k < RM_ADD_STEPS; k++) {
      x[k] = nothing;
      old[k] = 0;
      if (pick[k] >= 0 && place[k + 1] >= 0) {
        if (picks.order == nullptr) x[k] = ((const Sum *)values)[pick[k] * elements + element];
        else x[k] = D::get(((const Stored *)values)[pick[k] * picks.step + from]);
      }
      if (place[k] != place[k + 1] && place[k] >= 0) old[k] = target[place[k] * stride];
    }
    RM_UNROLL for (int k = 0; k < RM_ADD_STEPS; k++) {
      if (place[k] != place[k + 1]) {
        if (!whole) sums[0] = sum;
        else if (place[k] >= 0) target[place[k] * stride] = D::put((Sum)(D::get(old[k]) + sum));
        sum = nothing;
        whole = true;
      }
      sum = (Sum)(sum + x[k]);
    }
    last = place[RM_ADD_STEPS];
  }
  const bool stays = end < picks.count && picks.place(picks.pick(end)) == last;
  if (!whole) {
    sums[0] = sum;
    if (stays) sums[elements] = nothing;
  } else if (stays) {
    sums[elements] = sum;
  } else if (last >= 0) {
    target[last * stride] = D::put((Sum)(D::get(target[last * stride]) + sum));
  }
  if (places == nullptr || element > 0) return;
  places[2 * chunk] = goes_on ? first : -1;
  places[2 * chunk + 1] = stays ? last : -1;
}

/* ---- what is not zero -------------------------------------------------------------------------- */

/* A block looks at a tile of elements; warp w at those from w * 32 * STEPS on. */
enum { RM_FIND_STEPS = RM_NONZERO_TILE / RM_THREADS };

/* Of floats all bits but the sign count: -0 is zero, NaN is not. */
template <class T>
static inline unsigned rm_find_lanes(const T *x, long long i, long long length, bool floating) {
  const T mask = floating ? (T)((T)-1 >> 1) : (T)-1;
  return __ballot_sync(RM_ALL_LANES, i < length && (T)(x[i] & mask) != 0);
}

template <class T>
static inline void rm_count_nonzero(unsigned long long *counts, const T *x, long long length,
                                    long long floating) {
  __shared__ unsigned warps[RM_MOST_WARPS];
  const long long first =
      (long long)blockIdx.x * RM_NONZERO_TILE + rm_warp() * RM_WARP * RM_FIND_STEPS;
  unsigned count = 0;
#pragma unroll
  for (int s = 0; s < RM_FIND_STEPS; s++) {
    const long long i = first + s * RM_WARP + rm_lane();
    count += (unsigned)__popc(rm_find_lanes(x, i, length, floating != 0));
  }
  unsigned total;
  rm_block_before(rm_lane() == 0 ? count : 0, warps, &total);
  if (threadIdx.x == 0) counts[blockIdx.x] = total;
}

/* Writes no more than there is room for. */
template <class T>
static inline void rm_write_nonzero(int *out, const unsigned long long *counts, const T *x,
                                    long long length, long long floating, long long room) {
  __shared__ unsigned warps[RM_MOST_WARPS];
  const long long first =
      (long long)blockIdx.x * RM_NONZERO_TILE + rm_warp() * RM_WARP * RM_FIND_STEPS;
  unsigned lanes[RM_FIND_STEPS], count = 0;
#pragma unroll
  for (int s = 0; s < RM_FIND_STEPS; s++) {
    lanes[s] = rm_find_lanes(x, first + s * RM_WARP + rm_lane(), length, floating != 0);
    count += (unsigned)__popc(lanes[s]);
  }
  unsigned total;
  unsigned before = rm_block_before(rm_lane() == 0 ? count : 0, warps, &total);
  before = __shfl_sync(RM_ALL_LANES, before, 0);
  long long to = (long long)counts[blockIdx.x] + before;
#pragma unroll
  for (int s = 0; s < RM_FIND_STEPS; s++) {
    const long long at = to + __popc(lanes[s] & rm_lanes_before());
    if ((lanes[s] >> rm_lane() & 1) != 0 && at < room) {
      out[at] = (int)(first + s * RM_WARP + rm_lane());
    }
    to += __popc(lanes[s]);
  }
}

/* ---- kernels ----------------------------------------------------------------------------------- */

#define RM_ADD_POSITIONS(name, P, R)                                                               \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                                \
      name(P *positions, rm_picks picks, long long count, rm_block<R> axes) {                      \
    rm_add_positions(positions, picks, count, axes);                                               \
  }

#define RM_MOVE_ELEMENTS(name, T, R)                                                               \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                                \
      name(T *target, const T *source, rm_picks picks, long long count, long long axis,            \
           long long scatter, rm_block<R> axes) {                                                  \
    rm_move_elements(target, source, picks, count, axis, scatter, axes);                           \
  }

#define RM_MOVE_RUNS(name)                                                                         \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                                \
      name(char *target, const char *source, rm_picks picks, long long count,                      \
           long long pieces, long long piece, long long step, long long bytes, long long scale,    \
           long long lanes, long long scatter) {                                                   \
    rm_move_runs(target, source, picks, count, pieces, piece, step, bytes, scale, lanes,           \
                 scatter);                                                                         \
  }

#define RM_ADD_SORTED(name, D, R)                                                                  \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                                \
      name(D::stored *target, const void *values, rm_sorted picks, long long stride,               \
           D::value *sums, long long *places, long long elements, rm_block<R> axes) {              \
    rm_add_sorted<D>(target, values, picks, stride, sums, places, elements, axes);                 \
  }

#define RM_MARK_PICKS(name)                                                                        \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                                \
      name(unsigned *marks, unsigned long long *keys, long long slots, rm_picks picks,             \
           long long count) {                                                                      \
    rm_mark_picks(marks, keys, slots, picks, count);                                               \
  }

#define RM_KEEP_LAST(name)                                                                         \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                                \
      name(long long *kept, unsigned *marks, unsigned long long *keys, long long slots,            \
           rm_picks picks, long long count) {                                                      \
    rm_keep_last(kept, marks, keys, slots, picks, count);                                          \
  }

#define RM_COUNT_NONZERO(name, T)                                                                  \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                    \
      name(unsigned long long *counts, const T *x, long long length, long long floating) {         \
    rm_count_nonzero(counts, x, length, floating);                                                 \
  }

#define RM_WRITE_NONZERO(name, T)                                                                  \
  extern "C" __global__ void __launch_bounds__(RM_THREADS)                                    \
      name(int *out, const unsigned long long *counts, const T *x, long long length,               \
           long long floating, long long room) {                                                   \
    rm_write_nonzero(out, counts, x, length, floating, room);                                      \
  }

#endif
