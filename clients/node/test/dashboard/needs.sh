# What the dashboard's tests need; sourced by test/scripts/prerequisites.sh.
look_for_node_build
look_for_plproxy
have chromium || need "Chromium" chromium
need_npm all
