# What the suite ruby needs; sourced by test/scripts/prerequisites.sh.
ruby -e 'require "pg"' 2>/dev/null || need "Ruby with pg" ruby ruby-pg
ruby -e 'require "active_job"; require "active_record"; require "rails"' 2>/dev/null ||
	need "Active Job and what goes with it" ruby-activejob ruby-activerecord ruby-railties
ruby -e 'require "minitest"' 2>/dev/null || need "Ruby's minitest" ruby-minitest
have bundle || need "Bundler" ruby-bundler
look_for_plproxy
