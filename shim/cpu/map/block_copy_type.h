/*
 * Moves blocks of elements of one size.
 *
 * Included by block_copy.c once for each size, with TYPE defined, and for 1 and 2 bytes EIGHT, a
 * vector of 8 elements. No guard.
 */

#define NAME_(name, type) name##_##type
#define NAME_OF(name, type) NAME_(name, type)
#define NAME(name) NAME_OF(name, TYPE)

#if defined(EIGHT)
/* Writes the transpose of 8 by 8 elements: rows of `to` are columns of `from`. Three times row i and
 * row i + 4 are merged, element by element, into rows 2 i and 2 i + 1. */
static inline void NAME(transpose)(char *to, ptrdiff_t to_step, const char *from,
                                   ptrdiff_t from_step) {
  EIGHT r[8], s[8];
  UNROLL for (int i = 0; i < 8; i++) memcpy(&r[i], from + i * from_step, sizeof(EIGHT));
  UNROLL for (int turn = 0; turn < 3; turn++) {
    UNROLL for (int i = 0; i < 4; i++) {
      s[2 * i] = PAIR(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      s[2 * i + 1] = PAIR(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    memcpy(r, s, sizeof r);
  }
  UNROLL for (int i = 0; i < 8; i++) memcpy(to + i * to_step, &r[i], sizeof(EIGHT));
}
#endif

/* Dense rows of so few elements, from columns that are dense and so far apart. */
static void NAME(merge2)(TYPE *restrict o, const TYPE *p, ptrdiff_t apart, ptrdiff_t rows) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < rows; i++, o += 2, p++) {
    o[0] = p[0];
    o[1] = p[apart];
  }
}

static void NAME(merge3)(TYPE *restrict o, const TYPE *p, ptrdiff_t apart, ptrdiff_t rows) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < rows; i++, o += 3, p++) {
    o[0] = p[0];
    o[1] = p[apart];
    o[2] = p[2 * apart];
  }
}

static void NAME(merge4)(TYPE *restrict o, const TYPE *p, ptrdiff_t apart, ptrdiff_t rows) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < rows; i++, o += 4, p++) {
    o[0] = p[0];
    o[1] = p[apart];
    o[2] = p[2 * apart];
    o[3] = p[3 * apart];
  }
}

static void NAME(merge)(piece to, piece from, ptrdiff_t rows, ptrdiff_t columns) {
  TYPE *o = (TYPE *)to.at;
  const TYPE *p = (const TYPE *)from.at;
  const ptrdiff_t apart = from.right / (ptrdiff_t)sizeof(TYPE);
  if (columns == 2) NAME(merge2)(o, p, apart, rows);
  else if (columns == 3) NAME(merge3)(o, p, apart, rows);
  else NAME(merge4)(o, p, apart, rows);
}

/* Loops over elements that nothing is known of, apart: as parts of a longer function they get fewer
 * registers. */
__attribute__((noinline)) static void NAME(step)(piece to, piece from, ptrdiff_t rows,
                                                 ptrdiff_t columns) {
  const ptrdiff_t so = to.right / (ptrdiff_t)sizeof(TYPE);
  const ptrdiff_t sp = from.right / (ptrdiff_t)sizeof(TYPE);
  for (ptrdiff_t i = 0; i < rows; i++, to.at += to.down, from.at += from.down) {
    TYPE *o = (TYPE *)to.at;
    const TYPE *p = (const TYPE *)from.at;
    _Pragma("clang loop unroll_count(8)") for (ptrdiff_t j = 0; j < columns; j++) {
      o[j * so] = p[j * sp];
    }
  }
}

static void NAME(move)(piece to, piece from, ptrdiff_t rows, ptrdiff_t columns) {
  const ptrdiff_t size = sizeof(TYPE), sp = from.right / size;
  if (to.right != size || sp < -1 || sp == 1 || sp > 4) {
    NAME(step)(to, from, rows, columns);
    return;
  }
  for (ptrdiff_t i = 0; i < rows; i++) {
    TYPE *o = (TYPE *)(to.at + i * to.down);
    const TYPE *p = (const TYPE *)(from.at + i * from.down);
    if (sp == -1) {
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) o[j] = p[-j];
    } else if (sp == 2) {
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) o[j] = p[2 * j];
    } else if (sp == 3) {
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) o[j] = p[3 * j];
    } else if (sp == 4) {
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) o[j] = p[4 * j];
    } else {
      const TYPE value = *p;
      RM_ANY_ORDER for (ptrdiff_t j = 0; j < columns; j++) o[j] = value;
    }
  }
}

#undef NAME_
#undef NAME_OF
#undef NAME
#undef TYPE
#undef EIGHT
