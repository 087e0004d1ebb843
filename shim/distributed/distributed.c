/*
 * The functions of the interface for several processes, and the thread on which requests advance
 * while JavaScript goes on.
 *
 * All calls of MPI are made under one mutex, except for the one that opens it.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>
#include "internal.h"
#include "kernel.h"
#include "mutex.h"
#include "node_api.h"

#if defined(_WIN32)
static int32_t refuse(void) {
  return rm_fail(RM_UNSUPPORTED, "MPI is not supported on Windows");
}
int32_t rm_collective(const rm_call *call) {
  (void)call;
  return refuse();
}
int32_t rm_distributed(int32_t what, double *numbers, void *out, const void *in) {
  (void)what, (void)numbers, (void)out, (void)in;
  return refuse();
}
int32_t rm_distributed_info(void *buffer, int32_t length) { return rm_copy_text("", buffer, length); }
void rm_export_requests(void *env, void *exports) { (void)env, (void)exports; }
#else
#include <time.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif
#include "world.h"

RM_NODE_API(NODE_API_LISTENER_FUNCTIONS)

/* An environment that is told of requests. Never freed. */
typedef struct {
  void *function;
  /* Requests that it waits for. Used by its thread only. */
  int64_t waits;
  bool closed;
} listener;

static rm_mutex mutex = RM_MUTEX_INIT;
static rm_condition submitted = RM_CONDITION_INIT;
static rm_request *first, **last = &first;
static bool started;
static int64_t last_name;

/* ---- the list -------------------------------------------------------------------------------- */

static void append(rm_request *request) {
  request->next = NULL;
  *last = request;
  last = &request->next;
}

static void drop(rm_request *request) {
  for (rm_request **at = &first; *at != NULL; at = &(*at)->next) {
    if (*at != request) continue;
    *at = request->next;
    if (*at == NULL) last = at;
    return;
  }
}

/* What MPI may still write to is never freed. */
static void release(rm_request *request) {
  if (request->active > 0) return;
  if (request->handles != request->inner) free(request->handles);
  free(request->all);
  free(request->packet);
  free(request);
}

static void tell_end(rm_request *request) {
  listener *to = request->listener;
  if (request->step != RM_REQUEST_DONE || to == NULL || request->is_told) return;
  request->is_told = true;
  /* Under the mutex, so that the environment cannot end meanwhile. */
  if (!to->closed) api.napi_call_threadsafe_function(to->function, request, 0);
}

/* Whether a request has to wait for an earlier one. Collectives of a group are posted one after the
 * other. Messages wait for no collective, which may wait for them; those of one kind, rank and tag begin
 * in their order. A world closes when all else has ended. */
static bool waits_for(const rm_request *request, const rm_request *earlier) {
  if (request->kind == RM_COLLECTIVE_CLOSE) return earlier->step < RM_REQUEST_DONE;
  if (earlier->group != request->group) return false;
  if (!rm_is_message(request->kind)) {
    return !rm_is_message(earlier->kind) && earlier->step < RM_REQUEST_POSTED;
  }
  return earlier->kind == request->kind && earlier->peer == request->peer &&
         earlier->tag == request->tag && earlier->step == RM_REQUEST_QUEUED;
}

static bool is_next(const rm_request *request) {
  for (const rm_request *at = first; at != request; at = at->next) {
    if (waits_for(request, at)) return false;
  }
  return true;
}

/* Advances all requests; true if any has not ended, or MPI still sends. What opens or ends MPI runs on the thread that
 * is made for it. */
static bool advance_all(bool is_progress_thread) {
  bool waits = false;
  for (rm_request *request = first; request != NULL; request = request->next) {
    if (request->step == RM_REQUEST_DONE) continue;
    const bool may_block =
        request->kind == RM_COLLECTIVE_OPEN || request->kind == RM_COLLECTIVE_CLOSE;
    if (may_block && !is_progress_thread) continue;
    if (request->kind == RM_COLLECTIVE_OPEN) {
      rm_mutex_unlock(&mutex);
      rm_world_open(request);
      rm_mutex_lock(&mutex);
    } else {
      rm_request_advance(request, is_next(request));
      if (request->kind == RM_COLLECTIVE_CLOSE && request->step == RM_REQUEST_POSTED) {
        rm_world_close(request);
      }
    }
    tell_end(request);
    if (request->step != RM_REQUEST_DONE) waits = true;
  }
  rm_send_parcels();
  return waits || rm_this_world.parcels != NULL;
}

