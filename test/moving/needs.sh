# What the suite moving needs. Sourced by test/scripts/prerequisites.sh.
python_has pytest || need "Python's pytest" python3-pytest
have node || need "Node.js" nodejs
have npm || need "npm" npm
need_npm all
{ python_has celery && python_has kombu; } || need "Celery" python3-celery
python_has redis || need "Python's redis" python3-redis
# not redis-server, which would bring a daemon: the server's program is in both
have redis-server || have redis-check-rdb || need "Redis" redis-tools
