/* The kernels of one instruction set, in one place. */
#include "internal.h"

#define RM_TEXT_(name) #name
#define RM_TEXT(name) RM_TEXT_(name)

int32_t RM_AT(map)(int32_t opcode, int32_t dtypes, const double *plan, void *out, const void *a,
                   const void *b, const void *c);
int32_t RM_AT(fold)(int32_t opcode, int32_t dtypes, int32_t kept, const double *plan, void *out,
                    const void *a, const void *b);
int32_t RM_AT(softmax)(int32_t kind, int32_t dtype, const double *plan, void *out, const void *a);
int32_t RM_AT(matmul)(int32_t dtype, const double *plan, void *c, const void *a, const void *b);
int32_t RM_AT(sort)(int32_t dtype, int32_t flags, const double *plan, void *values, void *indices);
int32_t RM_AT(random)(int32_t dtype, int32_t kind, const int32_t *words, double length, void *out);

const rm_kernels RM_AT(kernels) = {
    .name = RM_TEXT(RM_LEVEL),
    .map = RM_AT(map),
    .fold = RM_AT(fold),
    .softmax = RM_AT(softmax),
    .matmul = RM_AT(matmul),
    .sort = RM_AT(sort),
    .random = RM_AT(random),
};
