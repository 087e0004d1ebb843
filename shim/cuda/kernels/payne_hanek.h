/*
 * What is left of libm for compilers of device code that have none: the rest of a division, and
 * how angles that are huge are reduced.
 *
 * Plain C, so that tests can compare it with libm on a CPU.
 */
#ifndef ROWMAJOR_CUDA_FAR_H
#define ROWMAJOR_CUDA_FAR_H

static inline unsigned long long rm_far_bits(double x) {
  unsigned long long bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline double rm_far_double(unsigned long long bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
/* 2^n for n from -1022 to 1023. */
static inline double rm_far_power(int n) {
  return rm_far_double((unsigned long long)(n + 1023) << 52);
}

/* |x| as an integer times 2^exponent, for x that is finite. */
static inline unsigned long long rm_far_split(double x, int *exponent) {
  const unsigned long long bits = rm_far_bits(x), fraction = bits & 0xfffffffffffffull;
  const int e = (int)(bits >> 52 & 2047);
  *exponent = (e == 0 ? 1 : e) - 1075;
  return e == 0 ? fraction : fraction | 0x10000000000000ull;
}

/* fmod: a long division, of 11 bits at a time. */
static inline double rm_far_rest(double x, double y) {
  if (x - x != 0 || y != y || y == 0) return (x - x) / (x - x) + y;
  const double size = __builtin_fabs(x), by = __builtin_fabs(y);
  if (size < by) return x;
  int from, to;
  unsigned long long rest = rm_far_split(size, &from);
  const unsigned long long divisor = rm_far_split(by, &to);
  rest %= divisor;
  for (int left = from - to; left > 0; left -= 11) {
    rest = (rest << (left < 11 ? left : 11)) % divisor;
  }
  /* As bits of a double the rest is that many times 2^-1074; the products are exact. */
  const int up = to + 1074, half = up / 2;
  const double result = rm_far_double(rest) * rm_far_power(half) * rm_far_power(up - half);
  return __builtin_copysign(result, x);
}

/*
 * x = n pi / 2 + r with |r| <= pi / 4, for finite x of at least 2^20 in size; of n the two lowest
 * bits are right. Of the bits of 2 / pi only those matter whose product with x is below 4, and 192
 * of those leave enough digits of r, however close to 0 it is.
 */
static inline double rm_far_reduce(double x, unsigned *n) {
  /* 64 zeros, then the first bits of 2 / pi. */
  static const unsigned long long digits[20] = {
      0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
      0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
      0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
      0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
      0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
  int exponent;
  const unsigned long long mantissa = rm_far_split(x, &exponent);
  /* Three words, whose first bit is worth 2 in the product. */
  const int first = exponent + 62, word = first >> 6, shift = first & 63;
  unsigned long long window[3];
  for (int i = 0; i < 3; i++) {
    const unsigned long long high = digits[word + i], low = digits[word + i + 1];
    window[i] = shift == 0 ? high : high << shift | low >> (64 - shift);
  }
  const unsigned __int128 last = (unsigned __int128)window[2] * mantissa;
  const unsigned __int128 middle = (unsigned __int128)window[1] * mantissa + (last >> 64);
  const unsigned long long top = window[0] * mantissa + (unsigned long long)(middle >> 64);
  const unsigned long long next = (unsigned long long)middle, rest = (unsigned long long)last;
  /* What is left of two bits for n: from a half on, it is that much below the next n. */
  unsigned long long high = top << 2 | next >> 62, low = next << 2 | rest >> 62;
  const bool is_below = high >> 63 != 0;
  unsigned turns = (unsigned)(top >> 62);
  if (is_below) {
    turns++;
    high = ~high + (low == 0);
    low = -low;
  }
  *n = x < 0 ? -turns : turns;
  if (high == 0) return 0;
  const int zeros = __builtin_clzll(high);
  if (zeros > 0) high = high << zeros | low >> (64 - zeros);
  const double r = (double)high * rm_far_power(-64 - zeros) * 0x1.921fb54442d18p+0;
  return is_below != (x < 0) ? -r : r;
}

#endif
