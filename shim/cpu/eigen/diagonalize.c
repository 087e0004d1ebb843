/*
 * The QR iteration for real tridiagonal and bidiagonal matrices, in double precision.
 */
#include "linalg.h"

/* c and s of the rotation that turns (x, y) into (r, 0). */
static double rotation(double x, double y, double *c, double *s) {
  if (y == 0) {
    *c = 1, *s = 0;
    return x;
  }
  const double r = sqrt(x * x + y * y);
  if (r == 0) {
    *c = 1, *s = 0;
    return 0;
  }
  *c = x / r, *s = y / r;
  return r;
}

/* Between equal values, rounding errors can keep an element above the limit at which it counts as 0; after
 * as many steps for one value, the limit is doubled. */
enum { MOST_STEPS = 8 };

bool rm_linalg_tridiagonal(ptrdiff_t n, double *d, double *e, double eps, double *cs,
                           rm_linalg_turn *turn, void *context) {
  ptrdiff_t left = 60 * n;
  double size = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    size = fmax(size, fabs(d[i]) + (i < n - 1 ? fabs(e[i]) : 0));
  }
  const double tiny = size * 1e-140;
  double near = eps;
  for (ptrdiff_t high = n - 1, steps = 0; high > 0;) {
    ptrdiff_t low = high;
    for (; low > 0; low--) {
      const double one = fabs(e[low - 1]);
      if (one <= near * (fabs(d[low - 1]) + fabs(d[low])) || one <= tiny) {
        e[low - 1] = 0;
        break;
      }
    }
    if (low == high) {
      high--;
      steps = 0;
      near = eps;
      continue;
    }
    if (left-- == 0) return false;
    if (++steps % MOST_STEPS == 0) near *= 2;
    const double half = (d[high - 1] - d[high]) / 2, off = e[high - 1];
    const double root = sqrt(half * half + off * off);
    double x = d[low] - (d[high] - off * off / (half < 0 ? half - root : half + root)), y = e[low];
    for (ptrdiff_t k = low; k < high; k++) {
      double c, s;
      const double r = rotation(x, y, &c, &s);
      if (k > low) e[k - 1] = r;
      const double between = e[k], t = s * (d[k + 1] - d[k]) + 2 * c * between;
      d[k] += s * t;
      d[k + 1] -= s * t;
      e[k] = c * t - between;
      if (k < high - 1) {
        x = e[k];
        y = s * e[k + 1];
        e[k + 1] *= c;
      }
      cs[2 * (k - low)] = c, cs[2 * (k - low) + 1] = s;
    }
    if (turn != NULL) turn(context, 0, low, high - low, cs);
  }
  return true;
}

/* The smaller singular value of [p, q; 0, r]. */
static double smaller(double p, double q, double r) {
  const double t = p * p + q * q + r * r;
  const double root = sqrt(((p - r) * (p - r) + q * q) * ((p + r) * (p + r) + q * q));
  const double most = sqrt((t + root) / 2);
  return most == 0 ? 0 : fabs(p * r) / most;
}

bool rm_linalg_bidiagonal(ptrdiff_t n, double *d, double *e, double eps, double *cs,
                          rm_linalg_turn *turn, void *context) {
  ptrdiff_t left = 60 * n;
  double size = 0;
  for (ptrdiff_t i = 0; i < n; i++) {
    size = fmax(size, fmax(fabs(d[i]), i < n - 1 ? fabs(e[i]) : 0));
  }
  /* No part of the largest value beside it: small values keep their digits. */
  const double tiny = size * 1e-140;
  double *left_cs = cs + 2 * n, near = eps;
  for (ptrdiff_t high = n - 1, steps = 0; high > 0;) {
    ptrdiff_t low = high;
    for (; low > 0; low--) {
      const double one = fabs(e[low - 1]);
      if (one <= near * (fabs(d[low - 1]) + fabs(d[low])) || one <= tiny) {
        e[low - 1] = 0;
        break;
      }
    }
    if (low == high) {
      high--;
      steps = 0;
      near = eps;
      continue;
    }
    if (left-- == 0) return false;
    if (++steps % MOST_STEPS == 0) near *= 2;
    double shift = smaller(d[high - 1], e[high - 1], d[high]);
    const double part = d[low] == 0 ? 0 : shift / fabs(d[low]);
    double most = 0, least = size;
    for (ptrdiff_t i = low; i <= high; i++) {
      least = fmin(least, fabs(d[i]));
      most = fmax(most, fmax(fabs(d[i]), i < high ? fabs(e[i]) : 0));
    }
    if (part * part < eps || least <= eps * most) {
      double c = 1, s = 0, old_c = 1, old_s = 0;
      for (ptrdiff_t i = low; i < high; i++) {
        const double r = rotation(d[i] * c, e[i], &c, &s);
        if (i > low) e[i - 1] = old_s * r;
        d[i] = rotation(old_c * r, d[i + 1] * s, &old_c, &old_s);
        cs[2 * (i - low)] = c, cs[2 * (i - low) + 1] = s;
        left_cs[2 * (i - low)] = old_c, left_cs[2 * (i - low) + 1] = old_s;
      }
      const double h = d[high] * c;
      d[high] = h * old_c;
      e[high - 1] = h * old_s;
    } else {
      double f = (fabs(d[low]) - shift) * ((d[low] < 0 ? -1 : 1) + shift / d[low]), g = e[low];
      for (ptrdiff_t i = low; i < high; i++) {
        double c, s;
        double r = rotation(f, g, &c, &s);
        if (i > low) e[i - 1] = r;
        f = c * d[i] + s * e[i];
        e[i] = c * e[i] - s * d[i];
        g = s * d[i + 1];
        d[i + 1] *= c;
        cs[2 * (i - low)] = c, cs[2 * (i - low) + 1] = s;
        r = rotation(f, g, &c, &s);
        d[i] = r;
        f = c * e[i] + s * d[i + 1];
        d[i + 1] = c * d[i + 1] - s * e[i];
        if (i < high - 1) {
          g = s * e[i + 1];
          e[i + 1] *= c;
        }
        left_cs[2 * (i - low)] = c, left_cs[2 * (i - low) + 1] = s;
      }
      e[high - 1] = f;
    }
    if (turn != NULL) {
      turn(context, 0, low, high - low, cs);
      turn(context, 1, low, high - low, left_cs);
    }
  }
  return true;
}
