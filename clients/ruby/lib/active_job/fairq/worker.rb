# frozen_string_literal: true

require "logger"
require "socket"
require "active_job/fairq/crew"
require "active_job/fairq/session"

module ActiveJob
  module Fairq
    # Claims for its free threads, runs jobs, and goes on after whatever happens to the
    # server. bin/fairq is its command line.
    class Worker
      QUEUES = 32
      FIRST_PAUSE = 0.1
      LONGEST_PAUSE = 10
      LONGEST_REST = 15 # no longer without a look whether the session is over
      FRAMEWORKS = %w[ActiveSupport ActiveModel ActiveRecord ActiveJob].freeze
      UNWINDING = 2 # seconds for jobs that were interrupted to end

      class << self
        attr_writer :stopping

        def stopping?
          @stopping ? true : false
        end
      end

      # recurring: a Recurring, whose schedules are made before anything is claimed.
      def initialize(queues: ["default"], threads: 5, timeout: 25, ttl: 30, logger: Logger.new($stderr), recurring: nil)
        @queues = check_queues(queues)
        @threads = threads
        @timeout = timeout
        @ttl = ttl
        @logger = logger
        @recurring = recurring
        @name = "#{Socket.gethostname}:#{Process.pid}"[0, 63]
        @notices = Notices.new(@name, logger)
        @lock = Mutex.new
        @changed = ConditionVariable.new
        @pause = FIRST_PAUSE
      end

      # Until stop. False if jobs did not end in time and their threads are still at them.
      def run
        check_pool
        load_frameworks
        Execution.watch_retries
        ActiveJob::LogSubscriber.prepend(Backtrace::Log)
        @database = Fairq.database
        RecordDatabase.keep_threads_apart if @database.records?
        @attended = Attendance.new(@queues) do |queue, error, pause|
          @logger.error("queue #{queue} is put off for #{pause.round(1)} s: #{ErrorText.head(error)}")
        end
        @guide = Guide.new(Fairq.worker_address, @attended)
        @leaving = {} # sessions at nodes that are left, and who waits until their jobs have ended
        @crew = Crew.new(@threads) { |turn| work(turn) }
        @logger.info("#{@threads} threads for #{@queues.join(', ')}")
        @notices.worker("start", queues: @queues, threads: @threads)
        ended = end_all { serve_until_stopped }
        @logger.info("stopped")
        ended
      end

      # Claims nothing more, and lets jobs end for `timeout` seconds; or not at all.
      def stop(now: false)
        @lock.synchronize do
          @deadline = time + (now ? 0 : @timeout)
          @stopping = true
          @changed.broadcast
        end
        Worker.stopping = true
        @crew&.wake
        Thread.new { wake_the_claim }
      end

      private

      # An interruption within a `require` can leave RubyGems locked for the whole process,
      # so what a first job would load is there before it. What is the application's own is
      # loaded by its config.eager_load, as for a server of several threads.
      def load_frameworks
        FRAMEWORKS.filter_map { |name| name.safe_constantize }.each(&:eager_load!)
      end

      # When the block has returned, or has failed. Whether all jobs have ended.
      def end_all
        yield
        @claims_ended = true
        ended = idle_within(UNWINDING)
        @crew.dismiss if ended
        @leaving.values.each(&:join) if ended
        @guide.close
        ended
      ensure
        @notices.worker("stop", queues: @queues, threads: @threads, ended: ended ? true : false)
      end

      def serve_until_stopped
        until @stopping
          begin
            serve
          rescue StandardError => error
            raise unless of_database?(error)

            @guide.unreached(@node) if @node
            @next = nil
            @logger.error("#{error.class}: #{error.message.strip}; connecting again in #{@pause.round(1)} s") unless @stopping
            pause
          end
        end
      end

      # At one node, if there are several, until it is another one's turn.
      def serve
        @node = nil
        @node = @next || @guide.ask(nil)
        @next = nil
        session = open_session(@node)
        @attended.renew if @node
        prepare
        @session = session
        claim_from(session) until @stopping || session.over? || @next
      ensure
        leave(session) if session
      end

      def claim_from(session)
        session.release_late
        free = @crew.free(1)
        return if free.zero? || @stopping
        return if @guide.due_in.zero? && (@next = following(session))

        tasks = @attended.claim(free) do |queues, room, patience|
          (queues & @unmade).each { |queue| make(queue) }
          session.claim(queues, room, patience)
        end
        return rest(@attended.due_in) unless tasks

        @guide.found(session.node, tasks.size)
        @pause = FIRST_PAUSE
        if @stopping
          session.release(tasks)
        elsif tasks.empty?
          session.wait(@attended.there, [@guide.due_in, @attended.due_in].min)
        else
          tasks.each { |task| @crew.start(task, session) }
        end
      rescue PG::Error => error
        cannot_claim(error)
      end

      # What runs goes on, unless the connection or the session is gone.
      def cannot_claim(error)
        raise error if Verdict.lost?(error) || Verdict.session_over?(error)
        return if @stopping # which has cancelled the claim

        @logger.error("cannot claim: #{ErrorText.head(error)}; trying again in #{@pause.round(1)} s")
        @attended.doubt if Verdict.of_queue?(error)
        pause
      end

      # Another node, if the worker is to go there. Whoever stays needs no proxy.
      def following(session)
        node = @guide.ask(session.id)
        node if node && node.number != session.node.number
      rescue PG::Error => error
        @logger.warn("cannot ask for a node: #{error.message.strip}; staying")
        @guide.postpone
        nil
      end

      # A session that serves no more. Jobs go on under it while the worker stops, or if
      # it has only gone to another node.
      def leave(session)
        if @stopping
          let_end(session)
        elsif @next
          return @leaving[session] = Thread.new { @crew.wait_for(session); close(session) }
        else
          session.end_now
          return @leaving[session] = Thread.new { close(session) } if session.node
        end
        close(session)
      end

      def close(session)
        session.close
        session.database.close if session.node
      ensure
        @leaving.delete(session)
      end

      def let_end(session)
        @claims_ended = true
        return if @crew.idle_while { time < @deadline && !session.over? }

        @logger.warn("jobs that did not end in time are given back")
        [session, *@leaving.keys].each { |one| @crew.interrupt(one, WorkerStopped) }
        idle_within(UNWINDING)
      end

      def idle_within(seconds)
        end_of_patience = time + seconds
        @crew.idle_while { time < end_of_patience }
      end

      def work(turn)
        @notices.attempt(turn.task) { outcome_of(turn) }
      end

      # What has become of the task, and of what error.
      def outcome_of(turn)
        task = turn.task
        session = turn.session
        execution = Execution.new(task, session.database)
        execution.run(turn)
        :done
      rescue Exception => error
        reason = Interruption.behind(error)
        reason ? interrupted(task, reason) : [failed(execution, task, session, error), error]
      end

      def interrupted(task, reason)
        @logger.warn("#{task}, attempt #{task.attempt}: #{reason.class.name.demodulize}")
        [reason.is_a?(WorkerStopped) ? :released : :lost, reason]
      end

      def failed(execution, task, session, error)
        @logger.error("#{task}, attempt #{task.attempt}: #{ErrorText.head(error)}")
        outcome = execution.failed(error, session) { |trouble| @logger.error("#{task}: #{ErrorText.head(trouble)}") }
        @logger.error("#{task} is dead") if outcome == :dead
        outcome
      end

      def open_session(node)
        refuse_records if node && @database.records?
        Session.new(node ? node.address : Fairq.worker_address, node ? PgDatabase.new(node.address) : @database,
                    name: @name, ttl: @ttl, node: node) do |over|
          @crew.interrupt(over, LeaseLost)
          @crew.wake
        end
      rescue PG::InvalidSchemaName, PG::UndefinedFunction => error
        raise ConfigurationError, "pgfairq is not in this database (#{error.message.lines.first.strip}): " \
                                  "run CREATE EXTENSION pgfairq in it, or set FAIRQ_DATABASE_URL to where it is"
      end

      # What a job writes by Active Record is not at the node of its task.
      def refuse_records
        raise ConfigurationError, "the queues are at a proxy of a cluster, where jobs have no transaction of Active Record: " \
                                  "set config.fairq.record_class to false and config.fairq.database_url to the proxy; " \
                                  "or work at one node, whose connection SELECT connection FROM fairq.worker_node('queue') says"
      end

      def prepare
        return if @prepared

        @unmade = @queues.dup
        @queues.each { |queue| make(queue) }
        @recurring&.apply(@database)
        @prepared = true
      end

      # One that cannot be made keeps the worker from no other: it is put off then, and is to be
      # made when it is claimed from again.
      def make(queue)
        Queues.ensure_there(@database, queue)
        @unmade.delete(queue)
      rescue StandardError => error
        raise unless of_database?(error) && Verdict.of_queue?(error)

        @logger.error("cannot make queue #{queue}: #{ErrorText.head(error)}")
      end

      def wake_the_claim
        until @claims_ended
          @session&.wake
          sleep 0.05
        end
      end

      # Until the worker stops, or for some time.
      def rest(seconds)
        @lock.synchronize { @changed.wait(@lock, [seconds, LONGEST_REST].min) unless @stopping }
      end

      def pause
        rest(@pause * (0.75 + rand / 2))
        @pause = [@pause * 2, LONGEST_PAUSE].min
      end

      def check_queues(queues)
        queues = queues.map(&:to_s).uniq
        return queues if queues.size.between?(1, QUEUES) && queues.none?(&:empty?)

        raise ConfigurationError, "a worker takes 1 to #{QUEUES} queues, each with a name; got #{queues.inspect}"
      end

      def check_pool
        size = Fairq.database.size if Fairq.database.records?
        return if size.nil? || size >= @threads

        raise ConfigurationError, "#{@threads} threads need as many connections of Active Record, whose pool has #{size}: " \
                                  "set pool to #{@threads} or more in config/database.yml, or give --threads #{size}"
      end

      def of_database?(error)
        error.is_a?(PG::Error) || (defined?(::ActiveRecord::ActiveRecordError) && error.is_a?(::ActiveRecord::ActiveRecordError))
      end

      def time
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
