# frozen_string_literal: true

require "helper"

# Workers that are killed and stopped, sessions and servers that go. Seen to fail:
# with a fixed lease instead of the session, "slow jobs and a short time to live";
# without close_session on SIGTERM, "a job that does not end in time" (its attempt
# counts); without the interruption, "a session that is over"; without Interruption.behind
# in the worker, or in the job, "fails as it cleans up" (its attempt counts; it is retried);
# without the end of with_connections_given_back, "had for itself"; without LOCK_TIMEOUT, "a locked table"; where interrupt does not ask
# whether the job runs, or run does not look at the reason, "meets a job".
class FaultsTest < FairqTest
  def test_slow_jobs_and_a_short_time_to_live
    queue(lease: "2 s", max_attempts: 2)
    8.times { |i| SlowJob.perform_later(i.to_s, 3) } # each worker is at work for longer than the ttl
    workers = Array.new(2) { worker("--ttl", 10, "--threads", 1) }
    wait_until_empty
    assert_equal (0...8).map(&:to_s).sort, results.sort
    assert_equal 8, marks("begun").size, "none was begun in vain"
    assert_empty tasks("default", "dead")
    workers.each { |pid| assert_equal 0, stop(pid) }
  end

  def test_a_worker_that_is_killed
    queue
    4.times { |i| SlowJob.perform_later(i.to_s, 600) }
    pid = worker("--threads", 4)
    wait_until("all run") { marks("begun").size == 4 }
    Process.kill("KILL", pid)
    Process.wait(pid)
    sql("UPDATE fairq.q_default SET payload = jsonb_set(payload, '{arguments,1}', '0')")
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    wait_until("they are ready again") { tasks("default", "ready").size == 4 }
    puts "# ready again #{(Process.clock_gettime(Process::CLOCK_MONOTONIC) - started).round(2)} s after kill -9"
    worker
    wait_until_empty
    assert_equal %w[0 1 2 3], results.sort
  end

  def test_a_locked_table_does_not_end_the_session
    queue
    SlowJob.perform_later("long", 600)
    worker("--ttl", 8, "--threads", 2, "--timeout", 0.1)
    wait_until("it runs") { marks("begun").any? }
    before = sql("SELECT session FROM fairq.sessions")
    Server.on(self.class.database) do |connection|
      connection.transaction do
        connection.exec("LOCK TABLE fairq.q_default IN ACCESS EXCLUSIVE MODE")
        # for longer than a wait, and then an answer, may take otherwise
        alive = "SELECT FROM fairq.sessions WHERE alive_until > now() + '27 s'"
        wait_until("it has had several heartbeats") { connection.exec(alive).ntuples == 1 }
      end
    end
    assert_equal before, sql("SELECT session FROM fairq.sessions")
    assert_empty marks("interrupted")
  end

  def test_restarts_of_the_server
    queue
    300.times { |i| SlowJob.perform_later(i.to_s, 0.02) }
    workers = Array.new(2) { worker("--threads", 2, "--ttl", 5) }
    wait_for_results(30)
    Server.restart("fast")
    wait_for_results(100)
    Server.restart("immediate")
    wait_until_empty
    assert_equal (0...300).map(&:to_s).sort, results.sort, "each once"
    workers.each { |pid| assert_equal 0, stop(pid) }
  end

  def test_sigterm_lets_jobs_end_and_claims_no_more
    queue
    20.times { |i| SlowJob.perform_later(i.to_s, 1) }
    pid = worker("--threads", 2)
    wait_until("two run") { marks("begun").size >= 2 }
    assert_equal 0, stop(pid)
    done = results.size # two, or more where the signal comes late
    assert_equal marks("begun").size, done
    assert_operator done, :<, 20, "it claims no more"
    assert_equal [%w[ready 0]] * (20 - done), tasks.map { |task| task.values_at("state", "attempts") }
  end

  def test_a_job_that_does_not_end_in_time_is_given_back
    queue
    SlowJob.perform_later("long", 600)
    # A machine that is very busy may not let it end within the two seconds that it has.
    (1..5).each do |turn|
      pid = worker("--timeout", 0.2)
      wait_until("it runs") { marks("begun").size == turn }
      assert_equal 0, stop(pid)
      break if marks("interrupted").any?
    end
    assert_equal ["interrupted long ActiveJob::Fairq::WorkerStopped"], marks("interrupted")
    assert_empty results
    assert_equal [%w[ready 0]], tasks.map { |task| task.values_at("state", "attempts") }
  end

  def test_an_interrupted_job_that_fails_as_it_cleans_up_is_given_back
    queue
    %w[IOError KeyError].each { |error| UntidyJob.perform_later(error) }
    pid = worker("--timeout", 0.2, "--threads", 2)
    wait_until("both run") { marks("begun").size == 2 }
    assert_equal 0, stop(pid)
    assert_equal [%w[1 ready 0], %w[2 ready 0]], tasks.map { |task| task.values_at("id", "state", "attempts") }, "none failed, none is retried"
  end

  def test_a_second_signal_ends_the_patience
    queue
    SlowJob.perform_later("long", 600)
    pid = worker("--timeout", 600)
    wait_until("it runs") { marks("begun").any? && waiting.any? }
    Process.kill("TERM", pid)
    wait_until("it no longer waits for tasks") { waiting.empty? }
    assert_equal 0, stop(pid, "INT")
    assert_equal [%w[ready 0]], tasks.map { |task| task.values_at("state", "attempts") }
  end

  def test_an_idle_worker_stops
    queue
    pid = worker
    wait_until("it waits") { waiting.any? }
    assert_equal 0, stop(pid)
    assert_empty sql("SELECT FROM fairq.sessions")
  end

  def test_a_session_that_is_over_stops_its_jobs
    queue
    SlowJob.perform_later("long", 600)
    worker("--threads", 2)
    # not in a statement, where an interruption is that of the database
    wait_until("it runs") { marks("written").any? }
    sql("UPDATE fairq.q_default SET payload = jsonb_set(payload, '{arguments,1}', '0')")
    end_sessions
    wait_until_empty
    assert_equal ["long"], results, "by the second attempt"
    assert_equal ["interrupted long ActiveJob::Fairq::LeaseLost"], wait_until("the first is interrupted") { marks("interrupted").then { |m| m if m.any? } }
  end

  def test_a_connection_of_a_job_that_is_lost
    queue
    AsleepJob.perform_later("cut")
    worker("--threads", 1)
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(600)'"
    wait_until("it runs, and its connection is cut") { sql(cut).any? }
    wait_until_empty
    assert_equal ["cut at 2"], results, "noted as failed by another connection, and tried again"
  end

  def test_a_connection_that_a_job_had_for_itself_is_lost_after_it
    queue
    OutsideJob.perform_later("first", 0)
    worker("--threads", 1)
    wait_until_empty
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() " \
        "AND backend_type = 'client backend' AND pid <> pg_backend_pid()")
    OutsideJob.perform_later("second", 0)
    wait_until_empty
    assert_equal %w[first second], results
  end

  def test_an_interruption_meets_a_job_and_nothing_before_or_after_it
    ActiveJob::Fairq::Worker # loads what follows
    begun, go, met = Array.new(3) { Queue.new }
    crew = ActiveJob::Fairq::Crew.new(1) do |turn|
      around(turn.task, "before", begun, go)
      turn.run { around(turn.task, "job", begun, go) }
      around(turn.task, "after", begun, go)
      met << "nothing"
    rescue ActiveJob::Fairq::LeaseLost => error
      met << error.class.name.demodulize
    end
    session = Struct.new(:over?).new(false)
    ends = %w[before job after].map do |place|
      crew.start(place, session)
      begun.pop
      crew.interrupt(session, ActiveJob::Fairq::LeaseLost)
      go << true
      met.pop
    end
    assert_equal %w[LeaseLost LeaseLost nothing], ends
    crew.dismiss
  end

  private

  # Waits there, where interruptions are let in, as Active Record does.
  def around(place, here, begun, go)
    return unless place == here

    Thread.handle_interrupt(ActiveJob::Fairq::Interruption => :immediate) do
      begun << true
      go.pop
    end
  end

  # Workers that wait for tasks.
  def waiting
    sql("SELECT FROM pg_stat_activity WHERE query LIKE 'CALL fairq.wait_any%' AND state = 'active' AND datname = current_database()")
  end
end
