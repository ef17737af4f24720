# frozen_string_literal: true

require "helper"
require "open3"
require "socket"
require "active_job/test_case"

# README.md and what doc/clients.md says of Ruby, as they are printed. Seen to fail: with
# another name of the option in the page; with update! of a column that is not there; without
# --local, and with a Gemfile without path:, "asks no registry"; with a schedule that the
# server does not know in recurring.yml; without `propagation` in the page's JobSpans.
class ReadmeTest < FairqTest
  PAGE = File.read("#{ROOT}/README.md")
  CHECKOUT = "/src/pgfairq"

  def block(name)
    PAGE[/<!-- test: #{name} -->\n```\w+\n(.*?)```/m, 1] || flunk("there is no block #{name}")
  end

  def test_the_example_of_the_page
    jobs, producer = block("an example").split(/^(?=Invoice\.transaction)/)
    sql("CREATE TABLE invoices (id bigserial PRIMARY KEY, tenant_id int, sent boolean DEFAULT false)")
    file = File.join(Dir.tmpdir, "readme_jobs.rb")
    File.write(file, <<~RUBY)
      require "active_record"
      require "jobs"
      require "globalid"
      GlobalID.app = "test"
      ActiveRecord::Base.include GlobalID::Identification
      class Invoice < ActiveRecord::Base; end
      #{jobs}
    RUBY
    load file
    eval(producer, TOPLEVEL_BINDING.dup, file)
    assert_equal [%w[42 2 4 ready], %w[42 2 9 scheduled]], tasks.map { |task| task.values_at("group_key", "cost", "priority", "state") }
    worker(require: file)
    wait_until("the invoice is sent") { one("SELECT sent FROM invoices") == "t" }
    wait_until("one is left") { tasks.size == 1 }
  end

  def test_a_schedule_enqueues_a_job
    queue
    sql("SELECT fairq.schedule('nightly', 'default', '@every 1 s', '{\"arguments\": [\"nightly\"]}', task_name => 'WriteJob')")
    worker
    wait_for_results(1)
    assert_equal "nightly", results.first
  ensure
    sql("SELECT fairq.unschedule('nightly')")
  end

  def test_the_page_names_every_option_and_setting
    options = ActiveJob::Fairq::Job::OPTIONS + ActiveJob::Fairq::SETTINGS + ActiveJob::Fairq::Recurring::Entry::KEYS
    flags = `ruby -I#{ROOT}/lib #{ROOT}/bin/fairq --help`.scan(/--[a-z]+/) - %w[--help --version]
    events = ActiveJob::Fairq::Notices::EVENTS.map { |name| "`#{name}.fairq`" }
    assert_empty((options.map { |name| "`#{name}`" } + flags.map { |flag| "`#{flag}" } + events).reject { |name| PAGE.include?(name) })
  end

  def test_calls_within_the_text
    ActiveJob::Fairq.application = "shop"
    FileUtils.mkdir_p("#{Dir.tmpdir}/config")
    File.write("#{Dir.tmpdir}/config/recurring.yml", "")
    calls = PAGE.scan(/`(ActiveJob::Fairq\.\w+\([^`]*\))`/).flatten
    statements = PAGE.scan(/`(SELECT [^`]*)`/).flatten
    assert_equal [3, 2], [calls.size, statements.size]
    queue
    Dir.chdir(Dir.tmpdir) { calls.each { |call| eval(call) } }
    statements.each { |statement| sql(statement) }
  ensure
    ActiveJob::Fairq.application = nil
  end

  def test_the_tests_of_the_page
    ActiveJob::Base.queue_adapter = :test # as the page says
    eval(block("tests"), TOPLEVEL_BINDING.dup, "README.md")
    names = Object.const_get(:ExportJobTest).runnable_methods
    assert_equal 1, names.size
    result = Object.const_get(:ExportJobTest).new(names.first).run
    assert_predicate result, :passed?, result.to_s
    assert_operator result.assertions, :>, 2
  ensure
    ActiveJob::Base.queue_adapter = :fairq
  end

  # What the page's subscriber asks of OpenTelemetry.
  TELEMETRY = <<~'RUBY'
    module OpenTelemetry
      Span = Struct.new(:name, :options) do
        def record_exception(error)
          Jobs.mark("error #{error.class}")
        end

        def finish
          Jobs.mark("span #{name} below #{options[:with_parent]}")
        end
      end

      module Propagation
        def self.inject(headers)
          headers["traceparent"] = Context.current if Context.current
        end

        def self.extract(headers)
          headers["traceparent"]
        end
      end

      module Trace
        def self.context_with_span(_span)
          "00-#{'1' * 32}-#{'2' * 16}-01"
        end
      end

      module Context
        def self.current = Thread.current[:context]

        def self.attach(context)
          current.tap { Thread.current[:context] = context }
        end

        def self.detach(token)
          Thread.current[:context] = token
        end
      end

      def self.propagation = Propagation
      def self.tracer_provider = self
      def self.tracer(_name) = self
      def self.start_span(name, **options) = Span.new(name, options)
    end
  RUBY

  def test_the_traces_of_the_page
    queue(max_attempts: 1, keep_done: "1 day")
    file = File.join(Dir.tmpdir, "traced_jobs.rb")
    File.write(file, "require 'jobs'\n#{TELEMETRY}\n#{block('traces')}")
    ChainJob.perform_later("child", false)
    FailingJob.perform_later("a")
    worker("--threads", 1, require: file)
    wait_until("three spans, and an error") { marks("span").size == 3 && marks("error").size == 1 }
    trace = "00-#{'1' * 32}-#{'2' * 16}-01"
    assert_equal ["span ChainJob below ", "span FailingJob below ", "span WriteJob below #{trace}"], marks("span").sort
    assert_equal [trace], sql("SELECT headers ->> 'traceparent' AS of FROM fairq.done_default WHERE name = 'WriteJob'").map { |row| row["of"] }
  end

  def test_the_gem_as_the_page_and_the_page_of_libraries_build_it
    in_a_checkout do |place, environment|
      environment = environment.merge("GEM_HOME" => "#{place}/gems", "PATH" => "#{place}/gems/bin:#{ENV['PATH']}")
      pages = [block("the gem"), File.read("#{ROOT}/../../doc/clients.md")[/^Ruby:.*?```sh\n(.*?)```/m, 1]]
      pages.each do |text|
        output = shell(place, environment, text.gsub(CHECKOUT, "#{place}#{CHECKOUT}"))
        assert_match(/activejob-fairq #{Regexp.escape(ActiveJob::Fairq::VERSION)}$/, output)
      end
    end
  end

  def test_an_application_as_the_page_makes_it
    sql("CREATE TABLE sessions (updated_at timestamptz)")
    in_a_checkout do |place, environment|
      make_application("#{place}/shop", block("Gemfile").gsub(CHECKOUT, "#{place}#{CHECKOUT}"))
      environment = environment.merge("GEM_HOME" => "#{place}/gems", "RAILS_ENV" => "production")
      install, run = block("bundle").lines(chomp: true)
      shell("#{place}/shop", environment, install)
      @log = "#{place}/log"
      pid = spawn(environment, "exec #{run}", chdir: "#{place}/shop", %i[out err] => @log, in: :close)
      @workers << pid
      wait_until("the schedules") { sql("SELECT FROM fairq.schedules").size == 2 }
      WriteJob.perform_later("by the application")
      wait_for_results(1)
      assert_equal 0, stop(pid)
      assert_match(/WriteJob of : done in \d+ ms/, File.read("#{place}/shop/log/production.log"))
    end
    assert_equal [["nightly_report", "reports", "Europe/Berlin", "42"], ["sweep", "default", "UTC", ""]],
                 sql("SELECT name, queue, timezone, group_key FROM fairq.schedules ORDER BY 1").map(&:values)
  ensure
    sql("SELECT fairq.unschedule(name) FROM fairq.schedules")
  end

  private

  # Of what is needed here, without what an earlier run has built. Whoever asks a registry
  # is noticed: its connection comes to us.
  def in_a_checkout
    Dir.mktmpdir do |place|
      to = "#{place}#{CHECKOUT}/clients/ruby"
      FileUtils.mkdir_p(to)
      FileUtils.cp_r(%w[lib bin README.md activejob-fairq.gemspec].map { |name| "#{ROOT}/#{name}" }, to)
      registry = TCPServer.new("127.0.0.1", 0)
      asked = 0
      listening = Thread.new { loop { registry.accept.close && asked += 1 } }
      proxy = "http://127.0.0.1:#{registry.addr[1]}"
      names = %w[http_proxy https_proxy HTTP_PROXY HTTPS_PROXY]
      yield place, { "HOME" => place, "RUBYLIB" => nil, "GEM_HOME" => nil, **names.to_h { |name| [name, proxy] } }
      assert_equal 0, asked, "asks no registry"
    ensure
      listening&.kill
      registry&.close
    end
  end

  def shell(place, environment, text)
    output, status = Open3.capture2e(environment, "bash", "-euc", text, chdir: place)
    assert status.success?, output
    output
  end

  # As `rails new` would, of what Debian has.
  def make_application(place, of_the_page)
    FileUtils.mkdir_p(["#{place}/config/initializers", "#{place}/app/jobs", "#{place}/log"])
    { "Gemfile" => "source 'https://rubygems.org'\ngem 'activejob'\ngem 'activerecord'\ngem 'railties'\n#{of_the_page}",
      "config/database.yml" => "production: {adapter: postgresql, host: #{Server::HOST}, username: #{Server::USER}, database: #{self.class.database}}\n",
      "config/application.rb" => <<~RUBY,
        require "rails"
        require "active_record/railtie"
        require "active_job/railtie"
        Bundler.require(*Rails.groups)
        module Shop
          class Application < Rails::Application
            config.load_defaults 6.1
            config.eager_load = true
            config.secret_key_base = "x"
            #{block('application.rb')}
          end
        end
      RUBY
      "config/environment.rb" => "require_relative 'application'\nRails.application.initialize!\n",
      "config/initializers/fairq.rb" => block("subscribers"),
      "config/recurring.yml" => block("recurring.yml"),
      "app/jobs/report_job.rb" => "class ReportJob < ActiveJob::Base\n  fairq group: ->(job) { job.arguments.last[:tenant] }\n\n  def perform(*, tenant:); end\nend\n",
      "app/jobs/write_job.rb" => "class WriteJob < ActiveJob::Base\n  def perform(text)\n    ActiveRecord::Base.connection.execute(\"INSERT INTO results (result) VALUES ('\#{text}')\")\n  end\nend\n" }
      .each { |name, text| File.write("#{place}/#{name}", text) }
  end
end
