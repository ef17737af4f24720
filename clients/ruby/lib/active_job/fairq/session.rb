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

      CLAIM = "SELECT queue, id, receipt, group_key, subgroup_key, payload::text, headers::text, enqueued_at::text, name, attempt " \
              "FROM fairq.claim_any($1::text[], $2::int, session => $3::uuid)"

      # Long jobs and long waits, whatever the role's settings say.
      OPEN = "SELECT fairq.open_session($1, $2::interval, bound => true)"

      NO_TIMEOUTS = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN " \
                    "('statement_timeout', 'idle_session_timeout', 'transaction_timeout')"

      # A claim that waits for a table's lock is no server that hangs. It gives up while there is
      # time for an answer, also where it has waited for tasks before.
      LOCK_TIMEOUT = "SELECT set_config('lock_timeout', $1, false)"

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
        @beats = connect(address)
        @claims = connect(address)
        ask(@claims, LOCK_TIMEOUT, (@patience * 500).to_i.to_s)
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

      def claim(queues, count)
        ask(@claims, CLAIM, Queues.array(queues), count.to_s, @id).map do |*task, attempt|
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
        ask(@claims, "SELECT fairq.release_many($1::uuid[])", Queues.array(tasks.map(&:receipt))) unless tasks.empty?
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

      def ask(connection, sql, *params)
        answer_of(connection, WAIT + @patience, sql, *params)
      end
    end
  end
end
