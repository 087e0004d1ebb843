/*
 * Paths, and the folders that are searched for NVIDIA's libraries.
 */
#ifndef ROWMAJOR_CUDA_SEARCH_H
#define ROWMAJOR_CUDA_SEARCH_H

#include <stdbool.h>

enum { RM_PATH_CAPACITY = 1024, RM_MAX_FOLDERS = 96 };

/* In search order. The system's own path is searched after the first rm_preferred_folders ones. The
 * first rm_named_folders ones were named by the user; only those are searched for a driver before
 * the system's own path. */
extern char *rm_folders[RM_MAX_FOLDERS];
extern int rm_folder_count, rm_named_folders, rm_preferred_folders;

/* Rebuilds the list. `folder`, which may be null, follows those of ROWMAJOR_CUDA_LIB_DIR. */
void rm_list_folders(const char *folder);

bool rm_file_exists(const char *path);

/* Replaces the separators of a path by those of the system. */
void rm_native_separators(char *path);

/* Cuts a path to its parent folder. */
void rm_parent_folder(char *path);

/* Calls visit for each existing path that matches a pattern. A star may end the name of a folder or
 * file. */
void rm_glob(const char *pattern, void (*visit)(const char *path));

#endif
