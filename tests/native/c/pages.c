/*
 * Tests the large pages of buffers: whether they are requested, and freed.
 */
#include "internal.h"
#include <buffers.c>
#include "check.h"

static const char LARGE_PAGES[] = "/sys/kernel/mm/transparent_hugepage";

/* The number of 4 KiB pages that the process has mapped, touched or not. */
static long pages(void) {
  long all = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld", &all) == 1);
  fclose(file);
  return all;
}

/* Whether large pages are requested at an address. The flags must state it one way or the other. */
static bool wants_large(const void *address) {
  char line[512];
  bool inside = false, wants = false, said = false;
  FILE *file = fopen("/proc/self/smaps", "r");
  CHECK(file != NULL);
  while (fgets(line, sizeof line, file) != NULL) {
    unsigned long from, to;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) {
      inside = from <= (uintptr_t)address && (uintptr_t)address < to;
    }
    if (inside && strncmp(line, "VmFlags:", 8) == 0) {
      wants = strstr(line, " hg") != NULL;
      said = wants != (strstr(line, " nh") != NULL);
    }
  }
  fclose(file);
  CHECK(said || access(LARGE_PAGES, F_OK) != 0);
  return wants;
}

/* Allocates a buffer, touches all of it, frees it, and returns whether it requested large pages. */
static bool take_large(buffer_owner *owner, size_t bytes, bool zeroed) {
  const long before = pages();
  double numbers[3] = {(double)(uintptr_t)owner, (double)bytes, zeroed};
  CHECK(rm_buffers(RM_BUFFERS_TAKE, numbers) == RM_OK);
  char *x = (char *)(uintptr_t)numbers[0];
  CHECK((uintptr_t)x % LARGE_PAGE == 0);
  for (size_t i = 0; i < bytes; i++) CHECK(x[i] == 0);
  memset(x, 1, bytes);
  const bool large = wants_large(x);
  CHECK(large == wants_large(x + bytes - 1));
  CHECK(pages() - before >= (long)(bytes >> 12));
  CHECK(rm_buffers(RM_BUFFERS_GIVE, numbers) == RM_OK);
  CHECK(rm_buffers(RM_BUFFERS_RELEASE, &(double){0}) == RM_OK && pages() - before <= 2);
  return large;
}

int main(void) {
  buffer_owner *owner = new_owner();
  const bool some = access(LARGE_PAGES, F_OK) == 0;
  for (double mib = 2; mib <= 32; mib *= 1.5) {
    CHECK(take_large(owner, (size_t)(mib * (1 << 20)) - 5, mib > 10) == some);
  }
  printf("large pages: %s\n", some ? "yes" : "no");
  return 0;
}
