# frozen_string_literal: true

require "helper"

# What a worker does with a job, with Active Record. Seen to fail: without the
# savepoint of an attempt, a retry after an error of the database, and what a failed
# attempt wrote is there; without OwnTransactions, "a transaction of the job's own";
# without last_attempt, "retry_on that has had its attempts"; with an acknowledgement
# outside of the transaction, "an ack that is refused"; with a claim for all threads
# instead of the free ones, "claims only what is free to run"; without RetryAtOnce, "a
# retry does not wait"; without the place from the payload, "keeps its group"; without
# rescue_with_handler of Job, without `final` for Unrecoverable and without give_up in
# give_up_on, "no other attempt would mend"; without the name in the log or in place of the
# class, or without the class in place of the name, "the name is in the log"; without
# SchemaOfThread, "learns of a table".
class WorkerTest < FairqTest
  def test_runs_the_jobs_of_its_queues_and_no_others
    WriteJob.set(queue: "other").perform_later("other")
    WriteJob.set(queue: "low").perform_later("low")
    WriteJob.perform_later("first")
    worker("--queues", "default,low")
    wait_for_results(2)
    assert_equal %w[first low], results.sort
    assert_equal %w[ready], tasks("other").map { |task| task["state"] }
  end

  def test_a_job_learns_of_a_table_while_another_has_its_transaction
    ActiveJob::Fairq::RecordDatabase.keep_threads_apart
    pool = Result.connection_pool
    begun, go, found = Array.new(3) { Queue.new }
    asking = Thread.new do
      pool.with_connection do |connection|
        cache = connection.schema_cache
        begun << true
        go.pop
        found << cache.columns("results")
      end
    end
    begun.pop
    pool.with_connection do |connection|
      connection.transaction do
        connection.schema_cache.clear!
        go << true
        wait_until("the other thread has its answer") { found.size == 1 }
      end
    end
    assert_equal %w[id result], found.pop.map(&:name)
  ensure
    go << true
    asking.join
  end

  def test_a_job_for_later_runs_when_it_is_due
    queue
    WriteJob.set(wait: 1.hour).perform_later("in an hour")
    WriteJob.set(wait: 1.second).perform_later("in a second")
    due = Time.parse(tasks.last["run_at"])
    worker
    wait_for_results(1)
    assert_operator Time.now, :>=, due
    WriteJob.perform_later("now")
    wait_for_results(2)
    assert_equal ["in a second", "now"], results
  end

  def test_locale_timezone_and_numbers_of_the_job
    Time.zone = "Hawaii"
    I18n.locale = :de
    job = WhereJob.set(priority: 7).perform_later
    worker
    wait_for_results(1)
    assert_equal ["de Hawaii #{job.provider_job_id} 1 7"], results
  ensure
    I18n.locale = :en
    Time.zone = nil
  end

  def test_the_name_is_in_the_log_and_stands_in_for_the_class
    queue(max_attempts: 1)
    FailingJob.perform_later("named")
    sql("SELECT fairq.enqueue('default', payload - 'fairq') FROM fairq.tasks('default')") # as SQL of before tasks had names
    sql("SELECT fairq.enqueue('default', '{\"arguments\": [\"by its name\"]}', name => 'WriteJob')")
    sql("SELECT fairq.enqueue('default', '{}', name => E'no\\njob')")
    sql("SELECT fairq.enqueue('default', '[]')")
    worker("--threads", 1)
    wait_until("four are dead") { tasks("default", "dead").size == 4 }
    assert_equal ["by its name"], results
    lines = File.readlines(@log).grep(/attempt 1/).map { |line| line[/task .*/] }
    assert_equal ['task 1 ("FailingJob") of default, attempt 1: RuntimeError', 'task 2 ("FailingJob") of default, attempt 1: RuntimeError',
                  'task 4 ("no\\njob") of default, attempt 1: ActiveJob::Fairq::PayloadError', "task 5 of default, attempt 1: ActiveJob::Fairq::PayloadError"],
                 lines.map { |line| line[/.*?: [\w:]*\w/] }.sort
  end

  def test_the_more_urgent_comes_first
    [5, 2, 9, 0].each { |priority| WriteJob.set(priority: priority).perform_later(priority.to_s) }
    worker("--threads", 1)
    wait_for_results(4)
    assert_equal %w[0 2 5 9], results
  end

  def test_tenants_have_their_turns
    30.times { |i| TenantJob.perform_later(tenant: "bob", text: i) }
    3.times { |i| TenantJob.perform_later(tenant: "alice", text: i) }
    TenantJob.perform_later(tenant: "carol", text: 0)
    worker("--threads", 1)
    wait_for_results(34)
    assert_equal %w[bob0 alice0 carol0 bob1 alice1 bob2 alice2 bob3], results.first(8).each_slice(1).to_a.flatten
      .then { |order| order.first(1) + order[1, 2].sort + order[3..] }
  end

  def test_what_costs_more_has_fewer_turns
    6.times { |i| TenantJob.perform_later(tenant: "big", text: i, pages: 3) }
    6.times { |i| TenantJob.perform_later(tenant: "small", text: i, pages: 1) }
    worker("--threads", 1)
    wait_for_results(12)
    assert_equal 2, results.first(8).count { |result| result.start_with?("big") }, results.join(" ")
  end

  def test_retry_on_enqueues_the_job_anew_with_its_group_and_error
    queue
    first = RetriedJob.perform_later("acme", "flaky once")
    sql("SELECT fairq.alter_queue('default', keep_done => '1 day')")
    worker("--threads", 1)
    wait_for_results(1)
    wait_until_empty
    assert_equal ["attempt 2"], results, "what the first attempt wrote is undone"
    done = sql("SELECT id, group_key, cost, headers FROM fairq.done_default ORDER BY id")
    assert_equal [first.provider_job_id, %w[acme 3], %w[acme 3]], [done[0]["id"], *done.map { |row| row.values_at("group_key", "cost") }]
    assert_equal({ "retry_of" => first.provider_job_id, "executions" => 1, "error" => "Flaky: not yet" }, JSON.parse(done[1]["headers"]))
  end

  def test_the_users_of_a_group_are_served_by_turns
    queue(subgroups: true)
    ActiveJob::Base.queue_adapter.enqueue_all([%w[ann 1], %w[ann 2], %w[ann 3], %w[bob 1]].map { |user, n| UserJob.new("acme", user, n) })
    sql("SELECT fairq.enqueue('default', '{\"job_class\": \"UserJob\", \"arguments\": [\"acme\", \"eve\", \"1\"]}', group_key => 'acme', subgroup_key => 'eve')")
    sql("SELECT fairq.pause_subgroup('default', 'acme', 'eve')")
    worker("--threads", 1)
    wait_for_results(4)
    assert_equal ["ann 1", "bob 1"], results.first(2).sort
    assert_equal ["ann 2", "ann 3"], results.last(2)
    sql("SELECT fairq.resume_subgroup('default', 'acme', 'eve')")
    wait_for_results(5)
    wait_until_empty
  end

  def test_a_retry_keeps_its_subgroup
    queue(subgroups: true, keep_done: "1 day")
    RetriedOfUserJob.perform_later("acme", "flaky once")
    worker("--threads", 1)
    wait_until_empty
    assert_equal [%w[acme ann], %w[acme ann]],
                 sql("SELECT group_key, subgroup_key FROM fairq.done_default ORDER BY id").map(&:values)
  end

  def test_retry_on_that_has_had_its_attempts_leaves_the_task_dead
    queue
    RetriedJob.perform_later("acme", "flaky")
    worker
    wait_until("a dead task") { tasks("default", "dead").size == 1 }
    dead = tasks.first
    assert_equal 1, tasks.size
    assert_equal "1", dead["attempts"]
    assert_match(/\AFlaky: not yet\n  .*jobs\.rb:\d+/, dead["last_error"])
    assert_equal 2, JSON.parse(dead["headers"])["executions"]
    assert_empty results
    sql("SELECT fairq.revive_all('default')") # for one attempt more
    wait_until("dead again") { tasks("default", "dead").size == 1 }
  end

  def test_a_retry_whose_arguments_are_gone_keeps_its_group
    queue
    sql("SELECT fairq.enqueue('default', $1, group_key => 'acme')",
        JSON.generate(job_class: "UnreadableJob", arguments: [{ _aj_globalid: "gid://test/Gone/1" }], fairq: { group: "acme", cost: 2.5 }))
    worker
    wait_until("a dead task") { tasks("default", "dead").size == 1 }
    assert_equal ["acme", "2.5", "1"], tasks.first.values_at("group_key", "cost", "attempts"), tasks.first["last_error"]
    assert_match(/\AActiveJob::DeserializationError/, tasks.first["last_error"])
    assert_equal 1, JSON.parse(tasks.first["headers"])["executions"]
  end

  def test_a_retry_of_a_job_that_sql_has_enqueued
    queue("low", subgroups: true)
    sql("SELECT fairq.enqueue('low', '{\"job_class\": \"UnreadableJob\", \"arguments\": [{\"_aj_globalid\": \"gid://test/Gone/1\"}]}', " \
        "group_key => 'acme', subgroup_key => 'ann')")
    worker("--queues", "low")
    wait_until("a dead task") { tasks("low", "dead").size == 1 }
    assert_equal %w[acme ann 1], tasks("low").first.values_at("group_key", "subgroup_key", "cost")
    assert_equal 1, JSON.parse(tasks("low").first["headers"])["executions"]
  end

  def test_a_retry_does_not_wait_for_the_end_of_the_transaction
    queue
    DeferredJob.perform_later
    worker
    wait_until_empty
    assert_equal ["attempt 2"], results
  end

  def test_discard_on_ends_the_job
    RetriedJob.perform_later("acme", "useless")
    worker
    wait_for_results(1)
    wait_until_empty
    assert_equal ["discarded: of no use"], results
  end

  def test_what_no_other_attempt_would_mend_is_dead_at_once
    queue
    ["says so", "says why", "class", "name", "later"].each { |how| HopelessJob.perform_later(how) }
    RescuingJob.perform_later
    worker
    wait_for_results(1)
    wait_until("five are left") { tasks.size == 5 && tasks("default", "dead").size == 5 }
    assert_equal ["attempt 3"], results, "what the others wrote is undone, and another error was tried again"
    assert_equal ["1"], tasks.map { |task| task["attempts"] }.uniq
    assert_equal ["ActiveJob::Fairq::Unrecoverable: no such mailbox", "ActiveJob::Fairq::Unrecoverable: it cannot be read", "Odd: of a class",
                  "KeyError: key not found: :to", "ActiveJob::Fairq::Unrecoverable: by a handler"],
                 tasks.map { |task| task["last_error"].lines.first.chomp }
    assert_match(/^Caused by ArgumentError: /, tasks[1]["last_error"])
    assert_equal "5", one("SELECT fairq.revive_all('default')")
  end

  def test_outside_of_a_transaction_and_after_a_discard_on_that_is_nearer
    queue
    ["says so", "name", "class"].each { |how| HopelessOutsideJob.perform_later(how) }
    worker("--threads", 1)
    wait_until("two are dead") { tasks.size == 2 && tasks("default", "dead").size == 2 }
    assert_equal ["attempt 1", "attempt 1", "attempt 1", "discarded: of a class"], results
    assert_equal ["1"], tasks.map { |task| task["attempts"] }.uniq
  end

  def test_what_is_given_up_without_a_worker_is_raised
    [[ActiveJob::Fairq::Unrecoverable, "says so"], [Odd, "class"], [KeyError, "name"]].each do |error, how|
      assert_raises(error) { HopelessJob.perform_now(how) }
    end
    assert_raises(ArgumentError) { Class.new(ApplicationJob) { give_up_on } }
    assert_raises(ArgumentError) { Class.new(ApplicationJob) { give_up_on Object.new } }
  end

  def test_retry_after_an_error_of_the_database
    RetriedJob.perform_later("acme", "refused")
    worker
    wait_for_results(1)
    wait_until_empty
    assert_equal ["gave up: ActiveRecord::StatementInvalid"], results
  end

  def test_an_error_that_nothing_takes_is_noted_and_tried_again
    queue(max_attempts: 2)
    FailingJob.perform_later("a#{'x' * 5000}")
    worker
    wait_until("a dead task") { tasks("default", "dead").size == 1 }
    error = tasks.first["last_error"]
    assert_match(/\ARuntimeError: a.bx{1000,1999}\.\.\.\n  .*jobs\.rb:\d+.*Caused by KeyError: the cause\n  .*jobs\.rb/m, error)
    assert_operator error.size, :<, 15_000
    assert_equal "2", tasks.first["attempts"]
    assert_empty results
  end

  def test_executions_count_the_attempts_of_the_task
    queue(backoff_max: "0 s")
    Time.zone = "UTC"
    job = WhereJob.perform_later
    sql("UPDATE fairq.q_default SET attempts = 3 WHERE id = $1", job.provider_job_id)
    worker
    wait_for_results(1)
    assert_match(/ #{job.provider_job_id} 4 /, results.first)
  ensure
    Time.zone = nil
  end

  def test_what_is_no_job_is_refused
    queue(max_attempts: 1)
    ['{"job_class": "Kernel"}', '"text"', '{"job_class": "GoneJob"}', '{"job_class": ["x"]}', "[1]"].each do |payload|
      sql("SELECT fairq.enqueue('default', $1)", payload)
    end
    worker
    wait_until("all dead") { tasks("default", "dead").size == 5 }
    assert(tasks.all? { |task| task["last_error"].start_with?("ActiveJob::Fairq::PayloadError: ") })
    assert_match(/no job class "Kernel"/, tasks.first["last_error"])
  end

  def test_what_a_job_enqueues_commits_with_it
    queue(max_attempts: 1)
    ChainJob.perform_later("never", true)
    ChainJob.perform_later("kept", false)
    worker
    wait_for_results(1)
    wait_until("only the dead") { tasks.map { |task| task["state"] } == %w[dead] }
    assert_equal ["kept"], results
  end

  def test_a_transaction_of_the_jobs_own
    RecordJob.perform_later
    worker
    wait_for_results(1)
    wait_until_empty
    assert_equal ["kept"], results
    wait_until("after_commit") { marks.size == 2 }
    assert_equal ["after the inner transaction", "committed kept"], marks
  end

  def test_an_ack_that_is_refused_undoes_what_the_job_has_written
    SlowJob.perform_later("cancelled", 15)
    worker("--threads", 2)
    wait_until("it runs") { marks("begun").any? }
    sql("SELECT fairq.cancel('default', $1)", tasks.first["id"])
    WriteJob.perform_later("next")
    wait_for_results(1)
    wait_until("its end") { File.read(@log).include?("LeaseLost") }
    assert_equal ["next"], results
  end

  def test_claims_only_what_is_free_to_run
    SlowJob.perform_later("first", 600)
    worker("--threads", 2)
    wait_until("one runs") { marks("begun").size == 1 }
    ActiveRecord::Base.transaction { 5.times { |i| SlowJob.perform_later(i.to_s, 600) } }
    wait_until("two run") { marks("begun").size == 2 }
    assert_equal 2, tasks("default", "leased").size, "one was free, of five that came at once"
  end

  def test_a_job_outside_of_a_transaction
    OutsideJob.perform_later("outside", 600)
    worker
    wait_for_results(1)
    assert_equal %w[leased], tasks.map { |task| task["state"] }, "written before the ack"
  end

  def test_a_unique_job_runs_once
    5.times { OnceJob.perform_later("a") }
    worker
    wait_until_empty
    assert_equal ["a"], results
  end
end
