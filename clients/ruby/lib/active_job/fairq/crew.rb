# frozen_string_literal: true

module ActiveJob
  module Fairq
    # The threads of a worker, each at one task at a time, in the midst of which it can
    # be interrupted. That may come while the task is settled, too, for Active Record
    # lets interruptions in: then the lease is gone, and nothing is left to be settled.
    class Crew
      # The block is given a task and its session.
      def initialize(size, &work)
        @work = work
        @lock = Mutex.new
        @changed = ConditionVariable.new
        @inbox = Queue.new
        @free = size
        @size = size
        @running = {}
        @tasks = Hash.new(0).compare_by_identity # how many a session has
        @threads = Array.new(size) { |i| Thread.new { serve("fairq #{i + 1}") } }
      end

      # How many threads are free, once there is one; 0 after some time, or when woken.
      def free(patience)
        @lock.synchronize do
          @changed.wait(@lock, patience) if @free.zero?
          @free
        end
      end

      def wake
        @lock.synchronize { @changed.broadcast }
      end

      def start(task, session)
        @lock.synchronize do
          @free -= 1
          @tasks[session] += 1
        end
        @inbox << [task, session]
      end

      # Whether all have ended their jobs, waiting for it while the block says so.
      def idle_while
        @lock.synchronize do
          @changed.wait(@lock, 0.2) while @free < @size && yield
          @free == @size
        end
      end

      # Until no thread works under the session, or it is over.
      def wait_for(session)
        @lock.synchronize { @changed.wait(@lock, 1) while @tasks.key?(session) && !session.over? }
      end

      # Raises in the threads that work under the session.
      def interrupt(session, reason)
        @lock.synchronize do
          @running.each { |thread, (_, of)| thread.raise(reason) if of.equal?(session) }
        end
      end

      def dismiss
        @inbox.close
        @threads.each(&:join)
      end

      private

      def serve(name)
        Thread.current.name = name
        Thread.handle_interrupt(Interruption => :never) do
          while (item = @inbox.pop)
            take_turn(*item)
          end
        end
      end

      # An interruption that came too late for its job must not meet the next one.
      def take_turn(task, session)
        @lock.synchronize { @running[Thread.current] = [task, session] }
        @work.call(task, session) unless session.over?
      rescue Interruption
        nil
      ensure
        @lock.synchronize { @running.delete(Thread.current) }
        forget_interruptions
        @lock.synchronize do
          @free += 1
          @tasks.delete(session) if (@tasks[session] -= 1).zero?
          @changed.broadcast
        end
      end

      def forget_interruptions
        Thread.handle_interrupt(Interruption => :immediate) { Thread.pass }
      rescue Interruption
        nil
      end
    end
  end
end
