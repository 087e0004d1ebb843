/*
 * Elementwise kernels: for contiguous operands, for strided ones, for operands that run across each
 * other, and a generic one that also casts.
 *
 * A source defines an op for one dtype,
 *
 *   struct add_f32 : rm_map_op<rm_f32, rm_f32, rm_f32, float, 2, 4, 2> {
 *     static float apply(float x, float y, float, const double *) { return (x + y); }
 *   };
 *
 * and its kernels with the macros at the end. It includes vecmath.h and intmath.h before this file
 * if the op calls their functions. This file does not know what an op computes.
 */
#ifndef ROWMAJOR_CUDA_MAP_H
#define ROWMAJOR_CUDA_MAP_H

#include "device.h"

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_MAP_ELEMENTS) || !defined(RM_MAP_TILE) || !defined(RM_MAP_LARGE_TILE) || \
    !defined(RM_MAP_ALIGNED)
#error "map.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

/* An op: its compute dtype, the dtypes of its first operand (a condition is bool) and its output,
 * the type that apply computes in, the number of operands, the elements of a pack, and the packs
 * per thread. */
template <typename Compute, typename First, typename Out, typename Work, int ARITY, int PACK,
          int PACKS>
struct rm_map_op {
  typedef Compute compute;
  typedef First first;
  typedef Out out;
  typedef Work work;
  static constexpr int arity = ARITY;
  static constexpr int pack = PACK;
  static constexpr int packs = PACKS;
};

/* The type that apply computes in, for ops on storage types. */
struct rm_storage_only {};

/* An input: its address or, if that is null, the value of its only element. The flags of all
 * operands contain the rest. */
struct rm_map_input {
  const void *at;
  int64_t element;
};

/* Converts an element from its storage type to the type that apply computes in. */
template <typename Op>
static inline typename Op::work rm_read(typename Op::compute::stored v) {
  return (typename Op::work)Op::compute::get(v);
}

template <typename A, typename B>
struct rm_is_same {
  static constexpr bool value = false;
};
template <typename A>
struct rm_is_same<A, A> {
  static constexpr bool value = true;
};

/* Converts the result of apply to the output dtype. */
template <typename Op, typename T>
static inline typename Op::out::stored rm_result(T v) {
  typedef typename Op::out Out;
  /* Some ops compute narrow floats in double. The result is rounded once. */
  if constexpr (rm_is_same<T, double>::value) {
    return rm_cast<Out, rm_f64>((double)v);
  } else if constexpr (!Out::is_float && sizeof(typename Out::stored) < 4) {
    return rm_narrow<typename Out::stored>((uint32_t)v);
  } else {
    return Out::put((typename Out::value)v);
  }
}

#if defined(ROWMAJOR_VECMATH_H)
/* The primitives are not valid for huge operands, which go to the compiler's functions of double.
 * Those calls are not inlined, because both sides of the branch would be computed. */
#define RM_TRIGONOMETRIC(name) \
  static __attribute__((noinline)) double rm_libm_##name(double x) { return name(x); } \
  static inline float rm_full_##name##_f32(float x) { \
    const bool needs_fallback = rm_trig_needs_fallback_f32(rm_trig_key_f32(x)); \
    return needs_fallback ? (float)rm_libm_##name((double)x) : rm_##name##_f32(x); \
  } \
  static inline double rm_full_##name##_f64(double x) { \
    const bool needs_fallback = rm_trig_needs_fallback_f64(rm_trig_key_f64(x)); \
    return needs_fallback ? rm_libm_##name(x) : rm_##name##_f64(x); \
  }
RM_TRIGONOMETRIC(sin)
RM_TRIGONOMETRIC(cos)
RM_TRIGONOMETRIC(tan)
#endif

template <typename Op>
static inline typename Op::out::stored rm_apply(typename Op::first::stored a,
                                                typename Op::compute::stored b,
                                                typename Op::compute::stored c,
                                                const double *attributes) {
  typedef typename Op::work Work;
  if constexpr (rm_is_same<Work, rm_storage_only>::value) {
    return Op::apply(a, b, c, attributes);
  } else if constexpr (Op::first::id != Op::compute::id) {
    return rm_result<Op>(Op::apply((Work)a, rm_read<Op>(b), rm_read<Op>(c), attributes));
  } else {
    return rm_result<Op>(Op::apply(rm_read<Op>(a), rm_read<Op>(b), rm_read<Op>(c), attributes));
  }
}

