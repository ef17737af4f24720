# frozen_string_literal: true

require "tap"
Dir[File.join(__dir__, "*_test.rb")].sort.each { |file| require file }
exit Tap.run
