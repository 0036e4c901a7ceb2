"""pytest finds the fixtures where logbus is installed."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


def test_fixtures(pytester: pytest.Pytester) -> None:
    """A project's test gets a broker by naming it, each test its own, the session's once."""
    pytester.makepyfile(
        """
        import socket
        import pytest

        seen = []

        def connect(broker):
            host, _, port = broker.bootstrap.rpartition(":")
            socket.create_connection((host, int(port)), 20).close()

        @pytest.mark.parametrize("time", [1, 2])
        def test_own(logbus_broker, time):
            connect(logbus_broker)
            assert logbus_broker.admin_url.startswith("http://127.0.0.1:")
            assert logbus_broker.data_dir not in seen
            seen.append(logbus_broker.data_dir)

        @pytest.mark.parametrize("time", [1, 2])
        def test_shared(logbus_session_broker, time):
            connect(logbus_session_broker)
            assert len({*seen, logbus_session_broker.data_dir}) == 3

        def test_gone():
            assert not any(path.exists() for path in seen)
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=5)


def test_settings(pytester: pytest.Pytester) -> None:
    """A project's own settings are those of each broker; workers are among them."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def logbus_config():
            return {"workers": 2}

        def test_own(logbus_broker):
            assert (logbus_broker.data_dir / "workers" / "1").is_dir()

        def test_shared(logbus_session_broker):
            assert logbus_session_broker.config["workers"] == "2"
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_failing_start(pytester: pytest.Pytester) -> None:
    """A fixture that fails says why, in one line, and nothing about the test kit."""
    pytester.makepyfile(
        """
        from logbus.testing import broker

        broker.TEST_CONFIG = {"num.partitions": "many"}

        def test_one(logbus_broker):
            pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    lines = result.stdout.lines
    at = next(number for number, line in enumerate(lines) if "ERROR at setup of test_one" in line)
    said = "the broker did not start: num.partitions: 'many' is not valid; accepted: a whole number from 1 to"
    assert lines[at + 1].startswith(said)
    assert lines[at + 2].startswith("=====")


def test_cluster(pytester: pytest.Pytester) -> None:
    """A test gets three brokers by naming the cluster."""
    pytester.makepyfile(
        """
        def test_three(logbus_cluster):
            assert logbus_cluster.bootstrap.count(",") == 2
            assert logbus_cluster.controller() in logbus_cluster.brokers
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_fixtures_are_listed(pytester: pytest.Pytester) -> None:
    """``pytest --fixtures`` explains them."""
    pytester.makepyfile("")
    listed = pytester.runpytest_subprocess("--fixtures", "-p", "no:cacheprovider")
    listed.stdout.fnmatch_lines(["logbus_broker*", "*A real broker on a free port*", "logbus_session_broker*"])
    listed.stdout.fnmatch_lines(["logbus_cluster*", "*Three real brokers and a ZooKeeper*"])