static void nap(int64_t nanoseconds) {
  const struct timespec time = {0, (long)nanoseconds};
  nanosleep(&time, NULL);
}

/* How long a rank waits before it ends all: MPICH's launcher drops what it has not read by then, such
 * as the error that this rank has printed. */
enum { PRINTING = 200 * 1000 * 1000 };

static void abort_world(int code) {
  if (!rm_this_world.is_open) return;
  nap(PRINTING);
  mpi->Abort(mpi->world, code);
}

enum { SHORTEST_NAP = 20 * 1000, LONGEST_NAP = 200 * 1000 };

/* How long the progress thread naps next. */
static int64_t pause = SHORTEST_NAP;

/* The main loop of the progress thread. */
static void run_requests(void *unused) {
  (void)unused;
#if defined(__linux__)
  /* Else the kernel makes naps 50 µs longer. */
  prctl(PR_SET_TIMERSLACK, 1);
#endif
  rm_mutex_lock(&mutex);
  for (;;) {
    if (!advance_all(true)) {
      pause = SHORTEST_NAP;
      rm_condition_wait(&submitted, &mutex);
      continue;
    }
    const int64_t time = pause;
    if (pause < LONGEST_NAP) pause += pause / 4;
    rm_mutex_unlock(&mutex);
    nap(time);
    rm_mutex_lock(&mutex);
  }
}

/* ---- requests -------------------------------------------------------------------------------- */

static bool is_moving(int kind) { return kind >= RM_COLLECTIVE_ALL_REDUCE && kind < RM_COLLECTIVE_BARRIER; }

/* Makes a request of the numbers of a call; null, and an error, if there is none such. The mutex is
 * locked. */
static rm_request *make_request(const double *numbers, int dtype, char *out, const char *in) {
  const int kind = (int)numbers[RM_COLLECTIVE_AT_KIND];
  const int group = (int)numbers[RM_COLLECTIVE_AT_GROUP];
  rm_group *of = NULL;
  if (kind != RM_COLLECTIVE_OPEN) {
    if (!rm_this_world.is_open || group < 0 || group >= rm_this_world.group_count) {
      rm_fail(RM_BAD_ARGUMENT, "there is no group %d: the world is not open", group);
      return NULL;
    }
    of = rm_this_world.groups[group];
  }
  const int peer = (int)numbers[RM_COLLECTIVE_AT_PEER], method = (int)numbers[RM_COLLECTIVE_AT_METHOD];
  const bool has_peer = rm_is_message(kind) || kind == RM_COLLECTIVE_BROADCAST;
  const bool has_dtype = dtype >= 0 && dtype < RM_DTYPE_COUNT;
  if (((is_moving(kind) || rm_is_message(kind)) && !has_dtype) || !rm_is_method(method) ||
      (has_peer && (peer < 0 || peer >= of->size))) {
    rm_fail(RM_BAD_ARGUMENT, "there is no dtype %d, no rank %d, or no method %d", dtype, peer, method);
    return NULL;
  }
  rm_request *request = calloc(1, sizeof *request);
  if (request == NULL) {
    rm_fail(RM_OUT_OF_MEMORY, "there is no memory for a request");
    return NULL;
  }
  const ptrdiff_t size = has_dtype ? rm_itemsize(dtype) : 0;
  request->kind = kind;
  request->method = method;
  request->reduction = (int)numbers[RM_COLLECTIVE_AT_REDUCTION];
  request->dtype = dtype;
  request->lanes = (int)numbers[RM_COLLECTIVE_AT_LANES];
  request->peer = peer;
  request->tag = (int)numbers[RM_COLLECTIVE_AT_TAG];
  request->color = peer;
  request->key = request->tag;
  request->group = of;
  request->in = in == NULL ? NULL : in + (ptrdiff_t)numbers[RM_COLLECTIVE_AT_IN] * size;
  request->out = out == NULL ? NULL : out + (ptrdiff_t)numbers[RM_COLLECTIVE_AT_OUT] * size;
  request->count = (int64_t)numbers[RM_COLLECTIVE_AT_COUNT];
  const int64_t limit = (int64_t)numbers[RM_COLLECTIVE_AT_LIMIT];
  request->limit = limit > 0 ? limit : 1 << 30;
  request->only_compares = limit < 0;
  request->timeout = numbers[RM_COLLECTIVE_AT_TIMEOUT];
  request->since = rm_nanoseconds();
  request->deadline = request->timeout < 1e12 ? request->since + (int64_t)(request->timeout * 1e6)
                                              : INT64_MAX;
  request->handles = request->inner;
  request->room = sizeof request->inner / sizeof *request->inner;
  request->culprit = -1;
  return request;
}