/* ---- contiguous operands --------------------------------------------------------------------- */

/* Flags: bit k is set if operand k is contiguous; the others are scalars. RM_MAP_ALIGNED is set if
 * packs of all contiguous operands can be loaded at once. */
struct rm_contiguous_params {
  int64_t length;
  int64_t flags;
  double attributes[4];
  void *out;
  rm_map_input in[3];
};

/* The value of a scalar operand. */
template <typename T>
static inline T rm_load_scalar(const rm_map_input &in) {
  return in.at != nullptr ? *(const T *)in.at : rm_argument<T>(in.element);
}

template <typename Op>
static inline void rm_map_contiguous(const rm_contiguous_params &params) {
  typedef typename Op::first::stored First;
  typedef typename Op::compute::stored Stored;
  typedef typename Op::out::stored Out;
  constexpr int N = Op::pack, PACKS = Op::packs, TILE = RM_THREADS * N * PACKS;
  const First *a = (const First *)params.in[0].at;
  const Stored *b = (const Stored *)params.in[1].at, *c = (const Stored *)params.in[2].at;
  Out *out = (Out *)params.out;
  const bool contiguous_a = (params.flags & 1) != 0;
  const bool contiguous_b = Op::arity > 1 && (params.flags & 2) != 0;
  const bool contiguous_c = Op::arity > 2 && (params.flags & 4) != 0;
  First x = 0;
  Stored y = 0, z = 0;
  if (!contiguous_a) x = rm_load_scalar<First>(params.in[0]);
  if (Op::arity > 1 && !contiguous_b) y = rm_load_scalar<Stored>(params.in[1]);
  if (Op::arity > 2 && !contiguous_c) z = rm_load_scalar<Stored>(params.in[2]);
  const int64_t from = (int64_t)blockIdx.x * TILE;
  if ((params.flags & RM_MAP_ALIGNED) != 0 && from + TILE <= params.length) {
    rm_pack<First, N> p[PACKS];
    rm_pack<Stored, N> q[PACKS], r[PACKS];
    RM_UNROLL for (int k = 0; k < PACKS; k++) {
      const int64_t at = from + (int64_t)(k * RM_THREADS + threadIdx.x) * N;
      p[k] = contiguous_a ? rm_load<N>(a + at) : rm_broadcast<N>(x);
      q[k] = contiguous_b ? rm_load<N>(b + at) : rm_broadcast<N>(y);
      r[k] = contiguous_c ? rm_load<N>(c + at) : rm_broadcast<N>(z);
    }
    RM_UNROLL for (int k = 0; k < PACKS; k++) {
      rm_pack<Out, N> result;
      RM_UNROLL for (int i = 0; i < N; i++) {
        result.at[i] = rm_apply<Op>(p[k].at[i], q[k].at[i], r[k].at[i], params.attributes);
      }
      rm_store(out + from + (int64_t)(k * RM_THREADS + threadIdx.x) * N, result);
    }
    return;
  }
  /* One element at a time, but with several loads in flight. */
  constexpr int COUNT = PACKS > 1 ? 4 : 2;
  const int64_t end = rm_min(from + TILE, params.length);
#pragma unroll 1
  for (int64_t at = from + threadIdx.x; at < end; at += COUNT * RM_THREADS) {
    First p[COUNT];
    Stored q[COUNT], r[COUNT];
    RM_UNROLL for (int k = 0; k < COUNT; k++) {
      const int64_t n = at + k * RM_THREADS;
      p[k] = contiguous_a && n < end ? a[n] : x;
      q[k] = contiguous_b && n < end ? b[n] : y;
      r[k] = contiguous_c && n < end ? c[n] : z;
    }
    RM_UNROLL for (int k = 0; k < COUNT; k++) {
      const int64_t n = at + k * RM_THREADS;
      if (n < end) out[n] = rm_apply<Op>(p[k], q[k], r[k], params.attributes);
    }
  }
}

