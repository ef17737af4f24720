\functions sql/install/70_looking.sql
