/*
 * What ranks compare before a collective: MPI would write beyond the memory of one that asks for less.
 *
 * Each collective begins with the same small reduction, so that different ones meet in it. All ranks
 * get its result, and so agree on whether they ask for the same. Only if they do not, they gather what
 * each has asked for.
 */
#if !defined(_WIN32)
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "post.h"

/* Where the parts of the first of the numbers that ranks compare begin, in bits. */
enum { AT_KIND = 8, AT_REDUCTION = 16, AT_DTYPE = 24, AT_LANES = 32, AT_NCCL = 40, PART = 255 };

static const char *const methods[] = {
    [RM_METHOD_ALL_SUM] = "allSum",
    [RM_METHOD_ALL_MAX] = "allMax",
    [RM_METHOD_ALL_MIN] = "allMin",
    [RM_METHOD_ALL_MEAN] = "allMean",
    [RM_METHOD_ALL_GATHER] = "allGather",
    [RM_METHOD_SUM_SCATTER] = "sumScatter",
    [RM_METHOD_BROADCAST] = "broadcast",
    [RM_METHOD_ALL_TO_ALL] = "allToAll",
    [RM_METHOD_BARRIER] = "barrier",
    [RM_METHOD_SPLIT] = "split",
    [RM_METHOD_AVERAGE_GRADIENTS] = "averageGradients",
    [RM_METHOD_COLUMN_PARALLEL] = "columnParallel",
    [RM_METHOD_ROW_PARALLEL] = "rowParallel",
    [RM_METHOD_SAVE_SHARDS] = "saveShards",
};
enum { METHODS = sizeof methods / sizeof *methods };

bool rm_is_method(int method) { return method >= 0 && method < METHODS; }

void rm_describe_elements(int dtype, int lanes, int64_t count, char *to, size_t length) {
  static const char *const dtypes[RM_DTYPE_COUNT] = {
      "bool",   "int8",   "int16",  "int32",   "int64",    "uint8",   "uint16",
      "uint32", "uint64", "float16", "bfloat16", "float32", "float64"};
  const bool is_known = dtype >= 0 && dtype < RM_DTYPE_COUNT;
  const char *name = !is_known             ? "elements"
                     : lanes <= 1          ? dtypes[dtype]
                     : dtype == RM_FLOAT32 ? "complex64"
                                           : "complex128";
  snprintf(to, length, "%lld %s", (long long)(lanes > 1 ? count / lanes : count), name);
}

/* What a rank asks for: "allSum of 4 float32". */
static void describe(const int64_t *asked, char *to, size_t length) {
  const int64_t what = asked[0];
  const int kind = (int)(what >> AT_KIND & PART), method = (int)(what & PART);
  const char *name = rm_is_method(method) ? methods[method] : "something else";
  if (kind == RM_COLLECTIVE_BARRIER || kind == RM_COLLECTIVE_SPLIT) {
    snprintf(to, length, "%s", name);
    return;
  }
  char elements[60], root[40] = "";
  rm_describe_elements((int)(what >> AT_DTYPE & PART), (int)(what >> AT_LANES & PART), asked[1],
                       elements, sizeof elements);
  if (kind == RM_COLLECTIVE_BROADCAST) snprintf(root, sizeof root, " from rank %d", (int)asked[2]);
  snprintf(to, length, "%s of %s%s%s", name, elements, what >> AT_NCCL != 0 ? " by NCCL" : "", root);
}

void rm_compare_begin(rm_request *request) {
  const bool has_elements = request->kind < RM_COLLECTIVE_BARRIER;
  const int64_t what = request->method | (int64_t)request->kind << AT_KIND |
                       (int64_t)request->reduction << AT_REDUCTION |
                       (int64_t)(has_elements ? request->dtype : 0) << AT_DTYPE |
                       (int64_t)request->lanes << AT_LANES |
                       (int64_t)request->only_compares << AT_NCCL;
  const int64_t asked[RM_COMPARED] = {
      what, has_elements ? request->count : 0,
      request->kind == RM_COLLECTIVE_BROADCAST ? request->peer : 0};
  for (int i = 0; i < RM_COMPARED; i++) {
    /* The largest of the complements is the complement of the smallest. */
    request->own[i] = asked[i];
    request->own[RM_COMPARED + i] = ~asked[i];
  }
  request->step = RM_REQUEST_COMPARING;
  rm_mpi_handle *handle = rm_request_handle(request);
  if (handle == NULL) return;
  rm_request_posted(request, mpi->Iallreduce(request->own, request->most, 2 * RM_COMPARED,
                                             mpi->types[RM_INT64], mpi->max, request->group->comm,
                                             handle));
}

