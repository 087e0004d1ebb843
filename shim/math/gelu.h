/*
 * gelu of float32 with AVX-512, whose instructions look up one of 32 elements. So a short
 * polynomial per segment replaces the long one of rm_gelu_f32, its division, and its other
 * polynomial near 0.
 *
 * The result is max(x, 0) minus the lower tail, exp(-t^2 / 2) t h(t) with t = |x|. A segment
 * approximates h(t) for t < 1/2 and 2 t h(t) elsewhere, which has a smaller rounding error.
 */
#ifndef ROWMAJOR_GELU_H
#define ROWMAJOR_GELU_H

#include <immintrin.h>

/* Eight segments per power of 2 of t + 1: bits 20 to 24 select the segment. For each segment: its
 * midpoint, and the coefficients of a polynomial in the distance of t from that. Computed by
 * scripts/generate/fit_erf.py. */
static const float gelu_midpoints[32] = {
    1.125f, 1.375f, 1.625f,  1.875f,  2.125f,  2.375f,  2.625f,  2.875f,  3.25f,   3.75f,  4.25f,
    4.75f,  5.25f,  5.75f,   6.25f,   6.75f,   7.5f,    8.5f,    9.5f,    10.5f,   11.5f,  12.5f,
    13.5f,  14.2f,  0.0625f, 0.1875f, 0.3125f, 0.4375f, 0.5625f, 0.6875f, 0.8125f, 0.9375f};
static const float gelu_coefficients[5][32] = {
    {0.551995625f, 0.598509515f, 0.633825107f, 0.661090843f, 0.682465424f, 0.699456824f,
     0.713136895f, 0.724279906f, 0.737438404f, 0.750294072f, 0.759554208f, 0.766416292f,
     0.771626424f, 0.775666161f, 0.778856086f, 0.781415528f, 0.784396457f, 0.787270732f,
     0.789322482f, 0.790836033f, 0.791983348f, 0.792873139f, 0.793576754f, 0.793985046f,
     0.476011133f, 0.43318231f,  0.396211836f, 0.364104872f, 0.378069113f, 0.428221732f,
     0.470754494f, 0.50702328f},
    {0.214037009f,   0.161138528f,    0.123449342f,    0.0960933937f,   0.0758944252f,
     0.06074219f,    0.0492085287f,   0.0403100316f,   0.0304538238f,   0.0216139424f,
     0.0158145629f,  0.0118764805f,   0.00912121941f,  0.0071426471f,   0.0056889999f,
     0.00459928845f, 0.00342536852f,  0.00240252387f,  0.00174681383f,  0.00130817127f,
     0.00100416228f, 0.000787080013f, 0.000628070394f, 0.000541326633f, -0.369191475f,
     -0.317720515f,  -0.275126019f,   -0.239646351f,   0.435976525f,    0.368724665f,
     0.31359688f,    0.268142315f},
    {-0.125492468f,    -0.0885918687f,   -0.0637565633f,   -0.0467059542f,   -0.0347811654f,
     -0.0262962838f,   -0.0201613981f,   -0.0156589309f,   -0.0109581517f,   -0.00706404266f,
     -0.004724229f,    -0.0032615204f,   -0.00231486903f,  -0.00168324692f,  -0.00125032147f,
     -0.000946414916f, -0.000642795197f, -0.000403011603f, -0.000264664411f, -0.000180600356f,
     -0.000127263229f, -9.21609652e-5f,  -6.83248816e-5f,  -5.60957903e-5f,  0.226468287f,
     0.186804818f,     0.155117445f,     0.129629769f,     -0.297196949f,    -0.242913642f,
     -0.199731267f,    -0.165169516f},
    {0.0601424617f,   0.0400752999f,   0.02725803f,    0.0188983599f,   0.0133380723f,
     0.00957119362f,  0.00697500951f,  0.00515663511f, 0.00337421687f,  0.00198621655f,
     0.00121950306f,  0.000776843744f, 0.00051111783f, 0.000346004954f, 0.000240216171f,
     0.000170558028f, 0.000106430273f, 5.97290529e-5f, 3.54659732e-5f,  2.20692419e-5f,
     1.42853184e-5f,  9.56271213e-6f,  6.58918583e-6f, 5.14504429e-6f,  -0.118458062f,
     -0.0943158869f,  -0.0756144025f,  -0.0610263642f, 0.162420175f,    0.128812316f,
     0.102793732f,    0.0825236821f},
    {-0.0250307136f,   -0.0158292285f,   -0.0102277828f,   -0.00674307755f, -0.00453043539f,
     -0.00309819078f,  -0.00215414623f,  -0.0015211919f,   -0.00093073922f, -0.000503364963f,
     -0.000285200497f, -0.000168359171f, -0.000103058374f, -6.5150608e-5f,  -4.23854821e-5f,
     -2.8291982e-5f,   -1.61739938e-5f,  -8.15693136e-6f,  -4.39233493e-6f, -2.49815883e-6f,
     -1.4880647e-6f,   -9.2210845e-7f,   -5.91226378e-7f,  -4.40221609e-7f, 0.0548113516f,
     0.0423158994f,    0.0329004198f,    0.0257554135f,    -0.076307153f,   -0.0588958506f,
     -0.0457478218f,   -0.035755244f},
};

