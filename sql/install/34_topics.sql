-- Which queues want what is published. A subscription goes with the settings of
-- its queue.
CREATE TABLE fairq.topic (
    topic pg_catalog.text COLLATE pg_catalog."C" NOT NULL,
    queue pg_catalog.text COLLATE pg_catalog."C" NOT NULL REFERENCES fairq.queue ON DELETE CASCADE,
    PRIMARY KEY (queue, topic)
);
SELECT pg_catalog.pg_extension_config_dump('fairq.topic', '');

-- pg_restore may load this table before fairq.queue: an archive does not say that
-- it refers to it. So only a deletion there is looked after; that a queue exists
-- when a row is written is seen to by the functions, which have its table locked.
ALTER TABLE fairq.topic DISABLE TRIGGER ALL;
REVOKE ALL ON fairq.topic FROM PUBLIC;
GRANT SELECT ON fairq.topic TO PUBLIC;
