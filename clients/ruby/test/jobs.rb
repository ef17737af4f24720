# frozen_string_literal: true

# The jobs of the tests: for the tests, which enqueue them, and for the workers.
require "activejob-fairq"
require "json"

# Where the jobs write.
module Jobs
  TABLES = "CREATE TABLE results (id bigserial PRIMARY KEY, result text NOT NULL, " \
           "CONSTRAINT not_refused CHECK (result <> 'refused'))"

  def self.connect(database)
    ActiveRecord::Base.establish_connection(adapter: "postgresql", host: ENV.fetch("PGHOST"), database: database,
                                            username: ENV.fetch("PGUSER", "postgres"), pool: Integer(ENV.fetch("JOBS_POOL", "10")))
  end

  # In the job's transaction.
  def self.write(result)
    plain = ActiveJob::Fairq.connection
    plain ? plain.exec_params("INSERT INTO results (result) VALUES ($1)", [result]) : Result.create!(result: result)
  end

  # Outside of it: a line in a file.
  def self.mark(text)
    File.open(ENV.fetch("JOBS_MARKS"), "a") { |file| file.puts(text) }
  end
end

unless ENV["JOBS_MODE"] == "plain"
  require "active_record"
  class Result < ActiveRecord::Base
    after_commit { Jobs.mark("committed #{result}") if ENV["JOBS_MARKS"] }
  end
end

class ApplicationJob < ActiveJob::Base
end

class WriteJob < ApplicationJob
  def perform(result)
    Jobs.write(result)
  end
end

class TenantJob < ApplicationJob
  fairq group: ->(job) { job.arguments.first[:tenant] }, cost: ->(job) { job.arguments.first.fetch(:pages, 1) }

  def perform(tenant:, text:, **)
    Jobs.write("#{tenant}#{text}")
  end
end

class UserJob < ApplicationJob
  fairq group: ->(job) { job.arguments[0] }, subgroup: ->(job) { job.arguments[1] }

  def perform(_tenant, user, text)
    Jobs.write("#{user} #{text}")
  end
end

class WhereJob < ApplicationJob
  def perform
    Jobs.write("#{I18n.locale} #{Time.zone.name} #{provider_job_id} #{executions} #{priority}")
  end
end

class SlowJob < ApplicationJob
  def perform(result, seconds)
    Jobs.mark("begun #{result}") if ENV["JOBS_MARKS"]
    Jobs.write(result)
    Jobs.mark("written #{result}") if ENV["JOBS_MARKS"]
    sleep seconds
  rescue ActiveJob::Fairq::Interruption => error
    Jobs.mark("interrupted #{result} #{error.class}")
    raise
  end
end

# It is no clean interruption: so is one in the midst of a require, for example.
class UntidyJob < ApplicationJob
  retry_on IOError, wait: 0.seconds, attempts: 5

  def perform(error)
    Jobs.mark("begun")
    sleep 600
  ensure
    raise error.constantize, "it cannot clean up"
  end
end

class AsleepJob < ApplicationJob
  def perform(result)
    Result.connection.execute("SELECT pg_sleep(600)") if executions == 1
    Jobs.write("#{result} at #{executions}")
  end
end

class OutsideJob < SlowJob
  fairq transaction: false
end

class Flaky < StandardError; end
class Useless < StandardError; end

class RetriedJob < ApplicationJob
  fairq group: ->(job) { job.arguments.first }, cost: 3
  retry_on Flaky, wait: 0.seconds, attempts: 3
  retry_on "ActiveRecord::StatementInvalid", wait: 0.seconds, attempts: 2 do |_job, error|
    Jobs.write("gave up: #{error.class}")
  end
  discard_on(Useless) { |_job, error| Jobs.write("discarded: #{error.message}") }

  def perform(_tenant, how)
    Jobs.write("attempt #{executions}")
    case how
    when "flaky" then raise Flaky, "not yet"
    when "flaky once" then raise Flaky, "not yet" if executions == 1
    when "useless" then raise Useless, "of no use"
    when "refused" then Jobs.write("refused")
    end
  end
