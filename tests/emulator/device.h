/*
 * What NVRTC knows by itself, for a compiler of C++ for the host: keywords, built-in variables,
 * vector types, intrinsics and the functions of CUDA's mathematics. Precompiled once.
 */
#include "abi.h"

#define __device__
#define __host__
#define __global__
#define __constant__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
/* Static shared memory: of a kernel, or of a function that several may call. */
#define EMU_SHARED_OF(n) static __attribute__((section("emu_shared_" #n)))
#define EMU_SHARED static __attribute__((section("emu_shared")))

/* Set when the library is loaded; nvrtc.c adds its definition. */
extern "C" __attribute__((visibility("protected"))) const emu_services *emu_use;
#define emu_here (*emu_use->place)

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;

/* ---- types ----------------------------------------------------------------------------------- */

#define EMU_VECTORS(name, T, a2, a4) \
  struct name##1 { T x; }; \
  struct alignas(a2) name##2 { T x, y; }; \
  struct name##3 { T x, y, z; }; \
  struct alignas(a4) name##4 { T x, y, z, w; }; \
  inline name##1 make_##name##1(T x) { return {x}; } \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMU_VECTORS(char, signed char, 2, 4)
EMU_VECTORS(uchar, unsigned char, 2, 4)
EMU_VECTORS(short, short, 4, 8)
EMU_VECTORS(ushort, unsigned short, 4, 8)
EMU_VECTORS(int, int, 8, 16)
EMU_VECTORS(uint, unsigned int, 8, 16)
EMU_VECTORS(longlong, long long, 16, 16)
EMU_VECTORS(ulonglong, unsigned long long, 16, 16)
EMU_VECTORS(float, float, 8, 16)
EMU_VECTORS(double, double, 16, 16)

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
};

#define threadIdx emu_here.thread
#define blockIdx emu_here.block
#define blockDim emu_here.threads
#define gridDim emu_here.blocks
#define warpSize 32

/* A parameter of this type takes part in no deduction. */
template <class T> struct emu_only { typedef T type; };
template <class T> using emu_same = typename emu_only<T>::type;

/* The bits of x as those of another type of at most its size. */
template <class To, class From> inline To emu_bits(From x) {
  To to;
  __builtin_memset(&to, 0, sizeof to);
  __builtin_memcpy(&to, &x, sizeof(To) < sizeof(From) ? sizeof(To) : sizeof(From));
  return to;
}

/* ---- warps, fences, time --------------------------------------------------------------------- */

inline void emu_sync_warp(int site, unsigned int mask = 0xffffffffu) {
  emu_use->warp(EMU_WARP_SYNC, site, mask, 0, 0, 32);
}
template <class T>
inline T emu_shuffle(int kind, int site, unsigned int mask, T value, int argument, int width = 32) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take 4 or 8 bytes");
  return emu_bits<T>(
      emu_use->warp(kind, site, mask, emu_bits<unsigned long long>(value), argument, width));
}
inline unsigned int emu_ballot(int site, unsigned int mask, int x) {
  return (unsigned int)emu_use->warp(EMU_BALLOT, site, mask, x != 0, 0, 32);
}
template <class T> inline unsigned int emu_match(int site, unsigned int mask, T x) {
  return (unsigned int)emu_use->warp(EMU_MATCH, site, mask, emu_bits<unsigned long long>(x), 0, 32);
}
template <class T> inline T emu_reduce(int kind, int site, unsigned int mask, T x) {
  static_assert(sizeof(T) == 4 && T(0.5) == 0, "reductions take int or unsigned");
  /* Minimum and maximum compare 64 bits: signed ones are extended by their sign. */
  return (T)emu_use->warp(kind, site, mask, (unsigned long long)(long long)x, 0, 32);
}
inline unsigned int __activemask() { return emu_use->active(); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned int) { emu_use->yield(); }
inline long long clock64() { return (long long)__builtin_readcyclecounter(); }
inline void __trap() { emu_use->trap("__trap()"); }
#define assert(condition) ((condition) ? (void)0 : emu_use->trap("assert(" #condition ")"))

/* ---- memory ---------------------------------------------------------------------------------- */

/* Copies of a struct are checked for their alignment only where it is said. */
template <class T> inline T *emu_aligned(T *at) {
  return (T *)__builtin_assume_aligned(at, alignof(T));
}
#define EMU_LOAD(name) template <class T> inline T name(const T *at) { return *emu_aligned(at); }
EMU_LOAD(__ldg) EMU_LOAD(__ldca) EMU_LOAD(__ldcg) EMU_LOAD(__ldcs) EMU_LOAD(__ldlu) EMU_LOAD(__ldcv)
#define EMU_STORE(name) \
  template <class T> inline void name(T *at, emu_same<T> x) { *emu_aligned(at) = x; }
EMU_STORE(__stwb) EMU_STORE(__stcg) EMU_STORE(__stcs) EMU_STORE(__stwt)

extern "C" void *memcpy(void *, const void *, size_t);
extern "C" void *memset(void *, int, size_t);

