# frozen_string_literal: true

module ActiveJob
  module Fairq
    VERSION = "0.3.0"
  end
end
