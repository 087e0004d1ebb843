/*
 * Matrix products of every dtype: tasks of a block of the result each. A task packs its columns of
 * b into panels, if they do not lie well already, and multiplies them with rows of a where those
 * lie. Products with a vector, and those of small matrices, have kernels of their own.
 *
 * Floats narrower than float32 are converted as they are read and summed in float32; integers of 8
 * and 16 bits are multiplied in 16 bits, as only the low bits of a sum count. Every element of a
 * result is summed in an order that sizes and strides alone decide. Knows nothing of BLAS.
 */
#include <stdlib.h>
#include <string.h>
#include "gemm_context.h"

/* Packs a panel of elements of any dtype. */
static void pack_panel(const job *j, pack_function *pack, char *to, const char *from,
                       ptrdiff_t lines, ptrdiff_t width, ptrdiff_t k, ptrdiff_t line_stride,
                       ptrdiff_t stride) {
  if (j->raw) {
    pack(to, from, lines, k, line_stride, stride);
    return;
  }
  enum { STEP = 64 };
  /* The widest panel is one of 16 bits: BYTES lines. */
  char tile[STEP * BYTES * 2] __attribute__((aligned(64)));
  const ptrdiff_t size = j->kind->size;
  for (ptrdiff_t p = 0; p < k; p += STEP) {
    const ptrdiff_t step = rm_least(STEP, k - p);
    const char *at = place(from, p * stride, j->bytes);
    char *panel = to + p * width * size;
    if (line_stride == 1) {
      for (ptrdiff_t q = 0; q < step; q++) {
        RM_AT(load_run)(j->dtype, tile + q * lines * size, place(at, q * stride, j->bytes), lines, 1);
      }
      pack(panel, tile, lines, step, 1, lines);
    } else {
      for (ptrdiff_t i = 0; i < lines; i++) {
        RM_AT(load_run)(j->dtype, tile + i * step * size, place(at, i * line_stride, j->bytes), step,
                 stride);
      }
      pack(panel, tile, lines, step, step, 1);
    }
  }
}

/* ---- products of blocks ---------------------------------------------------------------------- */

/* Columns of b side by side: where they begin in the block, where they lie, how far apart their
 * rows are, and which width takes them. */
typedef struct {
  ptrdiff_t at, columns, step;
  const char *from;
  int width;
} panel;

/* The kernel for the columns from some place on: the narrowest that takes all that remain, if
 * there are as many columns as that, or they are packed. */
static int width_for(const int *widths, ptrdiff_t remaining, ptrdiff_t columns) {
  int w = 0;
  while (w + 1 < WIDTH_COUNT && widths[w + 1] > 0 &&
         (widths[w + 1] >= remaining || widths[w] > columns)) {
    w++;
  }
  return w;
}

/* Packs whole panels of columns that lie side by side: row by row, as they lie. */
static void pack_dense(const job *j, char *to, const char *from, ptrdiff_t panels,
                       ptrdiff_t depth) {
  char converted[BLOCK_PANELS * 2 * BYTES] __attribute__((aligned(64)));
  for (ptrdiff_t p = 0; p < depth; p++) {
    const char *row = place(from, p * j->of_b.row, j->bytes);
    if (!j->raw) {
      RM_AT(load_run)(j->dtype, converted, row, panels * j->kind->widths[0], 1);
      row = converted;
    }
    for (ptrdiff_t q = 0; q < panels; q++) {
      memcpy(to + (q * depth + p) * 2 * BYTES, row + q * 2 * BYTES, 2 * BYTES);
    }
  }
}

