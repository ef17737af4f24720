# frozen_string_literal: true

require "active_job/fairq"
