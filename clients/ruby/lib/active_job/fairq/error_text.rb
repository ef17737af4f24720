# frozen_string_literal: true

module ActiveJob
  module Fairq
    # An exception as text for `last_error`: bounded, and without what the server does not take.
    module ErrorText
      MESSAGE = 2_000
      FRAMES = 30
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

        # An exception's own code may fail.
        def message(error)
          clean(error.message.to_s, MESSAGE)
        rescue StandardError => failure
          "(its message raised #{failure.class})"
        end

        private

        def frames(error)
          Backtrace.clean(error.backtrace).first(FRAMES).map { |frame| "  #{clean(frame, FRAME)}" }
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
