/*
 * The kernels of products with a packed weight. This file does not know threads or epilogues.
 */
#include "gemm_packed.h"

enum {
  LANES = VECTOR_BYTES / 4,
  PANEL_VECTORS = PANEL_COLUMNS / LANES,
  MOST_VECTORS = 2 * PANEL_VECTORS,
  ROWS_PER_ADDRESS = 3,
  LINE_BYTES = 64
};

#if RM_HAS_F16_CONVERSION
VECTOR(v_f16, _Float16, VECTOR_BYTES / 4);
#endif

/* Widens the first `count` vectors of a row of a panel; all of them for bfloat16. */
static RM_ALWAYS_INLINE void load_columns(const int dtype, const int count, const char *from,
                                          v_f32 *to) {
  if (dtype == RM_BFLOAT16) {
    UNROLL for (int v = 0; v < PANEL_VECTORS / 2; v++) {
      const v_i32 words = *(const v_i32 *)(from + v * VECTOR_BYTES);
      to[v] = (v_f32)(words << 16);
      to[v + PANEL_VECTORS / 2] = (v_f32)(words & 0xffff0000u);
    }
    return;
  }
#if RM_HAS_F16_CONVERSION
  if (dtype == RM_FLOAT16) {
    UNROLL for (int v = 0; v < count; v++) {
      to[v] = __builtin_convertvector(*(const v_f16 *)(from + v * VECTOR_BYTES / 2), v_f32);
    }
    return;
  }
#endif
  UNROLL for (int v = 0; v < count; v++) to[v] = *(const v_f32 *)(from + v * VECTOR_BYTES);
}

/* For that many rows, panels, and vectors of each panel. */
static RM_ALWAYS_INLINE void multiply(const bool strip, const int rows, const int panels,
                                      const int width, const int dtype, ptrdiff_t depth,
                                      const float *x, ptrdiff_t stride, const void *panel,
                                      float *sums, bool add, ptrdiff_t pair, const char *ahead,
                                      ptrdiff_t step) {
  const int vectors = panels * width, row_bytes = PANEL_COLUMNS * (dtype == RM_FLOAT32 ? 4 : 2);
  const char *b = panel;
  const float *first[TILE_ROWS];
  UNROLL for (int i = 0; i < rows; i += ROWS_PER_ADDRESS) {
    first[i / ROWS_PER_ADDRESS] = x + i * stride;
  }
  v_f32 sum[TILE_ROWS][MOST_VECTORS];
  UNROLL for (int i = 0; i < rows; i++) {
    UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = (v_f32)0.0f;
  }
  ROLLED for (ptrdiff_t p = 0; p < depth; p++) {
    /* One panel after the other: there are no registers for the elements of two. */
    UNROLL for (int q = 0; q < panels; q++) {
      v_f32 y[PANEL_VECTORS];
      load_columns(dtype, width, b + q * pair, y);
      const char *lines = strip ? ahead : b + q * pair + AHEAD_BYTES;
      UNROLL for (int at = 0; at < width * LANES * row_bytes / PANEL_COLUMNS; at += LINE_BYTES) {
        __builtin_prefetch(lines + at);
      }
      UNROLL for (int i = 0; i < rows; i++) {
        const v_f32 left = (v_f32)(first[i / ROWS_PER_ADDRESS][i % ROWS_PER_ADDRESS * stride]);
        UNROLL for (int v = 0; v < width; v++) {
          v_f32 *to = &sum[i][q * width + v];
          *to = FMA(v_f32, left, y[v], *to);
        }
      }
    }
    b += row_bytes;
    if (strip) ahead += step;
    UNROLL for (int i = 0; i < rows; i += ROWS_PER_ADDRESS) {
      first[i / ROWS_PER_ADDRESS]++;
      /* The compiler would have an address for each row, more than there are registers. */
      __asm__("" : "+r"(first[i / ROWS_PER_ADDRESS]));
    }
  }
  UNROLL for (int i = 0; i < rows; i++) {
    UNROLL for (int v = 0; v < vectors; v++) {
      v_f32 *to = (v_f32 *)(sums + (v / width * rows + i) * PANEL_COLUMNS + v % width * LANES);
      *to = add ? *to + sum[i][v] : sum[i][v];
    }
  }
}

#define STRIP(rows) \
  static RM_KERNEL void strip_##rows(ptrdiff_t depth, const float *x, ptrdiff_t stride, \
                                     const void *panel, float *sums, bool add, const char *ahead, \
                                     ptrdiff_t step) { \
    multiply(true, rows, 1, STRIP_VECTORS, RM_FLOAT32, depth, x, stride, panel, sums, add, 0, \
             ahead, step); \
  }
