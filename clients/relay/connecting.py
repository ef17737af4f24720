"""What both relays do with connections: make them, and wait until one is to be had again."""

import psycopg

LONGEST_BACKOFF = 30    # seconds


def first_line(error):
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def connect(conninfo, name):
    defaults = {"client_encoding": "utf8", "connect_timeout": "10", "application_name": name, "keepalives_idle": "10", "keepalives_interval": "5",
                "keepalives_count": "3", "tcp_user_timeout": "20000"}
    given = psycopg.conninfo.conninfo_to_dict(conninfo)
    connection = psycopg.connect(psycopg.conninfo.make_conninfo(**{**defaults, **given}), autocommit=True)
    connection.execute("SET datestyle = 'ISO'")     # of what passes through as text
    connection.execute("SET intervalstyle = 'postgres'")
    return connection


def back_off(relay):
    """Longer each time, until something has worked and its backoff is 0."""
    relay.backoff = min(LONGEST_BACKOFF, relay.backoff * 2 or 0.1)
    relay.stop.wait(relay.backoff)