end

class RetriedOfUserJob < RetriedJob
  fairq subgroup: "ann"
end

class FailedJob < ApplicationJob
  def perform
    Jobs.mark("begun #{Process.clock_gettime(Process::CLOCK_MONOTONIC)}")
    raise Flaky, "not today"
  end
end

class Broken < StandardError; end
class Odd < Broken; end

class HopelessJob < ApplicationJob
  retry_on StandardError, wait: 0.seconds, attempts: 3
  give_up_on Broken, "KeyError"

  def perform(how)
    Jobs.write("attempt #{executions}")
    case how
    when "says so" then raise ActiveJob::Fairq::Unrecoverable, "no such mailbox"
    when "says why" then unreadable
    when "class" then raise Odd, "of a class"
    when "name" then {}.fetch(:to)
    when "later" then raise Flaky, "not yet" if executions < 3
    end
  end

  private

  def unreadable
    Integer("x")
  rescue ArgumentError
    raise ActiveJob::Fairq::Unrecoverable, "it cannot be read"
  end
end

class HopelessOutsideJob < HopelessJob
  fairq transaction: false
  discard_on(Odd) { |_job, error| Jobs.write("discarded: #{error.message}") }
end

class RescuingJob < ApplicationJob
  rescue_from(Broken) { raise ActiveJob::Fairq::Unrecoverable, "by a handler" }

  def perform
    raise Broken
  end
end

class UnreadableJob < ApplicationJob
  fairq group: ->(job) { job.arguments.first.tenant }
  retry_on ActiveJob::DeserializationError, wait: 0.seconds, attempts: 2

  def perform(record); end
end

# As Rails does it with enqueue_after_transaction_commit, where ours must not wait: here
# the process dies between the commit and what comes after it.
class DeferredJob < ApplicationJob
  retry_on Flaky, wait: 0.seconds, attempts: 2

  def enqueue(options = {})
    return super unless defined?(ActiveRecord) && ENV["JOBS_DATABASE"]

    ActiveRecord.after_all_transactions_commit { super(options) }
    self
  end

  def perform
    raise Flaky if executions == 1

    Jobs.write("attempt #{executions}")
  end
end

class FailingJob < ApplicationJob
  def perform(text)
    Jobs.write("never seen")
    begin
      raise KeyError, "the cause"
    rescue KeyError
      raise text.sub("a", "a\xff\0b".dup.force_encoding("UTF-8"))
    end
  end
end

# Raised in a library, which the job calls.
class ParsingJob < ApplicationJob
  def perform(text)
    JSON.parse(text)
  end
end

class KeywordsJob < ApplicationJob
  fairq group: ->(job) { job.arguments.last[:tenant] }, cost: 2
  queue_as :nightly

  def perform(word, tenant:, pages: 1)
    Jobs.write("#{word} #{tenant} #{pages} #{job_id[14]}")
  end
end

class RecordJob < ApplicationJob
  def perform
    Result.transaction do
      Jobs.write("undone")
      raise ActiveRecord::Rollback
    end
    Result.transaction { Jobs.write("kept") }
    Jobs.mark("after the inner transaction")
  end
end

class ChainJob < ApplicationJob
  def perform(text, fail)
    WriteJob.perform_later(text)
    raise Flaky if fail
  end
end

class OnceJob < ApplicationJob
  fairq unique_key: ->(job) { "once #{job.arguments.first}" }

  def perform(text)
    Jobs.write(text)
  end
end

I18n.available_locales = %i[en de]

if ENV["JOBS_DATABASE"]
  ActiveRecord.define_singleton_method(:after_all_transactions_commit) { |&block| } unless ENV["JOBS_MODE"] == "plain"
  ActiveJob::Base.queue_adapter = :fairq
  ActiveJob::Base.logger = Logger.new(nil)
  ActiveJob::Fairq.application = ENV["JOBS_APPLICATION"]
  Jobs.connect(ENV["JOBS_DATABASE"]) unless ENV["JOBS_MODE"] == "plain"
end
