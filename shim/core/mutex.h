/*
 * A mutex for short critical sections, and a condition to wait for with it. Initialise them with
 * RM_MUTEX_INIT and RM_CONDITION_INIT, or rm_condition_init. A wait may end without a signal.
 */
#ifndef ROWMAJOR_MUTEX_H
#define ROWMAJOR_MUTEX_H

#if defined(_WIN32)
#include <windows.h>
typedef SRWLOCK rm_mutex;
#define RM_MUTEX_INIT SRWLOCK_INIT
static inline void rm_mutex_lock(rm_mutex *mutex) { AcquireSRWLockExclusive(mutex); }
static inline void rm_mutex_unlock(rm_mutex *mutex) { ReleaseSRWLockExclusive(mutex); }
typedef CONDITION_VARIABLE rm_condition;
#define RM_CONDITION_INIT CONDITION_VARIABLE_INIT
static inline void rm_condition_init(rm_condition *condition) {
  InitializeConditionVariable(condition);
}
static inline void rm_condition_wait(rm_condition *condition, rm_mutex *mutex) {
  SleepConditionVariableSRW(condition, mutex, INFINITE, 0);
}
static inline void rm_condition_signal(rm_condition *condition) {
  WakeConditionVariable(condition);
}
static inline void rm_condition_broadcast(rm_condition *condition) {
  WakeAllConditionVariable(condition);
}
#else
#include <pthread.h>
typedef pthread_mutex_t rm_mutex;
#define RM_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
static inline void rm_mutex_lock(rm_mutex *mutex) { pthread_mutex_lock(mutex); }
static inline void rm_mutex_unlock(rm_mutex *mutex) { pthread_mutex_unlock(mutex); }
typedef pthread_cond_t rm_condition;
#define RM_CONDITION_INIT PTHREAD_COND_INITIALIZER
static inline void rm_condition_init(rm_condition *condition) {
  pthread_cond_init(condition, NULL);
}
static inline void rm_condition_wait(rm_condition *condition, rm_mutex *mutex) {
  pthread_cond_wait(condition, mutex);
}
static inline void rm_condition_signal(rm_condition *condition) {
  pthread_cond_signal(condition);
}
static inline void rm_condition_broadcast(rm_condition *condition) {
  pthread_cond_broadcast(condition);
}
#endif

#endif
