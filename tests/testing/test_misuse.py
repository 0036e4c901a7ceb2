"""Each misuse of a broker of the test kit is one clear line."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from logbus.testing import Broker, BrokerFailed, Cluster, LocalCluster
from logbus.testing.waiting import WaitTimedOut
from logbus.testing.zookeeper import ZooKeeperFailed

SECONDS = 60


@pytest.fixture
def broker() -> Iterator[Broker]:
    """One that runs."""
    with Broker() as running:
        yield running


def refused(call: Callable[[], object], words: str) -> None:
    """It fails with one line that has these words."""
    with pytest.raises(BrokerFailed) as failed:
        call()
    assert words in str(failed.value)
    assert "\n" not in str(failed.value)


def test_before_the_start_and_after_the_end() -> None:
    """There is no address before; closed twice is closed; nothing starts again."""
    broker = Broker()
    refused(lambda: broker.bootstrap, "the broker has no address before it is started")
    refused(lambda: broker.read("t"), "the broker does not run; start it first")
    broker.start()
    broker.close()
    broker.close()
    refused(broker.start, "the broker is closed, and gave up its ports and data; make another one")
    refused(broker.admin.topics, "the broker is closed")
    refused(lambda: broker.bootstrap, "the broker is closed, and has no address any more")
    cluster = LocalCluster(1)
    refused(lambda: cluster.read("t"), "the cluster was not started; start it first")
    with cluster:
        refused(cluster.start, "the cluster is already running")
    cluster.close()
    refused(cluster.start, "the cluster is closed, and gave up its ports and data; make another one")


AFTER_CLOSE: dict[str, Callable[[Broker], object]] = {
    "faults": lambda broker: broker.faults,
    "fill_disk": lambda broker: broker.fill_disk(),
    "advance": lambda broker: broker.advance(1),
    "force_rebalance": lambda broker: broker.force_rebalance("g"),
    "fence_producer": lambda broker: broker.fence_producer("t"),
    "hang_transaction": lambda broker: broker.hang_transaction("t"),
    "snapshot": lambda broker: broker.snapshot(),
    "read": lambda broker: broker.read("t"),
    "wait_readable": lambda broker: broker.wait_readable("t", 1),
    "wait_stable": lambda broker: broker.wait_stable("g"),
    "wait_no_lag": lambda broker: broker.wait_no_lag("g"),
    "wait_logged": lambda broker: broker.wait_logged("no such words"),
    "admin": lambda broker: broker.admin.create_topic("t"),
    "bootstrap": lambda broker: broker.bootstrap,
    "admin_url": lambda broker: broker.admin_url,
    "kafka_port": lambda broker: broker.kafka_port,
    "pid": lambda broker: broker.pid,
    "freeze": lambda broker: broker.freeze(),
    "thaw": lambda broker: broker.thaw(),
    "launch": lambda broker: broker.launch(),
    "wait_ready": lambda broker: broker.wait_ready(),
    "restart": lambda broker: broker.restart(),
    "a with block": lambda broker: broker.__enter__(),
}
"""What a test may ask of a broker, but not of one that is closed."""


@pytest.mark.parametrize("in_process", [True, False])
def test_after_the_close(in_process: bool) -> None:
    """Each method says that the broker is closed; what was recorded can be read, and what only ends something goes."""
    broker = Broker(in_process=in_process).start()
    admin, faults, requests = broker.admin, broker.faults, broker.requests
    failing, full = faults.fail("Produce", error="NOT_ENOUGH_REPLICAS"), broker.fill_disk()
    admin.topics()
    broker.close()
    for name, call in AFTER_CLOSE.items():
        try:
            refused(partial(call, broker), "the broker is closed")
        except BaseException as e:
            e.add_note(f"at {name}")
            raise
    refused(lambda: faults.drop("Fetch"), "faults: the broker is closed")
    refused(failing.wait, "wait: the fault has happened to 0, not 1 requests: the broker is closed")
    refused(lambda: requests.wait("Fetch"), "requests: wait for 1 Fetch, there are 0: the broker is closed")
    refused(lambda: requests.mark("here"), "requests: mark: the broker is closed")
    refused(admin.topics, "the broker is closed")
    assert (requests.find("Fetch"), faults.active, failing.hits) == ([], [], 0)
    assert broker.output
    assert "closed" in repr(broker)
    for ending in (failing.remove, full.free, faults.clear, requests.clear, broker.stop, broker.kill, broker.close):
        ending()


OF_A_BROKER: dict[str, Callable[[LocalCluster], object]] = {
    "expire_session": lambda cluster: cluster.brokers[0].expire_session(),
    "cut_off": lambda cluster: cluster.brokers[0].cut_off(),
    "advance": lambda cluster: cluster.brokers[0].advance(1),
}
OF_A_CLUSTER: dict[str, Callable[[LocalCluster], object]] = {
    "bootstrap": lambda cluster: cluster.bootstrap,
    "tree": lambda cluster: cluster.tree,
    "state": lambda cluster: cluster.state("t"),
    "leader": lambda cluster: cluster.leader("t"),
    "followers": lambda cluster: cluster.followers("t"),
    "move_leader": lambda cluster: cluster.move_leader("t"),
    "controller": lambda cluster: cluster.controller(),
    "epoch": lambda cluster: cluster.brokers[0].epoch,
    "wait_in_sync": lambda cluster: cluster.wait_in_sync("t"),
    "wait_gone": lambda cluster: cluster.wait_gone(cluster.brokers[0]),
    "wait_back": lambda cluster: cluster.wait_back(cluster.brokers[0]),
    "wait_known": lambda cluster: cluster.wait_known(),
    "reset": lambda cluster: cluster.reset(),
    "snapshot": lambda cluster: cluster.snapshot(),
    "read": lambda cluster: cluster.read("t"),
    "admin": lambda cluster: cluster.admin.topics(),
}


def test_after_the_close_of_a_cluster() -> None:
    """A cluster that was not started, and one that is closed, say so, whatever they are asked."""
    cluster = LocalCluster(1)
    for call in OF_A_CLUSTER.values():
        refused(partial(call, cluster), "the cluster was not started; start it first")
    for name, call in OF_A_BROKER.items():
        refused(partial(call, cluster), f"{name}: the broker does not run")
    refused(cluster.brokers[0].start, "the cluster was not started; start it first")
    cluster.close()
    for call in (*OF_A_CLUSTER.values(), *OF_A_BROKER.values()):
        refused(partial(call, cluster), " is closed, and gave up its ports and data")
    cluster.brokers[0].reconnect()
    cluster.close()


def test_after_the_close_of_a_zookeeper() -> None:
    """Neither it nor its cluster starts again, or half of it; nothing is left of one that never started."""
    cluster = Cluster(1)
    home = cluster.brokers[0].data_dir.parent
    refused(cluster.brokers[0].expire_session, "expire_session: the broker does not run")
    with pytest.raises(ValueError, match="'zookeper' is neither another broker of the cluster nor 'zookeeper'"):
        cluster.brokers[0].cut_off("zookeper")
    program = os.fork()
    if not program:
        cluster.close()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]) == 7
    assert home.exists()
    cluster.close()
    cluster.close()
    assert not home.exists()
    refused(cluster.start, "start: the cluster is closed")
    refused(lambda: cluster.bootstrap, "the cluster is closed")
    refused(cluster.brokers[0].cut_off, "cut_off: the broker is closed")
    for call in (cluster.zookeeper.start, cluster.zookeeper.freeze, lambda: cluster.zookeeper.expire(1, b"")):
        with pytest.raises(ZooKeeperFailed, match="ZooKeeper is closed, and gave up its ports"):
            call()
    with pytest.raises(ZooKeeperFailed, match="there is no server 1; they are 0 to 0"):
        cluster.zookeeper.kill(1)


def test_nested(broker: Broker) -> None:
    """A second block of the same broker is refused, and does not close the first one's."""
    refused(broker.__enter__, "a with block of it cannot be nested in another")
    assert broker.running
    assert broker.admin.topics() == []


