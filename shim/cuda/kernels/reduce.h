/*
 * Reductions and index reductions.
 *
 * Threads of a block share outputs: some lanes take the elements of one output in turns, and what
 * they make is put together by a tree in shared memory. Where outputs are few, their elements are
 * cut into parts whose accumulators go to scratch memory, and a second kernel puts those together.
 * All of that is decided by sizes, so that results depend on nothing else, neither the order of
 * blocks nor how memory is aligned.
 *
 * A source defines a row for one dtype,
 *
 *   struct sum_f32_f32 : rm_fold_row<rm_f32, rm_f64, rm_f64, rm_f32, 4, 4> {
 *     typedef double work;
 *     typedef double acc;
 *     static acc start() { return 0; }
 *     static auto map(work x, work y, const double *at) { return x; }
 *     static acc fold(acc a, acc x, int64_t position) { return (a + x); }
 *     static acc join(acc a, acc x) { return (a + x); }
 *     static double finish(acc a, const double *at) { return a; }
 *   };
 *
 * and then its kernels by the macros at the end. Knows nothing of what a reduction means.
 */
#ifndef ROWMAJOR_CUDA_FOLD_H
#define ROWMAJOR_CUDA_FOLD_H

#include "device.h"

/* Defined by the source that includes this: see src/backend/cuda/constants.ts. */
#if !defined(RM_REDUCE_ROWS) || !defined(RM_REDUCE_PACKS) || !defined(RM_REDUCE_ALIGNED) || \
    !defined(RM_REDUCE_SECOND_VARIES)
#error "reduce.h needs the constants of src/backend/cuda/constants.ts"
#endif

/*
 * A row: the dtypes of its elements, of the second operand, of what finish gives and of the output;
 * how many elements a lane takes at once, and how many of those packs it keeps apart.
 */
template <typename In, typename Second, typename Result, typename Out, int PACK, int PACKS>
struct rm_fold_row {
  typedef In in;
  typedef Second second;
  typedef Result result;
  typedef Out out;
  static constexpr int pack = PACK;
  static constexpr int packs = PACKS;
};

/* A sum of doubles with what rounding has cut off. */
struct rm_exact {
  double sum;
  double error;
};
/* Knuth's TwoSum. */
static inline rm_exact rm_add_exactly(rm_exact a, double x) {
  const double sum = a.sum + x, w = sum - a.sum;
  return {sum, a.error + ((a.sum - (sum - w)) + (x - w))};
}
static inline rm_exact rm_join_exactly(rm_exact a, rm_exact b) {
  const rm_exact both = rm_add_exactly(a, b.sum);
  return {both.sum, both.error + b.error};
}
/* After an infinity the error is NaN, and the plain sum is right. */
static inline double rm_corrected(rm_exact a) {
  return a.error - a.error == 0 ? a.sum + a.error : a.sum;
}

/* An element and its place; -1 stands for none yet. */
template <typename T>
struct rm_found {
  T value;
  int64_t at;
};
/* The better one of two, by Row::better(x, a), or the first of two that are as good. */
template <typename Row, typename T>
static inline rm_found<T> rm_better(rm_found<T> a, rm_found<T> b) {
  if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
  const bool later = Row::better(b.value, a.value), earlier = Row::better(a.value, b.value);
  return later || (!earlier && b.at < a.at) ? b : a;
}

enum {
  /* Accumulators of a lane: registers are better spent on what is on its way. */
  RM_FOLD_ACCUMULATORS = 4
};

/*
 * Flags: 1 where elements are taken in packs, each of which has one distance from element to
 * element; 2 where packs can be moved at once; 4 where b varies among the elements of one output.
 * Lanes are a power of two of the threads. The axes are those of the outputs, kept ones, then those
 * of their elements, with the strides of out, a and b.
 */
template <int RANK>
struct rm_fold_job {
  int64_t outputs;
  int64_t count;
  int64_t parts;
  int64_t length;
  int64_t lanes;
  int64_t flags;
  double attributes[4];
  void *out;
  const void *a;
  const void *b;
  void *scratch;
  int64_t kept;
  int64_t rank;
  rm_axis<3> axes[RANK];
};

/*
 * Puts together what the lanes of each output have, in an order that depends on their number only;
 * the result is right in the first one. Neighbours are `apart` threads from each other.
 */
template <typename Row>
static inline typename Row::acc rm_join_lanes(typename Row::acc a, int lane, int lanes, int apart) {
  __shared__ typename Row::acc all[RM_THREADS];
  const int thread = threadIdx.x;
  all[thread] = a;
  __syncthreads();
  for (int half = lanes >> 1; half > 0; half >>= 1) {
    if (lane < half) all[thread] = a = Row::join(a, all[thread + half * apart]);
    __syncthreads();
  }
  return a;
}

