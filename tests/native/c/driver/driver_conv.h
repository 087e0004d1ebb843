/*
 * Part of driver.c: convolutions.
 */

/* ---- convolutions ---------------------------------------------------------------------------- */

/* A convolution of images of two axes. The bias and the residual are perhaps none. */
typedef struct {
  ptrdiff_t images, groups, channels, rows, size[2], kernel[2], stride[2], padding[2], dilation[2];
  ptrdiff_t out[2];
  buffer of[5];
} conv_case;

enum { CONV_OUT, CONV_X, CONV_WEIGHT, CONV_BIAS, CONV_ADD, CONV_OPERANDS };

static float conv_element(const conv_case *c, ptrdiff_t plane, ptrdiff_t y, ptrdiff_t x) {
  if (y < 0 || x < 0 || y >= c->size[0] || x >= c->size[1]) return 0;
  return ((const float *)c->of[CONV_X].data)[(plane * c->size[0] + y) * c->size[1] + x];
}

/* The sum of an output of a direct convolution, and the sum of the absolute products. */
static double direct_sum(const conv_case *c, ptrdiff_t image, ptrdiff_t row, ptrdiff_t y,
                         ptrdiff_t x, double *all) {
  const float *w = (const float *)c->of[CONV_WEIGHT].data;
  const ptrdiff_t taps = c->kernel[0] * c->kernel[1], group = row / c->rows;
  double sum = *all = 0;
  for (ptrdiff_t k = 0; k < c->channels * taps; k++) {
    const ptrdiff_t ky = k % taps / c->kernel[1], kx = k % c->kernel[1];
    const ptrdiff_t plane = (image * c->groups + group) * c->channels + k / taps;
    const float one = conv_element(c, plane, y * c->stride[0] + ky * c->dilation[0] - c->padding[0],
                                   x * c->stride[1] + kx * c->dilation[1] - c->padding[1]);
    sum += one * w[row * c->channels * taps + k];
    *all += fabs(one * w[row * c->channels * taps + k]);
  }
  return sum;
}

/* The same by Winograd's matrices, of a transformed weight. */
static double winograd_sum(const conv_case *c, ptrdiff_t image, ptrdiff_t row, ptrdiff_t y,
                           ptrdiff_t x, double *all) {
  static const double points[] = {0, 0.75, -0.75, 1.5, -1.5};
  static const double tile[6][6] = {
      {81. / 64, 0, -45. / 16, 0, 1, 0},       {0, -27. / 16, -9. / 4, 3. / 4, 1, 0},
      {0, 27. / 16, -9. / 4, -3. / 4, 1, 0},   {0, -27. / 32, -9. / 16, 3. / 2, 1, 0},
      {0, 27. / 32, -9. / 16, -3. / 2, 1, 0},  {0, 81. / 64, 0, -45. / 16, 0, 1}};
  const float *w = (const float *)c->of[CONV_WEIGHT].data;
  double sum = *all = 0;
  for (int m = 0; m < 36; m++) {
    double factor = 1;
    const ptrdiff_t place[] = {y % 4, x % 4}, side[] = {m / 6, m % 6};
    for (int i = 0; i < 2; i++) {
      factor *= side[i] == 5 ? place[i] == 3 : pow(points[side[i]], (double)place[i]);
    }
    if (factor == 0) continue;
    for (ptrdiff_t channel = 0; channel < c->channels; channel++) {
      double made = 0, most = 0;
      for (int e = 0; e < 36; e++) {
        const double one = conv_element(c, image * c->channels + channel,
                                        y / 4 * 4 + e / 6 - c->padding[0],
                                        x / 4 * 4 + e % 6 - c->padding[1]) *
                           tile[side[0]][e / 6] * tile[side[1]][e % 6];
        made += one;
        most += fabs(one);
      }
      const double by = factor * w[(m * c->rows + row) * c->channels + channel];
      sum += by * made;
      *all += fabs(by) * most;
    }
  }
  return sum;
}

