/* The kernels of one instruction set, in one place. */
#include "internal.h"

#if defined(__AVX512F__)
#define MOST_PRODUCTS (1 << 27)
#elif defined(__x86_64__)
#define MOST_PRODUCTS (1 << 24)
#else
#define MOST_PRODUCTS 0
#endif

const rm_kernels RM_AT(kernels) = {
    .most_products = MOST_PRODUCTS,
    .map = RM_AT(map),
    .fold = RM_AT(fold),
    .rows = RM_AT(rows),
    .matmul = RM_AT(matmul),
    .sort = RM_AT(sort),
    .random = RM_AT(random),
    .places = RM_AT(places),
};
