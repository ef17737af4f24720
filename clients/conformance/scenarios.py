"""What the adversary does, promise by promise; clients/conformance.md says it in words.

A scenario takes a stage and the word that doc/clients.md has for the library. The words that
it knows are those of its decorator; "yes" is what the promise says.

Seen to fail, with guards taken out of the Python library, or of another that is named:
- P1, P12, P14: a session that is not bound to its connection (tasks stay with the killed
  worker); P1, P3, P5: the handler's connection without a transaction
- P2: a commit whatever fairq.ack has answered; asyncio, too
- P3, P5, P15: a connection that is lost ends the worker
- P4: handlers are given no time to end
- P6: no heartbeats; Celery, too
- P7: each failure is final, and a backoff of nothing; P8: Unrecoverable as any other error
- P9: enqueue() takes no heed of `connection`; P10: nor of `unique_key`
- P11: claims without a lock_timeout; Go's acknowledgement with a time of its own, and Ruby's claims
  without a lock_timeout, as they were before
- P13: 100 tasks claimed ahead, from the first on; Alice's task in Bob's group
- P14: the result is not told
- P16: a snooze is a failure
- P17: asyncio with a session that lives for an hour
"""

import json

import part_server
from adversary import PATIENCE, QUEUE, Doorman

YES, AT_LEAST_ONCE, BY_RETRIES, AT_ONCE = "yes", "at least once", "by retries", "at once"
IN_SQL, ITS_END = "in SQL", "its end, in SQL"
SCENARIOS = {}


class Scenario:
    def __init__(self, name, title, words, alone, function):
        self.name, self.title, self.words, self.alone, self.function = name, title, words, alone, function


def promise(name, title, *words, alone=False):
    """alone: it stops the server."""
    def register(function):
        SCENARIOS[name] = Scenario(name, title, (YES, *words), alone, function)
        return function
    return register


def task(do, key, **payload):
    return {"do": do, "key": key, **payload}


def keys(first, count):
    return [f"{first} {number}" for number in range(1, count + 1)]


def judge(stage, expected, dead=0):
    """Every task has ended as it should, and nothing has been done that should not."""
    stage.wait(lambda: f"all is done; there are {stage.tasks()}, and effects {dict(stage.effects())}",
               lambda: set(expected) <= set(stage.effects()) and stage.tasks() == ({"dead": dead} if dead else {}))
    stage.wait(lambda: f"no lease is left: {stage.sql('SELECT * FROM fairq.leases')}", lambda: stage.sql("SELECT FROM fairq.leases") == [])
    effects = stage.effects()
    assert set(effects) == set(expected), f"effects of {sorted(set(effects) - set(expected))}"
    twice = sorted(key for key, count in effects.items() if count > 1)
    assert not twice or not stage.exact, f"done more than once: {twice}"


@promise("P1", "kill -9 of a worker: its tasks run again at once, each effect once", AT_LEAST_ONCE)
def kill_nine(stage):
    stage.make_queue()
    held, others = keys("held", 2), keys("other", 4)
    first = stage.worker()
    stage.enqueue(*(task("effect", key, hold=stage.gate()) for key in held + others))
    stage.wait_written(*held)
    begun = stage.started()
    second = stage.worker()
    stage.wait_sessions(2)
    first.kill()
    stage.open(stage.gate())
    judge(stage, held + others)
    assert all(stage.started(key) == 2 for key in begun), f"begun: {stage.started()}"
    assert stage.exact or max(stage.effects().values()) == 2, "each effect came once: the table may say yes"
    second.end()


@promise("P2", "a worker that hangs past its lease: another does its tasks, each effect once; it goes on when it wakes", AT_LEAST_ONCE)
def stopped(stage):
    stage.make_queue()
    held = keys("held", 2)
    first = stage.worker(lease=2)
    stage.enqueue(*(task("effect", key, hold=stage.gate()) for key in held))
    stage.wait_written(*held)
    first.signal(part_server.signal.SIGSTOP)
    second = stage.worker()
    stage.wait_started(4)
    stage.open(stage.gate())
    stage.wait_effects(*held)
    stage.wait("the second worker's acknowledgements", lambda: stage.tasks() == {})
    second.end()
    first.signal(part_server.signal.SIGCONT)
    stage.enqueue(task("effect", "later"))
    judge(stage, [*held, "later"])
    first.end()


