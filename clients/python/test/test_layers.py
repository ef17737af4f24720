"""The files of the library use those before them only, as README.md says.

To see it fail: import something of worker.py in context.py, or take a file out of the list.
"""

import ast
import os

HERE = os.path.join(os.environ["FAIRQ_CHECKOUT"], "clients/python/pgfairq")
ORDER = [
    "errors", "payloads", "values", "models", "statements", "connections", "report", "hooks", "handlers", "options", "delivery", "journal",
    "pace", "attendance", "place", "awaiting", "deadlines", "context", "async_context", "queue_base", "queue", "async_queue",
    "session_base", "session", "async_session",
    "worker_base", "run_base", "settler_base", "settler", "async_settler", "supervisor", "blocked", "worker", "async_worker", "__init__",
    "cli", "testing", "opentelemetry", "celery", "__main__",
]
ORDER_OF_CELERY = [
    "errors", "address", "lease", "wake", "generators", "topics", "loop", "options", "envelope",
    "request", "wire", "attendance", "broadcast", "database", "unsettled", "settler", "session",
    "nodes", "claimer", "queues", "publisher", "channel", "transport", "waiting", "backend",
    "__init__",
]


def imports(path):
    """The modules of the library that a file of it uses when it runs, not those that only its types name."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for_types = {id(node) for block in ast.walk(tree) if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING"
                 for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1 and id(node) not in for_types:
            yield from [node.module] if node.module else [alias.name for alias in node.names]


def test_calls_go_one_way():
    files = [name[:-3] for name in os.listdir(HERE) if name.endswith(".py")]
    folders = [name for name in os.listdir(HERE) if os.path.exists(os.path.join(HERE, name, "__init__.py"))]
    assert sorted(files + folders) == sorted(ORDER)
    used = [(user, name) for user in files for name in imports(os.path.join(HERE, user + ".py"))]
    assert len(used) > 100
    assert [f"{user} uses {name}" for user, name in used if ORDER.index(name) >= ORDER.index(user)] == []


def test_so_do_those_of_celery():
    folder, order = os.path.join(HERE, "celery"), ORDER_OF_CELERY
    files = [name[:-3] for name in os.listdir(folder) if name.endswith(".py")]
    assert sorted(files) == sorted(order)
    used = [(user, name) for user in files for name in imports(os.path.join(folder, user + ".py"))]
    assert len(used) > 50
    late = [f"{user} uses {name}" for user, name in used if order.index(name) >= order.index(user)]
    assert late == []
