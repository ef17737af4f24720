# What the suite python needs. Sourced by test/scripts/prerequisites.sh.
python_has pytest || need "Python's pytest" python3-pytest
python_has setuptools || need "Python's setuptools" python3-setuptools
python_has wheel || need "Python's wheel" python3-wheel
python_has pip || need "Python's pip" python3-pip
python_has psycopg_pool || need "Python's psycopg_pool" python3-psycopg-pool
python_has ensurepip || need "Python's venv" python3-venv
python_has pydantic || need "Python's pydantic" python3-pydantic
python_has mypy || need "mypy" mypy
have pgbouncer || [ -x /usr/sbin/pgbouncer ] || need "PgBouncer" pgbouncer
look_for_plproxy
