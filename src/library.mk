# How the two libraries are compiled and linked, with TOP as the way to the checkout
# and LIBRARY as the name. Read before PGXS.

EXTVERSION := $(shell sed -n "s/^default_version *= *'\([^']*\)'.*/\1/p" $(TOP)/$(LIBRARY).control)

# The library refuses SQL of another version.
PG_CPPFLAGS = -I$(TOP)/src -DFAIRQ_VERSION='"$(EXTVERSION)"'
# The server's headers and its function interface leave parameters unused.
PG_CFLAGS = -Wall -Wextra -Wno-unused-parameter
ifdef WERROR
# With what builds of later versions of the server look for as well.
PG_CFLAGS += -Wshadow=compatible-local -Werror
endif

# Before version 16 the server's build exports every function of a library.
EXPORTED_ONLY = -Wl,--version-script=$(LIBRARY_MAP)
SHLIB_LINK = $(if $(filter linux,$(PORTNAME)),$(EXPORTED_ONLY))

PGXS := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error '$(PG_CONFIG) --pgxs' says nothing: install the server's development package, or give PG_CONFIG=/path/to/pg_config)
endif
