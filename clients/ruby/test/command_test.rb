# frozen_string_literal: true

require "helper"
require "open3"
require "rubygems/package"

# The command line, the gem, a Rails application, and jobs without Active Record.
class CommandTest < FairqTest
  def test_what_is_wrong_is_said
    { %w[--threads 0] => /--threads must be 1 or more, not 0/, %w[--ttl 0.1] => /--ttl must be 1/, %w[--queues] => /missing argument/,
      %w[--colour] => /invalid option/, %w[emails] => /needless argument: emails/,
      ["--require", "/nowhere"] => %r{there is no /nowhere: give --require}, ["--require", Dir.tmpdir] => %r{config/environment\.rb} }
      .each do |arguments, message|
      text, status = fairq(*arguments)
      assert_equal 2, status, arguments.inspect
      assert_match(/\Afairq: .*#{message}/m, text)
    end
  end

  def test_a_pool_that_is_too_small
    pid = worker("--threads", 5, JOBS_POOL: "2")
    assert_equal 2, ended(pid)
    assert_match(/5 threads need as many connections of Active Record, whose pool has 2/, File.read(@log))
  end

  def test_a_database_without_the_extension
    pid = worker(JOBS_DATABASE: "template1")
    assert_equal 2, ended(pid)
    assert_match(/pgfairq is not in this database.*run CREATE EXTENSION pgfairq/, File.read(@log))
  end

  def test_too_many_queues
    pid = worker("--queues", (1..33).to_a.join(","))
    assert_equal 2, ended(pid)
    assert_match(/a worker takes 1 to 32 queues/, File.read(@log))
  end

  def test_another_adapter_is_warned_of
    file = File.join(Dir.tmpdir, "other_adapter.rb")
    File.write(file, "require 'jobs'\nActiveJob::Base.queue_adapter = :inline\n")
    pid = worker(require: file)
    wait_until("a warning") { File.read(@log).include?("queue_adapter is :inline, not :fairq") }
    wait_until("it works") { File.read(@log).include?("threads for") }
    assert_equal 0, stop(pid)
  end

  def test_the_gem_is_built_installed_and_run
    Dir.mktmpdir do |place|
      FileUtils.cp_r(["#{ROOT}/lib", "#{ROOT}/bin", "#{ROOT}/README.md", "#{ROOT}/activejob-fairq.gemspec"], place)
      output, status = Open3.capture2e("gem", "build", "activejob-fairq.gemspec", chdir: place)
      assert status.success?, output
      file = Dir["#{place}/*.gem"].first
      spec = Gem::Package.new(file).spec
      assert_equal %w[activejob pg], spec.dependencies.map(&:name).sort
      assert_includes spec.files, "lib/active_job/queue_adapters/fairq_adapter.rb"
      installed = { "GEM_HOME" => "#{place}/gems", "HOME" => place }
      output, status = Open3.capture2e(installed, "gem", "install", "--local", "--no-document", "--ignore-dependencies", file)
      assert status.success?, output
      text, status = Open3.capture2e(installed, "#{place}/gems/bin/fairq", "--version")
      assert status.success?, text
      assert_equal "activejob-fairq #{ActiveJob::Fairq::VERSION}\n", text
    end
  end

  def test_a_rails_application
    place = Dir.mktmpdir
    FileUtils.mkdir_p(["#{place}/config", "#{place}/app/jobs", "#{place}/log"])
    File.write("#{place}/config/database.yml", <<~YAML)
      production:
        adapter: postgresql
        host: #{Server::HOST}
        username: #{Server::USER}
        database: #{self.class.database}
        pool: 3
    YAML
    File.write("#{place}/config/environment.rb", <<~RUBY)
      ENV["RAILS_ENV"] = "production"
      require "rails"
      require "active_record/railtie"
      require "active_job/railtie"
      require "activejob-fairq"
      module Shop; end
      class Shop::Application < Rails::Application
        config.root = "#{place}"
        config.load_defaults 6.1
        config.eager_load = true
        config.secret_key_base = "x"
        config.active_job.queue_adapter = :fairq
        config.fairq.create_queues = false
        config.logger = Logger.new(nil)
      end
      Shop::Application.initialize!
    RUBY
    File.write("#{place}/config/recurring.yml", "production:\n  often: {class: RailsJob, args: [recurring], schedule: '@every 1 s'}\n")
    File.write("#{place}/app/jobs/rails_job.rb", <<~RUBY)
      class RailsJob < ActiveJob::Base
        def perform(text)
          JSON.parse("{") if text == "broken"
          ActiveRecord::Base.connection.execute("INSERT INTO results (result) VALUES ('\#{text} \#{ActiveJob::Fairq.create_queues}')")
        end
      end
    RUBY
    queue(max_attempts: 1)
    %w[rails broken].each { |text| sql("SELECT fairq.enqueue('default', $1)", JSON.generate(job_class: "RailsJob", arguments: [text])) }
    pid = worker("--threads", 3, require: place)
    wait_for_results(1, "rails")
    assert_equal ["rails false"], results("rails")
    wait_for_results(1, "recurring")
    wait_until("the broken one is dead") { tasks("default", "dead").size == 1 }
    assert_equal "app/jobs/rails_job.rb:3:in `perform'", tasks.last["last_error"].lines.last.strip, "as Rails' own cleaner has it"
    assert_equal 0, stop(pid)
    assert_equal [%w[often shop]], sql("SELECT name, headers ->> 'recurring' AS owner FROM fairq.schedules").map(&:values)
  ensure
    sql("SELECT fairq.unschedule(name) FROM fairq.schedules")
  end

  private

  def fairq(*arguments)
    text, status = Open3.capture2e("ruby", "-I#{ROOT}/lib", "#{ROOT}/bin/fairq", *arguments)
    [text, status.exitstatus]
  end
end
