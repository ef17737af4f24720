-- A database of version 0.2.0 with tasks in every state, as pg_dump of version 15
-- writes it: it was made with the calls below. The times are moved, and the
-- extension is created by the test.
--
--   SELECT fairq.create_queue('mail', buckets => 2, max_ready_per_group => 3, keep_done => '3650 days', durable_leases => true, max_depth => 1000, backoff_base => '1 h', backoff_jitter => 0, default_priority => 2);
--   SELECT fairq.create_queue('jobs', policy => 'priority', buckets => 1, lease => '5 min', notify => true, group_required => true, expire_after => '10 years');
--   SELECT fairq.create_queue('when', policy => 'time', buckets => 1, max_attempts => 0);
--   SELECT fairq.create_queue('Größe "x" a.b', charge => 'seconds', max_ready => 50);
--   SELECT fairq.set_group('mail', 'heavy', weight => 3, max_leased => 2);
--   SELECT fairq.set_group('mail', 'slow', rate => 0.5, burst => 4);
--   SELECT fairq.pause_group('mail', 'paused');
--   SELECT fairq.set_group_defaults('jobs', weight => 2, max_leased => 100);
--   SELECT fairq.subscribe('orders.#', 'mail');
--   SELECT fairq.subscribe('orders.*.paid', 'Größe "x" a.b');
-- -- dead, by its attempts and by a final failure; done, with a result and without; cancelled
--   SELECT fairq.enqueue('mail', '"dead"', 'dead', max_attempts => 1) AS dead \gset
--   SELECT fairq.nack(receipt, 'hopeless') FROM fairq.claim('mail');
--   SELECT fairq.enqueue('mail', '"final"', 'dead');
--   SELECT fairq.nack(receipt, 'no such address', final => true) FROM fairq.claim('mail');
--   SELECT fairq.enqueue('mail', '"acked"', 'done', cost => 2.5, headers => '{"h": 1}');
--   SELECT fairq.ack(receipt) FROM fairq.claim('mail');
--   SELECT fairq.enqueue('mail', '"with a result"', 'done');
--   SELECT fairq.ack(receipt, '{"sum": 3}') FROM fairq.claim('mail');
--   SELECT fairq.enqueue('mail', '"cancelled"', 'done', priority => 9) AS cancelled \gset
--   SELECT fairq.cancel('mail', :cancelled);
--   SELECT fairq.enqueue('mail', '"remembered"', 'done', unique_key => 'once', unique_for => '3650 days');
--   SELECT fairq.ack(receipt) FROM fairq.claim('mail');
-- -- failed once, and waits; leased, and one is held behind its key
--   SELECT fairq.enqueue('mail', '"failed"', 'retried', priority => 0);
--   SELECT fairq.nack(receipt, 'once more') FROM fairq.claim('mail');
--   SELECT fairq.enqueue('mail', '"leased"', 'leased', unique_key => 'k', lease => '1 day', priority => 0) AS leased \gset
--   SELECT FROM fairq.claim('mail');
--   SELECT fairq.enqueue('mail', '"held"', 'leased', unique_key => 'k', priority => 0);
-- -- held behind others: one that is leased, one that is dead
--   SELECT fairq.enqueue('mail', '"after"', 'after', after => ARRAY[:leased], on_dead => 'run');
--   SELECT fairq.enqueue('mail', '"after the dead"', 'after', after => ARRAY[:dead, :leased], on_dead => 'hold');
-- -- ready, and what has no room
--   SELECT fairq.enqueue_many('mail', array_agg(to_jsonb('ready ' || i)), '{many}') FROM generate_series(1, 8) i;
--   SELECT fairq.enqueue('mail', '"first"', 'heavy', priority => 1, cost => 3, unique_key => 'waits', max_attempts => 7);
--   SELECT fairq.enqueue('mail', '"of the paused"', 'paused');
--   SELECT fairq.enqueue('mail', '"later"', 'later', run_at => '2100-01-01 00:00+00');
--   SELECT fairq.enqueue('mail', '"expires"', 'expires', expires_at => '2100-01-01 00:00+00');
--   SELECT fairq.enqueue('mail', '"has expired"', 'expires', expires_at => now() + '1 h');
--   SELECT fairq.enqueue('jobs', to_jsonb(i), 'g', priority => -i) FROM generate_series(1, 3) i;
--   SELECT fairq.enqueue('when', to_jsonb(i), run_at => '2020-01-01 00:00+00'::timestamptz - i * interval '1 day') FROM generate_series(1, 3) i;
--   SELECT fairq.enqueue('when', '"later"', run_at => '2100-01-01 00:00+00');
--   SELECT fairq.enqueue('Größe "x" a.b', '{"a": [1, null, "ü"]}', 'grün');
--   SELECT fairq.pause('Größe "x" a.b');
--   GRANT INSERT ON fairq.q_mail, fairq.q_jobs TO clerk; SET ROLE clerk;
--   SELECT fairq.schedule('yearly', 'mail', '0 0 1 1 *', '"ticked"', 'ticks');
--   SELECT fairq.schedule('leap', 'jobs', '0 0 29 2 *', '"leap"', 'g', headers => '{"h": 2}', priority => 3, timezone => 'Europe/Berlin', active => false);
--   RESET ROLE;
--   SELECT fairq.set_node(7);


SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

CREATE TABLE fairq.q_mail (
    id bigint NOT NULL,
    address fairq.address,
    enqueued_at timestamp with time zone NOT NULL,
    state "char" NOT NULL,
    group_key text NOT NULL,
    payload jsonb NOT NULL,
    priority bigint NOT NULL,
    cost real NOT NULL,
    attempts integer NOT NULL,
    run_at timestamp with time zone,
    max_attempts integer,
    lease interval,
    headers jsonb,
    unique_key text,
    last_error text,
    expires_at timestamp with time zone
)
WITH (autovacuum_vacuum_scale_factor='0.05', vacuum_truncate=off);
ALTER TABLE ONLY fairq.q_mail ALTER COLUMN group_key SET STORAGE MAIN;

CREATE TABLE fairq.done_mail (
    id bigint NOT NULL,
    enqueued_at timestamp with time zone NOT NULL,
    claimed_at timestamp with time zone,
    done_at timestamp with time zone NOT NULL,
    run_at timestamp with time zone,
    priority bigint NOT NULL,
    cost real NOT NULL,
    attempts integer NOT NULL,
    outcome text NOT NULL,
    group_key text NOT NULL,
    payload jsonb NOT NULL,
    headers jsonb,
    unique_key text,
    last_error text,
    result jsonb
);

CREATE TABLE fairq."q_Größe ""x"" a.b" (
    id bigint NOT NULL,
    address fairq.address,
    enqueued_at timestamp with time zone NOT NULL,
    state "char" NOT NULL,
    group_key text NOT NULL,
    payload jsonb NOT NULL,
    priority bigint NOT NULL,
    cost real NOT NULL,
    attempts integer NOT NULL,
    run_at timestamp with time zone,
    max_attempts integer,
    lease interval,
    headers jsonb,
    unique_key text,
    last_error text,
    expires_at timestamp with time zone
)
WITH (autovacuum_vacuum_scale_factor='0.05', vacuum_truncate=off);
ALTER TABLE ONLY fairq."q_Größe ""x"" a.b" ALTER COLUMN group_key SET STORAGE MAIN;

CREATE SEQUENCE fairq."ids_of_Größe ""x"" a.b"
    START WITH 1
    INCREMENT BY 1000
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE fairq."ids_of_Größe ""x"" a.b" OWNED BY fairq."q_Größe ""x"" a.b".id;

