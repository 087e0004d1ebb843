/*
 * Columns of a Cholesky factor; within linalg_kernels_type.h.
 */
#if defined(__aarch64__)
#define COLUMNS 8
#else
#define COLUMNS 4
#endif
/* Vectors stay in registers only if loops over them are unrolled. */
#define UNROLL _Pragma("clang loop unroll(full)")

/* Vectors of COLUMNS columns at `to` less what `before` columns at `rows` give with the rows of those at
 * `factors`: a sum of its own, as its rounding errors are smaller. */
static RM_ALWAYS_INLINE void NAME(subtract_columns)(int vectors, ptrdiff_t before, const REAL *rows,
                                                    const REAL *factors, ptrdiff_t ld,
                                                    const REAL *to, LANES (*sums)[COLUMNS]) {
  UNROLL for (int i = 0; i < vectors; i++) {
    UNROLL for (int j = 0; j < COLUMNS; j++) sums[i][j] = (LANES){0};
  }
  RM_ROLLED for (ptrdiff_t k = 0; k < before; k++, rows += ld, factors += ld) {
    UNROLL for (int j = 0; j < COLUMNS; j++) {
      UNROLL for (int i = 0; i < vectors; i++) sums[i][j] += factors[j] * IN(rows + i * WIDTH);
    }
  }
  UNROLL for (int i = 0; i < vectors; i++) {
    UNROLL for (int j = 0; j < COLUMNS; j++) sums[i][j] = IN(to + j * ld + i * WIDTH) - sums[i][j];
  }
}

/* Replaces vectors x by the solution of x L' = x, and writes them. */
static RM_ALWAYS_INLINE void NAME(solve_columns)(int vectors, REAL (*l)[COLUMNS],
                                                 LANES (*x)[COLUMNS], REAL *to, ptrdiff_t ld) {
  UNROLL for (int j = 0; j < COLUMNS; j++) {
    UNROLL for (int i = 0; i < vectors; i++) {
      UNROLL for (int k = 0; k < j; k++) x[i][j] -= l[j][k] * x[i][k];
      x[i][j] /= l[j][j];
      AT(to + j * ld + i * WIDTH) = x[i][j];
    }
  }
}

static ptrdiff_t NAME(cholesky_columns)(ptrdiff_t m, ptrdiff_t n, REAL *a, ptrdiff_t ld) {
  for (ptrdiff_t j = 0; j < n; j += COLUMNS) {
    REAL *factors = a + j, *to = a + j * ld + j;
    LANES sums[2][COLUMNS];
    REAL l[COLUMNS][COLUMNS];
    ptrdiff_t i = 0;
    for (; i < COLUMNS; i += WIDTH) {
      NAME(subtract_columns)(1, j, factors + i, factors, ld, to + i, sums);
      UNROLL for (int k = 0; k < COLUMNS; k++) AT(to + k * ld + i) = sums[0][k];
    }
    for (ptrdiff_t k = 0; k < COLUMNS; k++) {
      RM_SCALAR for (ptrdiff_t row = k; row < COLUMNS; row++) {
        REAL sum = to[k * ld + row];
        RM_SCALAR for (ptrdiff_t p = 0; p < k; p++) sum -= l[row][p] * l[k][p];
        if (row > k) l[row][k] = sum / l[k][k];
        else if (sum <= 0) return j + k;
        else l[k][k] = (REAL)sqrt((double)sum);
      }
    }
    const ptrdiff_t begun = i;
    for (i = 0; i < begun; i += WIDTH) {
      NAME(subtract_columns)(1, 0, factors, factors, ld, to + i, sums);
      NAME(solve_columns)(1, l, sums, to + i, ld);
    }
    for (ptrdiff_t k = 0; k < COLUMNS; k++) to[k * ld + k] = l[k][k];
    RM_ROLLED for (; i + WIDTH < m - j; i += 2 * WIDTH) {
      NAME(subtract_columns)(2, j, factors + i, factors, ld, to + i, sums);
      NAME(solve_columns)(2, l, sums, to + i, ld);
    }
    if (i < m - j) {
      NAME(subtract_columns)(1, j, factors + i, factors, ld, to + i, sums);
      NAME(solve_columns)(1, l, sums, to + i, ld);
    }
  }
  return -1;
}
#undef COLUMNS
#undef UNROLL
