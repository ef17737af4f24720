-- A database of version 0.1.0 with tasks in every state, as pg_dump of version 15
-- writes it: it was made with the calls below. The times are moved, and the
-- extension is created by the test.
--
--   SELECT fairq.create_queue('mail', buckets => 2, max_ready_per_group => 3, keep_done => '3650 days', durable_leases => true, max_tasks => 1000, backoff_base => '1 h');
--   SELECT fairq.create_queue('jobs', policy => 'priority', buckets => 1, lease => '5 min', notify => true);
--   SELECT fairq.create_queue('when', policy => 'time', buckets => 1, max_attempts => 0);
--   SELECT fairq.create_queue('Größe "x" a.b', charge => 'seconds', max_ready => 50);
--   SELECT fairq.set_group('mail', 'heavy', weight => 3, max_leased => 2);
--   SELECT fairq.set_group('mail', 'slow', rate => 0.5, burst => 4);
--   SELECT fairq.set_group('mail', 'nothing');
--   SELECT fairq.set_group('mail', 'as all', weight => 1, max_leased => 0, rate => 0, burst => 0);
--   SELECT fairq.pause('mail', 'paused');
--   SELECT fairq.pause('mail', 'resumed'); SELECT fairq.resume('mail', 'resumed');
--   SELECT fairq.set_group_defaults('jobs', weight => 2, max_leased => 100);
--   SELECT fairq.subscribe('orders.#', 'mail');
--   SELECT fairq.subscribe('orders.*.paid', 'Größe "x" a.b');
-- -- dead, done, cancelled
--   SELECT fairq.enqueue('mail', '"dead"', 'dead', max_attempts => 1);
--   SELECT fairq.nack(receipt, 'hopeless') FROM fairq.claim('mail');
--   SELECT fairq.enqueue('mail', '"acked"', 'done', cost => 2.5, headers => '{"h": 1}');
--   SELECT fairq.ack(receipt) FROM fairq.claim('mail');
--   SELECT fairq.enqueue('mail', '"cancelled"', 'done', priority => 9);
--   SELECT fairq.cancel('mail', 3);
-- -- failed once, and waits; leased, and one is held behind it
--   SELECT fairq.enqueue('mail', '"failed"', 'retried');
--   SELECT fairq.nack(receipt, 'once more') FROM fairq.claim('mail');
--   SELECT fairq.enqueue('mail', '"leased"', 'leased', unique_key => 'k', lease => '1 day');
--   SELECT FROM fairq.claim('mail');
--   SELECT fairq.enqueue('mail', '"held"', 'leased', unique_key => 'k');
-- -- ready, and what has no room
--   SELECT fairq.enqueue_many('mail', array_agg(to_jsonb('ready ' || i)), '{many}') FROM generate_series(1, 8) i;
--   SELECT fairq.enqueue('mail', '"first"', 'heavy', priority => 1, cost => 3, unique_key => 'waits', max_attempts => 7);
--   SELECT fairq.enqueue('mail', '"of the paused"', 'paused');
--   SELECT fairq.enqueue('mail', '"later"', 'later', run_at => '2100-01-01 00:00+00');
--   SELECT fairq.enqueue('jobs', to_jsonb(i), priority => -i) FROM generate_series(1, 3) i;
--   SELECT fairq.enqueue('when', to_jsonb(i), run_at => '2020-01-01 00:00+00'::timestamptz - i * interval '1 day') FROM generate_series(1, 3) i;
--   SELECT fairq.enqueue('when', '"later"', run_at => '2100-01-01 00:00+00');
--   SELECT fairq.enqueue('Größe "x" a.b', '{"a": [1, null, "ü"]}', 'grün');
--   SELECT fairq.pause('Größe "x" a.b');


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
    last_error text
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
    last_error text
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
    last_error text
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
    last_error text
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
    last_error text
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

COPY fairq.done_mail (id, enqueued_at, claimed_at, done_at, run_at, priority, cost, attempts, outcome, group_key, payload, headers, unique_key, last_error) FROM stdin;
2	2024-11-23 00:25:35.570374+00	2024-11-23 00:25:35.570624+00	2024-11-23 00:25:35.570673+00	\N	0	2.5	1	acked	done	"acked"	{"h": 1}	\N	\N
3	2024-11-23 00:25:35.571327+00	\N	2024-11-23 00:25:35.571562+00	\N	9	1	0	cancelled	done	"cancelled"	\N	\N	\N
\.

COPY fairq.queue (queue, policy, buckets, lease, max_attempts, backoff_base, backoff_max, max_ready, max_ready_per_group, max_tasks, keep_done, durable_leases, charge, notify, group_weight, group_max_leased, group_rate, group_burst, paused) FROM stdin;
mail	fair	2	00:00:30	20	01:00:00	01:00:00	1000000	3	1000	3650 days	t	cost	f	1	0	0	0	f
when	time	1	00:00:30	0	00:00:01	01:00:00	1000000	10000	\N	\N	f	cost	f	1	0	0	0	f
jobs	priority	1	00:05:00	20	00:00:01	01:00:00	1000000	10000	\N	\N	f	cost	t	2	100	0	0	f
Größe "x" a.b	fair	16	00:00:30	20	00:00:01	01:00:00	50	10000	\N	\N	f	seconds	f	1	0	0	0	t
\.