/* ---- strided operands ------------------------------------------------------------------------ */

/* Positions count along the axes, the last one fastest. Flags: bit k is set if packs of operand k
 * can be loaded at once. For the generic kernel, bits 4 k to 4 k + 3 are the dtype of operand k,
 * the output's lowest. */
template <int OPERANDS, int RANK>
struct rm_strided_params {
  int64_t length;
  int64_t flags;
  double attributes[4];
  void *out;
  rm_map_input in[3];
  /* Strides within a pack. */
  int64_t step[3];
  int64_t rank;
  rm_axis<OPERANDS> axes[RANK];
};

template <typename T, typename Offset>
static inline T rm_load_element(const rm_map_input &in, Offset at) {
  return in.at != nullptr ? ((const T *)in.at)[at] : rm_argument<T>(in.element);
}

/* Loads a pack of an input from element `at` on. */
template <typename T, int N, typename Offset>
static inline rm_pack<T, N> rm_load_pack(const rm_map_input &in, Offset at, bool contiguous,
                                         Offset step) {
  if (contiguous) return rm_load<N>((const T *)in.at + at);
  if (step == 0) return rm_broadcast<N>(rm_load_element<T>(in, at));
  rm_pack<T, N> pack;
  RM_UNROLL for (int i = 0; i < N; i++) pack.at[i] = ((const T *)in.at)[at + i * step];
  return pack;
}

/* Packs along rows of the output, which are contiguous and consist of whole packs. Positions count
 * packs. */
template <typename Op>
static inline void rm_map_vectorized(const rm_strided_params<Op::arity + 1, RM_FEW_AXES> &params) {
  typedef typename Op::first::stored First;
  typedef typename Op::compute::stored Stored;
  constexpr int N = Op::pack, OPERANDS = Op::arity + 1;
  const int64_t n = rm_global_index();
  if (n >= params.length) return;
  int32_t at[OPERANDS] = {};
  rm_seek<rm_index32>(params.axes, 0, (int)params.rank, (uint32_t)n, at);
  rm_pack<First, N> p;
  rm_pack<Stored, N> q = {}, r = {};
  p = rm_load_pack<First, N>(params.in[0], at[1], (params.flags & 1) != 0, (int32_t)params.step[0]);
  if constexpr (Op::arity > 1) {
    q = rm_load_pack<Stored, N>(params.in[1], at[2], (params.flags & 2) != 0,
                                (int32_t)params.step[1]);
  }
  if constexpr (Op::arity > 2) {
    r = rm_load_pack<Stored, N>(params.in[2], at[3], (params.flags & 4) != 0,
                                (int32_t)params.step[2]);
  }
  rm_pack<typename Op::out::stored, N> result;
  RM_UNROLL for (int i = 0; i < N; i++) {
    result.at[i] = rm_apply<Op>(p.at[i], q.at[i], r.at[i], params.attributes);
  }
  rm_store((typename Op::out::stored *)params.out + at[0], result);
}

/* Single elements. */
template <typename Op>
static inline void rm_map_strided(const rm_strided_params<Op::arity + 1, RM_FEW_AXES> &params) {
  typedef typename Op::first::stored First;
  typedef typename Op::compute::stored Stored;
  constexpr int OPERANDS = Op::arity + 1, COUNT = RM_MAP_ELEMENTS;
  const uint32_t from = blockIdx.x * (uint32_t)(RM_THREADS * COUNT) + threadIdx.x;
  const uint32_t length = (uint32_t)params.length;
  First a[COUNT];
  Stored b[COUNT] = {}, c[COUNT] = {};
  int32_t to[COUNT];
  RM_UNROLL for (int k = 0; k < COUNT; k++) {
    const uint32_t n = from + (uint32_t)(k * RM_THREADS);
    int32_t at[OPERANDS] = {};
    a[k] = 0;
    if (n < length) {
      rm_seek<rm_index32>(params.axes, 0, (int)params.rank, n, at);
      a[k] = rm_load_element<First>(params.in[0], at[1]);
      if constexpr (Op::arity > 1) b[k] = rm_load_element<Stored>(params.in[1], at[2]);
      if constexpr (Op::arity > 2) c[k] = rm_load_element<Stored>(params.in[2], at[3]);
    }
    to[k] = at[0];
  }
  RM_UNROLL for (int k = 0; k < COUNT; k++) {
    if (from + (uint32_t)(k * RM_THREADS) < length) {
      ((typename Op::out::stored *)params.out)[to[k]] = rm_apply<Op>(a[k], b[k], c[k],
                                                                     params.attributes);
    }
  }
}