/* Lists the panels of so many columns of b, packing those that cannot be read where they lie. */
static int list_panels(const job *j, const char *b, ptrdiff_t rows, ptrdiff_t columns,
                       ptrdiff_t depth, char *packed, panel *panels) {
  const kind *of = j->kind;
  const bool whole = j->depth >= j->k;
  /* Panels whose rows are dense. */
  const bool by_rows = !j->direct_b && j->of_b.column == 1 &&
                       of->widths[0] * of->size == 2 * BYTES;
  const ptrdiff_t dense = by_rows ? columns / of->widths[0] : 0;
  if (dense > 0) pack_dense(j, packed, b, dense, depth);
  int count = 0;
  for (ptrdiff_t q = 0; q < columns;) {
    panel *to = &panels[count++];
    const bool direct = j->direct_b && (columns - q >= of->widths[0] || whole) &&
                        (rows < MR || columns >= of->widths[1]);
    to->width = width_for(of->widths, columns - q, direct ? columns : PTRDIFF_MAX);
    /* The kernel for many rows is better than the narrower ones for few. */
    if (to->width > 1 && rows >= MR) to->width = 1;
    const ptrdiff_t width = of->widths[to->width];
    to->at = q;
    to->columns = rm_least(width, columns - q);
    q += to->columns;
    if (direct && columns >= width) {
      /* The last columns begin early enough to be whole; some are computed twice. */
      to->at = q - width;
      to->columns = width;
      to->from = place(b, to->at * j->of_b.column, j->bytes);
      to->step = j->of_b.row;
      continue;
    }
    to->from = packed;
    to->step = of->widths[0];
    if (count > dense) {
      pack_panel(j, of->pack_b, packed, place(b, to->at * j->of_b.column, j->bytes), to->columns,
                 to->step, depth, j->of_b.column, j->of_b.row);
    }
    packed += to->step * depth * of->size;
  }
  return count;
}

/* Rows of a as the kernels read them. */
typedef struct {
  const char *from;
  ptrdiff_t row, step;
} lines;

/* Packs rows of a that lie side by side, a strip of all of them at a time, as they lie. */
static void pack_rows(const job *j, char *to, const char *a, ptrdiff_t rows, ptrdiff_t depth) {
  for (ptrdiff_t p = 0; p < depth; p += STRIP) {
    for (ptrdiff_t i = 0; i < rows; i += MR) {
      pack_panel(j, j->kind->pack_a, to + (i * depth + p * MR) * j->kind->size,
                 place(a, i * j->of_a.row + p * j->of_a.column, j->bytes), rm_least(MR, rows - i),
                 MR, rm_least(STRIP, depth - p), j->of_a.row, j->of_a.column);
    }
  }
}

/* Copies rows of a to dense ones, pitch elements apart. */
static void copy_rows(const job *j, char *to, ptrdiff_t pitch, const char *a, ptrdiff_t rows,
                      ptrdiff_t depth) {
  for (ptrdiff_t r = 0; r < rows; r++) {
    RM_AT(load_run)(j->dtype, to + r * pitch * j->kind->size, place(a, r * j->of_a.row, j->bytes), depth,
             j->of_a.column);
  }
}

/* Where a block of the result goes: c, or sums until they are complete. */
typedef struct {
  char *to;
  strides of;
  bool direct, sums;
} target;

/* Adds a tile to the target, or stores it there. */
static void put_tile(const job *j, const target *out, ptrdiff_t row, ptrdiff_t column,
                     const char *tile, ptrdiff_t width, ptrdiff_t rows, ptrdiff_t columns,
                     bool add) {
  const ptrdiff_t bytes = out->sums ? j->kind->size : j->bytes;
  for (ptrdiff_t r = 0; r < rows; r++, tile += width * j->kind->size) {
    char *to = out->to + ((row + r) * out->of.row + column * out->of.column) * bytes;
    if (add) add_run(j->kind, to, tile, columns);
    else if (out->direct) memcpy(to, tile, (size_t)(columns * bytes));
    else RM_AT(store_run)(j->dtype, to, tile, columns, out->of.column);
  }
}