#define PANELS(name, rows, panels, dtype) \
  static RM_KERNEL void name(ptrdiff_t depth, const float *x, ptrdiff_t stride, const void *panel, \
                             float *sums, bool add, __attribute__((unused)) ptrdiff_t pair) { \
    multiply(false, rows, panels, PANEL_VECTORS, dtype, depth, x, stride, panel, sums, add, pair, \
             NULL, 0); \
  }
#define PANEL(type, dtype, rows) PANELS(panel_##type##_##rows, rows, 1, dtype)
#define PAIR(type, dtype, rows) PANELS(pair_##type##_##rows, rows, 2, dtype)

STRIP(1)
STRIP(2)
STRIP(3)
STRIP(4)
#if defined(__AVX2__) || defined(__aarch64__)
STRIP(5)
STRIP(6)
#endif
#if defined(__AVX512F__)
STRIP(7)
STRIP(8)
STRIP(9)
STRIP(10)
STRIP(11)
STRIP(12)
STRIP(13)
STRIP(14)
#endif

packed_strip_kernel *RM_FOR_ISA(packed_strip_kernel)(ptrdiff_t rows) {
  static packed_strip_kernel *const kernels[TILE_ROWS + 1] = {
      NULL,    strip_1, strip_2, strip_3,  strip_4,
#if defined(__AVX2__) || defined(__aarch64__)
      strip_5, strip_6,
#endif
#if defined(__AVX512F__)
      strip_7, strip_8, strip_9, strip_10, strip_11, strip_12, strip_13, strip_14,
#endif
  };
  return kernels[rows];
}

/* The kernels for few rows, of one dtype. */
#if defined(__AVX512F__)
#define FEW(type, dtype) \
  PANEL(type, dtype, 1) PANEL(type, dtype, 2) PANEL(type, dtype, 3) PANEL(type, dtype, 4) \
  PAIR(type, dtype, 1) PAIR(type, dtype, 2) \
  static packed_panel_kernel *const few_##type[2][FEW_ROWS + 1] = { \
      {NULL, panel_##type##_1, panel_##type##_2, panel_##type##_3, panel_##type##_4}, \
      {NULL, pair_##type##_1, pair_##type##_2}};
#elif defined(__AVX2__) || defined(__aarch64__)
#define FEW(type, dtype) \
  PANEL(type, dtype, 1) PANEL(type, dtype, 2) PAIR(type, dtype, 1) \
  static packed_panel_kernel *const few_##type[2][FEW_ROWS + 1] = { \
      {NULL, panel_##type##_1, panel_##type##_2}, {NULL, pair_##type##_1}};
#else
#define FEW(type, dtype) \
  PANEL(type, dtype, 1) \
  static packed_panel_kernel *const few_##type[2][FEW_ROWS + 1] = {{NULL, panel_##type##_1}};
#endif
FEW(f32, RM_FLOAT32)
FEW(bf16, RM_BFLOAT16)
#if RM_HAS_F16_CONVERSION
FEW(f16, RM_FLOAT16)
#endif

packed_panel_kernel *RM_FOR_ISA(packed_panel_kernel)(int dtype, ptrdiff_t rows, int panels) {
  if (rows > FEW_ROWS) return NULL;
  switch (dtype) {
    case RM_FLOAT32: return few_f32[panels - 1][rows];
    case RM_BFLOAT16: return few_bf16[panels - 1][rows];
#if RM_HAS_F16_CONVERSION
    case RM_FLOAT16: return few_f16[panels - 1][rows];
#endif
    default: return NULL;
  }
}

void RM_FOR_ISA(packed_widen)(int dtype, ptrdiff_t depth, const void *panel, float *to) {
  if (dtype == RM_BFLOAT16) {
    const char *from = panel;
    for (ptrdiff_t p = 0; p < depth; p++, from += 2 * PANEL_COLUMNS, to += PANEL_COLUMNS) {
      v_f32 y[PANEL_VECTORS];
      load_columns(RM_BFLOAT16, PANEL_VECTORS, from, y);
      UNROLL for (int v = 0; v < PANEL_VECTORS; v++) *(v_f32 *)(to + v * LANES) = y[v];
    }
    return;
  }
  const uint16_t *from = panel;
  RM_ROLLED for (ptrdiff_t i = 0; i < depth * PANEL_COLUMNS; i++) to[i] = rm_f16_to_f32(from[i]);
}