/* Writes what an output has come to. */
template <typename Row, int RANK>
static inline void rm_finish(const rm_fold_job<RANK> &job, int64_t at, typename Row::acc a) {
  typedef typename Row::result Result;
  typedef typename Row::out Out;
  const auto result = (typename Result::value)Row::finish(a, job.attributes);
  ((typename Out::stored *)job.out)[at] = rm_cast<Out, Result>(Result::put(result));
}

/* An element of the second operand, if there is one. */
template <typename Row, typename Offset>
static inline typename Row::work rm_second(const void *b, Offset at) {
  typedef typename Row::second Second;
  return b == nullptr ? 0
                      : (typename Row::work)Second::get(((const typename Second::stored *)b)[at]);
}

/*
 * Folds; places among the elements of an output have as many bits as distances. With ACROSS,
 * neighbouring threads have neighbouring outputs, and lanes take single elements; without,
 * neighbouring threads are the lanes of one output, and take packs.
 */
template <typename Row, bool ACROSS, int RANK, typename Bits>
static inline void rm_fold(const rm_fold_job<RANK> &job) {
  typedef typename Row::in In;
  typedef typename In::stored Stored;
  typedef typename Row::acc Acc;
  typedef typename Row::work Work;
  typedef typename Bits::offset Offset;
  typedef typename Bits::index Index;
  constexpr int N = ACROSS ? 1 : Row::pack;
  /* Fewer of them where elements or distances take twice the registers. */
  constexpr bool LONG = sizeof(Stored) == 8 || sizeof(Offset) == 8;
  constexpr int ROWS = LONG ? RM_REDUCE_ROWS / 2 : RM_REDUCE_ROWS;
  constexpr int OWN = RM_SMALL && sizeof(Index) == 8 ? 1 : Row::packs;
  constexpr int PACKS = ACROSS && OWN > 1 ? ROWS : OWN;
  constexpr int ACCS = PACKS < RM_FOLD_ACCUMULATORS ? PACKS : RM_FOLD_ACCUMULATORS;
  const int thread = threadIdx.x, lanes = (int)job.lanes, slots = RM_THREADS / lanes;
  const int lane = ACROSS ? thread / slots : thread & (lanes - 1);
  const int slot = ACROSS ? thread & (slots - 1) : thread / lanes;
  const int kept = (int)job.kept, rank = (int)job.rank;
  const Offset unit = (Offset)blockIdx.x * slots + slot, part = (Offset)blockIdx.y;
  const bool valid = unit < job.outputs;
  Offset at[3] = {};
  if (valid) rm_seek<Bits>(job.axes, 0, kept, (Index)unit, at);
  const Stored *const p = (const Stored *)job.a + at[1];
  const bool varies = (job.flags & RM_REDUCE_SECOND_VARIES) != 0;
  Work y = 0;
  if (valid) y = rm_second<Row>(job.b, at[2]);
  const Offset from = part * (Offset)job.length;
  const Offset to = valid ? (Offset)rm_min(from + job.length, job.count) : from;
  const Offset stride = (Offset)lanes * N;
  Acc acc[ACCS];
  RM_UNROLL for (int k = 0; k < ACCS; k++) acc[k] = Row::start();
  Offset q = from + (Offset)lane * N;
  if ((job.flags & RM_REDUCE_PACKS) != 0) {
    const bool whole = (job.flags & RM_REDUCE_ALIGNED) != 0, single = rank == kept + 1;
    const Offset step = (Offset)job.axes[rank - 1].stride[1];
    for (; q + (PACKS - 1) * stride + N <= to; q += PACKS * stride) {
      rm_pack<Stored, N> x[PACKS];
      const Stored *next = p + (Offset)q * step;
      RM_UNROLL for (int k = 0; k < PACKS; k++) {
        if (!single) {
          Offset place[3] = {};
          rm_seek<Bits>(job.axes, kept, rank, (Index)(q + k * stride), place);
          next = p + place[1];
        }
        if (whole) {
          x[k] = rm_load<N>(next);
        } else {
          RM_UNROLL for (int i = 0; i < N; i++) x[k].at[i] = next[i * step];
        }
        next += (Offset)stride * step;
      }
      RM_UNROLL for (int k = 0; k < PACKS; k++) {
        RM_UNROLL for (int i = 0; i < N; i++) {
          const auto value = Row::map((Work)In::get(x[k].at[i]), y, job.attributes);
          acc[k % ACCS] = Row::fold(acc[k % ACCS], value, q + k * stride + i);
        }
      }
    }
    if constexpr (ACROSS && PACKS > 1) {
      /* The rows that are left over, all on their way at once too. */
      if (q < to) {
        Stored x[PACKS];
        const int left = (int)((to - q + stride - 1) / stride);
        const Stored *next = p + (Offset)q * step;
        RM_UNROLL for (int k = 0; k < PACKS; k++) {
          x[k] = 0;
          if (k >= left) continue;
          if (!single) {
            Offset place[3] = {};
            rm_seek<Bits>(job.axes, kept, rank, (Index)(q + k * stride), place);
            next = p + place[1];
          }
          x[k] = *next;
          next += (Offset)stride * step;
        }
        RM_UNROLL for (int k = 0; k < PACKS; k++) {
          if (k >= left) continue;
          const auto value = Row::map((Work)In::get(x[k]), y, job.attributes);
          acc[k % ACCS] = Row::fold(acc[k % ACCS], value, q + k * stride);
        }
        q = to;
      }
    }
  }
  /* What is left over, the last pack perhaps in part, or all where there are no packs. */
#pragma unroll 1
  for (; q < to; q += stride) {
#pragma unroll 1
    for (Offset n = q; n < rm_min<Offset>(q + N, to); n++) {
      Offset place[3] = {};
      rm_seek<Bits>(job.axes, kept, rank, (Index)n, place);
      if (varies) y = rm_second<Row>(job.b, at[2] + place[2]);
      const auto value = Row::map((Work)In::get(p[place[1]]), y, job.attributes);
      acc[0] = Row::fold(acc[0], value, n);
    }
  }
  RM_UNROLL for (int k = 1; k < ACCS; k++) acc[0] = Row::join(acc[0], acc[k]);
  const Acc all = rm_join_lanes<Row>(acc[0], lane, lanes, ACROSS ? slots : 1);
  if (!valid || lane != 0) return;
  if (job.scratch != nullptr) ((Acc *)job.scratch)[(int64_t)unit * job.parts + part] = all;
  else rm_finish<Row>(job, at[0], all);
}

