# frozen_string_literal: true

module ActiveJob
  module Fairq
    # Whom a job counts for, with how much, and what it is about: what the class says
    # with `fairq`, worked out for one job.
    Place = Struct.new(:group, :cost, :unique_key, :subgroup) do
      def self.of(job)
        options = job.class.fairq_options
        new(*members.map { |name| Value.new(job, name, options[name]).public_send(name) if options[name] })
      end

      def self.from(hash)
        new(*hash.values_at("group", "cost", "unique_key", "subgroup"))
      end

      def to_hash
        to_h.compact.transform_keys(&:to_s)
      end
    end

    # One of the options, for one job.
    class Value
      KEY_BYTES = 1024
      COSTS = (0.001..1_000_000).freeze

      def initialize(job, name, option)
        @job = job
        @name = name
        @option = option
      end

      def group
        key
      end

      def subgroup
        key
      end

      def unique_key
        key
      end

      def cost
        value = evaluate
        return value.to_f if value.is_a?(Numeric) && value.real? && COSTS.cover?(value)

        refuse value, "a cost is a number from 0.001 to 1000000"
      end

      private

      def key
        value = evaluate
        unless value.is_a?(String) || value.is_a?(Symbol) || value.is_a?(Integer)
          refuse value, "it must be a String, a Symbol or an Integer, such as the id of the tenant"
        end
        text = value.to_s.encode(Encoding::UTF_8)
        if text.empty? || text.bytesize > KEY_BYTES || text.include?("\0") || !text.valid_encoding?
          refuse value, "it must be 1 to #{KEY_BYTES} bytes of text without a NUL"
        end
        text
      rescue EncodingError => error
        refuse value, "it is no text in UTF-8 (#{error.message})"
      end

      def evaluate
        return @option unless @option.respond_to?(:call)

        begin
          @option.call(@job)
        rescue StandardError => error
          raise PlaceError, "#{where}: #{error.class}: #{error.message}"
        end
      end

      def refuse(value, rule)
        raise PlaceError, "#{where}: got #{value.inspect.scrub[0, 200]}, but #{rule}"
      end

      def where
        "#{@name}: of `fairq` in #{@job.class.name}, for job #{@job.job_id}"
      end
    end
    private_constant :Value
  end
end
