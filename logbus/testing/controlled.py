"""A test's control of its broker and its clients: faults, time, snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from logbus.client import validators as check
from logbus.testing.control.channel_lines import ControlAddress
from logbus.testing.disk_filling import DiskFilling, FullDisk
from logbus.testing.errors import BrokerFailed, is_closed
from logbus.testing.faults.control import Faults
from logbus.testing.faults.rule_book import RuleBook
from logbus.testing.requests.history import RequestHistory
from logbus.testing.snapshots import Snapshot

if TYPE_CHECKING:
    from logbus.testing.admin import Admin
    from logbus.testing.broker_thread import BrokerThread
    from logbus.testing.control.control_channel import ControlChannel


class Controlled(ABC):
    """Base of brokers."""

    data_dir: Path
    in_process: bool
    controlled: bool
    timeout: float
    _closed = False

    def __init__(self) -> None:
        self._book = RuleBook()
        self._history = RequestHistory()
        self._filling = DiskFilling()
        self._channel: ControlChannel | None = None

    def _close_controls(self) -> None:
        """The broker is closed: handles that a test has kept say so."""
        self._book.close()
        self._history.close()
        self._filling.close()
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

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
    def _check_process(self) -> None:
        """
        Make sure that this process has made it.

        :raise BrokerFailed: this one was forked from that.
        """

    @abstractmethod
    def _own_thread(self) -> BrokerThread | None:
        """The broker in a thread of this process; None: it does not run, or in a process of its own."""

    if TYPE_CHECKING:

        @property
        def admin(self) -> Admin: ...

    @property
    def faults(self) -> Faults:
        """
        What happens to the requests of its clients: see :class:`~logbus.testing.faults.Faults`.

        :raise BrokerFailed: it is closed, or was made with ``controlled=False``.
        """
        self._require_open("faults")
        self._require_controls("faults")
        return Faults(self._book)

    @property
    def requests(self) -> RequestHistory:
        """
        The last requests of its clients: see :class:`~logbus.testing.requests.RequestHistory`.

        :raise BrokerFailed: it was made with ``controlled=False``.
        """
        self._require_controls("requests")
        return self._history

    def advance(self, by: timedelta | float) -> None:
        """
        Let time pass for the broker, without waiting: seconds, or a timedelta.

        Its clocks, of its timers and of the day, go forward. So members of groups whose heartbeats it gets none of
        meanwhile are expired, transactions abort, retention removes old segments: what is due happens, or is under way
        when this returns. Brokers of a :class:`~logbus.testing.local_cluster.LocalCluster` share the clocks; each in a
        process of its own has others, and ZooKeeper goes by the machine's.

        :raise BrokerFailed: it does not run, or was made with ``controlled=False``.
        :raise ValueError: it is not more than 0.
        """
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 1e10:
            raise ValueError(f"advance: {by!r} is no time to come: expected a timedelta, or seconds, more than 0")
        self._require_running("advance")
        if self._channel is not None:
            self._channel.advance(seconds, self.timeout)
        elif (runner := self._own_thread()) is not None:
            runner.thread.run(lambda: runner.controls.advance(seconds), self.timeout)

    def fence_producer(self, transactional_id: str) -> None:
        """
        Have the coordinator abort the transaction of an id and fence its producer, as another producer does that starts
        with the same id.

        :raise ApiError: it could not.
        :raise InvalidOption: this is no id.
        """
        check.text("transactional_id", transactional_id)
        self.admin.run(lambda client: client.terminate_transaction(transactional_id))

    def force_rebalance(self, group_id: str) -> None:
        """
        Have all members of a group of the classic protocol join again.

        :raise BrokerFailed: it has no such group with members, does not run, or was made with ``controlled=False``.
        """
        check.text("group_id", group_id)
        self._require_running("force_rebalance")
        done = False
        if self._channel is not None:
            done = self._channel.force_rebalance(group_id, self.timeout)
        elif (runner := self._own_thread()) is not None:

            async def rebalance() -> bool:
                return runner.controls.force_rebalance(group_id)

            done = runner.thread.run(rebalance, self.timeout)
        if not done:
            raise BrokerFailed(
                f"force_rebalance: there is no group {group_id!r} of the classic protocol with members here"
            )

    def fill_disk(self) -> FullDisk:
        """
        Have its disk refuse every write for lack of space, until the handle's ``free``, or the end of a ``with`` block.

        :raise BrokerFailed: it is closed, or was made with ``controlled=False``.
        """
        self._require_controls("fill_disk")
        return self._filling.fill()

    def snapshot(self) -> Snapshot:
        """
        The data of the broker as they are now, for :meth:`restore` and ``Broker(snapshot=...)``.

        A broker that runs is stopped for it, and started again: its clients connect again.

        :raise BrokerFailed: it is closed, or did not stop or start.
        """
        self._require_open("snapshot")
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

        :raise BrokerFailed: the snapshot or the broker is closed, or the broker did not stop or start.
        """
        _require_snapshot("restore", snapshot)
        self._require_open("restore")
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

    def _require_controls(self, what: str) -> None:
        self._check_process()
        if not self.controlled:
            raise BrokerFailed(f"{what}: the broker was made with controlled=False, and knows nothing of its test")

    def _require_running(self, what: str) -> None:
        self._require_open(what)
        self._require_controls(what)
        if not self.running:
            raise BrokerFailed(f"{what}: the broker does not run; start it first")

    def _require_open(self, what: str = "") -> None:
        self._check_process()
        if self._closed:
            raise is_closed(what)

    def _control(self) -> ControlAddress | None:
        """Where a broker in a process of its own finds this one."""
        if not self.controlled:
            return None
        if self._channel is None:
            from logbus.testing.control.control_channel import ControlChannel

            self._channel = ControlChannel(self._book, self._history, self._filling)
        return self._channel.address


def _require_snapshot(what: str, snapshot: object) -> None:
    if not isinstance(snapshot, Snapshot):
        raise TypeError(f"{what}: {snapshot!r} is none: expected what Broker.snapshot() gives")
    snapshot.require()
