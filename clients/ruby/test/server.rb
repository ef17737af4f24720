# frozen_string_literal: true

require "pg"

# The server of the suite: databases of its own, and its faults.
module Server
  HOST = ENV.fetch("PGHOST")
  USER = ENV.fetch("PGUSER", "postgres")
  CLUSTER = ENV.fetch("FAIRQ_CLUSTER")

  class << self
    def url(database)
      "host=#{HOST} user=#{USER} dbname=#{database}"
    end

    def new_database
      name = "ruby_#{Process.pid}_#{@number = @number.to_i + 1}"
      on("postgres") { |connection| connection.exec("CREATE DATABASE #{name}") }
      name
    end

    def drop(name)
      on("postgres") { |connection| connection.exec("DROP DATABASE #{name} WITH (FORCE)") }
    end

    def on(database)
      connection = PG.connect(url(database))
      connection.set_notice_processor { nil }
      yield connection
    ensure
      connection&.close
    end

    def restart(mode)
      pg_ctl("restart", "-m", mode) || raise("pg_ctl could not restart the server")
    end

    private

    def pg_ctl(*arguments)
      system("pg_ctl", "-D", "#{CLUSTER}/data", "-l", "#{CLUSTER}/log", "-w", "-t", "120", "-s", *arguments, in: :close)
    end
  end
end
