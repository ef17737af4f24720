#!/usr/bin/env ruby
# frozen_string_literal: true

# Active Job on pgfairq as the subject of the adversary: clients/conformance.md.
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
  payload, group, key = line.values_at("payload", "group", "unique_key")
  job = "#{payload['do']}_#{'once_' if key}job".camelize.constantize
  options = { group: group, unique_key: key }.compact
  job.set(queue: queue).perform_later(payload, **options).provider_job_id
end

# Active Job has no results, so this is done with SQL.
def outcome_of(id, queue)
  timeout = "#{ENV.fetch('TIMEOUT', '60')} s"
  sql = "SELECT state, last_error FROM fairq.await($1, $2, $3)"
  found = ActiveRecord::Base.connection.exec_query(sql, "Await", [queue, id, timeout]).first
  return { ended: found["state"] } unless found["state"] == "dead"

  { failed: found["last_error"].lines.first.chomp }
end

lines = $stdin.each_line.lazy.map { |line| JSON.parse(line) }

case verb
when "enqueue"
  $stdout.sync = true
  lines.each { |line| puts JSON.generate(enqueue(line, queue)) }
when "transact"
  Order.transaction do
    lines.each do |line|
      Order.create!(key: line["payload"]["key"])
      enqueue(line, queue)
    end
    raise ActiveRecord::Rollback unless how == "commit"
  end
when "await"
  puts JSON.generate(outcome_of(enqueue(lines.first, queue), queue))
else
  abort "subject.rb has no #{verb}; there are work, enqueue, transact and await"
end
