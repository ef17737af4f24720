"""What packaging/ makes: is it whole, and does it run?

The Debian package of this suite is built in a hurry: without bitcode for JIT, which
takes half of the time, and without optimization. That of make check-packaging is as it
is released, and is built and tested in chroots.

Seen to fail: another version in each of the places of versions.py (a test of its own);
a regression test that is another; a COPY of a file that is not there, or not in the
context; an image without the control file, without the preload; a cluster of another
Debian than its extension image, or with a setting that there is not; a license that
PGXN does not know; an archive of Python without py.typed; a page that names a file
that is not there.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import zipfile

import psycopg
import pytest
import yaml
from dockerfile import expand, parse

CHECKOUT = os.environ["FAIRQ_CHECKOUT"]
PACKAGING = os.path.join(CHECKOUT, "packaging")
TMP = os.environ["TMPDIR"]
REGRESSION = ["setup", "producing", "consuming", "groups", "sessions", "schedule"]


def read(path):
    with open(os.path.join(CHECKOUT, path), encoding="utf-8") as file:
        return file.read()


META = json.loads(read("META.json"))
VERSION = META["version"]


def run(*arguments, environment=None, cwd=None):
    """Its output; what it said, if it fails."""
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          cwd=cwd or TMP, env={**os.environ, **(environment or {})}, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}: exit code {done.returncode}\n{done.stdout[-6000:]}"
    return done.stdout


# --- versions ---

def test_one_version_everywhere():
    run(os.path.join(PACKAGING, "versions.py"), CHECKOUT)


def test_another_version_is_found_in_each_place():
    places = [line.split()[1] for line in run(os.path.join(PACKAGING, "versions.py"), CHECKOUT).splitlines()]
    files = sorted({place.rstrip(":") for place in places})
    assert len(files) >= 7
    for changed in files:
        copy = os.path.join(TMP, "versions")
        shutil.rmtree(copy, ignore_errors=True)
        for path in files:
            os.makedirs(os.path.dirname(os.path.join(copy, path)), exist_ok=True)
            with open(os.path.join(copy, path), "w", encoding="utf-8") as file:
                file.write(read(path).replace(VERSION, "9.9.9") if path == changed else read(path))
        done = subprocess.run([os.path.join(PACKAGING, "versions.py"), copy], stdout=subprocess.PIPE, check=False, text=True)
        assert done.returncode == 1 and changed in done.stdout, changed


# --- Debian ---

@pytest.fixture(scope="module")
def debian():
    """The directory with the packages that debian.sh has built."""
    directory = os.path.join(TMP, "debian")
    run(os.path.join(PACKAGING, "debian.sh"), directory, "-Pnocheck",
        environment={"DEB_BUILD_OPTIONS": "nocheck noopt noautodbgsym", "MAKEFLAGS": "with_llvm=no"})
    return directory


@pytest.fixture(scope="module")
def package(debian):
    """(path of the package of this machine's server, its major version)"""
    packages = [path for path in glob.glob(f"{debian}/postgresql-*-pgfairq_{VERSION}-*.deb")]
    assert packages, os.listdir(debian)
    path = sorted(packages)[-1]
    return path, re.search(r"postgresql-(\d+)-pgfairq", path)[1]


def test_source_package_is_whole(debian):
    names = {name.replace(VERSION, "V") for name in os.listdir(debian)}
    assert {"pgfairq_V.orig.tar.xz", "pgfairq_V-1.dsc", "pgfairq_V-1.debian.tar.xz"} <= names, names
    with tarfile.open(f"{debian}/pgfairq_{VERSION}.orig.tar.xz") as archive:
        there = set(archive.getnames())
    assert {f"pgfairq-{VERSION}/{name}" for name in ("Makefile", "META.json", "LICENSE", "src", "cluster", "sql/install")} <= there
    assert not [name for name in there if re.search(r"\.(o|bc|so|pyc)$|/node_modules/|/\.git/", name)]


def test_package_has_what_a_server_needs(package):
    path, major = package
    files = set(re.findall(r" \./(\S*[^/\s])$", run("dpkg-deb", "--contents", path), re.M))
    extension = f"usr/share/postgresql/{major}/extension"
    pages = f"usr/share/doc/postgresql-{major}-pgfairq"
    expected = {f"usr/lib/postgresql/{major}/lib/pgfairq.so", f"{extension}/pgfairq.control", f"{extension}/pgfairq--{VERSION}.sql",
                f"usr/lib/postgresql/{major}/lib/pgfairq_cluster.so", f"{extension}/pgfairq_cluster.control", f"{extension}/pgfairq_cluster--{VERSION}.sql",
                f"{extension}/pgfairq--0.1.0--0.2.0.sql", f"{extension}/pgfairq--0.2.0--{VERSION}.sql",
                f"{extension}/pgfairq_cluster--0.2.0--{VERSION}.sql", f"{pages}/README.md", f"{pages}/copyright", f"{pages}/doc/reference.md"}
    assert expected - files == set()
    assert re.search(rf"\bpostgresql-{major} \(>> ", run("dpkg-deb", "--field", path, "Depends"))


def test_lintian_finds_no_error(debian):
    changes, = glob.glob(f"{debian}/*_{VERSION}-*.changes")
    run("lintian", "--fail-on", "error", "--allow-root", changes)


@pytest.fixture(scope="module")
def installed(package):
    """The programs of a copy of the server, with the package unpacked below it."""
    path, major = package
    root = os.path.join(TMP, "root")
    run("bash", "-c", '''
        . "$1/test/scripts/common.sh"
        PG_CONFIG=/usr/lib/postgresql/$2/bin/pg_config
        make_private_server "$3"
        dpkg-deb --extract "$4" "$3"''', "bash", CHECKOUT, major, root, path)
    return f"{root}/usr/lib/postgresql/{major}/bin"


@pytest.fixture(scope="module")
def server(installed):
    """The socket's directory of a server that the package is in."""
    directory = os.path.join(TMP, "s")
    programs = {"PATH": f"{installed}:{os.environ['PATH']}"}
    os.mkdir(directory)
    run(f"{installed}/initdb", "-D", f"{directory}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
    with open(f"{directory}/data/postgresql.conf", "a", encoding="ascii") as file:
        file.write(f"listen_addresses = ''\nunix_socket_directories = '{directory}'\nfsync = off\n"
                   "shared_preload_libraries = 'pgfairq'\nmax_prepared_transactions = 10\n")
    start = [f"{installed}/pg_ctl", "-D", f"{directory}/data", "-l", f"{directory}/log", "-w", "-t", "120", "-s"]
    subprocess.run([*start, "start"], check=True, stdin=subprocess.DEVNULL, env={**os.environ, **programs})
    try:
        yield directory
    finally:
        subprocess.run([*start, "-m", "immediate", "stop"], check=True)


def test_server_runs_with_the_package(server, installed):
    with psycopg.connect(f"host={server} user=postgres dbname=postgres", autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pgfairq")
        assert connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'pgfairq'").fetchone() == (VERSION,)
        connection.execute("SELECT fairq.create_queue('emails')")
        connection.execute("SELECT fairq.enqueue('emails', '{}', group_key => 'ann')")
        assert connection.execute("SELECT group_key, fairq.ack(receipt) FROM fairq.claim('emails')").fetchall() == [("ann", True)]
        library, = connection.execute("SELECT setting FROM pg_config WHERE name = 'PKGLIBDIR'").fetchone()
        assert library.startswith(os.path.dirname(installed))


def test_regression_tests_with_the_package(server, installed):
    work = os.path.join(TMP, "regress")
    shutil.copytree(os.path.join(CHECKOUT, "expected"), os.path.join(work, "expected"))
    os.symlink(os.path.join(CHECKOUT, "test"), os.path.join(work, "test"))  # what tests include
    major = os.path.basename(os.path.dirname(installed))
    regress = glob.glob(f"/usr/lib/postgresql/{major}/lib/pgxs/src/test/regress/pg_regress")
    assert regress, "pg_regress is not there"
    run(regress[0], f"--inputdir={CHECKOUT}/test", f"--outputdir={work}", f"--bindir={installed}", f"--host={server}",
        "--user=postgres", "--dbname=contrib_regression", *REGRESSION, cwd=work)


# --- all archives ---

@pytest.fixture(scope="module")
def dist():
    directory = os.path.join(TMP, "dist")
    run(os.path.join(PACKAGING, "dist.sh"), directory)
    return directory


def test_archive_for_pgxn(dist):
    with zipfile.ZipFile(f"{dist}/pgfairq-{VERSION}.zip") as archive:
        names = set(archive.namelist())
        top = f"{META['name']}-{VERSION}/"
        assert all(name.startswith(top) for name in names), "one folder, of name and version"
        assert json.loads(archive.read(top + "META.json")) == META
        for extension in META["provides"].values():
            assert {top + extension["file"], top + extension["docfile"]} <= names
        assert archive.read(top + META["provides"]["pgfairq"]["file"]).startswith(b"\\echo Use")
    assert not [name for name in names if re.search(r"\.(o|bc|so|pyc)$|/node_modules/|/\.git/", name)]


def test_meta_is_as_pgxn_specifies():
    assert {"name", "version", "abstract", "maintainer", "license", "provides", "meta-spec"} <= set(META)
    assert re.fullmatch(r"[^\s/\\\x00-\x1f]{2,}", META["name"])
    assert META["license"] == "postgresql" and META["meta-spec"]["version"] == "1.0.0"
    assert META["release_status"] in ("stable", "testing", "unstable")
    semantic = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[\w.]+)?")
    for version in (META["version"], *(extension["version"] for extension in META["provides"].values())):
        assert semantic.fullmatch(version), version
    for phase, relations in META["prereqs"].items():
        assert phase in ("configure", "build", "test", "runtime", "develop")
        for relation, needed in relations.items():
            assert relation in ("requires", "recommends", "suggests", "conflicts")
            assert all(semantic.fullmatch(version) for version in needed.values())
    assert all(0 < len(tag) < 256 and not re.search(r"[/\\\x00-\x1f]", tag) for tag in META["tags"])
    assert not [key for key in META if key not in (
        "abstract", "description", "generated_by", "license", "maintainer", "meta-spec", "name", "no_index", "prereqs",
        "provides", "release_status", "resources", "tags", "version") and not key.lower().startswith("x_")]


def test_archives_of_the_clients(dist):
    names = set(os.listdir(dist))
    if os.path.exists(f"{CHECKOUT}/clients/python/pyproject.toml"):
        with zipfile.ZipFile(f"{dist}/pgfairq-{VERSION}-py3-none-any.whl") as wheel:
            assert {"pgfairq/__init__.py", "pgfairq/py.typed", f"pgfairq-{VERSION}.dist-info/METADATA"} <= set(wheel.namelist())
        assert f"pgfairq-{VERSION}.tar.gz" in names
    if os.path.exists(f"{CHECKOUT}/clients/node/package.json"):
        with tarfile.open(f"{dist}/pgfairq-{VERSION}.tgz") as package:
            there = set(package.getnames())
        about = json.loads(read("clients/node/package.json"))
        assert {f"package/{path}" for path in ("package.json", about["main"], about["types"], *about["bin"].values())} <= there
        assert not [name for name in there if "node_modules" in name]
    if glob.glob(f"{CHECKOUT}/clients/ruby/*.gemspec"):
        with tarfile.open(f"{dist}/activejob-fairq-{VERSION}.gem") as gem, \
                tarfile.open(fileobj=gem.extractfile("data.tar.gz")) as data:
            assert [name for name in data.getnames() if name.startswith("lib/") and name.endswith(".rb")]


def test_sums_are_those_of_the_archives(dist):
    sums = dict(reversed(line.split("  ")) for line in open(f"{dist}/SHA256SUMS", encoding="ascii").read().splitlines())
    assert set(sums) == set(os.listdir(dist)) - {"SHA256SUMS"}
    for name, expected in sums.items():
        with open(f"{dist}/{name}", "rb") as file:
            assert hashlib.sha256(file.read()).hexdigest() == expected, name


# --- images ---

def stages(folder):
    arguments, there = parse(read(f"packaging/{folder}/Dockerfile"))
    return {**arguments, "PG_MAJOR": arguments.get("PG_MAJOR", "18")}, there


def in_context(folder, source):
    """Whether a source of COPY is there, and is not left out of the context."""
    kept = re.findall(r"^!(.*)", read(f"packaging/{folder}/Dockerfile.dockerignore"), re.M)
    return os.path.exists(os.path.join(CHECKOUT, source)) and (source == "." or source in kept)


@pytest.mark.parametrize("folder", ["docker", "cnpg"])
def test_dockerfile_copies_what_there_is(folder):
    arguments, there = stages(folder)
    build, last = there
    assert build.name == "build" and build.all("COPY") == [". /usr/src/pgfairq"]
    kept = re.findall(r"^!(.*)", read(f"packaging/{folder}/Dockerfile.dockerignore"), re.M)
    assert {"Makefile", "pgfairq.control", "pgfairq_cluster.control", "src", "cluster", "sql", "doc"} <= set(kept)  # make install fails without pages
    assert "sql/pgfairq--0.1.0--0.2.0.sql" in kept  # which make does not build
    copies = last.all("COPY")
    assert [copy for copy in copies if copy.startswith("--from=build ")]
    for copy in copies:
        if not copy.startswith("--from="):
            assert in_context(folder, copy.split()[0]), copy
    assert all("${PG_MAJOR}" not in copy or "PG_MAJOR" in arguments for copy in copies)


def test_image_preloads_and_creates():
    arguments, (build, last) = stages("docker")
    assert build.base == f"postgres:{arguments['PG_MAJOR']}" == last.base
    assert any("shared_preload_libraries = 'pgfairq'" in command and "postgresql.conf.sample" in command for command in last.all("RUN"))
    assert "packaging/docker/initdb.sql /docker-entrypoint-initdb.d/10-pgfairq.sql" in last.all("COPY")
    assert "CREATE EXTENSION pgfairq;" in read("packaging/docker/initdb.sql")


def test_extension_image_has_the_layout_of_cloudnativepg(package):
    """The COPY instructions of the last stage, done with the files of the Debian package."""
    path, major = package
    arguments, (build, last) = stages("cnpg")
    arguments["PG_MAJOR"] = major
    assert last.base == "scratch" and last.all("USER") == ["65532:65532"]
    root, image = os.path.join(TMP, "unpacked"), os.path.join(TMP, "image")
    os.mkdir(root)
    run("dpkg-deb", "--extract", path, f"{root}/pgfairq")
    for copy in last.all("COPY"):
        source, target = expand(copy.replace("--from=build ", root), arguments).split()
        target = image + target
        assert target.endswith("/"), copy
        os.makedirs(target, exist_ok=True)
        source = source if source.startswith(root) else os.path.join(CHECKOUT, source)
        if os.path.isdir(source):
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
    files = {os.path.relpath(file, image) for file in glob.glob(f"{image}/**", recursive=True) if os.path.isfile(file)}
    assert {"lib/pgfairq.so", "lib/pgfairq_cluster.so", "share/extension/pgfairq.control", f"share/extension/pgfairq--{VERSION}.sql",
            "licenses/pgfairq/LICENSE"} <= files
    assert {file.split("/")[0] for file in files} == {"lib", "share", "licenses"}


def test_cluster_and_database_of_cloudnativepg():
    cluster, = yaml.safe_load_all(read("packaging/cnpg/cluster.yaml"))
    database, = yaml.safe_load_all(read("packaging/cnpg/database.yaml"))
    server = cluster["spec"]["postgresql"]
    extension, = server["extensions"]
    arguments, _ = stages("cnpg")
    assert (cluster["kind"], database["kind"]) == ("Cluster", "Database")
    assert server["shared_preload_libraries"] == [extension["name"]] == ["pgfairq"]
    assert cluster["spec"]["imageName"] == arguments["BASE"], "the library is built for the server's system"
    assert database["spec"]["cluster"]["name"] == cluster["metadata"]["name"]
    assert database["spec"]["name"] == cluster["spec"]["bootstrap"]["initdb"]["database"]
    assert database["spec"]["extensions"] == [{"name": "pgfairq", "version": VERSION}]
    settings = set(re.findall(r"^\| `(pgfairq\.\w+)` \|", read("doc/reference.md"), re.M))
    assert set(server["parameters"]) <= settings and all(isinstance(value, str) for value in server["parameters"].values())


# --- pages ---

def test_pages_name_files_that_are_there():
    for page in ("packaging/README.md", "doc/releasing.md"):
        for path in re.findall(r"\b((?:packaging|clients|test)/[\w./-]+\w)", read(page)):
            assert os.path.exists(os.path.join(CHECKOUT, path)), f"{page}: {path}"
