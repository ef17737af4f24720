import npm


class Peer(npm.NpmPeer):
    title = "pg-boss (Node), the SQL it sends"
    package = "pg-boss@12.27.0"
    notes = ("in order of priority and time, no fairness; its fetch sorts all jobs that wait;"
             " completed jobs stay for as long as is set, here until the measurement is over. Its own program is not in the time")

    def setup(self):
        made = self.statements()
        self.install(made["schema"])
        self.table = made["table"]
        super().setup()
        claimed = "WITH claimed AS (%s) SELECT %s FROM claimed"
        complete = made["complete"].replace("$1", "'bench'").replace("$3::jsonb", "NULL::jsonb").strip()
        self.texts = {
            "ENQUEUE": made["insert"].replace("$1::json", "(bench_pgboss.jobs(1))::json").strip(),
            "ENQUEUE_100": made["insertMany"].replace("$1::json", "(bench_pgboss.jobs(100))::json").strip(),
            "FETCH_1": claimed % (made["fetchOne"].strip(), "id, data"),
            "FETCH_100": claimed % (made["fetchMany"].strip(), "coalesce(array_agg(id), '{}') AS ids"),
            "COMPLETE_1": complete.replace("$2::uuid[]", "ARRAY[:id::uuid]"),
            "COMPLETE_100": complete.replace("$2::uuid[]", ":ids::uuid[]"),
        }
        self.driver = {
            "enqueue_one": made["insertMany"].replace(
                "$1::json", "(json_build_array(json_build_object('data', $1::jsonb, 'groupId', $2::text)))::json"),
            "claim": claimed % (made["fetchSome"].strip(), "id::text AS handle, \"groupId\" AS group_key"),
            "ack": complete.replace("$2::uuid[]", "$1::uuid[]"),
        }

    def substitutions(self):
        return getattr(self, "texts", {})

    def fill(self, tasks, groups=1000, clients=1, batch=100):
        insert = self.texts["ENQUEUE_100"].replace("bench_pgboss.jobs(100)", "bench_pgboss.jobs(1000)")
        self.repeat((insert, tasks // 1000), (self.texts["ENQUEUE"], tasks % 1000))

    def depth(self):
        return self.cluster.number("SELECT count(*) FROM %s WHERE state < 'completed'" % self.table)
