/*
 * The world: how it begins and ends, and its groups.
 *
 * A rank that leaves tells every other one how far it has come, through a communicator of its own.
 * Another rank that waits for more fails at once, instead of at its deadline.
 */
#if !defined(_WIN32)
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "world.h"

rm_world rm_this_world;

/* A message of a rank that leaves: [its rank, whether its world is broken, groups, then for each group
 * its id, collectives that have begun, messages to and from the receiver]. */
enum { LEAVE_TAG = 1, TOLD_GROUPS = 64 };
enum { LEAVE_NUMBERS = RM_LEAVE_GROUPS + RM_LEAVE_GROUP_NUMBERS * TOLD_GROUPS };

/* The end of a rank of a broken world ends the others, which are to report their own errors first. So
 * it waits before it closes: the rank that left, and so has the first error, for the shorter time. */
enum { FIRST_GRACE = 300 * 1000 * 1000, GRACE = 1500 * 1000 * 1000 };

static int64_t arriving[LEAVE_NUMBERS];
static rm_mpi_handle arrival;
static rm_mpi_handle *leaving;
static int64_t *leave_texts;

void rm_request_fail(rm_request *request, bool only_this, int culprit, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(request->error, sizeof request->error, format, values);
  va_end(values);
  request->culprit = culprit;
  request->status = RM_DISTRIBUTED;
  request->step = RM_REQUEST_DONE;
  if (only_this || rm_this_world.broken[0] != 0) return;
  snprintf(rm_this_world.broken, sizeof rm_this_world.broken, "%s", request->error);
  rm_this_world.culprit = culprit;
}

/* Makes a group of the ranks of a communicator; null if there is no memory. */
static rm_group *make_group(rm_mpi_handle comm, int64_t id, int size, const int *members) {
  rm_group *group = calloc(1, sizeof *group);
  rm_group **groups = realloc(rm_this_world.groups, sizeof *groups * (size_t)(rm_this_world.group_count + 1));
  if (groups != NULL) rm_this_world.groups = groups;
  if (group == NULL || groups == NULL) return NULL;
  group->comm = comm;
  group->id = id;
  group->size = size;
  group->members = malloc(sizeof(int) * (size_t)size);
  group->sent = calloc((size_t)size, sizeof(int64_t));
  group->received = calloc((size_t)size, sizeof(int64_t));
  if (group->members == NULL || group->sent == NULL || group->received == NULL) return NULL;
  for (int i = 0; i < size; i++) group->members[i] = members == NULL ? i : members[i];
  mpi->Comm_rank(comm, &group->rank);
  mpi->Comm_set_errhandler(comm, mpi->errors_return);
  rm_this_world.groups[rm_this_world.group_count++] = group;
  return group;
}

static void receive_next(void) {
  mpi->Irecv(arriving, LEAVE_NUMBERS * 8, mpi->blocks[0], mpi->any_source, LEAVE_TAG, rm_this_world.control,
            &arrival);
}

/* Whether all ranks compare their calls, or none: else calls of some would meet comparisons of others.
 * Waits for all ranks. */
static bool agree_on_checks(const rm_group *group) {
  rm_mpi_handle handle = 0;
  const int64_t own[2] = {rm_this_world.checks, !rm_this_world.checks};
  int64_t most[2] = {1, 1};
  int done = 0;
  if (mpi->Iallreduce(own, most, 2, mpi->types[RM_INT64], mpi->max, group->comm, &handle) != 0) {
    return false;
  }
  const struct timespec pause = {0, 20 * 1000};
  while (mpi->Test(&handle, &done, mpi->ignored_status) == 0 && !done) nanosleep(&pause, NULL);
  return done && most[0] + most[1] == 1;
}

