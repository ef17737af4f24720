# frozen_string_literal: true

module ActiveJob
  module Fairq
    # The database by the connection of Active Record, in whatever transaction is open there.
    class RecordDatabase
      # A `transaction do` of the job's own code is a savepoint, and no part of ours: so
      # ActiveRecord::Rollback undoes it, and after_commit waits for the real commit.
      module OwnTransactions
        attr_accessor :fairq_outer

        def transaction(requires_new: nil, **options, &block)
          requires_new ||= true if fairq_outer&.equal?(current_transaction)
          super(requires_new: requires_new, **options, &block)
        end
      end

      # The connections of a pool share what is known of tables, which Rails before 7.1 asks for on
      # the connection that asked last, be it of another thread. That is locked for as long as the
      # other thread has a transaction, so two jobs that meet a table for the first time could
      # wait for each other for ever. Here each thread asks on its own.
      module SchemaOfThread
        KEY = :fairq_schema_connections

        def connection=(connection)
          super
          found = Thread.current.thread_variable_get(KEY)
          Thread.current.thread_variable_set(KEY, found = {}.compare_by_identity) unless found
          found[self] = connection
        end

        def connection
          Thread.current.thread_variable_get(KEY)&.fetch(self, nil) || super
        end
      end

      # For a process whose threads have long transactions.
      def self.keep_threads_apart
        cache = ::ActiveRecord::ConnectionAdapters::SchemaCache
        cache.prepend(SchemaOfThread) if cache.method_defined?(:connection=)
      end

      def initialize(class_name)
        @class_name = class_name.to_s
      end

      def records?
        true
      end

      # It is Active Record's to give.
      def connection
        nil
      end

      def in_transaction?
        with(&:transaction_open?)
      end

      # exec_query, for select_all would answer from the query cache.
      def call(sql, *params)
        with { |connection| connection.exec_query(sql, "Fairq", params).rows }
      end

      def transaction
        with { |connection| connection.transaction(requires_new: true) { yield } }
      end

      def savepoint
        with do |connection|
          connection.extend(OwnTransactions) unless connection.is_a?(OwnTransactions)
          connection.transaction(requires_new: true) do
            outer = connection.fairq_outer
            connection.fairq_outer = connection.current_transaction
            begin
              yield
            ensure
              connection.fairq_outer = outer
            end
          end
        end
      end

      # How many jobs can have a connection at a time.
      def size
        size = record.connection_pool.size
        size if size.is_a?(Integer)
      end

      # What PG.connect takes to get where Active Record is.
      def address
        config = record.connection_db_config.configuration_hash.compact
        config = config.merge(user: config[:username]) if config[:username]
        config = config.merge(dbname: config[:database]) if config[:database]
        config.slice(*PG::Connection.conndefaults_hash.keys)
      end

      private

      def record
        @class_name.constantize
      end

      # A request that reads from a standby enqueues at the primary.
      def with(&block)
        writing = ::ActiveRecord.respond_to?(:writing_role) ? ::ActiveRecord.writing_role : ::ActiveRecord::Base.writing_role
        return record.connection_pool.with_connection(&block) if record.current_role == writing

        ::ActiveRecord::Base.connected_to(role: writing) { record.connection_pool.with_connection(&block) }
      end
    end
  end
end
