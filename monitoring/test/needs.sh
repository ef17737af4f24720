# What the suite monitoring needs; sourced by test/scripts/prerequisites.sh.
{ have prometheus && have promtool; } || need "Prometheus" prometheus
have prometheus-postgres-exporter || need "postgres_exporter" prometheus-postgres-exporter
have prometheus-sql-exporter || need "sql_exporter" prometheus-sql-exporter
python_has pytest || need "Python's pytest" python3-pytest
python_has yaml || need "Python's yaml" python3-yaml
