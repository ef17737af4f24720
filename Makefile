# Building, installing and testing pgfairq.
#
#   make check        every test, on throwaway clusters; installs what is missing
#   make check-assert, check-asan, check-valgrind, check-versions
#                     the tests on other builds and other versions of the
#                     server; test/scripts/check-*.sh say how
#   make check-patroni
#                     failovers and switchovers of Patroni, 20 minutes (ROUNDS=n)
#   make check-packaging
#                     the Debian packages, built, installed and tested in chroots of
#                     15, 17 and 18 (VERSIONS="17 18": only these)
#   make dist         all archives of a release, into dist/
#   make indent       lay out the C sources as PostgreSQL does, with its pgindent
#   make demo         a demonstration on a throwaway cluster of its own
#   make demo-clean   stop and delete that cluster
#   make cluster-demo
#                     the same of four nodes with standbys and two proxies
#   make bench        measurements beside other queues, an hour (QUICK=1: 5 minutes;
#                     BENCH="W1 W3": only these)
#   make bench-cluster
#                     what a queue over several nodes costs, a quarter of an hour
#                     (QUICK=1: 5 minutes; SAVE=1: keep the results)
#   make bench-clients
#                     jobs a second through the libraries for workers, beside
#                     others', 40 minutes (QUICK=1: 8 minutes; SAVE=1: keep the
#                     results)
#   make mutants      plant N=60 small faults of SEED=1 and count how many the tests
#                     find, an hour or two
#   make torture      an hour of random faults, and a proof that nothing was lost
#                     or done twice (FAULTS=n: so many; see test/scripts/torture.sh)
#   make torture-cluster
#                     the same of a cluster, ROUNDS=100 of each kind of fault
#
#   make              build against $(PG_CONFIG)
#   make install      install into the server $(PG_CONFIG) belongs to
#   make installcheck tests against a running server that has
#                     shared_preload_libraries = 'pgfairq'
#
# WERROR=1 turns warnings into errors.

PG_CONFIG ?= pg_config

# These goals run on a machine where pg_config may not exist yet, so they must
# not read PGXS (which also has a 'check' of its own that only refuses).
CHECK_GOALS = check check-assert check-asan check-valgrind check-versions check-patroni check-packaging
SCRIPT_GOALS = $(CHECK_GOALS) dist indent demo demo-clean cluster-demo bench bench-cluster bench-clients mutants torture torture-cluster

ifneq ($(filter $(SCRIPT_GOALS),$(MAKECMDGOALS)),)

ifneq ($(filter-out $(SCRIPT_GOALS),$(MAKECMDGOALS)),)
$(error give $(filter $(SCRIPT_GOALS),$(MAKECMDGOALS)) and $(filter-out $(SCRIPT_GOALS),$(MAKECMDGOALS)) to make one after the other)
endif

# Only a pg_config that somebody chose is passed on; without one the scripts
# look for an installed server themselves.
ifneq ($(filter command environment,$(origin PG_CONFIG)),)
export PG_CONFIG
endif

.PHONY: $(SCRIPT_GOALS)
.NOTPARALLEL:

$(CHECK_GOALS):
	@test/scripts/$@.sh

dist:
	@packaging/dist.sh

indent:
	@test/scripts/indent.sh

demo:
	@test/demo/demo.sh

demo-clean:
	@test/demo/demo.sh --clean

cluster-demo:
	@test/demo/cluster.sh

bench:
	@QUICK=$(filter-out 0,$(QUICK)) test/scripts/bench.sh $(BENCH)

bench-cluster:
	@QUICK=$(filter-out 0,$(QUICK)) SAVE=$(filter-out 0,$(SAVE)) test/scripts/bench-cluster.sh

bench-clients:
	@QUICK=$(filter-out 0,$(QUICK)) SAVE=$(filter-out 0,$(SAVE)) test/scripts/bench-clients.sh

mutants:
	@SEED=$(SEED) N=$(N) ONLY="$(ONLY)" JOBS=$(JOBS) test/scripts/mutants.sh

torture:
	@test/scripts/torture.sh

torture-cluster:
	@ROUNDS=$(ROUNDS) test/scripts/torture-cluster.sh

else

EXTENSION = pgfairq pgfairq_cluster
MODULE_big = pgfairq
PGFILEDESC = "pgfairq - a fair task queue"

OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))

