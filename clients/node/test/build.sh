# Compiles the library in the copied tree; sourced by the suites that use it.
cd "$FAIRQ_CHECKOUT/clients/node"
ln -sfn "$FAIRQ_NODE_MODULES" node_modules
rm -rf dist
node node_modules/typescript/bin/tsc --project tsconfig.json
