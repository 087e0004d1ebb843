/*
 * Part of driver.c: quantized weights.
 */

/* ---- quantized weights ----------------------------------------------------------------------- */

/* A format: its number, and the elements and bytes of a block, with float16 at `scales`. */
typedef struct {
  int number, size, bytes, scales[2];
} block_format;

static const block_format block_formats[] = {
    {2, 32, 18, {0, 0}},    {3, 32, 20, {0, 2}},    {6, 32, 22, {0, 0}},
    {7, 32, 24, {0, 2}},    {8, 32, 34, {0, 0}},    {12, 256, 144, {0, 2}},
    {13, 256, 176, {0, 2}}, {14, 256, 210, {208, 208}}, {20, 32, 18, {0, 0}}};

/* Random blocks whose scales are from 2^-14 to 1. */
static buffer make_blocks(const block_format *format, ptrdiff_t blocks) {
  buffer made = make(RM_UINT8, blocks * format->bytes, ANY_BITS);
  for (ptrdiff_t i = 0; i < blocks; i++) {
    for (int k = 0; k < 2; k++) {
      unsigned char *at = made.data + i * format->bytes + format->scales[k];
      at[1] = (unsigned char)((at[1] & 0x80) | (4 + below(56)));
    }
  }
  memcpy(made.before, made.data, made.bytes);
  return made;
}

/* The groups of rows of blocks, from which the rows are made again. */
static buffer make_groups(const block_format *format, const buffer *w, ptrdiff_t rows,
                          ptrdiff_t blocks) {
  buffer groups = make(RM_UINT8, (rows + 15) / 16 * 16 * blocks * format->bytes, ANY_BITS);
  buffer again = make(RM_UINT8, rows * blocks * format->bytes, ANY_BITS);
  double numbers[] = {format->number, (double)rows, (double)blocks, 0, 0, 0};
  const int32_t dtypes = pack(RM_UINT8, RM_UINT8, RM_NONE, RM_NONE);
  if (!is_served(rm_run(kernel("packBlocks"), dtypes, RM_UINT8, numbers, groups.data, w->data,
                        NULL, NULL))) {
    fail("it was not packed");
  }
  memcpy(groups.before, groups.data, groups.bytes);
  numbers[5] = 1;
  if (!is_served(rm_run(kernel("packBlocks"), dtypes, RM_UINT8, numbers, again.data, groups.data,
                        NULL, NULL))) {
    fail("it was not unpacked");
  }
  if (memcmp(again.data, w->data, w->bytes) != 0) fail("rows have changed in groups");
  drop(&again);
  return groups;
}

/* A product with a quantized weight against that of rows in 8 bits with its float32. */
static void run_quantized(const block_format *format, ptrdiff_t rows, ptrdiff_t columns,
                          ptrdiff_t blocks, bool with_bias, int threads) {
  const ptrdiff_t depth = blocks * format->size, stride = depth + below(3);
  snprintf(about, sizeof about, "blocks of format %d, %td rows of %td by %td", format->number, rows,
           depth, columns);
  buffer w = make_blocks(format, columns * blocks);
  buffer x = make(RM_FLOAT32, (rows - 1) * stride + depth, SMALL);
  buffer plain = make(RM_FLOAT32, columns * depth, ANY_BITS);
  buffer out = make(RM_FLOAT32, rows * columns, ANY_BITS), bias = make(RM_FLOAT32, columns, SMALL);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const double all[] = {format->number, (double)(columns * blocks), 0, 0};
  if (!is_served(rm_run(kernel("dequantizeBlocks"), pack(RM_FLOAT32, RM_UINT8, RM_NONE, RM_NONE),
                        RM_FLOAT32, all, plain.data, w.data, NULL, NULL))) {
    fail("it was not dequantized");
  }
  double numbers[] = {(double)rows, (double)columns, (double)depth, RM_ACTIVATION_NONE, 0,
                      (double)columns, 0, (double)stride, with_bias ? 3 : -1, 0, -1, 0, 0,
                      format->number, 0, 0};
  if (!is_served(rm_run(kernel("linearQuantized"),
                        pack(RM_FLOAT32, RM_FLOAT32, RM_UINT8, with_bias ? RM_FLOAT32 : RM_NONE),
                        RM_FLOAT32, numbers, out.data, x.data, w.data,
                        with_bias ? bias.data : NULL))) {
    fail("it was not served");
  }
  buffer groups = make_groups(format, &w, columns, blocks);
  buffer same = make(RM_FLOAT32, rows * columns, ANY_BITS);
  numbers[15] = 1;
  if (!is_served(rm_run(kernel("linearQuantized"),
                        pack(RM_FLOAT32, RM_FLOAT32, RM_UINT8, with_bias ? RM_FLOAT32 : RM_NONE),
                        RM_FLOAT32, numbers, same.data, x.data, groups.data,
                        with_bias ? bias.data : NULL))) {
    fail("it was not served with a packed weight");
  }
  if (memcmp(out.data, same.data, out.bytes) != 0) fail("a packed weight gives something else");
  const float *left = (const float *)x.data, *right = (const float *)plain.data;
  for (ptrdiff_t at = 0; at < rows * columns; at++) {
    double sum = with_bias ? ((const float *)bias.data)[at % columns] : 0, most = 0;
    for (ptrdiff_t p = 0; p < depth; p += 32) {
      float size = 0;
      for (int i = 0; i < 32; i++) {
        const float one = fabsf(left[at / columns * stride + p + i]);
        if (one > size) size = one;
      }
      const float d = size / 127, inverse = d == 0 ? 0 : 1 / d;
      for (int i = 0; i < 32; i++) {
        const double rounded = d * rintf(left[at / columns * stride + p + i] * inverse);
        sum += rounded * right[at % columns * depth + p + i];
        most += fabs(rounded * right[at % columns * depth + p + i]);
      }
    }
    /* Shifts are added apart. */
    if (!(fabs(((const float *)out.data)[at] - sum) <= 1e-4 * (most + 1))) fail("a result is wrong");
    compared++;
  }
  check_unchanged(&w);
  check_unchanged(&x);
  check_unchanged(&bias);
  check_unchanged(&groups);
  drop(&w), drop(&x), drop(&plain), drop(&out), drop(&bias), drop(&groups), drop(&same);
}

