# What the suite packaging, make dist and make check-packaging need; sourced by
# test/scripts/prerequisites.sh.
have dpkg-buildpackage || need "dpkg-buildpackage" dpkg-dev
have dh || need "debhelper" debhelper
have pg_buildext || need "PostgreSQL's tools for packages" postgresql-server-dev-all
have lintian || need "lintian" lintian
{ have zip && have xz; } || need "zip and xz" zip xz-utils
{ python_has pytest && python_has yaml; } || need "Python's pytest and yaml" python3-pytest python3-yaml
if [ -f "$CHECKOUT/clients/python/pyproject.toml" ]; then
	{ python_has build && python_has setuptools && python_has wheel; } ||
		need "Python's build, setuptools and wheel" python3-build python3-setuptools python3-wheel
fi
if [ -f "$CHECKOUT/clients/node/package.json" ]; then
	have npm || need "npm" npm
	need_npm typescript 5
	need_npm @types/node 20
	need_npm @types/pg 8
fi
if compgen -G "$CHECKOUT/clients/ruby/*.gemspec" >/dev/null; then
	have gem || need "Ruby" ruby
fi