# The library of a proxy is built, installed and cleaned away in cluster/, with this one.
TOP = .
LIBRARY = pgfairq
LIBRARY_MAP = src/pgfairq.map
include src/library.mk

# The install script is put together from its fragments. The script that brings
# the last version to this one has its functions and views. Those between released
# versions never change.
SQL_SCRIPT = sql/pgfairq--$(EXTVERSION).sql
SQL_FRAGMENTS = $(sort $(wildcard sql/install/*.sql))
UPDATE_SOURCE = $(wildcard sql/update/*--$(EXTVERSION).sql)
UPDATE_SCRIPT = $(UPDATE_SOURCE:sql/update/%=sql/pgfairq--%)
CLUSTER_SCRIPT = sql/pgfairq_cluster--$(EXTVERSION).sql
CLUSTER_FRAGMENTS = $(sort $(wildcard sql/cluster/*.sql))
CLUSTER_UPDATE_SOURCE = $(wildcard sql/update/cluster/*--$(EXTVERSION).sql)
CLUSTER_UPDATE_SCRIPT = $(CLUSTER_UPDATE_SOURCE:sql/update/cluster/%=sql/pgfairq_cluster--%)
DATA_built = $(SQL_SCRIPT) $(UPDATE_SCRIPT) $(CLUSTER_SCRIPT) $(CLUSTER_UPDATE_SCRIPT)
DATA = $(filter-out $(DATA_built),$(wildcard sql/pgfairq--*--*.sql sql/pgfairq_cluster--*--*.sql))

# setup creates the extension in the regression database and comes first.
# pg_regress finds the tests in test/sql and test/specs through --inputdir. It
# looks for expected/ below the output directory first, which is this one. The
# isolation tests have a database of their own, with the extension in it.
REGRESS = setup $(filter-out setup,$(sort $(patsubst test/sql/%.sql,%,$(wildcard test/sql/*.sql))))
REGRESS_OPTS = --inputdir=test
ISOLATION = $(sort $(patsubst test/specs/%.spec,%,$(wildcard test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test --outputdir=. --load-extension=pgfairq

PROVE_TESTS = $(sort $(wildcard test/t/*.pl))
TAP_TESTS = $(if $(PROVE_TESTS),1)

EXTRA_CLEAN = $(addsuffix .tmp,$(DATA_built))

DOCS = $(wildcard doc/*.md)

include $(PGXS)

$(call recurse,all install installdirs uninstall clean distclean maintainer-clean,cluster)

# Names such as limits.md are not for a directory that all extensions share.
docmoduledir = extension/pgfairq

# PGXS looks for them below doc/ there.
.PHONY: uninstall-pages
uninstall: uninstall-pages
uninstall-pages:
	rm -f $(addprefix '$(DESTDIR)$(docdir)/$(docmoduledir)'/, $(notdir $(DOCS)))
	rmdir '$(DESTDIR)$(docdir)/$(docmoduledir)' 2>/dev/null || :

$(SQL_SCRIPT): $(SQL_FRAGMENTS) pgfairq.control Makefile
	@test -n "$(SQL_FRAGMENTS)" || { echo "no fragments in sql/install" >&2; exit 1; }
	{ printf '%s\n\n' '\echo Use "CREATE EXTENSION pgfairq" to load this file. \quit'; cat $(SQL_FRAGMENTS); } > $@.tmp
	mv $@.tmp $@

$(UPDATE_SCRIPT): $(UPDATE_SOURCE) sql/update/compose.awk $(SQL_SCRIPT)
	awk -f sql/update/compose.awk $< > $@.tmp
	mv $@.tmp $@

$(CLUSTER_SCRIPT): sql/cluster/compose.awk $(CLUSTER_FRAGMENTS) $(SQL_FRAGMENTS) pgfairq_cluster.control Makefile
	awk -f $< $(CLUSTER_FRAGMENTS) > $@.tmp
	mv $@.tmp $@

$(CLUSTER_UPDATE_SCRIPT): $(CLUSTER_UPDATE_SOURCE) sql/update/compose.awk $(CLUSTER_SCRIPT)
	awk -f sql/update/compose.awk $< > $@.tmp
	mv $@.tmp $@

$(shlib): $(LIBRARY_MAP)

# PGXS does not follow #include; every object is rebuilt when a header changes.
$(OBJS) $(OBJS:.o=.bc): $(wildcard src/*.h src/*/*.h) Makefile src/library.mk pgfairq.control

endif