/* Blocks of floats: their numbers are within a step of the floats, and blocks that are not finite NaN. */
static void run_quantize(const block_format *format, int steps, ptrdiff_t blocks, bool any,
                         int threads) {
  snprintf(about, sizeof about, "%td blocks of format %d", blocks, format->number);
  const ptrdiff_t count = blocks * format->size;
  buffer x = make(RM_FLOAT32, count, any ? ANY_BITS : SMALL);
  buffer made = make(RM_UINT8, blocks * format->bytes, ANY_BITS);
  buffer plain = make(RM_FLOAT32, count, ANY_BITS);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const double numbers[] = {format->number, (double)blocks, 0, 0};
  if (!is_served(rm_run(kernel("quantize"), pack(RM_UINT8, RM_FLOAT32, RM_NONE, RM_NONE), RM_UINT8,
                        numbers, made.data, x.data, NULL, NULL)) ||
      !is_served(rm_run(kernel("dequantizeBlocks"), pack(RM_FLOAT32, RM_UINT8, RM_NONE, RM_NONE),
                        RM_FLOAT32, numbers, plain.data, made.data, NULL, NULL))) {
    fail("it was not served");
  }
  for (ptrdiff_t block = 0; block < count; block += format->size) {
    const float *from = (const float *)x.data + block, *back = (const float *)plain.data + block;
    float most = 0;
    bool finite = true;
    for (int i = 0; i < format->size; i++) {
      finite = finite && isfinite(from[i]);
      if (fabsf(from[i]) > most) most = fabsf(from[i]);
    }
    /* float16 has no larger scales. */
    if (finite && most > 65504.0f * (float)steps) continue;
    for (int i = 0; i < format->size; i++) {
      const bool near = fabsf(back[i] - from[i]) <= 1.01f * most / (float)steps + 1e-5f;
      if (finite ? !near : !isnan(back[i])) fail("a number is wrong");
      compared++;
    }
  }
  check_unchanged(&x);
  drop(&x), drop(&made), drop(&plain);
}

