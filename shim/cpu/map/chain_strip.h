/*
 * Runs of steps of a chain whose value stays in registers, and the operands of steps.
 */
#ifndef ROWMAJOR_CHAIN_STRIP_H
#define ROWMAJOR_CHAIN_STRIP_H

#include "chain_context.h"

/* A strip is in so many vectors. */
#if defined(__AVX512F__)
#define VECTORS(X, ...) X(0, __VA_ARGS__) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__)
enum { VECTOR_BYTES = 64, VECTOR_COUNT = 4 };
#else
#define VECTORS(X, ...) \
  X(0, __VA_ARGS__) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__) \
  X(4, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__) X(7, __VA_ARGS__)
#if defined(__AVX__)
enum { VECTOR_BYTES = 32, VECTOR_COUNT = 8 };
#else
enum { VECTOR_BYTES = 16, VECTOR_COUNT = 8 };
#endif
#endif
enum { STRIP = VECTOR_BYTES / (int)sizeof(float) * VECTOR_COUNT };

typedef float vector __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vector_bits __attribute__((vector_size(VECTOR_BYTES)));
typedef vector vector_at __attribute__((aligned(4), may_alias));

#define PARAMETER(i, ...) , vector v##i
#define PARAMETERS const instruction *step, ptrdiff_t at VECTORS(PARAMETER, )

typedef struct instruction instruction;
typedef void (RM_KERNEL *strip_function)(PARAMETERS);
struct instruction {
  strip_function run;
  /* An operand or a target, and the condition of where. */
  char *operand;
  const char *condition;
  /* A scalar operand or two bounds. */
  float low, high;
  /* The operands of the plan that move `operand` and `low` with the block; or -1. */
  int position, scalar_position;
  /* Of the last one: the first, and where the last strip begins. */
  const instruction *first;
  ptrdiff_t last;
};

/* The state of one thread. */
typedef struct {
  const chain_context *chain;
  char *space;
  /* Of the loads: the block as kernels read it, or null, and what it was made from. */
  const char *ready[MAX_LOADS];
  block_cache cache[MAX_LOADS];
  /* The results of steps in this block. */
  char *result[RM_CHAIN_STEPS];
  /* By block: whether it contains a repeated scalar. */
  bool repeated[MAX_BLOCKS];
  /* The instructions of the run that begins with step s, from 4 s, and whether they are there. */
  instruction instructions[4 * RM_CHAIN_STEPS];
  bool written[RM_CHAIN_STEPS];
} chain_workspace;

/* A block of the plan. */
typedef struct {
  char *at[RM_CHAIN_OPERANDS];
  ptrdiff_t rows, columns;
} chain_block;

static inline char *block_at(const chain_workspace *workspace, int block) {
  return workspace->space + block * (workspace->chain->block_bytes + BLOCK_MARGIN);
}

/* An input as kernels read it. */
const char *RM_FOR_ISA(load_input)(chain_workspace *workspace, const chain_block *part, int index);

/* Operand k of a step as its kernel reads it. */
const char *RM_FOR_ISA(load_operand)(chain_workspace *workspace, const chain_block *part,
                                     const chain_step *step, int k);

/* The scalar that operand k of a step is in this block, or null. */
const char *RM_FOR_ISA(scalar_operand)(chain_workspace *workspace, const chain_block *part,
                                       const chain_step *step, int k, char value[8]);

/* Finds the runs: sets strip_end of their first steps. */
void RM_FOR_ISA(find_strips)(chain_context *chain);

/* Runs steps [first, last) on a block, whose results go to workspace->result. Returns false, and
 * does nothing, if the block is shorter than a strip. */
bool RM_FOR_ISA(run_strips)(chain_workspace *workspace, const chain_block *part, int first,
                            int last);

#endif
