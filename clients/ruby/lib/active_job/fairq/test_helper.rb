# frozen_string_literal: true

require "active_job/test_helper"

module ActiveJob
  module Fairq
    # ActiveJob::TestHelper, whose assert_enqueued_with can say as well what `fairq` has
    # worked out for the job: group, subgroup, cost, unique_key.
    module TestHelper
      include ActiveJob::TestHelper

      # Takes a value, or a callable that is given it, as for the others; nil: there is none.
      def assert_enqueued_with(**expected, &block)
        places, others = expected.partition { |name, _| Place.members.include?(name) }.map(&:to_h)
        return super(**others, &block) if places.empty?

        before = enqueued_jobs.dup
        yield if block
        jobs = enqueued_jobs - (block ? before : [])
        fitting = jobs.select { |job| fairq_fits?(job, places) }
        assert fitting.any?, "No enqueued job with #{places}. Of those that were enqueued: " +
                             jobs.map { |job| "#{job[:job]} #{job['fairq']}" }.join(", ")
        among(fitting) { super(**others, &nil) }
      end

      # Those that are looked through just now, or all.
      def enqueued_jobs
        @fairq_among || super
      end

      private

      def fairq_fits?(job, places)
        place = Place.from(job["fairq"])
        place.cost ||= 1.0
        places.all? do |name, value|
          next value.call(place[name]) if value.respond_to?(:call)

          place[name] == (name == :cost ? value&.to_f : value&.to_s) # as it goes to the server
        end
      end

      def among(jobs)
        @fairq_among = jobs
        yield
      ensure
        @fairq_among = nil
      end
    end
  end
end
