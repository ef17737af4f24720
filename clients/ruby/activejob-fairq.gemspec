# frozen_string_literal: true

require_relative "lib/active_job/fairq/version"

Gem::Specification.new do |spec|
  spec.name = "activejob-fairq"
  spec.version = ActiveJob::Fairq::VERSION
  spec.authors = ["the pgfairq authors"]
  spec.summary = "Active Job on pgfairq: queues in PostgreSQL that are fair between tenants"
  spec.description = "A queue adapter and a worker for Active Job. Tenants that share workers are served in turn, " \
                     "jobs are enqueued in your transaction, and what a job writes commits with its acknowledgement."
  spec.license = "PostgreSQL"
  spec.files = Dir["lib/**/*.rb", "bin/fairq", "README.md", base: __dir__]
  spec.bindir = "bin"
  spec.executables = ["fairq"]
  spec.required_ruby_version = ">= 2.7"
  spec.add_dependency "activejob", ">= 6.1"
  spec.add_dependency "pg", ">= 1.1"
end
