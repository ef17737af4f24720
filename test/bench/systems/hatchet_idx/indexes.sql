-- For the claim, and for the highest block that was assigned. The rest: ../hatchet
CREATE INDEX ON bench_hatchet_idx.task (id) WHERE status = 'queued';
CREATE INDEX ON bench_hatchet_idx.task (id DESC) WHERE status <> 'queued';
