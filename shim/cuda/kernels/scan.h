/*
 * Running sums and products along an axis.
 *
 * Runs that are few and long are cut into parts: a kernel of fold.h folds each part first, and
 * every part begins with what those before it make. Along a run, lanes take elements that lie side
 * by side and pass what they make to the lanes after them; where runs lie side by side, each thread
 * has one.
 *
 * A source defines a row for one dtype of elements and one of results,
 *
 *   struct cumulativeSum_f32_f32 : rm_scan_row<rm_f32, rm_f32, rm_f64, 4> {
 *     static acc start() { return 0; }
 *     static acc fold(acc a, acc x) { return (a + x); }
 *   };
 *
 * and then its kernels by the macros at the end. Knows nothing of what a scan means.
 */
#ifndef ROWMAJOR_CUDA_SCAN_H
#define ROWMAJOR_CUDA_SCAN_H

#include "device.h"

/* Defined by the source that includes this: see src/backend/cuda/constants.ts. */
#if !defined(RM_SCAN_ALIGNED_IN) || !defined(RM_SCAN_ALIGNED_OUT)
#error "scan.h needs the constants of src/backend/cuda/constants.ts"
#endif

/* A row: the dtypes of elements and of results, that of the accumulator, of 8 bytes, and how many
 * elements a lane takes at once. */
template <typename In, typename Out, typename Acc, int PACK>
struct rm_scan_row {
  typedef In in;
  typedef Out out;
  typedef Acc wide;
  typedef typename Acc::value acc;
  static constexpr int pack = PACK;
};

enum {
  /* Rows that a thread has on their way where runs lie side by side. */
  RM_SCAN_ROWS = 4
};

/*
 * Flags: 1 where packs of the input can be moved at once, 2 where those of the output can. The axes
 * are those of the runs; the steps go along a run. Scratch has what each part of each run comes to.
 */
template <int RANK>
struct rm_scan_job {
  int64_t runs;
  int64_t count;
  int64_t parts;
  int64_t length;
  int64_t lanes;
  int64_t flags;
  void *out;
  const void *a;
  const void *scratch;
  int64_t to_step;
  int64_t from_step;
  int64_t rank;
  rm_axis<2> axes[RANK];
};

template <typename Row>
static inline typename Row::acc rm_scan_read(typename Row::in::stored v) {
  return Row::wide::get(rm_cast<typename Row::wide, typename Row::in>(v));
}
template <typename Row>
static inline typename Row::out::stored rm_scan_write(typename Row::acc a) {
  return rm_cast<typename Row::out, typename Row::wide>(Row::wide::put(a));
}

/*
 * Of the lanes of one run, what those before this one come to, and, in *all, what all do.
 */
template <typename Row>
static inline typename Row::acc rm_scan_lanes(typename Row::acc a, int lane, int lanes,
                                              typename Row::acc *all) {
  typedef typename Row::acc Acc;
  __shared__ Acc warps[RM_THREADS / 32];
  const int width = rm_min(lanes, 32), inner = lane & (width - 1), warp = threadIdx.x / 32;
  Acc sum = a;
  for (int apart = 1; apart < width; apart <<= 1) {
    const Acc other = __shfl_up_sync(0xffffffffu, sum, apart, width);
    if (inner >= apart) sum = Row::fold(other, sum);
  }
  Acc before = __shfl_up_sync(0xffffffffu, sum, 1, width);
  if (inner == 0) before = Row::start();
  *all = __shfl_sync(0xffffffffu, sum, width - 1, width);
  if (lanes <= 32) return before;
  if (inner == 31) warps[warp] = sum;
  __syncthreads();
  const int first = warp - lane / 32, last = first + lanes / 32;
  Acc prefix = Row::start(), total = Row::start();
  for (int k = first; k < last; k++) {
    if (k == warp) prefix = total;
    total = Row::fold(total, warps[k]);
  }
  __syncthreads();
  *all = total;
  return Row::fold(prefix, before);
}

/* What the parts [from, to) of a run come to. */
template <typename Row>
static inline typename Row::acc rm_scan_parts(const void *scratch, int64_t from, int64_t to) {
  typename Row::acc a = Row::start();
  for (int64_t k = from; k < to; k++) a = Row::fold(a, ((const typename Row::acc *)scratch)[k]);
  return a;
}

