/*
 * Calls every kernel but the chain without JavaScript, over many dtypes, sizes, strides and
 * offsets, and compares results with plain loops where those are obvious; and the entry points of
 * versions, settings, messages and BLAS. loops.c makes and runs programs of stand-ins for kernels,
 * buffers.c and pages.c call rm_buffers, and buffers.c and queue.c are stand-ins for Node-API. Only
 * tests in TypeScript call the chain, rm_address_of, rm_program_copy, rm_program_set and the entry
 * points of CUDA.
 *
 * Every buffer is exactly as long as its operand reaches, so that inaccessible pages and sanitizers
 * detect any access beyond it. No call may change an input, or memory between the elements of an
 * output.
 * The driver uses rowmajor.h, internal.h and linalg.h only. Its parts are in driver/.
 *
 * Arguments: the highest instruction set to try (a number; 0 is the best one of the machine), then
 * "short" for fewer and smaller cases, and "fenced" for buffers between inaccessible pages. Prints a
 * line of counts. The first failure ends the program.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "internal.h"
#include "driver/driver_base.h"
#include "driver/driver_elements.h"
#include "driver/driver_products.h"
#include "driver/driver_sorts.h"
#include "driver/driver_conv.h"
#include "driver/driver_quantized.h"
#include "driver/driver_cache.h"
#include "driver/driver_moves.h"
#include "driver/driver_fft.h"
#include "driver/driver_linalg.h"
#include "driver/driver_sets.h"
#include "driver/driver_sample.h"
#include "driver/driver_image.h"

/* ---- the small entry points ------------------------------------------------------------------ */