/* A product with a weight of int8: sums of products of rounded numbers, whose blocks have scales. */
static void run_int8(ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t depth, int threads) {
  const ptrdiff_t stride = depth + below(3), words = (depth + 3) / 4;
  const ptrdiff_t group = 64 * (2 * ((words + 31) / 32) + words);
  snprintf(about, sizeof about, "int8, %td rows of %td by %td", rows, depth, columns);
  buffer w = make(RM_FLOAT32, columns * depth, SMALL);
  buffer x = make(RM_FLOAT32, (rows - 1) * stride + depth, SMALL);
  buffer packed = make(RM_INT8, (columns + 15) / 16 * group, ANY_BITS);
  buffer out = make(RM_FLOAT32, rows * columns, ANY_BITS);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  double sizes[] = {(double)columns, (double)depth, 0, 0};
  if (!is_served(rm_run(kernel("quantizeInt8"), pack(RM_INT8, RM_FLOAT32, RM_NONE, RM_NONE),
                        RM_INT8, sizes, packed.data, w.data, NULL, NULL))) {
    fail("it was not quantized");
  }
  memcpy(packed.before, packed.data, packed.bytes);
  double numbers[] = {(double)rows, (double)columns, (double)depth, RM_ACTIVATION_NONE, 0,
                      (double)columns, 0, (double)stride, -1, 0, -1, 0, 0};
  expect_normal_operands();
  if (!is_served(rm_run(kernel("linearInt8"), pack(RM_FLOAT32, RM_FLOAT32, RM_INT8, RM_NONE),
                        RM_FLOAT32, numbers, out.data, x.data, packed.data, NULL))) {
    fail("it was not served");
  }
  check_normal_operands();
  const float *left = (const float *)x.data, *right = (const float *)w.data;
  for (ptrdiff_t at = 0; at < rows * columns; at++) {
    const float *a = left + at / columns * stride, *b = right + at % columns * depth;
    const unsigned char *own = packed.data + at % columns / 16 * group + at % columns % 16 * 4;
    double sum = 0, all = 0;
    for (ptrdiff_t first = 0; first < depth; first += 128, own += 64 * 34) {
      const ptrdiff_t end = first + 128 < depth ? first + 128 : depth;
      float head[2], most = 0, low = a[first], high = a[first];
      memcpy(&head[0], own, sizeof head[0]);
      memcpy(&head[1], own + 64, sizeof head[1]);
      for (ptrdiff_t i = first; i < end; i++) {
        low = fminf(low, a[i]), high = fmaxf(high, a[i]), most = fmaxf(most, fabsf(b[i]));
      }
      if (head[0] != most / 127) fail("a scale is wrong");
      const float step = (high * 0.5f - low * 0.5f) / 127.5f, inverse = step == 0 ? 0 : 1 / step;
      int bytes = 0;
      for (ptrdiff_t i = first; i < end; i++) {
        const int q = (signed char)own[128 + (i - first) / 4 * 64 + (i - first) % 4];
        if (fabs((double)b[i] - (double)q * head[0]) > 0.501 * head[0]) fail("a byte is wrong");
        const double x = (double)low + (double)step * rintf((a[i] - low) * inverse);
        sum += x * q * head[0];
        all += (fabs((double)low) + fabs(x)) * abs(q) * head[0];
        bytes += q;
      }
      if (head[1] != head[0] * (float)bytes) fail("a sum is wrong");
    }
    if (!(fabs(((const float *)out.data)[at] - sum) <= 2e-6 * (all + 1e-6))) {
      fail("a result is wrong");
    }
    compared++;
  }
  check_unchanged(&w), check_unchanged(&x), check_unchanged(&packed);
  drop(&w), drop(&x), drop(&packed), drop(&out);
}

/* The int32 product of int8 matrices. */
static void run_matmul_int8(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, int threads) {
  snprintf(about, sizeof about, "int8, [%td, %td] by [%td, %td]", m, k, k, n);
  buffer a = make(RM_INT8, m * k, ANY_BITS), b = make(RM_INT8, k * n, ANY_BITS);
  buffer out = make(RM_INT32, m * n, ANY_BITS);
  /* Two products of the least numbers, whose sum has 17 bits. */
  if (k > 1) a.data[0] = a.data[1] = b.data[0] = b.data[n] = 0x80;
  memcpy(a.before, a.data, a.bytes), memcpy(b.before, b.data, b.bytes);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  double numbers[] = {(double)m, (double)n, (double)k, 0, 0, 0};
  if (!is_served(rm_run(kernel("matmulInt8"), pack(RM_INT32, RM_INT8, RM_INT8, RM_NONE), RM_INT32,
                        numbers, out.data, a.data, b.data, NULL))) {
    fail("it was not served");
  }
  for (ptrdiff_t at = 0; at < m * n; at++) {
    int32_t sum = 0;
    for (ptrdiff_t i = 0; i < k; i++) {
      sum += (int)(signed char)a.data[at / n * k + i] * (signed char)b.data[i * n + at % n];
    }
    if (((const int32_t *)out.data)[at] != sum) fail("a result is wrong");
    compared++;
  }
  check_unchanged(&a), check_unchanged(&b);
  drop(&a), drop(&b), drop(&out);
}

static void try_quantized(ptrdiff_t most, int cases) {
  for (int i = 0; i < 3 * cases; i++) {
    run_matmul_int8(1 + below(i % 4 == 0 ? 70 : 9), 1 + below(most),
                    1 + below(i % 5 == 0 ? 1500 : 70), 1 + (int)below(3));
  }
  for (int i = 0; i < 3 * cases; i++) {
    run_int8(1 + below(i % 4 == 0 ? 70 : 9), 1 + below(most), 1 + below(i % 5 == 0 ? 1500 : 70),
             1 + (int)below(3));
  }
  for (int i = 0; i < cases; i++) {
    run_quantize(&block_formats[0], 8, 1 + below(20 * most), below(2), 1 + (int)below(3));
    run_quantize(&block_formats[4], 127, 1 + below(20 * most), below(2), 1 + (int)below(3));
  }
  for (size_t k = 0; k < sizeof block_formats / sizeof *block_formats; k++) {
    for (int i = 0; i < cases; i++) {
      const block_format *format = &block_formats[k];
      run_quantized(format, 1 + below(i % 4 == 0 ? 70 : 9), 1 + below(most), 1 + below(1 + 256 / format->size),
                    below(2), 1 + (int)below(3));
    }
  }
}
