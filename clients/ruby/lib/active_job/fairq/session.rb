# frozen_string_literal: true

module ActiveJob
  module Fairq
    Task = Struct.new(:queue, :id, :receipt, :group, :subgroup, :payload, :headers_text, :enqueued_at, :name, :attempt) do
      # As a Hash; empty if there are none, or something else, or what this parser refuses (100
      # levels): who has enqueued it must not stop the thread with them.
      def headers
        @headers ||= (headers_text && JSON.parse(headers_text)).then { |found| found.is_a?(Hash) ? found : {} }
      rescue JSON::ParserError
        @headers = {}
      end

      # For the log: the name is whoever's who has enqueued it.
      def to_s
        "task #{id}#{" (#{name[0, 100].inspect})" if name} of #{queue}"
      end
    end

    # A bound session of pgfairq: a thread that sends its heartbeats, on a connection of
    # their own, and a connection that claims and waits.
    class Session
      include Answers

      WAIT = 5 # seconds that a call waits for tasks

      # How long the statement waits for a lock: for itself alone, and in one trip.
      BOUND = "(SELECT set_config('lock_timeout', %s, true) OFFSET 0) AS bound (patience)"

      # The claim asks for what has set its patience, so it comes after that.
      CLAIM = "SELECT queue, id, receipt, group_key, subgroup_key, payload::text, headers::text, enqueued_at::text, name, attempt " \
              "FROM #{format(BOUND, '$4')} CROSS JOIN LATERAL " \
              "fairq.claim_any(CASE WHEN bound.patience IS NOT NULL THEN $1::text[] END, $2::int, session => $3::uuid)"
      RELEASE = "SELECT fairq.release_many($1::uuid[]) FROM #{format(BOUND, '$2')}"

      # Long jobs and long waits, whatever the role's settings say.
      OPEN = "SELECT fairq.open_session($1, $2::interval, bound => true)"

      NO_TIMEOUTS = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN " \
                    "('statement_timeout', 'idle_session_timeout', 'transaction_timeout')"

      # A wait for tasks is no wait for a table's lock.
      LOCK_TIMEOUT = "SELECT set_config('lock_timeout', $1, false)"

      LATER = 10 # seconds until a task is given back that would fail again at once

      NODE_PATIENCE = 10 # seconds for an answer where there are other nodes to go to

      attr_reader :id, :node, :database

      # ttl: seconds without a heartbeat after which it is over. node: of a cluster; nil:
      # there is only one place. database: where its tasks are settled. The block is
      # called, once, when it is over before it was closed.
      def initialize(address, database, name:, ttl:, node: nil, &on_over)
        @ttl = ttl
        @node = node
        @database = database
        @patience = node ? NODE_PATIENCE : ttl
        @on_over = on_over
        @lock = Mutex.new
        @changed = ConditionVariable.new
        @connections = []
        @late = [] # tasks that are given back later, and when
        @beats = connect(address)
        @claims = connect(address)
        ask(@claims, LOCK_TIMEOUT, milliseconds(Attendance::LOCK_PATIENCE))
        @alive_until = now + ttl
        @id = ask(@beats, OPEN, name, "#{ttl} s").first.first
        @thread = Thread.new { beat }
      rescue PG::Error
        @connections.each(&:close)
        raise
      end

      # The leases are gone, or are about to be given back.
      def over?
        @over || now > @alive_until
      end

      # patience: how long to wait for a lock.
      def claim(queues, count, patience)
        ask(@claims, CLAIM, Queues.array(queues), count.to_s, @id, milliseconds(patience)).map do |*task, attempt|
          Task.new(*task, attempt.to_i)
        end
      end

      # Until there may be something to claim.
      def wait(queues, longest = WAIT)
        ask(@claims, "CALL fairq.wait_any($1::text[], $2::interval)", Queues.array(queues), "#{[WAIT, longest].min} s")
      end

      # Ends a call that waits, from another thread.
      def wake
        @claims.cancel
      rescue PG::Error
        nil
      end

      def release(tasks)
        return if tasks.empty?

        ask(@claims, RELEASE, Queues.array(tasks.map(&:receipt)), milliseconds(Attendance::ALONE_PATIENCE))
      end

      # The task is given back after a while, by release_late.
      def release_later(task)
        @lock.synchronize { @late << [task, now + LATER * (0.5 + rand / 2)] }
      end

      # Each alone, since one may be refused: that one is tried again.
      def release_late
        due = nil
        @lock.synchronize { due, @late = @late.partition { |_, at| at <= now } }
        due.each do |task, _|
          release([task])
        rescue PG::Error => error
          raise if Verdict.lost?(error)

          release_later(task)
        end
      end

      # Gives back what is not settled, and counts no attempt. Where that fails, the
      # server does it when it sees the connections go, and counts one.
      def close
        @lock.synchronize do
          @closing = true
          @changed.broadcast
        end
        @thread.join(@ttl)
        end_now unless @over
        ask(@beats, "SELECT fairq.close_session($1::uuid)", @id)
      rescue PG::Error
        nil
      ensure
        @connections.each { |connection| connection.close unless connection.finished? }
      end

      # It cannot be used any more, so what runs under it must stop.
      def end_now
        first = @lock.synchronize { !@over && (@over = true) }
        @on_over.call(self) if first
      end

      private

      def beat
        until closing_within(@ttl / 4.0)
          sent = now
          break unless ask(@beats, "SELECT fairq.heartbeat($1::uuid)::text", @id) == [["true"]]

          @alive_until = sent + @ttl
        end
      rescue PG::Error
        nil
      ensure
        unless @closing
          end_now
          wake
        end
      end

      def closing_within(seconds)
        @lock.synchronize do
          @changed.wait(@lock, seconds) unless @closing
          @closing
        end
      end

      def connect(address)
        connection = PG.connect(address)
        @connections << connection
        connection.exec(NO_TIMEOUTS)
        connection
      end

      def milliseconds(seconds)
        (seconds * 1000).to_i.to_s
      end

      def ask(connection, sql, *params)
        answer_of(connection, WAIT + @patience, sql, *params)
      end
    end
  end
end
