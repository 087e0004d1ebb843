/*
 * What the parts of the emulator share: settings, devices and their memory, queues, kernels. One
 * lock is held in every function that is called from outside.
 */
#ifndef ROWMAJOR_EMULATOR_H
#define ROWMAJOR_EMULATOR_H

#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "abi.h"

#define EMU_API __attribute__((visibility("default")))

/* ---- errors ---------------------------------------------------------------------------------- */

/* The numbers that the runtime and the driver have in common. */
enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  NO_BINARY_FOR_GPU = 209,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  LAUNCH_OUT_OF_RESOURCES = 701,
  PEER_ALREADY_ENABLED = 704,
  MISALIGNED_ADDRESS = 716,
  LAUNCH_FAILED = 719,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
};

/* ---- settings and counters ------------------------------------------------------------------- */

/* README.md says what each is; state.c has their names and first values. */
enum {
  ORDER, SEED, STRICT, EXACT, MEMORY, DEVICES, MULTIPROCESSORS, CAPABILITY, BUILTINS,
  FAIL_MALLOC, FAIL_LAUNCH, FAIL_KERNEL, FAIL_COMPILE, FAIL_DRIVER, FAIL_BLAS, FAIL_FFT,
  FAIL_SOLVER, FAIL_NCCL,
  LAUNCHES, KERNELS, COMPILES, CACHED, MALLOCS, COPIES, PRODUCTS, TRANSFORMS, PLANS, FACTORS,
  COLLECTIVES, USED,
  NUMBERS
};
extern double emu_numbers[NUMBERS];
EMU_API double emu_get(const char *name);
EMU_API int emu_set(const char *name, double value);
/* setenv of the C library, which changes of a runtime's variables need not reach. */
EMU_API int emu_setenv(const char *name, const char *value);
/* Forgets what went wrong on all devices, and injected failures. */
EMU_API void emu_reset(void);
/* Copies the message of the last fault; gives its length. */
EMU_API int emu_last_fault(char *buffer, int length);

/* True for the n-th call since the setting became n. */
bool emu_fails(int setting);
/* Keeps a message of what went wrong. */
void emu_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The lock: `EMU_LOCK;` holds it to the end of the block. */
int emu_lock(void);
void emu_unlock(const int *held);
#define EMU_LOCK __attribute__((cleanup(emu_unlock), unused)) const int held = emu_lock()

/* ---- devices and memory ---------------------------------------------------------------------- */

#define MAX_DEVICES 8

typedef struct {
  char *start;
  size_t bytes;
  /* Its pages. */
  char *pages;
  size_t page_bytes;
} allocation;

typedef struct stream stream;

typedef struct {
  /* What went wrong in a kernel: every later call gives it. */
  int fault;
  /* Addresses, where the next allocation goes, and what is in use, by address. */
  char *range;
  size_t range_bytes, next;
  allocation *live;
  size_t count, capacity, used;
  bool peers[MAX_DEVICES];
  stream *streams;
  stream *null_stream;
} device;

/* Device n; its addresses are reserved at the first use. */
device *emu_device(int n);
int emu_device_count(void);
/* The device of this thread's calls, and whether a context is current on it. */
extern _Thread_local int emu_current;
extern _Thread_local bool emu_has_context;

int emu_allocate(int n, size_t bytes, void **address);
/* The whole pages of static shared memory, if they are worth mapping; and maps poisoned ones there. */
bool emu_shared_pages(char *const *part, char **pages);
bool emu_map_shared(char *const *part);
int emu_free(void *address);
/* The device that owns the address, or -1. */
int emu_owner(const void *address);
/* True when all the bytes lie in one allocation. */
bool emu_holds(const void *address, size_t bytes);
/* What an address is, in words. */
void emu_describe(const void *address, char *text, size_t length);
/* With the setting "strict", memory of devices can be touched only between these; -1 opens all. */
void emu_open_memory(int n);
void emu_close_memory(void);

/* ---- queues ---------------------------------------------------------------------------------- */

typedef struct work work;
/* A work's answer that it has to wait: it is run again later. */
enum { WAITS = -1 };
struct work {
  work *next;
  /* Gives an error, WAITS or 0; does not free. */
  int (*run)(work *);
  int device;
};

typedef struct graph {
  work *first, *last;
  bool broken;
  int mode;
  stream *origin;
  unsigned long long thread;
} graph;

#define STREAM_MAGIC 0x7374726d
#define EVENT_MAGIC 0x65766e74
#define GRAPH_MAGIC 0x67726168

struct stream {
  int magic;
  int device;
  bool blocking, polled;
  work *first, *last;
  /* How many works were queued, and how many have run. */
  long long queued, done;
  graph *capture;
  stream *next;
};

/* The stream of a handle: null is that of the current device; gives null for what is no stream. */
stream *emu_stream(void *handle);
stream *emu_new_stream(int n, bool blocking);
/* Queues work, or notes it in the graph that the stream belongs to. Takes the work over. */
int emu_queue(stream *to, work *what);
/* Runs what is queued, all or up to a number; gives the device's fault. */
int emu_drain(stream *from, long long until);
/* The same without waiting: NOT_READY while a work has to wait. */
int emu_advance(stream *from, long long until);
int emu_drain_device(int n, bool blocking_only);
/* An error when the stream, or where it is null anything that this thread may disturb, is being
 * captured; that ends the capture. */
int emu_disturbs_capture(stream *of);

/* ---- kernels --------------------------------------------------------------------------------- */

typedef struct {
  const emu_kernel *kernel;
  emu_triple blocks, threads;
  const char *arguments;
} grid;

/* The folder of what was compiled. */
const char *emu_cache(void);
/* What loaded kernels are given. */
extern const emu_services emu_offered;
/* Runs all blocks; gives an error, of which emu_last_fault has the words. */
int emu_run_grid(const grid *what);
/* Catches accesses that have no right to be, from now on. */
void emu_watch_faults(void);

#endif
