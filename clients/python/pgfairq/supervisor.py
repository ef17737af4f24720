"""Several workers, each in a process of its own."""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
import time
from typing import Callable, Dict, List, Tuple

from .pace import Backoff

log = logging.getLogger("pgfairq")

GAVE_UP = 3     # the exit code of a worker that another one in its place would not help
FINISH, NOW = b"f", b"n"


def supervise(run: Callable[[], None], stop: Callable[[bool], None], count: int, orders: "queue.SimpleQueue[str]") -> None:
    """Fork `count` processes that call run(), and others for those that die, until all have ended.

    Orders are "stop" and "abort"; they reach the processes through a pipe each, whose
    end stops those whose parent is gone. Call it before there are threads or connections.
    """
    processes: Dict[int, int] = {}  # pid: the end of the pipe to write to
    backoff = Backoff()
    stopping = gave_up = False
    starts: List[float] = [0.0] * count     # when to start those that are missing
    while processes or starts:
        while starts and starts[0] <= time.monotonic():
            starts.pop(0)
            pid, pipe = start(run, stop, list(processes.values()))
            processes[pid] = pipe
        try:
            order = orders.get(timeout=0.1)
        except queue.Empty:
            order = ""
        for pid, code in ended(list(processes)):
            os.close(processes.pop(pid))
            if code == GAVE_UP and not stopping:
                gave_up, order = True, order or "stop"
            elif code != 0 and not stopping:
                pause = backoff.next()
                log.warning("worker process %d ended with %s; another one in %.1f s", pid, reason(code), pause)
                starts = sorted(starts + [time.monotonic() + pause])
        if order:
            stopping, starts = True, []
            for pipe in processes.values():
                tell(pipe, NOW if order == "abort" else FINISH)
    if gave_up:
        raise RuntimeError("a worker process has given up; its log says why")


def start(run: Callable[[], None], stop: Callable[[bool], None], others: List[int]) -> Tuple[int, int]:
    """The process, and the pipe that it listens to. Those of others are not its to hold open."""
    listen, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(listen)
        return pid, write
    code = GAVE_UP
    try:
        for pipe in [write, *others]:
            os.close(pipe)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: stop(False))
        threading.Thread(target=obey, args=(listen, stop), daemon=True).start()
        run()
        code = 0
    except BaseException as error:
        log.error("the worker has given up: %s: %s", type(error).__name__, error)
    finally:
        logging.shutdown()
        os._exit(code)


def obey(listen: int, stop: Callable[[bool], None]) -> None:
    while True:
        order = os.read(listen, 1)
        stop(order == NOW)
        if not order:
            return


def tell(pipe: int, order: bytes) -> None:
    try:
        os.write(pipe, order)
    except BrokenPipeError:
        pass    # it has just ended


def ended(pids: List[int]) -> List[Tuple[int, int]]:
    """(pid, exit code, or the negative signal) of those that have ended."""
    found = []
    for pid in pids:
        try:
            done, status = os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:   # the application waits for all of its children
            done, status = pid, 0
        if done:
            found.append((pid, os.waitstatus_to_exitcode(status)))
    return found


def reason(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
