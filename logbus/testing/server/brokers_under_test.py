"""The broker or the cluster of a test server, as its control interface sees it. All methods block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from logbus.errors import LogbusError
from logbus.testing.broker import Broker
from logbus.testing.disk_filling import FullDisk
from logbus.testing.placement import LOOPBACK
from logbus.testing.server.options import ServerOptions
from logbus.testing.snapshots import ClusterSnapshot, Snapshot
from logbus.testing.temporary import empty_directory

if TYPE_CHECKING:
    from logbus.testing.cluster import Cluster
    from logbus.testing.local_cluster import LocalCluster

OPEN = {"admin.authentication": "optional"}
"""Whoever has a test broker listen on other addresses wants others to reach it, and not to log in."""
RUNNING, STOPPED, FROZEN = "running", "stopped", "frozen"


class NotPossible(LogbusError):
    """The brokers are in a state, or of a kind, in which this cannot be done."""


class NoSuchThing(LogbusError):
    """There is no broker, or no snapshot, of this number."""


@define(eq=False)
class BrokersUnderTest:
    """
    :ivar cluster: None: there is a single broker.
    """

    options: ServerOptions
    cluster: Cluster | LocalCluster | None = field(default=None, init=False)
    _brokers: list[Broker] = field(factory=list, init=False)
    _frozen: set[int] = field(factory=set, init=False)
    _snapshots: dict[int, Snapshot | ClusterSnapshot] = field(factory=dict, init=False)
    _taken: int = field(default=0, init=False)
    _full: dict[int, FullDisk] = field(factory=dict, init=False)

    # The whole server.

    def open(self) -> None:
        """
        Make the brokers, and start them.

        :raise LogbusError: they did not start.
        """
        options = self.options
        if options.brokers == 1:
            self._brokers = [
                Broker(
                    {**(OPEN if options.placement.host != LOOPBACK else {}), **options.config},
                    in_process=not options.own_process,
                    as_version=options.as_version,
                    placement=options.placement,
                    timeout=options.timeout,
                ),
            ]
            self._brokers[0].start()
            return
        if options.own_process:
            from logbus.testing.cluster import Cluster as ClusterOfProcesses

            self.cluster = ClusterOfProcesses(
                options.brokers, options.config, as_version=options.as_version, timeout=options.timeout
            )
        else:
            from logbus.testing.local_cluster import LocalCluster

            self.cluster = LocalCluster(
                options.brokers, options.config, as_version=options.as_version, timeout=options.timeout
            )
        self._brokers = [*self.cluster.brokers]
        self.cluster.start()

    def close(self) -> None:
        """End all, and remove their data."""
        for snapshot in self._snapshots.values():
            snapshot.close()
        self.thaw_all()
        if self.cluster is not None:
            self.cluster.close()
        else:
            for broker in self._brokers:
                broker.close()

    def start_all(self) -> None:
        """Start those that do not run."""
        self._start(broker for broker in self._brokers if not broker.running)

    def stop_all(self) -> None:
        """Stop those that run, in order."""
        self.thaw_all()
        for broker in self._brokers:
            broker.stop()

    def thaw_all(self) -> None:
        """End all freezes."""
        for number in list(self._frozen):
            self._frozen.discard(number)
            if self._brokers[number].running:
                self._brokers[number].thaw()

    def reset(self) -> None:
        """
        Have all brokers run, on the same addresses, with no topics, groups, transactions, changed settings, faults or
        recorded requests.
        """
        self._frozen.clear()
        for number in list(self._full):
            self.free_disk(number)
        for broker in self._brokers:
            broker.faults.clear()
            broker.requests.clear()
        if self.cluster is not None:
            self.cluster.reset()
            return
        for broker in self._brokers:
            if broker.running and self.options.own_process:
                broker.kill()
            broker.stop()
            empty_directory(broker.data_dir)
        self._start(self._brokers)

    # One broker.

    def start(self, number: int) -> None:
        """Start a broker that does not run."""
        broker = self.of(number)
        if broker.running:
            raise NotPossible(f"broker {number} runs already")
        broker.start()

    def stop(self, number: int) -> None:
        """Stop a broker in order."""
        self._running(number)
        self.thaw(number)
        self.of(number).stop()

    def restart(self, number: int) -> None:
        """Stop a broker in order, if it runs, and start it."""
        self.thaw(number)
        self.of(number).restart()

    def kill(self, number: int) -> None:
        """End a broker as a crash does."""
        broker = self._running(number) if self.cluster is not None else self._apart(number, "killed")
        broker.kill()
        self._frozen.discard(number)

    def freeze(self, number: int) -> None:
        """Have a broker do nothing, with its connections open."""
        self._apart(number, "frozen").freeze()
        self._frozen.add(number)

    def thaw(self, number: int) -> None:
        """End a freeze, if there is one."""
        broker = self.of(number)
        if number in self._frozen:
            self._frozen.discard(number)
            broker.thaw()

    def advertise(self, host: str, port: int) -> None:
        """Have a single broker tell its clients another address; it is started again."""
        if self.cluster is not None:
            raise NotPossible("only a single broker can be told its address")
        broker = self._brokers[0]
        broker.placement = evolve(broker.placement, advertised=(host, port))
        self.restart(0)

    def reached(self, host: str, port: int) -> tuple[str, int]:
        """Where this process reaches a broker that tells its clients an address, which may be one outside."""
        for broker in self._brokers:
            if (host, port) == broker.placement.advertised:
                local = "127.0.0.1" if broker.placement.host == "0.0.0.0" else broker.placement.host
                return local, broker.kafka_port
        return host, port

    # What they hold, and what is around them.

    def snapshot(self) -> int:
        """Keep what the broker or the cluster holds: the number of the snapshot."""
        made = self._kept().snapshot()
        self._taken += 1
        self._snapshots[self._taken] = made
        return self._taken

    def restore(self, number: int) -> None:
        """Have the broker or the cluster hold what a snapshot has."""
        server: Any = self._kept()
        server.restore(self._snapshot_of(number))

    def forget(self, number: int) -> None:
        """Remove a snapshot."""
        self._snapshot_of(number).close()
        del self._snapshots[number]

    def advance(self, seconds: float) -> None:
        """Let time pass for all brokers; those of a cluster share their clocks."""
        running = [broker for broker in self._brokers if broker.running]
        if not running:
            raise NotPossible("no broker runs")
        for broker in running[:1] if running[0].in_process else running:
            broker.advance(seconds)

    def fill_disk(self, number: int) -> None:
        """Have a broker's disk refuse every write."""
        broker = self.of(number)
        if number not in self._full:
            self._full[number] = broker.fill_disk()

    def free_disk(self, number: int) -> None:
        """End a :meth:`fill_disk`, if there is one."""
        self.of(number)
        full = self._full.pop(number, None)
        if full is not None:
            full.free()

    # What is told.

    def addresses(self) -> dict[str, Any]:
        """The addresses, as the port file has them."""
        started = [broker for broker in self._brokers if broker.started]
        first = started[0].admin_url
        return {
            "bootstrap": ",".join(broker.bootstrap for broker in started),
            "admin_url": first,
            "registry_url": f"{first}/registry",
            "brokers": self.described(),
        }

    def described(self) -> list[dict[str, Any]]:
        """The brokers, by their ids."""
        return [
            {
                "id": number,
                "bootstrap": broker.bootstrap if broker.started else None,
                "port": broker.kafka_port,
                "admin_url": broker.admin_url if broker.started else None,
                "state": FROZEN if number in self._frozen else RUNNING if broker.running else STOPPED,
            }
            for number, broker in enumerate(self._brokers)
        ]

    def numbered(self) -> dict[int, Broker]:
        """The brokers by their numbers."""
        return dict(enumerate(self._brokers))

    @property
    def bootstrap(self) -> str:
        """
        The addresses of all that run, for Kafka clients.

        :raise NotPossible: none does.
        """
        running = [
            broker.bootstrap
            for number, broker in enumerate(self._brokers)
            if broker.running and number not in self._frozen
        ]
        if not running:
            raise NotPossible("no broker runs")
        return ",".join(running)

    def _start(self, brokers: Iterable[Broker]) -> None:
        launched = []
        for broker in brokers:
            broker.launch()
            launched.append(broker)
        for broker in launched:
            broker.wait_ready()

    def _kept(self) -> Any:
        """What snapshots are of: a broker, or a cluster."""
        self.thaw_all()
        return self._brokers[0] if self.cluster is None else self.cluster

    def _snapshot_of(self, number: int) -> Snapshot | ClusterSnapshot:
        if number not in self._snapshots:
            known = ", ".join(map(str, self._snapshots)) or "none"
            raise NoSuchThing(f"there is no snapshot {number}; there are: {known}")
        return self._snapshots[number]

    def of(self, number: int) -> Broker:
        """
        A broker by its number.

        :raise NoSuchThing: there is none.
        """
        if not 0 <= number < len(self._brokers):
            raise NoSuchThing(f"there is no broker {number}; there are: {', '.join(map(str, self._numbers()))}")
        return self._brokers[number]

    def _numbers(self) -> range:
        return range(len(self._brokers))

    def _running(self, number: int) -> Broker:
        broker = self.of(number)
        if not broker.running:
            raise NotPossible(f"broker {number} does not run")
        return broker

    def _apart(self, number: int, change: str) -> Broker:
        """A running broker with a process of its own."""
        broker = self._running(number)
        if broker.in_process:
            raise NotPossible(
                f"the broker runs in the process of the test server, where it cannot be {change}; "
                "start the server with --own-process"
            )
        return broker


def in_one_line(error: BaseException) -> str:
    """What a failure says, in one line: of a message with a log, the first and the last."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [repr(error)]
    return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"