@promise("P3", "the server crashes, and restarts: the worker goes on by itself, each effect once", AT_LEAST_ONCE, alone=True)
def restarted(stage):
    stage.make_queue()
    worker = stage.worker(concurrency=4)
    done = []
    for mode in ("immediate", "fast"):
        gate, held, others = stage.gate(mode), keys(f"held, {mode}", 2), keys(f"other, {mode}", 20)
        stage.enqueue(*(task("effect", key, hold=gate) for key in held))
        stage.wait_written(*held)
        stage.enqueue(*(task("effect", key, ms=20) for key in others))
        stage.wait_effects(*others[:5])
        part_server.restart(mode)
        stage.open(gate)
        done += held + others
        judge(stage, done)
    worker.end()


@promise("P4", "SIGTERM: what runs is finished, the rest can be claimed at once, exit status 0")
def terminated(stage):
    stage.make_queue()
    held, others = keys("held", 2), keys("other", 200)
    worker = stage.worker()
    stage.enqueue(*(task("effect", key, until=stage.gate()) for key in held))
    stage.wait_started(2)
    stage.enqueue(*(task("plain", key, ms=100) for key in others))
    worker.terminate()
    stage.open(stage.gate())
    assert worker.exit_status() == 0, f"exit status {worker.process.returncode}: {worker.read('err')}"
    begun, effects = stage.started(), stage.effects()
    assert sorted(begun) == sorted(effects.elements()), f"begun {begun}, done {effects}"
    assert set(held) <= set(effects), f"done: {effects}"
    left = stage.sql("SELECT state, attempts, lost, count(*) FROM fairq.tasks(%s) GROUP BY 1, 2, 3", QUEUE)
    # a worker that went on would have done all of them in the time that it may take to finish
    assert left == [("ready", 0, 0, 202 - len(effects))] and len(effects) < 102, f"left: {left}"
    assert stage.sql("SELECT FROM fairq.sessions") == [], "its session is there yet"


@promise("P5", "its connections are terminated, again and again: it goes on, each effect once", AT_LEAST_ONCE)
def cut_off(stage):
    stage.make_queue()
    worker = stage.worker(concurrency=4)
    rounds = [(stage.gate(str(number)), keys(f"round {number}", 4)) for number in range(1, 6)]
    stage.enqueue(*(task("effect", key, hold=gate) for gate, held in rounds for key in held))
    for gate, held in rounds:
        stage.wait_written(*held)
        stage.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                  "AND backend_type = 'client backend' AND pid <> pg_backend_pid()")
        stage.open(gate)
        stage.wait_effects(*held)
    judge(stage, [key for _, held in rounds for key in held])
    worker.end()


@promise("P6", "a handler that takes longer than the lease keeps it, whether it waits or computes")
def long_handlers(stage):
    stage.make_queue()
    worker = stage.worker(lease=5)
    stage.enqueue(task("effect", "waits", ms=12000), task("compute", "computes", ms=12000))
    stage.wait_started(2)
    other = stage.worker()
    stage.wait_sessions(2)
    judge(stage, ["waits", "computes"])
    assert sorted(stage.started()) == ["computes", "waits"], f"begun: {stage.started()}"
    other.end()
    worker.end()


def began_at(stage, key):
    return [at for at, in stage.sql("SELECT at FROM conformance.started WHERE key = %s ORDER BY at", key)]


