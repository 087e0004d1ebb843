/*
 * Requests: posted to MPI as calls that do not wait, and tested until they have ended.
 */
#if !defined(_WIN32)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "world.h"


/* The tag of messages that are part of a collective; those of programs are lower. */
enum { COLLECTIVE_TAG = 32767 };

/* For so long a request is not compared with what ranks said that left: messages of theirs may still
 * arrive. */
enum { PATIENCE = 20 * 1000 * 1000 };

/* Fails a request by what MPI says. */
static void fail_by_code(rm_request *request, int code) {
  char text[2048] = "";
  int length = 0, class = 0;
  mpi->Error_string(code, text, &length);
  mpi->Error_class(code, &class);
  if (class == mpi->truncated) {
    rm_request_fail(request, true, request->peer, "the message of rank %d is longer than the tensor",
                    request->peer);
  } else {
    rm_request_fail(request, false, rm_is_message(request->kind) ? request->peer : -1, "MPI says: %.300s",
                    text);
  }
}

/* Room for one more request of MPI; null, and the request has failed, if there is no memory. */
static rm_mpi_handle *next_handle(rm_request *request) {
  if (request->active == request->room) {
    const int64_t room = request->room * 2;
    rm_mpi_handle *made = malloc(sizeof *made * (size_t)room);
    if (made == NULL) {
      rm_request_fail(request, false, -1, "there is no memory for %lld requests", (long long)room);
      return NULL;
    }
    memcpy(made, request->handles, sizeof *made * (size_t)request->active);
    if (request->handles != request->inner) free(request->handles);
    request->handles = made;
    request->room = room;
  }
  rm_mpi_handle *handle = &request->handles[request->active];
  *handle = 0;
  return handle;
}

/* Counts what was posted, or fails; false if it failed. */
static bool posted(rm_request *request, int code) {
  if (code == 0) {
    request->active++;
    return true;
  }
  fail_by_code(request, code);
  return false;
}

/* Posts a call for each part of `count` elements that MPI takes at once. */
#define POST_PARTS(request, count, call)                               \
  for (int64_t at = 0; at < (count); at += (request)->limit) {         \
    const int64_t rest = (count) - at;                                 \
    const int part = (int)(rest < (request)->limit ? rest : (request)->limit); \
    rm_mpi_handle *handle = next_handle(request);                      \
    if (handle == NULL || !posted(request, call)) return;              \
  }

static int log2_of(ptrdiff_t size) {
  int log = 0;
  while ((ptrdiff_t)1 << log < size) log++;
  return log;
}

static void post_reduction(rm_request *request) {
  const rm_group *group = request->group;
  const ptrdiff_t size = rm_itemsize(request->dtype);
  const bool in_place = request->in == request->out;
  const char *in = request->in;
  rm_mpi_reduction how;
  if (rm_mpi_find_reduction(mpi, request->reduction, request->dtype, &how) != RM_OK) {
    rm_request_fail(request, true, -1, "there is no such reduction of this dtype");
    return;
  }
  if (request->kind == RM_COLLECTIVE_ALL_REDUCE) {
    POST_PARTS(request, request->count,
               mpi->Iallreduce(in_place ? mpi->in_place : in + at * size, request->out + at * size, part,
                              how.type, how.op, group->comm, handle))
    return;
  }
  if (request->count <= request->limit) {
    rm_mpi_handle *handle = next_handle(request);
    if (handle == NULL) return;
    posted(request, mpi->Ireduce_scatter_block(in, request->out, (int)request->count, how.type,
                                              how.op, group->comm, handle));
    return;
  }
  for (int root = 0; root < group->size; root++) {
    const char *from = in + root * request->count * size;
    POST_PARTS(request, request->count,
               mpi->Ireduce(from + at * size, request->out + at * size, part, how.type, how.op, root,
                           group->comm, handle))
  }
}

