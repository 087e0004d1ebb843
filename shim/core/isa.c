/*
 * Chooses the instruction set whose kernels run.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include "internal.h"

#if defined(__x86_64__)
#include <cpuid.h>

extern const rm_kernels rm_kernels_v2, rm_kernels_v3, rm_kernels_v4;
static const rm_kernels *const levels[] = {&rm_kernels_v2, &rm_kernels_v3, &rm_kernels_v4};
enum { LOWEST = 2 };

static bool has(unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; }

/* The x86-64 level of this machine and its operating system, 2 to 4. */
static int highest_level(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 2;
  /* FMA, MOVBE, OSXSAVE, AVX, F16C. */
  if (!has(c, 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29)) return 2;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (!has(low, 6)) return 2;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 2;
  /* BMI1, AVX2, BMI2. */
  if (!has(b, 1u << 3 | 1u << 5 | 1u << 8)) return 2;
  /* AVX-512 F, DQ, CD, BW, VL, and registers that the system saves. */
  if (!has(b, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31) || !has(low, 0xe6)) return 3;
  return 4;
}
#else
extern const rm_kernels rm_kernels_base;
static const rm_kernels *const levels[] = {&rm_kernels_base};
enum { LOWEST = 1 };
static int highest_level(void) { return LOWEST; }
#endif

const rm_kernels *_Atomic rm_active_kernels;

/* Level 0 is the best one. A level that the machine lacks changes nothing. */
static void set_level(int level) {
  const int highest = highest_level();
  if (level == 0) level = highest;
  if (level >= LOWEST && level <= highest) atomic_store(&rm_active_kernels, levels[level - LOWEST]);
}

const rm_kernels *rm_choose_level(void) {
  const char *text = getenv("ROWMAJOR_LEVEL");
  if (text != NULL && text[0] == 'v') set_level(atoi(text + 1));
  if (atomic_load(&rm_active_kernels) == NULL) set_level(0);
  return atomic_load(&rm_active_kernels);
}

int rm_set_level(int level) {
  if (level >= 0) set_level(level);
  const rm_kernels *active = atomic_load(&rm_active_kernels);
  if (active == NULL) active = rm_choose_level();
  level = LOWEST;
  while (levels[level - LOWEST] != active) level++;
  return level;
}
