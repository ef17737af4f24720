"""Where the server is: from a broker's or result backend's URL to the words of libpq."""

from __future__ import annotations

import re
from typing import Any, Optional

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

SCHEME = "fairq"

# Noticed within seconds that a server is gone, also when its machine says nothing any more.
KEEPALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 10000}


def parameters(url: str, connect_timeout: Optional[float] = None, application_name: str = "celery") -> dict[str, Any]:
    """The connection's parameters. All that libpq takes in a URL may stand in it: several hosts,
    ?host=/directory/of/a/socket, ?sslmode=require, ?options=..."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme != SCHEME:
        raise ValueError(f"{hide_password(url)!r} is not a URL of this transport; give {SCHEME}://user@host/database")
    try:
        given = conninfo_to_dict("postgresql://" + rest)
    except ProgrammingError as error:
        raise ValueError(f"{hide_password(url)!r}: {str(error).strip()}") from None
    found: dict[str, Any] = {"application_name": application_name, **KEEPALIVE}
    if connect_timeout:
        found["connect_timeout"] = max(2, int(connect_timeout))  # libpq takes 1 for 2
    found.update(given)
    found["client_encoding"] = "utf8"
    return found


def described(parameters: dict[str, Any]) -> str:
    """For an error: where it was that it could not connect to."""
    return ", ".join(f"{name} {parameters[name]}" for name in ("host", "port", "dbname", "user") if name in parameters)


def hide_password(url: str, mask: str = "**") -> str:
    """For logs. The password may stand before the host, or behind the question mark."""
    url = re.sub(r"(?<=://)([^/?#@:]*):[^/?#]*@", lambda match: f"{match[1]}:{mask}@", url, count=1)
    return re.sub(r"(?<=[?&]password=)[^&]*", lambda match: mask, url)
