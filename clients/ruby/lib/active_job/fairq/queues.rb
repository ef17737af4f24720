# frozen_string_literal: true

require "json"
require "set"
require "time"

module ActiveJob
  module Fairq
    # Queues, and what is put into them.
    module Queues
      ENQUEUE = "SELECT fairq.enqueue($1, $2::jsonb, group_key => $3, priority => $4::bigint, cost => $5::float8, " \
                "run_at => $6::timestamptz, unique_key => $7, headers => $8::jsonb, name => $9, " \
                "subgroup_key => $10)::text"
      ENQUEUE_MANY = "SELECT unnest(fairq.enqueue_many($1, $2::jsonb[], group_keys => $3::text[], " \
                     "priorities => $4::bigint[], costs => $5::float8[], run_ats => $6::timestamptz[], " \
                     "unique_keys => $7::text[], names => $8::text[], subgroup_keys => $9::text[]))::text"

      NAME_BYTES = 100

      # The settings of fairq.create_queue, and the types that it has for them.
      TYPES = { policy: "text", buckets: "int", lease: "interval", max_attempts: "int", max_lost: "int", backoff_base: "interval",
                backoff_max: "interval", max_ready: "bigint", max_ready_per_group: "bigint", max_depth: "bigint",
                keep_done: "interval", durable_leases: "boolean", charge: "text", notify: "boolean",
                expire_after: "interval", backoff_jitter: "float8", default_priority: "bigint",
                group_required: "boolean", class_weights: "float8[]", subgroups: "boolean" }.freeze

      @known = Set.new
      @lock = Mutex.new

      class << self
        def create(database, queue, settings)
          unknown = settings.keys - TYPES.keys
          unless unknown.empty?
            raise ArgumentError, "fairq.create_queue has no #{unknown.join(', ')}; there are #{TYPES.keys.join(', ')}"
          end

          rest = settings.keys.each_with_index.map { |name, i| ", #{name} => $#{i + 2}::#{TYPES[name]}" }
          database.call("SELECT fairq.create_queue($1#{rest.join}, if_not_exists => true)::text",
                        queue.to_s, *settings.values.map { |value| text(value) })
          nil
        end

        def there?(database, queue)
          database.call("SELECT count(*) FROM fairq.queues WHERE queue = $1", queue.to_s).first.first.to_i.positive?
        end

        # Creates a queue that is not there. Only what others have committed is remembered:
        # a transaction that creates a queue may be rolled back.
        def ensure_there(database, queue)
          return unless Fairq.create_queues
          return if @lock.synchronize { @known.include?(queue) }

          if there?(database, queue)
            @lock.synchronize { @known << queue } unless database.in_transaction?
          else
            create(database, queue, {})
          end
        end

        # For tests that drop queues.
        def forget
          @lock.synchronize { @known.clear }
        end

        def enqueue(database, job, run_at)
          data = job.serialize
          place = Place.from(data["fairq"])
          ensure_there(database, job.queue_name)
          database.call(ENQUEUE, job.queue_name, payload(job, data), place.group || "", integer(job.priority), place.cost&.to_s || "1",
                        time(run_at), place.unique_key, headers(job), name_of(job.class.name), place.subgroup).first.first
        end

        # All of one queue; the ids in their order.
        def enqueue_many(database, queue, jobs)
          data = jobs.map(&:serialize)
          places = data.map { |one| Place.from(one["fairq"]) }
          ensure_there(database, queue)
          columns = [jobs.zip(data).map { |job, one| payload(job, one) }, places.map(&:group),
                     jobs.map { |job| integer(job.priority) }, places.map { |place| place.cost&.to_s },
                     jobs.map { |job| time(job.scheduled_at) }, places.map(&:unique_key), jobs.map { |job| name_of(job.class.name) },
                     places.map(&:subgroup)]
          database.call(ENQUEUE_MANY, queue, *columns.map { |column| array(column) }).map(&:first)
        end

        def array(values)
          PG::TextEncoder::Array.new.encode(values).force_encoding(Encoding::UTF_8)
        end

        # A text as long as the server takes one for a name.
        def name_of(text)
          text&.byteslice(0, NAME_BYTES)&.scrub("")
        end

        private

        def payload(job, data)
          json = JSON.generate(data)
          return json unless json.include?('\u0000') && json.match?(/(?<!\\)(?:\\\\)*\\u0000/)

          raise SerializationError, "an argument of #{job.class.name} has a NUL character, which jsonb cannot hold"
        end

        # The trace, and of a retry what it is for.
        def headers(job)
          error = job.fairq_error
          retried = error ? { "retry_of" => job.provider_job_id, "executions" => job.executions, "error" => ErrorText.head(error) } : {}
          headers = Trace.headers.merge(retried)
          JSON.generate(headers) unless headers.empty?
        end

        def integer(priority)
          priority && Integer(priority).to_s
        end

        def time(at)
          at && Time.at(at.to_r).utc.iso8601(6)
        end

        def text(value)
          case value
          when nil, String then value
          when Array then "{#{value.join(",")}}"
          when ActiveSupport::Duration then "#{value.to_f} seconds"
          else value.to_s
          end
        end
      end
    end

    autoload :ErrorText, "active_job/fairq/error_text"
  end
end
