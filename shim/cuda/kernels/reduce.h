/*
 * Reductions and index reductions.
 *
 * The threads of a block share outputs: some lanes process the elements of one output in turns, and
 * a tree in shared memory combines their accumulators. If there are few outputs, their elements are
 * split into parts, whose accumulators go to a workspace, and a second kernel combines them. Sizes
 * alone decide all of that, so results depend neither on the order of blocks nor on the alignment
 * of memory.
 *
 * A source defines an op for one dtype,
 *
 *   struct sum_f32_f32 : rm_reduce_op<rm_f32, rm_f64, rm_f64, rm_f32, 4, 4> {
 *     typedef double work;
 *     typedef double acc;
 *     static acc identity() { return 0; }
 *     static auto map(work x, work y, const double *at) { return x; }
 *     static acc accumulate(acc a, acc x, int64_t position) { return (a + x); }
 *     static acc combine(acc a, acc x) { return (a + x); }
 *     static double finish(acc a, const double *at) { return a; }
 *   };
 *
 * and its kernels with the macros at the end. This file does not know what a reduction computes.
 */
#ifndef ROWMAJOR_CUDA_REDUCE_H
#define ROWMAJOR_CUDA_REDUCE_H

#include "device.h"

/* Defined by the source that includes this header: see src/backend/cuda/constants.ts. */
#if !defined(RM_REDUCE_ROWS) || !defined(RM_REDUCE_PACKS) || !defined(RM_REDUCE_ALIGNED) || \
    !defined(RM_REDUCE_SECOND_VARIES)
#error "reduce.h needs the constants of src/backend/cuda/constants.ts"
#endif

/* An op: the dtypes of its elements, of the second operand, of the result of finish and of the
 * output; the elements of a pack, and the packs that a lane loads at once. */
template <typename In, typename Second, typename Result, typename Out, int PACK, int PACKS>
struct rm_reduce_op {
  typedef In in;
  typedef Second second;
  typedef Result result;
  typedef Out out;
  static constexpr int pack = PACK;
  static constexpr int packs = PACKS;
};

/* A sum of doubles with its rounding error. */
struct rm_compensated {
  double sum;
  double error;
};
/* Knuth's TwoSum. */
static inline rm_compensated rm_two_sum(rm_compensated a, double x) {
  const double sum = a.sum + x, w = sum - a.sum;
  return {sum, a.error + ((a.sum - (sum - w)) + (x - w))};
}
static inline rm_compensated rm_combine_compensated(rm_compensated a, rm_compensated b) {
  const rm_compensated both = rm_two_sum(a, b.sum);
  return {both.sum, both.error + b.error};
}
/* After an infinity the error is NaN, and the plain sum is right. */
static inline double rm_compensated_sum(rm_compensated a) {
  return a.error - a.error == 0 ? a.sum + a.error : a.sum;
}

/* An element and its index. -1 means none. */
template <typename T>
struct rm_arg_value {
  T value;
  int64_t index;
};
/* The better one of two, by Op::better(x, a), or the first of two equal ones. */
template <typename Op, typename T>
static inline rm_arg_value<T> rm_better_arg(rm_arg_value<T> a, rm_arg_value<T> b) {
  if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
  const bool later = Op::better(b.value, a.value), earlier = Op::better(a.value, b.value);
  return later || (!earlier && b.index < a.index) ? b : a;
}

enum {
  /* Accumulators per lane. Registers are better spent on loads in flight. */
  RM_REDUCE_ACCUMULATORS = 4
};

/*
 * Flags: RM_REDUCE_PACKS if elements are processed in packs with a constant stride;
 * RM_REDUCE_ALIGNED if packs can be loaded at once; RM_REDUCE_SECOND_VARIES if b varies among the
 * elements of one output. `lanes` is a power of two. The axes are those of the outputs (outer
 * axes), then those of their elements, with the strides of out, a and b.
 */
template <int RANK>
struct rm_reduce_params {
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
  void *workspace;
  int64_t outer_axes;
  int64_t rank;
  rm_axis<3> axes[RANK];
};

/* Combines the accumulators of all lanes of each output, in an order that depends only on their
 * number. The result is in the first lane. Lanes are `distance` threads apart. */
template <typename Op>
static inline typename Op::acc rm_combine_lanes(typename Op::acc a, int lane, int lanes,
                                                int distance) {
  __shared__ typename Op::acc all[RM_THREADS];
  const int thread = threadIdx.x;
  all[thread] = a;
  __syncthreads();
  for (int half = lanes >> 1; half > 0; half >>= 1) {
    if (lane < half) all[thread] = a = Op::combine(a, all[thread + half * distance]);
    __syncthreads();
  }
  return a;
}

