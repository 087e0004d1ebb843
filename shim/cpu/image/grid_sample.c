/*
 * Samples of images and volumes at places of a grid.
 *
 * For a block of places, the elements around each and their weights are found once, for all channels.
 */
#include <math.h>
#include "internal.h"

enum { AXES = 3, MOST_TAPS = 4, MOST_CORNERS = 64, TASK_PLACES = 64 };

enum { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC };
enum { PADDING_ZEROS, PADDING_BORDER, PADDING_REFLECTION };

/* The numbers of a call: images, channels, axes, the sizes of x and of the grid along the three of
 * them, 1 for those that lack. */
enum { IMAGES, CHANNELS, RANK, MODE, PADDING, ALIGNS, CUBIC, SIZES, GRID = SIZES + AXES, OFFSETS = GRID + AXES };

static const double PLACE_NS = 20, SUM_NS = 0.4;

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

/* The elements of a plane, -1 for zeros, and weights of each of a block of places. */
typedef struct {
  int corners;
  bool has_zeros;
  int32_t offsets[MOST_CORNERS][TASK_PLACES];
  float weights[MOST_CORNERS][TASK_PLACES];
} place_block;

/* Finds the elements for place i of a block. */
static void find_corners(const sample_context *ctx, const float *place, place_block *to,
                         ptrdiff_t i) {
  axis_taps taps[AXES];
  for (ptrdiff_t axis = 0; axis < AXES; axis++) {
    /* The last number of a place is that of the first axis. */
    const ptrdiff_t number = AXES - 1 - axis;
    if (number < ctx->rank) find_taps(ctx, place[number], ctx->size[axis], &taps[axis]);
    else taps[axis] = (axis_taps){.count = 1, .index = {0}, .weight = {1}};
  }
  int count = 0;
  for (int p = 0; p < taps[0].count; p++) {
    for (int q = 0; q < taps[1].count; q++) {
      for (int r = 0; r < taps[2].count; r++) {
        const ptrdiff_t z = taps[0].index[p], y = taps[1].index[q], w = taps[2].index[r];
        const bool is_zero = z < 0 || y < 0 || w < 0;
        to->offsets[count][i] = is_zero ? -1 : (int32_t)((z * ctx->size[1] + y) * ctx->size[2] + w);
        to->has_zeros |= is_zero;
        to->weights[count++][i] = taps[0].weight[p] * taps[1].weight[q] * taps[2].weight[r];
      }
    }
  }
  to->corners = count;
}

/* The elements at a corner of all places, or zeros, by their weights, added to sums. */
static void add_corner(const float *plane, const int32_t *offsets, const float *weights,
                       ptrdiff_t n, bool adds, float *sums) {
  RM_SCALAR for (ptrdiff_t i = 0; i < n; i++) {
    const int32_t at = offsets[i];
    const float x = at < 0 ? 0 : plane[at];
    sums[i] = (adds ? sums[i] : 0) + x * weights[i];
  }
}

/* The samples of a plane at places with four corners, none of which are zeros. Gathers of vectors would
 * take longer. */
static void sample_four(const float *plane, const place_block *block, ptrdiff_t n, float *out) {
  const int32_t(*at)[TASK_PLACES] = block->offsets;
  const float(*w)[TASK_PLACES] = block->weights;
  _Pragma("clang loop vectorize(disable) unroll_count(2)") for (ptrdiff_t i = 0; i < n; i++) {
    out[i] = (plane[at[0][i]] * w[0][i] + plane[at[1][i]] * w[1][i]) +
             (plane[at[2][i]] * w[2][i] + plane[at[3][i]] * w[3][i]);
  }
}

static void sample_task(void *context, ptrdiff_t index) {
  const sample_context *ctx = context;
  const ptrdiff_t parts = rm_ceil_div(ctx->places, TASK_PLACES), image = index / parts;
  const ptrdiff_t first = index % parts * TASK_PLACES;
  const ptrdiff_t count = rm_min(TASK_PLACES, ctx->places - first);
  place_block block;
  block.has_zeros = false;
  const float *grid = ctx->grid + (image * ctx->places + first) * ctx->rank;
  for (ptrdiff_t i = 0; i < count; i++) find_corners(ctx, grid + i * ctx->rank, &block, i);
  for (ptrdiff_t c = 0; c < ctx->channels; c++) {
    const ptrdiff_t channel = image * ctx->channels + c;
    const float *plane = ctx->x + channel * ctx->plane;
    float *out = ctx->out + channel * ctx->places + first;
    if (block.corners == 4 && !block.has_zeros) {
      sample_four(plane, &block, count, out);
      continue;
    }
    for (int k = 0; k < block.corners; k++) {
      add_corner(plane, block.offsets[k], block.weights[k], count, k > 0, out);
    }
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
  if (ctx.plane > INT32_MAX) return RM_UNSUPPORTED;
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
