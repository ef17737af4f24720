# frozen_string_literal: true

require "helper"

# What one queue, or one task, does to others, which is nothing. Seen to fail, all of them: with
# one claim of all queues whose refusal ends the session; without the second try of a failure, and
# the third.
class IsolationTest < FairqTest
  LEASES = 1024 # of a server that has few

  def test_a_queue_that_is_dropped_is_put_off
    two_queues
    sql("SELECT fairq.drop_queue('other')")
    2.times { |i| done("default", "after #{i}") }
    wait_until("that is told") { log.include?("queue other is put off") }
    refute_includes log, "queue default is put off"
    queue("other")
    done("other", "again")
  end

  def test_a_locked_queue_keeps_no_other_from_being_claimed
    two_queues
    locked("other") do
      done("default", "meanwhile")
      wait_until("it is put off again") { log.scan("queue other is put off").size > 1 }
      done("default", "still")
    end
    done("other", "again")
  end

  def test_a_queue_that_cannot_be_made_keeps_no_other_waiting
    queue
    role = "ruby_worker_#{Process.pid}"
    sql("CREATE ROLE #{role} LOGIN; GRANT USAGE ON SCHEMA fairq TO #{role}; " \
        "GRANT SELECT, UPDATE, DELETE ON fairq.q_default TO #{role}; GRANT ALL ON results TO #{role}; GRANT ALL ON SEQUENCE results_id_seq TO #{role}")
    worker("--queues", "other,default", PGUSER: role)
    done("default", "done")
    assert_includes log, "cannot make queue other"
    sql("GRANT CREATE ON SCHEMA fairq TO #{role}")
    wait_until("it is made when that can be") { sql("SELECT FROM fairq.queues WHERE queue = 'other'").any? }
  ensure
    @workers.dup.each { |pid| stop(pid) }
    clean
    sql("DROP OWNED BY #{role}; DROP ROLE #{role}")
  end

  def test_an_error_that_a_table_refuses_is_a_failure_all_the_same
    queue(max_attempts: 2)
    sql("ALTER TABLE fairq.q_default ADD CONSTRAINT no_error CHECK (last_error IS NULL)")
    FailedJob.perform_later
    worker("--threads", 1)
    wait_until("it is dead") { tasks("default", "dead").any? }
    assert_equal ["2", nil], tasks.first.values_at("attempts", "last_error")
    assert_equal 2, marks("begun").size
  end

  def test_a_failure_that_a_table_refuses_gives_its_thread_back
    queue
    sql("ALTER TABLE fairq.q_default ADD CONSTRAINT no_failure CHECK (attempts = 0)")
    FailedJob.perform_later
    pid = worker("--threads", 1)
    wait_until("it runs") { marks("begun").any? }
    done("default", "by the same thread")
    times = wait_until("it runs again") { marks("begun").then { |found| found.map { |line| line.split.last.to_f } if found.size > 1 } }
    assert_operator times[1] - times[0], :>, 4, "and not at once"
    assert_equal 0, stop(pid)
    assert_equal [%w[ready 0]], tasks.map { |task| task.values_at("state", "attempts") }
  end

  def test_a_claim_for_which_there_is_no_room_ends_no_session
    sql("ALTER SYSTEM SET pgfairq.max_leases = #{LEASES}")
    Server.restart("fast")
    ActiveRecord::Base.connection_handler.clear_all_connections!
    queue
    queue("hog")
    sql("SELECT fairq.enqueue('hog', '{}') FROM generate_series(1, #{LEASES})")
    SlowJob.perform_later("long", 600)
    worker("--threads", 2, "--timeout", 0.1)
    wait_until("it runs") { marks("begun").any? }
    before = sql("SELECT session FROM fairq.sessions")
    receipts = sql("SELECT receipt FROM fairq.claim('hog', #{LEASES - 1}, lease => '1 h')").size
    assert_equal LEASES - 1, receipts
    WriteJob.perform_later("other")
    wait_until("it is told") { log.scan("queue default is put off").size > 1 }
    assert_empty marks("interrupted")
    assert_equal before, sql("SELECT session FROM fairq.sessions")
    sql("SELECT fairq.drop_queue('hog')")
    wait_for_results(1, "other")
    assert_equal before, sql("SELECT session FROM fairq.sessions")
  ensure
    sql("ALTER SYSTEM RESET pgfairq.max_leases")
    Server.restart("fast")
  end

  private

  # And a worker that has done a job of each.
  def two_queues
    queue
    queue("other")
    worker("--queues", "other,default")
    done("other", "first of other")
    done("default", "first")
  end

  def done(queue, result)
    WriteJob.set(queue: queue).perform_later(result)
    wait_for_results(1, result)
  end

  def locked(queue)
    Server.on(self.class.database) do |connection|
      connection.transaction do
        connection.exec("LOCK TABLE fairq.q_#{queue} IN ACCESS EXCLUSIVE MODE")
        yield
      end
    end
  end

  def log
    File.read(@log)
  end
end
