# frozen_string_literal: true

require "helper"

# Backtraces without what tells nothing, in last_error and in Active Job's log. Seen to fail:
# with Backtrace.clean that returns what it is given, all but the first; without its `first`,
# "where it was raised"; without Backtrace::Log, and without its ensure, "the log".
class BacktraceTest < FairqTest
  LIBRARY = "#{RbConfig::CONFIG['rubylibdir']}/json/common.rb:216:in `parse'"
  OWN = "/srv/shop/app/jobs/a.rb:3:in `perform'"
  GEM = "#{Gem.path.first}/gems/activejob-6.1/lib/active_job/execution.rb:1:in `execute'"

  def teardown
    super
    ActiveJob::Fairq.remove_instance_variable(:@backtrace_cleaner) if ActiveJob::Fairq.instance_variable_defined?(:@backtrace_cleaner)
  end

  def clean(*frames)
    ActiveJob::Fairq::Backtrace.clean(frames)
  end

  def test_where_it_was_raised_and_the_frames_of_the_application
    own = "#{ROOT}/lib/active_job/fairq/execution.rb:1:in `run'"
    assert_equal [LIBRARY, OWN], clean(LIBRARY, GEM, OWN, own, GEM, "<internal:kernel>:1:in `loop'")
    assert_equal [OWN, OWN], clean(OWN, GEM, OWN)
    assert_equal [GEM], clean(GEM, LIBRARY)
    assert_empty ActiveJob::Fairq::Backtrace.clean(nil)
  end

  def test_another_cleaner_and_none
    ActiveJob::Fairq.backtrace_cleaner = ActiveSupport::BacktraceCleaner.new.tap { |to| to.add_silencer { |frame| frame.include?("perform") } }
    assert_equal [OWN], clean(OWN)
    ActiveJob::Fairq.backtrace_cleaner = false
    assert_equal [GEM, OWN, GEM], clean(GEM, OWN, GEM)
  end

  def test_who_is_told_after_the_log_has_all_frames
    log = Class.new { prepend ActiveJob::Fairq::Backtrace::Log }.new
    seen = nil
    log.singleton_class.superclass.define_method(:perform) { |event| seen = event.payload[:exception_object].backtrace }
    error = KeyError.new.tap { |one| one.set_backtrace([OWN, GEM]) }
    event = Struct.new(:payload).new({ exception_object: error })
    log.perform(event)
    assert_equal [OWN, GEM], seen, "outside of a worker"
    Thread.current.thread_variable_set(ActiveJob::Fairq::Execution::KEY, true)
    log.perform(event)
    assert_equal [[OWN], [OWN, GEM]], [seen, event.payload[:exception_object].backtrace]
  ensure
    Thread.current.thread_variable_set(ActiveJob::Fairq::Execution::KEY, nil)
  end

  def test_the_log_and_last_error
    file = File.join(Dir.tmpdir, "logging_jobs.rb")
    File.write(file, <<~RUBY)
      require "jobs"
      ActiveJob::Base.logger = Logger.new($stdout, formatter: ->(_, _, _, text) { text + "\\n" })
      ActiveSupport::Notifications.subscribe("perform.active_job") do |*, payload|
        Jobs.mark("frames \#{payload[:exception_object].backtrace.grep(/active_job/).size}")
      end
    RUBY
    queue(max_attempts: 1)
    ParsingJob.perform_later("{")
    pid = worker(require: file)
    wait_until("it is dead") { tasks("default", "dead").size == 1 }
    assert_equal 0, stop(pid)
    frames = tasks.first["last_error"].lines.grep(/^  /)
    assert_match(/json/, frames.first)
    assert_match(/jobs\.rb:\d+/, frames.last)
    assert_equal 2, frames.size
    logged = File.readlines(@log).drop_while { |line| !line.include?("Error performing ParsingJob") }.drop(1).grep(/:\d+:in/)
    assert_equal frames.map(&:strip), logged.map(&:strip)
    assert_operator marks("frames").first.split.last.to_i, :>, 5, "a subscriber has all of them"
  end
end
