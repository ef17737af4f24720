"""The types hold, and the package says that it has types."""

import os
import subprocess
import sys

HERE = os.path.join(os.environ["FAIRQ_CHECKOUT"], "clients/python")


def test_mypy_strict():
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--enable-incomplete-feature=Unpack", "--cache-dir", os.devnull],
                          cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_installed(tmp_path):
    """pip installs it, with its types and its program, and without the network."""
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index", "--no-warn-script-location",
                    "--disable-pip-version-check", "--target", str(tmp_path), HERE], check=True, capture_output=True)
    assert (tmp_path / "pgfairq/py.typed").exists() and (tmp_path / "pgfairq/cli/__init__.py").exists()
    done = subprocess.run([sys.executable, "-c", "import pgfairq; print(pgfairq.__file__)"], cwd=tmp_path, check=True,
                          env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
    assert done.stdout.startswith(str(tmp_path))
