/*
 * A launcher that is ended just when it has registered a worker, and before the
 * postmaster knows of it; to be preloaded into a server.
 *
 * Who has registered a worker sends the postmaster a signal.  While the file named by
 * FAIRQ_LAUNCHER_DIES is there, the next who sends it one removes the file, and gets
 * the signal to end in place of it.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int
kill(pid_t pid, int signal)
{
	const char *file = getenv("FAIRQ_LAUNCHER_DIES");

	if (signal == SIGUSR1 && pid == getppid() && file != NULL && unlink(file) == 0)
		return raise(SIGTERM);
	return (int) syscall(SYS_kill, pid, signal);
}
