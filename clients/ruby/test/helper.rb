# frozen_string_literal: true

require "minitest"
require "server"
require "fileutils"
require "tmpdir"
require "activejob-fairq"
require "active_record"
require "jobs"

ActiveJob::Base.queue_adapter = :fairq
ActiveJob::Base.logger = Logger.new(nil)

# A test with a database of its own for its class.
class FairqTest < Minitest::Test
  ROOT = File.expand_path("..", __dir__)
  PATIENCE = 120 # for a machine that hangs, not for one that is late

  def self.database
    @database ||= Server.new_database.tap do |name|
      Server.on(name) { |pg| pg.exec("CREATE EXTENSION pgfairq; #{Jobs::TABLES}") }
    end
  end

  # A server has background workers for a few databases only.
  def self.run(...)
    super
  ensure
    Server.drop(@database) if @database
    @database = nil
  end

  def setup
    @workers = []
    @marks = File.join(Dir.tmpdir, "marks-#{Process.pid}-#{object_id}")
    ENV["JOBS_MARKS"] = @marks
    Jobs.connect(self.class.database)
    ActiveJob::Fairq.reset
    clean
    ActiveJob::Fairq::Queues.forget
  end

  def clean
    sql("TRUNCATE results; DO $$ DECLARE q text; BEGIN FOR q IN SELECT queue FROM fairq.queues LOOP " \
        "PERFORM fairq.drop_queue(q); END LOOP; END $$")
  end

  def teardown
    @workers.each do |pid|
      Process.kill("KILL", pid)
      Process.wait(pid)
    rescue SystemCallError
      nil
    end
    ActiveRecord::Base.connection_handler.clear_all_connections!
  end

  def sql(text, *params)
    Server.on(self.class.database) { |pg| (params.empty? ? pg.exec(text) : pg.exec_params(text, params)).to_a }
  end

  def one(text, *params)
    sql(text, *params).first&.values&.first
  end

  def tasks(queue = "default", state = nil)
    sql("SELECT * FROM fairq.tasks($1, $2) ORDER BY id", queue, state)
  end

  def results(what = nil)
    sql("SELECT result FROM results WHERE $1::text IS NULL OR starts_with(result, $1) ORDER BY id", what).map { |row| row["result"] }
  end

  # A queue whose failed tasks need not wait.
  def queue(name = "default", **settings)
    ActiveJob::Fairq.create_queue(name, backoff_base: "0 s", **settings)
  end

  # What jobs of this test have written outside of transactions.
  def marks(what = "")
    File.exist?(@marks) ? File.readlines(@marks, chomp: true).select { |line| line.start_with?(what) } : []
  end

  # Cuts the connections to which sessions are bound.
  def end_sessions
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() " \
        "AND (query LIKE 'SELECT fairq.open_session%' OR query LIKE 'SELECT fairq.heartbeat%')")
  end

  # Starts bin/fairq with the jobs of test/jobs.rb.
  def worker(*arguments, mode: "record", require: File.join(__dir__, "jobs.rb"), **env)
    env = { "JOBS_DATABASE" => self.class.database, "JOBS_MODE" => mode, "RUBYLIB" => ["#{ROOT}/lib", "#{ROOT}/test", ENV["RUBYLIB"]].compact.join(":") }
          .merge(mode == "plain" ? { "FAIRQ_DATABASE_URL" => Server.url(self.class.database) } : {}).merge(env.transform_keys(&:to_s))
    @log = File.join(Dir.tmpdir, "#{name}-#{@logs = @logs.to_i + 1}.log")
    pid = spawn(env, "ruby", "#{ROOT}/bin/fairq", "--require", require, *arguments.map(&:to_s), %i[out err] => @log, in: :close)
    @workers << pid
    pid
  end

  def stop(pid, signal = "TERM")
    Process.kill(signal, pid)
    ended(pid)
  end

  # Waits for a worker; its exit code.
  def ended(pid)
    status = wait_until("the worker ends") { Process.wait2(pid, Process::WNOHANG) }.last
    @workers.delete(pid)
    status.exitstatus
  end

  def wait_until(what, patience = PATIENCE)
    limit = Process.clock_gettime(Process::CLOCK_MONOTONIC) + patience
    loop do
      value = yield
      return value if value

      if Process.clock_gettime(Process::CLOCK_MONOTONIC) > limit
        raise Minitest::Assertion, "not within #{patience} s: #{what}\n#{File.read(@log).lines.last(40).join if @log}"
      end
      sleep 0.02
    end
  end

  def wait_for_results(count, what = nil)
    wait_until("#{count} results") { results(what).size >= count }
  end

  def wait_until_empty(queue = "default")
    wait_until("#{queue} is empty") { tasks(queue).empty? }
  end
end

# A test without Active Record: by plain connections of pg.
module PlainConnections
  def setup
    super
    ActiveJob::Fairq.record_class = false
    ActiveJob::Fairq.database_url = Server.url(self.class.database)
    ActiveJob::Fairq.reset
  end

  def teardown
    super
    ActiveJob::Fairq.record_class = "ActiveRecord::Base"
    ActiveJob::Fairq.database_url = nil
    ActiveJob::Fairq.reset
  end
end
