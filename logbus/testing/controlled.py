"""What a test does to its broker and its clients: faults, time, snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logbus.testing.broker_process import BrokerFailed
from logbus.testing.disk_filling import DiskFilling, FullDisk
from logbus.testing.faults.control import Faults
from logbus.testing.faults.rule_book import RuleBook
from logbus.testing.reactor_thread import ReactorThread
from logbus.testing.requests.history import RequestHistory
from logbus.testing.snapshots import Snapshot

if TYPE_CHECKING:
    from logbus.broker import Broker as BrokerService
    from logbus.testing.admin import Admin


class Controlled(ABC):
    """Base of brokers."""

    data_dir: Path
    in_process: bool
    timeout: float

    def __init__(self) -> None:
        self._book = RuleBook()
        self._history = RequestHistory()
        self._filling = DiskFilling()

    @property
    @abstractmethod
    def running(self) -> bool:
        """Whether it was started and not stopped."""

    @abstractmethod
    def start(self) -> Any:
        """Start, and wait until clients are served."""

    @abstractmethod
    def stop(self) -> None:
        """Stop in order."""

    @abstractmethod
    def _own_thread(self) -> ReactorThread | None:
        """The thread it runs in; None: it does not run, or in a process of its own."""

    @abstractmethod
    def _service(self) -> BrokerService | None:
        """The broker, if it runs in this process."""

    if TYPE_CHECKING:

        @property
        def admin(self) -> Admin: ...

    @property
    def faults(self) -> Faults:
        """
        What happens to the requests of its clients: see :class:`~logbus.testing.faults.Faults`.

        :raise BrokerFailed: it runs in a process of its own.
        """
        self._require_thread("faults", "has none")
        return Faults(self._book)

    @property
    def requests(self) -> RequestHistory:
        """
        The last requests of its clients: see :class:`~logbus.testing.requests.RequestHistory`.

        :raise BrokerFailed: it runs in a process of its own.
        """
        self._require_thread("requests", "records none")
        return self._history

    def advance(self, by: timedelta | float) -> None:
        """
        Let time pass for the broker, without waiting: seconds, or a timedelta.

        Its clocks, of its timers and of the day, go forward. So members of groups whose heartbeats it gets none of
        meanwhile are expired, transactions abort, retention removes old segments: what is due happens, or is under way
        when this returns. Brokers of a :class:`~logbus.testing.local_cluster.LocalCluster` share the clocks.

        :raise BrokerFailed: it does not run, or in a process of its own.
        :raise ValueError: it is not more than 0.
        """
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 1e10:
            raise ValueError(f"advance: {by!r} is no time to come: expected a timedelta, or seconds, more than 0")
        self._require_thread("advance", "has the clock of the machine")
        thread = self._own_thread()
        if thread is None:
            raise BrokerFailed("advance: the broker does not run; start it first")
        thread.run(lambda: thread.clock.advance(thread.reactor, seconds), self.timeout)

    def fence_producer(self, transactional_id: str) -> None:
        """
        Have the coordinator abort the transaction of an id and fence its producer, as another producer does that starts
        with the same id.

        :raise ApiError: it could not.
        """
        self.admin.run(lambda client: client.terminate_transaction(transactional_id))

    def force_rebalance(self, group_id: str) -> None:
        """
        Have all members of a group of the classic protocol join again.

        :raise BrokerFailed: it runs in a process of its own, or has no such group with members.
        """
        self._require_thread("force_rebalance", "cannot be asked for it")
        thread, service = self._own_thread(), self._service()
        if thread is None or service is None:
            raise BrokerFailed("force_rebalance: the broker does not run; start it first")

        async def rebalance() -> bool:
            from logbus.coordination.classic.classic_group import ClassicGroup

            group = service.coordinators.groups.group(group_id)
            if not isinstance(group, ClassicGroup) or not group.members:
                return False
            group.rebalance(thread.reactor.seconds())
            return True

        if not thread.run(rebalance, self.timeout):
            raise BrokerFailed(
                f"force_rebalance: there is no group {group_id!r} of the classic protocol with members here"
            )

    def fill_disk(self) -> FullDisk:
        """
        Have its disk refuse every write for lack of space, until the handle's ``free``, or the end of a ``with`` block.

        :raise BrokerFailed: it runs in a process of its own.
        """
        self._require_thread("fill_disk", "has the disk of the machine")
        return self._filling.fill()

    def snapshot(self) -> Snapshot:
        """
        The data of the broker as they are now, for :meth:`restore` and ``Broker(snapshot=...)``.

        A broker that runs is stopped for it, and started again: its clients connect again.

        :raise BrokerFailed: it did not stop or start.
        """
        self._require_directory("snapshot")
        was_running = self.running
        if was_running:
            self.stop()
        made = Snapshot(self.data_dir)
        if was_running:
            self.start()
        return made

    def restore(self, snapshot: Snapshot) -> None:
        """
        Have the data of a snapshot in place of its own.

        A broker that runs is stopped for it, and started again: its clients connect again.

        :raise BrokerFailed: the snapshot is closed, or the broker did not stop or start.
        """
        _require_snapshot("restore", snapshot)
        self._require_directory("restore")
        was_running = self.running
        if was_running:
            self.stop()
        snapshot.write_to(self.data_dir)
        if was_running:
            self.start()

    def _begin_from(self, snapshot: Snapshot) -> None:
        """Put the data of a snapshot into the directory, which must be empty."""
        _require_snapshot("snapshot", snapshot)
        self._require_directory("snapshot")
        if self.data_dir.exists() and any(self.data_dir.iterdir()):
            raise BrokerFailed(f"snapshot: there are data in {self.data_dir} already; restore() replaces them")
        snapshot.write_to(self.data_dir)

    def _require_directory(self, what: str) -> None:
        if "log.dirs" in getattr(self, "config", {}):
            raise BrokerFailed(f"{what}: the data are in log.dirs; use data_dir instead")

    def _require_thread(self, what: str, otherwise: str) -> None:
        if not self.in_process:
            raise BrokerFailed(f"{what}: a broker in a process of its own {otherwise}; use Broker(in_process=True)")


def _require_snapshot(what: str, snapshot: object) -> None:
    if not isinstance(snapshot, Snapshot):
        raise TypeError(f"{what}: {snapshot!r} is none: expected what Broker.snapshot() gives")
    snapshot.require()
