/*
 * Finds the kernels of elementwise ops, and what they take.
 */
#include <string.h>
#include "map_context.h"

typedef struct {
  uint8_t operands;
  bool condition;
  bool gives_bool;
  bool compute_bound;
} op_info;

#define RM_MAP_OP(name, arity, condition, gives_bool, compute_bound) \
  [RM_OP_##name] = {(arity) + 1, condition, gives_bool, compute_bound},
static const op_info op_infos[RM_OP_COUNT] = {
#include "ops.def"
};
#undef RM_MAP_OP

/* Ops whose float32 and float64 kernels take whole vectors only. */
#define RM_COMPUTE_BOUND_MAP(name, ...) [RM_OP_##name] = true,
#define RM_SPECIAL_MAP RM_COMPUTE_BOUND_MAP
static const bool needs_whole_vectors[RM_OP_COUNT] = {
#include "ops.def"
};
#undef RM_COMPUTE_BOUND_MAP
#undef RM_SPECIAL_MAP

int32_t RM_FOR_ISA(find_map_op)(map_op *op, int opcode, int dtype, const double *attributes) {
  if (dtype >= RM_DTYPE_COUNT) return RM_UNSUPPORTED;
  const op_info info = op_infos[opcode];
  const bool is_half = dtype == RM_FLOAT16 || dtype == RM_BFLOAT16;
  int compute = dtype;
  op->rounding_dtype = RM_NONE;
  op->function = RM_FOR_ISA(map_kernel)(opcode, compute);
  op->whole_vectors = is_half || (needs_whole_vectors[opcode] && dtype >= RM_FLOAT32);
  if (op->function == NULL && is_half) {
    compute = RM_FLOAT32;
    op->rounding_dtype = dtype;
    op->function = RM_FOR_ISA(map_kernel)(opcode, compute);
    op->whole_vectors = needs_whole_vectors[opcode];
  }
  if (op->function == NULL) return RM_UNSUPPORTED;
  op->scalar_functions = RM_FOR_ISA(map_scalar_kernels)(opcode, compute);
  op->attributes = attributes;
  op->compute_bound = info.compute_bound;
  op->operands = info.operands;
  for (int k = 0; k < info.operands; k++) op->compute_dtype[k] = compute;
  if (info.gives_bool) op->compute_dtype[0] = RM_BOOL;
  if (info.condition) op->compute_dtype[1] = RM_BOOL;
  return RM_OK;
}

/* Runs a kernel that takes whole vectors only. The last elements are computed as another vector,
 * together with the elements before them or, if there are too few, with ordinary numbers. */
void RM_FOR_ISA(run_padded)(const map_op *op, ptrdiff_t n, char *out, const char *a, const char *b,
                            const char *c) {
  const ptrdiff_t rest = n % VECTOR, limit = n - rest, used = rm_min(n, VECTOR);
  const char *const operands[RM_MAX_OPERANDS] = {out, a, b, c};
  _Alignas(64) uint64_t part[RM_MAX_OPERANDS][VECTOR];
  for (int k = 1; k < op->operands; k++) {
    const ptrdiff_t size = rm_itemsize(op->compute_dtype[k]);
    /* Small and positive in every float dtype. */
    for (int i = 0; i < VECTOR; i++) part[k][i] = 0x3f803f803f803f80;
    memcpy(part[k], operands[k] + (n - used) * size, (size_t)(used * size));
  }
  if (limit > 0) op->function(limit, out, a, b, c, op->attributes);
  op->function(VECTOR, part[0], part[1], part[2], part[3], op->attributes);
  const ptrdiff_t size = rm_itemsize(op->compute_dtype[0]);
  memcpy(out + limit * size, (char *)part[0] + (used - rest) * size, (size_t)(rest * size));
}
