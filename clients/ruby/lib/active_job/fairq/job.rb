# frozen_string_literal: true

module ActiveJob
  module Fairq
    # What ActiveJob::Base learns: `fairq group: ->(job) { job.arguments.first.tenant_id }, cost: 2`.
    module Job
      extend ActiveSupport::Concern

      OPTIONS = %i[group subgroup cost unique_key transaction].freeze

      included do
        class_attribute :fairq_options, instance_accessor: false, instance_predicate: false, default: {}.freeze
        # The outermost, so that what an attempt has written is undone before
        # retry_on or discard_on write what follows from its error.
        set_callback :perform, :around, :fairq_attempt, prepend: true
      end

      class_methods do
        # group, subgroup, cost, unique_key: a value, or a callable that is given the job.
        # transaction: whether what the job writes and its acknowledgement commit together.
        # What a class says, its subclasses have; nil takes it away.
        def fairq(**options)
          unknown = options.keys - OPTIONS
          unless unknown.empty?
            raise ArgumentError, "fairq has no option #{unknown.join(', ')}; there are #{OPTIONS.join(', ')}"
          end

          self.fairq_options = fairq_options.merge(options).freeze
        end

        # Errors that no other attempt would mend, as classes or their names: the task is dead
        # at once. It takes its turn among retry_on and discard_on, of which the last goes first.
        def give_up_on(*errors)
          raise ArgumentError, "give_up_on takes classes of errors, and was given none" if errors.empty?

          rescue_from(*errors) do |error|
            Execution.current&.give_up(error)
            raise error
          end
        end

        # A job that goes on where it was interrupted notes how far it is by enqueueing
        # itself, also after an error: its writes must not go with that.
        def fairq_transaction?
          fairq_options.fetch(:transaction) { !(defined?(ActiveJob::Continuable) && self < ActiveJob::Continuable) }
        end
      end

      # Whom the job counts for. A retry keeps what the first enqueue has found, for
      # its arguments may not be there any more.
      def fairq_place
        @fairq_place || Place.of(self)
      end

      # With what the adapter for tests keeps of a job, too, and where a retry finds it.
      def serialize
        super.merge("fairq" => fairq_place.to_hash)
      end

      # Why the job is enqueued again; nil the first time.
      attr_reader :fairq_error

      def deserialize(job_data)
        super
        @fairq_place = Place.from(job_data["fairq"]) if job_data["fairq"]
      end

      # An error that says what it means is not for those who say it of a class of errors,
      # or of its cause; nor is an interruption.
      def rescue_with_handler(error)
        error.is_a?(Unrecoverable) || Interruption.behind(error) ? nil : super
      end

      # The next attempt is enqueued in the transaction that acknowledges this one,
      # whatever enqueue_after_transaction_commit says: else a crash between them loses it.
      def retry_job(options = {})
        @fairq_error = options[:error]
        Execution.current ? RetryAtOnce.during { super } : super
      ensure
        @fairq_error = nil
      end

      private

      def fairq_attempt(&block)
        execution = Execution.current
        execution ? execution.attempt(&block) : yield
      end
    end

    # Active Record's after_all_transactions_commit, which does not wait here.
    module RetryAtOnce
      KEY = :fairq_retry_at_once

      def self.during
        if defined?(::ActiveRecord) && ::ActiveRecord.respond_to?(:after_all_transactions_commit)
          ::ActiveRecord.singleton_class.prepend(self) unless ::ActiveRecord.singleton_class.include?(self)
        end
        Thread.current.thread_variable_set(KEY, true)
        yield
      ensure
        Thread.current.thread_variable_set(KEY, nil)
      end

      def after_all_transactions_commit(&block)
        Thread.current.thread_variable_get(KEY) ? yield : super
      end
    end
    private_constant :RetryAtOnce
  end
end