/* The bytes of a rank that a request is about. */
static int64_t bytes_of(const rm_request *request) {
  return is_moving(request->kind) || rm_is_message(request->kind)
             ? request->count * rm_itemsize(request->dtype)
             : 0;
}

/* Reports why a request has failed, and whether MPI still uses its memory. */
static void write_failure(const rm_request *request, double *numbers) {
  rm_fail(request->status, "%s", request->error);
  numbers[RM_COLLECTIVE_AT_PEER] = request->culprit;
  numbers[RM_COLLECTIVE_AT_COUNT] = (double)request->active;
}

/* Runs a request and waits for it: a status. */
static int32_t wait_for(double *numbers, int dtype, void *out, const void *in) {
  rm_mutex_lock(&mutex);
  rm_request *request = make_request(numbers, dtype, out, in);
  if (request == NULL) {
    rm_mutex_unlock(&mutex);
    return RM_BAD_ARGUMENT;
  }
  append(request);
  /* MPI moves data only while a thread tests requests. So a short wait neither yields nor sleeps: a
   * byte takes 1/4 ns in memory, and 10 ns in a slow network. A long wait leaves the processor to
   * other ranks. */
  const int64_t bytes = bytes_of(request);
  const int64_t hurry = 20 * 1000 + bytes / 4, patience = 1000 * 1000 + 10 * bytes;
  int64_t pause = SHORTEST_NAP;
  for (;;) {
    advance_all(false);
    if (request->step == RM_REQUEST_DONE) break;
    rm_mutex_unlock(&mutex);
    const int64_t waited = rm_nanoseconds() - request->since;
    if (waited > patience) {
      nap(pause);
      if (pause < LONGEST_NAP) pause += pause / 4;
    } else if (waited > hurry) {
      rm_yield();
    }
    rm_mutex_lock(&mutex);
  }
  drop(request);
  /* The progress thread sends what is left. */
  if (rm_this_world.parcels != NULL) rm_condition_signal(&submitted);
  rm_mutex_unlock(&mutex);
  const int32_t status = request->status;
  /* The numbers of a program serve again. */
  if (status != RM_OK) write_failure(request, numbers);
  else if (request->kind == RM_COLLECTIVE_SPLIT) memcpy(numbers, request->results, sizeof request->results);
  release(request);
  return status;
}

int32_t rm_collective(const rm_call *call) {
  return wait_for(call->numbers, call->dtypes[0], call->buffers[0], call->buffers[1]);
}

int64_t rm_world_count(int group) {
  rm_mutex_lock(&mutex);
  const bool known = group >= 0 && group < rm_this_world.group_count;
  const int64_t number = known ? ++rm_this_world.groups[group]->started : 0;
  rm_mutex_unlock(&mutex);
  return number;
}

