/*
 * The table of the kernels of one instruction set.
 */
#include "internal.h"

#if defined(__AVX512F__)
#define MAX_OWN_MATMUL (1 << 27)
#elif defined(__x86_64__)
#define MAX_OWN_MATMUL (1 << 24)
#else
#define MAX_OWN_MATMUL 0
#endif

const rm_kernels RM_FOR_ISA(kernels) = {
    .max_own_matmul = MAX_OWN_MATMUL,
    .map = RM_FOR_ISA(map),
    .reduce = RM_FOR_ISA(reduce),
    .own_matmul = RM_FOR_ISA(own_matmul),
    .normalize_indices = RM_FOR_ISA(normalize_indices),
    .linalg = &RM_FOR_ISA(linalg_tables),
    .deviate_loops = &RM_FOR_ISA(deviate_loops),
    .conv_gather = &RM_FOR_ISA(conv_gather),
#define RM_CPU_KERNEL(op, function)
#define RM_ISA_KERNEL(op, function) .op = RM_FOR_ISA(function),
#include "kernels.def"
#undef RM_CPU_KERNEL
#undef RM_ISA_KERNEL
};