CREATE TABLE fairq.q_jobs (
    id bigint NOT NULL,
    address fairq.address,
    enqueued_at timestamp with time zone NOT NULL,
    state "char" NOT NULL,
    group_key text NOT NULL,
    payload jsonb NOT NULL,
    priority bigint NOT NULL,
    cost real NOT NULL,
    attempts integer NOT NULL,
    run_at timestamp with time zone,
    max_attempts integer,
    lease interval,
    headers jsonb,
    unique_key text,
    last_error text,
    expires_at timestamp with time zone
)
WITH (autovacuum_vacuum_scale_factor='0.05', vacuum_truncate=off);
ALTER TABLE ONLY fairq.q_jobs ALTER COLUMN group_key SET STORAGE MAIN;

CREATE SEQUENCE fairq.ids_of_jobs
    START WITH 1
    INCREMENT BY 1000
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE fairq.ids_of_jobs OWNED BY fairq.q_jobs.id;

CREATE SEQUENCE fairq.ids_of_mail
    START WITH 1
    INCREMENT BY 1000
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE fairq.ids_of_mail OWNED BY fairq.q_mail.id;

CREATE TABLE fairq.q_when (
    id bigint NOT NULL,
    address fairq.address,
    enqueued_at timestamp with time zone NOT NULL,
    state "char" NOT NULL,
    group_key text NOT NULL,
    payload jsonb NOT NULL,
    priority bigint NOT NULL,
    cost real NOT NULL,
    attempts integer NOT NULL,
    run_at timestamp with time zone,
    max_attempts integer,
    lease interval,
    headers jsonb,
    unique_key text,
    last_error text,
    expires_at timestamp with time zone
)
WITH (autovacuum_vacuum_scale_factor='0.05', vacuum_truncate=off);
ALTER TABLE ONLY fairq.q_when ALTER COLUMN group_key SET STORAGE MAIN;

CREATE SEQUENCE fairq.ids_of_when
    START WITH 1
    INCREMENT BY 1000
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE fairq.ids_of_when OWNED BY fairq.q_when.id;

COPY fairq.dependency (queue, task, predecessor, on_dead, failed) FROM stdin;
mail	10	8	r	f
mail	11	8	h	f
mail	11	1	h	t
\.

COPY fairq.done_mail (id, enqueued_at, claimed_at, done_at, run_at, priority, cost, attempts, outcome, group_key, payload, headers, unique_key, last_error, result) FROM stdin;
3	2025-11-25 22:28:36.812959+00	2025-11-25 22:28:36.818882+00	2025-11-25 22:28:36.819009+00	\N	2	2.5	1	acked	done	"acked"	{"h": 1}	\N	\N	\N
4	2025-11-25 22:28:36.822732+00	2025-11-25 22:28:36.828933+00	2025-11-25 22:28:36.829089+00	\N	2	1	1	acked	done	"with a result"	\N	\N	\N	{"sum": 3}
5	2025-11-25 22:28:36.838237+00	\N	2025-11-25 22:28:36.842785+00	\N	9	1	0	cancelled	done	"cancelled"	\N	\N	\N	\N
6	2025-11-25 22:28:36.850755+00	2025-11-25 22:28:36.858916+00	2025-11-25 22:28:36.859087+00	\N	2	1	1	acked	done	"remembered"	\N	once	\N	\N
\.

COPY fairq.queue (queue, policy, buckets, lease, max_attempts, backoff_base, backoff_max, max_ready, max_ready_per_group, max_depth, keep_done, durable_leases, charge, notify, group_weight, group_max_leased, group_rate, group_burst, paused, expire_after, backoff_jitter, default_priority, group_required) FROM stdin;
mail	fair	2	00:00:30	20	01:00:00	01:00:00	1000000	3	1000	3650 days	t	cost	f	1	0	0	0	f	\N	0	2	f
when	time	1	00:00:30	0	00:00:01	01:00:00	1000000	10000	\N	\N	f	cost	f	1	0	0	0	f	\N	0.1	4	f
jobs	priority	1	00:05:00	20	00:00:01	01:00:00	1000000	10000	\N	\N	f	cost	t	2	100	0	0	f	10 years	0.1	4	t
Größe "x" a.b	fair	16	00:00:30	20	00:00:01	01:00:00	50	10000	\N	\N	f	seconds	f	1	0	0	0	t	\N	0.1	4	f
\.

