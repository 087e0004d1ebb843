/*
 * Tests mapped files as Bun uses them and as Node-API uses them: this program is a stand-in for
 * Node-API itself. It runs with the sanitizers of addresses, undefined behavior and threads.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "check.h"
#include "internal.h"
#include "node_api.h"

typedef void (*finalizer)(void *data, void *context);

enum { BYTES = 10000, HOLDERS = 4, ROUNDS = 20000 };

static char path[] = "/tmp/rowmajor-files-XXXXXX";

static void write_file(size_t bytes) {
  const int file = open(path, O_WRONLY | O_TRUNC);
  char text[BYTES];
  for (int i = 0; i < BYTES; i++) text[i] = (char)(i % 100);
  CHECK(file >= 0 && write(file, text, bytes) == (ssize_t)bytes);
  close(file);
}

static double size_now(double mapping) {
  CHECK(rm_files(RM_FILES_SIZE, NULL, &mapping) == RM_OK);
  return mapping;
}

static void release(double mapping) { CHECK(rm_files(RM_FILES_RELEASE, NULL, &mapping) == RM_OK); }

static finalizer hold(double mapping) {
  CHECK(rm_files(RM_FILES_HOLD, NULL, &mapping) == RM_OK);
  return (finalizer)(uintptr_t)mapping;
}

/* Whether an address is mapped. */
static bool is_mapped(double address) {
  unsigned char state;
  return mincore((void *)(uintptr_t)address, 1, &state) == 0;
}

static void check_one_file(void) {
  double numbers[3];
  write_file(BYTES);
  CHECK(rm_files(RM_FILES_MAP, path, numbers) == RM_OK && numbers[2] == BYTES);
  char *data = (char *)(uintptr_t)numbers[1];
  for (int i = 0; i < BYTES; i++) CHECK(data[i] == i % 100);
  /* A write stays here. */
  data[5] = 77;
  double again[3];
  CHECK(rm_files(RM_FILES_MAP, path, again) == RM_OK);
  CHECK(data[5] == 77 && ((char *)(uintptr_t)again[1])[5] == 5);
  release(again[0]);
  CHECK(!is_mapped(again[1]));
  /* The last array unmaps it. */
  finalizer lost = hold(numbers[0]);
  release(numbers[0]);
  CHECK(is_mapped(numbers[1]) && data[9999] == 99);
  CHECK(size_now(numbers[0]) == BYTES);
  CHECK(truncate(path, 4096) == 0 && size_now(numbers[0]) == 4096);
  /* Another file of that name says nothing about this one, and none does neither. */
  char other[64];
  snprintf(other, sizeof other, "%s-other", path);
  CHECK(rename(path, other) == 0 && size_now(numbers[0]) == BYTES);
  CHECK(close(open(path, O_CREAT | O_WRONLY, 0600)) == 0 && size_now(numbers[0]) == BYTES);
  CHECK(unlink(other) == 0);
  lost(data, (void *)(uintptr_t)numbers[0]);
  CHECK(!is_mapped(numbers[1]));
}

static void check_refused(void) {
  double numbers[3];
  char text[200], none[64];
  snprintf(none, sizeof none, "%s-none", path);
  CHECK(rm_files(RM_FILES_MAP, none, numbers) == RM_NOT_FOUND);
  CHECK(rm_last_error(text, sizeof text) > 0 && strcmp(text, "the system gives error 2") == 0);
  CHECK(rm_files(RM_FILES_MAP, "/tmp", numbers) == RM_NOT_FOUND);
  write_file(0);
  CHECK(rm_files(RM_FILES_MAP, path, numbers) == RM_NOT_FOUND);
  CHECK(mkfifo(none, 0600) == 0 && rm_files(RM_FILES_MAP, none, numbers) == RM_NOT_FOUND);
  CHECK(unlink(none) == 0);
  CHECK(rm_files(99, NULL, numbers) == RM_BAD_ARGUMENT);
}

/* Arrays are made and lost on several threads at a time. */
static void *churn(void *mapping) {
  const double m = *(double *)mapping;
  for (int i = 0; i < ROUNDS; i++) hold(m)(NULL, (void *)(uintptr_t)m);
  return NULL;
}

static void check_threads(void) {
  double numbers[3];
  pthread_t threads[HOLDERS];
  write_file(BYTES);
  CHECK(rm_files(RM_FILES_MAP, path, numbers) == RM_OK);
  for (int i = 0; i < HOLDERS; i++) CHECK(pthread_create(&threads[i], NULL, churn, numbers) == 0);
  for (int i = 0; i < HOLDERS; i++) pthread_join(threads[i], NULL);
  CHECK(is_mapped(numbers[1]));
  release(numbers[0]);
  CHECK(!is_mapped(numbers[1]));
}

/* ---- Node-API -------------------------------------------------------------------------------- */

static struct {
  napi_callback view;
  napi_finalizer lost;
  void *hint, *data;
  bool refuses;
} node;

void rm_export_buffers(void *env, void *exports) { (void)env, (void)exports; }
void rm_export_queue(void *env, void *exports) { (void)env, (void)exports; }
void rm_export_requests(void *env, void *exports) { (void)env, (void)exports; }

int napi_create_function(void *env, const char *name, size_t length, napi_callback function,
                         void *data, void **result) {
  (void)env, (void)data;
  CHECK(strlen(name) == length);
  node.view = function;
  *result = &node;
  return 0;
}

int napi_set_named_property(void *env, void *object, const char *name, void *value) {
  (void)env;
  CHECK(object == path && strcmp(name, "view") == 0 && value == &node);
  return 0;
}

int napi_get_cb_info(void *env, void *info, size_t *count, void **arguments, void **self,
                     void **data) {
  (void)env, (void)self, (void)data;
  for (size_t i = 0; i < *count; i++) arguments[i] = (double *)info + i;
  return 0;
}

int napi_get_value_double(void *env, void *value, double *result) {
  (void)env;
  *result = *(double *)value;
  return 0;
}

int napi_create_external_arraybuffer(void *env, void *data, size_t bytes, napi_finalizer lost,
                                     void *hint, void **result) {
  (void)env;
  if (node.refuses) return 1;
  CHECK(bytes == 7);
  node.lost = lost;
  node.hint = hint;
  node.data = *result = data;
  return 0;
}

static void check_node(void) {
  double numbers[3];
  CHECK(rm_expect_module(RM_MODULE_FILES) == RM_OK);
  CHECK(napi_register_module_v1(NULL, path) == path && node.view != NULL);
  write_file(BYTES);
  CHECK(rm_files(RM_FILES_MAP, path, numbers) == RM_OK);
  double arguments[3] = {numbers[0], numbers[1] + 5, 7};
  char *view = node.view(NULL, arguments);
  CHECK(view == (char *)(uintptr_t)numbers[1] + 5 && view[0] == 5);
  node.refuses = true;
  CHECK(node.view(NULL, arguments) == NULL);
  release(numbers[0]);
  CHECK(is_mapped(numbers[1]) && view[6] == 11);
  node.lost(NULL, node.data, node.hint);
  CHECK(!is_mapped(numbers[1]));
}

int main(void) {
  const int file = mkstemp(path);
  CHECK(file >= 0 && close(file) == 0);
  check_one_file();
  check_refused();
  check_threads();
  check_node();
  CHECK(unlink(path) == 0);
  printf("%d arrays\n", HOLDERS * ROUNDS);
  return 0;
}
