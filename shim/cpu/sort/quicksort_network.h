/*
 * Sorts up to ROWS vectors of keys in registers.
 *
 * Included by quicksort.c once for each size of keys, with KEY and LANES. It has no include guard.
 *
 * Key i is in row i % rows and lane i / rows while the network runs: each lane is a run that the
 * first comparisons sort, and then neighboring runs are merged. The last step makes rows of them.
 */

#define NAME(name) RM_SUFFIXED(name, KEY)

typedef KEY NAME(lanes) __attribute__((vector_size(VECTOR_BYTES)));
#define VECTOR NAME(lanes)

#define OTHER_LANE(lane, bits) ((lane) ^ (bits))
#define UPPER_SECOND(lane, bit) ((lane) & (bit) ? (lane) + LANES : (lane))
#define LOW_HALVES(lane, unused) (((lane) & 1 ? LANES : 0) + (lane) / 2)
#define HIGH_HALVES(lane, unused) (((lane) & 1 ? LANES : 0) + ((lane) + LANES) / 2)

/* Swaps lanes whose numbers differ in these bits. */
#define SWAPPED(x, bits) __builtin_shufflevector(x, x, EACH_LANE(OTHER_LANE, bits))
/* The lanes of a where the bit of their number is 0, else those of b. */
#define BLENDED(a, b, bit) __builtin_shufflevector(a, b, EACH_LANE(UPPER_SECOND, bit))

#define MIN(a, b) __builtin_elementwise_min(a, b)
#define MAX(a, b) __builtin_elementwise_max(a, b)

/* Sorts each pair of lanes whose numbers differ in `bits`, of which `bit` is the highest. */
#define SORT_LANES(x, bits, bit)                                     \
  do {                                                               \
    const VECTOR other = SWAPPED(x, bits);                           \
    x = BLENDED(MIN(x, other), MAX(x, other), bit);                  \
  } while (0)

/* Sorts the keys of row a with those of row c whose lanes differ in all bits. */
#define SORT_MIRRORED(a, c, bits, bit)                               \
  do {                                                               \
    const VECTOR other = SWAPPED(c, bits);                           \
    const VECTOR low = MIN(a, other), high = MAX(a, other);          \
    const VECTOR mirrored = BLENDED(high, low, bit);                 \
    a = BLENDED(low, high, bit);                                     \
    c = SWAPPED(mirrored, bits);                                     \
  } while (0)

#define CE(i, j)                                                     \
  do {                                                               \
    const VECTOR low = MIN(x[i], x[j]);                              \
    x[j] = MAX(x[i], x[j]);                                          \
    x[i] = low;                                                      \
  } while (0);

/* Sorts each lane of the rows by the shortest known networks. */
static RM_ALWAYS_INLINE void NAME(sort_rows)(VECTOR *x, const int rows) {
  if (rows == 2) { CE(0, 1) }
  if (rows == 4) { CE(0, 1) CE(2, 3) CE(0, 2) CE(1, 3) CE(1, 2) }
  if (rows == 8) {
    CE(0, 2) CE(1, 3) CE(4, 6) CE(5, 7) CE(0, 4) CE(1, 5) CE(2, 6) CE(3, 7) CE(0, 1) CE(2, 3)
    CE(4, 5) CE(6, 7) CE(2, 4) CE(3, 5) CE(1, 4) CE(3, 6) CE(1, 2) CE(3, 4) CE(5, 6)
  }
  if (rows == 16) {
    CE(0, 13) CE(1, 12) CE(2, 15) CE(3, 14) CE(4, 8) CE(5, 6) CE(7, 11) CE(9, 10)
    CE(0, 5) CE(1, 7) CE(2, 9) CE(3, 4) CE(6, 13) CE(8, 14) CE(10, 15) CE(11, 12)
    CE(0, 1) CE(2, 3) CE(4, 5) CE(6, 8) CE(7, 9) CE(10, 11) CE(12, 13) CE(14, 15)
    CE(0, 2) CE(1, 3) CE(4, 10) CE(5, 11) CE(6, 7) CE(8, 9) CE(12, 14) CE(13, 15)
    CE(1, 2) CE(3, 12) CE(4, 6) CE(5, 7) CE(8, 10) CE(9, 11) CE(13, 14)
    CE(1, 4) CE(2, 6) CE(5, 8) CE(7, 10) CE(9, 13) CE(11, 14)
    CE(2, 4) CE(3, 6) CE(9, 12) CE(11, 13)
    CE(3, 5) CE(6, 8) CE(7, 9) CE(10, 12)
    CE(3, 4) CE(5, 6) CE(7, 8) CE(9, 10) CE(11, 12)
    CE(6, 7) CE(8, 9)
  }
}

