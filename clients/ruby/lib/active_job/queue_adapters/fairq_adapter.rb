# frozen_string_literal: true

require "active_job/fairq"

module ActiveJob
  module QueueAdapters
    # config.active_job.queue_adapter = :fairq
    class FairqAdapter < (const_defined?(:AbstractAdapter) ? AbstractAdapter : Object)
      def enqueue(job)
        enqueue_at(job, nil)
      end

      def enqueue_at(job, timestamp)
        job.provider_job_id = Fairq::Queues.enqueue(Fairq.database, job, timestamp)
      end

      # perform_all_later: all of them or none.
      def enqueue_all(jobs)
        Fairq.database.transaction do
          jobs.group_by(&:queue_name).sort.each do |queue, of_queue|
            ids = Fairq::Queues.enqueue_many(Fairq.database, queue, of_queue)
            of_queue.zip(ids) do |job, id|
              job.provider_job_id = id
              job.successfully_enqueued = true if job.respond_to?(:successfully_enqueued=)
            end
          end
        end
        jobs.size
      end

      # Rails 7.2 asks. In the same database a job is enqueued in the transaction.
      def enqueue_after_transaction_commit?
        !Fairq.database.records?
      end

      # Rails 8.1 asks, between the steps of a job that can go on later.
      def stopping?(_job = nil)
        Fairq.stopping?
      end
    end
  end
end
