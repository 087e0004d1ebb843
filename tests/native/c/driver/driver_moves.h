/*
 * Part of driver.c: moves and random numbers.
 */

/* ---- moves ----------------------------------------------------------------------------------- */

/* An index dtype. */
static int index_dtype(void) { return RM_INT8 + (int)below(RM_UINT64); }

/* A packed weight times rows, with relu and a residual, of small integers: exact sums. The residual
 * has a buffer of its own, or is the output, and there is a bias too. */
static void run_packed(int weight, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, bool in_place,
                       int threads) {
  enum { WIDTH = 32 };
  snprintf(about, sizeof about, "a packed weight of dtype %d, %td rows of %td by %td", weight, rows,
           depth, columns);
  const ptrdiff_t panels = (columns + WIDTH - 1) / WIDTH, stride = depth + below(3);
  const ptrdiff_t length = (rows - 1) * stride + depth;
  buffer out = make(RM_FLOAT32, rows * columns, SMALL), x = make(RM_FLOAT32, length, SMALL);
  buffer bias = make(RM_FLOAT32, columns, SMALL), add = make(RM_FLOAT32, rows * columns, SMALL);
  buffer w = make(weight, panels * depth * WIDTH, SMALL);
  if (weight == RM_BFLOAT16) {
    /* The upper halves of small float32. */
    for (ptrdiff_t i = 0; i < panels * depth * WIDTH; i++) {
      const float value = (float)(below(16) - 8);
      memcpy((uint16_t *)w.data + i, (const uint16_t *)&value + 1, sizeof(uint16_t));
    }
    memcpy(w.before, w.data, w.bytes);
  }
  const float *to = (const float *)out.data, *from = (const float *)x.data;
  double numbers[] = {(double)rows, (double)columns, (double)depth, RM_ACTIVATION_RELU, 0,
                      (double)columns, 0, (double)stride, in_place ? 3 : -1, 0,
                      in_place ? 0 : 3, 0, (double)columns};
  rm_configure(RM_CONFIGURE_THREADS, threads);
  expect_normal_operands();
  if (!is_served(rm_run(kernel("linearPacked"), pack(RM_FLOAT32, RM_FLOAT32, weight, RM_FLOAT32),
                        RM_FLOAT32, numbers, out.data, x.data, w.data,
                        in_place ? bias.data : add.data))) {
    fail("it was not served");
  }
  check_normal_operands();
  const float *residual = (const float *)(in_place ? out.before : add.data);
  for (ptrdiff_t i = 0; i < rows; i++) {
    for (ptrdiff_t j = 0; j < columns; j++) {
      float sum = in_place ? ((const float *)bias.data)[j] : 0;
      for (ptrdiff_t p = 0; p < depth; p++) {
        const ptrdiff_t row = (j / WIDTH * depth + p) * WIDTH, q = j % WIDTH;
        float value = 0;
        if (weight == RM_FLOAT32) value = ((const float *)w.data)[row + q];
        else memcpy((uint16_t *)&value + 1, (uint16_t *)w.data + row + 2 * (q % 16) + q / 16, 2);
        sum += from[i * stride + p] * value;
      }
      const float expected = (sum > 0 ? sum : 0) + residual[i * columns + j];
      if (to[i * columns + j] != expected) fail("a result is wrong");
      compared++;
    }
  }
  check_unchanged(&x);
  check_unchanged(&w);
  check_unchanged(&bias);
  check_unchanged(&add);
  drop(&out);
  drop(&x);
  drop(&w);
  drop(&bias);
  drop(&add);
}

static void try_packed(ptrdiff_t rows, ptrdiff_t depth, int threads) {
  run_packed(RM_FLOAT32, rows, 1 + below(100), depth, below(2), threads);
  run_packed(RM_BFLOAT16, rows, 1 + below(100), depth, below(2), threads);
}

/* A random index in [0, size), possibly negative if the dtype allows it. */
static int64_t any_index(int dtype, ptrdiff_t size) {
  const ptrdiff_t one = below(size);
  return dtype >= RM_INT8 && dtype <= RM_INT64 && below(2) ? one - size : one;
}

