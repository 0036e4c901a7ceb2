"""Tests of :mod:`logbus.cli.doctor.machine`."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from logbus.cli.doctor.finding import Weight, by_weight
from logbus.cli.doctor.machine import (
    DirectoryFacts,
    MachineFacts,
    directory_facts,
    directory_findings,
    machine_facts,
    machine_findings,
)
from logbus.config import ConfigView
from logbus.interpreter import InterpreterBuild
from logbus.testing import Broker

GOOD = MachineFacts(
    InterpreterBuild("CPython", "3.13.1", "'--enable-optimizations'", "-O3"), True, 2, 1_000_000, None, True
)
GOOD_DIRECTORY = DirectoryFacts("/var/lib/logbus", None, 5, "ext4", 0.2, 10**6)


def test_nothing_to_mend() -> None:
    """A good machine with good directories gives no findings."""
    assert list(machine_findings(GOOD, ConfigView.load())) == []
    assert list(directory_findings([GOOD_DIRECTORY, evolve(GOOD_DIRECTORY, path="/b", device=6)], 0.85)) == []


@pytest.mark.parametrize(
    ("change", "settings", "weight", "word"),
    [
        ({"is_compiled": False}, {}, Weight.BETTER, "interpreted"),
        ({"descriptors": 1024}, {}, Weight.RISK, "1024 files"),
        ({"descriptors": None}, {}, None, ""),
        ({"swappiness": 60}, {}, Weight.BETTER, "vm.swappiness is 60"),
        ({"swappiness": 1}, {}, None, ""),
        ({"is_clock_kept": False}, {}, Weight.RISK, "clock"),
        ({"is_clock_kept": None}, {}, None, ""),
        ({}, {"workers": "3"}, Weight.BETTER, "3 workers share 2"),
        ({"cores": 8}, {}, Weight.BETTER, "there are 8 processors"),
        ({"cores": 8}, {"workers": "auto"}, None, ""),
    ],
)
def test_machine(change: dict[str, object], settings: dict[str, str], weight: Weight | None, word: str) -> None:
    """Each fault has a finding of its own."""
    found = list(machine_findings(evolve(GOOD, **change), ConfigView.load(set=settings)))
    if weight is None:
        assert found == []
    else:
        [finding] = found
        assert finding.weight is weight
        assert word in finding.what


@pytest.mark.parametrize(
    ("change", "weight", "word"),
    [
        ({"problem": "log.dirs: /x: / is not writable"}, Weight.BROKEN, "/x: / is not writable"),
        ({"file_system": "tmpfs"}, Weight.BROKEN, "in memory (tmpfs)"),
        ({"file_system": "nfs4"}, Weight.RISK, "network file system"),
        ({"path": "/tmp/logbus"}, Weight.RISK, "below /tmp"),
        ({"used_ratio": 0.9}, Weight.RISK, "90% of its file system is used"),
        ({"free_inodes": 12}, Weight.RISK, "12 more files"),
    ],
)
def test_directories(change: dict[str, object], weight: Weight, word: str) -> None:
    """Each fault has a finding of its own."""
    [finding] = directory_findings([evolve(GOOD_DIRECTORY, **change)], 0.85)
    assert finding.weight is weight
    assert word in finding.what


def test_one_device() -> None:
    """Directories that fail together are named together."""
    [finding] = directory_findings([GOOD_DIRECTORY, evolve(GOOD_DIRECTORY, path="/b")], 0.85)
    assert finding.subject == "/var/lib/logbus, /b"


def test_real_machine(tmp_path: Path) -> None:
    """What this machine says can be read; a directory need not exist, and may be that of a running broker."""
    facts = machine_facts()
    assert facts.cores > 0
    new = directory_facts(str(tmp_path / "new" / "deeper"), 0)
    assert new.problem is None
    assert new.file_system is not None
    assert 0 < new.used_ratio < 1
    with Broker(data_dir=tmp_path / "data"):
        used = directory_facts(str(tmp_path / "data"), 0)
    assert used.problem is None
    other = directory_facts(str(tmp_path / "data"), 7)
    assert other.problem is not None
    assert "belongs to broker 0" in other.problem


def test_by_weight() -> None:
    """The heaviest come first, and stay in order otherwise."""
    findings = list(
        directory_findings(
            [
                evolve(GOOD_DIRECTORY, path="/tmp/a", device=1),
                evolve(GOOD_DIRECTORY, path="/tmp/b", device=2),
                evolve(GOOD_DIRECTORY, path="/c", device=3, file_system="tmpfs"),
            ],
            0.85,
        )
    )
    assert [finding.subject for finding in by_weight(findings)] == ["/c", "/tmp/a", "/tmp/b"]
