/**
 * The names of the Python array API standard, version 2025.12, and where rowmajor differs.
 *
 * coverage.ts determines from the code which of them exist. This file contains only data.
 *
 * @module
 */

/** Every function, attribute, constant and dtype of the standard, by category. */
export const STANDARD: Readonly<Record<string, string>> = {
  "Constants": "e inf nan newaxis pi",
  "Data types": "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 " +
    "complex64 complex128",
  "Array attributes": "dtype device mT ndim shape size T",
  "Array methods": "__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ " +
    "__dlpack_device__ __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__ __index__ __int__ " +
    "__invert__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ " +
    "__pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__ to_device",
  "Creation": "arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid " +
    "ones ones_like tril triu zeros zeros_like",
  "Data type functions": "astype can_cast finfo iinfo isdtype result_type",
  "Elementwise": "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift " +
    "bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh " +
    "divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf " +
    "isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or " +
    "logical_xor maximum minimum multiply negative nextafter not_equal positive pow real " +
    "reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc",
  "Indexing": "take take_along_axis",
  "Inspection": "__array_namespace_info__ capabilities default_device default_dtypes devices " +
    "dtypes",
  "Linear algebra": "matmul matrix_transpose tensordot vecdot",
  "Manipulation":
    "broadcast_arrays broadcast_shapes broadcast_to concat expand_dims flip moveaxis permute_dims " +
    "repeat reshape roll squeeze stack tile unstack",
  "Searching": "argmax argmin count_nonzero nonzero searchsorted where",
  "Sets": "isin unique_all unique_counts unique_inverse unique_values",
  "Sorting": "argsort sort",
  "Statistics": "cumulative_prod cumulative_sum max mean min prod std sum var",
  "Utilities": "all any diff",
  "Extension linalg":
    "cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm " +
    "matrix_power matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot " +
    "trace vecdot vector_norm",
  "Extension fft": "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq " +
    "fftshift ifftshift",
};

/** Names that differ from the standard's name in camelCase. */
export const RENAMED: Readonly<Record<string, string>> = {
  e: "Math.E",
  inf: "Infinity",
  nan: "NaN",
  newaxis: "null",
  pi: "Math.PI",
  ndim: "rank",
  to_device: "to",
  asarray: "tensor",
  divide: "div",
  multiply: "mul",
  negative: "neg",
  subtract: "sub",
  matrix_transpose: "mT",
  broadcast_arrays: "broadcastTensors",
  moveaxis: "moveAxis",
  __array_namespace_info__: "info",
  devices: "info",
  __abs__: "abs",
  __add__: "add",
  __and__: "bitwiseAnd",
  __bool__: "item",
  __eq__: "equal",
  __complex__: "item",
  __float__: "item",
  __floordiv__: "floorDivide",
  __ge__: "greaterEqual",
  __getitem__: "slice",
  __gt__: "greater",
  __index__: "item",
  __int__: "item",
  __invert__: "bitwiseInvert",
  __le__: "lessEqual",
  __lshift__: "bitwiseLeftShift",
  __lt__: "less",
  __matmul__: "matmul",
  __mod__: "remainder",
  __mul__: "mul",
  __ne__: "notEqual",
  __neg__: "neg",
  __or__: "bitwiseOr",
  __pos__: "positive",
  __pow__: "pow",
  __rshift__: "bitwiseRightShift",
  __setitem__: "set",
  __sub__: "sub",
  __truediv__: "div",
  __xor__: "bitwiseXor",
};

const OPERATOR = "a method: JavaScript has no operator overloading";
const JAVASCRIPT = "the JavaScript value";
const INT64_SUMS = "unsigned integers below 64 bits give int64, the standard requires uint64";
const WEAK = "JavaScript numbers become float32 unless a dtype is given";

const REAL_ONLY = "takes no complex numbers";
const ONE_NAN = "all NaN are one value unless `equalNan` is false";

const SIGN_OF_NAN = "ignores the sign bit of NaN";

/** Names that exist but differ from the requirements of the standard. */
export const DIFFERENCES: Readonly<Record<string, string>> = {
  e: JAVASCRIPT,
  inf: JAVASCRIPT,
  nan: JAVASCRIPT,
  newaxis: JAVASCRIPT,
  pi: JAVASCRIPT,
  ...Object.fromEntries(
    Object.keys(RENAMED).filter((name) => /^__(?!array)/.test(name)).map((
      name,
    ) => [name, OPERATOR]),
  ),
  __bool__: "returns the value of a bool tensor; JavaScript objects cannot define a truth value",
  __complex__: "returns `{ re, im }` for complex dtypes",
  __float__: "returns a number for every numeric dtype",
  __index__: "returns a number; beyond ±2^53 a bigint on request",
  __int__: "returns a number; beyond ±2^53 a bigint on request",
  __getitem__: 'a method: index arguments, or one string such as `"2:, ::-1"`',
  __setitem__: "a method: the index in an array, then the value",
  to_device: "no `stream`",
  arange: WEAK,
  asarray: "always copies (`fromBuffer` never does); " + WEAK,
  full: WEAK,
  astype: "always copies; no `device`",
  finfo: "takes the name of a dtype",
  iinfo: "takes the name of a dtype",
  __array_namespace_info__: "one function that returns version, runtime and devices",
  devices: "a field of the result of `info()`",
  matrix_transpose: "a property",
  repeat: "takes a number or an array of numbers, not a tensor",
  reshape: "no `copy`: a view where strides allow it",
  cumulative_sum: INT64_SUMS,
  sum: INT64_SUMS,
  bitwise_right_shift: "a shift of a negative value by the width or more gives 0, not -1",
  copysign: SIGN_OF_NAN,
  floor_divide: "as in NumPy: an infinity divided by a number is NaN, and 1 by -Infinity is -1",
  signbit: SIGN_OF_NAN,
  capabilities: "the names are in camelCase",
  default_dtypes: "the names are in camelCase",
  dtypes: "an array of names, not a dictionary",
  isin: REAL_ONLY,
  linspace: REAL_ONLY,
  round: REAL_ONLY,
  unique_all: `${ONE_NAN}; indices are int32; ${REAL_ONLY}`,
  unique_counts: `${ONE_NAN}; counts are int32; ${REAL_ONLY}`,
  unique_inverse: `${ONE_NAN}; indices are int32; ${REAL_ONLY}`,
  unique_values: `${ONE_NAN}; ${REAL_ONLY}`,
};

const PYTHON_ONLY = "a method that only Python's protocols call";
const NO_DLPACK =
  "DLPack capsules are objects of Python; `withPointer` and `fromBuffer` share memory";

/** Why names are not here. */
export const REASONS: Readonly<Record<string, string>> = {
  __array_namespace__: PYTHON_ONLY,
  __dlpack__: NO_DLPACK,
  __dlpack_device__: NO_DLPACK,
  from_dlpack: NO_DLPACK,
};
