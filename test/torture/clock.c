/*
 * The server's wall clock, ahead of the machine's or behind it by the seconds
 * that are in a file; preloaded into the server.
 *
 * libfaketime would not do: it does not fake while a process is in select(), and
 * what the postmaster starts from a signal handler meanwhile (PostgreSQL 15), the
 * background worker for one, keeps the machine's clock for good.  A server whose
 * processes do not agree on the time gives tasks out twice, and rightly so.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void
map_clock(void)
{
	const char *path = getenv("TORTURE_CLOCK");
	int			fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0)
	{
		void	   *map = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);

		if (map != MAP_FAILED)
			ahead = map;
		close(fd);
	}
}

int
clock_gettime(clockid_t clock, struct timespec *at)
{
	int			result = syscall(SYS_clock_gettime, clock, at);

	if (result == 0 && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		at->tv_sec += *ahead;
	return result;
}

int
gettimeofday(struct timeval *restrict at, void *restrict zone)
{
	struct timespec now;

	(void) zone;
	clock_gettime(CLOCK_REALTIME, &now);
	at->tv_sec = now.tv_sec;
	at->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *at)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (at)
		*at = now.tv_sec;
	return now.tv_sec;
}
