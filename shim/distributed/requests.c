/*
 * Requests: posted to MPI as calls that do not wait, and tested until they have ended.
 */
#if !defined(_WIN32)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "post.h"

/* The tag of messages that are part of a collective; those of programs are lower. */
enum { COLLECTIVE_TAG = 32767 };

/* For so long a request is not compared with what ranks said that left: messages of theirs may still
 * arrive. */
enum { PATIENCE = 20 * 1000 * 1000 };

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
    RM_POST_PARTS(request, request->count,
               mpi->Iallreduce(in_place ? mpi->in_place : in + at * size, request->out + at * size, part,
                              how.type, how.op, group->comm, handle))
    return;
  }
  if (request->count <= request->limit) {
    rm_mpi_handle *handle = rm_request_handle(request);
    if (handle == NULL) return;
    rm_request_posted(request, mpi->Ireduce_scatter_block(in, request->out, (int)request->count, how.type,
                                              how.op, group->comm, handle));
    return;
  }
  for (int root = 0; root < group->size; root++) {
    const char *from = in + root * request->count * size;
    RM_POST_PARTS(request, request->count,
               mpi->Ireduce(from + at * size, request->out + at * size, part, how.type, how.op, root,
                           group->comm, handle))
  }
}

/* Gathers, broadcasts and exchanges blocks of bytes. */
static void post_move(rm_request *request) {
  const rm_group *group = request->group;
  const ptrdiff_t size = rm_itemsize(request->dtype);
  const rm_mpi_handle type = mpi->blocks[rm_log2(size)];
  const int64_t count = request->count;
  const char *in = request->in;
  char *out = request->out;
  if (request->kind == RM_COLLECTIVE_BROADCAST) {
    if (group->rank == request->peer && in != out) memcpy(out, in, (size_t)(count * size));
    RM_POST_PARTS(request, count,
               mpi->Ibcast(out + at * size, part, type, request->peer, group->comm, handle))
    return;
  }
  const bool gathers = request->kind == RM_COLLECTIVE_ALL_GATHER;
  if (count <= request->limit) {
    rm_mpi_handle *handle = rm_request_handle(request);
    if (handle == NULL) return;
    rm_request_posted(request, (gathers ? mpi->Iallgather : mpi->Ialltoall)(in, (int)count, type, out, (int)count,
                                                               type, group->comm, handle));
    return;
  }
  memcpy(out + group->rank * count * size, in + (gathers ? 0 : group->rank * count * size),
         (size_t)(count * size));
  for (int other = 0; other < group->size; other++) {
    char *to = out + other * count * size;
    if (gathers) {
      RM_POST_PARTS(request, count, mpi->Ibcast(to + at * size, part, type, other, group->comm, handle))
    } else if (other != group->rank) {
      const char *from = in + other * count * size;
      RM_POST_PARTS(request, count, mpi->Irecv(to + at * size, part, type, other, COLLECTIVE_TAG,
                                           group->comm, handle))
      RM_POST_PARTS(request, count, mpi->Isend(from + at * size, part, type, other, COLLECTIVE_TAG,
                                           group->comm, handle))
    }
  }
}

static void post(rm_request *request) {
  request->step = RM_REQUEST_POSTED;
  switch (request->kind) {
    case RM_COLLECTIVE_ALL_REDUCE:
    case RM_COLLECTIVE_REDUCE_SCATTER: post_reduction(request); return;
    case RM_COLLECTIVE_BARRIER: {
      rm_mpi_handle *handle = rm_request_handle(request);
      if (handle != NULL) rm_request_posted(request, mpi->Ibarrier(request->group->comm, handle));
      return;
    }
    case RM_COLLECTIVE_SPLIT:
      request->own[0] = request->color;
      request->own[1] = request->key;
      request->own[2] = rm_this_world.next_id;
      rm_compare_gather(request);
      return;
    default: post_move(request);
  }
}

/* ---- progress -------------------------------------------------------------------------------- */

/* Tests what is posted; true if all of it has ended. */
static bool all_ended(rm_request *request) {
  for (int64_t i = 0; i < request->active;) {
    int done = 0;
    const int code = mpi->Test(&request->handles[i], &done, mpi->ignored_status);
    if (code != 0) {
      rm_request_fail_by_code(request, code);
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
  if (rm_is_message(request->kind)) rm_message_begin(request);
  else if (rm_this_world.checks && group->size > 1) rm_compare_begin(request);
  else post(request);
}

/* Goes on after what was posted in a step has ended. */
static void go_on(rm_request *request) {
  switch (request->step) {
    case RM_REQUEST_COMPARING:
      if (rm_is_message(request->kind)) {
        rm_message_continue(request);
      } else if (!rm_compare_agrees(request)) {
        request->step = RM_REQUEST_DIFFERING;
        rm_compare_gather(request);
      } else if (request->only_compares) {
        request->step = RM_REQUEST_DONE;
      } else {
        post(request);
      }
      return;
    case RM_REQUEST_DIFFERING: rm_compare_fail(request); return;
    default:
      if (request->kind == RM_COLLECTIVE_SPLIT) rm_world_split(request);
      else request->step = RM_REQUEST_DONE;
  }
}

void rm_request_advance(rm_request *request, bool is_first) {
  if (request->step == RM_REQUEST_QUEUED && is_first) begin(request);
  if (request->kind != RM_COLLECTIVE_CLOSE) {
    rm_step step;
    do {
      step = request->step;
      if (step == RM_REQUEST_QUEUED || step == RM_REQUEST_DONE || !all_ended(request)) break;
      go_on(request);
    } while (request->step != step);
  }
  if (request->step == RM_REQUEST_DONE) return;
  if (request->kind != RM_COLLECTIVE_CLOSE && request->step != RM_REQUEST_QUEUED) {
    look_for_leavers(request);
  }
  if (request->step == RM_REQUEST_DONE || rm_nanoseconds() < request->deadline) return;
  if (rm_is_message(request->kind)) {
    rm_request_fail(request, false, request->peer, "rank %d did not answer within %g s", request->peer,
                    request->timeout / 1e3);
  } else {
    rm_request_fail(request, false, -1, "the other ranks did not answer within %g s",
                    request->timeout / 1e3);
  }
}
#endif
