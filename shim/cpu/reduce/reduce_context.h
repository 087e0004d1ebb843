/*
 * What the files of reductions share: the context of a call, cells, and the functions that bring
 * elements into the form that kernels read, and results into the one that is stored.
 *
 * Knows nothing of walks.
 */
#ifndef ROWMAJOR_REDUCE_CONTEXT_H
#define ROWMAJOR_REDUCE_CONTEXT_H

#include "internal.h"

enum {
  /* Elements that are converted at once, and cells that are folded side by side. */
  WIDTH = 1024,
  /* Elements that are folded plainly between two compensated additions; rows, likewise. */
  BLOCK = 1024,
  ROWS = 32,
  /* Elements of a run, or rows, from which on float32 is summed by fours. */
  MANY = 64,
  /* Elements of runs that are folded across, though they lie one behind the other: sums that begin
   * quickly, what needs no loading, and all else. */
  FEW_SUMMED = 8,
  FEW_DIRECT = 15,
  FEW = 16,
  /* Elements of a dense row, at most, for TOGETHER rows to be folded as one. */
  NARROW = 15,
  TOGETHER = 16,
  /* Elements among which an index is looked for. */
  PIECE = 2048,
  /* Elements of a task, which take 2 to 5 microseconds. */
  TASK = 1 << 15,
  /* With fewer outputs than this each one may be cut into as many parts. */
  PARTS = 64,
  /* Bytes ahead of where a sum is at that are fetched into the first-level cache. */
  AHEAD = 2048,
  /* Runs that are scanned side by side, since each is a chain of additions that wait. */
  RUNS = 8,
  /* Elements of each of those that are converted at once. */
  STRETCH = 256
};

/* Where count outputs are folded. A slot of acc is 8 bytes; what it holds is for the kernel. */
typedef struct {
  void *acc;
  /* The compensation of sums of float64, and what has been added since the last one. */
  double *error;
  double *part;
  /* Of index reductions: where the best element is, and the place of the next one to come. */
  int64_t *where;
  int64_t position;
} cells;

/* Arrays of 8 bytes for each cell; where takes the place of error. */
enum { SLOTS = 3 };

typedef struct job job;

/* Copies n elements, stride apart, to a dense array of the type that is worked in. */
typedef void (RM_KERNEL *loader)(ptrdiff_t n, const void *from, ptrdiff_t stride, void *to);

/* What is done to one element before it is folded. */
typedef enum {
  PLAIN,
  MAGNITUDE,
  SQUARE,
  DIFFERENCE,
  POWER,
  EXPONENTIAL,
  /* In float32, as both operands are loaded. */
  EXPONENTIAL_F32
} mapping;

struct job {
  const rm_walk *walk;
  int32_t opcode;
  int kept;
  bool across;
  /* Rows across, of which several are folded as one. */
  bool narrow;
  /* Bytes of an element of a, and of b. */
  ptrdiff_t bytes;
  ptrdiff_t second_bytes;
  /* Dense elements need no loading. */
  bool direct;
  loader load;
  /* Of the second operand, to what it is mapped in; null where there is none. */
  loader load_second;
  /* What is done to elements once they are loaded, and not by run or columns. */
  mapping map;
  double attribute;
  /* Elements of one call of run. */
  ptrdiff_t step;
  /* True when a cell that is not 0 says all. */
  bool stops;
  /* Elements are compared, or tested, as (x & mask) ^ flip. */
  uint64_t mask;
  uint64_t flip;
  /* What cells begin with. */
  uint64_t start;
  /* Folds n dense elements into one cell; y is the second operand. */
  void (RM_KERNEL *run)(const job *j, ptrdiff_t n, const void *from, double y, cells *c);
  /* Folds rows of n dense elements each, step bytes apart, into n cells. */
  void (RM_KERNEL *columns)(const job *j, ptrdiff_t n, ptrdiff_t rows, const void *from,
                            ptrdiff_t step, cells *c);
  /* Ends what columns has begun, at least after every ROWS rows; may be null. */
  void (*flush)(ptrdiff_t n, cells *c);
  /* Folds n cells into others that come before them. */
  void (*combine)(const job *j, ptrdiff_t n, cells *to, const cells *from);
  /* Stores n cells. */
  void (*store)(const job *j, ptrdiff_t n, char *out, ptrdiff_t stride, const cells *c);
  /* Of out, and of the cells' accumulators: the bytes of one. */
  int out;
  int slot;
  /*
   * How work is cut: units of up to width outputs along the last kept axis, each one's elements in
   * parts, which take length positions of the first reduced axis each.
   */
  ptrdiff_t units;
  ptrdiff_t width;
  ptrdiff_t elements;
  ptrdiff_t group;
  ptrdiff_t parts;
  ptrdiff_t length;
  /* The cells of the parts. */
  char *memory;
  /* Whether one element has settled the only output, and how many parts were folded to see that. */
  atomic_bool settled;
  ptrdiff_t done;
};

/* ---- loading and storing (reduce_load.c) ------------------------------------------------------ */

/* By the dtype of the elements. */
extern const loader RM_AT(to_i64)[RM_DTYPE_COUNT], RM_AT(to_f64)[RM_DTYPE_COUNT];

/* What copies elements of a dtype as they are. */
loader RM_AT(copier)(int dtype);

/* Has elements of dtype a loaded as float32 or, where that does not hold them, as float64; true for
 * float64. */
bool RM_AT(choose_float_loader)(job *j, int a);

/* The same of dense elements of the 16-bit floats. */
void RM_AT(f32_from_half)(ptrdiff_t n, const void *from, float *to);
void RM_AT(f32_from_brain)(ptrdiff_t n, const void *from, float *to);

/* Raises the magnitudes of elements, of which there is room for WIDTH, to the power of order; 3 and 1/2
 * need no room. */
void RM_AT(power_block)(double order, ptrdiff_t n, double *restrict x);

/* What map makes of n elements as they were loaded; y is 0 or step elements apart. */
void RM_AT(map_block)(const job *j, mapping map, ptrdiff_t n, double *restrict x,
                      const double *restrict y, ptrdiff_t step);

/* Stores n dense doubles, or, for an out that is no float, int64s. */
void RM_AT(put)(int dtype, ptrdiff_t n, const void *from, void *to, ptrdiff_t stride);

/* ---- the choice of kernels -------------------------------------------------------------------- */

/* Each sets the kernels of a context for elements of dtype a; false where there are none. */
bool RM_AT(choose_float_sum)(job *j, int a, mapping map, bool mapped);
bool RM_AT(choose_float_product)(job *j, int a);
bool RM_AT(choose_int_sum)(job *j, int a);
bool RM_AT(choose_int_mean)(job *j, int a);
bool RM_AT(choose_int_product)(job *j, int a);
bool RM_AT(choose_count)(job *j, int a);
/* Largest or smallest elements, or magnitudes, or the indexes of such. */
bool RM_AT(choose_extreme)(job *j, int a, bool smallest, bool magnitudes, bool index);

/* ---- scans (scan.c) --------------------------------------------------------------------------- */

int32_t RM_AT(scan)(int32_t opcode, const rm_walk *w, int kept, int out, int a);

#endif
