/*
 * Part of driver.c: images, recurrent layers, and products of bytes and of four bits.
 */

/* ---- images ---------------------------------------------------------------------------------- */

static void finish_image(buffer *out, buffer *inputs, int count) {
  for (int i = 0; i < count; i++) {
    check_unchanged(&inputs[i]);
    drop(&inputs[i]);
  }
  drop(out);
  compared++;
}

static void run_resample(ptrdiff_t outer, ptrdiff_t from, ptrdiff_t to, ptrdiff_t inner,
                         ptrdiff_t taps, bool doubles, int threads) {
  if (doubles) to = 2 * from, taps = 1;
  snprintf(about, sizeof about, "resample of %td x %td x %td to %td by %td", outer, from, inner, to,
           taps);
  buffer in[] = {make(RM_FLOAT32, outer * from * inner, SMALL), make(RM_INT32, taps * to, SMALL),
                 make(RM_FLOAT32, taps * to, SMALL)};
  buffer out = make(RM_FLOAT32, outer * to * inner, ANY_BITS);
  int32_t *indices = (int32_t *)in[1].data;
  float *weights = (float *)in[2].data;
  for (ptrdiff_t i = 0; i < taps * to; i++) {
    indices[i] = (int32_t)(doubles ? i / 2 : below(from));
    if (doubles || below(3) == 0) weights[i] = 1;
  }
  for (int i = 1; i < 3; i++) memcpy(in[i].before, in[i].data, in[i].bytes);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  double numbers[] = {(double)outer, (double)from, (double)to, (double)inner, (double)taps, 0, 0, 0, 0};
  if (!is_served(rm_run(kernel("resample"), pack(RM_FLOAT32, RM_FLOAT32, RM_INT32, RM_FLOAT32),
                        RM_FLOAT32, numbers, out.data, in[0].data, in[1].data, in[2].data))) {
    fail("it was not served");
  }
  for (ptrdiff_t at = 0; at < outer * to * inner; at++) {
    const ptrdiff_t i = at / inner % to;
    double sum = 0;
    for (ptrdiff_t k = 0; k < taps; k++) {
      const ptrdiff_t element = (at / inner / to * from + indices[k * to + i]) * inner + at % inner;
      sum += (double)weights[k * to + i] * get(RM_FLOAT32, in[0].data, element);
    }
    if (get(RM_FLOAT32, out.data, at) != sum) fail("a result is wrong");
  }
  if (from > 0 && taps * to > 0) {
    indices[below(taps * to)] = (int32_t)(below(2) == 0 ? from : -1);
    if (rm_run(kernel("resample"), pack(RM_FLOAT32, RM_FLOAT32, RM_INT32, RM_FLOAT32), RM_FLOAT32,
               numbers, out.data, in[0].data, in[1].data, in[2].data) != RM_BAD_ARGUMENT) {
      fail("an index out of range is taken");
    }
    memcpy(in[1].data, in[1].before, in[1].bytes);
  }
  finish_image(&out, in, 3);
}

