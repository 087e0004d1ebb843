/*
 * The steps of recurrent layers: LSTM, GRU and plain ones.
 *
 * The products with the inputs of all steps exist before. A task computes all steps of some rows of the
 * batch in one direction: for each step the product of the state and the recurrent weight, then the gates.
 * A single row multiplies the rows of the weight in place; several rows share panels of it, which are
 * packed once for all steps. Sizes alone decide which, so that results do not depend on threads.
 *
 * A weight of an LSTM may be groups of bytes (byte_groups.h) with a scale for each column. Each row of the
 * state is rounded to bytes by its own range then.
 */
#include <math.h>
#include "byte_groups.h"
#include "byte_rounding.h"
#include "gemm_vectors.h"
#include "map_context.h"

enum { LANES = VECTOR_BYTES / 4, PANEL = 2 * LANES, TASK_ROWS = MR };

/* The kinds of layers. */
enum { CELL_LSTM, CELL_GRU, CELL_PLAIN };

/* The numbers of a call. */
enum {
  STEPS,
  BATCH,
  SIZE,
  CELL,
  DIRECTIONS,
  /* A bit for each direction that runs from the last step to the first. */
  REVERSED,
  /* The limit of what activations get; 0 for none. */
  CLIP,
  /* Of a GRU: whether the new gate multiplies the product, not the state. */
  RESETS_AFTER,
  /* Of an LSTM: whether the forget gate is 1 less the input gate. */
  COUPLED,
  /* The places of the gates: input, output, forget, cell; or update, reset, new. */
  GATES,
  /* Three activations for each direction. */
  ACTIVATIONS = GATES + 4,
  /* Offsets of out, products, weight, first states, last states, peepholes, bias, lengths and scales. */
  OFFSETS = ACTIVATIONS + 6,
  /* The buffers of the last four; -1 for none. */
  OPTIONAL = OFFSETS + 9
};

enum { GATE_INPUT, GATE_OUTPUT, GATE_FORGET, GATE_CELL };
enum { GATE_UPDATE, GATE_RESET, GATE_NEW };

typedef struct {
  const gemm_kernels *kernels;
  ptrdiff_t steps, batch, size, directions, gates;
  int cell, reversed;
  float clip;
  bool resets_after, coupled;
  ptrdiff_t gate[4];
  /* The rows of the weight whose product comes first, and all with their padding. */
  ptrdiff_t first_rows, columns;
  map_op activations[2][3];
  const float *products, *weight, *initial, *peepholes, *bias, *scales;
  const int32_t *lengths;
  /* The weight as groups of bytes, with scales; and the bytes of a direction. */
  const uint8_t *groups;
  ptrdiff_t group_bytes;
  float *out, *final;
  /* Packed rows of the weight, for each direction; null for a single row. */
  float *panels;
  char *workspace;
  ptrdiff_t workspace_bytes;
  atomic_flag *slot_taken;
  int slots;
} recurrent_context;

/* The rows of a task, which share a direction. */
typedef struct {
  ptrdiff_t direction, first, rows;
  /* [rows, size] each: the states, the cells, and what is multiplied by the weight. */
  float *state, *cell, *other;
  /* [rows, columns]. */
  float *sums;
  /* For a weight of bytes: the bytes of the states, and what their products need. */
  uint8_t *bytes;
  char *room;
} recurrent_rows;

/* The rows of the weight that a panel begins at, and how many there are. */
static ptrdiff_t panel_rows(const recurrent_context *ctx, ptrdiff_t panel, ptrdiff_t *row) {
  const ptrdiff_t split = rm_round_up(ctx->first_rows, PANEL), at = panel * PANEL;
  *row = at < split ? at : ctx->first_rows + at - split;
  const ptrdiff_t end = at < split ? ctx->first_rows : ctx->gates * ctx->size;
  return rm_min(PANEL, end - *row);
}

static void pack_task(void *context, ptrdiff_t index) {
  const recurrent_context *ctx = context;
  const ptrdiff_t count = ctx->columns / PANEL, size = ctx->size;
  ptrdiff_t row;
  const ptrdiff_t rows = panel_rows(ctx, index % count, &row);
  const float *from = ctx->weight + (index / count * ctx->gates * size + row) * size;
  float *to = ctx->panels + index * PANEL * size;
  for (ptrdiff_t j = 0; j < PANEL; j++) {
    if (j < rows) {
      RM_SCALAR for (ptrdiff_t k = 0; k < size; k++) to[k * PANEL + j] = from[j * size + k];
    } else {
      RM_SCALAR for (ptrdiff_t k = 0; k < size; k++) to[k * PANEL + j] = 0;
    }
  }
}

