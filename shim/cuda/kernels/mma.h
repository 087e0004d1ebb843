/*
 * What tensor cores need, from compute capability 8.0 on: products of small matrices of 16-bit
 * floats, loads of such matrices from shared memory, and copies to it that do not wait. All lanes of
 * a warp call these functions together. This file does not know ops.
 *
 * A product is of 16 x 16 by 16 x 8 elements. Lane l has, with g = l / 4 and t = 2 * (l % 4):
 *   a: row g, columns t and t + 1; row g + 8; then both with columns 8 further on
 *   b: column g, rows t and t + 1; then rows 8 further on
 *   c: row g, columns t and t + 1; row g + 8
 */
#ifndef ROWMAJOR_CUDA_MMA_H
#define ROWMAJOR_CUDA_MMA_H

#include "block.h"

/* What one copy moves, and a row of a matrix of 8 x 8. */
typedef rm_pack<uint16_t, 8> rm_chunk;

#if defined(RM_EMULATED)

/* What the lanes of each warp show each other. */
static struct {
  const rm_chunk *row;
  uint32_t a[4], b[2];
} rm_shown[RM_MAX_WARPS][RM_WARP];

/* Copies are made when they are waited for, so that a missing wait shows. */
enum { RM_MOST_COPIES = 64 };
static struct {
  int count;
  struct {
    rm_chunk *to;
    const rm_chunk *from;
  } list[RM_MOST_COPIES];
} rm_copies[RM_MAX_WARPS * RM_WARP];

static inline void rm_copy_async(rm_chunk *to, const rm_chunk *from, bool exists) {
  auto &own = rm_copies[threadIdx.x];
  own.list[own.count].to = to;
  own.list[own.count++].from = exists ? from : nullptr;
}
static inline void rm_wait_copies(void) {
  auto &own = rm_copies[threadIdx.x];
  for (int i = 0; i < own.count; i++) {
    const auto &copy = own.list[i];
    rm_store<8>(copy.to->at, copy.from == nullptr ? rm_chunk{} : rm_load<8>(copy.from->at));
  }
  own.count = 0;
}

static inline void rm_load_matrices(uint32_t (&to)[4], const rm_chunk *row, bool transposed) {
  const auto *lanes = rm_shown[rm_warp()];
  const int g = rm_lane() / 4, t = 2 * (rm_lane() % 4);
  rm_shown[rm_warp()][rm_lane()].row = row;
  __syncwarp();
  for (int i = 0; i < 4; i++) {
    uint32_t both[2];
    for (int j = 0; j < 2; j++) {
      const int line = transposed ? t + j : g, place = transposed ? g : t + j;
      both[j] = rm_load<8>(lanes[8 * i + line].row->at).at[place];
    }
    to[i] = both[1] << 16 | both[0];
  }
  __syncwarp();
}

template <class D>
static inline void rm_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  auto *lanes = rm_shown[rm_warp()];
  auto &own = lanes[rm_lane()];
  memcpy(own.a, a, sizeof a);
  own.b[0] = b0;
  own.b[1] = b1;
  __syncwarp();
  const int g = rm_lane() / 4, t = 2 * (rm_lane() % 4);
  for (int i = 0; i < 4; i++) {
    const int column = t + i % 2;
    double sum = c[i];
    for (int k = 0; k < 16; k++) {
      const uint32_t x = lanes[4 * g + k % 8 / 2].a[k / 8 * 2 + i / 2],
                     y = lanes[4 * column + k % 8 / 2].b[k / 8];
      const int half = k % 2 * 16;
      sum += (double)D::get((uint16_t)(x >> half)) * D::get((uint16_t)(y >> half));
    }
    c[i] = (float)sum;
  }
  __syncwarp();
}

template <class D>
static inline uint32_t rm_pack_pair(float first, float second) {
  return (uint32_t)D::put(second) << 16 | D::put(first);
}

#else

static inline unsigned rm_shared_address(const void *at) {
  return (unsigned)__cvta_generic_to_shared(at);
}

/* Copies 16 bytes, or writes zeros if they do not exist, some time before rm_wait_copies returns.
 * Other threads see them after the next barrier. */
static inline void rm_copy_async(rm_chunk *to, const rm_chunk *from, bool exists) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(rm_shared_address(to)),
               "l"(from), "r"(exists ? 16 : 0)
               : "memory");
}
static inline void rm_wait_copies(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* Loads four matrices of 8 x 8: lane l names row l % 8 of matrix l / 8, and gets of each the columns
 * t and t + 1 of row g or, transposed, the rows t and t + 1 of column g. */
static inline void rm_load_matrices(uint32_t (&to)[4], const rm_chunk *row, bool transposed) {
  if (transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(rm_shared_address(row))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(rm_shared_address(row))
                 : "memory");
  }
}

/* c += a b */
template <class D>
static inline void rm_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
#define RM_MMA(D, type) \
  template <> \
  inline void rm_mma<D>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type \
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)); \
  } \
  template <> \
  inline uint32_t rm_pack_pair<D>(float first, float second) { \
    uint32_t both; \
    asm("cvt.rn." type "x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first)); \
    return both; \
  }
/* Two floats, rounded, the first one in the lower half. */
template <class D>
static inline uint32_t rm_pack_pair(float first, float second);
RM_MMA(rm_bf16, "bf16")
RM_MMA(rm_f16, "f16")

#endif

#endif
