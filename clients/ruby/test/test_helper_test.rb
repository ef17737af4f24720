# frozen_string_literal: true

require "helper"
require "active_job/test_case"

# The helpers of README.md for an application's own tests, and Active Job's own, with jobs
# that say `fairq`. No server is asked. Seen to fail: without "fairq" in serialize, all;
# with `super` for all jobs, "the one of several that fits".
class TestHelperTest < ActiveJob::TestCase
  include ActiveJob::Fairq::TestHelper

  # As config.active_job.queue_adapter = :test.
  def queue_adapter_for_test
    ActiveJob::QueueAdapters::TestAdapter.new
  end

  def test_active_jobs_own_helpers
    assert_enqueued_with(job: TenantJob, args: [{ tenant: 42, text: "x", pages: 2.5 }], queue: "default") do
      TenantJob.perform_later(tenant: 42, text: "x", pages: 2.5)
    end
    assert_enqueued_jobs 1, only: TenantJob
    assert_equal({ "group" => "42", "cost" => 2.5 }, enqueued_jobs.last["fairq"])
  end

  def test_what_fairq_says
    UserJob.perform_later("acme", "ann", "x")
    OnceJob.perform_later("a")
    job = assert_enqueued_with(job: UserJob, args: ["acme", "ann", "x"], group: "acme", subgroup: :ann, cost: 1, unique_key: nil)
    assert_equal ["acme", "ann", "x"], job.arguments
    assert_enqueued_with(unique_key: "once a", group: nil)
    assert_enqueued_with(group: ->(group) { group&.start_with?("ac") })
    assert_enqueued_with(job: TenantJob, group: 42, cost: 3) { TenantJob.perform_later(tenant: 42, text: "x", pages: 3) }
  end

  def test_the_one_of_several_that_fits
    %w[bob ann].each { |user| UserJob.perform_later("acme", user, "x") }
    assert_equal "ann", assert_enqueued_with(job: UserJob, subgroup: "ann").arguments[1]
    assert_equal 2, enqueued_jobs.size
  end

  def test_what_was_not_enqueued
    UserJob.perform_later("acme", "ann", "x")
    error = assert_raises(Minitest::Assertion) { assert_enqueued_with(job: UserJob, group: "globex") }
    assert_match(/No enqueued job with .*globex.*Of those that were enqueued: UserJob .*acme/, error.message)
    assert_raises(Minitest::Assertion) { assert_enqueued_with(job: UserJob, group: "acme") { TenantJob.perform_later(tenant: "acme", text: "x") } }
    assert_raises(Minitest::Assertion) { assert_enqueued_with(job: UserJob, group: "acme") { nil } }
    assert_raises(ActiveJob::Fairq::PlaceError) { TenantJob.perform_later(tenant: nil, text: "x") }
  end

  def test_jobs_are_performed
    ran = []
    job = Class.new(ApplicationJob) do
      define_singleton_method(:name) { "TestHelperTest::CountedJob" }
      fairq group: "acme", transaction: false
      retry_on Flaky, wait: 0.seconds, attempts: 2
      define_method(:perform) do
        ran << [executions, fairq_place.group]
        raise Flaky if executions == 1
      end
    end
    self.class.const_set(:CountedJob, job)
    perform_enqueued_jobs { job.perform_later }
    assert_equal [[1, "acme"], [2, "acme"]], ran
    assert_performed_with(job: job, args: [])
    error = assert_raises(ActiveJob::Fairq::Unrecoverable, Minitest::UnexpectedError) { perform_enqueued_jobs { RescuingJob.perform_later } }
    assert_match(/by a handler/, error.message)
  ensure
    self.class.send(:remove_const, :CountedJob)
  end
end