/* The product of the states with a weight of bytes. */
static void multiply_bytes(const recurrent_context *ctx, const recurrent_rows *own) {
  const ptrdiff_t size = ctx->size, columns = ctx->columns;
  int32_t zeros[TASK_ROWS];
  float factors[TASK_ROWS];
  for (ptrdiff_t r = 0; r < own->rows; r++) {
    const float *from = own->state + r * size;
    const byte_rounding rounding = rounding_of(range_of(from, size));
    round_bytes(rounding, from, size, own->bytes + r * size);
    zeros[r] = (int32_t)rounding.zero;
    factors[r] = rounding.scale;
  }
  RM_FOR_ISA(multiply_byte_rows)(own->rows, columns, size, own->bytes, zeros,
                                 ctx->groups + own->direction * ctx->group_bytes, own->room,
                                 (int32_t *)(void *)own->sums);
  const float *scales = ctx->scales + own->direction * columns;
  for (ptrdiff_t r = 0; r < own->rows; r++) {
    float *to = own->sums + r * columns;
    const int32_t *from = (const int32_t *)(const void *)to;
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < columns; i++) {
      to[i] = (float)from[i] * (factors[r] * scales[i]);
    }
  }
}

/* The product of rows [rows, size] with the first rows of the weight, or with the other ones. */
static void multiply(const recurrent_context *ctx, const recurrent_rows *own, const float *rows,
                     bool others) {
  if (ctx->groups != NULL) {
    multiply_bytes(ctx, own);
    return;
  }
  const ptrdiff_t size = ctx->size, all = ctx->gates * size;
  const ptrdiff_t split = rm_round_up(ctx->first_rows, PANEL);
  const ptrdiff_t begin = others ? split : 0, end = others ? ctx->columns : split;
  if (ctx->panels == NULL) {
    const ptrdiff_t row = others ? ctx->first_rows : 0;
    const ptrdiff_t count = (others ? all : ctx->first_rows) - row;
    float *sums = own->sums + begin;
    memset(sums, 0, (size_t)count * sizeof *sums);
    ctx->kernels->gemv_dot(count, size, ctx->weight + (own->direction * all + row) * size, size, rows,
                           sums);
    return;
  }
  const float *panels = ctx->panels + own->direction * ctx->columns * size;
  for (ptrdiff_t at = begin; at < end; at += PANEL) {
    const float *panel = panels + at * size;
    for (ptrdiff_t i = 0; i < own->rows;) {
      float *to = own->sums + i * ctx->columns + at;
      if (own->rows - i >= MR) {
        ctx->kernels->tile[0](size, rows + i * size, size, 1, panel, PANEL, to, ctx->columns, false);
        i += MR;
        continue;
      }
      const void *four[SMALL_MR];
      for (ptrdiff_t r = 0; r < SMALL_MR; r++) {
        four[r] = rows + rm_min(i + r, own->rows - 1) * size;
      }
      ctx->kernels->rows4[0](size, four, 1, panel, PANEL, to, ctx->columns, false);
      i += SMALL_MR;
    }
  }
}

/* Limits n numbers, then applies an activation. */
static void activate(const recurrent_context *ctx, const map_op *op, float *x, ptrdiff_t n) {
  if (ctx->clip > 0) {
    const float most = ctx->clip, least = -most;
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
      const float low = x[i] < least ? least : x[i];
      x[i] = low > most ? most : low;
    }
  }
  run_function(op, n, (char *)x, (const char *)x, NULL, NULL);
}

static void add_run(float *to, const float *from, ptrdiff_t n) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) to[i] += from[i];
}

static void add_products(float *to, const float *p, const float *q, ptrdiff_t n) {
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) to[i] += p[i] * q[i];
}

