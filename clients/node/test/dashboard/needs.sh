# What the dashboard's tests need; sourced by test/scripts/prerequisites.sh.
have node || need "Node.js" nodejs
have npm || need "npm" npm
have chromium || need "Chromium" chromium
need_npm pg 8
need_npm typescript 5
need_npm @types/node 20
need_npm @types/pg 8
need_npm playwright-core 1
