/*
 * The check of the test programs.
 */
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) \
  if (!(what)) { \
    printf("line %d: %s\n", __LINE__, #what); \
    exit(1); \
  }
