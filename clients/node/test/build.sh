# Compiles the library in the copied tree; sourced by the suites that use it. They run side
# by side, so one compiles, the others wait and take what is there: a suite under way never
# finds a library that another has just removed.
cd "$FAIRQ_CHECKOUT/clients/node"
exec {build_lock}<.
flock $build_lock
[ "$(readlink node_modules)" = "$FAIRQ_NODE_MODULES" ] || ln -sfn "$FAIRQ_NODE_MODULES" node_modules
if [ ! -d dist ] || [ -n "$(find src tsconfig.json -newer dist -print -quit)" ]; then
	rm -rf dist dist.new
	node node_modules/typescript/bin/tsc --project tsconfig.json --outDir dist.new
	touch dist.new
	mv dist.new dist
fi
exec {build_lock}<&-