COPY fairq.group_setting (queue, group_key, weight, max_leased, rate, burst, paused) FROM stdin;
mail	heavy	3	2	\N	\N	f
mail	slow	\N	\N	0.5	4	f
mail	nothing	\N	\N	\N	\N	f
mail	as all	1	0	0	0	f
mail	paused	\N	\N	\N	\N	t
mail	resumed	\N	\N	\N	\N	f
\.

COPY fairq."q_Größe ""x"" a.b" (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts, run_at, max_attempts, lease, headers, unique_key, last_error) FROM stdin;
1	(0,0,0)	2024-11-23 00:25:35.581207+00	r	grün	{"a": [1, null, "ü"]}	0	1	0	\N	\N	\N	\N	\N	\N
\.

COPY fairq.q_jobs (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts, run_at, max_attempts, lease, headers, unique_key, last_error) FROM stdin;
1	(0,-1,1)	2024-11-23 00:25:35.578495+00	r		1	-1	1	0	\N	\N	\N	\N	\N	\N
2	(0,-2,2)	2024-11-23 00:25:35.578761+00	r		2	-2	1	0	\N	\N	\N	\N	\N	\N
3	(0,-3,3)	2024-11-23 00:25:35.578778+00	r		3	-3	1	0	\N	\N	\N	\N	\N	\N
\.

COPY fairq.q_mail (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts, run_at, max_attempts, lease, headers, unique_key, last_error) FROM stdin;
1	\N	2024-11-23 00:25:35.568766+00	d	dead	"dead"	0	1	1	\N	1	\N	\N	\N	hopeless
4	\N	2024-11-23 00:25:35.571752+00	s	retried	"failed"	0	1	1	2024-11-23 01:21:19.525655+00	\N	\N	\N	\N	once more
5	(0,4.5,0)	2024-11-23 00:25:35.572319+00	r	leased	"leased"	0	1	0	\N	\N	1 day	\N	k	\N
6	\N	2024-11-23 00:25:35.576377+00	h	leased	"held"	0	1	0	\N	\N	\N	\N	k	\N
7	(0,5.5,1)	2024-11-23 00:25:35.577161+00	r	many	"ready 1"	0	1	0	\N	\N	\N	\N	\N	\N
8	(0,6.5,1)	2024-11-23 00:25:35.577161+00	r	many	"ready 2"	0	1	0	\N	\N	\N	\N	\N	\N
9	(1,7.5,1)	2024-11-23 00:25:35.577161+00	r	many	"ready 3"	0	1	0	\N	\N	\N	\N	\N	\N
10	\N	2024-11-23 00:25:35.577161+00	o	many	"ready 4"	0	1	0	\N	\N	\N	\N	\N	\N
11	\N	2024-11-23 00:25:35.577161+00	o	many	"ready 5"	0	1	0	\N	\N	\N	\N	\N	\N
12	\N	2024-11-23 00:25:35.577161+00	o	many	"ready 6"	0	1	0	\N	\N	\N	\N	\N	\N
13	\N	2024-11-23 00:25:35.577161+00	o	many	"ready 7"	0	1	0	\N	\N	\N	\N	\N	\N
14	\N	2024-11-23 00:25:35.577161+00	o	many	"ready 8"	0	1	0	\N	\N	\N	\N	\N	\N
15	(0,1:0,0)	2024-11-23 00:25:35.577575+00	r	heavy	"first"	1	3	0	\N	7	\N	\N	waits	\N
16	(1,5.5,2)	2024-11-23 00:25:35.577805+00	r	paused	"of the paused"	0	1	0	\N	\N	\N	\N	\N	\N
17	\N	2024-11-23 00:25:35.578009+00	s	later	"later"	0	1	0	2100-01-01 00:00:00+00	\N	\N	\N	\N	\N
\.

COPY fairq.q_when (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts, run_at, max_attempts, lease, headers, unique_key, last_error) FROM stdin;
1	(0,631065600000000,1)	2024-11-23 00:25:35.58017+00	r		1	0	1	0	2019-12-31 00:00:00+00	\N	\N	\N	\N	\N
2	(0,630979200000000,2)	2024-11-23 00:25:35.580767+00	r		2	0	1	0	2019-12-30 00:00:00+00	\N	\N	\N	\N	\N
3	(0,630892800000000,3)	2024-11-23 00:25:35.580782+00	r		3	0	1	0	2019-12-29 00:00:00+00	\N	\N	\N	\N	\N
4	\N	2024-11-23 00:25:35.580961+00	s		"later"	0	1	0	2100-01-01 00:00:00+00	\N	\N	\N	\N	\N
\.

COPY fairq.topic (topic, queue) FROM stdin;
orders.#	mail
orders.*.paid	Größe "x" a.b
\.

