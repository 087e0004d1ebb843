/*
 * Chooses the instruction set (ISA) whose kernels run.
 */
#if defined(__linux__)
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <stdatomic.h>
#include "internal.h"

#if defined(__x86_64__)
#include <cpuid.h>

extern const rm_kernels rm_kernels_v2, rm_kernels_v3;
#ifdef __APPLE__
static const rm_kernels *const isa_kernels[] = {&rm_kernels_v2, &rm_kernels_v3};
#else
extern const rm_kernels rm_kernels_v4;
static const rm_kernels *const isa_kernels[] = {&rm_kernels_v2, &rm_kernels_v3, &rm_kernels_v4};
#endif
enum { LOWEST_ISA = 2 };

static bool has_all(unsigned bits, unsigned wanted) { return (bits & wanted) == wanted; }

/* The x86-64 level of this machine and its operating system, 2 to 4. */
static int highest_isa(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 2;
  /* FMA, MOVBE, OSXSAVE, AVX, F16C. */
  if (!has_all(c, 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29)) return 2;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (!has_all(low, 6)) return 2;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 2;
  /* BMI1, AVX2, BMI2. */
  if (!has_all(b, 1u << 3 | 1u << 5 | 1u << 8)) return 2;
#ifdef __APPLE__
  return 3;
#endif
  /* AVX-512 F, DQ, CD, BW, VL, and whether the system saves their registers. */
  if (!has_all(b, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31) || !has_all(low, 0xe6)) {
    return 3;
  }
  return 4;
}

/* A bit for each ISA in whose vectors the processor has VNNI. */
static unsigned byte_product_isas(void) {
  unsigned a, b, c, d, isas = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 11)) isas |= 1u << 4;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4)) isas |= 1u << 3;
  return isas;
}
#else
extern const rm_kernels rm_kernels_base;
static const rm_kernels *const isa_kernels[] = {&rm_kernels_base};
enum { LOWEST_ISA = 1 };
static int highest_isa(void) { return LOWEST_ISA; }
#endif

const rm_kernels *_Atomic rm_active_kernels;

bool rm_has_isa(int isa) { return isa == 0 || (isa >= LOWEST_ISA && isa <= highest_isa()); }

/* Sets the ISA, 0 for the best one. One that the machine lacks changes nothing. */
static void set_isa(int isa) {
  if (!rm_has_isa(isa)) return;
  atomic_store(&rm_active_kernels, isa_kernels[(isa == 0 ? highest_isa() : isa) - LOWEST_ISA]);
}

const rm_kernels *rm_choose_isa(void) {
  set_isa(rm_environment_value(RM_ENVIRONMENT_LEVEL, 0));
  if (atomic_load(&rm_active_kernels) == NULL) set_isa(0);
  return atomic_load(&rm_active_kernels);
}

int rm_set_isa(int isa) {
  if (isa >= 0) set_isa(isa);
  const rm_kernels *active = atomic_load(&rm_active_kernels);
  if (active == NULL) active = rm_choose_isa();
  isa = LOWEST_ISA;
  while (isa_kernels[isa - LOWEST_ISA] != active) isa++;
  return isa;
}

bool rm_has_byte_products(void) {
#if defined(__x86_64__)
  /* 0 before the first call; 1 is no ISA. */
  static _Atomic unsigned known;
  unsigned isas = atomic_load_explicit(&known, memory_order_relaxed);
  if (isas == 0) {
    isas = byte_product_isas() | 1;
    atomic_store_explicit(&known, isas, memory_order_relaxed);
  }
  return isas >> rm_set_isa(-1) & 1;
#else
  return false;
#endif
}

#if defined(__x86_64__) && defined(__linux__)
/* Linux saves the state of tiles only for processes that have asked for it. */
static bool may_use_tiles(void) {
  enum { REQUEST_STATE = 0x1023, TILE_DATA = 18 };
  unsigned a, b, c, d, low, high;
  /* AMX-TILE and AMX-INT8. */
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_all(d, 1u << 24 | 1u << 25)) return false;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return has_all(low, 1u << 17 | 1u << TILE_DATA) &&
         syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
}
#endif

bool rm_has_byte_tiles(void) {
#if defined(__x86_64__) && defined(__linux__)
  enum { UNKNOWN, NO, YES };
  static _Atomic int known;
  if (rm_set_isa(-1) != 4) return false;
  int has = atomic_load_explicit(&known, memory_order_relaxed);
  if (has == UNKNOWN) {
    has = may_use_tiles() ? YES : NO;
    atomic_store_explicit(&known, has, memory_order_relaxed);
  }
  return has == YES;
#else
  return false;
#endif
}