/* Rows of the target from the given one on (+)= rows of a times a panel. */
static void multiply_panel(const job *j, const target *out, ptrdiff_t row, ptrdiff_t rows,
                           const lines *a, const panel *b, ptrdiff_t depth, bool add) {
  char tile[MR * 2 * BYTES] __attribute__((aligned(64)));
  const kind *of = j->kind;
  const ptrdiff_t size = of->size, width = of->widths[b->width];
  const bool many = rows == MR && b->width < 2;
  const ptrdiff_t group = many ? MR : FEW;
  for (ptrdiff_t i = 0; i < rows; i += group) {
    const ptrdiff_t some = rm_least(group, rows - i);
    const bool direct = out->direct && some == group && b->columns == width;
    char *to = direct ? out->to + ((row + i) * out->of.row + b->at) * size : tile;
    const ptrdiff_t stride = direct ? out->of.row : width;
    const char *from = a->from + i * a->row * size;
    if (many) {
      of->wide[b->width](depth, from, a->row, a->step, b->from, b->step, to, stride,
                         add && direct);
    } else {
      const void *at[FEW];
      for (ptrdiff_t r = 0; r < FEW; r++) at[r] = from + rm_least(r, some - 1) * a->row * size;
      of->direct[b->width](depth, at, a->step, b->from, b->step, to, stride, add && direct);
    }
    if (!direct) put_tile(j, out, row + i, b->at, tile, width, some, b->columns, add);
  }
}

/* Computes the block that begins at a row and a column. */
static void multiply_block(const job *j, ptrdiff_t item, ptrdiff_t top, ptrdiff_t left,
                           char *work) {
  char copy[MR * (DEPTH_BYTES + GAP_BYTES)] __attribute__((aligned(64)));
  panel panels[BLOCK_PANELS + WIDTH_COUNT];
  const ptrdiff_t size = j->kind->size;
  const ptrdiff_t rows = rm_least(j->rows, j->m - top);
  const ptrdiff_t columns = rm_least(j->columns, j->n - left);
  const char *a = place(j->a, (ptrdiff_t)j->a_at[item] + top * j->of_a.row, j->bytes);
  const char *b = place(j->b, (ptrdiff_t)j->b_at[item] + left * j->of_b.column, j->bytes);
  char *c = j->c + ((ptrdiff_t)j->c_at[item] + top * j->of_c.row + left * j->of_c.column) *
                       j->bytes;
  char *packed_rows = work + j->packed_bytes, *sums = packed_rows + j->rows_bytes;
  target out = {c, j->of_c, j->direct_c, false};
  if (j->sums_bytes > 0) out = (target){sums, {j->columns, 1}, true, true};
  ptrdiff_t p = 0;
  do {
    const ptrdiff_t depth = rm_least(j->depth, j->k - p);
    const char *right = place(b, p * j->of_b.row, j->bytes);
    const int count = list_panels(j, right, rows, columns, depth, work, panels);
    const char *at = place(a, p * j->of_a.column, j->bytes);
    if (j->rows_bytes > 0) pack_rows(j, packed_rows, at, rows, depth);
    for (ptrdiff_t i = 0; i < rows;) {
      ptrdiff_t some = rows - i >= MR ? MR : rm_least(FEW, rows - i);
      lines from;
      if (j->rows_bytes > 0) {
        from = (lines){packed_rows + (i / MR * MR * depth + i % MR) * size, 1, MR};
      } else {
        /* The last rows begin early enough to be as many as the kernel takes. */
        if (some < FEW && rows >= FEW && j->depth >= j->k) i = rows - FEW, some = FEW;
        from = (lines){place(at, i * j->of_a.row, j->bytes), j->of_a.row, j->of_a.column};
        if (!j->direct_a) {
          const ptrdiff_t pitch = depth + GAP_BYTES / size;
          copy_rows(j, copy, pitch, from.from, some, depth);
          from = (lines){copy, pitch, 1};
        }
      }
      for (int q = 0; q < count; q++) {
        multiply_panel(j, &out, i, some, &from, &panels[q], depth, p > 0);
      }
      i += some;
    }
    p += j->depth;
  } while (p < j->k);
  if (!out.sums) return;
  for (ptrdiff_t i = 0; i < rows; i++) {
    RM_AT(store_run)(j->dtype, c + i * j->of_c.row * j->bytes, sums + i * j->columns * size, columns,
              j->of_c.column);
  }
}

