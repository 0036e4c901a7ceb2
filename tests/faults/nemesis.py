"""
Injects faults into a test cluster.

Each fault is a context: it begins, its effect is made sure of, and at the end it is mended; what was hit is waited for.
A fault that has no effect fails, since nothing would have been tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from logbus.testing.cluster import Cluster, ClusterBroker


class Nemesis:
    """
    :ivar injected: faults that had their effect, by kind.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.injected: Counter[str] = Counter()

    @contextmanager
    def killed(self, broker: ClusterBroker) -> Iterator[None]:
        """A broker's process ends, as by a crash; it is started again at the end."""
        pid, epoch = broker.pid, broker.epoch
        broker.kill()
        assert not Path(f"/proc/{pid}").exists(), f"process {pid} is still there"
        self.cluster.wait_gone(broker)
        self.injected["killed"] += 1
        try:
            yield
        finally:
            broker.start()
        self.cluster.wait_back(broker, after=epoch)

    def lost_synced(self, broker: ClusterBroker, topic: str) -> None:
        """
        A broker's process ends, its disk loses a third of each active segment of a topic, synced or not, and it is
        started again at once, within its session.
        """
        epoch = broker.epoch
        broker.kill()
        lost = 0
        for directory in broker.data_dir.glob(f"{topic}-*"):
            segment = max(directory.glob("*.log"))
            size = segment.stat().st_size
            lost += size - size * 2 // 3
            with segment.open("r+b") as file:
                file.truncate(size * 2 // 3)
        broker.start()
        self.cluster.wait_back(broker, after=epoch)
        assert lost, "nothing was lost"
        self.injected["lost what it had synced"] += 1

    @contextmanager
    def frozen(self, broker: ClusterBroker) -> Iterator[None]:
        """A broker does nothing until its session has expired; then it goes on as if nothing had been."""
        pid, epoch = broker.pid, broker.epoch
        broker.freeze()
        try:
            assert is_stopped(pid), f"process {pid} runs on"
            self.cluster.wait_gone(broker)
            self.injected["frozen"] += 1
            yield
        finally:
            broker.thaw()
        assert not is_stopped(pid)
        self.cluster.wait_back(broker, after=epoch)
        assert broker.pid == pid

    @contextmanager
    def cut_from_zookeeper(self, broker: ClusterBroker) -> Iterator[None]:
        """A broker and ZooKeeper cannot reach each other; others still reach it."""
        epoch = broker.epoch
        with self._cut(broker, "both", "zookeeper"):
            self.cluster.wait_gone(broker)
            self.injected["cut off from ZooKeeper"] += 1
            yield
        self.cluster.wait_back(broker, after=epoch)

    @contextmanager
    def cut_from_brokers(self, broker: ClusterBroker, way: str = "both") -> Iterator[None]:
        """
        A broker and the others cannot reach each other (or, one way, it is not heard, or hears nothing).

        It keeps its session; whoever enters this sees to it that replication comes to a halt.
        """
        others = [other for other in self.cluster.brokers if other is not broker]
        epoch = broker.epoch
        with self._cut(broker, way, *others):
            assert broker.epoch == epoch
            self.injected["cut off from the brokers" if way == "both" else f"cut off one way ({way})"] += 1
            yield

    @contextmanager
    def isolated(self, broker: ClusterBroker) -> Iterator[None]:
        """A broker reaches nobody; clients still reach it."""
        epoch = broker.epoch
        with self._cut(broker, "both"):
            self.cluster.wait_gone(broker)
            self.injected["isolated"] += 1
            yield
        self.cluster.wait_back(broker, after=epoch)

    def expire(self, broker: ClusterBroker) -> None:
        """ZooKeeper gives a broker's session up; it makes another one at once."""
        epoch, pid = broker.epoch, broker.pid
        broker.expire_session()
        self.cluster.wait_back(broker, after=epoch)
        assert broker.pid == pid
        self.injected["session expired"] += 1

    def bounce(self, broker: ClusterBroker) -> None:
        """A broker stops in order and starts again."""
        epoch = broker.epoch
        broker.restart()
        self.cluster.wait_back(broker, after=epoch)
        self.injected["restarted"] += 1

    @contextmanager
    def _cut(self, broker: ClusterBroker, way: str, *others: ClusterBroker | str) -> Iterator[None]:
        before = self.cluster.network.ways()
        broker.cut_off(*others, way=way)
        assert self.cluster.network.ways() - before, "nothing was cut"
        try:
            yield
        finally:
            broker.reconnect()


def is_stopped(pid: int) -> bool:
    """Whether a process is frozen, as the system has it."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def outside_isr(cluster: Cluster, broker: ClusterBroker, topic: str, partition: int = 0) -> None:
    """Wait until a broker is not in sync."""

    def look() -> bool:
        state = cluster.state(topic, partition)
        return state is not None and broker.id not in state.isr

    cluster.tree.wait_for(look, f"broker {broker.id} out of the in-sync replicas of {topic}-{partition}")
