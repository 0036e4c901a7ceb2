"""
The fixtures pytest finds once logbus is installed.

Nothing of logbus is imported before a test asks for a broker: the plugin is loaded in every project's tests.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from logbus.testing.pytest_simulation import logbus_simulation, pytest_addoption

__all__ = ["logbus_simulation", "pytest_addoption"]

if TYPE_CHECKING:
    from logbus.testing.admin import Admin
    from logbus.testing.broker import Broker
    from logbus.testing.cluster import Cluster
    from logbus.testing.local_cluster import LocalCluster
    from logbus.testing.pytest_report import Witness
    from logbus.testing.pytest_settings import Marked
    from logbus.testing.settings import Setting

SERVERS = (
    "logbus_cluster",
    "logbus_zookeeper_cluster",
    "logbus_broker",
    "logbus_module_cluster",
    "logbus_module_broker",
    "logbus_session_cluster",
    "logbus_session_broker",
)
"""The fixtures that are a broker or a cluster."""

LONGEST_NAME = 249

WITNESSES: pytest.StashKey[dict[str, Witness]] = pytest.StashKey()
"""Of the brokers and clusters that run, by the name of the fixture."""


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    for line in (
        "logbus(config, **settings): settings of the test's broker or cluster, such as num_partitions=3; brokers=5",
        "logbus_topic(partitions=1, replication_factor=-1, **settings): what the topic of logbus_topic is like",
        "logbus_seeds(count, first=1): how many seeds logbus_simulation runs, and the first of them",
    ):
        config.addinivalue_line("markers", line)
    config.pluginmanager.register(InterruptedRun(config), "logbus-interrupted-run")


class InterruptedRun:
    """Tells what brokers were doing when somebody ends a test that hangs, by Ctrl-C."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_keyboard_interrupt(self) -> None:
        """Print what a failed test's report would have."""
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        for witness in self._config.stash.get(WITNESSES, {}).values():
            for title, text in witness.sections():
                if terminal is not None:
                    terminal.write_sep("-", title)
                    terminal.write_line(text)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Refuse a marker that has no effect."""
    if item.get_closest_marker("logbus") is not None or item.get_closest_marker("logbus_topic") is not None:
        from logbus.testing.pytest_settings import check_effect

        with _plainly():
            check_effect(item)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Before a test, remember where the logs of those brokers are that it may share."""
    for witness in item.config.stash.get(WITNESSES, {}).values():
        witness.begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the test's brokers logged, and what their topics hold, if it has failed."""
    report = yield
    # A fixture of ours that fails has said all in one line.
    plain = call.excinfo is not None and isinstance(call.excinfo.value, pytest.fail.Exception) and call.when == "setup"
    if report.failed and report.when != "teardown" and not plain:
        for name, witness in item.config.stash.get(WITNESSES, {}).items():
            if name in getattr(item, "fixturenames", ()) or witness.node is item:
                report.sections += witness.sections()
    return report


@pytest.fixture(scope="session")
def logbus_config() -> Mapping[str, Setting]:
    """The settings of the brokers; a project that needs others has a fixture of its own with this name."""
    return {}


# Brokers.


@pytest.fixture
def logbus_broker(request: pytest.FixtureRequest, logbus_config: Mapping[str, Setting]) -> Iterator[Broker]:
    """A real broker on a free port, with an empty data directory, for one test."""
    yield from _broker(request, logbus_config)


@pytest.fixture(scope="module")
def logbus_module_broker(request: pytest.FixtureRequest, logbus_config: Mapping[str, Setting]) -> Iterator[Broker]:
    """One broker for a module; tests that share it use topics of their own."""
    yield from _broker(request, logbus_config)


@pytest.fixture(scope="session")
def logbus_session_broker(request: pytest.FixtureRequest, logbus_config: Mapping[str, Setting]) -> Iterator[Broker]:
    """One broker for the whole session; tests that share it use topics of their own."""
    yield from _broker(request, logbus_config)


# Clusters.


@pytest.fixture
def logbus_cluster(request: pytest.FixtureRequest, logbus_config: Mapping[str, Setting]) -> Iterator[LocalCluster]:
    """Three real brokers that replicate and elect leaders, without ZooKeeper, for one test."""
    yield from _cluster(request, logbus_config)


@pytest.fixture(scope="module")
def logbus_module_cluster(
    request: pytest.FixtureRequest, logbus_config: Mapping[str, Setting]
) -> Iterator[LocalCluster]:
    """Three brokers for a module; tests that share them leave them as they found them."""
    yield from _cluster(request, logbus_config)


@pytest.fixture(scope="session")
def logbus_session_cluster(
    request: pytest.FixtureRequest, logbus_config: Mapping[str, Setting]
) -> Iterator[LocalCluster]:
    """Three brokers for the whole session; tests that share them leave them as they found them."""
    yield from _cluster(request, logbus_config)