@promise("P7", "what fails is tried again, later each time, then is dead with its error", BY_RETRIES)
def failing(stage):
    stage.make_queue(max_attempts=3, backoff_base="1 s", backoff_jitter=0)
    worker = stage.worker()
    stage.enqueue(task("fail", "letter", message="no such address", attempts=3), task("effect", "other"))
    judge(stage, ["other"], dead=1)
    assert stage.started("letter") == 3, f"begun: {stage.started()}"
    first, second, third = began_at(stage, "letter")
    pauses = [(second - first).total_seconds(), (third - second).total_seconds()]
    assert pauses[0] >= 1 and pauses[1] >= 2, f"pauses: {pauses}"
    [(error, attempts, _)] = stage.dead()
    assert "no such address" in error, f"its error is {error!r}"
    assert attempts == 3 or stage.word == BY_RETRIES, f"{attempts} attempts are counted"
    worker.end()


@promise("P8", "an error that no other attempt would mend: dead after the first, with its text")
def final_error(stage):
    stage.make_queue()
    worker = stage.worker()
    stage.enqueue(task("final", "letter", message="no such country"), task("effect", "other"))
    judge(stage, ["other"], dead=1)
    assert stage.started("letter") == 1, f"begun: {stage.started()}"
    [(error, _, _)] = stage.dead()
    assert "no such country" in error, f"its error is {error!r}"
    worker.end()


@promise("P9", "a task that is enqueued in the application's transaction is there if that commits, and only then", IN_SQL)
def transactions(stage):
    stage.make_queue()
    worker = stage.worker()
    for end in ("rollback", "commit"):
        stage.subject("transact", QUEUE, end).finish([task("effect", f"{end} {number}") for number in (1, 2)])
    judge(stage, keys("commit", 2))
    assert sorted(stage.started()) == keys("commit", 2), f"begun: {stage.started()}"
    orders = stage.sql("SELECT key FROM conformance.orders ORDER BY key")
    assert orders == [("commit 1",), ("commit 2",)], f"orders: {orders}"
    worker.end()


@promise("P10", "a unique key has one task that waits, and a later one when that is done", IN_SQL)
def unique_keys(stage):
    stage.make_queue()
    for key in ("first", "second"):
        stage.enqueue(task("effect", key, of={"unique_key": "invoice 7"}))
    stage.enqueue(task("effect", "other", of={"unique_key": "invoice 8"}))
    assert stage.tasks() == {"ready": 2}, f"tasks: {stage.tasks()}"
    worker = stage.worker()
    judge(stage, ["first", "other"])
    stage.enqueue(task("effect", "third", of={"unique_key": "invoice 7"}))
    judge(stage, ["first", "other", "third"])
    worker.end()


@promise("P11", "the queue's table is locked for longer than the lease: the worker keeps what it has, each effect once", AT_LEAST_ONCE)
def locked(stage):
    stage.make_queue()
    worker = stage.worker(concurrency=4, lease=5)   # two handlers are free, so it claims all the time
    held, others = keys("held", 2), keys("other", 4)
    stage.enqueue(*(task("effect", key, until=stage.gate()) for key in held))
    stage.wait_started(2)
    relation = stage.one("SELECT relation::text FROM fairq.queues")
    with part_server.psycopg.connect(part_server.conninfo(stage.database)) as locker:
        locker.execute(f"LOCK TABLE {relation} IN ACCESS EXCLUSIVE MODE")
        stage.open(stage.gate())
        locker.execute("SELECT pg_sleep(15)")   # three leases: this is what is done to it
    judge(stage, held)
    twice = [key for key in held if stage.started(key) > 1]
    assert not twice or not stage.exact, f"begun again, since their lease was lost: {twice}"
    stage.enqueue(*(task("effect", key) for key in others))
    judge(stage, held + others)
    worker.end()


@promise("P12", "a task that kills its worker is dead after max_lost of them, and the others are done")
def poison(stage):
    stage.make_queue(max_lost=3)
    others = keys("other", 10)
    stage.enqueue(task("poison", "poison"), *(task("effect", key, ms=50) for key in others))
    worker = stage.worker(concurrency=4)

    def worked():
        nonlocal worker
        if not worker.lives:
            worker.kill()
            worker = stage.worker(concurrency=4)
        return stage.tasks() == {"dead": 1}

    stage.wait(lambda: f"the others are done: {stage.tasks()}", worked)
    judge(stage, others, dead=1)
    [(error, attempts, lost)] = stage.dead()
    assert (stage.started("poison"), attempts, lost) == (3, 0, 3), f"begun: {stage.started()}, lost {lost} times: {error}"
    worker.end()


