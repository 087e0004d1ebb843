/* One handler of faults for all copies of the emulator in a process; a library of its own. */
#include <signal.h>

/* Is called for a fault, and returns when that is none of its business. */
typedef void (*fault_handler)(int signal, siginfo_t *info, void *context);

/* Sees to it that faults are handled from now on, by all that ever asked. */
void emu_faults_watch(fault_handler handler);
