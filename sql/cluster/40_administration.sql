\functions sql/install/40_queues.sql
\functions sql/install/45_groups.sql
\functions sql/install/46_subgroups.sql
\functions sql/install/68_schedules.sql
