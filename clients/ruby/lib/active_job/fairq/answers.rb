# frozen_string_literal: true

module ActiveJob
  module Fairq
    # Questions on a plain connection, with a time for the answer.
    module Answers
      private

      # An answer that does not come is a connection that is lost.
      def answer_of(connection, seconds, sql, *params)
        connection.send_query_params(sql, params)
        raise PG::ConnectionBad, "no answer within #{seconds} s" unless connection.block(seconds)

        connection.get_last_result.values
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