/* Gathers, scatters or adds blocks of up to two axes and compares every element. */
static void run_blocks(int what, int dtype, int by, ptrdiff_t count, int rank, ptrdiff_t x,
                       ptrdiff_t y, int threads) {
  const bool scatter = what != RM_OP_gather, add = what == RM_OP_scatterAdd;
  snprintf(about, sizeof about, "move %d of dtype %d by %d, %td blocks [%td, %td] of rank %d",
           what, dtype, by, count, x, y, rank);
  /* One operand advances block by block, the other one by indices. */
  const int block_operand = scatter ? 1 : 0, indexed_operand = 1 - block_operand;
  const ptrdiff_t bytes = rm_itemsize(dtype), size = 1 + below(9);
  layout p;
  shape(&p, rank, x, y, 1, 2);
  lay_out(&p, block_operand, rank == 2 && below(2) ? COLUMNS : CONTIGUOUS, rank);
  lay_out(&p, indexed_operand, (enum kind)below(scatter ? OUTPUT_KINDS : KINDS), rank);
  const ptrdiff_t step = x * (rank == 2 ? y : 1);
  /* Scattered blocks are disjoint or identical. */
  const ptrdiff_t distance = scatter ? p.length[indexed_operand] : 1, room = (size - 1) * distance;
  const ptrdiff_t stride = below(2) ? -distance : distance;
  const enum content content = add ? SMALL : ANY_BITS;
  buffer to = make(dtype, p.length[0] + (scatter ? room : (count - 1) * step), content);
  buffer from = make(dtype, p.length[1] + (scatter ? (count - 1) * step : room), content);
  if (stride < 0) p.offset[indexed_operand] += room;
  const ptrdiff_t first = below(MARGIN);
  buffer indices = make(by, first + count, ANY_BITS);
  for (ptrdiff_t i = 0; i < count; i++) put(by, indices.data, first + i, any_index(by, size));
  memcpy(indices.before, indices.data, indices.bytes);
  double *plan = write_plan(&p), *numbers = plan + RM_ATTRIBUTES;
  const double own[] = {(double)first, (double)count, (double)size, (double)stride, (double)step};
  memcpy(numbers, own, sizeof own);
  const int32_t dtypes = pack(dtype, dtype, by, RM_NONE);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(what, dtypes, dtype, plan, to.data, from.data, indices.data, NULL))) {
    fail("it was not served");
  }
  if (numbers[0] != -1) fail("an index was refused");
  check_unchanged(&from);
  check_unchanged(&indices);
  for (ptrdiff_t i = 0; i < count; i++) {
    const ptrdiff_t index = (ptrdiff_t)get(by, indices.data, first + i);
    const ptrdiff_t at = (index < 0 ? index + size : index) * stride;
    ptrdiff_t element[MAX_AXES] = {0};
    do {
      const ptrdiff_t t = place(&p, 0, element) + (scatter ? at : i * step);
      const ptrdiff_t f = place(&p, 1, element) + (scatter ? i * step : at);
      if (!add) {
        memcpy(to.before + t * bytes, from.data + f * bytes, (size_t)bytes);
      } else if (is_half(dtype)) {
        /* Other tests check the sums. */
        memcpy(to.before + t * bytes, to.data + t * bytes, (size_t)bytes);
      } else {
        const double sum = get(dtype, to.before, t) + get(dtype, from.data, f);
        put(dtype, to.before, t, (int64_t)sum);
      }
    } while (next(&p, rank, element));
  }
  if (memcmp(to.data, to.before, to.bytes) != 0) fail("the moved elements are others");
  /* An index out of range is reported before anything is written. */
  put(by, indices.data, first + count - 1, by <= RM_INT64 && below(2) ? -size - 1 : size);
  numbers[0] = (double)first;
  if (!is_served(rm_run(what, dtypes, dtype, plan, to.data, from.data, indices.data, NULL)) ||
      numbers[0] != (double)(count - 1)) {
    fail("the index out of range is another one");
  }
  if (memcmp(to.data, to.before, to.bytes) != 0) fail("a refused move has written something");
  compared++;
  drop(&to);
  drop(&from);
  drop(&indices);
}

