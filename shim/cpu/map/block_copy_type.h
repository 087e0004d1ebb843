/*
 * Copies blocks of elements of one size.
 *
 * Included by block_copy.c once per size, with TYPE and, for 1 and 2 bytes, VECTOR_OF_8 (a vector
 * of 8 elements). It has no include guard.
 */

#define NAME(name) RM_SUFFIXED(name, TYPE)

#if defined(VECTOR_OF_8)
/* Writes the transpose of 8 x 8 elements: rows of `to` are columns of `from`. Interleaves rows i
 * and i + 4 into rows 2 i and 2 i + 1, three times. */
static inline void NAME(transpose)(char *to, ptrdiff_t to_step, const char *from,
                                   ptrdiff_t from_step) {
  VECTOR_OF_8 r[8], s[8];
  UNROLL for (int i = 0; i < 8; i++) memcpy(&r[i], from + i * from_step, sizeof(VECTOR_OF_8));
  UNROLL for (int turn = 0; turn < 3; turn++) {
    UNROLL for (int i = 0; i < 4; i++) {
      s[2 * i] = SHUFFLE(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      s[2 * i + 1] = SHUFFLE(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    memcpy(r, s, sizeof r);
  }
  UNROLL for (int i = 0; i < 8; i++) memcpy(to + i * to_step, &r[i], sizeof(VECTOR_OF_8));
}
#endif

/* Contiguous rows of few elements, from columns that are contiguous and `step` elements apart. */
static void NAME(interleave2)(TYPE *restrict o, const TYPE *p, ptrdiff_t step, ptrdiff_t rows) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < rows; i++, o += 2, p++) {
    o[0] = p[0];
    o[1] = p[step];
  }
}

static void NAME(interleave3)(TYPE *restrict o, const TYPE *p, ptrdiff_t step, ptrdiff_t rows) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < rows; i++, o += 3, p++) {
    o[0] = p[0];
    o[1] = p[step];
    o[2] = p[2 * step];
  }
}

static void NAME(interleave4)(TYPE *restrict o, const TYPE *p, ptrdiff_t step, ptrdiff_t rows) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < rows; i++, o += 4, p++) {
    o[0] = p[0];
    o[1] = p[step];
    o[2] = p[2 * step];
    o[3] = p[3 * step];
  }
}

static void NAME(interleave)(block to, block from, ptrdiff_t rows, ptrdiff_t columns) {
  TYPE *o = (TYPE *)to.data;
  const TYPE *p = (const TYPE *)from.data;
  const ptrdiff_t step = from.column_stride / (ptrdiff_t)sizeof(TYPE);
  if (columns == 2) NAME(interleave2)(o, p, step, rows);
  else if (columns == 3) NAME(interleave3)(o, p, step, rows);
  else NAME(interleave4)(o, p, step, rows);
}

/* Loops with arbitrary strides are separate functions: as parts of a longer one they get fewer
 * registers. */
__attribute__((noinline)) static void NAME(copy_strided)(block to, block from, ptrdiff_t rows,
                                                         ptrdiff_t columns) {
  const ptrdiff_t to_stride = to.column_stride / (ptrdiff_t)sizeof(TYPE);
  const ptrdiff_t from_stride = from.column_stride / (ptrdiff_t)sizeof(TYPE);
  for (ptrdiff_t i = 0; i < rows; i++, to.data += to.row_stride, from.data += from.row_stride) {
    TYPE *o = (TYPE *)to.data;
    const TYPE *p = (const TYPE *)from.data;
    _Pragma("clang loop unroll_count(8)") for (ptrdiff_t j = 0; j < columns; j++) {
      o[j * to_stride] = p[j * from_stride];
    }
  }
}

static void NAME(copy_rows)(block to, block from, ptrdiff_t rows, ptrdiff_t columns) {
  const ptrdiff_t size = sizeof(TYPE), from_stride = from.column_stride / size;
  if (to.column_stride != size || from_stride < -1 || from_stride == 1 || from_stride > 4) {
    NAME(copy_strided)(to, from, rows, columns);
    return;
  }
  for (ptrdiff_t i = 0; i < rows; i++) {
    TYPE *o = (TYPE *)(to.data + i * to.row_stride);
    const TYPE *p = (const TYPE *)(from.data + i * from.row_stride);
    if (from_stride == -1) {
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) o[j] = p[-j];
    } else if (from_stride == 2) {
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) o[j] = p[2 * j];
    } else if (from_stride == 3) {
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) o[j] = p[3 * j];
    } else if (from_stride == 4) {
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) o[j] = p[4 * j];
    } else {
      const TYPE value = *p;
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) o[j] = value;
    }
  }
}

#undef NAME
#undef TYPE
#undef VECTOR_OF_8
