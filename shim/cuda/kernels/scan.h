/*
 * Cumulative sums and products along an axis.
 *
 * If there are few long runs, they are split into parts: a kernel of reduce.h reduces each part
 * first, and every part starts with the result of the parts before it. Along a run, lanes process
 * adjacent elements and pass their results to the lanes after them. If adjacent runs are adjacent
 * in memory, each thread has one run.
 *
 * A source defines an op for the dtypes of elements and results,
 *
 *   struct cumulativeSum_f32_f32 : rm_scan_op<rm_f32, rm_f32, rm_f64, 4> {
 *     static acc identity() { return 0; }
 *     static acc combine(acc a, acc x) { return (a + x); }
 *   };
 *
 * and its kernels with the macros at the end. This file does not know what a scan computes.
 */
#ifndef ROWMAJOR_CUDA_SCAN_H
#define ROWMAJOR_CUDA_SCAN_H

#include "block.h"

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_SCAN_ALIGNED_IN) || !defined(RM_SCAN_ALIGNED_OUT)
#error "scan.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

/* An op: the dtypes of elements and results, that of the accumulator, which has 8 bytes, and the
 * elements of a pack. */
template <typename In, typename Out, typename Acc, int PACK>
struct rm_scan_op {
  typedef In in;
  typedef Out out;
  typedef Acc accumulator;
  typedef typename Acc::value acc;
  static constexpr int pack = PACK;
};

enum {
  /* Rows that a thread loads at once if runs are adjacent; half as many of 8-byte elements. */
  RM_SCAN_ROWS = 8
};

/* Flags: RM_SCAN_ALIGNED_IN if packs of the input can be loaded at once, RM_SCAN_ALIGNED_OUT if
 * packs of the output can be stored at once. The axes are those of the runs; the steps go along a
 * run. The workspace holds the result of each part of each run. */
template <int RANK>
struct rm_scan_params {
  int64_t runs;
  int64_t count;
  int64_t parts;
  int64_t length;
  int64_t lanes;
  int64_t flags;
  void *out;
  const void *a;
  const void *workspace;
  int64_t to_step;
  int64_t from_step;
  int64_t rank;
  rm_axis<2> axes[RANK];
};

template <typename Op>
static inline typename Op::acc rm_scan_read(typename Op::in::stored v) {
  return Op::accumulator::get(rm_cast<typename Op::accumulator, typename Op::in>(v));
}
template <typename Op>
static inline typename Op::out::stored rm_scan_write(typename Op::acc a) {
  return rm_cast<typename Op::out, typename Op::accumulator>(Op::accumulator::put(a));
}

/* Returns the combined values of the lanes of a run before this one, and in *all those of all
 * lanes. */
template <typename Op>
static inline typename Op::acc rm_scan_lanes(typename Op::acc a, int lane, int lanes,
                                             typename Op::acc *all) {
  typedef typename Op::acc Acc;
  __shared__ Acc warps[RM_THREADS / 32];
  const int width = rm_min(lanes, 32), inner = lane & (width - 1), warp = threadIdx.x / 32;
  Acc sum = a;
  for (int distance = 1; distance < width; distance <<= 1) {
    const Acc other = __shfl_up_sync(RM_ALL_LANES, sum, distance, width);
    if (inner >= distance) sum = Op::combine(other, sum);
  }
  Acc before = __shfl_up_sync(RM_ALL_LANES, sum, 1, width);
  if (inner == 0) before = Op::identity();
  *all = __shfl_sync(RM_ALL_LANES, sum, width - 1, width);
  if (lanes <= 32) return before;
  if (inner == 31) warps[warp] = sum;
  __syncthreads();
  const int first = warp - lane / 32, last = first + lanes / 32;
  Acc prefix = Op::identity(), total = Op::identity();
  for (int k = first; k < last; k++) {
    if (k == warp) prefix = total;
    total = Op::combine(total, warps[k]);
  }
  __syncthreads();
  *all = total;
  return Op::combine(prefix, before);
}

/* Combines the parts [from, to) of a run. */
template <typename Op>
static inline typename Op::acc rm_scan_parts(const void *workspace, int64_t from, int64_t to) {
  typename Op::acc a = Op::identity();
  for (int64_t k = from; k < to; k++) a = Op::combine(a, ((const typename Op::acc *)workspace)[k]);
  return a;
}