COPY fairq.group_setting (queue, group_key, weight, max_leased, rate, burst, paused) FROM stdin;
mail	heavy	3	2	\N	\N	f
mail	slow	\N	\N	0.5	4	f
mail	paused	\N	\N	\N	\N	t
\.

COPY fairq."q_Größe ""x"" a.b" (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts, run_at, max_attempts, lease, headers, unique_key, last_error, expires_at) FROM stdin;
1	(0,4:0,0)	2025-11-25 22:28:36.966704+00	r	grün	{"a": [1, null, "ü"]}	4	1	0	\N	\N	\N	\N	\N	\N	\N
\.

COPY fairq.q_jobs (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts, run_at, max_attempts, lease, headers, unique_key, last_error, expires_at) FROM stdin;
1	(0,-1,1)	2025-11-25 22:28:36.927298+00	r	g	1	-1	1	0	\N	\N	\N	\N	\N	\N	2036-10-03 22:28:36.927298+00
2	(0,-2,2)	2025-11-25 22:28:36.927781+00	r	g	2	-2	1	0	\N	\N	\N	\N	\N	\N	2036-10-03 22:28:36.927781+00
3	(0,-3,3)	2025-11-25 22:28:36.927802+00	r	g	3	-3	1	0	\N	\N	\N	\N	\N	\N	2036-10-03 22:28:36.927802+00
\.

COPY fairq.q_mail (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts, run_at, max_attempts, lease, headers, unique_key, last_error, expires_at) FROM stdin;
1	\N	2025-11-25 22:28:36.789647+00	d	dead	"dead"	2	1	1	\N	1	\N	\N	\N	hopeless	\N
2	\N	2025-11-25 22:28:36.794915+00	d	dead	"final"	2	1	1	\N	\N	\N	\N	\N	no such address	\N
7	\N	2025-11-25 22:28:36.862077+00	s	retried	"failed"	0	1	1	2025-11-25 23:28:36.874994+00	\N	\N	\N	\N	once more	\N
8	(0,1,0)	2025-11-25 22:28:36.878697+00	r	leased	"leased"	0	1	0	\N	\N	1 day	\N	k	\N	\N
9	\N	2025-11-25 22:28:36.883161+00	h	leased	"held"	0	1	0	\N	\N	\N	\N	k	\N	\N
10	\N	2025-11-25 22:28:36.886453+00	h	after	"after"	2	1	0	\N	\N	\N	\N	\N	\N	\N
11	\N	2025-11-25 22:28:36.887575+00	h	after	"after the dead"	2	1	0	\N	\N	\N	\N	\N	\N	\N
12	(1,2:6.5,0)	2025-11-25 22:28:36.903477+00	r	many	"ready 1"	2	1	0	\N	\N	\N	\N	\N	\N	\N
13	(0,2:7.5,0)	2025-11-25 22:28:36.903477+00	r	many	"ready 2"	2	1	0	\N	\N	\N	\N	\N	\N	\N
14	(1,2:8.5,0)	2025-11-25 22:28:36.903477+00	r	many	"ready 3"	2	1	0	\N	\N	\N	\N	\N	\N	\N
15	\N	2025-11-25 22:28:36.903477+00	o	many	"ready 4"	2	1	0	\N	\N	\N	\N	\N	\N	\N
16	\N	2025-11-25 22:28:36.903477+00	o	many	"ready 5"	2	1	0	\N	\N	\N	\N	\N	\N	\N
17	\N	2025-11-25 22:28:36.903477+00	o	many	"ready 6"	2	1	0	\N	\N	\N	\N	\N	\N	\N
18	\N	2025-11-25 22:28:36.903477+00	o	many	"ready 7"	2	1	0	\N	\N	\N	\N	\N	\N	\N
19	\N	2025-11-25 22:28:36.903477+00	o	many	"ready 8"	2	1	0	\N	\N	\N	\N	\N	\N	\N
20	(0,1:0,0)	2025-11-25 22:28:36.912355+00	r	heavy	"first"	1	3	0	\N	7	\N	\N	waits	\N	\N
21	(0,2:6.5,1)	2025-11-25 22:28:36.91467+00	r	paused	"of the paused"	2	1	0	\N	\N	\N	\N	\N	\N	\N
22	\N	2025-11-25 22:28:36.915121+00	s	later	"later"	2	1	0	2100-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N
23	(1,2:6.5,2)	2025-11-25 22:28:36.918682+00	r	expires	"expires"	2	1	0	\N	\N	\N	\N	\N	\N	2100-01-01 00:00:00+00
24	(0,2:7.5,2)	2025-11-25 22:28:36.919759+00	r	expires	"has expired"	2	1	0	\N	\N	\N	\N	\N	\N	2025-11-25 23:28:36.919229+00
\.