/* Gathers, broadcasts and exchanges blocks of bytes. */
static void post_move(rm_request *request) {
  const rm_group *group = request->group;
  const ptrdiff_t size = rm_itemsize(request->dtype);
  const rm_mpi_handle type = mpi->blocks[log2_of(size)];
  const int64_t count = request->count;
  const char *in = request->in;
  char *out = request->out;
  if (request->kind == RM_COLLECTIVE_BROADCAST) {
    if (group->rank == request->peer && in != out) memcpy(out, in, (size_t)(count * size));
    POST_PARTS(request, count,
               mpi->Ibcast(out + at * size, part, type, request->peer, group->comm, handle))
    return;
  }
  if (request->kind == RM_COLLECTIVE_SEND) {
    POST_PARTS(request, count, mpi->Isend(in + at * size, part, type, request->peer, request->tag,
                                         group->comm, handle))
    return;
  }
  if (request->kind == RM_COLLECTIVE_RECEIVE) {
    POST_PARTS(request, count, mpi->Irecv(out + at * size, part, type, request->peer, request->tag,
                                         group->comm, handle))
    return;
  }
  const bool gathers = request->kind == RM_COLLECTIVE_ALL_GATHER;
  if (count <= request->limit) {
    rm_mpi_handle *handle = next_handle(request);
    if (handle == NULL) return;
    posted(request, (gathers ? mpi->Iallgather : mpi->Ialltoall)(in, (int)count, type, out, (int)count,
                                                               type, group->comm, handle));
    return;
  }
  memcpy(out + group->rank * count * size, in + (gathers ? 0 : group->rank * count * size),
         (size_t)(count * size));
  for (int other = 0; other < group->size; other++) {
    char *to = out + other * count * size;
    if (gathers) {
      POST_PARTS(request, count, mpi->Ibcast(to + at * size, part, type, other, group->comm, handle))
    } else if (other != group->rank) {
      const char *from = in + other * count * size;
      POST_PARTS(request, count, mpi->Irecv(to + at * size, part, type, other, COLLECTIVE_TAG,
                                           group->comm, handle))
      POST_PARTS(request, count, mpi->Isend(from + at * size, part, type, other, COLLECTIVE_TAG,
                                           group->comm, handle))
    }
  }
}

/* Gathers the `own` numbers of all ranks. */
static void post_comparison(rm_request *request) {
  const rm_group *group = request->group;
  rm_mpi_handle *handle = next_handle(request);
  request->all = malloc(sizeof request->own * (size_t)group->size);
  if (handle == NULL || request->all == NULL) {
    rm_request_fail(request, false, -1, "there is no memory for the numbers of each rank");
    return;
  }
  posted(request, mpi->Iallgather(request->own, sizeof request->own, mpi->blocks[0], request->all,
                                 sizeof request->own, mpi->blocks[0], group->comm, handle));
}

static void post(rm_request *request) {
  request->step = RM_REQUEST_POSTED;
  switch (request->kind) {
    case RM_COLLECTIVE_ALL_REDUCE:
    case RM_COLLECTIVE_REDUCE_SCATTER: post_reduction(request); return;
    case RM_COLLECTIVE_BARRIER: {
      rm_mpi_handle *handle = next_handle(request);
      if (handle != NULL) posted(request, mpi->Ibarrier(request->group->comm, handle));
      return;
    }
    case RM_COLLECTIVE_SPLIT:
      request->own[0] = request->color;
      request->own[1] = request->key;
      request->own[2] = rm_this_world.next_id;
      post_comparison(request);
      return;
    default: post_move(request);
  }
}

/* ---- check mode ------------------------------------------------------------------------------ */

/* Is added to the reduction of what NCCL does. */
enum { BY_NCCL = 16 };

/* What a rank does, for messages. */
static void tell(const int64_t *numbers, char *to, size_t length) {
  static const char *const kinds[] = {"reduction",  "allGather", "sumScatter", "broadcast",
                                      "allToAll",   "barrier",   "send",       "recv",
                                      "split"};
  static const char *const reductions[] = {"allSum", "allMax", "allMin"};
  static const char *const dtypes[] = {"bool",   "int8",   "int16",  "int32",   "int64",
                                       "uint8",  "uint16", "uint32", "uint64",  "float16",
                                       "bfloat16", "float32", "float64"};
  const int64_t kind = numbers[1];
  const bool by_nccl = numbers[2] >= BY_NCCL;
  const char *name =
      kind == RM_COLLECTIVE_ALL_REDUCE ? reductions[numbers[2] % BY_NCCL] : kinds[kind];
  if (kind == RM_COLLECTIVE_BARRIER || kind == RM_COLLECTIVE_SPLIT) {
    snprintf(to, length, "calls %s", name);
    return;
  }
  const int written = snprintf(to, length, "calls %s of %lld %s%s", name, (long long)numbers[4],
                               dtypes[numbers[3]], by_nccl ? " by NCCL" : "");
  if (kind == RM_COLLECTIVE_BROADCAST && written >= 0 && (size_t)written < length) {
    snprintf(to + written, length - (size_t)written, " from rank %lld", (long long)numbers[5]);
  }
}

