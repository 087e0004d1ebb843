/*
 * Tests the queue thread with several environments at once, which open, submit jobs and end while
 * their jobs wait or run. This program is a stand-in for Node-API and for programs. It runs with
 * the sanitizers of addresses, undefined behavior and threads.
 *
 * An environment is a thread. Its calls come from a list that the queue thread fills.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "check.h"
#include "internal.h"
#include "node_api.h"
#include "program.h"

enum { ENVIRONMENTS = 4, JOBS = 3000, ENDS = 200 };

/* ---- programs -------------------------------------------------------------------------------- */

struct rm_frame {
  int32_t calls;
  /* Written by runs, without atomics: the sanitizer finds uses of a frame that overlap. */
  int32_t runs;
  /* Set once the memory of the frame is gone. */
  bool freed;
};

static _Atomic(int) cancelled_runs;

int32_t rm_frame_calls(const rm_frame *frame) { return frame->calls; }

int32_t rm_run_frame(rm_frame *frame, int32_t from, int32_t to, const _Atomic(bool) *cancelled) {
  for (int32_t i = from; i < to; i++) {
    if (atomic_load(cancelled)) {
      atomic_fetch_add(&cancelled_runs, 1);
      return RM_CANCELLED;
    }
    CHECK(!frame->freed);
    frame->runs++;
    if (i % 64 == 63) usleep(10);
  }
  return from == 0 ? RM_OK : RM_UNSUPPORTED;
}

/* ---- Node-API -------------------------------------------------------------------------------- */

typedef struct environment environment;

struct environment {
  pthread_mutex_t mutex;
  pthread_cond_t called;
  /* Calls of the threadsafe function that wait. */
  void *calls[4];
  int waiting, references;
  void (*call_js)(void *env, void *function, void *context, void *data);
  napi_callback listen, submit;
  void *client;
  void (*hook)(void *data);
  void *hook_data;
  bool ended;
  /* What the function that listens does: the statuses it got, and jobs that it submits at once. */
  int statuses[RM_CANCELLED + 1], more;
  rm_frame *frame;
};

typedef struct {
  double numbers[3];
  environment *env;
} arguments;

#define EXPORT __attribute__((visibility("default"), used))

EXPORT int napi_create_function(void *env, const char *name, size_t length, napi_callback function,
                                void *data, void **result) {
  environment *e = env;
  *result = e;
  if (strncmp(name, "listen", length) == 0) {
    e->listen = function;
  } else {
    CHECK(strncmp(name, "submit", length) == 0);
    e->submit = function;
    e->client = data;
  }
  return 0;
}
EXPORT int napi_set_named_property(void *env, void *object, const char *name, void *value) {
  CHECK(object == env && value == env && strcmp(name, "listen") == 0);
  return 0;
}
EXPORT int napi_get_cb_info(void *env, void *info, size_t *count, void **values, void **self,
                            void **data) {
  arguments *all = info;
  CHECK(self == NULL);
  for (size_t i = 0; i < *count; i++) values[i] = *count == 1 ? env : (void *)&all->numbers[i];
  if (data != NULL) *data = ((environment *)env)->client;
  return 0;
}
EXPORT int napi_get_value_double(void *env, void *value, double *result) {
  (void)env;
  *result = *(double *)value;
  return 0;
}
EXPORT int napi_create_string_utf8(void *env, const char *text, size_t length, void **result) {
  CHECK(strlen(text) == length);
  *result = env;
  return 0;
}
EXPORT int napi_create_int32(void *env, int32_t value, void **result) {
  (void)env;
  *result = (void *)(intptr_t)(value + 1);
  return 0;
}
EXPORT int napi_get_undefined(void *env, void **result) {
  *result = env;
  return 0;
}
EXPORT int napi_open_handle_scope(void *env, void **scope) {
  *scope = env;
  return 0;
}
EXPORT int napi_close_handle_scope(void *env, void *scope) {
  CHECK(scope == env);
  return 0;
}
EXPORT int napi_add_env_cleanup_hook(void *env, void (*hook)(void *data), void *data) {
  ((environment *)env)->hook = hook;
  ((environment *)env)->hook_data = data;
  return 0;
}
EXPORT int napi_create_threadsafe_function(void *env, void *function, void *resource, void *name,
                                           size_t queue_size, size_t threads, void *finalize_data,
                                           napi_finalizer finalize, void *context,
                                           void (*call)(void *, void *, void *, void *),
                                           void **result) {
  environment *e = env;
  CHECK(function == env && resource == NULL && name == env && queue_size == 0 && threads == 1);
  CHECK(finalize_data == NULL && finalize == NULL && context == NULL);
  e->call_js = call;
  e->references = 1;
  *result = e;
  return 0;
}
EXPORT int napi_call_threadsafe_function(void *function, void *data, int mode) {
  environment *e = function;
  CHECK(mode == 0 && !e->ended);
  pthread_mutex_lock(&e->mutex);
  e->calls[e->waiting++] = data;
  CHECK(e->waiting == 1);
  pthread_cond_signal(&e->called);
  pthread_mutex_unlock(&e->mutex);
  return 0;
}
EXPORT int napi_ref_threadsafe_function(void *env, void *function) {
  CHECK(env == function);
  ((environment *)env)->references = 1;
  return 0;
}
EXPORT int napi_unref_threadsafe_function(void *env, void *function) {
  CHECK(env == function);
  ((environment *)env)->references = 0;
  return 0;
}

