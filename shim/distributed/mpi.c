/*
 * Finds and opens MPI.
 */
#if !defined(_WIN32)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "mpi.h"

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value == NULL || value[0] == 0 ? NULL : value;
}

static int number_in(const char *name) {
  const char *value = variable(name);
  return value == NULL ? 0 : atoi(value);
}

rm_launcher rm_find_launcher(void) {
  if (variable("OMPI_COMM_WORLD_SIZE") != NULL) {
    return (rm_launcher){"mpiexec of Open MPI", true, number_in("OMPI_COMM_WORLD_SIZE")};
  }
  const char *slurm = variable("SLURM_PROCID");
  const bool has_pmi = variable("PMI_RANK") != NULL || variable("PMI_FD") != NULL;
  if (variable("PMIX_RANK") != NULL) {
    const int size = slurm == NULL ? 0 : number_in("SLURM_NTASKS");
    return (rm_launcher){slurm == NULL ? "a launcher with PMIx" : "srun", true, size};
  }
  if (has_pmi) {
    const int size = number_in("PMI_SIZE");
    return (rm_launcher){slurm == NULL ? "mpiexec of MPICH" : "srun", false, size};
  }
  return (rm_launcher){NULL, false, 0};
}

/* ---- the library ----------------------------------------------------------------------------- */

#if defined(__APPLE__)
static const char *const pmix_names[] = {"libmpi.40.dylib", NULL};
static const char *const pmi_names[] = {"libmpi_abi.1.dylib", "libmpi.12.dylib", "libpmpi.12.dylib",
                                        NULL};
#else
static const char *const pmix_names[] = {"libmpi.so.40", NULL};
static const char *const pmi_names[] = {"libmpi_abi.so.1", "libmpi.so.12", "libmpich.so.12", NULL};
#endif

/* Debian's Open MPI finds its plugins, which need the symbols of the library, only if those are
 * global. */
static void *open_library(const char *path) {
  if (strchr(path, '/') != NULL && !rm_may_open(path)) return NULL;
  return dlopen(path, RTLD_NOW | RTLD_GLOBAL);
}

/* Opens one of `names`, in `folder` or, if that is null, where the system looks. */
static void *open_named(const char *folder, const char *const *names) {
  for (; *names != NULL; names++) {
    char path[1024];
    if (folder == NULL) snprintf(path, sizeof path, "%s", *names);
    else snprintf(path, sizeof path, "%s/lib/%s", folder, *names);
    void *library = open_library(path);
    if (library != NULL) return library;
  }
  return NULL;
}

static int32_t find_library(const rm_launcher *launcher, void **library) {
  const char *path = variable("ROWMAJOR_MPI");
  if (path != NULL) {
    *library = open_library(path);
    if (*library != NULL) return RM_OK;
    const char *why = dlerror();
    return rm_fail(RM_NOT_FOUND, "cannot open the MPI library at ROWMAJOR_MPI: %s",
                   why == NULL ? path : why);
  }
  const char *const *names[2] = {launcher->is_pmix ? pmix_names : pmi_names,
                                 launcher->is_pmix ? pmi_names : pmix_names};
  const char *folders[] = {variable("VIRTUAL_ENV"), variable("CONDA_PREFIX"), NULL};
  for (int kind = 0; kind < 2; kind++) {
    /* An environment that is active comes before the system. */
    for (int i = 0; i < 3; i++) {
      if (folders[i] == NULL && i < 2) continue;
      *library = open_named(folders[i], names[kind]);
      if (*library != NULL) return RM_OK;
    }
  }
  return rm_fail(RM_NOT_FOUND,
                 "no MPI library was found: set ROWMAJOR_MPI to the path of libmpi.so.40 (Open MPI), "
                 "libmpi_abi.so.1 or libmpi.so.12 (MPICH)");
}

/* The address of a symbol as a handle; 0 if there is none. */
static rm_mpi_handle address_in(void *library, const char *name) {
  return (rm_mpi_handle)(uintptr_t)dlsym(library, name);
}

static void set_open_mpi(void *library, rm_mpi *mpi) {
  static const char *const types[13] = {
      "ompi_mpi_uint8_t", "ompi_mpi_int8_t", "ompi_mpi_int16_t", "ompi_mpi_int32_t",
      "ompi_mpi_int64_t", "ompi_mpi_uint8_t", "ompi_mpi_uint16_t", "ompi_mpi_uint32_t",
      "ompi_mpi_uint64_t", NULL, NULL, "ompi_mpi_float", "ompi_mpi_double"};
  for (int i = 0; i < 13; i++) {
    mpi->types[i] = types[i] == NULL ? 0 : address_in(library, types[i]);
  }
  mpi->world = address_in(library, "ompi_mpi_comm_world");
  mpi->sum = address_in(library, "ompi_mpi_op_sum");
  mpi->max = address_in(library, "ompi_mpi_op_max");
  mpi->min = address_in(library, "ompi_mpi_op_min");
  mpi->errors_return = address_in(library, "ompi_mpi_errors_return");
  mpi->blocks[0] = address_in(library, "ompi_mpi_byte");
  mpi->in_place = (void *)1;
  mpi->ignored_status = NULL;
  mpi->any_source = -1;
  mpi->thread_serialized = 2;
}

