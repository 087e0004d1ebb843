/*
 * MPI, opened at run time: its functions, handles and constants, and the environment of launchers.
 *
 * There are three ABIs: the standard one of MPI 5, MPICH's and Open MPI's. Handles are integers of 32
 * bits or pointers. Registers hold both, so handles are integers of 64 bits here, for all of them.
 */
#ifndef ROWMAJOR_MPI_H
#define ROWMAJOR_MPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A communicator, request, datatype, operation or error handler. */
typedef uint64_t rm_mpi_handle;

/* A function that combines `count` elements of `in` with those of `inout`. */
typedef void rm_mpi_combine(const void *in, void *inout, const int *count, const void *type);

typedef enum { RM_MPI_STANDARD, RM_MPI_MPICH, RM_MPI_OPEN_MPI } rm_mpi_abi;

/* The sizes of elements are powers of two up to this one's. */
enum { RM_MPI_SIZES = 5 };

/* The numbers of a world, and what every ABI has. */
typedef struct {
#define RM_MPI_FUNCTION(name, parameters) int(*name) parameters;
#include "mpi_functions.def"
#undef RM_MPI_FUNCTION
  void *library;
  rm_mpi_abi abi;
  rm_mpi_handle world;
  /* By dtype; 0 where MPI has none. */
  rm_mpi_handle types[13];
  rm_mpi_handle sum, max, min;
  rm_mpi_handle errors_return;
  void *in_place, *ignored_status;
  int any_source;
  int thread_serialized;
  /* Blocks of 1, 2, 4, 8 and 16 bytes. */
  rm_mpi_handle blocks[RM_MPI_SIZES];
  /* The implementation, its version and ABI; the path of the library. */
  char text[160], path[1024];
} rm_mpi;

/* What the environment says of a launcher. */
typedef struct {
  /* The name of what started this process: "mpiexec of MPICH"; null for none. */
  const char *name;
  /* Whether processes find each other through PMIx, as Open MPI's do. */
  bool is_pmix;
  /* The number of processes; 0 if unknown. */
  int size;
} rm_launcher;

rm_launcher rm_find_launcher(void);

/* Opens the first library that is found, and finds its functions: a status. */
int32_t rm_mpi_open(const rm_launcher *launcher, rm_mpi *to);

/* Fails if this library would end the process, or make worlds of size 1, under this launcher. */
int32_t rm_mpi_check_launcher(const rm_launcher *launcher, const rm_mpi *mpi);

/* Ends MPI, and takes leave of the launcher. */
void rm_mpi_finalize(rm_mpi *mpi);

/* Makes types and operations after MPI has been initialized: a status. */
int32_t rm_mpi_make_types(rm_mpi *mpi);

/* The type and the operation of a reduction. */
typedef struct {
  rm_mpi_handle type, op;
} rm_mpi_reduction;

/* Finds those of a number of RM_REDUCTION_.... A status: bool has no sum. */
int32_t rm_mpi_find_reduction(const rm_mpi *mpi, int reduction, int dtype, rm_mpi_reduction *to);

/* Makes the operations of dtypes for which MPI has none, or which differ from those of this library:
 * a status. */
int32_t rm_mpi_make_operations(const rm_mpi *mpi);

#endif
