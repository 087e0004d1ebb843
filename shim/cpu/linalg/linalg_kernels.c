/*
 * The vector kernels of linear algebra for one ISA.
 */
#include "block_copy.h"
#include "linalg.h"

#pragma STDC FP_CONTRACT ON

#define NARROW
#define TYPE float
#define REAL float
#define SUFFIX f32
#include "linalg_kernels_type.h"
#define TYPE double
#define REAL double
#define SUFFIX f64
#include "linalg_kernels_type.h"
#define TYPE float _Complex
#define REAL float
#define SUFFIX c64
#define COMPLEX
#include "linalg_kernels_type.h"
#define TYPE double _Complex
#define REAL double
#define SUFFIX c128
#define COMPLEX
#include "linalg_kernels_type.h"

rm_linalg_tables RM_FOR_ISA(linalg_tables) = {&blas_f32, &blas_f64, &blas_c64, &blas_c128};
