-- A good call of every function of the interface. What an argument without a default is
-- goes by its name, so a new function whose arguments have names of others needs no line.
--
-- Needs the table given (argument text, value text), whose values are SQL: the queue, an
-- id, a receipt, receipts and a session. "divided" is a queue with subgroups, if there is.
-- Makes the tables good (function, argument, value) and good_call (function, statement).
\set echo_of_test :ECHO
\set ECHO none
INSERT INTO given VALUES ('queues', format('ARRAY[%s]', (SELECT value FROM given WHERE argument = 'queue'))),
    ('group_key', '''bad group'''), ('subgroup_key', '''bad subgroup'''), ('unique_key', '''bad key'''), ('topic', '''bad.topic'''),
    ('payload', '''1'''), ('payloads', '''{1,2}'''), ('progress', '''1'''), ('name', '''bad'''), ('cron', '''0 0 1 1 *'''),
    ('node', '5'), ('class', '1'), ('block', '1');

-- What some have besides or instead.
CREATE TEMP TABLE special (function text, argument text, value text);
INSERT INTO special VALUES ('create_queue', 'queue', '''bad new'''), ('alter_queue', 'lease', '''1 h'''), ('open_session', 'ttl', '''1 h'''),
    ('subscribe', 'topic', '''bad.*'''), ('unsubscribe', 'topic', '''bad.*'''), ('node_of_id', 'id', '1'),
    ('nack', 'delay', '''0'''), ('nack_many', 'delay', '''0'''), ('await', 'id', '0'),
    ('await', 'timeout', '''0'''), ('wait', 'timeout', '''0'''), ('wait_any', 'timeout', '''0''');
INSERT INTO special SELECT proname, 'weight', '2' FROM pg_proc WHERE pronamespace = 'fairq'::regnamespace AND proname LIKE 'set\_%' AND 'weight' = ANY (proargnames);
INSERT INTO special SELECT proname, 'queue', value FROM pg_proc, given WHERE pronamespace = 'fairq'::regnamespace AND proname LIKE '%subgroup%' AND argument = 'divided';

CREATE TEMP TABLE good AS
    SELECT proname::text AS function, a.name AS argument, coalesce(s.value, g.value) AS value
        FROM pg_proc p CROSS JOIN unnest(proargnames, proargtypes::oid[]) WITH ORDINALITY a(name, type, n)
            LEFT JOIN given g ON g.argument = a.name
            LEFT JOIN special s ON s.argument = a.name AND s.function = p.proname
        WHERE pronamespace = 'fairq'::regnamespace AND (n <= pronargs - pronargdefaults OR s.value IS NOT NULL)
            AND NOT 'fairq.address'::regtype = ANY (proargtypes) AND proname <> 'group_id';  -- these take anything of their types
CREATE TEMP TABLE good_call AS
    SELECT proname::text AS function,
           format(CASE prokind WHEN 'p' THEN 'CALL fairq.%I(%s)' ELSE 'SELECT * FROM fairq.%I(%s)' END, proname,
                  (SELECT string_agg(format('%I => %s', argument, value), ', ') FROM good WHERE function = proname)) AS statement
        FROM pg_proc WHERE pronamespace = 'fairq'::regnamespace AND (pronargs = 0 OR EXISTS (SELECT FROM good WHERE function = proname));
\set ECHO :echo_of_test
