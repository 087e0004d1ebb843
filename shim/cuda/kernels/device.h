/*
 * What all device code includes first: integer types, for which NVRTC has no header, packs of
 * elements that are loaded at once, dtypes and casts, and division by numbers that are known at
 * launch.
 *
 * Compiled by NVRTC (CUDA C++ without any header), by clang, and by the emulator of the tests (C++
 * on the CPU, with RM_EMULATED). The primitives of the CPU kernels (float16.h, cast.h, vecmath.h,
 * intmath.h) work after this header. This file does not know ops.
 */
#ifndef ROWMAJOR_DEVICE_H
#define ROWMAJOR_DEVICE_H

/* Tells the primitives that they are compiled for a device. */
#define RM_DEVICE 1

/* Whether generic kernels should be small rather than fast. */
#if !defined(RM_SMALL)
#define RM_SMALL 0
#endif

/* Fully unrolls a loop, so that arrays become registers. In the emulator that would only slow
 * compilation down. */
#if defined(RM_EMULATED)
#define RM_UNROLL
#include <math.h>
#include <stdint.h>
#include <string.h>
#else
#define RM_UNROLL _Pragma("unroll")
/* Unused functions, and comparisons that are constant for a type. */
#pragma nv_diag_suppress 177
#pragma nv_diag_suppress 186
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MAX 0x7fffffffffffffffll
#define INT64_MIN (-INT64_MAX - 1)
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 0xffffffffu
#define UINT64_MAX 0xffffffffffffffffull
#define INT64_C(n) n##ll
#define UINT64_C(n) n##ull
#define INFINITY rm_from_bits_f32(0x7f800000u)
#define NAN rm_from_bits_f32(0x7fc00000u)
/* The builtin functions that the primitives call. In C++, the functions of double without a suffix
 * would be overloaded for float. */
#if defined(__CUDACC_RTC__)
#define __builtin_fabsf(x) fabsf(x)
#define __builtin_fabs(x) fabs((double)(x))
#define __builtin_sqrtf(x) sqrtf(x)
#define __builtin_sqrt(x) sqrt((double)(x))
#define __builtin_floorf(x) floorf(x)
#define __builtin_floor(x) floor((double)(x))
#define __builtin_ceilf(x) ceilf(x)
#define __builtin_ceil(x) ceil((double)(x))
#define __builtin_truncf(x) truncf(x)
#define __builtin_trunc(x) trunc((double)(x))
#define __builtin_rintf(x) rintf(x)
#define __builtin_rint(x) rint((double)(x))
#define __builtin_copysignf(x, y) copysignf(x, y)
#define __builtin_copysign(x, y) copysign((double)(x), (double)(y))
#define __builtin_fmaf(x, y, z) fmaf(x, y, z)
#define __builtin_fminf(x, y) fminf(x, y)
#define __builtin_fmaxf(x, y) fmaxf(x, y)
#define __builtin_fma(x, y, z) fma((double)(x), (double)(y), (double)(z))
#endif
#endif

/* Defined by the source that includes this header: see src/backend/cuda/source/constants.ts. */
#if !defined(RM_THREADS) || !defined(RM_FEW_AXES) || !defined(RM_MAX_AXES) || !defined(RM_BOOL) || \
    !defined(RM_FLOAT64)
#error "device.h needs the constants of src/backend/cuda/source/constants.ts"
#endif

#include "float16.h"
#include "cast.h"

/* ---- numbers --------------------------------------------------------------------------------- */

template <typename T>
static inline T rm_min(T a, T b) {
  return b < a ? b : a;
}

/* -x, which wraps: compilers assume that signed integers do not overflow. */
template <int BYTES>
struct rm_unsigned {
  typedef uint32_t type;
};
template <>
struct rm_unsigned<8> {
  typedef uint64_t type;
};
template <typename T>
static inline T rm_negate(T x) {
  return (T)(0 - (typename rm_unsigned<sizeof(T)>::type)x);
}

/* Takes 8 or 16 bits of an integer, whose computation stays in 32 bits. Otherwise ptxas 13 extends
 * the negated int16 -32768 to the int32 32768: it negates after the extension. */
template <typename T>
static inline T rm_narrow(uint32_t x) {
#if !defined(RM_EMULATED)
  asm("" : "+r"(x));
#endif
  return (T)x;
}

