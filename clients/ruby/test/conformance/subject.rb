#!/usr/bin/env ruby
# frozen_string_literal: true

# Active Job on pgfairq as the subject of clients/conformance.md. It has no results to wait for
# and no snooze, and a job does not say how many attempts it has: that is its queue's.
ROOT = File.expand_path("../..", __dir__)
JOBS = File.join(__dir__, "jobs.rb")
$LOAD_PATH.unshift(File.join(ROOT, "lib"))

verb, queue, how = ARGV

if verb == "work"
  exec(RbConfig.ruby, "-I#{ROOT}/lib", "#{ROOT}/bin/fairq", "--require", JOBS, "--queues", queue,
       "--threads", ENV.fetch("CONCURRENCY", "2"), "--ttl", ENV.fetch("LEASE", "2"))
end

require "json"
require JOBS

# Returns the id of the task.
def enqueue(line, queue)
  raise ArgumentError, "max_attempts is a setting of the queue, not of a job" if line["max_attempts"]

  payload = line["payload"]
  job = "#{payload['do']}_#{'once_' if line['unique_key']}job".camelize.constantize
  options = line.slice("group", "unique_key").symbolize_keys
  job.set(queue: queue, wait: line["delay"]).perform_later(payload, **options).provider_job_id
end

lines = $stdin.each_line.lazy.map { |line| JSON.parse(line) }

case verb
when "enqueue"
  $stdout.sync = true
  lines.each { |line| puts enqueue(line, queue) }
when "transact"
  Order.transaction do
    lines.each do |line|
      Order.create!(key: line["payload"]["key"])
      enqueue(line, queue)
    end
    raise ActiveRecord::Rollback unless how == "commit"
  end
else
  abort "subject.rb has no #{verb}; there are work, enqueue and transact"
end
