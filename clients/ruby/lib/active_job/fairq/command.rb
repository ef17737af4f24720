# frozen_string_literal: true

require "logger"
require "optparse"
require "active_job/fairq/errors"
require "active_job/fairq/version"

module ActiveJob
  module Fairq
    # bin/fairq: options, the application, signals. The rest of the library is loaded
    # with the application, after Rails, which then takes config.fairq.
    class Command
      DEFAULTS = { queues: ["default"], threads: 5, timeout: 25, ttl: 30, require: ".", recurring: nil }.freeze

      # Returns the exit code.
      def self.run(arguments)
        new(arguments).run
      rescue OptionParser::ParseError, ConfigurationError => error
        warn "fairq: #{error.message}"
        2
      end

      def initialize(arguments)
        @options = DEFAULTS.dup
        rest = parser.parse(arguments)
        raise OptionParser::NeedlessArgument, rest.join(" ") unless rest.empty?
      end

      def run
        return say(parser.help) if @options[:help]
        return say("activejob-fairq #{VERSION}") if @options[:version]

        load_application
        worker = Worker.new(**@options.slice(:queues, :threads, :timeout, :ttl), logger: logger, recurring: recurring)
        obey_signals(worker)
        worker.run || give_up
        0
      end

      private

      def parser
        @parser ||= OptionParser.new do |to|
          to.banner = "Usage: fairq [options]\n\nRuns Active Job's jobs from queues of pgfairq.\n\n"
          to.on("-q", "--queues A,B", Array, "queues, the first before the next (default)") { |v| @options[:queues] = v }
          to.on("-t", "--threads N", Integer, "jobs at a time (5)") { |v| @options[:threads] = positive("--threads", v) }
          to.on("--timeout SECONDS", Float, "how long jobs may go on after SIGTERM (25)") { |v| @options[:timeout] = positive("--timeout", v, 0) }
          to.on("--ttl SECONDS", Float, "a worker silent for so long is taken for dead (30)") { |v| @options[:ttl] = positive("--ttl", v, 1) }
          to.on("-r", "--require PATH", "a Rails application's directory, or a file (.)") { |v| @options[:require] = v }
          to.on("--recurring FILE", "recurring jobs (config/recurring.yml of the application, if there is one)") { |v| @options[:recurring] = v }
          to.on("-v", "--version", "the version") { @options[:version] = true }
          to.on("-h", "--help", "this") { @options[:help] = true }
        end
      end

      def positive(option, value, least = 1)
        return value if value >= least && value.finite?

        raise OptionParser::InvalidArgument, "#{option} must be #{least} or more, not #{value}"
      end

      def load_application
        path = File.expand_path(@options[:require])
        path = File.join(path, "config", "environment.rb") if File.directory?(path)
        unless File.file?(path)
          raise ConfigurationError, "there is no #{path}: give --require a Rails application's directory, or a file that loads your jobs"
        end

        require path
        require "active_job/fairq"
        name = ActiveJob::Base.queue_adapter_name
        logger.warn("config.active_job.queue_adapter is :#{name}, not :fairq: jobs go elsewhere, retries too") unless name == "fairq"
      end

      def recurring
        path = @options[:recurring] || [File.join(@options[:require], "config", "recurring.yml")].find { |file| File.file?(file) }
        path && Recurring.new(path)
      end

      def logger
        @logger ||= Logger.new($stderr, progname: "fairq")
      end

      # A trap may not take a lock, so a thread does what it says. The second signal
      # ends the patience with the jobs.
      def obey_signals(worker)
        reader, writer = IO.pipe
        %w[TERM INT].each { |signal| trap(signal) { writer.write_nonblock(".") } }
        Thread.new do
          again = false
          while reader.read(1)
            worker.stop(now: again)
            again = true
          end
        end
      end

      # Threads that cannot be ended would hold up a plain exit. Their connections
      # close with the process, and the server rolls back.
      def give_up
        $stderr.flush
        $stdout.flush
        exit!(0)
      end

      def say(text)
        puts text
        0
      end
    end
  end
end
