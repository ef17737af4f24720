# frozen_string_literal: true

module ActiveJob
  module Fairq
    # What an error of the server says of a statement, by its SQLSTATE.
    module Verdict
      # A session that is over, a statement that was cancelled, a conflict of transactions.
      OF_NO_QUEUE = %w[55000 57014 40001 40P01].freeze
      SESSION_OVER = "55000"

      class << self
        # The connection is gone, or the server cannot serve now.
        def lost?(error)
          state = state_of(error)
          state.nil? || state == "53300" || state.start_with?("08", "57P")
        end

        # The same statement may do another time: the server lacks something, or somebody has a lock.
        def passing?(error)
          lost?(error) || state_of(error) == "55P03" || state_of(error).start_with?("40", "53", "57", "58")
        end

        # A call may fare better without one of its queues: that one is not there or not for this
        # role, it is locked, or it has no room.
        def of_queue?(error)
          !lost?(error) && !OF_NO_QUEUE.include?(state_of(error))
        end

        def session_over?(error)
          state_of(error) == SESSION_OVER
        end

        private

        # Active Record wraps the errors of pg. Nil: it is none of the server.
        def state_of(error)
          error = error.cause until error.nil? || error.is_a?(PG::Error)
          error&.result&.error_field(PG::Result::PG_DIAG_SQLSTATE)
        end
      end
    end
  end
end