template <typename Row, int RANK, typename Bits>
static inline void rm_scan_along(const rm_scan_job<RANK> &job) {
  typedef typename Row::acc Acc;
  typedef typename Row::in::stored In;
  typedef typename Row::out::stored Out;
  typedef typename Bits::offset Offset;
  constexpr int N = Row::pack;
  const int lanes = (int)job.lanes, slots = RM_THREADS / lanes;
  const int lane = threadIdx.x & (lanes - 1);
  const Offset run = (Offset)blockIdx.x * slots + (Offset)(threadIdx.x / lanes);
  const Offset part = (Offset)blockIdx.y;
  const bool valid = run < job.runs;
  Offset at[2] = {};
  if (valid) rm_seek<Bits>(job.axes, 0, (int)job.rank, (typename Bits::index)run, at);
  const In *const p = (const In *)job.a + at[1];
  Out *const out = (Out *)job.out + at[0];
  const Offset to_step = (Offset)job.to_step, from_step = (Offset)job.from_step;
  const Offset first = part * (Offset)job.length;
  const Offset last = (Offset)rm_min(first + job.length, job.count);
  Acc carry = Row::start();
  if (job.scratch != nullptr) {
    const Offset share = (part + lanes - 1) / lanes, own = rm_min<Offset>(lane * share, part);
    const Offset end = rm_min<Offset>(own + share, part);
    const int64_t origin = (int64_t)run * job.parts;
    const Acc a = valid ? rm_scan_parts<Row>(job.scratch, origin + own, origin + end) : carry;
    rm_scan_lanes<Row>(a, lane, lanes, &carry);
  }
  /* As often for all threads of a block, as they wait for each other. */
  for (Offset from = first; from < last; from += (Offset)lanes * N) {
    const Offset n = from + (Offset)lane * N;
    const bool whole = valid && n + N <= last;
    rm_pack<In, N> x = {};
    if (whole && (job.flags & RM_SCAN_ALIGNED_IN) != 0) {
      x = rm_load<N>(p + n);
    } else {
      RM_UNROLL for (int i = 0; i < N; i++) {
        if (valid && n + i < last) x.at[i] = p[(n + i) * from_step];
      }
    }
    Acc sum[N];
    Acc a = Row::start();
    RM_UNROLL for (int i = 0; i < N; i++) {
      if (valid && n + i < last) a = Row::fold(a, rm_scan_read<Row>(x.at[i]));
      sum[i] = a;
    }
    Acc all;
    const Acc before = Row::fold(carry, rm_scan_lanes<Row>(a, lane, lanes, &all));
    carry = Row::fold(carry, all);
    rm_pack<Out, N> result;
    RM_UNROLL for (int i = 0; i < N; i++) {
      result.at[i] = rm_scan_write<Row>(Row::fold(before, sum[i]));
    }
    if (whole && (job.flags & RM_SCAN_ALIGNED_OUT) != 0) {
      rm_store(out + n, result);
    } else {
      RM_UNROLL for (int i = 0; i < N; i++) {
        if (valid && n + i < last) out[(n + i) * to_step] = result.at[i];
      }
    }
  }
}

template <typename Row, int RANK, typename Bits>
static inline void rm_scan_across(const rm_scan_job<RANK> &job) {
  typedef typename Row::acc Acc;
  typedef typename Row::in::stored In;
  typedef typename Row::out::stored Out;
  typedef typename Bits::offset Offset;
  const Offset run = (Offset)rm_global_index(), part = (Offset)blockIdx.y;
  if (run >= job.runs) return;
  Offset at[2] = {};
  rm_seek<Bits>(job.axes, 0, (int)job.rank, (typename Bits::index)run, at);
  const In *const p = (const In *)job.a + at[1];
  Out *const out = (Out *)job.out + at[0];
  const Offset to_step = (Offset)job.to_step, from_step = (Offset)job.from_step;
  const Offset first = part * (Offset)job.length;
  const Offset last = (Offset)rm_min(first + job.length, job.count);
  Acc a = Row::start();
  if (job.scratch != nullptr) {
    const int64_t origin = (int64_t)run * job.parts;
    a = rm_scan_parts<Row>(job.scratch, origin, origin + part);
  }
  Offset n = first;
  for (; n + RM_SCAN_ROWS <= last; n += RM_SCAN_ROWS) {
    In x[RM_SCAN_ROWS];
    RM_UNROLL for (int k = 0; k < RM_SCAN_ROWS; k++) x[k] = p[(n + k) * from_step];
    RM_UNROLL for (int k = 0; k < RM_SCAN_ROWS; k++) {
      a = Row::fold(a, rm_scan_read<Row>(x[k]));
      out[(n + k) * to_step] = rm_scan_write<Row>(a);
    }
  }
#pragma unroll 1
  for (; n < last; n++) {
    a = Row::fold(a, rm_scan_read<Row>(p[n * from_step]));
    out[n * to_step] = rm_scan_write<Row>(a);
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

#define RM_SCAN_KERNEL(name, axes, body) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(const rm_scan_job<axes> job) { \
    body; \
  }
#define RM_SCAN_ALONG(row) \
  RM_SCAN_KERNEL(row##_along, RM_FEW_AXES, \
                 (rm_scan_along<row, RM_FEW_AXES, rm_narrow>(job)))
#define RM_SCAN_ACROSS(row) \
  RM_SCAN_KERNEL(row##_across, RM_FEW_AXES, \
                 (rm_scan_across<row, RM_FEW_AXES, rm_narrow>(job)))
#define RM_SCAN_ALONG_ANY(row) \
  RM_SCAN_KERNEL(row##_along_any, RM_MOST_AXES, \
                 (rm_scan_along<row, RM_MOST_AXES, rm_wide>(job)))
#define RM_SCAN_ACROSS_ANY(row) \
  RM_SCAN_KERNEL(row##_across_any, RM_MOST_AXES, \
                 (rm_scan_across<row, RM_MOST_AXES, rm_wide>(job)))

#endif
