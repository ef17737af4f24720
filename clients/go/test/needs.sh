# What the suite go needs; sourced by test/scripts/prerequisites.sh.
gocode=/usr/share/gocode/src
{ have go && [ -d $gocode/github.com/lib/pq ]; } || need "Go with lib/pq" golang-go golang-github-lib-pq-dev
[ -d $gocode/github.com/jackc/pgx/v4 ] || need "pgx for Go" golang-github-jackc-pgx-v4-dev
[ -d $gocode/go.opentelemetry.io/otel/sdk ] || need "OpenTelemetry for Go" golang-opentelemetry-otel-dev
# the race detector is linked with C's library
have gcc || need "a C compiler" gcc libc6-dev
have pgbouncer || [ -x /usr/sbin/pgbouncer ] || need "PgBouncer" pgbouncer
look_for_plproxy