COPY fairq.q_when (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts, run_at, max_attempts, lease, headers, unique_key, last_error, expires_at) FROM stdin;
1	(0,631065600000000,1)	2025-11-25 22:28:36.951732+00	r		1	4	1	0	2019-12-31 00:00:00+00	\N	\N	\N	\N	\N	\N
2	(0,630979200000000,2)	2025-11-25 22:28:36.95218+00	r		2	4	1	0	2019-12-30 00:00:00+00	\N	\N	\N	\N	\N	\N
3	(0,630892800000000,3)	2025-11-25 22:28:36.952195+00	r		3	4	1	0	2019-12-29 00:00:00+00	\N	\N	\N	\N	\N	\N
4	\N	2025-11-25 22:28:36.961267+00	s		"later"	4	1	0	2100-01-01 00:00:00+00	\N	\N	\N	\N	\N	\N
\.

COPY fairq.schedule (name, queue, owner, owner_oid, cron, timezone, payload, group_key, priority, cost, headers, catch_up, overlap, active, anchor, next_run, last_run, last_task, skipped, failures, last_error, last_error_at) FROM stdin;
yearly	mail	clerk	17179	0 0 1 1 *	UTC	"ticked"	ticks	\N	1	\N	one	f	t	2025-11-25 22:28:36+00	2026-01-01 00:00:00+00	\N	\N	0	0	\N	\N
leap	jobs	clerk	17179	0 0 29 2 *	Europe/Berlin	"leap"	g	3	1	{"h": 2}	one	f	f	2025-11-25 22:28:37+00	\N	\N	\N	0	0	\N	\N
\.

COPY fairq.topic (topic, queue) FROM stdin;
orders.#	mail
orders.*.paid	Größe "x" a.b
\.

COPY fairq_internal.arrived (batch, arrived_at) FROM stdin;
\.

COPY fairq_internal.departing (queue, id, batch, target, turn, task) FROM stdin;
\.

COPY fairq_internal.node (number, single) FROM stdin;
7	t
\.

COPY fairq_internal.remembered_key (queue, unique_key, task, until) FROM stdin;
mail	once	6	2036-11-22 22:28:36.851127+00
\.

SELECT pg_catalog.setval('fairq."ids_of_Größe ""x"" a.b"', 1, true);

SELECT pg_catalog.setval('fairq.ids_of_jobs', 1, true);

SELECT pg_catalog.setval('fairq.ids_of_mail', 1, true);

SELECT pg_catalog.setval('fairq.ids_of_when', 1, true);

ALTER TABLE ONLY fairq."q_Größe ""x"" a.b"
    ADD CONSTRAINT "id_of_Größe ""x"" a.b" PRIMARY KEY (id);

ALTER TABLE ONLY fairq.q_jobs
    ADD CONSTRAINT id_of_jobs PRIMARY KEY (id);

ALTER TABLE ONLY fairq.q_mail
    ADD CONSTRAINT id_of_mail PRIMARY KEY (id);