/* One thread runs at a time, so that nothing comes between. */
#define EMU_ATOMIC(name, expression) \
  template <class T> inline T name(T *at, emu_same<T> x) { \
    T old = *at; \
    *at = (expression); \
    return old; \
  }
EMU_ATOMIC(atomicAdd, old + x)
EMU_ATOMIC(atomicSub, old - x)
EMU_ATOMIC(atomicMin, x < old ? x : old)
EMU_ATOMIC(atomicMax, x > old ? x : old)
EMU_ATOMIC(atomicExch, x)
EMU_ATOMIC(atomicAnd, old & x)
EMU_ATOMIC(atomicOr, old | x)
EMU_ATOMIC(atomicXor, old ^ x)
EMU_ATOMIC(atomicInc, old >= x ? 0 : old + 1)
template <class T> inline T atomicCAS(T *at, emu_same<T> expected, emu_same<T> x) {
  T old = *at;
  if (old == expected) *at = x;
  return old;
}

/* ---- integers and bits ----------------------------------------------------------------------- */

inline int __popc(unsigned int x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned int)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned int __brev(unsigned int x) { return __builtin_bitreverse32(x); }
inline unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
inline unsigned int __umulhi(unsigned int x, unsigned int y) {
  return (unsigned int)((unsigned long long)x * y >> 32);
}
inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int n) {
  return (unsigned int)((((unsigned long long)high << 32 | low) << (n & 31)) >> 32);
}
inline unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int n) {
  return (unsigned int)(((unsigned long long)high << 32 | low) >> (n & 31));
}
inline unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int s) {
  unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned int to = 0;
  for (int i = 0; i < 4; i++) {
    unsigned int byte = (unsigned int)(both >> (s >> 4 * i & 7) * 8) & 255;
    if (s >> 4 * i & 8) byte = byte & 128 ? 255 : 0;
    to |= byte << 8 * i;
  }
  return to;
}

#define EMU_EXTREMES(T) \
  inline T min(T x, T y) { return y < x ? y : x; } \
  inline T max(T x, T y) { return y > x ? y : x; }
EMU_EXTREMES(int) EMU_EXTREMES(unsigned int) EMU_EXTREMES(long) EMU_EXTREMES(unsigned long)
EMU_EXTREMES(long long) EMU_EXTREMES(unsigned long long)
inline int abs(int x) { return x < 0 ? -x : x; }
inline long long llabs(long long x) { return x < 0 ? -x : x; }
inline long long abs(long long x) { return llabs(x); }

inline int __float_as_int(float x) { return emu_bits<int>(x); }
inline unsigned int __float_as_uint(float x) { return emu_bits<unsigned int>(x); }
inline float __int_as_float(int x) { return emu_bits<float>(x); }
inline float __uint_as_float(unsigned int x) { return emu_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emu_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emu_bits<double>(x); }
inline int __double2hiint(double x) { return (int)(emu_bits<long long>(x) >> 32); }
inline int __double2loint(double x) { return (int)emu_bits<long long>(x); }
inline double __hiloint2double(int high, int low) {
  return emu_bits<double>((long long)((unsigned long long)high << 32 | (unsigned int)low));
}

/* ---- floats ---------------------------------------------------------------------------------- */

