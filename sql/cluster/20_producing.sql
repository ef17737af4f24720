\functions sql/install/50_producing.sql
\functions sql/install/55_topics.sql