static void try_others(void) {
  snprintf(about, sizeof about, "versions, messages, settings");
  if (rm_version() != RM_VERSION) fail("another version");
  if (rm_abi_hash() != (int32_t)RM_ABI_HASH) fail("other declarations");
  uint32_t table = 0;
#define RM_OP(name, hash, ...) \
  table ^= hash; \
  if (rm_find_kernel(#name, (int32_t)hash) != RM_OP_##name) fail("an op is another kernel"); \
  if (rm_find_kernel(#name, (int32_t)hash ^ 1) != -1) fail("an op of another meaning is found");
#include "ops.def"
#undef RM_OP
  if (rm_table_hash() != (int32_t)table) fail("another table");
  if (rm_find_kernel("nothing", 0) != -1) fail("a kernel that there is not");
  if (rm_configure(RM_CONFIGURE_THREADS, 2) != 2 || rm_configure(RM_CONFIGURE_THREADS, -1) != 2) {
    fail("not 2 threads");
  }
  if (rm_configure(RM_CONFIGURE_THREADS, 100000) > 256) fail("too many threads");
  if (rm_configure(RM_CONFIGURE_THREADS, 0) < 1) fail("no threads");
  if (rm_configure(99, 0) != -1) fail("an unknown setting");
  const int32_t level = rm_configure(RM_CONFIGURE_LEVEL, -1);
  if (rm_configure(RM_CONFIGURE_LEVEL, 77) != level) fail("an unknown instruction set");
  char text[8];
  if (rm_blas_info(text, sizeof text) != 0) fail("a BLAS that was not opened");
  setenv("ROWMAJOR_OPENBLAS", "/no/such/library", 1);
  if (rm_blas_open() != RM_NOT_FOUND) fail("a BLAS that is not there");
  const int32_t full = rm_last_error(text, sizeof text);
  if (full < 8 || strlen(text) != sizeof text - 1) fail("a message is not cut to length");
  if (rm_last_error(NULL, 0) != full) fail("the length of a message");
  double plan[RM_OFFSETS + 5] = {[RM_PLAN_RANK] = 1, [RM_PLAN_OPERANDS] = 2,
                                 [RM_OFFSETS + 2] = 1, [RM_OFFSETS + 3] = 1, [RM_OFFSETS + 4] = 1};
  float x[1] = {1}, y[1] = {2};
  const int32_t floats = pack(RM_FLOAT32, RM_FLOAT32, RM_NONE, RM_NONE);
  const int32_t ints = pack(RM_INT32, RM_INT32, RM_NONE, RM_NONE);
  enum { F = RM_FLOAT32 };
  if (rm_run(RM_OP_neg, floats, F, plan, x, NULL, NULL, NULL) != RM_BAD_ARGUMENT) fail("no memory");
  if (rm_run(RM_OP_add, floats, F, plan, x, y, NULL, NULL) == RM_OK) fail("too few operands");
  if (rm_run(-1, floats, F, plan, x, y, NULL, NULL) == RM_OK) fail("no kernel");
  if (rm_run(100000, floats, F, plan, x, y, NULL, NULL) == RM_OK) fail("no kernel");
  if (rm_run(RM_OP_sum, floats, F, plan, NULL, y, NULL, NULL) == RM_OK) fail("no memory");
  if (rm_run(RM_OP_neg, floats, 99, plan, x, y, NULL, NULL) == RM_OK) fail("no dtype");
  if (rm_run(kernel("sort"), pack(99, RM_NONE, RM_NONE, RM_NONE), F, plan, x, NULL, NULL, NULL) ==
      RM_OK) {
    fail("no dtype");
  }
  if (rm_run(kernel("softmax"), ints, RM_INT32, plan, x, y, NULL, NULL) == RM_OK) fail("no dtype");
  if (rm_run(kernel("gather"), pack(F, F, F, RM_NONE), F, plan, x, y, y, NULL) == RM_OK) {
    fail("no indices");
  }
  double none[ATTENTION_NUMBERS + ATTENTION_OPERANDS] = {1, 1, 1, 1, 1, 1};
  const int32_t four = pack(F, F, F, F), more = pack(RM_NONE, RM_NONE, RM_NONE, RM_NONE);
  const int32_t what = kernel("attention"), cached = kernel("cachedAttention");
  if (run_many(what, four, more, F, none, x, y, y, NULL, NULL, NULL, NULL, NULL) == RM_OK) {
    fail("no values");
  }
  none[3] = 0;
  if (run_many(what, four, more, F, none, x, y, y, y, NULL, NULL, NULL, NULL) == RM_OK) {
    fail("no keys");
  }
  if (run_many(what, pack(RM_FLOAT64, F, F, F), more, F, none, x, y, y, y, NULL, NULL, NULL,
                  NULL) == RM_OK) {
    fail("no dtype");
  }
  double no_cache[ATTENTION_NUMBERS + ATTENTION_OPERANDS + CACHE_NUMBERS + 2] = {1, 1, 1, 1, 1, 1};
  no_cache[ATTENTION_NUMBERS + ATTENTION_OPERANDS + 2] = 1;
  const int32_t floats_of_cache = pack(F, F, RM_INT32, RM_NONE);
  int32_t length[1] = {1};
  if (run_many(cached, four, more, F, no_cache, x, y, y, y, y, y, length, NULL) == RM_OK) {
    fail("no cache");
  }
  if (run_many(cached, four, floats_of_cache, F, no_cache, x, y, y, y, y, y, NULL, NULL) == RM_OK) {
    fail("no lengths");
  }
  if (run_many(cached, four, floats_of_cache, F, no_cache, x, y, y, y, y, y, length, NULL) == RM_OK) {
    fail("no problems for a length");
  }
  if (run_many(cached, four, pack(F, F, F, RM_NONE), F, no_cache, x, y, y, y, y, y, length, NULL) ==
      RM_OK) {
    fail("lengths that are no integers");
  }
  double *pages = no_cache + ATTENTION_NUMBERS + ATTENTION_OPERANDS;
  pages[RM_CACHED_ATTENTION_AT_PROBLEMS_PER_LENGTH] = 1;
  pages[RM_CACHED_ATTENTION_AT_CAPACITY] = 3;
  const double sizes[][3] = {{0, 1, 1}, {3, 0, 1}, {3, 1, 0}, {2, 1, 1}};
  for (int i = 0; i < 5; i++) {
    if (i < 4) {
      pages[RM_CACHED_ATTENTION_AT_PAGE_ROWS] = sizes[i][0];
      pages[RM_CACHED_ATTENTION_AT_PAGE_COUNT] = sizes[i][1];
      pages[RM_CACHED_ATTENTION_AT_PROBLEMS_PER_TABLE] = sizes[i][2];
    }
    if (rm_run_many(cached, four, floats_of_cache, i < 4 ? RM_INT32 : F, F, no_cache, x, y, y, y, y, y,
                    length, NULL, length) == RM_OK) {
      fail("no pages");
    }
  }
  double many[11] = {1, 1, 1, 1};
  if (rm_run(kernel("rope"), four, F, many, x, y, y, y) == RM_OK) fail("more pairs than columns");
  if (rm_run(kernel("rope"), pack(F, RM_FLOAT16, F, F), F, many, x, y, y, y) == RM_OK) {
    fail("no dtype");
  }
  if (run_many(-1, four, more, F, none, x, y, y, y, NULL, NULL, NULL, NULL) == RM_OK) {
    fail("no kernel");
  }
  if (x[0] != 1) fail("a refused call has written something");
}

int main(int count, char **arguments) {
  if (rm_configure(RM_CONFIGURE_SHARE_ALL, 1) != 1 ||
      rm_configure(RM_CONFIGURE_SHARE_ALL, -1) != 1) {
    fail("not shared");
  }
  const int highest = count > 1 ? atoi(arguments[1]) : 0;
  bool in_short = false;
  for (int i = 2; i < count; i++) {
    in_short |= strcmp(arguments[i], "short") == 0;
    fenced |= strcmp(arguments[i], "fenced") == 0;
  }
  setvbuf(stdout, NULL, _IONBF, 0);
  /* Requesting an instruction set above the best one changes nothing. */
  const int best = highest > 0 ? highest : rm_configure(RM_CONFIGURE_LEVEL, 0);
  int levels = 0;
  for (int level = 1; level <= best; level++) {
    if (rm_configure(RM_CONFIGURE_LEVEL, level) != level) continue;
    levels++;
    static const ptrdiff_t few[] = {1, 7, 17, 65};
    for (ptrdiff_t n = 1; n <= 70; n++) {
      /* A third of the longer lengths per instruction set, another one for each. */
      bool chosen = !in_short && (n <= 18 || n % 3 == level % 3);
      for (size_t i = 0; in_short && i < sizeof few / sizeof *few; i++) chosen |= few[i] == n;
      if (!chosen) continue;
      try_maps(n, true, 1);
      try_maps(n, false, 1);
      try_reductions(n, n % 2, 1);
      try_softmax_norm(1 + below(20), n, 1);
      try_norm_backward(1 + below(20), 1 + n / 16, 1);
      try_sort(1 + below(3), n, 1);
      try_topk(1 + below(3), n, 1);
      try_selection(1 + below(3), n, 1);
      try_packed(n, 1 + below(40), 1);
      try_moves(n);
      try_random(n, 1);
      try_fft(n, 20, 6, 1);
      try_convolve(n, 1 + below(40), 1);
      try_complex(n, 1);
      try_sets(n, 1);
      try_sample(n, 1);
      try_deviates(n, 1);
      if (n < 3) try_changing_parameters(n);
      if (n < 19 || n % 8 == 1) try_linalg(n, 1);
    }
    for (ptrdiff_t n = 1023; n <= 1025; n += in_short ? 2 : 1) {
      try_maps(n, n == 1023, 1);
      try_reductions(n, n == 1024, 2);
      try_softmax_norm(3, n, 1);
      try_norm_backward(3, 1 + n / 16, 1);
      try_sort(2, n, 1);
      try_topk(2, n, 1);
      try_selection(2, n, 1);
      try_packed(1 + below(20), n, 1);
      try_moves(n);
      try_random(n, 1);
      try_fft(n, 3, 3, 1);
      try_convolve(n, 1 + below(40), 1);
      try_complex(n, 1);
      try_sets(n, 1);
      try_sample(n, 1);
      try_deviates(n, 1);
    }
    /* Large primes, powers of two and products of primes. */
    static const ptrdiff_t lengths[] = {97, 128, 37 * 2, 101 * 3, 256, 1000, 31 * 29, 1009, 4096, 5003};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
      if (!in_short || i % 3 == 0) try_fft(lengths[i], in_short ? 3 : 20, 3, 1);
    }
    run_huge_trials();
    try_matmul(70, in_short ? 6 : 60);
    /* Parts of a long sum, which a workspace holds. */
    run_matmul(RM_FLOAT32, 3, 1, 140000, 1, 1);
    try_attention(in_short ? 24 : 70, in_short ? 70 : 300, in_short ? 10 : 60);
    try_conv(in_short ? 8 : 32, in_short ? 12 : 40);
    try_quantized(in_short ? 20 : 50, in_short ? 2 : 12);
    try_images(in_short ? 3 : 20);
    try_recurrent(in_short ? 20 : 70, in_short ? 3 : 20);
    try_few_bits(in_short ? 20 : 50, in_short ? 2 : 12);
    try_cached_attention(in_short ? 40 : 70, in_short ? 70 : 300, in_short ? 10 : 60);
    try_rope(in_short ? 20 : 70, in_short ? 10 : 60);
    if (!in_short) {
      try_matmul(300, 4);
      try_attention(20, 1024, 20);
      try_cached_attention(32, 900, 20);
      try_maps(40001, false, 3);
      try_reductions(150001, false, 3);
      try_softmax_norm(300, 1000, 3);
      try_norm_backward(300, 62, 3);
      try_sort(1, 200003, 3);
      try_topk(1, 200003, 3);
      try_sort(300, 1000, 3);
      try_topk(300, 1000, 3);
      try_selection(1, 20003, 3);
      try_selection(30, 1000, 3);
      try_packed(300, 600, 3);
      try_random(100003, 3);
      try_fft(65536, 2, 6, 3);
      try_fft(65537, 1, 3, 3);
      try_fft(120, 100, 6, 3);
      try_convolve(20003, 50, 3);
      try_convolve(5000, 5000, 3);
      try_complex(10007, 3);
      try_sets(140003, 3);
      try_sample(70001, 3);
      try_deviates(10007, 3);
      try_linalg(110, 3);
      try_linalg(9, 3);
    }
  }
  if (levels == 0) fail("no instruction set was tried");
  try_others();
  printf("%d levels, %ld calls, %ld served, %ld compared\n", levels, calls, served, compared);
  return 0;
}
