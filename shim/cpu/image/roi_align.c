/*
 * Regions of images as grids of bins, each the mean or the largest of samples between elements.
 */
#include <math.h>
#include "internal.h"

/* The numbers of a call. */
enum {
  FOUND = RM_ATTRIBUTES,
  CHANNELS,
  HEIGHT,
  WIDTH,
  REGIONS,
  BINS_Y,
  BINS_X,
  RATIO,
  SCALE,
  SHIFTS,
  LARGEST,
  IMAGES,
  OFFSETS
};

static const double SAMPLE_NS = 4;

typedef struct {
  ptrdiff_t images, channels, height, width, regions, bins_y, bins_x, ratio;
  float scale;
  bool shifts, largest;
  const float *x, *boxes;
  const int32_t *batch;
  float *out;
} roi_context;

/* The elements before and after a place along an axis, and the weight of the second; false outside. */
typedef struct {
  ptrdiff_t low, high;
  float rest;
} neighbors;

static bool find_neighbors(float at, ptrdiff_t size, neighbors *to) {
  if (!(at >= -1 && at <= (float)size)) return false;
  if (at < 0) at = 0;
  to->low = (ptrdiff_t)at;
  if (to->low >= size - 1) {
    to->low = to->high = size - 1;
    to->rest = 0;
    return true;
  }
  to->high = to->low + 1;
  to->rest = at - (float)to->low;
  return true;
}

/* Bins of more elements have no samples: their numbers have no floats of their own. */
static const float MOST_STEP = 16777216.0f * 64;

/* The samples of a bin: one for each element, none of a bin without a size, of NaN or of infinite size. */
static ptrdiff_t samples_for(float step) {
  const float wanted = ceilf(step);
  return wanted >= 1 && wanted < MOST_STEP ? (ptrdiff_t)wanted : 0;
}

/* The samples of a bin that may be in an image, so that the work is that of its elements. */
typedef struct {
  ptrdiff_t first, last;
} span;

static span span_of(float start, float step, ptrdiff_t count, ptrdiff_t size) {
  const double width = (double)step / (double)count;
  span found = {0, count};
  if (!(width > 0)) return found;
  const double first = floor((-1 - (double)start) / width) - 2;
  const double last = ceil(((double)size - (double)start) / width) + 2;
  if (first > 0) found.first = first < (double)count ? (ptrdiff_t)first : count;
  if (last < (double)count) found.last = last > 0 ? (ptrdiff_t)last : 0;
  return found;
}

