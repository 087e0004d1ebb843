/*
 * The derivatives of attention by queries, keys and values, without a matrix of all scores.
 *
 * A task is a problem: all queries that use one head of keys and values. It computes the scores of a
 * block of queries again and all that follows from them, by the kernels of matrix products on copies of
 * the operands, whose rows are padded with zeros to whole vectors. Keys beyond the causal limit of a
 * block are not read.
 */
#include <string.h>
#include "attention_context.h"

#if defined(__x86_64__) && !defined(__AVX2__)

/* Machines without AVX are not worth a third copy (docs/adr/0028-room-in-the-packages.md). */
int32_t RM_FOR_ISA(attention_backward)(const rm_call *call) {
  (void)call;
  return RM_UNSUPPORTED;
}

#else

/* What divides the work between loops. */
#define SMALL __attribute__((minsize, noinline))

enum {
  /* The queries of a block: a multiple of MR. */
  BLOCK = 48,
  OUT = 0,
  QUERIES,
  KEYS,
  VALUES,
  GIVEN,
  BY_KEYS,
  BY_VALUES,
  OPERANDS,
  STRIDES = 3
};

_Static_assert(BLOCK % MR == 0 && PANEL >= MR, "sizes of blocks");
_Static_assert(RM_ATTENTION_BACKWARD_AT_NUMBERS == RM_ATTENTION_BACKWARD_AT_STRIDES + STRIDES * OPERANDS,
               "numbers of attentionBackward");

typedef struct {
  const gemm_kernels *kernels;
  ptrdiff_t group_size, m, n, d, dv;
  /* The distances between rows of scores, and between copied rows of d and of dv columns. */
  ptrdiff_t pitch, d_pitch, dv_pitch;
  float scale;
  bool causal;
  head_operand operands[OPERANDS];
  char *workspace;
  ptrdiff_t workspace_bytes;
  atomic_flag *slot_taken;
  int slots;
} backward_context;

/* The parts of the memory of a task. */
enum {
  /* Keys and values in panels of PANEL of them, and rows of keys. */
  KEY_PANELS,
  VALUE_PANELS,
  KEY_ROWS,
  /* The derivatives by keys and values. */
  KEY_SUMS,
  VALUE_SUMS,
  /* Of a block: the scaled queries, the given derivatives, those by queries, the shares of keys, and the
   * derivatives by scores. */
  QUERY_ROWS,
  GIVEN_ROWS,
  QUERY_SUMS,
  SHARES,
  SCORES,
  PARTS
};

/* Places the parts; returns their bytes. */
SMALL static ptrdiff_t place_parts(const backward_context *ctx, char *at, float **parts) {
  const ptrdiff_t d = ctx->d_pitch, dv = ctx->dv_pitch, n = ctx->pitch;
  const ptrdiff_t columns[PARTS] = {ctx->d, ctx->dv, d, d, dv, d, dv, d, n, n};
  char *end = at;
  for (int i = 0; i < PARTS; i++) parts[i] = take_floats(&end, columns[i] * (i < QUERY_ROWS ? n : BLOCK));
  return end - at;
}

/* A row of an operand: that of a head of a group. */
static float *row_at(const head_operand *x, ptrdiff_t problem, ptrdiff_t head, ptrdiff_t row) {
  return (float *)x->data + (ptrdiff_t)x->at[problem] + head * x->strides.group +
         row * x->strides.row;
}

/* Copies rows, times a factor, and pads each with zeros. */
static void load_rows(const head_operand *x, ptrdiff_t problem, ptrdiff_t head, ptrdiff_t first,
                      ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t pitch, float by, float *to) {
  for (ptrdiff_t r = 0; r < rows; r++, to += pitch) {
    const float *from = row_at(x, problem, head, first + r);
    const ptrdiff_t stride = x->strides.column;
    ptrdiff_t c = 0;
    for (; stride == 1 && c + LANES <= columns; c += LANES) {
      *(v_f32 *)(to + c) = *(const v_f32 *)(from + c) * SPLAT(by);
    }
    RM_SCALAR for (; c < columns; c++) to[c] = from[c * stride] * by;
    RM_SCALAR for (; c < pitch; c++) to[c] = 0;
  }
}

