"""Results in a table. Who waits for one is told when it is there; nothing polls.

Not in done tasks of the queue: Celery acknowledges a task when it begins, or some other process does
when it has ended, and a task has states besides.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Iterable, Iterator, Optional

from celery import states
from celery.backends.base import KeyValueStoreBackend
from celery.exceptions import ImproperlyConfigured, TimeoutError
from celery.utils.log import get_logger
from kombu.utils.encoding import bytes_to_str

from . import address
from .database import Begun, Database
from .errors import ConnectionLost, Refused
from .waiting import CHANNEL, Waiting, name_of, waiting_of

logger = get_logger(__name__)

CREATE = """
SELECT pg_advisory_xact_lock(hashtext('fairq celery results'));
CREATE TABLE IF NOT EXISTS {table} (
    key text PRIMARY KEY, value bytea, succeeded boolean NOT NULL DEFAULT false, awaited boolean NOT NULL DEFAULT false,
    counter bigint NOT NULL DEFAULT 0, expires_at timestamptz);
CREATE INDEX IF NOT EXISTS {index} ON {table} (expires_at)
"""

# Said on the way: how long the statement waits for a row, while the other threads wait for the
# connection. Not in a statement of its own, which a pooler may give another connection.
EXPIRES_AT = """
CASE WHEN set_config('lock_timeout', '500ms', true) <> ''
    THEN now() + make_interval(secs => %(expires)s) END
""".strip()

# A row lock puts the two in an order: either the store sees that the result is awaited, or the
# waiter sees the result.
STORE = """
WITH stored AS (
    INSERT INTO {table} AS r (key, value, succeeded, expires_at)
    VALUES (%(key)s, %(value)s, %(succeeded)s, {expires_at})
    ON CONFLICT (key) DO UPDATE SET value = excluded.value, succeeded = excluded.succeeded, expires_at = excluded.expires_at
    WHERE NOT (r.succeeded AND %(once)s)
    RETURNING awaited)
SELECT pg_notify(%(channel)s, %(name)s) FROM stored WHERE awaited
"""
AWAIT = """
INSERT INTO {table} AS r (key, awaited, expires_at)
SELECT key, true, {expires_at} FROM unnest(%(keys)s::text[]) key ORDER BY key
ON CONFLICT (key) DO UPDATE SET awaited = true
RETURNING key, value
"""
GET = "SELECT key, value FROM {table} WHERE key = ANY(%s) AND (expires_at IS NULL OR expires_at > now())"
DELETE = "DELETE FROM {table} WHERE key = %s"
COUNT = """
WITH counted AS (
    INSERT INTO {table} AS r (key, counter, expires_at) VALUES (%(key)s, 1, {expires_at})
    ON CONFLICT (key) DO UPDATE SET counter = r.counter + 1
    RETURNING counter)
