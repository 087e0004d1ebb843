/*
 * Part of driver.c: elementwise ops, reductions, softmax and norms.
 */

/* ---- maps ------------------------------------------------------------------------------------ */

#define RM_MAP_OP(name, operands, condition, flag, ...) \
  [RM_OP_##name] = {operands, condition, flag},
static const struct {
  int operands;
  bool condition, flag;
} rows[RM_OP_COUNT] = {
#include "ops.def"
};
#undef RM_MAP_OP

/* Runs an op. dtypes are the compute dtype and those of the output and the inputs. */
static void run_map(layout *p, int row, const int *dtypes, enum content content, int threads) {
  snprintf(about, sizeof about, "map %d of dtypes %d %d %d %d %d, [%td, %td, %td] of rank %d", row,
           dtypes[0], dtypes[1], dtypes[2], dtypes[3], dtypes[4], p->size[0], p->size[1],
           p->size[2], p->rank);
  buffer b[RM_MAX_OPERANDS] = {{0}};
  int own[RM_MAX_OPERANDS];
  for (int k = 0; k < RM_MAX_OPERANDS; k++) {
    own[k] = k < p->operands ? dtypes[k + 1] : RM_NONE;
    if (k < p->operands) b[k] = make(own[k], p->length[k], content);
  }
  const int32_t packed = pack(own[0], own[1], own[2], own[3]);
  double *plan = write_plan(p);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const bool done =
      is_served(rm_run(row, packed, dtypes[0], plan, b[0].data, b[1].data, b[2].data, b[3].data));
  if (done && threads > 1) {
    /* The bits do not depend on the number of threads. */
    unsigned char *first = malloc(b[0].bytes);
    if (first == NULL) fail("no memory");
    memcpy(first, b[0].data, b[0].bytes);
    memcpy(b[0].data, b[0].before, b[0].bytes);
    rm_configure(RM_CONFIGURE_THREADS, 1);
    rm_run(row, packed, dtypes[0], plan, b[0].data, b[1].data, b[2].data, b[3].data);
    if (memcmp(first, b[0].data, b[0].bytes) != 0) fail("the number of threads shows");
    free(first);
    compared++;
  }
  if (done) check_margins(p, &b[0]);
  for (int k = 1; k < p->operands; k++) check_unchanged(&b[k]);
  if (done && row == RM_OP_add && content == SMALL) {
    ptrdiff_t index[MAX_AXES] = {0};
    do {
      const double sum = get(dtypes[2], b[1].data, place(p, 1, index)) +
                         get(dtypes[3], b[2].data, place(p, 2, index));
      if (get(dtypes[1], b[0].data, place(p, 0, index)) != wrap_integer(dtypes[1], (int64_t)sum)) {
        fail("a sum of two is wrong");
      }
    } while (next(p, p->rank, index));
    compared++;
  }
  for (int k = 0; k < p->operands; k++) drop(&b[k]);
}

static void shape(layout *p, int rank, ptrdiff_t x, ptrdiff_t y, ptrdiff_t z, int operands) {
  *p = (layout){.rank = rank, .operands = operands, .size = {x, y, z}};
}

/* Every op in every dtype, with a shape and layouts that differ from call to call. */
static void try_maps(ptrdiff_t n, bool all_contiguous, int threads) {
  for (int row = 0; row < RM_OP_COUNT; row++) {
    if (rows[row].operands == 0) continue;
    for (int dtype = 0; dtype < RM_DTYPE_COUNT; dtype++) {
      if (threads > 1 && below(LARGE_CASE_SHARE) > 0) continue;
      layout p;
      const int rank = all_contiguous ? 1 : 1 + (int)below(3);
      const ptrdiff_t other = 1 + below(5), third = 1 + below(3);
      if (rank == 1) shape(&p, 1, n, 1, 1, rows[row].operands + 1);
      else if (rank == 2) shape(&p, 2, below(2) ? other : n, n, 1, rows[row].operands + 1);
      else shape(&p, 3, third, n, other, rows[row].operands + 1);
      if (rank == 2 && p.size[0] == n && n > 70) p.size[0] = 17;
      int dtypes[5] = {dtype, rows[row].flag ? RM_BOOL : dtype, dtype, dtype, dtype};
      if (rows[row].condition) dtypes[2] = RM_BOOL;
      /* Some cases cast inputs and outputs. */
      if (!all_contiguous && below(4) == 0) dtypes[1] = (int)below(RM_DTYPE_COUNT);
      if (!all_contiguous && below(4) == 0) dtypes[p.operands] = (int)below(RM_DTYPE_COUNT);
      for (int k = 0; k < p.operands; k++) {
        lay_out(&p, k,
                all_contiguous ? CONTIGUOUS : (enum kind)below(k == 0 ? OUTPUT_KINDS : KINDS),
                p.rank);
      }
      run_map(&p, row, dtypes, ANY_BITS, threads);
    }
  }
  for (int dtype = RM_INT8; dtype < RM_DTYPE_COUNT; dtype++) {
    if (is_half(dtype)) continue;
    const int dtypes[5] = {dtype, dtype, dtype, dtype, RM_NONE};
    for (int kind = 0; kind < KINDS; kind++) {
      layout p;
      shape(&p, 2, n > 70 ? 3 : n, n, 1, 3);
      lay_out(&p, 0, (enum kind)(kind % OUTPUT_KINDS), 2);
      lay_out(&p, 1, (enum kind)kind, 2);
      lay_out(&p, 2, (enum kind)((kind * 3 + 1) % KINDS), 2);
      run_map(&p, RM_OP_add, dtypes, SMALL, 1);
    }
  }
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* Checks sums, cumulative sums and argmax of small integers. */
static void check_reduction(int row, const layout *p, int outer_axes, const buffer *out,
                            const buffer *a) {
  if ((row != RM_OP_sum && row != RM_OP_cumulativeSum && row != RM_OP_argmax) ||
      is_half(a->dtype) || is_half(out->dtype) || out->dtype == RM_BOOL) {
    return;
  }
  ptrdiff_t index[MAX_AXES] = {0}, walked = 0, count = 1;
  for (int i = outer_axes; i < p->rank; i++) count *= p->size[i];
  double sum = 0, most = 0;
  ptrdiff_t best = 0;
  do {
    const double x = get(a->dtype, a->data, place(p, 1, index));
    const ptrdiff_t at = walked++ % count;
    if (at == 0) sum = 0;
    sum += x;
    if (at == 0 || x > most) {
      most = x;
      best = at;
    }
    if (row != RM_OP_cumulativeSum && at < count - 1) continue;
    const double found = get(out->dtype, out->data, place(p, 0, index));
    const double expected = row == RM_OP_argmax ? (double)best
                                                : wrap_integer(out->dtype, (int64_t)sum);
    if (found != expected) fail("a fold is wrong");
  } while (next(p, p->rank, index));
  compared++;
}

static void run_reduction(layout *p, int row, int outer_axes, int to, int from, int second,
                          enum content content, int threads) {
  snprintf(about, sizeof about, "fold %d of dtype %d to %d, [%td, %td, %td] of rank %d, %d kept",
           row, from, to, p->size[0], p->size[1], p->size[2], p->rank, outer_axes);
  buffer out = make(to, p->length[0], ANY_BITS), a = make(from, p->length[1], content), b = {0};
  if (second != RM_NONE) b = make(second, p->length[2], content);
  const int32_t dtypes = pack(to, from, second, RM_NONE);
  double *plan = write_plan(p);
  plan[RM_PLAN_KEPT] = outer_axes;
  rm_configure(RM_CONFIGURE_THREADS, threads);
  expect_normal_operands();
  const bool done = is_served(rm_run(row, dtypes, to, plan, out.data, a.data, b.data, NULL));
  if (content == SMALL && (from == RM_FLOAT32 || from == RM_FLOAT64)) check_normal_operands();
  if (done) {
    check_margins(p, &out);
    if (content == SMALL) check_reduction(row, p, outer_axes, &out, &a);
    if (threads > 1) {
      unsigned char *first = malloc(out.bytes);
      if (first == NULL) fail("no memory");
      memcpy(first, out.data, out.bytes);
      memcpy(out.data, out.before, out.bytes);
      rm_configure(RM_CONFIGURE_THREADS, 1);
      rm_run(row, dtypes, to, plan, out.data, a.data, b.data, NULL);
      if (memcmp(first, out.data, out.bytes) != 0) fail("the number of threads shows");
      free(first);
      compared++;
    }
  }
  check_unchanged(&a);
  check_unchanged(&b);
  drop(&out);
  drop(&a);
  drop(&b);
}

/* Every reduction of every dtype to every valid output dtype. */
static void try_reductions(ptrdiff_t n, bool all_contiguous, int threads) {
  static const int wide[] = {RM_BOOL, RM_INT32, RM_INT64, RM_UINT64, RM_FLOAT32, RM_FLOAT64};
  for (int row = RM_OP_sum; row < RM_OP_COUNT; row++) {
    const bool scan = row >= RM_OP_cumulativeSum, place_of = row >= RM_OP_argmax && !scan;
    const bool paired = row == RM_OP_var || row == RM_OP_std || row == RM_OP_logSumExp;
    for (int from = 0; from < RM_DTYPE_COUNT; from++) {
      for (int i = -1; i < (int)(sizeof wide / sizeof *wide); i++) {
        const int to = i < 0 ? from : wide[i];
        if (i >= 0 && to == from) continue;
        if (threads > 1 && n > 2000 && below(LARGE_CASE_SHARE) > 0) continue;
        if (place_of && to != RM_INT32) continue;
        layout p;
        const int rank = all_contiguous ? 1 + (int)below(2) : (int)below(4);
        const ptrdiff_t x = 1 + below(4), y = 1 + below(20);
        if (rank == 1) shape(&p, 1, n, 1, 1, 2);
        else if (rank == 2) shape(&p, 2, below(2) ? n : y, below(2) && n < 70 ? n : y, 1, 2);
        else shape(&p, rank, x, y, n < 70 ? n : 70, 2);
        const int outer_axes = scan ? (rank == 0 ? 0 : rank - 1) : (int)below(rank + 1);
        lay_out(&p, 0, all_contiguous ? CONTIGUOUS : (enum kind)below(OUTPUT_KINDS),
                scan ? rank : outer_axes);
        lay_out(&p, 1, all_contiguous ? CONTIGUOUS : (enum kind)below(KINDS), rank);
        int second = RM_NONE;
        if (paired) {
          p.operands = 3;
          second = from == RM_FLOAT32 || is_half(from) ? RM_FLOAT32 : RM_FLOAT64;
          lay_out(&p, 2, (enum kind)below(KINDS), outer_axes);
        }
        run_reduction(&p, row, outer_axes, to, from, second, below(2) ? SMALL : ANY_BITS, threads);
      }
    }
  }
}

/* ---- softmax and norms ----------------------------------------------------------------------- */

enum { SOFTMAX, LOG_SOFTMAX, LAYER_NORM, RMS_NORM, ROW_KERNELS };

/* Checks the sum of one row, or that it is NaN if it contains NaN. */
static void check_softmax_norm_row(int kind, int dtype, const void *out, ptrdiff_t at,
                                   ptrdiff_t columns, bool scaled) {
  double sum = 0, square = 0;
  for (ptrdiff_t i = 0; i < columns; i++) {
    double x = get(dtype, out, at + i);
    if (scaled) x = (x - 3) / 2;
    sum += kind == LOG_SOFTMAX ? exp(x) : x;
    square += x * x / (double)columns;
  }
  if (isnan(sum)) return;
  if (kind < LAYER_NORM && fabs(sum - 1) > 1e-4) fail("a row does not add up to 1");
  if (kind < LAYER_NORM) return;
  if (kind == LAYER_NORM && fabs(sum) > 1e-4 * (double)columns) fail("a row has a mean");
  /* Rows of a single value, and the epsilon of the others. */
  if (square > 1e-6 && fabs(square - 1) > 0.03) fail("a row has another mean square than 1");
}

static int32_t run_rows(int kind, int dtype, attributes numbers, buffer *out, buffer *a,
                        unsigned char *weight, unsigned char *bias) {
  static const char *const names[] = {"softmax", "logSoftmax", "layerNorm", "rmsNorm"};
  const int wide = dtype == RM_FLOAT64 ? RM_FLOAT64 : RM_FLOAT32;
  const int own = weight == NULL ? RM_NONE : wide;
  return rm_run(kernel(names[kind]), pack(dtype, dtype, own, own), dtype, numbers.at, out->data,
                a->data, weight, bias);
}

/* Derivatives of a norm, whose result by x may be x or the given derivative. */
static void try_norm_backward(ptrdiff_t count, ptrdiff_t vectors, int threads) {
  const ptrdiff_t columns = 16 * vectors, n = count * columns, from = below(MARGIN);
  const bool centered = below(2), with_weight = below(2), with_sums = below(2);
  snprintf(about, sizeof about, "normBackward of [%td, %td]%s%s%s", count, columns,
           centered ? ", centered" : "", with_weight ? ", weight" : "", with_sums ? ", sums" : "");
  const int F = RM_FLOAT32, N = RM_NONE, S = with_sums ? F : N;
  buffer out = make(F, n, ANY_BITS), x = make(F, from + n, SMALL), given = make(F, n, SMALL);
  buffer weight = make(F, columns, SMALL);
  buffer sums[] = {make(F, columns, ANY_BITS), make(F, columns, ANY_BITS)};
  const double plan[] = {(double)count, (double)columns, (double)from, 0, 1e-5, centered};
  attributes numbers = with_attributes(6, plan);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  unsigned char *const to[] = {out.data, given.data};
  for (int in_place = 0; in_place < 2; in_place++) {
    const int32_t status =
        run_many(kernel("normBackward"), pack(F, F, with_weight ? F : N, F), pack(S, S, N, N), F,
                 numbers.at, to[in_place], x.data, with_weight ? weight.data : NULL, given.data,
                 with_sums ? sums[0].data : NULL, with_sums ? sums[1].data : NULL, NULL, NULL);
    /* There is none for machines without AVX. */
    if (status == RM_UNSUPPORTED) break;
    if (!is_served(status)) fail("it was not served");
    if (in_place && memcmp(out.data, given.data, out.bytes) != 0) fail("in place it is another");
    if (in_place) break;
    check_unchanged(&x);
    check_unchanged(&given);
    check_unchanged(&weight);
    for (ptrdiff_t r = 0; centered && r < count; r++) {
      double sum = 0, size = 0;
      for (ptrdiff_t i = 0; i < columns; i++) {
        const double one = ((const float *)out.data)[r * columns + i];
        sum += one;
        size += fabs(one);
      }
      if (fabs(sum) > 1e-4 * (1 + size)) fail("the derivatives of a row do not add up to 0");
    }
    for (ptrdiff_t i = 0; with_sums && i < columns; i++) {
      double sum = 0, size = 0;
      for (ptrdiff_t r = 0; r < count; r++) {
        sum += ((const float *)given.data)[r * columns + i];
        size += fabs(((const float *)given.data)[r * columns + i]);
      }
      if (fabs(sum - ((const float *)sums[1].data)[i]) > 1e-5 * (1 + size)) fail("a sum is wrong");
    }
    compared++;
  }
  drop(&out);
  drop(&x);
  drop(&given);
  drop(&weight);
  drop(&sums[0]);
  drop(&sums[1]);
}

static void try_softmax_norm(ptrdiff_t count, ptrdiff_t columns, int threads) {
  for (int dtype = RM_FLOAT16; dtype <= RM_FLOAT64; dtype++) {
    for (int kind = 0; kind < ROW_KERNELS; kind++) {
      snprintf(about, sizeof about, "rows, kind %d of dtype %d, [%td, %td]", kind, dtype, count,
               columns);
      const ptrdiff_t from = below(MARGIN), n = count * columns;
      const int wide = dtype == RM_FLOAT64 ? RM_FLOAT64 : RM_FLOAT32;
      const bool any_bits = below(4) == 0, scaled = kind >= LAYER_NORM && below(2);
      buffer out = make(dtype, n, ANY_BITS), weight = make(wide, columns, ANY_BITS);
      buffer a = make(dtype, from + n, any_bits ? ANY_BITS : SMALL), bias = weight;
      if (scaled) {
        bias = make(wide, columns, ANY_BITS);
        for (ptrdiff_t i = 0; i < columns; i++) {
          put(wide, weight.data, i, 2);
          put(wide, bias.data, i, 3);
        }
        memcpy(weight.before, weight.data, weight.bytes);
        memcpy(bias.before, bias.data, bias.bytes);
      }
      const double plan[] = {(double)count, (double)columns, (double)from, 1e-5};
      unsigned char *const by = scaled ? weight.data : NULL, *const plus = scaled ? bias.data : NULL;
      rm_configure(RM_CONFIGURE_THREADS, threads);
      if (!is_served(run_rows(kind, dtype, with_attributes(4, plan), &out, &a, by, plus))) {
        fail("it was not served");
      }
      check_unchanged(&a);
      check_unchanged(&weight);
      check_unchanged(&bias);
      for (ptrdiff_t r = 0; r < count && !is_half(dtype) && !(any_bits && kind >= LAYER_NORM);
           r++) {
        check_softmax_norm_row(kind, dtype, out.data, r * columns, columns, scaled);
      }
      /* The output may be the input. */
      const double same[] = {(double)count, (double)columns, 0, 1e-5};
      memmove(a.data, a.data + from * rm_itemsize(dtype), out.bytes);
      if (!is_served(run_rows(kind, dtype, with_attributes(4, same), &a, &a, by, plus))) {
        fail("it was not served in place");
      }
      if (!any_bits && memcmp(a.data, out.data, out.bytes) != 0) fail("in place it is another");
      compared++;
      drop(&out);
      drop(&a);
      if (scaled) drop(&bias);
      drop(&weight);
    }
  }
}
