"""pytest finds the fixtures where logbus is installed."""

from __future__ import annotations

import threading

import pytest

# A run in this process forgets what it imports, and would import it all anew.
import logbus.broker
import logbus.client.admin.admin_client
import logbus.testing.local_cluster
import logbus.testing.pytest_report

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
    pytester.runpytest_inprocess("-p", "no:twisted", "-p", "no:cacheprovider").assert_outcomes(passed=5)


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
    pytester.runpytest_inprocess("-p", "no:twisted", "-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_failing_start(pytester: pytest.Pytester) -> None:
    """A fixture that fails says why, in one line, and nothing about the test kit."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.logbus(log_dirs="/proc/nowhere")
        def test_one(logbus_broker):
            pass
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:twisted", "-p", "no:cacheprovider")
    result.assert_outcomes(errors=1)
    lines = result.stdout.lines
    at = next(number for number, line in enumerate(lines) if "ERROR at setup of test_one" in line)
    said = "the broker did not start: "
    assert lines[at + 1].startswith(said)
    assert "/proc/nowhere" in lines[at + 1]
    assert lines[at + 2].startswith("=====")


def test_one_run(pytester: pytest.Pytester) -> None:
    """Clusters, scopes, markers, topics, the admin client and the registry, each as a test would use it."""
    pytester.makepyfile(
        """
        from datetime import timedelta
        from urllib.request import urlopen

        import pytest

        pytestmark = pytest.mark.logbus(num_partitions=2)
        seen = []

        def test_three(logbus_cluster):
            assert logbus_cluster.bootstrap.count(",") == 2
            assert logbus_cluster.controller() in logbus_cluster.brokers

        @pytest.mark.logbus({"log.retention.hours": timedelta(days=1)}, num_partitions=5, brokers=2)
        def test_marked_cluster(logbus_cluster, logbus_topic, logbus_admin):
            assert len(logbus_cluster.brokers) == 2
            assert logbus_admin.partitions(logbus_topic) == 5
            assert logbus_cluster.brokers[0].config["log.retention.hours"] == "24"

        @pytest.mark.logbus(users={"alice": "x"})
        @pytest.mark.logbus_topic(partitions=3, cleanup_policy="compact")
        def test_marked_broker(logbus_broker, logbus_topic, logbus_admin):
            assert logbus_topic.startswith("test_marked_broker-")
            assert logbus_admin.partitions(logbus_topic) == 3
            assert logbus_admin.topic_settings(logbus_topic)["cleanup.policy"] == "compact"
            assert logbus_broker.config["num.partitions"] == "2"

        OLD, NEW = pytest.mark.logbus(as_version="2.1"), pytest.mark.logbus(as_version="4.3", num_partitions=4)

        @pytest.mark.parametrize("count", [pytest.param(2, marks=OLD), pytest.param(4, marks=NEW)])
        def test_releases(logbus_broker, logbus_topic, logbus_admin, count):
            assert logbus_broker.as_version == {2: "2.1", 4: "4.3"}[count]
            assert logbus_admin.partitions(logbus_topic) == count

        @pytest.mark.parametrize("kind", ["a/b", "x"])
        def test_shared(logbus_module_broker, logbus_topic, logbus_admin, kind):
            seen.append(logbus_topic)
            assert set(seen) <= set(logbus_admin.topics())
            assert logbus_module_broker.config["num.partitions"] == "2"

        def test_registry(logbus_registry):
            assert urlopen(f"{logbus_registry}/subjects", timeout=300).read() == b"[]"

        def test_shared_cluster(logbus_session_cluster, logbus_topic):
            assert logbus_session_cluster.read(logbus_topic) == []
            assert len(logbus_session_cluster.running) == 3
        """
    )
    pytester.runpytest_inprocess("-p", "no:twisted", "-p", "no:cacheprovider", "--strict-markers").assert_outcomes(
        passed=9
    )


def test_misuse(pytester: pytest.Pytester) -> None:
    """Each wrong name and value is one line, which says what would be right."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.logbus(num_partitoins=3)
        def test_name(logbus_broker): pass

        @pytest.mark.logbus({"num.partitions": "many"})
        def test_value(logbus_broker): pass

        @pytest.mark.logbus(num_partitions=object)
        def test_type(logbus_broker): pass

        @pytest.mark.logbus({"num.partitions": 1}, num_partitions=3)
        def test_twice(logbus_broker): pass

        @pytest.mark.logbus("num.partitions", 3)
        def test_no_dict(logbus_broker): pass

        @pytest.mark.logbus(brokers=3)
        def test_option(logbus_broker): pass

        @pytest.mark.logbus(num_partitions=3)
        def test_no_effect(logbus_module_broker): pass

        @pytest.mark.logbus_topic(clean_policy="compact")
        def test_topic(logbus_topic): pass

        @pytest.mark.logbus_topic(name="orders")
        def test_topic_name(logbus_topic):
            raise AssertionError

        @pytest.mark.logbus_topic(3)
        def test_topic_argument(logbus_topic): pass

        @pytest.mark.logbus(num_partitions=3)
        def test_no_broker(tmp_path): pass

        @pytest.mark.logbus_topic(partitions=3)
        def test_no_topic(logbus_broker): pass

        @pytest.mark.logbus(zookeepers=2)
        def test_even(logbus_zookeeper_cluster): pass

        @pytest.mark.logbus(as_version="3.6")
        def test_release(logbus_cluster): pass

        @pytest.mark.logbus(num_partitions=3)
        class TestClass:
            def test_no_broker_either(self): pass

        @pytest.fixture
        def anything(request): pass

        @pytest.mark.logbus(num_partitions=3)
        def test_fixture_that_may_ask(anything): pass
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:twisted", "-p", "no:cacheprovider", "-rN")
    result.assert_outcomes(errors=14, passed=2)
    lines = result.stdout.lines
    said = {line.split()[-2]: lines[at + 1 : at + 3] for at, line in enumerate(lines) if "ERROR at setup of" in line}
    for name, words in {
        "test_name": "@pytest.mark.logbus: num.partitoins is not a broker configuration key; did you mean num.par",
        "test_value": "@pytest.mark.logbus: num.partitions: 'many' is not valid; accepted: a whole number from 1",
        "test_type": "@pytest.mark.logbus: config: num.partitions: <class 'object'> is not a text, a number,",
        "test_twice": "@pytest.mark.logbus: num.partitions is set twice",
        "test_no_dict": "@pytest.mark.logbus: ('num.partitions', 3): expected one dict such as",
        "test_option": "@pytest.mark.logbus: brokers is not for a broker, which takes users, in_process,",
        "test_no_effect": "@pytest.mark.logbus has no effect on logbus_module_broker, which other tests share; mark",
        "test_topic": "clean.policy is not a topic configuration key; did you mean cleanup.policy",
        "test_topic_argument": "@pytest.mark.logbus_topic: (3,): expected keyword arguments such as partitions=3",
        "test_no_broker": "@pytest.mark.logbus has no effect on a test without a fixture such as logbus_broker",
        "test_topic_name": "@pytest.mark.logbus_topic: name: the fixture makes a name of the test's",
        "test_no_topic": "@pytest.mark.logbus_topic has no effect on a test without the fixture logbus_topic",
        "test_release": "'3.6' is not a Kafka release whose API table is known; known: 2.1,",
        "test_even": "zookeepers is 2; it is an odd number from 1 to 9",
    }.items():
        assert words in said[name][0], said[name]
        assert said[name][1].startswith("__") or said[name][1].startswith("=="), said[name]


def test_report_of_a_failure(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the broker's log since the test began, and the records; nothing of the kit's own code."""
    monkeypatch.setattr(logbus.testing.pytest_report, "READ_SECONDS", 300.0)
    pytester.makepyfile(
        """
        from confluent_kafka import Producer

        def put(broker, topic, *values):
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            for value in values:
                producer.produce(topic, value)
            assert producer.flush(300) == 0

        def test_before(logbus_module_broker):
            put(logbus_module_broker, "early", *map(str, range(25)))

        def test_shared(logbus_module_broker):
            put(logbus_module_broker, "late", "x" * 1000)
            logbus_module_broker.assert_records("late", ["1"])
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:twisted", "-p", "no:cacheprovider", "--tb=short")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: late: 1 record (+), 1 expected (-)",
            "E   - value=b'1'",
            "*logbus_module_broker: log ---*",
            "*topic late was created*",
            "*logbus_module_broker: requests ---*",
            "*: rdkafka#* Produce late-0: ok in * ms",
            "*logbus_module_broker: topics ---*",
            "early: 25 offsets, the last 20 records",
            "  0:5 value=b'5'",
            "late: 1 offsets",
            "  0:0 value=b'xxx*... (1003 characters)",
        ]
    )
    shown = result.stdout.str()
    assert "topic early was created" not in shown
    assert "early-0" not in shown
    assert "logbus/testing" not in shown