/* A pack as words. Elements that some branch loads alone would be unpacked at its end elsewhere,
 * which waits for the load. */
template <typename T, int N>
struct rm_scan_words {
  static constexpr int LENGTH = sizeof(T) * N / 4;
  uint32_t at[LENGTH];
  inline void put(int i, T x) {
    uint32_t bits[sizeof(T) < 4 ? 1 : sizeof(T) / 4] = {};
    memcpy(bits, &x, sizeof x);
    const int place = i * (int)sizeof(T);
    if constexpr (sizeof(T) < 4) at[place / 4] |= bits[0] << (place % 4 * 8);
    else memcpy(at + place / 4, bits, sizeof x);
  }
};

/* Loads the elements [n, last) of a run, at most a pack. */
template <int N, typename T, typename Offset>
static inline rm_scan_words<T, N> rm_scan_load(const T *p, Offset n, Offset last, Offset step,
                                               bool aligned) {
  rm_scan_words<T, N> x = {};
  if (aligned && n + N <= last) {
    const rm_pack<T, N> pack = rm_load<N>(p + n);
    memcpy(&x, &pack, sizeof x);
  } else {
    RM_UNROLL for (int i = 0; i < N; i++) {
      if (n + i < last) x.put(i, p[(n + i) * step]);
    }
  }
  return x;
}

template <typename Op, int RANK, typename Bits>
static inline void rm_scan_along(const rm_scan_params<RANK> &params) {
  typedef typename Op::acc Acc;
  typedef typename Op::in::stored In;
  typedef typename Op::out::stored Out;
  typedef typename Bits::offset Offset;
  constexpr int N = Op::pack;
  const int lanes = (int)params.lanes, block_runs = RM_THREADS / lanes;
  const int lane = threadIdx.x & (lanes - 1);
  const Offset run = (Offset)blockIdx.x * block_runs + (Offset)(threadIdx.x / lanes);
  const Offset part = (Offset)blockIdx.y;
  const bool valid = run < params.runs;
  Offset at[2] = {};
  if (valid) rm_seek<Bits>(params.axes, 0, (int)params.rank, (typename Bits::index)run, at);
  const In *const p = (const In *)params.a + at[1];
  Out *const out = (Out *)params.out + at[0];
  const Offset to_step = (Offset)params.to_step, from_step = (Offset)params.from_step;
  const Offset first = part * (Offset)params.length;
  const Offset last = (Offset)rm_min(first + params.length, params.count);
  /* No elements for threads without a run. */
  const Offset own_last = valid ? last : 0;
  const bool aligned = (params.flags & RM_SCAN_ALIGNED_IN) != 0;
  const Offset stride = (Offset)lanes * N;
  Offset n = first + (Offset)lane * N;
  rm_scan_words<In, N> next = rm_scan_load<N>(p, n, own_last, from_step, aligned);
  Acc carry = Op::identity();
  if (params.workspace != nullptr) {
    const Offset share = (part + lanes - 1) / lanes, own = rm_min<Offset>(lane * share, part);
    const Offset end = rm_min<Offset>(own + share, part);
    const int64_t origin = (int64_t)run * params.parts;
    const Acc a = valid ? rm_scan_parts<Op>(params.workspace, origin + own, origin + end) : carry;
    rm_scan_lanes<Op>(a, lane, lanes, &carry);
  }
  /* All threads of a block iterate equally often, because they wait for each other. */
  for (Offset from = first; from < last; from += stride, n += stride) {
    rm_pack<In, N> x;
    memcpy(&x, &next, sizeof x);
    next = rm_scan_load<N>(p, n + stride, own_last, from_step, aligned);
    Acc sum[N];
    Acc a = Op::identity();
    RM_UNROLL for (int i = 0; i < N; i++) {
      if (n + i < own_last) a = Op::combine(a, rm_scan_read<Op>(x.at[i]));
      sum[i] = a;
    }
    Acc all;
    const Acc before = Op::combine(carry, rm_scan_lanes<Op>(a, lane, lanes, &all));
    carry = Op::combine(carry, all);
    rm_pack<Out, N> result;
    RM_UNROLL for (int i = 0; i < N; i++) {
      result.at[i] = rm_scan_write<Op>(Op::combine(before, sum[i]));
    }
    if (n + N <= own_last && (params.flags & RM_SCAN_ALIGNED_OUT) != 0) {
      rm_store(out + n, result);
    } else {
      RM_UNROLL for (int i = 0; i < N; i++) {
        if (n + i < own_last) out[(n + i) * to_step] = result.at[i];
      }
    }
  }
}