/* The gates of an LSTM for one row, whose sums become those with the input's product. */
static void lstm_row(const recurrent_context *ctx, const recurrent_rows *own, const float *input,
                     float *sums, float *cell, float *state) {
  const ptrdiff_t n = ctx->size;
  const map_op *f = ctx->activations[own->direction];
  const float *peephole = ctx->peepholes == NULL ? NULL : ctx->peepholes + own->direction * 3 * n;
  float *in = sums + ctx->gate[GATE_INPUT] * n, *out = sums + ctx->gate[GATE_OUTPUT] * n;
  float *forget = sums + ctx->gate[GATE_FORGET] * n, *made = sums + ctx->gate[GATE_CELL] * n;
  add_run(sums, input, 4 * n);
  if (peephole != NULL) {
    add_products(in, peephole, cell, n);
    add_products(forget, peephole + 2 * n, cell, n);
  }
  activate(ctx, &f[0], in, n);
  if (!ctx->coupled) activate(ctx, &f[0], forget, n);
  activate(ctx, &f[1], made, n);
  if (ctx->coupled) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) forget[i] = 1 - in[i];
  }
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    cell[i] = forget[i] * cell[i] + in[i] * made[i];
  }
  if (peephole != NULL) add_products(out, peephole + n, cell, n);
  activate(ctx, &f[0], out, n);
  run_function(&f[2], n, (char *)made, (const char *)cell, NULL, NULL);
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) state[i] = out[i] * made[i];
}

/* The update and reset gates of a GRU for one row. */
static void gru_gates(const recurrent_context *ctx, const recurrent_rows *own, const float *input,
                      float *sums) {
  const ptrdiff_t n = ctx->size;
  add_run(sums, input, 2 * n);
  activate(ctx, &ctx->activations[own->direction][0], sums, 2 * n);
}

/* The new gate, and the state; `sums` are those of the new gate's rows of the weight. */
static void gru_row(const recurrent_context *ctx, const recurrent_rows *own, const float *input,
                    const float *gates, float *sums, float *state) {
  const ptrdiff_t n = ctx->size;
  const float *update = gates + ctx->gate[GATE_UPDATE] * n;
  const float *reset = gates + ctx->gate[GATE_RESET] * n;
  if (ctx->bias != NULL) add_run(sums, ctx->bias + own->direction * n, n);
  if (ctx->resets_after) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) sums[i] *= reset[i];
  }
  add_run(sums, input + ctx->gate[GATE_NEW] * n, n);
  activate(ctx, &ctx->activations[own->direction][1], sums, n);
  RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
    state[i] = (1 - update[i]) * sums[i] + update[i] * state[i];
  }
}

/* One step of the rows of a task. */
static void step(const recurrent_context *ctx, const recurrent_rows *own, ptrdiff_t t) {
  const ptrdiff_t n = ctx->size, all = ctx->gates * n, columns = ctx->columns;
  const ptrdiff_t row = t * ctx->batch + own->first;
  const float *inputs = ctx->products + (row * ctx->directions + own->direction) * all;
  const ptrdiff_t input_stride = ctx->directions * all;
  float *out = ctx->out + (row * ctx->directions + own->direction) * n;
  multiply(ctx, own, own->state, false);
  if (ctx->cell == CELL_GRU) {
    for (ptrdiff_t r = 0; r < own->rows; r++) {
      float *sums = own->sums + r * columns;
      gru_gates(ctx, own, inputs + r * input_stride, sums);
      if (ctx->resets_after) continue;
      const float *reset = sums + ctx->gate[GATE_RESET] * n, *state = own->state + r * n;
      float *other = own->other + r * n;
      RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) other[i] = reset[i] * state[i];
    }
    if (!ctx->resets_after) multiply(ctx, own, own->other, true);
  }
  const ptrdiff_t split = rm_round_up(ctx->first_rows, PANEL);
  for (ptrdiff_t r = 0; r < own->rows; r++) {
    float *to = out + r * ctx->directions * n, *state = own->state + r * n;
    if (ctx->lengths != NULL && t >= ctx->lengths[own->first + r]) {
      memset(to, 0, (size_t)n * sizeof *to);
      continue;
    }
    float *sums = own->sums + r * columns;
    const float *input = inputs + r * input_stride;
    if (ctx->cell == CELL_LSTM) lstm_row(ctx, own, input, sums, own->cell + r * n, state);
    else if (ctx->cell == CELL_GRU) {
      gru_row(ctx, own, input, sums, sums + (ctx->resets_after ? 2 * n : split), state);
    } else {
      add_run(sums, input, n);
      activate(ctx, &ctx->activations[own->direction][0], sums, n);
      memcpy(state, sums, (size_t)n * sizeof *state);
    }
    memcpy(to, state, (size_t)n * sizeof *to);
  }
}