@pytest.fixture
def logbus_zookeeper_cluster(request: pytest.FixtureRequest, logbus_config: Mapping[str, Setting]) -> Iterator[Cluster]:
    """Three brokers in processes of their own, and a ZooKeeper, for one test."""
    with _plainly():
        from logbus.testing.cluster import Cluster

        marked = _marked(request, logbus_config, "a cluster with ZooKeeper")
        with Cluster(config=marked.config, **marked.options) as cluster, _witnessed(request, cluster):
            yield cluster


# What tests do with them.


@pytest.fixture
def logbus_server(request: pytest.FixtureRequest) -> Broker | LocalCluster | Cluster:
    """The broker or cluster that the test names, where there is a choice; ``logbus_broker`` if it names none."""
    wanted = [name for name in SERVERS if name in request.fixturenames]
    server: Broker | LocalCluster | Cluster = request.getfixturevalue((wanted or ["logbus_broker"])[0])
    return server


@pytest.fixture
def logbus_admin(logbus_server: Broker | LocalCluster | Cluster) -> Admin:
    """Creates topics and the like, and waits for it: see :class:`logbus.testing.admin.Admin`."""
    return logbus_server.admin


@pytest.fixture
def logbus_topic(request: pytest.FixtureRequest, logbus_admin: Admin) -> str:
    """A new topic; its name is that of the test with a random ending.  The marker ``logbus_topic`` has its settings."""
    marker = request.node.get_closest_marker("logbus_topic")
    ending = f"-{uuid4().hex[:8]}"
    name = re.sub(r"[^a-zA-Z0-9_-]+", "-", request.node.name).strip("-")[: LONGEST_NAME - len(ending)] + ending
    with _plainly():
        if marker is not None and marker.args:
            raise pytest.fail.Exception(
                f"@pytest.mark.logbus_topic: {marker.args!r}: expected keyword arguments such as partitions=3",
                pytrace=False,
            )
        if marker is not None and "name" in marker.kwargs:
            raise pytest.fail.Exception(
                "@pytest.mark.logbus_topic: name: the fixture makes a name of the test's; "
                "logbus_admin.create_topic(name) creates a topic of another one",
                pytrace=False,
            )
        logbus_admin.create_topic(name, **(marker.kwargs if marker is not None else {}))
    return name


@pytest.fixture
def logbus_registry(logbus_server: Broker | LocalCluster | Cluster) -> str:
    """The address of the schema registry of the test's broker, for ``schema.registry.url``."""
    brokers = getattr(logbus_server, "running", None)
    return f"{brokers[0].admin_url if isinstance(brokers, list) else logbus_server.admin_url}/registry"  # type: ignore[union-attr]


def _broker(request: pytest.FixtureRequest, config: Mapping[str, Setting]) -> Iterator[Broker]:
    with _plainly():
        from logbus.testing import Broker

        marked = _marked(request, config, "a broker")
        with Broker(marked.config, **marked.options) as broker, _witnessed(request, broker):
            yield broker


def _cluster(request: pytest.FixtureRequest, config: Mapping[str, Setting]) -> Iterator[LocalCluster]:
    with _plainly():
        from logbus.testing import LocalCluster

        marked = _marked(request, config, "a cluster")
        with LocalCluster(config=marked.config, **marked.options) as cluster, _witnessed(request, cluster):
            yield cluster


def _marked(request: pytest.FixtureRequest, config: Mapping[str, Setting], what: str) -> Marked:
    """What the settings and the markers say together."""
    from logbus.testing.pytest_settings import OPTIONS, BadMarker, Marked, check_keys, marked

    try:
        common = check_keys(config)
    except TypeError as e:
        raise BadMarker(f"the fixture logbus_config: {e}") from None
    found = marked(request.node, OPTIONS[what], what)
    return Marked({**common, **found.config}, found.options)


@contextmanager
def _witnessed(request: pytest.FixtureRequest, server: Broker | LocalCluster | Cluster) -> Iterator[None]:
    """Have reports of failed tests tell of a broker or cluster, as long as it runs."""
    from logbus.testing.pytest_report import Witness

    witnesses = request.config.stash.setdefault(WITNESSES, {})
    name = request.fixturename or ""
    witnesses[name] = Witness(name, server, request.node)
    try:
        yield
    finally:
        del witnesses[name]


@contextmanager
def _plainly() -> Iterator[None]:
    """Show only the message of a failed start or stop, without a traceback through the test kit."""
    from logbus.errors import LogbusError

    try:
        yield
    except (LogbusError, OSError, ValueError, TypeError) as e:
        raise pytest.fail.Exception(str(e) or repr(e), pytrace=False) from None
