-- as: owner
-- Foreign keys from and to the queue and its archive.
CREATE TABLE attack.t (id bigint PRIMARY KEY);
CREATE TABLE attack.u (id bigint REFERENCES fairq.q_theirs (id) ON DELETE CASCADE);
ALTER TABLE fairq.done_theirs ADD FOREIGN KEY (id) REFERENCES attack.t DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE fairq.q_theirs ADD FOREIGN KEY (id) REFERENCES attack.t NOT VALID;