static void run_pool(bool with_places, int threads) {
  enum { PLANES = 3 };
  ptrdiff_t axes[3][6], windows = 1, plane = 1;
  for (int i = 0; i < 3; i++) {
    const ptrdiff_t size = 1 + below(i == 2 ? 40 : 6), kernel_size = 1 + below(4);
    const ptrdiff_t stride = 1 + below(3), dilation = 1 + below(2);
    const ptrdiff_t padding = below((kernel_size - 1) * dilation + 1);
    const ptrdiff_t reach = (kernel_size - 1) * dilation + 1;
    /* At times the last window reaches beyond the padding. */
    const ptrdiff_t places = size + padding + below(2) * stride - reach;
    const ptrdiff_t count = places < 0 ? 1 : places / stride + 1;
    const ptrdiff_t own[6] = {size, count, kernel_size, stride, padding, dilation};
    memcpy(axes[i], own, sizeof own);
    windows *= count;
    plane *= size;
  }
  snprintf(about, sizeof about, "windows of %td x %td x %td in %td x %td x %td%s", axes[0][2],
           axes[1][2], axes[2][2], axes[0][0], axes[1][0], axes[2][0], with_places ? " and places" : "");
  buffer in[] = {make(RM_FLOAT32, PLANES * plane, SMALL)};
  buffer out = make(RM_FLOAT32, PLANES * windows, ANY_BITS);
  buffer places = make(RM_INT64, with_places ? PLANES * windows : 1, ANY_BITS);
  float *x = (float *)in[0].data;
  if (below(2) == 0) x[below(PLANES * plane)] = NAN;
  memcpy(in[0].before, in[0].data, in[0].bytes);
  double numbers[1 + 18 + 3] = {PLANES};
  for (int i = 0; i < 18; i++) numbers[1 + i] = (double)axes[i / 6][i % 6];
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(kernel(with_places ? "maxPoolIndices" : "maxPool"),
                        pack(RM_FLOAT32, RM_FLOAT32, with_places ? RM_INT64 : RM_NONE, RM_NONE),
                        RM_FLOAT32, numbers, out.data, in[0].data, with_places ? places.data : NULL,
                        NULL))) {
    fail("it was not served");
  }
  for (ptrdiff_t at = 0; at < PLANES * windows; at++) {
    const ptrdiff_t own[3] = {at % windows / axes[2][1] / axes[1][1], at / axes[2][1] % axes[1][1],
                              at % axes[2][1]};
    float most = -INFINITY;
    ptrdiff_t place = -1;
    for (ptrdiff_t k = 0; k < axes[0][2] * axes[1][2] * axes[2][2]; k++) {
      const ptrdiff_t tap[3] = {k / axes[2][2] / axes[1][2], k / axes[2][2] % axes[1][2],
                                k % axes[2][2]};
      ptrdiff_t element = 0;
      bool is_inside = true;
      for (int i = 0; i < 3; i++) {
        const ptrdiff_t here = own[i] * axes[i][3] - axes[i][4] + tap[i] * axes[i][5];
        is_inside = is_inside && here >= 0 && here < axes[i][0];
        element = element * axes[i][0] + here;
      }
      if (!is_inside) continue;
      const float value = x[at / windows * plane + element];
      if (place >= 0 && !(value > most) && !(isnan(value) && !isnan(most))) continue;
      most = value;
      place = element;
    }
    const float made = ((const float *)out.data)[at];
    if (made != most && !(isnan(made) && isnan(most))) fail("a result is wrong");
    if (with_places && ((const int64_t *)places.data)[at] != place) {
      fail("a place is wrong");
    }
  }
  drop(&places);
  finish_image(&out, in, 1);
}

/* Samples of ones are one, as weights are parts of one, where nothing counts as zero. */
static void run_grid_sample(int mode, int padding, int axes, int threads) {
  snprintf(about, sizeof about, "samples in mode %d with padding %d of %d axes", mode, padding, axes);
  const ptrdiff_t channels = 1 + below(4), images = 1 + below(2);
  double numbers[7 + 6 + 3] = {(double)images, (double)channels, axes,      (double)mode,
                               (double)padding, (double)below(2), -0.75};
  ptrdiff_t plane = 1, count = 1;
  for (int i = 0; i < 3; i++) {
    const ptrdiff_t size = i < 3 - axes ? 1 : 1 + below(7), to = i < 3 - axes ? 1 : 1 + below(12);
    numbers[7 + i] = (double)size;
    numbers[10 + i] = (double)to;
    plane *= size;
    count *= to;
  }
  buffer in[] = {make(RM_FLOAT32, images * channels * plane, SMALL),
                 make(RM_FLOAT32, images * count * axes, SMALL)};
  buffer out = make(RM_FLOAT32, images * channels * count, ANY_BITS);
  for (ptrdiff_t i = 0; i < images * channels * plane; i++) ((float *)in[0].data)[i] = 1;
  for (ptrdiff_t i = 0; i < images * count * axes; i++) {
    ((float *)in[1].data)[i] = (float)below(2000) / 500 - 2;
  }
  if (below(3) == 0) ((float *)in[1].data)[0] = below(2) == 0 ? NAN : INFINITY;
  for (int i = 0; i < 2; i++) memcpy(in[i].before, in[i].data, in[i].bytes);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(kernel("gridSample"), pack(RM_FLOAT32, RM_FLOAT32, RM_FLOAT32, RM_NONE),
                        RM_FLOAT32, numbers, out.data, in[0].data, in[1].data, NULL))) {
    fail("it was not served");
  }
  for (ptrdiff_t at = 0; at < images * channels * count; at++) {
    const float made = ((const float *)out.data)[at];
    const bool is_finite = isfinite(((const float *)in[1].data)[0]);
    if (padding > 0 && is_finite && fabsf(made - 1) > 1e-5f) fail("a result is wrong");
  }
  finish_image(&out, in, 2);
}

