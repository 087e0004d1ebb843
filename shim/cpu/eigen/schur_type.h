/*
 * Hessenberg and Schur forms of one element type: the QR iteration of Francis for real matrices, and
 * one with rotations for complex ones; after factor_type.h.
 */

/* Replaces a by conj(Q') a Q in Hessenberg form, and sets q unless it is null. */
static void NAME(hessenberg)(const TABLE *blas, int dtype, ptrdiff_t n, TYPE *a, TYPE *q,
                             TYPE *work) {
  TYPE *tau = work, *row = tau + n, *rest = row + n;
  for (ptrdiff_t k = 0; k + 1 < n; k++) {
    const ptrdiff_t size = n - k - 1;
    TYPE *v = a + k * n + k + 1, *right = a + (k + 1) * n;
    tau[k] = NAME(reflect)(blas, size, v);
    if (tau[k] == 0) continue;
    const TYPE image = *v;
    *v = 1;
    NAME(apply_reflector)(blas, size, size, v, CONJ(tau[k]), right + k + 1, n, rest);
    memset(rest, 0, (size_t)n * sizeof *rest);
    blas->gemv(n, size, right, n, v, rest);
    for (ptrdiff_t j = 0; j < size; j++) row[j] = -tau[k] * CONJ(v[j]);
    blas->rank1(n, size, rest, row, right, n);
    *v = image;
  }
  if (q != NULL) {
    memset(q, 0, (size_t)n * sizeof *q);
    q[0] = 1;
    for (ptrdiff_t j = 1; j < n; j++) q[j * n] = 0;
    if (n > 1) NAME(make_q)(blas, dtype, n - 1, n - 1, n - 1, a + 1, n, tau, q + n + 1, n, rest);
  }
  for (ptrdiff_t j = 0; j + 2 < n; j++) {
    memset(a + j * n + j + 2, 0, (size_t)(n - j - 2) * sizeof *a);
  }
}

/* Sets elements below the diagonal that are negligible to 0; returns where the block up to `high`
 * begins. After many steps, what is negligible beside the largest element is enough: between equal
 * eigenvalues, rounding errors can keep an element above the usual limit. */
static ptrdiff_t NAME(block_start)(ptrdiff_t n, TYPE *h, ptrdiff_t high, double largest, int steps) {
  const double eps = sizeof(REAL) == 4 ? 0x1p-23 : 0x1p-52;
  ptrdiff_t low = high;
  for (; low > 0; low--) {
    const double near = (double)NAME(size1)(h[low * n + low]) +
                        (double)NAME(size1)(h[(low - 1) * n + low - 1]);
    const double limit = steps >= 60 ? largest * (steps / 10) : near == 0 ? largest : near;
    if ((double)NAME(size1)(h[(low - 1) * n + low]) <= eps * limit) {
      h[(low - 1) * n + low] = 0;
      break;
    }
  }
  return low;
}

#if !defined(COMPLEX)
/* Turns a block of two with real eigenvalues into a triangular one. */
static void NAME(split_block)(const TABLE *blas, ptrdiff_t n, TYPE *h, TYPE *q, ptrdiff_t k) {
  const double a = (double)h[k * n + k], b = (double)h[(k + 1) * n + k];
  const double c = (double)h[k * n + k + 1], d = (double)h[(k + 1) * n + k + 1];
  const double half = (a - d) / 2, root = half * half + b * c;
  if (c == 0 || root < 0) return;
  const double z = half < 0 ? half - sqrt(root) : half + sqrt(root);
  const double r = hypot(z, c);
  const REAL cs[2] = {(REAL)(z / r), (REAL)(c / r)};
  for (ptrdiff_t j = k; j < n; j++) {
    TYPE *x = h + j * n + k;
    const TYPE u = x[0], w = x[1];
    x[0] = cs[0] * u + cs[1] * w;
    x[1] = cs[0] * w - cs[1] * u;
  }
  blas->rotate(k + 2, 1, cs, h + k * n, n);
  if (q != NULL) blas->rotate(n, 1, cs, q + k * n, n);
  h[k * n + k + 1] = 0;
}

