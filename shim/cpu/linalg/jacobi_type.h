/*
 * Jacobi's rotations and Cholesky factors for as many small matrices at a time as a vector has lanes; within
 * linalg_kernels_type.h.
 */
#if !defined(NARROW)
#define FLAGS __typeof__((LANES){0} > (LANES){0})

/* x where a flag is set, else 0. */
static inline LANES NAME(only)(FLAGS flags, LANES x) { return (LANES)(flags & (FLAGS)x); }

static inline LANES NAME(magnitude)(LANES x) { return (LANES)((FLAGS)x & ~(FLAGS)(-(LANES){0})); }

/* Columns p and q become c p - s q and s p + c q. */
static inline void NAME(turn_lanes)(ptrdiff_t n, LANES c, LANES s, REAL *p, REAL *q, ptrdiff_t step) {
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++, p += step, q += step) {
    const LANES x = IN(p), y = IN(q);
    AT(p) = c * x - s * y;
    AT(q) = s * x + c * y;
  }
}

static bool NAME(jacobi)(bool symmetric, ptrdiff_t m, ptrdiff_t n, REAL *a, REAL *v) {
  const REAL eps = 0x1p-53;
  const ptrdiff_t column = m * WIDTH;
  /* Each lane ends after a sweep without a rotation of its own, whatever the others do. */
  FLAGS live = (LANES){0} == (LANES){0};
  for (int sweep = 0; sweep < 40; sweep++) {
    LANES size = {0};
    for (ptrdiff_t i = 0; i < m * n; i++) size += IN(a + i * WIDTH) * IN(a + i * WIDTH);
    /* Squares: of an element beside the diagonal, and of a column that counts as zero. */
    const LANES least = size * (eps * eps);
    FLAGS turned = live ^ live;
    for (ptrdiff_t p = 0; p < n - 1; p++) {
      RM_ROLLED for (ptrdiff_t q = p + 1; q < n; q++) {
        REAL *x = a + p * column, *y = a + q * column;
        LANES first, last, between;
        FLAGS turns;
        if (symmetric) {
          first = IN(x + p * WIDTH), last = IN(y + q * WIDTH), between = IN(y + p * WIDTH);
          turns = between * between * 16 > least;
        } else {
          first = last = between = (LANES){0};
          for (ptrdiff_t i = 0; i < column; i += WIDTH) {
            first += IN(x + i) * IN(x + i);
            last += IN(y + i) * IN(y + i);
            between += IN(x + i) * IN(y + i);
          }
          turns = (between * between > first * last * (16 * eps * eps)) & (first > least) &
                  (last > least);
        }
        turns &= live;
        turned |= turns;
        const LANES d = last - first, h = NAME(only)(turns, between * 2);
        const LANES under = NAME(magnitude)(d) + __builtin_elementwise_sqrt(d * d + h * h);
        const FLAGS sign = (FLAGS)d & (FLAGS)(-(LANES){0});
        const LANES t = NAME(only)(turns, (LANES)((FLAGS)(h / under) ^ sign));
        const LANES c = 1 / __builtin_elementwise_sqrt(t * t + 1), s = t * c;
        NAME(turn_lanes)(m, c, s, x, y, WIDTH);
        if (symmetric) {
          NAME(turn_lanes)(n, c, s, a + p * WIDTH, a + q * WIDTH, column);
          const LANES kept = NAME(only)(~turns, between);
          AT(x + p * WIDTH) = first - t * NAME(only)(turns, between);
          AT(y + q * WIDTH) = last + t * NAME(only)(turns, between);
          AT(x + q * WIDTH) = AT(y + p * WIDTH) = kept;
        }
        if (v != NULL) NAME(turn_lanes)(n, c, s, v + p * n * WIDTH, v + q * n * WIDTH, WIDTH);
      }
    }
    live = turned;
    ptrdiff_t left = 0;
    for (int i = 0; i < WIDTH; i++) left |= (ptrdiff_t)live[i];
    if (left == 0) return true;
  }
  return false;
}

#undef FLAGS
#endif

static void NAME(cholesky_lanes)(ptrdiff_t n, REAL *a) {
  for (ptrdiff_t j = 0; j < n; j++) {
    REAL *x = a + j * n * WIDTH;
    const LANES root = __builtin_elementwise_sqrt(IN(x + j * WIDTH));
    AT(x + j * WIDTH) = root;
    RM_ROLLED for (ptrdiff_t i = j + 1; i < n; i++) AT(x + i * WIDTH) /= root;
    for (ptrdiff_t k = j + 1; k < n; k++) {
      REAL *y = a + k * n * WIDTH;
      const LANES by = IN(x + k * WIDTH);
      RM_ROLLED for (ptrdiff_t i = k; i < n; i++) AT(y + i * WIDTH) -= by * IN(x + i * WIDTH);
    }
  }
}
