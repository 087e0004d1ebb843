/*
 * Declares what NVRTC provides implicitly, for clang, which compiles the ahead-of-time kernels to
 * PTX. It is included before everything else and needs neither CUDA's headers nor its libraries. It
 * declares only the parts of CUDA that the kernels use.
 */
#ifndef ROWMAJOR_CUDA_CLANG_H
#define ROWMAJOR_CUDA_CLANG_H

#define RM_SMALL 1

/* Everything below is device code. */
#pragma clang force_cuda_host_device begin

#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define memcpy __builtin_memcpy
typedef decltype(sizeof 0) size_t;

/* ---- threads --------------------------------------------------------------------------------- */

struct rm_dim3 {
  unsigned x, y, z;
};
#define RM_SPECIAL_REGISTER(name, what) \
  static inline rm_dim3 name(void) { \
    return {(unsigned)__nvvm_read_ptx_sreg_##what##_x(), \
            (unsigned)__nvvm_read_ptx_sreg_##what##_y(), \
            (unsigned)__nvvm_read_ptx_sreg_##what##_z()}; \
  }
RM_SPECIAL_REGISTER(rm_thread_index, tid)
RM_SPECIAL_REGISTER(rm_block_index, ctaid)
RM_SPECIAL_REGISTER(rm_block_size, ntid)
RM_SPECIAL_REGISTER(rm_grid_size, nctaid)
#define threadIdx rm_thread_index()
#define blockIdx rm_block_index()
#define blockDim rm_block_size()
#define gridDim rm_grid_size()

#define __syncwarp() __nvvm_bar_warp_sync(0xffffffffu)
#define __ballot_sync(mask, x) __nvvm_vote_ballot_sync(mask, x)

/* Shuffles 4 or 8 bytes, one word at a time. `clamp` encodes the width for PTX. */
#define RM_SHUFFLE(name, builtin, last) \
  template <class T> \
  static inline T name(unsigned mask, T x, int by, int width = 32) { \
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take 4 or 8 bytes"); \
    const int clamp = (32 - width) << 8 | last; \
    int words[sizeof(T) / 4]; \
    memcpy(words, &x, sizeof x); \
    for (int &word : words) word = builtin(mask, word, by, clamp); \
    memcpy(&x, words, sizeof x); \
    return x; \
  }
RM_SHUFFLE(__shfl_sync, __nvvm_shfl_sync_idx_i32, 31)
RM_SHUFFLE(__shfl_up_sync, __nvvm_shfl_sync_up_i32, 0)
RM_SHUFFLE(__shfl_xor_sync, __nvvm_shfl_sync_bfly_i32, 31)

/* ---- integers -------------------------------------------------------------------------------- */

#define __popc(x) __builtin_popcount(x)
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
  return (unsigned)(((unsigned long long)high << 32 | low) << (n & 31) >> 32);
}
#define __byte_perm(x, y, s) __nvvm_prmt(x, y, s)
static inline unsigned __umulhi(unsigned x, unsigned y) {
  return (unsigned)((unsigned long long)x * y >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}

static inline unsigned atomicAdd(unsigned *at, unsigned x) {
  return (unsigned)__nvvm_atom_add_gen_i((int *)at, (int)x);
}
static inline unsigned atomicMax(unsigned *at, unsigned x) {
  return __nvvm_atom_max_gen_ui(at, x);
}
static inline unsigned long long atomicMin(unsigned long long *at, unsigned long long x) {
  return __nvvm_atom_min_gen_ull(at, x);
}
static inline unsigned long long atomicCAS(unsigned long long *at, unsigned long long expected,
                                           unsigned long long x) {
  return (unsigned long long)__nvvm_atom_cas_gen_ll((long long *)at, (long long)expected,
                                                    (long long)x);
}

/* ---- floats ---------------------------------------------------------------------------------- */

static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }

#include "payne_hanek.h"

static inline double fmod(double x, double y) { return rm_fmod(x, y); }

/* From vecmath.h, if it is included. map.h knows for which operands they are valid. */
static inline double rm_sin_f64(double x);
static inline double rm_cos_f64(double x);
static inline double rm_tan_f64(double x);

/* For huge operands only. */
static inline double sin(double x) {
  unsigned n;
  if (x - x != 0) return x - x;
  const double r = rm_payne_hanek(x, &n), size = (n & 1) != 0 ? rm_cos_f64(r) : rm_sin_f64(r);
  return (n & 2) != 0 ? -size : size;
}
static inline double cos(double x) {
  unsigned n;
  if (x - x != 0) return x - x;
  const double r = rm_payne_hanek(x, &n), size = (n & 1) != 0 ? rm_sin_f64(r) : rm_cos_f64(r);
  return ((n + 1) & 2) != 0 ? -size : size;
}
static inline double tan(double x) {
  unsigned n;
  if (x - x != 0) return x - x;
  const double t = rm_tan_f64(rm_payne_hanek(x, &n));
  return (n & 1) != 0 ? -1 / t : t;
}

#endif
