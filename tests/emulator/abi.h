/*
 * What a compiled kernel and the emulator agree on: where a thread is, how it waits, and the record
 * of a kernel. Included by both, so that it may use nothing but built-in types.
 */
#ifndef ROWMAJOR_EMULATOR_ABI_H
#define ROWMAJOR_EMULATOR_ABI_H

typedef struct {
  unsigned int x, y, z;
} emu_triple;

/* Where the thread that runs is. */
typedef struct {
  emu_triple thread, block, threads, blocks;
} emu_place;

/* Barriers of a block: what the results of all threads are made of their values. */
enum { EMU_SYNC, EMU_SYNC_OR, EMU_SYNC_AND, EMU_SYNC_COUNT };

/* What the lanes of a warp do together. */
enum {
  EMU_WARP_SYNC,
  EMU_SHUFFLE,
  EMU_SHUFFLE_UP,
  EMU_SHUFFLE_DOWN,
  EMU_SHUFFLE_XOR,
  EMU_BALLOT,
  EMU_MATCH,
  EMU_REDUCE_ADD,
  EMU_REDUCE_MIN,
  EMU_REDUCE_MAX,
  EMU_REDUCE_AND,
  EMU_REDUCE_OR,
  EMU_REDUCE_XOR
};

/* What kernels call. */
typedef struct {
  emu_place *place;
  /* Waits for all threads of the block, which have to come to the same site. */
  unsigned long long (*barrier)(int kind, int site, unsigned long long value);
  /* Waits for all lanes of the mask. */
  unsigned long long (*warp)(int kind, int site, unsigned int mask, unsigned long long value,
                             int argument, int width);
  /* Lanes of this warp that have not ended. */
  unsigned int (*active)(void);
  /* Lets the other threads run. */
  void (*yield)(void);
  /* Ends the kernel with an error. */
  void (*trap)(const char *message);
} emu_services;

/*
 * A kernel. A compiled source has one for each, as emu_kernel_NAME, and a pointer to the services,
 * emu_use, which is set when it is loaded.
 */
typedef struct {
  const char *name;
  void (*call)(const char *arguments);
  unsigned long long argument_bytes;
  /* Where each parameter lies among the arguments, and how long it is. */
  const unsigned int *where;
  int parameters;
  /* Of __launch_bounds__; 0 without. */
  int max_threads;
  /* Shared memory: of the kernel itself, and of functions and templates of its source. */
  char *shared[2][2];
} emu_kernel;

#endif
