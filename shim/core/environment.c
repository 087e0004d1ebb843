/*
 * The settings that environment variables make. An empty variable counts as unset.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "internal.h"

/* Variables that contain a prefix and an integer from 0 to `most`. */
static const struct {
  const char *name, *prefix;
  int most;
  const char *expected;
} variables[RM_ENVIRONMENT_COUNT] = {
    [RM_ENVIRONMENT_THREADS] = {"ROWMAJOR_THREADS", "", 256, "an integer from 0 to 256"},
    [RM_ENVIRONMENT_LEVEL] = {"ROWMAJOR_LEVEL", "v", 9,
                              "v2, v3 or v4, as far as this machine has them"},
    [RM_ENVIRONMENT_BLAS_ALWAYS] = {"ROWMAJOR_BLAS_ALWAYS", "", 1, "0 or 1"},
    [RM_ENVIRONMENT_CUDA_BLOCKS] = {"ROWMAJOR_CUDA_BLOCKS", "", 1, "0 or 1"},
};

enum { INVALID = -1 };

static int read_variable(rm_environment variable, int unset) {
  const char *text = getenv(variables[variable].name);
  if (text == NULL || text[0] == 0) return unset;
  const size_t prefix = strlen(variables[variable].prefix);
  if (strncmp(text, variables[variable].prefix, prefix) != 0) return INVALID;
  const char *digits = text + prefix;
  const size_t length = strlen(digits);
  if (length == 0 || length > 3 || strspn(digits, "0123456789") != length) return INVALID;
  const int value = atoi(digits);
  return value > variables[variable].most ? INVALID : value;
}

int rm_environment_value(rm_environment variable, int unset) {
  const int value = read_variable(variable, unset);
  return value == INVALID ? unset : value;
}

int32_t rm_check_environment(bool (*has_level)(int level)) {
  for (int i = 0; i < RM_ENVIRONMENT_COUNT; i++) {
    int value = read_variable((rm_environment)i, 0);
    if (i == RM_ENVIRONMENT_LEVEL && value != INVALID && !has_level(value)) value = INVALID;
    if (value == INVALID) {
      return rm_fail(RM_BAD_ARGUMENT, "%s is \"%.40s\": it takes %s", variables[i].name,
                     getenv(variables[i].name), variables[i].expected);
    }
  }
  return RM_OK;
}

bool rm_may_open(const char *path) {
#if defined(_WIN32)
  (void)path;
  return true;
#else
  struct stat about;
  return stat(path, &about) != 0 || S_ISREG(about.st_mode);
#endif
}
