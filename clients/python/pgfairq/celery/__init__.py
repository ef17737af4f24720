"""Celery on pgfairq: a broker that lives in PostgreSQL.

    import pgfairq.celery               # makes fairq:// known to kombu and Celery
    app = Celery("shop", broker="fairq://app@db/shop")
"""

from kombu.transport import TRANSPORT_ALIASES

TRANSPORT_ALIASES["fairq"] = "pgfairq.celery.transport:Transport"
