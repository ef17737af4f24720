# frozen_string_literal: true

module ActiveJob
  module Fairq
    VERSION = "0.2.0"
  end
end
