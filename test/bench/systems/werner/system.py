from system import System


class Peer(System):
    title = "Werner's exactly-once queue: sessions, and buckets dealt out between them"
    ahead = {"enqueue": "enqueueing works out no place between the groups, and there is one index"}
    notes = ("no order between buckets, no fairness; a bucket with work waits for the one session that has it;"
             " measured with live sessions, heartbeats being rarer than measurements are long")

    def before(self, step, clients):
        if step.startswith("claim") or step == "cycle":
            self.cluster.sql("CALL bench_werner.deal(%d)" % min(clients, 64))