int rm_world_leaver(int group, int64_t number, int64_t since) {
  rm_mutex_lock(&mutex);
  int leaver = -1;
  if (rm_this_world.is_open && number > 0) {
    const rm_request request = {.kind = RM_COLLECTIVE_ALL_REDUCE,
                                .group = rm_this_world.groups[group],
                                .number = number,
                                .since = since};
    leaver = rm_request_leaver(&request);
  }
  rm_mutex_unlock(&mutex);
  return leaver;
}

static rm_request *find_request(double name) {
  rm_request *request = first;
  while (request != NULL && request->name != (int64_t)name) request = request->next;
  return request;
}

enum {
  /* The most bytes that are posted while JavaScript waits: MPI may copy them first. */
  FEW_BYTES = 1 << 16,
  /* So many nanoseconds JavaScript waits for a request that is alone: no thread has to be woken for
   * it where ranks are in step. */
  GLANCE = 10 * 1000
};

/* Begins a request at once; true if it has ended. */
static bool ends_at_once(rm_request *request) {
  if (request->kind == RM_COLLECTIVE_OPEN || request->kind == RM_COLLECTIVE_CLOSE ||
      bytes_of(request) > FEW_BYTES) {
    return false;
  }
  rm_request_advance(request, is_next(request));
  while (request->step != RM_REQUEST_DONE && request == first &&
         rm_nanoseconds() - request->since < GLANCE) {
    rm_request_advance(request, true);
  }
  return request->step == RM_REQUEST_DONE;
}

/* Writes the request's number, and whether it has ended. */
static int32_t start_request(double *numbers, void *out, const void *in) {
  const int dtype = (int)numbers[RM_COLLECTIVE_AT_DTYPE];
  rm_mutex_lock(&mutex);
  rm_request *request = make_request(numbers, dtype, out, in);
  if (request == NULL) {
    rm_mutex_unlock(&mutex);
    return RM_BAD_ARGUMENT;
  }
  if (request->kind == RM_COLLECTIVE_OPEN) rm_this_world.checks = numbers[RM_COLLECTIVE_AT_TAG] != 0;
  if (!started) started = rm_start_thread(run_requests, NULL, 0);
  if (!started) {
    rm_mutex_unlock(&mutex);
    free(request);
    return rm_fail(RM_UNSUPPORTED, "the system starts no more threads");
  }
  numbers[0] = (double)(request->name = ++last_name);
  append(request);
  pause = SHORTEST_NAP;
  const bool ended = ends_at_once(request);
  numbers[1] = ended;
  if (!ended || rm_this_world.parcels != NULL) rm_condition_signal(&submitted);
  rm_mutex_unlock(&mutex);
  return RM_OK;
}

/* Takes the result of a request that has ended; RM_NOT_FOUND if it has not. */
static int32_t take_request(double *numbers) {
  rm_mutex_lock(&mutex);
  rm_request *request = find_request(numbers[0]);
  if (request == NULL || request->step != RM_REQUEST_DONE) {
    rm_mutex_unlock(&mutex);
    return rm_fail(RM_NOT_FOUND, "there is no such request that has ended");
  }
  drop(request);
  rm_mutex_unlock(&mutex);
  const int32_t status = request->status;
  if (status == RM_OK) memcpy(numbers, request->results, sizeof request->results);
  else write_failure(request, numbers);
  release(request);
  return status;
}

int32_t rm_distributed(int32_t what, double *numbers, void *out, const void *in) {
  switch (what) {
    case RM_REQUEST_START: return start_request(numbers, out, in);
    case RM_REQUEST_TAKE: return take_request(numbers);
    case RM_REQUEST_WAIT: return wait_for(numbers, (int)numbers[RM_COLLECTIVE_AT_DTYPE], out, in);
    case RM_REQUEST_ABORT:
      /* Without the mutex, which a call of MPI that does not return may hold. */
      abort_world((int)numbers[0]);
      return RM_OK;
    case RM_REQUEST_FAIL:
      rm_mutex_lock(&mutex);
      if (rm_this_world.broken[0] == 0) {
        snprintf(rm_this_world.broken, sizeof rm_this_world.broken, "%s", (const char *)in);
        rm_this_world.culprit = -1;
      }
      rm_mutex_unlock(&mutex);
      return RM_OK;
    case RM_REQUEST_LAUNCHER: {
      const rm_launcher launcher = rm_find_launcher();
      numbers[0] = launcher.name != NULL;
      numbers[1] = launcher.size;
      return RM_OK;
    }
    default: return rm_fail(RM_BAD_ARGUMENT, "there is no operation %d", what);
  }
}

