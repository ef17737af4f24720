"""The queues under torture, and the tables that say what became of each task.

A task is named by what identifies it for good: the name in its payload, or, in
the queue with unique keys, where a second enqueue may mean the first one's task,
by its id.  What has expired is in the queue's archive, and has ended so.
callbacks says which tasks wait for which others; they run whatever becomes of these.

The tasks of schedules are in queues of their own, which nobody truncates, and
are named by schedule and tick.
"""

import judge

GROUPS = ["g%d" % i for i in range(12)]
SUBGROUPS = ["u%d" % i for i in range(4)]

# Settings; how often it is chosen by producers and claimers.
QUEUES = {
    "plain": ("buckets => 4, max_attempts => 0, backoff_base => '0'", 3),
    "durable": ("buckets => 4, max_attempts => 0, backoff_base => '0', durable_leases => true", 3),
    "small": ("buckets => 2, max_attempts => 0, backoff_base => '0', max_ready => 100, max_ready_per_group => 15", 3),
    "keys": ("buckets => 2, max_attempts => 0, backoff_base => '0', keep_done => '1 h'", 2),
    "expiring": ("buckets => 2, max_attempts => 0, backoff_base => '0', keep_done => '1 year'", 2),
    "after": ("buckets => 2, max_attempts => 0, backoff_base => '0', max_ready_per_group => 30", 2),
    "users": ("buckets => 2, max_attempts => 0, backoff_base => '0', subgroups => true", 3),
    "dying": ("buckets => 1, max_attempts => 3, backoff_base => '100 ms', durable_leases => true", 1),
}
BY_ID = {"keys"}
DURABLE = {"durable", "dying"}
KEYS = ["key%d" % i for i in range(40)]
FOREVER = ["once%d" % i for i in range(10)]     # remembered for longer than the clock is ever ahead

# Two with all ticks, of which one may have a single task at a time.
SCHEDULES = {"all": "catch_up => 'all', overlap => true", "alone": "catch_up => 'all', overlap => false"}

TABLES = judge.TABLES + """
CREATE TABLE once (key text, ident text);
CREATE TABLE ticks (schedule text, tick timestamptz);
CREATE TABLE callbacks (n text, member text);
CREATE INDEX ON callbacks (n);
"""


def ident(queue, task, n):
    return str(task) if queue in BY_ID else n


def table(queue):
    return 'fairq."q_%s"' % queue


def ident_sql(queue):
    return "id::text" if queue in BY_ID else "payload->>'n'"


# How tasks end otherwise than in results and removed.
SOURCES = ["SELECT 'expiring', payload->>'n', 'expired' FROM fairq.done_expiring WHERE outcome = 'expired'"] + [
    judge.there(queue, ident_sql(queue)) for queue in QUEUES]


# Ticks that are done or there, and how often; then how many seconds from the first to the last have none.
TICKS = """
WITH t AS (SELECT schedule, tick FROM ticks
        UNION ALL SELECT headers->>'schedule', (headers->>'tick')::timestamptz FROM fairq.q_ticks),
    n AS (SELECT schedule, tick, count(*) AS n FROM t GROUP BY 1, 2)
SELECT schedule, array_agg(tick::text ORDER BY tick) FILTER (WHERE n > 1), count(*),
    extract(epoch FROM max(tick) - min(tick))::bigint + 1 - count(*)
FROM n GROUP BY 1 ORDER BY 1
"""


# The tasks that schedules say they have enqueued last, and that are neither there nor done.
LAST_TICKS = """
SELECT s.name, s.last_task FROM fairq.schedule s
WHERE s.queue = 'ticks' AND s.last_task IS NOT NULL
    AND NOT EXISTS (SELECT FROM fairq.q_ticks t WHERE t.id = s.last_task)
    AND NOT EXISTS (SELECT FROM fairq.done_ticks d WHERE d.id = s.last_task)
"""


def whole(conn):
    """What is not so at one moment; conn is in autocommit."""
    found = judge.Findings()
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        judge.compare(conn, SOURCES, found)
        compare(conn, found)
    return found


def compare(conn, found):
    """Schedules, and keys that are remembered."""
    for schedule, twice, _, _ in conn.execute(TICKS):
        found.doubled += ["schedule %s: the tick of %s" % (schedule, tick) for tick in twice or ()]
    for key, idents in conn.execute("SELECT key, string_agg(DISTINCT ident, ' and ') FROM once GROUP BY 1 HAVING count(DISTINCT ident) > 1"):
        found.doubled.append("key %s, which is remembered: tasks %s" % (key, idents))
    for schedule, task in conn.execute(LAST_TICKS):
        found.lost.append("schedule %s: its task %s" % (schedule, task))


def check(conn, found):
    """More of a run that is over, and its counts."""
    compare(conn, found)
    found.broken += ["the result of %s is %s" % (n, result) for n, result in conn.execute(
        "SELECT payload->>'n', result FROM fairq.done_expiring WHERE outcome = 'acked' AND result->>'of' IS DISTINCT FROM payload->>'n'"
        " AND result IS NOT NULL")]
    ticks = {schedule: (number, gaps) for schedule, _, number, gaps in conn.execute(TICKS)}
    found.counts.update({
        "expired": conn.execute("SELECT count(*) FROM fairq.done_expiring WHERE outcome = 'expired'").fetchone()[0],
        "results": conn.execute("SELECT count(result) FROM fairq.done_expiring").fetchone()[0],
        "calls with a key that is remembered for ever": conn.execute("SELECT count(*) FROM once").fetchone()[0],
        "run after all that they wait for": conn.execute(
            "SELECT count(DISTINCT n) FROM callbacks JOIN results ON queue = 'after' AND ident = n").fetchone()[0],
        "ticks of a schedule": ticks.get("all", (0, 0))[0],
        "seconds without a tick": ticks.get("all", (0, 0))[1],
    })
