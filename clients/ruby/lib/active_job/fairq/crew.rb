# frozen_string_literal: true

module ActiveJob
  module Fairq
    # What a thread is at: a task of a session. It can be interrupted while its job runs, and at
    # no other time: Active Record lets interruptions in where it gives a connection back to
    # its pool, which is then one short for good.
    class Turn
      attr_reader :task, :session

      def initialize(task, session)
        @task = task
        @session = session
        @thread = Thread.current
        @lock = Mutex.new
      end

      # Runs the job, or raises what it is interrupted by.
      def run(&job)
        @lock.synchronize { @reason ? raise(@reason) : @running = true }
        Thread.handle_interrupt(Interruption => :immediate, &job)
      ensure
        @lock.synchronize { @running = false }
        Thread.handle_interrupt(Interruption => :immediate) { Thread.pass } # one that is on its way
      end

      # From another thread.
      def interrupt(reason)
        @lock.synchronize do
          @reason ||= reason
          @thread.raise(reason) if @running
        end
      end
    end

    # The threads of a worker, each at one task at a time.
    class Crew
      # The block is given the Turn of a task.
      def initialize(size, &work)
        @work = work
        @lock = Mutex.new
        @changed = ConditionVariable.new
        @inbox = Queue.new
        @free = size
        @size = size
        @turns = []
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

      # Ends the jobs that run under the session.
      def interrupt(session, reason)
        @lock.synchronize do
          @turns.each { |turn| turn.interrupt(reason) if turn.session.equal?(session) }
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

      def take_turn(task, session)
        turn = Turn.new(task, session)
        @lock.synchronize { @turns << turn }
        @work.call(turn) unless session.over?
      rescue Interruption
        nil
      ensure
        @lock.synchronize do
          @turns.delete(turn)
          @free += 1
          @tasks.delete(session) if (@tasks[session] -= 1).zero?
          @changed.broadcast
        end
      end
    end
  end
end
