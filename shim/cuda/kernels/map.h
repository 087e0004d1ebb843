/*
 * Elementwise kernels: dense operands, strided ones, those that run across each other, and a
 * general one that also casts.
 *
 * A source defines a row for one dtype,
 *
 *   struct add_f32 : rm_map_row<rm_f32, rm_f32, rm_f32, float, 2, 4, 2> {
 *     static float apply(float x, float y, float, const double *) { return (x + y); }
 *   };
 *
 * and then its kernels by the macros at the end; before this file it includes vecmath.h and
 * intmath.h where rows call what is there. Knows nothing of what an op means.
 */
#ifndef ROWMAJOR_CUDA_MAP_H
#define ROWMAJOR_CUDA_MAP_H

#include "device.h"

/* Defined by the source that includes this: see src/backend/cuda/constants.ts. */
#if !defined(RM_MAP_ELEMENTS) || !defined(RM_MAP_TILE) || !defined(RM_MAP_LARGE_TILE) || \
    !defined(RM_MAP_ALIGNED)
#error "map.h needs the constants of src/backend/cuda/constants.ts"
#endif

/*
 * A row: the dtypes that it computes in, takes first (a condition is bool) and gives; what apply
 * takes; how many operands it has; how many elements a pack has, and how many packs a thread takes.
 */
template <typename Compute, typename First, typename Out, typename Work, int ARITY, int PACK,
          int PACKS>
struct rm_map_row {
  typedef Compute compute;
  typedef First first;
  typedef Out out;
  typedef Work work;
  static constexpr int arity = ARITY;
  static constexpr int pack = PACK;
  static constexpr int packs = PACKS;
};

/* Stands for the arithmetic of rows that take and give elements as they are stored. */
struct rm_bits {};

/*
 * An input: where it is, and, where that is null, its one element. Flags, of all operands together,
 * say what else it is.
 */
struct rm_map_input {
  const void *at;
  int64_t element;
};

/* Elements as stored to what apply takes. */
template <typename Row>
static inline typename Row::work rm_read(typename Row::compute::stored v) {
  return (typename Row::work)Row::compute::get(v);
}

template <typename A, typename B>
struct rm_is_same {
  static constexpr bool value = false;
};
template <typename A>
struct rm_is_same<A, A> {
  static constexpr bool value = true;
};

/* What apply gives, as an element of the row's result. */
template <typename Row, typename T>
static inline typename Row::out::stored rm_result(T v) {
  typedef typename Row::out Out;
  /* Double is the arithmetic of some rows in narrower floats: rounded once. */
  if constexpr (rm_is_same<T, double>::value) {
    return rm_cast<Out, rm_f64>((double)v);
  } else {
    return Out::put((typename Out::value)v);
  }
}

#if defined(ROWMAJOR_VECMATH_H)
/*
 * The primitives are for operands that are not huge; for those there are the compiler's functions
 * of double. Calls that stay such, as both sides of a branch would be computed otherwise.
 */
#define RM_TRIGONOMETRIC(name) \
  static __attribute__((noinline)) double rm_far_##name(double x) { return name(x); } \
  static inline float rm_any_##name##_f32(float x) { \
    const bool rare = rm_turn_is_rare_f32(rm_turn_key_f32(x)); \
    return rare ? (float)rm_far_##name((double)x) : rm_##name##_f32(x); \
  } \
  static inline double rm_any_##name##_f64(double x) { \
    const bool rare = rm_turn_is_rare_f64(rm_turn_key_f64(x)); \
    return rare ? rm_far_##name(x) : rm_##name##_f64(x); \
  }
RM_TRIGONOMETRIC(sin)
RM_TRIGONOMETRIC(cos)
RM_TRIGONOMETRIC(tan)
#endif

template <typename Row>
static inline typename Row::out::stored rm_apply(typename Row::first::stored a,
                                                 typename Row::compute::stored b,
                                                 typename Row::compute::stored c,
                                                 const double *attributes) {
  typedef typename Row::work Work;
  if constexpr (rm_is_same<Work, rm_bits>::value) {
    return Row::apply(a, b, c, attributes);
  } else if constexpr (Row::first::id != Row::compute::id) {
    return rm_result<Row>(Row::apply((Work)a, rm_read<Row>(b), rm_read<Row>(c), attributes));
  } else {
    return rm_result<Row>(
        Row::apply(rm_read<Row>(a), rm_read<Row>(b), rm_read<Row>(c), attributes));
  }
}

