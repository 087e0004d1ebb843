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
    .softmax_norm = RM_FOR_ISA(softmax_norm),
    .matmul = RM_FOR_ISA(matmul),
    .sort = RM_FOR_ISA(sort),
    .random = RM_FOR_ISA(random),
    .normalize_indices = RM_FOR_ISA(normalize_indices),
};
