/*
 * A wall clock that a test can set, to be preloaded into a server: off by the
 * microseconds that the file named by FAIRQ_CLOCK says, for all its processes at once.
 * The other clocks are as they are.
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

static volatile int64_t *offset;

__attribute__((constructor)) static void
begin(void)
{
	const char *name = getenv("FAIRQ_CLOCK");
	int			file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return;
	offset = mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, file, 0);
	if (offset == MAP_FAILED)
		offset = NULL;
	close(file);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	int			result = syscall(SYS_clock_gettime, clock, now);

	if (result == 0 && offset != NULL && clock == CLOCK_REALTIME)
	{
		int64_t		usecs = now->tv_nsec / 1000 + *offset % 1000000;

		now->tv_sec += *offset / 1000000 + (usecs >= 1000000) - (usecs < 0);
		now->tv_nsec = (usecs + 1000000) % 1000000 * 1000;
	}
	return result;
}

int
gettimeofday(struct timeval *now, void *zone)
{
	struct timespec at;

	(void) zone;
	if (clock_gettime(CLOCK_REALTIME, &at) != 0)
		return -1;
	now->tv_sec = at.tv_sec;
	now->tv_usec = at.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *result)
{
	struct timespec at;

	if (clock_gettime(CLOCK_REALTIME, &at) != 0)
		return -1;
	if (result != NULL)
		*result = at.tv_sec;
	return at.tv_sec;
}
