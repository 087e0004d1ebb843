/*
 * Linear algebra of real matrices, compiled once.
 */
#include <stdlib.h>
#include "linalg.h"

/* Eigenvalues of Hermitian matrices and singular values are computed in double. */
#define NARROW
#define TYPE float
#define REAL float
#define SUFFIX f32
#include "linalg_type.h"
#include "small_type.h"
#include "few_type.h"
#include "factor_type.h"
#include "schur_type.h"
#include "expm_type.h"
#include "run_type.h"

#define TYPE double
#define REAL double
#define SUFFIX f64
#include "linalg_type.h"
#include "small_type.h"
#include "few_type.h"
#include "factor_type.h"
#include "eigen_type.h"
#include "schur_type.h"
#include "expm_type.h"
#include "run_type.h"
