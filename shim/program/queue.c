/*
 * The queue thread, which runs programs while JavaScript goes on, and tells their ends through
 * Node-API's threadsafe functions.
 *
 * Each environment of Node-API, the main thread or a worker, queues its jobs in JavaScript and has
 * one job here at most.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#endif
#include <stdatomic.h>
#include <stdlib.h>
#include "internal.h"
#include "mutex.h"
#include "node_api.h"
#include "program.h"

RM_NODE_API(NODE_API_LISTENER_FUNCTIONS)

/* An environment. It is never freed: a runtime may look at a function whose environment ends. */
typedef struct queue_client queue_client;
struct queue_client {
  /* The threadsafe function that gets the statuses. */
  void *function;
  /* The job: the calls [from, to) of a frame; null if there is none. Used by JavaScript's thread,
   * except while the job waits or runs. */
  rm_frame *frame;
  int32_t from, to, status;
  /* Whether the environment ends. */
  bool closed;
  _Atomic(bool) cancelled;
  /* The next client whose job waits. */
  queue_client *next;
};

/* Guards everything below, and `closed` of clients. */
static rm_mutex mutex = RM_MUTEX_INIT;
static rm_condition submitted = RM_CONDITION_INIT, ended = RM_CONDITION_INIT;
static queue_client *first, **last = &first;
static queue_client *running;
static bool started;

/* The main loop of the queue thread. */
static void run_jobs(void *unused) {
  (void)unused;
  rm_enter_background();
  rm_mutex_lock(&mutex);
  for (;;) {
    while (first == NULL) rm_condition_wait(&submitted, &mutex);
    queue_client *client = first;
    first = client->next;
    if (first == NULL) last = &first;
    running = client;
    rm_mutex_unlock(&mutex);
    client->status = rm_run_frame(client->frame, client->from, client->to, &client->cancelled);
    rm_mutex_lock(&mutex);
    running = NULL;
    /* Under the mutex, so that the environment cannot end meanwhile. */
    if (!client->closed) api.napi_call_threadsafe_function(client->function, client, 0);
    rm_condition_broadcast(&ended);
  }
}

static int32_t start_queue(void) {
  rm_mutex_lock(&mutex);
  rm_expect_background();
  if (!started) started = rm_start_thread(run_jobs, NULL, 0);
  const bool is_started = started;
  rm_mutex_unlock(&mutex);
  return is_started ? RM_OK : rm_fail(RM_UNSUPPORTED, "the system starts no more threads");
}

/* Runs on JavaScript's thread when a job has ended, with its status. */
static void end_job(void *env, void *function, void *context, void *data) {
  (void)context;
  if (env == NULL) return;
  queue_client *client = data;
  void *scope, *status, *self, *result;
  client->frame = NULL;
  if (api.napi_open_handle_scope(env, &scope) != 0) return;
  if (api.napi_create_int32(env, client->status, &status) == 0 &&
      api.napi_get_undefined(env, &self) == 0) {
    api.napi_call_function(env, self, function, 1, &status, &result);
  }
  api.napi_close_handle_scope(env, scope);
  /* An environment without jobs may end. */
  if (client->frame == NULL) api.napi_unref_threadsafe_function(env, client->function);
}

/* Runs when an environment ends: its memory must not be in use after that. A waiting job is dropped,
 * and the running one stops after the current call. */
static void close_client(void *data) {
  queue_client *client = data;
  rm_mutex_lock(&mutex);
  client->closed = true;
  atomic_store(&client->cancelled, true);
  for (queue_client **at = &first; *at != NULL; at = &(*at)->next) {
    if (*at != client) continue;
    *at = client->next;
    if (*at == NULL) last = at;
    break;
  }
  while (running == client) rm_condition_wait(&ended, &mutex);
  rm_mutex_unlock(&mutex);
}

/* submit(frame, from, to): a status. The environment stays alive until the job has ended. */
static void *api_submit(void *env, void *info) {
  size_t count = 3;
  void *arguments[3], *data, *result = NULL;
  double frame, from, to;
  if (api.napi_get_cb_info(env, info, &count, arguments, NULL, &data) != 0 || count < 3 ||
      api.napi_get_value_double(env, arguments[0], &frame) != 0 ||
      api.napi_get_value_double(env, arguments[1], &from) != 0 ||
      api.napi_get_value_double(env, arguments[2], &to) != 0) {
    return NULL;
  }
  queue_client *client = data;
  rm_frame *runs = (rm_frame *)(uintptr_t)frame;
  int32_t status = RM_OK;
  if (runs == NULL || client->frame != NULL || !(from >= 0 && to >= from) ||
      to > rm_frame_calls(runs)) {
    status = RM_BAD_ARGUMENT;
  } else {
    status = start_queue();
  }
  if (status == RM_OK) {
    api.napi_ref_threadsafe_function(env, client->function);
    client->frame = runs;
    client->from = (int32_t)from;
    client->to = (int32_t)to;
    client->next = NULL;
    rm_mutex_lock(&mutex);
    *last = client;
    last = &client->next;
    rm_condition_signal(&submitted);
    rm_mutex_unlock(&mutex);
  }
  api.napi_create_int32(env, status, &result);
  return result;
}

/* listen(ended): submit. The function `ended` gets the status of each job. */
static void *api_listen(void *env, void *info) {
  size_t count = 1;
  void *function, *name, *submit = NULL;
  queue_client *client = calloc(1, sizeof *client);
  if (client == NULL) return NULL;
  if (api.napi_get_cb_info(env, info, &count, &function, NULL, NULL) != 0 ||
      api.napi_create_string_utf8(env, "rowmajor", 8, &name) != 0 ||
      api.napi_create_function(env, "submit", 6, api_submit, client, &submit) != 0 ||
      api.napi_create_threadsafe_function(env, function, NULL, name, 0, 1, NULL, NULL, NULL, end_job,
                                          &client->function) != 0) {
    free(client);
    return NULL;
  }
  api.napi_unref_threadsafe_function(env, client->function);
  api.napi_add_env_cleanup_hook(env, close_client, client);
  return submit;
}

void rm_export_queue(void *env, void *exports) {
  void *listen;
  if (!find_api(&mutex)) return;
  /* The runtime may unload the library with the environment. */
  rm_pin_library();
  if (api.napi_create_function(env, "listen", 6, api_listen, NULL, &listen) == 0) {
    api.napi_set_named_property(env, exports, "listen", listen);
  }
}
