# frozen_string_literal: true

# What a worker of the tests loads that is to tell what its subscribers hear: a line in the
# file of marks for each event, as JSON. MISBEHAVE: they raise besides.
require "jobs"

module Heard
  def self.note(moment, name, payload)
    seen = payload.slice(:task_id, :queue, :name, :group, :subgroup, :attempt, :headers, :outcome, :queues, :threads, :ended)
    seen[:error] = payload[:exception_object]&.class&.name
    seen[:exception] = payload[:exception]
    seen[:worker] = payload[:worker].end_with?(":#{Process.pid}")
    Jobs.mark("heard #{JSON.generate(seen.compact.merge(moment: moment, event: name))}")
    raise "a subscriber of #{name} fails" if ENV["MISBEHAVE"]
  end

  def start(name, _id, payload)
    Heard.note("start", name, payload)
  end

  def finish(name, _id, payload)
    Heard.note("finish", name, payload)
  end
end

ActiveSupport::Notifications.subscribe(/\.fairq\z/, Object.new.extend(Heard))
