# frozen_string_literal: true

require "minitest"

# Minitest that prints what make check counts. A test that is skipped is a failure
# here: what the suite needs is installed by needs.sh.
class Tap < Minitest::AbstractReporter
  def self.run
    Minitest.seed = Integer(ENV.fetch("SEED", "1"))
    reporter = new
    reporter.start
    Minitest.__run(reporter, { filter: ENV["ONLY"] && "/#{Regexp.escape(ENV['ONLY'])}/" })
    reporter.report
    reporter.passed?
  end

  def start
    $stdout.sync = true
    @number = 0
    @failed = 0
  end

  def record(result)
    good = result.passed?
    @failed += 1 unless good
    puts "#{good ? 'ok' : 'not ok'} #{@number += 1} - #{result.klass} #{result.name.sub(/\Atest_(\d+_)?/, '').tr('_#', ' ')} (#{result.time.round(1)} s)"
    return if good

    result.failures.each do |failure|
      error = failure.respond_to?(:error) ? failure.error : failure
      "#{error.class}: #{error.message}\n#{(error.backtrace || []).grep_v(/minitest/).first(12).join("\n")}".each_line { |line| puts "# #{line.chomp}" }
    end
  end

  def report
    puts "1..#{@number}"
  end

  def passed?
    @failed.zero? && @number.positive?
  end
end
