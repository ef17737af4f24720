"""Celery on pgfairq: a broker and a result backend that live in PostgreSQL.

    import pgfairq.celery               # makes fairq:// known to kombu and Celery
    app = Celery("shop", broker="fairq://app@db/shop")
"""

from celery.app.backends import BACKEND_ALIASES
from celery.app.task import Task
from kombu.transport import TRANSPORT_ALIASES

from .generators import make_lists

TRANSPORT_ALIASES["fairq"] = "pgfairq.celery.transport:Transport"
BACKEND_ALIASES["fairq"] = "pgfairq.celery.backend:Backend"
make_lists()
Task.Request = "pgfairq.celery.request:Request"     # unless a task has its own
