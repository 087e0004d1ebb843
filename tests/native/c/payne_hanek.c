/*
 * Compares shim/cuda/kernels/payne_hanek.h with libm: remainders exactly, angles approximately.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "payne_hanek.h"

static uint64_t state = 88172645463325252u;
static uint64_t bits(void) {
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}
static double any(void) { return rm_ph_from_bits(bits()); }

static bool same(double x, double y) {
  return x == y ? signbit(x) == signbit(y) : x != x && y != y;
}

/* Equal within a few ulp. The error of libm itself is 1 ulp. */
static bool close_to(double x, double y) {
  return fabs(x - y) <= 4 * (nextafter(fabs(y), INFINITY) - fabs(y));
}

int main(void) {
  const double special[] = {0.0, -0.0, 1, -1, 5e-324, 0x1p-1022, 0x1.fffffffffffffp1023,
                            INFINITY, -INFINITY, NAN};
  enum { SPECIAL = sizeof special / sizeof *special };
  int rests = 0, angles = 0;
  for (int i = 0; i < SPECIAL * SPECIAL; i++) {
    const double x = special[i / SPECIAL], y = special[i % SPECIAL];
    rests += !same(rm_fmod(x, y), fmod(x, y));
  }
  for (int i = 0; i < 300000; i++) {
    const double x = any();
    double y = any();
    /* Quotients of all magnitudes, and denormal divisors. */
    if (i % 3 == 0) y = ldexp(x, -(int)(bits() % 60)) * (1 + (double)(bits() % 100) / 100);
    if (i % 5 == 0) y = rm_ph_from_bits(bits() >> 12);
    rests += !same(rm_fmod(x, y), fmod(x, y));
  }
  for (int i = 0; i < 100000; i++) {
    const double size = ldexp(1 + (double)(bits() >> 12) * 0x1p-52, 20 + (int)(bits() % 1003));
    const double x = i % 2 == 0 ? size : -size;
    unsigned n;
    const double r = rm_payne_hanek(x, &n), sine = sin(r), cosine = cos(r);
    angles += fabs(r) > 0x1.921fb54442d19p-1;
    angles += !close_to((n & 2 ? -1 : 1) * (n & 1 ? cosine : sine), sin(x));
    angles += !close_to(((n + 1) & 2 ? -1 : 1) * (n & 1 ? sine : cosine), cos(x));
  }
  /* The double closest to a multiple of pi / 2: cos(x) as published. */
  unsigned n;
  const double r = rm_payne_hanek(ldexp(6381956970095103.0, 797), &n);
  angles += !((n & 1) == 1 && close_to(fabs(r), 4.68716592425462761112e-19));
  printf("rests differ: %d\nangles differ: %d\n", rests, angles);
  return 0;
}
