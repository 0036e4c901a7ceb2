"""``logbus kafka-scripts`` writes scripts that run the commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from logbus.cli.commands.kafka_scripts import kafka_scripts
from logbus.cli.kafka_scripts.absent_scripts import ABSENT
from logbus.cli.kafka_scripts.option_parser import COMMON, OptionParser
from logbus.cli.kafka_scripts.scripts import COMMANDS, script


@pytest.mark.parametrize("without_sh", [False, True])
def test_files(without_sh: bool, tmp_path: Path) -> None:
    """Executable files, named as Kafka's; without .sh only if asked for."""
    home = tmp_path / "bin"
    arguments = [str(home), *(["--without-sh"] if without_sh else [])]
    done = CliRunner().invoke(kafka_scripts, arguments, catch_exceptions=False)
    every = {*COMMANDS, *ABSENT}
    names = {f"{name}.sh" for name in every} | (every if without_sh else set())
    assert {path.name for path in home.iterdir()} == names
    assert sorted(done.output.split()) == sorted(str(home / name) for name in names)
    for path in home.iterdir():
        assert os.access(path, os.X_OK)
        assert path.read_text() == script(path.name.removesuffix(".sh"))


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name: str) -> None:
    """Each has a parser, in which nothing is without a word of explanation, and a function that runs it."""
    module = import_module(f"logbus.cli.kafka_scripts.{COMMANDS[name]}")
    assert isinstance(module.PARSER, OptionParser)
    assert callable(module.run)
    assert [option.name for option in module.PARSER.options if not (option.help or option.refusal)] == []


def test_run(tmp_path: Path) -> None:
    """A script runs this Python's logbus wherever it is called, whatever lies there; bad options are one line."""
    path = tmp_path / "kafka-topics.sh"
    path.write_text(script("kafka-topics"))
    path.chmod(0o755)
    (tmp_path / "logbus").mkdir()
    (tmp_path / "logbus" / "__init__.py").write_text("raise SystemExit('the wrong one')")
    done = subprocess.run([path, "--frob"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("frob is not a recognized option; there are --alter, ")
    assert done.stderr.count("\n") == 1
    assert sys.executable in script("kafka-topics")


def test_documented() -> None:
    """The documentation has each script, with the options that are served."""
    page = (Path(__file__).parents[3] / "docs" / "howto" / "kafka-scripts.rst").read_text()
    rows = dict(re.findall(r"^   \* - ``(\S+)\.sh``\n((?:     .*\n)+)", page, re.MULTILINE))
    common = {each.name for each in COMMON}
    for name, module in COMMANDS.items():
        options = import_module(f"logbus.cli.kafka_scripts.{module}").PARSER.options
        served = {each for one in options if not one.refusal and one.name not in common for each in one.names}
        assert set(re.findall("``--(.+?)``", rows.pop(name))) == served, name
    assert rows == {}
    assert {name for name in ABSENT if f"``{name}.sh``" not in page} == set()
