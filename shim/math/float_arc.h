/*
 * asin, acos, atan and atan2.
 */
#ifndef ROWMAJOR_FLOAT_ARC_H
#define ROWMAJOR_FLOAT_ARC_H

#include "float_core.h"

/* (asin(s) / s - 1) / z for z = s^2 <= 1/4. */
static inline float rm_asin_series_f32(float z) {
  return RM_POLY_5(f32, z, 1.6666754e-01f, 7.495233e-02f, 4.5478296e-02f, 2.4141226e-02f,
                   4.223016e-02f);
}
static inline double rm_asin_series_f64(double z) {
  return RM_POLY_12(f64, z, 0.16666666666665406, 0.0750000000033976, 0.044642856825330764,
                    0.03038195927863076, 0.022371754376650378, 0.0173597629460979,
                    0.013884642031134178, 0.012173193234476383, 0.006510497528186234,
                    0.019576590447062094, -0.016300627574529075, 0.03196487758716468);
}
/* (atan(t) / t - 1) / z for z = t^2, with |t| <= 1/2 and sqrt(2) - 1. */
static inline float rm_atan_series_f32(float z) {
  return RM_POLY_5(f32, z, -3.3333236e-01f, 1.9994296e-01f, -1.4175811e-01f, 1.0163618e-01f,
                   -5.138169e-02f);
}
static inline double rm_atan_series_f64(double z) {
  return RM_POLY_11(f64, z, -0.33333333333333204, 0.19999999999954465, -0.1428571428027007,
                    0.11111110786629967, -0.09090897838082912, 0.07692061491497224,
                    -0.06663117109718379, 0.058479752102663186, -0.05039655452784607,
                    0.038072645581493064, -0.01791524370179596);
}

#define RM_PI_f32 0x1.921fb6p+1f
#define RM_PI_LOW_f32 (-0x1.777a5cp-24f)
#define RM_PI_f64 0x1.921fb54442d18p+1
#define RM_PI_LOW_f64 0x1.1a62633145c07p-53

#define TYPE float
#define SUFFIX f32
#define BUILTIN(name) __builtin_##name##f
#define FLAT 0.5f
#define STEEP 2.0f
#define BIG 0x1p100f
#define TINY 0x1p-30f
#include "float_arc_type.h"
#define TYPE double
#define SUFFIX f64
#define BUILTIN(name) __builtin_##name
#define FLAT 0.41421356237309503
#define STEEP 2.414213562373095
#define BIG 0x1p1000
#define TINY 0x1p-60
#include "float_arc_type.h"

#endif