int32_t rm_distributed_info(void *buffer, int32_t length) {
  char text[1400];
  snprintf(text, sizeof text, "%s\n%s\n%s", mpi->text, mpi->path,
           rm_this_world.launcher.name == NULL ? "" : rm_this_world.launcher.name);
  return rm_copy_text(text, buffer, length);
}

/* ---- Node-API -------------------------------------------------------------------------------- */

/* Runs on JavaScript's thread when a request has ended, with its number. */
static void call_listener(void *env, void *function, void *context, void *data) {
  if (env == NULL) return;
  listener *to = context;
  const rm_request *request = data;
  void *scope, *name, *self, *result;
  if (api.napi_open_handle_scope(env, &scope) != 0) return;
  if (api.napi_create_int32(env, (int32_t)request->name, &name) == 0 &&
      api.napi_get_undefined(env, &self) == 0) {
    api.napi_call_function(env, self, function, 1, &name, &result);
  }
  api.napi_close_handle_scope(env, scope);
  /* After the call, which may have begun another request. */
  if (--to->waits == 0) api.napi_unref_threadsafe_function(env, to->function);
}

/* Runs when an environment ends. MPI may still write to its memory, and no call takes that back. */
static void close_listener(void *data) {
  listener *to = data;
  rm_mutex_lock(&mutex);
  to->closed = true;
  bool in_use = false;
  for (const rm_request *at = first; at != NULL; at = at->next) {
    in_use |= at->listener == to && at->active > 0;
  }
  rm_mutex_unlock(&mutex);
  if (in_use) abort_world(1);
}

/* watch(name): tells of the end of a request. The environment stays alive until then. */
static void *api_watch(void *env, void *info) {
  size_t count = 1;
  void *argument, *data;
  double name;
  if (api.napi_get_cb_info(env, info, &count, &argument, NULL, &data) != 0 || count < 1 ||
      api.napi_get_value_double(env, argument, &name) != 0) {
    return NULL;
  }
  listener *to = data;
  rm_mutex_lock(&mutex);
  rm_request *request = find_request(name);
  if (request != NULL && request->listener == NULL) {
    if (to->waits++ == 0) api.napi_ref_threadsafe_function(env, to->function);
    request->listener = to;
    tell_end(request);
  }
  rm_mutex_unlock(&mutex);
  return NULL;
}

/* listen(ended): watch. The function `ended` gets the number of each request that is watched. */
static void *api_listen(void *env, void *info) {
  size_t count = 1;
  void *function, *name, *watch = NULL;
  listener *to = calloc(1, sizeof *to);
  if (to == NULL) return NULL;
  if (api.napi_get_cb_info(env, info, &count, &function, NULL, NULL) != 0 ||
      api.napi_create_string_utf8(env, "rowmajor", 8, &name) != 0 ||
      api.napi_create_function(env, "watch", 5, api_watch, to, &watch) != 0 ||
      api.napi_create_threadsafe_function(env, function, NULL, name, 0, 1, NULL, NULL, to,
                                          call_listener, &to->function) != 0) {
    free(to);
    return NULL;
  }
  api.napi_unref_threadsafe_function(env, to->function);
  api.napi_add_env_cleanup_hook(env, close_listener, to);
  return watch;
}

void rm_export_requests(void *env, void *exports) {
  void *listen;
  if (!find_api(&mutex)) return;
  rm_pin_library();
  if (api.napi_create_function(env, "listen", 6, api_listen, NULL, &listen) == 0) {
    api.napi_set_named_property(env, exports, "listen", listen);
  }
}
#endif