/* Puts the parts of outputs together. */
template <typename Row, int RANK, typename Bits>
static inline void rm_join_parts(const rm_fold_job<RANK> &job) {
  typedef typename Row::acc Acc;
  const int thread = threadIdx.x, lanes = (int)job.lanes, slots = RM_THREADS / lanes;
  const int lane = thread & (lanes - 1);
  const int64_t unit = (int64_t)blockIdx.x * slots + thread / lanes;
  const bool valid = unit < job.outputs;
  const Acc *const parts = (const Acc *)job.scratch + unit * job.parts;
  Acc a = Row::start();
  if (valid) {
#pragma unroll 4
    for (int part = lane; part < (int)job.parts; part += lanes) a = Row::join(a, parts[part]);
  }
  const Acc all = rm_join_lanes<Row>(a, lane, lanes, 1);
  if (!valid || lane != 0) return;
  typename Bits::offset at[3] = {};
  rm_seek<Bits>(job.axes, 0, (int)job.kept, (typename Bits::index)unit, at);
  rm_finish<Row>(job, at[0], all);
}

/* ---- kernels --------------------------------------------------------------------------------- */

#define RM_FOLD_KERNEL(name, axes, body) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(const rm_fold_job<axes> job) { \
    body; \
  }
#define RM_FOLD_ALONG(row) \
  RM_FOLD_KERNEL(row##_along, RM_FEW_AXES, \
                 (rm_fold<row, false, RM_FEW_AXES, rm_narrow>(job)))
#define RM_FOLD_ACROSS(row) \
  RM_FOLD_KERNEL(row##_across, RM_FEW_AXES, \
                 (rm_fold<row, true, RM_FEW_AXES, rm_narrow>(job)))
#define RM_FOLD_ALONG_ANY(row) \
  RM_FOLD_KERNEL(row##_along_any, RM_MOST_AXES, \
                 (rm_fold<row, false, RM_MOST_AXES, rm_wide>(job)))
#define RM_FOLD_ACROSS_ANY(row) \
  RM_FOLD_KERNEL(row##_across_any, RM_MOST_AXES, \
                 (rm_fold<row, true, RM_MOST_AXES, rm_wide>(job)))
#define RM_FOLD_PARTS(row) \
  RM_FOLD_KERNEL(row##_parts, RM_FEW_AXES, \
                 (rm_join_parts<row, RM_FEW_AXES, rm_narrow>(job)))
#define RM_FOLD_PARTS_ANY(row) \
  RM_FOLD_KERNEL(row##_parts_any, RM_MOST_AXES, \
                 (rm_join_parts<row, RM_MOST_AXES, rm_wide>(job)))

#endif