/* Scans the rows in `next`, but first loads the ones after them. With GUARD, only those among the
 * `left` rows from this one on. */
template <typename Op, bool GUARD, int ROWS, typename Offset>
static inline void rm_scan_rows(typename Op::in::stored (&next)[ROWS],
                                const typename Op::in::stored *from, Offset from_step,
                                typename Op::out::stored *to, Offset to_step, Offset left,
                                typename Op::acc &a) {
  typename Op::in::stored x[ROWS];
  RM_UNROLL for (int k = 0; k < ROWS; k++) {
    x[k] = next[k];
    if (!GUARD || ROWS + k < left) next[k] = *from;
    from += from_step;
  }
  RM_UNROLL for (int k = 0; k < ROWS; k++) {
    if (!GUARD || k < left) {
      a = Op::combine(a, rm_scan_read<Op>(x[k]));
      *to = rm_scan_write<Op>(a);
    }
    to += to_step;
  }
}

template <typename Op, int RANK, typename Bits>
static inline void rm_scan_across(const rm_scan_params<RANK> &params) {
  typedef typename Op::acc Acc;
  typedef typename Op::in::stored In;
  typedef typename Op::out::stored Out;
  typedef typename Bits::offset Offset;
  const Offset run = (Offset)rm_global_index(), part = (Offset)blockIdx.y;
  if (run >= params.runs) return;
  Offset at[2] = {};
  rm_seek<Bits>(params.axes, 0, (int)params.rank, (typename Bits::index)run, at);
  const In *const p = (const In *)params.a + at[1];
  Out *const out = (Out *)params.out + at[0];
  const Offset to_step = (Offset)params.to_step, from_step = (Offset)params.from_step;
  const Offset first = part * (Offset)params.length;
  const Offset last = (Offset)rm_min(first + params.length, params.count);
  Acc a = Op::identity();
  if (params.workspace != nullptr) {
    const int64_t origin = (int64_t)run * params.parts;
    a = rm_scan_parts<Op>(params.workspace, origin, origin + part);
  }
  constexpr int ROWS = sizeof(In) == 8 ? RM_SCAN_ROWS / 2 : RM_SCAN_ROWS;
  In next[ROWS] = {};
  RM_UNROLL for (int k = 0; k < ROWS; k++) {
    if (first + k < last) next[k] = p[(int64_t)(first + k) * from_step];
  }
  Offset n = first;
#pragma unroll 1
  for (; n + 2 * ROWS <= last; n += ROWS) {
    rm_scan_rows<Op, false>(next, p + (int64_t)(n + ROWS) * from_step, from_step, out + n * to_step, to_step,
                            last - n, a);
  }
#pragma unroll 1
  for (; n < last; n += ROWS) {
    rm_scan_rows<Op, true>(next, p + (int64_t)(n + ROWS) * from_step, from_step, out + n * to_step, to_step,
                           last - n, a);
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

#define RM_SCAN_KERNEL(name, axes, body) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(const rm_scan_params<axes> params) { \
    body; \
  }
#define RM_SCAN_ALONG(op) \
  RM_SCAN_KERNEL(op##_along, RM_FEW_AXES, (rm_scan_along<op, RM_FEW_AXES, rm_index32>(params)))
#define RM_SCAN_ACROSS(op) \
  RM_SCAN_KERNEL(op##_across, RM_FEW_AXES, (rm_scan_across<op, RM_FEW_AXES, rm_index32>(params)))
#define RM_SCAN_ALONG_GENERIC(op) \
  RM_SCAN_KERNEL(op##_along_generic, RM_MAX_AXES, \
                 (rm_scan_along<op, RM_MAX_AXES, rm_index64>(params)))
#define RM_SCAN_ACROSS_GENERIC(op) \
  RM_SCAN_KERNEL(op##_across_generic, RM_MAX_AXES, \
                 (rm_scan_across<op, RM_MAX_AXES, rm_index64>(params)))

#endif
