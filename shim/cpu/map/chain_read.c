/*
 * Reads chains: the plan of all operands, the kernels of the steps, scalars, and the blocks of
 * values.
 */
#include <string.h>
#include "chain_context.h"

/* ---- operands -------------------------------------------------------------------------------- */

static int32_t read_operands(chain_context *chain, const rm_call *call) {
  const double *plan = call->numbers;
  const int rank = (int)plan[RM_PLAN_RANK], operands = (int)plan[RM_PLAN_OPERANDS];
  const int outputs = (int)rm_attributes(call)[RM_CHAIN_AT_OUTPUTS];
  if (operands > call->operands || operands > RM_CHAIN_OPERANDS || outputs < 1 ||
      outputs >= operands) {
    return rm_fail(RM_BAD_ARGUMENT, "a chain of %d operands, %d of them outputs", operands, outputs);
  }
  if (rank < 0 || rank > RM_MAX_RANK) {
    return rm_fail(RM_UNSUPPORTED, "the plan has %d axes, more than %d", rank, RM_MAX_RANK);
  }
  chain->rank = rank;
  chain->operands = operands;
  chain->outputs = outputs;
  chain->empty = false;
  const double *shape = plan + RM_OFFSETS + operands;
  for (int axis = 0; axis < rank; axis++) {
    chain->shape[axis] = (ptrdiff_t)shape[axis];
    if (chain->shape[axis] <= 0) chain->empty = true;
  }
  for (int k = 0; k < operands; k++) {
    if (call->buffers[k] == NULL) return rm_fail(RM_BAD_ARGUMENT, "operand %d has no memory", k);
    const int dtype = call->dtypes[k];
    if (dtype >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
    const ptrdiff_t bytes = rm_itemsize(dtype);
    const double *strides = shape + rank + (ptrdiff_t)k * rank;
    chain->dtypes[k] = dtype;
    chain->data[k] = (char *)call->buffers[k] + (ptrdiff_t)plan[RM_OFFSETS + k] * bytes;
    chain->inner_strides[k] = rank == 0 ? 0 : (ptrdiff_t)strides[rank - 1];
    for (int axis = 0; axis < rank; axis++) {
      chain->strides[axis][k] = (ptrdiff_t)strides[axis] * bytes;
    }
    chain->row_strides[k] = rank < 2 ? 0 : chain->strides[rank - 2][k];
    chain->non_temporal[k] = false;
  }
  return RM_OK;
}

static void widen(chain_context *chain, int dtype) {
  if (rm_itemsize(dtype) > chain->widest) chain->widest = rm_itemsize(dtype);
}

/* Whether an operand of the plan has one element only. */
static bool is_single(const chain_context *chain, int k) {
  for (int axis = 0; axis < chain->rank; axis++) {
    if (chain->strides[axis][k] != 0 && chain->shape[axis] > 1) return false;
  }
  return true;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The numbers of a step, and the constants. */
typedef struct {
  chain_context *chain;
  const double *constants;
  const double *steps;
} chain_reader;

/* The scalar that value `v` is, or null. */
static map_scalar scalar_of(const chain_reader *reader, int v, char own[8]) {
  const chain_context *chain = reader->chain;
  if (v < 0) {
    const double *constant = reader->constants + (ptrdiff_t)(-1 - v) * RM_CHAIN_CONSTANT_NUMBERS;
    const uint64_t bits = (uint64_t)constant[1] | (uint64_t)constant[2] << 32;
    memcpy(own, &bits, sizeof bits);
    return (map_scalar){own, (int)constant[0]};
  }
  const int inputs = chain->operands - chain->outputs;
  if (v < inputs) {
    const int k = chain->outputs + v;
    return (map_scalar){is_single(chain, k) ? chain->data[k] : NULL, chain->dtypes[k]};
  }
  const chain_step *step = &chain->step[v - inputs];
  return (map_scalar){step->is_scalar ? step->value : NULL, step->dtype};
}

static int add_block(chain_context *chain) { return chain->blocks++; }

/* The load of an input in a dtype, which steps may share. */
static int find_load(chain_context *chain, int position, int compute_dtype, int rounding_dtype) {
  const int storage_dtype = chain->dtypes[position];
  if (is_native_dtype(storage_dtype, compute_dtype, rounding_dtype)) rounding_dtype = RM_NONE;
  for (int i = 0; i < chain->loads; i++) {
    const chain_load *load = &chain->load[i];
    if (load->position == position && load->operand.compute_dtype == compute_dtype &&
        load->operand.rounding_dtype == rounding_dtype) {
      return i;
    }
  }
  chain->load[chain->loads] = (chain_load){
      .operand = {.storage_dtype = storage_dtype,
                  .compute_dtype = compute_dtype,
                  .rounding_dtype = rounding_dtype,
                  .column_stride = chain->inner_strides[position],
                  .row_stride = chain->row_strides[position]},
      .position = position,
      .block = add_block(chain),
  };
  return chain->loads++;
}

/* Computes a step of scalars. */
static void compute_scalar(chain_step *step) {
  _Alignas(64) char result[8], between[8];
  char *value[3] = {NULL, NULL, NULL};
  for (int k = 0; k < step->arity; k++) value[k] = step->operands[k].value;
  if (step->convert != NULL) {
    step->convert(1, step->value, value[0]);
    return;
  }
  run_function(&step->op, 1, result, value[0], value[1], value[2]);
  const int from = step->op.compute_dtype[0];
  cast_via(1, step->value, step->dtype, from == RM_BOOL ? RM_NONE : step->op.rounding_dtype, from,
           result, between);
}

/* Reads step s, whose operands have been read. */
static int32_t read_step(chain_reader *reader, int s) {
  chain_context *chain = reader->chain;
  chain_step *step = &chain->step[s];
  const double *numbers = reader->steps + (ptrdiff_t)s * RM_CHAIN_STEP_NUMBERS;
  const int opcode = (int)numbers[RM_CHAIN_STEP_OP];
  const int compute = (int)numbers[RM_CHAIN_STEP_COMPUTE];
  const bool one_element = numbers[RM_CHAIN_STEP_SINGLE] != 0;
  const double *values = numbers + RM_CHAIN_STEP_INPUTS;
  step->dtype = (int)numbers[RM_CHAIN_STEP_RESULT];
  step->output = (int)numbers[RM_CHAIN_STEP_OUTPUT];
  memset(step->parameters, 0, sizeof step->parameters);
  memcpy(step->parameters, numbers + RM_CHAIN_STEP_PARAMETERS, 3 * sizeof(double));
  if (opcode < 0 || opcode >= RM_OP_COUNT || step->dtype >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
  if (step->output >= chain->outputs ||
      (step->output >= 0 && chain->dtypes[step->output] != step->dtype)) {
    return rm_fail(RM_BAD_ARGUMENT, "step %d does not give output %d", s, step->output);
  }
  const int32_t status = RM_FOR_ISA(find_map_op)(&step->op, opcode, compute, step->parameters);
  if (status != RM_OK) return status;
  step->arity = step->op.operands - 1;
  step->opcode = opcode;
  step->strip_end = 0;
  step->convert = NULL;
  if (opcode == RM_OP_copy) {
    step->convert = RM_FOR_ISA(casts)[compute][step->dtype];
    step->op.compute_dtype[0] = step->dtype;
    step->op.compute_dtype[1] = compute;
    step->op.rounding_dtype = RM_NONE;
  }
  const int from = step->op.compute_dtype[0];
  step->native = from == step->dtype && (from == RM_BOOL || step->op.rounding_dtype == RM_NONE);
  map_scalar scalars[RM_MAX_OPERANDS] = {{NULL, RM_NONE}};
  char own[3][8];
  bool all_scalars = true;
  for (int k = 0; k < step->arity; k++) {
    scalars[k + 1] = scalar_of(reader, (int)values[k], own[k]);
    all_scalars &= scalars[k + 1].data != NULL;
  }
  if (may_simplify(opcode)) {
    RM_FOR_ISA(map_simplify)(&step->op, opcode, scalars);
    step->arity = step->op.operands - 1;
  }
  step->is_scalar = all_scalars && one_element;
  const int first_step = chain->operands - chain->outputs;
  for (int k = 0; k < step->arity; k++) {
    const int v = (int)values[k];
    const int dtype = step->op.compute_dtype[k + 1];
    const int rounding = dtype == RM_BOOL ? RM_NONE : step->op.rounding_dtype;
    chain_operand *operand = &step->operands[k];
    if (scalars[k + 1].data != NULL) {
      char between[8];
      operand->source = FROM_SCALAR;
      cast_via(1, operand->value, dtype, rounding, scalars[k + 1].dtype, scalars[k + 1].data,
               between);
      operand->block = step->is_scalar ? -1 : add_block(chain);
    } else if (v < first_step) {
      operand->source = FROM_LOAD;
      operand->index = find_load(chain, chain->outputs + v, dtype, rounding);
    } else {
      operand->source = FROM_STEP;
      operand->index = v - first_step;
      operand->dtype = chain->step[v - first_step].dtype;
    }
  }
  if (step->is_scalar) compute_scalar(step);
  else if (step->op.compute_bound) chain->compute_bound++;
  return RM_OK;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Gives each step a block for its result: that of an operand that no later step reads, if their
 * elements have one size, else a free one. Outputs have blocks of their own, as they may be copied
 * from there after later steps of a run, which may compute elements again. */
static void assign_blocks(chain_context *chain, const int *last_use) {
  int free[RM_CHAIN_STEPS], available = 0;
  for (int s = 0; s < chain->steps; s++) {
    chain_step *step = &chain->step[s];
    if (step->is_scalar) continue;
    int freed[4], count = 0, block = -1;
    for (int k = 0; k < step->arity; k++) {
      const chain_operand *operand = &step->operands[k];
      if (operand->source != FROM_STEP || last_use[operand->index] != s) continue;
      const chain_step *read = &chain->step[operand->index];
      if (read->output >= 0) continue;
      bool seen = read->block == block;
      for (int i = 0; i < count; i++) seen |= freed[i] == read->block;
      if (seen) continue;
      const bool fits = step->output < 0 && rm_itemsize(read->dtype) == rm_itemsize(step->dtype);
      if (block < 0 && fits) block = read->block;
      else freed[count++] = read->block;
    }
    if (block < 0) block = available > 0 ? free[--available] : add_block(chain);
    step->block = block;
    if (last_use[s] == s && step->output < 0) freed[count++] = block;
    for (int i = 0; i < count; i++) free[available++] = freed[i];
  }
}

/* Marks inputs that an output would overwrite in a block before the last step has read them. */
static void find_overwritten(chain_context *chain) {
  for (int s = 0; s < chain->steps; s++) {
    const int output = chain->step[s].output;
    if (output < 0) continue;
    for (int later = s + 1; later < chain->steps; later++) {
      const chain_step *step = &chain->step[later];
      for (int k = 0; k < step->arity; k++) {
        if (step->is_scalar || step->operands[k].source != FROM_LOAD) continue;
        chain_load *load = &chain->load[step->operands[k].index];
        if (chain->data[load->position] == chain->data[output]) load->copied = true;
      }
    }
  }
}

int32_t RM_FOR_ISA(read_chain)(chain_context *chain, const rm_call *call) {
  int32_t status = read_operands(chain, call);
  /* An operand without elements has no scalar to read. */
  if (status != RM_OK || chain->empty) return status;
  const double *attributes = rm_attributes(call);
  const int steps = (int)attributes[RM_CHAIN_AT_STEPS];
  const int constants = (int)attributes[RM_CHAIN_AT_CONSTANTS];
  if (steps < 1 || steps > RM_CHAIN_STEPS) {
    return rm_fail(RM_BAD_ARGUMENT, "a chain of %d steps", steps);
  }
  chain_reader reader = {.chain = chain};
  reader.constants = call->numbers + RM_OFFSETS + chain->operands +
                     (ptrdiff_t)chain->rank * (1 + chain->operands);
  reader.steps = reader.constants + (ptrdiff_t)constants * RM_CHAIN_CONSTANT_NUMBERS;
  chain->steps = steps;
  chain->loads = 0;
  chain->blocks = FIRST_BLOCK;
  chain->compute_bound = 0;
  chain->widest = 1;
  int last_use[RM_CHAIN_STEPS];
  for (int s = 0; s < steps; s++) {
    status = read_step(&reader, s);
    if (status != RM_OK) return status;
    const chain_step *step = &chain->step[s];
    last_use[s] = s;
    for (int k = 0; k < step->arity; k++) {
      if (step->operands[k].source == FROM_STEP) last_use[step->operands[k].index] = s;
      widen(chain, step->op.compute_dtype[k + 1]);
    }
    widen(chain, step->op.compute_dtype[0]);
    widen(chain, step->dtype);
  }
  for (int k = 0; k < chain->operands; k++) widen(chain, chain->dtypes[k]);
  assign_blocks(chain, last_use);
  find_overwritten(chain);
  return RM_OK;
}