/* Regions inside of an image of one number have that number. */
static void run_roi_align(int threads) {
  const ptrdiff_t channels = 1 + below(3), size[] = {4 + below(6), 4 + below(6)}, regions = 1 + below(4);
  const ptrdiff_t bins[] = {1 + below(3), 1 + below(3)};
  snprintf(about, sizeof about, "%td regions of %td x %td", regions, size[0], size[1]);
  buffer in[] = {make(RM_FLOAT32, 2 * channels * size[0] * size[1], SMALL),
                 make(RM_FLOAT32, 4 * regions, SMALL), make(RM_INT32, regions, SMALL)};
  buffer out = make(RM_FLOAT32, regions * channels * bins[0] * bins[1], ANY_BITS);
  for (size_t i = 0; i < in[0].bytes / 4; i++) ((float *)in[0].data)[i] = 3;
  for (ptrdiff_t i = 0; i < regions; i++) {
    float *box = (float *)in[1].data + 4 * i;
    for (int k = 0; k < 4; k++) box[k] = (float)(below(3) + (k > 1 ? 1 : 0));
    ((int32_t *)in[2].data)[i] = (int32_t)below(2);
  }
  for (int i = 0; i < 3; i++) memcpy(in[i].before, in[i].data, in[i].bytes);
  double numbers[RM_ATTRIBUTES + 16] = {0};
  const double own[] = {-1, (double)channels, (double)size[0], (double)size[1], (double)regions,
                        (double)bins[0], (double)bins[1], (double)below(3), 1, 0, 0, 2};
  memcpy(numbers + RM_ATTRIBUTES, own, sizeof own);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const int32_t dtypes = pack(RM_FLOAT32, RM_FLOAT32, RM_FLOAT32, RM_INT32);
  if (!is_served(rm_run(kernel("roiAlign"), dtypes, RM_FLOAT32, numbers, out.data, in[0].data,
                        in[1].data, in[2].data))) {
    fail("it was not served");
  }
  if (numbers[RM_ATTRIBUTES] != -1) fail("an image is said to be missing");
  for (size_t i = 0; i < out.bytes / 4; i++) {
    if (fabsf(((const float *)out.data)[i] - 3) > 1e-5f) fail("a result is wrong");
  }
  ((int32_t *)in[2].data)[regions - 1] = 2;
  if (!is_served(rm_run(kernel("roiAlign"), dtypes, RM_FLOAT32, numbers, out.data, in[0].data,
                        in[1].data, in[2].data)) || numbers[RM_ATTRIBUTES] != (double)(regions - 1)) {
    fail("an image that there is not is taken");
  }
  memcpy(in[2].data, in[2].before, in[2].bytes);
  finish_image(&out, in, 3);
}