/* Casts elements of any dtype as they are loaded and stored. */
template <typename Op, int RANK, typename Bits>
static inline void rm_map_generic(const rm_strided_params<Op::arity + 1, RANK> &params) {
  typedef typename Op::first First;
  typedef typename Op::compute Compute;
  typedef typename Bits::offset Offset;
  const int64_t from = (int64_t)blockIdx.x * (RM_THREADS * RM_MAP_ELEMENTS) + threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < RM_MAP_ELEMENTS; k++) {
    const int64_t n = from + k * RM_THREADS;
    if (n >= params.length) return;
    Offset at[Op::arity + 1] = {};
    rm_seek<Bits>(params.axes, 0, (int)params.rank, (typename Bits::index)n, at);
    const uint32_t dtypes = (uint32_t)params.flags;
    typename First::stored x;
    typename Compute::stored y = 0, z = 0;
    if (params.in[0].at == nullptr) x = rm_argument<typename First::stored>(params.in[0].element);
    else x = rm_load_as<First>(dtypes >> 8 & 255, params.in[0].at, at[1]);
    if constexpr (Op::arity > 1) {
      if (params.in[1].at == nullptr) {
        y = rm_argument<typename Compute::stored>(params.in[1].element);
      } else y = rm_load_as<Compute>(dtypes >> 16 & 255, params.in[1].at, at[2]);
    }
    if constexpr (Op::arity > 2) {
      if (params.in[2].at == nullptr) {
        z = rm_argument<typename Compute::stored>(params.in[2].element);
      } else z = rm_load_as<Compute>(dtypes >> 24, params.in[2].at, at[3]);
    }
    rm_store_as<typename Op::out>(dtypes & 255, params.out, at[0],
                                  rm_apply<Op>(x, y, z, params.attributes));
  }
}

/* ---- tiled operands -------------------------------------------------------------------------- */

/* The two innermost axes are processed in square tiles. Flags: bit k is set if input k runs across
 * the output, so that its tiles are transposed in shared memory. `axes` are the other axes. */
template <int OPERANDS>
struct rm_tiled_params {
  int64_t flags;
  double attributes[4];
  void *out;
  rm_map_input in[3];
  int64_t rows;
  int64_t columns;
  rm_divisor tile_columns;
  rm_divisor tile_rows;
  int64_t column_stride[OPERANDS];
  int64_t row_stride[OPERANDS];
  int64_t rank;
  rm_axis<OPERANDS> axes[RM_FEW_AXES];
};

/* The partition of a tile: each thread has one column and every ROWS-th row. */
template <int SIDE>
struct rm_tile_partition {
  static constexpr int rows = RM_THREADS / SIDE;
  static constexpr int count = SIDE / rows;
  static inline int x() { return (int)(threadIdx.x % SIDE); }
  static inline int y(int i) { return (int)(threadIdx.x / SIDE) + i * rows; }
  /* How far the end of a tile is below the first element of this thread. */
  static inline int left(int across, int down) { return x() < across ? down - y(0) : 0; }
  /* The offset of the first element. It may overflow outside the tile, where nothing is read. */
  static inline int32_t first(int32_t at, int32_t step, int32_t jump) {
    return (int32_t)((uint32_t)at + (uint32_t)x() * (uint32_t)step +
                     (uint32_t)y(0) * (uint32_t)jump);
  }
};

template <typename T, int SIDE>
struct rm_tile {
  /* Padded by 4 bytes or an element, so that a column uses as many banks as a row. */
  T at[SIDE][SIDE + (sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1)];
};

