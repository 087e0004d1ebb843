/*
 * Packs panels of elements of one size.
 *
 * Included by gemm_kernels.c once per size, with TYPE, SUFFIX and WIDTH (the columns of a panel of
 * b). It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, SUFFIX)

typedef TYPE NAME(four) __attribute__((ext_vector_type(4), aligned(sizeof(TYPE)), may_alias));

/* Packs a panel: to[p * width + i] = from[i * line_stride + p * stride] for every line i (a row of
 * a or a column of b) and p < k. Missing lines are 0. */
static RM_ALWAYS_INLINE void NAME(pack)(TYPE *restrict to, const TYPE *restrict from,
                                        ptrdiff_t lines, ptrdiff_t k, ptrdiff_t line_stride,
                                        ptrdiff_t stride, const int width) {
  if (line_stride == 1 && lines == width) {
    for (ptrdiff_t p = 0; p < k; p++, to += width, from += stride) {
      memcpy(to, from, sizeof(TYPE) * width);
    }
    return;
  }
  if (line_stride == 1) {
    for (ptrdiff_t p = 0; p < k; p++, to += width, from += stride) {
      memset(to, 0, sizeof(TYPE) * width);
      memcpy(to, from, sizeof(TYPE) * (size_t)lines);
    }
    return;
  }
  if (lines < width) memset(to, 0, sizeof(TYPE) * (size_t)(k * width));
  if (stride == 1 && k > 16) {
    /* Packs 16 at a time, so that the destination stays in the cache until its rows are
     * complete. */
    for (ptrdiff_t p = 0; p < k; p += 16) {
      NAME(pack)(to + p * width, from + p, lines, rm_min(16, k - p), line_stride, 1, width);
    }
    return;
  }
  ptrdiff_t i = 0;
  for (; stride == 1 && i + 4 <= lines; i += 4) {
    const TYPE *a = from + i * line_stride, *b = a + line_stride, *c = b + line_stride;
    const TYPE *d = c + line_stride;
    TYPE *at = to + i;
    ptrdiff_t p = 0;
    for (; p + 4 <= k; p += 4, at += 4 * width) {
      const NAME(four) x = *(const NAME(four) *)(a + p), y = *(const NAME(four) *)(b + p),
                       z = *(const NAME(four) *)(c + p);
      const NAME(four) w = *(const NAME(four) *)(d + p);
      const NAME(four) xz = __builtin_shufflevector(x, z, 0, 4, 1, 5);
      const NAME(four) yw = __builtin_shufflevector(y, w, 0, 4, 1, 5);
      const NAME(four) xz2 = __builtin_shufflevector(x, z, 2, 6, 3, 7);
      const NAME(four) yw2 = __builtin_shufflevector(y, w, 2, 6, 3, 7);
      *(NAME(four) *)at = __builtin_shufflevector(xz, yw, 0, 4, 1, 5);
      *(NAME(four) *)(at + width) = __builtin_shufflevector(xz, yw, 2, 6, 3, 7);
      *(NAME(four) *)(at + 2 * width) = __builtin_shufflevector(xz2, yw2, 0, 4, 1, 5);
      *(NAME(four) *)(at + 3 * width) = __builtin_shufflevector(xz2, yw2, 2, 6, 3, 7);
    }
    for (; p < k; p++, at += width) at[0] = a[p], at[1] = b[p], at[2] = c[p], at[3] = d[p];
  }
  for (; i < lines; i++) {
    for (ptrdiff_t p = 0; p < k; p++) to[p * width + i] = from[i * line_stride + p * stride];
  }
}

static void NAME(pack_a)(void *to, const void *from, ptrdiff_t lines, ptrdiff_t k,
                         ptrdiff_t line_stride, ptrdiff_t stride) {
  NAME(pack)(to, from, lines, k, line_stride, stride, MR);
}

static void NAME(pack_b)(void *to, const void *from, ptrdiff_t lines, ptrdiff_t k,
                         ptrdiff_t line_stride, ptrdiff_t stride) {
  NAME(pack)(to, from, lines, k, line_stride, stride, WIDTH);
}

#undef NAME
#undef TYPE
#undef SUFFIX
#undef WIDTH
