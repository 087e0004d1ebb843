/*
 * Linear algebra of complex matrices, compiled once.
 */
#include <stdlib.h>
#include "linalg.h"

/* Eigenvalues of Hermitian matrices and singular values are computed in double. */
#define NARROW
#define TYPE float _Complex
#define REAL float
#define SUFFIX c64
#define COMPLEX
#include "linalg_type.h"
#include "small_type.h"
#include "factor_type.h"
#include "schur_type.h"
#include "expm_type.h"
#include "run_type.h"

#define TYPE double _Complex
#define REAL double
#define SUFFIX c128
#define COMPLEX
#include "linalg_type.h"
#include "small_type.h"
#include "factor_type.h"
#include "eigen_type.h"
#include "schur_type.h"
#include "expm_type.h"
#include "run_type.h"