/* Writes rows of an operand, which are contiguous, times a factor. */
static void store_rows(const head_operand *x, ptrdiff_t problem, ptrdiff_t head, ptrdiff_t first,
                       ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t pitch, float by, const float *from) {
  for (ptrdiff_t r = 0; r < rows; r++, from += pitch) {
    float *to = row_at(x, problem, head, first + r);
    ptrdiff_t c = 0;
    for (; c + LANES <= columns; c += LANES) {
      *(v_f32 *)(to + c) = *(const v_f32 *)(from + c) * SPLAT(by);
    }
    RM_SCALAR for (; c < columns; c++) to[c] = from[c] * by;
  }
}

/* Rows as columns of panels, each [columns][PANEL]. */
SMALL static void pack_panels(const backward_context *ctx, float *to, const float *rows, ptrdiff_t columns,
                        ptrdiff_t pitch) {
  for (ptrdiff_t j = 0; j < ctx->n; j += PANEL) {
    ctx->kernels->pack_b(to + j * columns, rows + j * pitch, rm_min(PANEL, ctx->n - j), columns, pitch,
                         1);
  }
}

/* The distances between rows of a, panels of b, and steps of the sum in a and b. */
typedef struct {
  ptrdiff_t row, a_step, panel, b_step;
} product_strides;

/* c = a b, of whole tiles, or c += a b if a is transposed. */
SMALL static void multiply(const backward_context *ctx, ptrdiff_t rows, ptrdiff_t columns,
                           ptrdiff_t depth, const float *a, const float *b, const product_strides *by,
                           float *c, ptrdiff_t pitch) {
  for (ptrdiff_t j = 0; j < columns; j += PANEL) {
    for (ptrdiff_t i = 0; i < rows; i += MR) {
      ctx->kernels->tile[0](depth, a + i * by->row, by->row, by->a_step, b + j / PANEL * by->panel,
                            by->b_step, c + i * pitch + j, pitch, by->row == 1);
    }
  }
}

/* Replaces scores of a row by shares, and derivatives by shares by those by scores. The row sees `seen`
 * keys; those up to `end` get zeros. */
static void differentiate_row(float *scores, float *by, ptrdiff_t seen, ptrdiff_t end) {
  const ptrdiff_t vectors = rm_round_up(seen, LANES);
  const ptrdiff_t last = end > vectors ? end : vectors;
  RM_SCALAR for (ptrdiff_t j = seen; j < last; j++) {
    scores[j] = j < vectors ? -__builtin_inff() : 0;
    by[j] = 0;
  }
  v_f32 largest = SPLAT(-__builtin_inff()), total = SPLAT(0), weighted = SPLAT(0);
  for (ptrdiff_t j = 0; j < vectors; j += LANES) {
    const v_f32 s = *(const v_f32 *)(scores + j);
    largest = MAX_OF(largest, s);
  }
  float max = largest[0];
  ROLLED for (int i = 1; i < LANES; i++) max = MAX_OF(max, largest[i]);
  const v_f32 less = subtrahend(SPLAT(max));
  for (ptrdiff_t j = 0; j < vectors; j += LANES) {
    v_f32 *s = (v_f32 *)(scores + j);
    *s = exp_nonpositive(*s - less);
    total += *s;
    weighted += *s * *(const v_f32 *)(by + j);
  }
  const float sum = SUM_LANES_32(total), inverse = sum == 0 ? 0 : 1 / sum;
  const v_f32 mean = SPLAT(SUM_LANES_32(weighted) * inverse);
  for (ptrdiff_t j = 0; j < vectors; j += LANES) {
    v_f32 *s = (v_f32 *)(scores + j), *d = (v_f32 *)(by + j);
    *s *= SPLAT(inverse);
    *d = *s * (*d - mean);
  }
}

