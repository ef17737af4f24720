# frozen_string_literal: true

module ActiveJob
  module Fairq
    class Error < StandardError; end

    # A setting, an option or a queue is not as it must be.
    class ConfigurationError < Error; end

    # What `fairq` says of a job class gives no group, subgroup, cost or key.
    class PlaceError < Error; end

    # A task that no worker of Active Job can run.
    class PayloadError < Error; end

    # Raised by a job: no other attempt would fare better. The task is dead at once,
    # whatever retry_on and the like say of errors.
    class Unrecoverable < Error; end

    # Raised in the thread of a job that must not go on. They are no StandardError,
    # so neither `rescue =>` nor retry_on takes them for a failure of the job.
    class Interruption < Exception
      # The one that an error stands for: what an interrupted job raises while it cleans up
      # takes the place of the interruption. Nil if there is none.
      def self.behind(error)
        error = error.cause until error.nil? || error.is_a?(self)
        error
      end
    end

    # The lease is gone, and another worker has the task.
    class LeaseLost < Interruption; end

    # The worker stops, and the time for that is over.
    class WorkerStopped < Interruption; end
  end
end
