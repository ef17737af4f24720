# frozen_string_literal: true

# The jobs of subject.rb, for it and for bin/fairq: what an application has in app/ and config/.
require "active_record"
require "activejob-fairq"

ActiveJob::Base.queue_adapter = :fairq
ActiveJob::Base.logger = Logger.new(nil)
ActiveRecord::Base.establish_connection(
  adapter: "postgresql", database: ENV.fetch("PGDATABASE"), pool: ENV.fetch("CONCURRENCY", 2)
)

class Effect < ActiveRecord::Base
  self.table_name = "conformance.effects"
end

class Order < ActiveRecord::Base
  self.table_name = "conformance.orders"
end

# On connections of its own, outside of the transactions of jobs.
class Started < ActiveRecord::Base
  establish_connection ActiveRecord::Base.connection_db_config
  self.table_name = "conformance.started"

  def self.note(key)
    connection_pool.with_connection { create!(key: key, pid: Process.pid) }
  end

  def self.first?(key)
    connection_pool.with_connection { where(key: key).count == 1 }
  end
end

class ApplicationJob < ActiveJob::Base
  fairq group: ->(job) { job.arguments.last.fetch(:group, "none") }

  before_perform { |job| Started.note(job.arguments.first["key"]) }

  private

  def wait(task)
    sleep task.fetch("ms", 0) / 1000.0
    wait_for task["until"]
  end

  def write(task)
    Effect.create!(key: task["key"], pid: Process.pid)
    wait_for task["hold"]
  end

  def wait_for(file)
    sleep 0.02 until file.nil? || File.exist?(file)
  end
end

# In the transaction of the acknowledgement.
class EffectJob < ApplicationJob
  def perform(task, **)
    wait(task)
    write(task)
  end
end

# Of one key one waits, and one runs at most.
class EffectOnceJob < EffectJob
  fairq unique_key: ->(job) { job.arguments.last.fetch(:unique_key) }
end

class PlainJob < EffectJob
  fairq transaction: false
end

class ComputeJob < ApplicationJob
  def perform(task, **)
    ending = now + task["ms"] / 1000.0
    nil while now < ending
    write(task)
  end

  private

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

class BlockJob < ApplicationJob
  def perform(task, **)
    first = Started.first?(task["key"])
    nil while first && !File.exist?(task["until"])
    write(task)
  end
end

class FailJob < ApplicationJob
  def perform(task, **)
    raise task["message"]
  end
end

class FinalJob < ApplicationJob
  def perform(task, **)
    raise ActiveJob::Fairq::Unrecoverable, task["message"]
  end
end

class PoisonJob < ApplicationJob
  def perform(*)
    Process.kill(:KILL, Process.pid)
    sleep
  end
end

# Active Job has no snooze: it is enqueued again.
class SnoozeJob < ApplicationJob
  def perform(task, **)
    return retry_job(wait: task["ms"] / 1000.0) if Started.first?(task["key"])

    write(task)
  end
end
