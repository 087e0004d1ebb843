/*
 * What all convolutions share: their operands, and what finishes their sums.
 */
#include "conv_context.h"

/* The elements whose exp is computed at once. */
enum { EXPS = 512 };

/* Applies elu or mish to n elements: some at once, with their exp(x) - 1 or exp(x). */
static void activate_exp(const conv_context *ctx, ptrdiff_t n, float *to) {
  const float factor = ctx->low;
  float exps[EXPS];
  for (ptrdiff_t left = n; left > 0; left -= EXPS, to += EXPS) {
    const ptrdiff_t count = rm_min(EXPS, left);
    run_function(&ctx->function, count, (char *)exps, (const char *)to, NULL, NULL);
    if (ctx->activation == RM_ACTIVATION_ELU) {
      RM_ANY_ORDER for (ptrdiff_t i = 0; i < count; i++) to[i] = to[i] > 0 ? to[i] : factor * exps[i];
    } else {
      /* tanh(log(1 + e)) is s / (s + 2), and 1 before s overflows. */
      RM_ANY_ORDER for (ptrdiff_t i = 0; i < count; i++) {
        const float s = exps[i] * (exps[i] + 2);
        to[i] = to[i] > 20 ? to[i] : to[i] * (s / (s + 2));
      }
    }
  }
}

void RM_FOR_ISA(conv_activate)(const conv_context *ctx, ptrdiff_t n, float *to) {
  const float low = ctx->low, high = ctx->high;
  if (ctx->activation == RM_ACTIVATION_CLIP) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
      const float above = to[i] <= low ? low : to[i];
      to[i] = above >= high ? high : above;
    }
  } else if (ctx->activation == RM_ACTIVATION_HARD_SWISH) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
      const float x = to[i] + 3, above = x <= 0 ? 0 : x;
      to[i] = to[i] * (above >= 6 ? 6 : above) * (1.0f / 6);
    }
  } else if (ctx->activation == RM_ACTIVATION_HARD_SIGMOID) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) {
      const float x = low * to[i] + high, above = x <= 0 ? 0 : x;
      to[i] = above >= 1 ? 1 : above;
    }
  } else if (ctx->activation >= RM_ACTIVATION_ELU) {
    activate_exp(ctx, n, to);
  } else if (ctx->activation == RM_ACTIVATION_LEAKY_RELU) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < n; i++) to[i] = to[i] > 0 ? to[i] : low * to[i];
  } else {
    run_function(&ctx->function, n, (char *)to, (const char *)to, NULL, NULL);
  }
}

void RM_FOR_ISA(finish_sums)(const conv_context *ctx, ptrdiff_t channel, ptrdiff_t at,
                             ptrdiff_t count) {
  float *to = ctx->out + at;
  const float *add = ctx->add == NULL ? NULL : ctx->add + at;
  const float bias = ctx->bias == NULL ? 0 : ctx->bias[channel];
  if (add != NULL && !ctx->adds_last) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < count; i++) to[i] = to[i] + bias + add[i];
  } else if (ctx->bias != NULL) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < count; i++) to[i] += bias;
  }
  if (ctx->activation != RM_ACTIVATION_NONE) RM_FOR_ISA(conv_activate)(ctx, count, to);
  if (add != NULL && ctx->adds_last) {
    RM_ANY_ORDER for (ptrdiff_t i = 0; i < count; i++) to[i] += add[i];
  }
}

int32_t RM_FOR_ISA(conv_operands)(const rm_call *call, conv_context *ctx, const double *finish) {
  for (int i = 0; i < 3; i++) {
    if (call->dtypes[i] != RM_FLOAT32) return RM_UNSUPPORTED;
    if (call->buffers[i] == NULL) return rm_fail(RM_BAD_ARGUMENT, "conv without operand %d", i);
  }
  const double *offsets = finish + FINISH_OFFSETS, *optional = finish + FINISH_OPTIONAL;
  ctx->kernels = RM_FOR_ISA(gemm_kernels)(RM_FLOAT32);
  ctx->out = (float *)call->buffers[0] + (ptrdiff_t)offsets[0];
  ctx->x = (const float *)call->buffers[1] + (ptrdiff_t)offsets[1];
  ctx->w = (const float *)call->buffers[2] + (ptrdiff_t)offsets[2];
  if (!rm_optional_f32(call, optional[0], offsets[3], &ctx->bias) ||
      !rm_optional_f32(call, optional[1], offsets[4], &ctx->add)) {
    return rm_fail(RM_BAD_ARGUMENT, "conv without its bias or residual");
  }
  ctx->activation = (int)finish[0];
  ctx->low = (float)finish[1];
  ctx->high = (float)finish[2];
  ctx->adds_last = finish[3] != 0;
  if (ctx->activation == RM_ACTIVATION_RELU) {
    ctx->activation = RM_ACTIVATION_CLIP;
    ctx->low = 0;
    ctx->high = __builtin_inff();
  }
  if (ctx->activation == RM_ACTIVATION_NONE) return RM_OK;
  if (ctx->activation < 0 || ctx->activation > RM_ACTIVATION_MISH) {
    return rm_fail(RM_BAD_ARGUMENT, "there is no activation %d", ctx->activation);
  }
  int op = RM_OP_exp;
  if (has_activation(ctx->activation)) op = activation_op(ctx->activation);
  else if (ctx->activation == RM_ACTIVATION_ELU) op = RM_OP_expm1;
  else if (ctx->activation != RM_ACTIVATION_MISH) return RM_OK;
  return RM_FOR_ISA(find_map_op)(&ctx->function, op, RM_FLOAT32, NULL);
}
