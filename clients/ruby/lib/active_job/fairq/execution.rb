# frozen_string_literal: true

require "json"
require "active_support/core_ext/digest/uuid"
# What it names would be loaded by the threads that call it first, which Ruby's digest cannot do at the same time.
require "digest/md5"
require "digest/sha1"

module ActiveJob
  module Fairq
    # One attempt at a task: what the job writes, what follows from its errors, and the
    # acknowledgement, in one transaction.
    class Execution
      KEY = :fairq_execution
      ACK = "SELECT fairq.ack($1::uuid)::text"
      NACK = "SELECT fairq.nack($1::uuid, $2)::text"
      BURY = "SELECT fairq.nack($1::uuid, $2, final => true)::text"
      DIED = "SELECT (state = 'dead' AND attempts + lost = $3::int)::text FROM fairq.get_task($1, $2::bigint)"
      LONGEST_PAUSE = 5

      # The one that this thread is at; nil outside of a worker.
      def self.current
        Thread.current.thread_variable_get(KEY)
      end

      # retry_on says so when its attempts are used up, then it raises the error.
      def self.watch_retries
        @watch_retries ||= ActiveSupport::Notifications.subscribe("retry_stopped.active_job") do |*, event|
          current&.give_up(event[:error])
        end
      end

      def initialize(task, database)
        @task = task
        @database = database
      end

      # Ends with a commit, or raises what the job has raised, or an Interruption.
      def run(turn)
        @turn = turn
        Thread.current.thread_variable_set(KEY, self)
        in_application do
          data = job_data
          @transactional = job_class(data).fairq_transaction?
          if @transactional
            @database.transaction { perform(data) }
          else
            perform(data)
          end
        end
      ensure
        Thread.current.thread_variable_set(KEY, nil)
      end

      # Around what Active Job performs, within its handling of errors.
      def attempt(&block)
        @transactional ? @database.savepoint(&block) : yield
      end

      # The task is dead at once if this is what the attempt ends with.
      def give_up(error)
        @last_error = error
      end

      # The headers of the task.
      def headers
        @task.headers
      end

      # The attempt has failed. The task is tried again after the queue's backoff; it is
      # dead if that was its last attempt, or if it was given up. Returns which it is:
      # failed or dead; lost, if the lease went before the server knew. If the server refuses
      # the text, the failure goes without it; if it refuses any, the task is given back by and
      # by, for the thread is needed. The block is told of what goes wrong.
      def failed(error, session)
        pause = 0.05
        says_why = true
        until session.over?
          begin
            return settle_failure(error, says_why)
          rescue StandardError => trouble
            yield trouble
            if Verdict.passing?(trouble)
              sleep(pause = [pause * 2, LONGEST_PAUSE].min)
            elsif says_why
              says_why = false
            else
              session.release_later(@task)
              return :failed
            end
          end
        end
        :lost
      end

      private

      def job_data
        data = JSON.parse(@task.payload)
        data = { "job_class" => @task.name }.merge(data) if data.is_a?(Hash)
        unless data.is_a?(Hash) && data["job_class"].is_a?(String)
          raise PayloadError, "the payload is no job of Active Job: it has no job_class"
        end

        @task.name ||= data["job_class"] # of an earlier version
        missing(data).merge(data).merge("provider_job_id" => @task.id, "executions" => data["executions"].to_i + @task.attempt - 1)
      end

      # What a payload need not have that SQL or a schedule has made, for a retry.
      def missing(data)
        keys = { "group" => @task.group, "subgroup" => @task.subgroup }.reject { |_, key| key.to_s.empty? }
        place = keys.empty? || data["fairq"] ? {} : { "fairq" => keys }
        { "queue_name" => @task.queue, "job_id" => job_id, **place }
      end

      # The same in each attempt, and that of no other task.
      def job_id
        Digest::UUID.uuid_v5(Digest::UUID::OID_NAMESPACE, ["fairq", @task.queue, @task.id, @task.enqueued_at].join(" "))
      end

      def job_class(data)
        found = data["job_class"].safe_constantize
        return found if found.is_a?(Class) && found <= ActiveJob::Base

        raise PayloadError, "this application has no job class #{data['job_class'].inspect[0, 200]}"
      end

      def perform(data)
        @turn.run { ActiveJob::Base.execute(data) }
        return if @database.call(ACK, @task.receipt).first.first == "true"

        raise LeaseLost, "the lease of #{@task} is gone"
      end

      def settle_failure(error, says_why)
        text = ErrorText.of(error) if says_why
        final = error.is_a?(Unrecoverable) || (@last_error && error.equal?(@last_error))
        return :lost unless @database.call(final ? BURY : NACK, @task.receipt, text) == [["true"]]

        final || died? ? :dead : :failed
      end

      # Of this attempt: a later one may have begun meanwhile. Nobody is kept from the next
      # task by a question that fails.
      def died?
        @database.call(DIED, @task.queue, @task.id, @task.attempt.to_s) == [["true"]]
      rescue StandardError
        false
      end

      # Rails loads code and gives connections back around each unit of work.
      def in_application(&block)
        application = defined?(::Rails.application) && ::Rails.application
        application ? application.reloader.wrap(&block) : with_connections_given_back(&block)
      end

      # Else the thread would keep one that is lost, for what follows and for all later jobs.
      def with_connections_given_back
        yield
      ensure
        ::ActiveRecord::Base.connection_handler.clear_active_connections! if defined?(::ActiveRecord::Base)
      end
    end
  end
end
