# What the tests of the Celery transport need; for prerequisites.sh.
python_has pytest || need "Python's pytest" python3-pytest
{ python_has celery && python_has kombu; } || need "Celery" python3-celery
have pgbouncer || [ -x /usr/sbin/pgbouncer ] || need "PgBouncer" pgbouncer
look_for_plproxy
