# frozen_string_literal: true

module ActiveJob
  module Fairq
    # A command of the file of recurring jobs. The task has its key alone: what is run is what
    # this worker's own file says, so that who may enqueue cannot have any code run.
    class RecurringCommandJob < ActiveJob::Base
      def perform(key)
        command = Recurring.commands[key]
        unless command
          raise ConfigurationError, "the file of recurring jobs that this worker has read has no command #{key.inspect}: " \
                                    "restart it with a file that has, or give it that file with --recurring"
        end

        TOPLEVEL_BINDING.dup.eval(command, "the command of #{key}")
      end
    end
  end
end