/* One double step for the block from `low` to `high`; all of h changes only if there are vectors. */
static void NAME(francis)(const TABLE *blas, ptrdiff_t n, TYPE *h, TYPE *q, ptrdiff_t low,
                          ptrdiff_t high, bool exceptional) {
  const TYPE *end = h + high * n + high;
  /* The shifts are the eigenvalues of [p, off; 1, r]. Differences come before products: those of almost
   * equal eigenvalues have few digits. */
  double p = (double)end[-n - 1], r = (double)end[0], off = (double)end[-1] * (double)end[-n];
  if (exceptional) {
    const double size = fabs((double)end[-n]) + fabs((double)end[-2 * n - 1]);
    p = r += 0.75 * size, off = -0.4375 * size * size;
  }
  const TYPE *first = h + low * n + low;
  const double q10 = (double)first[1];
  p -= (double)first[0], r -= (double)first[0];
  double x = p * r - off + (double)first[n] * q10;
  double y = q10 * ((double)first[n + 1] - (double)first[0] - p - r), z = q10 * (double)first[n + 2];
  const ptrdiff_t last = q == NULL ? high + 1 : n, top = q == NULL ? low : 0;
  for (ptrdiff_t k = low; k < high; k++) {
    const bool is_pair = k == high - 1;
    if (is_pair) z = 0;
    const double most = fmax(fabs(x), fmax(fabs(y), fabs(z)));
    if (most > 0) {
      const double u = x / most, v = y / most, w = z / most;
      const double size = sqrt(u * u + v * v + w * w), image = u > 0 ? -size : size;
      const double head = u - image;
      const REAL b = (REAL)(v / head), c = (REAL)(w / head), tau = (REAL)(-head / image);
      if (k > low) {
        h[(k - 1) * n + k] = (REAL)(image * most);
        h[(k - 1) * n + k + 1] = 0;
        if (!is_pair) h[(k - 1) * n + k + 2] = 0;
      }
      const ptrdiff_t count = rm_min(k + 3, high) + 1 - top;
      if (is_pair) {
        for (ptrdiff_t j = k; j < last; j++) {
          TYPE *at = h + j * n + k;
          const REAL sum = tau * (at[0] + b * at[1]);
          at[0] -= sum;
          at[1] -= sum * b;
        }
      } else {
        for (ptrdiff_t j = k; j < last; j++) {
          TYPE *at = h + j * n + k;
          const REAL sum = tau * (at[0] + b * at[1] + c * at[2]);
          at[0] -= sum;
          at[1] -= sum * b;
          at[2] -= sum * c;
        }
      }
      blas->reflect(count, is_pair ? 2 : 3, b, c, tau, h + k * n + top, n);
      if (q != NULL) blas->reflect(n, is_pair ? 2 : 3, b, c, tau, q + k * n, n);
    }
    x = (double)h[k * n + k + 1];
    y = k + 2 <= high ? (double)h[k * n + k + 2] : 0;
    z = k + 3 <= high ? (double)h[k * n + k + 3] : 0;
  }
}

static bool NAME(schur)(const TABLE *blas, ptrdiff_t n, TYPE *h, TYPE *q, double largest) {
  int steps = 0;
  for (ptrdiff_t high = n - 1; high > 0;) {
    const ptrdiff_t low = NAME(block_start)(n, h, high, largest, steps);
    if (low >= high - 1) {
      if (low == high - 1) NAME(split_block)(blas, n, h, q, low);
      high = low - 1;
      steps = 0;
      continue;
    }
    if (steps++ == 300) return false;
    NAME(francis)(blas, n, h, q, low, high, steps % 10 == 0);
  }
  return true;
}

/* The eigenvalues as pairs of reals. */
static void NAME(schur_values)(ptrdiff_t n, const TYPE *t, REAL *values) {
  for (ptrdiff_t k = 0; k < n; k++) {
    const TYPE *at = t + k * n + k;
    values[2 * k] = at[0], values[2 * k + 1] = 0;
    if (k + 1 == n || at[1] == 0) continue;
    const double a = (double)at[0], d = (double)at[n + 1], half = (a - d) / 2;
    const double root = sqrt(-(half * half + (double)at[1] * (double)at[n]));
    values[2 * k] = values[2 * k + 2] = (REAL)((a + d) / 2);
    values[2 * k + 1] = (REAL)root, values[2 * k + 3] = (REAL)-root;
    k++;
  }
}