def test_in_another_thread(broker: Broker) -> None:
    """Any thread may use it, but the broker's own, where a call could not end."""
    found: list[list[str]] = []
    thread = threading.Thread(target=lambda: (broker.admin.create_topic("t"), found.append(broker.admin.topics())))
    thread.start()
    thread.join(SECONDS)
    assert found == [["t"]]


def test_forked(broker: Broker) -> None:
    """A forked process cannot stop, close or remove what is its parent's, nor does it by ending."""
    program = os.fork()
    if not program:
        status = 1
        try:
            refused(broker.stop, f"the broker is of process {os.getppid()}, which forked this one")
            refused(lambda: broker.read("t"), "here, only connect to it")
            refused(lambda: broker.faults, "here, only connect to it")
            refused(lambda: broker.advance(1), "here, only connect to it")
            broker.close()
            broker._at_exit()
            status = 7
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]) == 7
    assert broker.data_dir.exists()
    assert broker.admin.topics() == []


def test_no_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there can be none, the place and the reason are named."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    refused(Broker, f"no temporary directory in {tmp_path}/missing: No such file or directory; set TMPDIR")
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    refused(LocalCluster, "no temporary directory in /proc: ")


def test_full_disk(tmp_path: Path) -> None:
    """A disk without room is named, with its directory."""
    if os.getuid():
        pytest.skip("mounts a small file system")
    small = tmp_path / "small"
    small.mkdir()
    program = (
        "import ctypes, os, sys, tempfile\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "os.unshare(0x20000) if hasattr(os, 'unshare') else libc.unshare(0x20000)\n"
        f"made = libc.mount(b'none', {str(small).encode()!r}, b'tmpfs', 0, b'size=40k')\n"
        "if made: sys.exit(3)\n"
        f"tempfile.tempdir = {str(small)!r}\n"
        f"open({str(small / 'filler')!r}, 'wb').write(bytes(20000))\n"
        "from logbus.testing import Broker, BrokerFailed\n"
        "try:\n"
        "    with Broker() as broker: pass\n"
        "except BrokerFailed as e:\n"
        "    print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode == 3 or "PermissionError" in done.stderr:
        pytest.skip("may not mount here")
    [line] = done.stdout.splitlines()
    assert str(small) in line
    assert "No space left" in line or "full" in line
    assert done.stderr == ""


@pytest.mark.parametrize("in_process", [True, False])
def test_read_only_data(tmp_path: Path, in_process: bool) -> None:
    """A data directory that cannot be written is one line."""
    refused(
        lambda: Broker(data_dir="/proc/logbus-data", in_process=in_process).start(),
        "the broker did not start: ",
    )


def test_port_that_is_taken(broker: Broker) -> None:
    """A port that was taken while a broker was stopped is named."""
    import socket

    port = int(broker.bootstrap.rpartition(":")[2])
    broker.stop()
    with socket.socket() as taking:
        taking.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taking.bind(("127.0.0.1", port))
        taking.listen()
        refused(broker.start, f"{port}")
    broker.start()


def test_time_is_up_while_it_imports(tmp_path: Path) -> None:
    """A start without time for its imports: one line, and nothing about Deferreds."""
    program = (
        "from logbus.testing import Broker, BrokerFailed\n"
        "try:\n"
        "    Broker(timeout=0.05).start()\n"
        "except BrokerFailed as e:\n"
        "    print(e)\n"
        "import gc; gc.collect()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    [line] = done.stdout.splitlines()
    assert line.startswith("the broker was not ready after 0.05 s")
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A temporary directory that is almost full is told at once; a broker would wait for room."""
    usage = shutil.disk_usage(tempfile.gettempdir())
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=40_000))
    refused(Broker, "has room for 39 KiB, too little for a broker: set TMPDIR")
    refused(lambda: LocalCluster(1), "has room for 39 KiB")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"users": "bob"}, "users is 'bob'; it is a dict of passwords by name, such as {'bob': 'secret'}"),
        ({"users": {"bob": None}}, "users: the password of bob is None; it is a text"),
        ({"timeout": "1m"}, "timeout is '1m'; it is a number of seconds, more than 0"),
        ({"timeout": 0}, "timeout is 0; it is a number of seconds, more than 0"),
        ({"data_dir": 3}, "data_dir is 3; it is a path, or None"),
        ({"as_version": 3.9}, "as_version is 3.9; it is a text such as '3.9', or None"),
        ({"in_process": "no"}, "in_process is 'no'; it can be True or False"),
        ({"controlled": None}, "controlled is None; it can be True or False"),
        ({"placement": "x"}, "placement: 'x' is none: expected Placement(...), of logbus.testing.placement"),
        ({"config": {"listeners": "A://:1"}}, "config: listeners is not for a broker of tests"),
        ({"num_partitions": 3}, "settings are a dict: Broker(config={'num.partitions': 3})"),
        ({"user": {}}, "a Broker has no option user; did you mean users?"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], words: str) -> None:
    """Nothing is made of them."""
    with pytest.raises((TypeError, ValueError)) as refusal:
        Broker(**options)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"brokers": -1}, "brokers is -1; it is an integer from 1 to 100"),
        ({"zookeepers": "3"}, "zookeepers is '3'; it is an integer from 1 to 9"),
        ({"zookeepers": 2}, "zookeepers is 2; it is an odd number from 1 to 9: 2 survive no more losses than 1"),
        ({"brokers": 1, "racks": "a"}, "racks is 'a'; it is a list with the rack of each broker"),
    ],
)
def test_wrong_clusters(options: dict[str, Any], words: str) -> None:
    """The same of clusters of processes."""
    with pytest.raises(ValueError, match=re.escape(words)):
        Cluster(**options)


def test_what_a_cluster_does_not_have() -> None:
    """A topic that does not exist is waited for only for some seconds; what only brokers have is said to be theirs."""
    with LocalCluster(1) as cluster:
        cluster.admin.create_topic("t", 1)
        cluster.timeout = 1.0
        for call, words in (
            (lambda: cluster.leader("topic"), "there is no topic 'topic'"),
            (lambda: cluster.move_leader("topic"), "there is no topic 'topic'"),
            (lambda: cluster.followers("t", 7), "there is no partition 7 of topic 't', which has 1"),
        ):
            with pytest.raises(WaitTimedOut, match=re.escape(words)):
                call()
        with pytest.raises(ValueError, match="partition is -1; it is an integer from 0 to"):
            cluster.leader("t", -1)
        with pytest.raises(AttributeError, match=r"faults is of each broker: cluster\.brokers\[0\], cluster\.l"):
            cluster.faults  # type: ignore[attr-defined]  # noqa: B018
        with pytest.raises(AttributeError, match="'LocalCluster' object has no attribute 'nothing'"):
            cluster.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_loop_that_stands_still(broker: Broker) -> None:
    """A wait that times out in a coroutine tells that nothing else could go on meanwhile."""

    async def waiting() -> None:
        broker.wait_readable("t", 1, timeout=0.1)

    with pytest.raises(WaitTimedOut, match=r"event loop of this thread stood still meanwhile: await asyncio\.to_"):
        asyncio.run(waiting())


def test_wrong_questions(broker: Broker) -> None:
    """What a test asks for is checked before it is sent."""
    for call, words in (
        (lambda: broker.read(3), "topic is 3"),  # type: ignore[arg-type]
        (lambda: broker.wait_readable("t", -3), "count is -3"),
        (lambda: broker.fence_producer(3), "transactional_id is 3"),  # type: ignore[arg-type]
        (lambda: broker.force_rebalance(""), "group_id is ''"),
        (lambda: broker.read("t", timeout="5"), "timeout is '5'; it is a number of seconds"),  # type: ignore[arg-type]
        (lambda: broker.wait_stable(None), "group is None"),  # type: ignore[arg-type]
        (lambda: broker.wait_stable("g", members=0), "members is 0"),
        (lambda: broker.wait_no_lag(3), "group is 3"),  # type: ignore[arg-type]
        (lambda: broker.wait_logged(3), "words is 3"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=words):
            call()


@pytest.mark.parametrize("kind", [LocalCluster, Cluster])
def test_settings_of_a_cluster_are_a_dict(kind: type[Any]) -> None:
    """Who gives one as the marker has it is told where it goes."""
    with pytest.raises(TypeError, match=rf"settings are a dict: {kind.__name__}\(config="):
        kind(num_partitions=3)


def test_no_worker() -> None:
    """The broker says that there cannot be so few."""
    broker = Broker({"workers": 0})
    refused(broker.start, "workers: '0' is not valid; accepted: auto, or a whole number from 1 to 1024")
    broker.close()
