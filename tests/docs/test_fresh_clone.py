"""
A newcomer's first hour and an operator's first day, in a fresh clone of the repository.

The examples of other pages are run with the packages of the tests, from the tree as it is.  Here there is only what git
has, and what pip lines of the documentation install; the pages are those of the tree.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from tests.docs.page_examples import examples_of
from tests.docs.shell_session import default_ports_are_free, has_own_network, session

ROOT = Path(__file__).parent.parent.parent
FIRST_STEPS = Path("docs/tutorial/index.rst")
#: Each is read in a clone of its own.
PAGES = [Path("README.rst"), FIRST_STEPS, Path("docs/tutorial/operator.rst")]
IS_CHECKOUT = (ROOT / ".git").exists()
ISOLATED = has_own_network()


def commands_of(page: Path) -> list[str]:
    """All commands that a page shows."""
    return [command.line for each in examples_of(page) if each.language == "console" for command in each.commands]


def clone(where: Path) -> Path:
    """Clone the repository as it is committed."""
    subprocess.run(["git", "clone", "-q", ROOT, where / "logbus"], check=True)
    return where / "logbus"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a newcomer's environment has its programs, made by what the pages say, once for all processes of a run."""
    if not IS_CHECKOUT:
        pytest.skip("this is no checkout: there is nothing to clone")
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "newcomer"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place / "done"
        if not done.exists():
            install(clone(place))
            done.touch()
    return place / "logbus" / ".venv" / "bin"


def install(checkout: Path) -> None:
    """Do what the pages say about installing."""
    steps = [line for line in commands_of(checkout / FIRST_STEPS) if line.startswith(("python3 -m venv", ". .venv"))]
    assert len(steps) == 2
    for page in PAGES:
        steps += [line.partition(" &&")[0] for line in commands_of(checkout / page) if line.startswith("pip install")]
    assert "pip install ." in steps
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    # To optimize takes most of a build; what is tested elsewhere is optimized.
    environment = {**clean, "CFLAGS": "-O0", "PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        ["bash", "-ec", "\n".join(dict.fromkeys(steps))],
        check=False,
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_the_page_holds_there(page: Path, programs: Path, tmp_path: Path) -> None:
    """Its commands succeed with what pip has installed, and print what it says they print."""
    if not ISOLATED and not default_ports_are_free():
        pytest.skip("the default ports are taken, and this machine gives no network of one's own")
    checkout = clone(tmp_path)
    with session(checkout, ISOLATED, programs) as reader:
        assert Path(reader.shell("command -v logbus")[1].strip()) == programs / "logbus"
        for example in examples_of(ROOT / page):
            reader.play(example)
