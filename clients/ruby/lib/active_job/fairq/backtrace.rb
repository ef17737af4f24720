# frozen_string_literal: true

require "active_support/backtrace_cleaner"

module ActiveJob
  module Fairq
    # Backtraces without the frames of libraries: for last_error, and for what Active Job
    # logs of a job that has failed. Whoever subscribes or rescues gets all of them.
    module Backtrace
      class << self
        # Where it was raised comes first, though that is in a library.
        def clean(frames)
          frames = Array(frames)
          cleaner = Fairq.backtrace_cleaner
          return frames unless cleaner && frames.any?

          first = cleaner.clean(frames.first(1)).empty? ? frames.first(1) : []
          first + cleaner.clean(frames)
        end

        # Rails' own, as the application has set it.
        def default
          return ::Rails.backtrace_cleaner if defined?(::Rails.backtrace_cleaner) && ::Rails.application

          @default ||= ActiveSupport::BacktraceCleaner.new.tap do |cleaner|
            cleaner.remove_silencers!
            cleaner.remove_filters!
            libraries = [*Gem.path, Gem.default_dir, *RbConfig::CONFIG.values_at("rubylibdir", "vendordir"), File.expand_path("../..", __dir__)].uniq
            cleaner.add_silencer { |frame| frame.start_with?(*libraries, "<internal:") }
          end
        end
      end

      # In a worker, of Active Job's own log.
      module Log
        def perform(event)
          error = event.payload[:exception_object] if Execution.current && event.respond_to?(:payload)
          return super unless error

          begin
            event.payload[:exception_object] = cleaned(error)
            super
          ensure
            event.payload[:exception_object] = error
          end
        end

        private

        # Not every error can be copied.
        def cleaned(error)
          error.dup.tap { |copy| copy.set_backtrace(Backtrace.clean(error.backtrace)) }
        rescue StandardError
          error
        end
      end
    end
  end
end