/* Loads this thread's elements of a tile of `across` by `down` elements that begins at `at`, where
 * lanes follow the stride `step` and rows of threads the stride `jump`. If `transposed`, also
 * stores them in shared memory. */
template <int SIDE, typename T>
static inline void rm_read_tile(const rm_map_input &in, int32_t at, int32_t step, int32_t jump,
                                int across, int down, bool transposed, rm_tile<T, SIDE> &tile,
                                T *own) {
  typedef rm_tile_partition<SIDE> partition;
  if (in.at == nullptr) {
    const T element = rm_argument<T>(in.element);
    RM_UNROLL for (int i = 0; i < partition::count; i++) own[i] = element;
    return;
  }
  const int x = partition::x(), left = partition::left(across, down);
  const T *from = (const T *)in.at + partition::first(at, step, jump);
  const int64_t ahead = (int64_t)jump * partition::rows;
  RM_UNROLL for (int i = 0; i < partition::count; i++) {
    if (i * partition::rows < left) own[i] = *from;
    from += ahead;
  }
  if (!transposed) return;
  RM_UNROLL for (int i = 0; i < partition::count; i++) tile.at[partition::y(i)][x] = own[i];
}

template <int SIDE, typename T>
static inline void rm_read_transposed(const rm_tile<T, SIDE> &tile, T *own) {
  typedef rm_tile_partition<SIDE> partition;
  RM_UNROLL for (int i = 0; i < partition::count; i++) {
    own[i] = tile.at[partition::x()][partition::y(i)];
  }
}

template <typename Op>
static inline void rm_map_tiled(const rm_tiled_params<Op::arity + 1> &params) {
  typedef typename Op::first::stored First;
  typedef typename Op::compute::stored Stored;
  typedef typename Op::out::stored Out;
  constexpr bool small = sizeof(First) <= 2 && sizeof(Stored) <= 2 && sizeof(Out) <= 2;
  constexpr int OPERANDS = Op::arity + 1;
  constexpr int SIDE = small && Op::packs > 1 ? RM_MAP_LARGE_TILE : RM_MAP_TILE;
  typedef rm_tile_partition<SIDE> partition;
  __shared__ rm_tile<First, SIDE> first;
  __shared__ rm_tile<Stored, SIDE> second;
  __shared__ rm_tile<Stored, SIDE> third;
  const uint32_t rest = rm_divide(blockIdx.x, params.tile_columns);
  const uint32_t tile_column = blockIdx.x - rest * (uint32_t)params.tile_columns.size;
  const uint32_t outer = rm_divide(rest, params.tile_rows);
  const uint32_t tile_row = rest - outer * (uint32_t)params.tile_rows.size;
  int32_t at[OPERANDS];
  RM_UNROLL for (int k = 0; k < OPERANDS; k++) {
    at[k] = (int32_t)(tile_row * SIDE) * (int32_t)params.row_stride[k] +
            (int32_t)(tile_column * SIDE) * (int32_t)params.column_stride[k];
  }
  rm_seek<rm_index32>(params.axes, 0, (int)params.rank, outer, at);
  const int rows = rm_min((int)params.rows - (int)tile_row * SIDE, SIDE);
  const int columns = rm_min((int)params.columns - (int)tile_column * SIDE, SIDE);
  First a[partition::count];
  Stored b[partition::count] = {}, c[partition::count] = {};
  const bool transposes_a = (params.flags & 1) != 0;
  const bool transposes_b = Op::arity > 1 && (params.flags & 2) != 0;
  const bool transposes_c = Op::arity > 2 && (params.flags & 4) != 0;
#define RM_READ_TILE(k, transposes, tile, own) \
  rm_read_tile<SIDE>(params.in[k], at[k + 1], \
                     (int32_t)(transposes ? params.row_stride : params.column_stride)[k + 1], \
                     (int32_t)(transposes ? params.column_stride : params.row_stride)[k + 1], \
                     transposes ? rows : columns, transposes ? columns : rows, transposes, tile, \
                     own);
  RM_READ_TILE(0, transposes_a, first, a)
  if constexpr (Op::arity > 1) RM_READ_TILE(1, transposes_b, second, b)
  if constexpr (Op::arity > 2) RM_READ_TILE(2, transposes_c, third, c)
#undef RM_READ_TILE
  __syncthreads();
  if (transposes_a) rm_read_transposed<SIDE>(first, a);
  if constexpr (Op::arity > 1) {
    if (transposes_b) rm_read_transposed<SIDE>(second, b);
  }
  if constexpr (Op::arity > 2) {
    if (transposes_c) rm_read_transposed<SIDE>(third, c);
  }
  const int left = partition::left(columns, rows);
  Out *to = (Out *)params.out + partition::first(at[0], (int32_t)params.column_stride[0],
                                                 (int32_t)params.row_stride[0]);
  const int64_t ahead = params.row_stride[0] * partition::rows;
  RM_UNROLL for (int i = 0; i < partition::count; i++) {
    if (i * partition::rows < left) *to = rm_apply<Op>(a[i], b[i], c[i], params.attributes);
    to += ahead;
  }
}