SELECT pg_catalog.setval('fairq."ids_of_Größe ""x"" a.b"', 1, true);

SELECT pg_catalog.setval('fairq.ids_of_jobs', 1, true);

SELECT pg_catalog.setval('fairq.ids_of_mail', 1, true);

SELECT pg_catalog.setval('fairq.ids_of_when', 1, true);

ALTER TABLE ONLY fairq.done_mail
    ADD CONSTRAINT archived_of_mail PRIMARY KEY (done_at, id);

ALTER TABLE ONLY fairq."q_Größe ""x"" a.b"
    ADD CONSTRAINT "id_of_Größe ""x"" a.b" PRIMARY KEY (id);

ALTER TABLE ONLY fairq.q_jobs
    ADD CONSTRAINT id_of_jobs PRIMARY KEY (id);

ALTER TABLE ONLY fairq.q_mail
    ADD CONSTRAINT id_of_mail PRIMARY KEY (id);

ALTER TABLE ONLY fairq.q_when
    ADD CONSTRAINT id_of_when PRIMARY KEY (id);

CREATE INDEX "address_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (address) WHERE (address IS NOT NULL);

CREATE INDEX address_of_jobs ON fairq.q_jobs USING btree (address) WHERE (address IS NOT NULL);

CREATE INDEX address_of_mail ON fairq.q_mail USING btree (address) WHERE (address IS NOT NULL);

CREATE INDEX address_of_when ON fairq.q_when USING btree (address) WHERE (address IS NOT NULL);

CREATE INDEX "due_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (run_at) WHERE (state = 's'::"char");

CREATE INDEX due_of_jobs ON fairq.q_jobs USING btree (run_at) WHERE (state = 's'::"char");

CREATE INDEX due_of_mail ON fairq.q_mail USING btree (run_at) WHERE (state = 's'::"char");

CREATE INDEX due_of_when ON fairq.q_when USING btree (run_at) WHERE (state = 's'::"char");

CREATE INDEX "held_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (id) WHERE (state = 'h'::"char");

CREATE INDEX held_of_jobs ON fairq.q_jobs USING btree (id) WHERE (state = 'h'::"char");

CREATE INDEX held_of_mail ON fairq.q_mail USING btree (id) WHERE (state = 'h'::"char");

CREATE INDEX held_of_when ON fairq.q_when USING btree (id) WHERE (state = 'h'::"char");

CREATE INDEX "key_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (unique_key COLLATE "C") WHERE ((unique_key IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX key_of_jobs ON fairq.q_jobs USING btree (unique_key COLLATE "C") WHERE ((unique_key IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX key_of_mail ON fairq.q_mail USING btree (unique_key COLLATE "C") WHERE ((unique_key IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX key_of_when ON fairq.q_when USING btree (unique_key COLLATE "C") WHERE ((unique_key IS NOT NULL) AND (state <> 'd'::"char"));

CREATE INDEX "overflow_of_Größe ""x"" a.b" ON fairq."q_Größe ""x"" a.b" USING btree (hashtextextended((group_key COLLATE "C"), (0)::bigint), priority, id) WHERE (state = 'o'::"char");

CREATE INDEX overflow_of_jobs ON fairq.q_jobs USING btree (hashtextextended((group_key COLLATE "C"), (0)::bigint), priority, id) WHERE (state = 'o'::"char");

CREATE INDEX overflow_of_mail ON fairq.q_mail USING btree (hashtextextended((group_key COLLATE "C"), (0)::bigint), priority, id) WHERE (state = 'o'::"char");

CREATE INDEX overflow_of_when ON fairq.q_when USING btree (hashtextextended((group_key COLLATE "C"), (0)::bigint), priority, id) WHERE (state = 'o'::"char");

CREATE TRIGGER fairq_row_written AFTER INSERT OR DELETE OR UPDATE ON fairq."q_Größe ""x"" a.b" FOR EACH ROW EXECUTE FUNCTION fairq.row_written();

ALTER TABLE fairq."q_Größe ""x"" a.b" ENABLE ALWAYS TRIGGER fairq_row_written;

CREATE TRIGGER fairq_row_written AFTER INSERT OR DELETE OR UPDATE ON fairq.q_jobs FOR EACH ROW EXECUTE FUNCTION fairq.row_written();

ALTER TABLE fairq.q_jobs ENABLE ALWAYS TRIGGER fairq_row_written;

CREATE TRIGGER fairq_row_written AFTER INSERT OR DELETE OR UPDATE ON fairq.q_mail FOR EACH ROW EXECUTE FUNCTION fairq.row_written();

ALTER TABLE fairq.q_mail ENABLE ALWAYS TRIGGER fairq_row_written;

CREATE TRIGGER fairq_row_written AFTER INSERT OR DELETE OR UPDATE ON fairq.q_when FOR EACH ROW EXECUTE FUNCTION fairq.row_written();

ALTER TABLE fairq.q_when ENABLE ALWAYS TRIGGER fairq_row_written;