static void try_images(int cases) {
  for (int i = 0; i < 4 * cases; i++) {
    const int threads = 1 + (int)below(3);
    run_resample(1 + below(5), 1 + below(20), 1 + below(40), below(2) == 0 ? 1 : 1 + below(70),
                 1 + below(5), below(4) == 0, threads);
    run_pool(below(2) == 0, threads);
    run_grid_sample((int)below(3), (int)below(3), 1 + (int)below(3), threads);
    run_roi_align(threads);
  }
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

enum { RECURRENT_NUMBERS = 32, RECURRENT_AT_OFFSETS = 19, RECURRENT_INPUTS = 7 };

/* Rows of a batch, which share a packed weight, have the results that each has alone. The weight of an LSTM
 * may be groups of bytes. */
static void run_recurrent(int cell, ptrdiff_t steps, ptrdiff_t batch, ptrdiff_t size, int threads) {
  const ptrdiff_t directions = 1 + below(2), gates = cell == 0 ? 4 : cell == 1 ? 3 : 1;
  const ptrdiff_t states = cell == 0 ? 2 : 1;
  const bool of_bytes = cell == 0 && below(2) == 0;
  snprintf(about, sizeof about, "recurrent layer %d of %td steps, %td x %td, %td directions%s", cell,
           steps, batch, size, directions, of_bytes ? ", bytes" : "");
  const ptrdiff_t group = 192 + 64 * ((size + 3) / 4), groups = directions * ((4 * size + 15) / 16);
  const bool resets_after = below(2) == 0;
  const ptrdiff_t row = directions * gates * size, out_row = directions * size;
  buffer in[RECURRENT_INPUTS] = {
      make(RM_FLOAT32, steps * batch * row, SMALL),
      of_bytes ? make(RM_INT8, groups * group, ANY_BITS) : make(RM_FLOAT32, row * size, SMALL),
      make(RM_FLOAT32, states * directions * batch * size, SMALL),
      make(RM_FLOAT32, 3 * directions * size, SMALL), make(RM_FLOAT32, directions * size, SMALL),
      make(RM_INT32, batch, SMALL), make(RM_FLOAT32, row, SMALL)};
  if (of_bytes) {
    /* Nothing is said about the sums, and that bytes are large. */
    for (ptrdiff_t i = 0; i < groups * 16; i++) {
      const int32_t head[] = {0, 0, 255};
      for (int k = 0; k < 3; k++) memcpy(in[1].data + i / 16 * group + k * 64 + i % 16 * 4, &head[k], 4);
    }
  }
  for (int i = 0; i < RECURRENT_INPUTS; i++) {
    if (i == 5 || (i == 1 && of_bytes)) continue;
    for (size_t k = 0; k < in[i].bytes / 4; k++) ((float *)in[i].data)[k] /= 32;
  }
  for (ptrdiff_t b = 0; b < batch; b++) ((int32_t *)in[5].data)[b] = (int32_t)below(steps + 1);
  for (int i = 0; i < RECURRENT_INPUTS; i++) memcpy(in[i].before, in[i].data, in[i].bytes);
  buffer out = make(RM_FLOAT32, steps * batch * out_row, ANY_BITS);
  buffer last = make(RM_FLOAT32, states * directions * batch * size, ANY_BITS);
  double numbers[RECURRENT_NUMBERS] = {
      (double)steps, (double)batch, (double)size, cell, (double)directions, (double)below(4),
      (double)below(2) / 8, resets_after, (double)below(2), 0, 1, 2, 3};
  for (int i = 0; i < 6; i++) numbers[13 + i] = i % 3 == 0 ? RM_ACTIVATION_SIGMOID : RM_ACTIVATION_TANH;
  const int optional[] = {cell == 0 && below(2) == 0 ? 5 : -1, cell == 1 && below(2) == 0 ? 6 : -1,
                          below(2) == 0 ? 7 : -1, of_bytes ? 6 : -1};
  for (int i = 0; i < 4; i++) numbers[RECURRENT_AT_OFFSETS + 9 + i] = optional[i];
  const void *bias = in[of_bytes ? 6 : 4].data;
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const int32_t more = pack(RM_FLOAT32, RM_FLOAT32, RM_FLOAT32, RM_INT32);
  const int32_t dtypes = pack(RM_FLOAT32, RM_FLOAT32, of_bytes ? RM_INT8 : RM_FLOAT32, RM_FLOAT32);
  const int32_t number = kernel("recurrent");
  if (!is_served(run_many(number, dtypes, more, RM_FLOAT32, numbers, out.data, in[0].data, in[1].data,
                          in[2].data, last.data, in[3].data, bias, in[5].data))) {
    fail("it was not served");
  }
  const ptrdiff_t b = below(batch);
  buffer alone = make(RM_FLOAT32, steps * out_row, ANY_BITS);
  buffer end = make(RM_FLOAT32, states * out_row, ANY_BITS);
  buffer x = make(RM_FLOAT32, steps * row, ANY_BITS), first = make(RM_FLOAT32, states * out_row, ANY_BITS);
  buffer length = make(RM_INT32, 1, ANY_BITS);
  for (ptrdiff_t t = 0; t < steps; t++) {
    memcpy(x.data + t * row * 4, in[0].data + (t * batch + b) * row * 4, (size_t)row * 4);
  }
  for (ptrdiff_t s = 0; s < states * directions; s++) {
    memcpy(first.data + s * size * 4, in[2].data + (s * batch + b) * size * 4, (size_t)size * 4);
  }
  memcpy(length.data, in[5].data + 4 * b, 4);
  numbers[1] = 1;
  if (!is_served(run_many(number, dtypes, more, RM_FLOAT32, numbers, alone.data, x.data, in[1].data,
                          first.data, end.data, in[3].data, bias, length.data))) {
    fail("a row was not served");
  }
  for (ptrdiff_t i = 0; i < steps * out_row; i++) {
    const double made = get(RM_FLOAT32, out.data, (i / out_row * batch + b) * out_row + i % out_row);
    if (!(fabs(made - get(RM_FLOAT32, alone.data, i)) < 1e-5)) fail("a row alone is another one");
  }
  for (ptrdiff_t i = 0; i < states * out_row; i++) {
    const double made = get(RM_FLOAT32, last.data, (i / size * batch + b) * size + i % size);
    if (!(fabs(made - get(RM_FLOAT32, end.data, i)) < 1e-5)) fail("a state alone is another one");
  }
  buffer *own[] = {&last, &alone, &end, &x, &first, &length};
  for (int i = 0; i < 6; i++) drop(own[i]);
  finish_image(&out, in, RECURRENT_INPUTS);
}

static void try_recurrent(ptrdiff_t most, int cases) {
  for (int i = 0; i < 2 * cases; i++) {
    run_recurrent(i % 3, 1 + below(6), 1 + below(30), 1 + below(most), 1 + (int)below(3));
  }
}

/* ---- products of bytes and of four bits ------------------------------------------------------ */

/* At times makes bytes of 7 bits, whose products add in 16 bits. */
static void maybe_narrow(buffer *bytes) {
  if (below(2) == 0) return;
  for (size_t i = 0; i < bytes->bytes; i++) bytes->data[i] &= 0x7f;
  memcpy(bytes->before, bytes->data, bytes->bytes);
}

/* A call whose int32 sums are known, of channels that have `inner` elements each. */
typedef struct {
  int32_t kernel, dtypes;
  double *numbers;
  /* Where the numbers of bytes begin. */
  int end;
  buffer *sums;
  void *a, *b, *c;
  ptrdiff_t count, channels, inner;
} sums_call;

/* Makes the sums of a call bytes, and compares them with those that were made. */
static void check_bytes_of_sums(const sums_call *call) {
  const int dtype = below(2) == 0 ? RM_INT8 : RM_UINT8;
  const int least = dtype == RM_INT8 ? -128 : 0, zero = least + (int)below(256);
  const int low = least + (int)below(20), high = least + 255 - (int)below(20);
  const bool has_bias = below(2) == 0;
  buffer out = make(dtype, call->count, ANY_BITS);
  buffer in[] = {make(RM_INT32, call->channels, SMALL), make(RM_FLOAT32, call->channels, SMALL)};
  for (ptrdiff_t i = 0; i < call->channels; i++) ((float *)in[1].data)[i] /= 4096;
  memcpy(in[1].before, in[1].data, in[1].bytes);
  const double last[] = {0, 0, zero, low, high};
  memcpy(call->numbers + call->end, last, sizeof last);
  const int32_t dtypes = (int32_t)((uint32_t)call->dtypes & ~0xffu) | dtype;
  const int32_t more = pack(has_bias ? RM_INT32 : RM_NONE, RM_FLOAT32, RM_NONE, RM_NONE);
  if (!is_served(run_many(call->kernel, dtypes, more, dtype, call->numbers, out.data, call->a, call->b,
                          call->c, has_bias ? in[0].data : NULL, in[1].data, NULL, NULL))) {
    fail("bytes were not served");
  }
  for (ptrdiff_t i = 0; i < call->count; i++) {
    const ptrdiff_t channel = i / call->inner % call->channels;
    const uint32_t bias = has_bias ? (uint32_t)((int32_t *)in[0].data)[channel] : 0;
    const int32_t sum = (int32_t)((uint32_t)((int32_t *)call->sums->data)[i] + bias);
    const double x = rintf((float)sum * ((float *)in[1].data)[channel]) + zero;
    if (get(dtype, out.data, i) != fmin(fmax(x, low), high)) fail("a byte is wrong");
  }
  finish_image(&out, in, 2);
}

static void run_bytes(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, int threads) {
  const int left = below(2) == 0 ? RM_INT8 : RM_UINT8, right = below(2) == 0 ? RM_INT8 : RM_UINT8;
  const bool has_p = below(2) == 0, has_q = below(2) == 0;
  snprintf(about, sizeof about, "bytes, dtypes %d and %d, [%td, %td] by [%td, %td]", left, right, m, k,
           k, n);
  buffer in[] = {make(left, m * k, ANY_BITS), make(right, k * n, ANY_BITS),
                 make(RM_INT32, m, SMALL), make(RM_INT32, n, SMALL)};
  maybe_narrow(&in[1]);
  const ptrdiff_t groups = (n + 15) / 16;
  buffer packed = make(RM_INT8, groups * (192 + 64 * ((k + 3) / 4)), ANY_BITS);
  buffer out = make(RM_INT32, m * n, ANY_BITS);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  double first[] = {(double)k, (double)n, 0, 0, 0};
  double second[7 + 5] = {(double)m, (double)n, (double)k};
  if (!is_served(rm_run(kernel("packBytes"), pack(RM_INT8, right, has_q ? RM_INT32 : RM_NONE, RM_NONE),
                        RM_INT8, first, packed.data, in[1].data, has_q ? in[3].data : NULL, NULL))) {
    fail("it was not packed");
  }
  if (!is_served(rm_run(kernel("matmulBytes"),
                        pack(RM_INT32, left, RM_INT8, has_p ? RM_INT32 : RM_NONE), RM_INT32, second,
                        out.data, in[0].data, packed.data, has_p ? in[2].data : NULL))) {
    fail("it was not served");
  }
  for (ptrdiff_t at = 0; at < m * n; at++) {
    double sum = 0;
    for (ptrdiff_t i = 0; i < k; i++) {
      const double p = has_p ? get(RM_INT32, in[2].data, at / n) : 0;
      const double q = has_q ? get(RM_INT32, in[3].data, at % n) : 0;
      sum += (get(left, in[0].data, at / n * k + i) - p) * (get(right, in[1].data, i * n + at % n) - q);
    }
    if (get(RM_INT32, out.data, at) != sum) fail("a result is wrong");
  }
  check_bytes_of_sums(&(sums_call){kernel("matmulBytes"),
                                   pack(RM_INT32, left, RM_INT8, has_p ? RM_INT32 : RM_NONE), second, 7,
                                   &out, in[0].data, packed.data, has_p ? in[2].data : NULL, m * n, n, 1});
  drop(&packed);
  finish_image(&out, in, 4);
}

static void run_quantize_dynamic(ptrdiff_t n, int threads) {
  snprintf(about, sizeof about, "%td floats to bytes by their range", n);
  buffer in[] = {make(RM_FLOAT32, n, below(3) == 0 ? ANY_BITS : SMALL)};
  buffer out = make(RM_UINT8, n, ANY_BITS), scale = make(RM_FLOAT32, 1, ANY_BITS);
  buffer zero = make(RM_UINT8, 1, ANY_BITS);
  double numbers[] = {(double)n, 0, 0, 0, 0};
  rm_configure(RM_CONFIGURE_THREADS, threads);
  if (!is_served(rm_run(kernel("quantizeDynamic"), pack(RM_UINT8, RM_FLOAT32, RM_FLOAT32, RM_UINT8),
                        RM_UINT8, numbers, out.data, in[0].data, scale.data, zero.data))) {
    fail("it was not served");
  }
  const float *x = (const float *)in[0].data;
  float low = 0, high = 0;
  bool has_nan = false;
  for (ptrdiff_t i = 0; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
    has_nan = has_nan || isnan(x[i]);
  }
  const float made = *(const float *)scale.data, wanted = has_nan ? NAN : (high - low) / 255;
  if (made != wanted && !(isnan(made) && isnan(wanted))) fail("the scale is wrong");
  for (ptrdiff_t i = 0; i < n; i++) {
    const float divisor = made == 0 ? 1 : made;
    float q = rintf(x[i] / divisor) + (float)*(const uint8_t *)zero.data;
    q = q > 0 ? q : 0;
    if (((const uint8_t *)out.data)[i] != (uint8_t)(q < 255 ? q : 255)) fail("a result is wrong");
  }
  drop(&scale);
  drop(&zero);
  finish_image(&out, in, 1);
}

static void run_conv_bytes(int threads) {
  /* Some are of each channel, most of them without zero points of the weight: they have code of their own. */
  const bool is_depthwise = below(2) == 0;
  const int left = below(2) == 0 ? RM_INT8 : RM_UINT8;
  const int right = below(is_depthwise ? 4 : 2) > 0 ? RM_INT8 : RM_UINT8;
  const bool has_p = below(2) == 0, has_q = below(is_depthwise ? 4 : 2) == 0;
  const bool of_taps = is_depthwise || below(2) == 0;
  const ptrdiff_t images = 1 + below(2), groups = 1 + below(is_depthwise ? 30 : 3);
  const ptrdiff_t channels = is_depthwise ? 1 : 1 + below(9);
  const ptrdiff_t rows = 1 + below(is_depthwise ? 2 : 20), all = groups * rows;
  /* Size, kernel, results, stride, padding and dilation of each axis. */
  ptrdiff_t axes[3][6], plane = 1, places = 1, taps = 1;
  for (int i = 0; i < 3; i++) {
    const ptrdiff_t size = 1 + below(i == 2 ? 40 : 6), kernel_size = 1 + below(i == 2 ? 6 : 3);
    const bool is_dense = is_depthwise && i == 2;
    const ptrdiff_t stride = 1 + below(is_dense ? 2 : 3), dilation = is_dense ? 1 : 1 + below(3);
    const ptrdiff_t reach = (kernel_size - 1) * dilation + 1, padding = below(reach + 1);
    /* There may be padding at the end. */
    const ptrdiff_t most = size + padding + below(3) - reach;
    const ptrdiff_t own[6] = {size, kernel_size, most < 0 ? 1 : most / stride + 1, stride, padding,
                              dilation};
    memcpy(axes[i], own, sizeof own);
    plane *= size;
    places *= own[2];
    taps *= kernel_size;
  }
  const ptrdiff_t *z = axes[0], *y = axes[1], *x = axes[2];
  snprintf(about, sizeof about, "convolution of bytes, dtypes %d and %d, %td groups of %td to %td", left,
           right, groups, channels, rows);
  const ptrdiff_t last = of_taps ? (x[1] + 3) / 4 * 4 : x[1];
  const ptrdiff_t depth =
      of_taps ? channels * z[1] * y[1] * last : (channels + 3) / 4 * 4 * z[1] * y[1] * last;
  buffer in[] = {make(left, images * groups * channels * plane, ANY_BITS),
                 make(right, depth * all, ANY_BITS), make(left, 1, ANY_BITS), make(RM_INT32, all, SMALL)};
  maybe_narrow(&in[1]);
  /* Taps that there are not are zeros. */
  for (ptrdiff_t i = 0; of_taps && i < depth * all; i++) {
    if (i / all % last >= x[1]) in[1].data[i] = in[1].before[i] = 0;
  }
  buffer packed = make(RM_INT8, (all + 15) / 16 * (192 + 16 * depth), ANY_BITS);
  buffer out = make(RM_INT32, images * all * places, ANY_BITS);
  rm_configure(RM_CONFIGURE_THREADS, threads);
  double first[] = {(double)depth, (double)all, 0, 0, 0};
  double second[9 + 18 + 5] = {(double)images, (double)groups, (double)channels, (double)rows, of_taps};
  for (int i = 0; i < 18; i++) second[9 + i] = (double)axes[i / 6][i % 6];
  if (!is_served(rm_run(kernel("packBytes"), pack(RM_INT8, right, has_q ? RM_INT32 : RM_NONE, RM_NONE),
                        RM_INT8, first, packed.data, in[1].data, has_q ? in[3].data : NULL, NULL))) {
    fail("it was not packed");
  }
  if (!is_served(rm_run(kernel("convBytes"), pack(RM_INT32, left, RM_INT8, has_p ? left : RM_NONE),
                        RM_INT32, second, out.data, in[0].data, packed.data,
                        has_p ? in[2].data : NULL))) {
    fail("it was not served");
  }
  const double p = has_p ? get(left, in[2].data, 0) : 0;
  for (ptrdiff_t at = 0; at < images * all * places; at++) {
    const ptrdiff_t o = at / places % all, image = at / places / all;
    const double q = has_q ? get(RM_INT32, in[3].data, o) : 0;
    double sum = 0;
    for (ptrdiff_t i = 0; i < channels * taps; i++) {
      const ptrdiff_t c = i / taps, tap = i % taps;
      const ptrdiff_t kz = tap / x[1] / y[1], ky = tap / x[1] % y[1], kx = tap % x[1];
      const ptrdiff_t depth_at = at % places / x[2] / y[2] * z[3] - z[4] + kz * z[5];
      const ptrdiff_t row = at % places / x[2] % y[2] * y[3] - y[4] + ky * y[5];
      const ptrdiff_t column = at % x[2] * x[3] - x[4] + kx * x[5];
      if (depth_at < 0 || depth_at >= z[0] || row < 0 || row >= y[0] || column < 0 || column >= x[0]) {
        continue;
      }
      const ptrdiff_t from = ((image * groups + o / rows) * channels + c) * plane +
                             (depth_at * y[0] + row) * x[0] + column;
      const ptrdiff_t line = of_taps ? ((c * z[1] + kz) * y[1] + ky) * last + kx
                                     : (((c / 4 * z[1] + kz) * y[1] + ky) * x[1] + kx) * 4 + c % 4;
      sum += (get(left, in[0].data, from) - p) * (get(right, in[1].data, line * all + o) - q);
    }
    if (get(RM_INT32, out.data, at) != sum) fail("a result is wrong");
  }
  check_bytes_of_sums(&(sums_call){kernel("convBytes"),
                                   pack(RM_INT32, left, RM_INT8, has_p ? left : RM_NONE), second, 27, &out,
                                   in[0].data, packed.data, has_p ? in[2].data : NULL,
                                   images * all * places, all, places});
  drop(&packed);
  finish_image(&out, in, 4);
}

static void run_nibbles(ptrdiff_t m, ptrdiff_t n, ptrdiff_t k, ptrdiff_t block, int threads) {
  snprintf(about, sizeof about, "four bits, [%td, %td] by [%td, %td] in blocks of %td", m, k, n, k, block);
  const ptrdiff_t blocks = (k + block - 1) / block, groups = (n + 15) / 16;
  buffer in[] = {make(RM_UINT8, n * blocks * block / 2, ANY_BITS), make(RM_FLOAT32, n * blocks, SMALL),
                 make(RM_FLOAT32, n * blocks, SMALL), make(RM_FLOAT32, m * k, SMALL),
                 make(RM_FLOAT32, n, SMALL)};
  buffer packed = make(RM_UINT8, groups * blocks * (128 + block * 8), ANY_BITS);
  buffer out = make(RM_FLOAT32, m * n, ANY_BITS);
  const bool has_bias = below(2) == 0;
  rm_configure(RM_CONFIGURE_THREADS, threads);
  double first[] = {(double)n, (double)blocks, (double)block, 0, 0, 0, 0};
  double second[] = {(double)m, (double)n, (double)k, (double)block, 0, 0, 0, has_bias ? 3 : -1, 0};
  if (!is_served(rm_run(kernel("packNibbles"), pack(RM_UINT8, RM_UINT8, RM_FLOAT32, RM_FLOAT32),
                        RM_UINT8, first, packed.data, in[0].data, in[1].data, in[2].data))) {
    fail("it was not packed");
  }
  if (!is_served(rm_run(kernel("linearNibbles"), pack(RM_FLOAT32, RM_FLOAT32, RM_UINT8, RM_FLOAT32),
                        RM_FLOAT32, second, out.data, in[3].data, packed.data, in[4].data))) {
    fail("it was not served");
  }
  for (ptrdiff_t at = 0; at < m * n; at++) {
    double sum = has_bias ? get(RM_FLOAT32, in[4].data, at % n) : 0;
    for (ptrdiff_t i = 0; i < k; i++) {
      const ptrdiff_t b = at % n * blocks + i / block;
      const int byte = in[0].data[b * (block / 2) + i % block / 2];
      const double q = i % 2 == 0 ? byte & 15 : byte >> 4;
      sum += get(RM_FLOAT32, in[3].data, at / n * k + i) * (q - get(RM_FLOAT32, in[2].data, b)) *
             get(RM_FLOAT32, in[1].data, b);
    }
    if (get(RM_FLOAT32, out.data, at) != sum) fail("a result is wrong");
  }
  drop(&packed);
  finish_image(&out, in, 5);
}

static void try_few_bits(ptrdiff_t most, int cases) {
  for (int i = 0; i < 3 * cases; i++) {
    run_bytes(1 + below(i % 4 == 0 ? 70 : 9), 1 + below(most), 1 + below(i % 5 == 0 ? 1500 : 70),
              1 + (int)below(3));
    run_conv_bytes(1 + (int)below(3));
    run_quantize_dynamic(1 + below(i % 7 == 0 ? 40000 : 70), 1 + (int)below(3));
    run_nibbles(1 + below(i % 4 == 0 ? 70 : 9), 1 + below(most), 1 + below(300),
                (ptrdiff_t)16 << below(5), 1 + (int)below(3));
  }
}