static void run_positions(int dtype, bool wide, int rank, ptrdiff_t x, ptrdiff_t y, bool bad) {
  const ptrdiff_t size = 7, stride = 3, n = rank == 0 ? 1 : rank == 1 ? x : x * y;
  snprintf(about, sizeof about, "positions by dtype %d, [%td, %td] of rank %d", dtype, x, y, rank);
  layout p;
  shape(&p, rank, x, y, 1, 2);
  lay_out(&p, 0, CONTIGUOUS, rank);
  lay_out(&p, 1, (enum kind)below(KINDS), rank);
  buffer to = make(wide ? RM_INT64 : RM_INT32, p.length[0], SMALL);
  buffer index = make(dtype, p.length[1], SMALL);
  const ptrdiff_t length = p.length[1];
  for (ptrdiff_t i = 0; i < length; i++) put(dtype, index.data, i, any_index(dtype, size));
  ptrdiff_t wrong = -1;
  if (bad) put(dtype, index.data, below(length), dtype <= RM_INT64 && below(2) ? -size - 1 : size);
  memcpy(index.before, index.data, index.bytes);
  double *plan = write_plan(&p), *numbers = plan + RM_ATTRIBUTES;
  numbers[0] = (double)size;
  numbers[1] = (double)stride;
  if (!is_served(rm_run(kernel("ravelIndex"), pack(to.dtype, dtype, RM_NONE, RM_NONE), to.dtype,
                        plan, to.data, index.data, NULL, NULL))) {
    fail("it was not served");
  }
  check_unchanged(&index);
  ptrdiff_t at[MAX_AXES] = {0}, walked = 0;
  do {
    const int64_t one = (int64_t)get(dtype, index.data, place(&p, 1, at));
    if (one < -size || one >= size) {
      wrong = walked;
      break;
    }
    const ptrdiff_t t = place(&p, 0, at);
    put(to.dtype, to.before, t,
        (int64_t)get(to.dtype, to.before, t) + (one < 0 ? one + size : one) * stride);
    walked++;
  } while (next(&p, rank, at) && walked < n);
  if (numbers[0] != (double)wrong) fail("the place of the first wrong index is another one");
  if (wrong < 0 && memcmp(to.data, to.before, to.bytes) != 0) fail("the positions are others");
  compared++;
  drop(&to);
  drop(&index);
}

static void run_take_along(int dtype, int by, int rank, ptrdiff_t x, ptrdiff_t y, bool bad) {
  const ptrdiff_t size = 7, stride = 3, n = rank == 0 ? 1 : rank == 1 ? x : x * y;
  const ptrdiff_t bytes = rm_itemsize(dtype);
  snprintf(about, sizeof about, "dtype %d taken by dtype %d, [%td, %td] of rank %d", dtype, by, x,
           y, rank);
  layout p;
  shape(&p, rank, x, y, 1, 3);
  lay_out(&p, 0, CONTIGUOUS, rank);
  for (int k = 1; k < 3; k++) lay_out(&p, k, (enum kind)below(KINDS), rank);
  buffer to = make(dtype, p.length[0], SMALL);
  buffer from = make(dtype, p.length[1] + (size - 1) * stride, SMALL);
  buffer index = make(by, p.length[2], SMALL);
  const ptrdiff_t length = p.length[2];
  for (ptrdiff_t i = 0; i < length; i++) put(by, index.data, i, any_index(by, size));
  if (bad) put(by, index.data, below(length), by <= RM_INT64 && below(2) ? -size - 1 : size);
  memcpy(index.before, index.data, index.bytes);
  double *plan = write_plan(&p), *numbers = plan + RM_ATTRIBUTES;
  numbers[0] = (double)size;
  numbers[1] = (double)stride;
  if (!is_served(rm_run(kernel("takeAlongAxis"), pack(dtype, dtype, by, RM_NONE), dtype, plan,
                        to.data, from.data, index.data, NULL))) {
    fail("it was not served");
  }
  check_unchanged(&index);
  check_unchanged(&from);
  ptrdiff_t at[MAX_AXES] = {0}, walked = 0, wrong = -1;
  do {
    const int64_t one = (int64_t)get(by, index.data, place(&p, 2, at));
    if (one < -size || one >= size) {
      wrong = walked;
      break;
    }
    memcpy(to.before + place(&p, 0, at) * bytes,
           from.data + (place(&p, 1, at) + (one < 0 ? one + size : one) * stride) * bytes,
           (size_t)bytes);
    walked++;
  } while (next(&p, rank, at) && walked < n);
  if (numbers[0] != (double)wrong) fail("the place of the first wrong index is another one");
  if (wrong < 0 && memcmp(to.data, to.before, to.bytes) != 0) fail("others are taken");
  compared++;
  drop(&to);
  drop(&from);
  drop(&index);
}

