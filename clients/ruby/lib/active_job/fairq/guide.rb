# frozen_string_literal: true

module ActiveJob
  module Fairq
    # Where a worker works: in the database of its queues, or, if that is a proxy of a
    # cluster, at a node that the proxy names. The proxy says as well when to ask it again.
    class Guide
      include Answers

      IS_PROXY = "SELECT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'pgfairq_cluster')"
      WORKER_NODE = "SELECT node, connection, extract(epoch FROM ask_after) " \
                    "FROM fairq.worker_node_any($1::text[], $2::uuid, $3::int[])"

      # What the node's connection says of where it is, and how soon it is taken for dead;
      # all else, such as user, password and TLS, is that of the connection to the proxy.
      OF_NODE = %i[host hostaddr port dbname target_session_attrs load_balance_hosts service].freeze
      LIMITS = %i[connect_timeout keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout].freeze

      ANSWER = 10 # seconds for one of the proxy
      KEPT = 10 # a connection to the proxy is kept for a question that comes so soon
      FIRST_ABSENCE = 5
      LONGEST_ABSENCE = 60

      Node = Struct.new(:number, :address)

      def self.address_of(connection, own)
        theirs = PG::Connection.conninfo_parse(connection).to_h { |option| [option[:keyword].to_sym, option[:val]] }.compact
        theirs.merge(own.compact.reject { |word, _| OF_NODE.include?(word) }, theirs.slice(*OF_NODE, *LIMITS))
      end

      # attended: an Attendance, for whose queues the proxy is asked.
      def initialize(address, attended)
        @address = address
        @attended = attended
        @pause = 2.0
        @next = 0
        @absences = {} # [until, seconds] of nodes by their numbers
      end

      def due_in
        @proxy ? [@next - now, 0].max : Float::INFINITY
      end

      # The node to work at, for a worker that has this session at another. Nil: there is no proxy.
      def ask(session)
        return if @proxy == false

        answer = nil
        talk do |pg|
          @proxy = answer_of(pg, ANSWER, IS_PROXY).first.first == "t" if @proxy.nil?
          answer = @attended.together { |queues| node_for(pg, queues, session) } if @proxy
          answer &&= [answer, pg.conninfo_hash]
        end
        answer && note(*answer)
      end

      # So many tasks were claimed there. When a node becomes empty it is time to ask soon.
      def found(node, count)
        return unless node

        @absences.delete(node.number)
        @next = [@next, now + @pause / 4 * (0.5 + rand)].min if count.zero? && @worked
        @worked = count.positive?
      end

      # It could not be connected to, or was lost: it is not asked for, for ever longer times.
      def unreached(node)
        _, seconds = @absences[node.number]
        seconds = seconds ? [seconds * 2, LONGEST_ABSENCE].min : FIRST_ABSENCE
        @absences[node.number] = [now + seconds * (0.5 + rand / 2), seconds]
      end

      def postpone
        @next = now + @pause * (0.75 + rand / 2)
      end

      def close
        @connection&.close
        @connection = nil
      end

      private

      def node_for(connection, queues, session)
        answer_of(connection, ANSWER, WORKER_NODE, Queues.array(queues), session, Queues.array(absent)).first
      end

      def note((number, connection, pause), own)
        @pause = pause.to_f
        postpone
        Node.new(number.to_i, self.class.address_of(connection, own))
      end

      def absent
        @absences.select { |_, (ends, _)| ends > now }.keys.map(&:to_s)
      end

      def talk
        @connection ||= PG.connect(@address)
        clean = false
        yield @connection
        clean = true
      ensure
        close unless clean && @pause <= KEPT && @proxy
      end
    end
  end
end
