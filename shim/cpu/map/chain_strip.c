/*
 * Runs of float32 steps of a chain whose value stays in vector registers.
 *
 * Each step alone would read its block from the first-level cache and write it back, which takes
 * longer than the arithmetic. Here all steps of a run take a strip of elements before the next
 * strip begins. A step is an instruction: a function that takes the strip in registers, and ends in
 * a jump to the next one. The arithmetic is that of the kernels, so that results are the same.
 */
#include <string.h>
#include "chain_strip.h"

#define ARGUMENT(i, ...) , v##i
#define ZERO(i, ...) , (vector){0}

/* ---- instructions ---------------------------------------------------------------------------- */

#define AT(base, i) (((vector_at *)((base) + at * (ptrdiff_t)sizeof(float)))[i])
#define CONTINUE_AT(next) __attribute__((musttail)) return (next)->run(next, at VECTORS(ARGUMENT, ))
#define INSTRUCTION(name, EACH, ...) \
  static RM_KERNEL void name(PARAMETERS) { \
    VECTORS(EACH, __VA_ARGS__) \
    const instruction *next = step + 1; \
    CONTINUE_AT(next); \
  }

static RM_ALWAYS_INLINE vector select(vector_bits mask, vector x, vector y) {
  return (vector)((mask & (vector_bits)x) | (~mask & (vector_bits)y));
}

#define LOAD(i, ...) v##i = AT(step->operand, i);
#define STORE(i, ...) AT(step->operand, i) = v##i;
INSTRUCTION(strip_load, LOAD, )
INSTRUCTION(strip_store, STORE, )

/* The last strip may begin in the one before, whose elements it computes again. */
static RM_KERNEL void strip_end(PARAMETERS) {
  if (at == step->last) return;
  at = rm_min(at + STRIP, step->last);
  const instruction *next = step->first;
  CONTINUE_AT(next);
}

