/*
 * The kernels of elementwise ops that AVX-512 machines share with those that have AVX2: of bools and of
 * integers up to 32 bits, which are as fast, and of special functions, which take 1.8 times as long
 * (docs/adr/0028-room-in-the-packages.md).
 */
#include <string.h>
#include "intmath.h"
#include "map_context.h"
#include "vecmath.h"

/* Runs a kernel of float64 with one or two operands on float32. */
__attribute__((noinline)) static void run_in_double(ptrdiff_t n, float *out, const float *a,
                                                    const float *b, map_function function) {
  double x[CHECKED_BLOCK], y[CHECKED_BLOCK];
  for (ptrdiff_t from = 0; from < n; from += CHECKED_BLOCK) {
    const ptrdiff_t m = rm_min(n - from, CHECKED_BLOCK);
    for (ptrdiff_t i = 0; i < m; i++) x[i] = a[from + i];
    for (ptrdiff_t i = 0; i < m && b != NULL; i++) y[i] = b[from + i];
    function(m, x, x, y, NULL, NULL);
    for (ptrdiff_t i = 0; i < m; i++) out[from + i] = (float)x[i];
  }
}

#define TYPE double
#define SUFFIX f64
#define FAMILY_SPECIAL
#define SPECIAL_LINE OP_LINE
#include "map_type.h"

/* Special functions are long, and computed in double anyway. */
#define IN_DOUBLE_1(name) \
  KERNEL_NAMED(name##_f32) { run_in_double(n & -VECTOR, out, a, NULL, name##_f64); }
#define IN_DOUBLE_2(name) \
  KERNEL_NAMED(name##_f32) { run_in_double(n & -VECTOR, out, a, b, name##_f64); }
#define TYPE float
#define SUFFIX f32
#define FAMILY_SPECIAL
#define SPECIAL_LINE(name, operands, ...) IN_DOUBLE_##operands(name)
#include "map_type.h"
#define TYPE uint8_t
#define SUFFIX u8
#define FAMILY_NARROW
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE uint16_t
#define SUFFIX u16
#define FAMILY_NARROW
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE uint32_t
#define SUFFIX u32
#define FAMILY_NARROW
#define FAMILY_UNSIGNED
#include "map_type.h"
#define TYPE int8_t
#define SUFFIX i8
#define FAMILY_NARROW
#define UNSIGNED u8
#include "map_type.h"
#define TYPE int16_t
#define SUFFIX i16
#define FAMILY_NARROW
#define UNSIGNED u16
#include "map_type.h"
#define TYPE int32_t
#define SUFFIX i32
#define FAMILY_NARROW
#define UNSIGNED u32
#include "map_type.h"
#define TYPE uint8_t
#define SUFFIX b8
#define FAMILY_NARROW
#define FAMILY_BOOL
#include "map_type.h"

static map_function (*const kernels_of[RM_DTYPE_COUNT])(int) = {
    [RM_BOOL] = kernel_of_b8,    [RM_INT8] = kernel_of_i8,      [RM_INT16] = kernel_of_i16,
    [RM_INT32] = kernel_of_i32,  [RM_UINT8] = kernel_of_u8,     [RM_UINT16] = kernel_of_u16,
    [RM_UINT32] = kernel_of_u32, [RM_FLOAT32] = kernel_of_f32, [RM_FLOAT64] = kernel_of_f64,
};

map_function RM_FOR_ISA(map_shared_kernel)(int opcode, int compute) {
  return kernels_of[compute] == NULL ? NULL : kernels_of[compute](opcode);
}

static const map_function (*const scalar_table[RM_DTYPE_COUNT])[2] = {
    [RM_INT8] = scalar_table_u8,   [RM_INT16] = scalar_table_u16,  [RM_INT32] = scalar_table_u32,
    [RM_UINT8] = scalar_table_u8,  [RM_UINT16] = scalar_table_u16, [RM_UINT32] = scalar_table_u32,
};

const map_function *RM_FOR_ISA(map_shared_scalar_kernels)(int opcode, int compute) {
  return scalar_table[compute] == NULL ? NULL : scalar_table[compute][opcode - RM_OP_add];
}
