/*
 * Reads of a file that a test can hold up, to be preloaded into a server: while the file
 * named by FAIRQ_HOLD says "PID SKIP PATH", that process (0: any) does not come back from
 * its reads of the file whose name ends with PATH, after the first SKIP of them.  It has
 * written its PID into a file of the same name with ".held" when that is so.  If there is
 * one with ".fails" when it goes on, the read fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int	seen;				/* reads while it was so */

static int
asked(const char *hold, int fd)
{
	char		link[64];
	char		name[4096];
	char		path[4096];
	int			pid;
	int			skip;
	ssize_t		n;
	FILE	   *file = fopen(hold, "re");
	int			fields;

	if (file == NULL)
		return 0;
	fields = fscanf(file, "%d %d %4095s", &pid, &skip, path);
	fclose(file);
	if (fields != 3 || (pid != 0 && pid != getpid()))
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof(name) - 1);
	if (n < (ssize_t) strlen(path))
		return 0;
	name[n] = '\0';
	return strcmp(name + n - strlen(path), path) == 0 && seen++ >= skip;
}

/* Returns whether the read fails. */
static int
wait_if_held(int fd)
{
	const char *hold = getenv("FAIRQ_HOLD");
	char		held[4096];
	FILE	   *file;

	if (hold == NULL || access(hold, F_OK) != 0 || !asked(hold, fd))
		return 0;
	snprintf(held, sizeof(held), "%s.held", hold);
	file = fopen(held, "we");
	if (file != NULL)
	{
		fprintf(file, "%d\n", (int) getpid());
		fclose(file);
	}
	while (access(hold, F_OK) == 0)
		usleep(1000);
	snprintf(held, sizeof(held), "%s.fails", hold);
	return access(held, F_OK) == 0;
}

#define READ(name, buffer, size) \
ssize_t \
name(int fd, buffer, size, off_t at) \
{ \
	static ssize_t (*next) (int, buffer, size, off_t); \
 \
	if (next == NULL) \
		*(void **) &next = dlsym(RTLD_NEXT, #name); \
	if (wait_if_held(fd)) \
	{ \
		errno = EIO; \
		return -1; \
	} \
	return next(fd, what, n, at); \
}

READ(pread, void *what, size_t n)
READ(pread64, void *what, size_t n)
READ(preadv, const struct iovec *what, int n)
READ(preadv64, const struct iovec *what, int n)