/* The eigenvector of value k of a Schur form: x, and its imaginary part y unless null, for which k is
 * the first of a pair. */
static void NAME(schur_vector)(const TABLE *blas, ptrdiff_t n, const TYPE *t, const REAL *values,
                               ptrdiff_t k, TYPE *x, TYPE *y, double small) {
  const double re = (double)values[2 * k], im = y == NULL ? 0 : (double)values[2 * k + 1];
  memset(x, 0, (size_t)n * sizeof *x);
  if (y != NULL) memset(y, 0, (size_t)n * sizeof *y);
  x[k] = 1;
  if (y != NULL) {
    const TYPE *at = t + k * n + k;
    const double a = (double)at[0], b = (double)at[n], c = (double)at[1], d = (double)at[n + 1];
    if (fabs(b) >= fabs(c)) x[k + 1] = (REAL)((re - a) / b), y[k + 1] = (REAL)(im / b);
    else x[k + 1] = 1, x[k] = (REAL)((re - d) / c), y[k] = (REAL)(im / c);
    blas->axpy(k, -x[k + 1], t + (k + 1) * n, x);
    blas->axpy(k, -y[k + 1], t + (k + 1) * n, y);
    blas->axpy(k, -y[k], t + k * n, y);
  }
  blas->axpy(k, -x[k], t + k * n, x);
  for (ptrdiff_t i = k - 1; i >= 0; i--) {
    const TYPE *at = t + i * n + i;
    const bool is_pair = i > 0 && at[-n] != 0;
    double _Complex p = 0, u, v = x[i];
    __real__ p = (double)at[0] - re;
    __imag__ p = -im;
    if (y != NULL) __imag__ v = (double)y[i];
    if (!is_pair) {
      if (fabs(__real__ p) + fabs(__imag__ p) < small) p = small;
      v = y == NULL ? __real__ v / __real__ p : v / p;
    } else {
      double _Complex q = p;
      __real__ q = (double)at[-n - 1] - re;
      u = x[i - 1];
      if (y != NULL) __imag__ u = (double)y[i - 1];
      /* By elimination: Cramer's rule has no digits where the block is almost singular. */
      double _Complex b = (double)at[-1], c = (double)at[-n];
      if (fabs(__real__ c) > fabs(__real__ q) + fabs(__imag__ q)) {
        const double _Complex one = q, other = b, right = u;
        q = c, c = one, b = p, p = other, u = v, v = right;
      }
      if (fabs(__real__ q) + fabs(__imag__ q) < small) q = small;
      const double _Complex factor = c / q;
      p -= factor * b;
      if (fabs(__real__ p) + fabs(__imag__ p) < small) p = small;
      v = (v - factor * u) / p;
      const double _Complex first = (u - b * v) / q;
      x[i - 1] = (REAL)__real__ first;
      blas->axpy(i - 1, -x[i - 1], t + (i - 1) * n, x);
      if (y != NULL) {
        y[i - 1] = (REAL)__imag__ first;
        blas->axpy(i - 1, -y[i - 1], t + (i - 1) * n, y);
      }
    }
    x[i] = (REAL)__real__ v;
    const ptrdiff_t above = is_pair ? i - 1 : i;
    blas->axpy(above, -x[i], t + i * n, x);
    if (y != NULL) {
      y[i] = (REAL)__imag__ v;
      blas->axpy(above, -y[i], t + i * n, y);
    }
    const double size = fabs(__real__ v) + fabs(__imag__ v);
    if (is_pair) i--;
    if (size > (sizeof(REAL) == 4 ? 1e15 : 1e100)) {
      for (ptrdiff_t j = 0; j < n; j++) {
        x[j] = (REAL)((double)x[j] / size);
        if (y != NULL) y[j] = (REAL)((double)y[j] / size);
      }
    }
  }
}