/* The element that bits 0 to 4 of `at` select. */
static inline __m512 gelu_lookup(__m512i at, const float *table) {
  return _mm512_permutex2var_ps(_mm512_loadu_ps(table), at, _mm512_loadu_ps(table + 16));
}

static inline __m512 gelu_fma(__m512 a, __m512 b, float c) {
  return _mm512_fmadd_ps(a, b, _mm512_set1_ps(c));
}

static inline __m512 gelu_16(__m512 x) {
  /* Beyond that the result is 0 or x. */
  const __m512 t = _mm512_min_ps(_mm512_abs_ps(x), _mm512_set1_ps(14.4f)), tt = t * t;
  const __m512i at = _mm512_srli_epi32(_mm512_castps_si512(t + 1), 20);
  const __m512 above = t - gelu_lookup(at, gelu_midpoints);
  __m512 p = gelu_lookup(at, gelu_coefficients[4]);
  for (int i = 3; i >= 0; i--) p = _mm512_fmadd_ps(p, above, gelu_lookup(at, gelu_coefficients[i]));
  /* As in rm_gelu_f32. */
  const float bias = 0x1.8p23f + 64;
  const __m512 shifted = gelu_fma(tt, _mm512_set1_ps(-0.5f * 0x1.715476p+0f), bias);
  const __m512 n = shifted - bias, high = _mm512_fmadd_ps(t, t, n * (2 * 0.693359375f));
  const __m512 z = _mm512_fmadd_ps(n, _mm512_set1_ps(-2 * 2.12194440e-4f), high);
  __m512 g = gelu_fma(z, _mm512_set1_ps(1.3814204e-03f / 64), -8.3689215e-03f / 32);
  g = gelu_fma(z, g, 4.1668408e-02f / 16);
  g = gelu_fma(z, g, -1.666652e-01f / 8);
  g = gelu_fma(z, g, 4.9999994e-01f / 4);
  g = gelu_fma(z, g, -0.5f) * z;
  const __m512 scaled = _mm512_castsi512_ps(_mm512_add_epi32(
      _mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
  const __m512 left = _mm512_fmadd_ps(scaled, g, scaled) * _mm512_min_ps(t, _mm512_set1_ps(0.5f));
  /* -Infinity minus itself is NaN. */
  const __m512 zero = _mm512_setzero_ps();
  const __m512 negative = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, zero, _CMP_LT_OQ), x);
  return _mm512_fmadd_ps(left, _mm512_set1_ps(-0x1p-64f), x - negative);
}

#endif
