/*
 * Instruction sets (ISAs): the kernels of each, and how loops are compiled.
 *
 * The files with kernels are compiled once for each ISA, with RM_ISA defined as its name: v2, v3
 * and v4 on x86-64, base elsewhere.
 */
#ifndef ROWMAJOR_ISA_H
#define ROWMAJOR_ISA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "kernel.h"

/* The name of a function or table of this ISA: RM_FOR_ISA(map) is rm_map_v4. */
#define RM_JOIN_(name, isa) rm_##name##_##isa
#define RM_JOIN(name, isa) RM_JOIN_(name, isa)
#define RM_FOR_ISA(name) RM_JOIN(name, RM_ISA)

/* Windows makes functions preserve ten of the vector registers, which costs 40 KB of code. Kernels,
 * which hardly call anything, use the calling convention of other systems there. */
#if defined(_WIN32) && defined(__x86_64__)
#define RM_KERNEL __attribute__((sysv_abi))
#else
#define RM_KERNEL
#endif

enum { RM_INDEX_BLOCK = 1024 };

/* Reads n indices, at most RM_INDEX_BLOCK, `stride` bytes apart, and makes negative ones count from
 * the start. Returns how many precede the first that is out of range. */
typedef ptrdiff_t rm_normalize_indices(int dtype, const char *from, ptrdiff_t stride, ptrdiff_t n,
                                       int64_t size, int64_t *out);

/* The loops of random numbers of varying lengths (deviate_loops.h). */
typedef struct rm_deviate_loops rm_deviate_loops;

/* The loops of derivatives of convolutions (conv_gather.h). */
typedef struct rm_conv_gather rm_conv_gather;

/* The kernels of one ISA. */
typedef struct {
  /* The largest matrix product, in multiplications, for which OpenBLAS is not faster; 0 where that
   * was not measured. */
  double max_own_matmul;
  rm_cpu_kernel *map;
  rm_cpu_kernel *reduce;
  rm_cpu_kernel *own_matmul;
  rm_normalize_indices *normalize_indices;
  /* The vector kernels of linear algebra, a table for each element type (linalg.h). */
  const void *const (*linalg)[4];
  const rm_deviate_loops *deviate_loops;
  const rm_conv_gather *conv_gather;
#define RM_CPU_KERNEL(op, function)
#define RM_ISA_KERNEL(op, function) rm_cpu_kernel *op;
#include "kernels.def"
#undef RM_CPU_KERNEL
#undef RM_ISA_KERNEL
} rm_kernels;

/* Whether the processor multiplies four unsigned by signed bytes and adds the products at once, in
 * vectors of the ISA in use (VNNI). */
bool rm_has_byte_products(void);

/* Whether v4 is in use, the processor multiplies tiles of bytes (AMX), and the system lets this process
 * do that. */
bool rm_has_byte_tiles(void);

/* Those in use; null before the first call. */
extern const rm_kernels *_Atomic rm_active_kernels;

/* Whether this machine has the instruction set of that number; 0 stands for the best one. */
bool rm_has_isa(int isa);

/* Chooses them: the best that the machine has, or those that ROWMAJOR_LEVEL names. */
const rm_kernels *rm_choose_isa(void);

static inline const rm_kernels *rm_isa_kernels(void) {
  const rm_kernels *active = atomic_load_explicit(&rm_active_kernels, memory_order_relaxed);
  return active != NULL ? active : rm_choose_isa();
}

/* Sets the ISA, 0 for the best; a negative value only asks. Returns the one in use: 2 to 4 for v2
 * to v4, 1 for base. */
int rm_set_isa(int isa);

#if defined(RM_ISA)
rm_cpu_kernel RM_FOR_ISA(map), RM_FOR_ISA(reduce), RM_FOR_ISA(own_matmul);
#define RM_CPU_KERNEL(op, function)
#define RM_ISA_KERNEL(op, function) rm_cpu_kernel RM_FOR_ISA(function);
#include "kernels.def"
#undef RM_CPU_KERNEL
#undef RM_ISA_KERNEL
rm_normalize_indices RM_FOR_ISA(normalize_indices);
extern const void *const RM_FOR_ISA(linalg_tables)[4];
extern const rm_deviate_loops RM_FOR_ISA(deviate_loops);
extern const rm_conv_gather RM_FOR_ISA(conv_gather);
/* Raises x to the power of y in place; x must have room for a multiple of 16 elements. */
void RM_FOR_ISA(pow_in_place)(ptrdiff_t n, double *x, double y);
#endif

/* How loops are compiled. With RM_DEBUG, debuggers find one element after the other in them. */
#if defined(RM_DEBUG)
#define RM_ANY_ORDER
#define RM_ANY_ORDER_SMALL
#define RM_ROLLED
#define RM_SCALAR
#else
/* Elements may be read and written in any order: operands do not overlap, or are the same. */
#define RM_ANY_ORDER _Pragma("clang loop vectorize(assume_safety)")
/* The same for loops that are many and seldom matter: machines without AVX run them without vectors,
 * which would double their size. */
#if defined(__x86_64__) && !defined(__AVX__)
#define RM_ANY_ORDER_SMALL _Pragma("clang loop vectorize(disable)")
#else
#define RM_ANY_ORDER_SMALL RM_ANY_ORDER
#endif

/* For loops with enough work in each iteration, and for those that run once around others:
 * unrolled, they would be a twentieth of the library. */
#define RM_ROLLED _Pragma("clang loop unroll(disable) interleave(disable)")
/* The same without vectors, for loops of few iterations. */
#define RM_SCALAR _Pragma("clang loop vectorize(disable) unroll(disable)")
#endif

#define RM_ALWAYS_INLINE inline __attribute__((always_inline))

/* name_suffix, for headers that are included once per type. */
#define RM_SUFFIXED_(name, suffix) name##_##suffix
#define RM_SUFFIXED(name, suffix) RM_SUFFIXED_(name, suffix)

#endif
