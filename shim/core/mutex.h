/*
 * A mutex for short critical sections. Initialise it with RM_MUTEX_INIT.
 */
#ifndef ROWMAJOR_MUTEX_H
#define ROWMAJOR_MUTEX_H

#if defined(_WIN32)
#include <windows.h>
typedef SRWLOCK rm_mutex;
#define RM_MUTEX_INIT SRWLOCK_INIT
static inline void rm_mutex_lock(rm_mutex *mutex) { AcquireSRWLockExclusive(mutex); }
static inline void rm_mutex_unlock(rm_mutex *mutex) { ReleaseSRWLockExclusive(mutex); }
#else
#include <pthread.h>
typedef pthread_mutex_t rm_mutex;
#define RM_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
static inline void rm_mutex_lock(rm_mutex *mutex) { pthread_mutex_lock(mutex); }
static inline void rm_mutex_unlock(rm_mutex *mutex) { pthread_mutex_unlock(mutex); }
#endif

#endif