/* A block of queries of one head. */
SMALL static void differentiate_block(const backward_context *ctx, float *const *parts,
                                ptrdiff_t problem, ptrdiff_t head, ptrdiff_t first) {
  const head_operand *x = ctx->operands;
  const ptrdiff_t rows = rm_min(BLOCK, ctx->m - first), whole = rm_round_up(rows, MR);
  const ptrdiff_t pitch = ctx->pitch, d = ctx->d_pitch, dv = ctx->dv_pitch;
  /* The keys that a row sees, less its number. */
  const ptrdiff_t limit = ctx->n - ctx->m + first + 1;
  const ptrdiff_t last = ctx->causal ? limit + rows - 1 : ctx->n, seen = last < 0 ? 0 : last;
  const ptrdiff_t panels = rm_round_up(seen, PANEL), keys = rm_round_up(seen, MR);
  load_rows(&x[QUERIES], problem, head, first, rows, ctx->d, d, ctx->scale, parts[QUERY_ROWS]);
  load_rows(&x[GIVEN], problem, head, first, rows, ctx->dv, dv, 1, parts[GIVEN_ROWS]);
  const product_strides by[] = {{d, 1, PANEL * ctx->d, PANEL},
                                {dv, 1, PANEL * ctx->dv, PANEL},
                                {1, pitch, PANEL, dv},
                                {1, pitch, PANEL, d},
                                {pitch, 1, PANEL, d}};
  multiply(ctx, whole, panels, ctx->d, parts[QUERY_ROWS], parts[KEY_PANELS], &by[0], parts[SHARES],
           pitch);
  multiply(ctx, whole, panels, ctx->dv, parts[GIVEN_ROWS], parts[VALUE_PANELS], &by[1],
           parts[SCORES], pitch);
  for (ptrdiff_t r = 0; r < rows; r++) {
    const ptrdiff_t own = ctx->causal ? limit + r : ctx->n;
    differentiate_row(parts[SHARES] + r * pitch, parts[SCORES] + r * pitch, own < 0 ? 0 : own,
                      keys);
  }
  multiply(ctx, keys, dv, rows, parts[SHARES], parts[GIVEN_ROWS], &by[2], parts[VALUE_SUMS], dv);
  multiply(ctx, keys, d, rows, parts[SCORES], parts[QUERY_ROWS], &by[3], parts[KEY_SUMS], d);
  multiply(ctx, whole, d, seen, parts[SCORES], parts[KEY_ROWS], &by[4], parts[QUERY_SUMS], d);
  store_rows(&x[OUT], problem, head, first, rows, ctx->d, d, ctx->scale, parts[QUERY_SUMS]);
}

SMALL static void backward_task(void *context, ptrdiff_t problem) {
  const backward_context *ctx = context;
  const head_operand *x = ctx->operands;
  const int slot = take_slot(ctx->slot_taken, ctx->slots);
  char *at = ctx->workspace + slot * ctx->workspace_bytes;
  float *parts[PARTS];
  place_parts(ctx, at, parts);
  const ptrdiff_t d = ctx->d_pitch, dv = ctx->dv_pitch;
  load_rows(&x[KEYS], problem, 0, 0, ctx->n, ctx->d, d, 1, parts[KEY_ROWS]);
  pack_panels(ctx, parts[KEY_PANELS], parts[KEY_ROWS], ctx->d, d);
  load_rows(&x[VALUES], problem, 0, 0, ctx->n, ctx->dv, dv, 1, parts[VALUE_SUMS]);
  pack_panels(ctx, parts[VALUE_PANELS], parts[VALUE_SUMS], ctx->dv, dv);
  memset(parts[KEY_SUMS], 0, (size_t)(rm_round_up(ctx->n, MR) * d) * sizeof *parts[KEY_SUMS]);
  memset(parts[VALUE_SUMS], 0, (size_t)(rm_round_up(ctx->n, MR) * dv) * sizeof *parts[VALUE_SUMS]);
  for (ptrdiff_t head = 0; head < ctx->group_size; head++) {
    for (ptrdiff_t first = 0; first < ctx->m; first += BLOCK) {
      differentiate_block(ctx, parts, problem, head, first);
    }
  }
  store_rows(&x[BY_KEYS], problem, 0, 0, ctx->n, ctx->d, d, 1, parts[KEY_SUMS]);
  store_rows(&x[BY_VALUES], problem, 0, 0, ctx->n, ctx->dv, dv, 1, parts[VALUE_SUMS]);
  atomic_flag_clear(&ctx->slot_taken[slot]);
}

