/*
 * A lock for threads that wait for each other briefly. Starts as RM_LOCK_INIT.
 */
#ifndef ROWMAJOR_LOCK_H
#define ROWMAJOR_LOCK_H

#if defined(_WIN32)
#include <windows.h>
typedef SRWLOCK rm_lock;
#define RM_LOCK_INIT SRWLOCK_INIT
static inline void rm_acquire(rm_lock *lock) { AcquireSRWLockExclusive(lock); }
static inline void rm_release(rm_lock *lock) { ReleaseSRWLockExclusive(lock); }
#else
#include <pthread.h>
typedef pthread_mutex_t rm_lock;
#define RM_LOCK_INIT PTHREAD_MUTEX_INITIALIZER
static inline void rm_acquire(rm_lock *lock) { pthread_mutex_lock(lock); }
static inline void rm_release(rm_lock *lock) { pthread_mutex_unlock(lock); }
#endif

#endif
