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
 *   struct sum_f32_f32 : rm_reduce_op<rm_f32, rm_f64, rm_f64, rm_f32, 4, 4, 1> {
 *     typedef double work;
 *     typedef double acc;
 *     static acc identity() { return 0; }
 *     static auto map(work x, work y, const double *at) { return x; }
 *     static acc accumulate(acc a, acc x) { return (a + x); }
 *     static acc combine(acc a, acc x) { return (a + x); }
 *     static double finish(acc a, const double *at) { return a; }
 *   };
 *
 * and its kernels with the macros at the end. This file does not know what a reduction computes.
 */
#ifndef ROWMAJOR_CUDA_REDUCE_H
#define ROWMAJOR_CUDA_REDUCE_H

#include "block.h"

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_REDUCE_ROWS) || !defined(RM_REDUCE_PACKS) || !defined(RM_REDUCE_ALIGNED) || \
    !defined(RM_REDUCE_SECOND_VARIES)
#error "reduce.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

/* An op: the dtypes of its elements, of the second operand, of the result of finish and of the
 * output; the elements of a pack, the packs that a lane loads at once, and the adjacent outputs of
 * a lane where elements are short. */
template <typename In, typename Second, typename Result, typename Out, int PACK, int PACKS,
          int COLUMNS>
struct rm_reduce_op {
  typedef In in;
  typedef Second second;
  typedef Result result;
  typedef Out out;
  static constexpr int pack = PACK;
  static constexpr int packs = PACKS;
  static constexpr int columns = COLUMNS;
  /* Whether an accumulator is one of the elements and its index; see rm_arg_value. */
  static constexpr bool is_index = false;
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
template <typename T, typename Index = int64_t>
struct rm_arg_value {
  T value;
  Index index;
};
/* The better one of two, by Op::better(x, a), or the first of two equal ones. */
template <typename Op, typename T>
static inline rm_arg_value<T> rm_better_arg(rm_arg_value<T> a, rm_arg_value<T> b) {
  if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
  const bool later = Op::better(b.value, a.value), earlier = Op::better(a.value, b.value);
  return later || (!earlier && b.index < a.index) ? b : a;
}

/* Whether code should be small rather than fast. */
template <typename Bits>
static constexpr bool rm_is_small() {
  return RM_SMALL && sizeof(typename Bits::index) == 8;
}

/* The accumulator of a lane: indexes need no more bits than positions. */
template <typename Op, typename Offset, bool IS_INDEX = Op::is_index>
struct rm_lane_acc {
  typedef typename Op::acc type;
  template <typename T>
  static inline type accumulate(type a, T x, Offset) {
    return Op::accumulate(a, x);
  }
  static inline type identity() { return Op::identity(); }
  static inline type whole(type a) { return a; }
};
template <typename Op, typename Offset>
struct rm_lane_acc<Op, Offset, true> {
  typedef typename Op::work Work;
  typedef rm_arg_value<Work, Offset> type;
  static inline type accumulate(type a, Work x, Offset position) {
    return a.index < 0 || Op::better(x, a.value) ? type{x, position} : a;
  }
  static inline type identity() { return {0, -1}; }
  static inline typename Op::acc whole(type a) { return {a.value, a.index}; }
};

enum {
  /* Accumulators per lane. Registers are better spent on loads in flight. */
  RM_REDUCE_ACCUMULATORS = 4,
  /* Elements that a lane loads at once where each is loaded alone. */
  RM_REDUCE_LOADS = 16
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

/* Combines the accumulators of all lanes of each output, lane k with lane k + half, in an order
 * that depends only on their number. The results are in the first lane. Lanes are `distance`
 * threads apart; if that is 1, the last 32 need no barrier, unless the code should be small. */
template <typename Op, int COLUMNS, bool SMALL>
static inline void rm_combine_lanes(typename Op::acc (&a)[COLUMNS], int lane, int lanes,
                                    int distance) {
  __shared__ typename Op::acc all[COLUMNS][RM_THREADS];
  const int thread = threadIdx.x, in_warp = distance == 1 && !SMALL ? 32 : 1;
  int half = lanes >> 1;
  if (half >= in_warp) {
    RM_UNROLL for (int i = 0; i < COLUMNS; i++) all[i][thread] = a[i];
    __syncthreads();
    for (; half >= in_warp; half >>= 1) {
      if (lane < half) {
        RM_UNROLL for (int i = 0; i < COLUMNS; i++) {
          all[i][thread] = a[i] = Op::combine(a[i], all[i][thread + half * distance]);
        }
      }
      __syncthreads();
    }
  }
  if constexpr (!SMALL) {
#pragma unroll 1
    for (; half > 0; half >>= 1) {
      RM_UNROLL for (int i = 0; i < COLUMNS; i++) {
        a[i] = Op::combine(a[i], rm_exchange(a[i], half));
      }
    }
  }
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

/* The elements of one lane. Positions among the elements of an output have the width of offsets. */
template <typename Op, bool ACROSS, int COLUMNS, int RANK, typename Bits>
struct rm_reducer {
  typedef typename Op::in In;
  typedef typename In::stored Stored;
  typedef typename Op::work Work;
  typedef typename Bits::offset Offset;
  typedef typename Bits::index Index;
  typedef rm_lane_acc<Op, Offset> Lane;
  static constexpr bool SMALL = rm_is_small<Bits>();
  /* The elements of a pack, and how many of them belong to one output. */
  static constexpr int N = ACROSS ? COLUMNS : Op::pack;
  static constexpr int WIDTH = ACROSS ? 1 : N;
  /* Fewer if elements or offsets take twice the registers. */
  static constexpr bool WIDE = sizeof(Stored) == 8 || sizeof(Offset) == 8 || COLUMNS > 2 ||
                               (Op::is_index && COLUMNS > 1);
  static constexpr int ROWS = WIDE ? RM_REDUCE_ROWS / 2 : RM_REDUCE_ROWS;
  static constexpr int OP_PACKS = SMALL ? 1 : Op::packs;
  static constexpr int PACKS = ACROSS && OP_PACKS > 1 ? ROWS : OP_PACKS;
  /* A pack of 8 keeps an accumulator busy. */
  static constexpr int MOST = N == 8 ? 2 : RM_REDUCE_ACCUMULATORS / COLUMNS;
  static constexpr int ACCS = PACKS < MOST ? PACKS : MOST;

  const rm_reduce_params<RANK> &params;
  const Stored *p;
  Offset to;
  Offset stride;
  Work y[COLUMNS];
  typename Lane::type acc[ACCS][COLUMNS];

  inline void add(int k, int i, Stored x, Offset position) {
    const int column = ACROSS ? i : 0;
    const auto value = Op::map((Work)In::get(x), y[column], params.attributes);
    acc[k % ACCS][column] = Lane::accumulate(acc[k % ACCS][column], value, position);
  }

  /* Processes COUNT packs from q on, and loads all before it uses one. With GUARD, only those that
   * end in time. No branch may separate loads of different kinds: 16-bit elements would be
   * unpacked, and waited for, at its end. */
  template <int COUNT, bool ALIGNED, bool FLAT, bool GUARD>
  inline void round(Offset q) {
    const int outer_axes = (int)params.outer_axes, rank = (int)params.rank;
    /* A single element is always aligned, wherever the next one is. */
    constexpr bool IS_DENSE = ALIGNED && WIDTH > 1;
    const Offset step = IS_DENSE ? 1 : (Offset)params.axes[rank - 1].stride[1];
    const Offset apart = ACROSS ? 1 : step;
    const bool at_once = ALIGNED || (RM_SMALL && (params.flags & RM_REDUCE_ALIGNED) != 0);
    rm_pack<Stored, N> x[COUNT];
    const Stored *next = p + q * step;
    RM_UNROLL for (int k = 0; k < COUNT; k++) {
      if (!GUARD || q + k * stride + WIDTH <= to) {
        if constexpr (!FLAT) {
          Offset place[3] = {};
          rm_seek<Bits>(params.axes, outer_axes, rank, (Index)(q + k * stride), place);
          next = p + place[1];
        }
        if (at_once) {
          x[k] = rm_load<N>(next);
        } else {
          RM_UNROLL for (int i = 0; i < N; i++) x[k].at[i] = next[i * apart];
        }
      }
      /* Beyond the last element this may be further than an Offset reaches. */
      if constexpr (FLAT) next += (int64_t)stride * step;
    }
    RM_UNROLL for (int k = 0; k < COUNT; k++) {
      const Offset position = q + k * stride;
      if (GUARD && position + WIDTH > to) continue;
      if constexpr (Op::is_index && WIDTH > 1) {
        /* Within a pack, indexes are constants. */
        Work best = (Work)In::get(x[k].at[0]);
        int index = 0;
        RM_UNROLL for (int i = 1; i < N; i++) {
          const Work value = (Work)In::get(x[k].at[i]);
          const bool better = Op::better(value, best);
          best = better ? value : best;
          index = better ? i : index;
        }
        acc[k % ACCS][0] = Lane::accumulate(acc[k % ACCS][0], best, position + index);
      } else {
        RM_UNROLL for (int i = 0; i < N; i++) add(k, i, x[k].at[i], position + (ACROSS ? 0 : i));
      }
    }
  }

  /* Processes all whole packs from q on. Pack k of a lane always has accumulator k % ACCS. */
  template <int COUNT, bool ALIGNED, bool FLAT>
  inline void packs(Offset q) {
    static_assert(COUNT % ACCS == 0, "rounds begin with the first accumulator");
    if constexpr (ACROSS && FLAT && COUNT > 1) {
#pragma unroll 1
      for (; q + (COUNT - 1) * stride < to; q += COUNT * stride) {
        round<COUNT, ALIGNED, FLAT, false>(q);
      }
      if (q < to) round<COUNT, ALIGNED, FLAT, true>(q);
    } else {
#pragma unroll 1
      for (; q + WIDTH <= to; q += COUNT * stride) round<COUNT, ALIGNED, FLAT, true>(q);
    }
  }

  inline void all_packs(Offset q) {
    /* Adjacent outputs share a lane only if their elements have one axis. */
    constexpr bool IS_FLAT = COLUMNS > 1;
    constexpr int LOADS = N == 1 ? RM_REDUCE_LOADS / 2 : RM_REDUCE_LOADS / N;
    constexpr int ALONE = PACKS < LOADS ? PACKS : LOADS;
    constexpr int SOUGHT = N == 1 ? ALONE : PACKS;
    const bool aligned = N == 1 || (params.flags & RM_REDUCE_ALIGNED) != 0;
    const bool flat = IS_FLAT || params.rank == params.outer_axes + 1;
    if (!SMALL && aligned && flat) packs<PACKS, true, true>(q);
    else if (RM_SMALL || !aligned) packs<ALONE, false, IS_FLAT>(q);
    else packs<SOUGHT, true, false>(q);
  }
};

/* Reduces. With ACROSS, adjacent threads have adjacent outputs, COLUMNS each, and lanes process
 * single elements of each. Otherwise adjacent threads are the lanes of one output and process
 * packs. */
template <typename Op, bool ACROSS, int COLUMNS, int RANK, typename Bits>
static inline void rm_reduce(const rm_reduce_params<RANK> &params) {
  typedef rm_reducer<Op, ACROSS, COLUMNS, RANK, Bits> Reducer;
  typedef typename Op::acc Acc;
  typedef typename Bits::offset Offset;
  typedef typename Bits::index Index;
  constexpr int WIDTH = Reducer::WIDTH;
  const int thread = threadIdx.x, lanes = (int)params.lanes, block_outputs = RM_THREADS / lanes;
  const int lane = ACROSS ? thread / block_outputs : thread & (lanes - 1);
  const int output_index = ACROSS ? thread & (block_outputs - 1) : thread / lanes;
  const int outer_axes = (int)params.outer_axes, rank = (int)params.rank;
  const Offset output = ((Offset)blockIdx.x * block_outputs + output_index) * COLUMNS;
  const Offset part = (Offset)blockIdx.y;
  const bool valid = output < params.outputs;
  Offset at[3] = {};
  if (valid) rm_seek<Bits>(params.axes, 0, outer_axes, (Index)output, at);
  /* From an output to its neighbor. */
  Offset to_step = 0, second_step = 0;
  if constexpr (COLUMNS > 1) {
    to_step = (Offset)params.axes[outer_axes - 1].stride[0];
    second_step = (Offset)params.axes[outer_axes - 1].stride[2];
  }
  const Offset from = part * (Offset)params.length;
  const Offset to = valid ? (Offset)rm_min(from + params.length, params.count) : from;
  Reducer own = {params, (const typename Reducer::Stored *)params.a + at[1], to,
                 (Offset)lanes * WIDTH};
  RM_UNROLL for (int i = 0; i < COLUMNS; i++) {
    own.y[i] = valid ? rm_load_second<Op>(params.b, at[2] + i * second_step) : 0;
    RM_UNROLL for (int k = 0; k < Reducer::ACCS; k++) own.acc[k][i] = Reducer::Lane::identity();
  }
  Offset rest = from;
  if ((params.flags & RM_REDUCE_PACKS) != 0) {
    own.all_packs(from + (Offset)lane * WIDTH);
    rest = to - (to - from) % WIDTH;
  }
  /* The elements after the last whole pack, or all elements if there are no packs. */
  if constexpr (COLUMNS == 1) {
    const bool varies = (params.flags & RM_REDUCE_SECOND_VARIES) != 0;
#pragma unroll 1
    for (Offset n = rest + lane; n < to; n += lanes) {
      Offset place[3] = {};
      rm_seek<Bits>(params.axes, outer_axes, rank, (Index)n, place);
      if (varies) own.y[0] = rm_load_second<Op>(params.b, at[2] + place[2]);
      own.add(0, 0, own.p[place[1]], n);
    }
  }
  Acc all[COLUMNS];
  RM_UNROLL for (int i = 0; i < COLUMNS; i++) {
    all[i] = Reducer::Lane::whole(own.acc[0][i]);
    RM_UNROLL for (int k = 1; k < Reducer::ACCS; k++) {
      all[i] = Op::combine(all[i], Reducer::Lane::whole(own.acc[k][i]));
    }
  }
  rm_combine_lanes<Op, COLUMNS, Reducer::SMALL>(all, lane, lanes, ACROSS ? block_outputs : 1);
  if (!valid || lane != 0) return;
  RM_UNROLL for (int i = 0; i < COLUMNS; i++) {
    if (params.workspace != nullptr) {
      ((Acc *)params.workspace)[(int64_t)(output + i) * params.parts + part] = all[i];
    } else rm_finish<Op>(params, at[0] + i * to_step, all[i]);
  }
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
  Acc all[1] = {Op::identity()};
  if (valid) {
#pragma unroll 4
    for (int part = lane; part < (int)params.parts; part += lanes) {
      all[0] = Op::combine(all[0], parts[part]);
    }
  }
  rm_combine_lanes<Op, 1, rm_is_small<Bits>()>(all, lane, lanes, 1);
  if (!valid || lane != 0) return;
  typename Bits::offset at[3] = {};
  rm_seek<Bits>(params.axes, 0, (int)params.outer_axes, (typename Bits::index)output, at);
  rm_finish<Op>(params, at[0], all[0]);
}

/* ---- kernels --------------------------------------------------------------------------------- */

#define RM_REDUCE_KERNEL(name, axes, body) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) \
      name(const rm_reduce_params<axes> params) { \
    body; \
  }
#define RM_REDUCE_ALONG(op) \
  RM_REDUCE_KERNEL(op##_along, RM_FEW_AXES, \
                   (rm_reduce<op, false, 1, RM_FEW_AXES, rm_index32>(params)))
#define RM_REDUCE_ACROSS(op) \
  RM_REDUCE_KERNEL(op##_across, RM_FEW_AXES, \
                   (rm_reduce<op, true, 1, RM_FEW_AXES, rm_index32>(params)))
#define RM_REDUCE_ACROSS_PACKED(op) \
  RM_REDUCE_KERNEL(op##_across_packed, RM_FEW_AXES, \
                   (rm_reduce<op, true, op::columns, RM_FEW_AXES, rm_index32>(params)))
#define RM_REDUCE_ALONG_GENERIC(op) \
  RM_REDUCE_KERNEL(op##_along_generic, RM_MAX_AXES, \
                   (rm_reduce<op, false, 1, RM_MAX_AXES, rm_index64>(params)))
#define RM_REDUCE_ACROSS_GENERIC(op) \
  RM_REDUCE_KERNEL(op##_across_generic, RM_MAX_AXES, \
                   (rm_reduce<op, true, 1, RM_MAX_AXES, rm_index64>(params)))
#define RM_REDUCE_PARTS(op) \
  RM_REDUCE_KERNEL(op##_parts, RM_FEW_AXES, (rm_combine_parts<op, RM_FEW_AXES, rm_index32>(params)))
#define RM_REDUCE_PARTS_GENERIC(op) \
  RM_REDUCE_KERNEL(op##_parts_generic, RM_MAX_AXES, \
                   (rm_combine_parts<op, RM_MAX_AXES, rm_index64>(params)))

#endif