@promise("P13", "a newcomer does not wait for another tenant's backlog")
def newcomer(stage):
    stage.make_queue()
    bob = keys("Bob", 500)
    # two are held, and the worker may have claimed a few; all others wait until hers is done
    gates = {key: stage.gate("held" if number < 10 else "rest") for number, key in enumerate(bob)}
    stage.enqueue(*(task("plain", key, until=gates[key], of={"group": "Bob"}) for key in bob))
    worker = stage.worker()
    stage.wait_started(2)
    stage.enqueue(task("plain", "Alice", of={"group": "Alice"}))
    stage.open(stage.gate("held"))
    stage.wait_effects("Alice")
    stage.open(stage.gate("rest"))
    worker.end()


@promise("P14", "a result is awaited across the kill of its worker, and a failure is told", ITS_END)
def awaited(stage):
    stage.make_queue(max_attempts=1)
    first = stage.worker()
    waiting = stage.subject("await", QUEUE, TIMEOUT=PATIENCE)
    waiting.give([task("effect", "answer", until=stage.gate())])
    stage.wait_started(1)
    second = stage.worker()
    stage.wait_sessions(2)
    first.kill()
    stage.open(stage.gate())
    answer = json.loads(waiting.result())
    assert answer == ({"ended": "acked"} if stage.word == ITS_END else {"key": "answer"}), f"the result is {answer}"
    waiting = stage.subject("await", QUEUE, TIMEOUT=PATIENCE)
    answer = json.loads(waiting.finish([task("fail", "letter", message="no such address", attempts=1)]))
    assert "no such address" in answer.get("failed", ""), f"the failure is told as {answer}"
    judge(stage, ["answer"], dead=1)
    second.end()


@promise("P15", "a worker that is there before the server waits for it", alone=True)
def early(stage):
    stage.make_queue()
    stage.enqueue(task("effect", "waiting"))
    part_server.stop("fast")
    doorman = Doorman()
    try:
        worker = stage.worker()
        for visit in ("first", "second"):
            stage.wait(f"its {visit} attempt to connect", lambda: doorman.has_visitor() or not worker.lives)
            assert worker.lives, f"it has ended with {worker.process.returncode}: {worker.read('err')}"
    finally:
        doorman.leave()
        part_server.start()
    judge(stage, ["waiting"])
    worker.end()


@promise("P16", "a snooze: the task comes again after its delay, and no attempt is counted", AT_ONCE, BY_RETRIES)
def snoozed(stage):
    stage.make_queue(max_attempts=1)
    worker = stage.worker()
    stage.enqueue(task("snooze", "later", ms=1000))
    judge(stage, ["later"])
    first, second = began_at(stage, "later")
    assert (second - first).total_seconds() >= 1 or stage.word == AT_ONCE, f"it came again after {second - first}"
    counted = stage.sql("SELECT attempts, coalesce(lost, 0) FROM fairq.done_tasks")
    assert counted == [(1, 0)] * (2 if stage.word == BY_RETRIES else 1), f"attempts and losses: {counted}"
    worker.end()


@promise("P17", "a handler that blocks its worker keeps no task from other workers, and its worker goes on afterwards")
def blocked(stage):
    stage.make_queue()
    others = keys("other", 10)
    first, producer = stage.worker(lease=10), stage.subject("enqueue", QUEUE)
    stage.enqueue(task("block", "block", until=stage.gate()))
    stage.wait_started(1)
    producer.finish([task("effect", key) for key in others])    # one of them goes to a claim of the first that waits
    before = stage.sessions()
    second = stage.worker()
    stage.wait("another session", lambda: stage.sessions() - before)
    stage.wait_effects(*others)
    second.end()
    stage.open(stage.gate())
    stage.enqueue(task("effect", "later"))
    judge(stage, ["block", *others, "later"])
    first.end()
