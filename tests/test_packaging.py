"""
Tests of the wheel: built from a clean copy of the tree, installed beside a separate Twisted, and uninstalled.

They need no network: Twisted is copied from the tests' environment, which also has the dependencies.
"""

from __future__ import annotations

import configparser
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

import logbus

ROOT = Path(__file__).parent.parent
TWISTD = ("-c", "from twisted.scripts.twistd import run; run()")
TWIST = ("-m", "twisted")

pytestmark = pytest.mark.slow


def run(command: Sequence[str | Path], cwd: Path, **variables: str) -> str:
    """Return the output of a command, which must succeed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **variables}
    done = subprocess.run(command, check=False, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command} failed with status {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def build(there: Path, **variables: str) -> Path:
    """Build the wheel from a copy of the tree in which nothing was built before."""
    source = there / "source"
    source.mkdir()
    for name in ("logbus", "twisted"):
        ignored = shutil.ignore_patterns("__pycache__", "dropin.cache", "*.so", "*.crc")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("setup.cfg", "setup.py", "pyproject.toml", "README.rst", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", there, source]
    run(command, there, **variables)
    (found,) = there.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, with the compiled kernel."""
    # To optimize takes most of a build, and changes no file's place; what is tested elsewhere is optimized.
    return build(tmp_path_factory.mktemp("wheel"), CFLAGS="-O0")


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as a machine without a compiler builds it."""
    return build(tmp_path_factory.mktemp("pure-wheel"), CC="no-compiler-here")


class Installation:
    """A virtual environment with a Twisted of its own, and a logbus that comes and goes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        run([sys.executable, "-m", "venv", "--without-pip", root], root.parent)
        self.python = root / "bin" / "python"
        self.packages = Path(sysconfig.get_path("purelib", "venv", vars={"base": str(root)}))
        here = importlib.metadata.distribution("Twisted")
        for file in here.files or ():
            if file.parts[0] != ".." and file.name != "dropin.cache" and "__pycache__" not in file.parts:
                target = self.packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(here.locate_file(file), target)
        # Everything else comes from here.  A directory named in a .pth file does not have its own .pth files read,
        # so a logbus that is installed in place here is not seen there.
        (self.packages / "others.pth").write_text(f"{here.locate_file('')}\n")

    def pip(self, *arguments: str | Path) -> None:
        """Run pip on this environment."""
        run([sys.executable, "-m", "pip", "--python", self.python, *arguments], self.root)

    def help(self, command: Sequence[str]) -> str:
        """Return the ``--help`` of a Twisted command."""
        return run([self.python, *command, "--help"], self.root)

    def twisted_files(self) -> set[str]:
        """All files below ``twisted``, but for what running it leaves."""
        return {
            str(path.relative_to(self.packages))
            for path in (self.packages / "twisted").rglob("*")
            if path.is_file() and path.suffix != ".pyc" and path.name != "dropin.cache"
        }


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An environment without logbus; who installs it there removes it."""
    return Installation(tmp_path_factory.mktemp("venv") / "venv")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installation:
    """Another one with logbus; tests look at it, and leave it as it is."""
    there = Installation(tmp_path_factory.mktemp("installed") / "venv")
    there.pip("install", "-q", "--no-deps", "--no-index", "--no-compile", wheel)
    return there


def test_every_module_of_the_tree_is_in_the_wheel(wheel: Path) -> None:
    """A package that setup.cfg does not name would be missing where it is installed, not here."""
    with zipfile.ZipFile(wheel) as archive:
        built = {name for name in archive.namelist() if name.endswith((".py", "py.typed"))}
    tree = {str(path.relative_to(ROOT)) for path in (ROOT / "logbus").rglob("*.py") if "__pycache__" not in path.parts}
    plugins = ("logbus_server.py", "logbus_kafka07.py", "logbus_protocols.py", "logbus_registry.py")
    tree |= {"logbus/py.typed", *(f"twisted/plugins/{name}" for name in plugins)}
    assert built == tree


def test_twisted_stays_a_package_of_twisted(wheel: Path) -> None:
    """Nothing of Twisted's own is overwritten: not a single ``__init__.py`` goes there."""
    with zipfile.ZipFile(wheel) as archive:
        assert [
            name for name in archive.namelist() if name.startswith("twisted/") and name.endswith("__init__.py")
        ] == []


