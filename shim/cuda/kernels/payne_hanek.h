/*
 * The parts of libm that compilers of device code lack: fmod, and the argument reduction of huge
 * angles (Payne and Hanek).
 *
 * Plain C, so that tests can compare it with libm on a CPU.
 */
#ifndef ROWMAJOR_CUDA_PAYNE_HANEK_H
#define ROWMAJOR_CUDA_PAYNE_HANEK_H

static inline unsigned long long rm_ph_bits(double x) {
  unsigned long long bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static inline double rm_ph_from_bits(unsigned long long bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
/* 2^n for n from -1022 to 1023. */
static inline double rm_ph_exp2(int n) {
  return rm_ph_from_bits((unsigned long long)(n + 1023) << 52);
}

/* Splits finite |x| into an integer times 2^exponent. */
static inline unsigned long long rm_ph_split(double x, int *exponent) {
  const unsigned long long bits = rm_ph_bits(x), fraction = bits & 0xfffffffffffffull;
  const int e = (int)(bits >> 52 & 2047);
  *exponent = (e == 0 ? 1 : e) - 1075;
  return e == 0 ? fraction : fraction | 0x10000000000000ull;
}

/* fmod by long division, 11 bits at a time. */
static inline double rm_fmod(double x, double y) {
  if (x - x != 0 || y != y || y == 0) return (x - x) / (x - x) + y;
  const double size = __builtin_fabs(x), by = __builtin_fabs(y);
  if (size < by) return x;
  int from, to;
  unsigned long long rest = rm_ph_split(size, &from);
  const unsigned long long divisor = rm_ph_split(by, &to);
  rest %= divisor;
  for (int left = from - to; left > 0; left -= 11) {
    rest = (rest << (left < 11 ? left : 11)) % divisor;
  }
  /* The bits of the result are the remainder in units of 2^-1074. The products are exact. */
  const int up = to + 1074, half = up / 2;
  const double result = rm_ph_from_bits(rest) * rm_ph_exp2(half) * rm_ph_exp2(up - half);
  return __builtin_copysign(result, x);
}

/* x = n pi / 2 + r with |r| <= pi / 4, for finite |x| of at least 2^20. The two lowest bits of n
 * are correct. Of the bits of 2 / pi, only those whose product with x is below 4 matter, and 192 of
 * them leave enough digits of r, however close to 0 it is. */
static inline double rm_payne_hanek(double x, unsigned *n) {
  /* 64 zeros, then the first bits of 2 / pi. */
  static const unsigned long long digits[20] = {
      0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
      0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e,
      0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
      0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
      0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};
  int exponent;
  const unsigned long long mantissa = rm_ph_split(x, &exponent);
  /* Three words. The first bit is worth 2 in the product. */
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
  /* The fraction after two bits of n. From one half on, x is that much below the next n. */
  unsigned long long high = top << 2 | next >> 62, low = next << 2 | rest >> 62;
  const bool is_below = high >> 63 != 0;
  unsigned quadrants = (unsigned)(top >> 62);
  if (is_below) {
    quadrants++;
    high = ~high + (low == 0);
    low = -low;
  }
  *n = x < 0 ? -quadrants : quadrants;
  if (high == 0) return 0;
  const int zeros = __builtin_clzll(high);
  if (zeros > 0) high = high << zeros | low >> (64 - zeros);
  const double r = (double)high * rm_ph_exp2(-64 - zeros) * 0x1.921fb54442d18p+0;
  return is_below != (x < 0) ? -r : r;
}

#endif
