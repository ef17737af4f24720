# What the suite packaging, make dist and make check-packaging need; sourced by
# test/scripts/prerequisites.sh.
have dpkg-buildpackage || need "dpkg-buildpackage" dpkg-dev
have dh || need "debhelper" debhelper
# dpkg-buildpackage wants this package, whatever programs there are
is_installed postgresql-server-dev-all || need "PostgreSQL's tools for packages" postgresql-server-dev-all
have lintian || need "lintian" lintian
{ have zip && have xz; } || need "zip and xz" zip xz-utils
python_has pytest || need "Python's pytest" python3-pytest
python_has yaml || need "Python's yaml" python3-yaml
if [ -f "$CHECKOUT/clients/python/pyproject.toml" ]; then
	{ python_has build && python_has setuptools && python_has wheel; } ||
		need "Python's build, setuptools and wheel" python3-build python3-setuptools python3-wheel
fi
if [ -f "$CHECKOUT/clients/node/package.json" ]; then
	look_for_node_build
fi
if compgen -G "$CHECKOUT/clients/ruby/*.gemspec" >/dev/null; then
	have gem || need "Ruby" ruby
fi
