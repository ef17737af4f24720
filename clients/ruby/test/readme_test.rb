# frozen_string_literal: true

require "helper"

# The example of README.md, word for word, and its jobs run. Seen to fail: with
# another name of the option in the page; with update! of a column that is not there.
class ReadmeTest < FairqTest
  def test_the_example_of_the_page
    example = File.read("#{ROOT}/README.md")[/<!-- test: an example -->\n```ruby\n(.*?)```/m, 1]
    jobs, producer = example.split(/^(?=Invoice\.transaction)/)
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
    page = File.read("#{ROOT}/README.md")
    options = ActiveJob::Fairq::Job::OPTIONS + ActiveJob::Fairq::SETTINGS
    flags = `ruby -I#{ROOT}/lib #{ROOT}/bin/fairq --help`.scan(/--[a-z]+/) - %w[--help --version]
    assert_empty((options.map { |name| "`#{name}`" } + flags.map { |flag| "`#{flag}" }).reject { |name| page.include?(name) })
  end
end