/* The index of this thread among all of a launch along x. */
static inline int64_t rm_global_index() {
  return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* Reinterprets the low bytes of an 8-byte argument as a T. */
template <typename T>
static inline T rm_argument(int64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* ---- packs ----------------------------------------------------------------------------------- */

/* N elements that are loaded or stored at once. Their address must be a multiple of their size,
 * which is declared so that the emulator checks it. */
template <typename T, int N>
struct alignas(sizeof(T) * N) rm_pack {
  T at[N];
};

template <int N, typename T>
static inline rm_pack<T, N> rm_load(const T *from) {
  return *(const rm_pack<T, N> *)__builtin_assume_aligned(from, sizeof(T) * N);
}
template <int N, typename T>
static inline void rm_store(T *to, const rm_pack<T, N> &pack) {
  *(rm_pack<T, N> *)__builtin_assume_aligned(to, sizeof(T) * N) = pack;
}

template <int N, typename T>
static inline rm_pack<T, N> rm_broadcast(T v) {
  rm_pack<T, N> pack;
  RM_UNROLL for (int i = 0; i < N; i++) pack.at[i] = v;
  return pack;
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

/* A dtype: the types of its elements in memory (stored) and in computations (value), and its id in
 * TypeScript. get and put convert between the types. round_from returns the value that casts to
 * 16-bit floats round: exact or, for 64-bit integers, with a sticky last bit. */
#define RM_DTYPE(name, number, Stored, Value, floats, read, write, Round, rounding) \
  struct name { \
    typedef Stored stored; \
    typedef Value value; \
    static constexpr int id = number; \
    static constexpr bool is_float = floats; \
    static inline Value get(Stored v) { return read(v); } \
    static inline Stored put(Value v) { return (Stored)write(v); } \
    static inline Round round_from(Stored v) { return (Round)rounding(v); } \
  };
RM_DTYPE(rm_b8, RM_BOOL, uint8_t, uint8_t, false, AS_IS, AS_IS, float, AS_IS)
RM_DTYPE(rm_i8, RM_INT8, int8_t, int8_t, false, AS_IS, AS_IS, float, AS_IS)
RM_DTYPE(rm_i16, RM_INT16, int16_t, int16_t, false, AS_IS, AS_IS, float, AS_IS)
RM_DTYPE(rm_i32, RM_INT32, int32_t, int32_t, false, AS_IS, AS_IS, double, AS_IS)
RM_DTYPE(rm_i64, RM_INT64, int64_t, int64_t, false, AS_IS, AS_IS, double, round_sticky_i64)
RM_DTYPE(rm_u8, RM_UINT8, uint8_t, uint8_t, false, AS_IS, AS_IS, float, AS_IS)
RM_DTYPE(rm_u16, RM_UINT16, uint16_t, uint16_t, false, AS_IS, AS_IS, float, AS_IS)
RM_DTYPE(rm_u32, RM_UINT32, uint32_t, uint32_t, false, AS_IS, AS_IS, double, AS_IS)
RM_DTYPE(rm_u64, RM_UINT64, uint64_t, uint64_t, false, AS_IS, AS_IS, double, round_sticky_u64)
RM_DTYPE(rm_f16, RM_FLOAT16, uint16_t, float, true, rm_f16_to_f32, rm_f32_to_f16, float,
         rm_f16_to_f32)
RM_DTYPE(rm_bf16, RM_BFLOAT16, uint16_t, float, true, rm_bf16_to_f32, rm_f32_to_bf16, float,
         rm_bf16_to_f32)
RM_DTYPE(rm_f32, RM_FLOAT32, float, float, true, AS_IS, AS_IS, float, AS_IS)
RM_DTYPE(rm_f64, RM_FLOAT64, double, double, true, AS_IS, AS_IS, double, AS_IS)

/* Casts a float to another dtype. Integers saturate. */
template <typename To>
struct rm_from_float;
#define RM_FROM_FLOAT(name, convert) \
  template <> \
  struct rm_from_float<name> { \
    template <typename T> \
    static inline name::stored make(T v) { \
      return (name::stored)convert(v); \
    } \
  };
RM_FROM_FLOAT(rm_b8, NONZERO)
RM_FROM_FLOAT(rm_i8, SATURATE_i8)
RM_FROM_FLOAT(rm_i16, SATURATE_i16)
RM_FROM_FLOAT(rm_i32, SATURATE_i32)
RM_FROM_FLOAT(rm_i64, SATURATE_i64)
RM_FROM_FLOAT(rm_u8, SATURATE_u8)
RM_FROM_FLOAT(rm_u16, SATURATE_u16)
RM_FROM_FLOAT(rm_u32, SATURATE_u32)
RM_FROM_FLOAT(rm_u64, SATURATE_u64)
RM_FROM_FLOAT(rm_f32, AS_IS)
RM_FROM_FLOAT(rm_f64, AS_IS)

static inline uint16_t rm_to_f16(float x) { return rm_f32_to_f16(x); }
static inline uint16_t rm_to_f16(double x) { return rm_f64_to_f16(x); }
static inline uint16_t rm_to_bf16(float x) { return rm_f32_to_bf16(x); }
static inline uint16_t rm_to_bf16(double x) { return rm_f64_to_bf16(x); }

/* Casts an element as astype() does. */
template <typename To, typename From>
struct rm_caster {
  static inline typename To::stored cast(typename From::stored v) {
    if constexpr (From::is_float) return rm_from_float<To>::make(From::get(v));
    else if constexpr (To::id == rm_b8::id) return v != 0;
    else return (typename To::stored)v;
  }
};
template <typename From>
struct rm_caster<rm_f16, From> {
  static inline uint16_t cast(typename From::stored v) { return rm_to_f16(From::round_from(v)); }
};
template <typename From>
struct rm_caster<rm_bf16, From> {
  static inline uint16_t cast(typename From::stored v) { return rm_to_bf16(From::round_from(v)); }
};
template <typename Same>
struct rm_identity_caster {
  static inline typename Same::stored cast(typename Same::stored v) { return v; }
};
template <>
struct rm_caster<rm_f16, rm_f16> : rm_identity_caster<rm_f16> {};
template <>
struct rm_caster<rm_bf16, rm_bf16> : rm_identity_caster<rm_bf16> {};

template <typename To, typename From>
static inline typename To::stored rm_cast(typename From::stored v) {
  return rm_caster<To, From>::cast(v);
}

/* Expands DO for the dtype with an id that is known only at run time. */
#define RM_EACH_DTYPE(id, DO) \
  switch (id) { \
    case RM_BOOL: DO(rm_b8) break; \
    case RM_INT8: DO(rm_i8) break; \
    case RM_INT16: DO(rm_i16) break; \
    case RM_INT32: DO(rm_i32) break; \
    case RM_INT64: DO(rm_i64) break; \
    case RM_UINT8: DO(rm_u8) break; \
    case RM_UINT16: DO(rm_u16) break; \
    case RM_UINT32: DO(rm_u32) break; \
    case RM_UINT64: DO(rm_u64) break; \
    case RM_FLOAT16: DO(rm_f16) break; \
    case RM_BFLOAT16: DO(rm_bf16) break; \
    case RM_FLOAT32: DO(rm_f32) break; \
    default: DO(rm_f64) break; \
  }

/* Loads element `at` of memory with dtype `id` as To. */
template <typename To>
static inline typename To::stored rm_load_as(int id, const void *from, int64_t at) {
  typename To::stored result;
#define RM_LOAD_AS(From) result = rm_cast<To, From>(((const From::stored *)from)[at]);
  RM_EACH_DTYPE(id, RM_LOAD_AS)
#undef RM_LOAD_AS
  return result;
}

/* Stores an element of From as element `at` of memory with dtype `id`. */
template <typename From>
static inline void rm_store_as(int id, void *to, int64_t at, typename From::stored v) {
#define RM_STORE_AS(To) ((To::stored *)to)[at] = rm_cast<To, From>(v);
  RM_EACH_DTYPE(id, RM_STORE_AS)
#undef RM_STORE_AS
}

/* ---- iteration over strided axes ------------------------------------------------------------- */

/* Division by a number that is known at launch: n / size = (n + high half of n * factor) >> shift,
 * for n and size below 2^31 (2^63 in 64 bits). The arguments hold [size, factor, shift]. */
struct rm_divisor {
  int64_t size;
  int64_t factor;
  int64_t shift;
};
static inline uint32_t rm_divide(uint32_t n, const rm_divisor &by) {
  return (__umulhi(n, (uint32_t)by.factor) + n) >> (uint32_t)by.shift;
}
static inline uint64_t rm_divide(uint64_t n, const rm_divisor &by) {
  return (__umul64hi(n, (uint64_t)by.factor) + n) >> (uint32_t)by.shift;
}

/* An axis: its size, and the strides of the operands in elements. */
template <int OPERANDS>
struct rm_axis {
  rm_divisor size;
  int64_t stride[OPERANDS];
};

/* Positions in 32 or 64 bits, and offsets of the same width. */
struct rm_index32 {
  typedef uint32_t index;
  typedef int32_t offset;
};
struct rm_index64 {
  typedef uint64_t index;
  typedef int64_t offset;
};

/* Adds to `at` the offset of position `n` of the axes [first, last) in each operand. The last axis
 * is the fastest. */
template <typename Bits, int OPERANDS>
static inline void rm_seek(const rm_axis<OPERANDS> *axes, int first, int last,
                           typename Bits::index n, typename Bits::offset *at) {
  typedef typename Bits::offset Offset;
#pragma unroll 1
  for (int axis = last - 1; axis > first; axis--) {
    const typename Bits::index rest = rm_divide(n, axes[axis].size);
    const Offset place = (Offset)(n - rest * (typename Bits::index)axes[axis].size.size);
    RM_UNROLL for (int k = 0; k < OPERANDS; k++) at[k] += place * (Offset)axes[axis].stride[k];
    n = rest;
  }
  if (first >= last) return;
  RM_UNROLL for (int k = 0; k < OPERANDS; k++) at[k] += (Offset)n * (Offset)axes[first].stride[k];
}

#endif