def test_report_of_a_broker_that_hangs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says where the broker's thread is, instead of what the topics hold."""
    stacks, looked = logbus.testing.pytest_report._stacks, threading.Event()

    def look() -> str:
        try:
            return stacks()
        finally:
            looked.set()

    monkeypatch.setattr(logbus.testing.pytest_report, "READ_SECONDS", 0.1)
    monkeypatch.setattr(logbus.testing.pytest_report, "_stacks", look)
    monkeypatch.setattr(logbus.testing.pytest_report, "looked", looked, raising=False)
    pytester.makepyfile(
        """
        from logbus.testing import pytest_report

        def test_hanging_broker(logbus_broker):
            logbus_broker._runner.thread.call(pytest_report.looked.wait)
            raise SystemExit("stuck")
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:twisted", "-p", "no:cacheprovider", "--tb=short")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*not readable: not done within 0.1 s; the brokers' threads are in:)", "logbus-test-broker:"]
    )


def test_interrupted_run(pytester: pytest.Pytester) -> None:
    """When a test that hangs is ended by Ctrl-C, one sees what the broker was doing."""
    pytester.makepyfile(
        """
        import os, signal, time

        def test_hangs(logbus_broker, logbus_topic):
            # A shell has what it runs in the background ignore the signal.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["-* logbus_broker: log -*", "*topic test_hangs-* was created*", "test_hangs-*: empty"])


def test_workers_of_xdist(pytester: pytest.Pytester) -> None:
    """Processes of pytest-xdist have brokers, ports and topics of their own."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_one(logbus_session_broker, logbus_topic, number):
            assert logbus_session_broker.read(logbus_topic) == []
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-n2").assert_outcomes(passed=4)


def test_plugin_is_cheap(pytester: pytest.Pytester) -> None:
    """A project whose tests have no broker imports nothing of it."""
    pytester.makepyfile(
        """
        import sys

        def test_one():
            assert not [name for name in sys.modules if name.startswith(("logbus.testing.broker", "logbus.net"))]
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_fixtures_are_listed(pytester: pytest.Pytester) -> None:
    """``pytest --fixtures`` explains them."""
    pytester.makepyfile("")
    listed = pytester.runpytest_inprocess("-p", "no:twisted", "--fixtures", "-p", "no:cacheprovider")
    listed.stdout.fnmatch_lines(["logbus_broker*", "*A real broker on a free port*"])
    listed.stdout.fnmatch_lines(["logbus_session_broker*"])
    listed.stdout.fnmatch_lines(["logbus_cluster*", "*Three real brokers that replicate*"])