/* Writes the result of an output. */
template <typename Op, int RANK>
static inline void rm_finish(const rm_reduce_params<RANK> &params, int64_t at, typename Op::acc a) {
  typedef typename Op::result Result;
  typedef typename Op::out Out;
  const auto result = (typename Result::value)Op::finish(a, params.attributes);
  ((typename Out::stored *)params.out)[at] = rm_cast<Out, Result>(Result::put(result));
}

/* Loads an element of the second operand, or returns 0 if there is none. */
template <typename Op, typename Offset>
static inline typename Op::work rm_load_second(const void *b, Offset at) {
  typedef typename Op::second Second;
  return b == nullptr ? 0
                      : (typename Op::work)Second::get(((const typename Second::stored *)b)[at]);
}

/* Reduces. Positions among the elements of an output have the width of offsets. With ACROSS,
 * adjacent threads have adjacent outputs, and lanes process single elements. Otherwise adjacent
 * threads are the lanes of one output and process packs. */
template <typename Op, bool ACROSS, int RANK, typename Bits>
static inline void rm_reduce(const rm_reduce_params<RANK> &params) {
  typedef typename Op::in In;
  typedef typename In::stored Stored;
  typedef typename Op::acc Acc;
  typedef typename Op::work Work;
  typedef typename Bits::offset Offset;
  typedef typename Bits::index Index;
  constexpr int N = ACROSS ? 1 : Op::pack;
  /* Fewer if elements or offsets take twice the registers. */
  constexpr bool WIDE = sizeof(Stored) == 8 || sizeof(Offset) == 8;
  constexpr int ROWS = WIDE ? RM_REDUCE_ROWS / 2 : RM_REDUCE_ROWS;
  constexpr int OP_PACKS = RM_SMALL && sizeof(Index) == 8 ? 1 : Op::packs;
  constexpr int PACKS = ACROSS && OP_PACKS > 1 ? ROWS : OP_PACKS;
  constexpr int ACCS = PACKS < RM_REDUCE_ACCUMULATORS ? PACKS : RM_REDUCE_ACCUMULATORS;
  const int thread = threadIdx.x, lanes = (int)params.lanes, block_outputs = RM_THREADS / lanes;
  const int lane = ACROSS ? thread / block_outputs : thread & (lanes - 1);
  const int output_index = ACROSS ? thread & (block_outputs - 1) : thread / lanes;
  const int outer_axes = (int)params.outer_axes, rank = (int)params.rank;
  const Offset output = (Offset)blockIdx.x * block_outputs + output_index;
  const Offset part = (Offset)blockIdx.y;
  const bool valid = output < params.outputs;
  Offset at[3] = {};
  if (valid) rm_seek<Bits>(params.axes, 0, outer_axes, (Index)output, at);
  const Stored *const p = (const Stored *)params.a + at[1];
  const bool varies = (params.flags & RM_REDUCE_SECOND_VARIES) != 0;
  Work y = 0;
  if (valid) y = rm_load_second<Op>(params.b, at[2]);
  const Offset from = part * (Offset)params.length;
  const Offset to = valid ? (Offset)rm_min(from + params.length, params.count) : from;
  const Offset stride = (Offset)lanes * N;
  Acc acc[ACCS];
  RM_UNROLL for (int k = 0; k < ACCS; k++) acc[k] = Op::identity();
  Offset q = from + (Offset)lane * N;
  if ((params.flags & RM_REDUCE_PACKS) != 0) {
    const bool aligned = (params.flags & RM_REDUCE_ALIGNED) != 0, is_1d = rank == outer_axes + 1;
    const Offset step = (Offset)params.axes[rank - 1].stride[1];
    for (; q + (PACKS - 1) * stride + N <= to; q += PACKS * stride) {
      rm_pack<Stored, N> x[PACKS];
      const Stored *next = p + (Offset)q * step;
      RM_UNROLL for (int k = 0; k < PACKS; k++) {
        if (!is_1d) {
          Offset place[3] = {};
          rm_seek<Bits>(params.axes, outer_axes, rank, (Index)(q + k * stride), place);
          next = p + place[1];
        }
        if (aligned) {
          x[k] = rm_load<N>(next);
        } else {
          RM_UNROLL for (int i = 0; i < N; i++) x[k].at[i] = next[i * step];
        }
        next += (Offset)stride * step;
      }
      RM_UNROLL for (int k = 0; k < PACKS; k++) {
        RM_UNROLL for (int i = 0; i < N; i++) {
          const auto value = Op::map((Work)In::get(x[k].at[i]), y, params.attributes);
          acc[k % ACCS] = Op::accumulate(acc[k % ACCS], value, q + k * stride + i);
        }
      }
    }
    if constexpr (ACROSS && PACKS > 1) {
      /* The last rows, also with all loads in flight. */
      if (q < to) {
        Stored x[PACKS];
        const int left = (int)((to - q + stride - 1) / stride);
        const Stored *next = p + (Offset)q * step;
        RM_UNROLL for (int k = 0; k < PACKS; k++) {
          x[k] = 0;
          if (k >= left) continue;
          if (!is_1d) {
            Offset place[3] = {};
            rm_seek<Bits>(params.axes, outer_axes, rank, (Index)(q + k * stride), place);
            next = p + place[1];
          }
          x[k] = *next;
          next += (Offset)stride * step;
        }
        RM_UNROLL for (int k = 0; k < PACKS; k++) {
          if (k >= left) continue;
          const auto value = Op::map((Work)In::get(x[k]), y, params.attributes);
          acc[k % ACCS] = Op::accumulate(acc[k % ACCS], value, q + k * stride);
        }
        q = to;
      }
    }
  }
  /* The remaining elements, including a partial pack, or all elements if there are no packs. */
#pragma unroll 1
  for (; q < to; q += stride) {
#pragma unroll 1
    for (Offset n = q; n < rm_min<Offset>(q + N, to); n++) {
      Offset place[3] = {};
      rm_seek<Bits>(params.axes, outer_axes, rank, (Index)n, place);
      if (varies) y = rm_load_second<Op>(params.b, at[2] + place[2]);
      const auto value = Op::map((Work)In::get(p[place[1]]), y, params.attributes);
      acc[0] = Op::accumulate(acc[0], value, n);
    }
  }
  RM_UNROLL for (int k = 1; k < ACCS; k++) acc[0] = Op::combine(acc[0], acc[k]);
  const Acc all = rm_combine_lanes<Op>(acc[0], lane, lanes, ACROSS ? block_outputs : 1);
  if (!valid || lane != 0) return;
  if (params.workspace != nullptr) {
    ((Acc *)params.workspace)[(int64_t)output * params.parts + part] = all;
  } else rm_finish<Op>(params, at[0], all);
}