static void begin_check(rm_request *request) {
  request->own[0] = request->number;
  request->own[1] = request->kind;
  request->own[2] = request->reduction + (request->only_compares ? BY_NCCL : 0);
  request->own[3] = request->dtype;
  request->own[4] = request->count;
  request->own[5] = request->kind == RM_COLLECTIVE_BROADCAST ? request->peer : 0;
  request->step = RM_REQUEST_CHECKING;
  post_comparison(request);
}

/* Compares the numbers of all ranks; false, and the request has failed, where they differ. */
static bool passes_check(rm_request *request) {
  for (int i = 0; i < request->group->size; i++) {
    const int64_t *other = request->all + (ptrdiff_t)i * RM_COMPARED;
    if (memcmp(other, request->all, sizeof request->own) == 0) continue;
    char first[100], second[100];
    tell(request->all, first, sizeof first);
    tell(other, second, sizeof second);
    rm_request_fail(request, true, i, "rank 0 %s, but rank %d %s", first, i, second);
    return false;
  }
  free(request->all);
  request->all = NULL;
  return true;
}

/* ---- progress -------------------------------------------------------------------------------- */

/* Tests what is posted; true if all of it has ended. */
static bool all_ended(rm_request *request) {
  for (int64_t i = 0; i < request->active;) {
    int done = 0;
    const int code = mpi->Test(&request->handles[i], &done, mpi->ignored_status);
    if (code != 0) {
      fail_by_code(request, code);
      return false;
    }
    if (!done) i++;
    else request->handles[i] = request->handles[--request->active];
  }
  return request->active == 0;
}

int rm_request_leaver(const rm_request *request) {
  if (rm_nanoseconds() - request->since < PATIENCE) return -1;
  rm_world_listen();
  const rm_group *group = request->group;
  for (int i = 0; i < group->size && rm_this_world.left_count > 0; i++) {
    const int64_t *told = rm_this_world.left[group->members[i]];
    if (told == NULL || (rm_is_message(request->kind) && i != request->peer)) continue;
    int64_t come = 0;
    for (int64_t g = 0; g < told[2]; g++) {
      const int64_t *at = told + RM_LEAVE_GROUPS + RM_LEAVE_GROUP_NUMBERS * g;
      if (at[0] != group->id) continue;
      come = request->kind == RM_COLLECTIVE_SEND      ? at[3]
             : request->kind == RM_COLLECTIVE_RECEIVE ? at[2]
                                                      : at[1];
    }
    if (come < request->number) return i;
  }
  return -1;
}

/* Fails if a rank that has left will never do its part. */
static void look_for_leavers(rm_request *request) {
  const int leaver = rm_request_leaver(request);
  if (leaver >= 0) rm_request_fail(request, false, leaver, "rank %d has closed its world", leaver);
}

static void begin(rm_request *request) {
  rm_group *group = request->group;
  if (request->kind == RM_COLLECTIVE_CLOSE) {
    rm_world_leave(request);
    return;
  }
  if (rm_this_world.broken[0] != 0) {
    rm_request_fail(request, true, rm_this_world.culprit,
                    "the world is broken since an earlier failure: %.300s", rm_this_world.broken);
    return;
  }
  request->number = request->kind == RM_COLLECTIVE_SEND      ? ++group->sent[request->peer]
                    : request->kind == RM_COLLECTIVE_RECEIVE ? ++group->received[request->peer]
                                                             : ++group->started;
  if (rm_this_world.checks && !rm_is_message(request->kind) && group->size > 1) begin_check(request);
  else post(request);
}

void rm_request_advance(rm_request *request, bool is_first) {
  if (request->step == RM_REQUEST_QUEUED && is_first) begin(request);
  if (request->step == RM_REQUEST_CHECKING && all_ended(request) && passes_check(request)) {
    if (request->only_compares) request->step = RM_REQUEST_DONE;
    else post(request);
  }
  if (request->step == RM_REQUEST_POSTED && request->kind != RM_COLLECTIVE_CLOSE &&
      all_ended(request)) {
    if (request->kind == RM_COLLECTIVE_SPLIT) rm_world_split(request);
    else request->step = RM_REQUEST_DONE;
  }
  if (request->step == RM_REQUEST_DONE) return;
  if (request->kind != RM_COLLECTIVE_CLOSE && request->step != RM_REQUEST_QUEUED) {
    look_for_leavers(request);
  }
  if (request->step == RM_REQUEST_DONE || rm_nanoseconds() < request->deadline) return;
  if (rm_is_message(request->kind)) {
    rm_request_fail(request, false, request->peer, "rank %d gave no answer within %g s", request->peer,
                    request->timeout / 1e3);
  } else {
    rm_request_fail(request, false, -1, "the other ranks gave no answer within %g s",
                    request->timeout / 1e3);
  }
}
#endif