/* Runs the case, by Winograd's matrices if `winograd`, and compares every output. */
static void run_conv(conv_case *c, bool winograd, bool with_bias, bool with_add, int threads) {
  snprintf(about, sizeof about,
           "%s of %td x %td x %td, %td x %td by %td of %td x %td, stride %td, %td, by %td, %td",
           winograd ? "winograd" : "conv", c->images, c->groups, c->channels, c->size[0], c->size[1],
           c->rows, c->kernel[0], c->kernel[1], c->stride[0], c->stride[1], c->dilation[0],
           c->dilation[1]);
  const ptrdiff_t outputs = c->groups * c->rows, pixels = c->out[0] * c->out[1];
  const ptrdiff_t taps = winograd ? 36 : c->kernel[0] * c->kernel[1];
  const ptrdiff_t lengths[CONV_OPERANDS] = {
      c->images * outputs * pixels, c->images * c->groups * c->channels * c->size[0] * c->size[1],
      outputs * c->channels * taps, with_bias ? outputs : 0,
      with_add ? c->images * outputs * pixels : 0};
  void *data[CONV_OPERANDS] = {NULL};
  int next = CONV_BIAS;
  double buffers[2] = {-1, -1};
  for (int i = 0; i < CONV_OPERANDS; i++) {
    if (lengths[i] == 0) continue;
    c->of[i] = make(RM_FLOAT32, lengths[i], i == CONV_OUT ? ANY_BITS : SMALL);
    if (i < CONV_BIAS) {
      data[i] = c->of[i].data;
      continue;
    }
    buffers[i - CONV_BIAS] = next;
    data[next++] = c->of[i].data;
  }
  double numbers[64] = {0}, *to = numbers;
  *to++ = (double)c->images;
  if (!winograd) *to++ = (double)c->groups;
  *to++ = (double)c->channels, *to++ = (double)c->rows, *to++ = RM_ACTIVATION_RELU;
  to += 3;
  *to++ = buffers[0], *to++ = buffers[1];
  to += CONV_OPERANDS;
  if (!winograd) {
    const double no_axis[] = {1, 1, 1, 1, 0, 1};
    memcpy(to, no_axis, sizeof no_axis), to += 6;
  }
  for (int i = 0; i < 2; i++) {
    *to++ = (double)c->size[i];
    if (!winograd) *to++ = (double)c->kernel[i];
    *to++ = (double)c->out[i];
    if (!winograd) *to++ = (double)c->stride[i];
    *to++ = (double)c->padding[i];
    *to++ = (double)(winograd ? (c->out[i] + 3) / 4 : c->dilation[i]);
  }
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const int F = RM_FLOAT32;
  expect_normal_operands();
  if (!is_served(run_many(kernel(winograd ? "winograd" : "conv"),
                             pack(F, F, F, next > 3 ? F : RM_NONE),
                             pack(next > 4 ? F : RM_NONE, RM_NONE, RM_NONE, RM_NONE), F, numbers,
                             data[0], data[1], data[2], data[3], data[4], NULL, NULL, NULL))) {
    fail("it was not served");
  }
  check_normal_operands();
  const float *made = (const float *)c->of[CONV_OUT].data;
  for (ptrdiff_t at = 0; at < lengths[CONV_OUT]; at++) {
    const ptrdiff_t image = at / pixels / outputs, row = at / pixels % outputs;
    const ptrdiff_t y = at % pixels / c->out[1], x = at % c->out[1];
    double all;
    double sum = winograd ? winograd_sum(c, image, row, y, x, &all)
                          : direct_sum(c, image, row, y, x, &all);
    if (with_bias) sum += ((const float *)c->of[CONV_BIAS].data)[row];
    if (with_add) sum += ((const float *)c->of[CONV_ADD].data)[at];
    if (fabs(made[at] - (sum > 0 ? sum : 0)) > (winograd ? 2e-6 * (all + 20) : 0)) {
      fail("a result is wrong");
    }
    compared++;
  }
  for (int i = 0; i < CONV_OPERANDS; i++) {
    if (lengths[i] == 0) continue;
    if (i > CONV_OUT) check_unchanged(&c->of[i]);
    drop(&c->of[i]);
  }
}

/* A convolution with channels last: a depthwise one, one of one element, or one of an image whose channels
 * come first. The same operands, in other orders, give the same results as direct_sum. */
