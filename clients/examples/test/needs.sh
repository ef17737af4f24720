# What the suite examples needs; sourced by test/scripts/prerequisites.sh.
{ have javac && [ -f /usr/share/java/postgresql.jar ]; } ||
	need "Java with PostgreSQL's JDBC driver" default-jdk-headless libpostgresql-jdbc-java
