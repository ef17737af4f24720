# frozen_string_literal: true

module ActiveJob
  module Fairq
    # What subscribers of ActiveSupport::Notifications hear of a worker. What one of them
    # raises is logged, and the work goes on.
    class Notices
      EVENTS = %w[perform failed lost dead worker_start worker_stop].freeze

      def initialize(worker, logger)
        @worker = worker
        @logger = logger
      end

      # An attempt at a task. The block says what has become of the task, and of what error:
      # done, failed, dead, lost or released.
      def attempt(task)
        payload = about(task)
        guarded { instrumenter.start("perform.fairq", payload) }
        outcome, error = yield
        payload.update(name: task.name, outcome: outcome) # the name may have come from the job
        note(payload, error) if error
      ensure
        guarded { instrumenter.finish("perform.fairq", payload) }
        tell_of_failure(payload)
      end

      # The worker itself: it has begun to work, or has stopped.
      def worker(event, **payload)
        tell("worker_#{event}", worker: @worker, **payload)
      end

      private

      def about(task)
        { task_id: task.id, queue: task.queue, name: task.name, group: task.group, subgroup: task.subgroup,
          attempt: task.attempt, headers: task.headers, worker: @worker }
      end

      # As Notifications.instrument has it.
      def note(payload, error)
        payload[:exception_object] = error
        payload[:exception] = [error.class.name, ErrorText.message(error)]
      end

      # Each with a payload of its own.
      def tell_of_failure(payload)
        events = { failed: %w[failed], dead: %w[failed dead], lost: %w[lost] }.fetch(payload[:outcome], [])
        events.each { |event| tell(event, payload.dup) }
      end

      def tell(event, payload)
        guarded { ActiveSupport::Notifications.instrument("#{event}.fairq", payload) }
      end

      def instrumenter
        ActiveSupport::Notifications.instrumenter
      end

      def guarded
        yield
      rescue StandardError => error
        @logger.error("a subscriber of Notifications has failed: #{ErrorText.head(error)}")
      end
    end
  end
end