static void run_conv_last(conv_case *c, bool is_first, bool with_bias, bool with_add, int threads) {
  snprintf(about, sizeof about, "convLast of %td x %td x %td, %td x %td by %td of %td x %td, stride %td, %td",
           c->images, c->groups, c->channels, c->size[0], c->size[1], c->rows, c->kernel[0], c->kernel[1],
           c->stride[0], c->stride[1]);
  enum { COLUMNS = 32 };
  const ptrdiff_t outputs = c->groups * c->rows, inputs = c->groups * c->channels;
  const ptrdiff_t taps = c->kernel[0] * c->kernel[1], plane = c->size[0] * c->size[1];
  const ptrdiff_t pixels = c->out[0] * c->out[1], length = c->images * outputs * pixels;
  const bool depthwise = c->groups > 1;
  const ptrdiff_t columns = depthwise ? outputs : (outputs + COLUMNS - 1) / COLUMNS * COLUMNS;
  const ptrdiff_t w_length = columns * c->channels * taps;
  buffer to = make(RM_FLOAT32, length, ANY_BITS), x = make(RM_FLOAT32, c->images * inputs * plane, SMALL);
  buffer w = make(RM_FLOAT32, w_length, SMALL), bias = make(RM_FLOAT32, outputs, SMALL);
  buffer add = make(RM_FLOAT32, length, SMALL);
  c->of[CONV_X] = make(RM_FLOAT32, c->images * inputs * plane, SMALL);
  c->of[CONV_WEIGHT] = make(RM_FLOAT32, outputs * c->channels * taps, SMALL);
  for (ptrdiff_t i = 0; i < c->images * inputs * plane; i++) {
    const ptrdiff_t image = i / inputs / plane, channel = i / plane % inputs;
    const ptrdiff_t at = is_first ? i : (image * plane + i % plane) * inputs + channel;
    ((float *)c->of[CONV_X].data)[i] = ((float *)x.data)[at];
  }
  for (ptrdiff_t i = 0; i < outputs * c->channels * taps; i++) {
    const ptrdiff_t row = i / c->channels / taps, k = i % (c->channels * taps);
    const ptrdiff_t panel = row / COLUMNS * COLUMNS * c->channels * taps;
    const ptrdiff_t at = depthwise ? k * outputs + row : panel + k * COLUMNS + row % COLUMNS;
    ((float *)c->of[CONV_WEIGHT].data)[i] = ((float *)w.data)[at];
  }
  double numbers[64] = {(double)c->images, (double)c->groups, (double)c->channels, (double)c->rows,
                        RM_ACTIVATION_RELU, 0, 0, 0, with_bias ? 3 : -1,
                        with_add ? (with_bias ? 4 : 3) : -1};
  double *axis = numbers + 10 + CONV_OPERANDS;
  const double no_axis[] = {1, 1, 1, 1, 0, 1};
  memcpy(axis, no_axis, sizeof no_axis), axis += 6;
  for (int i = 0; i < 2; i++, axis += 6) {
    const ptrdiff_t own[] = {c->size[i], c->kernel[i], c->out[i], c->stride[i], c->padding[i], c->dilation[i]};
    for (int k = 0; k < 6; k++) axis[k] = (double)own[k];
  }
  *axis = is_first;
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const int F = RM_FLOAT32, more = with_bias + with_add;
  void *const first = with_bias ? bias.data : with_add ? add.data : NULL;
  expect_normal_operands();
  if (!is_served(run_many(kernel("convLast"), pack(F, F, F, more > 0 ? F : RM_NONE),
                          pack(more > 1 ? F : RM_NONE, RM_NONE, RM_NONE, RM_NONE), F, numbers, to.data,
                          x.data, w.data, first, more > 1 ? add.data : NULL, NULL, NULL, NULL))) {
    fail("it was not served");
  }
  check_normal_operands();
  for (ptrdiff_t at = 0; at < length; at++) {
    const ptrdiff_t row = at % outputs, pixel = at / outputs % pixels;
    double all, sum = direct_sum(c, at / outputs / pixels, row, pixel / c->out[1], pixel % c->out[1], &all);
    if (with_bias) sum += ((const float *)bias.data)[row];
    if (with_add) sum += ((const float *)add.data)[at];
    if (((const float *)to.data)[at] != (sum > 0 ? sum : 0)) fail("a result is wrong");
    compared++;
  }
  check_unchanged(&x);
  check_unchanged(&w);
  drop(&c->of[CONV_X]), drop(&c->of[CONV_WEIGHT]);
  drop(&to), drop(&x), drop(&w), drop(&bias), drop(&add);
}