/* ---- chains ---------------------------------------------------------------------------------- */

/* Several ops in one pass. A source defines a struct with the numbers of operands, of numbers, of
 * elements per pack and of packs per thread; `load`, which reads packs of all inputs, and `apply`,
 * which computes and writes packs of all outputs. Inputs may be outputs, too: a thread loads all of
 * its elements before it stores any. Operands are the outputs, then the inputs; numbers are scalars,
 * an element in the low bytes of each, and parameters. */
template <int OPERANDS, int NUMBERS>
struct rm_chain_params {
  int64_t length;
  int64_t rank;
  /* RM_MAP_ALIGNED if packs of all contiguous operands can be loaded at once. */
  int64_t flags;
  void *data[OPERANDS];
  int64_t numbers[NUMBERS];
  /* If operands are contiguous, only the strides of the first axis are read. */
  rm_axis<OPERANDS> axes[RM_FEW_AXES];
};

template <typename Chain>
using rm_chain_params_of = rm_chain_params<Chain::operands, Chain::numbers>;

/* The packs at element `n` of operands that are contiguous or single elements. */
template <typename Params>
struct rm_chain_packs {
  const Params &params;
  int64_t n;
  bool aligned;
  template <typename T, int N>
  inline rm_pack<T, N> load(int k) const {
    const int64_t stride = params.axes[0].stride[k];
    const T *const from = (const T *)params.data[k] + n * stride;
    if (N > 1 && aligned && stride == 1) return rm_load<N>(from);
    rm_pack<T, N> pack;
    RM_UNROLL for (int i = 0; i < N; i++) pack.at[i] = from[i * stride];
    return pack;
  }
  template <typename T, int N>
  inline void store(int k, const rm_pack<T, N> &pack) const {
    T *const to = (T *)params.data[k] + n;
    if (N > 1 && aligned) {
      rm_store<N>(to, pack);
    } else {
      RM_UNROLL for (int i = 0; i < N; i++) to[i] = pack.at[i];
    }
  }
};

/* One element of each operand, at any offset. */
template <typename Params>
struct rm_chain_elements {
  const Params &params;
  const int32_t *at;
  template <typename T, int N>
  inline rm_pack<T, N> load(int k) const {
    return {{((const T *)params.data[k])[at[k]]}};
  }
  template <typename T, int N>
  inline void store(int k, const rm_pack<T, N> &pack) const {
    ((T *)params.data[k])[at[k]] = pack.at[0];
  }
};

/* Contiguous outputs, and inputs that are contiguous or single elements. */
template <typename Chain>
static inline void rm_chain_contiguous(const rm_chain_params_of<Chain> &params) {
  typedef rm_chain_packs<rm_chain_params_of<Chain>> Packs;
  constexpr int N = Chain::pack, PACKS = Chain::packs, STEP = RM_THREADS * N;
  const bool aligned = (params.flags & RM_MAP_ALIGNED) != 0;
  const int64_t from = (int64_t)blockIdx.x * (PACKS * STEP) + (int64_t)threadIdx.x * N;
  if (from + (PACKS - 1) * STEP + N <= params.length) {
    typename Chain::template inputs<N> in[PACKS];
    RM_UNROLL for (int p = 0; p < PACKS; p++) {
      in[p] = Chain::template load<N>(Packs{params, from + p * STEP, aligned});
    }
    RM_UNROLL for (int p = 0; p < PACKS; p++) {
      Chain::apply(in[p], params.numbers, Packs{params, from + p * STEP, aligned});
    }
    return;
  }
#pragma unroll 1
  for (int i = 0; i < PACKS * N; i++) {
    const int64_t n = from + i / N * STEP + i % N;
    if (n >= params.length) continue;
    const Packs one{params, n, false};
    Chain::apply(Chain::template load<1>(one), params.numbers, one);
  }
}

