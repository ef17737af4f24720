"""What broker_transport_options may say."""

from __future__ import annotations

import logging
from typing import Any, Mapping

logger = logging.getLogger(__name__)

# Of Celery and kombu themselves: how they connect again.
OTHERS = {"max_retries", "interval_start", "interval_step", "interval_max", "confirm_publish", "client_properties"}

QUEUE_OPTIONS = {
    "policy": "text", "buckets": "int", "lease": "interval", "max_attempts": "int", "max_lost": "int", "backoff_base": "interval",
    "backoff_max": "interval", "max_ready": "bigint", "max_ready_per_group": "bigint", "max_depth": "bigint",
    "keep_done": "interval", "durable_leases": "boolean", "charge": "text", "expire_after": "interval",
    "backoff_jitter": "float8", "default_priority": "bigint", "group_required": "boolean",
    "class_weights": "float8[]", "subgroups": "boolean",
}

ORDERS = ("round_robin", "priority", "sorted")


class Options:
    def __init__(self, given: Mapping[str, Any]) -> None:
        self.group: Any = given.get("group")
        self.subgroup: Any = given.get("subgroup")
        self.session_ttl = float(given.get("session_ttl", 30))
        self.queue_options: dict[str, Any] = {"backoff_base": "0", **dict(given.get("queue_options", {}))}
        if "class_weights" in self.queue_options:    # psycopg sends no list of floats and integers
            self.queue_options["class_weights"] = [float(weight) for weight in self.queue_options["class_weights"]]
        self.queue_order_strategy: str = given.get("queue_order_strategy", "round_robin")
        self.priority_order: str = given.get("priority_order", "amqp")
        self.publish_once = bool(given.get("publish_once", True))
        self.claim_wait = float(given.get("claim_wait", 10))
        self._check(given)

    def _check(self, given: Mapping[str, Any]) -> None:
        for name in sorted(set(given) - set(vars(self)) - OTHERS):
            logger.warning("the transport option %s has no effect: fairq:// does not know it", name)
        if self.session_ttl < 1:
            raise ValueError(f"session_ttl is {self.session_ttl}; give seconds, 1 or more")
        if self.claim_wait <= 0:
            raise ValueError(f"claim_wait is {self.claim_wait}; give seconds, above 0")
        if self.queue_order_strategy not in ORDERS:
            raise ValueError(f"queue_order_strategy is {self.queue_order_strategy!r}; give one of {', '.join(ORDERS)}")
        if self.priority_order not in ("amqp", "redis"):
            raise ValueError(f"priority_order is {self.priority_order!r}; give 'amqp' (9 is most urgent) or 'redis' (0 is)")
        for name in self.queue_options:
            if name not in QUEUE_OPTIONS:
                raise ValueError(f"queue_options has {name!r}; give arguments of fairq.create_queue: {', '.join(QUEUE_OPTIONS)}")
        for name, function in (("group", self.group), ("subgroup", self.subgroup)):
            if function is not None and not (callable(function) or isinstance(function, str)):
                raise ValueError(f"{name} is {function!r}; give a function, or its name as 'module:function'")