__attribute__((minsize)) int32_t RM_FOR_ISA(attention_backward)(const rm_call *call) {
  const double *numbers = call->numbers;
  const ptrdiff_t problems = (ptrdiff_t)numbers[RM_ATTENTION_BACKWARD_AT_BATCH];
  backward_context ctx = {
      .kernels = RM_FOR_ISA(gemm_kernels)(RM_FLOAT32),
      .group_size = (ptrdiff_t)numbers[RM_ATTENTION_BACKWARD_AT_GROUP_SIZE],
      .m = (ptrdiff_t)numbers[RM_ATTENTION_BACKWARD_AT_QUERIES],
      .n = (ptrdiff_t)numbers[RM_ATTENTION_BACKWARD_AT_KEYS],
      .d = (ptrdiff_t)numbers[RM_ATTENTION_BACKWARD_AT_DEPTH],
      .dv = (ptrdiff_t)numbers[RM_ATTENTION_BACKWARD_AT_VALUE_DEPTH],
      .scale = (float)numbers[RM_ATTENTION_BACKWARD_AT_SCALE],
      .causal = numbers[RM_ATTENTION_BACKWARD_AT_CAUSAL] != 0,
  };
  for (int i = 0; i < OPERANDS; i++) {
    if (i >= call->operands || call->dtypes[i] != RM_FLOAT32) return RM_UNSUPPORTED;
    if (call->buffers[i] == NULL) {
      return rm_fail(RM_BAD_ARGUMENT, "attentionBackward without operand %d", i);
    }
    const double *strides = numbers + RM_ATTENTION_BACKWARD_AT_STRIDES + i * STRIDES;
    ctx.operands[i] = (head_operand){
        .dtype = RM_FLOAT32,
        .data = call->buffers[i],
        .strides = {.group = (ptrdiff_t)strides[0],
                    .row = (ptrdiff_t)strides[1],
                    .column = (ptrdiff_t)strides[2]},
        .at = numbers + RM_ATTENTION_BACKWARD_AT_NUMBERS + i * problems,
    };
  }
  if (problems < 1 || ctx.n < 1 || ctx.m < 1 || ctx.d < 1 || ctx.dv < 1) return RM_UNSUPPORTED;
  ctx.d_pitch = rm_round_up(ctx.d, PANEL);
  ctx.dv_pitch = rm_round_up(ctx.dv, PANEL);
  /* Rows in one set of the L1 cache would displace each other. */
  ctx.pitch = rm_round_up(ctx.n, PANEL) + PANEL;
  if (ctx.pitch * (ptrdiff_t)sizeof(float) % L1_WAY_BYTES == 0) ctx.pitch += PANEL;
  /* An address, as arithmetic on a null pointer is undefined. */
  char *const start = (char *)(uintptr_t)ALIGNMENT;
  float *parts[PARTS];
  ctx.workspace_bytes = place_parts(&ctx, start, parts);
  ctx.slots = (int)rm_min(rm_threads(), problems);
  gemm_workspace *workspace =
      RM_FOR_ISA(workspace_alloc)((size_t)(ctx.slots * ctx.workspace_bytes), ctx.slots);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for attentionBackward");
  ctx.workspace = workspace->data;
  ctx.slot_taken = workspace->slot_taken;
  const double scores = (double)problems * (double)(ctx.group_size * ctx.m) * (double)ctx.n;
  const double columns = 3 * (double)ctx.d + 2 * (double)ctx.dv;
  rm_parallel(problems, scores * columns / LANES / VECTOR_FMAS_PER_NS, backward_task, &ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}

#endif
