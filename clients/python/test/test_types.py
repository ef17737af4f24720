"""The types hold, and the package says that it has types."""

import os
import subprocess
import sys

HERE = os.path.join(os.environ["FAIRQ_CHECKOUT"], "clients/python")


def test_mypy_strict():
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--enable-incomplete-feature=Unpack", "--cache-dir", os.devnull],
                          cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_installed(tmp_path):
    """pip installs it, with its types and its program, and without the network."""
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index", "--no-warn-script-location",
                    "--disable-pip-version-check", "--target", str(tmp_path), HERE], check=True, capture_output=True)
    assert (tmp_path / "pgfairq/py.typed").exists() and (tmp_path / "pgfairq/cli/__init__.py").exists()
    done = subprocess.run([sys.executable, "-c", "import pgfairq; print(pgfairq.__file__)"], cwd=tmp_path, check=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.stdout.startswith(str(tmp_path))


USE = """
from dataclasses import dataclass
from typing import Dict, List, Optional
from uuid import UUID
from pgfairq import AsyncContext, AsyncQueue, AsyncWorker, Context, Ending, Queue, Sending, TaskTimeout, Unrecoverable, Worker
from pgfairq.testing import assert_enqueued, async_context, context, drain, run_inline

queue = Queue("", "emails", max_attempts=3, keep_done=3600)

@queue.task("send", give_up_on=(ValueError, KeyError), max_attempts=3, backoff=[1, 10, 60], timeout=30, priority=2,
            group=lambda payload: payload["tenant"])
def send(payload: Dict[str, str], context: Context) -> int:
    context.connection.execute("SELECT 1")
    if not payload:
        context.fail("empty")
    elif "x" in payload:
        raise Unrecoverable("x")
    else:
        return 1

number: int = send.enqueue({"a": "b"}, group=UUID(int=1), delay=5, max_lost=2)
result: int = send.await_result(number)
queue.enqueue_many([1, 2], name=["send", None], max_lost=0)
queue.alter(max_lost=3, subgroups=True)
queue.enqueue_many([1, 2], group=1, subgroup=["ann", None])
queue.set_subgroup(1, "ann", weight=2)
task = queue.get(number)
if task is not None:
    user: Optional[str] = task.subgroup
    seconds: float = sum(end.seconds for end in task.history if end.end == "lost")
worker = Worker([queue], concurrency=2, give_up_on=LookupError)
worker.run(drain=True)
other = AsyncQueue("", "pages")

@dataclass
class Page:
    url: str

@dataclass
class Fetched:
    status: int

@other.task("fetch", backoff=lambda attempt: 2 ** attempt, give_up_on=[OSError, TaskTimeout])
async def fetch(page: Page, context: AsyncContext) -> List[Fetched]:
    await (await context.connection()).execute("SELECT 1")
    return [Fetched(200)]

@other.on("failed")
async def failed(context: AsyncContext, ending: Ending) -> None:
    print(context.id, ending.outcome, ending.seconds, ending.error)

@queue.on("enqueue")
def sending(told: Sending) -> None:
    told.headers["by"] = "me"

worker.on("dead", failed)
AsyncWorker(other, give_up_on=(ValueError, OSError))
times: List[float] = [one.run_time.total_seconds() for one in queue.group_stats()]
once: int = run_inline(send, {"a": "b"})
called: int = send({"a": "b"}, context(group=1))
done: int = drain(queue).done
first: int = assert_enqueued(send, {"a": "b"})[0].id

async def main() -> None:
    status: int = (await fetch.await_result(await fetch.enqueue(Page("/"))))[0].status
    more: List[int] = await fetch.enqueue_many([Page("/a")], group=["a"])
    inline: List[Fetched] = await run_inline(fetch, Page("/"))
    called: List[Fetched] = await fetch(Page("/"), async_context())
    left: int = (await drain(other)).failed
"""

MISTAKES = """
queue.enqueue({}, grup=42)
queue.enqueue({}, delay="soon")
send.enqueue_many([{}], group=[1.5])
Queue("", "emails", max_atempts=3)
Worker([other])
Worker([queue], give_up_on="ValueError")
queue.task("x", give_up_on=[1])
queue.enqueue({}, name=["send"])
queue.enqueue({}, max_lost="2")
send.enqueue({"a": 1})
send.enqueue("a")
send.enqueue_many([{"a": "b"}, 5])
fetch.enqueue({"url": "/"})
text: str = send.await_result(1)
queue.task("x", timeout="1 s")
queue.task("x", group="tenant")
queue.task("x", max_retries=3)
run_inline(fetch, "x")
send(5, context())
"""


def test_types_for_applications(tmp_path):
    """An application that uses them well is without errors, and each mistake is one."""
    errors = []
    for name, code in (("good", USE), ("bad", USE + MISTAKES)):
        (tmp_path / f"{name}.py").write_text(code)
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--enable-incomplete-feature=Unpack", "--cache-dir", str(tmp_path / "cache"),
                               "--config-file", os.devnull, str(tmp_path / f"{name}.py")], env={**os.environ, "MYPYPATH": HERE}, cwd=tmp_path,
                              capture_output=True, text=True)
        errors.append([line for line in done.stdout.splitlines() if ": error:" in line])
    assert errors[0] == []
    assert len({line.split(":")[1] for line in errors[1]}) == len(MISTAKES.strip().splitlines()), errors[1]