static int submit(environment *e, rm_frame *frame, double from, double to) {
  arguments all = {{(double)(uintptr_t)frame, from, to}, e};
  return (int)(intptr_t)e->submit(e, &all) - 1;
}

/* JavaScript's function. */
EXPORT int napi_call_function(void *env, void *self, void *function, size_t count,
                              void *const *values, void **result) {
  environment *e = env;
  CHECK(self == env && function == env && count == 1);
  e->statuses[(intptr_t)values[0] - 1]++;
  *result = env;
  if (e->more == 0) return 0;
  e->more--;
  CHECK(submit(e, e->frame, 0, 8) == RM_OK);
  /* One job at a time. */
  CHECK(submit(e, e->frame, 0, 8) == RM_BAD_ARGUMENT);
  return 0;
}

void rm_export_buffers(void *env, void *exports) { CHECK(env == exports && false); }
void rm_export_files(void *env, void *exports) { CHECK(env == exports && false); }
void rm_export_requests(void *env, void *exports) { CHECK(env == exports && false); }

/* ---- environments ---------------------------------------------------------------------------- */

static void open_environment(environment *e, rm_frame *frame) {
  memset(e, 0, sizeof *e);
  pthread_mutex_init(&e->mutex, NULL);
  pthread_cond_init(&e->called, NULL);
  e->frame = frame;
  CHECK(napi_register_module_v1(e, e) == e && e->listen == NULL);
  CHECK(rm_expect_module(RM_MODULE_QUEUE) == RM_OK);
  CHECK(napi_register_module_v1(e, e) == e && e->listen != NULL);
  CHECK(e->listen(e, NULL) == e && e->references == 0 && e->hook != NULL);
}

/* Runs the event loop until the environment has no more jobs. */
static void run_loop(environment *e) {
  while (e->references > 0) {
    pthread_mutex_lock(&e->mutex);
    while (e->waiting == 0) pthread_cond_wait(&e->called, &e->mutex);
    void *data = e->calls[--e->waiting];
    pthread_mutex_unlock(&e->mutex);
    e->call_js(e, e, NULL, data);
  }
}

/* Afterwards nothing may use the frame. */
static void end_environment(environment *e) {
  e->hook(e->hook_data);
  e->ended = true;
  e->frame->freed = true;
}

static void *live(void *unused) {
  (void)unused;
  environment e;
  rm_frame frame = {.calls = 2000};
  open_environment(&e, &frame);
  CHECK(submit(&e, NULL, 0, 1) == RM_BAD_ARGUMENT && submit(&e, &frame, 0, 2001) == RM_BAD_ARGUMENT);
  CHECK(submit(&e, &frame, -1, 1) == RM_BAD_ARGUMENT && submit(&e, &frame, 2, 1) == RM_BAD_ARGUMENT);
  e.more = JOBS;
  CHECK(submit(&e, &frame, 1, 9) == RM_OK && e.references == 1);
  run_loop(&e);
  CHECK(e.statuses[RM_OK] == JOBS && e.statuses[RM_UNSUPPORTED] == 1);
  CHECK(frame.runs == 8 * (JOBS + 1));
  end_environment(&e);
  return NULL;
}

static void *end_early(void *unused) {
  (void)unused;
  for (int i = 0; i < ENDS; i++) {
    environment e;
    rm_frame frame = {.calls = 1000000};
    open_environment(&e, &frame);
    CHECK(submit(&e, &frame, 0, 1000000) == RM_OK);
    if (i % 2 == 0) usleep(200);
    end_environment(&e);
    /* A call that was on its way is made without an environment. */
    e.call_js(NULL, &e, NULL, NULL);
  }
  return NULL;
}

int main(void) {
  CHECK(rm_expect_module(5) == RM_BAD_ARGUMENT);
  pthread_t threads[ENVIRONMENTS];
  for (int i = 0; i < ENVIRONMENTS; i++) {
    pthread_create(&threads[i], NULL, i % 2 == 0 ? live : end_early, NULL);
  }
  for (int i = 0; i < ENVIRONMENTS; i++) pthread_join(threads[i], NULL);
  CHECK(rm_has_background() && cancelled_runs > 0);
  printf("%d jobs\n", ENVIRONMENTS / 2 * (JOBS + 1));
  return 0;
}
