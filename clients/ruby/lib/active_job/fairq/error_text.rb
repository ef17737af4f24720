# frozen_string_literal: true

module ActiveJob
  module Fairq
    # An exception as text for `last_error`: bounded, and without what the server does not take.
    module ErrorText
      MESSAGE = 2_000
      FRAMES = 30
      FIRST_FRAMES = 5 # of whatever code; then those of the application
      FRAME = 300
      CAUSES = 3

      class << self
        # The class and the message, with those of the causes, and where it was raised.
        def of(error)
          parts = [head(error), *frames(error)]
          cause = error.cause
          CAUSES.times do
            break unless cause

            parts << "Caused by #{head(cause)}" << frames(cause).first
            cause = cause.cause
          end
          parts.compact.join("\n")
        end

        def head(error)
          clean("#{error.class}: #{message(error)}", MESSAGE)
        end

        private

        def frames(error)
          first, rest = (error.backtrace || []).each_with_index.partition { |_, i| i < FIRST_FRAMES }
          own = rest.reject { |frame, _| library?(frame) }
          (first + own).first(FRAMES).map { |frame, _| "  #{clean(frame, FRAME)}" }
        end

        def library?(frame)
          @libraries ||= [*Gem.path, RbConfig::CONFIG["rubylibdir"], File.expand_path("../..", __dir__)]
          frame.start_with?(*@libraries)
        end

        # An exception's own code may fail.
        def message(error)
          error.message.to_s
        rescue StandardError => failure
          "(its message raised #{failure.class})"
        end

        def clean(text, length)
          text = text.dup.force_encoding(Encoding::UTF_8) unless text.encoding == Encoding::UTF_8
          text = text.scrub("?").delete("\0")
          text.length > length ? "#{text[0, length]}..." : text
        end
      end
    end
  end
end