static void set_mpich(rm_mpi *mpi) {
  static const uint32_t types[13] = {0x4c00013b, 0x4c000137, 0x4c000238, 0x4c000439, 0x4c00083a,
                                     0x4c00013b, 0x4c00023c, 0x4c00043d, 0x4c00083e, 0,
                                     0,          0x4c00040a, 0x4c00080b};
  for (int i = 0; i < 13; i++) mpi->types[i] = types[i];
  mpi->world = 0x44000000;
  mpi->sum = 0x58000003;
  mpi->max = 0x58000001;
  mpi->min = 0x58000002;
  mpi->errors_return = 0x54000001;
  mpi->blocks[0] = 0x4c00010d;
  mpi->in_place = (void *)-1;
  mpi->ignored_status = (void *)1;
  mpi->any_source = -2;
  mpi->thread_serialized = 2;
}

static void set_standard(rm_mpi *mpi) {
  static const uint16_t types[13] = {0x241, 0x240, 0x248, 0x250, 0x258, 0x241, 0x249,
                                     0x251, 0x259, 0,     0,     0x210, 0x214};
  for (int i = 0; i < 13; i++) mpi->types[i] = types[i];
  mpi->world = 0x101;
  mpi->sum = 0x21;
  mpi->max = 0x23;
  mpi->min = 0x22;
  mpi->errors_return = 0x143;
  mpi->blocks[0] = 0x247;
  mpi->in_place = (void *)1;
  mpi->ignored_status = NULL;
  mpi->any_source = -1;
  mpi->thread_serialized = 2048;
}

/* The first line of the library's own text, without the copyright that follows. */
static void describe(rm_mpi *mpi) {
  static const char *const abis[] = {"standard ABI", "MPICH's ABI", "Open MPI's ABI"};
  char text[8192] = "";
  int length = 0;
  mpi->Get_library_version(text, &length);
  /* "MPICH Version: 5.0.2" and "Open MPI v5.0.11, package: ...". */
  const char *colon = strstr(text, "Version:");
  char name[80];
  if (colon != NULL) {
    colon += strlen("Version:") + strspn(colon + strlen("Version:"), " \t");
    snprintf(name, sizeof name, "MPICH %.*s", (int)strcspn(colon, "\n"), colon);
  } else {
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ",\n"), text);
  }
  snprintf(mpi->text, sizeof mpi->text, "%s, %s", name, abis[mpi->abi]);
}

int32_t rm_mpi_open(const rm_launcher *launcher, rm_mpi *to) {
  void *library = NULL;
  const int32_t status = find_library(launcher, &library);
  if (status != RM_OK) return status;
  to->library = library;
#define RM_MPI_FUNCTION(name, parameters) \
  *(void **)&to->name = dlsym(library, "MPI_" #name); \
  if (to->name == NULL) return rm_fail(RM_UNSUPPORTED, "the MPI library has no MPI_" #name);
#include "mpi_functions.def"
#undef RM_MPI_FUNCTION
  Dl_info found;
  to->path[0] = 0;
  if (dladdr(*(void **)&to->Init_thread, &found) != 0 && found.dli_fname != NULL) {
    snprintf(to->path, sizeof to->path, "%s", found.dli_fname);
  }
  int (*abi_version)(int *major, int *minor);
  *(void **)&abi_version = dlsym(library, "MPI_Abi_get_version");
  int major = -1, minor = -1;
  if (abi_version != NULL) abi_version(&major, &minor);
  if (major > 0) {
    to->abi = RM_MPI_STANDARD;
    set_standard(to);
  } else if (dlsym(library, "ompi_mpi_comm_self") != NULL) {
    to->abi = RM_MPI_OPEN_MPI;
    set_open_mpi(library, to);
  } else {
    to->abi = RM_MPI_MPICH;
    set_mpich(to);
  }
  describe(to);
  return RM_OK;
}

/* By its own text: later versions have the standard ABI. */
static bool is_open_mpi(const rm_mpi *mpi) { return strncmp(mpi->text, "Open MPI", 8) == 0; }

int32_t rm_mpi_check_launcher(const rm_launcher *launcher, const rm_mpi *mpi) {
  if (launcher->is_pmix && !is_open_mpi(mpi) && variable("OMPI_COMM_WORLD_SIZE") != NULL) {
    return rm_fail(RM_UNSUPPORTED,
                   "%s started this process, but the library is %s (%s), whose processes do not find "
                   "each other there: start it by the mpiexec of that library, or set ROWMAJOR_MPI",
                   launcher->name, mpi->text, mpi->path);
  }
  const char *descriptor = variable("PMI_FD");
  if (descriptor != NULL && fcntl(atoi(descriptor), F_GETFD) == -1) {
    return rm_fail(RM_UNSUPPORTED,
                   "the file descriptor %s, by which %s talks to this process, is not open: a wrapper "
                   "script has closed it; start the program of the runtime itself",
                   descriptor, launcher->name);
  }
  return RM_OK;
}

/* MPICH tells its launcher only when the process exits or the library is unloaded. Bun exits without
 * handlers, and the launcher then kills the ranks that are still alive. */
void rm_mpi_finalize(rm_mpi *mpi) {
  mpi->Finalize();
  if (!is_open_mpi(mpi)) dlclose(mpi->library);
}

int32_t rm_mpi_make_types(rm_mpi *mpi) {
  for (int i = 1; i < RM_MPI_SIZES; i++) {
    mpi->blocks[i] = 0;
    if (mpi->Type_contiguous(1 << i, mpi->blocks[0], &mpi->blocks[i]) != 0 ||
        mpi->Type_commit(&mpi->blocks[i]) != 0) {
      return rm_fail(RM_UNSUPPORTED, "MPI makes no type of %d bytes", 1 << i);
    }
  }
  return rm_mpi_make_operations(mpi);
}
#endif