ALTER TABLE ONLY fairq.q_when
    ADD CONSTRAINT id_of_when PRIMARY KEY (id);

ALTER TABLE ONLY fairq.done_mail
    ADD CONSTRAINT when_done_of_mail PRIMARY KEY (done_at, id);

CREATE INDEX "address_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (address) WHERE (address IS NOT NULL);

CREATE INDEX address_of_jobs ON fairq.q_jobs USING btree (address) WHERE (address IS NOT NULL);

CREATE INDEX address_of_mail ON fairq.q_mail USING btree (address) WHERE (address IS NOT NULL);

CREATE INDEX address_of_when ON fairq.q_when USING btree (address) WHERE (address IS NOT NULL);

CREATE INDEX "due_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (run_at) WHERE (state = 's'::"char");

CREATE INDEX due_of_jobs ON fairq.q_jobs USING btree (run_at) WHERE (state = 's'::"char");

CREATE INDEX due_of_mail ON fairq.q_mail USING btree (run_at) WHERE (state = 's'::"char");

CREATE INDEX due_of_when ON fairq.q_when USING btree (run_at) WHERE (state = 's'::"char");

CREATE INDEX "expiry_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX expiry_of_jobs ON fairq.q_jobs USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX expiry_of_mail ON fairq.q_mail USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX expiry_of_when ON fairq.q_when USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX "held_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (id) WHERE (state = 'h'::"char");

CREATE INDEX held_of_jobs ON fairq.q_jobs USING btree (id) WHERE (state = 'h'::"char");

CREATE INDEX held_of_mail ON fairq.q_mail USING btree (id) WHERE (state = 'h'::"char");

CREATE INDEX held_of_when ON fairq.q_when USING btree (id) WHERE (state = 'h'::"char");

CREATE INDEX id_done_of_mail ON fairq.done_mail USING btree (id);

CREATE INDEX "key_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (unique_key COLLATE "C") WHERE ((unique_key IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX key_of_jobs ON fairq.q_jobs USING btree (unique_key COLLATE "C") WHERE ((unique_key IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX key_of_mail ON fairq.q_mail USING btree (unique_key COLLATE "C") WHERE ((unique_key IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX key_of_when ON fairq.q_when USING btree (unique_key COLLATE "C") WHERE ((unique_key IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX "overflow_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (hashtextextended((group_key COLLATE "C"), (0)::bigint), priority, id) WHERE (state = 'o'::"char");

CREATE INDEX overflow_of_jobs ON fairq.q_jobs USING btree (hashtextextended((group_key COLLATE "C"), (0)::bigint), priority, id) WHERE (state = 'o'::"char");

CREATE INDEX overflow_of_mail ON fairq.q_mail USING btree (hashtextextended((group_key COLLATE "C"), (0)::bigint), priority, id) WHERE (state = 'o'::"char");

CREATE INDEX overflow_of_when ON fairq.q_when USING btree (hashtextextended((group_key COLLATE "C"), (0)::bigint), priority, id) WHERE (state = 'o'::"char");

CREATE TRIGGER fairq_row_written AFTER INSERT OR DELETE OR UPDATE ON fairq."q_Größe ""x"" a.b" FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();

ALTER TABLE fairq."q_Größe ""x"" a.b" ENABLE ALWAYS TRIGGER fairq_row_written;

CREATE TRIGGER fairq_row_written AFTER INSERT OR DELETE OR UPDATE ON fairq.q_jobs FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();

ALTER TABLE fairq.q_jobs ENABLE ALWAYS TRIGGER fairq_row_written;

CREATE TRIGGER fairq_row_written AFTER INSERT OR DELETE OR UPDATE ON fairq.q_mail FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();

ALTER TABLE fairq.q_mail ENABLE ALWAYS TRIGGER fairq_row_written;

CREATE TRIGGER fairq_row_written AFTER INSERT OR DELETE OR UPDATE ON fairq.q_when FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();

ALTER TABLE fairq.q_when ENABLE ALWAYS TRIGGER fairq_row_written;