/* The eigenvectors as columns of x, of which those of a pair have the real and the imaginary part. */
static void NAME(schur_vectors)(const TABLE *blas, ptrdiff_t n, const TYPE *t, const REAL *values,
                                TYPE *x, double small) {
  for (ptrdiff_t k = 0; k < n; k++) {
    const bool is_pair = values[2 * k + 1] != 0;
    NAME(schur_vector)(blas, n, t, values, k, x + k * n, is_pair ? x + (k + 1) * n : NULL, small);
    k += is_pair;
  }
}
#else
/* The eigenvalue of the last block of two that is closer to its last element. */
static double _Complex NAME(wilkinson)(ptrdiff_t n, const TYPE *end) {
  const double _Complex a = end[-n - 1], d = end[0], t = (a - d) / 2;
  const double _Complex bc = (double _Complex)end[-1] * (double _Complex)end[-n];
  const double _Complex s = t * t + bc;
  const double size = sqrt(hypot(__real__ s, __imag__ s));
  const double angle = atan2(__imag__ s, __real__ s) / 2;
  double _Complex root = 0;
  __real__ root = size * cos(angle);
  __imag__ root = size * sin(angle);
  if (__real__ t * __real__ root + __imag__ t * __imag__ root < 0) root = -root;
  return t + root == 0 ? d : d - bc / (t + root);
}

/* Columns k and k + 1 of m rows become c u + conj(s) w and c w - s u. */
static void NAME(turn_columns)(ptrdiff_t m, double c, double _Complex s, TYPE *u, TYPE *w) {
  const REAL cos = (REAL)c;
  const TYPE sin = (TYPE)s;
  for (ptrdiff_t i = 0; i < m; i++) {
    const TYPE x = u[i], y = w[i];
    u[i] = cos * x + CONJ(sin) * y;
    w[i] = cos * y - sin * x;
  }
}

static bool NAME(schur)(const TABLE *blas, ptrdiff_t n, TYPE *h, TYPE *q, double largest) {
  (void)blas;
  int steps = 0;
  for (ptrdiff_t high = n - 1; high > 0;) {
    const ptrdiff_t low = NAME(block_start)(n, h, high, largest, steps);
    if (low == high) {
      high--;
      steps = 0;
      continue;
    }
    if (steps++ == 300) return false;
    double _Complex shift = NAME(wilkinson)(n, h + high * n + high);
    if (steps % 10 == 0) shift += (double)NAME(size1)(h[(high - 1) * n + high]);
    double _Complex x = (double _Complex)h[low * n + low] - shift, y = h[low * n + low + 1];
    const ptrdiff_t last = q == NULL ? high + 1 : n, top = q == NULL ? low : 0;
    for (ptrdiff_t k = low; k < high; k++) {
      const double p = hypot(__real__ x, __imag__ x), r = hypot(p, hypot(__real__ y, __imag__ y));
      double c = 1;
      double _Complex s = 0;
      if (y != 0) {
        c = p / r;
        s = (p == 0 ? 1 : x / p) * ~y / r;
      }
      const REAL cos = (REAL)c;
      const TYPE sin = (TYPE)s;
      for (ptrdiff_t j = k > low ? k - 1 : low; j < last; j++) {
        TYPE *at = h + j * n + k;
        const TYPE u = at[0], w = at[1];
        at[0] = cos * u + sin * w;
        at[1] = cos * w - CONJ(sin) * u;
      }
      NAME(turn_columns)(rm_min(k + 2, high) + 1 - top, c, s, h + k * n + top, h + (k + 1) * n + top);
      if (q != NULL) NAME(turn_columns)(n, c, s, q + k * n, q + (k + 1) * n);
      if (k > low) h[(k - 1) * n + k + 1] = 0;
      if (k == high - 1) break;
      x = h[k * n + k + 1];
      y = h[k * n + k + 2];
    }
  }
  return true;
}

static void NAME(schur_values)(ptrdiff_t n, const TYPE *t, REAL *values) {
  for (ptrdiff_t k = 0; k < n; k++) {
    values[2 * k] = RE(t[k * n + k]);
    values[2 * k + 1] = IM(t[k * n + k]);
  }
}

