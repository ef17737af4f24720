# frozen_string_literal: true

require "helper"
require "active_job/fairq/session"

# What subscribers of ActiveSupport::Notifications hear of a worker, and the trace that its
# jobs carry. Seen to fail: without guarded, "subscribers that fail" (the jobs are done, and
# no thread is left for the next); without the look at the count of attempts in DIED, or
# without died?, "failures" (no death, or one of each attempt); with Trace.fit that takes
# what it is given, "a trace that is none"; without the headers of the running job, "a trace
# goes on"; without the rescue in Trace, "a trace that is none"; without the one in Task#headers,
# "headers that the parser refuses" (the thread has ended, and the next job waits).
class NoticesTest < FairqTest
  TRACE = { "traceparent" => "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate" => "vendor=1" }.freeze

  def teardown
    super
    ActiveJob::Fairq.trace_context = nil
  end

  def listening_worker(*arguments, **options)
    worker(*arguments, require: File.join(__dir__, "subscribers.rb"), **options)
  end

  # What was heard, of one event or of all, in its order.
  def heard(event = nil, moment: "finish")
    marks("heard").map { |line| JSON.parse(line.delete_prefix("heard ")) }
                  .select { |one| one["moment"] == moment && (event.nil? || one["event"] == "#{event}.fairq") }
  end

  def wait_for_heard(count, event)
    wait_until("#{count} of #{event}") { heard(event).size >= count }
    heard(event)
  end

  def test_a_job_and_its_worker
    queue(subgroups: true)
    UserJob.perform_later("acme", "ann", "x")
    pid = listening_worker("--threads", 2)
    done, = wait_for_heard(1, "perform")
    assert_equal 0, stop(pid)
    assert_equal({ "task_id" => "1", "queue" => "default", "name" => "UserJob", "group" => "acme", "subgroup" => "ann", "attempt" => 1,
                   "headers" => {}, "worker" => true, "outcome" => "done", "moment" => "finish", "event" => "perform.fairq" }, done)
    assert_equal [done.except("outcome").merge("moment" => "start")], heard("perform", moment: "start")
    assert_equal %w[worker_start.fairq perform.fairq worker_stop.fairq], heard.map { |one| one["event"] }
    about = { "queues" => ["default"], "threads" => 2, "worker" => true }
    assert_equal about, heard("worker_start").first.except("moment", "event")
    assert_equal about.merge("ended" => true), heard("worker_stop").first.except("moment", "event")
  end

  def test_failures
    queue(max_attempts: 2)
    FailingJob.perform_later("a")
    HopelessJob.perform_later("says so")
    RetriedJob.perform_later("acme", "flaky once")
    sql("SELECT fairq.enqueue('default', '[]')")
    listening_worker("--threads", 1)
    wait_for_heard(3, "dead")
    wait_for_heard(7, "perform")
    assert_equal [["1", 1, "RuntimeError", "failed"], ["1", 2, "RuntimeError", "dead"], ["2", 1, "ActiveJob::Fairq::Unrecoverable", "dead"],
                  ["4", 1, "ActiveJob::Fairq::PayloadError", "failed"], ["4", 2, "ActiveJob::Fairq::PayloadError", "dead"]],
                 heard("failed").map { |one| one.values_at("task_id", "attempt", "error", "outcome") }.sort
    assert_equal [["1", 2], ["2", 1], ["4", 2]], heard("dead").map { |one| one.values_at("task_id", "attempt") }.sort
    assert_equal [["3", 1, "done"], ["5", 1, "done"]], heard("perform").map { |one| one.values_at("task_id", "attempt", "outcome") }
                                                                        .select { |one| one.last == "done" }
    assert_equal [["ActiveJob::Fairq::Unrecoverable", "no such mailbox"]], heard("dead").select { |one| one["task_id"] == "2" }.map { |one| one["exception"] }
    assert_equal 3, File.readlines(@log).grep(/is dead$/).size
  end

  def test_a_death_is_of_the_attempt_that_brought_it
    queue(max_attempts: 2)
    WriteJob.perform_later("x")
    2.times { sql("SELECT fairq.nack((SELECT receipt FROM fairq.claim('default')))") }
    died = (1..2).map do |attempt|
      task = ActiveJob::Fairq::Task.new("default", "1").tap { |one| one.attempt = attempt }
      ActiveJob::Fairq::Execution.new(task, ActiveJob::Fairq.database).send(:died?)
    end
    assert_equal [false, true], died
  end

  def test_a_job_that_is_lost_and_one_that_is_given_back
    queue
    SlowJob.perform_later("long", 600)
    pid = listening_worker("--threads", 1, "--timeout", 0.2)
    wait_until("it runs") { marks("begun").any? }
    end_sessions
    lost, = wait_for_heard(1, "lost")
    assert_equal ["1", "lost", "ActiveJob::Fairq::LeaseLost"], lost.values_at("task_id", "outcome", "error")
    # A machine that is very busy may not let it end within the two seconds that it has.
    (2..6).each do |turn|
      wait_until("it runs again") { marks("begun").size == turn }
      assert_equal 0, stop(pid)
      break if heard("perform").size > 1
      pid = listening_worker("--threads", 1, "--timeout", 0.2)
    end
    assert_equal %w[lost released], heard("perform").map { |one| one["outcome"] }
    assert_empty heard("failed") + heard("dead")
    assert_equal 1, heard("lost").size
  end

  def test_subscribers_that_fail
    3.times { |i| WriteJob.perform_later(i.to_s) }
    pid = listening_worker("--threads", 1, MISBEHAVE: "1")
    wait_until_empty
    WriteJob.perform_later("next")
    wait_for_results(4)
    assert_equal 0, stop(pid)
    assert_match(/a subscriber of Notifications has failed: .*a subscriber of perform\.fairq fails/, File.read(@log))
  end

  def test_headers_that_the_parser_refuses_stop_no_thread
    queue(keep_done: "1 day")
    sql("SELECT fairq.enqueue('default', '{\"arguments\": [\"deep\"]}', name => 'WriteJob', " \
        "headers => (repeat('[', 200) || repeat(']', 200))::jsonb)")
    WriteJob.perform_later("next")
    pid = listening_worker("--threads", 1)
    wait_for_results(2)
    assert_equal 0, stop(pid)
    assert_equal [{}, {}], heard("perform").map { |one| one["headers"] }
  end

  def test_a_trace_goes_on
    queue(keep_done: "1 day")
    ActiveJob::Fairq.trace_context = -> { TRACE.transform_keys(&:to_sym).merge(other: "x") }
    ChainJob.perform_later("child", false)
    RetriedJob.perform_later("acme", "flaky once")
    ActiveJob::Fairq.trace_context = nil
    WriteJob.perform_later("none")
    listening_worker
    wait_for_results(3)
    wait_until_empty
    headers = sql("SELECT name, headers FROM fairq.done_default ORDER BY id").map { |row| [row["name"], row["headers"] && JSON.parse(row["headers"])] }
    assert_equal TRACE, headers.assoc("ChainJob").last
    assert_equal [nil, TRACE], headers.select { |name, _| name == "WriteJob" }.map(&:last)
    assert_equal [{}, { "retry_of" => "2", "executions" => 1, "error" => "Flaky: not yet" }],
                 headers.select { |name, _| name == "RetriedJob" }.map { |_, found| found.except(*TRACE.keys) }
    assert_equal [TRACE, TRACE], headers.select { |name, _| name == "RetriedJob" }.map { |_, found| found.slice(*TRACE.keys) }
    wait_for_heard(5, "perform")
    assert_equal 4, heard("perform").count { |one| one["headers"].slice(*TRACE.keys) == TRACE }
  end

  def test_a_trace_that_is_none
    log = StringIO.new
    ActiveJob::Base.logger = Logger.new(log)
    good = TRACE["traceparent"]
    [{ "traceparent" => 7 }, { "traceparent" => good.upcase }, { "traceparent" => "#{good}\n" }, { "traceparent" => good.sub("4bf9", "") },
     { "traceparent" => good.sub(/-\h{32}-/, "-#{'0' * 32}-") }, { "traceparent" => "ff#{good[2..]}" }, "text", Object.new].each do |given|
      log.truncate(0)
      ActiveJob::Fairq.trace_context = -> { given }
      WriteJob.perform_later("x")
      assert_match(/trace_context gives no trace, and the job goes without: /, log.string, given.inspect)
    end
    ActiveJob::Fairq.trace_context = -> { raise "no tracer" }
    WriteJob.perform_later("x")
    assert_match(/RuntimeError: no tracer/, log.string)
    log.truncate(0)
    [nil, {}, { "tracestate" => "a=1" }].each do |given|
      ActiveJob::Fairq.trace_context = -> { given }
      WriteJob.perform_later("x")
    end
    refute_match(/trace_context/, log.string)
    assert_equal [nil], tasks.map { |task| task["headers"] }.uniq
    ActiveJob::Fairq.trace_context = -> { { traceparent: good, tracestate: "a\nb" } }
    WriteJob.perform_later("x")
    assert_equal({ "traceparent" => good }, JSON.parse(tasks.last["headers"]))
    error = assert_raises(ActiveJob::Fairq::ConfigurationError) { ActiveJob::Fairq.trace_context = "x" }
    assert_match(/trace_context is "x"; give something to call/, error.message)
  ensure
    ActiveJob::Base.logger = Logger.new(nil)
  end
end
