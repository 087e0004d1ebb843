/*
 * Elements of one size, and their keys.
 *
 * Included by sort.c once for each size, with ELEMENT, an unsigned integer of their bits, and KEY, one
 * of 32 bits or more. No guard.
 *
 * Integers have no keep_sign, so that of them nothing is NaN; in floats it is all bits but the sign,
 * which turn round where that is set.
 */

#define NAME_(name, type) name##_##type
#define NAME_OF(name, type) NAME_(name, type)
#define NAME(name) NAME_OF(name, ELEMENT)

static void NAME(load)(const job *j, const void *values, ptrdiff_t n, KEY *keys) {
  const ELEMENT flip = (ELEMENT)j->flip, keep_sign = (ELEMENT)j->keep_sign, zero = (ELEMENT)j->negative_zero;
  const ELEMENT infinity = (ELEMENT)j->infinity;
  const ELEMENT *x = values;
  for (ptrdiff_t i = 0; i < n; i++) {
    const ELEMENT bits = x[i] == zero ? 0 : x[i];
    const ELEMENT sign = (ELEMENT)(0 - (bits >> (8 * sizeof(ELEMENT) - 1)));
    const ELEMENT key = (ELEMENT)(bits ^ flip ^ (sign & keep_sign));
    keys[i] = (ELEMENT)(bits & keep_sign) > infinity ? (ELEMENT)-1 : key;
  }
}

/* Only of keys that hold all that the elements do: see is_special_. */
static void NAME(store)(const job *j, const KEY *keys, ptrdiff_t n, void *values) {
  const ELEMENT flip = (ELEMENT)j->flip, keep_sign = (ELEMENT)j->keep_sign;
  ELEMENT *x = values;
  for (ptrdiff_t i = 0; i < n; i++) {
    const ELEMENT bits = (ELEMENT)((ELEMENT)keys[i] ^ flip);
    const ELEMENT sign = (ELEMENT)(0 - (bits >> (8 * sizeof(ELEMENT) - 1)));
    x[i] = (ELEMENT)(bits ^ (sign & keep_sign));
  }
}

/* Whether floats hold a NaN or -0, of which keys do not tell one from another. */
static bool NAME(is_special)(const job *j, const void *values, ptrdiff_t n) {
  const ELEMENT keep_sign = (ELEMENT)j->keep_sign, zero = (ELEMENT)j->negative_zero;
  const ELEMENT infinity = (ELEMENT)j->infinity;
  const ELEMENT *x = values;
  ELEMENT found = 0;
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) {
    found |= ((ELEMENT)(x[i] & keep_sign) > infinity) | (x[i] == zero);
  }
  return found != 0;
}

static void NAME(permute)(const ELEMENT *from, const uint64_t *order, ptrdiff_t n, ELEMENT *to) {
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) to[i] = from[(uint32_t)order[i]];
}

static void NAME(place)(const ELEMENT *from, const KEY *ranks, ptrdiff_t n, ELEMENT *to) {
  RM_ROLLED for (ptrdiff_t i = 0; i < n; i++) to[ranks[i]] = from[i];
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef ELEMENT
#undef KEY