/* All steps of some rows in one direction. */
static void rows_task(void *context, ptrdiff_t index) {
  recurrent_context *ctx = context;
  const ptrdiff_t n = ctx->size, parts = rm_ceil_div(ctx->batch, TASK_ROWS);
  const int slot = take_slot(ctx->slot_taken, ctx->slots);
  float *room = (float *)(void *)(ctx->workspace + slot * ctx->workspace_bytes);
  recurrent_rows own = {.direction = index / parts, .first = index % parts * TASK_ROWS};
  own.rows = rm_min(TASK_ROWS, ctx->batch - own.first);
  own.state = room;
  own.cell = own.state + TASK_ROWS * n;
  own.other = own.cell + TASK_ROWS * n;
  own.sums = own.other + TASK_ROWS * n;
  if (ctx->groups != NULL) {
    own.bytes = (uint8_t *)(own.sums + rm_round_up(TASK_ROWS, SMALL_MR) * ctx->columns);
    own.room = (char *)room + ctx->workspace_bytes - RM_FOR_ISA(byte_rows_room)(TASK_ROWS, n);
  }
  const ptrdiff_t states = ctx->directions * ctx->batch * n;
  const ptrdiff_t at = (own.direction * ctx->batch + own.first) * n;
  const size_t bytes = (size_t)(own.rows * n) * sizeof *room;
  memcpy(own.state, ctx->initial + at, bytes);
  if (ctx->cell == CELL_LSTM) memcpy(own.cell, ctx->initial + states + at, bytes);
  const bool reversed = (ctx->reversed >> own.direction & 1) != 0;
  for (ptrdiff_t k = 0; k < ctx->steps; k++) {
    step(ctx, &own, reversed ? ctx->steps - 1 - k : k);
  }
  memcpy(ctx->final + at, own.state, bytes);
  if (ctx->cell == CELL_LSTM) memcpy(ctx->final + states + at, own.cell, bytes);
  atomic_flag_clear(&ctx->slot_taken[slot]);
}

/* Finds the operands of a call. */
static int32_t find_operands(const rm_call *call, recurrent_context *ctx) {
  const double *numbers = call->numbers, *at = numbers + OFFSETS;
  const bool has_scales = numbers[OPTIONAL + 3] >= 0;
  for (int i = 0; i < 5; i++) {
    const int wanted = has_scales && i == 2 ? RM_INT8 : RM_FLOAT32;
    if (i >= call->operands || call->dtypes[i] != wanted) return RM_UNSUPPORTED;
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "recurrent without operand %d", i);
  }
  ctx->out = (float *)call->buffers[0] + (ptrdiff_t)at[0];
  ctx->products = (const float *)call->buffers[1] + (ptrdiff_t)at[1];
  if (has_scales) ctx->groups = (const uint8_t *)call->buffers[2] + (ptrdiff_t)at[2];
  else ctx->weight = (const float *)call->buffers[2] + (ptrdiff_t)at[2];
  ctx->initial = (const float *)call->buffers[3] + (ptrdiff_t)at[3];
  ctx->final = (float *)call->buffers[4] + (ptrdiff_t)at[4];
  const int lengths = (int)numbers[OPTIONAL + 2];
  const bool has_lengths = lengths >= 0;
  if (!rm_optional_f32(call, numbers[OPTIONAL], at[5], &ctx->peepholes) ||
      !rm_optional_f32(call, numbers[OPTIONAL + 1], at[6], &ctx->bias) ||
      !rm_optional_f32(call, numbers[OPTIONAL + 3], at[8], &ctx->scales) ||
      (has_lengths && (lengths >= call->operands || call->dtypes[lengths] != RM_INT32 ||
                       call->buffers[lengths] == NULL))) {
    return rm_fail(RM_BAD_ARGUMENT, "recurrent without its peepholes, bias, lengths or scales");
  }
  ctx->lengths =
      has_lengths ? (const int32_t *)call->buffers[lengths] + (ptrdiff_t)at[7] : NULL;
  for (ptrdiff_t i = 0; i < ctx->directions * 3; i++) {
    const int activation = (int)numbers[ACTIVATIONS + i];
    if (activation == RM_ACTIVATION_NONE || !has_activation(activation)) {
      return rm_fail(RM_BAD_ARGUMENT, "recurrent with activation %d", activation);
    }
    const int32_t status = RM_FOR_ISA(find_map_op)(&ctx->activations[i / 3][i % 3],
                                                   activation_op(activation), RM_FLOAT32, NULL);
    if (status != RM_OK) return status;
  }
  return RM_OK;
}