/* Combines the parts of each output. */
template <typename Op, int RANK, typename Bits>
static inline void rm_combine_parts(const rm_reduce_params<RANK> &params) {
  typedef typename Op::acc Acc;
  const int thread = threadIdx.x, lanes = (int)params.lanes, block_outputs = RM_THREADS / lanes;
  const int lane = thread & (lanes - 1);
  const int64_t output = (int64_t)blockIdx.x * block_outputs + thread / lanes;
  const bool valid = output < params.outputs;
  const Acc *const parts = (const Acc *)params.workspace + output * params.parts;
  Acc a = Op::identity();
  if (valid) {
#pragma unroll 4
    for (int part = lane; part < (int)params.parts; part += lanes) a = Op::combine(a, parts[part]);
  }
  const Acc all = rm_combine_lanes<Op>(a, lane, lanes, 1);
  if (!valid || lane != 0) return;
  typename Bits::offset at[3] = {};
  rm_seek<Bits>(params.axes, 0, (int)params.outer_axes, (typename Bits::index)output, at);
  rm_finish<Op>(params, at[0], all);
}

/* ---- kernels --------------------------------------------------------------------------------- */

#define RM_REDUCE_KERNEL(name, axes, body) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(const rm_reduce_params<axes> params) { \
    body; \
  }
#define RM_REDUCE_ALONG(op) \
  RM_REDUCE_KERNEL(op##_along, RM_FEW_AXES, (rm_reduce<op, false, RM_FEW_AXES, rm_index32>(params)))
#define RM_REDUCE_ACROSS(op) \
  RM_REDUCE_KERNEL(op##_across, RM_FEW_AXES, (rm_reduce<op, true, RM_FEW_AXES, rm_index32>(params)))
#define RM_REDUCE_ALONG_GENERIC(op) \
  RM_REDUCE_KERNEL(op##_along_generic, RM_MAX_AXES, \
                   (rm_reduce<op, false, RM_MAX_AXES, rm_index64>(params)))
#define RM_REDUCE_ACROSS_GENERIC(op) \
  RM_REDUCE_KERNEL(op##_across_generic, RM_MAX_AXES, \
                   (rm_reduce<op, true, RM_MAX_AXES, rm_index64>(params)))
#define RM_REDUCE_PARTS(op) \
  RM_REDUCE_KERNEL(op##_parts, RM_FEW_AXES, (rm_combine_parts<op, RM_FEW_AXES, rm_index32>(params)))
#define RM_REDUCE_PARTS_GENERIC(op) \
  RM_REDUCE_KERNEL(op##_parts_generic, RM_MAX_AXES, \
                   (rm_combine_parts<op, RM_MAX_AXES, rm_index64>(params)))

#endif
