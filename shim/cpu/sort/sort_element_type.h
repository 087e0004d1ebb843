/*
 * Elements of one size and their keys.
 *
 * Included by sort.c once per size, with ELEMENT (an unsigned integer of that size) and KEY (an
 * unsigned integer of at least 32 bits). It has no include guard.
 *
 * Keys are unsigned, or signed if the bias is their highest bit. The magnitude_mask is 0 for integers, so that none is NaN, and all bits but the sign for floats,
 * which are flipped if the sign is set.
 */

#define NAME(name) RM_SUFFIXED(name, ELEMENT)

static void NAME(load)(const sort_context *ctx, const void *values, ptrdiff_t n, KEY *keys) {
  const ELEMENT flip = (ELEMENT)ctx->flip, magnitude_mask = (ELEMENT)ctx->magnitude_mask,
                zero = (ELEMENT)ctx->negative_zero;
  const ELEMENT infinity = (ELEMENT)ctx->infinity;
  const KEY bias = (KEY)ctx->bias;
  const ELEMENT *x = values;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    const ELEMENT bits = x[i] == zero ? 0 : x[i];
    const ELEMENT sign = (ELEMENT)(0 - (bits >> (8 * sizeof(ELEMENT) - 1)));
    const ELEMENT key = (ELEMENT)(bits ^ flip ^ (sign & magnitude_mask));
    keys[i] = ((ELEMENT)(bits & magnitude_mask) > infinity ? (ELEMENT)-1 : key) ^ bias;
  }
}

/* Only for keys that are unambiguous: see NAME(has_ambiguous_keys). */
static void NAME(store)(const sort_context *ctx, const KEY *keys, ptrdiff_t n, void *values) {
  const ELEMENT flip = (ELEMENT)ctx->flip, magnitude_mask = (ELEMENT)ctx->magnitude_mask;
  const KEY bias = (KEY)ctx->bias;
  ELEMENT *x = values;
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    const ELEMENT bits = (ELEMENT)((ELEMENT)(keys[i] ^ bias) ^ flip);
    const ELEMENT sign = (ELEMENT)(0 - (bits >> (8 * sizeof(ELEMENT) - 1)));
    x[i] = (ELEMENT)(bits ^ (sign & magnitude_mask));
  }
}

/* Whether floats contain NaN or -0, whose keys are not unique. */
static bool NAME(has_ambiguous_keys)(const sort_context *ctx, const void *values, ptrdiff_t n) {
  const ELEMENT magnitude_mask = (ELEMENT)ctx->magnitude_mask, zero = (ELEMENT)ctx->negative_zero;
  const ELEMENT infinity = (ELEMENT)ctx->infinity;
  const ELEMENT *x = values;
  ELEMENT found = 0;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
    found |= ((ELEMENT)(x[i] & magnitude_mask) > infinity) | (x[i] == zero);
  }
  return found != 0;
}

/* Takes the NaNs out of a run, whose other elements move together, and the signs of its zeros.
 * before_zeros counts the elements that go before them. Returns how many elements are left. */
static inline ptrdiff_t NAME(take_ambiguous)(const sort_context *ctx, ELEMENT *x, ptrdiff_t n,
                                      ELEMENT *nans, uint8_t *signs, ptrdiff_t *zeros,
                                      ptrdiff_t *before_zeros) {
  const ELEMENT magnitude_mask = (ELEMENT)ctx->magnitude_mask, zero = (ELEMENT)ctx->negative_zero;
  const ELEMENT infinity = (ELEMENT)ctx->infinity;
  const bool descending = (ELEMENT)ctx->flip != zero;
  ptrdiff_t left = 0, taken = 0, before = 0;
  *zeros = 0;
  RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) {
    const ELEMENT bits = x[i], magnitude = (ELEMENT)(bits & magnitude_mask);
    const bool is_nan = magnitude > infinity, is_zero = magnitude == 0;
    x[left] = bits;
    nans[taken] = bits;
    signs[*zeros] = (bits & zero) != 0;
    left += !is_nan;
    taken += is_nan;
    *zeros += is_zero;
    before += !is_nan && !is_zero && ((bits & zero) == 0) == descending;
  }
  *before_zeros = before;
  return left;
}

/* Puts back what NAME(take_ambiguous) has taken, once the others are in order. */
static inline void NAME(put_ambiguous)(const sort_context *ctx, ELEMENT *x, ptrdiff_t n, ptrdiff_t left,
                                const ELEMENT *nans, const uint8_t *signs, ptrdiff_t zeros,
                                ptrdiff_t before_zeros) {
  const ELEMENT zero = (ELEMENT)ctx->negative_zero;
  RM_ROLLED for (ptrdiff_t i = 0; i < zeros; i++) x[before_zeros + i] = signs[i] ? zero : 0;
  memcpy(x + left, nans, (size_t)(n - left) * sizeof *x);
}

static void NAME(permute)(const ELEMENT *from, const uint32_t *order, ptrdiff_t n, ELEMENT *to) {
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) to[i] = from[order[i]];
}

static void NAME(scatter)(const ELEMENT *from, const KEY *ranks, ptrdiff_t n, ELEMENT *to) {
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) to[ranks[i]] = from[i];
}

#undef NAME
#undef ELEMENT
#undef KEY
