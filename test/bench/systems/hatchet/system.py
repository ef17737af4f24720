from system import System

ENQUEUE = """WITH place AS (
  INSERT INTO {schema}.task_group AS g (slot, group_key, block)
  VALUES (coalesce((SELECT max(slot) FROM {schema}.task_group), -1) + 1, {group},
          (SELECT assigned_block FROM {schema}.pointer))
  ON CONFLICT (group_key) DO UPDATE
  SET block = greatest(g.block + 1, (SELECT assigned_block FROM {schema}.pointer))
  RETURNING slot, block)
INSERT INTO {schema}.task (id, created_at, status, args, group_key)
SELECT slot + 1024 * 1024 * block, now(), 'queued', {payload}, {group} FROM place"""

CLAIM = """WITH eligible AS (
  SELECT id FROM {schema}.task WHERE status = 'queued' ORDER BY id LIMIT {n} FOR UPDATE SKIP LOCKED), claimed AS (
  UPDATE {schema}.task t SET status = 'running' FROM eligible e WHERE t.id = e.id RETURNING t.id, t.args, t.group_key)
SELECT {result} FROM claimed"""

POINTER = """WITH last AS (SELECT id FROM {schema}.task WHERE status <> 'queued' ORDER BY id DESC LIMIT 1)
UPDATE {schema}.pointer SET assigned_block = last.id / (1024 * 1024) FROM last"""


class Peer(System):
    title = "Hatchet's block address fair queue, as its article has it"
    fair = True
    notes = ("its enqueue locks the group's row until commit, and two new groups at a time fail; a claim looks at the"
             " whole backlog to find the highest assigned block; no leases: a task whose worker died stays as it is;"
             " finished tasks are kept. 100 with one call: 100 statements in a pipeline, groups in order so as not to deadlock")

    def __init__(self, name, bench):
        super().__init__(name, bench)
        # One statement each; the pointer is moved by the ack here, not with the claim.
        self.driver = {
            "enqueue_one": ENQUEUE.format(schema=self.schema, group="$2::text", payload="$1::jsonb"),
            "claim": CLAIM.format(schema=self.schema, n="{n}", result="id::text AS handle, group_key"),
            "ack": "UPDATE %s.task SET status = 'succeeded' WHERE id = ANY ($1::bigint[])" % self.schema,
        }

    def substitutions(self):
        one = {"schema": self.schema, "payload": "bench.payload()"}
        return {
            "ENQUEUE": ENQUEUE.format(group="('g' || :g)", **one),
            "ENQUEUE_100": "\n".join(ENQUEUE.format(group="('g' || (:g + %d))" % i, **one) + ";" for i in range(100)),
            "CLAIM_1": CLAIM.format(n=1, result="id, args", **one),
            "CLAIM_100": CLAIM.format(n="@BATCH@", result="coalesce(array_agg(id), '{}') AS ids", **one),
            "POINTER": POINTER.format(**one),
        }

    def tables(self):
        return [self.table, self.schema + ".task_group", self.schema + ".pointer"]

    def empty(self):
        self.cluster.sql("TRUNCATE %s" % ", ".join(self.tables()), "CALL %s.reset()" % self.schema)

    def fill(self, tasks, groups=1000, clients=1, batch=100):
        self.cluster.sql("CALL %s.fill(%d, %d)" % (self.schema, tasks, groups))

    def depth(self):
        return self.cluster.number("SELECT count(*) FROM %s WHERE status <> 'succeeded'" % self.table)