SELECT counter FROM counted
"""
EXPIRE = "UPDATE {table} SET expires_at = now() + make_interval(secs => %s) WHERE key = %s"
CLEAN = "DELETE FROM {table} WHERE expires_at < now()"

LOCKED = "55P03"

OPTIONS = {"table", "retry_policy", "global_keyprefix"}


class Backend(KeyValueStoreBackend):
    """result_backend = "fairq://user@host/database" """

    supports_native_join = True
    implements_incr = True
    key_t = staticmethod(bytes_to_str)

    def __init__(self, app: Any, url: Optional[str] = None, **kwargs: Any) -> None:
        super().__init__(app, url=url, expires_type=int, **kwargs)
        options = app.conf.get("result_backend_transport_options") or {}
        for name in sorted(set(options) - OPTIONS):
            logger.warning("result_backend_transport_options has %r, which has no effect", name)
        self._policy = {**self.retry_policy, **options.get("retry_policy", {})}
        names = str(options.get("table", "celery_result")).split(".")
        self._table, self._index = ".".join(map(_quoted, names)), _quoted(names[-1] + "_expires_at")
        self._parameters = address.parameters(url or "", application_name="celery results")
        self._lock = threading.RLock()
        self._database: Optional[Database] = None
        self._pid = 0

    def as_uri(self, include_password: bool = False) -> str:
        return self.url if include_password else address.hide_password(self.url)

    @property
    def client(self) -> "Backend":
        return self  # Celery deletes a chord's counter with it

    # The connection.

    def _run(self, work: Callable[[Database], Any]) -> Any:
        """With a connection, which the other threads have now and then while a row is locked."""
        while True:
            try:
                return self._attempt(work)
            except Refused as refused:
                if refused.sqlstate != LOCKED:
                    raise
            time.sleep(0.1)

    def _attempt(self, work: Callable[[Database], Any]) -> Any:
        """Again with a new connection if that is lost."""
        with self._lock:
            wait = self._policy["interval_start"]
            for attempt in range(self._policy["max_retries"] + 1):
                try:
                    return work(self._connected())
                except ConnectionLost as error:
                    if attempt == self._policy["max_retries"]:
                        raise
                    logger.error("the connection to the result backend is lost: %s", error)
                    self._forget_connection()
                    time.sleep(wait)
                    wait = min(self._policy["interval_max"], wait + self._policy["interval_step"])

    def _connected(self) -> Database:
        if self._database is None or self._database.closed or self._pid != os.getpid():
            self._database, self._pid = Database(self._parameters), os.getpid()
            self._create_table(self._database)
        return self._database

    def _forget_connection(self) -> None:
        database, self._database = self._database, None
        if database is not None and self._pid == os.getpid():
            database.close()

    def _create_table(self, database: Database) -> None:
        if database.execute("SELECT to_regclass(%s)", (self._table,)) != [(None,)]:
            return
        create = self._text(CREATE)
        try:
            database.execute(create)
        except Refused as error:
            raise ImproperlyConfigured(f"the table for results could not be created: {error}. Run as its owner:{create}") from error

    def _text(self, statement: str) -> str:
        return statement.format(table=self._table, index=self._index, expires_at=EXPIRES_AT)

    def _rows(self, statement: str, values: Any) -> list:
        return self._run(lambda database: database.execute(self._text(statement), values))

    # What Celery stores, by keys.

    def get(self, key: str) -> Optional[bytes]:
        return self.mget([key])[0]

    def mget(self, keys: list[str]) -> list[Optional[bytes]]:
        found = dict(self._rows(GET, ([_clean(key) for key in keys],)))
        return [found.get(_clean(key)) for key in keys]

    def set(self, key: str, value: Any, succeeded: bool = False, once: bool = False) -> None:
        key = _clean(key)
        self._rows(STORE, {"key": key, "value": value.encode() if isinstance(value, str) else bytes(value), "succeeded": succeeded,
                           "once": once, "expires": self.expires, "channel": CHANNEL, "name": name_of(key)})

    def delete(self, key: str) -> None:
        self._rows(DELETE, (_clean(key),))

    def expire(self, key: str, value: Any) -> None:
        self._rows(EXPIRE, (value, _clean(key)))

    def incr(self, key: str) -> int:
        """Once, also if the answer is lost and it is done again."""
        begun: list[tuple[Begun, int]] = []

        def count(database: Database) -> int:
            if begun and database.was_committed(begun[0][0]):
                return begun[0][1]
            begun.clear()
            values = {"key": _clean(key), "expires": self.expires}
            return int(database.transact(self._text(COUNT), values, lambda named, row: begun.append((named, int(row[0]))))[0])

        return self._run(count)

    def cleanup(self) -> None:
        """Celery's beat calls it once a day."""
        self._rows(CLEAN, None)

    def _store_result(self, task_id: str, result: Any, state: str, traceback: Any = None, request: Any = None, **kwargs: Any) -> Any:
        """A result that is a success is not overwritten: not by a worker that was taken for dead."""
        meta = self._get_result_meta(result=result, state=state, traceback=traceback, request=request)
        meta["task_id"] = bytes_to_str(task_id)
        self.set(self.get_key_for_task(task_id), self.encode(meta), succeeded=state == states.SUCCESS, once=True)
        return result

    # Waiting.

    def wait_for(self, task_id: str, timeout: Optional[float] = None, interval: float = 0.5, no_ack: bool = True,
                 on_interval: Optional[Callable[[], None]] = None) -> dict:
        for _, meta in self.get_many([task_id], timeout=timeout, interval=interval, on_interval=on_interval):
            return meta
        raise TimeoutError("The operation timed out.")

    def get_many(self, task_ids: Iterable[str], timeout: Optional[float] = None, interval: Optional[float] = 0.5, no_ack: bool = True,
                 on_message: Optional[Callable[[dict], None]] = None, on_interval: Optional[Callable[[], None]] = None,
                 max_iterations: Optional[int] = None, READY_STATES: Any = states.READY_STATES) -> Iterator[tuple[str, dict]]:
        """Yields each result when it is there."""
        self._ensure_not_eager()
        left = {_clean(self.get_key_for_task(task_id)): bytes_to_str(task_id) for task_id in task_ids}
        end = None if timeout is None else time.monotonic() + timeout
        rounds = 0
        with waiting_of(self.url, self._parameters).of(left) as waiting:
            rows = self._rows(AWAIT, {"keys": list(left), "expires": self.expires})
            while True:
                for key, meta in self._decode_ready(rows, READY_STATES):
                    if on_message is not None:
                        on_message(meta)
                    yield left.pop(key), meta
                rounds += 1
                if not left or (max_iterations and rounds >= max_iterations):
                    return
                told = self._until_told(waiting, end, interval or 0.5, on_interval, max_iterations is not None)
                rows = self._rows(GET, ([key for key in left if told is None or name_of(key) in told],))

    def _decode_ready(self, rows: list, ready: Any) -> Iterator[tuple[str, dict]]:
        for key, value in rows:
            meta = None if value is None else self.decode_result(value)
            if meta is not None and meta["status"] in ready:
                yield key, meta

    def _until_told(self, waiting: Waiting, end: Optional[float], interval: float, on_interval: Optional[Callable[[], None]],
                    once: bool) -> Optional[set[str]]:
        """The names of results that were stored meanwhile; None: look at all."""
        while True:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("The operation timed out.")
            if on_interval is not None:
                on_interval()
            if on_interval is not None or once:
                left = interval if left is None else min(left, interval)
            if waiting.wait(left):
                return waiting.told()
            if once:
                return set()

    def __reduce__(self, args: tuple = (), kwargs: Optional[dict] = None) -> Any:
        return super().__reduce__(args, {**(kwargs or {}), "url": self.url, "expires": self.expires})


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _clean(key: str) -> str:
    """Ids of tasks may be anything; the server takes no zero byte."""
    return bytes_to_str(key).replace("\0", "\ufffd")
