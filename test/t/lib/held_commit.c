/*
 * Commits that a test can hold up, to be loaded into a session (LOAD): while the file named
 * by FAIRQ_HOLD is there, a transaction that has committed for all to see does not go on to
 * what pgfairq owes for it.  It has made a file of the same name with ".held" when that is
 * so.
 *
 * Callbacks are called the last first, and pgfairq has registered its own at the start of
 * the server.
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xact.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static void
hold(XactEvent event, void *unused)
{
	const char *file = getenv("FAIRQ_HOLD");
	char		held[MAXPGPATH];
	int			fd;

	if (event != XACT_EVENT_COMMIT || file == NULL || access(file, F_OK) != 0)
		return;
	snprintf(held, sizeof(held), "%s.held", file);
	fd = open(held, O_CREAT | O_WRONLY, 0600);
	if (fd >= 0)
		close(fd);
	while (access(file, F_OK) == 0)
		usleep(1000);
}

void
_PG_init(void)
{
	RegisterXactCallback(hold, NULL);
}
