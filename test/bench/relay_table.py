#!/usr/bin/env python3
"""Measures pgfairq-relay --from-table; see relay_table.sh."""

import argparse
import os
import statistics
import subprocess
import sys
import threading
import time

import psycopg

RELAY = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../clients/relay")
sys.path.insert(0, RELAY)
import table_relay  # noqa: E402

BATCHES = (1, 10, 100, 500, 2000)
RESULTS = table_relay.RESULT_BATCH
GROUPS = 100
WRITE = """
INSERT INTO fairq_relay.outbox (queue, payload, group_key, name, wants_result)
SELECT 'bench', jsonb_build_object('to', n || '@example.com', 'text', repeat('x', 60)), 'shop ' || n %% %s, 'send', %s FROM generate_series(1, %s) n
"""
DIRECT = """
SELECT fairq.enqueue_many('bench', array_agg(jsonb_build_object('to', n || '@example.com', 'text', repeat('x', 60))),
    group_keys => array_agg('shop ' || n %% %s), names => '{send}') FROM generate_series(1, %s) n
"""


def processor_time(pid):
    """Of a process, in seconds."""
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def connect(conninfo):
    return psycopg.connect(conninfo, autocommit=True)


class Bench:
    def __init__(self, options):
        self.options = options
        self.origin, self.target = connect(options.origin), connect(options.target)

    def relay(self, batch=500):
        return table_relay.TableRelay(argparse.Namespace(
            source=self.options.origin, to=self.options.target, batch=batch, remember="1 day", poll=1.0, timeout=60.0, once=True))

    def clean(self):
        self.target.execute("SELECT fairq.purge('bench')")
        self.target.execute("TRUNCATE fairq_relay.moved")
        self.target.execute("VACUUM fairq.q_bench")
        self.origin.execute("TRUNCATE fairq_relay.awaited, fairq_relay.inbox")
        for connection in (self.origin, self.target):
            connection.execute("CHECKPOINT")

    def carry_all(self, relay, left):
        """Until the relay has nothing to do, and the query says that nothing is left."""
        while relay.step() or self.origin.execute(left).fetchone()[0]:
            pass

    def measure(self, batch, rows, left):
        """Rows a second, and microseconds of a processor for a row: of the relay, of the origin, of the target. Until
        nothing is left, in the origin, of what a query counts."""
        relay = self.relay(batch)
        relay.open()
        pids = [connection.info.backend_pid for connection in (relay.origin, relay.target)]
        before = [time.process_time(), *map(processor_time, pids)]
        began = time.monotonic()
        self.carry_all(relay, left)
        took = time.monotonic() - began
        spent = [after - was for after, was in zip([time.process_time(), *map(processor_time, pids)], before)]
        relay.close("both")
        return [rows / took, *(1e6 * seconds / rows for seconds in spent)]

    def moved(self, batch, rows, wants_result=False):
        self.origin.execute(WRITE, (GROUPS, wants_result, rows))
        return self.measure(batch, rows, "SELECT count(*) FROM fairq_relay.outbox")

    def brought(self, rows):
        """Of tasks that are all done."""
        self.target.execute("SELECT count(*) FROM fairq.claim('bench', %s) c, fairq.ack(c.receipt, result => '{\"sent\": true}')", (rows,))
        return self.measure(500, rows, "SELECT count(*) FROM fairq_relay.awaited")

    def direct(self, batch, rows):
        began = time.monotonic()
        for _ in range(rows // batch):
            self.target.execute(DIRECT, (GROUPS, batch))
        return rows / (time.monotonic() - began)

    def rates(self):
        print("| | rows in a batch | rows a second | µs of a processor for a row: relay | origin | target |")
        print("|---|---:|---:|---:|---:|---:|")
        lines = {}
        for batch in BATCHES:
            rows = min(self.options.rows, max(200, 200 * batch))
            for _ in range(self.options.rounds):
                lines.setdefault(("rows moved", batch), []).append(self.moved(batch, rows))
                self.clean()
                if batch == 500:
                    lines.setdefault(("the same, which want a result", batch), []).append(self.moved(batch, rows, wants_result=True))
                    lines.setdefault(("their results brought", RESULTS), []).append(self.brought(rows))
                    self.clean()
                    lines.setdefault(("`enqueue_many` at the target, one client", batch), []).append([self.direct(batch, rows), 0, 0, 0])
                    self.clean()
        for (what, batch), measured in lines.items():
            rate, *spent = [statistics.median(column) for column in zip(*measured)]
            print("| %s | %d | %s | %s |" % (what, batch, "{:,.0f}".format(rate), " | ".join("%.0f" % one if one else "" for one in spent)))

    def latency(self, write, samples):
        """Milliseconds from the commit until a worker that waits has the task: median, 99 %."""
        times, sent, worker = [], {}, connect(self.options.target)

        def work():
            while len(times) < samples:
                for n, receipt in worker.execute("SELECT payload::text::int, receipt::text FROM fairq.claim('bench', 1, wait => '1 s')").fetchall():
                    times.append((time.monotonic() - sent[n]) * 1000)
                    worker.execute("SELECT fairq.ack(%s, result => '1')", (receipt,))

        thread = threading.Thread(target=work)
        thread.start()
        for n in range(samples):
            sent[n] = time.monotonic()      # a little more than from the commit
            write(n)
            while len(times) <= n:
                time.sleep(0.001)
            time.sleep(0.01)
        thread.join()
        worker.close()
        times.sort()
        return statistics.median(times), times[int(len(times) * 0.99)]

    def latencies(self):
        def outbox(n):
            self.origin.execute("INSERT INTO fairq_relay.outbox (queue, payload) VALUES ('bench', to_jsonb(%s::int))", (n,))

        def queue(n):
            self.target.execute("SELECT fairq.enqueue('bench', to_jsonb(%s::int))", (n,))

        print("| from the commit until a worker has the task, ms | median | 99 % |")
        print("|---|---:|---:|")
        samples = 100 * self.options.rounds
        print("| enqueued at the server with the queues | %.1f | %.1f |" % self.latency(queue, samples))
        for name, arguments in (("through the relay, told by `NOTIFY`", ()), ("through the relay, polling each 0.1 s", ("--poll", "0.1"))):
            self.origin.execute("ALTER TABLE fairq_relay.outbox %s TRIGGER notify" % ("DISABLE" if arguments else "ENABLE"))
            relay = subprocess.Popen([sys.executable, os.path.join(RELAY, "pgfairq-relay"), "--from-table", "--from", self.options.origin,
                                      "--to", self.options.target, *arguments])
            try:
                outbox(0)
                while self.origin.execute("SELECT count(*) FROM fairq_relay.outbox").fetchone()[0]:
                    time.sleep(0.01)
                self.clean()
                print("| %s | %.1f | %.1f |" % (name, *self.latency(outbox, samples)))
                if not arguments:
                    back = self.way_back(samples // 3)
            finally:
                relay.terminate()
                relay.wait()
        print("| from the ack until the result is in the inbox | %.1f | %.1f |" % back)
        self.origin.execute("ALTER TABLE fairq_relay.outbox ENABLE TRIGGER notify")
        self.clean()

    def way_back(self, samples):
        times = []
        for _ in range(samples):
            self.origin.execute("INSERT INTO fairq_relay.outbox (queue, payload, wants_result) VALUES ('bench', '1', true)")
            receipt, = self.target.execute("SELECT receipt::text FROM fairq.claim('bench', 1, wait => '10 s')").fetchone()
            self.target.execute("SELECT fairq.ack(%s, result => '1')", (receipt,))
            began = time.monotonic()
            while not self.origin.execute("DELETE FROM fairq_relay.inbox RETURNING id").fetchone():
                pass
            times.append((time.monotonic() - began) * 1000)
        times.sort()
        return statistics.median(times), times[int(len(times) * 0.99)]

    def held(self):
        """Rows a second, and the time of a look, while removed rows stay."""
        print("| rows removed since a snapshot of the origin is held | moved a second | one row, ms |")
        print("|---:|---:|---:|")
        holder, removed = psycopg.connect(self.options.origin), 0
        self.origin.execute("VACUUM fairq_relay.outbox")
        relay = self.relay()
        relay.step()
        for step in range(6):
            if step == 1:
                holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                holder.execute("SELECT count(*) FROM fairq_relay.outbox")
            self.origin.execute(WRITE, (GROUPS, False, self.options.rows))
            began = time.monotonic()
            self.carry_all(relay, "SELECT EXISTS (SELECT FROM fairq_relay.outbox)")
            rate = self.options.rows / (time.monotonic() - began)
            single = []
            for _ in range(20):
                self.origin.execute(WRITE, (GROUPS, False, 1))
                began = time.monotonic()
                relay.step()
                single.append((time.monotonic() - began) * 1000)
            print("| {} | {:,.0f} | {:.1f} |".format("none" if step == 0 else "{:,}".format(removed), rate, statistics.median(single)))
            if step:
                removed += self.options.rows
            self.clean()
        relay.close("both")
        holder.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--origin", "--target"):
        parser.add_argument(name, required=True)
    for name in ("--rounds", "--rows"):
        parser.add_argument(name, type=int, required=True)
    bench = Bench(parser.parse_args())
    bench.rates()
    print()
    bench.latencies()
    print()
    bench.held()


if __name__ == "__main__":
    main()
