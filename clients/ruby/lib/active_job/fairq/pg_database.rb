# frozen_string_literal: true

module ActiveJob
  module Fairq
    # The database by plain connections of pg, where Active Record is not.
    class PgDatabase
      KEY = :fairq_pg_connection
      IDLE = 5

      def initialize(address)
        @address = address
        @lock = Mutex.new
        @idle = []
        @process = Process.pid
      end

      attr_reader :address

      def records?
        false
      end

      # That of the transaction that this thread is in.
      def connection
        Thread.current.thread_variable_get(KEY)
      end

      def in_transaction?
        !connection.nil?
      end

      def call(sql, *params)
        return connection.exec_params(sql, params).values if connection

        borrow { |pg| pg.exec_params(sql, params).values }
      end

      def transaction
        return savepoint { yield } if connection

        borrow do |pg|
          Thread.current.thread_variable_set(KEY, pg)
          pg.exec("BEGIN")
          result = undone_on_failure("ROLLBACK") { yield }
          pg.exec("COMMIT")
          result
        ensure
          Thread.current.thread_variable_set(KEY, nil)
        end
      end

      def savepoint
        connection.exec("SAVEPOINT fairq")
        result = undone_on_failure("ROLLBACK TO SAVEPOINT fairq; RELEASE SAVEPOINT fairq") { yield }
        connection.exec("RELEASE SAVEPOINT fairq")
        result
      end

      # What is idle. What is lent is closed by who has it, when it comes back.
      def close
        idle = @lock.synchronize do
          @closed = true
          @idle.tap { @idle = [] }
        end
        idle.each(&:close)
      end

      private

      # An interruption may come in the middle of a statement, which is ended first.
      def undone_on_failure(sql)
        yield
      rescue Exception
        connection.cancel if connection.transaction_status == PG::PQTRANS_ACTIVE
        connection.discard_results
        connection.exec(sql)
        raise
      end

      def borrow
        pg = take
        clean = false
        result = yield pg
        clean = true
        result
      ensure
        give_back(pg, clean) if pg
      end

      def take
        @lock.synchronize do
          if @process != Process.pid # the connections are the parent's
            @idle = []
            @process = Process.pid
          end
        end
        while (pg = @lock.synchronize { @idle.pop })
          return pg if alive?(pg)

          pg.close
        end
        PG.connect(@address)
      end

      # An idle connection on which there is something to read has been closed by the
      # server, or has a notice that no call waits for.
      def alive?(pg)
        pg.status == PG::CONNECTION_OK && IO.select([pg.socket_io], nil, nil, 0).nil?
      rescue PG::Error, IOError
        false
      end

      def give_back(pg, clean)
        keep = pg.status == PG::CONNECTION_OK && pg.transaction_status == PG::PQTRANS_IDLE &&
               (clean || alive?(pg))
        keep &&= @lock.synchronize { @idle << pg if @idle.size < IDLE && !@closed }
        pg.close unless keep || pg.finished?
      end
    end
  end
end