def test_the_metadata_is_what_the_tree_says(wheel: Path) -> None:
    """Version, entry points and the readme are in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (info,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        metadata = archive.read(f"{info}/METADATA").decode()
        entry_points = configparser.ConfigParser()
        entry_points.read_string(archive.read(f"{info}/entry_points.txt").decode())
    assert f"\nVersion: {logbus.__version__}\n" in metadata
    assert "Description-Content-Type: text/x-rst" in metadata
    assert entry_points["console_scripts"]["logbus"] == "logbus.cli:main"
    assert entry_points["pytest11"]["logbus"] == "logbus.testing.pytest_plugin"


def test_twistd_and_twist_know_logbus_once_it_is_installed(installed: Installation) -> None:
    """The plugin is found in an installation, not only in the tree."""
    assert "logbus" in installed.help(TWISTD)
    assert "logbus" in installed.help(TWIST)
    assert "--data-dir" in installed.help([*TWISTD, "logbus"])


def test_its_protocols_come_with_it(installed: Installation) -> None:
    """kafka, kafka07 and admin are plugins like any other, found in the installation."""
    script = "from logbus.protocols import protocol_plugins; print(*sorted(protocol_plugins()))"
    assert run([installed.python, "-c", script], installed.root).split() == ["admin", "kafka", "kafka07"]


def test_the_command_starts(installed: Installation) -> None:
    """The ``logbus`` script that pip makes finds its entry point."""
    assert "Usage" in run([installed.root / "bin" / "logbus", "--help"], installed.root)


KERNEL = """
from logbus.compiled import IS_USED
from logbus.records.batch import Record, encode_batch, iter_records
from logbus.records.batch_columns import Columns, extend_from_batches
from logbus.records.read_committed import CommittedFilter
from logbus.records.implementations import COLUMNS_ARE_COMPILED, GATHERING_IS_COMPILED, IS_COMPILED, PACKING_IS_COMPILED
records = [Record(0, 1, b"k", b"v"), Record(1, 2, None, None, (("h", b"1"),))]
assert list(iter_records(encode_batch(records))) == records
columns = Columns()
batch = encode_batch(records)
assert extend_from_batches(columns, batch, CommittedFilter(()), 0, 2, max_rows=9, max_bytes=99) == (len(batch), 2)
assert bytes(columns.take().value_data) == b"v"
print(IS_USED, IS_COMPILED, COLUMNS_ARE_COMPILED, GATHERING_IS_COMPILED, PACKING_IS_COMPILED)
"""


def test_the_kernel_is_compiled(installed: Installation) -> None:
    """Records are encoded and decoded by the compiled kernel, unless the environment says otherwise."""
    assert run([installed.python, "-c", KERNEL], installed.root).split() == ["True"] * 5
    assert run([installed.python, "-c", KERNEL], installed.root, LOGBUS_PURE="1").split() == ["False"] * 5


def test_no_compiler_is_needed(empty: Installation, pure_wheel: Path) -> None:
    """Where nothing can be compiled the installation works all the same, by the same source as it is."""
    empty.pip("install", "-q", "--no-deps", "--no-index", "--no-compile", pure_wheel)
    assert run([empty.python, "-c", KERNEL], empty.root).split() == ["False"] * 5
    empty.pip("uninstall", "-q", "-y", "logbus")


def test_uninstalling_leaves_twisted_whole(empty: Installation, wheel: Path) -> None:
    """pip removes only files of logbus; twistd works without it."""
    before = empty.twisted_files()
    empty.pip("install", "-q", "--no-deps", "--no-index", wheel)
    assert len(empty.twisted_files() - before) == 4
    empty.help(TWISTD)
    empty.pip("uninstall", "-q", "-y", "logbus")
    assert empty.twisted_files() == before
    assert not (empty.packages / "logbus").exists()
    remaining = empty.help(TWISTD)
    assert "logbus" not in remaining
    assert "web" in remaining