bool rm_compare_agrees(const rm_request *request) {
  for (int i = 0; i < RM_COMPARED; i++) {
    if (request->most[i] != ~request->most[RM_COMPARED + i]) return false;
  }
  return true;
}

void rm_compare_gather(rm_request *request) {
  const rm_group *group = request->group;
  const int bytes = RM_COMPARED * (int)sizeof *request->own;
  rm_mpi_handle *handle = rm_request_handle(request);
  request->all = malloc((size_t)bytes * (size_t)group->size);
  if (handle == NULL || request->all == NULL) {
    rm_request_fail(request, false, -1, "there is no memory for the numbers of each rank");
    return;
  }
  rm_request_posted(request, mpi->Iallgather(request->own, bytes, mpi->blocks[0], request->all, bytes,
                                             mpi->blocks[0], group->comm, handle));
}

static const int64_t *asked_by(const rm_request *request, int rank) {
  return request->all + (ptrdiff_t)rank * RM_COMPARED;
}

static bool ask_the_same(const rm_request *request, int a, int b) {
  return memcmp(asked_by(request, a), asked_by(request, b), RM_COMPARED * sizeof(int64_t)) == 0;
}

/* The first rank that asks for what `rank` does. */
static int first_like(const rm_request *request, int rank) {
  int first = 0;
  while (!ask_the_same(request, first, rank)) first++;
  return first;
}

/* The lowest rank that does not do as most do. */
static int find_culprit(const rm_request *request) {
  const int size = request->group->size;
  int most = 0, leader = 0;
  for (int first = 0; first < size; first++) {
    int count = 0;
    for (int i = first; i < size; i++) count += ask_the_same(request, i, first);
    if (count > most) {
      most = count;
      leader = first;
    }
  }
  int culprit = 0;
  while (ask_the_same(request, culprit, leader)) culprit++;
  return culprit;
}

/* A text that grows until its room is full. */
typedef struct {
  char *text;
  size_t length, room;
} writer;

static void __attribute__((format(printf, 2, 3))) add(writer *to, const char *format, ...) {
  va_list values;
  va_start(values, format);
  const int written = vsnprintf(to->text + to->length, to->room - to->length, format, values);
  va_end(values);
  if (written > 0) to->length += (size_t)written;
  if (to->length >= to->room) to->length = to->room - 1;
}

/* Writes the ranks that ask for what `first` does: "ranks 0 to 2 and 5 call". */
static void add_ranks(writer *to, const rm_request *request, int first) {
  const int size = request->group->size;
  enum { RUNS = 4 };
  int runs[RUNS][2], count = 0, ranks = 0, others = 0;
  for (int i = first; i < size; i++) {
    if (!ask_the_same(request, i, first)) continue;
    ranks++;
    if (count > 0 && others == 0 && runs[count - 1][1] == i - 1) runs[count - 1][1] = i;
    else if (count == RUNS) others++;
    else runs[count][0] = runs[count][1] = i, count++;
  }
  add(to, ranks == 1 ? "rank " : "ranks ");
  for (int i = 0; i < count; i++) {
    if (i > 0) add(to, i == count - 1 && others == 0 ? " and " : ", ");
    add(to, "%d", runs[i][0]);
    if (runs[i][1] > runs[i][0]) add(to, runs[i][1] == runs[i][0] + 1 ? ", %d" : " to %d", runs[i][1]);
  }
  if (others > 0) add(to, " and %d more", others);
  add(to, ranks == 1 ? " calls " : " call ");
}

void rm_compare_fail(rm_request *request) {
  char text[sizeof request->error], asked[160];
  writer to = {.text = text, .room = sizeof text};
  /* Room for the longest of what follows. */
  enum { TAIL = 200 };
  int different = 0;
  for (int rank = 0; rank < request->group->size; rank++) {
    if (first_like(request, rank) != rank) continue;
    if (to.length + TAIL > to.room) {
      add(&to, ", and others something else");
      break;
    }
    if (different > 0) add(&to, different == 1 ? ", but " : ", and ");
    different++;
    describe(asked_by(request, rank), asked, sizeof asked);
    add_ranks(&to, request, rank);
    add(&to, "%s", asked);
  }
  rm_request_fail(request, true, find_culprit(request), "%s", text);
}
#endif
