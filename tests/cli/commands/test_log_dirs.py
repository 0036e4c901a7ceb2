"""Tests of ``logbus log-dirs``, and of the client behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from logbus.testing import Broker
from tests.cli.command_line import run


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Two log directories."""
    home = tmp_path_factory.mktemp("log-dirs")
    return str(home / "first"), str(home / "second")


@pytest.fixture(scope="module")
def broker(directories: tuple[str, str]) -> Iterator[Broker]:
    """A broker with them."""
    with Broker({"log.dirs": ",".join(directories)}) as running:
        assert run("topics", "create", "t", "--partitions", "2", "--bootstrap", running.bootstrap).status == 0
        yield running


def test_describe(broker: Broker, directories: tuple[str, str]) -> None:
    """Both directories with their free space, each with one of the partitions."""
    result = run("log-dirs", "describe", "--json", "--bootstrap", broker.bootstrap)
    assert result.status == 0, result.err
    found = json.loads(result.out)
    assert [each["path"] for each in found] == list(directories)
    assert all(0 < each["usable_bytes"] <= each["total_bytes"] and each["error"] is None for each in found)
    held = sorted(one["partition"] for each in found for one in each["partitions"] if one["topic"] == "t")
    assert held == [0, 1]
    lines = run("log-dirs", "describe", "--bootstrap", broker.bootstrap).out.splitlines()
    assert lines[0].split() == ["directory", "partition", "bytes", "state"]
    assert any("t-0" in line for line in lines)


def test_refused(broker: Broker, directories: tuple[str, str]) -> None:
    """Directories, partitions and brokers that are not there: one line that names them."""
    for arguments, status, words in (
        (["/nowhere", "t:0"], 1, f"broker 0 has no log directory /nowhere; it has {directories[0]}, {directories[1]}"),
        ([directories[1], "none:0"], 1, "none-0 on broker 0"),
        ([directories[1], "t:0", "--broker", "7"], 1, "7"),
        ([directories[1], "t"], 2, "'t' is not TOPIC:PARTITION, such as orders:0"),
        ([directories[1], "t:x"], 2, "'t:x' is not TOPIC:PARTITION"),
    ):
        result = run("log-dirs", "move", *arguments, "--bootstrap", broker.bootstrap, "--timeout", "5")
        assert (result.status, words in result.err) == (status, True), (arguments, result.err)


def test_move(broker: Broker, directories: tuple[str, str]) -> None:
    """A partition that is moved to where it is stays there; to the other directory it goes."""
    for path in (*directories, *directories):
        assert run("log-dirs", "move", path, "t:0", "--bootstrap", broker.bootstrap).status == 0
        while str(Path(path)) not in (where := placed(broker)):
            assert where <= set(directories)


def placed(broker: Broker) -> set[str]:
    """The directories of t-0, without copies."""
    found = json.loads(run("log-dirs", "describe", "--json", "--bootstrap", broker.bootstrap).out)
    return {
        each["path"]
        for each in found
        for one in each["partitions"]
        if (one["topic"], one["partition"]) == ("t", 0) and not one["copying"]
    }
