/*
 * Samples of images and volumes at places of a grid.
 *
 * For each place, the elements around it and their weights are found once, for all channels.
 */
#include <math.h>
#include "internal.h"

enum { AXES = 3, MOST_TAPS = 4, MOST_CORNERS = 64, TASK_PLACES = 256 };

enum { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC };
enum { PADDING_ZEROS, PADDING_BORDER, PADDING_REFLECTION };

/* The numbers of a call: images, channels, axes, the sizes of x and of the grid along the three of
 * them, 1 for those that lack. */
enum { IMAGES, CHANNELS, RANK, MODE, PADDING, ALIGNS, CUBIC, SIZES, GRID = SIZES + AXES, OFFSETS = GRID + AXES };

static const double PLACE_NS = 20, SUM_NS = 1;

typedef struct {
  ptrdiff_t images, channels, rank, places, plane;
  ptrdiff_t size[AXES];
  int mode, padding;
  bool aligns;
  float cubic;
  const float *x, *grid;
  float *out;
} sample_context;

/* The elements along one axis: their indices, -1 for zeros, and weights. */
typedef struct {
  int count;
  ptrdiff_t index[MOST_TAPS];
  float weight[MOST_TAPS];
} axis_taps;

/* A place, mirrored at both ends until it is inside. */
static float reflected(float x, float least, float most) {
  const float range = most - least;
  if (!(range > 0)) return least;
  if (x < least) {
    const float away = least - x;
    const float turns = floorf(away / range), rest = away - turns * range;
    return fmodf(turns, 2) == 0 ? least + rest : most - rest;
  }
  if (x > most) {
    const float away = x - most;
    const float turns = floorf(away / range), rest = away - turns * range;
    return fmodf(turns, 2) == 0 ? most - rest : least + rest;
  }
  return x;
}

static ptrdiff_t clamped(float x, ptrdiff_t size) {
  if (!(x > 0)) return 0;
  return x >= (float)(size - 1) ? size - 1 : (ptrdiff_t)x;
}

/* The element of an integral place; -1 for one that counts as 0. */
static ptrdiff_t element_of(const sample_context *ctx, float place, ptrdiff_t size) {
  if (place >= 0 && place <= (float)(size - 1)) return (ptrdiff_t)place;
  if (ctx->padding == PADDING_ZEROS) return -1;
  if (ctx->padding == PADDING_BORDER) return clamped(place, size);
  const float edge = ctx->aligns ? 0 : -0.5f;
  return clamped(reflected(place, edge, (float)(size - 1) - edge), size);
}

