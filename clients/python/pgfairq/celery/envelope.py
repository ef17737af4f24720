"""Messages of kombu as payloads of tasks, and back."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

GROUP, SUBGROUP, COST = "fairq_group", "fairq_subgroup", "fairq_cost"


class NotAMessage(ValueError):
    """The payload is nothing that Celery could run."""


def to_payload(message: dict[str, Any]) -> str:
    """JSON text that the server takes, and that people can read as far as the serializer lets them."""
    message = dict(message, properties=dict(message["properties"]))
    body = message["body"]
    if isinstance(body, bytes) and message["content-encoding"] == "utf-8":
        body = message["body"] = _text_of(body)
    if isinstance(body, (bytes, bytearray, memoryview)):
        message["body"] = base64.b64encode(bytes(body)).decode()
        message["properties"]["body_encoding"] = "base64"
    text = json.dumps(message, ensure_ascii=False)
    try:
        takes = "\\u0000" not in text and bool(text.encode())
    except UnicodeEncodeError:  # half of a surrogate pair
        takes = False
    if not takes:  # what jsonb cannot hold
        text = json.dumps({"encoded": base64.b64encode(json.dumps(message).encode()).decode()})
    return text


def _text_of(body: bytes) -> Any:
    try:
        return body.decode()
    except UnicodeDecodeError:  # compressed, for example
        return body


def from_payload(payload: str) -> dict[str, Any]:
    """The message. A payload {"task": name, "args": [], "kwargs": {}}, which SQL can write, is one too."""
    try:
        message = json.loads(payload)
        if isinstance(message, dict) and isinstance(message.get("encoded"), str):
            message = json.loads(base64.b64decode(message["encoded"]))
    except (ValueError, RecursionError) as error:
        raise NotAMessage(f"the payload cannot be read: {error}") from None
    if isinstance(message, dict) and isinstance(message.get("task"), str):
        message = _from_sql(message)
    if not isinstance(message, dict) or not isinstance(message.get("properties"), dict) or "body" not in message:
        raise NotAMessage('the payload is no message of Celery, nor {"task": name, "args": [], "kwargs": {}}')
    message["headers"] = message.get("headers") or {}
    if not isinstance(message["headers"], dict) or not isinstance(message["properties"].setdefault("delivery_info", {}), dict):
        raise NotAMessage("headers and delivery_info of a message are objects")
    return message


def _from_sql(task: dict[str, Any]) -> dict[str, Any]:
    args, kwargs = task.get("args", []), task.get("kwargs", {})
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise NotAMessage('of {"task": name, "args": [], "kwargs": {}} the arguments are a list and an object')
    id = task.get("id") or str(uuid.uuid4())
    headers = {"lang": "py", "task": task["task"], "id": id, "root_id": id, "parent_id": None, "group": None, "retries": 0,
               "eta": None, "expires": None, "timelimit": [None, None], "argsrepr": repr(args), "kwargsrepr": repr(kwargs),
               "origin": "sql"}
    return {
        "body": json.dumps([args, kwargs, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": headers,
        "properties": {"correlation_id": id, "reply_to": "", "delivery_mode": 2, "delivery_info": {}},
    }
