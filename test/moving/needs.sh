# What the suite moving needs. Sourced by test/scripts/prerequisites.sh.
python_has pytest || need "pytest" python3-pytest
have node || need "Node.js" nodejs
have npm || need "npm" npm
need_npm pg-boss 12
need_npm graphile-worker 0.18
python_has celery || need "Celery" python3-celery
python_has redis || need "Python's redis" python3-redis
# not redis-server, which would bring a daemon: the server's program is in both
have redis-server || have redis-check-rdb || need "Redis" redis-tools
