"""The parts of a broker that a test controls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from logbus.errors import ApiError
from logbus.testing.disk_filling import DiskFilling
from logbus.testing.faults.rule_book import RuleBook
from logbus.testing.offset_clock import OffsetClock
from logbus.testing.requests.history import RequestHistory

if TYPE_CHECKING:
    from logbus.broker import Broker as BrokerService
    from logbus.config import ConfigView
    from logbus.testing.faults.injector import FaultInjector


@define(eq=False)
class BrokerControls:
    """
    :param reactor: the broker's.
    :ivar clock: the reactor's, and that of the day.
    :ivar book: what happens to requests.
    :ivar history: where they are recorded.
    :ivar filling: whether the disk is full.
    :ivar service: the broker, once it is made.
    """

    _reactor: Any
    clock: OffsetClock
    book: RuleBook
    history: RequestHistory
    filling: DiskFilling
    service: BrokerService | None = field(default=None, init=False)
    _injector: FaultInjector | None = field(default=None, init=False)

    def options(self, settings: ConfigView) -> dict[str, Any]:
        """What a broker is made with, so that it is controlled."""
        from logbus.config.keys import LOG_DIRS
        from logbus.protocols import protocol_plugins
        from logbus.storage.filesystem.disk import disks_at
        from logbus.testing.faults.injector import FaultInjector
        from logbus.testing.fillable_disk import FillableDisk
        from logbus.testing.requests.broker_view import BrokerView
        from logbus.testing.requests.interception import InterceptedKafka, KafkaListeners
        from logbus.testing.requests.recorder import Recorder

        def service() -> BrokerService:
            assert self.service is not None, "it serves before it is made"
            return self.service

        kafka = KafkaListeners()
        view = BrokerView(service)
        self._injector = FaultInjector(self._reactor, self.book, view, kafka.abort)
        intercepted = InterceptedKafka(Recorder(self.history, view), self._injector, kafka)
        directories = settings.get(LOG_DIRS)
        return {
            "wall_clock": self.clock.wall,
            "disks": disks_at(directories, self._reactor, lambda root, io: FillableDisk(root, io, self.filling)),
            "plugins": {**protocol_plugins(), "kafka": intercepted},
        }

    def started(self) -> None:
        """The broker serves: when time passes, it shall not take its timers for late."""
        assert self.service is not None
        self.clock.measured.append(self.service.ticks)

    def stopping(self) -> None:
        """The broker stops: nothing is held any more."""
        if self._injector is not None:
            self._injector.release()
        if self.service is not None and self.service.ticks in self.clock.measured:
            self.clock.measured.remove(self.service.ticks)

    async def advance(self, seconds: float) -> None:
        """Let so many seconds pass."""
        await self.clock.advance(self._reactor, seconds)

    def force_rebalance(self, group_id: str) -> bool:
        """Have all members of a group join again; False: it is no classic one with members here."""
        from logbus.coordination.classic.classic_group import ClassicGroup

        assert self.service is not None
        try:
            group = self.service.coordinators.groups.group(group_id)
        except ApiError:
            return False  # its coordinator is elsewhere, or there are no groups at all
        if not isinstance(group, ClassicGroup) or not group.members:
            return False
        group.rebalance(self._reactor.seconds())
        return True
