# What the suite examples needs; sourced by test/scripts/prerequisites.sh.
{ have go && [ -d /usr/share/gocode/src/github.com/lib/pq ]; } || need "Go with lib/pq" golang-go golang-github-lib-pq-dev
{ have javac && [ -f /usr/share/java/postgresql.jar ]; } ||
	need "Java with PostgreSQL's JDBC driver" default-jdk-headless libpostgresql-jdbc-java