/* Finishes the merge of runs of which pairs are mirrored: the keys of each row, then the rows. */
#define MERGE_LANES(bits)                                                         \
  do {                                                                            \
    FULLY_UNROLLED for (int r = 0; r < rows; r++) SORT_LANES(x[r], bits, bits);   \
  } while (0)

static RM_ALWAYS_INLINE void NAME(merge_rows)(VECTOR *x, const int rows) {
  FULLY_UNROLLED for (int d = rows / 2; d > 0; d /= 2) {
    FULLY_UNROLLED for (int r = 0; r < rows; r++) {
      if ((r & d) == 0) CE(r, r + d)
    }
  }
}

#define MIRROR(bits, bit)                                                              \
  do {                                                                                 \
    if (rows == 1) SORT_LANES(x[0], bits, bit);                                        \
    FULLY_UNROLLED for (int r = 0; r < rows / 2; r++) {                                \
      SORT_MIRRORED(x[r], x[rows - 1 - r], bits, bit);                                 \
    }                                                                                  \
  } while (0)

/* Rows of consecutive keys. */
static RM_ALWAYS_INLINE void NAME(transpose)(VECTOR *x, const int rows) {
  FULLY_UNROLLED for (int step = 1; step < rows; step *= 2) {
    VECTOR y[ROWS];
    FULLY_UNROLLED for (int r = 0; r < rows / 2; r++) {
      const VECTOR a = x[r], b = x[r + rows / 2];
      y[2 * r] = __builtin_shufflevector(a, b, EACH_LANE(LOW_HALVES, 0));
      y[2 * r + 1] = __builtin_shufflevector(a, b, EACH_LANE(HIGH_HALVES, 0));
    }
    FULLY_UNROLLED for (int r = 0; r < rows; r++) x[r] = y[r];
  }
}

static RM_ALWAYS_INLINE void NAME(network)(KEY *keys, const int rows) {
  VECTOR x[ROWS];
  FULLY_UNROLLED for (int r = 0; r < rows; r++) memcpy(&x[r], keys + r * LANES, sizeof *x);
  NAME(sort_rows)(x, rows);
  MIRROR(1, 1);
  NAME(merge_rows)(x, rows);
#if LANES > 2
  MIRROR(3, 2);
  MERGE_LANES(1);
  NAME(merge_rows)(x, rows);
#endif
#if LANES > 4
  MIRROR(7, 4);
  MERGE_LANES(2);
  MERGE_LANES(1);
  NAME(merge_rows)(x, rows);
#endif
#if LANES > 8
  MIRROR(15, 8);
  MERGE_LANES(4);
  MERGE_LANES(2);
  MERGE_LANES(1);
  NAME(merge_rows)(x, rows);
#endif
  NAME(transpose)(x, rows);
  FULLY_UNROLLED for (int r = 0; r < rows; r++) memcpy(keys + r * LANES, &x[r], sizeof *x);
}

/* Not inlined: each is used in several places. */
__attribute__((noinline)) static void NAME(network_1)(KEY *keys) { NAME(network)(keys, 1); }
__attribute__((noinline)) static void NAME(network_2)(KEY *keys) { NAME(network)(keys, 2); }
__attribute__((noinline)) static void NAME(network_4)(KEY *keys) { NAME(network)(keys, 4); }
__attribute__((noinline)) static void NAME(network_8)(KEY *keys) { NAME(network)(keys, 8); }
__attribute__((noinline)) static void NAME(network_16)(KEY *keys) { NAME(network)(keys, 16); }

/* Sorts up to ROWS * LANES keys: whole vectors, filled with the greatest key. */
static void NAME(sort_small)(KEY *keys, ptrdiff_t n) {
  if (n < 2) return;
  KEY buffer[ROWS * LANES];
  int rows = 1;
  while (rows * LANES < n) rows *= 2;
  memcpy(buffer, keys, (size_t)n * sizeof *keys);
  for (ptrdiff_t i = n; i < rows * LANES; i++) buffer[i] = KEY_MAX;
  if (rows == 1) NAME(network_1)(buffer);
  else if (rows == 2) NAME(network_2)(buffer);
  else if (rows == 4) NAME(network_4)(buffer);
  else if (rows == 8) NAME(network_8)(buffer);
  else NAME(network_16)(buffer);
  memcpy(keys, buffer, (size_t)n * sizeof *keys);
}

#undef VECTOR
#undef OTHER_LANE
#undef UPPER_SECOND
#undef LOW_HALVES
#undef HIGH_HALVES
#undef SWAPPED
#undef BLENDED
#undef MIN
#undef MAX
#undef SORT_LANES
#undef SORT_MIRRORED
#undef CE
#undef MERGE_LANES
#undef MIRROR
#undef NAME
