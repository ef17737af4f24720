\functions sql/install/60_consuming.sql
\functions sql/install/65_sessions.sql
\include sql/install/67_node_numbers.sql
