# frozen_string_literal: true

module ActiveJob
  module Fairq
    # The trace that a job belongs to, as W3C's Trace Context writes it, in the headers of
    # its task: so a job of the worker, in whatever language, goes on with it.
    module Trace
      PARENT = "traceparent"
      STATE = "tracestate"
      PARENT_FORM = /\A(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}\z/
      STATE_FORM = /\A[\x20-\x7e]{1,512}\z/

      class << self
        # For a task that is about to be enqueued: what config.fairq.trace_context says, or
        # else the trace of the job that is just running. Empty if there is none.
        def headers
          given = from_setting
          given.empty? ? fit(Execution.current&.headers) : given
        end

        private

        # No job is lost for the sake of its trace.
        def from_setting
          return {} unless Fairq.trace_context

          given = Fairq.trace_context.call.to_h.transform_keys(&:to_s)
          fit(given).tap { |found| complain("#{PARENT} is #{given[PARENT].inspect[0, 100]}") if found.empty? && given[PARENT] }
        rescue StandardError => error
          complain(ErrorText.head(error))
          {}
        end

        # The header `tracestate` means nothing without the other one.
        def fit(headers)
          return {} unless headers.is_a?(Hash) && headers[PARENT].is_a?(String) && PARENT_FORM.match?(headers[PARENT])

          state = headers[STATE]
          state.is_a?(String) && STATE_FORM.match?(state) ? headers.slice(PARENT, STATE) : headers.slice(PARENT)
        end

        def complain(what)
          ActiveJob::Base.logger&.warn("config.fairq.trace_context gives no trace, and the job goes without: #{what}")
        end
      end
    end
  end
end