/* The bins of a region, for one channel. */
static void roi_task(void *context, ptrdiff_t index) {
  const roi_context *ctx = context;
  const ptrdiff_t region = index / ctx->channels, channel = index % ctx->channels;
  const float *box = ctx->boxes + region * 4;
  const float *x = ctx->x + (ctx->batch[region] * ctx->channels + channel) * ctx->height * ctx->width;
  const float shift = ctx->shifts ? 0.5f : 0;
  const float left = box[0] * ctx->scale - shift, top = box[1] * ctx->scale - shift;
  float width = box[2] * ctx->scale - shift - left, height = box[3] * ctx->scale - shift - top;
  if (!ctx->shifts) {
    width = width > 1 ? width : 1;
    height = height > 1 ? height : 1;
  }
  const float bin_x = width / (float)ctx->bins_x, bin_y = height / (float)ctx->bins_y;
  const ptrdiff_t grid_x = ctx->ratio > 0 ? ctx->ratio : samples_for(bin_x);
  const ptrdiff_t grid_y = ctx->ratio > 0 ? ctx->ratio : samples_for(bin_y);
  const float samples = (float)grid_x * (float)grid_y, count = samples > 1 ? samples : 1;
  float *out = ctx->out + index * ctx->bins_y * ctx->bins_x;
  for (ptrdiff_t bin = 0; bin < ctx->bins_y * ctx->bins_x; bin++) {
    const float begin_y = top + (float)(bin / ctx->bins_x) * bin_y;
    const float begin_x = left + (float)(bin % ctx->bins_x) * bin_x;
    const span rows = span_of(begin_y, bin_y, grid_y, ctx->height);
    const span columns = span_of(begin_x, bin_x, grid_x, ctx->width);
    float sum = 0, most = 0;
    /* Samples outside are 0. */
    bool has_any = rows.first > 0 || rows.last < grid_y || columns.first > 0 || columns.last < grid_x;
    for (ptrdiff_t p = rows.first; p < rows.last; p++) {
      neighbors y;
      const bool has_y =
          find_neighbors(begin_y + ((float)p + 0.5f) * bin_y / (float)grid_y, ctx->height, &y);
      for (ptrdiff_t q = columns.first; q < columns.last; q++) {
        neighbors w;
        float parts[4] = {0, 0, 0, 0};
        if (has_y &&
            find_neighbors(begin_x + ((float)q + 0.5f) * bin_x / (float)grid_x, ctx->width, &w)) {
          const float *low = x + y.low * ctx->width, *high = x + y.high * ctx->width;
          parts[0] = (1 - y.rest) * (1 - w.rest) * low[w.low];
          parts[1] = (1 - y.rest) * w.rest * low[w.high];
          parts[2] = y.rest * (1 - w.rest) * high[w.low];
          parts[3] = y.rest * w.rest * high[w.high];
        }
        sum += parts[0] + parts[1] + parts[2] + parts[3];
        for (int i = 0; i < 4; i++) {
          if (!has_any || parts[i] > most) most = parts[i];
          has_any = true;
        }
      }
    }
    out[bin] = ctx->largest ? most : sum / count;
  }
}

int32_t RM_FOR_ISA(roi_align)(const rm_call *call) {
  const double *numbers = call->numbers, *at = numbers + OFFSETS;
  for (int i = 0; i < 4; i++) {
    if (call->dtypes[i] != (i == 3 ? RM_INT32 : RM_FLOAT32)) return RM_UNSUPPORTED;
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "roiAlign without operand %d", i);
  }
  roi_context ctx = {
      .images = (ptrdiff_t)numbers[IMAGES],
      .channels = (ptrdiff_t)numbers[CHANNELS],
      .height = (ptrdiff_t)numbers[HEIGHT],
      .width = (ptrdiff_t)numbers[WIDTH],
      .regions = (ptrdiff_t)numbers[REGIONS],
      .bins_y = (ptrdiff_t)numbers[BINS_Y],
      .bins_x = (ptrdiff_t)numbers[BINS_X],
      .ratio = (ptrdiff_t)numbers[RATIO],
      .scale = (float)numbers[SCALE],
      .shifts = numbers[SHIFTS] != 0,
      .largest = numbers[LARGEST] != 0,
      .out = (float *)call->buffers[0] + (ptrdiff_t)at[0],
      .x = (const float *)call->buffers[1] + (ptrdiff_t)at[1],
      .boxes = (const float *)call->buffers[2] + (ptrdiff_t)at[2],
      .batch = (const int32_t *)call->buffers[3] + (ptrdiff_t)at[3],
  };
  const ptrdiff_t bins = ctx.bins_y * ctx.bins_x;
  if (ctx.regions < 1 || ctx.channels < 1 || bins < 1) return RM_OK;
  if (ctx.height < 1 || ctx.width < 1) return rm_fail(RM_BAD_ARGUMENT, "roiAlign of no elements");
  call->numbers[FOUND] = -1;
  for (ptrdiff_t i = 0; i < ctx.regions; i++) {
    if (ctx.batch[i] >= 0 && ctx.batch[i] < ctx.images) continue;
    call->numbers[FOUND] = (double)i;
    return RM_OK;
  }
  const double samples = ctx.ratio > 0 ? (double)(ctx.ratio * ctx.ratio) : 4;
  rm_parallel(ctx.regions * ctx.channels,
              (double)ctx.regions * (double)ctx.channels * (double)bins * samples * SAMPLE_NS,
              roi_task, &ctx);
  return RM_OK;
}