static void run_nonzero(int dtype, ptrdiff_t length) {
  snprintf(about, sizeof about, "nonzero of dtype %d, %td elements", dtype, length);
  const ptrdiff_t offset = below(MARGIN), bytes = rm_itemsize(dtype);
  buffer input = make(dtype, offset + length, SMALL);
  for (ptrdiff_t i = 0; i < length; i++) {
    if (below(3) == 0) memset(input.data + (offset + i) * bytes, 0, (size_t)bytes);
    /* -0 */
    if (dtype >= RM_FLOAT16 && below(5) == 0) {
      memset(input.data + (offset + i) * bytes, 0, (size_t)bytes);
      input.data[(offset + i + 1) * bytes - 1] = 0x80;
    }
  }
  memcpy(input.before, input.data, input.bytes);
  int32_t *places = malloc((size_t)length * sizeof *places);
  if (places == NULL) fail("no memory");
  ptrdiff_t count = 0;
  for (ptrdiff_t i = 0; i < length; i++) {
    unsigned char one[8];
    memcpy(one, input.data + (offset + i) * bytes, (size_t)bytes);
    if (dtype >= RM_FLOAT16) one[bytes - 1] &= 0x7f;
    bool zero = true;
    for (ptrdiff_t j = 0; j < bytes; j++) zero = zero && one[j] == 0;
    if (!zero) places[count++] = (int32_t)i;
  }
  if (count > 0) {
    buffer to = make(RM_INT32, count, ANY_BITS);
    const double own[] = {(double)offset, (double)length, (double)count};
    attributes numbers = with_attributes(3, own);
    if (!is_served(rm_run(kernel("nonzeroIndices"), pack(RM_INT32, dtype, RM_NONE, RM_NONE),
                          RM_INT32, numbers.at, to.data, input.data, NULL, NULL))) {
      fail("it was not served");
    }
    if (memcmp(to.data, places, to.bytes) != 0) fail("the places are others");
    check_unchanged(&input);
    compared++;
    drop(&to);
  }
  free(places);
  drop(&input);
}

static void try_moves(ptrdiff_t n) {
  for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
    static const int kinds[] = {RM_OP_gather, RM_OP_scatter, RM_OP_scatterAdd};
    for (int i = 0; i < (dtype == RM_BOOL ? 2 : 3); i++) {
      run_blocks(kinds[i], dtype, index_dtype(), n, 1, 1, 1, 1);
      run_blocks(kinds[i], dtype, index_dtype(), 1 + below(9), 1, n, 1, 1);
      run_blocks(kinds[i], dtype, index_dtype(), 1 + below(9), 2, 1 + below(4), n,
                 1 + (int)below(2));
    }
    /* So many that sums are computed in tables. */
    if (n == 1 && dtype != RM_BOOL) {
      run_blocks(RM_OP_scatterAdd, dtype, index_dtype(), 40000, 1, 1 + below(4), 1,
                 1 + (int)below(2));
    }
    run_nonzero(dtype, n);
    if (dtype == RM_BOOL || dtype >= RM_FLOAT16) continue;
    run_positions(dtype, below(2), (int)below(2), n, 1, below(2));
    run_positions(dtype, below(2), 2, n, 1 + below(4), below(2));
    run_take_along((int)below(RM_DTYPE_COUNT), dtype, (int)below(2), n, 1, below(2));
    run_take_along((int)below(RM_DTYPE_COUNT), dtype, 2, n, 1 + below(4), below(2));
  }
}

/* ---- random numbers -------------------------------------------------------------------------- */

static int32_t run_random(int dtype, const uint32_t *words, int kind, ptrdiff_t length,
                          buffer *out) {
  double own[8] = {kind};
  for (int i = 0; i < 6; i++) own[i + 1] = words[i];
  own[7] = (double)length;
  attributes numbers = with_attributes(8, own);
  return rm_run(kernel("random"), pack(dtype, RM_NONE, RM_NONE, RM_NONE), dtype, numbers.at,
                out->data, NULL, NULL, NULL);
}

static void try_random(ptrdiff_t length, int threads) {
  for (int kind = 0; kind < 4; kind++) {
    for (int dtype = RM_BOOL; dtype < RM_DTYPE_COUNT; dtype++) {
      const bool takes = kind == 0 ? dtype == RM_UINT32 : (kind == 3) == (dtype < RM_FLOAT16);
      if (!takes) continue;
      snprintf(about, sizeof about, "random %d of dtype %d, %td elements", kind, dtype, length);
      const uint32_t words[] = {any(), any(), 0, 0, dtype == RM_BOOL ? 2 : 100, 0};
      buffer out = make(dtype, length, ANY_BITS);
      rm_configure(RM_CONFIGURE_THREADS, threads);
      if (!is_served(run_random(dtype, words, kind, length, &out))) {
        fail("it was not served");
      }
      for (ptrdiff_t i = 0; kind == 3 && i < length; i++) {
        const double x = get(dtype, out.data, i);
        if (x < 0 || x >= words[4]) fail("an integer is out of range");
      }
      /* A shorter request is a prefix of a longer one. */
      buffer part = make(dtype, 1 + below(length), ANY_BITS);
      const ptrdiff_t count = (ptrdiff_t)part.bytes / rm_itemsize(dtype);
      rm_configure(RM_CONFIGURE_THREADS, 1);
      if (!is_served(run_random(dtype, words, kind, count, &part)) ||
          memcmp(part.data, out.data, part.bytes) != 0) {
        fail("a shorter part is another one");
      }
      compared++;
      drop(&out);
      drop(&part);
    }
  }
}
