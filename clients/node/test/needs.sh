# What the Node library's tests need; sourced by test/scripts/prerequisites.sh.
look_for_node_build
have pgbouncer || [ -x /usr/sbin/pgbouncer ] || need "PgBouncer" pgbouncer
look_for_plproxy
