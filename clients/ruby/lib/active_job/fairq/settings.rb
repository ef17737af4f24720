# frozen_string_literal: true

module ActiveJob
  module Fairq
    SETTINGS = %i[record_class database_url create_queues trace_context backtrace_cleaner application].freeze

    class << self
      # The name of the Active Record class by whose connection jobs are enqueued and
      # acknowledged; false: not by Active Record.
      attr_writer :record_class

      # Where the queues are if not by Active Record; else a direct address for the
      # worker, whose session does not go through a pooler in transaction mode.
      attr_writer :database_url

      # Whether a queue that is not there is created by the first job for it.
      attr_writer :create_queues

      # A callable that gives the trace of what is just being done: a Hash with "traceparent"
      # and maybe "tracestate".
      attr_reader :trace_context

      # What leaves out of backtraces the frames that tell nothing; false: nothing does.
      attr_writer :backtrace_cleaner

      # Whose recurring jobs the schedules of the server are.
      attr_writer :application

      def record_class
        defined?(@record_class) ? @record_class : "ActiveRecord::Base"
      end

      def database_url
        @database_url || ENV["FAIRQ_DATABASE_URL"]
      end

      def create_queues
        defined?(@create_queues) ? @create_queues : true
      end

      def trace_context=(callable)
        unless callable.nil? || callable.respond_to?(:call)
          raise ConfigurationError, "config.fairq.trace_context is #{callable.inspect}; give something to call, which returns a Hash with \"traceparent\""
        end

        @trace_context = callable
      end

      def backtrace_cleaner
        defined?(@backtrace_cleaner) ? @backtrace_cleaner : Backtrace.default
      end

      def application
        @application || (defined?(::Rails.application) && ::Rails.application && ::Rails.application.class.name.delete_suffix("::Application").underscore)
      end

      # Where jobs are enqueued, run and acknowledged.
      def database
        @database ||= records? ? RecordDatabase.new(record_class) : PgDatabase.new(database_url || no_database)
      end

      # For tests that change the settings.
      def reset
        @database = nil
      end

      # What PG.connect takes, for the connections of the worker itself.
      def worker_address
        database_url || (records? ? database.address : no_database)
      end

      private

      def records?
        return false unless record_class && defined?(::ActiveRecord::Base)

        config = record_class.to_s.constantize.connection_db_config
        %w[postgresql postgis].include?(config.configuration_hash[:adapter].to_s)
      rescue ::ActiveRecord::ConnectionNotEstablished
        false
      end

      def no_database
        raise ConfigurationError, "Active Record has no connection to PostgreSQL here, and there is no other: " \
                                  "set config.fairq.database_url or FAIRQ_DATABASE_URL to where the queues are"
      end
    end
  end
end
