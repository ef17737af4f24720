# frozen_string_literal: true

require "helper"

# Recurring jobs of a file, as schedules of the server. Seen to fail: with the owner left out
# of the comparison in apply, "what the file did not make"; with `active` always true, "a
# schedule that was paused"; without job_id in Execution, "a worker runs them"; with the command in the
# payload in place of its key, "a command that the worker does not know"; without the check
# of the owner in make, "a name that is taken".
class RecurringTest < FairqTest
  def setup
    super
    ActiveJob::Fairq.application = "shop"
    sql("SELECT fairq.unschedule(name) FROM fairq.schedules")
  end

  def teardown
    super # ends the workers first
    ActiveJob::Fairq.application = nil
    sql("SELECT fairq.unschedule(name) FROM fairq.schedules")
  end

  def file(text)
    @file ||= File.join(Dir.tmpdir, "recurring-#{Process.pid}-#{object_id}.yml")
    File.write(@file, text)
    @file
  end

  def apply(text)
    ActiveJob::Fairq.load_recurring(file(text))
  end

  def schedules
    sql("SELECT * FROM fairq.schedules ORDER BY name")
  end

  def test_what_the_file_says
    apply(<<~YAML)
      report:
        class: KeywordsJob
        args: [daily, {tenant: acme, pages: 3}]
        schedule: "0 3 * * *"
        timezone: Europe/Berlin
        priority: 7
        catch_up: none
        overlap: true
        description: what it is for
      sweep:
        command: Jobs.write("swept")
        queue: low
        schedule: "@hourly"
    YAML
    report, sweep = schedules
    assert_equal ["report", "nightly", "0 3 * * *", "Europe/Berlin", "none", "t", "t", "7", "acme", "2", "KeywordsJob"],
                 report.values_at(*%w[name queue cron timezone catch_up overlap active priority group_key cost task_name])
    assert_equal ["sweep", "low", "@hourly", "UTC", "one", "f", nil, "", "1", "sweep"],
                 sweep.values_at(*%w[name queue cron timezone catch_up overlap priority group_key cost task_name])
    assert_equal [{ "recurring" => "shop" }] * 2, [report, sweep].map { |one| JSON.parse(one["headers"]) }
    refute_match(/swept/, sweep["payload"])
  end

  def test_a_worker_runs_them
    queue
    path = file(<<~YAML)
      keywords: {class: KeywordsJob, args: [often, {tenant: acme}], queue: default, schedule: "@every 1 s"}
      plain: {class: WriteJob, args: plain, schedule: "@every 1 s"}
      command: {command: 'Jobs.write("by command")', queue: default, schedule: "@every 1 s"}
    YAML
    pid = worker("--recurring", path, mode: "record", JOBS_APPLICATION: "shop")
    ["often acme 1 5", "plain", "by command"].each { |result| wait_for_results(1, result) } # 5: the version of a UUID that is worked out
    assert_equal 0, stop(pid)
    assert_equal %w[command keywords plain], schedules.map { |one| one["name"] }
  end

  def test_what_is_not_in_the_file_any_more_is_removed_and_what_it_did_not_make_is_left
    sql("SELECT fairq.create_queue('default'); SELECT fairq.schedule('by hand', 'default', '@daily'); " \
        "SELECT fairq.schedule('of another', 'default', '@daily', headers => '{\"recurring\": \"blog\"}')")
    apply("a: {class: WriteJob, args: [x], schedule: '@daily'}\nb: {class: WriteJob, args: [x], schedule: '@daily'}\n")
    assert_equal ["a", "b", "by hand", "of another"], schedules.map { |one| one["name"] }
    apply("b: {class: WriteJob, args: [y], schedule: '@hourly'}\n")
    assert_equal ["b", "by hand", "of another"], schedules.map { |one| one["name"] }
    assert_equal ["@hourly", ["y"]], [schedules.first["cron"], JSON.parse(schedules.first["payload"])["arguments"]]
    apply("")
    assert_equal ["by hand", "of another"], schedules.map { |one| one["name"] }
  end

  def test_a_name_that_is_taken
    sql("SELECT fairq.create_queue('default'); SELECT fairq.schedule('hand', 'default', '@daily'); " \
        "SELECT fairq.schedule('blog', 'default', '@daily', headers => '{\"recurring\": \"blog\"}')")
    { "hand" => /hand: there is a schedule of that name, made by hand: rename it/, "blog" => /made for the application blog/ }.each do |name, message|
      error = assert_raises(ActiveJob::Fairq::ConfigurationError) { apply("#{name}: {class: WriteJob, args: x, schedule: '@daily'}") }
      assert_match message, error.message
    end
  end

  def test_a_schedule_that_was_paused_stays_so_and_the_next_tick_is_kept
    text = "a: {class: WriteJob, args: [x], schedule: '@every 1 d'}\nb: {class: WriteJob, args: [x], schedule: '@every 1 d'}\n"
    apply(text)
    ticks = schedules.map { |one| one["next_run"] }
    sql("SELECT fairq.schedule('a', 'default', '@every 1 d', active => false, headers => '{\"recurring\": \"shop\"}')")
    apply(text)
    assert_equal %w[f t], schedules.map { |one| one["active"] }
    assert_equal ticks.last, schedules.last["next_run"]
  end

  def test_sections_of_environments_and_erb
    text = "production:\n  a: {class: WriteJob, args: ['<%= 6 * 7 %>'], schedule: '@daily'}\ntest:\n  b: {class: WriteJob, args: x, schedule: '@daily'}\nempty:\n"
    { "production" => ["a"], "test" => ["b"], "empty" => [], "elsewhere" => [] }.each do |environment, names|
      ENV["RAILS_ENV"] = environment
      apply(text)
      assert_equal names, schedules.map { |one| one["name"] }, environment
      assert_equal ["42"], JSON.parse(schedules.first["payload"])["arguments"] if environment == "production"
    end
  ensure
    ENV.delete("RAILS_ENV")
  end

  def test_what_is_wrong_is_said
    { "a: {class: GoneJob, schedule: '@daily'}" => /a: this application has no job class "GoneJob"/,
      "a: {class: Kernel, schedule: '@daily'}" => /no job class "Kernel"/, "a: {schedule: '@daily'}" => /it takes a class or a command/,
      "a: {class: WriteJob, command: x, schedule: '@daily'}" => /a class or a command, and one of them/,
      "a: {class: WriteJob}" => /a: it has no schedule, such as "0 3 \* \* \*"/, "a: {class: WriteJob, schedule: 5}" => /schedule is 5, no text/,
      "a: {class: WriteJob, cron: x, schedule: '@daily'}" => /there is no cron; there are class, command/, "a: every day" => /a: it is no mapping/,
      "- a" => /it is no mapping of keys to jobs/, "a: {command: x, args: [1], schedule: '@daily'}" => /args are for a class/,
      "a: {class: WriteJob, schedule: '@daily', priority: high}" => /priority is "high", no whole number/,
      "a: {class: WriteJob, schedule: '@daily', overlap: maybe}" => /overlap is "maybe", neither/, "a: [" => /\.yml: .*a: \[|\.yml: .*[Pp]sych|\.yml: .*YAML/,
      "a: {class: WriteJob, schedule: every day at noon}" => /a: .*every day at noon/, "a: {class: WriteJob, schedule: '@daily', timezone: Mars}" => /a: .*Mars/,
      "a: {class: WriteJob, schedule: '@daily', priority: 77}" => /a: .*77/, "a: {class: WriteJob, schedule: '@daily', catch_up: some}" => /a: .*some/,
      "<% raise 'no' %>" => /no/ }.each do |text, message|
      error = assert_raises(ActiveJob::Fairq::ConfigurationError, text) { apply(text) }
      assert_match(message, error.message)
      assert error.message.start_with?(@file), error.message
    end
    error = assert_raises(ActiveJob::Fairq::ConfigurationError) { ActiveJob::Fairq.load_recurring("/nowhere.yml") }
    assert_match(%r{/nowhere\.yml: No such file}, error.message)
    ActiveJob::Fairq.create_queues = false
    error = assert_raises(ActiveJob::Fairq::ConfigurationError) { apply("a: {class: WriteJob, queue: none, schedule: '@daily'}") }
    assert_match(/a: .*"none"/, error.message)
    ActiveJob::Fairq.application = nil
    error = assert_raises(ActiveJob::Fairq::ConfigurationError) { apply("") }
    assert_match(/set config\.fairq\.application/, error.message)
    assert_empty schedules
  ensure
    ActiveJob::Fairq.create_queues = true
  end

  def test_a_worker_whose_file_is_wrong_does_not_start
    pid = worker("--recurring", file("a: {class: WriteJob, schedule: 'every day at noon'}"), JOBS_APPLICATION: "shop")
    assert_equal 2, ended(pid)
    assert_match(/\Afairq: .*a: .*every day at noon/, File.readlines(@log).last)
  end

  def test_a_command_that_the_worker_does_not_know
    queue(max_attempts: 1)
    sql("SELECT fairq.enqueue('default', $1)", JSON.generate(job_class: "ActiveJob::Fairq::RecurringCommandJob", arguments: ["Jobs.write('hacked')"]))
    worker("--recurring", file("known: {command: 'Jobs.write(\"known\")', queue: default, schedule: '@daily'}"), JOBS_APPLICATION: "shop")
    wait_until("it is dead") { tasks("default", "dead").size == 1 }
    assert_match(/has no command "Jobs\.write\('hacked'\)": restart it/, tasks.first["last_error"])
    assert_empty results
  end
end
