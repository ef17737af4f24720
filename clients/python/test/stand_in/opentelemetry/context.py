"""Which values are current in a thread or a task."""

from contextvars import ContextVar

CURRENT = ContextVar("current", default={})


def get_current():
    return CURRENT.get()


def attach(context):
    return CURRENT.set(context)


def detach(token):
    CURRENT.reset(token)    # which raises if the token is of another thread or task
