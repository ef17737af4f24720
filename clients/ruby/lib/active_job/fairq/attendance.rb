# frozen_string_literal: true

module ActiveJob
  module Fairq
    # Which queues a worker attends to. The server refuses a call about several queues if it
    # refuses one of them, and the call waits for the lock of each of their tables. So a queue
    # that is refused, or locked, is put off, for longer each time, while the others are attended
    # to without it.
    class Attendance
      FIRST_ABSENCE = 1
      LONGEST_ABSENCE = 60

      # How long a claim waits for a lock: one from all queues, and one from a queue that may
      # be what is locked.
      LOCK_PATIENCE = 1
      ALONE_PATIENCE = 0.1

      Absence = Struct.new(:ends, :seconds)

      # The block is told of a queue that is put off: its name, the error, for how long.
      def initialize(queues, &on_put)
        @queues = queues
        @on_put = on_put
        @away = {}
      end

      # Claims up to so many tasks: the block is called with queues, how many tasks there is room
      # for, and how long to wait for locks. It is called for all queues that are there; if one
      # of them is refused, for each alone, as for those that were put off for long enough, but
      # for one refused queue at a time. Nil: all are put off.
      def claim(room, &block)
        refused = false
        loop do
          tasks = look(room, &block)
          return tasks if tasks.any?
          return if there.empty?

          begin
            return yield(there, room, LOCK_PATIENCE)
          rescue PG::Error => error
            raise if refused || !Verdict.of_queue?(error)

            refused = true
            doubt
          end
        end
      end

      # Calls the block for the queues that are there, or for all if none is. If it is refused,
      # those that are refused alone are put off, and it is called for the others. Whether one
      # that is put off is there again a claim finds out.
      def together
        some = there.empty? ? @queues : there
        yield some
      rescue PG::Error => error
        raise unless Verdict.of_queue?(error)

        some.each { |queue| try(queue) { yield [queue] } }
        raise if there.empty?

        yield there
      end

      # Each queue is claimed from alone, before it is with others.
      def doubt
        (@queues - @away.keys).each { |queue| @away[queue] = Absence.new(now, 0) }
      end

      # It is another node by now, where all may be well.
      def renew
        @away.each_value { |absence| absence.ends = absence.seconds = 0 }
      end

      # Those that are not put off, in their order.
      def there
        @queues - @away.keys
      end

      # How soon one is to be claimed from alone.
      def due_in
        ends = @away.values.map(&:ends).min
        ends ? [ends - now, 0].max : Float::INFINITY
      end

      private

      # Claims from those that may be there again. An error that is of no queue comes again, and
      # what was claimed before it is ours.
      def look(room)
        tasks = []
        due.each do |queue|
          break if tasks.size >= room

          good = try(queue) { tasks.concat(yield([queue], room - tasks.size, ALONE_PATIENCE)) }
          break if !good && there.any?
        end
        tasks
      rescue PG::Error
        tasks.empty? ? raise : tasks
      end

      # Whether the queue is there.
      def try(queue)
        yield
        @away.delete(queue)
        true
      rescue PG::Error => error
        raise unless Verdict.of_queue?(error)

        put_off(queue, error)
        false
      end

      def put_off(queue, error)
        before = @away[queue]&.seconds.to_f
        seconds = before.zero? ? FIRST_ABSENCE : [before * 2, LONGEST_ABSENCE].min
        pause = seconds * (0.5 + rand / 2)
        @away[queue] = Absence.new(now + pause, seconds)
        @on_put.call(queue, error, pause)
      end

      def due
        @queues.select { |queue| @away[queue] && @away[queue].ends <= now }
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end