static void NAME(schur_vectors)(const TABLE *blas, ptrdiff_t n, const TYPE *t, const REAL *values,
                                TYPE *vectors, double small) {
  (void)values;
  for (ptrdiff_t k = 0; k < n; k++) {
    TYPE *x = vectors + k * n;
    memset(x, 0, (size_t)n * sizeof *x);
    x[k] = 1;
    blas->axpy(k, -1, t + k * n, x);
    for (ptrdiff_t i = k - 1; i >= 0; i--) {
      TYPE pivot = t[i * n + i] - t[k * n + k];
      if ((double)NAME(size1)(pivot) < small) pivot = (REAL)small;
      x[i] = NAME(divide)(x[i], pivot);
      blas->axpy(i, -x[i], t + i * n, x);
      const double size = (double)NAME(size1)(x[i]);
      if (size > (sizeof(REAL) == 4 ? 1e15 : 1e100)) {
        for (ptrdiff_t j = 0; j < n; j++) x[j] /= (REAL)size;
      }
    }
  }
}
#endif

/* Divides a complex vector by its length, and turns its largest element to a real one if `turns`. */
static void NAME(normalize_vector)(ptrdiff_t n, REAL *x, ptrdiff_t step, bool turns) {
  double most = 0, sum = 0;
  ptrdiff_t best = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    const double size = hypot((double)x[i * step], (double)x[i * step + 1]);
    if (size > most) best = i, most = size;
  }
  if (most == 0) return;
  for (ptrdiff_t i = 0; i < n; i++) {
    const double a = (double)x[i * step] / most, b = (double)x[i * step + 1] / most;
    sum += a * a + b * b;
  }
  const double length = most * sqrt(sum);
  double c = 1, s = 0;
  if (turns) c = (double)x[best * step] / most, s = -(double)x[best * step + 1] / most;
  for (ptrdiff_t i = 0; i < n; i++) {
    const double a = (double)x[i * step] / length, b = (double)x[i * step + 1] / length;
    x[i * step] = (REAL)(a * c - b * s);
    x[i * step + 1] = (REAL)(a * s + b * c);
  }
  if (turns) x[best * step + 1] = 0;
}

static ptrdiff_t NAME(eig_work)(ptrdiff_t n) { return 3 * n * n + 3 * n + NAME(qr_work)(n, n); }

/* The eigenvalues of a as pairs of reals, and unless null eigenvectors as rows of n pairs: element i of
 * vector j is at i n + j. */
static bool NAME(eig)(const TABLE *blas, int dtype, ptrdiff_t n, TYPE *a, double largest,
                      REAL *values, REAL *vectors, TYPE *work) {
  TYPE *q = vectors == NULL ? NULL : work, *x = work + n * n, *made = x + n * n;
  NAME(hessenberg)(blas, dtype, n, a, q, made + n * n);
  if (!NAME(schur)(blas, n, a, q, largest)) return false;
  NAME(schur_values)(n, a, values);
  if (vectors == NULL) return true;
  const double eps = sizeof(REAL) == 4 ? 0x1p-23 : 0x1p-52;
  NAME(schur_vectors)(blas, n, a, values, x, fmax(eps * largest, sizeof(REAL) == 4 ? 1e-30 : 1e-290));
  NAME(product)(blas, dtype, n, n, n, q, n, x, n, made, n);
  for (ptrdiff_t j = 0; j < n; j++) {
    REAL *to = vectors + 2 * j;
    const TYPE *column = made + j * n;
    const bool is_pair = PARTS == 1 && values[2 * j + 1] != 0;
    for (ptrdiff_t i = 0; i < n; i++) {
      to[2 * i * n] = RE(column[i]);
      to[2 * i * n + 1] = is_pair ? RE(column[n + i]) : IM(column[i]);
    }
    NAME(normalize_vector)(n, to, 2 * n, is_pair || PARTS == 2);
    if (!is_pair) continue;
    for (ptrdiff_t i = 0; i < n; i++) {
      to[2 * i * n + 2] = to[2 * i * n];
      to[2 * i * n + 3] = -to[2 * i * n + 1];
    }
    j++;
  }
  return true;
}
