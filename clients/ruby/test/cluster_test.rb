# frozen_string_literal: true

require "helper"

# A worker that is given a proxy of a cluster: here a database beside those of its nodes.
class ClusterTest < FairqTest
  include PlainConnections

  NODES = 3

  class << self
    def nodes
      database && @nodes
    end

    # Of the proxy. Each node has the table that jobs write to.
    def database
      @database ||= Server.new_database.tap do |proxy|
        @nodes = []
        Server.on(proxy) { |pg| pg.exec("CREATE EXTENSION pgfairq_cluster CASCADE; #{Jobs::TABLES}") }
        1.upto(NODES - 1) { |number| add_node(proxy, number) }
      end
    end

    def add_node(proxy, number)
      node = Server.new_database
      Server.on(node) { |pg| pg.exec("CREATE EXTENSION pgfairq; SELECT fairq.set_node(#{number}); #{Jobs::TABLES}") }
      Server.on(proxy) { |pg| pg.exec("SELECT fairq.add_node(#{number}, 'host=#{Server::HOST} dbname=#{node}')") }
      @nodes << node
    end

    def run(...)
      super
    ensure
      @nodes&.each { |node| Server.drop(node) }
      @nodes = nil
    end
  end

  def setup
    super
    queue
  end

  # A proxy takes no call after a write.
  def clean
    sql("SELECT fairq.drop_queue(queue) FROM fairq.queues")
    self.class.nodes.each { |node| at(node, "TRUNCATE results") }
  end

  def at(node, text)
    Server.on(node) { |pg| pg.exec(text).values }
  end

  def done(node)
    at(node, "SELECT result FROM results ORDER BY id").flatten
  end

  def all_done
    self.class.nodes.flat_map { |node| done(node) }
  end

  # A task of a job at a node.
  def put(node, job, *arguments)
    at(node, "SELECT fairq.enqueue('default', '#{JSON.generate("job_class" => job, "arguments" => arguments)}')")
  end

  def test_a_worker_works_at_all_nodes
    pid = worker(mode: "plain")
    20.times { |i| WriteJob.perform_later("a#{i}") }
    wait_until("all are done") { all_done.size == 20 }
    self.class.nodes.each { |node| refute_empty done(node) }
    self.class.add_node(self.class.database, NODES) if self.class.nodes.size < NODES
    put(self.class.nodes.last, "WriteJob", "new")
    wait_until("that of a new node is done") { done(self.class.nodes.last).include?("new") }
    sql("SELECT fairq.drain_node(1)")
    wait_until("the drained one is left") { at(self.class.nodes.first, "SELECT count(*) FROM fairq.sessions") == [["0"]] }
    sql("SELECT fairq.undrain_node(1)")
    assert_equal 0, stop(pid)
    assert_equal 21, all_done.uniq.size
    self.class.nodes.each { |node| assert_equal [["0"]], at(node, "SELECT count(*) FROM fairq.sessions") }
  end

  def test_it_goes_on_while_its_jobs_run
    put(self.class.nodes[0], "SlowJob", "long", 8)
    worker(mode: "plain")
    wait_until("it runs") { marks("begun").any? }
    put(self.class.nodes[1], "WriteJob", "short")
    wait_until("that of another node is done") { all_done == ["short"] || all_done.include?("short") }
    wait_until("the long one is, too") { all_done.sort == %w[long short] }
    assert_equal ["begun long"], marks("begun")
  end

  def test_recurring_jobs_are_schedules_of_the_cluster
    ActiveJob::Fairq.application = "shop"
    path = File.join(Dir.tmpdir, "cluster-recurring.yml")
    File.write(path, "often: {class: WriteJob, args: [x], schedule: '@every 1 s'}\n")
    2.times { ActiveJob::Fairq.load_recurring(path) }
    wait_until("a node has its tasks") { self.class.nodes.any? { |node| at(node, "SELECT count(*) FROM fairq.q_default") != [["0"]] } }
    File.write(path, "")
    ActiveJob::Fairq.load_recurring(path)
    assert_empty sql("SELECT name FROM fairq.schedules")
  ensure
    ActiveJob::Fairq.application = nil
  end

  def test_active_record_is_refused
    pid = worker(FAIRQ_DATABASE_URL: Server.url(self.class.database))
    assert_equal 2, ended(pid)
    assert_match(/proxy of a cluster.*record_class to false/, File.read(@log))
  end

  def test_the_connection_to_a_node
    own = { host: "proxy", port: "7", dbname: "px", user: "ann", password: "secret", sslmode: "require", target_session_attrs: "any", hostaddr: nil }
    assert_equal({ host: "a,b", dbname: "app", connect_timeout: "2", user: "ann", password: "secret", sslmode: "require", target_session_attrs: "read-write" },
                 ActiveJob::Fairq::Guide.address_of("host=a,b dbname=app target_session_attrs=read-write connect_timeout=2", own.merge(connect_timeout: "9")).reject { |w, _| w == :port })
  end
end