/* The cubic convolution of an element at a distance. */
static float cubic_at(float x, float a) {
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* The elements along an axis for a place from -1 to 1. */
static void find_taps(const sample_context *ctx, float place, ptrdiff_t size, axis_taps *to) {
  const float n = (float)size;
  float at = ctx->aligns ? (place + 1) / 2 * (n - 1) : ((place + 1) * n - 1) / 2;
  if (ctx->mode != MODE_CUBIC && ctx->padding != PADDING_ZEROS) {
    const float edge = ctx->aligns ? 0 : -0.5f;
    if (ctx->padding == PADDING_REFLECTION) at = reflected(at, edge, n - 1 - edge);
    at = at < 0 ? 0 : at > n - 1 ? n - 1 : at;
  }
  if (ctx->mode == MODE_NEAREST) {
    to->count = 1;
    to->index[0] = element_of(ctx, rintf(at), size);
    to->weight[0] = 1;
    return;
  }
  const float first = floorf(at), t = at - first;
  const int before = ctx->mode == MODE_CUBIC ? 1 : 0;
  to->count = ctx->mode == MODE_CUBIC ? 4 : 2;
  for (int k = 0; k < to->count; k++) {
    const float distance = fabsf(t - (float)(k - before));
    to->index[k] = element_of(ctx, first + (float)(k - before), size);
    to->weight[k] = ctx->mode == MODE_CUBIC ? cubic_at(distance, ctx->cubic) : 1 - distance;
  }
}

/* The samples of all channels at one place. */
static void sample(const sample_context *ctx, const float *place, const float *x, float *out) {
  axis_taps taps[AXES];
  for (ptrdiff_t i = 0; i < AXES; i++) {
    /* The last number of a place is that of the first axis. */
    const ptrdiff_t number = AXES - 1 - i;
    if (number < ctx->rank) find_taps(ctx, place[number], ctx->size[i], &taps[i]);
    else taps[i] = (axis_taps){.count = 1, .index = {0}, .weight = {1}};
  }
  ptrdiff_t offsets[MOST_CORNERS];
  float weights[MOST_CORNERS];
  int count = 0;
  for (int p = 0; p < taps[0].count; p++) {
    for (int q = 0; q < taps[1].count; q++) {
      for (int r = 0; r < taps[2].count; r++) {
        const ptrdiff_t z = taps[0].index[p], y = taps[1].index[q], w = taps[2].index[r];
        if (z < 0 || y < 0 || w < 0) continue;
        offsets[count] = (z * ctx->size[1] + y) * ctx->size[2] + w;
        weights[count++] = taps[0].weight[p] * taps[1].weight[q] * taps[2].weight[r];
      }
    }
  }
  for (ptrdiff_t c = 0; c < ctx->channels; c++) {
    const float *plane = x + c * ctx->plane;
    float sum = 0;
    RM_SCALAR for (int k = 0; k < count; k++) sum += plane[offsets[k]] * weights[k];
    out[c * ctx->places] = sum;
  }
}

static void sample_task(void *context, ptrdiff_t index) {
  const sample_context *ctx = context;
  const ptrdiff_t parts = rm_ceil_div(ctx->places, TASK_PLACES), image = index / parts;
  const ptrdiff_t first = index % parts * TASK_PLACES;
  const ptrdiff_t end = rm_min(first + TASK_PLACES, ctx->places);
  const float *x = ctx->x + image * ctx->channels * ctx->plane;
  float *out = ctx->out + image * ctx->channels * ctx->places;
  for (ptrdiff_t i = first; i < end; i++) {
    sample(ctx, ctx->grid + (image * ctx->places + i) * ctx->rank, x, out + i);
  }
}

int32_t RM_FOR_ISA(grid_sample)(const rm_call *call) {
  const double *numbers = call->numbers, *at = numbers + OFFSETS;
  for (int i = 0; i < 3; i++) {
    if (call->dtypes[i] != RM_FLOAT32) return RM_UNSUPPORTED;
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "gridSample without operand %d", i);
  }
  sample_context ctx = {
      .images = (ptrdiff_t)numbers[IMAGES],
      .channels = (ptrdiff_t)numbers[CHANNELS],
      .rank = (ptrdiff_t)numbers[RANK],
      .mode = (int)numbers[MODE],
      .padding = (int)numbers[PADDING],
      .aligns = numbers[ALIGNS] != 0,
      .cubic = (float)numbers[CUBIC],
      .out = (float *)call->buffers[0] + (ptrdiff_t)at[0],
      .x = (const float *)call->buffers[1] + (ptrdiff_t)at[1],
      .grid = (const float *)call->buffers[2] + (ptrdiff_t)at[2],
      .places = 1,
      .plane = 1,
  };
  for (int i = 0; i < AXES; i++) {
    ctx.size[i] = (ptrdiff_t)numbers[SIZES + i];
    ctx.plane *= ctx.size[i];
    ctx.places *= (ptrdiff_t)numbers[GRID + i];
  }
  if (ctx.rank < 1 || ctx.rank > AXES) {
    return rm_fail(RM_BAD_ARGUMENT, "gridSample of %td axes", ctx.rank);
  }
  if (ctx.images < 1 || ctx.channels < 1 || ctx.places < 1 || ctx.plane < 1) return RM_OK;
  double corners = 1;
  for (ptrdiff_t i = 0; i < ctx.rank; i++) {
    corners *= ctx.mode == MODE_CUBIC ? 4 : ctx.mode == MODE_LINEAR ? 2 : 1;
  }
  const double places = (double)ctx.images * (double)ctx.places;
  rm_parallel(ctx.images * rm_ceil_div(ctx.places, TASK_PLACES),
              places * (PLACE_NS + SUM_NS * corners * (double)ctx.channels), sample_task, &ctx);
  return RM_OK;
}