template <typename Chain>
static inline void rm_chain_strided(const rm_chain_params_of<Chain> &params) {
  typedef rm_chain_elements<rm_chain_params_of<Chain>> Elements;
  const uint32_t from = blockIdx.x * (uint32_t)(RM_THREADS * RM_MAP_ELEMENTS) + threadIdx.x;
  int32_t at[RM_MAP_ELEMENTS][Chain::operands] = {};
  typename Chain::template inputs<1> in[RM_MAP_ELEMENTS];
  RM_UNROLL for (int i = 0; i < RM_MAP_ELEMENTS; i++) {
    const uint32_t n = from + (uint32_t)(i * RM_THREADS);
    if (n >= (uint32_t)params.length) continue;
    rm_seek<rm_index32>(params.axes, 0, (int)params.rank, n, at[i]);
    in[i] = Chain::template load<1>(Elements{params, at[i]});
  }
  RM_UNROLL for (int i = 0; i < RM_MAP_ELEMENTS; i++) {
    const uint32_t n = from + (uint32_t)(i * RM_THREADS);
    if (n >= (uint32_t)params.length) continue;
    Chain::apply(in[i], params.numbers, Elements{params, at[i]});
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

#define RM_MAP_KERNEL(name, params_type, body) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) name(const params_type params) { body; }
#define RM_MAP_CONTIGUOUS(op) \
  RM_MAP_KERNEL(op##_contiguous, rm_contiguous_params, rm_map_contiguous<op>(params))
#define RM_MAP_AXES_KERNEL(op, name, axes, body) \
  typedef rm_strided_params<op::arity + 1, axes> op##_##name##_params; \
  RM_MAP_KERNEL(op##_##name, op##_##name##_params, body)
/* With three integer operands the compiler would spill registers to have at least 6 blocks. */
#define RM_MAP_VECTORIZED(op) \
  typedef rm_strided_params<op::arity + 1, RM_FEW_AXES> op##_vectorized_params; \
  extern "C" __global__ void __launch_bounds__(RM_THREADS, \
                                               op::arity > 2 && !op::compute::is_float ? 4 : 0) \
      op##_vectorized(const op##_vectorized_params params) { \
    rm_map_vectorized<op>(params); \
  }
#define RM_MAP_STRIDED(op) RM_MAP_AXES_KERNEL(op, strided, RM_FEW_AXES, rm_map_strided<op>(params))
#define RM_MAP_CASTING(op) \
  RM_MAP_AXES_KERNEL(op, casting, RM_FEW_AXES, \
                     (rm_map_generic<op, RM_FEW_AXES, rm_index32>(params)))
#define RM_MAP_GENERIC(op) \
  RM_MAP_AXES_KERNEL(op, generic, RM_MAX_AXES, \
                     (rm_map_generic<op, RM_MAX_AXES, rm_index64>(params)))
#define RM_CHAIN_CONTIGUOUS(chain) \
  RM_MAP_KERNEL(chain##_contiguous, rm_chain_params_of<chain>, rm_chain_contiguous<chain>(params))
#define RM_CHAIN_STRIDED(chain) \
  RM_MAP_KERNEL(chain##_strided, rm_chain_params_of<chain>, rm_chain_strided<chain>(params))
#define RM_MAP_TILED(op) \
  typedef rm_tiled_params<op::arity + 1> op##_tiled_params; \
  RM_MAP_KERNEL(op##_tiled, op##_tiled_params, rm_map_tiled<op>(params))

#endif
