/*
 * Paths, and the folders in which NVIDIA's libraries are looked for.
 */
#ifndef ROWMAJOR_CUDA_SEARCH_H
#define ROWMAJOR_CUDA_SEARCH_H

#include <stdbool.h>

enum { RM_PATH_ROOM = 1024, RM_MOST_FOLDERS = 96 };

/* In order; those from the last folder on come after the system's own search. The first named ones are
 * those that somebody named, the only ones in which a driver is looked for before the system does. */
extern char *rm_folders[RM_MOST_FOLDERS];
extern int rm_folder_count, rm_named_folders, rm_last_folder;

/* Makes the list anew; folder, which may be null, comes after those of ROWMAJOR_CUDA_LIB_DIR. */
void rm_list_folders(const char *folder);

bool rm_file_exists(const char *path);

/* Writes a path as this system does. */
void rm_own_separators(char *path);

/* Cuts a path to the folder that the file lies in. */
void rm_to_folder(char *path);

/* Calls visit for each path that is there and fits a pattern; a star ends a folder's or file's
 * name. */
void rm_each_path(const char *pattern, void (*visit)(const char *path));

#endif