#define EMU_MATH_1(name) \
  extern "C" double name(double); \
  extern "C" float name##f(float); \
  inline float name(float x) { return name##f(x); }
#define EMU_MATH_2(name) \
  extern "C" double name(double, double); \
  extern "C" float name##f(float, float); \
  inline float name(float x, float y) { return name##f(x, y); }
EMU_MATH_1(sqrt) EMU_MATH_1(cbrt) EMU_MATH_1(floor) EMU_MATH_1(ceil) EMU_MATH_1(trunc)
EMU_MATH_1(rint) EMU_MATH_1(nearbyint) EMU_MATH_1(round) EMU_MATH_1(fabs) EMU_MATH_1(exp)
EMU_MATH_1(exp2) EMU_MATH_1(expm1) EMU_MATH_1(log) EMU_MATH_1(log2) EMU_MATH_1(log10)
EMU_MATH_1(log1p) EMU_MATH_1(sin) EMU_MATH_1(cos) EMU_MATH_1(tan) EMU_MATH_1(asin)
EMU_MATH_1(acos) EMU_MATH_1(atan) EMU_MATH_1(sinh) EMU_MATH_1(cosh) EMU_MATH_1(tanh)
EMU_MATH_1(asinh) EMU_MATH_1(acosh) EMU_MATH_1(atanh) EMU_MATH_1(erf) EMU_MATH_1(erfc)
EMU_MATH_1(lgamma) EMU_MATH_1(tgamma)
EMU_MATH_2(pow) EMU_MATH_2(fmod) EMU_MATH_2(remainder) EMU_MATH_2(atan2) EMU_MATH_2(hypot)
EMU_MATH_2(fmin) EMU_MATH_2(fmax) EMU_MATH_2(copysign) EMU_MATH_2(nextafter) EMU_MATH_2(fdim)
extern "C" double fma(double, double, double), ldexp(double, int), frexp(double, int *);
extern "C" float fmaf(float, float, float), ldexpf(float, int), frexpf(float, int *);
inline float fma(float x, float y, float z) { return fmaf(x, y, z); }
inline float rsqrtf(float x) { return (float)(1 / sqrt((double)x)); }
inline double rsqrt(double x) { return 1 / sqrt(x); }
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline double min(double x, double y) { return fmin(x, y); }
inline double max(double x, double y) { return fmax(x, y); }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }

#define EMU_CLASS(name) \
  inline bool name(float x) { return __builtin_##name(x) != 0; } \
  inline bool name(double x) { return __builtin_##name(x) != 0; }
EMU_CLASS(isnan) EMU_CLASS(isinf) EMU_CLASS(isfinite) EMU_CLASS(signbit)

inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1 / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

/* Conversions to integers stop at the ends of the range; NaN gives 0, of 64 bits the lowest. */
template <class T, class F> inline T emu_to(F x, F low, F high, T lowest, T highest, T nan) {
  if (x != x) return nan;
  return x < low ? lowest : x >= high ? highest : (T)x;
}
#define EMU_TO(name, T, F, low, high, lowest, highest, nan) \
  inline T name##_rz(F x) { return emu_to<T, F>(x, low, high, lowest, highest, nan); } \
  inline T name##_rn(F x) { return name##_rz(rint(x)); } \
  inline T name##_rd(F x) { return name##_rz(floor(x)); } \
  inline T name##_ru(F x) { return name##_rz(ceil(x)); }
#define EMU_TO_ALL(from, F) \
  EMU_TO(from##2int, int, F, F(-0x1p31), F(0x1p31), -0x7fffffff - 1, 0x7fffffff, 0) \
  EMU_TO(from##2uint, unsigned int, F, F(0), F(0x1p32), 0, ~0u, 0) \
  EMU_TO(from##2ll, long long, F, F(-0x1p63), F(0x1p63), -0x7fffffffffffffff - 1, \
         0x7fffffffffffffff, -0x7fffffffffffffff - 1) \
  EMU_TO(from##2ull, unsigned long long, F, F(0), F(0x1p64), 0, ~0ull, 0x8000000000000000)
EMU_TO_ALL(__float, float)
EMU_TO_ALL(__double, double)
inline float __double2float_rn(double x) { return (float)x; }
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned int x) { return (float)x; }
inline float __ll2float_rn(long long x) { return (float)x; }
inline float __ull2float_rn(unsigned long long x) { return (float)x; }
inline double __ll2double_rn(long long x) { return (double)x; }
inline double __ull2double_rn(unsigned long long x) { return (double)x; }

/* ---- the record of a kernel ------------------------------------------------------------------ */

template <int... I> struct emu_numbers {};
template <class T, T... I> using emu_sequence = emu_numbers<I...>;

template <class F> struct emu_caller;
template <class... A> struct emu_caller<void(A...)> {
  /* Where parameter n lies among the arguments; behind the last one, how long all are. */
  static constexpr unsigned int sizes[] = {sizeof(A)..., 0}, aligns[] = {alignof(A)..., 1};
  static constexpr unsigned int at(int n) {
    unsigned int where = 0;
    for (int i = 0;; i++) {
      where = (where + aligns[i] - 1) / aligns[i] * aligns[i];
      if (i == n) return where;
      where += sizes[i];
    }
  }
  struct places {
    unsigned int list[2 * sizeof...(A) + 1];
    constexpr places() : list{} {
      for (int i = 0; i < (int)sizeof...(A); i++) list[2 * i] = at(i), list[2 * i + 1] = sizes[i];
    }
  };
  template <void (*f)(A...), int... I>
  static void spread(const char *arguments, emu_numbers<I...>) {
    f(*(const A *)(arguments + at(I))...);
  }
  template <void (*f)(A...)> static void call(const char *arguments) {
    spread<f>(arguments, __make_integer_seq<emu_sequence, int, sizeof...(A)>());
  }
  static constexpr int count = sizeof...(A);
  static constexpr places where = places();
};

#define EMU_SECTION extern "C" __attribute__((weak, visibility("hidden"))) char
EMU_SECTION __start_emu_shared[], __stop_emu_shared[];
#define EMU_KERNEL(n, function, bound) \
  EMU_SECTION __start_emu_shared_##n[], __stop_emu_shared_##n[]; \
  extern "C" __attribute__((visibility("default"))) const emu_kernel emu_kernel_##function = { \
      #function, \
      emu_caller<decltype(function)>::call<function>, \
      emu_caller<decltype(function)>::at(emu_caller<decltype(function)>::count), \
      emu_caller<decltype(function)>::where.list, \
      emu_caller<decltype(function)>::count, \
      bound, \
      {{__start_emu_shared_##n, __stop_emu_shared_##n}, {__start_emu_shared, __stop_emu_shared}}};