void rm_world_open(rm_request *request) {
  if (rm_this_world.is_open || rm_this_world.is_closed) {
    rm_request_fail(request, true, -1, "MPI was initialized in this process before: it can be once");
    return;
  }
  rm_this_world.launcher = rm_find_launcher();
  if (rm_mpi_open(&rm_this_world.launcher, mpi) != RM_OK ||
      rm_mpi_check_launcher(&rm_this_world.launcher, mpi) != RM_OK) {
    char why[400];
    rm_last_error(why, sizeof why);
    rm_request_fail(request, true, -1, "%s", why);
    return;
  }
  int provided = 0, size = 0, flag = 0;
  mpi->Initialized(&flag);
  const int ranks = rm_this_world.launcher.size;
  /* Open MPI sends everything to one rank and back where there are fewer than four: twice as much. */
  if (mpi->abi == RM_MPI_OPEN_MPI && ranks > 1 && ranks < 4) {
    setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "1", 0);
  }
  /* Calls are made one at a time, by several threads. */
  if (!flag && mpi->Init_thread(NULL, NULL, mpi->thread_serialized, &provided) != 0) {
    rm_request_fail(request, true, -1, "%s cannot be initialized", mpi->text);
    return;
  }
  rm_this_world.is_open = true;
  mpi->Comm_set_errhandler(mpi->world, mpi->errors_return);
  mpi->Comm_size(mpi->world, &size);
  if (!flag && provided < mpi->thread_serialized) {
    rm_request_fail(request, false, -1, "%s supports no calls of several threads", mpi->text);
    return;
  }
  if (size == 1 && rm_this_world.launcher.size > 1) {
    rm_request_fail(request, false, -1,
                    "%s started %d processes, but in %s (%s) each of them is alone: use the mpiexec "
                    "of that library, or set ROWMAJOR_MPI to the launcher's",
                    rm_this_world.launcher.name, rm_this_world.launcher.size, mpi->text, mpi->path);
    return;
  }
  rm_this_world.left = calloc((size_t)size, sizeof *rm_this_world.left);
  rm_this_world.tickets = calloc((size_t)size, sizeof *rm_this_world.tickets);
  rm_group *all = NULL;
  rm_mpi_handle comm = 0;
  if (rm_this_world.left == NULL || rm_this_world.tickets == NULL || rm_mpi_make_types(mpi) != RM_OK ||
      mpi->Comm_dup(mpi->world, &comm) != 0 ||
      mpi->Comm_dup(mpi->world, &rm_this_world.control) != 0 ||
      (all = make_group(comm, 0, size, NULL)) == NULL) {
    rm_request_fail(request, false, -1, "%s cannot make its communicators", mpi->text);
    return;
  }
  mpi->Comm_set_errhandler(rm_this_world.control, mpi->errors_return);
  if (!agree_on_checks(all)) {
    rm_request_fail(request, false, -1,
                    "some ranks compare their calls, and others do not: pass the same check to all");
    return;
  }
  rm_this_world.next_id = 1;
  if (size > 1) receive_next();
  request->results[0] = 0;
  request->results[1] = all->rank;
  request->results[2] = size;
  request->step = RM_REQUEST_DONE;
}

void rm_world_listen(void) {
  const int others = rm_this_world.groups[0]->size - 1;
  for (;;) {
    int done = 0;
    if (rm_this_world.left_count == others || mpi->Test(&arrival, &done, mpi->ignored_status) != 0 || !done) {
      return;
    }
    int64_t *text = malloc(sizeof arriving);
    if (text != NULL) memcpy(text, arriving, sizeof arriving);
    const int64_t rank = arriving[0];
    if (text != NULL && rank >= 0 && rank <= others && rm_this_world.left[rank] == NULL) {
      rm_this_world.left[rank] = text;
    }
    rm_this_world.left_count++;
    if (rm_this_world.left_count < others) receive_next();
  }
}

/* Writes what this rank says to another one of the world. */
static void write_leave(int64_t *to, int rank) {
  int64_t count = 0;
  for (int g = 0; g < rm_this_world.group_count && count < TOLD_GROUPS; g++) {
    const rm_group *group = rm_this_world.groups[g];
    for (int i = 0; i < group->size; i++) {
      if (group->members[i] != rank) continue;
      int64_t *at = to + RM_LEAVE_GROUPS + RM_LEAVE_GROUP_NUMBERS * count++;
      at[0] = group->id;
      at[1] = group->started;
      at[2] = group->sent[i];
      at[3] = group->received[i];
    }
  }
  to[0] = rm_this_world.groups[0]->rank;
  to[1] = rm_this_world.broken[0] != 0;
  to[2] = count;
}