/* ---- dense ----------------------------------------------------------------------------------- */

/* Flags: bit k for an operand that is dense, RM_MAP_ALIGNED where all of those lie so that packs can be
 * moved at once. The others have one element. */
struct rm_dense {
  int64_t length;
  int64_t flags;
  double attributes[4];
  void *out;
  rm_map_input in[3];
};

/* The element of an operand that has one. */
template <typename T>
static inline T rm_single(const rm_map_input &in) {
  return in.at != nullptr ? *(const T *)in.at : rm_argument<T>(in.element);
}

template <int N, typename T>
static inline rm_pack<T, N> rm_repeat(T v) {
  rm_pack<T, N> pack;
  RM_UNROLL for (int i = 0; i < N; i++) pack.at[i] = v;
  return pack;
}

template <typename Row>
static inline void rm_map_dense(const rm_dense &job) {
  typedef typename Row::first::stored First;
  typedef typename Row::compute::stored Stored;
  typedef typename Row::out::stored Out;
  constexpr int N = Row::pack, PACKS = Row::packs, TILE = RM_THREADS * N * PACKS;
  const First *a = (const First *)job.in[0].at;
  const Stored *b = (const Stored *)job.in[1].at, *c = (const Stored *)job.in[2].at;
  Out *out = (Out *)job.out;
  const bool all_a = (job.flags & 1) != 0, all_b = Row::arity > 1 && (job.flags & 2) != 0;
  const bool all_c = Row::arity > 2 && (job.flags & 4) != 0;
  First x = 0;
  Stored y = 0, z = 0;
  if (!all_a) x = rm_single<First>(job.in[0]);
  if (Row::arity > 1 && !all_b) y = rm_single<Stored>(job.in[1]);
  if (Row::arity > 2 && !all_c) z = rm_single<Stored>(job.in[2]);
  const int64_t from = (int64_t)blockIdx.x * TILE;
  if ((job.flags & RM_MAP_ALIGNED) != 0 && from + TILE <= job.length) {
    rm_pack<First, N> p[PACKS];
    rm_pack<Stored, N> q[PACKS], r[PACKS];
    RM_UNROLL for (int k = 0; k < PACKS; k++) {
      const int64_t at = from + (int64_t)(k * RM_THREADS + threadIdx.x) * N;
      p[k] = all_a ? rm_load<N>(a + at) : rm_repeat<N>(x);
      q[k] = all_b ? rm_load<N>(b + at) : rm_repeat<N>(y);
      r[k] = all_c ? rm_load<N>(c + at) : rm_repeat<N>(z);
    }
    RM_UNROLL for (int k = 0; k < PACKS; k++) {
      rm_pack<Out, N> result;
      RM_UNROLL for (int i = 0; i < N; i++) {
        result.at[i] = rm_apply<Row>(p[k].at[i], q[k].at[i], r[k].at[i], job.attributes);
      }
      rm_store(out + from + (int64_t)(k * RM_THREADS + threadIdx.x) * N, result);
    }
    return;
  }
  /* One by one, but several on their way at once. */
  constexpr int COUNT = PACKS > 1 ? 4 : 2;
  const int64_t end = rm_min(from + TILE, job.length);
#pragma unroll 1
  for (int64_t at = from + threadIdx.x; at < end; at += COUNT * RM_THREADS) {
    First p[COUNT];
    Stored q[COUNT], r[COUNT];
    RM_UNROLL for (int k = 0; k < COUNT; k++) {
      const int64_t n = at + k * RM_THREADS;
      p[k] = all_a && n < end ? a[n] : x;
      q[k] = all_b && n < end ? b[n] : y;
      r[k] = all_c && n < end ? c[n] : z;
    }
    RM_UNROLL for (int k = 0; k < COUNT; k++) {
      const int64_t n = at + k * RM_THREADS;
      if (n < end) out[n] = rm_apply<Row>(p[k], q[k], r[k], job.attributes);
    }
  }
}

/* ---- strided --------------------------------------------------------------------------------- */

/*
 * Positions are counted along the axes, the last one fastest. Flags: bit k where rows of operand k
 * lie so that packs of it can be moved at once; in the general kernel bits 4 k to 4 k + 3 are the
 * dtype of operand k, the output's lowest.
 */