int32_t RM_FOR_ISA(recurrent)(const rm_call *call) {
  const double *numbers = call->numbers;
  recurrent_context ctx = {
      .kernels = RM_FOR_ISA(gemm_kernels)(RM_FLOAT32),
      .steps = (ptrdiff_t)numbers[STEPS],
      .batch = (ptrdiff_t)numbers[BATCH],
      .size = (ptrdiff_t)numbers[SIZE],
      .directions = (ptrdiff_t)numbers[DIRECTIONS],
      .cell = (int)numbers[CELL],
      .reversed = (int)numbers[REVERSED],
      .clip = (float)numbers[CLIP],
      .resets_after = numbers[RESETS_AFTER] != 0,
      .coupled = numbers[COUPLED] != 0,
  };
  if (ctx.directions < 1 || ctx.directions > 2 || ctx.cell < CELL_LSTM || ctx.cell > CELL_PLAIN) {
    return rm_fail(RM_BAD_ARGUMENT, "recurrent of %td directions and cell %d", ctx.directions,
                   ctx.cell);
  }
  for (int i = 0; i < 4; i++) ctx.gate[i] = (ptrdiff_t)numbers[GATES + i];
  const int32_t status = find_operands(call, &ctx);
  if (status != RM_OK) return status;
  if (ctx.steps < 1 || ctx.batch < 1 || ctx.size < 1) return RM_OK;
  ctx.gates = ctx.cell == CELL_LSTM ? 4 : ctx.cell == CELL_GRU ? 3 : 1;
  const ptrdiff_t all = ctx.gates * ctx.size;
  ctx.first_rows = ctx.cell == CELL_GRU && !ctx.resets_after ? 2 * ctx.size : all;
  ctx.columns = rm_round_up(ctx.first_rows, PANEL) + rm_round_up(all - ctx.first_rows, PANEL);
  if (ctx.groups != NULL) {
    if (ctx.cell != CELL_LSTM) return RM_UNSUPPORTED;
    ctx.columns = all;
    ctx.group_bytes =
        rm_ceil_div(all, GROUP_ROWS) * (BYTES_HEAD + rm_ceil_div(ctx.size, 4) * WORD_BYTES);
  }
  const ptrdiff_t tasks = ctx.directions * rm_ceil_div(ctx.batch, TASK_ROWS);
  ctx.slots = (int)rm_min(rm_threads(), tasks);
  /* Kernels of four rows write beyond the last one. */
  const ptrdiff_t rows = rm_round_up(TASK_ROWS, SMALL_MR);
  ctx.workspace_bytes = (3 * TASK_ROWS * ctx.size + rows * ctx.columns) * 4;
  if (ctx.groups != NULL) ctx.workspace_bytes += TASK_ROWS * ctx.size;
  ctx.workspace_bytes = rm_round_up(ctx.workspace_bytes, ALIGNMENT);
  if (ctx.groups != NULL) {
    ctx.workspace_bytes += RM_FOR_ISA(byte_rows_room)(TASK_ROWS, ctx.size);
  }
  const ptrdiff_t panels = ctx.groups == NULL && ctx.batch > 1 ? ctx.directions * ctx.columns / PANEL : 0;
  const ptrdiff_t panel_bytes = panels * PANEL * ctx.size * 4;
  gemm_workspace *workspace = RM_FOR_ISA(workspace_alloc)(
      (size_t)(ctx.slots * ctx.workspace_bytes + panel_bytes), ctx.slots);
  if (workspace == NULL) return rm_fail(RM_OUT_OF_MEMORY, "no memory for a recurrent layer");
  ctx.workspace = workspace->data;
  ctx.slot_taken = workspace->slot_taken;
  if (panels > 0) {
    ctx.panels = (float *)(void *)(ctx.workspace + ctx.slots * ctx.workspace_bytes);
    rm_parallel(panels, (double)panel_bytes / 4, pack_task, &ctx);
  }
  const double products = (double)ctx.steps * (double)ctx.batch * (double)ctx.directions *
                          (double)all * (double)ctx.size;
  rm_parallel(tasks, products / LANES / VECTOR_FMAS_PER_NS, rows_task, &ctx);
  RM_FOR_ISA(workspace_free)(workspace);
  return RM_OK;
}
