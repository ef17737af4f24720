# frozen_string_literal: true

require "helper"

# The same without Active Record: jobs are enqueued and run by plain connections of pg.
# Seen to fail: with a ROLLBACK left out of undone_on_failure, "errors of jobs"; with a
# connection kept that the server has closed, "connections that were closed"; with the
# parent's connections in the child, "a child process".
class PlainTest < FairqTest
  include PlainConnections

  def test_jobs_write_through_the_connection
    WriteJob.perform_later("a")
    ChainJob.perform_later("b", false)
    pid = worker(mode: "plain")
    wait_for_results(2)
    wait_until_empty
    assert_equal %w[a b], results.sort
    assert_equal 0, stop(pid)
  end

  def test_errors_of_jobs
    queue(max_attempts: 1)
    RetriedJob.perform_later("acme", "flaky once")
    RetriedJob.perform_later("acme", "useless")
    FailingJob.perform_later("a")
    ChainJob.perform_later("never", true)
    worker(mode: "plain")
    wait_until("two are left") { tasks.size == 2 && tasks("default", "dead").size == 2 }
    assert_equal ["attempt 2", "discarded: of no use"], results.sort
  end

  def test_a_session_that_is_over_stops_its_jobs
    queue
    SlowJob.perform_later("long", 600)
    worker(mode: "plain")
    wait_until("it runs") { marks("begun").any? }
    sql("UPDATE fairq.q_default SET payload = jsonb_set(payload, '{arguments,1}', '0')")
    end_sessions
    wait_until_empty
    assert_equal ["long"], results
    assert_equal ["interrupted long ActiveJob::Fairq::LeaseLost"], wait_until("the first is interrupted") { marks("interrupted").then { |m| m if m.any? } }
  end

  def test_a_transaction_of_the_producer
    ActiveJob::Fairq.database.transaction do
      WriteJob.perform_later("kept")
      assert_raises(RuntimeError) do
        ActiveJob::Fairq.database.transaction do
          WriteJob.perform_later("undone")
          raise "no"
        end
      end
    end
    assert_equal 1, tasks.size
  end

  def test_connections_that_were_closed
    WriteJob.perform_later("a")
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'")
    wait_until("they are gone") { sql("SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'").empty? }
    WriteJob.perform_later("b")
    assert_equal 2, tasks.size
  end

  def test_a_child_process_has_connections_of_its_own
    WriteJob.perform_later("parent")
    backend = -> { ActiveJob::Fairq.database.call("SELECT pg_backend_pid()") }
    of_parent = backend.call
    child = fork { exit!(backend.call == of_parent ? 1 : 0) }
    assert_predicate Process.wait2(child).last, :success?
    assert_equal of_parent, backend.call
  end

  def test_rails_waits_for_the_commit
    assert ActiveJob::Base.queue_adapter.enqueue_after_transaction_commit?
  end

  def test_without_any_database
    ActiveJob::Fairq.database_url = nil
    ActiveJob::Fairq.reset
    error = assert_raises(ActiveJob::Fairq::ConfigurationError) { WriteJob.perform_later("a") }
    assert_match(/set config.fairq.database_url or FAIRQ_DATABASE_URL/, error.message)
  end
end
