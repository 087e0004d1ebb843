/*
 * Quicksort of 32-bit and 64-bit keys.
 */
#include "quicksort.h"
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* The bytes of a vector, and the rows of vectors that a network sorts at most. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
enum { ROWS = 16 };

/* Vectors that a partition reads at a time. */
enum { BATCH = 4 };

/* Keys that the pivot of a long run is the median of, and the length from which runs are long. */
enum { SAMPLE = 64, SHORT_SAMPLE = 16, LONG_SAMPLED = 2048 };

/* The length from which threads share a run, and that of the parts whose sorting is one task. */
enum { PARALLEL_MIN = 1 << 16, MAX_SEGMENTS = 64, MAX_CHUNKS = 8 };

/* f for each lane of a vector, with an argument. */
#define EACH_LANE_2(f, j) f(0, j), f(1, j)
#define EACH_LANE_4(f, j) EACH_LANE_2(f, j), f(2, j), f(3, j)
#define EACH_LANE_8(f, j) EACH_LANE_4(f, j), f(4, j), f(5, j), f(6, j), f(7, j)
#define EACH_LANE_16(f, j)                                                                 \
  EACH_LANE_8(f, j), f(8, j), f(9, j), f(10, j), f(11, j), f(12, j), f(13, j), f(14, j), \
      f(15, j)
#define EACH_LANE_OF(lanes, f, j) RM_SUFFIXED(EACH_LANE, lanes)(f, j)
#define EACH_LANE(f, j) EACH_LANE_OF(LANES, f, j)

#define FULLY_UNROLLED _Pragma("clang loop unroll(full)")

#if defined(__AVX2__) && !defined(__AVX512F__)
/* For each mask of greater lanes: the lanes that are not greater, then the greater ones. Written
 * once; threads that do so at the same time write the same bytes. */
static _Atomic(uint64_t) lane_orders[256];
static _Atomic(bool) has_lane_orders;

static void make_lane_orders(void) {
  if (atomic_load_explicit(&has_lane_orders, memory_order_acquire)) return;
  for (int mask = 0; mask < 256; mask++) {
    uint64_t order = 0;
    int at = 0;
    for (int greater = 0; greater < 2; greater++) {
      for (int lane = 0; lane < 8; lane++) {
        if ((mask >> lane & 1) == greater) order |= (uint64_t)lane << (8 * at++);
      }
    }
    atomic_store_explicit(&lane_orders[mask], order, memory_order_relaxed);
  }
  atomic_store_explicit(&has_lane_orders, true, memory_order_release);
}

static RM_ALWAYS_INLINE __m256i lane_order(int mask) {
  const uint64_t order = atomic_load_explicit(&lane_orders[mask], memory_order_relaxed);
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)order));
}
#else
static void make_lane_orders(void) {}
#endif

/* A number from 0 to n - 1, the next of a sequence. */
static RM_ALWAYS_INLINE ptrdiff_t next_below(uint64_t *state, ptrdiff_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (ptrdiff_t)(((*state >> 32) * (uint64_t)n) >> 32);
}

#define BITS 32
#define KEY int32_t
#define KEY_MAX INT32_MAX
#define KEY_MIN INT32_MIN
#if VECTOR_BYTES == 64
#define LANES 16
#elif VECTOR_BYTES == 32
#define LANES 8
#else
#define LANES 4
#endif
#include "quicksort_network.h"
#include "quicksort_type.h"
#undef BITS
#undef KEY
#undef KEY_MAX
#undef KEY_MIN
#undef LANES

#define BITS 64
#define KEY int64_t
#define KEY_MAX INT64_MAX
#define KEY_MIN INT64_MIN
#if VECTOR_BYTES == 64
#define LANES 8
#elif VECTOR_BYTES == 32
#define LANES 4
#else
#define LANES 2
#endif
#include "quicksort_network.h"
#include "quicksort_type.h"