void rm_world_leave(rm_request *request) {
  const rm_group *all = rm_this_world.groups[0];
  leaving = calloc((size_t)all->size, sizeof *leaving);
  leave_texts = calloc((size_t)all->size, sizeof(int64_t) * LEAVE_NUMBERS);
  if (leaving == NULL || leave_texts == NULL) {
    rm_request_fail(request, false, -1, "there is no memory for a message to each rank");
    return;
  }
  for (int rank = 0; rank < all->size; rank++) {
    if (rank == all->rank) continue;
    int64_t *text = leave_texts + (ptrdiff_t)rank * LEAVE_NUMBERS;
    write_leave(text, rank);
    mpi->Isend(text, LEAVE_NUMBERS * 8, mpi->blocks[0], rank, LEAVE_TAG, rm_this_world.control,
              &leaving[rank]);
  }
  request->step = RM_REQUEST_POSTED;
}

/* Ends a request that closes a world in which not all is well: MPI cannot end, only be aborted. */
static void give_up(rm_request *request) {
  rm_request_fail(request, true, -1, "the world is broken");
  request->status = RM_CANCELLED;
}

void rm_world_close(rm_request *request) {
  const rm_group *all = rm_this_world.groups[0];
  rm_world_listen();
  const bool has_failed = rm_this_world.broken[0] != 0;
  bool is_broken = has_failed;
  bool have_ended = rm_this_world.left_count >= all->size - 1;
  for (int rank = 0; rank < all->size; rank++) {
    const int64_t *told = rm_this_world.left[rank];
    int done = 1;
    if (rank != all->rank) mpi->Test(&leaving[rank], &done, mpi->ignored_status);
    have_ended &= done;
    is_broken |= told != NULL && told[1] != 0;
  }
  const int64_t waited = rm_nanoseconds() - request->since;
  if (is_broken && waited > (has_failed ? GRACE : FIRST_GRACE)) give_up(request);
  if (!have_ended || is_broken) return;
  rm_this_world.is_open = false;
  rm_this_world.is_closed = true;
  /* Small messages that no rank has received. */
  rm_this_world.parcels = NULL;
  rm_mpi_finalize(mpi);
  request->step = RM_REQUEST_DONE;
}

void rm_world_split(rm_request *request) {
  const rm_group *from = request->group;
  const int64_t color = request->own[0], key = request->own[1];
  /* MPI's colors are not negative; this one stands for no group. */
  const int undefined = -32766;
  int64_t id = 0;
  int *members = malloc(sizeof(int) * (size_t)from->size);
  int size = 0;
  /* Ranks of one color, by their keys, then by their ranks. */
  int *order = malloc(sizeof(int) * (size_t)from->size);
  if (members == NULL || order == NULL) {
    free(members);
    free(order);
    rm_request_fail(request, false, -1, "there is no memory for a group");
    return;
  }
  for (int i = 0; i < from->size; i++) {
    const int64_t *other = request->all + (ptrdiff_t)i * RM_COMPARED;
    if (other[2] > id) id = other[2];
    if (other[0] != color) continue;
    int at = size++;
    for (; at > 0 && request->all[(ptrdiff_t)order[at - 1] * RM_COMPARED + 1] > other[1]; at--) {
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
  rm_this_world.next_id = id + 1;
  for (int i = 0; i < size; i++) members[i] = from->members[order[i]];
  rm_mpi_handle comm = 0;
  const int code = mpi->Comm_split(from->comm, color < 0 ? undefined : (int)color, (int)key, &comm);
  rm_group *made = NULL;
  if (code == 0 && color >= 0) made = make_group(comm, id, size, members);
  free(members);
  free(order);
  if (code != 0 || (color >= 0 && made == NULL)) {
    rm_request_fail(request, false, -1, "MPI makes no more communicators");
    return;
  }
  request->results[0] = made == NULL ? -1 : rm_this_world.group_count - 1;
  request->results[1] = made == NULL ? -1 : made->rank;
  request->results[2] = made == NULL ? 0 : made->size;
  request->step = RM_REQUEST_DONE;
}
#endif
