/*
 * The operands of steps of chains in a block: in place, loaded, repeated, or results of other steps.
 */
#include <string.h>
#include "chain_strip.h"

const char *RM_FOR_ISA(load_input)(chain_workspace *workspace, const chain_block *part, int index) {
  const chain_load *load = &workspace->chain->load[index];
  if (load->in_place) return part->at[load->position];
  if (workspace->ready[index] != NULL) return workspace->ready[index];
  const char *at = part->at[load->position];
  char *own = block_at(workspace, load->block);
  const char *found = load_block(&load->operand, &workspace->cache[index], own,
                                 block_at(workspace, PACKED), block_at(workspace, BETWEEN), at,
                                 part->rows, part->columns);
  if (load->copied && found == at) {
    const ptrdiff_t bytes = rm_itemsize(load->operand.compute_dtype);
    found = memcpy(own, at, (size_t)(part->rows * part->columns * bytes));
  }
  return workspace->ready[index] = found;
}

/* The one element of an input in a block of one row, in the dtype of the kernel; null if there are
 * several. */
static const char *load_element(chain_workspace *workspace, const chain_block *part, int index,
                                char value[8]) {
  const chain_load *load = &workspace->chain->load[index];
  const block_operand *operand = &load->operand;
  if (operand->column_stride != 0 || part->rows != 1) return NULL;
  const char *at = part->at[load->position];
  char between[8];
  if (is_native_dtype(operand->storage_dtype, operand->compute_dtype, operand->rounding_dtype)) {
    memcpy(value, at, (size_t)rm_itemsize(operand->storage_dtype));
  } else {
    cast_via(1, value, operand->compute_dtype, operand->rounding_dtype, operand->storage_dtype, at,
             between);
  }
  return value;
}

/* A block of a scalar, for kernels that take it with each element. */
static const char *repeat_scalar(chain_workspace *workspace, const chain_operand *operand,
                                 ptrdiff_t size) {
  const chain_context *chain = workspace->chain;
  char *own = block_at(workspace, operand->block);
  if (!workspace->repeated[operand->block]) {
    const ptrdiff_t total = rm_min(chain->block_rows, chain->rows) *
                            rm_min(chain->block_columns, chain->columns);
    RM_FOR_ISA(copy_block)((block){own, 0, size}, (block){(char *)operand->value, 0, 0}, 1, total,
                           size);
    workspace->repeated[operand->block] = true;
  }
  return own;
}

const char *RM_FOR_ISA(load_operand)(chain_workspace *workspace, const chain_block *part,
                                     const chain_step *step, int k) {
  const chain_operand *operand = &step->operands[k];
  if (operand->source == FROM_LOAD) return RM_FOR_ISA(load_input)(workspace, part, operand->index);
  const int dtype = step->op.compute_dtype[k + 1];
  if (operand->source == FROM_SCALAR) return repeat_scalar(workspace, operand, rm_itemsize(dtype));
  const char *value = workspace->result[operand->index];
  const int rounding = dtype == RM_BOOL ? RM_NONE : step->op.rounding_dtype;
  if (is_native_dtype(operand->dtype, dtype, rounding)) return value;
  char *own = block_at(workspace, CASTS + k);
  cast_via(part->rows * part->columns, own, dtype, rounding, operand->dtype, value,
           block_at(workspace, BETWEEN));
  return own;
}

const char *RM_FOR_ISA(scalar_operand)(chain_workspace *workspace, const chain_block *part,
                                       const chain_step *step, int k, char value[8]) {
  const chain_operand *operand = &step->operands[k];
  if (operand->source == FROM_SCALAR) return operand->value;
  return operand->source == FROM_LOAD ? load_element(workspace, part, operand->index, value) : NULL;
}