template <int OPERANDS, int RANK>
struct rm_strided {
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
static inline T rm_element(const rm_map_input &in, Offset at) {
  return in.at != nullptr ? ((const T *)in.at)[at] : rm_argument<T>(in.element);
}

/* A pack of an input from element `at` on. */
template <typename T, int N, typename Offset>
static inline rm_pack<T, N> rm_gather(const rm_map_input &in, Offset at, bool dense, Offset step) {
  if (dense) return rm_load<N>((const T *)in.at + at);
  if (step == 0) return rm_repeat<N>(rm_element<T>(in, at));
  rm_pack<T, N> pack;
  RM_UNROLL for (int i = 0; i < N; i++) pack.at[i] = ((const T *)in.at)[at + i * step];
  return pack;
}

/* Packs along rows of the output, which are dense and of whole packs; positions count packs. */
template <typename Row>
static inline void rm_map_rows(const rm_strided<Row::arity + 1, RM_FEW_AXES> &job) {
  typedef typename Row::first::stored First;
  typedef typename Row::compute::stored Stored;
  constexpr int N = Row::pack, OPERANDS = Row::arity + 1;
  const int64_t n = rm_global_index();
  if (n >= job.length) return;
  int32_t at[OPERANDS] = {};
  rm_seek<rm_narrow>(job.axes, 0, (int)job.rank, (uint32_t)n, at);
  rm_pack<First, N> p;
  rm_pack<Stored, N> q = {}, r = {};
  p = rm_gather<First, N>(job.in[0], at[1], (job.flags & 1) != 0, (int32_t)job.step[0]);
  if constexpr (Row::arity > 1) {
    q = rm_gather<Stored, N>(job.in[1], at[2], (job.flags & 2) != 0, (int32_t)job.step[1]);
  }
  if constexpr (Row::arity > 2) {
    r = rm_gather<Stored, N>(job.in[2], at[3], (job.flags & 4) != 0, (int32_t)job.step[2]);
  }
  rm_pack<typename Row::out::stored, N> result;
  RM_UNROLL for (int i = 0; i < N; i++) {
    result.at[i] = rm_apply<Row>(p.at[i], q.at[i], r.at[i], job.attributes);
  }
  rm_store((typename Row::out::stored *)job.out + at[0], result);
}

/* One element after another. */
template <typename Row>
static inline void rm_map_singles(const rm_strided<Row::arity + 1, RM_FEW_AXES> &job) {
  typedef typename Row::first::stored First;
  typedef typename Row::compute::stored Stored;
  constexpr int OPERANDS = Row::arity + 1, COUNT = RM_MAP_ELEMENTS;
  const uint32_t from = blockIdx.x * (uint32_t)(RM_THREADS * COUNT) + threadIdx.x;
  const uint32_t length = (uint32_t)job.length;
  First a[COUNT];
  Stored b[COUNT] = {}, c[COUNT] = {};
  int32_t to[COUNT];
  RM_UNROLL for (int k = 0; k < COUNT; k++) {
    const uint32_t n = from + (uint32_t)(k * RM_THREADS);
    int32_t at[OPERANDS] = {};
    a[k] = 0;
    if (n < length) {
      rm_seek<rm_narrow>(job.axes, 0, (int)job.rank, n, at);
      a[k] = rm_element<First>(job.in[0], at[1]);
      if constexpr (Row::arity > 1) b[k] = rm_element<Stored>(job.in[1], at[2]);
      if constexpr (Row::arity > 2) c[k] = rm_element<Stored>(job.in[2], at[3]);
    }
    to[k] = at[0];
  }
  RM_UNROLL for (int k = 0; k < COUNT; k++) {
    if (from + (uint32_t)(k * RM_THREADS) < length) {
      ((typename Row::out::stored *)job.out)[to[k]] =
          rm_apply<Row>(a[k], b[k], c[k], job.attributes);
    }
  }
}

/* Any dtypes, which are cast as they are read and written. */
template <typename Row, int RANK, typename Bits>
static inline void rm_map_general(const rm_strided<Row::arity + 1, RANK> &job) {
  typedef typename Row::first First;
  typedef typename Row::compute Compute;
  typedef typename Bits::offset Offset;
  const int64_t from = (int64_t)blockIdx.x * (RM_THREADS * RM_MAP_ELEMENTS) + threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < RM_MAP_ELEMENTS; k++) {
    const int64_t n = from + k * RM_THREADS;
    if (n >= job.length) return;
    Offset at[Row::arity + 1] = {};
    rm_seek<Bits>(job.axes, 0, (int)job.rank, (typename Bits::index)n, at);
    const int dtypes = (int)job.flags;
    typename First::stored x;
    typename Compute::stored y = 0, z = 0;
    if (job.in[0].at == nullptr) x = rm_argument<typename First::stored>(job.in[0].element);
    else x = rm_fetch<First>(dtypes >> 4 & 15, job.in[0].at, at[1]);
    if constexpr (Row::arity > 1) {
      if (job.in[1].at == nullptr) y = rm_argument<typename Compute::stored>(job.in[1].element);
      else y = rm_fetch<Compute>(dtypes >> 8 & 15, job.in[1].at, at[2]);
    }
    if constexpr (Row::arity > 2) {
      if (job.in[2].at == nullptr) z = rm_argument<typename Compute::stored>(job.in[2].element);
      else z = rm_fetch<Compute>(dtypes >> 12 & 15, job.in[2].at, at[3]);
    }
    rm_place<typename Row::out>(dtypes & 15, job.out, at[0],
                                rm_apply<Row>(x, y, z, job.attributes));
  }
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/*
 * The two innermost axes are walked in squares. Flags: bit k where input k runs across the output,
 * so that its squares are turned in shared memory. The axes are the others; right and down are the
 * strides along the innermost axis and the one before.
 */
template <int OPERANDS>
struct rm_tiled {
  int64_t flags;
  double attributes[4];
  void *out;
  rm_map_input in[3];
  int64_t rows;
  int64_t columns;
  rm_divisor tiles_right;
  rm_divisor tiles_down;
  int64_t right[OPERANDS];
  int64_t down[OPERANDS];
  int64_t rank;
  rm_axis<OPERANDS> axes[RM_FEW_AXES];
};

/* How elements of a tile are shared: each thread has a column, and every ROWS-th row. */
template <int SIDE>
struct rm_tile_share {
  static constexpr int rows = RM_THREADS / SIDE;
  static constexpr int count = SIDE / rows;
  static inline int x() { return (int)threadIdx.x % SIDE; }
  static inline int y(int i) { return (int)threadIdx.x / SIDE + i * rows; }
};

template <typename T, int SIDE>
struct rm_tile {
  /* 4 bytes more, or an element, so that a column is in as many banks as a row. */
  T at[SIDE][SIDE + (sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1)];
};

/* Reads this thread's elements of a square, or, with turned, its part of it into shared memory. */
template <int SIDE, typename T, int OPERANDS>
static inline void rm_read_tile(const rm_tiled<OPERANDS> &job, int k, int32_t at, int rows,
                                int columns, bool turned, rm_tile<T, SIDE> &tile, T *own) {
  typedef rm_tile_share<SIDE> share;
  const int32_t right = (int32_t)job.right[k + 1], down = (int32_t)job.down[k + 1];
  const int x = share::x();
  RM_UNROLL for (int i = 0; i < share::count; i++) {
    const int y = share::y(i), row = turned ? x : y, column = turned ? y : x;
    own[i] = 0;
    if (row < rows && column < columns) {
      own[i] = rm_element<T>(job.in[k], at + row * down + column * right);
    }
  }
  if (!turned) return;
  RM_UNROLL for (int i = 0; i < share::count; i++) tile.at[share::y(i)][x] = own[i];
}

template <int SIDE, typename T>
static inline void rm_take_turned(const rm_tile<T, SIDE> &tile, T *own) {
  typedef rm_tile_share<SIDE> share;
  RM_UNROLL for (int i = 0; i < share::count; i++) own[i] = tile.at[share::x()][share::y(i)];
}

template <typename Row>
static inline void rm_map_tiles(const rm_tiled<Row::arity + 1> &job) {
  typedef typename Row::first::stored First;
  typedef typename Row::compute::stored Stored;
  typedef typename Row::out::stored Out;
  constexpr bool small = sizeof(First) <= 2 && sizeof(Stored) <= 2 && sizeof(Out) <= 2;
  constexpr int OPERANDS = Row::arity + 1;
  constexpr int SIDE = small && Row::packs > 1 ? RM_MAP_LARGE_TILE : RM_MAP_TILE;
  typedef rm_tile_share<SIDE> share;
  __shared__ rm_tile<First, SIDE> first;
  __shared__ rm_tile<Stored, SIDE> second;
  __shared__ rm_tile<Stored, SIDE> third;
  const uint32_t rest = rm_divide(blockIdx.x, job.tiles_right);
  const uint32_t right = blockIdx.x - rest * (uint32_t)job.tiles_right.size;
  const uint32_t outer = rm_divide(rest, job.tiles_down);
  const uint32_t down = rest - outer * (uint32_t)job.tiles_down.size;
  int32_t at[OPERANDS];
  RM_UNROLL for (int k = 0; k < OPERANDS; k++) {
    at[k] = (int32_t)(down * SIDE) * (int32_t)job.down[k] +
            (int32_t)(right * SIDE) * (int32_t)job.right[k];
  }
  rm_seek<rm_narrow>(job.axes, 0, (int)job.rank, outer, at);
  const int rows = (int)rm_min<int64_t>(job.rows - (int64_t)down * SIDE, SIDE);
  const int columns = (int)rm_min<int64_t>(job.columns - (int64_t)right * SIDE, SIDE);
  First a[share::count];
  Stored b[share::count] = {}, c[share::count] = {};
  const bool turns_a = (job.flags & 1) != 0;
  const bool turns_b = Row::arity > 1 && (job.flags & 2) != 0;
  const bool turns_c = Row::arity > 2 && (job.flags & 4) != 0;
  rm_read_tile<SIDE>(job, 0, at[1], rows, columns, turns_a, first, a);
  if constexpr (Row::arity > 1) {
    rm_read_tile<SIDE>(job, 1, at[2], rows, columns, turns_b, second, b);
  }
  if constexpr (Row::arity > 2) {
    rm_read_tile<SIDE>(job, 2, at[3], rows, columns, turns_c, third, c);
  }
  __syncthreads();
  if (turns_a) rm_take_turned<SIDE>(first, a);
  if constexpr (Row::arity > 1) {
    if (turns_b) rm_take_turned<SIDE>(second, b);
  }
  if constexpr (Row::arity > 2) {
    if (turns_c) rm_take_turned<SIDE>(third, c);
  }
  Out *const out = (Out *)job.out + at[0];
  const int x = share::x();
  RM_UNROLL for (int i = 0; i < share::count; i++) {
    const int row = share::y(i);
    if (row < rows && x < columns) {
      out[row * (int32_t)job.down[0] + x * (int32_t)job.right[0]] =
          rm_apply<Row>(a[i], b[i], c[i], job.attributes);
    }
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

#define RM_MAP_KERNEL(name, job_type, body) \
  extern "C" __global__ void __launch_bounds__(RM_THREADS) name(const job_type job) { body; }
#define RM_MAP_DENSE(row) RM_MAP_KERNEL(row##_dense, rm_dense, rm_map_dense<row>(job))
#define RM_MAP_STRIDED(row, name, axes, body) \
  typedef rm_strided<row::arity + 1, axes> row##_##name##_job; \
  RM_MAP_KERNEL(row##_##name, row##_##name##_job, body)
/* Of three operands of integers the compiler would rather spill than have fewer than 6 blocks. */
#define RM_MAP_ROWS(row) \
  typedef rm_strided<row::arity + 1, RM_FEW_AXES> row##_rows_job; \
  extern "C" __global__ void \
  __launch_bounds__(RM_THREADS, row::arity > 2 && !row::compute::is_float ? 4 : 0) \
      row##_rows(const row##_rows_job job) { \
    rm_map_rows<row>(job); \
  }
#define RM_MAP_SINGLE(row) RM_MAP_STRIDED(row, singles, RM_FEW_AXES, rm_map_singles<row>(job))
#define RM_MAP_MIXED(row) \
  RM_MAP_STRIDED(row, mixed, RM_FEW_AXES, (rm_map_general<row, RM_FEW_AXES, rm_narrow>(job)))
#define RM_MAP_ANY(row) \
  RM_MAP_STRIDED(row, any, RM_MOST_AXES, (rm_map_general<row, RM_MOST_AXES, rm_wide>(job)))
#define RM_MAP_TILES(row) \
  typedef rm_tiled<row::arity + 1> row##_tiles_job; \
  RM_MAP_KERNEL(row##_tiles, row##_tiles_job, rm_map_tiles<row>(job))

#endif