#define UNARY_EACH(i, name) v##i = apply_##name(v##i);
#define UNARY(name, expr) \
  static RM_ALWAYS_INLINE vector apply_##name(vector x) { return expr; } \
  INSTRUCTION(strip_##name, UNARY_EACH, name)
UNARY(neg, -x)
UNARY(abs, (vector)((vector_bits)x & INT32_MAX))
UNARY(square, x * x)
UNARY(relu, (vector)(~(vector_bits)(x < 0) & (vector_bits)x))
UNARY(reciprocal, 1 / x)
UNARY(sqrt, __builtin_elementwise_sqrt(x))

/* The operand is the second of the two, or the first; in memory, or a scalar. */
#define BINARY_EACH(i, name) v##i = apply_##name(v##i, AT(step->operand, i));
#define BINARY_FIRST(i, name) v##i = apply_##name(AT(step->operand, i), v##i);
#define SCALAR_EACH(i, name) v##i = apply_##name(v##i, (vector){0} + step->low);
#define SCALAR_FIRST(i, name) v##i = apply_##name((vector){0} + step->low, v##i);
#define BINARY(name, expr) \
  static RM_ALWAYS_INLINE vector apply_##name(vector x, vector y) { return expr; } \
  INSTRUCTION(strip_##name, BINARY_EACH, name) \
  INSTRUCTION(strip_##name##_first, BINARY_FIRST, name) \
  INSTRUCTION(strip_##name##_scalar, SCALAR_EACH, name) \
  INSTRUCTION(strip_##name##_scalar_first, SCALAR_FIRST, name)
BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x * y)
BINARY(div, x / y)
BINARY(minimum, select((x < y) | (x != x), x, y))
BINARY(maximum, select((x > y) | (x != x), x, y))
BINARY(less, (vector)(x < y))
BINARY(lessEqual, (vector)(x <= y))
BINARY(greater, (vector)(x > y))
BINARY(greaterEqual, (vector)(x >= y))
BINARY(equal, (vector)(x == y))
BINARY(notEqual, (vector)(x != y))

/* The operand in memory is a product with a scalar. */
#define SCALED(i) (AT(step->operand, i) * ((vector){0} + step->low))
#define SCALED_FIRST(i, name) v##i = apply_##name(SCALED(i), v##i);
INSTRUCTION(strip_add_scaled, SCALED_FIRST, add)
INSTRUCTION(strip_div_scaled, SCALED_FIRST, div)

/* The instruction for such an operand; null if there is none. */
static strip_function scaled_function(int opcode, int own) {
  if (opcode == RM_OP_add) return strip_add_scaled;
  return opcode == RM_OP_div && own == 1 ? strip_div_scaled : NULL;
}

#define CLAMP_EACH(i, ...) v##i = apply_clamp(v##i, step->low, step->high);
static RM_ALWAYS_INLINE vector apply_clamp(vector x, float low, float high) {
  const vector lower = select(x <= low, (vector){0} + low, x);
  return select(lower >= high, (vector){0} + high, lower);
}
INSTRUCTION(strip_clamp, CLAMP_EACH, )

/* The strip is the value where the condition holds, or the other value. */
#define WHERE_FIRST(i, ...) \
  v##i = select((vector_bits)AT(step->condition, i), v##i, AT(step->operand, i));
#define WHERE_SECOND(i, ...) \
  v##i = select((vector_bits)AT(step->condition, i), AT(step->operand, i), v##i);
INSTRUCTION(strip_where_first, WHERE_FIRST, )
INSTRUCTION(strip_where_second, WHERE_SECOND, )

/* By op: the instruction for one operand; those for an operand that is second or first, in memory
 * or a scalar. */
typedef struct {
  strip_function unary, binary[2], scalar[2];
} strip_op;

#define UNARY_ENTRY(name) [RM_OP_##name] = {.unary = strip_##name}
#define BINARY_ENTRY(name) \
  [RM_OP_##name] = {.binary = {strip_##name, strip_##name##_first}, \
                    .scalar = {strip_##name##_scalar, strip_##name##_scalar_first}}
static const strip_op strip_ops[RM_OP_COUNT] = {
    UNARY_ENTRY(neg),      UNARY_ENTRY(abs),        UNARY_ENTRY(square),   UNARY_ENTRY(relu),
    UNARY_ENTRY(sqrt),     UNARY_ENTRY(reciprocal), BINARY_ENTRY(add),     BINARY_ENTRY(sub),
    BINARY_ENTRY(mul),     BINARY_ENTRY(div),       BINARY_ENTRY(minimum), BINARY_ENTRY(maximum),
    BINARY_ENTRY(less),    BINARY_ENTRY(lessEqual), BINARY_ENTRY(greater), BINARY_ENTRY(greaterEqual),
    BINARY_ENTRY(equal),   BINARY_ENTRY(notEqual),  [RM_OP_clip] = {.unary = strip_clamp},
};

/* ---- which steps ----------------------------------------------------------------------------- */

static bool is_comparison(const chain_step *step) { return step->dtype == RM_BOOL; }

/* Whether there is an instruction for a step, if its condition or its readers allow it too. */
static bool has_instruction(const chain_step *step) {
  const map_op *op = &step->op;
  if (step->is_scalar || step->convert != NULL || !step->native ||
      op->rounding_dtype != RM_NONE) {
    return false;
  }
  const bool is_where = step->opcode == RM_OP_where;
  for (int k = is_where; k < step->arity; k++) {
    const chain_operand *operand = &step->operands[k];
    if (op->compute_dtype[k + 1] != RM_FLOAT32) return false;
    if (operand->source == FROM_STEP && operand->dtype != RM_FLOAT32) return false;
  }
  if (is_where) return step->operands[0].source == FROM_STEP;
  const strip_op *own = &strip_ops[step->opcode];
  return step->arity == 1 ? own->unary != NULL : step->arity == 2 && own->binary[0] != NULL;
}

/* Whether a step is part of [first, last): not if a comparison has other readers than conditions
 * there, whose elements have four bytes, or if a condition comes from elsewhere. */
static bool fits(const chain_context *chain, int s, int first, int last) {
  const chain_step *step = &chain->step[s];
  if (step->opcode == RM_OP_where) {
    const int condition = step->operands[0].index;
    if (condition < first || !is_comparison(&chain->step[condition])) return false;
  }
  if (!is_comparison(step)) return true;
  if (step->output >= 0) return false;
  for (int reader = s + 1; reader < chain->steps; reader++) {
    for (int k = 0; k < chain->step[reader].arity; k++) {
      const chain_operand *operand = &chain->step[reader].operands[k];
      if (operand->source != FROM_STEP || operand->index != s) continue;
      if (reader >= last || k > 0 || chain->step[reader].opcode != RM_OP_where) return false;
    }
  }
  return true;
}

/* Whether the result of step s must be in memory: as an output, as a condition, or because others
 * than the next step read it. */
static bool is_stored(const chain_context *chain, int s, int last) {
  if (chain->step[s].output >= 0 || is_comparison(&chain->step[s])) return true;
  for (int reader = s + 1; reader < chain->steps; reader++) {
    int reads = 0;
    for (int k = 0; k < chain->step[reader].arity; k++) {
      const chain_operand *operand = &chain->step[reader].operands[k];
      reads += operand->source == FROM_STEP && operand->index == s;
    }
    if (reads > (reader == s + 1 && reader < last)) return true;
  }
  return false;
}

/* Whether steps [first, last) may compute elements again: none writes what one of them reads. */
static bool is_repeatable(const chain_context *chain, int first, int last) {
  for (int s = first; s < last; s++) {
    const chain_step *step = &chain->step[s];
    if (!step->stored) continue;
    for (int k = chain->outputs; step->output >= 0 && k < chain->operands; k++) {
      if (chain->data[k] == chain->data[step->output]) return false;
    }
    for (int reader = first; reader < last; reader++) {
      for (int k = 0; k < chain->step[reader].arity; k++) {
        const chain_operand *operand = &chain->step[reader].operands[k];
        if (operand->source == FROM_STEP && operand->index < first &&
            chain->step[operand->index].block == step->block) {
          return false;
        }
      }
    }
  }
  return true;
}

/* Whether an input that is a scalar in a block of one row needs no cast. */
static bool is_movable_scalar(const chain_load *load) {
  return load->operand.column_stride == 0 && load->operand.storage_dtype == RM_FLOAT32;
}

/* Whether the operands of steps [first, last) in another block differ in their addresses only: those
 * of loads are there, and are no scalars that must be repeated. A block of several rows may be
 * contiguous in an output where another is not. */
static bool is_movable(const chain_context *chain, int first, int last) {
  if (chain->block_rows != 1) return false;
  for (int s = first; s < last; s++) {
    const chain_step *step = &chain->step[s];
    int scalars = 0;
    for (int k = 0; k < step->arity; k++) {
      const chain_operand *operand = &step->operands[k];
      scalars += operand->source == FROM_SCALAR;
      if (operand->source != FROM_LOAD) continue;
      const chain_load *load = &chain->load[operand->index];
      if (load->in_place) continue;
      scalars++;
      /* One of two scalars is repeated. */
      if (step->arity != 2 || scalars == 2 || !is_movable_scalar(load)) return false;
    }
    if (scalars == 2 && step->operands[0].source == FROM_LOAD) return false;
  }
  return true;
}

void RM_FOR_ISA(find_strips)(chain_context *chain) {
  for (int first = 0; first < chain->steps; first++) {
    int last = first;
    while (last < chain->steps && has_instruction(&chain->step[last])) last++;
    for (int s = first; s < last; s++) {
      if (fits(chain, s, first, last)) continue;
      last = s;
      s = first - 1;
    }
    if (last - first < 2) continue;
    chain->step[first].strip_end = last;
    for (int s = first; s < last; s++) chain->step[s].stored = is_stored(chain, s, last);
    chain->step[first].repeatable = is_repeatable(chain, first, last);
    chain->step[first].movable = is_movable(chain, first, last);
    first = last - 1;
  }
}

/* ---- running --------------------------------------------------------------------------------- */

/* Whether products with scalars are deferred; machines without AVX get smaller code. */
#if defined(__x86_64__) && !defined(__AVX__)
enum { DEFERS = false };
#else
enum { DEFERS = true };
#endif

/* The instructions of a run as they are written. */
typedef struct {
  chain_workspace *workspace;
  const chain_block *part;
  instruction *next;
  /* The step whose result the strip is, or -1. */
  int strip;
  /* Products with scalars that the steps which read them compute. */
  bool deferred[RM_CHAIN_STEPS];
} strip_writer;

static instruction *add_instruction(strip_writer *writer, strip_function run) {
  writer->next->run = run;
  writer->next->position = writer->next->scalar_position = -1;
  return writer->next++;
}

static bool is_strip(const strip_writer *writer, const chain_operand *operand) {
  return operand->source == FROM_STEP && operand->index == writer->strip;
}

/* The operand of the plan where the result of step s is, or -1 if it is in a block. */
static int position_of_result(const strip_writer *writer, int s) {
  const int output = writer->workspace->chain->step[s].output;
  const bool in_place = output >= 0 && writer->workspace->result[s] == writer->part->at[output];
  return in_place ? output : -1;
}

/* An instruction that reads operand k of a step from memory. */
static instruction *add_reader(strip_writer *writer, strip_function run, const chain_step *step,
                               int k) {
  const chain_operand *operand = &step->operands[k];
  instruction *added = add_instruction(writer, run);
  added->operand = (char *)RM_FOR_ISA(load_operand)(writer->workspace, writer->part, step, k);
  if (operand->source == FROM_STEP) {
    added->position = position_of_result(writer, operand->index);
  } else if (operand->source == FROM_LOAD) {
    const chain_load *load = &writer->workspace->chain->load[operand->index];
    if (load->in_place) added->position = load->position;
  }
  return added;
}

static void add_where(strip_writer *writer, const chain_step *step) {
  const bool first = is_strip(writer, &step->operands[1]);
  const bool second = !first && is_strip(writer, &step->operands[2]);
  if (!first && !second) add_reader(writer, strip_load, step, 1);
  instruction *added = add_reader(writer, second ? strip_where_second : strip_where_first, step,
                                  second ? 1 : 2);
  added->condition = writer->workspace->result[step->operands[0].index];
}

static void add_unary(strip_writer *writer, const chain_step *step) {
  if (!is_strip(writer, &step->operands[0])) add_reader(writer, strip_load, step, 0);
  instruction *added = add_instruction(writer, strip_ops[step->opcode].unary);
  if (step->opcode != RM_OP_clip) return;
  added->low = (float)step->op.bounds[0];
  added->high = (float)step->op.bounds[1];
}

#define SMALL __attribute__((minsize, noinline))

static const char *scalar_of(const strip_writer *writer, const chain_step *step, int k,
                             char value[8]) {
  return RM_FOR_ISA(scalar_operand)(writer->workspace, writer->part, step, k, value);
}

/* Gives an instruction the scalar that operand k of a step is. */
SMALL static void set_scalar(const strip_writer *writer, instruction *added, const chain_step *step, int k) {
  char value[8];
  memcpy(&added->low, scalar_of(writer, step, k, value), sizeof added->low);
  if (step->operands[k].source != FROM_LOAD) return;
  const chain_load *load = &writer->workspace->chain->load[step->operands[k].index];
  if (is_movable_scalar(load)) added->scalar_position = load->position;
}

static bool is_deferred(const strip_writer *writer, const chain_operand *operand) {
  return DEFERS && operand->source == FROM_STEP && writer->deferred[operand->index];
}

/* The operand of a product that is a scalar, or -1 for none, or two. */
SMALL static int scalar_factor(const strip_writer *writer, const chain_step *step) {
  char value[8];
  const bool first = scalar_of(writer, step, 0, value) != NULL;
  return first == (scalar_of(writer, step, 1, value) != NULL) ? -1 : first ? 0 : 1;
}

/* Whether step s, of which the strip ends before `last`, is a product with a scalar which the only step
 * that reads it, not the next one, can compute: if its operand is still there then. */
SMALL static bool can_defer(const strip_writer *writer, int s, int last) {
  const chain_context *chain = writer->workspace->chain;
  const chain_step *step = &chain->step[s];
  if (step->opcode != RM_OP_mul || step->output >= 0) return false;
  const int factor = scalar_factor(writer, step);
  if (factor < 0) return false;
  const chain_operand *from = &step->operands[1 - factor];
  const chain_load *load = &chain->load[from->index];
  const int position = from->source == FROM_STEP ? position_of_result(writer, from->index)
                       : load->in_place          ? load->position
                                                 : -1;
  if (position < 0) return false;
  int reader = -1, place = 0;
  for (int r = s + 1; r < chain->steps; r++) {
    for (int k = 0; k < chain->step[r].arity; k++) {
      const chain_operand *operand = &chain->step[r].operands[k];
      if (operand->source != FROM_STEP || operand->index != s) continue;
      if (reader >= 0) return false;
      reader = r, place = k;
    }
  }
  if (reader <= s + 1 || reader >= last) return false;
  const chain_step *next = &chain->step[reader];
  char value[8];
  if (next->arity != 2 || scaled_function(next->opcode, 1 - place) == NULL ||
      is_deferred(writer, &next->operands[1 - place]) ||
      scalar_of(writer, next, 1 - place, value) != NULL) {
    return false;
  }
  for (int t = s + 1; t < reader; t++) {
    const int output = chain->step[t].output;
    if (output >= 0 && chain->data[output] == chain->data[position]) return false;
  }
  return true;
}

static void add_binary(strip_writer *writer, const chain_step *step) {
  char value[8];
  const bool is_scalar[2] = {scalar_of(writer, step, 0, value) != NULL,
                             scalar_of(writer, step, 1, value) != NULL};
  /* The operand that the strip is. */
  int own = is_strip(writer, &step->operands[0]) ? 0 : 1;
  if (own == 1 && !is_strip(writer, &step->operands[1])) {
    own = (is_scalar[0] && !is_scalar[1]) || is_deferred(writer, &step->operands[0]);
    add_reader(writer, strip_load, step, own);
  }
  const int other = 1 - own;
  const strip_op *op = &strip_ops[step->opcode];
  if (is_deferred(writer, &step->operands[other])) {
    const chain_step *product = &writer->workspace->chain->step[step->operands[other].index];
    const int factor = scalar_factor(writer, product);
    set_scalar(writer, add_reader(writer, scaled_function(step->opcode, own), product, 1 - factor),
               product, factor);
  } else if (is_scalar[other]) {
    set_scalar(writer, add_instruction(writer, op->scalar[own]), step, other);
  } else add_reader(writer, op->binary[own], step, other);
}

/* Writes the instructions of steps [first, last). */
static void write_instructions(chain_workspace *workspace, const chain_block *part, int first,
                               int last) {
  const chain_context *chain = workspace->chain;
  /* A step has at most one load, itself and one store. */
  instruction *begin = workspace->instructions + 4 * first;
  strip_writer writer = {workspace, part, begin, -1, {false}};
  for (int s = first; s < last; s++) {
    const chain_step *step = &chain->step[s];
    writer.deferred[s] = DEFERS && can_defer(&writer, s, last);
    if (writer.deferred[s]) continue;
    if (step->opcode == RM_OP_where) add_where(&writer, step);
    else if (step->arity == 1) add_unary(&writer, step);
    else add_binary(&writer, step);
    writer.strip = s;
    if (!step->stored) continue;
    instruction *added = add_instruction(&writer, strip_store);
    added->operand = workspace->result[s];
      added->position = position_of_result(&writer, s);
  }
  add_instruction(&writer, strip_end)->first = begin;
}

/* Moves instructions to another block. Returns the last one. */
static instruction *move_instructions(instruction *at, const chain_block *part) {
  for (; at->run != strip_end; at++) {
    if (at->position >= 0) at->operand = part->at[at->position];
    if (at->scalar_position >= 0) memcpy(&at->low, part->at[at->scalar_position], sizeof at->low);
  }
  return at;
}

/* Runs steps [first, last) by their kernels on the elements from `from`, which fill no strip. The
 * bytes of comparisons are where the strips of these elements would be. */
static void run_rest(chain_workspace *workspace, const chain_block *part, int first, int last,
                     ptrdiff_t from) {
  const ptrdiff_t rest = part->rows * part->columns - from;
  for (int s = first; s < last; s++) {
    const chain_step *step = &workspace->chain->step[s];
    const char *in[3] = {NULL, NULL, NULL};
    for (int k = 0; k < step->arity; k++) {
      const char *block = RM_FOR_ISA(load_operand)(workspace, part, step, k);
      in[k] = block + from * (ptrdiff_t)sizeof(float);
    }
    run_function(&step->op, rest, workspace->result[s] + from * (ptrdiff_t)sizeof(float), in[0],
                 in[1], in[2]);
  }
}

bool RM_FOR_ISA(run_strips)(chain_workspace *workspace, const chain_block *part, int first,
                            int last) {
  const ptrdiff_t total = part->rows * part->columns;
  if (total < STRIP) return false;
  const chain_step *step = &workspace->chain->step[first];
  const ptrdiff_t whole = step->repeatable ? total : total - total % STRIP;
  if (!step->movable || !workspace->written[first]) {
    write_instructions(workspace, part, first, last);
    workspace->written[first] = true;
  }
  instruction *begin = workspace->instructions + 4 * first;
  move_instructions(begin, part)->last = whole - STRIP;
  begin->run(begin, 0 VECTORS(ZERO, ));
  if (whole < total) run_rest(workspace, part, first, last, whole);
  return true;
}
