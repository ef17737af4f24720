# frozen_string_literal: true

require "active_job"
require "pg"
require "active_job/fairq/version"
require "active_job/fairq/errors"
require "active_job/fairq/settings"
require "active_job/fairq/place"
require "active_job/fairq/queues"
require "active_job/fairq/job"

# Active Job on pgfairq: `config.active_job.queue_adapter = :fairq`.
module ActiveJob
  module QueueAdapters
    autoload :FairqAdapter, "active_job/queue_adapters/fairq_adapter"
  end

  module Fairq
    autoload :Answers, "active_job/fairq/answers"
    autoload :Attendance, "active_job/fairq/attendance"
    autoload :Backtrace, "active_job/fairq/backtrace"
    autoload :PgDatabase, "active_job/fairq/pg_database"
    autoload :RecordDatabase, "active_job/fairq/record_database"
    autoload :Guide, "active_job/fairq/guide"
    autoload :Execution, "active_job/fairq/execution"
    autoload :Notices, "active_job/fairq/notices"
    autoload :Recurring, "active_job/fairq/recurring"
    autoload :RecurringCommandJob, "active_job/fairq/recurring_command_job"
    autoload :TestHelper, "active_job/fairq/test_helper"
    autoload :Trace, "active_job/fairq/trace"
    autoload :Verdict, "active_job/fairq/verdict"
    autoload :Worker, "active_job/fairq/worker"

    class << self
      # Makes a queue that is not there yet. The settings are those of fairq.create_queue.
      def create_queue(queue, **settings)
        Queues.create(database, queue, settings)
      end

      # Makes the schedules of a file of recurring jobs, as a worker does when it starts, and
      # removes those that it has made of this application and that are not there any more.
      def load_recurring(path)
        Recurring.new(path).apply(database)
      end

      # The PG::Connection of the job that runs, in whose transaction it is
      # acknowledged; nil where Active Record has the connection.
      def connection
        database.connection
      end

      # Whether the worker is about to stop, for long jobs that can be ended early.
      def stopping?
        Worker.stopping?
      end
    end
  end
end

ActiveSupport.on_load(:active_job) { include ActiveJob::Fairq::Job }
require "active_job/fairq/railtie" if defined?(Rails::Railtie)