/* Derivatives of convolutions: by the weight, or by x, which is a transposed convolution. */
static void run_conv_gradient(conv_case *c, bool by_weight, int threads) {
  snprintf(about, sizeof about,
           "%s of %td x %td x %td, %td x %td by %td of %td x %td, stride %td, %td, by %td, %td",
           by_weight ? "convWeightGrad" : "convTranspose", c->images, c->groups, c->channels,
           c->size[0], c->size[1], c->rows, c->kernel[0], c->kernel[1], c->stride[0], c->stride[1],
           c->dilation[0], c->dilation[1]);
  const ptrdiff_t outputs = c->groups * c->rows, pixels = c->out[0] * c->out[1];
  const ptrdiff_t taps = c->kernel[0] * c->kernel[1], plane = c->size[0] * c->size[1];
  const ptrdiff_t x_length = c->images * c->groups * c->channels * plane;
  const ptrdiff_t w_length = outputs * c->channels * taps, g_length = c->images * outputs * pixels;
  const ptrdiff_t length = by_weight ? w_length : x_length;
  buffer to = make(RM_FLOAT32, length, ANY_BITS), g = make(RM_FLOAT32, g_length, SMALL);
  buffer other = make(RM_FLOAT32, by_weight ? x_length : w_length, SMALL);
  double numbers[64] = {(double)c->images, (double)c->groups,
                        (double)(by_weight ? c->channels : c->rows),
                        (double)(by_weight ? c->rows : c->channels), RM_ACTIVATION_NONE, 0, 0, 0, -1,
                        -1};
  double *axis = numbers + 10 + CONV_OPERANDS;
  const double no_axis[] = {1, 1, 1, 1, 0, 1};
  memcpy(axis, no_axis, sizeof no_axis), axis += 6;
  for (int i = 0; i < 2; i++, axis += 6) {
    const ptrdiff_t own[] = {by_weight ? c->size[i] : c->out[i], c->kernel[i],
                             by_weight ? c->out[i] : c->size[i], c->stride[i], c->padding[i],
                             c->dilation[i]};
    for (int k = 0; k < 6; k++) axis[k] = (double)own[k];
  }
  rm_configure(RM_CONFIGURE_THREADS, threads);
  const int F = RM_FLOAT32;
  expect_normal_operands();
  if (!is_served(run_many(kernel(by_weight ? "convWeightGrad" : "convTranspose"),
                          pack(F, F, F, RM_NONE), pack(RM_NONE, RM_NONE, RM_NONE, RM_NONE), F, numbers,
                          to.data, by_weight ? other.data : g.data, by_weight ? g.data : other.data,
                          NULL, NULL, NULL, NULL, NULL))) {
    fail("it was not served");
  }
  check_normal_operands();
  double *sums = calloc((size_t)length, sizeof *sums);
  for (ptrdiff_t at = 0; at < g_length; at++) {
    const ptrdiff_t image = at / pixels / outputs, row = at / pixels % outputs;
    for (ptrdiff_t k = 0; k < c->channels * taps; k++) {
      const ptrdiff_t y = at % pixels / c->out[1] * c->stride[0] + k % taps / c->kernel[1] * c->dilation[0] -
                          c->padding[0];
      const ptrdiff_t x = at % c->out[1] * c->stride[1] + k % c->kernel[1] * c->dilation[1] - c->padding[1];
      if (y < 0 || x < 0 || y >= c->size[0] || x >= c->size[1]) continue;
      const ptrdiff_t channel = (image * c->groups + row / c->rows) * c->channels + k / taps;
      const ptrdiff_t in_x = channel * plane + y * c->size[1] + x, in_w = row * c->channels * taps + k;
      sums[by_weight ? in_w : in_x] += (double)((const float *)g.data)[at] *
                                       ((const float *)other.data)[by_weight ? in_x : in_w];
    }
  }
  for (ptrdiff_t at = 0; at < length; at++) {
    if (((const float *)to.data)[at] != (float)sums[at]) fail("a result is wrong");
    compared++;
  }
  free(sums);
  check_unchanged(&g);
  check_unchanged(&other);
  drop(&to);
  drop(&g);
  drop(&other);
}

static void try_conv(ptrdiff_t most, int cases) {
  for (int i = 0; i < cases; i++) {
    const bool winograd = below(3) == 0, depthwise = !winograd && below(3) == 0;
    conv_case c = {.images = 1 + below(2),
                   .groups = winograd ? 1 : depthwise ? 1 + below(9) : 1 + below(2),
                   .channels = depthwise ? 1 : 1 + below(most),
                   .rows = 1 + below(depthwise ? 2 : most)};
    for (int k = 0; k < 2; k++) {
      c.kernel[k] = winograd ? 3 : 1 + below(4);
      c.stride[k] = winograd ? 1 : 1 + below(3);
      c.dilation[k] = winograd ? 1 : 1 + below(2);
      c.padding[k] = below(3);
      const ptrdiff_t window = (c.kernel[k] - 1) * c.dilation[k] + 1;
      const ptrdiff_t least = window > 2 * c.padding[k] ? window - 2 * c.padding[k] : 1;
      c.size[k] = least + below(most);
      c.out[k] = (c.size[k] + 2 * c.padding[k] - window) / c.stride[k] + 1;
    }
    run_conv(&c, winograd, below(2), below(2), 1 + (int)below(3));
    run_conv_gradient(&c, below(2), 1 + (int)below(3));
    if (depthwise) {
      c.groups = 16 + below(most), c.rows = 1;
    } else {
      c.groups = 1;
      run_conv_last(&c, true, below(2), below(2), 1 + (int)below(3));
      for (int k = 0; k < 2; k++) {
        c.kernel[k] = c.stride[k] = 1, c.padding[k] = 0, c.out[k] = c.size[k];
      }
    }
    run_conv_last(&c, false, below(2), !depthwise && below(2), 1 + (int)below(3));
  }
}
