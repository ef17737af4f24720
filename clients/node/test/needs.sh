# What the Node library's tests need; sourced by test/scripts/prerequisites.sh.
have node || need "Node.js" nodejs
have npm || need "npm" npm
have pgbouncer || [ -x /usr/sbin/pgbouncer ] || need "PgBouncer" pgbouncer
need_npm pg 8
need_npm typescript 5
need_npm @types/node 20
need_npm @types/pg 8
