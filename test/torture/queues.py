"""The queues under torture, and the tables that say what became of each task.

A task is named by what identifies it for good: the name in its payload, or, in
the queue with unique keys, where a second enqueue may mean the first one's task,
by its id.  produced, results and removed have no unique index: a double must
show, not be prevented.  What has expired is in the queue's archive, and has ended so.
callbacks says which tasks wait for which others; they run whatever becomes of these.

The tasks of schedules are in queues of their own, which nobody truncates, and
are named by schedule and tick.
"""

LEASE = 4.0         # seconds, of claims without a session
TTL = 3.0           # seconds, of sessions

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

TABLES = """
CREATE TABLE produced (queue text, ident text, n text);
CREATE TABLE results (queue text, ident text, receipt uuid, client text, x int);
CREATE TABLE removed (queue text, ident text, how text);
CREATE TABLE once (key text, ident text);
CREATE TABLE ticks (schedule text, tick timestamptz);
CREATE TABLE callbacks (n text, member text);
CREATE INDEX ON callbacks (n);
CREATE INDEX ON results (ident);
CREATE INDEX ON removed (ident);
"""


def ident(queue, task, n):
    return str(task) if queue in BY_ID else n


def table(queue):
    return 'fairq."q_%s"' % queue


def ident_sql(queue):
    return "id::text" if queue in BY_ID else "payload->>'n'"


# Each task that was produced has ended once, or is there once.
JUDGE = """
WITH p AS (SELECT DISTINCT queue, ident FROM produced),
    fate AS (
        SELECT queue, ident, 'acked' AS how FROM results
        UNION ALL SELECT queue, ident, how FROM removed
        UNION ALL SELECT 'expiring', payload->>'n', 'expired' FROM fairq.done_expiring WHERE outcome = 'expired'
        %s),
    fates AS (SELECT queue, ident, count(*) AS n, string_agg(how, ' and ' ORDER BY how) AS how FROM fate GROUP BY 1, 2)
SELECT queue, ident, p.ident IS NOT NULL AS known, coalesce(n, 0) AS n, how
FROM p FULL JOIN fates USING (queue, ident)
WHERE p.ident IS NULL OR n IS DISTINCT FROM 1
""" % "".join(" UNION ALL SELECT '%s', %s, 'there' FROM %s" % (q, ident_sql(q), table(q)) for q in QUEUES)


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


def judge(conn):
    """(lost, doubled, from nowhere) at one moment; conn is in autocommit."""
    lost, doubled, nowhere = [], [], []
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        for schedule, twice, _, _ in conn.execute(TICKS):
            doubled += ["schedule %s: the tick of %s" % (schedule, tick) for tick in twice or ()]
        for key, idents in conn.execute("SELECT key, string_agg(DISTINCT ident, ' and ') FROM once GROUP BY 1 HAVING count(DISTINCT ident) > 1"):
            doubled.append("key %s, which is remembered: tasks %s" % (key, idents))
        for schedule, task in conn.execute(LAST_TICKS):
            lost.append("schedule %s: its task %s" % (schedule, task))
        for queue, name, known, number, how in conn.execute(JUDGE):
            if not known:
                nowhere.append("%s %s: %s, but no enqueue of it committed" % (queue, name, how))
            elif number == 0:
                lost.append("%s %s" % (queue, name))
            else:
                doubled.append("%s %s: %s" % (queue, name, how))
    return lost, doubled, nowhere