static void block_task(void *context, ptrdiff_t index) {
  const job *j = context;
  char small[STACK_BYTES] __attribute__((aligned(64)));
  const ptrdiff_t bytes = j->packed_bytes + j->rows_bytes + j->sums_bytes;
  const ptrdiff_t blocks = j->row_blocks * j->column_blocks;
  const ptrdiff_t end = rm_least(j->batch * blocks, (index + 1) * j->per_task);
  /* No more tasks than there are places run at a time, and each thread finds its last one free. */
  int taken = 0;
  while (j->work != NULL && atomic_flag_test_and_set(&j->taken[taken])) {
    taken = (taken + 1) % j->places;
  }
  char *work = j->work == NULL ? small : j->work + taken * bytes;
  for (ptrdiff_t i = index * j->per_task; i < end; i++) {
    if (blocks == 1) {
      multiply_block(j, i, 0, 0, work);
      continue;
    }
    const ptrdiff_t block = i % blocks;
    multiply_block(j, i / blocks, block % j->row_blocks * j->rows,
                   block / j->row_blocks * j->columns, work);
  }
  if (j->work != NULL) atomic_flag_clear(&j->taken[taken]);
}

/* The most columns of a block. */
static ptrdiff_t most_columns(const job *j) {
  return rm_least(BLOCK_COLUMNS, BLOCK_PANELS * j->kind->widths[0]);
}

/* Cuts a product into blocks, by the sizes alone: of as many columns as there are, and fewer where
 * the blocks would be few; rows are cut last, as each block packs its own columns. */
static void cut(job *j, double products) {
  const ptrdiff_t width = j->kind->widths[0];
  const double work = products / j->kind->lanes;
  /* Where blocks copy rows of a, they take fewer of them and more columns. */
  const ptrdiff_t narrowest = j->direct_a ? width : BLOCK_COLUMNS;
  const ptrdiff_t least_rows = j->direct_a ? BLOCK_ROWS : BLOCK_ROWS / 2;
  ptrdiff_t columns = rm_least(most_columns(j), j->columns);
  ptrdiff_t row_blocks = rm_parts(j->m, 2 * BLOCK_ROWS);
  for (;;) {
    const double blocks = (double)(j->batch * row_blocks * rm_parts(j->n, columns));
    if (work <= blocks * (blocks < MANY_BLOCKS ? 2 * WORTH_A_BLOCK : LARGE_BLOCK)) break;
    if (columns > narrowest) columns = rm_round_up(columns / 2, width);
    else if (j->m > row_blocks * least_rows) row_blocks *= 2;
    else break;
  }
  j->rows = rm_round_up(rm_parts(j->m, row_blocks), MR), j->columns = columns;
  j->row_blocks = rm_parts(j->m, j->rows), j->column_blocks = rm_parts(j->n, columns);
}

