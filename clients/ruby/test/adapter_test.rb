# frozen_string_literal: true

require "helper"

# What is enqueued, and where. Seen to fail: without the check of a NUL the server's
# error comes instead of one that names the class; with a memory of queues that a
# transaction has made, the job after its rollback finds no queue; without the group in
# the payload a retry asks the callable again; without the cut of a name the server refuses the job.
class AdapterTest < FairqTest
  def test_is_found_by_its_name
    assert_equal "ActiveJob::QueueAdapters::FairqAdapter", ActiveJob::Base.queue_adapter.class.name
    assert_equal "fairq", ActiveJob::Base.queue_adapter_name
  end

  def test_gives_the_job_the_id_of_its_task
    now = WriteJob.perform_later("a")
    later = WriteJob.set(wait: 1.hour).perform_later("b")
    assert_equal [now, later].map(&:provider_job_id), tasks.map { |task| task["id"] }
  end

  def test_group_and_cost_by_callables
    TenantJob.perform_later(tenant: 42, text: "x", pages: 2.5)
    assert_equal %w[42 2.5], tasks.first.values_at("group_key", "cost")
  end

  def test_subgroups_by_callables_and_values
    ActiveJob::Fairq.create_queue("default", subgroups: true)
    parent = job_class { fairq group: "acme", subgroup: 7 }
    child = Class.new(parent) do
      define_singleton_method(:name) { "ChildJob" }
      fairq subgroup: nil
    end
    UserJob.perform_later("acme", "ann", "x")
    parent.perform_later
    child.perform_later
    ActiveJob::Base.queue_adapter.enqueue_all([UserJob.new("acme", "bob", "y"), WriteJob.new("z")])
    assert_equal [%w[acme ann], %w[acme 7], ["acme", nil], %w[acme bob], ["", nil]],
                 tasks.map { |task| task.values_at("group_key", "subgroup_key") }
    assert_equal({ "group" => "acme", "subgroup" => "ann" }, JSON.parse(tasks.first["payload"])["fairq"])
  end

  def test_a_queue_without_subgroups_refuses_them
    error = assert_raises(ActiveRecord::StatementInvalid) { UserJob.perform_later("acme", "ann", "x") }
    assert_match(/subgroup_key.*not divided/m, error.message)
    error = assert_raises(ActiveJob::Fairq::PlaceError) { UserJob.perform_later("acme", nil, "x") }
    assert_match(/\Asubgroup: of `fairq` in UserJob, .*got nil/, error.message)
  end

  def test_values_instead_of_callables_and_inheritance
    parent = job_class { fairq group: "acme", cost: 2 }
    child = Class.new(parent) do
      define_singleton_method(:name) { "ChildJob" }
      fairq cost: nil
    end
    parent.perform_later
    child.perform_later
    assert_equal [%w[acme 2], %w[acme 1]], tasks.map { |task| task.values_at("group_key", "cost") }
  end

  def test_priority_is_the_class_and_the_queue_has_a_default
    WriteJob.perform_later("a")
    WriteJob.set(priority: 0).perform_later("b")
    assert_equal %w[4 0], tasks.map { |task| task["priority"] }
  end

  def test_a_time_waits_in_the_database
    at = Time.at(Time.now.to_i + 3600, 250_000, :usec)
    WriteJob.set(wait_until: at).perform_later("a")
    assert_equal "scheduled", tasks.first["state"]
    assert_in_delta at.to_f, Time.parse(tasks.first["run_at"]).to_f, 0.001
  end

  def test_a_job_is_there_when_and_only_when_the_transaction_commits
    WriteJob.perform_later("first")
    ActiveRecord::Base.transaction do
      WriteJob.perform_later("kept")
      assert_equal 1, tasks.size, "seen by others before the commit"
    end
    ActiveRecord::Base.transaction do
      WriteJob.perform_later("undone")
      raise ActiveRecord::Rollback
    end
    assert_equal 2, tasks.size
  end

  def test_a_queue_made_in_a_transaction_that_is_undone_is_made_again
    ActiveRecord::Base.transaction do
      2.times { WriteJob.set(queue: "low").perform_later("undone") }
      raise ActiveRecord::Rollback
    end
    WriteJob.set(queue: "low").perform_later("kept")
    assert_equal 1, tasks("low").size
  end

  def test_queues_are_not_made_where_that_is_forbidden
    ActiveJob::Fairq.create_queues = false
    error = assert_raises(ActiveRecord::StatementInvalid) { WriteJob.perform_later("a") }
    assert_match(/"default"/, error.message)
  ensure
    ActiveJob::Fairq.create_queues = true
  end

  def test_a_queue_with_settings
    ActiveJob::Fairq.create_queue("big", lease: 5.minutes, max_attempts: 3, keep_done: "1 day", max_lost: 2, class_weights: [4, 2.5])
    ActiveJob::Fairq.create_queue("big", lease: 1.minute)
    assert_equal({ "lease" => "00:05:00", "max_attempts" => "3", "max_lost" => "2", "class_weights" => "{4,2.5}" },
                 sql("SELECT lease, max_attempts, max_lost, class_weights FROM fairq.queues WHERE queue = 'big'").first)
    error = assert_raises(ArgumentError) { ActiveJob::Fairq.create_queue("big", leese: 1) }
    assert_match(/leese.*lease/, error.message)
  end

  def test_many_at_once
    jobs = [TenantJob.new(tenant: "a", text: "1"), TenantJob.new(tenant: "b", text: "2", pages: 3), OnceJob.new("x")]
    jobs << WriteJob.new("low").tap { |job| job.queue_name = "low" }
    later = Time.now + 3600
    jobs << WriteJob.new("later").tap { |job| job.scheduled_at = ActiveJob.version < Gem::Version.new("7.1") ? later.to_f : later }
    assert_equal 5, ActiveJob::Base.queue_adapter.enqueue_all(jobs)
    assert_equal [["a", "1", nil, "ready"], ["b", "3", nil, "ready"], ["", "1", "once x", "ready"], ["", "1", nil, "scheduled"]],
                 tasks.map { |task| task.values_at("group_key", "cost", "unique_key", "state") }
    assert_equal (jobs - [jobs[3]]).map(&:provider_job_id), tasks.map { |task| task["id"] }
    assert_equal [jobs[3].provider_job_id], tasks("low").map { |task| task["id"] }
  end

  def test_many_at_once_or_none
    jobs = [WriteJob.new("a"), WriteJob.new("b").tap { |job| job.queue_name = "low" }]
    jobs.last.priority = 77
    assert_raises(ActiveRecord::StatementInvalid) { ActiveJob::Base.queue_adapter.enqueue_all(jobs) }
    assert_equal 0, one("SELECT count(*) FROM fairq.queues").to_i
  end

  def test_a_unique_key
    ids = [OnceJob.perform_later("a"), OnceJob.perform_later("a"), OnceJob.perform_later("b")].map(&:provider_job_id)
    assert_equal 2, tasks.size
    assert_equal ids[0], ids[1]
  end

  def test_a_callable_that_fails_is_named
    error = assert_raises(ActiveJob::Fairq::PlaceError) { TenantJob.perform_later(nil) }
    assert_match(/\Agroup: of `fairq` in TenantJob, for job \h{8}-.*NoMethodError: undefined method/, error.message)
  end

  def test_what_is_no_group_or_cost_is_refused
    { nil => /got nil/, "" => /got ""/, Object.new => /#<Object/, "a\0b" => /NUL/, "x" * 1025 => /1024 bytes/,
      "\xff".b => /UTF-8/, 1.5 => /1\.5/ }.each do |value, message|
      error = assert_raises(ActiveJob::Fairq::PlaceError, value.inspect) { job_class { fairq group: ->(_) { value } }.perform_later }
      assert_match(message, error.message)
      assert_match(/group: of `fairq` in OddJob/, error.message)
    end
    [nil, 0, -1, "2", Float::NAN, Float::INFINITY, 1_000_001, Complex(1, 1)].each do |value|
      error = assert_raises(ActiveJob::Fairq::PlaceError, value.inspect) { job_class { fairq cost: ->(_) { value } }.perform_later }
      assert_match(/cost: of `fairq` in OddJob.*from 0\.001/, error.message)
    end
    assert_match(/no option colour/, assert_raises(ArgumentError) { job_class { fairq colour: 1 } }.message)
  end

  def test_a_nul_in_an_argument_is_refused_with_the_name_of_the_class
    error = assert_raises(ActiveJob::SerializationError) { WriteJob.perform_later("a\0b") }
    assert_match(/WriteJob has a NUL/, error.message)
    WriteJob.perform_later('a\u0000b') # six characters, of which none is a NUL
    assert_equal 1, tasks.size
  end

  def test_the_class_is_the_name
    WriteJob.perform_later("a")
    ActiveJob::Base.queue_adapter.enqueue_all([OnceJob.new("x"), TenantJob.new(tenant: "a", text: "1")])
    long = Class.new(ApplicationJob) { define_singleton_method(:name) { "X#{"\u00e4" * 60}" } }
    long.perform_later
    assert_equal ["WriteJob", "OnceJob", "TenantJob", "X#{"\u00e4" * 49}"], tasks.map { |task| task["name"] }
    assert_equal [nil] * 4, tasks.map { |task| task["headers"] }
    assert_equal long.name, JSON.parse(tasks.last["payload"])["job_class"]
  end

  def test_hostile_text_arrives_as_it_is
    text = %q('; DROP TABLE results; -- "quoted" \\ $1 %s {"a":1} ) + "\u{1F600}\n"
    TenantJob.perform_later(tenant: text, text: text)
    assert_equal text, tasks.first["group_key"]
    assert_equal text, JSON.parse(tasks.first["payload"])["arguments"][0]["text"]
  end

  def test_rails_need_not_wait_for_the_commit
    refute ActiveJob::Base.queue_adapter.enqueue_after_transaction_commit?
  end

  private

  def job_class(&body)
    Class.new(ApplicationJob) do
      define_singleton_method(:name) { "OddJob" }
      class_eval(&body)
      def perform; end
    end
  end
end
