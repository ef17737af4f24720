# What the suite conformance needs, for the subjects of all libraries; sourced by test/scripts/prerequisites.sh.
{ python_has celery && python_has kombu; } || need "Celery" python3-celery
look_for_node_build
ruby -e 'require "pg"' 2>/dev/null || need "Ruby with pg" ruby ruby-pg
ruby -e 'require "active_job"; require "active_record"' 2>/dev/null || need "Active Job and Active Record" ruby-activejob ruby-activerecord
{ have go && [ -d /usr/share/gocode/src/github.com/lib/pq ]; } || need "Go with lib/pq" golang-go golang-github-lib-pq-dev