static int32_t multiply_blocks(job *j) {
  const ptrdiff_t size = j->kind->size, width = j->kind->widths[0];
  const double each = (double)j->m * (double)j->n * (double)j->k;
  const double products = (double)j->batch * each;
  const strides of_a = j->of_a, of_b = j->of_b;
  j->depth = j->k < 1 ? 1 : j->k;
  /* Parts of a sum are about equally long. */
  if (j->k * size > DEPTH_BYTES) j->depth = rm_parts(j->k, rm_parts(j->k * size, DEPTH_BYTES));
  j->direct_c = j->raw && j->of_c.column == 1;
  const bool crowded = MR > WAYS && j->m >= MR && of_a.row * size % SET_BYTES == 0;
  /* Rows that lie side by side are read with gaps between the steps along them. */
  j->direct_a = j->raw && ((of_a.column == 1 && !crowded) || j->n < 4 * width ||
                           (of_a.row == 1 &&
                            rm_magnitude(of_a.column) * size * j->depth <= 4 * NEAR_BYTES));
  j->direct_b = j->raw && of_b.column == 1 &&
                (j->m <= 2 * MR || rm_magnitude(of_b.row) * size * j->depth <= NEAR_BYTES);
  j->rows = j->m;
  j->columns = (j->n + width - 1) & -width;
  j->row_blocks = j->column_blocks = j->per_task = 1;
  if (each > SMALL_WORK || j->columns > most_columns(j)) cut(j, products);
  else if (j->batch > 1) j->per_task += (ptrdiff_t)(SMALL_WORK / (each + 64));
  const bool packs_b = !j->direct_b || (j->n & (width - 1)) != 0;
  const bool packs_a = !j->direct_a && of_a.row == 1 && of_a.column != 1;
  const bool sums = !j->direct_c && j->depth < j->k;
  j->packed_bytes = packs_b ? rm_round_up(j->columns * j->depth * size, ALIGNMENT) : 0;
  j->rows_bytes = packs_a ? rm_round_up(rm_round_up(j->rows, MR) * j->depth * size, ALIGNMENT) : 0;
  j->sums_bytes = sums ? rm_round_up(j->rows * j->columns * size, ALIGNMENT) : 0;
  const ptrdiff_t bytes = j->packed_bytes + j->rows_bytes + j->sums_bytes;
  const ptrdiff_t blocks = j->batch * j->row_blocks * j->column_blocks;
  const ptrdiff_t tasks = j->per_task == 1 ? blocks : rm_parts(blocks, j->per_task);
  workspace *work = NULL;
  if (bytes > STACK_BYTES) {
    j->places = (int)rm_least(rm_threads(), tasks);
    work = RM_AT(take_workspace)((size_t)(j->places * bytes), j->places);
    if (work == NULL) return rm_fail(RM_BAD_ARGUMENT, "no memory for a matrix product");
    j->work = work->data;
    j->taken = work->taken;
  }
  run_tasks(tasks, block_task, j, products);
  if (work != NULL) RM_AT(leave_workspace)(work);
  return RM_OK;
}

int32_t RM_AT(matmul)(int32_t dtype, const double *plan, void *c, const void *a, const void *b) {
  const kind *of = RM_AT(gemm_kind)(dtype);
  if (of == NULL) return RM_UNSUPPORTED;
  if (a == NULL || b == NULL || c == NULL) {
    return rm_fail(RM_BAD_ARGUMENT, "an operand has no memory");
  }
  const ptrdiff_t batch = (ptrdiff_t)plan[3];
  job j = {
      .dtype = dtype,
      .kind = of,
      .bytes = rm_bytes(dtype),
      .raw = rm_bytes(dtype) == of->size,
      .m = (ptrdiff_t)plan[0],
      .n = (ptrdiff_t)plan[1],
      .k = (ptrdiff_t)plan[2],
      .batch = batch,
      .of_c = {(ptrdiff_t)plan[4], (ptrdiff_t)plan[5]},
      .of_a = {(ptrdiff_t)plan[6], (ptrdiff_t)plan[7]},
      .of_b = {(ptrdiff_t)plan[8], (ptrdiff_t)plan[9]},
      .c = c,
      .a = a,
      .b = b,
      .c_at = plan + 10,
      .a_at = plan + 10 + batch,
      .b_at = plan + 10 + 2 * batch,
  };
  if (j.m < 1 || j.n < 1 || j.batch < 1) return RM_OK;
  if (RM_AT(multiply_small)(&j)) return RM_OK;
  if (j.m == 1 || j.n == 1) return RM_AT(multiply_vector)(&j);
  if (j.of_c.column != 1 && j.of_c.row == 1) {
    /* The transpose has dense rows: c' = b' a'. */
    const job t = j;
    j.m = t.n, j.n = t.m;
    j.of_c = (strides){t.of_c.column, t.of_c.row};
    j.of_a = (strides){t.of_b.column, t.of_b.row};
    j.of_b = (strides){t.of_a.column, t.of_a.row};
    j.a = t.b, j.b = t.a, j.a_at = t.b_at, j.b_at = t.a_at;
    if (RM_AT(multiply_small)(&j)) return RM_OK;
  }
  return multiply_blocks(&j);
}
