import re

import npm
from measure import BenchError


class Peer(npm.NpmPeer):
    title = "Graphile Worker (Node), the SQL it sends"
    package = "graphile-worker@0.17.3"
    notes = ("in order of priority and time, no fairness; a lock lasts four hours; an ack is not checked against the holder."
             " Its own program is not in the time")

    def setup(self):
        made = self.statements()
        self.install(made["schema"])
        self.table = "graphile_worker._private_jobs"
        super().setup()
        tasks = self.cluster.sql("INSERT INTO graphile_worker._private_tasks (identifier) VALUES ('bench')"
                                 " RETURNING ARRAY[id]")[0][0]
        values = {"identifier => $1::text": "identifier => 'bench'", "payload => $2::json": "payload => {payload}"}
        add = made["add"]
        for old, new in values.items():
            if old not in add:
                raise BenchError("its statement has changed: there is no %s" % old)
            add = add.replace(old, new)
        add = re.sub(r"\$\d+::", "NULL::", add)
        many = made["addMany"].replace("$1::json", "({jobs})::json").replace("$2::boolean", "false")
        get, get_many = [made[name].replace("$1::text", "'bench'").replace("$2::int[]", "'%s'::int[]" % tasks)
                         for name in ("getOne", "getHundred")]
        # Its last UPDATE … RETURNING becomes a WITH query, so that an array comes back.
        head, last = get_many.rsplit("\n  update ", 1)
        last = last.replace("returning *", "returning jobs.*")
        collected = "%s, claimed AS (update %s) SELECT {result} FROM claimed" % (head, last)
        if collected.count("limit 100\n") != 1:
            raise BenchError("its statement has changed: there is no limit of 100")
        self.texts = {
            "ADD": add.replace("{payload}", "bench.payload()::json"),
            "ADD_100": many.replace("{jobs}", "bench_graphile.jobs(100)"),
            "GET_1": get,
            "GET_100": collected.replace("limit 100\n", "limit @BATCH@\n").replace(
                "{result}", "coalesce(array_agg(id), '{}') AS ids"),
            "COMPLETE_1": made["completeOne"].replace("$1", ":id"),
            "COMPLETE_100": made["completeMany"].replace("$1", ":ids"),
        }
        self.fill_statement = many.replace("{jobs}", "bench_graphile.jobs(1000)")
        self.driver = {
            "enqueue_one": add.replace("{payload}", "jsonb_build_object('p', $1::jsonb, 'g', $2::text)::json"),
            "claim": collected.replace("limit 100\n", "limit {n}\n").replace(
                "{result}", "id::text AS handle, payload->>'g' AS group_key"),
            "ack": made["completeMany"],
        }

    def substitutions(self):
        return getattr(self, "texts", {})

    def empty(self):
        self.cluster.sql("TRUNCATE graphile_worker._private_jobs, graphile_worker._private_job_queues")

    def fill(self, tasks, groups=1000, clients=1, batch=100):
        self.repeat((self.fill_statement, tasks // 1000), (self.texts["ADD"], tasks % 1000))
