# frozen_string_literal: true

require "active_support/configuration_file"

module ActiveJob
  module Fairq
    # A file of recurring jobs, such as config/recurring.yml, as schedules of the server.
    # Those that it has made have the application's name in their headers; no others are
    # replaced or removed.
    class Recurring
      OWNER = "recurring"
      MADE = "SELECT name, headers ->> '#{OWNER}', active::text FROM fairq.schedules"
      SCHEDULE = "SELECT fairq.schedule($1, $2, $3, $4::jsonb, group_key => $5, priority => $6::bigint, cost => $7::float8, " \
                 "headers => $8::jsonb, timezone => $9, catch_up => $10, overlap => $11::boolean, active => $12::boolean, " \
                 "task_name => $13, subgroup_key => $14)::text"
      UNSCHEDULE = "SELECT fairq.unschedule($1)::text"
      REFUSALS = %i[InvalidParameterValue UndefinedObject InsufficientPrivilege ConfigurationLimitExceeded].freeze

      @commands = {}.freeze

      class << self
        # Of the file that was applied last, by their keys.
        attr_accessor :commands
      end

      # Reads the file; an error in it is a ConfigurationError that names the entry.
      def initialize(path)
        @path = path.to_s
        @owner = Fairq.application
        refuse("whose jobs these are is not known: set config.fairq.application to a name of your own; " \
               "without Rails, ActiveJob::Fairq.application") if @owner.to_s.empty?
        @entries = section(parse).map { |key, given| Entry.new(@path, key.to_s, given) }
      end

      def apply(database)
        self.class.commands = @entries.to_h { |entry| [entry.key, entry.command] }.compact.freeze
        made = database.call(MADE).to_h { |name, owner, active| [name, [owner, active]] }
        @entries.each { |entry| make(database, entry, *made[entry.key]) }
        left = made.select { |_, (owner, _)| owner == @owner }.keys - @entries.map(&:key)
        left.each { |name| database.call(UNSCHEDULE, name) }
        nil
      end

      private

      def parse
        ActiveSupport::ConfigurationFile.parse(@path).tap { |found| refuse("it is no mapping of keys to jobs") unless found.is_a?(Hash) }
      rescue SystemCallError => error
        refuse(error.message)
      rescue StandardError, SyntaxError => error
        raise if error.is_a?(ConfigurationError)

        refuse("#{error.class}: #{error.message.lines.first&.strip}")
      end

      # Of the environment, if the file has one for each.
      def section(found)
        sections = found.any? && found.values.all? { |value| value.nil? || (value.is_a?(Hash) && value.values.all?(Hash)) }
        sections ? found[environment] || {} : found
      end

      def environment
        defined?(::Rails.env) ? ::Rails.env.to_s : ENV["RAILS_ENV"] || ENV["RACK_ENV"] || "development"
      end

      def make(database, entry, owner = nil, active = nil)
        if active && owner != @owner
          refuse("#{entry.key}: there is a schedule of that name, made #{owner ? "for the application #{owner}" : 'by hand'}: " \
                 "rename it, or remove that one with fairq.unschedule")
        end
        Queues.ensure_there(database, entry.queue)
        database.call(SCHEDULE, *entry.schedule(JSON.generate(OWNER => @owner), active || "true"))
      rescue StandardError => error
        refused = error.is_a?(PG::Error) ? error : error.cause
        raise unless REFUSALS.any? { |name| PG.const_defined?(name) && refused.is_a?(PG.const_get(name)) }

        refuse("#{entry.key}: #{refused.message.strip.tr("\n", ' ')}")
      end

      def refuse(why)
        raise ConfigurationError, "#{@path}: #{why}"
      end

      # One job of the file.
      class Entry
        KEYS = %w[class command args queue priority schedule timezone catch_up overlap description].freeze

        attr_reader :key, :queue, :command

        def initialize(path, key, given)
          @path = path
          @key = key
          @given = given
          check
          @command = given["command"]
          @job = @command ? RecurringCommandJob.new(key) : job_class.new(*arguments)
          @queue = (given["queue"] || @job.queue_name).to_s
        end

        # What fairq.schedule takes, in its order.
        def schedule(headers, active)
          data = @job.serialize.slice("job_class", "arguments", "locale", "timezone", "fairq")
          place = Place.from(data["fairq"])
          priority = @given["priority"] || @job.priority
          [key, queue, @given["schedule"], JSON.generate(data), place.group || "", priority&.to_s, (place.cost || 1).to_s, headers,
           @given["timezone"] || "UTC", @given["catch_up"] || "one", (@given["overlap"] || false).to_s, active,
           Queues.name_of(@command ? key : @job.class.name), place.subgroup]
        end

        private

        def check
          refuse("it is no mapping") unless @given.is_a?(Hash)
          unknown = @given.keys.map(&:to_s) - KEYS
          refuse("there is no #{unknown.join(', ')}; there are #{KEYS.join(', ')}") unless unknown.empty?
          refuse("it takes a class or a command, and one of them") unless @given.values_at("class", "command").compact.size == 1
          %w[class command schedule queue timezone catch_up].each { |name| text(name) }
          refuse("it has no schedule, such as \"0 3 * * *\"") unless @given["schedule"]
          refuse("args are for a class") if @given["command"] && @given.key?("args")
          refuse("priority is #{@given['priority'].inspect}, no whole number") unless [nil, Integer].any? { |kind| kind === @given["priority"] }
          refuse("overlap is #{@given['overlap'].inspect}, neither true nor false") unless [nil, true, false].include?(@given["overlap"])
        end

        def text(name)
          value = @given[name]
          refuse("#{name} is #{value.inspect}, no text") unless value.nil? || (value.is_a?(String) && !value.strip.empty?)
        end

        def job_class
          found = @given["class"].safe_constantize
          return found if found.is_a?(Class) && found <= ActiveJob::Base

          refuse("this application has no job class #{@given['class'].inspect}")
        end

        # A Hash that comes last is of keyword arguments.
        def arguments
          values = Array.wrap(@given["args"])
          return values unless values.last.is_a?(Hash)

          values[0...-1] << Hash.ruby2_keywords_hash(values.last.symbolize_keys)
        end

        def refuse(why)
          raise ConfigurationError, "#{@path}: #{key}: #{why}"
        end
      end
    end
  end
end
